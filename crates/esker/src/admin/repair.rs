//! Makes a store from the sound parts of a damaged one.
//!
//! ```text
//! manifest sound     or its copy: damaged tables written anew without the blocks that are lost, each in its place
//! both damaged       their first sound records list trees; all tables of the directory are merged, the newest versions kept
//! log damaged        every whole record, also after damage, in a new segment
//! huge values lost   a deletion in the place of each entry that names one
//! unreadable blocks  damage like any other; a file of huge values with such blocks is replaced by a copy without them
//! then               unused files get a second name in quarantine-N; the new manifest; then they lose their first name
//! ```
//! A repair loses nothing that was there before. The new manifest comes after everything that it names. Every file that
//! it does not name has its name in the quarantine by then. Therefore, after an interrupted repair, the next one can do
//! it again.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::check::{Check, Recovered, check_as, check_locked};
use super::file_copy::copy_file;
use super::locked;
use crate::blob::{BlobFileId, Pointer, blob_path};
use crate::cache::BufferPool;
use crate::compact::output::TableMaker;
use crate::cursor::SeqNo;
use crate::env::{Env, Gate};
use crate::error::{Error, ErrorKind, Result};
use crate::finding::{CheckReport, Finding};
use crate::fs::{Cancel, LockMode, Unreadable, gone, temporary_of};
use crate::log::replay::Segments;
use crate::log::salvage::Salvaged;
use crate::open::{Listing, QUARANTINE};
use crate::options::Options;
use crate::version::edit::{Edit, ManifestState, TreeId};
use crate::version::manifest::{Manifest, Remains, copy_path, is_of_another, manifest_path, read_remains};

mod blobs;
mod log;
mod rebuild;
mod tables;
mod values;

use values::Opened;

/// Something that a repair could not recover.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Loss {
    /// The path that the damaged file had.
    pub file: PathBuf,
    /// The offset in bytes at which the damaged part begins.
    pub offset: u64,
    /// The expected content of that place.
    pub reason: String,
    /// The tree that has lost something; `None` if that is unknown.
    pub tree: Option<String>,
    /// Keys between these two, both included, are lost or have an older value. `None` if the keys are unknown, or no
    /// key is lost.
    pub keys: Option<(Vec<u8>, Vec<u8>)>,
}

/// The findings and the work of [`repair`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RepairReport {
    /// The damaged places. If this is empty, the store was sound and nothing was changed. The manifest is kept twice.
    /// Therefore damage to one of the two loses nothing; the reason states that.
    pub losses: Vec<Loss>,
    /// Whether the manifest and its copy were both damaged, and the state was rebuilt from the other files. Trees that
    /// only the manifest knew have new names. Keys that were deleted or overwritten shortly before may have their old
    /// values again.
    pub rebuilt: bool,
    /// The directory with the files that are no longer used, if there are any. You may remove it. Before that, huge
    /// values that are freed keep their space.
    pub quarantine: Option<PathBuf>,
    /// Whether the repair was cancelled ([`repair_until`]) during its last step, which reads everything once more. The
    /// repair is complete then, and [`check`](crate::check) can do the last step.
    pub is_cancelled: bool,
}

struct Repair<'a> {
    options: &'a Options,
    env: &'a Env,
    dir: &'a Path,
    listing: Listing,
    findings: Vec<Finding>,
    damaged: BTreeSet<PathBuf>,
    segments: Segments,
    state: ManifestState,
    maker: Arc<TableMaker>,
    /// Pointers in tables that were rewritten because the manifest is lost.
    pointers: Vec<(TreeId, Vec<u8>, Pointer)>,
    /// Pointers in a log that is sound.
    logged: Vec<(TreeId, Vec<u8>, Pointer)>,
    /// Blob files that were opened.
    opened: BTreeMap<BlobFileId, std::result::Result<Opened, Error>>,
    /// Entries of tables that become deletions.
    lost: BTreeSet<(TreeId, Vec<u8>, SeqNo)>,
    /// Whether parts of tables or of the log are lost. Then older versions of keys may be the newest ones now.
    has_lost_writes: bool,
    /// Whether the new manifest frees damaged values.
    frees_values: bool,
    unused: BTreeSet<PathBuf>,
    needs_manifest: bool,
    report: RepairReport,
    cancel: &'a Cancel,
    unreadable: &'a Unreadable,
}

/// Makes the store in `path` whole again, as far as its files allow. Every entry of a block, record or huge value that
/// passes its checksum is kept; the rest is reported. Nothing is deleted: files that cannot be used are moved to a
/// directory `quarantine-N` in the store's directory. Make a copy of the whole directory first if you can.
///
/// Afterwards [`check`](crate::check) finds nothing, and every key that is left can be read. A key whose huge value was
/// lost is absent: a deletion replaces the entry, so that no older version is seen. A key whose newest version was lost
/// with a part of a table or of the log has an older version.
///
/// # Example
/// ```
/// # fn main() -> esker::Result<()> {
/// # let dir = tempfile::tempdir().expect("a temporary directory");
/// # let store = dir.path().join("store");
/// # esker::Db::open(&store, esker::Options::default())?.close()?;
/// for loss in esker::repair(&store, &esker::Options::default())?.losses {
///     println!("{} {} {}", loss.file.display(), loss.offset, loss.reason);
/// }
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// `NotFound` when the store does not exist, `Locked` when it is open, `Unsupported` when a newer build wrote it, `Io`,
/// `OutOfSpace`: then the store is as it was.
pub fn repair(path: impl AsRef<Path>, options: &Options) -> Result<RepairReport> {
    repair_until(path, options, || false)
}

/// As [`repair`], until `cancelled` returns true. It is called before each call of the file system, in the calling
/// thread. A cancelled repair changes nothing that the store needs, and the next repair does the work. Once the new
/// manifest is being written, the repair is completed even so: then the report lists the losses, and
/// [`RepairReport::is_cancelled`] is set.
///
/// # Errors
/// As [`repair`], and `Cancelled`: then the store is as it was.
pub fn repair_until(
    path: impl AsRef<Path>,
    options: &Options,
    cancelled: impl Fn() -> bool + Send + Sync + 'static,
) -> Result<RepairReport> {
    let (dir, cancel) = (path.as_ref(), &Cancel::when(cancelled));
    options.check()?;
    let unreadable = &Arc::default();
    let env = options.env.until(cancel).around(unreadable).within(dir)?;
    let options = &Options { env, ..options.clone() };
    let env = &options.env;
    let (_lock, listing) = locked::lock(env, dir, LockMode::Exclusive)?;
    let checked = check_locked(env, dir, &listing, cancel, unreadable);
    cancel.go_on(dir)?;
    unreadable.confirm(dir, None)?;
    if checked.findings.is_empty() {
        return Ok(RepairReport::default());
    }
    let mut repair = Repair::begin(options, dir, listing, &checked, (cancel, unreadable))?;
    let is_whole = repair.read_manifest()?;
    repair.maker.next_file.fetch_max(repair.state.next_file, Ordering::Relaxed);
    let records = repair.read_log(is_whole)?;
    if is_whole {
        repair.mend_damaged_tables()?;
        let payloads = records.map(|records| repair.unflushed(&records));
        if let Some(payloads) = repair.mend_values(payloads)? {
            repair.write_log(&payloads)?;
        }
    } else {
        let payloads = repair.rebuild(&records.unwrap_or_default())?;
        repair.write_log(&payloads)?;
        repair.note_blobs(&payloads)?;
    }
    repair.finish()
}

impl<'a> Repair<'a> {
    fn begin(
        options: &'a Options,
        dir: &'a Path,
        listing: Listing,
        checked: &CheckReport,
        (cancel, unreadable): (&'a Cancel, &'a Unreadable),
    ) -> Result<Repair<'a>> {
        let env = &options.env;
        let maker = Arc::new(TableMaker {
            env: env.clone(),
            dir: dir.to_path_buf(),
            next_file: Arc::new(AtomicU64::new(listing.next_file())),
            block_bytes: options.block_bytes,
            direct: false,
            pool: Arc::new(BufferPool::new(0)),
            gate: Gate::new(dir),
        });
        let mut repair = Repair {
            options,
            env,
            dir,
            damaged: checked.findings.iter().map(|finding| finding.file.clone()).collect(),
            findings: checked.findings.clone(),
            segments: Segments::open(&*env.fs, dir, Vec::new())?,
            state: ManifestState { next_file: 1, next_tree: 1, ..ManifestState::default() },
            maker,
            pointers: Vec::new(),
            logged: Vec::new(),
            opened: BTreeMap::new(),
            lost: BTreeSet::new(),
            has_lost_writes: false,
            frees_values: false,
            unused: BTreeSet::new(),
            needs_manifest: false,
            report: RepairReport::default(),
            cancel,
            unreadable,
            listing,
        };
        repair.open_segments()?;
        Ok(repair)
    }

    fn lose(&mut self, error: &Error, tree: Option<TreeId>, keys: Option<(Vec<u8>, Vec<u8>)>) {
        let name = tree.and_then(|tree| self.state.trees.get(&tree)).map(|record| record.name.clone());
        let loss = Loss {
            file: error.path().unwrap_or(self.dir).to_path_buf(),
            offset: error.offset().unwrap_or(0),
            reason: error.message().to_owned(),
            tree: name,
            keys,
        };
        // A place that is found again is not reported twice. Several reports about the directory itself may differ.
        let (is_place, place) = (loss.file != self.dir, (&loss.file, loss.offset));
        let is_known = |known: &Loss| {
            known == &loss || (is_place && loss.tree.is_none() && (&known.file, known.offset) == place)
        };
        if !self.report.losses.iter().any(is_known) {
            self.report.losses.push(loss);
        }
    }

    fn apply(&mut self, edit: &Edit) -> Result<()> {
        self.state.apply(edit).map_err(|what| Error::corruption(self.dir, 0, what))
    }

    /// Reports damage as a loss; other errors end the repair.
    fn lose_damage<T>(&mut self, result: Result<T>) -> Result<Option<T>> {
        match result {
            Err(error) if matches!(error.kind(), ErrorKind::Corruption | ErrorKind::NotFound) => {
                self.lose(&error, None, None);
                Ok(None)
            }
            other => other.map(Some),
        }
    }

    /// Takes the state from the manifest and its copy, as far as one is sound. Returns whether the state is whole.
    fn read_manifest(&mut self) -> Result<bool> {
        let mut damage = Vec::new();
        let mut numbers = self.listing.manifests.clone();
        if numbers.is_empty() {
            damage.push(Error::corruption(self.dir, 0, "the manifest is missing"));
            numbers.extend(self.listing.copies.last());
        }
        let (mut is_whole, mut failure) = (false, None);
        for &number in numbers.iter().rev() {
            match self.read_remains(number, &mut damage) {
                Remains::Whole(state) => (self.state, is_whole) = (state, Some(&number) == numbers.last()),
                Remains::Prefix(state) => self.state = state,
                Remains::Nothing => continue,
            }
            break;
        }
        self.needs_manifest |= !damage.is_empty();
        if is_whole && !damage.is_empty() {
            // The two together may know more than `check` did: which files should be there, and how they should be.
            let again = check_as(self.env, self.dir, &self.listing, &self.state, self.cancel);
            self.damaged.extend(again.findings.iter().map(|finding| finding.file.clone()));
            self.findings.extend(again.findings);
        }
        let comment = if is_whole { "; the manifest is kept twice, and nothing is lost" } else { "" };
        for error in damage {
            if !matches!(error.kind(), ErrorKind::Corruption | ErrorKind::NotFound) && !is_whole {
                failure.get_or_insert(error);
                continue;
            }
            let path = error.path().unwrap_or(self.dir);
            let message = format!("{}{comment}", error.message());
            self.lose(&Error::corruption(path, error.offset().unwrap_or(0), message), None, None);
        }
        failure.map_or(Ok(is_whole), Err)
    }

    /// Reads manifest `number` together with its copy.
    fn read_remains(&self, number: u64, damage: &mut Vec<Error>) -> Remains {
        let known = self.segments.manifest_synced(number);
        let (manifest, copy) = (manifest_path(self.dir, number), copy_path(self.dir, number));
        let has_manifest = self.listing.manifests.contains(&number);
        let is_copy = self.listing.copies.contains(&number) && !is_of_another(self.env, self.dir, number);
        let paths = [(manifest, has_manifest), (copy, is_copy)].into_iter();
        let paths: Vec<PathBuf> = paths.filter_map(|(path, is)| is.then_some(path)).collect();
        let before = damage.len();
        let remains = read_remains(self.env, &paths, known, damage);
        if damage.len() == before
            && let Some(path) = paths.iter().find(|path| self.damaged.contains(*path))
        {
            let message = match self.unreadable.is_in(path) {
                true => "the device cannot read a part of it that has no records",
                false => "the manifest is kept twice, and this one is shorter than the other",
            };
            damage.push(Error::corruption(path, 0, message));
        }
        remains
    }

    /// Opens the segments with sound headers, each number once.
    fn open_segments(&mut self) -> Result<()> {
        for (_, path) in self.listing.segments.clone() {
            let paths = self.segments.paths.iter().cloned().chain([path.clone()]).collect();
            match self.lose_damage(Segments::open(&*self.env.fs, self.dir, paths))? {
                Some(segments) => self.segments = segments,
                None => drop(self.unused.insert(path)),
            }
        }
        Ok(())
    }

    /// All whole records of the log; `None` if the log is sound.
    fn read_log(&mut self, is_whole: bool) -> Result<Option<Vec<Salvaged>>> {
        if self.listing.segments.is_empty() {
            self.lose(&Error::corruption(self.dir, 0, "every log segment is missing"), None, None);
        } else if is_whole && !self.segments.paths.is_empty() {
            let is_unreadable = self.segments.paths.iter().any(|path| self.unreadable.is_in(path));
            match self.recovered(&mut |_| {}) {
                // Every opening would reach the unreadable place: the log is written anew.
                Ok(_) if is_unreadable => {}
                Ok(recovered) => {
                    self.logged = recovered.pointers;
                    return Ok(None);
                }
                Err(error) if error.kind() != ErrorKind::Corruption => return Err(error),
                Err(error) => self.lose(&error, None, None),
            }
        }
        self.salvage_log(is_whole).map(Some)
    }

    /// Reads a sound log as recovery does. Calls `visit` with each record.
    fn recovered(&self, visit: &mut dyn FnMut(Salvaged)) -> Result<Recovered> {
        let report = CheckReport::default();
        let check = Check { env: self.env, dir: self.dir, report, cancel: self.cancel };
        check.recovered(&self.segments, &self.state, visit)
    }

    /// Installs the new manifest, and reads everything once more.
    fn finish(mut self) -> Result<RepairReport> {
        // From here on the repair is completed even if it is cancelled, so that the caller gets the list of losses.
        let cancel = self.cancel;
        cancel.go_on(self.dir)?;
        self.unreadable.confirm(self.dir, None)?;
        self.unreadable.places().iter().for_each(|place| self.lose(place, None, None));
        cancel.put_off(|| self.replace())?;
        let left = match Listing::read(self.env, self.dir) {
            Ok(listing) => Ok(check_locked(self.env, self.dir, &listing, cancel, self.unreadable)),
            Err(error) if error.kind() == ErrorKind::Cancelled => {
                Ok(CheckReport { is_cancelled: true, ..CheckReport::default() })
            }
            Err(error) => Err(error),
        };
        let confirmed = |left: CheckReport| match left.is_cancelled {
            true => Ok(left),
            false => self.unreadable.confirm(self.dir, None).map(|()| left),
        };
        let left = left.and_then(confirmed).unwrap_or_else(|error| {
            // The caller gets the list of losses even so.
            let message = format!(
                "the repair is complete, but its last step, which reads everything once more, has failed: \
                 check the store later ({error})"
            );
            let mut left = CheckReport::default();
            left.found(&Error::corruption(self.dir, 0, message), self.dir);
            left
        });
        for finding in left.findings {
            let error = Error::corruption(&finding.file, finding.offset, finding.reason);
            self.lose(&error, None, None);
        }
        self.report.is_cancelled = left.is_cancelled;
        Ok(self.report)
    }

    /// Installs the new manifest, and moves the files that it does not need to the quarantine.
    fn replace(&mut self) -> Result<()> {
        let fs = &self.env.fs;
        // If the state is not whole, an opening may free huge values that nothing names any more. The quarantine keeps
        // their bytes.
        let keeps_blobs = self.report.rebuilt || self.frees_values || !self.unused.is_empty();
        if self.needs_manifest {
            self.unused.extend(self.listing.manifest_paths(self.dir));
        }
        let blobs: Vec<PathBuf> = self.listing.blobs.iter().map(|&id| blob_path(self.dir, id)).collect();
        let is_copied = |path: &PathBuf| self.unreadable.is_in(path) && !self.unused.contains(path);
        let copied: Vec<PathBuf> = blobs.iter().filter(|path| is_copied(path)).cloned().collect();
        let is_kept = |path: &PathBuf| (self.needs_manifest && keeps_blobs) || copied.contains(path);
        let kept: BTreeSet<PathBuf> = blobs.into_iter().filter(is_kept).collect();
        if !self.unused.is_empty() || !kept.is_empty() {
            let quarantine = self.quarantine()?;
            for path in self.unused.union(&kept) {
                if let Some(name) = path.file_name().filter(|_| fs.exists(path).unwrap_or(false)) {
                    fs.hard_link(path, &quarantine.join(name))?;
                }
            }
            fs.sync_dir(&quarantine)?;
            // A file of huge values keeps its name, since pointers have it. The copy is readable everywhere.
            for path in &copied {
                let copy = temporary_of(&quarantine.join(path.file_name().unwrap_or_default()));
                copy_file((self.env, path), (self.env, &copy))?;
                self.unreadable.confirm(self.dir, Some(path))?;
                fs.rename(&copy, path)?;
            }
            self.report.quarantine = Some(quarantine);
        }
        if self.needs_manifest {
            // Marks in old segments about a lost manifest must not apply to this one.
            let mut number = self.listing.manifest().max(self.segments.last_manifest()) + 1;
            while self.listing.copies.contains(&number) {
                number += 1;
            }
            Manifest::create(self.env, self.dir, number, std::mem::take(&mut self.state))?;
        }
        self.unused.iter().try_for_each(|path| gone::remove_file(&**fs, path))?;
        fs.sync_dir(self.dir)
    }

    /// Creates the directory for files that are no longer used.
    fn quarantine(&self) -> Result<PathBuf> {
        let (mut number, mut dir) = (1, self.dir.join(format!("{QUARANTINE}1")));
        while self.env.fs.exists(&dir)? {
            number += 1;
            dir.set_file_name(format!("{QUARANTINE}{number}"));
        }
        self.env.fs.create_dir_all(&dir)?;
        Ok(dir)
    }
}
