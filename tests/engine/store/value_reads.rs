//! Every way of reading a huge value: the same bytes, also when it was deleted or the store closed, and damage named.

use std::fs::OpenOptions;
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use esker::env::{Env, JobKind, StepExecutor};
use esker::fs::sim::SimFs;
use esker::{Db, ErrorKind, Options, Value, ValueMap};

use crate::common::{Rng, world};

fn temporary() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

fn options() -> Options {
    Options::default().memory_budget(8 << 20).separate_at(1000)
}

fn stepped(disk: &SimFs) -> Options {
    options().env(world(Arc::new(disk.clone()), 1, Some(Arc::new(StepExecutor))))
}

/// Lengths of values in memory, of one chunk, of some, of many, and of values in files of their own.
fn value(rng: &mut Rng) -> Vec<u8> {
    let most = *rng.pick(&[999, 60_000, 200_000, 2_000_000, 9_500_000]);
    let len = rng.index(most + 1);
    rng.bytes(len)
}

/// Reads `value` in one way, chosen at random, and compares.
fn read_some_way(rng: &mut Rng, value: &Value, expected: &[u8], scratch: &Path) {
    let len = expected.len();
    let (from, to) = (rng.index(len + 1), rng.index(len + 1));
    let (from, to) = (from.min(to), from.max(to));
    match rng.index(8) {
        0 => assert!(value.bytes().unwrap() == expected),
        1 => assert!(value.read_at(from as u64..to as u64).unwrap() == expected[from..to]),
        2 => {
            let mut buf = vec![1; from / 2];
            value.read_into(&mut buf).unwrap();
            assert!(buf == expected);
        }
        3 => {
            let mut part = vec![0; to - from];
            value.read_exact_at(from as u64, &mut part).unwrap();
            assert!(part == expected[from..to]);
        }
        4 => assert!(value.clone().map().unwrap()[from..to] == expected[from..to]),
        5 => assert!(value.clone().map_unverified().unwrap()[from..to] == expected[from..to]),
        6 => {
            let mut reader = value.reader();
            reader.seek(SeekFrom::Start(from as u64)).unwrap();
            let mut rest = Vec::new();
            reader.read_to_end(&mut rest).unwrap();
            assert!(rest == expected[from..]);
        }
        _ => {
            let mut file = OpenOptions::new().write(true).create(true).truncate(true).open(scratch).unwrap();
            std::io::Write::write_all(&mut file, b"head").unwrap();
            assert_eq!(value.copy_to_file(&file).unwrap(), len as u64);
            std::io::Write::write_all(&mut file, b"tail").unwrap();
            assert!(std::fs::read(scratch).unwrap() == [b"head", expected, b"tail"].concat());
        }
    }
}

/// Puts, deletes, reopens and reads for a while; what was found and what is mapped stays as it was.
fn values_stay(seed: u64, open: &dyn Fn() -> Db, settle: &dyn Fn(&Db), steps: usize) {
    println!("seed {seed}");
    let user = temporary();
    let scratch = user.path().join("scratch");
    let mut rng = Rng::new(seed);
    let mut db = open();
    let mut model: Vec<Option<Arc<Vec<u8>>>> = vec![None; 6];
    let mut found: Vec<(Value, Arc<Vec<u8>>)> = Vec::new();
    let mut maps: Vec<(ValueMap, Arc<Vec<u8>>)> = Vec::new();
    for _ in 0..steps {
        let slot = rng.index(model.len());
        match rng.index(10) {
            0..=2 => {
                let new = value(&mut rng);
                db.put([slot as u8], &new).unwrap();
                model[slot] = Some(Arc::new(new));
            }
            3 => {
                db.delete([slot as u8]).unwrap();
                model[slot] = None;
            }
            4 => settle(&db),
            5 if rng.percent(30) => {
                db.close().unwrap();
                for (value, expected) in found.drain(..) {
                    if value.stored_us().is_some() {
                        assert_eq!(value.bytes().unwrap_err().kind(), ErrorKind::Closed);
                        assert_eq!(value.map().unwrap_err().kind(), ErrorKind::Closed);
                    } else {
                        assert!(value.bytes().unwrap() == *expected);
                    }
                }
                check_maps(&maps);
                maps.clear();
                db = open();
            }
            _ => {
                let value = db.get([slot as u8]).unwrap();
                assert_eq!(value.is_some(), model[slot].is_some());
                if let (Some(value), Some(expected)) = (value, &model[slot]) {
                    read_some_way(&mut rng, &value, expected, &scratch);
                    if rng.percent(50) {
                        let verified = rng.percent(50);
                        let map = value.clone();
                        let map = if verified { map.map() } else { map.map_unverified() }.unwrap();
                        maps.push((map, Arc::clone(expected)));
                    }
                    found.push((value, Arc::clone(expected)));
                }
            }
        }
        if let Some((value, expected)) = found.get(rng.index(found.len() + 1)) {
            read_some_way(&mut rng, value, expected, &scratch);
        }
        check_maps(&maps);
        found.truncate(8);
        maps.truncate(8);
    }
}

fn check_maps(maps: &[(ValueMap, Arc<Vec<u8>>)]) {
    for (map, expected) in maps {
        assert!(map[..] == expected[..], "the bytes under a map changed");
    }
}

#[test]
fn values_and_maps_stay_on_the_disk() {
    for seed in test_kit::some_of([1, 2, 3]) {
        let dir = temporary();
        let open = || Db::open(dir.path().join("store"), options()).unwrap();
        values_stay(seed, &open, &|db| db.flush().unwrap(), 150);
    }
}

#[test]
fn values_and_maps_stay_on_a_simulated_disk() {
    for seed in test_kit::some_of([1, 2, 3]) {
        let disk = SimFs::new(seed);
        let open = || Db::open("/store", stepped(&disk)).unwrap();
        values_stay(seed, &open, &|db| while JobKind::ALL.iter().any(|&job| db.step(job)) {}, 100);
    }
}

#[test]
fn a_map_keeps_the_directory_to_itself_and_its_bytes_until_it_goes() {
    let dir = temporary();
    let path = dir.path().join("store");
    let db = Db::open(&path, options()).unwrap();
    let mut rng = Rng::new(1);
    let (first, second) = (rng.bytes(300_000), rng.bytes(300_000));
    db.put("first", &first).unwrap();
    db.put("second", &second).unwrap();
    let map = db.get("first").unwrap().unwrap().map().unwrap();
    db.delete("first").unwrap();
    db.close().unwrap();
    drop(db);
    assert_eq!(Db::open(&path, options()).unwrap_err().kind(), ErrorKind::Locked);
    assert!(map[..] == first[..]);
    drop(map);
    let db = Db::open(&path, options()).unwrap();
    assert!(db.get("first").unwrap().is_none());
    assert!(db.get_vec("second").unwrap().unwrap() == second);
}

/// The one blob file of the store, and where `part` of a value lies in it.
fn place_of(store: &Path, part: &[u8]) -> (PathBuf, u64) {
    let files = std::fs::read_dir(store).unwrap().map(|entry| entry.unwrap().path());
    let path = files.into_iter().find(|path| path.extension().is_some_and(|ext| ext == "blob")).unwrap();
    let bytes = std::fs::read(&path).unwrap();
    let at = bytes.windows(part.len()).position(|window| window == part).unwrap();
    (path, at as u64)
}

#[test]
fn a_damaged_byte_is_named_to_its_chunk_by_every_way_of_reading() {
    const CHUNK: u64 = 64 << 10;
    // One in a shared file, one that is read by as many threads as there are.
    for len in [300_000, 9_000_001_u64] {
        let dir = temporary();
        let store = dir.path().join("store");
        let mut rng = Rng::new(len);
        let content = rng.bytes(len as usize);
        let db = Db::open(&store, options()).unwrap();
        db.put("film", &content).unwrap();
        db.close().unwrap();
        let (path, start) = place_of(&store, &content[..64]);
        let file = OpenOptions::new().write(true).open(&path).unwrap();
        let chunks = len.div_ceil(CHUNK);
        for chunk in (0..chunks).filter(|chunk| chunks < 10 || chunk % 23 == 0 || *chunk == chunks - 1) {
            let at = (chunk * CHUNK + rng.index(CHUNK as usize) as u64).min(len - 1);
            file.write_all_at(&[content[at as usize] ^ 64], start + at).unwrap();
            let db = Db::open(&store, options()).unwrap();
            let film = || db.get("film").unwrap().unwrap();
            let scratch = std::fs::File::create(dir.path().join("copy")).unwrap();
            // Who reads nothing has verified nothing.
            assert!(film().read_at(len..).unwrap().is_empty());
            film().read_exact_at(0, &mut []).unwrap();
            let errors = [
                film().bytes().map(drop).unwrap_err(),
                film().map().map(drop).unwrap_err(),
                film().read_into(&mut Vec::new()).unwrap_err(),
                film().read_at(at..=at).map(drop).unwrap_err(),
                film().copy_to(&mut Vec::new()).map(drop).unwrap_err(),
                film().copy_to_file(&scratch).map(drop).unwrap_err(),
            ];
            for error in errors {
                let place = (error.kind(), error.path(), error.offset());
                assert_eq!(
                    place,
                    (ErrorKind::Corruption, Some(&*path), Some(start + chunk * CHUNK)),
                    "{error}"
                );
            }
            let shown = film().map_unverified().unwrap();
            assert!(shown[at as usize] == content[at as usize] ^ 64);
            drop(shown);
            db.close().unwrap();
            file.write_all_at(&[content[at as usize]], start + at).unwrap();
        }
        let db = Db::open(&store, options()).unwrap();
        let film = db.get("film").unwrap().unwrap();
        assert!(film.clone().map().unwrap()[..] == content[..]);
        // What is read often is copied out of a mapping, as long as the file has it.
        (0..4).for_each(|_| assert!(film.bytes().unwrap()[..] == content[..]));
        file.set_len(start + len - 100).unwrap();
        assert_eq!(film.bytes().map(drop).unwrap_err().kind(), ErrorKind::Corruption);
        db.close().unwrap();
        // A file that was cut short is an error and no signal.
        file.set_len(start + len / 2).unwrap();
        let db = Db::open(&store, options()).unwrap();
        let film = db.get("film").and_then(|film| film.unwrap().map_unverified());
        assert_eq!(film.map(drop).unwrap_err().kind(), ErrorKind::Corruption);
    }
}

/// A read finds a value. Before it has the bytes, another value takes its place and its file goes. The read shows the other value.
#[test]
fn values_are_read_while_others_take_their_place() {
    let disk = SimFs::new(1);
    let env = Env { fs: Arc::new(disk), ..Env::system() };
    let db = Db::open("store", options().blob_file_bytes(20_000).env(env)).unwrap();
    let value = |number: u32| number.to_le_bytes().repeat(2000);
    db.put("key", value(0)).unwrap();
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let mut seen = 0;
                while !is_over.load(Ordering::Relaxed) {
                    let found = db.get_vec("key").unwrap().unwrap();
                    let number = u32::from_le_bytes(found[..4].try_into().unwrap());
                    assert!(number >= seen && found == value(number), "{number} after {seen}");
                    seen = number;
                }
            });
        }
        let last = u32::try_from(test_kit::cases(5000)).unwrap();
        let written = (1..=last).try_for_each(|number| db.put("key", value(number)));
        is_over.store(true, Ordering::Relaxed);
        written.unwrap();
    });
    db.close().unwrap();
}
