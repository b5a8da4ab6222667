//! Open files and locks of a simulated disk. They keep their disk alive. After a crash they still work, but on the dead
//! disk.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;

use super::faults::Op;
use super::world::World;
use crate::canary::broken;
use crate::error::{Error, ErrorKind, Result};
use crate::fs::{DirLock, MappedFile, ReadFile, SyncFile, WriteFile, too_short};

/// The number of the error of a device that cannot read a sector, as [`Error::is_of_device`] knows it.
pub(super) const EIO: i32 = if cfg!(windows) { 23 } else { 5 };

/// An open file: its bytes stay when its names are removed.
#[derive(Debug)]
pub(super) struct Handle {
    pub(super) world: Arc<Mutex<World>>,
    pub(super) id: u64,
    pub(super) path: PathBuf,
}

impl Handle {
    /// Opens a file. `opening` is the state of `world`, which the caller has locked.
    pub(super) fn open(world: &Arc<Mutex<World>>, opening: &mut World, id: u64, path: &Path) -> Self {
        opening.opened(id);
        Handle { world: Arc::clone(world), id, path: path.to_path_buf() }
    }

    pub(super) fn io_error(&self, doing: &str, error: std::io::Error) -> Error {
        Error::io(doing, &self.path, error)
    }

    /// Fills `buf` from `offset` on. A read that is `direct` goes past the page cache.
    pub(super) fn read(&self, buf: &mut [u8], offset: u64, direct: bool) -> Result<()> {
        let path = &self.path;
        let mut world = self.world.lock();
        let is_cached = world.page_cache && !direct;
        let missing = |error| self.io_error("read the file", error);
        if is_cached && world.file(self.id).map_err(missing)?.is_resident(offset, buf.len()) {
            let content = world.file(self.id).map_err(missing)?;
            return if content.read(offset, buf) { Ok(()) } else { Err(too_short(path, offset, buf.len())) };
        }
        world.check_fault(Op::DeviceRead, path).map_err(|error| error.at_offset(offset))?;
        world.check_fault(Op::Read, path).map_err(|error| error.at_offset(offset))?;
        let content = world.file_mut(self.id).map_err(missing)?;
        if !content.is_readable(offset, buf.len()) {
            let error = std::io::Error::from_raw_os_error(EIO);
            return Err(self.io_error("read the file", error).at_offset(offset));
        }
        if is_cached {
            content.keep_resident(offset, buf.len());
        }
        if content.read(offset, buf) { Ok(()) } else { Err(too_short(path, offset, buf.len())) }
    }

    pub(super) fn sync(&self) -> Result<()> {
        let mut world = self.world.lock();
        let admitted = world.begin(Op::Sync, &self.path);
        let dead = world.dead;
        let content = world.file_mut(self.id).map_err(|error| self.io_error("sync the file", error))?;
        match &admitted {
            Ok(()) => content.sync(),
            Err(_) if dead => {}
            Err(_) => content.lose_dirty(),
        }
        admitted
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.world.lock().closed(self.id);
    }
}

#[derive(Debug)]
pub(super) struct SimRead {
    pub(super) handle: Handle,
    pub(super) len: u64,
    /// Whether reads go past the page cache.
    pub(super) direct: bool,
}

impl ReadFile for SimRead {
    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> Result<()> {
        self.handle.read(buf, offset, self.direct)
    }

    fn evict(&self, offset: u64, len: u64) {
        if let Ok(content) = self.handle.world.lock().file_mut(self.handle.id) {
            content.evict(offset, len);
        }
    }

    fn len(&self) -> u64 {
        self.len
    }

    fn path(&self) -> &Path {
        &self.handle.path
    }
}

#[derive(Debug)]
pub(super) struct SimWrite {
    pub(super) handle: Handle,
    pub(super) len: u64,
}

impl WriteFile for SimWrite {
    fn append(&mut self, bytes: &[u8]) -> Result<()> {
        let path = &self.handle.path;
        let mut world = self.handle.world.lock();
        world.begin(Op::Append, path)?;
        world.check_write(self.handle.id, self.len, bytes.len() as u64, path)?;
        let content = world.file_mut(self.handle.id);
        let content = content.map_err(|error| self.handle.io_error("append to the file", error))?;
        content.write(self.len, bytes);
        self.len += bytes.len() as u64;
        Ok(())
    }

    fn len(&self) -> u64 {
        self.len
    }

    fn sync(&mut self) -> Result<()> {
        self.handle.sync()
    }

    fn start_writeback(&mut self) {
        self.handle.world.lock().write_back_some(self.handle.id);
    }

    fn path(&self) -> &Path {
        &self.handle.path
    }
}

#[derive(Debug)]
pub(super) struct SimMapped {
    pub(super) handle: Arc<Handle>,
    pub(super) len: u64,
}

impl SimMapped {
    fn write(&self, offset: u64, bytes: &[u8], aligned: bool) -> Result<()> {
        let path = &self.handle.path;
        let fits = offset.checked_add(bytes.len() as u64).is_some_and(|end| end <= self.len);
        if !fits || !aligned {
            let message =
                format!("a write of {} bytes does not fit in the segment, or is not aligned", bytes.len());
            return Err(Error::new(ErrorKind::InvalidInput, message).at(path).at_offset(offset));
        }
        let mut world = self.handle.world.lock();
        let admitted = world.begin(Op::Store, path);
        if world.dead {
            // A store into a mapping cannot fail. The machine is off, and no user sees the result.
            return Ok(());
        }
        admitted?;
        let content = world.file_mut(self.handle.id);
        let content = content.map_err(|error| self.handle.io_error("write into the segment", error))?;
        content.write(offset, bytes);
        if broken("rule-24") {
            content.sync();
        }
        Ok(())
    }
}

impl MappedFile for SimMapped {
    fn store(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        self.write(offset, bytes, true)
    }

    fn store_u64(&self, offset: u64, value: u64) -> Result<()> {
        self.write(offset, &value.to_le_bytes(), offset.is_multiple_of(8))
    }

    fn sync(&self) -> Result<()> {
        self.handle.sync()
    }

    fn sync_handle(&self) -> Arc<dyn SyncFile> {
        Arc::clone(&self.handle) as Arc<dyn SyncFile>
    }

    fn len(&self) -> u64 {
        self.len
    }

    fn path(&self) -> &Path {
        &self.handle.path
    }
}

impl SyncFile for Handle {
    fn sync(&self) -> Result<()> {
        Handle::sync(self)
    }
}

/// `None` locks nothing: the lock file is missing and the opener only reads.
#[derive(Debug)]
pub(super) struct SimLock(pub(super) Option<Handle>);

impl DirLock for SimLock {}

impl Drop for SimLock {
    fn drop(&mut self) {
        if let Some(handle) = &self.0 {
            handle.world.lock().unlock(handle.id);
        }
    }
}
