//! Intersections, unions and differences of sets.
//!
//! ```text
//! the smallest set, or the first one --up to 1,000 members at a time--> those that each other set has, or has not
//! ```
//! Another set is asked member by member, or walked alongside if it is not much larger. So an intersection takes memory
//! for its result only, and no longer than the smallest set asks for.

use std::collections::BTreeSet;

use crate::commands::{collections, is};
use crate::context::{Class, Context};
use crate::fault::{Fault, ReadError};
use crate::model::{self, Collection, Kind};
use crate::numbers;
use crate::resp::reply::Reply;
use crate::session::Bounds;

/// How many members are looked at together, and of how many bytes.
const CHUNK: usize = 1000;
const CHUNK_BYTES: usize = 4 << 20;

/// To walk past so many members costs as much as to ask for one.
const PASSED_PER_GET: u64 = 8;

/// What the others have to do with a member that counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wanted {
    /// All of them have it.
    Shared,
    /// None of them has it.
    Own,
}

/// The sets at `keys`; `None`: there is no such key.
fn read_all(ctx: &mut Context<'_>, keys: &[&[u8]]) -> Result<Vec<Option<Collection>>, Fault> {
    keys.iter().map(|key| collections::read(ctx, key, Kind::Set)).collect()
}

/// The members that `sets` share, in chunks, until `visit` returns `false`.
fn intersection(
    ctx: &Context<'_>,
    sets: Vec<Option<Collection>>,
    visit: &mut dyn FnMut(Vec<Vec<u8>>) -> bool,
) -> Result<(), ReadError> {
    let Some(mut sets) = sets.into_iter().collect::<Option<Vec<_>>>() else { return Ok(()) };
    sets.sort_by_key(Collection::entries);
    match sets.split_first() {
        Some((smallest, others)) => filter(ctx, smallest, others, Wanted::Shared, visit),
        None => Ok(()),
    }
}

/// The members of the first set that no other one has.
fn difference(ctx: &Context<'_>, sets: Vec<Option<Collection>>) -> Result<Vec<Vec<u8>>, ReadError> {
    let mut sets = sets.into_iter();
    let Some(first) = sets.next().flatten() else { return Ok(Vec::new()) };
    let others: Vec<Collection> = sets.flatten().collect();
    let mut members = Vec::new();
    filter(ctx, &first, &others, Wanted::Own, &mut |chunk| {
        members.extend(chunk);
        true
    })?;
    Ok(members)
}

fn union(ctx: &Context<'_>, sets: Vec<Option<Collection>>) -> Result<BTreeSet<Vec<u8>>, ReadError> {
    let mut members = BTreeSet::new();
    for set in sets.into_iter().flatten() {
        set.walk(ctx.session(), Bounds::ALL, false, |member, _| {
            if !members.contains(member) {
                members.insert(member.to_vec());
            }
            Ok(true)
        })?;
    }
    Ok(members)
}

/// Calls `visit` with the members of `set` that are wanted, chunk by chunk, until it returns `false`.
fn filter(
    ctx: &Context<'_>,
    set: &Collection,
    others: &[Collection],
    wanted: Wanted,
    visit: &mut dyn FnMut(Vec<Vec<u8>>) -> bool,
) -> Result<(), ReadError> {
    let mut from = Vec::new();
    loop {
        let (mut chunk, mut bytes, mut is_last) = (Vec::new(), 0, true);
        set.walk(ctx.session(), Bounds { lower: &from, upper: None }, false, |member, _| {
            chunk.push(member.to_vec());
            bytes += member.len();
            is_last = chunk.len() < CHUNK && bytes < CHUNK_BYTES;
            Ok(is_last)
        })?;
        if let Some(last) = chunk.last() {
            from = [last.as_slice(), &[0]].concat();
        }
        for other in others {
            let is_in = are_in(ctx, &chunk, set.entries(), other)?;
            let mut is_in = is_in.into_iter();
            chunk.retain(|_| is_in.next() == Some(wanted == Wanted::Shared));
        }
        if !visit(chunk) || is_last {
            return Ok(());
        }
    }
}

/// Which of the members in `chunk`, in order, `other` has. They come from a set of `entries`.
fn are_in(
    ctx: &Context<'_>,
    chunk: &[Vec<u8>],
    entries: u64,
    other: &Collection,
) -> Result<Vec<bool>, ReadError> {
    let (Some(first), Some(last)) = (chunk.first(), chunk.last()) else { return Ok(Vec::new()) };
    if other.entries() / PASSED_PER_GET > entries {
        return chunk.iter().map(|member| Ok(other.get(ctx.session(), member)?.is_some())).collect();
    }
    let behind = [last.as_slice(), &[0]].concat();
    let (mut are_in, mut at) = (vec![false; chunk.len()], 0);
    other.walk(ctx.session(), Bounds { lower: first, upper: Some(&behind) }, false, |member, _| {
        while chunk.get(at).is_some_and(|own| own.as_slice() < member) {
            at += 1;
        }
        if let (Some(own), Some(is_in)) = (chunk.get(at), are_in.get_mut(at)) {
            *is_in = own == member;
        }
        Ok(at < chunk.len())
    })?;
    Ok(are_in)
}

/// Answers with `members`.
fn answer<'a>(reply: &mut Reply, members: impl ExactSizeIterator<Item = &'a Vec<u8>>) {
    reply.set(members.len());
    members.for_each(|member| reply.bulk(member));
}

/// `key` gets `members`, whatever it had, or goes if there are none. Answers with their number.
fn store<'a>(
    ctx: &mut Context<'_>,
    key: &[u8],
    event: &'static str,
    members: impl ExactSizeIterator<Item = &'a Vec<u8>>,
    reply: &mut Reply,
) -> Result<(), Fault> {
    let was_there = model::remove(ctx, key)?;
    reply.count(members.len() as u64);
    if members.len() == 0 {
        if was_there {
            ctx.notify(Class::Generic, "del", key);
        }
        return Ok(());
    }
    let mut set = Collection::new(ctx, key, Kind::Set);
    for member in members {
        set.insert(ctx, member, &[])?;
    }
    set.save(ctx);
    if !was_there {
        ctx.notify(Class::New, "new", key);
    }
    ctx.notify(Class::Set, event, key);
    Ok(())
}

/// All members that the sets at `keys` share.
fn shared(ctx: &mut Context<'_>, keys: &[&[u8]]) -> Result<Vec<Vec<u8>>, Fault> {
    let sets = read_all(ctx, keys)?;
    let mut members = Vec::new();
    intersection(ctx, sets, &mut |chunk| {
        members.extend(chunk);
        true
    })?;
    Ok(members)
}

pub(super) fn sinter(ctx: &mut Context<'_>, args: &[&[u8]], reply: &mut Reply) -> Result<(), Fault> {
    answer(reply, shared(ctx, &args[1..])?.iter());
    Ok(())
}

pub(super) fn sinterstore(ctx: &mut Context<'_>, args: &[&[u8]], reply: &mut Reply) -> Result<(), Fault> {
    let members = shared(ctx, &args[2..])?;
    store(ctx, args[1], "sinterstore", members.iter(), reply)
}

pub(super) fn sintercard(ctx: &mut Context<'_>, args: &[&[u8]], reply: &mut Reply) -> Result<(), Fault> {
    let (keys, limit) = counted(args)?;
    let sets = read_all(ctx, keys)?;
    let mut count = 0;
    intersection(ctx, sets, &mut |chunk| {
        count += chunk.len() as u64;
        count < limit
    })?;
    reply.count(count.min(limit));
    Ok(())
}

/// The keys and the limit of `SINTERCARD`.
fn counted<'a, 'b>(args: &'a [&'b [u8]]) -> Result<(&'a [&'b [u8]], u64), Fault> {
    let count = numbers::integer(args[1]).filter(|count| *count > 0);
    let count = count.ok_or(Fault::told("ERR numkeys should be greater than 0"))?;
    let split = usize::try_from(count).ok().and_then(|count| args[2..].split_at_checked(count));
    let (keys, options) =
        split.ok_or(Fault::told("ERR Number of keys can't be greater than number of args"))?;
    let mut limit = 0;
    for pair in options.chunks(2) {
        let [name, value] = *pair else { return Err(Fault::SYNTAX) };
        if !is(name, "LIMIT") {
            return Err(Fault::SYNTAX);
        }
        let given = numbers::integer(value).and_then(|limit| u64::try_from(limit).ok());
        limit = given.ok_or(Fault::told("ERR LIMIT can't be negative"))?;
    }
    Ok((keys, if limit == 0 { u64::MAX } else { limit }))
}

pub(super) fn sunion(ctx: &mut Context<'_>, args: &[&[u8]], reply: &mut Reply) -> Result<(), Fault> {
    let sets = read_all(ctx, &args[1..])?;
    answer(reply, union(ctx, sets)?.iter());
    Ok(())
}

pub(super) fn sunionstore(ctx: &mut Context<'_>, args: &[&[u8]], reply: &mut Reply) -> Result<(), Fault> {
    let sets = read_all(ctx, &args[2..])?;
    let members = union(ctx, sets)?;
    store(ctx, args[1], "sunionstore", members.iter(), reply)
}

pub(super) fn sdiff(ctx: &mut Context<'_>, args: &[&[u8]], reply: &mut Reply) -> Result<(), Fault> {
    let sets = read_all(ctx, &args[1..])?;
    answer(reply, difference(ctx, sets)?.iter());
    Ok(())
}

pub(super) fn sdiffstore(ctx: &mut Context<'_>, args: &[&[u8]], reply: &mut Reply) -> Result<(), Fault> {
    let sets = read_all(ctx, &args[2..])?;
    let members = difference(ctx, sets)?;
    store(ctx, args[1], "sdiffstore", members.iter(), reply)
}
