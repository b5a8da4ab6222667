//! Esker, through its library.

use super::Huge;
use crate::stores::Result;
use esker::{Db, Durability, Options, Tree, Value};
use std::path::Path;

pub(in crate::paper) struct Esker {
    db: Db,
    tree: Tree,
    /// Nothing is separated: space comes back when tables are merged, as other LSM trees' does.
    inline: bool,
}

impl Esker {
    /// `separate_at`: in place of the default.
    pub(in crate::paper) fn open(dir: &Path, separate_at: Option<usize>) -> Result<Esker> {
        let mut options = Options::default();
        if let Some(bytes) = separate_at {
            options = options.separate_at(bytes);
        }
        let db = Db::open(dir, options)?;
        let tree = db.default_tree().clone();
        Ok(Esker { db, tree, inline: separate_at == Some(usize::MAX) })
    }

    /// The paper's parallel GET: a value in as many parts as there are threads, each read by one of them.
    pub(in crate::paper) fn get_by(
        &self,
        threads: usize,
        key: &[u8],
        into: &mut [u8],
    ) -> Result<Option<usize>> {
        let Some(value) = self.tree.get(key)? else { return Ok(None) };
        let length = value.len() as usize;
        let into = into.get_mut(..length).ok_or("a value is longer than was put")?;
        // Whole chunks, so that none is read twice.
        let part = length.div_ceil(threads).next_multiple_of(1 << 20).max(1);
        let value = &value;
        std::thread::scope(|scope| {
            let mut parts = into.chunks_mut(part).enumerate();
            let first = parts.next();
            let others: Vec<_> = parts
                .map(|(i, bytes)| scope.spawn(move || value.read_exact_at((i * part) as u64, bytes)))
                .collect();
            if let Some((_, bytes)) = first {
                value.read_exact_at(0, bytes)?;
            }
            for other in others {
                other.join().map_err(|_| "a reading thread panicked")??;
            }
            Ok(Some(length))
        })
    }

    /// Reads the values of `keys` one after the other, and asks for each `ahead` values before it is read.
    pub(in crate::paper) fn get_ahead(
        &self,
        keys: &[impl AsRef<[u8]>],
        ahead: usize,
        into: &mut [u8],
        mut look: impl FnMut(usize, &[u8]) -> Result<()>,
    ) -> Result<()> {
        let values: Vec<Value> = self.tree.get_many(keys)?.into_iter().flatten().collect();
        values.iter().take(ahead).for_each(Value::prefetch);
        for (i, value) in values.iter().enumerate() {
            if let Some(later) = values.get(i + ahead) {
                later.prefetch();
            }
            let length = read(value, into)?;
            look(i, into.get(..length).unwrap_or_default())?;
        }
        if values.len() == keys.len() { Ok(()) } else { Err("a value is missing".into()) }
    }

    /// All puts so far in tables or blob files, and merged.
    pub(in crate::paper) fn merge(&self) -> Result<()> {
        self.db.flush()?;
        Ok(self.db.compact()?)
    }
}

fn read(value: &Value, into: &mut [u8]) -> Result<usize> {
    let length = value.len() as usize;
    let into = into.get_mut(..length).ok_or("a value is longer than was put")?;
    value.read_exact_at(0, into)?;
    Ok(length)
}

impl Huge for Esker {
    fn put(&self, key: &[u8], value: &[u8], sync: bool) -> Result<()> {
        if sync {
            self.tree.put_with(key, value, Durability::Power)?;
        } else {
            self.tree.put(key, value)?;
        }
        Ok(())
    }

    fn get(&self, key: &[u8], into: &mut [u8]) -> Result<Option<usize>> {
        self.tree.get(key)?.map(|value| read(&value, into)).transpose()
    }

    fn delete(&self, key: &[u8]) -> Result<()> {
        Ok(self.tree.delete(key)?)
    }

    fn compact(&mut self) -> Result<()> {
        if self.inline { self.merge() } else { Ok(()) }
    }

    fn close(self: Box<Self>) -> Result<()> {
        Ok(self.db.close()?)
    }
}
