//! What every store must do for the driver, and how one is opened by name.

use std::path::Path;

mod esker;
#[cfg(feature = "leveldb")]
pub(crate) mod leveldb;
mod none;
#[cfg(feature = "rocksdb")]
pub(crate) mod rocksdb;

/// Failures are told to whoever runs the benchmark, never handled.
pub(crate) type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// Gets a row of a scan.
pub(crate) type Row<'a> = dyn FnMut(&[u8], &[u8]) + 'a;

/// One open store. Calls come from many threads at once in the synced workloads.
pub(crate) trait Store: Send + Sync {
    /// `sync`: the put survives power loss when the call returns; otherwise it survives the death of the process.
    fn put(&self, key: &[u8], value: &[u8], sync: bool) -> Result<()>;
    /// All pairs in one atomic batch, not synced.
    fn put_batch(&self, pairs: &[(&[u8], &[u8])]) -> Result<()>;
    fn delete(&self, key: &[u8]) -> Result<()>;
    /// Leaves the value in `value` and returns whether the key is there.
    fn get(&self, key: &[u8], value: &mut Vec<u8>) -> Result<bool>;
    /// A new iterator: rows from `from` (empty: the first) to `to` (inclusive; none: the last), at most `limit`;
    /// returns how many there were.
    fn scan(&self, from: &[u8], to: Option<&[u8]>, limit: u64, row: &mut Row<'_>) -> Result<u64>;
    /// Whether the store itself says that background work is waiting or running; a store that cannot tell says no.
    fn busy(&self) -> bool {
        false
    }
    fn close(self: Box<Self>) -> Result<()>;
}

/// How the stores are set up; README.md says what is equal and what cannot be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Settings {
    /// What each store does when nobody sets anything.
    Default,
    /// 1 GiB cache, 64 MiB write buffers, no compression, 10 filter bits a key, 2 background threads.
    Equal,
}

/// The names that `open` understands, in the order in which they are measured.
pub(crate) const NAMES: &[&str] = &[
    "none",
    #[cfg(feature = "leveldb")]
    "leveldb",
    #[cfg(feature = "rocksdb")]
    "rocksdb",
    "esker",
];

/// `equal`: the read cache.
const CACHE_BYTES: usize = 1 << 30;
/// `equal`: one write buffer.
const WRITE_BUFFER_BYTES: usize = 64 << 20;
/// `equal`: filter bits for each key.
#[cfg(any(feature = "leveldb", feature = "rocksdb"))]
const FILTER_BITS: u8 = 10;

/// Opens or creates the store `name` in `dir`.
pub(crate) fn open(name: &str, dir: &Path, settings: Settings) -> Result<Box<dyn Store>> {
    Ok(match name {
        "none" => Box::new(none::None),
        #[cfg(feature = "leveldb")]
        "leveldb" => Box::new(leveldb::LevelDb::open(dir, settings)?),
        #[cfg(feature = "rocksdb")]
        "rocksdb" => Box::new(rocksdb::RocksDb::open(dir, settings)?),
        "esker" => Box::new(esker::Esker::open(dir, settings)?),
        _ => return Err(format!("no store {name:?} here; there are {}", NAMES.join(", ")).into()),
    })
}

#[cfg(test)]
mod tests;
