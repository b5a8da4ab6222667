//! One conformance test for all file systems. The store may rely on everything that it demands.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use super::sim::SimFs;
use super::*;
use crate::error::ErrorKind;
use crate::rng::Rng;

mod random;

/// Runs `test` in an empty directory of the real file system, of the simulated one and of the one in memory.
fn on_all(test: impl Fn(&dyn FileSystem, &Path)) {
    let dir = tempfile::tempdir().unwrap();
    test(&RealFs::default(), dir.path());
    let sim = SimFs::new(7);
    sim.create_dir_all(Path::new("/tmp/db")).unwrap();
    test(&sim, Path::new("/tmp/db"));
    let memory = MemoryFs::new();
    memory.create_dir_all(Path::new("/tmp/db")).unwrap();
    test(&memory, Path::new("/tmp/db"));
}

fn kind<T>(result: Result<T>) -> ErrorKind {
    match result {
        Ok(_) => panic!("expected an error"),
        Err(error) => {
            assert!(error.path().is_some(), "no path in {error}");
            error.kind()
        }
    }
}

fn write(fs: &dyn FileSystem, path: &Path, bytes: &[u8]) {
    let mut file = fs.create(path).unwrap();
    file.append(bytes).unwrap();
    file.sync().unwrap();
}

#[test]
fn appends_are_read_back() {
    on_all(|fs, dir| {
        let path = dir.join("a");
        let mut file = fs.create(&path).unwrap();
        assert!(file.is_empty());
        file.append(b"hello ").unwrap();
        file.append(b"world").unwrap();
        file.start_writeback();
        assert_eq!((file.len(), file.path()), (11, path.as_path()));

        let reader = fs.open_read(&path).unwrap();
        file.append(b"!").unwrap();
        file.sync().unwrap();
        assert_eq!(reader.len(), 11);
        let mut buf = [0; 6];
        reader.prefetch(0, 6);
        reader.read_exact_at(&mut buf, 6).unwrap();
        assert_eq!(&buf, b"world!");
        let error = reader.read_exact_at(&mut buf, 7).unwrap_err();
        assert_eq!((error.kind(), error.offset()), (ErrorKind::Corruption, Some(7)));
        assert_eq!(kind(reader.read_exact_at(&mut buf, u64::MAX - 2)), ErrorKind::Corruption);
        assert_eq!(fs.read(&path).unwrap(), b"hello world!");
        assert_eq!(fs.file_len(&path).unwrap(), 12);
    });
}

#[test]
fn missing_and_taken_names_have_their_kinds() {
    on_all(|fs, dir| {
        let (a, b, none) = (dir.join("a"), dir.join("b"), dir.join("none"));
        write(fs, &a, b"a");
        write(fs, &b, b"b");
        assert_eq!(kind(fs.create(&a)), ErrorKind::AlreadyExists);
        assert_eq!(kind(fs.create_mapped(&a, 4096)), ErrorKind::AlreadyExists);
        assert_eq!(kind(fs.hard_link(&a, &b)), ErrorKind::AlreadyExists);
        assert_eq!(fs.read(&a).unwrap(), b"a", "a refused creation must not touch the file");
        assert_eq!(kind(fs.open_read(&none)), ErrorKind::NotFound);
        assert_eq!(kind(fs.open_mapped(&none)), ErrorKind::NotFound);
        assert_eq!(kind(fs.list(&none)), ErrorKind::NotFound);
        assert_eq!(kind(fs.file_len(&none)), ErrorKind::NotFound);
        assert_eq!(kind(fs.remove_file(&none)), ErrorKind::NotFound);
        assert_eq!(kind(fs.remove_dir(&none)), ErrorKind::NotFound);
        assert_eq!(kind(fs.rename(&none, &a)), ErrorKind::NotFound);
        assert_eq!(kind(fs.hard_link(&none, &none)), ErrorKind::NotFound);
        assert_eq!(kind(fs.sync_dir(&none)), ErrorKind::NotFound);
        assert_eq!(kind(fs.create(&none.join("below"))), ErrorKind::NotFound);
        assert!(fs.exists(&a).unwrap() && !fs.exists(&none).unwrap());
    });
}

#[test]
fn directories_are_made_and_removed() {
    on_all(|fs, dir| {
        let deep = dir.join("x/y/z");
        fs.create_dir_all(&deep).unwrap();
        fs.create_dir_all(&deep).unwrap();
        write(fs, &deep.join("f"), b"f");
        assert_eq!(fs.list(&deep).unwrap(), ["f"]);
        assert_eq!(fs.list(&dir.join("x")).unwrap(), ["y"]);
        kind(fs.remove_dir(&deep));
        assert_eq!(kind(fs.create_dir(&deep)), ErrorKind::AlreadyExists);
        assert_eq!(kind(fs.create_dir(&dir.join("none/new"))), ErrorKind::NotFound);
        fs.create_dir(&dir.join("new")).unwrap();
        assert_eq!(kind(fs.create_dir(&dir.join("new"))), ErrorKind::AlreadyExists);
        assert!(fs.is_regular(&deep.join("f")).unwrap() && !fs.is_regular(&deep).unwrap());
        assert_eq!(kind(fs.is_regular(&dir.join("none"))), ErrorKind::NotFound);
        kind(fs.create_dir_all(&deep.join("f")));
        kind(fs.create_dir_all(&deep.join("f/g")));
        fs.rename(&dir.join("x/y"), &dir.join("moved")).unwrap();
        fs.sync_dir(dir).unwrap();
        assert_eq!(fs.read(&dir.join("moved/z/f")).unwrap(), b"f");
        kind(fs.rename(&dir.join("moved"), &dir.join("moved/z/inside")));
        fs.remove_file(&dir.join("moved/z/f")).unwrap();
        fs.remove_dir(&dir.join("moved/z")).unwrap();
        assert_eq!(fs.list(&dir.join("moved")).unwrap(), [""; 0]);
        assert!(fs.free_space(dir).unwrap() > 0);
        assert_ne!(fs.boot_id(), [0; 16]);
        assert_eq!(fs.boot_id(), fs.boot_id());
        assert_eq!(fs.mount_id(dir), fs.mount_id(dir));
    });
}

#[test]
fn names_and_handles_are_independent() {
    on_all(|fs, dir| {
        let (a, b, c) = (dir.join("a"), dir.join("b"), dir.join("c"));
        write(fs, &a, b"first");
        let reader = fs.open_read(&a).unwrap();
        fs.hard_link(&a, &b).unwrap();
        fs.remove_file(&a).unwrap();
        fs.rename(&b, &c).unwrap();
        write(fs, &a, b"second");
        fs.rename(&a, &c).unwrap();
        fs.sync_dir(dir).unwrap();
        assert_eq!(fs.list(dir).unwrap(), ["c"]);
        assert_eq!(fs.read(&c).unwrap(), b"second");
        let mut buf = [0; 5];
        reader.read_exact_at(&mut buf, 0).unwrap();
        assert_eq!(&buf, b"first", "an open file outlives its names");
        // POSIX: a rename to another name of the same file does nothing.
        fs.hard_link(&c, &a).unwrap();
        fs.rename(&a, &c).unwrap();
        assert!(fs.exists(&a).unwrap());
    });
}

/// A file system for one directory refuses every path that leads out of it.
#[test]
fn calls_within_a_directory_do_not_leave_it() {
    on_all(|fs, dir| {
        let inner = dir.join("inner");
        fs.create_dir_all(&inner).unwrap();
        write(fs, &dir.join("other"), b"somebody else's");
        let within = fs.within(&inner).unwrap();
        write(&*within, &inner.join("own"), b"own");
        assert_eq!(within.read(&inner.join("own")).unwrap(), b"own");
        for (other, refused) in
            [(dir.join("other"), ErrorKind::InvalidInput), (inner.join("../other"), ErrorKind::Io)]
        {
            assert_eq!(kind(within.open_read(&other)), refused, "{}", other.display());
            assert_eq!(kind(within.exists(&other)), refused);
            assert_eq!(kind(within.file_len(&other)), refused);
            assert_eq!(kind(within.create(&other)), refused);
            assert_eq!(kind(within.create_random(&other)), refused);
            assert_eq!(kind(within.set_allocated(&other, 0)), refused);
            assert_eq!(kind(within.rename(&inner.join("own"), &other)), refused);
            assert_eq!(kind(within.hard_link(&inner.join("own"), &other)), refused);
            assert_eq!(kind(within.remove_file(&other)), refused);
            assert_eq!(kind(within.lock(&other, LockMode::Exclusive)), refused);
        }
        assert_eq!(kind(within.entries(dir)), ErrorKind::InvalidInput);
        assert_eq!(kind(within.within(dir)), ErrorKind::InvalidInput);
        // If the caller owns both directories, files can be linked from one to the other.
        let beside = dir.join("beside");
        fs.create_dir_all(&beside).unwrap();
        let target = fs.within(&beside).unwrap();
        within.hard_link_to(&inner.join("own"), &*target, &beside.join("own")).unwrap();
        assert!(within.hard_link_to(&inner.join("own"), &*target, &dir.join("own")).is_err());
        assert_eq!(fs.read(&beside.join("own")).unwrap(), b"own");
        assert_eq!(fs.read(&dir.join("other")).unwrap(), b"somebody else's");
        assert_eq!(within.outside().read(&dir.join("other")).unwrap(), b"somebody else's");
    });
}

#[test]
fn a_directory_takes_no_bytes_of_its_own() {
    on_all(|fs, dir| {
        fs.create_dir_all(&dir.join("sub")).unwrap();
        write(fs, &dir.join("sub/file"), &[1; 5000]);
        assert_eq!(fs.allocated_bytes(&dir.join("sub")).unwrap(), 0);
        assert!(fs.allocated_bytes(&dir.join("sub/file")).unwrap() >= 5000);
    });
}

#[test]
fn mapped_files_take_stores() {
    on_all(|fs, dir| {
        let path = dir.join("wal");
        for len in [0, 1, 4095, 6000] {
            assert_eq!(kind(fs.create_mapped(&path, len)), ErrorKind::InvalidInput);
        }
        let file = fs.create_mapped(&path, 8192).unwrap();
        check_stores(&*file);
        let mut expected = vec![0; 8192];
        expected[4000..4200].fill(7);
        expected[8184..].copy_from_slice(&0x0102_0304_0506_0708u64.to_le_bytes());
        assert_eq!(fs.read(&path).unwrap(), expected);

        drop(file);
        let file = fs.open_mapped(&path).unwrap();
        assert_eq!((file.len(), file.path()), (8192, path.as_path()));
        file.store(0, b"recycled").unwrap();
        expected[..8].copy_from_slice(b"recycled");
        assert_eq!(fs.read(&path).unwrap(), expected);

        drop(file);
        let file = fs.open_bulk(&path).unwrap();
        assert_eq!((file.len(), file.path()), (8192, path.as_path()));
        file.store(100, &[9; 8000]).unwrap();
        expected[100..8100].fill(9);
        assert_eq!(fs.read(&path).unwrap(), expected);

        let bulk = dir.join("bulk");
        assert_eq!(kind(fs.create_bulk(&bulk, 6000)), ErrorKind::InvalidInput);
        check_stores(&*fs.create_bulk(&bulk, 8192).unwrap());
        assert_eq!(fs.read(&bulk).unwrap()[4000..4200], [7; 200]);

        let odd = dir.join("odd");
        write(fs, &odd, b"not a segment");
        assert_eq!(kind(fs.open_mapped(&odd)), ErrorKind::Corruption);
        write(fs, &dir.join("empty"), b"");
        assert_eq!(kind(fs.open_mapped(&dir.join("empty"))), ErrorKind::Corruption);
    });
}

/// Writes 200 sevens at 4000 and one word at the end of a segment of 8192 zeros.
pub(super) fn check_stores(file: &dyn MappedFile) {
    assert_eq!(file.len(), 8192);
    for (offset, len) in [(0, 8192), (100, 5000), (8191, 1), (8192, 1), (70_000, 1), (u64::MAX, u64::MAX)] {
        file.warm(offset, len);
    }
    file.store(4000, &[7; 200]).unwrap();
    file.store(8192, b"").unwrap();
    file.store_u64(8184, 0x0102_0304_0506_0708).unwrap();
    file.sync().unwrap();
    for (offset, len) in [(8192, 1), (8000, 193), (u64::MAX, 1), (u64::MAX - 3, 8), (9000, 0)] {
        assert_eq!(kind(file.store(offset, &vec![1; len])), ErrorKind::InvalidInput, "{offset} {len}");
    }
    for offset in [4, 8185, 8188, 8192, u64::MAX - 7, u64::MAX] {
        assert_eq!(kind(file.store_u64(offset, 1)), ErrorKind::InvalidInput, "{offset}");
    }
}

#[test]
fn space_is_set_aside_and_given_back() {
    on_all(|fs, dir| {
        let path = dir.join("RESERVE");
        for len in [300_000, 1_000_000, 1_000_000, 5000, 0, 70_000] {
            fs.set_allocated(&path, len).unwrap();
            assert_eq!(fs.file_len(&path).unwrap(), len);
        }
        kind(fs.set_allocated(&path, 1 << 60));
        assert_eq!(fs.file_len(&path).unwrap(), 70_000, "a refused allocation leaves the file as it was");
        assert_eq!(kind(fs.set_allocated(&dir.join("none/below"), 1)), ErrorKind::NotFound);
    });
    let sim = SimFs::new(1);
    sim.set_capacity(Some(3 * 4096));
    sim.set_allocated(Path::new("/a"), 3 * 4096).unwrap();
    assert_eq!(kind(sim.set_allocated(Path::new("/b"), 1)), ErrorKind::OutOfSpace);
    sim.set_allocated(Path::new("/a"), 2 * 4096).unwrap();
    sim.set_allocated(Path::new("/b"), 1).unwrap();
}

#[test]
fn threads_store_side_by_side() {
    on_all(|fs, dir| {
        let path = dir.join("wal");
        let file = fs.create_mapped(&path, 64 << 10).unwrap();
        std::thread::scope(|scope| {
            for thread in 0..4u8 {
                let file = Arc::clone(&file);
                scope.spawn(move || {
                    for slot in (u64::from(thread)..512).step_by(4) {
                        file.store(slot * 128 + 8, &[thread + 1; 100]).unwrap();
                        file.store_u64(0, slot).unwrap();
                    }
                });
            }
        });
        let bytes = fs.read(&path).unwrap();
        for slot in 0..512 {
            assert_eq!(bytes[slot * 128 + 8..][..100], [(slot % 4) as u8 + 1; 100]);
        }
        assert!(u64::from_le_bytes(bytes[..8].try_into().unwrap()) >= 508);
    });
}

#[test]
fn locks_exclude_and_share() {
    on_all(|fs, dir| {
        let path = dir.join("LOCK");
        drop(fs.lock(&path, LockMode::Shared).unwrap());
        assert!(!fs.exists(&path).unwrap(), "a shared lock creates nothing");

        let writer = fs.lock(&path, LockMode::Exclusive).unwrap();
        assert_eq!(kind(fs.lock(&path, LockMode::Exclusive)), ErrorKind::Locked);
        assert_eq!(kind(fs.lock(&path, LockMode::Shared)), ErrorKind::Locked);
        drop(writer);

        let readers = [fs.lock(&path, LockMode::Shared).unwrap(), fs.lock(&path, LockMode::Shared).unwrap()];
        let error = fs.lock(&path, LockMode::Exclusive).unwrap_err();
        assert!(error.to_string().contains("the store is in use by"), "{error}");
        let [first, second] = readers;
        drop(first);
        assert_eq!(kind(fs.lock(&path, LockMode::Exclusive)), ErrorKind::Locked);
        drop(second);

        // A holder may remove the file. A directory that is locked too keeps others out until the holder goes; without
        // such a lock, the next one locks a new file.
        let mut old = fs.lock(&path, LockMode::Exclusive).unwrap();
        old.release_name();
        fs.remove_file(&path).unwrap();
        let new = match fs.lock(&path, LockMode::Exclusive) {
            Ok(new) => {
                drop(old);
                new
            }
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Locked);
                drop(old);
                fs.lock(&path, LockMode::Exclusive).unwrap()
            }
        };
        assert_eq!(kind(fs.lock(&path, LockMode::Shared)), ErrorKind::Locked);
        drop(new);
    });
}

/// Random calls on all file systems and on a model; they must agree on every result.
#[test]
fn random_calls_agree_with_a_model() {
    let seed = 0x5EED_0001;
    println!("seed {seed:#x}");
    on_all(|fs, dir| {
        let mut random = Rng::new(seed);
        for _ in 0..20 {
            let run = dir.join(format!("run{}", random.next()));
            fs.create_dir_all(&run).unwrap();
            run_against_model(fs, &run, &mut random);
        }
    });
}

fn run_against_model(fs: &dyn FileSystem, dir: &Path, random: &mut Rng) {
    let mut model: BTreeMap<String, Arc<Vec<u8>>> = BTreeMap::new();
    let name = |random: &mut Rng| format!("f{}", random.next() % 5);
    for _ in 0..200 {
        let (a, b) = (name(random), name(random));
        let (path_a, path_b) = (dir.join(&a), dir.join(&b));
        match random.next() % 6 {
            0 | 1 => {
                let made = fs.create(&path_a).map(|mut file| {
                    let mut bytes = Vec::new();
                    for _ in 0..random.next() % 4 {
                        let part = vec![random.next() as u8; (random.next() % 9000) as usize];
                        file.append(&part).unwrap();
                        bytes.extend(part);
                    }
                    bytes
                });
                assert_eq!(made.is_err(), model.contains_key(&a));
                if let Ok(bytes) = made {
                    model.insert(a, Arc::new(bytes));
                }
            }
            2 => {
                assert_eq!(fs.remove_file(&path_a).is_ok(), model.remove(&a).is_some());
            }
            3 => {
                let moved = model.get(&a).cloned();
                assert_eq!(fs.rename(&path_a, &path_b).is_ok(), moved.is_some());
                let same_file = model.get(&a).zip(model.get(&b)).is_some_and(|(a, b)| Arc::ptr_eq(a, b));
                if let Some(bytes) = moved
                    && !same_file
                {
                    model.remove(&a);
                    model.insert(b, bytes);
                }
            }
            4 => {
                let linked = model.get(&a).filter(|_| !model.contains_key(&b)).cloned();
                assert_eq!(fs.hard_link(&path_a, &path_b).is_ok(), linked.is_some());
                if let Some(bytes) = linked {
                    model.insert(b, bytes);
                }
            }
            _ => fs.sync_dir(dir).unwrap(),
        }
        let mut names = fs.list(dir).unwrap();
        names.sort();
        assert!(names.iter().eq(model.keys()), "{names:?}");
        if let Some(bytes) = model.get(&name(random)) {
            let (at, path) = (random.next() % (bytes.len() as u64 + 1), dir.join(model_name(&model, bytes)));
            let mut buf = vec![0; bytes.len() - at as usize];
            fs.open_read(&path).unwrap().read_exact_at(&mut buf, at).unwrap();
            assert_eq!(buf, bytes[at as usize..]);
        }
    }
}

/// A name whose content in the model is `bytes`.
fn model_name<'a>(model: &'a BTreeMap<String, Arc<Vec<u8>>>, bytes: &Arc<Vec<u8>>) -> &'a str {
    model.iter().find(|(_, other)| Arc::ptr_eq(bytes, other)).map_or("", |(name, _)| name)
}

/// Bytes appended past the cache can be read after a sync, with the cache and without it, at any offset.
#[test]
fn direct_files_hold_what_was_appended() {
    on_all(|fs, dir| {
        let mut random = Rng::new(0x5EED_0002);
        for run in 0..12 {
            let path = dir.join(format!("d{run}"));
            let mut file = match fs.create_direct(&path) {
                Err(error) if error.kind() == ErrorKind::Unsupported => {
                    return println!("not tested: {error}");
                }
                file => file.unwrap(),
            };
            let mut bytes = Vec::new();
            for _ in 0..random.next() % 6 {
                let len = random.next() % if run % 2 == 0 { 5000 } else { 900_000 };
                let part: Vec<u8> = (0..len).map(|i| (i / 7 + len) as u8).collect();
                file.append(&part).unwrap();
                bytes.extend(part);
                file.start_writeback();
                assert_eq!((file.len(), file.is_empty()), (bytes.len() as u64, bytes.is_empty()));
                if random.next().is_multiple_of(3) {
                    file.sync().unwrap();
                    assert!(fs.read(&path).unwrap() == bytes, "a sync in between");
                }
            }
            file.sync().unwrap();
            assert!(fs.read(&path).unwrap() == bytes, "run {run}: {} bytes", bytes.len());
            let reader = fs.open_direct(&path).unwrap();
            assert_eq!((reader.len(), reader.path()), (bytes.len() as u64, path.as_path()));
            for _ in 0..40 {
                let from = random.next() as usize % (bytes.len() + 1);
                let to = (from + random.next() as usize % 700_000).min(bytes.len());
                let mut buf = vec![1; to - from];
                reader.read_exact_at(&mut buf, from as u64).unwrap();
                assert!(buf == bytes[from..to], "run {run}: {from} to {to}");
            }
            let len = bytes.len() as u64;
            for offset in [len, len + 1, len + 5000, i64::MAX as u64, u64::MAX - 2] {
                assert_eq!(kind(reader.read_exact_at(&mut [0; 2], offset)), ErrorKind::Corruption);
            }
            assert_eq!(kind(fs.create_direct(&path)), ErrorKind::AlreadyExists);
        }
        assert_eq!(kind(fs.open_direct(&dir.join("none"))), ErrorKind::NotFound);
    });
}
