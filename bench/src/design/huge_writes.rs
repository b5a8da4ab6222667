//! `huge-writes`: a huge value put beside a plain file written with the same bytes, in turn, so that whatever else the
//! machine does, and the writeback of what both wrote before, meets both alike.

use crate::args::Args;
use crate::data::Draws;
use crate::stores::Result;
use esker::{Db, Durability, Options};
use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::time::Instant;

/// Bytes of the values that are measured.
const SIZES: [usize; 8] = [64 << 10, 256 << 10, 1 << 20, 4 << 20, 8 << 20, 19_700_000, 64 << 20, 256 << 20];
/// About so many bytes of each size are put in a round, synced and not.
const BYTES: usize = 256 << 20;
const SYNCED_BYTES: usize = 64 << 20;

pub(crate) fn run(args: &Args) -> Result<()> {
    let dir = args.dir.join("huge-writes");
    let rounds = args.rounds.max(3);
    println!(
        "{rounds} rounds, bytes per microsecond: median (mean); the last column is times the plain file"
    );
    for size in SIZES.into_iter().filter(|&size| size as u64 <= args.n) {
        let mut value = vec![0; size];
        let draws = Draws::new(args.seed, size as u64);
        for (at, word) in value.chunks_mut(8).enumerate() {
            word.copy_from_slice(&draws.bits(at as u64).to_le_bytes()[..word.len()]);
        }
        for durability in [Durability::Process, Durability::Power] {
            let bytes = if durability == Durability::Power { SYNCED_BYTES } else { BYTES };
            let mut times = [Vec::new(), Vec::new()];
            for round in 0..rounds {
                std::fs::remove_dir_all(&dir).ok();
                std::fs::create_dir_all(&dir)?;
                one_round(&dir, &mut value, (bytes / size).clamp(3, 400), round, durability, &mut times)?;
            }
            print(size, durability, &mut times);
        }
    }
    std::fs::remove_dir_all(&dir)?;
    Ok(())
}

/// Puts the value under `count` keys and into as many files; who is first changes.
fn one_round(
    dir: &Path,
    value: &mut [u8],
    count: usize,
    round: u64,
    durability: Durability,
    times: &mut [Vec<f64>; 2],
) -> Result<()> {
    let db = Db::open(dir.join("store"), Options::default())?;
    let tree = db.default_tree();
    for number in 0..count {
        value[..8].copy_from_slice(&(round << 32 | number as u64).to_le_bytes());
        for way in [number % 2, (number + 1) % 2] {
            let begun = Instant::now();
            if way == 0 {
                let mut file = File::create(dir.join(format!("{number}.plain")))?;
                file.write_all(value)?;
                if durability == Durability::Power {
                    file.sync_data()?;
                }
            } else {
                tree.put_with(format!("value {number:04}"), &*value, durability)?;
            }
            times[way].push(begun.elapsed().as_nanos() as f64 / 1e3);
        }
    }
    Ok(db.close()?)
}

fn print(size: usize, durability: Durability, times: &mut [Vec<f64>; 2]) {
    let figures = times.each_mut().map(|times| {
        times.sort_by(f64::total_cmp);
        (times[times.len() / 2], times.iter().sum::<f64>() / times.len() as f64)
    });
    let [plain, put] = figures.map(|(median, mean)| (size as f64 / median, size as f64 / mean));
    let synced = if durability == Durability::Power { "synced" } else { "" };
    println!(
        "{:>7} KiB {synced:<7} plain {:>7.0} ({:>6.0})  put {:>7.0} ({:>6.0})  {:.2} ({:.2})",
        size >> 10,
        plain.0,
        plain.1,
        put.0,
        put.1,
        put.0 / plain.0,
        put.1 / plain.1
    );
}
