//! `esker put KEY VALUE`, `esker put KEY --file F`; with `--ttl` the value expires.

use esker::{Batch, Durability};

use crate::args::{Global, Put};
use crate::datatype::Types;
use crate::exit::{Failure, Outcome};
use crate::store::{Store, check_key, check_value};
use crate::stream::{Broken, Source};

pub(crate) fn run(global: &Global, args: &Put) -> Outcome {
    let key = args.key.as_encoded_bytes();
    // An invalid key or an unreadable file must not leave an empty store.
    let first_types = global.types(Types::TEXT);
    check_key(first_types.keys, key)?;
    let typed = args.value.as_ref().map(|value| value.as_encoded_bytes()).unwrap_or_default();
    let mut scratch = Vec::new();
    if args.file.is_none() {
        check_value(first_types.values, typed, &mut scratch)?;
    }
    let mut first = Vec::new();
    let mut source = None;
    if let Some(path) = &args.file {
        let source = source.insert(Source::open(path)?);
        source.next(&mut first).map_err(|error| source.failed(&error))?;
    }
    let mut store = Store::create(global, Types::TEXT)?;
    let key = store.key(key)?;
    let values = store.kept.values;
    if source.is_some() && !values.has(&first) {
        return Err(Failure::usage(format!("the file's bytes are not {values} in its stored form")));
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
            let value = store.value(typed, &mut scratch)?;
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
