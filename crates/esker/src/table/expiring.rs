//! Counts a table's expiring entries and decides when a merge to drop them pays off.

use crate::codec::{Decoder, put_varint};
use crate::cursor::{Content, Expiry, Kind};

/// A table with fewer than one expiring entry in this many is not merged to drop them.
const PART: u64 = 8;

/// How long expired huge values of one table gather before a merge frees their space, in microseconds. A
/// merge for them rewrites the table of pointers at most this often.
const GATHERED_US: u64 = 60_000_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Expiring {
    pub(crate) count: u64,
    /// The earliest and the latest expiry; 0 if no entry expires.
    pub(crate) earliest: Expiry,
    pub(crate) latest: Expiry,
    /// The earliest expiry of a huge value.
    pub(crate) huge: Option<Expiry>,
}

impl Expiring {
    #[inline]
    pub(crate) fn note(&mut self, kind: Kind, stored: &[u8]) {
        let entry = Content::open(kind, stored);
        let Some(expiry) = entry.expiry else { return };
        self.earliest = if self.count == 0 { expiry } else { self.earliest.min(expiry) };
        self.latest = self.latest.max(expiry);
        self.count += 1;
        if entry.kind == Kind::Blob {
            self.huge = Some(self.huge.map_or(expiry, |huge| huge.min(expiry)));
        }
    }

    /// When a table of `entries` entries should be merged, if ever: when half of the expiring entries have expired,
    /// assuming evenly spread times. Therefore these merges rewrite at most as many bytes as were written.
    pub(crate) fn due_us(&self, entries: u64) -> Option<u64> {
        let many = self.count > 0 && self.count >= entries / PART;
        let half = many.then(|| self.earliest + (self.latest - self.earliest) / 2);
        let huge = self.huge.map(|huge| huge.saturating_add(GATHERED_US));
        half.into_iter().chain(huge).min()
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        put_varint(out, self.count);
        if self.count > 0 {
            put_varint(out, self.earliest);
            put_varint(out, self.latest - self.earliest);
            out.push(u8::from(self.huge.is_some()));
            put_varint(out, self.huge.map_or(0, |huge| huge - self.earliest));
        }
    }

    pub(crate) fn decode(from: &mut Decoder<'_>) -> Option<Self> {
        let count = from.varint()?;
        if count == 0 {
            return Some(Expiring::default());
        }
        let earliest = from.varint()?;
        let latest = earliest.checked_add(from.varint()?)?;
        let (has_huge, behind) = (from.u8()?, from.varint()?);
        let huge = match has_huge {
            0 => None,
            1 => Some(earliest.checked_add(behind).filter(|huge| *huge <= latest)?),
            _ => return None,
        };
        Some(Expiring { count, earliest, latest, huge })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_knows_when_half_is_over() {
        let mut expiring = Expiring::default();
        assert_eq!(expiring.due_us(10), None);
        expiring.note(Kind::Put, b"not at all");
        for expiry in [300u64, 100, 200] {
            expiring.note(Kind::PutUntil, &expiry.to_le_bytes());
        }
        assert_eq!(expiring, Expiring { count: 3, earliest: 100, latest: 300, huge: None });
        assert_eq!([expiring.due_us(24), expiring.due_us(32)], [Some(200), None]);
        for expiry in [500u64, 400] {
            expiring.note(Kind::BlobUntil, &expiry.to_le_bytes());
        }
        assert_eq!([expiring.due_us(24), expiring.due_us(99)], [Some(300), Some(400 + GATHERED_US)]);
        for known in [Expiring::default(), expiring] {
            let mut bytes = Vec::new();
            known.encode(&mut bytes);
            assert_eq!(Expiring::decode(&mut Decoder::new(&bytes)), Some(known));
        }
    }
}
