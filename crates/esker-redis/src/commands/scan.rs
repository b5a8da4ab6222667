//! What `SCAN`, `HSCAN`, `SSCAN` and `ZSCAN` have in common: their arguments, their replies, and a piece of a collection.
//!
//! ```text
//! HSCAN key cursor [MATCH pattern] [COUNT count]      ->  the next cursor, elements
//! SCAN      cursor [MATCH pattern] [COUNT count] [TYPE type]
//! ```
//! A cursor stands for a place in the order of elements, so an element that is there from the first call to the last one is
//! returned exactly once, whatever is written in between. A small collection comes whole, as in Redis. A page has `COUNT`
//! elements, and some more until a cursor can stand for the place ([`crate::cursors`]).

use super::collections::Pair;
use super::{integer, is};
use crate::context::Context;
use crate::cursors::Page;
use crate::entry::behind;
use crate::fault::Fault;
use crate::glob;
use crate::model::Collection;
use crate::resp::reply::Reply;
use crate::session::Bounds;

/// What stands behind the cursor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Options<'a> {
    /// How many elements one call looks at. Those that do not match count too.
    pub(crate) count: u64,
    /// `None`: all match.
    pub(crate) pattern: Option<&'a [u8]>,
    /// The name of the type of keys.
    pub(crate) kind: Option<&'a [u8]>,
}

impl Options<'_> {
    /// Whether the pattern, if there is one, matches `name`.
    pub(crate) fn wants(&self, name: &[u8]) -> bool {
        self.pattern.is_none_or(|pattern| glob::matches(pattern, name))
    }

    /// The bytes with which every name begins that matches.
    pub(crate) fn prefix(&self) -> &[u8] {
        self.pattern.map_or(&[], glob::literal_prefix)
    }
}

/// The cursor that a client sends. As Redis, it accepts what C's `strtoul` does: a sign, leading zeros, and nothing at all.
pub(crate) fn cursor(argument: &[u8]) -> Result<u64, Fault> {
    let (is_negative, digits) = match argument {
        [b'-', digits @ ..] => (true, digits),
        [b'+', digits @ ..] => (false, digits),
        digits => (false, digits),
    };
    if argument.is_empty() {
        return Ok(0);
    }
    let number = Some(digits).filter(|digits| digits.iter().all(u8::is_ascii_digit));
    let number = number.and_then(|digits| std::str::from_utf8(digits).ok()?.parse::<u64>().ok());
    let number = number.ok_or(Fault::told("ERR invalid cursor"))?;
    Ok(if is_negative { number.wrapping_neg() } else { number })
}

/// The options behind the cursor. Only `SCAN` takes a type.
pub(crate) fn options<'a>(arguments: &[&'a [u8]], takes_type: bool) -> Result<Options<'a>, Fault> {
    let mut options = Options { count: 10, pattern: None, kind: None };
    for pair in arguments.chunks(2) {
        let [name, value] = *pair else { return Err(Fault::SYNTAX) };
        if is(name, "COUNT") {
            options.count = u64::try_from(integer(value)?).unwrap_or(0);
            if options.count == 0 {
                return Err(Fault::SYNTAX);
            }
        } else if is(name, "MATCH") {
            options.pattern = Some(value);
        } else if is(name, "TYPE") && takes_type {
            options.kind = Some(value);
        } else {
            return Err(Fault::SYNTAX);
        }
    }
    Ok(options)
}

/// The first part of a reply: the next cursor, and that `len` replies follow.
pub(crate) fn begin_reply(reply: &mut Reply, next_cursor: u64, len: usize) {
    reply.array(2);
    reply.bulk(next_cursor.to_string().as_bytes());
    reply.array(len);
}

/// The next piece of a collection: the next cursor, and the elements that match, without `prefix`, with their values.
/// Only the elements that begin with `prefix` count.
pub(crate) fn piece(
    ctx: &mut Context<'_>,
    collection: &Collection,
    prefix: &[u8],
    cursor: u64,
    options: &Options<'_>,
) -> Result<(u64, Vec<Pair>), Fault> {
    let least = [prefix, options.prefix()].concat();
    let upper = behind(&least);
    let place = [prefix, &place_of(ctx, cursor)?].concat();
    let (lower, count) = if collection.is_large() {
        (least.as_slice().max(&place), options.count)
    } else {
        (least.as_slice(), u64::MAX)
    };
    let bounds = Bounds { lower, upper: upper.as_deref() };
    let (mut found, mut page) = (Vec::new(), Page::new(ctx.cursors, count));
    collection.walk(ctx.session(), bounds, false, |element, value| {
        let name = element.get(prefix.len()..).unwrap_or(&[]);
        if !page.takes(name, &mut found, || ctx.session().may_wait())? {
            return Ok(false);
        }
        if options.wants(name) {
            found.push((name.to_vec(), value));
        }
        Ok(true)
    })?;
    Ok((page.next, found))
}

/// The place that a client's cursor stands for.
pub(crate) fn place_of(ctx: &Context<'_>, cursor: u64) -> Result<Vec<u8>, Fault> {
    ctx.cursors
        .place(cursor)
        .ok_or(Fault::told("ERR invalid cursor: this server has not given it out; begin with 0"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cursors_are_read_as_strtoul_reads_them() {
        for (text, number) in
            [("", 0), ("0", 0), ("007", 7), ("+7", 7), ("-1", u64::MAX), ("18446744073709551615", u64::MAX)]
        {
            assert_eq!(cursor(text.as_bytes()), Ok(number), "{text}");
        }
        for text in ["-", "+", "x", " 1", "1 ", "1x", "--1", "+-1", "18446744073709551616"] {
            assert_eq!(cursor(text.as_bytes()), Err(Fault::told("ERR invalid cursor")), "{text}");
        }
    }

    #[test]
    fn options_are_checked_in_their_order() {
        let read = |line: &'static str, takes_type| {
            options(&line.split(' ').map(str::as_bytes).collect::<Vec<_>>(), takes_type)
        };
        let all = Options { count: 5, pattern: Some(b"a*"), kind: Some(b"hash") };
        assert_eq!(read("count 5 match a* type hash", true), Ok(all));
        assert_eq!(read("MATCH x COUNT 3 MATCH a*", false).map(|options| options.count), Ok(3));
        assert_eq!(options(&[], true), Ok(Options { count: 10, pattern: None, kind: None }));
        for (line, fault) in [
            ("type hash", Fault::SYNTAX),
            ("count", Fault::SYNTAX),
            ("count 0", Fault::SYNTAX),
            ("count -5", Fault::SYNTAX),
            ("count x", Fault::NOT_INTEGER),
            ("count x bad", Fault::NOT_INTEGER),
            ("bad 1", Fault::SYNTAX),
        ] {
            assert_eq!(read(line, false), Err(fault), "{line}");
        }
    }
}
