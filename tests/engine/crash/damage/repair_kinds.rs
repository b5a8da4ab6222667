//! `repair` of stores with something of every kind: times at which values end, ranges that were deleted, values with
//! several keys, values that were merged into, tags.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use esker::env::JobKind;
use esker::fs::FileSystem;
use esker::fs::sim::SimFs;
use esker::{Db, RepairReport, ScanRange, Tree};

use crate::damage::store::{STORE, options};
use crate::damage::verdict::files;

const HOUR: Duration = Duration::from_secs(3600);

type Expected = BTreeMap<String, Vec<u8>>;

fn put(tree: &Tree, expected: &mut Expected, key: String, value: &[u8]) {
    tree.put(&key, value).unwrap();
    expected.insert(key, value.to_vec());
}

fn delete_prefix(tree: &Tree, expected: &mut Expected, prefix: &str) {
    tree.delete_range(ScanRange::prefix(prefix)).unwrap();
    expected.retain(|key, _| !key.starts_with(prefix));
}

fn append(tree: &Tree, expected: &mut Expected, key: &str, bytes: &[u8]) {
    tree.append(key, bytes).unwrap();
    expected.entry(key.to_owned()).or_default().extend(bytes);
}

/// A store that was closed, and what must be in it. The deletion of `key00` is in the manifest, that of `key01` in
/// the log alone.
fn build() -> (SimFs, Expected) {
    let (disk, mut expected) = (SimFs::new(7), Expected::new());
    let db = Db::open(STORE, options(&disk)).unwrap();
    let tree = db.default_tree();
    tree.set_tag("a tag").unwrap();
    for i in 0..100 {
        put(tree, &mut expected, format!("key{i:03}"), &[i; 20]);
    }
    for i in 0..20 {
        let value = vec![i; if i % 2 == 0 { 700 } else { 20 }];
        tree.put_for(format!("until{i:02}"), &value, HOUR).unwrap();
        expected.insert(format!("until{i:02}"), value.clone());
        tree.put_for(format!("over{i:02}"), &value, Duration::ZERO).unwrap();
    }
    put(tree, &mut expected, "huge".to_owned(), &[7; 2000]);
    tree.copy("huge", "copy").unwrap();
    expected.insert("copy".to_owned(), vec![7; 2000]);
    put(tree, &mut expected, "list".to_owned(), b"one ");
    append(tree, &mut expected, "list", b"two ");
    db.flush().unwrap();
    delete_prefix(tree, &mut expected, "key00");
    put(tree, &mut expected, "key005".to_owned(), b"again");
    append(tree, &mut expected, "list", b"three ");
    append(tree, &mut expected, "list", b"four ");
    db.flush().unwrap();
    db.close().unwrap();
    // The manifest of this opening begins with all of that.
    let db = Db::open(STORE, options(&disk)).unwrap();
    let tree = db.default_tree();
    put(tree, &mut expected, "later".to_owned(), b"in a table");
    db.flush().unwrap();
    delete_prefix(tree, &mut expected, "key01");
    append(tree, &mut expected, "list", b"five ");
    db.close().unwrap();
    (disk, expected)
}

/// The manifest and its copy.
fn manifests(disk: &SimFs) -> Vec<PathBuf> {
    let is_manifest =
        |path: &PathBuf| path.strip_prefix(STORE).unwrap().to_string_lossy().starts_with("manifest-");
    files(disk).into_iter().filter(is_manifest).collect()
}

/// Damages the last record of either.
fn damage_ends(disk: &SimFs) {
    for path in manifests(disk) {
        let bytes = disk.read_all(&path).unwrap();
        let last = bytes.iter().rposition(|&byte| byte != 0).unwrap();
        disk.flip_byte(&path, last as u64, 1).unwrap();
    }
}

/// Repairs the store and opens it; values that end keep their ends.
fn repaired(disk: &SimFs) -> (RepairReport, Db) {
    let report = esker::repair(STORE, &options(disk)).unwrap();
    assert!(!report.losses.is_empty());
    let db = Db::open(STORE, options(disk)).unwrap();
    for pair in db.scan(ScanRange::all()).unwrap() {
        let (key, _) = pair.unwrap();
        let expires = db.get(&key).unwrap().unwrap().expires_us();
        assert_eq!(expires.is_some(), key.starts_with(b"until"), "{}", key.escape_ascii());
    }
    (report, db)
}

fn content(db: &Db) -> Expected {
    let pairs = db.scan(ScanRange::all()).unwrap().map(Result::unwrap);
    pairs.map(|(key, value)| (String::from_utf8(key).unwrap(), value)).collect()
}

/// Two keys have one value, which goes with the last of them.
fn copies_live_apart(disk: &SimFs, db: &Db) {
    let values = || db.stats().unwrap().blob_values;
    let before = values();
    for (key, left) in [("huge", before), ("copy", before - 1)] {
        db.delete(key).unwrap();
        while JobKind::ALL.iter().any(|&job| db.step(job)) {}
        assert_eq!(values(), left, "{key}");
    }
    db.close().unwrap();
    assert_eq!(esker::check(STORE, &options(disk)).unwrap().findings, []);
}

#[test]
fn under_a_sound_manifest_everything_keeps_its_kind() {
    let (whole, expected) = build();
    for path in files(&whole).into_iter().filter(|path| path.to_string_lossy().ends_with(".table")) {
        let disk = whole.fork();
        disk.flip_byte(&path, 10, 1).unwrap();
        let (report, db) = repaired(&disk);
        assert!(!report.rebuilt, "{report:?}");
        assert_eq!(db.default_tree().tag().as_deref(), Some("a tag"));
        let named = |key: &str| {
            let mut ranges = report.losses.iter().filter_map(|loss| loss.keys.as_ref());
            ranges.any(|(from, to)| from.as_slice() <= key.as_bytes() && key.as_bytes() <= to.as_slice())
        };
        let found = content(&db);
        for key in expected.keys().chain(found.keys()).filter(|key| !named(key)) {
            assert_eq!(found.get(key), expected.get(key), "{key} after {report:#?}");
        }
    }
}

/// Tags, what was deleted at once, and copies of values are what tables do not tell.
#[test]
fn either_of_two_manifests_tells_everything() {
    for at in 0..2 {
        let (disk, expected) = build();
        disk.remove_file(&manifests(&disk)[at]).unwrap();
        // One that is missing beside a sound manifest had no room.
        let (is_told, report) = (at == 0, esker::repair(STORE, &options(&disk)).unwrap());
        assert_eq!((report.rebuilt, report.losses.len()), (false, usize::from(is_told)), "{report:?}");
        assert_eq!(manifests(&disk).len(), if is_told { 2 } else { 1 });
        let db = Db::open(STORE, options(&disk)).unwrap();
        assert_eq!(db.default_tree().tag().as_deref(), Some("a tag"));
        assert_eq!(content(&db), expected);
        copies_live_apart(&disk, &db);
        assert_eq!(manifests(&disk).len(), 2);
    }
}

/// Its first record knows trees, tags and ranges that were deleted.
#[test]
fn a_manifest_that_is_damaged_further_on_still_tells_what_it_began_with() {
    let (disk, expected) = build();
    damage_ends(&disk);
    let (report, db) = repaired(&disk);
    assert!(report.rebuilt);
    assert_eq!(db.default_tree().tag().as_deref(), Some("a tag"));
    assert_eq!(content(&db), expected);
    copies_live_apart(&disk, &db);
}

/// Without any of it, what is lost are tags, and ranges that were deleted before the last flush.
#[test]
fn a_lost_manifest_costs_tags_and_the_deletions_that_it_alone_knew() {
    let (disk, expected) = build();
    manifests(&disk).iter().for_each(|path| disk.remove_file(path).unwrap());
    let (report, db) = repaired(&disk);
    assert!(report.rebuilt);
    assert_eq!(db.default_tree().tag(), None);
    let found = content(&db);
    let back: Vec<&String> = found.keys().filter(|key| !expected.contains_key(*key)).collect();
    assert!(back.iter().all(|key| key.starts_with("key00")), "{back:?}");
    assert!(expected.iter().all(|(key, value)| found.get(key) == Some(value)));
    copies_live_apart(&disk, &db);
}

/// A tree that was split, both halves in one table; the manifest of the last opening begins with that.
fn build_split() -> (SimFs, [Expected; 2]) {
    let (disk, mut halves) = (SimFs::new(8), [Expected::new(), Expected::new()]);
    let db = Db::open(STORE, options(&disk)).unwrap();
    for i in 0..100_u8 {
        let half = &mut halves[usize::from(i >= 50)];
        put(db.default_tree(), half, format!("key{i:03}"), &vec![i; if i % 10 == 0 { 700 } else { 20 }]);
    }
    let new = db.split(db.default_tree(), "key050", "new").unwrap();
    put(&new, &mut halves[1], "key099".to_owned(), b"newer");
    db.close().unwrap();
    Db::open(STORE, options(&disk)).unwrap().close().unwrap();
    (disk, halves)
}

fn halves(db: &Db) -> [Expected; 2] {
    ["default", "new"].map(|name| {
        let tree = db.open_tree(name).unwrap().unwrap();
        let pairs = tree.scan(ScanRange::all()).unwrap().map(Result::unwrap);
        pairs.map(|(key, value)| (String::from_utf8(key).unwrap(), value)).collect()
    })
}

#[test]
fn halves_of_a_tree_are_mended_apart() {
    let (whole, expected) = build_split();
    // Damage in the table that both have: each loses what it is told, and gets nothing of the other.
    for path in files(&whole).into_iter().filter(|path| path.to_string_lossy().ends_with(".table")) {
        let disk = whole.fork();
        disk.flip_byte(&path, 10, 1).unwrap();
        let report = esker::repair(STORE, &options(&disk)).unwrap();
        assert!(!report.rebuilt && !report.losses.is_empty());
        let db = Db::open(STORE, options(&disk)).unwrap();
        for (found, expected) in halves(&db).iter().zip(&expected) {
            // Of the key that was written twice the older value may be what is left.
            let is_right = |(key, value): (&String, &Vec<u8>)| {
                expected.get(key).is_some_and(|held| held == value || key == "key099")
            };
            assert!(found.iter().all(is_right));
        }
        db.close().unwrap();
        assert_eq!(esker::check(STORE, &options(&disk)).unwrap().findings, []);
    }
    // A manifest that is damaged behind its beginning still tells whose keys are whose.
    damage_ends(&whole);
    let report = esker::repair(STORE, &options(&whole)).unwrap();
    assert!(report.rebuilt, "{report:?}");
    let db = Db::open(STORE, options(&whole)).unwrap();
    assert_eq!(halves(&db), expected);
    db.drop_tree("new").unwrap();
    while JobKind::ALL.iter().any(|&job| db.step(job)) {}
    assert_eq!(content(&db), expected[0]);
    db.close().unwrap();
    assert_eq!(esker::check(STORE, &options(&whole)).unwrap().findings, []);
}
