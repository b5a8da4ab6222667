//! Huge values from the shell: in and out of files, directories of them, and what damage does.

mod directories;
mod huge;

use std::fs;
use std::path::{Path, PathBuf};

use crate::support::{Done, Rng, esker, esker_with, files};

const MIB: usize = 1 << 20;

fn random(seed: u64, len: usize) -> Vec<u8> {
    Rng::new(seed).bytes(len)
}

#[track_caller]
fn done(done: &Done) {
    assert_eq!(done.code, 0, "{}", done.stderr());
}

fn write(path: &Path, bytes: &[u8]) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, bytes).unwrap();
}

/// The names in the directory `dir`, and what the files hold.
fn content(dir: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut paths = Vec::new();
    files(dir, &mut paths);
    paths.iter().map(|path| (path.strip_prefix(dir).unwrap().to_owned(), fs::read(path).unwrap())).collect()
}

#[test]
fn values_of_every_size_go_from_files_to_files() {
    let dir = tempfile::tempdir().unwrap();
    for len in [0, 1, 32 << 10, MIB - 1, MIB, MIB + 1, 5 * MIB + 3] {
        let bytes = random(len as u64, len);
        write(&dir.path().join("in"), &bytes);
        done(&esker(dir.path(), "put file --file in"));
        done(&esker_with(dir.path(), "put pipe --file -", &bytes));
        for key in ["file", "pipe"] {
            done(&esker(dir.path(), &format!("get {key} --file out")));
            assert!(fs::read(dir.path().join("out")).unwrap() == bytes, "{key} of {len} bytes in a file");
            let printed = esker(dir.path(), &format!("get {key}"));
            assert!(printed.stdout == [&bytes[..], b"\n"].concat(), "{key} of {len} bytes printed");
        }
    }
    let bytes = random(5 * MIB as u64 + 3, 5 * MIB + 3);
    for (range, part) in [
        ("0-0", 0..1),
        ("100-3000000", 100..3_000_001),
        ("1048576-", MIB..bytes.len()),
        ("-7", bytes.len() - 7..bytes.len()),
        ("5242880-99999999", 5 * MIB..bytes.len()),
    ] {
        let got = esker(dir.path(), &format!("get file --range {range}"));
        done(&got);
        assert!(got.stdout == bytes[part.clone()], "{range}");
        done(&esker(dir.path(), &format!("get file --file out --range {range}")));
        assert!(fs::read(dir.path().join("out")).unwrap() == bytes[part], "{range}");
    }
}

#[test]
fn a_source_that_cannot_be_read_leaves_no_store() {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("d")).unwrap();
    for file in ["absent", "d"] {
        let refused = esker(dir.path(), &format!("put k --file {file}"));
        assert_eq!(refused.code, 3, "{}", refused.stderr());
        assert!(refused.stderr().contains(file), "{}", refused.stderr());
        assert!(!dir.path().join("esker.db").exists());
    }
}

#[test]
fn a_directory_comes_back_and_a_second_import_takes_what_changed() {
    let dir = tempfile::tempdir().unwrap();
    let media = dir.path().join("media");
    let film = random(1, 4 * MIB + 9);
    write(&media.join("films/a b.mkv"), &film);
    write(&media.join("films/ü\n.bin"), &random(2, MIB));
    write(&media.join("photo"), &random(3, 40_000));
    write(&media.join("empty"), b"");
    let import = || {
        let imported = esker(dir.path(), "import media");
        done(&imported);
        imported.stderr()
    };
    let first = import();
    assert!(first.contains("4 files") && first.contains("4 stored"), "{first}");
    assert!(!first.contains("unchanged") && !first.contains("left out"), "{first}");
    let again = import();
    assert!(again.contains("4 files") && again.contains(": 4 unchanged"), "{again}");

    // One byte at the end, the same length; a longer one; a shorter one.
    let mut film = film;
    *film.last_mut().unwrap() ^= 1;
    write(&media.join("films/a b.mkv"), &film);
    write(&media.join("photo"), &random(3, 39_999));
    write(&media.join("empty"), b"x");
    let changed = import();
    assert!(changed.contains("3 stored, 1 unchanged"), "{changed}");

    done(&esker(dir.path(), "export back/"));
    let mut back = content(&dir.path().join("back"));
    back.retain(|(path, _)| path != Path::new(".esker-export"));
    let mut given = content(&media);
    for (path, _) in &mut given {
        let escaped = path.to_str().unwrap().replace('\n', "%0A");
        *path = PathBuf::from(escaped);
    }
    given.sort();
    back.sort();
    assert!(back == given, "the export holds what was imported");
    let exported = esker(dir.path(), "import back");
    assert!(exported.stderr().contains(": 4 unchanged"), "{}", exported.stderr());
}

#[test]
fn two_files_of_one_key_are_taken_in_order() {
    let dir = tempfile::tempdir().unwrap();
    write(&dir.path().join("n/007"), b"old");
    done(&esker(dir.path(), "--keys u64 import n"));
    write(&dir.path().join("n/007"), b"new");
    write(&dir.path().join("n/7"), b"old");
    done(&esker(dir.path(), "import n"));
    assert_eq!(esker(dir.path(), "get 7").stdout(), "old\n");
}

#[test]
fn a_listing_shows_times_types_and_hashes() {
    let dir = tempfile::tempdir().unwrap();
    write(&dir.path().join("million"), &vec![b'a'; 1_000_000]);
    write(&dir.path().join("film"), &[b"\0\0\0\x20ftypisom", random(4, 2 * MIB).as_slice()].concat());
    done(&esker(dir.path(), "put million --file million"));
    done(&esker(dir.path(), "put film --file film"));
    done(&esker(dir.path(), "put small abc"));
    let listed = esker(dir.path(), "ls --sha256");
    done(&listed);
    let listed = listed.stdout();
    let lines: Vec<Vec<&str>> = listed.lines().map(|line| line.split_whitespace().collect()).collect();
    let column = |at: usize| lines.iter().map(|line| line[at]).collect::<Vec<_>>();
    assert_eq!(column(0), ["2097164", "1000000", "3"]);
    assert_eq!(column(2), ["mp4", "text", "text"]);
    assert_eq!(column(4), ["film", "million", "small"]);
    let hashes = column(3);
    assert_eq!(hashes[1], "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
    assert_eq!(hashes[2], "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    let times = column(1);
    assert!(times[0].starts_with("20") && times[0].ends_with('Z') && times[0].len() == 20, "{listed}");
    assert_eq!(times[2], "-");
    let sums = esker(dir.path(), "ls --du");
    assert!(sums.stdout().starts_with("       2097164          1  film\n"), "{}", sums.stdout());
}

#[test]
fn a_damaged_value_is_named_and_the_others_are_served() {
    let dir = tempfile::tempdir().unwrap();
    for key in ["a", "b", "c"] {
        write(&dir.path().join("in").join(key), &random(u64::from(key.as_bytes()[0]), 3 * MIB));
    }
    done(&esker(dir.path(), "import in"));
    let mut paths = Vec::new();
    files(&dir.path().join("esker.db"), &mut paths);
    let wanted = fs::read(dir.path().join("in/b")).unwrap();
    let holds = |path: &&PathBuf| {
        let bytes = fs::read(path).unwrap();
        path.extension().is_some_and(|e| e == "blob") && bytes.get(4096..4096 + 64) == Some(&wanted[..64])
    };
    let blob = paths.iter().find(holds).expect("the value has a file of its own");
    let mut bytes = fs::read(blob).unwrap();
    bytes[4096 + 2 * MIB + 5] ^= 4;
    fs::write(blob, bytes).unwrap();

    let exported = esker(dir.path(), "export out/");
    assert_eq!(exported.code, 3);
    assert!(exported.stderr().contains(blob.file_name().unwrap().to_str().unwrap()), "{}", exported.stderr());
    assert!(exported.stderr().contains("damaged values left out: 1"), "{}", exported.stderr());
    let out = content(&dir.path().join("out"));
    let names: Vec<_> = out.iter().map(|(path, _)| path.to_str().unwrap()).collect();
    assert_eq!(names, [".esker-export", "a", "c"]);

    let file = esker(dir.path(), "get b --file copy");
    assert_eq!(file.code, 3);
    assert!(!dir.path().join("copy").exists());
    done(&esker(dir.path(), "get b --range 0-99"));
    let listed = esker(dir.path(), "ls --sha256");
    assert_eq!(listed.code, 3);
    assert_eq!(listed.stdout().lines().count(), 3);
    assert_eq!(listed.stdout().matches("damaged").count(), 1);

    // The import puts the good bytes back.
    let again = esker(dir.path(), "import in");
    assert!(again.stderr().contains("1 stored, 2 unchanged"), "{}", again.stderr());
    done(&esker(dir.path(), "get b --file copy"));
    assert!(fs::read(dir.path().join("copy")).unwrap() == wanted);
}

/// Bytes of disk that the files of a store take.
fn space(store: &Path) -> u64 {
    let mut paths = Vec::new();
    files(store, &mut paths);
    let blocks =
        paths.iter().map(|path| std::os::unix::fs::MetadataExt::blocks(&fs::metadata(path).unwrap()));
    blocks.sum::<u64>() * 512
}

/// Nothing runs behind a command that has returned, so what it gives back is back by then.
#[test]
fn space_is_back_when_the_command_that_deletes_returns() {
    let dir = tempfile::tempdir().unwrap();
    let store = dir.path().join("esker.db");
    for (name, len) in [("long", 20 * MIB), ("longer", 30 * MIB), ("short", 3 * MIB), ("kept", 2 * MIB)] {
        write(&dir.path().join("in").join(name), &random(len as u64, len));
    }
    done(&esker(dir.path(), "import in"));
    let mut before = space(&store);
    let mut takes = |what: &str, mib: u64| {
        let now = space(&store);
        let wanted = mib * MIB as u64 - (64 << 10);
        assert!(before - now > wanted, "{what}: {before} bytes before, {now} after");
        before = now;
    };
    done(&esker(dir.path(), "delete long"));
    takes("delete", 20);
    done(&esker(dir.path(), "put longer shorter"));
    takes("put", 30);
    done(&esker_with(dir.path(), "run -", b"DELETE short\n"));
    takes("run", 3);
    assert_eq!(esker(dir.path(), "check").stdout(), "ok\n");
    done(&esker(dir.path(), "get kept --file out"));
    assert!(fs::read(dir.path().join("out")).unwrap() == random(2 * MIB as u64, 2 * MIB));
}
