//! The time that decides whether a tree's values have expired.

use std::borrow::Cow;
use std::time::{Duration, SystemTime};

use super::Tree;
use crate::cursor::Expiry;
use crate::env::us_at;
use crate::read::snapshots::Lasting;
use crate::version::edit::CLOCK_MAX;

impl Tree {
    /// A handle of the same tree whose reads and writes happen at `time_us`, in microseconds since 1970 (at most 2^62):
    ///
    /// - Its reads find the values that have not expired by then. So do conditional writes, writes that read, and reads
    ///   of snapshots and transactions through this handle.
    /// - [`Tree::put_for`] counts from then.
    /// - If the tree takes its time from its writes ([`ExpiryClock::Writes`](crate::ExpiryClock)), each write carries
    ///   this time, also in a batch or a transaction, and in the bytes of an encoded batch.
    ///
    /// Values that have expired by the tree's clock may be gone, though they lived at `time_us`. If the tree takes its
    /// time from its writes, no read or write is judged by an earlier time than these have carried. A read in a snapshot
    /// is: give it the time that the tree had when the snapshot was taken.
    ///
    /// A conditional write that writes nothing carries nothing, and neither does a bulk load. Time that is carried frees
    /// space once it has been flushed.
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

    /// The time by which values expire for this handle now, in microseconds since 1970: that of the tree's clock
    /// ([`TreeOptions::expiry_clock`](crate::TreeOptions::expiry_clock)), or the one that the handle was given. If the
    /// tree takes its time from its writes, it is the later of the two.
    pub fn time_us(&self) -> u64 {
        self.now_us()
    }

    /// How far the tree's clock for expiry is ahead of the machine's clock, in microseconds; 0 for less than a second.
    /// The machine's clock was that far ahead once, by mistake ([`Stats::clock_ahead_us`](crate::Stats)). To convert a
    /// moment of the machine's clock to the tree's clock, add this. It is 0 for a tree that takes its time from its
    /// writes, and for a handle that was given a time.
    pub fn clock_ahead_us(&self) -> u64 {
        if self.fixed_us().is_some() { 0 } else { self.store.clock().offset_us() }
    }

    pub(super) fn now_us(&self) -> u64 {
        self.fixed_us().unwrap_or_else(|| self.store.clock().now_us())
    }

    /// The time by which values expire for this handle, if it is not the store's clock. If the tree takes its time from
    /// its writes, this is never before their time: values that one replica has dropped by then must be expired on all.
    pub(crate) fn fixed_us(&self) -> Option<u64> {
        let carried = self.inner.own_time.as_ref().map(|own| own.carried());
        self.given_us.max(carried)
    }

    /// The time by which values expire for a reader of a snapshot. The time given to the handle counts, since the
    /// snapshot may be older than the writes that the tree's time comes from.
    pub(super) fn fixed_in_snapshot_us(&self) -> Option<u64> {
        self.given_us.or_else(|| self.fixed_us())
    }

    /// The same handle with its time fixed now, if the tree takes it from its writes. Call this before a read point is
    /// taken: a read point that is taken later includes the writes that the time comes from.
    pub(crate) fn at_fixed_time(&self) -> Cow<'_, Tree> {
        match self.inner.own_time {
            Some(_) => Cow::Owned(Tree { given_us: self.fixed_us(), ..self.clone() }),
            None => Cow::Borrowed(self),
        }
    }

    /// The time that the handle was given.
    pub(crate) fn given_us(&self) -> Option<u64> {
        self.given_us
    }

    /// Whether the tree takes its time from its writes.
    pub(crate) fn has_own_time(&self) -> bool {
        self.inner.own_time.is_some()
    }

    /// Whether a value that this handle has read may expire before a write that relies on it.
    pub(crate) fn goes_on(&self) -> bool {
        self.given_us.is_none() || self.has_own_time()
    }

    /// The time that would decide expiry after a crash now.
    pub(super) fn flushed_us(&self) -> u64 {
        let flushed = self.inner.own_time.as_ref().map(|own| own.flushed());
        self.given_us.max(flushed).unwrap_or_else(|| self.store.clock().now_us())
    }

    /// Whether the tree takes its time from its writes, and they have carried `time_us`. The caller ensures that no
    /// write is under way.
    pub(crate) fn has_carried(&self, time_us: u64) -> bool {
        let Some(own) = &self.inner.own_time else { return false };
        let state = self.inner.state.load();
        // A write that has just ended may not have updated the tree's time yet.
        let in_memory = state.immutable.iter().chain([&state.mem]).map(|mem| mem.time_us());
        in_memory.fold(own.carried(), u64::max) >= time_us
    }

    /// When a value expires that is written now with the lifetime `ttl`.
    pub(crate) fn expiry_after(&self, ttl: Duration) -> Expiry {
        self.now_us().saturating_add(u64::try_from(ttl.as_micros()).unwrap_or(u64::MAX))
    }

    /// For a write that relies on values that were read: the first of them expires at `expiry`.
    pub(super) fn lasting(&self, expiry: Option<Expiry>) -> Lasts<'_> {
        let expiry = expiry.filter(|_| self.goes_on());
        let (own, of_store) = if self.has_own_time() { (expiry, None) } else { (None, expiry) };
        Lasts { lasting: self.store.log().lasting(of_store), own: own.map(|expiry| (self, expiry)) }
    }
}

/// A write that counts only if the values that it relies on have not expired, by the store's clock or the tree's.
#[derive(Debug)]
pub(super) struct Lasts<'a> {
    lasting: Lasting<'a>,
    own: Option<(&'a Tree, Expiry)>,
}

impl Lasts<'_> {
    /// As [`Lasting::holds`].
    pub(super) fn holds(&self) -> bool {
        self.own.is_none_or(|(tree, expiry)| !tree.has_carried(expiry)) && self.lasting.holds()
    }
}
