//! A `check` or `repair` that is cancelled at whichever read or call: nothing false is said, and nothing is lost.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use esker::fs::FileSystem;
use esker::fs::sim::SimFs;
use esker::{Db, ErrorKind, ScanRange};

use crate::damage::repair::kind;
use crate::damage::store::{Left, STORE, build, options};
use crate::damage::verdict::files;

/// Says from the `n`-th question on that the work is to be cancelled; and how often it was asked.
fn from_question(n: u64) -> (Arc<AtomicU64>, impl Fn() -> bool + Send + Sync + 'static) {
    let asked = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&asked);
    (asked, move || count.fetch_add(1, Ordering::Relaxed) >= n)
}

/// What reading each key of each tree gives.
type Content = BTreeMap<(String, Vec<u8>), Result<Option<Vec<u8>>, ErrorKind>>;

/// Everything that can be read from the store on a copy of `disk`.
fn content(disk: &SimFs) -> Content {
    let db = Db::open(STORE, options(&disk.fork())).unwrap();
    let mut found = BTreeMap::new();
    for name in db.tree_names() {
        let tree = db.open_tree(&name).unwrap().unwrap();
        let mut scan = tree.scan(ScanRange::all().keys_only()).unwrap();
        while scan.advance().unwrap() {
            let value = tree.get_vec(scan.key()).map_err(|error| error.kind());
            found.insert((name.clone(), scan.key().to_vec()), value);
        }
    }
    found
}

#[test]
fn a_check_that_is_cancelled_reports_no_damage_that_is_not_there() {
    let (disk, _) = build(2, Left::Rebooted);
    for damaged in [false, true] {
        if damaged {
            let path = files(&disk).into_iter().find(|path| kind(path) == ".table").unwrap();
            disk.flip_byte(&path, 100, 1).unwrap();
        }
        let whole = esker::check(STORE, &options(&disk)).unwrap();
        assert_eq!((whole.findings.is_empty(), whole.is_cancelled), (!damaged, false));
        let (asked, never) = from_question(u64::MAX);
        assert_eq!(esker::check_until(STORE, &options(&disk), never).unwrap(), whole);
        let questions = asked.load(Ordering::Relaxed);
        assert!(questions > 50, "{questions}");
        for n in 0..questions {
            match esker::check_until(STORE, &options(&disk), from_question(n).1) {
                Ok(report) => {
                    assert!(report.is_cancelled, "question {n}");
                    let found = report.findings.len();
                    assert_eq!(Some(&report.findings[..]), whole.findings.get(..found), "question {n}");
                }
                Err(error) => assert_eq!(error.kind(), ErrorKind::Cancelled, "question {n}"),
            }
        }
        // It has left the lock to whoever comes next.
        esker::repair(STORE, &options(&disk.fork())).unwrap();
    }
}

#[test]
fn a_repair_that_is_cancelled_is_done_by_the_next_or_is_done() {
    for (seed, hit) in [(2, "manifest-"), (2, ".table"), (3, "wal-")] {
        let (disk, _) = build(seed, Left::Rebooted);
        for path in files(&disk).into_iter().filter(|path| kind(path) == hit) {
            match hit {
                "manifest-" => disk.remove_file(&path).unwrap(),
                _ => disk.flip_byte(&path, disk.file_len(&path).unwrap() / 3, 1).unwrap(),
            }
        }
        let disk = disk.crash_keeping(1.0, 1);
        let repaired = disk.fork();
        let (asked, never) = from_question(u64::MAX);
        let whole = esker::repair_until(STORE, &options(&repaired), never).unwrap();
        assert!(!whole.losses.is_empty() && !whole.is_cancelled, "{hit}: {whole:?}");
        let expected = content(&repaired);
        assert!(expected.len() > 50, "{hit}: {} keys", expected.len());

        let mut ends = [0; 2];
        let questions = asked.load(Ordering::Relaxed);
        // One in so many has a turn; which ones, is another set for each kind of damage.
        for n in (0..questions).step_by(questions as usize / 97 + 1) {
            let disk = disk.fork();
            let cancelled = esker::repair_until(STORE, &options(&disk), from_question(n).1);
            ends[usize::from(cancelled.is_ok())] += 1;
            let report = match cancelled {
                Ok(report) => {
                    assert!(report.is_cancelled, "{hit}, question {n}");
                    report
                }
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::Cancelled, "{hit}, question {n}");
                    esker::repair(STORE, &options(&disk)).unwrap()
                }
            };
            let of_trees = |losses: &[esker::Loss]| {
                losses.iter().filter(|loss| loss.tree.is_some()).cloned().collect::<Vec<_>>()
            };
            assert_eq!(of_trees(&report.losses), of_trees(&whole.losses), "{hit}, question {n}");
            assert!(content(&disk) == expected, "{hit}, question {n}: another store");
        }
        assert!(ends[0] > 30 && ends[1] > 5, "{hit}: {ends:?}");
    }
}
