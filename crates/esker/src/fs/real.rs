//! The operating system's files: `std::fs`, and `os` where `std` lacks the call or systems differ.
//!
//! Guarantees the contract of [`FileSystem`] on any local POSIX file system. Relies on the kernel for two things:
//! `fsync` of a directory makes its names durable, and `fdatasync` of a file covers its length. `os` describes what
//! other systems lack.
//!
//! In a directory that is held open ([`FileSystem::within`]) every name is looked up relative to its descriptor, and no
//! link is followed (durability rule 26). The type of an opened file is checked before it is used: a FIFO or a device
//! under a file's name is refused.
//!
//! ```text
//! ReadFile    pread, or mappings              any thread, no cursor
//! WriteFile   pwritev at the known length    a failed append leaves the length as it was
//!             opened directly: `direct`      one that failed takes no more
//! RandomFile  pwritev                        a failed write leaves the length as it was
//! MappedFile  store into a shared mapping    ext4, tmpfs: no system call, cannot fail
//!             pwrite                         everything else
//! DirLock     File::try_lock (flock)         per open file: two opens in one process conflict too; the lock file
//!                                            and its directory
//! ```

#![expect(clippy::disallowed_types, reason = "this is the room that opens files")]

use std::fs::File;
use std::io;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use super::gone::give_up;
use super::{
    DirLock, Entry, FileMark, FileSystem, LockMode, MappedFile, NameKind, PLENTY, RandomFile, ReadFile,
    UserFile, WriteFile, check_punch, check_segment_len, no_direct, not_a_directory, not_a_file,
};
use crate::error::{Error, ErrorKind, Result};

mod direct;
mod file;
mod lock;
mod mapped;
mod memory;
pub(super) mod os;
mod owner;
#[cfg(test)]
mod tests;

use direct::{DirectRead, DirectWrite};
use file::RealFile;
use lock::RealLock;
use mapped::{RealMapped, Stores};
pub use memory::give_back_free_memory;
use os::{Access, FileExt, Look, Place, Resident};

/// A directory that is held open, and the path that it had.
#[derive(Debug)]
pub struct Directory {
    path: PathBuf,
    held: os::Directory,
}

/// The operating system's file system, for one directory or for all paths.
#[derive(Debug, Clone, Default)]
pub(crate) struct RealFs {
    root: Option<Arc<Directory>>,
}

impl Directory {
    /// The place of `path`, which begins with this directory's own path.
    fn place<'a>(&'a self, path: &'a Path) -> Result<Place<'a>> {
        let Ok(below) = path.strip_prefix(&self.path) else {
            let message = format!("this is not in the directory {}", self.path.display());
            return Err(Error::new(ErrorKind::InvalidInput, message).at(path));
        };
        Place::below(&self.held, below).map_err(|error| Error::io("open the directory of", path, error))
    }
}

impl RealFs {
    fn place<'a>(&'a self, path: &'a Path) -> Result<Place<'a>> {
        self.root.as_ref().map_or_else(|| Ok(Place::of_process(path)), |root| root.place(path))
    }

    fn open_dir(&self, doing: &str, dir: &Path) -> Result<os::Directory> {
        let place = self.place(dir)?;
        os::Directory::open(&place).map_err(|error| match place.look() {
            Ok(look) if look.kind != NameKind::Directory && self.root.is_some() => {
                not_a_directory(dir, look.kind)
            }
            _ => Error::io(doing, dir, error),
        })
    }

    fn with_dir<T>(
        &self,
        doing: &str,
        dir: &Path,
        work: impl FnOnce(&os::Directory) -> io::Result<T>,
    ) -> Result<T> {
        let done = match self.root.as_ref().filter(|root| root.path == dir) {
            Some(root) => work(&root.held),
            None => work(&self.open_dir(doing, dir)?),
        };
        done.map_err(|error| Error::io(doing, dir, error))
    }

    /// Opens a regular file; returns it and its length.
    fn open(&self, doing: &str, path: &Path, access: Access) -> Result<(File, u64)> {
        let place = self.place(path)?;
        self.checked(doing, path, &place, place.open(access))
    }

    /// Refuses anything but a regular file.
    fn checked(
        &self,
        doing: &str,
        path: &Path,
        place: &Place<'_>,
        opened: io::Result<File>,
    ) -> Result<(File, u64)> {
        let failed = |error: io::Error| match error.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::AlreadyExists => Error::io(doing, path, error),
            is => match place.look() {
                Ok(look) if look.kind != NameKind::File => not_a_file(path, look.kind),
                Ok(_) if is == io::ErrorKind::WouldBlock => leased(path),
                _ => Error::io(doing, path, error),
            },
        };
        let file = opened.map_err(failed)?;
        let metadata = file.metadata().map_err(failed)?;
        if !metadata.is_file() {
            let kind = if metadata.is_dir() { NameKind::Directory } else { NameKind::Other };
            return Err(not_a_file(path, kind));
        }
        Ok((file, metadata.len()))
    }

    /// Opens a regular file, bypassing the page cache; returns it, its length and the unit of reads and writes. `None`
    /// if the kernel or the file system refuses.
    fn open_past_cache(&self, doing: &str, path: &Path, access: Access) -> Result<Option<(File, u64, u64)>> {
        let place = self.place(path)?;
        let (opened, unit) = match os::open_direct(&place, access) {
            Ok(None) => return Ok(None),
            Ok(Some((file, unit))) => (Ok(file), unit),
            Err(error) => (Err(error), 0),
        };
        let (file, len) = self.checked(doing, path, &place, opened)?;
        Ok(Some((file, len, unit)))
    }

    /// Removes a file whose creation failed halfway. Errors are ignored: the caller reports the first error, and the
    /// next opening finds a file that could not be removed.
    fn take_back(&self, path: &Path) {
        if let Ok(place) = self.place(path) {
            drop(place.remove_file());
        }
    }

    fn look(&self, doing: &str, path: &Path) -> Result<Look> {
        self.place(path)?.look().map_err(|error| Error::io(doing, path, error))
    }

    fn look_at_file(&self, doing: &str, path: &Path) -> Result<Look> {
        let look = self.look(doing, path)?;
        if look.kind == NameKind::File { Ok(look) } else { Err(not_a_file(path, look.kind)) }
    }

    fn create_segment(&self, path: &Path, len: u64, stores: Stores) -> Result<Arc<dyn MappedFile>> {
        check_segment_len(len).map_err(|message| Error::new(ErrorKind::InvalidInput, message).at(path))?;
        let (file, _) = self.open("create the segment", path, Access::New)?;
        let made = RealMapped::prepare(file, path, len, stores).inspect_err(|_| give_up(self, path));
        Ok(Arc::new(made?))
    }

    fn open_segment(&self, path: &Path, stores: Stores) -> Result<Arc<dyn MappedFile>> {
        let (file, len) = self.open("open the segment", path, Access::Write)?;
        Ok(Arc::new(RealMapped::of(file, path, len, stores)?))
    }

    fn link(&self, from: &Path, to: &Path, target: Result<Place<'_>>) -> Result<()> {
        let doing = || format!("link to {}", to.display());
        if self.root.is_some() {
            // Without this check, a link would get a second name.
            self.look_at_file(&doing(), from)?;
        }
        self.place(from)?.link(&target?).map_err(|error| {
            // One case is a file system without hard links.
            let cannot = matches!(error.kind(), io::ErrorKind::PermissionDenied | io::ErrorKind::Unsupported);
            match cannot {
                true => Error::new(ErrorKind::Unsupported, format!("cannot {}: {error}", doing())).at(from),
                false => Error::io(&doing(), from, error),
            }
        })
    }
}

impl FileSystem for RealFs {
    fn within(&self, dir: &Path) -> Result<Arc<dyn FileSystem>> {
        let held = self.open_dir("open the directory", dir)?;
        Ok(Arc::new(RealFs { root: Some(Arc::new(Directory { path: dir.to_path_buf(), held })) }))
    }

    fn outside(&self) -> Arc<dyn FileSystem> {
        Arc::new(RealFs::default())
    }

    fn holds(&self, dir: &Path, path: &Path) -> Result<bool> {
        let failed = |error| Error::io("resolve the path", path, error);
        let own = self.look("look at", dir)?;
        // The existing part of the path is resolved, links included; the rest would be created below that.
        let path = std::path::absolute(path).map_err(failed)?;
        let there = path.ancestors().find_map(|part| Some((part, os::resolve(part).ok()?)));
        let Some((part, there)) = there else { return Ok(false) };
        if path
            .strip_prefix(part)
            .is_ok_and(|rest| rest.components().any(|part| part == Component::ParentDir))
        {
            let message =
                "this path has a `..` after a directory that does not exist: give the path without it";
            return Err(Error::new(ErrorKind::InvalidInput, message).at(&path));
        }
        let is_own = |path: &Path| Place::of_process(path).look().is_ok_and(|look| look.is_same(&own));
        Ok(there.ancestors().any(is_own))
    }

    fn directory(&self) -> Option<&Directory> {
        self.root.as_deref()
    }

    fn open_read(&self, path: &Path) -> Result<Arc<dyn ReadFile>> {
        Ok(Arc::new(RealFile::of(self.open("open the file", path, Access::Read)?, path)))
    }

    fn create(&self, path: &Path) -> Result<Box<dyn WriteFile>> {
        Ok(Box::new(RealFile::of(self.open("create the file", path, Access::New)?, path)))
    }

    fn open_direct(&self, path: &Path) -> Result<Arc<dyn ReadFile>> {
        let opened = self.open_past_cache("open the file", path, Access::Read)?;
        Ok(Arc::new(opened.and_then(|opened| DirectRead::of(opened, path)).ok_or_else(|| no_direct(path))?))
    }

    fn create_direct(&self, path: &Path) -> Result<Box<dyn WriteFile>> {
        let opened = self.open_past_cache("create the file", path, Access::New)?;
        let made = opened.and_then(|opened| DirectWrite::of(opened, path));
        Ok(Box::new(made.ok_or_else(|| {
            // The kernel may have created the name before it refused.
            self.take_back(path);
            no_direct(path)
        })?))
    }

    fn create_mapped(&self, path: &Path, len: u64) -> Result<Arc<dyn MappedFile>> {
        self.create_segment(path, len, Stores::Small)
    }

    fn open_mapped(&self, path: &Path) -> Result<Arc<dyn MappedFile>> {
        self.open_segment(path, Stores::Small)
    }

    fn create_bulk(&self, path: &Path, len: u64) -> Result<Arc<dyn MappedFile>> {
        self.create_segment(path, len, Stores::Bulk)
    }

    fn open_bulk(&self, path: &Path) -> Result<Arc<dyn MappedFile>> {
        self.open_segment(path, Stores::Bulk)
    }

    fn create_random(&self, path: &Path) -> Result<Arc<dyn RandomFile>> {
        Ok(Arc::new(RealFile::of(self.open("create the file", path, Access::New)?, path)))
    }

    fn open_random(&self, path: &Path) -> Result<Arc<dyn RandomFile>> {
        Ok(Arc::new(RealFile::of(self.open("open the file", path, Access::Write)?, path)))
    }

    fn punch_hole(&self, path: &Path, offset: u64, len: u64) -> Result<()> {
        self.punch_holes(path, &[(offset, len)])
    }

    fn punch_holes(&self, path: &Path, holes: &[(u64, u64)]) -> Result<()> {
        holes.iter().try_for_each(|&(offset, len)| check_punch(path, offset, len))?;
        let (file, _) = self.open("open the file", path, Access::Write)?;
        file::punch_holes(&file, path, holes)
    }

    fn link_count(&self, path: &Path) -> Result<u64> {
        self.look_at_file("count the hard links of the file", path).map(|look| look.links)
    }

    fn allocated_bytes(&self, path: &Path) -> Result<u64> {
        let look = self.look("read the size of the file", path)?;
        Ok(if look.kind == NameKind::File { look.allocated } else { 0 })
    }

    fn set_allocated(&self, path: &Path, len: u64) -> Result<()> {
        let (file, _) = self.open("open the file", path, Access::Any)?;
        let failed = |error| Error::io("allocate", path, error);
        if os::links(&file).map_err(failed)? > 1 {
            let message = "this file has a second hard link, so another program may use it: the store does not resize \
                 it; remove this name";
            return Err(Error::new(ErrorKind::InvalidInput, message).at(path));
        }
        mapped::set_allocated(&file, len).map_err(failed)
    }

    fn entries(&self, dir: &Path) -> Result<Vec<Entry>> {
        self.with_dir("list the directory", dir, os::Directory::entries)
    }

    fn exists(&self, path: &Path) -> Result<bool> {
        match self.place(path)?.look() {
            Ok(_) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(Error::io("look for the file", path, error)),
        }
    }

    fn file_len(&self, path: &Path) -> Result<u64> {
        self.look_at_file("read the length of the file", path).map(|look| look.len)
    }

    fn file_mark(&self, path: &Path) -> Result<FileMark> {
        self.look_at_file("look at the file", path).map(|look| look.mark())
    }

    fn create_dir_all(&self, dir: &Path) -> Result<()> {
        let is_dir = || self.look("look at", dir).is_ok_and(|look| look.kind == NameKind::Directory);
        match self.place(dir)?.create_dir() {
            Ok(()) => self.sync_dir(parent(dir)),
            Err(_) if is_dir() => Ok(()),
            Err(error) if error.kind() == io::ErrorKind::NotFound && parent(dir) != dir => {
                self.create_dir_all(parent(dir))?;
                match self.place(dir)?.create_dir() {
                    Err(error) if !is_dir() => Err(Error::io("create the directory", dir, error)),
                    _ => self.sync_dir(parent(dir)),
                }
            }
            Err(error) => Err(Error::io("create the directory", dir, error)),
        }
    }

    fn create_dir(&self, dir: &Path) -> Result<()> {
        let place = self.place(dir)?;
        place.create_dir().map_err(|error| Error::io("create the directory", dir, error))?;
        self.sync_dir(parent(dir)).inspect_err(|_| drop(place.remove_dir()))
    }

    fn is_regular(&self, path: &Path) -> Result<bool> {
        let look = self.place(path)?.look_itself();
        look.map(|look| look.kind == NameKind::File)
            .map_err(|error| Error::io("read the metadata of the file", path, error))
    }

    fn remove_file(&self, path: &Path) -> Result<()> {
        self.place(path)?.remove_file().map_err(|error| Error::io("remove the file", path, error))
    }

    fn remove_dir(&self, dir: &Path) -> Result<()> {
        self.place(dir)?.remove_dir().map_err(|error| Error::io("remove the directory", dir, error))
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        let failed = |error| Error::io(&format!("rename to {}", to.display()), from, error);
        self.place(from)?.rename(&self.place(to)?).map_err(failed)
    }

    fn hard_link(&self, from: &Path, to: &Path) -> Result<()> {
        self.link(from, to, self.place(to))
    }

    fn hard_link_to(&self, from: &Path, target: &dyn FileSystem, to: &Path) -> Result<()> {
        let place = target.directory().map_or_else(|| Ok(Place::of_process(to)), |root| root.place(to));
        self.link(from, to, place)
    }

    fn sync_dir(&self, dir: &Path) -> Result<()> {
        self.with_dir("sync the directory", dir, os::Directory::sync)
    }

    fn lock(&self, path: &Path, mode: LockMode) -> Result<Box<dyn DirLock>> {
        Ok(Box::new(RealLock::take(self, path, mode)?))
    }

    fn free_space(&self, dir: &Path) -> Result<u64> {
        let free = self.with_dir("read the free space of", dir, os::Directory::free_space)?;
        Ok(free.unwrap_or(PLENTY))
    }

    fn boot_id(&self) -> [u8; 16] {
        os::boot_id()
    }

    fn mount_id(&self, dir: &Path) -> u64 {
        self.with_dir("look at", dir, |dir| Ok(os::mount_id(dir))).ok().flatten().unwrap_or(0)
    }
}

/// The error for a file whose opening would have to wait; openings never wait.
fn leased(path: &Path) -> Error {
    let message = "another program (a file server, for instance) has a lease on this file, and the system has just \
         asked for it back: try again";
    Error::new(ErrorKind::OutOfResources, message).at(path)
}

/// The directory of `path`; for a bare name it is the working directory.
fn parent(path: &Path) -> &Path {
    path.parent().unwrap_or(path)
}
