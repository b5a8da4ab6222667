//! Values that come as a stream: pieces of all sizes, ends, failures, and dropped writers.

use super::*;

fn disk(seed: u64) -> (SimFs, Arc<dyn FileSystem>) {
    let disk = SimFs::new(seed);
    let fs = Arc::new(disk.clone());
    (disk, fs)
}

#[test]
fn streams_of_all_lengths_are_read_as_they_were_written() -> Result<()> {
    const MIB: u64 = 1 << 20;
    for (seed, len) in [0, 1, 7, 8, 4095, 4096, 4097, 65_536, MIB - 1, MIB, MIB + 1, 3 * MIB + 5, 9 * MIB]
        .into_iter()
        .enumerate()
    {
        let mut rng = Rng::new(seed as u64);
        let (disk, fs) = disk(seed as u64);
        let value = rng.bytes(len);
        let mut writer = SingleWriter::create(&fs, path(), new_file([12, 16, 20][seed % 3]), seed % 2 == 0)?;
        let mut rest = &value[..];
        while !rest.is_empty() {
            let most = [10_000, MIB, 2 * MIB + 1][rng.below(3) as usize].min(rest.len() as u64);
            let (piece, behind) = rest.split_at(1 + rng.below(most) as usize);
            writer.write(piece, &StepExecutor)?;
            rest = behind;
        }
        let finished = writer.finish(4, b"key", 11)?;
        let pointer = finished.entry.pointer(7);
        finished.file.sync()?;
        assert!(read_whole(&finished.blob, &pointer)? == value);
        let (scanned, scan) = scan(&disk)?;
        assert_eq!(scan.entries, [finished.entry], "length {len}");
        for blob in [open_sealed(&disk)?, scanned] {
            blob.verify(&pointer)?;
            for _ in 0..20 {
                let (offset, len) = rng.range(len);
                let from = offset as usize;
                assert!(read(&blob, &pointer, offset, len)? == value[from..from + len]);
            }
        }
        assert_eq!(open_sealed(&disk)?.entries()?, [finished.entry]);
    }
    Ok(())
}

#[test]
fn a_stream_that_is_dropped_leaves_no_file() -> Result<()> {
    let (disk, fs) = disk(1);
    let mut writer = SingleWriter::create(&fs, path(), new_file(CHUNK_LOG2), false)?;
    writer.write(&vec![1; 3 << 20], &StepExecutor)?;
    assert!(disk.exists(path())?);
    drop(writer);
    assert!(!disk.exists(path())?);
    Ok(())
}

#[test]
fn a_stream_with_a_gap_is_never_finished() -> Result<()> {
    for fail_at_finish in [false, true] {
        let (disk, fs) = disk(2);
        let mut writer = SingleWriter::create(&fs, path(), new_file(CHUNK_LOG2), false)?;
        writer.write(&vec![1; 1 << 20], &StepExecutor)?;
        disk.inject(Fault::new(Op::WriteAt, PATH).nth(1).error(FaultError::NoSpace));
        if !fail_at_finish {
            let error = writer.write(&vec![2; 1 << 20], &StepExecutor).expect_err("a full disk");
            assert_eq!(error.kind(), ErrorKind::OutOfSpace);
            assert!(
                writer.write(&vec![3; 1 << 20], &StepExecutor).is_err(),
                "the disk has room, but the value has a gap"
            );
        }
        assert!(writer.finish(1, b"key", 0).is_err());
        assert!(!disk.exists(path())?);
    }
    Ok(())
}

#[test]
fn a_key_over_the_limit_is_refused() -> Result<()> {
    let (disk, fs) = disk(3);
    let writer = SingleWriter::create(&fs, path(), new_file(CHUNK_LOG2), false)?;
    let error = writer.finish(1, &vec![0; 131_073], 0).expect_err("a long key");
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    let mut writer = SharedWriter::create(&disk, path(), new_file(CHUNK_LOG2))?;
    let error = writer.append(1, &vec![0; 131_073], b"value", 0).expect_err("a long key");
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    writer.append(1, &vec![0; 131_072], b"value", 0).map(drop)
}
