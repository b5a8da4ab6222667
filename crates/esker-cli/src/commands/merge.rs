//! `esker merge KEY --add N`, `esker merge KEY --append VALUE`.

use std::fs;

use esker::operators::APPEND;
use esker::{Batch, Durability, TxnOptions, keys};

use crate::args::{Global, Merge};
use crate::datatype::{DataType, Types};
use crate::exit::{Failure, Outcome};
use crate::store::{Store, check_key, check_value};

pub(crate) fn run(global: &Global, args: &Merge) -> Outcome {
    let key = args.key.as_encoded_bytes();
    // An invalid key must not leave an empty store.
    check_key(global.types(Types::TEXT).keys, key)?;
    let fallback = match args.add {
        Some(_) => Types { values: DataType::I64, ..Types::TEXT },
        None => Types::TEXT,
    };
    // Nor must an operation or a value that the tree of a new store refuses. Without a directory, or in an empty one,
    // the store would be new.
    let is_empty = || fs::read_dir(&global.db).map_or(true, |mut names| names.next().is_none());
    if global.open.is_none() && is_empty() {
        let types = global.types(fallback);
        fits(global, args, types.kept().values)?;
        if let Some(typed) = &args.append {
            check_value(types.values, typed.as_encoded_bytes(), &mut Vec::new())?;
        }
    }
    let mut store = Store::create(global, fallback)?;
    let key = store.key(key)?;
    fits(global, args, store.kept.values)?;
    let mut scratch = Vec::new();
    match (args.add, &args.append) {
        (Some(number), _) => {
            store.before_write()?;
            add(&store, &key, number)?;
        }
        (None, typed) => {
            let typed = typed.as_ref().map(|typed| typed.as_encoded_bytes()).unwrap_or_default();
            let appended = store.value(typed, &mut scratch)?;
            store.before_write()?;
            let mut batch = Batch::new();
            batch.merge(&store.tree, &key, APPEND, appended)?;
            store.db.write_with(&batch, Durability::Power)?;
        }
    }
    store.finish()
}

/// Refuses an operation that the tree's values, of the type `values`, do not have.
fn fits(global: &Global, args: &Merge, values: DataType) -> Outcome {
    match args.add {
        Some(_) if values != DataType::I64 => Err(Failure::usage(format!(
            "the tree {:?} has {values} values, and --add needs i64 values: use another tree (--tree)",
            global.tree
        ))),
        None if values.width().is_some() => Err(Failure::usage(format!(
            "--append needs values of any length, and {values} values have a fixed length"
        ))),
        _ => Ok(()),
    }
}

/// Adds `number`, unless the sum overflows i64: the library's sums wrap around. The read and the write are atomic, so
/// no other addition comes between them.
fn add(store: &Store, key: &[u8], number: i64) -> Outcome {
    let tree = &store.tree;
    store.db.transact(TxnOptions::default(), |txn| {
        let value = txn.get_vec(tree, key)?;
        let before = value.as_deref().map_or(Ok(0), keys::decode_i64)?;
        if before.checked_add(number).is_none() {
            let message = format!("the sum of {before} and {number} does not fit in i64; nothing was added");
            return Err(Failure::usage(message));
        }
        Ok(txn.add(tree, key, number)?)
    })
}
