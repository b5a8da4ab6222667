use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use crate::compact::retain::ReadPoints;
use crate::cursor::{Cursor, Kind};
use crate::db::Db;
use crate::env::{Clock, Env, JobKind, StepExecutor};
use crate::error::{Error, ErrorKind};
use crate::keys;
use crate::operators::{ADD, APPEND};
use crate::options::{Options, TreeOptions};
use crate::read::range::ScanRange;
use crate::rng::Rng;
use crate::tree::{Snapshot, Tree};
use crate::write::batch::Batch;

/// On a full disk memtables are flushed one after the other, but those of a group together (rule 21).
#[test]
fn a_group_is_flushed_whole_on_a_full_disk() {
    let env = Env { executor: Some(Arc::new(StepExecutor)), ..Env::system() };
    let db = Db::open_in_memory(Options::default().env(env)).unwrap();
    let store = db.store();
    let options = TreeOptions::default().log(false).group("group");
    let trees = ["one", "two", "three"].map(|name| db.create_tree(name, options.clone()).unwrap());
    let waiting = || trees.each_ref().map(|tree| tree.inner().state.load().immutable.len());
    let limit = store.disk().space().memtable_limit();
    for round in 0..3_u8 {
        // Two rounds are more than a full disk flushes together; a part of the second would fit.
        let mut batch = Batch::new();
        for key in 0..limit / 10 * 3 / 1100 {
            let key = [&[round], &key.to_be_bytes()[..]].concat();
            // The first round leaves a tree out.
            let written = trees.iter().skip(usize::from(round == 0));
            written.for_each(|tree| batch.put(tree, &key, [7; 1000]).unwrap());
        }
        db.write(&batch).unwrap();
        store.flusher().switch_memtable(trees[1].inner(), 0);
    }
    assert_eq!(waiting(), [2, 3, 3]);
    store.core.health.fail(Error::new(ErrorKind::OutOfSpace, "full"));
    for left in [[2, 2, 2], [1, 1, 1], [0, 0, 0]] {
        assert!(store.flusher().flush_some().unwrap());
        assert_eq!(waiting(), left);
    }
}

/// The heads of lists and their elements are written this way.
#[test]
fn a_row_that_is_written_again_and_again_lets_log_files_go_around() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store");
    let env = Env { executor: Some(Arc::new(StepExecutor)), ..Env::system() };
    let mut options = Options::default().memory_budget(64 << 20).env(env);
    // Then the log has more segments at its budget than are kept.
    options.memtable_bytes = Some(8 << 20);
    let db = Db::open(&path, options).unwrap();
    let (heads, elements) = (db.tree("heads").unwrap(), db.tree("elements").unwrap());
    let write = |rows: std::ops::Range<u32>| {
        let (mut most, max) = (0, db.store().disk().space().log_max());
        for i in rows {
            let mut batch = Batch::new();
            batch.put(&heads, "list", i.to_be_bytes()).unwrap();
            batch.put(&elements, i.to_be_bytes(), [7; 1000]).unwrap();
            db.write(&batch).unwrap();
            if i % 100 == 0 {
                JobKind::ALL.iter().for_each(|job| while db.step(*job) {});
                most = most.max(db.stats().unwrap().log_live_bytes);
            }
        }
        let names = db.store().core.env().fs.list(&path).unwrap();
        let newest = names.into_iter().filter(|name| name.starts_with("wal-")).max().unwrap();
        (newest, most * 100 / max)
    };
    let begun = write(0..40_000);
    let later = write(40_000..120_000);
    assert_eq!(
        begun, later,
        "the newest log file, and the most of the log's budget that was live, in percent"
    );
    assert!(later.1 <= 50, "{later:?}");
}

/// A clock that the test sets.
#[derive(Debug, Default)]
struct Hand(AtomicU64);

impl Hand {
    fn pass(&self, us: u64) {
        self.0.fetch_add(us, Ordering::Relaxed);
    }
}

impl Clock for Hand {
    fn wall_us(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    fn monotonic_us(&self) -> u64 {
        self.wall_us()
    }

    fn sleep(&self, _: Duration) {}
}

fn opened_with(env: Env) -> Db {
    let env = Env { executor: Some(Arc::new(StepExecutor)), ..env };
    Db::open_in_memory(Options::default().separate_at(100).env(env)).unwrap()
}

fn opened() -> Db {
    opened_with(Env::system())
}

fn opened_by_hand() -> (Db, Arc<Hand>) {
    let clock = Arc::new(Hand(AtomicU64::new(1_000_000)));
    (opened_with(Env { clock: Arc::<Hand>::clone(&clock), ..Env::system() }), clock)
}

fn clean(db: &Db, tree: &Tree) {
    db.store().flusher().clean_later(tree.inner());
    assert!(db.store().flusher().clean_some());
}

fn entries(tree: &Tree) -> usize {
    tree.inner().mem().table.len()
}

type Pairs = BTreeMap<Vec<u8>, Vec<u8>>;

/// The pairs that a snapshot has to show, and the keys that were written after it.
struct Seen {
    snapshot: Snapshot,
    pairs: Pairs,
    written: BTreeSet<Vec<u8>>,
    /// Which keys were in a range that was deleted after it.
    in_deleted: BTreeSet<Vec<u8>>,
}

/// Checks all ways to read `tree`, now and at the moments of `seen`.
fn check(tree: &Tree, pairs: &Pairs, seen: &[Seen], what: &str) {
    let collected = |scan: crate::read::scan::Scan| scan.map(Result::unwrap).collect::<Vec<_>>();
    let sorted = |pairs: &Pairs| pairs.clone().into_iter().collect::<Vec<_>>();
    assert_eq!(collected(tree.scan(..).unwrap()), sorted(pairs), "{what}");
    let mut backward = collected(tree.scan(ScanRange::all().reverse()).unwrap());
    backward.reverse();
    assert_eq!(backward, sorted(pairs), "{what}");
    for one in seen {
        assert_eq!(collected(one.snapshot.scan(tree, ..).unwrap()), sorted(&one.pairs), "{what}");
    }
    for key in (0..30_u8).map(|key| vec![b'k', key]) {
        assert_eq!(tree.get_vec(&key).unwrap().as_ref(), pairs.get(&key), "{what} {key:?}");
        for one in seen {
            assert_eq!(
                one.snapshot.get_vec(tree, &key).unwrap().as_ref(),
                one.pairs.get(&key),
                "{what} {key:?} at {}",
                one.snapshot.seq()
            );
            let unchanged = tree.is_unchanged(&key, one.snapshot.seq()).unwrap();
            // A range deletion that hides nothing in tables is forgotten.
            let is_absent = !one.pairs.contains_key(&key) && !pairs.contains_key(&key);
            let is_forgotten = unchanged && is_absent && one.in_deleted.contains(&key);
            assert!(
                unchanged != one.written.contains(&key) || is_forgotten,
                "{what} {key:?} at {}: {unchanged}",
                one.snapshot.seq()
            );
        }
    }
}

/// Values, and when they expire.
type Timed = BTreeMap<Vec<u8>, (Vec<u8>, Option<u64>)>;

fn lives(until: Option<u64>, now: u64) -> bool {
    until.is_none_or(|until| now < until)
}

/// The pairs of `timed` that have not expired.
fn living(timed: &Timed, now: u64) -> Pairs {
    let living = timed.iter().filter(|(_, (_, until))| lives(*until, now));
    living.map(|(key, (value, _))| (key.clone(), value.clone())).collect()
}

/// A memtable that was cleaned reads like one that was not, at all times: for snapshots and transactions that began before,
/// with huge values, values that expire, operands over all of them and range deletions, over tables and memtables that have
/// older versions.
#[test]
fn a_cleaned_memtable_reads_the_same() {
    for seed in 0..60 {
        let mut rng = Rng::new(seed);
        let (db, clock) = opened_by_hand();
        let tree = db.tree("tree").unwrap();
        let (mut timed, mut seen, mut left_out) = (Timed::new(), Vec::<Seen>::new(), 0);
        // Few keys are written much.
        let keys = if seed % 2 == 0 { 30 } else { 5 };
        for step in 0..400 {
            let key = vec![b'k', rng.index(keys) as u8];
            let write = |seen: &mut Vec<Seen>, key: &[u8]| {
                for one in seen {
                    one.written.insert(key.to_vec());
                }
            };
            let now = clock.wall_us();
            let value = vec![step as u8; if rng.index(6) == 0 { 150 } else { 8 }];
            match rng.index(100) {
                0..15 => {
                    tree.put(&key, &value).unwrap();
                    write(&mut seen, &key);
                    timed.insert(key, (value, None));
                }
                15..30 => {
                    let after = rng.index(20) as u64;
                    tree.put_for(&key, &value, Duration::from_micros(after)).unwrap();
                    write(&mut seen, &key);
                    timed.insert(key, (value, Some(now + after)));
                }
                30..42 => {
                    tree.delete(&key).unwrap();
                    write(&mut seen, &key);
                    timed.remove(&key);
                }
                42..65 => {
                    let old = timed.get(&key).filter(|(_, until)| lives(*until, now)).cloned();
                    let number = old.as_ref().map_or(Some(0), |(old, _)| keys::decode_i64(old).ok());
                    let until = old.as_ref().and_then(|(_, until)| *until);
                    let new = if let Some(number) = number.filter(|_| rng.index(3) > 0) {
                        tree.merge(&key, ADD, keys::i64(3)).unwrap();
                        keys::i64(number.wrapping_add(3)).to_vec()
                    } else {
                        tree.merge(&key, APPEND, "+").unwrap();
                        [old.map(|(old, _)| old).unwrap_or_default(), b"+".to_vec()].concat()
                    };
                    write(&mut seen, &key);
                    timed.insert(key, (new, until));
                }
                65..69 => {
                    let upper = vec![b'k', key[1] + 1 + rng.index(5) as u8];
                    tree.delete_range(&key..&upper).unwrap();
                    for place in key[1]..upper[1] {
                        write(&mut seen, &[b'k', place]);
                        for one in &mut seen {
                            one.in_deleted.insert(vec![b'k', place]);
                        }
                    }
                    timed.retain(|one, _| *one < key || *one >= upper);
                }
                69..74 if seen.len() < 4 => {
                    let (snapshot, pairs) = (db.snapshot(), living(&timed, now));
                    let (written, in_deleted) = (BTreeSet::new(), BTreeSet::new());
                    seen.push(Seen { snapshot, pairs, written, in_deleted });
                }
                74..79 if !seen.is_empty() => drop(seen.swap_remove(rng.index(seen.len()))),
                79..82 => db.store().flusher().switch_memtable(tree.inner(), 0),
                82..84 => db.flush().unwrap(),
                84 => JobKind::ALL.iter().for_each(|job| while db.step(*job) {}),
                85..93 => {
                    clock.pass(1 + rng.index(6) as u64);
                    let pairs = living(&timed, clock.wall_us());
                    check(&tree, &pairs, &seen, &format!("seed {seed}, step {step}, later"));
                }
                _ => {
                    let before = entries(&tree);
                    clean(&db, &tree);
                    left_out += before - entries(&tree);
                    check(&tree, &living(&timed, now), &seen, &format!("seed {seed}, step {step}"));
                }
            }
        }
        assert!(left_out > 0, "the test is about nothing");
        drop(seen);
        let check = |what: &str| {
            check(&tree, &living(&timed, clock.wall_us()), &[], &format!("seed {seed}, {what}"));
        };
        db.flush().unwrap();
        check("flushed");
        clock.pass(3);
        check("later");
        db.compact().unwrap();
        JobKind::ALL.iter().for_each(|job| while db.step(*job) {});
        check("merged");
        clock.pass(30);
        db.compact().unwrap();
        JobKind::ALL.iter().for_each(|job| while db.step(*job) {});
        check("merged, later");
        let living = living(&timed, clock.wall_us());
        let huge = living.values().filter(|value| value.len() >= 100).count() as u64;
        assert_eq!(db.stats().unwrap().blob_values, huge, "seed {seed}: huge values are freed");
    }
}

/// An operand that comes while the memtable is copied, and is older than the expiry of the value below it, ends with that
/// value: the copy keeps when it expired.
#[test]
fn a_copy_says_when_values_expired_if_operands_come() {
    let (db, clock) = opened_by_hand();
    let (tree, flusher) = (db.tree("tree").unwrap(), db.store().flusher());
    let before = clock.wall_us();
    tree.put_for("k", "v", Duration::from_secs(5)).unwrap();
    tree.put_for("m", "v", Duration::from_secs(5)).unwrap();
    let mem = tree.inner().mem();
    // The copy begins here. This operand is not visible by then, but had read the clock.
    let points = ReadPoints { seqs: vec![mem.last_seq()], time_us: before + 7_000_000 };
    mem.table.begin_recent();
    tree.append("k", "a").unwrap();
    clock.pass(7_000_000);
    let copy = flusher.copy_of(tree.inner(), &mem, points).unwrap();
    assert_eq!(flusher.install_copy(tree.inner(), &mem, copy), Some(1));
    mem.table.end_recent();
    let copied = tree.inner().mem();
    let mut cursor = copied.table.cursor();
    cursor.seek_to_last().unwrap();
    let ended = (before + 5_000_000).to_le_bytes();
    assert_eq!((cursor.key(), cursor.kind(), cursor.value()), (&b"k"[..], Kind::Delete, &ended[..]));
    let read = || (tree.get_vec("k").unwrap(), tree.count(..).unwrap());
    assert_eq!(read(), (None, 0));
    // Another copy, or the flush, has both.
    tree.put("n", "").unwrap();
    clean(&db, &tree);
    assert_eq!((read(), entries(&tree)), ((None, 1), 1));
    tree.append("k", "b").unwrap();
    assert_eq!(read(), (Some(b"b".to_vec()), 2));
    db.compact().unwrap();
    assert_eq!(read(), (Some(b"b".to_vec()), 2));
}

/// Deleted keys leave no entry if nothing older has them. Otherwise their tombstones stay.
#[test]
fn tombstones_go_where_nothing_lies_below() {
    let db = opened();
    let tree = db.tree("tree").unwrap();
    let write = |keys: std::ops::Range<u32>, delete: bool| {
        for key in keys {
            let key = key.to_be_bytes();
            if delete { tree.delete(key).unwrap() } else { tree.put(key, "value").unwrap() }
        }
    };
    write(0..100, false);
    db.flush().unwrap();
    write(50..300, false);
    write(0..250, true);
    let snapshot = db.snapshot();
    write(250..260, true);
    clean(&db, &tree);
    // The tombstones of keys in the table, the pairs, and the tombstones that the snapshot does not see.
    assert_eq!(entries(&tree), 100 + 50 + 10);
    drop(snapshot);
    clean(&db, &tree);
    assert_eq!(entries(&tree), 100 + 40);
    assert_eq!(tree.count(..).unwrap(), 40);
}

/// Writers and readers continue while memtables are cleaned: no write is lost, and each thread reads its own writes.
#[test]
fn writes_go_on_while_a_memtable_is_cleaned() {
    let db = opened();
    let tree = db.tree("tree").unwrap();
    let (is_over, rounds) = (AtomicBool::new(false), if cfg!(miri) { 50 } else { 6000 });
    let expected: Pairs = std::thread::scope(|scope| {
        let writers: Vec<_> = (0..3_u8)
            .map(|writer| {
                let tree = &tree;
                scope.spawn(move || {
                    let (mut rng, mut own) = (Rng::new(u64::from(writer)), Pairs::new());
                    for round in 0..rounds {
                        let key = vec![writer, rng.index(50) as u8];
                        if rng.index(3) == 0 {
                            tree.delete(&key).unwrap();
                            own.remove(&key);
                        } else {
                            let value = format!("{round}").into_bytes();
                            tree.put(&key, &value).unwrap();
                            own.insert(key.clone(), value);
                        }
                        assert_eq!(tree.get_vec(&key).unwrap().as_ref(), own.get(&key));
                        if round % 64 == 0 {
                            let found = tree.scan(ScanRange::prefix([writer])).unwrap();
                            let found: Pairs = found.map(Result::unwrap).collect();
                            assert_eq!(found, own);
                        }
                    }
                    own
                })
            })
            .collect();
        let cleaner = scope.spawn(|| {
            let mut count = 0;
            while !is_over.load(Ordering::Relaxed) {
                clean(&db, &tree);
                count += 1;
            }
            count
        });
        // The cleaner ends also if a writer has failed.
        let written: Vec<_> = writers.into_iter().map(std::thread::ScopedJoinHandle::join).collect();
        is_over.store(true, Ordering::Relaxed);
        assert!(cleaner.join().unwrap() > 3);
        written.into_iter().flat_map(Result::unwrap).collect()
    });
    clean(&db, &tree);
    assert_eq!(tree.scan(..).unwrap().map(Result::unwrap).collect::<Pairs>(), expected);
    assert_eq!(entries(&tree), expected.len());
}

/// Like a sorted set whose upper ranks are removed again and again: a walk from the end passes few dead entries,
/// however many there were.
#[test]
fn walks_that_pass_dead_entries_have_them_cleaned() {
    let db = opened();
    let tree = db.tree("tree").unwrap();
    let mut passed = Vec::new();
    for round in 0..20_000_u32 {
        tree.put(round.to_be_bytes(), "member").unwrap();
        if round >= 500 {
            tree.delete((round - 500).to_be_bytes()).unwrap();
        }
        let mut scan = tree.scan(..).unwrap();
        assert!(scan.advance().unwrap());
        passed.push(scan.passed());
        drop(scan);
        while db.step(JobKind::Flush) {}
    }
    let most = passed.iter().max();
    assert!(most < Some(&2000), "{most:?} entries passed");
    assert!(entries(&tree) < 2000);
}

/// A tree in memory whose background work the test does step by step.
fn stepped_tree(memtable_bytes: usize) -> (Db, Tree) {
    let env = Env { executor: Some(Arc::new(StepExecutor)), ..Env::system() };
    let mut options = Options::default().env(env);
    options.memtable_bytes = Some(memtable_bytes);
    let db = Db::open_in_memory(options).unwrap();
    let tree = db.tree("tree").unwrap();
    (db, tree)
}

#[test]
fn a_flush_ends_tables_where_its_keys_lie_far_apart() {
    let (_db, tree) = stepped_tree(256 << 10);
    let key = |number: u64| keys::u64(number);
    let row = [7; 1000];
    // Four tables of 1 MB in the bottom level.
    for begin in [10_000, 12_000, 14_000, 16_000] {
        (begin..begin + 1000).for_each(|number| tree.put(key(number), row).unwrap());
        tree.flush().unwrap();
    }
    let flushed = |written: &[u64]| {
        written.iter().for_each(|&number| tree.put(key(number), row).unwrap());
        tree.flush().unwrap();
        let state = tree.inner().state.load();
        let newest = state.levels.level(0).iter().map(|table| table.info.max_seq).max().unwrap();
        let of_flush =
            state.levels.level(0).iter().filter(|table| table.info.min_seq + written.len() as u64 > newest);
        let mut bounds: Vec<_> = of_flush
            .map(|table| {
                [&table.info.smallest, &table.info.largest].map(|key| keys::decode_u64(key).unwrap())
            })
            .collect();
        bounds.sort_unstable();
        bounds
    };
    // A queue: between its ends lie all four, the last three, or the first three tables, or most of the last two.
    assert_eq!(flushed(&[20_001, 10_000, 20_000, 10_001]), [[10_000, 10_001], [20_000, 20_001]]);
    assert_eq!(flushed(&[10_999, 20_000]), [[10_999, 10_999], [20_000, 20_000]]);
    assert_eq!(flushed(&[16_000, 1, 2]), [[1, 2], [16_000, 16_000]]);
    assert_eq!(flushed(&[14_300, 16_900]), [[14_300, 14_300], [16_900, 16_900]]);
    // Ends at three places, of which one lies between tables.
    assert_eq!(flushed(&[10_000, 13_500, 17_500]), [[10_000, 10_000], [13_500, 13_500], [17_500, 17_500]]);
    // Too little lies between these.
    assert_eq!(flushed(&[13_500, 14_900]), [[13_500, 14_900]]);
    assert_eq!(flushed(&[10_500, 12_300]), [[10_500, 12_300]]);
    // These lie all over the tree.
    assert_eq!(flushed(&[9_000, 11_500, 13_500, 15_500, 17_500]), [[9_000, 17_500]]);
    for number in [9_000, 10_001, 10_999, 11_500, 13_500, 16_000, 17_500, 20_001] {
        assert_eq!(tree.get_vec(key(number)).unwrap().as_deref(), Some(&row[..]), "{number}");
    }
}

#[test]
fn a_queue_is_not_rewritten_from_end_to_end() {
    // Tables of a memtable are not small. Therefore they are not merged for their size.
    let (db, tree) = stepped_tree(1 << 20);
    let long = 16_000;
    for number in 0..3 * long {
        tree.put(keys::u64(number), [7; 1000]).unwrap();
        if number >= long {
            tree.delete(keys::u64(number - long)).unwrap();
        }
        JobKind::ALL.iter().for_each(|job| while db.step(*job) {});
    }
    let stats = db.stats().unwrap();
    let (merged, flushed) = (stats.merged_bytes_in + stats.merged_bytes_out, stats.flushed_bytes);
    assert!(merged < 2 * flushed, "{merged} bytes were merged, {flushed} flushed");
    assert_eq!(tree.count(..).unwrap(), long);
}

#[test]
fn level_0_is_merged_when_it_has_four_flushes_however_many_tables_they_have() {
    let (db, tree) = stepped_tree(1 << 20);
    // In a table of these, the first key of each flush has much before it.
    (0..4000).for_each(|number| tree.put(keys::u64(number), [7; 1000]).unwrap());
    db.compact().unwrap();
    // Each flush has one memtable, so its table goes to the bottom level. It is not small.
    for begin in (10_000..17_000).step_by(300).filter(|begin| begin / 1000 % 2 == 0) {
        (begin..begin + 300).for_each(|number| tree.put(keys::u64(number), [7; 1000]).unwrap());
        tree.flush().unwrap();
    }
    assert_eq!(tree.inner().state.load().levels.level(0).len(), 0);
    let places = [2000, 12_200, 14_600, 16_800];
    let in_turn: Vec<u64> = (0..3).flat_map(|at| places.map(|place| place + at)).collect();
    let one_after_another: Vec<u64> = places.iter().flat_map(|place| *place..place + 3).collect();
    for (written, held) in [(&one_after_another, false), (&in_turn, true)] {
        let snapshot = held.then(|| db.snapshot());
        for flushes in [1, 2, 3, 0] {
            written.iter().for_each(|&number| tree.put(keys::u64(number), [8; 1000]).unwrap());
            tree.flush().unwrap();
            while db.step(JobKind::Compact) {}
            assert_eq!(tree.inner().state.load().levels.level(0).len(), 4 * flushes, "held: {held}");
        }
        drop(snapshot);
    }
}

#[test]
#[expect(clippy::disallowed_methods, reason = "the test damages a table on the system's disk")]
fn a_table_that_cannot_be_read_does_not_end_a_flush() {
    let dir = tempfile::tempdir().unwrap();
    let options = || Options { memtable_bytes: Some(256 << 10), ..Options::default() };
    let db = Db::open(dir.path().join("store"), options()).unwrap();
    (0..2000).for_each(|number| db.put(keys::u64(number), [7; 1000]).unwrap());
    db.compact().unwrap();
    let tables = db.default_tree().inner().state.load().levels.level(6).to_vec();
    db.close().unwrap();
    for table in tables {
        let path = crate::version::tables::table_path(&dir.path().join("store"), table.info.file);
        let mut bytes = std::fs::read(&path).unwrap();
        // The index and what follows it.
        let begin = bytes.len() - 2000;
        bytes[begin..].fill(0xff);
        std::fs::write(&path, bytes).unwrap();
    }
    let db = Db::open(dir.path().join("store"), options()).unwrap();
    [100, 1900].iter().for_each(|&number| db.put(keys::u64(number), [8; 1000]).unwrap());
    db.flush().unwrap();
    assert_eq!(db.get_vec(keys::u64(1900)).unwrap().as_deref(), Some(&[8; 1000][..]));
}
