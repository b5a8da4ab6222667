//! What of a table is garbage: flushes and merges ask this, and drop it.
//!
//! ```text
//! run over a tree   head of a row: its deletes   column: its deletes, then its puts, latest first
//! ```
//! A run sees a part of the tree. What it does not see may be a newer put or a delete of what it sees, so it may call garbage
//! only what stays garbage whatever else there is:
//! - **A put that has outlived its family's time to live**, by the time of the oldest reader.
//! - **A put that a delete up to a timestamp removes.** The delete is in the run too, so it goes no earlier.
//! - **A put with as many later ones above it as the family keeps**: puts of the same column, with later timestamps *and*
//!   higher sequence numbers. When the last of these was written, all of them were there, or a delete up to a timestamp had
//!   removed some; but that one has a higher sequence number than the put that was removed, and so removes this put too.
//!   The family of a table in which somebody has deleted single versions is left alone: such a delete, unseen, might have
//!   kept those puts from being there together.
//! - **A put with so many later ones above it**, whatever their sequence numbers, if the run has all of the column and of the
//!   row's head.
//! - **A put that a newer one with its timestamp has replaced**; not in such a table either.
//! - **A delete that a later one surpasses**, which removes all that it removes.
//! - **A delete up to a timestamp**, if the run has all that it could remove ([`RuleContext::alone`]).

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};

use esker::rules::{CompactionRule, RuleContext, RuleDecision, RuleEntry, RuleRun};

use crate::cell::{self, Entry, FamilyId, Kind, NO_FAMILY, Version};
use crate::schema::Rules;
use crate::versions::Deletes;

/// The name of the rule, which the trees of tables have.
pub(crate) const RULE: &str = "esker tables 1";

/// What the rule knows of one tree.
#[derive(Debug, Clone, Default)]
pub(crate) struct Facts {
    /// The rules of its families. Cells of other families are kept.
    pub(crate) families: HashMap<FamilyId, Rules>,
    /// Whether somebody may have deleted single versions.
    pub(crate) has_deleted_versions: bool,
}

/// The rule of all trees of tables. It keeps everything in a tree that it was told nothing of.
#[derive(Debug, Clone, Default)]
pub(crate) struct TableRule {
    /// By the names of trees.
    facts: Arc<RwLock<HashMap<String, Arc<Facts>>>>,
}

impl TableRule {
    /// From now on, `facts` are true of the tree `name`; they must survive a crash.
    pub(crate) fn tell(&self, name: &str, facts: Facts) {
        self.facts.write().unwrap_or_else(PoisonError::into_inner).insert(name.to_owned(), Arc::new(facts));
    }

    /// Forgets a tree that is dropped.
    pub(crate) fn forget(&self, name: &str) {
        self.facts.write().unwrap_or_else(PoisonError::into_inner).remove(name);
    }
}

impl CompactionRule for TableRule {
    fn name(&self) -> &str {
        RULE
    }

    fn begin(&self, tree: &str) -> Box<dyn RuleRun + '_> {
        let facts = self.facts.read().unwrap_or_else(PoisonError::into_inner).get(tree).cloned();
        Box::new(Run { facts, ..Run::default() })
    }
}

/// One flush or merge.
#[derive(Default)]
struct Run {
    facts: Option<Arc<Facts>>,
    /// The beginning of the keys of the row that is shown, and the deletes at its head, by families.
    row: Vec<u8>,
    heads: Vec<(FamilyId, Deletes)>,
    /// The beginning of the keys of the column that is shown.
    column: Vec<u8>,
    state: Column,
    /// When the first and the last put of a table expire that stay, in milliseconds since 1970.
    expire_ms: Option<(i64, i64)>,
}

/// A column, as far as it was shown.
#[derive(Default)]
struct Column {
    deletes: Deletes,
    /// The timestamp of the last put that no delete removes.
    last: Option<i64>,
    /// The highest sequence numbers of such puts, rising: at most as many as the family keeps versions.
    highest: Vec<u64>,
    /// Whether the run has all of the column and of the row's head; `None`: nobody has asked.
    is_whole: Option<bool>,
}

impl RuleRun for Run {
    fn entry(&mut self, context: &RuleContext<'_>, entry: &RuleEntry<'_>) -> RuleDecision {
        let Some(facts) = self.facts.clone() else { return RuleDecision::Keep };
        // A key that is no cell's is not garbage, but damage: a reader has to see it.
        let Ok(row_len) = cell::row_len(entry.key) else { return RuleDecision::Keep };
        let Ok(what) = cell::entry(entry.key, row_len) else { return RuleDecision::Keep };
        let row = &entry.key[..row_len];
        if self.row != row {
            self.row.clear();
            self.row.extend_from_slice(row);
            self.heads.clear();
            self.column.clear();
        }
        match what {
            Entry::Head { family, version } => {
                if self.covers(family, version) {
                    return RuleDecision::Drop;
                }
                self.add_head(family, version);
                let range = if family == NO_FAMILY {
                    (row.to_vec(), cell::behind(row))
                } else {
                    (cell::family_prefix(row, family), cell::behind_family(row, family))
                };
                if context.alone(&range.0, Some(&range.1)) { RuleDecision::Drop } else { RuleDecision::Keep }
            }
            Entry::Column { family, column_len, kind, version, .. } => {
                let column = &entry.key[..column_len];
                if self.column != column {
                    self.column.clear();
                    self.column.extend_from_slice(column);
                    self.state = Column::default();
                }
                let Some(rules) = facts.families.get(&family) else { return RuleDecision::Keep };
                if self.covers(family, version) {
                    return RuleDecision::Drop;
                }
                match kind {
                    Kind::DeleteColumn => {
                        self.state.deletes.add(version);
                        let is_alone = context.alone(column, Some(&cell::behind(column)));
                        if is_alone { RuleDecision::Drop } else { RuleDecision::Keep }
                    }
                    Kind::DeleteVersion => RuleDecision::Keep,
                    Kind::Put => self.put(context, &facts, *rules, version),
                }
            }
        }
    }

    fn look_again_us(&mut self) -> Option<u64> {
        let (first, last) = self.expire_ms.take()?;
        u64::try_from(first + (last - first) / 2).ok()?.checked_mul(1000)
    }
}

impl Run {
    fn add_head(&mut self, family: FamilyId, version: Version) {
        match self.heads.iter_mut().find(|(of, _)| *of == family) {
            Some((_, deletes)) => deletes.add(version),
            None => {
                let mut deletes = Deletes::default();
                deletes.add(version);
                self.heads.push((family, deletes));
            }
        }
    }

    /// Whether one of the deletes that were shown removes what was written to the family, or to the column that is shown.
    fn covers(&self, family: FamilyId, version: Version) -> bool {
        let mut above = self.heads.iter().filter(|(of, _)| *of == NO_FAMILY || *of == family);
        above.any(|(_, deletes)| deletes.cover(version))
            || (!self.column.is_empty() && self.state.deletes.cover(version))
    }

    /// Whether the run has all puts of the column that is shown, and all deletes that are above them.
    fn has_all_of_column(&mut self, context: &RuleContext<'_>) -> bool {
        *self.state.is_whole.get_or_insert_with(|| {
            let (head, families) =
                (cell::family_prefix(&self.row, NO_FAMILY), cell::behind_family(&self.row, NO_FAMILY));
            context.alone(&head, Some(&families))
                && context.alone(&self.column, Some(&cell::behind(&self.column)))
        })
    }

    /// Judges a put that no delete in the run removes.
    fn put(&mut self, context: &RuleContext<'_>, facts: &Facts, rules: Rules, put: Version) -> RuleDecision {
        let now_ms = i64::try_from(context.now_us() / 1000).unwrap_or(i64::MAX);
        let expired_below = rules.expired_below(now_ms);
        if put.timestamp < expired_below {
            return RuleDecision::DropPinned;
        }
        if !facts.has_deleted_versions {
            match self.state.add(put, rules.max_versions) {
                Rank::Counts => {}
                Rank::Surpassed => return RuleDecision::Drop,
                Rank::Late if self.has_all_of_column(context) => return RuleDecision::Drop,
                Rank::Late => {}
            }
        }
        if rules.ttl_ms.is_some() {
            let expires_ms = now_ms.saturating_add(put.timestamp - expired_below).saturating_add(1);
            let (first, last) = self.expire_ms.unwrap_or((expires_ms, expires_ms));
            self.expire_ms = Some((first.min(expires_ms), last.max(expires_ms)));
        }
        RuleDecision::Keep
    }
}

/// Where a put is among those of its column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rank {
    /// It counts, as far as the run shows.
    Counts,
    /// A newer put has its timestamp, or as many later and newer ones as the family keeps are above it.
    Surpassed,
    /// As many later ones as the family keeps are above it, but not all are newer.
    Late,
}

impl Column {
    /// Notes the next put.
    fn add(&mut self, put: Version, max_versions: Option<u32>) -> Rank {
        if self.last == Some(put.timestamp) {
            return Rank::Surpassed;
        }
        self.last = Some(put.timestamp);
        let Some(max) = max_versions else { return Rank::Counts };
        let is_full = self.highest.len() >= max as usize;
        if is_full && self.highest.first().is_some_and(|least| *least > put.sequence) {
            return Rank::Surpassed;
        }
        let place = self.highest.partition_point(|other| *other < put.sequence);
        self.highest.insert(place, put.sequence);
        if is_full {
            self.highest.remove(0);
            return Rank::Late;
        }
        Rank::Counts
    }
}
