//! Where the values of an open file are, and which of them were verified and read again: 25 bytes per value.

use std::sync::atomic::{AtomicU8, Ordering};

use super::format::Entry;
use super::writer::footprint;

#[derive(Debug, Clone, Copy)]
struct Place {
    ordinal: u64,
    offset: u64,
    len: u64,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Found {
    pub(super) ordinal: u64,
    pub(super) offset: u64,
    pub(super) len: u64,
    pub(super) verified: bool,
    /// Whether it was read after that.
    pub(super) read_again: bool,
}

/// The history of a value since the file was opened: nothing, verified, read after that.
const NEW: u8 = 0;
const VERIFIED: u8 = 1;
const READ_AGAIN: u8 = 2;

#[derive(Debug, Default)]
pub(super) struct Index {
    /// By ordinal.
    places: Vec<Place>,
    /// The history of each value. It only rises.
    past: Vec<AtomicU8>,
    /// How many bytes the values take in the file, with their descriptors, sums and entries.
    taken: u64,
    /// The same, estimated by [`footprint`].
    estimate: u64,
}

impl Index {
    /// An index of entries in any order.
    pub(super) fn new(entries: &[Entry], chunk_log2: u8) -> Self {
        let mut sorted: Vec<&Entry> = entries.iter().collect();
        sorted.sort_by_key(|entry| entry.ordinal);
        sorted.dedup_by_key(|entry| entry.ordinal);
        let mut index = Index::default();
        index.places.reserve_exact(sorted.len());
        index.past.reserve_exact(sorted.len());
        for entry in sorted {
            index.push(entry, chunk_log2);
        }
        index
    }

    /// Adds an entry whose ordinal is greater than all others.
    pub(super) fn push(&mut self, entry: &Entry, chunk_log2: u8) {
        self.taken = self.taken.saturating_add(entry.footprint(chunk_log2));
        self.estimate = self.estimate.saturating_add(footprint(entry.len));
        self.places.push(Place { ordinal: entry.ordinal, offset: entry.offset, len: entry.len });
        self.past.push(AtomicU8::new(NEW));
    }

    /// Where in `places` a value is, if the file has it.
    fn slot(&self, ordinal: u64) -> Option<usize> {
        // If no ordinal after the first one is missing, the ordinal gives the place.
        let guess = usize::try_from(ordinal.checked_sub(self.places.first()?.ordinal)?).ok();
        let guessed = guess.filter(|&at| self.places.get(at).is_some_and(|place| place.ordinal == ordinal));
        guessed.or_else(|| self.places.binary_search_by_key(&ordinal, |place| place.ordinal).ok())
    }

    pub(super) fn find(&self, ordinal: u64) -> Option<Found> {
        let slot = self.slot(ordinal)?;
        let Place { offset, len, .. } = self.places[slot];
        let past = self.past[slot].load(Ordering::Acquire);
        let (verified, read_again) = (past >= VERIFIED, past >= READ_AGAIN);
        Some(Found { ordinal, offset, len, verified, read_again })
    }

    /// About how many bytes the values without `gone` take, and how many of `gone` the file has.
    pub(super) fn needed(&self, gone: impl Iterator<Item = u64>) -> (u64, usize) {
        let lens = gone.filter_map(|ordinal| self.slot(ordinal)).map(|slot| self.places[slot].len);
        let (count, estimate) = lens.fold((0, 0), |(count, sum), len| (count + 1, sum + footprint(len)));
        // This assumes that the keys of `gone` are as long as the others.
        let left = u128::from(self.estimate.saturating_sub(estimate));
        let needed = u128::from(self.taken) * left / u128::from(self.estimate.max(1));
        (u64::try_from(needed).unwrap_or(u64::MAX), count)
    }

    pub(super) fn set_verified(&self, ordinal: u64) {
        self.advance(ordinal, NEW, VERIFIED);
    }

    pub(super) fn set_read_again(&self, ordinal: u64) {
        self.advance(ordinal, VERIFIED, READ_AGAIN);
    }

    /// No step may be left out: reading a value again does not verify it.
    fn advance(&self, ordinal: u64, from: u8, to: u8) {
        if let Some(slot) = self.slot(ordinal) {
            let moved = self.past[slot].compare_exchange(from, to, Ordering::AcqRel, Ordering::Relaxed);
            // A value in another state keeps it.
            moved.ok();
        }
    }
}
