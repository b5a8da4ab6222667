//! A file that gets its name only when it is whole. If the process dies before, nothing of it is left.
//!
//! If the file system can do so, the file has no name until then (`O_TMPFILE`). Otherwise it is called `.NAME.PID.tmp`
//! and is locked. The next writer of the same name removes such files without a lock. A lock ends with its process,
//! however that ends, and the number alone would not tell whether the process is alive. Until the file is whole, only its
//! user may open it (`permissions`).

use std::ffi::{OsStr, OsString};
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, FlockOperation, OFlags, flock, linkat};

use crate::permissions::{PRIVATE, take_over};

/// How often a name is tried again that another process has removed.
const ATTEMPTS: usize = 8;

/// A file that is being written.
pub(crate) struct Unseen {
    file: File,
    /// The path that it will get.
    target: PathBuf,
    /// The name that it has until then, if it has one.
    beside: Option<PathBuf>,
}

impl Unseen {
    /// Begins a file that will be `target`, a path with a file name. Removes what dead processes have left of it.
    pub(crate) fn create(target: &Path) -> io::Result<Self> {
        remove_left_over(target);
        let target = target.to_path_buf();
        match without_name(parent(&target)) {
            Some(file) => Ok(Unseen { file, target, beside: None }),
            None => {
                let (file, beside) = with_name(&target)?;
                Ok(Unseen { file, target, beside: Some(beside) })
            }
        }
    }

    /// Where to write.
    pub(crate) fn file(&self) -> io::Result<File> {
        self.file.try_clone()
    }

    /// Gives the file its name, in place of the old file. Content and name are durable when this returns: a user may
    /// remove a store once it is exported, and some file systems report only now that a write has failed.
    pub(crate) fn finish(mut self) -> io::Result<()> {
        take_over(&self.file, &self.target)?;
        self.file.sync_all()?;
        let beside = match self.beside.clone() {
            Some(beside) => beside,
            // A file without a name cannot replace another one, so it gets a temporary name first.
            None => self.link()?,
        };
        // From now on dropping this removes it.
        self.beside = Some(beside.clone());
        fs::rename(&beside, &self.target)?;
        self.beside = None;
        match File::open(parent(&self.target)).and_then(|dir| dir.sync_all()) {
            // The directory may be written but not read, or the file system does not sync directories.
            Err(error)
                if matches!(error.kind(), io::ErrorKind::PermissionDenied | io::ErrorKind::InvalidInput) =>
            {
                Ok(())
            }
            synced => synced,
        }
    }

    fn link(&self) -> io::Result<PathBuf> {
        for _ in 0..ATTEMPTS {
            let beside = beside(&self.target);
            let from = own_path(&self.file);
            match linkat(CWD, &from, CWD, &beside, AtFlags::SYMLINK_FOLLOW) {
                Ok(()) => return Ok(beside),
                // An earlier process with the same number has left it.
                Err(rustix::io::Errno::EXIST) => fs::remove_file(&beside)?,
                Err(error) => return Err(error.into()),
            }
        }
        Err(io::ErrorKind::AlreadyExists.into())
    }
}

impl Drop for Unseen {
    fn drop(&mut self) {
        if let Some(beside) = &self.beside {
            let _ = fs::remove_file(beside);
        }
    }
}

fn parent(target: &Path) -> &Path {
    target.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// The path by which the process itself reaches an open file.
fn own_path(file: &File) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()))
}

/// A file without a name; `None` if the file system has none, or if it could not get a name later.
fn without_name(dir: &Path) -> Option<File> {
    let flags = OFlags::TMPFILE.bits().cast_signed();
    let file = OpenOptions::new().write(true).custom_flags(flags).mode(PRIVATE).open(dir).ok()?;
    let reached = fs::metadata(own_path(&file)).ok()?;
    let own = file.metadata().ok()?;
    ((reached.dev(), reached.ino()) == (own.dev(), own.ino())).then_some(file)
}

/// A new file, locked, and its name.
fn with_name(target: &Path) -> io::Result<(File, PathBuf)> {
    let mut last = io::ErrorKind::AlreadyExists.into();
    for _ in 0..ATTEMPTS {
        let beside = beside(target);
        match OpenOptions::new().write(true).create_new(true).mode(PRIVATE).open(&beside) {
            Ok(file) => {
                // Without locks, another writer of the same name may remove it.
                let _ = flock(&file, FlockOperation::NonBlockingLockExclusive);
                // Another process may have taken it for a leftover before it was locked.
                if file.metadata()?.nlink() > 0 {
                    return Ok((file, beside));
                }
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                fs::remove_file(&beside)?;
                last = error;
            }
            Err(error) => return Err(error),
        }
    }
    Err(last)
}

/// `.NAME.PID.tmp`
fn beside(target: &Path) -> PathBuf {
    let mut name = OsString::from(".");
    name.push(target.file_name().unwrap_or_default());
    name.push(format!(".{}.tmp", std::process::id()));
    target.with_file_name(name)
}

/// Removes unfinished files of dead processes for `target`. A file that cannot be removed is left.
fn remove_left_over(target: &Path) {
    let Ok(entries) = fs::read_dir(parent(target)) else { return };
    let name = target.file_name().unwrap_or_default();
    for entry in entries.flatten().filter(|entry| is_beside(&entry.file_name(), name)) {
        let path = entry.path();
        let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
        let opened = OpenOptions::new().read(true).custom_flags(flags.bits().cast_signed()).open(&path);
        let Ok(file) = opened else { continue };
        let is_file = file.metadata().is_ok_and(|meta| meta.is_file());
        if is_file && flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok() {
            let _ = fs::remove_file(&path);
        }
    }
}

/// Whether `other` is a name that [`beside`] gives a file called `name`.
fn is_beside(other: &OsStr, name: &OsStr) -> bool {
    let inner = other.as_bytes().strip_prefix(b".").and_then(|rest| rest.strip_suffix(b".tmp"));
    let number =
        inner.and_then(|rest| rest.strip_prefix(name.as_bytes())).and_then(|rest| rest.strip_prefix(b"."));
    number.is_some_and(|digits| !digits.is_empty() && digits.iter().all(u8::is_ascii_digit))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn names(dir: &Path) -> Vec<String> {
        let entries = fs::read_dir(dir).unwrap();
        let mut names: Vec<_> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    /// As on a file system without unnamed files.
    fn named(target: &Path) -> Unseen {
        let (file, beside) = with_name(target).unwrap();
        Unseen { file, target: target.to_path_buf(), beside: Some(beside) }
    }

    #[test]
    fn nothing_is_seen_before_the_file_is_whole() {
        let dir = tempfile::tempdir().unwrap();
        let target = dir.path().join("f");
        fs::write(&target, "old").unwrap();
        for make in [named, |target: &Path| Unseen::create(target).unwrap()] {
            let dropped = make(&target);
            dropped.file().unwrap().write_all(b"half").unwrap();
            drop(dropped);
            assert_eq!(
                (names(dir.path()), fs::read(&target).unwrap()),
                (vec!["f".to_owned()], b"old".to_vec())
            );
            let whole = make(&target);
            whole.file().unwrap().write_all(b"new").unwrap();
            whole.finish().unwrap();
            assert_eq!(
                (names(dir.path()), fs::read(&target).unwrap()),
                (vec!["f".to_owned()], b"new".to_vec())
            );
            fs::write(&target, "old").unwrap();
        }
    }

    #[test]
    fn what_the_dead_have_left_is_removed_and_nothing_else() {
        let dir = tempfile::tempdir().unwrap();
        let target = dir.path().join("f");
        let kept = [".f.12.tmp.bak", ".f.x.tmp", ".f..tmp", ".g.12.tmp", "f.12.tmp", ".f.tmp"];
        for name in kept.iter().chain(&[".f.353.tmp", ".f.1.tmp"]) {
            fs::write(dir.path().join(name), "").unwrap();
        }
        std::os::unix::fs::symlink("elsewhere", dir.path().join(".f.7.tmp")).unwrap();
        let writing = File::create(dir.path().join(".f.9.tmp")).unwrap();
        flock(&writing, FlockOperation::NonBlockingLockExclusive).unwrap();
        Unseen::create(&target).unwrap().finish().unwrap();
        let mut expected: Vec<&str> = kept.into_iter().chain([".f.7.tmp", ".f.9.tmp", "f"]).collect();
        expected.sort_unstable();
        assert_eq!(names(dir.path()), expected);
    }
}
