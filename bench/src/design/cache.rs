//! `cache`: nanoseconds of a hit in the buffer pool.

use super::best;
use crate::args::Args;
use crate::data::Draws;
use crate::stores::Result;
use esker::measure::Pool;
use std::hint::black_box;
use std::sync::Arc;

/// Small, so that a million of them fit; as long as what a lookup fetches of a page at once.
const PAGE_BYTES: usize = 320;
const OPERATIONS: u64 = 2_000_000;
const SIZES: [usize; 4] = [1_000, 10_000, 100_000, 1_000_000];

fn hits(pages: usize, draws: Draws) -> Result<f64> {
    let pool = Pool::new(pages * 2 * (PAGE_BYTES + 200) + (1 << 20));
    for number in 0..pages {
        pool.insert(number, &Arc::from([0_u8; PAGE_BYTES]));
    }
    best(
        OPERATIONS,
        || 0_u64,
        |last| {
            for i in 0..OPERATIONS {
                let number = draws.below(i ^ (*last & 1), pages as u64) as usize;
                let page = pool.get(number).ok_or("a page is missing")?;
                *last = u64::from(black_box(page[0]));
            }
            Ok(())
        },
    )
}

pub(super) fn run(args: &Args) -> Result<()> {
    print!("hit ");
    for pages in SIZES {
        print!("{:>10.1}", hits(pages, Draws::new(args.seed, 1))?);
    }
    println!();
    Ok(())
}
