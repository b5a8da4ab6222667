//! What the paper's experiments ask of a store, and how each is opened by name.
//!
//! Values are copied into a buffer that the caller keeps, by every store: who hands out its own memory would be
//! measured without the copy that its user makes.

use crate::stores::Result;
#[cfg(feature = "leveldb")]
use crate::stores::leveldb;
use std::path::Path;

#[cfg(feature = "peers")]
mod bdb;
pub(super) mod esker;
mod files;
#[cfg(feature = "peers")]
mod fjall;
#[cfg(feature = "peers")]
mod lmdb;
#[cfg(feature = "peers")]
mod redb;
#[cfg(test)]
mod tests;

/// One open store of huge values.
pub(crate) trait Huge {
    /// `sync`: the put survives power loss when the call returns; otherwise it is as safe as `equal` says.
    fn put(&self, key: &[u8], value: &[u8], sync: bool) -> Result<()>;
    /// Copies the value to the front of `into`, which is long enough for it, and returns its length.
    fn get(&self, key: &[u8], into: &mut [u8]) -> Result<Option<usize>>;
    fn delete(&self, key: &[u8]) -> Result<()>;
    /// Asks for the space of what was deleted, in whatever way the store's documents give. A store that gives it
    /// back by itself is not asked.
    fn compact(&mut self) -> Result<()>;
    fn close(self: Box<Self>) -> Result<()>;
}

/// A store that takes part.
pub(super) struct Contender {
    pub(super) name: &'static str,
    /// A plain put has left the process when it returns, as Esker's has by default: it survives a crash of the
    /// process, and a crash of the machine leaves the store whole.
    pub(super) equal: bool,
    open: fn(&Path) -> Result<Box<dyn Huge>>,
}

/// All that are built in, in the order in which they are measured.
pub(super) const CONTENDERS: &[Contender] = &[
    Contender { name: "esker", equal: true, open: |dir| Ok(Box::new(esker::Esker::open(dir, None)?)) },
    Contender {
        name: "esker-inline",
        equal: true,
        open: |dir| Ok(Box::new(esker::Esker::open(dir, Some(usize::MAX))?)),
    },
    #[cfg(feature = "leveldb")]
    Contender { name: "leveldb", equal: true, open: |dir| Ok(Box::new(leveldb::LevelDb::open_huge(dir)?)) },
    #[cfg(feature = "rocksdb")]
    Contender { name: "rocksdb", equal: true, open: |dir| rocksdb(dir, Blobs::None) },
    #[cfg(feature = "rocksdb")]
    Contender { name: "rocksdb-blob", equal: true, open: |dir| rocksdb(dir, Blobs::Flushed) },
    #[cfg(feature = "peers")]
    Contender { name: "bdb", equal: true, open: |dir| Ok(Box::new(bdb::Bdb::open(dir)?)) },
    #[cfg(feature = "peers")]
    Contender { name: "fjall", equal: true, open: |dir| Ok(Box::new(fjall::Fjall::open(dir)?)) },
    #[cfg(feature = "rocksdb")]
    Contender { name: "rocksdb-direct", equal: false, open: |dir| rocksdb(dir, Blobs::Direct) },
    #[cfg(feature = "peers")]
    Contender { name: "lmdb", equal: false, open: |dir| Ok(Box::new(lmdb::Lmdb::open(dir)?)) },
    #[cfg(feature = "peers")]
    Contender { name: "redb", equal: false, open: |dir| Ok(Box::new(redb::Redb::open(dir)?)) },
    Contender { name: "files", equal: false, open: |dir| Ok(Box::new(files::Files::open(dir)?)) },
];

#[cfg(feature = "rocksdb")]
use crate::stores::rocksdb::{Blobs, RocksDb};

#[cfg(feature = "rocksdb")]
fn rocksdb(dir: &Path, blobs: Blobs) -> Result<Box<dyn Huge>> {
    Ok(Box::new(RocksDb::open_huge(dir, blobs)?))
}

/// Opens or creates the store `name` in `dir`.
pub(super) fn open(name: &str, dir: &Path) -> Result<Box<dyn Huge>> {
    let known = CONTENDERS.iter().find(|contender| contender.name == name);
    let contender = known.ok_or_else(|| {
        let names: Vec<&str> = CONTENDERS.iter().map(|contender| contender.name).collect();
        format!("no store {name:?} here; there are {}", names.join(", "))
    })?;
    (contender.open)(dir)
}

/// Copies `value` to the front of `into`.
#[cfg(any(feature = "leveldb", feature = "rocksdb", feature = "peers"))]
pub(crate) fn hand_over(value: &[u8], into: &mut [u8]) -> Result<usize> {
    into.get_mut(..value.len()).ok_or("a value is longer than was put")?.copy_from_slice(value);
    Ok(value.len())
}
