//! `esker merge KEY --add N`, `esker merge KEY --append VALUE`.

use std::fs;

use crate::args::{Global, Merge};
use crate::datatype::{DataType, Types};
use crate::exit::{Failure, Outcome};
use crate::store::{Store, check_first_key, check_value};

pub(crate) fn run(global: &Global, args: &Merge) -> Outcome {
    let key = args.key.as_encoded_bytes();
    // An invalid key must not leave an empty store.
    check_first_key(global, global.types(Types::TEXT), key)?;
    let fallback = match args.add {
        // On a server, numbers are text.
        Some(_) if global.url.is_none() => Types { values: DataType::I64, ..Types::TEXT },
        _ => Types::TEXT,
    };
    // Nor must an operation or a value that the tree of a new store refuses. Without a directory, or in an empty one,
    // the store would be new.
    let is_empty = || fs::read_dir(&global.db).map_or(true, |mut names| names.next().is_none());
    if global.url.is_none() && global.open.is_none() && is_empty() {
        let types = global.types(fallback);
        fits(global, args, types.kept().values, DataType::I64)?;
        if let Some(typed) = &args.append {
            check_value(types.values, typed.as_encoded_bytes(), &mut Vec::new())?;
        }
    }
    let mut store = Store::create(global, fallback)?;
    let key = store.key(key)?;
    let is_typed = global.values.is_some() || !store.tree.is_database();
    fits(global, args, if is_typed { store.kept.values } else { DataType::Text }, store.tree.numbers())?;
    let mut scratch = Vec::new();
    match (args.add, &args.append) {
        (Some(number), _) => {
            store.before_write()?;
            store.tree.add(&key, number)?;
        }
        (None, typed) => {
            let typed = typed.as_ref().map(|typed| typed.as_encoded_bytes()).unwrap_or_default();
            let appended = store.value(typed, &mut scratch)?;
            store.before_write()?;
            store.tree.append(&key, appended)?;
        }
    }
    store.finish()
}

/// Refuses an operation that the tree's values, of the type `values`, do not have. `numbers`: the type of values to which
/// numbers can be added.
fn fits(global: &Global, args: &Merge, values: DataType, numbers: DataType) -> Outcome {
    match args.add {
        Some(_) if values != numbers => Err(Failure::usage(match numbers {
            DataType::Text => {
                format!("on a server, --add is for numbers in decimal digits: leave --values {values} out")
            }
            _ => format!(
                "the tree {:?} has {values} values, and --add needs {numbers} values: use another tree (--tree)",
                global.tree
            ),
        })),
        None if values == DataType::Json => {
            Err(Failure::usage("--append is not for JSON values: after it they would not be JSON"))
        }
        None if values.width().is_some() => Err(Failure::usage(format!(
            "--append needs values of any length, and {values} values have a fixed length"
        ))),
        _ => Ok(()),
    }
}
