//! Directories: the names that a program sees, and the names on the disk.
//!
//! Every change of names is *pending* until a `sync_dir` of a directory that it touches. A rename is one change of two
//! names. Therefore it is applied whole or not at all.
//!
//! ```text
//! current    what lookups see
//! durable    what a power loss leaves for sure
//! pending    the changes between the two, in the order they were made; changes of one name keep
//!            that order, changes of different names may reach the disk in any order
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Error as IoError, ErrorKind as IoKind, Result as IoResult};
use std::path::{Component, Path, PathBuf};

use crate::fs::{Entry, NameKind};
use crate::rng::Rng;

/// The file or directory that a name refers to. Two names of one file hold the same id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Node {
    File(u64),
    Dir(u64),
}

/// A name in a directory. The directory is given by its id, so that the name survives a rename of the directory.
pub(super) type Name = (u64, String);

const ROOT: u64 = 0;

#[derive(Clone, Debug, Default)]
struct Dir {
    current: BTreeMap<String, Node>,
    durable: BTreeMap<String, Node>,
}

#[derive(Clone, Debug)]
struct Change {
    removed: Option<Name>,
    put: Option<(Name, Node)>,
}

impl Change {
    fn names(&self) -> impl Iterator<Item = &Name> {
        self.removed.iter().chain(self.put.iter().map(|(name, _)| name))
    }
}

#[derive(Clone, Debug)]
pub(super) struct Names {
    dirs: BTreeMap<u64, Dir>,
    pending: Vec<Change>,
}

impl Names {
    pub(super) fn new() -> Self {
        Names { dirs: BTreeMap::from([(ROOT, Dir::default())]), pending: Vec::new() }
    }

    /// The file or directory that `path` refers to now.
    pub(super) fn find(&self, path: &Path) -> Option<Node> {
        let mut node = Node::Dir(ROOT);
        for part in parts(path) {
            let Node::Dir(dir) = node else { return None };
            node = *self.dirs.get(&dir)?.current.get(&part)?;
        }
        Some(node)
    }

    pub(super) fn find_file(&self, path: &Path) -> IoResult<u64> {
        match self.find(path) {
            Some(Node::File(id)) => Ok(id),
            Some(Node::Dir(_)) => Err(IoKind::IsADirectory.into()),
            None => Err(IoKind::NotFound.into()),
        }
    }

    pub(super) fn find_dir(&self, path: &Path) -> IoResult<u64> {
        match self.find(path) {
            Some(Node::Dir(id)) => Ok(id),
            Some(Node::File(_)) => Err(IoKind::NotADirectory.into()),
            None => Err(IoKind::NotFound.into()),
        }
    }

    /// The directory of `path`, and its name there.
    fn locate(&self, path: &Path) -> IoResult<Name> {
        let mut parts = parts(path);
        let name = parts.pop().ok_or(IoError::from(IoKind::InvalidInput))?;
        let parent: PathBuf = parts.iter().collect();
        Ok((self.find_dir(&parent)?, name))
    }

    /// A free name in an existing directory.
    pub(super) fn locate_free(&self, path: &Path) -> IoResult<Name> {
        match self.find(path) {
            Some(_) => Err(IoKind::AlreadyExists.into()),
            None => self.locate(path),
        }
    }

    pub(super) fn entries(&self, path: &Path) -> IoResult<Vec<Entry>> {
        let dir = self.find_dir(path)?;
        let entry = |(name, node): (&String, &Node)| {
            let kind = if matches!(node, Node::File(_)) { NameKind::File } else { NameKind::Directory };
            Entry { name: name.clone(), kind }
        };
        Ok(self.dirs.get(&dir).map(|dir| dir.current.iter().map(entry).collect()).unwrap_or_default())
    }

    pub(super) fn put(&mut self, name: Name, node: Node) {
        self.change(Change { removed: None, put: Some((name, node)) });
    }

    /// Creates a directory; it is durable immediately, as `create_dir_all` promises.
    pub(super) fn make_dir(&mut self, name: &Name, id: u64) {
        self.dirs.insert(id, Dir::default());
        self.put(name.clone(), Node::Dir(id));
        self.settle_name(name);
    }

    /// Makes the current state of one name durable.
    pub(super) fn settle_name(&mut self, name: &Name) {
        self.settle(|other| other == name);
    }

    pub(super) fn remove_file(&mut self, path: &Path) -> IoResult<()> {
        self.find_file(path)?;
        let name = self.locate(path)?;
        self.change(Change { removed: Some(name), put: None });
        Ok(())
    }

    pub(super) fn remove_dir(&mut self, path: &Path) -> IoResult<()> {
        let id = self.find_dir(path)?;
        let name = self.locate(path)?;
        if !self.is_empty(id) {
            return Err(IoKind::DirectoryNotEmpty.into());
        }
        self.change(Change { removed: Some(name), put: None });
        Ok(())
    }

    pub(super) fn rename(&mut self, from: &Path, to: &Path) -> IoResult<()> {
        let node = self.find(from).ok_or(IoError::from(IoKind::NotFound))?;
        let (old, new) = (self.locate(from)?, self.locate(to)?);
        let (from_parts, to_parts) = (parts(from), parts(to));
        if to_parts.len() > from_parts.len() && to_parts.starts_with(&from_parts) {
            return Err(IoKind::InvalidInput.into());
        }
        match (node, self.find(to)) {
            // POSIX: renaming a file to another of its own names does nothing.
            (_, Some(target)) if target == node => return Ok(()),
            (Node::Dir(_), Some(Node::Dir(target))) if !self.is_empty(target) => {
                return Err(IoKind::DirectoryNotEmpty.into());
            }
            (Node::File(_), Some(Node::Dir(_))) => return Err(IoKind::IsADirectory.into()),
            (Node::Dir(_), Some(Node::File(_))) => return Err(IoKind::NotADirectory.into()),
            _ => {}
        }
        self.change(Change { removed: Some(old), put: Some((new, node)) });
        Ok(())
    }

    /// Makes the names in a directory durable, and with them everything that they depend on.
    pub(super) fn sync_dir(&mut self, path: &Path) -> IoResult<()> {
        let dir = self.find_dir(path)?;
        self.settle(|(other, _)| *other == dir);
        Ok(())
    }

    /// The names after a power loss, if each pending change reached the disk with probability `kept`.
    pub(super) fn after_crash(&self, kept: f64, rng: &mut Rng) -> Names {
        let mut found = self.clone();
        let mut stuck = BTreeSet::new();
        for change in std::mem::take(&mut found.pending) {
            let survives = rng.chance(kept);
            if survives && !change.names().any(|name| stuck.contains(name)) {
                apply(&mut found.dirs, &change, |dir| &mut dir.durable);
            } else {
                stuck.extend(change.names().cloned());
            }
        }
        for dir in found.dirs.values_mut() {
            dir.current.clone_from(&dir.durable);
        }
        found
    }

    /// Every file with a name, sorted by path.
    pub(super) fn files(&self) -> Vec<(PathBuf, u64)> {
        let mut found = Vec::new();
        let mut open = vec![(PathBuf::from("/"), ROOT)];
        while let Some((path, id)) = open.pop() {
            for (name, node) in self.dirs.get(&id).into_iter().flat_map(|dir| &dir.current) {
                match *node {
                    Node::File(id) => found.push((path.join(name), id)),
                    Node::Dir(id) => open.push((path.join(name), id)),
                }
            }
        }
        found.sort();
        found
    }

    /// The ids of files that have a name now, or could have one after a power loss.
    pub(super) fn reachable(&self) -> BTreeSet<u64> {
        let entries = self.dirs.values().flat_map(|dir| dir.current.values().chain(dir.durable.values()));
        let pending = self.pending.iter().filter_map(|change| change.put.as_ref()).map(|(_, node)| node);
        let file = |node: &Node| match *node {
            Node::File(id) => Some(id),
            Node::Dir(_) => None,
        };
        entries.chain(pending).filter_map(file).collect()
    }

    fn is_empty(&self, dir: u64) -> bool {
        self.dirs.get(&dir).is_none_or(|dir| dir.current.is_empty())
    }

    fn change(&mut self, change: Change) {
        apply(&mut self.dirs, &change, |dir| &mut dir.current);
        self.pending.push(change);
    }

    /// Makes durable the pending changes of the `wanted` names and, for each, every earlier change of the same names (a
    /// rename brings in its other name).
    fn settle(&mut self, wanted: impl Fn(&Name) -> bool) {
        let mut names = BTreeSet::new();
        let mut settled = vec![false; self.pending.len()];
        for (change, settled) in self.pending.iter().zip(&mut settled).rev() {
            if change.names().any(|name| wanted(name) || names.contains(name)) {
                names.extend(change.names().cloned());
                *settled = true;
            }
        }
        let pending = std::mem::take(&mut self.pending);
        for (change, settled) in pending.into_iter().zip(settled) {
            if settled {
                apply(&mut self.dirs, &change, |dir| &mut dir.durable);
            } else {
                self.pending.push(change);
            }
        }
    }
}

fn apply(
    dirs: &mut BTreeMap<u64, Dir>,
    change: &Change,
    side: impl Fn(&mut Dir) -> &mut BTreeMap<String, Node>,
) {
    if let Some((dir, name)) = &change.removed
        && let Some(dir) = dirs.get_mut(dir)
    {
        side(dir).remove(name);
    }
    if let Some(((dir, name), node)) = &change.put
        && let Some(dir) = dirs.get_mut(dir)
    {
        side(dir).insert(name.clone(), *node);
    }
}

/// The parts of a path from the root on; relative paths start there too.
fn parts(path: &Path) -> Vec<String> {
    let mut parts = Vec::new();
    for component in path.components() {
        match component {
            Component::Normal(name) => parts.push(name.to_string_lossy().into_owned()),
            Component::ParentDir => drop(parts.pop()),
            Component::CurDir | Component::RootDir | Component::Prefix(_) => {}
        }
    }
    parts
}
