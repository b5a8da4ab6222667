//! The commands of sets: members, in the order of their bytes.

mod algebra;
#[cfg(test)]
mod tests;

use crate::commands::random::{self, Choice};
use crate::commands::{
    ALL, FREES, Family, Keys, ONE, READS, READS_ALL, Spec, TWO, WRITES, WRITES_ALL, collections, command,
    scan,
};
use crate::context::{Class, Context};
use crate::fault::Fault;
use crate::model::{Collection, Kind};
use crate::resp::reply::Reply;

use Family::Set;
use algebra::{sdiff, sdiffstore, sinter, sintercard, sinterstore, sunion, sunionstore};

const COUNTED: Keys = Keys::Counted { at: 1, with_target: false };

pub(crate) const COMMANDS: &[Spec] = &[
    command("sadd", -3, Set, WRITES, ONE, sadd, "Adds members to a set"),
    command("srem", -3, Set, FREES, ONE, srem, "Removes members from a set"),
    command("sismember", 3, Set, READS, ONE, sismember, "Returns whether a set has a member"),
    command("smismember", -3, Set, READS, ONE, smismember, "Returns which members a set has"),
    command("smembers", 2, Set, READS_ALL, ONE, smembers, "Returns all members of a set"),
    command("scard", 2, Set, READS, ONE, scard, "Returns the number of members of a set"),
    command("spop", -2, Set, FREES, ONE, spop, "Removes random members and returns them"),
    command("srandmember", -2, Set, READS_ALL, ONE, srandmember, "Returns random members of a set"),
    command("smove", 4, Set, FREES, TWO, smove, "Moves a member from one set to another"),
    command("sscan", -3, Set, READS, ONE, sscan, "Returns the members of a set piece by piece"),
    command("sinter", -2, Set, READS_ALL, ALL, sinter, "Returns the members that all sets have"),
    command("sinterstore", -3, Set, WRITES_ALL, ALL, sinterstore, "Stores the members that all sets have"),
    command("sintercard", -3, Set, READS_ALL, COUNTED, sintercard, "Counts the members that all sets have"),
    command("sunion", -2, Set, READS_ALL, ALL, sunion, "Returns the members that any set has"),
    command("sunionstore", -3, Set, WRITES_ALL, ALL, sunionstore, "Stores the members that any set has"),
    command("sdiff", -2, Set, READS_ALL, ALL, sdiff, "Returns the members that only the first set has"),
    command(
        "sdiffstore",
        -3,
        Set,
        WRITES_ALL,
        ALL,
        sdiffstore,
        "Stores the members that only the first set has",
    ),
];

fn read(ctx: &mut Context<'_>, key: &[u8]) -> Result<Option<Collection>, Fault> {
    collections::read(ctx, key, Kind::Set)
}

/// The set at `key`, for a command that removes from it.
fn find(ctx: &Context<'_>, key: &[u8]) -> Result<Option<Collection>, Fault> {
    Collection::find(ctx, key, Kind::Set)
}

fn sadd(ctx: &mut Context<'_>, args: &[&[u8]], reply: &mut Reply) -> Result<(), Fault> {
    let mut set = collections::open(ctx, args[1], Kind::Set)?;
    let mut added = 0;
    for member in &args[2..] {
        added += u64::from(set.insert(ctx, member, &[])?);
    }
    if added > 0 {
        set.save(ctx);
        ctx.notify(Class::Set, "sadd", args[1]);
    }
    reply.count(added);
    Ok(())
}

fn srem(ctx: &mut Context<'_>, args: &[&[u8]], reply: &mut Reply) -> Result<(), Fault> {
    let mut removed = 0;
    if let Some(mut set) = find(ctx, args[1])? {
        for member in &args[2..] {
            removed += u64::from(set.remove(ctx, member)?.is_some());
        }
        if removed > 0 {
            ctx.notify(Class::Set, "srem", args[1]);
            collections::save_rest(ctx, args[1], set);
        }
    }
    reply.count(removed);
    Ok(())
}

/// Whether `set` has `member`.
fn has(ctx: &Context<'_>, set: Option<&Collection>, member: &[u8]) -> Result<bool, Fault> {
    let Some(set) = set else { return Ok(false) };
    Ok(set.get(ctx.session(), member)?.is_some())
}

fn sismember(ctx: &mut Context<'_>, args: &[&[u8]], reply: &mut Reply) -> Result<(), Fault> {
    let set = read(ctx, args[1])?;
    reply.flag(has(ctx, set.as_ref(), args[2])?);
    Ok(())
}

fn smismember(ctx: &mut Context<'_>, args: &[&[u8]], reply: &mut Reply) -> Result<(), Fault> {
    let set = read(ctx, args[1])?;
    let members = &args[2..];
    reply.array(members.len());
    for member in members {
        reply.flag(has(ctx, set.as_ref(), member)?);
    }
    Ok(())
}

fn smembers(ctx: &mut Context<'_>, args: &[&[u8]], reply: &mut Reply) -> Result<(), Fault> {
    let Some(set) = read(ctx, args[1])? else {
        reply.set(0);
        return Ok(());
    };
    reply.set(set.entries() as usize);
    collections::each(ctx, &set, |member, _| reply.bulk(member))?;
    Ok(())
}

fn scard(ctx: &mut Context<'_>, args: &[&[u8]], reply: &mut Reply) -> Result<(), Fault> {
    let set = read(ctx, args[1])?;
    reply.count(set.map_or(0, |set| set.entries()));
    Ok(())
}

fn spop(ctx: &mut Context<'_>, args: &[&[u8]], reply: &mut Reply) -> Result<(), Fault> {
    let count = match &args[2..] {
        [] => None,
        [count] => {
            let count = crate::numbers::integer(count).and_then(|count| u64::try_from(count).ok());
            Some(count.ok_or(Fault::told("ERR value is out of range, must be positive"))?)
        }
        _ => return Err(Fault::SYNTAX),
    };
    let Some(set) = find(ctx, args[1])? else {
        match count {
            Some(_) => reply.set(0),
            None => reply.null(),
        }
        return Ok(());
    };
    match count {
        Some(0) => reply.set(0),
        Some(count) if count >= set.entries() => {
            reply.set(set.entries() as usize);
            pop_all(ctx, args[1], &set, reply)?;
        }
        Some(count) => {
            reply.set(count as usize);
            pop_some(ctx, args[1], set, count, reply)?;
        }
        None => pop_some(ctx, args[1], set, 1, reply)?,
    }
    Ok(())
}

fn pop_all(ctx: &mut Context<'_>, key: &[u8], set: &Collection, reply: &mut Reply) -> Result<(), Fault> {
    collections::each(ctx, set, |member, _| reply.bulk(member))?;
    ctx.notify(Class::Set, "spop", key);
    set.delete_elements(ctx)?;
    ctx.delete_entry(key);
    ctx.notify(Class::Generic, "del", key);
    Ok(())
}

fn pop_some(
    ctx: &mut Context<'_>,
    key: &[u8],
    mut set: Collection,
    count: u64,
    reply: &mut Reply,
) -> Result<(), Fault> {
    for (member, _) in Choice::of(&set, false).distinct(ctx, count)? {
        set.remove(ctx, &member)?;
        reply.bulk(&member);
    }
    ctx.notify(Class::Set, "spop", key);
    collections::save_rest(ctx, key, set);
    Ok(())
}

fn srandmember(ctx: &mut Context<'_>, args: &[&[u8]], reply: &mut Reply) -> Result<(), Fault> {
    let count = match &args[2..] {
        [] => None,
        [count] => Some(random::count(count)?),
        _ => return Err(Fault::SYNTAX),
    };
    let Some(set) = read(ctx, args[1])? else {
        match count {
            Some(_) => reply.array(0),
            None => reply.null(),
        }
        return Ok(());
    };
    let choice = Choice::of(&set, false);
    let wanted = count.unwrap_or(1).unsigned_abs();
    match count {
        None => {
            let member = choice.distinct(ctx, 1)?.pop();
            reply.bulk_or_null(member.as_ref().map(|(member, _)| member.as_slice()));
        }
        Some(count) if count < 0 => {
            reply.array(wanted as usize);
            choice.repeated(ctx, wanted, reply, |reply, member, _| reply.bulk(member))?;
        }
        Some(_) if wanted >= set.entries() => {
            reply.array(set.entries() as usize);
            collections::each(ctx, &set, |member, _| reply.bulk(member))?;
        }
        Some(_) => {
            let chosen = choice.distinct(ctx, wanted)?;
            reply.array(chosen.len());
            chosen.iter().for_each(|(member, _)| reply.bulk(member));
        }
    }
    Ok(())
}

fn smove(ctx: &mut Context<'_>, args: &[&[u8]], reply: &mut Reply) -> Result<(), Fault> {
    let (from, to, member) = (args[1], args[2], args[3]);
    let Some(mut source) = find(ctx, from)? else {
        reply.flag(false);
        return Ok(());
    };
    // The type of the target counts even if there is nothing to move.
    find(ctx, to)?;
    let is_there = source.get(ctx.session(), member)?.is_some();
    if is_there && from != to {
        source.remove(ctx, member)?;
        ctx.notify(Class::Set, "srem", from);
        collections::save_rest(ctx, from, source);
        let mut target = collections::open(ctx, to, Kind::Set)?;
        if target.insert(ctx, member, &[])? {
            target.save(ctx);
            ctx.notify(Class::Set, "sadd", to);
        }
    }
    reply.flag(is_there);
    Ok(())
}

fn sscan(ctx: &mut Context<'_>, args: &[&[u8]], reply: &mut Reply) -> Result<(), Fault> {
    let cursor = scan::cursor(args[2])?;
    // Of a key that is not there, Redis does not look at the options.
    let Some(set) = read(ctx, args[1])? else {
        scan::begin_reply(reply, 0, 0);
        return Ok(());
    };
    let options = scan::options(&args[3..], false)?;
    let (next, members) = scan::piece(ctx, &set, &[], cursor, &options)?;
    scan::begin_reply(reply, next, members.len());
    members.iter().for_each(|(member, _)| reply.bulk(member));
    Ok(())
}
