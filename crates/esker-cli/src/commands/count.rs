//! `esker count [LO [HI]]`.

use esker::{ScanRange, Tree};
use serde_json::json;

use crate::args::{Bounds, Global};
use crate::exit::Outcome;
use crate::interrupt;
use crate::output::Out;
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
pub(super) fn rows(tree: &Tree, range: ScanRange) -> Outcome<u64> {
    let mut rows = tree.scan(range.keys_only())?;
    let mut count = 0;
    while rows.advance()? {
        count += 1;
        interrupt::check()?;
    }
    Ok(count)
}
