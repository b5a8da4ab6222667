//! The file system as a trait: the only door to the disk.
//!
//! Nothing outside this room touches `std::fs` (a lint forbids it). Therefore every test can run on `SimFs`, which
//! distinguishes synced from unsynced data and can "crash". Every error names the file and the operation.
//!
//! Durability contract, the same for the real and the simulated file system (in memory nothing is durable):
//! - bytes and length of a file are durable after *that file's* `sync`;
//! - a created, renamed, linked or removed name is durable after `sync_dir` of its directory;
//! - a rename is atomic: after a crash the target is the old or the new file, whole as far as it was synced;
//! - a crash may bring back an old name of a file that has no name and is not open; by then the file may hold another
//!   file's bytes (see `gone.rs`);
//! - a failed `sync` is never retried: the kernel may have dropped the pages (callers poison).

use std::fmt::Debug;
use std::io::IoSlice;
use std::mem::MaybeUninit;
use std::path::{Component, Path, PathBuf};
use std::ptr;
use std::sync::Arc;

use crate::error::{Error, ErrorKind, Result};

pub(crate) mod descriptors;
pub(crate) mod gone;
mod mapping;
mod memory;
pub(crate) mod no_wait;
pub(crate) mod open_files;
mod real;
#[cfg(any(test, fuzzing, feature = "testing"))]
pub mod sim;
#[cfg(test)]
mod tests;
mod unreadable;
mod until;
mod user_file;

pub use mapping::Mapping;
pub(crate) use memory::MemoryFs;
pub(crate) use real::RealFs;
pub(crate) use real::os::{expect_use, running_threads};
pub use real::{Directory, give_back_free_memory};
pub(crate) use unreadable::{AroundUnreadable, Unreadable};
pub(crate) use until::{Cancel, UntilCancelled};
pub(crate) use user_file::OpenFile;
pub use user_file::UserFile;

/// The memory that this process may have, in bytes, if the operating system reports it: the machine's, or less if a
/// control group limits it.
pub(crate) fn available_memory() -> Option<u64> {
    let limits = [real::os::physical_memory(), real::os::memory_limit()];
    limits.into_iter().flatten().min()
}

/// The unit of punched holes and of shared blocks, in bytes.
pub(crate) const BLOCK: u64 = 4096;

/// The free space assumed for a file system that does not report it, in bytes. A write then finds that space has run
/// out.
pub(crate) const PLENTY: u64 = 1 << 50;

/// How a directory lock is shared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LockMode {
    /// One holder, and no shared holder at the same time: a writer.
    Exclusive,
    /// Any number of holders: read-only openers.
    Shared,
}

/// Held until dropped.
pub trait DirLock: Send + Sync + Debug {
    /// Call this before the holder removes the lock file. Where the system has a call for it (on Windows), the lock
    /// file and its directory cannot be removed, renamed or replaced while the lock is held, not even by the holder.
    /// After this call they can. The lock stays.
    fn release_name(&mut self) {}
}

/// The kind of file that a name in a directory refers to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NameKind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link.
    Link,
    /// A FIFO, a socket or a device.
    Other,
}

impl NameKind {
    fn described(self) -> &'static str {
        match self {
            NameKind::File => "a file",
            NameKind::Directory => "a directory",
            NameKind::Link => "a symbolic link",
            NameKind::Other => "a FIFO, a socket or a device",
        }
    }
}

/// Distinguishes a file from another that has its name later.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileMark {
    /// The file system and the file's number there; zeros if that is unknown.
    pub identity: (u64, u64),
    /// The length in bytes.
    pub len: u64,
}

/// A name in a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The name. Bytes that are not UTF-8 are replaced; the store never writes a name with such bytes.
    pub name: String,
    /// The kind of the file. A link is not followed.
    pub kind: NameKind,
}

/// The bytes of a buffer of which every byte was written.
///
/// # Safety
///
/// Every byte of `buf` was written.
pub(crate) unsafe fn filled(buf: &mut [MaybeUninit<u8>]) -> &mut [u8] {
    // SAFETY: `MaybeUninit<u8>` has the layout of `u8`, every byte was written (the caller's duty), and the borrow is
    // exclusive for as long as the result lives.
    unsafe { &mut *(ptr::from_mut(buf) as *mut [u8]) }
}

/// The temporary name of a file until it is whole: its own with `.tmp` added.
pub(crate) fn temporary_of(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".tmp");
    name.into()
}

/// A file that many threads read at offsets.
pub trait ReadFile: Send + Sync + Debug {
    /// Fills `buf` from `offset` on. If the file ends before, that is an error of kind `Corruption` (the file was cut
    /// short), never a short read.
    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> Result<()>;

    /// Like [`read_exact_at`](Self::read_exact_at), but reads into uninitialised memory, and returns the filled buffer.
    fn read_uninit_at<'a>(&self, buf: &'a mut [MaybeUninit<u8>], offset: u64) -> Result<&'a mut [u8]> {
        buf.fill(MaybeUninit::new(0));
        // SAFETY: every byte was just written.
        let buf = unsafe { filled(buf) };
        self.read_exact_at(buf, offset).map(|()| buf)
    }

    /// Like [`read_uninit_at`](Self::read_uninit_at), if the bytes are in memory and copying them from there costs less
    /// than a read. Otherwise returns `None` and leaves `buf` undefined. The caller ensures that these bytes of the
    /// file are not changed or cut off meanwhile.
    fn copy_resident<'a>(&self, _buf: &'a mut [MaybeUninit<u8>], _offset: u64) -> Option<&'a mut [u8]> {
        None
    }

    /// The file's length in bytes when it was opened.
    fn len(&self) -> u64;

    /// Whether the file is empty.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Where the file is, for messages.
    fn path(&self) -> &Path;

    /// Informs the kernel that `len` bytes from `offset` will be read soon. A hint, which a wrapper passes on.
    fn prefetch(&self, _offset: u64, _len: u64) {}

    /// Requests the kernel to drop `len` bytes from `offset` from its cache. Then the next read of them reaches the
    /// device. A hint, which a wrapper passes on.
    fn evict(&self, _offset: u64, _len: u64) {}

    /// Whether the byte at `offset` can be read without waiting for a disk, as far as is known.
    fn is_cached(&self, _offset: u64) -> bool {
        true
    }

    /// Fills `buf` from `offset` on, if that needs no wait for a disk. Otherwise, or if this is unknown, returns
    /// `false` and leaves `buf` undefined; therefore a wrapper may leave it out.
    fn read_resident_at(&self, _buf: &mut [u8], _offset: u64) -> bool {
        false
    }

    /// The first place from `offset` on that may be outside a hole; the file's length if everything is in holes.
    fn next_data(&self, offset: u64) -> u64 {
        offset.min(self.len())
    }

    /// Copies `len` bytes from `offset` on to `target`, as far as that works without reading them; returns how many
    /// bytes it copied.
    fn copy_to(&self, _offset: u64, _len: u64, _target: &UserFile) -> u64 {
        0
    }

    /// Shows `len` bytes from `offset`, without copying them if the file system can. A range that ends after
    /// [`len`](Self::len) is an error of kind `Corruption`, as for a read. The view outlives the handle and the names
    /// of the file. While it lives, its owner ensures that the range is not written, punched or cut off. If the device
    /// fails to deliver a page, the kernel kills the process (SIGBUS), because a load from memory cannot return an
    /// error. A caller that cannot accept that must read instead.
    fn map(&self, offset: u64, len: u64) -> Result<Mapping> {
        Mapping::by_reading(self, offset, len)
    }
}

/// A file that is written from front to back by one owner.
pub trait WriteFile: Send + Debug {
    /// Appends all of `bytes`.
    fn append(&mut self, bytes: &[u8]) -> Result<()>;

    /// The bytes appended so far.
    fn len(&self) -> u64;

    /// Whether nothing was appended yet.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Makes all appended bytes, and the length, durable.
    fn sync(&mut self) -> Result<()>;

    /// Starts writing back the appended bytes, without waiting, to shorten a later `sync`. A hint, which a wrapper
    /// passes on.
    fn start_writeback(&mut self) {}

    /// Where the file is, for messages.
    fn path(&self) -> &Path;
}

/// A file that one owner writes at offsets while others read it. [`ReadFile::len`] is its current length, as far as
/// this handle changed it.
pub trait RandomFile: ReadFile {
    /// Writes all parts, one after the other, from `offset` on, or fails. After a failure the length is as before, and
    /// the range holds old or new bytes. A gap between the end of the file and `offset` reads as zeros and takes no
    /// space.
    fn write_at(&self, parts: &[IoSlice<'_>], offset: u64) -> Result<()>;

    /// Takes the first `len` bytes of `source` as this file's own from `offset` on, if the two can share blocks until
    /// one of them changes. Returns how many bytes were taken; the file may hold more after them. `len` and `offset`
    /// are multiples of 4096.
    fn share_from(&self, _source: &UserFile, _len: u64, _offset: u64) -> u64 {
        0
    }

    /// Makes all writes, holes and the length durable.
    fn sync(&self) -> Result<()>;

    /// Starts writing back `len` bytes from `offset`, without waiting, to shorten a later `sync`. A hint, which a
    /// wrapper passes on.
    fn start_writeback(&self, _offset: u64, _len: u64) {}

    /// Cuts the file, or extends it with zeros that take no space.
    fn set_len(&self, len: u64) -> Result<()>;

    /// The same file as a read-only handle.
    fn as_read(self: Arc<Self>) -> Arc<dyn ReadFile>;
}

/// A handle that syncs a [`MappedFile`] after its last store.
pub trait SyncFile: Send + Sync + Debug {
    /// Makes every store through the file's mapping durable.
    fn sync(&self) -> Result<()>;
}

/// A file of fixed length whose blocks are allocated and were written once: stores into it neither fail nor change
/// file-system metadata. On file systems that overwrite in place the real file is a shared memory mapping (durability
/// rule 7); elsewhere it is `pwrite`. It is never shown as a slice, so the simulated file sees every store (rule 24). A
/// file opened for bulk always uses `pwrite`.
pub trait MappedFile: Send + Sync + Debug {
    /// Copies `bytes` to `offset`. The caller owns that range: concurrent stores must not overlap. After it returns,
    /// the bytes survive the death of the process. It fails only if the file is not mapped (`pwrite`), and then poisons
    /// the store.
    fn store(&self, offset: u64, bytes: &[u8]) -> Result<()>;

    /// Stores one word (little-endian) at `offset`, a multiple of 8, atomically. Concurrent calls on one word are
    /// allowed: one of them wins.
    fn store_u64(&self, offset: u64, value: u64) -> Result<()>;

    /// Takes the page faults of `len` bytes from `offset` now (2.4 us a page), so that the first store into each page
    /// does not. The pages then count as dirty and the next `sync` writes them whole. Therefore use this for segments
    /// that are filled before they are synced. A hint, which a wrapper passes on; it changes no byte.
    fn warm(&self, _offset: u64, _len: u64) {}

    /// Makes every store that happened before the call durable.
    fn sync(&self) -> Result<()>;

    /// The same descriptor without the mapping, for syncing a file that takes no more stores. Its pages then need not
    /// be write-protected one by one, each time interrupting every core.
    fn sync_handle(&self) -> Arc<dyn SyncFile>;

    /// The fixed length in bytes.
    fn len(&self) -> u64;

    /// Whether the length is zero (it never is).
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Where the file is, for messages.
    fn path(&self) -> &Path;
}

/// All file operations that the store needs from an operating system. Paths are absolute or relative to the process, as
/// the caller gave them; or they lie below one directory that is held open: see [`within`](Self::within).
///
/// Only regular files are opened. Anything else is refused with `InvalidInput`, without waiting for it.
pub trait FileSystem: Send + Sync + Debug {
    /// The same file system for the directory `dir` and everything below it. `dir` is resolved here, once: later
    /// changes of the working directory, of links on the way to it or of its own name have no effect. Paths begin with
    /// `dir` as given here; others are refused. No symbolic link below it is followed. If this file system is already
    /// for a directory, `dir` must be below that directory.
    fn within(&self, dir: &Path) -> Result<Arc<dyn FileSystem>>;

    /// The same file system for paths as the process resolves them.
    fn outside(&self) -> Arc<dyn FileSystem>;

    /// Whether `path`, as the process resolves it, is `dir` or would lie in it. This file system is
    /// [`within`](Self::within) `dir`.
    fn holds(&self, dir: &Path, path: &Path) -> Result<bool> {
        // A file system without links: each `..` leads to the parent in the path.
        Ok(without_steps_up(path).starts_with(without_steps_up(dir)))
    }

    /// Identifies the owner of the descriptors that open files take: 0 for the process, else a number of the file
    /// system's own.
    fn descriptors(&self) -> usize {
        0
    }

    /// The directory that [`within`](Self::within) opened, if the file system keeps one open.
    fn directory(&self) -> Option<&Directory> {
        None
    }

    /// Opens an existing file for reading.
    fn open_read(&self, path: &Path) -> Result<Arc<dyn ReadFile>>;

    /// Reads a whole file. The caller knows that it is not too long.
    fn read(&self, path: &Path) -> Result<Vec<u8>> {
        let file = self.open_read(path)?;
        read_part(&*file, 0, file.len())
    }

    /// Creates a file for appending; fails with `AlreadyExists` if the name is taken.
    fn create(&self, path: &Path) -> Result<Box<dyn WriteFile>>;

    /// Like [`open_read`](Self::open_read), but bypasses the operating system's cache: every read comes from the disk
    /// and leaves no trace in memory. Use it for files that are complete. `Unsupported` if the file system cannot do
    /// it.
    fn open_direct(&self, path: &Path) -> Result<Arc<dyn ReadFile>> {
        Err(no_direct(path))
    }

    /// Like [`create`](Self::create), but bypasses the operating system's cache. Appended bytes can be read only after
    /// a `sync`. After an error the file takes nothing more. `Unsupported` if the file system cannot do it.
    fn create_direct(&self, path: &Path) -> Result<Box<dyn WriteFile>> {
        Err(no_direct(path))
    }

    /// Creates a file of `len` bytes (a multiple of 4096), allocates and zero-fills it (in 4 KiB
    /// writes, rule 7), and syncs it. The name is durable only after `sync_dir`.
    fn create_mapped(&self, path: &Path, len: u64) -> Result<Arc<dyn MappedFile>>;

    /// Opens a file that `create_mapped` made, to overwrite it (reuse of a segment).
    fn open_mapped(&self, path: &Path) -> Result<Arc<dyn MappedFile>>;

    /// Creates an empty file for writing at offsets; fails with `AlreadyExists` if the name is taken.
    fn create_random(&self, path: &Path) -> Result<Arc<dyn RandomFile>>;

    /// Opens an existing file for writing at offsets.
    fn open_random(&self, path: &Path) -> Result<Arc<dyn RandomFile>>;

    /// Frees the blocks of a range (`offset` and `len` are multiples of 4096). The range then reads as zeros, through
    /// every name and handle of the file, and the length stays. This is durable after a later `sync` of the file; a
    /// crash before that leaves old bytes or zeros. `Unsupported` if the file system cannot do it.
    fn punch_hole(&self, path: &Path, offset: u64, len: u64) -> Result<()>;

    /// [`punch_hole`](Self::punch_hole) for each offset and length, in order.
    fn punch_holes(&self, path: &Path, holes: &[(u64, u64)]) -> Result<()> {
        holes.iter().try_for_each(|&(offset, len)| self.punch_hole(path, offset, len))
    }

    /// How many names (hard links) the file has.
    fn link_count(&self, path: &Path) -> Result<u64>;

    /// How many bytes of the disk the file takes. Holes do not count, and partial blocks count whole. Anything but a
    /// regular file counts 0.
    fn allocated_bytes(&self, path: &Path) -> Result<u64>;

    /// Like `create_mapped`, but for stores of many pages each. These use `pwrite`, which then costs less than a
    /// mapping's page faults. Therefore only the blocks are prepared.
    fn create_bulk(&self, path: &Path, len: u64) -> Result<Arc<dyn MappedFile>> {
        self.create_mapped(path, len)
    }

    /// Opens a file that `create_mapped` or `create_bulk` made, to overwrite it by stores of many pages. Do not open it
    /// with `open_mapped` afterwards: small synced stores would be expensive.
    fn open_bulk(&self, path: &Path) -> Result<Arc<dyn MappedFile>> {
        self.open_mapped(path)
    }

    /// Makes `path` a file of `len` bytes with allocated disk space and any content: creates, extends or cuts it. If it
    /// fails, the length is unchanged. A created name is durable only after `sync_dir`.
    fn set_allocated(&self, path: &Path, len: u64) -> Result<()>;

    /// The entries of a directory, in no order.
    fn entries(&self, dir: &Path) -> Result<Vec<Entry>>;

    /// The names (not paths) in a directory, in no order.
    fn list(&self, dir: &Path) -> Result<Vec<String>> {
        Ok(self.entries(dir)?.into_iter().map(|entry| entry.name).collect())
    }

    /// Whether the name exists, for files of any kind. Below a directory that is held open, a link exists regardless of
    /// its target.
    fn exists(&self, path: &Path) -> Result<bool>;

    /// The length of a file in bytes.
    fn file_len(&self, path: &Path) -> Result<u64>;

    /// Which file has this name now.
    fn file_mark(&self, path: &Path) -> Result<FileMark> {
        self.file_len(path).map(|len| FileMark { identity: (0, 0), len })
    }

    /// Creates a directory and its missing parents, and makes the created ones durable (callers cannot know which were
    /// missing). It is not an error if the directory exists.
    fn create_dir_all(&self, dir: &Path) -> Result<()>;

    /// Creates a directory and makes it durable; `AlreadyExists` if the name is taken, by any process.
    fn create_dir(&self, dir: &Path) -> Result<()>;

    /// Whether this is a regular file itself and not a link to one.
    fn is_regular(&self, path: &Path) -> Result<bool>;

    /// Removes a file's name, or a link itself; `NotFound` if the name does not exist.
    fn remove_file(&self, path: &Path) -> Result<()>;

    /// Removes an empty directory; `NotFound` if it does not exist.
    fn remove_dir(&self, dir: &Path) -> Result<()>;

    /// Renames, replacing the target.
    fn rename(&self, from: &Path, to: &Path) -> Result<()>;

    /// Gives a file a second name. Fails with `AlreadyExists` if the name is taken; with `Unsupported` if it would be
    /// on another file system, or the file already has the maximum number of names.
    fn hard_link(&self, from: &Path, to: &Path) -> Result<()>;

    /// Like [`hard_link`](Self::hard_link), but `to` is a path of `target`.
    fn hard_link_to(&self, from: &Path, _target: &dyn FileSystem, to: &Path) -> Result<()> {
        self.hard_link(from, to)
    }

    /// Makes the names in `dir` durable.
    fn sync_dir(&self, dir: &Path) -> Result<()>;

    /// Takes the lock file `path` and, if the file system can lock a directory, the directory that it is in: then the
    /// lock holds regardless of the file's name. `Exclusive` mode creates a missing file; in `Shared` mode a missing
    /// file locks nothing, so that read-only media work. `Locked` if another holder has one of the two.
    fn lock(&self, path: &Path, mode: LockMode) -> Result<Box<dyn DirLock>>;

    /// Bytes free for this process on the file system of `dir`; if unknown, more than any disk has.
    fn free_space(&self, dir: &Path) -> Result<u64>;

    /// Identifies a boot of the machine: it changes with each boot, and only then; `[0; 16]` if unknown.
    fn boot_id(&self) -> [u8; 16];

    /// Identifies the directory `dir` and this mount of its file system, within one boot of the machine. The number
    /// changes when the file system is mounted anew, or when the directory is another one, even a copy. While it stays
    /// the same, all writes can be read back, synced or not. 0 if unknown.
    fn mount_id(&self, _dir: &Path) -> u64 {
        0
    }
}

/// The name that a lock file has before it replaces the lock file `path`.
pub(crate) fn lock_temporary(path: impl AsRef<Path>) -> PathBuf {
    path.as_ref().with_extension("tmp")
}

/// The message for a caller that cannot get the lock because `holders` have it, as far as they are known.
fn lock_held_message(mode: LockMode, holders: Option<&str>) -> String {
    let holders = holders.unwrap_or("another process (or by another handle of this one)");
    let purpose = match mode {
        LockMode::Exclusive => "",
        LockMode::Shared => " for writing",
    };
    format!("the store is in use{purpose} by {holders}; close it there first")
}

/// Reads `len` bytes of `file` from `offset` on. A length that exceeds the available memory is an error.
pub(crate) fn read_part(file: &dyn ReadFile, offset: u64, len: u64) -> Result<Vec<u8>> {
    let wanted = mapping::check_range(file.path(), file.len(), offset, len)?;
    let mut bytes = Vec::new();
    if bytes.try_reserve_exact(wanted).is_err() {
        let message = format!("there is no memory for {len} bytes of this file");
        return Err(Error::new(ErrorKind::OutOfResources, message).at(file.path()).at_offset(offset));
    }
    bytes.resize(wanted, 0);
    file.read_exact_at(&mut bytes, offset)?;
    Ok(bytes)
}

/// The error if `path` is not a file, where the store expects one of its own. Nothing was done to it.
pub(crate) fn not_a_file(path: &Path, found: NameKind) -> Error {
    let message = format!(
        "this is {}, and the store keeps a file of its own under this name: the store has neither followed \
         nor changed it; move it away, or put the file itself here",
        found.described()
    );
    Error::new(ErrorKind::InvalidInput, message).at(path)
}

/// Like [`not_a_file`], for a directory.
pub(crate) fn not_a_directory(path: &Path, found: NameKind) -> Error {
    let message = format!(
        "this is {}, and the store keeps a directory of its own under this name: the store has neither \
         followed nor changed it; move it away",
        found.described()
    );
    Error::new(ErrorKind::InvalidInput, message).at(path)
}

/// The path with each `..` replaced by the parent of the part before it.
fn without_steps_up(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => drop(plain.pop()),
            Component::CurDir => {}
            part => plain.push(part),
        }
    }
    plain
}

fn no_direct(path: &Path) -> Error {
    let message = "the file system cannot read and write past the operating system's cache (direct I/O)";
    Error::new(ErrorKind::Unsupported, message).at(path)
}

/// The error for a store into a segment of `file_len` bytes that is not one.
fn outside_segment(path: &Path, offset: u64, len: usize, file_len: u64) -> Error {
    let message =
        format!("a write of {len} bytes does not fit in a segment of {file_len}, or is not aligned");
    Error::new(ErrorKind::InvalidInput, message).at(path).at_offset(offset)
}

/// The error for a file that ends before `offset + len`.
fn too_short(path: &Path, offset: u64, len: usize) -> Error {
    Error::corruption(path, offset, format!("the file ends before the {len} bytes expected here"))
}

/// Refuses a path outside `root`, and one that leads there by `..`, for a file system that is
/// [`within`](FileSystem::within) it. Without a root every path is accepted.
fn check_below(root: Option<&Path>, path: &Path) -> Result<()> {
    let Some(root) = root else { return Ok(()) };
    let Ok(below) = path.strip_prefix(root) else {
        let message = format!("this is not in the directory {}", root.display());
        return Err(Error::new(ErrorKind::InvalidInput, message).at(path));
    };
    if below.components().all(|part| matches!(part, Component::Normal(_))) {
        return Ok(());
    }
    Err(Error::io("open the directory of", path, std::io::ErrorKind::InvalidInput.into()))
}

/// Refuses a length that no segment has, with a message.
fn check_segment_len(len: u64) -> std::result::Result<(), String> {
    if len > 0 && len.is_multiple_of(BLOCK) {
        return Ok(());
    }
    Err(format!("a segment's length must be a multiple of {BLOCK} and not 0, but is {len}"))
}

/// Accepts only ranges that are whole blocks of every file system we know.
fn check_punch(path: &Path, offset: u64, len: u64) -> Result<()> {
    let aligned = offset.is_multiple_of(BLOCK) && len.is_multiple_of(BLOCK);
    if aligned && offset.checked_add(len).is_some_and(|end| i64::try_from(end).is_ok()) {
        return Ok(());
    }
    let message = format!("a hole of {len} bytes does not consist of whole blocks of {BLOCK}");
    Err(Error::new(ErrorKind::InvalidInput, message).at(path).at_offset(offset))
}
