//! Commands that give a key's value to another key. Elements of a large collection are written anew, since they lie below
//! their key's name.

use crate::commands::{integer, is};
use crate::context::{Class, Context};
use crate::fault::Fault;
use crate::model::{self, Collection, Kind};
use crate::resp::reply::Reply;
use crate::session::Entry;

const SAME: Fault = Fault::told("ERR source and destination objects are the same");

/// `target` of `database`, which holds nothing, gets a copy of `entry`, which `source` holds, with its expiry.
fn copy_entry(
    ctx: &mut Context<'_>,
    source: &[u8],
    entry: Entry,
    database: u16,
    target: &[u8],
) -> Result<(), Fault> {
    let kind = Kind::of(&entry)?;
    if kind == Kind::String {
        ctx.within(database, |ctx| ctx.put_entry(target, entry));
    } else {
        let collection = Collection::of(ctx, source, kind, entry)?;
        let copy = collection.copy_to(ctx, database, target)?;
        ctx.within(database, |ctx| copy.save(ctx));
    }
    ctx.within(database, |ctx| ctx.notify(Class::New, "new", target));
    Ok(())
}

/// Gives the key `source`, which holds `entry`, the name `target`, which may hold something that goes.
fn rename_to(ctx: &mut Context<'_>, source: &[u8], entry: Entry, target: &[u8]) -> Result<(), Fault> {
    model::remove(ctx, target)?;
    let database = ctx.database();
    copy_entry(ctx, source, entry, database, target)?;
    model::remove(ctx, source)?;
    ctx.notify(Class::Generic, "rename_from", source);
    ctx.notify(Class::Generic, "rename_to", target);
    Ok(())
}

pub(super) fn rename(ctx: &mut Context<'_>, args: &[&[u8]], reply: &mut Reply) -> Result<(), Fault> {
    let entry = ctx.get(args[1])?.ok_or(Fault::NO_SUCH_KEY)?;
    if args[1] != args[2] {
        rename_to(ctx, args[1], entry, args[2])?;
    }
    reply.ok();
    Ok(())
}

pub(super) fn renamenx(ctx: &mut Context<'_>, args: &[&[u8]], reply: &mut Reply) -> Result<(), Fault> {
    let entry = ctx.get(args[1])?.ok_or(Fault::NO_SUCH_KEY)?;
    let is_free = ctx.get(args[2])?.is_none();
    if is_free {
        rename_to(ctx, args[1], entry, args[2])?;
    }
    reply.flag(is_free);
    Ok(())
}

/// The database that an argument names.
fn database(ctx: &Context<'_>, argument: &[u8]) -> Result<u16, Fault> {
    const BEYOND: Fault =
        Fault::told("ERR value is out of range, value must between -2147483648 and 2147483647");
    let number = i32::try_from(integer(argument)?).map_err(|_| BEYOND)?;
    let database = u16::try_from(number).ok().filter(|database| *database < ctx.databases());
    database.ok_or(Fault::told("ERR DB index is out of range"))
}

pub(super) fn copy(ctx: &mut Context<'_>, args: &[&[u8]], reply: &mut Reply) -> Result<(), Fault> {
    let (source, target) = (args[1], args[2]);
    let (mut to, mut replaces) = (ctx.database(), false);
    let mut options = &args[3..];
    loop {
        options = match options {
            [] => break,
            [option, rest @ ..] if is(option, "REPLACE") => {
                replaces = true;
                rest
            }
            [option, number, rest @ ..] if is(option, "DB") => {
                to = database(ctx, number)?;
                rest
            }
            _ => return Err(Fault::SYNTAX),
        };
    }
    if to == ctx.database() && source == target {
        return Err(SAME);
    }
    let Some(entry) = ctx.read(source)? else {
        reply.flag(false);
        return Ok(());
    };
    let is_free = if replaces {
        ctx.within(to, |ctx| model::remove(ctx, target))?;
        true
    } else {
        ctx.within(to, |ctx| ctx.get(target))?.is_none()
    };
    if is_free {
        copy_entry(ctx, source, entry, to, target)?;
        ctx.within(to, |ctx| ctx.notify(Class::Generic, "copy_to", target));
    }
    reply.flag(is_free);
    Ok(())
}

pub(super) fn move_key(ctx: &mut Context<'_>, args: &[&[u8]], reply: &mut Reply) -> Result<(), Fault> {
    let key = args[1];
    let to = database(ctx, args[2])?;
    if to == ctx.database() {
        return Err(SAME);
    }
    let found = ctx.get(key)?;
    let is_free = ctx.within(to, |ctx| ctx.get(key))?.is_none();
    let Some(entry) = found.filter(|_| is_free) else {
        reply.flag(false);
        return Ok(());
    };
    copy_entry(ctx, key, entry, to, key)?;
    model::remove(ctx, key)?;
    ctx.notify(Class::Generic, "move_from", key);
    ctx.within(to, |ctx| ctx.notify(Class::Generic, "move_to", key));
    reply.flag(true);
    Ok(())
}
