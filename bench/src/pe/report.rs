//! Results: printed as they come in, read again from tab-separated values, shown side by side, and drawn.

use super::work::Tally;
use crate::plot::{Axis, Plot, Series};
use crate::stores::Result;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The results of a run, in their order.
pub(super) struct Run {
    pub(super) label: String,
    pub(super) results: Vec<RunResult>,
}

/// The result of a command.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct RunResult {
    pub(super) run: String,
    pub(super) command: String,
    /// By [`FIGURES`]; `None`: not known.
    figures: [Option<f64>; FIGURES.len()],
}

/// The figures of a result: names for programs and for people, the width of a column, and whether runs side by side have it.
const FIGURES: [(&str, &str, usize, bool); 12] = [
    ("rows", "rows", 10, false),
    ("missing", "missing", 9, false),
    ("calls", "calls", 10, false),
    ("seconds", "seconds", 9, false),
    ("rows_per_second", "rows/s", 10, true),
    ("mb_per_second", "MB/s", 9, false),
    ("p50_us", "p50 us", 9, true),
    ("p99_us", "p99 us", 9, true),
    ("p999_us", "p99.9 us", 9, true),
    ("max_us", "max us", 10, false),
    ("cpu_us_per_row", "CPU us/row", 10, true),
    ("memory_peak_mib", "peak MiB", 9, true),
];

impl RunResult {
    pub(super) fn new(
        run: &str,
        command: &str,
        tally: &Tally,
        elapsed: Duration,
        cpu_seconds: Option<f64>,
        memory_peak_bytes: Option<u64>,
    ) -> RunResult {
        let (seconds, latencies) = (elapsed.as_secs_f64().max(1e-9), &tally.latencies);
        let rows = tally.rows as f64;
        RunResult {
            run: run.to_owned(),
            command: command.to_owned(),
            figures: [
                Some(rows),
                Some(tally.missing as f64),
                Some(latencies.count() as f64),
                Some(seconds),
                Some(rows / seconds),
                Some(tally.bytes as f64 / seconds / 1e6),
                Some(latencies.quantile_us(0.5)),
                Some(latencies.quantile_us(0.99)),
                Some(latencies.quantile_us(0.999)),
                Some(latencies.max_us()),
                cpu_seconds.map(|seconds| seconds * 1e6 / rows.max(1.0)),
                memory_peak_bytes.map(|bytes| bytes as f64 / f64::from(1 << 20)),
            ],
        }
    }

    pub(super) fn figure(&self, name: &str) -> Option<f64> {
        let place = FIGURES.iter().position(|(known, ..)| *known == name)?;
        self.figures[place]
    }

    pub(super) fn rows_per_second(&self) -> f64 {
        self.figure("rows_per_second").unwrap_or_default()
    }

    /// The result as tab-separated fields, which [`RunResult::parse`] reads.
    pub(super) fn line(&self) -> String {
        let plain = |figure: &Option<f64>| figure.map_or(String::new(), |figure| figure.to_string());
        let figures: Vec<String> = self.figures.iter().map(plain).collect();
        format!("{}\t{}\t{}", self.run.replace(['\t', '\n'], " "), self.command, figures.join("\t"))
    }

    fn parse(line: &str) -> Option<RunResult> {
        let mut fields = line.split('\t');
        let (run, command) = (fields.next()?.to_owned(), fields.next()?.to_owned());
        let mut figures = [None; FIGURES.len()];
        for figure in &mut figures {
            let field = fields.next()?;
            *figure = if field.is_empty() { None } else { Some(field.parse().ok()?) };
        }
        let result = RunResult { run, command, figures };
        (fields.next().is_none() && result.rows_per_second() > 0.0).then_some(result)
    }
}

/// The first line of tab-separated results.
pub(super) fn names() -> String {
    let figures: Vec<&str> = FIGURES.iter().map(|(name, ..)| *name).collect();
    format!("run\tcommand\t{}", figures.join("\t"))
}

/// A figure for people: about three digits, and `-` if it is not known.
fn shown(figure: Option<f64>) -> String {
    match figure {
        None => "-".to_owned(),
        Some(figure) if figure >= 100.0 || figure == 0.0 => format!("{figure:.0}"),
        Some(figure) => format!("{figure:.*}", if figure < 10.0 { 2 } else { 1 }),
    }
}

pub(super) fn print_head() {
    let names = FIGURES.iter().map(|(_, name, width, _)| format!(" {name:>width$}"));
    println!("{:15}{}", "command", names.collect::<String>());
}

pub(super) fn print(result: &RunResult) {
    let figures = FIGURES.iter().zip(result.figures);
    let cells = figures.map(|((_, _, width, _), figure)| format!(" {:>width$}", shown(figure)));
    println!("{:15}{}", result.command, cells.collect::<String>());
}

/// Reads the runs in files, in their order. A run may be in several files, and have several results for a command: the one in
/// the middle counts.
pub(super) fn read(paths: &[PathBuf]) -> Result<Vec<Run>> {
    let mut runs: Vec<Run> = Vec::new();
    for path in paths {
        let text = std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
        let lines = text.lines().enumerate().filter(|(_, line)| !line.is_empty() && *line != names());
        for (number, line) in lines {
            let result = RunResult::parse(line)
                .ok_or_else(|| format!("{}:{}: not a result of `pe --tsv`", path.display(), number + 1))?;
            match runs.iter_mut().find(|run| run.label == result.run) {
                Some(run) => run.results.push(result),
                None => runs.push(Run { label: result.run.clone(), results: vec![result] }),
            }
        }
    }
    for run in &mut runs {
        let middle = |command: &String| {
            let mut same: Vec<&RunResult> =
                run.results.iter().filter(|result| result.command == *command).collect();
            same.sort_by(|a, b| a.rows_per_second().total_cmp(&b.rows_per_second()));
            same[same.len() / 2].clone()
        };
        run.results = commands(std::slice::from_ref(run)).iter().map(middle).collect();
    }
    Ok(runs)
}

/// The commands of the runs, each once, in the order of their first results.
fn commands(runs: &[Run]) -> Vec<String> {
    let mut commands: Vec<String> = Vec::new();
    for result in runs.iter().flat_map(|run| &run.results) {
        if !commands.contains(&result.command) {
            commands.push(result.command.clone());
        }
    }
    commands
}

/// The runs side by side, with the ratio of each one's rows per second to the last one's.
pub(super) fn compared(runs: &[Run]) -> String {
    let columns = || FIGURES.iter().zip(0..).filter(|((.., is_compared), _)| *is_compared);
    let names = columns().map(|((_, name, width, _), _)| format!(" {name:>width$}"));
    let mut out = format!("{:15} {:20} {:>8}{}\n", "command", "run", "ratio", names.collect::<String>());
    let last = runs.last().map_or(&[][..], |run| run.results.as_slice());
    for command in commands(runs) {
        let base = last.iter().find(|result| result.command == command);
        for result in runs.iter().flat_map(|run| &run.results).filter(|result| result.command == command) {
            let ratio = base.map(|base| result.rows_per_second() / base.rows_per_second());
            let cells = columns()
                .map(|((_, _, width, _), place)| format!(" {:>width$}", shown(result.figures[place])));
            let cells = cells.collect::<String>();
            out.push_str(&format!("{command:15} {:20} {:>8}{cells}\n", result.run, shown(ratio)));
        }
    }
    out
}

/// Draws rows per second: a group of bars for each command, a colour for each run.
pub(super) fn draw(runs: &[Run], path: &Path) -> Result<()> {
    let columns = commands(runs);
    let rate = |run: &Run, command: &String| {
        let result = run.results.iter().find(|result| result.command == *command);
        result.map(RunResult::rows_per_second)
    };
    let series = runs.iter().map(|run| Series {
        name: run.label.clone(),
        points: columns.iter().map(|command| rate(run, command)).collect(),
    });
    let series = series.collect();
    let plot = Plot { title: "rows/s", columns, series, bars: true, axis: Axis::Decades };
    std::fs::write(path, plot.svg()).map_err(|error| format!("{}: {error}", path.display()).into())
}
