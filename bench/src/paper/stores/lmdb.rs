//! LMDB with `MDB_NOSYNC`: a put survives the death of the process; a crash of the machine may break the store.

use super::{Huge, hand_over};
use crate::stores::Result;
use heed::types::Bytes;
use heed::{Database, Env, EnvFlags, EnvOpenOptions};
use std::path::Path;

/// Address space, of which the file takes what it needs.
const MAP_BYTES: usize = 1 << 40;

pub(super) struct Lmdb {
    env: Env,
    values: Database<Bytes, Bytes>,
}

impl Lmdb {
    pub(super) fn open(dir: &Path) -> Result<Lmdb> {
        std::fs::create_dir_all(dir)?;
        let mut options = EnvOpenOptions::new();
        options.map_size(MAP_BYTES);
        // SAFETY: nobody else changes the file of this process's own directory, and it is opened once.
        let env = unsafe { options.flags(EnvFlags::NO_SYNC).open(dir)? };
        let mut txn = env.write_txn()?;
        let values = env.create_database(&mut txn, None)?;
        txn.commit()?;
        Ok(Lmdb { env, values })
    }
}

impl Huge for Lmdb {
    fn put(&self, key: &[u8], value: &[u8], sync: bool) -> Result<()> {
        let mut txn = self.env.write_txn()?;
        self.values.put(&mut txn, key, value)?;
        txn.commit()?;
        if sync {
            self.env.force_sync()?;
        }
        Ok(())
    }

    fn get(&self, key: &[u8], into: &mut [u8]) -> Result<Option<usize>> {
        let txn = self.env.read_txn()?;
        self.values.get(&txn, key)?.map(|value| hand_over(value, into)).transpose()
    }

    fn delete(&self, key: &[u8]) -> Result<()> {
        let mut txn = self.env.write_txn()?;
        self.values.delete(&mut txn, key)?;
        Ok(txn.commit()?)
    }

    /// There is no way but a copy of the store.
    fn compact(&mut self) -> Result<()> {
        Ok(())
    }

    fn close(self: Box<Self>) -> Result<()> {
        self.env.prepare_for_closing().wait();
        Ok(())
    }
}
