//! Which versions of a key survive a flush or a merge.
//!
//! Moments that must stay readable cut history into stretches; of the versions of a key within one
//! stretch only the newest can ever be seen. A tombstone that nothing older lies under is not needed
//! either, once no moment lies before it. What has expired before any moment was taken is a tombstone. What a range
//! tombstone hides goes as if it were a newer version, once it is sure to survive with what is written.
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
}

impl Verdict {
    /// What is to be written of an entry of `kind` that holds `stored`, if anything.
    pub(crate) fn written(self, kind: Kind, stored: &[u8]) -> Option<(SeqNo, Kind, &[u8])> {
        match self {
            Verdict::Drop => None,
            Verdict::Keep(seq) => Some((seq, kind, stored)),
            Verdict::Bury(seq) => Some((seq, Kind::Delete, &[])),
        }
    }

    /// Whether the value that the entry held is nobody's.
    pub(crate) fn ends_value(self) -> bool {
        !matches!(self, Verdict::Keep(_))
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
        let shadowed = if self.new_key {
            self.key.clear();
            self.key.extend_from_slice(key);
            false
        } else {
            self.stretch == Some(stretch) && stretch < self.moments.seqs.len()
        };
        self.stretch = Some(stretch);
        let newer = newer.filter(|&newer| newer <= self.certain || broken("rule-18-certain"));
        let hidden =
            newer.is_some_and(|newer| self.stretch_of(newer) == stretch && stretch < self.moments.seqs.len());
        if shadowed || hidden {
            return Verdict::Drop;
        }
        let is_needed = stretch > 0 || !nothing_below;
        match (Content::open(kind, stored).lives(|| self.moments.time_us), is_needed) {
            // Without its number it would be older than a range tombstone that it came after.
            (true, false) if older == 0 || broken("rule-18") => Verdict::Keep(0),
            (true, _) => Verdict::Keep(seq),
            (false, false) => Verdict::Drop,
            (false, true) if kind == Kind::Delete => Verdict::Keep(seq),
            (false, true) => Verdict::Bury(seq),
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
                Verdict::Bury(_) => unreachable!("nothing here expires"),
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
