//! What a value seems to be, for a person at a terminal.

/// A value longer than this is not poured out on a terminal.
const POUR_AT_MOST: usize = 64 << 10;

/// First bytes by which common formats are known.
const SIGNATURES: [(&[u8], &str); 14] = [
    (b"\x89PNG\r\n\x1a\n", "PNG image"),
    (b"\xff\xd8\xff", "JPEG image"),
    (b"GIF8", "GIF image"),
    (b"%PDF-", "PDF document"),
    (b"PK\x03\x04", "zip archive"),
    (b"\x1f\x8b", "gzip data"),
    (b"\x28\xb5\x2f\xfd", "zstd data"),
    (b"\xfd7zXZ\0", "xz data"),
    (b"BZh", "bzip2 data"),
    (b"\x7fELF", "ELF program"),
    (b"OggS", "Ogg media"),
    (b"ID3", "MP3 audio"),
    (b"\x1aE\xdf\xa3", "Matroska or WebM video"),
    (b"SQLite format 3\0", "SQLite database"),
];

/// Why `value` should not be poured out on a terminal: its size and type. `None` where it may be.
pub(crate) fn unprintable(value: &[u8]) -> Option<String> {
    let text = is_text(value);
    if text && value.len() <= POUR_AT_MOST {
        return None;
    }
    let kind = if text { "text" } else { signature(value).unwrap_or("binary data") };
    Some(format!("{} bytes of {kind}", value.len()))
}

fn is_text(value: &[u8]) -> bool {
    let control = |byte: &u8| (*byte < b' ' && !b"\t\n\r".contains(byte)) || *byte == 0x7f;
    !value.iter().any(control) && std::str::from_utf8(value).is_ok()
}

fn signature(value: &[u8]) -> Option<&'static str> {
    if value.get(4..8) == Some(b"ftyp") {
        return Some("MP4 video");
    }
    match (value.get(..4), value.get(8..12)) {
        (Some(b"RIFF"), Some(b"WEBP")) => return Some("WebP image"),
        (Some(b"RIFF"), Some(b"WAVE")) => return Some("WAV audio"),
        _ => {}
    }
    SIGNATURES.iter().find(|(first, _)| value.starts_with(first)).map(|(_, kind)| *kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_printed_and_the_rest_described() {
        assert_eq!(unprintable(b""), None);
        assert_eq!(unprintable("zwei\tWörter\n".as_bytes()), None);
        assert_eq!(unprintable(b"\x1b[31m").as_deref(), Some("5 bytes of binary data"));
        assert_eq!(unprintable(b"\xff\xd8\xff\xe0").as_deref(), Some("4 bytes of JPEG image"));
        assert_eq!(unprintable(b"\0\0\0\x18ftypmp42").as_deref(), Some("12 bytes of MP4 video"));
        let long = vec![b'x'; POUR_AT_MOST + 1];
        assert_eq!(unprintable(&long).as_deref(), Some("65537 bytes of text"));
    }
}
