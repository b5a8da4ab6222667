//! The values of one blob file: which are pending, copied, pinned, and on their way out.

use std::collections::{BTreeMap, BTreeSet};

use super::References;
use crate::blob::{Pointer, VOLATILE};
use crate::canary::broken;
use crate::version::blob_edits::{ORDINALS_MAX, ReferenceRecord};

/// How far a value is on its way out. [`super`] has the picture.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Stage {
    /// An entry names it, or will, or a snapshot may see one that did.
    Referenced,
    /// No reader can find it, so it cannot be pinned any more. The overwriting write may still be lost in a crash.
    Unreferenced,
    /// The manifest records it as freed. The stage may lag behind the manifest, but is never ahead of it.
    Freed,
    /// Its blocks are given back.
    Punched,
}

/// The change that a table makes by naming a value. See [`Values::put_in_table`].
#[derive(Debug)]
pub(crate) struct InTable {
    pointer: Pointer,
    was_pending: bool,
    was_volatile: bool,
}

#[derive(Debug, Default)]
pub(crate) struct Values {
    /// Whether the file ends with a footer.
    sealed: bool,
    /// Whether more may be appended.
    open: bool,
    /// How many values were written so far.
    entries: u64,
    /// Values whose log record may still be lost, each with the log position after the record once the record exists.
    pending: BTreeMap<u64, Option<u64>>,
    /// The stage of each value that is not [`Stage::Referenced`].
    stages: BTreeMap<u64, Stage>,
    /// How often each value is pinned. A freed value is punched when its last pin has gone.
    pins: BTreeMap<u64, usize>,
    /// The references of values that were copied. Every other value has one.
    references: BTreeMap<u64, References>,
    /// The copied values whose state in the manifest may be out of date.
    unnoted: BTreeSet<u64>,
}

impl Values {
    /// The values of a file to which nothing is appended any more.
    pub(crate) fn found(
        sealed: bool,
        entries: u64,
        freed: &BTreeSet<u64>,
        pending: impl IntoIterator<Item = u64>,
    ) -> Values {
        let pending = pending.into_iter().map(|ordinal| (ordinal, None)).collect();
        let stages = freed.iter().map(|&ordinal| (ordinal, Stage::Freed)).collect();
        Values { sealed, entries, stages, pending, ..Values::default() }
    }

    pub(in crate::blob) fn begun() -> Values {
        Values { open: true, ..Values::default() }
    }

    // ---- the file --------------------------------------------------------------------------------------

    pub(crate) fn is_sealed(&self) -> bool {
        self.sealed
    }

    pub(in crate::blob) fn is_open(&self) -> bool {
        self.open
    }

    /// Notes that nothing will be appended, and that the file ends with a footer.
    pub(in crate::blob) fn seal(&mut self) {
        (self.sealed, self.open) = (true, false);
    }

    /// Notes that nothing will be appended, even though the file has no footer.
    pub(in crate::blob) fn end(&mut self) {
        self.open = false;
    }

    pub(crate) fn entries(&self) -> u64 {
        self.entries
    }

    // ---- written ---------------------------------------------------------------------------------------

    pub(in crate::blob) fn add(&mut self, ordinal: u64) {
        self.count(ordinal);
        self.pending.insert(ordinal, None);
    }

    /// Adds the values after those that the manifest knows. They count only if the log names them.
    pub(crate) fn add_found(&mut self, ordinals: impl Iterator<Item = u64>) {
        let known = self.entries;
        ordinals.filter(|&ordinal| ordinal >= known).for_each(|ordinal| self.add(ordinal));
    }

    fn count(&mut self, ordinal: u64) {
        self.entries = self.entries.max(ordinal.saturating_add(1));
    }

    /// Notes that the log names the reference of `pointer`, in a record that ends at position `end` ([`VOLATILE`]: a
    /// table will name it). `None` if it is unknown whether the log names it.
    pub(in crate::blob) fn commit(&mut self, pointer: &Pointer, end: Option<u64>) {
        if pointer.reference != 0
            && let Some(references) = self.references_mut(pointer.ordinal)
        {
            references.commit(pointer.reference, end);
        }
        if let Some(position) = self.pending.get_mut(&pointer.ordinal) {
            // If only a handle has the first reference, one of the further ones is the first that the log names. Threads
            // come here in any order.
            *position = match (pointer.reference, *position, end) {
                (0, ..) | (_, None, _) => end,
                (_, Some(old), end) => Some(end.map_or(old, |end| end.min(old))),
            };
        }
    }

    /// Notes that replay has found the reference of `pointer`, in an entry whose key has the hash `key_hash`. The file
    /// counts the value even if a scan did not find it. Returns whether the value was copied for this entry.
    pub(crate) fn claim(&mut self, pointer: &Pointer, key_hash: u64) -> bool {
        // The log names the first reference before all others, or never: then only a handle had it.
        let is_first_written = self.pending.remove(&pointer.ordinal).is_none() || broken("stored-value");
        self.count(pointer.ordinal);
        let is_copy = pointer.reference != 0
            && !broken("references-replay")
            && self.stage(pointer.ordinal) == Stage::Referenced;
        if is_copy {
            let references = self.references_or_first(pointer.ordinal);
            references.claim(pointer.reference, key_hash);
            if !is_first_written {
                references.remove(0);
            }
        }
        is_copy
    }

    /// Notes that a table names the reference of `pointer`. Returns the change, if there is one.
    pub(in crate::blob) fn put_in_table(&mut self, pointer: &Pointer) -> Option<InTable> {
        let was_pending = self.pending.remove(&pointer.ordinal).is_some();
        let references = self.references_mut(pointer.ordinal).filter(|_| pointer.reference != 0);
        let was_volatile = references.is_some_and(|references| references.put_in_table(pointer.reference));
        (was_pending || was_volatile).then_some(InTable { pointer: *pointer, was_pending, was_volatile })
    }

    pub(in crate::blob) fn undo_in_table(&mut self, change: &InTable) {
        let InTable { pointer, was_pending, was_volatile } = change;
        if *was_pending {
            self.pending.insert(pointer.ordinal, Some(VOLATILE));
        }
        if let Some(references) = self.references_mut(pointer.ordinal).filter(|_| *was_volatile) {
            references.commit(pointer.reference, Some(VOLATILE));
        }
    }

    pub(super) fn note_synced(&mut self, synced: u64) {
        self.pending.retain(|_, position| position.is_none_or(|position| position > synced));
    }

    /// The pending values, if the log is on the disk up to position `synced`.
    pub(in crate::blob) fn pending_at(&self, synced: u64) -> BTreeSet<u64> {
        let pending = self.pending.iter().filter(|(_, end)| end.is_none_or(|end| end > synced));
        pending.map(|(&ordinal, _)| ordinal).collect()
    }

    pub(crate) fn pending(&self) -> impl Iterator<Item = u64> + '_ {
        self.pending.keys().copied()
    }

    // ---- stages ----------------------------------------------------------------------------------------

    pub(crate) fn stage(&self, ordinal: u64) -> Stage {
        self.stages.get(&ordinal).copied().unwrap_or(Stage::Referenced)
    }

    /// The last reference is gone: from now on the value cannot be pinned.
    pub(in crate::blob) fn unreference(&mut self, ordinal: u64) {
        // A value that a record names stays pending until the record is durable: a power loss may take both.
        if self.pending.get(&ordinal) == Some(&None) {
            self.pending.remove(&ordinal);
        }
        self.stages.entry(ordinal).or_insert(Stage::Unreferenced);
    }

    pub(super) fn free(&mut self, ordinals: &BTreeSet<u64>) {
        for &ordinal in ordinals {
            let stage = self.stages.entry(ordinal).or_insert(Stage::Freed);
            *stage = (*stage).max(Stage::Freed);
        }
    }

    pub(super) fn note_punched(&mut self, ordinals: impl IntoIterator<Item = u64>) {
        self.stages.extend(ordinals.into_iter().map(|ordinal| (ordinal, Stage::Punched)));
    }

    /// The file was rewritten with `ordinals`. Returns the freed ones: in the new file they have blocks again.
    pub(super) fn unpunch(&mut self, ordinals: impl Iterator<Item = u64>) -> BTreeSet<u64> {
        let freed: BTreeSet<u64> = ordinals.filter(|&ordinal| self.stage(ordinal) >= Stage::Freed).collect();
        self.stages.extend(freed.iter().map(|&ordinal| (ordinal, Stage::Freed)));
        freed
    }

    /// The values that are not [`Stage::Referenced`].
    pub(super) fn unreferenced(&self) -> impl Iterator<Item = u64> + '_ {
        self.stages.keys().copied()
    }

    /// The values that are freed and not punched, as far as is known.
    pub(super) fn freed(&self) -> BTreeSet<u64> {
        let freed = self.stages.iter().filter(|(_, stage)| **stage == Stage::Freed);
        freed.map(|(&ordinal, _)| ordinal).collect()
    }

    pub(crate) fn referenced_count(&self) -> u64 {
        self.entries - self.stages.range(..self.entries).count() as u64
    }

    /// The values that are referenced and that the log cannot lose.
    pub(crate) fn settled(&self) -> impl Iterator<Item = u64> + '_ {
        let counts =
            |ordinal: &u64| !self.pending.contains_key(ordinal) && self.stage(*ordinal) == Stage::Referenced;
        (0..self.entries.min(ORDINALS_MAX)).filter(counts)
    }

    /// Whether no value of the file is referenced, and no value will be added.
    pub(crate) fn are_unreferenced(&self) -> bool {
        // Each round calls this for each file. The exact count is made only if all values may be unreferenced.
        !self.open && self.stages.len() as u64 >= self.entries && self.referenced_count() == 0
    }

    /// Whether all values of the file are freed, no value is pinned, and no value will be added.
    pub(crate) fn are_removable(&self) -> bool {
        self.are_unreferenced()
            && !self.is_pinned()
            && self.stages.values().all(|&stage| stage >= Stage::Freed)
    }

    // ---- pins ------------------------------------------------------------------------------------------

    /// Pins a value. `false` if it is not referenced any more.
    pub(in crate::blob) fn pin(&mut self, ordinal: u64) -> bool {
        let is_referenced = self.stage(ordinal) == Stage::Referenced;
        if is_referenced {
            *self.pins.entry(ordinal).or_insert(0) += 1;
        }
        is_referenced
    }

    /// Pins a value that was just written. Its tree may have been dropped meanwhile: then it is not referenced any
    /// more, but its bytes stay for its write.
    pub(in crate::blob) fn pin_new(&mut self, ordinal: u64) {
        *self.pins.entry(ordinal).or_insert(0) += 1;
    }

    /// Undoes one [`Values::pin`] or [`Values::pin_new`]. Returns the stage of the value if this was its last pin.
    pub(in crate::blob) fn unpin(&mut self, ordinal: u64) -> Option<Stage> {
        let count = self.pins.get_mut(&ordinal)?;
        *count -= 1;
        if *count > 0 {
            return None;
        }
        self.pins.remove(&ordinal);
        Some(self.stage(ordinal))
    }

    pub(in crate::blob) fn is_pinned(&self) -> bool {
        !self.pins.is_empty()
    }

    pub(super) fn has_pin(&self, ordinal: u64) -> bool {
        self.pins.contains_key(&ordinal)
    }

    /// Whether the value is neither needed nor read any more.
    pub(crate) fn is_unneeded(&self, ordinal: u64) -> bool {
        self.stage(ordinal) > Stage::Referenced && !self.has_pin(ordinal)
    }

    pub(in crate::blob) fn unneeded(&self) -> impl Iterator<Item = u64> + '_ {
        self.unreferenced().filter(|&ordinal| !self.has_pin(ordinal))
    }

    // ---- references ------------------------------------------------------------------------------------

    /// Removes a reference (`None`: every reference) of a value. Returns whether it was the last: then the caller
    /// unreferences the value. No reference can come in between: a thread that copies a value has registered a snapshot
    /// that sees the one it copies, or has a handle of the value, which is a reference too.
    pub(super) fn remove_reference(&mut self, ordinal: u64, reference: Option<u64>) -> bool {
        match (self.references_mut(ordinal), reference) {
            (Some(_), Some(_)) if broken("references") => true,
            (Some(references), Some(reference)) => {
                references.remove(reference);
                references.are_gone()
            }
            (None, reference) => reference.unwrap_or(0) == 0,
            (Some(_), None) => true,
        }
    }

    pub(super) fn is_shared(&self, ordinal: u64) -> bool {
        self.references.contains_key(&ordinal)
    }

    /// The references of a value that was copied, for a change, which will go to the manifest.
    pub(super) fn references_mut(&mut self, ordinal: u64) -> Option<&mut References> {
        let references = self.references.get_mut(&ordinal)?;
        self.unnoted.insert(ordinal);
        Some(references)
    }

    /// [`Values::references_mut`] of a value that is being copied; creates the first reference if needed.
    pub(super) fn references_or_first(&mut self, ordinal: u64) -> &mut References {
        self.unnoted.insert(ordinal);
        let is_written = self.pending.get(&ordinal) != Some(&None);
        self.references.entry(ordinal).or_insert_with(|| References::first(is_written))
    }

    /// Takes over the references of a copied value from the manifest.
    pub(crate) fn set_references(&mut self, ordinal: u64, record: &ReferenceRecord) {
        self.unnoted.insert(ordinal);
        self.references.insert(ordinal, References::of(record));
    }

    /// Decides which references count, after the replay of the whole log. Returns copied values without one.
    pub(crate) fn decide_references(&mut self) -> Vec<u64> {
        self.references.values_mut().for_each(References::decide);
        // The log may have lost the first record of a value that a table names by another reference: the value counts.
        let (references, pending) = (&self.references, &mut self.pending);
        pending.retain(|ordinal, _| references.get(ordinal).is_none_or(|one| !one.has_further()));
        let gone = self.references.iter().filter(|(_, references)| references.are_gone());
        gone.map(|(&ordinal, _)| ordinal)
            .filter(|&ordinal| self.stage(ordinal) == Stage::Referenced)
            .collect()
    }

    /// The changes for a manifest that `knows` another state, if the log is on the disk up to position `synced`.
    pub(super) fn reference_news<'a>(
        &mut self,
        synced: u64,
        knows: impl Fn(u64) -> Option<&'a ReferenceRecord>,
    ) -> Vec<(u64, ReferenceRecord)> {
        let mut news = Vec::new();
        let Values { references, unnoted, stages, .. } = self;
        unnoted.retain(|&ordinal| {
            let Some(references) = references.get(&ordinal).filter(|_| !stages.contains_key(&ordinal)) else {
                return false;
            };
            let record = references.record(synced);
            // A reference that the log may still lose changes without an edit when the log is synced.
            let (is_new, may_change) = (knows(ordinal) != Some(&record), !record.pending.is_empty());
            if is_new {
                news.push((ordinal, record));
            }
            is_new || may_change
        });
        news
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(ordinals: &[u64]) -> BTreeSet<u64> {
        ordinals.iter().copied().collect()
    }

    fn pointer(ordinal: u64) -> Pointer {
        Pointer { file: 1, ordinal, len: 10, stored_us: 0, sums_check: 0, reference: 0 }
    }

    #[test]
    fn a_value_goes_through_all_stages_in_their_order() {
        let mut values = Values::begun();
        (0..2).for_each(|ordinal| values.add(ordinal));
        assert!(values.settled().next().is_none(), "the log may lose both");
        (0..2).for_each(|ordinal| values.commit(&pointer(ordinal), Some(100)));
        assert_eq!((values.pending_at(99), values.pending_at(100)), (set(&[0, 1]), set(&[])));
        values.note_synced(100);
        assert_eq!(values.settled().collect::<Vec<_>>(), [0, 1]);

        assert!(values.pin(0));
        assert!(values.remove_reference(0, Some(0)), "it was the last");
        values.unreference(0);
        assert_eq!(values.stage(0), Stage::Unreferenced);
        assert!(!values.pin(0), "nobody finds it any more");
        assert!(!values.is_unneeded(0), "but somebody reads it");
        values.free(&set(&[0]));
        assert_eq!(values.unpin(0), Some(Stage::Freed), "so it can be punched now");
        values.note_punched([0]);
        values.free(&set(&[0]));
        values.unreference(0);
        assert_eq!(values.stage(0), Stage::Punched, "no stage goes back");
        assert_eq!(values.unpunch([0, 1].into_iter()), set(&[0]), "but a rewritten file has it again");
        assert_eq!(values.stage(0), Stage::Freed);

        assert!(!values.are_unreferenced());
        values.unreference(1);
        assert!(!values.are_unreferenced(), "more may be appended");
        values.seal();
        assert!(values.are_unreferenced() && !values.are_removable());
        values.free(&set(&[1]));
        assert!(values.are_removable());
    }

    #[test]
    fn what_a_record_names_stays_pending_until_the_record_is_durable() {
        let mut values = Values::begun();
        (0..2).for_each(|ordinal| values.add(ordinal));
        values.commit(&pointer(0), Some(100));
        (0..2).for_each(|ordinal| values.unreference(ordinal));
        assert_eq!(
            values.pending_at(99),
            set(&[0]),
            "a power loss may take the record and the overwriting write"
        );
    }

    #[test]
    fn a_file_that_claims_more_values_than_any_has_is_not_believed() {
        let values = Values::found(true, 1 << 60, &set(&[]), []);
        assert_eq!(values.settled().count() as u64, ORDINALS_MAX);
    }
}
