//! Parses one line of a command file.
//!
//! ```text
//! PUT key value to the end of the line
//! └┬┘│└┬┘│└────────┬─────────────────┘
//! verb│key│        value: may be empty, may contain anything but a line feed
//!     └───┴ one space or tab each
//! ```

use std::fmt;

/// The command of a line, with keys as typed.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Command<'a> {
    Put { key: &'a [u8], value: &'a [u8] },
    Get { key: &'a [u8] },
    Delete { key: &'a [u8] },
    Scan { lo: &'a [u8], hi: &'a [u8] },
}

/// Why a line is not a command.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Malformed {
    LeadingBlank,
    UnknownVerb(String),
    NoKey,
    NoUpperBound,
    TextBehind,
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Malformed::LeadingBlank => f.write_str("the line begins with a blank"),
            Malformed::UnknownVerb(verb) => write!(f, "{verb:?} is not PUT, GET, DELETE or SCAN"),
            Malformed::NoKey => f.write_str("the verb must be followed by one blank and a key"),
            Malformed::NoUpperBound => f.write_str("SCAN needs two keys with one blank between them"),
            Malformed::TextBehind => f.write_str("there is a blank or text after the last key"),
        }
    }
}

/// The longest verb is DELETE, so the end of a longer word need not be searched for.
const VERB_AT_MOST: usize = 6;

/// Parses a line without its end. `None`: a blank line or a comment.
#[inline]
pub(super) fn parse(line: &[u8]) -> Result<Option<Command<'_>>, Malformed> {
    let word = line.iter().take(VERB_AT_MOST + 1).position(|byte| is_blank(*byte)).unwrap_or(line.len());
    let (verb, rest) = line.split_at(word);
    let rest = rest.get(1..);
    let command = match verb {
        [] | [b'#', ..] => return nothing(line),
        [b'P' | b'p'] => put(rest)?,
        [b'G' | b'g'] => get(rest)?,
        [b'D' | b'd'] => delete(rest)?,
        [b'S' | b's'] => scan(rest)?,
        _ if verb.eq_ignore_ascii_case(b"PUT") => put(rest)?,
        _ if verb.eq_ignore_ascii_case(b"GET") => get(rest)?,
        _ if verb.eq_ignore_ascii_case(b"DELETE") => delete(rest)?,
        _ if verb.eq_ignore_ascii_case(b"SCAN") => scan(rest)?,
        _ => return Err(unknown(verb)),
    };
    Ok(Some(command))
}

#[inline]
fn put(rest: Option<&[u8]>) -> Result<Command<'_>, Malformed> {
    let (key, value) = key(rest)?;
    Ok(Command::Put { key, value: value.unwrap_or_default() })
}

#[inline]
fn get(rest: Option<&[u8]>) -> Result<Command<'_>, Malformed> {
    match key(rest)? {
        (key, None) => Ok(Command::Get { key }),
        _ => Err(Malformed::TextBehind),
    }
}

fn delete(rest: Option<&[u8]>) -> Result<Command<'_>, Malformed> {
    match key(rest)? {
        (key, None) => Ok(Command::Delete { key }),
        _ => Err(Malformed::TextBehind),
    }
}

fn scan(rest: Option<&[u8]>) -> Result<Command<'_>, Malformed> {
    let (lo, rest) = key(rest)?;
    match key(rest) {
        Ok((hi, None)) => Ok(Command::Scan { lo, hi }),
        Ok(_) => Err(Malformed::TextBehind),
        Err(_) => Err(Malformed::NoUpperBound),
    }
}

/// The key at the start of `rest`, and the text behind the blank after it.
#[inline]
fn key(rest: Option<&[u8]>) -> Result<(&[u8], Option<&[u8]>), Malformed> {
    let rest = rest.ok_or(Malformed::NoKey)?;
    let end = memchr::memchr2(b' ', b'\t', rest).unwrap_or(rest.len());
    let (key, behind) = rest.split_at(end);
    if key.is_empty() {
        return Err(Malformed::NoKey);
    }
    Ok((key, behind.get(1..)))
}

fn is_blank(byte: u8) -> bool {
    byte == b' ' || byte == b'\t'
}

#[cold]
fn nothing(line: &[u8]) -> Result<Option<Command<'_>>, Malformed> {
    match line.first() {
        Some(b'#') => Ok(None),
        _ if line.iter().all(|byte| is_blank(*byte)) => Ok(None),
        _ => Err(Malformed::LeadingBlank),
    }
}

#[cold]
fn unknown(verb: &[u8]) -> Malformed {
    let shown = &verb[..verb.len().min(20)];
    Malformed::UnknownVerb(String::from_utf8_lossy(shown).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put<'a>(key: &'a str, value: &'a str) -> Command<'a> {
        Command::Put { key: key.as_bytes(), value: value.as_bytes() }
    }

    #[track_caller]
    fn is(line: &str, command: Command<'_>) {
        assert_eq!(parse(line.as_bytes()), Ok(Some(command)), "{line:?}");
    }

    #[test]
    fn commands() {
        is("PUT k v", put("k", "v"));
        is("p\tk\tv w\t x ", put("k", "v w\t x "));
        is("put k", put("k", ""));
        is("P k ", put("k", ""));
        is("PUT k  v", put("k", " v"));
        is("G 007", Command::Get { key: b"007" });
        is("gEt k", Command::Get { key: b"k" });
        is("D k", Command::Delete { key: b"k" });
        is("delete k", Command::Delete { key: b"k" });
        is("S a b", Command::Scan { lo: b"a", hi: b"b" });
        is("Scan\ta\tb", Command::Scan { lo: b"a", hi: b"b" });
    }

    #[test]
    fn lines_that_ask_for_nothing() {
        for line in ["", " ", "\t  ", "# PUT a b", "#"] {
            assert_eq!(parse(line.as_bytes()), Ok(None), "{line:?}");
        }
    }

    #[test]
    fn malformed_lines() {
        use Malformed::*;
        let cases = [
            ("PUT", NoKey),
            ("PUT ", NoKey),
            ("PUT  k v", NoKey),
            ("GET k ", TextBehind),
            ("GET k x", TextBehind),
            ("D k x", TextBehind),
            ("S a", NoUpperBound),
            ("S a ", NoUpperBound),
            ("S a  b", NoUpperBound),
            ("S a b c", TextBehind),
            ("S a b ", TextBehind),
            (" PUT a b", LeadingBlank),
            ("PUTS a b", UnknownVerb("PUTS".into())),
            ("X", UnknownVerb("X".into())),
            ("ThisIsNoCommandFileAtAll, sorry", UnknownVerb("ThisIsNoCommandFileA".into())),
        ];
        for (line, reason) in cases {
            assert_eq!(parse(line.as_bytes()), Err(reason), "{line:?}");
        }
    }
}
