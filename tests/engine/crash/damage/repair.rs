//! `repair` of randomly damaged stores: what is not damaged is recovered, the rest is named.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use esker::fs::FileSystem;
use esker::fs::sim::SimFs;
use esker::{Batch, Db, Loss, RepairReport, ScanRange};

use crate::common::{self, Rng};
use crate::damage::store::{EVERY_WAY, Left, STORE, build, ever_written, options};
use crate::damage::verdict::files;
use crate::history::{Bytes, Pairs, State};

/// What a repair did to one store.
#[derive(Debug, Default)]
pub(super) struct Tally {
    sound: u64,
    rebuilt: u64,
    kept: u64,
    pub(super) lost: u64,
}

pub(crate) fn kind(path: &Path) -> &'static str {
    let name = path.file_name().unwrap().to_string_lossy();
    let kinds = ["manifest-", "wal-", ".table", ".blob"];
    kinds.into_iter().find(|kind| name.contains(kind)).unwrap_or("")
}

/// Damages a file in one of many ways; says how.
fn damage_file(disk: &SimFs, path: &Path, rng: &mut Rng) -> String {
    let mut bytes = disk.read_all(path).unwrap();
    let used = bytes.iter().rposition(|&byte| byte != 0).map_or(1, |last| last + 1);
    let at = rng.index(used);
    let how = match rng.below(9) {
        0 => {
            disk.remove_file(path).unwrap();
            "removed".to_owned()
        }
        1 => {
            disk.truncate(path, at as u64).unwrap();
            format!("cut to {at}")
        }
        way @ 2..=4 => {
            let to = bytes.len().min(at + 1 + rng.index(4096));
            bytes[at..to].fill_with(|| if way == 4 { 0 } else { rng.next() as u8 });
            disk.write_all(path, &bytes).unwrap();
            format!("{} from {at} to {to}", if way == 4 { "zeros" } else { "noise" })
        }
        8 => {
            disk.make_unreadable(path, at as u64, 1 + rng.below(8192)).unwrap();
            format!("unreadable at {at}")
        }
        _ => {
            disk.flip_byte(path, at as u64, 1 + rng.below(255) as u8).unwrap();
            format!("flipped at {at}")
        }
    };
    format!("{} {how}", path.display())
}

/// Damages a file, or a manifest with its copy; says how.
fn damage(disk: &SimFs, rng: &mut Rng) -> Vec<String> {
    let wanted = *rng.pick(&["manifest-", "manifest-", "wal-", ".table", ".table", ".blob"]);
    let mut hit: Vec<PathBuf> = files(disk).into_iter().filter(|path| kind(path) == wanted).collect();
    if hit.len() > 1 && (wanted != "manifest-" || rng.one_in(2)) {
        hit = vec![rng.pick(&hit).clone()];
    }
    hit.iter().map(|path| damage_file(disk, path, rng)).collect()
}

/// What may be missing of a store for which `report` was given.
struct Excuses<'a> {
    losses: &'a [Loss],
    rebuilt: bool,
    /// What was done to the store's files.
    hit: &'a [String],
    /// Trees keep their names.
    named: bool,
}

impl Excuses<'_> {
    /// Whether the log is named, or has lost its end or a whole segment with nothing left that tells of it.
    fn of_log(&self) -> bool {
        let is_named = |loss: &Loss| kind(&loss.file) == "wal-" || loss.reason.contains("log segment");
        self.losses.iter().any(is_named) || self.lacks("wal-", &["removed", "cut to"])
    }

    /// Whether a file of this kind was damaged in one of these ways, and the manifest that told of it is lost.
    fn lacks(&self, kind: &str, ways: &[&str]) -> bool {
        let is_one = |how: &String| how.contains(kind) && ways.iter().any(|way| how.contains(way));
        self.rebuilt && self.hit.iter().any(is_one)
    }

    /// Whether a table that held the key is named, or nobody can know that it ever was.
    fn covers(&self, tree: &str, key: &[u8]) -> bool {
        self.lacks(".table", &["removed"])
            || self.losses.iter().any(|loss| {
                let in_tree = loss.tree.as_ref().is_none_or(|name| !self.named || name == tree);
                let in_range = match &loss.keys {
                    Some((from, to)) => from.as_slice() <= key && key <= to.as_slice(),
                    // Only where nobody can know.
                    None => self.rebuilt && kind(&loss.file) == ".table",
                };
                in_tree && in_range
            })
    }
}

/// Compares the repaired store with what was in it.
fn compare(
    db: &Db,
    expected: &State,
    logged: &State,
    excuses: &Excuses<'_>,
    tally: &mut Tally,
) -> Result<(), String> {
    let ids: BTreeMap<&str, u32> =
        BTreeMap::from([("default", 1), ("packed", 2), ("small", 3), ("empty", 4)]);
    let (none, ever) = (Pairs::new(), ever_written());
    for (name, pairs) in expected {
        let recovered = format!("recovered-{}", ids[name.as_str()]);
        let tree = match db.open_tree(name).unwrap() {
            Some(tree) => Some(tree),
            None if excuses.rebuilt => db.open_tree(&recovered).unwrap(),
            None => return Err(format!("the tree {name} is gone")),
        };
        let log = logged.get(name).unwrap_or(&none);
        let in_log = |key: &Bytes| excuses.of_log() && log.contains_key(key);
        let mut found = BTreeMap::new();
        let mut keys: BTreeSet<Bytes> = pairs.keys().cloned().collect();
        if let Some(tree) = &tree {
            let mut scan = tree.scan(ScanRange::all().keys_only()).unwrap();
            while scan.advance().unwrap() {
                keys.insert(Bytes::from(scan.key()));
            }
            for key in &keys {
                found.insert(key.clone(), tree.get_vec(key));
            }
        }
        for key in keys {
            let wanted = pairs.get(&key).map(|value| value.to_vec());
            let excused = excuses.covers(name, &key) || in_log(&key);
            let shown = String::from_utf8_lossy(&key).into_owned();
            match found.get(&key) {
                Some(Ok(value)) if *value == wanted => tally.kept += 1,
                Some(Err(error)) => return Err(format!("{name}/{shown}: {error:?}")),
                // An older version, if any.
                Some(Ok(Some(value)))
                    if excused
                        && !ever
                            .get(&(name.clone(), key.to_vec()))
                            .is_some_and(|all| all.contains(value)) =>
                {
                    return Err(format!("{name}/{shown} has {} bytes that it never had", value.len()));
                }
                None if tree.is_none() && (excuses.rebuilt && excused) => tally.lost += 1,
                _ if excused => tally.lost += 1,
                other => {
                    let len = other.and_then(|value| value.as_ref().ok()?.as_ref().map(Vec::len));
                    return Err(format!(
                        "{name}/{shown} has {len:?} bytes, not {:?}",
                        wanted.map(|v| v.len())
                    ));
                }
            }
        }
    }
    Ok(())
}

pub(super) fn repaired(
    disk: &SimFs,
    expected: &State,
    logged: &State,
    hit: &[String],
    tally: &mut Tally,
) -> Result<RepairReport, String> {
    let before = files(disk);
    let bytes: BTreeMap<PathBuf, Vec<u8>> =
        before.iter().map(|path| (path.clone(), disk.read_all(path).unwrap())).collect();
    let report = esker::repair(STORE, &options(disk)).map_err(|error| format!("repairing: {error:?}"))?;
    // What was there is still there, under its name or in the quarantine.
    for (path, bytes) in &bytes {
        let aside = report.quarantine.as_ref().map(|dir| dir.join(path.file_name().unwrap()));
        let is_there = |path: &Path| disk.read_all(path).is_ok_and(|now| now == *bytes);
        if !is_there(path) && !aside.as_deref().is_some_and(is_there) {
            return Err(format!("{} is gone", path.display()));
        }
    }
    let left = esker::check(STORE, &options(disk)).unwrap().findings;
    if !left.is_empty() {
        return Err(format!("check finds damage after the repair: {left:?}; {:?}", report.losses));
    }
    let again = esker::repair(STORE, &options(&disk.fork())).map_err(|error| format!("again: {error:?}"))?;
    if again != RepairReport::default() {
        return Err(format!("a second repair finds work: {again:?} after {report:?}"));
    }
    let db =
        Db::open(STORE, options(disk)).map_err(|error| format!("opening: {error:?}, after {report:?}"))?;
    let names = db.tree_names();
    let named = expected.keys().all(|name| names.contains(name));
    let excuses = Excuses { losses: &report.losses, rebuilt: report.rebuilt, hit, named };
    compare(&db, expected, logged, &excuses, tally).map_err(|what| format!("{what}\n{report:#?}"))?;
    db.put("it", "takes writes").unwrap();
    let merged = db.compact();
    if let Err(error) = merged {
        return Err(format!("merging: {error:?}"));
    }
    db.close().unwrap();
    Ok(report)
}

/// What a store at rest would be without its log: those pairs may be lost with it.
pub(super) fn logged(disk: &SimFs) -> State {
    // Whatever some segment names at all.
    let mut state = State::new();
    for path in files(disk).into_iter().filter(|path| kind(path) == "wal-") {
        let mut tree = String::new();
        let mut note = |line: &str| {
            if let Some((_, rest)) = line.trim().split_once(" tree ") {
                let names = ["", "default", "packed", "small", "empty"];
                tree = names[rest.split(':').next().unwrap().parse::<usize>().unwrap()].to_owned();
                if let Some(key) = rest.split('"').nth(1) {
                    state.entry(tree.clone()).or_default().insert(key.as_bytes().into(), Bytes::from(*b""));
                }
            }
            true
        };
        drop(esker::dump(&path, &mut note, &options(disk)));
    }
    state
}

#[test]
fn randomly_damaged_stores_are_repaired() {
    let (mut tally, mut failures) = (Tally::default(), Vec::new());
    for seed in common::seeds(130) {
        for &left in &EVERY_WAY[..if seed % 4 == 0 { 3 } else { 1 }] {
            let (disk, expected) = build(seed, left);
            let logged = logged(&disk);
            let mut rng = Rng::new(seed);
            let times = 1 + rng.below(3);
            let hit: Vec<String> = (0..times).flat_map(|_| damage(&disk, &mut rng)).collect();
            match repaired(&disk, &expected, &logged, &hit, &mut tally) {
                Ok(report) if report.losses.is_empty() => tally.sound += 1,
                Ok(report) => tally.rebuilt += u64::from(report.rebuilt),
                Err(what) => failures.push(format!("ESKER_SEED={seed}, {left:?}, {hit:?}: {what}")),
            }
        }
    }
    println!("{tally:?}");
    assert!(
        failures.is_empty(),
        "{} failures, such as {}",
        failures.len(),
        failures[..failures.len().min(6)].join("\n")
    );
    if !common::is_full_run() {
        return;
    }
    assert!(tally.rebuilt >= 10 && tally.kept > 5 * tally.lost && tally.lost > 100, "{tally:?}");
}

/// How a test damages a blob file.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Harm {
    Removed,
    Emptied,
    Cut,
    Header,
    Value,
    Footer,
}

fn harm(disk: &SimFs, path: &Path, how: Harm) {
    let len = disk.file_len(path).unwrap();
    match how {
        Harm::Removed => disk.remove_file(path).unwrap(),
        Harm::Emptied => disk.truncate(path, 0).unwrap(),
        Harm::Cut => disk.truncate(path, len / 2).unwrap(),
        Harm::Header => disk.flip_byte(path, 20, 1).unwrap(),
        Harm::Value => disk.flip_byte(path, 4096 + 700, 1).unwrap(),
        Harm::Footer => disk.flip_byte(path, len - 9, 1).unwrap(),
    }
}

/// Keys with huge values, among them some that had a small value before, in tables and in the log. A key that is only
/// in the log, and another that shares a batch with a small one.
fn build_huge(in_tables: bool) -> SimFs {
    let disk = SimFs::new(7);
    let db = Db::open(STORE, options(&disk)).unwrap();
    for key in ["a", "b", "c"] {
        db.put(key, "the version before").unwrap();
    }
    db.flush().unwrap();
    let mut batch = Batch::new();
    batch.put(db.default_tree(), "a", vec![b'a'; 9000]).unwrap();
    batch.put(db.default_tree(), "small", "in the same batch").unwrap();
    db.write(&batch).unwrap();
    db.put("b", vec![b'b'; 9000]).unwrap();
    db.put("d", vec![b'd'; 9000]).unwrap();
    db.put("overwritten", vec![b'o'; 9000]).unwrap();
    db.put("overwritten", "small again").unwrap();
    if in_tables {
        db.flush().unwrap();
    }
    db.close().unwrap();
    drop(db);
    disk.kill()
}

/// After a repair nothing is damaged any more: each key is there, or it is absent and named.
#[test]
fn damage_to_huge_values_ends_with_the_repair() {
    let all = [Harm::Removed, Harm::Emptied, Harm::Cut, Harm::Header, Harm::Value, Harm::Footer];
    for in_tables in [true, false] {
        for how in all {
            for with_manifest in [true, false] {
                let context = format!("{how:?}, in tables: {in_tables}, with manifest: {with_manifest}");
                let disk = build_huge(in_tables);
                let all = files(&disk);
                let blobs: Vec<&PathBuf> = all.iter().filter(|path| kind(path) == ".blob").collect();
                assert!(!blobs.is_empty());
                blobs.into_iter().for_each(|path| harm(&disk, path, how));
                let manifests = all.iter().filter(|path| !with_manifest && kind(path) == "manifest-");
                manifests.for_each(|path| disk.remove_file(path).unwrap());
                let report = esker::repair(STORE, &options(&disk)).unwrap();
                let named: BTreeSet<Vec<u8>> =
                    report.losses.iter().filter_map(|loss| Some(loss.keys.clone()?.0)).collect();
                let left = esker::check(STORE, &options(&disk)).unwrap().findings;
                assert_eq!(left, [], "{context}: {report:?}");
                let again = esker::repair(STORE, &options(&disk)).unwrap();
                assert_eq!(again, RepairReport::default(), "{context}");
                let db = Db::open(STORE, options(&disk)).unwrap();
                let mut lost = 0;
                for (key, len) in
                    [("a", 9000), ("b", 9000), ("c", 18), ("d", 9000), ("small", 17), ("overwritten", 11)]
                {
                    let value = db.get_vec(key).unwrap_or_else(|error| panic!("{context}: {key}: {error}"));
                    lost += usize::from(value.is_none());
                    assert_eq!(
                        value.is_none(),
                        named.contains(key.as_bytes()),
                        "{context}: {key}, {report:?}"
                    );
                    assert!(
                        value.is_none_or(|value| value.len() == len),
                        "{context}: {key} has another value"
                    );
                }
                assert!(lost <= 3 && (how == Harm::Footer || lost > 0), "{context}: {lost} keys are lost");
                assert!(!report.losses.is_empty(), "{context}");
                db.compact().unwrap();
                db.close().unwrap();
                assert_eq!(esker::check(STORE, &options(&disk)).unwrap().findings, [], "{context}");
            }
        }
    }
}

/// A repair that puts deletions in the place of lost values is cut off at each call: until it is complete, the store opens
/// as before, and the next repair finds the same losses.
#[test]
fn an_interrupted_repair_of_huge_values_is_done_again() {
    for in_tables in [true, false] {
        let disk = build_huge(in_tables).crash_keeping(1.0, 1);
        for path in files(&disk).into_iter().filter(|path| kind(path) == ".blob") {
            disk.remove_file(&path).unwrap();
        }
        let disk = disk.crash_keeping(1.0, 1);
        let whole = disk.fork();
        let expected = esker::repair(STORE, &options(&whole)).unwrap().losses;
        for call in 0..whole.operations() {
            let disk = disk.fork();
            disk.set_crash_after(Some(call));
            drop(esker::repair(STORE, &options(&disk)));
            let disk = disk.crash(call);
            let db =
                Db::open(STORE, options(&disk.fork())).unwrap_or_else(|error| panic!("call {call}: {error}"));
            assert_eq!(db.get_vec("small").unwrap().map(|value| value.len()), Some(17), "call {call}");
            db.close().unwrap();
            let report = esker::repair(STORE, &options(&disk)).unwrap();
            assert!(
                report.losses == expected || report == RepairReport::default(),
                "call {call}: {report:?}"
            );
            assert_eq!(esker::check(STORE, &options(&disk)).unwrap().findings, [], "call {call}");
            let db = Db::open(STORE, options(&disk)).unwrap();
            for key in ["a", "b", "d"] {
                assert_eq!(db.get_vec(key).unwrap(), None, "call {call}: {key}");
            }
        }
    }
}

/// Nothing of a table is left, not even a damaged block to name: its keys are named all the same.
#[test]
fn what_a_table_had_that_was_cut_to_nothing_is_named() {
    for seed in common::seeds(2) {
        let (whole, expected) = build(seed, Left::Closed);
        let tables: Vec<PathBuf> = files(&whole).into_iter().filter(|path| kind(path) == ".table").collect();
        assert!(!tables.is_empty());
        for path in tables {
            let disk = whole.fork();
            disk.truncate(&path, 0).unwrap();
            let mut tally = Tally::default();
            let report = repaired(&disk, &expected, &State::new(), &[], &mut tally)
                .unwrap_or_else(|what| panic!("ESKER_SEED={seed}, {}: {what}", path.display()));
            assert!(tally.lost > 0 && report.losses.iter().any(|loss| loss.file == path), "{report:?}");
        }
    }
}

/// A table is gone, and the sound part of the manifest tells of it: it is named, whether the rest of the manifest is known
/// from its copy or lost.
#[test]
fn a_table_that_is_gone_is_named_where_both_manifests_are_damaged() {
    let mut rebuilt = 0;
    for seed in common::seeds(40) {
        let (disk, expected) = build(seed, Left::Closed);
        let twins: Vec<PathBuf> = files(&disk).into_iter().filter(|path| kind(path) == "manifest-").collect();
        let used =
            |path: &PathBuf| disk.read_all(path).unwrap().iter().rposition(|&byte| byte != 0).unwrap() as u64;
        // The last record of one, and of the other the last one too or the first.
        disk.flip_byte(&twins[0], used(&twins[0]), 1).unwrap();
        disk.flip_byte(&twins[1], if seed % 2 == 0 { used(&twins[1]) } else { 4100 }, 1).unwrap();
        let table = files(&disk).into_iter().find(|path| kind(path) == ".table").unwrap();
        disk.remove_file(&table).unwrap();
        let mut tally = Tally::default();
        let report = repaired(&disk, &expected, &State::new(), &[], &mut tally)
            .unwrap_or_else(|what| panic!("ESKER_SEED={seed}, {}: {what}", table.display()));
        assert!(report.losses.iter().any(|loss| loss.file == table), "ESKER_SEED={seed}: {report:?}");
        rebuilt += usize::from(report.rebuilt);
    }
    assert!(!common::is_full_run() || (1..40).contains(&rebuilt), "{rebuilt} without a manifest");
}

/// The manifest is gone, and so is the whole log: both are named, though both are missing from the same directory.
#[test]
fn a_log_that_is_gone_is_named_beside_a_manifest_that_is_gone() {
    let (disk, expected) = build(3, Left::Closed);
    let logged = logged(&disk);
    for path in files(&disk) {
        if kind(&path) == "wal-" || (kind(&path) == "manifest-" && !path.to_string_lossy().ends_with(".copy"))
        {
            disk.remove_file(&path).unwrap();
        }
    }
    let mut tally = Tally::default();
    let report = repaired(&disk, &expected, &logged, &[], &mut tally).unwrap();
    assert!(tally.lost > 0, "the log held nothing");
    let reasons = ["the manifest is missing", "every log segment is missing"];
    let is_told = |reason: &&str| report.losses.iter().any(|loss| loss.reason.starts_with(reason));
    assert!(reasons.iter().all(is_told), "{report:?}");
}

/// A manifest that ends too early, between two records, tells too little of the tables: what is damaged in those that
/// its copy alone has is found in the same repair.
#[test]
fn tables_that_only_the_copy_of_the_manifest_tells_of_are_mended_too() {
    let mut told = 0;
    for seed in common::seeds(4) {
        let (whole, expected) = build(seed, Left::Closed);
        let logged = logged(&whole);
        let manifest = files(&whole).into_iter().find(|path| kind(path) == "manifest-").unwrap();
        let table = files(&whole).into_iter().rfind(|path| kind(path) == ".table").unwrap();
        for path in files(&whole).into_iter().filter(|path| kind(path) == "wal-") {
            // Its marks would tell how long the manifest is.
            whole.remove_file(&path).unwrap();
        }
        let used = whole.read_all(&manifest).unwrap().iter().rposition(|&byte| byte != 0).unwrap() as u64;
        for len in (4096..used).step_by(29) {
            let disk = whole.fork();
            disk.truncate(&manifest, len).unwrap();
            disk.flip_byte(&table, 700, 1).unwrap();
            let hit = ["wal-000001.log removed".to_owned()];
            let report =
                repaired(&disk, &expected, &logged, &hit, &mut Tally::default()).unwrap_or_else(|what| {
                    panic!("ESKER_SEED={seed}, {} cut to {len}: {what}", manifest.display())
                });
            told += usize::from(report.losses.iter().any(|loss| loss.file == table));
        }
    }
    assert!(told > 0 || !common::is_full_run());
}

/// A seed gives the same store whatever this thread has done before.
#[test]
fn a_seed_gives_the_same_store_again() {
    let content = || {
        let (disk, _) = build(95, Left::Closed);
        files(&disk).into_iter().map(|path| (disk.read_all(&path).unwrap(), path)).collect::<Vec<_>>()
    };
    let first = content();
    build(1, Left::Killed);
    assert!(content() == first);
    assert!(std::thread::scope(|scope| scope.spawn(content).join().unwrap()) == first);
}

/// With nothing but the manifest gone, every pair comes back.
#[test]
fn a_store_without_a_manifest_is_put_together_again() {
    for seed in common::seeds(20) {
        for left in [Left::Closed, Left::Killed] {
            let (disk, expected) = build(seed, left);
            for path in files(&disk).into_iter().filter(|path| kind(path) == "manifest-") {
                disk.remove_file(&path).unwrap();
            }
            let mut tally = Tally::default();
            let report = repaired(&disk, &expected, &State::new(), &[], &mut tally);
            let report = report.unwrap_or_else(|what| panic!("ESKER_SEED={seed}, {left:?}: {what}"));
            assert_eq!((report.rebuilt, tally.lost), (true, 0), "ESKER_SEED={seed}");
        }
    }
}

/// The manifest is there twice: either suffices, whatever becomes of the other.
#[test]
fn damage_to_one_of_two_manifests_costs_nothing() {
    let mut told = 0;
    for seed in common::seeds(60) {
        for left in EVERY_WAY {
            let (disk, expected) = build(seed, left);
            let mut rng = Rng::new(seed);
            let twins: Vec<PathBuf> =
                files(&disk).into_iter().filter(|path| kind(path) == "manifest-").collect();
            assert_eq!(twins.len(), 2, "{twins:?}");
            let hit = rng.pick(&twins).clone();
            damage_file(&disk, &hit, &mut rng);
            let mut tally = Tally::default();
            let what = format!("ESKER_SEED={seed}, {left:?}, {}", hit.display());
            let report = repaired(&disk, &expected, &State::new(), &[], &mut tally)
                .unwrap_or_else(|error| panic!("{what}: {error}"));
            assert_eq!((report.rebuilt, tally.lost), (false, 0), "{what}: {report:?}");
            assert!(report.losses.iter().all(|loss| loss.reason.ends_with("nothing is lost")), "{report:?}");
            told += usize::from(!report.losses.is_empty());
        }
    }
    assert!(told > 0 || !common::is_full_run());
}

/// A repair that the power cuts short at any call is done again.
#[test]
fn an_interrupted_repair_is_done_again() {
    let (disk, expected) = build(2, Left::Rebooted);
    for path in files(&disk).into_iter().filter(|path| kind(path) == "manifest-") {
        disk.remove_file(&path).unwrap();
    }
    let disk = disk.crash_keeping(1.0, 1);
    let whole = disk.fork();
    esker::repair(STORE, &options(&whole)).unwrap();
    let calls = whole.operations();
    assert!(calls > 50, "{calls} calls");
    for call in test_kit::places().take_while(|&call| call < calls) {
        let disk = disk.fork();
        disk.set_crash_after(Some(call));
        assert!(esker::repair(STORE, &options(&disk)).is_err(), "call {call}");
        let disk = disk.crash(call);
        esker::repair(STORE, &options(&disk)).unwrap();
        assert_eq!(esker::check(STORE, &options(&disk)).unwrap().findings, [], "call {call}");
        let db = Db::open(STORE, options(&disk)).unwrap();
        let excuses = Excuses { losses: &[], rebuilt: true, hit: &[], named: false };
        let mut tally = Tally::default();
        assert_eq!(compare(&db, &expected, &State::new(), &excuses, &mut tally), Ok(()), "call {call}");
        assert_eq!(tally.lost, 0, "call {call}");
    }
}

#[test]
fn a_sound_store_is_left_as_it_is() {
    for left in EVERY_WAY {
        let (disk, _) = build(3, left);
        let content = || files(&disk).iter().map(|path| disk.read_all(path).unwrap()).collect::<Vec<_>>();
        let before = (files(&disk), content());
        assert_eq!(esker::repair(STORE, &options(&disk)).unwrap(), RepairReport::default());
        assert!((files(&disk), content()) == before, "{left:?}");
    }
}
