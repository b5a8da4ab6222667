//! TSV: a row a line, tabs between fields, and escapes for what would be taken for either.

use std::borrow::Cow;

use super::fields::Fields;

/// Takes a line without its end apart.
pub(super) fn parse(line: &[u8], fields: &mut Fields) -> Result<(), Cow<'static, str>> {
    fields.clear();
    fields.bytes.clear();
    fields.ends.clear();
    for field in line.split(|byte| *byte == b'\t') {
        unescape(field, &mut fields.bytes)?;
        fields.ends.push(fields.bytes.len());
    }
    fields.count = fields.ends.len();
    Ok(())
}

fn unescape(mut field: &[u8], out: &mut Vec<u8>) -> Result<(), Cow<'static, str>> {
    while let Some(at) = memchr::memchr(b'\\', field) {
        out.extend_from_slice(&field[..at]);
        let (byte, taken) = match field.get(at + 1) {
            Some(b't') => (b'\t', 2),
            Some(b'n') => (b'\n', 2),
            Some(b'r') => (b'\r', 2),
            Some(b'\\') => (b'\\', 2),
            Some(b'x') => (hex(field.get(at + 2..at + 4))?, 4),
            Some(other) if other.is_ascii_graphic() => {
                let escape = char::from(*other);
                return Err(
                    format!("\\{escape} is none of \\t \\n \\r \\\\ \\xNN (a backslash is \\\\)").into()
                );
            }
            _ => return Err("a backslash is followed by none of t n r \\ xNN (a backslash is \\\\)".into()),
        };
        out.push(byte);
        field = &field[at + taken..];
    }
    out.extend_from_slice(field);
    Ok(())
}

fn hex(digits: Option<&[u8]>) -> Result<u8, Cow<'static, str>> {
    let digit = |byte: u8| char::from(byte).to_digit(16);
    match digits {
        Some(&[high, low]) => match (digit(high), digit(low)) {
            (Some(high), Some(low)) => Ok((high << 4 | low) as u8),
            _ => Err("\\x is not followed by two hex digits".into()),
        },
        _ => Err("\\x is not followed by two hex digits".into()),
    }
}

/// Appends `field`: UTF-8 as it is but for tabs, line breaks, backslashes and control characters; any
/// other byte as `\xNN`.
pub(super) fn append(out: &mut Vec<u8>, field: &[u8]) {
    for chunk in field.utf8_chunks() {
        for byte in chunk.valid().bytes() {
            match byte {
                b'\t' => out.extend_from_slice(b"\\t"),
                b'\n' => out.extend_from_slice(b"\\n"),
                b'\r' => out.extend_from_slice(b"\\r"),
                b'\\' => out.extend_from_slice(b"\\\\"),
                0..b' ' | 0x7f => numbered(out, byte),
                _ => out.push(byte),
            }
        }
        chunk.invalid().iter().for_each(|byte| numbered(out, *byte));
    }
}

fn numbered(out: &mut Vec<u8>, byte: u8) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    out.extend([b'\\', b'x', DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(line: &[u8]) -> Result<Vec<Vec<u8>>, String> {
        let mut fields = Fields::default();
        parse(line, &mut fields)?;
        Ok(fields.iter().map(<[u8]>::to_vec).collect())
    }

    #[test]
    fn every_byte_comes_back() {
        let all: Vec<u8> = (0..=255).collect();
        let mut line = Vec::new();
        append(&mut line, &all);
        assert!(!line.iter().any(|byte| b"\t\n\r".contains(byte)));
        line.push(b'\t');
        append(&mut line, "ä\\".as_bytes());
        line.push(b'\t');
        assert_eq!(fields(&line), Ok(vec![all, "ä\\".into(), Vec::new()]));
        assert_eq!(fields(b"a \xff\\xFF"), Ok(vec![b"a \xff\xff".to_vec()]));
    }

    #[test]
    fn unknown_escapes_are_refused() {
        for line in ["\\", "a\\", "\\N", "C:\\dir", "\\x", "\\x4", "\\xg0", "\\x\t00", "\\é"] {
            assert!(fields(line.as_bytes()).is_err(), "{line}");
        }
    }
}
