//! Delays writers that overwrite huge values faster than their space is given back.
//!
//! A disk takes bytes faster than it syncs them and frees them, and one thread gives back what all others end. The
//! *debt* is the space of values that have ended and is not given back yet. It is bounded: a put of a huge value that
//! finds too much debt waits until as much was given back as it writes. Values that snapshots see or a reader reads are
//! not debt, since nobody could give their space back. Deletes, puts of small values and renames never wait: they add
//! little.
//!
//! ```text
//! may be owed:  a quarter of what is live in blob files, and what tables, log and reserve leave of five
//!               eighths of a blob file's greatest length; a quarter of that length in any case
//! ```

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::Store;
use crate::blob::blob_number;
use crate::env::Lane;
use crate::error::Result;
use crate::fs::gone;
use crate::trace::{Cause, Operation, Subject, perf_context};

/// The account of ended values.
#[derive(Debug, Default)]
pub(crate) struct Debt {
    /// How many bytes of huge values were put since the last check.
    put: AtomicU64,
    /// How many bytes of values that nobody sees are not given back yet; sometimes a little less.
    owed: AtomicU64,
    /// How many bytes were given back since the store was opened.
    paid: AtomicU64,
    /// How many bytes may be owed, from the last listing of the directory.
    limit: AtomicU64,
    /// Whether the limit was computed. A store with few overwrites never needs it.
    limited: AtomicBool,
}

impl Debt {
    /// Notes that values of `len` bytes have ended.
    pub(super) fn owe(&self, len: u64) {
        self.owed.fetch_add(len, Ordering::Relaxed);
    }

    /// The debt now. A successful round of giving space back has given back all of it.
    pub(super) fn owed(&self) -> u64 {
        self.owed.load(Ordering::Relaxed)
    }

    /// How many bytes were given back since the store was opened.
    pub(super) fn paid(&self) -> u64 {
        self.paid.load(Ordering::Relaxed)
    }

    fn pay(&self, len: u64) {
        let less = |owed: u64| Some(owed.saturating_sub(len));
        // It never fails.
        let _ = self.owed.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
        self.paid.fetch_add(len, Ordering::Relaxed);
    }
}

impl Store {
    /// Waits while the debt is too large. `coming` bytes of a huge value are about to be written.
    pub(crate) fn wait_for_space(&self, coming: u64) -> Result<()> {
        let debt = &self.ending.debt;
        let unit = self.options.blob_file_bytes / 4;
        debt.put.fetch_add(coming, Ordering::Relaxed);
        if debt.put.load(Ordering::Relaxed) < unit / 4 {
            return Ok(());
        }
        let put = debt.put.swap(0, Ordering::Relaxed);
        // The blob lane meets this error too, and reports it.
        if self.settle_blobs(self.commit.visible()).is_err() {
            return Ok(());
        }
        let unflushed = self.trees_that_keep_space();
        if !unflushed.is_empty() {
            self.flush_trees(unflushed.iter())?;
            self.notify(Lane::Blobs);
        }
        if debt.owed() <= unit {
            return Ok(());
        }
        let fits = || debt.owed() <= debt.limit.load(Ordering::Relaxed);
        if debt.limited.swap(true, Ordering::Relaxed) && fits() {
            return Ok(());
        }
        // Puts since the last listing may allow more.
        self.set_debt_limit()?;
        if fits() {
            return Ok(());
        }
        let enough = debt.paid().saturating_add(put);
        self.notify(Lane::Blobs);
        // If the disk gives nothing back now, waiting does not help: there is room for the put, or there is not.
        perf_context::begin();
        let wait = || self.wait_until(|| fits() || debt.paid() >= enough || self.health.has_failed());
        let waited = perf_context::waiting(&*self.env.clock, Cause::Space, wait);
        if perf_context::are_there() {
            self.metrics.end(Operation::Write, Subject::none);
        }
        waited
    }

    /// Notes that `bytes` of the debt were given back.
    pub(super) fn has_paid(&self, bytes: u64) {
        if bytes > 0 {
            self.ending.debt.pay(bytes);
            self.health.signal();
        }
    }

    /// Called when a round has succeeded: everything owed at its beginning is given back. `owed` and `paid_before` are
    /// from its beginning.
    pub(super) fn settle_debt(&self, owed: u64, paid_before: u64) -> Result<()> {
        let debt = &self.ending.debt;
        let paid = debt.paid() - paid_before;
        self.has_paid(owed.saturating_sub(paid));
        // The store may have become small, so the limit may be lower for the next put.
        if owed.max(paid) >= self.options.blob_file_bytes / 4 && debt.limited.load(Ordering::Relaxed) {
            self.set_debt_limit()?;
        }
        Ok(())
    }

    fn set_debt_limit(&self) -> Result<()> {
        let unit = self.options.blob_file_bytes / 4;
        let (mut blobs, mut others) = (0_u64, 0_u64);
        for name in self.env.fs.list(&self.dir)? {
            let sum = if blob_number(&name).is_some() { &mut blobs } else { &mut others };
            *sum = sum.saturating_add(gone::allocated_bytes(&*self.env.fs, &self.dir.join(&name))?);
        }
        let live = blobs.saturating_sub(self.ending.debt.owed());
        let limit = (live / 4).saturating_add(5 * unit / 2).saturating_sub(others).max(unit);
        self.ending.debt.limit.store(limit, Ordering::Relaxed);
        Ok(())
    }
}
