//! Damaged and hostile files yield the right answer or a located error, never a wrong answer or a panic.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use super::*;
use crate::checksum::checksum;
use crate::codec::u64_at;
use crate::table::salvage::Gap;

fn small(compression: Compression) -> (Model, Vec<u8>) {
    let mut rng = Rng::new(9);
    let mut model = Model::new();
    for i in 0..60_u64 {
        let key = format!("key{:03}{}", i / 2, "x".repeat(i as usize % 7)).into_bytes();
        let kind = if i % 9 == 0 { Kind::Delete } else { Kind::Put };
        let value = if kind == Kind::Put { some_bytes(&mut rng, i as usize % 30, 4) } else { Vec::new() };
        model.insert((key, Reverse(1000 - i)), (kind, value));
    }
    let options = TableOptions { block_size: 256, compression, ..TableOptions::new(0xabcdef) };
    let (bytes, meta) = build(&model, options);
    assert!(meta.properties.blocks > 4);
    (model, bytes)
}

/// Reads everything in every way and checks all answers against the model; returns the first error.
fn read_all(model: &Model, bytes: Vec<u8>) -> Result<()> {
    let table = open(bytes, 1 << 20)?;
    let mut result = Ok(());
    for ((key, seq), (kind, value)) in model {
        match table.get(key, hash_key(key), seq.0) {
            Ok(found) => {
                let found = found.expect("a key that is there");
                assert_eq!((found.seq, found.kind, &*found.value), (seq.0, *kind, &value[..]));
            }
            Err(error) => result = Err(error),
        }
        let mut cursor = table.cursor(ScanHint::Compaction);
        match cursor.seek(key, seq.0) {
            Ok(()) => assert_eq!(current(&cursor), Some((key.clone(), seq.0, *kind, value.clone()))),
            Err(error) => {
                assert!(!cursor.valid());
                result = Err(error);
            }
        }
    }
    let mut findings = Vec::new();
    let entries = table.verify(&mut |error| findings.push(error));
    assert_eq!(findings.is_empty(), result.is_ok(), "{findings:?} {result:?}");
    assert!(findings.is_empty() == (entries == model.len() as u64));
    result
}

fn is_located(error: &Error) {
    assert_eq!(error.kind(), ErrorKind::Corruption, "{error}");
    assert!(error.path().is_some() && error.offset().is_some(), "{error}");
}

#[test]
fn every_flipped_byte_is_found() {
    for &compression in COMPRESSIONS {
        let (model, bytes) = small(compression);
        read_all(&model, bytes.clone()).expect("an undamaged table");
        for at in 0..bytes.len() {
            for flip in [0x01, 0x80, 0xff] {
                let mut damaged = bytes.clone();
                damaged[at] ^= flip;
                let error = read_all(&model, damaged).expect_err("a flipped byte");
                is_located(&error);
            }
        }
    }
}

#[test]
fn a_file_that_was_cut_or_grew_is_refused() {
    let (_, bytes) = small(Compression::None);
    for len in 0..bytes.len() {
        is_located(&open(bytes[..len].to_vec(), 0).expect_err("a cut file"));
    }
    let longer = [bytes.as_slice(), &[0]].concat();
    is_located(&open(longer, 0).expect_err("a file that grew"));
    // The tail of a table alone has a good footer.
    is_located(&open(bytes[100..].to_vec(), 0).expect_err("a file that lost its front"));
}

/// Cuts a table at every place, between two blocks and at its beginning too. Salvage must find each entry or name a gap
/// that holds it.
#[test]
fn salvage_names_what_a_cut_has_taken() {
    let (model, bytes) = small(Compression::Lz4);
    for len in 0..bytes.len() {
        let file = Arc::new(MemRead(bytes[..len].to_vec()));
        let mut salvage = Salvage::open(file, Some(0xabcdef)).expect("what is left of a table");
        let mut found = BTreeSet::new();
        while salvage.advance().expect("a next entry, or none") {
            let value = (salvage.kind(), salvage.value().to_vec());
            let id = (salvage.key().to_vec(), Reverse(salvage.seq()));
            assert_eq!(model.get(&id), Some(&value), "cut to {len}");
            found.insert(id);
        }
        for id in model.keys().filter(|id| !found.contains(*id)) {
            let is_in = |gap: &Gap| gap.behind <= id.0 && gap.up_to.as_ref().is_none_or(|to| id.0 <= *to);
            assert!(salvage.gaps().iter().any(is_in), "cut to {len}: {id:?} is in no gap");
        }
        assert!(salvage.gaps().len() <= 1, "cut to {len}: {:?}", salvage.gaps());
    }
}

#[test]
fn blocks_that_changed_places_are_found() {
    let entry = |i: u8| ((vec![i], Reverse(0)), (Kind::Put, vec![5; 200]));
    let model: Model = (0..8).map(entry).collect();
    let (bytes, _) = build(&model, TableOptions { block_size: 64, ..TableOptions::new(1) });
    let frames = frames(&bytes);
    let (first, second) = (frames[0].clone(), frames[1].clone());
    assert_eq!(first.len(), second.len());
    let mut swapped = bytes.clone();
    swapped[first.clone()].copy_from_slice(&bytes[second.clone()]);
    swapped[second].copy_from_slice(&bytes[first]);
    is_located(&read_all(&model, swapped).expect_err("good blocks in the wrong places"));
}

#[test]
fn a_later_format_is_unsupported() {
    let (_, mut bytes) = small(Compression::None);
    let footer = bytes.len() - 64;
    bytes[footer + 40] = 2;
    let sum = checksum(0, &bytes[footer..footer + 48]);
    bytes[footer + 48..footer + 56].copy_from_slice(&sum.to_le_bytes());
    assert_eq!(open(bytes, 0).expect_err("version 2").kind(), ErrorKind::Unsupported);
}

/// The range of every block in the file, of any kind.
fn frames(bytes: &[u8]) -> Vec<std::ops::Range<usize>> {
    let footer = bytes.len() - 64;
    let table = open(bytes.to_vec(), 0).expect("an undamaged table");
    let mut frames: Vec<_> = (0..table.blocks()).map(|i| table.place(i)).collect();
    let sections = [0, 8, 16].map(|at| u64_at(bytes, footer + at));
    frames.extend([sections[0]..sections[1], sections[1]..sections[2], sections[2]..footer as u64]);
    frames.into_iter().map(|frame| frame.start as usize..frame.end as usize).collect()
}

/// Reads bytes with correct checksums but any content: this must not panic, and every cursor must reach an
/// end.
fn exercise(bytes: Vec<u8>, rng: &mut Rng) {
    let Ok(table) = open(bytes, 1 << 20) else { return };
    let limit = 5000;
    for hint in [ScanHint::Scan, ScanHint::Compaction] {
        let mut cursor = table.cursor(hint);
        let mut steps = 0;
        let mut moved = cursor.seek_to_first();
        while moved.is_ok() && cursor.valid() && steps < limit {
            drop(current(&cursor));
            moved = cursor.next();
            steps += 1;
        }
        moved = cursor.seek_to_last();
        while moved.is_ok() && cursor.valid() && steps < 2 * limit {
            moved = cursor.prev();
            steps += 1;
        }
        assert!(steps < limit, "a cursor that does not end");
    }
    for _ in 0..20 {
        let key = format!("key{:03}{}", rng.index(40), "x".repeat(rng.index(8))).into_bytes();
        drop(table.get(&key, hash_key(&key), rng.next() % 1100));
        let mut cursor = table.cursor(ScanHint::Scan);
        drop(cursor.seek(&key, rng.next() % 1100));
        drop(cursor.seek_before(&key, rng.next() % 1100));
    }
    table.verify(&mut drop);
}

#[test]
fn hostile_bytes_with_good_checksums_do_no_harm() {
    for &compression in COMPRESSIONS {
        let (_, bytes) = small(compression);
        let frames = frames(&bytes);
        for seed in test_kit::seeds(6000) {
            let mut rng = Rng::new(seed);
            let mut hostile = bytes.clone();
            let frame = frames[rng.index(frames.len())].clone();
            let payload = frame.start..frame.end - 8;
            for _ in 0..=rng.index(4) {
                // Mostly changes the header and the tables after it, which hold most of the structure.
                let span = if rng.index(2) == 0 { payload.len().min(40) } else { payload.len() };
                let at = payload.start + rng.index(span);
                hostile[at] = match rng.index(4) {
                    0 => 0,
                    1 => 0xff,
                    2 => hostile[at].wrapping_add(1),
                    _ => rng.next() as u8,
                };
            }
            let salt = 0xabcdef_u64.wrapping_add(frame.start as u64);
            let sum = checksum(salt, &hostile[payload.clone()]);
            hostile[payload.end..frame.end].copy_from_slice(&sum.to_le_bytes());
            exercise(hostile, &mut rng);
        }
    }
}

#[test]
#[cfg(not(feature = "zstd"))]
fn zstd_is_unsupported_without_its_feature() {
    let options = TableOptions { compression: Compression::Zstd, ..TableOptions::new(1) };
    let error = TableWriter::new(Box::new(MemFile::default()), options).expect_err("no zstd");
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    let (_, mut bytes) = small(Compression::None);
    let frame = frames(&bytes)[0].clone();
    bytes[frame.end - 9] = 2;
    let sum = checksum(0xabcdef, &bytes[frame.start..frame.end - 8]);
    bytes[frame.end - 8..frame.end].copy_from_slice(&sum.to_le_bytes());
    let table = open(bytes, 0).expect("a table whose first block is packed by zstd");
    let error = table.cursor(ScanHint::Scan).seek_to_first().expect_err("no zstd");
    assert_eq!(error.kind(), ErrorKind::Unsupported);
}
