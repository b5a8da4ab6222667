//! Random elements of a collection.
//!
//! Elements are kept in order, but nothing knows their ranks: to reach the element with a given rank takes a walk. As long
//! as a walk passes at most [`PASSED_MAX`] elements for each one that is chosen, [`Choice`] walks, and all elements are
//! equally likely. Few elements of a large collection are drawn one by one instead: see [`draw`].

mod draw;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use super::collections::{Pair, miscounted};
use super::integer;
use crate::context::Context;
use crate::entry::behind;
use crate::fault::{Fault, ReadError};
use crate::model::Collection;
use crate::resp::reply::Reply;
use crate::session::Bounds;

/// So many elements are passed for each one that is chosen, before drawing is cheaper.
const PASSED_MAX: u64 = 1024;

/// What an element of a reply costs, in bytes that are made.
const REPEATED_BYTES: u64 = 64;

/// How many elements that may repeat are chosen in one walk.
const REPEATED_AT_ONCE: u64 = 1 << 16;

/// The longest reply with elements that repeat, in bytes: their number is only claimed by the client.
const REPLY_MAX: u64 = 512 << 20;

/// How many elements a client wants; elements may repeat if it is negative.
pub(crate) fn count(argument: &[u8]) -> Result<i64, Fault> {
    const LEAST: Fault = Fault::told(
        "ERR value is out of range, value must between -9223372036854775807 and 9223372036854775807",
    );
    let count = integer(argument)?;
    if count == i64::MIN { Err(LEAST) } else { Ok(count) }
}

/// What is chosen from. There must be something.
pub(crate) struct Choice<'a> {
    pub(crate) collection: &'a Collection,
    /// Only elements that begin with it are chosen. They are returned without it.
    pub(crate) prefix: &'a [u8],
    /// How many these are.
    pub(crate) total: u64,
    /// Whether their values are wanted.
    pub(crate) with_values: bool,
}

impl<'a> Choice<'a> {
    /// Of all elements.
    pub(crate) fn of(collection: &'a Collection, with_values: bool) -> Choice<'a> {
        Choice { collection, prefix: &[], total: collection.entries(), with_values }
    }

    /// Whether so few elements are chosen that a walk would pass too many others.
    fn is_drawn(&self, count: u64) -> bool {
        self.total / PASSED_MAX > count
    }

    /// `count` different elements in order, or all of them.
    pub(crate) fn distinct(&self, ctx: &mut Context<'_>, count: u64) -> Result<Vec<Pair>, ReadError> {
        if self.is_drawn(count) {
            let mut drawn = BTreeMap::new();
            for _ in 0..2 * count {
                let (element, value) = self.drawn(ctx)?;
                drawn.insert(element, value);
                if drawn.len() as u64 == count {
                    return Ok(drawn.into_iter().collect());
                }
            }
            // So many elements were drawn twice that others are too unlikely.
        }
        let (mut ranks, mut left) = (Vec::new(), count.min(self.total));
        for rank in 0..self.total {
            if left == 0 {
                break;
            }
            if ctx.random_below(self.total - rank) < left {
                ranks.push(rank);
                left -= 1;
            }
        }
        self.ranked(ctx, self.prefix, &ranks, self.with_values)
    }

    /// Answers with `count` elements, any of which may come again, by `push`.
    pub(crate) fn repeated(
        &self,
        ctx: &mut Context<'_>,
        count: u64,
        reply: &mut Reply,
        mut push: impl FnMut(&mut Reply, &[u8], &[u8]),
    ) -> Result<(), Fault> {
        const TOO_LONG: Fault = Fault::told("ERR value is out of range, the reply would be too long");
        // The shortest element takes six bytes in a reply.
        if count > REPLY_MAX / 6 {
            return Err(TOO_LONG);
        }
        // However few elements there are, the reply may be long.
        ctx.session().may_make(count * REPEATED_BYTES)?;
        let begin = reply.bytes.len();
        let mut answer = |element: &[u8], value: &[u8]| {
            push(reply, element, value);
            if (reply.bytes.len() - begin) as u64 > REPLY_MAX { Err(TOO_LONG) } else { Ok(()) }
        };
        let mut left = count;
        while left > 0 {
            let some = left.min(REPEATED_AT_ONCE);
            left -= some;
            if self.is_drawn(some) {
                for _ in 0..some {
                    let (element, value) = self.drawn(ctx)?;
                    answer(&element, &value)?;
                }
                continue;
            }
            let chosen: Vec<u64> = (0..some).map(|_| ctx.random_below(self.total)).collect();
            let mut ranks = chosen.clone();
            ranks.sort_unstable();
            ranks.dedup();
            // Without their values, which may be large, until it is their turn.
            let found = self.ranked(ctx, self.prefix, &ranks, false)?;
            for rank in chosen {
                let pair = ranks.binary_search(&rank).ok().and_then(|at| found.get(at));
                let (element, _) = pair.ok_or_else(miscounted)?;
                answer(element, &self.value_of(ctx, element)?)?;
            }
        }
        Ok(())
    }

    /// What is drawn from.
    fn elements(&self) -> draw::Elements<'a> {
        draw::Elements { collection: self.collection, prefix: self.prefix, total: self.total }
    }

    fn drawn(&self, ctx: &mut Context<'_>) -> Result<Pair, ReadError> {
        let (first, rank) = draw::draw(ctx, &self.elements())?;
        self.ranked(ctx, &first, &[rank], self.with_values)?.pop().ok_or_else(miscounted)
    }

    /// The value of `element`, which is given without the prefix, if values are wanted.
    fn value_of(&self, ctx: &Context<'_>, element: &[u8]) -> Result<Vec<u8>, ReadError> {
        if !self.with_values {
            return Ok(Vec::new());
        }
        let value = self.collection.get(ctx.session(), &[self.prefix, element].concat())?;
        value.ok_or_else(miscounted)
    }

    /// The elements with these ranks, which ascend, from the element `first` on.
    fn ranked(
        &self,
        ctx: &Context<'_>,
        first: &[u8],
        ranks: &[u64],
        with_values: bool,
    ) -> Result<Vec<Pair>, ReadError> {
        let mut found: Vec<Pair> = Vec::new();
        let (mut rank, mut wanted) = (0, ranks.iter().peekable());
        if ranks.is_empty() {
            return Ok(found);
        }
        let upper = behind(self.prefix);
        let bounds = Bounds { lower: first, upper: upper.as_deref() };
        self.collection.walk(ctx.session(), bounds, false, |element, value| {
            if wanted.next_if_eq(&&rank).is_some() {
                let value = if with_values { value } else { Vec::new() };
                found.push((element.get(self.prefix.len()..).unwrap_or(&[]).to_vec(), value));
            }
            rank += 1;
            Ok(wanted.peek().is_some())
        })?;
        if wanted.peek().is_some() { Err(miscounted()) } else { Ok(found) }
    }
}
