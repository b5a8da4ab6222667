//! Settings of a tree that may change.

use super::Tree;
use crate::error::{Error, Result};
use crate::options::TreeOptions;
use crate::state::versions::VersionEdit;
use crate::version::edit::Edit;

/// In bytes.
const TAG_LEN_MAX: usize = 4096;

/// Refuses a tag that is too long.
pub(crate) fn check_tag(tag: &str) -> Result<()> {
    if tag.len() > TAG_LEN_MAX {
        let message = format!("the tag has {} bytes; the limit is {TAG_LEN_MAX}", tag.len());
        return Err(Error::invalid(message));
    }
    Ok(())
}

impl Tree {
    /// The note that [`Tree::set_tag`] left, if any.
    pub fn tag(&self) -> Option<String> {
        self.inner.tag.lock().clone()
    }

    /// Stores a small durable note with the tree, for example the type of its keys. At most 4 KiB.
    ///
    /// # Errors
    /// `InvalidInput` when the tag is too long, or as a write.
    pub fn set_tag(&self, tag: &str) -> Result<()> {
        self.store.disk().ensure_writable()?;
        check_tag(tag)?;
        self.change(Edit::SetTag { tree: self.inner.id, tag: tag.to_owned() })
    }

    /// The tree's options.
    pub fn options(&self) -> TreeOptions {
        self.inner.options()
    }

    /// Changes the tree's options. Tables written from now on follow them.
    ///
    /// # Errors
    /// `InvalidInput` when an option is out of range, or when [`TreeOptions::log`], [`TreeOptions::group`] or
    /// [`TreeOptions::expiry_clock`] differs from the tree's; or as a write.
    pub fn set_options(&self, options: TreeOptions) -> Result<()> {
        self.store.disk().ensure_writable()?;
        options.check()?;
        crate::table::check_supported(options.compression)?;
        if options.log != self.inner.log {
            let message = "whether writes go to the log is fixed when a tree is created";
            return Err(Error::invalid(message));
        }
        if options.group != self.inner.options().group {
            return Err(Error::invalid("the group of a tree is fixed when it is created"));
        }
        if options.expiry_clock != self.inner.options().expiry_clock {
            return Err(Error::invalid("by which clock values expire is fixed when a tree is created"));
        }
        self.change(Edit::SetOptions { tree: self.inner.id, options })
    }

    /// Makes `edit` about the tree durable, and then visible.
    fn change(&self, edit: Edit) -> Result<()> {
        // Earlier writes must not be lost if this edit survives: the store must stay a prefix of its history.
        self.store.log().sync_published()?;
        let mut versions = self.store.versions().lock();
        if self.inner.is_dropped() {
            return Err(self.inner.dropped_error());
        }
        self.store.installer().apply(&mut versions, &VersionEdit::of(vec![edit]))
    }
}
