//! A sorted set, as it lies in a collection.
//!
//! ```text
//! 'm' member          -> score, 8 bytes                 finds the score of a member; in the order of members
//! 's' score member    -> nothing                        in the order of scores, and of members within one score
//! ```
//! In both, the score is encoded such that its bytes are in the order of scores. Both entries of a member are written and
//! removed together, here and nowhere else, so a sorted set has twice as many entries as members.

use super::element::{by_member, by_score, ordered, score_of};
use super::interval::Interval;
use crate::commands::collections::{self, Pair};
use crate::commands::random::Choice;
use crate::commands::scan;
use crate::context::{Class, Context};
use crate::fault::{Fault, ReadError};
use crate::model::{self, Collection, Kind};
use crate::resp::reply::Reply;
use crate::session::{Entry, Session};

/// A change that may leave an end of a sorted set without elements has that looked at once in so many times.
const TIGHTENED_ONCE_IN: u64 = 16;

/// A member with its score.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Scored {
    pub(super) member: Vec<u8>,
    pub(super) score: f64,
}

fn decoded(score: &[u8]) -> Result<f64, ReadError> {
    let bytes = <[u8; 8]>::try_from(score);
    let bytes = bytes.map_err(|_| damaged("the score of a member does not have 8 bytes"))?;
    Ok(score_of(u64::from_be_bytes(bytes)))
}

fn damaged(what: &str) -> ReadError {
    ReadError::Failed(format!("Corruption: {what}"))
}

/// Members with the values of their elements.
fn all_scored(pairs: Vec<Pair>) -> Result<Vec<Scored>, ReadError> {
    let scored = pairs.into_iter().map(|(member, score)| Ok(Scored { member, score: decoded(&score)? }));
    scored.collect()
}

/// A sorted set that is read and changed. Changes count from [`SortedSet::save`] on.
pub(super) struct SortedSet {
    entries: Collection,
}

impl SortedSet {
    /// The sorted set at `key`, if there is one. Another type is an error.
    pub(super) fn find(ctx: &Context<'_>, key: &[u8]) -> Result<Option<SortedSet>, Fault> {
        Ok(Collection::find(ctx, key, Kind::SortedSet)?.map(|entries| SortedSet { entries }))
    }

    /// As [`SortedSet::find`], for a command that only reads: notes that a key is missed.
    pub(super) fn read(ctx: &mut Context<'_>, key: &[u8]) -> Result<Option<SortedSet>, Fault> {
        Ok(collections::read(ctx, key, Kind::SortedSet)?.map(|entries| SortedSet { entries }))
    }

    /// The sorted set that `entry` of `key` holds. Another type is an error.
    pub(super) fn of(ctx: &Context<'_>, key: &[u8], entry: Entry) -> Result<SortedSet, Fault> {
        Ok(SortedSet { entries: Collection::of(ctx, key, Kind::SortedSet, entry)? })
    }

    /// A sorted set without members, to be saved at `key`.
    pub(super) fn new(ctx: &Context<'_>, key: &[u8]) -> SortedSet {
        SortedSet { entries: Collection::new(ctx, key, Kind::SortedSet) }
    }

    /// How many members it has.
    pub(super) fn len(&self) -> u64 {
        self.entries.entries() / 2
    }

    /// The score of `member`.
    pub(super) fn score(&self, session: &Session<'_>, member: &[u8]) -> Result<Option<f64>, ReadError> {
        self.entries.read(session, &by_member(member), decoded)
    }

    /// `member`, which has the score `old` if it is there, gets `score`.
    pub(super) fn put(
        &mut self,
        ctx: &mut Context<'_>,
        member: &[u8],
        old: Option<f64>,
        score: f64,
    ) -> Result<(), ReadError> {
        if let Some(old) = old {
            self.entries.remove(ctx, &by_score(old, member))?;
        }
        self.entries.insert_known(ctx, &by_member(member), &ordered(score).to_be_bytes(), old.is_none())?;
        let element = by_score(score, member);
        self.entries.insert_known(ctx, &element, &[], true)?;
        self.entries.within_mut().include(&element);
        if old.is_some() { self.tighten_at_times(ctx) } else { Ok(()) }
    }

    /// Looks where its elements begin and end, so that walks from there pass nothing that is gone.
    fn tighten(&mut self, session: &Session<'_>) -> Result<(), ReadError> {
        if !self.entries.is_large() {
            return Ok(());
        }
        for reverse in [false, true] {
            let mut found = None;
            self.walk(session, &Interval::all(), reverse, |member, score| {
                found = Some(by_score(score, member));
                Ok(false)
            })?;
            match found {
                Some(last) if reverse => self.entries.within_mut().end_at(&last),
                Some(first) => self.entries.within_mut().begin_at(&first),
                None => {}
            }
        }
        Ok(())
    }

    /// As [`SortedSet::tighten`], by chance: each call costs little, and walks pass few elements that are gone.
    fn tighten_at_times(&mut self, ctx: &mut Context<'_>) -> Result<(), ReadError> {
        if self.entries.is_large() && ctx.random().is_multiple_of(TIGHTENED_ONCE_IN) {
            return self.tighten(ctx.session());
        }
        Ok(())
    }

    /// `member` goes. Returns whether it was there.
    pub(super) fn remove(&mut self, ctx: &mut Context<'_>, member: &[u8]) -> Result<bool, ReadError> {
        let Some(score) = self.entries.remove(ctx, &by_member(member))? else { return Ok(false) };
        self.entries.remove(ctx, &by_score(decoded(&score)?, member))?;
        self.tighten_at_times(ctx)?;
        Ok(true)
    }

    /// Nothing is before `scored`, or behind it, in the order of scores: it is about to be removed.
    pub(super) fn begin_or_end_at(&mut self, scored: &Scored, is_begin: bool) {
        let element = by_score(scored.score, &scored.member);
        match is_begin {
            true => self.entries.within_mut().begin_at(&element),
            false => self.entries.within_mut().end_at(&element),
        }
    }

    /// Makes the changes count. Without members, it goes, and its key with it. Returns whether it is there.
    pub(super) fn save(self, ctx: &mut Context<'_>) -> bool {
        self.entries.save(ctx)
    }

    /// Removes `members`, all of which are there, saves, and notes that `event` has happened to `key`.
    pub(super) fn remove_all(
        mut self,
        ctx: &mut Context<'_>,
        key: &[u8],
        members: &[Scored],
        event: &'static str,
    ) -> Result<(), Fault> {
        if members.is_empty() {
            return Ok(());
        }
        // All at once takes fewer writes than one after the other.
        let all_go = members.len() as u64 == self.len();
        if all_go {
            self.entries.delete_elements(ctx)?;
            ctx.delete_entry(key);
        } else {
            for Scored { member, .. } in members {
                self.remove(ctx, member)?;
            }
            if members.len() > 1 {
                self.tighten(ctx.session())?;
            }
            self.save(ctx);
        }
        ctx.notify(Class::SortedSet, event, key);
        if all_go {
            ctx.notify(Class::Generic, "del", key);
        }
        Ok(())
    }

    /// Calls `visit` with the members in `interval` and their scores, in its order, or in reverse, until it returns
    /// `false`.
    pub(super) fn walk(
        &self,
        session: &Session<'_>,
        interval: &Interval,
        reverse: bool,
        mut visit: impl FnMut(&[u8], f64) -> Result<bool, ReadError>,
    ) -> Result<(), ReadError> {
        let bounds = if interval.is_by_score() {
            self.entries.within().cut(interval.bounds())
        } else {
            Some(interval.bounds())
        };
        let Some(bounds) = bounds else { return Ok(()) };
        self.entries.walk(session, bounds, reverse, |element, value| match element {
            [b'm', member @ ..] => visit(member, decoded(&value)?),
            [b's', rest @ ..] => {
                let parts = rest.split_at_checked(8);
                let (score, member) = parts.ok_or_else(|| damaged("a score does not have 8 bytes"))?;
                visit(member, decoded(score)?)
            }
            _ => Err(damaged("an entry of a sorted set is neither a member's nor a score's")),
        })
    }

    /// The next piece of it, in the order of members: the next cursor, and the members that match.
    pub(super) fn piece(
        &self,
        ctx: &mut Context<'_>,
        cursor: u64,
        options: &scan::Options<'_>,
    ) -> Result<(u64, Vec<Scored>), Fault> {
        let (next, found) = scan::piece(ctx, &self.entries, b"m", cursor, options)?;
        Ok((next, all_scored(found)?))
    }

    /// How many members are in `interval`.
    pub(super) fn count(&self, session: &Session<'_>, interval: &Interval) -> Result<u64, ReadError> {
        let mut count = 0;
        self.walk(session, interval, false, |_, _| {
            count += 1;
            Ok(true)
        })?;
        Ok(count)
    }

    /// The members from rank `first` on, `count` at most, in the order of scores. Walks from the end that is nearer.
    pub(super) fn ranks(
        &self,
        session: &Session<'_>,
        first: u64,
        count: u64,
    ) -> Result<Vec<Scored>, ReadError> {
        let count = count.min(self.len().saturating_sub(first));
        let behind = self.len().saturating_sub(first).saturating_sub(count);
        let from_end = behind < first;
        let mut found =
            self.some(session, &Interval::all(), from_end, if from_end { behind } else { first }, count)?;
        if from_end {
            found.reverse();
        }
        Ok(found)
    }

    /// `count` random members, or all of them, in no order that means anything.
    pub(super) fn choose(&self, ctx: &mut Context<'_>, count: u64) -> Result<Vec<Scored>, ReadError> {
        if count >= self.len() {
            return self.ranks(ctx.session(), 0, count);
        }
        all_scored(self.choice().distinct(ctx, count)?)
    }

    /// Answers with `count` random members, any of which may come again, by `push`.
    pub(super) fn choose_repeated(
        &self,
        ctx: &mut Context<'_>,
        count: u64,
        reply: &mut Reply,
        mut push: impl FnMut(&mut Reply, &[u8], f64),
    ) -> Result<(), Fault> {
        let mut damage = Ok(());
        self.choice().repeated(ctx, count, reply, |reply, member, score| match decoded(score) {
            Ok(score) => push(reply, member, score),
            Err(error) => damage = Err(error),
        })?;
        Ok(damage?)
    }

    fn choice(&self) -> Choice<'_> {
        Choice { collection: &self.entries, prefix: b"m", total: self.len(), with_values: true }
    }

    /// The members in `interval`, in its order or in reverse, without the first `skip` ones, `count` at most.
    pub(super) fn some(
        &self,
        session: &Session<'_>,
        interval: &Interval,
        reverse: bool,
        mut skip: u64,
        mut count: u64,
    ) -> Result<Vec<Scored>, ReadError> {
        let mut found = Vec::new();
        // A walk that would skip all does not begin.
        if count == 0 || skip >= self.len() {
            return Ok(found);
        }
        self.walk(session, interval, reverse, |member, score| {
            if skip > 0 {
                skip -= 1;
                return Ok(true);
            }
            found.push(Scored { member: member.to_vec(), score });
            count -= 1;
            Ok(count > 0)
        })?;
        Ok(found)
    }
}

/// `key` gets `members`, and whatever it had goes; without members, the key goes. Notes that `event` has happened.
pub(super) fn store(
    ctx: &mut Context<'_>,
    key: &[u8],
    members: &[Scored],
    event: &'static str,
) -> Result<(), Fault> {
    let was_there = model::remove(ctx, key)?;
    if members.is_empty() {
        if was_there {
            ctx.notify(Class::Generic, "del", key);
        }
        return Ok(());
    }
    let mut set = SortedSet::new(ctx, key);
    for Scored { member, score } in members {
        set.put(ctx, member, None, *score)?;
    }
    set.save(ctx);
    if !was_there {
        ctx.notify(Class::New, "new", key);
    }
    ctx.notify(Class::SortedSet, event, key);
    Ok(())
}

/// Appends members, with their scores if asked for: as pairs in version 3, one after the other in version 2.
pub(super) fn push_members(reply: &mut Reply, members: &[Scored], with_scores: bool) {
    begin_members(reply, members.len(), with_scores);
    for Scored { member, score } in members {
        push_member(reply, member, *score, with_scores);
    }
}

/// `len` members follow, each by [`push_member`].
pub(super) fn begin_members(reply: &mut Reply, len: usize, with_scores: bool) {
    reply.array(if with_scores && !reply.resp3 { len.saturating_mul(2) } else { len });
}

/// Appends a member, with its score if asked for.
pub(super) fn push_member(reply: &mut Reply, member: &[u8], score: f64, with_score: bool) {
    if with_score && reply.resp3 {
        reply.array(2);
    }
    reply.bulk(member);
    if with_score {
        reply.double(score);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encoded_scores_are_in_the_order_of_scores() {
        let scores = [
            f64::NEG_INFINITY,
            f64::MIN,
            -1.5,
            -1.0,
            -f64::MIN_POSITIVE,
            -5e-324,
            0.0,
            5e-324,
            1.0,
            f64::MAX,
            f64::INFINITY,
        ];
        for pair in scores.windows(2) {
            assert!(ordered(pair[0]) < ordered(pair[1]), "{pair:?}");
            assert!(by_score(pair[0], b"\xff") < by_score(pair[1], b""), "{pair:?}");
        }
        for score in scores {
            assert_eq!(score_of(ordered(score)).to_bits(), score.to_bits());
        }
        assert_eq!(ordered(-0.0), ordered(0.0));
        assert!(decoded(b"short").is_err());
    }
}
