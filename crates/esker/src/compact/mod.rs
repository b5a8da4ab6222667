//! The parts of a merge: [`queue`] knows which trees may need one, [`pick`] chooses the tables (by `leveled` or
//! `tiered`), [`retain`] chooses the versions that survive, [`rule`] applies the tree's compaction rule, [`operands`]
//! combines the operands of a key, and [`output`] writes the tables. [`space`] finds merges that give space back, and
//! [`dead`] estimates how much. `store/compactor/mod.rs` does the merge.

pub(crate) mod dead;
mod leveled;
pub(crate) mod operands;
pub(crate) mod output;
pub(crate) mod pick;
pub(crate) mod queue;
pub(crate) mod retain;
pub(crate) mod rule;
pub(crate) mod space;
mod tiered;
