//! Long values that several threads write and read: the bytes are right, and the damaged chunk nearest to the beginning
//! is reported.

use std::sync::Weak;

use super::*;
use crate::env::{Executor, JobKind, ThreadExecutor, Worker};

/// Four threads, regardless of the number of processors.
#[derive(Debug)]
struct Four(ThreadExecutor);

impl Default for Four {
    fn default() -> Four {
        Four(ThreadExecutor::new(4))
    }
}

impl Executor for Four {
    fn start(&self, _: Weak<dyn Worker>) -> Result<()> {
        Ok(())
    }
    fn notify(&self, _: JobKind) {}
    fn is_stepped(&self) -> bool {
        true
    }
    fn stop(&self) {}
    fn side_by_side(&self, helpers: usize, work: &(dyn Fn() + Sync)) {
        self.0.side_by_side(helpers, work);
    }
    fn idle_processors(&self) -> usize {
        3
    }
}

/// A file with one long value, which ends within a chunk.
fn long() -> Result<(SimFs, Entry, Vec<u8>)> {
    let disk = SimFs::new(11);
    let fs: Arc<dyn FileSystem> = Arc::new(disk.clone());
    let mut writer = SingleWriter::create(&fs, path(), new_file(16), false)?;
    let value = Rng::new(1).bytes((9 << 20) + 1234);
    writer.write(&value, &Four::default())?;
    Ok((disk, writer.finish(1, b"key", 0)?.entry, value))
}

#[test]
fn long_reads_agree_with_the_value_whatever_was_verified_before() -> Result<()> {
    let (disk, entry, value) = long()?;
    let pointer = entry.pointer(7);
    for seed in test_kit::seeds(12) {
        let mut rng = Rng::new(seed);
        let blob = open_sealed(&disk)?;
        for _ in 0..6 {
            let at = rng.below(1 << 20);
            let len = match rng.below(4) {
                0 => rng.below(200_000),
                1 => value.len() as u64 - at,
                _ => value.len() as u64 - at - rng.below(1 << 20),
            };
            let (at, len) = if rng.below(4) == 0 { (0, entry.len) } else { (at, len) };
            let mut bytes = vec![0xee; 100];
            blob.append_to(&pointer, at, len, &mut bytes, &Four::default())?;
            let (at, len) = (at as usize, len as usize);
            assert!(
                bytes[..100] == [0xee; 100] && bytes[100..] == value[at..at + len],
                "seed {seed}: {at} {len}"
            );
        }
    }
    Ok(())
}

/// Leaves all the work to the caller, although it reports idle processors.
#[derive(Debug)]
struct Lazy(usize);

impl Executor for Lazy {
    fn start(&self, _: Weak<dyn Worker>) -> Result<()> {
        Ok(())
    }
    fn notify(&self, _: JobKind) {}
    fn is_stepped(&self) -> bool {
        true
    }
    fn stop(&self) {}
    fn side_by_side(&self, _: usize, _: &(dyn Fn() + Sync)) {}
    fn idle_processors(&self) -> usize {
        self.0
    }
}

#[test]
fn a_long_value_is_the_same_whoever_writes_it() -> Result<()> {
    let value = Rng::new(5).bytes((13 << 20) + 77);
    let mut files = Vec::new();
    let executors: [&dyn Executor; 4] = [&StepExecutor, &Four::default(), &Lazy(0), &Lazy(1)];
    for executor in executors {
        let disk = SimFs::new(11);
        let fs: Arc<dyn FileSystem> = Arc::new(disk.clone());
        let mut writer = SingleWriter::create(&fs, path(), new_file(16), true)?;
        let mut rest = &value[..];
        for len in [5 << 20, 1 << 20, 4 << 20, 1000, (3 << 20) - 923] {
            let (piece, behind) = rest.split_at(len);
            writer.write(piece, executor)?;
            rest = behind;
        }
        assert!(rest.is_empty());
        let entry = writer.finish(1, b"key", 0)?.entry;
        files.push((entry.sums_check, disk.read(path())?));
    }
    assert!(files.iter().all(|file| *file == files[0]));
    Ok(())
}

#[test]
fn a_disk_that_fills_up_under_a_long_value_is_told() -> Result<()> {
    let disk = SimFs::new(11);
    let fs: Arc<dyn FileSystem> = Arc::new(disk.clone());
    disk.set_capacity(Some(6 << 20));
    let mut writer = SingleWriter::create(&fs, path(), new_file(16), false)?;
    let value = vec![7; 9 << 20];
    let error = writer.write(&value, &Four::default()).expect_err("a full disk");
    assert_eq!(error.kind(), ErrorKind::OutOfSpace);
    disk.set_capacity(None);
    let error = writer.write(&value, &Four::default()).expect_err("the value has a gap");
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    Ok(())
}

#[test]
fn damage_of_a_long_value_is_named_to_the_chunk() -> Result<()> {
    let (disk, entry, value) = long()?;
    let (pointer, len) = (entry.pointer(7), value.len());
    let mut rng = Rng::new(3);
    let chunks = len.div_ceil(1 << 16) as u64;
    // At full effort every chunk; else one in every `step`, from a chunk that the seed chooses.
    let step = chunks.div_ceil(test_kit::cases(chunks).max(1));
    for chunk in (test_kit::seed(0) % step..chunks).step_by(step as usize) {
        let start = entry.offset + (chunk << 16);
        let at = start + rng.below((1 << 16).min(entry.offset + entry.len - start));
        // A second damaged chunk after the first is not the reported one.
        let hits = [(at, 4), (entry.offset + entry.len - 1, 8)];
        hits.iter().try_for_each(|&(at, bit)| disk.flip_byte(PATH, at, bit))?;
        let mut buf = vec![0; len];
        let errors = [
            open_sealed(&disk)?.read_at(&pointer, 0, &mut buf, &Four::default()),
            open_sealed(&disk)?.append_to(&pointer, 0, len as u64, &mut Vec::new(), &StepExecutor),
            open_sealed(&disk)?.map(&pointer, true).map(drop),
            open_sealed(&disk)?.verify(&pointer),
        ];
        for error in errors.map(|read| read.expect_err("damage")) {
            assert!((error.kind(), error.path()) == (ErrorKind::Corruption, Some(path())), "{error}");
            assert_eq!(error.offset(), Some(start), "{error}");
        }
        // When a part is read, threads stop at the first damage that any of them finds.
        let blob = open_sealed(&disk)?;
        let error = blob.read_at(&pointer, 1, &mut buf[1..], &Four::default()).expect_err("damage");
        let last = entry.offset + ((len as u64 - 1) >> 16 << 16);
        assert!(error.offset() == Some(start) || error.offset() == Some(last), "{error}");
        assert!(blob.map(&pointer, false).is_ok_and(|map| map.len() == len && map[..] != value[..]));
        hits.iter().try_for_each(|&(at, bit)| disk.flip_byte(PATH, at, bit))?;
    }
    Ok(())
}
