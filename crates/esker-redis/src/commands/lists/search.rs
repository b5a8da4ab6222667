//! Commands that look for elements which are equal to a value. They walk over the list from one of its ends.

use super::list::List;
use crate::commands::{integer, is};
use crate::context::{Class, Context};
use crate::fault::Fault;
use crate::numbers;
use crate::resp::reply::Reply;

pub(super) fn lrem(ctx: &mut Context<'_>, args: &[&[u8]], reply: &mut Reply) -> Result<(), Fault> {
    let count = integer(args[2])?;
    let Some(mut list) = List::find(ctx, args[1])? else {
        reply.integer(0);
        return Ok(());
    };
    let (len, is_reverse) = (list.len(), count < 0);
    let most = if count == 0 { u64::MAX } else { count.unsigned_abs() };
    let mut found = Vec::new();
    list.walk(ctx.session(), 0..len, is_reverse, |index, value| {
        if value == args[3] {
            found.push(index);
        }
        (found.len() as u64) < most
    })?;
    if is_reverse {
        found.reverse();
    }
    let removed = found.len() as i64;
    if removed > 0 {
        ctx.notify(Class::List, "lrem", args[1]);
    }
    if removed == len {
        list.clear(ctx)?;
        ctx.notify(Class::Generic, "del", args[1]);
    } else if removed > 0 {
        list.remove(ctx, &found)?;
        list.save(ctx);
    }
    reply.integer(removed);
    Ok(())
}

pub(super) fn linsert(ctx: &mut Context<'_>, args: &[&[u8]], reply: &mut Reply) -> Result<(), Fault> {
    let is_after = is(args[2], "AFTER");
    if !is_after && !is(args[2], "BEFORE") {
        return Err(Fault::SYNTAX);
    }
    let Some(mut list) = List::find(ctx, args[1])? else {
        reply.integer(0);
        return Ok(());
    };
    let mut found = None;
    list.walk(ctx.session(), 0..list.len(), false, |index, value| {
        found = Some(index).filter(|_| value == args[3]);
        found.is_none()
    })?;
    let Some(index) = found else {
        reply.integer(-1);
        return Ok(());
    };
    list.insert(ctx, index.saturating_add(i64::from(is_after)), args[4])?;
    reply.integer(list.len());
    list.save(ctx);
    ctx.notify(Class::List, "linsert", args[1]);
    Ok(())
}

/// What `LPOS` says behind the value.
struct Wanted {
    /// Which of the matches is the first to be returned, from 1 on; below 0, from the right end.
    rank: i64,
    /// How many are returned at most, as an array; `None`: one, by itself.
    count: Option<u64>,
    /// How many elements are looked at.
    elements_max: i64,
}

impl Wanted {
    fn parse(args: &[&[u8]]) -> Result<Wanted, Fault> {
        const ZERO: Fault = Fault::told(
            "ERR RANK can't be zero: use 1 to start from the first match, 2 from the second ... or use negative to \
             start from the end of the list",
        );
        let least_zero = |argument: &[u8], fault| {
            numbers::integer(argument).filter(|number| *number >= 0).ok_or(Fault::told(fault))
        };
        let mut wanted = Wanted { rank: 1, count: None, elements_max: i64::MAX };
        for pair in args.chunks(2) {
            let [name, value] = *pair else { return Err(Fault::SYNTAX) };
            if is(name, "RANK") {
                wanted.rank = integer(value)?;
                if wanted.rank == 0 {
                    return Err(ZERO);
                }
            } else if is(name, "COUNT") {
                let count = least_zero(value, "ERR COUNT can't be negative")?.unsigned_abs();
                wanted.count = Some(if count == 0 { u64::MAX } else { count });
            } else if is(name, "MAXLEN") {
                let most = least_zero(value, "ERR MAXLEN can't be negative")?;
                wanted.elements_max = if most == 0 { i64::MAX } else { most };
            } else {
                return Err(Fault::SYNTAX);
            }
        }
        Ok(wanted)
    }

    /// The indexes of the matches that are returned.
    fn find(&self, ctx: &Context<'_>, list: &List, wanted: &[u8]) -> Result<Vec<i64>, Fault> {
        let (len, is_reverse) = (list.len(), self.rank < 0);
        let range = if is_reverse {
            len.saturating_sub(self.elements_max).max(0)..len
        } else {
            0..len.min(self.elements_max)
        };
        let mut to_skip = self.rank.unsigned_abs() - 1;
        let mut found = Vec::new();
        list.walk(ctx.session(), range, is_reverse, |index, value| {
            if value == wanted {
                if to_skip == 0 {
                    found.push(index);
                } else {
                    to_skip -= 1;
                }
            }
            (found.len() as u64) < self.count.unwrap_or(1)
        })?;
        Ok(found)
    }
}

pub(super) fn lpos(ctx: &mut Context<'_>, args: &[&[u8]], reply: &mut Reply) -> Result<(), Fault> {
    let wanted = Wanted::parse(&args[3..])?;
    let found = match List::read(ctx, args[1])? {
        Some(list) => wanted.find(ctx, &list, args[2])?,
        None => Vec::new(),
    };
    if wanted.count.is_some() {
        reply.array(found.len());
        found.iter().for_each(|index| reply.integer(*index));
    } else if let Some(index) = found.first() {
        reply.integer(*index);
    } else {
        reply.null();
    }
    Ok(())
}
