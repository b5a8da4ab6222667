//! An appended record log in its own file: the manifest.
//!
//! The first page holds magic, version, epoch and a check; records follow. Every append is synced before it counts.
//! Therefore a record at the end that is not whole is torn: nothing relied on it. A bad record is damage if a later
//! whole record states that the bytes before it were synced.

use std::path::{Path, PathBuf};

use super::pieces::Pieces;
use super::record;
use crate::checksum::checksum;
use crate::codec::{u32_at, u64_at};
use crate::error::{Error, ErrorKind, Result};
use crate::fs::{FileSystem, ReadFile, WriteFile, descriptors};

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
        let mut file = descriptors::opened(fs, || fs.create(path))?;
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

    /// Makes all appended records durable.
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

/// The contents of a record log.
#[derive(Debug)]
pub(crate) struct StreamContents {
    /// The payloads of the whole records, in order, with their offsets.
    pub(crate) records: Vec<(u64, Vec<u8>)>,
    /// Where the records end. The rest is a torn tail.
    pub(crate) end: u64,
}

/// The epoch in the header of the record log in `file`.
fn stream_epoch(file: &dyn ReadFile) -> Result<u64> {
    let path = file.path();
    if file.len() < PAGE as u64 {
        return Err(Error::corruption(path, 0, "the file is shorter than its header page of 4096 bytes"));
    }
    let page = &mut [0; PAGE];
    file.read_exact_at(page, 0)?;
    if &page[..8] != MAGIC {
        return Err(Error::corruption(path, 0, "not a manifest: the magic number is missing"));
    }
    if checksum(0, &page[..24]) != u64_at(page, 24) {
        return Err(Error::corruption(path, 0, "the header's checksum does not match"));
    }
    let version = u32_at(page, 8);
    if version != VERSION {
        let message = format!(
            "manifest format {version} is newer than this version of Esker, which reads format {VERSION}"
        );
        return Err(Error::new(ErrorKind::Unsupported, message).at(path));
    }
    Ok(u64_at(page, 16))
}

/// The epoch in the header of the record log in `path`.
pub(crate) fn read_epoch(fs: &dyn FileSystem, path: &Path) -> Result<u64> {
    stream_epoch(&*fs.open_read(path)?)
}

/// The records of the record log in `path`.
pub(super) fn open_stream(fs: &dyn FileSystem, path: &Path) -> Result<Pieces> {
    let file = fs.open_read(path)?;
    let epoch = stream_epoch(&*file)?;
    Ok(Pieces::of(file, epoch))
}

/// A record log that may have several identical copies. A record that is damaged in one copy is read from
/// another.
#[derive(Debug)]
pub(crate) struct Stream {
    /// The first of the files.
    path: PathBuf,
    files: Vec<Pieces>,
}

impl Stream {
    /// Reads the files in `paths`. Files of another log, which have another epoch, are left out. Returns
    /// `None` if no header is sound. Files that cannot be read and bad headers are added to `damage`.
    pub(crate) fn read(fs: &dyn FileSystem, paths: &[PathBuf], damage: &mut Vec<Error>) -> Option<Stream> {
        let (mut files, mut found) = (Vec::new(), None);
        for path in paths {
            let file = match fs.open_read(path) {
                Ok(file) => file,
                Err(error) => {
                    damage.push(error);
                    continue;
                }
            };
            match stream_epoch(&*file) {
                Ok(epoch) if *found.get_or_insert(epoch) != epoch => {}
                // Records carry the epoch too: it identifies the records of a file without a sound header.
                epoch => {
                    damage.extend(epoch.err());
                    files.push(file);
                }
            }
        }
        let epoch = found?;
        let files = files.into_iter().map(|file| Pieces::of(file, epoch)).collect();
        Some(Stream { path: paths.first()?.clone(), files })
    }

    /// The payloads up to the first record that is not whole, for any reason, with their offsets, and where they end.
    pub(crate) fn prefix(&mut self) -> Result<StreamContents> {
        let (mut records, mut offset) = (Vec::new(), PAGE as u64);
        while let Some(payload) = self.payload(offset)? {
            let len = (record::HEADER_LEN + payload.len()) as u64;
            records.push((offset, payload));
            offset += len;
        }
        Ok(StreamContents { records, end: offset })
    }

    /// The payload of the record at `offset`, from the first file in which it is whole.
    fn payload(&mut self, offset: u64) -> Result<Option<Vec<u8>>> {
        for file in &mut self.files {
            if let Some(found) = file.record(offset)? {
                return Ok(Some(found.payload.to_vec()));
            }
        }
        Ok(None)
    }

    /// Whether a record after `end` states that bytes after `end` were synced.
    fn goes_on_behind(&mut self, end: u64) -> Result<bool> {
        for file in &mut self.files {
            let mut next = end + 1;
            while let Some(at) = file.find_from(next)? {
                let lag = file.record(at)?.and_then(|found| found.lag);
                if lag.is_some_and(|lag| at.saturating_sub(lag) > end) {
                    return Ok(true);
                }
                next = at + 1;
            }
        }
        Ok(false)
    }

    /// The records. At least `known_synced` bytes were synced (0 if unknown).
    ///
    /// # Errors
    /// `Corruption` if the log ends in damage rather than in a torn tail.
    pub(crate) fn contents(&mut self, known_synced: u64) -> Result<StreamContents> {
        let contents = self.prefix()?;
        let end = contents.end;
        if end < known_synced || self.goes_on_behind(end)? {
            let message = "a record that was synced is damaged: it is not a torn tail";
            return Err(Error::corruption(&self.path, end, message));
        }
        Ok(contents)
    }
}

/// Reads a record log. At least `known_synced` bytes of it were synced (0 if unknown). A torn tail is left
/// out; damage is an error.
pub(crate) fn read_stream(fs: &dyn FileSystem, path: &Path, known_synced: u64) -> Result<StreamContents> {
    let files = vec![open_stream(fs, path)?];
    Stream { path: path.to_path_buf(), files }.contents(known_synced)
}
