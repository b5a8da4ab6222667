//! The operating system's files: `std::fs`, and `os` where `std` lacks the call or systems differ.
//!
//! Guarantees the contract of [`FileSystem`] on any local POSIX file system. Relies on two things of the
//! kernel: `fsync` of a directory makes its names durable, and `fdatasync` of a file covers its length.
//! `os` says what is less elsewhere.
//!
//! ```text
//! ReadFile    pread, or mappings              any thread, no cursor
//! WriteFile   pwrite at the known length     a failed append leaves the length as it was
//!             opened directly: `direct`      one that failed takes no more
//! RandomFile  pwritev                        a failed write leaves the length as it was
//! MappedFile  store into a shared mapping    ext4, tmpfs: no system call, cannot fail
//!             pwrite                         everything else
//! DirLock     File::try_lock (flock)         per open file: two opens in one process conflict too
//! ```

#![expect(clippy::disallowed_types, clippy::disallowed_methods, reason = "this is the room that opens files")]

use std::fs::{self, File, OpenOptions};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::{DirLock, FileSystem, LockMode, MappedFile, Mapping, RandomFile, ReadFile, UserFile, WriteFile};
use crate::error::{Error, ErrorKind, Result};

mod direct;
mod file;
mod lock;
mod mapped;
mod memory;
pub(super) mod os;
mod owner;
mod random;
#[cfg(test)]
mod tests;

use direct::{DirectRead, DirectWrite};
use file::{RealRead, RealWrite};
use lock::RealLock;
use mapped::{RealMapped, Stores};
pub(crate) use memory::give_back_free_memory;
use os::Resident;
use random::RealRandom;

/// The operating system's file system.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct RealFs;

impl FileSystem for RealFs {
    fn open_read(&self, path: &Path) -> Result<Arc<dyn ReadFile>> {
        Ok(Arc::new(RealRead::open(path)?))
    }

    fn create(&self, path: &Path) -> Result<Box<dyn WriteFile>> {
        Ok(Box::new(RealWrite::create(path)?))
    }

    fn open_direct(&self, path: &Path) -> Result<Arc<dyn ReadFile>> {
        Ok(Arc::new(DirectRead::open(path)?))
    }

    fn create_direct(&self, path: &Path) -> Result<Box<dyn WriteFile>> {
        Ok(Box::new(DirectWrite::create(path)?))
    }

    fn create_mapped(&self, path: &Path, len: u64) -> Result<Arc<dyn MappedFile>> {
        Ok(Arc::new(RealMapped::create(path, len, Stores::Small)?))
    }

    fn open_mapped(&self, path: &Path) -> Result<Arc<dyn MappedFile>> {
        Ok(Arc::new(RealMapped::open(path, Stores::Small)?))
    }

    fn create_bulk(&self, path: &Path, len: u64) -> Result<Arc<dyn MappedFile>> {
        Ok(Arc::new(RealMapped::create(path, len, Stores::Bulk)?))
    }

    fn open_bulk(&self, path: &Path) -> Result<Arc<dyn MappedFile>> {
        Ok(Arc::new(RealMapped::open(path, Stores::Bulk)?))
    }

    fn create_random(&self, path: &Path) -> Result<Arc<dyn RandomFile>> {
        Ok(Arc::new(RealRandom::create(path)?))
    }

    fn open_random(&self, path: &Path) -> Result<Arc<dyn RandomFile>> {
        Ok(Arc::new(RealRandom::open(path)?))
    }

    fn punch_hole(&self, path: &Path, offset: u64, len: u64) -> Result<()> {
        random::punch_holes(path, &[(offset, len)])
    }

    fn punch_holes(&self, path: &Path, holes: &[(u64, u64)]) -> Result<()> {
        random::punch_holes(path, holes)
    }

    fn link_count(&self, path: &Path) -> Result<u64> {
        os::link_count(path).map_err(|error| Error::io("count the names of the file", path, error))
    }

    fn allocated_bytes(&self, path: &Path) -> Result<u64> {
        os::allocated_bytes(path).map_err(|error| Error::io("read the size of the file", path, error))
    }

    fn set_allocated(&self, path: &Path, len: u64) -> Result<()> {
        let file = OpenOptions::new().write(true).create(true).truncate(false).open(path);
        let file = file.map_err(|error| Error::io("open the file", path, error))?;
        mapped::set_allocated(&file, len).map_err(|error| Error::io("allocate", path, error))
    }

    fn list(&self, dir: &Path) -> Result<Vec<String>> {
        let failed = |error| Error::io("list the directory", dir, error);
        let mut names = Vec::new();
        for entry in fs::read_dir(here_if_empty(dir)).map_err(failed)? {
            names.push(entry.map_err(failed)?.file_name().to_string_lossy().into_owned());
        }
        Ok(names)
    }

    fn exists(&self, path: &Path) -> Result<bool> {
        path.try_exists().map_err(|error| Error::io("look for the file", path, error))
    }

    fn file_len(&self, path: &Path) -> Result<u64> {
        match fs::metadata(path) {
            Ok(metadata) => Ok(metadata.len()),
            Err(error) => Err(Error::io("read the length of the file", path, error)),
        }
    }

    fn create_dir_all(&self, dir: &Path) -> Result<()> {
        let dir = here_if_empty(dir);
        match fs::create_dir(dir) {
            Ok(()) => self.sync_dir(parent(dir)),
            Err(_) if dir.is_dir() => Ok(()),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound && parent(dir) != dir => {
                self.create_dir_all(parent(dir))?;
                match fs::create_dir(dir) {
                    Err(error) if !dir.is_dir() => Err(Error::io("create the directory", dir, error)),
                    _ => self.sync_dir(parent(dir)),
                }
            }
            Err(error) => Err(Error::io("create the directory", dir, error)),
        }
    }

    fn create_dir(&self, dir: &Path) -> Result<()> {
        let dir = here_if_empty(dir);
        fs::create_dir(dir).map_err(|error| Error::io("create the directory", dir, error))?;
        self.sync_dir(parent(dir)).inspect_err(|_| drop(fs::remove_dir(dir)))
    }

    fn is_regular(&self, path: &Path) -> Result<bool> {
        let found = fs::symlink_metadata(path);
        found.map(|found| found.is_file()).map_err(|error| Error::io("look at the file", path, error))
    }

    fn remove_file(&self, path: &Path) -> Result<()> {
        fs::remove_file(path).map_err(|error| Error::io("remove the file", path, error))
    }

    fn remove_dir(&self, dir: &Path) -> Result<()> {
        fs::remove_dir(dir).map_err(|error| Error::io("remove the directory", dir, error))
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        fs::rename(from, to).map_err(|error| Error::io(&format!("rename to {}", to.display()), from, error))
    }

    fn hard_link(&self, from: &Path, to: &Path) -> Result<()> {
        fs::hard_link(from, to).map_err(|error| Error::io(&format!("link to {}", to.display()), from, error))
    }

    fn sync_dir(&self, dir: &Path) -> Result<()> {
        let dir = here_if_empty(dir);
        os::sync_dir(dir).map_err(|error| Error::io("sync the directory", dir, error))
    }

    fn lock(&self, path: &Path, mode: LockMode) -> Result<Box<dyn DirLock>> {
        Ok(Box::new(RealLock::take(path, mode)?))
    }

    fn free_space(&self, dir: &Path) -> Result<u64> {
        os::free_space(here_if_empty(dir)).map_err(|error| Error::io("read the free space of", dir, error))
    }

    fn boot_id(&self) -> [u8; 16] {
        os::boot_id()
    }

    fn mount_id(&self, dir: &Path) -> u64 {
        os::mount_id(here_if_empty(dir)).unwrap_or(0)
    }
}

/// `Path::parent` of a bare name is empty, which no system call takes for the working directory.
fn here_if_empty(path: &Path) -> &Path {
    if path.as_os_str().is_empty() { Path::new(".") } else { path }
}

fn parent(path: &Path) -> &Path {
    path.parent().map_or(path, here_if_empty)
}
