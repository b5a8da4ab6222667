//! The state after a crash of a tree whose writes skip the log.

use super::Tree;
use crate::cursor::Kind;
use crate::error::{Error, Result};
use crate::read::get::get_at;
use crate::read::operands::merged_at;
use crate::value::Value;

impl Tree {
    /// The value that `key` would have after a crash now: the value in the tree's tables, without writes that only
    /// memory holds. The tree must skip the log ([`TreeOptions::log`](crate::TreeOptions::log)). If each write notes in
    /// the tree, or in a tree of its group, which entry of another log it applies, then this call shows from which
    /// entry on that log is still needed.
    ///
    /// # Errors
    /// As [`Tree::get`], and `InvalidInput` when the tree writes to the log: there the log keeps the writes in a crash.
    pub fn get_durable(&self, key: impl AsRef<[u8]>) -> Result<Option<Value>> {
        if self.inner.log {
            let name = &self.inner.name;
            return Err(Error::invalid(format!("the tree \"{name}\" writes to the log: read it as usual")));
        }
        let (key, store) = (key.as_ref(), &self.store);
        self.measured(key, || {
            loop {
                // The time of the flushed writes, for a tree that takes its time from its writes.
                let now = self.flushed_us();
                let seq = self.inner.flushed_up_to();
                let state = self.readable_state()?;
                if self.inner.flushed_up_to() != seq {
                    // A merge may have dropped from the state the versions that were visible at the number.
                    continue;
                }
                let found = get_at(
                    &state,
                    key,
                    seq,
                    || now,
                    |entry| match entry.kind {
                        Kind::Blob => Value::of_blob(store.blobs(), key, &entry).map(Some),
                        Kind::Merge => merged_at(
                            &state,
                            key,
                            (seq, now),
                            &store.options().merge_operators,
                            store.blobs(),
                        ),
                        _ => Ok(Some(Value::copy_of(&entry))),
                    },
                )?;
                match found.unwrap_or(Ok(None)) {
                    // A flush or a drop came in between, and the value is gone.
                    Err(_) if self.inner.flushed_up_to() != seq || self.inner.is_dropped() => {}
                    found => return found,
                }
            }
        })
    }
}
