//! The common part of flushes and merges: reads sorted sources and writes the entries that survive.

use crate::blob::Pointer;
use crate::blob::gc::Overwritten;
use crate::compact::operands::Gathered;
use crate::compact::retain::{Beneath, Retention, Verdict};
use crate::compact::rule::RunningRule;
use crate::cursor::{Content, Kind, SeqNo};
use crate::error::Result;
use crate::operators::MergeOperators;
use crate::read::merging_cursor::MergeCursor;
use crate::version::table_info::LookAgain;

/// Where the entries that survive go.
pub(super) trait Sink {
    fn write(&mut self, key: &[u8], seq: SeqNo, kind: Kind, stored: &[u8]) -> Result<()>;

    /// Whether the table that was begun ends before `key`. Asked only for a tree with a compaction rule.
    fn ends_before(&mut self, key: &[u8]) -> bool;

    /// Ends the table, which should be looked at again at `look_again`.
    fn end_table(&mut self, look_again: LookAgain) -> Result<()>;
}

/// The huge values that a flush or a merge leaves out.
#[derive(Debug, Default)]
pub(super) struct LeftOut {
    /// Nobody sees these any more.
    pub(super) unseen: Vec<Pointer>,
    /// A compaction rule has dropped these. Snapshots that are taken before the edit is installed may see them.
    pub(super) by_rule: Vec<Overwritten>,
    /// How many entries compaction rules have dropped.
    pub(super) dropped_by_rule: u64,
    /// A rule has panicked: nothing of this counts.
    pub(super) rule_has_panicked: bool,
}

/// How to judge the entries of some sources.
pub(super) struct Survivors<'a, 'b> {
    pub(super) operators: &'a MergeOperators,
    pub(super) retention: Retention,
    /// Whether no older version of any key lies outside the sources.
    pub(super) nothing_below: bool,
    pub(super) left_out: &'a mut LeftOut,
    /// The tree's compaction rule, if it has one.
    pub(super) rule: Option<&'a mut RunningRule<'b>>,
}

/// How far the versions of a key have been judged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Newest {
    /// Readers see none of them.
    Ahead,
    /// The newest one that readers see is the value that the gathered operands make.
    Gathered,
    /// It was judged.
    Passed,
}

impl Survivors<'_, '_> {
    /// Passes all surviving entries of `merge`, which is at its beginning, to `sink`, in order. Calls `goes_on` at each
    /// new key.
    pub(super) fn write_all(
        mut self,
        merge: &mut MergeCursor,
        goes_on: &dyn Fn() -> Result<()>,
        sink: &mut impl Sink,
    ) -> Result<()> {
        let (mut gathered, mut newest) = (Gathered::default(), Newest::Ahead);
        while merge.valid() {
            let (key, seq, kind, stored) = (merge.key(), merge.seq(), merge.kind(), merge.value());
            let verdict = self.retention.judge(key, seq, kind, stored, self.nothing_below);
            if self.retention.is_new_key() {
                self.end_key(&mut gathered, newest, sink)?;
                goes_on()?;
                newest = Newest::Ahead;
                if let Some(rule) = &mut self.rule
                    && sink.ends_before(key)
                {
                    sink.end_table(rule.look_again()?)?;
                }
            }
            let is_newest =
                newest == Newest::Ahead && self.rule.as_ref().is_some_and(|rule| rule.is_visible(seq));
            match verdict {
                Verdict::Gather { joins, settled } => {
                    if !joins || gathered.is_full(self.operators) {
                        gathered.put_out(self.operators, &mut |key, seq, kind, stored| {
                            sink.write(key, seq, kind, stored)
                        })?;
                        newest = if newest == Newest::Gathered { Newest::Passed } else { newest };
                    }
                    if is_newest {
                        newest = Newest::Gathered;
                    }
                    gathered.push(key, seq, stored, settled);
                }
                _ if self.settles(&mut gathered, newest, stored, sink)? => {
                    newest = Newest::Passed;
                    self.left_out.unseen.extend(Pointer::of_entry(kind, stored));
                }
                verdict => {
                    gathered.put_out(self.operators, &mut |key, seq, kind, stored| {
                        sink.write(key, seq, kind, stored)
                    })?;
                    let mut by_rule = false;
                    let verdict = match (verdict, &mut self.rule) {
                        (Verdict::Keep(kept), Some(rule)) if is_newest => {
                            let ruled = rule.judge(key, seq, kept, &Content::open(kind, stored))?;
                            by_rule = ruled != verdict;
                            ruled
                        }
                        _ => verdict,
                    };
                    if is_newest || newest == Newest::Gathered {
                        newest = Newest::Passed;
                    }
                    if let Some((seq, kind, stored)) = verdict.written(kind, stored) {
                        sink.write(key, seq, kind, stored)?;
                    }
                    if by_rule {
                        self.left_out.by_rule.extend(Overwritten::by_rule(seq, kind, stored));
                    } else if verdict.ends_value() {
                        self.left_out.unseen.extend(Pointer::of_entry(kind, stored));
                    }
                }
            }
            merge.advance()?;
        }
        self.end_key(&mut gathered, newest, sink)
    }

    /// Applies the gathered operands to the entry judged last. Returns whether they have become a value, which replaces
    /// the entry.
    fn settles(
        &mut self,
        gathered: &mut Gathered,
        newest: Newest,
        stored: &[u8],
        sink: &mut impl Sink,
    ) -> Result<bool> {
        match self.retention.beneath() {
            _ if gathered.is_empty() => Ok(false),
            Beneath::Apart => Ok(false),
            Beneath::Value => self.settle(gathered, newest, Some(stored), sink),
            Beneath::Nothing => self.settle(gathered, newest, None, sink),
        }
    }

    /// Applies the gathered operands to `value`. Returns whether they have become a value.
    fn settle(
        &mut self,
        gathered: &mut Gathered,
        newest: Newest,
        value: Option<&[u8]>,
        sink: &mut impl Sink,
    ) -> Result<bool> {
        let (operators, seq) = (self.operators, gathered.newest());
        let rule = self.rule.as_mut().filter(|_| newest == Newest::Gathered);
        let Some(rule) = rule else {
            return gathered
                .settle(operators, value, &mut |key, seq, kind, stored| sink.write(key, seq, kind, stored));
        };
        gathered.settle(operators, value, &mut |key, kept, kind, stored| {
            let verdict = rule.judge(key, seq, kept, &Content::open(kind, stored))?;
            let written = verdict.written(kind, stored);
            written.map_or(Ok(()), |(seq, kind, stored)| sink.write(key, seq, kind, stored))
        })
    }

    /// Ends the last key: its operands have nothing below them in the sources.
    fn end_key(&mut self, gathered: &mut Gathered, newest: Newest, sink: &mut impl Sink) -> Result<()> {
        if gathered.is_empty() || (self.nothing_below && self.settle(gathered, newest, None, sink)?) {
            return Ok(());
        }
        gathered.put_out(self.operators, &mut |key, seq, kind, stored| sink.write(key, seq, kind, stored))
    }
}
