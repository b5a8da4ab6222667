//! `esker scan [LO [HI]]`.

use std::ffi::OsStr;

use crate::args::{Bounds, Global, Scan};
use crate::datatype::{DataType, Types};
use crate::exit::Outcome;
use crate::json::{self, Held};
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
    Out::stdout()?.with(|out| {
        let mut left = limit;
        while left > 0 && rows.advance()? {
            let expires_us = rows.expires_us();
            let (key, value) = rows.pair()?;
            let held = (!args.keys_only).then_some((value, expires_us));
            print(out.buffer(), global.json, store.types, key, held)?;
            out.spill()?;
            left -= 1;
        }
        Ok(())
    })
}

/// The bounds as typed, in the key type of the tree.
pub(super) fn bounds(keys: DataType, typed: &Bounds) -> Outcome<KeyBounds> {
    let [lo, hi, prefix] =
        [&typed.lo, &typed.hi, &typed.prefix].map(|bound| bound.as_deref().map(OsStr::as_encoded_bytes));
    KeyBounds::parse(keys, lo, hi, prefix)
}

/// Appends one row as a line: `key value`, `key` or a JSON object.
pub(super) fn print(
    out: &mut Vec<u8>,
    json: bool,
    types: Types,
    key: &[u8],
    held: Option<Held<'_>>,
) -> Outcome {
    if json {
        return json::row(out, types, key, held);
    }
    types.keys.print(key, out)?;
    if let Some((value, _)) = held {
        out.push(b' ');
        types.values.print_value(value, out)?;
    }
    out.push(b'\n');
    Ok(())
}
