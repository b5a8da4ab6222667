//! The versions of an open store: its trees, and the tables, range tombstones and bounds of each tree. The manifest
//! keeps them on the disk. [`Versions`] keeps them in memory and derives them from the manifest's edits.
//!
//! ```text
//! apply     VersionEdit -- edits of trees that are gone left out -- manifest: durable -- derive -- Applied
//! recover   ManifestState -- the edits of one tree after the other ------------------'
//! ```
//!
//! - Flush, merge, ingest, split, import, drop and settings build edits. Only [`Versions::derive`] changes the versions
//!   in memory, and only by edits that are durable, or in a store that is open for reading only.
//! - A change's [`Origin`] has the facts about a new tree that its edits lack. A recovered store does not need them.
//! - [`Versions`] counts the levels that name a table file. When the count reaches 0, it marks the file as obsolete.
//!   The file goes with its last reader.
//! - A change swaps each tree's state once. Therefore a reader sees all or none of its tables, range tombstones and key
//!   bounds. Options and tag change separately just before that.
//!
//! Locks: the lock of [`VersionSet`] is held while an edit is made durable. Below it, the commit lock is taken where a
//! writer could add to the replaced state: range tombstones, and the memtables of a tree that is dropped.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use parking_lot::{Mutex, MutexGuard};

use super::delta::Delta;
use super::{Group, KeyBounds, Mem, Moved, TreeInner};
use crate::blob::{BlobSet, LiveFile};
use crate::cursor::SeqNo;
use crate::error::{Error, ErrorKind, Result};
use crate::memtable::ChunkPool;
use crate::version::blob_edits::BlobEdit;
use crate::version::edit::{Edit, FileId, ManifestState, TableInfo, TreeId};
use crate::version::levels::Table;
use crate::version::manifest::Manifest;
use crate::version::tables::{TableFile, TableRegistry};

#[derive(Debug)]
pub(crate) struct VersionSet(Mutex<Versions>);

pub(crate) type ByTree = Vec<(Arc<TreeInner>, Vec<Arc<Mem>>)>;

/// Edits that take effect together, and additional facts for the state in memory.
#[derive(Debug, Default)]
pub(crate) struct VersionEdit<'a> {
    pub(crate) edits: Vec<Edit>,
    /// The memtables that the tables of the edits replace.
    pub(crate) flushed: &'a [(Arc<TreeInner>, Vec<Arc<Mem>>)],
    pub(crate) origin: Origin,
    /// The blob files that come with the edits.
    pub(crate) blobs: Vec<Arc<LiveFile>>,
}

impl VersionEdit<'_> {
    /// Edits that need no additional facts.
    pub(crate) fn of(edits: Vec<Edit>) -> Self {
        VersionEdit { edits, ..VersionEdit::default() }
    }
}

#[derive(Debug, Clone, Default)]
pub(crate) enum Origin {
    /// From nowhere: it is empty, or it was there when the store was opened.
    #[default]
    Created,
    /// Each second tree of `pairs` takes some of the keys of the first. Snapshots before `seq` read them in the first.
    SplitOff { pairs: Vec<(TreeId, TreeId)>, seq: SeqNo },
    /// From another store. Snapshots before `seq` do not see it.
    Imported { seq: SeqNo },
}

impl Origin {
    /// The sequence number from which on the new tree `id` can be read. `trees` are the existing trees.
    fn since(&self, id: TreeId, trees: &BTreeMap<TreeId, Arc<TreeInner>>) -> SeqNo {
        match self {
            Origin::Created => 0,
            Origin::SplitOff { .. } => {
                self.parent(id, trees).map_or(0, |tree| tree.state.load().key_bounds.since)
            }
            Origin::Imported { seq } => *seq,
        }
    }

    /// The tree that the new tree `id` is split off.
    fn parent<'a>(
        &self,
        id: TreeId,
        trees: &'a BTreeMap<TreeId, Arc<TreeInner>>,
    ) -> Option<&'a Arc<TreeInner>> {
        let Origin::SplitOff { pairs, .. } = self else { return None };
        pairs.iter().find(|(_, to)| *to == id).and_then(|(from, _)| trees.get(from))
    }
}

#[derive(Debug, Default)]
pub(crate) struct Applied {
    pub(crate) changed: Vec<Arc<TreeInner>>,
    pub(crate) dropped: Vec<Arc<TreeInner>>,
    /// Tables that were written for trees that are gone. Nothing names them.
    pub(crate) orphans: Vec<FileId>,
    /// When the first of the new tables is due for a merge because pairs in it expire, if ever.
    pub(crate) due_us: Option<u64>,
}

/// The parts of an opening that the trees and tables of a store use.
#[derive(Debug)]
pub(crate) struct Surroundings {
    /// Identifies this opening of the store.
    pub(crate) store: u64,
    pub(crate) registry: Arc<TableRegistry>,
    pub(crate) blobs: Arc<BlobSet>,
    pub(crate) chunks: Arc<ChunkPool>,
}

#[derive(Debug)]
pub(crate) struct Versions {
    /// `None` in a store that was opened for reading only, and in a closed store.
    manifest: Option<Manifest>,
    trees: BTreeMap<TreeId, Arc<TreeInner>>,
    by_name: BTreeMap<String, TreeId>,
    groups: BTreeMap<String, Arc<Group>>,
    /// Each table file in use, and how many levels of trees name it.
    files: HashMap<FileId, (Arc<TableFile>, usize)>,
    next_tree: TreeId,
    around: Surroundings,
}

impl VersionSet {
    pub(crate) fn new(versions: Versions) -> Self {
        VersionSet(Mutex::new(versions))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Versions> {
        self.0.lock()
    }

    pub(crate) fn trees(&self) -> Vec<Arc<TreeInner>> {
        self.lock().trees().cloned().collect()
    }
}

impl Versions {
    /// The versions that `state` describes. They can change once they have a manifest.
    pub(crate) fn recover(state: &ManifestState, around: Surroundings) -> Self {
        let mut versions = Versions {
            manifest: None,
            trees: BTreeMap::new(),
            by_name: BTreeMap::new(),
            groups: BTreeMap::new(),
            files: HashMap::new(),
            next_tree: state.next_tree.max(1),
            around,
        };
        // One tree at a time: the edits of ten thousand trees take more memory than the trees.
        for &tree in state.trees.keys() {
            versions.show(&state.edits_of(tree));
        }
        versions
    }

    /// Applies `edits` to memory alone: they are durable, or the store is open for reading only.
    pub(crate) fn show(&mut self, edits: &[Edit]) {
        self.derive(edits, &VersionEdit::default(), &|| ());
    }

    /// Makes later changes durable in `manifest`, which describes these versions.
    pub(crate) fn go_on_with(&mut self, manifest: Manifest) {
        self.manifest = Some(manifest);
    }

    /// Releases trees and tables, because the store is closed.
    pub(crate) fn release_all(&mut self) {
        self.trees.values().for_each(|tree| tree.release());
        self.manifest = None;
        self.files.clear();
        self.around.chunks.clear();
    }

    // ---- what there is -------------------------------------------------------------------------------

    pub(crate) fn manifest(&self) -> Option<&Manifest> {
        self.manifest.as_ref()
    }

    /// The manifest's state; `None` if the store has no manifest.
    pub(crate) fn known(&self) -> Option<&ManifestState> {
        self.manifest.as_ref().map(|manifest| &manifest.state)
    }

    pub(crate) fn trees(&self) -> impl ExactSizeIterator<Item = &Arc<TreeInner>> {
        self.trees.values()
    }

    /// All trees with their names, in the order of the names.
    pub(crate) fn by_name(&self) -> impl Iterator<Item = (&str, &Arc<TreeInner>)> {
        self.by_name.iter().filter_map(|(name, id)| Some((name.as_str(), self.trees.get(id)?)))
    }

    pub(crate) fn tree(&self, id: TreeId) -> Option<&Arc<TreeInner>> {
        self.trees.get(&id)
    }

    pub(crate) fn find(&self, name: &str) -> Option<&Arc<TreeInner>> {
        self.by_name.get(name).and_then(|id| self.trees.get(id))
    }

    /// The tree called `name`, or an error if no tree has this name.
    pub(crate) fn tree_called(&self, name: &str) -> Result<Arc<TreeInner>> {
        let missing = || Error::new(ErrorKind::NotFound, format!("there is no tree \"{name}\""));
        self.find(name).cloned().ok_or_else(missing)
    }

    pub(crate) fn check_free(&self, name: &str) -> Result<()> {
        match self.by_name.contains_key(name) {
            true => Err(Error::new(ErrorKind::AlreadyExists, format!("there is a tree \"{name}\" already"))),
            false => Ok(()),
        }
    }

    /// The group called `name`, if it has trees.
    pub(crate) fn group(&self, name: &str) -> Option<&Arc<Group>> {
        self.groups.get(name)
    }

    /// The names of the groups, in order.
    pub(crate) fn group_names(&self) -> impl Iterator<Item = &str> {
        self.groups.keys().map(String::as_str)
    }

    pub(crate) fn check_group_free(&self, name: &str) -> Result<()> {
        match self.groups.contains_key(name) {
            true => Err(Error::new(ErrorKind::AlreadyExists, format!("there is a group \"{name}\" already"))),
            false => Ok(()),
        }
    }

    pub(crate) fn next_tree(&self) -> TreeId {
        self.next_tree
    }

    pub(crate) fn table_files(&self) -> usize {
        self.files.len()
    }

    /// Whether some tree has the table `file`, or a part of it.
    pub(crate) fn has_table(&self, file: FileId) -> bool {
        self.files.contains_key(&file)
    }

    // ---- how it changes ------------------------------------------------------------------------------

    /// Makes the edits durable in the manifest by `commit`, and shows them. `no_writes` takes the commit lock. Fails
    /// before that if tables of a sorted level would overlap.
    pub(crate) fn apply<G>(
        &mut self,
        change: &VersionEdit<'_>,
        commit: impl FnOnce(&mut Manifest, &[Edit]) -> Result<()>,
        no_writes: impl Fn() -> G,
    ) -> Result<Applied> {
        let (edits, orphans) = self.without_the_gone(&change.edits);
        let read_only = || Error::new(ErrorKind::ReadOnly, "the store was opened for reading only");
        for (id, delta) in Delta::of(&edits, &[]).iter().filter(|(_, delta)| !delta.added.is_empty()) {
            let levels = self.trees.get(id).map(|tree| Arc::clone(&tree.state.load().levels));
            levels.unwrap_or_default().check_disjoint(&delta.removed, &delta.added)?;
        }
        commit(self.manifest.as_mut().ok_or_else(read_only)?, &edits)?;
        let mut applied = self.derive(&edits, change, &no_writes);
        applied.orphans = orphans.into_iter().filter(|file| !self.has_table(*file)).collect();
        Ok(applied)
    }

    /// `edits` without those of trees that were dropped meanwhile, and the new files that the removed edits would have
    /// named. A file that was only to be moved has gone with its tree.
    fn without_the_gone<'a>(&self, edits: &'a [Edit]) -> (Cow<'a, [Edit]>, Vec<FileId>) {
        let created = |edit: &Edit| match edit {
            Edit::CreateTree { tree, .. } => Some(*tree),
            _ => None,
        };
        let created: Vec<TreeId> = edits.iter().filter_map(created).collect();
        let is_gone = |edit: &&Edit| {
            edit.tree().is_some_and(|tree| !self.trees.contains_key(&tree) && !created.contains(&tree))
        };
        if !edits.iter().any(|edit| is_gone(&edit)) {
            return (Cow::Borrowed(edits), Vec::new());
        }
        let (gone, left): (Vec<&Edit>, Vec<&Edit>) = edits.iter().partition(is_gone);
        let (mut added, mut moved) = (Vec::new(), BTreeSet::new());
        for edit in gone {
            match edit {
                Edit::AddTable { table, .. } => added.push(table.file),
                Edit::RemoveTable { file, .. } => drop(moved.insert(*file)),
                _ => {}
            }
        }
        added.retain(|file| !moved.contains(file));
        (left.into_iter().cloned().collect(), added)
    }

    /// Changes the versions in memory by `edits`: the edits of `change` whose trees exist.
    fn derive<G>(&mut self, edits: &[Edit], change: &VersionEdit<'_>, no_writes: &impl Fn() -> G) -> Applied {
        let deltas = Delta::of(edits, change.flushed);
        let mut applied = Applied::default();
        change.blobs.iter().for_each(|live| self.around.blobs.insert(Arc::clone(live)));
        // New trees first: a tree that is split points to the new one.
        for (&id, delta) in deltas.iter().filter(|(_, delta)| delta.created.is_some()) {
            self.create(id, delta, &change.origin);
        }
        for (id, delta) in &deltas {
            let Some(tree) = self.trees.get(id).cloned() else { continue };
            if delta.is_dropped {
                self.drop_tree(&tree, no_writes);
                applied.dropped.push(tree);
                continue;
            }
            if delta.created.is_none() {
                self.change(&tree, delta, &change.origin, no_writes);
            }
            let due = delta.due();
            let by_tree_us = match &tree.own_time {
                // Its time may have moved.
                Some(_) => delta.flushed_up_to.map(|_| 0),
                None => due.tree_us,
            };
            applied.due_us = applied.due_us.into_iter().chain(by_tree_us).chain(due.clock_us).min();
            if delta.may_want_merge() {
                applied.changed.push(tree);
            }
        }
        for edit in edits {
            match edit {
                // Last. Then a table that moves is named by a level throughout.
                Edit::RemoveTable { file, .. } => self.release(*file),
                Edit::Counters { next_tree, .. } => self.next_tree = self.next_tree.max(*next_tree),
                Edit::Blob(BlobEdit::Remove { file, .. }) => self.around.blobs.forget(*file),
                _ => {}
            }
        }
        applied
    }

    fn create(&mut self, id: TreeId, delta: &Delta<'_>, origin: &Origin) {
        let Some((name, options)) = delta.created else { return };
        let ids = (id, delta.key_bounds.map_or(id, |(lineage, _)| lineage));
        let (options, since) = (delta.options.unwrap_or(options).clone(), origin.since(id, &self.trees));
        let group = options.group.as_deref().map(|name| {
            let group = self.groups.entry(name.to_owned()).or_insert_with(|| Group::new(name));
            Arc::clone(group)
        });
        let options = (options, group.clone());
        let tree = TreeInner::new(ids, self.around.store, name, options, since, &self.around.chunks);
        group.iter().for_each(|group| group.add(&tree));
        if origin.parent(id, &self.trees).is_some_and(|parent| parent.operand_times.are_wanted()) {
            tree.operand_times.want();
        }
        // No thread writes to it yet.
        self.change(&tree, delta, origin, &|| ());
        self.next_tree = self.next_tree.max(id + 1);
        self.by_name.insert(name.to_owned(), id);
        self.trees.insert(id, tree);
    }

    fn change<G>(
        &mut self,
        tree: &Arc<TreeInner>,
        delta: &Delta<'_>,
        origin: &Origin,
        no_writes: &impl Fn() -> G,
    ) {
        delta.options.into_iter().for_each(|options| tree.set_options(options));
        delta.tag.into_iter().for_each(|tag| *tree.tag.lock() = Some(tag.to_owned()));
        if delta.operand_times {
            tree.operand_times.note();
        }
        if delta.brings_expiring() {
            tree.operand_times.want();
        }
        let now = tree.state.load_full();
        let levels = delta.has_tables().then(|| now.levels.with(&delta.removed, self.tables(&delta.added)));
        let key_bounds = delta.key_bounds.map(|(_, range)| {
            let mut moved = now.key_bounds.moved.clone();
            moved.extend(self.moved_from(tree.id, origin));
            KeyBounds { range: range.clone(), moved, since: now.key_bounds.since }
        });
        // Writers have added most of these range tombstones to memory already. Only the others need the commit lock.
        let writes_wait = delta.changes_ranges(&now.ranges).then(no_writes);
        let ranges = writes_wait.as_ref().and_then(|_| delta.ranges_after(&tree.state.load().ranges));
        let (levels, ranges, key_bounds) =
            (levels.map(Arc::new), ranges.map(Arc::new), key_bounds.map(KeyBounds::shared));
        tree.install(levels.as_ref(), ranges.as_ref(), key_bounds.as_ref(), delta.flushed);
        if let Some((seq, time_us)) = delta.flushed_up_to {
            tree.own_time.iter().for_each(|own| own.note_flushed(seq, time_us));
            tree.flushed.fetch_max(seq, Ordering::AcqRel);
        }
    }

    /// The keys that a split moves from the tree `from` to a new one.
    fn moved_from(&self, from: TreeId, origin: &Origin) -> Option<Moved> {
        let Origin::SplitOff { pairs, seq } = origin else { return None };
        let (_, to) = pairs.iter().find(|(of, _)| *of == from)?;
        let to = Arc::clone(self.trees.get(to)?);
        Some(Moved { range: to.state.load().key_bounds.range.clone(), seq: *seq, to })
    }

    fn drop_tree<G>(&mut self, tree: &TreeInner, no_writes: &impl Fn() -> G) {
        // A tree that replaces it has its name already.
        if self.by_name.get(&tree.name) == Some(&tree.id) {
            self.by_name.remove(&tree.name);
        }
        self.trees.remove(&tree.id);
        if let Some(group) = tree.group().filter(|group| group.remove(tree)) {
            self.groups.remove(&group.name);
        }
        let state = {
            let _no_writes = no_writes();
            tree.mark_dropped()
        };
        state.levels.tables().for_each(|(_, table)| self.release(table.info.file));
    }

    /// The tables that `added` describes. Counts one more level for each of their files.
    fn tables(&mut self, added: &[(usize, &TableInfo)]) -> Vec<(usize, Arc<Table>)> {
        let named = added.iter().map(|&(level, info)| {
            let entry = self.files.entry(info.file);
            let entry = entry.or_insert_with(|| (self.around.registry.file(info.file, info.salt), 0));
            entry.1 += 1;
            (level, Table::new(Arc::clone(&entry.0), info.clone()))
        });
        named.collect()
    }

    /// Counts one level less for `file`.
    fn release(&mut self, file: FileId) {
        if let Some(entry) = self.files.get_mut(&file) {
            entry.1 -= 1;
            if entry.1 == 0
                && let Some((file, _)) = self.files.remove(&file)
            {
                file.mark_obsolete();
            }
        }
    }
}

#[cfg(test)]
mod tests;
