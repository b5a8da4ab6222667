//! Table files as shared handles.
//!
//! A [`TableFile`] is opened at its first read. It is closed when more files are open than the limit allows, or when
//! filters and indexes take more than their share of memory ([`super::filter_room`]). A reader at work keeps its file
//! open. When the last handle of an obsolete file is dropped, the file is queued for removal. Therefore a removed file
//! has no readers.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

use parking_lot::Mutex;

use super::edit::FileId;
use super::filter_room::FilterRoom;
use crate::cache::BufferPool;
use crate::codec::file_number;
use crate::env::Clock;
use crate::error::{Error, ErrorKind, Result};
use crate::fs::no_wait;
use crate::fs::open_files::{OpenFiles, Reopenable, Slot};
use crate::fs::{FileSystem, ReadFile, descriptors, gone};
use crate::options::Options;
use crate::table::TableReader;
use crate::trace::{Cause, Step, perf_context};

pub(crate) fn table_number(name: &str) -> Option<FileId> {
    file_number(name.strip_suffix(".table")?)
}

pub(crate) fn table_path(dir: &Path, id: FileId) -> PathBuf {
    dir.join(format!("{id:06}.table"))
}

#[derive(Debug)]
pub(crate) struct TableFile {
    id: FileId,
    /// The salt that the footer must hold, from the manifest.
    salt: u64,
    registry: Arc<TableRegistry>,
    reader: Slot<TableReader>,
    /// The binary logarithm of the size of the run that the table was last part of. Gets query each table of a small
    /// run more often.
    rank: AtomicU8,
    /// No longer part of the store. The file is removed with the last handle.
    obsolete: AtomicBool,
}

#[derive(Debug)]
pub(crate) struct TableRegistry {
    fs: Arc<dyn FileSystem>,
    direct: bool,
    clock: Arc<dyn Clock>,
    dir: PathBuf,
    pool: Arc<BufferPool>,
    open: Arc<OpenFiles<TableFile>>,
    filter_room: FilterRoom,
    obsolete: Mutex<Vec<FileId>>,
}

impl TableRegistry {
    pub(crate) fn new(
        options: &Options,
        dir: &Path,
        pool: Arc<BufferPool>,
        memory_max: usize,
    ) -> Arc<TableRegistry> {
        let open = OpenFiles::new(&*options.env.fs, options.open_tables_max, 1, memory_max);
        Arc::new(TableRegistry {
            fs: Arc::clone(&options.env.fs),
            direct: options.direct_io,
            clock: Arc::clone(&options.env.clock),
            dir: dir.to_path_buf(),
            pool,
            filter_room: FilterRoom::new(&open, memory_max),
            open,
            obsolete: Mutex::new(Vec::new()),
        })
    }

    /// The handle of table `id`, whose footer holds `salt`. All readers share it.
    pub(crate) fn file(self: &Arc<Self>, id: FileId, salt: u64) -> Arc<TableFile> {
        Arc::new(TableFile {
            id,
            salt,
            registry: Arc::clone(self),
            reader: Slot::new(),
            rank: AtomicU8::new(0),
            obsolete: AtomicBool::new(false),
        })
    }

    /// Bytes of filters and indexes in memory.
    pub(crate) fn memory(&self) -> usize {
        self.open.memory()
    }

    /// Closes all tables, because the store is closed. Readers at work keep theirs; no table is opened from now on.
    pub(crate) fn close(&self) {
        self.open.shut();
    }

    pub(crate) fn open_count(&self) -> usize {
        self.open.count()
    }

    /// Uses memory that has become free for filters that were left out.
    pub(crate) fn use_free_room(&self) {
        self.filter_room.use_free(self.clock.monotonic_us());
    }

    /// Removes unused files. A file that cannot be removed now is left to the next call.
    pub(crate) fn remove_obsolete(&self) -> Result<()> {
        let mut obsolete = std::mem::take(&mut *self.obsolete.lock());
        let remove = |&file: &FileId| self.fs.remove_file(&table_path(&self.dir, file));
        let removed = gone::remove_each(&mut obsolete, remove);
        self.obsolete.lock().append(&mut obsolete);
        removed
    }

    pub(crate) fn has_obsolete(&self) -> bool {
        !self.obsolete.lock().is_empty()
    }

    /// Opens the file of table `id` in this store's way of reading tables.
    pub(crate) fn open_file(&self, id: FileId) -> Result<Arc<dyn ReadFile>> {
        if self.open.is_shut() {
            return Err(Error::new(ErrorKind::Closed, "the store is closed").at(&self.dir));
        }
        let path = table_path(&self.dir, id);
        descriptors::opened(&*self.fs, || {
            if self.direct { self.fs.open_direct(&path) } else { self.fs.open_read(&path) }
        })
    }

    fn open(&self, file: &TableFile) -> Result<TableReader> {
        no_wait::check()?;
        perf_context::expect(&*self.clock);
        let source = self.open_file(file.id)?;
        let now_us = self.clock.monotonic_us();
        let room = |filter, index| self.filter_room.make(filter, index, file.rank(), now_us);
        let reader = TableReader::open_with(source, file.id, Arc::clone(&self.pool), room)?;
        let reader = reader.noted_by(&self.clock);
        let bytes = reader.size() - reader.data_bytes() - reader.filter_left_out();
        perf_context::note(Cause::Tables, 0, bytes);
        perf_context::step(|| Step::OpenTable { table: file.id, bytes });
        if reader.salt() != file.salt {
            let message = "this is not the table that the manifest names";
            return Err(Error::corruption(&table_path(&self.dir, file.id), 0, message));
        }
        Ok(reader)
    }
}

impl Reopenable for TableFile {
    type Open = TableReader;

    fn slot(&self) -> &Slot<TableReader> {
        &self.reader
    }

    fn memory(open: &TableReader) -> usize {
        open.memory()
    }
}

impl TableFile {
    #[inline(always)]
    pub(crate) fn with_reader<T>(
        self: &Arc<Self>,
        read: impl FnOnce(&Arc<TableReader>) -> Result<T>,
    ) -> Result<T> {
        match &*self.reader.load() {
            Some(reader) => read(reader),
            None => read(&self.registry.open.open(self, || self.registry.open(self))?),
        }
    }

    pub(crate) fn reader(self: &Arc<Self>) -> Result<Arc<TableReader>> {
        self.with_reader(|reader| Ok(Arc::clone(reader)))
    }

    /// The manifest no longer names this file. It is removed with the last handle.
    pub(crate) fn mark_obsolete(&self) {
        self.obsolete.store(true, Ordering::Release);
    }

    pub(super) fn rank(&self) -> u8 {
        self.rank.load(Ordering::Relaxed)
    }

    pub(super) fn set_rank(&self, rank: u8) {
        self.rank.store(rank, Ordering::Relaxed);
    }
}

impl Drop for TableFile {
    fn drop(&mut self) {
        self.registry.open.release(self);
        if self.obsolete.load(Ordering::Acquire) {
            self.registry.pool.remove_table(self.id);
            self.registry.obsolete.lock().push(self.id);
        }
    }
}
