//! `esker put KEY VALUE`, `esker put KEY --file F`; with `--ttl` the value expires.

use crate::args::{Global, Put};
use crate::datatype::Types;
use crate::exit::{Failure, Outcome};
use crate::keyspace::{Expiry, PIECE};
use crate::store::{Store, check_first_key, check_value};
use crate::stream::{Broken, Source};

pub(crate) fn run(global: &Global, args: &Put) -> Outcome {
    let key = args.key.as_encoded_bytes();
    // An invalid key or an unreadable file must not leave an empty store.
    let first_types = global.types(Types::TEXT);
    check_first_key(global, first_types, key)?;
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
            // All of a short input is there already.
            let len = if first.len() < PIECE { Some(first.len() as u64) } else { source.len() };
            let mut writer = store.tree.writer(&key, len, args.ttl)?;
            source.pour(first, &mut writer).map_err(|broken| match broken {
                Broken::Source(error) => source.failed(&error),
                Broken::Store(failure) => failure,
            })?;
            writer.commit()?;
        }
        None => {
            let value = store.value(typed, &mut scratch)?;
            store.before_write()?;
            store.tree.put(&key, value, args.ttl.map_or(Expiry::Never, Expiry::After))?;
        }
    }
    store.finish()
}
