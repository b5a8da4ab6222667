//! One segment of the write-ahead log: a file of fixed length, allocated before its use and, for
//! small records, written once.
//!
//! ```text
//! sector 0   magic 8 | version 4 | 0 | id 8 | epoch 8 | first seq 8 | start position 8 | mount 16 | check 8
//! sector 1   published mark 8 | manifest mark 8 | manifest number mark 8
//! 4096       records
//! ```
//!
//! - `id` increases by one from segment to segment for the whole life of a store; the manifest names the
//!   first segment that matters.
//! - `epoch` is 64 fresh random bits for each use of the file (rule 6). Bytes that a reused file still holds
//!   from its last use fail a record's check.
//! - `first seq` is the number that the log gives next by counting; the first record may be a gap that raises it.
//!   Replay ends at a segment that begins with another number.
//! - `start position` is the position of byte 4096 in the log as a whole. Positions count record bytes.
//! - `mount` is the mark of the mount through which the segment is written ([`mount_mark`]).
//! - the published mark (rules 5 and 29) is one word, stored atomically. Within the same mount, everything before it
//!   was acknowledged, so a bad record there is damage and not a torn tail. Writes that do not sync store the mark.
//!   Synced writes leave the header page alone. Therefore a synced put dirties one page.
//! - the manifest mark states how many bytes of which manifest are known to be synced. It is stored after that sync. It
//!   may be old but is never false: a manifest that is not whole up to the mark is damaged.
//!
//! The magic is zeroed before any other part of a header is written, and set when the header is complete. Therefore a
//! header with a magic that is not zero and a check that fails is damage.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::canary::broken;
use crate::checksum::checksum;
use crate::codec::{u32_at, u64_at};
use crate::cursor::{MAX_SEQ, SeqNo};
use crate::env::Env;
use crate::error::{Error, ErrorKind, Result};
use crate::fs::{FileSystem, MappedFile, ReadFile, SyncFile, descriptors};

/// Where records begin.
pub(crate) const RECORDS_AT: u64 = 4096;

const MAGIC: &[u8; 8] = b"eskerWAL";
const VERSION: u32 = 1;
const HEADER_LEN: usize = 72;
/// Positions in the log stay below this.
pub(crate) const POSITION_MAX: u64 = 1 << 62;
/// Segment ids stay below this.
pub(crate) const SEGMENT_ID_MAX: u64 = 1 << 48;
const PUBLISHED_AT: u64 = 512;
const MANIFEST_AT: u64 = 520;
const MANIFEST_NUMBER_AT: u64 = 528;
const MARK_BITS: u32 = 48;

/// The contents of a segment's first sector.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SegmentHeader {
    pub(crate) id: u64,
    pub(crate) epoch: u64,
    pub(crate) first_seq: SeqNo,
    pub(crate) start: u64,
    pub(crate) mount: [u8; 16],
}

impl SegmentHeader {
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(HEADER_LEN);
        out.extend_from_slice(MAGIC);
        out.extend_from_slice(&VERSION.to_le_bytes());
        out.extend_from_slice(&[0; 4]);
        out.extend_from_slice(&self.id.to_le_bytes());
        out.extend_from_slice(&self.epoch.to_le_bytes());
        out.extend_from_slice(&self.first_seq.to_le_bytes());
        out.extend_from_slice(&self.start.to_le_bytes());
        out.extend_from_slice(&self.mount);
        let check = checksum(0, &out);
        out.extend_from_slice(&check.to_le_bytes());
        out
    }

    /// Decodes the header in a segment's first page; `None` for a file that was prepared but not used yet, or whose
    /// header never reached the disk. Damage and a newer format are errors.
    pub(crate) fn decode(page: &[u8], path: &Path) -> Result<Option<SegmentHeader>> {
        let Some(raw) = page.get(..HEADER_LEN) else { return Ok(None) };
        if raw[..8] == [0; 8] {
            return Ok(None);
        }
        if &raw[..8] != MAGIC || checksum(0, &raw[..HEADER_LEN - 8]) != u64_at(raw, HEADER_LEN - 8) {
            return Err(Error::corruption(path, 0, "the log segment's header does not match its checksum"));
        }
        let version = u32_at(raw, 8);
        if version != VERSION {
            let message = format!(
                "log format {version} is newer than this version of Esker, which reads format {VERSION}"
            );
            return Err(Error::new(ErrorKind::Unsupported, message).at(path));
        }
        let [id, epoch, first_seq, start] = [16, 24, 32, 40].map(|at| u64_at(raw, at));
        if first_seq > MAX_SEQ || start > POSITION_MAX || id > SEGMENT_ID_MAX {
            return Err(Error::corruption(path, 0, "the log segment's header holds numbers out of range"));
        }
        let mut mount = [0; 16];
        mount.copy_from_slice(&raw[48..64]);
        Ok(Some(SegmentHeader { id, epoch, first_seq, start, mount }))
    }
}

/// Identifies the mount through which `dir` is reached, in this boot of the machine. While the mark stays the
/// same, data written through the mount is still there, at least in the page cache. A device that goes away
/// and comes back gets another mark even without a reboot. Zeros mean that the mount is unknown; then no mark
/// is trusted.
pub(crate) fn mount_mark(fs: &dyn FileSystem, dir: &Path) -> [u8; 16] {
    let boot = fs.boot_id();
    let mount = if broken("rule-29") { 1 } else { fs.mount_id(dir) };
    let mut mark = [0; 16];
    if boot != [0; 16] && mount != 0 {
        for (half, salt) in mark.chunks_exact_mut(8).zip(1..) {
            half.copy_from_slice(&checksum(salt, &[&boot[..], &mount.to_le_bytes()].concat()).to_le_bytes());
        }
    }
    mark
}

fn encode_mark(value: u64, salt: u64) -> u64 {
    let check = checksum(salt, &value.to_le_bytes());
    (check << MARK_BITS) | (value & ((1 << MARK_BITS) - 1))
}

fn decode_mark(page: &[u8], at: u64, salt: u64) -> u64 {
    let at = at as usize;
    if page.len() < at + 8 {
        return 0;
    }
    let word = u64_at(page, at);
    let value = word & ((1 << MARK_BITS) - 1);
    if encode_mark(value, salt) == word { value } else { 0 }
}

/// Clears the marks in a segment's first page, for a copy of the segment: they describe the original.
pub(crate) fn clear_marks(page: &mut [u8]) {
    page[PUBLISHED_AT as usize..MANIFEST_NUMBER_AT as usize + 8].fill(0);
}

/// Whether a segment file holds at most a header: no record, and no mark of a manifest.
pub(crate) fn is_unwritten(file: &dyn ReadFile) -> Result<bool> {
    let (mut at, mut piece) = (file.next_data(PUBLISHED_AT), vec![0; 256 << 10]);
    while at < file.len() {
        let len = piece.len().min(usize::try_from(file.len() - at).unwrap_or(usize::MAX));
        file.read_exact_at(&mut piece[..len], at)?;
        if piece[..len].iter().any(|&byte| byte != 0) {
            return Ok(false);
        }
        at = file.next_data(at + len as u64);
    }
    Ok(true)
}

/// The offset before which everything was acknowledged; 0 if unknown.
pub(crate) fn published_mark(page: &[u8], epoch: u64) -> u64 {
    decode_mark(page, PUBLISHED_AT, epoch)
}

/// How many bytes of manifest number `manifest` are known to be synced; 0 if unknown.
pub(crate) fn manifest_mark(page: &[u8], epoch: u64, manifest: u64) -> u64 {
    if decode_mark(page, MANIFEST_NUMBER_AT, epoch) != manifest {
        return 0;
    }
    decode_mark(page, MANIFEST_AT, epoch ^ !manifest)
}

/// The number of the manifest that the marks describe; 0 if unknown.
pub(super) fn marked_manifest(page: &[u8], epoch: u64) -> u64 {
    decode_mark(page, MANIFEST_NUMBER_AT, epoch)
}

/// A file that is ready to become the next segment: allocated, its name durable.
#[derive(Debug)]
pub(crate) struct SpareSegment {
    pub(crate) file: Arc<dyn MappedFile>,
    /// Whether it was prepared for records of many pages each.
    pub(crate) bulk: bool,
}

impl SpareSegment {
    /// Allocates a new file of `len` bytes.
    pub(crate) fn create(fs: &dyn FileSystem, path: &Path, len: u64, bulk: bool) -> Result<SpareSegment> {
        let create = || if bulk { fs.create_bulk(path, len) } else { fs.create_mapped(path, len) };
        let file = descriptors::opened(fs, create)?;
        if let Some(dir) = path.parent() {
            fs.sync_dir(dir)?;
        }
        Ok(SpareSegment { file, bulk })
    }

    /// Takes over a file that was a segment before. A file with a second name may be part of a user's copy:
    /// then the file keeps that name, this name is removed, and the result is `None`.
    pub(crate) fn reuse(fs: &dyn FileSystem, path: &Path, bulk: bool) -> Result<Option<SpareSegment>> {
        if is_shared(fs, path)? {
            return fs.remove_file(path).map(|()| None);
        }
        let file = descriptors::opened(fs, || if bulk { fs.open_bulk(path) } else { fs.open_mapped(path) })?;
        Ok(Some(SpareSegment { file, bulk }))
    }
}

/// Whether a segment has a second name, as after a copy of the directory by hard links.
pub(crate) fn is_shared(fs: &dyn FileSystem, path: &Path) -> Result<bool> {
    Ok(fs.link_count(path)? > 1)
}

/// Creates segment number 1 without records and without room for any: the log of a store that has nothing to
/// replay.
pub(crate) fn create_empty(env: &Env, path: &Path, first_seq: SeqNo) -> Result<()> {
    // All its marks are unset.
    let (epoch, mount) = (env.random.next_u64(), [0; 16]);
    let mut page = SegmentHeader { id: 1, epoch, first_seq, start: 0, mount }.encode();
    page.resize(RECORDS_AT as usize, 0);
    let mut file = env.fs.create(path)?;
    file.append(&page)?;
    file.sync()
}

/// A segment in use. The writers that copy records into it and the thread that syncs it share it.
#[derive(Debug)]
pub(crate) struct Segment {
    /// `None` after the store was closed.
    file: Option<Arc<dyn MappedFile>>,
    path: PathBuf,
    len: u64,
    header: SegmentHeader,
    /// See [`SpareSegment::bulk`].
    pub(crate) bulk: bool,
}

impl Segment {
    /// Starts a use of `spare` under `header`.
    pub(crate) fn start(spare: SpareSegment, header: SegmentHeader) -> Result<Segment> {
        let mut sector = header.encode();
        sector.resize(512, 0);
        // The magic is cleared first and set last, each time as one word. If the process or the machine dies
        // in between, the file is not in use.
        let magic = u64::from_le_bytes(*MAGIC);
        spare.file.store_u64(0, 0)?;
        spare.file.store(8, &sector[8..])?;
        for mark in [PUBLISHED_AT, MANIFEST_AT, MANIFEST_NUMBER_AT] {
            spare.file.store_u64(mark, 0)?;
        }
        spare.file.store_u64(0, magic)?;
        let (path, len) = (spare.file.path().to_path_buf(), spare.file.len());
        Ok(Segment { file: Some(spare.file), path, len, header, bulk: spare.bulk })
    }

    /// The same segment without its file; later stores and syncs fail with `Closed`.
    pub(super) fn released(&self) -> Segment {
        let Segment { len, header, bulk, .. } = *self;
        Segment { file: None, path: self.path(), len, header, bulk }
    }

    #[inline]
    fn file(&self) -> Result<&dyn MappedFile> {
        let closed = || Error::new(ErrorKind::Closed, "the store is closed").at(&self.path);
        self.file.as_deref().ok_or_else(closed)
    }

    pub(crate) fn header(&self) -> &SegmentHeader {
        &self.header
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.path.clone()
    }

    /// The offset after the last byte that a record may take.
    pub(crate) fn end(&self) -> u64 {
        self.len
    }

    /// The position in the whole log of `offset` in this file.
    pub(crate) fn position(&self, offset: u64) -> u64 {
        self.header.start + (offset - RECORDS_AT)
    }

    /// Copies a sealed record to `offset`, which the caller has reserved.
    pub(crate) fn store(&self, offset: u64, record: &[u8]) -> Result<()> {
        self.file()?.store(offset, record)
    }

    /// Records in the header that everything before `offset` was acknowledged.
    pub(crate) fn mark_published(&self, offset: u64) -> Result<()> {
        self.file()?.store_u64(PUBLISHED_AT, encode_mark(offset, self.header.epoch))
    }

    /// Records in the header that `len` bytes of manifest number `manifest` are synced.
    pub(crate) fn mark_manifest(&self, manifest: u64, len: u64) -> Result<()> {
        // Between the stores the marks describe no manifest.
        let file = self.file()?;
        file.store_u64(MANIFEST_NUMBER_AT, 0)?;
        file.store_u64(MANIFEST_AT, encode_mark(len, self.header.epoch ^ !manifest))?;
        file.store_u64(MANIFEST_NUMBER_AT, encode_mark(manifest, self.header.epoch))
    }

    /// A handle that syncs the segment without keeping it mapped.
    pub(crate) fn sync_handle(&self) -> Result<Arc<dyn SyncFile>> {
        Ok(self.file()?.sync_handle())
    }
}
