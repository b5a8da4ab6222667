//! `OBJECT`: how a value is stored. Clients ask for words of Redis 7.0, so they get those that Redis would say of a value
//! of this type and size with its default settings.

use crate::commands::is;
use crate::commands::subcommands::{help, is_help};
use crate::context::Context;
use crate::fault::{Fault, ReadError};
use crate::model::{Collection, Kind};
use crate::numbers;
use crate::resp::reply::Reply;
use crate::session::{Bounds, Entry, Value};

pub(super) fn object(ctx: &mut Context<'_>, args: &[&[u8]], reply: &mut Reply) -> Result<(), Fault> {
    const NO_LFU: Fault = Fault::told(
        "ERR An LFU maxmemory policy is not selected, access frequency not tracked. Please note that when switching \
         between policies at runtime LRU and LFU data will take some time to adjust.",
    );
    if is_help(args) {
        let lines = help("object");
        reply.array(lines.len());
        lines.iter().for_each(|line| reply.simple(line));
        return Ok(());
    }
    let Some(entry) = ctx.get(args[2])? else {
        ctx.note_missed();
        reply.null();
        return Ok(());
    };
    if is(args[1], "ENCODING") {
        reply.bulk(encoding(ctx, args[2], entry)?.as_bytes());
    } else if is(args[1], "FREQ") {
        return Err(NO_LFU);
    } else {
        reply.integer(i64::from(is(args[1], "REFCOUNT")));
    }
    Ok(())
}

fn encoding(ctx: &Context<'_>, key: &[u8], entry: Entry) -> Result<&'static str, Fault> {
    const EMBEDDED_MAX: u64 = 44;
    const ENTRIES_MAX: u64 = 512;
    const MEMBERS_MAX: u64 = 128;
    let kind = Kind::of(&entry)?;
    if kind == Kind::String {
        let is_integer = matches!(&entry.value, Value::Bytes(bytes) if numbers::integer(bytes).is_some());
        let is_embedded = entry.value.len() <= EMBEDDED_MAX;
        return Ok(if is_integer {
            "int"
        } else if is_embedded {
            "embstr"
        } else {
            "raw"
        });
    }
    let collection = Collection::of(ctx, key, kind, entry)?;
    let entries = collection.entries();
    let all = |is_small: fn(&[u8], &[u8]) -> bool| all(ctx, &collection, is_small);
    Ok(match kind {
        Kind::List | Kind::String => "quicklist",
        Kind::Set if entries <= ENTRIES_MAX && all(|member, _| numbers::integer(member).is_some())? => {
            "intset"
        }
        Kind::Hash if entries <= ENTRIES_MAX && all(|field, value| is_short(field) && is_short(value))? => {
            "listpack"
        }
        Kind::Set | Kind::Hash => "hashtable",
        // Each member has two entries.
        Kind::SortedSet if entries / 2 <= MEMBERS_MAX && all(is_short_member)? => "listpack",
        Kind::SortedSet => "skiplist",
    })
}

fn is_short(bytes: &[u8]) -> bool {
    bytes.len() <= 64
}

/// Whether an entry of a sorted set is about a short member. Entries by score are left to those by member.
fn is_short_member(element: &[u8], _: &[u8]) -> bool {
    element.strip_prefix(b"m").is_none_or(is_short)
}

/// Whether `is_small` says so of all entries.
fn all(
    ctx: &Context<'_>,
    collection: &Collection,
    is_small: fn(&[u8], &[u8]) -> bool,
) -> Result<bool, ReadError> {
    let mut are_small = true;
    collection.walk(ctx.session(), Bounds::ALL, false, |element, value| {
        are_small = is_small(element, &value);
        Ok(are_small)
    })?;
    Ok(are_small)
}
