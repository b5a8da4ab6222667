//! Guesses the format of a value from its first bytes.

/// A longer value is not printed on a terminal.
pub(crate) const POUR_AT_MOST: u64 = 64 << 10;

/// How many first bytes [`Kind::of`] needs.
pub(crate) const FIRST_BYTES: u64 = 64;

/// A format: one word for a table, and some words for a person.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Kind {
    pub(crate) short: &'static str,
    long: &'static str,
}

const fn kind(short: &'static str, long: &'static str) -> Kind {
    Kind { short, long }
}

/// The first bytes of common formats.
const SIGNATURES: [(&[u8], Kind); 15] = [
    (b"\x89PNG\r\n\x1a\n", kind("png", "PNG image")),
    (b"\xff\xd8\xff", kind("jpeg", "JPEG image")),
    (b"GIF87a", kind("gif", "GIF image")),
    (b"GIF89a", kind("gif", "GIF image")),
    (b"%PDF-", kind("pdf", "PDF document")),
    (b"PK\x03\x04", kind("zip", "zip archive")),
    (b"\x1f\x8b", kind("gzip", "gzip data")),
    (b"\x28\xb5\x2f\xfd", kind("zstd", "zstd data")),
    (b"\xfd7zXZ\0", kind("xz", "xz data")),
    (b"BZh", kind("bzip2", "bzip2 data")),
    (b"\x7fELF", kind("elf", "ELF program")),
    (b"OggS", kind("ogg", "Ogg media")),
    (b"fLaC", kind("flac", "FLAC audio")),
    (b"ID3", kind("mp3", "MP3 audio")),
    (b"SQLite format 3\0", kind("sqlite", "SQLite database")),
];

/// The first bytes of Matroska and WebM. The name of the one or the other follows a little later.
const EBML: &[u8] = b"\x1aE\xdf\xa3";

impl Kind {
    /// The format of a value of `len` bytes that begins with `first`: all of it, or at least
    /// [`FIRST_BYTES`].
    pub(crate) fn of(first: &[u8], len: u64) -> Kind {
        if let Some(kind) = media(first) {
            return kind;
        }
        match SIGNATURES.iter().find(|(start, _)| first.starts_with(start)) {
            Some((_, kind)) => *kind,
            None if is_text(first, len) => kind("text", "text"),
            None => kind("data", "binary data"),
        }
    }
}

/// Media containers whose mark is not at the very beginning, or not entirely.
fn media(first: &[u8]) -> Option<Kind> {
    if first.get(4..8) == Some(b"ftyp") {
        return Some(match first.get(8..12) {
            Some(b"qt  ") => kind("mov", "QuickTime video"),
            Some(b"avif") => kind("avif", "AVIF image"),
            Some(b"heic" | b"heix" | b"mif1") => kind("heic", "HEIC image"),
            Some(b"M4A ") => kind("m4a", "MP4 audio"),
            _ => kind("mp4", "MP4 video"),
        });
    }
    if first.starts_with(EBML) {
        let webm = first.windows(4).any(|name| name == b"webm");
        return Some(if webm { kind("webm", "WebM video") } else { kind("mkv", "Matroska video") });
    }
    match (first.get(..4), first.get(8..12)) {
        (Some(b"RIFF"), Some(b"WEBP")) => Some(kind("webp", "WebP image")),
        (Some(b"RIFF"), Some(b"WAVE")) => Some(kind("wav", "WAV audio")),
        (Some(b"RIFF"), Some(b"AVI ")) => Some(kind("avi", "AVI video")),
        _ => None,
    }
}

/// Why a value of `len` bytes should not be printed on a terminal: its size and format. `None` if it may be. `first` is
/// the whole value, or its first [`POUR_AT_MOST`] bytes.
pub(crate) fn unprintable(first: &[u8], len: u64) -> Option<String> {
    if is_text(first, len) && len <= POUR_AT_MOST {
        return None;
    }
    Some(format!("{len} bytes of {}", Kind::of(first, len).long))
}

/// Whether the first bytes of a value of `len` bytes are text. The last character may be incomplete.
fn is_text(first: &[u8], len: u64) -> bool {
    let control = |byte: &u8| (*byte < b' ' && !b"\t\n\r".contains(byte)) || *byte == 0x7f;
    let cut = |error: std::str::Utf8Error| error.error_len().is_none() && (first.len() as u64) < len;
    !first.iter().any(control) && std::str::from_utf8(first).map_or_else(cut, |_| true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_printed_and_the_rest_described() {
        let described = |value: &[u8]| unprintable(value, value.len() as u64);
        assert_eq!(described(b""), None);
        assert_eq!(described("zwei\tWörter\n".as_bytes()), None);
        assert_eq!(described(b"\x1b[31m").as_deref(), Some("5 bytes of binary data"));
        assert_eq!(described(b"\xff\xd8\xff\xe0").as_deref(), Some("4 bytes of JPEG image"));
        assert_eq!(described(b"\0\0\0\x18ftypmp42").as_deref(), Some("12 bytes of MP4 video"));
        let long = unprintable(&[b'x'; POUR_AT_MOST as usize], POUR_AT_MOST + 1);
        assert_eq!(long.as_deref(), Some("65537 bytes of text"));
    }

    #[test]
    fn types_are_guessed_from_the_first_bytes() {
        let short = |first: &[u8]| Kind::of(first, 1 << 30).short;
        assert_eq!(short(b"\x89PNG\r\n\x1a\n\0\0"), "png");
        assert_eq!(short(b"RIFF\0\0\0\0WEBPVP8 "), "webp");
        assert_eq!(short(b"\0\0\0\x14ftypqt  "), "mov");
        assert_eq!(short(b"\0\0\0\x20ftypisom"), "mp4");
        assert_eq!(short(b"\x1aE\xdf\xa3\x9fB\x86\x81\x01B\x82\x84webm"), "webm");
        assert_eq!(short(b"\x1aE\xdf\xa3\x9fB\x86\x81\x01B\x82\x88matroska"), "mkv");
        assert_eq!(short(b"plain"), "text");
        assert_eq!(short(b"\0plain"), "data");
    }

    #[test]
    fn a_character_may_be_cut_only_where_more_follows() {
        let cut = "ö".as_bytes().split_last().map(|(_, start)| start).unwrap_or_default();
        assert_eq!(Kind::of(cut, 2).short, "text");
        assert_eq!(Kind::of(cut, 1).short, "data");
    }
}
