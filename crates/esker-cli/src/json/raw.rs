//! JSON values as they are written: made compact, and taken apart.

use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

/// Appends a JSON value without the blanks between its parts. What is within a string stays, and so do numbers as they
/// are written.
pub(crate) fn compact(typed: &[u8], out: &mut Vec<u8>) -> Result<(), String> {
    let raw: &RawValue = serde_json::from_slice(typed).map_err(|error| error.to_string())?;
    let (mut in_string, mut is_escaped) = (false, false);
    for &byte in raw.get().as_bytes() {
        if in_string || !b" \t\r\n".contains(&byte) {
            out.push(byte);
        }
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' => is_escaped = in_string,
            b'"' => in_string = !in_string,
            _ => {}
        }
    }
    Ok(())
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

/// The fields of an object in order, each of which it has once.
pub(crate) fn members(raw: &RawValue) -> Result<Vec<(String, Box<RawValue>)>, Cow<'static, str>> {
    struct Members(Vec<(String, Box<RawValue>)>);
    impl<'de> Visitor<'de> for &mut Members {
        type Value = ();

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an object")
        }

        fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<(), A::Error> {
            while let Some(member) = members.next_entry()? {
                self.0.push(member);
            }
            Ok(())
        }
    }
    let mut found = Members(Vec::new());
    let read = serde_json::Deserializer::from_str(raw.get()).deserialize_map(&mut found);
    read.map_err(|error| format!("the value is not an object: {error}"))?;
    let mut names = HashSet::new();
    match found.0.iter().find(|(name, _)| !names.insert(name)) {
        Some((name, _)) => Err(format!("the value has two fields {name:?}").into()),
        None => Ok(found.0),
    }
}

/// The bytes of a string, or of a number as it is written.
pub(crate) fn scalar(what: &str, raw: &RawValue) -> Result<Vec<u8>, Cow<'static, str>> {
    let text = raw.get();
    match text.as_bytes().first() {
        Some(b'"') => match serde_json::from_str::<String>(text) {
            Ok(text) => Ok(text.into_bytes()),
            Err(error) => Err(format!("{what} is not a valid string: {error}").into()),
        },
        Some(b'-' | b'0'..=b'9') => Ok(text.as_bytes().to_vec()),
        _ => Err(format!("{what} is neither a string nor a number").into()),
    }
}
