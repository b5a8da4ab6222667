//! fjall, with the values of 4 KiB and more in files of their own, as its documents advise for large ones.

use super::{Huge, hand_over};
use crate::stores::Result;
use fjall::config::{BloomConstructionPolicy, FilterPolicy, FilterPolicyEntry};
use fjall::{Database, Keyspace, KeyspaceCreateOptions, KvSeparationOptions, PersistMode};
use std::path::Path;

pub(super) struct Fjall {
    db: Database,
    values: Keyspace,
}

impl Fjall {
    pub(super) fn open(dir: &Path) -> Result<Fjall> {
        let db = Database::builder(dir)
            .cache_size(1 << 30)
            .worker_threads(2)
            // Less, and large values wait for the journal's flushes.
            .max_journaling_size(4 << 30)
            .open()?;
        let values = db.keyspace("values", || {
            let bits = FilterPolicyEntry::Bloom(BloomConstructionPolicy::BitsPerKey(10.0));
            KeyspaceCreateOptions::default()
                .max_memtable_size(256 << 20)
                .filter_policy(FilterPolicy::all(bits))
                .with_kv_separation(Some(
                    KvSeparationOptions::default().separation_threshold(4096).file_target_size(256 << 20),
                ))
        })?;
        Ok(Fjall { db, values })
    }
}

impl Huge for Fjall {
    fn put(&self, key: &[u8], value: &[u8], sync: bool) -> Result<()> {
        self.values.insert(key, value)?;
        if sync {
            self.db.persist(PersistMode::SyncData)?;
        }
        Ok(())
    }

    fn get(&self, key: &[u8], into: &mut [u8]) -> Result<Option<usize>> {
        self.values.get(key)?.map(|value| hand_over(&value, into)).transpose()
    }

    fn delete(&self, key: &[u8]) -> Result<()> {
        Ok(self.values.remove(key)?)
    }

    fn compact(&mut self) -> Result<()> {
        self.values.rotate_memtable_and_wait()?;
        Ok(self.values.major_compact()?)
    }

    /// Flushed: otherwise opening reads the journal into memory, and no value would be read from a file.
    fn close(self: Box<Self>) -> Result<()> {
        Ok(self.values.rotate_memtable_and_wait()?)
    }
}
