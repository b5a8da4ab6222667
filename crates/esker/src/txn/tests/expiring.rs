//! Transactions that read expiring values while time passes.

use super::*;

/// The store, and a function that lets this many seconds pass.
fn store() -> (Db, impl Fn(u64)) {
    let (db, clock) = still_store_and_clock();
    (db, move |seconds| clock.sleep(Duration::from_secs(seconds)))
}

fn lease(db: &Db, seconds: u64) {
    db.default_tree().put_for("lease", "mine", Duration::from_secs(seconds)).unwrap();
}

/// Every way of reading one key.
fn read_in_every_way(txn: &Txn, tree: &Tree, way: usize) -> Option<String> {
    let range = || ScanRange::from("lease"..="lease");
    let scanned = |scan: TxnScan<'_>| scan.map(|pair| String::from_utf8(pair.unwrap().1).unwrap()).next();
    match way {
        0 => get(txn, tree, "lease"),
        1 => txn.get_for_update(tree, "lease").unwrap().map(|_| "mine".to_owned()),
        2 => scanned(txn.scan(tree, range()).unwrap()),
        3 => scanned(txn.scan(tree, range().reverse()).unwrap()),
        4 => scanned(txn.scan(tree, range().keys_only()).unwrap()).map(|_| "mine".to_owned()),
        _ => scanned(txn.scan_for_update(tree, range()).unwrap()),
    }
}

/// One transaction reads a lease, which then expires. Another sees that it has expired, and not the first one's write,
/// and commits. The first one must no longer commit its write.
#[test]
fn what_has_expired_since_it_was_read_is_a_conflict() {
    for mode in MODES {
        for way in 0..6 {
            let (db, pass) = store();
            let tree = db.default_tree();
            lease(&db, 10);
            let serializable = options(mode, Isolation::Serializable);
            let one = db.begin(serializable).unwrap();
            assert_eq!(read_in_every_way(&one, tree, way).as_deref(), Some("mine"), "way {way}");
            pass(11);
            if mode == TxnMode::Optimistic {
                let two = db.begin(serializable).unwrap();
                assert!(read_in_every_way(&two, tree, way).is_none() && get(&two, tree, "y").is_none());
                two.put(tree, "z", "2").unwrap();
                two.commit().unwrap();
            }
            one.put(tree, "y", "1").unwrap();
            assert_eq!(outcome(one.commit()), "conflict", "{mode:?}, way {way}");
            assert!(!tree.contains("y").unwrap());
            // When it is repeated, it sees that the lease is gone.
            let one = db.begin(serializable).unwrap();
            assert_eq!(read_in_every_way(&one, tree, way), None);
            one.put(tree, "y", "1").unwrap();
            one.commit().unwrap();
        }
    }
}

#[test]
fn a_transaction_has_one_time_for_all_that_it_reads() {
    for mode in MODES {
        for isolation in LEVELS {
            let (db, pass) = store();
            let tree = db.default_tree();
            lease(&db, 10);
            tree.put("lasting", "1").unwrap();
            let txn = db.begin(options(mode, isolation)).unwrap();
            for _ in 0..3 {
                for way in 0..6 {
                    let found = read_in_every_way(&txn, tree, way);
                    assert_eq!(found.as_deref(), Some("mine"), "{mode:?}, {isolation:?}, way {way}");
                    pass(5);
                }
                // Flushes and merges drop expired values but keep all others.
                db.flush().unwrap();
                db.compact().unwrap();
            }
            assert_eq!(tree.get_vec("lease").unwrap(), None);
            // Under snapshot isolation reads are not checked if nothing is written; locked reads are.
            let _either = txn.commit();
        }
    }
}

/// Under snapshot isolation a read counts once its key is written. Otherwise a write would be lost: the one that
/// removed the value.
#[test]
fn under_snapshot_isolation_what_has_expired_is_not_overwritten_by_who_has_read_it() {
    for mode in MODES {
        for way in [0, 2, 3] {
            for (key, seconds, expected) in
                [("lease", 11, "conflict"), ("lease", 9, "done"), ("other", 11, "done")]
            {
                let (db, pass) = store();
                lease(&db, 10);
                let txn = db.begin(options(mode, Isolation::Snapshot)).unwrap();
                read_in_every_way(&txn, db.default_tree(), way);
                pass(seconds);
                txn.put(db.default_tree(), key, "renewed").unwrap();
                assert_eq!(outcome(txn.commit()), expected, "{mode:?}, way {way}, {key} after {seconds}");
            }
        }
    }
}

/// Blind writes, and parts of a scan that were not reached, do not count as reads of an expiring value.
#[test]
fn what_was_not_read_may_expire() {
    let (db, pass) = store();
    let tree = db.default_tree();
    lease(&db, 10);
    tree.put("a", "1").unwrap();
    let txn = db.begin(options(TxnMode::Optimistic, Isolation::Serializable)).unwrap();
    txn.put(tree, "b", "own").unwrap();
    let mut scan = txn.scan(tree, ScanRange::all()).unwrap();
    assert!(scan.advance().unwrap() && scan.advance().unwrap());
    assert_eq!(scan.key(), b"b");
    drop(scan);
    txn.put(tree, "lease", "taken").unwrap();
    pass(11);
    txn.commit().unwrap();
    assert_eq!(tree.get_vec("lease").unwrap().as_deref(), Some(&b"taken"[..]));
}

/// A value below operands expires too.
#[test]
fn what_was_merged_into_something_that_expires_is_a_conflict_likewise() {
    for reverse in [false, true] {
        let (db, pass) = store();
        let tree = db.default_tree();
        lease(&db, 10);
        tree.append("lease", "+").unwrap();
        let txn = db.begin(options(TxnMode::Optimistic, Isolation::Serializable)).unwrap();
        let range = if reverse { ScanRange::all().reverse() } else { ScanRange::all() };
        assert_eq!(pairs(txn.scan(tree, range).unwrap()), "lease=mine+");
        let other = db.begin(options(TxnMode::Optimistic, Isolation::Serializable)).unwrap();
        assert_eq!(get(&other, tree, "lease").as_deref(), Some("mine+"));
        pass(11);
        for txn in [txn, other] {
            txn.put(tree, "y", "1").unwrap();
            assert_eq!(outcome(txn.commit()), "conflict");
        }
        assert_eq!(tree.get_vec("lease").unwrap(), None);
    }
}

/// A swap that expects a value finds it gone if the value expires meanwhile.
#[test]
fn a_read_and_write_of_one_key_takes_expiry_for_a_change() {
    let (db, pass) = store();
    let tree = db.default_tree();
    lease(&db, 10);
    let mut seen = Vec::new();
    tree.update("lease", |old| {
        seen.push(old.map(<[u8]>::to_vec));
        pass(11);
        Some(b"new".to_vec())
    })
    .unwrap();
    assert_eq!(seen, [Some(b"mine".to_vec()), None]);
}

/// A write that counts because a lease had not expired is under way while the lease expires. No reader sees the expiry
/// before it sees the write.
#[test]
fn no_read_has_an_expiry_without_the_write_that_was_judged_before_it() {
    type Read = fn(&Db) -> bool;
    let reads: [(&str, Read); 8] = [
        ("get", |db| db.get("lease").unwrap().is_some()),
        ("get_vec", |db| db.get_vec("lease").unwrap().is_some()),
        ("get_into", |db| db.default_tree().get_into("lease", &mut Vec::new()).unwrap()),
        ("contains", |db| db.contains("lease").unwrap()),
        ("get_many", |db| db.default_tree().get_many(["lease"]).unwrap()[0].is_some()),
        ("scan", |db| db.scan(ScanRange::all()).unwrap().count() == 1),
        ("count", |db| db.default_tree().count(ScanRange::all()).unwrap() == 1),
        ("snapshot", |db| db.snapshot().contains(db.default_tree(), "lease").unwrap()),
    ];
    for (name, read) in reads {
        let (db, pass) = store();
        lease(&db, 10);
        let expiry = db.get("lease").unwrap().unwrap().expires_us();
        // As compare-and-swap does between its look at the clock and its publication.
        let txn = db.begin(TxnOptions::default()).unwrap();
        let lasting = txn.store.log().lasting(expiry);
        assert!(lasting.holds());
        pass(11);
        assert!(read(&db), "{name}");
        drop(lasting);
        assert!(!read(&db), "{name}");
        assert!(!txn.store.log().lasting(expiry).holds());
        assert!(!read(&db), "{name}");
    }
}
