//! Puts that survive power loss before they return, from 1, 8 and 16 threads, for a fixed time each.

use super::Bench;
use super::fill::VALUE_BYTES;
use crate::data::{Draws, Values, key16};
use crate::stores::Result;
use std::time::Duration;

pub(super) fn sync(bench: &Bench<'_>) -> Result<()> {
    let Bench { args, store, recorder, .. } = *bench;
    let values = Values::new(args.seed, VALUE_BYTES);
    let time = Duration::from_secs_f64(args.sync_seconds);
    for threads in [1, 8, 16] {
        recorder.run_threads(&format!("fillsync-{threads}"), threads, time, 10_000_000, |thread, i| {
            let draws = Draws::new(args.seed, 1000 + threads * 100 + thread);
            store.put(&key16(draws.below(i, args.n)), values.get(i), true)
        })?;
        recorder.settle(&format!("settle-sync-{threads}"), store)?;
    }
    Ok(())
}
