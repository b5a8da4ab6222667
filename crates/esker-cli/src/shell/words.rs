//! The words of a line: quoted as in a POSIX shell, and with escapes between double quotes.
//!
//! | typed | stands for |
//! |---|---|
//! | `\c` outside of quotes | the character `c`, also a blank, a quote or a backslash |
//! | `'...'` | what is between, as it is |
//! | `"..."` | what is between; `\n \t \r \xNN` stand for bytes there, `\" \\ \$` and a backslash with a backtick for the second character, and any other backslash for itself |
//! | `#` where a word could begin | nothing, up to the end of the line |

use std::borrow::Cow;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;

use crate::escapes;

/// The words of `line`, or what is wrong with it.
pub(super) fn split(line: &[u8]) -> Result<Vec<OsString>, &'static str> {
    let mut words = Vec::new();
    let mut rest = line;
    loop {
        let blanks = rest.iter().take_while(|byte| byte.is_ascii_whitespace()).count();
        rest = &rest[blanks..];
        match rest.first() {
            None => return Ok(words),
            Some(b'#') => {
                let end = memchr::memchr(b'\n', rest).unwrap_or(rest.len());
                rest = &rest[end..];
            }
            Some(_) => {
                let (word, len) = word(rest)?;
                words.push(OsString::from_vec(word));
                rest = &rest[len..];
            }
        }
    }
}

/// The word at the beginning of `line`, and how many bytes it takes there.
fn word(line: &[u8]) -> Result<(Vec<u8>, usize), &'static str> {
    const ENDS: &str = "a backslash ends the line";
    const OPEN: &str = "a quote is not closed";
    let mut word = Vec::new();
    let mut at = 0;
    while let Some(&byte) = line.get(at) {
        at += 1;
        match byte {
            b'\\' => {
                word.push(*line.get(at).ok_or(ENDS)?);
                at += 1;
            }
            b'\'' => {
                let len = memchr::memchr(b'\'', &line[at..]).ok_or(OPEN)?;
                word.extend_from_slice(&line[at..at + len]);
                at += len + 1;
            }
            b'"' => loop {
                let len = memchr::memchr2(b'"', b'\\', &line[at..]).ok_or(OPEN)?;
                word.extend_from_slice(&line[at..at + len]);
                at += len + 1;
                if line[at - 1] == b'"' {
                    break;
                }
                at += escaped(&line[at - 1..], &mut word)? - 1;
            },
            byte if byte.is_ascii_whitespace() => return Ok((word, at - 1)),
            byte => word.push(byte),
        }
    }
    Ok((word, at))
}

/// Appends the meaning of the backslash at the beginning of `line` between double quotes. Returns how many bytes it
/// takes.
fn escaped(line: &[u8], word: &mut Vec<u8>) -> Result<usize, &'static str> {
    let len = match line.get(1) {
        None => return Err("a quote is not closed"),
        Some(b'n' | b't' | b'r') => 2,
        Some(b'x') => line.len().min(4),
        Some(byte @ (b'"' | b'\\' | b'$' | b'`')) => {
            word.push(*byte);
            return Ok(2);
        }
        Some(byte) => {
            word.extend([b'\\', *byte]);
            return Ok(2);
        }
    };
    escapes::decode(&line[..len], word).map_err(|_| "\\x is not followed by two hex digits")?;
    Ok(len)
}

/// A word that [`split`] reads as `text`.
pub(super) fn quote(text: &str) -> Cow<'_, str> {
    let is_plain = |c: char| c.is_alphanumeric() || "-_./:,@%+=".contains(c);
    if !text.is_empty() && text.chars().all(is_plain) {
        return text.into();
    }
    if !text.contains('\'') && text.chars().all(escapes::is_printable) {
        return format!("'{text}'").into();
    }
    let mut inside = Vec::new();
    escapes::append(&mut inside, text.as_bytes());
    format!("\"{}\"", String::from_utf8_lossy(&inside).replace('"', "\\\"")).into()
}

/// Where the last word of `line` begins: after the last blank outside of quotes.
pub(super) fn last(line: &str) -> usize {
    let (mut start, mut quote, mut escaped) = (0, None, false);
    for (at, c) in line.char_indices() {
        match (quote, c) {
            _ if escaped => escaped = false,
            (None | Some('"'), '\\') => escaped = true,
            (Some(open), _) if c == open => quote = None,
            (Some(_), _) => {}
            (None, '"' | '\'') => quote = Some(c),
            (None, _) if c.is_ascii_whitespace() => start = at + c.len_utf8(),
            (None, _) => {}
        }
    }
    start
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn is(line: &[u8], words: &[&[u8]]) {
        let found: Vec<Vec<u8>> = split(line).unwrap().into_iter().map(OsString::into_vec).collect();
        assert_eq!(found, words, "{}", line.escape_ascii());
    }

    #[test]
    fn words_are_quoted_as_in_a_shell() {
        is(b"put 'a b' \"c'd\" e\\ f # g", &[b"put", b"a b", b"c'd", b"e f"]);
        is(b"  ", &[]);
        is(b"# all of it", &[]);
        is(b"a#b '' \"\" #", &[b"a#b", b"", b""]);
        is(b"a'b'\"c\"d\\'", &[b"abcd'"]);
        is(b"put \xff '\xfe x'\tz\r\n", &[b"put", b"\xff", b"\xfe x", b"z"]);
        is(b"'a\\nb' a\\nb", &[b"a\\nb", b"anb"]);
        is(b"# a\nb", &[b"b"]);
        for line in ["put 'a", "put \"a", "put \"a\\", "put \"a\\\"", "a\\"] {
            assert!(split(line.as_bytes()).is_err(), "{line}");
        }
    }

    #[test]
    fn escapes_between_double_quotes_stand_for_bytes() {
        is(br#"put "a\tb\n" "\x00\xfF\r""#, &[b"put", b"a\tb\n", b"\0\xff\r"]);
        is(br#""\\n \" \$ \` C:\dir""#, &[br#"\n " $ ` C:\dir"#]);
        for line in [r#""\x""#, r#""\x4""#, r#""\xg0""#, r#"a"\x4"#] {
            assert_eq!(split(line.as_bytes()), Err("\\x is not followed by two hex digits"), "{line}");
        }
    }

    #[test]
    fn what_is_quoted_is_one_word_again() {
        for text in
            ["", "a", "a b", "it's", "\"", "\\", "it's a \\n \"x\"", "tab\t", "\0'\u{202e}é", "#", "$x", "~"]
        {
            is(quote(text).as_bytes(), &[text.as_bytes()]);
        }
    }

    #[test]
    fn words_begin_behind_blanks_that_are_not_quoted() {
        for (line, start) in
            [("", 0), ("get", 0), ("get ", 4), ("get 'a b", 4), ("get a\\ b", 4), ("get 'a' b", 8)]
        {
            assert_eq!(last(line), start, "{line}");
        }
    }
}
