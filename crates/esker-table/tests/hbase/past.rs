//! What the operations so far have left in HBase, where a read of it depends on more than it should.

use std::collections::HashMap;

use super::FUTURE_MS;

/// A row, a family and a qualifier.
type Column = (&'static [u8], &'static str, &'static [u8]);

/// What a step of a mutation touches: a column, a family or the row.
#[derive(Clone, Copy)]
pub(crate) struct Touched {
    pub(crate) family: Option<&'static str>,
    pub(crate) qualifier: Option<&'static [u8]>,
    pub(crate) does: Does,
    pub(crate) at: i64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Does {
    Put,
    DeleteVersion,
    DeleteUpTo,
}

impl Touched {
    /// Whether two steps may touch the same column. In HBase, the steps of a mutation have no order.
    pub(crate) fn collides(self, other: Touched) -> bool {
        let may_be_same = |a: Option<&[u8]>, b: Option<&[u8]>| a.is_none() || b.is_none() || a == b;
        may_be_same(self.family.map(str::as_bytes), other.family.map(str::as_bytes))
            && may_be_same(self.qualifier, other.qualifier)
    }
}

#[derive(Default)]
pub(crate) struct Past {
    /// The timestamps of each column's puts, and whether a version was deleted since.
    puts: HashMap<Column, HashMap<i64, bool>>,
    has_files: bool,
}

impl Past {
    /// Whether HBase leaves out a whole file because of its timestamps, though its cells have driven out others.
    pub(crate) fn has_files(&self) -> bool {
        self.has_files
    }

    pub(crate) fn flush(&mut self) {
        self.has_files = true;
    }

    /// A major compaction leaves only what counts, and no deletes.
    pub(crate) fn compact(&mut self) {
        self.flush();
        self.puts.values_mut().flat_map(HashMap::values_mut).for_each(|is_older| *is_older = false);
    }

    /// Whether a put replaces one that was there when a version was deleted. HBase takes the older put for one that was
    /// never there, and what it had driven out comes back.
    pub(crate) fn would_revive(&self, row: &'static [u8], step: Touched) -> bool {
        let (Does::Put, Some(family), Some(qualifier)) = (step.does, step.family, step.qualifier) else {
            return false;
        };
        self.puts.get(&(row, family, qualifier)).and_then(|puts| puts.get(&step.at)) == Some(&true)
    }

    pub(crate) fn note(&mut self, row: &'static [u8], step: Touched) {
        match (step.does, step.family, step.qualifier) {
            (Does::Put, Some(family), Some(qualifier)) => {
                self.puts.entry((row, family, qualifier)).or_default().entry(step.at).or_insert(false);
            }
            (Does::DeleteVersion, Some(family), Some(qualifier)) => {
                if let Some(puts) = self.puts.get_mut(&(row, family, qualifier)) {
                    puts.values_mut().for_each(|is_older| *is_older = true);
                }
            }
            _ => {
                for ((of, family, qualifier), puts) in &mut self.puts {
                    let is_touched = *of == row
                        && step.family.is_none_or(|touched| touched == *family)
                        && step.qualifier.is_none_or(|touched| touched == *qualifier);
                    if is_touched {
                        puts.retain(|at, _| *at > step.at);
                    }
                }
            }
        }
    }

    /// Notes that all of a column was deleted.
    pub(crate) fn note_empty(&mut self, row: &'static [u8], family: &'static str, qualifier: &'static [u8]) {
        let (family, qualifier) = (Some(family), Some(qualifier));
        self.note(row, Touched { family, qualifier, does: Does::DeleteUpTo, at: FUTURE_MS * 2 });
    }
}
