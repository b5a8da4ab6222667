//! Attributes and the expiry beside a value: read without it, and changed without writing it anew.

use std::path::Path;
use std::sync::Arc;

use esker::env::{Env, StepExecutor};
use esker::fs::FileSystem;
use esker::fs::sim::SimFs;
use esker::operators::APPEND;
use esker::updates::What;
use esker::{
    ATTRIBUTES_LEN_MAX, Batch, Db, ErrorKind, Options, PutOptions, ScanRange, Staging, Tree, TreeOptions,
    TxnOptions,
};

use crate::common::{HourClock, settle, world};

const STORE: &str = "/store";
const LEN: usize = 300_000;
const YEAR_3000: u64 = 32_503_680_000_000_000;

fn options(disk: &SimFs) -> Options {
    let env = world(Arc::new(disk.clone()), 1, Some(Arc::new(StepExecutor)));
    let env = Env { clock: HourClock::new(0), ..env };
    Options::default().memory_budget(8 << 20).separate_at(1000).env(env)
}

fn open(disk: &SimFs) -> Db {
    Db::open(STORE, options(disk)).unwrap()
}

fn with(attributes: &str) -> PutOptions {
    PutOptions::default().attributes(attributes)
}

fn blob_bytes(disk: &SimFs) -> u64 {
    let is_blob = |path: &&std::path::PathBuf| path.extension().is_some_and(|ext| ext == "blob");
    disk.paths().iter().filter(is_blob).map(|path| disk.file_len(path).unwrap()).sum()
}

/// Length, attributes and expiry of each value, read in every way.
#[track_caller]
fn holds(db: &Db, expected: &[(&str, usize, &str, Option<u64>)]) {
    let tree = db.default_tree();
    for (key, len, attributes, expires_us) in expected {
        let metadata = tree.metadata(key).unwrap().unwrap();
        let known = (metadata.len, &metadata.attributes[..], metadata.expires_us);
        assert_eq!(known, (*len as u64, attributes.as_bytes(), *expires_us), "{key}");
        let value = tree.get(key).unwrap().unwrap();
        assert_eq!(value.metadata(), metadata, "{key}");
        assert_eq!(value.bytes().unwrap().len(), *len, "{key}");
        assert_eq!(tree.get_vec(key).unwrap().unwrap().len(), *len, "{key}");
        assert_eq!(tree.get_pinned(key).unwrap().unwrap().len(), *len, "{key}");
        let snapshot = db.snapshot();
        assert_eq!(snapshot.metadata(tree, key).unwrap().unwrap(), metadata, "{key}");
        assert_eq!(tree.get_many([key]).unwrap()[0].as_ref().unwrap().metadata(), metadata, "{key}");
        let txn = db.begin(TxnOptions::default()).unwrap();
        assert_eq!(txn.get(tree, key).unwrap().unwrap().metadata(), metadata, "{key}");
    }
    for range in [ScanRange::all(), ScanRange::all().reverse()] {
        let mut expected: Vec<_> = expected.to_vec();
        if range == ScanRange::all().reverse() {
            expected.reverse();
        }
        let mut scan = tree.scan(range).unwrap();
        for (key, len, attributes, expires_us) in expected {
            assert!(scan.advance().unwrap());
            assert_eq!(scan.key(), key.as_bytes());
            assert_eq!((scan.value_len(), scan.attributes()), (len as u64, attributes.as_bytes()), "{key}");
            assert_eq!((scan.expires_us(), scan.value().unwrap().len()), (expires_us, len), "{key}");
        }
        assert!(!scan.advance().unwrap() && scan.attributes().is_empty());
        assert!(tree.scan(ScanRange::all().keys_only()).unwrap().all(|pair| pair.unwrap().1.is_empty()));
    }
    assert_eq!(db.scrub().unwrap().findings, []);
}

#[test]
fn they_are_there_in_every_state_of_the_store() {
    let disk = SimFs::new(1);
    let db = open(&disk);
    let tree = db.default_tree();
    tree.put_opts("huge", vec![7; LEN], &with("video/webm")).unwrap();
    tree.put_opts("small", "7", &with("text/plain").expires_us(YEAR_3000)).unwrap();
    tree.put_opts("until", vec![8; LEN], &PutOptions::default().expires_us(YEAR_3000)).unwrap();
    tree.put("plain", "7").unwrap();
    let expected = [
        ("huge", LEN, "video/webm", None),
        ("plain", 1, "", None),
        ("small", 1, "text/plain", Some(YEAR_3000)),
        ("until", LEN, "", Some(YEAR_3000)),
    ];
    holds(&db, &expected);
    db.flush().unwrap();
    holds(&db, &expected);
    db.compact().unwrap();
    settle(&db);
    holds(&db, &expected);
    db.checkpoint("/copy").unwrap();
    db.close().unwrap();
    let db = open(&disk);
    holds(&db, &expected);
    tree_is_the_same_elsewhere(&db, &disk);
    drop(db);
    let copy = Db::open("/copy", options(&disk)).unwrap();
    assert_eq!(copy.default_tree().metadata("huge").unwrap().unwrap().attributes, b"video/webm");
}

/// Exported, imported again, and split: pointers are renumbered behind the attributes.
fn tree_is_the_same_elsewhere(db: &Db, disk: &SimFs) {
    db.export_tree("default", "/export").unwrap();
    let (copy, _) = db.import_tree("/export", "copy").unwrap();
    for (key, value) in [("huge", vec![7; LEN]), ("small", b"7".to_vec())] {
        let (here, there) = (db.get(key).unwrap().unwrap(), copy.get(key).unwrap().unwrap());
        assert_eq!(there.metadata(), here.metadata());
        assert!(there.bytes().unwrap()[..] == value[..]);
    }
    assert!(disk.paths().iter().any(|path| path.starts_with(Path::new("/export"))));
}

#[test]
fn nothing_but_an_entry_is_written_to_change_them() {
    let disk = SimFs::new(1);
    let db = open(&disk);
    let tree = db.default_tree();
    tree.put("film", vec![7; LEN]).unwrap();
    db.sync().unwrap();
    let before = blob_bytes(&disk);
    let stored = tree.metadata("film").unwrap().unwrap().stored_us;
    for round in 0..20_u64 {
        assert!(tree.set_expiry("film", YEAR_3000 + round).unwrap());
        assert!(tree.set_attributes("film", format!("round {round}")).unwrap());
        if round % 7 == 3 {
            db.compact().unwrap();
            settle(&db);
        }
    }
    assert_eq!(blob_bytes(&disk), before);
    let film = tree.metadata("film").unwrap().unwrap();
    assert_eq!((film.expires_us, film.stored_us), (Some(YEAR_3000 + 19), stored));
    assert_eq!(film.attributes, b"round 19");
    assert!(tree.set_attributes("film", "").unwrap() && tree.set_expiry("film", None).unwrap());
    assert_eq!(tree.get_vec("film").unwrap().unwrap(), vec![7; LEN]);
    holds(&db, &[("film", LEN, "", None)]);
    // The space comes back with the last reference.
    settle(&db);
    assert_eq!(db.stats().unwrap().blob_values, 1);
    assert!(tree.set_expiry("film", Some(1)).unwrap());
    assert!(tree.metadata("film").unwrap().is_none() && !tree.set_expiry("film", None).unwrap());
    assert!(!tree.set_attributes("film", "late").unwrap());
    db.compact().unwrap();
    settle(&db);
    assert_eq!(db.stats().unwrap().blob_values, 0);
}

#[test]
fn a_snapshot_sees_what_was_beside_the_value() {
    let disk = SimFs::new(1);
    let db = open(&disk);
    let tree = db.default_tree();
    tree.put_opts("film", vec![7; LEN], &with("first")).unwrap();
    let before = db.snapshot();
    tree.set_attributes("film", "second").unwrap();
    tree.put("film", vec![8; LEN]).unwrap();
    db.compact().unwrap();
    settle(&db);
    assert_eq!(before.metadata(tree, "film").unwrap().unwrap().attributes, b"first");
    assert_eq!(before.get_vec(tree, "film").unwrap().unwrap(), vec![7; LEN]);
    assert!(tree.metadata("film").unwrap().unwrap().attributes.is_empty());
    drop(before);
    settle(&db);
    assert_eq!(db.stats().unwrap().blob_values, 1);
}

#[test]
fn what_writes_a_value_says_what_it_has() {
    let disk = SimFs::new(1);
    let db = open(&disk);
    let tree = db.default_tree();
    let set = |key: &str| tree.put_opts(key, "1", &with("old")).unwrap();
    let attributes = |key: &str| tree.metadata(key).unwrap().unwrap().attributes;
    for key in ["put", "insert", "update", "swap", "merge"] {
        set(key);
    }
    tree.put("put", "2").unwrap();
    assert_eq!(tree.insert("insert", "2").unwrap().unwrap().attributes(), b"old");
    tree.update("update", |_| Some(b"2".to_vec())).unwrap();
    assert!(tree.compare_and_swap("swap", Some(b"1"), Some(b"2")).unwrap().is_done());
    tree.merge("merge", APPEND, "2").unwrap();
    for key in ["put", "insert", "update", "swap", "merge"] {
        assert_eq!(attributes(key), b"", "{key}");
    }
    db.compact().unwrap();
    assert_eq!((tree.get_vec("merge").unwrap().unwrap(), attributes("merge")), (b"12".to_vec(), Vec::new()));
    tree.put_opts("from", vec![1; LEN], &with("kept").expires_us(YEAR_3000)).unwrap();
    assert!(tree.rename("from", "to").unwrap() && tree.copy("to", "again").unwrap());
    for key in ["to", "again"] {
        let metadata = tree.metadata(key).unwrap().unwrap();
        assert_eq!((&metadata.attributes[..], metadata.expires_us), (&b"kept"[..], Some(YEAR_3000)));
    }
    // Operands are computed first.
    tree.merge("merge", APPEND, "3").unwrap();
    assert!(tree.set_attributes("merge", "new").unwrap());
    assert_eq!(
        (tree.get_vec("merge").unwrap().unwrap(), attributes("merge")),
        (b"123".to_vec(), b"new".to_vec())
    );
}

#[test]
fn they_have_a_limit() {
    let db = open(&SimFs::new(1));
    let tree = db.default_tree();
    let (most, more) = (vec![1; ATTRIBUTES_LEN_MAX], vec![1; ATTRIBUTES_LEN_MAX + 1]);
    for value in [&b"small"[..], &[7; 5000]] {
        tree.put_opts("key", value, &PutOptions::default().attributes(&most)).unwrap();
        assert_eq!(tree.metadata("key").unwrap().unwrap().attributes, most);
        let options = PutOptions::default().attributes(&more);
        let refused =
            |result: esker::Result<()>| assert_eq!(result.unwrap_err().kind(), ErrorKind::InvalidInput);
        refused(tree.put_opts("key", value, &options));
        refused(Batch::new().put_opts(tree, "key", value, &options));
        refused(db.begin(TxnOptions::default()).unwrap().put_opts(tree, "key", value, &options));
        refused(tree.ingest().unwrap().put_opts("key", value, &options));
        refused(tree.ingest_unsorted().unwrap().put_opts("key", value, &options));
        refused(tree.writer("key").unwrap().set_attributes(&more));
        refused(tree.set_attributes("key", &more).map(drop));
        assert_eq!(tree.metadata("key").unwrap().unwrap().attributes, most);
    }
}

/// The key and the attributes of a stream are given at its end.
#[test]
fn a_stream_is_named_at_its_end() {
    let disk = SimFs::new(1);
    let db = open(&disk);
    let tree = db.default_tree();
    for len in [10, 5000, 3 << 20] {
        let mut writer = tree.unnamed_writer().unwrap();
        writer.add(&vec![7; len]).unwrap();
        let key = format!("of {len} bytes");
        writer.set_key("not this one").unwrap();
        writer.set_key(&key).unwrap();
        assert_eq!(writer.set_key("").unwrap_err().kind(), ErrorKind::InvalidInput);
        writer.set_attributes("etag").unwrap();
        writer.commit().unwrap();
        let metadata = tree.metadata(&key).unwrap().unwrap();
        assert_eq!((metadata.len, &metadata.attributes[..]), (len as u64, &b"etag"[..]));
        let mut nameless = tree.unnamed_writer().unwrap();
        nameless.add(&vec![7; len]).unwrap();
        assert_eq!(nameless.commit().unwrap_err().kind(), ErrorKind::InvalidInput);
        // Or a batch names it.
        let mut writer = tree.unnamed_writer().unwrap();
        writer.add(&vec![9; len]).unwrap();
        writer.set_attributes("in a batch").unwrap();
        let (stored, mut batch) = (writer.finish().unwrap(), Batch::new());
        batch.put_stored(tree, "a", &stored).unwrap();
        batch.put_stored(tree, "b", &stored).unwrap();
        db.write(&batch).unwrap();
        drop((stored, batch));
        for key in ["a", "b"] {
            let value = tree.get(key).unwrap().unwrap();
            assert_eq!((value.len(), value.attributes()), (len as u64, &b"in a batch"[..]));
        }
    }
    assert!(tree.get("not this one").unwrap().is_none());
    db.close().unwrap();
    let db = open(&disk);
    settle(&db);
    assert_eq!(db.default_tree().get("b").unwrap().unwrap().bytes().unwrap()[..], vec![9; 3 << 20][..]);
    assert_eq!(db.stats().unwrap().blob_values, 3);
    db.close().unwrap();
    assert_eq!(esker::check(STORE, &options(&disk)).unwrap().findings, []);
}

#[test]
fn encoded_batches_bulk_loads_and_followers_have_them() {
    let disk = SimFs::new(1);
    let db = open(&disk);
    let tree = db.default_tree();
    let staging = Staging::new(&db.create_tree("staged", TreeOptions::default().group("g")).unwrap());
    let held = db.create_tree("held", TreeOptions::default().group("g")).unwrap();
    let staged = staging.put("id", vec![3; LEN]).unwrap();
    let mut batch = Batch::new();
    batch.put_opts(tree, "small", "1", &with("one").expires_us(YEAR_3000)).unwrap();
    batch.put_opts(tree, "only attributes", "1", &with("two")).unwrap();
    batch.put_staged_opts(&held, "huge", &staged, &with("three")).unwrap();
    let trees: [&Tree; 2] = [tree, &held];
    let bytes =
        batch.encode(|name| trees.iter().position(|tree| tree.name() == name).map(|at| at as u32)).unwrap();
    let mut decoded =
        Batch::decode(&bytes, |slot| trees.get(slot as usize).map(|tree| (*tree).clone())).unwrap();
    assert!(decoded.attach(&staged).unwrap());
    let mut updates = db.updates_since(0).unwrap();
    while updates.next().unwrap().is_some() {}
    db.write(&decoded).unwrap();
    let seen: Vec<_> = updates.next().unwrap().unwrap().changes;
    let told = seen.iter().filter_map(|change| match &change.what {
        What::Put(key, value) => Some((key.clone(), value.attributes().to_vec())),
        _ => None,
    });
    let expected = [("small", "one"), ("only attributes", "two"), ("huge", "three")];
    let expected =
        expected.map(|(key, attributes)| (key.as_bytes().to_vec(), attributes.as_bytes().to_vec()));
    assert_eq!(told.collect::<Vec<_>>(), expected);
    assert_eq!(held.metadata("huge").unwrap().unwrap().attributes, b"three");
    let small = tree.metadata("small").unwrap().unwrap();
    assert_eq!((small.expires_us, &small.attributes[..]), (Some(YEAR_3000), &b"one"[..]));
    let mut ingest = tree.ingest().unwrap();
    ingest.put_opts("x", "1", &with("four")).unwrap();
    ingest.put_opts("y", vec![1; LEN], &with("five").expires_us(YEAR_3000)).unwrap();
    ingest.commit().unwrap();
    let mut ingest = tree.ingest_unsorted().unwrap();
    ingest.put_opts("z", vec![1; LEN], &with("six")).unwrap();
    ingest.put_opts("w", "1", &PutOptions::default().expires_us(YEAR_3000)).unwrap();
    ingest.commit().unwrap();
    for (key, attributes, expires_us) in
        [("x", "four", None), ("y", "five", Some(YEAR_3000)), ("z", "six", None), ("w", "", Some(YEAR_3000))]
    {
        let metadata = tree.metadata(key).unwrap().unwrap();
        assert_eq!(
            (&metadata.attributes[..], metadata.expires_us),
            (attributes.as_bytes(), expires_us),
            "{key}"
        );
    }
}
