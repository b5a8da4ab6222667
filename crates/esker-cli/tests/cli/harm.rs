//! Commands that would do harm to the store, or be cut off in the middle: files that go where the store's are, limits of the
//! process.

#![cfg(unix)]
use std::fs;
use std::os::unix::fs::symlink;
use std::process::Command;

use crate::support::{esker, esker_with, files};

/// A file of the store would be replaced.
#[test]
fn nothing_is_written_into_the_store_s_own_directory() {
    let dir = tempfile::tempdir().unwrap();
    let done = esker_with(dir.path(), "run -", b"PUT a 1\nPUT b 2\n");
    assert_eq!(done.code, 0, "{}", done.stderr());
    let mut before = Vec::new();
    files(&dir.path().join("esker.db"), &mut before);
    fs::write(dir.path().join("commands"), "GET a\n").unwrap();
    symlink("esker.db", dir.path().join("link")).unwrap();
    let manifest =
        before.iter().find(|path| path.extension().is_none() && path.to_string_lossy().contains("manifest-"));
    symlink(manifest.unwrap(), dir.path().join("out.csv")).unwrap();
    let name = manifest.unwrap().file_name().unwrap().to_str().unwrap();
    for command in [
        format!("export --format csv esker.db/{name}"),
        "export esker.db/new.csv".to_owned(),
        "export link/new.csv.gz".to_owned(),
        "export out.csv".to_owned(),
        format!("get a --file esker.db/{name}"),
        "get a --file link/LOCK".to_owned(),
        "export esker.db/new/".to_owned(),
        "export link/new/further/".to_owned(),
    ] {
        let done = esker(dir.path(), &command);
        assert_eq!(done.code, 2, "{command}: {}", done.stderr());
        assert!(done.stderr().contains("the store's own directory"), "{}", done.stderr());
    }
    let mut after = Vec::new();
    files(&dir.path().join("esker.db"), &mut after);
    before.sort();
    after.sort();
    assert_eq!(after, before);
    assert_eq!(esker(dir.path(), "export --format csv beside.csv").code, 0);
    // This one opens the store for writing, which begins a new manifest.
    for output in ["esker.db/manifest-000002", "link/new", "out.csv"] {
        let done = esker(dir.path(), &format!("run commands --output {output}"));
        assert_eq!(done.code, 2, "{output}: {}", done.stderr());
        assert!(done.stderr().contains("the store's own directory"), "{}", done.stderr());
        fs::remove_file(dir.path().join("out.csv")).ok();
        symlink("esker.db/LOCK", dir.path().join("out.csv")).unwrap();
    }
    assert_eq!(esker(dir.path(), "check").code, 0);
    assert_eq!(esker(dir.path(), "get b").stdout(), "2\n");
}

/// As `ulimit -f` has it, in blocks of 1,024 bytes.
#[test]
fn a_limit_of_file_sizes_is_an_error_of_the_command_and_costs_nothing() {
    let dir = tempfile::tempdir().unwrap();
    assert_eq!(esker(dir.path(), "put a 1").code, 0);
    fs::write(dir.path().join("big"), vec![7; 30_000_000]).unwrap();
    let esker_path = env!("CARGO_BIN_EXE_esker");
    for (limit, command) in
        [(4000, "put big --file big"), (100, "put b 2"), (4000, "import --keys text dir-of-big/")]
    {
        fs::create_dir_all(dir.path().join("dir-of-big")).unwrap();
        fs::copy(dir.path().join("big"), dir.path().join("dir-of-big/one")).unwrap();
        let mut shell = Command::new("bash");
        shell.current_dir(dir.path()).env_remove("ESKER_DB");
        shell.args(["-c", &format!("ulimit -f {limit}; exec {esker_path} {command}")]);
        let done = crate::support::run(shell, b"");
        if command == "put b 2" && done.code == 0 {
            // The opening has found a log segment that is long enough already.
            assert_eq!(esker(dir.path(), "get b").stdout(), "2\n");
        } else {
            assert_eq!(done.code, 3, "{command}: {}", done.stderr());
            assert!(done.stderr().contains("esker: "), "{command}: {}", done.stderr());
        }
        assert_eq!(esker(dir.path(), "get a").stdout(), "1\n", "{command}");
        assert_eq!(esker(dir.path(), "check").code, 0, "{command}");
    }
    assert_eq!(esker(dir.path(), "put big --file big").code, 0);
    let rows = esker(dir.path(), "scan --keys-only").stdout();
    // A write that fails may have taken effect, whole.
    assert!(["a\nbig\n", "a\nb\nbig\n"].contains(&rows.as_str()), "{rows}");
}
