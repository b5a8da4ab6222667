//! Scrubbing: reads everything periodically, to find damage while there is still a copy to repair it from.
//!
//! A pass reads every block of every table, and every chunk of every huge value that counts when its turn comes. It
//! reads the files and bypasses the buffer pool. In the background the compaction job reads between merges, at a
//! bounded rate; `Db::scrub` reads as fast as it can. Damage is noted, and both the pass and the store continue. When
//! the store is closed, the progress of a pass is lost.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;

use super::Core;
use crate::error::{Error, ErrorKind, Result};
use crate::events::event;
use crate::finding::{CheckReport, Finding};
use crate::rate::RateLimit;
use crate::state::versions::VersionSet;
use crate::stats::Stats;

mod blobs;
mod pass;
mod tables;

use pass::Pass;

/// The first pass begins this long after the store was opened. Short-lived processes do no pass.
const FIRST_AFTER: Duration = Duration::from_secs(3600);

/// A pass begins this long after the beginning of the one before, or at its end if that is later.
const EVERY: Duration = Duration::from_secs(7 * 24 * 3600);

/// Time between two steps of a running pass.
const STEP: Duration = Duration::from_millis(250);

/// How many damaged places are remembered.
const REMEMBERED_MAX: usize = 100;

/// Bytes of one step if nothing bounds the rate.
const UNBOUNDED_STEP: u64 = 1 << 20;

/// The damage found in the files.
pub(crate) struct Scrub {
    core: Arc<Core>,
    versions: Arc<VersionSet>,
    background: Mutex<Background>,
    found: Mutex<Found>,
    bytes: AtomicU64,
    passes: AtomicU64,
}

/// Times in microseconds of the monotonic clock.
#[derive(Debug, Default)]
struct Background {
    /// When the next pass begins; `None` until that is decided.
    next_us: Option<u64>,
    limit: RateLimit,
    pass: Option<Pass>,
}

#[derive(Debug, Default)]
struct Found {
    /// By running passes.
    new: BTreeSet<Finding>,
    /// By the last pass that ended.
    last: BTreeSet<Finding>,
}

impl Scrub {
    pub(super) fn new(core: &Arc<Core>, versions: &Arc<VersionSet>) -> Scrub {
        Scrub {
            core: Arc::clone(core),
            versions: Arc::clone(versions),
            background: Mutex::default(),
            found: Mutex::default(),
            bytes: AtomicU64::new(0),
            passes: AtomicU64::new(0),
        }
    }

    fn note(&self, report: &CheckReport, from: usize) {
        let mut found = self.found.lock();
        for finding in &report.findings[from.min(report.findings.len())..] {
            if found.new.len() < REMEMBERED_MAX {
                let is_new = found.new.insert(finding.clone());
                if is_new && !found.last.contains(finding) {
                    event!(ERROR, "damage", {
                        path: finding.file.display().to_string(),
                        offset: finding.offset,
                        reason: finding.reason.as_str(),
                    });
                }
            }
        }
    }

    /// Notes that a pass has ended. Damage that it has not found again is gone with its file.
    fn end_pass(&self) {
        let mut found = self.found.lock();
        found.last = std::mem::take(&mut found.new);
        self.passes.fetch_add(1, Ordering::Relaxed);
    }

    /// Closes the files of a running pass, because the store is closing.
    pub(super) fn stop(&self) {
        self.background.lock().pass = None;
    }

    pub(super) fn fill(&self, stats: &mut Stats) {
        let found = self.found.lock();
        stats.damage = found.last.union(&found.new).cloned().collect();
        stats.scrubbed_bytes = self.bytes.load(Ordering::Relaxed);
        stats.scrubs = self.passes.load(Ordering::Relaxed);
    }

    /// Reads everything now, and reports the damage.
    pub(super) fn run(&self) -> Result<CheckReport> {
        let mut pass = Pass::begin(self);
        while self.step(&mut pass, UNBOUNDED_STEP)? {}
        self.end_pass();
        Ok(pass.into_report())
    }

    /// Reads about `bytes` more bytes. `false` at the end of the pass.
    fn step(&self, pass: &mut Pass, bytes: u64) -> Result<bool> {
        self.core.health.check_open()?;
        let (findings, before) = (pass.report().findings.len(), pass.report().bytes);
        let goes_on = pass.advance(self, bytes);
        self.bytes.fetch_add(pass.report().bytes - before, Ordering::Relaxed);
        self.note(pass.report(), findings);
        Ok(goes_on)
    }

    /// Reads as much as the rate allows since the last call, if a pass is due.
    pub(super) fn run_some(&self) {
        let rate = self.core.options.scrub_rate.min(self.core.options.background_io.unwrap_or(u64::MAX));
        let Some(mut background) = self.background.try_lock() else { return };
        let now = self.core.env().clock.monotonic_us();
        let next = *background.next_us.get_or_insert(now.saturating_add(micros(FIRST_AFTER)));
        if rate == 0 || (background.pass.is_none() && now < next) {
            return;
        }
        if background.pass.is_none() {
            background.next_us = Some(now.saturating_add(micros(EVERY)));
            background.pass = Some(Pass::begin(self));
        }
        let Background { limit, pass: Some(pass), .. } = &mut *background else { return };
        // After a longer pause, for a merge perhaps, the pass does not catch up.
        let unused_us = limit.unused(now, 4 * micros(STEP));
        let allowed = u64::try_from(u128::from(rate) * u128::from(unused_us) / 1_000_000).unwrap_or(u64::MAX);
        if allowed == 0 {
            return;
        }
        let before = pass.report().bytes;
        // It fails where the store is closing.
        let goes_on = self.step(pass, allowed).unwrap_or(true);
        // Often more than is allowed: a chunk, a block or a table's index is read whole.
        limit.spend_with_credit(now, unused_us, pass.report().bytes - before, rate);
        if !goes_on {
            background.pass = None;
            self.end_pass();
        }
    }

    /// How soon the compaction job has to continue a running pass, if there is one.
    pub(super) fn run_again(&self) -> Option<Duration> {
        let background = self.background.try_lock()?;
        background.pass.is_some().then_some(STEP)
    }
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

/// Whether `error` means that a file is damaged. A file that is missing may have been removed since.
fn is_damage(error: &Error) -> bool {
    !matches!(error.kind(), ErrorKind::Closed | ErrorKind::OutOfResources)
}
