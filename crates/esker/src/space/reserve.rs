//! The reserve: space that is set aside for a full disk.
//!
//! The file `RESERVE` is allocated and never written. When work that gives space back, or must not fail, finds no room,
//! the file is cut, and the work is done once more. As soon as there is room, the file gets its length back, and only
//! then are puts accepted again. It is [`PER_SEGMENT`] times as long as the longest log segment so far. Therefore a
//! small store stays small, and a store that was emptied gets small again (`store/flusher/shrink.rs`); how long
//! segments get follows the disk ([`Space::fit`](super::Space::fit)):
//!
//! ```text
//! |  1 x: log segments for deletes  |  4 x: opening (a first segment, a manifest, the tables of one segment)  |
//! ```
//!
//! - Flushes and merges may use all of it: they give back more than they take.
//! - The open store never spends the part for opening on log segments: it would not get that space back.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;

use crate::canary::broken;
use crate::env::{Env, Gate};
use crate::error::{ErrorKind, Result};
use crate::fs::gone;

/// The name of the file.
pub(crate) const RESERVE_FILE: &str = "RESERVE";

/// How many bytes are set aside for each byte of the longest log segment.
const PER_SEGMENT: u64 = 5;
/// How many of these are left for the next opening.
const FOR_OPENING: u64 = 4;
/// Less than one part in this many of the reserve is not worth an allocation.
const PARTS: u64 = 16;

#[derive(Debug)]
pub(crate) struct Reserve {
    env: Env,
    dir: PathBuf,
    path: PathBuf,
    /// The length up to which log segments count; 0 for no reserve.
    segment_max: u64,
    gate: Arc<Gate>,
    state: Mutex<State>,
}

/// Work for which the reserve was released.
pub(crate) struct Released<'a>(&'a Reserve);

impl Drop for Released<'_> {
    fn drop(&mut self) {
        self.0.state.lock().users -= 1;
    }
}

#[derive(Debug)]
struct State {
    /// The bytes that the file takes on the disk: its length, or 0 if it is hollow.
    held: u64,
    /// The length that it should have.
    wanted: u64,
    /// How often it was released.
    releases: u64,
    /// How many threads do work for which it was released.
    users: usize,
    /// Whether the file's name is durable.
    named: bool,
    /// Whether the file has a length but not the space: some programs leave unwritten space out when they copy a store.
    is_hollow: bool,
}

/// The path of the reserve of the store in `dir`.
pub(crate) fn reserve_path(dir: &Path) -> PathBuf {
    dir.join(RESERVE_FILE)
}

/// How many bytes are set aside for a log whose longest segment has `len` bytes.
pub(crate) fn size_for(len: u64) -> u64 {
    PER_SEGMENT.saturating_mul(len)
}

impl Reserve {
    /// The reserve of the store in `dir`, as the last opening left it. `segment_max`: the length up to which log
    /// segments count; 0 for no reserve. Changes happen only inside `gate`.
    pub(crate) fn find(env: &Env, dir: &Path, segment_max: u64, gate: &Arc<Gate>) -> Result<Reserve> {
        let path = reserve_path(dir);
        let len = if segment_max > 0 && env.fs.exists(&path)? { env.fs.file_len(&path)? } else { 0 };
        let is_hollow = len > 0 && gone::allocated_bytes(&*env.fs, &path)? < len;
        let held = if is_hollow { 0 } else { len };
        let wanted = len.min(size_for(segment_max));
        let state = State { held, wanted, releases: 0, users: 0, named: false, is_hollow };
        let (env, dir, gate) = (env.clone(), dir.to_path_buf(), Arc::clone(gate));
        Ok(Reserve { env, dir, path, segment_max, gate, state: Mutex::new(state) })
    }

    /// How many bytes are set aside now.
    pub(crate) fn held(&self) -> u64 {
        self.state.lock().held
    }

    /// How many bytes are missing from the reserve of a store that gets a log segment of `len` bytes.
    pub(crate) fn missing_for(&self, len: u64) -> u64 {
        let state = self.state.lock();
        state.wanted.max(size_for(len.min(self.segment_max))).saturating_sub(state.held)
    }

    /// The length of the longest log segment that the reserve has to cover.
    pub(crate) fn covered(&self) -> u64 {
        self.state.lock().wanted / PER_SEGMENT
    }

    /// Sets aside the reserve of a store with a log segment of `len` bytes.
    pub(crate) fn cover(&self, len: u64) -> Result<()> {
        let mut state = self.state.lock();
        let wanted = state.wanted.max(size_for(len.min(self.segment_max)));
        if broken("rule-23-reserve") {
            return Ok(());
        }
        if state.held < wanted {
            self.resize(&mut state, wanted)?;
            state.wanted = wanted;
        }
        Ok(())
    }

    /// Permanently releases the part that a store does not need if its longest log segment has `len` bytes.
    pub(crate) fn shrink(&self, len: u64) -> Result<()> {
        let mut state = self.state.lock();
        state.wanted = state.wanted.min(size_for(len.min(self.segment_max)));
        let wanted = state.wanted;
        if state.held > wanted { self.resize(&mut state, wanted) } else { Ok(()) }
    }

    /// [`Reserve::restore`], unless a thread does work for which it was released: that would find no room again.
    pub(crate) fn restore_if_unused(&self) -> Result<()> {
        if self.state.lock().users > 0 { Ok(()) } else { self.restore() }
    }

    /// Sets aside the released part again, as far as there is room.
    pub(crate) fn restore(&self) -> Result<()> {
        let mut state = self.state.lock();
        let missing = state.wanted.saturating_sub(state.held);
        if missing == 0 {
            return Ok(());
        }
        let free = self.env.fs.free_space(&self.dir)?;
        if free < missing && free < state.wanted / PARTS {
            return Ok(());
        }
        let len = state.held + missing.min(free);
        match self.resize(&mut state, len) {
            // Another process was faster, or the disk counts in other units.
            Err(error) if error.kind() == ErrorKind::OutOfSpace => Ok(()),
            result => result,
        }
    }

    /// How often the reserve was released.
    pub(crate) fn releases(&self) -> u64 {
        self.state.lock().releases
    }

    /// Releases all of it for work that lasts until the result is dropped. `None` if it was not released since
    /// `releases` was read.
    pub(crate) fn release(&self, releases: u64) -> Option<Released<'_>> {
        let mut state = self.state.lock();
        if state.held > 0 && self.resize(&mut state, 0).is_ok() {
            state.releases += 1;
        }
        if state.releases == releases {
            return None;
        }
        state.users += 1;
        Some(Released(self))
    }

    /// Whether no more than the part for deletes was spent, if `free` bytes of the disk go to the reserve again. Bytes
    /// that a flush or a merge writes meanwhile count as spent: many deletes would leave merges no room otherwise.
    pub(crate) fn has_share(&self, free: u64) -> bool {
        let state = self.state.lock();
        state.held.saturating_add(free) >= state.wanted / PER_SEGMENT * FOR_OPENING
    }

    /// Whether `free` bytes of the disk would make it half as long again as it should be.
    pub(crate) fn has_plenty(&self, free: u64) -> bool {
        let state = self.state.lock();
        state.held.saturating_add(free) >= state.wanted.saturating_add(state.wanted / 2)
    }

    /// Permanently releases `len` bytes, unless they belong to the part for opening. Returns whether it has.
    pub(crate) fn spend(&self, len: u64) -> bool {
        let mut state = self.state.lock();
        let kept = state.wanted / PER_SEGMENT * FOR_OPENING;
        state.held >= kept + len && {
            let rest = state.held - len;
            self.resize(&mut state, rest).is_ok()
        }
    }

    fn resize(&self, state: &mut State, len: u64) -> Result<()> {
        let _inside = self.gate.enter()?;
        if part_with_second_name(&self.env, &self.path)? {
            (state.held, state.named) = (0, false);
        }
        if state.is_hollow {
            self.env.fs.set_allocated(&self.path, 0)?;
            state.is_hollow = false;
        }
        self.env.fs.set_allocated(&self.path, len)?;
        state.held = len;
        if len > 0 && !state.named {
            self.env.fs.sync_dir(&self.dir)?;
            state.named = true;
        }
        Ok(())
    }
}

/// Releases the reserve of a store that is about to be opened. Returns whether there was any.
pub(crate) fn give_up(env: &Env, dir: &Path) -> Result<bool> {
    let path = reserve_path(dir);
    if !env.fs.exists(&path)? || env.fs.file_len(&path)? == 0 {
        return Ok(false);
    }
    part_with_second_name(env, &path)?;
    env.fs.set_allocated(&path, 0).map(|()| true)
}

/// If the reserve's file has a second name, removes the first one and returns `true`. A copy of the directory by hard
/// links causes this, and under the other name the file may belong to another user. The reserve then begins again with
/// length 0.
fn part_with_second_name(env: &Env, path: &Path) -> Result<bool> {
    let shared = env.fs.exists(path)? && env.fs.link_count(path)? >= 2;
    if shared {
        env.fs.remove_file(path)?;
    }
    Ok(shared)
}
