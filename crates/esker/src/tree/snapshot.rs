//! The whole store at one moment, as a user holds it.

use std::sync::Arc;

use arc_swap::Guard;

use super::Tree;
use crate::cursor::SeqNo;
use crate::error::{Error, ErrorKind, Result};
use crate::read::get::get_at;
use crate::read::scan::{Scan, ScanRange};
use crate::state::TreeState;
use crate::store::Store;
use crate::value::Value;

#[derive(Debug)]
struct Held {
    store: Arc<Store>,
    seq: SeqNo,
}

impl Drop for Held {
    fn drop(&mut self) {
        self.store.snapshots.release(self.seq);
    }
}

/// The whole store at one moment: writes that come later are not seen. Cheap to take, to clone and to
/// keep, except that old versions stay on disk until it is dropped.
#[derive(Debug, Clone)]
pub struct Snapshot {
    held: Arc<Held>,
}

impl Snapshot {
    pub(crate) fn new(store: &Arc<Store>) -> Snapshot {
        let seq = store.snapshots.register(&store.commit);
        Snapshot { held: Arc::new(Held { store: Arc::clone(store), seq }) }
    }

    pub(crate) fn seq(&self) -> SeqNo {
        self.held.seq
    }

    fn state_of(&self, tree: &Tree) -> Result<Guard<Arc<TreeState>>> {
        if tree.inner().store != self.held.store.id {
            let message = "the tree belongs to another store than the snapshot";
            return Err(Error::new(ErrorKind::InvalidInput, message));
        }
        tree.readable_state()
    }

    /// The value of `key` in `tree` at this moment.
    ///
    /// # Errors
    /// `Corruption` or `Io` when a table cannot be read, `Closed` when the tree was dropped.
    pub fn get(&self, tree: &Tree, key: impl AsRef<[u8]>) -> Result<Option<Value>> {
        let state = self.state_of(tree)?;
        get_at(&state, key.as_ref(), self.held.seq, Value::copy_of)
    }

    /// The bytes of the value of `key` in `tree` at this moment.
    ///
    /// # Errors
    /// As [`Snapshot::get`].
    pub fn get_vec(&self, tree: &Tree, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>> {
        let state = self.state_of(tree)?;
        get_at(&state, key.as_ref(), self.held.seq, <[u8]>::to_vec)
    }

    /// Whether `key` of `tree` had a value at this moment.
    ///
    /// # Errors
    /// As [`Snapshot::get`].
    pub fn contains(&self, tree: &Tree, key: impl AsRef<[u8]>) -> Result<bool> {
        let state = self.state_of(tree)?;
        Ok(get_at(&state, key.as_ref(), self.held.seq, |_| ())?.is_some())
    }

    /// The pairs of `tree` in `range` at this moment.
    ///
    /// # Errors
    /// As [`Snapshot::get`].
    pub fn scan(&self, tree: &Tree, range: ScanRange) -> Result<Scan> {
        let state = self.state_of(tree)?;
        Scan::new(&state, self.held.seq, range, Some(Box::new(self.clone())))
    }
}
