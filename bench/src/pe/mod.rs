//! `pe`: HBase's PerformanceEvaluation on tables, embedded or of a server by HBase's Thrift interface.
//!
//! ```text
//! commands in turn --> clients, a thread each (work) --> calls on a table (target)
//!                                 |                          embedded | thrift
//!                       latencies, rows, bytes        CPU and memory of the process that serves
//!                                 '---------> a result each (report) <---------'
//!                                             table, tab-separated values, bars
//! ```

mod options;
mod report;
mod target;
#[cfg(test)]
mod tests;
mod work;

use crate::process;
use crate::stores::Result;
use options::{Command, Options};
use report::{Run, RunResult};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{PoisonError, RwLock};
use std::thread::ScopedJoinHandle;
use std::time::{Duration, Instant};
use target::{Connection, Target};
use work::{Tally, Work};

pub(crate) fn run(words: &[String]) -> Result<()> {
    let options = Options::parse(words)?;
    let runs = if options.compare.is_empty() {
        vec![measured(&options)?]
    } else {
        let runs = report::read(&options.compare)?;
        print!("{}", report::compared(&runs));
        runs
    };
    options.plot.map_or(Ok(()), |path| report::draw(&runs, &path))
}

/// Runs what the options ask for, and prints each result as it comes in.
fn measured(options: &Options) -> Result<Run> {
    let target = Target::open(options)?;
    let label = options.label.clone().unwrap_or_else(|| target.name());
    let done = run_all(options, &target, label);
    // Also after a failure: what was written is synced.
    let closed = target.close();
    let run = done?;
    closed?;
    Ok(run)
}

/// The processes that serve the table. None: they are not known.
fn processes(options: &Options) -> Vec<String> {
    match options.server {
        None => vec!["self".to_owned()],
        Some(_) => options.server_pids.iter().map(u32::to_string).collect(),
    }
}

/// The CPU time that processes have taken until now, and the most memory that they have had, each at its own time.
fn used(processes: &[String]) -> Result<Option<(f64, u64)>> {
    let (mut seconds, mut bytes) = (0.0, 0);
    for pid in processes {
        let figures = process::used_by(pid).ok_or_else(|| format!("the process {pid} does not exist"))?;
        seconds += figures.0;
        bytes += figures.1;
    }
    Ok((!processes.is_empty()).then_some((seconds, bytes)))
}

fn run_all(options: &Options, target: &Target, label: String) -> Result<Run> {
    let processes = processes(options);
    used(&processes)?;
    target.need_table()?;
    let mut connections: Vec<Box<dyn Connection>> =
        (0..options.clients).map(|_| target.connect(options)).collect::<Result<_>>()?;
    if options.is_tsv {
        println!("{}", report::names());
    } else {
        report::print_head();
    }
    let mut run = Run { label, results: Vec::new() };
    let mut is_whole = false;
    for (turn, &(name, command)) in options.commands.iter().enumerate() {
        let before = used(&processes)?;
        let (tally, elapsed) = measure(options, command, turn as u64, &mut connections)?;
        let after = used(&processes)?;
        let cpu_seconds = before.zip(after).map(|(before, after)| after.0 - before.0);
        let memory = after.map(|after| after.1);
        let result = RunResult::new(&run.label, name, &tally, elapsed, cpu_seconds, memory);
        if options.is_tsv {
            println!("{}", result.line());
        } else {
            report::print(&result);
        }
        run.results.push(result);
        is_whole |= command == Command::SequentialWrite;
        if is_whole && tally.missing > 0 {
            let missing = tally.missing;
            return Err(format!(
                "{name}: {missing} rows were not found, though sequentialWrite has written all of them"
            )
            .into());
        }
    }
    Ok(run)
}

/// Runs a command with all clients at the same time. The first failure ends it. Returns what they did, and how long all took.
fn measure(
    options: &Options,
    command: Command,
    turn: u64,
    connections: &mut [Box<dyn Connection>],
) -> Result<(Tally, Duration)> {
    // Clients wait for it until all of them are there.
    let gate = RwLock::new(());
    let has_failed = AtomicBool::new(false);
    let (gate, has_failed) = (&gate, &has_failed);
    std::thread::scope(|scope| {
        let closed = gate.write().unwrap_or_else(PoisonError::into_inner);
        let clients: Vec<_> = connections
            .iter_mut()
            .enumerate()
            .map(|(client, connection)| {
                let mut work = Work::new(options, command, turn, client as u64, has_failed);
                let client = std::thread::Builder::new().name(format!("client-{client}"));
                let started = client.spawn_scoped(scope, move || {
                    drop(gate.read());
                    let done = work.run(connection.as_mut());
                    if done.is_err() {
                        has_failed.store(true, Ordering::Relaxed);
                    }
                    done
                });
                if started.is_err() {
                    has_failed.store(true, Ordering::Relaxed);
                }
                started
            })
            .collect();
        let begun = Instant::now();
        drop(closed);
        let join = |client: std::io::Result<ScopedJoinHandle<'_, Result<Tally>>>| {
            let client = client.map_err(|error| format!("cannot start a thread: {error}"))?;
            client.join().map_err(|_| "a client's thread has ended without a result")?
        };
        let done: Vec<Result<Tally>> = clients.into_iter().map(join).collect();
        let elapsed = begun.elapsed();
        let mut tally = Tally::default();
        for done in done {
            tally.add(&done?);
        }
        Ok((tally, elapsed))
    })
}
