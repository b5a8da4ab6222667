//! Sequence numbers: they order the writes to a row, also across crashes.
//!
//! The catalog keeps a bound above all numbers in the store, and an opening begins there. Each entry of the journal takes its
//! numbers in this opening. If they reach beyond the bound, the entry itself raises the bound ([`Taken::enter`]); nothing is
//! written ahead of it.
//!
//! ```text
//! bound 100:  entry 98..100    entry 101..103, bound 103 + AHEAD    entry 104..105
//!                              holds `raising` until it is decided  waited for it
//! ```
//! No number is in the store twice:
//! - An entry has numbers below a bound that it carries itself, or that an entry carries which was done before it was
//!   proposed. The entries of a journal take effect in the order of their proposals, and power loss leaves a beginning of the
//!   log: the trees of a store never hold what its log can still lose. So whichever entries survive, the bound is above the
//!   numbers in all of them. No entry has to be durable for that.
//! - The bound never falls: one entry at a time carries a bound, and is decided while it holds `raising`. Its bound is above all
//!   numbers that were taken by then. If it is refused, or its end is unknown, the next one carries a bound that is as high or higher.
//! - A number is visible only with its entry. If the entry is refused or lost, the number is in no store, and a later opening
//!   may give it out.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use esker::{Batch, Tree};

use crate::catalog::{self, Change};
use crate::error::Result;

/// How far the bound is raised above the numbers that need it: one entry in about a million writes carries a bound.
const AHEAD: u64 = 1 << 20;

pub(crate) struct Sequences {
    next: AtomicU64,
    /// A bound that an entry carries which is done.
    bound: AtomicU64,
    /// Held by the one entry that carries a bound, until it is decided. Taken after all other locks of tables.
    raising: Mutex<()>,
}

/// Numbers for one entry. If they are dropped, the entry was refused, or not proposed.
#[must_use]
pub(crate) struct Taken<'s> {
    /// The first of them.
    pub(crate) first: u64,
    raised: Option<Raised<'s>>,
}

/// The bound that an entry has to carry.
struct Raised<'s> {
    to: u64,
    sequences: &'s Sequences,
    _raising: MutexGuard<'s, ()>,
}

impl Sequences {
    /// Goes on where the numbers of the openings before have ended.
    pub(crate) fn open(catalog: &Tree) -> Result<Sequences> {
        let bound = catalog::bound(catalog)?.unwrap_or(1);
        Ok(Sequences { next: AtomicU64::new(bound), bound: AtomicU64::new(bound), raising: Mutex::new(()) })
    }

    /// `count` numbers for an entry. They are higher than all that were taken before. Waits while another entry raises the
    /// bound, if it has to be raised for these.
    pub(crate) fn take(&self, count: u64) -> Taken<'_> {
        let first = self.next.fetch_add(count, Ordering::Relaxed);
        let end = first.saturating_add(count);
        let raised = if end > self.bound.load(Ordering::Acquire) { self.raise(end) } else { None };
        Taken { first, raised }
    }

    /// Numbers begin at a bound that an entry carries which was proposed elsewhere.
    pub(crate) fn follow(&self, bound: u64) {
        let _raising = self.raising.lock().unwrap_or_else(PoisonError::into_inner);
        if bound > self.bound.load(Ordering::Acquire) {
            self.next.fetch_max(bound, Ordering::Relaxed);
            self.bound.store(bound, Ordering::Release);
        }
    }

    #[cold]
    fn raise(&self, end: u64) -> Option<Raised<'_>> {
        let raising = self.raising.lock().unwrap_or_else(PoisonError::into_inner);
        let is_below = end > self.bound.load(Ordering::Acquire);
        // Entries with higher numbers may have carried a bound whose end is not known: it must not fall.
        let highest = self.next.load(Ordering::Relaxed).max(end);
        is_below.then(|| Raised { to: highest.saturating_add(AHEAD), sequences: self, _raising: raising })
    }
}

impl Taken<'_> {
    /// Puts into the entry what it has to carry for its numbers.
    pub(crate) fn enter(&self, catalog: &Tree, batch: &mut Batch) -> Result<()> {
        match &self.raised {
            Some(raised) => Change::Bound(raised.to).enter(catalog, batch),
            None => Ok(()),
        }
    }

    /// The entry is done.
    pub(crate) fn done(self) {
        if let Some(raised) = self.raised {
            raised.sequences.bound.store(raised.to, Ordering::Release);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::AtomicBool;

    use esker::env::Env;
    use esker::fs::sim::SimFs;
    use esker::{Db, Options, keys};

    use super::*;

    /// An entry with so many numbers. Returns the end of its numbers.
    fn write(db: &Db, sequences: &Sequences, count: u64) -> u64 {
        let (taken, mut batch) = (sequences.take(count), Batch::new());
        taken.enter(&db.tree("tables").unwrap(), &mut batch).unwrap();
        let (first, end) = (taken.first, taken.first + count);
        std::thread::yield_now();
        batch.put(db.default_tree(), keys::u64(first), keys::u64(end)).unwrap();
        db.write(&batch).unwrap();
        taken.done();
        end
    }

    #[test]
    fn numbers_rise_across_openings() {
        let db = Db::open_in_memory(Options::default()).unwrap();
        let catalog = db.tree("tables").unwrap();
        let mut end = 0;
        for count in [1, 5, AHEAD - 1, AHEAD, 3 * AHEAD, 1] {
            // As after a crash: nothing in the store tells how far the opening before has come.
            let sequences = Sequences::open(&catalog).unwrap();
            for count in [count, 1, count] {
                let next = write(&db, &sequences, count);
                assert!(next - count >= end);
                end = next;
            }
        }
    }

    #[test]
    fn numbers_of_an_entry_that_is_refused_raise_nothing() {
        let db = Db::open_in_memory(Options::default()).unwrap();
        let catalog = db.tree("tables").unwrap();
        let sequences = Sequences::open(&catalog).unwrap();
        drop(sequences.take(5));
        assert_eq!(catalog::bound(&catalog).unwrap(), None);
        // The next entry carries the bound for all of them.
        let end = write(&db, &sequences, 1);
        assert_eq!((end, catalog::bound(&catalog).unwrap()), (7, Some(7 + AHEAD)));
        // Entries below the bound write none.
        catalog.delete("sequence bound").unwrap();
        write(&db, &sequences, AHEAD);
        assert_eq!(catalog::bound(&catalog).unwrap(), None);
        assert_eq!(write(&db, &sequences, 1), end + AHEAD + 1);
        assert!(catalog::bound(&catalog).unwrap().is_some());
    }

    #[test]
    fn an_entry_above_the_bound_waits_for_the_one_that_raises_it() {
        let db = Db::open_in_memory(Options::default()).unwrap();
        let catalog = db.tree("tables").unwrap();
        let sequences = Sequences::open(&catalog).unwrap();
        for is_done in [true, false] {
            let raising = sequences.take(AHEAD + 5);
            assert!(raising.raised.is_some());
            let (is_over, has_waited) = (AtomicBool::new(false), AtomicBool::new(false));
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    let taken = sequences.take(1);
                    has_waited.store(is_over.load(Ordering::SeqCst), Ordering::SeqCst);
                    // Without a bound in the store, it carries one itself.
                    assert_eq!(taken.raised.is_none(), is_done);
                });
                (0..20).for_each(|_| test_kit::pause());
                is_over.store(true, Ordering::SeqCst);
                if is_done { raising.done() } else { drop(raising) }
            });
            assert!(has_waited.load(Ordering::SeqCst));
        }
    }

    /// Entries of several threads, of which power loss leaves some: the bound is above the numbers of all that are left.
    #[test]
    fn the_bound_is_above_all_numbers_that_a_power_cut_leaves() {
        for seed in test_kit::seeds(30) {
            let mut disk = SimFs::new(seed);
            for cut in 0..3 {
                let env = Env { fs: Arc::new(disk.clone()), ..Env::system() };
                let options = Options::default().memory_budget(8 << 20).memtable_bytes(4 << 10).env(env);
                let db = Db::open("store", options).unwrap();
                let catalog = db.tree("tables").unwrap();
                let sequences = Sequences::open(&catalog).unwrap();
                let (mut end, mut pairs) = (0, 0);
                for pair in db.default_tree().scan(..).unwrap() {
                    let (first, next) = pair.unwrap();
                    // No range of numbers was given out twice, not even in part.
                    assert!(keys::decode_u64(&first).unwrap() >= end, "seed {seed}, cut {cut}");
                    (end, pairs) = (keys::decode_u64(&next).unwrap(), pairs + 1);
                }
                let bound = sequences.bound.load(Ordering::Relaxed);
                assert!(bound >= end && (pairs == 0 || bound > 1), "seed {seed}, cut {cut}: {bound} {end}");
                std::thread::scope(|scope| {
                    for thread in 0..4_u64 {
                        let (db, sequences) = (&db, &sequences);
                        scope.spawn(move || {
                            for round in 0..20 + seed % 7 {
                                let count = 1 + (seed * 31 + thread * 7 + round) * 7919 % (AHEAD / 2);
                                write(db, sequences, count);
                            }
                        });
                    }
                });
                if seed % 3 == cut {
                    db.default_tree().flush().unwrap();
                }
                // Closing would sync the log.
                disk = disk.crash(seed * 10 + cut);
                drop((catalog, db));
            }
        }
    }
}
