//! Holds up who overwrites huge values faster than their space is given back.
//!
//! A disk takes bytes faster than it syncs them and takes them back, and one thread gives back what all others end. So
//! what has ended and is not given back, the debt, is bounded: from a quarter of a blob file's greatest length and a
//! sixteenth of what the blob files take on, a put of a huge value waits until as much was given back as it brings. What
//! snapshots see or somebody reads is no debt, since nobody could pay it; deletes never wait.

use std::sync::atomic::{AtomicU64, Ordering};

use super::Store;
use crate::env::Lane;
use crate::error::{ErrorKind, Result};

/// What has ended and what became of it.
#[derive(Debug, Default)]
pub(crate) struct Debt {
    /// Bytes of huge values that were put since somebody last looked.
    put: AtomicU64,
    /// Bytes of values that nobody sees any more and that are not given back.
    owed: AtomicU64,
    /// Bytes that were given back since the store was opened.
    paid: AtomicU64,
    /// What the blob files took when the blob lane last looked.
    taken: AtomicU64,
}

impl Debt {
    /// A value of `len` bytes has ended.
    pub(super) fn owe(&self, len: u64) {
        self.owed.fetch_add(len, Ordering::Relaxed);
    }

    /// What there is now; a round of giving space back that ends well has given back all of it.
    pub(super) fn owed(&self) -> u64 {
        self.owed.load(Ordering::Relaxed)
    }

    pub(super) fn pay(&self, len: u64) {
        let less = |owed: u64| Some(owed.saturating_sub(len));
        // It never fails.
        let _ = self.owed.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
        self.paid.fetch_add(len, Ordering::Relaxed);
    }
}

impl Store {
    /// Waits while too much has ended and is not given back; `coming` bytes of a huge value are about to be written.
    pub(crate) fn wait_for_space(&self, coming: u64) -> Result<()> {
        let debt = &self.ending.debt;
        let unit = self.options.blob_file_bytes / 4;
        let put = debt.put.fetch_add(coming, Ordering::Relaxed) + coming;
        if put < unit / 4 {
            return Ok(());
        }
        debt.put.fetch_sub(put, Ordering::Relaxed);
        self.settle_blobs(self.commit.visible())?;
        let limit = || unit + debt.taken.load(Ordering::Relaxed) / 16;
        if debt.owed() <= limit() {
            return Ok(());
        }
        let enough = debt.paid.load(Ordering::Relaxed) + put;
        self.notify(Lane::Blobs);
        self.wait_until(|| debt.owed() <= limit() || debt.paid.load(Ordering::Relaxed) >= enough)
    }

    /// Some of what is owed was given back.
    pub(super) fn has_paid(&self, bytes: u64) {
        if bytes > 0 {
            self.ending.debt.pay(bytes);
            self.signal_progress();
        }
    }

    /// A round ends well that began when `owed` bytes were owed and `paid_before` had been given back: all of that is.
    pub(super) fn settle_debt(&self, owed: u64, paid_before: u64) -> Result<()> {
        let debt = &self.ending.debt;
        if owed == 0 {
            return Ok(());
        }
        debt.pay(owed.saturating_sub(self.paid() - paid_before));
        if owed >= self.options.blob_file_bytes / 4 {
            debt.taken.store(self.blob_bytes_taken()?, Ordering::Relaxed);
        }
        self.signal_progress();
        Ok(())
    }

    /// Bytes that were given back since the store was opened.
    pub(super) fn paid(&self) -> u64 {
        self.ending.debt.paid.load(Ordering::Relaxed)
    }

    fn blob_bytes_taken(&self) -> Result<u64> {
        let mut sum = 0;
        for live in self.blobs.files() {
            match self.env.fs.allocated_bytes(&self.blobs.path_of(live.id)) {
                // Gone since, or lost before.
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                taken => sum += taken?,
            }
        }
        Ok(sum)
    }
}
