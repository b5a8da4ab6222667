//! Directories on their way in and out under bad conditions: what is no file, names and files that are odd, files
//! that change, interruptions, and directories that were prepared to lead an export astray.

use std::ffi::OsStr;
use std::fs::{self, OpenOptions, Permissions};
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::net::UnixListener;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, UNIX_EPOCH};

use super::{MIB, content, done, random, write};
use crate::support::{Done, esker, esker_in, files, run};

const SIGINT: i32 = 2;

/// What an export of everything in `dir`'s store holds, without the marker.
fn exported(dir: &Path, to: &str) -> Vec<(PathBuf, Vec<u8>)> {
    done(&esker(dir, &format!("export {to}/")));
    let mut all = content(&dir.join(to));
    all.retain(|(path, _)| path != Path::new(".esker-export"));
    all
}

fn interrupt(child: &Child) {
    let status = Command::new("sh").arg("-c").arg(format!("kill -INT {}", child.id())).status().unwrap();
    assert!(status.success());
}

/// Starts `esker` and interrupts it once `is_time`; whether it was not done before.
fn interrupted(dir: &Path, arguments: &str, mut is_time: impl FnMut() -> bool) -> bool {
    let mut command = esker_in(dir);
    command.args(arguments.split(' ')).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    while !is_time() {
        if let Some(status) = child.try_wait().unwrap() {
            assert!(status.success());
            return false;
        }
        std::thread::yield_now();
    }
    interrupt(&child);
    child.wait().unwrap().signal() == Some(SIGINT)
}

/// How many bytes the files of a directory have, as far as they are there.
fn bytes_in(dir: &Path) -> u64 {
    let Ok(entries) = fs::read_dir(dir) else { return 0 };
    let lens = entries.filter_map(|entry| entry.ok()?.metadata().ok()).map(|meta| meta.len());
    lens.sum()
}

/// The number in front of `what`.
fn count(summary: &str, what: &str) -> u64 {
    let Some((before, _)) = summary.split_once(what) else { return 0 };
    before.split_whitespace().next_back().unwrap().replace(',', "").parse().unwrap()
}

#[test]
fn what_is_no_file_is_left_out_and_counted() {
    let dir = tempfile::tempdir().unwrap();
    let media = dir.path().join("media");
    write(&media.join("film"), b"film");
    write(&media.join("sub/photo"), b"photo");
    fs::create_dir_all(media.join("empty/below")).unwrap();
    symlink("film", media.join("to a file")).unwrap();
    symlink("..", media.join("sub/up")).unwrap();
    symlink("itself", media.join("itself")).unwrap();
    symlink("nowhere", media.join("nowhere else")).unwrap();
    assert!(Command::new("mkfifo").arg(media.join("fifo")).status().unwrap().success());
    let _socket = UnixListener::bind(media.join("socket")).unwrap();
    symlink("media", dir.path().join("link")).unwrap();

    let imported = esker(dir.path(), "import media");
    done(&imported);
    let said = imported.stderr();
    assert!(said.contains("2 files in"), "{said}");
    assert!(said.contains("4 symbolic links left out; the first is media/itself\n"), "{said}");
    assert!(said.contains("2 pipes, sockets or devices left out; the first is media/fifo\n"), "{said}");
    // The directory itself may be a link.
    let again = esker(dir.path(), "import link");
    assert!(again.stderr().contains(": 2 unchanged"), "{}", again.stderr());
    let back = exported(dir.path(), "back");
    assert_eq!(back, [("film".into(), b"film".to_vec()), ("sub/photo".into(), b"photo".to_vec())]);
    assert!(!dir.path().join("back/empty").exists(), "an empty directory leaves nothing");
}

#[test]
fn odd_names_come_back() {
    let dir = tempfile::tempdir().unwrap();
    let media = dir.path().join("media");
    let longest = "n".repeat(255);
    let deep: PathBuf = std::iter::repeat_n("d".repeat(200), 18).collect();
    let names: [&[u8]; 9] = [
        b"\xff\xfe not UTF-8",
        b"two\nlines\r",
        b".hidden",
        b"...",
        b" blank ",
        b"100%",
        b"%tmp",
        "höhe".as_bytes(),
        longest.as_bytes(),
    ];
    for name in names {
        write(&media.join(OsStr::from_bytes(name)), name);
    }
    write(&media.join(&deep).join("leaf"), &random(1, 40_000));
    let imported = esker(dir.path(), "import media");
    done(&imported);
    assert!(imported.stderr().contains("10 files"), "{}", imported.stderr());
    let keys = esker(dir.path(), "scan --keys-only");
    assert!(keys.stdout.windows(names[0].len()).any(|part| part == names[0]), "a key is the name as it is");

    done(&esker(dir.path(), "export back/"));
    done(&esker(dir.path(), "--db again.db import back"));
    let all = |db: &str| esker(dir.path(), &format!("scan --json --db {db}")).stdout;
    assert!(all("esker.db") == all("again.db"));
    assert!(esker(dir.path(), "import back").stderr().contains(": 10 unchanged"));
}

/// A directory remembers the types of what was exported, and the notation of its names.
#[test]
fn an_export_goes_back_with_its_types() {
    let dir = tempfile::tempdir().unwrap();
    let esker = |arguments: &str| esker(dir.path(), arguments);
    let all = |db: &str, tree: &str| {
        let printed = esker(&format!("scan --json --db {db} --tree {tree}"));
        done(&printed);
        printed.stdout()
    };
    let types = |tree: &str| {
        let trees = esker("trees --json --db new.db").stdout();
        let line =
            trees.lines().find(|line| line.contains(&format!("\"tree\":\"{tree}\""))).unwrap().to_owned();
        line.split_once("\"keys\"").unwrap().1.to_owned()
    };
    let trees = [
        ("numbers", "--keys u64 --values i64 put 17 -250", "\"u64\",\"values\":\"i64\""),
        ("several", "--keys text,i32 put oslo,-7 x", "\"text,i32\",\"values\":\"text\""),
        ("objects", "--values json put a {\"b\":[1.50]}", "\"text\",\"values\":\"json\""),
        ("bytes", "--keys hex put 00ff 2", "\"hex\",\"values\":\"text\""),
    ];
    done(&esker("put 17 x --db new.db --tree text"));
    done(&esker("--keys u64 put 5 x --db new.db --tree u64"));
    for (tree, put, expected) in trees {
        let put = put.replace("put 17 -250", "put 17 -- -250").replace("put oslo,-7 x", "put -- oslo,-7 x");
        done(&esker(&format!("--tree {tree} {put}")));
        done(&esker(&format!("--tree {tree} export {tree}/")));
        done(&esker(&format!("--db new.db --tree {tree} import {tree}")));
        assert_eq!(all("new.db", tree), all("esker.db", tree));
        assert!(types(tree).contains(expected), "{tree}: {}", types(tree));
        // The same into the same tree changes nothing.
        let again = esker(&format!("--db new.db --tree {tree} import {tree}"));
        assert!(again.stderr().contains(": 1 unchanged"), "{}", again.stderr());
    }
    let before = all("new.db", "text");
    for (tree, what) in [("numbers", "u64 keys"), ("several", "text,i32 keys")] {
        let refused = esker(&format!("--db new.db --tree text import {tree}"));
        let expected = format!("{tree} is an export with {what}, and the tree \"text\" has text keys");
        assert!(refused.code == 2 && refused.stderr().contains(&expected), "{}", refused.stderr());
    }
    done(&esker("--tree sizes --values i64 put a 1"));
    done(&esker("--tree sizes export sizes/"));
    let refused = esker("--db new.db --tree text import sizes");
    assert!(
        refused.stderr().contains("with i64 values, and the tree \"text\" has text values"),
        "{}",
        refused.stderr()
    );
    assert_eq!(all("new.db", "text"), before);
    // JSON is text, and the user may say what the names are.
    done(&esker("--db new.db --tree text import objects"));
    done(&esker("--db new.db --tree text --keys text import several"));
    assert_eq!(esker("--db new.db --tree text scan --keys-only").stdout(), "17\na\noslo,-7\n");
    // Names in a notation for bytes are these bytes in each tree.
    done(&esker("--tree numbers --keys hex export hex/"));
    done(&esker("--db new.db --tree numbers import hex"));
    assert_eq!(all("new.db", "numbers"), all("esker.db", "numbers"));
    assert_eq!(esker("--db new.db --tree u64 import bytes").code, 2);
}

#[test]
fn holes_are_zeros() {
    let dir = tempfile::tempdir().unwrap();
    let media = dir.path().join("media");
    let mut expected = vec![0; 9 * MIB + 5];
    expected[4 * MIB..4 * MIB + 3].copy_from_slice(b"abc");
    write(&media.join("sparse"), b"");
    let file = OpenOptions::new().write(true).open(media.join("sparse")).unwrap();
    file.set_len(expected.len() as u64).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&file, b"abc", 4 * MIB as u64).unwrap();
    done(&esker(dir.path(), "import media"));
    assert!(exported(dir.path(), "back") == [("sparse".into(), expected)]);
}

/// As somebody who may not read everything. The superuser may, so then as somebody else.
fn unprivileged(dir: &Path, arguments: &str) -> Done {
    let binary = dir.join("esker");
    let mut command = esker_in(dir);
    if fs::read(dir.join("media/secret")).is_ok() {
        fs::copy(env!("CARGO_BIN_EXE_esker"), &binary).unwrap();
        let args: Vec<&str> = arguments.split(' ').collect();
        command = Command::new(&binary);
        command.args(args).current_dir(dir).env_remove("ESKER_DB").uid(65_534).gid(65_534);
    } else {
        command.args(arguments.split(' '));
    }
    run(command, b"")
}

#[test]
fn what_cannot_be_read_is_named_and_the_others_are_taken() {
    let dir = tempfile::tempdir().unwrap();
    let media = dir.path().join("media");
    write(&media.join("film"), &random(1, 2 * MIB));
    write(&media.join("secret"), b"secret");
    write(&media.join("closed/photo"), b"photo");
    write(&media.join("zoo"), b"zoo");
    for (path, mode) in [("", 0o777), ("media/secret", 0), ("media/closed", 0)] {
        fs::set_permissions(dir.path().join(path), Permissions::from_mode(mode)).unwrap();
    }
    let imported = unprivileged(dir.path(), "import media");
    fs::set_permissions(media.join("closed"), Permissions::from_mode(0o755)).unwrap();
    let said = imported.stderr();
    assert_eq!(imported.code, 3, "{said}");
    assert!(said.contains("cannot read media/closed: Permission denied"), "{said}");
    assert!(said.contains("cannot read media/secret: Permission denied"), "{said}");
    assert!(
        said.contains("2 files in")
            && said.contains("2 files or directories, named above, were not imported"),
        "{said}"
    );
    fs::set_permissions(media.join("secret"), Permissions::from_mode(0o644)).unwrap();
    let again = esker(dir.path(), "import media");
    done(&again);
    assert!(again.stderr().contains("2 stored, 2 unchanged"), "{}", again.stderr());
}

/// The import waits that long before it reads what was changed: times of files go in steps.
const SETTLED: Duration = Duration::from_millis(200);

/// Gives the file `path` so many times the same byte, in its place. Whether that was done well before an import takes the
/// file for one that nobody writes to: a busy machine may hold a writer up for longer.
fn fill(path: &Path, byte: u8) -> bool {
    let bytes = vec![byte; 12 * MIB];
    let mut file = OpenOptions::new().write(true).create(true).truncate(false).open(path).unwrap();
    let begun = Instant::now();
    file.write_all(&bytes).unwrap();
    begun.elapsed() < SETTLED / 2
}

/// Imports `media`, and fills `path` anew whenever that reads it, but at most `times`. How often it did; `None` where a
/// writer was held up.
fn provoked(dir: &Path, path: &Path, times: u8) -> (Done, Option<u8>) {
    let mut command = esker_in(dir);
    command.args(["import", "media"]).stdin(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let descriptors = PathBuf::from(format!("/proc/{}/fd", child.id()));
    let is_read = || {
        let open = fs::read_dir(&descriptors).into_iter().flatten().flatten();
        open.into_iter().any(|fd| fs::read_link(fd.path()).is_ok_and(|target| target == path))
    };
    let is_settled = || {
        let changed = fs::metadata(path).unwrap().modified().unwrap();
        changed.elapsed().is_ok_and(|age| age > SETTLED)
    };
    let (mut done, mut in_time) = (0, true);
    while child.try_wait().unwrap().is_none() {
        if done < times && is_read() && is_settled() {
            done += 1;
            in_time &= fill(path, done);
        }
        std::thread::yield_now();
    }
    let output = child.wait_with_output().unwrap();
    (
        Done { code: output.status.code().unwrap_or(-1), stdout: output.stdout, stderr: output.stderr },
        in_time.then_some(done),
    )
}

/// What is stored of a file of which all bytes are the same whenever nobody writes to it is never a mixture.
#[test]
fn a_file_that_changes_while_it_is_read_is_stored_whole_or_named() {
    let dir = tempfile::tempdir().unwrap();
    let media = dir.path().join("media");
    write(&media.join("quiet"), b"quiet");
    let film = fs::canonicalize(&media).unwrap().join("film");
    fill(&film, 0);
    for times in [1, 2, u8::MAX] {
        // On a busy machine an import may be done before it is seen to read.
        let imports = (0..50).map(|_| provoked(dir.path(), &film, times));
        let mut counted = imports.filter_map(|(import, changes)| Some((import, changes?)));
        let (import, changes) = counted.find(|(_, changes)| *changes > 0).unwrap();
        let said = import.stderr();
        let named = said.contains("media/film: changed while it was read, so it was not stored");
        println!("{changes} changes at most {times}: {}", if named { "refused" } else { "stored" });
        assert_eq!(import.code, if named { 3 } else { 0 }, "{said}");
        assert_eq!(count(&said, " files in"), 2 - u64::from(named), "{said}");
        let stored = exported(dir.path(), &format!("after-{times}"));
        let of_film = stored.iter().find(|(path, _)| path == Path::new("film"));
        if let Some((_, bytes)) = of_film {
            assert!(bytes.len() == 12 * MIB && bytes.iter().all(|byte| *byte == bytes[0]), "torn: {said}");
        }
        assert!(!named || times > 2, "read again after {changes} changes: {said}");
    }
    done(&esker(dir.path(), "import media"));
    assert!(exported(dir.path(), "last") == content(&media));
}

#[test]
fn a_file_that_is_written_to_all_the_time_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let media = dir.path().join("media");
    write(&media.join("quiet"), b"quiet");
    write(&media.join("log"), b"a line\n");
    let over = AtomicBool::new(false);
    let imported = std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut log = OpenOptions::new().append(true).open(media.join("log")).unwrap();
            while !over.load(Ordering::Relaxed) {
                log.write_all(b"a line\n").unwrap();
            }
        });
        // A writer that a busy machine holds up leaves a file that is still for a while.
        let mut imports = (0..50).map(|_| esker(dir.path(), "import media"));
        let imported = imports.find(|imported| imported.code != 0);
        over.store(true, Ordering::Relaxed);
        imported.unwrap()
    });
    let said = imported.stderr();
    assert_eq!(imported.code, 3, "{said}");
    assert!(said.contains("media/log: changed while it was read") && said.contains("1 files in"), "{said}");
    done(&esker(dir.path(), "import media"));
    assert!(exported(dir.path(), "back") == content(&media));
}

#[test]
fn an_interrupted_import_goes_on_where_it_stopped() {
    let dir = tempfile::tempdir().unwrap();
    let media = dir.path().join("media");
    for i in 0..40 {
        let len = if i % 4 == 0 { 500 * i } else { 2 * MIB + i };
        write(&media.join(format!("{i:02}")), &random(i as u64, len));
    }
    let store = dir.path().join("esker.db");
    let mut cut = 0;
    for part in 1..=4 {
        let enough = part * 15 * MIB as u64;
        cut += u64::from(interrupted(dir.path(), "import media", || bytes_in(&store) > enough));
        if store.exists() {
            assert_eq!(esker(dir.path(), "check").stdout(), "ok\n");
        }
    }
    assert!(cut > 0, "no import was interrupted");
    let keys = esker(dir.path(), "scan --keys-only");
    done(&keys);
    let whole = keys.stdout().lines().count() as u64;
    for (path, bytes) in exported(dir.path(), "part") {
        assert!(fs::read(media.join(&path)).unwrap() == bytes, "{} is whole", path.display());
    }

    let rest = esker(dir.path(), "import media");
    done(&rest);
    let said = rest.stderr();
    assert_eq!((count(&said, " unchanged"), count(&said, " stored")), (whole, 40 - whole), "{said}");
    assert!(whole > 5, "{whole} files were whole");
    assert!(exported(dir.path(), "all") == content(&media));
}

/// Neither length nor time tells that a file was changed.
#[test]
fn a_second_import_takes_what_changed_whatever_its_time_says() {
    let dir = tempfile::tempdir().unwrap();
    let media = dir.path().join("media");
    for (name, len) in [("film", 3 * MIB), ("photo", 50_000), ("note", 10), ("same", MIB)] {
        write(&media.join(name), &random(len as u64, len));
    }
    done(&esker(dir.path(), "import media"));
    for (days, name) in [(1000, "film"), (0, "photo"), (0, "note")] {
        let path = media.join(name);
        let before = fs::metadata(&path).unwrap().modified().unwrap();
        let mut bytes = fs::read(&path).unwrap();
        *bytes.last_mut().unwrap() ^= 1;
        fs::write(&path, bytes).unwrap();
        let time = before - Duration::from_secs(days * 86_400);
        OpenOptions::new().write(true).open(&path).unwrap().set_modified(time).unwrap();
    }
    // And a time that says more than there is.
    let same = OpenOptions::new().write(true).open(media.join("same")).unwrap();
    same.set_modified(std::time::SystemTime::now() + Duration::from_secs(86_400)).unwrap();
    let again = esker(dir.path(), "import media");
    done(&again);
    assert!(again.stderr().contains("3 stored, 1 unchanged"), "{}", again.stderr());
    assert!(exported(dir.path(), "back") == content(&media));
}

#[test]
fn an_interrupted_export_goes_on_where_it_stopped() {
    let dir = tempfile::tempdir().unwrap();
    let media = dir.path().join("media");
    for i in 0..30 {
        write(&media.join(format!("{i:02}")), &random(i as u64, 2 * MIB + i));
    }
    write(&media.join("d".repeat(250)), b"its key is too long for a name");
    done(&esker(dir.path(), "import media"));
    let back = dir.path().join("back");
    let cut = interrupted(dir.path(), "export back/", || bytes_in(&back) > 20 * MIB as u64);
    assert!(cut, "the export was not interrupted");
    let mut given = content(&media);
    for (path, bytes) in content(&back) {
        if ![".esker-export", "%tmp"].map(Path::new).contains(&path.as_path()) {
            assert!(given.contains(&(path.clone(), bytes)), "{} is whole", path.display());
        }
    }
    // What is there already is not written again, unless it differs.
    let (kept, other) = (back.join("00"), back.join("01"));
    let inode = |path: &Path| std::os::unix::fs::MetadataExt::ino(&fs::metadata(path).unwrap());
    let (kept_before, other_before) = (inode(&kept), inode(&other));
    OpenOptions::new().write(true).open(&other).unwrap().set_len(100).unwrap();
    done(&esker(dir.path(), "export back/"));
    assert!(inode(&kept) == kept_before && inode(&other) != other_before);
    assert!(!back.join("%tmp").exists());

    let mut all = content(&back);
    all.retain(|(path, _)| path != Path::new(".esker-export") && !path.starts_with("%long"));
    given.retain(|(path, _)| !path.starts_with("d".repeat(250)));
    assert!(all == given);
    done(&esker(dir.path(), "--db again.db import back"));
    let again = esker(dir.path(), "--db again.db import media");
    assert!(
        again.stderr().contains("31 files") && again.stderr().contains(": 31 unchanged"),
        "{}",
        again.stderr()
    );
}

#[test]
fn an_exported_file_has_the_time_at_which_it_was_stored() {
    let dir = tempfile::tempdir().unwrap();
    write(&dir.path().join("media/film"), &random(1, MIB));
    done(&esker(dir.path(), "import media"));
    let listed = esker(dir.path(), "ls --json").stdout();
    done(&esker(dir.path(), "export back/"));
    let modified = fs::metadata(dir.path().join("back/film")).unwrap().modified().unwrap();
    let seconds = modified.duration_since(UNIX_EPOCH).unwrap().as_secs();
    let day = |command: &str| {
        let printed =
            Command::new("date").args(["-u", "-d", command, "+%Y-%m-%dT%H:%M:%SZ"]).output().unwrap();
        String::from_utf8(printed.stdout).unwrap().trim().to_owned()
    };
    let stored = day(&format!("@{seconds}"));
    assert!(listed.contains(&format!("\"stored\":\"{stored}\"")), "{listed} {stored}");
    assert!(modified.elapsed().unwrap_or_default() < Duration::from_secs(3600));
}

/// Somebody has put links where an export wants to write.
#[test]
fn an_export_that_goes_on_follows_no_link() {
    let dir = tempfile::tempdir().unwrap();
    write(&dir.path().join("media/a/b/film"), b"film");
    write(&dir.path().join("media/photo"), b"photo");
    write(&dir.path().join("outside/precious"), b"precious");
    done(&esker(dir.path(), "import media"));
    done(&esker(dir.path(), "export back/"));
    let back = dir.path().join("back");

    // In the place of a file and of what is being written: the link goes, what it leads to stays.
    fs::remove_file(back.join("photo")).unwrap();
    symlink("../outside/precious", back.join("photo")).unwrap();
    symlink("../outside/precious", back.join("%tmp")).unwrap();
    done(&esker(dir.path(), "export back"));
    assert!(fs::symlink_metadata(back.join("photo")).unwrap().is_file());
    assert_eq!(fs::read(back.join("photo")).unwrap(), b"photo");

    // In the place of a directory.
    fs::remove_dir_all(back.join("a/b")).unwrap();
    symlink("../../outside", back.join("a/b")).unwrap();
    let refused = esker(dir.path(), "export back");
    assert_eq!(refused.code, 2, "{}", refused.stderr());
    assert!(refused.stderr().contains("back/a/b is in the way"), "{}", refused.stderr());
    let mut outside = Vec::new();
    files(&dir.path().join("outside"), &mut outside);
    assert_eq!(outside, [dir.path().join("outside/precious")]);
    assert_eq!(fs::read(&outside[0]).unwrap(), b"precious");
}
