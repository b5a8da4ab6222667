//! The file system as a trait: the only door to the disk.
//!
//! Nothing outside this room touches `std::fs` (a lint forbids it), so that every test can run on
//! `SimFs`, which keeps apart what was synced and what was not, by 512-byte sector and by directory
//! entry, and can "crash". Every error names the file and what was being done to it.
//!
//! Durability contract, the same for both file systems:
//! - bytes and length of a file are durable after *that file's* `sync`;
//! - a created, renamed, linked or removed name is durable after `sync_dir` of its directory;
//! - a rename is atomic: after a crash the target is the old or the new file, whole as far as synced;
//! - a failed `sync` is never retried: the kernel may have dropped the pages (callers poison).

use std::fmt::Debug;
use std::io::IoSlice;
use std::mem::MaybeUninit;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use crate::error::{Error, ErrorKind, Result};

mod copy;
pub(crate) mod descriptors;
mod mapping;
mod real;
pub mod sim;
#[cfg(test)]
mod tests;

pub(crate) use copy::OpenFile;
pub use copy::UserFile;
pub use mapping::Mapping;
pub use real::Directory;
pub(crate) use real::{RealFs, give_back_free_memory};

/// The memory that this process may have, in bytes, where the operating system tells: the machine's, or less where a
/// control group limits it.
pub(crate) fn available_memory() -> Option<u64> {
    let limits = [real::os::physical_memory(), real::os::memory_limit()];
    limits.into_iter().flatten().min()
}

/// How many threads of the whole machine run or could run now, where the operating system tells.
pub(crate) fn running_threads() -> Option<usize> {
    real::os::running_threads()
}

/// Tells the kernel that all of `buf`, which is large and new, will be written: it may come in huge pages.
pub(crate) fn expect_use(buf: &mut [MaybeUninit<u8>]) {
    real::os::expect_use(buf);
}

/// The unit of punched holes and of shared blocks, in bytes.
pub(crate) const BLOCK: u64 = 4096;

/// What the free space of a file system counts as that does not tell, in bytes: putting finds out when there is no more.
pub(crate) const PLENTY: u64 = 1 << 50;

/// How a directory lock is shared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LockMode {
    /// One holder, and no shared holder beside it: a writer.
    Exclusive,
    /// Any number of holders: read-only openers.
    Shared,
}

/// Held until dropped.
pub trait DirLock: Send + Sync + Debug {}

/// What a name in a directory stands for.
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

/// A name in a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The name. Bytes that are not UTF-8 (it is not one of ours) are replaced.
    pub name: String,
    /// What it stands for: a link is not followed.
    pub kind: NameKind,
}

/// A file that is read at offsets, by many threads at once.
pub trait ReadFile: Send + Sync + Debug {
    /// Fills `buf` from `offset` on. Fewer bytes in the file are an error of kind `Corruption`
    /// (the file was cut short), never a short read.
    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> Result<()>;

    /// As [`read_exact_at`](Self::read_exact_at), into memory that holds nothing yet, and returns that.
    fn read_uninit_at<'a>(&self, buf: &'a mut [MaybeUninit<u8>], offset: u64) -> Result<&'a mut [u8]> {
        buf.fill(MaybeUninit::new(0));
        // SAFETY: every byte was just written.
        let buf = unsafe { buf.assume_init_mut() };
        self.read_exact_at(buf, offset).map(|()| buf)
    }

    /// As [`read_uninit_at`](Self::read_uninit_at), where the bytes are in memory and can be had from there for less
    /// than a read costs; otherwise `None`, and `buf` holds anything. The caller sees to it that nobody changes or cuts
    /// off these bytes of the file meanwhile.
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

    /// Tells the kernel that `len` bytes from `offset` will be read soon. A hint: it cannot fail.
    fn prefetch(&self, offset: u64, len: u64);

    /// Whether the byte at `offset` can be read without waiting for a disk, as far as is known.
    fn is_cached(&self, _offset: u64) -> bool {
        true
    }

    /// Where, from `offset` on, there may be something else than zeros that take no space; the file's length where there
    /// is not.
    fn next_data(&self, offset: u64) -> u64 {
        offset.min(self.len())
    }

    /// Copies `len` bytes from `offset` on to `target`, as far as that can be done without reading them; returns how
    /// many bytes it has copied.
    fn copy_to(&self, _offset: u64, _len: u64, _target: &UserFile) -> u64 {
        0
    }

    /// Shows `len` bytes from `offset` without copying them where the file system can; a range that ends
    /// behind [`len`](Self::len) is an error of kind `Corruption`, as for a read. The view outlives the
    /// handle and the names of the file. As long as it lives, its owner sees to it that nobody writes into
    /// the range, punches it or cuts it off. A device that fails under it kills the process (SIGBUS),
    /// because a load from memory cannot return an error: who cannot afford that reads instead.
    fn map(&self, offset: u64, len: u64) -> Result<Mapping> {
        Mapping::by_reading(self, offset, len)
    }
}

/// A file that is written from front to back by one owner.
pub trait WriteFile: Send + Debug {
    /// Appends all of `bytes`.
    fn append(&mut self, bytes: &[u8]) -> Result<()>;

    /// Bytes appended so far.
    fn len(&self) -> u64;

    /// Whether nothing was appended yet.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Makes all that was appended, and the length, durable.
    fn sync(&mut self) -> Result<()>;

    /// Starts writing back what was appended, without waiting: it smooths a later `sync`.
    fn start_writeback(&mut self);

    /// Where the file is, for messages.
    fn path(&self) -> &Path;
}

/// A file that one owner writes at offsets while others read it. [`ReadFile::len`] is its length now, as
/// far as it was changed through this handle.
pub trait RandomFile: ReadFile {
    /// Writes the parts one after the other from `offset` on, all of them or an error: then the length is
    /// as before, and the bytes of the range are the old or the new ones. What lies between the end of the
    /// file and `offset` reads as zeros and takes no space.
    fn write_at(&self, parts: &[IoSlice<'_>], offset: u64) -> Result<()>;

    /// Takes `len` bytes of `source` from its beginning on as this file's own from `offset` on, where the two can
    /// share blocks until one of them is changed. Returns how many it has taken; more may be there behind them.
    /// `len` and `offset` are multiples of 4096.
    fn share_from(&self, _source: &UserFile, _len: u64, _offset: u64) -> u64 {
        0
    }

    /// Makes all that was written or punched, and the length, durable.
    fn sync(&self) -> Result<()>;

    /// Starts writing back `len` bytes from `offset`, without waiting: it smooths a later `sync`. A hint.
    fn start_writeback(&self, offset: u64, len: u64);

    /// Cuts the file, or extends it by zeros that take no space.
    fn set_len(&self, len: u64) -> Result<()>;

    /// The same file for somebody who only reads.
    fn as_read(self: Arc<Self>) -> Arc<dyn ReadFile>;
}

/// What is left of a [`MappedFile`] that is no longer stored into.
pub trait SyncFile: Send + Sync + Debug {
    /// Makes every store that ever happened through the file's mapping durable.
    fn sync(&self) -> Result<()>;
}

/// A file of fixed length whose blocks are allocated and were written once: stores into it neither
/// fail nor change file-system metadata. On file systems that overwrite in place the real one is a
/// shared memory mapping (durability rule 7), elsewhere it is `pwrite`; it is never shown as a slice,
/// so that the simulated one sees every store (rule 24). Opened for bulk, it is always `pwrite`.
pub trait MappedFile: Send + Sync + Debug {
    /// Copies `bytes` to `offset`. The caller owns that range: concurrent stores must not overlap.
    /// After it returns, the bytes survive the death of the process.
    /// Fails only where the file system is not mapped (`pwrite`) and then poisons the store.
    fn store(&self, offset: u64, bytes: &[u8]) -> Result<()>;

    /// Stores one word (little-endian) at `offset`, a multiple of 8, as one indivisible store.
    /// Concurrent calls on one word are allowed: one of them wins.
    fn store_u64(&self, offset: u64, value: u64) -> Result<()>;

    /// Takes the page faults of `len` bytes from `offset` here (2.4 us a page), so that the first store
    /// into each page does not. The pages count as dirty afterwards: the next `sync` writes them whole,
    /// so this is for segments that are filled before they are synced. A hint: it cannot fail, and
    /// changes no byte.
    fn warm(&self, offset: u64, len: u64);

    /// Makes every store that happened before the call durable.
    fn sync(&self) -> Result<()>;

    /// The same descriptor without the mapping, for syncing a file that nobody stores into any more: its
    /// pages need not be write-protected one by one, each time interrupting every core.
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

/// All that the store asks of an operating system's files. Paths are absolute or relative to the
/// process, as the caller gave them; or they lie below one directory, which is held: see [`within`](Self::within).
///
/// What is opened is a regular file; anything else is refused with `InvalidInput`, without waiting for it.
pub trait FileSystem: Send + Sync + Debug {
    /// The same file system for the directory `dir` and what is below it. `dir` is resolved here, once: what becomes
    /// of the working directory, of links on the way to it and of its own name changes nothing. Paths begin with `dir`
    /// as it is given here; others are refused. No symbolic link below it is followed. On a file system that
    /// is for a directory already, `dir` must be below that.
    fn within(&self, dir: &Path) -> Result<Arc<dyn FileSystem>>;

    /// The same file system for paths as the process resolves them.
    fn outside(&self) -> Arc<dyn FileSystem>;

    /// Whether `path`, as the process resolves it, is `dir` or would lie in it, where `dir` is what this file system is
    /// [`within`](Self::within).
    fn holds(&self, dir: &Path, path: &Path) -> Result<bool> {
        // A file system without links: `..` leads to where it seems to.
        Ok(without_steps_up(path).starts_with(without_steps_up(dir)))
    }

    /// The directory that [`within`](Self::within) has opened, where the file system keeps one open.
    fn directory(&self) -> Option<&Directory> {
        None
    }

    /// Opens an existing file for reading.
    fn open_read(&self, path: &Path) -> Result<Arc<dyn ReadFile>>;

    /// Reads a whole file, of which the caller knows that it is not too long.
    fn read(&self, path: &Path) -> Result<Vec<u8>> {
        let file = self.open_read(path)?;
        read_part(&*file, 0, file.len())
    }

    /// Creates a file for appending; fails with `AlreadyExists` if the name is taken.
    fn create(&self, path: &Path) -> Result<Box<dyn WriteFile>>;

    /// As [`open_read`](Self::open_read), past the operating system's cache: what is read comes from the disk, whatever
    /// was read before, and leaves no trace in memory. For files that nobody writes any more. `Unsupported` where that
    /// cannot be.
    fn open_direct(&self, path: &Path) -> Result<Arc<dyn ReadFile>> {
        Err(no_direct(path))
    }

    /// As [`create`](Self::create), past the operating system's cache. What was appended is to be read after a `sync`,
    /// and not before; after an error the file takes nothing more. `Unsupported` where that cannot be.
    fn create_direct(&self, path: &Path) -> Result<Box<dyn WriteFile>> {
        Err(no_direct(path))
    }

    /// Creates a file of `len` bytes (a multiple of 4096), allocates and zero-fills it (in 4 KiB
    /// writes, rule 7), and syncs it. The name is durable only after `sync_dir`.
    fn create_mapped(&self, path: &Path, len: u64) -> Result<Arc<dyn MappedFile>>;

    /// Opens a file that `create_mapped` made, to overwrite it (recycling).
    fn open_mapped(&self, path: &Path) -> Result<Arc<dyn MappedFile>>;

    /// Creates an empty file for writing at offsets; fails with `AlreadyExists` if the name is taken.
    fn create_random(&self, path: &Path) -> Result<Arc<dyn RandomFile>>;

    /// Opens an existing file for writing at offsets.
    fn open_random(&self, path: &Path) -> Result<Arc<dyn RandomFile>>;

    /// Gives the blocks of a range back (`offset` and `len` are multiples of 4096): it reads as zeros from
    /// now on, through every name and handle of the file, and the length stays. Durable after a later
    /// `sync` of the file; a crash before finds old bytes or zeros. `Unsupported` where the file system
    /// cannot do it.
    fn punch_hole(&self, path: &Path, offset: u64, len: u64) -> Result<()>;

    /// [`punch_hole`](Self::punch_hole) for each offset and length, in order.
    fn punch_holes(&self, path: &Path, holes: &[(u64, u64)]) -> Result<()> {
        holes.iter().try_for_each(|&(offset, len)| self.punch_hole(path, offset, len))
    }

    /// How many names (hard links) the file has.
    fn link_count(&self, path: &Path) -> Result<u64>;

    /// How many bytes of the disk the file takes: its holes count nothing, and blocks count whole. A directory counts
    /// nothing, and so does what is neither.
    fn allocated_bytes(&self, path: &Path) -> Result<u64>;

    /// As `create_mapped`, for stores of many pages each: they are `pwrite`, which then costs less than a
    /// mapping's page faults, and nothing but the blocks is prepared.
    fn create_bulk(&self, path: &Path, len: u64) -> Result<Arc<dyn MappedFile>> {
        self.create_mapped(path, len)
    }

    /// Opens a file that `create_mapped` or `create_bulk` made, to overwrite it by stores of many pages.
    /// Afterwards it is no file for `open_mapped` any more: small synced stores would be dear.
    fn open_bulk(&self, path: &Path) -> Result<Arc<dyn MappedFile>> {
        self.open_mapped(path)
    }

    /// Makes the file `path` one of `len` bytes that the disk has set aside, whatever they hold: creates
    /// it, extends it or cuts it. When it fails, the file is as long as it was. A created name is durable
    /// only after `sync_dir`.
    fn set_allocated(&self, path: &Path, len: u64) -> Result<()>;

    /// What is in a directory, in no order.
    fn entries(&self, dir: &Path) -> Result<Vec<Entry>>;

    /// The names (not paths) in a directory, in no order.
    fn list(&self, dir: &Path) -> Result<Vec<String>> {
        Ok(self.entries(dir)?.into_iter().map(|entry| entry.name).collect())
    }

    /// Whether something of that name exists, whatever it is. Below a directory that is held, a link is something that
    /// exists, wherever it leads.
    fn exists(&self, path: &Path) -> Result<bool>;

    /// The length of a file in bytes.
    fn file_len(&self, path: &Path) -> Result<u64>;

    /// Creates a directory and its missing parents, and makes those it created durable (callers cannot
    /// know which ancestors were missing); not an error when it exists.
    fn create_dir_all(&self, dir: &Path) -> Result<()>;

    /// Creates a directory, and makes it durable; `AlreadyExists` when something of that name is there, whoever has made it.
    fn create_dir(&self, dir: &Path) -> Result<()>;

    /// Whether this is a file itself, and no name for another, as a symbolic link is.
    fn is_regular(&self, path: &Path) -> Result<bool>;

    /// Removes a file's name, or a link itself.
    fn remove_file(&self, path: &Path) -> Result<()>;

    /// Removes an empty directory.
    fn remove_dir(&self, dir: &Path) -> Result<()>;

    /// Renames, replacing the target.
    fn rename(&self, from: &Path, to: &Path) -> Result<()>;

    /// Gives a file a second name; fails with `AlreadyExists` if the name is taken, with `Unsupported` where it would be on
    /// another file system, or the file has as many names as it may have.
    fn hard_link(&self, from: &Path, to: &Path) -> Result<()>;

    /// As [`hard_link`](Self::hard_link), where `to` is a path of `target`.
    fn hard_link_to(&self, from: &Path, _target: &dyn FileSystem, to: &Path) -> Result<()> {
        self.hard_link(from, to)
    }

    /// Makes the names in `dir` durable.
    fn sync_dir(&self, dir: &Path) -> Result<()>;

    /// Takes the lock file `path` (created when missing, in `Exclusive` mode only; a missing file in
    /// `Shared` mode locks nothing, so that read-only media work). `Locked` when somebody holds it.
    fn lock(&self, path: &Path, mode: LockMode) -> Result<Box<dyn DirLock>>;

    /// Bytes free for this process on the file system of `dir`; a number that no disk has where that is not known.
    fn free_space(&self, dir: &Path) -> Result<u64>;

    /// Changes with each boot of the machine, and only then; `[0; 16]` where unknown.
    fn boot_id(&self) -> [u8; 16];

    /// Tells the directory `dir` as this mount of its file system shows it, within this boot of the machine: another
    /// number as soon as the file system was mounted anew, or the directory is another one, if only a copy. As long as
    /// it stays the same, whatever was written is read back, synced or not. 0 where that cannot be told.
    fn mount_id(&self, _dir: &Path) -> u64 {
        0
    }
}

/// What to tell somebody who cannot have the lock, which `holders` have, as far as that is known.
fn lock_held_message(mode: LockMode, holders: Option<&str>) -> String {
    let holders = holders.unwrap_or("another process (or by another handle of this one)");
    let purpose = match mode {
        LockMode::Exclusive => "",
        LockMode::Shared => " for writing",
    };
    format!("the store is in use{purpose} by {holders}; close it there first")
}

/// Reads `len` bytes of `file` from `offset` on; a length that is too much for the memory there is, is an error.
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

/// What lies at `path`, where a file of a store's own is to be, is something else. Nothing was done to it.
pub(crate) fn not_a_file(path: &Path, found: NameKind) -> Error {
    let message = format!(
        "this is {}, where the store keeps a file of its own: it is neither followed nor changed; \
         move it away, or put the file itself here",
        found.described()
    );
    Error::new(ErrorKind::InvalidInput, message).at(path)
}

/// As [`not_a_file`], of a directory.
pub(crate) fn not_a_directory(path: &Path, found: NameKind) -> Error {
    let message = format!(
        "this is {}, where the store keeps a directory of its own: it is neither followed nor changed; move it away",
        found.described()
    );
    Error::new(ErrorKind::InvalidInput, message).at(path)
}

/// The path with each `..` taken for the parent of what stands before it.
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

/// `len` bytes were wanted from `offset` and the file ends before.
fn too_short(path: &Path, offset: u64, len: usize) -> Error {
    Error::corruption(path, offset, format!("the file ends before the {len} bytes expected here"))
}

/// Ranges that are punched are whole blocks of every file system we know.
fn check_punch(path: &Path, offset: u64, len: u64) -> Result<()> {
    let aligned = offset.is_multiple_of(BLOCK) && len.is_multiple_of(BLOCK);
    if aligned && offset.checked_add(len).is_some_and(|end| i64::try_from(end).is_ok()) {
        return Ok(());
    }
    let message = format!("a hole of {len} bytes does not consist of whole blocks of {BLOCK}");
    Err(Error::new(ErrorKind::InvalidInput, message).at(path).at_offset(offset))
}
