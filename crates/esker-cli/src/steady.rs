//! Files that are read whole while others may write to them. The contents count only if the file did not change from
//! before the first byte was read until after the last.
//!
//! A file is identified by its number, its length and the times of its last changes. These times have a resolution of
//! up to 10 ms, and a system call that writes much sets them at its beginning. So a file that was changed just now may
//! be changing without a change of its times. Therefore reading begins [`SETTLED`] after the last change. Two cases
//! stay unnoticed: a single call that writes for longer than that, and stores through a shared mapping, which change
//! the times only now and then.
//!
//! Opening follows no symbolic link, and does not wait for a writer of a pipe.

use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::fs::OFlags;

/// Two changes with this distance have different times, and a call that has written for this long has written 100 MB.
const SETTLED: Duration = Duration::from_millis(200);

/// How often a file that is being changed is checked.
const LOOKS: usize = 5;

/// The identity and the state of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stamp {
    file: (u64, u64),
    len: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl Stamp {
    fn of(meta: &Metadata) -> Stamp {
        Stamp {
            file: (meta.dev(), meta.ino()),
            len: meta.len(),
            modified: (meta.mtime(), meta.mtime_nsec()),
            changed: (meta.ctime(), meta.ctime_nsec()),
        }
    }

    /// Whether a change that comes now would show in the times. (Nobody can set the time of a change.)
    fn is_settled(&self) -> bool {
        let (seconds, nanos) = self.changed;
        let (Ok(seconds), Ok(nanos)) = (u64::try_from(seconds), u32::try_from(nanos)) else { return true };
        let changed = UNIX_EPOCH + Duration::new(seconds, nanos);
        // If the clock was set back, the age of a file with a future time is unknown.
        match SystemTime::now().duration_since(changed) {
            Ok(age) => age >= SETTLED,
            Err(ahead) => ahead.duration() > SETTLED,
        }
    }
}

/// Opens a regular file for reading; `None`: it is something else. Follows no symbolic link and waits for nothing.
pub(crate) fn open_regular(path: &Path) -> io::Result<Option<File>> {
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let opened = OpenOptions::new().read(true).custom_flags(flags.bits().cast_signed()).open(path);
    let file = match opened {
        // A symbolic link; a socket or a device without a driver.
        Err(error) if error.raw_os_error().is_some_and(is_no_file) => return Ok(None),
        opened => opened?,
    };
    Ok(file.metadata()?.is_file().then_some(file))
}

/// The contents of a regular file of at most `bytes_max` bytes.
pub(crate) fn read_small(path: &Path, bytes_max: u64) -> io::Result<Vec<u8>> {
    let Some(file) = open_regular(path)? else {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file"));
    };
    let mut content = Vec::new();
    file.take(bytes_max + 1).read_to_end(&mut content)?;
    if content.len() as u64 > bytes_max {
        let message = format!("it has more than {bytes_max} bytes");
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, message));
    }
    Ok(content)
}

/// A regular file that is being read, and its state at the beginning.
#[derive(Debug)]
pub(crate) struct SteadyFile {
    file: File,
    stamp: Stamp,
    left: u64,
}

/// The result of opening a file.
pub(crate) enum Opened {
    File(SteadyFile),
    /// The file is being written.
    Busy,
    /// It is not a regular file.
    Other,
}

impl SteadyFile {
    pub(crate) fn open(path: &Path) -> io::Result<Opened> {
        let Some(file) = open_regular(path)? else { return Ok(Opened::Other) };
        for _ in 0..LOOKS {
            let meta = file.metadata()?;
            if !meta.is_file() {
                return Ok(Opened::Other);
            }
            let stamp = Stamp::of(&meta);
            if stamp.is_settled() {
                return Ok(Opened::File(SteadyFile { file, stamp, left: stamp.len }));
            }
            std::thread::sleep(SETTLED);
        }
        Ok(Opened::Busy)
    }

    /// How many bytes it had when it was opened. No more are read.
    pub(crate) fn len(&self) -> u64 {
        self.stamp.len
    }

    /// The file itself.
    pub(crate) fn file(&self) -> &File {
        &self.file
    }

    /// Moves to the byte `at`.
    pub(crate) fn go_to(&mut self, at: u64) -> io::Result<()> {
        self.left = self.stamp.len.saturating_sub(at);
        self.file.seek(SeekFrom::Start(at)).map(drop)
    }

    /// Whether it is as it was when it was opened: then everything read meanwhile belongs together.
    pub(crate) fn is_steady(&self) -> io::Result<bool> {
        Ok(Stamp::of(&self.file.metadata()?) == self.stamp)
    }
}

/// An input that is read to its end. If it is a regular file that was changed, replaced or removed meanwhile, every
/// read at the end fails instead of reporting the end. So a truncated row never counts as a whole one. Other inputs are not
/// read again after their end: a terminal would wait for lines once more.
#[derive(Debug)]
pub(crate) struct ToItsEnd {
    file: File,
    /// `None`: it is not a regular file.
    stamp: Option<Stamp>,
    has_ended: bool,
}

impl ToItsEnd {
    pub(crate) fn new(file: File) -> io::Result<ToItsEnd> {
        let meta = file.metadata()?;
        Ok(ToItsEnd { stamp: meta.is_file().then(|| Stamp::of(&meta)), file, has_ended: false })
    }

    /// The file itself.
    pub(crate) fn file(&self) -> &File {
        &self.file
    }
}

impl Read for ToItsEnd {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.has_ended {
            return Ok(0);
        }
        let count = self.file.read(buffer)?;
        if count > 0 || buffer.is_empty() {
            return Ok(count);
        }
        self.has_ended = self.stamp.is_none();
        match self.stamp {
            Some(stamp) if Stamp::of(&self.file.metadata()?) != stamp => {
                let message = "the file was changed, replaced or removed while it was read";
                Err(io::Error::new(io::ErrorKind::ResourceBusy, message))
            }
            _ => Ok(0),
        }
    }
}

fn is_no_file(code: i32) -> bool {
    let code = rustix::io::Errno::from_raw_os_error(code);
    code == rustix::io::Errno::LOOP || code == rustix::io::Errno::NXIO
}

impl Read for SteadyFile {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let room = usize::try_from(self.left).unwrap_or(usize::MAX).min(buffer.len());
        let count = self.file.read(&mut buffer[..room])?;
        self.left -= count as u64;
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{CWD, FileType, Mode};
    use std::fs;
    use std::io::Write;

    fn open(path: &Path) -> SteadyFile {
        match SteadyFile::open(path).unwrap() {
            Opened::File(file) => file,
            _ => panic!("{} cannot be read", path.display()),
        }
    }

    /// Every change of a file between two checks is noticed, even if length and modification time are restored.
    #[test]
    fn every_change_is_noticed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        let overwrite = || {
            let mut file = OpenOptions::new().write(true).open(&path).unwrap();
            file.write_all(b"X").unwrap();
        };
        let truncate = || OpenOptions::new().write(true).open(&path).unwrap().set_len(3).unwrap();
        let append = || {
            let mut file = OpenOptions::new().append(true).open(&path).unwrap();
            file.write_all(b"X").unwrap();
        };
        let backdate = || {
            let modified = fs::metadata(&path).unwrap().modified().unwrap();
            overwrite();
            OpenOptions::new().write(true).open(&path).unwrap().set_modified(modified).unwrap();
        };
        let changes: [&dyn Fn(); 4] = [&overwrite, &truncate, &append, &backdate];
        for (i, change) in changes.into_iter().enumerate() {
            fs::write(&path, b"before").unwrap();
            let file = open(&path);
            assert!(file.is_steady().unwrap());
            change();
            assert!(!file.is_steady().unwrap(), "change {i}");
        }
    }

    /// The error stays. A pipe, which cannot change, has none.
    #[test]
    fn a_file_that_changed_before_its_end_was_read_has_no_end() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        let read = |change: &dyn Fn()| {
            fs::write(&path, b"a 1\nb 2\n").unwrap();
            let mut file = ToItsEnd::new(File::open(&path).unwrap()).unwrap();
            let mut first = [0; 2];
            file.read_exact(&mut first).unwrap();
            change();
            let mut rest = Vec::new();
            let ends = [file.read_to_end(&mut rest).is_ok(), file.read_to_end(&mut rest).is_ok()];
            assert_eq!(ends[0], ends[1]);
            (ends[0], rest)
        };
        let opened = || OpenOptions::new().append(true).open(&path).unwrap();
        assert_eq!(read(&|| ()), (true, b"1\nb 2\n".to_vec()));
        assert_eq!(read(&|| opened().write_all(b"c").unwrap()), (false, b"1\nb 2\nc".to_vec()));
        assert_eq!(read(&|| opened().set_len(5).unwrap()), (false, b"1\nb".to_vec()));
        assert!(!read(&|| fs::remove_file(&path).unwrap()).0);
        let other = dir.path().join("g");
        fs::write(&other, b"c 3\n").unwrap();
        assert_eq!(read(&|| fs::rename(&other, &path).unwrap()), (false, b"1\nb 2\n".to_vec()));

        let (from, mut to) = io::pipe().unwrap();
        to.write_all(b"x").unwrap();
        drop(to);
        let mut piped = Vec::new();
        let from = File::from(std::os::fd::OwnedFd::from(from));
        ToItsEnd::new(from).unwrap().read_to_end(&mut piped).unwrap();
        assert_eq!(piped, b"x");
    }

    #[test]
    fn a_file_that_was_replaced_is_read_as_it_was() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        fs::write(&path, b"old").unwrap();
        let mut file = open(&path);
        fs::write(dir.path().join("g"), b"newer").unwrap();
        fs::rename(dir.path().join("g"), &path).unwrap();
        let mut content = Vec::new();
        file.read_to_end(&mut content).unwrap();
        assert_eq!((content.as_slice(), file.len()), (b"old".as_slice(), 3));
    }

    #[test]
    fn no_more_is_read_than_was_there() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        fs::write(&path, b"12345").unwrap();
        let mut file = open(&path);
        OpenOptions::new().append(true).open(&path).unwrap().write_all(b"678").unwrap();
        let mut content = Vec::new();
        for _ in 0..2 {
            content.clear();
            file.read_to_end(&mut content).unwrap();
            assert_eq!(content, b"12345");
            file.go_to(0).unwrap();
        }
        file.go_to(4).unwrap();
        content.clear();
        file.read_to_end(&mut content).unwrap();
        assert_eq!(content, b"5");
    }

    #[test]
    fn what_is_no_file_is_not_waited_for() {
        let dir = tempfile::tempdir().unwrap();
        let link = dir.path().join("link");
        std::os::unix::fs::symlink("f", &link).unwrap();
        let fifo = dir.path().join("fifo");
        rustix::fs::mknodat(CWD, &fifo, FileType::Fifo, Mode::RUSR, 0).unwrap();
        let socket = dir.path().join("socket");
        let _listening = std::os::unix::net::UnixListener::bind(&socket).unwrap();
        for path in [link.as_path(), &fifo, &socket, dir.path(), Path::new("/dev/null")] {
            assert!(matches!(SteadyFile::open(path).unwrap(), Opened::Other), "{}", path.display());
        }
        assert_eq!(SteadyFile::open(&dir.path().join("f")).err().unwrap().kind(), io::ErrorKind::NotFound);
    }
}
