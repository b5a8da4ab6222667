//! Groups of trees that are split, dropped, exported and imported in one step.

use std::path::Path;

use super::Db;
use super::trees::check_tree_name;
use crate::admin::TreeFiles;
use crate::admin::import::As;
use crate::error::{Error, Result};
use crate::options::check_name;
use crate::store::{SplitAt, Whole};
use crate::tree::{Tree, check_tag};
use crate::write::batch::check_key;

/// A tree of a group that is split, for [`Db::split_group`].
#[derive(Debug, Clone, Copy)]
pub struct TreeSplit<'a> {
    /// The tree. It keeps its keys before `at`.
    pub tree: &'a Tree,
    /// The first key that moves.
    pub at: &'a [u8],
    /// The name of the new tree, which gets the keys from `at` on.
    pub name: &'a str,
}

/// Tags to set in the same step: each of the tree with the first name ([`Tree::set_tag`]).
type Tags<'a> = &'a [(&'a str, &'a str)];

fn check_tags(tags: Tags<'_>) -> Result<()> {
    tags.iter().try_for_each(|(_, tag)| check_tag(tag))
}

impl Db {
    /// The trees of the group called `name`, in the order in which they were created; empty if the group does not exist
    /// ([`TreeOptions::group`](crate::TreeOptions::group)).
    pub fn group(&self, name: &str) -> Vec<Tree> {
        let trees = self.store.versions().lock().group(name).map(|group| group.trees());
        trees.unwrap_or_default().into_iter().map(|tree| Tree::new(&self.store, tree)).collect()
    }

    /// The names of all groups, sorted.
    pub fn group_names(&self) -> Vec<String> {
        self.store.versions().lock().group_names().map(str::to_owned).collect()
    }

    /// Splits trees of the group called `group`, all in one step. The new trees form the group `new`. Each is as after
    /// [`Db::split`]. Trees of the group that are not in `splits` stay as they are. Writes to all trees of the group
    /// wait meanwhile, and all of them are flushed first. The same step sets `tags`: each pair has the name of a tree,
    /// which may be a new one, and the tag that it gets.
    ///
    /// # Errors
    /// `NotFound` when the group, or the tree of a tag, does not exist; `AlreadyExists` when `new` or the name of a
    /// new tree is taken; `InvalidInput` when a tree is not of the group or is named twice, and as [`Db::split`]. After
    /// an error nothing is split.
    ///
    /// # Example
    /// ```
    /// # fn main() -> esker::Result<()> {
    /// # let db = esker::Db::open_in_memory(esker::Options::default())?;
    /// use esker::{TreeOptions, TreeSplit};
    /// let options = TreeOptions::default().log(false).group("region 7");
    /// let (rows, links) =
    ///     (db.create_tree("rows 7", options.clone())?, db.create_tree("links 7", options)?);
    /// rows.put("zoe", "1")?;
    /// let splits = [
    ///     TreeSplit { tree: &rows, at: b"m", name: "rows 8" },
    ///     TreeSplit { tree: &links, at: b"m", name: "links 8" },
    /// ];
    /// db.split_group("region 7", "region 8", &splits, &[("rows 8", "applied 17")])?;
    /// let new = db.group("region 8");
    /// assert_eq!(new[0].get_vec("zoe")?.as_deref(), Some(&b"1"[..]));
    /// assert_eq!(new[0].tag().as_deref(), Some("applied 17"));
    /// # Ok(())
    /// # }
    /// ```
    pub fn split_group(
        &self,
        group: &str,
        new: &str,
        splits: &[TreeSplit<'_>],
        tags: Tags<'_>,
    ) -> Result<()> {
        check_name("group", new)?;
        check_tags(tags)?;
        self.store.disk().ensure_writable()?;
        for split in splits {
            check_tree_name(split.name)?;
            check_key(split.at)?;
            if split.tree.inner().store != self.store.id() {
                return Err(Error::invalid("the tree belongs to another store"));
            }
        }
        if splits.is_empty() {
            return Err(Error::invalid("no tree is to be split"));
        }
        let splits: Vec<SplitAt<'_>> = splits
            .iter()
            .map(|&TreeSplit { tree, at, name }| SplitAt { tree: tree.inner(), at, name })
            .collect();
        self.store.reshaper().split_group(group, new, &splits, tags)
    }

    /// Drops all trees of the group called `name` in one step, and sets `tags` of other trees in that step. Open scans
    /// can finish.
    ///
    /// # Errors
    /// `NotFound` when the group, or the tree of a tag, does not exist; otherwise as [`Db::drop_tree`].
    pub fn drop_group(&self, name: &str, tags: Tags<'_>) -> Result<()> {
        check_tags(tags)?;
        self.store.log().check_changeable()?;
        self.store.reshaper().drop(Whole::Group(name), tags)
    }

    /// Makes a store in the directory `dir`, which must not exist yet, from the present state of all trees of the group
    /// called `name`: as [`Db::export_tree`] does for one tree. All trees are there as they were at one moment. `tags`
    /// are set in the new store only. Huge values of trees outside the group are not in `dir`, unless the group was
    /// split: then it has files in common with its other half, until they are rewritten.
    ///
    /// # Errors
    /// As [`Db::export_tree`], and `NotFound` when a tag is for a tree that the group does not have.
    ///
    /// # Example
    /// ```
    /// # fn main() -> esker::Result<()> {
    /// # let dir = tempfile::tempdir().expect("a temporary directory");
    /// # let db = esker::Db::open(dir.path().join("store"), esker::Options::default())?;
    /// # let other = esker::Db::open(dir.path().join("other"), esker::Options::default())?;
    /// let options = esker::TreeOptions::default().log(false).group("region 7");
    /// let rows = db.create_tree("rows 7", options)?;
    /// rows.put("ada", "1")?;
    /// let copy = dir.path().join("region 7 at 17");
    /// db.export_group("region 7", &copy, &[("rows 7", "applied 17")])?;
    /// other.replace_group(&copy, &[])?; // whatever it had of this group
    /// let rows = &other.group("region 7")[0];
    /// assert_eq!(rows.get_vec("ada")?.as_deref(), Some(&b"1"[..]));
    /// assert_eq!(rows.tag().as_deref(), Some("applied 17"));
    /// # Ok(())
    /// # }
    /// ```
    pub fn export_group(&self, name: &str, dir: impl AsRef<Path>, tags: Tags<'_>) -> Result<TreeFiles> {
        check_tags(tags)?;
        self.store.disk().ensure_writable()?;
        crate::admin::checkpoint::check_outside(&self.store, dir.as_ref())?;
        crate::admin::export::export(&self.store, Whole::Group(name), tags, dir.as_ref())
    }

    /// Imports all trees of the store in `dir`, which [`Db::export_group`] has made, in one step: as [`Db::import_tree`]
    /// does for one tree. They keep their names, their tags and the name of their group, which is returned. The same
    /// step sets `tags`.
    ///
    /// # Errors
    /// `AlreadyExists` when the group or a tree with one of the names exists; `InvalidInput` when the trees in `dir`
    /// are not those of one group; `NotFound` when the tree of a tag does not exist; otherwise as [`Db::import_tree`].
    pub fn import_group(&self, dir: impl AsRef<Path>, tags: Tags<'_>) -> Result<(String, TreeFiles)> {
        self.bring_group(dir.as_ref(), false, tags)
    }

    /// [`Db::import_group`] in place of the trees of that group that are here, which are dropped in the same step.
    /// Handles of those trees fail with `TreeDropped` from then on: get new ones by [`Db::group`] or [`Db::open_tree`].
    ///
    /// # Errors
    /// As [`Db::import_group`], except that an existing group is not an error.
    pub fn replace_group(&self, dir: impl AsRef<Path>, tags: Tags<'_>) -> Result<(String, TreeFiles)> {
        self.bring_group(dir.as_ref(), true, tags)
    }

    fn bring_group(&self, dir: &Path, replace: bool, tags: Tags<'_>) -> Result<(String, TreeFiles)> {
        check_tags(tags)?;
        self.store.disk().ensure_writable()?;
        let (group, files) = crate::admin::import::import(&self.store, dir, As::Group { replace, tags })?;
        Ok((group.unwrap_or_default(), files))
    }
}
