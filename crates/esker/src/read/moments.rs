//! Moments of the store that must stay readable.
//!
//! A merge may drop an old version of a key only when no registered moment needs it. The newest visible
//! moment counts as registered: it is taken under the same lock that registers snapshots, so a snapshot
//! that is taken later is at least as new.
//!
//! A moment is a sequence number **and** a time, and the two must fit: a write that counts because something had not
//! expired yet lies before the expiry, so nobody may see a moment that has the expiry and not the write. Such a write
//! ([`Lasting`]) says at which time it was judged; until readers see it no moment gets a later one. There is one at a time,
//! since it is judged while no other write is under way.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;

use crate::canary::broken;
use crate::compact::retain::Moments;
use crate::cursor::{Expiry, SeqNo};
use crate::env::SteadyClock;
use crate::write::commit::Commit;

/// The registered moments.
#[derive(Debug, Default)]
pub(crate) struct SnapshotRegistry {
    held: Mutex<Held>,
    /// How many of them are a user's snapshots.
    snapshots: AtomicUsize,
}

#[derive(Debug, Default)]
struct Held {
    /// How many snapshots and scans hold each sequence number, and the time at which they were taken.
    moments: BTreeMap<(SeqNo, u64), usize>,
    /// The last number before a [`Lasting`] write that readers may not see yet, and the time at which it was judged.
    judged: Option<(SeqNo, u64)>,
}

impl Held {
    fn hold(&mut self, seq: SeqNo, time_us: u64) {
        *self.moments.entry((seq, time_us)).or_insert(0) += 1;
    }
}

/// The newest visible number, and a time at which it was that. Read one behind the other the two may belong to no moment: a
/// value would seem to have expired that was written over before, by a write that is not seen.
pub(crate) fn moment(commit: &Commit, clock: &SteadyClock) -> (SeqNo, u64) {
    loop {
        let (seq, now) = (commit.visible(), clock.now_us());
        if commit.visible() == seq {
            return (seq, now);
        }
    }
}

impl SnapshotRegistry {
    /// Holds the newest visible number, and the time.
    pub(crate) fn register(&self, commit: &Commit, clock: &SteadyClock) -> (SeqNo, u64) {
        let mut held = self.held.lock();
        let (seq, now) = moment(commit, clock);
        let judged = held.judged.filter(|&(before, _)| seq <= before);
        let time_us = judged.map_or(now, |(_, judged_us)| judged_us.min(now));
        held.hold(seq, time_us);
        (seq, time_us)
    }

    /// Holds the newest visible number, and a time that is held already.
    pub(crate) fn register_at(&self, commit: &Commit, time_us: u64) -> SeqNo {
        let mut held = self.held.lock();
        let seq = commit.visible();
        held.hold(seq, time_us);
        seq
    }

    pub(crate) fn release(&self, seq: SeqNo, time_us: u64) {
        let mut held = self.held.lock();
        if let Some(count) = held.moments.get_mut(&(seq, time_us)) {
            *count -= 1;
            if *count == 0 {
                held.moments.remove(&(seq, time_us));
            }
        }
    }

    /// Every moment that must stay readable.
    pub(crate) fn moments(&self, commit: &Commit, clock: &SteadyClock) -> Moments {
        let held = self.held.lock();
        let mut seqs: Vec<SeqNo> = held.moments.keys().map(|(seq, _)| *seq).collect();
        seqs.dedup();
        let visible = commit.visible();
        if seqs.last() != Some(&visible) {
            seqs.push(visible);
        }
        let judged = held.judged.map(|(_, time_us)| time_us);
        let earliest = held.moments.keys().map(|(_, time_us)| *time_us).chain(judged).min();
        // Later readers read the clock later. Only a write that was judged has an earlier time.
        let now = clock.now_us();
        let time_us =
            if broken("rule-17") { now } else { earliest.map_or(now, |earliest| earliest.min(now)) };
        Moments { seqs, time_us }
    }

    /// The registered moments alone, ascending. One that is registered later is at least the newest visible
    /// moment of now.
    pub(crate) fn registered(&self) -> Vec<SeqNo> {
        let mut seqs: Vec<SeqNo> = self.held.lock().moments.keys().map(|(seq, _)| *seq).collect();
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

/// A write that counts only if values which were read have not expired, from its making until readers see it.
#[derive(Debug)]
pub(crate) struct Lasting<'a> {
    registry: &'a SnapshotRegistry,
    commit: &'a Commit,
    clock: &'a SteadyClock,
    /// When the first of the values expires, if any does.
    expiry: Option<Expiry>,
    judged: Cell<Option<(SeqNo, u64)>>,
}

impl<'a> Lasting<'a> {
    pub(crate) fn new(
        registry: &'a SnapshotRegistry,
        commit: &'a Commit,
        clock: &'a SteadyClock,
        expiry: Option<Expiry>,
    ) -> Lasting<'a> {
        Lasting { registry, commit, clock, expiry, judged: Cell::new(None) }
    }

    /// Whether all of them are still there. Asked while no write is under way; the next one is this one.
    pub(crate) fn holds(&self) -> bool {
        let Some(expiry) = self.expiry.filter(|_| !broken("txn-expiry")) else { return true };
        let mut held = self.registry.held.lock();
        let judged = (self.commit.visible(), self.clock.now_us());
        if judged.1 >= expiry {
            return false;
        }
        held.judged = Some(judged);
        self.judged.set(held.judged);
        true
    }
}

impl Drop for Lasting<'_> {
    fn drop(&mut self) {
        if let Some(judged) = self.judged.get() {
            let mut held = self.registry.held.lock();
            // Readers see it, or it was not written; the next one may have been judged.
            held.judged = held.judged.filter(|&other| other != judged);
        }
    }
}
