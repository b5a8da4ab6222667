//! Moments of the store that must stay readable.
//!
//! A merge may drop an old version of a key only when no registered moment needs it. The newest visible
//! moment counts as registered: it is taken under the same lock that registers snapshots, so a snapshot
//! that is taken later is at least as new.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;

use crate::cursor::SeqNo;
use crate::write::commit::Commit;

/// The registered moments.
#[derive(Debug, Default)]
pub(crate) struct SnapshotRegistry {
    /// How many snapshots and scans hold each sequence number.
    held: Mutex<BTreeMap<SeqNo, usize>>,
    /// How many of them are a user's snapshots.
    snapshots: AtomicUsize,
}

impl SnapshotRegistry {
    pub(crate) fn register(&self, commit: &Commit) -> SeqNo {
        let mut held = self.held.lock();
        let seq = commit.visible();
        *held.entry(seq).or_insert(0) += 1;
        seq
    }

    pub(crate) fn release(&self, seq: SeqNo) {
        let mut held = self.held.lock();
        if let Some(count) = held.get_mut(&seq) {
            *count -= 1;
            if *count == 0 {
                held.remove(&seq);
            }
        }
    }

    /// Every moment that must stay readable, ascending; the newest visible one last.
    pub(crate) fn moments(&self, commit: &Commit) -> Vec<SeqNo> {
        let held = self.held.lock();
        let mut moments: Vec<SeqNo> = held.keys().copied().collect();
        let visible = commit.visible();
        if moments.last() != Some(&visible) {
            moments.push(visible);
        }
        moments
    }

    /// The registered moments alone, ascending. One that is registered later is at least the newest visible
    /// moment of now.
    pub(crate) fn registered(&self) -> Vec<SeqNo> {
        self.held.lock().keys().copied().collect()
    }

    /// A user's snapshot was opened.
    pub(crate) fn note_opened(&self) {
        self.snapshots.fetch_add(1, Ordering::Relaxed);
    }

    /// A user's snapshot was let go.
    pub(crate) fn note_closed(&self) {
        self.snapshots.fetch_sub(1, Ordering::Relaxed);
    }

    /// How many of a user's snapshots are open.
    pub(crate) fn count(&self) -> usize {
        self.snapshots.load(Ordering::Relaxed)
    }
}
