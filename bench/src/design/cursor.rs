//! `cursor`: seek and ten steps with one cursor that is reused, beside a new scan each time.

use crate::args::Args;
use crate::data::{Draws, Values, key16, mix};
use crate::stores::Result;
use esker::{Db, Options, Tree};
use std::hint::black_box;
use std::time::Instant;

const VALUE_BYTES: usize = 100;
const ROWS: usize = 10;
const SEEKS: u64 = 200_000;

pub(crate) fn run(args: &Args) -> Result<()> {
    println!("{} pairs of 16 + {VALUE_BYTES} bytes in the cache; a seek and {ROWS} rows, ns", args.n);
    let path = args.dir.join("cursor");
    std::fs::remove_dir_all(&path).ok();
    std::fs::create_dir_all(&args.dir)?;
    let db = Db::open(&path, Options::default().memory_budget(2 << 30))?;
    let values = Values::new(args.seed, VALUE_BYTES);
    for i in 0..args.n {
        db.put(key16(mix(i)), values.get(i))?;
    }
    let tree = db.default_tree();
    for (state, ready) in [("as the puts left it", false), ("one sorted run", true)] {
        if ready {
            db.compact()?;
        }
        db.flush()?;
        let mut ratios = Vec::new();
        for round in 0..=args.rounds {
            let draws = Draws::new(args.seed, round);
            let keys: Vec<_> = (0..SEEKS).map(|i| key16(mix(draws.below(i, args.n)))).collect();
            let (scans, cursor) = (scans(tree, &keys)?, one_cursor(tree, &keys)?);
            // The first round fills the cache.
            if round > 0 {
                println!(
                    "{state}: a new scan {scans:.0}, a reused cursor {cursor:.0}, {:.2} times as fast",
                    scans / cursor
                );
                ratios.push(scans / cursor);
            }
        }
        ratios.sort_by(f64::total_cmp);
        println!("{state}: median ratio {:.2}", ratios.get(ratios.len() / 2).copied().unwrap_or(f64::NAN));
    }
    db.close()?;
    std::fs::remove_dir_all(&path)?;
    Ok(())
}

fn scans(tree: &Tree, keys: &[[u8; 16]]) -> Result<f64> {
    let begun = Instant::now();
    for key in keys {
        let mut scan = tree.scan(key..)?;
        let mut left = ROWS;
        while left > 0 && scan.advance()? {
            black_box(scan.pair()?);
            left -= 1;
        }
    }
    Ok(begun.elapsed().as_nanos() as f64 / keys.len() as f64)
}

fn one_cursor(tree: &Tree, keys: &[[u8; 16]]) -> Result<f64> {
    let begun = Instant::now();
    let mut cursor = tree.cursor()?;
    for key in keys {
        let (mut is_on, mut left) = (cursor.seek(key)?, ROWS);
        while is_on && left > 0 {
            black_box((cursor.key(), cursor.value().bytes()?));
            left -= 1;
            is_on = left > 0 && cursor.next()?;
        }
    }
    Ok(begun.elapsed().as_nanos() as f64 / keys.len() as f64)
}
