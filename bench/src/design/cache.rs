//! `cache`: the buffer pool by the number of pages. A hit: random pages of a full pool; a hot one: of a thousand of them, so that
//! the processor's caches serve all pools alike. A miss: all pages in turn of a set twice as large as the pool, so that each
//! evicts. An access: zipf, theta 0.9, ten times as many pages as there is room for.

use crate::args::Args;
use crate::data::Draws;
use crate::stores::Result;
use esker::measure::{Pool, pool_hits};
use rustix::time::{ClockId, clock_gettime};
use std::hint::black_box;
use std::sync::Arc;

/// Small, so that a million of them fit; as long as what a lookup fetches of a page at once.
const PAGE_BYTES: usize = 320;
const OPERATIONS: usize = 2_000_000;
const SIZES: [usize; 4] = [1_000, 10_000, 100_000, 1_000_000];

/// Processor time of this thread: what else runs on the machine is not counted, apart from the caches it takes.
fn thread_ns() -> f64 {
    let spent = clock_gettime(ClockId::ThreadCPUTime);
    spent.tv_sec as f64 * 1e9 + spent.tv_nsec as f64
}

/// Nanoseconds of each of `count` operations, best of all rounds.
fn best(count: usize, mut work: impl FnMut() -> Result<()>) -> Result<f64> {
    let mut best = f64::INFINITY;
    for _ in 0..super::ROUNDS {
        let begun = thread_ns();
        work()?;
        best = best.min((thread_ns() - begun) / count as f64);
    }
    Ok(best)
}

/// Gets from full pools, of all their pages and of a thousand of them.
fn hits(pages: usize, draws: Draws) -> Result<[f64; 2]> {
    let pool = Pool::new(pages * 2 * (PAGE_BYTES + 200) + (1 << 20));
    for number in 0..pages {
        pool.insert(number, &Arc::from([0_u8; PAGE_BYTES]));
    }
    let of = |wanted: usize| {
        best(OPERATIONS, || {
            let mut last = 0;
            for operation in 0..OPERATIONS as u64 {
                let number = draws.below(operation ^ last, wanted as u64) as usize * (pages / wanted);
                let page = pool.get(number).ok_or("a page is missing")?;
                last = u64::from(black_box(page[0]));
            }
            Ok(())
        })
    };
    Ok([of(pages)?, of(SIZES[0])?])
}

fn accesses(room: usize, pages: &[u64]) -> Result<f64> {
    best(pages.len(), || {
        black_box(pool_hits(room, pages.iter().copied()));
        Ok(())
    })
}

/// All of so many pages in turn.
fn in_turn(pages: usize) -> Vec<u64> {
    (0..OPERATIONS.max(2 * pages) as u64).map(|i| i % pages as u64).collect()
}

/// Close to zipf with theta 0.9: the inverse of the integral of its density.
fn skewed(draws: Draws, pages: usize) -> Vec<u64> {
    let highest = (pages as f64).powf(0.1) - 1.0;
    let rank = |i| (1.0 + draws.below(i, 1 << 53) as f64 / (1_u64 << 53) as f64 * highest).powf(10.0);
    (0..OPERATIONS as u64).map(|i| rank(i) as u64).collect()
}

pub(super) fn run(args: &Args) -> Result<()> {
    println!(
        "ns of processor time, best of {} rounds, by the pages that the pool has room for\n",
        super::ROUNDS
    );
    for pages in SIZES {
        let [all, few] = hits(pages, Draws::new(args.seed, 1))?;
        let kinds = [
            ("hit", all),
            ("hot hit", few),
            ("miss", accesses(pages, &in_turn(2 * pages))?),
            ("access", accesses(pages, &skewed(Draws::new(args.seed, 2), 10 * pages))?),
        ];
        for (name, figure) in kinds {
            println!("{pages:>9} {name:<10}{figure:>9.1}");
        }
    }
    Ok(())
}
