//! Refuses invalid options before anything is opened or created.

use super::Options;
use crate::error::{Error, ErrorKind, Result};

/// Refuses a number that is not within `least..=most`.
fn within(name: &str, value: u64, least: u64, most: u64) -> Result<()> {
    if (least..=most).contains(&value) {
        return Ok(());
    }
    let message = format!("`{name}` is {value}; it must be from {least} to {most}");
    Err(Error::new(ErrorKind::InvalidInput, message))
}

impl Options {
    /// Refuses options that are out of range. Other options are valid at any value, or are raised to their minimum.
    pub(crate) fn check(&self) -> Result<()> {
        if let Some(bytes) = self.memtable_bytes {
            within("memtable_bytes", bytes as u64, 1 << 10, 64 << 30)?;
        }
        within("table_bytes", self.table_bytes as u64, 1 << 10, 4 << 30)?;
        within("block_bytes", self.block_bytes as u64, 64, 1 << 20)?;
        within("filter_bits", u64::from(self.filter_bits), 0, 128)?;
        within("blob_file_bytes", self.blob_file_bytes, 1, 1 << 48)
    }
}
