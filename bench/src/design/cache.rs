//! `cache`: the policies of the buffer pool by the number of pages. A hit: random pages of a full pool. A miss: all
//! pages in turn of a set twice as large as the pool, so that each access evicts. An access: zipf, theta 0.9, ten times as
//! many pages as the pool has room for.

use super::best;
use crate::args::Args;
use crate::data::Draws;
use crate::stores::Result;
use esker::CachePolicy;
use esker::cache_sim::simulate;
use esker::measure::Pool;
use std::hint::black_box;
use std::sync::Arc;

/// Small, so that a million of them fit; as long as what a lookup fetches of a page at once.
const PAGE_BYTES: usize = 320;
const OPERATIONS: u64 = 2_000_000;
const SIZES: [usize; 4] = [1_000, 10_000, 100_000, 1_000_000];

fn hits(policy: CachePolicy, pages: usize, draws: Draws) -> Result<f64> {
    let pool = Pool::new(pages * 2 * (PAGE_BYTES + 200) + (1 << 20), policy);
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

/// Nanoseconds of each access to `keys`, with room for `pages`.
fn accesses(policy: CachePolicy, pages: usize, keys: &[u64]) -> Result<f64> {
    best(
        keys.len() as u64,
        || (),
        |()| {
            black_box(simulate(policy, pages, keys.iter().copied()));
            Ok(())
        },
    )
}

/// Close to zipf with theta 0.9 over `pages`: the inverse of the integral of its density.
fn skewed(draws: Draws, pages: u64) -> Vec<u64> {
    let highest = (pages as f64).powf(0.1) - 1.0;
    let rank = |i| (1.0 + draws.below(i, 1 << 53) as f64 / (1_u64 << 53) as f64 * highest).powf(10.0);
    (0..OPERATIONS.max(2 * pages)).map(|i| rank(i) as u64).collect()
}

pub(super) fn run(args: &Args) -> Result<()> {
    println!("ns, best of {} rounds, by the pages of the pool\n", super::ROUNDS);
    println!("{:<12}{:<8}{:>10}{:>10}{:>10}{:>10}", "policy", "", SIZES[0], SIZES[1], SIZES[2], SIZES[3]);
    for &policy in CachePolicy::ALL.iter().filter(|policy| **policy != CachePolicy::None) {
        let row = |name: &str, figure: &dyn Fn(usize) -> Result<f64>| -> Result<()> {
            print!("{:<12}{name:<8}", policy.name());
            for pages in SIZES {
                print!("{:>10.1}", figure(pages)?);
            }
            println!();
            Ok(())
        };
        row("hit", &|pages| hits(policy, pages, Draws::new(args.seed, 1)))?;
        row("miss", &|pages| {
            let keys: Vec<u64> =
                (0..OPERATIONS.max(4 * pages as u64)).map(|i| i % (2 * pages as u64)).collect();
            accesses(policy, pages, &keys)
        })?;
        row("access", &|pages| {
            accesses(policy, pages, &skewed(Draws::new(args.seed, 2), 10 * pages as u64))
        })?;
    }
    Ok(())
}
