//! Statements at a terminal: they go over several lines, until a `;` ends them. Ctrl-C drops what is typed, Ctrl-D ends.

use std::io;

use rustyline::error::ReadlineError;
use rustyline::history::DefaultHistory;
use rustyline::{CompletionType, Config, Editor};

use super::complete::{Completion, is_command};
use super::runner::{Origin, Runner};
use crate::args::Ql;
use crate::exit::{Failure, Outcome, note};
use crate::history::History;
use crate::interrupt;
use crate::output::Out;

/// What `help` prints.
pub(super) const HELP: &str = "\
Statements end with `;`, and may have several lines. Tab completes words, tables and columns.
  SHOW TABLES;  DESCRIBE TABLE t;  SELECT * FROM t LIMIT 10;  EXPLAIN ANALYZE SELECT * FROM t;
  SOURCE 'file';    runs the statements of a file
  exit              ends, as Ctrl-D does; Ctrl-C drops what is typed, or stops the statement that runs
docs/eskerql.md describes the language.";

pub(super) fn run(runner: &mut Runner, args: &Ql) -> Outcome {
    let failed = |error: &dyn std::fmt::Display| Failure::store(format!("cannot read the terminal: {error}"));
    interrupt::install().map_err(|error| Failure::store(format!("cannot catch Ctrl-C: {error}")))?;
    let config = Config::builder().completion_type(CompletionType::List).build();
    let mut lines =
        Editor::<Completion, DefaultHistory>::with_config(config).map_err(|error| failed(&error))?;
    let mut history = History::load((!args.no_history).then_some("ql-history"), &mut lines);
    loop {
        lines.set_helper(Some(Completion::new(runner.session())));
        // An earlier Ctrl-C was for earlier statements.
        interrupt::clear();
        let text = match lines.readline(&format!("{}> ", runner.session().namespace())) {
            Ok(text) => text,
            Err(ReadlineError::Interrupted | ReadlineError::Signal(_)) => continue,
            Err(ReadlineError::Io(error)) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(ReadlineError::Io(error)) if error.kind() == io::ErrorKind::InvalidData => {
                note("the line is not UTF-8, and was dropped; x'00ff' is a string of any bytes");
                continue;
            }
            Err(ReadlineError::Eof) => return Out::stdout()?.with(|out| out.write(b"\n")),
            Err(error) => return Err(failed(&error)),
        };
        history.remember(&mut lines, &text);
        if is_command(&text, "help") {
            Out::stdout()?.with(|out| out.line(HELP))?;
            continue;
        }
        if let Err(failure) = runner.text(text.as_bytes(), Origin::TYPED, true) {
            if failure.is_pipe_closed() {
                return Err(failure);
            }
            failure.message().inspect(|message| note(message));
        }
        if runner.has_quit() {
            return Ok(());
        }
    }
}
