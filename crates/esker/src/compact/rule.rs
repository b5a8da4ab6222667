//! A tree's compaction rule during a flush or a merge: which entries it sees, and the effect of its answers.
//!
//! ```text
//! read points            r: newest snapshot      v: newest visible
//! newest version here    <= r: shown as pinned   r..=v: shown            > v: kept, not shown
//! ```
//! To drop an entry is to bury it: a tombstone takes its place and its number, and goes by the ordinary rules.
//!
//! The run begins before the read points are taken. Therefore a snapshot that is not among them was taken after the
//! rule had read the data that it decides by.

use std::panic::{AssertUnwindSafe, catch_unwind};

use super::retain::Verdict;
use crate::blob::Pointer;
use crate::canary::broken;
use crate::cursor::{Content, Kind, SeqNo};
use crate::error::{Error, ErrorKind, Result};
use crate::events::event;
use crate::rules::{CompactionRules, RuleContext, RuleDecision, RuleEntry, RuleRun, RuleValue};
use crate::version::edit::CLOCK_MAX;
use crate::version::table_info::{LookAgain, Unpinned};

/// How soon a table is looked at again at the earliest, in microseconds: each look rewrites it.
const AGAIN_US: u64 = 60_000_000;

/// How soon a table is looked at that was made without the rule: it has panicked, or entries were loaded in bulk.
const LATER_US: u64 = 3_600_000_000;

/// A table in which snapshots keep less than one entry in this many that the rule would drop is not looked at again.
const PART: u64 = 8;

/// The time at which a rule is to see a table that was made without it. It is `now_us` now.
pub(crate) fn later_us(now_us: u64) -> u64 {
    now_us.saturating_add(LATER_US).min(CLOCK_MAX)
}

/// The run of a rule that has begun, before the read points of the flush or the merge were taken.
pub(crate) struct BegunRule<'a> {
    run: Run<'a>,
}

enum Run<'a> {
    Asked(Asked<'a>),
    /// The rule is not registered.
    Missing,
    /// It has panicked in this flush or merge.
    Panicked,
}

/// A run of the program's. Its drop may panic too, and is caught wherever a flush or a merge ends.
struct Asked<'a>(Option<Box<dyn RuleRun + 'a>>);

impl Drop for Asked<'_> {
    fn drop(&mut self) {
        let run = self.0.take();
        drop(catch_unwind(AssertUnwindSafe(|| drop(run))));
    }
}

impl Run<'_> {
    /// The rule of the tree with the name `tree` panics.
    fn panicked(tree: &str) -> Self {
        event!(WARN, "a compaction rule has panicked", { tree: tree });
        Run::Panicked
    }
}

impl<'a> BegunRule<'a> {
    /// Begins a run of the rule `name` for the tree with the name `tree`.
    pub(crate) fn begin(rules: &'a CompactionRules, name: &str, tree: &str) -> BegunRule<'a> {
        let Some(rule) = rules.get(name) else { return BegunRule { run: Run::Missing } };
        let begun = catch_unwind(AssertUnwindSafe(|| rule.begin(tree)));
        BegunRule { run: begun.map_or_else(|_| Run::panicked(tree), |run| Run::Asked(Asked(Some(run)))) }
    }

    /// Does without the rule, which has panicked before.
    pub(crate) fn after_panic() -> BegunRule<'a> {
        BegunRule { run: Run::Panicked }
    }

    /// Whether the rule has panicked at the beginning.
    pub(crate) fn has_panicked(&self) -> bool {
        matches!(self.run, Run::Panicked)
    }
}

/// [`CompactionRule::prefixes`](crate::rules::CompactionRule::prefixes) of the rule `name`, as far as `key` is long
/// enough for them; empty if the rule panics.
pub(crate) fn prefixes(rules: &CompactionRules, name: &str, key: &[u8]) -> Vec<usize> {
    let Some(rule) = rules.get(name) else { return Vec::new() };
    let mut lens = catch_unwind(AssertUnwindSafe(|| rule.prefixes(key))).unwrap_or_default();
    lens.retain(|len| *len <= key.len());
    lens.sort_unstable();
    lens.dedup();
    lens
}

/// The scope of a rule's run, in addition to its [`RuleContext`].
#[derive(Debug, Clone, Copy)]
pub(crate) struct Scope {
    /// The newest registered snapshot. It keeps the entries that it sees.
    pub(crate) newest_snapshot: Option<SeqNo>,
    /// The oldest read point: every reader sees the entries up to it.
    pub(crate) oldest: SeqNo,
    /// The newest visible number when the run began.
    pub(crate) visible: SeqNo,
    /// The time when the run began, by the clock of the tree and by that of the store.
    pub(crate) tree_us: u64,
    pub(crate) clock_us: u64,
    /// When the first of the inputs is to be looked at again.
    pub(crate) inherited_us: Option<u64>,
}

/// The entries that were shown since the last table ended.
#[derive(Debug, Default)]
struct Shown {
    entries: u64,
    /// Entries that the rule would have dropped but snapshots keep; the least of their numbers; whether one is a huge
    /// value.
    kept: u64,
    kept_from: Option<SeqNo>,
    kept_huge: bool,
}

/// The rule of a tree in one flush or merge.
pub(crate) struct RunningRule<'a> {
    context: &'a RuleContext<'a>,
    scope: Scope,
    run: Run<'a>,
    shown: Shown,
    /// Entries that were dropped.
    dropped: u64,
}

impl<'a> RunningRule<'a> {
    pub(crate) fn new(begun: BegunRule<'a>, context: &'a RuleContext<'a>, scope: Scope) -> Self {
        RunningRule { context, scope, run: begun.run, shown: Shown::default(), dropped: 0 }
    }

    /// Whether the rule has panicked. Then none of its earlier answers counts: it may have dropped a marker, but not
    /// yet the entries that the marker masks.
    pub(crate) fn has_panicked(&self) -> bool {
        matches!(self.run, Run::Panicked)
    }

    /// Calls `ask` with the run, if there is one.
    fn ask<T>(&mut self, ask: impl FnOnce(&mut (dyn RuleRun + 'a)) -> T) -> Result<Option<T>> {
        let Run::Asked(Asked(Some(run))) = &mut self.run else { return Ok(None) };
        match catch_unwind(AssertUnwindSafe(|| ask(&mut **run))) {
            Ok(answer) => Ok(Some(answer)),
            Err(_) => {
                let tree = self.context.tree();
                self.run = Run::panicked(tree);
                let message = format!("the compaction rule of the tree \"{tree}\" has panicked");
                Err(Error::new(ErrorKind::InvalidInput, message))
            }
        }
    }

    /// Whether an entry with this number can be the newest version that readers see.
    pub(crate) fn is_visible(&self, seq: SeqNo) -> bool {
        seq <= self.scope.visible
    }

    /// The verdict about the newest visible version of `key`, which has the number `seq` and would be kept with the
    /// number `kept`. Fails if the rule panics.
    pub(crate) fn judge(
        &mut self,
        key: &[u8],
        seq: SeqNo,
        kept: SeqNo,
        content: &Content<'_>,
    ) -> Result<Verdict> {
        let keep = Verdict::Keep(kept);
        let value = match content.kind {
            Kind::Put => RuleValue::Inline(content.value),
            Kind::Blob => match Pointer::decode(content.value) {
                Some(Pointer { len, stored_us, .. }) => RuleValue::Huge { len, stored_us },
                None => return Ok(keep),
            },
            _ => return Ok(keep),
        };
        let pinned = self.scope.newest_snapshot.is_some_and(|snapshot| seq <= snapshot);
        let (context, expires_us, attributes) = (self.context, content.expiry, content.attributes);
        let seen_by_all = seq <= self.scope.oldest;
        let entry = RuleEntry { key, value, expires_us, attributes, pinned, seen_by_all };
        self.shown.entries += 1;
        match self.ask(|run| run.entry(context, &entry))?.unwrap_or(RuleDecision::Keep) {
            RuleDecision::Keep => Ok(keep),
            RuleDecision::Drop if pinned => {
                self.shown.kept += 1;
                self.shown.kept_from = Some(self.shown.kept_from.map_or(seq, |least| least.min(seq)));
                self.shown.kept_huge |= content.kind == Kind::Blob;
                Ok(keep)
            }
            RuleDecision::Drop | RuleDecision::DropPinned => {
                self.dropped += 1;
                // Nothing older is left of a key whose newest version would get number 0.
                Ok(if kept == 0 || broken("rule-bury") { Verdict::Drop } else { Verdict::Bury(kept) })
            }
        }
    }

    /// When the table that ends here should be looked at again. Fails if the rule panics.
    pub(crate) fn look_again(&mut self) -> Result<LookAgain> {
        let shown = std::mem::take(&mut self.shown);
        let Scope { tree_us, clock_us, inherited_us, .. } = self.scope;
        let own_us = self.ask(RuleRun::look_again_us)?.flatten();
        let at_us = match self.run {
            Run::Asked(_) => own_us.map(|us| us.max(tree_us.saturating_add(AGAIN_US))),
            // As soon as the rule is registered.
            Run::Missing => Some(inherited_us.unwrap_or(tree_us)),
            Run::Panicked => Some(later_us(tree_us)),
        };
        let is_worth_it = shown.kept_huge || shown.kept >= shown.entries / PART;
        let kept_from = shown.kept_from.filter(|_| is_worth_it);
        let not_before_us = clock_us.saturating_add(AGAIN_US);
        let unpinned = kept_from.map(|from| Unpinned { from, not_before_us });
        Ok(LookAgain::new(at_us, unpinned))
    }

    /// Ends the run. Returns how many entries were dropped.
    pub(crate) fn end(self) -> u64 {
        self.dropped
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::rules::CompactionRule;

    /// Drops values that begin with `x`, or `X` if they are pinned too, panics at `!`, and looks again at the time that it
    /// was given.
    struct Simple(Option<u64>);

    impl CompactionRule for Simple {
        fn name(&self) -> &str {
            "simple"
        }

        fn begin(&self, _: &str) -> Box<dyn RuleRun + '_> {
            Box::new(SimpleRun(self.0))
        }
    }

    struct SimpleRun(Option<u64>);

    impl RuleRun for SimpleRun {
        fn entry(&mut self, _: &RuleContext<'_>, entry: &RuleEntry<'_>) -> RuleDecision {
            match entry.value {
                RuleValue::Inline([b'x', ..]) => RuleDecision::Drop,
                RuleValue::Inline([b'X', ..]) => RuleDecision::DropPinned,
                RuleValue::Inline([b'!', ..]) => unreachable!("this rule panics"),
                _ => RuleDecision::Keep,
            }
        }

        fn look_again_us(&mut self) -> Option<u64> {
            self.0
        }
    }

    /// Panics when a run of it ends.
    struct EndsBadly;

    impl CompactionRule for EndsBadly {
        fn name(&self) -> &str {
            "simple"
        }

        fn begin(&self, _: &str) -> Box<dyn RuleRun + '_> {
            Box::new(EndsBadlyRun)
        }
    }

    struct EndsBadlyRun;

    impl RuleRun for EndsBadlyRun {
        fn entry(&mut self, _: &RuleContext<'_>, _: &RuleEntry<'_>) -> RuleDecision {
            RuleDecision::Keep
        }
    }

    impl Drop for EndsBadlyRun {
        fn drop(&mut self) {
            unreachable!("this run panics at its end");
        }
    }

    const SCOPE: Scope = Scope {
        newest_snapshot: Some(5),
        oldest: 3,
        visible: 10,
        tree_us: 1000,
        clock_us: 5000,
        inherited_us: Some(7),
    };

    /// Judges values with numbers, and returns when to look again.
    fn judged(rule: Option<Simple>, entries: &[(SeqNo, SeqNo, &[u8])]) -> Result<(Vec<Verdict>, LookAgain)> {
        let context = RuleContext::new("t", 900, false, &|_, _| false);
        let mut rules = CompactionRules::default();
        rule.into_iter().for_each(|rule| rules.add(Arc::new(rule)));
        let begun = BegunRule::begin(&rules, "simple", "t");
        let mut running = RunningRule::new(begun, &context, SCOPE);
        let mut verdicts = Vec::new();
        for &(seq, kept, value) in entries {
            let content = Content { kind: Kind::Put, expiry: None, attributes: &[], value };
            let verdict = running.judge(b"k", seq, kept, &content);
            assert_eq!(running.has_panicked(), verdict.is_err());
            verdicts.push(verdict?);
        }
        Ok((verdicts, running.look_again()?))
    }

    fn at(us: u64) -> LookAgain {
        LookAgain::new(Some(us), None)
    }

    #[test]
    fn what_no_snapshot_sees_is_buried_in_its_place() {
        let entries: [(_, _, &[u8]); 4] = [(8, 8, b"x"), (8, 0, b"x"), (8, 8, b"y"), (5, 5, b"x")];
        let (verdicts, again) = judged(Some(Simple(None)), &entries).unwrap();
        assert_eq!(verdicts, [Verdict::Bury(8), Verdict::Drop, Verdict::Keep(8), Verdict::Keep(5)]);
        // A fourth of the entries is garbage that a snapshot keeps.
        let unpinned = Some(Unpinned { from: 5, not_before_us: 5000 + AGAIN_US });
        assert_eq!(again, LookAgain::new(None, unpinned));
        // Garbage for all readers goes immediately.
        let (verdicts, again) = judged(Some(Simple(None)), &[(5, 5, b"X"), (6, 6, b"X")]).unwrap();
        assert_eq!((verdicts, again), (vec![Verdict::Bury(5), Verdict::Bury(6)], LookAgain::default()));
    }

    /// Drops the entries that all readers see, even pinned ones.
    struct OfAll;

    impl CompactionRule for OfAll {
        fn name(&self) -> &str {
            "simple"
        }

        fn begin(&self, _: &str) -> Box<dyn RuleRun + '_> {
            Box::new(OfAllRun)
        }
    }

    struct OfAllRun;

    impl RuleRun for OfAllRun {
        fn entry(&mut self, _: &RuleContext<'_>, entry: &RuleEntry<'_>) -> RuleDecision {
            if entry.seen_by_all { RuleDecision::DropPinned } else { RuleDecision::Keep }
        }
    }

    #[test]
    fn what_the_oldest_reader_sees_is_seen_by_all() {
        let context = RuleContext::new("t", 900, false, &|_, _| false);
        let mut rules = CompactionRules::default();
        rules.add(Arc::new(OfAll));
        let mut running = RunningRule::new(BegunRule::begin(&rules, "simple", "t"), &context, SCOPE);
        let content = Content { kind: Kind::Put, expiry: None, attributes: &[], value: b"x" };
        let mut judged = |seq| running.judge(b"k", seq, seq, &content).unwrap();
        // The oldest read point is 3, the newest snapshot 5.
        assert_eq!([1, 3].map(&mut judged), [Verdict::Bury(1), Verdict::Bury(3)]);
        assert_eq!([4, 5, 6].map(&mut judged), [Verdict::Keep(4), Verdict::Keep(5), Verdict::Keep(6)]);
    }

    #[test]
    fn a_table_is_looked_at_again_when_the_rule_says_but_not_at_once() {
        let again = |rule| judged(rule, &[(8, 8, b"y")]).unwrap().1;
        assert_eq!(again(Some(Simple(None))), LookAgain::default());
        assert_eq!(again(Some(Simple(Some(1001 + AGAIN_US)))), at(1001 + AGAIN_US));
        assert_eq!(again(Some(Simple(Some(2000)))), at(1000 + AGAIN_US));
        assert_eq!(again(Some(Simple(Some(999)))), at(1000 + AGAIN_US));
        assert_eq!(again(Some(Simple(Some(u64::MAX)))), at(CLOCK_MAX));
        // Nothing is forgotten while the rule is not registered.
        assert_eq!(judged(None, &[(8, 8, b"x")]).unwrap(), (vec![Verdict::Keep(8)], at(7)));
    }

    #[test]
    fn a_run_that_panics_at_its_end_does_no_harm() {
        let mut rules = CompactionRules::default();
        rules.add(Arc::new(EndsBadly));
        let begin = || BegunRule::begin(&rules, "simple", "t");
        let context = RuleContext::new("t", 900, false, &|_, _| false);
        // As after an error: before the first entry, or without its end.
        drop(begin());
        drop(RunningRule::new(begin(), &context, SCOPE));
        assert_eq!(RunningRule::new(begin(), &context, SCOPE).end(), 0);
    }

    #[test]
    fn a_rule_that_panics_ends_the_run() {
        assert!(judged(Some(Simple(None)), &[(8, 8, b"x"), (8, 8, b"!"), (9, 9, b"x")]).is_err());
        let context = RuleContext::new("t", 900, false, &|_, _| false);
        let mut without = RunningRule::new(BegunRule::after_panic(), &context, SCOPE);
        let content = Content { kind: Kind::Put, expiry: None, attributes: &[], value: b"x" };
        assert_eq!(without.judge(b"k", 8, 8, &content).unwrap(), Verdict::Keep(8));
        assert_eq!(without.look_again().unwrap(), at(1000 + LATER_US));
    }
}
