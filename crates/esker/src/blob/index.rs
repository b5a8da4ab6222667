//! Where the values of an open file are, and which of them were verified and read again: 25 bytes per value.
//!
//! ```text
//! runs     values of one logical file and chunk size, one behind the other: file, salt, first place
//! places   ordinal, offset, length; ascending within a run
//! ```

use std::sync::atomic::{AtomicU8, Ordering};

use super::format::Entry;
use super::writer::footprint;

#[derive(Debug, Clone, Copy)]
struct Run {
    logical: u64,
    salt: u64,
    chunk_log2: u8,
    /// The ordinal of its first place.
    ordinal: u64,
    first: usize,
}

#[derive(Debug, Clone, Copy)]
struct Place {
    ordinal: u64,
    offset: u64,
    len: u64,
}

/// A value in its file.
#[derive(Debug, Clone, Copy)]
pub(super) struct Found {
    pub(super) logical: u64,
    pub(super) ordinal: u64,
    pub(super) salt: u64,
    pub(super) chunk_log2: u8,
    pub(super) offset: u64,
    pub(super) len: u64,
    /// Whether every chunk was verified.
    pub(super) verified: bool,
    /// Whether it was read after that.
    pub(super) read_again: bool,
}

/// The history of a value since the file was opened: nothing, verified, read after that.
const NEW: u8 = 0;
const VERIFIED: u8 = 1;
const READ_AGAIN: u8 = 2;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Index {
    runs: Vec<Run>,
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
    pub(super) fn new(entries: &[Entry]) -> Self {
        let mut sorted: Vec<&Entry> = entries.iter().collect();
        sorted.sort_by_key(|entry| (entry.logical, entry.ordinal));
        sorted.dedup_by_key(|entry| (entry.logical, entry.ordinal));
        let mut index = Index::default();
        index.places.reserve_exact(sorted.len());
        index.past.reserve_exact(sorted.len());
        for entry in sorted {
            index.push(entry);
        }
        index
    }

    /// Adds an entry behind all others: its logical file is greater, or its ordinal is greater in the last logical
    /// file.
    pub(super) fn push(&mut self, entry: &Entry) {
        let Entry { logical, salt, chunk_log2, ordinal, .. } = *entry;
        let continues = |run: &Run| (run.logical, run.salt, run.chunk_log2) == (logical, salt, chunk_log2);
        if !self.runs.last().is_some_and(continues) {
            self.runs.push(Run { logical, salt, chunk_log2, ordinal, first: self.places.len() });
        }
        self.taken = self.taken.saturating_add(entry.footprint());
        self.estimate = self.estimate.saturating_add(footprint(entry.len));
        self.places.push(Place { ordinal, offset: entry.offset, len: entry.len });
        self.past.push(AtomicU8::new(NEW));
    }

    /// The place of a value, if the file has it.
    fn slot(&self, logical: u64, ordinal: u64) -> Option<(&Run, usize)> {
        let after = self.runs.partition_point(|run| (run.logical, run.ordinal) <= (logical, ordinal));
        let run = self.runs.get(after.checked_sub(1)?).filter(|run| run.logical == logical)?;
        let end = self.runs.get(after).map_or(self.places.len(), |next| next.first);
        let places = &self.places[run.first..end];
        // If no ordinal is missing, the ordinal tells the place.
        let guess = usize::try_from(ordinal - run.ordinal).ok();
        let guessed = guess.filter(|&at| places.get(at).is_some_and(|place| place.ordinal == ordinal));
        let at = match guessed {
            Some(at) => at,
            None => places.binary_search_by_key(&ordinal, |place| place.ordinal).ok()?,
        };
        Some((run, run.first + at))
    }

    pub(super) fn find(&self, logical: u64, ordinal: u64) -> Option<Found> {
        let (run, slot) = self.slot(logical, ordinal)?;
        let Place { offset, len, .. } = self.places[slot];
        let Run { salt, chunk_log2, .. } = *run;
        let past = self.past[slot].load(Ordering::Acquire);
        let (verified, read_again) = (past >= VERIFIED, past >= READ_AGAIN);
        Some(Found { logical, ordinal, salt, chunk_log2, offset, len, verified, read_again })
    }

    /// About how many bytes the values take without the values `gone` of the logical file, and how many of `gone` there
    /// are.
    pub(super) fn needed(&self, logical: u64, gone: impl Iterator<Item = u64>) -> (u64, usize) {
        let lens =
            gone.filter_map(|ordinal| self.slot(logical, ordinal)).map(|(_, slot)| self.places[slot].len);
        let (count, estimate) = lens.fold((0, 0), |(count, sum), len| (count + 1, sum + footprint(len)));
        // This assumes that the keys of `gone` are as long as the others.
        let left = u128::from(self.estimate.saturating_sub(estimate));
        let needed = u128::from(self.taken) * left / u128::from(self.estimate.max(1));
        (u64::try_from(needed).unwrap_or(u64::MAX), count)
    }

    /// Notes that every chunk of a value was verified.
    pub(super) fn set_verified(&self, logical: u64, ordinal: u64) {
        self.advance(logical, ordinal, NEW, VERIFIED);
    }

    /// Notes that a verified value was read again.
    pub(super) fn set_read_again(&self, logical: u64, ordinal: u64) {
        self.advance(logical, ordinal, VERIFIED, READ_AGAIN);
    }

    /// No step may be left out: reading a value again does not verify it.
    fn advance(&self, logical: u64, ordinal: u64, from: u8, to: u8) {
        if let Some((_, slot)) = self.slot(logical, ordinal) {
            let moved = self.past[slot].compare_exchange(from, to, Ordering::AcqRel, Ordering::Relaxed);
            // A value that is further on, or not as far, stays there.
            moved.ok();
        }
    }
}
