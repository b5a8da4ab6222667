//! The lock that keeps a second writer out of a directory: `File::try_lock` on a file in it,
//! which is `flock` on POSIX systems.
//!
//! The lock belongs to the open file. Therefore two opens conflict even inside one process, and the kernel releases it
//! when the process dies. A holder may remove the lock file (`destroy`). Another process could then lock the nameless
//! file while a third creates a new one, and both would hold the directory. Therefore the name is checked again once
//! the lock is held. `owner` describes the note that a writer leaves in the file.
//!
//! A lock file may have a second name, for example in a copy of the directory by hard links. The two directories would
//! exclude each other, and the note would appear in both. Therefore a writer that gets such a lock gives its directory
//! its own lock file:
//!
//! ```text
//! lock LOCK; it is still named LOCK, and has a second name
//!            LOCK.tmp is created and locked
//!            LOCK.tmp is renamed to LOCK
//! unlock the old file; the new one stays locked
//! ```
//!
//! The directory is locked too, by its own descriptor, after the file. No name can take that lock away: if the lock file
//! is removed, renamed or replaced while a process holds it, another process gets the lock of the new file, and then not
//! that of the directory. A file system that locks no directories, such as a network's, has the lock file alone, which
//! also excludes other machines. Windows locks no directories either. There handles of the directory and of the lock
//! file that do not share deletion make removals, renames and replacements of the two fail until the lock is dropped.
//!
//! This excludes others at every step. The directory is held open, so that all names are names in it. Only the holder
//! of the lock that is named `LOCK` renames, and at each moment that file is locked by the same holder, before the
//! rename and after it. A process that has opened the old file and locks it later finds that it is not named `LOCK` any
//! more, and tries again. If a step fails, the holder keeps the old file and writes no note into it. A rename that
//! fails may have taken effect even so. Therefore the name decides; if it cannot be read, the holder keeps both files.
//! This relies on a local file system: on a network's, a rename may leave a moment without the name.

use std::fs::TryLockError;

use super::*;
use crate::canary::broken;
use crate::fs::{lock_held_message, lock_temporary};

/// How often to retry when a lock file vanishes while it is being locked.
const ATTEMPTS: usize = 16;

#[derive(Debug)]
pub(super) struct RealLock {
    /// The locked file. Empty for a reader of a read-only medium. Two if one may have taken the other's place, and it
    /// is unknown which of them has the name.
    files: Vec<File>,
    /// Whether this holder has left its note in the file.
    noted: bool,
    /// The locked directory, on file systems that lock directories.
    dir: Option<os::Directory>,
    /// The handles that keep the names of the directory and of the lock file from being taken away, where the system
    /// has a call for it.
    names: Vec<File>,
}

impl DirLock for RealLock {
    fn release_name(&mut self) {
        self.names.clear();
    }
}

impl RealLock {
    /// The lock of a reader of a read-only medium.
    fn of_directory(dir: Option<os::Directory>) -> RealLock {
        RealLock { files: Vec::new(), noted: false, dir, names: Vec::new() }
    }

    pub(super) fn take(fs: &RealFs, path: &Path, mode: LockMode) -> Result<Self> {
        let failed = |error| Error::io("lock the file", path, error);
        for _ in 0..ATTEMPTS {
            let Some(file) = open(fs, path, mode)? else {
                return Ok(RealLock::of_directory(lock_directory(fs, path, mode)?));
            };
            let locked = match mode {
                LockMode::Exclusive => file.try_lock(),
                LockMode::Shared => file.try_lock_shared(),
            };
            match locked {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => {
                    let message = lock_held_message(mode, owner::holders(&file).as_deref());
                    return Err(Error::new(ErrorKind::Locked, message).at(path));
                }
                Err(_) if mode == LockMode::Shared && os::is_read_only(&file) => {
                    return Ok(RealLock::of_directory(lock_directory(fs, path, mode)?));
                }
                Err(TryLockError::Error(error)) => return Err(failed(error)),
            }
            if still_named(&fs.place(path)?, &file).map_err(failed)? {
                let dir = lock_directory(fs, path, mode).inspect_err(|_| drop(file.unlock()))?;
                let mut lock = match mode {
                    LockMode::Exclusive => RealLock::of_writer(fs, path, file, dir),
                    LockMode::Shared => RealLock { files: vec![file], noted: false, dir, names: Vec::new() },
                };
                if lock.hold_names(fs, path)? {
                    return Ok(lock);
                }
            }
        }
        Err(Error::new(ErrorKind::Locked, "the lock file keeps being removed by another process").at(path))
    }

    /// The lock of a writer that has locked `file`, which is named `path`, and the directory.
    fn of_writer(fs: &RealFs, path: &Path, file: File, dir: Option<os::Directory>) -> RealLock {
        let replaced = if has_one_name(&file) { Replaced::No } else { own_file(fs, path, &file) };
        let files = match replaced {
            Replaced::No => vec![file],
            Replaced::Yes(own) => {
                // A forked child may share the old file. Therefore closing alone might not unlock it.
                let _ignored = file.unlock();
                vec![own]
            }
            Replaced::Unknown(own) => vec![file, own],
        };
        let noted = matches!(files.as_slice(), [file] if has_one_name(file) && owner::note(file));
        RealLock { files, noted, dir, names: Vec::new() }
    }

    /// Ensures that the lock file keeps its name, `path`, and the directory its own, where the system has a call for
    /// it. Returns `false` if the lock file has lost its name before.
    fn hold_names(&mut self, fs: &RealFs, path: &Path) -> Result<bool> {
        for name in [parent(path), path] {
            match fs.place(name)?.hold_name() {
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
                held => self.names.extend(held.map_err(|error| Error::io("hold the name of", name, error))?),
            }
        }
        match self.files.last() {
            Some(file) if !self.names.is_empty() => {
                still_named(&fs.place(path)?, file).map_err(|error| Error::io("lock the file", path, error))
            }
            _ => Ok(true),
        }
    }
}

impl Drop for RealLock {
    fn drop(&mut self) {
        // First the directory: a process that holds it then always holds the file too.
        self.dir.iter().for_each(os::Directory::unlock);
        for file in &self.files {
            if self.noted {
                owner::forget(file);
            }
            // A child that was forked (and never executed a program) shares the open file. Therefore closing alone
            // might not release the lock. If unlocking fails, closing still follows.
            let _ignored = file.unlock();
        }
    }
}

/// Locks the directory of the lock file `path`; `None` if the file system does not lock directories. It is opened anew,
/// since a lock belongs to an open directory.
fn lock_directory(fs: &RealFs, path: &Path, mode: LockMode) -> Result<Option<os::Directory>> {
    let dir = fs.open_dir("lock the directory", parent(path))?;
    match dir.try_lock(mode) {
        _ if broken("rule-31-lock") => Ok(None),
        Ok(()) => Ok(Some(dir)),
        Err(TryLockError::WouldBlock) => {
            let holders = dir.as_file().and_then(owner::lockers);
            let message = lock_held_message(mode, holders.as_deref());
            Err(Error::new(ErrorKind::Locked, message).at(parent(path)))
        }
        Err(TryLockError::Error(_)) => Ok(None),
    }
}

/// Whether a lock file was replaced by a new one, which is locked.
enum Replaced {
    No,
    Yes(File),
    Unknown(File),
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

/// Whether no other name leads to the file, as far as the file system reports it.
fn has_one_name(file: &File) -> bool {
    os::links(file).is_ok_and(|links| links <= 1)
}

/// Replaces the lock file `path`, which is `old`, by a new one with the same owner and mode, which is locked before it
/// has this name. The caller holds the lock of the old one.
fn own_file(fs: &RealFs, path: &Path, old: &File) -> Replaced {
    let temporary = lock_temporary(path);
    // Without a directory that is held open, the path might lead to another directory meanwhile.
    let places = fs.root.as_ref().and_then(|_| Some((fs.place(&temporary).ok()?, fs.place(path).ok()?)));
    let Some((from, to)) = places else { return Replaced::No };
    // A file that a killed process has left. Anything that is not a file is not ours.
    if from.look_itself().is_ok_and(|look| look.kind == NameKind::File) {
        drop(from.remove_file());
    }
    let Ok((file, _)) = fs.open("create the lock file", &temporary, Access::New) else { return Replaced::No };
    if os::take_over_rights(old, &file).is_err() || file.try_lock().is_err() {
        fs.take_back(&temporary);
        return Replaced::No;
    }
    drop(from.rename(&to));
    match still_named(&to, &file) {
        Ok(true) => Replaced::Yes(file),
        Ok(false) => {
            fs.take_back(&temporary);
            Replaced::No
        }
        Err(_) => Replaced::Unknown(file),
    }
}

fn still_named(place: &Place<'_>, file: &File) -> io::Result<bool> {
    match os::names(place, file) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        found => found,
    }
}

#[cfg(all(test, unix))]
#[expect(clippy::disallowed_methods, reason = "tests look at files as anybody may")]
mod tests {
    use std::fs;
    use std::os::unix::fs::{MetadataExt, PermissionsExt};
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

    use super::*;

    fn lock(dir: &Path, mode: LockMode) -> Result<Box<dyn DirLock>> {
        RealFs::default().within(dir)?.lock(&dir.join("LOCK"), mode)
    }

    #[test]
    fn a_lock_file_with_a_second_name_stays_as_it_is_and_another_takes_its_place() {
        let root = tempfile::tempdir().unwrap();
        let (dir, other) = (root.path().join("store"), root.path().join("other"));
        fs::create_dir(&dir).unwrap();
        for content in ["", "4294967295 1\n", "a letter"] {
            fs::write(&other, content).unwrap();
            drop(fs::remove_file(dir.join("LOCK")));
            fs::set_permissions(&other, fs::Permissions::from_mode(0o640)).unwrap();
            fs::hard_link(&other, dir.join("LOCK")).unwrap();
            // A process that was killed while it replaced the file has left this.
            fs::write(dir.join("LOCK.tmp"), "").unwrap();
            let held = lock(&dir, LockMode::Exclusive).unwrap();
            assert_eq!(fs::read_to_string(&other).unwrap(), content);
            // The file under the other name is free, and the directory is not.
            File::open(&other).unwrap().try_lock().unwrap();
            for mode in [LockMode::Exclusive, LockMode::Shared] {
                assert_eq!(lock(&dir, mode).unwrap_err().kind(), ErrorKind::Locked, "{content:?}");
            }
            assert!(!dir.join("LOCK.tmp").exists());
            assert_eq!(
                dir.join("LOCK").metadata().unwrap().mode() & 0o777,
                0o640,
                "others may lock it as before"
            );
            assert!(fs::read_to_string(dir.join("LOCK")).unwrap().ends_with('\n'), "it has its note");
            drop(held);
            assert_eq!(fs::read_to_string(dir.join("LOCK")).unwrap(), "");
            assert_eq!(fs::read_to_string(&other).unwrap(), content);
        }
    }

    #[test]
    fn where_a_lock_file_with_a_second_name_cannot_be_replaced_it_is_held_without_a_note() {
        let root = tempfile::tempdir().unwrap();
        let (dir, other) = (root.path().join("store"), root.path().join("other"));
        fs::create_dir(&dir).unwrap();
        fs::write(&other, "").unwrap();
        fs::hard_link(&other, dir.join("LOCK")).unwrap();
        fs::create_dir(dir.join("LOCK.tmp")).unwrap();
        let held = lock(&dir, LockMode::Exclusive).unwrap();
        assert_eq!(lock(&dir, LockMode::Exclusive).unwrap_err().kind(), ErrorKind::Locked);
        assert_eq!(fs::read_to_string(&other).unwrap(), "");
        drop(held);
        assert_eq!(fs::read_to_string(&other).unwrap(), "");
        drop(lock(&dir, LockMode::Exclusive).unwrap());
    }

    /// One thread gives the lock file second names all the time, so that nearly every writer replaces it.
    #[test]
    fn writers_and_readers_exclude_each_other_while_the_lock_file_is_replaced() {
        const WRITER: usize = 1 << 32;
        let root = tempfile::tempdir().unwrap();
        let dir = root.path().join("store");
        fs::create_dir(&dir).unwrap();
        drop(lock(&dir, LockMode::Exclusive).unwrap());
        let (inside, ended) = (AtomicUsize::new(0), AtomicBool::new(false));
        // A thread that is kept out for long gets in when the others are done.
        let work = |mode: LockMode, weight: usize, rounds: u64| {
            let mut tries = 0;
            for _ in 0..rounds {
                let held = loop {
                    tries += 1;
                    match lock(&dir, mode) {
                        Ok(held) => break held,
                        Err(error) => assert_eq!(error.kind(), ErrorKind::Locked, "{error}"),
                    }
                };
                let before = inside.fetch_add(weight, Ordering::SeqCst);
                assert!(before == 0 || weight == 1 && before < WRITER, "{mode:?} beside {before:#x}");
                std::thread::yield_now();
                inside.fetch_sub(weight, Ordering::SeqCst);
                drop(held);
            }
            tries
        };
        std::thread::scope(|scope| {
            let rounds = test_kit::cases(500);
            let kinds = [(LockMode::Exclusive, WRITER, rounds), (LockMode::Shared, 1, rounds * 2 / 5)];
            let work = &work;
            let threads: Vec<_> = [kinds[0], kinds[0], kinds[0], kinds[1], kinds[1]]
                .map(|(mode, weight, rounds)| scope.spawn(move || work(mode, weight, rounds)))
                .into();
            let linker = scope.spawn(|| {
                let mut made = 0;
                while !ended.load(Ordering::SeqCst) {
                    let other = root.path().join("other");
                    drop(fs::remove_file(&other));
                    // It may lose its only name just then.
                    made += usize::from(fs::hard_link(dir.join("LOCK"), &other).is_ok());
                }
                made
            });
            let tries: Vec<_> = threads.into_iter().map(std::thread::ScopedJoinHandle::join).collect();
            ended.store(true, Ordering::SeqCst);
            println!("tries {tries:?}, links {}", linker.join().unwrap());
            assert!(tries.iter().all(std::result::Result::is_ok) && !dir.join("LOCK.tmp").exists());
        });
    }
}

#[cfg(all(test, windows))]
#[expect(clippy::disallowed_methods, reason = "tests look at files as anybody may")]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn while_it_is_locked_the_lock_file_keeps_its_name() {
        let root = tempfile::tempdir().unwrap();
        let (dir, other) = (root.path().join("store"), root.path().join("other"));
        fs::create_dir(&dir).unwrap();
        let path = dir.join("LOCK");
        let lock = |mode| RealFs::default().within(&dir).and_then(|fs| fs.lock(&path, mode));
        for mode in [LockMode::Exclusive, LockMode::Shared] {
            let mut held = lock(mode).unwrap();
            fs::write(&other, "").unwrap();
            fs::remove_file(&path).unwrap_err();
            fs::rename(&path, dir.join("elsewhere")).unwrap_err();
            fs::rename(&other, &path).unwrap_err();
            fs::rename(&dir, root.path().join("moved")).unwrap_err();
            assert_eq!(lock(LockMode::Exclusive).unwrap_err().kind(), ErrorKind::Locked);
            held.release_name();
            assert_eq!(lock(LockMode::Exclusive).unwrap_err().kind(), ErrorKind::Locked);
            drop(held);
            fs::rename(&other, &path).unwrap();
            drop(lock(LockMode::Exclusive).unwrap());
        }
    }
}
