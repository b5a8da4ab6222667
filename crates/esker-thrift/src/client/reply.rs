//! What a reply says: a result, or what the server has thrown.

use super::error::{CallError, CallResult};
use crate::fail::{Thrown, UNKNOWN_METHOD};
use crate::wire::{Fault, Kind, Protocol, Purpose, Source};

/// The longest reply.
pub const REPLY_LEN_MAX: usize = 256 << 20;

/// What a reply says.
pub(super) fn answer<T>(
    reply: &[u8],
    name: &str,
    sequence: i32,
    mut read: impl FnMut(&mut Source<'_>) -> Result<T, Fault>,
) -> CallResult<Option<T>> {
    let mut source = Source::new(Protocol::Binary, reply);
    let head = source.head()?;
    if head.purpose == Purpose::Exception {
        let Exception { message, number } = exception(&mut source)?;
        let kind = if number == Some(UNKNOWN_METHOD) { Thrown::UnknownMethod } else { Thrown::Other };
        return Err(CallError::Thrown { kind, message });
    }
    if head.purpose != Purpose::Answer || head.name != name.as_bytes() || head.sequence != sequence {
        return Err(CallError::Broken(format!("expected an answer to {name}, found another message")));
    }
    let (mut result, mut last) = (None, 0);
    while let Some(field) = source.field(&mut last)? {
        let declared = match (field.id, field.kind) {
            (0, _) => {
                result = Some(read(&mut source)?);
                continue;
            }
            (1, Kind::Struct) => Thrown::Io,
            (2, Kind::Struct) => Thrown::Argument,
            (3, Kind::Struct) => Thrown::Exists,
            (_, kind) => {
                source.skip(kind)?;
                continue;
            }
        };
        let Exception { message, number } = exception(&mut source)?;
        // An `EskerError` has its kind there, and so has an `IOError` of an Esker server; other exceptions have no number.
        let kind = number.map_or(declared, Thrown::of_kind);
        return Err(CallError::Thrown { kind, message });
    }
    Ok(result)
}

/// An exception: its message, and the number that some have.
struct Exception {
    message: String,
    number: Option<i32>,
}

fn exception(source: &mut Source<'_>) -> Result<Exception, Fault> {
    let (mut exception, mut last) = (Exception { message: String::new(), number: None }, 0);
    while let Some(field) = source.field(&mut last)? {
        match (field.id, field.kind) {
            (1, Kind::Bytes) => exception.message = String::from_utf8_lossy(source.bytes()?).into_owned(),
            (2 | 3, Kind::I32) => exception.number = Some(source.i32()?),
            (_, kind) => source.skip(kind)?,
        }
    }
    Ok(exception)
}

/// The timestamp and the value of a `TCell`.
pub(super) fn cell<'a>(source: &mut Source<'a>) -> Result<(i64, &'a [u8]), Fault> {
    let (mut timestamp, mut value, mut last): (i64, &[u8], i16) = (0, &[], 0);
    while let Some(field) = source.field(&mut last)? {
        match (field.id, field.kind) {
            (1, Kind::Bytes) => value = source.bytes()?,
            (2, Kind::I64) => timestamp = source.i64()?,
            (_, kind) => source.skip(kind)?,
        }
    }
    Ok((timestamp, value))
}
