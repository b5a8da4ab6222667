//! Lines at a terminal: edited, remembered, completed. Ctrl-C drops a line, Ctrl-D ends the shell.

use std::env;
use std::fs;
use std::io;
use std::path::PathBuf;

use rustyline::config::Configurer;
use rustyline::error::ReadlineError;
use rustyline::history::DefaultHistory;
use rustyline::{CompletionType, Config, Editor};

use super::complete::Completion;
use super::session::{Next, Session};
use crate::args::Shell;
use crate::exit::{Failure, Outcome, note};
use crate::interrupt;
use crate::output::Out;

/// Lines that are remembered.
const REMEMBERED: usize = 10_000;

type Lines = Editor<Completion, DefaultHistory>;

pub(super) fn run(session: &mut Session, args: &Shell) -> Outcome {
    interrupt::install().map_err(|error| Failure::store(format!("cannot catch Ctrl-C: {error}")))?;
    let mut lines = editor().map_err(|error| Failure::store(format!("cannot read the terminal: {error}")))?;
    let history = if args.no_history { None } else { history_file() };
    if let Some(path) = &history {
        // A first session has none.
        let _ = lines.load_history(path);
    }
    loop {
        lines.set_helper(Some(Completion::new(session.store())));
        let line = match lines.readline(&format!("{}> ", session.place())) {
            Ok(line) => line,
            Err(ReadlineError::Interrupted | ReadlineError::Signal(_)) => continue,
            Err(ReadlineError::Io(error)) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(ReadlineError::Eof) => return Out::stdout()?.with(|out| out.write(b"\n")),
            Err(error) => return Err(Failure::store(format!("cannot read the terminal: {error}"))),
        };
        // A handle less when the store is closed.
        lines.set_helper(None);
        remember(&mut lines, &line, &history);
        let mut ask = |question: &str| lines.readline(question).ok();
        match session.line(line.as_bytes(), Some(&mut ask)) {
            Ok(Next::GoOn) => {}
            Ok(Next::End) => return Ok(()),
            // It has been said.
            Err(_) => {}
        }
    }
}

fn editor() -> rustyline::Result<Lines> {
    let config = Config::builder().completion_type(CompletionType::List).build();
    let mut lines = Lines::with_config(config)?;
    lines.set_max_history_size(REMEMBERED)?;
    lines.set_history_ignore_space(true);
    Ok(lines)
}

/// Adds a line to the history, and to its file at once, so that a shell that is killed loses nothing.
fn remember(lines: &mut Lines, line: &str, history: &Option<PathBuf>) {
    if !matches!(lines.add_history_entry(line), Ok(true)) {
        return;
    }
    if let Some(path) = history
        && let Err(error) = lines.append_history(path)
    {
        note(&format!("cannot write {}: {error}", path.display()));
    }
}

/// Where earlier lines are kept, by the XDG base directory specification. None without a home.
fn history_file() -> Option<PathBuf> {
    let absolute = |name: &str| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let state = absolute("XDG_STATE_HOME").or_else(|| Some(absolute("HOME")?.join(".local/state")))?;
    let dir = state.join("esker");
    let made: io::Result<()> = fs::create_dir_all(&dir);
    made.ok().map(|()| dir.join("history"))
}
