//! The common part of flushes and merges: reads sorted sources and writes the entries that survive.

use crate::blob::Pointer;
use crate::blob::gc::Overwritten;
use crate::canary::broken;
use crate::compact::operands::{Gathered, Surroundings};
use crate::compact::retain::{Beneath, Retention, Verdict};
use crate::compact::rule::RunningRule;
use crate::cursor::{Content, Expiry, Kind, SeqNo};
use crate::error::Result;
use crate::operators::MergeOperators;
use crate::read::merging_cursor::MergeCursor;
use crate::version::table_info::LookAgain;

/// Where the entries that survive go.
pub(super) trait Sink {
    fn write(&mut self, key: &[u8], seq: SeqNo, kind: Kind, stored: &[u8]) -> Result<()>;

    /// Whether the table that was begun ends before `key`. Called only for a tree with a compaction rule.
    fn ends_before(&mut self, key: &[u8]) -> bool;

    /// Ends the table, which should be looked at again at `look_again`.
    fn end_table(&mut self, look_again: LookAgain) -> Result<()>;
}

/// The huge values that a flush or a merge leaves out.
#[derive(Debug, Default)]
pub(super) struct LeftOut {
    /// No reader sees these any more.
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
    pub(super) around: &'a dyn Surroundings,
    /// Whether entries with pointers to huge values are kept as they are: their values are not freed.
    pub(super) keeps_pointers: bool,
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
    /// new key, and ends before the first key for which it returns `false`.
    pub(super) fn write_all(
        mut self,
        merge: &mut MergeCursor,
        goes_on: &dyn Fn(&[u8]) -> Result<bool>,
        sink: &mut impl Sink,
    ) -> Result<()> {
        let (mut gathered, mut newest) = (Gathered::default(), Newest::Ahead);
        // Whether operands of the key were written.
        let mut has_operands = false;
        while merge.valid() {
            let (key, seq, kind, stored) = (merge.key(), merge.seq(), merge.kind(), merge.value());
            let verdict = self.retention.judge(key, seq, kind, stored, self.nothing_below);
            if self.retention.is_new_key() {
                self.end_key(&mut gathered, newest, sink)?;
                (newest, has_operands) = (Newest::Ahead, false);
                if !goes_on(key)? {
                    return Ok(());
                }
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
                    if !joins || gathered.is_full(self.operators, self.around) {
                        has_operands |= self.put_out(&mut gathered, sink)?;
                        newest = if newest == Newest::Gathered { Newest::Passed } else { newest };
                    }
                    if is_newest {
                        newest = Newest::Gathered;
                    }
                    gathered.push(key, seq, stored, settled);
                }
                _ if self.settles(&mut gathered, newest, (kind, stored), sink)? => {
                    newest = Newest::Passed;
                    if self.keeps(kind, stored) {
                        sink.write(key, seq, kind, stored)?;
                    } else {
                        self.left_out.unseen.extend(Pointer::of_entry(kind, stored));
                    }
                }
                verdict => {
                    has_operands |= self.put_out(&mut gathered, sink)? || kind == Kind::Merge;
                    let verdict = self.marked(verdict, key, seq, has_operands);
                    let mut by_rule = false;
                    let verdict = if self.keeps(kind, stored) { Verdict::Keep(seq) } else { verdict };
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
                        sink.write(key, seq, kind, &stored)?;
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

    /// Whether the entry stays although no reader sees it.
    fn keeps(&self, kind: Kind, stored: &[u8]) -> bool {
        self.keeps_pointers && Pointer::of_entry(kind, stored).is_some()
    }

    /// Applies the gathered operands to the entry judged last. Returns whether they have become a value, which replaces
    /// the entry.
    fn settles(
        &mut self,
        gathered: &mut Gathered,
        newest: Newest,
        (kind, stored): (Kind, &[u8]),
        sink: &mut impl Sink,
    ) -> Result<bool> {
        match self.retention.beneath() {
            _ if gathered.is_empty() => Ok(false),
            Beneath::Apart => Ok(false),
            Beneath::Value => self.settle(gathered, newest, (Some(stored), None), sink),
            Beneath::Nothing => self.settle(gathered, newest, (None, None), sink),
            Beneath::Expires { at, lives, .. } if !lives || gathered.begins_anew(at) => {
                gathered.end_at(at);
                Ok(!gathered.is_empty() && self.settle(gathered, newest, (None, None), sink)?)
            }
            Beneath::Expires { at, is_plain: true, .. } if gathered.is_timed() => {
                let value = Content::open(kind, stored).value;
                self.settle(gathered, newest, (Some(value), Some(at)), sink)
            }
            Beneath::Expires { .. } => Ok(false),
        }
    }

    /// The verdict on the entry `seq` of `key` that was judged last. If its value has expired, and operands above it
    /// need the time of that, a tombstone records it. `has_operands`: operands of the key were written.
    fn marked(&self, verdict: Verdict, key: &[u8], seq: SeqNo, has_operands: bool) -> Verdict {
        let Some(at) = self.retention.ended().filter(|_| !broken("operand-mark")) else { return verdict };
        if has_operands || self.around.has_operands(key, seq, at) { Verdict::Mark(seq, at) } else { verdict }
    }

    /// Writes the gathered operands. Returns whether there were any.
    #[inline]
    fn put_out(&self, gathered: &mut Gathered, sink: &mut impl Sink) -> Result<bool> {
        if gathered.is_empty() {
            return Ok(false);
        }
        gathered.put_out(self.operators, self.around, &mut |key, seq, kind, stored| {
            sink.write(key, seq, kind, stored)
        })?;
        Ok(true)
    }

    /// Applies the gathered operands to a value, which expires at the time with it. Returns whether they have become a
    /// value.
    fn settle(
        &mut self,
        gathered: &mut Gathered,
        newest: Newest,
        (value, until): (Option<&[u8]>, Option<Expiry>),
        sink: &mut impl Sink,
    ) -> Result<bool> {
        let (operators, seq) = (self.operators, gathered.newest());
        let rule = self.rule.as_mut().filter(|_| newest == Newest::Gathered);
        let Some(rule) = rule else {
            return gathered.settle(operators, value, until, &mut |key, seq, kind, stored| {
                sink.write(key, seq, kind, stored)
            });
        };
        gathered.settle(operators, value, until, &mut |key, kept, kind, stored| {
            let verdict = rule.judge(key, seq, kept, &Content::open(kind, stored))?;
            let written = verdict.written(kind, stored);
            written.map_or(Ok(()), |(seq, kind, stored)| sink.write(key, seq, kind, &stored))
        })
    }

    /// Ends the last key: its operands have nothing below them in the sources.
    fn end_key(&mut self, gathered: &mut Gathered, newest: Newest, sink: &mut impl Sink) -> Result<()> {
        if gathered.is_empty() || (self.nothing_below && self.settle(gathered, newest, (None, None), sink)?) {
            return Ok(());
        }
        self.put_out(gathered, sink).map(drop)
    }
}
