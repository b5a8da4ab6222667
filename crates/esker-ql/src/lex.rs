//! Tokens: words, numbers, strings of bytes and signs.
//!
//! The lexer reads one token at a time, so a text takes no memory beside the token. Outside of strings, a text is ASCII or
//! UTF-8; within them, bytes stand for themselves.
//!
//! | text | token |
//! |---|---|
//! | `SELECT`, `cf`, `my-table.2` | a word: letters, digits, `_`, `-` and `.`; it begins with a letter or `_` |
//! | `12` | a number |
//! | `'...'`, `"..."` | a string: `\n \t \r \0 \\ \' \" \xNN` stand for bytes, any other byte for itself |
//! | `x'00ff'` | a string, by the hexadecimal digits of its bytes |
//! | `-- ...`, `# ...`, `/* ... */` | a comment |

use std::borrow::Cow;

use crate::error::{Error, Result};

/// The longest statement, in bytes.
pub const STATEMENT_LEN_MAX: usize = 64 << 20;

/// What a token is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A word; its text is that of the token.
    Word,
    Number(u64),
    String(Vec<u8>),
    /// A sign of one or two characters.
    Sign(&'static str),
    /// The end of the text.
    End,
}

/// A token and where it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Token {
    pub(crate) kind: Kind,
    pub(crate) start: usize,
    pub(crate) end: usize,
}

/// The longer ones first.
const SIGNS: [&str; 20] = [
    "=^", "=~", "<=", ">=", "!=", "<>", "(", ")", ",", ";", "=", "<", ">", "*", ":", "/", "^", "+", "-", "|",
];

/// Reads the tokens of a text.
#[derive(Debug, Clone)]
pub(crate) struct Lexer<'a> {
    pub(crate) text: &'a [u8],
    pub(crate) at: usize,
    /// Where the statement begins that is being read.
    pub(crate) statement: usize,
    /// Whether the next string is a regular expression: a backslash that begins no escape of a string stands for itself.
    pub(crate) is_regexp: bool,
}

impl<'a> Lexer<'a> {
    pub(crate) fn new(text: &'a [u8]) -> Lexer<'a> {
        Lexer { text, at: 0, statement: 0, is_regexp: false }
    }

    pub(crate) fn wrong(&self, at: usize, message: impl Into<String>) -> Error {
        Error::syntax(self.text, at, message.into(), false)
    }

    /// The error that the text ends within what begins at `at`.
    pub(crate) fn unfinished(&self, at: usize, message: impl Into<String>) -> Error {
        Error::syntax(self.text, at, message.into(), true)
    }

    fn byte(&self, ahead: usize) -> Option<u8> {
        self.text.get(self.at + ahead).copied()
    }

    fn rest(&self) -> &'a [u8] {
        self.text.get(self.at..).unwrap_or_default()
    }

    /// The text between two places.
    pub(crate) fn slice(&self, start: usize, end: usize) -> &'a [u8] {
        self.text.get(start..end).unwrap_or_default()
    }

    /// Passes blanks and comments.
    pub(crate) fn skip_blanks(&mut self) -> Result<()> {
        loop {
            let rest = self.rest();
            self.at += rest.iter().take_while(|byte| byte.is_ascii_whitespace()).count();
            let rest = self.rest();
            if rest.starts_with(b"--") || rest.starts_with(b"#") {
                self.at += rest.iter().take_while(|byte| **byte != b'\n').count();
            } else if rest.starts_with(b"/*") {
                let end = rest.get(2..).unwrap_or_default().windows(2).position(|pair| pair == b"*/");
                let end = end.ok_or_else(|| self.unfinished(self.at, "the comment has no end `*/`"))?;
                self.at += end + 4;
            } else {
                return Ok(());
            }
        }
    }

    /// The next token.
    pub(crate) fn token(&mut self) -> Result<Token> {
        self.skip_blanks()?;
        let start = self.at;
        let kind = self.kind()?;
        if self.at - self.statement.min(self.at) > STATEMENT_LEN_MAX {
            let message = format!("a statement has {STATEMENT_LEN_MAX} bytes at most; this one has more");
            return Err(self.wrong(self.statement, message));
        }
        Ok(Token { kind, start, end: self.at })
    }

    fn kind(&mut self) -> Result<Kind> {
        let Some(first) = self.byte(0) else { return Ok(Kind::End) };
        match first {
            b'\'' | b'"' => self.string(first).map(Kind::String),
            b'x' | b'X' if self.byte(1) == Some(b'\'') => self.hex().map(Kind::String),
            b'0'..=b'9' => self.number(),
            _ if is_word_start(first) => self.word(),
            _ => {
                let rest = self.rest();
                let Some(sign) = SIGNS.iter().find(|sign| rest.starts_with(sign.as_bytes())) else {
                    return Err(self.wrong(self.at, format!("{} cannot be here", show(&[first]))));
                };
                self.at += sign.len();
                Ok(Kind::Sign(sign))
            }
        }
    }

    fn word(&mut self) -> Result<Kind> {
        let (start, mut len) = (self.at, 0);
        let rest = self.rest();
        while let Some(&byte) = rest.get(len) {
            let begins_comment = byte == b'-' && rest.get(len + 1) == Some(&b'-');
            if begins_comment
                || !(is_word_start(byte) || byte.is_ascii_digit() || matches!(byte, b'-' | b'.'))
            {
                break;
            }
            len += 1;
        }
        self.at += len;
        match std::str::from_utf8(self.slice(start, self.at)) {
            Ok(_) => Ok(Kind::Word),
            Err(error) => {
                Err(self.wrong(start + error.valid_up_to(), "outside of quotes, a text has to be UTF-8"))
            }
        }
    }

    fn number(&mut self) -> Result<Kind> {
        let (start, mut value) = (self.at, Some(0_u64));
        while let Some(digit @ b'0'..=b'9') = self.byte(0) {
            value = value.and_then(|value| value.checked_mul(10)?.checked_add(u64::from(digit - b'0')));
            self.at += 1;
        }
        if self.byte(0).is_some_and(is_word_start) {
            return Err(self.wrong(start, "a name that begins with a digit has to be in quotes"));
        }
        let too_large =
            "the number is too large: a timestamp is at most 2^63 - 2, any other number at most 2^64 - 1";
        value.map(Kind::Number).ok_or_else(|| self.wrong(start, too_large))
    }

    /// A string that begins with the quote `quote`.
    fn string(&mut self, quote: u8) -> Result<Vec<u8>> {
        let (start, mut bytes) = (self.at, Vec::new());
        self.at += 1;
        loop {
            let at = self.at;
            let byte = self.byte(0).ok_or_else(|| self.unfinished(start, "the string has no end"))?;
            self.at += 1;
            if byte == quote {
                return Ok(bytes);
            }
            if byte != b'\\' {
                bytes.push(byte);
                continue;
            }
            let escaped = self.byte(0).ok_or_else(|| self.unfinished(start, "the string has no end"))?;
            self.at += 1;
            if self.is_regexp && !b"ntr0\\'\"x".contains(&escaped) {
                bytes.extend([b'\\', escaped]);
                continue;
            }
            bytes.push(match escaped {
                b'n' => b'\n',
                b't' => b'\t',
                b'r' => b'\r',
                b'0' => 0,
                b'\\' | b'\'' | b'"' => escaped,
                b'x' => {
                    let digits = (self.byte(0).and_then(hex_digit), self.byte(1).and_then(hex_digit));
                    let (Some(high), Some(low)) = digits else {
                        return Err(self.wrong(at, "expected two hexadecimal digits behind `\\x`"));
                    };
                    self.at += 2;
                    high << 4 | low
                }
                _ => {
                    return Err(self.wrong(
                        at,
                        "expected one of `\\n \\t \\r \\0 \\\\ \\' \\\" \\xNN`; a backslash is `\\\\`",
                    ));
                }
            });
        }
    }

    /// `x'00ff'`.
    fn hex(&mut self) -> Result<Vec<u8>> {
        let (start, mut bytes) = (self.at, Vec::new());
        self.at += 2;
        loop {
            match self.byte(0) {
                None => return Err(self.unfinished(start, "the string has no end")),
                Some(b'\'') => {
                    self.at += 1;
                    return Ok(bytes);
                }
                Some(digit) => {
                    let digits = (hex_digit(digit), self.byte(1).and_then(hex_digit));
                    let (Some(high), Some(low)) = digits else {
                        return Err(self.wrong(self.at, "expected two hexadecimal digits for each byte"));
                    };
                    bytes.push(high << 4 | low);
                    self.at += 2;
                }
            }
        }
    }

    /// The regular expression between two `/`, the first of which was read. `\/` is a slash in it; any other backslash is
    /// the expression's own.
    pub(crate) fn regexp(&mut self) -> Result<Vec<u8>> {
        let (start, mut bytes) = (self.at.saturating_sub(1), Vec::new());
        loop {
            let byte = self.byte(0).ok_or_else(|| self.unfinished(start, "the expression has no end `/`"))?;
            self.at += 1;
            match (byte, self.byte(0)) {
                (b'/', _) if std::str::from_utf8(&bytes).is_err() => {
                    return Err(self.wrong(start, "outside of quotes, a text has to be UTF-8"));
                }
                (b'/', _) => return Ok(bytes),
                (b'\\', Some(b'/')) => {
                    bytes.push(b'/');
                    self.at += 1;
                }
                (b'\\', Some(escaped)) => {
                    bytes.extend([b'\\', escaped]);
                    self.at += 1;
                }
                _ => bytes.push(byte),
            }
        }
    }
}

fn hex_digit(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).map(|value| value as u8)
}

fn is_word_start(byte: u8) -> bool {
    byte.is_ascii_alphabetic() || byte == b'_' || !byte.is_ascii()
}

/// `bytes` for a message: between backquotes, and cut.
pub(crate) fn show(bytes: &[u8]) -> String {
    const SHOWN: usize = 40;
    let cut: Cow<'_, str> = String::from_utf8_lossy(bytes.get(..bytes.len().min(SHOWN)).unwrap_or_default());
    let cut: String = cut.chars().map(|letter| if letter.is_control() { '.' } else { letter }).collect();
    let more = if bytes.len() > SHOWN { "..." } else { "" };
    format!("`{cut}{more}`")
}
