//! Feeds hostile bytes to every decoder of this room, for `fuzz/`.

use std::sync::Arc;

use super::block::{Block, SLACK, kind_of, seq_of};
use super::filter::Filter;
use super::footer::{FOOTER, Footer, MAGIC, Properties};
use super::index::Index;
use super::{ScanHint, TableReader, frame};
use crate::cache::BufferPool;
use crate::checksum::{checksum, hash_key};
use crate::codec::{Decoder, u64_at};
use crate::cursor::Cursor;
use crate::error::Result;
use crate::fs::ReadFile;
use crate::table::Salvage;

/// Gives `payload` to the decoder of one part of a table, as if its checksum had matched.
pub(crate) fn parts(part: u8, payload: &[u8]) {
    match part % 6 {
        0 => footer(payload),
        1 => properties(payload),
        2 => index(payload),
        3 => filter(payload),
        4 => block(payload),
        _ => packed(payload),
    }
}

fn footer(payload: &[u8]) {
    let mut bytes = [0; FOOTER];
    let len = payload.len().min(FOOTER);
    bytes[..len].copy_from_slice(&payload[..len]);
    let file_len = u64_at(&bytes, 24);
    seal_footer(&mut bytes);
    let read = if file_len < FOOTER as u64 { return } else { Footer::decode(&bytes, file_len) };
    if let Ok(footer) = read {
        let mut again = Vec::new();
        footer.encode(&mut again);
        assert_eq!(Footer::decode(again.first_chunk().unwrap_or(&[0; FOOTER]), file_len), Ok(footer));
    }
}

fn properties(payload: &[u8]) {
    if let Ok(properties) = Properties::decode(payload) {
        let mut again = Vec::new();
        properties.encode(&mut again);
        assert_eq!(Properties::decode(&again), Ok(properties));
    }
}

fn index(payload: &[u8]) {
    let mut decoder = Decoder::new(payload);
    let Some(data_end) = decoder.u32() else { return };
    let Ok(index) = Index::decode(decoder.rest(), u64::from(data_end)) else { return };
    let mut end = 0;
    for i in 0..index.len() {
        let separator = index.separator(i);
        assert!(index.separator_is(i, &separator));
        let found = index.find(&separator);
        assert!(found <= i && index.separator(found) == separator, "block {i} is found as {found}");
        assert_eq!(index.block(i).start, end);
        end = index.block(i).end;
    }
    assert_eq!(end, u64::from(data_end));
    assert!(index.find(payload) <= index.len());
}

fn filter(payload: &[u8]) {
    if let Ok(filter) = Filter::decode(payload) {
        filter.may_contain(hash_key(payload));
        filter.may_contain(u64::MAX);
        let mut again = Vec::new();
        filter.encode(&mut again);
        assert_eq!(again, payload);
    }
}

fn block(payload: &[u8]) {
    let bytes: Vec<u8> = payload.iter().copied().chain([0; SLACK]).collect();
    let Ok(block) = Block::check(Arc::from(bytes)) else { return };
    let layout = block.layout();
    let mut key = Vec::new();
    for i in 0..layout.count {
        let entry = layout.entry(&block, i);
        assert!(entry.rest <= entry.value && entry.value <= entry.end && entry.end <= payload.len());
        kind_of(entry.tag);
        let head = layout.head(&block, i).to_be_bytes();
        key.clear();
        key.extend_from_slice(layout.prefix(&block));
        key.extend_from_slice(&head[..entry.suffix_len.min(head.len())]);
        key.extend_from_slice(&block[entry.rest..entry.value]);
        let (at, _) = layout.search(&block, &key, seq_of(entry.tag));
        assert!(at <= layout.count);
    }
    layout.search(&block, payload, 7);
}

fn packed(payload: &[u8]) {
    let mut stored = payload.to_vec();
    stored.extend_from_slice(&[0; 8]);
    seal(&mut stored, 3, 5);
    if let Ok(plain) = frame::open(Arc::from(stored), 3, 5) {
        drop(Block::check(plain));
    }
}

/// Writes the correct checksum after a stored block.
fn seal(stored: &mut [u8], salt: u64, offset: u64) {
    if let Some(sum_at) = stored.len().checked_sub(8).filter(|&at| at > 0) {
        let sum = checksum(salt.wrapping_add(offset), &stored[..sum_at]);
        stored[sum_at..].copy_from_slice(&sum.to_le_bytes());
    }
}

fn seal_footer(footer: &mut [u8]) {
    footer[40..44].copy_from_slice(&1_u32.to_le_bytes());
    let sum = checksum(0, &footer[..48]);
    footer[48..56].copy_from_slice(&sum.to_le_bytes());
    footer[56..].copy_from_slice(MAGIC);
}

/// Corrects every checksum in a table whose place can be determined.
pub(crate) fn mend(bytes: &mut [u8]) {
    let Some(footer_at) = bytes.len().checked_sub(FOOTER) else { return };
    let len = bytes.len() as u64;
    bytes[footer_at + 24..footer_at + 32].copy_from_slice(&len.to_le_bytes());
    seal_footer(&mut bytes[footer_at..]);
    let salt = u64_at(bytes, footer_at + 32);
    let at = |word: usize| usize::try_from(u64_at(bytes, footer_at + word * 8)).unwrap_or(usize::MAX);
    let places = [at(0), at(1), at(2), footer_at];
    if !places.is_sorted() {
        return;
    }
    let payload = bytes.get(places[1]..places[2].saturating_sub(SLACK)).unwrap_or_default();
    let index = Index::decode(payload, places[0] as u64);
    let blocks: Vec<_> =
        index.map(|index| (0..index.len()).map(|i| index.block(i)).collect()).unwrap_or_default();
    let blocks = blocks.into_iter().map(|block| block.start as usize..block.end as usize);
    for part in blocks.chain(places.windows(2).map(|pair| pair[0]..pair[1])) {
        seal(&mut bytes[part.clone()], salt, part.start as u64);
    }
}

/// Reads a table in every possible way.
pub(crate) fn read(file: &Arc<dyn ReadFile>) -> Result<()> {
    let mut salvage = Salvage::open(Arc::clone(file), None);
    while let Ok(salvage) = &mut salvage
        && salvage.advance()?
    {
        assert!(salvage.key().len() + salvage.value().len() > 0 || salvage.is_at_entry());
    }
    let pool = Arc::new(BufferPool::new(1 << 20));
    let table = Arc::new(TableReader::open(Arc::clone(file), 1, pool)?);
    table.verify(&mut drop);
    let mut keys = Vec::new();
    for hint in [ScanHint::Scan, ScanHint::Compaction] {
        let mut cursor = table.cursor(hint);
        let mut steps = 0;
        let mut moved = cursor.seek_to_first();
        while moved.is_ok() && cursor.valid() {
            keys.push((cursor.key().to_vec(), cursor.seq()));
            assert!(cursor.value().len() as u64 <= 1 << 30);
            steps += 1;
            assert!(steps < 1 << 20, "a cursor that does not end");
            moved = cursor.next();
        }
        let mut moved = cursor.seek_to_last();
        while moved.is_ok() && cursor.valid() && steps > 0 {
            steps -= 1;
            moved = cursor.prev();
        }
    }
    for (key, seq) in keys.iter().take(100) {
        drop(table.get(key, hash_key(key), *seq));
        let mut cursor = table.cursor(ScanHint::Scan);
        drop(cursor.seek(key, seq / 2));
        drop(cursor.seek_before(key, *seq));
    }
    Ok(())
}
