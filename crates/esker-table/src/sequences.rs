//! Sequence numbers: they order the writes to a row, also across crashes.
//!
//! The store keeps a bound that no number which was given out has reached. An opening begins there, so a number is never given
//! out twice, whatever a crash has lost.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use esker::{Batch, Tree, keys};
use esker_journal::Journal;

use crate::error::{Error, Result};

/// The bound is raised by so many: once in a million writes it is made durable.
const AHEAD: u64 = 1 << 20;

/// No store gets there: a higher bound is damage.
const BOUND_MAX: u64 = u64::MAX / 2;

/// The key of the bound in the catalog's tree.
const BOUND_KEY: &[u8] = b"sequence bound";

pub(crate) struct Sequences {
    next: AtomicU64,
    /// Numbers below this one may be given out. Raised under `raising`, after the store has it durably.
    bound: AtomicU64,
    raising: Mutex<()>,
}

impl Sequences {
    /// Goes on where the numbers of the openings before have ended.
    pub(crate) fn open(catalog: &Tree) -> Result<Sequences> {
        let bound = match catalog.get_vec(BOUND_KEY)? {
            None => 1,
            Some(bytes) => keys::decode_u64(&bytes)
                .ok()
                .filter(|bound| *bound <= BOUND_MAX)
                .ok_or_else(|| Error::Damaged("the bound of the sequence numbers is none".to_owned()))?,
        };
        Ok(Sequences { next: AtomicU64::new(bound), bound: AtomicU64::new(bound), raising: Mutex::new(()) })
    }

    /// The first of `count` numbers, which are higher than all that were given out before.
    pub(crate) fn take(&self, journal: &dyn Journal, catalog: &Tree, count: u64) -> Result<u64> {
        let first = self.next.fetch_add(count, Ordering::Relaxed);
        let end = first.saturating_add(count);
        if end > self.bound.load(Ordering::Acquire) {
            let _raising = self.raising.lock().unwrap_or_else(PoisonError::into_inner);
            if end > self.bound.load(Ordering::Acquire) {
                let bound = end.saturating_add(AHEAD);
                let mut batch = Batch::new();
                // Deletes need numbers, on a full disk too.
                batch.mark_as_deleting();
                batch.put(catalog, BOUND_KEY, keys::u64(bound))?;
                journal.propose_durably(journal.ground(), &mut batch).wait()?;
                self.bound.store(bound, Ordering::Release);
            }
        }
        Ok(first)
    }
}

#[cfg(test)]
mod tests {
    use esker::Db;
    use esker_journal::Local;

    use super::*;

    #[test]
    fn numbers_rise_across_openings() {
        let db = Db::open_in_memory(esker::Options::default()).unwrap();
        let catalog = db.tree("tables").unwrap();
        let mut behind = 0;
        for count in [1, 5, AHEAD - 1, AHEAD, 3 * AHEAD, 1] {
            // As after a crash: nobody has said how far the opening before has come.
            let sequences = Sequences::open(&catalog).unwrap();
            for count in [count, 1, count] {
                let first = sequences.take(&Local::new(&db), &catalog, count).unwrap();
                assert!(first >= behind);
                behind = first + count;
            }
        }
    }

    #[test]
    fn a_bound_that_is_no_number_is_damage() {
        let db = Db::open_in_memory(esker::Options::default()).unwrap();
        let catalog = db.tree("tables").unwrap();
        for bound in [b"seven".to_vec(), keys::u64(u64::MAX - 1).to_vec()] {
            catalog.put(BOUND_KEY, bound).unwrap();
            assert!(matches!(Sequences::open(&catalog), Err(Error::Damaged(_))));
        }
    }
}
