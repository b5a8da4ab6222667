//! `esker shell`: commands line by line, while the store stays open.
//!
//! ```text
//! terminal ─> terminal (rustyline: editing, history, complete, paste) ─┐
//! pipe, file ─> plain ────────────────────────────────────────────────┴─> session ─> words ─> line (clap) ─> commands
//! ```
//!
//! Only `exit`, `quit` and the end of the input end the shell. A failure is reported, and the next line is read. Every
//! command of the command line works here, by the same definition (`args`) and the same code.

mod complete;
mod line;
mod paste;
mod plain;
mod session;
mod terminal;
mod words;

use std::io::{self, IsTerminal};

use crate::args::{Global, Shell};
use crate::exit::Outcome;
use session::Session;

/// Parses a line of the shell, and does nothing else.
#[cfg(fuzzing)]
pub(crate) fn fuzz(line: &[u8]) {
    if let Ok(words) = words::split(line) {
        drop(line::parse(words));
    }
    if let Ok(text) = std::str::from_utf8(line) {
        assert!(text.is_char_boundary(words::last(text)));
        let quoted = words::quote(text);
        assert!(text.is_empty() || words::split(quoted.as_bytes()) == Ok(vec![text.into()]), "{quoted}");
    }
}

pub(crate) fn run(global: Global, args: &Shell) -> Outcome {
    let mut session = Session::new(global);
    let at_start = session.open_at_start();
    let ended = if io::stdin().is_terminal() && io::stdout().is_terminal() {
        terminal::run(&mut session, args)
    } else {
        plain::run(&mut session)
    };
    // If the store could not be opened, lines failed because of that, unless another store was opened.
    let ended = if session.has_opened() { ended } else { at_start.and(ended) };
    let closed = session.close();
    ended.and(closed)
}
