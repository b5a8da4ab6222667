//! Files by name: relative to a directory that is held open, or as the process resolves a path.
//!
//! Below a directory that is held open no symbolic link is followed, in any part of a path. No opening waits: a FIFO, a
//! terminal or a device is opened without blocking, and the caller checks the type before using it.

use std::ffi::OsStr;
use std::fs::{File, Metadata, TryLockError};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path};

use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, StatVfsMountFlags};
use rustix::io::retry_on_intr;

use super::Access;
use crate::fs::{Entry, FileMark, LockMode, NameKind};

/// A directory that stays the same one when its name changes.
#[derive(Debug)]
pub(in crate::fs) struct Directory(pub(super) File);

/// A name, and the directory that it is in.
#[derive(Debug)]
pub(in crate::fs) struct Place<'a> {
    base: Base<'a>,
    name: &'a Path,
}

#[derive(Debug)]
enum Base<'a> {
    /// The process resolves the name as a path.
    Process,
    Held(BorrowedFd<'a>),
    Below(OwnedFd),
}

/// The metadata of the file that a name refers to.
#[derive(Debug, Clone, Copy)]
pub(in crate::fs) struct Look {
    pub(in crate::fs) kind: NameKind,
    pub(in crate::fs) len: u64,
    /// How many names the file has.
    pub(in crate::fs) links: u64,
    /// How many bytes of the disk the file takes.
    pub(in crate::fs) allocated: u64,
    identity: (u64, u64),
}

impl<'a> Place<'a> {
    /// The place of `path` as the process resolves it: links are followed.
    pub(in crate::fs) fn of_process(path: &'a Path) -> Place<'a> {
        let name = if path.as_os_str().is_empty() { Path::new(".") } else { path };
        Place { base: Base::Process, name }
    }

    /// The place of `path` below `dir`. The path consists of names alone: no `..`, no root.
    pub(in crate::fs) fn below(dir: &'a Directory, path: &'a Path) -> io::Result<Place<'a>> {
        let mut base = Base::Held(dir.0.as_fd());
        let mut parts = path.components().peekable();
        loop {
            let name = match parts.next() {
                Some(Component::Normal(name)) => Path::new(name),
                None if matches!(base, Base::Held(_)) => Path::new("."),
                _ => return Err(io::ErrorKind::InvalidInput.into()),
            };
            let place = Place { base, name };
            if parts.peek().is_none() {
                return Ok(place);
            }
            base = Base::Below(place.open_dir()?);
        }
    }

    fn dir(&self) -> BorrowedFd<'_> {
        match &self.base {
            Base::Process => CWD,
            Base::Held(dir) => *dir,
            Base::Below(dir) => dir.as_fd(),
        }
    }

    fn follows(&self) -> bool {
        matches!(self.base, Base::Process)
    }

    fn open_dir(&self) -> io::Result<OwnedFd> {
        let mut flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::NONBLOCK;
        flags.set(OFlags::NOFOLLOW, !self.follows());
        Ok(retry_on_intr(|| rustix::fs::openat(self.dir(), self.name, flags, Mode::empty()))?)
    }

    /// Opens the file there, with `more` flags.
    pub(super) fn open_with(&self, access: Access, more: OFlags) -> io::Result<File> {
        let mut flags = OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY | more;
        flags.set(OFlags::NOFOLLOW, !self.follows());
        flags |= match access {
            Access::Read => OFlags::RDONLY,
            Access::Write => OFlags::RDWR,
            Access::New => OFlags::RDWR | OFlags::CREATE | OFlags::EXCL,
            Access::Any => OFlags::RDWR | OFlags::CREATE,
        };
        let mode = Mode::from_raw_mode(0o666);
        Ok(retry_on_intr(|| rustix::fs::openat(self.dir(), self.name, flags, mode)).map(File::from)?)
    }

    pub(in crate::fs) fn open(&self, access: Access) -> io::Result<File> {
        self.open_with(access, OFlags::empty())
    }

    pub(in crate::fs) fn look(&self) -> io::Result<Look> {
        self.look_with(if self.follows() { AtFlags::empty() } else { AtFlags::SYMLINK_NOFOLLOW })
    }

    /// The metadata of the file there; of a link, that of the link itself.
    pub(in crate::fs) fn look_itself(&self) -> io::Result<Look> {
        self.look_with(AtFlags::SYMLINK_NOFOLLOW)
    }

    #[allow(
        clippy::unnecessary_cast,
        clippy::cast_lossless,
        reason = "these types differ from system to system"
    )]
    fn look_with(&self, flags: AtFlags) -> io::Result<Look> {
        let found = rustix::fs::statat(self.dir(), self.name, flags)?;
        Ok(Look {
            kind: kind_of(FileType::from_raw_mode(found.st_mode)),
            len: u64::try_from(found.st_size).unwrap_or(0),
            links: found.st_nlink as u64,
            allocated: u64::try_from(found.st_blocks).unwrap_or(0).saturating_mul(512),
            identity: (found.st_dev as u64, found.st_ino as u64),
        })
    }

    /// Nothing: a name can always be taken away from a file.
    #[expect(
        clippy::unused_self,
        clippy::unnecessary_wraps,
        reason = "other systems have something to do here"
    )]
    pub(in crate::fs) fn hold_name(&self) -> io::Result<Option<File>> {
        Ok(None)
    }

    pub(in crate::fs) fn remove_file(&self) -> io::Result<()> {
        Ok(rustix::fs::unlinkat(self.dir(), self.name, AtFlags::empty())?)
    }

    pub(in crate::fs) fn remove_dir(&self) -> io::Result<()> {
        Ok(rustix::fs::unlinkat(self.dir(), self.name, AtFlags::REMOVEDIR)?)
    }

    pub(in crate::fs) fn create_dir(&self) -> io::Result<()> {
        Ok(rustix::fs::mkdirat(self.dir(), self.name, Mode::from_raw_mode(0o777))?)
    }

    pub(in crate::fs) fn rename(&self, to: &Place<'_>) -> io::Result<()> {
        Ok(rustix::fs::renameat(self.dir(), self.name, to.dir(), to.name)?)
    }

    pub(in crate::fs) fn link(&self, to: &Place<'_>) -> io::Result<()> {
        Ok(rustix::fs::linkat(self.dir(), self.name, to.dir(), to.name, AtFlags::empty())?)
    }
}

impl Look {
    pub(in crate::fs) fn mark(&self) -> FileMark {
        FileMark { identity: self.identity, len: self.len }
    }

    pub(in crate::fs) fn is_same(&self, other: &Look) -> bool {
        self.identity == other.identity
    }
}

impl Directory {
    pub(in crate::fs) fn open(place: &Place<'_>) -> io::Result<Directory> {
        place.open_dir().map(|dir| Directory(dir.into()))
    }

    /// Makes the directory's names durable.
    pub(in crate::fs) fn sync(&self) -> io::Result<()> {
        self.0.sync_all()
    }

    /// Locks the directory itself, without waiting, until [`unlock`](Self::unlock) or until it is closed.
    pub(in crate::fs) fn try_lock(&self, mode: LockMode) -> Result<(), TryLockError> {
        match mode {
            LockMode::Exclusive => self.0.try_lock(),
            LockMode::Shared => self.0.try_lock_shared(),
        }
    }

    pub(in crate::fs) fn unlock(&self) {
        // A forked child may share the open directory. Therefore closing alone might not release the lock.
        let _ignored = self.0.unlock();
    }

    /// The directory as a file, to identify it.
    pub(in crate::fs) fn as_file(&self) -> Option<&File> {
        Some(&self.0)
    }

    /// Bytes free for this process; `None` if the file system does not report it.
    pub(in crate::fs) fn free_space(&self) -> io::Result<Option<u64>> {
        match rustix::fs::fstatvfs(&self.0) {
            // Some FUSE and 9P file systems do not know it and report only zeros.
            Ok(stat) if stat.f_blocks == 0 && stat.f_bavail == 0 => Ok(None),
            Ok(stat) => Ok(Some(stat.f_bavail.saturating_mul(stat.f_frsize))),
            Err(rustix::io::Errno::NOSYS) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// The directory's entries without `.` and `..`, and their kinds.
    pub(in crate::fs) fn entries(&self) -> io::Result<Vec<Entry>> {
        let mut entries = Vec::new();
        for entry in Dir::read_from(&self.0)? {
            let entry = entry?;
            let name = OsStr::from_bytes(entry.file_name().to_bytes());
            if name == "." || name == ".." {
                continue;
            }
            let kind = match entry.file_type() {
                // Not every file system reports the type.
                FileType::Unknown => match Place::below(self, Path::new(name))?.look() {
                    Ok(look) => look.kind,
                    Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                    Err(error) => return Err(error),
                },
                known => kind_of(known),
            };
            entries.push(Entry { name: name.to_string_lossy().into_owned(), kind });
        }
        Ok(entries)
    }
}

fn kind_of(found: FileType) -> NameKind {
    match found {
        FileType::RegularFile => NameKind::File,
        FileType::Directory => NameKind::Directory,
        FileType::Symlink => NameKind::Link,
        _ => NameKind::Other,
    }
}

pub(in crate::fs) fn names(place: &Place<'_>, file: &File) -> io::Result<bool> {
    let identity = |metadata: &Metadata| (metadata.dev(), metadata.ino());
    Ok(place.look()?.identity == identity(&file.metadata()?))
}

/// How many names an open file has.
pub(in crate::fs) fn links(file: &File) -> io::Result<u64> {
    file.metadata().map(|metadata| metadata.nlink())
}

/// Gives `new` the owner and the mode of `old`. Fails if the process may not give a file to that owner.
pub(in crate::fs) fn take_over_rights(old: &File, new: &File) -> io::Result<()> {
    let (wanted, has) = (old.metadata()?, new.metadata()?);
    if (wanted.uid(), wanted.gid()) != (has.uid(), has.gid()) {
        std::os::unix::fs::fchown(new, Some(wanted.uid()), Some(wanted.gid()))?;
    }
    new.set_permissions(wanted.permissions())
}

pub(in crate::fs) fn is_read_only(file: &File) -> bool {
    rustix::fs::fstatvfs(file).is_ok_and(|stat| stat.f_flag.contains(StatVfsMountFlags::RDONLY))
}
