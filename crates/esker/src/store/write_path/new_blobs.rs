//! Writes huge values into the store, and finds the writes that may overwrite one.

use std::sync::Arc;

use super::WritePath;
use crate::blob::{NewBlob, Pointer, key_hash};
use crate::canary::broken;
use crate::cursor::{Kind, SeqNo};
use crate::error::{Error, ErrorKind, Result};
use crate::state::TreeInner;
use crate::version::edit::TreeId;
use crate::write::batch::{Batch, HugeValue, Op, OpPlan, Separated};
use crate::write::lookups::{Lookup, What};

fn missing(pointer: &Pointer) -> Error {
    let message = format!("a value that was stored for a later write is missing: {pointer:?}");
    Error::new(ErrorKind::Corruption, message)
}

fn not_attached(id: &[u8]) -> Error {
    let id = id.escape_ascii();
    let message =
        format!("the batch still awaits the huge value \"{id}\": stage it, and attach it to the batch");
    Error::new(ErrorKind::InvalidInput, message)
}

impl WritePath {
    /// Writes `value` to a blob file, for `key` of `tree`.
    pub(crate) fn put_blob(&self, tree: &TreeInner, key: &[u8], value: &[u8]) -> Result<NewBlob> {
        self.make_room_for_blob(value.len() as u64)?;
        self.core.blobs.put(tree.blob_owner(), tree.lineage, key, value)
    }

    /// Waits until space that is being given back is free. Refuses a huge value if there is still no room for it.
    pub(crate) fn make_room_for_blob(&self, len: u64) -> Result<()> {
        self.disk.ensure_writable()?;
        self.collector.wait_for_backlog(len)?;
        self.disk.check_room_for_blob(len)
    }

    /// Writes the huge values of `batch` to blob files, and adds references to stored ones. Returns the batch with
    /// pointers to them.
    pub(super) fn separate(&self, batch: &Batch) -> Result<(Batch, Vec<NewBlob>)> {
        let (mut blobs, mut small) = (Vec::new(), Vec::new());
        for (tree, key, value) in batch.huge() {
            let (value, is_staged) = match value {
                HugeValue::Staged(staged) => (&staged.value, true),
                value => (value, false),
            };
            let blob = match value {
                HugeValue::Bytes(bytes) => {
                    let bytes = (**bytes).as_ref();
                    if is_staged && bytes.len() < self.core.options.separate_at.max(1) {
                        small.push(Some(bytes));
                        continue;
                    }
                    self.put_blob(tree, key, bytes)?
                }
                HugeValue::Stored(stored) => {
                    self.copy_blob(tree.lineage, key, &stored.pointer).ok_or_else(|| {
                        // Only the drop of its tree frees a value that a handle keeps.
                        if tree.is_dropped() { tree.dropped_error() } else { missing(&stored.pointer) }
                    })?
                }
                HugeValue::Awaited(awaited) => return Err(not_attached(&awaited.id)),
                HugeValue::Staged(staged) => return Err(not_attached(&staged.id)),
            };
            blobs.push(blob);
            small.push(None);
        }
        let mut pointers = blobs.iter().map(|blob| &blob.pointer);
        let values = small.into_iter().filter_map(|small| match small {
            Some(bytes) => Some(Separated::Small(bytes)),
            None => pointers.next().map(Separated::Blob),
        });
        Ok((batch.separated(values)?, blobs))
    }

    /// The writes of `batch` to keys that may hold a blob, numbered by their places in it.
    pub(super) fn lookups_of(&self, batch: &Batch) -> Vec<Lookup> {
        let filter = &self.core.blobs.filter;
        if filter.is_empty() {
            return Vec::new();
        }
        let ops = (0..).zip(batch.planned_ops()).filter(|(_, (_, op))| op.kind != Kind::Time);
        // A value that operands are merged into stays.
        let overwriting = ops.filter(|(_, (_, op))| op.kind != Kind::Merge || broken("merge-ends"));
        let lineage = |part: usize| batch.parts()[part].tree.lineage;
        let watched =
            overwriting.filter(|(_, (plan, op))| filter.may_contain(key_hash(lineage(plan.part()), op.key)));
        let tree = |part: usize| Arc::clone(&batch.parts()[part].tree);
        let lookup = |(place, (plan, op)): (SeqNo, (OpPlan, Op<'_>))| Lookup {
            tree: tree(plan.part()),
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
    ///
    /// A full disk does not matter here, because no byte is written. It refuses the write of the entry, unless that
    /// frees space.
    pub(crate) fn copy_blob(&self, tree: TreeId, key: &[u8], pointer: &Pointer) -> Option<NewBlob> {
        self.core.blobs.add_reference(tree, key, pointer)
    }
}
