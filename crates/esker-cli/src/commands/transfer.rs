//! `esker mv FROM TO` and `esker cp FROM TO`.

use crate::args::{Global, Transfer};
use crate::exit::{Failure, Outcome};
use crate::store::Store;

pub(crate) fn run(global: &Global, args: &Transfer, keep: bool) -> Outcome {
    let store = Store::write(global)?;
    let (from, to) = (store.key(args.from.as_encoded_bytes())?, store.key(args.to.as_encoded_bytes())?);
    let done = if keep { store.tree.copy(&from, &to)? } else { store.tree.rename(&from, &to)? };
    store.finish()?;
    if done { Ok(()) } else { Err(Failure::absent(&args.from)) }
}
