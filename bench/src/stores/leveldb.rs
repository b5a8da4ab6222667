//! LevelDB through its C interface (`leveldb/c.h`, version 1.23).
//!
//! `sys` declares the calls used here, no more; `LevelDb` owns each object it creates and frees it once. LevelDB's
//! own documentation promises that a database handle may be used from many threads; options and iterators never
//! leave the thread that uses them, write options are only read after they are made.

use super::{CACHE_BYTES, FILTER_BITS, Result, Row, Settings, Store, WRITE_BUFFER_BYTES};
use std::ffi::{CStr, CString, c_char};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr;
use std::sync::{Mutex, PoisonError};

mod huge;

mod sys {
    use std::ffi::{c_char, c_int, c_void};

    macro_rules! opaque {
        ($($name:ident)*) => { $(#[repr(C)] pub(super) struct $name { _private: [u8; 0] })* };
    }
    opaque! { Db Options Cache FilterPolicy ReadOptions WriteOptions Iterator WriteBatch }

    #[link(name = "leveldb")]
    unsafe extern "C" {
        pub(super) fn leveldb_options_create() -> *mut Options;
        pub(super) fn leveldb_options_destroy(options: *mut Options);
        pub(super) fn leveldb_options_set_create_if_missing(options: *mut Options, on: u8);
        pub(super) fn leveldb_options_set_write_buffer_size(options: *mut Options, bytes: usize);
        pub(super) fn leveldb_options_set_max_open_files(options: *mut Options, files: c_int);
        pub(super) fn leveldb_options_set_max_file_size(options: *mut Options, bytes: usize);
        pub(super) fn leveldb_options_set_compression(options: *mut Options, kind: c_int);
        pub(super) fn leveldb_options_set_cache(options: *mut Options, cache: *mut Cache);
        pub(super) fn leveldb_options_set_filter_policy(options: *mut Options, policy: *mut FilterPolicy);
        pub(super) fn leveldb_cache_create_lru(bytes: usize) -> *mut Cache;
        pub(super) fn leveldb_cache_destroy(cache: *mut Cache);
        pub(super) fn leveldb_filterpolicy_create_bloom(bits_per_key: c_int) -> *mut FilterPolicy;
        pub(super) fn leveldb_filterpolicy_destroy(policy: *mut FilterPolicy);
        pub(super) fn leveldb_readoptions_create() -> *mut ReadOptions;
        pub(super) fn leveldb_readoptions_destroy(options: *mut ReadOptions);
        pub(super) fn leveldb_writeoptions_create() -> *mut WriteOptions;
        pub(super) fn leveldb_writeoptions_destroy(options: *mut WriteOptions);
        pub(super) fn leveldb_writeoptions_set_sync(options: *mut WriteOptions, on: u8);
        pub(super) fn leveldb_open(
            options: *const Options,
            name: *const c_char,
            err: *mut *mut c_char,
        ) -> *mut Db;
        pub(super) fn leveldb_close(db: *mut Db);
        pub(super) fn leveldb_put(
            db: *mut Db,
            options: *const WriteOptions,
            key: *const u8,
            key_len: usize,
            value: *const u8,
            value_len: usize,
            err: *mut *mut c_char,
        );
        pub(super) fn leveldb_delete(
            db: *mut Db,
            options: *const WriteOptions,
            key: *const u8,
            key_len: usize,
            err: *mut *mut c_char,
        );
        pub(super) fn leveldb_write(
            db: *mut Db,
            options: *const WriteOptions,
            batch: *mut WriteBatch,
            err: *mut *mut c_char,
        );
        pub(super) fn leveldb_get(
            db: *mut Db,
            options: *const ReadOptions,
            key: *const u8,
            key_len: usize,
            value_len: *mut usize,
            err: *mut *mut c_char,
        ) -> *mut u8;
        pub(super) fn leveldb_create_iterator(db: *mut Db, options: *const ReadOptions) -> *mut Iterator;
        pub(super) fn leveldb_iter_destroy(iter: *mut Iterator);
        pub(super) fn leveldb_iter_valid(iter: *const Iterator) -> u8;
        pub(super) fn leveldb_iter_seek(iter: *mut Iterator, key: *const u8, key_len: usize);
        pub(super) fn leveldb_iter_seek_to_first(iter: *mut Iterator);
        pub(super) fn leveldb_iter_next(iter: *mut Iterator);
        pub(super) fn leveldb_iter_key(iter: *const Iterator, len: *mut usize) -> *const u8;
        pub(super) fn leveldb_iter_value(iter: *const Iterator, len: *mut usize) -> *const u8;
        pub(super) fn leveldb_compact_range(
            db: *mut Db,
            start: *const u8,
            start_len: usize,
            limit: *const u8,
            limit_len: usize,
        );
        pub(super) fn leveldb_iter_get_error(iter: *const Iterator, err: *mut *mut c_char);
        pub(super) fn leveldb_writebatch_create() -> *mut WriteBatch;
        pub(super) fn leveldb_writebatch_destroy(batch: *mut WriteBatch);
        pub(super) fn leveldb_writebatch_clear(batch: *mut WriteBatch);
        pub(super) fn leveldb_writebatch_put(
            batch: *mut WriteBatch,
            key: *const u8,
            key_len: usize,
            value: *const u8,
            value_len: usize,
        );
        pub(super) fn leveldb_free(pointer: *mut c_void);
    }
}

/// The open database and everything that must outlive it; `cache` and `filter` are null with default settings.
pub(crate) struct LevelDb {
    db: *mut sys::Db,
    cache: *mut sys::Cache,
    filter: *mut sys::FilterPolicy,
    options: *mut sys::Options,
    read: *mut sys::ReadOptions,
    write: *mut sys::WriteOptions,
    write_sync: *mut sys::WriteOptions,
    batch: Mutex<BatchPtr>,
}

struct BatchPtr(*mut sys::WriteBatch);

// SAFETY: LevelDB's handle may be used from any thread, also at once; the option objects are never changed after
// `open`; the batch is behind a mutex.
unsafe impl Send for LevelDb {}
// SAFETY: as above.
unsafe impl Sync for LevelDb {}
// SAFETY: a write batch is plain memory without ties to a thread.
unsafe impl Send for BatchPtr {}

/// Turns the error string that a call may have left into an error, and frees it.
fn check(message: *mut c_char) -> Result<()> {
    if message.is_null() {
        return Ok(());
    }
    // SAFETY: LevelDB leaves a NUL-terminated string from malloc, which is ours to free.
    let text = unsafe {
        let text = CStr::from_ptr(message).to_string_lossy().into_owned();
        sys::leveldb_free(message.cast());
        text
    };
    Err(format!("leveldb: {text}").into())
}

impl LevelDb {
    pub(super) fn open(dir: &Path, settings: Settings) -> Result<LevelDb> {
        LevelDb::open_with(dir, settings, WRITE_BUFFER_BYTES, 8 << 20)
    }

    /// The write buffer and the length of a table count where `settings` are `Equal`.
    fn open_with(dir: &Path, settings: Settings, write_buffer: usize, table: usize) -> Result<LevelDb> {
        let name = CString::new(dir.as_os_str().as_bytes())?;
        let mut message = ptr::null_mut();
        // SAFETY: objects made here are used only while alive; `LevelDb` takes them over, so that its `drop` frees
        // them also when opening fails (the database pointer is null then).
        let store = unsafe {
            let options = sys::leveldb_options_create();
            sys::leveldb_options_set_create_if_missing(options, 1);
            let (mut cache, mut filter) = (ptr::null_mut(), ptr::null_mut());
            if settings == Settings::Equal {
                cache = sys::leveldb_cache_create_lru(CACHE_BYTES);
                filter = sys::leveldb_filterpolicy_create_bloom(i32::from(FILTER_BITS));
                sys::leveldb_options_set_cache(options, cache);
                sys::leveldb_options_set_filter_policy(options, filter);
                sys::leveldb_options_set_write_buffer_size(options, write_buffer);
                sys::leveldb_options_set_max_file_size(options, table);
                sys::leveldb_options_set_max_open_files(options, 5000);
                sys::leveldb_options_set_compression(options, 0);
            }
            let write_sync = sys::leveldb_writeoptions_create();
            sys::leveldb_writeoptions_set_sync(write_sync, 1);
            LevelDb {
                db: sys::leveldb_open(options, name.as_ptr(), &raw mut message),
                cache,
                filter,
                options,
                read: sys::leveldb_readoptions_create(),
                write: sys::leveldb_writeoptions_create(),
                write_sync,
                batch: Mutex::new(BatchPtr(sys::leveldb_writebatch_create())),
            }
        };
        check(message)?;
        Ok(store)
    }
}

impl Drop for LevelDb {
    fn drop(&mut self) {
        let batch = self.batch.get_mut().unwrap_or_else(PoisonError::into_inner).0;
        // SAFETY: each pointer was made by `open`, is freed only here, and the database goes before what it uses.
        unsafe {
            if !self.db.is_null() {
                sys::leveldb_close(self.db);
            }
            sys::leveldb_writebatch_destroy(batch);
            sys::leveldb_writeoptions_destroy(self.write_sync);
            sys::leveldb_writeoptions_destroy(self.write);
            sys::leveldb_readoptions_destroy(self.read);
            sys::leveldb_options_destroy(self.options);
            if !self.cache.is_null() {
                sys::leveldb_cache_destroy(self.cache);
                sys::leveldb_filterpolicy_destroy(self.filter);
            }
        }
    }
}

impl Store for LevelDb {
    fn put(&self, key: &[u8], value: &[u8], sync: bool) -> Result<()> {
        let options = if sync { self.write_sync } else { self.write };
        let mut message = ptr::null_mut();
        // SAFETY: the handle is open, the slices are valid for the lengths given, LevelDB copies them.
        unsafe {
            let (k, v) = (key.as_ptr(), value.as_ptr());
            sys::leveldb_put(self.db, options, k, key.len(), v, value.len(), &raw mut message);
        }
        check(message)
    }

    fn put_batch(&self, pairs: &[(&[u8], &[u8])]) -> Result<()> {
        let batch = self.batch.lock().unwrap_or_else(PoisonError::into_inner);
        let mut message = ptr::null_mut();
        // SAFETY: the mutex makes this thread the batch's only user; LevelDB copies the slices.
        unsafe {
            sys::leveldb_writebatch_clear(batch.0);
            for (key, value) in pairs {
                sys::leveldb_writebatch_put(batch.0, key.as_ptr(), key.len(), value.as_ptr(), value.len());
            }
            sys::leveldb_write(self.db, self.write, batch.0, &raw mut message);
        }
        check(message)
    }

    fn delete(&self, key: &[u8]) -> Result<()> {
        let mut message = ptr::null_mut();
        // SAFETY: as in `put`.
        unsafe { sys::leveldb_delete(self.db, self.write, key.as_ptr(), key.len(), &raw mut message) };
        check(message)
    }

    fn get(&self, key: &[u8], value: &mut Vec<u8>) -> Result<bool> {
        value.clear();
        let (mut length, mut message) = (0, ptr::null_mut());
        // SAFETY: what comes back is null or a malloc'ed array of `length` bytes, copied and freed here.
        let found = unsafe {
            let (k, n) = (key.as_ptr(), key.len());
            let bytes = sys::leveldb_get(self.db, self.read, k, n, &raw mut length, &raw mut message);
            if !bytes.is_null() {
                value.extend_from_slice(std::slice::from_raw_parts(bytes, length));
                sys::leveldb_free(bytes.cast());
            }
            !bytes.is_null()
        };
        check(message)?;
        Ok(found)
    }

    fn scan(&self, from: &[u8], to: Option<&[u8]>, limit: u64, row: &mut Row<'_>) -> Result<u64> {
        let (mut rows, mut message) = (0, ptr::null_mut());
        // SAFETY: the iterator lives until the end of this block; key and value pointers are valid until it moves,
        // and nobody keeps them longer than the call of `row`.
        unsafe {
            let iter = sys::leveldb_create_iterator(self.db, self.read);
            if from.is_empty() {
                sys::leveldb_iter_seek_to_first(iter);
            } else {
                sys::leveldb_iter_seek(iter, from.as_ptr(), from.len());
            }
            while rows < limit && sys::leveldb_iter_valid(iter) != 0 {
                let (mut key_len, mut value_len) = (0, 0);
                let key = sys::leveldb_iter_key(iter, &raw mut key_len);
                let key = std::slice::from_raw_parts(key, key_len);
                if to.is_some_and(|to| key > to) {
                    break;
                }
                let value = sys::leveldb_iter_value(iter, &raw mut value_len);
                row(key, std::slice::from_raw_parts(value, value_len));
                rows += 1;
                sys::leveldb_iter_next(iter);
            }
            sys::leveldb_iter_get_error(iter, &raw mut message);
            sys::leveldb_iter_destroy(iter);
        }
        check(message)?;
        Ok(rows)
    }

    fn close(self: Box<Self>) -> Result<()> {
        Ok(())
    }
}
