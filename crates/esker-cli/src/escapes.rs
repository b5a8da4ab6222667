//! Bytes as text on one line: `\n \t \r \\`, and `\xNN` for any byte that is not printable UTF-8.
//!
//! TSV, `--escapes`, keys of several elements and terminals share this form. There are three ways to write it and one
//! to read it:
//!
//! | function | leaves as they are | for |
//! |---|---|---|
//! | [`append`] | printable UTF-8 but for the backslash | values that [`decode`] reads back |
//! | [`append_word`] | the same but for the blank and the bytes that the caller names | keys, which end at a blank |
//! | [`append_shown`] | printable UTF-8, and the backslash | a terminal: it obeys nothing of what is shown |
//!
//! Control characters are not printable, even those above ASCII, nor are characters that reorder or break a line.

use std::fmt;

/// Why an escape is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EscapeError {
    /// A backslash with this character behind it; `None` at the end, or if the character is not printable ASCII.
    Unknown(Option<char>),
    /// `\x` without two hex digits behind it.
    NotHex,
}

impl fmt::Display for EscapeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            EscapeError::Unknown(Some(c)) => {
                write!(f, "\\{c} is not one of the escapes \\t \\n \\r \\\\ \\xNN (type a backslash as \\\\)")
            }
            EscapeError::Unknown(None) => {
                f.write_str("a backslash must be followed by t, n, r, \\ or xNN (type a backslash as \\\\)")
            }
            EscapeError::NotHex => f.write_str("\\x is not followed by two hex digits"),
        }
    }
}

/// Appends the bytes that `typed` stands for.
pub(crate) fn decode(typed: &[u8], out: &mut Vec<u8>) -> Result<(), EscapeError> {
    decode_by(one, typed, out)
}

/// As [`decode`], with Hypertable's `\0`, which is a zero byte.
pub(crate) fn decode_hql(typed: &[u8], out: &mut Vec<u8>) -> Result<(), EscapeError> {
    decode_by(one_hql, typed, out)
}

fn decode_by(
    one: impl Fn(&[u8]) -> Result<(u8, usize), EscapeError>,
    mut typed: &[u8],
    out: &mut Vec<u8>,
) -> Result<(), EscapeError> {
    while let Some(at) = memchr::memchr(b'\\', typed) {
        out.extend_from_slice(&typed[..at]);
        let (byte, taken) = one(&typed[at..])?;
        out.push(byte);
        typed = &typed[at + taken..];
    }
    out.extend_from_slice(typed);
    Ok(())
}

/// As [`decode_hql`], for the beginning of a longer text. Returns the length of what is decoded: all but an escape that is not whole.
pub(crate) fn decode_part(typed: &[u8], out: &mut Vec<u8>) -> Result<usize, EscapeError> {
    let mut done = 0;
    while let Some(at) = memchr::memchr(b'\\', &typed[done..]) {
        out.extend_from_slice(&typed[done..done + at]);
        done += at;
        let rest = &typed[done..];
        if rest.len() < 2 || (rest[1] == b'x' && rest.len() < 4) {
            return Ok(done);
        }
        let (byte, taken) = one_hql(rest)?;
        out.push(byte);
        done += taken;
    }
    out.extend_from_slice(&typed[done..]);
    Ok(typed.len())
}

/// The byte of the escape at the beginning of `typed`, and the length of the escape.
fn one(typed: &[u8]) -> Result<(u8, usize), EscapeError> {
    let byte = match typed.get(1) {
        Some(b't') => b'\t',
        Some(b'n') => b'\n',
        Some(b'r') => b'\r',
        Some(b'\\') => b'\\',
        Some(b'x') => return Ok((hex(typed.get(2..4))?, 4)),
        Some(other) if other.is_ascii_graphic() => {
            return Err(EscapeError::Unknown(Some(char::from(*other))));
        }
        _ => return Err(EscapeError::Unknown(None)),
    };
    Ok((byte, 2))
}

fn one_hql(typed: &[u8]) -> Result<(u8, usize), EscapeError> {
    if typed.starts_with(b"\\0") { Ok((0, 2)) } else { one(typed) }
}

fn hex(digits: Option<&[u8]>) -> Result<u8, EscapeError> {
    let digit = |byte: u8| char::from(byte).to_digit(16).ok_or(EscapeError::NotHex);
    match digits {
        Some(&[high, low]) => Ok((digit(high)? << 4 | digit(low)?) as u8),
        _ => Err(EscapeError::NotHex),
    }
}

/// Appends `bytes` with escapes.
pub(crate) fn append(out: &mut Vec<u8>, bytes: &[u8]) {
    escaped(out, bytes, |c| c == '\\');
}

/// Appends `bytes` with escapes, which also replace blanks and the ASCII characters `more`.
pub(crate) fn append_word(out: &mut Vec<u8>, bytes: &[u8], more: &[u8]) {
    escaped(out, bytes, |c| c == '\\' || c == ' ' || more.iter().any(|other| char::from(*other) == c));
}

/// Appends `bytes` in a form that is safe on a terminal. An escape looks the same as a text with backslashes.
pub(crate) fn append_shown(out: &mut Vec<u8>, bytes: &[u8]) {
    escaped(out, bytes, |_| false);
}

fn escaped(out: &mut Vec<u8>, bytes: &[u8], is_special: impl Fn(char) -> bool) {
    for chunk in bytes.utf8_chunks() {
        let valid = chunk.valid();
        let mut from = 0;
        for (at, c) in valid.char_indices() {
            if is_printable(c) && !is_special(c) {
                continue;
            }
            out.extend_from_slice(&valid.as_bytes()[from..at]);
            from = at + c.len_utf8();
            match c {
                '\t' => out.extend_from_slice(b"\\t"),
                '\n' => out.extend_from_slice(b"\\n"),
                '\r' => out.extend_from_slice(b"\\r"),
                '\\' => out.extend_from_slice(b"\\\\"),
                _ => valid.as_bytes()[at..from].iter().for_each(|byte| numbered(out, *byte)),
            }
        }
        out.extend_from_slice(&valid.as_bytes()[from..]);
        chunk.invalid().iter().for_each(|byte| numbered(out, *byte));
    }
}

fn numbered(out: &mut Vec<u8>, byte: u8) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    out.extend([b'\\', b'x', DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]);
}

/// Whether a line with `c` looks the same everywhere.
pub(crate) fn is_printable(c: char) -> bool {
    let reorders_or_breaks = matches!(
        c,
        '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}'
    );
    !c.is_control() && !reorders_or_breaks
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decoded(typed: &[u8]) -> Result<Vec<u8>, EscapeError> {
        let mut out = Vec::new();
        decode(typed, &mut out).map(|()| out)
    }

    #[test]
    fn parts_are_decoded_as_the_whole() {
        for typed in [
            &b"a\\tb\\\\\\x41\\\\x41\\xff"[..],
            b"\\01\\\\0",
            b"\\\\\\\\",
            b"",
            b"plain",
            b"\\q\\x",
            b"a\\",
            b"\\x4",
        ] {
            for len in 1..=typed.len().max(1) {
                let (mut out, mut pending) = (Vec::new(), Vec::new());
                let mut decoded_parts = || {
                    for part in typed.chunks(len) {
                        pending.extend_from_slice(part);
                        let done = decode_part(&pending, &mut out)?;
                        assert!(pending.len() - done < 4);
                        pending.drain(..done);
                    }
                    decode_hql(&pending, &mut out)
                };
                let done = decoded_parts().map(|()| out);
                let mut whole = Vec::new();
                let whole = decode_hql(typed, &mut whole).map(|()| whole);
                assert_eq!(done, whole, "{typed:?} in parts of {len}");
            }
        }
    }

    #[test]
    fn every_byte_comes_back_from_printable_text() {
        let all: Vec<u8> = (0..=255).collect();
        let strange = "a\\b \u{202e}\u{85}ä語🦀\u{2028}".as_bytes();
        for bytes in [all.as_slice(), strange, b"", b"\\", b"\xc3"] {
            let (mut plain, mut word) = (Vec::new(), Vec::new());
            append(&mut plain, bytes);
            append_word(&mut word, bytes, b",");
            assert!(!word.iter().any(|byte| b" ,".contains(byte)));
            for form in [plain, word] {
                assert_eq!(decoded(&form).as_deref(), Ok(bytes));
                assert!(String::from_utf8(form).unwrap().chars().all(is_printable));
            }
        }
    }

    #[test]
    fn escapes_stand_for_bytes() {
        assert_eq!(decoded(br"a\tb\nc\rd\\e\x00\xFf"), Ok(b"a\tb\nc\rd\\e\0\xff".to_vec()));
        for typed in [r"\", r"a\", r"\N", r"C:\dir", r"\0", r"\é", r"\ "] {
            assert!(matches!(decoded(typed.as_bytes()), Err(EscapeError::Unknown(_))), "{typed}");
        }
        for typed in [r"\x", r"\x4", r"\xg0", r"\x0g"] {
            assert_eq!(decoded(typed.as_bytes()), Err(EscapeError::NotHex), "{typed}");
        }
    }

    #[test]
    fn files_of_hypertable_have_an_escape_for_a_zero_byte() {
        let mut out = Vec::new();
        assert_eq!(decode_hql(br"\0a\012\\0\x00", &mut out), Ok(()));
        assert_eq!(out, b"\0a\x0012\\0\0");
    }

    #[test]
    fn a_terminal_is_shown_what_it_cannot_obey() {
        let mut out = Vec::new();
        append_shown(&mut out, "C:\\x \x1b]0;title\x07\u{9b}31m ü\u{202e}\n".as_bytes());
        let expected = r"C:\x \x1b]0;title\x07\xc2\x9b31m ü\xe2\x80\xae\n";
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }
}
