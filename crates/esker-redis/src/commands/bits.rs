//! Bits of strings. The first bit is the highest one of the first byte.
//!
//! Commands that read look at the bytes they need, and at large values piece by piece.

use std::ops::{ControlFlow, Range};

use super::strings::parts::{is_backwards, part, pieces, within};
use super::strings::{BYTES_MAX, Changed, check_len, read, write};
use super::{Family, Keys, ONE, READS, READS_ALL, Spec, WRITES, WRITES_ALL, command, integer, is};
use crate::context::{Class, Context, Overwritten};
use crate::fault::{Fault, ReadError};
use crate::model;
use crate::resp::reply::Reply;
use crate::session::Value;

use Family::Bitmap;

pub(crate) const COMMANDS: &[Spec] = &[
    command("setbit", 4, Bitmap, WRITES, ONE, setbit, "Sets or clears a bit and returns its old value"),
    command("getbit", 3, Bitmap, READS, ONE, getbit, "Returns a bit"),
    command("bitcount", -2, Bitmap, READS_ALL, ONE, bitcount, "Counts the bits that are set"),
    command("bitpos", -3, Bitmap, READS_ALL, ONE, bitpos, "Finds the first bit that is set or clear"),
    command("bitop", -4, Bitmap, WRITES_ALL, BEHIND_OPERATION, bitop, "Combines strings bit by bit"),
];

/// All arguments but the first one are keys.
const BEHIND_OPERATION: Keys = Keys::Range { first: 2, last: -1, step: 1 };

/// The place of a bit: its byte, and where it is in there. It must be within the longest string.
fn place(argument: &[u8]) -> Result<(u64, u8), Fault> {
    let offset = crate::numbers::integer(argument).and_then(|offset| u64::try_from(offset).ok());
    let offset = offset.filter(|offset| offset / 8 < BYTES_MAX);
    let offset = offset.ok_or(Fault::told("ERR bit offset is not an integer or out of range"))?;
    Ok((offset / 8, 0x80 >> (offset % 8)))
}

fn setbit(ctx: &mut Context<'_>, args: &[&[u8]], reply: &mut Reply) -> Result<(), Fault> {
    let (byte, mask) = place(args[2])?;
    let is_set = match crate::numbers::integer(args[3]) {
        Some(0) => false,
        Some(1) => true,
        _ => return Err(Fault::told("ERR bit is not an integer or out of range")),
    };
    let old = ctx.get_string(args[1])?;
    ctx.session().may_make(byte)?;
    let mut string = Changed::of(old)?;
    // Less than BYTES_MAX.
    let byte = byte as usize;
    let grows = string.bytes.len() <= byte;
    if grows {
        string.bytes.resize(byte + 1, 0);
    }
    let was_set = string.bytes[byte] & mask != 0;
    if is_set {
        string.bytes[byte] |= mask;
    } else {
        string.bytes[byte] &= !mask;
    }
    if grows || was_set != is_set {
        string.save(ctx, args[1]);
        ctx.notify(Class::String, "setbit", args[1]);
    }
    reply.flag(was_set);
    Ok(())
}

fn getbit(ctx: &mut Context<'_>, args: &[&[u8]], reply: &mut Reply) -> Result<(), Fault> {
    let (byte, mask) = place(args[2])?;
    let is_set = match read(ctx, args[1])? {
        Some(entry) => part(&entry.value, byte..byte + 1)?.first().is_some_and(|byte| byte & mask != 0),
        None => false,
    };
    reply.flag(is_set);
    Ok(())
}

/// Whether a range counts bits, and not bytes.
fn is_of_bits(unit: &[u8]) -> Result<bool, Fault> {
    match unit {
        _ if is(unit, "BIT") => Ok(true),
        _ if is(unit, "BYTE") => Ok(false),
        _ => Err(Fault::SYNTAX),
    }
}

/// The bits of a value of `len` bytes from `first` to `last`, which are places of bits or of bytes.
fn bits_within(first: i64, last: i64, len: u64, of_bits: bool) -> Option<Range<u64>> {
    let bits = len.saturating_mul(8);
    if of_bits {
        return within(first, last, bits);
    }
    let bytes = within(first, last, len)?;
    Some(bytes.start.saturating_mul(8)..bytes.end.saturating_mul(8))
}

/// The bytes that hold a range of bits, which is not empty.
fn bytes_of(bits: &Range<u64>) -> Range<u64> {
    bits.start / 8..bits.end.div_ceil(8)
}

/// Those bits of the byte at `at` that are within `bits`.
fn mask(bits: &Range<u64>, at: u64) -> u8 {
    let bytes = bytes_of(bits);
    let front = if at == bytes.start { 0xff >> (bits.start % 8) } else { 0xff };
    let back = if at + 1 == bytes.end { 0xff << (bytes.end * 8 - bits.end) } else { 0xff };
    front & back
}

/// How many bits are set.
fn ones(bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks();
    let in_words: u64 = words.iter().map(|word| u64::from(u64::from_ne_bytes(*word).count_ones())).sum();
    in_words + rest.iter().map(|byte| u64::from(byte.count_ones())).sum::<u64>()
}

/// How many of these bits of `value` are set.
fn count(value: &Value, bits: &Range<u64>) -> Result<u64, ReadError> {
    let bytes = bytes_of(bits);
    let mut count = 0;
    pieces(value, bytes.clone(), |at, piece| {
        count += ones(piece);
        // The first and the last byte may have bits that are not within the range.
        let ends = [bytes.start].into_iter().chain((bytes.end > bytes.start + 1).then_some(bytes.end - 1));
        for place in ends.filter(|place| (at..at + piece.len() as u64).contains(place)) {
            let outside = piece[(place - at) as usize] & !mask(bits, place);
            count -= u64::from(outside.count_ones());
        }
        ControlFlow::Continue(())
    })?;
    Ok(count)
}

fn bitcount(ctx: &mut Context<'_>, args: &[&[u8]], reply: &mut Reply) -> Result<(), Fault> {
    let Some(entry) = read(ctx, args[1])? else {
        reply.integer(0);
        return Ok(());
    };
    let len = entry.value.len();
    let bits = match args {
        [_, _] => bits_within(0, -1, len, false),
        [_, _, first, last, unit @ ..] if unit.len() <= 1 => {
            let (first, last) = (integer(first)?, integer(last)?);
            if is_backwards(first, last) {
                // Redis does not look at the unit then.
                None
            } else {
                let of_bits = unit.first().map_or(Ok(false), |unit| is_of_bits(unit))?;
                bits_within(first, last, len, of_bits)
            }
        }
        _ => return Err(Fault::SYNTAX),
    };
    reply.count(bits.map_or(Ok(0), |bits| count(&entry.value, &bits))?);
    Ok(())
}

/// The first of these bits of `value` that is set, or clear.
fn find(value: &Value, bits: &Range<u64>, is_set: bool) -> Result<Option<u64>, ReadError> {
    // What turns the bits that are looked for into ones.
    let flip = if is_set { 0 } else { 0xff };
    let mut found = None;
    pieces(value, bytes_of(bits), |at, piece| {
        let hits = piece.iter().enumerate().filter(|(_, byte)| **byte != flip);
        found = hits
            .map(|(index, byte)| (at + index as u64, byte ^ flip))
            .map(|(at, hits)| (at, hits & mask(bits, at)))
            .find(|(_, hits)| *hits != 0)
            .map(|(at, hits)| at * 8 + u64::from(hits.leading_zeros()));
        if found.is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })?;
    Ok(found)
}

fn bitpos(ctx: &mut Context<'_>, args: &[&[u8]], reply: &mut Reply) -> Result<(), Fault> {
    let is_set = match integer(args[2])? {
        0 => false,
        1 => true,
        _ => return Err(Fault::told("ERR The bit argument must be 1 or 0.")),
    };
    let Some(entry) = read(ctx, args[1])? else {
        reply.integer(if is_set { -1 } else { 0 });
        return Ok(());
    };
    let len = entry.value.len();
    let range = match args[3..] {
        [] => (0, -1, false),
        [first] => (integer(first)?, -1, false),
        [first, last] => (integer(first)?, integer(last)?, false),
        [first, last, unit] => {
            let first = integer(first)?;
            let of_bits = is_of_bits(unit)?;
            (first, integer(last)?, of_bits)
        }
        _ => return Err(Fault::SYNTAX),
    };
    let (first, last, of_bits) = range;
    let Some(bits) = bits_within(first, last, len, of_bits) else {
        reply.integer(-1);
        return Ok(());
    };
    match find(&entry.value, &bits, is_set)? {
        Some(place) => reply.count(place),
        // Without an end, the value goes on with zeros.
        None if !is_set && args.len() < 5 => reply.count(bits.end),
        None => reply.integer(-1),
    }
    Ok(())
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Operation {
    And,
    Or,
    Xor,
    Not,
}

impl Operation {
    fn parse(word: &[u8]) -> Option<Operation> {
        let all = [
            ("AND", Operation::And),
            ("OR", Operation::Or),
            ("XOR", Operation::Xor),
            ("NOT", Operation::Not),
        ];
        all.into_iter().find(|(name, _)| is(word, name)).map(|(_, operation)| operation)
    }

    /// Combines `made` with `value`. The shorter one goes on with zeros.
    fn combine(self, made: &mut Vec<u8>, value: &Value) -> Result<(), Fault> {
        let len = usize::try_from(value.len()).unwrap_or(usize::MAX);
        if made.len() < len {
            made.resize(len, 0);
        }
        pieces(value, 0..value.len(), |at, piece| {
            let made = made[at as usize..].iter_mut().zip(piece);
            match self {
                Operation::And => made.for_each(|(made, byte)| *made &= byte),
                Operation::Or => made.for_each(|(made, byte)| *made |= byte),
                Operation::Xor => made.for_each(|(made, byte)| *made ^= byte),
                Operation::Not => made.for_each(|(made, byte)| *made = !byte),
            }
            ControlFlow::Continue(())
        })?;
        if self == Operation::And {
            made[len..].fill(0);
        }
        Ok(())
    }
}

fn bitop(ctx: &mut Context<'_>, args: &[&[u8]], reply: &mut Reply) -> Result<(), Fault> {
    let (target, sources) = (args[2], &args[3..]);
    let operation = Operation::parse(args[1]).ok_or(Fault::SYNTAX)?;
    if operation == Operation::Not && sources.len() != 1 {
        return Err(Fault::told("ERR BITOP NOT must be called with a single source key."));
    }
    // One source after the other, so that no more than one of them is in memory.
    let mut made = Vec::new();
    for (index, source) in sources.iter().enumerate() {
        let value = read(ctx, source)?.map_or(Value::Bytes(Vec::new()), |entry| entry.value);
        check_len(value.len(), 0)?;
        // The first one is copied: as `OR` with nothing.
        let is_copied = index == 0 && operation != Operation::Not;
        let operation = if is_copied { Operation::Or } else { operation };
        operation.combine(&mut made, &value)?;
    }
    reply.count(made.len() as u64);
    if !made.is_empty() {
        let old = ctx.get(target)?;
        write(ctx, target, Overwritten::Known(old), Value::Bytes(made), None)?;
        ctx.notify(Class::String, "set", target);
    } else if model::remove(ctx, target)? {
        ctx.notify(Class::Generic, "del", target);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::commands::strings::parts::tests::ask_huge;
    use crate::memory::Memory;

    fn talk(memory: &mut Memory, lines: &[(&str, &str)]) {
        for (line, reply) in lines {
            assert_eq!(memory.ask(line), *reply, "{line}");
        }
    }

    #[test]
    fn single_bits_are_set_and_read() {
        const NO_OFFSET: &str = "-ERR bit offset is not an integer or out of range|";
        const NO_BIT: &str = "-ERR bit is not an integer or out of range|";
        let mut memory = Memory::default();
        talk(
            &mut memory,
            &[
                ("SETBIT k 1 1", ":0|"),
                ("GET k", "$1|@|"),
                ("SETBIT k 1 1", ":1|"),
                ("SETBIT k 1 0", ":1|"),
                ("SETBIT k 15 0", ":0|"),
                ("STRLEN k", ":2|"),
                ("SETBIT k 14 1", ":0|"),
                ("GETBIT k 14", ":1|"),
                ("GETBIT k 15", ":0|"),
                ("GETBIT k 4294967295", ":0|"),
                ("GETBIT none 0", ":0|"),
                ("GETBIT k 4294967296", NO_OFFSET),
                ("GETBIT k -1", NO_OFFSET),
                ("SETBIT k x 0", NO_OFFSET),
                ("SETBIT k 9223372036854775807 0", NO_OFFSET),
                ("SETBIT k 1 2", NO_BIT),
                ("SETBIT k 1 -1", NO_BIT),
                ("SETBIT k 1 x", NO_BIT),
            ],
        );
    }

    #[test]
    fn bits_are_counted_and_found() {
        talk(
            &mut Memory::default(),
            &[
                ("SET k foobar", "+OK|"),
                ("BITCOUNT k", ":26|"),
                ("BITCOUNT k 0 0", ":4|"),
                ("BITCOUNT k 1 1 byte", ":6|"),
                ("BITCOUNT k 5 30 BIT", ":17|"),
                ("BITCOUNT k 1 3 BIT", ":2|"),
                ("BITCOUNT k -6 -6 BIT", ":1|"),
                ("BITCOUNT k -1 -2", ":0|"),
                ("BITCOUNT k -1 -2 x", ":0|"),
                ("BITCOUNT k 0 -1 x", "-ERR syntax error|"),
                ("BITCOUNT k 0", "-ERR syntax error|"),
                ("BITCOUNT k 0 1 BIT x", "-ERR syntax error|"),
                ("BITCOUNT k 0 x", "-ERR value is not an integer or out of range|"),
                ("BITCOUNT none x", ":0|"),
                (r#"SET p "\x00\xff\xf0""#, "+OK|"),
                ("BITPOS p 1", ":8|"),
                ("BITPOS p 0", ":0|"),
                ("BITPOS p 0 1", ":20|"),
                ("BITPOS p 0 1 1", ":-1|"),
                ("BITPOS p 1 2", ":16|"),
                ("BITPOS p 1 20 -1 BIT", ":-1|"),
                ("BITPOS p 0 9 21 BIT", ":20|"),
                ("BITPOS p 1 7 9 bit", ":8|"),
                ("BITPOS p 0 9 19 BIT", ":-1|"),
                ("BITPOS p 0 -9 -10", ":0|"),
                ("BITPOS p 1 3", ":-1|"),
                (r#"SET f "\xff\xff""#, "+OK|"),
                ("BITPOS f 0", ":16|"),
                ("BITPOS f 0 0", ":16|"),
                ("BITPOS f 0 2", ":-1|"),
                ("BITPOS f 0 0 -1", ":-1|"),
                ("BITPOS none 0 x", ":0|"),
                ("BITPOS none 1", ":-1|"),
                ("BITPOS p 2", "-ERR The bit argument must be 1 or 0.|"),
                ("BITPOS p x", "-ERR value is not an integer or out of range|"),
                ("BITPOS p 0 0 1 x", "-ERR syntax error|"),
                ("BITPOS p 0 0 1 BIT x", "-ERR syntax error|"),
                ("SET e ''", "+OK|"),
                ("BITPOS e 0", ":-1|"),
                ("BITCOUNT e", ":0|"),
            ],
        );
    }

    /// Against a look at every bit.
    #[test]
    fn any_range_of_bits_is_counted_and_searched() {
        let bytes: [u8; 11] = [0, 0xff, 0x0f, 0, 0, 0x80, 0x01, 0xff, 0xff, 0xaa, 0];
        let bit = |at: usize| bytes[at / 8] >> (7 - at % 8) & 1;
        let mut memory = Memory::default();
        memory.reply(&[b"SET", b"k", &bytes], false);
        for first in 0..88 {
            for last in first..88 {
                let count = (first..=last).filter(|at| bit(*at) == 1).count();
                assert_eq!(memory.ask(&format!("BITCOUNT k {first} {last} BIT")), format!(":{count}|"));
                for value in [0, 1] {
                    let found = (first..=last).find(|at| bit(*at) == value).map_or(-1, |at| at as i64);
                    let line = format!("BITPOS k {value} {first} {last} BIT");
                    assert_eq!(memory.ask(&line), format!(":{found}|"), "{line}");
                }
            }
        }
    }

    #[test]
    fn strings_are_combined() {
        let mut memory = Memory::default();
        talk(
            &mut memory,
            &[
                ("MSET a abc b AB e ''", "+OK|"),
                ("BITOP AND to a b", ":3|"),
                ("GET to", "$3|AB\0|"),
                ("BITOP or to b a", ":3|"),
                ("GET to", "$3|abc|"),
                ("BITOP XOR to a b none", ":3|"),
                ("GET to", "$3|  c|"),
                ("BITOP XOR a a a", ":3|"),
                ("GET a", "$3|\0\0\0|"),
                ("BITOP NOT a none", ":0|"),
                ("GET a", "$-1|"),
                ("BITOP AND to b none", ":2|"),
                ("GET to", "$2|\0\0|"),
                ("BITOP AND to b", ":2|"),
                ("GET to", "$2|AB|"),
                ("BITOP NOT to b e", "-ERR BITOP NOT must be called with a single source key.|"),
                ("BITOP NAND to b e", "-ERR syntax error|"),
                ("BITOP NOT to to", ":2|"),
                ("BITCOUNT to", ":12|"),
                ("BITOP OR e e", ":0|"),
                ("GET e", "$-1|"),
            ],
        );
    }

    #[test]
    fn events_are_those_of_redis() {
        let mut memory = Memory::default();
        for (line, expected) in [
            ("SETBIT k 0 0", &["new k", "setbit k"][..]),
            ("SETBIT k 0 0", &[]),
            ("SETBIT k 0 1", &["setbit k"]),
            ("SETBIT k 8 0", &["setbit k"]),
            ("SETBIT k 8 2", &[]),
            ("GETBIT none 0", &["keymiss none"]),
            ("BITCOUNT none", &["keymiss none"]),
            ("BITPOS none 0", &["keymiss none"]),
            ("BITOP NOT to k", &["new to", "set to"]),
            ("BITOP NOT to to", &["set to"]),
            ("BITOP OR to none", &["keymiss none", "del to"]),
            ("BITOP OR to none", &["keymiss none"]),
        ] {
            memory.ask(line);
            let events = memory.events.drain(..);
            let events: Vec<String> = events
                .map(|event| format!("{} {}", event.name, String::from_utf8_lossy(&event.key)))
                .collect();
            assert_eq!(events, expected, "{line}");
        }
    }

    #[test]
    fn huge_values_are_read_in_pieces_and_as_far_as_needed() {
        const MIB: usize = 1 << 20;
        let mut bytes = vec![0; 2 * MIB + 10];
        bytes[MIB + 5] = 1;
        let (first, second, third) = ((0, MIB), (MIB as u64, MIB), (2 * MIB as u64, 10));
        for (line, reply, reads) in [
            ("GETBIT huge 8388655", ":1|", vec![(MIB as u64 + 5, 1)]),
            ("GETBIT huge 99999999", ":0|", vec![]),
            ("BITCOUNT huge", ":1|", vec![first, second, third]),
            ("BITCOUNT huge -10 -1", ":0|", vec![third]),
            ("BITCOUNT huge 8388655 8388656 BIT", ":1|", vec![(MIB as u64 + 5, 2)]),
            ("BITPOS huge 1", ":8388655|", vec![first, second]),
            ("BITPOS huge 0", ":0|", vec![first]),
            ("BITOP OR to huge", ":2097162|", vec![first, second, third]),
        ] {
            assert_eq!(ask_huge(&bytes, line), (reply.to_owned(), reads), "{line}");
        }
    }
}
