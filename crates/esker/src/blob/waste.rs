//! What blob files take beyond what is needed, and which of them is best written anew.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::rewrite::Rewrite;
use super::{BlobFileId, BlobSet, LiveFile};
use crate::error::{Error, ErrorKind, Result};

impl BlobSet {
    /// Whether values of `bytes` in all were erased since this last said so.
    pub(crate) fn has_erased(&self, bytes: u64) -> bool {
        let erased = self.erased.load(Ordering::Relaxed);
        if erased >= bytes {
            self.erased.fetch_sub(erased, Ordering::Relaxed);
        }
        erased >= bytes
    }

    /// What the blob files take, what of that nobody needs, and of the files that `may_go` the one whose rewriting
    /// wins most.
    pub(crate) fn waste(&self, may_go: &BTreeSet<BlobFileId>) -> Result<Waste> {
        let mut waste = Waste::default();
        let mut worst = (0, 1);
        for live in self.files() {
            let Ok((needed, gone)) = live.needed_bytes() else { continue };
            waste.needed += needed;
            // Without that, a file written anew could be so again and again.
            if live.single || gone == 0 || !live.is_rewritable() || !may_go.contains(&live.id) {
                continue;
            }
            let taken = match self.env.fs.allocated_bytes(&self.path_of(live.id)) {
                Err(error) if error.kind() == ErrorKind::NotFound => continue,
                taken => taken?,
            };
            let gain = taken.saturating_sub(needed);
            waste.bytes += gain;
            // The most bytes won for each that is written.
            let better = u128::from(gain) * u128::from(worst.1) > u128::from(worst.0) * u128::from(needed);
            if better && gain > needed / 32 {
                worst = (gain, needed);
                waste.worst = Some((live, needed));
            }
        }
        Ok(waste)
    }

    /// Whether the file has a copy while somebody reads it, so that it must keep its name for now.
    pub(crate) fn is_held_up(&self, live: &LiveFile) -> Result<bool> {
        Ok(live.life.lock().is_pinned() && self.env.fs.link_count(&self.path_of(live.id))? > 1)
    }

    /// Begins to write `live` anew with the values that are not `gone`.
    ///
    /// # Errors
    /// `Corruption` where it does not show all of them: then it is to stay as it is.
    pub(crate) fn begin_rewrite(&self, live: &Arc<LiveFile>, gone: impl Fn(u64) -> bool) -> Result<Rewrite> {
        let mut entries = self.entries(live)?;
        entries.retain(|entry| !gone(entry.ordinal));
        let path = self.path_of(live.id);
        let held: BTreeSet<u64> = entries.iter().map(|entry| entry.ordinal).collect();
        let named = live.life.lock().entries;
        if (0..named).any(|ordinal| !gone(ordinal) && !held.contains(&ordinal)) {
            return Err(Error::corruption(&path, 0, "expected all values of the blob file"));
        }
        Rewrite::begin(&self.env.fs, live, &path, entries)
    }
}

/// See [`BlobSet::waste`].
#[derive(Debug, Default)]
pub(crate) struct Waste {
    pub(crate) needed: u64,
    pub(crate) bytes: u64,
    /// With the bytes that it needs.
    pub(crate) worst: Option<(Arc<LiveFile>, u64)>,
}
