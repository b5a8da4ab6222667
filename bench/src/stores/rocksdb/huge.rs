//! RocksDB as the paper's experiments use it: settings for huge values, three ways of keeping them.

use super::{RocksDb, check, set_equal, sys};
use crate::paper::stores::Huge;
use crate::stores::{Result, Store};
use std::path::Path;
use std::ptr;

/// Where values go.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Blobs {
    /// Into the tables, as the keys.
    None,
    /// Into blob files when a memtable is flushed: BlobDB, as its documents advise.
    Flushed,
    /// Into blob files when they are put. New and experimental: a value that was put and not yet flushed is gone
    /// when the process dies, because the log holds a reference that is not replayed.
    Direct,
}

impl RocksDb {
    /// As `Equal`, with write buffers and files of 256 MiB. With blobs: files of 256 MiB, values from 4 KiB on,
    /// collected at any age and forced where half is garbage.
    pub(crate) fn open_huge(dir: &Path, blobs: Blobs) -> Result<RocksDb> {
        // SAFETY: the options are alive until `open_with` takes them over.
        let options = unsafe {
            let options = sys::rocksdb_options_create();
            set_equal(options);
            sys::rocksdb_options_set_write_buffer_size(options, 256 << 20);
            sys::rocksdb_options_set_target_file_size_base(options, 256 << 20);
            if blobs != Blobs::None {
                sys::rocksdb_options_set_enable_blob_files(options, 1);
                sys::rocksdb_options_set_min_blob_size(options, 4096);
                sys::rocksdb_options_set_blob_file_size(options, 256 << 20);
                sys::rocksdb_options_set_enable_blob_gc(options, 1);
                sys::rocksdb_options_set_blob_gc_age_cutoff(options, 1.0);
                sys::rocksdb_options_set_blob_gc_force_threshold(options, 0.5);
            }
            if blobs == Blobs::Direct {
                // It demands that.
                sys::rocksdb_options_set_allow_concurrent_memtable_write(options, 0);
            }
            options
        };
        let options = if blobs == Blobs::Direct { direct(options)? } else { options };
        RocksDb::open_with(dir, options)
    }
}

/// `options` with direct writing, for which the C interface has no call of its own.
fn direct(options: *mut sys::rocksdb_options_t) -> Result<*mut sys::rocksdb_options_t> {
    let mut message = ptr::null_mut();
    // SAFETY: both options are alive; the string ends with a NUL; the old ones are not used any more.
    let new = unsafe {
        let new = sys::rocksdb_options_create();
        let text = c"enable_blob_direct_write=true".as_ptr();
        sys::rocksdb_get_options_from_string(options, text, new, &raw mut message);
        sys::rocksdb_options_destroy(options);
        new
    };
    check(message)?;
    Ok(new)
}

impl Huge for RocksDb {
    fn put(&self, key: &[u8], value: &[u8], sync: bool) -> Result<()> {
        Store::put(self, key, value, sync)
    }

    fn get(&self, key: &[u8], into: &mut [u8]) -> Result<Option<usize>> {
        let (mut length, mut found, mut message) = (0, 0, ptr::null_mut());
        // SAFETY: RocksDB writes at most `into.len()` bytes to `into`.
        let copied = unsafe {
            sys::rocksdb_get_into_buffer(
                self.db,
                self.read,
                key.as_ptr().cast(),
                key.len(),
                into.as_mut_ptr().cast(),
                into.len(),
                &raw mut length,
                &raw mut found,
                &raw mut message,
            )
        };
        check(message)?;
        match (found, copied) {
            (0, _) => Ok(None),
            (_, 1) => Ok(Some(length)),
            _ => Err("a value is longer than was put".into()),
        }
    }

    fn delete(&self, key: &[u8]) -> Result<()> {
        Store::delete(self, key)
    }

    fn compact(&mut self) -> Result<()> {
        // SAFETY: the handle is open; without bounds it is everything.
        unsafe { sys::rocksdb_compact_range(self.db, ptr::null(), 0, ptr::null(), 0) };
        Ok(())
    }

    fn close(self: Box<Self>) -> Result<()> {
        Ok(())
    }
}
