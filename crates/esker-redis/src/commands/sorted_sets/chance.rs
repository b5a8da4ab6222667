//! `ZRANDMEMBER`: random members.

use super::set::{SortedSet, begin_members, push_member, push_members};
use crate::commands::{is, random};
use crate::context::Context;
use crate::fault::Fault;
use crate::resp::reply::Reply;

pub(super) fn zrandmember(ctx: &mut Context<'_>, args: &[&[u8]], reply: &mut Reply) -> Result<(), Fault> {
    let Some(count) = args.get(2) else { return one(ctx, args[1], reply) };
    let count = random::count(count)?;
    let with_scores = match &args[3..] {
        [] => false,
        [option] if is(option, "WITHSCORES") => true,
        _ => return Err(Fault::SYNTAX),
    };
    let wanted = count.unsigned_abs();
    // Each member is two replies then.
    if with_scores && wanted > i64::MAX as u64 / 2 {
        return Err(Fault::told("ERR value is out of range"));
    }
    let Some(set) = SortedSet::read(ctx, args[1])? else {
        reply.array(0);
        return Ok(());
    };
    if count >= 0 {
        push_members(reply, &set.choose(ctx, wanted)?, with_scores);
        return Ok(());
    }
    begin_members(reply, usize::try_from(wanted).unwrap_or(usize::MAX), with_scores);
    set.choose_repeated(ctx, wanted, reply, |reply, member, score| {
        push_member(reply, member, score, with_scores);
    })
}

/// Replies with one member, without its score.
fn one(ctx: &mut Context<'_>, key: &[u8], reply: &mut Reply) -> Result<(), Fault> {
    let chosen = match SortedSet::read(ctx, key)? {
        Some(set) => set.choose(ctx, 1)?.pop(),
        None => None,
    };
    reply.bulk_or_null(chosen.as_ref().map(|scored| scored.member.as_slice()));
    Ok(())
}
