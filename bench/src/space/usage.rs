//! What a store's directory takes, by what its files are.

use crate::stores::Result;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Bytes allocated on the disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Usage {
    pub(super) blobs: u64,
    pub(super) tables: u64,
    pub(super) log: u64,
    pub(super) reserve: u64,
    pub(super) other: u64,
}

impl Usage {
    pub(super) fn of(dir: &Path) -> Result<Usage> {
        let mut usage = Usage::default();
        for entry in std::fs::read_dir(dir)? {
            let entry = entry?;
            let bytes = match entry.metadata() {
                Ok(metadata) => metadata.blocks() * 512,
                // Removed since it was listed.
                Err(error) if error.kind() == ErrorKind::NotFound => continue,
                Err(error) => return Err(error.into()),
            };
            *usage.part(&entry.file_name().to_string_lossy()) += bytes;
        }
        Ok(usage)
    }

    fn part(&mut self, name: &str) -> &mut u64 {
        // A blob file that is written anew is `NUMBER.blob.tmp` until then.
        match name {
            "RESERVE" => &mut self.reserve,
            _ if name.contains(".blob") => &mut self.blobs,
            _ if name.ends_with(".table") => &mut self.tables,
            _ if name.ends_with(".log") => &mut self.log,
            _ => &mut self.other,
        }
    }

    pub(super) fn total(&self) -> u64 {
        self.blobs + self.tables + self.log + self.reserve + self.other
    }
}
