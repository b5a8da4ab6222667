//! What an export says of values that are not in it, or not as a whole.

use esker::Error;

use crate::exit::{Failure, note};
use crate::store::Store;

/// Says how many values expire although the export does not record it, if there are any.
pub(super) fn say_untold(count: u64) {
    if count > 0 {
        note(&format!(
            "values that expire: {count}; the output does not say when, so an import would keep them forever. \
             JSON Lines (--format jsonl) record the times, and so do CSV and TSV with --columns \
             key,value,expires_us"
        ));
    }
}

/// Says how many values have attributes, which no format records, and how many were left out because they are not bytes, if
/// there are any.
pub(super) fn say_left_out(attributed: u64, collections: u64) {
    if collections > 0 {
        note(&format!(
            "left out, because they are a hash, a set, a sorted set or a list: {collections} values. JSON Lines \
             (--format jsonl) keep them, and so do `BGSAVE`, `esker backup` and `esker checkpoint`"
        ));
    }
    if attributed > 0 {
        note(&format!(
            "values with attributes: {attributed}; the output does not have them, so an import would lose them. \
             `esker backup` and `esker checkpoint` keep them"
        ));
    }
}

/// Adds to `error`, the failure of a read, that the rows after the key `last` are missing. An empty `last`: all rows are.
pub(super) fn unread_after(store: &Store, last: &[u8], error: Error) -> Failure {
    Failure::from(error).because_of_store(|| match last {
        [] => "the first rows cannot be read".to_owned(),
        last => format!("the rows after {} cannot be read", shown(store, last)),
    })
}

/// Adds to `error`, the failure of a read, that the value of `key` is missing.
pub(super) fn unread(store: &Store, key: &[u8], error: Error) -> Failure {
    Failure::from(error).because_of_store(|| format!("the value of {} cannot be read", shown(store, key)))
}

/// The key for a message.
pub(super) fn shown(store: &Store, key: &[u8]) -> String {
    let mut printed = Vec::new();
    match store.types.keys.print(key, &mut printed) {
        Ok(()) => format!("{:?}", String::from_utf8_lossy(&printed)),
        Err(_) => format!("\"{}\"", key.escape_ascii()),
    }
}
