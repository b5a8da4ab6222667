//! The write set of a transaction: in memory and sorted until it commits. Parts of it can be undone.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::cursor::{Expiry, Kind};
use crate::error::{Error, Result};
use crate::operators::{Below, MergeOperators};
use crate::ranges::KeyRange;
use crate::tree::Tree;
use crate::value::{PutOptions, Value};
use crate::version::edit::TreeId;
use crate::write::batch::Batch;

/// The value of a key before anything is merged into it.
#[derive(Debug, Clone)]
enum Base {
    /// The store's value when the transaction takes effect.
    Store,
    Absent,
    /// A value, with its expiry and attributes.
    Value(Arc<[u8]>, PutOptions),
    /// A huge value of the store, which is not copied, with the expiry and attributes for this key.
    Stored(Value, PutOptions),
}

#[derive(Debug, Clone)]
pub(super) struct KeyChange {
    base: Base,
    /// The operands merged into the base, as stored, oldest first.
    operands: Vec<Arc<[u8]>>,
}

impl KeyChange {
    /// The key is deleted.
    pub(super) const DELETE: KeyChange = KeyChange { base: Base::Absent, operands: Vec::new() };

    /// The attributes of `options` have been checked.
    pub(super) fn put(value: &[u8], options: PutOptions) -> KeyChange {
        KeyChange { base: Base::Value(value.into(), options), operands: Vec::new() }
    }

    /// The key gets a value that was read in the same tree. The attributes of `options` have been checked.
    pub(super) fn of_value(value: Value, options: PutOptions) -> Result<KeyChange> {
        if value.pointer().is_some() {
            return Ok(KeyChange { base: Base::Stored(value, options), operands: Vec::new() });
        }
        Ok(KeyChange::put(&value.into_vec()?, options))
    }

    pub(super) fn is_delete(&self) -> bool {
        matches!(self.base, Base::Absent) && self.operands.is_empty()
    }

    /// Whether the key's value depends on the store's.
    pub(super) fn is_on_store(&self) -> bool {
        matches!(self.base, Base::Store)
    }

    /// Adds an operand. Neighbours are combined, if the operator can, whenever the later one is at least as long as the
    /// one before it. Therefore a counter has one operand. Of many appended operands a few are left, and each byte was
    /// copied a few times.
    fn merge(&mut self, operand: Vec<u8>, operators: &MergeOperators) {
        self.operands.push(operand.into());
        while let [.., before, last] = self.operands.as_slice()
            && before.len() <= last.len()
        {
            // They get one time when the transaction commits.
            let two = operators.combine(&[(0, last.to_vec()), (0, before.to_vec())], Below::Lasts);
            let [(_, both)] = two.as_slice() else { return };
            let both = Arc::from(both.as_slice());
            self.operands.truncate(self.operands.len() - 2);
            self.operands.push(both);
        }
    }

    /// The value that was put, with its expiry and attributes, if nothing was merged into it.
    pub(super) fn put_value(&self) -> Option<Value> {
        match &self.base {
            _ if !self.operands.is_empty() => None,
            Base::Value(value, options) => Some(Value::of_bytes(value).beside(options.beside())),
            Base::Stored(value, options) => Some(value.clone().beside(options.beside())),
            Base::Store | Base::Absent => None,
        }
    }

    /// The bytes of [`KeyChange::put_value`], if they are in memory.
    pub(super) fn put_bytes(&self) -> Option<&[u8]> {
        match &self.base {
            Base::Value(value, _) if self.operands.is_empty() => Some(value),
            _ => None,
        }
    }

    /// The result of merging the operands into the value of `key`, where the store has `stored`; `None` if the change
    /// has no operands.
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
            Base::Store => stored.map(Cow::Borrowed),
            Base::Absent => None,
            Base::Value(value, _) => Some(Cow::Borrowed(&**value)),
            Base::Stored(value, _) => Some(value.bytes()?),
        };
        let newest_first: Vec<&Arc<[u8]>> = self.operands.iter().rev().collect();
        operators.apply(key, below.as_deref(), &newest_first).map(Some)
    }

    /// When the result of the operands expires, where the store's value expires at `stored`.
    pub(super) fn merged_expiry(&self, stored: Option<Expiry>) -> Option<Expiry> {
        match &self.base {
            Base::Store => stored,
            Base::Absent => None,
            Base::Value(_, options) | Base::Stored(_, options) => options.beside().parts().0,
        }
    }

    /// The value of `key`, where the store has `stored`.
    pub(super) fn value(
        &self,
        key: &[u8],
        stored: Option<Value>,
        operators: &MergeOperators,
    ) -> Result<Option<Value>> {
        let expiry = self.merged_expiry(stored.as_ref().and_then(Value::expires_us));
        let stored = stored.map(Value::into_vec).transpose()?;
        if let Some(merged) = self.merged(key, stored.as_deref(), operators)? {
            return Ok(Some(Value::of_bytes(&merged).beside(expiry.into())));
        }
        Ok(self.put_value())
    }

    fn add_to(&self, batch: &mut Batch, tree: &Tree, key: &[u8]) -> Result<()> {
        match &self.base {
            Base::Store => {}
            Base::Absent => batch.delete(tree, key)?,
            Base::Value(value, options) => {
                batch.put_owned_beside(tree, key, Arc::clone(value), options.beside())?;
            }
            Base::Stored(value, options) => batch.put_again(tree, key, value, options.beside())?,
        }
        self.operands.iter().try_for_each(|operand| {
            batch.add(tree.inner(), Kind::Merge, key, operand)?;
            batch.happen_at(tree.inner(), tree.given_us());
            Ok(())
        })
    }
}

/// The changes of one tree. Scans share them, and continue with the state that they began with.
#[derive(Debug, Clone, Default)]
pub(super) struct Changes {
    pub(super) keys: Arc<BTreeMap<Vec<u8>, KeyChange>>,
    /// Ranges that were deleted. Changes in `keys` came later, except the deletes among them.
    deleted: Arc<Vec<KeyRange>>,
}

impl Changes {
    fn is_empty(&self) -> bool {
        self.keys.is_empty() && self.deleted.is_empty()
    }

    pub(super) fn get(&self, key: &[u8]) -> Option<KeyChange> {
        self.keys.get(key).cloned().or_else(|| self.deletes(key).then_some(KeyChange::DELETE))
    }

    /// Whether `key` is in a deleted range. It may have been put since.
    pub(super) fn deletes(&self, key: &[u8]) -> bool {
        self.deleted.iter().any(|range| range.contains(key))
    }
}

/// A point within a transaction to return to: [`Txn::savepoint`](crate::Txn::savepoint).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Savepoint {
    pub(super) txn: u64,
    number: u64,
}

#[derive(Debug, Default)]
pub(super) struct WriteSet {
    trees: BTreeMap<TreeId, (Tree, Changes)>,
    /// The greatest times that handles which were written to were given.
    times: BTreeMap<TreeId, u64>,
    /// The states to restore, oldest first, since the first savepoint.
    undo: Vec<Undo>,
    /// The keys that `undo` already covers since the last savepoint; it needs each key once.
    noted: BTreeSet<(TreeId, Vec<u8>)>,
    /// The remaining savepoints, oldest first: number, and at that time the length of `undo`, and `times`.
    savepoints: Vec<(u64, usize, BTreeMap<TreeId, u64>)>,
    last_savepoint: u64,
}

#[derive(Debug)]
enum Undo {
    Key {
        tree: TreeId,
        key: Vec<u8>,
        /// `None` if the transaction had not written the key.
        before: Option<KeyChange>,
    },
    /// The range that was deleted last.
    Range { tree: TreeId },
}

impl WriteSet {
    pub(super) fn is_empty(&self) -> bool {
        self.trees.values().all(|(_, changes)| changes.is_empty())
    }

    pub(super) fn get(&self, tree: TreeId, key: &[u8]) -> Option<KeyChange> {
        self.trees.get(&tree)?.1.get(key)
    }

    pub(super) fn changes(&self, tree: TreeId) -> Option<&Changes> {
        self.trees.get(&tree).map(|(_, changes)| changes)
    }

    pub(super) fn trees(&self) -> impl Iterator<Item = (&Tree, &Changes)> {
        self.trees.values().map(|(tree, changes)| (tree, changes))
    }

    /// The changes of `tree`, to be changed at `key`: notes the present state, for [`WriteSet::rollback_to`].
    fn changes_at(&mut self, tree: &Tree, key: &[u8]) -> &mut Changes {
        let id = tree.inner().id;
        self.carry(tree);
        let (_, changes) = self.trees.entry(id).or_insert_with(|| (tree.clone(), Changes::default()));
        if !self.savepoints.is_empty() && self.noted.insert((id, key.to_vec())) {
            let before = changes.keys.get(key).cloned();
            self.undo.push(Undo::Key { tree: id, key: key.to_vec(), before });
        }
        changes
    }

    fn carry(&mut self, tree: &Tree) {
        if let Some(given) = tree.given_us() {
            let time_us = self.times.entry(tree.inner().id).or_insert(0);
            *time_us = (*time_us).max(given);
        }
    }

    pub(super) fn set(&mut self, tree: &Tree, key: &[u8], change: KeyChange) {
        let changes = self.changes_at(tree, key);
        Arc::make_mut(&mut changes.keys).insert(key.to_vec(), change);
    }

    /// Merges `operand` into `key`; the operand names its operator.
    pub(super) fn merge(&mut self, tree: &Tree, key: &[u8], operand: Vec<u8>, operators: &MergeOperators) {
        let changes = self.changes_at(tree, key);
        let base = if changes.deletes(key) { Base::Absent } else { Base::Store };
        let change = Arc::make_mut(&mut changes.keys).entry(key.to_vec());
        change.or_insert(KeyChange { base, operands: Vec::new() }).merge(operand, operators);
    }

    pub(super) fn delete_range(&mut self, tree: &Tree, range: KeyRange) {
        let own = self.changes(tree.inner().id).map(|changes| Arc::clone(&changes.keys)).unwrap_or_default();
        let within = range.bounds().into_iter().flat_map(|bounds| own.range::<[u8], _>(bounds));
        for (key, _) in within.filter(|(_, change)| !change.is_delete()) {
            self.set(tree, key, KeyChange::DELETE);
        }
        let id = tree.inner().id;
        self.carry(tree);
        let (_, changes) = self.trees.entry(id).or_insert_with(|| (tree.clone(), Changes::default()));
        Arc::make_mut(&mut changes.deleted).push(range);
        if !self.savepoints.is_empty() {
            self.undo.push(Undo::Range { tree: id });
        }
    }

    pub(super) fn savepoint(&mut self, txn: u64) -> Savepoint {
        self.last_savepoint += 1;
        self.savepoints.push((self.last_savepoint, self.undo.len(), self.times.clone()));
        self.noted.clear();
        Savepoint { txn, number: self.last_savepoint }
    }

    /// Undoes everything after the savepoint, which stays; later savepoints are discarded.
    pub(super) fn rollback_to(&mut self, savepoint: Savepoint) -> Result<()> {
        let Some(at) = self.savepoints.iter().position(|(number, ..)| *number == savepoint.number) else {
            let message = "the savepoint is gone: the transaction was rolled back to an earlier one";
            return Err(Error::invalid(message));
        };
        self.savepoints.truncate(at + 1);
        let (_, len, times) = &self.savepoints[at];
        self.times = times.clone();
        self.noted.clear();
        for undo in self.undo.drain(*len..).rev() {
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
            let time_us = self.times.get(&tree.inner().id).filter(|_| !changes.is_empty());
            time_us.map_or(Ok(()), |time_us| batch.add_time(tree.inner(), *time_us))?;
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
