//! Transactions, data in bulk, and trees that are imported.

use std::collections::BTreeMap;
use std::path::PathBuf;

use esker::{Durability, TxnMode, TxnOptions};

use super::{Life, Outcome};
use crate::history::{Bytes, Event, Write, describe_writes};

impl Life {
    /// Judges a call that was to make `event` happen by an edit of the manifest.
    fn end(&mut self, event: Event, result: esker::Result<()>) -> Outcome<()> {
        self.history.begin(event);
        self.withdraw_or_set_apart(&result);
        if result.is_ok() && !self.disk.is_dead() {
            self.history.acknowledge();
        }
        self.settle(result, true)
    }

    /// Some writes at once, by a transaction, of which a savepoint takes some back.
    pub(super) fn transact(&mut self) -> Outcome<()> {
        let (count, kept) = (self.rng.between(1, 8), self.rng.between(1, 8));
        let mut writes: Vec<Write> = (0..count).map(|_| self.random_write()).collect();
        let durability = if self.rng.one_in(4) { Durability::Power } else { Durability::Process };
        let mode = if self.rng.one_in(2) { TxnMode::Pessimistic } else { TxnMode::Optimistic };
        let options = TxnOptions::default().mode(mode).durability(durability);
        let result = self.db().begin(options).and_then(|txn| {
            let mut savepoint = None;
            for (i, (tree, key, value)) in writes.iter().enumerate() {
                if i == kept {
                    savepoint = Some(txn.savepoint());
                }
                match value {
                    Some(value) => txn.put(&self.trees[tree], key, value)?,
                    None => txn.delete(&self.trees[tree], key)?,
                }
            }
            savepoint.map_or(Ok(()), |savepoint| txn.rollback_to(savepoint))?;
            txn.commit()
        });
        writes.truncate(kept);
        self.trace(|_| format!("transaction: {}", describe_writes(&writes)));
        self.history.begin(Event::Batch(writes));
        self.withdraw_if_refused(&result);
        if result.is_ok() && !self.disk.is_dead() {
            self.history.acknowledge();
        }
        self.settle(result, durability == Durability::Power)
    }

    pub(super) fn ingest(&mut self) -> Outcome<()> {
        let (tree, _, _) = self.random_write();
        let mut pairs: BTreeMap<Bytes, Bytes> = BTreeMap::new();
        for _ in 0..self.rng.between(1, 40) {
            if let (_, key, Some(value)) = self.random_write() {
                pairs.insert(key, value);
            }
        }
        let ingested = self.trees[&tree].ingest().and_then(|mut ingest| {
            pairs.iter().try_for_each(|(key, value)| ingest.put(key, value))?;
            ingest.commit()
        });
        let writes = pairs.into_iter().map(|(key, value)| (tree.clone(), key, Some(value))).collect();
        self.end(Event::Batch(writes), ingested.map(drop))
    }

    /// A tree becomes another one too, by way of an export.
    pub(super) fn import_tree(&mut self) -> Outcome<()> {
        let (from, _, _) = self.random_write();
        let name = format!("tree{}", self.rng.below(3));
        if self.trees.contains_key(&name) || self.unclear {
            return Ok(());
        }
        self.exports += 1;
        let dir = PathBuf::from(format!("/exports/{}", self.exports));
        let exported = self.db().export_tree(&from, &dir);
        if exported.is_err() {
            return self.settle(exported.map(drop), false);
        }
        let imported = self.db().import_tree(&dir, &name);
        let pairs = self.history.now()[&from].clone();
        self.trace(|_| format!("imports {from} as {name}"));
        let result = imported.map(|(tree, _)| drop(self.trees.insert(name.clone(), tree)));
        self.end(Event::Import(name, pairs), result)
    }
}
