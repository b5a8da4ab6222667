//! Runs statements one after the other, and prints their answers.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use esker_ql::{Answer, Error, STATEMENT_LEN_MAX, Session, Statement, statements};

use super::failure::failure;
use super::output::{Shown, cells, line_elements};
use super::{files, load};
use crate::args::{Global, QlFormat};
use crate::encoding::{BYTE_ORDER_MARK, decoded};
use crate::escapes;
use crate::exit::{Failure, Outcome, note};
use crate::interrupt;
use crate::lines::failed;
use crate::output::Out;

/// How deep `SOURCE` may be within files that `SOURCE` reads.
const SOURCES_MAX: usize = 16;

/// Up to this length, an unfinished text is looked at whenever the input may have paused.
const LOOKED_AT_ALWAYS: usize = 1 << 20;

/// A session, and how its answers are printed.
pub(super) struct Runner {
    global: Global,
    session: Session,
    format: QlFormat,
    /// How many files are being read one within the other.
    sources: usize,
    /// Whether a statement has ended the session.
    has_quit: bool,
}

/// Where a text comes from.
#[derive(Clone, Copy)]
pub(super) struct Origin<'a> {
    /// The file's name, if it is one.
    name: Option<&'a str>,
    /// How many lines of it were before the text, and how many characters of the text's first line.
    lines: usize,
    columns: usize,
}

impl Origin<'_> {
    /// What was typed.
    pub(super) const TYPED: Origin<'static> = Origin { name: None, lines: 0, columns: 0 };

    /// Goes behind `text`.
    fn pass(&mut self, text: &[u8]) {
        let line = text.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        self.columns = if line == 0 { self.columns } else { 0 };
        self.lines += newlines(text);
        self.columns += String::from_utf8_lossy(&text[line..]).chars().count();
    }

    fn prefix(&self) -> String {
        self.name.map(|name| format!("{name}: ")).unwrap_or_default()
    }
}

impl Runner {
    pub(super) fn new(global: &Global, session: Session, format: QlFormat) -> Runner {
        Runner { global: global.clone(), session, format, sources: 0, has_quit: false }
    }

    /// Whether a statement has said that no more statements are run.
    pub(super) fn has_quit(&self) -> bool {
        self.has_quit
    }

    pub(super) fn session(&self) -> &Session {
        &self.session
    }

    /// Runs all statements of `input`, each as soon as it is there. The first one that fails ends this.
    pub(super) fn read(&mut self, input: impl Read, name: Option<&str>) -> Outcome {
        let mut input = BufReader::with_capacity(1 << 16, input);
        let (mut text, mut origin) = (Vec::new(), Origin { name, lines: 0, columns: 0 });
        // A text that had a `;` at the end of a line and was unfinished is looked at again when it is twice as long, so that the
        // effort stays in proportion.
        let (mut looked_at, mut has_begun) = (0, false);
        loop {
            let room = (STATEMENT_LEN_MAX + 2).saturating_sub(text.len()).max(1) as u64;
            let read = input.by_ref().take(room).read_until(b'\n', &mut text);
            let len = match read {
                Ok(len) => len,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => {
                    let name = name.unwrap_or("standard input");
                    return Err(failed(Path::new(name), &error));
                }
            };
            if !std::mem::replace(&mut has_begun, true) && text.starts_with(BYTE_ORDER_MARK) {
                text.drain(..BYTE_ORDER_MARK.len());
            }
            let is_end = len == 0;
            let is_long = text.len() > STATEMENT_LEN_MAX;
            // Before it waits for more input, it looks at all that is there.
            let is_due =
                text.len() >= 2 * looked_at || (text.len() < LOOKED_AT_ALWAYS && input.buffer().is_empty());
            let is_promising = text.trim_ascii_end().ends_with(b";") && is_due;
            if !is_end && !is_long && !is_promising {
                continue;
            }
            let done = self.text(&text, origin, is_end)?;
            if is_end || self.has_quit {
                return Ok(());
            }
            if done == 0 && is_long {
                return Err(Failure::usage(format!(
                    "{}line {}: a statement has {STATEMENT_LEN_MAX} bytes at most; this one has more",
                    origin.prefix(),
                    origin.lines + 1
                )));
            }
            origin.pass(&text[..done]);
            text.drain(..done);
            looked_at = text.len();
        }
    }

    /// Runs the statements of `text`. Unless it `is_whole`, an unfinished one at its end stays. Returns the length of those
    /// that were run, with what ends them.
    pub(super) fn text(&mut self, text: &[u8], origin: Origin<'_>, is_whole: bool) -> Outcome<usize> {
        let mut done = 0;
        for statement in statements(text) {
            interrupt::check()?;
            let located = match statement {
                Ok(located) if !located.is_ended && !is_whole => return Ok(done),
                Ok(located) => located,
                Err(error) if error.is_unfinished() && !is_whole => return Ok(done),
                Err(error) => return Err(refused(error, origin)),
            };
            let place = located.place;
            let lines = origin.lines + newlines(&text[..place.start]);
            self.execute(located.statement, text, origin).map_err(|failure| match failure.message() {
                Some(message) if lines > 0 || origin.name.is_some() => {
                    note(&format!("{}line {}: {message}", origin.prefix(), lines + 1));
                    Failure::reported(failure.code())
                }
                _ => failure,
            })?;
            if self.has_quit {
                break;
            }
            let rest = &text[place.end..];
            done = place.end + rest.iter().position(|byte| *byte == b';').map_or(rest.len(), |at| at + 1);
        }
        Ok(text.len())
    }

    /// Runs a statement of `text`.
    fn execute(&mut self, statement: Statement, text: &[u8], origin: Origin<'_>) -> Outcome {
        let refused = |error: Error| refused(error.in_text(text), origin);
        let is_analysis = matches!(statement, Statement::Explain { is_analyzed: true, .. });
        let begun = Instant::now();
        match self.session.execute(statement).map_err(refused)? {
            Answer::Names(mut names) => {
                names.extend(
                    is_analysis.then(|| format!("time: {:.3} ms", begun.elapsed().as_secs_f64() * 1e3)),
                );
                self.lines(names.iter().map(String::as_bytes))
            }
            Answer::Text(text) => self.lines(text.lines().map(str::as_bytes)),
            Answer::Number(number) => self.lines([number.to_string().as_bytes()]),
            Answer::Truth(is_so) => self.lines([is_so.to_string().as_bytes()]),
            Answer::Bytes(bytes) => {
                let mut line = Vec::new();
                escapes::append(&mut line, &bytes);
                self.lines([&line[..]])
            }
            Answer::Cells { cells: found, select } => {
                let shown = Shown::of(&select.options);
                match &select.options.into_file {
                    Some(file) => files::write(&self.global, file, found, &shown),
                    None => {
                        let format = self.format;
                        Out::stdout()?.with(|out| cells(out, format, found, &shown))
                    }
                }
            }
            Answer::Dump { cells, dump } => {
                files::write(&self.global, &dump.file, cells, &Shown::whole(dump.separator))
            }
            Answer::Load { table, schema, load } => load::run(self.session.tables(), &table, &schema, &load),
            Answer::LoadCell { table, cell, timestamp } => {
                files::read_cell(self.session.tables(), &table, &cell, timestamp)
            }
            Answer::DumpCell { cells, file } => files::write_value(&self.global, &file, cells),
            Answer::Source(file) => self.source(&file),
            Answer::Pause(time) => pause(time),
            Answer::Quit => {
                self.has_quit = true;
                Ok(())
            }
            Answer::ReadSchema { file, change } => {
                let text = files::read_schema(&file)?;
                let failed = |error: Error| match error {
                    Error::Table(esker_table::Error::Schema { message, at }) => {
                        Failure::usage(wrong_schema(&file, &text, &message, at))
                    }
                    error => refused(error),
                };
                self.session.change_schema(&change, &text).map(drop).map_err(failed)
            }
            Answer::WriteSchema { file, text } => files::write_schema(&self.global, &file, &text),
            _ => Ok(()),
        }
    }

    /// Prints an answer that is no cells.
    fn lines<'a>(&self, lines: impl IntoIterator<Item = &'a [u8]>) -> Outcome {
        Out::stdout()?.with(|out| match self.format {
            QlFormat::Xml => line_elements(out, lines),
            _ => lines.into_iter().try_for_each(|line| {
                out.part(line);
                out.line("")
            }),
        })
    }

    fn source(&mut self, file: &[u8]) -> Outcome {
        let path = files::path(file);
        if self.sources == SOURCES_MAX {
            return Err(Failure::usage(format!(
                "SOURCE in files that SOURCE reads goes {SOURCES_MAX} files deep at most"
            )));
        }
        let opened = File::open(path).map_err(|error| Failure::io("read", path, &error))?;
        self.sources += 1;
        let done = decoded(opened, None).map_err(|error| failed(path, &error));
        let done = done.and_then(|text| self.read(text, Some(&path.display().to_string())));
        self.sources -= 1;
        done
    }
}

/// Waits, until Ctrl-C at the latest.
fn pause(time: Duration) -> Outcome {
    // If no clock reaches the time, the wait has no end.
    let until = Instant::now().checked_add(time);
    loop {
        interrupt::check()?;
        let left =
            until.map_or(interrupt::LOOK_EVERY, |until| until.saturating_duration_since(Instant::now()));
        if left.is_zero() {
            return Ok(());
        }
        std::thread::sleep(left.min(interrupt::LOOK_EVERY));
    }
}

fn newlines(text: &[u8]) -> usize {
    memchr::memchr_iter(b'\n', text).count()
}

/// What is wrong with the schema `text` of a file, and in which line.
fn wrong_schema(file: &[u8], text: &str, message: &str, at: Option<u64>) -> String {
    let name = files::path(file).display();
    let before = at.and_then(|at| text.as_bytes().get(..usize::try_from(at).ok()?));
    match before {
        Some(before) => format!("{name}:{}: {message}", newlines(before) + 1),
        None => format!("{name}: {message}"),
    }
}

/// The failure of a statement. An error with a place is said at once, with the line.
fn refused(error: Error, origin: Origin<'_>) -> Failure {
    let Some((place, message, excerpt)) = error.shown() else { return failure(error) };
    let line = place.line + origin.lines;
    let column = place.column + if place.line == 1 { origin.columns } else { 0 };
    note(&format!("{}line {line}, column {column}: {message}", origin.prefix()));
    let mut shown = Vec::new();
    for line in excerpt.lines() {
        escapes::append_shown(&mut shown, line.as_bytes());
        shown.push(b'\n');
    }
    // A closed standard error is no failure.
    let _ = io::stderr().lock().write_all(&shown);
    Failure::usage_reported()
}
