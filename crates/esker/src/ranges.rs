//! Ranges of keys, and deletions of ranges: range tombstones.
//!
//! A range tombstone hides the older versions of every key in its range. A tree's range tombstones are kept outside its
//! memtables and tables: here, in the log and, once they are flushed, in the manifest. A read looks them up after it
//! has found an entry; one atomic load shows whether the tree has any. A range tombstone is removed when it hides
//! nothing any more.
//!
//! ```text
//! a ............ m          9       a deletion of a..m with the number 9, and one of d..t before it
//!      d ............. t    5
//! |  9 |  5, 9   | 5   |            fragments: where ranges begin or end
//! ```

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::RwLock;

use crate::codec::{Decoder, put_slice};
use crate::cursor::SeqNo;
use crate::keys::prefix_end;

/// The keys from `lower` up to `upper`, without `upper`; `None`: to the end. This is the only kind of key range: other
/// bounds take this form by [`next_key`]. `ScanRange` adds how to visit the keys, `KeyBounds` where a tree's other keys
/// went.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(crate) struct KeyRange {
    pub(crate) lower: Vec<u8>,
    pub(crate) upper: Option<Vec<u8>>,
}

/// Bounds as the range lookups of sorted maps take them.
pub(crate) type Bounds<'a> = (Bound<&'a [u8]>, Bound<&'a [u8]>);

/// The smallest key that is greater than `key`.
pub(crate) fn next_key(key: &[u8]) -> Vec<u8> {
    [key, &[0]].concat()
}

impl KeyRange {
    /// The keys that begin with `prefix`.
    pub(crate) fn prefix(prefix: &[u8]) -> KeyRange {
        KeyRange { lower: prefix.to_vec(), upper: prefix_end(prefix) }
    }

    pub(crate) fn one_key(key: &[u8]) -> KeyRange {
        KeyRange { lower: key.to_vec(), upper: Some(next_key(key)) }
    }

    /// The key of a range that can have only one.
    pub(crate) fn only_key(&self) -> Option<&[u8]> {
        let is_next = |upper: &Vec<u8>| upper.split_last() == Some((&0, &*self.lower));
        self.upper.as_ref().filter(|upper| is_next(upper)).map(|_| &*self.lower)
    }

    /// Bounds for the range lookups of sorted maps, which panic on crossed bounds; `None` if the range is empty.
    pub(crate) fn bounds(&self) -> Option<Bounds<'_>> {
        let upper = self.upper.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
        (!self.is_empty()).then_some((Bound::Included(self.lower.as_slice()), upper))
    }

    /// Whether the range cannot hold any key.
    pub(crate) fn is_empty(&self) -> bool {
        self.upper.as_ref().is_some_and(|upper| *upper <= self.lower)
    }

    #[inline]
    pub(crate) fn contains(&self, key: &[u8]) -> bool {
        self.lower.as_slice() <= key && self.ends_behind(key)
    }

    /// Whether `key` lies before the upper end.
    #[inline]
    pub(crate) fn ends_behind(&self, key: &[u8]) -> bool {
        self.upper.as_ref().is_none_or(|upper| key < upper.as_slice())
    }

    /// Whether it contains a key in `smallest..=largest`.
    pub(crate) fn overlaps(&self, smallest: &[u8], largest: &[u8]) -> bool {
        self.lower.as_slice() <= largest && self.ends_behind(smallest)
    }

    /// Whether some key is in both ranges.
    pub(crate) fn meets(&self, other: &KeyRange) -> bool {
        !self.is_empty()
            && !other.is_empty()
            && self.ends_behind(&other.lower)
            && other.ends_behind(&self.lower)
    }

    /// Whether it contains every key of `other`.
    pub(crate) fn encloses(&self, other: &KeyRange) -> bool {
        let reaches = match (&self.upper, &other.upper) {
            (None, _) => true,
            (Some(_), None) => false,
            (Some(mine), Some(other)) => mine >= other,
        };
        self.lower <= other.lower && reaches
    }

    /// The keys that are in both ranges; `None` if there cannot be any.
    pub(crate) fn common(&self, other: &KeyRange) -> Option<KeyRange> {
        let upper = match (&self.upper, &other.upper) {
            (Some(one), Some(two)) => Some(one.min(two).clone()),
            (one, two) => one.as_ref().or(two.as_ref()).cloned(),
        };
        let common = KeyRange { lower: self.lower.clone().max(other.lower.clone()), upper };
        (!common.is_empty()).then_some(common)
    }

    /// Appends the form in which files hold the upper end.
    pub(crate) fn encode_upper(&self, out: &mut Vec<u8>) {
        out.push(u8::from(self.upper.is_some()));
        out.extend_from_slice(self.upper.as_deref().unwrap_or_default());
    }

    /// The range that begins at `lower` and has the encoded upper end `upper`; `None` if that is invalid.
    pub(crate) fn decode(lower: &[u8], upper: &[u8]) -> Option<KeyRange> {
        let upper = match upper.split_first()? {
            (0, []) => None,
            (1, upper) => Some(upper.to_vec()),
            _ => return None,
        };
        let range = KeyRange { lower: lower.to_vec(), upper };
        (!range.is_empty()).then_some(range)
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        put_slice(out, &self.lower);
        let mut upper = Vec::new();
        self.encode_upper(&mut upper);
        put_slice(out, &upper);
    }

    pub(crate) fn decode_from(from: &mut Decoder<'_>) -> Option<KeyRange> {
        let lower = from.slice()?;
        KeyRange::decode(lower, from.slice()?)
    }
}

/// A deletion of a range of keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RangeTombstone {
    pub(crate) range: KeyRange,
    pub(crate) seq: SeqNo,
}

#[derive(Debug, Default)]
struct Fragments {
    /// Every bound at which a range begins or ends, with the sequence numbers of the tombstones over the keys from
    /// there up to the next bound, ascending.
    map: BTreeMap<Vec<u8>, Vec<SeqNo>>,
    /// All tombstones, by sequence number.
    list: Vec<RangeTombstone>,
}

/// The range tombstones of a tree. One is added under the commit lock, before its number is visible. To remove some, a
/// successor without them replaces this set, together with the tables that no longer need them.
#[derive(Debug, Default)]
pub(crate) struct RangeTombstones {
    any: AtomicBool,
    fragments: RwLock<Fragments>,
}

impl Fragments {
    /// The sequence numbers of the tombstones over `key`, ascending.
    fn over(&self, key: &[u8]) -> &[SeqNo] {
        let up_to = (Bound::Unbounded, Bound::Included(key));
        self.map.range::<[u8], _>(up_to).next_back().map_or(&[], |(_, seqs)| seqs)
    }

    /// Makes `key` a bound.
    fn split(&mut self, key: &[u8]) {
        if !self.map.contains_key(key) {
            self.map.insert(key.to_vec(), self.over(key).to_vec());
        }
    }

    /// Adds a tombstone whose range is not empty.
    fn add(&mut self, tombstone: RangeTombstone) {
        let RangeTombstone { range, seq } = &tombstone;
        self.split(&range.lower);
        range.upper.iter().for_each(|upper| self.split(upper));
        let within = range.bounds().map(|bounds| self.map.range_mut::<[u8], _>(bounds));
        within.into_iter().flatten().for_each(|(_, seqs)| seqs.push(*seq));
        self.list.push(tombstone);
    }
}

impl RangeTombstones {
    /// The tombstones of `list`, which is in the order of sequence numbers.
    pub(crate) fn new(list: impl IntoIterator<Item = RangeTombstone>) -> Self {
        let all = RangeTombstones::default();
        list.into_iter().for_each(|tombstone| all.add(tombstone));
        all
    }

    /// Adds a tombstone that is newer than all others.
    pub(crate) fn add(&self, tombstone: RangeTombstone) {
        let mut fragments = self.fragments.write();
        debug_assert!(
            fragments.list.last().is_none_or(|last| last.seq < tombstone.seq),
            "they come in order"
        );
        fragments.add(tombstone);
        self.any.store(true, Ordering::Release);
    }

    /// Whether the set has no range tombstones. A thread that sees the sequence number of a tombstone gets `false`.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        !self.any.load(Ordering::Acquire)
    }

    /// The sequence number of the newest tombstone over `key` at or before `seq`; 0 if none covers it.
    #[inline]
    pub(crate) fn newest_over(&self, key: &[u8], seq: SeqNo) -> SeqNo {
        if self.is_empty() { 0 } else { self.look_up(key, seq).0 }
    }

    /// The sequence numbers of the tombstones over `key` next to `seq`: the newest at or before it (0 if none), and the
    /// oldest after it.
    pub(crate) fn look_up(&self, key: &[u8], seq: SeqNo) -> (SeqNo, Option<SeqNo>) {
        let fragments = self.fragments.read();
        let seqs = fragments.over(key);
        let after = seqs.partition_point(|&other| other <= seq);
        (after.checked_sub(1).map_or(0, |at| seqs[at]), seqs.get(after).copied())
    }

    /// Whether a tombstone that is newer than `seq` covers a key of `range`.
    pub(crate) fn reaches(&self, range: &KeyRange, seq: SeqNo) -> bool {
        let Some((_, end)) = range.bounds() else { return false };
        let fragments = self.fragments.read();
        let is_newer = |seqs: &[SeqNo]| seqs.last().is_some_and(|&newest| newest > seq);
        let mut within = fragments.map.range::<[u8], _>((Bound::Excluded(&*range.lower), end));
        is_newer(fragments.over(&range.lower)) || within.any(|(_, seqs)| is_newer(seqs))
    }

    /// The sequence number of the newest tombstone; 0 without one.
    pub(crate) fn newest(&self) -> SeqNo {
        if self.is_empty() { 0 } else { self.fragments.read().list.last().map_or(0, |last| last.seq) }
    }

    /// All tombstones, by sequence number.
    pub(crate) fn list(&self) -> Vec<RangeTombstone> {
        if self.is_empty() { Vec::new() } else { self.fragments.read().list.clone() }
    }

    /// How many tombstones are newer than `seq`.
    pub(crate) fn count_newer(&self, seq: SeqNo) -> usize {
        if self.is_empty() {
            return 0;
        }
        let list = &self.fragments.read().list;
        list.len() - list.partition_point(|one| one.seq <= seq)
    }

    /// The range of a tombstone that is newer than `seq` and covers a key of `range`.
    pub(crate) fn newer_over(&self, range: &KeyRange, seq: SeqNo) -> Option<KeyRange> {
        if self.is_empty() {
            return None;
        }
        let fragments = self.fragments.read();
        let mut newer = fragments.list.iter().rev().take_while(|one| one.seq > seq);
        newer.find(|one| one.range.meets(range)).map(|one| one.range.clone())
    }
}

/// How many fragments a cover looks up at a time. A cover with at most as many is whole.
const FRAGMENTS_AT_ONCE: usize = 64;

impl Fragments {
    /// The fragments of `within`, by the bounds where they begin and end, at most `most` of them; `None` if there are more.
    fn pieces_within(&self, within: &KeyRange, seq: SeqNo, most: usize) -> Option<Vec<RangeTombstone>> {
        let begun = self.map.range::<[u8], _>((Bound::Unbounded, Bound::Included(&*within.lower)));
        let first = begun.map(|(lower, _)| lower.as_slice()).next_back().unwrap_or(&within.lower);
        let from_first = || self.map.range::<[u8], _>((Bound::Included(first), Bound::Unbounded));
        let count = from_first().take_while(|(lower, _)| within.ends_behind(lower)).take(most + 1).count();
        (count <= most).then(|| pieces(from_first(), count, seq))
    }

    /// The fragments around `key`, half of them from its own one on, and the range of keys that they cover completely.
    fn pieces_around(&self, key: &[u8], seq: SeqNo) -> (Vec<RangeTombstone>, KeyRange) {
        let half = FRAGMENTS_AT_ONCE / 2;
        let mut before = self.map.range::<[u8], _>((Bound::Unbounded, Bound::Included(key)));
        let first = before.by_ref().rev().nth(half).map(|(lower, _)| lower.as_slice());
        let from_first = || match first {
            Some(first) => self.map.range::<[u8], _>((Bound::Included(first), Bound::Unbounded)),
            None => self.map.range::<[u8], _>(..),
        };
        let upper = self.map.range::<[u8], _>((Bound::Excluded(key), Bound::Unbounded)).nth(half);
        let upper = upper.map(|(lower, _)| lower.clone());
        let known = KeyRange { lower: first.unwrap_or_default().to_vec(), upper };
        let count = from_first().take_while(|(lower, _)| known.ends_behind(lower)).count();
        (pieces(from_first(), count, seq), known)
    }
}

/// For each of the first `count` fragments that a tombstone at or before `seq` is over: the newest such tombstone.
fn pieces<'a>(
    fragments: impl Iterator<Item = (&'a Vec<u8>, &'a Vec<SeqNo>)>,
    count: usize,
    seq: SeqNo,
) -> Vec<RangeTombstone> {
    let mut fragments = fragments.peekable();
    let mut pieces = Vec::new();
    for _ in 0..count {
        let Some((lower, seqs)) = fragments.next() else { break };
        if let Some(&seq) = seqs.iter().rev().find(|&&of| of <= seq) {
            let upper = fragments.peek().map(|(upper, _)| (*upper).clone());
            pieces.push(RangeTombstone { range: KeyRange { lower: lower.clone(), upper }, seq });
        }
    }
    pieces
}

/// The keys that range tombstones hide at one moment.
///
/// A few tombstones are copied. If there are many, a reader that visits few keys would pay for all of them. In that
/// case the tombstones around the requested key are looked up, and kept for the keys next to it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Cover {
    /// The newest tombstone over each range, ascending and disjoint: all tombstones, or those of `rest.known`.
    pieces: Vec<RangeTombstone>,
    rest: Option<Box<Rest>>,
    /// Whether there may be any.
    is_some: bool,
}

/// Where a cover that is not whole looks up its pieces.
#[derive(Debug, Clone)]
struct Rest {
    /// They have no common key. Tombstones that are added to them later are newer than `seq`.
    sets: Vec<Arc<RangeTombstones>>,
    seq: SeqNo,
    /// The range of keys that the cover's pieces cover completely.
    known: KeyRange,
}

impl Cover {
    /// The part of the keys in `within` that the tombstones of `sets` at or before `seq` hide. The sets have no common
    /// key.
    pub(crate) fn new<'a>(
        sets: impl Iterator<Item = &'a Arc<RangeTombstones>>,
        within: &KeyRange,
        seq: SeqNo,
    ) -> Cover {
        let sets: Vec<_> = sets.filter(|set| !set.is_empty()).collect();
        let mut pieces = Vec::new();
        for set in &sets {
            let most = FRAGMENTS_AT_ONCE.saturating_sub(pieces.len());
            let Some(more) = set.fragments.read().pieces_within(within, seq, most) else {
                let sets = sets.into_iter().cloned().collect();
                let known = KeyRange { lower: Vec::new(), upper: Some(Vec::new()) };
                let rest = Some(Box::new(Rest { sets, seq, known }));
                return Cover { pieces: Vec::new(), rest, is_some: true };
            };
            pieces.extend(more);
        }
        pieces.sort_by(|one, two| one.range.lower.cmp(&two.range.lower));
        Cover { is_some: !pieces.is_empty(), pieces, rest: None }
    }

    /// The sequence number below which versions of `key` are hidden; 0 if none is hidden.
    #[inline]
    pub(crate) fn over(&mut self, key: &[u8]) -> SeqNo {
        if self.is_some { self.piece_over(key).map_or(0, |piece| piece.seq) } else { 0 }
    }

    /// The newest tombstone over `key`, with a range around the key in which it is the newest one.
    pub(crate) fn piece_over(&mut self, key: &[u8]) -> Option<&RangeTombstone> {
        self.look_up(key);
        let behind = self.pieces.partition_point(|piece| piece.range.lower.as_slice() <= key);
        let piece = behind.checked_sub(1).map(|at| &self.pieces[at]);
        piece.filter(|piece| piece.range.contains(key))
    }

    /// Loads the pieces around `key`.
    fn look_up(&mut self, key: &[u8]) {
        let Some(rest) = self.rest.as_mut().filter(|rest| !rest.known.contains(key)) else { return };
        self.pieces.clear();
        let mut known = KeyRange::default();
        for set in &rest.sets {
            let (pieces, range) = set.fragments.read().pieces_around(key, rest.seq);
            self.pieces.extend(pieces);
            // Both contain the key.
            known = known.common(&range).unwrap_or(range);
        }
        self.pieces.sort_by(|one, two| one.range.lower.cmp(&two.range.lower));
        rest.known = known;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;

    fn key(rng: &mut Rng) -> Vec<u8> {
        (0..rng.index(3)).map(|_| b'a' + rng.index(4) as u8).collect()
    }

    #[test]
    fn they_answer_as_a_list_does() {
        for seed in test_kit::seeds(200) {
            let mut rng = Rng::new(seed);
            let (all, mut list) = (Arc::new(RangeTombstones::default()), Vec::new());
            for round in 0..rng.index(12) as SeqNo {
                let (lower, upper) = (key(&mut rng), (rng.index(5) > 0).then(|| key(&mut rng)));
                let range = KeyRange { lower, upper };
                if !range.is_empty() {
                    let tombstone = RangeTombstone { range, seq: 10 * round + 10 };
                    list.push(tombstone.clone());
                    all.add(tombstone);
                }
            }
            assert_eq!((all.list(), all.is_empty()), (list.clone(), list.is_empty()), "seed {seed}");
            for _ in 0..50 {
                let (at, seq) = (key(&mut rng), rng.index(130) as SeqNo);
                let mut over: Vec<SeqNo> =
                    list.iter().filter(|one| one.range.contains(&at)).map(|one| one.seq).collect();
                over.sort_unstable();
                let newest = over.iter().rev().find(|&&of| of <= seq).copied().unwrap_or(0);
                let oldest = over.iter().find(|&&of| of > seq).copied();
                assert_eq!(all.look_up(&at, seq), (newest, oldest), "seed {seed}");
                let within =
                    KeyRange { lower: key(&mut rng), upper: (rng.index(3) > 0).then(|| key(&mut rng)) };
                if within.contains(&at) {
                    assert_eq!(Cover::new([&all].into_iter(), &within, seq).over(&at), newest, "seed {seed}");
                }
                let newer = list.iter().filter(|one| one.seq > seq);
                let shares = |one: &RangeTombstone| {
                    let mut keys = vec![Vec::new()];
                    for _ in 0..3 {
                        let longer = |key: &Vec<u8>| {
                            (b'a'..b'e').map(|byte| [key.as_slice(), &[byte]].concat()).collect::<Vec<_>>()
                        };
                        keys =
                            keys.iter().flat_map(|key| [vec![key.clone()], longer(key)].concat()).collect();
                    }
                    keys.iter().any(|key| one.range.contains(key) && within.contains(key))
                };
                assert_eq!(
                    all.newer_over(&within, seq).is_some(),
                    newer.into_iter().any(shares),
                    "seed {seed} {within:?} {seq}"
                );
            }
        }
    }

    /// Two sets of many tombstones, one of keys below `[128]` and one of the others, looked up from key to key and at random.
    #[test]
    fn a_cover_of_many_tombstones_is_looked_up_by_parts() {
        for seed in test_kit::seeds(40) {
            let mut rng = Rng::new(seed);
            let (sets, mut list) = ([RangeTombstones::default(), RangeTombstones::default()], Vec::new());
            for round in 1..=200 + rng.index(400) as SeqNo {
                let at = rng.index(2);
                let mut bound = |least: usize| (128 * at + least + rng.index(128 - least)) as u8;
                let lower = vec![bound(0), bound(0)];
                let upper = match rng.index(8) {
                    0 if at == 1 => None,
                    _ => Some(vec![lower[0], lower[1].saturating_add(rng.index(9) as u8)]),
                };
                let range = KeyRange { lower, upper };
                if !range.is_empty() {
                    let tombstone = RangeTombstone { range, seq: round };
                    list.push(tombstone.clone());
                    sets[at].add(tombstone);
                }
            }
            let sets = sets.map(Arc::new);
            let seq = rng.index(700) as SeqNo;
            let mut cover = Cover::new(sets.iter(), &KeyRange::default(), seq);
            // It does not see later tombstones.
            sets[0].add(RangeTombstone { range: KeyRange::prefix(&[7]), seq: 1000 });
            sets[1].add(RangeTombstone { range: KeyRange::prefix(&[200]), seq: 1000 });
            assert!(cover.rest.is_some());
            let mut check = |key: &[u8]| {
                let over = list.iter().filter(|one| one.seq <= seq && one.range.contains(key));
                let newest = over.map(|one| one.seq).max().unwrap_or(0);
                assert_eq!(cover.over(key), newest, "seed {seed}, {key:?}");
                let piece = cover.piece_over(key);
                assert!(piece.is_none_or(|piece| piece.range.contains(key) && piece.seq == newest));
                assert!(cover.pieces.len() <= 2 * (FRAGMENTS_AT_ONCE + 1), "{}", cover.pieces.len());
            };
            let keys = || (0..=255).flat_map(|a| [0, 1, 40, 127, 128, 200, 255].map(|b| [a, b]));
            keys().for_each(|key| check(&key));
            keys().rev().for_each(|key| check(&key));
            for _ in 0..300 {
                let len = rng.index(4);
                let key: Vec<u8> = (0..len).map(|_| rng.next() as u8).collect();
                check(&key);
            }
        }
    }

    /// Judges each pair of ranges key by key.
    #[test]
    fn ranges_agree_with_the_keys_in_them() {
        let universe: Vec<Vec<u8>> = (0..60).map(|n| vec![n]).chain([b"\x0a\0".to_vec()]).collect();
        let mut bounds: Vec<Vec<u8>> = (1..=4).map(|n| vec![n * 10]).collect();
        bounds.extend([next_key(b"\x0a"), Vec::new()]);
        let uppers = || bounds.iter().cloned().map(Some).chain([None]);
        let ranges: Vec<KeyRange> = bounds
            .iter()
            .flat_map(|lower| uppers().map(|upper| KeyRange { lower: lower.clone(), upper }))
            .collect();
        let held = |range: &KeyRange| universe.iter().filter(|key| range.contains(key)).count();
        for a in &ranges {
            assert_eq!((a.bounds().is_some(), a.is_empty()), (held(a) > 0, held(a) == 0), "{a:?}");
            for b in &ranges {
                let both = universe.iter().filter(|key| a.contains(key) && b.contains(key)).count();
                assert_eq!((a.meets(b), a.common(b).is_some()), (both > 0, both > 0), "{a:?} {b:?}");
                assert!(!a.encloses(b) || both == held(b), "{a:?} {b:?}");
            }
        }
    }

    #[test]
    fn a_range_of_one_key_is_known() {
        for key in [&b""[..], b"\0", b"a", b"a\0", &[255]] {
            assert_eq!(KeyRange::one_key(key).only_key(), Some(key));
        }
        let upper = |upper: &[u8]| KeyRange { lower: b"a".to_vec(), upper: Some(upper.to_vec()) };
        for range in
            [upper(b"a\0\0"), upper(b"b"), upper(b"a"), KeyRange { lower: b"a".to_vec(), upper: None }]
        {
            assert_eq!(range.only_key(), None, "{range:?}");
        }
    }

    #[test]
    fn ranges_come_back_from_their_bytes() {
        for range in [
            KeyRange { lower: Vec::new(), upper: None },
            KeyRange { lower: b"a".to_vec(), upper: Some(b"b".to_vec()) },
        ] {
            let mut bytes = Vec::new();
            range.encode(&mut bytes);
            assert_eq!(KeyRange::decode_from(&mut Decoder::new(&bytes)), Some(range));
        }
        for (lower, upper) in
            [(&b"b"[..], &b"\x01a"[..]), (b"", b""), (b"", b"\x02"), (b"", b"\0x"), (b"", b"\x01")]
        {
            assert_eq!(KeyRange::decode(lower, upper), None);
        }
    }
}
