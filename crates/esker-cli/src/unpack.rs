//! Input that may be compressed. gzip and zstd are unpacked while they are read, in bounded memory, whatever the input
//! holds. Other formats are named and refused. The first bytes tell the format, and the name must not contradict them.

use std::ffi::OsStr;
use std::io::{self, BufRead, BufReader, Cursor, Read};
use std::path::{Path, PathBuf};

use flate2::bufread::GzDecoder;

const GZIP: &[u8] = b"\x1f\x8b";
const ZSTD: &[u8] = b"\x28\xb5\x2f\xfd";
/// The rest of the number of a zstd frame to skip, with which some tools begin. Its first byte is 0x50 to 0x5f.
const ZSTD_SKIPPED: &[u8] = b"\x2a\x4d\x18";

/// First bytes of refused formats, each with its name and the tool that unpacks it. No row begins with them.
const REFUSED: [(&[u8], &str, &str); 11] = [
    (b"\xfd7zXZ\0", "xz", "xz -dc"),
    (b"BZh91AY&SY", "bzip2", "bzip2 -dc"),
    (b"PK\x03\x04", "zip", "unzip -p"),
    (b"PK\x05\x06", "zip", "unzip -p"),
    (b"\x04\x22\x4d\x18", "lz4", "lz4 -dc"),
    (b"7z\xbc\xaf\x27\x1c", "7-Zip", "7z x -so"),
    (b"LZIP\x01", "lzip", "lzip -dc"),
    (b"\x1f\x9d", "compress", "uncompress -c"),
    (b"\x02\x21\x4c\x18", "lz4", "lz4 -dc"),
    (b"\xff\x06\0\0sNaPpY", "snappy", "snzip -dc"),
    (b"\x89LZO\0\r\n\x1a\n", "lzop", "lzop -dc"),
];

/// First bytes of files that hold something other than text, each with what it is and how it becomes rows.
const OTHERS: [(&[u8], &str, &str); 10] = [
    (b"SQLite format 3\0", "a SQLite database", "`sqlite3 -json FILE 'SELECT ...'` prints rows as JSON"),
    (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "an Excel or Word file of the old format", "save it as CSV"),
    (b"PAR1", "a Parquet file", "convert it to CSV or JSON Lines first"),
    (b"ARROW1\0\0", "an Arrow file", "convert it to CSV or JSON Lines first"),
    (b"FEA1", "a Feather file", "convert it to CSV or JSON Lines first"),
    (b"Obj\x01", "an Avro file", "convert it to JSON Lines first"),
    (b"\x89HDF\r\n\x1a\n", "an HDF5 file", "convert it to CSV or JSON Lines first"),
    (b"%PDF-", "a PDF document", "`esker put KEY --file FILE` stores it as one value"),
    (b"\x89PNG\r\n\x1a\n", "a PNG image", "`esker put KEY --file FILE` stores it as one value"),
    (b"\x7fELF", "a program", "`esker put KEY --file FILE` stores it as one value"),
];

/// Where a tar archive says that it is one.
const TAR_AT: usize = 257;

/// Whether an input that begins with `first` is compressed, in a format that this program unpacks or refuses.
pub(crate) fn is_special(first: &[u8]) -> bool {
    first.starts_with(GZIP) || is_zstd(first) || REFUSED.iter().any(|(magic, ..)| first.starts_with(magic))
}

/// What an unpacked file is that begins with `first`, if it cannot be rows: a sentence.
pub(crate) fn what_it_is(first: &[u8]) -> Option<String> {
    if is_special(first) {
        return Some("it is compressed twice; unpack it first".to_owned());
    }
    if first.get(TAR_AT..).is_some_and(|rest| rest.starts_with(b"ustar")) {
        return Some(
            "it is a tar archive; use `tar -xOf ARCHIVE FILE | esker import - --format FORMAT`".to_owned(),
        );
    }
    let other = OTHERS.iter().find(|(magic, ..)| first.starts_with(magic));
    other.map(|(_, what, advice)| format!("it is {what}; {advice}"))
}

/// Name endings of compressed formats that this program does not know, each with the tool that packs it.
const OTHER_NAMES: [(&str, &str); 11] = [
    ("xz", "xz"),
    ("bz2", "bzip2"),
    ("lz4", "lz4"),
    ("lz", "lzip"),
    ("zip", "zip"),
    ("7z", "7z a -si"),
    ("z", "compress"),
    ("br", "brotli"),
    ("lzma", "lzma"),
    ("lzo", "lzop"),
    ("sz", "snzip"),
];

/// The tool that packs in the format of the name `path`, if that is neither gzip nor zstd.
pub(crate) fn other_packer(path: &Path) -> Option<&'static str> {
    let extension = path.extension()?.to_ascii_lowercase();
    OTHER_NAMES.into_iter().find(|(ending, _)| extension == *ending).map(|(_, packer)| packer)
}

/// The length of the longest of these first bytes.
const FIRST_MAX: usize = 10;
/// How many bytes a decoder takes at once.
const PIECE: usize = 1 << 16;

/// The name without an ending for a compression, and that compression.
pub(crate) fn plain_name(path: &Path) -> (PathBuf, Option<Packed>) {
    match Packed::named(path) {
        Some(packed) => (path.with_extension(""), Some(packed)),
        None => (path.to_path_buf(), None),
    }
}

/// A format that this program unpacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Packed {
    Gzip,
    Zstd,
}

impl Packed {
    /// The format of a file with this name.
    pub(crate) fn named(path: &Path) -> Option<Self> {
        let extension = path.extension().map(OsStr::to_ascii_lowercase)?;
        match extension.as_encoded_bytes() {
            b"gz" | b"gzip" => Some(Packed::Gzip),
            b"zst" | b"zstd" => Some(Packed::Zstd),
            _ => None,
        }
    }

    /// The name of the format, and of its tool.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Packed::Gzip => "gzip",
            Packed::Zstd => "zstd",
        }
    }
}

/// The unpacked contents of `from`. `named` is the format by its name.
///
/// # Errors
/// `InvalidData` if it is compressed in another format.
pub(crate) fn unpacked(
    mut from: impl Read + Send + 'static,
    named: Option<Packed>,
) -> io::Result<Box<dyn Read + Send>> {
    let first = first_bytes(&mut from)?;
    let found = if first.starts_with(GZIP) {
        Some(Packed::Gzip)
    } else if is_zstd(&first) {
        Some(Packed::Zstd)
    } else {
        None
    };
    let invalid = |message: String| Err(io::Error::new(io::ErrorKind::InvalidData, message));
    if let Some((_, name, tool)) = REFUSED.iter().find(|(magic, ..)| first.starts_with(magic)) {
        let spreadsheet = if *name == "zip" { ", or save a spreadsheet as CSV" } else { "" };
        return invalid(format!(
            "this is compressed ({name}), and esker unpacks only gzip and zstd: use `{tool} FILE | esker \
             import - --format FORMAT`{spreadsheet}"
        ));
    }
    if let Some(named) = named.filter(|named| found != Some(*named)) {
        return invalid(format!("its name says {}, but its first bytes do not", named.name()));
    }
    let whole = Cursor::new(first).chain(from);
    Ok(match found {
        None => Box::new(whole),
        Some(Packed::Gzip) => Box::new(Gzip::new(BufReader::with_capacity(PIECE, whole))),
        Some(Packed::Zstd) => Box::new(zstd::Decoder::with_buffer(BufReader::with_capacity(PIECE, whole))?),
    })
}

/// The members of a gzip file, one after the other. Zeros after the last one fill up a block of a tape: gzip ignores them.
struct Gzip<R> {
    /// The member that is read; `None` after the last one.
    member: Option<GzDecoder<R>>,
    /// Whether there were zeros after a member, so that no other one follows.
    is_padded: bool,
}

impl<R: BufRead> Gzip<R> {
    fn new(from: R) -> Self {
        Gzip { member: Some(GzDecoder::new(from)), is_padded: false }
    }
}

impl<R: BufRead> Read for Gzip<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while let Some(member) = &mut self.member {
            let count = member.read(buffer)?;
            if count > 0 || buffer.is_empty() {
                return Ok(count);
            }
            let rest = member.get_mut();
            self.member = match rest.fill_buf()? {
                [] => None,
                bytes @ [0, ..] => {
                    let zeros = bytes.iter().take_while(|byte| **byte == 0).count();
                    self.is_padded = true;
                    rest.consume(zeros);
                    continue;
                }
                [first, ..] if *first == GZIP[0] && !self.is_padded => {
                    self.member.take().map(|member| GzDecoder::new(member.into_inner()))
                }
                _ => {
                    let message =
                        "other bytes follow the end of the gzip data; `gzip -dc FILE` leaves them out";
                    return Err(io::Error::new(io::ErrorKind::InvalidData, message));
                }
            };
        }
        Ok(0)
    }
}

/// Whether `from` begins as what [`unpacked`] unpacks.
pub(crate) fn is_packed(from: &mut impl Read) -> io::Result<bool> {
    let first = first_bytes(from)?;
    Ok(first.starts_with(GZIP) || is_zstd(&first))
}

fn is_zstd(first: &[u8]) -> bool {
    let is_skipped = matches!(first, [0x50..=0x5f, rest @ ..] if rest.starts_with(ZSTD_SKIPPED));
    first.starts_with(ZSTD) || is_skipped
}

/// As many first bytes as are needed to tell the format. One or two are enough for text, so this does not wait for a
/// line.
fn first_bytes(from: &mut impl Read) -> io::Result<Vec<u8>> {
    let may_be = |first: &[u8]| {
        let known = REFUSED.iter().map(|(magic, ..)| *magic).chain([GZIP, ZSTD]);
        let skipped = match first {
            [0x50..=0x5f, rest @ ..] => rest.len() < ZSTD_SKIPPED.len() && ZSTD_SKIPPED.starts_with(rest),
            _ => false,
        };
        skipped || known.into_iter().any(|magic| first.len() < magic.len() && magic.starts_with(first))
    };
    first_bytes_while(from, may_be)
}

/// The first bytes of `from`, read one by one as long as `goes_on` says of those read.
pub(crate) fn first_bytes_while(
    from: &mut impl Read,
    goes_on: impl Fn(&[u8]) -> bool,
) -> io::Result<Vec<u8>> {
    let mut first = Vec::with_capacity(FIRST_MAX);
    while goes_on(&first) {
        let mut byte = [0];
        match from.read(&mut byte) {
            Ok(0) => break,
            Ok(_) => first.extend(byte),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(first)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    fn read(bytes: Vec<u8>, named: Option<Packed>) -> io::Result<Vec<u8>> {
        let mut out = Vec::new();
        unpacked(Cursor::new(bytes), named)?.read_to_end(&mut out)?;
        Ok(out)
    }

    #[test]
    fn what_is_packed_is_unpacked_and_the_rest_left() {
        let text = b"a 1\nb 2\n".repeat(50_000);
        let zstd = |bytes: &[u8]| zstd::encode_all(bytes, 1).unwrap();
        for named in [None, Some(Packed::Gzip)] {
            assert_eq!(read(gzip(&text), named).unwrap(), text);
            assert_eq!(read([gzip(b"one "), gzip(b"two")].concat(), named).unwrap(), b"one two");
        }
        assert_eq!(
            read([zstd(&text), zstd(b"two")].concat(), Some(Packed::Zstd)).unwrap(),
            [&text, &b"two"[..]].concat()
        );
        for plain in [&b""[..], b"B", b"BZh", b"PK", b"PUT a 1\n", b"\xfd7", b"\x1f", b"key,value\n"] {
            assert_eq!(read(plain.to_vec(), None).unwrap(), plain);
        }
    }

    #[test]
    fn zeros_after_gzip_are_padding_and_anything_else_is_an_error() {
        let one = gzip(b"one ");
        let zeros = |count: usize| vec![0; count];
        for count in [1, 2, 511, 3 * PIECE] {
            assert_eq!(read([&one[..], &gzip(b"two"), &zeros(count)].concat(), None).unwrap(), b"one two");
        }
        let following: [&[u8]; 5] = [b"x", b"\x1f", b"\x1f\x8bx", b"\0\0x", &[&zeros(9)[..], &one].concat()];
        for bytes in following {
            assert!(read([&one[..], bytes].concat(), None).is_err(), "{bytes:?}");
        }
        assert!(
            read([&one[..], b"x"].concat(), None).unwrap_err().to_string().contains("other bytes follow")
        );
        // zstd itself refuses them.
        let zstd = zstd::encode_all(&b"one"[..], 1).unwrap();
        assert!(read([&zstd[..], &zeros(512)].concat(), None).is_err());
    }

    #[test]
    fn other_formats_and_wrong_names_are_refused() {
        for (magic, name, _) in REFUSED {
            let error = read([magic, b"xxxx"].concat(), None).unwrap_err();
            assert!(error.to_string().contains(name), "{error}");
        }
        for (bytes, named) in
            [(b"a 1\n".to_vec(), Packed::Gzip), (Vec::new(), Packed::Zstd), (gzip(b"x"), Packed::Zstd)]
        {
            assert_eq!(read(bytes, Some(named)).unwrap_err().kind(), io::ErrorKind::InvalidData);
        }
    }

    #[test]
    fn what_is_cut_off_or_damaged_is_an_error() {
        let text = b"a 1\nb 2\n".repeat(50_000);
        for packed in [gzip(&text), zstd::encode_all(&text[..], 1).unwrap()] {
            assert!(read(packed[..packed.len() - 3].to_vec(), None).is_err());
            let mut damaged = packed.clone();
            let middle = damaged.len() / 2;
            damaged[middle] ^= 0x55;
            assert!(read(damaged, None).map(|bytes| bytes != text).unwrap_or(true));
        }
    }

    #[test]
    fn names_say_what_is_packed() {
        let named = |path: &str| plain_name(Path::new(path));
        assert_eq!(named("a/x.csv.GZ"), ("a/x.csv".into(), Some(Packed::Gzip)));
        assert_eq!(named("x.jsonl.zst"), ("x.jsonl".into(), Some(Packed::Zstd)));
        assert_eq!(named("x.csv"), ("x.csv".into(), None));
        assert_eq!(named(".gz"), (".gz".into(), None));
    }
}
