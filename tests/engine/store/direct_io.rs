//! Tables past the operating system's cache: the same store, and a clear word where that cannot be.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use esker::env::{Env, StepExecutor};
use esker::fs::FileSystem;
use esker::fs::sim::SimFs;
use esker::{Compression, Db, ErrorKind, Options, ScanRange, Tree, TreeOptions};

use crate::common::{Rng, contents, seeds, settle, tiny_options, world};

type Pairs = BTreeMap<Vec<u8>, Vec<u8>>;

/// Opens the store on the real disk, if that can do without its cache.
fn open(dir: &Path, options: &Options) -> Option<Db> {
    match Db::open(dir, options.clone()) {
        Err(error) if error.kind() == ErrorKind::Unsupported => {
            println!("not tested: {error}");
            None
        }
        opened => Some(opened.unwrap()),
    }
}

/// Some puts and deletes, values of up to 100,000 bytes among them, and what gets and scans then find.
fn change(tree: &Tree, model: &mut Pairs, rng: &mut Rng) {
    for _ in 0..rng.below(400) {
        let key = format!("{:03}", rng.below(300)).into_bytes();
        if rng.one_in(5) {
            tree.delete(&key).unwrap();
            model.remove(&key);
        } else {
            let len = if rng.one_in(50) { rng.below(100_000) } else { rng.below(900) };
            let mut value = rng.bytes(len as usize);
            value.iter_mut().for_each(|byte| *byte &= 15);
            tree.put(&key, &value).unwrap();
            model.insert(key, value);
        }
    }
    for _ in 0..50 {
        let key = format!("{:03}", rng.below(300)).into_bytes();
        assert_eq!(tree.get_vec(&key).unwrap(), model.get(&key).cloned());
    }
}

#[test]
fn a_store_without_the_systems_cache_is_the_same() {
    for seed in seeds(4) {
        println!("seed {seed}");
        let mut rng = Rng::new(seed);
        let dir = tempfile::tempdir().unwrap();
        let env = Env { executor: Some(Arc::new(StepExecutor)), ..Env::system() };
        let mut options = tiny_options(&mut rng, env);
        options.separate_at = *rng.pick(&[20_000, usize::MAX]);
        let mut model = Pairs::new();
        for round in 0..rng.below(8) + 2 {
            // The option is no property of the store: it may change with each opening.
            options.direct_io = round == 0 || !rng.one_in(3);
            let Some(db) = open(dir.path(), &options) else { return };
            let compression = *rng.pick(&[Compression::None, Compression::Lz4]);
            let tree = match db.tree("t") {
                Ok(tree) => tree,
                Err(_) => db.create_tree("t", TreeOptions::default().compression(compression)).unwrap(),
            };
            assert_eq!(contents(&tree), model);
            for _ in 0..3 {
                change(&tree, &mut model, &mut rng);
                settle(&db);
                if rng.one_in(3) {
                    db.flush().unwrap();
                }
            }
            if rng.one_in(3) {
                db.compact().unwrap();
            }
            assert_eq!(contents(&tree), model);
            db.scrub().unwrap();
            assert!(db.stats().unwrap().damage.is_empty());
            db.close().unwrap();
            let reader = Db::open_read_only(dir.path(), options.clone()).unwrap();
            assert_eq!(contents(&reader.tree("t").unwrap()), model);
        }
    }
}

/// On a simulated disk.
fn options(disk: &SimFs) -> Options {
    let env = world(Arc::new(disk.clone()), 1, Some(Arc::new(StepExecutor)));
    Options::default().env(env).memory_budget(8 << 20).direct_io(true)
}

#[test]
fn a_store_in_memory_needs_no_disk() {
    let db = Db::open_in_memory(Options::default().direct_io(true)).unwrap();
    (0..1_000_u32).for_each(|i| db.put(i.to_be_bytes(), [7; 100]).unwrap());
    db.flush().unwrap();
    assert_eq!(db.default_tree().count(ScanRange::all()).unwrap(), 1_000);
}

#[test]
fn a_disk_that_refuses_is_named() {
    let disk = SimFs::new(1);
    disk.set_direct(false);
    let refused = |result: esker::Result<Db>| {
        let error = result.expect_err("the disk refuses");
        assert_eq!((error.kind(), error.path()), (ErrorKind::Unsupported, Some(Path::new("/store"))));
        assert!(error.to_string().contains("open the store without `direct_io`"), "{error}");
    };
    refused(Db::open("/store", options(&disk)));
    let db = Db::open("/store", options(&disk).direct_io(false))
        .expect("what was refused is no store, and in no way");
    db.put("a", "1").unwrap();
    db.close().unwrap();
    refused(Db::open("/store", options(&disk)));
    refused(Db::open_read_only("/store", options(&disk)));
    disk.set_direct(true);
    let db = Db::open("/store", options(&disk)).unwrap();
    assert_eq!(db.get_vec("a").unwrap().as_deref(), Some(&b"1"[..]));
}

/// A disk that changes its mind tells who asks.
#[test]
fn tables_are_written_and_read_past_the_cache() {
    let disk = SimFs::new(1);
    let db = Db::open("/store", options(&disk)).unwrap();
    db.put("a", "1").unwrap();
    db.flush().unwrap();
    db.close().unwrap();
    let db = Db::open("/store", options(&disk)).unwrap();
    disk.set_direct(false);
    assert_eq!(db.get_vec("a").expect_err("a table is to be opened").kind(), ErrorKind::Unsupported);
    db.put("b", "2").unwrap();
    assert_eq!(db.flush().expect_err("a table is to be created").kind(), ErrorKind::Unsupported);
    assert!(disk.exists(Path::new("/store")).unwrap());
}
