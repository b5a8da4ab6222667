//! Sectors that the device cannot read: a check, a scrub and a repair go on, name the place, and keep the rest. Everything else fails
//! with an error that names the file.

use std::path::{Path, PathBuf};

use esker::fs::FileSystem;
use esker::fs::sim::{Fault, FaultError, Op, SimFs};
use esker::{Db, ErrorKind, RepairReport};

use crate::common;
use crate::damage::repair::{Tally, kind, logged, repaired};
use crate::damage::store::{Left, STORE, build, options};
use crate::damage::verdict::files;

const PAGE: u64 = 4096;

/// Every page of every file of a store, those of each kind of file at least once.
fn pages(disk: &SimFs) -> Vec<(PathBuf, u64)> {
    let all = files(disk).into_iter().filter(|path| !kind(path).is_empty());
    let pages = |path: PathBuf| {
        let bytes = disk.read_all(&path).unwrap();
        let used = bytes.iter().rposition(|&byte| byte != 0).map_or(0, |last| last as u64 + 1);
        // Of the space that a log segment has set aside, one page is as good as another.
        (0..used.div_ceil(PAGE) + 1).map(move |page| (path.clone(), page * PAGE)).collect::<Vec<_>>()
    };
    let pages: Vec<_> = all.flat_map(pages).filter(|(path, at)| *at < disk.file_len(path).unwrap()).collect();
    for wanted in ["manifest-", "wal-", ".table", ".blob"] {
        assert!(pages.iter().any(|(path, _)| kind(path) == wanted), "no file is a {wanted}");
    }
    pages
}

#[test]
fn a_repair_goes_around_what_cannot_be_read() {
    let mut tally = Tally::default();
    let (mut harmless, mut found) = (0, 0);
    for seed in common::seeds(6) {
        let (disk, expected) = build(seed, Left::Closed);
        let logged = logged(&disk);
        for (path, at) in pages(&disk) {
            let context = format!("ESKER_SEED={seed}, {} at {at}", path.display());
            let disk = disk.fork();
            disk.make_unreadable(&path, at, 1).unwrap();
            let checked = esker::check(STORE, &options(&disk)).unwrap();
            let is_named = checked.findings.iter().any(|finding| {
                finding.file == path
                    && finding.offset == at
                    && finding.reason.contains("the device cannot read")
            });
            assert!(checked.findings.is_empty() || is_named, "{context}: {:?}", checked.findings);
            let report = repaired(&disk, &expected, &logged, &[], &mut tally)
                .unwrap_or_else(|what| panic!("{context}: {what}"));
            if checked.findings.is_empty() {
                assert_eq!(report, RepairReport::default(), "{context}");
                harmless += 1;
            } else {
                let is_named = report.losses.iter().any(|loss| loss.file == path);
                assert!(is_named && report.quarantine.is_some(), "{context}: {report:?}");
                found += 1;
            }
        }
    }
    println!("{harmless} pages are harmless, {found} were found, {tally:?}");
    assert!(found > 10 * harmless && tally.lost > 0);
}

/// Whole files, and a store of which nothing can be read: each file is named, and the rest is kept.
#[test]
fn a_repair_survives_files_of_which_nothing_can_be_read() {
    for seed in common::seeds(3) {
        let (whole, expected) = build(seed, Left::Closed);
        let logged = logged(&whole);
        let all: Vec<PathBuf> = files(&whole).into_iter().filter(|path| !kind(path).is_empty()).collect();
        let table = all.iter().position(|path| kind(path) == ".table").unwrap();
        let but_a_table = [&all[..table], &all[table + 1..]].concat();
        for hit in all.iter().map(std::slice::from_ref).chain([&all[..], &but_a_table]) {
            let disk = whole.fork();
            hit.iter().for_each(|path| disk.make_unreadable(path, 0, u64::MAX).unwrap());
            if hit.len() == all.len() {
                // A device that is gone says nothing about its sectors.
                let error = esker::repair(STORE, &options(&disk)).unwrap_err();
                assert_eq!(error.kind(), ErrorKind::Io, "{error:?}");
                for path in &all {
                    assert!(
                        disk.read_all(path).unwrap() == whole.read_all(path).unwrap(),
                        "{}",
                        path.display()
                    );
                }
                assert!(!esker::check(STORE, &options(&disk)).unwrap().findings.is_empty());
                continue;
            }
            // Without any manifest, nothing tells of files that are gone.
            let how: Vec<String> = hit.iter().map(|path| format!("{} removed", path.display())).collect();
            let report = repaired(&disk, &expected, &logged, &how, &mut Tally::default())
                .unwrap_or_else(|what| panic!("ESKER_SEED={seed}, {how:?}: {what}"));
            assert!(
                hit.len() > 1 || report.losses.iter().any(|loss| loss.file == hit[0]),
                "{how:?} {report:?}"
            );
        }
    }
}

/// The device goes while a store is repaired: every read fails from some moment on. A sound store stays as it was, and a damaged one is
/// repaired by the next repair.
#[test]
fn a_device_that_is_gone_is_not_a_damaged_store() {
    let bytes = |disk: &SimFs| -> Vec<(PathBuf, Vec<u8>)> {
        files(disk).into_iter().map(|path| (path.clone(), disk.read_all(&path).unwrap())).collect()
    };
    let mut failed = 0;
    // A run takes every fourth call, and begins at another one.
    for seed in common::seeds(1) {
        let (disk, _) = build(seed, Left::Closed);
        let table = files(&disk).into_iter().find(|path| kind(path) == ".table").unwrap();
        for is_damaged in [false, true] {
            for call in (1 + seed % 4..).step_by(4) {
                let disk = disk.fork();
                if is_damaged {
                    disk.flip_byte(&table, 100, 1).unwrap();
                }
                let before = bytes(&disk);
                disk.inject(Fault::new(Op::Read, "").nth(call).error(FaultError::Device).forever());
                let done = esker::repair(STORE, &options(&disk));
                let is_over = disk.faults_hit() == 0;
                disk.clear_faults();
                if let Err(error) = &done {
                    assert_eq!(error.kind(), ErrorKind::Io, "ESKER_SEED={seed}, call {call}: {error:?}");
                    failed += 1;
                }
                if !is_damaged {
                    assert!(bytes(&disk) == before, "ESKER_SEED={seed}, call {call}: {done:?}");
                } else if done.is_err() {
                    esker::repair(STORE, &options(&disk)).unwrap();
                    assert_eq!(esker::check(STORE, &options(&disk)).unwrap().findings, [], "{call}");
                }
                if is_over {
                    break;
                }
            }
        }
    }
    assert!(failed > 20, "{failed}");
}

fn contents(disk: &SimFs) -> Vec<(PathBuf, Vec<u8>)> {
    files(disk).into_iter().map(|path| (path.clone(), disk.read_all(&path).unwrap())).collect()
}

/// The page cache answers for a device that is gone, for good or for some reads. A sound store stays as it was. A damaged one is
/// repaired as if nothing had happened, or not at all.
#[test]
fn the_page_cache_does_not_answer_for_the_device() {
    let (mut refused, mut done) = (0, 0);
    for seed in common::seeds(1) {
        let (whole, expected) = build(seed, Left::Closed);
        let logged = logged(&whole);
        let table = files(&whole).into_iter().find(|path| kind(path) == ".table").unwrap();
        let ways =
            [(false, true, u64::MAX), (false, true, 4), (false, false, 3), (true, true, 5), (true, true, 60)];
        for (is_damaged, is_direct, times) in ways {
            for read in (1 + seed % 3..).step_by(3) {
                let context = format!("ESKER_SEED={seed}, {is_damaged} {is_direct} {times}, read {read}");
                let disk = whole.fork();
                if is_damaged {
                    disk.flip_byte(&table, 100, 1).unwrap();
                }
                disk.set_page_cache(true);
                disk.set_direct(is_direct);
                let before = contents(&disk);
                let gone = Fault::new(Op::DeviceRead, "").nth(read).error(FaultError::Device);
                disk.inject(gone.times(times));
                let report = esker::repair(STORE, &options(&disk));
                let is_over = disk.faults_hit() == 0;
                disk.clear_faults();
                if !is_damaged {
                    assert!(contents(&disk) == before, "{context}: {report:?}");
                }
                match report {
                    Ok(report) => {
                        let is_of_last_step =
                            |loss: &esker::Loss| loss.reason.contains("the repair is complete");
                        let is_other = |loss: &esker::Loss| loss.file != table && !is_of_last_step(loss);
                        let has_other = report.losses.iter().any(is_other);
                        assert!(
                            !has_other && report.losses.is_empty() != is_damaged,
                            "{context}: {report:?}"
                        );
                        done += 1;
                    }
                    Err(error) => {
                        assert_eq!(error.kind(), ErrorKind::Io, "{context}: {error:?}");
                        repaired(&disk, &expected, &logged, &[], &mut Tally::default())
                            .unwrap_or_else(|what| panic!("{context}: {what}"));
                        refused += 1;
                    }
                }
                if is_over {
                    break;
                }
            }
        }
    }
    println!("{refused} repairs were refused, {done} done");
    assert!(refused > 20 && done > 5, "{refused} {done}");
}

/// Sectors fail, and the cache still has their pages. The device is not gone, and the repair goes around another sector.
#[test]
fn a_bad_sector_that_the_page_cache_has_is_not_a_lost_device() {
    for seed in common::seeds(2) {
        let (disk, expected) = build(seed, Left::Closed);
        let logged = logged(&disk);
        let all = pages(&disk);
        let table = all.iter().find(|(path, _)| kind(path) == ".table").unwrap().0.clone();
        disk.set_page_cache(true);
        assert_eq!(esker::check(STORE, &options(&disk)).unwrap().findings, []);
        for path in files(&disk).iter().filter(|path| **path != table) {
            disk.make_unreadable(path, 0, PAGE).unwrap();
        }
        disk.open_read(&table).unwrap().evict(0, u64::MAX);
        disk.make_unreadable(&table, 0, 1).unwrap();
        let report = repaired(&disk, &expected, &logged, &[], &mut Tally::default())
            .unwrap_or_else(|what| panic!("ESKER_SEED={seed}: {what}"));
        assert!(report.losses.iter().any(|loss| loss.file == table), "{report:?}");
        assert!(!report.rebuilt, "{report:?}");
    }
}

/// An open store names what it cannot read; so do a scrub, a backup and an export. A backup leaves nothing behind.
#[test]
fn calls_of_an_open_store_name_what_cannot_be_read() {
    let names = |error: &esker::Error, path: &Path| {
        assert!(matches!(error.kind(), ErrorKind::Io | ErrorKind::Corruption), "{error:?}");
        let file = error.path().and_then(Path::file_name);
        assert!(file == path.file_name() && error.offset().is_some(), "{error:?}");
    };
    let (mut scrubbed, mut failed) = (0, 0);
    for seed in common::seeds(2) {
        let (disk, _) = build(seed, Left::Closed);
        for (path, at) in
            pages(&disk).into_iter().filter(|(path, _)| [".table", ".blob"].contains(&kind(path)))
        {
            let disk = disk.fork();
            let db = match Db::open(STORE, options(&disk)) {
                Ok(db) => db,
                Err(error) => panic!("{error}"),
            };
            disk.make_unreadable(&path, at, 1).unwrap();
            let report = db.scrub().unwrap();
            if let Some(finding) = report.findings.first() {
                assert_eq!(finding.file, path, "{report:?}");
                scrubbed += 1;
            }
            if let Err(error) = db.backup("/backups") {
                names(&error, &path);
                assert_eq!(esker::backups("/backups", &options(&disk)).unwrap(), []);
                let left: Vec<PathBuf> =
                    disk.paths().into_iter().filter(|path| path.starts_with("/backups")).collect();
                assert!(left.len() <= 1, "{left:?}");
                failed += 1;
            }
            drop(db);
        }
    }
    assert!(scrubbed > 0 && failed > 0, "{scrubbed} {failed}");
}
