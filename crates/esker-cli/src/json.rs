//! `--json`: one object a line, for any bytes.
//!
//! ```text
//! {"key":"a","value":"text"}
//! {"key":"b","value":"AP8=","encoding":"base64"}          the value is not UTF-8
//! {"key":"/w==","value":"x","key_encoding":"base64"}      the key is not UTF-8
//! {"key":42,"value":"text"}                               number keys are numbers
//! ```

use std::borrow::Cow;
use std::io::Write;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use crate::exit::Outcome;
use crate::keytype::KeyType;

/// Appends the object of one row and a line feed; `value` is `None` where only the key is asked for.
pub(crate) fn row(out: &mut Vec<u8>, keys: KeyType, key: &[u8], value: Option<&[u8]>) -> Outcome {
    out.extend_from_slice(b"{\"key\":");
    let mut key_encoded = false;
    if keys == KeyType::Text {
        key_encoded = text(out, key);
    } else if keys.is_number() {
        keys.print(key, out)?;
    } else {
        out.push(b'"');
        keys.print(key, out)?;
        out.push(b'"');
    }
    if let Some(value) = value {
        out.extend_from_slice(b",\"value\":");
        if text(out, value) {
            out.extend_from_slice(b",\"encoding\":\"base64\"");
        }
    }
    if key_encoded {
        out.extend_from_slice(b",\"key_encoding\":\"base64\"");
    }
    out.extend_from_slice(b"}\n");
    Ok(())
}

/// Appends the object of a key that was asked for and is absent: its value is null.
pub(crate) fn absent(out: &mut Vec<u8>, keys: KeyType, key: &[u8]) -> Outcome {
    about(out, keys, key, b",\"value\":null}\n")
}

/// Appends the object of a key with `fields`, of which there is at least one, instead of its value.
pub(crate) fn described(out: &mut Vec<u8>, keys: KeyType, key: &[u8], fields: &Value) -> Outcome {
    let mut text = format!("{fields}\n").into_bytes();
    if let Some(brace) = text.first_mut() {
        *brace = b',';
    }
    about(out, keys, key, &text)
}

/// Appends the object of a key, with `rest` from the comma behind the key on.
fn about(out: &mut Vec<u8>, keys: KeyType, key: &[u8], rest: &[u8]) -> Outcome {
    row(out, keys, key, None)?;
    out.truncate(out.len() - b"}\n".len());
    out.extend_from_slice(rest);
    Ok(())
}

/// Appends `object` and a line feed.
pub(crate) fn object(out: &mut Vec<u8>, object: &Value) {
    // Writing to memory cannot fail.
    let _ = writeln!(out, "{object}");
}

/// Appends `bytes` as a JSON string; true when they had to become base64.
fn text(out: &mut Vec<u8>, bytes: &[u8]) -> bool {
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

/// The key as typed and the value of a line that [`row`] wrote; the reason where it is none.
pub(crate) fn parse_row(line: &[u8]) -> Result<(Vec<u8>, Vec<u8>), Cow<'static, str>> {
    let mut object: serde_json::Map<String, Value> =
        serde_json::from_slice(line).map_err(|error| format!("not a JSON object: {error}"))?;
    let encoded = |object: &serde_json::Map<String, Value>, field: &str| match object.get(field) {
        None | Some(Value::Null) => Ok(false),
        Some(Value::String(name)) if name == "base64" => Ok(true),
        Some(other) => Err(format!("\"{field}\" is {other}; only \"base64\" is known")),
    };
    let key_encoded = encoded(&object, "key_encoding")?;
    let value_encoded = encoded(&object, "encoding")?;
    let key = match object.remove("key") {
        Some(Value::String(key)) => decode(key, key_encoded, "key")?,
        Some(Value::Number(number)) => number.to_string().into_bytes(),
        Some(_) => return Err("\"key\" is neither a string nor a number".into()),
        None => return Err("there is no \"key\"".into()),
    };
    match object.remove("value") {
        Some(Value::String(value)) => Ok((key, decode(value, value_encoded, "value")?)),
        Some(_) => Err("\"value\" is not a string".into()),
        None => Err("there is no \"value\"".into()),
    }
}

fn decode(text: String, encoded: bool, field: &str) -> Result<Vec<u8>, Cow<'static, str>> {
    match encoded {
        false => Ok(text.into_bytes()),
        true => Ok(STANDARD.decode(text).map_err(|error| format!("\"{field}\" is not base64: {error}"))?),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn line(keys: KeyType, key: &[u8], value: &[u8]) -> String {
        let mut out = Vec::new();
        row(&mut out, keys, key, Some(value)).unwrap();
        let (typed, back) = parse_row(&out).unwrap();
        assert_eq!((keys.to_bytes(&typed).unwrap().as_slice(), back.as_slice()), (key, value));
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn rows_survive_any_bytes() {
        assert_eq!(line(KeyType::Text, b"a", b"x\n\"\0"), "{\"key\":\"a\",\"value\":\"x\\n\\\"\\u0000\"}\n");
        assert_eq!(
            line(KeyType::Text, b"b", &[0, 255]),
            "{\"key\":\"b\",\"value\":\"AP8=\",\"encoding\":\"base64\"}\n"
        );
        assert_eq!(
            line(KeyType::Text, &[255], b""),
            "{\"key\":\"/w==\",\"value\":\"\",\"key_encoding\":\"base64\"}\n"
        );
        let key = esker::keys::u64(u64::MAX);
        assert_eq!(line(KeyType::U64, &key, b"v"), "{\"key\":18446744073709551615,\"value\":\"v\"}\n");
        assert_eq!(line(KeyType::I32, &esker::keys::i32(-3), b"v"), "{\"key\":-3,\"value\":\"v\"}\n");
        assert_eq!(line(KeyType::Hex, &[0, 0xab], b"v"), "{\"key\":\"00ab\",\"value\":\"v\"}\n");
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
            "{\"key\":\"a\",\"value\":1}",
            "{\"key\":\"a\",\"value\":\"!\",\"encoding\":\"base64\"}",
            "{\"key\":\"a\",\"value\":\"\",\"encoding\":\"hex\"}",
        ] {
            assert!(parse_row(line.as_bytes()).is_err(), "{line}");
        }
    }
}
