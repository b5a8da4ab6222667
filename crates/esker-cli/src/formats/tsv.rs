//! TSV: one row per line, tabs between fields, and escapes for tabs and line ends in fields.
//!
//! Some programs write fields in quotes instead of escapes, as CSV has them. Where the two would be read differently, the
//! reader asks which one it is.

use std::borrow::Cow;

use super::fields::Fields;
use crate::escapes::{self, EscapeError};

/// Parses a line without its end.
pub(crate) fn parse(line: &[u8], fields: &mut Fields) -> Result<(), Cow<'static, str>> {
    parse_by(escapes::decode, b'\t', line, fields)
}

/// The same, with a separator of fields and the escapes of files of cells.
pub(crate) fn parse_cells(separator: u8, line: &[u8], fields: &mut Fields) -> Result<(), Cow<'static, str>> {
    parse_by(escapes::decode_hql, separator, line, fields)
}

fn parse_by(
    decode: impl Fn(&[u8], &mut Vec<u8>) -> Result<(), EscapeError>,
    separator: u8,
    line: &[u8],
    fields: &mut Fields,
) -> Result<(), Cow<'static, str>> {
    fields.clear();
    let has_escapes = memchr::memchr(b'\\', line).is_some();
    let mut from = 0;
    for to in memchr::memchr_iter(separator, line).chain([line.len()]) {
        let field = &line[from..to];
        if has_escapes {
            decode(field, &mut fields.bytes).map_err(|error| error.to_string())?;
        } else {
            fields.add(field);
        }
        fields.end_field();
        from = to + 1;
    }
    Ok(())
}

/// Appends `field` with escapes, so that no byte of it counts as a tab or the end of a line.
pub(crate) fn append(out: &mut Vec<u8>, field: &[u8]) {
    escapes::append(out, field);
}

/// The same; the field does not begin with a quote either.
pub(super) fn append_unquoted(out: &mut Vec<u8>, field: &[u8]) {
    match field {
        [b'"', rest @ ..] => {
            out.extend_from_slice(b"\\x22");
            append(out, rest);
        }
        _ => append(out, field),
    }
}

/// Whether the field is in quotes, and has quotes that are all written twice.
pub(crate) fn is_quoted(field: &[u8]) -> bool {
    let [b'"', inner @ .., b'"'] = field else { return false };
    let mut quotes =
        inner.chunk_by(|a, b| (*a == b'"') == (*b == b'"')).filter(|part| part.starts_with(b"\""));
    inner.contains(&b'"') && quotes.all(|part| part.len() % 2 == 0)
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
    fn what_looks_quoted_is_escaped() {
        let quoted = ["\"a \"\"b\"\" c\"", "\"\"\"\"", "\"\"\"a\"\"\""];
        let plain = ["", "\"", "\"\"", "\"a\"", "\"a\" b", "\"a \"b\" c\"", "a \"\"b\"\"", "\"\"\""];
        for field in quoted.into_iter().chain(plain) {
            assert_eq!(is_quoted(field.as_bytes()), quoted.contains(&field), "{field}");
            let mut line = Vec::new();
            append_unquoted(&mut line, field.as_bytes());
            assert!(!line.starts_with(b"\""), "{field}");
            assert_eq!(fields(&line), Ok(vec![field.into()]));
        }
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
}
