//! Sectors that the device cannot read: a check, a scrub and a repair go on, name the place, and keep the rest. Everything else fails
//! with an error that names the file.

use std::path::{Path, PathBuf};

use esker::fs::FileSystem;
use esker::fs::sim::SimFs;
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
        let (disk, expected) = build(seed, Left::Closed);
        let logged = logged(&disk);
        let all: Vec<PathBuf> = files(&disk).into_iter().filter(|path| !kind(path).is_empty()).collect();
        for hit in all.iter().map(std::slice::from_ref).chain([&all[..]]) {
            let disk = disk.fork();
            hit.iter().for_each(|path| disk.make_unreadable(path, 0, u64::MAX).unwrap());
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
