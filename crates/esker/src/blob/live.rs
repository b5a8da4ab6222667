//! A blob file of an open store, and what becomes of each blob in it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::{Mutex, RwLock};

use super::format::PAGE;
use super::{BlobFile, BlobFileId, BlobName, LazyFile, Shares};
use crate::canary::broken;
use crate::error::{Error, Result};
use crate::fs::RandomFile;
use crate::version::blobs::{BlobFileInfo, SharesRecord};

/// One blob file.
#[derive(Debug)]
pub(crate) struct LiveFile {
    pub(crate) id: BlobFileId,
    /// What stands in it as its number.
    origin: BlobFileId,
    pub(crate) salt: u64,
    pub(crate) single: bool,
    /// Why it cannot be read, if it cannot: its values are lost, others are not.
    file: RwLock<std::result::Result<Arc<BlobFile>, Error>>,
    /// The handle behind `file`, where it is one that may be closed.
    lazy: Mutex<Option<Arc<LazyFile>>>,
    pub(crate) life: Mutex<Life>,
    /// The file for syncing it, where it was written or may not be synced yet.
    pub(super) written: Mutex<Option<Arc<dyn RandomFile>>>,
    /// Holds bytes that are not synced and that a log record may point to.
    pub(super) dirty: AtomicBool,
    /// A sync is still to succeed. Cleared under the set's sync lock only.
    pub(super) unsynced: AtomicBool,
}

/// What becomes of a file's blobs.
#[derive(Debug, Default)]
pub(crate) struct Life {
    /// A footer stands at its end.
    pub(crate) sealed: bool,
    /// More may be appended.
    pub(super) open: bool,
    /// Blobs written so far.
    pub(crate) entries: u64,
    /// Blobs whose log record may still be lost, with the log position behind it once there is one.
    pub(crate) pending: BTreeMap<u64, Option<u64>>,
    pub(crate) freed: BTreeSet<u64>,
    /// Freed, and pinned: their bytes go with the last pin.
    pub(super) held_back: BTreeSet<u64>,
    pub(super) pins: BTreeMap<u64, usize>,
    /// Blobs that were copied: others have one entry that names them.
    shares: BTreeMap<u64, Shares>,
    /// Those of them that the manifest may not know as they are.
    unnoted: BTreeSet<u64>,
}

impl Life {
    /// Of a file to which nothing is appended any more.
    pub(crate) fn ended(
        sealed: bool,
        entries: u64,
        freed: BTreeSet<u64>,
        pending: impl IntoIterator<Item = u64>,
    ) -> Life {
        let pending = pending.into_iter().map(|ordinal| (ordinal, None)).collect();
        Life { sealed, entries, freed, pending, ..Life::default() }
    }

    /// How many of its blobs are freed.
    pub(crate) fn freed_count(&self) -> u64 {
        self.freed.range(..self.entries).count() as u64
    }

    /// Whether nobody needs the blob any more, nor reads it.
    pub(crate) fn is_gone(&self, ordinal: u64) -> bool {
        self.freed.contains(&ordinal) && !self.pins.contains_key(&ordinal)
    }

    /// The file holds the blob, whatever a scan has found of it.
    pub(crate) fn note_named(&mut self, ordinal: u64) {
        self.entries = self.entries.max(ordinal.saturating_add(1));
    }

    /// The share (`None`: every one) of a blob has ended for good; whether that was the last.
    pub(crate) fn release(&mut self, ordinal: u64, share: Option<u64>) -> bool {
        match (self.shares_mut(ordinal), share) {
            (Some(_), Some(_)) if broken("shares") => true,
            (Some(shares), Some(share)) => {
                shares.release(share);
                shares.is_over()
            }
            (None, share) => share.unwrap_or(0) == 0,
            (Some(_), None) => true,
        }
    }

    /// The entries that name a blob, if it was copied.
    pub(crate) fn shares(&self, ordinal: u64) -> Option<&Shares> {
        self.shares.get(&ordinal)
    }

    /// [`Life::shares`], to be changed: the manifest will be told.
    pub(super) fn shares_mut(&mut self, ordinal: u64) -> Option<&mut Shares> {
        let shares = self.shares.get_mut(&ordinal)?;
        self.unnoted.insert(ordinal);
        Some(shares)
    }

    /// [`Life::shares_mut`] of a blob that is copied now.
    pub(crate) fn shares_or_first(&mut self, ordinal: u64) -> &mut Shares {
        self.unnoted.insert(ordinal);
        self.shares.entry(ordinal).or_insert_with(Shares::first)
    }

    /// What the manifest says of a blob that was copied.
    pub(crate) fn set_shares(&mut self, ordinal: u64, record: &SharesRecord) {
        self.unnoted.insert(ordinal);
        self.shares.insert(ordinal, Shares::of(record));
    }

    /// The whole log was replayed: blobs that were copied and of which no entry is left.
    pub(crate) fn decide_shares(&mut self) -> Vec<u64> {
        self.shares.values_mut().for_each(Shares::decide);
        let over = self.shares.iter().filter(|(_, shares)| shares.is_over());
        over.map(|(&ordinal, _)| ordinal).filter(|ordinal| !self.freed.contains(ordinal)).collect()
    }

    /// What a manifest is to know of blobs that were copied, where what it `knows` is something else. The log is on
    /// the disk up to position `synced`.
    pub(crate) fn share_news<'a>(
        &mut self,
        synced: u64,
        knows: impl Fn(u64) -> Option<&'a SharesRecord>,
    ) -> Vec<(u64, SharesRecord)> {
        let mut news = Vec::new();
        let Life { shares, unnoted, freed, .. } = self;
        unnoted.retain(|&ordinal| {
            let Some(shares) = shares.get(&ordinal).filter(|_| !freed.contains(&ordinal)) else {
                return false;
            };
            let record = shares.record(synced);
            // What the log may still lose changes by itself.
            let (is_new, may_change) = (knows(ordinal) != Some(&record), !record.pending.is_empty());
            if is_new {
                news.push((ordinal, record));
            }
            is_new || may_change
        });
        news
    }

    /// Whether somebody reads any of its blobs.
    pub(crate) fn is_pinned(&self) -> bool {
        !self.pins.is_empty()
    }

    /// Whether nothing in it is needed and nothing will be added.
    pub(crate) fn is_over(&self) -> bool {
        // Each round of giving space back asks this of each file, and what is freed is counted only where it may be all.
        !self.open && self.freed.len() as u64 >= self.entries && self.freed_count() >= self.entries
    }
}

impl LiveFile {
    pub(crate) fn name(&self) -> BlobName {
        BlobName { file: self.id, origin: self.origin }
    }

    /// Whoever reads the file now goes on, whatever gets its name.
    pub(super) fn keep_open(&self) -> Result<()> {
        self.lazy.lock().as_ref().map_or(Ok(()), |lazy| lazy.keep())
    }

    /// Whether it can be written anew: it has many values, is synced, and nobody writes to it. One that a crash left
    /// unsealed is no exception.
    pub(super) fn is_rewritable(&self) -> bool {
        !self.single && !self.is_open() && self.lazy.lock().is_some() && self.written.lock().is_none()
    }

    /// It was written anew, and its name is durable: a footer stands at its end, whatever was there before.
    pub(crate) fn note_rewritten(&self) {
        self.life.lock().sealed = true;
    }

    /// About how many bytes the file would have without what nobody needs any more, and how many values that is
    /// which it still has.
    pub(super) fn needed_bytes(&self) -> Result<(u64, usize)> {
        let file = self.readable()?;
        let life = self.life.lock();
        let gone = life.freed.iter().copied().filter(|ordinal| !life.pins.contains_key(ordinal));
        let (needed, gone) = file.needed(self.id, gone);
        Ok((PAGE + needed, gone))
    }

    /// A file that opening has found unsealed is synced once and never written to.
    pub(super) fn let_go_if_found(&self) {
        if self.lazy.lock().is_some() {
            self.written.lock().take();
        }
    }

    /// Whether it is sealed and synced and still held open for writing.
    pub(super) fn is_settled(&self) -> bool {
        self.life.lock().sealed && !self.unsynced.load(Ordering::Acquire) && self.written.lock().is_some()
    }

    /// Reads go to `file` from now on, which is the same one, and nothing is written any more.
    pub(super) fn settle(&self, file: BlobFile, lazy: Arc<LazyFile>) {
        *self.lazy.lock() = Some(lazy);
        *self.file.write() = Ok(Arc::new(file));
        self.written.lock().take();
    }

    /// Closes its descriptors: from now on `error` says why it cannot be read.
    pub(super) fn let_go(&self, error: Error) {
        *self.file.write() = Err(error);
        self.lazy.lock().take();
        self.written.lock().take();
    }

    /// Whether more may be appended to it.
    pub(crate) fn is_open(&self) -> bool {
        self.life.lock().open
    }

    /// The log is on the disk up to position `synced`.
    pub(crate) fn note_synced(&self, synced: u64) {
        let mut life = self.life.lock();
        life.pending.retain(|_, position| position.is_none_or(|position| position > synced));
    }

    /// What a manifest is to know of it whose log is on the disk up to position `synced`.
    pub(crate) fn info(&self, synced: u64) -> BlobFileInfo {
        let life = self.life.lock();
        let pending = life.pending.iter().filter(|(_, end)| end.is_none_or(|end| end > synced));
        BlobFileInfo {
            file: self.id,
            origin: self.origin,
            salt: self.salt,
            single: self.single,
            sealed: life.sealed && !self.unsynced.load(Ordering::Acquire),
            entries: life.entries,
            pending: pending.map(|(&ordinal, _)| ordinal).collect(),
        }
    }

    /// The file as it was found when the store was opened; `written`: it may not be synced.
    pub(crate) fn found(
        name: BlobName,
        salt: u64,
        single: bool,
        file: std::result::Result<Arc<BlobFile>, Error>,
        life: Life,
        written: Option<Arc<dyn RandomFile>>,
        lazy: Option<Arc<LazyFile>>,
    ) -> Arc<LiveFile> {
        let (dirty, unsynced) = (AtomicBool::new(false), AtomicBool::new(written.is_some()));
        Arc::new(LiveFile {
            id: name.file,
            origin: name.origin,
            salt,
            single,
            file: RwLock::new(file),
            lazy: Mutex::new(lazy),
            life: Mutex::new(life),
            written: Mutex::new(written),
            dirty,
            unsynced,
        })
    }

    /// A file that was just begun.
    pub(super) fn begun(
        id: BlobFileId,
        salt: u64,
        single: bool,
        file: &Arc<BlobFile>,
        written: &Arc<dyn RandomFile>,
    ) -> Arc<LiveFile> {
        let life = Life { open: true, ..Life::default() };
        LiveFile::found(id.into(), salt, single, Ok(Arc::clone(file)), life, Some(Arc::clone(written)), None)
    }

    /// The file, if it can be read.
    pub(crate) fn readable(&self) -> Result<Arc<BlobFile>> {
        self.file.read().as_ref().map(Arc::clone).map_err(Error::duplicate)
    }

    pub(super) fn added(&self, ordinal: u64) {
        let mut life = self.life.lock();
        life.entries = life.entries.max(ordinal.saturating_add(1));
        life.pending.insert(ordinal, None);
        drop(life);
    }
}
