//! The cost of reads on useless entries: deleted, overwritten, expired. When reads have passed some for each entry of
//! the memtable, a copy without them pays (`store/flusher/clean.rs`). When they have passed some for each part of the
//! tables around them, a merge of these pays (`store/compactor/passed.rs`).
//!
//! To pass an entry takes 40 to 100 ns. To copy one within memory takes some 250 ns, and a merge rewrites some 250 bytes
//! in a microsecond. Therefore readers wait for dead entries at most about as long as the background works on them, in
//! memory, and a third of that in tables, where the work also wears the disk.
//!
//! If work leaves out less than half of the entries that one read has passed, it did not help the read, for example
//! because of a snapshot. The next such work costs twice as much.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::Mutex;

use crate::cursor::SeqNo;

/// How many entries reads pass for each entry of the memtable before it is copied.
const PASSED_FOR_EACH: u64 = if cfg!(debug_assertions) { 1 } else { 4 };

/// Fewer passed entries than this cause no copy. Tests have few entries.
const PASSED_MIN: u64 = if cfg!(debug_assertions) { 16 } else { 4096 };

/// How many bytes of merging a read pays for by passing one entry of a table.
const PASSED_PAYS: u64 = 32;

/// The fixed cost of a merge and the flush before it, in bytes of merging.
const MERGE_COSTS: u64 = if cfg!(debug_assertions) { 1 << 10 } else { 1 << 20 };

/// The most that the price rises while work leaves out little.
const PRICE_MAX: u64 = 64;

/// The price after work at the price `raised` + 1 that has left out `left_out` entries, where one read had passed `most`.
fn raised_after(raised: u64, left_out: u64, most: u64) -> u64 {
    if left_out > 0 && left_out >= most / 2 { 0 } else { (2 * raised + 1).min(PRICE_MAX - 1) }
}

/// The entries that reads have passed in the memtable.
#[derive(Debug, Default)]
pub(crate) struct PassedCost {
    passed: AtomicU64,
    /// The most that one read has passed.
    most: AtomicU64,
    /// How many times the usual price a copy costs, less one.
    raised: AtomicU64,
    is_due: AtomicBool,
}

impl PassedCost {
    /// Notes that a read has passed `passed` entries of a memtable with `entries`. Returns whether a copy has become due,
    /// once for each copy.
    pub(crate) fn note(&self, passed: u64, entries: usize) -> bool {
        let sum = self.passed.fetch_add(passed, Ordering::Relaxed).saturating_add(passed);
        self.most.fetch_max(passed, Ordering::Relaxed);
        let price = (entries as u64).saturating_mul(PASSED_FOR_EACH).max(PASSED_MIN);
        let raised = self.raised.load(Ordering::Relaxed);
        sum >= price.saturating_mul(raised + 1) && !self.is_due.swap(true, Ordering::Relaxed)
    }

    /// The same for a read that cannot begin a copy: the next one does.
    pub(crate) fn add(&self, passed: u64) {
        if passed > 0 {
            self.passed.fetch_add(passed, Ordering::Relaxed);
        }
    }

    /// Notes that a copy was made that left out `left_out` entries. `None` if it could not be made.
    pub(crate) fn note_copied(&self, left_out: Option<usize>) {
        let most = self.most.swap(0, Ordering::Relaxed);
        if let Some(left_out) = left_out {
            let raised = raised_after(self.raised.load(Ordering::Relaxed), left_out as u64, most);
            self.raised.store(raised, Ordering::Relaxed);
        }
        self.passed.store(0, Ordering::Relaxed);
        self.is_due.store(false, Ordering::Relaxed);
    }
}

/// The entries that one read has passed in tables.
#[derive(Debug, Default)]
pub(crate) struct PassedKeys {
    pub(crate) smallest: Vec<u8>,
    pub(crate) largest: Vec<u8>,
    pub(crate) passed: u64,
}

impl PassedKeys {
    /// Extends the range of passed keys to `key`.
    pub(crate) fn reach(&mut self, key: &[u8]) {
        if self.largest.is_empty() || key < self.smallest.as_slice() {
            self.smallest.clear();
            self.smallest.extend_from_slice(key);
        }
        if key > self.largest.as_slice() {
            self.largest.clear();
            self.largest.extend_from_slice(key);
        }
    }

    /// Clears the passed entries. Keeps its memory.
    pub(crate) fn clear(&mut self) {
        self.smallest.clear();
        self.largest.clear();
        self.passed = 0;
    }

    fn meets(&self, other: &PassedKeys) -> bool {
        self.smallest <= other.largest && other.smallest <= self.largest
    }
}

/// The entries that reads have passed in the tables of a tree, among the keys where they have passed most.
#[derive(Debug, Default)]
pub(crate) struct PassedInTables {
    noted: Mutex<Option<Box<Noted>>>,
}

#[derive(Debug, Default)]
struct Noted {
    keys: PassedKeys,
    /// The most that one read has passed.
    most: u64,
    /// The sum at which the next look is due.
    look_at: u64,
    raised: u64,
    /// The oldest snapshot when a merge had left out little: while that snapshot exists, another merge would not help.
    held_by: Option<SeqNo>,
    /// A flush was begun, up to this number, so that the merge finds the entries that hide the passed ones.
    flushed: Option<SeqNo>,
}

/// Entries that a merge should leave out.
#[derive(Debug)]
pub(crate) struct Due {
    pub(crate) smallest: Vec<u8>,
    pub(crate) largest: Vec<u8>,
    /// The most bytes of tables and memtables that may be read and written for it.
    pub(crate) bytes: u64,
    /// A flush was begun up to this number.
    pub(crate) flushed: Option<SeqNo>,
}

impl PassedInTables {
    /// Notes the entries that a read has passed. Returns whether it is time to check if a merge is due.
    pub(crate) fn note(&self, read: &PassedKeys) -> bool {
        let mut noted = self.noted.lock();
        let noted = noted.get_or_insert_default();
        noted.most = noted.most.max(read.passed);
        let keys = &mut noted.keys;
        if keys.meets(read) {
            keys.reach(&read.smallest);
            keys.reach(&read.largest);
            keys.passed = keys.passed.saturating_add(read.passed);
        } else if keys.passed > read.passed {
            // Of several places, only the one where reads pass most is kept.
            keys.passed -= read.passed;
            return false;
        } else {
            keys.clear();
            keys.reach(&read.smallest);
            keys.reach(&read.largest);
            keys.passed = read.passed;
            (noted.look_at, noted.flushed) = (0, None);
        }
        let least = MERGE_COSTS.saturating_mul(noted.raised + 1) / PASSED_PAYS;
        let is_due = noted.keys.passed >= least.max(noted.look_at);
        if is_due {
            noted.look_at = noted.keys.passed.saturating_add(noted.keys.passed / 4);
        }
        is_due
    }

    /// What a merge may cost, and where. `None` if no entry was passed, or if `oldest`, the oldest snapshot, has kept a
    /// merge from leaving out anything.
    pub(crate) fn due(&self, oldest: Option<SeqNo>) -> Option<Due> {
        let mut noted = self.noted.lock();
        let noted = noted.as_mut().filter(|noted| noted.keys.passed > 0)?;
        if noted.held_by.is_some() && noted.held_by == oldest {
            // Entries that are passed before the next look do not count for the merge.
            (noted.keys.passed, noted.look_at) = (0, 0);
            return None;
        }
        let bytes = noted.keys.passed.saturating_mul(PASSED_PAYS) / (noted.raised + 1);
        let (smallest, largest) = (noted.keys.smallest.clone(), noted.keys.largest.clone());
        Some(Due { smallest, largest, bytes: bytes.saturating_sub(MERGE_COSTS), flushed: noted.flushed })
    }

    /// A flush was begun up to the number `seq`.
    pub(crate) fn note_flush(&self, seq: SeqNo) {
        if let Some(noted) = &mut *self.noted.lock() {
            noted.flushed = Some(seq);
        }
    }

    /// A merge has left out `left_out` entries, while `oldest` was the oldest snapshot.
    pub(crate) fn note_merged(&self, left_out: u64, oldest: Option<SeqNo>) {
        let mut noted = self.noted.lock();
        let Some(before) = noted.take() else { return };
        let raised = raised_after(before.raised, left_out, before.most);
        if raised > 0 {
            let held_by = oldest;
            *noted = Some(Box::new(Noted { raised, held_by, ..Noted::default() }));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_that_leave_out_little_are_made_less_often() {
        let cost = PassedCost::default();
        let paid = || (1..).find(|_| cost.note(1000, 10_000)).map(|times: u64| times * 1000);
        let price = 10_000 * PASSED_FOR_EACH;
        assert_eq!(paid(), Some(price));
        assert!(!cost.note(1 << 40, 10_000), "it is due only once");
        for times in [2, 4, 8] {
            cost.note_copied(Some(100));
            assert_eq!(paid(), Some(price * times));
        }
        cost.note_copied(None);
        assert_eq!(paid(), Some(price * 8), "a copy that could not be made says nothing");
        cost.note_copied(Some(500));
        assert_eq!(paid(), Some(price));
        (0..20).for_each(|_| cost.note_copied(Some(0)));
        assert_eq!(paid(), Some(price * PRICE_MAX));
        cost.note_copied(Some(1000));
        assert!(!cost.note(PASSED_MIN - 1, 10) && cost.note(1, 10));
    }

    fn read(smallest: &str, largest: &str, passed: u64) -> PassedKeys {
        PassedKeys { smallest: smallest.into(), largest: largest.into(), passed }
    }

    #[test]
    fn what_was_passed_most_is_due() {
        let cost = PassedInTables::default();
        let least = MERGE_COSTS / PASSED_PAYS;
        assert!(cost.due(None).is_none());
        assert!(!cost.note(&read("m", "n", least - 1)));
        assert!(!cost.note(&read("a", "b", least - 2)), "another place");
        assert!(cost.note(&read("k", "m", least)));
        assert!(!cost.note(&read("k", "m", 1)), "it was looked at");
        let due = cost.due(None).unwrap();
        assert_eq!((&due.smallest[..], &due.largest[..]), (&b"k"[..], &b"n"[..]));
        assert_eq!(due.bytes, (least + 2) * PASSED_PAYS - MERGE_COSTS);
        assert!(cost.note(&read("c", "d", 10 * least)), "a place that costs more");
        assert_eq!(cost.due(None).unwrap().smallest, b"c");
    }

    #[test]
    fn what_a_snapshot_holds_is_not_merged_again() {
        let cost = PassedInTables::default();
        let least = MERGE_COSTS / PASSED_PAYS;
        assert!(cost.note(&read("a", "b", least)));
        cost.note_merged(0, Some(7));
        assert!(!cost.note(&read("a", "b", least)), "twice as much");
        assert!(cost.note(&read("a", "b", least)));
        assert!(cost.due(Some(8)).is_some() && cost.due(None).is_some() && cost.due(Some(7)).is_none());
        assert!(cost.due(None).is_none(), "it has to be paid for again");
        assert!(cost.note(&read("a", "b", 2 * least)) && cost.due(None).is_some());
        cost.note_merged(least, None);
        assert!(cost.due(None).is_none());
        assert!(cost.note(&read("a", "b", least)), "the usual price");
    }
}
