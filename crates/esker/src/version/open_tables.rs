//! Which tables are open, and which of these have their filter in memory, within limits.
//!
//! A get asks one table of each run until it finds its key, so each run gets about as many reads, whatever its size. A
//! table's filter saves more reads the smaller its run is, and costs the same. If not all filters fit, those of larger
//! runs give way to those of smaller runs: filters of large runs mostly save gets of absent keys. A table that was
//! opened without its filter stays without it until there is free memory; otherwise gets would take turns in reading
//! whole filters. Tables that nobody has read for some seconds are closed to make room for tables that are read.
//!
//! Locks: `open` is taken while no other lock is held, except the version lock. No [`TableFile`] is dropped under it.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;

use super::tables::TableFile;
use crate::fs::descriptors;
use crate::table::TableReader;

/// One part in this many of the memory stays free of filters that were left out before.
const KEPT_FREE: usize = 4;

/// When memory is short, tables that were not read for this time, or up to twice this time, are closed. With a much
/// shorter time, gets of random keys would close the tables that the next gets need.
const IDLE_US: u64 = 10_000_000;

/// The open tables of a store.
#[derive(Debug)]
pub(super) struct OpenTables {
    count_max: usize,
    /// How many bytes filters and indexes may take.
    memory_max: usize,
    memory: AtomicUsize,
    open: Mutex<VecDeque<Weak<TableFile>>>,
    /// When idle tables were last looked for, in microseconds of the monotonic clock.
    swept_us: AtomicU64,
    /// No table is kept open from now on. Set under `open`.
    shut: AtomicBool,
}

impl OpenTables {
    pub(super) fn new(count_max: usize, memory_max: usize) -> Self {
        let (memory, open) = (AtomicUsize::new(0), Mutex::new(VecDeque::new()));
        let (swept_us, shut) = (AtomicU64::new(0), AtomicBool::new(false));
        OpenTables { count_max: count_max.max(1), memory_max, memory, open, swept_us, shut }
    }

    /// Bytes of filters and indexes in memory.
    pub(super) fn memory(&self) -> usize {
        self.memory.load(Ordering::Relaxed)
    }

    pub(super) fn count(&self) -> usize {
        self.open.lock().iter().filter(|file| file.strong_count() > 0).count()
    }

    /// Closes all tables, and keeps none open from now on.
    pub(super) fn shut(&self) {
        let open = {
            let mut open = self.open.lock();
            self.shut.store(true, Ordering::Release);
            std::mem::take(&mut *open)
        };
        open.iter().filter_map(Weak::upgrade).for_each(|file| file.close());
    }

    pub(super) fn is_shut(&self) -> bool {
        self.shut.load(Ordering::Acquire)
    }

    /// Closes the tables that nobody reads at the moment. Returns whether there were any.
    pub(super) fn close_unread(&self) -> bool {
        // The table holds one handle; this call holds another.
        let unread =
            |file: &Arc<TableFile>| file.opened().is_some_and(|reader| Arc::strong_count(&reader) <= 2);
        let mut any = false;
        for file in self.files().filter(unread) {
            self.close(&file);
            any = true;
        }
        any
    }

    /// How many bytes are free.
    fn room(&self) -> u64 {
        self.memory_max.saturating_sub(self.memory()) as u64
    }

    /// Notes that a table that held `memory` bytes was closed.
    pub(super) fn note_closed(&self, memory: usize) {
        self.memory.fetch_sub(memory, Ordering::Relaxed);
    }

    /// Whether the filter of a table of `rank` may be read into memory along with its index. To make room, this closes
    /// idle tables, and then tables that have their filters, which are later opened without them. Those of the largest
    /// runs are closed first. For the index any of them is closed; for the filter only those of larger runs.
    pub(super) fn make_room(&self, filter: u64, index: u64, rank: u8, now_us: u64) -> bool {
        if filter + index > self.room() {
            self.close_idle(now_us);
        }
        if filter + index <= self.room() {
            return true;
        }
        let with_filters = self.files().filter_map(|file| {
            let reader = file.opened().filter(|reader| reader.has_filter())?;
            Some((file.rank(), reader.memory() as u64, file))
        });
        let mut with_filters: Vec<_> = with_filters.collect();
        with_filters.sort_by_key(|(rank, ..)| std::cmp::Reverse(*rank));
        let larger = with_filters.iter().filter(|(other, ..)| *other > rank);
        let fits = filter + index <= self.room() + larger.map(|(_, bytes, _)| bytes).sum::<u64>();
        let wanted = if fits { filter + index } else { index };
        for (.., file) in with_filters {
            if wanted <= self.room() {
                break;
            }
            self.close(&file);
        }
        fits
    }

    /// Closes tables that were not read since the last call, if that was long enough ago.
    fn close_idle(&self, now_us: u64) {
        let swept_us = self.swept_us.load(Ordering::Relaxed);
        let is_due = now_us.saturating_sub(swept_us) >= IDLE_US;
        let swap = |to| self.swept_us.compare_exchange(swept_us, to, Ordering::Relaxed, Ordering::Relaxed);
        if is_due && swap(now_us).is_ok() {
            let idle = self.files().filter(|file| !file.used.swap(false, Ordering::Relaxed));
            idle.for_each(|file| self.close(&file));
        }
    }

    fn close(&self, file: &Arc<TableFile>) {
        self.open.lock().retain(|other| other.as_ptr() != Arc::as_ptr(file));
        file.close();
    }

    /// The open tables; the lock is released before they are used.
    fn files(&self) -> impl Iterator<Item = Arc<TableFile>> + use<> {
        let open: Vec<Weak<TableFile>> = self.open.lock().iter().cloned().collect();
        open.into_iter().filter_map(|file| file.upgrade())
    }

    /// Notes that `file` is open as `reader`, unless another thread was faster. Returns the reader that is noted.
    pub(super) fn enter(&self, file: &Arc<TableFile>, reader: Arc<TableReader>) -> Arc<TableReader> {
        let (mut closed, mine) = (Vec::new(), self.count());
        let count_max = self.count_max.min(descriptors::kept_max(mine));
        {
            let mut open = self.open.lock();
            if let Some(other) = file.opened() {
                return other;
            }
            if self.is_shut() {
                return reader;
            }
            self.memory.fetch_add(reader.memory(), Ordering::Relaxed);
            file.set_opened(&reader);
            open.push_back(Arc::downgrade(file));
            if open.len() > count_max {
                // Entries of dropped files may be left.
                open.retain(|file| file.strong_count() > 0);
            }
            self.close_some(count_max, &mut open, &mut closed);
        }
        reader
    }

    /// Closes tables that were not read lately until the limits hold. Never closes the newest. `closed` gets the
    /// handles that this upgrades: they must not be dropped under the lock.
    fn close_some(
        &self,
        count_max: usize,
        open: &mut VecDeque<Weak<TableFile>>,
        closed: &mut Vec<Arc<TableFile>>,
    ) {
        let mut passes = open.len() * 2;
        while passes > 0 && open.len() > 1 && (open.len() > count_max || self.memory() > self.memory_max) {
            passes -= 1;
            let Some(candidate) = open.pop_front() else { break };
            let Some(file) = candidate.upgrade() else { continue };
            if file.used.swap(false, Ordering::Relaxed) {
                open.push_back(candidate);
            } else {
                file.close();
            }
            closed.push(file);
        }
    }

    /// Closes tables that were opened without their filter, if there is room for their filters now: they are opened
    /// with them again. Those of the smallest runs come first. A part of the memory stays free for new tables.
    pub(super) fn use_free_room(&self, now_us: u64) {
        let is_bare =
            |file: &Arc<TableFile>| file.opened().is_some_and(|reader| reader.filter_left_out() > 0);
        if self.files().any(|file| is_bare(&file)) {
            self.close_idle(now_us);
        }
        let mut room = self.room().saturating_sub((self.memory_max / KEPT_FREE) as u64);
        let bare = self.files().filter_map(|file| {
            let left_out = file.opened().map_or(0, |reader| reader.filter_left_out());
            (left_out > 0 && left_out <= room).then_some((file.rank(), left_out, file))
        });
        let mut bare: Vec<_> = bare.collect();
        bare.sort_by_key(|(rank, ..)| *rank);
        for (_, bytes, file) in bare {
            if bytes <= room {
                room -= bytes;
                self.close(&file);
            }
        }
    }
}
