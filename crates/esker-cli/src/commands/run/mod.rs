//! `esker run FILE`: runs a file of commands.
//!
//! ```text
//! FILE ─ lines ─> parse ─> PUT, DELETE ─> batch ─┐  applied when full, before a read,
//!                    └──> GET, SCAN <── store <──┘  before waiting for input, at the end
//!                              └──> output buffer ──> OUT
//! ```
//!
//! Commands take effect in file order, although writes are batched: a read sees every write before it.

mod execute;
mod parse;

use std::fs::File;
use std::os::unix::fs::MetadataExt;

use crate::args::{Global, Run};
use crate::exit::{Failure, Outcome};
use crate::feed::feed;
use crate::lines::{Input, line_max};
use crate::output::Out;
use crate::store::{Store, check_outside};
use crate::summary::Summary;
use execute::Runner;

/// Parses a line of a command file, and does nothing else.
#[cfg(fuzzing)]
pub(crate) fn fuzz(line: &[u8]) {
    match parse::parse(line) {
        Ok(command) => drop(format!("{command:?}")),
        Err(malformed) => drop(malformed.to_string()),
    }
}

pub(crate) fn run(global: &Global, args: &Run) -> Outcome {
    let input = Input::open(&args.file)?.text(None).lines_at_most(line_max(global.memory));
    if let Some(output) = &args.output
        && is_same(input.file(), output)
    {
        let message = format!("{} is the input: --output would empty it", output.display());
        return Err(Failure::usage(message));
    }
    let store = Store::create_if_writable(global)?;
    if let Some(output) = args.output.as_ref().filter(|output| output.as_os_str() != "-") {
        check_outside(global, output)?;
    }
    let out = match &args.output {
        Some(path) if path.as_os_str() != "-" => Out::truncate(path)?,
        _ => Out::stdout()?,
    };
    let summary = Summary::start();
    let mut runner = Runner::new(store, out.write_behind()?, global.json);
    let done = feed(input, args.keep_going, &mut runner);
    let counts = runner.counts();
    // Writes before a malformed line must become durable too.
    let finished = runner.finish();
    let parts =
        [(counts.puts, "puts"), (counts.gets, "gets"), (counts.deletes, "deletes"), (counts.scans, "scans")];
    summary.print("operations", parts.iter().map(|(count, _)| count).sum(), &parts);
    done.and(finished)
}

/// Whether `path` leads to the open `file`.
fn is_same(file: &File, path: &std::path::Path) -> bool {
    match (file.metadata(), std::fs::metadata(path)) {
        (Ok(a), Ok(b)) => a.is_file() && (a.dev(), a.ino()) == (b.dev(), b.ino()),
        _ => false,
    }
}
