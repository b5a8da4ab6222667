//! What background work decides and makes: [`pick`] says what to merge next (`leveled` and `tiered` know how), [`retain`]
//! which versions survive, [`operands`] puts together what was merged into a key, [`output`] writes the tables. The work itself is the store's.

mod leveled;
pub(crate) mod operands;
pub(crate) mod output;
pub(crate) mod pick;
pub(crate) mod retain;
mod tiered;
