//! Checks that every way of reading a value returns its bytes, for any part.

use std::io::{self, Read, Seek, SeekFrom, Write};
use std::ops::Bound;

use super::Value;
use crate::error::{Error, ErrorKind};

const CONTENTS: [&[u8]; 3] = [b"", b"x", b"seven by"];
const OFFSETS: [u64; 14] = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 1 << 32, u64::MAX - 1, u64::MAX];

#[test]
fn the_whole_is_the_same_whichever_way_it_is_read() {
    for content in CONTENTS {
        let value = Value::of_bytes(content);
        assert_eq!((value.len(), value.is_empty()), (content.len() as u64, content.is_empty()));
        assert_eq!(&value.bytes().unwrap()[..], content);
        let mut buf = b"left over".to_vec();
        let room = buf.as_ptr();
        value.read_into(&mut buf).unwrap();
        assert_eq!((&buf[..], buf.as_ptr()), (content, room), "the allocation is used again");
        let mut out = b"before ".to_vec();
        assert_eq!(value.copy_to(&mut out).unwrap(), value.len());
        assert_eq!(out, [b"before ", content].concat());
        assert_eq!(&value.clone().map().unwrap()[..], content);
        assert_eq!(&value.clone().map_unverified().unwrap()[..], content);
        assert_eq!(value.into_vec().unwrap(), content);
    }
}

/// The bytes of `content` whose positions lie within the bounds: the expected result of `read_at`.
fn within(content: &[u8], start: Bound<u64>, end: Bound<u64>) -> Vec<u8> {
    let inside = |at: u64| std::ops::RangeBounds::contains(&(start, end), &at);
    (0..).zip(content).filter(|&(at, _)| inside(at)).map(|(_, &byte)| byte).collect()
}

#[test]
fn a_range_is_cut_at_the_end_and_must_not_be_reversed() {
    let bounds = || {
        let both = |at| [Bound::Included(at), Bound::Excluded(at)];
        OFFSETS.into_iter().flat_map(both).chain([Bound::Unbounded])
    };
    for content in CONTENTS {
        let value = Value::of_bytes(content);
        for (start, end) in bounds().flat_map(|start| bounds().map(move |end| (start, end))) {
            match value.read_at((start, end)) {
                Ok(part) => assert_eq!(part, within(content, start, end), "{start:?} to {end:?}"),
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::InvalidInput);
                    let (
                        Bound::Included(from) | Bound::Excluded(from),
                        Bound::Included(to) | Bound::Excluded(to),
                    ) = (start, end)
                    else {
                        panic!("{start:?} to {end:?} is not reversed");
                    };
                    let open = matches!((start, end), (Bound::Excluded(_), Bound::Excluded(_)));
                    assert!(to < from || (open && to == from), "{start:?} to {end:?} is not reversed");
                }
            }
        }
        assert_eq!(value.read_at(..).unwrap(), content);
        #[expect(clippy::reversed_empty_ranges, reason = "what is tested")]
        let reversed = value.read_at(3..2);
        assert_eq!(reversed.unwrap_err().kind(), ErrorKind::InvalidInput);
    }
}

#[test]
fn a_part_is_read_whole_or_not_at_all() {
    for content in CONTENTS {
        let value = Value::of_bytes(content);
        for offset in OFFSETS {
            for len in 0..=10 {
                let mut buf = vec![b'-'; len];
                let read = value.read_exact_at(offset, &mut buf);
                let part = usize::try_from(offset).ok().and_then(|at| content.get(at..at.checked_add(len)?));
                match part {
                    Some(part) => assert_eq!((read.is_ok(), &buf[..]), (true, part)),
                    None => {
                        assert_eq!(read.unwrap_err().kind(), ErrorKind::InvalidInput);
                        assert_eq!(buf, vec![b'-'; len], "{len} bytes at {offset}");
                    }
                }
            }
        }
    }
}

/// Moves and reads like the standard library's cursor over the same bytes.
#[test]
fn a_reader_behaves_as_a_cursor_over_the_bytes() {
    let seeks = || {
        let ends = [-9, -8, -1, 0, 1, 8, i64::MIN, i64::MAX];
        let relative = ends.into_iter().flat_map(|at| [SeekFrom::End(at), SeekFrom::Current(at)]);
        OFFSETS.into_iter().map(SeekFrom::Start).chain(relative)
    };
    for content in CONTENTS {
        let value = Value::of_bytes(content);
        for (first, second) in seeks().flat_map(|first| seeks().map(move |second| (first, second))) {
            let (mut reader, mut model) = (value.reader(), io::Cursor::new(content));
            for to in [first, second] {
                let (got, expected) = (reader.seek(to), model.seek(to));
                assert_eq!(got.as_ref().ok(), expected.as_ref().ok(), "{first:?}, {second:?}");
                if let Err(error) = got {
                    assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
                }
                let (mut got, mut expected) = ([0; 3], [0; 3]);
                let lens = (reader.read(&mut got).unwrap(), model.read(&mut expected).unwrap());
                assert_eq!((lens.0, got), (lens.1, expected), "{first:?}, {second:?}");
            }
        }
        let mut all = Vec::new();
        value.into_reader().read_to_end(&mut all).unwrap();
        assert_eq!(all, content);
    }
}

#[test]
fn what_a_writer_fails_with_is_told() {
    struct Full;
    impl Write for Full {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::ErrorKind::StorageFull.into())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let error = Value::of_bytes(b"x").copy_to(&mut Full).unwrap_err();
    assert_eq!((error.kind(), error.path()), (ErrorKind::OutOfSpace, None));
    let told = io::Error::from(error);
    assert_eq!(told.kind(), io::ErrorKind::StorageFull);
    assert!(told.downcast::<Error>().is_ok());
}
