//! `esker put KEY VALUE`, `esker put KEY --file F`.

use esker::Durability;

use crate::args::{Global, Put};
use crate::exit::Outcome;
use crate::keytype::KeyType;
use crate::store::{Store, check_key};
use crate::stream::{Broken, Source};

pub(crate) fn run(global: &Global, args: &Put) -> Outcome {
    let key = args.key.as_encoded_bytes();
    // Neither a key that cannot be one nor a file that cannot be read may leave an empty store behind.
    check_key(global.keys.unwrap_or(KeyType::Text), key)?;
    let mut first = Vec::new();
    let mut source = None;
    if let Some(path) = &args.file {
        let source = source.insert(Source::open(path)?);
        source.next(&mut first).map_err(|error| source.failed(&error))?;
    }
    let mut store = Store::create(global, KeyType::Text)?;
    let key = store.key(key)?;
    store.before_write()?;
    match source {
        Some(mut source) => {
            let mut writer = store.tree.writer(&key)?;
            source.pour(first, &mut writer).map_err(|broken| match broken {
                Broken::Source(error) => source.failed(&error),
                Broken::Store(failure) => failure,
            })?;
            writer.commit_with(Durability::Power)?;
        }
        None => {
            let value = args.value.as_ref().map(|value| value.as_encoded_bytes()).unwrap_or_default();
            store.tree.put_with(&key, value, Durability::Power)?;
        }
    }
    store.finish()
}
