//! Calls that never sleep: what they refuse, and who hears when to try again.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use esker::env::{Env, JobKind, StepExecutor};
use esker::fs::sim::SimFs;
use esker::{Batch, BusyUntil, Db, ErrorKind, Listener, Options, Staging, Tree, TreeOptions};

#[derive(Clone, Default)]
struct Heard {
    synced: Arc<AtomicU64>,
    ready: Arc<AtomicU64>,
}

impl Heard {
    fn counts(&self) -> (u64, u64) {
        (self.synced.load(Ordering::SeqCst), self.ready.load(Ordering::SeqCst))
    }
}

impl Listener for Heard {
    fn synced(&self) {
        self.synced.fetch_add(1, Ordering::SeqCst);
    }

    fn ready(&self) {
        self.ready.fetch_add(1, Ordering::SeqCst);
    }
}

/// A store whose background does nothing of its own accord.
fn stepped(disk: &SimFs, heard: &Heard) -> Db {
    let executor = Some(Arc::new(StepExecutor) as _);
    let env = Env { fs: Arc::new(disk.clone()), executor, ..Env::system() };
    let options = Options::default().memory_budget(8 << 20).separate_at(100_000).memtable_bytes(64 << 10);
    Db::open("/store", options.env(env).listener(heard.clone())).unwrap()
}

fn of_len(tree: &Tree, key: u32, len: usize) -> Batch {
    let mut batch = Batch::new();
    batch.put(tree, key.to_be_bytes(), vec![7; len]).unwrap();
    batch
}

#[test]
fn a_write_that_would_wait_is_refused_until_it_need_not() {
    let (disk, heard) = (SimFs::new(1), Heard::default());
    let db = stepped(&disk, &heard);
    let tree = db.default_tree();
    let mut written = 0;
    for (until, job) in [(BusyUntil::Flushed, JobKind::Flush), (BusyUntil::LogSegment, JobKind::Log)] {
        let len = if until == BusyUntil::Flushed { 1000 } else { 90_000 };
        let refused = (0..5_000).find_map(|_| {
            let write = db.try_write(&of_len(tree, written, len));
            match write {
                Ok(_) => written += 1,
                Err(error) if error.busy() == Some(until) => return Some(error),
                // What else it waits for is done.
                Err(error) => {
                    let job = match error.busy().unwrap() {
                        BusyUntil::Flushed => JobKind::Flush,
                        BusyUntil::LogSegment => JobKind::Log,
                        _ => JobKind::Compact,
                    };
                    while db.step(job) {}
                }
            }
            None
        });
        assert_eq!(refused.unwrap().kind(), ErrorKind::Busy);
        let before = heard.counts().1;
        assert!(db.step(job));
        assert!(heard.counts().1 > before, "it hears that it may try again");
        db.try_write(&of_len(tree, written, len)).unwrap();
        written += 1;
    }
    // A record longer than a segment gets one of its own.
    let mut long = Batch::new();
    (0..200_u32).for_each(|key| long.put(tree, key.to_be_bytes(), vec![8; 90_000]).unwrap());
    while db.step(JobKind::Flush) {}
    let error = db.try_write(&long).unwrap_err();
    assert_eq!(error.busy(), Some(BusyUntil::LogSegment), "{error}");
    while db.step(JobKind::Log) || db.step(JobKind::Flush) {}
    db.try_write(&long).unwrap();
    assert_eq!(db.get_vec(199_u32.to_be_bytes()).unwrap().unwrap(), vec![8; 90_000]);
    assert_eq!(db.get_vec((written - 1).to_be_bytes()).unwrap().unwrap().len(), 90_000);
}

#[test]
fn a_token_tells_when_its_write_is_durable() {
    let (disk, heard) = (SimFs::new(1), Heard::default());
    let db = stepped(&disk, &heard);
    let tree = db.default_tree();
    let first = db.try_write(&of_len(tree, 1, 10)).unwrap();
    let empty = db.try_write(&Batch::new()).unwrap();
    assert!(!db.is_durable(&first).unwrap());
    db.request_sync();
    assert!(!db.is_durable(&first).unwrap(), "nobody has synced");
    while db.step(JobKind::Log) {}
    assert!(db.is_durable(&first).unwrap() && db.is_durable(&empty).unwrap());
    assert_eq!(heard.counts().0, 1);
    // Every write has a token.
    let second = db.write(&of_len(tree, 2, 10)).unwrap();
    assert!(!db.is_durable(&second).unwrap());
    let third = db.write_with(&of_len(tree, 3, 10), esker::Durability::Power).unwrap();
    assert!(db.is_durable(&second).unwrap() && db.is_durable(&third).unwrap());

    // Without the log it is the flush that counts.
    let group = TreeOptions::default().log(false).group("g");
    let [one, two] = ["one", "two"].map(|name| db.create_tree(name, group.clone()).unwrap());
    let mut batch = of_len(&one, 1, 10);
    batch.put(&two, "key", "value").unwrap();
    let unlogged = db.try_write(&batch).unwrap();
    db.sync().unwrap();
    assert!(db.is_durable(&unlogged).unwrap());
    let unlogged = db.try_write(&of_len(&two, 1, 10)).unwrap();
    db.request_sync();
    while db.step(JobKind::Log) {}
    assert!(!db.is_durable(&unlogged).unwrap());
    two.flush().unwrap();
    assert!(db.is_durable(&unlogged).unwrap());

    // What is durable survives.
    let after = stepped(&disk.crash_keeping(0.0, 1), &Heard::default());
    assert!((1..=3_u32).all(|key| after.contains(key.to_be_bytes()).unwrap()));
    assert_eq!(after.is_durable(&first).unwrap_err().kind(), ErrorKind::InvalidInput);
}

#[test]
fn what_needs_a_file_is_refused() {
    let (disk, heard) = (SimFs::new(1), Heard::default());
    let db = stepped(&disk, &heard);
    let options = TreeOptions::default().group("g");
    let tree = db.create_tree("tree", options.clone()).unwrap();
    let staging = Staging::new(&db.create_tree("staging", options).unwrap());
    let huge = of_len(&tree, 1, 100_000);
    assert_eq!(db.try_write(&huge).unwrap_err().kind(), ErrorKind::NeedsIo);
    let staged = staging.put("film", vec![7; 100_000]).unwrap();
    let mut batch = Batch::new();
    batch.put_staged(&tree, "film", &staged, None).unwrap();
    db.try_write(&batch).unwrap();
    tree.put("small", "value").unwrap();
    assert_eq!(tree.get_cached("small").unwrap().unwrap().into_vec().unwrap(), b"value");
    assert!(tree.get_cached("absent").unwrap().is_none());
    drop((staged, batch, staging, tree));
    db.close().unwrap();

    let db = stepped(&disk, &heard);
    let tree = db.open_tree("tree").unwrap().unwrap();
    assert_eq!(tree.get_cached("small").unwrap_err().kind(), ErrorKind::NeedsIo);
    assert_eq!(tree.get_vec("small").unwrap().unwrap(), b"value");
    assert_eq!(tree.get_cached("small").unwrap().unwrap().into_vec().unwrap(), b"value");
    let film = tree.get_cached("film").unwrap().unwrap();
    assert_eq!((film.len(), film.into_vec().unwrap()), (100_000, vec![7; 100_000]));
    db.clear_cache();
    assert_eq!(tree.get_cached("small").unwrap_err().kind(), ErrorKind::NeedsIo);
    assert_eq!(tree.get_vec("small").unwrap().unwrap(), b"value", "the thread may read files again");
}
