//! The manifest and its copy: what becomes of the one when something is wrong with the other.

use std::path::{Path, PathBuf};

use esker::fs::FileSystem;
use esker::fs::sim::{Fault, FaultError, Op, SimFs};
use esker::{Db, ErrorKind, ScanRange, TreeOptions};
use twox_hash::XxHash3_64;

use crate::damage::store::{Left, STORE, build, options};
use crate::damage::verdict::{Verdict, files, judge};

/// The manifest and its copy.
fn twins(disk: &SimFs) -> [PathBuf; 2] {
    let is_manifest = |path: &PathBuf| path.to_string_lossy().contains("/manifest-");
    let found: Vec<PathBuf> = files(disk).into_iter().filter(is_manifest).collect();
    found.try_into().unwrap()
}

fn has_copy(disk: &SimFs) -> bool {
    files(disk).iter().any(|path| path.extension().is_some_and(|extension| extension == "copy"))
}

/// Damages the first block of some table, which the manifest tells how to do without.
fn damage_table(disk: &SimFs) {
    let is_table = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "table");
    disk.flip_byte(files(disk).into_iter().find(is_table).unwrap(), 10, 1).unwrap();
}

#[test]
fn what_is_damaged_in_one_is_taken_from_the_other() {
    let (disk, expected) = build(5, Left::Closed);
    let [manifest, copy] = twins(&disk);
    assert_eq!(disk.read_all(&manifest).unwrap(), disk.read_all(&copy).unwrap());
    let len = disk.file_len(&manifest).unwrap();
    // Both headers, headers and first records, records of each.
    for (at, there) in [(8, 4100), (4100, 16), (4100, len - 1), (len - 1, 4100), (len - 1, 8)] {
        let disk = disk.fork();
        disk.flip_byte(&manifest, at, 1).unwrap();
        disk.flip_byte(&copy, there, 1).unwrap();
        let report = esker::repair(STORE, &options(&disk)).unwrap();
        assert!(!report.rebuilt && report.losses.len() == 2, "{at}, {there}: {report:?}");
        assert_eq!(judge(&disk, &expected, true), Ok(Verdict::Harmless), "{at}, {there}");
    }
    // The same record of both.
    disk.flip_byte(&manifest, 4100, 1).unwrap();
    disk.flip_byte(&copy, 4101, 1).unwrap();
    assert!(esker::repair(STORE, &options(&disk)).unwrap().rebuilt);
}

/// The mark in the log tells, and if that is gone the copy does.
#[test]
fn a_manifest_that_has_lost_its_end_is_told() {
    let (disk, expected) = build(5, Left::Closed);
    let [manifest, copy] = twins(&disk);
    let len = disk.file_len(&manifest).unwrap();
    for path in [&manifest, &copy] {
        let disk = disk.fork();
        disk.truncate(path, len - 1).unwrap();
        for segment in files(&disk).into_iter().filter(|path| path.to_string_lossy().contains("wal-")) {
            // The mark of the manifest's number.
            let mut bytes = disk.read_all(&segment).unwrap();
            bytes[528..536].fill(0);
            disk.write_all(&segment, &bytes).unwrap();
        }
        let findings = esker::check(STORE, &options(&disk)).unwrap().findings;
        // Of a copy, the last record may be missing after a crash.
        assert_eq!(
            findings.iter().filter(|finding| finding.file == *path).count(),
            usize::from(path == &manifest)
        );
        let report = esker::repair(STORE, &options(&disk)).unwrap();
        assert!(!report.rebuilt, "{report:?}");
        assert_eq!(judge(&disk, &expected, true), Ok(Verdict::Harmless), "{}", path.display());
    }
}

#[test]
fn a_copy_of_another_manifest_is_not_looked_at() {
    let (disk, expected) = build(6, Left::Closed);
    let [manifest, copy] = twins(&disk);
    let stale = disk.read_all(&manifest).unwrap();
    for (name, bytes) in [("manifest-009999.copy", b"of no use".to_vec()), ("manifest-009999.copy", stale)] {
        let disk = disk.fork();
        Db::open(STORE, options(&disk)).unwrap().close().unwrap();
        disk.write_all(Path::new(STORE).join(name), &bytes).unwrap();
        assert_eq!(esker::check(STORE, &options(&disk)).unwrap().findings, []);
        damage_table(&disk);
        let report = esker::repair(STORE, &options(&disk)).unwrap();
        assert!(!report.rebuilt && !report.losses.is_empty(), "{report:?}");
    }
    // In the copy's place there is what an opening left that was cut off: it has another epoch.
    let mut bytes = disk.read_all(&copy).unwrap();
    bytes[16] ^= 1;
    let sum = XxHash3_64::oneshot_with_seed(0, &bytes[..24]);
    bytes[24..32].copy_from_slice(&sum.to_le_bytes());
    disk.write_all(&copy, &bytes).unwrap();
    assert_eq!(judge(&disk, &expected, true), Ok(Verdict::Harmless));
}

/// Bad sectors are errors of the device and no wrong bytes.
#[test]
fn one_that_cannot_be_read_is_done_without() {
    let (disk, expected) = build(7, Left::Closed);
    for unreadable in ["manifest-", ".copy"] {
        let disk = disk.fork();
        damage_table(&disk);
        // In a directory, the manifest comes before its copy: two reads by `check`, of which the first fails, and by `repair`.
        disk.inject(Fault::new(Op::Read, unreadable).error(FaultError::Io).forever());
        let repaired = esker::repair(STORE, &options(&disk));
        match unreadable {
            ".copy" => assert!(!repaired.unwrap().rebuilt),
            _ => assert_eq!(repaired.unwrap_err().kind(), ErrorKind::Io, "both"),
        }
        disk.clear_faults();
        let report = esker::repair(STORE, &options(&disk)).unwrap();
        assert!(!report.rebuilt);
        let db = Db::open(STORE, options(&disk)).unwrap();
        assert_eq!(db.tree_names().len(), expected.len());
    }
}

#[test]
fn without_room_for_a_copy_there_is_none_for_a_while() {
    let disk = SimFs::new(3);
    for op in [Op::Create, Op::Append, Op::Sync] {
        disk.inject(Fault::new(op, ".copy").error(FaultError::NoSpace).forever());
        let db = Db::open(STORE, options(&disk)).unwrap();
        assert!(disk.faults_hit() > 0 && !has_copy(&disk) && !db.stats().unwrap().manifest_copied, "{op:?}");
        db.put("key", "value").unwrap();
        db.flush().unwrap();
        disk.clear_faults();
        db.close().unwrap();
    }
    let db = Db::open(STORE, options(&disk)).unwrap();
    for (op, error) in
        [(Op::Append, FaultError::NoSpace), (Op::Append, FaultError::Io), (Op::Sync, FaultError::Io)]
    {
        assert!(has_copy(&disk) && db.stats().unwrap().manifest_copied);
        disk.inject(Fault::new(op, ".copy").error(error));
        db.create_tree("t", TreeOptions::default()).unwrap();
        assert!(!has_copy(&disk) && !db.stats().unwrap().manifest_copied, "{op:?}");
        for crashed in [disk.kill(), disk.crash_keeping(0.0, 1), disk.crash_keeping(1.0, 1)] {
            assert_eq!(esker::check(STORE, &options(&crashed)).unwrap().findings, []);
        }
        for _ in 0..32 {
            db.drop_tree("t").unwrap();
            db.create_tree("t", TreeOptions::default()).unwrap();
        }
        db.drop_tree("t").unwrap();
        assert_eq!(esker::check(STORE, &options(&disk.kill())).unwrap().findings, []);
    }
    assert_eq!(db.default_tree().count(ScanRange::all()).unwrap(), 1);
    // Where there is none for the manifest either, it is said so.
    db.close().unwrap();
    disk.inject(Fault::new(Op::Create, "manifest-").error(FaultError::NoSpace).forever());
    assert_eq!(Db::open(STORE, options(&disk)).unwrap_err().kind(), ErrorKind::OutOfSpace);
}
