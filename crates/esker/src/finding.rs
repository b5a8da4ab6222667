//! Reports of damage: the file, the place, and what was expected.

use std::path::{Path, PathBuf};

use crate::error::Error;

/// One damaged place.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub struct Finding {
    /// The file.
    pub file: PathBuf,
    /// The offset in bytes at which the damaged part begins.
    pub offset: u64,
    /// The expected content of that place.
    pub reason: String,
}

/// The result of [`check`](crate::check) or [`Db::scrub`](crate::Db::scrub).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CheckReport {
    /// The damaged places, in the order in which they were found. If this is empty, everything that was read is sound.
    pub findings: Vec<Finding>,
    /// The number of files read.
    pub files: u64,
    /// Their size in bytes.
    pub bytes: u64,
    /// The number of sound entries in tables.
    pub entries: u64,
    /// The number of sound records in the log.
    pub records: u64,
    /// The number of log entries that are in no table yet. If the log is damaged, the number of all whole entries.
    pub log_entries: u64,
    /// The number of sound huge values.
    pub blobs: u64,
    /// Whether the check was cancelled ([`check_until`](crate::check_until)). Then it did not read everything.
    pub is_cancelled: bool,
}

impl CheckReport {
    /// Adds the place that `error` names, in the store in `dir`.
    pub(crate) fn found(&mut self, error: &Error, dir: &Path) {
        self.findings.push(Finding {
            file: error.path().unwrap_or(dir).to_path_buf(),
            offset: error.offset().unwrap_or(0),
            reason: error.message().to_owned(),
        });
    }
}
