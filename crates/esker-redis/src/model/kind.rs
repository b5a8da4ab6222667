//! The types of values, and how an entry tells its own.

use super::coding::damaged;
use crate::entry::Entry;
use crate::fault::ReadError;

/// The bit of an entry's first attribute that says that its collection is large.
pub(super) const LARGE: u8 = 0x80;

/// The type of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// Bytes.
    String,
    /// Fields with values.
    Hash,
    /// Members.
    Set,
    /// Members with scores.
    SortedSet,
    /// Values in order.
    List,
}

impl Kind {
    /// Its name, as `TYPE` tells it.
    pub fn name(self) -> &'static str {
        match self {
            Kind::String => "string",
            Kind::Hash => "hash",
            Kind::Set => "set",
            Kind::SortedSet => "zset",
            Kind::List => "list",
        }
    }

    pub(super) fn number(self) -> u8 {
        match self {
            Kind::String => 0,
            Kind::Hash => 1,
            Kind::Set => 2,
            Kind::SortedSet => 3,
            Kind::List => 4,
        }
    }

    /// The type of an entry. One that this version does not know is damage.
    pub fn of(entry: &Entry) -> Result<Kind, ReadError> {
        let Some(first) = entry.attributes.first() else { return Ok(Kind::String) };
        let all = [Kind::String, Kind::Hash, Kind::Set, Kind::SortedSet, Kind::List];
        all.into_iter()
            .find(|kind| kind.number() == first & !LARGE)
            .ok_or_else(|| damaged("the type of a value is unknown to this version"))
    }
}
