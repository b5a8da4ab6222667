//! What a flush or a merge learns about operands from entries outside its inputs ([`crate::compact::operands`]).
//!
//! One load of the tree's state shows every entry older than the key range in question, and all operands above it that
//! were written before the flush or the merge began. It does not show yet what other flushes and merges write, but it
//! does show their inputs. Operands that are written later have a later time than all that this flush or merge drops
//! ([`crate::state::operand_times`]).

use super::CommitLog;
use super::alone::Inputs;
use crate::compact::operands::Surroundings;
use crate::compact::retain::ReadPoints;
use crate::cursor::{Expiry, SeqNo};
use crate::operators::Below;
use crate::read::operands::{expiry_below, has_operands};
use crate::state::TreeInner;

pub(super) struct Around<'a> {
    tree: &'a TreeInner,
    inputs: Inputs<'a>,
    /// Whether operands of the tree may have times.
    has_times: bool,
}

impl<'a> Around<'a> {
    /// For a flush or a merge of `inputs`, which keeps what `points` see.
    pub(super) fn begin(
        log: &CommitLog,
        tree: &'a TreeInner,
        inputs: Inputs<'a>,
        points: &ReadPoints,
    ) -> Around<'a> {
        let has_times = tree.operand_times.drop_by(points.time_us);
        if has_times {
            drop(log.commit().lock_quiet());
        }
        Around { tree, inputs, has_times }
    }
}

impl Surroundings for Around<'_> {
    fn below(&self, key: &[u8], seq: SeqNo) -> Below {
        match expiry_below(&self.tree.state.load(), key, seq) {
            Ok(Some(expiry)) => Below::Expires(expiry),
            Ok(None) => Below::Lasts,
            // The operands stay as they are.
            Err(_) => Below::Unknown,
        }
    }

    fn has_operands(&self, key: &[u8], seq: SeqNo, expiry: Expiry) -> bool {
        let state = self.tree.state.load();
        let counts = (|mem: &_| !self.inputs.has_mem(mem), |table: &_| !self.inputs.reads(table));
        self.has_times && has_operands(&state, &counts, key, seq, expiry).unwrap_or(true)
    }
}
