//! The trees of a group, which are flushed and reshaped together ([`TreeOptions::group`]).

use std::sync::{Arc, Weak};

use parking_lot::RwLock;

use super::TreeInner;
use crate::blob::BlobOwner;
use crate::error::{Error, Result};
use crate::options::TreeOptions;
use crate::version::edit::TreeId;

/// See the module's comment. A tree is a member before its first write. The lock of the members is taken last.
#[derive(Debug)]
pub(crate) struct Group {
    pub(crate) name: String,
    pub(super) owner: BlobOwner,
    /// The trees that were not dropped, oldest first.
    members: RwLock<Vec<Weak<TreeInner>>>,
}

impl Group {
    pub(super) fn new(name: &str) -> Arc<Group> {
        Arc::new(Group { name: name.to_owned(), owner: BlobOwner::new(), members: RwLock::default() })
    }

    pub(super) fn add(&self, tree: &Arc<TreeInner>) {
        self.members.write().push(Arc::downgrade(tree));
    }

    /// Removes a tree that was dropped. Returns whether the group has no trees any more.
    pub(super) fn remove(&self, tree: &TreeInner) -> bool {
        let mut members = self.members.write();
        members.retain(|member| !std::ptr::eq(member.as_ptr(), tree));
        members.is_empty()
    }

    /// The group's trees.
    pub(crate) fn trees(&self) -> Vec<Arc<TreeInner>> {
        self.members.read().iter().filter_map(Weak::upgrade).collect()
    }

    /// Bytes of the memtables that take the trees' writes.
    pub(super) fn memory(&self) -> usize {
        self.trees().iter().map(|tree| tree.mem().table.memory()).sum()
    }

    /// Refuses a new tree with `options` that does not fit the group's trees. Returns the lineage that it takes. With
    /// it the trees can share huge values.
    pub(crate) fn admit(&self, options: &TreeOptions) -> Result<Option<TreeId>> {
        let Some(first) = self.trees().into_iter().next() else { return Ok(None) };
        if first.log != options.log {
            let message = format!(
                "the trees of a group all write to the log, or none does; in the group \"{}\" {}",
                self.name,
                if first.log { "all do" } else { "none does" }
            );
            return Err(Error::invalid(message));
        }
        Ok(Some(first.lineage))
    }
}
