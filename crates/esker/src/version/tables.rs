//! Table files as shared handles.
//!
//! A [`TableFile`] is opened when it is first read and closed again when more files are open than the
//! limit allows or their filters and indexes take more than their share of memory (a clock over the open
//! ones); readers that are at work keep theirs. When the last handle of a file that is no longer part of
//! the store goes, the file is queued for removal: nobody reads a removed file.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

use arc_swap::ArcSwapOption;
use parking_lot::Mutex;

use super::edit::FileId;
use crate::cache::BufferPool;
use crate::codec::file_number;
use crate::env::{Clock, Env};
use crate::error::{Error, Result};
use crate::fs::FileSystem;
use crate::table::TableReader;
use crate::trace::{Cause, Step, notes};

/// The number in a table's file name.
pub(crate) fn table_number(name: &str) -> Option<FileId> {
    file_number(name.strip_suffix(".table")?)
}

/// The path of table `id` in `dir`.
pub(crate) fn table_path(dir: &Path, id: FileId) -> PathBuf {
    dir.join(format!("{id:06}.table"))
}

/// One table file of the store.
#[derive(Debug)]
pub(crate) struct TableFile {
    id: FileId,
    /// What the footer must say, going by the manifest.
    salt: u64,
    registry: Arc<TableRegistry>,
    reader: ArcSwapOption<TableReader>,
    /// Read since the clock last came by.
    used: AtomicBool,
    /// No longer part of the store: removed with the last handle.
    obsolete: AtomicBool,
}

/// All table files that are in use.
#[derive(Debug)]
pub(crate) struct TableRegistry {
    fs: Arc<dyn FileSystem>,
    clock: Arc<dyn Clock>,
    dir: PathBuf,
    pool: Arc<BufferPool>,
    open_max: usize,
    /// Bytes that filters and indexes of open tables may take.
    memory_max: usize,
    memory: AtomicUsize,
    open: Mutex<VecDeque<Weak<TableFile>>>,
    obsolete: Mutex<Vec<FileId>>,
}

impl TableRegistry {
    pub(crate) fn new(
        env: &Env,
        dir: &Path,
        pool: Arc<BufferPool>,
        open_max: usize,
        memory_max: usize,
    ) -> Arc<TableRegistry> {
        Arc::new(TableRegistry {
            fs: Arc::clone(&env.fs),
            clock: Arc::clone(&env.clock),
            dir: dir.to_path_buf(),
            pool,
            open_max: open_max.max(1),
            memory_max,
            memory: AtomicUsize::new(0),
            open: Mutex::new(VecDeque::new()),
            obsolete: Mutex::new(Vec::new()),
        })
    }

    /// The handle of table `id`, whose footer holds `salt`, to be shared by everyone who reads it.
    pub(crate) fn file(self: &Arc<Self>, id: FileId, salt: u64) -> Arc<TableFile> {
        Arc::new(TableFile {
            id,
            salt,
            registry: Arc::clone(self),
            reader: ArcSwapOption::empty(),
            used: AtomicBool::new(false),
            obsolete: AtomicBool::new(false),
        })
    }

    /// Bytes of filters and indexes in memory.
    pub(crate) fn memory(&self) -> usize {
        self.memory.load(Ordering::Relaxed)
    }

    /// How many tables are open.
    pub(crate) fn open_count(&self) -> usize {
        self.open.lock().len()
    }

    /// Files that nobody uses any more, for removal.
    pub(crate) fn take_obsolete(&self) -> Vec<FileId> {
        std::mem::take(&mut *self.obsolete.lock())
    }

    /// Whether there is a file to remove.
    pub(crate) fn has_obsolete(&self) -> bool {
        !self.obsolete.lock().is_empty()
    }

    fn open(&self, file: &Arc<TableFile>) -> Result<Arc<TableReader>> {
        notes::expect(&*self.clock);
        let source = self.fs.open_read(&table_path(&self.dir, file.id))?;
        let reader = TableReader::open(source, file.id, Arc::clone(&self.pool))?.noted_by(&self.clock);
        let bytes = reader.size() - reader.data_bytes();
        notes::note(Cause::Tables, 0, bytes);
        notes::step(|| Step::OpenTable { table: file.id, bytes });
        let reader = Arc::new(reader);
        if reader.salt() != file.salt {
            let message = "this is another table than the one that the manifest names";
            return Err(Error::corruption(&table_path(&self.dir, file.id), 0, message));
        }
        let mut open = self.open.lock();
        if let Some(other) = file.reader.load_full() {
            return Ok(other);
        }
        self.memory.fetch_add(reader.memory(), Ordering::Relaxed);
        file.reader.store(Some(Arc::clone(&reader)));
        open.push_back(Arc::downgrade(file));
        self.close_some(&mut open);
        Ok(reader)
    }

    /// Closes tables that were not read lately until the limits hold; the newest is never closed.
    fn close_some(&self, open: &mut VecDeque<Weak<TableFile>>) {
        let mut passes = open.len() * 2;
        while passes > 0
            && open.len() > 1
            && (open.len() > self.open_max || self.memory.load(Ordering::Relaxed) > self.memory_max)
        {
            passes -= 1;
            let Some(candidate) = open.pop_front() else { break };
            let Some(file) = candidate.upgrade() else { continue };
            if file.used.swap(false, Ordering::Relaxed) {
                open.push_back(candidate);
            } else {
                file.close();
            }
        }
    }
}

impl TableFile {
    /// Runs `read` on the open table.
    #[inline]
    pub(crate) fn with_reader<T>(
        self: &Arc<Self>,
        read: impl FnOnce(&Arc<TableReader>) -> Result<T>,
    ) -> Result<T> {
        let guard = self.reader.load();
        if !self.used.load(Ordering::Relaxed) {
            self.used.store(true, Ordering::Relaxed);
        }
        match &*guard {
            Some(reader) => read(reader),
            None => read(&self.registry.open(self)?),
        }
    }

    /// The open table.
    pub(crate) fn reader(self: &Arc<Self>) -> Result<Arc<TableReader>> {
        self.with_reader(|reader| Ok(Arc::clone(reader)))
    }

    /// The manifest no longer names this file: it goes with the last handle.
    pub(crate) fn mark_obsolete(&self) {
        self.obsolete.store(true, Ordering::Release);
    }

    fn close(&self) {
        if let Some(reader) = self.reader.swap(None) {
            self.registry.memory.fetch_sub(reader.memory(), Ordering::Relaxed);
        }
    }
}

impl Drop for TableFile {
    fn drop(&mut self) {
        self.close();
        if self.obsolete.load(Ordering::Acquire) {
            self.registry.pool.remove_table(self.id);
            self.registry.obsolete.lock().push(self.id);
        }
    }
}
