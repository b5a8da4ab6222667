//! Cursors and ranges in what surrounds them: memory, space, damage. `model` compares what they show with a sorted map.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use esker::env::{Env, StepExecutor};
use esker::fs::sim::{Fault, FaultError, Op, SimFs};
use esker::{Cursor, Db, ErrorKind, Options, Range};

use crate::allocated::allocations;
use crate::common::{ManualClock, Rng, alone, settle, world};

/// Compares some moves of a new cursor, and a range from both ends, with the pairs that they should show.
pub(crate) fn agree(
    (mut cursor, mut range): (Cursor, Range),
    pairs: &BTreeMap<Vec<u8>, Vec<u8>>,
    rng: &mut Rng,
) {
    for _ in 0..20 {
        let at = cursor.key().to_vec();
        let key = format!("{:03}", rng.below(200)).into_bytes();
        let (moved, due) = match rng.index(6) {
            0 => (cursor.seek(&key).unwrap(), pairs.range(key..).next()),
            1 => (cursor.seek_for_prev(&key).unwrap(), pairs.range(..=key).next_back()),
            2 | 3 if !at.is_empty() => (cursor.prev().unwrap(), pairs.range(..at).next_back()),
            2 => (cursor.last().unwrap(), pairs.iter().next_back()),
            _ if !at.is_empty() => {
                (cursor.next().unwrap(), pairs.range([at.as_slice(), b"\0"].concat()..).next())
            }
            _ => (cursor.first().unwrap(), pairs.iter().next()),
        };
        assert_eq!(moved, due.is_some());
        let (key, value) = due.map_or((&[][..], &[][..]), |(key, value)| (key, value));
        assert!(cursor.key() == key && cursor.value().bytes().unwrap() == value);
    }
    let mut left = pairs.iter();
    loop {
        let (got, due) = match rng.one_in(2) {
            true => (range.next_ref(), left.next()),
            false => (range.next_back_ref(), left.next_back()),
        };
        let got = got.unwrap().map(|(key, value)| (key, value.bytes().unwrap()));
        assert!(
            got.as_ref().map(|(key, value)| (*key, &**value)) == due.map(|(key, value)| (&**key, &**value))
        );
        if due.is_none() {
            return;
        }
    }
}

#[test]
fn a_cursor_that_is_reused_allocates_nothing() {
    alone("cursors::a_cursor_that_is_reused_allocates_nothing", reuse);
}

fn reuse(root: &Path) {
    const KEYS: u64 = 20_000;
    // The store keeps notes of slow calls. By this clock none is.
    let clock = Arc::new(ManualClock::default());
    let env = Env { executor: Some(Arc::new(StepExecutor)), clock, ..Env::system() };
    let mut options = Options::default().env(env).memory_budget(64 << 20);
    options.table_bytes = 256 << 10;
    let db = Db::open(root.join("store"), options).unwrap();
    let tree = db.default_tree();
    let key = |i: u64| i.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes();
    for part in 0..3 {
        for i in (part..KEYS).step_by(part as usize + 1) {
            tree.put(key(i), [7; 100]).unwrap();
        }
        if part < 2 {
            db.flush().unwrap();
            settle(&db);
        }
    }
    let mut cursor = tree.cursor().unwrap();
    let mut rng = Rng::new(1);
    let mut wander = |cursor: &mut Cursor| {
        let mut bytes = 0;
        for i in 0..2000 {
            let to = key(rng.below(KEYS));
            // The first and the last keys lie before and behind all tables but one.
            let on = if i % 2 == 0 { cursor.seek(to) } else { cursor.seek_for_prev(to) };
            assert!(on.unwrap());
            for step in 0..8 {
                bytes += cursor.value().bytes().unwrap().len();
                if !(if step < 5 { cursor.next() } else { cursor.prev() }).unwrap() {
                    break;
                }
            }
        }
        bytes
    };
    // All blocks come into the pool, and the buffers get their lengths.
    let mut all = 0;
    while cursor.next().unwrap() {
        all += 1;
    }
    assert_eq!(all, KEYS);
    while cursor.prev().unwrap() {}
    wander(&mut cursor);
    let before = allocations();
    assert!(wander(&mut cursor) > 100 * 2000);
    assert_eq!(allocations() - before, 0, "allocations in 2000 seeks");
    db.close().unwrap();
}

#[test]
fn a_cursor_keeps_a_huge_value_until_it_is_refreshed() {
    let disk = SimFs::new(1);
    let env = world(Arc::new(disk), 1, Some(Arc::new(StepExecutor)));
    let db = Db::open("/store", Options::default().env(env)).unwrap();
    let tree = db.default_tree();
    tree.put("film", vec![1; 100_000]).unwrap();
    let mut cursor = tree.cursor().unwrap();
    let mut range = tree.iter().unwrap();
    tree.put("film", "cut").unwrap();
    settle(&db);
    assert_eq!(db.stats().unwrap().blob_values, 1);
    assert!(cursor.first().unwrap() && cursor.value().len() == 100_000);
    assert!(cursor.value().bytes().unwrap().iter().all(|&byte| byte == 1));
    assert_eq!(range.next_back_ref().unwrap().map(|(_, value)| value.len()), Some(100_000));
    drop(range);
    cursor.refresh().unwrap();
    settle(&db);
    assert_eq!(db.stats().unwrap().blob_values, 0, "nobody sees the value");
    assert!(cursor.first().unwrap() && cursor.value().bytes().unwrap()[..] == *b"cut");
}

#[test]
fn after_an_error_a_cursor_is_nowhere_until_it_is_sent_somewhere() {
    let disk = SimFs::new(1);
    let env = world(Arc::new(disk.clone()), 1, Some(Arc::new(StepExecutor)));
    let db = Db::open("/store", Options::default().env(env)).unwrap();
    let tree = db.default_tree();
    for i in 0..2000_u32 {
        tree.put(i.to_be_bytes(), [7; 100]).unwrap();
    }
    db.flush().unwrap();
    db.clear_cache();
    let (mut cursor, mut range) = (tree.cursor().unwrap(), tree.iter().unwrap());
    assert!(cursor.seek(1000_u32.to_be_bytes()).unwrap() && range.next_ref().unwrap().is_some());
    disk.inject(Fault::new(Op::Read, ".table").error(FaultError::Io).forever());
    let failed = loop {
        match cursor.next() {
            Ok(more) => assert!(more),
            Err(error) => break error,
        }
    };
    assert_eq!(failed.kind(), ErrorKind::Io);
    assert!(cursor.key().is_empty() && cursor.value().is_empty());
    assert!(!cursor.next().unwrap() && !cursor.prev().unwrap());
    assert_eq!(range.next_back_ref().unwrap_err().kind(), ErrorKind::Io);
    disk.clear_faults();
    assert!(range.next_ref().unwrap().is_none() && range.next_back_ref().unwrap().is_none());
    assert!(!cursor.next().unwrap());
    assert!(cursor.seek_for_prev(1500_u32.to_be_bytes()).unwrap());
    assert_eq!(cursor.key(), 1500_u32.to_be_bytes());
}
