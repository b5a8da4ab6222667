//! Lines at a terminal: editing, history, completion. Ctrl-C drops a line, Ctrl-D ends the shell. Each pasted line is
//! run as if it had been typed.
//!
//! A line that is not UTF-8 is dropped, together with typed-ahead input: the editor gives up in its middle, and the
//! rest must not be taken for a command.

use std::env;
use std::io;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustyline::config::Configurer;
use rustyline::error::ReadlineError;
use rustyline::history::DefaultHistory;
use rustyline::{CompletionType, Config, Editor, Event};

use super::complete::Completion;
use super::paste::{Paste, Pasted};
use super::session::{Next, Session};
use crate::args::Shell;
use crate::escapes;
use crate::exit::{Failure, Outcome, note};
use crate::history::History;
use crate::interrupt;
use crate::output::Out;

type Lines = Editor<Completion, DefaultHistory>;

/// Pasted input that is typed ahead arrives within this time.
const TYPED_AHEAD: Timespec = Timespec { tv_sec: 0, tv_nsec: 20_000_000 };

pub(super) fn run(session: &mut Session, args: &Shell) -> Outcome {
    interrupt::install().map_err(|error| Failure::store(format!("cannot catch Ctrl-C: {error}")))?;
    let mut lines = editor().map_err(|error| Failure::store(format!("cannot read the terminal: {error}")))?;
    let mut history = History::load((!args.no_history).then_some("history"), &mut lines);
    let paste = Paste::default();
    lines.bind_sequence(Event::Any, paste.handler());
    let mut unfinished = (String::new(), String::new());
    loop {
        lines.set_helper(Some(Completion::new(session.store())));
        // An earlier Ctrl-C was for earlier lines.
        interrupt::clear();
        let (before, behind) = std::mem::take(&mut unfinished);
        let read = lines.readline_with_initial(&prompt(session), (&before, &behind));
        let (pasted, left_out) = paste.take();
        if left_out > 0 {
            note(&format!(
                "control characters left out of the pasted text: {left_out}; between double quotes \\xNN \
                 stands for a byte"
            ));
        }
        let line = match read {
            Ok(line) => line,
            Err(ReadlineError::Interrupted | ReadlineError::Signal(_)) => continue,
            Err(ReadlineError::Io(error)) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(ReadlineError::Io(error)) if error.kind() == io::ErrorKind::InvalidData => {
                drop_typed_ahead();
                note("the line is not UTF-8, and was dropped; --file FILE takes a value of any bytes");
                continue;
            }
            Err(ReadlineError::Eof) => return Out::stdout()?.with(|out| out.write(b"\n")),
            Err(error) => return Err(Failure::store(format!("cannot read the terminal: {error}"))),
        };
        // This drops a handle, so that the store can be closed.
        lines.set_helper(None);
        let pasted = pasted.unwrap_or_else(|| Pasted { lines: vec![line], ..Pasted::default() });
        let count = pasted.lines.len();
        unfinished = pasted.unfinished;
        for (done, line) in pasted.lines.iter().enumerate() {
            if done > 0 {
                // The editor has shown the first line already.
                Out::stdout()?.with(|out| out.line(&format!("{}{line}", prompt(session))))?;
            }
            history.remember(&mut lines, line);
            let mut ask = |question: &str| answer(&mut lines, &paste, question);
            // Failures are reported already.
            if let Ok(Next::End) = session.line(line.as_bytes(), Some(&mut ask)) {
                return Ok(());
            }
            let left = count - done - 1;
            if left > 0 && interrupt::check().is_err() {
                note(&format!("pasted lines after this one that were not run: {left}"));
                unfinished = (String::new(), String::new());
                break;
            }
        }
    }
}

fn prompt(session: &Session) -> String {
    let mut prompt = Vec::new();
    escapes::append_shown(&mut prompt, session.place().as_bytes());
    format!("{}> ", String::from_utf8_lossy(&prompt))
}

/// Asks at the terminal. If the answer is pasted, its first line counts.
fn answer(lines: &mut Lines, paste: &Paste, question: &str) -> Option<String> {
    let mut shown = Vec::new();
    escapes::append_shown(&mut shown, question.as_bytes());
    let typed = lines.readline(String::from_utf8_lossy(&shown).as_ref()).ok();
    let (pasted, _) = paste.take();
    pasted.and_then(|pasted| pasted.lines.into_iter().next()).or(typed)
}

/// Discards the rest of the terminal's input after a dropped line.
fn drop_typed_ahead() {
    // Such a terminal has no editing: the system returns whole lines, and only the dropped one was read.
    let plain = ["dumb", "cons25", "emacs"];
    if env::var("TERM").is_ok_and(|term| plain.iter().any(|name| term.eq_ignore_ascii_case(name))) {
        return;
    }
    let (input, mut dropped) = (io::stdin(), [0; 4096]);
    loop {
        let mut ready = [PollFd::new(&input, PollFlags::IN)];
        let is_there = poll(&mut ready, Some(&TYPED_AHEAD)).is_ok_and(|count| count > 0);
        // An end or an error comes again when the next line is read.
        if !is_there || !rustix::io::read(&input, &mut dropped).is_ok_and(|count| count > 0) {
            return;
        }
    }
}

fn editor() -> rustyline::Result<Lines> {
    let config = Config::builder().completion_type(CompletionType::List).build();
    let mut lines = Lines::with_config(config)?;
    lines.set_history_ignore_space(true);
    Ok(lines)
}
