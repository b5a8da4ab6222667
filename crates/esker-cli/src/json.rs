//! `--json`: one object per line, for any bytes.
//!
//! ```text
//! {"key":"a","value":"text"}
//! {"key":"b","value":"AP8=","encoding":"base64"}          the value is not UTF-8
//! {"key":"/w==","value":"x","key_encoding":"base64"}      the key is not UTF-8
//! {"key":42,"value":-1}                                   numbers are numbers
//! {"key":"00ff","value":""}                               what is typed in hex is printed so
//! {"key":"c","value":"","expires_us":1800000000000000}    the value expires then, in microseconds since 1970
//! ```

use std::borrow::Cow;
use std::io::Write;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use crate::datatype::{DataType, Types};
use crate::exit::Outcome;

/// What a key has: the value, and when it expires, in microseconds since 1970.
pub(crate) type Held<'a> = (&'a [u8], Option<u64>);

/// A key and a value as typed, and when it expires, in microseconds since 1970.
pub(crate) type Parsed = (Vec<u8>, Vec<u8>, Option<u64>);

/// Appends the object of one row and a line feed. `held` is `None` if only the key is requested.
pub(crate) fn row(out: &mut Vec<u8>, types: Types, key: &[u8], held: Option<Held<'_>>) -> Outcome {
    out.extend_from_slice(b"{\"key\":");
    let key_encoded = match types.keys {
        DataType::Text => text(out, key),
        keys => printed(out, keys, |out| keys.print(key, out))?,
    };
    if let Some((value, _)) = held {
        out.extend_from_slice(b",\"value\":");
        let encoded = match types.values {
            DataType::Text => text(out, value),
            values => printed(out, values, |out| values.print_value(value, out))?,
        };
        if encoded {
            out.extend_from_slice(b",\"encoding\":\"base64\"");
        }
    }
    if key_encoded {
        out.extend_from_slice(b",\"key_encoding\":\"base64\"");
    }
    if let Some((_, Some(us))) = held {
        // Writing to memory cannot fail.
        let _ = write!(out, ",\"expires_us\":{us}");
    }
    out.extend_from_slice(b"}\n");
    Ok(())
}

/// Appends the object of a requested key that is absent: its value is null.
pub(crate) fn absent(out: &mut Vec<u8>, keys: DataType, key: &[u8]) -> Outcome {
    about(out, keys, key, b",\"value\":null}\n")
}

/// Appends the object of a key with `fields` instead of its value. There is at least one field.
pub(crate) fn described(out: &mut Vec<u8>, keys: DataType, key: &[u8], fields: &Value) -> Outcome {
    let mut text = format!("{fields}\n").into_bytes();
    if let Some(brace) = text.first_mut() {
        *brace = b',';
    }
    about(out, keys, key, &text)
}

/// Appends the object of a key. `rest` is everything from the comma behind the key on.
fn about(out: &mut Vec<u8>, keys: DataType, key: &[u8], rest: &[u8]) -> Outcome {
    row(out, Types { keys, ..Types::TEXT }, key, None)?;
    out.truncate(out.len() - b"}\n".len());
    out.extend_from_slice(rest);
    Ok(())
}

/// Appends `object` and a line feed.
pub(crate) fn object(out: &mut Vec<u8>, object: &Value) {
    // Writing to memory cannot fail.
    let _ = writeln!(out, "{object}");
}

/// Appends what `print` prints for `data`: a number as it is, anything else as a string. Returns `false` if it is not
/// base64.
fn printed(out: &mut Vec<u8>, data: DataType, print: impl FnOnce(&mut Vec<u8>) -> Outcome) -> Outcome<bool> {
    let start = out.len();
    print(out)?;
    // JSON has no infinity and no NaN: they are strings.
    if !(data.is_number() && out.last().is_some_and(u8::is_ascii_digit)) {
        let printed = out.split_off(start);
        text(out, &printed);
    }
    Ok(false)
}

/// Appends `bytes` as a JSON string. Returns whether they had to become base64.
pub(crate) fn text(out: &mut Vec<u8>, bytes: &[u8]) -> bool {
    match std::str::from_utf8(bytes) {
        Ok(text) => {
            // Writing to memory cannot fail.
            let _ = serde_json::to_writer(&mut *out, text);
            false
        }
        Err(_) => {
            out.push(b'"');
            out.extend_from_slice(STANDARD.encode(bytes).as_bytes());
            out.push(b'"');
            true
        }
    }
}

/// Which fields of an object are the key, the value and the expiry.
#[derive(Clone, Debug)]
pub(crate) struct Fields {
    pub(crate) key: String,
    pub(crate) value: String,
    pub(crate) expires: String,
}

impl Default for Fields {
    /// The fields that [`row`] writes.
    fn default() -> Self {
        let [key, value, expires] = ["key", "value", "expires_us"].map(str::to_owned);
        Fields { key, value, expires }
    }
}

impl Fields {
    /// The key and the value, as typed, and the expiry of a line that [`row`] wrote, or of any object with these
    /// fields; or the reason why it has none. Only the fields that [`row`] writes can be marked as base64: the value by
    /// `encoding`, the key by `key_encoding`.
    pub(crate) fn parse(&self, line: &[u8]) -> Result<Parsed, Cow<'static, str>> {
        let object = serde_json::from_slice(line).map_err(|error| format!("not a JSON object: {error}"))?;
        self.of_object(&object)
    }

    /// The same for an object, or for an array with a key and a value.
    pub(crate) fn of(&self, row: &Value) -> Result<Parsed, Cow<'static, str>> {
        match row {
            Value::Object(object) => self.of_object(object),
            Value::Array(pair) => match pair.as_slice() {
                [key, value] => Ok((scalar("the key", key)?, scalar("the value", value)?, None)),
                _ => Err(format!("an array of length {} is not a pair of key and value", pair.len()).into()),
            },
            _ => Err("it is neither an object nor a pair of key and value".into()),
        }
    }

    fn of_object(&self, object: &serde_json::Map<String, Value>) -> Result<Parsed, Cow<'static, str>> {
        Ok((field(object, &self.key)?, field(object, &self.value)?, moment(object, &self.expires)?))
    }
}

/// The bytes of a string, or of a number as it is written.
fn scalar(what: &str, value: &Value) -> Result<Vec<u8>, Cow<'static, str>> {
    match value {
        Value::String(text) => Ok(text.clone().into_bytes()),
        Value::Number(number) => Ok(number.to_string().into_bytes()),
        _ => Err(format!("{what} is neither a string nor a number").into()),
    }
}

/// When the value expires, if it does.
fn moment(object: &serde_json::Map<String, Value>, name: &str) -> Result<Option<u64>, Cow<'static, str>> {
    match object.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(moment) => match moment.as_u64() {
            Some(us) => Ok(Some(us)),
            None => Err(format!("{name:?} is not a number of microseconds since 1970").into()),
        },
    }
}

/// The bytes of a field: those of a string, or a number as it is written.
fn field(object: &serde_json::Map<String, Value>, name: &str) -> Result<Vec<u8>, Cow<'static, str>> {
    let encoding = match name {
        "key" => object.get("key_encoding"),
        "value" => object.get("encoding"),
        _ => None,
    };
    let encoded = match encoding {
        None | Some(Value::Null) => false,
        Some(Value::String(name)) if name == "base64" => true,
        Some(other) => {
            return Err(format!("the encoding of {name:?} is {other}; only \"base64\" is known").into());
        }
    };
    match object.get(name) {
        Some(Value::String(text)) if encoded => {
            Ok(STANDARD.decode(text).map_err(|error| format!("{name:?} is not base64: {error}"))?)
        }
        Some(value) => scalar(&format!("{name:?}"), value),
        None => Err(format!("there is no field {name:?}").into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::datatype::Number;

    fn parse_row(line: &[u8], key: &str, value: &str, expires: &str) -> Result<Parsed, Cow<'static, str>> {
        let [key, value, expires] = [key, value, expires].map(str::to_owned);
        Fields { key, value, expires }.parse(line)
    }

    #[track_caller]
    fn line(keys: DataType, key: &[u8], value: &[u8]) -> String {
        let mut out = Vec::new();
        row(&mut out, Types { keys, ..Types::TEXT }, key, Some((value, None))).unwrap();
        let (typed, back, _) = parse_row(&out, "key", "value", "expires_us").unwrap();
        assert_eq!((keys.to_bytes(&typed).unwrap().as_slice(), back.as_slice()), (key, value));
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn rows_survive_any_bytes() {
        assert_eq!(line(DataType::Text, b"a", b"x\n\"\0"), "{\"key\":\"a\",\"value\":\"x\\n\\\"\\u0000\"}\n");
        assert_eq!(
            line(DataType::Text, b"b", &[0, 255]),
            "{\"key\":\"b\",\"value\":\"AP8=\",\"encoding\":\"base64\"}\n"
        );
        assert_eq!(
            line(DataType::Text, &[255], b""),
            "{\"key\":\"/w==\",\"value\":\"\",\"key_encoding\":\"base64\"}\n"
        );
        let key = esker::keys::u64(u64::MAX);
        assert_eq!(
            line(DataType::Number(Number::U64), &key, b"v"),
            "{\"key\":18446744073709551615,\"value\":\"v\"}\n"
        );
        assert_eq!(
            line(DataType::Number(Number::I32), &esker::keys::i32(-3), b"v"),
            "{\"key\":-3,\"value\":\"v\"}\n"
        );
        assert_eq!(line(DataType::Hex, &[0, 0xab], b"v"), "{\"key\":\"00ab\",\"value\":\"v\"}\n");
    }

    #[test]
    fn values_have_types_too() {
        let values = |values, value: &[u8]| {
            let mut out = Vec::new();
            row(&mut out, Types { values, ..Types::TEXT }, b"k", Some((value, None))).unwrap();
            String::from_utf8(out).unwrap()
        };
        assert_eq!(values(DataType::I64, &esker::keys::i64(-7)), "{\"key\":\"k\",\"value\":-7}\n");
        assert_eq!(values(DataType::Hex, &[0, 255]), "{\"key\":\"k\",\"value\":\"00ff\"}\n");
    }

    #[test]
    fn rows_say_when_they_expire() {
        let mut out = Vec::new();
        row(&mut out, Types::TEXT, b"k", Some((b"\xff", Some(u64::MAX)))).unwrap();
        let expected = br#"{"key":"k","value":"/w==","encoding":"base64","expires_us":18446744073709551615}"#;
        assert_eq!(out.trim_ascii_end(), expected);
        let moment = |line: &str, name| parse_row(line.as_bytes(), "key", "value", name).map(|row| row.2);
        assert_eq!(moment(r#"{"key":"a","value":"","expires_us":7}"#, "expires_us"), Ok(Some(7)));
        assert_eq!(moment(r#"{"key":"a","value":"","expires_us":null}"#, "expires_us"), Ok(None));
        assert_eq!(moment(r#"{"key":"a","value":"","until":7}"#, "until"), Ok(Some(7)));
        for no_time in ["-1", "1.5", "\"7\"", "true", "18446744073709551616"] {
            let line = format!("{{\"key\":\"a\",\"value\":\"\",\"expires_us\":{no_time}}}");
            assert!(moment(&line, "expires_us").is_err(), "{no_time}");
        }
    }

    #[test]
    fn other_fields_may_be_chosen() {
        let parse_row =
            |line, key, value| parse_row(line, key, value, "expires_us").map(|(key, value, _)| (key, value));
        let line = br#"{"id":7,"name":"x","encoding":"utf-8","key":null}"#;
        assert_eq!(parse_row(line, "id", "name"), Ok((b"7".to_vec(), b"x".to_vec())));
        assert!(parse_row(line, "key", "name").is_err());
        let line = br#"{"key":"a","value":"AP8=","encoding":"base64"}"#;
        assert_eq!(parse_row(line, "value", "key"), Ok((vec![0, 255], b"a".to_vec())));
    }

    #[test]
    fn numbers_keep_their_digits() {
        let value = |line: &str| parse_row(line.as_bytes(), "key", "value", "expires_us").unwrap().1;
        for digits in ["1.50", "-0", "123456789012345678901234567890", "1.5e+400", "0.1"] {
            assert_eq!(value(&format!("{{\"key\":1,\"value\":{digits}}}")), digits.as_bytes());
        }
    }

    #[test]
    fn what_is_no_row_is_refused() {
        for line in [
            "",
            "[]",
            "{",
            "{\"key\":\"a\"}",
            "{\"value\":\"a\"}",
            "{\"key\":null,\"value\":\"\"}",
            "{\"key\":\"a\",\"value\":[]}",
            "{\"key\":\"a\",\"value\":\"!\",\"encoding\":\"base64\"}",
            "{\"key\":\"a\",\"value\":\"\",\"encoding\":\"hex\"}",
        ] {
            assert!(parse_row(line.as_bytes(), "key", "value", "expires_us").is_err(), "{line}");
        }
    }
}
