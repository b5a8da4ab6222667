//! Commands about keys of any type.

mod copy;
mod expiry;
mod object;
mod random;
mod walk;

#[cfg(test)]
mod tests;

use super::{ALL, FREES, FREES_ALL, Family, Keys, ONE, READS, READS_ALL, Spec, TWO, WRITES_ALL, command, is};
use crate::context::{Class, Context};
use crate::fault::Fault;
use crate::model::{self, Kind};
use crate::resp::reply::Reply;
use crate::session::{Bounds, Slot, Space};

use Family::Keyspace as K;

const SECOND: Keys = Keys::Range { first: 2, last: 2, step: 1 };

pub(crate) const COMMANDS: &[Spec] = &[
    command("del", -2, K, FREES, ALL, del, "Deletes keys"),
    command("unlink", -2, K, FREES, ALL, del, "Deletes keys"),
    command("exists", -2, K, READS, ALL, exists, "Counts the keys that exist"),
    command("touch", -2, K, READS, ALL, exists, "Counts the keys that exist"),
    command("type", 2, K, READS, ONE, kind, "Returns the type of a key's value"),
    command("expire", -3, K, FREES, ONE, expiry::expire, "Lets a key expire in some seconds"),
    command("pexpire", -3, K, FREES, ONE, expiry::pexpire, "Lets a key expire in some milliseconds"),
    command("expireat", -3, K, FREES, ONE, expiry::expireat, "Lets a key expire at a second since 1970"),
    command(
        "pexpireat",
        -3,
        K,
        FREES,
        ONE,
        expiry::pexpireat,
        "Lets a key expire at a millisecond since 1970",
    ),
    command("expiretime", 2, K, READS, ONE, expiry::expiretime, "Returns the second at which a key expires"),
    command(
        "pexpiretime",
        2,
        K,
        READS,
        ONE,
        expiry::pexpiretime,
        "Returns the millisecond at which a key expires",
    ),
    command("ttl", 2, K, READS, ONE, expiry::ttl, "Returns in how many seconds a key expires"),
    command("pttl", 2, K, READS, ONE, expiry::pttl, "Returns in how many milliseconds a key expires"),
    command("persist", 2, K, FREES, ONE, expiry::persist, "Lets a key not expire"),
    command("scan", -2, K, READS, Keys::None, walk::scan, "Returns some keys, and a cursor to go on from"),
    command("keys", 2, K, READS_ALL, Keys::None, walk::keys, "Returns the keys that match a pattern"),
    command("randomkey", 1, K, READS, Keys::None, random::randomkey, "Returns a random key"),
    command("rename", 3, K, FREES_ALL, TWO, copy::rename, "Gives a key another name"),
    command("renamenx", 3, K, FREES_ALL, TWO, copy::renamenx, "Gives a key another name that is free"),
    command("copy", -3, K, WRITES_ALL, TWO, copy::copy, "Copies a key's value to another key"),
    command("move", 3, K, FREES_ALL, ONE, copy::move_key, "Moves a key to another database"),
    command("flushdb", -1, K, FREES, Keys::None, flushdb, "Deletes all keys of the database"),
    command("flushall", -1, K, FREES, Keys::None, flushall, "Deletes all keys of all databases"),
    command("object", -2, K, READS, SECOND, object::object, "Tells how a key's value is stored")
        .with_subcommands(),
];

fn del(ctx: &mut Context<'_>, args: &[&[u8]], reply: &mut Reply) -> Result<(), Fault> {
    let mut deleted = 0;
    for key in &args[1..] {
        if model::remove(ctx, key)? {
            ctx.notify(Class::Generic, "del", key);
            deleted += 1;
        }
    }
    reply.count(deleted);
    Ok(())
}

fn exists(ctx: &mut Context<'_>, args: &[&[u8]], reply: &mut Reply) -> Result<(), Fault> {
    let mut found = 0;
    for key in &args[1..] {
        if ctx.contains(key)? {
            found += 1;
        } else {
            ctx.notify(Class::Missed, "keymiss", key);
        }
    }
    reply.count(found);
    Ok(())
}

fn kind(ctx: &mut Context<'_>, args: &[&[u8]], reply: &mut Reply) -> Result<(), Fault> {
    match ctx.read(args[1])? {
        Some(entry) => reply.simple(Kind::of(&entry)?.name()),
        None => reply.simple("none"),
    }
    Ok(())
}

/// Deletes all keys of databases. `ASYNC` and `SYNC` are the same: the trees are emptied at once, their files go later.
fn flush(
    ctx: &mut Context<'_>,
    databases: std::ops::Range<u16>,
    options: &[&[u8]],
    reply: &mut Reply,
) -> Result<(), Fault> {
    match options {
        [] => {}
        [option] if is(option, "ASYNC") || is(option, "SYNC") => {}
        _ => return Err(Fault::SYNTAX),
    }
    for database in databases {
        for space in [Space::Keys, Space::Elements] {
            let slot = Slot { database, space };
            // Each deletion of a range is kept until it is merged away: none for nothing.
            let mut is_empty = true;
            ctx.session().walk(slot, Bounds::ALL, false, &mut |_, _| {
                is_empty = false;
                Ok(false)
            })?;
            if !is_empty {
                ctx.session_mut().empty(slot);
            }
        }
    }
    reply.ok();
    Ok(())
}

fn flushdb(ctx: &mut Context<'_>, args: &[&[u8]], reply: &mut Reply) -> Result<(), Fault> {
    let database = ctx.database();
    flush(ctx, database..database.saturating_add(1), &args[1..], reply)
}

fn flushall(ctx: &mut Context<'_>, args: &[&[u8]], reply: &mut Reply) -> Result<(), Fault> {
    let databases = ctx.databases();
    flush(ctx, 0..databases, &args[1..], reply)
}
