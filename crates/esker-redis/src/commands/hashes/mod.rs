//! The commands of hashes: fields with values, in the order of the fields' bytes.

#[cfg(test)]
mod tests;

use crate::commands::random::{self, Choice};
use crate::commands::{
    FREES, Family, ONE, READS, READS_ALL, Spec, WRITES, collections, command, integer, is, scan,
};
use crate::context::{Class, Context};
use crate::fault::Fault;
use crate::model::{Collection, Kind};
use crate::numbers::{self, Decimal};
use crate::resp::reply::Reply;

use Family::Hash;

pub(crate) const COMMANDS: &[Spec] = &[
    command("hset", -4, Hash, WRITES, ONE, hset, "Sets fields of a hash"),
    command("hsetnx", 4, Hash, WRITES, ONE, hsetnx, "Sets a field of a hash if it is not there"),
    command("hmset", -4, Hash, WRITES, ONE, hmset, "Sets fields of a hash"),
    command("hget", 3, Hash, READS, ONE, hget, "Returns the value of a field"),
    command("hmget", -3, Hash, READS, ONE, hmget, "Returns the values of fields"),
    command("hgetall", 2, Hash, READS_ALL, ONE, hgetall, "Returns all fields of a hash with their values"),
    command("hdel", -3, Hash, FREES, ONE, hdel, "Deletes fields of a hash"),
    command("hlen", 2, Hash, READS, ONE, hlen, "Returns the number of fields of a hash"),
    command("hexists", 3, Hash, READS, ONE, hexists, "Returns whether a hash has a field"),
    command("hkeys", 2, Hash, READS_ALL, ONE, hkeys, "Returns all fields of a hash"),
    command("hvals", 2, Hash, READS_ALL, ONE, hvals, "Returns all values of a hash"),
    command("hstrlen", 3, Hash, READS, ONE, hstrlen, "Returns the length of a field's value"),
    command("hincrby", 4, Hash, WRITES, ONE, hincrby, "Adds an integer to the value of a field"),
    command("hincrbyfloat", 4, Hash, WRITES, ONE, hincrbyfloat, "Adds a number to the value of a field"),
    command("hscan", -3, Hash, READS, ONE, hscan, "Returns the fields of a hash piece by piece"),
    command("hrandfield", -2, Hash, READS_ALL, ONE, hrandfield, "Returns random fields of a hash"),
];

fn read(ctx: &mut Context<'_>, key: &[u8]) -> Result<Option<Collection>, Fault> {
    collections::read(ctx, key, Kind::Hash)
}

fn open(ctx: &mut Context<'_>, key: &[u8]) -> Result<Collection, Fault> {
    collections::open(ctx, key, Kind::Hash)
}

/// The value of a field, if there is such a hash and it has one.
fn value_of(ctx: &mut Context<'_>, key: &[u8], field: &[u8]) -> Result<Option<Vec<u8>>, Fault> {
    let Some(hash) = read(ctx, key)? else { return Ok(None) };
    Ok(hash.get(ctx.session(), field)?)
}

/// Sets the fields of `args` behind the key. Returns how many of them are new.
fn set(ctx: &mut Context<'_>, args: &[&[u8]], name: &str) -> Result<u64, Fault> {
    let (pairs, rest) = args[2..].as_chunks::<2>();
    if !rest.is_empty() {
        return Err(Fault::made(format!("ERR wrong number of arguments for '{name}' command")));
    }
    let mut hash = open(ctx, args[1])?;
    let mut added = 0;
    for [field, value] in pairs {
        added += u64::from(hash.insert(ctx, field, value)?);
    }
    hash.save(ctx);
    ctx.notify(Class::Hash, "hset", args[1]);
    Ok(added)
}

fn hset(ctx: &mut Context<'_>, args: &[&[u8]], reply: &mut Reply) -> Result<(), Fault> {
    let added = set(ctx, args, "hset")?;
    reply.count(added);
    Ok(())
}

fn hmset(ctx: &mut Context<'_>, args: &[&[u8]], reply: &mut Reply) -> Result<(), Fault> {
    set(ctx, args, "hmset")?;
    reply.ok();
    Ok(())
}

fn hsetnx(ctx: &mut Context<'_>, args: &[&[u8]], reply: &mut Reply) -> Result<(), Fault> {
    let mut hash = open(ctx, args[1])?;
    let is_free = hash.get(ctx.session(), args[2])?.is_none();
    if is_free {
        hash.insert(ctx, args[2], args[3])?;
        hash.save(ctx);
        ctx.notify(Class::Hash, "hset", args[1]);
    }
    reply.flag(is_free);
    Ok(())
}

fn hget(ctx: &mut Context<'_>, args: &[&[u8]], reply: &mut Reply) -> Result<(), Fault> {
    let value = value_of(ctx, args[1], args[2])?;
    reply.bulk_or_null(value.as_deref());
    Ok(())
}

fn hmget(ctx: &mut Context<'_>, args: &[&[u8]], reply: &mut Reply) -> Result<(), Fault> {
    let hash = read(ctx, args[1])?;
    let fields = &args[2..];
    reply.array(fields.len());
    for field in fields {
        let value = hash.as_ref().map(|hash| hash.get(ctx.session(), field)).transpose()?.flatten();
        reply.bulk_or_null(value.as_deref());
    }
    Ok(())
}

fn hgetall(ctx: &mut Context<'_>, args: &[&[u8]], reply: &mut Reply) -> Result<(), Fault> {
    let Some(hash) = read(ctx, args[1])? else {
        reply.map(0);
        return Ok(());
    };
    reply.map(hash.entries() as usize);
    collections::each(ctx, &hash, |field, value| {
        reply.bulk(field);
        reply.bulk(value);
    })?;
    Ok(())
}

fn hkeys(ctx: &mut Context<'_>, args: &[&[u8]], reply: &mut Reply) -> Result<(), Fault> {
    let Some(hash) = read(ctx, args[1])? else {
        reply.array(0);
        return Ok(());
    };
    reply.array(hash.entries() as usize);
    collections::each(ctx, &hash, |field, _| reply.bulk(field))?;
    Ok(())
}

fn hvals(ctx: &mut Context<'_>, args: &[&[u8]], reply: &mut Reply) -> Result<(), Fault> {
    let Some(hash) = read(ctx, args[1])? else {
        reply.array(0);
        return Ok(());
    };
    reply.array(hash.entries() as usize);
    collections::each(ctx, &hash, |_, value| reply.bulk(value))?;
    Ok(())
}

fn hdel(ctx: &mut Context<'_>, args: &[&[u8]], reply: &mut Reply) -> Result<(), Fault> {
    let mut removed = 0;
    if let Some(mut hash) = Collection::find(ctx, args[1], Kind::Hash)? {
        for field in &args[2..] {
            removed += u64::from(hash.remove(ctx, field)?.is_some());
        }
        if removed > 0 {
            ctx.notify(Class::Hash, "hdel", args[1]);
            collections::save_rest(ctx, args[1], hash);
        }
    }
    reply.count(removed);
    Ok(())
}

fn hlen(ctx: &mut Context<'_>, args: &[&[u8]], reply: &mut Reply) -> Result<(), Fault> {
    let hash = read(ctx, args[1])?;
    reply.count(hash.map_or(0, |hash| hash.entries()));
    Ok(())
}

fn hexists(ctx: &mut Context<'_>, args: &[&[u8]], reply: &mut Reply) -> Result<(), Fault> {
    let value = value_of(ctx, args[1], args[2])?;
    reply.flag(value.is_some());
    Ok(())
}

fn hstrlen(ctx: &mut Context<'_>, args: &[&[u8]], reply: &mut Reply) -> Result<(), Fault> {
    let value = value_of(ctx, args[1], args[2])?;
    reply.count(value.map_or(0, |value| value.len() as u64));
    Ok(())
}

fn hincrby(ctx: &mut Context<'_>, args: &[&[u8]], reply: &mut Reply) -> Result<(), Fault> {
    let by = integer(args[3])?;
    let mut hash = open(ctx, args[1])?;
    let old = match hash.get(ctx.session(), args[2])? {
        Some(old) => numbers::integer(&old).ok_or(Fault::told("ERR hash value is not an integer"))?,
        None => 0,
    };
    let new = old.checked_add(by).ok_or(Fault::told("ERR increment or decrement would overflow"))?;
    hash.insert(ctx, args[2], new.to_string().as_bytes())?;
    hash.save(ctx);
    ctx.notify(Class::Hash, "hincrby", args[1]);
    reply.integer(new);
    Ok(())
}

fn hincrbyfloat(ctx: &mut Context<'_>, args: &[&[u8]], reply: &mut Reply) -> Result<(), Fault> {
    let by = Decimal::parse(args[3]).ok_or(Fault::NOT_FLOAT)?;
    if by.is_infinite() {
        return Err(Fault::told("ERR value is NaN or Infinity"));
    }
    let mut hash = open(ctx, args[1])?;
    let old = hash.get(ctx.session(), args[2])?;
    let old = Decimal::parse(old.as_deref().unwrap_or(b"0"));
    let new = old.ok_or(Fault::told("ERR hash value is not a float"))?.plus(&by)?;
    hash.insert(ctx, args[2], new.as_bytes())?;
    hash.save(ctx);
    ctx.notify(Class::Hash, "hincrbyfloat", args[1]);
    reply.bulk(new.as_bytes());
    Ok(())
}

fn hscan(ctx: &mut Context<'_>, args: &[&[u8]], reply: &mut Reply) -> Result<(), Fault> {
    let cursor = scan::cursor(args[2])?;
    // Of a key that is not there, Redis does not look at the options.
    let Some(hash) = read(ctx, args[1])? else {
        scan::begin_reply(reply, 0, 0);
        return Ok(());
    };
    let options = scan::options(&args[3..], false)?;
    let (next, pairs) = scan::piece(ctx, &hash, &[], cursor, &options)?;
    scan::begin_reply(reply, next, 2 * pairs.len());
    for (field, value) in pairs {
        reply.bulk(&field);
        reply.bulk(&value);
    }
    Ok(())
}

fn hrandfield(ctx: &mut Context<'_>, args: &[&[u8]], reply: &mut Reply) -> Result<(), Fault> {
    let Some(count) = args.get(2) else {
        let field = match read(ctx, args[1])? {
            Some(hash) => Choice::of(&hash, false).distinct(ctx, 1)?.pop(),
            None => None,
        };
        reply.bulk_or_null(field.as_ref().map(|(field, _)| field.as_slice()));
        return Ok(());
    };
    let count = random::count(count)?;
    let with_values = match &args[3..] {
        [] => false,
        [word] if is(word, "WITHVALUES") => true,
        _ => return Err(Fault::SYNTAX),
    };
    // Redis counts values too, and does not want more than an integer holds.
    if with_values && count.unsigned_abs() > i64::MAX.unsigned_abs() / 2 {
        return Err(Fault::told("ERR value is out of range"));
    }
    random_fields(ctx, args[1], count, with_values, reply)
}

/// Answers with `count` different fields, or with fields that may repeat if it is negative.
fn random_fields(
    ctx: &mut Context<'_>,
    key: &[u8],
    count: i64,
    with_values: bool,
    reply: &mut Reply,
) -> Result<(), Fault> {
    let push = |reply: &mut Reply, field: &[u8], value: &[u8]| {
        if with_values && reply.resp3 {
            reply.array(2);
        }
        reply.bulk(field);
        if with_values {
            reply.bulk(value);
        }
    };
    let begin = |reply: &mut Reply, len: u64| {
        let replies = if with_values && !reply.resp3 { 2 * len } else { len };
        reply.array(replies as usize);
    };
    let Some(hash) = read(ctx, key)? else {
        begin(reply, 0);
        return Ok(());
    };
    let wanted = count.unsigned_abs();
    let choice = Choice::of(&hash, with_values);
    if count < 0 {
        begin(reply, wanted);
        choice.repeated(ctx, wanted, reply, push)
    } else if wanted >= hash.entries() {
        begin(reply, hash.entries());
        Ok(collections::each(ctx, &hash, |field, value| push(reply, field, value))?)
    } else {
        let chosen = choice.distinct(ctx, wanted)?;
        begin(reply, chosen.len() as u64);
        chosen.iter().for_each(|(field, value)| push(reply, field, value));
        Ok(())
    }
}
