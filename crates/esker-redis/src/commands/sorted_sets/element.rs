//! The elements of a sorted set: what finds a score, and what puts a member in order. See [`set`](super::set).

use smallvec::SmallVec;

/// The key of an entry. Most take no memory of their own.
pub(super) type Element = SmallVec<[u8; 64]>;

/// A number whose order among others is that of the scores. Both zeros are one score.
pub(super) fn ordered(score: f64) -> u64 {
    let bits = (score + 0.0).to_bits();
    if score < 0.0 { !bits } else { bits | 1 << 63 }
}

pub(super) fn score_of(ordered: u64) -> f64 {
    f64::from_bits(if ordered >> 63 == 0 { !ordered } else { ordered & !(1 << 63) })
}

/// The element that finds a member's score.
pub(super) fn by_member(member: &[u8]) -> Element {
    let mut element = Element::from_slice(b"m");
    element.extend_from_slice(member);
    element
}

/// The element that puts a member in order.
pub(super) fn by_score(score: f64, member: &[u8]) -> Element {
    let mut element = Element::from_slice(b"s");
    element.extend_from_slice(&ordered(score).to_be_bytes());
    element.extend_from_slice(member);
    element
}
