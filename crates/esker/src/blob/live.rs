//! A blob file of an open store, and the state of each blob in it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::{Mutex, RwLock};

use super::format::PAGE;
use super::{BlobFile, BlobFileId, BlobName, LazyFile, Shares};
use crate::canary::broken;
use crate::error::{Error, Result};
use crate::fs::RandomFile;
use crate::version::blob_edits::{BlobFileInfo, SharesRecord};

/// One blob file.
#[derive(Debug)]
pub(crate) struct LiveFile {
    pub(crate) id: BlobFileId,
    /// The number in its header.
    origin: BlobFileId,
    pub(crate) salt: u64,
    pub(crate) single: bool,
    /// The open file, or the reason why it cannot be read. In that case its values are lost, but no others.
    file: RwLock<std::result::Result<Arc<BlobFile>, Error>>,
    /// The handle behind `file`, if it may be closed.
    lazy: Mutex<Option<Arc<LazyFile>>>,
    pub(crate) life: Mutex<Life>,
    /// The file to sync, if it was written or may not be synced yet.
    pub(super) written: Mutex<Option<Arc<dyn RandomFile>>>,
    /// Whether it holds unsynced bytes that a log record may point to.
    pub(super) dirty: AtomicBool,
    /// Whether a successful sync is still needed. Cleared only under the set's sync lock.
    pub(super) unsynced: AtomicBool,
}

/// The state of a file's blobs.
#[derive(Debug, Default)]
pub(crate) struct Life {
    /// Whether the file ends with a footer.
    pub(crate) sealed: bool,
    /// Whether more may be appended.
    pub(super) open: bool,
    /// How many blobs were written so far.
    pub(crate) entries: u64,
    /// Blobs whose log record may still be lost, each with the log position behind the record once there is one.
    pub(crate) pending: BTreeMap<u64, Option<u64>>,
    pub(crate) freed: BTreeSet<u64>,
    /// Freed blobs that are still pinned. Their bytes are given back with the last pin.
    pub(super) held_back: BTreeSet<u64>,
    pub(super) pins: BTreeMap<u64, usize>,
    /// The shares of blobs that were copied. Every other blob has one entry.
    shares: BTreeMap<u64, Shares>,
    /// Those of them whose state in the manifest may be out of date.
    unnoted: BTreeSet<u64>,
}

impl Life {
    /// The state of a file to which nothing is appended any more.
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

    /// Whether nobody needs or reads the blob any more.
    pub(crate) fn is_gone(&self, ordinal: u64) -> bool {
        self.freed.contains(&ordinal) && !self.pins.contains_key(&ordinal)
    }

    /// Notes that a record names the blob: the file counts it even if a scan did not find it.
    pub(crate) fn note_named(&mut self, ordinal: u64) {
        self.entries = self.entries.max(ordinal.saturating_add(1));
    }

    /// Ends a share (`None`: every share) of a blob for good. Returns whether it was the last.
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

    /// The shares of a blob, if it was copied.
    pub(crate) fn shares(&self, ordinal: u64) -> Option<&Shares> {
        self.shares.get(&ordinal)
    }

    /// [`Life::shares`] for a change, which will go to the manifest.
    pub(super) fn shares_mut(&mut self, ordinal: u64) -> Option<&mut Shares> {
        let shares = self.shares.get_mut(&ordinal)?;
        self.unnoted.insert(ordinal);
        Some(shares)
    }

    /// [`Life::shares_mut`] of a blob that is being copied; creates the first share if needed.
    pub(crate) fn shares_or_first(&mut self, ordinal: u64) -> &mut Shares {
        self.unnoted.insert(ordinal);
        self.shares.entry(ordinal).or_insert_with(Shares::first)
    }

    /// Takes over the shares of a copied blob from the manifest.
    pub(crate) fn set_shares(&mut self, ordinal: u64, record: &SharesRecord) {
        self.unnoted.insert(ordinal);
        self.shares.insert(ordinal, Shares::of(record));
    }

    /// Settles the shares after the replay of the whole log. Returns copied blobs without an entry that are not freed
    /// yet.
    pub(crate) fn decide_shares(&mut self) -> Vec<u64> {
        self.shares.values_mut().for_each(Shares::decide);
        let over = self.shares.iter().filter(|(_, shares)| shares.is_over());
        over.map(|(&ordinal, _)| ordinal).filter(|ordinal| !self.freed.contains(ordinal)).collect()
    }

    /// The shares that a manifest has to be told, because it `knows` something else. The log is on the disk up to
    /// position `synced`.
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
            // A share that the log may still lose changes by itself when the log is synced.
            let (is_new, may_change) = (knows(ordinal) != Some(&record), !record.pending.is_empty());
            if is_new {
                news.push((ordinal, record));
            }
            is_new || may_change
        });
        news
    }

    /// Whether any of its blobs is being read.
    pub(crate) fn is_pinned(&self) -> bool {
        !self.pins.is_empty()
    }

    /// Whether nothing in the file is needed and nothing will be added.
    pub(crate) fn is_over(&self) -> bool {
        // Each reclaim round asks this of each file, so the exact count is made only if all blobs may be freed.
        !self.open && self.freed.len() as u64 >= self.entries && self.freed_count() >= self.entries
    }
}

impl LiveFile {
    pub(crate) fn name(&self) -> BlobName {
        BlobName { file: self.id, origin: self.origin }
    }

    /// Keeps the file open for its readers, because another file is about to get its name.
    pub(super) fn keep_open(&self) -> Result<()> {
        self.lazy.lock().as_ref().map_or(Ok(()), |lazy| lazy.keep())
    }

    /// Whether it can be rewritten: it is a shared file, synced, and nobody writes to it. It may be one that a crash
    /// left unsealed.
    pub(super) fn is_rewritable(&self) -> bool {
        !self.single && !self.is_open() && self.lazy.lock().is_some() && self.written.lock().is_none()
    }

    /// Notes that the file was rewritten and its name is durable. The new file ends with a footer, even if the old one
    /// did not.
    pub(crate) fn note_rewritten(&self) {
        self.life.lock().sealed = true;
    }

    /// About how many bytes the file would have without values that nobody needs, and how many such values it still
    /// has.
    pub(super) fn needed_bytes(&self) -> Result<(u64, usize)> {
        let file = self.readable()?;
        let life = self.life.lock();
        let gone = life.freed.iter().copied().filter(|ordinal| !life.pins.contains_key(ordinal));
        let (needed, gone) = file.needed(self.id, gone);
        Ok((PAGE + needed, gone))
    }

    /// Closes the descriptor for syncing a file that was found unsealed at opening: it is synced once and never written
    /// to.
    pub(super) fn let_go_if_found(&self) {
        if self.lazy.lock().is_some() {
            self.written.lock().take();
        }
    }

    /// Whether it is sealed, synced and still open for writing.
    pub(super) fn is_settled(&self) -> bool {
        self.life.lock().sealed && !self.unsynced.load(Ordering::Acquire) && self.written.lock().is_some()
    }

    /// Directs reads to `file`, another handle of the same file, and closes the descriptor for writing.
    pub(super) fn settle(&self, file: BlobFile, lazy: Arc<LazyFile>) {
        *self.lazy.lock() = Some(lazy);
        *self.file.write() = Ok(Arc::new(file));
        self.written.lock().take();
    }

    /// Closes its descriptors. From now on reads fail with `error`.
    pub(super) fn let_go(&self, error: Error) {
        *self.file.write() = Err(error);
        self.lazy.lock().take();
        self.written.lock().take();
    }

    /// Whether more may be appended to it.
    pub(crate) fn is_open(&self) -> bool {
        self.life.lock().open
    }

    /// Notes that the log is on the disk up to position `synced`.
    pub(crate) fn note_synced(&self, synced: u64) {
        let mut life = self.life.lock();
        life.pending.retain(|_, position| position.is_none_or(|position| position > synced));
    }

    /// What a manifest has to know about the file, if the log is on the disk up to position `synced`.
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

    /// A file that was found when the store was opened. `written`: it may not be synced.
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

    /// A new file.
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

    /// The open file, if it can be read.
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
