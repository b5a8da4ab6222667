//! An appended record log in a file of its own: the manifest.
//!
//! The first page holds magic, version, epoch and a check; records follow. Every append is synced before
//! it counts, so a reader may treat what is not whole at the end as torn: nobody acted upon it. A bad
//! record with a whole one behind it that claims the bytes before it as synced is damage.

use std::path::Path;

use super::record;
use crate::checksum::checksum;
use crate::codec::{u32_at, u64_at};
use crate::error::{Error, ErrorKind, Result};
use crate::fs::{FileSystem, WriteFile};

const MAGIC: &[u8; 8] = b"eskerMAN";
const VERSION: u32 = 1;
/// Where records begin.
pub(super) const PAGE: usize = 4096;

/// Appends records to a new file.
#[derive(Debug)]
pub(crate) struct StreamWriter {
    file: Box<dyn WriteFile>,
    epoch: u64,
    synced: u64,
    buf: Vec<u8>,
}

impl StreamWriter {
    /// Creates the file. Nothing is durable before the first `sync`.
    pub(crate) fn create(fs: &dyn FileSystem, path: &Path, epoch: u64) -> Result<StreamWriter> {
        let mut file = fs.create(path)?;
        let mut page = Vec::with_capacity(PAGE);
        page.extend_from_slice(MAGIC);
        page.extend_from_slice(&VERSION.to_le_bytes());
        page.extend_from_slice(&[0; 4]);
        page.extend_from_slice(&epoch.to_le_bytes());
        page.extend_from_slice(&checksum(0, &page).to_le_bytes());
        page.resize(PAGE, 0);
        file.append(&page)?;
        Ok(StreamWriter { file, epoch, synced: 0, buf: Vec::new() })
    }

    /// Appends one record.
    pub(crate) fn append(&mut self, payload: &[u8]) -> Result<()> {
        let offset = self.file.len();
        let mut header = record::header_for(payload);
        record::seal(&mut header, self.epoch, offset, offset - self.synced);
        self.buf.clear();
        self.buf.extend_from_slice(&header);
        self.buf.extend_from_slice(payload);
        self.file.append(&self.buf)
    }

    /// Makes everything appended durable.
    pub(crate) fn sync(&mut self) -> Result<()> {
        self.file.sync()?;
        self.synced = self.file.len();
        Ok(())
    }

    /// Bytes in the file.
    pub(crate) fn len(&self) -> u64 {
        self.file.len()
    }
}

/// What was found in a record log.
#[derive(Debug)]
pub(crate) struct StreamContents {
    /// The payloads of the whole records, in order, with their offsets.
    pub(crate) records: Vec<(u64, Vec<u8>)>,
    /// Where the torn tail begins, when there is one.
    pub(crate) torn_at: Option<u64>,
}

/// The epoch in the header of the record log `bytes`, which is in `path`.
pub(super) fn stream_epoch(bytes: &[u8], path: &Path) -> Result<u64> {
    let page = bytes.get(..PAGE).ok_or_else(|| {
        Error::corruption(path, 0, "the file is shorter than its header page of 4096 bytes")
    })?;
    if &page[..8] != MAGIC {
        return Err(Error::corruption(path, 0, "not a manifest: the magic number is missing"));
    }
    if checksum(0, &page[..24]) != u64_at(page, 24) {
        return Err(Error::corruption(path, 0, "the header's checksum does not match"));
    }
    let version = u32_at(page, 8);
    if version != VERSION {
        let message = format!("manifest format {version} is newer than this build, which knows {VERSION}");
        return Err(Error::new(ErrorKind::Unsupported, message).at(path));
    }
    Ok(u64_at(page, 16))
}

/// The payloads of a record log up to the first record that is not whole, damage or not.
pub(crate) fn read_stream_prefix(fs: &dyn FileSystem, path: &Path) -> Result<Vec<Vec<u8>>> {
    let bytes = fs.read(path)?;
    let epoch = stream_epoch(&bytes, path)?;
    let (mut payloads, mut offset) = (Vec::new(), PAGE);
    while let Some(found) = record::read(&bytes, offset, epoch) {
        payloads.push(found.payload.to_vec());
        offset += found.len();
    }
    Ok(payloads)
}

/// Reads a record log of which `known_synced` bytes at least were synced (0 when nobody knows). A torn
/// tail is reported, damage is an error.
pub(crate) fn read_stream(fs: &dyn FileSystem, path: &Path, known_synced: u64) -> Result<StreamContents> {
    let bytes = fs.read(path)?;
    let epoch = stream_epoch(&bytes, path)?;
    let mut records = Vec::new();
    let mut offset = PAGE;
    while let Some(found) = record::read(&bytes, offset, epoch) {
        records.push((offset as u64, found.payload.to_vec()));
        offset += found.len();
    }
    if offset == bytes.len() && offset as u64 >= known_synced {
        return Ok(StreamContents { records, torn_at: None });
    }
    let claimed = record::find_from(&bytes, offset + 1, epoch)
        .any(|(at, found)| found.lag.is_some_and(|lag| (at as u64).saturating_sub(lag) > offset as u64));
    if claimed || (offset as u64) < known_synced {
        return Err(Error::corruption(
            path,
            offset as u64,
            "a record is damaged that was synced: it is not a torn tail",
        ));
    }
    Ok(StreamContents { records, torn_at: Some(offset as u64) })
}
