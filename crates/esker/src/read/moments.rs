//! Moments of the store that must stay readable.
//!
//! A merge may drop an old version of a key only when no registered moment needs it. The newest visible
//! moment counts as registered: it is taken under the same lock that registers snapshots, so a snapshot
//! that is taken later is at least as new.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;

use crate::canary::broken;
use crate::compact::retain::Moments;
use crate::cursor::SeqNo;
use crate::env::SteadyClock;
use crate::write::commit::Commit;

/// The registered moments.
#[derive(Debug, Default)]
pub(crate) struct SnapshotRegistry {
    /// How many snapshots and scans hold each sequence number, and the time at which they were taken.
    held: Mutex<BTreeMap<(SeqNo, u64), usize>>,
    /// How many of them are a user's snapshots.
    snapshots: AtomicUsize,
}

impl SnapshotRegistry {
    /// Holds the newest visible number, and the time.
    pub(crate) fn register(&self, commit: &Commit, clock: &SteadyClock) -> (SeqNo, u64) {
        let mut held = self.held.lock();
        let (seq, time_us) = (commit.visible(), clock.now_us());
        *held.entry((seq, time_us)).or_insert(0) += 1;
        (seq, time_us)
    }

    pub(crate) fn release(&self, seq: SeqNo, time_us: u64) {
        let mut held = self.held.lock();
        if let Some(count) = held.get_mut(&(seq, time_us)) {
            *count -= 1;
            if *count == 0 {
                held.remove(&(seq, time_us));
            }
        }
    }

    /// Every moment that must stay readable.
    pub(crate) fn moments(&self, commit: &Commit, clock: &SteadyClock) -> Moments {
        let held = self.held.lock();
        let mut seqs: Vec<SeqNo> = held.keys().map(|(seq, _)| *seq).collect();
        seqs.dedup();
        let visible = commit.visible();
        if seqs.last() != Some(&visible) {
            seqs.push(visible);
        }
        let earliest = held.keys().map(|(_, time_us)| *time_us).min();
        // Whoever registers later, or reads without, reads the clock later.
        let now = clock.now_us();
        let time_us =
            if broken("rule-17") { now } else { earliest.map_or(now, |earliest| earliest.min(now)) };
        Moments { seqs, time_us }
    }

    /// The registered moments alone, ascending. One that is registered later is at least the newest visible
    /// moment of now.
    pub(crate) fn registered(&self) -> Vec<SeqNo> {
        let mut seqs: Vec<SeqNo> = self.held.lock().keys().map(|(seq, _)| *seq).collect();
        seqs.dedup();
        seqs
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
