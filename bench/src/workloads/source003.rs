//! Source 003's work: random strings, keys of 10 to 20 and values of 20 to 100 characters: one put each, 10,000
//! random gets, and ranges of exactly 255,053 pairs.

use super::Bench;
use crate::data::Draws;
use crate::stores::Result;
use std::collections::BTreeSet;

/// Pairs in the source's range; a smaller store is asked for a quarter of it.
const RANGE_ROWS: u64 = 255_053;
const GETS: u64 = 10_000;
const RANGES: u64 = 10;

/// `count` distinct random letters-and-digits strings in random order, each with a value.
fn pairs(seed: u64, count: u64) -> Vec<(Vec<u8>, Vec<u8>)> {
    const ALPHABET: &[u8; 62] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
    let draws = Draws::new(seed, 3);
    let mut position = 0;
    let mut text = |shortest: u64, longest: u64| -> Vec<u8> {
        position += 1;
        let length = shortest + draws.below(position, longest - shortest + 1);
        let letters = position + 1..=position + length;
        position += length;
        letters.map(|i| ALPHABET[draws.below(i, 62) as usize]).collect()
    };
    let mut seen = BTreeSet::new();
    let mut pairs = Vec::with_capacity(count as usize);
    while pairs.len() < count as usize {
        let key = text(10, 20);
        if seen.insert(key.clone()) {
            pairs.push((key, text(20, 100)));
        }
    }
    pairs
}

pub(super) fn source003(bench: &Bench<'_>) -> Result<()> {
    let Bench { args, store, recorder, .. } = *bench;
    let pairs = pairs(args.seed, args.n);
    recorder.run("insert", args.n, |i| {
        let (key, value) = &pairs[i as usize];
        store.put(key, value, false)?;
        Ok(1)
    })?;
    recorder.settle("settle-insert", store)?;
    let mut value = Vec::new();
    // The source has no warm-up: the first round is its figure, the second shows what caches add.
    for round in 0..2 {
        let pick = Draws::new(args.seed, 60 + round);
        recorder.run(if round == 0 { "get10k" } else { "get10k-again" }, GETS, |i| {
            let (key, expected) = &pairs[pick.below(i, args.n) as usize];
            bench.expect(key, Some(expected.len()), &mut value)
        })?;
    }
    let mut keys: Vec<&[u8]> = pairs.iter().map(|(key, _)| &key[..]).collect();
    keys.sort_unstable();
    let rows = RANGE_ROWS.min(args.n / 4).max(1);
    let pick = Draws::new(args.seed, 70);
    let mut bytes = 0;
    recorder.run("range", RANGES, |i| {
        let first = pick.below(i, args.n - rows + 1);
        let (from, to) = (keys[first as usize], keys[(first + rows - 1) as usize]);
        let found = store.scan(from, Some(to), u64::MAX, &mut |k, v| bytes += k.len() + v.len())?;
        bench.expect_rows(found, rows)
    })?;
    std::hint::black_box(bytes);
    Ok(())
}
