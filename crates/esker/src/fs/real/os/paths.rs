//! The counterpart of `at.rs` on Windows: files by absolute paths, since no call takes a name relative to an open
//! directory.
//!
//! A directory stays the same when the working directory changes. A directory that is renamed while it is held would
//! not be found again, but Windows refuses to rename a directory in which files are open. Links are opened themselves,
//! and then refused.

#![expect(clippy::disallowed_methods, reason = "this is the room that touches files")]

use std::ffi::c_void;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::os::windows::ffi::OsStrExt;
use std::os::windows::fs::OpenOptionsExt;
use std::os::windows::io::AsRawHandle;
use std::path::{Component, Path, PathBuf};

use windows_sys::Win32::Storage::FileSystem::{
    BY_HANDLE_FILE_INFORMATION, FILE_FLAG_BACKUP_SEMANTICS, FILE_FLAG_OPEN_REPARSE_POINT, FILE_SHARE_READ,
    FILE_SHARE_WRITE, FILE_STANDARD_INFO, FileStandardInfo, GetDiskFreeSpaceExW, GetFileInformationByHandle,
    GetFileInformationByHandleEx,
};

use super::{Access, resolve};
use crate::fs::{Entry, FileMark, LockMode, NameKind};

/// A directory by its absolute path.
#[derive(Debug)]
pub(in crate::fs) struct Directory(PathBuf);

/// A name, and the directory that it is in.
#[derive(Debug)]
pub(in crate::fs) struct Place<'a> {
    path: PathBuf,
    follows: bool,
    of: std::marker::PhantomData<&'a Directory>,
}

/// The metadata of the file that a name refers to.
#[derive(Debug, Clone)]
pub(in crate::fs) struct Look {
    pub(in crate::fs) kind: NameKind,
    pub(in crate::fs) len: u64,
    /// How many names the file has.
    pub(in crate::fs) links: u64,
    /// How many bytes of the disk the file takes.
    pub(in crate::fs) allocated: u64,
    /// The volume of a file, and its number there.
    identity: (u64, u64),
    /// The path of a directory, resolved.
    resolved: Option<PathBuf>,
}

impl<'a> Place<'a> {
    /// The place of `path` as the process resolves it: links are followed.
    pub(in crate::fs) fn of_process(path: &'a Path) -> Place<'a> {
        let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
        Place { path: path.to_path_buf(), follows: true, of: std::marker::PhantomData }
    }

    /// The place of `path` below `dir`. The path consists of names alone: no `..`, no root.
    pub(in crate::fs) fn below(dir: &'a Directory, path: &'a Path) -> io::Result<Place<'a>> {
        let mut whole = dir.0.clone();
        let mut parts = path.components().peekable();
        while let Some(part) = parts.next() {
            let Component::Normal(name) = part else { return Err(io::ErrorKind::InvalidInput.into()) };
            whole.push(name);
            if parts.peek().is_some() && !fs::symlink_metadata(&whole)?.is_dir() {
                return Err(io::ErrorKind::NotADirectory.into());
            }
        }
        Ok(Place { path: whole, follows: false, of: std::marker::PhantomData })
    }

    pub(in crate::fs) fn open(&self, access: Access) -> io::Result<File> {
        let mut options = OpenOptions::new();
        options.read(true).write(access != Access::Read);
        options.create_new(access == Access::New).create(access == Access::Any);
        if !self.follows {
            options.custom_flags(FILE_FLAG_OPEN_REPARSE_POINT);
        }
        options.truncate(false).open(&self.path)
    }

    pub(in crate::fs) fn look(&self) -> io::Result<Look> {
        self.look_with(self.follows)
    }

    /// The metadata of the file there; of a link, that of the link itself.
    pub(in crate::fs) fn look_itself(&self) -> io::Result<Look> {
        self.look_with(false)
    }

    fn look_with(&self, follows: bool) -> io::Result<Look> {
        let metadata = if follows { fs::metadata(&self.path)? } else { fs::symlink_metadata(&self.path)? };
        let kind = kind_of(metadata.file_type());
        if kind != NameKind::File {
            let resolved = resolve(&self.path).ok().filter(|_| kind == NameKind::Directory);
            return Ok(Look { kind, len: 0, links: 1, allocated: 0, identity: (0, 0), resolved });
        }
        let file = self.open(Access::Read)?;
        let info = standard_info(&file)?;
        Ok(Look {
            kind,
            len: metadata.len(),
            links: info.NumberOfLinks.into(),
            allocated: info.AllocationSize.try_into().unwrap_or(0),
            identity: identity(&file)?,
            resolved: None,
        })
    }

    /// While the result is open, the file or the directory here cannot be removed, renamed or replaced.
    pub(in crate::fs) fn hold_name(&self) -> io::Result<Option<File>> {
        // Directories are opened with this flag alone.
        let links = if self.follows { 0 } else { FILE_FLAG_OPEN_REPARSE_POINT };
        let mut options = OpenOptions::new();
        options.read(true).share_mode(FILE_SHARE_READ | FILE_SHARE_WRITE);
        options.custom_flags(FILE_FLAG_BACKUP_SEMANTICS | links);
        options.open(&self.path).map(Some)
    }

    pub(in crate::fs) fn remove_file(&self) -> io::Result<()> {
        fs::remove_file(&self.path)
    }

    pub(in crate::fs) fn remove_dir(&self) -> io::Result<()> {
        fs::remove_dir(&self.path)
    }

    pub(in crate::fs) fn create_dir(&self) -> io::Result<()> {
        fs::create_dir(&self.path)
    }

    pub(in crate::fs) fn rename(&self, to: &Place<'_>) -> io::Result<()> {
        fs::rename(&self.path, &to.path)
    }

    pub(in crate::fs) fn link(&self, to: &Place<'_>) -> io::Result<()> {
        fs::hard_link(&self.path, &to.path)
    }
}

impl Look {
    /// Distinguishes the file from one that has taken its name.
    pub(in crate::fs) fn mark(&self) -> FileMark {
        FileMark { identity: self.identity, len: self.len }
    }

    pub(in crate::fs) fn is_same(&self, other: &Look) -> bool {
        self.resolved.is_some() && self.resolved == other.resolved
    }
}

impl Directory {
    pub(in crate::fs) fn open(place: &Place<'_>) -> io::Result<Directory> {
        if place.look()?.kind != NameKind::Directory {
            return Err(io::ErrorKind::NotADirectory.into());
        }
        std::path::absolute(&place.path).map(Directory)
    }

    /// Windows has no call for this that works without rights over the whole volume. The file system's journal records
    /// changes of names in the order in which they happen. Therefore nothing is done here.
    #[expect(
        clippy::unused_self,
        clippy::unnecessary_wraps,
        reason = "other systems have something to do here"
    )]
    pub(in crate::fs) fn sync(&self) -> io::Result<()> {
        Ok(())
    }

    /// Locks nothing: a directory cannot be locked.
    #[expect(
        clippy::unused_self,
        clippy::unnecessary_wraps,
        reason = "other systems have something to do here"
    )]
    pub(in crate::fs) fn try_lock(&self, _mode: LockMode) -> Result<(), TryLockError> {
        Ok(())
    }

    #[expect(clippy::unused_self, reason = "other systems have something to do here")]
    pub(in crate::fs) fn unlock(&self) {}

    #[expect(clippy::unused_self, reason = "other systems have something to do here")]
    pub(in crate::fs) fn as_file(&self) -> Option<&File> {
        None
    }

    /// Bytes free for this process; `None` if the file system does not report it.
    pub(in crate::fs) fn free_space(&self) -> io::Result<Option<u64>> {
        let dir: Vec<u16> = self.0.as_os_str().encode_wide().chain([0]).collect();
        let (mut free, mut total) = (0, 0);
        // SAFETY: the name ends with a zero, `free` and `total` have room for a number each, and null asks for nothing.
        let told =
            unsafe { GetDiskFreeSpaceExW(dir.as_ptr(), &raw mut free, &raw mut total, std::ptr::null_mut()) };
        match told {
            0 => Err(io::Error::last_os_error()),
            _ => Ok((total > 0).then_some(free)),
        }
    }

    /// The directory's entries, and their kinds.
    pub(in crate::fs) fn entries(&self) -> io::Result<Vec<Entry>> {
        let entry = |entry: io::Result<fs::DirEntry>| {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            Ok(Entry { name, kind: kind_of(entry.file_type()?) })
        };
        fs::read_dir(&self.0)?.map(entry).collect()
    }
}

fn kind_of(found: fs::FileType) -> NameKind {
    match found {
        found if found.is_symlink() => NameKind::Link,
        found if found.is_file() => NameKind::File,
        found if found.is_dir() => NameKind::Directory,
        _ => NameKind::Other,
    }
}

fn standard_info(file: &File) -> io::Result<FILE_STANDARD_INFO> {
    let mut info = FILE_STANDARD_INFO::default();
    let room = size_of::<FILE_STANDARD_INFO>() as u32;
    let to = (&raw mut info).cast::<c_void>();
    // SAFETY: the handle is open as long as `file` is borrowed, and `info` is what this class of information fills,
    // with its length.
    match unsafe { GetFileInformationByHandleEx(file.as_raw_handle(), FileStandardInfo, to, room) } {
        0 => Err(io::Error::last_os_error()),
        _ => Ok(info),
    }
}

pub(in crate::fs) fn names(place: &Place<'_>, file: &File) -> io::Result<bool> {
    Ok(identity(&place.open(Access::Read)?)? == identity(file)?)
}

/// The volume and the file's number on it: together they identify an open file.
fn identity(file: &File) -> io::Result<(u64, u64)> {
    let mut info = BY_HANDLE_FILE_INFORMATION::default();
    // SAFETY: the handle is open as long as `file` is borrowed, and `info` has room for the result.
    match unsafe { GetFileInformationByHandle(file.as_raw_handle(), &raw mut info) } {
        0 => Err(io::Error::last_os_error()),
        _ => {
            let number = u64::from(info.nFileIndexHigh) << 32 | u64::from(info.nFileIndexLow);
            Ok((info.dwVolumeSerialNumber.into(), number))
        }
    }
}

/// How many names an open file has.
pub(in crate::fs) fn links(file: &File) -> io::Result<u64> {
    standard_info(file).map(|info| info.NumberOfLinks.into())
}

/// Gives `new` the owner and the mode of `old`: a new file takes them from its directory.
pub(in crate::fs) fn take_over_rights(_old: &File, _new: &File) -> io::Result<()> {
    Ok(())
}

/// Whether the file's medium is read-only: not as far as is known.
pub(in crate::fs) fn is_read_only(_file: &File) -> bool {
    false
}
