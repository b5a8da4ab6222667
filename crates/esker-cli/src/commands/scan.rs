//! `esker scan [LO [HI]]`.

use std::ffi::OsStr;

use crate::args::{Bounds, Global, Scan};
use crate::datatype::{DataType, Types};
use crate::exit::Outcome;
use crate::json::{self, Held};
use crate::kind;
use crate::output::Out;
use crate::ranges::KeyBounds;
use crate::store::Store;

pub(crate) fn run(global: &Global, args: &Scan) -> Outcome {
    let store = Store::read(global)?;
    let Some(mut range) = bounds(store.types.keys, &args.bounds)?.range() else { return Ok(()) };
    if args.reverse {
        range = range.reverse();
    }
    if args.keys_only {
        range = range.keys_only();
    }
    let limit = args.limit.unwrap_or(u64::MAX);
    if limit == 0 {
        return Ok(());
    }
    let mut rows = store.tree.scan(range)?;
    let out = Out::stdout()?;
    let mut out = if args.raw { out.raw() } else { out };
    out.with(|out| {
        let mut left = limit;
        while left > 0 && rows.advance()? {
            let described = match out.is_shown() && !args.keys_only && !global.json {
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
    })
}
/// The text to show on a terminal instead of a value that would garble it, as in `get`.
fn describe(rows: &esker::Scan, values: DataType) -> Outcome<Option<String>> {
    let len = rows.value_len();
    if values != DataType::Text && len <= kind::POUR_AT_MOST {
        return Ok(None);
    }
    let first = rows.handle()?.read_at(..len.min(kind::POUR_AT_MOST))?;
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
