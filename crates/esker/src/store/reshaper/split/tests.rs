use std::sync::Arc;

use super::*;
use crate::db::Db;
use crate::env::{Env, StepExecutor};
use crate::options::Options;
use crate::read::range::ScanRange;

/// A store in memory without background threads.
fn still_store() -> Db {
    let env = Env { executor: Some(Arc::new(StepExecutor)), ..Env::system() };
    Db::open_in_memory(Options::default().memory_budget(8 << 20).env(env)).unwrap()
}

/// A split has taken a number when it installs its edit. A conditional write that comes meanwhile waits until no number
/// is outstanding, and until then blocks reservations. Therefore the split must not wait for anything that waits for
/// that.
#[test]
fn a_split_of_deleted_ranges_does_not_wait_for_those_who_wait_for_its_number() {
    let db = still_store();
    let tree = db.tree("letters").unwrap();
    for key in b'a'..=b'z' {
        tree.put([key], "here").unwrap();
    }
    tree.delete_range("k".."q").unwrap();
    let (store, inner) = (db.store(), tree.inner());
    let halves = [SplitAt { tree: inner, at: b"n", name: "behind" }];
    let new = std::thread::scope(|scope| {
        let split = || {
            let mut versions = store.versions.lock();
            let number = store.commit().take_number()?;
            let swap = scope.spawn(|| db.default_tree().compare_and_swap("key", None, Some(b"value")));
            while !store.commit().is_quiet_wanted() {
                std::thread::yield_now();
            }
            let done = store.reshaper().install_splits(&mut versions, &halves, None, &[], number.seq);
            let new = done.and_then(|()| versions.tree_called("behind"));
            store.commit().show_number(&number);
            drop(versions);
            assert!(swap.join().unwrap().unwrap().is_done());
            new
        };
        let _one_at_a_time = store.reshaper().reshaping.lock();
        store.reshaper().while_paused(std::slice::from_ref(inner), &|tree| !tree.is_flushed(), split).unwrap()
    });
    assert_eq!(db.get_vec("key").unwrap().as_deref(), Some(&b"value"[..]));
    let ranges = |tree: &TreeInner| tree.state.load().ranges.list();
    let bounds = |tree: &TreeInner| ranges(tree).into_iter().map(|one| one.range).collect::<Vec<_>>();
    let between =
        |lower: &[u8], upper: &[u8]| KeyRange { lower: lower.to_vec(), upper: Some(upper.to_vec()) };
    assert_eq!(bounds(inner), [between(b"k", b"n")]);
    assert_eq!(bounds(&new), [between(b"n", b"q")]);
    assert_eq!(tree.count(ScanRange::all()).unwrap(), 10);
    let behind = db.open_tree("behind").unwrap().unwrap();
    assert_eq!(behind.count(ScanRange::all()).unwrap(), 10);
}
