//! Trees whose writes skip the log, without crashes: what is refused, and what closing and syncing do.

use std::sync::Arc;

use esker::env::{Env, JobKind, StepExecutor};
use esker::{Batch, Db, Durability, ErrorKind, Options, Tree, TreeOptions, TxnOptions};

fn two(db: &Db) -> (Tree, Tree) {
    let create = |name| db.create_tree(name, TreeOptions::default().log(false)).unwrap();
    (create("one"), create("two"))
}

#[test]
fn a_batch_writes_to_it_alone() {
    let db = Db::open_in_memory(Options::default()).unwrap();
    let (one, two) = two(&db);
    for other in [db.default_tree(), &two] {
        let mut batch = Batch::new();
        batch.put(&one, "key", "value").unwrap();
        batch.put(other, "key", "value").unwrap();
        let error = db.write(&batch).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
        assert!(error.to_string().contains("\"one\""), "{error}");
        let txn = db.begin(TxnOptions::default()).unwrap();
        txn.put(&one, "key", "value").unwrap();
        txn.put(other, "key", "value").unwrap();
        assert_eq!(txn.commit().unwrap_err().kind(), ErrorKind::InvalidInput);
        assert!(!one.contains("key").unwrap() && !other.contains("key").unwrap());
    }
    let txn = db.begin(TxnOptions::default()).unwrap();
    assert!(txn.get(db.default_tree(), "key").unwrap().is_none());
    txn.put(&one, "key", "value").unwrap();
    txn.commit().unwrap();
    assert!(one.contains("key").unwrap());
}

#[test]
fn closing_loses_nothing() {
    let dir = tempfile::tempdir().unwrap();
    // Without threads, of which one might hold the store a moment longer than its last handle.
    let env = Env { executor: Some(Arc::new(StepExecutor)), ..Env::system() };
    let open = || Db::open(dir.path().join("store"), Options::default().env(env.clone())).unwrap();
    for round in 0..3_u8 {
        let db = open();
        let tree = match db.open_tree("one").unwrap() {
            Some(tree) => tree,
            None => two(&db).0,
        };
        for before in 0..round {
            assert_eq!(tree.get_vec([before]).unwrap().unwrap(), vec![before; 100_000]);
            assert!(db.contains([before]).unwrap());
        }
        tree.put([round], vec![round; 100_000]).unwrap();
        db.put([round], "logged").unwrap();
        assert!(tree.compare_and_swap("cas", None, Some(b"1")).unwrap().is_done());
        tree.delete("cas").unwrap();
        match round {
            0 => db.close().unwrap(),
            _ => drop((db, tree)),
        }
    }
}

#[test]
fn what_costs_the_log_nothing_costs_it_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path().join("store"), Options::default()).unwrap();
    let (one, _) = two(&db);
    let before = db.stats().unwrap();
    for number in 0..1000_u32 {
        one.put(number.to_be_bytes(), [7; 100]).unwrap();
    }
    let after = db.stats().unwrap();
    assert_eq!(after.log_live_bytes, before.log_live_bytes);
    one.put_with("power", "1", Durability::Power).unwrap();
    assert_eq!(db.stats().unwrap().memtable_entries_of("one"), 0, "a write at Power is in a table");
    one.put("later", "1").unwrap();
    db.sync().unwrap();
    assert_eq!(db.stats().unwrap().memtable_entries_of("one"), 0, "and so is what was synced");
}

trait Of {
    fn memtable_entries_of(&self, name: &str) -> u64;
}

impl Of for esker::Stats {
    fn memtable_entries_of(&self, name: &str) -> u64 {
        self.trees.iter().find(|tree| tree.name == name).unwrap().memtable_entries
    }
}

/// What is overwritten and waits for a flush is given back without anybody asking for one.
#[test]
fn the_space_of_huge_values_comes_back() {
    let dir = tempfile::tempdir().unwrap();
    let mut options = Options::default();
    options.blob_file_bytes = 1 << 20;
    let db = Db::open(dir.path().join("store"), options).unwrap();
    let (one, _) = two(&db);
    for round in 0..200_u8 {
        one.put("key", vec![round; 100_000]).unwrap();
    }
    let disk = db.stats().unwrap().blob_disk_bytes;
    assert!(disk < 10 << 20, "{disk} bytes for one value of 100,000");
}

/// What has to wait for a flush keeps nobody busy.
#[test]
fn what_waits_for_a_flush_is_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    let env = Env { executor: Some(Arc::new(StepExecutor)), ..Env::system() };
    let mut options = Options::default().env(env);
    options.blob_file_bytes = 1 << 20;
    let db = Db::open(dir.path().join("store"), options).unwrap();
    let (one, _) = two(&db);
    for round in 0..6_u8 {
        one.put("key", vec![round; 40_000]).unwrap();
    }
    let steps = (0..1000).take_while(|_| db.step(JobKind::Blobs)).count();
    assert!(steps < 1000, "giving space back does not come to an end");
    assert_eq!(db.stats().unwrap().blob_values, 6, "a crash could bring back what needs them");
    one.flush().unwrap();
    while db.step(JobKind::Blobs) {}
    assert_eq!(db.stats().unwrap().blob_values, 1);
}
