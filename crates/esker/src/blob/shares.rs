//! The entries that name one blob, where there may be more than one: its shares.
//!
//! - Share 0 is the entry for which the blob was written. Each copy gets the next number, and no number is given
//!   twice, so that of a share it can be said more than once that it has ended.
//! - The blob is needed until the last share has ended.
//! - A share that the log may still lose counts only where the log names it: [`SharesRecord`] tells them apart.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::hold::VOLATILE;
use super::{BlobFileId, BlobSet, NewBlob, Pointer, key_hash};
use crate::version::blobs::SharesRecord;

#[derive(Debug, Clone, Copy)]
struct Share {
    /// Of its key; 0 for the first share, whose key the file names.
    key_hash: u64,
    /// The log position behind its record; `None`: it is not committed, as far as anybody knows.
    position: Option<u64>,
    /// Only snapshots see it, and that survives.
    shadowed: bool,
}

/// See the module's comment.
#[derive(Debug)]
pub(crate) struct Shares {
    next: u64,
    live: BTreeMap<u64, Share>,
    /// Shares of an earlier opening that count only where the log names them.
    undecided: BTreeSet<u64>,
}

impl Shares {
    /// Of a blob that nobody has copied yet.
    pub(crate) fn first() -> Shares {
        let first = Share { key_hash: 0, position: Some(0), shadowed: false };
        Shares { next: 1, live: BTreeMap::from([(0, first)]), undecided: BTreeSet::new() }
    }

    /// As the manifest says.
    pub(crate) fn of(record: &SharesRecord) -> Shares {
        let share = |(&share, &key_hash): (&u64, &u64)| {
            (share, Share { key_hash, position: Some(0), shadowed: false })
        };
        Shares {
            next: record.next,
            live: record.live.iter().map(share).collect(),
            undecided: record.pending.clone(),
        }
    }

    /// A new share, not committed yet.
    pub(super) fn issue(&mut self, key_hash: u64) -> u64 {
        let share = self.next;
        self.next += 1;
        self.live.insert(share, Share { key_hash, position: None, shadowed: false });
        share
    }

    /// The log names the share, in a record that ends at position `end`.
    pub(super) fn commit(&mut self, share: u64, end: Option<u64>) {
        if let Some(share) = self.live.get_mut(&share) {
            share.position = end;
        }
    }

    /// A table names the share; whether it was one that only tables would.
    pub(super) fn settle(&mut self, share: u64) -> bool {
        let share = self.live.get_mut(&share).filter(|share| share.position == Some(VOLATILE));
        share.is_some_and(|share| share.position.replace(0).is_some())
    }

    /// Replay has found the share. One that the manifest knew, and does not count, has ended since.
    pub(crate) fn claim(&mut self, share: u64, key_hash: u64) {
        if share >= self.next || self.undecided.remove(&share) {
            self.next = self.next.max(share.saturating_add(1));
            self.live.insert(share, Share { key_hash, position: Some(0), shadowed: false });
        }
    }

    /// The whole log was replayed: what it does not name does not count.
    pub(crate) fn decide(&mut self) {
        self.undecided.clear();
    }

    /// The share has ended for good.
    pub(crate) fn release(&mut self, share: u64) {
        self.live.remove(&share);
    }

    /// Whether only snapshots see the share, none of which survives.
    pub(crate) fn shadow(&mut self, share: Option<u64>, is_shadowed: bool) {
        let shadowed = self.live.iter_mut().filter(|(number, _)| share.is_none_or(|share| share == **number));
        shadowed.for_each(|(_, share)| share.shadowed = is_shadowed);
    }

    /// Whether all shares have ended.
    pub(crate) fn is_over(&self) -> bool {
        self.live.is_empty() && self.undecided.is_empty()
    }

    /// What a manifest is to know whose log is on the disk up to position `synced`.
    pub(crate) fn record(&self, synced: u64) -> SharesRecord {
        let mut record =
            SharesRecord { next: self.next, pending: self.undecided.clone(), ..Default::default() };
        for (&number, share) in self.live.iter().filter(|(_, share)| !share.shadowed) {
            if share.position.is_some_and(|position| position <= synced) {
                record.live.insert(number, share.key_hash);
            } else {
                record.pending.insert(number);
            }
        }
        record
    }
}

impl BlobSet {
    /// One entry more for the blob of `pointer`, that of `key` in `tree`; `None` when it was freed. It counts when
    /// the log says so.
    pub(crate) fn share(self: &Arc<Self>, tree: u32, key: &[u8], pointer: &Pointer) -> Option<NewBlob> {
        let pin = self.pin(pointer)?;
        let hash = key_hash(tree, key);
        self.filter.add(hash);
        let mut life = pin.live.life.lock();
        if life.freed.contains(&pointer.ordinal) {
            return None;
        }
        let share = life.shares_or_first(pointer.ordinal).issue(hash);
        drop(life);
        Some(NewBlob::share(Pointer { share, ..*pointer }, pin))
    }

    /// Whether the blob was copied.
    pub(crate) fn is_shared(&self, file: BlobFileId, ordinal: u64) -> bool {
        self.get(file).is_some_and(|live| live.life.lock().shares(ordinal).is_some())
    }

    /// An entry (`None`: every one) that names the blob has ended for good; whether that was the last.
    pub(crate) fn release(&self, file: BlobFileId, ordinal: u64, share: Option<u64>) -> bool {
        self.get(file).is_some_and(|live| live.life.lock().release(ordinal, share))
    }

    /// No snapshot that sees the entry survives; `false`: the blob was not copied, and has no other.
    pub(crate) fn shadow_share(&self, file: BlobFileId, ordinal: u64, share: Option<u64>) -> bool {
        let Some(live) = self.get(file) else { return false };
        let mut life = live.life.lock();
        life.shares_mut(ordinal).map(|shares| shares.shadow(share, true)).is_some()
    }

    /// [`BlobSet::shadow_share`] was premature.
    pub(crate) fn live_on(&self, file: BlobFileId, ordinal: u64, share: Option<u64>) {
        if let Some(live) = self.get(file)
            && let Some(shares) = live.life.lock().shares_mut(ordinal)
        {
            shares.shadow(share, false);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_counts_when_the_log_cannot_lose_it_and_until_it_ends() {
        let mut shares = Shares::first();
        let (a, b) = (shares.issue(7), shares.issue(8));
        assert_eq!((a, b), (1, 2));
        shares.commit(a, Some(100));
        let record = shares.record(99);
        assert_eq!((record.live.len(), record.pending.len()), (1, 2));
        shares.release(0);
        shares.release(0);
        let record = shares.record(100);
        assert_eq!(record.live, BTreeMap::from([(1, 7)]));
        assert_eq!(record.pending, BTreeSet::from([2]));

        // The log names the second copy, and the first one, which the manifest knows.
        let mut again = Shares::of(&record);
        again.claim(a, 7);
        again.claim(b, 8);
        again.claim(5, 9);
        assert_eq!(again.issue(10), 6);
        again.decide();
        [1, 2, 5, 6].into_iter().for_each(|share| again.release(share));
        assert!(again.is_over());

        // It does not.
        let mut again = Shares::of(&record);
        again.release(a);
        assert!(!again.is_over(), "the log may still name the second copy");
        again.decide();
        assert!(again.is_over());
    }

    #[test]
    fn a_share_that_has_ended_does_not_come_back() {
        let mut shares = Shares::first();
        let share = shares.issue(7);
        shares.commit(share, Some(1));
        shares.release(share);
        let mut again = Shares::of(&shares.record(1));
        again.claim(share, 7);
        assert_eq!(again.record(1), shares.record(1));
    }

    #[test]
    fn what_only_snapshots_see_is_not_recorded() {
        let mut shares = Shares::first();
        let share = shares.issue(7);
        shares.commit(share, Some(1));
        shares.shadow(Some(0), true);
        assert_eq!(shares.record(1).live, BTreeMap::from([(share, 7)]));
        assert!(!shares.is_over());
        shares.shadow(None, true);
        assert!(Shares::of(&shares.record(1)).is_over());
    }
}
