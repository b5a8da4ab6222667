//! Strings: a key with plain bytes.
//!
//! A string is an entry without attributes. Its value may be [`Huge`](crate::session::Huge): then commands that ask for a
//! part of it, or for its length, read no more than that ([`parts`]). Commands that change a part read and write all of it.
//!
//! A string that changes keeps its expiry; one that is set anew loses it, unless the command says otherwise ([`set`]).

use super::{ALL, FREES, Family, ONE, PAIRS, READS, Spec, WRITES, command, integer};
use crate::context::{Class, Context, Overwritten};
use crate::fault::Fault;
use crate::model::Kind;
use crate::resp::reply::Reply;
use crate::session::Lending;

mod counters;
pub(super) mod parts;
mod set;
mod string;
#[cfg(test)]
mod tests;

use Family::String as Strings;
use string::missed;
pub(super) use string::{BYTES_MAX, Changed, check_len, read, write};

pub(crate) const COMMANDS: &[Spec] = &[
    command("get", 2, Strings, READS, ONE, get, "Returns the value of a key"),
    command("set", -3, Strings, WRITES, ONE, set::set, "Sets a key to a value, perhaps with an expiry"),
    command("mget", -2, Strings, READS, ALL, mget, "Returns the values of keys"),
    command("mset", -3, Strings, WRITES, PAIRS, mset, "Sets keys to values"),
    command("msetnx", -3, Strings, WRITES, PAIRS, msetnx, "Sets keys to values if none of them exists"),
    command("setnx", 3, Strings, WRITES, ONE, set::setnx, "Sets a key to a value if it does not exist"),
    command("setex", 4, Strings, WRITES, ONE, set::setex, "Sets a key to a value that expires in seconds"),
    command(
        "psetex",
        4,
        Strings,
        WRITES,
        ONE,
        set::psetex,
        "Sets a key to a value that expires in milliseconds",
    ),
    command("getset", 3, Strings, WRITES, ONE, getset, "Sets a key to a value and returns the old one"),
    command("getdel", 2, Strings, FREES, ONE, getdel, "Deletes a key and returns its value"),
    command("getex", -2, Strings, FREES, ONE, set::getex, "Returns the value of a key and sets its expiry"),
    command("append", 3, Strings, WRITES, ONE, append, "Adds bytes to the end of a value"),
    command("strlen", 2, Strings, READS, ONE, strlen, "Returns the length of a value"),
    command("setrange", 4, Strings, WRITES, ONE, setrange, "Overwrites bytes of a value from an offset on"),
    command("getrange", 4, Strings, READS, ONE, getrange, "Returns the bytes of a value between two offsets"),
    command("substr", 4, Strings, READS, ONE, getrange, "Returns the bytes of a value between two offsets"),
    command("incr", 2, Strings, WRITES, ONE, counters::incr, "Adds one to a number"),
    command("decr", 2, Strings, WRITES, ONE, counters::decr, "Subtracts one from a number"),
    command("incrby", 3, Strings, WRITES, ONE, counters::incrby, "Adds an integer to a number"),
    command("decrby", 3, Strings, WRITES, ONE, counters::decrby, "Subtracts an integer from a number"),
    command(
        "incrbyfloat",
        3,
        Strings,
        WRITES,
        ONE,
        counters::incrbyfloat,
        "Adds a decimal number to a number",
    ),
];

fn get(ctx: &mut Context<'_>, args: &[&[u8]], reply: &mut Reply) -> Result<(), Fault> {
    match ctx.lend_string(args[1], |bytes| reply.bulk(bytes))? {
        Lending::Lent => return Ok(()),
        Lending::Absent => missed(ctx, args[1]),
        Lending::Refused => {
            if let Some(entry) = read(ctx, args[1])? {
                return Ok(parts::answer(reply, &entry.value)?);
            }
        }
    }
    reply.null();
    Ok(())
}

fn mget(ctx: &mut Context<'_>, args: &[&[u8]], reply: &mut Reply) -> Result<(), Fault> {
    let keys = &args[1..];
    let begin = reply.bytes.len();
    reply.array(keys.len());
    for key in keys {
        ctx.session().may_make((reply.bytes.len() - begin) as u64)?;
        let found = match ctx.lend_string(key, |bytes| reply.bulk(bytes))? {
            Lending::Lent => continue,
            Lending::Absent => None,
            Lending::Refused => ctx.get(key)?,
        };
        match found {
            Some(entry) if Kind::of(&entry)? == Kind::String => parts::answer(reply, &entry.value)?,
            Some(_) => reply.null(),
            None => {
                missed(ctx, key);
                reply.null();
            }
        }
    }
    Ok(())
}

/// The places of the keys of `MSET` and its like; each one's value is behind it.
fn key_places(args: &[&[u8]], arity: &'static str) -> Result<impl Iterator<Item = usize> + use<>, Fault> {
    if args.len().is_multiple_of(2) { Err(Fault::told(arity)) } else { Ok((1..args.len()).step_by(2)) }
}

fn set_pairs(
    ctx: &mut Context<'_>,
    args: &[&[u8]],
    places: impl Iterator<Item = usize>,
) -> Result<(), Fault> {
    for at in places {
        let old = ctx.overwritten(args[at])?;
        let value = ctx.value(args, at + 1);
        write(ctx, args[at], old, value, None)?;
        ctx.notify(Class::String, "set", args[at]);
    }
    Ok(())
}

fn mset(ctx: &mut Context<'_>, args: &[&[u8]], reply: &mut Reply) -> Result<(), Fault> {
    let places = key_places(args, "ERR wrong number of arguments for 'mset' command")?;
    set_pairs(ctx, args, places)?;
    reply.ok();
    Ok(())
}

const MSETNX_ARITY: &str = "ERR wrong number of arguments for 'msetnx' command";

fn msetnx(ctx: &mut Context<'_>, args: &[&[u8]], reply: &mut Reply) -> Result<(), Fault> {
    for at in key_places(args, MSETNX_ARITY)? {
        if ctx.contains(args[at])? {
            reply.flag(false);
            return Ok(());
        }
    }
    set_pairs(ctx, args, key_places(args, MSETNX_ARITY)?)?;
    reply.flag(true);
    Ok(())
}

fn getset(ctx: &mut Context<'_>, args: &[&[u8]], reply: &mut Reply) -> Result<(), Fault> {
    let old = read(ctx, args[1])?;
    match &old {
        Some(old) => parts::answer(reply, &old.value)?,
        None => reply.null(),
    }
    let value = ctx.value(args, 2);
    write(ctx, args[1], Overwritten::Known(old), value, None)?;
    ctx.notify(Class::String, "set", args[1]);
    Ok(())
}

fn getdel(ctx: &mut Context<'_>, args: &[&[u8]], reply: &mut Reply) -> Result<(), Fault> {
    let Some(entry) = read(ctx, args[1])? else {
        reply.null();
        return Ok(());
    };
    parts::answer(reply, &entry.value)?;
    ctx.delete_entry(args[1]);
    ctx.notify(Class::Generic, "del", args[1]);
    Ok(())
}

fn append(ctx: &mut Context<'_>, args: &[&[u8]], reply: &mut Reply) -> Result<(), Fault> {
    let (key, more) = (args[1], args[2]);
    let old = ctx.get_string(key)?;
    if let Some(old) = &old {
        check_len(old.value.len(), more.len() as u64)?;
        ctx.session().may_make(old.value.len() + more.len() as u64)?;
    }
    let mut string = Changed::of(old)?;
    string.bytes.extend_from_slice(more);
    reply.count(string.bytes.len() as u64);
    string.save(ctx, key);
    ctx.notify(Class::String, "append", key);
    Ok(())
}

fn strlen(ctx: &mut Context<'_>, args: &[&[u8]], reply: &mut Reply) -> Result<(), Fault> {
    let entry = read(ctx, args[1])?;
    reply.count(entry.map_or(0, |entry| entry.value.len()));
    Ok(())
}

fn setrange(ctx: &mut Context<'_>, args: &[&[u8]], reply: &mut Reply) -> Result<(), Fault> {
    let (key, part) = (args[1], args[3]);
    let Ok(offset) = u64::try_from(integer(args[2])?) else {
        return Err(Fault::told("ERR offset is out of range"));
    };
    let old = ctx.get_string(key)?;
    if part.is_empty() {
        reply.count(old.map_or(0, |old| old.value.len()));
        return Ok(());
    }
    check_len(offset, part.len() as u64)?;
    ctx.session().may_make(offset + part.len() as u64)?;
    let mut string = Changed::of(old)?;
    // Both are at most BYTES_MAX.
    let (begin, end) = (offset as usize, offset as usize + part.len());
    if string.bytes.len() < end {
        string.bytes.resize(end, 0);
    }
    string.bytes[begin..end].copy_from_slice(part);
    reply.count(string.bytes.len() as u64);
    string.save(ctx, key);
    ctx.notify(Class::String, "setrange", key);
    Ok(())
}

fn getrange(ctx: &mut Context<'_>, args: &[&[u8]], reply: &mut Reply) -> Result<(), Fault> {
    let (first, last) = (integer(args[2])?, integer(args[3])?);
    let Some(entry) = read(ctx, args[1])? else {
        reply.bulk(b"");
        return Ok(());
    };
    match parts::within(first, last, entry.value.len()) {
        Some(range) if !parts::is_backwards(first, last) => parts::answer_part(reply, &entry.value, range)?,
        _ => reply.bulk(b""),
    }
    Ok(())
}
