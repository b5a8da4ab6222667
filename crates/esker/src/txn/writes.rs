//! What a transaction is going to write: in memory, sorted, until it commits; and how to undo some of it.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;

use crate::cursor::{Expiry, Kind};
use crate::error::{Error, ErrorKind, Result};
use crate::operators::MergeOperators;
use crate::ranges::KeyRange;
use crate::tree::Tree;
use crate::value::Value;
use crate::version::edit::TreeId;
use crate::write::batch::Batch;

/// What a key has before anything is merged into it.
#[derive(Debug, Clone)]
enum Base {
    /// Whatever the store has when the transaction takes effect.
    Store,
    Absent,
    /// A value, and when that ends.
    Value(Arc<[u8]>, Option<Expiry>),
}

/// What becomes of a key.
#[derive(Debug, Clone)]
pub(super) struct Change {
    base: Base,
    /// What is merged into that, as it is stored, oldest first.
    operands: Vec<Arc<[u8]>>,
}

impl Change {
    /// The key becomes absent.
    pub(super) const DELETE: Change = Change { base: Base::Absent, operands: Vec::new() };

    pub(super) fn put(value: &[u8], expiry: Option<Expiry>) -> Change {
        Change { base: Base::Value(value.into(), expiry), operands: Vec::new() }
    }

    pub(super) fn is_delete(&self) -> bool {
        matches!(self.base, Base::Absent) && self.operands.is_empty()
    }

    /// Whether what the key has depends on what the store has.
    pub(super) fn is_on_store(&self) -> bool {
        matches!(self.base, Base::Store)
    }

    /// Neighbours become one where the operator can do that, each time that as much has come as lies before it: what is
    /// counted often is one operand, and of many that are appended some are left, each copied a few times.
    fn merge(&mut self, operand: Vec<u8>, operators: &MergeOperators) {
        self.operands.push(operand.into());
        while let [.., before, last] = self.operands.as_slice()
            && before.len() <= last.len()
        {
            let two = operators.combine(&[(0, last.to_vec()), (0, before.to_vec())]);
            let [(_, both)] = two.as_slice() else { return };
            let both = Arc::from(both.as_slice());
            self.operands.truncate(self.operands.len() - 2);
            self.operands.push(both);
        }
    }

    /// The value that was put, and when that ends, if nothing was merged into it.
    pub(super) fn put_value(&self) -> Option<(&[u8], Option<Expiry>)> {
        match &self.base {
            Base::Value(value, expiry) if self.operands.is_empty() => Some((value, *expiry)),
            _ => None,
        }
    }

    /// What was merged makes of `key`, where the store has `stored`; `None` if nothing was.
    pub(super) fn merged(
        &self,
        key: &[u8],
        stored: Option<&[u8]>,
        operators: &MergeOperators,
    ) -> Result<Option<Vec<u8>>> {
        if self.operands.is_empty() {
            return Ok(None);
        }
        let below = match &self.base {
            Base::Store => stored,
            Base::Absent => None,
            Base::Value(value, _) => Some(&**value),
        };
        let newest_first: Vec<&Arc<[u8]>> = self.operands.iter().rev().collect();
        operators.apply(key, below, &newest_first).map(Some)
    }

    /// What `key` has, where the store has `stored`.
    pub(super) fn value(
        &self,
        key: &[u8],
        stored: Option<&[u8]>,
        operators: &MergeOperators,
    ) -> Result<Option<Value>> {
        if let Some(merged) = self.merged(key, stored, operators)? {
            return Ok(Some(Value::of_bytes(&merged)));
        }
        Ok(self.put_value().map(|(value, expiry)| Value::of_bytes(value).expiring(expiry)))
    }

    fn add_to(&self, batch: &mut Batch, tree: &Tree, key: &[u8]) -> Result<()> {
        match &self.base {
            Base::Store => {}
            Base::Absent => batch.delete(tree, key)?,
            Base::Value(value, expiry) => batch.put_until(tree, key, value, *expiry)?,
        }
        self.operands.iter().try_for_each(|operand| batch.add(tree.inner(), Kind::Merge, key, operand))
    }
}

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
        self.keys.get(key).cloned().or_else(|| self.deletes(key).then_some(Change::DELETE))
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
    /// The keys that `undo` knows since the last savepoint: it needs to know each once.
    noted: BTreeSet<(TreeId, Vec<u8>)>,
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
        if !self.savepoints.is_empty() && self.noted.insert((id, key.to_vec())) {
            self.undo.push(Undo::Key { tree: id, key: key.to_vec(), before });
        }
    }

    /// Has an operator change what `key` has; `operand` names it.
    pub(super) fn merge(&mut self, tree: &Tree, key: &[u8], operand: Vec<u8>, operators: &MergeOperators) {
        let id = tree.inner().id;
        let (_, changes) = self.trees.entry(id).or_insert_with(|| (tree.clone(), Changes::default()));
        let base = if changes.deletes(key) { Base::Absent } else { Base::Store };
        let undone = !self.savepoints.is_empty() && self.noted.insert((id, key.to_vec()));
        let before = changes.keys.get(key).filter(|_| undone).cloned();
        let change = Arc::make_mut(&mut changes.keys).entry(key.to_vec());
        change.or_insert(Change { base, operands: Vec::new() }).merge(operand, operators);
        if undone {
            self.undo.push(Undo::Key { tree: id, key: key.to_vec(), before });
        }
    }

    pub(super) fn delete_range(&mut self, tree: &Tree, range: KeyRange) {
        let own = self.changes(tree.inner().id).map(|changes| Arc::clone(&changes.keys)).unwrap_or_default();
        let within = own.range::<[u8], _>((Bound::Included(range.lower.as_slice()), Bound::Unbounded));
        for (key, _) in
            within.take_while(|(key, _)| range.contains(key)).filter(|(_, change)| !change.is_delete())
        {
            self.set(tree, key, Change::DELETE);
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
        self.noted.clear();
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
        self.noted.clear();
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
                change.add_to(&mut batch, tree, key)?;
            }
        }
        Ok(batch)
    }
}
