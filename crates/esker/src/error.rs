//! The only error type of the library: a kind that shows a caller what to do, a message that tells a person what
//! happened, and the place (file, offset) where it happened.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// The result of every fallible call of this library.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The actions that a caller can take after an [`Error`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The operating system refused or failed an operation.
    Io,
    /// Bytes on disk differ from the written bytes. Damaged bytes are never returned as data.
    Corruption,
    /// Another process or handle holds the store.
    Locked,
    /// No store, tree or file has this name.
    NotFound,
    /// A store, tree or file of this name already exists.
    AlreadyExists,
    /// The caller passed something outside the stated limits.
    InvalidInput,
    /// A newer format, or a feature that this build lacks, wrote the store; or the file system does not support the
    /// operation.
    Unsupported,
    /// The disk is full (or below the store's reserve). Deletes and reads still work.
    OutOfSpace,
    /// The store was opened for reading only.
    ReadOnly,
    /// An earlier write or sync failed. Reopen the store: opening recovers everything that was acknowledged.
    Poisoned,
    /// The store was closed.
    Closed,
    /// The tree was dropped. A tree of the same name may have been created since: open it by its name.
    TreeDropped,
    /// The key is outside the bounds that the tree has since a split. Another tree has the key: [`Error::moved`] names
    /// it, if it is known.
    KeyMoved,
    /// The tree was imported after the snapshot was taken. Take a new one.
    SnapshotTooOld,
    /// The process or the system has no descriptors, threads or memory left, or another program holds a file for a
    /// moment. Nothing is broken: call again when some are free, or raise the limit.
    OutOfResources,
    /// Another write changed what the transaction relies on; the transaction wrote nothing. Repeat it.
    Conflict,
    /// The wait for this lock would close a cycle of transactions that wait for each other. Roll this transaction back,
    /// so that the others can continue, and repeat it.
    Deadlock,
    /// Another transaction kept a lock for longer than this one may wait. Roll this one back; it may be repeated.
    LockTimeout,
    /// A call that never waits would have to wait: [`Error::busy`] returns the reason.
    Busy,
    /// A read that never waits would have to wait for a disk. Make it by a call that may wait.
    NeedsIo,
    /// The caller cancelled the work before it was done.
    Cancelled,
}

/// The cause and the place of a failure, and what to do about it.
///
/// # Example
/// ```
/// use esker::{Error, ErrorKind};
/// let error = Error::new(ErrorKind::InvalidInput, "the key is empty");
/// assert_eq!(error.kind(), ErrorKind::InvalidInput);
/// ```
pub struct Error(Box<Inner>);

/// Where a key went when its tree was split: [`Error::moved`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyMoved {
    /// The name of the tree that was split off with the key. It may have been split or dropped since.
    pub tree: String,
    /// The inclusive lower bound of the keys that moved.
    pub lower: Vec<u8>,
    /// The exclusive upper bound of the keys that moved; `None` if they are unbounded.
    pub upper: Option<Vec<u8>>,
}

/// The event that a call that never waits would have to wait for: [`Error::busy`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum BusyUntil {
    /// Memtables are flushed: too many bytes wait for it.
    Flushed,
    /// Merges catch up. Writers are slowed meanwhile.
    Merged,
    /// The next segment of the log is ready.
    LogSegment,
    /// A tree that is split, exported, or gets ingested data takes writes again.
    TreeChanged,
    /// Another write has ended whose condition is being checked.
    Written,
}

struct Inner {
    kind: ErrorKind,
    message: String,
    path: Option<PathBuf>,
    offset: Option<u64>,
    source: Option<io::Error>,
    moved: Option<KeyMoved>,
    busy: Option<BusyUntil>,
}

impl Error {
    /// An error of `kind`, described by `message` (lower case, no full stop).
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        let (path, offset, source, moved, busy) = (None, None, None, None, None);
        Error(Box::new(Inner { kind, message: message.into(), path, offset, source, moved, busy }))
    }

    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        Error::new(ErrorKind::InvalidInput, message)
    }

    /// Damage in `path` at byte `offset`: `message` states what was expected there.
    pub fn corruption(path: &Path, offset: u64, message: impl Into<String>) -> Self {
        Error::new(ErrorKind::Corruption, message).at(path).at_offset(offset)
    }

    /// The operating system failed to `doing` (for example "open") the file `path`.
    pub fn io(doing: &str, path: &Path, source: io::Error) -> Self {
        Error::stream(doing, source).at(path)
    }

    /// Like [`Error::io`], where the failed stream is not a file of the store.
    pub(crate) fn stream(doing: &str, source: io::Error) -> Self {
        let kind = match source.kind() {
            _ if is_out_of_resources(&source) => ErrorKind::OutOfResources,
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => ErrorKind::OutOfSpace,
            io::ErrorKind::NotFound => ErrorKind::NotFound,
            io::ErrorKind::AlreadyExists => ErrorKind::AlreadyExists,
            io::ErrorKind::CrossesDevices | io::ErrorKind::TooManyLinks => ErrorKind::Unsupported,
            _ => ErrorKind::Io,
        };
        let mut error = Error::new(kind, format!("cannot {doing}"));
        error.0.source = Some(source);
        error
    }

    /// Names the file concerned, unless the error already names one.
    #[must_use]
    pub fn at(mut self, path: &Path) -> Self {
        self.0.path.get_or_insert_with(|| path.to_path_buf());
        self
    }

    /// Names the byte offset concerned, unless the error already names one.
    #[must_use]
    pub fn at_offset(mut self, offset: u64) -> Self {
        self.0.offset.get_or_insert(offset);
        self
    }

    /// The kind, which shows a caller what to do.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// A description of the failure, without the place.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// The file concerned, if any.
    pub fn path(&self) -> Option<&Path> {
        self.0.path.as_deref()
    }

    /// Whether the device cannot read the requested bytes: the place is damaged, and a read of another place may
    /// succeed.
    pub(crate) fn is_of_device(&self) -> bool {
        self.0.source.as_ref().is_some_and(is_of_device)
    }

    /// Whether the device does not answer, as the system reports it for reads past its cache.
    pub(crate) fn is_of_lost_device(&self) -> bool {
        self.0.source.as_ref().is_some_and(is_of_lost_device)
    }

    /// The byte offset concerned, if any.
    pub fn offset(&self) -> Option<u64> {
        self.0.offset
    }

    /// Adds the tree that the key has moved to.
    pub(crate) fn with_moved(mut self, moved: KeyMoved) -> Self {
        self.0.moved = Some(moved);
        self
    }

    /// Of a [`ErrorKind::KeyMoved`]: which tree was split off with the key. `None` if that is not known, because the
    /// split came before this opening of the store, or because the tree is itself the one that was split off: compare
    /// the key with [`Tree::key_range`](crate::Tree::key_range) of the trees.
    pub fn moved(&self) -> Option<&KeyMoved> {
        self.0.moved.as_ref()
    }

    pub(crate) fn busy_until(until: BusyUntil) -> Self {
        let what = match until {
            BusyUntil::Flushed => "memtables are flushed",
            BusyUntil::Merged => "merges have caught up",
            BusyUntil::LogSegment => "the next segment of the log is there",
            BusyUntil::TreeChanged => "the tree takes writes again",
            BusyUntil::Written => "another write has ended",
        };
        let mut error = Error::new(ErrorKind::Busy, format!("the write would have to wait until {what}"));
        error.0.busy = Some(until);
        error
    }

    /// Of a [`ErrorKind::Busy`]: the event that the call would have had to wait for. When it has happened, the listener
    /// is told ([`Listener::ready`](crate::Listener::ready)).
    pub fn busy(&self) -> Option<BusyUntil> {
        self.0.busy
    }

    /// A copy that carries the source as text. With it one failure can be passed to many waiters.
    #[must_use]
    pub fn duplicate(&self) -> Self {
        Error(Box::new(Inner {
            kind: self.0.kind,
            message: match &self.0.source {
                Some(source) => format!("{}: {source}", self.0.message),
                None => self.0.message.clone(),
            },
            path: self.0.path.clone(),
            offset: self.0.offset,
            source: None,
            moved: self.0.moved.clone(),
            busy: self.0.busy,
        }))
    }
}

/// A key as messages show it: quoted, and at most its first 64 bytes.
pub(crate) fn shown(key: &[u8]) -> String {
    format!("\"{}\"", key[..key.len().min(64)].escape_ascii())
}

/// Whether the process or the system has no descriptors or memory left.
fn is_out_of_resources(error: &io::Error) -> bool {
    #[cfg(unix)]
    let codes = [rustix::io::Errno::MFILE, rustix::io::Errno::NFILE].map(rustix::io::Errno::raw_os_error);
    // ERROR_TOO_MANY_OPEN_FILES
    #[cfg(windows)]
    let codes = [4];
    error.kind() == io::ErrorKind::OutOfMemory
        || error.raw_os_error().is_some_and(|code| codes.contains(&code))
}

/// Whether the device cannot read the requested bytes, as far as the system's error shows it.
fn is_of_device(error: &io::Error) -> bool {
    // Linux has EIO for most, ENODATA and EREMOTEIO for sectors, EILSEQ and EBADMSG for checksums of the device or the file system.
    #[cfg(target_os = "linux")]
    let codes = {
        use rustix::io::Errno;
        [Errno::IO, Errno::NODATA, Errno::REMOTEIO, Errno::ILSEQ, Errno::BADMSG].map(Errno::raw_os_error)
    };
    #[cfg(all(unix, not(target_os = "linux")))]
    let codes = [rustix::io::Errno::IO.raw_os_error()];
    // ERROR_CRC, ERROR_SECTOR_NOT_FOUND, ERROR_READ_FAULT, ERROR_IO_DEVICE
    #[cfg(windows)]
    let codes = [23, 27, 30, 1117];
    error.raw_os_error().is_some_and(|code| codes.contains(&code))
}

/// Whether the device does not answer, as far as the system's error shows it. In that case reads through the page cache
/// fail with the error of [`is_of_device`]; others have the error of the device's driver.
fn is_of_lost_device(error: &io::Error) -> bool {
    #[cfg(target_os = "linux")]
    let codes = {
        use rustix::io::Errno;
        [Errno::NODEV, Errno::NXIO, Errno::TIMEDOUT, Errno::NOLINK, Errno::BADE, Errno::STALE]
            .map(Errno::raw_os_error)
    };
    #[cfg(all(unix, not(target_os = "linux")))]
    let codes = [rustix::io::Errno::NXIO, rustix::io::Errno::NODEV].map(rustix::io::Errno::raw_os_error);
    // ERROR_NOT_READY, ERROR_DEV_NOT_EXIST, ERROR_DEVICE_NOT_CONNECTED
    #[cfg(windows)]
    let codes = [21, 55, 1167];
    error.raw_os_error().is_some_and(|code| codes.contains(&code))
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(path) = &self.0.path {
            write!(f, "{}", path.display())?;
            if let Some(offset) = self.0.offset {
                write!(f, " at byte {offset}")?;
            }
            write!(f, ": ")?;
        }
        write!(f, "{}", self.0.message)?;
        if let Some(source) = &self.0.source {
            write!(f, ": {source}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {self}", self.0.kind)
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source.as_ref().map(|source| source as _)
    }
}

/// The error itself is inside ([`io::Error::get_ref`]).
impl From<Error> for io::Error {
    fn from(error: Error) -> io::Error {
        let of_kind = || match error.kind() {
            ErrorKind::Corruption => io::ErrorKind::InvalidData,
            ErrorKind::Locked | ErrorKind::Busy | ErrorKind::NeedsIo => io::ErrorKind::WouldBlock,
            ErrorKind::NotFound => io::ErrorKind::NotFound,
            ErrorKind::AlreadyExists => io::ErrorKind::AlreadyExists,
            ErrorKind::InvalidInput => io::ErrorKind::InvalidInput,
            ErrorKind::Unsupported => io::ErrorKind::Unsupported,
            ErrorKind::OutOfSpace => io::ErrorKind::StorageFull,
            ErrorKind::ReadOnly => io::ErrorKind::ReadOnlyFilesystem,
            ErrorKind::Deadlock => io::ErrorKind::Deadlock,
            ErrorKind::LockTimeout => io::ErrorKind::TimedOut,
            ErrorKind::Io | ErrorKind::Poisoned | ErrorKind::Closed => io::ErrorKind::Other,
            ErrorKind::OutOfResources | ErrorKind::Conflict | ErrorKind::Cancelled => io::ErrorKind::Other,
            ErrorKind::TreeDropped | ErrorKind::KeyMoved | ErrorKind::SnapshotTooOld => io::ErrorKind::Other,
        };
        let kind = error.0.source.as_ref().map_or_else(of_kind, io::Error::kind);
        io::Error::new(kind, error)
    }
}
