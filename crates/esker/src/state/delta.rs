//! The effect of a change's edits on one tree.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{Mem, TreeInner};
use crate::cursor::SeqNo;
use crate::options::TreeOptions;
use crate::ranges::{KeyRange, RangeTombstone, RangeTombstones};
use crate::version::edit::{Edit, FileId, TableInfo, TreeId};
use crate::version::table_info::Due;

#[derive(Debug, Default)]
pub(super) struct Delta<'a> {
    /// Its name and options, where it is new.
    pub(super) created: Option<(&'a str, &'a TreeOptions)>,
    pub(super) is_dropped: bool,
    pub(super) options: Option<&'a TreeOptions>,
    pub(super) tag: Option<&'a str>,
    /// Its operands have times.
    pub(super) operand_times: bool,
    /// The tree number that its huge values are stored under, and its range of keys.
    pub(super) key_bounds: Option<(TreeId, &'a KeyRange)>,
    /// Tables with their levels. Removed ones go before added ones come.
    pub(super) removed: Vec<(usize, FileId)>,
    pub(super) added: Vec<(usize, &'a TableInfo)>,
    /// Range tombstones, by sequence number. Forgotten ones go before new ones come.
    forgotten: Vec<SeqNo>,
    deleted: Vec<(SeqNo, &'a KeyRange)>,
    /// All writes up to the first number are in tables, and carried times up to the second. `flushed` are the memtables
    /// that were written to them.
    pub(super) flushed_up_to: Option<(SeqNo, u64)>,
    pub(super) flushed: &'a [Arc<Mem>],
}

impl<'a> Delta<'a> {
    /// One delta for each tree that `edits` change.
    pub(super) fn of(
        edits: &'a [Edit],
        flushed: &'a [(Arc<TreeInner>, Vec<Arc<Mem>>)],
    ) -> BTreeMap<TreeId, Delta<'a>> {
        let mut deltas: BTreeMap<TreeId, Delta<'a>> = BTreeMap::new();
        for edit in edits {
            if let Some(tree) = edit.tree() {
                deltas.entry(tree).or_default().add(edit);
            }
        }
        for (tree, mems) in flushed {
            deltas.entry(tree.id).or_default().flushed = mems;
        }
        deltas
    }

    fn add(&mut self, edit: &'a Edit) {
        match edit {
            Edit::CreateTree { name, options, .. } => self.created = Some((name, options)),
            Edit::DropTree { .. } => self.is_dropped = true,
            Edit::SetTag { tag, .. } => self.tag = Some(tag),
            Edit::SetOptions { options, .. } => self.options = Some(options),
            Edit::OperandTimes { .. } => self.operand_times = true,
            Edit::AddTable { level, table, .. } => self.added.push((usize::from(*level), table)),
            Edit::RemoveTable { level, file, .. } => self.removed.push((usize::from(*level), *file)),
            Edit::Flushed { seq, time_us, .. } => self.flushed_up_to = Some((*seq, *time_us)),
            Edit::DeleteRange { seq, range, .. } => self.deleted.push((*seq, range)),
            Edit::ForgetRange { seq, .. } => self.forgotten.push(*seq),
            Edit::KeyBounds { lineage, range, .. } => self.key_bounds = Some((*lineage, range)),
            Edit::Floor(_)
            | Edit::LogSynced { .. }
            | Edit::Counters { .. }
            | Edit::Blob(_)
            | Edit::Clock(_)
            | Edit::Identity { .. } => {}
        }
    }

    /// Whether new tables have values that expire.
    pub(super) fn brings_expiring(&self) -> bool {
        self.added.iter().any(|(_, table)| table.expiring.count > 0)
    }

    pub(super) fn has_tables(&self) -> bool {
        !self.added.is_empty() || !self.removed.is_empty()
    }

    /// Whether the tree may need a merge that it did not need before.
    pub(super) fn may_want_merge(&self) -> bool {
        self.has_tables() || self.flushed_up_to.is_some() || self.options.is_some()
    }

    /// When the first of the new tables is due for a merge because pairs in it expire, or because the tree's rule wants
    /// to see it.
    pub(super) fn due(&self) -> Due {
        // A thread that looks at that time finds out whether the tree's rule is registered.
        Due::first(self.added.iter().map(|(_, table)| table.due(true)))
    }

    /// Whether the delta adds range tombstones to `now`, or takes some away. Tombstones that a flush writes to the
    /// manifest are in memory already: writers have added them.
    pub(super) fn changes_ranges(&self, now: &RangeTombstones) -> bool {
        let adds = |list: &[RangeTombstone]| self.deleted.iter().any(|(seq, _)| !has(list, *seq));
        !self.forgotten.is_empty() || (!self.deleted.is_empty() && adds(&now.list()))
    }

    /// The range tombstones after the delta is applied to `now`; `None` if they stay the same.
    pub(super) fn ranges_after(&self, now: &RangeTombstones) -> Option<RangeTombstones> {
        if !self.changes_ranges(now) {
            return None;
        }
        let mut list = now.list();
        list.retain(|one| !self.forgotten.contains(&one.seq));
        let new = self.deleted.iter().filter(|(seq, _)| !has(&list, *seq));
        let new: Vec<RangeTombstone> =
            new.map(|&(seq, range)| RangeTombstone { range: range.clone(), seq }).collect();
        list.extend(new);
        list.sort_by_key(|one| one.seq);
        Some(RangeTombstones::new(list))
    }
}

/// Whether `list`, which is sorted by sequence number, has the range tombstone `seq`.
fn has(list: &[RangeTombstone], seq: SeqNo) -> bool {
    list.binary_search_by_key(&seq, |one| one.seq).is_ok()
}
