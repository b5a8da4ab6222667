//! One member after the other: what adds, removes and finds them.

use smallvec::SmallVec;

use super::interval::Interval;
use super::set::SortedSet;
use crate::commands::{float, is, scan};
use crate::context::{Class, Context};
use crate::fault::Fault;
use crate::numbers;
use crate::resp::reply::Reply;

const NX_AND_XX: Fault = Fault::told("ERR XX and NX options at the same time are not compatible");
const GT_LT_NX: Fault = Fault::told("ERR GT, LT, and/or NX options at the same time are not compatible");
const MANY_INCREMENTS: Fault = Fault::told("ERR INCR option supports a single increment-element pair");
const NOT_A_NUMBER: Fault = Fault::told("ERR resulting score is not a number (NaN)");

/// How a score is given to a member.
#[derive(Debug, Clone, Copy, Default)]
struct How {
    /// Only to members that are not there.
    is_new: bool,
    /// Only to members that are there.
    is_old: bool,
    /// Only if it is greater than the score that the member has.
    is_greater: bool,
    /// Only if it is less than the score that the member has.
    is_less: bool,
    /// It is added to the score that the member has.
    is_increment: bool,
    /// The reply counts members that got another score, too.
    counts_changes: bool,
}

impl How {
    /// The options at the beginning of `args`, and what follows them: scores and members.
    fn read<'a, 'b>(args: &'a [&'b [u8]]) -> Result<(How, &'a [&'b [u8]]), Fault> {
        let mut how = How::default();
        let mut rest = args;
        while let Some((option, behind)) = rest.split_first() {
            let option = *option;
            match () {
                () if is(option, "NX") => how.is_new = true,
                () if is(option, "XX") => how.is_old = true,
                () if is(option, "GT") => how.is_greater = true,
                () if is(option, "LT") => how.is_less = true,
                () if is(option, "INCR") => how.is_increment = true,
                () if is(option, "CH") => how.counts_changes = true,
                () => break,
            }
            rest = behind;
        }
        if rest.is_empty() || !rest.len().is_multiple_of(2) {
            return Err(Fault::SYNTAX);
        }
        if how.is_new && how.is_old {
            return Err(NX_AND_XX);
        }
        if how.is_greater && how.is_less || how.is_new && (how.is_greater || how.is_less) {
            return Err(GT_LT_NX);
        }
        if how.is_increment && rest.len() > 2 {
            return Err(MANY_INCREMENTS);
        }
        Ok((how, rest))
    }

    /// The score that a member with the score `old` gets; `None`: it keeps what it has.
    fn score(self, old: Option<f64>, given: f64) -> Result<Option<f64>, Fault> {
        let Some(old) = old else { return Ok((!self.is_old).then_some(given)) };
        if self.is_new {
            return Ok(None);
        }
        let score = if self.is_increment { old + given } else { given };
        if score.is_nan() {
            return Err(NOT_A_NUMBER);
        }
        let is_wanted = (!self.is_greater || score > old) && (!self.is_less || score < old);
        Ok(is_wanted.then_some(score))
    }
}

pub(super) fn zadd(ctx: &mut Context<'_>, args: &[&[u8]], reply: &mut Reply) -> Result<(), Fault> {
    let (how, pairs) = How::read(&args[2..])?;
    add(ctx, args[1], how, pairs, reply)
}

pub(super) fn zincrby(ctx: &mut Context<'_>, args: &[&[u8]], reply: &mut Reply) -> Result<(), Fault> {
    // As Redis, which takes a word of `ZADD` for an option here too: then what is left is no pair.
    let (how, pairs) = How::read(&args[2..])?;
    add(ctx, args[1], How { is_increment: true, ..how }, pairs, reply)
}

/// Gives scores to members: `pairs`.
fn add(ctx: &mut Context<'_>, key: &[u8], how: How, pairs: &[&[u8]], reply: &mut Reply) -> Result<(), Fault> {
    // All scores are checked before anything is written.
    let scores = pairs.iter().step_by(2).map(|score| float(score));
    let scores = scores.collect::<Result<SmallVec<[f64; 4]>, Fault>>()?;
    let found = SortedSet::find(ctx, key)?;
    let is_new = found.is_none();
    let mut set = match found {
        None if how.is_old => {
            if how.is_increment {
                reply.null();
            } else {
                reply.integer(0);
            }
            return Ok(());
        }
        found => found.unwrap_or_else(|| SortedSet::new(ctx, key)),
    };
    let (mut added, mut changed, mut last) = (0, 0, None);
    for (member, given) in pairs.iter().skip(1).step_by(2).zip(scores) {
        let old = set.score(ctx.session(), member)?;
        last = how.score(old, given)?;
        let Some(score) = last else { continue };
        match old {
            None => added += 1,
            Some(old) if old != score => changed += 1,
            Some(_) => continue,
        }
        set.put(ctx, member, old, score)?;
    }
    if added + changed > 0 {
        set.save(ctx);
        if is_new {
            ctx.notify(Class::New, "new", key);
        }
        ctx.notify(Class::SortedSet, if how.is_increment { "zincr" } else { "zadd" }, key);
    }
    match last {
        Some(score) if how.is_increment => reply.double(score),
        None if how.is_increment => reply.null(),
        _ => reply.count(if how.counts_changes { added + changed } else { added }),
    }
    Ok(())
}

pub(super) fn zrem(ctx: &mut Context<'_>, args: &[&[u8]], reply: &mut Reply) -> Result<(), Fault> {
    let key = args[1];
    let mut removed = 0;
    if let Some(mut set) = SortedSet::find(ctx, key)? {
        for member in &args[2..] {
            removed += u64::from(set.remove(ctx, member)?);
        }
        if removed > 0 {
            let lives = set.save(ctx);
            ctx.notify(Class::SortedSet, "zrem", key);
            if !lives {
                ctx.notify(Class::Generic, "del", key);
            }
        }
    }
    reply.count(removed);
    Ok(())
}

pub(super) fn zcard(ctx: &mut Context<'_>, args: &[&[u8]], reply: &mut Reply) -> Result<(), Fault> {
    reply.count(SortedSet::read(ctx, args[1])?.map_or(0, |set| set.len()));
    Ok(())
}

pub(super) fn zscore(ctx: &mut Context<'_>, args: &[&[u8]], reply: &mut Reply) -> Result<(), Fault> {
    let set = SortedSet::read(ctx, args[1])?;
    push_score(ctx, set.as_ref(), args[2], reply)
}

pub(super) fn zmscore(ctx: &mut Context<'_>, args: &[&[u8]], reply: &mut Reply) -> Result<(), Fault> {
    let set = SortedSet::read(ctx, args[1])?;
    let members = &args[2..];
    reply.array(members.len());
    members.iter().try_for_each(|member| push_score(ctx, set.as_ref(), member, reply))
}

/// Appends the score of `member`, or null if it is not there.
fn push_score(
    ctx: &Context<'_>,
    set: Option<&SortedSet>,
    member: &[u8],
    reply: &mut Reply,
) -> Result<(), Fault> {
    let Some(set) = set else {
        reply.null();
        return Ok(());
    };
    match set.score(ctx.session(), member)? {
        Some(score) => reply.double(score),
        None => reply.null(),
    }
    Ok(())
}

pub(super) fn zrank(ctx: &mut Context<'_>, args: &[&[u8]], reply: &mut Reply) -> Result<(), Fault> {
    rank(ctx, args, reply, Interval::before)
}

pub(super) fn zrevrank(ctx: &mut Context<'_>, args: &[&[u8]], reply: &mut Reply) -> Result<(), Fault> {
    rank(ctx, args, reply, Interval::after)
}

/// Replies with the number of members in the interval that `side` makes of a member.
fn rank(
    ctx: &mut Context<'_>,
    args: &[&[u8]],
    reply: &mut Reply,
    side: fn(f64, &[u8]) -> Interval,
) -> Result<(), Fault> {
    let (set, member) = (SortedSet::read(ctx, args[1])?, args[2]);
    let score = set.as_ref().map(|set| set.score(ctx.session(), member)).transpose()?;
    match (set, score.flatten()) {
        (Some(set), Some(score)) => reply.count(set.count(ctx.session(), &side(score, member))?),
        _ => reply.null(),
    }
    Ok(())
}

pub(super) fn zscan(ctx: &mut Context<'_>, args: &[&[u8]], reply: &mut Reply) -> Result<(), Fault> {
    let cursor = scan::cursor(args[2])?;
    // Redis does not look at the options if there is no such key.
    let Some(set) = SortedSet::read(ctx, args[1])? else {
        scan::begin_reply(reply, 0, 0);
        return Ok(());
    };
    let (next, found) = set.piece(ctx, cursor, &scan::options(&args[3..], false)?)?;
    scan::begin_reply(reply, next, 2 * found.len());
    for scored in found {
        reply.bulk(&scored.member);
        // Not a number, not even in version 3.
        reply.bulk(numbers::double(scored.score).as_bytes());
    }
    Ok(())
}
