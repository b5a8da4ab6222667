//! Edits as bytes, and their sums.

use super::*;
use crate::env::{Offset, Reached};
use crate::options::{CompactionStyle, Compression, FilterPrefix};
use crate::table::Expiring;
use crate::version::blob_edits::BlobFileInfo;
use crate::version::imported::Renumbered;
use crate::version::table_info::{AMOUNT_MAX, LookAgain, Unpinned};

fn table(file: FileId) -> TableInfo {
    TableInfo {
        file,
        salt: !file,
        prefix: file.is_multiple_of(2).then_some(3),
        one_number: false,
        renumbered: (file == 8)
            .then(|| Box::new(Renumbered { first: 9, count: 1 << 20, to: 1 << 30, none: 1 << 29 })),
        clipped: true,
        size: 1 << 33,
        entries: 10,
        tombstones: 3,
        raw_bytes: 99,
        expiring: Expiring { count: 2, earliest: 1 << 50, latest: 1 << 51, huge: Some(1 << 51) },
        look_again: LookAgain::new(Some(1 << 50), Some(Unpinned { from: 1 << 39, not_before_us: 1 << 49 })),
        min_seq: 5,
        max_seq: 1 << 40,
        cleared: 1 << 41,
        smallest: b"a".to_vec(),
        largest: vec![0xff; 300],
    }
}

fn sample() -> Vec<Edit> {
    let options = TreeOptions::default()
        .compression(Compression::Lz4)
        .log(false)
        .compaction(CompactionStyle::LazyLeveled)
        .size_ratio(7)
        .filter_prefix(FilterPrefix::through("/", 3));
    vec![
        Edit::CreateTree { tree: 3, name: "naïve".into(), options },
        Edit::SetTag { tree: 3, tag: "u64".into() },
        Edit::SetOptions { tree: 3, options: TreeOptions::default() },
        Edit::SetOptions { tree: 3, options: TreeOptions::default().filter_prefix(FilterPrefix::length(9)) },
        Edit::AddTable { tree: 3, level: 0, table: table(7) },
        Edit::AddTable { tree: 3, level: 6, table: table(8) },
        Edit::RemoveTable { tree: 3, level: 0, file: 7 },
        Edit::Flushed { tree: 3, seq: 77, time_us: 5 },
        Edit::Floor(LogFloor { segment: 4, start: 12345 }),
        Edit::LogSynced { position: 23456 },
        Edit::Clock(Reached { us: 1 << 60, offset: Offset::default() }),
        Edit::Clock(Reached { us: 1 << 61, offset: Offset::new(1 << 59, vec![5, 1 << 58]) }),
        Edit::Identity { identity: u64::MAX - 1 },
        Edit::OperandTimes { tree: 3 },
        Edit::Flushed { tree: 3, seq: 9, time_us: 4 },
        Edit::DeleteRange { tree: 3, seq: 8, range: KeyRange { lower: Vec::new(), upper: None } },
        Edit::DeleteRange {
            tree: 3,
            seq: 9,
            range: KeyRange { lower: b"a".to_vec(), upper: Some(b"b".to_vec()) },
        },
        Edit::ForgetRange { tree: 3, seq: 8 },
        Edit::KeyBounds { tree: 3, lineage: 2, range: KeyRange { lower: b"a".to_vec(), upper: None } },
        Edit::Blob(BlobEdit::Note(BlobFileInfo {
            file: 9,
            origin: 9,
            salt: 1,
            single: false,
            sealed: true,
            entries: 2,
            pending: [1].into(),
        })),
        Edit::Counters { next_file: 20, next_tree: 5, last_seq: 78 },
    ]
}

#[test]
fn edits_round_trip_and_refuse_every_cut() {
    let payload = Edit::encode_all(sample());
    assert_eq!(Edit::decode_all(&payload), Some(sample()));
    for len in 0..payload.len() {
        // A cut between two edits decodes to fewer edits. The record's checksum guards against that.
        if let Some(edits) = Edit::decode_all(&payload[..len]) {
            assert!(edits.len() < sample().len());
        }
    }
}

#[test]
fn numbers_out_of_range_are_refused() {
    let decodes = |edit: Edit| Edit::decode_all(&Edit::encode_all(&[edit])).is_some();
    let floor = |segment, start| Edit::Floor(LogFloor { segment, start });
    assert!(decodes(floor(SEGMENT_ID_MAX, POSITION_MAX)));
    assert!(!decodes(floor(SEGMENT_ID_MAX + 1, 0)) && !decodes(floor(1, POSITION_MAX + 1)));
    assert!(decodes(Edit::LogSynced { position: POSITION_MAX }));
    assert!(!decodes(Edit::LogSynced { position: POSITION_MAX + 1 }));
    let add = |change: fn(&mut TableInfo)| {
        let mut table = table(7);
        change(&mut table);
        Edit::AddTable { tree: 3, level: 0, table }
    };
    assert!(decodes(add(|table| table.size = AMOUNT_MAX)));
    let hostile: [fn(&mut TableInfo); 4] = [
        |table| table.size = u64::MAX,
        |table| table.entries = AMOUNT_MAX + 1,
        |table| table.tombstones = table.entries + 1,
        |table| table.raw_bytes = u64::MAX,
    ];
    assert!(!hostile.into_iter().any(|change| decodes(add(change))));
}

/// Only a bug writes such numbers, and a store opens in spite of them.
#[test]
fn absurd_offsets_of_the_clock_are_taken_for_what_they_may_be() {
    let read = |numbers: &[u64]| {
        let mut payload = Vec::new();
        put(&mut payload, CLOCK_AHEAD, numbers);
        Edit::decode_all(&payload)
    };
    let clock =
        |us, offset, earlier| Some(vec![Edit::Clock(Reached { us, offset: Offset::new(offset, earlier) })]);
    assert_eq!(read(&[9, 5, 2, 3, 4]), clock(9, 5, vec![3, 4]));
    assert_eq!(read(&[9, u64::MAX, 4, u64::MAX, 3, 9, 3]), clock(9, 9, vec![3]));
    assert_eq!(read(&[9, 0, 1, 7]), clock(9, 0, vec![]));
    assert_eq!(read(&[CLOCK_AHEAD_MAX, 1, 0]), clock(CLOCK_AHEAD_MAX, 1, vec![]));
    assert_eq!(read(&[CLOCK_AHEAD_MAX + 1, 1, 0]), None);
    assert_eq!(read(&[9, 5, u64::MAX, 3, 4]), None);
}

#[test]
fn a_state_is_rebuilt_from_its_own_edits() {
    let mut state = ManifestState::default();
    for edit in sample() {
        state.apply(&edit).unwrap();
    }
    let mut rebuilt = ManifestState::default();
    for edit in state.to_edits() {
        rebuilt.apply(&edit).unwrap();
    }
    assert_eq!(state, rebuilt);
    assert!(state.apply(&Edit::RemoveTable { tree: 3, level: 0, file: 7 }).is_err());
    assert!(state.apply(&Edit::DropTree { tree: 9 }).is_err());
}
