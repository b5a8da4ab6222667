//! Filling an empty store: in order, and in batches of 1,000.

use super::Bench;
use crate::args::Args;
use crate::data::{Draws, Values, key16};
use crate::stores::Result;

/// Bytes of a value, as in db_bench.
pub(super) const VALUE_BYTES: usize = 100;
/// Pairs of one batch.
const BATCH: u64 = 1000;

/// The stream of keys that `fillrandom` writes and `readrandom` reads.
pub(super) fn random_numbers(args: &Args) -> impl Fn(u64) -> u64 + Copy + use<> {
    let (draws, n) = (Draws::new(args.seed, 1), args.n);
    move |i| draws.below(i, n)
}

pub(super) fn sequential(bench: &Bench<'_>) -> Result<()> {
    let values = Values::new(bench.args.seed, VALUE_BYTES);
    bench.recorder.run("fillseq", bench.args.n, |i| {
        bench.store.put(&key16(i), values.get(i), false)?;
        Ok(1)
    })?;
    bench.recorder.settle("settle-seq", bench.store)
}

pub(super) fn batches(bench: &Bench<'_>, workload: &str, number: impl Fn(u64) -> u64) -> Result<()> {
    let values = Values::new(bench.args.seed, VALUE_BYTES);
    let mut keys = vec![[0; 16]; BATCH as usize];
    bench.recorder.run(workload, bench.args.n.div_ceil(BATCH), |batch| {
        let first = batch * BATCH;
        let count = BATCH.min(bench.args.n - first);
        for (i, key) in (first..first + count).zip(&mut keys) {
            *key = key16(number(i));
        }
        let pairs: Vec<(&[u8], &[u8])> =
            (first..first + count).zip(&keys).map(|(i, key)| (&key[..], values.get(i))).collect();
        bench.store.put_batch(&pairs)?;
        Ok(count)
    })
}
