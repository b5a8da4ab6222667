//! The common part of flushes and merges: reads sorted sources and writes the entries that survive.

use crate::blob::Pointer;
use crate::compact::operands::Gathered;
use crate::compact::retain::{Beneath, Retention, Verdict};
use crate::cursor::{Kind, SeqNo};
use crate::error::Result;
use crate::operators::MergeOperators;
use crate::read::merging_cursor::MergeCursor;

/// How to judge the entries of some sources.
pub(super) struct Survivors<'a> {
    pub(super) operators: &'a MergeOperators,
    pub(super) retention: Retention,
    /// Whether no older version of any key lies outside the sources.
    pub(super) nothing_below: bool,
    /// Gets the pointers to huge values that nobody sees any more.
    pub(super) dropped: &'a mut Vec<Pointer>,
}

impl Survivors<'_> {
    /// Passes all surviving entries of `merge`, which is at its beginning, to `write`, in order. Calls `goes_on` at
    /// each new key.
    pub(super) fn write_all(
        mut self,
        merge: &mut MergeCursor,
        goes_on: &dyn Fn() -> Result<()>,
        mut write: impl FnMut(&[u8], SeqNo, Kind, &[u8]) -> Result<()>,
    ) -> Result<()> {
        let mut gathered = Gathered::default();
        while merge.valid() {
            let (key, seq, kind, stored) = (merge.key(), merge.seq(), merge.kind(), merge.value());
            let verdict = self.retention.judge(key, seq, kind, stored, self.nothing_below);
            if self.retention.is_new_key() {
                self.end_key(&mut gathered, &mut write)?;
                goes_on()?;
            }
            match verdict {
                Verdict::Gather { joins, settled } => {
                    if !joins || gathered.is_full(self.operators) {
                        gathered.put_out(self.operators, &mut write)?;
                    }
                    gathered.push(key, seq, stored, settled);
                }
                _ if self.settles(&mut gathered, stored, &mut write)? => {
                    self.dropped.extend(Pointer::of_entry(kind, stored));
                }
                verdict => {
                    gathered.put_out(self.operators, &mut write)?;
                    if let Some((seq, kind, stored)) = verdict.written(kind, stored) {
                        write(key, seq, kind, stored)?;
                    }
                    if verdict.ends_value() {
                        self.dropped.extend(Pointer::of_entry(kind, stored));
                    }
                }
            }
            merge.advance()?;
        }
        self.end_key(&mut gathered, &mut write)
    }

    /// Applies the gathered operands to the entry judged last. Returns whether they have become a value, which replaces
    /// the entry.
    fn settles(
        &self,
        gathered: &mut Gathered,
        stored: &[u8],
        write: &mut impl FnMut(&[u8], SeqNo, Kind, &[u8]) -> Result<()>,
    ) -> Result<bool> {
        match self.retention.beneath() {
            _ if gathered.is_empty() => Ok(false),
            Beneath::Apart => Ok(false),
            Beneath::Value => gathered.settle(self.operators, Some(stored), write),
            Beneath::Nothing => gathered.settle(self.operators, None, write),
        }
    }

    /// Ends the last key: its operands have nothing below them in the sources.
    fn end_key(
        &self,
        gathered: &mut Gathered,
        write: &mut impl FnMut(&[u8], SeqNo, Kind, &[u8]) -> Result<()>,
    ) -> Result<()> {
        if gathered.is_empty() || (self.nothing_below && gathered.settle(self.operators, None, write)?) {
            return Ok(());
        }
        gathered.put_out(self.operators, write)
    }
}
