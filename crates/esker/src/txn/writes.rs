//! What a transaction is going to write: in memory, sorted, until it commits; and how to undo some of it.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use crate::cursor::Expiry;
use crate::error::{Error, ErrorKind, Result};
use crate::ranges::KeyRange;
use crate::tree::Tree;
use crate::version::edit::TreeId;
use crate::write::batch::Batch;

/// What becomes of a key: its new value, and when that ends, or `None` where it becomes absent.
pub(super) type Change = Option<(Arc<[u8]>, Option<Expiry>)>;

/// One tree's changes. Shared with scans, which go on with what they began with.
#[derive(Debug, Clone, Default)]
pub(super) struct Changes {
    pub(super) keys: Arc<BTreeMap<Vec<u8>, Change>>,
    /// Ranges that were deleted before any of `keys` was changed, but for the deletes among these.
    deleted: Arc<Vec<KeyRange>>,
}

impl Changes {
    fn is_empty(&self) -> bool {
        self.keys.is_empty() && self.deleted.is_empty()
    }

    /// What has become of `key`, if anything has.
    pub(super) fn get(&self, key: &[u8]) -> Option<Change> {
        self.keys.get(key).cloned().or_else(|| self.deletes(key).then_some(None))
    }

    /// Whether `key` lies in a range that was deleted. It may have been put since.
    pub(super) fn deletes(&self, key: &[u8]) -> bool {
        self.deleted.iter().any(|range| range.contains(key))
    }
}

/// A point within a transaction to go back to: [`Txn::savepoint`](crate::Txn::savepoint).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Savepoint {
    pub(super) txn: u64,
    number: u64,
}

#[derive(Debug, Default)]
pub(super) struct WriteSet {
    trees: BTreeMap<TreeId, (Tree, Changes)>,
    /// What to put back, oldest first, since the first savepoint.
    undo: Vec<Undo>,
    /// The savepoints that are left, oldest first: number, and length of `undo` then.
    savepoints: Vec<(u64, usize)>,
    last_savepoint: u64,
}

#[derive(Debug)]
enum Undo {
    Key {
        tree: TreeId,
        key: Vec<u8>,
        /// `None`: the transaction had not written the key.
        before: Option<Change>,
    },
    /// The range that was deleted last.
    Range { tree: TreeId },
}

impl WriteSet {
    pub(super) fn is_empty(&self) -> bool {
        self.trees.values().all(|(_, changes)| changes.is_empty())
    }

    /// What the transaction has made of `key`, if it wrote it.
    pub(super) fn get(&self, tree: TreeId, key: &[u8]) -> Option<Change> {
        self.trees.get(&tree)?.1.get(key)
    }

    pub(super) fn changes(&self, tree: TreeId) -> Option<&Changes> {
        self.trees.get(&tree).map(|(_, changes)| changes)
    }

    pub(super) fn trees(&self) -> impl Iterator<Item = (&Tree, &Changes)> {
        self.trees.values().map(|(tree, changes)| (tree, changes))
    }

    pub(super) fn set(&mut self, tree: &Tree, key: &[u8], change: Change) {
        let id = tree.inner().id;
        let (_, changes) = self.trees.entry(id).or_insert_with(|| (tree.clone(), Changes::default()));
        let before = Arc::make_mut(&mut changes.keys).insert(key.to_vec(), change);
        if !self.savepoints.is_empty() {
            self.undo.push(Undo::Key { tree: id, key: key.to_vec(), before });
        }
    }

    pub(super) fn delete_range(&mut self, tree: &Tree, range: KeyRange) {
        let own = self.changes(tree.inner().id).map(|changes| Arc::clone(&changes.keys)).unwrap_or_default();
        let within = own.range::<[u8], _>((Bound::Included(range.lower.as_slice()), Bound::Unbounded));
        for (key, _) in
            within.take_while(|(key, _)| range.contains(key)).filter(|(_, change)| change.is_some())
        {
            self.set(tree, key, None);
        }
        let id = tree.inner().id;
        let (_, changes) = self.trees.entry(id).or_insert_with(|| (tree.clone(), Changes::default()));
        Arc::make_mut(&mut changes.deleted).push(range);
        if !self.savepoints.is_empty() {
            self.undo.push(Undo::Range { tree: id });
        }
    }

    pub(super) fn savepoint(&mut self, txn: u64) -> Savepoint {
        self.last_savepoint += 1;
        self.savepoints.push((self.last_savepoint, self.undo.len()));
        Savepoint { txn, number: self.last_savepoint }
    }

    /// Undoes what came after the savepoint, which stays; later ones go.
    pub(super) fn rollback_to(&mut self, savepoint: Savepoint) -> Result<()> {
        let Some(at) = self.savepoints.iter().position(|&(number, _)| number == savepoint.number) else {
            let message = "the transaction was rolled back to an earlier savepoint since this one was taken";
            return Err(Error::new(ErrorKind::InvalidInput, message));
        };
        self.savepoints.truncate(at + 1);
        let len = self.savepoints[at].1;
        for undo in self.undo.drain(len..).rev() {
            let (Undo::Key { tree, .. } | Undo::Range { tree }) = &undo;
            let Some((_, changes)) = self.trees.get_mut(tree) else { continue };
            match undo {
                Undo::Range { .. } => drop(Arc::make_mut(&mut changes.deleted).pop()),
                Undo::Key { key, before: Some(change), .. } => {
                    Arc::make_mut(&mut changes.keys).insert(key, change);
                }
                Undo::Key { key, before: None, .. } => drop(Arc::make_mut(&mut changes.keys).remove(&key)),
            }
        }
        Ok(())
    }

    pub(super) fn to_batch(&self) -> Result<Batch> {
        let mut batch = Batch::new();
        for (tree, changes) in self.trees() {
            for range in changes.deleted.iter() {
                batch.add_range(tree.inner(), range)?;
            }
            for (key, change) in changes.keys.iter() {
                match change {
                    Some((value, expiry)) => batch.put_until(tree, key, value, *expiry)?,
                    None => batch.delete(tree, key)?,
                }
            }
        }
        Ok(batch)
    }
}
