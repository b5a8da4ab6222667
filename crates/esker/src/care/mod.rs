//! Care of stores and their files: [`checkpoint`] copies one that is open; [`check`] reads all of one that
//! is not and tells every damage; [`dump`] shows a single file; [`destroy`] removes a store.

mod check;
mod check_blobs;
pub(crate) mod checkpoint;
mod destroy;
mod dump;

pub use check::{CheckReport, Finding, check};
pub use destroy::destroy;
pub use dump::dump;
