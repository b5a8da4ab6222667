//! The commands that `docs/server.md`, the README and `docs/command-line.md` show for servers, run as they stand there.
//!
//! All `sh` blocks of a document are one session, with three liberties: ports are free ones instead of 6379 and others; a server
//! that is started runs beside the lines after it, in place of the one before; and the comments `# stop the server` and
//! `# start it again` do what they say. A block whose first line begins with `# not run by the tests:` is left out.

use std::fmt::Write as _;
use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use crate::support::skip;

const LEFT_OUT: &str = "# not run by the tests:";

/// What the session needs beside its commands. `serve` returns when the server accepts connections.
const PRELUDE: &str = "set -e
server=
stop() {
  [ -z \"$server\" ] || { kill \"$server\" 2>/dev/null && wait \"$server\"; }
  server=
}
trap stop EXIT
serve() {
  stop
  mkfifo said
  \"$@\" >said &
  server=$!
  while read -r line && [ \"$line\" != ready ]; do :; done <said
  rm said
}
";

/// What a line ends with whose command the server refuses.
const REFUSED: &str = "# NOPERM";

/// The `sh` blocks of `text`.
fn blocks(text: &str) -> impl Iterator<Item = &str> {
    let blocks = text.split("```sh\n").skip(1).map(|rest| rest.split_once("```").expect("a block ends").0);
    blocks.filter(|block| !block.starts_with(LEFT_OUT))
}

/// A script that runs the blocks one after the other.
fn script<'a>(blocks: impl Iterator<Item = &'a str>) -> String {
    let mut script = PRELUDE.to_owned();
    let mut server = "";
    for line in blocks.flat_map(str::lines) {
        let command = line.split(" #").next().unwrap_or_default().trim();
        let command = command.strip_suffix('&').unwrap_or(command).trim_end();
        let has = |wanted: &str| command.split(' ').any(|word| word == wanted);
        let is_server = command.starts_with("esker ") && has("serve") && !has("--print-config");
        match line {
            "# stop the server" => script.push_str("stop\n"),
            "# start it again" => writeln!(script, "serve {server}").unwrap(),
            _ if is_server => {
                server = command;
                writeln!(script, "serve {server}").unwrap();
            }
            _ if line.ends_with(REFUSED) => writeln!(script, "! {command}").unwrap(),
            _ => writeln!(script, "{line}").unwrap(),
        }
    }
    script
}

/// Runs a script in a directory that has what the documents' commands read. Returns what it printed.
fn run(script: &str) -> String {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("bin")).unwrap();
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_esker"), dir.path().join("bin/esker")).unwrap();
    let path = std::env::var("PATH").unwrap();
    let free_port = || TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let port = free_port();
    let of_redis = dir.path().join("bin/redis-cli");
    // An error that is returned is an exit code too.
    fs::write(&of_redis, format!("#!/bin/sh\nPATH='{path}' exec redis-cli -e -p {port} \"$@\"\n")).unwrap();
    fs::set_permissions(&of_redis, fs::Permissions::from_mode(0o700)).unwrap();
    fs::write(dir.path().join("film.mp4"), vec![b'f'; 5 << 20]).unwrap();
    fs::write(dir.path().join("photo.jpg"), vec![b'p'; 200_000]).unwrap();
    fs::write(dir.path().join("words.txt"), "eins 1\nzwei 2\n").unwrap();
    let ports = [("6379", port), ("6390", free_port()), ("8080", free_port())];
    let script = ports
        .iter()
        .fold(script.to_owned(), |script, (named, port)| script.replace(named, &port.to_string()));
    let mut command = Command::new("sh");
    command.args(["-c", &script]).current_dir(dir.path());
    command.env("PATH", format!("{}:{path}", dir.path().join("bin").display()));
    // What a server without `--resp` listens to.
    command.env("ESKER_RESP", format!("127.0.0.1:{port}")).env_remove("ESKER_DB").env_remove("ESKER_URL");
    let done = command.output().unwrap();
    let (printed, said) = (String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
    assert!(done.status.success(), "{script}\nprinted: {printed}\nsaid: {said}");
    printed.into_owned()
}

fn document(name: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(name)).unwrap()
}

/// The part of `text` below `heading`, up to the next heading of that level.
fn section<'a>(text: &'a str, heading: &str) -> &'a str {
    let section = text.split_once(heading).expect("the heading is there").1;
    section.split("\n## ").next().unwrap_or_default()
}

fn is_missing(test: &str, tool: &str) -> bool {
    let is_missing = Command::new(tool).arg("--version").output().is_err();
    if is_missing {
        skip(test, &format!("there is no {tool}"));
    }
    is_missing
}

#[test]
fn the_commands_of_the_document_about_the_server_do_what_they_should() {
    let test = "the_commands_of_the_document_about_the_server_do_what_they_should";
    if is_missing(test, "redis-cli") || is_missing(test, "openssl") {
        return;
    }
    let text = document("docs/server.md");
    // What follows on the part about security is asked of a server without it.
    let (before, rest) = text.split_once("\n## Security\n").expect("the part is there");
    let (security, behind) = rest.split_once("\n## ").expect("a part follows");
    let plain = ["esker --db demo.db serve"];
    let script = script(blocks(before).chain(blocks(security)).chain(plain).chain(blocks(behind)));
    assert!(
        script.matches("redis-cli").count() > 12 && script.matches("\nserve esker").count() > 2,
        "{script}"
    );
    let printed = run(&script);
    for part in [
        "OK\nhello\n",
        "name Ann\n",
        "photo\n",
        "1\n0\n",
        "hello\n43\n",
        &format!("{}\n", "f".repeat(100)),
        "log:1\na\nlog:2\nb\nlog:3\n",
        "\nshop\n",
    ] {
        assert!(printed.contains(part), "{part:?} is not in {printed}");
    }
}

#[test]
fn the_servers_of_the_readme_and_of_the_document_about_the_command_line_do_what_they_should() {
    if is_missing("the_servers_of_the_readme_and_of_the_document_about_the_command_line", "redis-cli") {
        return;
    }
    let printed = run(&script(blocks(section(&document("README.md"), "\n## As a server\n"))));
    assert!(printed.contains("ann\nAnn Larsen\n"), "{printed}");
    let text = document("docs/command-line.md");
    let served = ["\n## The server\n", "\n## On a server\n"].map(|heading| section(&text, heading));
    let printed = run(&script(served.into_iter().flat_map(blocks)));
    assert_eq!(printed, "Ann Larsen\nAnn Larsen\n1\n");
}
