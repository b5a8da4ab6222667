//! `esker count [LO [HI]]`.

use serde_json::json;

use crate::args::{Bounds, Global};
use crate::exit::Outcome;
use crate::output::Out;
use crate::store::Store;

pub(crate) fn run(global: &Global, args: &Bounds) -> Outcome {
    let store = Store::read(global)?;
    let count = match super::scan::bounds(store.keys, args)?.range() {
        Some(range) => store.tree.count(range)?,
        None => 0,
    };
    Out::stdout()?.with(|out| match global.json {
        true => out.line(&json!({ "count": count }).to_string()),
        false => out.line(&count.to_string()),
    })
}
