//! TSV: one row per line, tabs between fields, and escapes for tabs and line ends in fields.

use std::borrow::Cow;

use super::fields::Fields;
use crate::escapes;

/// Parses a line without its end.
pub(crate) fn parse(line: &[u8], fields: &mut Fields) -> Result<(), Cow<'static, str>> {
    parse_by(b'\t', line, fields)
}

/// The same, with another separator of fields.
pub(crate) fn parse_by(separator: u8, line: &[u8], fields: &mut Fields) -> Result<(), Cow<'static, str>> {
    fields.clear();
    fields.bytes.clear();
    fields.ends.clear();
    let has_escapes = memchr::memchr(b'\\', line).is_some();
    let mut from = 0;
    for to in memchr::memchr_iter(separator, line).chain([line.len()]) {
        let field = &line[from..to];
        if has_escapes {
            escapes::decode(field, &mut fields.bytes).map_err(|error| error.to_string())?;
        } else {
            fields.bytes.extend_from_slice(field);
        }
        fields.ends.push(fields.bytes.len());
        from = to + 1;
    }
    fields.count = fields.ends.len();
    Ok(())
}

/// Appends `field` with escapes, so that no byte of it counts as a tab or the end of a line.
pub(crate) fn append(out: &mut Vec<u8>, field: &[u8]) {
    escapes::append(out, field);
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
}
