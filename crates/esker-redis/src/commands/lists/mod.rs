//! Commands about lists.
//!
//! An index is arithmetic (see [`list`]): what is done at an end or at an index takes the same time for any length. What is
//! done within a list moves the elements on its shorter side.

mod list;
mod moves;
mod search;

#[cfg(test)]
mod tests;

use list::{End, List, notify_popped, push};

use super::{
    ALL_BUT_LAST, FREES, FREES_ALL, Family, Flags, Keys, ONE, READS, READS_ALL, Spec, TWO, WRITES, WRITES_ALL,
};
use super::{command, integer};
use crate::context::{Class, Context};
use crate::fault::Fault;
use crate::numbers;
use crate::resp::reply::Reply;

use Family::List as L;

const WAITS: Flags = Flags { blocks: true, ..WRITES };
const FREES_WAITING: Flags = Flags { blocks: true, ..FREES };
const COUNTED: Keys = Keys::Counted { at: 1, with_target: false };
const COUNTED_LATER: Keys = Keys::Counted { at: 2, with_target: false };

pub(crate) const COMMANDS: &[Spec] = &[
    command("lpush", -3, L, WRITES, ONE, lpush, "Adds elements at the left end of a list"),
    command("rpush", -3, L, WRITES, ONE, rpush, "Adds elements at the right end of a list"),
    command("lpushx", -3, L, WRITES, ONE, lpushx, "Adds elements at the left end of a list that exists"),
    command("rpushx", -3, L, WRITES, ONE, rpushx, "Adds elements at the right end of a list that exists"),
    command("lpop", -2, L, FREES, ONE, lpop, "Removes elements at the left end of a list and returns them"),
    command("rpop", -2, L, FREES, ONE, rpop, "Removes elements at the right end of a list and returns them"),
    command("llen", 2, L, READS, ONE, llen, "Returns the length of a list"),
    command("lrange", 4, L, READS_ALL, ONE, lrange, "Returns the elements between two indexes"),
    command("lindex", 3, L, READS, ONE, lindex, "Returns the element at an index"),
    command("lset", 4, L, WRITES, ONE, lset, "Replaces the element at an index"),
    command("ltrim", 4, L, FREES_ALL, ONE, ltrim, "Keeps only the elements between two indexes"),
    command("lrem", 4, L, FREES_ALL, ONE, search::lrem, "Removes elements that are equal to a value"),
    command("linsert", 5, L, WRITES_ALL, ONE, search::linsert, "Adds an element beside another one"),
    command("lpos", -3, L, READS_ALL, ONE, search::lpos, "Returns the indexes of elements equal to a value"),
    command("lmove", 5, L, WRITES, TWO, moves::lmove, "Moves an element from one list to another one"),
    command("rpoplpush", 3, L, WRITES, TWO, moves::rpoplpush, "Moves the last element to another list"),
    command("lmpop", -4, L, FREES, COUNTED, moves::lmpop, "Removes elements of the first list that has any"),
    command(
        "blpop",
        -3,
        L,
        FREES_WAITING,
        ALL_BUT_LAST,
        moves::blpop,
        "As LPOP on the first list that gets elements",
    ),
    command(
        "brpop",
        -3,
        L,
        FREES_WAITING,
        ALL_BUT_LAST,
        moves::brpop,
        "As RPOP on the first list that gets elements",
    ),
    command("blmove", 6, L, WAITS, TWO, moves::blmove, "As LMOVE when there is an element"),
    command("brpoplpush", 4, L, WAITS, TWO, moves::brpoplpush, "As RPOPLPUSH when there is an element"),
    command(
        "blmpop",
        -5,
        L,
        FREES_WAITING,
        COUNTED_LATER,
        moves::blmpop,
        "As LMPOP when there is an element",
    ),
];

fn push_to(ctx: &mut Context<'_>, args: &[&[u8]], reply: &mut Reply, end: End) -> Result<(), Fault> {
    let found = List::find(ctx, args[1])?;
    let len = push(ctx, args[1], found, end, &args[2..])?;
    reply.integer(len);
    Ok(())
}

fn lpush(ctx: &mut Context<'_>, args: &[&[u8]], reply: &mut Reply) -> Result<(), Fault> {
    push_to(ctx, args, reply, End::Left)
}

fn rpush(ctx: &mut Context<'_>, args: &[&[u8]], reply: &mut Reply) -> Result<(), Fault> {
    push_to(ctx, args, reply, End::Right)
}

fn push_to_existing(ctx: &mut Context<'_>, args: &[&[u8]], reply: &mut Reply, end: End) -> Result<(), Fault> {
    let len = match List::find(ctx, args[1])? {
        Some(list) => push(ctx, args[1], Some(list), end, &args[2..])?,
        None => 0,
    };
    reply.integer(len);
    Ok(())
}

fn lpushx(ctx: &mut Context<'_>, args: &[&[u8]], reply: &mut Reply) -> Result<(), Fault> {
    push_to_existing(ctx, args, reply, End::Left)
}

fn rpushx(ctx: &mut Context<'_>, args: &[&[u8]], reply: &mut Reply) -> Result<(), Fault> {
    push_to_existing(ctx, args, reply, End::Right)
}

fn pop(ctx: &mut Context<'_>, args: &[&[u8]], reply: &mut Reply, end: End) -> Result<(), Fault> {
    const NOT_POSITIVE: Fault = Fault::told("ERR value is out of range, must be positive");
    let count = match args {
        [_, _] => None,
        [_, _, count] => Some(numbers::integer(count).filter(|count| *count >= 0).ok_or(NOT_POSITIVE)?),
        _ => return Err(wrong_number(end)),
    };
    let Some(list) = List::find(ctx, args[1])? else {
        if count.is_some() {
            reply.null_array();
        } else {
            reply.null();
        }
        return Ok(());
    };
    match count {
        None => {
            let (value, has_others) = list.popped(ctx, end)?;
            notify_popped(ctx, end, args[1], has_others);
            reply.bulk(&value);
        }
        Some(0) => reply.array(0),
        Some(count) => {
            let count = count.min(list.len());
            let has_others = list.reply_popped(ctx, end, count, reply)?;
            notify_popped(ctx, end, args[1], has_others);
        }
    }
    Ok(())
}

fn wrong_number(end: End) -> Fault {
    Fault::told(match end {
        End::Left => "ERR wrong number of arguments for 'lpop' command",
        End::Right => "ERR wrong number of arguments for 'rpop' command",
    })
}

fn lpop(ctx: &mut Context<'_>, args: &[&[u8]], reply: &mut Reply) -> Result<(), Fault> {
    pop(ctx, args, reply, End::Left)
}

fn rpop(ctx: &mut Context<'_>, args: &[&[u8]], reply: &mut Reply) -> Result<(), Fault> {
    pop(ctx, args, reply, End::Right)
}

fn llen(ctx: &mut Context<'_>, args: &[&[u8]], reply: &mut Reply) -> Result<(), Fault> {
    let list = List::read(ctx, args[1])?;
    reply.integer(list.map_or(0, |list| list.len()));
    Ok(())
}

fn lrange(ctx: &mut Context<'_>, args: &[&[u8]], reply: &mut Reply) -> Result<(), Fault> {
    let (start, end) = (integer(args[2])?, integer(args[3])?);
    let Some(list) = List::read(ctx, args[1])? else {
        reply.array(0);
        return Ok(());
    };
    let range = list.range(start, end);
    Ok(list.reply(ctx.session(), range, false, reply)?)
}

fn lindex(ctx: &mut Context<'_>, args: &[&[u8]], reply: &mut Reply) -> Result<(), Fault> {
    let Some(list) = List::read(ctx, args[1])? else {
        reply.null();
        return Ok(());
    };
    let index = list.index(integer(args[2])?);
    if (0..list.len()).contains(&index) {
        reply.bulk(&list.get(ctx.session(), index)?);
    } else {
        reply.null();
    }
    Ok(())
}

fn lset(ctx: &mut Context<'_>, args: &[&[u8]], reply: &mut Reply) -> Result<(), Fault> {
    let mut list = List::find(ctx, args[1])?.ok_or(Fault::NO_SUCH_KEY)?;
    let index = list.index(integer(args[2])?);
    if !(0..list.len()).contains(&index) {
        return Err(Fault::OUT_OF_RANGE);
    }
    list.set(ctx, index, args[3])?;
    list.save(ctx);
    ctx.notify(Class::List, "lset", args[1]);
    reply.ok();
    Ok(())
}

fn ltrim(ctx: &mut Context<'_>, args: &[&[u8]], reply: &mut Reply) -> Result<(), Fault> {
    let (start, end) = (integer(args[2])?, integer(args[3])?);
    if let Some(list) = List::find(ctx, args[1])? {
        let range = list.range(start, end);
        let has_others = list.keep(ctx, range)?;
        ctx.notify(Class::List, "ltrim", args[1]);
        if !has_others {
            ctx.notify(Class::Generic, "del", args[1]);
        }
    }
    reply.ok();
    Ok(())
}
