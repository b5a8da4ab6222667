//! `--json`: one object per line, for any bytes.
//!
//! ```text
//! {"key":"a","value":"text"}
//! {"key":"b","value":"AP8=","encoding":"base64"}          the value is not UTF-8
//! {"key":"/w==","value":"x","key_encoding":"base64"}      the key is not UTF-8
//! {"key":42,"value":-1}                                   numbers are numbers
//! {"key":"00ff","value":""}                               what is typed in hex is printed so
//! {"key":"d","value":{"a":[1.50,null]}}                   values of the type json are any JSON values
//! {"key":"c","value":"","expires_us":1800000000000000}    the value expires then, in microseconds since 1970
//! ```

mod raw;

use std::borrow::Cow;
use std::fmt;
use std::io::Write;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::de::{Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::collections::{self, Kind};
use crate::datatype::{DataType, Types};
use crate::exit::Outcome;
pub(crate) use raw::{compact, members, scalar, text};

/// What a key has: the value, and when it expires, in microseconds since 1970.
pub(crate) type Held<'a> = (&'a [u8], Option<u64>);

/// A key as typed, a value, and when it expires, in microseconds since 1970.
pub(crate) type Parsed = (Vec<u8>, Given<'static>, Option<u64>);

/// A value as a file has it.
#[derive(Debug)]
pub(crate) enum Given<'a> {
    Typed(Cow<'a, [u8]>),
    Json(Box<RawValue>),
    Collection(Box<collections::Given>),
}

impl Given<'_> {
    /// The value as typed, for values of this type.
    pub(crate) fn typed(&self, values: DataType) -> Result<Cow<'_, [u8]>, Cow<'static, str>> {
        match self {
            Given::Typed(typed) => Ok(Cow::Borrowed(typed)),
            Given::Json(raw) if values == DataType::Json => Ok(raw.get().as_bytes().into()),
            Given::Collection(row) => Err(row.not_among(values)),
            Given::Json(raw) => scalar("the value", raw).map(Cow::Owned).map_err(|reason| {
                format!("{reason}; a new tree with --values json takes any JSON value as it is").into()
            }),
        }
    }
}

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
            DataType::Json => {
                DataType::Json.print_value(value, out)?;
                false
            }
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

/// Appends the object of a key. `rest` is everything from the comma after the key on.
pub(crate) fn about(out: &mut Vec<u8>, keys: DataType, key: &[u8], rest: &[u8]) -> Outcome {
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

/// Which fields of an object are the key, the value and the expiry.
#[derive(Clone, Debug)]
pub(crate) struct Fields {
    pub(crate) key: String,
    pub(crate) value: String,
    pub(crate) expires: String,
    /// Whether the user has chosen the key or the value: then `type` says nothing about the value.
    pub(crate) is_chosen: bool,
}

impl Default for Fields {
    /// The fields that [`row`] writes.
    fn default() -> Self {
        let [key, value, expires] = ["key", "value", "expires_us"].map(str::to_owned);
        Fields { key, value, expires, is_chosen: false }
    }
}

impl Fields {
    /// The key and the value, and the expiry of a line that [`row`] wrote, or of any object with these fields; or the
    /// reason why it has none. Only the fields that [`row`] writes can be marked as base64: the value by `encoding`, the
    /// key by `key_encoding`.
    pub(crate) fn parse(&self, line: &[u8]) -> Result<Parsed, Cow<'static, str>> {
        let mut chosen = Chosen::of(self);
        let mut json = serde_json::Deserializer::from_slice(line);
        let read = json.deserialize_map(&mut chosen).and_then(|()| json.end());
        read.map_err(|error| {
            let hint = if error.is_eof() { "; if objects have several lines, use --format json" } else { "" };
            format!("not a JSON object: {error}{hint}")
        })?;
        chosen.row()
    }

    /// The same for an object, or for an array with a key and a value.
    pub(crate) fn of(&self, row: &RawValue) -> Result<Parsed, Cow<'static, str>> {
        match row.get().as_bytes().first() {
            Some(b'{') => self.parse(row.get().as_bytes()),
            Some(b'[') => {
                let pair: Vec<Box<RawValue>> =
                    serde_json::from_str(row.get()).map_err(|error| error.to_string())?;
                let len = pair.len();
                let mut pair = pair.into_iter();
                match (pair.next(), pair.next(), pair.next()) {
                    (Some(key), Some(value), None) => {
                        Ok((scalar("the key", &key)?, Given::Json(value), None))
                    }
                    _ => Err(format!(
                        "an array of length {len} is not a pair of key and value; rows of more fields are to be objects, of \
                         which --key-column and --value-column choose two"
                    )
                    .into()),
                }
            }
            _ => Err("it is neither an object nor a pair of key and value".into()),
        }
    }
}

/// The fields of an object that make a row, as they are written.
pub(crate) struct Chosen<'a> {
    /// The names of the fields, and what they have.
    fields: [(&'a str, Option<Box<RawValue>>); 7],
    /// [`Fields::is_chosen`].
    is_chosen: bool,
    /// The first of them that the object has twice.
    twice: Option<&'a str>,
}

impl<'a> Chosen<'a> {
    pub(crate) fn of(fields: &'a Fields) -> Self {
        let names =
            [&fields.key, &fields.value, &fields.expires, "encoding", "key_encoding", "type", "continues"];
        Chosen { fields: names.map(|name: &str| (name, None)), is_chosen: fields.is_chosen, twice: None }
    }

    /// Takes a field, if it is one of them.
    fn take<'de, A: MapAccess<'de>>(&mut self, name: &str, members: &mut A) -> Result<(), A::Error> {
        if !self.fields.iter().any(|(wanted, _)| *wanted == name) {
            return members.next_value::<IgnoredAny>().map(drop);
        }
        let raw: Box<RawValue> = members.next_value()?;
        for (wanted, found) in &mut self.fields {
            if *wanted == name && found.replace(raw.clone()).is_some() {
                self.twice.get_or_insert(*wanted);
            }
        }
        Ok(())
    }

    /// The row of the object.
    pub(crate) fn row(self) -> Result<Parsed, Cow<'static, str>> {
        if let Some(name) = self.twice {
            return Err(format!("there are two fields {name:?}").into());
        }
        let [
            (key_name, key),
            (value_name, value),
            (expires_name, expires),
            encoding,
            key_encoding,
            kind,
            continues,
        ] = self.fields;
        let none = |name: &str| {
            let hint = match name {
                "key" => "; --key-column names another",
                "value" => "; --value-column names another",
                _ => "",
            };
            Cow::from(format!("there is no field {name:?}{hint}"))
        };
        let key = key.ok_or_else(|| none(key_name))?;
        let value = value.ok_or_else(|| none(value_name))?;
        let key = match is_base64(key_name, [encoding.1.as_deref(), key_encoding.1.as_deref()])? {
            true => base64(key_name, &key)?,
            false => scalar(&format!("{key_name:?}"), &key)?,
        };
        let kind = if self.is_chosen { None } else { kind.1.as_deref().map_or(Ok(None), kind_of)? };
        let continues = match continues.1.as_deref().map(RawValue::get).filter(|_| !self.is_chosen) {
            None | Some("false" | "null") => false,
            Some("true") => true,
            Some(_) => return Err("\"continues\" is neither true nor false".into()),
        };
        if continues && kind.is_none() {
            return Err("it continues a collection, and has no \"type\"".into());
        }
        if let Some(kind) = kind {
            let is_base64 = is_base64(value_name, [encoding.1.as_deref(), None])?;
            let row = collections::Given::new(kind, value, is_base64, continues);
            let expires_us = moment(expires_name, expires.as_deref())?;
            return Ok((key, Given::Collection(Box::new(row)), expires_us));
        }
        let value = match is_base64(value_name, [encoding.1.as_deref(), key_encoding.1.as_deref()])? {
            true => Given::Typed(base64(value_name, &value)?.into()),
            false => Given::Json(value),
        };
        Ok((key, value, moment(expires_name, expires.as_deref())?))
    }
}

impl<'de> Visitor<'de> for &mut Chosen<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<(), A::Error> {
        while let Some(name) = members.next_key::<Cow<'_, str>>()? {
            self.take(&name, &mut members)?;
        }
        Ok(())
    }
}

/// Whether the field `name` is in base64, by the fields `encoding` and `key_encoding`.
fn is_base64(name: &str, [of_value, of_key]: [Option<&RawValue>; 2]) -> Result<bool, Cow<'static, str>> {
    let encoding = match name {
        "key" => of_key,
        "value" => of_value,
        _ => None,
    };
    match encoding.map(RawValue::get) {
        None | Some("null") => Ok(false),
        Some("\"base64\"") => Ok(true),
        Some(other) => Err(format!("the encoding of {name:?} is {other}; only \"base64\" is known").into()),
    }
}

fn base64(name: &str, raw: &RawValue) -> Result<Vec<u8>, Cow<'static, str>> {
    let text = scalar(&format!("{name:?}"), raw)?;
    Ok(STANDARD.decode(text).map_err(|error| format!("{name:?} is not base64: {error}"))?)
}

/// The kind of collection that the field `type` names; `None` for a plain value.
fn kind_of(raw: &RawValue) -> Result<Option<Kind>, Cow<'static, str>> {
    let name = serde_json::from_str::<Cow<'_, str>>(raw.get()).unwrap_or_default();
    match Kind::named(name.as_bytes()) {
        None if name != "string" && raw.get() != "null" => Err(format!(
            "the \"type\" {} is unknown: there are hash, list, set, zset and string; --value-column value takes the value without \
             its type",
            raw.get()
        )
        .into()),
        kind => Ok(kind),
    }
}

/// When the value expires, if it does.
fn moment(name: &str, raw: Option<&RawValue>) -> Result<Option<u64>, Cow<'static, str>> {
    match raw.map(RawValue::get) {
        None | Some("null") => Ok(None),
        Some(text) => match text.parse() {
            Ok(us) => Ok(Some(us)),
            Err(_) => Err(format!("{name:?} is not a number of microseconds since 1970").into()),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::datatype::Number;

    type Row = (Vec<u8>, Vec<u8>, Option<u64>);

    fn parse_row(line: &[u8], key: &str, value: &str, expires: &str) -> Result<Row, Cow<'static, str>> {
        let [key, value, expires] = [key, value, expires].map(str::to_owned);
        let (key, value, expires_us) = Fields { key, value, expires, is_chosen: false }.parse(line)?;
        Ok((key, value.typed(DataType::Text)?.into_owned(), expires_us))
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
    fn values_of_the_type_json_are_any_and_come_back_as_they_were() {
        for (given, stored) in [
            ("null", "null"),
            ("true", "true"),
            (" \"a \\\" b\\\\\" ", "\"a \\\" b\\\\\""),
            ("1E5", "1E5"),
            ("[ 1.50 ,\n{\"b\" : \"x  y\", \"a\":[ ]} ]", "[1.50,{\"b\":\"x  y\",\"a\":[]}]"),
        ] {
            let row_of = format!("{{\"key\":\"k\",\"value\":{given}}}");
            let (_, value, _) = Fields::default().parse(row_of.as_bytes()).unwrap();
            let mut scratch = Vec::new();
            let typed = value.typed(DataType::Json).unwrap();
            let bytes = DataType::Json.encode_value(&typed, &mut scratch).unwrap();
            assert_eq!(bytes, stored.as_bytes());
            let mut out = Vec::new();
            row(&mut out, Types { values: DataType::Json, ..Types::TEXT }, b"k", Some((bytes, None)))
                .unwrap();
            assert_eq!(String::from_utf8(out).unwrap(), format!("{{\"key\":\"k\",\"value\":{stored}}}\n"));
            let is_scalar = given.contains(['"', '5']) && !given.contains('[');
            assert_eq!(value.typed(DataType::Text).is_ok(), is_scalar, "{given}");
        }
        for wrong in ["", "{", "nul", "1 2", "NaN", "'a'", "[1,]"] {
            assert!(DataType::Json.to_bytes(wrong.as_bytes()).is_err(), "{wrong}");
        }
        assert!(DataType::Json.has(b"[1,\n2]") && !DataType::Json.has(b"[1,2") && !DataType::Json.has(b""));
        let mut out = Vec::new();
        DataType::Json.print_value(b"[1,\n2]", &mut out).unwrap();
        assert_eq!(out, b"[1,2]");
    }

    #[test]
    fn numbers_keep_their_digits() {
        let value = |line: &str| parse_row(line.as_bytes(), "key", "value", "expires_us").unwrap().1;
        for digits in
            ["1.50", "-0", "123456789012345678901234567890", "1.5e+400", "0.1", "1E5", "1e05", "-0.0E-0"]
        {
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
            "{\"key\":\"a\",\"key\":\"b\",\"value\":\"\"}",
            "{\"key\":\"a\",\"value\":\"1\",\"value\":\"2\"}",
            "{\"key\":\"a\",\"value\":\"\\ud800\"}",
            "{\"key\":\"a\",\"value\":NaN}",
            "{\"key\":\"a\",\"value\":01}",
            "{\"key\":\"a\",\"value\":\"\"} {}",
        ] {
            assert!(parse_row(line.as_bytes(), "key", "value", "expires_us").is_err(), "{line}");
        }
    }
}
