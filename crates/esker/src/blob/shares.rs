//! The shares of a blob: the entries that name it, if there may be more than one.
//!
//! - Share 0 is the entry for which the blob was written. Each copy gets the next number. No number is given out twice,
//!   so the end of a share may be reported more than once.
//! - The blob is needed until the last share has ended.
//! - A share that the log may still lose counts only if the log names it: [`SharesRecord`] tells them apart.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::pin::VOLATILE;
use super::{BlobFileId, BlobSet, NewBlob, Pointer, key_hash};
use crate::version::blob_edits::SharesRecord;

#[derive(Debug, Clone, Copy)]
struct Share {
    /// The hash of its key; 0 for the first share, whose key the file holds.
    key_hash: u64,
    /// The log position behind its record; `None`: not committed, as far as is known.
    position: Option<u64>,
    /// Whether only snapshots see it, and the write that hides it survives a crash.
    shadowed: bool,
}

/// See the module's comment.
#[derive(Debug)]
pub(crate) struct Shares {
    next: u64,
    live: BTreeMap<u64, Share>,
    /// Shares of an earlier opening that count only if the log names them.
    undecided: BTreeSet<u64>,
}

impl Shares {
    /// The shares of a blob that was not copied yet.
    pub(crate) fn first() -> Shares {
        let first = Share { key_hash: 0, position: Some(0), shadowed: false };
        Shares { next: 1, live: BTreeMap::from([(0, first)]), undecided: BTreeSet::new() }
    }

    /// The shares in the manifest's record.
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

    /// Gives out a new share, which is not committed yet.
    pub(super) fn issue(&mut self, key_hash: u64) -> u64 {
        let share = self.next;
        self.next += 1;
        self.live.insert(share, Share { key_hash, position: None, shadowed: false });
        share
    }

    /// Notes that the log names the share, in a record that ends at position `end`.
    pub(super) fn commit(&mut self, share: u64, end: Option<u64>) {
        if let Some(share) = self.live.get_mut(&share) {
            share.position = end;
        }
    }

    /// Notes that a table names the share. Returns whether its write skipped the log.
    pub(super) fn settle(&mut self, share: u64) -> bool {
        let share = self.live.get_mut(&share).filter(|share| share.position == Some(VOLATILE));
        share.is_some_and(|share| share.position.replace(0).is_some())
    }

    /// Notes that replay has found the share. If the manifest knew the share and does not count it, it has ended since.
    pub(crate) fn claim(&mut self, share: u64, key_hash: u64) {
        if share >= self.next || self.undecided.remove(&share) {
            self.next = self.next.max(share.saturating_add(1));
            self.live.insert(share, Share { key_hash, position: Some(0), shadowed: false });
        }
    }

    /// Notes that the whole log was replayed: shares that it does not name do not count.
    pub(crate) fn decide(&mut self) {
        self.undecided.clear();
    }

    /// Ends the share for good.
    pub(crate) fn release(&mut self, share: u64) {
        self.live.remove(&share);
    }

    /// Sets whether only snapshots see the share (`None`: every share). Snapshots do not survive the process.
    pub(crate) fn shadow(&mut self, share: Option<u64>, is_shadowed: bool) {
        let shadowed = self.live.iter_mut().filter(|(number, _)| share.is_none_or(|share| share == **number));
        shadowed.for_each(|(_, share)| share.shadowed = is_shadowed);
    }

    /// Whether all shares have ended.
    pub(crate) fn is_over(&self) -> bool {
        self.live.is_empty() && self.undecided.is_empty()
    }

    /// The record for a manifest, if the log is on the disk up to position `synced`.
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
    /// Adds an entry, that of `key` in `tree`, to the blob of `pointer`; `None` if the blob was freed. It counts once
    /// the log names it.
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

    /// Ends an entry (`None`: every entry) of the blob for good. Returns whether it was the last.
    pub(crate) fn release(&self, file: BlobFileId, ordinal: u64, share: Option<u64>) -> bool {
        self.get(file).is_some_and(|live| live.life.lock().release(ordinal, share))
    }

    /// Notes that only snapshots see the entry, which do not survive the process. `false`: the blob was not copied, and
    /// has no other entry.
    pub(crate) fn shadow_share(&self, file: BlobFileId, ordinal: u64, share: Option<u64>) -> bool {
        let Some(live) = self.get(file) else { return false };
        let mut life = live.life.lock();
        life.shares_mut(ordinal).map(|shares| shares.shadow(share, true)).is_some()
    }

    /// Undoes [`BlobSet::shadow_share`].
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

        // The log names neither.
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
