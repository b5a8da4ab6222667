//! A file system that reads around places which the device cannot read.
//!
//! ```text
//! read of 64 KiB fails     again, block by block: 15 blocks as they are, one filled with 0xb5 and noted
//! ```
//! A disk reports a sector that it can no longer read as an error of the call, and the call returns nothing. For a
//! check and a repair such a sector is damage like any other: the checksums of its content do not match the filling.
//! The filling has no zeros that could be taken for an end marker. The notes name the device as the cause.
//!
//! A device that is gone refuses all reads, and that shows nothing about its sectors. Therefore, after a refused read,
//! a few places that could be read before are read again, past the page cache, which would answer for the device. If
//! all of them fail, the error is passed on. One place is not enough: its sector may have failed since the cache has
//! it. Where the system cannot read past its cache, it is requested to drop the page first.
//!
//! A device may also be gone for a moment. Therefore, before a caller replaces noted blocks, they are read once more
//! ([`Unreadable::confirm`]).

use std::collections::BTreeMap;
use std::error::Error as _;
use std::mem::MaybeUninit;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;

use super::{
    BLOCK, DirLock, Directory, Entry, FileMark, FileSystem, LockMode, MappedFile, Mapping, RandomFile,
    ReadFile, UserFile, WriteFile,
};
use crate::error::{Error, ErrorKind, Result};

/// The filling of a block that cannot be read.
const FILLING: u8 = 0xb5;

/// How many places that could be read are kept, each in another file.
const PLACES_MAX: usize = 8;

/// The blocks that reads have gone around.
#[derive(Debug, Default)]
pub(crate) struct Unreadable {
    found: Mutex<BTreeMap<PathBuf, Blocks>>,
    /// Where reads have succeeded, the latest last.
    readable: Mutex<Vec<Place>>,
    /// Whether the device was gone at some time since the notes were cleared.
    was_gone: AtomicBool,
}

/// A file's unreadable blocks, and the system's error for one of them.
#[derive(Debug)]
struct Blocks {
    fs: Arc<dyn FileSystem>,
    /// By offset: whether a second read, later on, has failed as well.
    confirmed: BTreeMap<u64, bool>,
    reason: String,
}

/// A byte of a file that could be read.
#[derive(Debug, Clone)]
struct Place {
    fs: Arc<dyn FileSystem>,
    file: Arc<dyn ReadFile>,
    offset: u64,
}

/// Fills `buf` from `offset` of `file` on, from the device and not from the page cache.
fn read_past_cache(fs: &dyn FileSystem, file: &Arc<dyn ReadFile>, buf: &mut [u8], offset: u64) -> Result<()> {
    match fs.open_direct(file.path()).and_then(|direct| direct.read_exact_at(buf, offset)) {
        Err(error) if matches!(error.kind(), ErrorKind::Unsupported | ErrorKind::InvalidInput) => {
            file.evict(offset, buf.len() as u64);
            file.read_exact_at(buf, offset)
        }
        read => read,
    }
}

impl Unreadable {
    fn note(&self, fs: &Arc<dyn FileSystem>, path: &Path, offset: u64, error: &Error) {
        let mut found = self.found.lock();
        let none = || Blocks { fs: Arc::clone(fs), confirmed: BTreeMap::new(), reason: String::new() };
        let blocks = found.entry(path.to_path_buf()).or_insert_with(none);
        blocks.confirmed.entry(offset).or_insert(false);
        blocks.reason = error.source().map_or_else(|| error.message().to_owned(), ToString::to_string);
    }

    /// Notes a place that could be read.
    fn note_readable(&self, place: Place) {
        // The system reads a hole without the device. A short file too, if the file system keeps its bytes in the inode.
        let is_short = |place: &Place| place.file.len() < BLOCK;
        if place.file.next_data(place.offset) != place.offset {
            return;
        }
        let mut places = self.readable.lock();
        if is_short(&place) && places.iter().any(|known| !is_short(known)) {
            return;
        }
        places.retain(|known| known.file.path() != place.file.path() && is_short(known) == is_short(&place));
        if places.len() == PLACES_MAX {
            places.remove(0);
        }
        places.push(place);
    }

    /// Whether the device refuses all places that it could read before.
    fn is_device_gone(&self) -> bool {
        let places = self.readable.lock().clone();
        let mut is_refused = false;
        for Place { fs, file, offset } in places.iter().rev() {
            match read_past_cache(&**fs, file, &mut [0], *offset) {
                Ok(()) => return false,
                Err(error) => is_refused |= error.is_of_device() || error.is_of_lost_device(),
            }
        }
        self.was_gone.fetch_or(is_refused, Ordering::Relaxed);
        is_refused
    }

    /// Call this before anything is replaced because of the notes. Reads the noted blocks of `path`, or of all files,
    /// once more, past the page cache. Fails if the device is or was gone, or if it can read one of the blocks now.
    pub(crate) fn confirm(&self, dir: &Path, path: Option<&Path>) -> Result<()> {
        let mut found = self.found.lock();
        let refused = |message: &str| Err(Error::new(ErrorKind::Io, message).at(dir));
        if !found.is_empty() && self.readable.lock().is_empty() {
            return refused("the device can read nothing of the store: it may be gone, or not ready");
        }
        for (path, blocks) in found.iter_mut().filter(|(of, _)| path.is_none_or(|path| path == *of)) {
            for (&block, is_confirmed) in blocks.confirmed.iter_mut().filter(|(_, confirmed)| !**confirmed) {
                let again = blocks.fs.open_read(path).and_then(|file| {
                    let len = file.len().saturating_sub(block).min(BLOCK);
                    read_past_cache(&*blocks.fs, &file, &mut vec![0; len as usize], block)
                });
                match again {
                    Err(error) if error.is_of_device() || error.is_of_lost_device() => *is_confirmed = true,
                    again => {
                        again?;
                        let message = "the device could not read this before and can now: it may have been gone for a moment; \
                                       run the repair again once it works steadily";
                        return Err(Error::new(ErrorKind::Io, message).at(path).at_offset(block));
                    }
                }
            }
        }
        if self.was_gone.load(Ordering::Relaxed) || (!found.is_empty() && self.is_device_gone()) {
            return refused(
                "the device does not read what it could read before: it may be gone, or not ready; \
                 run the repair again once it works steadily",
            );
        }
        Ok(())
    }

    /// Whether a block of this file was noted.
    pub(crate) fn is_in(&self, path: &Path) -> bool {
        self.found.lock().contains_key(path)
    }

    /// The unreadable places: an error for each run of blocks.
    pub(crate) fn places(&self) -> Vec<Error> {
        let mut places = Vec::new();
        for (path, Blocks { confirmed, reason, .. }) in &*self.found.lock() {
            let offsets: Vec<u64> = confirmed.keys().copied().collect();
            for run in offsets.chunk_by(|a, b| a + BLOCK == *b) {
                let (first, len) = (run.first().copied().unwrap_or_default(), run.len() as u64 * BLOCK);
                let message = format!("the device cannot read {len} bytes from here on ({reason})");
                places.push(Error::corruption(path, first, message));
            }
        }
        places
    }

    /// Forgets all notes.
    pub(crate) fn clear(&self) {
        self.found.lock().clear();
        self.was_gone.store(false, Ordering::Relaxed);
    }
}

/// `inner`, whose unreadable places are noted and read as [`FILLING`].
#[derive(Debug)]
pub(crate) struct AroundUnreadable {
    inner: Arc<dyn FileSystem>,
    unreadable: Arc<Unreadable>,
}

impl AroundUnreadable {
    pub(crate) fn wrap(inner: Arc<dyn FileSystem>, unreadable: Arc<Unreadable>) -> Arc<dyn FileSystem> {
        Arc::new(AroundUnreadable { inner, unreadable })
    }

    /// The file that `open` opens. A file that the device cannot open, even at the second attempt, is damaged as a whole.
    fn reading(
        &self,
        path: &Path,
        open: impl Fn() -> Result<Arc<dyn ReadFile>>,
    ) -> Result<Arc<dyn ReadFile>> {
        let opened = open().or_else(|error| if error.is_of_device() { open() } else { Err(error) });
        match opened {
            Ok(inner) => {
                let (fs, unreadable) = (Arc::clone(&self.inner), Arc::clone(&self.unreadable));
                Ok(Arc::new(ReadAround { inner, fs, unreadable }))
            }
            Err(error) if error.is_of_device() && !self.unreadable.is_device_gone() => {
                self.unreadable.note(&self.inner, path, 0, &error);
                Err(Error::corruption(path, 0, "the device cannot open the file"))
            }
            Err(error) => Err(error),
        }
    }
}

/// Methods that pass the call on.
macro_rules! pass {
    ($(fn $name:ident($($argument:ident: $of:ty),*) -> $result:ty;)*) => {
        $(fn $name(&self $(, $argument: $of)*) -> $result {
            self.inner.$name($($argument),*)
        })*
    };
}

impl FileSystem for AroundUnreadable {
    fn within(&self, dir: &Path) -> Result<Arc<dyn FileSystem>> {
        Ok(AroundUnreadable::wrap(self.inner.within(dir)?, Arc::clone(&self.unreadable)))
    }

    fn outside(&self) -> Arc<dyn FileSystem> {
        AroundUnreadable::wrap(self.inner.outside(), Arc::clone(&self.unreadable))
    }

    fn directory(&self) -> Option<&Directory> {
        self.inner.directory()
    }

    fn open_read(&self, path: &Path) -> Result<Arc<dyn ReadFile>> {
        self.reading(path, || self.inner.open_read(path))
    }

    fn open_direct(&self, path: &Path) -> Result<Arc<dyn ReadFile>> {
        self.reading(path, || self.inner.open_direct(path))
    }

    pass! {
        fn holds(dir: &Path, path: &Path) -> Result<bool>;
        fn descriptors() -> usize;
        fn boot_id() -> [u8; 16];
        fn mount_id(dir: &Path) -> u64;
        fn create(path: &Path) -> Result<Box<dyn WriteFile>>;
        fn create_direct(path: &Path) -> Result<Box<dyn WriteFile>>;
        fn create_mapped(path: &Path, len: u64) -> Result<Arc<dyn MappedFile>>;
        fn open_mapped(path: &Path) -> Result<Arc<dyn MappedFile>>;
        fn create_random(path: &Path) -> Result<Arc<dyn RandomFile>>;
        fn open_random(path: &Path) -> Result<Arc<dyn RandomFile>>;
        fn punch_hole(path: &Path, offset: u64, len: u64) -> Result<()>;
        fn punch_holes(path: &Path, holes: &[(u64, u64)]) -> Result<()>;
        fn link_count(path: &Path) -> Result<u64>;
        fn allocated_bytes(path: &Path) -> Result<u64>;
        fn create_bulk(path: &Path, len: u64) -> Result<Arc<dyn MappedFile>>;
        fn open_bulk(path: &Path) -> Result<Arc<dyn MappedFile>>;
        fn set_allocated(path: &Path, len: u64) -> Result<()>;
        fn entries(dir: &Path) -> Result<Vec<Entry>>;
        fn list(dir: &Path) -> Result<Vec<String>>;
        fn exists(path: &Path) -> Result<bool>;
        fn file_len(path: &Path) -> Result<u64>;
        fn file_mark(path: &Path) -> Result<FileMark>;
        fn create_dir_all(dir: &Path) -> Result<()>;
        fn create_dir(dir: &Path) -> Result<()>;
        fn is_regular(path: &Path) -> Result<bool>;
        fn remove_file(path: &Path) -> Result<()>;
        fn remove_dir(dir: &Path) -> Result<()>;
        fn rename(from: &Path, to: &Path) -> Result<()>;
        fn hard_link(from: &Path, to: &Path) -> Result<()>;
        fn hard_link_to(from: &Path, target: &dyn FileSystem, to: &Path) -> Result<()>;
        fn sync_dir(dir: &Path) -> Result<()>;
        fn lock(path: &Path, mode: LockMode) -> Result<Box<dyn DirLock>>;
        fn free_space(dir: &Path) -> Result<u64>;
    }
}

/// A file whose unreadable blocks are noted and read as [`FILLING`].
#[derive(Debug)]
struct ReadAround {
    inner: Arc<dyn ReadFile>,
    /// The file system of `inner`.
    fs: Arc<dyn FileSystem>,
    unreadable: Arc<Unreadable>,
}

impl ReadAround {
    /// Fills `buf` from `offset` on, where a read of all of it has failed.
    fn read_blocks(&self, mut buf: &mut [u8], mut offset: u64) -> Result<()> {
        while !buf.is_empty() {
            let block = offset / BLOCK * BLOCK;
            let len = buf.len().min((block + BLOCK - offset) as usize);
            let (part, rest) = std::mem::take(&mut buf).split_at_mut(len);
            match self.inner.read_exact_at(part, offset) {
                Err(error) if error.is_of_device() && !self.unreadable.is_device_gone() => {
                    part.fill(FILLING);
                    self.unreadable.note(&self.fs, self.path(), block, &error);
                }
                read => read?,
            }
            (buf, offset) = (rest, offset + len as u64);
        }
        Ok(())
    }
}

impl ReadFile for ReadAround {
    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> Result<()> {
        match self.inner.read_exact_at(buf, offset) {
            Err(error) if error.is_of_device() => self.read_blocks(buf, offset),
            Ok(()) if !buf.is_empty() => {
                let (fs, file) = (Arc::clone(&self.fs), Arc::clone(&self.inner));
                self.unreadable.note_readable(Place { fs, file, offset });
                Ok(())
            }
            read => read,
        }
    }

    fn copy_resident<'a>(&self, buf: &'a mut [MaybeUninit<u8>], offset: u64) -> Option<&'a mut [u8]> {
        self.inner.copy_resident(buf, offset)
    }

    fn path(&self) -> &Path {
        self.inner.path()
    }

    fn map(&self, offset: u64, len: u64) -> Result<Mapping> {
        self.inner.map(offset, len)
    }

    pass! {
        fn len() -> u64;
        fn prefetch(offset: u64, len: u64) -> ();
        fn evict(offset: u64, len: u64) -> ();
        fn is_cached(offset: u64) -> bool;
        fn read_resident_at(buf: &mut [u8], offset: u64) -> bool;
        fn next_data(offset: u64) -> u64;
        fn copy_to(offset: u64, len: u64, target: &UserFile) -> u64;
    }
}
