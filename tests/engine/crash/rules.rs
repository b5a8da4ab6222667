//! Rules that random lives do not reach: what a second thread may see, what is small, what idles.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use esker::fs::sim::SimFs;
use esker::fs::{
    DirLock, Entry, FileSystem, LockMode, MappedFile, RandomFile, ReadFile, SyncFile, WriteFile,
};
use esker::{Db, Durability, ErrorKind, Options};

use crate::common::Rng;
use crate::life::{STORE, contents};
use crate::world::env;

fn open(disk: &SimFs) -> Db {
    Db::open(STORE, Options::default().memory_budget(8 << 20).env(env(disk, 1))).unwrap()
}

/// Rule 24: a store into a mapped file is no more durable than any other write.
#[test]
fn the_simulated_disk_forgets_what_was_not_synced() {
    let disk = SimFs::new(1);
    let db = open(&disk);
    db.default_tree().put_with("kept", "1", Durability::Power).unwrap();
    db.put("lost", "2").unwrap();
    let db = open(&disk.crash_keeping(0.0, 1));
    assert!(db.contains("kept").unwrap());
    assert!(!db.contains("lost").unwrap(), "the disk remembers what it was never told to keep");
}

/// A first record that does not fit into the first segment leaves that one empty: nobody syncs a record of
/// it, and replay begins with it all the same.
#[test]
fn a_synced_write_longer_than_the_first_segment_survives() {
    let disk = SimFs::new(1);
    let db = open(&disk);
    let value = vec![7; 3 << 20];
    db.default_tree().put_with("kept", &value, Durability::Power).unwrap();
    let db = open(&disk.crash_keeping(0.0, 1));
    assert!(db.get_vec("kept").unwrap().as_deref() == Some(&value[..]), "a write that was synced is gone");
}

/// Rule 9: a small store takes little space.
#[test]
fn the_log_of_a_small_store_is_small() {
    let disk = SimFs::new(1);
    let options = Options::default().memory_budget(1 << 30).env(env(&disk, 1));
    let db = Db::open(STORE, options).unwrap();
    db.put("key", "value").unwrap();
    let bytes: usize = disk.paths().iter().map(|path| disk.read_all(path).unwrap().len()).sum();
    assert!(bytes < 2 << 20, "{bytes} bytes for one pair");
}

/// Rule 19: a tree that holds one pair and idles does not keep the log from being shortened.
#[test]
fn an_idle_tree_does_not_pin_the_log() {
    let disk = SimFs::new(1);
    let mut options = Options::default().memory_budget(8 << 20).env(env(&disk, 1));
    options.memtable_bytes = Some(256 << 10);
    let db = Db::open(STORE, options).unwrap();
    db.tree("idle").unwrap().put("key", "value").unwrap();
    let value = vec![7; 10_000];
    for number in 0..4_000_u32 {
        db.put(number.to_be_bytes(), &value).unwrap();
        while db.step(esker::env::JobKind::Flush) {}
        while db.step(esker::env::JobKind::Compact) {}
    }
    let live = db.stats().unwrap().log_live_bytes;
    assert!(live < 8 << 20, "recovery would read {live} bytes of log");
}

/// Rule 8: after a sync that failed nothing is acknowledged until the store is opened again.
#[test]
fn a_failed_sync_poisons_the_store() {
    use esker::fs::sim::{Fault, Op};
    let disk = SimFs::new(1);
    let db = open(&disk);
    db.put("process", "1").unwrap();
    disk.inject(Fault::new(Op::Sync, "wal-"));
    assert_eq!(db.sync().unwrap_err().kind(), esker::ErrorKind::Poisoned);
    for _ in 0..3 {
        assert!(db.sync().is_err());
        assert!(db.put("later", "2").is_err());
        assert!(db.flush().is_err());
    }
    assert!(db.contains("process").unwrap(), "reads go on");
    drop(db);
    open(&disk).put("again", "3").unwrap();
}

/// Rule 8 for blob files: what a failed sync has cost is named, the rest is there, and nothing is acknowledged
/// until the store is opened again.
#[test]
fn a_failed_sync_of_a_blob_file_costs_its_values_and_no_others() {
    use esker::fs::sim::{Fault, Op};
    let disk = SimFs::new(1);
    let open = || Db::open(STORE, Options::default().separate_at(1000).env(env(&disk, 1))).unwrap();
    let db = open();
    db.default_tree().put_with("safe", vec![1; 5000], Durability::Power).unwrap();
    for number in 0..9_u8 {
        db.put([number], vec![number; if number % 2 == 0 { 10 } else { 5000 }]).unwrap();
    }
    disk.inject(Fault::new(Op::Sync, ".blob"));
    for _ in 0..2 {
        assert_eq!(db.sync().unwrap_err().kind(), esker::ErrorKind::Poisoned);
        assert!(db.put("later", "2").is_err() && db.flush().is_err());
    }
    drop(db);
    let db = open();
    assert!(db.get_vec("safe").unwrap().unwrap() == [1; 5000]);
    for number in 0..9_u8 {
        match db.get_vec([number]) {
            Ok(found) => assert!(found.unwrap().iter().all(|&byte| byte == number)),
            Err(error) => {
                assert_eq!(error.kind(), esker::ErrorKind::Corruption);
                assert!(number % 2 == 1 && error.path().unwrap().extension().unwrap() == "blob", "{error}");
            }
        }
    }
}

/// What `set_tag` did survives with all that was acknowledged before it.
#[test]
fn a_tag_and_what_was_written_before_it_survive_power_loss() {
    let disk = SimFs::new(1);
    let db = open(&disk);
    let tree = db.tree("tagged").unwrap();
    tree.put("before", "1").unwrap();
    tree.set_tag("a tag").unwrap();
    tree.put("behind", "2").unwrap();
    let db = open(&disk.crash_keeping(0.0, 1));
    let tree = db.open_tree("tagged").unwrap().unwrap();
    assert_eq!(tree.tag().as_deref(), Some("a tag"));
    assert!(tree.contains("before").unwrap(), "the tag overtook a write");
}

fn segments(disk: &SimFs) -> usize {
    disk.paths().iter().filter(|path| path.to_string_lossy().contains("/wal-")).count()
}

/// Only what recovery needs stays when a store is closed, also when the log was in trouble.
#[test]
fn a_closed_store_leaves_no_spare_segment() {
    use esker::fs::sim::{Fault, Op};
    for fails in [false, true] {
        let disk = SimFs::new(1);
        let db = open(&disk);
        for round in 0..3 {
            for number in 0..600_u32 {
                db.put(number.to_be_bytes(), [round; 1000]).unwrap();
            }
            db.flush().unwrap();
            while round < 2 && db.step(esker::env::JobKind::Log) {}
        }
        assert!(segments(&disk) > 1, "{:?}", disk.paths());
        if fails {
            // A file that was to be used again cannot be opened.
            disk.inject(Fault::new(Op::CreateMapped, "wal-"));
            db.step(esker::env::JobKind::Log);
            assert_eq!(disk.faults_hit(), 1);
            assert!(db.put("refused", "").is_err());
        }
        drop(db.close());
        assert_eq!(segments(&disk), 1, "{:?}", disk.paths());
    }
}

/// The contents of the log's segments in a directory.
fn logs_of(disk: &SimFs, dir: &str) -> BTreeMap<PathBuf, Vec<u8>> {
    let is_log = |path: &PathBuf| path.starts_with(dir) && path.to_string_lossy().contains("/wal-");
    let paths = disk.paths().into_iter().filter(is_log);
    paths.map(|path| (path.clone(), disk.read_all(&path).unwrap())).collect()
}

/// Makes a copy of the store's log by hard links.
fn link_log(disk: &SimFs) {
    disk.create_dir_all(Path::new("/copy")).unwrap();
    for path in logs_of(disk, STORE).into_keys() {
        disk.hard_link(&path, &Path::new("/copy").join(path.file_name().unwrap())).unwrap();
    }
}

/// An opening that died has left a segment without records. Somebody has copied the directory by hard links: the segment is
/// theirs too, and what the store writes does not get into their log.
#[test]
fn an_untouched_segment_with_a_second_name_is_not_used_again() {
    let disk = SimFs::new(1);
    open(&disk).put("before", "1").unwrap();
    let disk = disk.kill();
    let _dies = open(&disk);
    let disk = disk.kill();
    link_log(&disk);
    let before = logs_of(&disk, "/copy");
    let db = open(&disk);
    db.put("behind", "2").unwrap();
    assert!(logs_of(&disk, "/copy") == before, "the copy has what was written behind it");
    assert!(db.contains("before").unwrap());
}

/// A copy of the store may have holes. A store through a mapping into one could fail on a full disk.
#[test]
fn an_untouched_segment_with_holes_is_not_used_again() {
    for has_holes in [false, true] {
        let disk = SimFs::new(1);
        open(&disk).put("before", "1").unwrap();
        let disk = disk.kill();
        let _dies = open(&disk);
        let disk = disk.kill();
        let is_log = |path: &PathBuf| path.to_string_lossy().contains("/wal-");
        let last = disk.paths().into_iter().filter(is_log).max().unwrap();
        if has_holes {
            disk.punch_holes(&last, &[(64 << 10, 64 << 10)]).unwrap();
        }
        let db = open(&disk);
        db.put("behind", "2").unwrap();
        let there = disk.paths().contains(&last);
        assert_eq!(there, !has_holes, "{} is used again: {there}", last.display());
        assert!(db.contains("before").unwrap());
    }
}

/// Somebody has given the segments that the log is done with second names.
#[test]
fn a_retired_segment_with_a_second_name_is_not_used_again() {
    let disk = SimFs::new(1);
    let db = open(&disk);
    let write = |rounds: u8| {
        for round in 0..rounds {
            for number in 0..600_u32 {
                db.put(number.to_be_bytes(), [round; 1000]).unwrap();
            }
            db.flush().unwrap();
        }
    };
    write(3);
    link_log(&disk);
    let before = logs_of(&disk, "/copy");
    db.put("one", "more").unwrap();
    // The log goes on in the one that it was in.
    let mut kept = logs_of(&disk, "/copy");
    kept.retain(|path, bytes| before[path] == *bytes);
    assert!(!kept.is_empty() && kept.len() == before.len() - 1, "{} of {}", kept.len(), before.len());
    write(3);
    let after = logs_of(&disk, "/copy");
    for (path, bytes) in kept {
        assert!(after[&path] == bytes, "{} was written over", path.display());
    }
}

/// A checkpoint that fails takes away what it has made.
#[test]
fn a_failed_checkpoint_leaves_nothing() {
    use esker::fs::sim::{Fault, FaultError, Op};
    for kind in [Op::Link, Op::Append, Op::Create, Op::Rename, Op::SyncDir, Op::Sync] {
        for nth in 1..20 {
            let disk = SimFs::new(1);
            let db = open(&disk);
            db.put("key", "value").unwrap();
            db.flush().unwrap();
            db.put("another", "value").unwrap();
            disk.inject(Fault::new(kind, "").nth(nth).error(FaultError::Io));
            let made = db.checkpoint("/copy");
            disk.clear_faults();
            assert_eq!(disk.exists(Path::new("/copy")).unwrap(), made.is_ok(), "{kind:?} {nth}");
            if disk.faults_hit() == 0 {
                break;
            }
            if db.put("more", "value").is_ok() {
                assert!(made.is_ok() || db.checkpoint("/copy").is_ok(), "{kind:?} {nth}");
            }
        }
    }
}

// ---- rule 1: a write is acknowledged after every earlier one is in the log ---------------------------

/// A disk on which the store of a record that contains [`SLOW`] takes until the test lets it go on.
#[derive(Debug, Clone)]
struct Gated {
    disk: SimFs,
    gate: Arc<Gate>,
}

#[derive(Debug)]
struct Gate {
    arrived: Mutex<Sender<()>>,
    open: Mutex<Receiver<()>>,
    before_lock: Mutex<Option<BeforeLock>>,
    /// The call, and what is in the name of its file, that takes until the test lets it go on, once.
    hold: Mutex<Option<(&'static str, &'static str)>>,
}

impl Gate {
    fn pass(&self, call: &str, path: &Path) {
        let is_it = |(held, part): &mut (&str, &str)| *held == call && path.to_string_lossy().contains(*part);
        if self.hold.lock().unwrap().take_if(is_it).is_some() {
            self.arrived.lock().unwrap().send(()).unwrap();
            self.open.lock().unwrap().recv().unwrap();
        }
    }
}

/// A disk with a gate, what tells that somebody stands at it, and what lets them go on.
fn gated(disk: &SimFs) -> (Gated, Receiver<()>, Sender<()>) {
    let (arrived, has_arrived) = channel();
    let (open_gate, opened) = channel();
    let (arrived, open) = (Mutex::new(arrived), Mutex::new(opened));
    let gate = Arc::new(Gate { arrived, open, before_lock: Mutex::default(), hold: Mutex::default() });
    (Gated { disk: disk.clone(), gate }, has_arrived, open_gate)
}

/// What happens once, when somebody asks for a directory's lock.
struct BeforeLock(Box<dyn FnOnce() + Send>);

impl std::fmt::Debug for BeforeLock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("BeforeLock")
    }
}

#[derive(Debug)]
struct GatedFile {
    file: Arc<dyn MappedFile>,
    gate: Arc<Gate>,
}

const SLOW: &[u8] = b"this one takes its time";

impl MappedFile for GatedFile {
    fn store(&self, offset: u64, bytes: &[u8]) -> esker::Result<()> {
        if bytes.windows(SLOW.len()).any(|window| window == SLOW) {
            self.gate.arrived.lock().unwrap().send(()).unwrap();
            self.gate.open.lock().unwrap().recv().unwrap();
        }
        self.file.store(offset, bytes)
    }
    fn store_u64(&self, offset: u64, value: u64) -> esker::Result<()> {
        self.file.store_u64(offset, value)
    }
    fn warm(&self, offset: u64, len: u64) {
        self.file.warm(offset, len);
    }
    fn sync(&self) -> esker::Result<()> {
        self.file.sync()
    }
    fn sync_handle(&self) -> Arc<dyn SyncFile> {
        self.file.sync_handle()
    }
    fn len(&self) -> u64 {
        self.file.len()
    }
    fn path(&self) -> &Path {
        self.file.path()
    }
}

impl Gated {
    fn gated(&self, file: Arc<dyn MappedFile>) -> Arc<dyn MappedFile> {
        Arc::new(GatedFile { file, gate: Arc::clone(&self.gate) })
    }
}

impl FileSystem for Gated {
    fn within(&self, _dir: &Path) -> esker::Result<Arc<dyn FileSystem>> {
        Ok(Arc::new(self.clone()))
    }
    fn outside(&self) -> Arc<dyn FileSystem> {
        Arc::new(self.clone())
    }
    fn entries(&self, dir: &Path) -> esker::Result<Vec<Entry>> {
        self.disk.entries(dir)
    }
    fn open_read(&self, path: &Path) -> esker::Result<Arc<dyn ReadFile>> {
        self.disk.open_read(path)
    }
    fn create(&self, path: &Path) -> esker::Result<Box<dyn WriteFile>> {
        self.disk.create(path)
    }
    fn create_mapped(&self, path: &Path, len: u64) -> esker::Result<Arc<dyn MappedFile>> {
        self.gate.pass("create", path);
        self.disk.create_mapped(path, len).map(|file| self.gated(file))
    }
    fn open_mapped(&self, path: &Path) -> esker::Result<Arc<dyn MappedFile>> {
        self.disk.open_mapped(path).map(|file| self.gated(file))
    }
    fn create_random(&self, path: &Path) -> esker::Result<Arc<dyn RandomFile>> {
        self.gate.pass("create", path);
        self.disk.create_random(path)
    }
    fn open_random(&self, path: &Path) -> esker::Result<Arc<dyn RandomFile>> {
        self.disk.open_random(path)
    }
    fn punch_hole(&self, path: &Path, offset: u64, len: u64) -> esker::Result<()> {
        self.disk.punch_hole(path, offset, len)
    }
    fn link_count(&self, path: &Path) -> esker::Result<u64> {
        self.disk.link_count(path)
    }
    fn allocated_bytes(&self, path: &Path) -> esker::Result<u64> {
        self.disk.allocated_bytes(path)
    }
    fn set_allocated(&self, path: &Path, len: u64) -> esker::Result<()> {
        self.gate.pass("allocate", path);
        self.disk.set_allocated(path, len)
    }
    fn exists(&self, path: &Path) -> esker::Result<bool> {
        self.disk.exists(path)
    }
    fn file_len(&self, path: &Path) -> esker::Result<u64> {
        self.disk.file_len(path)
    }
    fn create_dir_all(&self, dir: &Path) -> esker::Result<()> {
        self.disk.create_dir_all(dir)
    }
    fn create_dir(&self, dir: &Path) -> esker::Result<()> {
        self.disk.create_dir(dir)
    }
    fn is_regular(&self, path: &Path) -> esker::Result<bool> {
        self.disk.is_regular(path)
    }
    fn remove_file(&self, path: &Path) -> esker::Result<()> {
        self.gate.pass("remove", path);
        self.disk.remove_file(path)
    }
    fn remove_dir(&self, dir: &Path) -> esker::Result<()> {
        self.disk.remove_dir(dir)
    }
    fn rename(&self, from: &Path, to: &Path) -> esker::Result<()> {
        self.disk.rename(from, to)
    }
    fn hard_link(&self, from: &Path, to: &Path) -> esker::Result<()> {
        self.gate.pass("link", to);
        self.disk.hard_link(from, to)
    }
    fn sync_dir(&self, dir: &Path) -> esker::Result<()> {
        self.disk.sync_dir(dir)
    }
    fn lock(&self, path: &Path, mode: LockMode) -> esker::Result<Box<dyn DirLock>> {
        let first = self.gate.before_lock.lock().unwrap().take();
        if let Some(BeforeLock(first)) = first {
            first();
        }
        self.disk.lock(path, mode)
    }
    fn free_space(&self, dir: &Path) -> esker::Result<u64> {
        self.disk.free_space(dir)
    }
    fn boot_id(&self) -> [u8; 16] {
        self.disk.boot_id()
    }
}

/// One thread is held up while it copies its record; another one writes behind it. Whatever the second is
/// told before the process dies must be true.
#[test]
fn nobody_is_acknowledged_before_those_in_front() {
    for durability in [Durability::Process, Durability::Power] {
        let disk = SimFs::new(Rng::new(1).next());
        let (gated, has_arrived, open_gate) = gated(&disk);
        let mut world = env(&disk, 1);
        world.fs = Arc::new(gated);
        let db = Db::open(STORE, Options::default().memory_budget(8 << 20).env(world)).unwrap();
        let (acknowledged, acknowledgement) = channel();
        let mut left = None;
        std::thread::scope(|scope| {
            scope.spawn(|| db.put("first", SLOW));
            has_arrived.recv().unwrap();
            scope.spawn(|| {
                db.default_tree().put_with("second", "2", durability).unwrap();
                acknowledged.send(()).unwrap();
            });
            // A wait that ends early can only hide the fault, never see one that is not there.
            let early = acknowledgement.recv_timeout(Duration::from_millis(200)).is_ok();
            left = early.then(|| disk.kill());
            open_gate.send(()).unwrap();
        });
        if let Some(left) = left {
            let found = contents(&open(&left)).unwrap();
            assert!(found["default"].contains_key(&b"second"[..]), "acknowledged, and lost");
        }
        assert_eq!(db.get_vec("second").unwrap().as_deref(), Some(&b"2"[..]));
    }
}

/// A call to the disk, what is in the name of its file, and what makes it.
type Call<'a> = (&'static str, &'static str, &'a (dyn Fn(&Db) + Sync));

/// A call is about to change a file of the store while another thread closes it: the directory may be another opening's as
/// soon as the store is closed, so closing waits.
#[test]
fn a_store_is_not_closed_while_a_call_changes_its_files() {
    let put_much = |db: &Db| drop(db.put("much", vec![1; 600 << 10]));
    let compact = |db: &Db| drop(db.compact());
    let import = |db: &Db| drop(db.import_tree("/other", "new"));
    let calls: [Call<'_>; 4] = [
        ("remove", ".table", &compact),
        ("allocate", "RESERVE", &put_much),
        ("create", "wal-", &put_much),
        ("link", ".table", &import),
    ];
    for (call, part, work) in calls {
        let disk = SimFs::new(1);
        let other = Db::open("/other", Options::default().memory_budget(8 << 20).env(env(&disk, 2))).unwrap();
        other.put("key", "value").unwrap();
        other.flush().unwrap();
        other.close().unwrap();
        let (gated, has_arrived, open_gate) = gated(&disk);
        let gate = Arc::clone(&gated.gate);
        let mut world = env(&disk, 1);
        world.fs = Arc::new(gated);
        let mut options = Options::default().memory_budget(8 << 20).env(world);
        options.separate_at = usize::MAX;
        let db = Db::open(STORE, options).unwrap();
        // Tables to be merged into one.
        for round in 0..3_u8 {
            db.put("key", [round; 100]).unwrap();
            db.flush().unwrap();
        }
        *gate.hold.lock().unwrap() = Some((call, part));
        let (closed, has_closed) = channel();
        std::thread::scope(|scope| {
            scope.spawn(|| work(&db));
            has_arrived
                .recv_timeout(Duration::from_secs(60))
                .unwrap_or_else(|_| panic!("no {call} of {part}"));
            let db = &db;
            scope.spawn(move || {
                db.close().unwrap();
                closed.send(()).unwrap();
            });
            // A wait that ends early can only hide the fault, never see one that is not there.
            let early = has_closed.recv_timeout(Duration::from_millis(300)).is_ok();
            open_gate.send(()).unwrap();
            assert!(!early, "closed, and then: {call} {part}");
        });
        open(&disk).close().unwrap();
    }
}

/// A backup goes on copying what it has linked when its store is closed. The next opening must not take that away.
#[test]
fn a_backup_that_is_under_way_when_its_store_is_closed_keeps_its_links_and_ends() {
    let disk = SimFs::new(1);
    let (gated, has_arrived, open_gate) = gated(&disk);
    let gate = Arc::clone(&gated.gate);
    let mut world = env(&disk, 1);
    world.fs = Arc::new(gated);
    let db = Db::open(STORE, Options::default().memory_budget(8 << 20).env(world)).unwrap();
    db.put("key", "in a table").unwrap();
    db.put("huge", vec![7; 1 << 20]).unwrap();
    db.flush().unwrap();
    db.put("another", "in the log").unwrap();
    let before = contents(&db).unwrap();
    *gate.hold.lock().unwrap() = Some(("create", "/backups/"));
    std::thread::scope(|scope| {
        // If something fails here, this is dropped, and the backup does not wait for ever.
        let open_gate = open_gate;
        let backup = scope.spawn(|| db.backup("/backups"));
        has_arrived.recv_timeout(Duration::from_secs(60)).unwrap();
        db.close().unwrap();
        let staging = Path::new(STORE).join("backup.tmp");
        let links = || disk.paths().into_iter().filter(|path| path.starts_with(&staging)).collect::<Vec<_>>();
        let linked = links();
        assert!(linked.len() > 3, "{linked:?}");
        // What the backup has still to copy goes from the store itself.
        let again = open(&disk);
        again.delete("key").unwrap();
        again.delete("huge").unwrap();
        again.compact().unwrap();
        assert_eq!(links(), linked);
        let error = again.backup("/other").unwrap_err();
        assert_eq!((error.kind(), error.path()), (ErrorKind::Locked, Some(&*staging)), "{error}");
        again.close().unwrap();
        drop(open(&disk));
        assert_eq!(links(), linked);
        open_gate.send(()).unwrap();
        backup.join().unwrap().unwrap();
        assert_eq!(links(), Vec::<PathBuf>::new());
    });
    let options = Options::default().memory_budget(8 << 20).env(env(&disk, 3));
    esker::restore("/backups", None, "/restored", &options).unwrap();
    assert_eq!(contents(&Db::open("/restored", options).unwrap()).unwrap(), before);
}

/// Another process opens the store, changes its files and closes it, between the moment at which care finds the store and
/// the moment at which it has the lock. What care knew of the files is out of date then.
#[test]
fn care_sees_the_store_as_it_is_once_it_has_the_lock() {
    for care in ["check", "repair", "destroy"] {
        let disk = SimFs::new(1);
        let db = open(&disk);
        db.put("a", "1").unwrap();
        db.close().unwrap();
        let other = disk.clone();
        let change = move || {
            let db = open(&other);
            db.put("b", "2").unwrap();
            db.compact().unwrap();
            db.close().unwrap();
        };
        let (gated, ..) = gated(&disk);
        *gated.gate.before_lock.lock().unwrap() = Some(BeforeLock(Box::new(change)));
        let mut world = env(&disk, 1);
        world.fs = Arc::new(gated);
        let options = Options::default().env(world);
        match care {
            "check" => {
                let report = esker::check(STORE, &options).unwrap();
                assert!(report.findings.is_empty(), "{:?}", report.findings);
            }
            "repair" => {
                let report = esker::repair(STORE, &options).unwrap();
                assert!(report.losses.is_empty() && report.quarantine.is_none(), "{report:?}");
            }
            _ => {
                esker::destroy(STORE, &options).unwrap();
                assert!(!disk.exists(Path::new(STORE)).unwrap(), "{:?}", disk.paths());
                continue;
            }
        }
        let db = open(&disk);
        assert!(db.contains("a").unwrap() && db.contains("b").unwrap(), "{care}");
    }
}

/// Opens the store on a disk on which everything stops after `n` more calls; whether it stopped.
fn open_until(disk: &SimFs, n: u64) -> bool {
    disk.set_crash_after(Some(disk.operations() + n));
    let options = Options::default().memory_budget(8 << 20).env(env(disk, n));
    drop(Db::open(STORE, options).and_then(|db| db.close()));
    disk.is_dead()
}

/// Three openings die, at any instant: the first leaves a fresh segment, the second is killed, maybe while it gives
/// that file a new use, and the third loses power, which may bring the file back as it was before.
#[test]
fn openings_that_die_one_behind_the_other_leave_a_store() {
    let disk = SimFs::new(1);
    open(&disk).default_tree().put_with("kept", "1", Durability::Power).unwrap();
    let disk = disk.crash_keeping(1.0, 1);
    let mut rng = Rng::new(1);
    let mut instants = 0;
    for first_at in test_kit::places() {
        let first = disk.fork();
        if !open_until(&first, first_at) {
            break;
        }
        let first = first.crash_keeping(1.0, 2);
        for second_at in 0.. {
            let second = first.fork();
            if !open_until(&second, second_at) {
                break;
            }
            // Of the third opening's instants a few; of all would take a minute.
            for third_at in (0..).step_by(1 + rng.below(12) as usize) {
                let third = second.kill();
                let died = open_until(&third, third_at);
                let db = open(&third.crash_keeping(0.5, rng.next()));
                assert!(db.contains("kept").unwrap(), "at {first_at}, {second_at}, {third_at}");
                instants += 1;
                if !died {
                    break;
                }
            }
        }
    }
    assert!(instants > 500 || !test_kit::is_full_run(), "only {instants} instants");
}
