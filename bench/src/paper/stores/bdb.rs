//! BerkeleyDB as a transactional B-tree, through `bdb.c`. A plain put has written its log record to the operating
//! system (`DB_TXN_WRITE_NOSYNC`); pages of 64 KiB, a cache of 1 GiB, a checkpoint every 256 MiB.

use super::Huge;
use crate::stores::Result;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr;

#[repr(C)]
struct Raw {
    _private: [u8; 0],
}

unsafe extern "C" {
    fn bdb_message(code: c_int) -> *const c_char;
    fn bdb_open(dir: *const c_char, out: *mut *mut Raw) -> c_int;
    fn bdb_close(db: *mut Raw) -> c_int;
    fn bdb_put(
        db: *mut Raw,
        key: *const c_void,
        key_len: u32,
        value: *const c_void,
        value_len: u32,
        sync: c_int,
    ) -> c_int;
    fn bdb_get(
        db: *mut Raw,
        key: *const c_void,
        key_len: u32,
        into: *mut c_void,
        room: u32,
        len: *mut u32,
    ) -> c_int;
    fn bdb_delete(db: *mut Raw, key: *const c_void, key_len: u32) -> c_int;
    fn bdb_compact(db: *mut Raw) -> c_int;
}

/// Owns the handle, which is null once it is closed.
pub(super) struct Bdb {
    raw: *mut Raw,
}

fn check(code: c_int) -> Result<()> {
    if code == 0 {
        return Ok(());
    }
    // SAFETY: BerkeleyDB returns a string with a NUL that nobody frees.
    let text = unsafe { CStr::from_ptr(bdb_message(code)) }.to_string_lossy();
    Err(format!("bdb: {text}").into())
}

fn pointer(bytes: &[u8]) -> (*const c_void, u32) {
    (bytes.as_ptr().cast(), u32::try_from(bytes.len()).unwrap_or(u32::MAX))
}

impl Bdb {
    pub(super) fn open(dir: &Path) -> Result<Bdb> {
        std::fs::create_dir_all(dir)?;
        let name = CString::new(dir.as_os_str().as_bytes())?;
        let mut raw = ptr::null_mut();
        // SAFETY: the name ends with a NUL; what comes back is ours to close.
        check(unsafe { bdb_open(name.as_ptr(), &raw mut raw) })?;
        Ok(Bdb { raw })
    }
}

impl Huge for Bdb {
    fn put(&self, key: &[u8], value: &[u8], sync: bool) -> Result<()> {
        let ((k, k_len), (v, v_len)) = (pointer(key), pointer(value));
        // SAFETY: the handle is open, both slices are valid for their lengths and copied.
        check(unsafe { bdb_put(self.raw, k, k_len, v, v_len, c_int::from(sync)) })
    }

    fn get(&self, key: &[u8], into: &mut [u8]) -> Result<Option<usize>> {
        let (k, k_len) = pointer(key);
        let room = u32::try_from(into.len()).unwrap_or(u32::MAX);
        let mut length = 0;
        // SAFETY: BerkeleyDB writes at most `room` bytes to `into`.
        match unsafe { bdb_get(self.raw, k, k_len, into.as_mut_ptr().cast(), room, &raw mut length) } {
            1 => Ok(None),
            code => check(code).map(|()| Some(length as usize)),
        }
    }

    fn delete(&self, key: &[u8]) -> Result<()> {
        let (k, k_len) = pointer(key);
        // SAFETY: the handle is open, the key valid for its length.
        check(unsafe { bdb_delete(self.raw, k, k_len) })
    }

    fn compact(&mut self) -> Result<()> {
        // SAFETY: the handle is open.
        check(unsafe { bdb_compact(self.raw) })
    }

    fn close(mut self: Box<Self>) -> Result<()> {
        let raw = std::mem::replace(&mut self.raw, ptr::null_mut());
        // SAFETY: the handle is open, and `drop` sees that it is not any more.
        check(unsafe { bdb_close(raw) })
    }
}

impl Drop for Bdb {
    fn drop(&mut self) {
        if !self.raw.is_null() {
            // SAFETY: the handle is open, and nobody has it any more.
            unsafe { bdb_close(self.raw) };
        }
    }
}
