//! The write path. [`batch`] encodes a write outside any lock. [`commit`] gives it its place in the log, in the
//! memtables and in the sequence, and makes writes visible in order. [`throttle`] slows writers before background work
//! falls too far behind. [`watch`] remembers the writes that may have ended the life of a huge value.

pub(crate) mod batch;
pub(crate) mod commit;
pub(crate) mod throttle;
pub(crate) mod watch;
