//! The memtable under the shuttle scheduler, which runs each test in many interleavings of its atomic
//! steps: `RUSTFLAGS="--cfg esker_shuttle" cargo test -p esker interleavings`.

use std::sync::Arc;

use super::{Memtable, NewEntry};
use crate::cursor::{Cursor, Kind, MAX_SEQ};
use crate::sync::{AtomicBool, Ordering};

/// For each writer its keys and their heights; an entry's sequence number is unique through its key.
type Plan = &'static [&'static [(u8, u8)]];

const NEIGHBOURS: Plan = &[&[(10, 1), (12, 1)], &[(11, 1), (13, 1)]];
const TALL: Plan = &[&[(10, 3), (12, 1)], &[(11, 2), (9, 3)]];
const DESCENDING: Plan = &[&[(15, 2), (12, 2)], &[(14, 1), (11, 1)]];
const THREE: Plan = &[&[(10, 1), (13, 2)], &[(11, 2)], &[(12, 1)]];

/// With `shared_head` all keys begin with the same 8 bytes, so bounds decide nothing.
fn key(byte: u8, shared_head: bool) -> Vec<u8> {
    let mut key = if shared_head { b"the same".to_vec() } else { Vec::new() };
    key.push(byte);
    key
}

fn write(table: &Memtable, entries: &[(u8, u8)], shared_head: bool, together: bool, done: &[AtomicBool]) {
    let size =
        entries.iter().map(|(byte, height)| Memtable::entry_size(*height, key(*byte, shared_head).len(), 1));
    let mut region = {
        // Stands for the commit lock of the store.
        while done[255].swap(true, Ordering::Acquire) {
            shuttle::thread::yield_now();
        }
        let region = table.reserve(size.sum()).unwrap();
        done[255].store(false, Ordering::Release);
        region
    };
    if together {
        let keys: Vec<Vec<u8>> = entries.iter().map(|(byte, _)| key(*byte, shared_head)).collect();
        let mut new = Vec::new();
        for ((byte, height), key) in entries.iter().zip(&keys) {
            let value = std::slice::from_ref(byte);
            new.push(NewEntry { height: *height, key, seq: u64::from(*byte), kind: Kind::Put, value });
        }
        table.insert_together(&mut region, &new);
    }
    for (byte, height) in entries {
        let key = key(*byte, shared_head);
        if !together {
            table.insert(&mut region, *height, &key, u64::from(*byte), Kind::Put, &[*byte]);
        }
        assert!(table.get(&key, MAX_SEQ).is_some(), "a writer finds what it inserted");
        done[usize::from(*byte)].store(true, Ordering::Release);
    }
}

/// Checks that every way of reading finds what was done before the reader began.
fn read(table: &Arc<Memtable>, bytes: &[u8], shared_head: bool, done: &[AtomicBool]) {
    let known: Vec<u8> =
        bytes.iter().copied().filter(|&b| done[usize::from(b)].load(Ordering::Acquire)).collect();
    for &byte in &known {
        let key = key(byte, shared_head);
        assert_eq!(table.get(&key, MAX_SEQ), Some((u64::from(byte), Kind::Put, &[byte][..])));
        let mut cursor = table.cursor();
        cursor.seek(&key, MAX_SEQ).unwrap();
        assert_eq!(cursor.key(), key);
    }
    let mut cursor = table.cursor();
    let mut seen = Vec::new();
    cursor.seek_to_first().unwrap();
    while cursor.valid() {
        assert_eq!(cursor.value(), &cursor.key()[cursor.key().len() - 1..]);
        seen.push(cursor.value()[0]);
        cursor.next().unwrap();
    }
    assert!(seen.is_sorted() && known.iter().all(|byte| seen.contains(byte)));
    let mut back = Vec::new();
    cursor.seek_to_last().unwrap();
    while cursor.valid() {
        back.push(cursor.value()[0]);
        cursor.prev().unwrap();
    }
    assert!(back.iter().rev().is_sorted() && seen.iter().all(|byte| back.contains(byte)));
}

fn run(plan: Plan, shared_head: bool, together: bool) {
    let table = Arc::new(Memtable::new());
    let done: Arc<Vec<AtomicBool>> = Arc::new((0..256).map(|_| AtomicBool::new(false)).collect());
    let mut bytes: Vec<u8> = plan.iter().flat_map(|entries| entries.iter().map(|entry| entry.0)).collect();
    bytes.sort_unstable();
    let writers: Vec<_> = plan
        .iter()
        .map(|entries| {
            let (table, done) = (Arc::clone(&table), Arc::clone(&done));
            shuttle::thread::spawn(move || write(&table, entries, shared_head, together, &done))
        })
        .collect();
    read(&table, &bytes, shared_head, &done);
    for writer in writers {
        writer.join().unwrap();
    }
    assert!(bytes.iter().all(|&byte| done[usize::from(byte)].load(Ordering::Acquire)));
    assert_eq!(table.len(), bytes.len());
    read(&table, &bytes, shared_head, &done);
}

#[test]
fn every_insert_that_returned_is_found() {
    for plan in [NEIGHBOURS, TALL, DESCENDING, THREE] {
        for (shared_head, together) in [(false, false), (false, true), (true, false), (true, true)] {
            println!("plan {plan:?} {shared_head} {together}");
            shuttle::check_random(move || run(plan, shared_head, together), 2000);
            shuttle::check_pct(move || run(plan, shared_head, together), 2000, 3);
        }
    }
}
