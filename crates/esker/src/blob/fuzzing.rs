//! Feeds hostile bytes to every decoder of this room, for `fuzz/`.

use std::sync::Arc;

use super::format::{DESCRIPTOR, DESCRIPTOR_MARK, ENTRY, Entry, HEADER, Header, PAGE, TAIL, Tail};
use super::index::Index;
use super::{BlobFile, Pointer};
use crate::checksum::checksum;
use crate::codec::{u32_at, u64_at};
use crate::fs::ReadFile;

/// Decodes `payload` as one part of a blob file, as if its checksum had passed.
pub(crate) fn parts(part: u8, payload: &[u8]) {
    let mut page = [0; PAGE as usize];
    let len = payload.len().min(page.len());
    page[..len].copy_from_slice(&payload[..len]);
    page[13] = 12 + page[13] % 9;
    mend_header(&mut page);
    match part % 3 {
        0 => {
            if let Some(pointer) = Pointer::decode(payload) {
                let mut again = Vec::new();
                pointer.encode(&mut again);
                assert_eq!(Pointer::decode(&again), Some(pointer));
            }
        }
        1 => {
            if let Ok(header) = Header::decode(&page) {
                assert_eq!(Header::decode(&header.encode()), Ok(header));
            }
        }
        _ => {
            let Ok(header) = Header::decode(&page) else { return };
            let mut rest = payload.get(HEADER..).unwrap_or_default().to_vec();
            mend_footer(&header, &mut rest);
            let Some(tail) = rest.last_chunk::<TAIL>() else { return };
            let file_len = u64_at(tail, 16).saturating_add(rest.len() as u64);
            let Ok(tail) = Tail::decode(tail, &header, file_len) else { return };
            let bytes = &rest[..rest.len() - TAIL];
            if let Ok(entries) = tail.decode_entries(bytes, &header) {
                look_at(&header, &entries);
            }
        }
    }
}

fn look_at(header: &Header, entries: &[Entry]) {
    let index = Index::new(entries, header.chunk_log2);
    for entry in entries {
        entry.footprint(header.chunk_log2);
        assert!(entry.end(header.chunk_log2) <= 1 << 56);
        assert!(index.find(entry.ordinal).is_some());
        index.set_verified(entry.ordinal);
        index.set_read_again(entry.ordinal);
    }
}

fn mend_header(page: &mut [u8; PAGE as usize]) {
    let sum = checksum(0, &page[..HEADER - 8]);
    page[HEADER - 8..HEADER].copy_from_slice(&sum.to_le_bytes());
}

/// Corrects the checksums of the entries and the tail. `bytes` are the whole footer.
fn mend_footer(header: &Header, bytes: &mut [u8]) {
    let Some(tail_at) = bytes.len().checked_sub(TAIL) else { return };
    let check = checksum(header.salt, &bytes[..tail_at]);
    let tail = &mut bytes[tail_at..];
    for (at, word) in [(8, (tail_at / ENTRY) as u64), (24, check), (32, header.number), (40, header.salt)] {
        tail[at..at + 8].copy_from_slice(&word.to_le_bytes());
    }
    let sum = checksum(0, &tail[..TAIL - 8]);
    tail[TAIL - 8..].copy_from_slice(&sum.to_le_bytes());
}

/// Corrects every checksum of a blob file, except the checksums of the values.
pub(crate) fn mend(bytes: &mut [u8]) {
    let Some(page) = bytes.first_chunk_mut::<{ PAGE as usize }>() else { return };
    mend_header(page);
    let Ok(header) = Header::decode(page) else { return };
    let mut at = PAGE as usize;
    while let Some(head) = bytes.get(at..at + DESCRIPTOR) {
        if &head[8..12] == DESCRIPTOR_MARK
            && let Some(rest) = bytes.get(at + 8..at + DESCRIPTOR + u32_at(head, 12) as usize)
        {
            let sum = checksum(header.salt, rest);
            bytes[at..at + 8].copy_from_slice(&sum.to_le_bytes());
        }
        at += 8;
    }
    let footer_at = bytes.len().checked_sub(TAIL).map(|tail| u64_at(bytes, tail + 16) as usize);
    if let Some(footer) = footer_at.filter(|&at| at >= PAGE as usize).and_then(|at| bytes.get_mut(at..)) {
        mend_footer(&header, footer);
    }
}

/// Reads a blob file in every possible way.
pub(crate) fn read(file: &Arc<dyn ReadFile>, number: u64) {
    let opened = [
        BlobFile::open_sealed(Arc::clone(file), number).and_then(|blob| Ok((blob.entries()?, blob))),
        BlobFile::open_damaged(file, number).map(|(blob, entries, _)| (entries, blob)),
        BlobFile::scan(Arc::clone(file), number).map(|(blob, scan)| (scan.entries, blob)),
    ];
    for (entries, blob) in opened.into_iter().flatten() {
        for entry in &entries {
            let pointer = entry.pointer(number);
            drop(blob.key(entry));
            drop(blob.verify(&pointer));
            drop(blob.map(&pointer, true));
            assert_eq!(pointer.len, entry.len);
        }
    }
}
