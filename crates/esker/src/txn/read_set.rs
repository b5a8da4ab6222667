//! The read set of a transaction: keys and ranges that no other write may have changed when the transaction commits,
//! each since the read point of its first read. The commit checks this here.
//!
//! An expiry changes a value as a write does. When the transaction commits, no value that it relies on may have
//! expired. Of the values that it has read without relying on them, as under snapshot isolation, those that it writes
//! may not have expired either.

use std::collections::BTreeMap;

use super::write_set::WriteSet;
use crate::canary::broken;
use crate::cursor::{Expiry, SeqNo};
use crate::error::{Error, ErrorKind, Result, shown};
use crate::ranges::KeyRange;
use crate::read::newer::Newer;
use crate::tree::Tree;
use crate::version::edit::TreeId;

#[derive(Debug, Default)]
pub(super) struct ReadSet {
    trees: BTreeMap<TreeId, (Tree, TreeReads)>,
}

#[derive(Debug, Default)]
struct TreeReads {
    /// Each key with the read point of its first read.
    keys: BTreeMap<Vec<u8>, SeqNo>,
    /// An item is `None` if the scan returned nothing.
    ranges: Vec<Option<(KeyRange, SeqNo)>>,
    /// The earliest expiry among the values that it relies on, and its key.
    first_lapse: Option<(Expiry, Vec<u8>)>,
    /// When the other values that were read expire.
    lapses: BTreeMap<Vec<u8>, Expiry>,
}

/// A range of a read set. It is used later to record how much of the range was read.
#[derive(Debug, Clone, Copy)]
pub(super) struct RangeId {
    tree: TreeId,
    index: usize,
}

impl ReadSet {
    fn of(&mut self, tree: &Tree) -> &mut TreeReads {
        &mut self.trees.entry(tree.inner().id).or_insert_with(|| (tree.clone(), TreeReads::default())).1
    }

    pub(super) fn note_key(&mut self, tree: &Tree, key: &[u8], seq: SeqNo) {
        let keys = &mut self.of(tree).keys;
        if !keys.contains_key(key) {
            keys.insert(key.to_vec(), seq);
        }
    }

    /// Records that `range` is being read as of `seq`.
    pub(super) fn note_range(&mut self, tree: &Tree, range: KeyRange, seq: SeqNo) -> RangeId {
        let ranges = &mut self.of(tree).ranges;
        ranges.push(Some((range, seq)));
        RangeId { tree: tree.inner().id, index: ranges.len() - 1 }
    }

    /// Records that `key` was read, and that its value changes at `expiry`. If `relied`, the transaction must commit
    /// before that.
    pub(super) fn note_lapse(&mut self, tree: &Tree, key: &[u8], expiry: Expiry, relied: bool) {
        let reads = self.of(tree);
        if !relied {
            reads.lapses.insert(key.to_vec(), expiry);
        } else if reads.first_lapse.as_ref().is_none_or(|(first, _)| expiry < *first) {
            reads.first_lapse = Some((expiry, key.to_vec()));
        }
    }

    /// The earliest expiry that must not have come when `writes` is written.
    pub(super) fn first_lapse<'a>(&'a self, writes: &'a WriteSet) -> Option<(Expiry, &'a Tree, &'a [u8])> {
        let of_store = self.trees.iter().filter(|(_, (tree, _))| !tree.has_own_time());
        Self::lapses_of(of_store, writes).min_by_key(|(expiry, ..)| *expiry)
    }

    /// A key whose value the transaction relies on and that has expired by the time that the tree's writes have
    /// carried. The caller ensures that no write is under way.
    pub(super) fn lapsed<'a>(&'a self, writes: &'a WriteSet) -> Option<(&'a Tree, &'a [u8])> {
        let own = self.trees.iter().filter(|(_, (tree, _))| tree.has_own_time());
        let mut lapses = Self::lapses_of(own, writes);
        lapses.find(|(expiry, tree, _)| tree.has_carried(*expiry)).map(|(_, tree, key)| (tree, key))
    }

    /// The times of expiry that must not have passed when `writes` is written.
    fn lapses_of<'a>(
        trees: impl Iterator<Item = (&'a TreeId, &'a (Tree, TreeReads))>,
        writes: &'a WriteSet,
    ) -> impl Iterator<Item = (Expiry, &'a Tree, &'a [u8])> {
        trees.flat_map(move |(&id, (tree, TreeReads { first_lapse, lapses, .. }))| {
            let written = lapses.iter().filter(move |(key, _)| writes.get(id, key).is_some());
            let relied = first_lapse.iter().map(move |(expiry, key)| (*expiry, tree, key.as_slice()));
            written.map(move |(key, expiry)| (*expiry, tree, key.as_slice())).chain(relied)
        })
    }

    /// Records that only `walked` was read of the range; `None` if nothing was read.
    pub(super) fn shrink_range(&mut self, id: RangeId, walked: Option<KeyRange>) {
        let range = self.trees.get_mut(&id.tree).and_then(|(_, reads)| reads.ranges.get_mut(id.index));
        if let Some(range) = range {
            *range = range.take().zip(walked).map(|((_, seq), walked)| (walked, seq));
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.trees
            .values()
            .all(|(_, reads)| reads.keys.is_empty() && reads.ranges.iter().all(Option::is_none))
    }

    /// Fails if anything was written since it was read. Writes up to `seen` count as checked.
    fn check(&self, seen: SeqNo) -> Result<()> {
        for (tree, TreeReads { keys, ranges, .. }) in self.trees.values() {
            let since = keys.values().chain(ranges.iter().flatten().map(|(_, seq)| seq)).min();
            let Some(&since) = since else { continue };
            let state = tree.readable_state()?;
            let newer = Newer::than(since.max(seen), tree.inner(), &state);
            if newer.is_empty() {
                continue;
            }
            for (key, &seq) in keys {
                if !broken("txn-reads") && newer.has_key(key, seq.max(seen))? {
                    return Err(conflict(tree, key, "read it"));
                }
            }
            for (range, seq) in ranges.iter().flatten() {
                if !broken("txn-ranges")
                    && let Some(key) = newer.key_in(range, (*seq).max(seen))?
                {
                    return Err(conflict(tree, &key, "read a range around it"));
                }
            }
        }
        Ok(())
    }
}

/// The keys and ranges that must be unchanged when a transaction commits.
pub(super) struct Validation<'a> {
    pub(super) reads: &'a ReadSet,
    /// Under snapshot isolation: the write set, and the read point since which no other write may have changed its
    /// keys.
    pub(super) written: Option<(&'a WriteSet, SeqNo)>,
}

impl Validation<'_> {
    pub(super) fn is_empty(&self) -> bool {
        self.reads.is_empty() && self.written.is_none()
    }

    /// Fails with `Conflict` if another write changed any of it. Writes up to `seen` count as checked.
    pub(super) fn check(&self, seen: SeqNo) -> Result<()> {
        self.reads.check(seen)?;
        let Some((writes, snapshot)) = self.written else { return Ok(()) };
        let since = snapshot.max(seen);
        for (tree, changes) in writes.trees() {
            let state = tree.readable_state()?;
            let newer = Newer::than(since, tree.inner(), &state);
            for key in changes.keys.keys().take_while(|_| !newer.is_empty()) {
                if !broken("txn-writes") && newer.has_key(key, since)? {
                    return Err(conflict(tree, key, "began; the transaction writes it too"));
                }
            }
        }
        Ok(())
    }
}

pub(super) fn check_key_unchanged(tree: &Tree, key: &[u8], since: SeqNo) -> Result<()> {
    if !tree.is_unchanged(key, since)? {
        return Err(conflict(tree, key, "began; the transaction writes it too"));
    }
    Ok(())
}

pub(super) fn expired(tree: &Tree, key: &[u8]) -> Error {
    let (key, tree) = (shown(key), tree.name());
    let message = format!("key {key} of tree \"{tree}\" has expired since the transaction read it");
    Error::new(ErrorKind::Conflict, message)
}

/// The error for a conflict; `did` names the transaction's use of the key.
fn conflict(tree: &Tree, key: &[u8], did: &str) -> Error {
    let (key, tree) = (shown(key), tree.name());
    let message = format!(
        "a write outside of the transaction changed key {key} of tree \"{tree}\" since the transaction {did}"
    );
    Error::new(ErrorKind::Conflict, message)
}
