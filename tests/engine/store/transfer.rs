//! Renaming and copying: huge values keep their place, and their space comes back when the last key is gone.

use std::path::PathBuf;

use esker::fs::FileSystem;
use esker::fs::sim::SimFs;
use esker::{Db, ErrorKind, Options, PutOptions, ScanRange, TxnOptions};

use crate::common::{settle, stepped_options};

const STORE: &str = "/store";
const LEN: usize = 300_000;

fn open(disk: &SimFs) -> Db {
    Db::open(STORE, stepped_options(disk)).unwrap()
}

fn blob_bytes(disk: &SimFs) -> u64 {
    let is_blob =
        |path: &PathBuf| path.starts_with(STORE) && path.extension().is_some_and(|ext| ext == "blob");
    let paths = disk.paths().into_iter().filter(is_blob);
    paths.map(|path| disk.allocated_bytes(&path).unwrap()).sum()
}

fn value(seed: u8) -> Vec<u8> {
    (0..LEN).map(|at| (at as u8).wrapping_mul(31).wrapping_add(seed)).collect()
}

/// A store and its disk.
struct Place {
    disk: SimFs,
    db: Db,
}

impl Place {
    fn new() -> Place {
        let disk = SimFs::new(1);
        Place { db: open(&disk), disk }
    }

    /// Flushes, merges, opens again or dies: what is to come must not depend on where the entries are.
    fn pass(self, how: usize) -> Place {
        let Place { disk, db } = self;
        match how {
            0 => {}
            1 => db.flush().unwrap(),
            2 => db.compact().unwrap(),
            3 => {
                db.close().unwrap();
                return Place { db: open(&disk), disk };
            }
            _ => {
                let next = if how == 4 { disk.kill() } else { disk.crash(how as u64) };
                drop(db);
                return Place { db: open(&next), disk: next };
            }
        }
        settle(&db);
        Place { disk, db }
    }

    /// Exactly these keys have huge values, each by its seed, and so many values are kept.
    #[track_caller]
    fn holds(&self, expected: &[(&str, u8)], kept: u64) {
        let mut scan = self.db.scan(ScanRange::all()).unwrap();
        let mut found = Vec::new();
        while scan.advance().unwrap() {
            let (key, bytes) = scan.pair().unwrap();
            found.push((String::from_utf8(key.to_vec()).unwrap(), bytes[0]));
            assert!(bytes == value(bytes[0]));
        }
        let expected: Vec<_> = expected.iter().map(|(key, seed)| ((*key).to_owned(), *seed)).collect();
        assert_eq!(found, expected);
        settle(&self.db);
        assert_eq!(self.db.stats().unwrap().blob_values, kept);
        let whole = kept * LEN as u64;
        let space = blob_bytes(&self.disk);
        assert!((whole..whole + 150_000).contains(&space), "{space} bytes for {kept} values");
    }
}

/// Every two ways of passing time between the steps of one story.
#[test]
fn a_value_goes_when_its_last_key_does() {
    for (first, second) in (0..6).flat_map(|first| (0..6).map(move |second| (first, second))) {
        let place = Place::new();
        let tree = |place: &Place| place.db.default_tree().clone();
        place.db.put("a", value(1)).unwrap();
        place.db.put("z", value(2)).unwrap();
        place.db.sync().unwrap();
        let place = place.pass(first);
        assert!(tree(&place).copy("a", "b").unwrap());
        assert!(tree(&place).rename("a", "c").unwrap());
        assert!(!tree(&place).rename("a", "d").unwrap() && !tree(&place).copy("a", "d").unwrap());
        assert!(tree(&place).rename("c", "c").unwrap());
        place.db.sync().unwrap();
        let place = place.pass(second);
        place.holds(&[("b", 1), ("c", 1), ("z", 2)], 2);
        place.db.delete("b").unwrap();
        place.db.sync().unwrap();
        let place = place.pass(first);
        place.holds(&[("c", 1), ("z", 2)], 2);
        // Over another value, which goes.
        assert!(tree(&place).rename("c", "z").unwrap());
        place.db.sync().unwrap();
        let place = place.pass(second);
        place.holds(&[("z", 1)], 1);
        place.db.put("z", value(3)).unwrap();
        place.db.sync().unwrap();
        let place = place.pass(first);
        place.holds(&[("z", 3)], 1);
        place.db.close().unwrap();
        assert_eq!(esker::check(STORE, &stepped_options(&place.disk)).unwrap().findings, []);
    }
}

#[test]
fn what_is_not_there_any_more_is_still_seen_by_a_snapshot() {
    let place = Place::new();
    let tree = place.db.default_tree();
    tree.put("a", value(1)).unwrap();
    let before = place.db.snapshot();
    assert!(tree.rename("a", "b").unwrap());
    let between = place.db.snapshot();
    tree.delete("b").unwrap();
    place.db.compact().unwrap();
    settle(&place.db);
    assert_eq!(before.get_vec(tree, "a").unwrap().unwrap(), value(1));
    assert_eq!(before.get_vec(tree, "b").unwrap(), None);
    drop(before);
    settle(&place.db);
    assert_eq!(between.get_vec(tree, "b").unwrap().unwrap(), value(1));
    let checkpoint = stepped_options(&place.disk);
    place.db.checkpoint("/copy").unwrap();
    drop(between);
    place.holds(&[], 0);
    let copy = Db::open("/copy", checkpoint).unwrap();
    settle(&copy);
    assert_eq!(copy.stats().unwrap().blob_values, 0, "a copy has no snapshots");
}

#[test]
fn small_values_and_odd_keys() {
    let db = Db::open_in_memory(Options::default()).unwrap();
    let tree = db.tree("t").unwrap();
    tree.put("a", "small").unwrap();
    assert!(tree.copy("a", "b").unwrap() && tree.rename("b", "c").unwrap());
    assert_eq!(tree.get_vec("c").unwrap().unwrap(), b"small");
    assert!(tree.rename("", "x").is_err() && tree.copy("a", vec![0; 140_000]).is_err());
    tree.put("huge", vec![1; 1 << 20]).unwrap();
    let stored = tree.get("huge").unwrap().unwrap().stored_us();
    tree.rename("huge", "a").unwrap();
    assert_eq!(tree.get("a").unwrap().unwrap().stored_us(), stored);
    db.drop_tree("t").unwrap();
    assert!(tree.rename("a", "b").is_err());
}

#[test]
fn a_transaction_moves_huge_values_and_what_is_beside_them() {
    let db = open(&SimFs::new(1));
    let tree = db.default_tree();
    let far = tree.time_us() + (1 << 40);
    for byte in [1, 2] {
        tree.put_opts("a", vec![byte; 5000], &PutOptions::default().attributes("type")).unwrap();
        tree.put("small", "s").unwrap();
        let txn = db.begin(TxnOptions::default()).unwrap();
        assert!(txn.rename(tree, "a", "b").unwrap());
        assert!(txn.copy(tree, "b", "c").unwrap());
        assert!(txn.set_expiry(tree, "c", far).unwrap());
        assert!(txn.set_attributes(tree, "c", "other").unwrap());
        assert!(txn.copy(tree, "b", "d").unwrap());
        txn.merge(tree, "d", esker::operators::APPEND, "end").unwrap();
        assert!(!txn.rename(tree, "none", "x").unwrap() && !txn.set_expiry(tree, "none", None).unwrap());
        assert_eq!(txn.set_attributes(tree, "b", vec![0; 4097]).unwrap_err().kind(), ErrorKind::InvalidInput);
        let mut scan = txn.scan(tree, ..).unwrap();
        let mut seen = Vec::new();
        while scan.advance().unwrap() {
            let handle = scan.handle().unwrap();
            assert_eq!(handle.bytes().unwrap(), scan.value().unwrap());
            seen.push((scan.key().to_vec(), handle.len(), handle.attributes().to_vec(), handle.expires_us()));
        }
        drop(scan);
        let row = |key: &str, len: u64, attributes: &str, expires: Option<u64>| {
            (key.as_bytes().to_vec(), len, attributes.as_bytes().to_vec(), expires)
        };
        let expected = [
            row("b", 5000, "type", None),
            row("c", 5000, "other", Some(far)),
            row("d", 5003, "", None),
            row("small", 1, "", None),
        ];
        assert_eq!(seen, expected);
        txn.commit().unwrap();
        db.flush().unwrap();
        db.compact().unwrap();
        settle(&db);
        assert_eq!(tree.get("c").unwrap().unwrap().metadata().expires_us, Some(far));
        assert_eq!(tree.get("b").unwrap().unwrap().attributes(), b"type");
        assert_eq!(tree.get_vec("d").unwrap().unwrap().len(), 5003);
        // One value, stored once; "d" was joined from it.
        let txn = db.begin(TxnOptions::default()).unwrap();
        assert!(txn.copy(tree, "b", "e").unwrap());
        tree.put("b", "replaced meanwhile").unwrap();
        assert_eq!(txn.commit().unwrap_err().kind(), ErrorKind::Conflict);
        for key in ["b", "c", "d", "e"] {
            tree.delete(key).unwrap();
        }
        db.compact().unwrap();
        settle(&db);
        assert_eq!(db.stats().unwrap().blob_values, 0, "a reference leaked");
    }
}
