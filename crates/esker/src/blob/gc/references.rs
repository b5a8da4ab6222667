//! The references of a value that was copied: the entries that name it, if there may be more than one.
//!
//! - Reference 0 is the entry for which the value was written, or the handle that keeps the value for later writes.
//!   Each copy gets the next number. A number is never given out twice, so a reference may be removed more than once.
//! - The value is needed until the last reference is gone.
//! - A reference that the log may still lose counts only if the log names it: [`ReferenceRecord`] distinguishes these.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::{Overwritten, Stage};
use crate::blob::{BlobFileId, BlobSet, NewBlob, Pointer, VOLATILE, key_hash};
use crate::version::blob_edits::ReferenceRecord;

#[derive(Debug, Clone, Copy)]
struct Reference {
    /// The hash of its key; 0 for the first reference, whose key the file holds.
    key_hash: u64,
    /// The log position after its record; `None` if it is not known to be committed.
    position: Option<u64>,
    /// Whether only snapshots see it, and the write that hides it survives a crash.
    overwritten: bool,
}

#[derive(Debug)]
pub(crate) struct References {
    next: u64,
    live: BTreeMap<u64, Reference>,
    /// References of an earlier opening that count only if the log names them.
    undecided: BTreeSet<u64>,
    /// Numbers from this one on that are not live are undecided too: the log may name them in any order, because threads
    /// that write one value commit in any order. After the replay this is `next`.
    decided: u64,
}

/// At most this many undecided numbers are noted when an opening replays only a part of the log. Two writes of one value
/// that run at the same time have numbers further apart only if that many writes of the value failed between them.
const UNDECIDED_MAX: u64 = 1 << 16;

impl Reference {
    /// A reference that the log cannot lose.
    fn durable(key_hash: u64) -> Reference {
        Reference { key_hash, position: Some(0), overwritten: false }
    }
}

impl References {
    /// The references of a value that was not copied yet. `is_written`: an entry names it, so the first reference
    /// counts after a crash. Otherwise a handle has the first reference.
    pub(super) fn first(is_written: bool) -> References {
        let first = Reference { position: is_written.then_some(0), ..Reference::durable(0) };
        References { next: 1, live: [(0, first)].into(), undecided: BTreeSet::new(), decided: 1 }
    }

    pub(super) fn of(record: &ReferenceRecord) -> References {
        let live = record.live.iter().map(|(&reference, &hash)| (reference, Reference::durable(hash)));
        let undecided = record.pending.clone();
        References { next: record.next, live: live.collect(), undecided, decided: record.next }
    }

    /// Gives out a new reference, which is not committed yet.
    pub(super) fn issue(&mut self, key_hash: u64) -> u64 {
        let reference = self.next;
        self.next += 1;
        self.decided = self.next;
        self.live.insert(reference, Reference { key_hash, position: None, overwritten: false });
        reference
    }

    /// Notes that the log names the reference, in a record that ends at position `end`.
    pub(super) fn commit(&mut self, reference: u64, end: Option<u64>) {
        if let Some(reference) = self.live.get_mut(&reference) {
            reference.position = end;
        }
    }

    /// Notes that a table names the reference. Returns whether its write skipped the log.
    pub(super) fn put_in_table(&mut self, reference: u64) -> bool {
        let reference =
            self.live.get_mut(&reference).filter(|reference| reference.position == Some(VOLATILE));
        reference.is_some_and(|reference| reference.position.replace(0).is_some())
    }

    /// Notes that replay has found the reference. If the manifest knew it and does not count it, it has been removed
    /// since.
    pub(super) fn claim(&mut self, reference: u64, key_hash: u64) {
        if reference >= self.decided || self.undecided.remove(&reference) {
            self.next = self.next.max(reference.saturating_add(1));
            self.live.insert(reference, Reference::durable(key_hash));
        }
    }

    /// Notes that the whole log was replayed: references that it does not name do not count.
    pub(super) fn decide(&mut self) {
        self.undecided.clear();
        self.decided = self.next;
    }

    pub(super) fn remove(&mut self, reference: u64) {
        self.live.remove(&reference);
    }

    /// Sets whether only snapshots see the reference (`None`: every reference). Snapshots do not survive the process.
    pub(super) fn set_overwritten(&mut self, reference: Option<u64>, is_overwritten: bool) {
        let is_meant = |number: u64| reference.is_none_or(|reference| reference == number);
        let meant = self.live.iter_mut().filter(|(number, _)| is_meant(**number));
        meant.for_each(|(_, reference)| reference.overwritten = is_overwritten);
    }

    /// Whether a reference other than the first is live.
    pub(super) fn has_further(&self) -> bool {
        self.live.range(1..).next().is_some()
    }

    pub(super) fn are_gone(&self) -> bool {
        self.live.is_empty() && self.undecided.is_empty() && self.decided == self.next
    }

    /// The record for a manifest, if the log is on the disk up to position `synced`.
    pub(super) fn record(&self, synced: u64) -> ReferenceRecord {
        let mut record =
            ReferenceRecord { next: self.next, pending: self.undecided.clone(), ..Default::default() };
        let unseen = self.decided.max(self.next.saturating_sub(UNDECIDED_MAX))..self.next;
        record.pending.extend(unseen.filter(|number| !self.live.contains_key(number)));
        for (&number, reference) in self.live.iter().filter(|(_, reference)| !reference.overwritten) {
            if reference.position.is_some_and(|position| position <= synced) {
                record.live.insert(number, reference.key_hash);
            } else {
                record.pending.insert(number);
            }
        }
        record
    }
}

impl BlobSet {
    /// Adds a reference, by the entry of `key` in `tree`, to the value of `pointer`; `None` if readers cannot find the
    /// value any more. It counts once the log names it.
    pub(crate) fn add_reference(
        self: &Arc<Self>,
        tree: u32,
        key: &[u8],
        pointer: &Pointer,
    ) -> Option<NewBlob> {
        let pin = self.pin(pointer)?;
        let hash = key_hash(tree, key);
        self.filter.add(hash);
        let mut values = pin.live.values.lock();
        if values.stage(pointer.ordinal) != Stage::Referenced {
            return None;
        }
        let reference = values.references_or_first(pointer.ordinal).issue(hash);
        drop(values);
        Some(NewBlob::copied(Pointer { reference, ..*pointer }, pin))
    }

    pub(super) fn is_shared(&self, file: BlobFileId, ordinal: u64) -> bool {
        self.get(file).is_some_and(|live| live.values.lock().is_shared(ordinal))
    }

    /// Removes a reference (`None`: every reference) of the value permanently. Returns whether it was the last.
    pub(super) fn remove_reference(&self, file: BlobFileId, ordinal: u64, reference: Option<u64>) -> bool {
        self.get(file).is_some_and(|live| live.values.lock().remove_reference(ordinal, reference))
    }

    /// Notes that only snapshots see the reference `one`. From now on the value has a list of references, even if this
    /// is the only one: a transaction may still add another.
    pub(super) fn leave_out(&self, one: &Overwritten) {
        if let Some(live) = self.get(one.file) {
            let mut values = live.values.lock();
            values.references_or_first(one.ordinal).set_overwritten(one.reference, true);
        }
    }

    /// Sets whether only snapshots see the reference `one`. Returns `false` if the value was not copied and has no
    /// other.
    pub(super) fn set_overwritten(&self, one: &Overwritten, is_overwritten: bool) -> bool {
        let Some(live) = self.get(one.file) else { return false };
        let mut values = live.values.lock();
        let references = values.references_mut(one.ordinal);
        references.map(|references| references.set_overwritten(one.reference, is_overwritten)).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reference_counts_when_the_log_cannot_lose_it_and_until_it_is_removed() {
        let mut references = References::first(true);
        let (a, b) = (references.issue(7), references.issue(8));
        assert_eq!((a, b), (1, 2));
        references.commit(a, Some(100));
        let record = references.record(99);
        assert_eq!((record.live.len(), record.pending.len()), (1, 2));
        references.remove(0);
        references.remove(0);
        let record = references.record(100);
        assert_eq!(record.live, BTreeMap::from([(1, 7)]));
        assert_eq!(record.pending, BTreeSet::from([2]));

        // The log names the second copy, and the first one, which the manifest knows.
        let mut again = References::of(&record);
        again.claim(a, 7);
        again.claim(b, 8);
        again.claim(5, 9);
        assert_eq!(again.issue(10), 6);
        again.decide();
        [1, 2, 5, 6].into_iter().for_each(|reference| again.remove(reference));
        assert!(again.are_gone());

        // The log names neither.
        let mut again = References::of(&record);
        again.remove(a);
        assert!(!again.are_gone(), "the log may still name the second copy");
        again.decide();
        assert!(again.are_gone());
    }

    #[test]
    fn the_log_may_name_references_in_any_order() {
        let mut replayed = References::first(true);
        replayed.claim(3, 9);
        assert!(!replayed.are_gone());
        // An opening that replays a part of the log only leaves the rest undecided.
        let record = replayed.record(u64::MAX);
        assert_eq!(record.pending, BTreeSet::from([1, 2]));
        for mut replayed in [replayed, References::of(&record)] {
            replayed.claim(1, 7);
            replayed.decide();
            let record = replayed.record(u64::MAX);
            assert_eq!(record.live, BTreeMap::from([(0, 0), (1, 7), (3, 9)]));
            assert!(record.pending.is_empty());
            [0, 3].into_iter().for_each(|reference| replayed.remove(reference));
            assert!(!replayed.are_gone());
            replayed.remove(1);
            assert!(replayed.are_gone());
        }
        // A damaged number costs no time.
        let mut replayed = References::first(true);
        replayed.claim(1 << 48, 9);
        assert_eq!(replayed.record(u64::MAX).pending.len() as u64, UNDECIDED_MAX - 1);
    }

    #[test]
    fn a_reference_that_is_gone_does_not_come_back() {
        let mut references = References::first(true);
        let reference = references.issue(7);
        references.commit(reference, Some(1));
        references.remove(reference);
        let mut again = References::of(&references.record(1));
        again.claim(reference, 7);
        assert_eq!(again.record(1), references.record(1));
    }

    #[test]
    fn what_only_snapshots_see_is_not_recorded() {
        let mut references = References::first(true);
        let reference = references.issue(7);
        references.commit(reference, Some(1));
        references.set_overwritten(Some(0), true);
        assert_eq!(references.record(1).live, BTreeMap::from([(reference, 7)]));
        assert!(!references.are_gone());
        references.set_overwritten(None, true);
        assert!(References::of(&references.record(1)).are_gone());
    }
}
