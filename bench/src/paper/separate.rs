//! From which length on values should be separated: puts and gets of each length, all inline and all separated.

use super::cold::{make_warm, settle};
use super::options::Options;
use super::plan::shuffle;
use super::stores::{Huge, esker::Esker};
use super::values::{Buffer, Pool, key};
use crate::data::Draws;
use crate::plot::number;
use crate::stores::Result;
use crate::warm;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

/// Powers of two: 1 KiB to 1 MiB.
const LENGTHS: std::ops::RangeInclusive<u32> = 10..=20;
/// Values of a store make so much together.
const STORE_BYTES: usize = 128 << 20;
/// Passes over it in random order: the first, and later ones.
const PASSES: usize = 3;

/// What one store of one length gave, in nanoseconds for each operation.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Figures {
    put: f64,
    /// Put, flushed and merged.
    all: f64,
    /// Over all later puts of keys that are there, merged.
    over: f64,
    first: f64,
    later: f64,
}

impl Figures {
    fn line(&self) -> String {
        let Figures { put, all, over, first, later } = self;
        format!("{put}\t{all}\t{over}\t{first}\t{later}")
    }

    fn parse(line: &str) -> Option<Figures> {
        let mut numbers = line.trim().split('\t').map(str::parse::<f64>);
        let mut number = || numbers.next()?.ok();
        Some(Figures { put: number()?, all: number()?, over: number()?, first: number()?, later: number()? })
    }
}

/// All lengths, both ways in turns; prints the table.
pub(super) fn run(options: &Options) -> Result<()> {
    std::fs::create_dir_all(&options.dir)?;
    let mut ballast = warm::Ballast::new(&options.dir);
    println!("nanoseconds an operation, inline / separated; {} rounds, the median\n", options.rounds);
    println!("| bytes | put | put and merged | put again and merged | get, first | get, later |");
    println!("| --: | --: | --: | --: | --: | --: |");
    for log2 in LENGTHS.filter(|log2| options.wants(&(1u64 << log2).to_string())) {
        let mut both = [Vec::new(), Vec::new()];
        for _ in 0..options.rounds {
            for (separated, figures) in both.iter_mut().enumerate() {
                if options.warm {
                    ballast.fill()?;
                }
                figures.push(one_process(options, log2, separated)?);
            }
        }
        let median = |way: usize, of: fn(&Figures) -> f64| {
            let mut all: Vec<f64> = both[way].iter().map(of).collect();
            all.sort_by(f64::total_cmp);
            all.get(all.len() / 2).copied().unwrap_or(0.0)
        };
        let column =
            |of: fn(&Figures) -> f64| format!("{} / {}", number(median(0, of)), number(median(1, of)));
        let columns: [fn(&Figures) -> f64; 5] = [|f| f.put, |f| f.all, |f| f.over, |f| f.first, |f| f.later];
        println!("| {} | {} |", number((1u64 << log2) as f64), columns.map(column).join(" | "));
    }
    Ok(())
}

fn one_process(options: &Options, log2: u32, separated: usize) -> Result<Figures> {
    let dir = options.dir.join(format!("separate-{log2}-{separated}"));
    std::fs::remove_dir_all(&dir).ok();
    let output = Command::new(std::env::current_exe()?)
        .args(["separate-child", &log2.to_string(), &separated.to_string(), &options.seed.to_string()])
        .arg(&dir)
        .stderr(std::process::Stdio::inherit())
        .output()?;
    std::fs::remove_dir_all(&dir).ok();
    let text = String::from_utf8_lossy(&output.stdout);
    Figures::parse(&text).ok_or_else(|| format!("the measuring process said {text:?}").into())
}

/// `separate-child LOG2 SEPARATED SEED DIR`
pub(crate) fn child(words: &[String]) -> Result<()> {
    let [log2, separated, seed, dir] = words else { return Err(super::USAGE.into()) };
    let separate_at = if separated == "1" { 1 } else { usize::MAX };
    let figures = measure(1 << log2.parse::<u32>()?, separate_at, seed.parse()?, Path::new(dir))?;
    println!("{}", figures.line());
    Ok(())
}

fn measure(length: usize, separate_at: usize, seed: u64, dir: &Path) -> Result<Figures> {
    let count = STORE_BYTES / length;
    let pool = Pool::new(length, seed);
    let draws = Draws::new(seed, 1);
    let mut order: Vec<usize> = (0..count).collect();
    let mut figures = Figures::default();
    let each = |begun: Instant, n: usize| begun.elapsed().as_secs_f64() * 1e9 / n as f64;

    let store = Esker::open(dir, Some(separate_at))?;
    for round in 0..2 {
        shuffle(&mut order, Draws::new(seed, 2 + round as u64));
        let begun = Instant::now();
        for &i in &order {
            store.put(&key(draws, i), pool.value(i + round, length), false)?;
        }
        if round == 0 {
            figures.put = each(begun, count);
        }
        store.merge()?;
        let merged = if round == 0 { &mut figures.all } else { &mut figures.over };
        *merged = each(begun, count);
    }
    settle(dir);
    Box::new(store).close()?;

    make_warm(dir)?;
    let store = Esker::open(dir, Some(separate_at))?;
    let mut buffer = Buffer::new(length);
    for pass in 0..PASSES {
        shuffle(&mut order, Draws::new(seed, 10 + pass as u64));
        let begun = Instant::now();
        for &i in &order {
            if store.get(&key(draws, i), &mut buffer)? != Some(length) {
                return Err("a value is not there".into());
            }
        }
        let read = if pass == 0 { &mut figures.first } else { &mut figures.later };
        *read = each(begun, count);
    }
    Box::new(store).close()?;
    Ok(figures)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_survive_their_line() {
        let figures = Figures { put: 1.5, all: 2.0, over: 3.0, first: 4.0, later: 5.0 };
        assert_eq!(Figures::parse(&figures.line()), Some(figures));
        assert_eq!(Figures::parse("1\t2"), None);
    }
}
