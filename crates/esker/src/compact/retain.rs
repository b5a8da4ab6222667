//! Which versions of a key survive a flush or a merge.
//!
//! The read points that must stay readable divide history into stretches. Within one stretch, readers can see only the
//! newest version of a key. A tombstone is not needed if no older version lies below it and no read point lies before
//! it. An entry that expired before every snapshot is treated as a tombstone. While operands that were written before
//! it expired may lie above it, the tombstone stays and records that time ([`super::operands`]). A range tombstone
//! removes the entries that it hides, like a newer version, once it is certain to survive with the output.
//!
//! A merge operand hides nothing: it is applied to the version below. The operands of one stretch are gathered and
//! combined with the version below them into one value ([`super::operands`]).
//!
//! ```text
//! versions of k     9     7  6        3  2
//! read points           8         5            (8: the newest visible one)
//! kept              9     7           3
//! ```

use std::borrow::Cow;
use std::sync::Arc;

use crate::canary::broken;
use crate::cursor::{Content, Expiry, Kind, SeqNo};
use crate::ranges::RangeTombstones;
use crate::state::TreeInner;

#[derive(Debug, Clone)]
pub(crate) struct ReadPoints {
    /// Sequence numbers, ascending. The last one is the newest visible one.
    pub(crate) seqs: Vec<SeqNo>,
    /// No reader requests entries that expired before this time.
    pub(crate) time_us: u64,
}

impl ReadPoints {
    /// The same for `tree`, which may have its own time.
    pub(crate) fn of(mut self, tree: &TreeInner) -> ReadPoints {
        if let Some(own) = &tree.own_time {
            self.time_us = own.settled(self.seqs.first().copied().unwrap_or(0));
        }
        self
    }

    /// The newest visible number.
    pub(crate) fn newest(&self) -> SeqNo {
        self.seqs.last().copied().unwrap_or(0)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// No reader can see it.
    Drop,
    /// Write it with this sequence number. It is 0 if every reader sees the entry and no older version lies below.
    Keep(SeqNo),
    /// It has expired. Write a tombstone with this sequence number in its place.
    Bury(SeqNo),
    /// It has expired at this time. Write a tombstone that records the time in its place.
    Mark(SeqNo, Expiry),
    /// An operand. `joins`: no reader can see its effect without that of the operand before it. The value that it and
    /// everything below it make gets the number `settled`.
    Gather { joins: bool, settled: SeqNo },
}

/// The role of an entry for the operands of its key that were gathered just before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Beneath {
    /// An entry that they must not be combined with.
    Apart,
    /// The value that they are applied to.
    Value,
    /// The key was absent when they were written.
    Nothing,
    /// A value that expires at this time: by their times they extend it or begin anew. `lives`: some reader sees it.
    /// `is_plain`: it is a small value without attributes.
    Expires { at: Expiry, lives: bool, is_plain: bool },
}

impl Verdict {
    /// The entry to write for an entry of `kind` that holds `stored`, if any.
    pub(crate) fn written(self, kind: Kind, stored: &[u8]) -> Option<(SeqNo, Kind, Cow<'_, [u8]>)> {
        match self {
            Verdict::Drop | Verdict::Gather { .. } => None,
            Verdict::Keep(seq) => Some((seq, kind, Cow::Borrowed(stored))),
            Verdict::Bury(seq) => Some((seq, Kind::Delete, Cow::Borrowed(&[]))),
            Verdict::Mark(seq, at) => Some((seq, Kind::Delete, Cow::Owned(at.to_le_bytes().to_vec()))),
        }
    }

    pub(crate) fn ends_value(self) -> bool {
        matches!(self, Verdict::Drop | Verdict::Bury(_) | Verdict::Mark(..))
    }
}

/// Judges the entries of a merge, in order: key ascending, newest version first.
#[derive(Debug)]
pub(crate) struct Retention {
    snapshots: ReadPoints,
    ranges: Arc<RangeTombstones>,
    /// Range tombstones up to this sequence number survive any crash that the output survives.
    certain: SeqNo,
    key: Vec<u8>,
    /// The stretch of the entry of `key` that was judged last.
    stretch: Option<usize>,
    new_key: bool,
    /// The sequence number of the last entry, if it was an operand that waits for the version below.
    operand: Option<SeqNo>,
    beneath: Beneath,
    /// When the entry judged last expired, if no reader sees its value any more.
    ended: Option<Expiry>,
}

impl Retention {
    /// An entry that is newer than the last of `snapshots` is kept. Of `ranges`, those newer than `certain` may be lost
    /// with the log in a crash that the output survives.
    pub(crate) fn new(snapshots: ReadPoints, ranges: &Arc<RangeTombstones>, certain: SeqNo) -> Self {
        Retention {
            snapshots,
            ranges: Arc::clone(ranges),
            certain,
            key: Vec::new(),
            stretch: None,
            new_key: false,
            operand: None,
            beneath: Beneath::Apart,
            ended: None,
        }
    }

    /// Range tombstones up to this sequence number hide no kept entry.
    pub(crate) fn cleared(&self) -> SeqNo {
        self.snapshots.seqs.first().copied().unwrap_or(0).min(self.certain)
    }

    fn stretch_of(&self, seq: SeqNo) -> usize {
        self.snapshots.seqs.partition_point(|&snapshot| snapshot < seq)
    }

    /// Whether the key of the entry judged last differs from that of the entry before.
    pub(crate) fn is_new_key(&self) -> bool {
        self.new_key
    }

    /// The role of the entry judged last for the operands before it.
    pub(crate) fn beneath(&self) -> Beneath {
        self.beneath
    }

    /// When the entry judged last expired, if that is over and its verdict loses the time.
    pub(crate) fn ended(&self) -> Option<Expiry> {
        self.ended
    }

    /// Judges the next entry, which holds `stored`. `nothing_below`: no older version of this key lies
    /// outside this merge.
    pub(crate) fn judge(
        &mut self,
        key: &[u8],
        seq: SeqNo,
        kind: Kind,
        stored: &[u8],
        nothing_below: bool,
    ) -> Verdict {
        let stretch = self.stretch_of(seq);
        let (older, newer) = if self.ranges.is_empty() { (0, None) } else { self.ranges.look_up(key, seq) };
        self.new_key = self.stretch.is_none() || self.key != key;
        if self.new_key {
            self.key.clear();
            self.key.extend_from_slice(key);
        }
        let same_stretch =
            !self.new_key && self.stretch == Some(stretch) && stretch < self.snapshots.seqs.len();
        let above =
            self.operand.take().filter(|_| same_stretch || (broken("merge-snapshot") && !self.new_key));
        self.stretch = Some(stretch);
        // A range deletion lies between the operands and this entry.
        let cut_off = above.is_some_and(|above| newer.is_some_and(|newer| newer < above));
        let newer = newer.filter(|&newer| newer <= self.certain || broken("rule-18-certain"));
        let hidden = newer
            .is_some_and(|newer| self.stretch_of(newer) == stretch && stretch < self.snapshots.seqs.len());
        let content = Content::open(kind, stored);
        let lives = content.lives(|| self.snapshots.time_us);
        let ends = content.expiry.or_else(|| content.ended_us());
        self.ended = ends.filter(|_| !lives);
        self.beneath = match content.kind {
            _ if above.is_none() => Beneath::Apart,
            _ if hidden => Beneath::Nothing,
            _ if cut_off => Beneath::Apart,
            Kind::Merge => Beneath::Apart,
            // Operands are not combined with a value that has attributes, nor with a huge one, which is not copied.
            _ if ends.is_some() => {
                Beneath::Expires { at: ends.unwrap_or_default(), lives, is_plain: kind == Kind::PutUntil }
            }
            Kind::Put if kind == Kind::Put => Beneath::Value,
            Kind::Delete => Beneath::Nothing,
            _ => Beneath::Apart,
        };
        if hidden || (same_stretch && above.is_none()) {
            self.ended = None;
            return Verdict::Drop;
        }
        let is_needed = stretch > 0 || !nothing_below;
        // With number 0 it would be older than a range tombstone that it came after.
        let settled = if is_needed || (older != 0 && !broken("rule-18")) { seq } else { 0 };
        match lives {
            true if kind == Kind::Merge && stretch < self.snapshots.seqs.len() => {
                self.operand = Some(seq);
                Verdict::Gather { joins: above.is_some() && !cut_off, settled }
            }
            true if kind == Kind::Merge => Verdict::Keep(seq),
            true => Verdict::Keep(settled),
            false if !is_needed => Verdict::Drop,
            false if kind == Kind::Delete && stored.is_empty() => Verdict::Keep(seq),
            false => Verdict::Bury(seq),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(snapshots: &[SeqNo], entries: &[(&str, SeqNo, Kind)], bottom: bool) -> Vec<(String, SeqNo)> {
        let mut retention =
            Retention::new(ReadPoints { seqs: snapshots.to_vec(), time_us: 100 }, &Arc::default(), 0);
        entries
            .iter()
            .filter_map(|&(key, seq, kind)| match retention.judge(key.as_bytes(), seq, kind, b"", bottom) {
                Verdict::Drop => None,
                Verdict::Keep(seq) => Some((key.to_owned(), seq)),
                other => unreachable!("{other:?}: nothing here expires or is an operand"),
            })
            .collect()
    }

    #[test]
    fn what_has_expired_is_a_tombstone() {
        let judged = |time_us, expiry: u64, bottom| {
            let mut retention = Retention::new(ReadPoints { seqs: vec![5, 10], time_us }, &Arc::default(), 0);
            retention.judge(b"k", 8, Kind::PutUntil, &expiry.to_le_bytes(), false);
            retention.judge(b"k", 3, Kind::BlobUntil, &expiry.to_le_bytes(), bottom)
        };
        assert_eq!(judged(99, 100, true), Verdict::Keep(0));
        assert_eq!(judged(99, 100, false), Verdict::Keep(3));
        assert_eq!(judged(100, 100, false), Verdict::Bury(3));
        assert_eq!(judged(100, 100, true), Verdict::Drop);
    }

    /// One range tombstone over all keys, with number 5.
    fn deleted_at_5() -> Arc<RangeTombstones> {
        let ranges = RangeTombstones::default();
        let range = crate::ranges::KeyRange { lower: Vec::new(), upper: None };
        ranges.add(crate::ranges::RangeTombstone { range, seq: 5 });
        Arc::new(ranges)
    }

    #[test]
    fn what_a_range_hides_goes_once_that_is_certain_and_what_is_newer_stays_so() {
        let judged = |certain, seq| {
            let snapshots = ReadPoints { seqs: vec![10], time_us: 0 };
            Retention::new(snapshots, &deleted_at_5(), certain).judge(b"k", seq, Kind::Put, b"", true)
        };
        assert_eq!(judged(5, 3), Verdict::Drop);
        assert_eq!(judged(4, 3), Verdict::Keep(0));
        // With number 0 it would be older than the range tombstone that it came after.
        assert_eq!(judged(5, 8), Verdict::Keep(8));
    }

    #[test]
    fn operands_on_the_two_sides_of_a_read_point_or_a_deletion_stay_apart() {
        let judged = |snapshots: &[SeqNo], certain, ranges: &Arc<RangeTombstones>| {
            let snapshots = ReadPoints { seqs: snapshots.to_vec(), time_us: 0 };
            let mut retention = Retention::new(snapshots, ranges, certain);
            retention.judge(b"k", 7, Kind::Merge, b"", true);
            (retention.judge(b"k", 4, Kind::Merge, b"", true), retention.beneath())
        };
        let none = Arc::default();
        let gather = |joins, beneath| (Verdict::Gather { joins, settled: 0 }, beneath);
        assert_eq!(judged(&[10], 0, &none), gather(true, Beneath::Apart));
        assert_eq!(judged(&[6, 10], 0, &none), gather(false, Beneath::Apart));
        assert_eq!(judged(&[10], 5, &deleted_at_5()), (Verdict::Drop, Beneath::Nothing));
        assert_eq!(judged(&[10], 4, &deleted_at_5()), gather(false, Beneath::Apart));
    }

    #[test]
    fn operands_are_gathered_down_to_what_lies_below_them() {
        let mut retention =
            Retention::new(ReadPoints { seqs: vec![5, 10], time_us: 100 }, &Arc::default(), 0);
        let mut judge = |seq, kind, stored: &[u8]| {
            let verdict = retention.judge(b"k", seq, kind, stored, true);
            (verdict, retention.beneath())
        };
        let gather = |joins, settled| Verdict::Gather { joins, settled };
        // No reader sees it yet.
        assert_eq!(judge(12, Kind::Merge, b""), (Verdict::Keep(12), Beneath::Apart));
        assert_eq!(judge(9, Kind::Merge, b""), (gather(false, 9), Beneath::Apart));
        assert_eq!(judge(8, Kind::Merge, b"").0, gather(true, 8));
        assert_eq!(judge(7, Kind::Put, b""), (Verdict::Keep(7), Beneath::Value));
        assert_eq!(judge(6, Kind::Merge, b"").0, Verdict::Drop);
        // A read point lies between.
        assert_eq!(judge(5, Kind::Merge, b"").0, gather(false, 0));
        let expires = Beneath::Expires { at: 101, lives: true, is_plain: true };
        assert_eq!(judge(4, Kind::PutUntil, &101u64.to_le_bytes()), (Verdict::Keep(0), expires));
        assert_eq!(judge(3, Kind::Put, b"").0, Verdict::Drop);
    }

    #[test]
    fn one_version_a_stretch_survives() {
        let versions = [9, 7, 6, 3, 2].map(|seq| ("k", seq, Kind::Put));
        let expected = |seqs: &[SeqNo]| seqs.iter().map(|&seq| ("k".to_owned(), seq)).collect::<Vec<_>>();
        assert_eq!(kept(&[5, 8], &versions, false), expected(&[9, 7, 3]));
        assert_eq!(kept(&[5, 8], &versions, true), expected(&[9, 7, 0]));
        assert_eq!(kept(&[20], &versions, true), expected(&[0]));
    }

    #[test]
    fn a_tombstone_goes_only_at_the_bottom_and_takes_what_it_hides() {
        let entries =
            [("a", 9, Kind::Delete), ("a", 4, Kind::Put), ("b", 8, Kind::Put), ("b", 2, Kind::Delete)];
        let expected =
            |list: &[(&str, SeqNo)]| list.iter().map(|&(k, s)| (k.to_owned(), s)).collect::<Vec<_>>();
        assert_eq!(kept(&[10], &entries, true), expected(&[("b", 0)]));
        assert_eq!(kept(&[10], &entries, false), expected(&[("a", 9), ("b", 8)]));
        assert_eq!(kept(&[5, 10], &entries, true), expected(&[("a", 9), ("a", 0), ("b", 8)]));
    }
}
