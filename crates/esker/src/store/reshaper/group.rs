//! Trees that change together: a tree alone, or all trees of a group.

use std::sync::Arc;

use super::Reshaper;
use crate::error::{Error, ErrorKind, Result};
use crate::options::TreeOptions;
use crate::ranges::KeyRange;
use crate::state::TreeInner;
use crate::state::versions::{VersionEdit, Versions};
use crate::version::edit::{Edit, TreeId};

/// The trees that are dropped, exported or imported as a whole.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Whole<'a> {
    /// The tree with this name.
    Tree(&'a str),
    /// All trees of the group with this name.
    Group(&'a str),
}

impl Whole<'_> {
    /// Its trees: at least one.
    pub(super) fn trees(self, versions: &Versions) -> Result<Vec<Arc<TreeInner>>> {
        match self {
            Whole::Tree(name) => Ok(vec![versions.tree_called(name)?]),
            Whole::Group(name) => {
                let missing = || Error::new(ErrorKind::NotFound, format!("there is no group \"{name}\""));
                versions.group(name).map(|group| group.trees()).ok_or_else(missing)
            }
        }
    }
}

/// Adds to `edits` the edits that set `tags`, each of the tree with the first name. The tree is in `versions`, or
/// `edits` create it.
pub(super) fn add_tags(edits: &mut Vec<Edit>, versions: &Versions, tags: &[(&str, &str)]) -> Result<()> {
    for &(name, tag) in tags {
        let created = edits.iter().find_map(|edit| match edit {
            Edit::CreateTree { tree, name: created, .. } if created == name => Some(*tree),
            _ => None,
        });
        let is_dropped = |tree: TreeId| {
            edits.iter().any(|edit| matches!(edit, Edit::DropTree { tree: id } if *id == tree))
        };
        let there = || versions.find(name).map(|tree| tree.id).filter(|&tree| !is_dropped(tree));
        let tree = created.or_else(there).ok_or_else(|| {
            Error::new(ErrorKind::NotFound, format!("there is no tree \"{name}\" to give a tag to"))
        })?;
        edits.push(Edit::SetTag { tree, tag: tag.to_owned() });
    }
    Ok(())
}

impl Reshaper {
    /// Creates the tree called `name`, with a tag if one is given.
    pub(crate) fn create_tree(
        &self,
        name: &str,
        options: TreeOptions,
        tag: Option<String>,
    ) -> Result<Arc<TreeInner>> {
        // A change of a group as a whole must know all of its trees.
        let _one_at_a_time = options.group.is_some().then(|| self.reshaping.lock());
        // Earlier writes must not be lost if the new tree survives: the store must stay a prefix of its history.
        self.log.sync_published()?;
        let mut versions = self.versions.lock();
        versions.check_free(name)?;
        let tree = versions.next_tree();
        let group = options.group.as_deref().and_then(|group| versions.group(group));
        let lineage = group.map_or(Ok(None), |group| group.admit(&options))?;
        let mut edits = vec![Edit::CreateTree { tree, name: name.to_owned(), options }];
        edits.extend(lineage.map(|lineage| Edit::KeyBounds { tree, lineage, range: KeyRange::default() }));
        edits.extend(tag.map(|tag| Edit::SetTag { tree, tag }));
        self.installer.apply(&mut versions, &VersionEdit::of(edits))?;
        versions.tree_called(name)
    }
}
