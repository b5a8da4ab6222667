//! What turns memtables into tables.

mod queue;

pub(crate) use queue::{FlushQueue, Flushed, Immutable};
