//! Threads of callers and the store's own at once, bounded by operations: what must hold at every moment
//! is looked at all the time, through snapshots, scans and single reads.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::scope;

use esker::fs::sim::SimFs;
use esker::{Batch, Db, Options, ScanRange, Tree};

use crate::common::{Rng, cases, seed, tiny_options, world};

const ACCOUNTS: u32 = 200;
const START: u64 = 1_000;
const WRITERS: u64 = 3;

/// Operations of each writer by default, in the share that is asked of the whole binary.
fn rounds(default: u64) -> u64 {
    (default * cases(crate::OPS) / crate::OPS).max(100)
}

fn options(seed: u64) -> Options {
    let disk = SimFs::new(seed);
    disk.set_writeback(0.0);
    let mut options = tiny_options(&mut Rng::new(seed), world(Arc::new(disk), seed, None));
    options.memtable_bytes = Some(8 << 10);
    // With a file for each value, each put would list thousands of files. `tiny_budgets_threads` draws such options too.
    options.blob_file_bytes = options.blob_file_bytes.max(20_000);
    options
}

fn account(number: u32) -> [u8; 8] {
    let mut key = *b"acct\0\0\0\0";
    key[4..].copy_from_slice(&number.to_be_bytes());
    key
}

fn number(bytes: &[u8]) -> u64 {
    u64::from_le_bytes(bytes[..8].try_into().expect("eight bytes"))
}

/// Sets a flag when dropped, so that a thread that panics ends those that wait for it too.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Moves money between accounts of two trees, in batches: `rounds` times at least, and until `may_end`.
fn transfer(
    db: &Db,
    trees: &[Tree; 2],
    locks: &[std::sync::Mutex<()>],
    rng: &mut Rng,
    (rounds, may_end): (u64, &AtomicBool),
) {
    let mut batch = Batch::new();
    for round in 1.. {
        if round > rounds && may_end.load(Ordering::Relaxed) {
            break;
        }
        let (from, to) = (rng.index(ACCOUNTS as usize) as u32, rng.index(ACCOUNTS as usize) as u32);
        if from == to {
            continue;
        }
        // Accounts are locked in order, as who does without transactions would.
        let guards = (
            locks[from.min(to) as usize].lock().expect("no panic"),
            locks[from.max(to) as usize].lock().expect("no panic"),
        );
        let read = |n: u32| number(&trees[n as usize % 2].get_vec(account(n)).unwrap().expect("an account"));
        let (a, b) = (read(from), read(to));
        let amount = a.min(rng.below(50));
        batch.clear();
        batch.put(&trees[from as usize % 2], account(from), padded(a - amount, round)).unwrap();
        batch.put(&trees[to as usize % 2], account(to), padded(b + amount, round)).unwrap();
        db.write(&batch).unwrap();
        drop(guards);
    }
}

fn padded(amount: u64, round: u64) -> Vec<u8> {
    let mut value = amount.to_le_bytes().to_vec();
    value.resize(8 + (round % 90) as usize, round as u8);
    value
}

fn total(db: &Db, trees: &[Tree; 2], reverse: bool) -> (u64, u32) {
    let snapshot = db.snapshot();
    let mut sum = (0, 0);
    for tree in trees {
        let range = if reverse { ScanRange::prefix("acct").reverse() } else { ScanRange::prefix("acct") };
        let mut scan = snapshot.scan(tree, range).unwrap();
        while scan.advance().unwrap() {
            sum = (sum.0 + number(scan.value().unwrap()), sum.1 + 1);
        }
    }
    sum
}

#[test]
fn a_snapshot_sees_whole_batches_only() {
    let seed = seed(0xacc0);
    eprintln!("ESKER_SEED={seed}");
    let db = Db::open("/store", options(seed)).unwrap();
    let trees = [db.tree("even").unwrap(), db.tree("odd").unwrap()];
    let mut batch = Batch::new();
    for n in 0..ACCOUNTS {
        batch.put(&trees[n as usize % 2], account(n), START.to_le_bytes()).unwrap();
    }
    db.write(&batch).unwrap();
    let locks: Vec<std::sync::Mutex<()>> = (0..ACCOUNTS).map(|_| std::sync::Mutex::new(())).collect();
    let (ended, administered) = (AtomicBool::new(false), AtomicBool::new(false));
    let looks = AtomicU64::new(0);
    scope(|scope| {
        let (db, trees, locks, ended, looks) = (&db, &trees, &locks, &ended, &looks);
        let administered = &administered;
        for reader in 0..2 {
            scope.spawn(move || {
                while !ended.load(Ordering::Relaxed) {
                    let look = looks.fetch_add(1, Ordering::Relaxed);
                    let expected = (u64::from(ACCOUNTS) * START, ACCOUNTS);
                    assert_eq!(total(db, trees, look % 2 == reader), expected, "look {look}");
                }
            });
        }
        scope.spawn(move || {
            let _ends = Ends(ended);
            std::thread::scope(|writers| {
                for writer in 0..WRITERS {
                    let mut rng = Rng::new(seed + writer);
                    writers
                        .spawn(move || transfer(db, trees, locks, &mut rng, (rounds(20_000), administered)));
                }
                writers.spawn(move || {
                    let _ends = Ends(administered);
                    for i in 0.. {
                        // The store is at work for as long as writers are.
                        if i >= rounds(60) && db.stats().unwrap().flushes > 5 {
                            break;
                        }
                        if i % 3 == 0 { db.compact().unwrap() } else { db.flush().unwrap() }
                    }
                });
            });
        });
    });
    assert_eq!(total(&db, &trees, false), (u64::from(ACCOUNTS) * START, ACCOUNTS));
    db.close().unwrap();
}

#[test]
fn no_update_and_no_swap_is_lost() {
    let seed = seed(0xcafe);
    eprintln!("ESKER_SEED={seed}");
    let db = Db::open("/store", options(seed)).unwrap();
    let tree = db.tree("counters").unwrap();
    let rounds = rounds(20_000);
    let (swapped, ended) = (AtomicU64::new(0), AtomicBool::new(false));
    scope(|scope| {
        let (db, tree, swapped, ended) = (&db, &tree, &swapped, &ended);
        scope.spawn(move || {
            let mut last = [0; 2];
            while !ended.load(Ordering::Relaxed) {
                for (key, last) in ["updated", "swapped"].iter().zip(&mut last) {
                    let now = tree.get_vec(key).unwrap().map_or(0, |value| number(&value));
                    assert!(now >= *last, "{key} went back from {last} to {now}");
                    *last = now;
                }
            }
        });
        scope.spawn(move || {
            let _ends = Ends(ended);
            std::thread::scope(|writers| {
                for writer in 0..WRITERS {
                    let mut rng = Rng::new(seed + writer);
                    writers.spawn(move || {
                        for _ in 0..rounds {
                            let one_more =
                                |old: Option<&[u8]>| Some((old.map_or(0, number) + 1).to_le_bytes().to_vec());
                            tree.update("updated", one_more).unwrap();
                            let old = tree.get_vec("swapped").unwrap();
                            let new = old.as_deref().map_or(0, number) + 1;
                            let new = new.to_le_bytes();
                            if tree.compare_and_swap("swapped", old.as_deref(), Some(&new)).unwrap().is_done()
                            {
                                swapped.fetch_add(1, Ordering::Relaxed);
                            }
                            // Company, so that memtables fill and tables are merged.
                            let company = [&b"company"[..], &[rng.index(250) as u8]].concat();
                            db.put(&company, vec![1; rng.index(60)]).unwrap();
                            tree.put(&company, "").unwrap();
                        }
                    });
                }
            });
        });
    });
    assert_eq!(tree.get_vec("updated").unwrap().map(|value| number(&value)), Some(WRITERS * rounds));
    let swaps = tree.get_vec("swapped").unwrap().map_or(0, |value| number(&value));
    assert_eq!(swaps, swapped.load(Ordering::Relaxed));
    db.close().unwrap();
}

/// Threads push and pop at both ends. Each pair comes out once.
#[test]
fn what_is_popped_is_popped_once() {
    let seed = seed(0x909);
    eprintln!("ESKER_SEED={seed}");
    let db = Db::open("/store", options(seed)).unwrap();
    let tree = db.tree("queue").unwrap();
    let rounds = rounds(1_000);
    let popped: Vec<Vec<u8>> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..WRITERS)
            .map(|writer| {
                let tree = &tree;
                scope.spawn(move || {
                    let (mut rng, mut popped) = (Rng::new(seed + writer), Vec::new());
                    for round in 0..rounds {
                        let key = [round.to_be_bytes(), writer.to_be_bytes()].concat();
                        tree.put(&key, &key).unwrap();
                        let pair = if rng.one_in(2) { tree.pop_first() } else { tree.pop_last() };
                        if let Some((key, value)) = pair.unwrap() {
                            assert_eq!(value.bytes().unwrap()[..], key[..]);
                            popped.push(key);
                        }
                    }
                    popped
                })
            })
            .collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    let mut all = popped;
    while let Some((key, _)) = tree.pop_first().unwrap() {
        all.push(key);
    }
    all.sort();
    let mut pushed: Vec<Vec<u8>> = (0..rounds)
        .flat_map(|round| {
            (0..WRITERS).map(move |writer| [round.to_be_bytes(), writer.to_be_bytes()].concat())
        })
        .collect();
    pushed.sort();
    assert_eq!(all.len(), pushed.len());
    assert!(all == pushed);
    assert!(tree.is_empty().unwrap());
    db.close().unwrap();
}

/// Each writer owns a range of keys, and knows at any time what it must find there; ranges are disjoint, so
/// that flushes put tables below level 0 while merges are at work beside them.
#[test]
fn writers_of_disjoint_ranges_find_all_they_wrote() {
    let seed = seed(0xd15c);
    eprintln!("ESKER_SEED={seed}");
    let db = Db::open("/store", options(seed)).unwrap();
    let tree = db.tree("ranges").unwrap();
    scope(|scope| {
        for writer in 0..WRITERS {
            let (db, tree) = (&db, &tree);
            scope.spawn(move || {
                let mut rng = Rng::new(seed + writer);
                let mut mine = std::collections::BTreeMap::new();
                let prefix = [b'a' + writer as u8];
                for round in 0..rounds(15_000) {
                    // Ranges of their own for a while, so that new tables meet none.
                    let key =
                        [&prefix[..], &((round / 300) as u16).to_be_bytes(), &[rng.index(90) as u8]].concat();
                    if rng.percent(25) {
                        tree.delete(&key).unwrap();
                        mine.remove(&key);
                    } else {
                        let value = vec![round as u8; rng.index(100)];
                        tree.put(&key, &value).unwrap();
                        mine.insert(key, value);
                    }
                    if rng.percent(1) && round % 10 == 0 {
                        let tree = db.tree(&format!("passing {writer}")).unwrap();
                        tree.put("k", "v").unwrap();
                        db.drop_tree(tree.name()).unwrap();
                    }
                    if rng.index(200) == 0 {
                        let found = tree.scan(ScanRange::prefix(prefix)).unwrap().map(Result::unwrap);
                        assert!(found.eq(mine.clone()), "writer {writer}, round {round}, forward");
                        let range = ScanRange::prefix(prefix).reverse();
                        let found = tree.scan(range).unwrap().map(Result::unwrap);
                        assert!(
                            found.eq(mine.clone().into_iter().rev()),
                            "writer {writer}, round {round}, backward"
                        );
                    }
                }
            });
        }
    });
    db.compact().unwrap();
    let stats = db.stats().unwrap();
    assert_eq!(stats.failure, None);
    db.close().unwrap();
}
