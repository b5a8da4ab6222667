//! Lines from a pipe or a file: each is run as it comes, even if lines before it failed.

use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

use super::session::{Next, Session};
use crate::encoding::decoded;
use crate::exit::{Failure, Outcome, note};
use crate::lines::{HOW_TO_TAKE_MORE, failed, line_max};

/// Runs every line of standard input. The exit code is that of the first line that failed.
pub(super) fn run(session: &mut Session) -> Outcome {
    let unread = |error| failed(Path::new("standard input"), &error);
    let mut input = BufReader::new(decoded(io::stdin(), None).map_err(unread)?);
    let (mut line, mut number) = (Vec::new(), 0_u64);
    let most = line_max(session.memory());
    let mut first_failure = Ok(());
    loop {
        line.clear();
        let read = input.by_ref().take(most as u64 + 1).read_until(b'\n', &mut line);
        if read.map_err(unread)? == 0 {
            return first_failure;
        }
        number += 1;
        if line.len() > most && !line.ends_with(b"\n") {
            input.skip_until(b'\n').map_err(unread)?;
            note(&format!("line {number} has more than {most} bytes, {HOW_TO_TAKE_MORE}"));
            first_failure = first_failure.and(Err(Failure::usage_reported()));
            continue;
        }
        let end = line.iter().rposition(|byte| !b"\r\n".contains(byte)).map_or(0, |last| last + 1);
        match session.line(&line[..end], None) {
            Ok(Next::GoOn) => {}
            Ok(Next::End) => return first_failure,
            Err(failure) if failure.is_pipe_closed() => return Err(failure),
            Err(failure) => {
                note(&format!("the error is in line {number}"));
                first_failure = first_failure.and(Err(failure));
            }
        }
    }
}
