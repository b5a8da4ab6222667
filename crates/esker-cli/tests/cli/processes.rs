//! What only shows between processes: pipes, locks, full devices, kills, damaged files.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Stdio};

use crate::support::{Rng, esker, esker_in, esker_with, files, skip};

/// `esker run -` with open pipes.
fn runner(dir: &Path) -> Child {
    let mut command = esker_in(dir);
    command.args(["run", "-"]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    command.spawn().unwrap()
}

/// Rows of more bytes than a pipe holds.
fn fill(dir: &Path) {
    let lines: String = (0..20_000).map(|i| format!("PUT {i:05} {}\n", "x".repeat(100))).collect();
    let done = esker_with(dir, "run -", lines.as_bytes());
    assert_eq!(done.code, 0, "{}", done.stderr());
}

#[test]
fn answers_come_while_the_pipe_is_open_and_the_store_is_locked_meanwhile() {
    let dir = tempfile::tempdir().unwrap();
    let mut child = runner(dir.path());
    let mut stdin = child.stdin.take().unwrap();
    let mut answers = BufReader::new(child.stdout.take().unwrap());
    for i in 0..3 {
        write!(stdin, "PUT a {i}\nGET a\n").unwrap();
        let mut answer = String::new();
        answers.read_line(&mut answer).unwrap();
        assert_eq!(answer, format!("a {i}\n"));
    }
    for command in ["get a", "put a 1", "scan", "compact", "run /dev/null"] {
        let done = esker(dir.path(), command);
        assert_eq!(done.code, 3, "{command}: {}", done.stderr());
        assert!(
            done.stderr().starts_with("esker: ") && done.stderr().lines().count() == 1,
            "{}",
            done.stderr()
        );
    }
    drop(stdin);
    assert!(child.wait().unwrap().success());
    assert_eq!(esker(dir.path(), "get a").stdout(), "2\n");
}

/// Has the store open for writing from the first answer on.
fn holder(dir: &Path) -> (Child, ChildStdin) {
    let mut child = runner(dir);
    let mut stdin = child.stdin.take().unwrap();
    write!(stdin, "PUT a 1\nGET a\n").unwrap();
    let mut answer = String::new();
    BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut answer).unwrap();
    assert_eq!(answer, "a 1\n");
    (child, stdin)
}

#[test]
fn a_refused_command_names_the_process_that_has_the_store() {
    let dir = tempfile::tempdir().unwrap();
    let lock = dir.path().join("esker.db/LOCK");
    let (mut child, stdin) = holder(dir.path());
    let named = format!("in use by process {} (esker run -)", child.id());
    assert!(fs::read_to_string(&lock).unwrap().starts_with(&format!("{} ", child.id())));
    for command in ["put a 1", "compact", "repair", "destroy --yes esker.db", "delete a"] {
        let done = esker(dir.path(), command);
        assert_eq!(done.code, 3, "{command}: {}", done.stderr());
        assert!(done.stderr().contains(&named), "{command}: {}", done.stderr());
    }
    for command in ["get a", "check"] {
        let done = esker(dir.path(), command);
        assert_eq!(done.code, 3, "{command}: {}", done.stderr());
        let named = named.replace("in use", "in use for writing");
        assert!(done.stderr().contains(&named), "{command}: {}", done.stderr());
    }
    drop(stdin);
    assert!(child.wait().unwrap().success());
    assert_eq!(fs::read_to_string(&lock).unwrap(), "", "the process has taken its note back");

    // Who was killed leaves a note, which nobody believes: neither a writer nor, on behalf of a reader, anybody else.
    let (mut child, _stdin) = holder(dir.path());
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(fs::read_to_string(&lock).unwrap().starts_with(&format!("{} ", child.id())));
    assert_eq!(esker(dir.path(), "get a").stdout(), "1\n");
    assert_eq!(esker(dir.path(), "put a 2").code, 0);
    assert_eq!(fs::read_to_string(&lock).unwrap(), "");
}

/// The process that has the store open can make copies of it. Another process can when the store is closed.
#[test]
fn copies_of_a_store_that_is_in_use_are_refused_and_name_its_process() {
    let dir = tempfile::tempdir().unwrap();
    let (mut child, stdin) = holder(dir.path());
    let named = format!("in use by process {} (esker run -)", child.id());
    for command in ["checkpoint copy", "backup backups"] {
        let done = esker(dir.path(), command);
        assert_eq!(done.code, 3, "{command}: {}", done.stderr());
        assert!(done.stderr().contains(&named), "{command}: {}", done.stderr());
    }
    assert!(!dir.path().join("copy").exists() && !dir.path().join("backups").exists());
    drop(stdin);
    assert!(child.wait().unwrap().success());
    for command in ["checkpoint copy", "backup backups", "--db copy get a"] {
        let done = esker(dir.path(), command);
        assert_eq!(done.code, 0, "{command}: {}", done.stderr());
    }
}

/// Readers are several, and write nothing into the store's directory: the system knows who they are.
#[test]
#[cfg(target_os = "linux")]
fn readers_that_keep_a_writer_out_are_named() {
    let dir = tempfile::tempdir().unwrap();
    fill(dir.path());
    fs::write(dir.path().join("esker.db/LOCK"), "4194304 17\n").unwrap();
    // They stop where nobody reads on.
    let reader = || {
        let mut command = esker_in(dir.path());
        command.arg("scan").stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        child.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
        child
    };
    let mut readers = [reader(), reader()];
    let done = esker(dir.path(), "put a 1");
    assert_eq!(done.code, 3, "{}", done.stderr());
    // Where files have another device number than the kernel's table of locks says, nobody can be named.
    if !done.stderr().contains("another process") {
        for reader in &readers {
            let named = format!("process {} (esker scan)", reader.id());
            assert!(done.stderr().contains(&named), "{named}: {}", done.stderr());
        }
    }
    for reader in &mut readers {
        reader.kill().unwrap();
        reader.wait().unwrap();
    }
    assert_eq!(esker(dir.path(), "put a 1").code, 0);
}

#[test]
fn wait_waits_for_the_lock_and_not_longer_than_it_says() {
    let dir = tempfile::tempdir().unwrap();
    let (mut child, stdin) = holder(dir.path());
    for command in ["get a --wait 1s", "--wait 1s put a 2", "check --wait 1s"] {
        let done = esker(dir.path(), command);
        assert_eq!(done.code, 3, "{command}: {}", done.stderr());
        let said = done.stderr();
        let lines: Vec<_> = said.lines().collect();
        assert!(lines[0].starts_with("esker: waiting: the store is in use"), "{said}");
        assert!(lines.len() == 2 && lines[1].contains("process"), "{said}");
    }
    let mut waiting = Vec::new();
    for arguments in [["put", "b", "2"], ["delete", "none", "--json"], ["scan", "--limit", "1"]] {
        let mut command = esker_in(dir.path());
        command.args(arguments).args(["--wait", "1h"]).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut said = String::new();
        BufReader::new(child.stderr.as_mut().unwrap()).read_line(&mut said).unwrap();
        assert!(said.starts_with("esker: waiting: "), "{said}");
        waiting.push(child);
    }
    drop(stdin);
    assert!(child.wait().unwrap().success());
    for mut child in waiting {
        assert!(child.wait().unwrap().success());
    }
    assert_eq!(esker(dir.path(), "get b").stdout(), "2\n");
    // Nobody holds what is missing.
    assert_eq!(esker(dir.path(), "--db none.db get a --wait 1h").code, 3);
    assert_eq!(esker(dir.path(), "get a --wait 10").code, 2);
}

#[test]
fn a_reader_that_goes_away_ends_it_quietly() {
    let dir = tempfile::tempdir().unwrap();
    fill(dir.path());
    fs::write(dir.path().join("gets"), "SCAN 0 9\n".repeat(2)).unwrap();
    for arguments in ["scan", "scan --json", "export -", "run gets", "get 00001 --json --db esker.db"] {
        let mut command = esker_in(dir.path());
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        command.args(arguments.split(' ')).stdin(Stdio::null()).stdout(writer).stderr(Stdio::piped());
        let done = command.output().unwrap();
        assert_eq!(done.status.code(), Some(141), "{arguments}");
        let stderr = String::from_utf8_lossy(&done.stderr);
        assert!(!stderr.contains("esker:") && !stderr.contains("panicked"), "{arguments}: {stderr}");
    }
}

#[test]
fn a_full_device_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    assert_eq!(esker(dir.path(), "put a 1").code, 0);
    for arguments in ["get a", "scan", "count", "trees", "stats", "check", "completions bash", "man"] {
        let mut command = esker_in(dir.path());
        let full = File::options().write(true).open("/dev/full").unwrap();
        let done = command.args(arguments.split(' ')).stdout(full).output().unwrap();
        assert_eq!(done.status.code(), Some(3), "{arguments}");
    }
}

/// The same for a file: it is neither there in part nor called done.
#[test]
fn a_full_device_as_a_file_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    fill(dir.path());
    fs::write(dir.path().join("gets"), "SCAN 0 9\n").unwrap();
    for arguments in ["export /dev/full", "get 00001 --file /dev/full", "run gets --output /dev/full"] {
        let done = esker(dir.path(), arguments);
        assert_eq!(done.code, 3, "{arguments}");
        assert!(done.stderr().contains("/dev/full: No space left"), "{arguments}: {}", done.stderr());
    }
}

/// Waits until `child` has opened the file in `dir` that is to become an export's; false: it ended before that was seen.
fn writes_unfinished(child: &mut Child, dir: &Path) -> bool {
    let fds = format!("/proc/{}/fd", child.id());
    let dir = dir.canonicalize().unwrap();
    let is_unfinished = |link: &Path| {
        let name = link.file_name().unwrap_or_default().to_string_lossy();
        link.parent() == Some(&dir) && (name.ends_with(" (deleted)") || name.ends_with(".tmp"))
    };
    while child.try_wait().unwrap().is_none() {
        let open = fs::read_dir(&fds).into_iter().flatten().flatten();
        if open.filter_map(|fd| fs::read_link(fd.path()).ok()).any(|link| is_unfinished(&link)) {
            return true;
        }
    }
    false
}

/// Killed at any moment, an export leaves the old file as it was, and nothing beside it that the next one does not remove.
#[test]
fn an_export_that_is_ended_leaves_nothing_behind() {
    let dir = tempfile::tempdir().unwrap();
    fill(dir.path());
    let there = || {
        let names =
            fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<String> = names.collect();
        names.sort();
        names
    };
    fs::write(dir.path().join("out.jsonl"), "old").unwrap();
    // As other versions left it, and as it is where files must have names.
    fs::write(dir.path().join(".out.jsonl.353.tmp"), "left").unwrap();
    for signal in ["-INT", "-TERM", "-KILL"] {
        let caught = (0..100).any(|_| {
            let mut command = esker_in(dir.path());
            command.args(["export", "out.jsonl"]).stdin(Stdio::null()).stderr(Stdio::null());
            let mut child = command.spawn().unwrap();
            let writes = writes_unfinished(&mut child, dir.path());
            let mut kill = std::process::Command::new("kill");
            assert!(kill.args([signal, &child.id().to_string()]).status().unwrap().success());
            writes && child.wait().unwrap().code().is_none()
        });
        assert!(caught, "{signal}: every export had ended before");
        assert!(!there().iter().any(|name| name == ".out.jsonl.353.tmp"), "{:?}", there());
    }
    let done = esker(dir.path(), "export out.jsonl");
    assert_eq!(done.code, 0, "{}", done.stderr());
    assert_eq!(there(), ["esker.db", "out.jsonl"]);
    assert_eq!(fs::read_to_string(dir.path().join("out.jsonl")).unwrap().lines().count(), 20_000);
}

/// Writes stand in the file's order, so that whatever survives is a prefix.
#[test]
fn a_kill_leaves_a_prefix_of_the_file() {
    let dir = tempfile::tempdir().unwrap();
    let lines: String = (0..200_000).map(|i| format!("PUT {i:06} {}\n", "x".repeat(50))).collect();
    fs::write(dir.path().join("in"), lines).unwrap();
    for seed in 1..=5 {
        println!("seed {seed}");
        let _ = fs::remove_dir_all(dir.path().join("esker.db"));
        assert_eq!(esker(dir.path(), "run /dev/null").code, 0);
        let mut child = runner(dir.path());
        let mut stdin = child.stdin.take().unwrap();
        let mut input = File::open(dir.path().join("in")).unwrap().take(1 + Rng::new(seed).below(10_000_000));
        std::io::copy(&mut input, &mut stdin).unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        let keys = esker(dir.path(), "scan --keys-only");
        assert_eq!(keys.code, 0, "{}", keys.stderr());
        for (i, key) in keys.stdout().lines().enumerate() {
            assert_eq!(key, format!("{i:06}"), "seed {seed}");
        }
        assert_eq!(esker(dir.path(), "check").code, 0, "seed {seed}");
    }
}

/// Whatever the files hold, every command ends with a documented exit code and no panic.
#[test]
fn damaged_files_never_make_it_panic() {
    let dir = tempfile::tempdir().unwrap();
    fill(dir.path());
    let mut paths = Vec::new();
    files(&dir.path().join("esker.db"), &mut paths);
    for path in paths {
        let content = fs::read(&path).unwrap();
        for damage in 0..3 {
            let mut bytes = content.clone();
            match damage {
                0 => bytes.truncate(content.len() / 2),
                1 => bytes.iter_mut().skip(content.len() / 3).take(16).for_each(|byte| *byte ^= 0x55),
                _ => bytes.clear(),
            }
            fs::write(&path, &bytes).unwrap();
            for command in ["get 00001", "scan --limit 3", "check", "stats", "trees"] {
                let done = esker(dir.path(), command);
                let place = format!("{} damaged in way {damage}: {command}", path.display());
                assert!([0, 1, 3].contains(&done.code), "{place}: code {}, {}", done.code, done.stderr());
                assert!(!done.stderr().contains("panicked"), "{place}: {}", done.stderr());
            }
            let dumped = esker(dir.path(), &format!("dump {}", path.display()));
            assert!(!dumped.stderr().contains("panicked"), "{}", dumped.stderr());
        }
        fs::write(&path, content).unwrap();
    }
    assert_eq!(esker(dir.path(), "count").stdout(), "20000\n");
}

fn flip(path: &Path, at: usize) {
    let mut bytes = fs::read(path).unwrap();
    bytes[at] ^= 0x55;
    fs::write(path, bytes).unwrap();
}

/// Whether the entry of a damaged huge value is in the log or in a table, `repair` says whose it is; `check` says what to do.
#[test]
fn damage_to_a_huge_value_names_tree_and_key() {
    for in_tables in [false, true] {
        let dir = tempfile::tempdir().unwrap();
        let film: Vec<u8> = (0..1_500_000_u32).flat_map(u32::to_le_bytes).collect();
        fs::write(dir.path().join("film"), &film).unwrap();
        for key in ["films/a", "films/b", "films/c"] {
            assert_eq!(esker(dir.path(), &format!("--tree media put {key} --file film")).code, 0);
        }
        assert_eq!(esker(dir.path(), "--tree media cp films/b copies/b").code, 0);
        assert_eq!(esker(dir.path(), "put small 1").code, 0);
        if in_tables {
            assert_eq!(esker(dir.path(), "compact").code, 0);
        }
        let mut blobs = Vec::new();
        files(&dir.path().join("esker.db"), &mut blobs);
        blobs.retain(|path| path.extension().is_some_and(|extension| extension == "blob"));
        let sizes: Vec<usize> = blobs.iter().map(|path| fs::read(path).unwrap().len()).collect();
        // The second film, in whichever file it is.
        let mut at = film.len() + film.len() / 2;
        let mut place = None;
        for (path, size) in blobs.iter().zip(sizes) {
            if place.is_none() && at < size {
                place = Some((path.clone(), at));
            }
            at = at.saturating_sub(size);
        }
        let (path, at) = place.unwrap();
        flip(&path, at);
        let checked = esker(dir.path(), "check");
        assert_eq!(checked.code, 1);
        assert_eq!(checked.stdout().lines().count(), 1, "{}", checked.stdout());
        assert!(
            ["next: ", "`esker restore DIR NEW`", "repair"]
                .iter()
                .all(|hint| checked.stderr().contains(hint)),
            "{}",
            checked.stderr()
        );
        let repaired = esker(dir.path(), "repair");
        assert_eq!(repaired.code, 1);
        let mut keys: Vec<String> = repaired.stdout().lines().map(str::to_owned).collect();
        keys.sort();
        assert_eq!(keys.len(), 2, "{keys:?}");
        assert!(keys[0].ends_with("; tree \"media\", key \"copies/b\""), "{keys:?}");
        assert!(keys[1].ends_with("; tree \"media\", key \"films/b\""), "{keys:?}");
        for key in ["films/a", "films/c"] {
            assert_eq!(esker(dir.path(), &format!("--tree media get {key} --file back")).code, 0);
            assert!(fs::read(dir.path().join("back")).unwrap() == film);
        }
        // The damage ends there: the keys are gone, and all others go out.
        assert_eq!(esker(dir.path(), "check").code, 0);
        assert_eq!(esker(dir.path(), "repair").code, 0);
        assert_eq!(esker(dir.path(), "--tree media get films/b").code, 1);
        let exported = esker(dir.path(), "--tree media export all.jsonl");
        assert_eq!(exported.code, 0, "{}", exported.stderr());
        assert_eq!(fs::read_to_string(dir.path().join("all.jsonl")).unwrap().lines().count(), 2);
    }
}

#[test]
fn a_repair_names_keys_in_the_type_of_their_tree() {
    for (command, end) in [
        ("repair", "; tree \"films\", key -17\n"),
        ("repair --keys hex", ", key 7fffffffffffffef\n"),
        ("repair --json", ",\"keys\":[\"-17\",\"-17\"]}\n"),
    ] {
        // Each has a store of its own: a repair ends the damage.
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("film"), vec![7; 100_000]).unwrap();
        assert_eq!(esker(dir.path(), "--tree films --keys i64 put -17 --file film").code, 0);
        assert_eq!(esker(dir.path(), "--tree films compact").code, 0);
        let mut blobs = Vec::new();
        files(&dir.path().join("esker.db"), &mut blobs);
        blobs.retain(|path| path.extension().is_some_and(|extension| extension == "blob"));
        flip(&blobs[0], 50_000);
        let done = esker(dir.path(), command);
        assert!(done.stdout().ends_with(end), "{command}: {} {}", done.stdout(), done.stderr());
        assert_eq!(esker(dir.path(), "check").code, 0);
    }
}

#[test]
fn a_damaged_manifest_is_told_with_its_sound_copy() {
    let dir = tempfile::tempdir().unwrap();
    assert_eq!(esker(dir.path(), "put a 1").code, 0);
    for (part, comment) in [(".copy", "the manifest is sound"), ("manifest", "its copy is sound")] {
        let mut paths = Vec::new();
        files(&dir.path().join("esker.db"), &mut paths);
        paths.retain(|path| {
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            let is_aside = path.to_string_lossy().contains("/quarantine-");
            !is_aside && name.starts_with("manifest-") && (part == ".copy") == name.ends_with(".copy")
        });
        assert_eq!(paths.len(), 1, "{paths:?}");
        // In the first record, behind the page of the header.
        flip(&paths[0], 4096 + 24);
        let checked = esker(dir.path(), "check");
        assert_eq!(checked.code, 1);
        assert!(checked.stdout().lines().all(|line| line.contains(comment)), "{}", checked.stdout());
        assert_eq!(esker(dir.path(), "repair").code, 1);
        assert_eq!(esker(dir.path(), "check").code, 0);
        assert_eq!(esker(dir.path(), "get a").stdout(), "1\n");
    }
}

/// What is in the log alone counts too, and once.
#[test]
fn check_counts_what_is_in_tables_and_in_the_log() {
    let dir = tempfile::tempdir().unwrap();
    let count = || {
        let checked = esker(dir.path(), "check --json").stdout();
        let field = |name: &str| {
            let behind = checked.split_once(&format!("\"{name}\":")).unwrap().1;
            behind.split([',', '}']).next().unwrap().parse::<u64>().unwrap()
        };
        (field("entries"), field("log_entries"))
    };
    fill(dir.path());
    let (tables, log) = count();
    assert_eq!(tables + log, 20_000);
    assert_eq!(esker(dir.path(), "compact").code, 0);
    assert_eq!(count(), (20_000, 0));
    assert_eq!(esker(dir.path(), "put new 1").code, 0);
    let (tables, log) = count();
    assert_eq!(tables + log, 20_001);
}

#[test]
fn a_dump_shows_keys_as_text() {
    let dir = tempfile::tempdir().unwrap();
    assert_eq!(esker(dir.path(), "put schlüssel wert").code, 0);
    assert_eq!(esker(dir.path(), "--escapes put \\x1b[2J\\xff x").code, 0);
    assert_eq!(esker(dir.path(), "compact").code, 0);
    let mut paths = Vec::new();
    files(&dir.path().join("esker.db"), &mut paths);
    let mut shown = 0;
    for path in paths {
        let dumped = esker(dir.path(), &format!("dump {}", path.display())).stdout();
        assert!(!dumped.contains('\u{1b}') && !dumped.contains("[115, 99"), "{dumped}");
        shown += u32::from(dumped.contains("\"schlüssel\"") && dumped.contains("\"\\u{1b}[2J\\xff\""));
    }
    assert!(shown >= 2, "the table and the manifest");
}

/// Links cannot lead there.
#[test]
fn a_checkpoint_on_another_file_system_says_what_copies_there() {
    use std::os::unix::fs::MetadataExt;
    let device = |path: &Path| fs::metadata(path).map(|meta| meta.dev()).ok();
    let dir = tempfile::tempdir().unwrap();
    let Some(elsewhere) = ["/dev/shm", "/tmp", "/var/tmp"]
        .into_iter()
        .find(|other| device(Path::new(other)).is_some_and(|other| Some(other) != device(dir.path())))
    else {
        println!("there is one file system only here");
        return;
    };
    let other = tempfile::tempdir_in(elsewhere).unwrap();
    assert_eq!(esker(dir.path(), "put a 1").code, 0);
    let done = esker(dir.path(), &format!("checkpoint {}/copy.db", other.path().display()));
    assert_eq!(done.code, 3, "{}", done.stderr());
    assert!(done.stderr().contains("`esker backup DIR` copies to any"), "{}", done.stderr());
    assert_eq!(fs::read_dir(other.path()).unwrap().count(), 0);
}

/// The key types are in the manifest; where that does not say whose a key is, the key is escaped.
#[test]
fn a_dump_shows_keys_in_the_type_of_their_tree() {
    let dir = tempfile::tempdir().unwrap();
    let trees = [("u64", "4096"), ("i64", "-7"), ("f64", "-0.5"), ("hex", "00ff"), ("text,u64", "oslo,7")];
    assert_eq!(esker(dir.path(), "put text x").code, 0);
    for (keys, key) in trees {
        let done = esker(dir.path(), &format!("--tree t{keys} --keys {keys} put -- {key} x"));
        assert_eq!(done.code, 0, "{}", done.stderr());
    }
    let lines = |kind: &str, options: &str| {
        let mut paths = Vec::new();
        files(&dir.path().join("esker.db"), &mut paths);
        paths.retain(|path| {
            path.to_string_lossy().contains(kind) && !path.to_string_lossy().ends_with(".copy")
        });
        let dump = |path: &PathBuf| esker(dir.path(), &format!("dump {options}{}", path.display())).stdout();
        paths.iter().map(dump).collect::<String>()
    };
    let logged = lines("wal-", "");
    assert!(logged.contains("put oslo,7 = \"x\""), "{logged}");
    assert_eq!(esker(dir.path(), "compact").code, 0);
    let (tables, manifest) = (lines(".table", ""), lines("manifest-", ""));
    for (_, key) in trees {
        assert!(tables.contains(&format!(" {key} = \"x\"")), "{key}: {tables}");
        assert!(manifest.contains(&format!("keys {key} to {key}")), "{key}: {manifest}");
    }
    assert!(tables.contains(" \"text\" = \"x\""), "{tables}");
    assert!(lines(".table", "--keys hex ").contains(" 0000000000001000 = \"x\""));

    // Far from its manifest.
    let mut alone = Vec::new();
    files(&dir.path().join("esker.db"), &mut alone);
    let table = alone.iter().find(|path| path.extension().is_some_and(|end| end == "table")).unwrap();
    let apart = dir.path().join("apart.table");
    fs::copy(table, &apart).unwrap();
    let dumped = esker(dir.path(), "dump apart.table").stdout();
    assert!(dumped.contains("keys \"") && dumped.contains(" = \"x\""), "{dumped}");
}

/// A value longer than any buffer, and a line that is one.
#[test]
fn long_lines_and_values_pass_whole() {
    let dir = tempfile::tempdir().unwrap();
    let value: String = (0..700_000).map(|i| format!("{i} ")).collect();
    let content = format!("PUT a 1\nPUT big {value}\nGET big\nGET a\n");
    let done = esker_with(dir.path(), "run -", content.as_bytes());
    assert_eq!(done.code, 0, "{}", done.stderr());
    assert!(done.stdout() == format!("big {value}\na 1\n"));
    assert!(esker(dir.path(), "get big").stdout() == format!("{value}\n"));

    let long = "k".repeat(esker::KEY_LEN_MAX + 1);
    let done = esker_with(dir.path(), "run -", format!("PUT b 1\nPUT {long} x\n").as_bytes());
    assert_eq!(done.code, 2);
    assert!(done.stderr().contains("standard input:2: "), "{}", done.stderr());
    assert_eq!(esker(dir.path(), "get b").stdout(), "1\n");
}

/// Keys that no file name can hold go out to a directory and come back.
#[test]
fn any_keys_survive_an_export_to_a_directory() {
    let dir = tempfile::tempdir().unwrap();
    let long = "long/".repeat(2_000);
    let keys =
        ["a", "a/b", "a/b/c", "../x", "../../x", "/abs", "/", "a//b", ".", "..", "%", "a%2Fb", "nul\\u0000l"];
    let mut rows: Vec<String> =
        keys.iter().map(|key| format!("{{\"key\":\"{key}\",\"value\":\"v {key}\"}}")).collect();
    rows.push(format!("{{\"key\":\"{long}\",\"value\":\"long\"}}"));
    rows.push(format!("{{\"key\":\"{long}x\",\"value\":\"longer\"}}"));
    rows.push("{\"key\":\"/w==\",\"key_encoding\":\"base64\",\"value\":\"\"}".to_owned());
    rows.push("{\"key\":\".esker-export\",\"value\":\"\"}".to_owned());
    let done = esker_with(dir.path(), "import --json -", rows.join("\n").as_bytes());
    assert_eq!(done.code, 0, "{}", done.stderr());
    let done = esker(dir.path(), "export sub/out/");
    assert_eq!(done.code, 3, "the parent is not there: {}", done.stderr());
    fs::create_dir(dir.path().join("sub")).unwrap();
    let done = esker(dir.path(), "export sub/out/");
    assert_eq!(done.code, 0, "{}", done.stderr());
    let names: Vec<_> = fs::read_dir(dir.path().join("sub")).unwrap().collect();
    assert_eq!(names.len(), 1, "nothing beside the directory");
    let done = esker(dir.path(), "--db back.db import sub/out");
    assert_eq!(done.code, 0, "{}", done.stderr());
    let (before, after) = (esker(dir.path(), "scan --json"), esker(dir.path(), "scan --json --db back.db"));
    assert_eq!(before.stdout().lines().count(), rows.len());
    assert_eq!(before.stdout(), after.stdout());
}

/// A disk that fills up in the middle of an import: what is said to be stored is stored, and what is there comes first.
#[test]
fn an_import_tells_what_is_stored_when_the_disk_is_full() {
    let dir = tempfile::tempdir().unwrap();
    let disk = match SmallDisk::mount(dir.path()) {
        Ok(disk) => disk,
        Err(why) => return skip("an_import_tells_what_is_stored_when_the_disk_is_full", &why),
    };
    let row = |i: usize| format!("{{\"key\":\"{i:06}\",\"value\":\"{}\"}}\n", "x".repeat(1_000));
    let rows: String = (0..120_000).map(row).collect();
    fs::write(dir.path().join("rows.jsonl"), &rows).unwrap();
    let puts: String = (0..120_000).map(|i| format!("PUT {i:06} {}\n", "x".repeat(1_000))).collect();
    fs::write(dir.path().join("puts"), &puts).unwrap();
    for (command, what) in [("import rows.jsonl", "rows"), ("run puts", "operations")] {
        let db = disk.path().join(what);
        let done = esker(dir.path(), &format!("--db {} {command}", db.display()));
        assert_eq!(done.code, 3, "{}", done.stderr());
        let counted = esker(dir.path(), &format!("--db {} count", db.display()));
        let count: usize = counted.stdout().trim().parse().unwrap();
        let said: String = done.stderr().split(' ').next().unwrap().replace(',', "");
        assert_eq!(said, count.to_string(), "{}", done.stderr());
        assert!(count > 0 && count < 120_000);
        assert!(what == "operations" || done.stderr().contains("rows are stored"), "{}", done.stderr());
        let last = esker(dir.path(), &format!("--db {} scan --reverse --limit 1 --keys-only", db.display()));
        assert_eq!(last.stdout(), format!("{:06}\n", count - 1));
        fs::remove_dir_all(db).unwrap();
    }
}

/// A file system of 120 MiB in memory, taken away when this goes.
struct SmallDisk(std::path::PathBuf);

impl SmallDisk {
    /// Why not, where nobody may mount one.
    fn mount(below: &Path) -> Result<Self, String> {
        let path = below.join("disk");
        fs::create_dir(&path).unwrap();
        let mut mount = std::process::Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", "size=120m", "tmpfs"]).arg(&path);
        match mount.output() {
            Ok(output) if output.status.success() => Ok(SmallDisk(path)),
            Ok(output) => Err(String::from_utf8_lossy(&output.stderr).trim().to_owned()),
            Err(error) => Err(format!("mount: {error}")),
        }
    }

    fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = std::process::Command::new("umount").arg(&self.0).status();
    }
}

/// Lets a writer take the store between two looks at it, and waits for it.
#[test]
fn stats_are_watched_until_somebody_ends_it() {
    let dir = tempfile::tempdir().unwrap();
    assert_eq!(esker(dir.path(), "put a 1").code, 0);
    let mut command = esker_in(dir.path());
    command.args(["stats", "--watch", "0.02", "--json"]).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut watching = command.spawn().unwrap();
    let mut lines = BufReader::new(watching.stdout.take().unwrap()).lines();
    let mut next = move || lines.next().unwrap().unwrap();
    let first: serde_json::Value = serde_json::from_str(&next()).unwrap();
    assert!(first["disk_bytes"].is_u64() && first["per_second"].is_null(), "{first}");
    assert!(first["time"].as_str().is_some_and(|time| time.ends_with('Z')), "{first}");
    let mut writer = runner(dir.path());
    let mut stdin = writer.stdin.take().unwrap();
    let mut answers = BufReader::new(writer.stdout.take().unwrap());
    // It may have the store just now, and then the writer is refused.
    let mut answer = String::new();
    while write!(stdin, "PUT b 1\nGET b\n").is_err() || answers.read_line(&mut answer).unwrap() == 0 {
        writer.wait().unwrap();
        writer = runner(dir.path());
        stdin = writer.stdin.take().unwrap();
        answers = BufReader::new(writer.stdout.take().unwrap());
    }
    let mut said = String::new();
    BufReader::new(watching.stderr.take().unwrap()).read_line(&mut said).unwrap();
    assert_eq!(said, "esker: another process has the store open for writing; waiting for it\n");
    drop(stdin);
    assert!(writer.wait().unwrap().success());
    // Those that were printed before come first.
    let seen = loop {
        let seen: serde_json::Value = serde_json::from_str(&next()).unwrap();
        if seen["trees"]["default"]["entries"] == 2 {
            break seen;
        }
    };
    assert!(seen["per_second"]["entries"].as_f64().is_some_and(|rate| rate > 0.0), "{seen}");
    watching.kill().unwrap();
    watching.wait().unwrap();
}

/// The names of all commands, as the help lists them.
fn commands(dir: &Path) -> Vec<String> {
    let help = esker(dir, "--help").stdout();
    let list = help.split_once("Commands:\n").expect("the help lists commands").1;
    let list = list.split("\n\n").next().unwrap_or_default();
    // What a description goes on with stands further to the right.
    let names = list.lines().filter_map(|line| line.strip_prefix("  ").filter(|line| !line.starts_with(' ')));
    names.filter_map(|line| line.split_whitespace().next()).map(str::to_owned).collect()
}

#[test]
fn completions_and_manual_pages_name_every_command() {
    let dir = tempfile::tempdir().unwrap();
    let commands = commands(dir.path());
    assert!(commands.len() > 25 && commands.contains(&"export-tree".to_owned()), "{commands:?}");
    for shell in ["bash", "zsh", "fish"] {
        let script = esker(dir.path(), &format!("completions {shell}")).stdout();
        let words: Vec<&str> =
            script.split(|c: char| !c.is_ascii_alphanumeric() && !matches!(c, '-' | '_')).collect();
        for command in &commands {
            assert!(words.contains(&command.as_str()), "{shell}: {command}");
        }
    }
    let page = esker(dir.path(), "man").stdout().replace('\\', "");
    for command in commands.iter().filter(|command| *command != "help") {
        assert!(page.contains(&format!("esker-{command}(1)")), "{command}");
        let own = esker(dir.path(), &format!("man {command}")).stdout();
        assert!(own.contains(&format!(".TH esker-{command} 1")), "{command}: {own}");
    }
}

/// Rows of 5 MB and more, in the format of a file's name, and how each is told in `scan`.
fn rows_for(name: &str) -> (String, Vec<String>) {
    let rows = (0..60_000).map(|i| (format!("{i:05}"), "x".repeat(90)));
    let scanned = rows.clone().map(|(key, value)| format!("{key} {value}")).collect();
    let written: Vec<String> = match name {
        "rows.json" => rows.map(|(key, value)| format!("[\"{key}\",\"{value}\"]")).collect(),
        "rows.run" => rows.map(|(key, value)| format!("PUT {key} {value}")).collect(),
        _ => rows.map(|(key, value)| format!("{key}\t{value}")).collect(),
    };
    match name {
        "rows.json" => (format!("[{}]", written.join(",\n")), scanned),
        _ => (written.join("\n") + "\n", scanned),
    }
}

/// What is done to a file, and how it is called.
type Change<'a> = (&'a str, &'a dyn Fn(&Path));

/// They wait for the store with the file half read, and meanwhile the file is changed.
#[test]
fn a_file_that_changes_while_it_is_read_is_no_success_and_leaves_no_torn_row() {
    let append = |path: &Path| {
        let mut file = File::options().append(true).open(path).unwrap();
        // In an array it would be malformed anyhow.
        let is_json = path.extension().is_some_and(|end| end == "json");
        file.write_all(if is_json { b"\n" } else { b"zz\thalf of a ro" }).unwrap();
    };
    let cut = |path: &Path| {
        let file = File::options().write(true).open(path).unwrap();
        file.set_len(file.metadata().unwrap().len() - 40).unwrap();
    };
    let replace = |path: &Path| {
        let other = path.with_extension("new");
        fs::write(&other, "a 1\n").unwrap();
        fs::rename(&other, path).unwrap();
    };
    let changes: [Change; 3] = [("grown", &append), ("cut", &cut), ("replaced", &replace)];
    for (name, arguments) in
        [("rows.txt", "import"), ("rows.json", "import"), ("rows.run", "run"), ("value", "put v --file")]
    {
        for (how, change) in test_kit::some_of(changes) {
            let dir = tempfile::tempdir().unwrap();
            let (content, rows) = rows_for(name);
            let path = dir.path().join(name);
            fs::write(&path, content).unwrap();
            let (mut holder, stdin) = holder(dir.path());
            let mut command = esker_in(dir.path());
            command.args(["--wait", "60s", "--tree", "t"]).args(arguments.split(' ')).arg(name);
            let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
            let mut said = BufReader::new(child.stderr.take().unwrap());
            let mut line = String::new();
            while !line.contains("waiting: ") {
                line.clear();
                assert!(said.read_line(&mut line).unwrap() > 0, "{name}, {how}: it did not wait");
            }
            change(&path);
            drop(stdin);
            assert!(holder.wait().unwrap().success());
            let mut rest = String::new();
            said.read_to_string(&mut rest).unwrap();
            assert_eq!(child.wait().unwrap().code(), Some(3), "{name}, {how}: {rest}");
            let told = format!("{name}: the file was changed, replaced or removed while it was read");
            assert!(rest.contains(&told), "{name}, {how}: {rest}");
            let there = esker(dir.path(), "--tree t scan");
            assert!(
                there.stdout().lines().all(|row| rows.binary_search(&row.to_owned()).is_ok()),
                "{name}, {how}"
            );
            if name == "value" {
                assert_eq!(there.stdout(), "", "{how}");
            }
        }
    }
}
