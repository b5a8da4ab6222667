//! Decides whether the store takes writes, waits until it does, and removes unused files.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};

use super::at_work::AtWork;
use super::{CommitLog, Core};
use crate::canary::broken;
use crate::env::JobKind;
use crate::error::{Error, ErrorKind, Result};
use crate::options::TableLimits;
use crate::space::{LogNeed, Space, is_full};
use crate::state::versions::VersionSet;
use crate::write::commit::poisoned;

mod log_space;
mod mark;
mod obsolete;

use mark::{Lent, Mark};

/// How many retired log segments are kept for reuse.
const SPARE_SEGMENTS: usize = 8;
/// How many are kept on a full disk.
const SPARE_WHEN_FULL: usize = 1;

/// See the module's comment.
pub(crate) struct Disk {
    core: Arc<Core>,
    log: Arc<CommitLog>,
    versions: Arc<VersionSet>,
    space: Space,
    /// Held while a thread checks for room for a log segment and makes the segment. In that time the segment's space is
    /// not free, and the log still seems to need it. Lock order: the mark first.
    preparing: Mutex<()>,
    /// Held by the thread that removes obsolete tables. Others wait for it.
    removing: Mutex<()>,
    mark: Mark,
}

impl Disk {
    pub(super) fn new(
        core: &Arc<Core>,
        log: &Arc<CommitLog>,
        versions: &Arc<VersionSet>,
        space: Space,
    ) -> Disk {
        Disk {
            core: Arc::clone(core),
            log: Arc::clone(log),
            versions: Arc::clone(versions),
            space,
            preparing: Mutex::new(()),
            removing: Mutex::new(()),
            mark: Mark::default(),
        }
    }

    #[inline]
    pub(super) fn space(&self) -> &Space {
        &self.space
    }

    /// At which sizes the next table begins.
    pub(crate) fn table_limits(&self) -> TableLimits {
        self.space.table_limits(self.core.options.table_limits())
    }

    /// Held while a thread checks for room for a log segment and makes the segment.
    #[inline]
    pub(super) fn preparing(&self) -> &Mutex<()> {
        &self.preparing
    }

    /// Lends the low-space mark to the caller's merge until the result is dropped. `None` if another merge has it.
    pub(super) fn lend_mark(&self) -> Option<Lent<'_>> {
        self.mark.lend()
    }

    /// Keeps the low-space mark until the result is dropped. Meanwhile the free space shows whether puts have to be
    /// refused. Waits for the merge that has the mark, but not on a thread that does the store's work. `None` if a
    /// merge still has it.
    pub(super) fn keep_mark(&self) -> Option<MutexGuard<'_, bool>> {
        let kept = self.mark.keep();
        if kept.is_some() || AtWork::is_on(&self.core) {
            return kept;
        }
        let _hurry = self.core.io_budget.hurry();
        Some(self.mark.take_back())
    }

    /// Waits until no merge has the low-space mark, for at most this time.
    pub(super) fn await_mark(&self, at_most: Duration) {
        let _hurry = self.core.io_budget.hurry();
        self.mark.await_back(at_most);
    }

    /// Whether a merge may have the low-space mark.
    pub(super) fn may_mark_be_lent(&self) -> bool {
        self.mark.may_be_lent()
    }

    /// [`Disk::keep_mark`], without a wait for a merge.
    pub(super) fn keep_mark_now(&self) -> Option<MutexGuard<'_, bool>> {
        self.mark.keep()
    }

    /// Fails if the store takes no puts. Ends the refusal of puts if the disk has room again.
    pub(crate) fn ensure_writable(&self) -> Result<()> {
        self.log.check_changeable()?;
        if !self.core.health.has_failed() {
            return Ok(());
        }
        // The error reports the space that is free now, not the space that was free when the disk filled up.
        if self.has_space() { self.resume() } else { Err(self.full_error(0)) }
    }

    /// Fails if the store takes no puts, even if no put has met the full disk yet.
    pub(crate) fn check_writable(&self) -> Result<()> {
        self.ensure_writable()?;
        // While a merge has the mark, a put waits for it. This call does not wait.
        if self.has_space() || self.mark.may_be_lent() { Ok(()) } else { Err(self.full_error(0)) }
    }

    /// Waits until `done`. If no thread does the background work, this call does it. Fails if that work lacks
    /// descriptors or memory meanwhile.
    pub(super) fn wait_until(&self, done: impl Fn() -> bool) -> Result<()> {
        let shortages = self.core.health.shortages();
        if self.core.executor.is_stepped() {
            while !done() {
                self.ensure_writable()?;
                if !self.core.work_here() && !done() {
                    let error =
                        self.core.health.failure().or_else(|| self.core.health.shortage_since(shortages));
                    return Err(error.unwrap_or_else(poisoned));
                }
            }
            return Ok(());
        }
        self.core.health.wait(|| {
            if done() {
                return Ok(true);
            }
            self.ensure_writable()?;
            self.core.health.shortage_since(shortages).map_or(Ok(false), Err)
        })
    }

    /// The space that the log needs for a record of `record_len` bytes.
    fn log_need(&self, record_len: usize) -> LogNeed {
        let new = self.log.wal().missing_spare(record_len).unwrap_or(0);
        LogNeed { new, usual_max: self.log.wal().len_bound() }
    }

    /// Whether the disk has room for puts.
    pub(super) fn has_space(&self) -> bool {
        self.space.has_room(self.log_need(0))
    }

    /// The error of a put of `record_len` bytes on a full disk.
    pub(super) fn full_error(&self, record_len: usize) -> Error {
        self.space.full_error(self.log_need(record_len))
    }

    /// Refuses a huge value that would leave less room than a put needs.
    pub(crate) fn check_room_for_blob(&self, len: u64) -> Result<()> {
        self.ensure_writable()?;
        let look = || Ok::<_, Error>((self.space.free()?, self.space.needed(self.log_need(0))));
        let is_short = |(free, low): &(u64, u64)| *free < len.saturating_add(*low);
        let mut found = look()?;
        if is_short(&found) {
            let _mark = self.keep_mark();
            let _preparing = self.preparing.lock();
            found = look()?;
        }
        let (free, low) = found;
        if is_short(&found) {
            let message = format!(
                "the disk has no room for a value of {len} bytes: {free} bytes are free, and {low} of them have to stay so"
            );
            return Err(Error::new(ErrorKind::OutOfSpace, message).at(&self.core.dir));
        }
        Ok(())
    }

    /// Notes that background work has failed. Writers get the error, readers continue. A full disk is not a lasting
    /// failure: each write checks it again.
    pub(super) fn fail(&self, error: &Error) {
        let new = match error.kind() {
            // Only this call lacked something. The caller can repeat it.
            ErrorKind::Closed | ErrorKind::OutOfResources => return,
            ErrorKind::OutOfSpace if !broken("rule-23") => self.full_error(0),
            _ => {
                let message = format!("background work failed ({error}); reopen the store");
                Error::new(ErrorKind::Poisoned, message)
            }
        };
        self.core.health.fail(new);
    }

    /// [`Disk::fail`]. Returns the error for the caller that has requested the work.
    pub(super) fn failed(&self, error: Error) -> Error {
        self.fail(&error);
        if is_full(&error) { self.full_error(0) } else { error }
    }

    /// Takes puts again if the disk was full and has room now, even if no client writes.
    pub(super) fn resume_if_room(&self) -> Result<()> {
        let was_full = self.core.health.failure().is_some_and(|error| is_full(&error));
        if !was_full || !self.has_space() {
            return Ok(());
        }
        match self.resume() {
            // Restoring the reserve has taken the room.
            Err(error) if is_full(&error) => Ok(()),
            resumed => resumed,
        }
    }

    /// Restores the reserve and continues background work, because there is space again.
    fn resume(&self) -> Result<()> {
        self.space.reserve().restore()?;
        if !self.has_space() {
            return Err(self.full_error(0));
        }
        self.core.health.recover();
        JobKind::ALL.iter().for_each(|&job| self.core.notify(job));
        Ok(())
    }
}
