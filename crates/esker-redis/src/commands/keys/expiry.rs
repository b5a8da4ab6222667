//! Commands about the time at which a key expires.
//!
//! Redis counts milliseconds, the store microseconds in 64 bits. So a time beyond the year 586,000 is cut down to that.

use crate::commands::{integer, is};
use crate::context::{Class, Context};
use crate::fault::Fault;
use crate::model;
use crate::resp::reply::Reply;
use crate::session::Entry;

/// What a number in a command or a reply counts.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Unit {
    Seconds,
    Milliseconds,
}

impl Unit {
    /// A number of milliseconds in this unit, rounded.
    fn of_ms(self, ms: i64) -> i64 {
        if self == Unit::Seconds { ms.saturating_add(500) / 1000 } else { ms }
    }

    /// A number in this unit in milliseconds, if there is such a number.
    fn to_ms(self, number: i64) -> Option<i64> {
        if self == Unit::Seconds { number.checked_mul(1000) } else { Some(number) }
    }
}

/// When `entry` expires, in milliseconds since 1970 by the clock of [`Context::now_ms`].
fn expires_ms(entry: &Entry) -> Option<i64> {
    entry.expires_us.map(|us| i64::try_from(us / 1000).unwrap_or(i64::MAX))
}

/// Which expiries are replaced.
#[derive(Default)]
struct Conditions {
    if_none: bool,
    if_any: bool,
    if_later: bool,
    if_earlier: bool,
}

impl Conditions {
    fn parse(args: &[&[u8]]) -> Result<Conditions, Fault> {
        let mut conditions = Conditions::default();
        for argument in args {
            if is(argument, "NX") {
                conditions.if_none = true;
            } else if is(argument, "XX") {
                conditions.if_any = true;
            } else if is(argument, "GT") {
                conditions.if_later = true;
            } else if is(argument, "LT") {
                conditions.if_earlier = true;
            } else {
                let option = String::from_utf8_lossy(argument);
                return Err(Fault::made(format!("ERR Unsupported option {option}")));
            }
        }
        let Conditions { if_none, if_any, if_later, if_earlier } = conditions;
        if if_none && (if_any || if_later || if_earlier) {
            return Err(Fault::told("ERR NX and XX, GT or LT options at the same time are not compatible"));
        }
        if if_later && if_earlier {
            return Err(Fault::told("ERR GT and LT options at the same time are not compatible"));
        }
        Ok(conditions)
    }

    /// Whether the expiry `old` may become `new`. A key that does not expire counts as one that expires last.
    fn allow(&self, old: Option<i64>, new: i64) -> bool {
        let is_refused = self.if_none && old.is_some()
            || self.if_any && old.is_none()
            || self.if_later && old.is_none_or(|old| new <= old)
            || self.if_earlier && old.is_some_and(|old| new >= old);
        !is_refused
    }
}

/// What a number of seconds or milliseconds counts from.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Since {
    Now,
    Epoch,
}

/// `name key number [NX | XX | GT | LT]`: the key expires at `number`, counted from `since` on.
fn set(
    ctx: &mut Context<'_>,
    args: &[&[u8]],
    reply: &mut Reply,
    name: &str,
    since: Since,
    unit: Unit,
) -> Result<(), Fault> {
    let conditions = Conditions::parse(&args[3..])?;
    let number = integer(args[2])?;
    let new = unit.to_ms(number).and_then(|ms| match since {
        Since::Now => ms.checked_add(ctx.now_ms()),
        Since::Epoch => Some(ms.saturating_add(ctx.ahead_ms())),
    });
    let new = new.ok_or_else(|| Fault::made(format!("ERR invalid expire time in '{name}' command")))?;
    let key = args[1];
    let Some(entry) = ctx.get(key)?.filter(|entry| conditions.allow(expires_ms(entry), new)) else {
        reply.flag(false);
        return Ok(());
    };
    if new <= ctx.now_ms() {
        model::remove(ctx, key)?;
        ctx.notify(Class::Generic, "del", key);
    } else {
        let expires_us = Some(new.unsigned_abs().saturating_mul(1000));
        ctx.put_entry(key, Entry { expires_us, ..entry });
        ctx.notify(Class::Generic, "expire", key);
    }
    reply.flag(true);
    Ok(())
}

pub(super) fn expire(ctx: &mut Context<'_>, args: &[&[u8]], reply: &mut Reply) -> Result<(), Fault> {
    set(ctx, args, reply, "expire", Since::Now, Unit::Seconds)
}

pub(super) fn pexpire(ctx: &mut Context<'_>, args: &[&[u8]], reply: &mut Reply) -> Result<(), Fault> {
    set(ctx, args, reply, "pexpire", Since::Now, Unit::Milliseconds)
}

pub(super) fn expireat(ctx: &mut Context<'_>, args: &[&[u8]], reply: &mut Reply) -> Result<(), Fault> {
    set(ctx, args, reply, "expireat", Since::Epoch, Unit::Seconds)
}

pub(super) fn pexpireat(ctx: &mut Context<'_>, args: &[&[u8]], reply: &mut Reply) -> Result<(), Fault> {
    set(ctx, args, reply, "pexpireat", Since::Epoch, Unit::Milliseconds)
}

/// Replies when the key expires, counted from `since` on.
fn tell(ctx: &mut Context<'_>, key: &[u8], reply: &mut Reply, since: Since, unit: Unit) -> Result<(), Fault> {
    const NO_KEY: i64 = -2;
    const NEVER: i64 = -1;
    let base_ms = if since == Since::Now { ctx.now_ms() } else { ctx.ahead_ms() };
    reply.integer(match ctx.read(key)? {
        None => NO_KEY,
        Some(entry) => match expires_ms(&entry) {
            None => NEVER,
            Some(expires_ms) => unit.of_ms(expires_ms.saturating_sub(base_ms).max(0)),
        },
    });
    Ok(())
}

pub(super) fn expiretime(ctx: &mut Context<'_>, args: &[&[u8]], reply: &mut Reply) -> Result<(), Fault> {
    tell(ctx, args[1], reply, Since::Epoch, Unit::Seconds)
}

pub(super) fn pexpiretime(ctx: &mut Context<'_>, args: &[&[u8]], reply: &mut Reply) -> Result<(), Fault> {
    tell(ctx, args[1], reply, Since::Epoch, Unit::Milliseconds)
}

pub(super) fn ttl(ctx: &mut Context<'_>, args: &[&[u8]], reply: &mut Reply) -> Result<(), Fault> {
    tell(ctx, args[1], reply, Since::Now, Unit::Seconds)
}

pub(super) fn pttl(ctx: &mut Context<'_>, args: &[&[u8]], reply: &mut Reply) -> Result<(), Fault> {
    tell(ctx, args[1], reply, Since::Now, Unit::Milliseconds)
}

pub(super) fn persist(ctx: &mut Context<'_>, args: &[&[u8]], reply: &mut Reply) -> Result<(), Fault> {
    let found = ctx.get(args[1])?.filter(|entry| entry.expires_us.is_some());
    reply.flag(found.is_some());
    if let Some(entry) = found {
        ctx.put_entry(args[1], Entry { expires_us: None, ..entry });
        ctx.notify(Class::Generic, "persist", args[1]);
    }
    Ok(())
}
