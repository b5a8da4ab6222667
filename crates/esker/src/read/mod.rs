//! How a read proceeds: [`get`] asks memtables, then tables, newest first; [`merge`] walks them all in order;
//! [`scan`] shows what a user sees of that, in a [`range`]; [`operands`] computes merged values; [`moments`]
//! registers what must stay readable; [`newer`] tells what was written since; [`meter`] counts scans.

pub(crate) mod get;
pub(crate) mod merge;
pub(crate) mod meter;
pub(crate) mod moments;
pub(crate) mod newer;
pub(crate) mod operands;
pub(crate) mod range;
pub(crate) mod scan;
