//! Files written at offsets, and holes: all file systems must behave alike.

use std::io::IoSlice;

use super::*;

fn slices(bytes: &[u8]) -> [IoSlice<'_>; 1] {
    [IoSlice::new(bytes)]
}

#[test]
fn parts_are_written_at_offsets() {
    on_all(|fs, dir| {
        let path = dir.join("a");
        let file = fs.create_random(&path).unwrap();
        assert!(file.is_empty());
        let parts = [b"".as_slice(), b"one ", b"", b"two ", b"three", b""].map(IoSlice::new);
        file.write_at(&parts, 5000).unwrap();
        file.write_at(&[], 1 << 30).unwrap();
        file.write_at(&slices(b""), 1 << 30).unwrap();
        assert_eq!((file.len(), file.path()), (5013, path.as_path()));
        file.start_writeback(0, 5013);
        file.write_at(&slices(b"ONE"), 5000).unwrap();
        file.sync().unwrap();
        let mut expected = vec![0; 5000];
        expected.extend(b"ONE two three");
        assert_eq!(fs.read(&path).unwrap(), expected);

        let reader = Arc::clone(&file).as_read();
        let mut buf = [0; 5];
        reader.prefetch(0, 5013);
        reader.read_exact_at(&mut buf, 5008).unwrap();
        assert_eq!(&buf, b"three");
        assert_eq!(kind(reader.read_exact_at(&mut buf, 5009)), ErrorKind::Corruption);
        file.set_len(5007).unwrap();
        assert_eq!((reader.len(), fs.file_len(&path).unwrap()), (5007, 5007));
        assert_eq!(kind(reader.read_exact_at(&mut buf, 5005)), ErrorKind::Corruption);
        file.set_len(5020).unwrap();
        expected.truncate(5007);
        expected.resize(5020, 0);
        drop((file, reader));
        let file = fs.open_random(&path).unwrap();
        assert_eq!(file.len(), 5020);
        assert_eq!(fs.read(&path).unwrap(), expected, "what was cut off must not come back");
    });
}

#[test]
fn more_parts_than_one_call_takes() {
    on_all(|fs, dir| {
        let bytes: Vec<u8> = (0..9000u32).map(|i| (i * 7 / 3) as u8).collect();
        let parts: Vec<IoSlice<'_>> = bytes.chunks(3).map(IoSlice::new).collect();
        let file = fs.create_random(&dir.join("a")).unwrap();
        file.write_at(&parts, 1).unwrap();
        assert_eq!(fs.read(&dir.join("a")).unwrap()[1..], bytes);
    });
}

#[test]
fn what_cannot_be_is_refused() {
    on_all(|fs, dir| {
        let (a, none) = (dir.join("a"), dir.join("none"));
        let file = fs.create_random(&a).unwrap();
        file.write_at(&slices(b"abc"), 0).unwrap();
        assert_eq!(kind(fs.create_random(&a)), ErrorKind::AlreadyExists);
        assert_eq!(kind(fs.open_random(&none)), ErrorKind::NotFound);
        assert_eq!(kind(fs.punch_hole(&none, 0, 4096)), ErrorKind::NotFound);
        assert_eq!(kind(fs.link_count(&none)), ErrorKind::NotFound);
        assert_eq!(kind(fs.allocated_bytes(&none)), ErrorKind::NotFound);
        for (offset, len) in [(1, 4096), (0, 1), (4096, 512), (!4095, 4096), (!4095, 8192), (0, 1 << 63)] {
            assert_eq!(kind(fs.punch_hole(&a, offset, len)), ErrorKind::InvalidInput, "{offset} {len}");
        }
        for offset in [u64::MAX, u64::MAX - 2, 1 << 63, i64::MAX as u64 - 1] {
            assert_eq!(kind(file.write_at(&slices(b"xyz"), offset)), ErrorKind::Io, "{offset}");
            assert_eq!(kind(file.set_len(offset)), ErrorKind::Io, "{offset}");
            file.start_writeback(offset, offset);
        }
        fs.punch_hole(&a, 0, 0).unwrap();
        fs.punch_hole(&a, 1 << 40, 4096).unwrap();
        assert_eq!((fs.read(&a).unwrap(), file.len()), (b"abc".to_vec(), 3));
    });
}

#[test]
fn holes_free_space_through_every_name() {
    on_all(|fs, dir| {
        let (a, b) = (dir.join("a"), dir.join("b"));
        let file = fs.create_random(&a).unwrap();
        file.write_at(&slices(&[7; 20_000]), 0).unwrap();
        file.sync().unwrap();
        assert_eq!(fs.link_count(&a).unwrap(), 1);
        fs.hard_link(&a, &b).unwrap();
        assert_eq!((fs.link_count(&a).unwrap(), fs.link_count(&b).unwrap()), (2, 2));
        let before = fs.allocated_bytes(&a).unwrap();
        assert!(before >= 20_480, "{before}");

        fs.punch_hole(&b, 4096, 8192).unwrap();
        assert!(fs.allocated_bytes(&a).unwrap() <= before - 8192);
        let mut expected = vec![7; 20_000];
        expected[4096..12_288].fill(0);
        assert_eq!(fs.read(&a).unwrap(), expected);
        fs.punch_hole(&a, 16_384, 8192).unwrap();
        expected[16_384..].fill(0);
        assert_eq!((fs.read(&b).unwrap(), file.len()), (expected.clone(), 20_000));

        file.write_at(&slices(b"again"), 8000).unwrap();
        file.sync().unwrap();
        expected[8000..8005].copy_from_slice(b"again");
        assert_eq!(fs.read(&b).unwrap(), expected);
        fs.remove_file(&a).unwrap();
        assert_eq!(fs.link_count(&b).unwrap(), 1);
    });
}

#[test]
fn readers_see_what_the_length_promises() {
    on_all(|fs, dir| {
        let file = fs.create_random(&dir.join("a")).unwrap();
        std::thread::scope(|scope| {
            let reader = Arc::clone(&file).as_read();
            scope.spawn(move || {
                let mut len = 0;
                while len < 200 * 1000 {
                    len = reader.len();
                    let mut buf = [0; 1000];
                    if let Some(last) = len.checked_sub(1000) {
                        reader.read_exact_at(&mut buf, last).unwrap();
                        assert_eq!(buf, [(len / 1000) as u8; 1000]);
                    }
                }
            });
            for i in 1..=200 {
                file.write_at(&slices(&[i as u8; 1000]), (i - 1) * 1000).unwrap();
            }
        });
    });
}

/// Random writes, cuts, holes and names on all file systems and on a vector of bytes.
#[test]
fn random_changes_agree_with_a_model() {
    let seed = 0x5EED_0003;
    println!("seed {seed:#x}");
    on_all(|fs, dir| {
        let mut random = Rng::new(seed);
        for run in 0..20 {
            let path = dir.join(format!("f{run}"));
            let mut file = fs.create_random(&path).unwrap();
            let (mut model, mut links) = (Vec::new(), 1);
            for step in 0..60u8 {
                let at = random.next() % 40_000;
                match random.next() % 8 {
                    0..=3 => {
                        let parts: Vec<Vec<u8>> = (0..random.next() % 5)
                            .map(|_| vec![step + 1; (random.next() % 6000) as usize])
                            .collect();
                        let slices: Vec<IoSlice<'_>> = parts.iter().map(|part| IoSlice::new(part)).collect();
                        file.write_at(&slices, at).unwrap();
                        let bytes = parts.concat();
                        if !bytes.is_empty() {
                            let (at, end) = (at as usize, at as usize + bytes.len());
                            model.resize(model.len().max(end), 0);
                            model[at..end].copy_from_slice(&bytes);
                        }
                    }
                    4 => {
                        file.set_len(at).unwrap();
                        model.resize(at as usize, 0);
                    }
                    5 => {
                        let (from, len) = (at / 4096 * 4096, random.next() % 4 * 4096);
                        fs.punch_holes(&path, &[(0, 0), (from, len)]).unwrap();
                        let end = model.len().min((from + len) as usize);
                        model[end.min(from as usize)..end].fill(0);
                    }
                    6 => {
                        links += 1;
                        fs.hard_link(&path, &dir.join(format!("f{run}.{links}"))).unwrap();
                    }
                    _ => {
                        file.sync().unwrap();
                        file = fs.open_random(&path).unwrap();
                    }
                }
                assert_eq!((file.len(), fs.link_count(&path).unwrap()), (model.len() as u64, links));
                assert_eq!(fs.read(&path).unwrap(), model, "run {run}, step {step}");
            }
        }
    });
}

#[test]
#[expect(clippy::disallowed_types, clippy::disallowed_methods, reason = "the target is a file of the user")]
fn the_kernel_copies_to_a_file_of_the_user_or_leaves_it_to_others() {
    let user = tempfile::tempdir().unwrap();
    on_all(|fs, dir| {
        let path = dir.join("a");
        let bytes: Vec<u8> = (0..3_000_000u32).map(|i| (i / 7) as u8).collect();
        write(fs, &path, &bytes);
        for source in [fs.open_read(&path).unwrap(), fs.open_random(&path).unwrap().as_read()] {
            let target = user.path().join("target");
            std::fs::write(&target, "head").unwrap();
            let mut file = std::fs::OpenOptions::new().append(false).write(true).open(&target).unwrap();
            std::io::Seek::seek(&mut file, std::io::SeekFrom::End(0)).unwrap();
            let mut copy = crate::fs::UserFile::of(&file).unwrap();
            let count = source.copy_to(13, 2_500_000, &copy) as usize;
            std::io::Write::write_all(&mut copy, b"tail").unwrap();
            let expected = [b"head", &bytes[13..13 + count], b"tail"].concat();
            assert!(std::fs::read(&target).unwrap() == expected, "{count} bytes were copied");
            assert!(source.copy_to(2_999_000, u64::MAX, &copy) <= 1000, "there is no more");
            assert_eq!(source.copy_to(u64::MAX, 1, &copy), 0);
            let read_only = crate::fs::UserFile::of(&std::fs::File::open(&target).unwrap()).unwrap();
            assert_eq!(source.copy_to(0, 1000, &read_only), 0);
        }
    });
}

#[test]
fn a_part_of_a_file_is_shown() {
    on_all(|fs, dir| {
        let path = dir.join("a");
        let bytes: Vec<u8> = (0..300_000u32).map(|i| (i / 5) as u8).collect();
        let file = fs.create_random(&path).unwrap();
        file.write_at(&slices(&bytes), 0).unwrap();
        let reader = fs.open_read(&path).unwrap();
        for (offset, len) in
            [(0, 300_000), (1, 10), (4095, 2), (65_536, 65_536), (299_999, 1), (70_000, 90_000)]
        {
            let expected = &bytes[offset..offset + len];
            assert_eq!(&*reader.map(offset as u64, len as u64).unwrap(), expected, "{offset} {len}");
            assert_eq!(&*file.map(offset as u64, len as u64).unwrap(), expected, "{offset} {len}");
        }
        for offset in [0, 7, 300_000] {
            assert!(reader.map(offset, 0).unwrap().is_empty());
        }
        for (offset, len) in
            [(300_000, 1), (0, 300_001), (300_001, 0), (u64::MAX, 2), (1, u64::MAX), (0, 1 << 62)]
        {
            assert_eq!(kind(reader.map(offset, len)), ErrorKind::Corruption, "{offset} {len}");
            assert_eq!(kind(file.map(offset, len)), ErrorKind::Corruption, "{offset} {len}");
        }
        let view = reader.map(250_000, 50_000).unwrap();
        file.write_at(&slices(b"behind what is shown"), 300_000).unwrap();
        fs.remove_file(&path).unwrap();
        drop((file, reader));
        let view = std::thread::scope(|scope| scope.spawn(move || view).join().unwrap());
        assert_eq!(view.as_ref(), &bytes[250_000..], "a view outlives names and handles");
    });
}

#[test]
fn a_file_cut_short_is_not_mapped() {
    on_all(|fs, dir| {
        let path = dir.join("a");
        write(fs, &path, &[1; 10_000]);
        let reader = fs.open_read(&path).unwrap();
        fs.open_random(&path).unwrap().set_len(5000).unwrap();
        assert_eq!(kind(reader.map(4000, 2000)), ErrorKind::Corruption);
    });
}
