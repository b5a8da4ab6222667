use std::path::Path;
use std::time::Duration;

use super::*;
use crate::db::Db;
use crate::env::{Env, JobKind, Reached, StepExecutor};
use crate::fs::sim::SimFs;
use crate::keys;
use crate::options::{CompactionStyle, ExpiryClock, Options, TreeOptions};
use crate::ranges::{KeyRange, RangeTombstone};
use crate::rng::Rng;
use crate::tree::Tree;

/// The description of a tree in memory, or in the manifest.
#[derive(Debug, PartialEq)]
struct Described {
    name: String,
    lineage: TreeId,
    options: TreeOptions,
    tag: Option<String>,
    operand_times: bool,
    /// The greatest time that flushed writes have carried, if the tree has its own time.
    time_us: Option<u64>,
    range: KeyRange,
    ranges: Vec<RangeTombstone>,
    tables: BTreeMap<(usize, FileId), TableInfo>,
}

/// Trees, and how many levels name each table file.
type AllDescribed = (BTreeMap<TreeId, Described>, BTreeMap<FileId, usize>);

/// The state in memory. Of range tombstones only the flushed ones, as the manifest has only these.
fn in_memory(versions: &Versions, known: &ManifestState) -> AllDescribed {
    let described = |tree: &Arc<TreeInner>| {
        let state = tree.state.load();
        let flushed = known.trees.get(&tree.id).map_or(0, |record| record.flushed);
        Described {
            name: tree.name.clone(),
            lineage: tree.lineage,
            options: tree.options(),
            tag: tree.tag.lock().clone(),
            operand_times: tree.operand_times.are_noted(),
            time_us: tree.own_time.as_ref().map(|own| own.flushed()),
            range: state.key_bounds.range.clone(),
            ranges: state.ranges.list().into_iter().filter(|one| one.seq <= flushed).collect(),
            tables: (state.levels.tables())
                .map(|(level, table)| ((level, table.info.file), table.info.clone()))
                .collect(),
        }
    };
    let trees = versions.trees().map(|tree| (tree.id, described(tree))).collect();
    (trees, versions.files.iter().map(|(&file, (_, count))| (file, *count)).collect())
}

/// The same by the manifest.
fn on_disk(known: &ManifestState) -> AllDescribed {
    let mut files = BTreeMap::new();
    known.tables.keys().for_each(|(_, _, file)| *files.entry(*file).or_default() += 1);
    let described = |(&tree, record): (&TreeId, &crate::version::tree_record::TreeRecord)| {
        let tables = known.tables_of(tree);
        let described = Described {
            name: record.name.clone(),
            lineage: record.lineage,
            options: record.options.clone(),
            tag: record.tag.clone(),
            operand_times: record.operand_times,
            time_us: (record.options.expiry_clock == ExpiryClock::Writes).then_some(record.time_us),
            range: record.range.clone(),
            ranges: record.ranges().collect(),
            tables: tables.map(|(level, info)| ((usize::from(level), info.file), info.clone())).collect(),
        };
        (tree, described)
    };
    (known.trees.iter().map(described).collect(), files)
}

/// Checks that memory agrees with the manifest; returns the state.
fn agreed(db: &Db, seed: u64) -> AllDescribed {
    let versions = db.store().versions().lock();
    let known = versions.known().unwrap();
    let memory = in_memory(&versions, known);
    assert_eq!(memory, on_disk(known), "seed {seed}");
    let names: Vec<(&str, TreeId)> = versions.by_name().map(|(name, tree)| (name, tree.id)).collect();
    let mut known_names: Vec<(&str, TreeId)> =
        known.trees.iter().map(|(&tree, record)| (record.name.as_str(), tree)).collect();
    known_names.sort_unstable();
    assert_eq!(names, known_names, "seed {seed}");
    assert!(versions.next_tree() >= known.next_tree, "seed {seed}: a number would be given out again");
    let is_there = |file: &FileId| db.store().blobs().get(*file).is_some();
    assert!(known.blobs.live.keys().all(is_there), "seed {seed}: a blob file is missing");
    assert!(!known.blobs.removed.keys().any(is_there), "seed {seed}: a blob file was removed");
    memory
}

fn open(disk: &SimFs) -> Db {
    let env = Env { fs: Arc::new(disk.clone()), executor: Some(Arc::new(StepExecutor)), ..Env::system() };
    let mut options = Options::default().memory_budget(8 << 20).separate_at(256).env(env).create(true);
    options.table_bytes = 2 << 10;
    Db::open("/store", options).unwrap()
}

/// A random history of one store.
struct History {
    rng: Rng,
    db: Db,
    /// How many trees were made. It makes their names unique.
    made: u32,
    splits: u32,
}

impl History {
    fn key(&mut self) -> Vec<u8> {
        vec![b'a' + self.rng.index(8) as u8, b'a' + self.rng.index(8) as u8]
    }

    fn new_name(&mut self) -> String {
        self.made += 1;
        format!("tree {}", self.made)
    }

    fn tree(&mut self) -> Tree {
        let names = self.db.tree_names();
        self.db.open_tree(&names[self.rng.index(names.len())]).unwrap().unwrap()
    }

    /// Keys that the tree does not have are refused: of a tree that was split.
    fn write(&mut self, tree: &Tree) {
        let tree = tree.at_us(self.rng.below(1000));
        for _ in 0..self.rng.index(20) {
            let (key, huge) = (self.key(), self.rng.index(8) == 0);
            let value = vec![b'v'; if huge { 300 } else { 10 + self.rng.index(50) }];
            let _refused = match self.rng.index(10) {
                0 => tree.delete_range(key.clone()..self.key()),
                1 | 2 => tree.delete(&key),
                _ => tree.put(&key, value),
            };
        }
    }

    fn ingest(&mut self, tree: &Tree) {
        let mut ingest = tree.ingest_unsorted().unwrap();
        for _ in 0..self.rng.index(20) {
            ingest.put(self.key(), "ingested").unwrap();
        }
        let _refused = ingest.commit();
    }

    fn set(&mut self, tree: &Tree) {
        let styles = [CompactionStyle::Leveled, CompactionStyle::Tiered, CompactionStyle::LazyLeveled];
        if self.rng.index(4) == 0 {
            // Keys that the tree does not have are refused.
            let _refused = tree.put_for("bb", keys::i64(0), Duration::from_secs(1000));
            let _refused = tree.add("bb", 1);
        } else if self.rng.index(2) == 0 {
            tree.set_tag(&format!("tag {}", self.rng.index(9))).unwrap();
        } else {
            tree.set_options(tree.options().compaction(styles[self.rng.index(3)])).unwrap();
        }
    }

    fn port(&mut self, tree: &Tree) {
        let (name, db) = (self.new_name(), self.db.clone());
        let dir = format!("/{name}");
        db.export_tree(tree.name(), &dir).unwrap();
        if self.rng.index(2) == 0 && tree.name() != "default" {
            db.drop_tree(tree.name()).unwrap();
        }
        db.import_tree(Path::new(&dir), &name).unwrap();
    }

    fn step(&mut self) {
        let (tree, db) = (self.tree(), self.db.clone());
        match self.rng.index(24) {
            0 => {
                let clocks = [ExpiryClock::Store, ExpiryClock::Writes];
                let options = TreeOptions::default().expiry_clock(clocks[self.rng.index(2)]);
                let options = options.log(self.rng.index(4) > 0);
                drop(db.create_tree(&self.new_name(), options).unwrap());
            }
            1 if tree.name() != "default" => db.drop_tree(tree.name()).unwrap(),
            2 => {
                let (at, name) = (self.key(), self.new_name());
                // The key may not belong to the tree.
                self.splits += u32::from(db.split(&tree, at, &name).is_ok());
            }
            3 => self.set(&tree),
            4 => self.ingest(&tree),
            5 => self.port(&tree),
            6 => db.compact().unwrap(),
            7..=9 => db.flush().unwrap(),
            10..=14 => drop(JobKind::ALL.map(|job| db.step(job))),
            _ => self.write(&tree),
        }
    }
}

#[test]
fn memory_is_what_the_manifest_says_and_what_an_opening_finds() {
    let mut splits = 0;
    for seed in 0..12 {
        let disk = SimFs::new(seed);
        disk.set_writeback(0.0);
        let mut history = History { rng: Rng::new(seed), db: open(&disk), made: 0, splits: 0 };
        for _ in 0..3 {
            for _ in 0..60 {
                history.step();
                agreed(&history.db, seed);
            }
            history.db.flush().unwrap();
            let memory = agreed(&history.db, seed);
            history.db.close().unwrap();
            history.db = open(&disk);
            assert_eq!(agreed(&history.db, seed), memory, "seed {seed}");
        }
        splits += history.splits;
    }
    assert!(splits > 12, "{splits} splits");
}

#[test]
fn tables_of_a_tree_that_was_dropped_meanwhile_are_nobodys() {
    let disk = SimFs::new(1);
    let db = open(&disk);
    let tree = db.tree("gone").unwrap();
    tree.put("key", "value").unwrap();
    db.flush().unwrap();
    let id = tree.inner().id;
    let (level, table) = tree
        .inner()
        .state
        .load()
        .levels
        .tables()
        .map(|(level, table)| (level as u8, table.info.clone()))
        .next()
        .unwrap();
    let held = Arc::clone(tree.inner().state.load().levels.tables().next().unwrap().1);
    db.drop_tree("gone").unwrap();
    let mut versions = db.store().versions().lock();
    assert!(!versions.has_table(table.file));
    let new = TableInfo { file: table.file + 100, ..table.clone() };
    let change = VersionEdit::of(vec![
        Edit::RemoveTable { tree: id, level, file: table.file },
        Edit::AddTable { tree: id, level: 6, table: table.clone() },
        Edit::AddTable { tree: id, level: 6, table: new.clone() },
        Edit::Clock(Reached { us: 1, ..Reached::default() }),
    ]);
    let commit = |manifest: &mut Manifest, edits: &[Edit]| {
        assert_eq!(edits, [Edit::Clock(Reached { us: 1, ..Reached::default() })]);
        manifest.commit(edits)
    };
    let applied = versions.apply(&change, commit, || ()).unwrap();
    // The old one has readers still: it goes with the last of them.
    assert_eq!(applied.orphans, [new.file]);
    assert!(applied.changed.is_empty() && applied.dropped.is_empty());
    drop((versions, held));
    agreed(&db, 1);
}

#[test]
fn nothing_is_shown_that_is_not_durable() {
    let db = open(&SimFs::new(1));
    let mut versions = db.store().versions().lock();
    let tree = versions.next_tree();
    let edit = Edit::CreateTree { tree, name: "new".to_owned(), options: TreeOptions::default() };
    let change = VersionEdit::of(vec![edit]);
    let fails = |_: &mut Manifest, _: &[Edit]| Err(Error::new(ErrorKind::OutOfSpace, "full"));
    let error = versions.apply(&change, fails, || ()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::OutOfSpace);
    assert!(versions.find("new").is_none() && versions.next_tree() == tree);
    drop(versions);
    agreed(&db, 1);
}
