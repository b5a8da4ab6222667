//! A seal of all shared files waits for the appends in progress, and for no others.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64};

use super::*;
use crate::blob::NewBlob;
use crate::env::{Env, StepExecutor};
use crate::fs::FileSystem;
use crate::fs::sim::SimFs;
use crate::options::Options;
use crate::trace::Metrics;

fn set(disk: &SimFs) -> Arc<BlobSet> {
    let dir = Path::new("/db");
    let fs: Arc<dyn FileSystem> = Arc::new(disk.clone());
    fs.create_dir_all(dir).unwrap();
    let env = Env { fs, ..Env::system() };
    let (numbers, executor) = (Arc::new(AtomicU64::new(1)), Arc::new(StepExecutor));
    let metrics = Metrics::new(&env.clock);
    Arc::new(BlobSet::new(&env, dir, numbers, executor, metrics, &Options::default()))
}

fn is_sealed(live: &LiveFile) -> bool {
    live.values.lock().is_sealed()
}

#[test]
fn sealing_waits_for_no_append_that_began_later() {
    let set = set(&SimFs::new(1));
    let early = set.borrow_appender(BlobOwner::NO_GROUP).unwrap();
    let file = Arc::clone(&early.live);
    std::thread::scope(|scope| {
        let sealer = scope.spawn(|| set.seal_files(true));
        while set.appenders.lock().generation == 0 {
            std::thread::yield_now();
        }
        let late = set.borrow_appender(BlobOwner::NO_GROUP).unwrap();
        assert_ne!(late.live.id, file.id);
        assert!(!is_sealed(&file) && !sealer.is_finished());
        set.give_back(early, true);
        assert!(sealer.join().unwrap().unwrap());
        assert!(is_sealed(&file) && !is_sealed(&late.live));
        let id = late.live.id;
        set.give_back(late, true);
        assert_eq!(set.borrow_appender(BlobOwner::NO_GROUP).unwrap().live.id, id, "it takes the next value");
    });
}

#[test]
fn sealing_waits_for_files_that_another_seals() {
    let set = set(&SimFs::new(1));
    set.appenders.lock().sealing = 1;
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let sealer = scope.spawn(|| {
            set.seal_files(true).unwrap();
            over.load(Ordering::SeqCst)
        });
        while set.appenders.lock().generation == 0 {
            std::thread::yield_now();
        }
        over.store(true, Ordering::SeqCst);
        set.appenders.lock().sealing = 0;
        set.returned.notify_all();
        assert!(sealer.join().unwrap(), "it did not wait");
    });
}

/// A file that could not be sealed on a full disk is tried again.
#[test]
fn a_file_that_could_not_be_sealed_is_kept() {
    let disk = SimFs::new(1);
    let set = set(&disk);
    let blobs: Vec<NewBlob> =
        (0..60).map(|_| set.put(BlobOwner::NO_GROUP, 0, b"key", &[7; 100]).unwrap()).collect();
    let live = &blobs[0].pin.live;
    disk.set_capacity(Some(disk.used()));
    assert_eq!(set.seal_files(true).unwrap_err().kind(), ErrorKind::OutOfSpace);
    assert!(!is_sealed(live));
    disk.set_capacity(None);
    assert!(set.seal_files(false).unwrap());
    assert!(is_sealed(live));
    assert!(!set.seal_files(true).unwrap());
}

#[test]
fn a_file_gets_no_more_values_than_readers_expect() {
    let mut set = set(&SimFs::new(1));
    Arc::get_mut(&mut set).unwrap().shared_count_max = 3;
    let put = |key: u8| set.put(BlobOwner::NO_GROUP, 1, &[key], b"value").unwrap();
    let values: Vec<NewBlob> = (0..7).map(put).collect();
    let places: Vec<(u64, u64)> = values
        .iter()
        .map(|value| (value.pointer.file - values[0].pointer.file, value.pointer.ordinal))
        .collect();
    assert_eq!(places, [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2), (2, 0)]);
}
