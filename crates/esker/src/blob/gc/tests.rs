//! [`BlobGc`] alone, on a simulated disk: a manifest that applies its edits, and no store.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::*;
use crate::blob::{BlobOwner, NewBlob};
use crate::env::{Env, StepExecutor};
use crate::fs::FileSystem;
use crate::fs::sim::{Fault, Op, SimFs};
use crate::options::Options;
use crate::trace::Metrics;
use crate::version::edit::ManifestState;

/// The length of each value: 25 blocks, 24 of them whole wherever it begins.
const LEN: usize = 100 << 10;

struct Place {
    disk: SimFs,
    blobs: Arc<BlobSet>,
    gc: BlobGc,
    manifest: ManifestState,
}

impl Place {
    fn new() -> Place {
        let (disk, dir) = (SimFs::new(1), Path::new("/db"));
        let fs: Arc<dyn FileSystem> = Arc::new(disk.clone());
        fs.create_dir_all(dir).unwrap();
        let env = Env { fs, ..Env::system() };
        let (numbers, executor) = (Arc::new(AtomicU64::new(1)), Arc::new(StepExecutor));
        let metrics = Metrics::new(&env.clock);
        let blobs = Arc::new(BlobSet::new(&env, dir, numbers, executor, metrics, &Options::default()));
        blobs.punched.store(0, Ordering::Relaxed);
        Place { disk, gc: BlobGc::new(&blobs), blobs, manifest: ManifestState::default() }
    }

    /// Puts a value that the log names in a record that ends at `position`.
    fn put(&self, key: &str, position: u64) -> NewBlob {
        let mut new = self.blobs.put(BlobOwner::NO_GROUP, 1, key.as_bytes(), &vec![7; LEN]).unwrap();
        new.commit(Some(position));
        new
    }

    /// The write `by` overwrites the value, whose entry has the number `from`.
    fn overwrite(&self, new: &NewBlob, from: SeqNo, by: SeqNo) {
        let at = new.pointer;
        let one = Overwritten { from, until: by, by, ..Overwritten::unseen(at.file, at.ordinal, Some(0)) };
        self.gc.add_overwritten([one]);
    }

    fn find_unseen(&self, snapshots: &[SeqNo]) {
        self.gc.find_unseen(&mut self.gc.garbage(), || snapshots.to_vec());
    }

    /// Frees in the manifest the values that writes up to `limit` have overwritten. Returns whether there were any.
    fn free(&mut self, limit: SeqNo) -> bool {
        let frees = BlobChanges { durable_up_to: Some(limit), ..BlobChanges::default() };
        let mut edits = self.gc.edits(&self.manifest, u64::MAX - 1, &frees);
        edits.take_edits().iter().for_each(|edit| self.manifest.apply(edit).unwrap());
        let frees_any = edits.frees_any();
        self.gc.after_edits(edits, true);
        frees_any
    }

    fn punch(&self) -> Result<u64> {
        let mut sum = 0;
        self.gc.punch_freed(|bytes| sum += bytes)?;
        Ok(sum)
    }

    fn stage(&self, new: &NewBlob) -> Stage {
        let live = self.blobs.get(new.pointer.file).unwrap();
        let values = live.values.lock();
        values.stage(new.pointer.ordinal)
    }

    fn allocated(&self, new: &NewBlob) -> u64 {
        self.disk.allocated_bytes(&self.blobs.path_of(new.pointer.file)).unwrap()
    }
}

/// Two values in one file. The file therefore stays when the first one goes.
fn two() -> (Place, NewBlob, NewBlob) {
    let place = Place::new();
    let (one, other) = (place.put("one", 1), place.put("other", 2));
    assert_eq!(one.pointer.file, other.pointer.file);
    (place, one, other)
}

#[test]
fn a_value_is_kept_by_a_snapshot_then_by_the_log_and_then_punched() {
    let (mut place, one, other) = two();
    let pointer = one.pointer;
    place.overwrite(&one, 5, 9);
    place.find_unseen(&[4, 7, 9]);
    assert_eq!(place.stage(&one), Stage::Referenced, "the snapshot at 7 sees it");
    assert!(place.blobs.pin(&pointer).is_some());
    place.find_unseen(&[4, 9]);
    assert_eq!(place.stage(&one), Stage::Unreferenced);
    assert!(place.blobs.pin(&pointer).is_none());
    assert!(!place.free(8), "the overwriting write is not durable");
    assert_eq!(place.stage(&one), Stage::Unreferenced);
    assert!(place.free(9));
    assert_eq!(place.stage(&one), Stage::Freed);
    assert!(place.manifest.blobs.live[&pointer.file].freed.contains(&pointer.ordinal));

    let before = place.allocated(&other);
    assert_eq!(place.punch().unwrap(), 0, "its batch still has it pinned");
    drop(one);
    assert!(place.gc.punch_unpinned().unwrap() && !place.gc.punch_unpinned().unwrap());
    assert!(place.allocated(&other) <= before - (LEN as u64 - 4096));
    let live = place.blobs.get(pointer.file).unwrap();
    assert_eq!(live.values.lock().stage(pointer.ordinal), Stage::Punched);
    assert_eq!(place.stage(&other), Stage::Referenced);
}

#[test]
fn a_pin_that_goes_between_the_edit_and_the_round_makes_no_second_punch() {
    let (mut place, one, _other) = two();
    place.overwrite(&one, 5, 9);
    place.find_unseen(&[]);
    assert!(place.free(9));
    drop(one);
    assert_eq!(place.punch().unwrap(), LEN as u64);
    assert!(place.gc.punch_unpinned().unwrap(), "the pin has asked for it too");
    assert_eq!(place.blobs.punched.load(Ordering::Relaxed), LEN as u64);
}

#[test]
fn what_could_not_be_punched_is_punched_by_a_later_round() {
    for unpinned in [false, true] {
        let (mut place, one, _other) = two();
        let (pointer, live) = (one.pointer, place.blobs.get(one.pointer.file).unwrap());
        place.overwrite(&one, 5, 9);
        place.find_unseen(&[]);
        assert!(place.free(9));
        if unpinned {
            assert_eq!(place.punch().unwrap(), 0);
        }
        drop(one);
        place.disk.inject(Fault::new(Op::Punch, ".blob"));
        let failed = if unpinned { place.gc.punch_unpinned().map(drop) } else { place.punch().map(drop) };
        assert!(failed.is_err() && place.gc.has_work());
        assert_eq!(live.values.lock().stage(pointer.ordinal), Stage::Freed);
        assert_eq!(place.punch().unwrap(), LEN as u64);
        assert_eq!(live.values.lock().stage(pointer.ordinal), Stage::Punched);
    }
}

#[test]
fn a_batch_that_is_dropped_unwritten_leaves_nothing_and_failed_edits_free_later() {
    let (mut place, _one, other) = two();
    let new = place.blobs.put(BlobOwner::NO_GROUP, 1, b"never written", &vec![7; LEN]).unwrap();
    let (file, ordinal) = (new.pointer.file, new.pointer.ordinal);
    drop(new);
    place.find_unseen(&[1, 2, 3]);
    let mut edits = place.gc.edits(&place.manifest, u64::MAX - 1, &BlobChanges::default());
    assert!(edits.frees_any() && !edits.take_edits().is_empty());
    place.gc.after_edits(edits, false);
    let live = place.blobs.get(file).unwrap();
    assert_eq!(live.values.lock().stage(ordinal), Stage::Unreferenced);
    assert_eq!(place.punch().unwrap(), 0);
    assert!(place.free(0));
    assert_eq!(place.punch().unwrap(), LEN as u64);
    assert_eq!(place.stage(&other), Stage::Referenced);
}

#[test]
fn a_copied_value_goes_with_its_last_reference() {
    let (mut place, one, _other) = two();
    let mut copy = place.blobs.add_reference(1, b"copy", &one.pointer).unwrap();
    copy.commit(Some(3));
    place.overwrite(&one, 5, 9);
    place.find_unseen(&[]);
    assert!(!place.free(9), "the copy names it");
    assert_eq!(place.stage(&one), Stage::Referenced);
    let at = copy.pointer;
    let gone = Overwritten { by: 10, ..Overwritten::unseen(at.file, at.ordinal, Some(at.reference)) };
    place.gc.add_overwritten([gone]);
    place.find_unseen(&[]);
    assert!(place.free(10));
    assert_eq!(place.stage(&one), Stage::Freed);
}

#[test]
fn what_a_rule_drops_counts_again_if_the_edits_fail() {
    let (mut place, one, _other) = two();
    place.free(0);
    let at = one.pointer;
    let gone = [Overwritten::unseen(at.file, at.ordinal, Some(0))];
    let changes = BlobChanges { by_rule: &gone, ..BlobChanges::default() };
    let counted = |manifest: &ManifestState| manifest.blobs.live[&at.file].references[&at.ordinal].live.len();
    let mut failed = place.gc.edits(&place.manifest, u64::MAX - 1, &changes);
    let mut lost = place.manifest.clone();
    failed.take_edits().iter().for_each(|edit| lost.apply(edit).unwrap());
    assert_eq!(counted(&lost), 0);
    place.gc.after_edits(failed, false);
    place.gc.restore(&changes);
    assert!(!place.free(0));
    assert_eq!((counted(&place.manifest), place.stage(&one)), (1, Stage::Referenced));
}
