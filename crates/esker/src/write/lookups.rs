//! Writes that may have overwritten a huge value, in the order of their sequence numbers (rule 12). The old value of
//! each has to be looked up.
//!
//! A lookup is queued in the critical section that gives its write a sequence number. Therefore, when all writes up to
//! a number are visible, all their lookups are in the queue or done.

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};

use crate::cursor::SeqNo;
use crate::ranges::KeyRange;
use crate::state::TreeInner;

/// The search for the values that a write has overwritten. The write was to a key that may have held a huge value, or
/// it has deleted a range.
#[derive(Debug)]
pub(crate) struct Lookup {
    pub(crate) tree: Arc<TreeInner>,
    pub(crate) what: What,
    pub(crate) seq: SeqNo,
}

/// The key or the range that was written.
#[derive(Debug)]
pub(crate) enum What {
    Key(Vec<u8>),
    Range(KeyRange),
}

/// See the module's comment.
#[derive(Debug, Default)]
pub(crate) struct LookupQueue {
    lookups: Mutex<VecDeque<Lookup>>,
}

/// Holds the queue, with memory for some lookups: adding them cannot fail. Held until they have their numbers.
#[derive(Debug)]
pub(crate) struct ReservedLookups<'a> {
    queue: MutexGuard<'a, VecDeque<Lookup>>,
    lookups: Vec<Lookup>,
}

impl LookupQueue {
    /// Reserves memory for `lookups`. Their sequence numbers are still their places in a batch.
    pub(crate) fn reserve(&self, lookups: &mut Vec<Lookup>) -> Option<ReservedLookups<'_>> {
        if lookups.is_empty() {
            return None;
        }
        let mut queue = self.lookups.lock();
        queue.reserve(lookups.len());
        Some(ReservedLookups { queue, lookups: std::mem::take(lookups) })
    }

    /// Adds a lookup that replay found.
    pub(crate) fn add(&self, lookup: Lookup) {
        self.lookups.lock().push_back(lookup);
    }

    /// Puts back the lookup that was taken last.
    pub(crate) fn put_back(&self, lookup: Lookup) {
        self.lookups.lock().push_front(lookup);
    }

    /// Forgets all lookups, because the store is closed.
    pub(crate) fn clear(&self) {
        self.lookups.lock().clear();
    }

    /// Whether no lookup is queued.
    pub(crate) fn is_empty(&self) -> bool {
        self.lookups.lock().is_empty()
    }

    /// Takes the oldest lookup if its write is at or before `limit`.
    pub(crate) fn take_up_to(&self, limit: SeqNo) -> Option<Lookup> {
        let mut queue = self.lookups.lock();
        if queue.front()?.seq > limit {
            return None;
        }
        queue.pop_front()
    }
}

impl ReservedLookups<'_> {
    /// Adds the lookups. The batch has the sequence numbers from `first` on.
    pub(crate) fn fill(mut self, first: SeqNo) {
        for lookup in self.lookups.drain(..) {
            self.queue.push_back(Lookup { seq: first + lookup.seq, ..lookup });
        }
    }
}
