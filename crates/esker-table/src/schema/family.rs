//! Column families and their rules: which cells live, now and by earlier rules; and access groups, which have families.

use core::time::Duration;
use std::sync::Arc;

use crate::cell::{FamilyId, NO_FAMILY, Version};

/// How many versions of a cell a family keeps unless it says otherwise, as in HBase.
pub const VERSIONS_DEFAULT: u32 = 3;

/// The number of an access group in its table; no two groups ever have the same.
pub(crate) type GroupId = u16;

/// A group without a number.
pub(super) const NO_GROUP: GroupId = 0;

/// Column families whose cells lie together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccessGroup {
    /// [`NO_GROUP`]: the table has not given it one yet.
    pub(crate) id: GroupId,
    pub(super) name: String,
    pub(super) families: Vec<Family>,
}

impl AccessGroup {
    /// The name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its families.
    pub fn families(&self) -> &[Family] {
        &self.families
    }
}

/// A column family: its name, and which cells it keeps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Family {
    /// [`NO_FAMILY`]: the table has not given it one yet.
    pub(crate) id: FamilyId,
    pub(super) name: String,
    /// `None`: all.
    pub(super) max_versions: Option<u32>,
    pub(super) ttl_ms: Option<u64>,
    pub(super) is_counter: bool,
    pub(crate) value_index: Index,
    pub(crate) qualifier_index: Index,
    /// Whether somebody may have deleted single versions of its cells.
    pub(super) has_deleted_versions: bool,
    pub(super) past: Arc<Past>,
}

/// Whether a family has an index.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Index {
    #[default]
    None,
    /// Writes are entered. What the table had before is not in it yet.
    Building,
    Ready,
}

impl Index {
    pub(super) fn wanted(is_wanted: bool) -> Index {
        if is_wanted { Index::Ready } else { Index::None }
    }

    pub(crate) fn is_kept(self) -> bool {
        self != Index::None
    }

    /// The index of a family that had `old` before.
    fn succeeding(self, old: Index) -> Index {
        match (self, old) {
            (Index::None, _) => Index::None,
            (_, Index::Ready) => Index::Ready,
            _ => Index::Building,
        }
    }
}

/// Earlier rules of a family, as far as they still matter: what went by stricter ones does not come back.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Past {
    /// (sequence, limit): what was written below this sequence number, and not below an earlier one, had this limit of
    /// versions (`None`: all are kept). The sequence numbers rise. As long as no single versions were deleted, the limits rise
    /// too, up to the family's: a lower limit removes what it would have removed from the beginning on.
    pub(super) limits: Vec<(u64, Option<u32>)>,
    /// (sequence, timestamp): what was written below this sequence number has expired if its timestamp is below this one.
    /// The sequence numbers rise, the timestamps fall.
    pub(super) expired: Vec<(u64, i64)>,
}

impl Family {
    /// A family with this name, which keeps [`VERSIONS_DEFAULT`] versions of a cell for ever.
    pub fn new(name: impl Into<String>) -> Family {
        Family {
            id: NO_FAMILY,
            name: name.into(),
            max_versions: Some(VERSIONS_DEFAULT),
            ttl_ms: None,
            is_counter: false,
            value_index: Index::None,
            qualifier_index: Index::None,
            has_deleted_versions: false,
            past: Arc::default(),
        }
    }

    /// Keeps this many versions of a cell: those with the latest timestamps. `None`: all. A version that was
    /// surplus once does not come back, also if later ones are deleted.
    #[must_use]
    pub fn max_versions(mut self, versions: impl Into<Option<u32>>) -> Family {
        self.max_versions = versions.into();
        self
    }

    /// Keeps a cell for this long after its timestamp, to the millisecond. `None`: for ever.
    #[must_use]
    pub fn ttl(mut self, ttl: impl Into<Option<Duration>>) -> Family {
        self.ttl_ms = ttl.into().map(|ttl| u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX));
        self
    }

    /// Makes its cells counters: a put must have the 8 bytes of a number, big-endian, as
    /// [`RowMutation::increment`](crate::RowMutation::increment) writes it.
    #[must_use]
    pub fn counter(mut self, is_counter: bool) -> Family {
        self.is_counter = is_counter;
        self
    }

    /// Keeps an index of its values: a read with a filter that wants a value of the family, or values that begin so, looks
    /// for the rows there. A row's index changes with the row. Each put costs a read and up to two entries more.
    #[must_use]
    pub fn index_values(mut self, is_indexed: bool) -> Family {
        self.value_index = Index::wanted(is_indexed);
        self
    }

    /// Keeps an index of its qualifiers: a read of single columns of the family looks for the rows there.
    #[must_use]
    pub fn index_qualifiers(mut self, is_indexed: bool) -> Family {
        self.qualifier_index = Index::wanted(is_indexed);
        self
    }

    /// Whether it has an index of its values.
    pub fn has_value_index(&self) -> bool {
        self.value_index.is_kept()
    }

    /// Whether it has an index of its qualifiers.
    pub fn has_qualifier_index(&self) -> bool {
        self.qualifier_index.is_kept()
    }

    /// Whether it has any index.
    pub(crate) fn has_index(&self) -> bool {
        self.has_value_index() || self.has_qualifier_index()
    }

    /// Whether what the table had before is still to be entered into an index of it.
    pub(crate) fn is_building(&self) -> bool {
        [self.value_index, self.qualifier_index].contains(&Index::Building)
    }

    /// The name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// How many versions of a cell it keeps; `None`: all.
    pub fn kept_versions(&self) -> Option<u32> {
        self.max_versions
    }

    /// For how long after its timestamp a cell lives; `None`: for ever.
    pub fn time_to_live(&self) -> Option<Duration> {
        self.ttl_ms.map(Duration::from_millis)
    }

    /// Whether its cells are counters.
    pub fn is_counter(&self) -> bool {
        self.is_counter
    }

    /// The rules by which cells of this family live.
    pub(crate) fn rules(&self) -> Rules {
        Rules {
            max_versions: self.max_versions,
            ttl_ms: self.ttl_ms,
            has_deleted_versions: self.has_deleted_versions,
            past: Arc::clone(&self.past),
        }
    }

    /// The family without what a table has given it: its number, and its past.
    pub(super) fn without_past(mut self) -> Family {
        (self.id, self.has_deleted_versions, self.past) = (NO_FAMILY, false, Arc::default());
        self.made_anew();
        self
    }

    /// The family has no cells, so its indexes lack none.
    pub(super) fn made_anew(&mut self) {
        for index in [&mut self.value_index, &mut self.qualifier_index] {
            *index = Index::wanted(index.is_kept());
        }
    }

    /// The family, which succeeds `old`: it keeps in mind which of its rules were stricter.
    pub(super) fn succeed(&mut self, old: &Family, at: Moment) {
        (self.id, self.has_deleted_versions) = (old.id, old.has_deleted_versions);
        self.value_index = self.value_index.succeeding(old.value_index);
        self.qualifier_index = self.qualifier_index.succeeding(old.qualifier_index);
        let mut past = (*old.past).clone();
        let is_above =
            |limit: Option<u32>| limit.is_some_and(|limit| self.max_versions.is_none_or(|max| max > limit));
        if !self.has_deleted_versions {
            past.limits.retain(|(_, limit)| is_above(*limit));
        }
        let matters = is_above(old.max_versions) || self.has_deleted_versions;
        if matters && old.max_versions != self.max_versions {
            past.limits.push((at.sequence, old.max_versions));
        }
        if let Some(ttl_ms) = old.ttl_ms.filter(|old| self.ttl_ms.is_none_or(|ttl_ms| ttl_ms > *old)) {
            let below = expired_below(Some(ttl_ms), at.now_ms);
            past.expired.retain(|(_, timestamp)| *timestamp > below);
            past.expired.push((at.sequence, below));
        }
        self.past = Arc::new(past);
    }
}

/// When a schema is changed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Moment {
    /// All writes before the moment have lower sequence numbers, and no other has. (Not while a change is only tried.)
    pub(crate) sequence: u64,
    /// The time, in milliseconds since 1970: no earlier than that of any merge by the rules before.
    pub(crate) now_ms: i64,
}

/// Cells with a timestamp below this one have expired at `now_ms`.
fn expired_below(ttl_ms: Option<u64>, now_ms: i64) -> i64 {
    now_ms.saturating_sub(ttl_ms.and_then(|ttl_ms| i64::try_from(ttl_ms).ok()).unwrap_or(i64::MAX))
}

/// By which rules the cells of a family live.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Rules {
    /// `None`: all.
    pub(crate) max_versions: Option<u32>,
    pub(crate) ttl_ms: Option<u64>,
    /// Whether single versions may have been deleted.
    pub(crate) has_deleted_versions: bool,
    pub(super) past: Arc<Past>,
}

impl Rules {
    /// Cells with a timestamp below this one have expired at `now_ms`.
    pub(crate) fn expired_below(&self, now_ms: i64) -> i64 {
        expired_below(self.ttl_ms, now_ms)
    }

    /// From when on a cell with this timestamp has expired; the greatest number: never.
    pub(crate) fn expires_ms(&self, timestamp: i64) -> i64 {
        let ttl_ms = self.ttl_ms.and_then(|ttl_ms| i64::try_from(ttl_ms).ok()).unwrap_or(i64::MAX);
        timestamp.saturating_add(ttl_ms).saturating_add(1)
    }

    /// Whether the entry had expired when the family's time to live became longer.
    pub(crate) fn expired_before(&self, version: Version) -> bool {
        self.past
            .expired
            .iter()
            .any(|(sequence, below)| version.sequence < *sequence && version.timestamp < *below)
    }

    /// How many versions of a cell the family kept when this sequence number was written; `None`: all.
    pub(crate) fn limit_at(&self, sequence: u64) -> Option<u32> {
        let mut limits = self.past.limits.iter();
        limits.find(|(until, _)| sequence < *until).map_or(self.max_versions, |(_, limit)| *limit)
    }

    /// The sequence numbers from which on it had another limit.
    pub(crate) fn limit_changes(&self) -> impl Iterator<Item = u64> {
        self.past.limits.iter().map(|(sequence, _)| *sequence)
    }

    /// Whether there may be surplus versions in the family.
    pub(crate) fn limits_versions(&self) -> bool {
        self.max_versions.is_some() || self.has_past_limits()
    }

    /// Whether an earlier limit of versions still matters.
    pub(crate) fn has_past_limits(&self) -> bool {
        !self.past.limits.is_empty()
    }
}

#[cfg(test)]
impl Rules {
    /// Rules of a family that nobody has changed.
    pub(crate) fn of(max_versions: Option<u32>, ttl_ms: Option<u64>) -> Rules {
        Rules { max_versions, ttl_ms, has_deleted_versions: false, past: Arc::default() }
    }

    /// The rules that the family has after a change at `at`.
    pub(crate) fn changed(&self, max_versions: Option<u32>, ttl_ms: Option<u64>, at: Moment) -> Rules {
        let mut old = Family::new("f").max_versions(self.max_versions);
        (old.ttl_ms, old.has_deleted_versions) = (self.ttl_ms, self.has_deleted_versions);
        old.past = Arc::clone(&self.past);
        let mut new = Family::new("f").max_versions(max_versions);
        new.ttl_ms = ttl_ms;
        new.succeed(&old, at);
        new.rules()
    }
}
