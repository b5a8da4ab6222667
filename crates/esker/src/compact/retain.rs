//! Which versions of a key survive a flush or a merge.
//!
//! Moments that must stay readable cut history into stretches; of the versions of a key within one
//! stretch only the newest can ever be seen. A tombstone that nothing older lies under is not needed
//! either, once no moment lies before it. What has expired before any moment was taken is a tombstone. What a range
//! tombstone hides goes as if it were a newer version, once it is sure to survive with what is written.
//!
//! An operand hides nothing: what lies below is what it is applied to. Those of one stretch are gathered, and become one
//! value with what lies below them ([`super::operands`]).
//!
//! ```text
//! versions of k     9     7  6        3  2
//! moments               8         5            (8: the newest visible one)
//! kept              9     7           3
//! ```

use std::sync::Arc;

use crate::canary::broken;
use crate::cursor::{Content, Kind, SeqNo};
use crate::ranges::RangeTombstones;

/// What must stay readable.
#[derive(Debug, Clone)]
pub(crate) struct Moments {
    /// Sequence numbers, ascending; the newest visible one last.
    pub(crate) seqs: Vec<SeqNo>,
    /// Nobody asks for what has expired before this time.
    pub(crate) time_us: u64,
}

/// What to do with an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Nobody can see it.
    Drop,
    /// Write it, with this sequence number: 0 where every reader sees it and nothing older lies below.
    Keep(SeqNo),
    /// It has expired: write a tombstone of this number in its place.
    Bury(SeqNo),
    /// An operand. `joins`: nobody can see what it does apart from what the operand before it does. What comes of it and of
    /// all below gets the number `settled`.
    Gather { joins: bool, settled: SeqNo },
}

/// What an entry is to the operands of its key that were gathered just before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Beneath {
    /// Something that they are not to be put together with.
    Apart,
    /// The value that they are applied to.
    Value,
    /// The key was absent when they came.
    Nothing,
}

impl Verdict {
    /// What is to be written of an entry of `kind` that holds `stored`, if anything.
    pub(crate) fn written(self, kind: Kind, stored: &[u8]) -> Option<(SeqNo, Kind, &[u8])> {
        match self {
            Verdict::Drop | Verdict::Gather { .. } => None,
            Verdict::Keep(seq) => Some((seq, kind, stored)),
            Verdict::Bury(seq) => Some((seq, Kind::Delete, &[])),
        }
    }

    /// Whether the value that the entry held is nobody's.
    pub(crate) fn ends_value(self) -> bool {
        matches!(self, Verdict::Drop | Verdict::Bury(_))
    }
}

/// Judges the entries of a merge, in their order: key ascending, newest first.
#[derive(Debug)]
pub(crate) struct Retention {
    moments: Moments,
    ranges: Arc<RangeTombstones>,
    /// Range tombstones up to this number survive whatever what is written survives.
    certain: SeqNo,
    key: Vec<u8>,
    /// The stretch of the last entry of `key` that was judged.
    stretch: Option<usize>,
    new_key: bool,
    /// The number of the last entry, if it was an operand that waits for what lies below.
    operand: Option<SeqNo>,
    beneath: Beneath,
}

impl Retention {
    /// No entry that will be judged is newer than the last of `moments`, or it is kept. Of `ranges`, what is newer than
    /// `certain` might be lost with the log when what is written is not.
    pub(crate) fn new(moments: Moments, ranges: &Arc<RangeTombstones>, certain: SeqNo) -> Self {
        Retention {
            moments,
            ranges: Arc::clone(ranges),
            certain,
            key: Vec::new(),
            stretch: None,
            new_key: false,
            operand: None,
            beneath: Beneath::Apart,
        }
    }

    /// Range tombstones up to this number hide nothing in what is kept.
    pub(crate) fn cleared(&self) -> SeqNo {
        self.moments.seqs.first().copied().unwrap_or(0).min(self.certain)
    }

    /// In which stretch of history something happened.
    fn stretch_of(&self, seq: SeqNo) -> usize {
        self.moments.seqs.partition_point(|&moment| moment < seq)
    }

    /// Whether the entry judged last has another key than the one before it.
    pub(crate) fn is_new_key(&self) -> bool {
        self.new_key
    }

    /// What the entry judged last is to the operands before it.
    pub(crate) fn beneath(&self) -> Beneath {
        self.beneath
    }

    /// Judges the next entry, which holds `stored`. `nothing_below`: no older version of this key lies outside this
    /// merge.
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
            !self.new_key && self.stretch == Some(stretch) && stretch < self.moments.seqs.len();
        let above = self.operand.take().filter(|_| same_stretch || (broken("merge-moment") && !self.new_key));
        self.stretch = Some(stretch);
        // A range was deleted between the operands and this.
        let cut_off = above.is_some_and(|above| newer.is_some_and(|newer| newer < above));
        let newer = newer.filter(|&newer| newer <= self.certain || broken("rule-18-certain"));
        let hidden =
            newer.is_some_and(|newer| self.stretch_of(newer) == stretch && stretch < self.moments.seqs.len());
        let content = Content::open(kind, stored);
        let lives = content.lives(|| self.moments.time_us);
        self.beneath = match content.kind {
            _ if above.is_none() => Beneath::Apart,
            _ if hidden => Beneath::Nothing,
            _ if cut_off => Beneath::Apart,
            _ if !lives => Beneath::Nothing,
            // A value that expires takes no operand with it, and a huge one is not copied.
            Kind::Put if content.expiry.is_none() => Beneath::Value,
            _ => Beneath::Apart,
        };
        if hidden || (same_stretch && above.is_none()) {
            return Verdict::Drop;
        }
        let is_needed = stretch > 0 || !nothing_below;
        // Without its number it would be older than a range tombstone that it came after.
        let settled = if is_needed || (older != 0 && !broken("rule-18")) { seq } else { 0 };
        match lives {
            true if kind == Kind::Merge && stretch < self.moments.seqs.len() => {
                self.operand = Some(seq);
                Verdict::Gather { joins: above.is_some() && !cut_off, settled }
            }
            true if kind == Kind::Merge => Verdict::Keep(seq),
            true => Verdict::Keep(settled),
            false if !is_needed => Verdict::Drop,
            false if kind == Kind::Delete => Verdict::Keep(seq),
            false => Verdict::Bury(seq),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(moments: &[SeqNo], entries: &[(&str, SeqNo, Kind)], bottom: bool) -> Vec<(String, SeqNo)> {
        let mut retention =
            Retention::new(Moments { seqs: moments.to_vec(), time_us: 100 }, &Arc::default(), 0);
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
            let mut retention = Retention::new(Moments { seqs: vec![5, 10], time_us }, &Arc::default(), 0);
            retention.judge(b"k", 8, Kind::PutUntil, &expiry.to_le_bytes(), false);
            retention.judge(b"k", 3, Kind::BlobUntil, &expiry.to_le_bytes(), bottom)
        };
        assert_eq!(judged(99, 100, true), Verdict::Keep(0));
        assert_eq!(judged(99, 100, false), Verdict::Keep(3));
        assert_eq!(judged(100, 100, false), Verdict::Bury(3));
        assert_eq!(judged(100, 100, true), Verdict::Drop);
    }

    /// One tombstone of number 5 over all keys.
    fn deleted_at_5() -> Arc<RangeTombstones> {
        let ranges = RangeTombstones::default();
        let range = crate::ranges::KeyRange { lower: Vec::new(), upper: None };
        ranges.add(crate::ranges::RangeTombstone { range, seq: 5 });
        Arc::new(ranges)
    }

    #[test]
    fn what_a_range_hides_goes_once_that_is_certain_and_what_is_newer_stays_so() {
        let judged = |certain, seq| {
            let moments = Moments { seqs: vec![10], time_us: 0 };
            Retention::new(moments, &deleted_at_5(), certain).judge(b"k", seq, Kind::Put, b"", true)
        };
        assert_eq!(judged(5, 3), Verdict::Drop);
        assert_eq!(judged(4, 3), Verdict::Keep(0));
        // As 0 it would be older than what it came after.
        assert_eq!(judged(5, 8), Verdict::Keep(8));
    }

    #[test]
    fn operands_on_the_two_sides_of_a_moment_or_a_deletion_stay_apart() {
        let judged = |moments: &[SeqNo], certain, ranges: &Arc<RangeTombstones>| {
            let moments = Moments { seqs: moments.to_vec(), time_us: 0 };
            let mut retention = Retention::new(moments, ranges, certain);
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
        let mut retention = Retention::new(Moments { seqs: vec![5, 10], time_us: 100 }, &Arc::default(), 0);
        let mut judge = |seq, kind, stored: &[u8]| {
            let verdict = retention.judge(b"k", seq, kind, stored, true);
            (verdict, retention.beneath())
        };
        let gather = |joins, settled| Verdict::Gather { joins, settled };
        // Not visible to anybody yet.
        assert_eq!(judge(12, Kind::Merge, b""), (Verdict::Keep(12), Beneath::Apart));
        assert_eq!(judge(9, Kind::Merge, b""), (gather(false, 9), Beneath::Apart));
        assert_eq!(judge(8, Kind::Merge, b"").0, gather(true, 8));
        assert_eq!(judge(7, Kind::Put, b""), (Verdict::Keep(7), Beneath::Value));
        assert_eq!(judge(6, Kind::Merge, b"").0, Verdict::Drop);
        // A moment lies between.
        assert_eq!(judge(5, Kind::Merge, b"").0, gather(false, 0));
        assert_eq!(judge(4, Kind::PutUntil, &101u64.to_le_bytes()), (Verdict::Keep(0), Beneath::Apart));
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
