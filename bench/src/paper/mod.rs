//! The experiments of the paper on huge values (source 000), as one command: every store in fresh processes, with
//! values of eight sizes and in three mixes. See README.md.

use crate::stores::Result;
use crate::{process, warm};
use cell::Cell;
use child::Child;
use options::{Options, USAGE};
use plan::{MIXES, SIZES, Scale};
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};

mod cell;
mod child;
mod cold;
mod mixed;
mod options;
mod plan;
mod plot;
mod report;
mod separate;
pub(crate) mod stores;
mod targets;
mod values;

pub(crate) use values::Pool;

/// Starts the line by which a process says what went wrong.
const FAILED: &str = "failed: ";

/// Freed memory is kept for the next allocation. Otherwise the peers that allocate for each value that they read are
/// measured by page faults; their documents advise another allocator.
const ALLOCATOR: &str = "glibc.malloc.mmap_max=0:glibc.malloc.trim_threshold=8589934592";

/// `paper OPTIONS`
pub(crate) fn run(words: &[String]) -> Result<()> {
    let options = Options::parse(words)?;
    std::fs::create_dir_all(&options.out)?;
    let (cells, failures) = match &options.from {
        Some(file) => (read_cells(file)?, Vec::new()),
        None => measure(&options)?,
    };
    let text = report::tables(&cells, &failures);
    std::fs::write(options.out.join("tables.md"), &text)?;
    plot::all(&cells, &options.out)?;
    print!("{text}");
    Ok(())
}

/// `separate-at OPTIONS`
pub(crate) fn separate_at(words: &[String]) -> Result<()> {
    separate::run(&Options::parse(words)?)
}

/// `separate-child OPTIONS`: what that starts.
pub(crate) fn separate_child(words: &[String]) -> Result<()> {
    separate::child(words)
}

fn read_cells(file: &Path) -> Result<Vec<Cell>> {
    let text = std::fs::read_to_string(file)?;
    text.lines().map(|line| Cell::parse(line).ok_or_else(|| format!("no cell: {line}").into())).collect()
}

/// Runs one process for each row and store, round by round, and keeps what they print in `results.tsv`.
fn measure(options: &Options) -> Result<(Vec<Cell>, Vec<String>)> {
    std::fs::create_dir_all(&options.dir)?;
    let sizes = options
        .scale
        .sizes()
        .iter()
        .map(|size| (size.name, 3 * (options.scale.keys(size) * size.bytes) as u64));
    let mixes = MIXES.iter().map(|mix| (mix.name, mixed::disk_bytes(options.scale)));
    let mixes = mixes.filter(|_| options.scale != Scale::Largest);
    let rows: Vec<(&str, u64)> = sizes.chain(mixes).filter(|row| options.wants(row.0)).collect();
    if rows.is_empty() || options.stores.is_empty() {
        return Err(USAGE.into());
    }
    let mut results = File::create(options.out.join("results.tsv"))?;
    let mut ballast = warm::Ballast::new(&options.dir);
    let (mut cells, mut failures) = (Vec::new(), Vec::new());
    for round in 0..options.rounds {
        for &(row, need) in &rows {
            let is_mix = MIXES.iter().any(|mix| mix.name == row);
            for store in options.stores.iter().filter(|store| !is_mix || mixed::takes_part(store)) {
                if options.warm {
                    ballast.fill()?;
                }
                eprintln!("round {} of {}: {row} {store}", round + 1, options.rounds);
                let free = process::free_disk_bytes(&options.dir)?;
                // Whoever keeps one copy of a value gets along with a third of it.
                let need = if ["esker", "files"].contains(&&store[..]) { need / 5 * 2 } else { need };
                if free < need {
                    failures.push(format!(
                        "{store}, {row}: needs {} GB, {} are free",
                        need >> 30,
                        free >> 30
                    ));
                    continue;
                }
                let mut take = |cell: Cell| {
                    writeln!(results, "{}", cell.line())?;
                    cells.push(cell);
                    Ok(())
                };
                if let Some(failure) = measure_child(options, row, store, &mut take)? {
                    failures.push(format!("{store}, {row}: {failure}"));
                }
            }
        }
    }
    Ok((cells, failures))
}

/// Runs one process and hands over each cell that it prints; returns what it says went wrong.
fn measure_child(
    options: &Options,
    row: &str,
    store: &str,
    take: &mut dyn FnMut(Cell) -> Result<()>,
) -> Result<Option<String>> {
    let dir = options.dir.join(format!("paper-{store}-{row}"));
    std::fs::remove_dir_all(&dir).ok();
    let mut child = Command::new(std::env::current_exe()?)
        .args(["paper-child", store, row, options.scale.name(), &options.seed.to_string()])
        .arg(&dir)
        .env("GLIBC_TUNABLES", ALLOCATOR)
        .stdout(Stdio::piped())
        .spawn()?;
    let mut failure = None;
    if let Some(stdout) = child.stdout.take() {
        for line in BufReader::new(stdout).lines() {
            let line = line?;
            match (Cell::parse(&line), line.strip_prefix(FAILED)) {
                (Some(cell), _) => take(cell)?,
                (None, Some(message)) => failure = Some(message.to_owned()),
                (None, None) => eprintln!("{line}"),
            }
        }
    }
    let status = child.wait()?;
    std::fs::remove_dir_all(&dir).ok();
    if failure.is_none() && !status.success() {
        failure = Some(format!("the process ended with {status}"));
    }
    Ok(failure)
}

/// `paper-child STORE ROW SCALE SEED DIR`: what `measure_child` starts.
pub(crate) fn child(words: &[String]) -> Result<()> {
    let [store, row, scale, seed, dir] = words else { return Err(USAGE.into()) };
    let scale = Scale::of_name(scale).ok_or("no such scale")?;
    let child = Child { store: store.clone(), row: row.clone(), dir: dir.into(), seed: seed.parse()? };
    let outcome = if let Some(size) = SIZES.iter().find(|size| size.name == row) {
        child.run(size, scale.keys(size))
    } else if let Some(mix) = MIXES.iter().find(|mix| mix.name == row) {
        mixed::run(&child, scale, mix)
    } else {
        Err(format!("no row {row}").into())
    };
    if let Err(error) = outcome {
        println!("{FAILED}{}", error.to_string().replace('\n', " "));
    }
    Ok(())
}
