//! Unions, intersections and differences of sorted sets and sets. The members of a set have the score 1.
//!
//! ```text
//! ZUNION            numkeys key [key ...] [WEIGHTS weight [weight ...]] [AGGREGATE SUM|MIN|MAX] [WITHSCORES]
//! ZUNIONSTORE target numkeys key [key ...] [WEIGHTS weight [weight ...]] [AGGREGATE SUM|MIN|MAX]
//! ZDIFF             numkeys key [key ...] [WITHSCORES]
//! ZINTERCARD        numkeys key [key ...] [LIMIT limit]
//! ```
//! Sums of scores depend on their order: as Redis, unions and intersections begin with the smallest input.

use std::collections::HashMap;

use super::element::ordered;
use super::interval::Interval;
use super::set::{Scored, SortedSet, push_members, store};
use crate::commands::{float, integer, is};
use crate::context::{Class, Context};
use crate::fault::{Fault, ReadError};
use crate::model::{Collection, Kind};
use crate::resp::reply::Reply;
use crate::session::{Bounds, Session};

const BAD_WEIGHT: Fault = Fault::told("ERR weight value is not a float");
const BAD_LIMIT: Fault = Fault::told("ERR LIMIT can't be negative");

/// To look up one member costs about as much as to walk over so many.
const STEPS_PER_LOOKUP: u64 = 8;

/// What a key has.
enum Members {
    None,
    Set(Collection),
    Sorted(SortedSet),
}

struct Input {
    members: Members,
    weight: f64,
}

impl Input {
    fn find(ctx: &mut Context<'_>, key: &[u8]) -> Result<Input, Fault> {
        let members = match ctx.get(key)? {
            None => {
                ctx.notify(Class::Missed, "keymiss", key);
                Members::None
            }
            Some(entry) if Kind::of(&entry)? == Kind::Set => {
                Members::Set(Collection::of(ctx, key, Kind::Set, entry)?)
            }
            Some(entry) => Members::Sorted(SortedSet::of(ctx, key, entry)?),
        };
        Ok(Input { members, weight: 1.0 })
    }

    fn len(&self) -> u64 {
        match &self.members {
            Members::None => 0,
            Members::Set(set) => set.entries(),
            Members::Sorted(set) => set.len(),
        }
    }

    /// The score of `member`, times the weight: NaN if one is 0 and the other is infinite.
    fn score(&self, session: &Session<'_>, member: &[u8]) -> Result<Option<f64>, ReadError> {
        let score = match &self.members {
            Members::None => None,
            Members::Set(set) => set.get(session, member)?.map(|_| 1.0),
            Members::Sorted(set) => set.score(session, member)?,
        };
        Ok(score.map(|score| score * self.weight))
    }

    /// Calls `visit` with all members and their scores, times the weight, until it returns `false`. NaN is 0 here.
    fn walk(
        &self,
        session: &Session<'_>,
        mut visit: impl FnMut(&[u8], f64) -> Result<bool, ReadError>,
    ) -> Result<(), ReadError> {
        match &self.members {
            Members::None => Ok(()),
            Members::Set(set) => {
                set.walk(session, Bounds::ALL, false, |member, _| visit(member, number(self.weight)))
            }
            Members::Sorted(set) => set.walk(session, &Interval::all(), false, |member, score| {
                visit(member, number(score * self.weight))
            }),
        }
    }
}

/// 0 instead of NaN: infinities that cancel each other, and an infinity times 0.
fn number(result: f64) -> f64 {
    if result.is_nan() { 0.0 } else { result }
}

/// How the scores of a member become one.
#[derive(Debug, Clone, Copy)]
enum Aggregate {
    Sum,
    Min,
    Max,
}

impl Aggregate {
    /// NaN as `other` is ignored, but not by sums.
    fn of(self, one: f64, other: f64) -> f64 {
        match self {
            Aggregate::Sum => number(one + other),
            Aggregate::Min => one.min(other),
            Aggregate::Max => one.max(other),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Operation {
    Union,
    Intersection,
    Difference,
}

/// What a command asks for.
struct Query {
    operation: Operation,
    /// In the order of the arguments.
    inputs: Vec<Input>,
    aggregate: Aggregate,
    with_scores: bool,
}

type Arguments<'a> = &'a [&'a [u8]];

/// The keys at the beginning of `args`, behind their number, and what follows them.
fn keys_and_options<'a>(name: &[u8], args: Arguments<'a>) -> Result<(Arguments<'a>, Arguments<'a>), Fault> {
    let [count, rest @ ..] = args else { return Err(Fault::SYNTAX) };
    let count = integer(count)?;
    if count < 1 {
        let name = String::from_utf8_lossy(name).to_ascii_lowercase();
        return Err(Fault::made(format!("ERR at least 1 input key is needed for '{name}' command")));
    }
    rest.split_at_checked(usize::try_from(count).unwrap_or(usize::MAX)).ok_or(Fault::SYNTAX)
}

impl Query {
    /// Reads the number of keys, the keys and the options. Only a command that stores nothing may ask for scores.
    fn read(
        ctx: &mut Context<'_>,
        operation: Operation,
        name: &[u8],
        args: &[&[u8]],
        stores: bool,
    ) -> Result<Query, Fault> {
        let (keys, mut rest) = keys_and_options(name, args)?;
        let inputs = keys.iter().map(|key| Input::find(ctx, key)).collect::<Result<Vec<Input>, Fault>>()?;
        let mut query = Query { operation, inputs, aggregate: Aggregate::Sum, with_scores: false };
        let has_weights = operation != Operation::Difference;
        while let [option, behind @ ..] = rest {
            rest = if has_weights && is(option, "WEIGHTS") {
                query.read_weights(behind)?
            } else if has_weights && is(option, "AGGREGATE") {
                query.read_aggregate(behind)?
            } else if !stores && is(option, "WITHSCORES") {
                query.with_scores = true;
                behind
            } else {
                return Err(Fault::SYNTAX);
            };
        }
        Ok(query)
    }

    /// Returns what follows the weights.
    fn read_weights<'a>(&mut self, args: Arguments<'a>) -> Result<Arguments<'a>, Fault> {
        let parts = args.split_at_checked(self.inputs.len());
        let (weights, rest) = parts.ok_or(Fault::SYNTAX)?;
        for (input, weight) in self.inputs.iter_mut().zip(weights) {
            input.weight = float(weight).map_err(|_| BAD_WEIGHT)?;
        }
        Ok(rest)
    }

    /// Returns what follows the word.
    fn read_aggregate<'a>(&mut self, args: Arguments<'a>) -> Result<Arguments<'a>, Fault> {
        let [word, rest @ ..] = args else { return Err(Fault::SYNTAX) };
        self.aggregate = match () {
            () if is(word, "SUM") => Aggregate::Sum,
            () if is(word, "MIN") => Aggregate::Min,
            () if is(word, "MAX") => Aggregate::Max,
            () => return Err(Fault::SYNTAX),
        };
        Ok(rest)
    }

    /// What the inputs make, in the order of scores.
    fn evaluate(mut self, ctx: &Context<'_>) -> Result<Vec<Scored>, Fault> {
        let mut found = match self.operation {
            Operation::Union => self.union(ctx.session())?,
            Operation::Intersection => self.intersection(ctx.session())?,
            Operation::Difference => self.difference(ctx.session())?,
        };
        found.sort_unstable_by(|one, other| {
            ordered(one.score).cmp(&ordered(other.score)).then_with(|| one.member.cmp(&other.member))
        });
        Ok(found)
    }

    fn union(&mut self, session: &Session<'_>) -> Result<Vec<Scored>, Fault> {
        self.inputs.sort_by_key(Input::len);
        let mut found: HashMap<Vec<u8>, f64> = HashMap::new();
        for input in &self.inputs {
            input.walk(session, |member, score| {
                match found.get_mut(member) {
                    Some(before) => *before = self.aggregate.of(*before, score),
                    None => {
                        found.insert(member.to_vec(), score);
                    }
                }
                Ok(true)
            })?;
        }
        Ok(found.into_iter().map(|(member, score)| Scored { member, score }).collect())
    }

    fn intersection(&mut self, session: &Session<'_>) -> Result<Vec<Scored>, Fault> {
        let aggregate = self.aggregate;
        let mut found = Vec::new();
        intersect(session, &mut self.inputs, aggregate, |member, score| {
            found.push(Scored { member: member.to_vec(), score });
            true
        })?;
        Ok(found)
    }

    fn difference(&self, session: &Session<'_>) -> Result<Vec<Scored>, Fault> {
        let Some((first, others)) = self.inputs.split_first() else { return Ok(Vec::new()) };
        let mut left: HashMap<Vec<u8>, f64> = HashMap::new();
        first.walk(session, |member, score| {
            left.insert(member.to_vec(), score);
            Ok(true)
        })?;
        for other in others {
            if left.is_empty() {
                break;
            }
            if other.len() / STEPS_PER_LOOKUP <= left.len() as u64 {
                other.walk(session, |member, _| {
                    left.remove(member);
                    Ok(!left.is_empty())
                })?;
                continue;
            }
            let mut kept = HashMap::new();
            for (member, score) in left {
                if other.score(session, &member)?.is_none() {
                    kept.insert(member, score);
                }
            }
            left = kept;
        }
        Ok(left.into_iter().map(|(member, score)| Scored { member, score }).collect())
    }
}

/// Calls `visit` with the members of all inputs and their scores, until it returns `false`.
fn intersect(
    session: &Session<'_>,
    inputs: &mut [Input],
    aggregate: Aggregate,
    mut visit: impl FnMut(&[u8], f64) -> bool,
) -> Result<(), ReadError> {
    inputs.sort_by_key(Input::len);
    let Some((smallest, others)) = inputs.split_first() else { return Ok(()) };
    smallest.walk(session, |member, mut score| {
        for other in others {
            let Some(another) = other.score(session, member)? else { return Ok(true) };
            score = aggregate.of(score, another);
        }
        Ok(visit(member, score))
    })
}

/// Replies with what the inputs make.
fn show(ctx: &mut Context<'_>, operation: Operation, args: &[&[u8]], reply: &mut Reply) -> Result<(), Fault> {
    let query = Query::read(ctx, operation, args[0], &args[1..], false)?;
    let with_scores = query.with_scores;
    push_members(reply, &query.evaluate(ctx)?, with_scores);
    Ok(())
}

/// Stores what the inputs make, and replies with the number of members.
fn keep(
    ctx: &mut Context<'_>,
    operation: Operation,
    args: &[&[u8]],
    reply: &mut Reply,
    event: &'static str,
) -> Result<(), Fault> {
    let query = Query::read(ctx, operation, args[0], &args[2..], true)?;
    let found = query.evaluate(ctx)?;
    store(ctx, args[1], &found, event)?;
    reply.count(found.len() as u64);
    Ok(())
}

pub(super) fn zunion(ctx: &mut Context<'_>, args: &[&[u8]], reply: &mut Reply) -> Result<(), Fault> {
    show(ctx, Operation::Union, args, reply)
}

pub(super) fn zinter(ctx: &mut Context<'_>, args: &[&[u8]], reply: &mut Reply) -> Result<(), Fault> {
    show(ctx, Operation::Intersection, args, reply)
}

pub(super) fn zdiff(ctx: &mut Context<'_>, args: &[&[u8]], reply: &mut Reply) -> Result<(), Fault> {
    show(ctx, Operation::Difference, args, reply)
}

pub(super) fn zunionstore(ctx: &mut Context<'_>, args: &[&[u8]], reply: &mut Reply) -> Result<(), Fault> {
    keep(ctx, Operation::Union, args, reply, "zunionstore")
}

pub(super) fn zinterstore(ctx: &mut Context<'_>, args: &[&[u8]], reply: &mut Reply) -> Result<(), Fault> {
    keep(ctx, Operation::Intersection, args, reply, "zinterstore")
}

pub(super) fn zdiffstore(ctx: &mut Context<'_>, args: &[&[u8]], reply: &mut Reply) -> Result<(), Fault> {
    keep(ctx, Operation::Difference, args, reply, "zdiffstore")
}

pub(super) fn zintercard(ctx: &mut Context<'_>, args: &[&[u8]], reply: &mut Reply) -> Result<(), Fault> {
    let (keys, mut rest) = keys_and_options(args[0], &args[1..])?;
    let mut inputs = keys.iter().map(|key| Input::find(ctx, key)).collect::<Result<Vec<Input>, Fault>>()?;
    let mut limit = 0;
    while let [option, behind @ ..] = rest {
        let [given, behind @ ..] = behind else { return Err(Fault::SYNTAX) };
        if !is(option, "LIMIT") {
            return Err(Fault::SYNTAX);
        }
        limit = integer(given).ok().filter(|limit| *limit >= 0).ok_or(BAD_LIMIT)?;
        rest = behind;
    }
    // No limit is 0.
    let limit = if limit == 0 { u64::MAX } else { limit.unsigned_abs() };
    let mut count = 0;
    intersect(ctx.session(), &mut inputs, Aggregate::Sum, |_, _| {
        count += 1;
        count < limit
    })?;
    reply.count(count);
    Ok(())
}
