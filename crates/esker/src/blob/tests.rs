//! Blob files on a simulated disk against a model, whole, damaged and cut short.

use std::path::Path;
use std::sync::Arc;

use super::*;
use crate::env::StepExecutor;
use crate::error::{Error, ErrorKind, Result};
use crate::fs::FileSystem;
use crate::fs::sim::{Fault, FaultError, Op, SimFs};
use crate::rng::Rng;

mod damage;
mod hostile;
mod model;
mod side_by_side;
mod single;

const PATH: &str = "/000007.blob";

fn path() -> &'static Path {
    Path::new(PATH)
}

fn new_file(chunk_log2: u8) -> Header {
    let (number, salt) = (7, 0x5a17_5a17_5a17_5a17);
    Header { layout: Layout::Shared, chunk_log2, number, salt, created_us: 99 }
}

fn open_sealed(disk: &SimFs) -> Result<BlobFile> {
    BlobFile::open_sealed(disk.open_read(path())?, 7)
}

fn scan(disk: &SimFs) -> Result<(BlobFile, Scan)> {
    BlobFile::scan(disk.open_read(path())?, 7)
}

/// Reads a part of a value.
fn read(blob: &BlobFile, pointer: &Pointer, offset: u64, len: usize) -> Result<Vec<u8>> {
    let mut bytes = vec![0xee; len];
    blob.read_at(pointer, offset, &mut bytes, &StepExecutor)?;
    Ok(bytes)
}

fn read_whole(blob: &BlobFile, pointer: &Pointer) -> Result<Vec<u8>> {
    read(blob, pointer, 0, pointer.len as usize)
}

/// The random choices of these tests.
trait Draw {
    fn bytes(&mut self, len: u64) -> Vec<u8>;
    /// Lengths around every boundary: of blocks, chunks, pieces.
    fn value_len(&mut self) -> u64;
    /// A part of a value, often with an end on a chunk boundary.
    fn range(&mut self, len: u64) -> (u64, usize);
}

impl Draw for Rng {
    fn bytes(&mut self, len: u64) -> Vec<u8> {
        let mut bytes: Vec<u8> = (0..len.div_ceil(8)).flat_map(|_| self.next().to_le_bytes()).collect();
        bytes.truncate(len as usize);
        bytes
    }

    fn value_len(&mut self) -> u64 {
        let base = [0, 8, 4096, 32 << 10, 64 << 10, 256 << 10][self.below(6) as usize];
        let spread = [2, 64, 5000, 40_000][self.below(4) as usize];
        (base * (1 + self.below(2)) + self.below(spread)).saturating_sub(self.below(spread))
    }

    fn range(&mut self, len: u64) -> (u64, usize) {
        let point = |rng: &mut Rng| match rng.below(4) {
            0 => rng.below(len + 1),
            1 => (rng.below(len + 1) >> 12) << 12,
            2 => 0,
            _ => len,
        };
        let (a, b) = (point(self), point(self));
        (a.min(b), a.abs_diff(b) as usize)
    }
}

#[test]
fn pointers_round_trip_and_nothing_else_decodes() {
    let pointer = Pointer {
        file: 300,
        ordinal: 5,
        len: 1 << 40,
        stored_us: 1 << 50,
        sums_check: u64::MAX,
        reference: 0,
    };
    let mut bytes = Vec::new();
    pointer.encode(&mut bytes);
    assert_eq!(Pointer::decode(&bytes), Some(pointer));
    assert_eq!(Pointer::decode(&bytes[..bytes.len() - 1]), None);
    let mut copied = Vec::new();
    Pointer { reference: 300, ..pointer }.encode(&mut copied);
    assert_eq!(Pointer::decode(&copied), Some(Pointer { reference: 300, ..pointer }));
    copied.push(1);
    assert_eq!(Pointer::decode(&copied), None);
    bytes.push(0);
    assert_eq!(Pointer::decode(&bytes), None);
    for (file, len) in [(1 << 49, 1), (1, u64::MAX)] {
        let mut bytes = Vec::new();
        Pointer { file, len, ..pointer }.encode(&mut bytes);
        assert_eq!(Pointer::decode(&bytes), None, "beyond the limits");
    }
}

#[test]
fn a_value_is_addressed_by_pointer_and_nothing_else_is_given_out() -> Result<()> {
    let disk = SimFs::new(1);
    let mut writer = SharedWriter::create(&disk, path(), new_file(12))?;
    let pointer = writer.append(3, b"key", &[7; 10_000], 1)?.pointer(7);
    let blob = Arc::clone(writer.blob());
    for wrong in [
        Pointer { len: 9_999, ..pointer },
        Pointer { ordinal: 1, ..pointer },
        Pointer { file: 8, ..pointer },
        Pointer { sums_check: !pointer.sums_check, ..pointer },
    ] {
        let error = read_whole(&blob, &wrong).expect_err("no such value");
        assert_eq!(error.kind(), ErrorKind::Corruption, "{error}");
        assert_eq!(blob.verify(&wrong).expect_err("no such value").kind(), ErrorKind::Corruption);
    }
    for (offset, len) in [(0, 10_001), (10_000, 1), (10_001, 0), (u64::MAX, 2), (u64::MAX, 0), (1, 10_000)] {
        let error = read(&blob, &pointer, offset, len).expect_err("no such range");
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
    }
    assert_eq!(read(&blob, &pointer, 10_000, 0)?, b"");
    assert_eq!(read_whole(&blob, &pointer)?, [7; 10_000]);
    assert_eq!(blob.locate(0).map(|(_, len)| len), Some(10_000));
    assert_eq!(blob.locate(1), None);
    Ok(())
}

#[test]
fn a_write_that_failed_leaves_nothing_and_the_next_one_works() -> Result<()> {
    for op in [Op::WriteAt, Op::SetLen] {
        let disk = SimFs::new(2);
        let mut writer = SharedWriter::create(&disk, path(), new_file(12))?;
        let first = writer.append(1, b"a", &[1; 5000], 1)?.pointer(7);
        let len = writer.len();
        disk.inject(Fault::new(Op::WriteAt, PATH).nth(1).error(FaultError::NoSpace));
        if op == Op::SetLen {
            disk.inject(Fault::new(Op::SetLen, PATH).nth(1));
        }
        assert!(writer.append(1, b"b", &[2; 90_000], 1).is_err());
        assert_eq!(writer.len(), len);
        assert!(disk.faults_hit() > 0);
        disk.clear_faults();

        let second = writer.append(1, b"c", &[3; 100], 1)?.pointer(7);
        disk.inject(Fault::new(Op::WriteAt, PATH).nth(1).error(FaultError::NoSpace));
        assert_eq!(writer.seal().expect_err("a full disk").kind(), ErrorKind::OutOfSpace);
        disk.clear_faults();
        let third = writer.append(1, b"d", &[4; 100], 1)?.pointer(7);
        writer.seal()?;
        assert_eq!(writer.append(1, b"e", b"", 1).expect_err("it is sealed").kind(), ErrorKind::InvalidInput);
        let blob = open_sealed(&disk)?;
        assert_eq!(read_whole(&blob, &first)?, [1; 5000]);
        assert_eq!(read_whole(&blob, &second)?, [3; 100]);
        assert_eq!(read_whole(&blob, &third)?, [4; 100]);
        assert_eq!(disk.file_len(path())?, writer.len());
    }
    Ok(())
}

#[test]
fn a_file_that_cannot_be_begun_is_removed() {
    let disk = SimFs::new(3);
    disk.inject(Fault::new(Op::WriteAt, PATH).nth(1));
    assert!(SharedWriter::create(&disk, path(), new_file(CHUNK_LOG2)).is_err());
    assert_eq!(disk.paths(), Vec::<std::path::PathBuf>::new());
}

/// Rule 10: a value is contiguous, its sums follow it, and from 32 KiB on it begins at a block.
#[test]
fn values_begin_at_blocks() -> Result<()> {
    let disk = SimFs::new(3);
    let mut writer = SharedWriter::create(&disk, path(), new_file(12))?;
    for len in [1, 100, 32_767, 32_768, 9_000, 32_769, 300_001] {
        let value = Rng::new(len).bytes(len);
        let entry = writer.append(2, b"key", &value, 5)?;
        assert!(len < 32_768 || entry.offset.is_multiple_of(4096), "{len}: {entry:?}");
        let bytes = disk.read_all(PATH)?;
        assert!(bytes[entry.offset as usize..][..len as usize] == value, "{len}");
        assert_eq!(entry.end(12), entry.sums_offset() + 8 * len.div_ceil(4096));
    }
    Ok(())
}
