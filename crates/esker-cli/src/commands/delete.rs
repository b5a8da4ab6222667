//! `esker delete KEY`, `esker delete --prefix P`, `esker delete --from LO --to HI`, `esker delete --all`.

use crate::args::{Delete, Global};
use crate::exit::{Failure, Outcome};
use crate::ranges::KeyBounds;
use crate::store::Store;

pub(crate) fn run(global: &Global, args: &Delete) -> Outcome {
    if let Some(key) = &args.key {
        let store = Store::write(global)?;
        let key = store.key(key.as_encoded_bytes())?;
        store.tree.delete(&key)?;
        return store.finish();
    }
    if args.from.is_none() && args.to.is_none() && args.prefix.is_none() && !args.all {
        return Err(Failure::usage(
            "delete needs a key or a range: `esker delete KEY`, `esker delete --prefix P`; `esker destroy` deletes a whole store",
        ));
    }
    // An empty prefix may come from an unset variable in a script, and must not delete all keys.
    if args.prefix.as_ref().is_some_and(|prefix| prefix.is_empty()) {
        return Err(Failure::usage("the prefix is empty; `esker delete --all` deletes all keys of the tree"));
    }
    let store = Store::write(global)?;
    let typed =
        |bound: &Option<std::ffi::OsString>| bound.as_ref().map(|bound| bound.as_encoded_bytes().to_vec());
    let (from, to, prefix) = (typed(&args.from), typed(&args.to), typed(&args.prefix));
    let bounds = KeyBounds::parse(store.types.keys, from.as_deref(), to.as_deref(), prefix.as_deref())?;
    if let Some(range) = bounds.range() {
        store.tree.delete_range(&range)?;
    }
    store.finish()
}
