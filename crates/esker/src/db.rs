//! The handle of a store: opening, trees, batches, maintenance.

use std::fmt;
use std::sync::Arc;

use crate::store::Owner;
use crate::tree::Tree;
use crate::txn::LockTable;

// These first: the documentation shows methods in the order of the modules.
mod opening;

mod trees;

mod access;

mod care;
mod event_loop;
mod groups;
mod insight;

pub use event_loop::{WriteToken, without_io};
pub use groups::TreeSplit;

/// An open store. Cheap to clone; any number of threads may use it at the same time.
///
/// [`Db::close`] closes the store and reports whether the last sync worked; dropping the last handle closes it too.
/// Handles are [`Db`], [`Tree`], [`Snapshot`](crate::Snapshot), [`Scan`](crate::Scan), [`Txn`](crate::Txn),
/// [`Updates`](crate::updates::Updates), [`ValueWriter`](crate::ValueWriter) and [`Ingest`](crate::Ingest); a
/// [`Value`](crate::Value) and a [`Batch`](crate::Batch) are not. When the drop of the last handle returns, everything is
/// durable, the directory is unlocked, and descriptors and memory are released. (If the store's own work drops it, as a merge operator may, that happens when this work is done.) A handle
/// in a `static` is never dropped: close the store before the program ends.
///
/// # Example
/// ```
/// # fn main() -> esker::Result<()> {
/// # let dir = tempfile::tempdir().expect("a temporary directory");
/// let db = esker::Db::open(dir.path().join("store"), esker::Options::default())?;
/// db.put("key", "value")?;
/// assert_eq!(db.get_vec("key")?.as_deref(), Some(&b"value"[..]));
/// db.close()
/// # }
/// ```
#[derive(Clone)]
pub struct Db {
    store: Arc<Owner>,
    default: Tree,
    locks: Arc<LockTable>,
}

impl fmt::Debug for Db {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Db").field("path", &self.path()).finish_non_exhaustive()
    }
}
