//! Damaged and truncated files: reads return the right bytes, or an error with its place. Only the damaged values are
//! lost.

use super::*;

struct Sealed {
    disk: SimFs,
    values: Vec<(Entry, Vec<u8>)>,
    /// Where the footer begins.
    end: u64,
}

/// A shared file of small values, one of several chunks.
fn shared() -> Result<Sealed> {
    let disk = SimFs::new(8);
    let mut writer = SharedWriter::create(&disk, path(), new_file(12))?;
    let mut values = Vec::new();
    for (i, len) in [100, 9_000, 0, 1, 4096].into_iter().enumerate() {
        let value = Rng::new(i as u64).bytes(len);
        values.push((writer.append(2, b"a key of some length", &value, 5)?, value));
    }
    let end = writer.len();
    writer.seal()?;
    Ok(Sealed { disk, values, end })
}

fn single() -> Result<Sealed> {
    let disk = SimFs::new(9);
    let fs: Arc<dyn FileSystem> = Arc::new(disk.clone());
    let mut writer = SingleWriter::create(&fs, path(), new_file(12), false)?;
    let value = Rng::new(1).bytes(9_001);
    writer.write(&value, &StepExecutor)?;
    let entry = writer.finish(2, b"a key of some length", 5)?.entry;
    let end = disk.file_len(path())? - 128;
    Ok(Sealed { disk, values: vec![(entry, value)], end })
}

/// Whether `error` names the fault and its place.
fn is_located(error: &Error) -> bool {
    let known = matches!(error.kind(), ErrorKind::Corruption | ErrorKind::Unsupported);
    known
        && error.path() == Some(path())
        && (error.offset().is_some() || error.kind() == ErrorKind::Unsupported)
}

/// Reads a value in every way; returns the error if there is one.
fn read_every_way(open: &dyn Fn() -> Result<BlobFile>, entry: &Entry, value: &[u8]) -> Result<Option<Error>> {
    let pointer = entry.pointer(7);
    let mut errors = Vec::new();
    let whole = read_whole(&open()?, &pointer);
    let verified = open()?.verify(&pointer);
    let blob = open()?;
    let mut parts = Vec::new();
    for start in (0..value.len()).step_by(2900) {
        parts.push((start, (start + 2900).min(value.len())));
    }
    for (from, to) in parts {
        match read(&blob, &pointer, from as u64, to - from) {
            Ok(bytes) => assert!(bytes == value[from..to]),
            Err(error) => errors.push(error),
        }
    }
    match whole {
        Ok(bytes) => assert!(bytes == value),
        Err(error) => errors.push(error),
    }
    if errors.is_empty() && verified.is_ok() && !value.is_empty() {
        return Ok(None);
    }
    errors.extend(verified.err());
    assert!(errors.iter().all(is_located), "{errors:?}");
    Ok(errors.into_iter().next())
}

fn flip_every_byte(sealed: &Sealed) -> Result<()> {
    let Sealed { disk, values, end } = sealed;
    for at in 0..disk.file_len(path())? {
        disk.flip_byte(PATH, at, 1 << (at % 8))?;
        let covered = at < 48 || at >= *end;
        match open_sealed(disk) {
            Err(error) => assert!(covered && is_located(&error), "byte {at}: {error}"),
            Ok(_) => {
                assert!(!covered, "byte {at}: header and footer are covered");
                for (entry, value) in values {
                    let hit = (entry.offset..entry.offset + entry.len).contains(&at)
                        || (entry.sums_offset()..entry.end(12)).contains(&at);
                    let error = read_every_way(&|| open_sealed(disk), entry, value)?;
                    assert_eq!(error.is_some(), hit, "byte {at}: {error:?}");
                    if let Some(error) = error.filter(|_| at < entry.offset + entry.len) {
                        let chunk = entry.offset + ((at - entry.offset) >> 12 << 12);
                        assert_eq!(error.offset(), Some(chunk), "byte {at}: {error}");
                    }
                }
            }
        }
        flip_and_scan(sealed, at)?;
        disk.flip_byte(PATH, at, 1 << (at % 8))?;
    }
    Ok(())
}

/// With only descriptors and one damaged byte, the values before it are found.
fn flip_and_scan(sealed: &Sealed, at: u64) -> Result<()> {
    let found = match scan(&sealed.disk) {
        Ok((_, scan)) => scan.entries,
        Err(error) => {
            assert!(at < 48 && is_located(&error), "byte {at}: {error}");
            return Ok(());
        }
    };
    let intact = |entry: &Entry| {
        let descriptor = entry.desc_offset..entry.desc_offset + 84;
        !descriptor.contains(&at)
    };
    let expected: Vec<Entry> = sealed.values.iter().map(|(entry, _)| *entry).take_while(intact).collect();
    assert_eq!(found, expected, "byte {at}");
    Ok(())
}

#[test]
fn a_damaged_byte_of_a_shared_file_costs_the_value_it_hits() -> Result<()> {
    flip_every_byte(&shared()?)
}

#[test]
fn a_damaged_byte_of_a_single_file_is_told() -> Result<()> {
    flip_every_byte(&single()?)
}

#[test]
fn a_file_cut_short_has_the_values_in_front_of_the_cut() -> Result<()> {
    for sealed in [shared()?, single()?] {
        let full = sealed.disk.file_len(path())?;
        for len in 0..full {
            let disk = sealed.disk.fork();
            disk.truncate(PATH, len)?;
            let error = open_sealed(&disk).expect_err("it has no footer");
            assert!(is_located(&error), "{len}: {error}");
            match scan(&disk) {
                Err(error) => assert!(len < 4096 && is_located(&error), "{len}: {error}"),
                Ok((blob, scan)) => {
                    let whole = |entry: &Entry| entry.end(12).max(entry.desc_offset + 88) <= len;
                    let expected: Vec<Entry> =
                        sealed.values.iter().map(|(entry, _)| *entry).take_while(whole).collect();
                    assert_eq!(scan.entries, expected, "{len}");
                    for ((entry, value), _) in sealed.values.iter().zip(&scan.entries) {
                        assert!(read_whole(&blob, &entry.pointer(7))? == *value);
                    }
                }
            }
        }
    }
    Ok(())
}

#[test]
fn a_file_under_another_name_is_told() -> Result<()> {
    let sealed = shared()?;
    let error = BlobFile::open_sealed(sealed.disk.open_read(path())?, 8).expect_err("it is file 7");
    assert!(is_located(&error), "{error}");
    Ok(())
}

#[test]
fn a_file_that_shrinks_while_it_is_open_is_told() -> Result<()> {
    let sealed = shared()?;
    let blob = open_sealed(&sealed.disk)?;
    let (entry, value) = &sealed.values[1];
    assert!(read_whole(&blob, &entry.pointer(7))? == *value);
    sealed.disk.truncate(PATH, entry.offset + 4096)?;
    assert!(is_located(&read_whole(&blob, &entry.pointer(7)).expect_err("half of it is gone")));
    Ok(())
}

/// The fuzzer has found the memory that a read of the whole value requested.
#[test]
fn a_pointer_that_claims_any_length_is_refused_before_memory_is_taken() -> Result<()> {
    for sealed in [shared()?, single()?] {
        let blob = open_sealed(&sealed.disk)?;
        let sound = sealed.values[0].0.pointer(7);
        let pointer = Pointer { len: 1 << 56, ..sound };
        let error = blob
            .append_to(&pointer, 0, pointer.len, &mut Vec::new(), &StepExecutor)
            .expect_err("the file has no such value");
        assert!(error.kind() == ErrorKind::Corruption && is_located(&error), "{error}");
        let beyond = blob.append_to(&sound, 0, sound.len + 1, &mut Vec::new(), &StepExecutor);
        assert_eq!(beyond.expect_err("it ends before").kind(), ErrorKind::InvalidInput);
    }
    Ok(())
}
