//! A blob file of an open store: its handles, and the states of its values.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::{Mutex, RwLock};

use super::format::PAGE;
use super::gc::Values;
use super::{BlobFile, BlobFileId, BlobName, LazyFile};
use crate::error::{Error, Result};
use crate::fs::RandomFile;
use crate::version::blob_edits::BlobFileInfo;

#[derive(Debug)]
pub(crate) struct LiveFile {
    pub(crate) id: BlobFileId,
    origin: BlobFileId,
    pub(crate) salt: u64,
    pub(crate) single: bool,
    /// The open file, or the reason why it cannot be read. In that case its values are lost, but no others.
    file: RwLock<std::result::Result<Arc<BlobFile>, Error>>,
    /// The handle of `file`, if it may be closed.
    lazy: Mutex<Option<Arc<LazyFile>>>,
    pub(crate) values: Mutex<Values>,
    /// The file to sync, if it was written or may not be synced yet.
    pub(super) written: Mutex<Option<Arc<dyn RandomFile>>>,
    /// Whether it holds unsynced bytes that a log record may point to.
    pub(super) dirty: AtomicBool,
    /// Whether a successful sync is still needed. Cleared only under the set's sync lock.
    pub(super) unsynced: AtomicBool,
}

impl LiveFile {
    pub(crate) fn name(&self) -> BlobName {
        BlobName { file: self.id, origin: self.origin }
    }

    /// Keeps the file open for its readers, because another file is about to get its name.
    pub(super) fn keep_open(&self) -> Result<()> {
        self.lazy.lock().as_ref().map_or(Ok(()), |lazy| lazy.keep())
    }

    /// Whether it can be rewritten: a shared file, synced, that has no writer, even if a crash left it unsealed.
    pub(super) fn is_rewritable(&self) -> bool {
        !self.single && !self.is_open() && self.lazy.lock().is_some() && self.written.lock().is_none()
    }

    /// About how many bytes the file would have without unneeded values, and how many of these it has.
    pub(super) fn needed_bytes(&self) -> Result<(u64, usize)> {
        let file = self.readable()?;
        let (needed, gone) = file.needed(self.values.lock().unneeded());
        Ok((PAGE + needed, gone))
    }

    /// Closes the descriptor for syncing a file that was found unsealed at opening and never written to: it
    /// is synced only once.
    pub(super) fn close_writer_if_found(&self) {
        if self.lazy.lock().is_some() {
            self.written.lock().take();
        }
    }

    /// Whether it is sealed, synced and still open for writing.
    pub(super) fn needs_no_writer(&self) -> bool {
        self.values.lock().is_sealed()
            && !self.unsynced.load(Ordering::Acquire)
            && self.written.lock().is_some()
    }

    /// Directs reads to `file`, another handle of the same file, and closes the descriptor for writing.
    pub(super) fn read_from(&self, file: BlobFile, lazy: Arc<LazyFile>) {
        *self.lazy.lock() = Some(lazy);
        *self.file.write() = Ok(Arc::new(file));
        self.written.lock().take();
    }

    /// Closes its descriptors. From now on reads fail with `error`.
    pub(super) fn close(&self, error: Error) {
        *self.file.write() = Err(error);
        self.lazy.lock().take();
        self.written.lock().take();
    }

    pub(crate) fn is_open(&self) -> bool {
        self.values.lock().is_open()
    }

    /// The manifest's data about the file, if the log is on the disk up to position `synced`.
    pub(crate) fn info(&self, synced: u64) -> BlobFileInfo {
        let values = self.values.lock();
        BlobFileInfo {
            file: self.id,
            origin: self.origin,
            salt: self.salt,
            single: self.single,
            sealed: values.is_sealed() && !self.unsynced.load(Ordering::Acquire),
            entries: values.entries(),
            pending: values.pending_at(synced),
        }
    }

    /// A file that was found when the store was opened. `written`: it may not be synced.
    pub(crate) fn found(
        name: BlobName,
        salt: u64,
        single: bool,
        file: std::result::Result<Arc<BlobFile>, Error>,
        values: Values,
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
            values: Mutex::new(values),
            written: Mutex::new(written),
            dirty,
            unsynced,
        })
    }

    /// A new file.
    pub(super) fn begun(file: &Arc<BlobFile>, written: &Arc<dyn RandomFile>) -> Arc<LiveFile> {
        let (number, salt, single) = (file.header().number, file.header().salt, file.is_single());
        let (file, written) = (Ok(Arc::clone(file)), Some(Arc::clone(written)));
        LiveFile::found(number.into(), salt, single, file, Values::begun(), written, None)
    }

    /// The open file, if it can be read.
    pub(crate) fn readable(&self) -> Result<Arc<BlobFile>> {
        self.file.read().as_ref().map(Arc::clone).map_err(Error::duplicate)
    }
}
