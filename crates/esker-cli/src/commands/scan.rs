//! `esker scan [LO [HI]]`.

use std::ffi::OsStr;

use crate::args::{Bounds, Global, Scan};
use crate::datatype::{DataType, Types};
use crate::exit::{Outcome, note};
use crate::json::{self, Held};
use crate::keyspace::{Rows, Want};
use crate::kind;
use crate::output::Out;
use crate::ranges::KeyBounds;
use crate::store::Store;

pub(crate) fn run(global: &Global, args: &Scan) -> Outcome {
    let store = Store::read(global)?;
    let Some(range) = bounds(store.types.keys, &args.bounds)?.range() else { return Ok(()) };
    let limit = args.limit.unwrap_or(u64::MAX);
    if limit == 0 {
        return Ok(());
    }
    let out = Out::stdout()?;
    let mut out = if args.raw { out.raw() } else { out };
    let describes = out.is_shown() && !args.keys_only && !global.json;
    let want = match (args.keys_only, describes && store.types.values == DataType::Text) {
        (true, _) => Want::Nothing,
        // A longer value is only described.
        (false, true) => Want::First(kind::POUR_AT_MOST),
        (false, false) => Want::All,
    };
    let mut rows = store.tree.scan(range, args.reverse, want)?;
    out.with(|out| {
        let mut left = limit;
        while left > 0 && rows.advance()? {
            let described = match describes {
                true => describe(&rows, store.types.values)?,
                false => None,
            };
            if let Some(what) = described {
                print(out, false, store.types, rows.key(), None)?;
                out.buffer().pop();
                out.line(&format!(" ({what})"))?;
            } else {
                let expires_us = rows.expires_us();
                let (key, value) = rows.pair()?;
                let held = (!args.keys_only).then_some((value, expires_us));
                print(out, global.json, store.types, key, held)?;
                out.spill()?;
            }
            left -= 1;
        }
        Ok(())
    })?;
    say_collections(rows.collections());
    Ok(())
}

/// Says how many values were shown empty because they are not bytes, if there are any.
pub(in crate::commands) fn say_collections(count: u64) {
    if count > 0 {
        note(&format!(
            "values that are a hash, a set, a sorted set or a list: {count}; they are shown as empty (redis-cli reads them)"
        ));
    }
}

/// The text to show on a terminal instead of a value that would garble it, as in `get`.
fn describe(rows: &Rows, values: DataType) -> Outcome<Option<String>> {
    let len = rows.value_len();
    if values != DataType::Text && len <= kind::POUR_AT_MOST {
        return Ok(None);
    }
    let first = rows.first(kind::POUR_AT_MOST)?;
    Ok(kind::unprintable(&first, len))
}

/// The typed bounds, decoded in the key type of the tree.
pub(super) fn bounds(keys: DataType, typed: &Bounds) -> Outcome<KeyBounds> {
    let [lo, hi, prefix] =
        [&typed.lo, &typed.hi, &typed.prefix].map(|bound| bound.as_deref().map(OsStr::as_encoded_bytes));
    KeyBounds::parse(keys, lo, hi, prefix)
}

/// Appends one row as a line: `key value`, `key` or a JSON object.
pub(super) fn print(out: &mut Out, json: bool, types: Types, key: &[u8], held: Option<Held<'_>>) -> Outcome {
    if json {
        return json::row(out.buffer(), types, key, held);
    }
    let start = out.buffer().len();
    types.keys.print(key, out.buffer())?;
    if let Some((value, _)) = held {
        out.buffer().push(b' ');
        types.values.print_value(value, out.buffer())?;
    }
    out.part_since(start);
    out.buffer().push(b'\n');
    Ok(())
}
