//! The budgets for background I/O and for threads. (That for memory: `memory.rs`.)

use std::sync::Arc;

use esker::env::{Clock, StepExecutor};
use esker::fs::sim::SimFs;
use esker::{Db, ErrorKind, Options};

use crate::common::{ManualClock, settle, world};

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
            if i % 2000 == 1999 {
                settle(&db);
            }
        }
        let stats = db.stats().unwrap();
        let bytes = stats.merged_bytes_in + stats.merged_bytes_out;
        assert!(stats.merges >= 2 && stats.flushes > 10 && bytes > RATE, "{stats:?}");
        let slept = clock.monotonic_us() - stats.throttled_us;
        match rate {
            None => assert_eq!(slept, 0),
            // What a merge reads and drops is counted at its end, and paid for by the next one, a second at most; blocks are a
            // little more than their pairs.
            Some(rate) => {
                let due = bytes * 1_000_000 / rate;
                assert!(slept <= due && slept * 2 > due, "{slept} us for {due}");
            }
        }
        db.close().unwrap();
    }
}

/// However few threads there are, everything is done; and the bound keeps neither writers from going on nor users who wait for a
/// merge, nor the store from closing, by `close` or with the last handle.
#[test]
fn a_low_bound_and_few_threads_keep_nobody_waiting() {
    let dir = tempfile::tempdir().unwrap();
    for count in [1, 2, 3, 4] {
        let path = dir.path().join("store");
        let options = small(Options::default()).threads(count).background_io(64 << 10);
        let db = Db::open(&path, options.clone()).unwrap();
        let value = vec![7; 3000];
        for i in 0..20_000_u32 {
            db.put(i.wrapping_mul(0x9e37_79b1).to_be_bytes(), &value[..100]).unwrap();
        }
        assert!(db.stats().unwrap().flushes > 10, "{count}");
        // At the bound, a merge of what is there would take a minute.
        let tree = db.tree("t").unwrap();
        for i in 0..2000_u32 {
            tree.put(i.wrapping_mul(0x9e37_79b1).to_be_bytes(), &value).unwrap();
        }
        let mut ingest = tree.ingest().unwrap();
        ingest.put("key", "value").unwrap();
        ingest.commit().unwrap();
        drop(db.split(&tree, [0x80], "half").unwrap());
        drop((tree, db));
        let db = loop {
            match Db::open(&path, options.clone()) {
                Err(error) if error.kind() == ErrorKind::Locked => test_kit::pause(),
                opened => break opened.unwrap(),
            }
        };
        assert_eq!(db.get(0_u32.to_be_bytes()).unwrap().map(|value| value.len()), Some(100));
        db.close().unwrap();
        std::fs::remove_dir_all(&path).unwrap();
    }
}
