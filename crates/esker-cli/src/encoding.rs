//! The encoding of a text file: its bytes become UTF-8 while they are read.
//!
//! | input | read as |
//! |---|---|
//! | begins with the byte order mark of UTF-8 | UTF-8, without the mark |
//! | begins with that of UTF-16 | UTF-16, without the mark |
//! | begins with that of UTF-32 | refused |
//! | has no mark | bytes, which a format may require to be UTF-8 |
//!
//! If the user names an encoding, it is the one, and a mark of another one is an error. No byte is replaced or dropped:
//! input that is invalid in its encoding is an error with its place. The tables of the encodings are those of the WHATWG
//! Encoding Standard, which browsers use.

use std::io::{self, Cursor, Read};

use encoding_rs::{DecoderResult, Encoding as Table, UTF_8, WINDOWS_874, WINDOWS_1252, WINDOWS_1254};

use crate::unpack::first_bytes_while;

/// The mark at the beginning of a UTF-8 file that some programs write.
pub(crate) const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

const UTF_32_LE: &[u8] = b"\xff\xfe\0\0";
const UTF_32_BE: &[u8] = b"\0\0\xfe\xff";
/// Every mark.
const MARKS: [&[u8]; 5] = [BYTE_ORDER_MARK, b"\xff\xfe", b"\xfe\xff", UTF_32_LE, UTF_32_BE];

/// Size of one read.
const PIECE: usize = 1 << 16;

/// How the characters of a file are encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Encoding {
    /// Any bytes, kept as they are.
    Bytes,
    /// ISO 8859-1: every byte is the character with its number. The standard's table of this name is windows-1252.
    Latin1,
    Of(&'static Table),
}

/// Names of [`Encoding::Latin1`].
const LATIN_1: [&str; 11] = [
    "latin-1",
    "latin1",
    "l1",
    "iso-8859-1",
    "iso8859-1",
    "iso88591",
    "iso_8859-1",
    "iso_8859-1:1987",
    "csisolatin1",
    "cp819",
    "ibm819",
];

/// Whether the table is one of Windows that the standard also uses for an encoding of ISO 8859.
fn is_of_windows(table: &'static Table) -> bool {
    [WINDOWS_1252, WINDOWS_1254, WINDOWS_874].contains(&table)
}

/// Whether a name of such a table is that of Windows. The Thai TIS-620 has no control characters that could differ.
fn is_name_of_windows(name: &str) -> bool {
    ["windows-", "cp", "x-cp", "dos-", "tis-"].iter().any(|begin| name.starts_with(begin))
}

impl Encoding {
    pub(crate) const UTF_8: Encoding = Encoding::Of(UTF_8);

    /// The encoding with this name.
    pub(crate) fn named(name: &str) -> Result<Self, String> {
        match name.to_ascii_lowercase().as_str() {
            "bytes" => Ok(Encoding::Bytes),
            name if LATIN_1.contains(&name) => Ok(Encoding::Latin1),
            "ascii" | "us-ascii" | "ansi_x3.4-1968" => Ok(Encoding::UTF_8),
            "utf-16" => {
                Err("pass utf-16le or utf-16be; a file with a byte order mark needs neither".to_owned())
            }
            other => match Table::for_label_no_replacement(other.as_bytes()) {
                // The standard's tables for these names have other characters in place of 32 control characters.
                Some(table) if is_of_windows(table) && !is_name_of_windows(other) => Err(format!(
                    "pass {}, which has the characters of {name}, and others in place of the control characters from 0x80 to 0x9f",
                    table.name().to_ascii_lowercase()
                )),
                Some(table) => Ok(Encoding::Of(table)),
                None => Err(format!(
                    "it must be bytes or the name of an encoding, such as windows-1252, latin-1, utf-16le, shift_jis or \
                     gb18030; for others use `iconv -f {name} -t UTF-8 FILE | esker import - --format FORMAT`"
                )),
            },
        }
    }

    fn name(self) -> String {
        match self {
            Encoding::Bytes => "bytes".to_owned(),
            Encoding::Latin1 => "latin-1".to_owned(),
            Encoding::Of(table) => table.name().to_ascii_lowercase(),
        }
    }
}

/// The text of `from` as UTF-8, or as it is. `named` is the encoding that the user names.
///
/// # Errors
/// `InvalidData` if its encoding is unsupported, or is not the one that the user names.
pub(crate) fn decoded(
    mut from: impl Read + Send + 'static,
    named: Option<Encoding>,
) -> io::Result<Box<dyn Read + Send>> {
    if named == Some(Encoding::Bytes) {
        return Ok(Box::new(from));
    }
    let mut first = first_bytes(&mut from)?;
    if first.starts_with(UTF_32_LE) || first.starts_with(UTF_32_BE) {
        return Err(invalid(
            "this is UTF-32, which esker does not read: `iconv -f UTF-32 -t UTF-8 FILE` makes it UTF-8"
                .to_owned(),
        ));
    }
    let (found, mark) = Table::for_bom(&first).map_or((None, 0), |(table, mark)| (Some(table), mark));
    // In a file of single bytes a mark would be odd letters (`ï»¿`).
    if let (Some(named), Some(found)) = (named, found)
        && named != Encoding::Of(found)
    {
        return Err(invalid(format!(
            "it begins with the byte order mark of {}, and --encoding says {}",
            Encoding::Of(found).name(),
            named.name()
        )));
    }
    first.drain(..mark);
    let whole = Cursor::new(first).chain(from);
    match named.or(found.map(Encoding::Of)).filter(|encoding| *encoding != Encoding::UTF_8) {
        None => Ok(Box::new(whole)),
        Some(encoding) => Ok(Box::new(Decoder::new(whole, encoding, mark))),
    }
}

/// `from`, which fails where it is not UTF-8.
pub(crate) fn checked(from: impl Read) -> impl Read {
    Decoder::new(from, Encoding::UTF_8, 0)
}

/// Whether an input that begins with `first` would not be taken for plain text.
pub(crate) fn is_marked(first: &[u8]) -> bool {
    MARKS.iter().any(|mark| first.starts_with(mark))
}

/// As many first bytes as are needed to recognize a mark, so that it does not wait for a line.
fn first_bytes(from: &mut impl Read) -> io::Result<Vec<u8>> {
    let may_be = |first: &[u8]| MARKS.iter().any(|mark| first.len() < mark.len() && mark.starts_with(first));
    first_bytes_while(from, may_be)
}

/// The encoding, if `first`, which may end within a character, looks like text in UTF-16 or UTF-32 without a mark: it has a zero
/// byte, and read so it has no control characters but those between lines and fields. For UTF-16, three of four characters
/// also have to be below U+2200: ASCII text with zero bytes would need a control character in most pairs of bytes to look so.
/// Chinese, Japanese and Korean text is hardly ever valid UTF-8.
pub(crate) fn unmarked_wide(first: &[u8]) -> Option<&'static str> {
    let is_text = |one: char| !one.is_control() || matches!(one, '\t' | '\n' | '\r');
    let (fours, pairs) = (first.as_chunks::<4>().0, first.as_chunks::<2>().0);
    let is_utf_32 = |number: fn([u8; 4]) -> u32| {
        fours.iter().all(|four| char::from_u32(number(*four)).is_some_and(is_text))
    };
    let is_utf_16 = |number: fn([u8; 2]) -> u16| {
        let units = || pairs.iter().map(|pair| number(*pair));
        let narrow = units().filter(|unit| *unit < 0x2200).count();
        // The last character may be cut.
        let cut = units().next_back().filter(|unit| (0xd800..0xdc00).contains(unit)).map_or(0, |_| 1);
        narrow * 4 >= pairs.len() * 3
            && char::decode_utf16(units().take(pairs.len() - cut)).all(|one| one.is_ok_and(is_text))
    };
    if !first.contains(&0) || pairs.len() < 2 {
        None
    } else if is_utf_32(u32::from_le_bytes) {
        Some("utf-32le")
    } else if is_utf_32(u32::from_be_bytes) {
        Some("utf-32be")
    } else if is_utf_16(u16::from_le_bytes) {
        Some("utf-16le")
    } else if is_utf_16(u16::from_be_bytes) {
        Some("utf-16be")
    } else {
        None
    }
}

/// How to name the encoding of text that is not UTF-8.
pub(crate) const HOW_TO_NAME: &str =
    "--encoding windows-1252 (or shift_jis, gb18030, ...) says how the text is encoded";

/// Reads UTF-8 from another encoding.
struct Decoder<R> {
    from: R,
    encoding: Encoding,
    /// Holds the beginning of a character between reads. Unused for Latin-1.
    decoder: encoding_rs::Decoder,
    /// Bytes of the input; those from `next` to `filled` are not decoded yet.
    piece: Vec<u8>,
    next: usize,
    filled: usize,
    /// How many bytes of the input were decoded.
    at: u64,
    is_last: bool,
    out: Vec<u8>,
    /// How many bytes of `out` are text.
    written: usize,
    /// How many of them were returned.
    taken: usize,
    /// How the text ends after `out`, once that is known.
    end: Option<io::Result<()>>,
}

impl<R: Read> Decoder<R> {
    /// `skipped` bytes came before `from`.
    fn new(from: R, encoding: Encoding, skipped: usize) -> Self {
        let table = if let Encoding::Of(table) = encoding { table } else { UTF_8 };
        Decoder {
            from,
            encoding,
            decoder: table.new_decoder_without_bom_handling(),
            piece: Vec::new(),
            next: 0,
            filled: 0,
            at: skipped as u64,
            is_last: false,
            out: Vec::new(),
            written: 0,
            taken: 0,
            end: None,
        }
    }

    fn fill(&mut self) -> io::Result<()> {
        self.piece.resize(PIECE, 0);
        let read = self.from.read(&mut self.piece)?;
        (self.next, self.filled) = (0, read);
        self.is_last = read == 0;
        Ok(())
    }

    /// Decodes a part of `piece` into `out`.
    fn decode(&mut self) {
        let piece = &self.piece[self.next..self.filled];
        self.taken = 0;
        if self.encoding == Encoding::Latin1 {
            self.out.clear();
            for byte in piece {
                self.out.extend_from_slice(char::from(*byte).encode_utf8(&mut [0; 4]).as_bytes());
            }
            (self.next, self.written) = (self.filled, self.out.len());
            self.end = self.is_last.then_some(Ok(()));
            return;
        }
        // A character in UTF-8 takes at most four bytes.
        self.out.resize(PIECE + 4, 0);
        let (result, read, written) =
            self.decoder.decode_to_utf8_without_replacement(piece, &mut self.out, self.is_last);
        self.written = written;
        let start = self.at;
        self.next += read;
        self.at += read as u64;
        match result {
            DecoderResult::OutputFull => {}
            DecoderResult::InputEmpty => self.end = self.is_last.then_some(Ok(())),
            DecoderResult::Malformed(len, after) => {
                let at = self.at - u64::from(len) - u64::from(after);
                self.end = Some(Err(self.wrong(at)));
            }
        }
        // Bytes to which windows-1252 and the like give no character.
        if let Encoding::Of(table) = self.encoding
            && table.is_single_byte()
            && table.name().starts_with("windows-")
            && let Some(unknown) =
                self.out[..written].windows(2).position(|two| matches!(two, [0xc2, 0x80..=0x9f]))
        {
            let before = self.out[..unknown].iter().filter(|byte| !matches!(byte, 0x80..=0xbf)).count();
            self.written = unknown;
            self.end = Some(Err(self.wrong(start + before as u64)));
        }
    }

    fn wrong(&self, at: u64) -> io::Error {
        let hint = if self.encoding == Encoding::UTF_8 { format!(": {HOW_TO_NAME}") } else { String::new() };
        invalid(format!("byte {at} of the text is not {}{hint}", self.encoding.name()))
    }
}

impl<R: Read> Read for Decoder<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.taken == self.written {
            if let Some(end) = &mut self.end {
                return std::mem::replace(end, Ok(())).map(|()| 0);
            }
            if self.next == self.filled && !self.is_last {
                self.fill()?;
            }
            self.decode();
        }
        let count = buffer.len().min(self.written - self.taken);
        buffer[..count].copy_from_slice(&self.out[self.taken..self.taken + count]);
        self.taken += count;
        Ok(count)
    }
}

fn invalid(message: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns one byte at a time, so that characters are cut everywhere.
    struct Slowly(Cursor<Vec<u8>>);

    impl Read for Slowly {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let len = buffer.len().min(1);
            self.0.read(&mut buffer[..len])
        }
    }

    fn read(bytes: &[u8], named: Option<&str>) -> Result<Vec<u8>, String> {
        let named = named.map(|name| Encoding::named(name).unwrap());
        let all = |from: Box<dyn Read + Send>| {
            let mut out = Vec::new();
            decoded(from, named)
                .and_then(|mut text| text.read_to_end(&mut out))
                .map_err(|error| error.to_string())?;
            Ok(out)
        };
        let whole = all(Box::new(Cursor::new(bytes.to_vec())));
        assert_eq!(all(Box::new(Slowly(Cursor::new(bytes.to_vec())))), whole);
        whole
    }

    fn utf_16(text: &str, unit: fn(u16) -> [u8; 2]) -> Vec<u8> {
        text.encode_utf16().flat_map(unit).collect()
    }

    #[test]
    fn marks_are_read_and_not_kept() {
        let text = "key,valüe\r\na,🦀\n".repeat(6_000);
        let marked = format!("\u{feff}{text}");
        for bytes in [
            text.clone().into_bytes(),
            marked.clone().into_bytes(),
            utf_16(&marked, u16::to_le_bytes),
            utf_16(&marked, u16::to_be_bytes),
        ] {
            assert_eq!(read(&bytes, None), Ok(text.clone().into_bytes()));
        }
        assert_eq!(read(&utf_16(&text, u16::to_le_bytes), Some("utf-16le")), Ok(text.clone().into_bytes()));
        assert_eq!(read(&utf_16(&text, u16::to_be_bytes), Some("UTF-16BE")), Ok(text.into_bytes()));
        // Only one mark is a mark, and only at the beginning.
        assert_eq!(read("\u{feff}\u{feff}a\u{feff}".as_bytes(), None), Ok("\u{feff}a\u{feff}".into()));
        for plain in [&b""[..], b"\xef", b"\xef\xbb", b"\xff", b"\xfe", b"\0", b"\0\0\xfe", b"a\xff"] {
            assert_eq!(read(plain, None), Ok(plain.to_vec()));
            assert_eq!(read(plain, Some("bytes")), Ok(plain.to_vec()));
        }
        let marked = "\u{feff}a".as_bytes();
        assert_eq!(read(marked, Some("bytes")), Ok(marked.to_vec()));
    }

    #[test]
    fn encodings_have_the_names_that_people_use() {
        let latin: Vec<u8> = (0..=255).collect();
        let text: String = (0..=255_u8).map(char::from).collect();
        for name in ["Latin1", "ISO-8859-1", "iso8859-1", "L1", "cp819"].into_iter().chain(LATIN_1) {
            assert_eq!(read(&latin, Some(name)), Ok(text.clone().into_bytes()));
        }
        for (name, bytes, text) in [
            ("windows-1252", &b"\x80\x93\xe9"[..], "€“é"),
            ("cp1252", b"\x80", "€"),
            ("windows-1251", b"\xcf\xf0\xe8", "При"),
            ("koi8-r", b"\xf0\xd2\xc9", "При"),
            ("shift_jis", b"\x83J\x83\x93", "カン"),
            ("euc-jp", b"\xa5\xab", "カ"),
            ("gbk", b"\xd6\xd0", "中"),
            ("gb18030", b"\xd6\xd0\x81\x30\x81\x30", "中\u{80}"),
            ("big5", b"\xa4\xa4", "中"),
            ("euc-kr", b"\xb0\xa1", "가"),
            ("iso-8859-15", b"\xa4", "€"),
            ("macintosh", b"\x8e", "é"),
            ("utf8", b"\xc3\xa9", "é"),
            ("ascii", b"a", "a"),
        ] {
            assert_eq!(read(bytes, Some(name)), Ok(text.into()), "{name}");
        }
        for name in ["utf-16", "utf-32", "cp437", "iso-2022-kr", "", "x"] {
            assert!(Encoding::named(name).is_err(), "{name}");
        }
    }

    #[test]
    fn what_is_not_in_its_encoding_is_refused_with_its_place() {
        let long = |end: &[u8]| [&b"a"[..].repeat(3 * PIECE), end].concat();
        let at = format!("byte {} ", 3 * PIECE + 1);
        for (bytes, name, said) in [
            (b"\xff\xfea\0b".to_vec(), None, "byte 4 "),
            (b"\xff\xfea\0\0\xd8".to_vec(), None, "byte 4 "),
            (b"\xff\xfe\0\xdca\0".to_vec(), None, "byte 2 "),
            (b"\xff\xfe\0\0a\0\0\0".to_vec(), None, "UTF-32"),
            (b"\0\0\xfe\xff\0\0\0a".to_vec(), None, "UTF-32"),
            (b"ab\x81".to_vec(), Some("windows-1252"), "byte 2 "),
            (b"\xe9\xe9\x8fab".to_vec(), Some("windows-1252"), "byte 2 "),
            (long(b"b\x81"), Some("windows-1252"), &at),
            (long(b"b\x81"), Some("shift_jis"), &at),
            (b"a\xc3".to_vec(), Some("gbk"), "byte 1 "),
            (b"\xff\xfea\0".to_vec(), Some("utf-8"), "utf-16le"),
            (b"\xef\xbb\xbfa".to_vec(), Some("latin-1"), "utf-8"),
        ] {
            let error = read(&bytes, name).unwrap_err();
            assert!(error.contains(said), "{said} {name:?}: {error}");
        }
        for text in ["a,b", "key,value\r\nä,ö\r\n", "аб,вг", "ключ\tзначение\n", "k,€", "key,one crab: 🦀\n"]
        {
            for (name, bytes) in [
                ("utf-16le", utf_16(text, u16::to_le_bytes)),
                ("utf-16be", utf_16(text, u16::to_be_bytes)),
                ("utf-32le", text.chars().flat_map(|one| u32::from(one).to_le_bytes()).collect()),
                ("utf-32be", text.chars().flat_map(|one| u32::from(one).to_be_bytes()).collect()),
            ] {
                assert_eq!(unmarked_wide(&bytes), Some(name), "{text}");
                // Within a line or a character.
                assert_eq!(unmarked_wide(&bytes[..bytes.len() - 1]), Some(name), "{text}");
            }
            assert_eq!(unmarked_wide(text.as_bytes()), None);
        }
        for text in [
            &b"a,b\0\n"[..],
            b"ab,c\0\n",
            b"a\0",
            b"\0\0\0\0",
            b"k,\0\x01\0\x02\n",
            b"key\0,value\0\n",
            b"",
            b"\0",
        ] {
            assert_eq!(unmarked_wide(text), None, "{text:?}");
        }
    }

    /// What comes before an invalid byte is read first.
    #[test]
    fn the_text_before_the_error_is_returned() {
        for (bytes, encoding) in
            [(&b"ab\n\x81c"[..], "windows-1252"), (b"ab\n\xff", "gbk"), (b"ab\n\xff", "utf-8")]
        {
            let mut text = Decoder::new(Cursor::new(bytes), Encoding::named(encoding).unwrap(), 0);
            let mut out = Vec::new();
            let error = text.read_to_end(&mut out).unwrap_err();
            assert_eq!(
                (out.as_slice(), error.to_string().contains("byte 3 ")),
                (&b"ab\n"[..], true),
                "{encoding}"
            );
        }
    }
}
