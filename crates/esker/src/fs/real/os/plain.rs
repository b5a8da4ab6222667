//! Replaces the calls that only Linux has: `linux.rs` describes each function.

use std::fs::File;
use std::io::{self, IoSlice};
use std::mem::MaybeUninit;

use super::{Access, Directory, FileExt, Place};

/// Writes one part at a time; the caller continues with the rest.
pub(in crate::fs) fn write_parts_at(file: &File, parts: &[IoSlice<'_>], offset: u64) -> io::Result<usize> {
    parts.first().map_or(Ok(0), |first| file.write_at(first, offset))
}

pub(in crate::fs) fn open_direct(_place: &Place<'_>, _access: Access) -> io::Result<Option<(File, u64)>> {
    Ok(None)
}

pub(in crate::fs) fn prefetch(_file: &File, _offset: u64, _len: u64) {}

pub(in crate::fs) fn evict(_file: &File, _offset: u64, _len: u64) {}

/// The byte at `offset` itself: holes are not known.
pub(in crate::fs) fn next_data(_file: &File, offset: u64) -> u64 {
    offset
}

pub(in crate::fs) fn read_singly(_file: &File) {}

pub(in crate::fs) fn descriptors_max() -> Option<u64> {
    None
}

pub(in crate::fs) fn descriptors_open() -> Option<u64> {
    None
}

pub(in crate::fs) fn memory_limit() -> Option<u64> {
    None
}

pub(in crate::fs) fn is_cached(_file: &File, _offset: u64) -> bool {
    true
}

pub(in crate::fs) fn read_resident(_file: &File, _buf: &mut [u8], _offset: u64) -> bool {
    false
}

pub(in crate::fs) fn start_writeback(_file: &File, _offset: u64, _len: u64) {}

pub(in crate::fs) fn allocate(_file: &File, _len: u64) -> io::Result<bool> {
    Ok(false)
}

pub(in crate::fs) fn punch_hole(_file: &File, _offset: u64, _len: u64) -> io::Result<bool> {
    Ok(false)
}

pub(in crate::fs) fn shares_blocks(_file: &File) -> bool {
    false
}

pub(in crate::fs) fn copy_range(
    _source: (&File, &mut u64),
    _target: (&File, Option<&mut u64>),
    _len: usize,
) -> io::Result<usize> {
    Ok(0)
}

pub(in crate::fs) fn boot_id() -> [u8; 16] {
    [0; 16]
}

pub(in crate::fs) fn mount_id(_dir: &Directory) -> Option<u64> {
    None
}

pub(crate) fn expect_use(_buf: &mut [MaybeUninit<u8>]) {}

pub(crate) fn running_threads() -> Option<usize> {
    None
}

pub(in crate::fs) fn physical_memory() -> Option<u64> {
    None
}

/// No segment is mapped, so this type has no values.
#[derive(Debug)]
pub(in crate::fs) enum Map {}

impl Map {
    pub(in crate::fs) fn of_segment(_file: &File, _len: u64) -> io::Result<Option<Self>> {
        Ok(None)
    }

    pub(in crate::fs) fn read_in(&self) -> bool {
        match *self {}
    }

    pub(in crate::fs) fn copy_in(&self, _offset: u64, _bytes: &[u8]) -> bool {
        match *self {}
    }

    pub(in crate::fs) fn store_word(&self, _offset: u64, _value: u64) -> bool {
        match *self {}
    }

    pub(in crate::fs) fn warm(&self, _offset: u64, _len: u64) {
        match *self {}
    }
}

/// Whether bytes are in memory is not known.
#[derive(Debug, Default)]
pub(in crate::fs) struct Resident {}

impl Resident {
    pub(in crate::fs) fn copy<'a>(
        &self,
        _file: &File,
        _buf: &'a mut [MaybeUninit<u8>],
        _offset: u64,
    ) -> Option<&'a mut [u8]> {
        None
    }
}
