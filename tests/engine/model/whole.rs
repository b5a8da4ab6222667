//! Transactions, data in bulk, and trees that are moved and split.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use esker::fs::FileSystem;
use esker::{Tree, Txn, TxnMode, TxnOptions};

use crate::apply::is_in;
use crate::common::{Rng, contents, ttl};
use crate::model::{Bytes, Content};
use crate::ops::{Key, Op, Range, Recipe, TREES, Write};
use crate::session::{Check, Session, digest, same};

/// What a transaction has written so far, in order.
type Noted = Vec<(String, Bytes, Option<Content>)>;

/// Removes a directory of ours, and the files in it.
pub(crate) fn remove_flat_dir(fs: &dyn FileSystem, dir: &Path) -> Check<()> {
    for name in fs.list(dir)? {
        fs.remove_file(&dir.join(name))?;
    }
    Ok(fs.remove_dir(dir)?)
}

impl Session {
    pub(crate) fn apply_whole(&mut self, op: &Op) -> Check<u64> {
        match op {
            Op::Txn { writes, range, keep, pessimistic, commits } => {
                let mode = if *pessimistic { TxnMode::Pessimistic } else { TxnMode::Optimistic };
                let txn = self.db().begin(TxnOptions::default().mode(mode))?;
                let noted = self.write_in(&txn, writes, range.as_ref(), *keep)?;
                if *commits {
                    txn.commit()?;
                    let oldest = self.oldest();
                    self.model.write(&noted, oldest);
                }
            }
            Op::Ingest { tree, pairs, sorted } => {
                let Some(handle) = self.tree(*tree)? else { return Ok(0) };
                return self.ingest(&handle, *tree, pairs, *sorted);
            }
            Op::Move { tree, split_at, seed } => self.move_and_split(*tree, split_at.as_ref(), *seed)?,
            _ => {}
        }
        Ok(0)
    }

    /// Writes in a transaction, which sees what it has written; what comes behind the first `keep` writes is rolled back.
    fn write_in(&mut self, txn: &Txn, writes: &[Write], range: Option<&Range>, keep: usize) -> Check<Noted> {
        let mut noted = Noted::new();
        let mut kept = None;
        for (i, (tree, key, value, hours)) in writes.iter().enumerate() {
            let Some(handle) = self.tree(*tree)? else { continue };
            if i >= keep && kept.is_none() {
                kept = Some((txn.savepoint(), noted.len()));
            }
            let own = noted.iter().rev().find(|(of, at, _)| of == TREES[*tree] && *at == key.0);
            let before = match own {
                Some((.., content)) => content.as_ref().map(|(value, _)| Arc::clone(value)),
                None => self.model.trees[TREES[*tree]].get(key, self.model.now),
            };
            same!(txn.get_vec(&handle, &**key)?.as_deref(), before.as_deref(), "{key:?} in a transaction");
            let value = value.map(Recipe::bytes);
            match (&value, hours) {
                (Some(value), None) => txn.put(&handle, &**key, value)?,
                (Some(value), Some(hours)) => txn.put_for(&handle, &**key, value, ttl(*hours))?,
                (None, _) => txn.delete(&handle, &**key)?,
            }
            let content = value.map(|value| (value, self.until(*hours).into()));
            noted.push((TREES[*tree].to_owned(), Arc::clone(&key.0), content));
        }
        if let Some((savepoint, len)) = kept {
            txn.rollback_to(savepoint)?;
            noted.truncate(len);
        }
        if let (Some(range), Some(handle)) = (range, self.tree(0)?) {
            txn.delete_range(&handle, range.to_scan_range())?;
            let own = noted.iter().filter(|(of, ..)| of == TREES[0]).map(|(_, key, _)| key);
            let all = self.model.trees[TREES[0]].keys().chain(own);
            let gone: Vec<Bytes> = all.filter(|key| is_in(range, key)).cloned().collect();
            noted.extend(gone.into_iter().map(|key| (TREES[0].to_owned(), key, None)));
        }
        Ok(noted)
    }

    fn ingest(&mut self, handle: &Tree, tree: usize, pairs: &[(Key, Recipe)], sorted: bool) -> Check<u64> {
        let pairs: BTreeMap<&Key, Bytes> = pairs.iter().map(|(key, value)| (key, value.bytes())).collect();
        let count = if sorted {
            let mut ingest = handle.ingest()?;
            pairs.iter().try_for_each(|(key, value)| ingest.put(&***key, value))?;
            ingest.commit()?
        } else {
            let mut ingest = handle.ingest_unsorted()?;
            pairs.iter().rev().try_for_each(|(key, value)| ingest.put(&***key, value))?;
            ingest.commit()?
        };
        same!(count, pairs.len() as u64, "how many pairs were ingested");
        let noted: Noted = pairs
            .into_iter()
            .map(|(key, value)| (TREES[tree].to_owned(), Arc::clone(&key.0), Some((value, None.into()))))
            .collect();
        let oldest = self.oldest();
        self.model.write(&noted, oldest);
        Ok(digest(count))
    }

    /// Imports what a tree holds as another one, changes and splits that, and drops it again: it has all, and the tree stays what
    /// it is.
    fn move_and_split(&mut self, tree: usize, split_at: Option<&Key>, seed: u64) -> Check<()> {
        if self.tree(tree)?.is_none() {
            return Ok(());
        }
        let mut rng = Rng::new(seed);
        let dir = self.dir.with_file_name("export");
        self.db().export_tree(TREES[tree], &dir)?;
        let (moved, _) = self.db().import_tree(&dir, "moved")?;
        remove_flat_dir(&*self.env.fs, &dir)?;
        let all = self.model.trees[TREES[tree]].scan(&Range::all(), self.model.now);
        let mut expected: BTreeMap<Vec<u8>, Vec<u8>> =
            all.into_iter().map(|(key, value)| (key.to_vec(), value.to_vec())).collect();
        same!(contents(&moved) == expected, true, "what was moved of {:?}", TREES[tree]);
        for key in expected.keys().cloned().collect::<Vec<_>>() {
            match rng.index(6) {
                0 => drop((moved.delete(&key)?, expected.remove(&key))),
                1 => {
                    let value = vec![7; rng.between(0, 3000)];
                    moved.put(&key, &value)?;
                    expected.insert(key, value);
                }
                _ => {}
            }
        }
        let mut names = vec!["moved"];
        if let Some(at) = split_at.filter(|at| !at.is_empty()) {
            let half = self.db().split(&moved, &**at, "half of it")?;
            let upper = expected.split_off(&**at);
            same!(contents(&half) == upper, true, "the upper half, from {at:?} on");
            names.push("half of it");
        }
        if rng.percent(30) {
            self.db().compact()?;
        }
        same!(contents(&moved) == expected, true, "what was moved and changed");
        drop(moved);
        if rng.percent(50) {
            names.reverse();
        }
        Ok(names.iter().try_for_each(|name| self.db().drop_tree(name))?)
    }
}
