//! `esker put KEY VALUE`, `esker put KEY --file F`.

use std::borrow::Cow;
use std::fs;
use std::io::{self, Read};
use std::path::Path;

use esker::Durability;

use crate::args::{Global, Put};
use crate::exit::{Failure, Outcome};
use crate::keytype::KeyType;
use crate::store::{Store, check_key};

pub(crate) fn run(global: &Global, args: &Put) -> Outcome {
    let key = args.key.as_encoded_bytes();
    // A key that cannot be one must not leave an empty store behind.
    check_key(global.keys.unwrap_or(KeyType::Text), key)?;
    let value = value(args)?;
    let mut store = Store::create(global, KeyType::Text)?;
    let key = store.key(key)?;
    store.before_write()?;
    store.tree.put_with(&key, &value, Durability::Power)?;
    store.finish()
}

fn value(args: &Put) -> Outcome<Cow<'_, [u8]>> {
    match (&args.file, &args.value) {
        (Some(path), _) if path == Path::new("-") => {
            let mut value = Vec::new();
            let read = io::stdin().lock().read_to_end(&mut value);
            read.map_err(|error| Failure::store(format!("cannot read standard input: {error}")))?;
            Ok(value.into())
        }
        (Some(path), _) => fs::read(path).map(Cow::from).map_err(|error| Failure::io("read", path, &error)),
        (None, value) => Ok(value.as_ref().map(|value| value.as_encoded_bytes()).unwrap_or_default().into()),
    }
}
