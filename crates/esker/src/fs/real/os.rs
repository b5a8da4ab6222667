//! Everything that differs between operating systems. The rest of `real` is the same on all of them.
//!
//! ```text
//!               names, files             what only Linux has
//! Linux         at.rs, unix.rs, view.rs  linux.rs, map.rs, resident.rs
//! macOS, BSDs   at.rs, unix.rs, view.rs  plain.rs: done without
//! Windows       paths.rs, windows.rs     plain.rs
//! ```
//!
//! The other systems do without hints to the kernel, allocation (zeros are written instead), holes (`Unsupported`),
//! shared blocks (none) and mapped log segments (stores are written). Every promise holds without them: they save time
//! or space.

use std::io;
use std::path::{Path, PathBuf};

#[cfg(unix)]
mod at;
#[cfg(target_os = "linux")]
mod cgroup;
#[cfg(target_os = "linux")]
mod linux;
#[cfg(target_os = "linux")]
mod map;
#[cfg(unix)]
mod pages;
#[cfg(windows)]
mod paths;
#[cfg(not(target_os = "linux"))]
mod plain;
#[cfg(target_os = "linux")]
mod resident;
#[cfg(unix)]
mod unix;
#[cfg(unix)]
mod view;
#[cfg(windows)]
mod windows;

#[cfg(unix)]
pub(in crate::fs) use at::*;
#[cfg(target_os = "linux")]
pub(in crate::fs) use cgroup::memory_limit;
#[cfg(target_os = "linux")]
pub(crate) use linux::*;
#[cfg(target_os = "linux")]
pub(in crate::fs) use map::Map;
#[cfg(windows)]
pub(in crate::fs) use paths::*;
#[cfg(not(target_os = "linux"))]
pub(crate) use plain::*;
#[cfg(target_os = "linux")]
pub(in crate::fs) use resident::Resident;
#[cfg(unix)]
pub(in crate::fs) use unix::*;
#[cfg(unix)]
pub(in crate::fs) use view::View;
#[cfg(windows)]
pub(in crate::fs) use windows::*;

/// The access that an opening requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::fs) enum Access {
    /// To read an existing file.
    Read,
    /// To read and write an existing file.
    Write,
    /// To read and write a file that does not exist yet.
    New,
    /// To read and write a file, whether or not it exists yet.
    Any,
}

/// The path of an existing file, without links, `.` and `..`.
pub(in crate::fs) fn resolve(path: &Path) -> io::Result<PathBuf> {
    std::fs::canonicalize(path)
}
