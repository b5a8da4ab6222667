//! Parts of values, read as they are needed.

use std::borrow::Cow;
use std::ops::{ControlFlow, Range};
use std::sync::Arc;

use crate::fault::ReadError;
use crate::resp::reply::{Part, Reply};
use crate::session::Value;

/// As much of a huge value is read at once, in bytes.
const PIECE_BYTES: u64 = 1 << 20;

/// The part of a sequence of `len` from `first` to `last`, both included; below 0, they count from its end, but not beyond
/// its beginning. `None` if nothing is there.
pub(in crate::commands) fn within(first: i64, last: i64, len: u64) -> Option<Range<u64>> {
    let place = |at: i64| {
        if at < 0 { len.saturating_sub(at.unsigned_abs()) } else { at.unsigned_abs() }
    };
    let range = place(first)..place(last).saturating_add(1).min(len);
    (!range.is_empty()).then_some(range)
}

/// Whether both places count from the end, and the first one lies behind the last one. [`within`] may take both for the
/// beginning.
pub(in crate::commands) fn is_backwards(first: i64, last: i64) -> bool {
    first < 0 && last < 0 && first > last
}

/// The bytes of a part of `value`. What lies behind the value's end is left out.
pub(in crate::commands) fn part(value: &Value, range: Range<u64>) -> Result<Cow<'_, [u8]>, ReadError> {
    let end = range.end.min(value.len());
    let (begin, len) = (range.start.min(end), end.saturating_sub(range.start));
    let len = usize::try_from(len).unwrap_or(usize::MAX);
    match value {
        // `begin` and `len` are within the bytes.
        Value::Bytes(bytes) => Ok(Cow::Borrowed(&bytes[begin as usize..][..len])),
        Value::Huge(_) if len == 0 => Ok(Cow::Borrowed(&[])),
        Value::Huge(huge) => huge.read_at(begin, len).map(Cow::Owned),
    }
}

/// Calls `visit` with the bytes of a part of `value`, piece by piece, and the place of each piece's first byte, until it
/// breaks.
pub(in crate::commands) fn pieces(
    value: &Value,
    range: Range<u64>,
    mut visit: impl FnMut(u64, &[u8]) -> ControlFlow<()>,
) -> Result<(), ReadError> {
    let end = range.end.min(value.len());
    let piece_bytes = if let Value::Bytes(bytes) = value { bytes.len() as u64 } else { PIECE_BYTES };
    let mut at = range.start;
    while at < end {
        let next = at.saturating_add(piece_bytes).min(end);
        if visit(at, &part(value, at..next)?).is_break() {
            break;
        }
        at = next;
    }
    Ok(())
}

/// Answers with all bytes of `value`.
pub(in crate::commands) fn answer(reply: &mut Reply, value: &Value) -> Result<(), ReadError> {
    answer_part(reply, value, 0..value.len())
}

/// Answers with a part of `value`, which it has. A long part is read when it is sent, piece by piece, and so is any part in
/// a long reply: what a client asks for fills no memory.
pub(super) fn answer_part(reply: &mut Reply, value: &Value, range: Range<u64>) -> Result<(), ReadError> {
    if let Value::Huge(huge) = value
        && (range.end - range.start >= PIECE_BYTES || reply.bytes.len() as u64 >= PIECE_BYTES)
    {
        reply.bulk_part(Part { value: Arc::clone(huge), range });
    } else {
        reply.bulk(&part(value, range)?);
    }
    Ok(())
}

#[cfg(test)]
pub(in crate::commands) mod tests {
    use std::sync::{Arc, Mutex, PoisonError};

    use super::*;
    use crate::commands::{evaluate, spec};
    use crate::context::{Context, Stamp};
    use crate::cursors::Cursors;
    use crate::session::{Base, Bounds, Entry, Huge, Session, Slot, Visit};
    use crate::writes::Writes;

    /// A value that notes what was read of it: for each time the offset and the length.
    struct Watched {
        bytes: Vec<u8>,
        reads: Mutex<Vec<(u64, usize)>>,
    }

    impl Huge for Watched {
        fn len(&self) -> u64 {
            self.bytes.len() as u64
        }

        fn read_at(&self, offset: u64, len: usize) -> Result<Vec<u8>, ReadError> {
            self.reads.lock().unwrap_or_else(PoisonError::into_inner).push((offset, len));
            Ok(self.bytes[offset as usize..][..len].to_vec())
        }

        fn is_ready(&self) -> bool {
            true
        }

        fn as_any(&self) -> &dyn std::any::Any {
            self
        }
    }

    /// A state of the store with nothing but one huge value, at the key `huge`.
    struct OneHuge(Arc<Watched>);

    impl Base for OneHuge {
        fn get(&self, _: Slot, key: &[u8]) -> Result<Option<Entry>, ReadError> {
            let value = Value::Huge(Arc::clone(&self.0) as Arc<dyn Huge>);
            Ok((key == b"huge").then_some(Entry { value, attributes: Vec::new(), expires_us: None }))
        }

        fn walk(&self, _: Slot, _: Bounds<'_>, _: bool, _: &mut Visit<'_>) -> Result<(), ReadError> {
            Ok(())
        }
    }

    /// The reply to a line of words where the key `huge` has these bytes, and what was read of them.
    pub(in crate::commands) fn ask_huge(bytes: &[u8], line: &str) -> (String, Vec<(u64, usize)>) {
        let huge = Arc::new(Watched { bytes: bytes.to_vec(), reads: Mutex::default() });
        let base = OneHuge(Arc::clone(&huge));
        let (mut writes, cursors, mut reply) = (Writes::default(), Cursors::default(), Reply::new(false));
        let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
        let stamp = Stamp { now_us: 0, ahead_ms: 0, seed: 0 };
        let mut ctx = Context::new(Session::new(&base, &mut writes, 0), &cursors, stamp, 0, 16);
        evaluate(&mut ctx, spec(words[0]).unwrap(), &words, &mut reply).unwrap();
        let reads = huge.reads.lock().unwrap().clone();
        let whole = reply.into_whole().unwrap();
        (String::from_utf8_lossy(&whole).replace("\r\n", "|"), reads)
    }

    #[test]
    fn no_more_is_read_of_a_huge_value_than_is_needed() {
        const MIB: usize = 1 << 20;
        let bytes = vec![b'7'; 2 * MIB + 10];
        for (line, reply, reads) in [
            ("STRLEN huge", ":2097162|", vec![]),
            ("GETRANGE huge 5 7", "$3|777|", vec![(5, 3)]),
            ("GETRANGE huge -2 -1", "$2|77|", vec![(2 * MIB as u64 + 8, 2)]),
            ("GETRANGE huge 9 3", "$0||", vec![]),
            ("INCR huge", "-ERR value is not an integer or out of range|", vec![]),
            ("INCRBYFLOAT huge 1", "-ERR value is not a valid float|", vec![]),
            (
                "SETRANGE huge 536870912 x",
                "-ERR string exceeds maximum allowed size (proto-max-bulk-len)|",
                vec![],
            ),
            ("SETRANGE huge 1 ", ":2097162|", vec![]),
            ("APPEND huge x", ":2097163|", vec![(0, bytes.len())]),
            ("SET huge x", "+OK|", vec![]),
            ("GETEX huge PX 0", "-ERR invalid expire time in 'getex' command|", vec![]),
        ] {
            assert_eq!(ask_huge(&bytes, line), (reply.to_owned(), reads), "{line}");
        }
        // What is sent whole is read when it is sent.
        for line in ["GET huge", "GETDEL huge", "GETSET huge x", "SET huge x GET", "GETRANGE huge 0 -1"] {
            let (reply, reads) = ask_huge(&bytes, line);
            let expected = format!("$2097162|{}|", "7".repeat(2 * MIB + 10));
            assert!(reply == expected, "{line}");
            assert_eq!(reads, [], "{line}");
        }
    }

    #[test]
    fn places_are_cut_down_to_what_is_there() {
        for (first, last, range) in [
            (0, -1, Some(0..5)),
            (-2, -1, Some(3..5)),
            (1, 99, Some(1..5)),
            (5, 9, None),
            (3, 2, None),
            (-9, -8, Some(0..1)),
            (i64::MIN, i64::MAX, Some(0..5)),
            (i64::MAX, i64::MAX, None),
        ] {
            assert_eq!(within(first, last, 5), range, "{first} {last}");
        }
        assert_eq!((within(0, -1, 0), within(0, 0, 0)), (None, None));
    }
}
