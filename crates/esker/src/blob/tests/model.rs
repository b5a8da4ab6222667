//! Random values, read in random parts while the file grows, and again after the file is opened in each way.

use super::*;

/// Every value that was written, with its entry and its key.
type Model = Vec<(Entry, Vec<u8>, Vec<u8>)>;

/// Makes a few random reads. `checked` reads verify everything.
fn read_some(rng: &mut Rng, blob: &BlobFile, model: &Model, reads: u64) -> Result<()> {
    for _ in 0..reads.min(model.len() as u64 * 8) {
        let (entry, _, value) = &model[rng.below(model.len() as u64) as usize];
        let pointer = entry.pointer(7);
        match rng.below(8) {
            0 => assert!(read_whole(blob, &pointer)? == *value, "{entry:?}"),
            1 => blob.verify(&pointer)?,
            _ => {
                let (offset, len) = rng.range(entry.len);
                let from = offset as usize;
                assert!(
                    read(blob, &pointer, offset, len)? == value[from..from + len],
                    "{entry:?} {offset} {len}"
                );
            }
        }
    }
    Ok(())
}

fn entries(model: &Model) -> Vec<Entry> {
    model.iter().map(|(entry, ..)| *entry).collect()
}

fn run(seed: u64) -> Result<()> {
    let mut rng = Rng::new(seed);
    let disk = SimFs::new(seed);
    let chunk_log2 = [12, 13, 16, 20][rng.below(4) as usize];
    let mut writer = SharedWriter::create(&disk, path(), new_file(chunk_log2))?;
    let mut model = Model::new();
    for step in 0..40 {
        let len = rng.value_len();
        let value = rng.bytes(len);
        let key_len = [0, 5, 300, 131_072][rng.below(4) as usize];
        let key = rng.bytes(key_len);
        let entry = writer.append(rng.next() as u32, &key, &value, rng.next())?;
        assert_eq!((entry.ordinal, entry.len), (step, len));
        assert_eq!(writer.len(), disk.file_len(path())?);
        model.push((entry, key, value));
        read_some(&mut rng, writer.blob(), &model, 4)?;
        if rng.below(8) == 0 {
            let (found, scan) = scan(&disk)?;
            assert_eq!((scan.entries, scan.end), (entries(&model), writer.len()));
            read_some(&mut rng, &found, &model, 8)?;
            assert!(open_sealed(&disk).is_err(), "there is no footer yet");
        }
    }
    let end = writer.len();
    writer.seal()?;
    read_some(&mut rng, writer.blob(), &model, 100)?;
    // The seal has made all of it durable.
    let disk = disk.crash_keeping(0.0, seed);
    disk.sync_dir(Path::new("/"))?;
    if !disk.exists(path())? {
        return Ok(());
    }
    let sealed = open_sealed(&disk)?;
    assert_eq!(sealed.entries()?, entries(&model));
    assert_eq!(*sealed.header(), *writer.blob().header());
    read_some(&mut rng, &sealed, &model, 200)?;
    let (found, scan) = scan(&disk)?;
    assert_eq!((scan.entries, scan.end), (entries(&model), end));
    read_some(&mut rng, &found, &model, 50)
}

#[test]
fn values_are_read_as_they_were_written() {
    for seed in test_kit::seeds(24) {
        if let Err(error) = run(seed) {
            panic!("seed {seed}: {error}");
        }
    }
}

#[test]
fn readers_go_on_while_the_file_grows() -> Result<()> {
    let disk = SimFs::new(5);
    let mut writer = SharedWriter::create(&disk, path(), new_file(12))?;
    let value = |ordinal: u64| Rng::new(ordinal).bytes(3_000 + ordinal * 700 % 40_000);
    let pointers = parking_lot::RwLock::new(Vec::new());
    let blob = Arc::clone(writer.blob());
    let done = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| -> Result<()> {
        let readers: Vec<_> = (0..3)
            .map(|thread| {
                let (blob, pointers, done) = (&blob, &pointers, &done);
                scope.spawn(move || -> Result<()> {
                    let mut rng = Rng::new(thread);
                    while !done.load(std::sync::atomic::Ordering::Relaxed) {
                        let known: Vec<Pointer> = pointers.read().clone();
                        for pointer in known {
                            let (offset, len) = rng.range(pointer.len);
                            let bytes = read(blob, &pointer, offset, len)?;
                            let from = offset as usize;
                            assert!(bytes == value(pointer.ordinal)[from..from + len]);
                        }
                    }
                    Ok(())
                })
            })
            .collect();
        for ordinal in 0..60 {
            let entry = writer.append(0, b"key", &value(ordinal), 0)?;
            pointers.write().push(entry.pointer(7));
        }
        done.store(true, std::sync::atomic::Ordering::Relaxed);
        readers.into_iter().try_for_each(|reader| reader.join().expect("a reader that found what it wanted"))
    })
}

#[test]
fn a_verified_chunk_is_not_read_again_for_its_checksum() -> Result<()> {
    let disk = SimFs::new(6);
    let mut writer = SharedWriter::create(&disk, path(), new_file(12))?;
    let entry = writer.append(0, b"key", &[9; 40_000], 0)?;
    let (pointer, blob) = (entry.pointer(7), writer.blob());
    read(blob, &pointer, 4096, 4096)?;
    // Damage in a verified chunk is not noticed until the file is opened again. In another chunk it is.
    disk.flip_byte(PATH, entry.offset + 5000, 1)?;
    disk.flip_byte(PATH, entry.offset + 9000, 1)?;
    assert_eq!(read(blob, &pointer, 5000, 1)?, [8]);
    let error = read(blob, &pointer, 5000, 4000).expect_err("damage");
    assert_eq!(error.offset(), Some(entry.offset + 8192), "{error}");
    disk.flip_byte(PATH, entry.offset + 9000, 1)?;
    assert_eq!(read(blob, &pointer, 5001, 30_000)?, [9; 30_000]);
    let error = read_whole(blob, &pointer).expect_err("not all of it was verified");
    assert_eq!(error.offset(), Some(entry.offset + 4096), "{error}");
    Ok(())
}

#[test]
fn what_was_synced_is_found_after_a_power_loss_and_the_rest_is_right_or_told() -> Result<()> {
    let (mut found_more, mut torn) = (0, 0);
    for seed in 0..200 {
        let mut rng = Rng::new(seed);
        let disk = SimFs::new(seed);
        let mut writer = SharedWriter::create(&disk, path(), new_file(12))?;
        disk.sync_dir(Path::new("/"))?;
        writer.file().sync()?;
        let mut model = Model::new();
        let mut synced = 0;
        for _ in 0..rng.below(8) + 1 {
            let len = rng.below(30_000);
            let value = rng.bytes(len);
            model.push((writer.append(1, b"key", &value, 0)?, Vec::new(), value));
            if rng.below(3) == 0 {
                writer.file().sync()?;
                synced = model.len();
            }
        }
        let (blob, scan) = scan(&disk.crash(seed))?;
        assert!(scan.entries.len() >= synced && entries(&model).starts_with(&scan.entries), "seed {seed}");
        found_more += usize::from(scan.entries.len() > synced);
        for (i, (entry, _, value)) in model.iter().take(scan.entries.len()).enumerate() {
            match read_whole(&blob, &entry.pointer(7)) {
                Ok(bytes) => assert!(bytes == *value, "seed {seed}"),
                Err(error) => {
                    assert!(i >= synced, "seed {seed}: {error}");
                    torn += 1;
                }
            }
        }
    }
    assert!(found_more > 10 && torn > 10, "{found_more} {torn}");
    Ok(())
}
