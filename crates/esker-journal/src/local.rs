//! The journal of one store.

use std::sync::atomic::{AtomicU64, Ordering};

use esker::{Batch, Db, Durability, ErrorKind, Tree, TreeOptions, ValueWriter, WriteToken};

use crate::{Ground, Journal, Moment, Outcome, Proposed, Undone};

/// The store of this process: one place, and each proposal is decided within the call. Its ground is never lost.
#[derive(Debug)]
pub struct Local {
    db: Db,
    /// The greatest moment that was given out.
    latest_us: AtomicU64,
}

impl Local {
    /// The journal of `db`.
    #[must_use]
    pub fn new(db: &Db) -> Local {
        Local { db: db.clone(), latest_us: AtomicU64::new(0) }
    }

    /// A write that fails while the store goes on has no effect. If the store takes no more writes, the log may have it: also if the
    /// store is being closed, and has synced its log before the write was to wait for that.
    fn decided(&self, written: esker::Result<WriteToken>) -> Outcome {
        written.map(drop).map_err(|error| match error.kind() {
            ErrorKind::Busy | ErrorKind::NeedsIo | ErrorKind::Closed => Undone::Refused(error),
            ErrorKind::Poisoned => Undone::Unknown(error),
            _ => match self.db.check_writable().map_err(|failure| failure.kind()) {
                Err(ErrorKind::Poisoned | ErrorKind::Closed) => Undone::Unknown(error),
                _ => Undone::Refused(error),
            },
        })
    }
}

impl Journal for Local {
    fn db(&self) -> &Db {
        &self.db
    }

    fn is_immediate(&self) -> bool {
        true
    }

    fn moment(&self) -> Moment {
        let tree = self.db.default_tree();
        let now_us = tree.time_us();
        Moment {
            now_us: now_us.max(self.latest_us.fetch_max(now_us, Ordering::Relaxed)),
            ahead_us: tree.clock_ahead_us(),
        }
    }

    fn ground(&self) -> Ground {
        Ground(0)
    }

    fn propose(&self, _: Ground, batch: &mut Batch) -> Proposed {
        Proposed::Decided(self.decided(self.db.write(batch)))
    }

    fn try_propose(&self, _: Ground, batch: &mut Batch) -> Proposed {
        Proposed::Decided(self.decided(self.db.try_write(batch)))
    }

    fn propose_durably(&self, _: Ground, batch: &mut Batch) -> Proposed {
        Proposed::Decided(self.decided(self.db.write_with(batch, Durability::Power)))
    }

    fn confirm(&self) -> Proposed {
        Proposed::Decided(Ok(()))
    }

    fn barrier(&self) -> esker::Result<WriteToken> {
        self.db.try_write(&Batch::new())
    }

    fn make_tree(&self, name: &str, tag: Option<&str>) -> esker::Result<Tree> {
        let tree = self.db.tree(name)?;
        if let Some(tag) = tag
            && tree.tag().is_none()
            && tree.is_empty()?
        {
            tree.set_tag(tag)?;
        }
        Ok(tree)
    }

    fn new_tree(&self, name: &str, options: TreeOptions) -> esker::Result<Tree> {
        self.db.create_tree(name, options)
    }

    fn remove_tree(&self, name: &str) -> esker::Result<()> {
        self.db.drop_tree(name)
    }

    fn split_tree(&self, tree: &Tree, from: &[u8], name: &str) -> esker::Result<Tree> {
        self.db.split(tree, from, name)
    }

    fn tag_tree(&self, tree: &Tree, tag: &str) -> esker::Result<()> {
        tree.set_tag(tag)
    }

    fn writer(&self, tree: &Tree) -> esker::Result<ValueWriter> {
        tree.unnamed_writer()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use esker::Options;
    use esker::env::Env;
    use esker::fs::sim::{Fault, Op, SimFs};

    use super::*;

    fn store(disk: &SimFs) -> Db {
        let env = Env { fs: Arc::new(disk.clone()), ..Env::system() };
        Db::open("store", Options::default().memory_budget(8 << 20).env(env)).unwrap()
    }

    fn put(db: &Db, key: &str, value: &[u8]) -> Batch {
        let mut batch = Batch::new();
        batch.put(db.default_tree(), key, value).unwrap();
        batch
    }

    #[test]
    fn what_a_full_disk_refuses_has_no_effect() {
        let disk = SimFs::new(1);
        let db = store(&disk);
        let journal = Local::new(&db);
        disk.set_capacity(Some(24 << 20));
        let refused = (0..100_000).find_map(|i| {
            let key = format!("key {i}");
            journal
                .propose(Ground(0), &mut put(&db, &key, &[7; 4000]))
                .wait()
                .err()
                .map(|undone| (key, undone))
        });
        let (key, undone) = refused.unwrap();
        assert!(
            matches!(&undone, Undone::Refused(error) if error.kind() == ErrorKind::OutOfSpace),
            "{undone}"
        );
        assert!(!db.default_tree().contains(&key).unwrap());
        disk.set_capacity(None);
        journal.propose(Ground(0), &mut put(&db, &key, b"taken")).wait().unwrap();
        assert_eq!(db.get_vec(&key).unwrap().unwrap(), b"taken");
    }

    /// The log has the entry, and may keep it.
    #[test]
    fn what_cannot_be_synced_is_unknown_and_so_is_what_follows() {
        let disk = SimFs::new(2);
        let db = store(&disk);
        let journal = Local::new(&db);
        journal.propose_durably(Ground(0), &mut put(&db, "a", b"1")).wait().unwrap();
        disk.inject(Fault::new(Op::Sync, ".log"));
        let undone = journal.propose_durably(Ground(0), &mut put(&db, "b", b"2")).wait().unwrap_err();
        assert!(matches!(undone, Undone::Unknown(_)), "{undone}");
        assert!(
            undone.to_string().starts_with("it is not known whether the write has taken effect: "),
            "{undone}"
        );
    }

    #[test]
    fn moments_never_go_back() {
        let db = Db::open_in_memory(Options::default()).unwrap();
        let journal = Local::new(&db);
        let mut last = 0;
        for _ in 0..10_000 {
            let Moment { now_us, ahead_us } = journal.moment();
            assert!(now_us >= last && ahead_us == 0);
            last = now_us;
        }
    }
}
