//! Failures that a test requests: which call, on which file, when, and with what error.

use std::io;
use std::path::Path;

use super::handles::EIO;
use crate::error::Error;
use crate::rng::Rng;

/// The kinds of calls that can fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Op {
    /// Opening an existing file, reading, listing, querying a length, a size or a number of names.
    Read,
    /// A read of a file's bytes that reaches the device: see [`SimFs::set_page_cache`](super::SimFs::set_page_cache).
    DeviceRead,
    /// [`WriteFile::append`](crate::fs::WriteFile::append).
    Append,
    /// [`MappedFile::store`](crate::fs::MappedFile::store) and `store_u64` (as on a file system without mapping).
    Store,
    /// [`RandomFile::write_at`](crate::fs::RandomFile::write_at). By then the first half is written; if it made the
    /// file longer, it is cut off again.
    WriteAt,
    /// [`RandomFile::set_len`](crate::fs::RandomFile::set_len).
    SetLen,
    /// [`FileSystem::punch_hole`](crate::fs::FileSystem::punch_hole).
    Punch,
    /// `sync` of any kind of file. Dirty data is lost: a second sync succeeds without it, as in Linux.
    Sync,
    /// Syncing a directory. Its pending names stay pending.
    SyncDir,
    /// Creating a file or a directory.
    Create,
    /// Renaming.
    Rename,
    /// Removing a file or a directory.
    Remove,
    /// Creating a hard link.
    Link,
    /// Taking the lock.
    Lock,
    /// Creating or opening a mapped file.
    CreateMapped,
    /// Setting space aside with [`FileSystem::set_allocated`](crate::fs::FileSystem::set_allocated).
    Allocate,
}

/// Which of the matching calls fail.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum When {
    /// The n-th matching call after the fault was injected, counting from 1.
    Nth(u64),
    /// Each matching call with this probability, drawn from `seed`.
    Chance {
        /// From 0 to 1.
        probability: f64,
        /// Reproduces the draws.
        seed: u64,
    },
}

/// The error of a failing call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FaultError {
    /// An error without a cause.
    Io,
    /// `EIO`, or another error of the device.
    Device,
    /// `ENOSPC`.
    NoSpace,
    /// `EXDEV`.
    OtherDevice,
    /// `EMFILE`, or another error that means that the process has too many files.
    OutOfResources,
}

/// A failure to inject with [`SimFs::inject`](super::SimFs::inject).
///
/// # Example
/// ```
/// use esker::fs::sim::{Fault, FaultError, Op};
/// let fault = Fault::new(Op::Append, ".table").nth(3).error(FaultError::NoSpace).forever();
/// ```
#[derive(Debug, Clone)]
pub struct Fault {
    op: Op,
    path_contains: String,
    when: When,
    error: FaultError,
    /// How many calls fail.
    times: u64,
}

impl Fault {
    /// The next `op` on a path that contains `path_contains` (empty: any path) fails, once.
    pub fn new(op: Op, path_contains: impl Into<String>) -> Self {
        let path_contains = path_contains.into();
        Fault { op, path_contains, when: When::Nth(1), error: FaultError::Io, times: 1 }
    }

    /// The `n`-th matching call fails, counting from 1.
    #[must_use]
    pub fn nth(mut self, n: u64) -> Self {
        self.when = When::Nth(n);
        self
    }

    /// Each matching call fails with `probability`. Only the first such call fails, unless [`forever`](Self::forever).
    #[must_use]
    pub fn chance(mut self, probability: f64, seed: u64) -> Self {
        self.when = When::Chance { probability, seed };
        self
    }

    /// The error to fail with.
    #[must_use]
    pub fn error(mut self, error: FaultError) -> Self {
        self.error = error;
        self
    }

    /// Keeps failing: every call from the n-th on, or every drawn call.
    #[must_use]
    pub fn forever(self) -> Self {
        self.times(u64::MAX)
    }

    /// Fails `n` calls in a row from the n-th on, or the first `n` drawn calls.
    #[must_use]
    pub fn times(mut self, n: u64) -> Self {
        self.times = n;
        self
    }
}

/// A fault and its progress.
#[derive(Debug, Clone)]
pub(super) struct Armed {
    fault: Fault,
    calls: u64,
    failed: u64,
    rng: Rng,
}

impl Armed {
    pub(super) fn new(fault: Fault) -> Self {
        let seed = match fault.when {
            When::Chance { seed, .. } => seed,
            When::Nth(_) => 0,
        };
        Armed { fault, calls: 0, failed: 0, rng: Rng::new(seed) }
    }

    /// The error of this call, if it is to fail.
    pub(super) fn hit(&mut self, op: Op, path: &Path) -> Option<Error> {
        let matches = op == self.fault.op && path.to_string_lossy().contains(&self.fault.path_contains);
        if !matches || self.failed == self.fault.times {
            return None;
        }
        self.calls += 1;
        let fails = match self.fault.when {
            When::Nth(n) => self.calls >= n,
            When::Chance { probability, .. } => self.rng.chance(probability),
        };
        self.failed += u64::from(fails);
        let error = match self.fault.error {
            FaultError::Io => io::Error::other("the device failed"),
            FaultError::Device => io::Error::from_raw_os_error(EIO),
            FaultError::NoSpace => io::ErrorKind::StorageFull.into(),
            FaultError::OtherDevice => io::ErrorKind::CrossesDevices.into(),
            FaultError::OutOfResources => io::ErrorKind::OutOfMemory.into(),
        };
        fails.then(|| Error::io(&format!("do what was asked ({op:?}, injected)"), path, error))
    }
}
