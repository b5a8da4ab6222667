use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::*;
use crate::db::Db;
use crate::env::{Clock, Env, StepExecutor};
use crate::options::Options;
use crate::read::range::ScanRange;
use crate::write::batch::Batch;

mod checker;
mod expiring;
mod histories;
mod model;

const MODES: [TxnMode; 2] = [TxnMode::Optimistic, TxnMode::Pessimistic];
const LEVELS: [Isolation; 2] = [Isolation::Snapshot, Isolation::Serializable];

/// A clock that moves only when a thread waits, and then without a delay.
#[derive(Debug, Default)]
struct ManualClock(AtomicU64);

impl Clock for ManualClock {
    fn wall_us(&self) -> u64 {
        self.monotonic_us()
    }

    fn monotonic_us(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    fn sleep(&self, duration: Duration) {
        self.0.fetch_add(duration.as_micros() as u64, Ordering::Relaxed);
    }
}

/// A store in memory in which nothing happens automatically, not even the passing of time.
fn still_store() -> Db {
    still_store_and_clock().0
}

fn still_store_and_clock() -> (Db, Arc<ManualClock>) {
    let clock = Arc::new(ManualClock::default());
    let env = Env {
        clock: Arc::<ManualClock>::clone(&clock),
        executor: Some(Arc::new(StepExecutor)),
        ..Env::system()
    };
    (Db::open_in_memory(Options::default().memory_budget(8 << 20).env(env)).unwrap(), clock)
}

fn options(mode: TxnMode, isolation: Isolation) -> TxnOptions {
    TxnOptions::default().mode(mode).isolation(isolation)
}

fn get(txn: &Txn, tree: &Tree, key: &str) -> Option<String> {
    txn.get_vec(tree, key).unwrap().map(|value| String::from_utf8(value).unwrap())
}

fn pairs(scan: TxnScan<'_>) -> String {
    let shown = |pair: Result<(Vec<u8>, Vec<u8>)>| {
        let (key, value) = pair.unwrap();
        format!("{}={}", key.escape_ascii(), value.escape_ascii())
    };
    scan.map(shown).collect::<Vec<_>>().join(" ")
}

fn outcome(result: Result<()>) -> &'static str {
    match result.map_err(|error| error.kind()) {
        Ok(()) => "done",
        Err(ErrorKind::Conflict) => "conflict",
        Err(kind) => panic!("{kind:?}"),
    }
}

const fn goes_to_another_thread<T: Send>() {}
const _: () = goes_to_another_thread::<Txn>();

#[test]
fn a_transaction_sees_its_moment_and_its_own_writes_and_others_see_all_of_it_or_nothing() {
    for mode in MODES {
        let db = still_store();
        let (a, b) = (db.tree("a").unwrap(), db.tree("b").unwrap());
        a.put("old", "1").unwrap();
        a.put("gone", "1").unwrap();
        let txn = db.begin(options(mode, Isolation::Snapshot)).unwrap();
        assert_eq!(get(&txn, &a, "old").as_deref(), Some("1"));
        a.put("old", "2").unwrap();
        a.put("late", "2").unwrap();
        txn.delete(&a, "gone").unwrap();
        txn.put(&a, "new", "3").unwrap();
        txn.put(&b, "new", "3").unwrap();
        assert_eq!(get(&txn, &a, "old").as_deref(), Some("1"));
        assert_eq!(get(&txn, &a, "gone"), None);
        assert_eq!(pairs(txn.scan(&a, ScanRange::all()).unwrap()), "new=3 old=1");
        assert_eq!(pairs(txn.scan(&a, ScanRange::all().reverse()).unwrap()), "old=1 new=3");
        assert_eq!(pairs(txn.scan(&b, ScanRange::all().keys_only()).unwrap()), "new=");
        assert!(!a.contains("new").unwrap());
        txn.commit().unwrap();
        assert!(a.contains("new").unwrap() && b.contains("new").unwrap() && !a.contains("gone").unwrap());
        let dropped = db.begin(options(mode, Isolation::Snapshot)).unwrap();
        dropped.put(&a, "never", "4").unwrap();
        dropped.rollback();
        assert!(!a.contains("never").unwrap());
    }
}

#[test]
fn write_skew_passes_under_snapshot_isolation_and_not_serializable_nor_for_update() {
    let run = |isolation, for_update: bool| {
        let db = still_store();
        let tree = db.default_tree();
        let begin = || db.begin(options(TxnMode::Optimistic, isolation)).unwrap();
        let (one, two) = (begin(), begin());
        let read = |txn: &Txn, key: &str| {
            let found = if for_update { txn.get_for_update(tree, key) } else { txn.get(tree, key) };
            assert!(found.unwrap().is_none());
        };
        read(&one, "x");
        read(&two, "y");
        one.put(tree, "y", "1").unwrap();
        two.put(tree, "x", "2").unwrap();
        one.commit().unwrap();
        outcome(two.commit())
    };
    assert_eq!(run(Isolation::Snapshot, false), "done");
    assert_eq!(run(Isolation::Snapshot, true), "conflict");
    assert_eq!(run(Isolation::Serializable, false), "conflict");
    assert_eq!(run(Isolation::Serializable, true), "conflict");
}

#[test]
fn the_first_committer_wins_under_snapshot_isolation_and_blind_writes_pass_serializable() {
    for (isolation, expected) in [(Isolation::Snapshot, "conflict"), (Isolation::Serializable, "done")] {
        let db = still_store();
        let tree = db.default_tree();
        let txn = db.begin(options(TxnMode::Optimistic, isolation)).unwrap();
        txn.put(tree, "x", "1").unwrap();
        db.put("x", "2").unwrap();
        let committed = txn.commit();
        if let Err(error) = &committed {
            assert!(error.message().contains("\"x\"") && error.message().contains("\"default\""), "{error}");
        }
        assert_eq!(outcome(committed), expected);
    }
}

/// Which writes conflict with which reads, wherever the newer version is stored.
#[test]
fn a_read_of_any_kind_is_validated_wherever_the_newer_version_lies() {
    type Read = fn(&Txn, &Tree);
    let reads: [(&str, Read); 6] = [
        ("key", |txn, tree| drop(txn.get(tree, "k5").unwrap())),
        ("absent key", |txn, tree| assert!(txn.get(tree, "k6").unwrap().is_none())),
        ("range", |txn, tree| assert_eq!(txn.scan(tree, ScanRange::prefix("k")).unwrap().count(), 3)),
        ("empty range", |txn, tree| {
            assert_eq!(txn.scan(tree, "k6".."k7").unwrap().count(), 0);
        }),
        ("begun range", |txn, tree| {
            let mut scan = txn.scan(tree, ScanRange::prefix("k")).unwrap();
            assert!(scan.advance().unwrap() && scan.advance().unwrap());
            assert_eq!(scan.key(), b"k5");
        }),
        ("begun reverse range", |txn, tree| {
            let mut scan = txn.scan(tree, ScanRange::prefix("k").reverse()).unwrap();
            assert!(scan.advance().unwrap() && scan.advance().unwrap());
            assert_eq!(scan.key(), b"k5");
        }),
    ];
    // The write, its changes, and which of the reads above it conflicts with.
    let writes: [(&str, Option<&str>, [bool; 6]); 6] = [
        ("k1", Some("2"), [false, false, true, false, true, false]),
        ("k5", Some("2"), [true, false, true, false, true, true]),
        ("k5", None, [true, false, true, false, true, true]),
        ("k6", Some("2"), [false, true, true, true, false, true]),
        ("k9", None, [false, false, true, false, false, true]),
        ("j", Some("2"), [false; 6]),
    ];
    for mode in MODES {
        for (key, value, conflicts) in writes {
            for ((name, read), conflict) in reads.into_iter().zip(conflicts) {
                for after in ["nothing", "flush", "merge"] {
                    let db = still_store();
                    let tree = db.default_tree();
                    ["k1", "k5", "k9"].into_iter().for_each(|key| db.put(key, "1").unwrap());
                    db.compact().unwrap();
                    let txn = db.begin(options(mode, Isolation::Serializable)).unwrap();
                    read(&txn, tree);
                    match value {
                        Some(value) => db.put(key, value).unwrap(),
                        None => db.delete(key).unwrap(),
                    }
                    txn.put(tree, "result", "1").unwrap();
                    match after {
                        "flush" => db.flush().unwrap(),
                        "merge" => db.compact().unwrap(),
                        _ => {}
                    }
                    let expected = if conflict { "conflict" } else { "done" };
                    assert_eq!(outcome(txn.commit()), expected, "{mode:?}: {name}, {key} {value:?}, {after}");
                }
            }
        }
    }
}

#[test]
fn a_range_that_is_read_for_update_holds_off_phantoms_under_snapshot_isolation() {
    for for_update in [false, true] {
        let db = still_store();
        let tree = db.default_tree();
        let txn = db.begin(options(TxnMode::Optimistic, Isolation::Snapshot)).unwrap();
        let range = ScanRange::prefix("k");
        let scan = if for_update { txn.scan_for_update(tree, range) } else { txn.scan(tree, range) };
        assert_eq!(scan.unwrap().count(), 0);
        db.put("k1", "phantom").unwrap();
        txn.put(tree, "none found", "").unwrap();
        assert_eq!(outcome(txn.commit()), if for_update { "conflict" } else { "done" });
    }
}

#[test]
fn who_only_reads_sees_one_moment_and_commits() {
    for isolation in LEVELS {
        let db = still_store();
        let tree = db.default_tree();
        let txn = db.begin(options(TxnMode::Optimistic, isolation)).unwrap();
        assert_eq!(get(&txn, tree, "x"), None);
        let mut batch = Batch::new();
        batch.put(tree, "x", "1").unwrap();
        batch.put(tree, "y", "1").unwrap();
        db.write(&batch).unwrap();
        assert_eq!(get(&txn, tree, "y"), None);
        txn.commit().unwrap();
    }
    // A transaction that reads the newest value each time must not return a value that never was.
    let db = still_store();
    let tree = db.default_tree();
    let txn = db.begin(options(TxnMode::Pessimistic, Isolation::Serializable)).unwrap();
    assert_eq!(get(&txn, tree, "x"), None);
    db.put("x", "1").unwrap();
    assert_eq!(outcome(txn.commit()), "conflict");
}

#[test]
fn a_lock_that_cannot_be_had_times_out_by_the_clock_and_the_rest_stays() {
    let db = still_store();
    let tree = db.default_tree();
    for isolation in LEVELS {
        let begin = || {
            let options = options(TxnMode::Pessimistic, isolation).lock_timeout(Duration::from_secs(3600));
            db.begin(options).unwrap()
        };
        let (one, two) = (begin(), begin());
        one.put(tree, "x", "1").unwrap();
        two.put(tree, "y", "2").unwrap();
        let late = two.put(tree, "x", "2").unwrap_err();
        assert_eq!(late.kind(), ErrorKind::LockTimeout);
        assert!(late.message().contains("\"x\"") && late.message().contains("3600000 ms"), "{late}");
        two.commit().unwrap();
        one.commit().unwrap();
        assert_eq!(db.get_vec("x").unwrap().as_deref(), Some(&b"1"[..]));
        assert_eq!(db.get_vec("y").unwrap().as_deref(), Some(&b"2"[..]));
        // No transaction still has a lock.
        let last = begin();
        last.scan_for_update(tree, ScanRange::all()).unwrap();
    }
}

#[test]
fn a_pessimistic_transaction_reads_after_its_lock() {
    for isolation in LEVELS {
        let db = still_store();
        let tree = db.default_tree();
        let txn = db.begin(options(TxnMode::Pessimistic, isolation)).unwrap();
        db.put("x", "1").unwrap();
        let found = txn.get_for_update(tree, "x").unwrap().unwrap().into_vec().unwrap();
        assert_eq!(found, b"1");
        txn.put(tree, "x", "2").unwrap();
        txn.commit().unwrap();
        // Under snapshot isolation the first read fixes the moment.
        let txn = db.begin(options(TxnMode::Pessimistic, isolation)).unwrap();
        assert_eq!(get(&txn, tree, "y"), None);
        db.put("x", "3").unwrap();
        match isolation {
            Isolation::Serializable => assert!(txn.get_for_update(tree, "x").is_ok()),
            Isolation::Snapshot => {
                assert_eq!(txn.get_for_update(tree, "x").unwrap_err().kind(), ErrorKind::Conflict);
                assert_eq!(txn.put(tree, "x", "4").unwrap_err().kind(), ErrorKind::Conflict);
            }
        }
    }
}

#[test]
fn savepoints_undo_writes_and_nothing_else() {
    let db = still_store();
    let tree = db.default_tree();
    db.put("a", "0").unwrap();
    let txn = db.begin(TxnOptions::default()).unwrap();
    txn.put(tree, "a", "1").unwrap();
    let first = txn.savepoint();
    txn.put(tree, "a", "2").unwrap();
    txn.put(tree, "b", "2").unwrap();
    let second = txn.savepoint();
    txn.delete(tree, "a").unwrap();
    txn.rollback_to(second).unwrap();
    assert_eq!(pairs(txn.scan(tree, ScanRange::all()).unwrap()), "a=2 b=2");
    txn.rollback_to(first).unwrap();
    assert_eq!(get(&txn, tree, "a").as_deref(), Some("1"));
    assert_eq!(txn.rollback_to(second).unwrap_err().kind(), ErrorKind::InvalidInput);
    txn.put(tree, "c", "3").unwrap();
    txn.rollback_to(first).unwrap();
    let other = db.begin(TxnOptions::default()).unwrap();
    assert_eq!(other.rollback_to(first).unwrap_err().kind(), ErrorKind::InvalidInput);
    txn.commit().unwrap();
    assert_eq!(db.scan(ScanRange::all()).unwrap().count(), 1);
    assert_eq!(db.get_vec("a").unwrap().as_deref(), Some(&b"1"[..]));
    // Reads before the rollback still count as reads.
    let txn = db.begin(TxnOptions::default()).unwrap();
    let start = txn.savepoint();
    assert_eq!(get(&txn, tree, "b"), None);
    txn.rollback_to(start).unwrap();
    db.put("b", "4").unwrap();
    txn.put(tree, "seen", "nothing").unwrap();
    assert_eq!(outcome(txn.commit()), "conflict");
}

#[test]
fn a_scan_keeps_to_what_it_began_with_while_the_transaction_writes() {
    for reverse in [false, true] {
        let db = still_store();
        let tree = db.default_tree();
        ["a", "c", "e"].into_iter().for_each(|key| db.put(key, "0").unwrap());
        let txn = db.begin(TxnOptions::default()).unwrap();
        txn.put(tree, "b", "1").unwrap();
        txn.delete(tree, "c").unwrap();
        let range = if reverse { ScanRange::all().reverse() } else { ScanRange::all() };
        let mut seen = Vec::new();
        let mut scan = txn.scan(tree, range).unwrap();
        while scan.advance().unwrap() {
            let key = scan.key().to_vec();
            txn.put(tree, [&key[..], b"!"].concat(), "2").unwrap();
            txn.delete(tree, &key).unwrap();
            seen.extend(key);
        }
        drop(scan);
        assert_eq!(seen, if reverse { b"eba" } else { b"abe" });
        txn.commit().unwrap();
        let left: Vec<u8> = tree.scan(ScanRange::all()).unwrap().flat_map(|pair| pair.unwrap().0).collect();
        assert_eq!(left, b"a!b!e!");
    }
}

#[test]
fn huge_values_go_with_the_transaction() {
    let db = still_store();
    let tree = db.default_tree();
    let huge = vec![7; 100_000];
    db.put("old", &huge).unwrap();
    let txn = db.begin(TxnOptions::default()).unwrap();
    txn.put(tree, "new", &huge).unwrap();
    assert_eq!(txn.get_vec(tree, "new").unwrap().as_ref(), Some(&huge));
    assert_eq!(txn.get_vec(tree, "old").unwrap().as_ref(), Some(&huge));
    let mut scan = txn.scan(tree, ScanRange::all()).unwrap();
    while scan.advance().unwrap() {
        assert_eq!(scan.handle().unwrap().into_vec().unwrap(), huge);
        assert_eq!(scan.value().unwrap(), huge);
    }
    drop(scan);
    txn.commit().unwrap();
    assert_eq!(tree.get_vec("new").unwrap().as_ref(), Some(&huge));
    let txn = db.begin(TxnOptions::default()).unwrap();
    assert!(txn.get(tree, "old").unwrap().is_some());
    txn.put(tree, "third", &huge).unwrap();
    db.delete("old").unwrap();
    assert_eq!(outcome(txn.commit()), "conflict");
    assert!(!tree.contains("third").unwrap());
}

#[test]
fn transact_tries_again_as_often_as_it_says() {
    let db = still_store();
    let tree = db.default_tree();
    let mut tries = 0;
    let mut interfering = |times: u32| {
        tries = 0;
        let done = db.transact(TxnOptions::default(), |txn| -> crate::error::Result<_> {
            let found = get(txn, tree, "x");
            tries += 1;
            if tries <= times {
                db.put("x", "other").unwrap();
            }
            txn.put(tree, "y", "1")?;
            Ok(found)
        });
        (done.map_err(|error| error.kind()), tries)
    };
    assert_eq!(interfering(2), (Ok(Some("other".to_owned())), 3));
    assert_eq!(interfering(u32::MAX), (Err(ErrorKind::Conflict), 64));
    let failed = db.transact(TxnOptions::default(), |txn| {
        txn.put(tree, "z", "1")?;
        Err::<(), _>(Error::new(ErrorKind::InvalidInput, "enough"))
    });
    assert_eq!(failed.unwrap_err().message(), "enough");
    assert!(!tree.contains("z").unwrap());
}

#[test]
fn an_error_of_the_works_own_is_repeated_where_another_write_was_its_cause() {
    #[derive(Debug, PartialEq)]
    enum Own {
        Store,
        Enough,
    }
    impl From<Error> for Own {
        fn from(_: Error) -> Own {
            Own::Store
        }
    }
    let db = still_store();
    let tree = db.default_tree();
    let options = TxnOptions::default().mode(TxnMode::Pessimistic).isolation(Isolation::Snapshot);
    let mut tries = 0;
    let mut hindered = |times: u32| {
        tries = 0;
        let done = db.transact(options, |txn| {
            drop(get(txn, tree, "x"));
            tries += 1;
            if tries <= times {
                db.put("x", "other").unwrap();
            }
            Ok(txn.put(tree, "x", "1")?)
        });
        (done, tries)
    };
    assert_eq!(hindered(2), (Ok(()), 3));
    assert_eq!(hindered(u32::MAX), (Err(Own::Store), 64));
    let enough = db.transact(options, |txn| {
        txn.put(tree, "z", "1")?;
        tries += 1;
        Err::<(), _>(Own::Enough)
    });
    assert_eq!((enough, tries), (Err(Own::Enough), 65));
    assert!(!tree.contains("z").unwrap());
}

#[test]
fn trees_of_other_stores_and_of_the_past_are_refused() {
    let (db, other) = (still_store(), still_store());
    let txn = db.begin(TxnOptions::default()).unwrap();
    let tree = other.default_tree();
    assert_eq!(txn.get(tree, "x").unwrap_err().kind(), ErrorKind::InvalidInput);
    assert_eq!(txn.put(tree, "x", "1").unwrap_err().kind(), ErrorKind::InvalidInput);
    assert_eq!(txn.put(db.default_tree(), "", "1").unwrap_err().kind(), ErrorKind::InvalidInput);
    // A read of a dropped tree cannot be validated.
    let dropped = db.tree("dropped").unwrap();
    assert!(txn.get(&dropped, "x").unwrap().is_none());
    txn.put(db.default_tree(), "x", "1").unwrap();
    db.drop_tree("dropped").unwrap();
    assert_eq!(txn.commit().unwrap_err().kind(), ErrorKind::TreeDropped);
    assert!(!db.contains("x").unwrap());
    db.close().unwrap();
    assert_eq!(db.begin(TxnOptions::default()).unwrap_err().kind(), ErrorKind::Closed);
}

/// Tests every order of a put, a delete, a merge and a merge of another kind, with a savepoint in between.
#[test]
fn a_transaction_reads_what_it_has_merged() {
    for mode in MODES {
        let db = still_store();
        let tree = db.default_tree();
        ["a", "b", "gone"].into_iter().for_each(|key| db.put(key, "old").unwrap());
        let txn = db.begin(options(mode, Isolation::Serializable)).unwrap();
        txn.append(tree, "a", "+1").unwrap();
        txn.append(tree, "new", "x").unwrap();
        txn.put(tree, "put", "1").unwrap();
        txn.append(tree, "put", "2").unwrap();
        txn.delete(tree, "gone").unwrap();
        let before = txn.savepoint();
        txn.append(tree, "gone", "back").unwrap();
        txn.append(tree, "a", "+2").unwrap();
        txn.delete_range(tree, "b"..="c").unwrap();
        txn.append(tree, "b", "y").unwrap();
        txn.append(tree, "b", "z").unwrap();
        assert_eq!(get(&txn, tree, "a").as_deref(), Some("old+1+2"));
        let shown = "a=old+1+2 b=yz gone=back new=x put=12";
        assert_eq!(pairs(txn.scan(tree, ScanRange::all()).unwrap()), shown);
        let backward: Vec<&str> = shown.split(' ').rev().collect();
        assert_eq!(pairs(txn.scan(tree, ScanRange::all().reverse()).unwrap()), backward.join(" "));
        assert_eq!(pairs(txn.scan(tree, ScanRange::all().keys_only()).unwrap()), "a= b= gone= new= put=");
        txn.rollback_to(before).unwrap();
        assert_eq!(pairs(txn.scan(tree, ScanRange::all()).unwrap()), "a=old+1 b=old new=x put=12");
        txn.append(tree, "b", "!").unwrap();
        txn.commit().unwrap();
        let found: Vec<_> = tree.scan(ScanRange::all()).unwrap().map(|pair| pair.unwrap()).collect();
        let found = found.iter().map(|(k, v)| format!("{}={}", k.escape_ascii(), v.escape_ascii()));
        assert_eq!(found.collect::<Vec<_>>().join(" "), "a=old+1 b=old! new=x put=12");
    }
}

/// Runs two transactions that add at the same time: the values that they find, and the outcome of the second.
#[test]
fn additions_that_were_not_read_go_side_by_side_when_serializable() {
    let run = |isolation, reads: bool| {
        let db = still_store();
        let tree = db.default_tree();
        tree.add("n", 1).unwrap();
        let begin = || db.begin(options(TxnMode::Optimistic, isolation)).unwrap();
        let (one, two) = (begin(), begin());
        one.add(tree, "n", 10).unwrap();
        two.add(tree, "n", 100).unwrap();
        if reads {
            let found = two.get_vec(tree, "n").unwrap().unwrap();
            assert_eq!(crate::keys::decode_i64(&found).unwrap(), 101);
        }
        one.commit().unwrap();
        tree.add("n", 1000).unwrap();
        let second = outcome(two.commit());
        let found = tree.get_vec("n").unwrap().unwrap();
        assert_eq!(crate::keys::decode_i64(&found).unwrap(), if second == "done" { 1111 } else { 1011 });
        second
    };
    assert_eq!(run(Isolation::Serializable, false), "done");
    assert_eq!(run(Isolation::Serializable, true), "conflict");
    // The first committer wins.
    assert_eq!(run(Isolation::Snapshot, false), "conflict");
    assert_eq!(run(Isolation::Snapshot, true), "conflict");
}

#[test]
fn pessimistic_additions_wait_for_each_other() {
    let db = still_store();
    let tree = db.default_tree();
    for isolation in LEVELS {
        let begin = || db.begin(options(TxnMode::Pessimistic, isolation)).unwrap();
        let (one, two) = (begin(), begin());
        one.add(tree, "n", 1).unwrap();
        assert_eq!(two.add(tree, "n", 1).unwrap_err().kind(), ErrorKind::LockTimeout);
        one.commit().unwrap();
        two.add(tree, "n", 1).unwrap();
        two.commit().unwrap();
    }
    let found = tree.get_vec("n").unwrap().unwrap();
    assert_eq!(crate::keys::decode_i64(&found).unwrap(), 4);
}

#[test]
fn what_cannot_be_merged_is_refused_and_what_cannot_be_applied_is_named() {
    let db = still_store();
    let tree = db.default_tree();
    db.put("text", "hello").unwrap();
    let txn = db.begin(TxnOptions::default()).unwrap();
    assert_eq!(txn.merge(tree, "k", "max", "1").unwrap_err().kind(), ErrorKind::InvalidInput);
    assert_eq!(
        txn.merge(tree, "k", crate::operators::ADD, "short").unwrap_err().kind(),
        ErrorKind::InvalidInput
    );
    assert_eq!(txn.add(tree, "", 1).unwrap_err().kind(), ErrorKind::InvalidInput);
    txn.add(tree, "text", 1).unwrap();
    assert_eq!(txn.get(tree, "text").unwrap_err().kind(), ErrorKind::InvalidInput);
    let mut scan = txn.scan(tree, ScanRange::all()).unwrap();
    assert!(scan.advance().unwrap());
    assert_eq!(scan.value().unwrap_err().kind(), ErrorKind::InvalidInput);
    assert!(!scan.advance().unwrap());
}

/// A huge value, expiring values, and a value made of many small operands.
#[test]
fn operands_of_a_transaction_lie_on_whatever_is_there() {
    let db = still_store();
    let tree = db.default_tree();
    let huge = vec![b'h'; 100 << 10];
    db.put("huge", &huge).unwrap();
    let txn = db.begin(TxnOptions::default()).unwrap();
    txn.append(tree, "huge", "!").unwrap();
    txn.put(tree, "own", &huge).unwrap();
    txn.append(tree, "own", "?").unwrap();
    txn.put_for(tree, "short", "lived", Duration::from_secs(60)).unwrap();
    txn.append(tree, "short", "+").unwrap();
    let mut whole = Vec::new();
    for i in 0..3000u32 {
        txn.append(tree, "many", i.to_be_bytes()).unwrap();
        txn.add(tree, "count", 1).unwrap();
        whole.extend(i.to_be_bytes());
    }
    let check = |read: &dyn Fn(&str) -> Option<Vec<u8>>| {
        assert_eq!(read("huge"), Some([&huge[..], b"!"].concat()));
        assert_eq!(read("own"), Some([&huge[..], b"?"].concat()));
        assert_eq!(read("short").as_deref(), Some(&b"lived+"[..]));
        assert_eq!(read("many").as_ref(), Some(&whole));
        assert_eq!(read("count").as_deref(), Some(&crate::keys::i64(3000)[..]));
    };
    check(&|key| txn.get_vec(tree, key).unwrap());
    let batch = txn.inner.borrow().writes.to_batch().unwrap();
    // Two puts, and the ops for those of 6,000 operands that could not be combined.
    assert!(batch.len() < 30, "{} ops", batch.len());
    drop(batch);
    txn.commit().unwrap();
    check(&|key| tree.get_vec(key).unwrap());
    db.flush().unwrap();
    db.compact().unwrap();
    check(&|key| tree.get_vec(key).unwrap());
}
