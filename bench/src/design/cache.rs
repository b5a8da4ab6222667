//! `cache`: the policies of the buffer pool by the number of pages. A hit: random pages of a full pool; a hot one: of a
//! thousand of them, so that the processor's caches serve all pools alike. A miss: all pages in turn of a set twice as
//! large as the pool, so that each evicts. An access: zipf, theta 0.9, ten times as many pages as there is room for.

use crate::args::Args;
use crate::data::Draws;
use crate::stores::Result;
use esker::CachePolicy;
use esker::cache_sim::simulate;
use esker::measure::Pool;
use rustix::time::{ClockId, clock_gettime};
use std::hint::black_box;
use std::sync::Arc;

/// Small, so that a million of them fit; as long as what a lookup fetches of a page at once.
const PAGE_BYTES: usize = 320;
const OPERATIONS: usize = 2_000_000;
const POLICIES: [CachePolicy; 6] = [
    CachePolicy::Fifo,
    CachePolicy::Lru,
    CachePolicy::TwoQ,
    CachePolicy::Arc,
    CachePolicy::Clock,
    CachePolicy::S3Fifo,
];
const SIZES: [usize; 4] = [1_000, 10_000, 100_000, 1_000_000];

/// Processor time of this thread: what else runs on the machine is not counted, apart from the caches it takes.
fn thread_ns() -> f64 {
    let spent = clock_gettime(ClockId::ThreadCPUTime);
    spent.tv_sec as f64 * 1e9 + spent.tv_nsec as f64
}

/// For each policy nanoseconds of each of `count` operations, best of all rounds, in which the policies take turns.
fn best(count: usize, mut work: impl FnMut(usize, CachePolicy) -> Result<()>) -> Result<Vec<f64>> {
    let mut best = vec![f64::INFINITY; POLICIES.len()];
    for _ in 0..super::ROUNDS {
        for (i, &policy) in POLICIES.iter().enumerate() {
            let begun = thread_ns();
            work(i, policy)?;
            best[i] = best[i].min((thread_ns() - begun) / count as f64);
        }
    }
    Ok(best)
}

/// Gets from full pools, of all their pages and of a thousand of them.
fn hits(pages: usize, draws: Draws) -> Result<[Vec<f64>; 2]> {
    let capacity = pages * 2 * (PAGE_BYTES + 200) + (1 << 20);
    let pools: Vec<Pool> = POLICIES.iter().map(|&policy| Pool::new(capacity, policy)).collect();
    for number in 0..pages {
        let page = Arc::from([0_u8; PAGE_BYTES]);
        pools.iter().for_each(|pool| pool.insert(number, &page));
    }
    let of = |wanted: usize| {
        best(OPERATIONS, |i, _| {
            let mut last = 0;
            for operation in 0..OPERATIONS as u64 {
                let number = draws.below(operation ^ last, wanted as u64) as usize * (pages / wanted);
                let page = pools[i].get(number).ok_or("a page is missing")?;
                last = u64::from(black_box(page[0]));
            }
            Ok(())
        })
    };
    Ok([of(pages)?, of(SIZES[0])?])
}

fn accesses(pages: usize, keys: &[u64]) -> Result<Vec<f64>> {
    best(keys.len(), |_, policy| {
        black_box(simulate(policy, pages, keys.iter().copied()));
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
    print!("{:<20}", "");
    POLICIES.iter().for_each(|policy| print!("{:>9}", policy.name()));
    println!();
    for pages in SIZES {
        let [all, few] = hits(pages, Draws::new(args.seed, 1))?;
        let kinds = [
            ("hit", all),
            ("hot hit", few),
            ("miss", accesses(pages, &in_turn(2 * pages))?),
            ("access", accesses(pages, &skewed(Draws::new(args.seed, 2), 10 * pages))?),
        ];
        for (name, figures) in kinds {
            print!("{pages:>9} {name:<10}");
            figures.iter().for_each(|figure| print!("{figure:>9.1}"));
            println!();
        }
    }
    Ok(())
}
