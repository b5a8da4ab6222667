//! Checks tables in memory, whole and damaged, against a model.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use parking_lot::Mutex;

use super::writer::TableMeta;
use super::*;
use crate::cache::BufferPool;
use crate::checksum::hash_key;
use crate::cursor::{Cursor, Kind, MAX_SEQ, SeqNo};
use crate::error::Result;
use crate::fs::{ReadFile, WriteFile};
use crate::options::{Compression, FilterPrefix};
use crate::rng::Rng;

mod damage;
mod model;

#[cfg(feature = "zstd")]
const COMPRESSIONS: &[Compression] = &[Compression::None, Compression::Lz4, Compression::Zstd];
#[cfg(not(feature = "zstd"))]
const COMPRESSIONS: &[Compression] = &[Compression::None, Compression::Lz4];

/// A file in memory.
#[derive(Debug, Clone, Default)]
struct MemFile(Arc<Mutex<Vec<u8>>>);

impl WriteFile for MemFile {
    fn append(&mut self, bytes: &[u8]) -> Result<()> {
        self.0.lock().extend_from_slice(bytes);
        Ok(())
    }

    fn len(&self) -> u64 {
        self.0.lock().len() as u64
    }

    fn sync(&mut self) -> Result<()> {
        Ok(())
    }

    fn start_writeback(&mut self) {}

    fn path(&self) -> &Path {
        Path::new("memory.table")
    }
}

#[derive(Debug)]
struct MemRead(Vec<u8>);

impl ReadFile for MemRead {
    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> Result<()> {
        let from = offset as usize;
        match self.0.get(from..from + buf.len()) {
            Some(bytes) => {
                buf.copy_from_slice(bytes);
                Ok(())
            }
            None => Err(Error::corruption(self.path(), offset, "expected more bytes")),
        }
    }

    fn len(&self) -> u64 {
        self.0.len() as u64
    }

    fn path(&self) -> &Path {
        Path::new("memory.table")
    }

    fn prefetch(&self, _offset: u64, _len: u64) {}
}

/// Random bytes out of a small alphabet.
fn some_bytes(rng: &mut Rng, len: usize, alphabet: usize) -> Vec<u8> {
    (0..len).map(|_| rng.index(alphabet) as u8).collect()
}

/// Ascending by key, then newest first.
type Model = BTreeMap<(Vec<u8>, std::cmp::Reverse<SeqNo>), (Kind, Vec<u8>)>;

fn build(model: &Model, options: TableOptions) -> (Vec<u8>, TableMeta) {
    let file = MemFile::default();
    let mut writer = TableWriter::new(Box::new(file.clone()), options).expect("supported options");
    for ((key, seq), (kind, value)) in model {
        writer.add(key, seq.0, *kind, value).expect("ascending entries");
    }
    let (meta, _) = writer.finish().expect("files in memory do not fail");
    let bytes = std::mem::take(&mut *file.0.lock());
    assert_eq!(meta.size, bytes.len() as u64);
    (bytes, meta)
}

fn open(bytes: Vec<u8>, pool_bytes: usize) -> Result<Arc<TableReader>> {
    TableReader::open(Arc::new(MemRead(bytes)), 1, Arc::new(BufferPool::new(pool_bytes))).map(Arc::new)
}

/// The cursor's entry, or `None` while it is invalid.
fn current(cursor: &TableCursor) -> Option<(Vec<u8>, SeqNo, Kind, Vec<u8>)> {
    let entry = || (cursor.key().to_vec(), cursor.seq(), cursor.kind(), cursor.value().to_vec());
    cursor.valid().then(entry)
}
