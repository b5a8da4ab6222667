//! `SET` with its options, the commands that are a `SET` with some of them, and `GETEX`, which shares those of expiry.

use super::{parts, read, write};
use crate::commands::{integer, is};
use crate::context::{Class, Context, Overwritten};
use crate::fault::Fault;
use crate::resp::reply::Reply;

/// When a key expires, as a client says it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Expiry<'a> {
    number: &'a [u8],
    /// How many milliseconds one of `number` is.
    unit_ms: i64,
    /// Whether `number` counts from 1970, and not from now.
    is_absolute: bool,
}

impl<'a> Expiry<'a> {
    /// That of an option with this name.
    fn of(option: &[u8], number: &'a [u8]) -> Option<Expiry<'a>> {
        let all = [("EX", 1000, false), ("PX", 1, false), ("EXAT", 1000, true), ("PXAT", 1, true)];
        let (_, unit_ms, is_absolute) = all.into_iter().find(|(name, _, _)| is(option, name))?;
        Some(Expiry { number, unit_ms, is_absolute })
    }

    /// The time by the clock of [`Context::now_ms`], in milliseconds since 1970. What the client says must be after 1970, and in
    /// 64 bits.
    fn at_ms(&self, ctx: &Context<'_>, command: &str) -> Result<i64, Fault> {
        let number = integer(self.number)?;
        let at = |ms: i64| match self.is_absolute {
            true => Some(ms.saturating_add(ctx.ahead_ms())),
            false => ms.checked_add(ctx.now_ms()),
        };
        Some(number)
            .filter(|number| *number > 0)
            .and_then(|number| at(number.checked_mul(self.unit_ms)?))
            .ok_or_else(|| Fault::made(format!("ERR invalid expire time in '{command}' command")))
    }
}

/// What becomes of a key's expiry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Change<'a> {
    /// No option says: `SET` takes it away, `GETEX` leaves it.
    Unsaid,
    Keep,
    Persist,
    To(Expiry<'a>),
}

impl<'a> Change<'a> {
    /// Becomes `to`. Options may say the same twice, but not different things; `EX` twice means the last one.
    fn turn(&mut self, to: Change<'a>) -> Result<(), Fault> {
        let fits = match (*self, to) {
            (Change::Unsaid, _) => true,
            (Change::To(before), Change::To(now)) => Expiry { number: now.number, ..before } == now,
            (before, now) => before == now,
        };
        if !fits {
            return Err(Fault::SYNTAX);
        }
        *self = to;
        Ok(())
    }

    /// The change's time in milliseconds since 1970, if it has one.
    fn at_ms(&self, ctx: &Context<'_>, command: &str) -> Result<Option<i64>, Fault> {
        let Change::To(expiry) = self else { return Ok(None) };
        expiry.at_ms(ctx, command).map(Some)
    }
}

/// Milliseconds since 1970 as what an entry has. Times that are too far away become the last one there is.
fn microseconds(ms: i64) -> u64 {
    ms.unsigned_abs().saturating_mul(1000)
}

/// On which condition a key is set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Condition {
    None,
    IsNew,
    Exists,
}

/// What the options of `SET` ask for.
struct Options<'a> {
    condition: Condition,
    returns_old: bool,
    expiry: Change<'a>,
}

impl<'a> Options<'a> {
    fn parse(args: &[&'a [u8]]) -> Result<Options<'a>, Fault> {
        let mut options = Options { condition: Condition::None, returns_old: false, expiry: Change::Unsaid };
        let mut rest = args.iter();
        while let Some(word) = rest.next() {
            if is(word, "NX") && options.condition != Condition::Exists {
                options.condition = Condition::IsNew;
            } else if is(word, "XX") && options.condition != Condition::IsNew {
                options.condition = Condition::Exists;
            } else if is(word, "GET") {
                options.returns_old = true;
            } else if is(word, "KEEPTTL") {
                options.expiry.turn(Change::Keep)?;
            } else {
                options.expiry.turn(expiry(word, &mut rest)?)?;
            }
        }
        Ok(options)
    }

    /// Whether it does not matter what the key had.
    fn is_blind(&self) -> bool {
        self.condition == Condition::None && !self.returns_old && !matches!(self.expiry, Change::Keep)
    }
}

/// The option of expiry with the name `word`, whose number is next.
fn expiry<'a>(word: &[u8], rest: &mut std::slice::Iter<'_, &'a [u8]>) -> Result<Change<'a>, Fault> {
    let number = rest.next().ok_or(Fault::SYNTAX)?;
    Expiry::of(word, number).map(Change::To).ok_or(Fault::SYNTAX)
}

pub(super) fn set(ctx: &mut Context<'_>, args: &[&[u8]], reply: &mut Reply) -> Result<(), Fault> {
    let (key, options) = (args[1], Options::parse(&args[3..])?);
    let at_ms = options.expiry.at_ms(ctx, "set")?;
    if options.is_blind() {
        let old = ctx.overwritten(key)?;
        reply.ok();
        let value = ctx.value(args, 2);
        write(ctx, key, old, value, at_ms.map(microseconds))?;
    } else {
        let old = if options.returns_old { read(ctx, key)? } else { ctx.get(key)? };
        let is_set = match options.condition {
            Condition::None => true,
            Condition::IsNew => old.is_none(),
            Condition::Exists => old.is_some(),
        };
        match &old {
            Some(old) if options.returns_old => parts::answer(reply, &old.value)?,
            _ if options.returns_old || !is_set => reply.null(),
            _ => reply.ok(),
        }
        if !is_set {
            return Ok(());
        }
        let expires_us = match options.expiry {
            Change::Keep => old.as_ref().and_then(|old| old.expires_us),
            _ => at_ms.map(microseconds),
        };
        let value = ctx.value(args, 2);
        write(ctx, key, Overwritten::Known(old), value, expires_us)?;
    }
    ctx.notify(Class::String, "set", key);
    if at_ms.is_some() {
        ctx.notify(Class::Generic, "expire", key);
    }
    Ok(())
}

pub(super) fn setnx(ctx: &mut Context<'_>, args: &[&[u8]], reply: &mut Reply) -> Result<(), Fault> {
    let is_new = !ctx.contains(args[1])?;
    if is_new {
        let value = ctx.value(args, 2);
        write(ctx, args[1], Overwritten::Known(None), value, None)?;
        ctx.notify(Class::String, "set", args[1]);
    }
    reply.flag(is_new);
    Ok(())
}

/// `SET` with a time, for the command of this name.
fn set_until(
    ctx: &mut Context<'_>,
    args: &[&[u8]],
    reply: &mut Reply,
    unit_ms: i64,
    command: &str,
) -> Result<(), Fault> {
    let expiry = Expiry { number: args[2], unit_ms, is_absolute: false };
    let at_ms = expiry.at_ms(ctx, command)?;
    let old = ctx.overwritten(args[1])?;
    let value = ctx.value(args, 3);
    write(ctx, args[1], old, value, Some(microseconds(at_ms)))?;
    ctx.notify(Class::String, "set", args[1]);
    ctx.notify(Class::Generic, "expire", args[1]);
    reply.ok();
    Ok(())
}

pub(super) fn setex(ctx: &mut Context<'_>, args: &[&[u8]], reply: &mut Reply) -> Result<(), Fault> {
    set_until(ctx, args, reply, 1000, "setex")
}

pub(super) fn psetex(ctx: &mut Context<'_>, args: &[&[u8]], reply: &mut Reply) -> Result<(), Fault> {
    set_until(ctx, args, reply, 1, "psetex")
}

pub(super) fn getex(ctx: &mut Context<'_>, args: &[&[u8]], reply: &mut Reply) -> Result<(), Fault> {
    let (key, mut change) = (args[1], Change::Unsaid);
    let mut rest = args[2..].iter();
    while let Some(word) = rest.next() {
        change.turn(if is(word, "PERSIST") { Change::Persist } else { expiry(word, &mut rest)? })?;
    }
    let Some(mut entry) = read(ctx, key)? else {
        reply.null();
        return Ok(());
    };
    let at_ms = change.at_ms(ctx, "getex")?;
    parts::answer(reply, &entry.value)?;
    let is_past = matches!(change, Change::To(expiry) if expiry.is_absolute)
        && at_ms.is_some_and(|at_ms| at_ms <= ctx.now_ms());
    if is_past {
        ctx.delete_entry(key);
        ctx.notify(Class::Generic, "del", key);
    } else if let Some(at_ms) = at_ms {
        entry.expires_us = Some(microseconds(at_ms));
        ctx.put_entry(key, entry);
        ctx.notify(Class::Generic, "expire", key);
    } else if change == Change::Persist && entry.expires_us.is_some() {
        entry.expires_us = None;
        ctx.put_entry(key, entry);
        ctx.notify(Class::Generic, "persist", key);
    }
    Ok(())
}
