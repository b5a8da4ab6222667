//! Huge values when something goes wrong: full disks, sources and readers that stop, values that change while
//! they are read, streams that meet, files that are damaged or gone.

use std::io::{Read, Seek, SeekFrom, Write};
use std::path::PathBuf;

use esker::fs::FileSystem;
use esker::fs::sim::{Fault, FaultError, Op, SimFs};
use esker::{Db, Error, ErrorKind, ScanRange};

use crate::common::{Rng, settle, stepped_options};

const STORE: &str = "/store";

fn open(disk: &SimFs) -> Db {
    Db::open(STORE, stepped_options(disk)).unwrap()
}

fn blob_files(disk: &SimFs) -> Vec<PathBuf> {
    disk.paths().into_iter().filter(|path| path.extension().is_some_and(|ext| ext == "blob")).collect()
}

/// `len` bytes that no other seed has.
fn value(seed: u64, len: usize) -> Vec<u8> {
    Rng::new(seed).bytes(len)
}

fn kind(error: &std::io::Error) -> Option<ErrorKind> {
    error.get_ref().and_then(|inner| inner.downcast_ref::<Error>()).map(Error::kind)
}

#[test]
fn a_disk_that_fills_in_mid_stream_costs_the_stream_alone() {
    // Found by looking for room, and by a write that finds none.
    for room in [9 << 20, 40 << 20] {
        let disk = SimFs::new(1);
        let db = open(&disk);
        let old = value(1, 5_000);
        db.put("key", &old).unwrap();
        let used = disk.used();
        disk.set_capacity(Some(used + room));
        let piece = value(2, 1 << 20);
        let mut writer = db.default_tree().writer("key").unwrap();
        let error = (0..100).find_map(|_| writer.write_all(&piece).err()).unwrap();
        assert_eq!(kind(&error), Some(ErrorKind::OutOfSpace), "{error}");
        assert!(writer.write_all(&piece).is_err());
        let error = writer.commit().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
        assert_eq!(db.get_vec("key").unwrap().unwrap(), old);
        assert!(disk.used() <= used + (1 << 20), "the space is back: {} {used}", disk.used());
        db.put("small", "1").unwrap();
        let fits = value(3, 1 << 20);
        db.default_tree().put_from("other", &fits[..]).unwrap();
        settle(&db);
        assert_eq!(db.stats().unwrap().failure, None);
        db.close().unwrap();
        let db = open(&disk);
        assert_eq!(db.get_vec("key").unwrap().unwrap(), old);
        assert!(db.get_vec("other").unwrap().unwrap() == fits);
        assert_eq!(db.default_tree().count(ScanRange::all()).unwrap(), 3);
    }
}

#[test]
fn a_put_that_finds_no_room_changes_nothing() {
    let disk = SimFs::new(1);
    let db = open(&disk);
    let (old, new) = (value(1, 50_000), value(2, 500_000));
    db.put("key", &old).unwrap();
    for error in [FaultError::NoSpace, FaultError::Io] {
        disk.inject(Fault::new(Op::WriteAt, ".blob").error(error));
        let refused = db.put("key", &new).unwrap_err();
        let expected = if error == FaultError::Io { ErrorKind::Io } else { ErrorKind::OutOfSpace };
        assert_eq!(refused.kind(), expected, "{refused}");
        assert_eq!(db.get_vec("key").unwrap().unwrap(), old);
        db.put("another", &new).unwrap();
        settle(&db);
        assert!(db.get_vec("another").unwrap().unwrap() == new);
    }
    db.close().unwrap();
    assert_eq!(esker::check(STORE, &stepped_options(&disk)).unwrap().findings, []);
}

/// Gives out `bytes` in small pieces, and then fails.
struct Ending<'a> {
    bytes: &'a [u8],
    interrupted: bool,
}

impl Read for Ending<'_> {
    fn read(&mut self, buf: &mut [u8]) -> std::io::Result<usize> {
        self.interrupted = !self.interrupted;
        if self.interrupted {
            return Err(std::io::ErrorKind::Interrupted.into());
        }
        if self.bytes.is_empty() {
            return Err(std::io::Error::other("the other end hung up"));
        }
        let len = buf.len().min(70_001);
        self.bytes.read(&mut buf[..len])
    }
}

#[test]
fn a_source_that_ends_early_leaves_the_key_as_it_was() {
    let disk = SimFs::new(1);
    let db = open(&disk);
    for len in [10, 5_000, 3 << 20] {
        let new = value(2, len);
        for old in [None, Some(value(1, 20_000))] {
            match &old {
                Some(old) => db.put("key", old).unwrap(),
                None => db.delete("key").unwrap(),
            }
            settle(&db);
            let used = disk.used();
            let mut source = Ending { bytes: &new, interrupted: false };
            let error = db.default_tree().put_from("key", &mut source).unwrap_err();
            assert!(error.kind() == ErrorKind::Io && error.to_string().contains("hung up"), "{error}");
            assert_eq!(db.get_vec("key").unwrap(), old);
            settle(&db);
            assert!(disk.used() <= used, "{len}: something is left");
        }
    }
}

#[test]
fn a_reader_that_stops_half_way_holds_nothing_back() {
    let disk = SimFs::new(1);
    let db = open(&disk);
    let long = value(1, 6 << 20);
    db.put("key", &long).unwrap();
    let mut reader = db.get("key").unwrap().unwrap().into_reader();
    let mut half = vec![0; 3 << 20];
    reader.read_exact(&mut half).unwrap();
    db.delete("key").unwrap();
    settle(&db);
    assert!(half == long[..3 << 20]);
    assert!(blob_files(&disk).iter().map(|path| disk.allocated_bytes(path).unwrap()).sum::<u64>() > 6 << 20);
    drop(reader);
    settle(&db);
    assert!(blob_files(&disk).iter().map(|path| disk.allocated_bytes(path).unwrap()).sum::<u64>() < 1 << 20);
}

#[test]
fn ranges_past_the_end_are_cut_or_refused() {
    let disk = SimFs::new(1);
    let db = open(&disk);
    for len in [10_u64, 1_000, 300_000] {
        let bytes = value(len, len as usize);
        db.put("key", &bytes).unwrap();
        let found = db.get("key").unwrap().unwrap();
        assert!(found.read_at(len - 5..len + 100).unwrap() == bytes[len as usize - 5..]);
        assert!(found.read_at(len - 5..=u64::MAX).unwrap() == bytes[len as usize - 5..]);
        for begin in [len, len + 1, u64::MAX - 1] {
            assert!(found.read_at(begin..).unwrap().is_empty());
            assert!(found.read_at(begin..begin + 1).unwrap().is_empty());
        }
        #[expect(clippy::reversed_empty_ranges, reason = "what is tested")]
        let reversed = found.read_at(7..3).unwrap_err();
        assert_eq!(reversed.kind(), ErrorKind::InvalidInput);
        for (begin, count) in [(len - 1, 2), (len, 1), (u64::MAX, 1), (0, len as usize + 1)] {
            let error = found.read_exact_at(begin, &mut vec![0; count]).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidInput);
        }
        found.read_exact_at(len, &mut []).unwrap();
        let mut reader = found.reader();
        assert_eq!(reader.seek(SeekFrom::End(50)).unwrap(), len + 50);
        assert_eq!(reader.read(&mut [0; 9]).unwrap(), 0);
        assert_eq!(
            kind(&reader.seek(SeekFrom::Current(-1_000_000)).unwrap_err()),
            Some(ErrorKind::InvalidInput)
        );
        assert_eq!(reader.seek(SeekFrom::Current(-51)).unwrap(), len - 1);
        assert_eq!(reader.read(&mut [0; 9]).unwrap(), 1);
    }
}

#[test]
fn a_value_that_is_replaced_or_deleted_is_read_to_its_end() {
    let disk = SimFs::new(1);
    let db = open(&disk);
    let (old, new) = (value(1, 2_500_000), value(2, 2_500_000));
    for deleted in [false, true] {
        for step in [1, 70_000, 1 << 20] {
            db.put("key", &old).unwrap();
            let mut reader = db.get("key").unwrap().unwrap().into_reader();
            let mut read = vec![0; step];
            reader.read_exact(&mut read).unwrap();
            let gone = if deleted { db.delete("key") } else { db.put("key", &new) };
            gone.unwrap();
            settle(&db);
            db.compact().unwrap();
            db.checkpoint(format!("/copy{deleted}{step}")).unwrap();
            settle(&db);
            reader.read_to_end(&mut read).unwrap();
            assert!(read == old);
            assert!(db.get_vec("key").unwrap() == (!deleted).then(|| new.clone()));
        }
    }
}

#[test]
fn of_two_streams_to_one_key_the_last_commit_wins_whole() {
    let disk = SimFs::new(1);
    let db = open(&disk);
    let tree = db.default_tree();
    for len in [500, 200_000, 2 << 20] {
        let (a, b) = (value(1, len), value(2, len + 1));
        for a_last in [false, true] {
            let mut writers = [tree.writer("key").unwrap(), tree.writer("key").unwrap()];
            for (one, other) in a.chunks(10_000).zip(b.chunks(10_000)) {
                writers[0].write_all(one).unwrap();
                writers[1].write_all(other).unwrap();
            }
            if len % 10_000 == 0 {
                writers[1].write_all(&b[len..]).unwrap();
            } else {
                assert_eq!((writers[0].len(), writers[1].len()), (len as u64, len as u64 + 1));
            }
            let [first, second] = writers;
            let order = if a_last { [second, first] } else { [first, second] };
            for writer in order {
                writer.commit().unwrap();
            }
            let expected = if a_last { &a } else { &b };
            assert!(db.get_vec("key").unwrap().unwrap() == *expected, "{len} {a_last}");
            settle(&db);
            assert!(db.get_vec("key").unwrap().unwrap() == *expected, "{len} {a_last}");
        }
    }
    settle(&db);
    assert_eq!(db.stats().unwrap().blob_values, 1);
}

/// A store with values in shared files and in a file of their own.
fn store_of_many(disk: &SimFs) -> Vec<(String, Vec<u8>)> {
    let mut pairs = Vec::new();
    for session in 0..3 {
        let db = open(disk);
        for number in 0..6 {
            let (key, len) = (format!("key{session}{number}"), if number == 5 { 2 << 20 } else { 40_000 });
            let bytes = value(session * 10 + number, len);
            db.default_tree().put_from(&key, &bytes[..]).unwrap();
            pairs.push((key, bytes));
        }
        db.put(format!("small{session}"), "1").unwrap();
        pairs.push((format!("small{session}"), b"1".to_vec()));
        db.close().unwrap();
    }
    pairs
}

/// Which of `pairs` are lost; each loss is told, and everything else is there.
fn lost(db: &Db, pairs: &[(String, Vec<u8>)]) -> Vec<String> {
    let mut lost = Vec::new();
    for (key, expected) in pairs {
        match db.get_vec(key) {
            Ok(found) => assert!(found.unwrap() == *expected, "{key}"),
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Corruption, "{error}");
                assert!(error.path().unwrap().extension().unwrap() == "blob", "{error}");
                lost.push(key.clone());
            }
        }
    }
    assert_eq!(db.default_tree().count(ScanRange::all().keys_only()).unwrap(), pairs.len() as u64);
    lost
}

type Damage<'a> = &'a dyn Fn(&SimFs);

/// A blob file is missing, cut short or damaged: the values in it are lost, each is named, the rest is served;
/// and of such a store a checkpoint can be made, which lacks the same values and no others.
#[test]
fn a_store_that_has_lost_blob_files_goes_on_and_can_be_copied() {
    let whole = SimFs::new(1);
    let pairs = store_of_many(&whole);
    let files = blob_files(&whole);
    assert!(files.len() >= 6, "{files:?}");
    for (number, file) in files.iter().enumerate() {
        let len = whole.file_len(file).unwrap();
        let header = |disk: &SimFs| disk.flip_byte(file, 20, 1).unwrap();
        let footer = |disk: &SimFs| disk.flip_byte(file, len - 10, 1).unwrap();
        let middle = |disk: &SimFs| disk.flip_byte(file, 20_000, 1).unwrap();
        let cut = |disk: &SimFs| disk.truncate(file, 60_000).unwrap();
        let empty = |disk: &SimFs| disk.truncate(file, 0).unwrap();
        let gone = |disk: &SimFs| disk.remove_file(file).unwrap();
        // How many of the five values of a shared file are lost, and whether the one of a file of its own is.
        let shared = len < 300_000;
        let damages: [(Damage<'_>, usize, usize); 6] =
            [(&header, 5, 1), (&footer, 0, 0), (&middle, 1, 1), (&cut, 4, 1), (&empty, 5, 1), (&gone, 5, 1)];
        for (kind, (damage, of_shared, of_single)) in damages.iter().enumerate() {
            let disk = whole.fork();
            damage(&disk);
            let what = format!("file {number}, damage {kind}");
            let report = esker::check(STORE, &stepped_options(&disk)).unwrap();
            assert!(report.findings.iter().any(|finding| finding.file == *file), "{what}: {report:?}");
            let db = open(&disk);
            let missing = lost(&db, &pairs);
            assert_eq!(missing.len(), if shared { *of_shared } else { *of_single }, "{what}: {missing:?}");
            db.checkpoint("/copy").unwrap();
            db.put("later", "1").unwrap();
            let again = missing.first().unwrap_or(&pairs[0].0);
            db.put(again, "put again").unwrap();
            settle(&db);
            db.compact().unwrap();
            db.checkpoint("/later").unwrap();
            db.close().unwrap();
            let copy = Db::open("/copy", stepped_options(&disk)).unwrap();
            assert_eq!(lost(&copy, &pairs), missing, "{what}");
            copy.close().unwrap();
            let later = Db::open("/later", stepped_options(&disk)).unwrap();
            assert_eq!(later.get_vec(again).unwrap().unwrap(), b"put again");
            later.close().unwrap();
        }
    }
}
