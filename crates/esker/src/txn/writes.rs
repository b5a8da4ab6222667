//! What a transaction is going to write: in memory, sorted, until it commits; and how to undo some of it.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::error::{Error, ErrorKind, Result};
use crate::tree::Tree;
use crate::version::edit::TreeId;
use crate::write::batch::Batch;

/// What becomes of a key: its new value, or `None` where it becomes absent.
pub(super) type Change = Option<Arc<[u8]>>;

/// One tree's changes. Shared with scans, which go on with what they began with.
pub(super) type Changes = Arc<BTreeMap<Vec<u8>, Change>>;

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
struct Undo {
    tree: TreeId,
    key: Vec<u8>,
    /// `None`: the transaction had not written the key.
    before: Option<Change>,
}

impl WriteSet {
    pub(super) fn is_empty(&self) -> bool {
        self.trees.values().all(|(_, changes)| changes.is_empty())
    }

    /// What the transaction has made of `key`, if it wrote it.
    pub(super) fn get(&self, tree: TreeId, key: &[u8]) -> Option<&Change> {
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
        let before = Arc::make_mut(changes).insert(key.to_vec(), change);
        if !self.savepoints.is_empty() {
            self.undo.push(Undo { tree: id, key: key.to_vec(), before });
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
        for Undo { tree, key, before } in self.undo.drain(len..).rev() {
            if let Some((_, changes)) = self.trees.get_mut(&tree) {
                let changes = Arc::make_mut(changes);
                match before {
                    Some(change) => changes.insert(key, change),
                    None => changes.remove(&key),
                };
            }
        }
        Ok(())
    }

    pub(super) fn to_batch(&self) -> Result<Batch> {
        let mut batch = Batch::new();
        for (tree, changes) in self.trees() {
            for (key, change) in changes.iter() {
                match change {
                    Some(value) => batch.put(tree, key, value)?,
                    None => batch.delete(tree, key)?,
                }
            }
        }
        Ok(batch)
    }
}
