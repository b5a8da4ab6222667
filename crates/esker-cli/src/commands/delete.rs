//! `esker delete KEY`.

use crate::args::{Delete, Global};
use crate::exit::{Failure, Outcome};
use crate::store::Store;

pub(crate) fn run(global: &Global, args: &Delete) -> Outcome {
    let Some(key) = &args.key else {
        return Err(Failure::usage(
            "delete needs a key: `esker delete KEY`; `esker destroy` deletes a whole store",
        ));
    };
    let store = Store::write(global)?;
    let key = store.key(key.as_encoded_bytes())?;
    store.tree.delete(&key)?;
    store.finish()
}
