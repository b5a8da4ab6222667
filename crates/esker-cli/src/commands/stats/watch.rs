//! `esker stats --watch`: one line each time, with the change per second since the line before.
//!
//! ```text
//!      UTC       entries  entries/s       disk      disk/s        log   huge
//! 14:35:01     1,234,567          -  270.3 MiB           -    1.2 MiB    0 B
//! 14:35:02     1,235,767     +1,200  271.5 MiB  +1.2 MiB/s    2.4 MiB    0 B
//! ```
//!
//! A narrower terminal gets the columns that fit. The header is printed again after each screen of lines. The process
//! that has the store open counts operations, so only the shell has columns for them.

use std::io::{IsTerminal, stdout};
use std::thread;
use std::time::{Duration, Instant};

use esker::trace::Operation;
use esker::{Db, ErrorKind, Stats};
use indicatif::{HumanBytes, HumanCount};
use serde_json::{Map, Value, json};

use super::figures::{figures, print, why_figures};
use crate::args::{Global, Stats as Args, StatsFormat};
use crate::exit::{Outcome, note};
use crate::interrupt;
use crate::json;
use crate::output::Out;
use crate::store::{opening, options};
use crate::utc::{now_us, utc};

/// After this many lines the header is printed again, if the size of the screen is unknown.
const HEAD_EVERY: usize = 40;

/// Prints at every `interval`, until it is interrupted or the reader goes away.
pub(super) fn watch(global: &Global, args: &Args, interval: Duration) -> Outcome {
    let mut watch = Watch { global, args, before: None, lines: 0 };
    let mut waits_for_writer = false;
    loop {
        match &global.open {
            Some(db) => watch.show(db)?,
            None => match Db::open_read_only(&global.db, options(global)) {
                Ok(db) => {
                    waits_for_writer = false;
                    watch.show(&db)?;
                }
                Err(error) if error.kind() == ErrorKind::Locked => {
                    if !std::mem::replace(&mut waits_for_writer, true) {
                        note("another process has the store open for writing; waiting for it");
                    }
                }
                Err(error) => return Err(opening(global, error)),
            },
        }
        let until = Instant::now() + interval;
        while let Some(left) = until.checked_duration_since(Instant::now()).filter(|left| !left.is_zero()) {
            interrupt::check()?;
            thread::sleep(left.min(interrupt::LOOK_EVERY));
        }
    }
}

/// Figures, and when they were read.
struct Seen {
    at: Instant,
    figures: Vec<(&'static str, u64)>,
}

struct Watch<'a> {
    global: &'a Global,
    args: &'a Args,
    before: Option<Seen>,
    /// The lines since the header was printed; 0: print it now.
    lines: usize,
}

impl Watch<'_> {
    fn show(&mut self, db: &Db) -> Outcome {
        if self.args.why {
            return self.picture(db);
        }
        match self.args.format {
            Some(StatsFormat::Prometheus) => {
                print(self.global, self.args, db)?;
                Out::stdout()?.with(|out| out.line(""))
            }
            Some(StatsFormat::Json) => self.object(db),
            None if self.global.json => self.object(db),
            _ => self.line(db),
        }
    }

    /// Prints why operations were slow. On a terminal it replaces the text before, cut to the size of the screen;
    /// elsewhere an empty line separates the texts.
    fn picture(&self, db: &Db) -> Outcome {
        let why = db.why_slow();
        if self.global.json || self.args.format == Some(StatsFormat::Json) {
            return Out::stdout()?.with(|out| {
                json::object(out.buffer(), &why_figures(&why));
                Ok(())
            });
        }
        let text = format!("{}\n{why}", utc(now_us()));
        let Some((rows, columns)) = screen() else {
            return Out::stdout()?.with(|out| out.line(&format!("{text}\n")));
        };
        Out::stdout()?.raw().with(|out| out.write(b"\x1b[H\x1b[2J"))?;
        Out::stdout()?.with(|out| {
            for line in text.lines().take(rows.saturating_sub(1)) {
                out.part(line.chars().take(columns).collect::<String>().as_bytes());
                out.line("")?;
            }
            Ok(())
        })
    }

    /// The figures with the time and, from the second time on, the changes per second.
    fn object(&mut self, db: &Db) -> Outcome {
        let stats = db.stats()?;
        let (seen, rates) = self.rates(&stats);
        let rates = rates.map(|rates| {
            let fields =
                seen.figures.iter().zip(&rates).map(|((name, _), rate)| ((*name).to_owned(), json!(rate)));
            fields.collect::<Map<_, _>>()
        });
        self.before = Some(seen);
        let mut object = Map::from_iter([
            ("time".to_owned(), json!(utc(now_us()))),
            ("per_second".to_owned(), json!(rates)),
        ]);
        object.extend(figures(&stats));
        Out::stdout()?.with(|out| {
            json::object(out.buffer(), &Value::Object(object));
            Ok(())
        })
    }

    fn line(&mut self, db: &Db) -> Outcome {
        let stats = db.stats()?;
        let (seen, rates) = self.rates(&stats);
        let columns = columns(self.global.open.is_some(), &stats, &seen, rates.as_deref());
        self.before = Some(seen);
        let (rows, width) = screen().unwrap_or((HEAD_EVERY, usize::MAX));
        let mut out = Out::stdout()?;
        if self.lines == 0 {
            out.line(&joined(columns.iter().map(|column| (column.width, column.head)), width))?;
        }
        out.line(&joined(columns.iter().map(|column| (column.width, column.text.as_str())), width))?;
        self.lines = (self.lines + 1) % rows.saturating_sub(2).max(1);
        out.flush()
    }

    /// The present figures, and the growth of each per second since the last time.
    fn rates(&self, stats: &Stats) -> (Seen, Option<Vec<f64>>) {
        let seen = Seen { at: Instant::now(), figures: watched(self.global.open.is_some(), stats) };
        let rates = self.before.as_ref().map(|before| {
            let seconds = seen.at.duration_since(before.at).as_secs_f64().max(1e-6);
            let pairs = seen.figures.iter().zip(&before.figures);
            pairs.map(|((_, now), (_, before))| (*now as f64 - *before as f64) / seconds).collect()
        });
        (seen, rates)
    }
}

/// The figures whose changes are shown. Counts of operations start again with each opening, so only the shell has them.
fn watched(in_shell: bool, stats: &Stats) -> Vec<(&'static str, u64)> {
    let entries = stats.trees.iter().map(|tree| tree.memtable_entries + tree.table_entries).sum();
    let mut figures = vec![("entries", entries), ("disk_bytes", stats.disk_bytes)];
    if in_shell {
        let count = |of: &[Operation]| {
            stats
                .operations
                .iter()
                .filter(|stats| of.contains(&stats.operation))
                .map(|stats| stats.count)
                .sum()
        };
        figures.push(("reads", count(&[Operation::Get, Operation::Scan])));
        figures.push(("writes", count(&[Operation::Write])));
        figures.push(("merged_bytes_out", stats.merged_bytes_out));
    }
    figures
}

struct Column {
    head: &'static str,
    width: usize,
    text: String,
}

fn columns(in_shell: bool, stats: &Stats, seen: &Seen, rates: Option<&[f64]>) -> Vec<Column> {
    let column = |head, width, text| Column { head, width, text };
    let figure = |at: usize| seen.figures.get(at).map_or(0, |(_, figure)| *figure);
    let count = |at: usize| signed(rates, at, |amount| HumanCount(amount).to_string());
    let bytes = |at: usize| signed(rates, at, |amount| HumanBytes(amount).to_string());
    let time = utc(now_us())
        .split_once('T')
        .map_or(String::new(), |(_, time)| time.trim_end_matches('Z').to_owned());
    let mut columns = vec![
        column("UTC", 8, time),
        column("entries", 13, HumanCount(figure(0)).to_string()),
        column("entries/s", 10, count(0)),
        column("disk", 11, HumanBytes(figure(1)).to_string()),
        column("disk/s", 12, bytes(1)),
    ];
    if in_shell {
        columns.push(column("reads/s", 10, count(2)));
        columns.push(column("writes/s", 10, count(3)));
        columns.push(column("merged/s", 12, bytes(4)));
    }
    columns.push(column("log", 11, HumanBytes(stats.log_live_bytes).to_string()));
    columns.push(column("huge", 11, HumanBytes(stats.blob_disk_bytes).to_string()));
    columns
}

/// A change per second, with its sign; `-` the first time.
fn signed(rates: Option<&[f64]>, at: usize, shown: impl Fn(u64) -> String) -> String {
    let Some(rate) = rates.and_then(|rates| rates.get(at)) else { return "-".to_owned() };
    let amount = shown(rate.abs().round() as u64);
    match rate.round() {
        rate if rate > 0.0 => format!("+{amount}"),
        rate if rate < 0.0 => format!("-{amount}"),
        _ => amount,
    }
}

/// The columns that fit into `width`, right-aligned.
fn joined<'a>(columns: impl Iterator<Item = (usize, &'a str)>, width: usize) -> String {
    let mut line = String::new();
    for (column, text) in columns {
        let gap = usize::from(!line.is_empty());
        if line.chars().count() + gap + column.max(text.chars().count()) > width {
            break;
        }
        line.push_str(&" ".repeat(gap));
        line.push_str(&format!("{text:>column$}"));
    }
    line
}

/// The rows and columns of the terminal, if there is one.
fn screen() -> Option<(usize, usize)> {
    let size = rustix::termios::tcgetwinsize(stdout()).ok()?;
    let is_known = stdout().is_terminal() && size.ws_row > 0 && size.ws_col > 0;
    is_known.then(|| (usize::from(size.ws_row), usize::from(size.ws_col)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_have_a_sign() {
        let shown = |rate| signed(Some(&[rate]), 0, |amount| HumanCount(amount).to_string());
        assert_eq!(signed(None, 0, |amount| amount.to_string()), "-");
        for (rate, expected) in [
            (0.0, "0"),
            (0.4, "0"),
            (1234.6, "+1,235"),
            (-7.0, "-7"),
            (f64::NAN, "0"),
            (f64::INFINITY, "+18,446,744,073,709,551,615"),
        ] {
            assert_eq!(shown(rate), expected);
        }
    }

    #[test]
    fn a_line_is_as_wide_as_the_screen_at_most() {
        let columns = [(8, "14:35:01"), (5, "1"), (5, "1234567")];
        assert_eq!(joined(columns.into_iter(), 80), "14:35:01     1 1234567");
        assert_eq!(joined(columns.into_iter(), 21), "14:35:01     1");
        assert_eq!(joined(columns.into_iter(), 5), "");
        let stats = Stats::default();
        let seen = Seen { at: Instant::now(), figures: watched(true, &stats) };
        let all = columns_of_80(&stats, &seen);
        assert!(all.chars().count() <= 80 && all.contains("disk/s"), "{all}");
    }

    fn columns_of_80(stats: &Stats, seen: &Seen) -> String {
        joined(super::columns(true, stats, seen, None).iter().map(|column| (column.width, column.head)), 80)
    }
}
