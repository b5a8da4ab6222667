//! Feeds an input to a command line by line: the common part of `run` and `import`.

use crate::exit::{Failure, Outcome, note};
use crate::interrupt;
use crate::lines::Input;
use crate::progress::Progress;
use crate::writes::Refused;

/// The consumer of the lines.
pub(crate) trait Sink {
    /// Takes one line, without its end unless [`Sink::keeps_ends`].
    fn line(&mut self, line: &[u8]) -> Result<(), Refused>;

    /// Whether lines of more than a few megabytes are passed in parts: [`Sink::part`], then [`Sink::line`] with the rest.
    fn takes_parts(&self) -> bool {
        false
    }

    /// Takes a part of a line that goes on. The first part has a few megabytes.
    fn part(&mut self, _part: &[u8]) -> Result<(), Refused> {
        Ok(())
    }

    /// Looks at the first block of the input before its lines are taken.
    fn begin(&mut self, block: &[u8]) -> Outcome;

    /// Whether lines are passed with their ends.
    fn keeps_ends(&self) -> bool {
        false
    }

    /// How many lines before the last one belong to the last row that was taken or refused.
    fn held(&self) -> u64 {
        0
    }

    /// Called when no line follows.
    fn end(&mut self) -> Result<(), Refused> {
        Ok(())
    }

    /// Applies and prints everything so far. Called before it waits for input, and at the end.
    fn settle(&mut self) -> Outcome;
}

/// Passes every line of `input` to `sink`. A refused line ends this with file, line number and reason, after all lines
/// before it were settled. With `keep_going` it is reported and skipped.
pub(crate) fn feed(input: Input, keep_going: bool, sink: &mut impl Sink) -> Outcome {
    let fed = feed_lines(input, keep_going, sink);
    let malformed = match (fed, sink.settle()) {
        (Err(of_line), Err(of_store)) => {
            // The lines before are not all stored: both count.
            of_line.message().into_iter().for_each(note);
            return Err(of_store);
        }
        (fed, settled) => {
            settled?;
            fed?
        }
    };
    if malformed > 0 { Err(Failure::usage_reported()) } else { Ok(()) }
}

/// Returns the number of lines that were refused and skipped.
fn feed_lines(input: Input, keep_going: bool, sink: &mut impl Sink) -> Outcome<u64> {
    let name = input.name();
    let progress = if input.is_typed() { Progress::hidden() } else { Progress::bytes(input.len()) };
    let mut blocks = input.blocks(sink.takes_parts())?;
    let keeps_ends = sink.keeps_ends();
    let (mut number, mut malformed) = (0u64, 0);
    let mut refused = |number: u64, refused: Refused| match refused {
        Refused::Failed(failure) => Err(failure),
        Refused::Malformed(reason) => {
            let message = format!("{name}:{number}: {reason}");
            if !keep_going {
                return Err(Failure::usage(message));
            }
            note(&message);
            malformed += 1;
            Ok(())
        }
    };
    let (mut is_first, mut is_within_line) = (true, false);
    while let Some(block) = blocks.next(|| sink.settle())? {
        if std::mem::take(&mut is_first) {
            sink.begin(block.bytes())?;
        }
        if block.is_part() {
            interrupt::check()?;
            number += u64::from(!std::mem::replace(&mut is_within_line, true));
            if let Err(reason) = sink.part(block.bytes()) {
                refused(number, reason)?;
            }
        } else {
            for line in block.lines(keeps_ends) {
                interrupt::check()?;
                number += u64::from(!std::mem::take(&mut is_within_line));
                if let Err(reason) = sink.line(line) {
                    refused(number - sink.held(), reason)?;
                }
            }
        }
        progress.add(block.bytes().len() as u64);
        blocks.recycle(block);
    }
    if is_within_line && let Err(reason) = sink.line(b"") {
        refused(number, reason)?;
    }
    if let Err(reason) = sink.end() {
        refused(number - sink.held(), reason)?;
    }
    Ok(malformed)
}

/// Refuses input that has carriage returns in place of line feeds: all of it would be one line. `block` is the first
/// block, which is the whole input if it has no line feed.
pub(crate) fn check_line_ends(block: &[u8]) -> Outcome {
    let inner = block.trim_ascii_end();
    if memchr::memchr(b'\n', block).is_some() || memchr::memchr(b'\r', inner).is_none() {
        return Ok(());
    }
    Err(Failure::usage(
        "the input has no line feed, but carriage returns, which do not end lines here: `tr '\\r' '\\n' < FILE` turns \
         them into lines. If they are parts of one line, end it with a line feed",
    ))
}
