//! `esker count [LO [HI]]`.

use serde_json::json;

use crate::args::{Bounds, Global};
use crate::exit::Outcome;
use crate::interrupt;
use crate::keyspace::{Keyspace, Want};
use crate::output::Out;
use crate::ranges::KeyRange;
use crate::store::Store;

pub(crate) fn run(global: &Global, args: &Bounds) -> Outcome {
    let store = Store::read(global)?;
    let count = match super::scan::bounds(store.types.keys, args)?.range() {
        Some(range) => rows(&store.tree, range)?,
        None => 0,
    };
    Out::stdout()?.with(|out| match global.json {
        true => out.line(&json!({ "count": count }).to_string()),
        false => out.line(&count.to_string()),
    })
}

/// The number of rows of `tree` in `range`.
pub(super) fn rows(tree: &Keyspace, range: KeyRange) -> Outcome<u64> {
    let mut rows = tree.scan(range, false, Want::Nothing)?;
    let mut count = 0;
    while rows.advance()? {
        count += 1;
        interrupt::check()?;
    }
    Ok(count)
}
