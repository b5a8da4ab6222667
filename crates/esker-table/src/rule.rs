//! What of a table is garbage: flushes and merges ask this, and drop it.
//!
//! ```text
//! run over a tree   head of a row: its deletes   column: its deletes, then its puts, latest first
//! ```
//! A run sees a part of the tree. What it does not see may be a newer put or a delete of what it sees. So it may call garbage
//! only what stays garbage whatever else there is:
//! - **A put or delete that has outlived its family's time to live**, by the time of the oldest reader. A delete has no effect
//!   on puts that are later than it, and those that are not have expired too.
//! - **A put or delete that a delete up to a timestamp removes.** The run has that delete too, so the delete goes no earlier. If
//!   all open snapshots see that delete, it is garbage for them too: scanners may always be open.
//! - **A put that is surplus because of newer ones**: of the same column, with later timestamps *and* higher sequence numbers,
//!   and as many as the family keeps. When the last of these was written, all of them were there, or a delete up to a timestamp
//!   had removed some; but that delete has a higher sequence number than the put that it removed, and so removes this put too.
//! - **A put that is surplus for any reason**, if the run has all of the column and of the row's head, and the family's limit has
//!   never risen.
//! - **A put that a newer one with its timestamp has replaced**, if the family's limit of versions has not risen in between. Up to
//!   then the older one may have driven out others.
//! - **All of a family that was dropped.**
//! - **A delete up to a timestamp**, if the run has all that it could remove ([`RuleContext::alone`]).
//!
//! A delete of a single version makes the third and the fifth conclusion wrong where the family keeps a limited number of
//! versions: an unseen one may have kept the newer puts from being there together. In a family that may have such deletes
//! ([`Rules::has_deleted_versions`]) surplus and replaced puts stay, and so do the deleted version and its delete: the put may
//! have driven out another one, which would come back. Where the family keeps all versions, nothing drives out anything: the
//! deleted version goes with its delete.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashMap};
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use esker::rules::{CompactionRule, RuleContext, RuleDecision, RuleEntry, RuleRun};

use crate::canary;
use crate::cell::{self, Entry, FamilyId, Kind, NO_FAMILY, Version};
use crate::schema::Rules;
use crate::versions::{Deletes, Heads};

/// The name of the rule, which the trees of tables have.
pub(crate) const RULE: &str = "esker tables 1";

/// The families of a tree, as the rule has to know them.
#[derive(Debug, Clone)]
pub(crate) struct Families {
    rules: BTreeMap<FamilyId, Rules>,
    /// How long the cells of all families live at most. `None`: some live for ever, or there are no families.
    longest_ttl_ms: Option<u64>,
    /// A family with a lower number that has no rules was dropped, and all that it has is garbage.
    next: FamilyId,
    /// Readers of this time and of later ones know these families, in milliseconds since 1970.
    since_ms: i64,
    /// No run goes by a later time than this one, in milliseconds since 1970: the families may live longer since.
    until_ms: Arc<AtomicI64>,
}

impl Families {
    pub(crate) fn new(rules: BTreeMap<FamilyId, Rules>, next: FamilyId, since_ms: i64) -> Families {
        let ttls = rules.values().map(|rules| rules.ttl_ms);
        let longest_ttl_ms = ttls.reduce(|one, other| Some(one?.max(other?))).flatten();
        Families { rules, longest_ttl_ms, next, since_ms, until_ms: Arc::new(AtomicI64::new(i64::MAX)) }
    }
}

/// The rule of all trees of tables. It keeps everything in a tree that it was told nothing of.
#[derive(Debug, Clone, Default)]
pub(crate) struct TableRule {
    /// By the names of trees.
    families: Arc<RwLock<HashMap<String, Arc<Families>>>>,
}

impl TableRule {
    /// From now on, the tree `name` has these families; that must survive a crash.
    pub(crate) fn tell(&self, name: &str, families: Families) {
        self.families
            .write()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(name.to_owned(), Arc::new(families));
    }

    /// Forgets a tree. From now on, runs that know it go by no later time than `now_ms`, which is now.
    pub(crate) fn forget(&self, name: &str, now_ms: i64) {
        let families = self.families.write().unwrap_or_else(PoisonError::into_inner).remove(name);
        if let Some(families) = families {
            families.until_ms.store(now_ms, Ordering::SeqCst);
        }
    }
}

impl CompactionRule for TableRule {
    fn name(&self) -> &str {
        RULE
    }

    fn begin(&self, tree: &str) -> Box<dyn RuleRun + '_> {
        let families = self.families.read().unwrap_or_else(PoisonError::into_inner).get(tree).cloned();
        Box::new(Run { families, ..Run::default() })
    }

    /// Those of the row and of the column.
    fn prefixes(&self, key: &[u8]) -> Vec<usize> {
        let Ok(row_len) = cell::row_len(key) else { return Vec::new() };
        match cell::entry(key, row_len) {
            Ok(Entry::Column { column_len, .. }) => vec![row_len, column_len],
            _ => vec![row_len],
        }
    }
}

/// What a run can ask.
trait Surroundings {
    /// The time of the oldest reader, in microseconds since 1970.
    fn now_us(&self) -> u64;

    /// Whether the run has everything that the tree holds in this range of keys.
    fn alone(&self, lower: &[u8], upper: &[u8]) -> bool;
}

impl Surroundings for RuleContext<'_> {
    fn now_us(&self) -> u64 {
        RuleContext::now_us(self)
    }

    fn alone(&self, lower: &[u8], upper: &[u8]) -> bool {
        RuleContext::alone(self, lower, Some(upper))
    }
}

/// One flush or merge.
#[derive(Default)]
struct Run {
    families: Option<Arc<Families>>,
    /// The beginning of the keys of the row that is shown, and the deletes at its head, by families.
    row: Vec<u8>,
    heads: Heads,
    /// Those of them that all readers see.
    heads_of_all: Heads,
    /// The beginning of the keys of the column that is shown.
    column: Vec<u8>,
    state: Column,
    /// When the first and the last entry of a table expire that stay, in milliseconds since 1970.
    expire_ms: Option<(i64, i64)>,
    /// The time of a run that nobody has told of the tree's families yet, as while a store is opened.
    unknown_us: Option<u64>,
}

/// A column, as far as it was shown.
#[derive(Default)]
struct Column {
    deletes: Deletes,
    /// Those of them that all readers see.
    deletes_of_all: Deletes,
    deleted_versions: Vec<Version>,
    /// The last put that no delete up to a timestamp removes.
    last: Option<Version>,
    /// The highest sequence numbers of such puts: at most as many as the family keeps versions.
    highest: BinaryHeap<Reverse<u64>>,
    /// Whether the run has all of the column and of the row's head; `None`: nobody has asked.
    is_whole: Option<bool>,
}

impl Column {
    /// Begins a column. The memory of the one before is used again.
    fn clear(&mut self) {
        let Column { deletes, deletes_of_all, deleted_versions, last, highest, is_whole } = self;
        deletes.clear();
        deletes_of_all.clear();
        deleted_versions.clear();
        highest.clear();
        (*last, *is_whole) = (None, None);
    }
}

impl RuleRun for Run {
    fn entry(&mut self, context: &RuleContext<'_>, entry: &RuleEntry<'_>) -> RuleDecision {
        self.judge(context, entry.key, entry.seen_by_all)
    }

    fn look_again_us(&mut self) -> Option<u64> {
        if let Some(now_us) = self.unknown_us.take() {
            return Some(now_us);
        }
        let (first, last) = self.expire_ms.take()?;
        u64::try_from(first + (last - first) / 2).ok()?.checked_mul(1000)
    }
}

impl Run {
    /// What becomes of the entry with this key; `of_all`: all readers see it.
    fn judge(&mut self, context: &impl Surroundings, key: &[u8], of_all: bool) -> RuleDecision {
        let Some(families) = self.families.take() else {
            self.unknown_us = Some(context.now_us());
            return RuleDecision::Keep;
        };
        let decision = self.judge_by(&families, context, key, of_all);
        self.families = Some(families);
        decision
    }

    fn judge_by(
        &mut self,
        families: &Families,
        context: &impl Surroundings,
        key: &[u8],
        of_all: bool,
    ) -> RuleDecision {
        let now_ms = i64::try_from(context.now_us() / 1000).unwrap_or(i64::MAX);
        let now_ms = now_ms.min(families.until_ms.load(Ordering::SeqCst));
        // A key that is no cell's is not garbage, but damage: a reader has to see it.
        let Ok(row_len) = cell::row_len(key) else { return RuleDecision::Keep };
        let Ok(what) = cell::entry(key, row_len) else { return RuleDecision::Keep };
        let row = &key[..row_len];
        if self.row != row {
            self.row.clear();
            self.row.extend_from_slice(row);
            self.heads.clear();
            self.heads_of_all.clear();
            self.column.clear();
        }
        let (of, version) = match what {
            Entry::Head { family, version } | Entry::Column { family, version, .. } => (family, version),
        };
        let rules = families.rules.get(&of);
        if of != NO_FAMILY && of < families.next && rules.is_none() {
            return RuleDecision::Drop;
        }
        if let Entry::Column { column_len, .. } = what
            && self.column != key[..column_len]
        {
            self.column.clear();
            self.column.extend_from_slice(&key[..column_len]);
            self.state.clear();
        }
        // Also if the family is unknown: the delete may go, and then the put must not stay.
        let is_of_column = !self.column.is_empty();
        let covered = |heads: &Heads, deletes: &Deletes| {
            heads.above(of).any(|deletes| deletes.cover(version)) || (is_of_column && deletes.cover(version))
        };
        if covered(&self.heads, &self.state.deletes) {
            let for_all = covered(&self.heads_of_all, &self.state.deletes_of_all);
            return if for_all { RuleDecision::DropPinned } else { RuleDecision::Drop };
        }
        let ttl_ms = match of {
            NO_FAMILY => families.longest_ttl_ms,
            _ => rules.and_then(|rules| rules.ttl_ms),
        };
        if self.has_expired(ttl_ms, version, now_ms) {
            let is_known = now_ms >= families.since_ms;
            return if is_known { RuleDecision::DropPinned } else { RuleDecision::Drop };
        }
        if rules.is_some_and(|rules| rules.expired_before(version)) {
            return RuleDecision::Drop;
        }
        let is_garbage = match what {
            Entry::Head { family, .. } => {
                self.heads.add(family, version);
                if of_all {
                    self.heads_of_all.add(family, version);
                }
                match family {
                    NO_FAMILY => context.alone(row, &cell::behind(row)),
                    _ => context.alone(&cell::family_prefix(row, family), &cell::behind_family(row, family)),
                }
            }
            Entry::Column { kind, .. } => rules.is_some_and(|rules| match kind {
                Kind::DeleteColumn => {
                    self.state.deletes.add(version);
                    if of_all {
                        self.state.deletes_of_all.add(version);
                    }
                    context.alone(&self.column, &cell::behind(&self.column))
                }
                Kind::DeleteVersion => {
                    self.state.deleted_versions.push(version);
                    !rules.limits_versions() && context.alone(&self.column, &cell::behind(&self.column))
                }
                Kind::Put => self.put(context, rules, version),
            }),
        };
        if is_garbage { RuleDecision::Drop } else { RuleDecision::Keep }
    }

    /// Whether an entry that lives so long has outlived its time. Otherwise it is noted when it will have.
    fn has_expired(&mut self, ttl_ms: Option<u64>, version: Version, now_ms: i64) -> bool {
        let Some(ttl_ms) = ttl_ms.and_then(|ttl_ms| i64::try_from(ttl_ms).ok()) else { return false };
        // An entry counts up to that moment, and at it.
        let last_ms = version.timestamp.saturating_add(ttl_ms);
        if last_ms < now_ms {
            return true;
        }
        // What lives longer than a clock counts is never looked at again for that.
        if last_ms >= i64::MAX / 1000 {
            return false;
        }
        let expires_ms = last_ms + 1;
        let (first, last) = self.expire_ms.unwrap_or((expires_ms, expires_ms));
        self.expire_ms = Some((first.min(expires_ms), last.max(expires_ms)));
        false
    }

    /// Notes a put that no delete up to a timestamp removes. Returns whether it is garbage.
    fn put(&mut self, context: &impl Surroundings, rules: &Rules, put: Version) -> bool {
        let newer = self.state.last.replace(put).filter(|newer| newer.timestamp == put.timestamp);
        if !rules.limits_versions() {
            let removes =
                |delete: &Version| delete.timestamp == put.timestamp && delete.sequence > put.sequence;
            return newer.is_some() || self.state.deleted_versions.iter().any(removes);
        }
        if rules.has_deleted_versions && !canary::broken("cell-garbage") {
            return false;
        }
        if newer.is_some_and(|newer| rules.limit_at(newer.sequence) == rules.limit_at(put.sequence)) {
            return true;
        }
        let Some(max_versions) = rules.max_versions else { return false };
        let highest = &mut self.state.highest;
        let is_full = highest.len() >= max_versions as usize;
        if is_full && highest.peek().is_some_and(|least| least.0 > put.sequence) {
            return true;
        }
        if newer.is_some() {
            return false;
        }
        highest.push(Reverse(put.sequence));
        if !is_full {
            return false;
        }
        highest.pop();
        // One of those before may have been driven out while the limit was lower, and then this one is not surplus.
        !rules.has_past_limits() && self.has_all_of_column(context)
    }

    /// Whether the run has all puts of the column that is shown, and all deletes that are above them.
    fn has_all_of_column(&mut self, context: &impl Surroundings) -> bool {
        *self.state.is_whole.get_or_insert_with(|| {
            let head = (cell::family_prefix(&self.row, NO_FAMILY), cell::behind_family(&self.row, NO_FAMILY));
            context.alone(&head.0, &head.1) && context.alone(&self.column, &cell::behind(&self.column))
        })
    }
}

#[cfg(test)]
impl TableRule {
    /// What it was told, by the names of trees: the rules of the families, and the number of the next one.
    pub(crate) fn known(&self) -> BTreeMap<String, (BTreeMap<FamilyId, Rules>, FamilyId)> {
        let families = self.families.read().unwrap();
        families.iter().map(|(name, of)| (name.clone(), (of.rules.clone(), of.next))).collect()
    }

    /// A run over a tree that begins now, and what it decides later: at the time of the oldest reader, in milliseconds since 1970, of
    /// the entry with a key.
    pub(crate) fn begun(&self, tree: &str) -> impl FnMut(i64, &[u8]) -> RuleDecision + use<> {
        struct At(i64);
        impl Surroundings for At {
            fn now_us(&self) -> u64 {
                self.0 as u64 * 1000
            }
            fn alone(&self, _: &[u8], _: &[u8]) -> bool {
                false
            }
        }
        let families = self.families.read().unwrap().get(tree).cloned();
        let mut run = Run { families, ..Run::default() };
        move |now_ms, key| run.judge(&At(now_ms), key, false)
    }
}

#[cfg(test)]
mod tests;
