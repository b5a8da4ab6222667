//! The lock that keeps a second writer out of a directory: `File::try_lock` on a file in it,
//! which is `flock` on POSIX systems.
//!
//! The lock belongs to the open file, so two opens conflict even inside one process, and the kernel releases it when
//! the process dies. A holder may remove the lock file (`destroy`). Another process could then lock the nameless file
//! while a third creates a new one, and both would hold the directory. So the name is checked again once the lock is
//! held. `owner` describes the note that a writer leaves in the file.

use std::fs::TryLockError;

use super::*;

/// How often to retry when a lock file vanishes while it is being locked.
const ATTEMPTS: usize = 16;

/// `None` locks nothing, for a reader of a read-only medium.
#[derive(Debug)]
pub(super) struct RealLock(Option<File>);

impl DirLock for RealLock {}

impl RealLock {
    pub(super) fn take(fs: &RealFs, path: &Path, mode: LockMode) -> Result<Self> {
        let failed = |error| Error::io("lock the file", path, error);
        for _ in 0..ATTEMPTS {
            let Some(file) = open(fs, path, mode)? else { return Ok(RealLock(None)) };
            let locked = match mode {
                LockMode::Exclusive => file.try_lock(),
                LockMode::Shared => file.try_lock_shared(),
            };
            match locked {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => return Err(held(path, mode, &file)),
                Err(_) if mode == LockMode::Shared && os::is_read_only(&file) => return Ok(RealLock(None)),
                Err(TryLockError::Error(error)) => return Err(failed(error)),
            }
            if still_named(&fs.place(path)?, &file).map_err(failed)? {
                if mode == LockMode::Exclusive {
                    owner::note(&file);
                }
                return Ok(RealLock(Some(file)));
            }
        }
        Err(Error::new(ErrorKind::Locked, "the lock file keeps being removed by another process").at(path))
    }
}

impl Drop for RealLock {
    fn drop(&mut self) {
        if let Some(file) = &self.0 {
            // A reader's file is open for reading only, so this does not change it.
            owner::forget(file);
            // A child that was forked (and never executed a program) shares the open file, so closing alone might not
            // release the lock. If unlocking fails, closing still follows.
            let _ignored = file.unlock();
        }
    }
}

fn open(fs: &RealFs, path: &Path, mode: LockMode) -> Result<Option<File>> {
    match mode {
        LockMode::Exclusive => fs.open("lock the file", path, Access::Any).map(|(file, _)| Some(file)),
        LockMode::Shared => match fs.open("lock the file", path, Access::Read) {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            opened => opened.map(|(file, _)| Some(file)),
        },
    }
}

fn still_named(place: &Place<'_>, file: &File) -> io::Result<bool> {
    match os::names(place, file) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        found => found,
    }
}

fn held(path: &Path, mode: LockMode, file: &File) -> Error {
    let holders = owner::holders(file);
    Error::new(ErrorKind::Locked, crate::fs::lock_held_message(mode, holders.as_deref())).at(path)
}
