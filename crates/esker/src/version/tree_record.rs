//! The manifest's record of a tree, apart from its tables.

use std::collections::BTreeMap;

use super::edit::TreeId;
use crate::cursor::SeqNo;
use crate::options::TreeOptions;
use crate::ranges::{KeyRange, RangeTombstone};

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TreeRecord {
    pub(crate) name: String,
    pub(crate) options: TreeOptions,
    pub(crate) tag: Option<String>,
    pub(crate) flushed: SeqNo,
    /// The greatest time that flushed writes have carried, in microseconds since 1970; 0 if they carried none.
    pub(crate) time_us: u64,
    /// The tree number under which its huge values are filed. A tree that was split off or imported took one over.
    pub(crate) lineage: TreeId,
    pub(crate) range: KeyRange,
    pub(crate) deleted_ranges: BTreeMap<SeqNo, KeyRange>,
    /// Whether operands have the times at which they were written.
    pub(crate) operand_times: bool,
}

impl TreeRecord {
    pub(super) fn new(tree: TreeId, name: &str, options: &TreeOptions) -> Self {
        let (name, options, deleted_ranges) = (name.to_owned(), options.clone(), BTreeMap::new());
        let (lineage, range) = (tree, KeyRange::default());
        TreeRecord {
            name,
            options,
            tag: None,
            flushed: 0,
            time_us: 0,
            lineage,
            range,
            deleted_ranges,
            operand_times: false,
        }
    }

    /// Its range tombstones, by sequence number.
    pub(crate) fn ranges(&self) -> impl Iterator<Item = RangeTombstone> {
        self.deleted_ranges.iter().map(|(&seq, range)| RangeTombstone { range: range.clone(), seq })
    }

    /// Adds a range tombstone. If it is invalid, returns the reason.
    pub(super) fn delete_range(&mut self, seq: SeqNo, range: &KeyRange) -> Result<(), String> {
        if seq > self.flushed {
            return Err(format!("the range deletion {seq} of tree \"{}\" is not flushed", self.name));
        }
        match self.deleted_ranges.insert(seq, range.clone()) {
            Some(_) => Err(format!("tree \"{}\" has two range deletions with the number {seq}", self.name)),
            None => Ok(()),
        }
    }

    pub(super) fn forget_range(&mut self, seq: SeqNo) -> Result<(), String> {
        let missing = || format!("tree \"{}\" has no range deletion {seq} to forget", self.name);
        self.deleted_ranges.remove(&seq).map(drop).ok_or_else(missing)
    }
}
