//! Maintenance of stores and their files.
//!
//! - [`checkpoint`] copies a store that is open.
//! - [`check()`] reads all of a store that is not open for writing, and reports all damage.
//! - [`dump()`] shows a single file. [`destroy()`] removes a store.
//! - [`backup`] copies those files of an open store that earlier backups do not have. [`restore()`] makes a store from
//!   a backup.
//! - [`export`] makes a store from one tree, and [`import`] makes a tree from such a store.
//! - [`repair()`] makes a damaged store whole.

pub(crate) mod at_rest;
pub(crate) mod backup;
mod catalog;
mod check;
pub(crate) mod checkpoint;
mod destroy;
mod dump;
pub(crate) mod export;
mod file_copy;
pub(crate) mod import;
mod key_types;
mod locked;
mod new_dir;
mod repair;
mod restore;

pub use backup::{BackupInfo, BackupReport, backups, forget_backups};
pub use check::{check, check_until};
pub use destroy::destroy;
pub use dump::{dump, dump_with};
pub use export::TreeFiles;
pub use repair::{Loss, RepairReport, repair, repair_until};
pub use restore::{restore, restore_until};
