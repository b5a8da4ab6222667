//! The first line of a reply, in version 2 or 3 of the protocol. All readers of replies in tests and tools are built on it.
//!
//! Bytes that no server may send are a failure of the test: it panics.

/// What the first line of a reply announces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Head<'a> {
    /// The line is the reply: its type, and the rest of the line.
    Line(u8, &'a [u8]),
    /// A bulk or verbatim string of this length follows, and a line end.
    Bytes(u8, usize),
    /// This many replies follow; those of a map are its keys and values.
    Several(u8, usize),
    /// Version 2's null, in place of a bulk string or an array.
    Null(u8),
}

/// The first line of the reply at the start of `bytes`, and its length in bytes. `None`: the line is not complete.
pub fn head(bytes: &[u8]) -> Option<(Head<'_>, usize)> {
    let end = bytes.windows(2).position(|two| two == b"\r\n")?;
    let (first, rest) = bytes[..end].split_first().expect("a reply has a type");
    let number = || {
        let number = std::str::from_utf8(rest).ok().and_then(|text| text.parse::<i64>().ok());
        number.unwrap_or_else(|| panic!("not a number: {}", bytes[..end].escape_ascii()))
    };
    let len = || match number() {
        -1 => None,
        len => Some(usize::try_from(len).expect("a length is not negative")),
    };
    let head = match *first {
        b':' => {
            number();
            Head::Line(b':', rest)
        }
        b',' => {
            let text = std::str::from_utf8(rest).expect("a double is a text");
            text.parse::<f64>().expect("a double");
            Head::Line(b',', rest)
        }
        b'_' if rest.is_empty() => Head::Line(b'_', rest),
        b'#' if rest == b"t" || rest == b"f" => Head::Line(b'#', rest),
        kind @ (b'+' | b'-' | b'(') => Head::Line(kind, rest),
        kind @ (b'$' | b'=') => len().map_or(Head::Null(kind), |len| Head::Bytes(kind, len)),
        kind @ (b'*' | b'~' | b'>') => len().map_or(Head::Null(kind), |len| Head::Several(kind, len)),
        b'%' => len().map_or(Head::Null(b'%'), |len| Head::Several(b'%', 2 * len)),
        _ => panic!("not a reply: {}", bytes[..end].escape_ascii()),
    };
    Some((head, end + 2))
}

/// The length in bytes of the reply at the start of `bytes`. `None`: it is not complete.
pub fn reply_len(bytes: &[u8]) -> Option<usize> {
    let (head, mut at) = head(bytes)?;
    match head {
        Head::Line(..) | Head::Null(_) => {}
        Head::Bytes(_, len) => {
            at += len + 2;
            assert_eq!(bytes.get(at - 2..at)?, b"\r\n", "the end of a string");
        }
        Head::Several(_, count) => {
            for _ in 0..count {
                at += reply_len(bytes.get(at..)?)?;
            }
        }
    }
    Some(at)
}
