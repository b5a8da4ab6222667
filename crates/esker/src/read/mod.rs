//! How a read proceeds: [`get`] asks memtables, then tables, newest first; [`merging_cursor`] walks them all in order;
//! [`scan`] shows what a user sees of that, in a [`range`]; [`operands`] computes merged values; [`snapshots`]
//! registers what must stay readable; [`newer`] tells what was written since; [`meter`] counts scans.

pub(crate) mod get;
pub(crate) mod merging_cursor;
pub(crate) mod meter;
pub(crate) mod newer;
pub(crate) mod operands;
pub(crate) mod range;
pub(crate) mod scan;
pub(crate) mod snapshots;
