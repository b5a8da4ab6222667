//! Results: printed when they are there, read again from JSON Lines, and shown side by side.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};

use super::work::Tally;
use crate::args::{BenchFormat, Pe, PeCommand};
use crate::exit::{Failure, Outcome};
use crate::formats::tsv;
use crate::output::Out;

/// The results of a run, in their order.
pub(super) struct Run {
    pub(super) label: String,
    pub(super) results: Vec<RunResult>,
}

/// The result of a command: an object of JSON.
#[derive(Clone)]
pub(super) struct RunResult(Value);

/// What is printed for each result: the name, the field, and how wide it is for people.
const COLUMNS: [(&str, &str, usize); 12] = [
    ("command", "command", 15),
    ("rows", "rows", 10),
    ("missing", "missing", 9),
    ("seconds", "seconds", 9),
    ("rows/s", "rows_per_second", 10),
    ("MB/s", "mb_per_second", 9),
    ("p50 us", "p50_us", 9),
    ("p99 us", "p99_us", 9),
    ("p99.9 us", "p999_us", 9),
    ("max us", "max_us", 10),
    ("CPU us/row", "cpu_us_per_row", 10),
    ("peak MiB", "memory_peak_mib", 9),
];

/// The same for runs side by side.
const COMPARED: [(&str, &str, usize); 9] = [
    ("command", "command", 15),
    ("run", "run", 20),
    ("rows/s", "rows_per_second", 10),
    ("ratio", "ratio", 8),
    ("p50 us", "p50_us", 9),
    ("p99 us", "p99_us", 9),
    ("p99.9 us", "p999_us", 9),
    ("CPU us/row", "cpu_us_per_row", 10),
    ("peak MiB", "memory_peak_mib", 9),
];

impl RunResult {
    pub(super) fn new(label: &str, command: PeCommand, args: &Pe, tally: &Tally, elapsed: Duration) -> Self {
        let (seconds, latencies) = (elapsed.as_secs_f64().max(1e-9), &tally.latencies);
        RunResult(json!({
            "run": label,
            "command": command.name(),
            "clients": args.clients,
            "rows_per_client": args.rows,
            "value_size": args.value_size,
            "batch": args.batch,
            "caching": args.caching,
            "seed": args.seed,
            "rows": tally.rows,
            "missing": tally.missing,
            "calls": latencies.count(),
            "seconds": seconds,
            "rows_per_second": tally.rows as f64 / seconds,
            "mb_per_second": tally.bytes as f64 / seconds / 1e6,
            "p50_us": latencies.quantile_us(0.5),
            "p99_us": latencies.quantile_us(0.99),
            "p999_us": latencies.quantile_us(0.999),
            "max_us": latencies.max_us(),
            "cpu_us_per_row": null,
            "memory_peak_mib": null,
        }))
    }

    /// The same with CPU time and memory of the process that serves the table, if they are known.
    pub(super) fn with_process(mut self, cpu_seconds: Option<f64>, memory_peak_bytes: Option<u64>) -> Self {
        let rows = self.number("rows").unwrap_or_default().max(1.0);
        self.0["cpu_us_per_row"] = json!(cpu_seconds.map(|seconds| seconds * 1e6 / rows));
        self.0["memory_peak_mib"] = json!(memory_peak_bytes.map(|bytes| bytes as f64 / f64::from(1 << 20)));
        self
    }

    pub(super) fn command(&self) -> &str {
        self.text("command")
    }

    pub(super) fn rows_per_second(&self) -> f64 {
        self.number("rows_per_second").unwrap_or_default()
    }

    fn text(&self, field: &str) -> &str {
        self.0.get(field).and_then(Value::as_str).unwrap_or_default()
    }

    fn number(&self, field: &str) -> Option<f64> {
        self.0.get(field).and_then(Value::as_f64)
    }

    /// A field as people read it: about three digits, and `-` where there is no figure.
    fn shown(&self, field: &str) -> String {
        match self.0.get(field) {
            Some(Value::String(text)) => text.clone(),
            Some(Value::Number(number)) if number.is_u64() => number.to_string(),
            Some(Value::Number(number)) => {
                let number = number.as_f64().unwrap_or_default();
                let digits = if number < 10.0 { 2 } else { usize::from(number < 100.0) };
                format!("{number:.digits$}")
            }
            _ => "-".to_owned(),
        }
    }
}

/// Prints results one after the other.
pub(super) struct Printer {
    format: BenchFormat,
    columns: Vec<(&'static str, &'static str, usize)>,
}

impl Printer {
    pub(super) fn start(out: &mut Out, format: BenchFormat) -> Outcome<Printer> {
        Printer::of(out, format, &COLUMNS)
    }

    fn of(
        out: &mut Out,
        format: BenchFormat,
        columns: &[(&'static str, &'static str, usize)],
    ) -> Outcome<Printer> {
        let printer = Printer { format, columns: columns.to_vec() };
        let names = columns.iter();
        match format {
            BenchFormat::Jsonl => {}
            BenchFormat::Tsv => printer.line(out, names.map(|(_, field, _)| (*field).to_owned()))?,
            BenchFormat::Table => printer.line(out, names.map(|(name, _, _)| (*name).to_owned()))?,
        }
        out.flush()?;
        Ok(printer)
    }

    /// Prints a result, so that it is seen at once.
    pub(super) fn print(&mut self, out: &mut Out, result: &RunResult) -> Outcome {
        let fields = self.columns.iter();
        match self.format {
            BenchFormat::Jsonl => out.line(&result.0.to_string())?,
            BenchFormat::Table => self.line(out, fields.map(|(_, field, _)| result.shown(field)))?,
            BenchFormat::Tsv => {
                let exact = |field: &str| match result.0.get(field) {
                    Some(Value::String(text)) => text.clone(),
                    Some(Value::Number(number)) => number.to_string(),
                    _ => String::new(),
                };
                self.line(out, fields.map(|(_, field, _)| exact(field)))?;
            }
        }
        out.flush()
    }

    fn line(&self, out: &mut Out, fields: impl Iterator<Item = String>) -> Outcome {
        let mut line = Vec::new();
        for ((i, field), (name, _, width)) in fields.enumerate().zip(&self.columns) {
            match self.format {
                BenchFormat::Table => {
                    let is_text = ["command", "run"].contains(name);
                    let text = if is_text { format!("{field:width$}") } else { format!("{field:>width$}") };
                    line.extend_from_slice(if i > 0 { b" " } else { b"" });
                    line.extend_from_slice(text.as_bytes());
                }
                _ => {
                    line.extend_from_slice(if i > 0 { b"\t" } else { b"" });
                    tsv::append(&mut line, field.as_bytes());
                }
            }
        }
        line.push(b'\n');
        out.write(&line)
    }
}

/// Reads the runs in files, in their order. A run may be in several files, and have several results for a command: the one in
/// the middle counts.
pub(super) fn read(paths: &[PathBuf]) -> Outcome<Vec<Run>> {
    let mut runs: Vec<Run> = Vec::new();
    for path in paths {
        let text = fs::read_to_string(path).map_err(|error| Failure::io("read", path, &error))?;
        for (number, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
            let result = parse(line).ok_or_else(|| no_result(path, number + 1))?;
            let label = result.text("run").to_owned();
            match runs.iter_mut().find(|run| run.label == label) {
                Some(run) => run.results.push(result),
                None => runs.push(Run { label, results: vec![result] }),
            }
        }
    }
    for run in &mut runs {
        run.results = commands(std::slice::from_ref(run))
            .iter()
            .filter_map(|command| {
                let same = run.results.iter().filter(|result| result.command() == command);
                let mut same: Vec<&RunResult> = same.collect();
                same.sort_by(|a, b| a.rows_per_second().total_cmp(&b.rows_per_second()));
                same.get(same.len() / 2).map(|result| (*result).clone())
            })
            .collect();
    }
    Ok(runs)
}

fn parse(line: &str) -> Option<RunResult> {
    let result = RunResult(serde_json::from_str(line).ok()?);
    let is_whole = !result.text("run").is_empty() && !result.command().is_empty();
    (is_whole && result.rows_per_second() > 0.0).then_some(result)
}

fn no_result(path: &Path, line: usize) -> Failure {
    let path = path.display();
    Failure::usage(format!("{path}:{line}: no result that `esker bench pe --format jsonl` has printed"))
}

/// The commands of the runs, each once, in the order in which they first stand.
pub(super) fn commands(runs: &[Run]) -> Vec<String> {
    let mut commands: Vec<String> = Vec::new();
    for result in runs.iter().flat_map(|run| &run.results) {
        if !commands.iter().any(|known| known == result.command()) {
            commands.push(result.command().to_owned());
        }
    }
    commands
}

/// Prints the runs side by side, with the ratio of each one's rows per second to the last one's.
pub(super) fn print_compared(format: BenchFormat, runs: &[Run]) -> Outcome {
    Out::stdout()?.with(|out| {
        let mut printer = Printer::of(out, format, &COMPARED)?;
        let last = runs.last().map_or(&[][..], |run| run.results.as_slice());
        for command in commands(runs) {
            let base = last.iter().find(|result| result.command() == command);
            for result in
                runs.iter().flat_map(|run| &run.results).filter(|result| result.command() == command)
            {
                let mut result = result.clone();
                let ratio = base.map(|base| result.rows_per_second() / base.rows_per_second());
                result.0["ratio"] = json!(ratio);
                printer.print(out, &result)?;
            }
        }
        Ok(())
    })
}
