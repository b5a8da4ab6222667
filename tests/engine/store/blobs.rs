//! Huge values: written once, read in parts, and their space given back.

use std::io::{Read, Write};

use esker::env::JobKind;
use esker::fs::FileSystem;
use esker::fs::sim::SimFs;
use esker::{Batch, Db, Durability, Options, ScanRange, StoredValue};

use crate::common::{settle, stepped_options};

const STORE: &str = "/store";

fn open(disk: &SimFs) -> Db {
    Db::open(STORE, stepped_options(disk)).unwrap()
}

fn blob_bytes(disk: &SimFs) -> u64 {
    let paths = disk.paths().into_iter().filter(|path| path.extension().is_some_and(|ext| ext == "blob"));
    paths.map(|path| disk.allocated_bytes(&path).unwrap()).sum()
}

fn value(seed: u8, len: usize) -> Vec<u8> {
    (0..len).map(|at| (at as u8).wrapping_mul(31).wrapping_add(seed)).collect()
}

#[test]
fn what_was_put_is_read_whole_and_in_parts_also_after_reopening() {
    let disk = SimFs::new(1);
    let db = open(&disk);
    let lens = [999, 1000, 4096, 65_536, 65_537, 1_000_000, 9 << 20];
    for (seed, &len) in lens.iter().enumerate() {
        db.put(format!("key{len}"), value(seed as u8, len)).unwrap();
    }
    for round in 0..3 {
        let db = if round == 0 { db.clone() } else { open(&disk) };
        for (seed, &len) in lens.iter().enumerate() {
            let expected = value(seed as u8, len);
            let found = db.get(format!("key{len}")).unwrap().unwrap();
            assert_eq!(found.len(), len as u64);
            assert_eq!(found.stored_us().is_some(), len >= 1000);
            assert!(found.read_at(500..700).unwrap() == expected[500..700]);
            assert!(found.bytes().unwrap() == expected);
            assert!(found.read_at(len as u64 - 1..).unwrap() == expected[len - 1..]);
            let mut read = Vec::new();
            found.reader().read_to_end(&mut read).unwrap();
            assert!(read == expected);
        }
        let mut scan = db.scan(ScanRange::all()).unwrap();
        let mut count = 0;
        while scan.advance().unwrap() {
            assert_eq!(scan.value_len(), scan.value().unwrap().len() as u64);
            count += 1;
        }
        assert_eq!(count, lens.len());
        if round == 1 {
            db.compact().unwrap();
        }
        db.close().unwrap();
    }
    let report = esker::check(STORE, &stepped_options(&disk)).unwrap();
    assert_eq!(report.findings, []);
    assert_eq!(report.blobs, lens.len() as u64 - 1);
}

#[test]
fn space_comes_back() {
    let disk = SimFs::new(1);
    let db = open(&disk);
    for round in 0..4 {
        for key in 0..20 {
            db.put(format!("key{key}"), value(round, 200_000)).unwrap();
        }
        settle(&db);
        assert!(blob_bytes(&disk) < 5_500_000, "round {round}: {}", blob_bytes(&disk));
    }
    let reader = db.get("key3").unwrap().unwrap();
    let snapshot = db.snapshot();
    for key in 0..20 {
        db.delete(format!("key{key}")).unwrap();
    }
    settle(&db);
    assert!(blob_bytes(&disk) > 4_000_000, "a snapshot sees them still");
    assert_eq!(snapshot.get_vec(db.default_tree(), "key7").unwrap().unwrap(), value(3, 200_000));
    drop(snapshot);
    settle(&db);
    assert!(blob_bytes(&disk) < 1_500_000, "{}", blob_bytes(&disk));
    assert!(reader.bytes().unwrap() == value(3, 200_000), "a reader finishes with the old bytes");
    drop(reader);
    settle(&db);
    db.close().unwrap();
    let db = open(&disk);
    settle(&db);
    assert!(blob_bytes(&disk) < 100_000, "{}", blob_bytes(&disk));
    assert_eq!(db.default_tree().count(ScanRange::all()).unwrap(), 0);
}

/// A program that opens, deletes and closes, as the command line does: there is no background work to wait for.
#[test]
fn space_comes_back_with_the_closing_of_the_store() {
    let disk = SimFs::new(1);
    let db = open(&disk);
    for key in 0..20 {
        db.put(format!("key{key}"), value(key, 200_000)).unwrap();
    }
    db.put("long", value(1, 9 << 20)).unwrap();
    db.close().unwrap();
    let full = blob_bytes(&disk);
    let db = open(&disk);
    db.delete("long").unwrap();
    db.put("key7", "short").unwrap();
    db.close().unwrap();
    assert!(blob_bytes(&disk) < full - (9 << 20) - 180_000, "{} of {full}", blob_bytes(&disk));
    let db = open(&disk);
    assert_eq!(db.get_vec("key8").unwrap().unwrap(), value(8, 200_000));
    drop(db);
    assert_eq!(esker::check(STORE, &stepped_options(&disk)).unwrap().findings, []);
}

#[test]
fn a_dropped_tree_takes_its_huge_values_along() {
    let disk = SimFs::new(1);
    let db = open(&disk);
    let films = db.tree("films").unwrap();
    db.put("stays", value(1, 100_000)).unwrap();
    for key in 0..20 {
        films.put(format!("key{key}"), value(key, 200_000)).unwrap();
    }
    db.drop_tree("films").unwrap();
    settle(&db);
    assert!(blob_bytes(&disk) < 300_000, "{}", blob_bytes(&disk));
    assert!(db.get_vec("stays").unwrap().unwrap() == value(1, 100_000));
}

#[test]
fn a_batch_is_whole_and_one_that_is_dropped_leaves_nothing() {
    let disk = SimFs::new(1);
    let db = open(&disk);
    let tree = db.default_tree();
    let mut batch = Batch::new();
    batch.put(tree, "small", "1").unwrap();
    batch.put(tree, "huge", value(1, 500_000)).unwrap();
    drop(batch);
    settle(&db);
    assert!(!db.contains("huge").unwrap());
    let mut batch = Batch::new();
    batch.put(tree, "small", "1").unwrap();
    batch.put(tree, "huge", value(2, 500_000)).unwrap();
    db.write(&batch).unwrap();
    db.delete("huge").unwrap();
    settle(&db);
    db.write(&batch).unwrap();
    drop(batch);
    settle(&db);
    assert!(db.get_vec("huge").unwrap().unwrap() == value(2, 500_000), "a batch may be written again");
    assert!(blob_bytes(&disk) < 600_000, "{}", blob_bytes(&disk));
}

#[test]
fn a_batch_is_data_and_touches_no_file() {
    let disk = SimFs::new(1);
    let db = open(&disk);
    let tree = db.default_tree();
    let mut batch = Batch::new();
    batch.put(tree, "a", value(1, 500_000)).unwrap();
    batch.put_owned(tree, "b", value(2, 500_000), None).unwrap();
    batch.put_owned(tree, "c", value(3, 10), None).unwrap();
    batch.delete_range(tree, ScanRange::prefix("x")).unwrap();
    batch.put_until_us(tree, "d", value(4, 5000), Some(0)).unwrap();
    assert_eq!(blob_bytes(&disk), 0);
    assert!(batch.size_bytes() < 200, "{}", batch.size_bytes());
    db.put("x1", "is deleted").unwrap();
    let copy = batch.clone();
    drop(batch);
    db.write(&copy).unwrap();
    assert_eq!(copy.len(), 5);
    for (key, seed, len) in [("a", 1, 500_000), ("b", 2, 500_000), ("c", 3, 10)] {
        assert!(db.get_vec(key).unwrap().unwrap() == value(seed, len), "{key}");
    }
    assert!(!db.contains("d").unwrap() && !db.contains("x1").unwrap());
    // One that is refused leaves nothing.
    let before = blob_bytes(&disk);
    let gone = db.create_tree("gone", esker::TreeOptions::default()).unwrap();
    let mut refused = copy.clone();
    refused.put(&gone, "e", value(5, 500_000)).unwrap();
    db.drop_tree("gone").unwrap();
    assert_eq!(db.write(&refused).unwrap_err().kind(), esker::ErrorKind::TreeDropped);
    settle(&db);
    assert!(blob_bytes(&disk) < before + 100_000, "{} and {before}", blob_bytes(&disk));
}

/// A value of 2 MB, which has a file of its own.
fn stored(db: &Db, seed: u8) -> StoredValue {
    let mut writer = db.default_tree().writer("any").unwrap();
    writer.add(&value(seed, 2_000_000)).unwrap();
    writer.finish().unwrap()
}

fn put_stored(db: &Db, key: &str, value: &StoredValue) {
    let mut batch = Batch::new();
    batch.put_stored(db.default_tree(), key, value).unwrap();
    db.write(&batch).unwrap();
}

#[test]
fn a_stored_value_lasts_as_long_as_its_handles_and_keys() {
    let disk = SimFs::new(1);
    let db = open(&disk);
    drop(stored(&db, 1));
    settle(&db);
    assert_eq!(blob_bytes(&disk), 0, "no key and no handle");

    let film = stored(&db, 2);
    put_stored(&db, "a", &film);
    db.delete("a").unwrap();
    db.flush().unwrap();
    settle(&db);
    put_stored(&db, "b", &film);
    put_stored(&db, "c", &film.clone());
    assert!(blob_bytes(&disk) < 2_200_000, "{}", blob_bytes(&disk));
    drop(film);
    db.delete("b").unwrap();
    settle(&db);
    assert!(!db.contains("any").unwrap());
    assert!(db.get_vec("c").unwrap().unwrap() == value(2, 2_000_000));
    db.delete("c").unwrap();
    settle(&db);
    assert_eq!(blob_bytes(&disk), 0);

    let other = db.create_tree("other", esker::TreeOptions::default()).unwrap();
    let film = stored(&db, 3);
    let refused = Batch::new().put_stored(&other, "a", &film).unwrap_err();
    assert_eq!(refused.kind(), esker::ErrorKind::InvalidInput);
}

#[test]
fn after_a_crash_a_stored_value_belongs_to_the_keys_that_have_it() {
    for flush in [false, true] {
        let disk = SimFs::new(1);
        let db = open(&disk);
        let (unwritten, film) = (stored(&db, 1), stored(&db, 2));
        put_stored(&db, "film", &film);
        if flush {
            db.flush().unwrap();
        }
        db.sync().unwrap();
        let again = disk.crash_keeping(0.0, 1);
        drop((unwritten, film, db));
        let db = open(&again);
        settle(&db);
        assert!(blob_bytes(&again) < 2_200_000, "flushed {flush}: {}", blob_bytes(&again));
        let found = db.get_vec("film").unwrap_or_else(|error| panic!("flushed {flush}: {error}"));
        assert!(found.unwrap() == value(2, 2_000_000), "flushed {flush}");
        db.delete("film").unwrap();
        settle(&db);
        assert_eq!(blob_bytes(&again), 0, "flushed {flush}: no handle has survived");
    }
}

#[test]
fn a_stream_counts_when_it_is_committed() {
    let disk = SimFs::new(1);
    let db = open(&disk);
    for len in [10, 5_000, 1 << 20, (1 << 20) + 1, 20 << 20] {
        let whole = value(9, len);
        let mut abandoned = db.default_tree().writer("key").unwrap();
        abandoned.write_all(&whole).unwrap();
        drop(abandoned);
        let mut writer = db.default_tree().writer("key").unwrap();
        whole.chunks(10_007).for_each(|piece| writer.write_all(piece).unwrap());
        assert!(db.get("key").unwrap().is_none());
        writer.commit_with(Durability::Power).unwrap();
        assert!(db.get_vec("key").unwrap().unwrap() == whole, "{len}");
        let again = open(&disk.crash_keeping(0.0, 1));
        assert!(again.get_vec("key").unwrap().unwrap() == whole, "{len} after a power cut");
        let mut source = &whole[..];
        assert_eq!(db.default_tree().put_from("key", &mut source).unwrap(), len as u64);
        assert!(db.get_vec("key").unwrap().unwrap() == whole);
        db.delete("key").unwrap();
        settle(&db);
        assert!(blob_bytes(&disk) < 400_000, "{len}: {}", blob_bytes(&disk));
    }
}

#[test]
fn a_checkpoint_has_its_own_life() {
    let disk = SimFs::new(1);
    let db = open(&disk);
    for key in 0..10 {
        db.put(format!("key{key}"), value(key, 100_000)).unwrap();
    }
    db.checkpoint("/copy").unwrap();
    let bytes_of_copy = || {
        let files = disk.paths().into_iter().filter(|path| path.starts_with("/copy"));
        files.map(|path| (disk.read_all(&path).unwrap(), path)).collect::<Vec<_>>()
    };
    let copied = bytes_of_copy();
    for key in 0..10 {
        db.put(format!("key{key}"), value(100 + key, 100_000)).unwrap();
    }
    settle(&db);
    assert!(bytes_of_copy() == copied, "a file of the copy has changed");
    let copy = Db::open("/copy", stepped_options(&disk)).unwrap();
    for key in 0..10 {
        assert!(copy.get_vec(format!("key{key}")).unwrap().unwrap() == value(key, 100_000));
        assert!(db.get_vec(format!("key{key}")).unwrap().unwrap() == value(100 + key, 100_000));
        copy.delete(format!("key{key}")).unwrap();
    }
    settle(&copy);
    settle(&db);
    copy.close().unwrap();
    db.close().unwrap();
    assert_eq!(esker::check(STORE, &stepped_options(&disk)).unwrap().findings, []);
    assert_eq!(esker::check("/copy", &stepped_options(&disk)).unwrap().findings, []);
}

/// 150,000 bytes of which no four are elsewhere.
fn distinct(number: u8) -> Vec<u8> {
    (0..37_500_u32).flat_map(|at| (at * 100 + u32::from(number)).to_le_bytes()).collect()
}

#[test]
fn damage_costs_the_values_that_it_hits_and_is_named() {
    let disk = SimFs::new(1);
    let db = open(&disk);
    let key = |number: u8| format!("key{number}");
    for number in 0..10 {
        db.put(key(number), distinct(number)).unwrap();
    }
    db.close().unwrap();
    let is_blob = |path: &std::path::PathBuf| path.extension().is_some_and(|ext| ext == "blob");
    let path = disk.paths().into_iter().find(is_blob).unwrap();
    let bytes = disk.read_all(&path).unwrap();
    let wanted = distinct(4);
    let hit = bytes.windows(1000).position(|part| part == &wanted[100_000..101_000]).unwrap();
    disk.flip_byte(&path, hit as u64, 1).unwrap();
    let report = esker::check(STORE, &stepped_options(&disk)).unwrap();
    let [finding] = report.findings.as_slice() else { panic!("{report:?}") };
    assert!(
        finding.file == path && (hit as u64 - 65_536..=hit as u64).contains(&finding.offset),
        "{finding:?}"
    );
    let db = open(&disk);
    for number in 0..10 {
        let found = db.get(key(number)).unwrap().unwrap();
        if number == 4 {
            let error = found.bytes().unwrap_err();
            assert_eq!((error.kind(), error.path()), (esker::ErrorKind::Corruption, Some(path.as_path())));
            assert!(found.read_at(..50_000).unwrap() == distinct(4)[..50_000], "the first chunk is whole");
        } else {
            assert!(found.bytes().unwrap() == distinct(number));
        }
    }
    db.close().unwrap();
    disk.remove_file(&path).unwrap();
    let db = open(&disk);
    let error = db.get_vec(key(1)).unwrap_err();
    assert_eq!((error.kind(), error.path()), (esker::ErrorKind::Corruption, Some(path.as_path())));
    db.put("small", "1").unwrap();
    db.put(key(1), distinct(1)).unwrap();
    assert!(db.get_vec(key(1)).unwrap().unwrap() == distinct(1), "the store works on");
}

#[test]
fn a_stream_that_a_crash_cuts_off_leaves_nothing() {
    let disk = SimFs::new(1);
    let db = open(&disk);
    let mut cut_off = db.default_tree().writer("key").unwrap();
    cut_off.write_all(&value(1, 5 << 20)).unwrap();
    let disk = disk.crash_keeping(1.0, 1);
    assert!(blob_bytes(&disk) > 4 << 20);
    let db = open(&disk);
    assert!(!db.contains("key").unwrap());
    assert_eq!(blob_bytes(&disk), 0);
}

#[test]
fn a_missing_blob_file_does_not_stop_the_store() {
    let disk = SimFs::new(1);
    let db = open(&disk);
    for key in 0..3_u8 {
        db.put([key], value(key, 5000)).unwrap();
    }
    db.flush().unwrap();
    db.close().unwrap();
    let is_blob = |path: &std::path::PathBuf| path.extension().is_some_and(|ext| ext == "blob");
    disk.remove_file(&disk.paths().into_iter().find(is_blob).unwrap()).unwrap();
    let db = open(&disk);
    for key in 0..3_u8 {
        db.put([key], "small").unwrap();
        db.compact().unwrap();
        settle(&db);
    }
    assert_eq!(db.stats().unwrap().failure, None);
    db.close().unwrap();
    assert_eq!(esker::check(STORE, &stepped_options(&disk)).unwrap().findings, []);
}

#[test]
fn a_value_of_a_closed_store_is_not_read() {
    let disk = SimFs::new(1);
    let db = open(&disk);
    for key in 0..3_u8 {
        db.put([key], value(key, 500_000)).unwrap();
    }
    let held = db.get([1]).unwrap().unwrap();
    assert!(held.bytes().unwrap() == value(1, 500_000));
    db.put([1], "small").unwrap();
    settle(&db);
    db.close().unwrap();
    let db = open(&disk);
    settle(&db);
    assert!(blob_bytes(&disk) < 1_100_000, "what was held at closing is given back: {}", blob_bytes(&disk));
    assert_eq!(held.bytes().unwrap_err().kind(), esker::ErrorKind::Closed);
}

#[test]
fn one_batch_may_be_written_by_two_threads() {
    let disk = SimFs::new(1);
    let db = open(&disk);
    for _ in 0..100 {
        let mut batch = Batch::new();
        batch.put(db.default_tree(), "key", value(1, 50_000)).unwrap();
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| db.write(&batch).unwrap());
            }
        });
        drop(batch);
        settle(&db);
        assert!(db.get_vec("key").unwrap().unwrap() == value(1, 50_000));
    }
    // A block of each value stays: descriptor and sums share it with the end of the value.
    assert!(blob_bytes(&disk) < 1_500_000, "{}", blob_bytes(&disk));
}

#[test]
fn few_blob_files_are_open() {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let path = dir.path().join("store");
    for round in 0..150_u32 {
        let db = Db::open(&path, Options::default().memory_budget(8 << 20)).unwrap();
        db.put(round.to_be_bytes(), value(round as u8, 100_000)).unwrap();
        db.close().unwrap();
    }
    let db = Db::open(&path, Options::default().memory_budget(8 << 20)).unwrap();
    for round in 0..150_u32 {
        assert!(db.get_vec(round.to_be_bytes()).unwrap().unwrap() == value(round as u8, 100_000));
    }
    assert_eq!(db.stats().unwrap().blob_files, 150);
    let own = format!("/proc/{}/fd", std::process::id());
    let listed = std::process::Command::new("ls").args(["-l", &own]).output().unwrap();
    let path = path.canonicalize().unwrap();
    let is_ours = |line: &&str| line.contains(".blob") && line.contains(path.to_str().unwrap());
    let open = String::from_utf8_lossy(&listed.stdout).lines().filter(is_ours).count();
    assert!((1..70).contains(&open), "{open} blob files are open");
}

/// A value that is held keeps its bytes also where its file has another name, in a copy, and is gone here.
#[test]
fn a_copy_that_gives_space_back_takes_no_bytes_from_a_reader_of_the_original() {
    let disk = SimFs::new(1);
    let db = open(&disk);
    for key in 0..2 {
        db.put([key], value(key, 100_000)).unwrap();
    }
    let held = db.get([0]).unwrap().unwrap();
    assert!(held.bytes().unwrap() == value(0, 100_000));
    db.checkpoint("/copy").unwrap();
    for key in 0..2 {
        db.delete([key]).unwrap();
    }
    settle(&db);
    let copy = Db::open("/copy", stepped_options(&disk)).unwrap();
    copy.delete([0]).unwrap();
    settle(&copy);
    copy.close().unwrap();
    assert!(held.bytes().unwrap() == value(0, 100_000), "punched through the copy's name");
    drop(held);
    settle(&db);
    assert_eq!(db.stats().unwrap().blob_files, 0, "nobody reads it any more");
    db.close().unwrap();
}

/// A value that was overwritten before it was durable is not noted as kept: a power loss may take both writes.
#[test]
fn what_was_overwritten_before_it_was_durable_may_be_lost() {
    let disk = SimFs::new(1);
    let mut small = stepped_options(&disk);
    small.memtable_bytes = Some(100 << 10);
    let db = Db::open(STORE, small).unwrap();
    // More than one memtable holds, and less than may wait to be flushed.
    for number in 0..100_u8 {
        db.put([number], [number; 800]).unwrap();
    }
    db.sync().unwrap();
    db.put("key", value(1, 50_000)).unwrap();
    let snapshot = db.snapshot();
    db.put("key", "small").unwrap();
    // The blob job learns what was overwritten, and a flush of what is synced long since notes what it knows.
    db.step(JobKind::Blobs);
    drop(snapshot);

    assert!(db.step(JobKind::Flush) && db.stats().unwrap().flushes == 1);
    let disk = disk.crash_keeping(0.0, 1);
    assert_eq!(esker::check(STORE, &stepped_options(&disk)).unwrap().findings, []);
    let db = open(&disk);
    settle(&db);
    assert!(!db.contains("key").unwrap());
    assert_eq!(db.stats().unwrap().blob_values, 0);
}
