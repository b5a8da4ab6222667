//! LevelDB as the paper's experiments use it: settings for huge values, and reads with one copy.

use super::{LevelDb, check, sys};
use crate::paper::stores::{Huge, hand_over};
use crate::stores::{Result, Settings, Store};
use std::path::Path;
use std::ptr;

impl LevelDb {
    /// As `Equal`, with write buffers of 256 MiB and tables of 64 MiB.
    pub(crate) fn open_huge(dir: &Path) -> Result<LevelDb> {
        LevelDb::open_with(dir, Settings::Equal, 256 << 20, 64 << 20)
    }
}

impl Huge for LevelDb {
    fn put(&self, key: &[u8], value: &[u8], sync: bool) -> Result<()> {
        Store::put(self, key, value, sync)
    }

    /// By an iterator: it shows the value where it lies, and `leveldb_get` copies it twice.
    fn get(&self, key: &[u8], into: &mut [u8]) -> Result<Option<usize>> {
        let mut message = ptr::null_mut();
        // SAFETY: the iterator lives until the end of this block, and key and value stay until it moves.
        let found = unsafe {
            let iter = sys::leveldb_create_iterator(self.db, self.read);
            sys::leveldb_iter_seek(iter, key.as_ptr(), key.len());
            let (mut key_len, mut value_len) = (0, 0);
            let mut found = Ok(None);
            if sys::leveldb_iter_valid(iter) != 0 {
                let at = sys::leveldb_iter_key(iter, &raw mut key_len);
                if std::slice::from_raw_parts(at, key_len) == key {
                    let value = sys::leveldb_iter_value(iter, &raw mut value_len);
                    found = hand_over(std::slice::from_raw_parts(value, value_len), into).map(Some);
                }
            }
            sys::leveldb_iter_get_error(iter, &raw mut message);
            sys::leveldb_iter_destroy(iter);
            found
        };
        check(message)?;
        found
    }

    fn delete(&self, key: &[u8]) -> Result<()> {
        Store::delete(self, key)
    }

    fn compact(&mut self) -> Result<()> {
        // SAFETY: the handle is open; without bounds it is everything.
        unsafe { sys::leveldb_compact_range(self.db, ptr::null(), 0, ptr::null(), 0) };
        Ok(())
    }

    fn close(self: Box<Self>) -> Result<()> {
        Ok(())
    }
}
