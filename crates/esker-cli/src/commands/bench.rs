//! `esker bench pe`: HBase's PerformanceEvaluation on tables, embedded or of a server by HBase's Thrift interface.
//!
//! ```text
//! commands in turn --> clients at once, a thread each (work) --> calls on a table (target)
//!                                 |                                  embedded | thrift
//!                       latencies, rows, bytes        CPU and memory of the process that serves (process)
//!                                 '---------> a result each (report) <---------'
//!                                             table, TSV, JSON Lines, bars (plot)
//! ```

mod latency;
mod plot;
mod process;
mod report;
mod target;
mod work;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{PoisonError, RwLock};
use std::thread::ScopedJoinHandle;
use std::time::{Duration, Instant};

use crate::args::{Bench, BenchFormat, Global, Pe, PeCommand, Suite};
use crate::exit::{Failure, Outcome};
use crate::interrupt;
use crate::output::{NewFile, Out};
use crate::progress::Progress;
use crate::store;
use process::Processes;
use report::{Printer, Run, RunResult};
use target::{Connection, Target};
use work::{Tally, Work};

pub(crate) fn run(global: &Global, args: &Bench) -> Outcome {
    let Suite::Pe(args) = &args.suite;
    if !args.compare.is_empty() {
        let runs = report::read(&args.compare)?;
        report::print_compared(format(global, args), &runs)?;
        return draw(global, args, &runs);
    }
    let is_local = global.url.is_none();
    if is_local && !args.server_pid.is_empty() {
        return Err(Failure::usage(
            "--server-pid names the process of a server (--url): this process is measured without it",
        ));
    }
    let processes = if is_local { Processes::this() } else { Processes::of(&args.server_pid)? };
    interrupt::watch().map(drop)?;
    let target = Target::open(global)?;
    let label = args.label.clone().unwrap_or_else(|| target.name());
    // Only now the store is there. A plot that cannot be drawn is better refused before the run.
    let checked = args.plot.as_ref().map_or(Ok(()), |path| store::check_outside(global, path));
    let done = checked.and_then(|()| run_all(global, args, &target, &processes, label));
    // Also after a failure: what was written is synced.
    let closed = target.close();
    let run = done?;
    closed?;
    draw(global, args, &[run])
}

fn format(global: &Global, args: &Pe) -> BenchFormat {
    let fallback = if global.json { BenchFormat::Jsonl } else { BenchFormat::Table };
    args.format.unwrap_or(fallback)
}

fn draw(global: &Global, args: &Pe, runs: &[Run]) -> Outcome {
    let Some(path) = &args.plot else { return Ok(()) };
    store::check_outside(global, path)?;
    let mut file = NewFile::create(path)?;
    file.out().write(plot::svg(runs).as_bytes())?;
    file.finish()
}

/// Runs the commands in turn, and prints each result when it is there.
fn run_all(
    global: &Global,
    args: &Pe,
    target: &Target,
    processes: &Processes,
    label: String,
) -> Outcome<Run> {
    target.need_table()?;
    let mut connections: Vec<Box<dyn Connection>> =
        (0..args.clients).map(|_| target.connect(args)).collect::<Outcome<_>>()?;
    let mut out = Out::stdout()?;
    let mut printer = Printer::start(&mut out, format(global, args))?;
    let mut run = Run { label, results: Vec::new() };
    let mut is_whole = false;
    for (turn, &command) in args.commands.iter().enumerate() {
        let used = processes.cpu_seconds()?;
        let (tally, elapsed) = measure(args, command, turn as u64, &mut connections)?;
        let used = used.zip(processes.cpu_seconds()?).map(|(before, after)| after - before);
        let result = RunResult::new(&run.label, command, args, &tally, elapsed)
            .with_process(used, processes.memory_peak_bytes()?);
        printer.print(&mut out, &result)?;
        run.results.push(result);
        is_whole |= command == PeCommand::SequentialWrite;
        if is_whole && tally.missing > 0 {
            return Err(Failure::store(format!(
                "{}: {} rows were not found, though sequentialWrite has written all of them",
                command.name(),
                tally.missing
            )));
        }
    }
    Ok(run)
}

/// Runs a command with all clients at once. The first failure ends it. Returns what they did, and how long all took.
fn measure(
    args: &Pe,
    command: PeCommand,
    turn: u64,
    connections: &mut [Box<dyn Connection>],
) -> Outcome<(Tally, Duration)> {
    let _progress = Progress::spinner(command.name());
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
                let mut work = Work::new(args, command, turn, client as u64, has_failed);
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
        let join = |client: std::io::Result<ScopedJoinHandle<'_, Outcome<Tally>>>| {
            let client = client.map_err(|error| Failure::store(format!("cannot start a thread: {error}")))?;
            client.join().map_err(|_| Failure::store("a client's thread has ended without a result"))?
        };
        let done: Vec<Outcome<Tally>> = clients.into_iter().map(join).collect();
        let elapsed = begun.elapsed();
        let mut tally = Tally::default();
        for done in done {
            tally.add(&done?);
        }
        // Clients that ended because another one has failed have no failure of their own.
        interrupt::check()?;
        Ok((tally, elapsed))
    })
}
