//! The commands that the README and `docs/command-line.md` show, run as they stand there.

use std::fs;
use std::path::Path;
use std::process::Command;

use tempfile::TempDir;

/// The first block of shell commands below `heading`.
fn block<'a>(text: &'a str, heading: &str) -> &'a str {
    let section = text.split_once(heading).expect("the heading is there").1;
    let block = section.split_once("```sh\n").expect("a block of commands follows").1;
    block.split_once("```").expect("it ends").0
}

/// Runs the block below `heading` of `document` in a directory that has what its commands read. Returns that directory and
/// what was printed.
fn run(document: &str, heading: &str) -> (TempDir, String) {
    let document = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(document);
    let text = fs::read_to_string(document).unwrap();
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir_all(dir.path().join("target/release")).unwrap();
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_esker"), dir.path().join("target/release/esker")).unwrap();
    fs::create_dir_all(dir.path().join("media/films")).unwrap();
    fs::write(dir.path().join("media/films/a.mkv"), vec![7; 3 << 20]).unwrap();
    fs::write(dir.path().join("media/photo"), vec![8; 50_000]).unwrap();
    fs::write(dir.path().join("words.txt"), "eins 1\nzwei 2\n").unwrap();
    fs::write(dir.path().join("people.csv"), "mail,name\nann@example.org,\"Larsen, Ann\"\n").unwrap();
    fs::write(dir.path().join("gets.txt"), "a\nb\na\n").unwrap();
    fs::write(dir.path().join("commands.txt"), "PUT key value\nGET key\nSCAN a z\n").unwrap();
    // Not on every machine.
    let script = format!("set -e\nxxd() {{ od -c; }}\n{}", block(&text, heading));
    assert!(script.matches("esker ").count() > 8, "{script}");
    let done = Command::new("sh").args(["-c", &script]).current_dir(dir.path()).output().unwrap();
    let (printed, said) = (String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
    assert!(done.status.success(), "{printed}\n{said}");
    assert!(printed.contains("Ann Larsen\n") && printed.contains("\nok\n"), "{printed}");
    assert_eq!(
        fs::read_to_string(dir.path().join("people.jsonl")).unwrap(),
        "{\"key\":\"ann@example.org\",\"value\":\"Larsen, Ann\"}\n"
    );
    (dir, printed.into_owned())
}

#[test]
fn the_commands_of_the_readme_do_what_they_should() {
    let (_dir, printed) = run("README.md", "## From the shell");
    assert!(printed.contains("\nann@example.org Larsen, Ann\n"), "{printed}");
}

#[test]
fn the_commands_of_the_document_about_the_command_line_do_what_they_should() {
    let (dir, printed) = run("docs/command-line.md", "## Commands at work");
    assert_eq!(
        fs::read_to_string(dir.path().join("results.txt")).unwrap(),
        "key value\nann Ann Larsen\nkey value\n"
    );
    assert!(printed.contains("\n17 -250\n"), "{printed}");
    assert_eq!(fs::read(dir.path().join("copy/photo")).unwrap(), vec![8; 50_000]);
    assert!(!dir.path().join("copy/films").exists(), "the film was deleted");
}
