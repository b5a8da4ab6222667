//! Huge values under several threads: some put, stream, batch, abandon and delete, some read, one copies, flushes,
//! compacts and syncs. Every value says which write it is, so every answer can be judged; what a copy, a power
//! cut or the end leaves must be, for each writer, the state behind a prefix of its writes.
//!
//! `ESKER_CASES` sets the writes of each thread, `ESKER_SEED` the seed. Threads make no run like another.

mod history;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use esker::env::Env;
use esker::fs::sim::SimFs;
use esker::{Batch, Db, Durability, Options, Tree};

use crate::common::{Rng, cases, seed, world};
use history::{History, KEYS, WRITERS, Write, key, value};

/// What is different between runs.
struct Setting {
    seed: u64,
    writes: usize,
    /// A value is long once in so many times.
    long_one_in: u64,
    /// Lengths of long ones, in KiB.
    longest: u64,
    root: PathBuf,
    options: Options,
}

impl Setting {
    fn len(&self, rng: &mut Rng) -> usize {
        let kib = match rng.below(10) {
            0 => return rng.index(4_000),
            1..6 => 4 + rng.below(60),
            6..9 => 4 + rng.below(400),
            _ if rng.one_in(self.long_one_in) => 1_024 + rng.below(self.longest),
            _ => 32,
        };
        ((kib << 10) + rng.below(5_000)) as usize
    }

    /// What a writer does next.
    fn draw(&self, rng: &mut Rng) -> Write {
        let count = if rng.one_in(8) { 1 + rng.index(4) } else { 1 };
        let mut write = Write::new();
        for _ in 0..count {
            let len = (!rng.one_in(4)).then(|| self.len(rng).max(16));
            write.insert(rng.index(KEYS), len);
        }
        write
    }
}

/// One writer: what it writes stands in the history before it begins.
fn write(db: &Db, writer: usize, setting: &Setting, history: &History) {
    let mut rng = Rng::new(setting.seed << 8 | writer as u64);
    let tree = db.default_tree();
    for number in 1..=setting.writes {
        if rng.one_in(20) {
            // A stream that is abandoned half-way.
            let mut stream = tree.writer(key(writer, 0)).unwrap();
            stream.add(&rng.bytes(2 << 20)).unwrap();
        }
        let write = setting.draw(&mut rng);
        history.begin(writer, write.clone());
        put(db, tree, writer, number, &write, &mut rng);
        history.acknowledge(writer, number);
    }
}

fn put(db: &Db, tree: &Tree, writer: usize, number: usize, write: &Write, rng: &mut Rng) {
    let durability = if rng.one_in(30) { Durability::Power } else { Durability::Process };
    let mut pairs =
        write.iter().map(|(&at, &len)| (key(writer, at), len.map(|len| value(writer, at, number, len))));
    if write.len() == 1 {
        match pairs.next().unwrap() {
            (key, None) => tree.delete_with(key, durability).unwrap(),
            (key, Some(value)) if rng.one_in(3) => {
                let mut stream = tree.writer(key).unwrap();
                value.chunks(1 + rng.index(300_000)).for_each(|piece| stream.add(piece).unwrap());
                stream.commit_with(durability).unwrap();
            }
            (key, Some(value)) => tree.put_with(key, value, durability).unwrap(),
        }
        return;
    }
    let mut batch = Batch::new();
    for (key, value) in pairs {
        match value {
            Some(value) => batch.put(tree, key, value).unwrap(),
            None => batch.delete(tree, key).unwrap(),
        }
    }
    db.write_with(&batch, durability).unwrap();
}

/// Reads in all ways until the writers have ended.
fn read(db: &Db, reader: usize, setting: &Setting, history: &History, ended: &AtomicBool) {
    let mut rng = Rng::new(setting.seed << 8 | 0x80 | reader as u64);
    let mut kept = Vec::new();
    while !ended.load(Ordering::SeqCst) {
        let (writer, at) = (rng.index(WRITERS), rng.index(KEYS));
        let acknowledged = history.latest(writer, at);
        let found = db.get(key(writer, at)).unwrap();
        let number = found.as_ref().map(|found| history::number_of(&found.read_at(..16).unwrap()));
        let len = history.judge(writer, at, acknowledged, number);
        let (Some(found), Some(number), Some(len)) = (found, number, len) else { continue };
        let expected = value(writer, at, number, len);
        assert_eq!(found.len(), len as u64);
        match rng.below(4) {
            0 => assert!(found.bytes().unwrap() == expected),
            1 => {
                let from = rng.index(len + 10);
                let end = from + rng.index(200_000);
                let part = found.read_at(from as u64..end as u64).unwrap();
                assert!(part == expected[from.min(len)..end.min(len)]);
            }
            2 => {
                let mut copy = Vec::new();
                found.copy_to(&mut copy).unwrap();
                assert!(copy == expected);
            }
            _ => kept.push((found, expected)),
        }
        if kept.len() > 5 {
            // Overwritten long since: it is read all the same.
            let (found, expected) = kept.swap_remove(rng.index(kept.len()));
            assert!(found.bytes().unwrap() == expected);
        }
    }
}

/// Copies, flushes, compacts and syncs until the writers have ended.
fn care(db: &Db, setting: &Setting, history: &History, ended: &AtomicBool, disk: Option<&SimFs>) {
    let mut rng = Rng::new(setting.seed << 8 | 0xff);
    let mut copies = 0;
    while !ended.load(Ordering::SeqCst) || copies == 0 {
        match rng.below(8) {
            0 => db.flush().unwrap(),
            1 => db.compact().unwrap(),
            2 => {
                let before = history.acknowledged();
                db.sync().unwrap();
                history.note_durable(before);
            }
            3 | 4 if disk.is_some() => crash(setting, history, disk.unwrap(), rng.next()),
            _ => {
                copies += 1;
                let before = history.acknowledged();
                let dir = setting.root.join(format!("copy{copies}"));
                db.checkpoint(&dir).unwrap();
                let options = setting.options.clone();
                assert_eq!(esker::check(&dir, &options).unwrap().findings, []);
                let copy = Db::open(&dir, options).unwrap();
                history.judge_all(&copy, before);
                copy.put("it", "takes writes").unwrap();
                copy.close().unwrap();
                esker::destroy(&dir, &setting.options).unwrap();
            }
        }
    }
}

/// The power fails now, as far as a copy of the disk knows.
fn crash(setting: &Setting, history: &History, disk: &SimFs, seed: u64) {
    let durable = history.durable();
    let left = disk.crash(seed);
    let options = setting.options.clone().env(world(Arc::new(left), seed, None));
    let store = setting.root.join("store");
    assert_eq!(esker::check(&store, &options).unwrap().findings, []);
    let db = Db::open(&store, options).unwrap();
    history.judge_all(&db, durable);
    db.close().unwrap();
}

/// Does `work`. Whoever fails ends the run, so that nobody waits for it.
fn guarded(ended: &AtomicBool, work: impl FnOnce()) {
    let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
    ended.fetch_or(done.is_err(), Ordering::SeqCst);
    done.unwrap();
}

/// All of it, and then the end: nothing is lost, `check` is content, and deleting gives the space back.
fn run(setting: &Setting, disk: Option<&SimFs>) {
    let store = setting.root.join("store");
    let db = Db::open(&store, setting.options.clone()).unwrap();
    let (history, ended, writing) = (History::default(), AtomicBool::new(false), AtomicUsize::new(WRITERS));
    std::thread::scope(|scope| {
        let (db, history, ended, writing) = (&db, &history, &ended, &writing);
        for writer in 0..WRITERS {
            scope.spawn(move || {
                guarded(ended, || write(db, writer, setting, history));
                let last = writing.fetch_sub(1, Ordering::SeqCst) == 1;
                ended.fetch_or(last, Ordering::SeqCst);
            });
        }
        for reader in 0..2 {
            scope.spawn(move || guarded(ended, || read(db, reader, setting, history, ended)));
        }
        scope.spawn(move || guarded(ended, || care(db, setting, history, ended, disk)));
    });
    history.judge_all(&db, [setting.writes; WRITERS]);
    db.close().unwrap();
    assert_eq!(esker::check(&store, &setting.options).unwrap().findings, []);
    let db = Db::open(&store, setting.options.clone()).unwrap();
    let live = history.judge_all(&db, [setting.writes; WRITERS]);
    db.compact().unwrap();
    wait_for(&db, "the space of what was overwritten", |taken| taken < live + live / 4 + (64 << 20));
    let taken = db.stats().unwrap().blob_disk_bytes;
    println!("seed {}: {live} bytes live, {taken} taken by blob files", setting.seed);
    for (writer, at) in (0..WRITERS).flat_map(|writer| (0..KEYS).map(move |at| (writer, at))) {
        db.delete(key(writer, at)).unwrap();
    }
    wait_for(&db, "the space of what was deleted", |taken| taken < 1 << 20);
    db.close().unwrap();
}

/// Waits for background work to give space back: nothing else is to be done for it.
fn wait_for(db: &Db, what: &str, enough: impl Fn(u64) -> bool) {
    let clock = Env::system().clock;
    let begin = clock.monotonic_us();
    while !enough(db.stats().unwrap().blob_disk_bytes) {
        assert!(clock.monotonic_us() - begin < 60_000_000, "{what} does not come back: {:?}", db.stats());
        test_kit::pause();
    }
}

#[test]
fn threads_on_real_files() {
    let seed = seed(0x57e5);
    eprintln!("ESKER_SEED={seed}");
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let mut options = Options::default().memory_budget(16 << 20).separate_at(4_000);
    options.blob_file_bytes = 4 << 20;
    let root = dir.path().to_path_buf();
    let writes = cases(300) as usize;
    run(&Setting { seed, writes, long_one_in: 4, longest: 9_000, root, options }, None);
}

#[test]
fn threads_on_a_disk_that_loses_power() {
    let seed = seed(0x57e6);
    eprintln!("ESKER_SEED={seed}");
    let disk = SimFs::new(seed);
    let env: Env = world(Arc::new(disk.clone()), seed, None);
    let mut options = Options::default().env(env).memory_budget(8 << 20).separate_at(1_000);
    options.memtable_bytes = Some(8 << 10);
    options.blob_file_bytes = 1 << 20;
    let writes = cases(300) as usize;
    let root = Path::new("/").to_path_buf();
    run(&Setting { seed, writes, long_one_in: 8, longest: 200, root, options }, Some(&disk));
}
