//! The longest keys, 131,072 bytes, in every way of writing and of reading, and wherever keys are kept.

use esker::fs::sim::SimFs;
use esker::{Batch, Db, ErrorKind, KEY_LEN_MAX, ScanRange, TreeOptions, TxnOptions};

use crate::common::{settle, stepped_options};

const STORE: &str = "/store";

fn open(disk: &SimFs) -> Db {
    Db::open(STORE, stepped_options(disk)).unwrap()
}

/// A key of `len` bytes that differs from others in its last byte.
fn long(len: usize, last: u8) -> Vec<u8> {
    let mut key = vec![b'k'; len];
    key[len - 1] = last;
    key
}

#[test]
fn they_are_written_and_read_in_every_way() {
    assert_eq!(KEY_LEN_MAX, 131_072);
    let disk = SimFs::new(1);
    let mut db = open(&disk);
    // Neighbours in a block share more bytes than its header can count.
    let mut expected: Vec<(Vec<u8>, Vec<u8>)> = Vec::new();
    let tree = db.default_tree().clone();
    let mut put = |last: u8, value: &[u8], write: &dyn Fn(&[u8], &[u8])| {
        let key = long(KEY_LEN_MAX, last);
        write(&key, value);
        expected.push((key, value.to_vec()));
    };
    put(1, b"put", &|key, value| tree.put(key, value).unwrap());
    put(2, &[2; 5000], &|key, value| tree.put(key, value).unwrap());
    put(3, b"batch", &|key, value| {
        let mut batch = Batch::new();
        batch.put(&tree, key, value).unwrap();
        let bytes = batch.encode(|_| Some(0)).unwrap();
        db.write(&Batch::decode(&bytes, |_| Some(tree.clone())).unwrap()).unwrap();
    });
    put(4, b"txn", &|key, value| {
        let txn = db.begin(TxnOptions::default()).unwrap();
        txn.put(&tree, key, value).unwrap();
        txn.commit().unwrap();
    });
    put(5, &[5; 2 << 20], &|key, value| assert_eq!(tree.put_from(key, value).unwrap(), 2 << 20));
    put(6, b"swap", &|key, value| assert!(tree.compare_and_swap(key, None, Some(value)).unwrap().is_done()));
    put(7, b"merge", &|key, value| tree.merge(key, esker::operators::APPEND, value).unwrap());
    put(8, b"renamed", &|key, value| {
        tree.put("short", value).unwrap();
        assert!(tree.rename("short", key).unwrap());
    });
    for (last, value) in [(9, vec![9; 10]), (10, vec![10; 5000])] {
        put(last, &value, &|key, value| {
            let mut ingest = tree.ingest().unwrap();
            ingest.put(key, value).unwrap();
            ingest.commit().unwrap();
        });
    }
    put(11, b"unsorted", &|key, value| {
        let mut ingest = tree.ingest_unsorted().unwrap();
        ingest.put(key, value).unwrap();
        ingest.commit().unwrap();
    });
    put(12, b"one byte less", &|key, value| {
        tree.put(key, "").unwrap();
        tree.delete(key).unwrap();
        tree.put(key, value).unwrap();
    });
    drop(tree);
    for step in 0..5 {
        let tree = db.default_tree();
        for (key, value) in &expected {
            assert!(tree.get_vec(key).unwrap().as_ref() == Some(value), "step {step}");
            assert!(tree.contains(key).unwrap());
        }
        let pairs = |range: ScanRange| -> Vec<_> { tree.scan(range).unwrap().map(Result::unwrap).collect() };
        let prefix = long(KEY_LEN_MAX, 0)[..KEY_LEN_MAX - 1].to_vec();
        for range in [ScanRange::all(), ScanRange::prefix(prefix), ScanRange::from(long(KEY_LEN_MAX, 1)..)] {
            assert!(pairs(range.clone()) == expected, "step {step}");
            let mut backward = pairs(range.reverse());
            backward.reverse();
            assert!(backward == expected, "step {step} backward");
        }
        match step {
            0 => db.flush().unwrap(),
            1 => db.compact().unwrap(),
            2 => {
                settle(&db);
                db.close().unwrap();
                db = open(&disk);
            }
            3 => {
                // Its manifest is lost: repair reads keys from tables, blob files and log alone.
                db.put(long(KEY_LEN_MAX, 13), "in the log").unwrap();
                db.sync().unwrap();
                expected.push((long(KEY_LEN_MAX, 13), b"in the log".to_vec()));
                db.close().unwrap();
                assert_eq!(esker::check(STORE, &stepped_options(&disk)).unwrap().findings, []);
                lose_the_manifest(&disk);
                esker::repair(STORE, &stepped_options(&disk)).unwrap();
                db = open(&disk);
            }
            _ => {}
        }
    }
}

fn lose_the_manifest(disk: &SimFs) {
    use esker::fs::FileSystem;
    for path in disk.paths() {
        if path.starts_with(STORE) && path.to_string_lossy().contains("manifest-") {
            disk.remove_file(&path).unwrap();
        }
    }
}

#[test]
fn one_byte_more_is_refused_everywhere() {
    let disk = SimFs::new(1);
    let db = open(&disk);
    let tree = db.default_tree();
    let key = long(KEY_LEN_MAX + 1, 1);
    let refused = |result: esker::Result<()>| assert_eq!(result.unwrap_err().kind(), ErrorKind::InvalidInput);
    refused(tree.put(&key, "1"));
    refused(tree.put(&key, [1; 5000]));
    refused(tree.delete(&key));
    refused(tree.merge(&key, esker::operators::APPEND, "1"));
    refused(Batch::new().put(tree, &key, "1"));
    refused(db.begin(TxnOptions::default()).unwrap().put(tree, &key, "1"));
    refused(tree.writer(&key).map(drop));
    refused(tree.unnamed_writer().unwrap().set_key(&key));
    refused(tree.insert(&key, "1").map(drop));
    refused(tree.rename(&key, "a").map(drop));
    refused(tree.copy("a", &key).map(drop));
    refused(tree.set_expiry(&key, None).map(drop));
    refused(tree.ingest().unwrap().put(&key, "1"));
    refused(tree.ingest_unsorted().unwrap().put(&key, "1"));
    assert!(tree.is_empty().unwrap());
}

/// Small trees share tables, whose keys are longer by the tree's number; and a tree is split at such a key.
#[test]
fn they_are_in_shared_tables_and_at_the_ends_of_trees() {
    let disk = SimFs::new(1);
    let db = open(&disk);
    for name in ["a", "b", "c"] {
        let tree = db.create_tree(name, TreeOptions::default()).unwrap();
        for last in [1, 2] {
            tree.put(long(KEY_LEN_MAX, last), name).unwrap();
        }
    }
    db.flush().unwrap();
    let tree = db.open_tree("a").unwrap().unwrap();
    drop(db.split(&tree, long(KEY_LEN_MAX, 2), "d").unwrap());
    drop(tree);
    db.close().unwrap();
    let db = open(&disk);
    let names = |name: &str| -> Vec<_> {
        let tree = db.open_tree(name).unwrap().unwrap();
        tree.scan(ScanRange::all()).unwrap().map(|pair| *pair.unwrap().0.last().unwrap()).collect()
    };
    assert_eq!(["a", "b", "c", "d"].map(names), [vec![1], vec![1, 2], vec![1, 2], vec![2]]);
    db.default_tree().put(long(KEY_LEN_MAX, 1), "").unwrap();
    db.default_tree().delete_range(long(KEY_LEN_MAX, 1)..=long(KEY_LEN_MAX, 1)).unwrap();
    assert!(db.default_tree().is_empty().unwrap());
    db.compact().unwrap();
    assert_eq!(db.scrub().unwrap().findings, []);
}
