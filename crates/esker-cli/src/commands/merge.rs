//! `esker merge KEY --add N`, `esker merge KEY --append VALUE`.

use esker::{ADD, APPEND, Batch, Durability, keys};

use crate::args::{Global, Merge};
use crate::datatype::{DataType, Types};
use crate::exit::{Failure, Outcome};
use crate::store::{Store, check_key};

pub(crate) fn run(global: &Global, args: &Merge) -> Outcome {
    let key = args.key.as_encoded_bytes();
    // A key that cannot be one leaves no empty store behind.
    check_key(global.types(Types::TEXT).keys, key)?;
    let fallback = match args.add {
        Some(_) => Types { values: DataType::I64, ..Types::TEXT },
        None => Types::TEXT,
    };
    let mut store = Store::create(global, fallback)?;
    let key = store.key(key)?;
    let values = store.kept.values;
    let mut scratch = Vec::new();
    let mut batch = Batch::new();
    match (args.add, &args.append) {
        (Some(_), _) if values != DataType::I64 => {
            return Err(Failure::usage(format!(
                "the values of tree {:?} are {values}, and numbers to add to are i64: use a tree of their own (--tree)",
                store.tree.name()
            )));
        }
        (Some(number), _) => batch.merge(&store.tree, &key, ADD, keys::i64(number))?,
        (None, _) if values.width().is_some() => {
            return Err(Failure::usage(format!("what is appended to a value of type {values} is none")));
        }
        (None, typed) => {
            let typed = typed.as_ref().map(|typed| typed.as_encoded_bytes()).unwrap_or_default();
            batch.merge(&store.tree, &key, APPEND, store.value(typed, &mut scratch)?)?;
        }
    }
    store.before_write()?;
    store.db.write_with(&batch, Durability::Power)?;
    store.finish()
}
