//! A tree at one read point, for readers that make scans of it later or several times.

use std::any::Any;
use std::sync::Arc;

use super::meter::Scanned;
use crate::cursor::SeqNo;
use crate::ranges::{Cover, KeyRange};
use crate::state::{TreeInner, TreeState};

/// Keeps a read point registered.
pub(crate) type Held = Arc<dyn Any + Send + Sync>;

/// The states of the tree `tree` at a read point.
#[derive(Clone)]
pub(crate) struct View {
    pub(crate) store: Arc<dyn Scanned>,
    pub(crate) tree: Arc<TreeInner>,
    /// They have no common key.
    pub(crate) states: Vec<Arc<TreeState>>,
    /// The read point: a sequence number and a time.
    pub(crate) point: (SeqNo, u64),
    /// `None` if the read point need not be registered.
    pub(crate) held: Option<Held>,
}

impl View {
    /// How many memtables of the states in use have been written to. A scan leaves the others out.
    pub(crate) fn written(&self) -> usize {
        self.states.iter().filter(|state| !state.mem.is_untouched()).count()
    }

    /// Releases the states that a scan would read.
    pub(crate) fn release(&mut self) {
        (self.states, self.held) = (Vec::new(), None);
    }

    /// Whether `other` has the same states.
    pub(crate) fn has_states_of(&self, other: &View) -> bool {
        self.states.len() == other.states.len()
            && self.states.iter().zip(&other.states).all(|(one, two)| Arc::ptr_eq(one, two))
    }
}

/// A scan of `states` begins, or seeks: it pays for merges of the runs of level 0 that it passes.
pub(crate) fn pay(states: &[Arc<TreeState>]) {
    for state in states {
        if let Some(cost) = state.levels.read_cost() {
            cost.note_scan(state.levels.run_places().count());
        }
    }
}

/// The part of `keys` that range tombstones hide at `seq`. The states must be those that are read: tombstones that hide
/// nothing in newer states are forgotten.
pub(crate) fn cover_of(states: &[Arc<TreeState>], keys: &KeyRange, seq: SeqNo) -> Cover {
    Cover::new(states.iter().map(|state| &state.ranges), keys, seq)
}
