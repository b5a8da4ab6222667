//! What is said of a tree itself, and may change.

use std::sync::Arc;

use super::Tree;
use crate::env::Lane;
use crate::error::{Error, ErrorKind, Result};
use crate::options::TreeOptions;
use crate::state::TreeInner;
use crate::version::edit::Edit;

/// The longest tag, in bytes.
const TAG_LEN_MAX: usize = 4096;

impl Tree {
    /// The note that [`Tree::set_tag`] left, if any.
    pub fn tag(&self) -> Option<String> {
        self.inner.tag.lock().clone()
    }

    /// Leaves a small durable note with the tree, for example what type its keys have. At most 4 KiB.
    ///
    /// # Errors
    /// `InvalidInput` when the tag is too long, or as a write.
    pub fn set_tag(&self, tag: &str) -> Result<()> {
        self.store.check_writable()?;
        if tag.len() > TAG_LEN_MAX {
            let message = format!("the tag has {} bytes; the limit is {TAG_LEN_MAX}", tag.len());
            return Err(Error::new(ErrorKind::InvalidInput, message));
        }
        self.change(Edit::SetTag { tree: self.inner.id, tag: tag.to_owned() }, |tree| {
            *tree.tag.lock() = Some(tag.to_owned());
        })
    }

    /// What was chosen for the tree.
    pub fn options(&self) -> TreeOptions {
        self.inner.options()
    }

    /// Changes what was chosen for the tree: tables that are written from now on follow it.
    ///
    /// # Errors
    /// `InvalidInput` when an option is out of range or [`TreeOptions::log`] another than the tree's; or as a write.
    pub fn set_options(&self, options: TreeOptions) -> Result<()> {
        self.store.check_writable()?;
        options.check()?;
        crate::table::check_supported(options.compression)?;
        if options.log != self.inner.log {
            let message = "whether writes go to the log is fixed when a tree is created";
            return Err(Error::new(ErrorKind::InvalidInput, message));
        }
        let edit = Edit::SetOptions { tree: self.inner.id, options: options.clone() };
        self.change(edit, |tree| tree.set_options(options))?;
        self.store.add_compaction_candidates([Arc::clone(&self.inner)]);
        self.store.notify(Lane::Compact);
        Ok(())
    }

    /// Makes `edit` about the tree durable, and then shows it.
    fn change(&self, edit: Edit, show: impl FnOnce(&TreeInner)) -> Result<()> {
        // What was written before must not be lost when this survives: the store stays a prefix.
        self.store.sync_published()?;
        let mut structure = self.store.structure.lock();
        if self.inner.is_dropped() {
            return Err(self.inner.dropped_error());
        }
        self.store.commit_edits(&mut structure, &[edit])?;
        show(&self.inner);
        Ok(())
    }
}
