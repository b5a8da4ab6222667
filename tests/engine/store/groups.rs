//! Groups of trees: what belongs together, what is refused, and what their copies hold. `--test crash groups::` has the
//! power cuts.

use std::sync::{Arc, mpsc};

use esker::env::{Env, JobKind, StepExecutor};
use esker::fs::sim::{Fault, FaultError, Op, SimFs};
use esker::{Batch, Db, ErrorKind, FlushedTree, Listener, Options, ScanRange, Tree, TreeOptions, TreeSplit};

fn member(db: &Db, group: &str, name: &str) -> Tree {
    db.create_tree(name, TreeOptions::default().log(false).group(group)).unwrap()
}

fn names(trees: &[Tree]) -> Vec<String> {
    trees.iter().map(|tree| tree.name().to_owned()).collect()
}

fn pairs(tree: &Tree) -> Vec<(Vec<u8>, Vec<u8>)> {
    tree.scan(ScanRange::all()).unwrap().collect::<esker::Result<_>>().unwrap()
}

fn small() -> Options {
    Options::default().memory_budget(8 << 20).separate_at(1000)
}

#[test]
fn a_group_is_its_trees() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store");
    let db = Db::open(&path, small()).unwrap();
    assert!(db.group("g").is_empty() && db.group_names().is_empty());
    let (one, two) = (member(&db, "g", "one"), member(&db, "g", "two"));
    let other = member(&db, "h", "other");
    assert_eq!(names(&db.group("g")), ["one", "two"]);
    assert_eq!(db.group_names(), ["g", "h"]);

    let mut batch = Batch::new();
    batch.put(&one, "key", "1").unwrap();
    batch.put(&two, "key", "2").unwrap();
    db.write(&batch).unwrap();
    for stranger in [&other, db.default_tree()] {
        let mut mixed = batch.clone();
        mixed.put(stranger, "key", "3").unwrap();
        let error = db.write(&mixed).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
        assert!(error.message().contains("of the same group"), "{error}");
    }
    // All of them write to the log, or none does; a tree stays where it is.
    let logged = TreeOptions::default().group("g");
    assert_eq!(db.create_tree("three", logged).unwrap_err().kind(), ErrorKind::InvalidInput);
    for group in [None, Some("h".to_owned())] {
        let mut options = one.options();
        options.group = group;
        assert_eq!(one.set_options(options).unwrap_err().kind(), ErrorKind::InvalidInput);
    }
    for name in [String::new(), "g".repeat(256)] {
        let options = TreeOptions::default().group(name);
        assert_eq!(db.create_tree("three", options).unwrap_err().kind(), ErrorKind::InvalidInput);
    }

    drop((one, two, other));
    db.close().unwrap();
    let db = Db::open(&path, small()).unwrap();
    assert_eq!(names(&db.group("g")), ["one", "two"]);
    db.drop_tree("one").unwrap();
    db.drop_group("h", &[]).unwrap();
    assert_eq!(db.group_names(), ["g"]);
    assert_eq!(names(&db.group("g")), ["two"]);
    assert_eq!(db.drop_group("h", &[]).unwrap_err().kind(), ErrorKind::NotFound);
    db.drop_tree("two").unwrap();
    assert!(db.group_names().is_empty());
    // A new group may have the name.
    db.create_tree("two", TreeOptions::default().group("g")).unwrap();
}

#[test]
fn a_flush_of_one_tree_flushes_its_group() {
    let disk = SimFs::new(1);
    let on = |disk: &SimFs| {
        let executor = Some(Arc::new(StepExecutor) as _);
        small().env(Env { fs: Arc::new(disk.clone()), executor, ..Env::system() })
    };
    let db = Db::open("/store", on(&disk)).unwrap();
    let (one, two, other) = (member(&db, "g", "one"), member(&db, "g", "two"), member(&db, "h", "other"));
    for tree in [&one, &two, &other] {
        tree.put("key", "value").unwrap();
    }
    one.flush().unwrap();
    let db = Db::open("/store", on(&disk.crash_keeping(0.0, 1))).unwrap();
    let there = |name: &str| db.open_tree(name).unwrap().unwrap().contains("key").unwrap();
    assert_eq!(["one", "two", "other"].map(there), [true, true, false]);
}

#[test]
fn a_listener_hears_what_a_crash_would_leave() {
    struct Tell(mpsc::Sender<FlushedTree>);
    impl Listener for Tell {
        fn flushed(&self, trees: &[FlushedTree]) {
            trees.iter().for_each(|tree| self.0.send(tree.clone()).unwrap());
        }
    }
    let (tell, told) = mpsc::channel();
    let db = Db::open_in_memory(small().listener(Tell(tell))).unwrap();
    let (one, two) = (member(&db, "g", "one"), member(&db, "g", "two"));
    let durable = |tree: &Tree| tree.get_durable("key").unwrap().map(|value| value.into_vec().unwrap());
    assert_eq!(db.default_tree().get_durable("key").unwrap_err().kind(), ErrorKind::InvalidInput);
    for round in 1..=3_u8 {
        let mut batch = Batch::new();
        batch.put(&one, "key", vec![round; 5000]).unwrap();
        batch.put(&two, "key", [round]).unwrap();
        batch.merge(&two, "sum", esker::operators::ADD, esker::keys::i64(1)).unwrap();
        db.write(&batch).unwrap();
        let before = Some(round - 1).filter(|before| *before > 0);
        assert_eq!(durable(&one), before.map(|before| vec![before; 5000]));
        assert_eq!(durable(&two), before.map(|before| vec![before]));
        two.flush().unwrap();
        assert_eq!((durable(&one), durable(&two)), (Some(vec![round; 5000]), Some(vec![round])));
        let sum = two.get_durable("sum").unwrap().unwrap().into_vec().unwrap();
        assert_eq!(sum, esker::keys::i64(i64::from(round)));
        // The store's own thread may have flushed, and tells of it a moment later.
        let heard: Vec<FlushedTree> = told.iter().take(2).collect();
        let trees: Vec<&str> = heard.iter().map(|flushed| flushed.tree.as_str()).collect();
        assert_eq!(trees, ["one", "two"]);
        let fits = |flushed: &FlushedTree| {
            flushed.group.as_deref() == Some("g") && flushed.sequence == db.snapshot().sequence()
        };
        assert!(heard.iter().all(fits), "{heard:?}");
        db.compact().unwrap();
    }
    one.delete_range(ScanRange::all()).unwrap();
    assert_eq!(durable(&one), Some(vec![3; 5000]));
    one.flush().unwrap();
    assert_eq!(durable(&one), None);
}

#[test]
fn trees_of_a_group_share_huge_values_and_others_have_files_of_their_own() {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path().join("store"), small()).unwrap();
    let (one, two) = (member(&db, "g", "one"), member(&db, "g", "two"));
    let tenant = member(&db, "h", "tenant");
    let mut writer = one.writer("never").unwrap();
    writer.add(&vec![7; 2 << 20]).unwrap();
    let stored = writer.finish().unwrap();
    let mut batch = Batch::new();
    batch.put_stored(&one, "film", &stored).unwrap();
    batch.put_stored(&two, "film", &stored).unwrap();
    assert_eq!(batch.put_stored(&tenant, "film", &stored).unwrap_err().kind(), ErrorKind::InvalidInput);
    db.write(&batch).unwrap();
    drop((stored, batch));
    for (tree, byte) in [(&one, 1), (&tenant, 2), (&two, 3), (db.default_tree(), 4)] {
        tree.put("own", vec![byte; 5000]).unwrap();
    }
    db.flush().unwrap();
    assert_eq!(db.stats().unwrap().blob_values, 5, "the film is there once");

    // The copy has no byte of another group.
    let copy = dir.path().join("copy");
    db.export_group("g", &copy, &[("one", "at 17")]).unwrap();
    let files = std::fs::read_dir(&copy).unwrap().map(|file| file.unwrap().path());
    let mut bytes = Vec::new();
    files.filter(|file| file.is_file()).for_each(|file| bytes.extend(std::fs::read(file).unwrap()));
    let has = |byte: u8| bytes.windows(1000).any(|window| window == [byte; 1000]);
    assert_eq!([1, 2, 3, 4, 7].map(has), [true, false, true, false, true]);

    one.delete("film").unwrap();
    db.flush().unwrap();
    db.compact().unwrap();
    assert_eq!(two.get_vec("film").unwrap().unwrap(), vec![7; 2 << 20]);
    db.drop_tree("one").unwrap();
    assert_eq!(two.get_vec("film").unwrap().unwrap(), vec![7; 2 << 20]);

    let stepped = Env { executor: Some(Arc::new(StepExecutor)), ..Env::system() };
    let other = Db::open(dir.path().join("other"), small().env(stepped)).unwrap();
    let (group, files) = other.import_group(&copy, &[("two", "came")]).unwrap();
    assert_eq!((group.as_str(), files.copied_files), ("g", 0));
    let trees = other.group("g");
    assert_eq!(names(&trees), ["one", "two"]);
    assert_eq!([trees[0].tag(), trees[1].tag()].map(Option::unwrap), ["at 17", "came"]);
    for tree in &trees {
        assert_eq!(tree.get_vec("film").unwrap().unwrap(), vec![7; 2 << 20]);
    }
    assert_eq!(other.import_group(&copy, &[]).unwrap_err().kind(), ErrorKind::AlreadyExists);
    trees[0].put("film", "short").unwrap();
    let fresh = member(&other, "g", "fresh");
    other.replace_group(&copy, &[]).unwrap();
    assert_eq!(fresh.put("key", "value").unwrap_err().kind(), ErrorKind::TreeDropped);
    assert_eq!(trees[0].get("film").unwrap_err().kind(), ErrorKind::TreeDropped);
    let trees = other.group("g");
    assert_eq!(names(&trees), ["one", "two"]);
    assert_eq!(trees[0].get("film").unwrap().unwrap().len(), 2 << 20);
    other.drop_group("g", &[("default", "empty")]).unwrap();
    while other.step(JobKind::Blobs) {}
    assert_eq!(other.stats().unwrap().blob_values, 0);
    assert_eq!(other.default_tree().tag().as_deref(), Some("empty"));
}

#[test]
fn a_change_of_a_group_that_fails_changes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path().join("store"), small()).unwrap();
    let (one, two) = (member(&db, "g", "one"), member(&db, "g", "two"));
    let other = member(&db, "h", "other");
    for tree in [&one, &two, &other] {
        (b'a'..=b'z').for_each(|key| tree.put([key], [key]).unwrap());
    }
    fn split<'a>(tree: &'a Tree, name: &'a str) -> TreeSplit<'a> {
        TreeSplit { tree, at: b"m", name }
    }
    let both = [split(&one, "one 2"), split(&two, "two 2")];
    let stranger = Db::open_in_memory(small()).unwrap();
    let long = "t".repeat(5000);
    for (what, kind, done) in [
        ("no such group", ErrorKind::NotFound, db.split_group("x", "y", &both, &[])),
        ("a taken group", ErrorKind::AlreadyExists, db.split_group("g", "h", &both, &[])),
        ("its own name", ErrorKind::AlreadyExists, db.split_group("g", "g", &both, &[])),
        ("no tree", ErrorKind::InvalidInput, db.split_group("g", "y", &[], &[])),
        (
            "a stranger",
            ErrorKind::InvalidInput,
            db.split_group("g", "y", &[both[0], split(&other, "z")], &[]),
        ),
        ("twice", ErrorKind::InvalidInput, db.split_group("g", "y", &[both[0], split(&one, "z")], &[])),
        (
            "one name",
            ErrorKind::InvalidInput,
            db.split_group("g", "y", &[both[0], split(&two, "one 2")], &[]),
        ),
        ("a taken name", ErrorKind::AlreadyExists, db.split_group("g", "y", &[split(&one, "two")], &[])),
        ("a tag for none", ErrorKind::NotFound, db.split_group("g", "y", &both, &[("x", "tag")])),
        ("a long tag", ErrorKind::InvalidInput, db.split_group("g", "y", &both, &[("one 2", &long)])),
        (
            "another store",
            ErrorKind::InvalidInput,
            db.split_group("g", "y", &[split(stranger.default_tree(), "z")], &[]),
        ),
        ("a tag of what goes", ErrorKind::NotFound, db.drop_group("g", &[("one", "tag")])),
        (
            "a tag outside",
            ErrorKind::NotFound,
            db.export_group("g", dir.path().join("copy"), &[("other", "tag")]).map(drop),
        ),
        ("no copy", ErrorKind::NotFound, db.import_group(dir.path().join("none"), &[]).map(drop)),
    ] {
        let error = done.expect_err(what);
        assert_eq!(error.kind(), kind, "{what}: {error}");
    }
    assert_eq!(db.group_names(), ["g", "h"]);
    assert_eq!(db.tree_names(), ["default", "one", "other", "two"]);
    assert_eq!((one.tag(), pairs(&one).len(), pairs(&two).len()), (None, 26, 26));

    // A tree that is not split stays. Snapshots see one tree.
    let before = db.snapshot();
    db.split_group("g", "y", &[both[0]], &[("one", "low"), ("one 2", "high"), ("two", "all")]).unwrap();
    assert_eq!(
        (names(&db.group("g")), names(&db.group("y"))),
        (vec!["one".into(), "two".into()], vec!["one 2".into()])
    );
    let new = &db.group("y")[0];
    assert_eq!((pairs(&one).len(), pairs(&two).len(), pairs(new).len()), (12, 26, 14));
    assert_eq!([one.tag(), new.tag(), two.tag()].map(Option::unwrap), ["low", "high", "all"]);
    assert_eq!(one.put("z", "").unwrap_err().kind(), ErrorKind::KeyMoved);
    assert_eq!(before.scan(&one, ScanRange::all()).unwrap().count(), 26);
    let mut batch = Batch::new();
    batch.put(&one, "a", "").unwrap();
    batch.put(new, "z", "").unwrap();
    assert_eq!(db.write(&batch).unwrap_err().kind(), ErrorKind::InvalidInput, "they are two groups now");

    // A directory that is not one group's is no group.
    db.export_tree("other", dir.path().join("tree")).unwrap();
    let error = stranger.import_tree(dir.path().join("tree"), "other").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound, "a store in memory has files of its own: {error}");
    let target = Db::open(dir.path().join("target"), small()).unwrap();
    let (alone, _) = target.import_tree(dir.path().join("tree"), "alone").unwrap();
    assert_eq!((alone.options().group, pairs(&alone).len()), (None, 26));
    target.export_tree("alone", dir.path().join("alone")).unwrap();
    let error = target.import_group(dir.path().join("alone"), &[]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
    assert_eq!(
        target.replace_group(dir.path().join("alone"), &[]).unwrap_err().kind(),
        ErrorKind::InvalidInput
    );
}

/// A replacement or a drop that fails leaves the old trees with all their huge values, whatever the store does next.
#[test]
fn a_change_that_fails_frees_nothing() {
    let faults = [
        (Op::Append, FaultError::NoSpace),
        (Op::Sync, FaultError::Io),
        (Op::SyncDir, FaultError::Io),
        (Op::Link, FaultError::Io),
    ];
    let cases = faults.into_iter().flat_map(|fault| [(fault, true), (fault, false)]);
    let mut failed = 0;
    for ((op, error), replaces) in cases {
        for nth in 1.. {
            let disk = SimFs::new(nth);
            let on = |disk: &SimFs| {
                let executor = Some(Arc::new(StepExecutor) as _);
                small().env(Env { fs: Arc::new(disk.clone()), executor, ..Env::system() })
            };
            let db = Db::open("/store", on(&disk)).unwrap();
            let (one, two) = (member(&db, "g", "one"), member(&db, "g", "two"));
            one.put("film", vec![1; 5000]).unwrap();
            two.put("film", vec![2; 5000]).unwrap();
            db.export_group("g", "/copy", &[]).unwrap();
            one.put("film", vec![3; 5000]).unwrap();
            db.sync().unwrap();
            let log = db.default_tree();
            log.put("before", "the log has something to sync").unwrap();
            disk.inject(Fault::new(op, "/store").nth(nth).error(error));
            let done = match replaces {
                true => db.replace_group("/copy", &[]).map(drop),
                false => db.drop_tree("one"),
            };
            let hit = disk.faults_hit() > 0;
            disk.clear_faults();
            if done.is_err() {
                failed += 1;
                // Its own work goes on as far as it can.
                let _ = log.put("after", "more").and_then(|()| db.flush());
                JobKind::ALL.iter().for_each(|&job| while db.step(job) {});
                assert_eq!(two.get_vec("film").unwrap().unwrap(), vec![2; 5000], "{op:?} {nth}");
                assert_eq!(one.get_vec("film").unwrap().unwrap(), vec![3; 5000], "{op:?} {nth}");
                drop((one, two));
                let _ = db.close();
                let db = Db::open("/store", on(&disk.crash(nth))).unwrap();
                while db.step(JobKind::Blobs) {}
                // It may have taken effect, but not by half.
                let film = |name: &str| {
                    db.open_tree(name).unwrap().map(|tree| tree.get_vec("film").unwrap().unwrap())
                };
                let found = [film("one"), film("two")];
                let byte = |film: &Option<Vec<u8>>| film.as_ref().map(|film| film[0]);
                let bytes = found.each_ref().map(byte);
                assert!(
                    [[Some(3), Some(2)], [Some(1), Some(2)], [None, Some(2)]].contains(&bytes),
                    "{op:?} {nth}"
                );
            }
            if !hit {
                break;
            }
        }
    }
    assert!(failed > 5, "{failed}");
}
