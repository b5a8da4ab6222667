//! `check` on a store with several damages at once: every one is named, and no byte changes.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use esker::fs::sim::SimFs;
use esker::{Finding, Options};

use crate::common::{self, Rng};
use crate::damage::store::{Left, STORE, build, options};
use crate::damage::verdict::files;

/// A damaged byte, and how far before it the finding may begin.
type Place = (PathBuf, u64, u64);

/// More than any block, record or header of these stores has bytes.
const PART_MAX: u64 = 64 << 10;

fn named(path: &Path, what: &str) -> bool {
    path.file_name().unwrap().to_string_lossy().contains(what)
}

fn word(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap())
}

/// Damages the first and last data block of half the tables, one table's footer, two records of the log and
/// the last one of the manifest.
fn damage(disk: &SimFs, rng: &mut Rng) -> Vec<Place> {
    let mut places = Vec::new();
    let mut flip = |path: &PathBuf, offset: u64, before: u64| {
        disk.flip_byte(path, offset, 1 + rng.below(255) as u8).unwrap();
        places.push((path.clone(), offset, before));
    };
    let tables: Vec<PathBuf> = files(disk).into_iter().filter(|path| named(path, ".table")).collect();
    assert!(tables.len() > 1, "{tables:?}");
    for path in tables.iter().step_by(2) {
        let bytes = disk.read_all(path).unwrap();
        let filter_at = word(&bytes, bytes.len() - 64);
        flip(path, 10, 10);
        if filter_at > 4000 {
            flip(path, filter_at - 1, PART_MAX);
        }
    }
    let bytes = disk.read_all(&tables[1]).unwrap().len() as u64;
    flip(&tables[1], bytes - 30, PART_MAX);
    for kind in ["wal-", "manifest-"] {
        let path = files(disk).into_iter().rfind(|path| named(path, kind)).unwrap();
        let bytes = disk.read_all(&path).unwrap();
        let used = bytes.iter().rposition(|&byte| byte != 0).unwrap() as u64;
        if kind == "wal-" {
            // What comes behind is proof that these were synced.
            flip(&path, 4096 + 50, 50);
            flip(&path, used / 2, PART_MAX);
        } else {
            flip(&path, used, PART_MAX);
        }
    }
    places
}

fn all_named(places: &[Place], findings: &[Finding], base: &Path) -> Result<(), String> {
    let mut left: Vec<&Finding> = findings.iter().collect();
    for (path, offset, before) in places {
        let file = base.join(path.strip_prefix(STORE).unwrap());
        let near = offset.saturating_sub(*before)..=*offset;
        let found = left.iter().rposition(|found| found.file == file && near.contains(&found.offset));
        match found {
            Some(index) => drop(left.remove(index)),
            None => return Err(format!("{} at {offset} is not named: {findings:#?}", path.display())),
        }
    }
    Ok(())
}

fn bytes_of(disk: &SimFs) -> BTreeMap<PathBuf, Vec<u8>> {
    disk.paths().into_iter().map(|path| (path.clone(), disk.read_all(&path).unwrap())).collect()
}

#[test]
fn check_names_every_damage_and_changes_nothing() {
    for seed in common::seeds(12) {
        for left in [Left::Closed, Left::Rebooted] {
            let (disk, _) = build(seed, left);
            assert_eq!(esker::check(STORE, &options(&disk)).unwrap().findings, []);
            let places = damage(&disk, &mut Rng::new(seed));
            let (before, operations) = (bytes_of(&disk), disk.operations());
            let report = esker::check(STORE, &options(&disk)).unwrap();
            let judged = all_named(&places, &report.findings, Path::new(STORE));
            assert_eq!(judged, Ok(()), "ESKER_SEED={seed} {left:?}");
            assert!(bytes_of(&disk) == before && disk.operations() == operations, "ESKER_SEED={seed}");
        }
    }
}

/// The same of real files, with what the operating system says of them.
#[test]
#[expect(clippy::disallowed_methods, reason = "real files are looked at past the store")]
fn check_leaves_real_files_as_they_are() {
    let (disk, _) = build(5, Left::Rebooted);
    let places = damage(&disk, &mut Rng::new(5));
    let dir = tempfile::tempdir().unwrap();
    for (path, bytes) in bytes_of(&disk) {
        std::fs::write(dir.path().join(path.strip_prefix(STORE).unwrap()), bytes).unwrap();
    }
    let state = || -> BTreeMap<PathBuf, (Vec<u8>, std::time::SystemTime)> {
        let entries = std::fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().path());
        entries
            .map(|path| {
                let modified = std::fs::metadata(&path).unwrap().modified().unwrap();
                (path.clone(), (std::fs::read(&path).unwrap(), modified))
            })
            .collect()
    };
    let before = state();
    let report = esker::check(dir.path(), &Options::default()).unwrap();
    assert_eq!(all_named(&places, &report.findings, dir.path()), Ok(()));
    assert!(state() == before, "a file has changed");
}
