//! Headers, descriptors and footers with right checksums and wrong numbers.

use super::super::format::{ENTRY, PAGE, TAIL, Tail, encode_footer, key_hash};
use super::*;

const NUMBERS: &[u64] =
    &[0, 1, 7, 8, 4095, 4096, 4104, 9000, 1 << 32, 1 << 48, 1 << 56, 1 << 63, u64::MAX - 4096, u64::MAX];

fn header() -> Header {
    Header { layout: Layout::Shared, chunk_log2: 12, number: 7, salt: 5, created_us: 1 }
}

fn entry() -> Entry {
    Entry {
        ordinal: 0,
        offset: 8192,
        len: 9000,
        stored_us: 3,
        sums_check: 4,
        key_hash: key_hash(2, b"key"),
        desc_offset: PAGE,
        tree: 2,
    }
}

/// Every entry with one or two numbers replaced.
fn changed() -> Vec<Entry> {
    let mut found = vec![entry()];
    for &a in NUMBERS {
        for &b in NUMBERS {
            found.push(Entry { offset: a, len: b, ..entry() });
            found.push(Entry { desc_offset: a, offset: b, ..entry() });
            found.push(Entry { ordinal: a, len: b, ..entry() });
        }
    }
    found
}

#[test]
fn headers_with_another_chunk_size_are_refused() {
    for chunk_log2 in 0..=u8::MAX {
        let header = Header { chunk_log2, ..header() };
        let is_known = (12..=20).contains(&chunk_log2);
        assert_eq!(Header::decode(&header.encode()).is_ok_and(|decoded| decoded == header), is_known);
    }
}

/// Headers with the least, the usual and the greatest chunk size.
fn headers() -> impl Iterator<Item = Header> {
    [12, 16, 20].into_iter().map(|chunk_log2| Header { chunk_log2, ..header() })
}

/// Whether value and sums lie in the first `limit` bytes, computed without overflow.
fn lies_within(entry: &Entry, header: &Header, limit: u64) -> bool {
    let value_end = u128::from(entry.offset) + u128::from(entry.len);
    let chunks = u128::from(entry.len).div_ceil(1 << header.chunk_log2);
    entry.offset >= PAGE && value_end.next_multiple_of(8) + chunks * 8 <= u128::from(limit)
}

#[test]
fn entries_beyond_their_file_are_refused() {
    let footer_at = 20_000;
    let mut sound = 0;
    for (header, entry) in
        headers().flat_map(|header| changed().into_iter().map(move |entry| (header, entry)))
    {
        let footer = encode_footer(&header, footer_at, &[entry]);
        let (entries, tail) = footer.split_at(ENTRY);
        let tail = tail.try_into().expect("a tail");
        let tail = Tail::decode(tail, &header, footer_at + (ENTRY + TAIL) as u64).expect("a sound tail");
        if let Ok(decoded) = tail.decode_entries(entries, &header) {
            assert_eq!(decoded, [entry]);
            assert!(lies_within(&entry, &header, footer_at), "{entry:?}");
            sound += 1;
        }
    }
    assert!(sound > 5, "{sound}");
}

#[test]
fn descriptors_beyond_their_file_are_refused() {
    let mut sound = 0;
    for header in headers()
        .flat_map(|header| [Layout::Shared, Layout::Single].map(|layout| Header { layout, ..header }))
    {
        for entry in changed() {
            let mut bytes = Vec::new();
            entry.encode_descriptor(b"key", header.salt, &mut bytes);
            for &limit in NUMBERS {
                if let Some((decoded, key)) = Entry::decode_descriptor(&bytes, &header, PAGE, limit) {
                    assert_eq!((decoded, key), (Entry { desc_offset: PAGE, ..entry }, &b"key"[..]));
                    assert!(lies_within(&entry, &header, limit), "{entry:?}");
                    sound += 1;
                }
            }
        }
    }
    assert!(sound > 5, "{sound}");
}

#[test]
fn what_has_another_salt_is_refused() {
    let (header, entry) = (header(), entry());
    let other = Header { salt: header.salt + 1, ..header };
    let mut bytes = Vec::new();
    entry.encode_descriptor(b"key", other.salt, &mut bytes);
    assert!(Entry::decode_descriptor(&bytes, &other, PAGE, 1 << 20).is_some());
    assert!(Entry::decode_descriptor(&bytes, &header, PAGE, 1 << 20).is_none());
    let footer_at = 20_000;
    let footer = encode_footer(&header, footer_at, &[entry]);
    let (entries, tail) = footer.split_at(ENTRY);
    let (tail, file_len) = (tail.try_into().unwrap(), footer_at + (ENTRY + TAIL) as u64);
    assert!(Tail::decode(tail, &other, file_len).is_err());
    let tail = Tail::decode(tail, &header, file_len).unwrap();
    assert!(tail.decode_entries(entries, &header).is_ok());
    assert!(tail.decode_entries(entries, &other).is_err());
}

#[test]
fn tails_that_do_not_fit_their_file_are_refused() {
    let header = header();
    for &footer_at in NUMBERS {
        let footer = encode_footer(&header, footer_at, &[entry()]);
        let tail: &[u8; TAIL] = footer[ENTRY..].try_into().expect("a tail");
        for &file_len in NUMBERS {
            assert!(Tail::decode(tail, &header, file_len).is_err(), "{footer_at} {file_len}");
        }
        let other = Header { salt: 6, ..header };
        assert!(Tail::decode(tail, &other, footer_at.wrapping_add(128)).is_err());
    }
}

#[test]
fn entries_out_of_order_and_twice_are_refused() {
    let header = header();
    let second = Entry { ordinal: 1, ..entry() };
    for (entries, sound) in [([entry(), second], true), ([second, entry()], false), ([second, second], false)]
    {
        let footer = encode_footer(&header, 20_000, &entries);
        let (entries, tail) = footer.split_at(2 * ENTRY);
        let tail = tail.try_into().expect("a tail");
        let tail = Tail::decode(tail, &header, 20_000 + (2 * ENTRY + TAIL) as u64).expect("a sound tail");
        assert_eq!(tail.decode_entries(entries, &header).is_ok(), sound);
    }
}

#[test]
fn random_bytes_are_no_blob_file() {
    for seed in test_kit::seeds(200) {
        let mut rng = Rng::new(seed);
        let disk = SimFs::new(seed);
        let len = rng.below(20_000);
        disk.write_all(PATH, &rng.bytes(len)).expect("a file");
        assert!(open_sealed(&disk).is_err() && scan(&disk).is_err(), "seed {seed}");
    }
}

#[test]
fn later_versions_are_told_from_damage() -> Result<()> {
    let disk = SimFs::new(4);
    SharedWriter::create(&disk, path(), new_file(16))?.seal()?;
    let mut bytes = disk.read_all(PATH)?;
    bytes[8] = 2;
    let check = crate::checksum::checksum(0, &bytes[..40]);
    bytes[40..48].copy_from_slice(&check.to_le_bytes());
    disk.write_all(PATH, &bytes)?;
    assert_eq!(open_sealed(&disk).expect_err("version 2").kind(), ErrorKind::Unsupported);
    Ok(())
}
