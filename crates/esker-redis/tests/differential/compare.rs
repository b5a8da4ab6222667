//! What makes replies the same, and what a difference looks like.

use std::collections::BTreeSet;

use crate::deliberate;
use crate::redis::Reply;

/// Times that are told differ by less than this, in milliseconds: the clock goes on between one side and the other.
pub(crate) const TOLERANCE_MS: i64 = 60_000;

/// What one did otherwise than the other.
#[derive(Debug, Clone)]
pub(crate) struct Difference {
    /// What was looked at, if it is not the reply.
    pub(crate) what: String,
    pub(crate) redis: String,
    pub(crate) memory: String,
}

impl Difference {
    pub(crate) fn between(
        what: &str,
        redis: &impl std::fmt::Debug,
        memory: &impl std::fmt::Debug,
    ) -> Difference {
        Difference { what: what.to_owned(), redis: format!("{redis:?}"), memory: format!("{memory:?}") }
    }
}

/// Whether replies to a command are the same but for what has no order, and for the time between one and the other, whose
/// clock is `ahead_s` ahead.
pub(crate) fn are_alike(name: &str, redis: &Reply, memory: &Reply, ahead_s: i64) -> bool {
    match name {
        "ttl" => are_near(redis, memory, 1, ahead_s),
        "pttl" => are_near(redis, memory, 1000, ahead_s),
        "expiretime" => are_near(redis, memory, 1, 0),
        "pexpiretime" => are_near(redis, memory, 1000, 0),
        _ => in_order(name, redis.clone()) == in_order(name, memory.clone()),
    }
}

/// Whether both are the same, or times that are near each other when the one of Redis is `ahead_s` behind.
fn are_near(redis: &Reply, memory: &Reply, parts: i64, ahead_s: i64) -> bool {
    let (Some(redis), Some(memory)) = (redis.integer(), memory.integer()) else { return redis == memory };
    if redis < 0 || memory < 0 {
        return redis == memory;
    }
    if deliberate::is_cut(redis, memory, parts) {
        return true;
    }
    (redis - ahead_s * parts).abs_diff(memory) <= (TOLERANCE_MS * parts / 1000).unsigned_abs()
}

/// A reply in a definite order, if it has none, and with scores as they are shown on both sides.
pub(crate) fn in_order(name: &str, mut reply: Reply) -> Reply {
    if name.starts_with('z') || name.starts_with("bz") {
        deliberate::show_zeros(&mut reply);
    }
    let width = match name {
        "smembers" | "sinter" | "sunion" | "sdiff" | "hkeys" | "hvals" | "keys" => 1,
        "hgetall" => 2,
        _ => return reply,
    };
    let Reply::List(first, Some(parts)) = reply else { return reply };
    let mut groups: Vec<&[Reply]> = parts.chunks(width).collect();
    groups.sort();
    Reply::List(first, Some(groups.concat()))
}

/// Whether a random reply could have been chosen from `content`. If the count is not negative, nothing is chosen twice.
pub(crate) fn is_chosen_from(content: &Reply, args: &[Vec<u8>], chosen: &Reply) -> bool {
    let is_of_pairs =
        ["hrandfield", "zrandmember"].iter().any(|name| args[0].eq_ignore_ascii_case(name.as_bytes()));
    // With values, or scores.
    let width = if is_of_pairs && args.len() > 3 { 2 } else { 1 };
    let content = content.leaves();
    let items = content.chunks(if is_of_pairs { 2 } else { 1 });
    let content: BTreeSet<&[&[u8]]> = items.map(|item| &item[..width]).collect();
    if content.is_empty() {
        return chosen.leaves().concat().is_empty();
    }
    let chosen = chosen.leaves();
    let chosen: Vec<&[&[u8]]> = chosen.chunks(width).collect();
    let different: BTreeSet<&&[&[u8]]> = chosen.iter().collect();
    let may_repeat = args.get(2).is_some_and(|count| count.starts_with(b"-"));
    chosen.iter().all(|item| content.contains(item)) && (may_repeat || different.len() == chosen.len())
}
