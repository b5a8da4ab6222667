//! A named keyspace: the handle that a user holds. [`crate::state`] has its implementation.

use std::fmt;
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::read::range::ScanRange;
use crate::state::TreeInner;
use crate::store::{Owner, Store};

// These two first: the documentation shows methods in the order of the modules.
mod writes;

mod reads;

mod batch;
mod cached;
mod conditional;
mod cursor;
mod durable;
mod encode;
mod ends;
mod estimate;
mod ingest;
mod merge_operator;
mod settings;
mod snapshot;
mod staging;
mod stream;
mod time;
mod transfer;

/// How many bytes of a large value or load are written between checks for free disk space.
const ROOM_EVERY: u64 = 16 << 20;

pub use conditional::Swap;
pub use cursor::Cursor;
pub use ingest::{Ingest, IngestUnsorted};
pub(crate) use settings::check_tag;
pub use snapshot::Snapshot;
pub use staging::{StagedValue, StagedWriter, Staging};
pub use stream::{StoredValue, ValueWriter};

/// A named keyspace of a store: a sorted map from keys to values. Cheap to clone; any number of threads may use it at
/// the same time. Readers take no locks and never wait for writers.
///
/// Keys are 1 to 131,072 bytes long and sorted bytewise; [`crate::keys`] encodes numbers and tuples in keys that sort
/// in the same order. A value is any bytes, of any length: [`Tree::put_from`] and [`Tree::writer`] take values that are
/// longer than memory.
#[derive(Clone)]
pub struct Tree {
    /// Dropped first: it may close the store.
    owner: Arc<Owner>,
    /// The owner's store, for direct access.
    store: Arc<Store>,
    inner: Arc<TreeInner>,
    /// The time that the handle was given ([`Tree::at_us`]).
    given_us: Option<u64>,
}

impl fmt::Debug for Tree {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tree").field("name", &self.inner.name).finish_non_exhaustive()
    }
}

impl Tree {
    pub(crate) fn new(owner: &Arc<Owner>, inner: Arc<TreeInner>) -> Tree {
        Tree { owner: Arc::clone(owner), store: Arc::clone(owner.store()), inner, given_us: None }
    }

    pub(crate) fn inner(&self) -> &Arc<TreeInner> {
        &self.inner
    }

    /// Refuses to use the tree with `other`, which belongs to the store `store`.
    pub(crate) fn check_store(&self, store: &Store, other: &str) -> Result<()> {
        if self.inner.store != store.id() {
            return Err(Error::invalid(format!("the tree belongs to another store than the {other}")));
        }
        Ok(())
    }

    /// The tree's name.
    pub fn name(&self) -> &str {
        &self.inner.name
    }

    /// The keys that the tree may hold: all, unless it was split ([`Db::split`](crate::Db::split)).
    pub fn key_range(&self) -> ScanRange {
        ScanRange::of(self.inner.state.load().key_bounds.range.clone())
    }
}
