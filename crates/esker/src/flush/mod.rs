//! The queue of immutable memtables. `store/flusher/mod.rs` turns them into tables.

mod queue;

pub(crate) use queue::{FlushQueue, Flushed, Immutable};
