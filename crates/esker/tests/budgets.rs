//! The budgets for background I/O and for threads. (That for memory: `memory.rs`.)

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test")]

use std::sync::Arc;

use esker::env::{Clock, StepExecutor};
use esker::fs::sim::SimFs;
use esker::{Db, Options};

mod common;

use common::{ManualClock, settle, world};

fn small(options: Options) -> Options {
    let mut options = options.memory_budget(8 << 20);
    options.memtable_bytes = Some(64 << 10);
    options.table_bytes = 64 << 10;
    options
}

/// What merges read and write takes as long as the budget asks for, and flushes take none of it.
#[test]
fn merges_keep_within_the_budget_for_background_io() {
    const RATE: u64 = 1 << 20;
    for rate in [None, Some(RATE)] {
        let clock = Arc::new(ManualClock::default());
        let disk = Arc::new(SimFs::new(1));
        let mut env = world(disk, 1, Some(Arc::new(StepExecutor)));
        env.clock = Arc::<ManualClock>::clone(&clock);
        let db = Db::open("/db", small(Options::default().env(env).background_io(rate))).unwrap();
        for i in 0..20_000_u32 {
            db.put((i.wrapping_mul(0x9e37_79b1) % 5000).to_be_bytes(), [7; 100]).unwrap();
            if i % 4000 == 3999 {
                settle(&db);
            }
        }
        let stats = db.stats().unwrap();
        let bytes = stats.merged_bytes_in + stats.merged_bytes_out;
        assert!(stats.merges >= 2 && stats.flushes > 10 && bytes > RATE, "{stats:?}");
        let slept = clock.monotonic_us() - stats.throttled_us;
        match rate {
            None => assert_eq!(slept, 0),
            // What was counted last is paid for before the next merge; blocks are a little more than their pairs.
            Some(rate) => {
                let due = bytes * 1_000_000 / rate;
                assert!(slept <= due && slept * 3 > due * 2, "{slept} us for {due}");
            }
        }
        db.close().unwrap();
    }
}

/// However few threads there are, memtables are flushed while a merge takes its time, and closing does not wait for it.
#[test]
fn one_thread_does_everything() {
    for count in [1, 2, 3, 4] {
        let dir = tempfile::tempdir().unwrap();
        let options = small(Options::default()).threads(count).background_io(64 << 10);
        let db = Db::open(dir.path().join("store"), options).unwrap();
        for i in 0..30_000_u32 {
            db.put(i.wrapping_mul(0x9e37_79b1).to_be_bytes(), [7; 100]).unwrap();
        }
        let stats = db.stats().unwrap();
        // At that rate, what has been flushed takes a minute to merge.
        assert!(stats.flushes > 10 && stats.merges < stats.flushes / 4, "{count}: {stats:?}");
        assert!(stats.merged_bytes_out < stats.flushed_bytes / 4, "{count}: {stats:?}");
        assert_eq!(db.get(0_u32.to_be_bytes()).unwrap().map(|value| value.len()), Some(100));
        db.close().unwrap();
    }
}
