//! A disk in memory that forgets unsynced data, for crash tests. A seed reproduces a run.
//!
//! ```text
//! SimFs ---- clone: another handle of the same disk
//!   |------- fork / kill:  a new disk, as a new process finds it (all writes are there)
//!   '------- crash(seed):  a new disk, as found after a power loss:
//!               each 512-byte sector not synced   old or new       synced: new (new in a hole: zeros)
//!               each name not synced              old or new       (a rename: both names or neither)
//!               a length not synced               old, new, or a sector boundary between the shortest
//!                                                 and the longest since
//!               a file without a name that        where an old name of it comes back: its own bytes, or
//!               is not open                       another file's
//! ```
//!
//! The simulation relies on this: changes of one name reach the disk in order, a sector is written whole, and synced
//! data is never lost. Everything else may happen, even events that a given kernel would not cause. Between calls the
//! "kernel" sometimes writes back a sector. Therefore a crash can leave a version between the first and the last
//! ([`SimFs::set_writeback`]).
//!
//! A crash test runs the workload once and reads [`SimFs::operations`]. Then, for any `n` below that, it runs the
//! workload on a fresh disk with [`SimFs::set_crash_after`]`(Some(n))`, takes [`SimFs::crash`], and opens the store
//! again. Results that arrive when [`SimFs::is_dead`] returns `true` count for nothing: no user saw them.
//!
//! ```
//! use esker::fs::FileSystem;
//! use esker::fs::sim::SimFs;
//! use std::path::Path;
//!
//! let disk = SimFs::new(1);
//! disk.create_dir_all(Path::new("/db"))?;
//! let mut file = disk.create(Path::new("/db/a"))?;
//! file.append(b"synced")?;
//! file.sync()?;
//! disk.sync_dir(Path::new("/db"))?;
//! file.append(b"perhaps")?;
//! let found = disk.crash(42).read_all("/db/a")?;
//! assert!(found.starts_with(b"synced"));
//! # Ok::<(), esker::Error>(())
//! ```

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;

use super::{
    DirLock, Entry, FileSystem, LockMode, MappedFile, PLENTY, RandomFile, ReadFile, WriteFile, check_below,
    check_punch, check_segment_len, no_direct,
};
use crate::error::{Error, ErrorKind, Result};

mod calls;
mod content;
mod faults;
mod handles;
mod names;
mod random;
#[cfg(test)]
mod tests;
mod world;

pub use faults::{Fault, FaultError, Op, When};

use calls::make_dirs;
use content::Content;
use handles::{Handle, SimLock, SimMapped, SimRead, SimWrite};
use names::Node;
use random::SimRandom;
use world::World;

/// The unit of a mapped file's length, in bytes.
const PAGE: u64 = 4096;

/// A simulated disk. Clones are handles of the same disk. Relative paths start at its root.
#[derive(Clone, Debug)]
pub struct SimFs {
    world: Arc<Mutex<World>>,
    /// Calls of a store must stay below this directory. Tests may use any path.
    root: Option<Arc<Path>>,
}

impl SimFs {
    /// An empty disk whose random choices come from `seed`.
    pub fn new(seed: u64) -> Self {
        Self::over(World::new(seed))
    }

    fn over(world: World) -> Self {
        SimFs { world: Arc::new(Mutex::new(world)), root: None }
    }

    /// The disk as found after a power loss now. `seed` decides how likely unsynced data has survived, once for all
    /// sectors and once for all names. The boot id is a new one.
    #[must_use]
    pub fn crash(&self, seed: u64) -> SimFs {
        Self::over(self.world.lock().after_crash(seed, None))
    }

    /// A crash in which each unsynced sector and name survives with probability `kept`: 0 loses everything unsynced, 1
    /// loses nothing.
    #[must_use]
    pub fn crash_keeping(&self, kept: f64, seed: u64) -> SimFs {
        Self::over(self.world.lock().after_crash(seed, Some(kept)))
    }

    /// The disk as found when its device went away and came back without a reboot. Unsynced data has survived as in
    /// [`SimFs::crash`]; the boot id is the same, the mount another.
    #[must_use]
    pub fn detach(&self, seed: u64) -> SimFs {
        let world = self.world.lock();
        let boot = world.boot;
        let mut next = world.after_crash(seed, None);
        next.boot = boot;
        Self::over(next)
    }

    /// The disk as a new process finds it when this one dies: every byte and name, no lock, the same boot id. Unsynced
    /// data is still unsynced.
    #[must_use]
    pub fn kill(&self) -> SimFs {
        self.fork()
    }

    /// A copy of the disk, synced and unsynced data, without open handles, locks, faults and crash point. It is cheap:
    /// the two disks share pages until one writes.
    #[must_use]
    pub fn fork(&self) -> SimFs {
        Self::over(self.world.lock().for_new_process())
    }

    /// How many calls that change the disk were admitted (each store into a mapped file is one).
    pub fn operations(&self) -> u64 {
        self.world.lock().operations
    }

    /// Makes the power fail after `n` changing calls since the disk was made. All later ones do nothing and fail,
    /// except stores into mapped files, which do nothing and succeed. With `None`, the power never fails.
    pub fn set_crash_after(&self, n: Option<u64>) {
        let mut world = self.world.lock();
        (world.crash_after, world.dead) = (n, false);
    }

    /// Whether a call was refused because the power has failed.
    pub fn is_dead(&self) -> bool {
        self.world.lock().dead
    }

    /// Makes calls fail; several faults may be active.
    pub fn inject(&self, fault: Fault) {
        self.world.lock().faults.push(faults::Armed::new(fault));
    }

    /// Ends all injected faults.
    pub fn clear_faults(&self) {
        self.world.lock().faults.clear();
    }

    /// How many calls failed because of injected faults. A test of a fault checks that the fault happened.
    pub fn faults_hit(&self) -> u64 {
        self.world.lock().faults_hit
    }

    /// Limits the space of all files, in blocks of 4096 bytes, to `bytes`. Beyond it writes and creations fail.
    pub fn set_capacity(&self, bytes: Option<u64>) {
        self.world.lock().capacity = bytes;
    }

    /// The space of all files, as [`SimFs::set_capacity`] counts it.
    pub fn used(&self) -> u64 {
        self.world.lock().used()
    }

    /// Sets whether files can be opened past the operating system's cache. By default they can.
    pub fn set_direct(&self, can: bool) {
        self.world.lock().direct = can;
    }

    /// Sets whether the operating system keeps the pages that were read, until a power loss. A read that finds all its
    /// pages there does not reach the device: it succeeds regardless of the device's faults ([`Op::DeviceRead`],
    /// [`SimFs::make_unreadable`]). By default nothing is kept.
    pub fn set_page_cache(&self, keeps: bool) {
        self.world.lock().page_cache = keeps;
    }

    fn check_direct(&self, path: &Path) -> Result<()> {
        if self.world.lock().direct { Ok(()) } else { Err(no_direct(path)) }
    }

    /// Sets the probability that the kernel writes back part of some page at a changing call. By default the seed
    /// chooses 0, 1/64 or 1/8.
    pub fn set_writeback(&self, probability: f64) {
        self.world.lock().writeback = probability;
    }

    /// Damage at rest: changes the byte at `offset` by XOR, durably.
    pub fn flip_byte(&self, path: impl AsRef<Path>, offset: u64, xor: u8) -> Result<()> {
        self.at_rest(path.as_ref(), |content| match content.damage(offset, xor) {
            true => Ok(()),
            false => Err(io::ErrorKind::InvalidInput.into()),
        })
    }

    /// Damage at rest: the device cannot read the pages of some bytes of a file, until they are written.
    pub fn make_unreadable(&self, path: impl AsRef<Path>, offset: u64, len: u64) -> Result<()> {
        self.at_rest(path.as_ref(), |content| {
            content.make_unreadable(offset, len);
            Ok(())
        })
    }

    /// Damage at rest: cuts a file (or extends it with zeros), durably.
    pub fn truncate(&self, path: impl AsRef<Path>, len: u64) -> Result<()> {
        self.at_rest(path.as_ref(), |content| {
            content.truncate(len);
            Ok(())
        })
    }

    /// The whole file as it is now.
    pub fn read_all(&self, path: impl AsRef<Path>) -> Result<Vec<u8>> {
        let mut bytes = Vec::new();
        self.at_rest(path.as_ref(), |content| {
            bytes.resize(content.len() as usize, 0);
            content.read(0, &mut bytes);
            Ok(())
        })?;
        Ok(bytes)
    }

    /// Creates a file, durably, as if by another program; creates missing directories.
    pub fn write_all(&self, path: impl AsRef<Path>, bytes: &[u8]) -> Result<()> {
        let path = path.as_ref();
        let parent = path.parent().unwrap_or(Path::new("/"));
        let mut world = self.world.lock();
        if world.names.find(path).is_some() {
            drop(world);
            return self.at_rest(path, |content| {
                *content = Content::synced(bytes);
                Ok(())
            });
        }
        let failed = |error| Error::io("put the file", path, error);
        make_dirs(&mut world, parent).map_err(failed)?;
        let name = world.names.locate_free(path).map_err(failed)?;
        world.add_file(name.clone(), Content::synced(bytes));
        world.names.settle_name(&name);
        Ok(())
    }

    /// Every file, sorted, as absolute paths.
    pub fn paths(&self) -> Vec<PathBuf> {
        self.world.lock().names.files().into_iter().map(|(path, _)| path).collect()
    }

    fn at_rest(&self, path: &Path, change: impl FnOnce(&mut Content) -> io::Result<()>) -> Result<()> {
        let mut world = self.world.lock();
        let id = world.names.find_file(path);
        let changed = id.and_then(|id| change(world.file_mut(id)?));
        changed.map_err(|error| Error::io("read the metadata of the file", path, error))
    }

    fn check_place(&self, path: &Path) -> Result<()> {
        check_below(self.root.as_deref(), path)
    }

    fn create_handle(&self, path: &Path) -> Result<Handle> {
        self.check_place(path)?;
        let mut world = self.world.lock();
        world.begin(Op::Create, path)?;
        let name = world.names.locate_free(path);
        let name = name.map_err(|error| Error::io("create the file", path, error))?;
        let id = world.add_file(name, Content::default());
        Ok(self.open(&mut world, id, path).0)
    }

    fn open_for_reading(&self, path: &Path, direct: bool) -> Result<Arc<dyn ReadFile>> {
        self.check_place(path)?;
        let mut world = self.world.lock();
        world.check_fault(Op::Read, path)?;
        let id = world.names.find_file(path).map_err(|error| Error::io("open the file", path, error))?;
        let (handle, len) = self.open(&mut world, id, path);
        Ok(Arc::new(SimRead { handle, len, direct }))
    }

    fn open(&self, world: &mut World, id: u64, path: &Path) -> (Handle, u64) {
        let len = world.file(id).map_or(0, Content::len);
        (Handle::open(&self.world, world, id, path), len)
    }
}
