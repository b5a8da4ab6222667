//! A file system in memory: for stores in memory, and for the log of stores that are opened for reading.
//!
//! Nothing is durable, so a sync does nothing. It has hard links only, no permissions and no working directory. A
//! relative path begins at the root. Files live as long as a name or a handle of theirs.

use std::collections::BTreeMap;
use std::io::{self, ErrorKind as IoKind};
use std::ops::Bound;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use parking_lot::Mutex;

use super::{
    Entry, FileSystem, LockMode, MappedFile, NameKind, PLENTY, RandomFile, ReadFile, WriteFile, check_below,
    check_punch, check_segment_len, lock_held_message, without_steps_up,
};
use crate::error::{Error, ErrorKind, Result};
use crate::fs::DirLock;

mod content;
mod handles;

use handles::{File, Handle, MemoryLock};

/// See the module's comment. Clones are the same file system.
#[derive(Debug, Clone)]
pub(crate) struct MemoryFs {
    names: Arc<Mutex<Names>>,
    /// The directory that it is [`within`](FileSystem::within).
    root: Option<PathBuf>,
}

/// The file or directory that a name refers to.
#[derive(Debug, Clone)]
enum Node {
    Directory,
    File(Arc<File>),
}

/// All names but the root's, by their paths without `.` and `..`.
#[derive(Debug, Default)]
struct Names(BTreeMap<PathBuf, Node>);

/// The path from the root on, without `.` and `..`.
fn plain(path: &Path) -> PathBuf {
    let is_name = |part: &Component<'_>| matches!(part, Component::Normal(_));
    without_steps_up(path).components().filter(is_name).collect()
}

impl Names {
    fn find(&self, path: &Path) -> Option<Node> {
        let path = plain(path);
        if path.as_os_str().is_empty() { Some(Node::Directory) } else { self.0.get(&path).cloned() }
    }

    fn file(&self, path: &Path) -> io::Result<Arc<File>> {
        match self.find(path) {
            Some(Node::File(file)) => Ok(file),
            Some(Node::Directory) => Err(IoKind::IsADirectory.into()),
            None => Err(IoKind::NotFound.into()),
        }
    }

    fn directory(&self, path: &Path) -> io::Result<()> {
        match self.find(path) {
            Some(Node::Directory) => Ok(()),
            Some(Node::File(_)) => Err(IoKind::NotADirectory.into()),
            None => Err(IoKind::NotFound.into()),
        }
    }

    /// A free name in an existing directory.
    fn free(&self, path: &Path) -> io::Result<PathBuf> {
        let path = plain(path);
        if self.find(&path).is_some() {
            return Err(IoKind::AlreadyExists.into());
        }
        self.directory(path.parent().unwrap_or(Path::new("")))?;
        Ok(path)
    }

    /// Everything below a directory, in the order of paths.
    fn below<'a>(&'a self, dir: &'a Path) -> impl Iterator<Item = (&'a PathBuf, &'a Node)> {
        let after = (Bound::Excluded(dir), Bound::Unbounded);
        self.0.range::<Path, _>(after).take_while(move |(path, _)| path.starts_with(dir))
    }

    fn create_file(&mut self, path: &Path) -> io::Result<Arc<File>> {
        let path = self.free(path)?;
        let file = Arc::new(File::default());
        file.names.fetch_add(1, Ordering::Relaxed);
        self.0.insert(path, Node::File(Arc::clone(&file)));
        Ok(file)
    }

    fn create_directories(&mut self, dir: &Path) -> io::Result<()> {
        let dir = plain(dir);
        let mut missing: Vec<&Path> = Vec::new();
        for ancestor in dir.ancestors() {
            match self.find(ancestor) {
                Some(Node::Directory) => break,
                Some(Node::File(_)) => return Err(IoKind::NotADirectory.into()),
                None => missing.push(ancestor),
            }
        }
        self.0.extend(missing.into_iter().map(|dir| (dir.to_path_buf(), Node::Directory)));
        Ok(())
    }

    fn remove_file(&mut self, path: &Path) -> io::Result<()> {
        self.file(path)?.names.fetch_sub(1, Ordering::Relaxed);
        self.0.remove(&plain(path));
        Ok(())
    }

    fn remove_directory(&mut self, path: &Path) -> io::Result<()> {
        self.directory(path)?;
        let path = plain(path);
        if self.below(&path).next().is_some() {
            return Err(IoKind::DirectoryNotEmpty.into());
        }
        self.0.remove(&path).map(drop).ok_or(IoKind::InvalidInput.into())
    }

    fn rename(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        let (from, to) = (plain(from), plain(to));
        let node = self.find(&from).ok_or(io::Error::from(IoKind::NotFound))?;
        self.directory(to.parent().ok_or(io::Error::from(IoKind::InvalidInput))?)?;
        if from.as_os_str().is_empty() || (to != from && to.starts_with(&from)) {
            return Err(IoKind::InvalidInput.into());
        }
        match (&node, self.find(&to)) {
            // POSIX: renaming a file to another of its own names does nothing.
            (Node::File(file), Some(Node::File(target))) if Arc::ptr_eq(file, &target) => return Ok(()),
            (Node::Directory, Some(Node::Directory)) if from == to => return Ok(()),
            (Node::Directory, Some(Node::Directory)) if self.below(&to).next().is_some() => {
                return Err(IoKind::DirectoryNotEmpty.into());
            }
            (Node::File(_), Some(Node::Directory)) => return Err(IoKind::IsADirectory.into()),
            (Node::Directory, Some(Node::File(_))) => return Err(IoKind::NotADirectory.into()),
            (Node::File(_), Some(Node::File(replaced))) => {
                replaced.names.fetch_sub(1, Ordering::Relaxed);
            }
            _ => {}
        }
        let below: Vec<PathBuf> = self.below(&from).map(|(path, _)| path.clone()).collect();
        for old in below {
            if let (Ok(rest), Some(node)) = (old.strip_prefix(&from), self.0.remove(&old)) {
                self.0.insert(to.join(rest), node);
            }
        }
        self.0.remove(&from);
        self.0.insert(to, node);
        Ok(())
    }
}

impl MemoryFs {
    /// An empty file system.
    pub(crate) fn new() -> Self {
        MemoryFs { names: Arc::default(), root: None }
    }

    fn check_place(&self, path: &Path) -> Result<()> {
        check_below(self.root.as_deref(), path)
    }

    /// Does `call` with the names. `doing` names the operation in an error.
    fn call<T>(&self, doing: &str, path: &Path, call: impl FnOnce(&mut Names) -> io::Result<T>) -> Result<T> {
        self.check_place(path)?;
        call(&mut self.names.lock()).map_err(|error| Error::io(doing, path, error))
    }

    fn open(&self, path: &Path) -> Result<Handle> {
        let file = self.call("open the file", path, |names| names.file(path))?;
        Ok(Handle::new(file, path))
    }

    fn create_handle(&self, path: &Path) -> Result<Handle> {
        let file = self.call("create the file", path, |names| names.create_file(path))?;
        Ok(Handle::new(file, path))
    }
}

impl FileSystem for MemoryFs {
    fn within(&self, dir: &Path) -> Result<Arc<dyn FileSystem>> {
        self.call("open the directory", dir, |names| names.directory(dir))?;
        Ok(Arc::new(MemoryFs { root: Some(dir.into()), ..self.clone() }))
    }

    fn outside(&self) -> Arc<dyn FileSystem> {
        Arc::new(MemoryFs { root: None, ..self.clone() })
    }

    fn open_read(&self, path: &Path) -> Result<Arc<dyn ReadFile>> {
        Ok(Arc::new(self.open(path)?.reader()))
    }

    fn create(&self, path: &Path) -> Result<Box<dyn WriteFile>> {
        Ok(Box::new(self.create_handle(path)?))
    }

    /// There is no cache to bypass.
    fn open_direct(&self, path: &Path) -> Result<Arc<dyn ReadFile>> {
        self.open_read(path)
    }

    fn create_direct(&self, path: &Path) -> Result<Box<dyn WriteFile>> {
        self.create(path)
    }

    fn create_mapped(&self, path: &Path, len: u64) -> Result<Arc<dyn MappedFile>> {
        self.check_place(path)?;
        check_segment_len(len).map_err(|message| Error::new(ErrorKind::InvalidInput, message).at(path))?;
        if len > content::LEN_MAX {
            return Err(Error::io("create the segment", path, IoKind::FileTooLarge.into()));
        }
        let handle = self.create_handle(path)?;
        handle.file.content.write().allocate(len);
        Ok(Arc::new(handle.mapped(len)))
    }

    fn open_mapped(&self, path: &Path) -> Result<Arc<dyn MappedFile>> {
        let handle = self.open(path)?;
        let len = handle.file.content.read().len();
        check_segment_len(len).map_err(|message| Error::corruption(path, len, message))?;
        Ok(Arc::new(handle.mapped(len)))
    }

    fn create_random(&self, path: &Path) -> Result<Arc<dyn RandomFile>> {
        Ok(Arc::new(self.create_handle(path)?))
    }

    fn open_random(&self, path: &Path) -> Result<Arc<dyn RandomFile>> {
        Ok(Arc::new(self.open(path)?))
    }

    fn punch_hole(&self, path: &Path, offset: u64, len: u64) -> Result<()> {
        self.check_place(path)?;
        check_punch(path, offset, len)?;
        let file = self.call("punch a hole", path, |names| names.file(path))?;
        file.content.write().punch(offset, len);
        Ok(())
    }

    fn link_count(&self, path: &Path) -> Result<u64> {
        let file = self.call("count the hard links of the file", path, |names| names.file(path))?;
        Ok(file.names.load(Ordering::Relaxed))
    }

    fn allocated_bytes(&self, path: &Path) -> Result<u64> {
        let found = self.call("read the size of the file", path, |names| Ok(names.find(path)))?;
        match found {
            Some(Node::File(file)) => Ok(file.content.read().allocated()),
            Some(Node::Directory) => Ok(0),
            None => Err(Error::io("read the size of the file", path, IoKind::NotFound.into())),
        }
    }

    fn set_allocated(&self, path: &Path, len: u64) -> Result<()> {
        let file = self.call("allocate", path, |names| match names.file(path) {
            _ if len > content::LEN_MAX => Err(IoKind::FileTooLarge.into()),
            Err(error) if error.kind() == IoKind::NotFound => names.create_file(path),
            found => found,
        })?;
        file.content.write().allocate(len);
        Ok(())
    }

    fn entries(&self, dir: &Path) -> Result<Vec<Entry>> {
        self.call("list the directory", dir, |names| {
            names.directory(dir)?;
            let dir = plain(dir);
            let entry = |(path, node): (&PathBuf, &Node)| {
                let name = path.strip_prefix(&dir).ok().filter(|rest| rest.components().count() == 1)?;
                let kind = match node {
                    Node::Directory => NameKind::Directory,
                    Node::File(_) => NameKind::File,
                };
                Some(Entry { name: name.to_string_lossy().into_owned(), kind })
            };
            Ok(names.below(&dir).filter_map(entry).collect())
        })
    }

    fn exists(&self, path: &Path) -> Result<bool> {
        self.call("read the metadata of the file", path, |names| Ok(names.find(path).is_some()))
    }

    fn file_len(&self, path: &Path) -> Result<u64> {
        let file = self.call("read the length of the file", path, |names| names.file(path))?;
        let len = file.content.read().len();
        Ok(len)
    }

    fn create_dir_all(&self, dir: &Path) -> Result<()> {
        self.call("create the directory", dir, |names| names.create_directories(dir))
    }

    fn create_dir(&self, dir: &Path) -> Result<()> {
        self.call("create the directory", dir, |names| {
            let path = names.free(dir)?;
            names.0.insert(path, Node::Directory);
            Ok(())
        })
    }

    fn is_regular(&self, path: &Path) -> Result<bool> {
        let missing = || io::Error::from(IoKind::NotFound);
        let found =
            self.call("read the metadata of the file", path, |names| names.find(path).ok_or_else(missing))?;
        Ok(matches!(found, Node::File(_)))
    }

    fn remove_file(&self, path: &Path) -> Result<()> {
        self.call("remove the file", path, |names| names.remove_file(path))
    }

    fn remove_dir(&self, dir: &Path) -> Result<()> {
        self.call("remove the directory", dir, |names| names.remove_directory(dir))
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        self.check_place(to)?;
        self.call(&format!("rename to {}", to.display()), from, |names| names.rename(from, to))
    }

    fn hard_link(&self, from: &Path, to: &Path) -> Result<()> {
        self.hard_link_to(from, self, to)
    }

    fn hard_link_to(&self, from: &Path, target: &dyn FileSystem, to: &Path) -> Result<()> {
        // `target` refuses a path outside its own directory.
        target.exists(to)?;
        self.call(&format!("link to {}", to.display()), from, |names| {
            let file = names.file(from)?;
            let name = names.free(to)?;
            file.names.fetch_add(1, Ordering::Relaxed);
            names.0.insert(name, Node::File(file));
            Ok(())
        })
    }

    fn sync_dir(&self, dir: &Path) -> Result<()> {
        self.call("sync the directory", dir, |names| names.directory(dir))
    }

    fn lock(&self, path: &Path, mode: LockMode) -> Result<Box<dyn DirLock>> {
        let file = self.call("lock the file", path, |names| match (names.file(path), mode) {
            (Err(error), LockMode::Shared) if error.kind() == IoKind::NotFound => Ok(None),
            (Err(error), LockMode::Exclusive) if error.kind() == IoKind::NotFound => {
                names.create_file(path).map(Some)
            }
            (found, _) => found.map(Some),
        })?;
        let Some(file) = file else { return Ok(Box::new(MemoryLock::none())) };
        let taken = MemoryLock::take(&file, mode);
        let held = || Error::new(ErrorKind::Locked, lock_held_message(mode, None)).at(path);
        taken.map_or_else(|| Err(held()), |lock| Ok(Box::new(lock) as Box<dyn DirLock>))
    }

    /// Memory is limited by what the process can have, and no call reports how much that is.
    fn free_space(&self, dir: &Path) -> Result<u64> {
        self.check_place(dir).map(|()| PLENTY)
    }

    /// No file outlives the process.
    fn boot_id(&self) -> [u8; 16] {
        [1; 16]
    }
}
