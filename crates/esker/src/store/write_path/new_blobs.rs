//! Writes huge values into the store, and finds the writes that may overwrite one.

use std::sync::Arc;

use super::WritePath;
use crate::blob::{NewBlob, Pointer, key_hash};
use crate::canary::broken;
use crate::cursor::{Content, Kind, SeqNo};
use crate::error::{Error, ErrorKind, Result};
use crate::ranges::KeyRange;
use crate::value::Value;
use crate::version::edit::TreeId;
use crate::write::batch::{Batch, Op};
use crate::write::lookups::{Lookup, What};

impl WritePath {
    /// Writes `value` to a blob file, for `key` of a tree with the lineage `tree`.
    pub(crate) fn put_blob(&self, tree: TreeId, key: &[u8], value: &[u8]) -> Result<NewBlob> {
        self.make_room_for_blob(value.len() as u64)?;
        self.core.blobs.put(tree, key, value)
    }

    /// Waits for space that is being given back. Refuses a huge value if there is still no room for it.
    pub(crate) fn make_room_for_blob(&self, len: u64) -> Result<()> {
        self.disk.ensure_writable()?;
        self.collector.wait_for_backlog(len)?;
        self.disk.check_room_for_blob(len)
    }

    /// A copy of `batch` with copies of its huge values, to write the batch once more.
    pub(super) fn copy_of_batch(&self, batch: &Batch) -> Result<Batch> {
        let mut copy = Batch::new();
        for (part, _, op) in batch.planned_ops() {
            let tree = &batch.parts()[part].tree;
            let entry = Content::open(op.kind, op.value);
            match Pointer::of_entry(op.kind, op.value) {
                Some(pointer) => {
                    let gone = || Error::new(ErrorKind::InvalidInput, "a huge value of the batch is gone");
                    let pin = batch.pin_of(&pointer).ok_or_else(gone)?;
                    let value = Value::of_pin(pin, pointer).into_vec()?;
                    copy.add_blob(tree, op.key, self.put_blob(tree.lineage, op.key, &value)?, entry.expiry)?;
                }
                None if op.kind == Kind::DeleteRange => {
                    KeyRange::decode(op.key, op.value)
                        .map_or(Ok(()), |range| copy.add_range(tree, &range))?;
                }
                None => copy.add_until(tree, entry.kind, entry.expiry, op.key, entry.value)?,
            }
        }
        Ok(copy)
    }

    /// The writes of `batch` to keys that may hold a blob, numbered by their places in it.
    pub(super) fn lookups_of(&self, batch: &Batch) -> Vec<Lookup> {
        let filter = &self.core.blobs.filter;
        if filter.is_empty() {
            return Vec::new();
        }
        let ops = (0..).zip(batch.planned_ops());
        // A value that operands are merged into stays.
        let overwriting = ops.filter(|(_, (_, _, op))| op.kind != Kind::Merge || broken("merge-ends"));
        let lineage = |part: usize| batch.parts()[part].tree.lineage;
        let watched =
            overwriting.filter(|(_, (part, _, op))| filter.may_contain(key_hash(lineage(*part), op.key)));
        let tree = |part: usize| Arc::clone(&batch.parts()[part].tree);
        let lookup = |(place, (part, _, op)): (SeqNo, (usize, u8, Op<'_>))| Lookup {
            tree: tree(part),
            what: What::Key(op.key.to_vec()),
            seq: place,
        };
        let of_range =
            |(place, part, range)| Lookup { tree: tree(part), what: What::Range(range), seq: place };
        let mut lookups: Vec<Lookup> = watched.map(lookup).chain(batch.ranges().map(of_range)).collect();
        lookups.sort_by_key(|lookup| lookup.seq);
        lookups
    }

    /// Adds an entry, that of `key` in a tree with the lineage `tree`, to the huge value of `pointer`. `None` if the
    /// value was freed, because the entry that had the pointer is gone.
    pub(crate) fn copy_blob(&self, tree: TreeId, key: &[u8], pointer: &Pointer) -> Result<Option<NewBlob>> {
        self.disk.ensure_writable()?;
        Ok(self.core.blobs.add_reference(tree, key, pointer))
    }
}
