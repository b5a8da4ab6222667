//! Memtables that learn, while many write and read.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::db::Db;
use crate::options::Options;
use crate::tree::Tree;
use crate::write::batch::Batch;

const WRITERS: u64 = 3;
/// How many batches each thread writes: an entry that a batch inserts while the memtable is copied must not be lost.
const BATCHES: u64 = 25;
const BATCH: u64 = 40;

fn key(number: u64) -> String {
    format!("user/0000/{:016x}", number.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 8)
}

/// Writes, and checks each time whether a get and a snapshot find the written pairs.
fn write(db: &Db, tree: &Tree, writer: u64) {
    for number in 0..BATCHES {
        let ids = |number: u64| (0..BATCH).map(move |place| (number * BATCH + place) * WRITERS + writer);
        let mut batch = Batch::new();
        ids(number).for_each(|id| batch.put(tree, key(id), id.to_le_bytes()).unwrap());
        db.write(&batch).unwrap();
        for id in ids(number) {
            assert_eq!(tree.get(key(id)).unwrap().unwrap().into_vec().unwrap(), id.to_le_bytes());
        }
        let snapshot = db.snapshot();
        for id in (0..=number).flat_map(ids) {
            assert_eq!(snapshot.get(tree, key(id)).unwrap().unwrap().into_vec().unwrap(), id.to_le_bytes());
        }
    }
}

#[test]
fn nothing_is_lost_when_a_memtable_learns() {
    let db = Db::open_in_memory(Options::default()).unwrap();
    let mut learned = 0;
    for round in 0..30 {
        let tree = db.tree(&format!("tree {round}")).unwrap();
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let writers: Vec<_> = (0..WRITERS)
                .map(|writer| {
                    scope.spawn({
                        let (db, tree) = (&db, &tree);
                        move || write(db, tree, writer)
                    })
                })
                .collect();
            scope.spawn(|| {
                // No pair that was there disappears.
                let mut most = 0;
                while !is_over.load(Ordering::Relaxed) {
                    let mut scan = tree.scan(crate::ScanRange::all()).unwrap();
                    let mut count = 0;
                    while scan.advance().unwrap() {
                        count += 1;
                    }
                    assert!(count >= most, "{count} of {most}");
                    most = count;
                }
            });
            let ended: Vec<_> = writers.into_iter().map(std::thread::ScopedJoinHandle::join).collect();
            // Also if a writer has failed: the scope waits for the reader.
            is_over.store(true, Ordering::Relaxed);
            ended.into_iter().for_each(|ended| ended.unwrap());
        });
        (0..WRITERS * BATCHES * BATCH).for_each(|id| {
            assert_eq!(tree.get(key(id)).unwrap().unwrap().into_vec().unwrap(), id.to_le_bytes());
        });
        learned += u32::from(tree.inner().mem().table.expects_prefix());
    }
    assert!(learned > 0, "the test is about nothing");
}
