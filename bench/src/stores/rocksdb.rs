//! RocksDB through its C interface (`rocksdb/c.h`), built from the source that the crate `librocksdb-sys` brings.
//!
//! Of two calls for the same thing this uses the one that copies and allocates less. `RocksDb` owns each object it
//! creates and frees it once. RocksDB's own documentation promises that a database handle may be used from many
//! threads; options and iterators never leave the thread that uses them, write options are only read after they are
//! made.

use super::{CACHE_BYTES, FILTER_BITS, Result, Row, Settings, Store, WRITE_BUFFER_BYTES};
use librocksdb_sys as sys;
use std::ffi::{CStr, CString, c_char};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr;
use std::sync::{Mutex, PoisonError};

mod huge;

pub(crate) use huge::Blobs;

/// The open database and what its calls need.
pub(crate) struct RocksDb {
    db: *mut sys::rocksdb_t,
    options: *mut sys::rocksdb_options_t,
    read: *mut sys::rocksdb_readoptions_t,
    write: *mut sys::rocksdb_writeoptions_t,
    write_sync: *mut sys::rocksdb_writeoptions_t,
    batch: Mutex<BatchPtr>,
}

struct BatchPtr(*mut sys::rocksdb_writebatch_t);

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

/// The bytes that a slice of RocksDB's names.
///
/// # Safety
/// They must stay where they are as long as the caller uses them.
unsafe fn bytes<'a>(slice: sys::rocksdb_slice_t) -> &'a [u8] {
    if slice.size == 0 {
        return &[];
    }
    // SAFETY: the caller's promise; a slice that is not empty points to its bytes.
    unsafe { std::slice::from_raw_parts(slice.data.cast(), slice.size) }
}

/// Everything that `Settings::Equal` promises.
fn set_equal(options: *mut sys::rocksdb_options_t) {
    // SAFETY: `options` is alive; the table options take the filter over, and cache and table options are counted
    // references inside RocksDB, so that ours may go once they are set.
    unsafe {
        let table = sys::rocksdb_block_based_options_create();
        // 0: the cache finds out how large entries are, as RocksDB's default cache does.
        let cache = sys::rocksdb_cache_create_hyper_clock(CACHE_BYTES, 0);
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
        // SAFETY: made here, and handed over to `open_with`.
        let options = unsafe { sys::rocksdb_options_create() };
        if settings == Settings::Equal {
            set_equal(options);
        }
        RocksDb::open_with(dir, options)
    }

    /// Takes `options` over.
    fn open_with(dir: &Path, options: *mut sys::rocksdb_options_t) -> Result<RocksDb> {
        let name = CString::new(dir.as_os_str().as_bytes())?;
        let mut message = ptr::null_mut();
        // SAFETY: objects made here are used only while alive; `RocksDb` takes them over, so that its `drop` frees
        // them also when opening fails (the database pointer is null then).
        let store = unsafe {
            sys::rocksdb_options_set_create_if_missing(options, 1);
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
            let (k, v) = (key.as_ptr().cast(), value.as_ptr().cast());
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
                let (k, v) = (key.as_ptr().cast(), value.as_ptr().cast());
                sys::rocksdb_writebatch_put(batch.0, k, key.len(), v, value.len());
            }
            sys::rocksdb_write(self.db, self.write, batch.0, &raw mut message);
        }
        check(message)
    }

    fn delete(&self, key: &[u8]) -> Result<()> {
        let mut message = ptr::null_mut();
        // SAFETY: as in `put`.
        unsafe { sys::rocksdb_delete(self.db, self.write, key.as_ptr().cast(), key.len(), &raw mut message) };
        check(message)
    }

    fn get(&self, key: &[u8], value: &mut Vec<u8>) -> Result<bool> {
        loop {
            value.clear();
            let (mut length, mut found, mut message) = (0, 0, ptr::null_mut());
            // SAFETY: RocksDB writes no more than the capacity it is told of, and a 1 says that it has written all
            // `length` bytes.
            let copied = unsafe {
                let buffer = value.as_mut_ptr().cast();
                let copied = sys::rocksdb_get_into_buffer(
                    self.db,
                    self.read,
                    key.as_ptr().cast(),
                    key.len(),
                    buffer,
                    value.capacity(),
                    &raw mut length,
                    &raw mut found,
                    &raw mut message,
                );
                if copied == 1 {
                    value.set_len(length);
                }
                copied
            };
            check(message)?;
            if found == 0 || copied == 1 {
                return Ok(found == 1);
            }
            value.reserve(length);
        }
    }

    fn scan(&self, from: &[u8], to: Option<&[u8]>, limit: u64, row: &mut Row<'_>) -> Result<u64> {
        let (mut rows, mut message) = (0, ptr::null_mut());
        // SAFETY: the iterator lives until the end of this block; keys and values stay where they are until it moves,
        // and nobody keeps them longer than the call of `row`.
        unsafe {
            let iter = sys::rocksdb_create_iterator(self.db, self.read);
            if from.is_empty() {
                sys::rocksdb_iter_seek_to_first(iter);
            } else {
                sys::rocksdb_iter_seek(iter, from.as_ptr().cast(), from.len());
            }
            while rows < limit && sys::rocksdb_iter_valid(iter) != 0 {
                let key = bytes(sys::rocksdb_iter_key_slice(iter));
                if to.is_some_and(|to| key > to) {
                    break;
                }
                row(key, bytes(sys::rocksdb_iter_value_slice(iter)));
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
