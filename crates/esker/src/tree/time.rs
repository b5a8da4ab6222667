//! The time by which a tree's values expire.

use std::time::{Duration, SystemTime};

use super::Tree;
use crate::cursor::Expiry;
use crate::env::us_at;
use crate::read::snapshots::Lasting;
use crate::version::edit::CLOCK_MAX;

impl Tree {
    /// A handle of the same tree whose reads and writes happen at `time_us`, in microseconds since 1970 (at most 2^62):
    ///
    /// - Its reads, and those of snapshots and transactions that are given it, find what has not expired by then. So do
    ///   conditional writes, and those that read.
    /// - [`Tree::put_for`] counts from then.
    /// - If the tree takes its time from its writes ([`ExpiryClock::Writes`](crate::ExpiryClock)), each write carries
    ///   this time, also in a batch or a transaction, and in the bytes of an encoded batch.
    ///
    /// What had expired by an earlier time may be gone: by the time of the store's clock, or, if the tree takes its time
    /// from its writes, by the greatest time that they have carried.
    ///
    /// # Example
    /// ```
    /// # fn main() -> esker::Result<()> {
    /// # let db = esker::Db::open_in_memory(esker::Options::default())?;
    /// use esker::{Batch, ExpiryClock, TreeOptions};
    /// let leases = db.create_tree("leases", TreeOptions::default().expiry_clock(ExpiryClock::Writes))?;
    /// let mut batch = Batch::new();
    /// batch.put_until_us(&leases.at_us(1_000), "desk", "Ann", Some(5_000))?;
    /// db.write(&batch)?;
    /// assert!(leases.at_us(4_999).put_if_absent("desk", "Bob")?.is_some());
    /// assert!(leases.at_us(5_000).put_if_absent("desk", "Bob")?.is_none());
    /// assert_eq!(leases.time_us(), 5_000);
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn at_us(&self, time_us: u64) -> Tree {
        Tree { given_us: Some(time_us.min(CLOCK_MAX)), ..self.clone() }
    }

    /// [`Tree::at_us`] of a moment.
    #[must_use]
    pub fn at(&self, moment: SystemTime) -> Tree {
        self.at_us(us_at(moment))
    }

    /// The time by which values expire for this handle now, in microseconds since 1970: the one that it was given, or
    /// else that of the tree's clock ([`TreeOptions::expiry_clock`](crate::TreeOptions::expiry_clock)).
    pub fn time_us(&self) -> u64 {
        self.now_us()
    }

    /// Gets the time that `other`, a handle of the same tree, was given, if it is later.
    pub(crate) fn advance_to(&mut self, other: &Tree) {
        self.given_us = self.given_us.max(other.given_us);
    }

    pub(super) fn now_us(&self) -> u64 {
        self.fixed_us().unwrap_or_else(|| self.store.clock().now_us())
    }

    /// The time by which values expire for this handle, if that is not the store's clock.
    pub(crate) fn fixed_us(&self) -> Option<u64> {
        self.given_us.or_else(|| Some(self.inner.own_time.as_ref()?.carried()))
    }

    /// When a value expires that is written now with the lifetime `ttl`.
    pub(crate) fn expiry_after(&self, ttl: Duration) -> Expiry {
        self.now_us().saturating_add(u64::try_from(ttl.as_micros()).unwrap_or(u64::MAX))
    }

    /// For a write that relies on values that were read: the first of them expires at `expiry`. It does not, at a time
    /// that stands still.
    pub(super) fn lasting(&self, expiry: Option<Expiry>) -> Lasting<'_> {
        self.store.log().lasting(expiry.filter(|_| self.fixed_us().is_none()))
    }
}
