//! Output that fails, and what may be seen of it: on full disks, in files that others may not read, and from read-only
//! mounts.

use std::fs::{self, Permissions};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::support::{Done, esker, esker_in, esker_with, files, run, skip};

/// A mount, as long as it exists.
struct Mount(PathBuf);

impl Mount {
    /// Mounts `what` on the new directory `name` below `dir`; or says why that is not possible.
    fn new(dir: &Path, name: &str, what: &[&str]) -> Result<Self, String> {
        let at = dir.join(name);
        fs::create_dir(&at).unwrap();
        match Command::new("mount").args(what).arg(&at).output() {
            Ok(done) if done.status.success() => Ok(Mount(at)),
            Ok(done) => Err(String::from_utf8_lossy(&done.stderr).trim().to_owned()),
            Err(error) => Err(format!("mount: {error}")),
        }
    }

    /// The directory `what` once more, where nothing can be written.
    fn read_only(dir: &Path, name: &str, what: &Path) -> Result<Self, String> {
        let mount = Mount::new(dir, name, &["--bind", what.to_str().unwrap()])?;
        let done = Command::new("mount").args(["-o", "remount,ro,bind"]).arg(&mount.0).output().unwrap();
        match done.status.success() {
            true => Ok(mount),
            false => Err(String::from_utf8_lossy(&done.stderr).trim().to_owned()),
        }
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.0).status();
    }
}

#[track_caller]
fn ok(done: &Done) -> String {
    assert_eq!(done.code, 0, "{}", done.stderr());
    done.stdout()
}

/// The length of all files below `dir`.
fn bytes_below(dir: &Path) -> u64 {
    let mut found = Vec::new();
    files(dir, &mut found);
    found.iter().map(|path| fs::symlink_metadata(path).unwrap().len()).sum()
}

/// A shell has opened a file as standard output and writes to it too.
#[cfg(target_os = "linux")]
#[test]
fn a_file_that_is_standard_output_is_not_replaced() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    ok(&esker(dir, "--db store put k value"));
    std::os::unix::fs::symlink("/dev/stdout", dir.join("link")).unwrap();
    for target in ["/dev/stdout", "/dev/fd/1", "/proc/self/fd/1", "link"] {
        for command in [format!("export {target}"), format!("get k --file {target}")] {
            let script = format!(
                "echo before; {} --db store {command}; echo \"code $?\"",
                env!("CARGO_BIN_EXE_esker")
            );
            let mut shell = Command::new("sh");
            shell.args(["-c", &script]).current_dir(dir).env_remove("ESKER_DB").env_remove("ESKER_URL");
            let file = fs::File::create(dir.join("out")).unwrap();
            let done = shell.stdout(file).output().unwrap();
            let why = String::from_utf8_lossy(&done.stderr).into_owned();
            assert!(why.contains("for standard output, write -"), "{command}: {why}");
            assert_eq!(fs::read_to_string(dir.join("out")).unwrap(), "before\ncode 2\n", "{command}");
        }
    }
}

#[test]
fn output_that_finds_a_full_disk_leaves_nothing_there() {
    let dir = tempfile::tempdir().unwrap();
    let disk = match Mount::new(dir.path(), "disk", &["-t", "tmpfs", "-o", "size=4m", "tmpfs"]) {
        Ok(disk) => disk,
        Err(why) => return skip("output_that_finds_a_full_disk_leaves_nothing_there", &why),
    };
    fs::write(dir.path().join("small"), vec![b's'; 100 << 10]).unwrap();
    let noise: Vec<u8> = (0..6_u32 << 20).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    fs::write(dir.path().join("large"), noise).unwrap();
    ok(&esker(dir.path(), "put small --file small"));
    ok(&esker(dir.path(), "backup disk/backups"));
    let one = bytes_below(&disk.0);
    ok(&esker(dir.path(), "put large --file large"));

    let failed = esker(dir.path(), "backup disk/backups");
    assert_eq!(failed.code, 3, "{}", failed.stderr());
    assert_eq!(bytes_below(&disk.0), one, "what was copied is gone, and the first backup is there");
    ok(&esker(dir.path(), "restore disk/backups restored"));
    assert_eq!(ok(&esker(dir.path(), "--db restored count")), "1\n");

    for command in [
        "export disk/rows.jsonl",
        "export disk/rows.csv",
        "get large --file disk/large",
        "restore disk/backups disk/restored --backup 7",
        "export-tree disk/tree",
    ] {
        let failed = esker(dir.path(), command);
        assert_ne!(failed.code, 0, "{command}");
        assert_eq!(bytes_below(&disk.0), one, "{command}");
    }
    let failed = esker(dir.path(), "export disk/files/");
    assert_eq!(failed.code, 3);
    let mut left = Vec::new();
    files(&disk.0.join("files"), &mut left);
    assert!(!left.iter().any(|path| path.ends_with("%tmp") || path.ends_with("large")), "{left:?}");
}

#[test]
fn a_file_that_is_written_anew_keeps_its_permissions() {
    let dir = tempfile::tempdir().unwrap();
    ok(&esker(dir.path(), "put a 1"));
    ok(&esker(dir.path(), "put d/b 2"));
    ok(&esker(dir.path(), "export copy/"));
    let mode = |name: &str| fs::metadata(dir.path().join(name)).unwrap().mode() & 0o7777;
    let exports =
        [("export rows.csv", "rows.csv"), ("export rows.jsonl.gz", "rows.jsonl.gz"), ("get a --file a", "a")];
    for (command, name) in exports {
        ok(&esker(dir.path(), command));
        let plain = dir.path().join("plain");
        fs::write(&plain, "").unwrap();
        assert_eq!(mode(name), mode("plain"), "{command} makes an ordinary file");
        for kept in [0o600, 0o640, 0o444] {
            fs::set_permissions(dir.path().join(name), Permissions::from_mode(kept)).unwrap();
            ok(&esker(dir.path(), command));
            assert_eq!(mode(name), kept, "{command}");
        }
    }
    fs::set_permissions(dir.path().join("copy/d/b"), Permissions::from_mode(0o600)).unwrap();
    ok(&esker(dir.path(), "put d/b changed"));
    ok(&esker(dir.path(), "export copy/"));
    assert_eq!(
        (mode("copy/d/b"), fs::read(dir.path().join("copy/d/b")).unwrap()),
        (0o600, b"changed".to_vec())
    );
}

/// Runs `esker` with these arguments.
fn esker_args(dir: &Path, arguments: &[&str], stdin: &str) -> Done {
    let mut command = esker_in(dir);
    command.args(arguments);
    run(command, stdin.as_bytes())
}

/// A store whose last writes are in its log alone, because its process was killed.
fn killed_store(dir: &Path) {
    ok(&esker_with(dir, "--db store run -", b"PUT a 1\nPUT b 2\n"));
    fs::write(dir.join("huge"), vec![b'h'; 3 << 20]).unwrap();
    ok(&esker(dir, "--db store put huge --file huge"));
    ok(&esker(dir, "--db store --tree other put c 3"));
    let statements = "CREATE TABLE t (f); INSERT INTO t VALUES ('r', f:, 'cell')";
    ok(&esker_args(dir, &["--db", "store", "ql", "-e", statements], ""));
    let mut command = esker_in(dir);
    command
        .args(["--db", "store", "run", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    let (mut lines, answers) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
    lines.write_all(b"PUT late 4\nDELETE b\nGET late\n").unwrap();
    let mut answer = String::new();
    BufReader::new(answers).read_line(&mut answer).unwrap();
    assert_eq!(answer, "late 4\n");
    child.kill().unwrap();
    child.wait().unwrap();
}

/// A statement cannot make the first table there, and says why.
#[test]
fn a_store_without_tables_on_a_read_only_mount_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    ok(&esker(dir, "--db store put a 1"));
    fs::create_dir(dir.join("empty")).unwrap();
    let mounts = [("mount", "store"), ("none", "empty")]
        .map(|(name, what)| Mount::read_only(dir, name, &dir.join(what)));
    if let Some(why) = mounts.iter().find_map(|mount| mount.as_ref().err()) {
        return skip("a_store_without_tables_on_a_read_only_mount_is_named", why);
    }
    for statement in ["SHOW TABLES", "CREATE TABLE t (f)"] {
        let refused = esker_args(dir, &["--db", "mount", "ql", "-e", statement], "");
        assert_eq!(refused.code, 3, "{}", refused.stderr());
        let expected = "mount has no tables, and none can be made: ";
        assert!(refused.stderr().contains(expected), "{}", refused.stderr());
        assert!(refused.stderr().contains("Read-only file system"), "{}", refused.stderr());
    }
    ok(&esker(dir, "--db mount get a"));
    let refused = esker_args(dir, &["--db", "none", "ql", "-e", "SHOW TABLES"], "");
    assert_eq!((refused.code, refused.stdout().as_str()), (3, ""));
    assert!(refused.stderr().contains("there is no store at none"), "{}", refused.stderr());
    let refused = esker_args(dir, &["--db", "none", "ql", "-e", "CREATE TABLE t (f)"], "");
    assert_eq!(refused.code, 3);
    assert!(refused.stderr().contains("Read-only file system"), "{}", refused.stderr());
}

#[test]
fn a_store_on_a_read_only_mount_can_be_read_in_every_way() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    killed_store(dir);
    let mount = match Mount::read_only(dir, "mount", &dir.join("store")) {
        Ok(mount) => mount,
        Err(why) => return skip("a_store_on_a_read_only_mount_can_be_read_in_every_way", &why),
    };
    let before = fs::read_dir(&mount.0).unwrap().count();
    for arguments in [&["run", "-"][..], &["shell"]] {
        let done = esker_args(dir, &[&["--db", "mount"], arguments].concat(), "get late\n");
        assert!(done.stderr().contains("opened for reading only"), "{}", done.stderr());
        assert!(ok(&done).contains('4'));
        let refused = esker_args(dir, &[&["--db", "mount"], arguments].concat(), "put late 5\n");
        assert_eq!(refused.code, 3, "{}", refused.stderr());
        assert!(refused.stderr().contains("reading only"));
    }
    let select = esker_args(dir, &["--db", "mount", "ql", "-e", "SELECT * FROM t"], "");
    assert!(ok(&select).contains("cell"));
    let refused = esker_args(dir, &["--db", "mount", "ql", "-e", "INSERT INTO t VALUES ('r', f:, 'x')"], "");
    assert_eq!(refused.code, 3, "{}", refused.stderr());

    // Copies have every row, also those that only the log has.
    for n in ["1", "2"] {
        let told = esker(dir, "--db mount backup backups").stderr();
        assert!(told.contains(&format!("backup {n}:")), "{told}");
    }
    assert!(!dir.join("backups/backup.tmp").exists());
    ok(&esker(dir, "restore backups restored"));
    let whole = ok(&esker(dir, "--db mount export -"));
    assert!(whole.starts_with("a\t1\nhuge\th") && whole.ends_with("h\nlate\t4\n"), "{}", whole.len());
    assert_eq!(ok(&esker(dir, "--db restored export -")), whole);
    assert_eq!(ok(&esker(dir, "--db restored --tree other scan")), "c 3\n");
    assert_eq!(ok(&esker(dir, "--db restored check")), "ok\n");
    ok(&esker(dir, "--db mount export-tree tree"));
    assert_eq!(ok(&esker(dir, "--db tree export -")), whole);
    ok(&esker(dir, "--db mount --tree other export-tree other/"));
    assert_eq!(ok(&esker(dir, "--db new put x y")), "");
    ok(&esker(dir, "--db new --tree other import-tree other"));
    assert_eq!(ok(&esker(dir, "--db new --tree other scan")), "c 3\n");
    let missing = esker(dir, "--db mount --tree none export-tree none");
    assert!(missing.code == 3 && missing.stderr().contains("none"), "{}", missing.stderr());
    assert!(
        !dir.join("none").exists()
            && !dir.join("none.copy.tmp").exists()
            && !dir.join("tree.copy.tmp").exists()
    );
    assert_eq!(fs::read_dir(&mount.0).unwrap().count(), before);

    ok(&esker(dir, "--db mount checkpoint checkpoint"));
    assert_eq!(ok(&esker(dir, "--db checkpoint export -")), whole);
    assert_eq!(ok(&esker(dir, "--db checkpoint --tree other scan")), "c 3\n");
    assert_eq!(ok(&esker(dir, "--db checkpoint check")), "ok\n");
    assert_eq!(ok(&esker(dir, "--db checkpoint put x y")), "");
    assert_eq!(esker(dir, "--db mount checkpoint checkpoint").code, 3, "it exists");
    let inside = esker(dir, "--db mount checkpoint mount/inside");
    assert_eq!(inside.code, 2, "{}", inside.stderr());
    for arguments in ["check", "count", "get late", "scan", "ls", "stats", "trees", "export rows.jsonl"] {
        ok(&esker(dir, &format!("--db mount {arguments}")));
    }

    // Another store's backups are refused, as always.
    ok(&esker(dir, "--db new backup new-backups"));
    assert_eq!(esker(dir, "--db mount backup new-backups").code, 2);
}

/// Runs an export from the n-th call `call` of the file `of` on failing all the time, or only in the n-th of any file.
#[cfg(target_os = "linux")]
fn failing_export(dir: &Path, store: &str, target: &str, call: &str, nth: usize, of: Option<&str>) -> Done {
    let mut command = Command::new("strace");
    command.args(["-f", "-o", "/dev/null"]);
    if let Some(of) = of {
        command.arg("-P").arg(dir.join(of));
    }
    let lasts = if of.is_some() { "+" } else { "" };
    command.arg("-e").arg(format!("inject={call}:error=EIO:when={nth}{lasts}"));
    command.arg(env!("CARGO_BIN_EXE_esker")).args(["--db", store, "export", target]);
    command.current_dir(dir).env_remove("ESKER_DB").env_remove("ESKER_URL");
    run(command, b"")
}

/// A value that no compression makes short.
#[cfg(target_os = "linux")]
fn value(number: usize) -> String {
    let digit = |at: usize| (number * 31 + at).wrapping_mul(0x9e37_79b9_7f4a_7c15) as u64 >> 40;
    (0..50).map(|at| format!("{:06x}", digit(at))).collect()
}

/// A file of the store `store` of this kind, as a path from `dir`.
#[cfg(target_os = "linux")]
fn stored(dir: &Path, store: &str, kind: &str) -> String {
    let mut found = Vec::new();
    files(&dir.join(store), &mut found);
    let path = found.into_iter().find(|path| path.to_str().unwrap().ends_with(kind)).unwrap();
    path.strip_prefix(dir).unwrap().to_str().unwrap().to_owned()
}

/// The device fails while an export reads the store or writes its output: the message names the file, and the key that was read
/// before or whose value cannot be read. A file keeps what it had, and a directory has whole values only.
#[cfg(target_os = "linux")]
#[test]
fn an_export_that_fails_says_where_and_leaves_nothing_half_written() {
    if !crate::support::can_trace("an_export_that_fails_says_where_and_leaves_nothing_half_written") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let mut commands: String =
        (0..3000).map(|number| format!("PUT k{number:04} {}\n", value(number))).collect();
    let huge = "x".repeat(40_000);
    commands.push_str(&format!("PUT m {huge}\nPUT z last\n"));
    fs::write(dir.join("commands"), commands).unwrap();
    ok(&esker_args(dir, &["--db", "store", "run", "commands"], ""));
    ok(&esker_args(dir, &["--db", "store", "compact"], ""));
    let (table, blob) = (stored(dir, "store", ".table"), stored(dir, "store", ".blob"));
    let names = |at: &Path| {
        let mut names: Vec<_> = fs::read_dir(at).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        names
    };
    fs::write(dir.join("out.jsonl"), "as before").unwrap();
    let before = names(dir);
    let mut said = std::collections::BTreeMap::<&str, u64>::new();
    let mut middle = 0;
    for of in [&table, &blob] {
        for nth in 1.. {
            let done = failing_export(dir, "store", "out.jsonl", "pread64", nth, Some(of));
            if done.code == 0 {
                assert!(nth > 3, "{of} is not read");
                fs::write(dir.join("out.jsonl"), "as before").unwrap();
                break;
            }
            let why = done.stderr();
            assert_eq!(done.code, 3, "{why}");
            middle = if why.contains("the rows after \"k") { nth } else { middle };
            assert!(why.contains(&**of) && why.contains("Input/output error"), "{why}");
            // What fails while the store is opened concerns all rows.
            for what in ["the first rows cannot", "the rows after \"k", "the value of \"m\" cannot"] {
                *said.entry(what).or_default() += u64::from(why.contains(what));
            }
            assert_eq!(fs::read(dir.join("out.jsonl")).unwrap(), b"as before", "{why}");
            assert_eq!(names(dir), before, "{why}");
        }
    }
    assert!(said["the rows after \"k"] > 1 && said["the value of \"m\" cannot"] > 0, "{said:?}");

    // The first row that is not read is the one after that which the message names.
    let done = failing_export(dir, "store", "copy/", "pread64", middle, Some(&table));
    let why = done.stderr();
    let last = why.split("the rows after \"k").nth(1).and_then(|rest| rest[..4].parse::<usize>().ok());
    let last = last.unwrap_or_else(|| panic!("{why}"));
    assert_eq!((done.code, names(&dir.join("copy")).len()), (3, last + 2), "{why}");
    for number in 0..=last {
        assert_eq!(fs::read_to_string(dir.join(format!("copy/k{number:04}"))).unwrap(), value(number));
    }
    let done = failing_export(dir, "store", "values/", "pread64", 4, Some(&blob));
    assert_eq!(done.code, 3, "{}", done.stderr());
    assert!(done.stderr().contains("\"m\"") && done.stderr().contains(&*blob), "{}", done.stderr());
    assert!(!dir.join("values/m").exists() && !dir.join("values/%tmp").exists());

    // Its own output.
    for target in ["out.jsonl", "new.csv", "new.csv.gz"] {
        let before = names(dir);
        let done = failing_export(dir, "store", target, "write", 1, None);
        assert_eq!(done.code, 3, "{target}: {}", done.stderr());
        assert!(done.stderr().contains(&format!("cannot write {target}")), "{}", done.stderr());
        assert_eq!(names(dir), before, "{target}");
        assert_eq!(fs::read(dir.join("out.jsonl")).unwrap(), b"as before");
    }
}

/// The device fails while an export reads the elements of a collection: the message names its key.
#[cfg(target_os = "linux")]
#[test]
fn an_export_names_the_collection_whose_elements_cannot_be_read() {
    if !crate::support::can_trace("an_export_names_the_collection_whose_elements_cannot_be_read") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let all = |element: &dyn Fn(usize) -> String| (0..3000).map(element).collect::<Vec<_>>().join(",");
    let kinds = [
        ("hash", format!("{{{}}}", all(&|number| format!("\"f{number}\":\"{}\"", value(number))))),
        ("list", format!("[{}]", all(&|number| format!("\"{}\"", value(number))))),
        ("set", format!("[{}]", all(&|number| format!("\"{}\"", value(number))))),
        ("zset", format!("{{{}}}", all(&|number| format!("\"{}\":{number}", value(number))))),
    ];
    for (kind, elements) in kinds {
        let row = format!("{{\"key\":\"k\",\"type\":\"{kind}\",\"value\":{elements}}}\n");
        fs::write(dir.join("in.jsonl"), row).unwrap();
        ok(&esker_args(dir, &["--db", kind, "import", "in.jsonl"], ""));
        ok(&esker_args(dir, &["--db", kind, "compact"], ""));
        let table = stored(dir, kind, ".table");
        let mut named = 0;
        for nth in (1..).step_by(3) {
            let done = failing_export(dir, kind, "out.jsonl", "pread64", nth, Some(&table));
            if done.code == 0 {
                break;
            }
            let why = done.stderr();
            assert!(done.code == 3 && why.contains(&*table) && why.contains("Input/output error"), "{why}");
            named += u64::from(why.contains("the elements of \"k\" cannot be read"));
            assert!(!dir.join("out.jsonl").exists(), "{why}");
        }
        assert!(named > 3, "{kind}: {named}");
        fs::remove_file(dir.join("out.jsonl")).unwrap();
    }
}
