//! Esker, through its library.

use super::{CACHE_BYTES, Result, Row, Settings, Store, WRITE_BUFFER_BYTES};
use esker::{Batch, Db, Durability, Options, Tree};
use std::ops::Bound;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

pub(super) struct Esker {
    db: Db,
    tree: Tree,
    batch: Mutex<Batch>,
}

impl Esker {
    /// `equal`: one budget for what the peers count separately, their cache and two and a half write buffers (one
    /// that fills, one that drains, and filters and indexes, which the peers hold beside their cache).
    pub(super) fn open(dir: &Path, settings: Settings) -> Result<Esker> {
        let options = match settings {
            Settings::Default => Options::default(),
            Settings::Equal => Options::default().memory_budget(CACHE_BYTES + WRITE_BUFFER_BYTES * 5 / 2),
        };
        let db = Db::open(dir, options)?;
        let tree = db.default_tree().clone();
        Ok(Esker { db, tree, batch: Mutex::new(Batch::new()) })
    }
}

impl Store for Esker {
    fn put(&self, key: &[u8], value: &[u8], sync: bool) -> Result<()> {
        if sync {
            self.tree.put_with(key, value, Durability::Power)?;
        } else {
            self.tree.put(key, value)?;
        }
        Ok(())
    }

    fn put_batch(&self, pairs: &[(&[u8], &[u8])]) -> Result<()> {
        let mut batch = self.batch.lock().unwrap_or_else(PoisonError::into_inner);
        batch.clear();
        for (key, value) in pairs {
            batch.put(&self.tree, key, value)?;
        }
        self.db.write(&batch)?;
        Ok(())
    }

    fn delete(&self, key: &[u8]) -> Result<()> {
        Ok(self.tree.delete(key)?)
    }

    fn get(&self, key: &[u8], value: &mut Vec<u8>) -> Result<bool> {
        Ok(self.tree.get_into(key, value)?)
    }

    fn scan(&self, from: &[u8], to: Option<&[u8]>, limit: u64, row: &mut Row<'_>) -> Result<u64> {
        let mut scan =
            self.tree.scan((Bound::Included(from), to.map_or(Bound::Unbounded, Bound::Included)))?;
        let mut rows = 0;
        while rows < limit && scan.advance()? {
            let (key, value) = scan.pair()?;
            row(key, value);
            rows += 1;
        }
        Ok(rows)
    }

    fn close(self: Box<Self>) -> Result<()> {
        Ok(self.db.close()?)
    }
}
