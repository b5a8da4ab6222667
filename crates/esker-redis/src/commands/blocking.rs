//! Commands that may wait for an element to come: how long, and what they answer when none came.
//!
//! Evaluation never waits. A blocking command whose keys have no element appends nothing to the reply; then the server
//! lets the client wait, and evaluates the command again after a write to one of its keys.

use super::Spec;
use crate::fault::Fault;
use crate::numbers;
use crate::resp::reply::Reply;

/// How long to wait at most, in microseconds. `None`: for ever.
///
/// # Errors
/// What the client is told when `argument` is not a number of seconds, is negative or out of range.
pub fn timeout_us(argument: &[u8]) -> Result<Option<u64>, Fault> {
    const NO_FLOAT: Fault = Fault::told("ERR timeout is not a float or out of range");
    let seconds = numbers::float(argument).ok_or(NO_FLOAT)?;
    // As Redis, which counts milliseconds and rounds up: less than one below zero is zero.
    let ms = (seconds * 1000.0).ceil();
    // What does not fit into 64 bits is negative for Redis too.
    if ms < 0.0 || ms >= i64::MAX as f64 {
        return Err(Fault::told("ERR timeout is negative"));
    }
    let us = (ms as u64).saturating_mul(1000);
    Ok(Some(us).filter(|us| *us > 0))
}

/// How long a blocking command waits at most, in microseconds. `None`: for ever.
///
/// # Errors
/// As [`timeout_us`].
pub fn timeout_of(spec: &Spec, arguments: &[&[u8]]) -> Result<Option<u64>, Fault> {
    let argument = match spec.name {
        "blmpop" | "bzmpop" => arguments.get(1),
        _ => arguments.last(),
    };
    timeout_us(argument.ok_or(Fault::SYNTAX)?)
}

/// Answers a blocking command for which no element came: `has_waited`, or was not allowed to, within `EXEC`.
pub fn reply_without_element(spec: &Spec, has_waited: bool, reply: &mut Reply) {
    // Redis answers every client whose time is up with an array that is null, whatever its command returns.
    match spec.name {
        "blmove" | "brpoplpush" if !has_waited => reply.null(),
        _ => reply.null_array(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec;

    #[test]
    fn timeouts_are_read_as_redis_reads_them() {
        for (text, us) in [
            ("0", None),
            ("-0", None),
            ("-0.0005", None),
            ("1", Some(1_000_000)),
            ("+0.01", Some(10_000)),
            ("1e-9", Some(1000)),
            ("0.0011", Some(2000)),
            ("5.", Some(5_000_000)),
            ("9e15", Some(u64::MAX)),
        ] {
            assert_eq!(timeout_us(text.as_bytes()), Ok(us), "{text}");
        }
        for (text, error) in [
            ("", "ERR timeout is not a float or out of range"),
            ("x", "ERR timeout is not a float or out of range"),
            (" 1", "ERR timeout is not a float or out of range"),
            ("nan", "ERR timeout is not a float or out of range"),
            ("1e5000", "ERR timeout is not a float or out of range"),
            ("-1", "ERR timeout is negative"),
            ("-0.1", "ERR timeout is negative"),
            ("-inf", "ERR timeout is negative"),
            ("inf", "ERR timeout is negative"),
            ("1e300", "ERR timeout is negative"),
            ("9223372036854775807", "ERR timeout is negative"),
        ] {
            assert_eq!(timeout_us(text.as_bytes()), Err(Fault::told(error)), "{text}");
        }
    }

    #[test]
    fn a_timeout_is_the_last_argument_or_the_first_one() {
        for line in [
            "blpop a b 7",
            "brpop a 7",
            "blmove a b left right 7",
            "brpoplpush a b 7",
            "blmpop 7 2 a b left count 3",
        ] {
            let arguments: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
            let spec = spec(arguments[0]).unwrap();
            assert!(spec.flags.blocks && spec.takes(arguments.len()), "{line}");
            assert_eq!(timeout_of(spec, &arguments), Ok(Some(7_000_000)), "{line}");
        }
    }

    #[test]
    fn a_client_that_waited_in_vain_gets_null() {
        for (name, has_waited, expected) in [
            ("blpop", false, "*-1\r\n"),
            ("blpop", true, "*-1\r\n"),
            ("blmpop", false, "*-1\r\n"),
            ("blmove", false, "$-1\r\n"),
            ("blmove", true, "*-1\r\n"),
            ("brpoplpush", false, "$-1\r\n"),
        ] {
            let mut reply = Reply::new(false);
            reply_without_element(spec(name.as_bytes()).unwrap(), has_waited, &mut reply);
            assert_eq!(reply.bytes, expected.as_bytes(), "{name}");
        }
    }
}
