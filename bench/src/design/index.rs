//! `index`: which block of a table may hold a key? The static B-tree beside binary searches, for tables of 1, 64 and
//! 1,024 MB. Each lookup's key depends on the last answer, so that waiting for memory cannot be hidden.

use super::best;
use crate::args::Args;
use crate::data::{Draws, key16};
use crate::stores::Result;
use esker::measure::{BlockHeads, BlockIndex};
use std::hint::{black_box, select_unpredictable};

const BLOCK_BYTES: u64 = 4096;
const LOOKUPS: u64 = 1_000_000;

/// The textbook's: ends early where it hits, and leaves the processor to guess which half comes next.
fn plain<T: Ord>(sorted: &[T], target: &T) -> usize {
    let (mut low, mut high) = (0, sorted.len());
    while low < high {
        let middle = low.midpoint(high);
        match sorted[middle].cmp(target) {
            std::cmp::Ordering::Less => low = middle + 1,
            std::cmp::Ordering::Greater => high = middle,
            std::cmp::Ordering::Equal => return middle,
        }
    }
    low
}

/// Without a branch that depends on the numbers.
fn branch_free(sorted: &[u64], target: u64) -> usize {
    let (mut base, mut size) = (0, sorted.len());
    while size > 1 {
        let half = size / 2;
        base = select_unpredictable(sorted[base + half - 1] < target, base + half, base);
        size -= half;
    }
    base + usize::from(sorted.get(base).is_some_and(|&number| number < target))
}

/// Nanoseconds of a lookup. `find` gets a random number that depends on its last answer.
fn lookups(draws: Draws, mut find: impl FnMut(u64) -> usize) -> Result<f64> {
    best(
        LOOKUPS,
        || 0_usize,
        |last| {
            for i in 0..LOOKUPS {
                *last = find(draws.bits(i ^ (*last as u64 & 1)));
            }
            black_box(*last);
            Ok(())
        },
    )
}

pub(super) fn run(args: &Args) -> Result<()> {
    println!(
        "ns for each of {LOOKUPS} lookups that depend on each other, best of {} rounds\n",
        super::ROUNDS
    );
    println!("{:<44}{:>12}{:>12}{:>12}", "", "1 MB", "64 MB", "1024 MB");
    let mut rows = [(); 5].map(|()| Vec::new());
    for megabytes in [1, 64, 1024] {
        for (row, figure) in rows.iter_mut().zip(table(args, (megabytes << 20) / BLOCK_BYTES)?) {
            row.push(figure);
        }
    }
    let names = [
        "heads: static B-tree",
        "heads: branch-free binary search",
        "heads: plain binary search",
        "16-byte keys: the whole index",
        "16-byte keys: plain binary search",
    ];
    for (name, row) in names.iter().zip(rows) {
        print!("{name:<44}");
        for figure in row {
            print!("{figure:>12.1}");
        }
        println!();
    }
    Ok(())
}

/// The five figures for a table of so many blocks.
fn table(args: &Args, blocks: u64) -> Result<[f64; 5]> {
    let (draws, asked) = (Draws::new(args.seed, 1), Draws::new(args.seed, 2));
    let mut heads: Vec<u64> = (0..blocks).map(|i| draws.bits(i)).collect();
    heads.sort_unstable();
    let tree = BlockHeads::new(&heads);
    // Numbered keys, as the other workloads have them; the last of each block.
    const PAIRS_PER_BLOCK: u64 = 35;
    let keys: Vec<[u8; 16]> = (1..=blocks).map(|i| key16(i * PAIRS_PER_BLOCK)).collect();
    let index = BlockIndex::new(&keys).ok_or("the index does not read what it wrote")?;
    let pairs = blocks * PAIRS_PER_BLOCK;
    let number = |bits: u64| ((u128::from(bits) * u128::from(pairs)) >> 64) as u64;
    for i in 0..10_000 {
        let (target, key) = (asked.bits(i), key16(number(asked.bits(i))));
        let right = heads.partition_point(|&head| head < target);
        let right_key = keys.partition_point(|last| *last < key);
        let all = [tree.find(target), branch_free(&heads, target), plain(&heads, &target)];
        if all != [right; 3] || [index.find(&key), plain(&keys, &key)] != [right_key; 2] {
            return Err(format!("the searches do not agree on {target}").into());
        }
    }
    Ok([
        lookups(asked, |target| tree.find(target))?,
        lookups(asked, |target| branch_free(&heads, target))?,
        lookups(asked, |target| plain(&heads, &target))?,
        lookups(asked, |bits| index.find(&key16(number(bits))))?,
        lookups(asked, |bits| plain(&keys, &key16(number(bits))))?,
    ])
}
