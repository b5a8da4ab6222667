//! `esker put KEY VALUE`, `esker put KEY --file F`, for some time with `--ttl`.

use esker::{Batch, Durability};

use crate::args::{Global, Put};
use crate::datatype::{DataType, Types};
use crate::exit::{Failure, Outcome};
use crate::store::{Store, check_key, check_value};
use crate::stream::{Broken, Source};

pub(crate) fn run(global: &Global, args: &Put) -> Outcome {
    let key = args.key.as_encoded_bytes();
    // Neither a key that cannot be one nor a file that cannot be read may leave an empty store behind.
    check_key(global.keys.unwrap_or(DataType::Text), key)?;
    let typed = args.value.as_ref().map(|value| value.as_encoded_bytes()).unwrap_or_default();
    let mut scratch = Vec::new();
    if args.file.is_none() {
        check_value(global.values.unwrap_or(DataType::Text), typed, &mut scratch)?;
    }
    let mut first = Vec::new();
    let mut source = None;
    if let Some(path) = &args.file {
        let source = source.insert(Source::open(path)?);
        source.next(&mut first).map_err(|error| source.failed(&error))?;
    }
    let mut store = Store::create(global, Types::TEXT)?;
    let key = store.key(key)?;
    let values = store.types.values;
    if source.is_some() && values.width().is_some_and(|width| width != first.len()) {
        return Err(Failure::usage(format!("the file's bytes are no {} as it is stored", values.name())));
    }
    match source {
        Some(mut source) => {
            store.before_write()?;
            let mut writer = store.tree.writer(&key)?;
            if let Some(ttl) = args.ttl {
                writer = writer.expiring_after(ttl);
            }
            source.pour(first, &mut writer).map_err(|broken| match broken {
                Broken::Source(error) => source.failed(&error),
                Broken::Store(failure) => failure,
            })?;
            writer.commit_with(Durability::Power)?;
        }
        None => {
            let value = check_value(values, typed, &mut scratch)?;
            store.before_write()?;
            let mut batch = Batch::new();
            match args.ttl {
                Some(ttl) => batch.put_for(&store.tree, &key, value, ttl)?,
                None => batch.put(&store.tree, &key, value)?,
            }
            store.db.write_with(&batch, Durability::Power)?;
        }
    }
    store.finish()
}
