//! How a read proceeds: [`get`] asks memtables, then tables, newest first; [`merging_cursor`] walks them all in order;
//! [`scan`] shows what a user sees of that, in a [`range`], and can be sent to and fro; [`both_ends`] does so from both
//! ends, and [`lent`] lends the values; [`view`] is a tree at one read point; [`operands`] computes merged values;
//! [`snapshots`] registers what must stay readable; [`newer`] tells what was written since; [`meter`] counts scans.

pub(crate) mod both_ends;
pub(crate) mod get;
pub(crate) mod lent;
pub(crate) mod merging_cursor;
pub(crate) mod meter;
pub(crate) mod newer;
pub(crate) mod operands;
pub(crate) mod range;
pub(crate) mod scan;
pub(crate) mod snapshots;
pub(crate) mod view;
