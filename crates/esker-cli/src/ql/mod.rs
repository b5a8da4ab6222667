//! `esker ql`: statements of EskerQL on the tables of a store or a server.
//!
//! ```text
//! terminal ─> terminal (rustyline: several lines, history, complete) ─┐
//! pipe, --execute, SOURCE ────────────────────────────────────────────┴─> runner ─> esker_ql::Session
//!                                                                           │            on a Remote, or on local: a store
//!                                                                           ├─> output    cells in one of the formats
//!                                                                           └─> files     LOAD DATA, DUMP TABLE, INTO FILE
//! ```

mod complete;
mod failure;
mod files;
mod load;
mod local;
mod output;
mod runner;
mod terminal;
mod times;

use std::io::{self, IsTerminal};
use std::path::Path;

use esker_ql::Session;

use crate::args::{Global, Ql, QlFormat};
use crate::encoding::decoded;
use crate::exit::Outcome;
use crate::lines::failed;
use crate::output::Out;
use complete::is_command;
pub(crate) use local::Local;
use runner::Runner;

pub(crate) fn run(global: &Global, session: Session, args: &Ql) -> Outcome {
    let is_shown = io::stdout().is_terminal();
    let format = args.format.unwrap_or(match (global.json, is_shown) {
        (true, _) => QlFormat::Jsonl,
        (false, true) => QlFormat::Table,
        (false, false) => QlFormat::Tsv,
    });
    let mut runner = Runner::new(global, session, format);
    match &args.execute {
        Some(text) if is_command(text, "help") => Out::stdout()?.with(|out| out.line(terminal::HELP)),
        Some(text) => document(format, || runner.read(text.as_bytes(), None)),
        None if is_shown && io::stdin().is_terminal() => terminal::run(&mut runner, args),
        None => document(format, || {
            let text =
                decoded(io::stdin(), None).map_err(|error| failed(Path::new("standard input"), &error))?;
            runner.read(text, None)
        }),
    }
}

/// Runs the statements of a text. As XML, their answers are one document, which has no end if one of them fails: no part of it is taken
/// for the whole.
fn document(format: QlFormat, read: impl FnOnce() -> Outcome) -> Outcome {
    if format != QlFormat::Xml {
        return read();
    }
    Out::stdout()?.with(|out| out.line("<answers>"))?;
    read()?;
    Out::stdout()?.with(|out| out.line("</answers>"))
}
