//! The state of one simulated disk, under one mutex: files, names, locks, faults, and the point of its crash.
//!
//! Every changing call passes [`World::begin`], in this order: a dead disk refuses it, an injected fault fails it, the
//! kernel may write back something on its own, and the call is counted.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::Path;

use super::content::Content;
use super::faults::{Armed, Op};
use super::names::{Name, Names, Node};
use crate::error::{Error, ErrorKind, Result};
use crate::fs::{LockMode, lock_held_message};
use crate::rng::Rng;

/// The chances that an unsynced sector or name reached the disk; each crash draws one.
const SURVIVAL: [f64; 5] = [0.0, 0.1, 0.5, 0.9, 1.0];
/// The chances that the kernel writes something back at a call; each disk draws one.
const WRITEBACK: [f64; 3] = [0.0, 1.0 / 64.0, 1.0 / 8.0];

#[derive(Clone, Debug, Default)]
pub(super) struct Inode {
    pub(super) content: Content,
    handles: usize,
}

#[derive(Clone, Debug)]
pub(super) struct World {
    pub(super) names: Names,
    files: BTreeMap<u64, Inode>,
    next_id: u64,
    /// Holders per lock file: `usize::MAX` is one exclusive holder.
    locks: BTreeMap<u64, usize>,
    pub(super) boot: [u8; 16],
    pub(super) mount: u64,
    pub(super) operations: u64,
    pub(super) crash_after: Option<u64>,
    pub(super) dead: bool,
    pub(super) faults: Vec<Armed>,
    pub(super) faults_hit: u64,
    pub(super) capacity: Option<u64>,
    pub(super) writeback: f64,
    pub(super) direct: bool,
    pub(super) page_cache: bool,
    rng: Rng,
}

impl World {
    pub(super) fn new(seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        World {
            names: Names::new(),
            files: BTreeMap::new(),
            next_id: 1,
            locks: BTreeMap::new(),
            boot: boot_id(&mut rng),
            mount: 1,
            operations: 0,
            crash_after: None,
            dead: false,
            faults: Vec::new(),
            faults_hit: 0,
            capacity: None,
            direct: true,
            page_cache: false,
            writeback: WRITEBACK[rng.below(WRITEBACK.len() as u64) as usize],
            rng,
        }
    }

    /// The same disk for a new process: nothing open, locked, injected or counted.
    pub(super) fn for_new_process(&self) -> Self {
        let mut next = self.clone();
        next.locks.clear();
        next.faults.clear();
        (next.operations, next.crash_after, next.dead, next.faults_hit) = (0, None, false, 0);
        for file in next.files.values_mut() {
            file.handles = 0;
        }
        next.forget_nameless();
        next
    }

    /// The disk after a power loss. `kept` is the chance that unsynced data survives; without it, the chance is drawn.
    pub(super) fn after_crash(&self, seed: u64, kept: Option<f64>) -> Self {
        let mut rng = Rng::new(seed);
        let mut draw = || kept.unwrap_or(SURVIVAL[rng.below(SURVIVAL.len() as u64) as usize]);
        let (kept_sectors, kept_names) = (draw(), draw());
        let mut next = self.for_new_process();
        next.names = self.names.after_crash(kept_names, &mut rng);
        for id in self.given_up() {
            if let Some(file) = next.files.get_mut(&id).filter(|_| rng.chance(0.5)) {
                file.content.lose_blocks(&mut rng);
            }
        }
        for file in next.files.values_mut().filter(|file| !file.content.is_synced()) {
            file.content = file.content.after_crash(kept_sectors, &mut rng);
        }
        next.forget_nameless();
        next.files.values_mut().for_each(|file| file.content.evict(0, u64::MAX));
        next.boot = boot_id(&mut rng);
        next.mount += 1;
        next.rng = rng;
        next
    }

    /// Admits a call that would change something.
    pub(super) fn begin(&mut self, op: Op, path: &Path) -> Result<()> {
        if self.crash_after.is_some_and(|last| self.operations >= last) {
            self.dead = true;
            return Err(Error::new(ErrorKind::Io, "simulated power loss").at(path));
        }
        self.operations += 1;
        self.check_fault(op, path)?;
        if self.writeback > 0.0 && self.rng.chance(self.writeback) {
            let from = self.rng.below(self.next_id);
            if let Some((_, file)) = self.files.range_mut(from..).next() {
                file.content.write_back_some(&mut self.rng);
            }
        }
        Ok(())
    }

    /// Handles a hint to write a file back: writes back part of one page.
    pub(super) fn write_back_some(&mut self, id: u64) {
        if let Some(file) = self.files.get_mut(&id)
            && !self.dead
        {
            file.content.write_back_some(&mut self.rng);
        }
    }

    /// Fails a call if a fault matches it.
    pub(super) fn check_fault(&mut self, op: Op, path: &Path) -> Result<()> {
        let hit = self.faults.iter_mut().find_map(|fault| fault.hit(op, path));
        match hit {
            Some(error) => {
                self.faults_hit += 1;
                Err(error)
            }
            None => Ok(()),
        }
    }

    /// Fails when a write of `len` bytes at `offset` of a file would not fit.
    pub(super) fn check_write(&self, id: u64, offset: u64, len: u64, path: &Path) -> Result<()> {
        let more = self.files.get(&id).map_or(0, |file| file.content.cost(offset, len));
        self.check_space(more, path)
    }

    /// Fails when `more` bytes would not fit.
    pub(super) fn check_space(&self, more: u64, path: &Path) -> Result<()> {
        match self.free_space() {
            Some(free) if free < more => Err(Error::io("allocate", path, io::ErrorKind::StorageFull.into())),
            _ => Ok(()),
        }
    }

    /// Bytes left of the capacity, if it is limited.
    pub(super) fn free_space(&self) -> Option<u64> {
        Some(self.capacity?.saturating_sub(self.used()))
    }

    /// The bytes of all files. A file counts while it has a name or is open.
    pub(super) fn used(&self) -> u64 {
        let mut named: Vec<u64> = self.names.files().into_iter().map(|(_, id)| id).collect();
        named.sort_unstable();
        let counts = |id: &u64, file: &Inode| file.handles > 0 || named.binary_search(id).is_ok();
        let counted = self.files.iter().filter(|(id, file)| counts(id, file));
        counted.map(|(_, file)| file.content.allocated()).sum()
    }

    pub(super) fn new_id(&mut self) -> u64 {
        self.next_id += 1;
        self.next_id
    }

    /// Adds a file with `content` under a free name.
    pub(super) fn add_file(&mut self, name: Name, content: Content) -> u64 {
        let id = self.new_id();
        self.files.insert(id, Inode { content, handles: 0 });
        self.names.put(name, Node::File(id));
        id
    }

    pub(super) fn file(&self, id: u64) -> io::Result<&Content> {
        self.files.get(&id).map(|file| &file.content).ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    pub(super) fn file_mut(&mut self, id: u64) -> io::Result<&mut Content> {
        self.files.get_mut(&id).map(|file| &mut file.content).ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    pub(super) fn opened(&mut self, id: u64) {
        if let Some(file) = self.files.get_mut(&id) {
            file.handles += 1;
        }
    }

    pub(super) fn closed(&mut self, id: u64) {
        if let Some(file) = self.files.get_mut(&id) {
            file.handles -= 1;
        }
    }

    /// The files whose blocks may belong to another file by now: they have no name and are not open. A power loss may
    /// still bring back a name of such a file.
    fn given_up(&self) -> Vec<u64> {
        let mut given_up: BTreeSet<u64> = self.files.keys().copied().collect();
        for (_, named) in self.names.files() {
            given_up.remove(&named);
        }
        given_up.into_iter().filter(|id| self.files.get(id).is_some_and(|file| file.handles == 0)).collect()
    }

    /// Drops the bytes of files that no name, no crash and no handle can bring back.
    pub(super) fn forget_nameless(&mut self) {
        let reachable = self.names.reachable();
        self.files.retain(|id, file| file.handles > 0 || reachable.contains(id));
    }

    pub(super) fn lock(&mut self, id: u64, path: &Path, mode: LockMode) -> Result<()> {
        let holders = self.locks.entry(id).or_insert(0);
        *holders = match (mode, *holders) {
            (LockMode::Exclusive, 0) => usize::MAX,
            (LockMode::Shared, n) if n < usize::MAX - 1 => n + 1,
            _ => return Err(Error::new(ErrorKind::Locked, lock_held_message(mode, None)).at(path)),
        };
        Ok(())
    }

    pub(super) fn unlock(&mut self, id: u64) {
        if let Some(holders) = self.locks.get_mut(&id) {
            *holders = if *holders == usize::MAX { 0 } else { holders.saturating_sub(1) };
        }
    }
}

fn boot_id(rng: &mut Rng) -> [u8; 16] {
    let mut id = [0; 16];
    id[..8].copy_from_slice(&rng.next().to_le_bytes());
    id[8..].copy_from_slice(&rng.next().to_le_bytes());
    id
}
