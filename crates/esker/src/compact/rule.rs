//! A tree's compaction rule during a flush or a merge: what it is shown, and what its answer comes to.
//!
//! ```text
//! read points            r: newest snapshot      v: newest visible
//! newest version here    <= r: shown as pinned   r..=v: shown, and may go   > v: kept, not shown
//! ```
//! To drop an entry is to bury it: a tombstone takes its place and its number, and goes by the ordinary rules.

use std::panic::{AssertUnwindSafe, catch_unwind};

use super::retain::Verdict;
use crate::blob::Pointer;
use crate::canary::broken;
use crate::cursor::{Content, Kind, SeqNo};
use crate::events::event;
use crate::rules::{CompactionRule, RuleContext, RuleDecision, RuleEntry, RuleRun, RuleValue};

/// How soon a table is looked at again whose time has passed, or in which snapshots keep garbage, in microseconds.
const AGAIN_US: u64 = 60_000_000;

/// A table in which snapshots keep less than one entry in this many that the rule would drop is not looked at again.
const PART: u64 = 8;

/// What a rule's run is about, besides its [`RuleContext`].
#[derive(Debug, Clone, Copy)]
pub(crate) struct Scope {
    /// The newest registered snapshot. It keeps what it sees.
    pub(crate) newest_snapshot: Option<SeqNo>,
    /// The newest visible number when the run began.
    pub(crate) visible: SeqNo,
    /// The time when the run began.
    pub(crate) clock_us: u64,
    /// When the first of the inputs is to be looked at again.
    pub(crate) inherited_us: Option<u64>,
}

/// The entries that were shown since the last table ended.
#[derive(Debug, Default)]
struct Shown {
    entries: u64,
    /// Those that the rule would have dropped, and snapshots keep; and whether one is a huge value.
    kept: u64,
    kept_huge: bool,
}

/// The rule of a tree in one flush or merge.
pub(crate) struct RunningRule<'a> {
    context: &'a RuleContext<'a>,
    scope: Scope,
    /// `None` if the rule is not registered, or has panicked.
    run: Option<Box<dyn RuleRun + 'a>>,
    shown: Shown,
    /// Entries that were dropped.
    dropped: u64,
    has_panicked: bool,
}

impl<'a> RunningRule<'a> {
    /// Begins a run of `rule`; `None`: it is not registered.
    pub(crate) fn begin(
        rule: Option<&'a dyn CompactionRule>,
        context: &'a RuleContext<'a>,
        scope: Scope,
    ) -> Self {
        let (shown, dropped, has_panicked) = (Shown::default(), 0, false);
        let mut running = RunningRule { context, scope, run: None, shown, dropped, has_panicked };
        if let Some(rule) = rule {
            match catch_unwind(AssertUnwindSafe(|| rule.begin(context))) {
                Ok(run) => running.run = Some(run),
                Err(_) => running.give_up(),
            }
        }
        running
    }

    /// From now on all entries stay.
    fn give_up(&mut self) {
        self.has_panicked = true;
        event!(WARN, "a compaction rule has panicked", { tree: self.context.tree() });
        let run = self.run.take();
        // Its drop may panic as well.
        drop(catch_unwind(AssertUnwindSafe(|| drop(run))));
    }

    /// Asks the run, unless it has panicked.
    fn ask<T>(&mut self, ask: impl FnOnce(&mut (dyn RuleRun + 'a)) -> T) -> Option<T> {
        let run = self.run.as_deref_mut()?;
        let answer = catch_unwind(AssertUnwindSafe(|| ask(run)));
        if answer.is_err() {
            self.give_up();
        }
        answer.ok()
    }

    /// Whether an entry with this number can be the newest version that readers see.
    pub(crate) fn is_visible(&self, seq: SeqNo) -> bool {
        seq <= self.scope.visible
    }

    /// The verdict about the newest visible version of `key`, which has the number `seq` and would be kept with the
    /// number `kept`.
    pub(crate) fn judge(&mut self, key: &[u8], seq: SeqNo, kept: SeqNo, content: &Content<'_>) -> Verdict {
        let keep = Verdict::Keep(kept);
        let value = match content.kind {
            Kind::Put => RuleValue::Inline(content.value),
            Kind::Blob => match Pointer::decode(content.value) {
                Some(Pointer { len, stored_us, .. }) => RuleValue::Huge { len, stored_us },
                None => return keep,
            },
            _ => return keep,
        };
        let pinned = self.scope.newest_snapshot.is_some_and(|snapshot| seq <= snapshot);
        let (context, entry) = (
            self.context,
            RuleEntry { key, value, expires_us: content.expiry, attributes: content.attributes, pinned },
        );
        self.shown.entries += 1;
        match self.ask(|run| run.entry(context, &entry)) {
            None | Some(RuleDecision::Keep) => keep,
            Some(RuleDecision::Drop) if pinned => {
                self.shown.kept += 1;
                self.shown.kept_huge |= content.kind == Kind::Blob;
                keep
            }
            Some(RuleDecision::Drop) => {
                self.dropped += 1;
                // Nothing older is left of a key whose newest version would get number 0.
                if kept == 0 || broken("rule-bury") { Verdict::Drop } else { Verdict::Bury(kept) }
            }
        }
    }

    /// When the table that ends here should be looked at again.
    pub(crate) fn look_again_us(&mut self) -> Option<u64> {
        let shown = std::mem::take(&mut self.shown);
        let again_us = self.scope.clock_us.saturating_add(AGAIN_US);
        let own = self.ask(RuleRun::look_again_us).flatten();
        if self.has_panicked {
            return self.scope.inherited_us.map(|us| us.max(again_us));
        }
        if self.run.is_none() {
            return self.scope.inherited_us;
        }
        let own = own.map(|us| if us <= self.scope.clock_us { again_us } else { us });
        let is_worth_it = shown.kept_huge || (shown.kept > 0 && shown.kept >= shown.entries / PART);
        own.into_iter().chain(is_worth_it.then_some(again_us)).min()
    }

    /// Ends the run. Returns how many entries were dropped, and whether the rule has panicked.
    pub(crate) fn end(mut self) -> (u64, bool) {
        let run = self.run.take();
        if catch_unwind(AssertUnwindSafe(|| drop(run))).is_err() {
            self.give_up();
        }
        (self.dropped, self.has_panicked)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Drops values that begin with `x`, panics at `!`, and looks again at the time that it was given.
    struct Simple(Option<u64>);

    impl CompactionRule for Simple {
        fn name(&self) -> &str {
            "simple"
        }

        fn begin(&self, _: &RuleContext<'_>) -> Box<dyn RuleRun + '_> {
            Box::new(SimpleRun(self.0))
        }
    }

    struct SimpleRun(Option<u64>);

    impl RuleRun for SimpleRun {
        fn entry(&mut self, _: &RuleContext<'_>, entry: &RuleEntry<'_>) -> RuleDecision {
            match entry.value {
                RuleValue::Inline([b'x', ..]) => RuleDecision::Drop,
                RuleValue::Inline([b'!', ..]) => unreachable!("this rule panics"),
                _ => RuleDecision::Keep,
            }
        }

        fn look_again_us(&mut self) -> Option<u64> {
            self.0
        }
    }

    const SCOPE: Scope =
        Scope { newest_snapshot: Some(5), visible: 10, clock_us: 1000, inherited_us: Some(7) };

    /// Judges values with numbers, and tells when to look again.
    fn judged(rule: Option<&Simple>, entries: &[(SeqNo, SeqNo, &[u8])]) -> (Vec<Verdict>, Option<u64>, bool) {
        let context = RuleContext::new("t", 900, false, &|_, _| false);
        let rule = rule.map(|rule| rule as &dyn CompactionRule);
        let mut running = RunningRule::begin(rule, &context, SCOPE);
        let content = |value| Content { kind: Kind::Put, expiry: None, attributes: &[], value };
        let verdicts =
            entries.iter().map(|&(seq, kept, value)| running.judge(b"k", seq, kept, &content(value)));
        let verdicts = verdicts.collect();
        let again = running.look_again_us();
        (verdicts, again, running.end().1)
    }

    #[test]
    fn what_no_snapshot_sees_is_buried_in_its_place() {
        let rule = Simple(None);
        let entries: [(_, _, &[u8]); 4] = [(8, 8, b"x"), (8, 0, b"x"), (8, 8, b"y"), (5, 5, b"x")];
        let (verdicts, again, _) = judged(Some(&rule), &entries);
        assert_eq!(verdicts, [Verdict::Bury(8), Verdict::Drop, Verdict::Keep(8), Verdict::Keep(5)]);
        // A fourth of the entries is garbage that a snapshot keeps.
        assert_eq!(again, Some(1000 + AGAIN_US));
    }

    #[test]
    fn a_table_is_looked_at_again_when_the_rule_says_but_not_at_once() {
        let again = |rule: &Simple| judged(Some(rule), &[(8, 8, b"y")]).1;
        assert_eq!(again(&Simple(None)), None);
        assert_eq!(again(&Simple(Some(2000))), Some(2000));
        assert_eq!(again(&Simple(Some(999))), Some(1000 + AGAIN_US));
        // Nothing is forgotten while the rule is not registered.
        assert_eq!(judged(None, &[(8, 8, b"x")]), (vec![Verdict::Keep(8)], Some(7), false));
    }

    #[test]
    fn a_rule_that_has_panicked_drops_nothing_more() {
        let (verdicts, again, has_panicked) = judged(Some(&Simple(None)), &[(8, 8, b"!"), (9, 9, b"x")]);
        assert_eq!((verdicts, has_panicked), (vec![Verdict::Keep(8), Verdict::Keep(9)], true));
        assert_eq!(again, Some(1000 + AGAIN_US));
    }
}
