//! The [`FileSystem`] calls: a store's view of a simulated disk.

use super::*;
use crate::fs::gone::give_up;

impl FileSystem for SimFs {
    /// A simulated disk has no working directory and no other process.
    fn within(&self, dir: &Path) -> Result<Arc<dyn FileSystem>> {
        self.check_place(dir)?;
        let world = self.world.lock();
        world.names.find_dir(dir).map_err(|error| Error::io("open the directory", dir, error))?;
        Ok(Arc::new(SimFs { root: Some(dir.into()), ..self.clone() }))
    }

    fn outside(&self) -> Arc<dyn FileSystem> {
        Arc::new(SimFs { root: None, ..self.clone() })
    }

    fn descriptors(&self) -> usize {
        Arc::as_ptr(&self.world).addr()
    }

    fn open_read(&self, path: &Path) -> Result<Arc<dyn ReadFile>> {
        self.open_for_reading(path, false)
    }

    fn create(&self, path: &Path) -> Result<Box<dyn WriteFile>> {
        Ok(Box::new(SimWrite { handle: self.create_handle(path)?, len: 0 }))
    }

    fn open_direct(&self, path: &Path) -> Result<Arc<dyn ReadFile>> {
        self.check_direct(path)?;
        self.open_for_reading(path, true)
    }

    fn create_direct(&self, path: &Path) -> Result<Box<dyn WriteFile>> {
        self.check_direct(path)?;
        self.create(path)
    }

    /// This makes two changes, and a crash may come between them: the name appears, then the file is filled and synced.
    fn create_mapped(&self, path: &Path, len: u64) -> Result<Arc<dyn MappedFile>> {
        self.check_place(path)?;
        check_segment_len(len).map_err(|message| Error::new(ErrorKind::InvalidInput, message).at(path))?;
        let mut world = self.world.lock();
        world.begin(Op::CreateMapped, path)?;
        world.check_space(len, path)?;
        let name = world.names.locate_free(path);
        let name = name.map_err(|error| Error::io("create the segment", path, error))?;
        let mut content = Content::default();
        content.allocate(len);
        let id = world.add_file(name, content);
        if let Err(error) = world.begin(Op::Sync, path) {
            let is_dead = world.dead;
            drop(world);
            if !is_dead {
                // A surviving process cleans up after a failure, as the real file system does.
                give_up(self, path);
            }
            return Err(error);
        }
        world.file_mut(id).map_err(|error| Error::io("sync the segment", path, error))?.sync();
        let (handle, len) = self.open(&mut world, id, path);
        Ok(Arc::new(SimMapped { handle: Arc::new(handle), len }))
    }

    fn open_mapped(&self, path: &Path) -> Result<Arc<dyn MappedFile>> {
        self.check_place(path)?;
        let mut world = self.world.lock();
        world.check_fault(Op::CreateMapped, path)?;
        let id = world.names.find_file(path).map_err(|error| Error::io("open the segment", path, error))?;
        let (handle, len) = self.open(&mut world, id, path);
        drop(world);
        check_segment_len(len).map_err(|message| Error::corruption(path, len, message))?;
        Ok(Arc::new(SimMapped { handle: Arc::new(handle), len }))
    }

    fn create_random(&self, path: &Path) -> Result<Arc<dyn RandomFile>> {
        Ok(Arc::new(SimRandom(self.create_handle(path)?)))
    }

    fn open_random(&self, path: &Path) -> Result<Arc<dyn RandomFile>> {
        self.check_place(path)?;
        let mut world = self.world.lock();
        world.check_fault(Op::Read, path)?;
        let id = world.names.find_file(path).map_err(|error| Error::io("open the file", path, error))?;
        Ok(Arc::new(SimRandom(self.open(&mut world, id, path).0)))
    }

    fn punch_hole(&self, path: &Path, offset: u64, len: u64) -> Result<()> {
        self.check_place(path)?;
        check_punch(path, offset, len)?;
        let mut world = self.world.lock();
        world.begin(Op::Punch, path).map_err(|error| error.at_offset(offset))?;
        let id = world.names.find_file(path);
        let content = id.and_then(|id| world.file_mut(id));
        content.map_err(|error| Error::io("punch a hole", path, error))?.punch(offset, len);
        Ok(())
    }

    fn link_count(&self, path: &Path) -> Result<u64> {
        self.check_place(path)?;
        let mut world = self.world.lock();
        world.check_fault(Op::Read, path)?;
        let id = world.names.find_file(path);
        let id = id.map_err(|error| Error::io("count the hard links of the file", path, error))?;
        Ok(world.names.files().iter().filter(|(_, other)| *other == id).count() as u64)
    }

    fn allocated_bytes(&self, path: &Path) -> Result<u64> {
        self.check_place(path)?;
        let mut world = self.world.lock();
        world.check_fault(Op::Read, path)?;
        let size = match world.names.find(path) {
            Some(Node::Dir(_)) => Ok(0),
            _ => world.names.find_file(path).and_then(|id| Ok(world.file(id)?.allocated())),
        };
        size.map_err(|error| Error::io("read the size of the file", path, error))
    }

    /// The length is durable immediately: the content of such a file does not matter.
    fn set_allocated(&self, path: &Path, len: u64) -> Result<()> {
        self.check_place(path)?;
        let failed = |error| Error::io("allocate", path, error);
        let mut world = self.world.lock();
        world.begin(Op::Allocate, path)?;
        let id = match world.names.find_file(path) {
            Ok(id) => id,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let name = world.names.locate_free(path).map_err(failed)?;
                world.add_file(name, Content::default())
            }
            Err(error) => return Err(failed(error)),
        };
        let before = world.file(id).map_err(failed)?.allocated();
        let more = len.next_multiple_of(PAGE).saturating_sub(before);
        if more > PLENTY {
            return Err(failed(io::ErrorKind::FileTooLarge.into()));
        }
        world.check_space(more, path)?;
        world.file_mut(id).map_err(failed)?.set_allocated(len);
        Ok(())
    }

    fn entries(&self, dir: &Path) -> Result<Vec<Entry>> {
        self.check_place(dir)?;
        let mut world = self.world.lock();
        world.check_fault(Op::Read, dir)?;
        world.names.entries(dir).map_err(|error| Error::io("list the directory", dir, error))
    }

    fn exists(&self, path: &Path) -> Result<bool> {
        self.check_place(path)?;
        Ok(self.world.lock().names.find(path).is_some())
    }

    fn file_len(&self, path: &Path) -> Result<u64> {
        self.check_place(path)?;
        let mut world = self.world.lock();
        world.check_fault(Op::Read, path)?;
        let len = world.names.find_file(path).and_then(|id| Ok(world.file(id)?.len()));
        len.map_err(|error| Error::io("read the length of the file", path, error))
    }

    fn create_dir_all(&self, dir: &Path) -> Result<()> {
        self.check_place(dir)?;
        let mut world = self.world.lock();
        if world.names.find_dir(dir).is_ok() {
            return Ok(());
        }
        world.begin(Op::Create, dir)?;
        make_dirs(&mut world, dir).map_err(|error| Error::io("create the directory", dir, error))
    }

    fn create_dir(&self, dir: &Path) -> Result<()> {
        self.check_place(dir)?;
        let mut world = self.world.lock();
        let name = world.names.locate_free(dir);
        let name = name.map_err(|error| Error::io("create the directory", dir, error))?;
        world.begin(Op::Create, dir)?;
        let id = world.new_id();
        world.names.make_dir(&name, id);
        Ok(())
    }

    fn is_regular(&self, path: &Path) -> Result<bool> {
        self.check_place(path)?;
        let found = self.world.lock().names.find(path);
        let missing = || Error::io("read the metadata of the file", path, io::ErrorKind::NotFound.into());
        found.map(|found| matches!(found, Node::File(_))).ok_or_else(missing)
    }

    fn remove_file(&self, path: &Path) -> Result<()> {
        self.check_place(path)?;
        let mut world = self.world.lock();
        world.begin(Op::Remove, path)?;
        world.names.remove_file(path).map_err(|error| Error::io("remove the file", path, error))
    }

    fn remove_dir(&self, dir: &Path) -> Result<()> {
        self.check_place(dir)?;
        let mut world = self.world.lock();
        world.begin(Op::Remove, dir)?;
        world.names.remove_dir(dir).map_err(|error| Error::io("remove the directory", dir, error))
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        self.check_place(from)?;
        self.check_place(to)?;
        let mut world = self.world.lock();
        world.begin(Op::Rename, from)?;
        let renamed = world.names.rename(from, to);
        renamed.map_err(|error| Error::io(&format!("rename to {}", to.display()), from, error))
    }

    fn hard_link(&self, from: &Path, to: &Path) -> Result<()> {
        self.hard_link_to(from, self, to)
    }

    fn hard_link_to(&self, from: &Path, target: &dyn FileSystem, to: &Path) -> Result<()> {
        self.check_place(from)?;
        // `target` refuses a path outside its own directory.
        target.exists(to)?;
        let failed = |error| Error::io(&format!("link to {}", to.display()), from, error);
        let mut world = self.world.lock();
        world.begin(Op::Link, from)?;
        let id = world.names.find_file(from).map_err(failed)?;
        let name = world.names.locate_free(to).map_err(failed)?;
        world.names.put(name, Node::File(id));
        Ok(())
    }

    fn sync_dir(&self, dir: &Path) -> Result<()> {
        self.check_place(dir)?;
        let mut world = self.world.lock();
        world.begin(Op::SyncDir, dir)?;
        world.names.sync_dir(dir).map_err(|error| Error::io("sync the directory", dir, error))?;
        world.forget_nameless();
        Ok(())
    }

    fn lock(&self, path: &Path, mode: LockMode) -> Result<Box<dyn DirLock>> {
        self.check_place(path)?;
        let failed = |error| Error::io("lock the file", path, error);
        let mut world = self.world.lock();
        match mode {
            LockMode::Exclusive => world.begin(Op::Lock, path)?,
            LockMode::Shared => world.check_fault(Op::Lock, path)?,
        }
        let id = match (world.names.find_file(path), mode) {
            (Ok(id), _) => id,
            (Err(error), LockMode::Shared) if error.kind() == io::ErrorKind::NotFound => {
                return Ok(Box::new(SimLock(None)));
            }
            (Err(error), LockMode::Exclusive) if error.kind() == io::ErrorKind::NotFound => {
                let name = world.names.locate_free(path).map_err(failed)?;
                world.add_file(name, Content::default())
            }
            (Err(error), _) => return Err(failed(error)),
        };
        world.lock(id, path, mode)?;
        Ok(Box::new(SimLock(Some(self.open(&mut world, id, path).0))))
    }

    fn free_space(&self, dir: &Path) -> Result<u64> {
        self.check_place(dir)?;
        Ok(self.world.lock().free_space().unwrap_or(PLENTY))
    }

    fn boot_id(&self) -> [u8; 16] {
        self.world.lock().boot
    }

    fn mount_id(&self, _dir: &Path) -> u64 {
        self.world.lock().mount
    }
}

/// Creates a directory and its missing parents, durably.
pub(super) fn make_dirs(world: &mut World, dir: &Path) -> io::Result<()> {
    let mut missing: Vec<&Path> = Vec::new();
    for ancestor in dir.ancestors() {
        match world.names.find(ancestor) {
            Some(Node::Dir(_)) => break,
            Some(Node::File(_)) => return Err(io::ErrorKind::NotADirectory.into()),
            None => missing.push(ancestor),
        }
    }
    for ancestor in missing.into_iter().rev() {
        let name = world.names.locate_free(ancestor)?;
        let id = world.new_id();
        world.names.make_dir(&name, id);
    }
    Ok(())
}
