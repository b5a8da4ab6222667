//! Strings that are numbers: `INCR` and its like.

use super::Changed;
use crate::commands::integer;
use crate::context::{Class, Context};
use crate::fault::Fault;
use crate::numbers;
use crate::resp::reply::Reply;
use crate::session::Entry;

/// A longer text is no number. It is not even read.
const TEXT_MAX: u64 = 5 << 10;

/// The text that `entry` has, to be parsed as a number; 0 if there is no entry; `fault` if it cannot be one.
fn number(entry: Option<Entry>, fault: Fault) -> Result<Changed, Fault> {
    if entry.as_ref().is_some_and(|entry| entry.value.len() > TEXT_MAX) {
        return Err(fault);
    }
    let mut number = Changed::of(entry)?;
    if number.is_new() {
        number.bytes.push(b'0');
    }
    Ok(number)
}

fn add(ctx: &mut Context<'_>, key: &[u8], by: i64, reply: &mut Reply) -> Result<(), Fault> {
    let mut number = number(ctx.get_string(key)?, Fault::NOT_INTEGER)?;
    let Some(sum) = integer(&number.bytes)?.checked_add(by) else {
        return Err(Fault::told("ERR increment or decrement would overflow"));
    };
    number.bytes.clear();
    numbers::push_integer(&mut number.bytes, sum);
    number.save(ctx, key);
    ctx.notify(Class::String, "incrby", key);
    reply.integer(sum);
    Ok(())
}

pub(super) fn incr(ctx: &mut Context<'_>, args: &[&[u8]], reply: &mut Reply) -> Result<(), Fault> {
    add(ctx, args[1], 1, reply)
}

pub(super) fn decr(ctx: &mut Context<'_>, args: &[&[u8]], reply: &mut Reply) -> Result<(), Fault> {
    add(ctx, args[1], -1, reply)
}

pub(super) fn incrby(ctx: &mut Context<'_>, args: &[&[u8]], reply: &mut Reply) -> Result<(), Fault> {
    add(ctx, args[1], integer(args[2])?, reply)
}

pub(super) fn decrby(ctx: &mut Context<'_>, args: &[&[u8]], reply: &mut Reply) -> Result<(), Fault> {
    let by = integer(args[2])?.checked_neg().ok_or(Fault::told("ERR decrement would overflow"))?;
    add(ctx, args[1], by, reply)
}

pub(super) fn incrbyfloat(ctx: &mut Context<'_>, args: &[&[u8]], reply: &mut Reply) -> Result<(), Fault> {
    let key = args[1];
    let mut number = number(ctx.get_string(key)?, Fault::NOT_FLOAT)?;
    let sum = numbers::add_decimal(&number.bytes, args[2])?;
    reply.bulk(sum.as_bytes());
    number.bytes = sum.into_bytes();
    number.save(ctx, key);
    ctx.notify(Class::String, "incrbyfloat", key);
    Ok(())
}
