//! Source 001's work: numbered keys in order, 128-byte values: put, put again, get each in order, get absent ones.

use super::Bench;
use crate::data::{Draws, Values};
use crate::stores::Result;

const VALUE_BYTES: usize = 128;
/// Gets of the phases that are not the source's own.
const EXTRA_READS: u64 = 1_000_000;

pub(super) fn source001(bench: &Bench<'_>) -> Result<()> {
    let Bench { args, store, recorder, .. } = *bench;
    let values = Values::new(args.seed, VALUE_BYTES);
    let put = |workload: &str, shift: u64| {
        recorder.run(workload, args.n, |i| {
            store.put(&i.to_be_bytes(), values.get(i + shift), false)?;
            Ok(1)
        })
    };
    put("put", 0)?;
    recorder.settle("settle-put", store)?;
    put("reput", 1)?;
    recorder.settle("settle-reput", store)?;
    let mut value = Vec::with_capacity(VALUE_BYTES);
    recorder.run("get-order", args.n, |i| {
        bench.expect(&i.to_be_bytes(), Some(VALUE_BYTES), &mut value)?;
        if bench.verify && value != values.get(i + 1) {
            return Err(format!("key {i} has not its last value").into());
        }
        Ok(1)
    })?;
    recorder.run("get-missing", args.n, |i| bench.expect(&(args.n + i).to_be_bytes(), None, &mut value))?;
    let (reads, pick) = (args.n.min(EXTRA_READS), Draws::new(args.seed, 50));
    recorder.run("get-random", reads, |i| {
        bench.expect(&pick.below(i, args.n).to_be_bytes(), Some(VALUE_BYTES), &mut value)
    })?;
    // Nine bytes: behind a stored key and before the next.
    let mut key = [0; 9];
    recorder.run("get-missing-in", reads, |i| {
        key[..8].copy_from_slice(&pick.below(i, args.n).to_be_bytes());
        bench.expect(&key, None, &mut value)
    })
}
