//! Damage at rest: whatever happens to the files of a store, opening and reading give what was written or
//! an error that names the place. Never a panic, never other data, never silently less.
//!
//! A failure prints its seed: `ESKER_SEED=3 cargo test --test crash damage::` does that store's damages again.

mod cancel;
mod check;
mod repair;
mod repair_kinds;
mod store;
mod twins;
mod unreadable;
mod verdict;

use std::path::{Path, PathBuf};

use esker::fs::FileSystem;
use esker::fs::sim::SimFs;
use esker::{Db, ErrorKind};
use twox_hash::XxHash3_64;

use crate::common::{self, Rng};
use store::{EVERY_WAY, Left, STORE, build, options};
use verdict::{Verdict, files, judge};

/// Does `damage` to a copy of each of several stores, `times` times, and judges what is left.
fn damaged(
    ways: &[Left],
    stores: u64,
    times: u64,
    mut damage: impl FnMut(&SimFs, &[PathBuf], &mut Rng) -> String,
) -> [u64; 2] {
    let mut verdicts = [0; 2];
    for seed in common::seeds(stores) {
        for &left in ways {
            let (disk, expected) = build(seed, left);
            let mut rng = Rng::new(seed);
            assert_eq!(judge(&disk, &expected, true), Ok(Verdict::Harmless), "nothing was done to {left:?}");
            for time in 0..times {
                let disk = disk.fork();
                let done = damage(&disk, &files(&disk), &mut rng);
                match judge(&disk, &expected, time % 4 == 0) {
                    Ok(verdict) => verdicts[verdict as usize] += 1,
                    Err(what) => panic!("ESKER_SEED={seed}, {left:?}, {done}: {what}"),
                }
            }
        }
    }
    println!("harmless, told: {verdicts:?}");
    verdicts
}

/// A place in a file, mostly where there is something.
fn place(disk: &SimFs, path: &Path, rng: &mut Rng) -> u64 {
    let bytes = disk.read_all(path).unwrap();
    let used = bytes.iter().rposition(|&byte| byte != 0).map_or(1, |last| last + 1);
    let within = if rng.one_in(4) { bytes.len() } else { used };
    rng.below(within as u64)
}

fn shown(path: &Path) -> String {
    path.display().to_string()
}

fn some_file(disk: &SimFs, files: &[PathBuf], rng: &mut Rng) -> PathBuf {
    loop {
        let path = rng.pick(files).clone();
        if disk.file_len(&path).unwrap() > 0 {
            return path;
        }
    }
}

#[test]
fn a_flipped_byte_is_found_or_harmless() {
    let verdicts = damaged(&EVERY_WAY, 4, 125, |disk, files, rng| {
        let path = some_file(disk, files, rng);
        let (offset, xor) = (place(disk, &path, rng), 1 + rng.below(255) as u8);
        disk.flip_byte(&path, offset, xor).unwrap();
        format!("{} at {offset} xor {xor:#x}", shown(&path))
    });
    // Manifest and copy have a page each of which 32 bytes are used.
    assert!(3 * verdicts[1] > 2 * verdicts[0], "many bytes matter: {verdicts:?}");
}

#[test]
fn a_file_that_was_cut_is_found_or_harmless() {
    damaged(&[Left::Closed, Left::Rebooted], 3, 60, |disk, files, rng| {
        let path = some_file(disk, files, rng);
        let len = place(disk, &path, rng);
        disk.truncate(&path, len).unwrap();
        format!("{} cut to {len}", shown(&path))
    });
}

#[test]
fn a_file_that_is_gone_is_missed_or_not_needed() {
    damaged(&[Left::Closed, Left::Rebooted], 3, 25, |disk, files, rng| {
        let path = rng.pick(files).clone();
        disk.remove_file(&path).unwrap();
        format!("{} removed", shown(&path))
    });
}

#[test]
fn files_that_changed_places_are_found_or_harmless() {
    damaged(&[Left::Closed, Left::Rebooted], 3, 40, |disk, files, rng| {
        let (a, b) = (rng.pick(files).clone(), rng.pick(files).clone());
        let (was_a, was_b) = (disk.read_all(&a).unwrap(), disk.read_all(&b).unwrap());
        disk.write_all(&a, &was_b).unwrap();
        disk.write_all(&b, &was_a).unwrap();
        format!("{} and {} swapped", shown(&a), shown(&b))
    });
}

#[test]
fn zeros_and_noise_are_found_or_harmless() {
    damaged(&[Left::Closed, Left::Rebooted], 3, 60, |disk, files, rng| {
        let path = some_file(disk, files, rng);
        let mut bytes = disk.read_all(&path).unwrap();
        let from = place(disk, &path, rng) as usize & !4095;
        let to = bytes.len().min(from + 4096);
        let what = match rng.below(3) {
            0 => {
                bytes[from..to].fill(0);
                "a page of zeros"
            }
            1 => {
                bytes[from..to].fill_with(|| rng.next() as u8);
                "a page of noise"
            }
            _ => {
                bytes.fill_with(|| rng.next() as u8);
                "nothing but noise"
            }
        };
        disk.write_all(&path, &bytes).unwrap();
        format!("{} from {from}: {what}", shown(&path))
    });
}

#[test]
fn files_of_others_are_left_alone() {
    let names =
        ["notes.txt", "x.tmp", "1.table", "wal-1.log", "manifest-x", "wal-000001.log.bak", "000001.sst"];
    for left in EVERY_WAY {
        let (disk, expected) = build(1, left);
        for name in names {
            disk.write_all(Path::new(STORE).join(name), name.as_bytes()).unwrap();
        }
        assert_eq!(judge(&disk, &expected, true), Ok(Verdict::Harmless));
        let db = Db::open(STORE, options(&disk)).unwrap();
        db.compact().unwrap();
        db.close().unwrap();
        for name in names {
            assert_eq!(disk.read_all(Path::new(STORE).join(name)).unwrap(), name.as_bytes());
        }
    }
}

/// Files whose names are ours but which the store does not name: leftovers, or lies.
#[test]
fn strays_with_our_names_do_no_harm() {
    let (disk, expected) = build(2, Left::Closed);
    // The manifest in force gets a greater number than the one that is put there as a leftover.
    Db::open(STORE, options(&disk)).unwrap().close().unwrap();
    let manifests = ["manifest-000001", "manifest-000001.tmp", "manifest-000001.copy.tmp"];
    let copies = ["manifest-000001.copy", "manifest-009999.copy", "manifest-281474976710656.copy"];
    let strays = ["009999.table"].into_iter().chain(manifests).chain(copies);
    for name in strays {
        let disk = disk.fork();
        disk.write_all(Path::new(STORE).join(name), b"of no use").unwrap();
        assert_eq!(judge(&disk, &expected, true), Ok(Verdict::Harmless), "{name}");
    }
    for name in ["manifest-009999", "wal-009999.log"] {
        let disk = disk.fork();
        disk.write_all(Path::new(STORE).join(name), b"nothing of ours, at some length").unwrap();
        assert_eq!(judge(&disk, &expected, true), Ok(Verdict::Told), "{name}");
    }
}

/// A later format is told from damage, in each kind of file.
#[test]
fn a_newer_format_is_unsupported() {
    let (disk, _) = build(3, Left::Closed);
    for path in files(&disk) {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let mut bytes = disk.read_all(&path).unwrap();
        let len = bytes.len();
        // Where the version is, what the check covers, where the check is.
        let (version, covered, check) = match name.as_str() {
            "LOCK" | "RESERVE" => continue,
            name if name.starts_with("wal-") && bytes[0] == 0 => continue,
            name if name.starts_with("wal-") => (8, 0..64, 64),
            name if name.starts_with("manifest-") => (8, 0..24, 24),
            name if name.ends_with(".blob") => (8, 0..40, 40),
            _ => (len - 24, len - 64..len - 16, len - 16),
        };
        bytes[version] += 1;
        let sum = XxHash3_64::oneshot_with_seed(0, &bytes[covered]);
        bytes[check..check + 8].copy_from_slice(&sum.to_le_bytes());
        let newer = disk.fork();
        newer.write_all(&path, &bytes).unwrap();
        if name.ends_with(".copy") {
            // Opening does not read it.
            let findings = esker::check(STORE, &options(&newer)).unwrap().findings;
            assert!(findings.iter().any(|finding| finding.file == path && finding.reason.contains("newer")));
            continue;
        }
        let opened = Db::open(STORE, options(&newer)).and_then(|db| db.compact());
        let error = opened.expect_err("a file of a newer format was read");
        assert_eq!((error.kind(), error.path()), (ErrorKind::Unsupported, Some(path.as_path())), "{error}");
    }
}

/// What is no store is told from a damaged one.
#[test]
fn directories_that_are_no_store_are_refused() {
    let open = |disk: &SimFs| Db::open(STORE, options(disk)).map(drop).map_err(|error| error.kind());
    let disk = SimFs::new(1);
    disk.write_all("/db/letter.txt", b"dear").unwrap();
    assert_eq!(open(&disk), Err(ErrorKind::InvalidInput));
    assert_eq!(files(&disk), [Path::new("/db/letter.txt")]);

    let disk = SimFs::new(1);
    disk.write_all("/db", b"a file").unwrap();
    assert!(open(&disk).is_err());

    let disk = SimFs::new(1);
    disk.create_dir_all(Path::new(STORE)).unwrap();
    assert_eq!(open(&disk), Ok(()), "an empty directory becomes one");

    let disk = SimFs::new(1);
    let missing = Db::open(STORE, options(&disk).create(false)).map(drop);
    assert_eq!(missing.unwrap_err().kind(), ErrorKind::NotFound);
    assert!(!disk.exists(Path::new(STORE)).unwrap());
}
