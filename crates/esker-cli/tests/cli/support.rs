//! Running the built binary.

#![allow(dead_code, unused_imports, reason = "each test file uses its part")]

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

pub(crate) use test_kit::Rng;

/// Says that `test` cannot be run here; `./test` counts what was skipped.
pub(crate) fn skip(test: &str, why: &str) {
    println!("skipped {test}: {why}");
    if let Some(path) = std::env::var_os("ESKER_NOTES") {
        let mut file = fs::OpenOptions::new().append(true).create(true).open(path).unwrap();
        writeln!(file, "{test}: {why}").unwrap();
    }
}

/// How a command ended.
#[derive(Debug)]
pub(crate) struct Done {
    pub(crate) code: i32,
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: Vec<u8>,
}

impl Done {
    pub(crate) fn stdout(&self) -> String {
        String::from_utf8_lossy(&self.stdout).into_owned()
    }

    pub(crate) fn stderr(&self) -> String {
        String::from_utf8_lossy(&self.stderr).into_owned()
    }
}

/// `esker`, to be run in `dir`.
pub(crate) fn esker_in(dir: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_esker"));
    command.current_dir(dir).env_remove("ESKER_DB").env_remove("ESKER_URL").env("RUST_BACKTRACE", "0");
    command
}

/// Runs `command` to its end with `stdin`.
pub(crate) fn run(mut command: Command, stdin: &[u8]) -> Done {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut pipe = child.stdin.take().unwrap();
    let output = std::thread::scope(|scope| {
        // A command that does not read its input closes the pipe; that is no failure here.
        scope.spawn(move || drop(pipe.write_all(stdin)));
        child.wait_with_output().unwrap()
    });
    Done { code: output.status.code().unwrap_or(-1), stdout: output.stdout, stderr: output.stderr }
}

/// Runs `esker` in `dir` with these arguments, separated by blanks.
pub(crate) fn esker(dir: &Path, arguments: &str) -> Done {
    esker_with(dir, arguments, b"")
}

/// The same with a standard input.
pub(crate) fn esker_with(dir: &Path, arguments: &str, stdin: &[u8]) -> Done {
    let mut command = esker_in(dir);
    command.args(arguments.split(' '));
    run(command, stdin)
}

/// Every file below `dir`, sorted.
pub(crate) fn files(dir: &Path, found: &mut Vec<PathBuf>) {
    let mut paths: Vec<_> = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    for path in paths {
        if path.is_dir() { files(&path, found) } else { found.push(path) }
    }
}

/// Whether strace can be used here; where not, `test` is skipped and says so.
#[cfg(target_os = "linux")]
pub(crate) fn can_trace(test: &str) -> bool {
    let arguments = ["-f", "--seccomp-bpf", "-o", "/dev/null", "-e", "trace=openat", "true"];
    let why = match Command::new("strace").args(arguments).output() {
        Ok(output) if output.status.success() => return true,
        Ok(output) => String::from_utf8_lossy(&output.stderr).trim().to_owned(),
        Err(error) => format!("strace: {error}"),
    };
    skip(test, &why);
    false
}
