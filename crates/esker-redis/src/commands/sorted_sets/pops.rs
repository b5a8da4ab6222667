//! What removes members from an end of a sorted set and returns them.
//!
//! A command that may wait appends nothing to the reply if no key has a member: the server lets the client wait then.

use super::set::{Scored, SortedSet, push_members};
use crate::commands::blocking::timeout_us;
use crate::commands::{integer, is};
use crate::context::Context;
use crate::fault::Fault;
use crate::resp::reply::Reply;

const BAD_COUNT: Fault = Fault::told("ERR value is out of range, must be positive");
const NO_KEYS: Fault = Fault::told("ERR numkeys should be greater than 0");
const NO_COUNT: Fault = Fault::told("ERR count should be greater than 0");

/// From which end members go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    First,
    Last,
}

/// Removes `count` members of `key` at most from an end of `set`.
fn pop(
    ctx: &mut Context<'_>,
    key: &[u8],
    mut set: SortedSet,
    end: End,
    count: u64,
) -> Result<Vec<Scored>, Fault> {
    let count = count.min(set.len());
    let first = if end == End::First { 0 } else { set.len() - count };
    let mut popped = set.ranks(ctx.session(), first, count)?;
    let innermost = if end == End::First { popped.last() } else { popped.first() };
    if let Some(innermost) = innermost {
        set.begin_or_end_at(innermost, end == End::First);
    }
    set.remove_all(ctx, key, &popped, if end == End::First { "zpopmin" } else { "zpopmax" })?;
    if end == End::Last {
        popped.reverse();
    }
    Ok(popped)
}

/// Members that were removed, and their key.
type Popped<'a> = (&'a [u8], Vec<Scored>);

/// Removes `count` members at most of the first key that has some.
fn pop_first<'a>(
    ctx: &mut Context<'_>,
    keys: &[&'a [u8]],
    end: End,
    count: u64,
) -> Result<Option<Popped<'a>>, Fault> {
    for key in keys {
        if let Some(set) = SortedSet::find(ctx, key)? {
            return Ok(Some((key, pop(ctx, key, set, end, count)?)));
        }
    }
    Ok(None)
}

pub(super) fn zpopmin(ctx: &mut Context<'_>, args: &[&[u8]], reply: &mut Reply) -> Result<(), Fault> {
    pop_some(ctx, args, reply, End::First)
}

pub(super) fn zpopmax(ctx: &mut Context<'_>, args: &[&[u8]], reply: &mut Reply) -> Result<(), Fault> {
    pop_some(ctx, args, reply, End::Last)
}

fn pop_some(ctx: &mut Context<'_>, args: &[&[u8]], reply: &mut Reply, end: End) -> Result<(), Fault> {
    let (key, count) = match args {
        [_, key] => (*key, None),
        [_, key, count] => {
            let count = integer(count).ok().and_then(|count| u64::try_from(count).ok());
            (*key, Some(count.ok_or(BAD_COUNT)?))
        }
        _ => return Err(Fault::SYNTAX),
    };
    let popped = match SortedSet::find(ctx, key)? {
        Some(set) => pop(ctx, key, set, end, count.unwrap_or(1))?,
        None => Vec::new(),
    };
    match popped.first() {
        // Without a count, the member and its score are no pair in an array.
        Some(scored) if count.is_none() => {
            reply.array(2);
            reply.bulk(&scored.member);
            reply.double(scored.score);
        }
        _ => push_members(reply, &popped, true),
    }
    Ok(())
}

pub(super) fn bzpopmin(ctx: &mut Context<'_>, args: &[&[u8]], reply: &mut Reply) -> Result<(), Fault> {
    try_pop_one(ctx, args, reply, End::First)
}

pub(super) fn bzpopmax(ctx: &mut Context<'_>, args: &[&[u8]], reply: &mut Reply) -> Result<(), Fault> {
    try_pop_one(ctx, args, reply, End::Last)
}

fn try_pop_one(ctx: &mut Context<'_>, args: &[&[u8]], reply: &mut Reply, end: End) -> Result<(), Fault> {
    let [_, keys @ .., timeout] = args else { return Err(Fault::SYNTAX) };
    timeout_us(timeout)?;
    let Some((key, popped)) = pop_first(ctx, keys, end, 1)? else { return Ok(()) };
    for scored in popped {
        reply.array(3);
        reply.bulk(key);
        reply.bulk(&scored.member);
        reply.double(scored.score);
    }
    Ok(())
}

pub(super) fn zmpop(ctx: &mut Context<'_>, args: &[&[u8]], reply: &mut Reply) -> Result<(), Fault> {
    let many = Many::read(&args[1..])?;
    if !many.try_pop(ctx, reply)? {
        reply.null_array();
    }
    Ok(())
}

pub(super) fn bzmpop(ctx: &mut Context<'_>, args: &[&[u8]], reply: &mut Reply) -> Result<(), Fault> {
    let many = Many::read(&args[2..])?;
    timeout_us(args[1])?;
    many.try_pop(ctx, reply)?;
    Ok(())
}

/// What is to be removed: `numkeys key [key ...] MIN|MAX [COUNT count]`.
struct Many<'a, 'b> {
    keys: &'a [&'b [u8]],
    end: End,
    count: u64,
}

impl<'a, 'b> Many<'a, 'b> {
    fn read(args: &'a [&'b [u8]]) -> Result<Many<'a, 'b>, Fault> {
        let positive = |argument: &[u8]| integer(argument).ok().filter(|number| *number > 0);
        let [keys_count, rest @ ..] = args else { return Err(Fault::SYNTAX) };
        let keys_count = positive(keys_count).ok_or(NO_KEYS)?;
        let keys_count = usize::try_from(keys_count).unwrap_or(usize::MAX);
        let Some((keys, [end, options @ ..])) = rest.split_at_checked(keys_count) else {
            return Err(Fault::SYNTAX);
        };
        let end = match () {
            () if is(end, "MIN") => End::First,
            () if is(end, "MAX") => End::Last,
            () => return Err(Fault::SYNTAX),
        };
        let count = match options {
            [] => 1,
            [name, count, rest @ ..] if is(name, "COUNT") => {
                let count = positive(count).ok_or(NO_COUNT)?;
                if !rest.is_empty() {
                    return Err(Fault::SYNTAX);
                }
                count.unsigned_abs()
            }
            _ => return Err(Fault::SYNTAX),
        };
        Ok(Many { keys, end, count })
    }

    /// Returns whether a key had a member: then there is a reply.
    fn try_pop(&self, ctx: &mut Context<'_>, reply: &mut Reply) -> Result<bool, Fault> {
        let Some((key, popped)) = pop_first(ctx, self.keys, self.end, self.count)? else { return Ok(false) };
        reply.array(2);
        reply.bulk(key);
        reply.array(popped.len());
        for scored in popped {
            reply.array(2);
            reply.bulk(&scored.member);
            reply.double(scored.score);
        }
        Ok(true)
    }
}
