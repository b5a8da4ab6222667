//! How many bytes of blob files are garbage, and which file is the best to rewrite.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::blob::rewrite::Rewrite;
use crate::blob::{BlobFileId, BlobSet, LiveFile};
use crate::error::{Error, ErrorKind, Result};

impl BlobSet {
    /// Whether values of at least `bytes` bytes in total were punched since this last returned `true`.
    pub(crate) fn take_punched(&self, bytes: u64) -> bool {
        let punched = self.punched.load(Ordering::Relaxed);
        if punched >= bytes {
            self.punched.fetch_sub(punched, Ordering::Relaxed);
        }
        punched >= bytes
    }

    /// How many bytes of the blob files are needed or garbage, and which file in `may_go` to rewrite first.
    pub(crate) fn garbage_bytes(&self, may_go: &BTreeSet<BlobFileId>) -> Result<GarbageBytes> {
        let mut sum = GarbageBytes::default();
        let mut worst = (0, 1);
        for live in self.files() {
            let Ok((needed, gone)) = live.needed_bytes() else { continue };
            sum.needed += needed;
            // Without a value to leave out, a file could be rewritten again and again.
            if live.single || gone == 0 || !live.is_rewritable() || !may_go.contains(&live.id) {
                continue;
            }
            let taken = match self.env.fs.allocated_bytes(&self.path_of(live.id)) {
                Err(error) if error.kind() == ErrorKind::NotFound => continue,
                taken => taken?,
            };
            let gain = taken.saturating_sub(needed);
            sum.garbage += gain;
            // The most bytes gained for each byte written.
            let better = u128::from(gain) * u128::from(worst.1) > u128::from(worst.0) * u128::from(needed);
            if better && gain > needed / 32 {
                worst = (gain, needed);
                sum.worst = Some((live, needed));
            }
        }
        Ok(sum)
    }

    /// Whether the file must keep its name for now, because it is being read and has a copy.
    pub(crate) fn is_held_up(&self, live: &LiveFile) -> Result<bool> {
        Ok(live.values.lock().is_pinned() && self.env.fs.link_count(&self.path_of(live.id))? > 1)
    }

    /// Begins to rewrite `live` with the values that are not `gone`.
    ///
    /// # Errors
    /// `Corruption` if the file does not show all of them: then it has to stay as it is.
    pub(crate) fn begin_rewrite(&self, live: &Arc<LiveFile>, gone: impl Fn(u64) -> bool) -> Result<Rewrite> {
        let mut entries = self.entries(live)?;
        entries.retain(|entry| !gone(entry.ordinal));
        let path = self.path_of(live.id);
        let held: BTreeSet<u64> = entries.iter().map(|entry| entry.ordinal).collect();
        let named = live.values.lock().entries();
        if (0..named).any(|ordinal| !gone(ordinal) && !held.contains(&ordinal)) {
            return Err(Error::corruption(&path, 0, "expected all values of the blob file"));
        }
        Rewrite::begin(&self.env.fs, live, &path, entries)
    }
}

#[derive(Debug, Default)]
pub(crate) struct GarbageBytes {
    pub(crate) needed: u64,
    pub(crate) garbage: u64,
    /// The file, and how many bytes it needs.
    pub(crate) worst: Option<(Arc<LiveFile>, u64)>,
}
