//! Which versions of a cell count.
//!
//! The rule, in terms of a small table of one column, timestamp to value, that writes change one after the other, in the
//! order of their sequence numbers:
//! - a put enters its value at its timestamp, and replaces what is there;
//! - if the column then has more than the family's `max_versions`, those with the least timestamps go;
//! - a delete removes what is there up to its timestamp, or at it.
//!
//! What is in the table at the end, and has not outlived the family's time to live, counts. When `max_versions` becomes lower, the
//! table loses those with the least timestamps; when it or the time to live becomes greater, nothing comes back that was gone
//! ([`Rules::limit_at`], [`Rules::expired_before`]). So an earlier delete removes no
//! later put, whatever its timestamp, and a value that had to go does not come back. HBase has these rules with
//! `NEW_VERSION_BEHAVIOR`.
//!
//! A reader does not replay all that: it meets the column's markers first and then its puts, by falling timestamps, and asks
//! [`Column::judge`] about each. Deletes up to a timestamp need no replay:
//! - A put that such a delete removes ([`Deletes::cover`]) never decides about another put that counts in the end. While it
//!   was there it may have driven out a put with a lesser timestamp; but that one was written before the delete too, which
//!   removes it as well.
//! - So of the puts that no such delete removes, the `max_versions` latest timestamps count.
//!
//! Deletes of single versions break the second statement: a put that was driven out stays away though what drove it out is
//! deleted. So does a limit that was lower once. Only a column that has such deletes and a limit, or a family that had a lower
//! limit, has its puts replayed ([`replay`]).

use std::collections::{BTreeMap, BTreeSet};

use crate::canary;
use crate::cell::{FamilyId, Kind, NO_FAMILY, Version};
use crate::schema::Rules;

/// Deletes up to a timestamp: those of a row, a family and a column alike.
#[derive(Debug, Clone, Default)]
pub(crate) struct Deletes {
    /// Timestamps fall and sequence numbers rise: a delete that another one surpasses in both is left out.
    versions: Vec<Version>,
}

impl Deletes {
    pub(crate) fn add(&mut self, delete: Version) {
        let versions = &mut self.versions;
        // Of those that reach so far, the last one has the greatest sequence number.
        let reach = versions.partition_point(|old| old.timestamp >= delete.timestamp);
        if reach.checked_sub(1).is_some_and(|last| versions[last].sequence >= delete.sequence) {
            return;
        }
        let from = versions.partition_point(|old| old.timestamp > delete.timestamp);
        let surpassed = versions[from..].partition_point(|old| old.sequence <= delete.sequence);
        versions.splice(from..from + surpassed, [delete]);
    }

    pub(crate) fn add_all(&mut self, others: &Deletes) {
        others.versions.iter().for_each(|delete| self.add(*delete));
    }

    pub(crate) fn clear(&mut self) {
        self.versions.clear();
    }

    /// Whether one of them removes a put of this version.
    pub(crate) fn cover(&self, put: Version) -> bool {
        // The last one with a timestamp that reaches so far has the greatest sequence number of these.
        let reach = self.versions.partition_point(|delete| delete.timestamp >= put.timestamp);
        reach.checked_sub(1).is_some_and(|last| self.versions[last].sequence > put.sequence)
    }
}

/// The deletes at the head of a row: those of the row and of its families, by their numbers. A row may have deletes of thousands
/// of families, and each of its columns asks for those above it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Heads(Vec<(FamilyId, Deletes)>);

impl Heads {
    /// Adds a delete of a family; [`NO_FAMILY`]: of the row.
    pub(crate) fn add(&mut self, family: FamilyId, delete: Version) {
        match self.place(family) {
            Ok(place) => self.0[place].1.add(delete),
            Err(place) => self.0.insert(place, (family, Deletes { versions: vec![delete] })),
        }
    }

    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }

    /// Those that concern cells of a family.
    pub(crate) fn above(&self, family: FamilyId) -> impl Iterator<Item = &Deletes> {
        let of_family = Some(family).filter(|family| *family != NO_FAMILY);
        let places = [Some(NO_FAMILY), of_family].into_iter().flatten().filter_map(|of| self.place(of).ok());
        places.map(|place| &self.0[place].1)
    }

    /// Where the deletes of the family are; `Err`: where they belong.
    fn place(&self, family: FamilyId) -> Result<usize, usize> {
        self.0.binary_search_by_key(&family, |(of, _)| *of)
    }
}

/// What becomes of a put.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    Counts,
    DoesNot,
    /// Neither this one counts nor any of the column behind it.
    NoneBehind,
}

/// One column, as a reader meets it: markers first, then puts.
#[derive(Debug, Default)]
pub(crate) struct Column {
    deletes: Deletes,
    /// Deletes of single versions, as they lie: the latest timestamps first, and of one timestamp the newest.
    deleted_versions: Vec<Version>,
    /// The puts that count, if they were found by replaying all.
    replayed: Option<BTreeSet<Version>>,
    /// The timestamp of the last put that no delete removes, and how many such timestamps there were.
    last: Option<i64>,
    count: u32,
}

impl Column {
    /// Forgets the column before.
    pub(crate) fn begin(&mut self) {
        self.deletes.clear();
        self.deleted_versions.clear();
        (self.replayed, self.last, self.count) = (None, None, 0);
    }

    /// Notes a marker of the column; puts are no markers.
    pub(crate) fn add(&mut self, kind: Kind, version: Version) {
        match kind {
            Kind::DeleteColumn => self.deletes.add(version),
            Kind::DeleteVersion => self.deleted_versions.push(version),
            Kind::Put => {}
        }
    }

    /// Whether all puts have to be known before the first one can be judged: see [`Column::replay`].
    pub(crate) fn needs_replay(&self, rules: &Rules) -> bool {
        self.replayed.is_none()
            && (rules.has_past_limits() || !self.deleted_versions.is_empty() && rules.max_versions.is_some())
    }

    /// Takes all puts of the column, in any order. `above` has the deletes of its row and family.
    pub(crate) fn replay(&mut self, puts: impl Iterator<Item = Version>, above: &Deletes, rules: &Rules) {
        let is_gone = |put: Version| self.deletes.cover(put) || above.cover(put) || rules.expired_before(put);
        let puts = puts.filter(|put| !is_gone(*put));
        self.replayed = Some(replay(puts, &self.deleted_versions, rules));
    }

    /// What becomes of the next put of the column. `above` has the deletes of its row and family; puts with a timestamp
    /// below `expired_below` have expired.
    pub(crate) fn judge(
        &mut self,
        put: Version,
        above: &Deletes,
        rules: &Rules,
        expired_below: i64,
    ) -> Verdict {
        if put.timestamp < expired_below && !canary::broken("cell-expiry") {
            return Verdict::NoneBehind;
        }
        if let Some(replayed) = &self.replayed {
            return if replayed.contains(&put) { Verdict::Counts } else { Verdict::DoesNot };
        }
        let is_deleted = self.deletes.cover(put) || above.cover(put);
        if (is_deleted && !canary::broken("cell-deletes")) || rules.expired_before(put) {
            return Verdict::DoesNot;
        }
        // A newer put with this timestamp has replaced it.
        if self.last == Some(put.timestamp) {
            return Verdict::DoesNot;
        }
        let is_full = rules.max_versions.is_some_and(|max| self.count >= max);
        if is_full && !canary::broken("cell-versions") {
            return Verdict::NoneBehind;
        }
        // Here the family keeps all versions, or the column has no deletes of single ones.
        self.last = Some(put.timestamp);
        self.count = self.count.saturating_add(1);
        let later = self.deleted_versions.partition_point(|delete| delete.timestamp > put.timestamp);
        let newest = self.deleted_versions.get(later).filter(|delete| delete.timestamp == put.timestamp);
        if newest.is_some_and(|delete| delete.sequence > put.sequence) {
            Verdict::DoesNot
        } else {
            Verdict::Counts
        }
    }
}

/// The puts that are left when they and the deletes of single versions are done in the order of their sequence numbers.
fn replay(puts: impl Iterator<Item = Version>, deleted: &[Version], rules: &Rules) -> BTreeSet<Version> {
    let mut steps: Vec<(Version, bool)> = puts.map(|put| (put, true)).collect();
    steps.extend(deleted.iter().map(|delete| (*delete, false)));
    steps.sort_unstable_by_key(|(version, _)| version.sequence);
    let mut table = BTreeMap::new();
    let trim = |table: &mut BTreeMap<i64, u64>, sequence: u64| {
        while rules.limit_at(sequence).is_some_and(|max| table.len() > max as usize) {
            table.pop_first();
        }
    };
    let mut changes = rules.limit_changes().peekable();
    for (Version { timestamp, sequence }, is_put) in steps {
        while let Some(change) = changes.next_if(|change| *change <= sequence) {
            trim(&mut table, change);
        }
        if is_put {
            table.insert(timestamp, sequence);
            trim(&mut table, sequence);
        } else {
            table.remove(&timestamp);
        }
    }
    changes.for_each(|change| trim(&mut table, change));
    table.into_iter().map(|(timestamp, sequence)| Version { timestamp, sequence }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::Moment;

    /// Does what the rule at the head of this file says, and nothing else.
    /// From `change` on, the family has its second rules.
    fn by_the_rule(
        steps: &[(Step, Version)],
        [first, second]: [&Rules; 2],
        change: Moment,
        now_ms: i64,
    ) -> Vec<Version> {
        let become_second = |table: &mut BTreeMap<i64, u64>| {
            table.retain(|at, _| *at >= first.expired_below(change.now_ms));
            while second.max_versions.is_some_and(|max| table.len() > max as usize) {
                table.pop_first();
            }
        };
        let mut table = BTreeMap::new();
        let mut is_second = false;
        for (step, version) in steps {
            if !is_second && version.sequence >= change.sequence {
                is_second = true;
                become_second(&mut table);
            }
            let rules = if is_second { second } else { first };
            match step {
                Step::Put => {
                    table.insert(version.timestamp, version.sequence);
                    if rules.max_versions.is_some_and(|max| table.len() > max as usize) {
                        table.pop_first();
                    }
                }
                Step::DeleteAbove | Step::DeleteColumn => table.retain(|at, _| *at > version.timestamp),
                Step::DeleteVersion => drop(table.remove(&version.timestamp)),
            }
        }
        if !is_second {
            become_second(&mut table);
        }
        let ttl = second.ttl_ms.map_or(i64::MAX, |ttl| ttl as i64);
        table.retain(|at, _| *at >= now_ms.saturating_sub(ttl));
        table.into_iter().rev().map(|(timestamp, sequence)| Version { timestamp, sequence }).collect()
    }

    /// As a reader does it.
    fn judged(steps: &[(Step, Version)], rules: &Rules, now_ms: i64) -> Vec<Version> {
        let of = |kind: Step| {
            let mut found: Vec<Version> =
                steps.iter().filter(|(step, _)| *step == kind).map(|(_, version)| *version).collect();
            found.sort_unstable_by(|a, b| b.cmp(a));
            found
        };
        let (mut above, mut column) = (Deletes::default(), Column::default());
        of(Step::DeleteAbove).into_iter().for_each(|version| above.add(version));
        column.begin();
        of(Step::DeleteColumn).into_iter().for_each(|version| column.add(Kind::DeleteColumn, version));
        of(Step::DeleteVersion).into_iter().for_each(|version| column.add(Kind::DeleteVersion, version));
        let (puts, expired_below) = (of(Step::Put), rules.expired_below(now_ms));
        if column.needs_replay(rules) {
            column.replay(puts.iter().copied(), &above, rules);
        }
        let mut count = Vec::new();
        for put in puts {
            match column.judge(put, &above, rules, expired_below) {
                Verdict::Counts => count.push(put),
                Verdict::DoesNot => {}
                Verdict::NoneBehind => break,
            }
        }
        count
    }

    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    enum Step {
        Put,
        /// Of the row or the family.
        DeleteAbove,
        DeleteColumn,
        DeleteVersion,
    }

    #[test]
    fn what_a_reader_judges_is_what_the_rule_says() {
        let mut rng = test_kit::Rng::new(test_kit::seed(1));
        let mut below = |bound: u64| rng.below(bound);
        for _ in 0..test_kit::cases(100_000) {
            let limits = [Some(1), Some(2), Some(3), None];
            let times = [Some(4), Some(6), None];
            let (limit, time) = (below(4) as usize, below(3) as usize);
            let mut first = Rules::of(limits[limit], times[time]);
            first.has_deleted_versions = true;
            let (limit, time) = (below(4) as usize, below(3) as usize);
            let change = Moment { sequence: below(14), now_ms: 7 };
            let second = first.changed(limits[limit], times[time], change);
            let (count, kinds) = (below(12) + 1, [1, 2, 4][below(3) as usize]);
            let steps: Vec<(Step, Version)> = (1..=count)
                .map(|sequence| {
                    let step = [Step::Put, Step::DeleteColumn, Step::DeleteAbove, Step::DeleteVersion];
                    let step = if below(2) == 0 { Step::Put } else { step[below(kinds) as usize] };
                    (step, Version { timestamp: below(7) as i64, sequence })
                })
                .collect();
            let expected = by_the_rule(&steps, [&first, &second], change, 8);
            assert_eq!(judged(&steps, &second, 8), expected, "{steps:?} {second:?} {change:?}");
        }
    }

    #[test]
    fn a_value_that_had_to_go_does_not_come_back() {
        let at = |timestamp, sequence| Version { timestamp, sequence };
        let rules = &Rules::of(Some(1), None);
        let steps = [(Step::Put, at(5, 1)), (Step::Put, at(10, 2)), (Step::DeleteVersion, at(10, 3))];
        assert_eq!(judged(&steps, rules, 0), []);
        let steps = [(Step::Put, at(10, 2)), (Step::DeleteVersion, at(10, 3)), (Step::Put, at(5, 4))];
        assert_eq!(judged(&steps, rules, 0), [at(5, 4)]);
    }
}
