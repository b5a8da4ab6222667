//! The life of handles: what the drop of the last one does, what `close` does, what is left of a closed store.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::Path;
use std::sync::{Arc, Barrier, Mutex, mpsc};
use std::time::Duration;

use esker::{Batch, Db, ErrorKind, MergeOperator, Options, ScanRange, TreeOptions, TxnMode, TxnOptions};

use crate::allocated::allocated;
use crate::common::alone;

/// Set in a child process: the store that it is to work on.
const CHILD: &str = "ESKER_HANDLES_CHILD";

/// How many keys make a store busy.
const KEYS: u32 = 2_000;

/// Flushes and merges all the time.
fn busy_options() -> Options {
    let mut options = Options::default().memory_budget(8 << 20);
    options.memtable_bytes = Some(64 << 10);
    options.table_bytes = 64 << 10;
    options
}

fn value_of(i: u32) -> Vec<u8> {
    i.to_le_bytes().repeat(64)
}

/// Writes so much that flushes and merges are under way when this returns.
fn keep_busy(db: &Db) {
    for i in 0..KEYS {
        db.put((i * 7919 % KEYS).to_be_bytes(), value_of(i)).unwrap();
    }
}

/// How many descriptors and mappings of files in `dir` this process has.
#[cfg(target_os = "linux")]
fn held_of(dir: &Path) -> Vec<String> {
    let dir = dir.canonicalize().unwrap();
    let names = std::fs::read_dir("/proc/self/fd").unwrap();
    let links = names.filter_map(|name| std::fs::read_link(name.unwrap().path()).ok());
    let mut held: Vec<String> =
        links.filter(|link| link.starts_with(&dir)).map(|link| link.display().to_string()).collect();
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    held.extend(maps.lines().filter(|line| line.contains(dir.to_str().unwrap())).map(str::to_owned));
    held
}

#[test]
fn dropping_the_last_handle_of_a_busy_store_closes_it() {
    let dir = tempfile::tempdir().unwrap();
    for _ in 0..40 {
        let db = Db::open(dir.path(), busy_options()).unwrap();
        keep_busy(&db);
        drop(db);
    }
}

/// Not a test of its own: what a child process does for the next one.
#[test]
fn child_that_drops_a_busy_store_and_ends() {
    let Ok(dir) = std::env::var(CHILD) else { return };
    let db = Db::open(dir, busy_options()).unwrap();
    let tree = db.create_tree("cache", TreeOptions::default().log(false)).unwrap();
    keep_busy(&db);
    for i in 0..100_u32 {
        tree.put(i.to_be_bytes(), value_of(i)).unwrap();
    }
    drop(tree);
    drop(db);
    std::process::exit(0);
}

#[test]
fn what_skips_the_log_is_there_when_a_program_drops_its_store_and_ends() {
    for round in 0..10 {
        let dir = tempfile::tempdir().unwrap();
        let child = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "handles::child_that_drops_a_busy_store_and_ends", "--nocapture"])
            .env(CHILD, dir.path())
            .output()
            .unwrap();
        assert!(child.status.success(), "{child:?}");
        let db = Db::open(dir.path(), Options::default()).unwrap();
        assert_eq!(db.tree("cache").unwrap().count(ScanRange::all()).unwrap(), 100, "round {round}");
    }
}

#[test]
fn every_close_waits_until_the_store_is_closed() {
    let dir = tempfile::tempdir().unwrap();
    for _ in 0..20 {
        let db = Db::open(dir.path(), busy_options()).unwrap();
        keep_busy(&db);
        let barrier = Barrier::new(2);
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    barrier.wait();
                    db.close().unwrap();
                    // The other one may have it open now, and has it closed again when it is dropped.
                    match Db::open_read_only(dir.path(), Options::default()) {
                        Ok(again) => drop(again),
                        Err(error) => panic!("closed, and yet: {error}"),
                    }
                });
            }
        });
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_closed_store_gives_back_its_descriptors_and_maps() {
    let dir = tempfile::tempdir().unwrap();
    for explicit in [true, false] {
        let db = Db::open(dir.path(), busy_options()).unwrap();
        keep_busy(&db);
        db.put("huge", vec![7; 1 << 20]).unwrap();
        db.flush().unwrap();
        assert_eq!(db.scan(ScanRange::all()).unwrap().count(), KEYS as usize + 1);
        let mut kept = Batch::new();
        kept.put(db.default_tree(), "kept", "batch").unwrap();
        assert!(!held_of(dir.path()).is_empty());
        if explicit {
            db.close().unwrap();
            // A handle is left, and with it the directory's own descriptor, which holds no file.
            let held = held_of(dir.path());
            let path = dir.path().canonicalize().unwrap();
            assert!(held.iter().all(|name| *name == path.display().to_string()), "{held:?}");
        }
        drop(db);
        // This thread has written to it, and a batch for it is left.
        assert_eq!(held_of(dir.path()), Vec::<String>::new(), "after the last handle");
        drop(kept);
    }
}

#[test]
fn a_closed_store_gives_back_its_memory_while_a_thread_that_wrote_to_it_lives() {
    alone(
        "handles::a_closed_store_gives_back_its_memory_while_a_thread_that_wrote_to_it_lives",
        close_beside_a_thread_that_lives,
    );
}

fn close_beside_a_thread_that_lives(root: &Path) {
    /// What may be left: what threads keep for their next write, and what the process allocates once.
    const LEFT_MAX: usize = 1 << 20;
    let mut options = Options::default().memory_budget(128 << 20);
    options.memtable_bytes = Some(32 << 20);
    for explicit in [true, false] {
        let before = allocated();
        let db = Db::open(root.join("store"), options.clone()).unwrap();
        let (wrote, has_written) = mpsc::channel();
        let (end, may_end) = mpsc::channel::<()>();
        let writing = db.clone();
        let thread = std::thread::spawn(move || {
            for i in 0..20_000_u32 {
                writing.put(i.to_be_bytes(), vec![7; 1000]).unwrap();
            }
            writing.flush().unwrap();
            assert_eq!(writing.scan(ScanRange::all()).unwrap().count(), 20_000);
            for i in 0..20_000_u32 {
                writing.put(i.to_be_bytes(), vec![8; 1000]).unwrap();
            }
            drop(writing);
            wrote.send(()).unwrap();
            may_end.recv().unwrap();
        });
        has_written.recv().unwrap();
        let stats = db.stats().unwrap();
        assert!(stats.memtable_bytes > 16 << 20 && stats.pool_bytes > 16 << 20, "{stats:?}");
        let held = allocated() - before;
        assert!(held > 32 << 20, "{held} bytes are counted of an open store");
        if explicit {
            let tree = db.default_tree().clone();
            db.close().unwrap();
            let left = allocated().saturating_sub(before);
            assert!(left < LEFT_MAX, "{left} bytes are left of a closed store, with handles");
            drop(tree);
        }
        drop(db);
        let left = allocated().saturating_sub(before);
        assert!(left < LEFT_MAX, "{left} bytes are left of a closed store");
        end.send(()).unwrap();
        thread.join().unwrap();
    }
}

/// The files of a directory, and what is in them.
fn contents(dir: &Path) -> BTreeMap<String, Vec<u8>> {
    let files = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    files.map(|path| (path.display().to_string(), std::fs::read(path).unwrap())).collect()
}

/// The kind of what went wrong.
fn kind<T>(result: esker::Result<T>) -> Option<ErrorKind> {
    result.err().map(|error| error.kind())
}

#[test]
fn what_writes_in_bulk_or_by_pieces_writes_nothing_when_its_store_is_closed() {
    let dir = tempfile::tempdir().unwrap();
    let mut options = Options::default().memory_budget(8 << 20);
    options.memtable_bytes = Some(64 << 10);
    options.table_bytes = 64 << 10;
    let db = Db::open(dir.path(), options).unwrap();
    let tree = db.default_tree().clone();
    let (mut sorted, mut unsorted) = (tree.ingest().unwrap(), tree.ingest_unsorted().unwrap());
    let mut fresh = tree.ingest().unwrap();
    let (mut film, mut note) = (tree.writer("film").unwrap(), tree.writer("note").unwrap());
    for i in 0..KEYS {
        sorted.put(i.to_be_bytes(), value_of(i)).unwrap();
        unsorted.put(i.reverse_bits().to_be_bytes(), value_of(i)).unwrap();
    }
    film.write_all(&vec![1; 3 << 20]).unwrap();
    note.write_all(b"short").unwrap();
    let mut batch = Batch::new();
    batch.put(&tree, "in a batch", vec![2; 1 << 20]).unwrap();
    let txn = db.begin(TxnOptions::default()).unwrap();
    txn.put(&tree, "in a transaction", vec![3; 1 << 20]).unwrap();
    db.close().unwrap();
    let before = contents(dir.path());

    let closed = Some(ErrorKind::Closed);
    for i in KEYS..2 * KEYS {
        assert_eq!(kind(sorted.put(i.to_be_bytes(), value_of(i))), closed);
        assert_eq!(kind(fresh.put(i.to_be_bytes(), value_of(i))), closed);
        assert_eq!(kind(unsorted.put(i.reverse_bits().to_be_bytes(), value_of(i))), closed);
    }
    assert_eq!(kind(film.add(&vec![1; 3 << 20])), closed);
    assert_eq!(kind(note.add(&vec![1; 3 << 20])), closed);
    assert_eq!(kind(batch.put(&tree, "more", vec![2; 1 << 20])), None);
    assert_eq!(kind(db.write(&batch)), closed);
    assert_eq!(kind(txn.commit()), closed);
    assert_eq!(kind(sorted.commit()), closed);
    assert_eq!(kind(unsorted.commit()), closed);
    assert_eq!(kind(film.commit()), closed);
    assert_eq!(kind(note.commit()), closed);
    drop(batch);
    // Not even the file is removed that was begun: by now the name may be another store's.
    drop(fresh);
    assert!(contents(dir.path()) == before, "the directory of a closed store was changed");

    let again = Db::open(dir.path(), Options::default()).unwrap();
    assert_eq!(again.default_tree().count(ScanRange::all()).unwrap(), 0);
    drop((db, tree));
    again.put("key", "value").unwrap();
    again.close().unwrap();
    assert!(esker::check(dir.path(), &Options::default()).unwrap().findings.is_empty());
}

#[test]
fn whatever_is_left_of_a_closed_store_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path(), Options::default()).unwrap();
    let tree = db.create_tree("tree", TreeOptions::default()).unwrap();
    tree.put("small", "value").unwrap();
    tree.put("huge", vec![7; 1 << 20]).unwrap();
    db.flush().unwrap();
    tree.put("small 2", "value").unwrap();
    let snapshot = db.snapshot();
    let huge = tree.get("huge").unwrap().unwrap();
    let (small, map) = (tree.get("small").unwrap().unwrap(), huge.clone().map().unwrap());
    let (mut updates, scan) = (db.updates_since(0).unwrap(), tree.scan(ScanRange::all()).unwrap());
    let txn = db.begin(TxnOptions::default().mode(TxnMode::Pessimistic)).unwrap();
    txn.put(&tree, "key", "value").unwrap();
    while updates.next().is_ok_and(|update| update.is_some()) {}
    db.close().unwrap();

    let closed = Some(ErrorKind::Closed);
    for _ in 0..2 {
        assert_eq!(kind(db.put("key", "value")), closed);
        assert_eq!(kind(tree.get("small")), closed);
        assert_eq!(kind(tree.contains("absent")), closed);
        assert_eq!(kind(tree.get_many(["small"])), closed);
        assert_eq!(kind(tree.count(ScanRange::all())), closed);
        assert_eq!(kind(tree.delete_range(ScanRange::all())), closed);
        assert_eq!(kind(tree.compare_and_swap("small", None, Some(b"1"))), closed);
        assert_eq!(kind(tree.flush()), closed);
        assert_eq!(kind(snapshot.get(&tree, "small")), closed);
        assert_eq!(kind(snapshot.contains(&tree, "absent")), closed);
        assert_eq!(kind(snapshot.scan(&tree, ScanRange::all())), closed);
        assert_eq!(kind(txn.get(&tree, "absent")), closed);
        assert_eq!(kind(huge.bytes()), closed);
        assert_eq!(kind(huge.clone().map()), closed);
        assert_eq!(kind(updates.next()), closed);
        assert_eq!(kind(db.flush()), closed);
        assert_eq!(kind(db.sync()), closed);
        assert_eq!(kind(db.compact()), closed);
        assert_eq!(kind(db.tree("tree")), closed);
        assert_eq!(kind(db.tree("new")), closed);
        assert_eq!(kind(db.drop_tree("tree")), closed);
        assert_eq!(kind(db.begin(TxnOptions::default())), closed);
        assert_eq!(kind(db.checkpoint(dir.path().with_extension("copy"))), closed);
        assert_eq!(kind(tree.ingest()), closed);
        assert_eq!(kind(tree.writer("key")), closed);
        assert!(!updates.wait(Duration::from_secs(3600)), "nothing more is written");
        assert_eq!(small.bytes().unwrap(), &b"value"[..]);
        // The map keeps the directory to itself, and its bytes.
        assert_eq!(kind(Db::open(dir.path(), Options::default())), Some(ErrorKind::Locked));
        assert!(map.iter().all(|&byte| byte == 7));
        db.close().unwrap();
    }
    assert_eq!(kind(txn.commit()), closed);
    // A scan goes on in what it has, or says that it cannot.
    for pair in scan {
        match pair {
            Ok((key, _)) => assert!(["small", "small 2", "huge"].iter().any(|known| key == known.as_bytes())),
            Err(error) => assert_eq!(error.kind(), ErrorKind::Closed),
        }
    }
    drop(map);
    let again = Db::open(dir.path(), Options::default()).unwrap();
    assert_eq!(again.tree("tree").unwrap().count(ScanRange::all()).unwrap(), 3);
}

/// What keeps a store open, made by `handle` of it.
fn keeps_open<H>(handle: impl FnOnce(&Db) -> H, then: impl FnOnce(&mut H)) {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path(), busy_options()).unwrap();
    keep_busy(&db);
    let mut handle = handle(&db);
    drop(db);
    assert_eq!(kind(Db::open(dir.path(), busy_options())), Some(ErrorKind::Locked));
    then(&mut handle);
    drop(handle);
    drop(Db::open(dir.path(), busy_options()).unwrap());
}

#[test]
fn any_handle_keeps_the_store_open_and_the_last_one_closes_it() {
    keeps_open(|db| db.default_tree().clone(), |tree| tree.put("key", "value").unwrap());
    keeps_open(|db| db.scan(ScanRange::all()).unwrap(), |scan| assert_eq!(scan.count(), KEYS as usize));
    keeps_open(Db::snapshot, |_| {});
    keeps_open(|db| db.begin(TxnOptions::default()).unwrap(), |_| {});
    keeps_open(|db| db.updates_since(db.snapshot().sequence()).unwrap(), |_| {});
    keeps_open(|db| db.default_tree().writer("key").unwrap(), |film| film.add(&[1; 3 << 20]).unwrap());
    keeps_open(|db| db.default_tree().ingest().unwrap(), |ingest| ingest.put("key", "value").unwrap());
    keeps_open(|db| db.default_tree().ingest_unsorted().unwrap(), |ingest| ingest.put("a", "b").unwrap());
}

#[test]
fn the_last_handle_takes_along_what_it_had_begun() {
    let leaves_nothing = |begin: &dyn Fn(&Db) -> Box<dyn std::any::Any>| {
        let dir = tempfile::tempdir().unwrap();
        let db = Db::open(dir.path(), busy_options()).unwrap();
        let names = || {
            contents(dir.path()).into_keys().filter(|name| name.ends_with(".table") || name.contains(".blob"))
        };
        let begun = begin(&db);
        assert_ne!(names().count(), 0, "nothing was begun: {:?}", contents(dir.path()).keys());
        drop(db);
        drop(begun);
        assert_eq!(names().collect::<Vec<_>>(), Vec::<String>::new());
    };
    leaves_nothing(&|db| {
        let mut ingest = db.default_tree().ingest().unwrap();
        (0..KEYS).for_each(|i| ingest.put(i.to_be_bytes(), value_of(i)).unwrap());
        Box::new(ingest)
    });
    leaves_nothing(&|db| {
        let mut film = db.default_tree().writer("film").unwrap();
        film.write_all(&vec![1; 3 << 20]).unwrap();
        Box::new(film)
    });
}

#[test]
fn a_huge_value_alone_does_not_keep_the_store_open() {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path(), busy_options()).unwrap();
    db.put("huge", vec![7; 1 << 20]).unwrap();
    let huge = db.get("huge").unwrap().unwrap();
    drop(db);
    let again = Db::open(dir.path(), busy_options()).unwrap();
    assert_eq!(kind(huge.bytes()), Some(ErrorKind::Closed));
    assert_eq!(again.get_vec("huge").unwrap().map(|value| value.len()), Some(1 << 20));
}

/// Closes and drops the handle that it is given, when it is asked and told to go on.
struct LettingGo {
    held: Arc<Mutex<Option<Db>>>,
    go: Mutex<mpsc::Receiver<()>>,
    closed: mpsc::Sender<Option<ErrorKind>>,
}

impl MergeOperator for LettingGo {
    fn name(&self) -> &'static str {
        "let go"
    }

    fn apply(&self, _value: Option<&[u8]>, _operands: &[&[u8]]) -> Result<Vec<u8>, String> {
        if let Some(db) = self.held.lock().unwrap().take() {
            self.go.lock().unwrap().recv().unwrap();
            self.closed.send(kind(db.close())).unwrap();
            drop(db);
        }
        Ok(b"made".to_vec())
    }
}

#[test]
fn the_last_handle_may_go_in_the_store_s_own_work() {
    let dir = tempfile::tempdir().unwrap();
    let (go, told) = mpsc::channel();
    let (closed, result) = mpsc::channel();
    let held = Arc::default();
    let operator = LettingGo { held: Arc::clone(&held), go: Mutex::new(told), closed };
    let mut options = busy_options().merge_operator(operator);
    options.memtable_bytes = Some(200 << 10);
    let db = Db::open(dir.path(), options).unwrap();
    *held.lock().unwrap() = Some(db.clone());
    db.put("key", "value").unwrap();
    db.default_tree().merge("key", "let go", "operand").unwrap();
    // One memtable is full, and not two, for which this thread would wait: a flush in the background asks the operator.
    for i in 0..600_u32 {
        db.put(i.to_be_bytes(), value_of(i)).unwrap();
    }
    drop(db);
    go.send(()).unwrap();
    // It cannot wait for itself,
    assert_eq!(result.recv().unwrap(), Some(ErrorKind::InvalidInput));
    // and closes the store when it is done.
    let again = loop {
        match Db::open(dir.path(), busy_options()) {
            Err(error) if error.kind() == ErrorKind::Locked => test_kit::pause(),
            opened => break opened.unwrap(),
        }
    };
    assert_eq!(again.default_tree().count(ScanRange::all()).unwrap(), 601);
}

#[test]
fn a_thread_that_ends_may_have_the_last_handle() {
    thread_local! {
        static EARLY: RefCell<Option<Db>> = const { RefCell::new(None) };
        static LATE: RefCell<Option<Db>> = const { RefCell::new(None) };
    }
    let dirs = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let paths = [dirs[0].path().to_path_buf(), dirs[1].path().to_path_buf()];
    let work = move || {
        // What a thread keeps goes in the order in which it was first used, or the other way round: the store's own part
        // comes in between.
        EARLY.with_borrow_mut(|_| {});
        for (path, slot) in paths.iter().zip([&EARLY, &LATE]) {
            let db = Db::open(path, busy_options()).unwrap();
            keep_busy(&db);
            db.default_tree().put("huge", vec![1; 1 << 20]).unwrap();
            slot.with_borrow_mut(|held| *held = Some(db));
        }
    };
    std::thread::spawn(work).join().unwrap();
    for dir in &dirs {
        let db = Db::open(dir.path(), Options::default()).unwrap();
        assert_eq!(db.default_tree().count(ScanRange::all()).unwrap(), u64::from(KEYS) + 1);
    }
}
