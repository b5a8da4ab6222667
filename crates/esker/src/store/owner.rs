//! The owner that all handles of a user share. Dropping the last handle closes the store and waits until it is closed.
//!
//! ```text
//! Db, Tree, Snapshot, Scan, Txn, Updates, ...  --Arc-->  Owner  --Arc-->  Store  <--Weak, Arc for a step--  background
//! ```
//!
//! Background work holds the store itself, and only for the length of a step. Therefore it never closes the store:
//! dropping the owner ends the background work, waits for it, and then closes (rule 27). If the store's own work drops
//! the last handle (a merge operator may hold one), it would wait for itself. In that case the store is closed when a
//! piece of work ends.

use std::ops::Deref;
use std::sync::Arc;

use super::Store;
use crate::blob::BlobSet;
use crate::operators::MergeOperators;
use crate::read::meter::Scanned;
use crate::state::TreeInner;
use crate::trace::Metrics;

/// See the module's comment.
#[derive(Debug)]
pub(crate) struct Owner {
    store: Arc<Store>,
}

impl Owner {
    /// The first handle of `store`.
    pub(crate) fn of(store: Arc<Store>) -> Arc<Owner> {
        Arc::new(Owner { store })
    }

    /// The store itself, for a handle that would otherwise follow two pointers. The handle also holds an owner, and
    /// drops that first.
    pub(crate) fn store(&self) -> &Arc<Store> {
        &self.store
    }
}

impl Deref for Owner {
    type Target = Store;

    fn deref(&self) -> &Store {
        &self.store
    }
}

impl Scanned for Owner {
    fn metrics(&self) -> &Metrics {
        self.store.metrics()
    }

    fn operators(&self) -> &MergeOperators {
        &self.store.options.merge_operators
    }

    fn blobs(&self) -> &Arc<BlobSet> {
        &self.store.blobs
    }

    fn clean(&self, tree: &Arc<TreeInner>) {
        self.store.flusher().clean_later(tree);
    }

    fn merge_passed(&self, tree: &Arc<TreeInner>) {
        self.store.compactor().merge_passed_later(tree);
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        self.store.close_with_last_handle();
    }
}
