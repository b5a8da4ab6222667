//! redb. A plain put is a transaction of durability `None`: a crash of the process may lose it.

use super::{Huge, hand_over};
use crate::stores::Result;
use redb::{Database, Durability, ReadableDatabase, TableDefinition};
use std::path::Path;

const VALUES: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("values");

pub(super) struct Redb {
    db: Database,
}

impl Redb {
    pub(super) fn open(dir: &Path) -> Result<Redb> {
        std::fs::create_dir_all(dir)?;
        let db = Database::builder().set_cache_size(1 << 30).create(dir.join("db.redb"))?;
        let first = db.begin_write()?;
        first.open_table(VALUES)?;
        first.commit()?;
        Ok(Redb { db })
    }
}

impl Huge for Redb {
    fn put(&self, key: &[u8], value: &[u8], sync: bool) -> Result<()> {
        let mut txn = self.db.begin_write()?;
        txn.set_durability(if sync { Durability::Immediate } else { Durability::None })?;
        txn.open_table(VALUES)?.insert_reserve(key, value.len())?.as_mut().copy_from_slice(value);
        Ok(txn.commit()?)
    }

    fn get(&self, key: &[u8], into: &mut [u8]) -> Result<Option<usize>> {
        let table = self.db.begin_read()?.open_table(VALUES)?;
        table.get(key)?.map(|value| hand_over(value.value(), into)).transpose()
    }

    fn delete(&self, key: &[u8]) -> Result<()> {
        let mut txn = self.db.begin_write()?;
        txn.set_durability(Durability::None)?;
        txn.open_table(VALUES)?.remove(key)?;
        Ok(txn.commit()?)
    }

    fn compact(&mut self) -> Result<()> {
        self.db.begin_write()?.commit()?;
        self.db.compact()?;
        Ok(())
    }

    fn close(self: Box<Self>) -> Result<()> {
        // What earlier transactions of durability `None` left in memory.
        Ok(self.db.begin_write()?.commit()?)
    }
}
