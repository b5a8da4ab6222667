//! `esker mv FROM TO` and `esker cp FROM TO`.

use crate::args::{Global, Transfer};
use crate::exit::{Failure, Outcome};
use crate::store::Store;

pub(crate) fn run(global: &Global, args: &Transfer, keep: bool) -> Outcome {
    let store = Store::write(global)?;
    let (from, to) = (store.key(args.from.as_encoded_bytes())?, store.key(args.to.as_encoded_bytes())?);
    let done = store.tree.transfer(&from, &to, keep)?;
    store.finish()?;
    if done { Ok(()) } else { Err(Failure::absent(&args.from)) }
}
