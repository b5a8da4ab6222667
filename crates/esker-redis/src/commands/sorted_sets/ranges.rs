//! What lies within an interval of ranks, scores or members: is returned, counted, copied or removed.

use super::interval::Interval;
use super::set::{Scored, SortedSet, push_members, store};
use crate::commands::{integer, is};
use crate::context::Context;
use crate::fault::Fault;
use crate::resp::reply::Reply;

const LIMIT_OF_RANKS: Fault =
    Fault::told("ERR syntax error, LIMIT is only supported in combination with either BYSCORE or BYLEX");
const SCORES_OF_MEMBERS: Fault =
    Fault::told("ERR syntax error, WITHSCORES not supported in combination with BYLEX");

/// What an interval is an interval of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Of {
    Ranks,
    Scores,
    Members,
}

/// Which ranks, where the last one is -1.
#[derive(Debug, Clone, Copy)]
struct Ranks {
    first: i64,
    last: i64,
}

impl Ranks {
    fn read(first: &[u8], last: &[u8]) -> Result<Ranks, Fault> {
        Ok(Ranks { first: integer(first)?, last: integer(last)? })
    }

    /// The first rank and how many there are, in a sorted set of `len` members.
    fn within(self, len: u64) -> (u64, u64) {
        let len = i64::try_from(len).unwrap_or(i64::MAX);
        let from_end = |rank: i64| if rank < 0 { rank.saturating_add(len) } else { rank };
        let (first, last) = (from_end(self.first).max(0), from_end(self.last).min(len - 1));
        let count = last.saturating_sub(first).saturating_add(1);
        (u64::try_from(first).unwrap_or(0), u64::try_from(count).unwrap_or(0))
    }
}

#[derive(Debug)]
enum Range {
    Ranks(Ranks),
    Interval(Interval),
}

impl Range {
    fn read(of: Of, min: &[u8], max: &[u8]) -> Result<Range, Fault> {
        Ok(match of {
            Of::Ranks => Range::Ranks(Ranks::read(min, max)?),
            Of::Scores => Range::Interval(Interval::scores(min, max)?),
            Of::Members => Range::Interval(Interval::members(min, max)?),
        })
    }
}

/// What the name of a command says about what is asked; `None`: the options say it.
#[derive(Debug, Clone, Copy)]
struct Named {
    of: Option<Of>,
    reverse: Option<bool>,
    with_scores: Option<bool>,
}

/// What is asked of a sorted set.
#[derive(Debug)]
struct Query {
    range: Range,
    reverse: bool,
    with_scores: bool,
    skip: i64,
    /// The most members; negative: all.
    count: i64,
}

impl Query {
    /// Reads both ends of the range and the options behind them.
    fn read(named: Named, args: &[&[u8]]) -> Result<Query, Fault> {
        let Named { mut of, mut reverse, mut with_scores } = named;
        let (mut skip, mut count) = (0, -1);
        let (min, max, mut rest) = match args {
            [min, max, rest @ ..] => (*min, *max, rest),
            _ => return Err(Fault::SYNTAX),
        };
        loop {
            rest = match rest {
                [] => break,
                [option, rest @ ..] if is(option, "WITHSCORES") && named.with_scores.is_none() => {
                    with_scores = Some(true);
                    rest
                }
                [option, first, most, rest @ ..] if is(option, "LIMIT") => {
                    (skip, count) = (integer(first)?, integer(most)?);
                    rest
                }
                [option, rest @ ..] if is(option, "REV") && reverse.is_none() => {
                    reverse = Some(true);
                    rest
                }
                [option, rest @ ..] if is(option, "BYSCORE") && of.is_none() => {
                    of = Some(Of::Scores);
                    rest
                }
                [option, rest @ ..] if is(option, "BYLEX") && of.is_none() => {
                    of = Some(Of::Members);
                    rest
                }
                _ => return Err(Fault::SYNTAX),
            };
        }
        let (of, reverse) = (of.unwrap_or(Of::Ranks), reverse.unwrap_or(false));
        let with_scores = with_scores.unwrap_or(false);
        if count != -1 && of == Of::Ranks {
            return Err(LIMIT_OF_RANKS);
        }
        if with_scores && of == Of::Members {
            return Err(SCORES_OF_MEMBERS);
        }
        // In reverse, the greater end comes first; ranks count from there.
        let (min, max) = if reverse && of != Of::Ranks { (max, min) } else { (min, max) };
        Ok(Query { range: Range::read(of, min, max)?, reverse, with_scores, skip, count })
    }

    /// What `set` has of it.
    fn members(&self, ctx: &Context<'_>, set: &SortedSet) -> Result<Vec<Scored>, Fault> {
        let session = ctx.session();
        match &self.range {
            Range::Ranks(ranks) => {
                let (first, count) = ranks.within(set.len());
                if !self.reverse {
                    return Ok(set.ranks(session, first, count)?);
                }
                let first = set.len().saturating_sub(first).saturating_sub(count);
                let mut found = set.ranks(session, first, count)?;
                found.reverse();
                Ok(found)
            }
            Range::Interval(interval) => {
                // Nothing is before the beginning: Redis then skips all.
                let Ok(skip) = u64::try_from(self.skip) else { return Ok(Vec::new()) };
                let count = u64::try_from(self.count).unwrap_or(u64::MAX);
                Ok(set.some(session, interval, self.reverse, skip, count)?)
            }
        }
    }
}

/// Replies with the range at the key that is the first argument.
fn range(
    ctx: &mut Context<'_>,
    args: &[&[u8]],
    reply: &mut Reply,
    of: Option<Of>,
    reverse: Option<bool>,
) -> Result<(), Fault> {
    let query = Query::read(Named { of, reverse, with_scores: None }, &args[2..])?;
    let found = match SortedSet::read(ctx, args[1])? {
        Some(set) => query.members(ctx, &set)?,
        None => Vec::new(),
    };
    push_members(reply, &found, query.with_scores);
    Ok(())
}

pub(super) fn zrange(ctx: &mut Context<'_>, args: &[&[u8]], reply: &mut Reply) -> Result<(), Fault> {
    range(ctx, args, reply, None, None)
}

pub(super) fn zrevrange(ctx: &mut Context<'_>, args: &[&[u8]], reply: &mut Reply) -> Result<(), Fault> {
    range(ctx, args, reply, Some(Of::Ranks), Some(true))
}

pub(super) fn zrangebyscore(ctx: &mut Context<'_>, args: &[&[u8]], reply: &mut Reply) -> Result<(), Fault> {
    range(ctx, args, reply, Some(Of::Scores), Some(false))
}

pub(super) fn zrevrangebyscore(
    ctx: &mut Context<'_>,
    args: &[&[u8]],
    reply: &mut Reply,
) -> Result<(), Fault> {
    range(ctx, args, reply, Some(Of::Scores), Some(true))
}

pub(super) fn zrangebylex(ctx: &mut Context<'_>, args: &[&[u8]], reply: &mut Reply) -> Result<(), Fault> {
    range(ctx, args, reply, Some(Of::Members), Some(false))
}

pub(super) fn zrevrangebylex(ctx: &mut Context<'_>, args: &[&[u8]], reply: &mut Reply) -> Result<(), Fault> {
    range(ctx, args, reply, Some(Of::Members), Some(true))
}

pub(super) fn zrangestore(ctx: &mut Context<'_>, args: &[&[u8]], reply: &mut Reply) -> Result<(), Fault> {
    let (target, source) = (args[1], args[2]);
    let query = Query::read(Named { of: None, reverse: None, with_scores: Some(false) }, &args[3..])?;
    let found = match SortedSet::read(ctx, source)? {
        Some(set) => query.members(ctx, &set)?,
        None => Vec::new(),
    };
    store(ctx, target, &found, "zrangestore")?;
    reply.count(found.len() as u64);
    Ok(())
}

/// Replies with the number of members in an interval.
fn count(ctx: &mut Context<'_>, key: &[u8], interval: &Interval, reply: &mut Reply) -> Result<(), Fault> {
    let set = SortedSet::read(ctx, key)?;
    let count = set.map(|set| set.count(ctx.session(), interval)).transpose()?;
    reply.count(count.unwrap_or(0));
    Ok(())
}

pub(super) fn zcount(ctx: &mut Context<'_>, args: &[&[u8]], reply: &mut Reply) -> Result<(), Fault> {
    count(ctx, args[1], &Interval::scores(args[2], args[3])?, reply)
}

pub(super) fn zlexcount(ctx: &mut Context<'_>, args: &[&[u8]], reply: &mut Reply) -> Result<(), Fault> {
    count(ctx, args[1], &Interval::members(args[2], args[3])?, reply)
}

/// Removes a range, and replies with the number of its members.
fn remove_range(
    ctx: &mut Context<'_>,
    args: &[&[u8]],
    reply: &mut Reply,
    of: Of,
    event: &'static str,
) -> Result<(), Fault> {
    let range = Range::read(of, args[2], args[3])?;
    let query = Query { range, reverse: false, with_scores: false, skip: 0, count: -1 };
    let Some(set) = SortedSet::find(ctx, args[1])? else {
        reply.integer(0);
        return Ok(());
    };
    let found = query.members(ctx, &set)?;
    set.remove_all(ctx, args[1], &found, event)?;
    reply.count(found.len() as u64);
    Ok(())
}

pub(super) fn zremrangebyrank(ctx: &mut Context<'_>, args: &[&[u8]], reply: &mut Reply) -> Result<(), Fault> {
    remove_range(ctx, args, reply, Of::Ranks, "zremrangebyrank")
}

pub(super) fn zremrangebyscore(
    ctx: &mut Context<'_>,
    args: &[&[u8]],
    reply: &mut Reply,
) -> Result<(), Fault> {
    remove_range(ctx, args, reply, Of::Scores, "zremrangebyscore")
}

pub(super) fn zremrangebylex(ctx: &mut Context<'_>, args: &[&[u8]], reply: &mut Reply) -> Result<(), Fault> {
    remove_range(ctx, args, reply, Of::Members, "zremrangebylex")
}
