//! When a blob's life ends: old versions that nobody can see any more are looked for, and their space is
//! given back (durability rule 12).
//!
//! ```text
//! write over a key that ever held a blob -- job -- look for the version before -- dead -- freed -- erased
//!                                                     '-- a snapshot sees it: shadowed, looked at again
//! ```
//!
//! - A write that may end a blob's life leaves a job ([`crate::write::watch`]). A flush settles all jobs up to
//!   its last sequence number, so what it moves out of the log's reach has been looked at.
//! - What a flush or a merge drops is freed by the edit that installs its tables.
//! - A blob is freed in the manifest when the write that ended its life survives power loss, and its bytes go
//!   after that.
//!
//! Locks: `Ending::round` before `versions` before `Ending::state`.

use std::collections::{BTreeMap, BTreeSet};

use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;

use super::Store;
use super::debt::Debt;
use super::volatile::is_flushed;
use crate::blob::{BlobFileId, Pointer};
use crate::canary::broken;
use crate::cursor::{Kind, SeqNo};
use crate::env::Lane;
use crate::error::{ErrorKind, Result};
use crate::read::get::{base_at, bases_in};
use crate::state::TreeInner;
use crate::state::versions::{Change, Versions};
use crate::version::blobs::BlobEdit;
use crate::version::edit::{Edit, TreeId};
use crate::write::watch::{Job, What};

/// A blob that is no longer the newest version of its key.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ended {
    pub(super) file: BlobFileId,
    pub(super) ordinal: u64,
    /// Which of the entries that name it; `None`: all.
    pub(super) share: Option<u64>,
    /// Moments from this one on see it,
    pub(super) from: SeqNo,
    /// and before this one.
    pub(super) until: SeqNo,
    /// The write that ended its life; 0 where the manifest has.
    pub(super) by: SeqNo,
    /// The tree of that write, where it has skipped the log.
    pub(super) volatile: Option<TreeId>,
    /// Its bytes, which are owed once nobody sees it; 0 where that was noted before.
    pub(super) len: u64,
}

impl Ended {
    /// Nobody sees it, and that is durable.
    pub(super) fn for_good(file: BlobFileId, ordinal: u64, share: Option<u64>) -> Ended {
        Ended { file, ordinal, share, from: 0, until: 0, by: 0, volatile: None, len: 0 }
    }
}

/// Blobs whose life has ended or is about to.
#[derive(Debug, Default)]
pub(crate) struct Ending {
    pub(super) state: Mutex<EndingState>,
    /// One round of giving space back at a time: who has this sees what the last one has left.
    pub(super) round: Mutex<()>,
    /// Snapshots keep something: worth a look when one goes.
    has_shadowed: AtomicBool,
    pub(super) debt: Debt,
}

#[derive(Debug, Default)]
pub(super) struct EndingState {
    /// Only snapshots see these.
    pub(super) shadowed: Vec<Ended>,
    /// Nobody sees these. They are freed when the write `by` is durable.
    pub(super) dead: Vec<Ended>,
    /// Freed in the manifest: their bytes may go.
    freed: ByFile,
    /// How far trees without the log were flushed since the store was opened.
    pub(super) flushed: BTreeMap<TreeId, SeqNo>,
}

impl EndingState {
    /// Whether a crash might still bring back the entry that names it.
    pub(super) fn is_volatile(&self, ended: &Ended) -> bool {
        let flushed = |tree| self.flushed.get(&tree).copied().unwrap_or(0);
        ended.volatile.is_some_and(|tree| flushed(tree) < ended.by)
    }
}

impl Ending {
    /// Something was entered that only snapshots see, perhaps.
    pub(super) fn note_shadowed(&self) {
        self.has_shadowed.store(true, Ordering::SeqCst);
    }

    /// Blobs that are freed in the manifest and not erased yet.
    pub(super) fn take_freed(&self) -> ByFile {
        std::mem::take(&mut self.state.lock().freed)
    }

    /// Blobs that were freed and whose bytes are there again.
    pub(super) fn erase_again(&self, file: BlobFileId, ordinals: impl Iterator<Item = u64>) {
        let mut state = self.state.lock();
        let blobs: Vec<u64> = ordinals.collect();
        if !blobs.is_empty() {
            state.freed.entry(file).or_default().extend(blobs);
        }
    }
}

/// Ordinals by file.
pub(super) type ByFile = BTreeMap<BlobFileId, BTreeSet<u64>>;

/// Edits about blob files, and what they free.
#[derive(Debug, Default)]
pub(crate) struct BlobEdits {
    pub(super) edits: Vec<Edit>,
    freed: ByFile,
}

impl BlobEdits {
    /// The edits, to be made durable with others.
    pub(crate) fn take_edits(&mut self) -> Vec<Edit> {
        std::mem::take(&mut self.edits)
    }
}

/// What edits are to free.
#[derive(Debug, Default)]
pub(super) struct Frees<'a> {
    /// What died by writes up to this one, which are durable, as far as they are in the log.
    pub(super) dead_up_to: Option<SeqNo>,
    /// How far trees without the log are flushed with the same edits.
    pub(super) flushed: &'a [(TreeId, SeqNo)],
    /// What a flush or a merge has dropped.
    pub(super) dropped: &'a [Pointer],
    /// What the tables that come with the edits name, and no log.
    pub(super) named: &'a [Pointer],
    /// What only snapshots see once the edits are durable.
    pub(super) replaced: &'a [Ended],
    /// Whether what only snapshots see is noted too.
    pub(super) note_shadowed: bool,
}

pub(super) fn by_file(blobs: impl IntoIterator<Item = (BlobFileId, u64)>) -> ByFile {
    let mut files = ByFile::new();
    for (file, ordinal) in blobs {
        files.entry(file).or_default().insert(ordinal);
    }
    files
}

/// The huge values whose life a write has ended.
fn ended_by(job: &Job) -> Result<Vec<Ended>> {
    let now = job.tree.state.load_full();
    match &job.what {
        What::Key(key) => {
            let before = base_at(&now, key, job.seq - 1)?;
            let ended =
                before.and_then(|(from, kind, stored)| ended(&job.tree, from, kind, &stored, job.seq));
            Ok(ended.into_iter().collect())
        }
        What::Range(range) => {
            let mut all = Vec::new();
            bases_in(&now, range, job.seq - 1, |from, kind, stored| {
                all.extend(ended(&job.tree, from, kind, stored, job.seq));
            })?;
            Ok(all)
        }
    }
}

/// The huge value of an entry with the number `from`, if it has one, whose life the write `by` to the tree ends.
pub(super) fn ended(tree: &TreeInner, from: SeqNo, kind: Kind, stored: &[u8], by: SeqNo) -> Option<Ended> {
    let Pointer { file, ordinal, share, len, .. } = Pointer::of_entry(kind, stored)?;
    let volatile = (!tree.log).then_some(tree.id);
    Some(Ended { file, ordinal, share: Some(share), from, until: by, by, volatile, len })
}

impl Store {
    // ---- finding out ---------------------------------------------------------------------------------

    /// Settles which blobs the writes up to `limit` have ended.
    pub(crate) fn settle_blobs(&self, limit: SeqNo) -> Result<()> {
        let mut state = self.ending.state.lock();
        while let Some(job) = self.commit.jobs.take_up_to(limit) {
            if job.tree.is_dropped() {
                continue;
            }
            if matches!(job.what, What::Range(_)) && self.blobs.filter.is_empty() {
                // No key ever held a huge value: a deletion that was replayed need not be looked into.
                continue;
            }
            match ended_by(&job) {
                Ok(ended) => state.shadowed.extend(ended),
                // Damage elsewhere costs the space of what it hides, until a merge drops it.
                Err(error) if error.kind() == ErrorKind::Corruption => {}
                Err(error) => {
                    self.commit.jobs.give_back(job);
                    return Err(error);
                }
            }
        }
        self.bury(&mut state);
        Ok(())
    }

    /// Moves what no registered moment sees any more to the dead.
    fn bury(&self, state: &mut EndingState) {
        let abandoned = self.blobs.take_abandoned().into_iter();
        let mut dead: Vec<Ended> =
            abandoned.map(|blob| Ended::for_good(blob.file, blob.ordinal, Some(blob.share))).collect();
        if !state.shadowed.is_empty() {
            // Whoever registers later sees none of these: the writes that ended them are visible.
            self.ending.has_shadowed.store(true, Ordering::SeqCst);
            let moments = self.snapshots.registered();
            let is_seen = |ended: &Ended| {
                let first = moments.partition_point(|&moment| moment < ended.from);
                moments.get(first).is_some_and(|&moment| moment < ended.until)
            };
            let shadowed = std::mem::take(&mut state.shadowed);
            let (seen, unseen): (Vec<Ended>, Vec<Ended>) =
                shadowed.into_iter().partition(|ended| is_seen(ended) || state.is_volatile(ended));
            state.shadowed = seen;
            self.ending.debt.owe(unseen.iter().map(|ended| ended.len).sum());
            dead.extend(unseen);
            self.ending.has_shadowed.store(!state.shadowed.is_empty(), Ordering::SeqCst);
        }
        // Of several entries that name one blob the others may still be there: the edit that frees it finds out.
        for ended in dead.iter().filter(|ended| !self.blobs.is_shared(ended.file, ended.ordinal)) {
            self.blobs.condemn(ended.file, ended.ordinal);
        }
        state.dead.extend(dead);
    }

    /// All blobs that are filed under `tree` die: the manifest has no tree any more whose root that is. Scans that were open
    /// then go on.
    pub(super) fn free_blobs_of(&self, tree: TreeId) {
        let until = self.commit.visible() + 1;
        self.ending.has_shadowed.store(true, Ordering::SeqCst);
        for live in self.blobs.files() {
            // Of a file that cannot be read nobody knows what belonged to the tree: it stays.
            let Ok(entries) = self.blobs.entries(&live) else { continue };
            let mut state = self.ending.state.lock();
            for entry in entries.iter().filter(|entry| entry.tree == tree) {
                let (file, ordinal) = (live.id, entry.ordinal);
                if !live.life.lock().freed.contains(&ordinal) {
                    let ended = Ended { until, len: entry.len, ..Ended::for_good(file, ordinal, None) };
                    state.shadowed.push(ended);
                }
            }
        }
        self.notify(Lane::Blobs);
    }

    /// Blobs that recovery found to be nobody's. What was freed before and not erased yet is erased.
    pub(crate) fn free_unclaimed(&self, blobs: impl IntoIterator<Item = (BlobFileId, u64)>) -> Result<()> {
        let mut state = self.ending.state.lock();
        for live in self.blobs.files() {
            if !live.life.lock().freed.is_empty() && !self.blobs.is_erased(&live)? {
                state.freed.insert(live.id, live.life.lock().freed.clone());
            }
        }
        for (file, ordinal) in blobs {
            self.blobs.condemn(file, ordinal);
            state.dead.push(Ended::for_good(file, ordinal, None));
        }
        Ok(())
    }

    /// [`BlobSet::seal_ended`]; after a sync that failed the store takes no more writes.
    pub(crate) fn seal_blobs(&self, all: bool) -> Result<bool> {
        self.blobs.seal_ended(all && !broken("rule-14-roll")).inspect_err(|error| {
            if error.kind() != ErrorKind::OutOfSpace {
                self.commit.poison();
            }
        })
    }

    // ---- freeing -------------------------------------------------------------------------------------

    /// Edits that say what has changed about blob files, and free what `frees` says.
    pub(super) fn blob_edits(&self, versions: &Versions, frees: &Frees<'_>) -> BlobEdits {
        let Some(manifest) = versions.known() else { return BlobEdits::default() };
        let known = &manifest.blobs.live;
        let synced = self.wal.synced();
        let files = self.blobs.files();
        files.iter().for_each(|live| live.note_synced(synced));
        let notes = files.iter().map(|live| live.info(synced));
        // A file in which nothing is durable yet may be gone after a crash: it is not named.
        let news = notes.filter(|info| match known.get(&info.file) {
            Some(record) => record.info != *info,
            None => (info.pending.len() as u64) < info.entries,
        });
        let mut notes: BTreeMap<BlobFileId, BlobEdit> =
            news.map(|info| (info.file, BlobEdit::Note(info))).collect();
        let mut edits = Vec::new();

        let mut state = self.ending.state.lock();
        // What was abandoned waits for no write: its note and its end go together.
        let is_due = |ended: &Ended| match ended.volatile {
            Some(tree) => is_flushed(manifest, ended, tree, frees.flushed),
            None => ended.by == 0 || frees.dead_up_to.is_some_and(|limit| ended.by <= limit),
        };
        let (due, later): (Vec<Ended>, Vec<Ended>) = state.dead.drain(..).partition(is_due);
        state.dead = later;
        let due = due.iter().map(|ended| (ended.file, ended.ordinal, ended.share));
        let dropped =
            frees.dropped.iter().map(|pointer| (pointer.file, pointer.ordinal, Some(pointer.share)));
        let ended =
            due.chain(dropped).filter(|&(file, ordinal, share)| self.blobs.release(file, ordinal, share));
        let is_new = |&(file, ordinal): &(BlobFileId, u64)| {
            self.blobs.get(file).is_some()
                && known.get(&file).is_none_or(|record| !record.freed.contains(&ordinal))
        };
        let freed = by_file(ended.map(|(file, ordinal, _)| (file, ordinal)).filter(is_new));
        for (&file, ordinals) in &freed {
            for &ordinal in ordinals {
                self.blobs.condemn(file, ordinal);
            }
            edits.push(BlobEdit::Free { file, ordinals: ordinals.clone() });
            if let Some(live) = self.blobs.get(file) {
                notes.insert(file, BlobEdit::Note(live.info(synced)));
            }
        }
        if frees.note_shadowed || !frees.replaced.is_empty() {
            // What a write has ended that may still be lost stays with the log.
            let shadowed = state.shadowed.iter().filter(|ended| frees.note_shadowed && is_due(ended));
            let shadowed = shadowed
                .chain(frees.replaced)
                .filter(|ended| !self.blobs.shadow_share(ended.file, ended.ordinal, ended.share));
            let shadowed = shadowed.map(|ended| (ended.file, ended.ordinal));
            // Of a file that is not named, the log will tell again.
            let is_new = |&(file, ordinal): &(BlobFileId, u64)| match known.get(&file) {
                Some(record) => !record.shadowed.contains(&ordinal),
                None => notes.contains_key(&file),
            };
            let shadowed = by_file(shadowed.filter(is_new)).into_iter();
            edits.extend(shadowed.map(|(file, ordinals)| BlobEdit::Shadow { file, ordinals }));
        }
        edits.extend(self.share_edits(known, &notes, synced));
        BlobEdits { edits: notes.into_values().chain(edits).map(Edit::Blob).collect(), freed }
    }

    /// What became of `edits`: their blobs are freed, or are to be freed by others.
    pub(crate) fn after_blob_edits(&self, edits: BlobEdits, durable: bool) {
        let mut state = self.ending.state.lock();
        for (file, ordinals) in edits.freed {
            if durable {
                state.freed.entry(file).or_default().extend(ordinals);
            } else {
                let dead = ordinals.into_iter().map(|ordinal| Ended::for_good(file, ordinal, None));
                state.dead.extend(dead);
            }
        }
        let due = !state.freed.is_empty();
        drop(state);
        if due {
            self.notify(Lane::Blobs);
        }
    }

    /// Edits that say what opening has found out about blob files. All that was replayed is durable.
    pub(crate) fn blob_edits_of_opening(&self, versions: &Versions) -> BlobEdits {
        self.blob_edits(versions, &Frees { dead_up_to: Some(SeqNo::MAX), ..Frees::default() })
    }

    /// Frees in the manifest what died by writes up to `limit`, which are durable; whether that was any.
    fn note_blobs_up_to(&self, limit: SeqNo) -> Result<bool> {
        // Others need not wait for what is done before the lock is taken.
        self.blobs.sync_names()?;
        let mut versions = self.versions.lock();
        let frees = Frees { dead_up_to: Some(limit), ..Frees::default() };
        let mut edits = self.blob_edits(&versions, &frees);
        let change = Change::of(edits.take_edits());
        let committed = if change.edits.is_empty() {
            Ok(())
        } else {
            // A file that the manifest names is found after a power loss.
            self.blobs.sync_names().and_then(|()| self.apply(&mut versions, &change))
        };
        drop(versions);
        let freed = !edits.freed.is_empty();
        self.after_blob_edits(edits, committed.is_ok());
        committed.map(|()| freed)
    }

    /// Seals the blob files of a store that closes, so that opening it has less to look at. What cannot be
    /// sealed is read all the same.
    pub(super) fn seal_blobs_when_closing(&self) {
        drop(self.seal_blobs(true));
    }

    fn settle_abandoned(&self) {
        let mut state = self.ending.state.lock();
        self.bury(&mut state);
    }

    /// Edits that say which files are sealed now.
    pub(super) fn blob_notes(&self, versions: &Versions) -> Vec<Edit> {
        self.settle_abandoned();
        self.blob_edits(versions, &Frees::default()).take_edits()
    }

    /// A snapshot or a scan was let go.
    pub(crate) fn blobs_let_go(&self) {
        if self.ending.has_shadowed.load(Ordering::SeqCst) {
            self.notify(Lane::Blobs);
        }
    }

    /// One round of giving space back; `false` when there was nothing to do.
    pub(super) fn run_blob_lane(&self) -> Result<bool> {
        self.give_back(&mut self.ending.round.lock())
    }

    /// [`Store::run_blob_lane`], for whoever has `Ending::round`.
    pub(super) fn give_back(&self, _round: &mut ()) -> Result<bool> {
        let (owed, paid) = (self.ending.debt.owed(), self.ending.debt.paid());
        let freed = self.free_the_dead()?;
        let erased = self.erase_the_freed()?;
        self.settle_debt(owed.max(self.owed_if_all_is_freed()), paid)?;
        let let_go = self.blobs.erase_let_go()?;
        // Last, since a footer may find no room before space has come back.
        let sealed = match self.seal_blobs(false) {
            Err(error) if error.kind() == ErrorKind::OutOfSpace => false,
            sealed => sealed?,
        };
        self.blobs.settle_files();
        let reclaimed = self.reclaim_blobs()?;
        Ok(freed | erased | let_go | sealed | reclaimed)
    }

    /// The whole debt if no blob is left to be freed, 0 otherwise. A round may add values to the debt and then find that their
    /// space was given back before. No later round would pay for them, and a writer would wait for ever.
    fn owed_if_all_is_freed(&self) -> u64 {
        let state = self.ending.state.lock();
        if state.dead.is_empty() && state.freed.is_empty() { self.ending.debt.owed() } else { 0 }
    }

    /// Whether there is space to be given back.
    pub(super) fn has_ended_blobs(&self) -> bool {
        if !self.commit.jobs.is_empty() || self.blobs.has_left_over() {
            return true;
        }
        let state = self.ending.state.lock();
        !state.dead.is_empty() || !state.freed.is_empty()
    }

    fn free_the_dead(&self) -> Result<bool> {
        // Whatever is visible now lies before what is published then.
        let visible = self.commit.visible();
        self.settle_blobs(visible)?;
        self.trees_that_keep_space().iter().for_each(|tree| self.set_aside(tree, 0));
        if self.ending.state.lock().dead.is_empty() {
            return Ok(false);
        }
        if !broken("rule-12") {
            self.sync_log(self.commit.published())?;
        }
        self.note_blobs_up_to(visible)
    }
}
