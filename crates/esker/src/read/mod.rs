//! How a read proceeds: [`get`] searches memtables, then tables, newest first; [`merging_cursor`] walks them all in
//! order; [`scan`] shows the part of them that a user sees, in a [`range`], and can change direction; [`both_ends`]
//! does so from both ends, and [`lent`] lends the values; [`view`] is a tree at one read point; [`operands`] computes
//! merged values; [`snapshots`] registers the read points that must stay readable; [`newer`] finds writes since a
//! moment; [`meter`] counts scans.

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
