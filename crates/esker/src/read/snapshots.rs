//! Read points of the store that must stay readable.
//!
//! A merge may drop an old version of a key only if no registered snapshot needs it. The newest visible read point
//! counts as registered. It is taken under the same lock that registers snapshots, so every later snapshot is
//! at least as new.
//!
//! A read point is a sequence number **and** a time, and the two must fit together. Some writes count only
//! because a value had not expired yet. Such a write comes before the expiry, so no reader may see a read point
//! that has the expiry and not the write. A [`Lasting`] write therefore records the time at which it was
//! judged. Before readers see the write, no read point gets a later time. There is at most one such write at a
//! time, since it is judged while no other write is under way.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use parking_lot::Mutex;

use crate::canary::broken;
use crate::compact::retain::ReadPoints;
use crate::cursor::{Expiry, SeqNo};
use crate::env::SteadyClock;
use crate::write::commit::Commit;

#[derive(Debug, Default)]
pub(crate) struct SnapshotRegistry {
    held: Mutex<Registered>,
    /// Set while a [`Lasting`] write is being judged, or was judged and may not be visible yet. It is set
    /// before the judge reads the clock. Therefore a reader with a later time sees the flag, or sees the write.
    judging: AtomicBool,
    /// How many registered snapshots are a user's snapshots.
    snapshots: AtomicUsize,
}

#[derive(Debug, Default)]
struct Registered {
    /// How many snapshots and scans hold each sequence number and the time at which they were taken.
    snapshots: BTreeMap<(SeqNo, u64), usize>,
    /// For a [`Lasting`] write that may not be visible yet: the last number before it, and the time at which
    /// it was judged.
    judged: Option<(SeqNo, u64)>,
}

impl Registered {
    fn hold(&mut self, seq: SeqNo, time_us: u64) {
        *self.snapshots.entry((seq, time_us)).or_insert(0) += 1;
    }
}

/// The newest visible sequence number, and a time at which it was the newest. Reading one after the other
/// could combine two read points. A value would then seem expired although an unseen write had replaced it
/// earlier.
pub(crate) fn read_point(commit: &Commit, clock: &SteadyClock) -> (SeqNo, u64) {
    loop {
        let (seq, now) = (commit.visible(), clock.now_us());
        if commit.visible() == seq {
            return (seq, now);
        }
    }
}

impl SnapshotRegistry {
    /// The newest visible number and its time ([`read_point`]), without registering them. Returns `None` while a
    /// [`Lasting`] write is judged or under way: such a read point must be registered.
    pub(crate) fn unregistered_read_point(
        &self,
        commit: &Commit,
        clock: &SteadyClock,
    ) -> Option<(SeqNo, u64)> {
        loop {
            let (seq, now) = (commit.visible(), clock.now_us());
            if self.judging.load(Ordering::SeqCst) && !broken("scan-judged") {
                return None;
            }
            if commit.visible() == seq {
                return Some((seq, now));
            }
        }
    }

    pub(crate) fn register(&self, commit: &Commit, clock: &SteadyClock) -> (SeqNo, u64) {
        let mut held = self.held.lock();
        let (seq, now) = read_point(commit, clock);
        let judged = held.judged.filter(|&(before, _)| seq <= before);
        let time_us = judged.map_or(now, |(_, judged_us)| judged_us.min(now));
        held.hold(seq, time_us);
        (seq, time_us)
    }

    /// Registers the newest visible number with a time that is already registered.
    pub(crate) fn register_at(&self, commit: &Commit, time_us: u64) -> SeqNo {
        let mut held = self.held.lock();
        let seq = commit.visible();
        held.hold(seq, time_us);
        seq
    }

    pub(crate) fn release(&self, seq: SeqNo, time_us: u64) {
        let mut held = self.held.lock();
        if let Some(count) = held.snapshots.get_mut(&(seq, time_us)) {
            *count -= 1;
            if *count == 0 {
                held.snapshots.remove(&(seq, time_us));
            }
        }
    }

    /// Every read point that must stay readable.
    pub(crate) fn read_points(&self, commit: &Commit, clock: &SteadyClock) -> ReadPoints {
        let held = self.held.lock();
        let mut seqs: Vec<SeqNo> = held.snapshots.keys().map(|(seq, _)| *seq).collect();
        seqs.dedup();
        let visible = commit.visible();
        if seqs.last() != Some(&visible) {
            seqs.push(visible);
        }
        let judged = held.judged.map(|(_, time_us)| time_us);
        let earliest = held.snapshots.keys().map(|(_, time_us)| *time_us).chain(judged).min();
        // Later readers read a later time. Only a judged write has an earlier time.
        let now = clock.now_us();
        let time_us =
            if broken("rule-17") { now } else { earliest.map_or(now, |earliest| earliest.min(now)) };
        ReadPoints { seqs, time_us }
    }

    /// Only the registered snapshots, ascending. One that is registered later is at least as new as the newest
    /// visible read point now.
    pub(crate) fn registered(&self) -> Vec<SeqNo> {
        let mut seqs: Vec<SeqNo> = self.held.lock().snapshots.keys().map(|(seq, _)| *seq).collect();
        seqs.dedup();
        seqs
    }

    pub(crate) fn newest_registered(&self) -> Option<SeqNo> {
        self.held.lock().snapshots.last_key_value().map(|((seq, _), _)| *seq)
    }

    pub(crate) fn note_opened(&self) {
        self.snapshots.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn note_closed(&self) {
        self.snapshots.fetch_sub(1, Ordering::Relaxed);
    }

    pub(crate) fn count(&self) -> usize {
        self.snapshots.load(Ordering::Relaxed)
    }
}

/// A write that counts only if the values that it relies on have not expired. It exists until readers see the
/// write.
#[derive(Debug)]
pub(crate) struct Lasting<'a> {
    registry: &'a SnapshotRegistry,
    commit: &'a Commit,
    clock: &'a SteadyClock,
    /// When the first of these values expires, if any does.
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

    /// Whether none of the values has expired. The caller ensures that no write is under way and that this
    /// write is the next one.
    pub(crate) fn holds(&self) -> bool {
        let Some(expiry) = self.expiry.filter(|_| !broken("txn-expiry")) else { return true };
        let mut held = self.registry.held.lock();
        self.registry.judging.store(true, Ordering::SeqCst);
        let judged = (self.commit.visible(), self.clock.now_us());
        if judged.1 >= expiry {
            self.registry.judging.store(held.judged.is_some(), Ordering::SeqCst);
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
            // Readers see the write, or it was not written. The next one may already have been judged.
            held.judged = held.judged.filter(|&other| other != judged);
            self.registry.judging.store(held.judged.is_some(), Ordering::SeqCst);
        }
    }
}
