//! Internals that the design measurements of `bench/` can call. They exist only with `--cfg esker_measure` and are not
//! part of the interface: anything here may change or disappear with any commit.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;

use crate::blob::{BlobFile, Header, Layout, Pointer, SingleWriter};
use crate::cache::{BufferPool, PageId, simulated_hits};
use crate::checksum::hash_key;
use crate::cursor::{Kind, MAX_SEQ};
use crate::env::StepExecutor;
use crate::error::Result;
use crate::fs::{FileSystem, RealFs};
use crate::memtable::{ChunkPool, Memtable, NewEntry};
pub use crate::table::measure::{BlockHeads, BlockIndex};

/// A memtable, with a lock around reservations as in the store.
#[derive(Debug)]
pub struct SkipList {
    table: Memtable,
    reserving: Mutex<()>,
}

impl SkipList {
    /// An empty memtable. It and its successors share a pool of at most `pool_bytes` of free memory.
    pub fn new(pool_bytes: usize) -> SkipList {
        SkipList::over(Memtable::over(Some(Arc::new(ChunkPool::new(pool_bytes)))))
    }

    /// The empty memtable that a store would continue with when this one is full.
    pub fn successor(&self) -> SkipList {
        SkipList::over(self.table.successor())
    }

    fn over(table: Memtable) -> SkipList {
        SkipList { table, reserving: Mutex::new(()) }
    }

    /// Adds a version of `key`. No other version of this key may have the same `seq`.
    pub fn put(&self, key: &[u8], seq: u64, value: &[u8]) -> Result<()> {
        let entry = NewEntry::new(Memtable::random_height(), key, seq, Kind::Put, value);
        let mut region = {
            let _alone = self.reserving.lock();
            self.table.reserve(entry.size())?
        };
        self.table.insert(&mut region, &entry);
        Ok(())
    }

    /// The newest value of `key`.
    pub fn get(&self, key: &[u8]) -> Option<&[u8]> {
        self.table.get(key, hash_key(key), MAX_SEQ).map(|(_, _, value)| value)
    }
}

/// A huge value in its own file, with a chunk size to measure.
#[derive(Debug)]
pub struct Chunked {
    path: PathBuf,
    pointer: Pointer,
    file: BlobFile,
}

impl Chunked {
    /// Writes `value` to the new file `path` in chunks of 2^`chunk_log2` bytes.
    pub fn write(path: &Path, value: &[u8], chunk_log2: u8) -> Result<Chunked> {
        let fs: Arc<dyn FileSystem> = Arc::new(RealFs::default());
        let header = Header { layout: Layout::Single, chunk_log2, number: 1, salt: 7, created_us: 0 };
        let mut writer = SingleWriter::create(&fs, path, header, false)?;
        writer.write(value, &StepExecutor)?;
        let pointer = writer.finish(1, b"key", 0)?.entry.pointer(1);
        let file = BlobFile::open_sealed(fs.open_read(path)?, 1)?;
        Ok(Chunked { path: path.to_path_buf(), pointer, file })
    }

    /// Opens the file again. Then none of its chunks is verified.
    pub fn reopen(&mut self) -> Result<()> {
        self.file = BlobFile::open_sealed(RealFs::default().open_read(&self.path)?, 1)?;
        Ok(())
    }

    /// Fills `buf` with the bytes from `offset` on, on this thread alone.
    pub fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
        self.file.read_at(&self.pointer, offset, buf, &StepExecutor)
    }
}

/// The buffer pool, filled with pages of one table.
#[derive(Debug)]
pub struct Pool(BufferPool);

impl Pool {
    /// A pool of `capacity` bytes.
    pub fn new(capacity: usize) -> Pool {
        Pool(BufferPool::new(capacity))
    }

    /// Adds page `number`.
    pub fn insert(&self, number: usize, page: &Arc<[u8]>) {
        if let Some(id) = PageId::new(1, number) {
            self.0.insert(id, page);
        }
    }

    /// Page `number`, if the pool has it.
    #[inline]
    pub fn get(&self, number: usize) -> Option<Arc<[u8]>> {
        self.0.get(PageId::new(1, number)?)
    }
}

/// Requests each of `pages` from a shard of the buffer pool with room for `room` pages of equal length, and inserts
/// each page that is missing. Returns how many were there, and how many accesses there were. A store's pool has 16
/// shards, each with a sixteenth of the room and of the pages.
pub fn pool_hits(room: usize, pages: impl IntoIterator<Item = u64>) -> (u64, u64) {
    simulated_hits(room, pages)
}
