//! `RANDOMKEY`: a random key without an index by number, at a bounded cost.
//!
//! Up to [`COUNTED_MAX`] keys are counted, and each is as likely as the others. Among more keys, several descents each find
//! one key, and one of these is returned:
//!
//! ```text
//! keys        [------------------------------]     the first and the last one tell the bytes that all share
//! next byte   'a'      'b'              'f'        a random byte between the first one and the last one leads to the next
//!                                        ^         byte that a key has; here, 'c' to 'f' lead to 'f': 4 of 6
//! ```
//! A descent lengthens the shared bytes so until at most [`PART_MAX`] keys are left, and takes any of these. The product of
//! the chances on its way is the chance of that key, and the inverse of it is the key's weight: how many keys there would be
//! if all were that likely. One of the keys that were found is returned, in proportion to the weights, so keys that are hard
//! to hit are not returned much less often than others. What stays unlikely are long chains of keys, each of which begins
//! with the one before.

use std::ops::ControlFlow;

use crate::context::Context;
use crate::entry::behind;
use crate::fault::{Fault, ReadError};
use crate::resp::reply::Reply;
use crate::session::Bounds;

/// The most keys that are counted, at first and at the end of a descent.
const COUNTED_MAX: u64 = 1024;
const PART_MAX: u64 = 64;

/// How many keys are found by chance, one of which is returned.
const DESCENTS: usize = 16;

/// A descent ends after so many steps, at the first key that is left.
const STEPS_MAX: usize = 32;

pub(super) fn randomkey(ctx: &mut Context<'_>, _: &[&[u8]], reply: &mut Reply) -> Result<(), Fault> {
    let key = random_key(ctx)?;
    reply.bulk_or_null(key.as_deref());
    Ok(())
}

fn random_key(ctx: &mut Context<'_>) -> Result<Option<Vec<u8>>, ReadError> {
    if let Some(count) = count(ctx, &[], COUNTED_MAX)? {
        return any_of(ctx, &[], count);
    }
    let mut found = Vec::with_capacity(DESCENTS);
    for _ in 0..DESCENTS {
        found.extend(descend(ctx)?);
    }
    Ok(by_weight(ctx, found))
}

/// How many keys begin with `prefix`; `None`: more than `most`.
fn count(ctx: &Context<'_>, prefix: &[u8], most: u64) -> Result<Option<u64>, ReadError> {
    let (mut count, upper) = (0, behind(prefix));
    let bounds = Bounds { lower: prefix, upper: upper.as_deref() };
    ctx.session().walk(ctx.keys(), bounds, false, &mut |_, _| {
        count += 1;
        Ok(count <= most)
    })?;
    Ok(Some(count).filter(|count| *count <= most))
}

/// Any of the first `count` keys that begin with `prefix`.
fn any_of(ctx: &mut Context<'_>, prefix: &[u8], count: u64) -> Result<Option<Vec<u8>>, ReadError> {
    let mut left = ctx.random_below(count.max(1));
    let (mut found, upper) = (None, behind(prefix));
    let bounds = Bounds { lower: prefix, upper: upper.as_deref() };
    ctx.session().walk(ctx.keys(), bounds, false, &mut |key, _| {
        let is_chosen = left == 0;
        if is_chosen {
            found = Some(key.to_vec());
        } else {
            left -= 1;
        }
        Ok(!is_chosen)
    })?;
    Ok(found)
}

/// The first key within `bounds`, or the last one.
fn edge(ctx: &Context<'_>, bounds: Bounds<'_>, is_last: bool) -> Result<Option<Vec<u8>>, ReadError> {
    let mut found = None;
    ctx.session().walk(ctx.keys(), bounds, is_last, &mut |key, _| {
        found = Some(key.to_vec());
        Ok(false)
    })?;
    Ok(found)
}

/// A key and how much it weighs.
type Weighed = (Vec<u8>, f64);

/// Finds a key by chance. `None`: there are no keys.
fn descend(ctx: &mut Context<'_>) -> Result<Option<Weighed>, ReadError> {
    let (mut prefix, mut weight) = (Vec::new(), 1.0);
    for _ in 0..STEPS_MAX {
        if let ControlFlow::Break(key) = step(ctx, &mut prefix, &mut weight)? {
            return Ok(Some((key, weight)));
        }
        if let Some(count) = count(ctx, &prefix, PART_MAX)? {
            let key = any_of(ctx, &prefix, count)?;
            return Ok(key.map(|key| (key, weight * count as f64)));
        }
    }
    let first = edge(ctx, Bounds { lower: &prefix, upper: None }, false)?;
    Ok(first.map(|key| (key, weight)))
}

/// One step of a descent among the keys that begin with `prefix`, which grows; there are some. Breaks if it comes to the
/// key that is the beginning of all others.
fn step(
    ctx: &mut Context<'_>,
    prefix: &mut Vec<u8>,
    weight: &mut f64,
) -> Result<ControlFlow<Vec<u8>>, ReadError> {
    let upper = behind(prefix);
    let all = Bounds { lower: prefix, upper: upper.as_deref() };
    let first = edge(ctx, all, false)?.unwrap_or_default();
    let last = edge(ctx, all, true)?.unwrap_or_default();
    let shared = first.iter().zip(&last).take_while(|(a, b)| a == b).count();
    // What follows the shared bytes: 0 for the end of the key, or 1 + the byte.
    let branch = |key: &[u8]| key.get(shared).map_or(0, |byte| 1 + u64::from(*byte));
    let begin = |branch: u64| [&first[..shared], &[(branch.max(1) - 1) as u8]].concat();
    // Keys may expire between two walks: then the last one may be the lesser.
    let (low, high) = (branch(&first), branch(&last));
    let wish = low + ctx.random_below(high.saturating_sub(low) + 1);
    let (found, ways) = if wish == low {
        (low, 1)
    } else {
        let next = edge(ctx, Bounds { lower: &begin(wish), upper: None }, false)?;
        let found = next.map_or(high, |key| branch(&key));
        let before = edge(ctx, Bounds { lower: &first, upper: Some(&begin(found)) }, true)?;
        (found, found.saturating_sub(before.map_or(low, |key| branch(&key))))
    };
    *weight *= (high.saturating_sub(low) + 1) as f64 / ways as f64;
    if found == 0 {
        return Ok(ControlFlow::Break(first));
    }
    *prefix = begin(found);
    Ok(ControlFlow::Continue(()))
}

/// One of the keys, by their weights.
fn by_weight(ctx: &mut Context<'_>, found: Vec<Weighed>) -> Option<Vec<u8>> {
    let total: f64 = found.iter().map(|(_, weight)| weight).sum();
    let mut left = (ctx.random() >> 11) as f64 / (1_u64 << 53) as f64 * total;
    let mut chosen = None;
    for (key, weight) in found {
        chosen = Some(key);
        left -= weight;
        if left < 0.0 {
            break;
        }
    }
    chosen
}
