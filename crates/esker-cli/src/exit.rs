//! How a command ends: its exit code and, after a failure, one line on standard error.
//!
//! | code | meaning |
//! |---|---|
//! | 0 | done |
//! | 1 | absent key, or damage found by `check` or `repair` |
//! | 2 | usage or bad input |
//! | 3 | store damaged, locked or missing, or an I/O error |
//! | 130 | interrupted |
//! | 141 | the output pipe was closed by its reader (nothing is said) |

use std::ffi::OsStr;
use std::fmt::Display;
use std::io;
use std::path::Path;
use std::process::ExitCode;

use esker::ErrorKind;

use crate::escapes;

const NOT_THERE: u8 = 1;
const USAGE: u8 = 2;
const STORE: u8 = 3;
/// The exit code that a shell reports for a process that Ctrl-C ended.
pub(crate) const INTERRUPTED: u8 = 130;
/// The exit code that a shell reports for a process that SIGPIPE ended.
const PIPE_CLOSED: u8 = 141;

/// Why a command did not end with exit code 0.
#[derive(Debug)]
pub(crate) struct Failure {
    code: u8,
    message: Option<String>,
}

/// The result of every step of a command.
pub(crate) type Outcome<T = ()> = Result<T, Failure>;

impl Failure {
    /// Exit code 1, without a message: damage that was printed already, or an absent key that a program asked for.
    pub(crate) fn not_there() -> Self {
        Failure { code: NOT_THERE, message: None }
    }

    /// Exit code 1: there is no such key.
    pub(crate) fn absent(typed: &OsStr) -> Self {
        Failure { code: NOT_THERE, message: Some(format!("there is no such key: {}", typed.display())) }
    }

    /// Exit code 2: something that the caller typed, or fed in, is wrong.
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Failure { code: USAGE, message: Some(message.into()) }
    }

    /// Exit code 2, when every message was printed already.
    pub(crate) fn usage_reported() -> Self {
        Failure { code: USAGE, message: None }
    }

    /// Ctrl-C in the shell.
    pub(crate) fn interrupted(message: &str) -> Self {
        Failure { code: INTERRUPTED, message: Some(message.to_owned()) }
    }

    /// Exit code 3: the store or the operating system has failed.
    pub(crate) fn store(message: impl Into<String>) -> Self {
        Failure { code: STORE, message: Some(message.into()) }
    }

    /// Exit code 3: the operating system failed to `doing` the file `path`.
    pub(crate) fn io(doing: &str, path: &Path, error: &io::Error) -> Self {
        Failure::store(format!("cannot {doing} {}: {error}", path.display()))
    }

    /// Output could not be written. Without a message if its reader went away.
    pub(crate) fn output(name: &dyn Display, error: &io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Failure { code: PIPE_CLOSED, message: None },
            _ => Failure::store(format!("cannot write {name}: {error}")),
        }
    }

    /// Says what could not be done because the store or the operating system has failed. Other failures stay as they are.
    pub(crate) fn because_of_store(self, what: impl FnOnce() -> String) -> Self {
        let is_of_store = self.is_of_store();
        let message = self.message.map(|why| if is_of_store { format!("{}: {why}", what()) } else { why });
        Failure { message, ..self }
    }

    /// Exit code `code`, when every message was printed already.
    pub(crate) fn reported(code: u8) -> Self {
        Failure { code, message: None }
    }

    /// The exit code.
    pub(crate) fn code(&self) -> u8 {
        self.code
    }

    /// The message, if any.
    pub(crate) fn message(&self) -> Option<&str> {
        self.message.as_deref()
    }

    /// Whether the store or the operating system has failed.
    pub(crate) fn is_of_store(&self) -> bool {
        self.code == STORE
    }

    /// Whether the reader of the output has gone away.
    pub(crate) fn is_pipe_closed(&self) -> bool {
        self.code == PIPE_CLOSED
    }

    /// Prints the message, if any, as one line, and returns the exit code.
    pub(crate) fn report(self) -> ExitCode {
        if let Some(message) = self.message {
            note(&message);
        }
        ExitCode::from(self.code)
    }
}

impl From<esker::Error> for Failure {
    fn from(error: esker::Error) -> Self {
        let code = match error.kind() {
            ErrorKind::InvalidInput | ErrorKind::KeyMoved => USAGE,
            ErrorKind::Cancelled => INTERRUPTED,
            _ => STORE,
        };
        let advice = if error.kind() == ErrorKind::Corruption {
            " (`esker check` names all damage and says what to do)"
        } else {
            ""
        };
        Failure { code, message: Some(format!("{error}{advice}")) }
    }
}

/// Prints the requested help, or what is wrong with the arguments, in a form that is safe on a terminal.
pub(crate) fn print(message: &clap::Error) -> io::Result<()> {
    use std::io::Write;
    let text = message.to_string();
    let is_layout = |c: char| c == '\n' || c == '\t';
    if text.chars().all(|c| is_layout(c) || escapes::is_printable(c)) {
        return message.print();
    }
    let mut shown = Vec::new();
    for line in text.split_inclusive('\n') {
        escapes::append_shown(&mut shown, line.trim_end_matches('\n').as_bytes());
        shown.push(b'\n');
    }
    match message.use_stderr() {
        true => io::stderr().lock().write_all(&shown),
        false => io::stdout().lock().write_all(&shown),
    }
}

/// Prints `message` on standard error, in one line that begins with the program's name. Names of files and keys in it
/// cannot control a terminal. A closed standard error is not a failure.
pub(crate) fn note(message: &str) {
    use std::io::Write;
    let mut line = b"esker: ".to_vec();
    escapes::append_shown(&mut line, message.as_bytes());
    line.push(b'\n');
    let _ = io::stderr().lock().write_all(&line);
}

#[cfg(test)]
mod tests {
    use super::*;
    use esker::Error;

    #[test]
    fn kinds_map_to_the_documented_codes() {
        let code = |kind| Failure::from(Error::new(kind, "x")).code;
        assert_eq!(code(ErrorKind::InvalidInput), USAGE);
        for kind in [ErrorKind::Io, ErrorKind::Corruption, ErrorKind::Locked, ErrorKind::NotFound] {
            assert_eq!(code(kind), STORE, "{kind:?}");
        }
    }

    #[test]
    fn a_closed_pipe_is_quiet_and_a_full_disk_is_not() {
        let closed = Failure::output(&"standard output", &io::ErrorKind::BrokenPipe.into());
        assert_eq!((closed.code, closed.message), (PIPE_CLOSED, None));
        let full = Failure::output(&"standard output", &io::ErrorKind::StorageFull.into());
        assert_eq!(full.code, STORE);
        assert!(full.message.is_some());
    }
}
