//! `esker-bench`: Esker beside LevelDB and RocksDB, through one driver.
//!
//! `run` starts this program again for every store and group of workloads, so that no process inherits another's
//! memory; a child prints one line for each phase, and the parent makes the tables. See README.md.

use args::{Args, USAGE};
use measure::Record;
use std::io::{BufRead, BufReader, Write};
use std::process::{Command, ExitCode, Stdio};
use stores::Result;

mod args;
mod cache_sim;
mod data;
mod design;
mod gen001;
mod latency;
mod measure;
mod paper;
mod pe;
mod plot;
mod probe;
mod process;
mod report;
mod served;
mod source004;
mod space;
mod stores;
mod warm;
mod workloads;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match dispatch(&words) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("esker-bench: {error}");
            ExitCode::FAILURE
        }
    }
}

fn dispatch(words: &[String]) -> Result<()> {
    let Some((command, rest)) = words.split_first() else { return Err(USAGE.into()) };
    match &command[..] {
        "run" => parent(&Args::parse(rest, 5_000_000, &workloads::GROUPS)?),
        "source001" => parent(&Args::parse(rest, 25_000_000, &["source001"])?),
        "source003" => parent(&Args::parse(rest, 1_000_000, &["source003"])?),
        "source004" => source004::run(&Args::parse(rest, 134_217_728, &[])?),
        "gen001" => gen001::run(&Args::parse(rest, 25_000_000, &[])?),
        "probe" => probe::run(&Args::parse(rest, 1_000_000, &[])?),
        "cache" | "chunks" | "index" | "memtable" => design::run(command, &Args::parse(rest, 400_000, &[])?),
        "huge-reads" => design::huge_reads::run(&Args::parse(rest, 645_000_000, &[])?),
        "huge-writes" => design::huge_writes::run(&Args::parse(rest, 256 << 20, &[])?),
        "regions" => design::regions::run(&Args::parse(rest, 10 << 30, &[])?),
        "budgets" => design::budgets::run(&Args::parse(rest, 3_000_000, &[])?),
        "styles" => design::styles::run(&Args::parse(rest, 5_000_000, &[])?),
        "settle" => design::settle::run(&Args::parse(rest, 4_000_000, &[])?),
        "churn" => design::churn::run(&Args::parse(rest, 100_000, &[])?),
        "cursor" => design::cursor::run(&Args::parse(rest, 2_000_000, &[])?),
        "query-cache" => design::query_cache::run(&Args::parse(rest, 200_000, &[])?),
        "table-growth" => design::table_growth::run(&Args::parse(rest, 1_000_000, &[])?),
        "table-scan" => design::table_scan::run(&Args::parse(rest, 400_000, &[])?),
        "event-loop" => design::event_loop::run(&Args::parse(rest, 1000, &[])?),
        "trees" => design::trees::run(&Args::parse(rest, 10_000, &[])?),
        "warm" => warm_only(&Args::parse(rest, 1000, &[])?),
        "child" => child(rest),
        "paper" => paper::run(rest),
        "cache-sim" => cache_sim::run(rest),
        "pe" => pe::run(rest),
        "served" => served::run(rest),
        "space" => space::run(rest),
        "separate-at" => paper::separate_at(rest),
        "paper-child" => paper::child(rest),
        "separate-child" => paper::separate_child(rest),
        "--help" | "-h" | "help" => {
            print!("{USAGE}");
            Ok(())
        }
        _ => Err(format!("no command {command:?}\n\n{USAGE}").into()),
    }
}

/// Measures one group on one store: `child STORE GROUP ROUND OPTIONS`.
fn child(words: &[String]) -> Result<()> {
    let [store, group, round, rest @ ..] = words else { return Err(USAGE.into()) };
    workloads::run(&Args::parse(rest, 1000, &[])?, store, group, round.parse()?)
}

/// Runs every group on every store, one after the other, and prints what came out.
fn parent(args: &Args) -> Result<()> {
    std::fs::create_dir_all(&args.dir)?;
    println!("settings {}, n {}, reads {}, seed {}", args.settings_name(), args.n, args.reads, args.seed);
    let mut json = args.json.as_ref().map(std::fs::File::create).transpose()?;
    let mut ballast = warm::Ballast::new(&args.dir);
    let mut records = Vec::new();
    for round in 0..args.rounds {
        for group in &args.groups {
            for store in &args.stores {
                if args.warm {
                    ballast.fill()?;
                }
                eprint!("round {} of {}: {group} {store}", round + 1, args.rounds);
                let new = measure_child(args, store, group, round)?;
                eprintln!(" {:.1} s", new.iter().map(|r| r.seconds).sum::<f64>());
                for record in new {
                    if let Some(json) = &mut json {
                        writeln!(json, "{}", record.json(args.settings_name()))?;
                    }
                    records.push(record);
                }
            }
        }
    }
    let report = report::Report { records: &records, stores: &args.stores };
    report.print();
    let below = args.require.map_or_else(Vec::new, |ratio| report.below(ratio));
    if below.is_empty() {
        Ok(())
    } else {
        Err(format!("below the required ratio: {}", below.join(", ")).into())
    }
}

fn measure_child(args: &Args, store: &str, group: &str, round: u64) -> Result<Vec<Record>> {
    let mut child = Command::new(std::env::current_exe()?)
        .args(["child", store, group, &round.to_string()])
        .args(args.words())
        .stdout(Stdio::piped())
        .spawn()?;
    let mut records = Vec::new();
    if let Some(stdout) = child.stdout.take() {
        for line in BufReader::new(stdout).lines() {
            let line = line?;
            records.push(Record::parse(&line).ok_or_else(|| format!("{store}, {group}: {line}"))?);
        }
    }
    let status = child.wait()?;
    std::fs::remove_dir_all(args.dir.join(format!("{store}-{group}"))).ok();
    if status.success() {
        Ok(records)
    } else {
        Err(format!("{store}, {group}: the measured process failed").into())
    }
}

/// For scripts that measure another program: leaves the ballast and prints its files.
fn warm_only(args: &Args) -> Result<()> {
    std::fs::create_dir_all(&args.dir)?;
    let mut ballast = warm::Ballast::new(&args.dir);
    ballast.fill()?;
    for file in ballast.keep() {
        println!("{}", file.display());
    }
    Ok(())
}
