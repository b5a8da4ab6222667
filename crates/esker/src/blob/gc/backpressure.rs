//! How far writers are ahead of the garbage collection of huge values.
//!
//! A disk takes bytes faster than it syncs them and frees them, and one thread gives back the space that all other
//! threads overwrite. The *backlog* is the space of values that no reader sees and that is not given back yet. It is
//! bounded: a put of a huge value that finds too large a backlog waits until as many bytes were given back as it
//! writes. Values that snapshots see or a reader reads are not part of the backlog, since their space cannot be given
//! back. Deletes, puts of small values and renames never wait: they add little.
//!
//! ```text
//! allowed backlog: a quarter of what is live in blob files, and what tables, log and reserve leave of five
//!                  eighths of a blob file's greatest length; a quarter of that length in any case
//! ```

use std::sync::atomic::{AtomicU64, Ordering};

/// See the module's comment. All figures are bytes.
#[derive(Debug, Default)]
pub(crate) struct Backpressure {
    /// Huge values that were put since the last check.
    put: AtomicU64,
    /// Bytes of values that no reader sees and that are not given back yet; sometimes a little less.
    backlog: AtomicU64,
    /// Bytes for which writers need not wait any more, since the store was opened: given back, or left to a rewrite.
    given_back: AtomicU64,
    /// The greatest backlog that is allowed, from the last listing of the directory; 0 before the first. A store with
    /// few overwrites never needs it.
    limit: AtomicU64,
}

impl Backpressure {
    /// Notes that a huge value of `len` bytes is about to be put. Returns how many bytes were put since this last
    /// returned a number, once they are at least `step`.
    pub(crate) fn put(&self, len: u64, step: u64) -> Option<u64> {
        self.put.fetch_add(len, Ordering::Relaxed);
        (self.put.load(Ordering::Relaxed) >= step).then(|| self.put.swap(0, Ordering::Relaxed))
    }

    /// Notes that no reader sees values of `len` bytes any more.
    pub(super) fn add(&self, len: u64) {
        self.backlog.fetch_add(len, Ordering::Relaxed);
    }

    /// The backlog now. A successful round of giving space back has given back all of it.
    pub(crate) fn backlog(&self) -> u64 {
        self.backlog.load(Ordering::Relaxed)
    }

    pub(crate) fn given_back(&self) -> u64 {
        self.given_back.load(Ordering::Relaxed)
    }

    pub(crate) fn give_back(&self, len: u64) {
        let less = |backlog: u64| Some(backlog.saturating_sub(len));
        let _before = self.backlog.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
        self.given_back.fetch_add(len, Ordering::Relaxed);
    }

    /// Whether the backlog is within the limit. Returns `None` if the limit was never set.
    pub(crate) fn is_within_limit(&self) -> Option<bool> {
        let limit = self.limit.load(Ordering::Relaxed);
        (limit > 0).then(|| self.backlog() <= limit)
    }

    /// Sets the limit of a store whose blob files take `blobs` bytes on the disk, and its other files `others`. `unit`
    /// is a quarter of a blob file's greatest length.
    pub(crate) fn set_limit(&self, unit: u64, blobs: u64, others: u64) {
        let live = blobs.saturating_sub(self.backlog());
        let limit = (live / 4).saturating_add(5 * unit / 2).saturating_sub(others).max(unit).max(1);
        self.limit.store(limit, Ordering::Relaxed);
    }
}
