//! Writes a file of many values, one after the other.
//!
//! ```text
//! ... | descriptor | zeros to the value's place | value | zeros to 8 | sums | descriptor | ...
//!     ^ a multiple of 8                                                ^ end: where the next one begins
//! ```
//! When `append` returns, the value is in the file and survives the death of the process. It is durable after a sync of
//! the file, which is up to the owner. A value that could not be written is cut off again.

use std::io::IoSlice;
use std::path::Path;
use std::sync::Arc;

use super::chunks::{CHUNK_LOG2, Identity, Summer, sums_len};
use super::file::BlobFile;
use super::format::{
    ENTRY, Entry, FILE_LEN_MAX, Header, KEY_MAX, Layout, PAGE, align8, descriptor_len, encode_footer,
    key_hash,
};
use crate::canary::broken;
use crate::error::{Error, ErrorKind, Result};
use crate::fs::{FileSystem, RandomFile, descriptors};

/// Values of at least this length begin at a multiple of 4096. Therefore they can be mapped, shared with other files,
/// and given back whole. For shorter values this would waste more than an eighth of their space.
const ALIGN_FROM: u64 = 32 << 10;

/// About how many bytes of a file a value of `len` bytes takes: at least as many as with a short key.
pub(super) fn footprint(len: u64) -> u64 {
    let descriptor = descriptor_len(32);
    let whole = if len >= ALIGN_FROM { len.next_multiple_of(PAGE) + PAGE } else { len + descriptor };
    whole + sums_len(len, CHUNK_LOG2) + ENTRY as u64
}

/// Creates the file `path` with its first page. If the page cannot be written, the file is removed.
pub(super) fn create(fs: &dyn FileSystem, path: &Path, header: &Header) -> Result<Arc<dyn RandomFile>> {
    let file = descriptors::opened(fs, || fs.create_random(path))?;
    if let Err(error) = file.write_at(&[IoSlice::new(&header.encode())], 0) {
        // Best effort: the first error is the one to report.
        drop(fs.remove_file(path));
        return Err(error);
    }
    Ok(file)
}

/// Refuses a key that no descriptor can hold.
pub(super) fn check_key(key: &[u8], path: &Path) -> Result<()> {
    if key.len() <= KEY_MAX {
        return Ok(());
    }
    Err(Error::new(ErrorKind::InvalidInput, "the key of a value is over the limit").at(path))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// The file ends at `end`.
    Clean,
    /// A failed write may have left bytes after `end`.
    Torn,
    Sealed,
}

#[derive(Debug)]
pub(crate) struct SharedWriter {
    file: Arc<dyn RandomFile>,
    blob: Arc<BlobFile>,
    header: Header,
    end: u64,
    state: State,
    entries: Vec<Entry>,
    head: Vec<u8>,
}

impl SharedWriter {
    pub(super) fn create(fs: &dyn FileSystem, path: &Path, header: Header) -> Result<Self> {
        let header = Header { layout: Layout::Shared, ..header };
        let file = create(fs, path, &header)?;
        let blob = Arc::new(BlobFile::new(Arc::clone(&file).as_read(), header.number, header, &[]));
        Ok(SharedWriter {
            file,
            blob,
            header,
            end: PAGE,
            state: State::Clean,
            entries: Vec::new(),
            head: Vec::new(),
        })
    }

    /// Writes a value after all others and shows it to readers. If this fails, the file does not have the value, and
    /// the caller may try the next one.
    pub(crate) fn append(&mut self, tree: u32, key: &[u8], value: &[u8], stored_us: u64) -> Result<Entry> {
        check_key(key, self.file.path())?;
        self.check_open()?;
        let ordinal = self.entries.len() as u64;
        let mut summer = Summer::new(Identity::new(self.header.salt, ordinal), self.header.chunk_log2);
        summer.add(value);
        let len = value.len() as u64;
        let entry = Entry {
            ordinal,
            offset: self.next_offset(key, len),
            len,
            stored_us,
            sums_check: summer.sums_check(),
            key_hash: key_hash(tree, key),
            desc_offset: self.end,
            tree,
        };
        self.write_record(&entry, key, value, summer.sums())?;
        self.entries.push(entry);
        self.blob.note(&entry);
        Ok(entry)
    }

    /// Where the next value begins, if it has `len` bytes.
    fn next_offset(&self, key: &[u8], len: u64) -> u64 {
        let alignment = if len >= ALIGN_FROM && !broken("rule-10-align") { PAGE } else { 8 };
        (self.end + descriptor_len(key.len())).next_multiple_of(alignment)
    }

    /// Writes a value of another file after all others. `entry` keeps everything except the place. Readers do not find
    /// the value here before the file is opened again.
    pub(super) fn append_moved(
        &mut self,
        entry: &Entry,
        key: &[u8],
        value: &[u8],
        sums: &[u8],
    ) -> Result<()> {
        self.check_open()?;
        let entry = Entry { offset: self.next_offset(key, entry.len), desc_offset: self.end, ..*entry };
        self.write_record(&entry, key, value, sums)?;
        self.entries.push(entry);
        Ok(())
    }

    fn write_record(&mut self, entry: &Entry, key: &[u8], value: &[u8], sums: &[u8]) -> Result<()> {
        if entry.offset.checked_add(entry.len).is_none_or(|end| end > FILE_LEN_MAX / 2) {
            return Err(Error::new(ErrorKind::InvalidInput, "the value is too long").at(self.file.path()));
        }
        self.head.clear();
        entry.encode_descriptor(key, self.header.salt, &mut self.head);
        self.head.resize((entry.offset - self.end) as usize, 0);
        let slack = [0; 8];
        let slack = &slack[..(entry.sums_offset() - entry.offset - entry.len) as usize];
        let parts = [&self.head, value, slack, sums].map(IoSlice::new);
        let written = self.file.write_at(&parts, self.end);
        if written.is_err() {
            self.state = State::Torn;
            self.cut()?;
        }
        written?;
        self.end = entry.end(self.header.chunk_log2);
        Ok(())
    }

    fn cut(&mut self) -> Result<()> {
        self.file.set_len(self.end)?;
        self.state = State::Clean;
        Ok(())
    }

    fn check_open(&mut self) -> Result<()> {
        match self.state {
            State::Clean => Ok(()),
            State::Torn => self.cut(),
            State::Sealed => {
                Err(Error::new(ErrorKind::InvalidInput, "the blob file is sealed").at(self.file.path()))
            }
        }
    }

    /// Whether the footer is written. If the seal failed even so, it was the sync that failed.
    pub(crate) fn is_sealed(&self) -> bool {
        self.state == State::Sealed
    }

    pub(crate) fn len(&self) -> u64 {
        self.end
    }

    /// The entries of the file; in the footer's order once it is sealed.
    pub(super) fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// The file for reading. It knows each value once `append` has returned.
    pub(crate) fn blob(&self) -> &Arc<BlobFile> {
        &self.blob
    }

    /// The file itself, to sync when its values have to be durable.
    pub(crate) fn file(&self) -> &Arc<dyn RandomFile> {
        &self.file
    }

    /// Ends the file with its footer and makes all of it durable. If the footer could not be written (the disk is
    /// full), the call may be repeated. If the sync has failed, it must not be.
    pub(crate) fn seal(&mut self) -> Result<()> {
        self.check_open()?;
        self.entries.sort_by_key(|entry| entry.ordinal);
        let footer = encode_footer(&self.header, self.end, &self.entries);
        if let Err(error) = self.file.write_at(&[IoSlice::new(&footer)], self.end) {
            self.state = State::Torn;
            self.cut()?;
            return Err(error);
        }
        debug_assert_eq!(self.end, align8(self.end));
        self.end += footer.len() as u64;
        self.state = State::Sealed;
        self.file.sync()
    }
}
