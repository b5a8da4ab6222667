//! Checkpoints and backups made while several threads write: each is a moment of the history.
//!
//! A writer notes in every write which writes of the others it knew to be acknowledged. So a copy that holds
//! a write must hold those too; and of each writer all writes up to some number, none behind.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use esker::env::Env;
use esker::fs::FileSystem;
use esker::fs::sim::SimFs;
use esker::{Batch, Db, Options, ScanRange};

use crate::common::{Rng, cases, seed, tiny_options, world};

const WRITERS: usize = 3;

type Known = [u64; WRITERS];

fn encoded(known: Known) -> Vec<u8> {
    known.iter().flat_map(|count| count.to_le_bytes()).collect()
}

fn decoded(bytes: &[u8]) -> Known {
    let mut words = bytes.chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().unwrap()));
    std::array::from_fn(|_| words.next().unwrap())
}

/// How many writes a writer makes after a copy has begun, at most. A seed may store each value in a file of its own, and to
/// judge a copy takes long then: writers without a limit would use up the descriptors of the process.
const WRITES_PER_COPY: u64 = 500;

/// Writes, each one into two trees, until `ended`, and never beyond the number `last`.
fn write(db: &Db, writer: usize, acknowledged: &[AtomicU64; WRITERS], last: &AtomicU64, ended: &AtomicBool) {
    let trees = [db.tree(&format!("tree{writer}")).unwrap(), db.default_tree().clone()];
    let mut batch = Batch::new();
    let mut number = 0u64;
    while !ended.load(Ordering::Relaxed) {
        if number == last.load(Ordering::Relaxed) {
            test_kit::pause();
            continue;
        }
        number += 1;
        let known = encoded(std::array::from_fn(|other| acknowledged[other].load(Ordering::SeqCst)));
        batch.clear();
        batch.put(&trees[0], number.to_be_bytes(), &known).unwrap();
        batch.put(&trees[1], format!("last of {writer}"), number.to_le_bytes()).unwrap();
        db.write(&batch).unwrap();
        acknowledged[writer].store(number, Ordering::SeqCst);
    }
}

/// Judges a copy that was begun when `before` was acknowledged.
fn judge(dir: &Path, options: &Options, before: Known) {
    assert_eq!(esker::check(dir, options).unwrap().findings, [], "{}", dir.display());
    let db = Db::open(dir, options.clone()).unwrap();
    let mut counts: Known = [0; WRITERS];
    let mut needed = before;
    for (writer, count) in counts.iter_mut().enumerate() {
        let tree = db.tree(&format!("tree{writer}")).unwrap();
        let mut scan = tree.scan(ScanRange::all()).unwrap();
        while scan.advance().unwrap() {
            *count += 1;
            assert_eq!(scan.key(), count.to_be_bytes(), "a write of {writer} was skipped");
            for (least, known) in needed.iter_mut().zip(decoded(scan.value().unwrap())) {
                *least = known.max(*least);
            }
        }
        let last = db.get_vec(format!("last of {writer}")).unwrap();
        assert_eq!(last, (*count > 0).then(|| count.to_le_bytes().to_vec()), "half a batch");
    }
    assert!((0..WRITERS).all(|writer| counts[writer] >= needed[writer]), "{counts:?}, needed {needed:?}");
    db.put("it", "takes writes").unwrap();
    db.close().unwrap();
}

/// How a copy in a directory is made.
type Make = fn(&Db, &Path, &Options);

fn checkpoint(db: &Db, dir: &Path, _: &Options) {
    db.checkpoint(dir).unwrap();
}

/// Each backup takes what it can from those before it.
fn backup_and_restore(db: &Db, dir: &Path, options: &Options) {
    let shelf = dir.parent().unwrap().join("backups");
    let report = db.backup(&shelf).unwrap();
    esker::restore(&shelf, Some(report.id), dir, options).unwrap();
}

/// Has `make` make copies in `root` while others write, and each judged by `look` as soon as it is made.
fn copies(root: &Path, env: Env, seed: u64, times: u64, make: Make, look: impl Fn(&Path, &Options, Known)) {
    let options = tiny_options(&mut Rng::new(seed), env);
    let db = Db::open(root.join("store"), options.clone()).unwrap();
    let (acknowledged, ended) = ([const { AtomicU64::new(0) }; WRITERS], AtomicBool::new(false));
    let last = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for writer in 0..WRITERS {
            let (db, acknowledged, last, ended) = (&db, &acknowledged, &last, &ended);
            scope.spawn(move || write(db, writer, acknowledged, last, ended));
        }
        let made = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            for time in 0..times {
                // Each copy at another point of the work: flushes and merges are under way meanwhile.
                let most = acknowledged.iter().map(|number| number.load(Ordering::SeqCst)).max();
                last.store(most.unwrap_or(0) + WRITES_PER_COPY, Ordering::Relaxed);
                let begin = acknowledged[0].load(Ordering::SeqCst);
                while acknowledged[0].load(Ordering::SeqCst) < begin + 1 + 50 * (time % 7) {
                    test_kit::pause();
                }
                let before = std::array::from_fn(|writer| acknowledged[writer].load(Ordering::SeqCst));
                let dir = root.join(format!("copy{time}"));
                make(&db, &dir, &options);
                look(&dir, &options, before);
            }
        }));
        ended.store(true, Ordering::Relaxed);
        made.unwrap();
    });
    db.close().unwrap();
}

fn times(default: u64) -> u64 {
    (default * cases(crate::OPS) / crate::OPS).max(3)
}

#[test]
fn a_checkpoint_beside_writers_is_a_moment() {
    let seed = seed(0xc0b1);
    eprintln!("ESKER_SEED={seed}");
    let root = tempfile::tempdir().unwrap();
    copies(root.path(), Env::system(), seed, times(12), checkpoint, judge);
}

#[test]
fn a_restored_backup_beside_writers_is_a_moment() {
    let seed = seed(0xc0b3);
    eprintln!("ESKER_SEED={seed}");
    let root = tempfile::tempdir().unwrap();
    copies(root.path(), Env::system(), seed, times(12), backup_and_restore, judge);
}

/// The power fails as soon as a copy is made: it is there all the same.
fn survives_power_loss(seed: u64, make: Make) {
    eprintln!("ESKER_SEED={seed}");
    let disk = SimFs::new(seed);
    disk.create_dir_all(Path::new("/root")).unwrap();
    let env = world(Arc::new(disk.clone()), seed, None);
    copies(&PathBuf::from("/root"), env, seed, times(8), make, |dir, options, before| {
        for kept in [0.0, 0.5] {
            let left = disk.crash_keeping(kept, seed);
            let env = world(Arc::new(left), seed, None);
            judge(dir, &options.clone().env(env), before);
        }
    });
}

#[test]
fn a_checkpoint_beside_writers_survives_power_loss() {
    survives_power_loss(seed(0xc0b2), checkpoint);
}

#[test]
fn a_restored_backup_beside_writers_survives_power_loss() {
    survives_power_loss(seed(0xc0b4), backup_and_restore);
}
