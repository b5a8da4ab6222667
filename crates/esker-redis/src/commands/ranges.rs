//! What an ordered store can do and Redis cannot: ranges of keys, and values that are compared before they change. And
//! what is counted: `DBSIZE` and `MEMORY USAGE`.
//!
//! `RANGE lo hi [REV] [LIMIT n] [KEYS] [CUT n] [EXPIRES]` returns keys from `lo` to `hi`, both included, each followed by
//! its value: null for what is no string. An empty `lo` or `hi` is the beginning or the end. With `CUT n`, the length of a
//! value of more than `n` bytes stands in its place, and the value is not read. With `EXPIRES`, the key is followed by the
//! time at which it expires, in milliseconds since 1970, or -1. `RANGEDEL lo hi [LIMIT n]` deletes keys of the range,
//! 10,000 unless it is told otherwise, and returns how many it has deleted: call it until that is 0.
//!
//! `CAS key old new [PX ms]` sets the key to `new` if its value is `old`, and `CAD key old` deletes it if so; they return 1
//! if they did, and 0 if the key is not there or has another value. A key that `CAS` has set expires if `PX` says so.

use super::strings::parts;
use super::subcommands::{help, is_help};
use super::{FREES, FREES_ALL, Family, Keys, ONE, READS_ALL, Run, Spec, WRITES, command, integer, is};
use crate::context::{Class, Context};
use crate::fault::{Fault, ReadError};
use crate::model::{self, Kind};
use crate::resp::reply::Reply;
use crate::session::{Bounds, Entry};

/// How many keys `RANGEDEL` deletes at most, unless it is told otherwise; and the most that it may be told.
const DELETED: u64 = 10_000;
const DELETED_MAX: i64 = 1_000_000;

/// The longest reply to `RANGE`, in bytes.
const REPLY_MAX: usize = 512 << 20;

const fn on_range(name: &'static str, flags: super::Flags, run: Run, summary: &'static str) -> Spec {
    command(name, -3, Family::Keyspace, flags, Keys::None, run, summary)
}

pub(crate) const COMMANDS: &[Spec] = &[
    on_range("range", READS_ALL, range, "Returns keys in order, with their values"),
    on_range("rangedel", FREES_ALL, rangedel, "Deletes keys of a range"),
    command("cas", -4, Family::String, WRITES, ONE, cas, "Sets a key if it has a given value"),
    command("cad", 3, Family::String, FREES, ONE, cad, "Deletes a key if it has a given value"),
    command("dbsize", 1, Family::Keyspace, READS_ALL, Keys::None, dbsize, "Counts the keys of the database"),
    command(
        "memory",
        -2,
        Family::Server,
        READS_ALL,
        Keys::Range { first: 2, last: 2, step: 1 },
        memory,
        "Estimates the memory of a key",
    )
    .with_subcommands(),
];

/// The range from `lo` to `hi`, both included.
fn bounds<'a>(lo: &'a [u8], hi: &[u8], behind: &'a mut Vec<u8>) -> Bounds<'a> {
    behind.extend_from_slice(hi);
    behind.push(0);
    Bounds { lower: lo, upper: (!hi.is_empty()).then_some(behind) }
}

/// What `RANGE` is asked for.
struct RangeOptions {
    reverse: bool,
    keys_only: bool,
    expires: bool,
    limit: u64,
    /// The longest value that is returned itself, in bytes.
    cut: u64,
}

impl RangeOptions {
    fn parse(args: &[&[u8]]) -> Result<RangeOptions, Fault> {
        let mut options =
            RangeOptions { reverse: false, keys_only: false, expires: false, limit: u64::MAX, cut: u64::MAX };
        let mut words = args.iter();
        while let Some(word) = words.next() {
            if is(word, "REV") {
                options.reverse = true;
            } else if is(word, "KEYS") {
                options.keys_only = true;
            } else if is(word, "EXPIRES") {
                options.expires = true;
            } else if is(word, "LIMIT") {
                options.limit = count(&mut words, "ERR LIMIT is negative")?;
            } else if is(word, "CUT") {
                options.cut = count(&mut words, "ERR CUT is negative")?;
            } else {
                return Err(Fault::SYNTAX);
            }
        }
        Ok(options)
    }

    /// How many replies there are for a key.
    fn width(&self) -> usize {
        1 + usize::from(self.expires) + usize::from(!self.keys_only)
    }

    /// Appends what is returned of a value.
    fn value(&self, found: &mut Reply, entry: &Entry) -> Result<(), ReadError> {
        if Kind::of(entry)? != Kind::String {
            found.null();
        } else if entry.value.len() > self.cut {
            found.count(entry.value.len());
        } else {
            parts::answer(found, &entry.value)?;
        }
        Ok(())
    }
}

/// The next word as a number.
fn count(words: &mut std::slice::Iter<'_, &[u8]>, negative: &'static str) -> Result<u64, Fault> {
    let number = integer(words.next().ok_or(Fault::SYNTAX)?)?;
    u64::try_from(number).map_err(|_| Fault::told(negative))
}

fn range(ctx: &mut Context<'_>, args: &[&[u8]], reply: &mut Reply) -> Result<(), Fault> {
    let options = RangeOptions::parse(&args[3..])?;
    let mut end = Vec::new();
    let bounds = bounds(args[1], args[2], &mut end);
    let (mut found, mut count, mut is_too_long) = (Reply::new(reply.resp3), 0, false);
    let ahead_ms = ctx.ahead_ms();
    if options.limit > 0 {
        ctx.session().walk(ctx.keys(), bounds, options.reverse, &mut |key, entry| {
            found.bulk(key);
            if options.expires {
                let ms = entry.expires_us.map(|us| i64::try_from(us / 1000).unwrap_or(i64::MAX));
                found.integer(ms.map_or(-1, |ms| ms.saturating_sub(ahead_ms).max(0)));
            }
            if !options.keys_only {
                options.value(&mut found, &entry)?;
            }
            count += 1;
            is_too_long = found.bytes.len() > REPLY_MAX;
            Ok(!is_too_long && count < options.limit)
        })?;
    }
    if is_too_long {
        return Err(Fault::told("ERR the reply would be longer than 512 MiB: use LIMIT"));
    }
    reply.array(count as usize * options.width());
    reply.append(found);
    Ok(())
}

fn rangedel(ctx: &mut Context<'_>, args: &[&[u8]], reply: &mut Reply) -> Result<(), Fault> {
    let limit = match &args[3..] {
        [] => DELETED,
        [word, number] if is(word, "LIMIT") => {
            let number = integer(number)?;
            if !(1..=DELETED_MAX).contains(&number) {
                return Err(Fault::told("ERR LIMIT is not between 1 and 1000000"));
            }
            number as u64
        }
        _ => return Err(Fault::SYNTAX),
    };
    let (mut end, mut keys) = (Vec::new(), Vec::new());
    let bounds = bounds(args[1], args[2], &mut end);
    ctx.session().walk(ctx.keys(), bounds, false, &mut |key, _| {
        keys.push(key.to_vec());
        Ok((keys.len() as u64) < limit)
    })?;
    for key in &keys {
        model::remove(ctx, key)?;
        ctx.notify(Class::Generic, "del", key);
    }
    reply.count(keys.len() as u64);
    Ok(())
}

/// Whether the key is a string with this value.
fn has_value(ctx: &Context<'_>, key: &[u8], expected: &[u8]) -> Result<bool, Fault> {
    let Some(entry) = ctx.get_string(key)? else { return Ok(false) };
    // A huge value is read only if it has the right length.
    Ok(entry.value.len() == expected.len() as u64 && entry.value.into_bytes()? == expected)
}

fn cas(ctx: &mut Context<'_>, args: &[&[u8]], reply: &mut Reply) -> Result<(), Fault> {
    let expires_us = match &args[4..] {
        [] => None,
        [word, ms] if is(word, "PX") => {
            let ms = u64::try_from(integer(ms)?).ok().filter(|ms| *ms > 0);
            let ms = ms.ok_or(Fault::told("ERR invalid expire time in 'cas' command"))?;
            Some(ms.saturating_mul(1000).saturating_add(ctx.now_us()))
        }
        _ => return Err(Fault::SYNTAX),
    };
    let swaps = has_value(ctx, args[1], args[2])?;
    if swaps {
        let value = ctx.value(args, 3);
        ctx.put_entry(args[1], Entry { value, attributes: Vec::new(), expires_us });
        ctx.notify(Class::String, "set", args[1]);
    }
    reply.flag(swaps);
    Ok(())
}

fn cad(ctx: &mut Context<'_>, args: &[&[u8]], reply: &mut Reply) -> Result<(), Fault> {
    let deletes = has_value(ctx, args[1], args[2])?;
    if deletes {
        ctx.delete_entry(args[1]);
        ctx.notify(Class::Generic, "del", args[1]);
    }
    reply.flag(deletes);
    Ok(())
}

fn dbsize(ctx: &mut Context<'_>, _: &[&[u8]], reply: &mut Reply) -> Result<(), Fault> {
    let mut count = 0;
    ctx.session().walk(ctx.keys(), Bounds::ALL, false, &mut |_, _| {
        count += 1;
        Ok(true)
    })?;
    reply.count(count);
    Ok(())
}

fn memory(ctx: &mut Context<'_>, args: &[&[u8]], reply: &mut Reply) -> Result<(), Fault> {
    if is_help(args) {
        let lines = help("memory");
        reply.array(lines.len());
        lines.iter().for_each(|line| reply.simple(line));
        return Ok(());
    }
    let (key, options) = (args[2], &args[3..]);
    for pair in options.chunks(2) {
        let [word, samples] = pair else { return Err(Fault::SYNTAX) };
        if !is(word, "SAMPLES") || integer(samples)? < 0 {
            return Err(Fault::SYNTAX);
        }
    }
    let Some(entry) = ctx.get(key)? else {
        reply.null();
        return Ok(());
    };
    let own = key.len() as u64 + entry.value.len() + entry.attributes.len() as u64;
    reply.count(own + crate::model::elements_bytes(ctx, key, entry)?);
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::memory::Memory;

    #[test]
    fn ranges_have_both_ends() {
        let mut memory = Memory::default();
        for key in ["a", "b", "c"] {
            memory.ask(&format!("SET {key} {key}{key}"));
        }
        memory.ask("RPUSH bb 1");
        for (ask, reply) in [
            ("RANGE a b", "*4|$1|a|$2|aa|$1|b|$2|bb|"),
            ("RANGE b c KEYS", "*3|$1|b|$2|bb|$1|c|"),
            ("RANGE bb bb", "*2|$2|bb|$-1|"),
            ("RANGE \"\" \"\" REV LIMIT 1", "*2|$1|c|$2|cc|"),
            ("range x y", "*0|"),
            ("RANGE c a", "*0|"),
            ("RANGE a c LIMIT 0", "*0|"),
            ("RANGE a c LIMIT -1", "-ERR LIMIT is negative|"),
            ("RANGE a c LIMIT", "-ERR syntax error|"),
            ("RANGE a b CUT 1", "*4|$1|a|:2|$1|b|:2|"),
            ("RANGE a b CUT 2 LIMIT 1", "*2|$1|a|$2|aa|"),
            ("RANGE bb bb CUT 0", "*2|$2|bb|$-1|"),
            ("RANGE a b CUT", "-ERR syntax error|"),
            ("RANGE a b CUT -1", "-ERR CUT is negative|"),
            ("PEXPIREAT a 1234567890123", ":1|"),
            ("RANGE a bb EXPIRES CUT 1", "*9|$1|a|:1234567890123|:2|$1|b|:-1|:2|$2|bb|:-1|$-1|"),
            ("RANGE a a expires keys", "*2|$1|a|:1234567890123|"),
            ("RANGE a", "-ERR wrong number of arguments for 'range' command|"),
            ("DBSIZE", ":4|"),
            ("RANGEDEL a bb LIMIT 2", ":2|"),
            ("RANGEDEL a bb", ":1|"),
            ("RANGEDEL a bb", ":0|"),
            ("RANGEDEL a bb LIMIT 0", "-ERR LIMIT is not between 1 and 1000000|"),
            ("RANGE \"\" \"\" KEYS", "*1|$1|c|"),
        ] {
            assert_eq!(memory.ask(ask), reply, "{ask}");
        }
    }

    #[test]
    fn values_change_only_if_they_are_as_expected() {
        let mut memory = Memory::at(5_000_000);
        memory.ask("RPUSH list 1");
        for (ask, reply) in [
            ("CAS k a b", ":0|"),
            ("SET k a", "+OK|"),
            ("CAS k x b", ":0|"),
            ("CAS k a b PX 10", ":1|"),
            ("PTTL k", ":10|"),
            ("CAS k b c", ":1|"),
            ("PTTL k", ":-1|"),
            ("CAS k c d PX 0", "-ERR invalid expire time in 'cas' command|"),
            ("CAD k d", ":0|"),
            ("CAD k c", ":1|"),
            ("EXISTS k", ":0|"),
            ("CAS list 1 2", "-WRONGTYPE Operation against a key holding the wrong kind of value|"),
        ] {
            assert_eq!(memory.ask(ask), reply, "{ask}");
        }
    }

    #[test]
    fn the_memory_of_a_key_counts_its_elements() {
        let mut memory = Memory::default();
        memory.ask("SET k 12345");
        assert_eq!(memory.ask("MEMORY USAGE k"), ":6|");
        assert_eq!(memory.ask("MEMORY USAGE absent"), "$-1|");
        let fields: String = (0..100).map(|i| format!(" f{i:02} v")).collect();
        memory.ask(&format!("HSET h{fields}"));
        let usage = memory.ask("MEMORY USAGE h SAMPLES 0");
        let bytes: u64 = usage.trim_matches([':', '|']).parse().unwrap();
        assert!(bytes > 400, "{bytes}");
    }
}
