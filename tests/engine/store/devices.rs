//! Real file systems whose device goes away while the store writes, and comes back without the machine being booted.

#![cfg(target_os = "linux")]
use std::fs::{self, File};
use std::path::Path;
use std::sync::Arc;

use esker::env::{Env, StepExecutor};
use esker::{Db, Options};

use crate::common::image::Disk;
use crate::common::{Rng, seeds};

const WRITES: u64 = 120;

fn open(dir: &Path) -> Db {
    // Nothing is synced but by the test.
    let env = Env { executor: Some(Arc::new(StepExecutor)), ..Env::system() };
    Db::open(dir, Options::default().memory_budget(8 << 20).env(env)).unwrap()
}

fn value(number: u64) -> Vec<u8> {
    let len = if number.is_multiple_of(3) { 60_000 } else { 20 };
    vec![number as u8; len]
}

/// Has the kernel bring files of the store to the disk, as it may at any time.
fn write_back(dir: &Path, wanted: impl Fn(&str) -> bool) {
    for entry in fs::read_dir(dir).unwrap().map(Result::unwrap) {
        if wanted(&entry.file_name().to_string_lossy()) {
            File::open(entry.path()).unwrap().sync_all().unwrap();
        }
    }
}

/// The log has reached the device, and of the huge values some: those that have not end the history, though the machine was
/// not booted and the log's own mark says that all of it was acknowledged.
#[test]
fn a_device_that_comes_back_on_the_same_boot_holds_a_prefix() {
    let mut cut_short = 0;
    for seed in seeds(5) {
        println!("seed {seed}");
        let name = "devices::a_device_that_comes_back_on_the_same_boot_holds_a_prefix";
        let Some(mut disk) = Disk::new(name, 128 << 20) else { return };
        let dir = disk.path().join("store");
        let mut rng = Rng::new(seed);
        let [synced, half_way] = [rng.below(WRITES / 2), rng.below(WRITES)];
        let db = open(&dir);
        for number in 0..WRITES {
            db.put(number.to_be_bytes(), value(number)).unwrap();
            if number == synced {
                db.sync().unwrap();
            }
            if number == half_way {
                write_back(&dir, |name| name.ends_with(".blob"));
            }
        }
        write_back(&dir, |name| name.starts_with("wal-"));
        let left = disk.go_away();
        drop(db);
        disk.come_back(&left);

        let db = open(&dir);
        let found: Vec<bool> = (0..WRITES)
            .map(|number| match db.get_vec(number.to_be_bytes()).unwrap() {
                Some(found) => found == value(number),
                None => false,
            })
            .collect();
        let kept = found.iter().take_while(|&&found| found).count();
        assert!(kept as u64 > synced, "seed {seed}: {kept} are left, and {synced} was synced");
        assert!(found[kept..].iter().all(|&found| !found), "seed {seed}: {kept} are left, and later ones");
        cut_short += u64::from((kept as u64) < WRITES);
        db.close().unwrap();
        drop(db);
        assert_eq!(esker::check(&dir, &Options::default()).unwrap().findings, [], "seed {seed}");
    }
    assert!(cut_short > 0 || !crate::common::is_full_run(), "every history was whole");
}
