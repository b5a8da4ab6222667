//! The write path. [`batch`] encodes a write outside any lock. [`commit`] gives it its place in the log, in the
//! memtables and in the sequence, and makes writes visible in order. [`throttle`] slows writers before background work
//! falls too far behind. [`lookups`] remembers the writes that may have overwritten a huge
//! value.

pub(crate) mod batch;
pub(crate) mod commit;
pub(crate) mod lookups;
pub(crate) mod throttle;
