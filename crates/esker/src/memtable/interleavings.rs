//! The memtable under the shuttle scheduler, which runs each test in many interleavings of its atomic
//! steps: `RUSTFLAGS="--cfg esker_shuttle" cargo test -p esker interleavings`.

use std::sync::Arc;

use super::{Found, KeyIndex, Memtable, NewEntry};
use crate::checksum::hash_key;
use crate::cursor::{Cursor, Kind, MAX_SEQ};
use crate::sync::{AtomicBool, AtomicU64, Ordering};

/// For each writer its keys and their heights; an entry's sequence number is unique through its key.
type Plan = &'static [&'static [(u8, u8)]];

const NEIGHBOURS: Plan = &[&[(10, 1), (12, 1)], &[(11, 1), (13, 1)]];
const TALL: Plan = &[&[(10, 3), (12, 1)], &[(11, 2), (9, 3)]];
const DESCENDING: Plan = &[&[(15, 2), (12, 2)], &[(14, 1), (11, 1)]];
const THREE: Plan = &[&[(10, 1), (13, 2)], &[(11, 2)], &[(12, 1)]];

/// With `shared_head` all keys begin with the same 8 bytes. Then bounds decide nothing.
fn key(byte: u8, shared_head: bool) -> Vec<u8> {
    let mut key = if shared_head { b"the same".to_vec() } else { Vec::new() };
    key.push(byte);
    key
}

fn newest(table: &Memtable, key: &[u8]) -> Option<u64> {
    table.get(key, hash_key(key), MAX_SEQ).map(|(seq, kind, value)| {
        assert_eq!((kind, value), (Kind::Put, &[seq as u8][..]));
        seq
    })
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
            new.push(NewEntry::new(*height, key, u64::from(*byte), Kind::Put, value));
        }
        table.insert_together(&mut region, &new);
    }
    for (byte, height) in entries {
        let key = key(*byte, shared_head);
        if !together {
            table.insert(&mut region, &NewEntry::new(*height, &key, u64::from(*byte), Kind::Put, &[*byte]));
        }
        assert!(newest(table, &key).is_some(), "a writer finds what it inserted");
        done[usize::from(*byte)].store(true, Ordering::Release);
    }
}

/// Checks that every way of reading finds the inserts that were done before the reader began.
fn read(table: &Arc<Memtable>, bytes: &[u8], shared_head: bool, done: &[AtomicBool]) {
    let known: Vec<u8> =
        bytes.iter().copied().filter(|&b| done[usize::from(b)].load(Ordering::Acquire)).collect();
    for &byte in &known {
        let key = key(byte, shared_head);
        assert_eq!(newest(table, &key), Some(u64::from(byte)));
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

/// `slots`: the number of keys that the index is for; 0 for no index. With 1 it has no place for some keys.
fn run(plan: Plan, shared_head: bool, together: bool, slots: usize) {
    let table = Arc::new(Memtable::new());
    if slots > 0 {
        table.index.begin_late(slots);
    }
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
        for (shared_head, together, slots) in
            [(false, false, 1), (false, true, 0), (true, false, 0), (true, true, 8)]
        {
            println!("plan {plan:?} {shared_head} {together} {slots}");
            shuttle::check_random(move || run(plan, shared_head, together, slots), 2000);
            shuttle::check_pct(move || run(plan, shared_head, together, slots), 2000, 3);
        }
    }
}

const VERSIONED: [&[u8]; 2] = [b"one", b"two"];

/// Three threads write versions of two keys, in no order. Every reader finds a version that is at least as new as those
/// whose inserts had returned before it looked.
fn versions(slots: usize) {
    // The oldest versions are in the early table.
    let table = Memtable { expected: 64, ..Memtable::new() };
    for key in VERSIONED {
        let mut region = table.reserve(Memtable::entry_size(1, key.len(), 1)).unwrap();
        table.insert(&mut region, &NewEntry::new(1, key, 0, Kind::Put, &[0]));
    }
    table.index.begin_late(slots);
    let table = Arc::new(table);
    let reserving = Arc::new(AtomicBool::new(false));
    let written: Arc<[AtomicU64; 2]> = Arc::default();
    let look = |table: &Memtable, written: &[AtomicU64; 2]| {
        let known: Vec<u64> = written.iter().map(|seq| seq.load(Ordering::Acquire)).collect();
        for (key, known) in VERSIONED.iter().zip(known) {
            assert!(newest(table, key).unwrap_or(0) >= known);
        }
    };
    let writers: Vec<_> = [[5, 2], [1, 4], [3, 6]]
        .into_iter()
        .map(|seqs| {
            let (table, written, reserving) =
                (Arc::clone(&table), Arc::clone(&written), Arc::clone(&reserving));
            shuttle::thread::spawn(move || {
                for seq in seqs {
                    for (key, written) in VERSIONED.iter().zip(written.iter()) {
                        while reserving.swap(true, Ordering::Acquire) {
                            shuttle::thread::yield_now();
                        }
                        let mut region = table.reserve(Memtable::entry_size(1, key.len(), 1)).unwrap();
                        reserving.store(false, Ordering::Release);
                        table.insert(&mut region, &NewEntry::new(1, key, seq, Kind::Put, &[seq as u8]));
                        written.fetch_max(seq, Ordering::Release);
                    }
                    look(&table, &written);
                }
            })
        })
        .collect();
    look(&table, &written);
    for writer in writers {
        writer.join().unwrap();
    }
    look(&table, &written);
}

#[test]
fn interleavings_of_versions_show_the_newest() {
    for slots in [1, 8] {
        shuttle::check_random(move || versions(slots), 3000);
        shuttle::check_pct(move || versions(slots), 3000, 3);
    }
}

/// Threads enter two versions of a key and other keys of the same group, some with the same mark. Each may take the
/// slot whose mark another has set, and some find no slot.
fn one_group(hashes: &'static [(u8, u64)]) {
    let table = Memtable::new();
    for seq in [1, 2] {
        for (key, _) in hashes {
            let key = std::slice::from_ref(key);
            let entry = NewEntry::new(1, key, seq, Kind::Put, b"");
            let mut region = table.reserve(entry.size()).unwrap();
            table.insert(&mut region, &entry);
        }
    }
    let index = KeyIndex::default();
    index.begin(64);
    let shared = Arc::new((table, index));
    let find = |(table, index): &(Memtable, KeyIndex), (key, hash): (u8, u64)| match index.find(&[key], hash)
    {
        Found::Newest(node) => {
            assert_eq!(node.key(), [key]);
            Some(node.seq())
        }
        Found::Nothing => Some(0),
        // A search of the list finds it.
        Found::Unknown => table.get(&[key], hash, MAX_SEQ).map(|(seq, _, _)| seq),
    };
    // The first key has two versions in the index, the others the newer one.
    let enter = |(place, seq): (usize, u64)| {
        let shared = Arc::clone(&shared);
        shuttle::thread::spawn(move || {
            let (table, index) = &*shared;
            let (key, hash) = hashes[place];
            let mut entries = std::iter::successors(table.first(), |node| node.next());
            let entry = entries.find(|node| node.key() == [key] && node.seq() == seq).unwrap();
            index.add(hash, entry);
            assert!(find(&shared, hashes[place]) >= Some(seq), "key {key}");
        })
    };
    let entries = (0..hashes.len()).map(|place| (place, 2)).chain([(0, 1)]);
    for thread in entries.map(enter).collect::<Vec<_>>() {
        thread.join().unwrap();
    }
    assert!(hashes.iter().all(|hash| find(&shared, *hash) == Some(2)));
}

#[test]
fn interleavings_of_one_group_lose_no_key() {
    const ALIKE: &[(u8, u64)] = &[(10, 7), (11, 7)];
    const MANY: &[(u8, u64)] = &[(10, 7), (11, 7), (12, 7), (13, 7)];
    const MIXED: &[(u8, u64)] = &[(10, 7), (11, 8), (12, 7), (13, 7)];
    for hashes in [ALIKE, MANY, MIXED] {
        shuttle::check_random(move || one_group(hashes), 10_000);
        shuttle::check_pct(move || one_group(hashes), 10_000, 3);
    }
}

/// Two threads insert while a copy is made.
fn copied() {
    let table = Arc::new(Memtable::new());
    let one = |table: &Memtable, key: u8| {
        let mut region = table.reserve(Memtable::entry_size(1, 1, 0)).unwrap();
        table.insert(&mut region, &NewEntry::new(1, &[key], u64::from(key), Kind::Put, b""));
    };
    one(&table, 1);
    table.begin_recent();
    let reserving = Arc::new(AtomicBool::new(false));
    let writers: Vec<_> = [[10, 12], [11, 13]]
        .into_iter()
        .map(|keys| {
            let (table, reserving) = (Arc::clone(&table), Arc::clone(&reserving));
            shuttle::thread::spawn(move || {
                for key in keys {
                    while reserving.swap(true, Ordering::Acquire) {
                        shuttle::thread::yield_now();
                    }
                    let mut region = table.reserve(Memtable::entry_size(1, 1, 0)).unwrap();
                    reserving.store(false, Ordering::Release);
                    table.insert(&mut region, &NewEntry::new(1, &[key], u64::from(key), Kind::Put, b""));
                }
            })
        })
        .collect();
    let copy = Arc::new(table.empty_copy());
    one(&copy, 1);
    assert!(table.copy_recent(&copy).is_some() && table.copy_recent(&copy).is_some());
    for writer in writers {
        writer.join().unwrap();
    }
    assert!(table.copy_recent(&copy).is_some());
    table.end_recent();
    let (mut cursor, mut keys) = (copy.cursor(), Vec::new());
    cursor.seek_to_first().unwrap();
    while cursor.valid() {
        keys.push(cursor.key()[0]);
        cursor.next().unwrap();
    }
    assert_eq!(keys, [1, 10, 11, 12, 13]);
}

#[test]
fn interleavings_of_a_copy_lose_no_entry() {
    shuttle::check_random(copied, 5000);
    shuttle::check_pct(copied, 5000, 3);
}
