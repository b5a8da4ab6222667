//! Ends the life of blobs: finds old versions that nobody can see any more, and gives their space back (rule 12).
//!
//! ```text
//! write over a key that ever held a blob -- job -- look for the version before -- dead -- freed -- erased
//!                                                     '-- a snapshot sees it: shadowed, looked at again
//! ```
//!
//! - A write that may end a blob's life leaves a job ([`crate::write::watch`]). A flush settles all jobs up to its last
//!   sequence number, before the log can lose those writes.
//! - The edit that installs the tables of a flush or a merge frees the blobs that it has dropped.
//! - A blob is freed in the manifest once the write that ended its life survives power loss. Its bytes are given back
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
use crate::version::blob_edits::BlobEdit;
use crate::version::edit::{Edit, TreeId};
use crate::write::watch::{Job, What};

/// A blob that is no longer the newest version of its key.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ended {
    pub(super) file: BlobFileId,
    pub(super) ordinal: u64,
    /// The entry that names it; `None`: all of them.
    pub(super) share: Option<u64>,
    /// Moments from this one on see it ...
    pub(super) from: SeqNo,
    /// ... and before this one.
    pub(super) until: SeqNo,
    /// The write that ended its life; 0 if no write has to become durable first.
    pub(super) by: SeqNo,
    /// The tree of that write, if the write skipped the log.
    pub(super) volatile: Option<TreeId>,
    /// Its length in bytes, which is owed once nobody sees it; 0 if that was noted before.
    pub(super) len: u64,
}

impl Ended {
    /// A blob that nobody sees, durably.
    pub(super) fn for_good(file: BlobFileId, ordinal: u64, share: Option<u64>) -> Ended {
        Ended { file, ordinal, share, from: 0, until: 0, by: 0, volatile: None, len: 0 }
    }
}

/// Blobs whose life has ended or is about to end.
#[derive(Debug, Default)]
pub(crate) struct Ending {
    pub(super) state: Mutex<EndingState>,
    /// Held during a round of giving space back. The holder sees what the last round has left.
    pub(super) round: Mutex<()>,
    /// Whether snapshots keep blobs: then the release of a snapshot is worth a round.
    has_shadowed: AtomicBool,
    pub(super) debt: Debt,
}

#[derive(Debug, Default)]
pub(super) struct EndingState {
    /// Blobs that only snapshots see.
    pub(super) shadowed: Vec<Ended>,
    /// Blobs that nobody sees. They are freed when the write `by` is durable.
    pub(super) dead: Vec<Ended>,
    /// Blobs that are freed in the manifest. Their bytes may be given back.
    freed: ByFile,
    /// How far trees that skip the log were flushed since the store was opened.
    pub(super) flushed: BTreeMap<TreeId, SeqNo>,
}

impl EndingState {
    /// Whether a crash might still bring the entry back that names it.
    pub(super) fn is_volatile(&self, ended: &Ended) -> bool {
        let flushed = |tree| self.flushed.get(&tree).copied().unwrap_or(0);
        ended.volatile.is_some_and(|tree| flushed(tree) < ended.by)
    }
}

impl Ending {
    /// Notes that snapshots may keep blobs.
    pub(super) fn note_shadowed(&self) {
        self.has_shadowed.store(true, Ordering::SeqCst);
    }

    /// Blobs that are freed in the manifest and not erased yet.
    pub(super) fn take_freed(&self) -> ByFile {
        std::mem::take(&mut self.state.lock().freed)
    }

    /// Adds freed blobs whose bytes are back in a rewritten file.
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

/// Edits about blob files, and the blobs that they free.
#[derive(Debug, Default)]
pub(crate) struct BlobEdits {
    pub(super) edits: Vec<Edit>,
    freed: ByFile,
}

impl BlobEdits {
    /// The edits, to make durable with others.
    pub(crate) fn take_edits(&mut self) -> Vec<Edit> {
        std::mem::take(&mut self.edits)
    }
}

/// What edits have to free.
#[derive(Debug, Default)]
pub(super) struct Frees<'a> {
    /// Frees blobs that died by writes up to this one, if those were logged: such writes are durable.
    pub(super) dead_up_to: Option<SeqNo>,
    /// How far trees that skip the log are flushed with the same edits.
    pub(super) flushed: &'a [(TreeId, SeqNo)],
    /// The pointers that a flush or a merge has dropped.
    pub(super) dropped: &'a [Pointer],
    /// The pointers that only the tables of the edits name, and no log record.
    pub(super) named: &'a [Pointer],
    /// Blobs that only snapshots see once the edits are durable.
    pub(super) replaced: &'a [Ended],
    /// Whether blobs that only snapshots see are noted too.
    pub(super) note_shadowed: bool,
}

pub(super) fn by_file(blobs: impl IntoIterator<Item = (BlobFileId, u64)>) -> ByFile {
    let mut files = ByFile::new();
    for (file, ordinal) in blobs {
        files.entry(file).or_default().insert(ordinal);
    }
    files
}

/// The huge values whose life a job's write has ended.
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

/// The huge value of an entry with the number `from`, if it has one. The write `by` to the tree ends its life.
pub(super) fn ended(tree: &TreeInner, from: SeqNo, kind: Kind, stored: &[u8], by: SeqNo) -> Option<Ended> {
    let Pointer { file, ordinal, share, len, .. } = Pointer::of_entry(kind, stored)?;
    let volatile = (!tree.log).then_some(tree.id);
    Some(Ended { file, ordinal, share: Some(share), from, until: by, by, volatile, len })
}

impl Store {
    // ---- finding out ---------------------------------------------------------------------------------

    /// Finds the blobs whose life writes up to `limit` have ended.
    pub(crate) fn settle_blobs(&self, limit: SeqNo) -> Result<()> {
        let mut state = self.ending.state.lock();
        while let Some(job) = self.commit.jobs.take_up_to(limit) {
            if job.tree.is_dropped() {
                continue;
            }
            if matches!(job.what, What::Range(_)) && self.blobs.filter.is_empty() {
                // No key ever held a huge value, so a replayed deletion need not be looked into.
                continue;
            }
            match ended_by(&job) {
                Ok(ended) => state.shadowed.extend(ended),
                // If another file is damaged, the blob's space stays taken until a merge drops the blob.
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

    /// Moves blobs that no registered snapshot sees to the dead.
    fn bury(&self, state: &mut EndingState) {
        let abandoned = self.blobs.take_abandoned().into_iter();
        let mut dead: Vec<Ended> =
            abandoned.map(|blob| Ended::for_good(blob.file, blob.ordinal, Some(blob.share))).collect();
        if !state.shadowed.is_empty() {
            // A snapshot that is registered later sees none of these: the writes that ended them are visible.
            self.ending.has_shadowed.store(true, Ordering::SeqCst);
            let snapshots = self.snapshots.registered();
            let is_seen = |ended: &Ended| {
                let first = snapshots.partition_point(|&snapshot| snapshot < ended.from);
                snapshots.get(first).is_some_and(|&snapshot| snapshot < ended.until)
            };
            let shadowed = std::mem::take(&mut state.shadowed);
            let (seen, unseen): (Vec<Ended>, Vec<Ended>) =
                shadowed.into_iter().partition(|ended| is_seen(ended) || state.is_volatile(ended));
            state.shadowed = seen;
            self.ending.debt.owe(unseen.iter().map(|ended| ended.len).sum());
            dead.extend(unseen);
            self.ending.has_shadowed.store(!state.shadowed.is_empty(), Ordering::SeqCst);
        }
        // If several entries name a blob, others may still be there. The edit that frees it finds out.
        for ended in dead.iter().filter(|ended| !self.blobs.is_shared(ended.file, ended.ordinal)) {
            self.blobs.condemn(ended.file, ended.ordinal);
        }
        state.dead.extend(dead);
    }

    /// Ends the life of all blobs under the root number `tree`, because the manifest has no tree with this root any
    /// more. Scans that are open continue.
    pub(super) fn free_blobs_of(&self, tree: TreeId) {
        let until = self.commit.visible() + 1;
        self.ending.has_shadowed.store(true, Ordering::SeqCst);
        for live in self.blobs.files() {
            // If a file cannot be read, nobody knows which of its values belonged to the tree: it stays.
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

    /// Takes over the blobs without an owner that recovery has found. Blobs that were freed before and not erased yet
    /// are erased.
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

    /// [`seal_ended`](crate::blob::BlobSet::seal_ended). After a failed sync the store takes no more writes.
    pub(crate) fn seal_blobs(&self, all: bool) -> Result<bool> {
        self.blobs.seal_ended(all && !broken("rule-14-roll")).inspect_err(|error| {
            if error.kind() != ErrorKind::OutOfSpace {
                self.commit.poison();
            }
        })
    }

    // ---- freeing -------------------------------------------------------------------------------------

    /// Edits that record changes of blob files and free what `frees` lists.
    pub(super) fn blob_edits(&self, versions: &Versions, frees: &Frees<'_>) -> BlobEdits {
        let Some(manifest) = versions.known() else { return BlobEdits::default() };
        let known = &manifest.blobs.live;
        let synced = self.wal.synced();
        let files = self.blobs.files();
        files.iter().for_each(|live| live.note_synced(synced));
        let notes = files.iter().map(|live| live.info(synced));
        // A file without anything durable may be gone after a crash, so it is not named.
        let news = notes.filter(|info| match known.get(&info.file) {
            Some(record) => record.info != *info,
            None => (info.pending.len() as u64) < info.entries,
        });
        let mut notes: BTreeMap<BlobFileId, BlobEdit> =
            news.map(|info| (info.file, BlobEdit::Note(info))).collect();
        let mut edits = Vec::new();

        let mut state = self.ending.state.lock();
        // An abandoned blob waits for no write: its note and its end go together.
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
            // A blob stays with the log if the write that ended it may still be lost.
            let shadowed = state.shadowed.iter().filter(|ended| frees.note_shadowed && is_due(ended));
            let shadowed = shadowed
                .chain(frees.replaced)
                .filter(|ended| !self.blobs.shadow_share(ended.file, ended.ordinal, ended.share));
            let shadowed = shadowed.map(|ended| (ended.file, ended.ordinal));
            // If a file is not named, the log will tell again.
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

    /// Notes the result of `edits`: their blobs are freed or, if the edits failed, have to be freed by others.
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

    /// Edits that record what the opening has found out about blob files. All that was replayed is durable.
    pub(crate) fn blob_edits_of_opening(&self, versions: &Versions) -> BlobEdits {
        self.blob_edits(versions, &Frees { dead_up_to: Some(SeqNo::MAX), ..Frees::default() })
    }

    /// Frees in the manifest the blobs that died by writes up to `limit`, which are durable. Returns whether there were
    /// any.
    fn note_blobs_up_to(&self, limit: SeqNo) -> Result<bool> {
        // Work that is done before the lock is taken delays nobody.
        self.blobs.sync_names()?;
        let mut versions = self.versions.lock();
        let frees = Frees { dead_up_to: Some(limit), ..Frees::default() };
        let mut edits = self.blob_edits(&versions, &frees);
        let change = Change::of(edits.take_edits());
        let committed = if change.edits.is_empty() {
            Ok(())
        } else {
            // The manifest must not name a file before its name is durable.
            self.blobs.sync_names().and_then(|()| self.apply(&mut versions, &change))
        };
        drop(versions);
        let freed = !edits.freed.is_empty();
        self.after_blob_edits(edits, committed.is_ok());
        committed.map(|()| freed)
    }

    /// Seals the blob files of a closing store, so that the next opening has less to read. A file that cannot be sealed
    /// is read all the same.
    pub(super) fn seal_blobs_when_closing(&self) {
        drop(self.seal_blobs(true));
    }

    fn settle_abandoned(&self) {
        let mut state = self.ending.state.lock();
        self.bury(&mut state);
    }

    /// Edits that record which files are sealed now.
    pub(super) fn blob_notes(&self, versions: &Versions) -> Vec<Edit> {
        self.settle_abandoned();
        self.blob_edits(versions, &Frees::default()).take_edits()
    }

    /// Notes that a snapshot or a scan was released.
    pub(crate) fn blobs_let_go(&self) {
        if self.ending.has_shadowed.load(Ordering::SeqCst) {
            self.notify(Lane::Blobs);
        }
    }

    /// Does one round of giving space back. Returns `false` if there was nothing to do.
    pub(super) fn run_blob_lane(&self) -> Result<bool> {
        self.give_back(&mut self.ending.round.lock())
    }

    /// [`Store::run_blob_lane`], for a caller that holds `Ending::round`.
    pub(super) fn give_back(&self, _round: &mut ()) -> Result<bool> {
        let (owed, paid) = (self.ending.debt.owed(), self.ending.debt.paid());
        let freed = self.free_the_dead()?;
        let erased = self.erase_the_freed()?;
        self.settle_debt(owed.max(self.owed_if_all_is_freed()), paid)?;
        let let_go = self.blobs.erase_let_go()?;
        // This comes late, since a footer may find no room before space is given back.
        let sealed = match self.seal_blobs(false) {
            Err(error) if error.kind() == ErrorKind::OutOfSpace => false,
            sealed => sealed?,
        };
        self.blobs.settle_files();
        let reclaimed = self.reclaim_blobs()?;
        Ok(freed | erased | let_go | sealed | reclaimed)
    }

    /// The whole debt if no blob is left to free, 0 otherwise. A round may add values to the debt and then find that
    /// their space was given back before. No later round would pay for them, and a writer would wait for ever.
    fn owed_if_all_is_freed(&self) -> u64 {
        let state = self.ending.state.lock();
        if state.dead.is_empty() && state.freed.is_empty() { self.ending.debt.owed() } else { 0 }
    }

    /// Whether there is space to give back.
    pub(super) fn has_ended_blobs(&self) -> bool {
        if !self.commit.jobs.is_empty() || self.blobs.has_left_over() {
            return true;
        }
        let state = self.ending.state.lock();
        !state.dead.is_empty() || !state.freed.is_empty()
    }

    fn free_the_dead(&self) -> Result<bool> {
        // Everything visible now is published when the log is synced below.
        let visible = self.commit.visible();
        self.settle_blobs(visible)?;
        self.trees_that_keep_space().iter().for_each(|tree| self.switch_memtable(tree, 0));
        if self.ending.state.lock().dead.is_empty() {
            return Ok(false);
        }
        if !broken("rule-12") {
            self.sync_log(self.commit.published())?;
        }
        self.note_blobs_up_to(visible)
    }
}
