//! Reads everything and reports all damage, without changing a byte.
//!
//! A check continues after damage, in each file: after a damaged block, record or manifest it still reads the rest.
//! Without a manifest it reads all tables, and the log as far as the log's own marks show it. Bytes that belong to no
//! live structure (a spare segment, tables that no manifest names) are not damage.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use super::locked;
use crate::blob::Pointer;
use crate::cache::BufferPool;
use crate::env::Env;
use crate::error::{Error, Result};
use crate::finding::CheckReport;
use crate::fs::{Cancel, LockMode, Unreadable};
use crate::log::replay::Segments;
use crate::log::survey::survey_stream;
use crate::open::Listing;
use crate::options::Options;
use crate::table::TableReader;
use crate::version::edit::{Edit, FileId, ManifestState, TableInfo};
use crate::version::manifest::{Contents, copy_path, is_of_another, manifest_path, read_manifest};
use crate::version::table_info::check_described;
use crate::version::tables::table_path;
use crate::write::batch::{Ops, numbers_taken};

mod blobs;

pub(super) use blobs::Recovered;

pub(super) struct Check<'a> {
    pub(super) env: &'a Env,
    pub(super) dir: &'a Path,
    pub(super) report: CheckReport,
    pub(super) cancel: &'a Cancel,
}

/// Reads every file of the store in `path` and reports all damage. It writes nothing. A store that is open elsewhere
/// for writing is refused.
///
/// # Errors
/// `NotFound` when the store does not exist, `Locked`, `Io` when the directory cannot be read. Damage is not an error:
/// it is in the report.
pub fn check(path: impl AsRef<Path>, options: &Options) -> Result<CheckReport> {
    check_until(path, options, || false)
}

/// As [`check`], until `cancelled` returns true. It is called before each read, in the calling thread. The report of a
/// cancelled check has the findings up to then, and [`CheckReport::is_cancelled`] is set.
///
/// # Example
/// ```
/// use std::sync::Arc;
/// use std::sync::atomic::{AtomicBool, Ordering};
///
/// # fn main() -> esker::Result<()> {
/// # let dir = tempfile::tempdir().expect("a temporary directory");
/// # let store = dir.path().join("store");
/// # esker::Db::open(&store, esker::Options::default())?.close()?;
/// let stop = Arc::new(AtomicBool::new(false)); // set by a signal, or by another thread
/// let asked = Arc::clone(&stop);
/// let report = esker::check_until(&store, &esker::Options::default(), move || asked.load(Ordering::Relaxed))?;
/// assert!(report.findings.is_empty() && !report.is_cancelled);
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// As [`check`], and `Cancelled` if the check was cancelled before it had the store's lock.
pub fn check_until(
    path: impl AsRef<Path>,
    options: &Options,
    cancelled: impl Fn() -> bool + Send + Sync + 'static,
) -> Result<CheckReport> {
    let (dir, cancel) = (path.as_ref(), &Cancel::when(cancelled));
    let unreadable = Arc::default();
    let env = &options.env.until(cancel).around(&unreadable).within(dir)?;
    let (_lock, listing) = locked::lock(env, dir, LockMode::Shared)?;
    Ok(check_locked(env, dir, &listing, cancel, &unreadable))
}

/// As [`check`], for a caller that holds the lock. The reads of `env` go around `unreadable` places.
pub(super) fn check_locked(
    env: &Env,
    dir: &Path,
    listing: &Listing,
    cancel: &Cancel,
    unreadable: &Unreadable,
) -> CheckReport {
    unreadable.clear();
    let mut check = Check { env, dir, report: CheckReport::default(), cancel };
    let segments = check.segments(listing);
    let (state, synced) = check.manifest(listing, segments.as_ref());
    let mut pointers = Vec::new();
    if let Some(segments) = &segments {
        check.log(segments, state.as_ref(), synced, &mut pointers);
    }
    check.tables(listing, state.as_ref());
    check.blobs(listing, state.as_ref(), &pointers);
    if let Some(state) = &state {
        check.levels(state);
    }
    unreadable.places().iter().for_each(|place| check.found(place));
    check.report.is_cancelled = cancel.has_failed_calls();
    check.report
}

/// Checks the tables and blob files of a store whose manifest is known from elsewhere.
pub(super) fn check_as(
    env: &Env,
    dir: &Path,
    listing: &Listing,
    state: &ManifestState,
    cancel: &Cancel,
) -> CheckReport {
    let mut check = Check { env, dir, report: CheckReport::default(), cancel };
    check.tables(listing, Some(state));
    check.blobs(listing, Some(state), &[]);
    check.levels(state);
    check.report
}

impl Check<'_> {
    /// Reports damage. After a cancellation all calls fail. Their errors may look like damage and are not reported.
    pub(super) fn found(&mut self, error: &Error) {
        if !self.cancel.has_failed_calls() {
            self.report.found(error, self.dir);
        }
    }

    pub(super) fn note_file(&mut self, path: &Path) {
        self.report.files += 1;
        self.report.bytes += self.env.fs.file_len(path).unwrap_or(0);
    }

    /// The segments with sound headers.
    fn segments(&mut self, listing: &Listing) -> Option<Segments> {
        let mut sound = Vec::new();
        for (_, path) in &listing.segments {
            self.note_file(path);
            let opened = Segments::open(&*self.env.fs, self.dir, vec![path.clone()]);
            sound.extend(opened.inspect_err(|error| self.found(error)).ok().map(|_| path.clone()));
        }
        if listing.segments.is_empty() {
            self.found(&Error::corruption(self.dir, 0, "every log segment is missing"));
        }
        Segments::open(&*self.env.fs, self.dir, sound).inspect_err(|error| self.found(error)).ok()
    }

    /// The state of the manifest or, if that is damaged, of its copy. Also how far the log is on the disk according to
    /// either of them, sound or damaged.
    fn manifest(&mut self, listing: &Listing, segments: Option<&Segments>) -> (Option<ManifestState>, u64) {
        let (has_manifest, before) = (listing.manifest() != 0, self.report.findings.len());
        if !has_manifest {
            self.found(&Error::corruption(self.dir, 0, "the manifest is missing"));
        }
        let newest = listing.copies.last().copied().unwrap_or(0);
        let number = if has_manifest { listing.manifest() } else { newest };
        let known = segments.map_or(0, |segments| segments.manifest_synced(number));
        let (path, copy_path) = (manifest_path(self.dir, number), copy_path(self.dir, number));
        let (manifest, synced) = if has_manifest { self.read(&path, known) } else { (None, 0) };
        // If the copy is missing, it could not be written: that is not damage.
        let has_copy = listing.copies.binary_search(&number).is_ok();
        if !has_copy || (has_manifest && is_of_another(self.env, self.dir, number)) {
            return (manifest.map(|contents| contents.state), synced);
        }
        let between = self.report.findings.len();
        let (copy, synced_there) = self.read(&copy_path, known);
        let [manifest_findings, copy_findings] = [before..between, between..self.report.findings.len()];
        let mut comment = |findings: Range<usize>, what: &str| {
            let findings = self.report.findings.get_mut(findings).unwrap_or_default();
            findings.iter_mut().for_each(|finding| finding.reason.push_str(what));
        };
        if manifest.is_none() && copy.is_some() {
            comment(manifest_findings, "; its copy is sound, and a repair uses the copy: nothing is lost");
        } else if manifest.is_some() && copy.is_none() {
            comment(copy_findings, "; the manifest is sound, and a repair makes a new copy: nothing is lost");
        }
        if let (Some(manifest), Some(copy)) = (&manifest, &copy) {
            if manifest.end < copy.end {
                let message = "the manifest ends here, but its copy has more records";
                self.found(&Error::corruption(&path, manifest.end, message));
            } else if copy.end < manifest.last {
                let message = "the manifest's copy ends here, but the manifest has more records";
                self.found(&Error::corruption(&copy_path, copy.end, message));
            }
        }
        (manifest.or(copy).map(|contents| contents.state), synced.max(synced_there))
    }

    /// Reads a manifest or its copy; see [`Check::manifest`].
    fn read(&mut self, path: &Path, known: u64) -> (Option<Contents>, u64) {
        self.note_file(path);
        let error = match read_manifest(self.env, path, known) {
            Ok(contents) => {
                let synced = contents.state.log_synced;
                return (Some(contents), synced);
            }
            Err(error) => error,
        };
        let mut synced = 0;
        let mut visit = |payload: &[u8]| {
            for edit in Edit::decode_all(payload).unwrap_or_default() {
                if let Edit::LogSynced { position } = edit {
                    synced = position.max(synced);
                }
            }
        };
        let places = survey_stream(&*self.env.fs, path, known, &mut visit).unwrap_or_default();
        places.iter().for_each(|place| self.found(place));
        if !places.iter().any(|place| place.offset() == error.offset()) {
            self.found(&error);
        }
        (None, synced)
    }

    /// Reports every damaged place of the log; without the manifest, as far as the log itself shows it. Collects the
    /// pointers to blobs in its records.
    fn log(
        &mut self,
        segments: &Segments,
        state: Option<&ManifestState>,
        synced: u64,
        pointers: &mut Vec<Pointer>,
    ) {
        let (mut records, mut entries, mut nonsense) = (0, 0, Vec::new());
        let mut visit = |path: &Path, offset: u64, payload: &[u8]| {
            records += 1;
            entries += Ops::of(payload).count() as u64;
            pointers.extend(Ops::of(payload).filter_map(|op| Pointer::of_entry(op.kind, op.value)));
            // The first sequence number does not matter here.
            if numbers_taken(payload, 0).is_none() {
                let message = "a log record's checksum matches, but its payload cannot be decoded";
                nonsense.push(Error::corruption(path, offset, message));
            }
        };
        let floor = state.map(|state| state.floor);
        let surveyed = segments.survey(&*self.env.fs, floor, synced, &mut visit);
        self.report.records += records;
        self.report.log_entries = entries;
        nonsense.iter().for_each(|place| self.found(place));
        let places = surveyed.unwrap_or_else(|error| vec![error]);
        places.iter().for_each(|place| self.found(place));
        // Recovery decides in the end, also on where the log ends.
        if let Some(state) = state
            && nonsense.is_empty()
            && places.is_empty()
        {
            match self.recovered(segments, state, &mut |_| {}) {
                Ok(recovered) => {
                    *pointers = recovered.pointers.into_iter().map(|(_, _, pointer)| pointer).collect();
                    self.report.log_entries = recovered.unflushed;
                }
                Err(error) => self.found(&error),
            }
        }
    }

    fn tables(&mut self, listing: &Listing, state: Option<&ManifestState>) {
        let mut named: BTreeMap<FileId, Vec<TableInfo>> = BTreeMap::new();
        for table in state.iter().flat_map(|state| state.tables.values()) {
            named.entry(table.file).or_default().push(table.clone());
        }
        for file in named.keys().filter(|file| listing.tables.binary_search(file).is_err()) {
            self.found(&Error::corruption(&table_path(self.dir, *file), 0, "a table is missing"));
        }
        // Without a manifest it is unknown which tables are live. Therefore all are checked.
        for &file in listing.tables.iter().filter(|file| state.is_none() || named.contains_key(file)) {
            let infos = named.get(&file).map_or(&[][..], Vec::as_slice);
            if let Err(error) = self.table(file, infos) {
                self.found(&error);
            }
        }
    }

    fn table(&mut self, file: FileId, infos: &[TableInfo]) -> Result<()> {
        let path = table_path(self.dir, file);
        self.note_file(&path);
        let pool = Arc::new(BufferPool::new(0));
        let reader = Arc::new(TableReader::open(self.env.fs.open_read(&path)?, file, pool)?);
        let mut damage = Vec::new();
        self.report.entries += reader.verify(&mut |error| damage.push(error));
        damage.iter().for_each(|error| self.found(error));
        check_described(&reader, infos)
    }

    fn levels(&mut self, state: &ManifestState) {
        for &tree in state.trees.keys() {
            state.overlaps(self.dir, tree).iter().for_each(|error| self.found(error));
        }
    }
}
