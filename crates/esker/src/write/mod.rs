//! The way of a write: [`batch`] encodes it outside any lock, [`commit`] gives it its place in the log, in
//! the memtables and in the sequence, and makes it visible in order; [`throttle`] slows writers down
//! before the background work falls too far behind; [`watch`] remembers writes that may have ended the life
//! of a huge value.

pub(crate) mod batch;
pub(crate) mod commit;
pub(crate) mod throttle;
pub(crate) mod watch;
