//! db_bench's classic: fill in random order, read in several ways, overwrite, delete.

use super::Bench;
use super::fill::{VALUE_BYTES, random_numbers};
use crate::data::{Draws, Values, key_between, key16};
use crate::stores::Result;

/// How often each read workload is repeated in one process.
const READ_ROUNDS: u64 = 3;

pub(super) fn random(bench: &Bench<'_>) -> Result<()> {
    let Bench { args, store, recorder, .. } = *bench;
    let values = Values::new(args.seed, VALUE_BYTES);
    let number = random_numbers(args);
    recorder.run("fillrandom", args.n, |i| {
        store.put(&key16(number(i)), values.get(i), false)?;
        Ok(1)
    })?;
    recorder.settle("settle-fill", store)?;
    reads(bench)?;
    let again = Draws::new(args.seed, 2);
    recorder.run("overwrite", args.n, |i| {
        store.put(&key16(again.below(i, args.n)), values.get(i + 1), false)?;
        Ok(1)
    })?;
    recorder.settle("settle-overwrite", store)?;
    recorder.run("delete", args.n, |i| {
        store.delete(&key16(number(i)))?;
        Ok(1)
    })?;
    recorder.settle("settle-delete", store)
}

fn reads(bench: &Bench<'_>) -> Result<()> {
    let Bench { args, store, recorder, .. } = *bench;
    let number = random_numbers(args);
    let mut value = Vec::with_capacity(VALUE_BYTES);
    // Each round asks for other keys, so that none profits from having asked before.
    let picks = |workload: u64, round: u64| Draws::new(args.seed, 100 + workload * 10 + round);
    for round in 0..READ_ROUNDS {
        let pick = picks(0, round);
        recorder.run("readrandom", args.reads, |i| {
            bench.expect(&key16(number(pick.below(i, args.n))), Some(VALUE_BYTES), &mut value)
        })?;
    }
    for round in 0..READ_ROUNDS {
        let pick = picks(1, round);
        recorder.run("readmissing-in", args.reads, |i| {
            bench.expect(&key_between(pick.below(i, args.n)), None, &mut value)
        })?;
    }
    for round in 0..READ_ROUNDS {
        let pick = picks(2, round);
        recorder.run("readmissing-above", args.reads, |i| {
            bench.expect(&key16(args.n + pick.below(i, args.n)), None, &mut value)
        })?;
    }
    let mut bytes = 0;
    for round in 0..READ_ROUNDS {
        let pick = picks(3, round);
        // Seeks run in the lower nine tenths of the range, so that ten rows always follow.
        recorder.run("seek+next10", args.reads.div_ceil(5), |i| {
            let from = key16(pick.below(i, args.n - args.n / 10));
            let rows = store.scan(&from, None, 10, &mut |k, v| bytes += k.len() + v.len())?;
            bench.expect_rows(rows, 10)?;
            Ok(1)
        })?;
    }
    for _ in 0..READ_ROUNDS {
        recorder
            .run("readseq", 1, |_| store.scan(b"", None, u64::MAX, &mut |k, v| bytes += k.len() + v.len()))?;
    }
    std::hint::black_box(bytes);
    Ok(())
}
