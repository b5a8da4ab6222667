//! Exports and imports that are cut off by power or by a disk that fails, and directories that are not what they should be.

use std::path::{Path, PathBuf};

use esker::fs::FileSystem;
use esker::fs::sim::{Fault, FaultError, Op, SimFs};
use esker::{Db, ErrorKind, ScanRange, Tree, TreeOptions};

use crate::common::export_import::{DIR, HUGE, OTHER, Pairs, STORE, filled, left_over, open, options};
use crate::common::{contents, settle, tables};

/// The directory is a whole store with the tree, and sound.
fn is_whole(disk: &SimFs, pairs: &Pairs) {
    assert_eq!(esker::check(DIR, &options(disk)).unwrap().findings, []);
    let fork = disk.fork();
    let db = open(&fork, DIR);
    assert!(contents(&db.open_tree("t").unwrap().unwrap()) == *pairs);
}

/// Whether there is an export, which then is whole; the store is, in any case.
fn export_is_whole_or_none(disk: &SimFs, pairs: &Pairs) -> bool {
    let made = match Db::open(DIR, options(&disk.fork()).create(false)) {
        Ok(_) => {
            is_whole(disk, pairs);
            true
        }
        Err(error) => {
            // Without the manifest, all the other files may be there.
            let is_none = matches!(error.kind(), ErrorKind::NotFound | ErrorKind::Corruption);
            assert!(is_none && !error.message().contains("a table"), "{error}");
            false
        }
    };
    let db = open(disk, STORE);
    assert!(!disk.exists(Path::new("/store/backup.tmp")).unwrap(), "links stay");
    db.close().unwrap();
    assert_eq!(esker::check(STORE, &options(disk)).unwrap().findings, []);
    made
}

#[test]
fn a_power_cut_leaves_the_export_whole_or_no_store() {
    let (disk, db, pairs) = filled(1);
    let begin = disk.operations();
    db.export_tree("t", DIR).unwrap();
    let calls = disk.operations() - begin;
    // What it has returned from survives.
    is_whole(&disk.crash_keeping(0.0, 1), &pairs);
    let mut made = 0;
    for call in 0..calls {
        let (disk, db, _) = filled(1);
        disk.set_crash_after(Some(begin + call));
        let result = db.export_tree("t", DIR);
        assert!(result.is_err() || call + 8 > calls, "call {call} of {calls}");
        drop(db);
        let found = match call % 3 {
            // What is lost here makes the difference.
            _ if call + 4 > calls => {
                [disk.kill()].into_iter().chain((0..20).map(|seed| disk.crash(seed))).collect()
            }
            0 => vec![disk.kill()],
            1 => vec![disk.crash_keeping(1.0, call)],
            _ => vec![disk.crash(call)],
        };
        made += found.iter().filter(|disk| export_is_whole_or_none(disk, &pairs)).count();
    }
    assert!(made > 0, "no crash came behind the last rename");
}

#[test]
fn a_power_cut_leaves_an_import_whole_or_nothing_of_it() {
    let (disk, db, pairs) = filled(2);
    db.export_tree("t", DIR).unwrap();
    db.close().unwrap();
    let prepare = || {
        let disk = disk.crash_keeping(0.0, 1);
        let other = open(&disk, OTHER);
        let mine = other.tree("mine").unwrap();
        (0..50_u32).for_each(|number| mine.put(number.to_be_bytes(), vec![1; 2000]).unwrap());
        other.sync().unwrap();
        (disk, other, contents(&mine))
    };
    let (probe, other, _) = prepare();
    let begin = probe.operations();
    other.import_tree(DIR, "t").unwrap();
    let calls = probe.operations() - begin;
    let mut made = 0;
    for call in 0..calls {
        let (disk, other, mine) = prepare();
        disk.set_crash_after(Some(begin + call));
        let result = other.import_tree(DIR, "t");
        assert!(result.is_err() || call + 5 > calls, "call {call} of {calls}");
        drop((result, other));
        let disk = match call % 3 {
            0 => disk.kill(),
            1 => disk.crash_keeping(1.0, call),
            _ => disk.crash(call),
        };
        let other = open(&disk, OTHER);
        assert!(contents(&other.tree("mine").unwrap()) == mine, "call {call}");
        if let Some(tree) = other.open_tree("t").unwrap() {
            assert!(contents(&tree) == pairs, "call {call}");
            drop(tree);
            other.drop_tree("t").unwrap();
            made += 1;
        }
        settle(&other);
        other.compact().unwrap();
        other.drop_tree("mine").unwrap();
        settle(&other);
        assert_eq!((tables(&disk, OTHER), other.stats().unwrap().blob_values), (0, 0), "call {call}");
        other.close().unwrap();
        open(&disk, OTHER).close().unwrap();
        let is_value =
            |path: &&std::path::PathBuf| path.starts_with(OTHER) && path.extension() == Some("blob".as_ref());
        assert_eq!(disk.paths().iter().filter(is_value).count(), 0, "call {call}");
        assert_eq!(left_over(&disk, OTHER), Vec::<std::path::PathBuf>::new(), "call {call}");
        is_whole(&disk, &pairs);
    }
    assert!(made > 0, "no crash came behind the edit");
}

/// Links to another file system are refused: the files are copied, and the report says so.
#[test]
fn where_links_are_refused_files_are_copied() {
    let (disk, db, pairs) = filled(3);
    let linked = db.export_tree("t", "/linked").unwrap();
    disk.inject(Fault::new(Op::Link, ".").nth(1).error(FaultError::OtherDevice));
    let copied = db.export_tree("t", DIR).unwrap();
    assert_eq!((copied.files, copied.bytes), (linked.files, linked.bytes));
    assert_eq!((copied.copied_files, copied.copied_bytes), (linked.files, linked.bytes));
    assert_eq!((linked.copied_files, linked.copied_bytes), (0, 0));
    is_whole(&disk.crash_keeping(0.0, 1), &pairs);
    assert!(!disk.exists(Path::new("/store/backup.tmp")).unwrap());
    disk.inject(Fault::new(Op::Link, ".").error(FaultError::OtherDevice).forever());
    let (tree, copied) = db.import_tree(DIR, "again").unwrap();
    assert_eq!(copied.copied_files, copied.files);
    assert!(contents(&tree) == pairs);
    disk.clear_faults();
    drop(tree);
    let disk = disk.crash_keeping(0.0, 1);
    assert!(contents(&open(&disk, STORE).open_tree("again").unwrap().unwrap()) == pairs);
}

/// Whatever call fails, the store goes on and nothing is left behind.
#[test]
fn a_disk_that_fails_costs_the_export_or_the_import_alone() {
    for (op, error) in [
        (Op::Link, FaultError::Io),
        (Op::Create, FaultError::NoSpace),
        (Op::Append, FaultError::NoSpace),
        (Op::SyncDir, FaultError::Io),
        (Op::Read, FaultError::Io),
    ] {
        for nth in 1..30 {
            let (disk, db, pairs) = filled(4);
            disk.inject(Fault::new(op, DIR).nth(nth).error(error));
            let exported = db.export_tree("t", DIR);
            let hit = disk.faults_hit() > 0;
            disk.clear_faults();
            // Without room for a copy of the manifest there is none.
            let has = |name: &str| disk.exists(&Path::new(DIR).join(name)).unwrap();
            let lacks_copy = matches!(error, FaultError::NoSpace)
                && has("manifest-000001")
                && !has("manifest-000001.copy");
            assert!(hit != exported.is_ok() || lacks_copy, "{op:?} {nth}");
            if exported.is_err() {
                assert!(!disk.exists(Path::new(DIR)).unwrap(), "{op:?} {nth}");
                db.export_tree("t", DIR).unwrap();
            }
            is_whole(&disk, &pairs);
            let tree = db.open_tree("t").unwrap().unwrap();
            tree.put("000", "still").unwrap();
            let before = disk.paths();
            disk.inject(Fault::new(op, "/").nth(nth).error(error));
            let imported = db.import_tree(DIR, "again");
            let hit_again = disk.faults_hit() > 0;
            disk.clear_faults();
            match imported {
                Ok((again, _)) => assert!(contents(&again) == pairs),
                Err(_) => {
                    assert!(hit_again && db.open_tree("again").unwrap().is_none(), "{op:?} {nth}");
                    let after = disk.paths();
                    let new = after.iter().filter(|path| !before.contains(path));
                    let is_poisoned = tree.put("000", "still").is_err();
                    assert!(is_poisoned || new.count() == 0, "{op:?} {nth}");
                }
            }
            if !hit && !hit_again {
                break;
            }
        }
    }
}

#[test]
fn what_is_no_export_is_refused() {
    let (disk, db, pairs) = filled(5);
    let refused = |dir: &str, name: &str| db.import_tree(dir, name).unwrap_err();
    assert_eq!(refused("/nowhere", "x").kind(), ErrorKind::NotFound);
    assert_eq!(refused(STORE, "x").kind(), ErrorKind::Locked);
    assert_eq!(db.export_tree("none", DIR).unwrap_err().kind(), ErrorKind::NotFound);
    assert!(!disk.exists(Path::new(DIR)).unwrap());
    db.export_tree("t", DIR).unwrap();
    assert_eq!(db.export_tree("t", DIR).unwrap_err().kind(), ErrorKind::AlreadyExists);
    assert_eq!(refused(DIR, "others").kind(), ErrorKind::AlreadyExists);
    assert_eq!(refused(DIR, "").kind(), ErrorKind::InvalidInput);
    is_whole(&disk, &pairs);

    let several = open(&disk, OTHER);
    several.tree("a").unwrap().put("k", "v").unwrap();
    several.tree("b").unwrap();
    assert_eq!(refused(OTHER, "x").kind(), ErrorKind::Locked);
    several.close().unwrap();
    let error = refused(OTHER, "x");
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    assert!(error.message().contains("a, b") && error.message().contains("export"), "{error}");
    let several = open(&disk, OTHER);
    several.drop_tree("b").unwrap();
    several.tree("a").unwrap().put("late", "v").unwrap();
    several.close().unwrap();
    let error = refused(OTHER, "x");
    assert!(error.kind() == ErrorKind::InvalidInput && error.message().contains("log"), "{error}");
    open(&disk, OTHER).close().unwrap();
    let (tree, _) = db.import_tree(OTHER, "x").unwrap();
    assert_eq!(tree.count(ScanRange::all()).unwrap(), 2);
}

#[test]
fn a_table_that_was_cut_is_not_imported() {
    let (disk, db, _) = filled(6);
    db.export_tree("t", DIR).unwrap();
    let is_table =
        |path: &std::path::PathBuf| path.starts_with(DIR) && path.extension() == Some("table".as_ref());
    let tables: Vec<_> = disk.paths().into_iter().filter(is_table).collect();
    let before = disk.paths();
    // A copy, so that the store keeps its own.
    let bytes = disk.read_all(&tables[0]).unwrap();
    disk.remove_file(&tables[0]).unwrap();
    assert_eq!(db.import_tree(DIR, "x").unwrap_err().kind(), ErrorKind::Corruption);
    disk.write_all(&tables[0], &bytes[..bytes.len() - 1]).unwrap();
    let error = db.import_tree(DIR, "x").unwrap_err();
    assert_eq!((error.kind(), error.path()), (ErrorKind::Corruption, Some(tables[0].as_path())));
    assert_eq!(disk.paths(), before);
    disk.write_all(&tables[0], &bytes).unwrap();
    db.import_tree(DIR, "x").unwrap();
}

/// Writes behind the import get greater numbers than it has, also after a crash.
#[test]
fn numbers_go_on_behind_those_of_the_import() {
    let disk = SimFs::new(7);
    let db = open(&disk, STORE);
    // With it, tables keep the numbers of their entries.
    let _moment = db.snapshot();
    let tree = db.tree("t").unwrap();
    (0..500_u32).for_each(|number| tree.put(format!("{number:03}"), "old").unwrap());
    tree.put("k", "old").unwrap();
    db.export_tree("t", DIR).unwrap();
    for logged in [true, false] {
        let dir = format!("{OTHER}{logged}");
        let other = open(&disk, &dir);
        let volatile = other.create_tree("volatile", TreeOptions::default().log(logged)).unwrap();
        volatile.put("a", "1").unwrap();
        let (tree, _) = other.import_tree(DIR, "t").unwrap();
        assert_eq!(tree.count(ScanRange::all()).unwrap(), 501);
        let read = |tree: &Tree| tree.get_vec("k").unwrap().unwrap();
        let before = other.snapshot().sequence();
        tree.put("k", "new").unwrap();
        // Who follows the store finds what came behind the import.
        let mut updates = other.updates_since(before).unwrap();
        assert!(updates.next().unwrap().is_some() && updates.next().unwrap().is_none());
        volatile.put("b", "2").unwrap();
        assert_eq!(read(&tree), b"new");
        other.sync().unwrap();
        let again = disk.crash_keeping(0.0, 1);
        let other = open(&again, &dir);
        let tree = other.open_tree("t").unwrap().unwrap();
        assert_eq!(read(&tree), b"new");
        assert_eq!(tree.count(ScanRange::all()).unwrap(), 501);
        assert_eq!(other.open_tree("volatile").unwrap().unwrap().count(ScanRange::all()).unwrap(), 2);
        tree.put("k", "newer").unwrap();
        other.compact().unwrap();
        assert_eq!(read(&tree), b"newer");
    }
}

/// What is damaged of a store with an imported tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Damage {
    /// One of the imported tables.
    Table,
    /// The manifest, but not its copy.
    Manifest,
    /// The last record of both.
    Ends,
    /// Both, from before the import on.
    Import,
    /// Both are gone.
    Both,
}

/// A store with a tree of its own and one that was imported, opened once more since or not, what is in the two, and how long
/// the manifest was before the import.
fn with_import(opens_again: bool) -> (SimFs, Pairs, Pairs, u64) {
    let (disk, db, theirs) = filled(8);
    db.export_tree("t", DIR).unwrap();
    db.close().unwrap();
    let other = open(&disk, OTHER);
    // Of the same number as the other store's tree.
    let mine = other.tree("mine").unwrap();
    (0..60_u32).for_each(|number| mine.put(number.to_be_bytes(), vec![1; 100 * (number as usize)]).unwrap());
    other.flush().unwrap();
    let is_manifest =
        |path: &PathBuf| path.starts_with(OTHER) && path.to_string_lossy().contains("manifest-");
    let len = disk.file_len(disk.paths().iter().find(|path| is_manifest(path)).unwrap()).unwrap();
    let (tree, files) = other.import_tree(DIR, "t").unwrap();
    assert!(files.files > 3);
    let pairs = contents(&mine);
    drop((tree, mine));
    if !opens_again {
        drop(other);
        return (disk.kill(), pairs, theirs, len);
    }
    other.close().unwrap();
    open(&disk, OTHER).close().unwrap();
    (disk, pairs, theirs, len)
}

/// With a manifest, or what is left of it, an imported tree gets what is left of its tables. Without one nobody knows into which
/// tree a table was imported: it is set aside and named, and no other tree gets what is in it.
#[test]
fn repair_mixes_nothing_up() {
    for damage in [Damage::Table, Damage::Manifest, Damage::Ends, Damage::Import, Damage::Both] {
        let (disk, pairs, theirs, len) = with_import(damage != Damage::Import);
        let of_other = |kind: &'static str| {
            let is_wanted =
                move |path: &Path| path.starts_with(OTHER) && path.to_string_lossy().contains(kind);
            disk.paths().into_iter().filter(move |path| is_wanted(path))
        };
        match damage {
            Damage::Table => {
                let is_imported = |path: &PathBuf| disk.link_count(path).unwrap() > 1;
                disk.flip_byte(of_other(".table").find(is_imported).unwrap(), 100, 1).unwrap();
            }
            Damage::Manifest => disk.remove_file(&of_other("manifest-").next().unwrap()).unwrap(),
            Damage::Import => of_other("manifest-").for_each(|path| disk.truncate(&path, len).unwrap()),
            Damage::Ends => of_other("manifest-").for_each(|path| {
                let last = disk.read_all(&path).unwrap().iter().rposition(|&byte| byte != 0).unwrap();
                disk.flip_byte(path, last as u64, 1).unwrap();
            }),
            Damage::Both => of_other("manifest-").for_each(|path| disk.remove_file(&path).unwrap()),
        }
        let report = esker::repair(OTHER, &options(&disk)).unwrap();
        assert_eq!(report.rebuilt, !matches!(damage, Damage::Table | Damage::Manifest));
        let other = open(&disk, OTHER);
        if matches!(damage, Damage::Both | Damage::Import) {
            let named = |loss: &esker::Loss| loss.reason.contains("import the tree again");
            assert!(report.losses.iter().any(named));
            let found: Pairs =
                other.tree_names().iter().flat_map(|name| contents(&other.tree(name).unwrap())).collect();
            assert!(found == pairs, "what was imported is in other trees");
            continue;
        }
        let left = contents(&other.open_tree("t").unwrap().unwrap());
        if damage == Damage::Table {
            assert!(!left.is_empty() && left.len() < theirs.len());
            // Where the newest version was lost, an older one is there.
            assert!(left.keys().all(|key| theirs.contains_key(key)));
        } else {
            assert!(left == theirs, "{damage:?}: {report:?}");
        }
        assert!(contents(&other.open_tree("mine").unwrap().unwrap()) == pairs, "{damage:?}");
        settle(&other);
        other.close().unwrap();
        assert_eq!(esker::check(OTHER, &options(&disk)).unwrap().findings, [], "{damage:?}");
    }
}

/// A tree goes through several stores, and its huge values are changed in each.
#[test]
fn huge_values_are_read_under_either_name() {
    let (disk, db, pairs) = filled(9);
    db.export_tree("t", DIR).unwrap();
    let (first, files) = db.import_tree(DIR, "first").unwrap();
    db.export_tree("first", "/second").unwrap();
    let other = open(&disk, OTHER);
    let (second, again) = other.import_tree("/second", "second").unwrap();
    assert_eq!(files, again);
    // The values of either are copied, renamed and written anew where they are.
    let huge: Vec<&Vec<u8>> =
        pairs.iter().filter(|(_, value)| value.len() >= HUGE).map(|(key, _)| key).collect();
    assert!(huge.len() > 20);
    for (i, key) in huge.iter().enumerate() {
        let moved = [key.as_slice(), b"+"].concat();
        assert!(second.rename(key, &moved).unwrap());
        assert_eq!(second.get_vec(&moved).unwrap().as_ref(), pairs.get(*key));
        if i % 2 == 0 {
            first.delete(key).unwrap();
            db.open_tree("t").unwrap().unwrap().delete(key).unwrap();
        }
    }
    other.compact().unwrap();
    db.compact().unwrap();
    settle(&db);
    assert_eq!(db.scrub().unwrap().findings, []);
    assert_eq!(other.scrub().unwrap().findings, []);
    let halves = pairs.len() - huge.len().div_ceil(2);
    assert_eq!(
        (first.count(ScanRange::all()).unwrap(), second.count(ScanRange::all()).unwrap()),
        (halves as u64, pairs.len() as u64)
    );
    for (key, value) in contents(&first) {
        assert!(pairs[&key] == value);
    }
}

/// Without a merge.
#[test]
fn the_space_of_what_is_written_over_after_an_import_comes_back() {
    let (disk, db, pairs) = filled(10);
    // One table more on the newest level would be a merge's turn otherwise.
    db.compact().unwrap();
    db.export_tree("t", DIR).unwrap();
    let other = open(&disk, OTHER);
    let (tree, _) = other.import_tree(DIR, "t").unwrap();
    let huge = pairs.iter().filter(|(_, value)| value.len() >= HUGE);
    assert_eq!(other.stats().unwrap().blob_values, huge.clone().count() as u64);
    huge.for_each(|(key, _)| tree.put(key, "small").unwrap());
    settle(&other);
    assert_eq!((other.stats().unwrap().blob_values, other.stats().unwrap().merges), (0, 0));
}
