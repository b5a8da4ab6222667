//! Whether a flush or a merge has all keys of a range: what compaction rules ask before they drop an entry that masks
//! other keys ([`RuleContext::alone`](crate::rules::RuleContext::alone)).
//!
//! One load of the tree's state shows all memtables and tables. It does not show yet what other merges and flushes
//! write. It does show their inputs, and their output has no other keys. Later changes only add newer writes.

use std::sync::Arc;

use crate::canary::broken;
use crate::cursor::{Cursor, MAX_SEQ, SeqNo};
use crate::error::Result;
use crate::ranges::KeyRange;
use crate::state::{Mem, TreeInner};
use crate::version::levels::Table;

/// What a flush or a merge reads.
#[derive(Debug, Clone, Copy)]
pub(super) enum Inputs<'a> {
    Memtables(&'a [Arc<Mem>]),
    /// Tables with their levels.
    Tables(&'a [(usize, Arc<Table>)]),
    /// The same, and the tables that all memtables would become.
    WithMemtables(&'a [(usize, Arc<Table>)]),
}

impl Inputs<'_> {
    pub(super) fn has_mem(self, mem: &Arc<Mem>) -> bool {
        match self {
            Inputs::Memtables(mems) => mems.iter().any(|other| Arc::ptr_eq(other, mem)),
            Inputs::Tables(_) => false,
            Inputs::WithMemtables(_) => true,
        }
    }

    /// Whether it is one of these tables.
    pub(super) fn reads(self, table: &Arc<Table>) -> bool {
        self.tables().iter().any(|(_, input)| Arc::ptr_eq(input, table))
    }

    fn tables(&self) -> &[(usize, Arc<Table>)] {
        match self {
            Inputs::Memtables(_) => &[],
            Inputs::Tables(tables) | Inputs::WithMemtables(tables) => tables,
        }
    }

    fn has_table(self, level: usize, table: &Table) -> bool {
        self.tables().iter().any(|(of, input)| *of == level && input.info.file == table.info.file)
    }

    /// Whether the snapshot may see an entry from `lower` on and below `upper` in them.
    fn are_seen(self, tree: &TreeInner, lower: &[u8], upper: Option<&[u8]>, snapshot: SeqNo) -> bool {
        // Everything in memtables is newer than everything in tables.
        let has_memtables = !matches!(self, Inputs::Tables(_));
        let mut tables = self.tables().iter().map(|(_, table)| table);
        (has_memtables && snapshot > tree.flushed_up_to())
            || tables.any(|table| reaches(table, lower, upper) && table.info.min_seq <= snapshot)
    }
}

/// Whether the bounds of the table meet the keys from `lower` on and below `upper`.
fn reaches(table: &Table, lower: &[u8], upper: Option<&[u8]>) -> bool {
    table.info.largest.as_slice() >= lower && upper.is_none_or(|upper| table.info.smallest.as_slice() < upper)
}

/// Whether the memtable has an entry from `lower` on and below `upper`.
fn holds(mem: &Mem, lower: &[u8], upper: Option<&[u8]>) -> Result<bool> {
    let mut cursor = mem.table.cursor();
    cursor.seek(lower, MAX_SEQ)?;
    Ok(cursor.valid() && upper.is_none_or(|upper| cursor.key() < upper))
}

/// Whether `inputs` have all that `tree` holds from the key `lower` on and below `upper`, and `snapshot`, the newest
/// one, sees none of it. May return `false` even if both are true.
pub(super) fn is_alone(
    tree: &TreeInner,
    inputs: Inputs<'_>,
    snapshot: Option<SeqNo>,
    lower: &[u8],
    upper: Option<&[u8]>,
) -> bool {
    if snapshot.is_some_and(|snapshot| inputs.are_seen(tree, lower, upper, snapshot)) {
        return false;
    }
    let state = tree.state.load();
    // Since a split, another tree has some of the keys.
    let asked = KeyRange { lower: lower.to_vec(), upper: upper.map(<[u8]>::to_vec) };
    if !state.key_bounds.range.encloses(&asked) {
        return false;
    }
    let mut mems = state.immutable.iter().chain([&state.mem]).filter(|mem| !inputs.has_mem(mem));
    if mems.any(|mem| holds(mem, lower, upper).unwrap_or(true)) && !broken("rule-alone") {
        return false;
    }
    let mut reaching = state.levels.tables().filter(|(_, table)| reaches(table, lower, upper));
    reaching.all(|(level, table)| inputs.has_table(level, table))
}
