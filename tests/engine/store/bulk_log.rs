//! Large batches and small puts by turns: the log's segments change their kind, and nothing is lost or kept
//! for good.

use std::collections::{BTreeMap, VecDeque};
use std::path::Path;

use esker::{Batch, Db, Durability, Options, ScanRange};

/// The smallest: segments of 1 MiB, memtables of 512 KiB.
const BUDGET: usize = 8 << 20;
const PHASE_BYTES: usize = 5 << 20;

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

fn value(round: usize, i: usize) -> Vec<u8> {
    vec![(round * 31 + i) as u8; 100 + i % 900]
}

/// Batches of about 64 KiB, and one record that is larger than a segment.
fn write_bulk(db: &Db, model: &mut Model, round: usize) {
    let (mut batch, mut written, mut i) = (Batch::new(), 0, 0);
    while written < PHASE_BYTES {
        batch.clear();
        let size = if i == 0 { 3 << 19 } else { 64 << 10 };
        while batch.size_bytes() < size {
            let key = format!("bulk {:06}", i * 7919 % 10_007).into_bytes();
            batch.put(db.default_tree(), &key, value(round, i)).unwrap();
            model.insert(key, value(round, i));
            i += 1;
        }
        written += batch.size_bytes();
        db.write(&batch).unwrap();
    }
}

fn write_small(db: &Db, model: &mut Model, round: usize) {
    let (mut written, mut i) = (0, 0);
    while written < PHASE_BYTES {
        let key = format!("small {:06}", i * 7919 % 10_007).into_bytes();
        let durability = if i % 500 == 0 { Durability::Power } else { Durability::Process };
        db.default_tree().put_with(&key, value(round, i), durability).unwrap();
        written += value(round, i).len();
        model.insert(key, value(round, i));
        i += 1;
    }
}

fn assert_holds(db: &Db, model: &Model) {
    let pairs: Vec<_> = db.scan(ScanRange::all()).unwrap().map(Result::unwrap).collect();
    assert_eq!(pairs.len(), model.len());
    assert!(pairs.into_iter().eq(model.iter().map(|(key, value)| (key.clone(), value.clone()))));
}

fn log_bytes(dir: &Path) -> u64 {
    let files = std::fs::read_dir(dir).unwrap().map(Result::unwrap);
    let logs = files.filter(|file| file.file_name().to_string_lossy().ends_with(".log"));
    logs.map(|file| file.metadata().map_or(0, |metadata| metadata.len())).sum()
}

#[test]
fn large_and_small_records_by_turns() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store");
    let mut model = Model::new();
    for opening in 0..2 {
        let db = Db::open(&path, Options::default().memory_budget(BUDGET)).unwrap();
        assert_holds(&db, &model);
        for round in opening * 3..opening * 3 + 3 {
            write_bulk(&db, &mut model, round);
            write_small(&db, &mut model, round);
            // What recovery would find now.
            let copy = dir.path().join(format!("copy {round}"));
            db.checkpoint(&copy).unwrap();
            let copied = Db::open(&copy, Options::default().memory_budget(BUDGET)).unwrap();
            assert_holds(&copied, &model);
            copied.close().unwrap();
            let log = log_bytes(&path);
            assert!(log <= 24 << 20, "{log} bytes of log segments after round {round}");
        }
        assert_holds(&db, &model);
        db.close().unwrap();
    }
}

/// A copy of a segment ends behind its last record and has holes, so it cannot serve as a segment again.
#[test]
fn a_copied_segment_is_not_reused() {
    let dir = tempfile::tempdir().unwrap();
    let (path, copy) = (dir.path().join("store"), dir.path().join("copy"));
    let options = || Options::default().memory_budget(BUDGET).log_history(4 << 20);
    let db = Db::open(&path, options()).unwrap();
    let mut batch = Batch::new();
    for i in 0..3000 {
        batch.put(db.default_tree(), format!("{i:06}"), value(0, i)).unwrap();
    }
    db.write(&batch).unwrap();
    db.checkpoint(&copy).unwrap();
    assert!(log_bytes(&copy) > 1 << 20, "the copy has the long segment");
    let copied = Db::open(&copy, options()).unwrap();
    let mut model: Model = (0..3000).map(|i| (format!("{i:06}").into_bytes(), value(0, i))).collect();
    (0..3).for_each(|round| write_bulk(&copied, &mut model, round));
    assert_holds(&copied, &model);
    copied.close().unwrap();
}

/// The current segment is left alone while nobody waits for it: its pages are dirty from the start, so a sync would write
/// all of it, and the next sync would again.
#[test]
fn each_segment_is_synced_once_when_nobody_waits() {
    let dir = tempfile::tempdir().unwrap();
    let options =
        Options::default().memory_budget(BUDGET).memtable_bytes(64 << 20).durability(Durability::Process);
    let db = Db::open(dir.path().join("store"), options).unwrap();
    let (segments, mut marks) = (20, VecDeque::new());
    for i in 0..segments << 10 {
        let mut batch = Batch::new();
        batch.put(db.default_tree(), format!("{i:08}"), [7; 1 << 10]).unwrap();
        let token = db.write(&batch).unwrap();
        if i % 1024 == 0 {
            marks.push_back(token);
        }
        // The segment of two marks ago is sealed. The job that syncs it keeps up, however slow this machine is.
        while marks.len() > 2 {
            if db.is_durable(&marks[0]).unwrap() {
                marks.pop_front();
            }
            test_kit::pause();
        }
    }
    let syncs = db.stats().unwrap().log_syncs;
    assert!(syncs <= segments + 4, "{syncs} syncs of {segments} segments of 1 MiB and a few shorter ones");
}
