//! The one way by which a change of data leaves a front end: the server of Redis' clients, and tables.
//!
//! ```text
//! front end: evaluates on a base ---- entry ----> Journal::propose ----> done, refused or unknown
//!                                                       |
//!                                     Local: one store, one log, decided within the call
//! ```
//! A *place* is one log: entries of one place take effect in the order of their proposal. [`Local`] has one place, the store of
//! this process.
//!
//! A proposal ends in one of three ways:
//! - *done*: the entry has taken effect, whole;
//! - *refused*: it certainly has no effect, and may be evaluated again;
//! - *unknown*: it may have taken effect or not. It is never proposed a second time.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

use esker::{Batch, Db, Durability, Error, ErrorKind, Tree, TreeOptions, ValueWriter, WriteToken};

/// The time by which commands are evaluated, and by which entries expire.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Moment {
    /// Microseconds since 1970. At one journal it never goes back.
    pub now_us: u64,
    /// By how many microseconds it is ahead of the machine's clock.
    pub ahead_us: u64,
}

/// Why an entry has not taken effect, as far as is known.
#[derive(Debug)]
pub enum Undone {
    /// It certainly has no effect.
    Refused(Error),
    /// It may have taken effect, or do so when the store is opened again.
    Unknown(Error),
}

impl Undone {
    /// What has happened.
    #[must_use]
    pub fn error(&self) -> &Error {
        match self {
            Undone::Refused(error) | Undone::Unknown(error) => error,
        }
    }
}

impl fmt::Display for Undone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Undone::Refused(error) => write!(f, "{error}"),
            Undone::Unknown(error) => {
                write!(f, "it is not known whether the write has taken effect: {error}")
            }
        }
    }
}

impl From<Undone> for Error {
    fn from(undone: Undone) -> Error {
        match undone {
            Undone::Refused(error) => error,
            Undone::Unknown(ref error) => Error::new(error.kind(), undone.to_string()),
        }
    }
}

/// Through which front ends change data. See the page's beginning.
pub trait Journal: Send + Sync {
    /// The store, for reads, figures and backups. Nobody writes to it but by the journal.
    fn db(&self) -> &Db;

    /// The time by which the next command is evaluated.
    fn moment(&self) -> Moment;

    /// Proposes `batch`, as durably as the place promises. Waits until it is decided.
    ///
    /// # Errors
    /// If it is not done.
    fn propose(&self, batch: &Batch) -> Result<WriteToken, Undone>;

    /// [`Journal::propose`] on a thread that may not wait.
    ///
    /// # Errors
    /// `Refused` with `Busy` or `NeedsIo` if that takes a wait.
    fn try_propose(&self, batch: &Batch) -> Result<WriteToken, Undone>;

    /// [`Journal::propose`] of what has to survive power loss when it is done.
    ///
    /// # Errors
    /// As [`Journal::propose`].
    fn propose_durably(&self, batch: &Batch) -> Result<WriteToken, Undone>;

    /// A place in the log behind all entries that are done. It does not wait.
    ///
    /// # Errors
    /// If the store has failed or is closed.
    fn barrier(&self) -> esker::Result<WriteToken>;

    /// The tree `name`, which is made if it is missing, and gets `tag` if it has none and is empty.
    ///
    /// # Errors
    /// If the store fails.
    fn make_tree(&self, name: &str, tag: Option<&str>) -> esker::Result<Tree>;

    /// Makes the tree `name`, durably.
    ///
    /// # Errors
    /// If there is one, or the store fails.
    fn new_tree(&self, name: &str, options: TreeOptions) -> esker::Result<Tree>;

    /// Removes the tree `name`, durably.
    ///
    /// # Errors
    /// If the store fails.
    fn remove_tree(&self, name: &str) -> esker::Result<()>;

    /// Makes of the keys of `tree` from `from` on a tree of their own, durably.
    ///
    /// # Errors
    /// As [`Db::split`].
    fn split_tree(&self, tree: &Tree, from: &[u8], name: &str) -> esker::Result<Tree>;

    /// Gives `tree` another tag, durably.
    ///
    /// # Errors
    /// If the store fails.
    fn tag_tree(&self, tree: &Tree, tag: &str) -> esker::Result<()>;

    /// A writer of a huge value for any key of `tree`. It counts from the entry on that gives it to a key.
    ///
    /// # Errors
    /// If the store fails.
    fn writer(&self, tree: &Tree) -> esker::Result<ValueWriter>;
}

/// The store of this process: one place, and each proposal is decided within the call.
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

    /// A write that fails while the store goes on has no effect. If the store takes no more writes, the log may have it.
    fn undone(&self, error: Error) -> Undone {
        match self.db.check_writable() {
            Err(failure) if failure.kind() == ErrorKind::Poisoned => Undone::Unknown(error),
            _ => Undone::Refused(error),
        }
    }
}

impl Journal for Local {
    fn db(&self) -> &Db {
        &self.db
    }

    fn moment(&self) -> Moment {
        let tree = self.db.default_tree();
        let now_us = tree.time_us();
        Moment {
            now_us: now_us.max(self.latest_us.fetch_max(now_us, Ordering::Relaxed)),
            ahead_us: tree.clock_ahead_us(),
        }
    }

    fn propose(&self, batch: &Batch) -> Result<WriteToken, Undone> {
        self.db.write(batch).map_err(|error| self.undone(error))
    }

    fn try_propose(&self, batch: &Batch) -> Result<WriteToken, Undone> {
        self.db.try_write(batch).map_err(|error| match error.kind() {
            ErrorKind::Busy | ErrorKind::NeedsIo => Undone::Refused(error),
            _ => self.undone(error),
        })
    }

    fn propose_durably(&self, batch: &Batch) -> Result<WriteToken, Undone> {
        self.db.write_with(batch, Durability::Power).map_err(|error| self.undone(error))
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
            journal.propose(&put(&db, &key, &[7; 4000])).err().map(|undone| (key, undone))
        });
        let (key, undone) = refused.unwrap();
        assert!(
            matches!(&undone, Undone::Refused(error) if error.kind() == ErrorKind::OutOfSpace),
            "{undone}"
        );
        assert!(!db.default_tree().contains(&key).unwrap());
        disk.set_capacity(None);
        journal.propose(&put(&db, &key, b"taken")).unwrap();
        assert_eq!(db.get_vec(&key).unwrap().unwrap(), b"taken");
    }

    /// The log has the entry, and may keep it: nobody knows.
    #[test]
    fn what_cannot_be_synced_is_unknown_and_so_is_what_follows() {
        let disk = SimFs::new(2);
        let db = store(&disk);
        let journal = Local::new(&db);
        journal.propose_durably(&put(&db, "a", b"1")).unwrap();
        disk.inject(Fault::new(Op::Sync, ".log"));
        let undone = journal.propose_durably(&put(&db, "b", b"2")).unwrap_err();
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
