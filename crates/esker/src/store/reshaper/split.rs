//! Splits a tree in two without rewriting its tables: both trees name them, each with the bounds of its own keys
//! (rule 20).
//!
//! ```text
//! before   tree   [ a .. f ] [ g .. p ] [ r .. z ]
//! split at k
//! after    tree   [ a .. f ] [ g .. j ]
//!          new               [ k .. p ] [ r .. z ]      the table in the middle is clipped in both
//! ```
//!
//! The tree is flushed, and its writers are paused. Therefore all of its keys are in tables. Replay skips the older log
//! records of both trees, and a newer record names only keys that its tree has. A sequence number is taken as for a
//! write, so that earlier snapshots continue to see one tree. Huge values stay filed under a *lineage* number, which
//! both trees have from then on.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::Reshaper;
use super::group::{Whole, add_tags};
use crate::cursor::{Cursor, MAX_SEQ, SeqNo};
use crate::error::{Error, Result};
use crate::ranges::{KeyRange, RangeTombstone};
use crate::state::versions::{Origin, VersionEdit, Versions};
use crate::state::{TreeInner, TreeState};
use crate::table::{Expiring, ScanHint};
use crate::version::edit::{Edit, TableInfo, TreeId};
use crate::version::levels::Table;

/// The two parts of a tree: below a key, and from the key on.
#[derive(Debug, Clone, Default)]
struct Halves<T> {
    low: T,
    high: T,
}

/// The share of `count` entries that is in a part of `(part, whole)`, rounded up: it must not seem to be 0.
fn share_of(count: u64, (part, whole): (u64, u64)) -> u64 {
    (u128::from(count) * u128::from(part)).div_ceil(u128::from(whole.max(1))) as u64
}

/// The part `smallest..=largest` of a table, which is about `share` of it.
fn part_of(info: &TableInfo, share: (u64, u64), smallest: Vec<u8>, largest: Vec<u8>) -> TableInfo {
    let tombstones = share_of(info.tombstones, share);
    // Not 0 if it may have some: whether operands need times follows from it.
    let count = share_of(info.expiring.count, share).max(info.expiring.count.min(1));
    let expiring = Expiring { count, ..info.expiring };
    TableInfo {
        clipped: true,
        size: share_of(info.size, share).max(1),
        entries: share_of(info.entries, share).max(tombstones).max(expiring.count).max(1),
        tombstones,
        raw_bytes: share_of(info.raw_bytes, share),
        expiring,
        smallest,
        largest,
        ..info.clone()
    }
}

/// The parts of a table below `at` and from `at` on.
fn halves_of(table: &Table, at: &[u8]) -> Result<Halves<Option<TableInfo>>> {
    let info = &table.info;
    if info.largest.as_slice() < at {
        return Ok(Halves { low: Some(info.clone()), high: None });
    }
    if info.smallest.as_slice() >= at {
        return Ok(Halves { low: None, high: Some(info.clone()) });
    }
    let mut cursor = table.cursor(ScanHint::Scan)?;
    cursor.seek_before(at, MAX_SEQ)?;
    let last = cursor.valid().then(|| cursor.key().to_vec());
    cursor.seek(at, MAX_SEQ)?;
    let first = cursor.valid().then(|| cursor.key().to_vec());
    let begin = table.offset_of(&info.smallest)?;
    let whole = table.offset_of(&info.largest)?.saturating_sub(begin).max(1);
    let below = table.offset_of(at)?.saturating_sub(begin).min(whole);
    Ok(Halves {
        low: last.map(|last| part_of(info, (below, whole), info.smallest.clone(), last)),
        high: first.map(|first| part_of(info, (whole - below, whole), first, info.largest.clone())),
    })
}

/// The edits that divide the tables of one tree between two.
fn split_tables(state: &TreeState, (old, new): (TreeId, TreeId), at: &[u8]) -> Result<Vec<Edit>> {
    let mut edits = Vec::new();
    for (level, table) in state.levels.tables() {
        let Halves { low, high } = halves_of(table, at)?;
        let level = level as u8;
        if low.as_ref() != Some(&table.info) {
            edits.push(Edit::RemoveTable { tree: old, level, file: table.info.file });
            edits.extend(low.map(|table| Edit::AddTable { tree: old, level, table }));
        }
        edits.extend(high.map(|table| Edit::AddTable { tree: new, level, table }));
    }
    Ok(edits)
}

/// The edits that divide the range tombstones of one tree between two.
fn split_ranges(state: &TreeState, (old, new): (TreeId, TreeId), halves: &Halves<KeyRange>) -> Vec<Edit> {
    let mut edits = Vec::new();
    for RangeTombstone { range, seq } in state.ranges.list() {
        let (low, high) = (range.common(&halves.low), range.common(&halves.high));
        if low.as_ref() != Some(&range) {
            edits.push(Edit::ForgetRange { tree: old, seq });
            edits.extend(low.map(|range| Edit::DeleteRange { tree: old, seq, range }));
        }
        edits.extend(high.map(|range| Edit::DeleteRange { tree: new, seq, range }));
    }
    edits
}

/// A tree to split, at a key, and the name of the tree that gets its keys from there on.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SplitAt<'a> {
    pub(crate) tree: &'a Arc<TreeInner>,
    pub(crate) at: &'a [u8],
    pub(crate) name: &'a str,
}

impl SplitAt<'_> {
    fn halves(&self) -> Result<Halves<KeyRange>> {
        let (range, at) = (self.tree.state.load().key_bounds.range.clone(), self.at);
        let low = range.common(&KeyRange { lower: Vec::new(), upper: Some(at.to_vec()) });
        let high = range.common(&KeyRange { lower: at.to_vec(), upper: None });
        low.zip(high).map(|(low, high)| Halves { low, high }).ok_or_else(|| {
            let (at, name) = (at.escape_ascii(), &self.tree.name);
            Error::invalid(format!("\"{at}\" lies not within the bounds of the tree \"{name}\""))
        })
    }

    /// The edits of the split, which has the number `seq`. The new tree gets the number `to` and, if it is given, the
    /// group `group`.
    fn edits(&self, to: TreeId, group: Option<&str>, seq: SeqNo) -> Result<Vec<Edit>> {
        let (tree, halves) = (self.tree, self.halves()?);
        let state = tree.state.load_full();
        let (from, lineage) = (tree.id, tree.lineage);
        let table_edits = split_tables(&state, (from, to), &halves.high.lower)?;
        let range_edits = split_ranges(&state, (from, to), &halves);
        let tag = tree.tag.lock().clone();
        let time_us = tree.own_time.as_ref().map_or(0, |own| own.flushed());
        let mut options = tree.options();
        options.group = group.map(str::to_owned).or(options.group);
        let mut edits = vec![
            Edit::CreateTree { tree: to, name: self.name.to_owned(), options },
            Edit::KeyBounds { tree: to, lineage, range: halves.high },
            Edit::KeyBounds { tree: from, lineage, range: halves.low },
            // Both trees are entirely in tables.
            Edit::Flushed { tree: to, seq, time_us },
            Edit::Flushed { tree: from, seq, time_us },
        ];
        edits.extend(tag.map(|tag| Edit::SetTag { tree: to, tag }));
        edits.extend(tree.operand_times.are_noted().then_some(Edit::OperandTimes { tree: to }));
        edits.extend(table_edits);
        edits.extend(range_edits);
        Ok(edits)
    }
}

impl Reshaper {
    /// Moves the keys of a tree from a key on to a new tree.
    pub(crate) fn split(&self, split: SplitAt<'_>) -> Result<Arc<TreeInner>> {
        let _one_at_a_time = self.reshaping.lock();
        self.log.sync_published()?;
        let trees = std::slice::from_ref(split.tree);
        self.while_paused(trees, &|tree| !tree.is_flushed(), || {
            self.split_paused(&[split], None, &[])?;
            self.versions.lock().tree_called(split.name)
        })
    }

    /// Splits trees of the group `group`, all in one step. The new trees form the group `new`.
    pub(crate) fn split_group(
        &self,
        group: &str,
        new: &str,
        splits: &[SplitAt<'_>],
        tags: &[(&str, &str)],
    ) -> Result<()> {
        let _one_at_a_time = self.reshaping.lock();
        self.log.sync_published()?;
        let trees = Whole::Group(group).trees(&self.versions.lock())?;
        self.while_paused(&trees, &|tree| !tree.is_flushed(), || {
            let stranger = |split: &&SplitAt<'_>| !trees.iter().any(|tree| Arc::ptr_eq(tree, split.tree));
            if let Some(split) = splits.iter().find(stranger) {
                let name = &split.tree.name;
                return Err(Error::invalid(format!("the tree \"{name}\" is not in the group \"{group}\"")));
            }
            self.versions.lock().check_group_free(new)?;
            self.split_paused(splits, Some(new), tags)
        })
    }

    /// Splits trees that no thread writes to. Their new trees belong to `group` or, without one, to the groups of the
    /// old ones.
    fn split_paused(&self, splits: &[SplitAt<'_>], group: Option<&str>, tags: &[(&str, &str)]) -> Result<()> {
        // Values that writes have overwritten are looked up in the tree that was written to.
        self.finder.find_overwritten(self.log.commit().visible())?;
        let mut versions = self.versions.lock();
        self.log.check_changeable()?;
        for (place, split) in splits.iter().enumerate() {
            if split.tree.is_dropped() {
                return Err(split.tree.dropped_error());
            }
            versions.check_free(split.name)?;
            split.halves()?;
            let same = |other: &&SplitAt<'_>| other.name == split.name || Arc::ptr_eq(other.tree, split.tree);
            if splits[..place].iter().any(|other| same(&other)) {
                return Err(Error::invalid("a tree is split twice, or two new trees have one name"));
            }
        }
        let number = self.log.commit().take_number()?;
        let synced = self.log.sync_to(number.end);
        let split = synced.and_then(|()| self.install_splits(&mut versions, splits, group, tags, number.seq));
        self.log.commit().show_number(&number);
        split
    }

    fn install_splits(
        &self,
        versions: &mut Versions,
        splits: &[SplitAt<'_>],
        group: Option<&str>,
        tags: &[(&str, &str)],
        seq: SeqNo,
    ) -> Result<()> {
        let (mut edits, mut pairs) = (Vec::new(), Vec::new());
        for (to, split) in (versions.next_tree()..).zip(splits) {
            edits.extend(split.edits(to, group, seq)?);
            pairs.push((split.tree.id, to));
        }
        add_tags(&mut edits, versions, tags)?;
        let origin = Origin::SplitOff { pairs, seq };
        self.installer.apply(versions, &VersionEdit { origin, ..VersionEdit::of(edits) })?;
        self.installer.splits().fetch_add(1, Ordering::AcqRel);
        Ok(())
    }
}

#[cfg(test)]
mod tests;
