//! Stores that are small, and disks that are: what the store sets aside follows both.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use esker::env::{Env, StepExecutor};
use esker::fs::sim::{Fault, FaultError, Op, SimFs};
use esker::{Db, Error, ErrorKind, MergeOperator, Options, ScanRange};

use crate::common::image::Disk;
use crate::common::{HourClock, Rng, settle, tables, world};

const STORE: &str = "/store";
/// A budget with log segments of up to 16 MiB, and memtables of 64.
const MEMORY: usize = 1 << 30;
const MIB: u64 = 1 << 20;

/// A store of which nothing moves but by [`settle`].
fn open(disk: &SimFs, clock: &Arc<HourClock>) -> Db {
    let env = world(Arc::new(disk.clone()), 1, Some(Arc::new(StepExecutor)));
    let env = Env { clock: Arc::<HourClock>::clone(clock), ..env };
    Db::open(STORE, Options::default().memory_budget(MEMORY).env(env)).unwrap()
}

/// The keys of rows, by their number.
type Keys = fn(u64) -> [u8; 8];

fn ascending(number: u64) -> [u8; 8] {
    number.to_be_bytes()
}

/// Tables of these overlap, and have to be merged.
fn scattered(number: u64) -> [u8; 8] {
    number.wrapping_mul(0x9E37_79B9_7F4A_7C15).to_be_bytes()
}

/// Puts rows of 1,000 bytes that nobody can compress until that is refused, also after the merges that are under way.
fn fill(db: &Db, key: Keys, mut between: impl FnMut(&Db)) -> (u64, Error) {
    let mut rng = Rng::new(7);
    for number in 0..100_000_u64 {
        let row = rng.bytes(1000);
        if db.put(key(number), &row).is_err() {
            // It waits for them, and may find no room itself.
            let _full = db.compact();
            if let Err(error) = db.put(key(number), &row) {
                return (number, error);
            }
        }
        if number % 64 == 63 {
            between(db);
        }
    }
    panic!("the disk never became full");
}

/// What was put is there, and when it was deleted there is room again.
fn check_full(db: &Db, key: Keys, rows: u64, refused: &Error) {
    assert_eq!(refused.kind(), ErrorKind::OutOfSpace, "{refused}");
    for part in ["free", "refused below", "RESERVE holds", "go on"] {
        assert!(refused.message().contains(part), "{refused}");
    }
    let mut rng = Rng::new(7);
    for number in 0..rows {
        assert_eq!(db.get_vec(key(number)).unwrap(), Some(rng.bytes(1000)), "{number}");
    }
    for number in 0..rows {
        db.delete(key(number)).unwrap();
    }
    db.compact().unwrap();
    db.put("room", "again").unwrap();
    assert_eq!(db.default_tree().count(ScanRange::all()).unwrap(), 1);
}

#[test]
fn a_small_disk_is_filled_with_rows_for_the_most_part() {
    for (key, least) in [(ascending as Keys, 40 * MIB), (scattered, 30 * MIB)] {
        fill_small_disk(key, least);
    }
}

fn fill_small_disk(key: Keys, least: u64) {
    let (disk, clock) = (SimFs::new(1), HourClock::new(0));
    disk.set_capacity(Some(55 * MIB));
    let db = open(&disk, &clock);
    let (rows, refused) = fill(&db, key, settle);
    println!("{rows} rows: {refused}");
    assert!(rows * 1000 > least, "only {rows} rows: {refused}");
    check_full(&db, key, rows, &refused);
    db.close().unwrap();
    assert!(disk.used() < 4 * MIB, "{} bytes are left of one row", disk.used());
    let db = open(&disk, &clock);
    assert_eq!(db.get_vec("room").unwrap().as_deref(), Some(&b"again"[..]));
}

/// The same on a real file system, with the store's own threads.
#[test]
fn a_small_file_system_is_filled_with_rows_for_the_most_part() {
    for (key, least) in [(ascending as Keys, 40 * MIB), (scattered, 30 * MIB)] {
        fill_small_file_system(key, least);
    }
}

fn fill_small_file_system(key: Keys, least: u64) {
    let name = "small_disks::a_small_file_system_is_filled_with_rows_for_the_most_part";
    let Some(disk) = Disk::new(name, 64 * MIB) else { return };
    let dir = disk.path().join("store");
    let db = Db::open(&dir, Options::default().memory_budget(MEMORY)).unwrap();
    let (rows, refused) = fill(&db, key, |_| ());
    println!("{rows} rows: {refused}");
    assert!(rows * 1000 > least, "only {rows} rows: {refused}");
    check_full(&db, key, rows, &refused);
    db.close().unwrap();
    let left = taken(&dir);
    assert!(left < 4 * MIB, "{left} bytes are left of one row");
}

/// Others take what is left of a small disk while memtables, of a store with a large budget, wait to be flushed: what is set
/// aside holds their tables. With the store's own threads too.
#[test]
fn deletes_go_on_where_others_take_the_rest_of_a_small_disk() {
    for (key, threads, capacity, rows) in [
        (ascending as Keys, false, 55 * MIB, 12_000),
        (ascending, true, 55 * MIB, 20_000),
        (scattered, false, 55 * MIB, 17_000),
        (scattered, true, 55 * MIB, 9_000),
        // A memtable is nearly full, and a segment is much shorter than the disk has room for, as its length is a power of two.
        (ascending, false, 118 * MIB, 11_133),
    ] {
        let (disk, clock) = (SimFs::new(rows), HourClock::new(0));
        disk.set_capacity(Some(capacity));
        let env = Env { fs: Arc::new(disk.clone()), ..Env::system() };
        let with_threads = Options::default().memory_budget(MEMORY).env(env);
        let db = if threads { Db::open(STORE, with_threads.clone()).unwrap() } else { open(&disk, &clock) };
        let mut rng = Rng::new(7);
        for number in 0..rows {
            let row = rng.bytes(1000);
            // The store's own threads may be behind: there is room when they have done what is to be done.
            if db.put(key(number), &row).is_err() {
                assert!(threads);
                db.compact().unwrap();
                db.put(key(number), &row).unwrap();
            }
        }
        disk.set_capacity(Some(disk.used()));
        for number in 0..rows {
            db.delete(key(number)).unwrap();
        }
        db.flush().unwrap();
        db.compact().unwrap();
        db.put("room", "again").unwrap();
        assert_eq!(db.default_tree().count(ScanRange::all()).unwrap(), 1);
        drop(db);
        disk.set_capacity(Some(disk.used()));
        let db = Db::open(STORE, with_threads).unwrap();
        assert_eq!(db.default_tree().count(ScanRange::all()).unwrap(), 1);
    }
}

/// As `du` counts the files in a directory.
fn taken(dir: &Path) -> u64 {
    use std::os::unix::fs::MetadataExt;
    let entries = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().metadata().unwrap());
    entries.map(|file| file.blocks() * 512).sum()
}

/// What `stats` says that the store takes is what its files take.
#[test]
fn stats_count_all_of_the_directory() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store");
    let db = Db::open(&path, Options::default()).unwrap();
    for number in 0..2000_u32 {
        db.put(number.to_be_bytes(), [1; 500]).unwrap();
    }
    db.put("huge", vec![1; 100_000]).unwrap();
    db.flush().unwrap();
    db.put("more", "in the log").unwrap();
    // Whatever lies there.
    let is_table = |name: &String| name.ends_with(".table");
    let names =
        std::fs::read_dir(&path).unwrap().map(|file| file.unwrap().file_name().into_string().unwrap());
    let table = names.into_iter().find(is_table).unwrap();
    for name in ["quarantine-1", "backup.tmp", "mine"] {
        std::fs::create_dir(path.join(name)).unwrap();
    }
    std::fs::write(path.join("notes"), vec![1; 70_000]).unwrap();
    std::fs::write(path.join("quarantine-1/000007.table"), vec![1; 50_000]).unwrap();
    std::fs::write(path.join("backup.tmp/wal-000001.log"), vec![1; 30_000]).unwrap();
    // A link takes no space, and a directory that is not the store's is not looked into.
    std::fs::hard_link(path.join(&table), path.join("backup.tmp").join(&table)).unwrap();
    std::fs::write(path.join("mine/film"), vec![1; 90_000]).unwrap();
    db.sync().unwrap();
    let below = taken(&path.join("quarantine-1")) + taken(&path.join("backup.tmp"))
        - blocks(&std::fs::metadata(path.join(&table)).unwrap());
    assert!(below >= 80_000);
    // The log job may be making a segment ready.
    let agrees = (0..100).any(|_| {
        let before = taken(&path);
        let said = db.stats().unwrap();
        let is_still = before == taken(&path);
        let directories =
            ["quarantine-1", "backup.tmp", "mine"].map(|name| std::fs::metadata(path.join(name)));
        let of_directories: u64 = directories.into_iter().map(|made| blocks(&made.unwrap())).sum();
        assert!(said.log_bytes > 0 && said.reserve_bytes > 0);
        is_still && said.disk_bytes == before - of_directories + below
    });
    assert!(agrees, "{} for {}", db.stats().unwrap().disk_bytes, taken(&path));
    db.close().unwrap();
    // As the command line does.
    let said = Db::open_read_only(&path, Options::default()).unwrap().stats().unwrap();
    assert_eq!(said.reserve_bytes, std::fs::metadata(path.join("RESERVE")).unwrap().len());
    assert!(said.reserve_bytes > 0);
}

/// A copy by programs that leave out what is not written takes no space where the reserve was: opening sets it aside anew.
#[test]
fn a_reserve_that_a_copy_has_made_hollow_is_set_aside_again() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store");
    let reserve = path.join("RESERVE");
    Db::open(&path, Options::default()).unwrap().close().unwrap();
    let len = std::fs::metadata(&reserve).unwrap().len();
    std::fs::write(&reserve, b"").unwrap();
    std::fs::OpenOptions::new().write(true).open(&reserve).unwrap().set_len(len).unwrap();
    assert!(blocks(&std::fs::metadata(&reserve).unwrap()) < len);
    let db = Db::open(&path, Options::default()).unwrap();
    let held = db.stats().unwrap().reserve_bytes;
    assert!(
        held >= len && blocks(&std::fs::metadata(&reserve).unwrap()) >= held,
        "{held} bytes, less on the disk"
    );
}

fn blocks(file: &std::fs::Metadata) -> u64 {
    use std::os::unix::fs::MetadataExt;
    file.blocks() * 512
}

#[test]
fn a_store_of_one_row_is_small() {
    let (disk, clock) = (SimFs::new(2), HourClock::new(0));
    for _ in 0..3 {
        let db = open(&disk, &clock);
        db.put("row", "one").unwrap();
        settle(&db);
        assert!(disk.used() <= 4 * MIB, "{} bytes while it is open", disk.used());
        assert_eq!(db.stats().unwrap().disk_bytes, disk.used());
        db.close().unwrap();
        assert!(disk.used() <= 4 * MIB, "{} bytes when it is closed", disk.used());
    }
}

/// One row that is written again and again makes a long log. When that has ended, so has its space: after a while, or when
/// the store is closed.
#[test]
fn a_store_of_one_row_that_was_written_often_is_small_again() {
    for closes in [false, true] {
        let (disk, clock) = (SimFs::new(3), HourClock::new(0));
        let mut db = open(&disk, &clock);
        for number in 0..40_000_u32 {
            db.put("row", [number as u8; 1000]).unwrap();
            if number % 64 == 0 {
                settle(&db);
            }
        }
        let busy = disk.used();
        assert!(busy > 20 * MIB, "{busy} bytes do not need to get fewer");
        if closes {
            db.close().unwrap();
            assert!(disk.used() <= 4 * MIB, "{} bytes when it is closed", disk.used());
            db = open(&disk, &clock);
        } else {
            settle(&db);
            clock.pass(1);
            settle(&db);
        }
        assert!(disk.used() <= 4 * MIB, "{} bytes, closes: {closes}", disk.used());
        assert_eq!(db.get_vec("row").unwrap(), Some(vec![39_999_u32 as u8; 1000]));
    }
}

/// Others fill the disk the next time that a merge asks for a value.
struct Filling {
    disk: SimFs,
    is_due: Arc<AtomicBool>,
}

impl MergeOperator for Filling {
    fn name(&self) -> &str {
        "filling"
    }

    fn apply(&self, _: Option<&[u8]>, operands: &[&[u8]]) -> Result<Vec<u8>, String> {
        if self.is_due.swap(false, Ordering::Relaxed) {
            self.disk.set_capacity(Some(self.disk.used()));
        }
        Ok(operands.concat())
    }
}

/// A merge finds no room, for which the disk is not to blame for long. `fails` sees to that, `ends` that it is over.
fn merge_finds_no_room(fails: impl FnOnce(&SimFs, &AtomicBool), ends: impl FnOnce(&Db, &SimFs, &HourClock)) {
    let (disk, clock, is_due) = (SimFs::new(4), HourClock::new(0), Arc::new(AtomicBool::new(false)));
    let env = world(Arc::new(disk.clone()), 1, Some(Arc::new(StepExecutor)));
    let env = Env { clock: Arc::<HourClock>::clone(&clock), ..env };
    let operator = Filling { disk: disk.clone(), is_due: Arc::clone(&is_due) };
    let options = Options::default().memory_budget(8 << 20).env(env).merge_operator(operator);
    let db = Db::open(STORE, options).unwrap();
    for round in 0..8_u8 {
        for number in 0..200_u32 {
            db.put(number.to_be_bytes(), Rng::new(u64::from(round)).bytes(1000)).unwrap();
        }
        db.default_tree().merge("asked", "filling", [round]).unwrap();
        db.flush().unwrap();
    }
    let before = tables(&disk, STORE);
    fails(&disk, &is_due);
    settle(&db);
    assert!(!is_due.load(Ordering::Relaxed), "no merge asked for a value");
    assert!(tables(&disk, STORE) >= before, "the merge found room");
    ends(&db, &disk, &clock);
    settle(&db);
    assert!(tables(&disk, STORE) < before, "the merge is not tried again");
    db.put("room", "again").unwrap();
}

#[test]
fn a_merge_during_which_others_filled_the_disk_is_done_when_they_have_left() {
    merge_finds_no_room(
        |_, is_due| is_due.store(true, Ordering::Relaxed),
        |_, disk, _| disk.set_capacity(None),
    );
}

/// A quota may refuse what the disk has room for, and nothing tells when it does so no more.
#[test]
fn a_merge_that_was_refused_although_there_was_room_is_tried_again_after_a_while() {
    let refused = Fault::new(Op::Append, ".table").error(FaultError::NoSpace);
    let is_over = |db: &Db, _: &SimFs, clock: &HourClock| {
        // The merge is not begun now, and not forgotten either.
        settle(db);
        clock.pass(1);
    };
    merge_finds_no_room(|disk, _| disk.inject(refused), is_over);
}
