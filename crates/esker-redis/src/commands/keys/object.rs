//! `OBJECT`: how a value is stored. Clients ask for words of Redis 7.0, so they get those that Redis would say of a value
//! of this type and size with its default settings.

use crate::commands::is;
use crate::context::Context;
use crate::fault::{Fault, ReadError};
use crate::model::{Collection, Kind};
use crate::numbers;
use crate::resp::reply::Reply;
use crate::session::{Bounds, Entry, Value};

const HELP: &[&str] = &[
    "OBJECT <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
    "ENCODING <key>",
    "    Returns how Redis would store the value of <key>.",
    "FREQ <key>",
    "    Is an error: how often keys are used is not counted.",
    "IDLETIME <key>",
    "    Returns 0: when keys were used last is not known.",
    "REFCOUNT <key>",
    "    Returns 1: values are not shared.",
    "HELP",
    "    Prints this help.",
];

pub(super) fn object(ctx: &mut Context<'_>, args: &[&[u8]], reply: &mut Reply) -> Result<(), Fault> {
    const NO_LFU: Fault = Fault::told(
        "ERR An LFU maxmemory policy is not selected, access frequency not tracked. Please note that when switching \
         between policies at runtime LRU and LFU data will take some time to adjust.",
    );
    let names = ["ENCODING", "FREQ", "IDLETIME", "REFCOUNT", "HELP"];
    let Some(name) = names.into_iter().find(|name| is(args[1], name)) else {
        let unknown = String::from_utf8_lossy(&args[1][..args[1].len().min(128)]);
        return Err(Fault::made(format!("ERR unknown subcommand '{unknown}'. Try OBJECT HELP.")));
    };
    if args.len() != if name == "HELP" { 2 } else { 3 } {
        let name = name.to_ascii_lowercase();
        let message = format!("ERR wrong number of arguments for 'object|{name}' command");
        return Err(Fault::made(message));
    }
    if name == "HELP" {
        reply.array(HELP.len());
        HELP.iter().for_each(|line| reply.simple(line));
        return Ok(());
    }
    let Some(entry) = ctx.get(args[2])? else {
        reply.null();
        return Ok(());
    };
    match name {
        "ENCODING" => reply.bulk(encoding(ctx, args[2], entry)?.as_bytes()),
        "FREQ" => return Err(NO_LFU),
        "IDLETIME" => reply.integer(0),
        _ => reply.integer(1),
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
