//! RocksDB through its C interface (`rocksdb/c.h`, version 7.8).
//!
//! `sys` declares the calls used here, no more; `RocksDb` owns each object it creates and frees it once. RocksDB's
//! own documentation promises that a database handle may be used from many threads; options and iterators never
//! leave the thread that uses them, write options are only read after they are made.

use super::{CACHE_BYTES, FILTER_BITS, Result, Row, Settings, Store, WRITE_BUFFER_BYTES};
use std::ffi::{CStr, CString, c_char};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr;
use std::sync::{Mutex, PoisonError};

mod sys {
    use std::ffi::{c_char, c_int, c_void};

    macro_rules! opaque {
        ($($name:ident)*) => { $(#[repr(C)] pub(super) struct $name { _private: [u8; 0] })* };
    }
    opaque! { Db Options TableOptions Cache FilterPolicy ReadOptions WriteOptions Iterator WriteBatch Pinned }

    #[link(name = "rocksdb")]
    unsafe extern "C" {
        pub(super) fn rocksdb_options_create() -> *mut Options;
        pub(super) fn rocksdb_options_destroy(options: *mut Options);
        pub(super) fn rocksdb_options_set_create_if_missing(options: *mut Options, on: u8);
        pub(super) fn rocksdb_options_set_write_buffer_size(options: *mut Options, bytes: usize);
        pub(super) fn rocksdb_options_set_max_write_buffer_number(options: *mut Options, buffers: c_int);
        pub(super) fn rocksdb_options_set_max_background_jobs(options: *mut Options, jobs: c_int);
        pub(super) fn rocksdb_options_set_bytes_per_sync(options: *mut Options, bytes: u64);
        pub(super) fn rocksdb_options_set_compression(options: *mut Options, kind: c_int);
        pub(super) fn rocksdb_options_set_block_based_table_factory(
            options: *mut Options,
            table: *mut TableOptions,
        );
        pub(super) fn rocksdb_block_based_options_create() -> *mut TableOptions;
        pub(super) fn rocksdb_block_based_options_destroy(options: *mut TableOptions);
        pub(super) fn rocksdb_block_based_options_set_block_size(options: *mut TableOptions, bytes: usize);
        pub(super) fn rocksdb_block_based_options_set_block_cache(
            options: *mut TableOptions,
            cache: *mut Cache,
        );
        pub(super) fn rocksdb_block_based_options_set_filter_policy(
            options: *mut TableOptions,
            policy: *mut FilterPolicy,
        );
        pub(super) fn rocksdb_cache_create_lru(bytes: usize) -> *mut Cache;
        pub(super) fn rocksdb_cache_destroy(cache: *mut Cache);
        pub(super) fn rocksdb_filterpolicy_create_bloom_full(bits_per_key: f64) -> *mut FilterPolicy;
        pub(super) fn rocksdb_readoptions_create() -> *mut ReadOptions;
        pub(super) fn rocksdb_readoptions_destroy(options: *mut ReadOptions);
        pub(super) fn rocksdb_writeoptions_create() -> *mut WriteOptions;
        pub(super) fn rocksdb_writeoptions_destroy(options: *mut WriteOptions);
        pub(super) fn rocksdb_writeoptions_set_sync(options: *mut WriteOptions, on: u8);
        pub(super) fn rocksdb_open(
            options: *const Options,
            name: *const c_char,
            err: *mut *mut c_char,
        ) -> *mut Db;
        pub(super) fn rocksdb_close(db: *mut Db);
        pub(super) fn rocksdb_put(
            db: *mut Db,
            options: *const WriteOptions,
            key: *const u8,
            key_len: usize,
            value: *const u8,
            value_len: usize,
            err: *mut *mut c_char,
        );
        pub(super) fn rocksdb_delete(
            db: *mut Db,
            options: *const WriteOptions,
            key: *const u8,
            key_len: usize,
            err: *mut *mut c_char,
        );
        pub(super) fn rocksdb_write(
            db: *mut Db,
            options: *const WriteOptions,
            batch: *mut WriteBatch,
            err: *mut *mut c_char,
        );
        pub(super) fn rocksdb_get_pinned(
            db: *mut Db,
            options: *const ReadOptions,
            key: *const u8,
            key_len: usize,
            err: *mut *mut c_char,
        ) -> *mut Pinned;
        pub(super) fn rocksdb_pinnableslice_value(pinned: *const Pinned, len: *mut usize) -> *const u8;
        pub(super) fn rocksdb_pinnableslice_destroy(pinned: *mut Pinned);
        pub(super) fn rocksdb_property_value(db: *mut Db, name: *const c_char) -> *mut c_char;
        pub(super) fn rocksdb_create_iterator(db: *mut Db, options: *const ReadOptions) -> *mut Iterator;
        pub(super) fn rocksdb_iter_destroy(iter: *mut Iterator);
        pub(super) fn rocksdb_iter_valid(iter: *const Iterator) -> u8;
        pub(super) fn rocksdb_iter_seek(iter: *mut Iterator, key: *const u8, key_len: usize);
        pub(super) fn rocksdb_iter_seek_to_first(iter: *mut Iterator);
        pub(super) fn rocksdb_iter_next(iter: *mut Iterator);
        pub(super) fn rocksdb_iter_key(iter: *const Iterator, len: *mut usize) -> *const u8;
        pub(super) fn rocksdb_iter_value(iter: *const Iterator, len: *mut usize) -> *const u8;
        pub(super) fn rocksdb_iter_get_error(iter: *const Iterator, err: *mut *mut c_char);
        pub(super) fn rocksdb_writebatch_create() -> *mut WriteBatch;
        pub(super) fn rocksdb_writebatch_destroy(batch: *mut WriteBatch);
        pub(super) fn rocksdb_writebatch_clear(batch: *mut WriteBatch);
        pub(super) fn rocksdb_writebatch_put(
            batch: *mut WriteBatch,
            key: *const u8,
            key_len: usize,
            value: *const u8,
            value_len: usize,
        );
        pub(super) fn rocksdb_free(pointer: *mut c_void);
    }
}

/// The open database and what its calls need.
pub(super) struct RocksDb {
    db: *mut sys::Db,
    options: *mut sys::Options,
    read: *mut sys::ReadOptions,
    write: *mut sys::WriteOptions,
    write_sync: *mut sys::WriteOptions,
    batch: Mutex<BatchPtr>,
}

struct BatchPtr(*mut sys::WriteBatch);

// SAFETY: RocksDB's handle may be used from any thread, also at once; the option objects are never changed after
// `open`; the batch is behind a mutex.
unsafe impl Send for RocksDb {}
// SAFETY: as above.
unsafe impl Sync for RocksDb {}
// SAFETY: a write batch is plain memory without ties to a thread.
unsafe impl Send for BatchPtr {}

/// Turns the error string that a call may have left into an error, and frees it.
fn check(message: *mut c_char) -> Result<()> {
    if message.is_null() {
        return Ok(());
    }
    // SAFETY: RocksDB leaves a NUL-terminated string from malloc, which is ours to free.
    let text = unsafe {
        let text = CStr::from_ptr(message).to_string_lossy().into_owned();
        sys::rocksdb_free(message.cast());
        text
    };
    Err(format!("rocksdb: {text}").into())
}

/// Everything that `Settings::Equal` promises.
fn set_equal(options: *mut sys::Options) {
    // SAFETY: `options` is alive; the table options take the filter over, and cache and table options are counted
    // references inside RocksDB, so that ours may go once they are set.
    unsafe {
        let table = sys::rocksdb_block_based_options_create();
        let cache = sys::rocksdb_cache_create_lru(CACHE_BYTES);
        let filter = sys::rocksdb_filterpolicy_create_bloom_full(f64::from(FILTER_BITS));
        sys::rocksdb_block_based_options_set_block_size(table, 4 << 10);
        sys::rocksdb_block_based_options_set_block_cache(table, cache);
        sys::rocksdb_block_based_options_set_filter_policy(table, filter);
        sys::rocksdb_options_set_block_based_table_factory(options, table);
        sys::rocksdb_block_based_options_destroy(table);
        sys::rocksdb_cache_destroy(cache);
        sys::rocksdb_options_set_write_buffer_size(options, WRITE_BUFFER_BYTES);
        sys::rocksdb_options_set_max_write_buffer_number(options, 3);
        sys::rocksdb_options_set_max_background_jobs(options, 2);
        sys::rocksdb_options_set_bytes_per_sync(options, 1 << 20);
        sys::rocksdb_options_set_compression(options, 0);
    }
}

impl RocksDb {
    /// A numeric property; 0 where RocksDB does not know it.
    fn property(&self, name: &CStr) -> u64 {
        // SAFETY: the handle is open; what comes back is null or a NUL-terminated string from malloc, freed here.
        unsafe {
            let text = sys::rocksdb_property_value(self.db, name.as_ptr());
            if text.is_null() {
                return 0;
            }
            let value = CStr::from_ptr(text).to_string_lossy().parse().unwrap_or(0);
            sys::rocksdb_free(text.cast());
            value
        }
    }

    pub(super) fn open(dir: &Path, settings: Settings) -> Result<RocksDb> {
        let name = CString::new(dir.as_os_str().as_bytes())?;
        let mut message = ptr::null_mut();
        // SAFETY: objects made here are used only while alive; `RocksDb` takes them over, so that its `drop` frees
        // them also when opening fails (the database pointer is null then).
        let store = unsafe {
            let options = sys::rocksdb_options_create();
            sys::rocksdb_options_set_create_if_missing(options, 1);
            if settings == Settings::Equal {
                set_equal(options);
            }
            let write_sync = sys::rocksdb_writeoptions_create();
            sys::rocksdb_writeoptions_set_sync(write_sync, 1);
            RocksDb {
                db: sys::rocksdb_open(options, name.as_ptr(), &raw mut message),
                options,
                read: sys::rocksdb_readoptions_create(),
                write: sys::rocksdb_writeoptions_create(),
                write_sync,
                batch: Mutex::new(BatchPtr(sys::rocksdb_writebatch_create())),
            }
        };
        check(message)?;
        Ok(store)
    }
}

impl Drop for RocksDb {
    fn drop(&mut self) {
        let batch = self.batch.get_mut().unwrap_or_else(PoisonError::into_inner).0;
        // SAFETY: each pointer was made by `open`, is freed only here, and the database goes before what it uses.
        unsafe {
            if !self.db.is_null() {
                sys::rocksdb_close(self.db);
            }
            sys::rocksdb_writebatch_destroy(batch);
            sys::rocksdb_writeoptions_destroy(self.write_sync);
            sys::rocksdb_writeoptions_destroy(self.write);
            sys::rocksdb_readoptions_destroy(self.read);
            sys::rocksdb_options_destroy(self.options);
        }
    }
}

impl Store for RocksDb {
    fn put(&self, key: &[u8], value: &[u8], sync: bool) -> Result<()> {
        let options = if sync { self.write_sync } else { self.write };
        let mut message = ptr::null_mut();
        // SAFETY: the handle is open, the slices are valid for the lengths given, RocksDB copies them.
        unsafe {
            let (k, v) = (key.as_ptr(), value.as_ptr());
            sys::rocksdb_put(self.db, options, k, key.len(), v, value.len(), &raw mut message);
        }
        check(message)
    }

    fn put_batch(&self, pairs: &[(&[u8], &[u8])]) -> Result<()> {
        let batch = self.batch.lock().unwrap_or_else(PoisonError::into_inner);
        let mut message = ptr::null_mut();
        // SAFETY: the mutex makes this thread the batch's only user; RocksDB copies the slices.
        unsafe {
            sys::rocksdb_writebatch_clear(batch.0);
            for (key, value) in pairs {
                sys::rocksdb_writebatch_put(batch.0, key.as_ptr(), key.len(), value.as_ptr(), value.len());
            }
            sys::rocksdb_write(self.db, self.write, batch.0, &raw mut message);
        }
        check(message)
    }

    fn delete(&self, key: &[u8]) -> Result<()> {
        let mut message = ptr::null_mut();
        // SAFETY: as in `put`.
        unsafe { sys::rocksdb_delete(self.db, self.write, key.as_ptr(), key.len(), &raw mut message) };
        check(message)
    }

    fn get(&self, key: &[u8], value: &mut Vec<u8>) -> Result<bool> {
        value.clear();
        let (mut length, mut message) = (0, ptr::null_mut());
        // SAFETY: the pinned slice is null or alive until it is destroyed here, and its bytes are copied before.
        let found = unsafe {
            let pinned =
                sys::rocksdb_get_pinned(self.db, self.read, key.as_ptr(), key.len(), &raw mut message);
            if !pinned.is_null() {
                let bytes = sys::rocksdb_pinnableslice_value(pinned, &raw mut length);
                value.extend_from_slice(std::slice::from_raw_parts(bytes, length));
                sys::rocksdb_pinnableslice_destroy(pinned);
            }
            !pinned.is_null()
        };
        check(message)?;
        Ok(found)
    }

    fn scan(&self, from: &[u8], to: Option<&[u8]>, limit: u64, row: &mut Row<'_>) -> Result<u64> {
        let (mut rows, mut message) = (0, ptr::null_mut());
        // SAFETY: the iterator lives until the end of this block; key and value pointers are valid until it moves,
        // and nobody keeps them longer than the call of `row`.
        unsafe {
            let iter = sys::rocksdb_create_iterator(self.db, self.read);
            if from.is_empty() {
                sys::rocksdb_iter_seek_to_first(iter);
            } else {
                sys::rocksdb_iter_seek(iter, from.as_ptr(), from.len());
            }
            while rows < limit && sys::rocksdb_iter_valid(iter) != 0 {
                let (mut key_len, mut value_len) = (0, 0);
                let key = sys::rocksdb_iter_key(iter, &raw mut key_len);
                let key = std::slice::from_raw_parts(key, key_len);
                if to.is_some_and(|to| key > to) {
                    break;
                }
                let value = sys::rocksdb_iter_value(iter, &raw mut value_len);
                row(key, std::slice::from_raw_parts(value, value_len));
                rows += 1;
                sys::rocksdb_iter_next(iter);
            }
            sys::rocksdb_iter_get_error(iter, &raw mut message);
            sys::rocksdb_iter_destroy(iter);
        }
        check(message)?;
        Ok(rows)
    }

    fn busy(&self) -> bool {
        [
            c"rocksdb.num-running-flushes",
            c"rocksdb.num-running-compactions",
            c"rocksdb.mem-table-flush-pending",
            c"rocksdb.compaction-pending",
        ]
        .iter()
        .any(|name| self.property(name) != 0)
    }

    fn close(self: Box<Self>) -> Result<()> {
        Ok(())
    }
}
