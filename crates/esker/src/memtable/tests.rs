//! The memtable against a `BTreeMap`, and under threads.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::ops::Bound;

use super::*;
use crate::checksum::hash_key;
use crate::cursor::{Cursor, MAX_SEQ};
use crate::rng::Rng;

type Place = (Vec<u8>, Reverse<SeqNo>);
type Model = BTreeMap<Place, (Kind, Vec<u8>)>;

fn put(table: &Memtable, key: &[u8], seq: SeqNo, kind: Kind, value: &[u8]) {
    let entry = NewEntry::new(Memtable::random_height(), key, seq, kind, value);
    let mut region = table.reserve(entry.size()).unwrap();
    table.insert(&mut region, &entry);
    assert_eq!(region.left, 0);
}

/// Keys that share prefixes, differ only in length or in trailing zeros, and now and then are huge.
fn random_key(rng: &mut Rng) -> Vec<u8> {
    let alphabet: &[u8] = &[0, 0, 1, b'a', b'b', 0xff];
    let mut key = match rng.index(4) {
        0 => Vec::new(),
        1 => b"table/1/".to_vec(),
        2 => b"table/1/row0000".to_vec(),
        _ => vec![0; rng.index(10)],
    };
    for _ in 0..rng.index(5) {
        key.push(alphabet[rng.index(alphabet.len())]);
    }
    if !cfg!(miri) && rng.index(200) == 0 {
        key.resize(1 + rng.index(131_072), b'a');
    }
    key
}

fn random_value(rng: &mut Rng) -> Vec<u8> {
    let len = match rng.index(if cfg!(miri) { 10 } else { 100 }) {
        0..5 => 0,
        99 => rng.index(100 << 10),
        _ => rng.index(40),
    };
    vec![rng.next() as u8; len]
}

/// Inserts these keys with their heights and values, numbered from `seq` on.
fn put_together(table: &Memtable, seq: SeqNo, new: &[(Vec<u8>, u8, Vec<u8>)]) {
    let size =
        |(key, height, value): &(Vec<u8>, u8, Vec<u8>)| Memtable::entry_size(*height, key.len(), value.len());
    let mut region = table.reserve(new.iter().map(size).sum()).unwrap();
    let entries: Vec<NewEntry<'_>> = (seq..)
        .zip(new)
        .map(|(seq, (key, height, value))| NewEntry::new(*height, key, seq, Kind::Put, value))
        .collect();
    table.insert_together(&mut region, &entries);
    assert_eq!(region.left, 0);
}

fn same_place(cursor: &MemCursor, expected: Option<(&Place, &(Kind, Vec<u8>))>) {
    assert_eq!(cursor.valid(), expected.is_some());
    if let Some(((key, Reverse(seq)), (kind, value))) = expected {
        assert_eq!((cursor.key(), cursor.seq(), cursor.kind()), (key.as_slice(), *seq, *kind));
        assert!(cursor.value() == value);
    }
}

fn check_lookups(table: &Memtable, model: &Model, key: Vec<u8>, seq: SeqNo) {
    let place = (key, Reverse(seq));
    let expected = model.range(&place..).next().filter(|((key, _), _)| *key == place.0);
    let expected = expected.map(|((_, Reverse(seq)), (kind, value))| (*seq, *kind, value.as_slice()));
    assert!(table.get(&place.0, hash_key(&place.0), seq) == expected);
    assert!(expected.is_none() || table.may_contain(hash_key(&place.0)));
}

/// Makes one random move of the cursor, and the same move in the model.
fn check_move(rng: &mut Rng, cursor: &mut MemCursor, model: &Model, key: Vec<u8>, seq: SeqNo) {
    let place = (key, Reverse(seq));
    let here = cursor.valid().then(|| (cursor.key().to_vec(), Reverse(cursor.seq())));
    match (rng.index(8), here) {
        (0, _) => {
            cursor.seek_to_first().unwrap();
            same_place(cursor, model.first_key_value());
        }
        (1, _) => {
            cursor.seek_to_last().unwrap();
            same_place(cursor, model.last_key_value());
        }
        (2, _) | (_, None) => {
            cursor.seek(&place.0, seq).unwrap();
            same_place(cursor, model.range(&place..).next());
        }
        (3, _) => {
            cursor.seek_before(&place.0, seq).unwrap();
            same_place(cursor, model.range(..&place).next_back());
        }
        (4 | 5, Some(here)) => {
            cursor.next().unwrap();
            same_place(cursor, model.range((Bound::Excluded(&here), Bound::Unbounded)).next());
        }
        (_, Some(here)) => {
            cursor.prev().unwrap();
            same_place(cursor, model.range(..&here).next_back());
        }
    }
}

fn run_against_model(seed: u64, heads: Heads, rounds: usize) {
    println!("seed {seed}, {heads:?}");
    let mut rng = Rng::new(seed);
    // Its index soon is too small for more keys, and so is the late one: then all keys are found by a search.
    let table = Arc::new(Memtable { expected: 100, ..Memtable::with(heads, None) });
    let mut cursor = table.cursor();
    let mut model = Model::new();
    let mut seq = 0;
    let late = rng.index(rounds);
    for round in 0..rounds {
        if round >= late {
            table.begin_index(8);
        }
        let (key, at) = (random_key(&mut rng), rng.next() % (seq + 2));
        match rng.index(5) {
            4 => {
                // Some of the keys may be the same.
                let new: Vec<_> = (0..rng.index(TOGETHER + 1))
                    .map(|_| (random_key(&mut rng), Memtable::random_height(), random_value(&mut rng)))
                    .collect();
                put_together(&table, seq + 1, &new);
                for (key, _, value) in new {
                    seq += 1;
                    model.insert((key, Reverse(seq)), (Kind::Put, value));
                }
            }
            0 | 1 => {
                seq += 1;
                let (kind, value) = match rng.index(4) {
                    0 => (Kind::Delete, Vec::new()),
                    _ => (Kind::Put, random_value(&mut rng)),
                };
                put(&table, &key, seq, kind, &value);
                model.insert((key, Reverse(seq)), (kind, value));
            }
            2 => check_lookups(&table, &model, key, at),
            _ => check_move(&mut rng, &mut cursor, &model, key, at),
        }
    }
    assert_eq!((table.len(), table.is_empty()), (model.len(), model.is_empty()));
    assert!(cfg!(miri) || table.index.has_late(), "the late index was not tested");
    cursor.seek_to_first().unwrap();
    for entry in &model {
        same_place(&cursor, Some(entry));
        cursor.next().unwrap();
    }
    assert!(!cursor.valid());
    for (key, Reverse(seq)) in model.keys() {
        check_lookups(&table, &model, key.clone(), *seq);
        check_lookups(&table, &model, key.clone(), MAX_SEQ);
    }
}

#[test]
fn agrees_with_a_sorted_map() {
    let (seeds, rounds) = if cfg!(miri) { (1, 200) } else { (12, 4000) };
    for seed in 0..seeds {
        run_against_model(seed, Heads::behind(b""), rounds);
        run_against_model(seed, Heads::behind(b"table/1/row0"), rounds);
        run_against_model(seed, Heads::behind(&[0]), rounds);
        // The keys that other memtables of this kind have.
        let mut rng = Rng::new(!seed);
        let mut keys: Vec<_> = (0..100).map(|_| random_key(&mut rng)).collect();
        keys.sort();
        let sample = keys.iter().map(Vec::as_slice).collect();
        run_against_model(seed, Heads::of_sample(sample, b""), rounds);
    }
}

#[test]
fn an_idle_memtable_owns_almost_nothing() {
    let table = Memtable::new();
    assert_eq!((table.memory(), table.len()), (0, 0));
    assert!(table.is_empty() && newest(&table, b"").is_none() && table.common_prefix().is_empty());
    assert!(size_of::<Memtable>() <= 704, "{}", size_of::<Memtable>());
    put(&table, b"key", 1, Kind::Put, b"value");
    assert_eq!(table.memory(), 1024);
}

#[test]
fn a_reservation_beyond_memory_is_an_error() {
    let table = Memtable::new();
    // The last size reaches the allocator, which Miri does not let fail.
    let sizes = [usize::MAX, isize::MAX as usize, 1 << 60];
    for &bytes in &sizes[..if cfg!(miri) { 2 } else { 3 }] {
        assert!(table.reserve(bytes).is_err());
    }
    assert_eq!(table.memory(), 0);
    put(&table, b"still", 1, Kind::Put, b"works");
    assert_eq!(table.get(b"still", hash_key(b"still"), 1), Some((1, Kind::Put, &b"works"[..])));
}

#[test]
fn chunks_grow_and_large_regions_stand_alone() {
    let table = Memtable::new();
    let value = vec![1; 1 << 20];
    for seq in 0..40 {
        put(&table, b"small", seq, Kind::Put, &value[..1000]);
    }
    assert_eq!(table.memory(), (2 + 4 + 8 + 16 + 32) << 10, "1,000 bytes and their entry do not fit 1 KiB");
    let before = table.memory();
    put(&table, b"large", 50, Kind::Put, &value);
    let large = table.memory() - before;
    let exact = |height| Memtable::entry_size(height, 5, value.len()) + 16;
    assert!((1..=MAX_HEIGHT as u8).any(|height| large == exact(height)), "{large}");
    put(&table, b"small", 51, Kind::Put, b"");
    assert_eq!(table.memory() - before, large);
}

fn newest(table: &Memtable, key: &[u8]) -> Option<SeqNo> {
    table.get(key, hash_key(key), MAX_SEQ).map(|(seq, _, _)| seq)
}

/// Whether the index alone shows whether `key` has an entry.
fn is_known(table: &Memtable, key: &[u8]) -> bool {
    !matches!(table.index.find(key, hash_key(key)), Found::Unknown)
}

#[test]
fn a_successor_knows_its_keys_without_a_search() {
    let table = Memtable::new();
    let keys = if cfg!(miri) { 200 } else { 20_000 };
    let key = |i: u64| i.to_be_bytes();
    for i in 0..3 * keys {
        put(&table, &key(i % keys), i, Kind::Put, b"value");
    }
    assert!(!is_known(&table, &key(0)), "a first memtable has no index");
    let next = table.successor();
    assert_eq!(next.expected as u64, 3 * keys);
    (0..keys).for_each(|i| put(&next, &key(i), i, Kind::Put, b"value"));
    assert!((0..2 * keys).all(|i| is_known(&next, &key(i))));
    assert!((0..2 * keys).all(|i| newest(&next, &key(i)) == (i < keys).then_some(i)));
    let wrong = (keys..2 * keys).filter(|&i| next.may_contain(hash_key(&key(i)))).count() as u64;
    assert!(wrong < keys / 20, "{wrong} of {keys}");
    // Its own successor expects as many keys as it has, however often they are written.
    (0..keys).for_each(|i| put(&next, &key(i), keys + i, Kind::Put, b"value"));
    assert_eq!(next.successor().expected as u64, keys);
}

#[test]
fn an_index_has_room_for_a_tenth_more_keys_than_expected() {
    let sizes: &[u64] = if cfg!(miri) { &[80, 220] } else { &[80, 110, 220, 330, 1100, 300_000] };
    for &keys in sizes {
        for set in 0..if cfg!(miri) || keys > 10_000 { 1 } else { 20 } {
            let table = Memtable { expected: keys as usize * 10 / 11, ..Memtable::new() };
            for i in 0..keys {
                put(&table, format!("user{set:05}{i:05}").as_bytes(), i, Kind::Put, b"");
            }
            assert!(is_known(&table, b"another"), "{keys} keys, set {set}");
        }
    }
}

#[test]
fn a_memtable_without_an_index_gets_a_late_one() {
    let keys = if cfg!(miri) { 600 } else { 1000 };
    let key = |i: u64| i.to_be_bytes();
    let table = Memtable::new();
    let before = (0..keys).map(|i| put(&table, &key(i), i, Kind::Put, b"value"));
    assert_eq!(before.count() as u64, keys);
    let limit = 8 * table.memory();
    assert!(table.wants_index(limit) && !table.wants_index(limit + 8));
    let memory = table.memory();
    table.begin_index(limit);
    assert!(!table.wants_index(limit) && table.memory() > memory);
    // Half of the old keys again, and as many new ones.
    for i in keys / 2..keys * 3 / 2 {
        put(&table, &key(i), keys + i, Kind::Put, b"value");
    }
    for i in 0..keys * 2 {
        assert_eq!(is_known(&table, &key(i)), (keys / 2..keys * 3 / 2).contains(&i), "{i}");
        let expected = if i < keys / 2 { Some(i) } else { (i < keys * 3 / 2).then_some(keys + i) };
        assert_eq!(newest(&table, &key(i)), expected);
    }
    // A small index, which has no place for most keys, gets a late one too.
    let table = Memtable { expected: 64, ..Memtable::new() };
    for i in 0..keys {
        put(&table, &key(i), i, Kind::Put, b"value");
        if i == keys / 2 {
            let limit = 8 * table.entry_memory();
            assert!(table.wants_index(limit));
            table.begin_index(limit);
        }
    }
    assert!((0..keys).all(|i| newest(&table, &key(i)) == Some(i)));
    assert!((keys / 2 + 1..keys).all(|i| is_known(&table, &key(i))));
}

#[test]
fn an_index_that_was_refused_at_first_is_not_begun_later() {
    let table = Memtable::new();
    put(&table, b"key", 1, Kind::Put, b"");
    table.index.begin(1000);
    put(&table, b"other", 2, Kind::Put, b"");
    assert_eq!((newest(&table, b"key"), is_known(&table, b"other")), (Some(1), false));
}

#[test]
fn keys_with_one_hash_take_few_slots() {
    let keys = 20;
    // Other keys, whose marks differ, have the first slots.
    for others in 0..8 {
        let (table, index) = (Memtable::new(), KeyIndex::default());
        (0..others + keys).for_each(|i: u8| put(&table, &[i], u64::from(i), Kind::Put, b""));
        index.begin(64);
        let hash = |i: u8| if i < others { u64::from(100 + i) } else { 7 };
        let mut next = table.first();
        while let Some(node) = next {
            assert!(!index.add(hash(node.key()[0]), node));
            next = node.next();
        }
        let mut known = 0;
        for i in 0..others + keys {
            match index.find(&[i], hash(i)) {
                Found::Newest(node) => {
                    assert_eq!(node.key(), [i]);
                    known += 1;
                }
                Found::Unknown => assert!(i >= others + 8, "key {i} behind {others} others"),
                Found::Nothing => panic!("key {i} behind {others} others is lost"),
            }
        }
        assert_eq!(known, others + 8, "behind {others} others");
        assert!(matches!(index.find(b"absent", u64::MAX), Found::Nothing), "a free slot");
    }
}

#[test]
fn versions_that_come_in_any_order_are_found() {
    let table = Memtable { expected: 64, ..Memtable::new() };
    let mut rng = Rng::new(1);
    let mut seqs: Vec<SeqNo> = (1..40).collect();
    (1..seqs.len()).for_each(|i| seqs.swap(i, rng.index(i + 1)));
    for (count, &seq) in (1..).zip(&seqs) {
        put(&table, b"key", seq, Kind::Put, &seq.to_le_bytes());
        for at in 0..41 {
            let expected = seqs[..count].iter().copied().filter(|&seq| seq <= at).max();
            let found = table.get(b"key", hash_key(b"key"), at);
            assert_eq!(found.map(|(seq, _, _)| seq), expected, "{seqs:?}");
        }
    }
}

/// A memtable with these keys, several versions of some.
fn of_keys(keys: impl Iterator<Item = String>) -> (Memtable, Model) {
    let (table, mut model) = (Memtable::new(), Model::new());
    for (seq, key) in (1..).zip(keys) {
        let (kind, value) =
            if seq % 7 == 0 { (Kind::Delete, Vec::new()) } else { (Kind::Put, vec![seq as u8; 9]) };
        put(&table, key.as_bytes(), seq, kind, &value);
        model.insert((key.into_bytes(), Reverse(seq)), (kind, value));
    }
    (table, model)
}

#[test]
fn a_memtable_learns_the_prefix_of_its_keys() {
    let entries = if cfg!(miri) { 40 } else { LEARN_AT as u64 };
    let mut rng = Rng::new(1);
    let (table, model) = of_keys((0..entries).map(|_| format!("user/0000/{:04}", rng.next() % 1000)));
    assert_eq!(table.may_learn(), !cfg!(miri));
    let copy = Arc::new(table.learned().unwrap());
    assert!(copy.expects_prefix() && !copy.may_learn() && !table.may_learn());
    let mut cursor = copy.cursor();
    cursor.seek_to_first().unwrap();
    for entry in &model {
        same_place(&cursor, Some(entry));
        cursor.next().unwrap();
    }
    assert!(!cursor.valid());
    model.keys().for_each(|(key, Reverse(seq))| check_lookups(&copy, &model, key.clone(), *seq));
}

#[test]
fn a_memtable_learns_only_what_helps() {
    let learns = |keys: &mut dyn Iterator<Item = String>| {
        let (table, _) = of_keys(keys);
        let learned = table.learned().is_some();
        assert!(!table.may_learn(), "it would be asked for ever");
        learned
    };
    let mut rng = Rng::new(1);
    assert!(learns(&mut (0..100).map(|_| format!("user/0000/{:04}", rng.next() % 1000))));
    // Later keys would not begin alike.
    assert!(!learns(&mut (0..100).map(|number| format!("user/0000/{number:04}"))));
    // Their heads differ already.
    assert!(!learns(&mut (0..100).map(|_| format!("u{:08}", rng.next() % 100_000_000))));
    if !cfg!(miri) {
        // Copying this many would delay writers.
        assert!(!learns(&mut (0..=8 * LEARN_AT).map(|_| format!("user/0000/{:04}", rng.next() % 1000))));
    }
}

#[test]
fn the_common_prefix_is_that_of_all_keys() {
    let table = Memtable::new();
    for (seq, key) in [&b"user/17"[..], b"user/2", b"user/13"].into_iter().enumerate() {
        put(&table, key, seq as u64, Kind::Put, b"");
    }
    assert_eq!(table.common_prefix(), b"user/");
}

fn entries_of(table: &Arc<Memtable>) -> Vec<(Vec<u8>, SeqNo, Vec<u8>)> {
    let (mut cursor, mut entries) = (table.cursor(), Vec::new());
    cursor.seek_to_first().unwrap();
    while cursor.valid() {
        entries.push((cursor.key().to_vec(), cursor.seq(), cursor.value().to_vec()));
        cursor.next().unwrap();
    }
    entries
}

/// Threads insert one by one and together while a copy is made: the copy gets each entry once.
#[test]
fn a_copy_gets_what_comes_while_it_is_made() {
    let (rounds, table) = (if cfg!(miri) { 20 } else { 2000 }, Arc::new(Memtable::new()));
    (0..20).for_each(|seq| put(&table, &[seq as u8], seq, Kind::Put, b"before"));
    table.begin_recent();
    let next = parking_lot::Mutex::new(20);
    let copy = Arc::new(table.empty_copy());
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                for round in 0..rounds {
                    let key = vec![round as u8];
                    let size = Memtable::entry_size(2, 1, 6);
                    // Stands for the commit lock.
                    let mut next = next.lock();
                    let (seq, mut region) = (*next, table.reserve(2 * size).unwrap());
                    *next += 2;
                    drop(next);
                    let entries = [seq, seq + 1].map(|seq| NewEntry::new(2, &key, seq, Kind::Put, b"during"));
                    if round % 2 == 0 {
                        table.insert_together(&mut region, &entries);
                    } else {
                        entries.iter().for_each(|entry| table.insert(&mut region, entry));
                    }
                }
            });
        }
        for (key, seq, value) in entries_of(&table).into_iter().filter(|(_, seq, _)| *seq < 20) {
            copy.insert_copy(&NewEntry::new(1, &key, seq, Kind::Put, &value)).unwrap();
        }
        (0..8).for_each(|_| assert!(table.copy_recent(&copy).is_some()));
    });
    assert!(table.copy_recent(&copy).is_some());
    table.end_recent();
    assert_eq!(table.len(), 20 + 6 * rounds);
    assert_eq!(entries_of(&copy), entries_of(&table));
    // Nothing is noted any more.
    put(&table, b"after", 1 << 20, Kind::Put, b"");
    assert_eq!(table.copy_recent(&copy), Some(0));
}

/// Reservations of large values make room for many entries; the list does not take more and more memory for them.
#[test]
fn a_copy_is_given_up_before_its_list_takes_much_memory() {
    let table = Arc::new(Memtable::new());
    table.begin_recent();
    let (value, copy) = (vec![1; 1 << 20], table.empty_copy());
    for seq in 0..40 {
        put(&table, b"large", seq, Kind::Put, &value);
    }
    assert_eq!(table.copy_recent(&copy), None);
    table.begin_recent();
    put(&table, b"small", 50, Kind::Put, b"");
    assert_eq!(table.copy_recent(&copy), Some(1), "it begins anew");
    table.end_recent();
}

/// Threads insert interleaved keys, each batch as one region. Meanwhile readers check that they find the entries that
/// were published before they looked.
#[test]
fn threads_insert_while_others_read() {
    let (writers, batches, batch) = if cfg!(miri) { (2, 6, 2) } else { (3, 1500, 7) };
    let key = |n: usize| {
        let spread = (n as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        if n.is_multiple_of(3) {
            format!("prefix00{n:08}").into_bytes()
        } else {
            spread.to_be_bytes().to_vec()
        }
    };
    let table = Arc::new(Memtable { expected: writers * batches * batch, ..Memtable::new() });
    let commit = std::sync::Mutex::new(0);
    let published: Vec<_> = (0..writers).map(|_| std::sync::atomic::AtomicUsize::new(0)).collect();
    let check = |table: &Arc<Memtable>| {
        let known: Vec<_> = published.iter().map(|n| n.load(Ordering::Acquire)).collect();
        let total: usize = known.iter().sum();
        for (writer, &count) in known.iter().enumerate() {
            for n in (0..count).rev().take(20) {
                let id = n * writers + writer;
                assert!(table.may_contain(hash_key(&key(id))));
                let found = table.get(&key(id), hash_key(&key(id)), MAX_SEQ);
                assert!(found.is_some_and(|(_, _, value)| value == id.to_le_bytes()));
            }
        }
        let (mut cursor, mut seen, mut last) = (table.cursor(), 0, None);
        cursor.seek_to_first().unwrap();
        while cursor.valid() {
            assert!(last.as_deref() < Some(cursor.key()));
            last = Some(cursor.key().to_vec());
            seen += 1;
            cursor.next().unwrap();
        }
        assert!(seen >= total, "{seen} of {total}");
        total
    };
    std::thread::scope(|scope| {
        for writer in 0..writers {
            let (table, commit, published, key) = (&table, &commit, &published, &key);
            scope.spawn(move || {
                for first in (0..batches * batch).step_by(batch) {
                    let ids: Vec<_> = (first..first + batch).map(|n| n * writers + writer).collect();
                    let heights: Vec<_> = ids.iter().map(|_| Memtable::random_height()).collect();
                    let sizes =
                        ids.iter().zip(&heights).map(|(&id, &h)| Memtable::entry_size(h, key(id).len(), 8));
                    let (mut region, seq) = {
                        let mut seq = commit.lock().unwrap();
                        *seq += batch as u64;
                        (table.reserve(sizes.sum()).unwrap(), *seq)
                    };
                    for (&id, &height) in ids.iter().zip(&heights) {
                        let (key, value) = (key(id), id.to_le_bytes());
                        table.insert(&mut region, &NewEntry::new(height, &key, seq, Kind::Put, &value));
                        assert_eq!(newest(table, &key), Some(seq));
                        published[writer].fetch_add(1, Ordering::Release);
                    }
                }
            });
        }
        while check(&table) < writers * batches * batch {
            std::thread::yield_now();
        }
    });
    assert_eq!(table.len(), check(&table));
}
