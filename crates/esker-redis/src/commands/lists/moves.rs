//! Commands that take elements from the first list that has any, or from one list to another one; and their blocking kin,
//! which append nothing to the reply if there is no element: see [`blocking`](crate::commands::blocking).

use super::list::{End, List, notify_popped, push};
use crate::commands::blocking::timeout_us;
use crate::commands::is;
use crate::context::{Class, Context};
use crate::fault::Fault;
use crate::numbers;
use crate::resp::reply::Reply;

/// Moves the element at the end `from` of the list `source` to the end `to` of the list `target`, if there is one.
fn move_one(
    ctx: &mut Context<'_>,
    (source, from): (&[u8], End),
    (target, to): (&[u8], End),
) -> Result<Option<Vec<u8>>, Fault> {
    let Some(mut list) = List::find(ctx, source)? else { return Ok(None) };
    if source == target {
        let value = list.pop(ctx, from)?;
        list.push(ctx, to, &value)?;
        list.save(ctx);
        ctx.notify(Class::List, to.push_event(), target);
        ctx.notify(Class::List, from.pop_event(), source);
        return Ok(Some(value));
    }
    let found = List::find(ctx, target)?;
    let (value, has_others) = list.popped(ctx, from)?;
    push(ctx, target, found, to, &[&value])?;
    notify_popped(ctx, from, source, has_others);
    Ok(Some(value))
}

pub(super) fn lmove(ctx: &mut Context<'_>, args: &[&[u8]], reply: &mut Reply) -> Result<(), Fault> {
    let (from, to) = (End::named(args[3])?, End::named(args[4])?);
    let moved = move_one(ctx, (args[1], from), (args[2], to))?;
    reply.bulk_or_null(moved.as_deref());
    Ok(())
}

pub(super) fn rpoplpush(ctx: &mut Context<'_>, args: &[&[u8]], reply: &mut Reply) -> Result<(), Fault> {
    let moved = move_one(ctx, (args[1], End::Right), (args[2], End::Left))?;
    reply.bulk_or_null(moved.as_deref());
    Ok(())
}

pub(super) fn blmove(ctx: &mut Context<'_>, args: &[&[u8]], reply: &mut Reply) -> Result<(), Fault> {
    let (from, to) = (End::named(args[3])?, End::named(args[4])?);
    timeout_us(args[5])?;
    if let Some(value) = move_one(ctx, (args[1], from), (args[2], to))? {
        reply.bulk(&value);
    }
    Ok(())
}

pub(super) fn brpoplpush(ctx: &mut Context<'_>, args: &[&[u8]], reply: &mut Reply) -> Result<(), Fault> {
    timeout_us(args[3])?;
    if let Some(value) = move_one(ctx, (args[1], End::Right), (args[2], End::Left))? {
        reply.bulk(&value);
    }
    Ok(())
}

/// The first of `keys` that has a list.
fn first_list<'a>(ctx: &Context<'_>, keys: &[&'a [u8]]) -> Result<Option<(&'a [u8], List)>, Fault> {
    for key in keys {
        if let Some(list) = List::find(ctx, key)? {
            return Ok(Some((key, list)));
        }
    }
    Ok(None)
}

fn pop_first(ctx: &mut Context<'_>, args: &[&[u8]], reply: &mut Reply, end: End) -> Result<(), Fault> {
    let Some((timeout, keys)) = args[1..].split_last() else { return Err(Fault::SYNTAX) };
    timeout_us(timeout)?;
    if let Some((key, list)) = first_list(ctx, keys)? {
        let (value, has_others) = list.popped(ctx, end)?;
        notify_popped(ctx, end, key, has_others);
        reply.array(2);
        reply.bulk(key);
        reply.bulk(&value);
    }
    Ok(())
}

pub(super) fn blpop(ctx: &mut Context<'_>, args: &[&[u8]], reply: &mut Reply) -> Result<(), Fault> {
    pop_first(ctx, args, reply, End::Left)
}

pub(super) fn brpop(ctx: &mut Context<'_>, args: &[&[u8]], reply: &mut Reply) -> Result<(), Fault> {
    pop_first(ctx, args, reply, End::Right)
}

/// What `LMPOP` and `BLMPOP` say from the number of keys on.
struct Pops<'a, 'b> {
    keys: &'a [&'b [u8]],
    end: End,
    count: i64,
}

impl<'a, 'b> Pops<'a, 'b> {
    fn parse(args: &'a [&'b [u8]]) -> Result<Pops<'a, 'b>, Fault> {
        const NO_KEYS: Fault = Fault::told("ERR numkeys should be greater than 0");
        const NO_COUNT: Fault = Fault::told("ERR count should be greater than 0");
        let positive = |argument: &[u8]| numbers::integer(argument).filter(|number| *number > 0);
        let (keys, rest) = args.split_first().ok_or(Fault::SYNTAX)?;
        let keys = usize::try_from(positive(keys).ok_or(NO_KEYS)?).unwrap_or(usize::MAX);
        let (keys, rest) = rest.split_at_checked(keys).ok_or(Fault::SYNTAX)?;
        let (end, options) = rest.split_first().ok_or(Fault::SYNTAX)?;
        let end = End::named(end)?;
        let count = match options {
            [] => 1,
            [name, count, rest @ ..] if is(name, "COUNT") => {
                let count = positive(count).ok_or(NO_COUNT)?;
                if rest.is_empty() { count } else { return Err(Fault::SYNTAX) }
            }
            _ => return Err(Fault::SYNTAX),
        };
        Ok(Pops { keys, end, count })
    }

    /// Pops from the first list and replies that. Returns whether there was one.
    fn run(&self, ctx: &mut Context<'_>, reply: &mut Reply) -> Result<bool, Fault> {
        let Some((key, list)) = first_list(ctx, self.keys)? else { return Ok(false) };
        reply.array(2);
        reply.bulk(key);
        let count = self.count.min(list.len());
        let has_others = list.reply_popped(ctx, self.end, count, reply)?;
        notify_popped(ctx, self.end, key, has_others);
        Ok(true)
    }
}

pub(super) fn lmpop(ctx: &mut Context<'_>, args: &[&[u8]], reply: &mut Reply) -> Result<(), Fault> {
    if !Pops::parse(&args[1..])?.run(ctx, reply)? {
        reply.null_array();
    }
    Ok(())
}

pub(super) fn blmpop(ctx: &mut Context<'_>, args: &[&[u8]], reply: &mut Reply) -> Result<(), Fault> {
    let pops = Pops::parse(&args[2..])?;
    timeout_us(args[1])?;
    pops.run(ctx, reply)?;
    Ok(())
}
