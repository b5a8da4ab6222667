//! Which of the open tables have their filter in memory.
//!
//! A get queries one table of each run until it finds its key. Therefore each run gets about as many reads, whatever
//! its size. A table's filter saves more reads the smaller its run is, and costs the same. If not all filters fit,
//! those of larger runs give way to those of smaller runs: filters of large runs mostly save gets of absent keys. A
//! table that was opened without its filter stays without it until memory is free; otherwise gets would take turns in
//! reading whole filters. Tables that were not read for some seconds are closed to make room for tables that are read.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::tables::TableFile;
use crate::fs::open_files::{OpenFiles, Reopenable};
use crate::table::TableReader;

/// One part in this many of the memory stays free of filters that were left out before.
const KEPT_FREE: u64 = 4;

/// When memory is short, tables that were not read for this time, or up to twice this time, are closed. With a much
/// shorter time, gets of random keys would close the tables that the next gets need.
const IDLE_US: u64 = 10_000_000;

#[derive(Debug)]
pub(super) struct FilterRoom {
    open: Arc<OpenFiles<TableFile>>,
    memory_max: u64,
    /// When idle tables were last looked for, in microseconds of the monotonic clock.
    swept_us: AtomicU64,
}

impl FilterRoom {
    /// The room of `memory_max` bytes that the tables of `open` have.
    pub(super) fn new(open: &Arc<OpenFiles<TableFile>>, memory_max: usize) -> Self {
        FilterRoom { open: Arc::clone(open), memory_max: memory_max as u64, swept_us: AtomicU64::new(0) }
    }

    fn free(&self) -> u64 {
        self.open.room() as u64
    }

    /// Whether the filter of a table of `rank` may be read into memory along with its index. To make room, this closes
    /// idle tables, and then tables that have their filters, which are later opened without them. The tables of the
    /// largest runs are closed first. For the index it closes any of them; for the filter only those of larger runs.
    pub(super) fn make(&self, filter: u64, index: u64, rank: u8, now_us: u64) -> bool {
        if filter + index > self.free() {
            self.close_idle(now_us);
        }
        if filter + index <= self.free() {
            return true;
        }
        let with_filters = self.tables().filter(|(_, reader)| reader.has_filter());
        let with_filters = with_filters.map(|(file, reader)| (file.rank(), reader.memory() as u64, file));
        let mut with_filters: Vec<_> = with_filters.collect();
        with_filters.sort_by_key(|(rank, ..)| std::cmp::Reverse(*rank));
        let larger = with_filters.iter().filter(|(other, ..)| *other > rank);
        let fits = filter + index <= self.free() + larger.map(|(_, bytes, _)| bytes).sum::<u64>();
        let wanted = if fits { filter + index } else { index };
        for (.., file) in with_filters {
            if wanted <= self.free() {
                break;
            }
            self.open.close(&file);
        }
        fits
    }

    /// Closes tables that were opened without their filter, if there is room for their filters now: they are opened
    /// with them again. The tables of the smallest runs come first. A part of the memory stays free for new tables.
    pub(super) fn use_free(&self, now_us: u64) {
        if self.tables().any(|(_, reader)| reader.filter_left_out() > 0) {
            self.close_idle(now_us);
        }
        let mut free = self.free().saturating_sub(self.memory_max / KEPT_FREE);
        let bare = self.tables().map(|(file, reader)| (file.rank(), reader.filter_left_out(), file));
        let mut bare: Vec<_> = bare.filter(|(_, left_out, _)| (1..=free).contains(left_out)).collect();
        bare.sort_by_key(|(rank, ..)| *rank);
        for (_, bytes, file) in bare {
            if bytes <= free {
                free -= bytes;
                self.open.close(&file);
            }
        }
    }

    /// Closes tables that were not read since the last call, if that was long enough ago.
    fn close_idle(&self, now_us: u64) {
        let swept_us = self.swept_us.load(Ordering::Relaxed);
        let is_due = now_us.saturating_sub(swept_us) >= IDLE_US;
        let swap = |to| self.swept_us.compare_exchange(swept_us, to, Ordering::Relaxed, Ordering::Relaxed);
        if is_due && swap(now_us).is_ok() {
            let idle = self.open.files().filter(|file| !file.slot().take_used());
            idle.for_each(|file| self.open.close(&file));
        }
    }

    fn tables(&self) -> impl Iterator<Item = (Arc<TableFile>, Arc<TableReader>)> + use<> {
        self.open.files().filter_map(|file| file.slot().peek().map(|reader| (file, reader)))
    }
}
