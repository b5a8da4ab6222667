//! Trees whose writes skip the log (rule 21): a flush makes their memtables durable.
//!
//! A flush takes all memtables of a tree, in their order. Therefore a crash leaves everything that was written up to
//! some moment, which differs between trees. In such a tree, a new huge value counts, and an old one is overwritten,
//! from the flush of the write on. Before that the manifest has the new one as pending, and the old one stays.

use std::sync::Arc;

use super::Flusher;
use crate::canary::broken;
use crate::error::{Error, ErrorKind, Result};
use crate::space::{is_full, shown};
use crate::state::TreeInner;

/// How many trees a message names.
const NAMED_MAX: usize = 20;

impl Flusher {
    /// Makes trees that skip the log durable.
    pub(crate) fn flush_volatile(&self) -> Result<()> {
        let trees = self.versions.trees();
        self.flush_trees(trees.iter().filter(|tree| tree.is_volatile()))
    }

    /// Ends all writes, and flushes trees that skip the log while the store still can.
    pub(in crate::store) fn flush_when_closing(&self) -> Result<()> {
        self.log.commit().end_writes();
        if self.core.health.is_closing() || broken("rule-21-close") {
            return Ok(());
        }
        self.flush_volatile().map_err(|error| if is_full(&error) { self.full_for_volatile() } else { error })
    }

    /// The error of a close if the disk has no room to flush trees that skip the log.
    fn full_for_volatile(&self) -> Error {
        let trees = self.versions.trees();
        let (mut names, mut bytes) = (Vec::new(), 0);
        for tree in trees.iter().filter(|tree| tree.is_volatile() && !tree.is_dropped()) {
            names.push(tree.name.as_str());
            let state = tree.state.load();
            bytes += std::iter::once(&state.mem)
                .chain(&state.immutable)
                .map(|mem| mem.table.entry_memory() as u64)
                .sum::<u64>();
        }
        let more = if names.len() > NAMED_MAX {
            format!(" and {} more", names.len() - NAMED_MAX)
        } else {
            String::new()
        };
        names.truncate(NAMED_MAX);
        let message = format!(
            "the disk is full: {} free, and some {} that trees without the log held in memory found no room: what was \
             written since the last flush to {names:?}{more} is lost; everything else is there",
            self.disk.space().shown_free(),
            shown(bytes),
        );
        Error::new(ErrorKind::OutOfSpace, message).at(&self.core.dir)
    }

    /// When this returns, everything written to `tree`, and everything in the log, survives power loss.
    pub(crate) fn make_durable(&self, tree: &Arc<TreeInner>) -> Result<()> {
        if tree.is_dropped() {
            return Err(tree.dropped_error());
        }
        self.log.sync_published()?;
        if tree.log { Ok(()) } else { self.flush_trees(std::iter::once(tree)) }
    }
}
