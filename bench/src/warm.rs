//! Ballast: page cache that keeps the machine's memory backed.
//!
//! A virtual machine may hand free memory back to its host; touching such a page again costs about ten times as
//! much, so that whatever fills the page cache or allocates runs several times slower on a fresh machine. Sparse
//! files, read through once, fill free memory with clean pages, which the kernel gives to whoever needs them at
//! once. They take no space on disk and stay until the end of the run; before each measured process only the
//! memory that has become free since is filled again.

use crate::process;
use crate::stores::Result;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

/// Left free, so that the kernel need not reclaim at once.
const SPARE_BYTES: u64 = 512 << 20;

/// Begins the name of each ballast file.
const PREFIX: &str = "ballast-";

/// Owns the ballast files, and removes them when dropped.
pub(crate) struct Ballast {
    dir: PathBuf,
    /// Open, so that the kernel keeps their pages when it is asked to forget inodes.
    files: Vec<(PathBuf, File)>,
}

impl Ballast {
    /// Also removes what a run that was killed has left in `dir`.
    pub(crate) fn new(dir: &Path) -> Ballast {
        for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
            if entry.file_name().to_string_lossy().starts_with(PREFIX) {
                std::fs::remove_file(entry.path()).ok();
            }
        }
        Ballast { dir: dir.to_path_buf(), files: Vec::new() }
    }

    /// Fills what memory is free now; returns how many bytes that was.
    pub(crate) fn fill(&mut self) -> Result<u64> {
        let bytes = process::free_memory_bytes().saturating_sub(SPARE_BYTES);
        if bytes == 0 {
            return Ok(0);
        }
        let path = self.dir.join(format!("{PREFIX}{}", self.files.len()));
        let file = File::create(&path)?;
        let sized = file.set_len(bytes);
        self.files.push((path.clone(), file));
        sized?;
        let mut reader = File::open(&path)?;
        let mut buffer = vec![0; 1 << 20];
        while reader.read(&mut buffer)? > 0 {}
        Ok(bytes)
    }

    /// Leaves the files to the caller.
    pub(crate) fn keep(mut self) -> Vec<PathBuf> {
        std::mem::take(&mut self.files).into_iter().map(|(path, _)| path).collect()
    }
}

impl Drop for Ballast {
    fn drop(&mut self) {
        for (path, _) in &self.files {
            std::fs::remove_file(path).ok();
        }
    }
}
