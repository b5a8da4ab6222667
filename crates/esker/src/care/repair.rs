//! Making a store out of what is left of a damaged one.
//!
//! ```text
//! manifest sound     or its copy: damaged tables written anew without the blocks that are lost, each in its place
//! both damaged       their first sound records tell trees; all tables of the directory are merged, the newest versions kept
//! log damaged        every whole record, also behind damage, in a new segment
//! then               what is not used any more: a second name in quarantine-N; the new manifest; the first name goes
//! ```
//! Nothing is lost that was there before: the new manifest comes behind everything that it names, and what it does not
//! name has its name in the quarantine by then. So a repair that was interrupted is done again.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::check::{COPY_DIFFERS, Check, check_locked};
use crate::blob::{Pointer, blob_path};
use crate::cache::BufferPool;
use crate::compact::output::TableMaker;
use crate::env::Env;
use crate::error::{Error, ErrorKind, Result};
use crate::finding::CheckReport;
use crate::fs::LockMode;
use crate::log::replay::Segments;
use crate::log::salvage::Salvaged;
use crate::open::{LOCK_FILE, Listing, QUARANTINE};
use crate::options::{CachePolicy, Options};
use crate::version::edit::{ManifestState, TreeId};
use crate::version::manifest::{Manifest, copy_path, manifest_path, read_manifest, read_manifest_prefix};

mod blobs;
mod log;
mod rebuild;
mod tables;

/// Something that a repair could not recover.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Loss {
    /// The damaged file, by the name that it had.
    pub file: PathBuf,
    /// The byte at which the damaged part begins.
    pub offset: u64,
    /// What was expected there.
    pub reason: String,
    /// The tree that has lost something, where that is known.
    pub tree: Option<String>,
    /// Keys between these, both included, are lost or have an older value; `None`: not known, or none.
    pub keys: Option<(Vec<u8>, Vec<u8>)>,
}

/// What [`repair`] has found and done.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RepairReport {
    /// The damaged places. Empty: the store was sound, and nothing was changed. The manifest is kept twice, so that damage to
    /// one of the two costs nothing, and says so.
    pub losses: Vec<Loss>,
    /// The manifest and its copy were damaged: what is there was put together from the files themselves. Trees that it alone knew have
    /// other names, and what was deleted, or written over, shortly before may be back.
    pub rebuilt: bool,
    /// Where the files went that are not used any more, if there are any. It may be removed; until then huge values that
    /// are freed keep their space.
    pub quarantine: Option<PathBuf>,
}

struct Repair<'a> {
    options: &'a Options,
    env: &'a Env,
    dir: &'a Path,
    listing: Listing,
    /// Files that `check` named.
    damaged: BTreeSet<PathBuf>,
    segments: Segments,
    /// What the new manifest is to say.
    state: ManifestState,
    maker: Arc<TableMaker>,
    /// Pointers in tables that were written anew for a manifest that is lost.
    pointers: Vec<(TreeId, Vec<u8>, Pointer)>,
    unused: BTreeSet<PathBuf>,
    needs_manifest: bool,
    report: RepairReport,
}

/// Makes the store in `path` whole again, as far as its files go: every entry of a block, record and huge value that passes
/// its checksum is kept, and the rest is named. Nothing is deleted: files that cannot be used go into a directory
/// `quarantine-N` in the store's. Make a copy of the whole directory first if you can.
///
/// Afterwards [`check`](crate::check) finds nothing but what is named here, huge values that are damaged. A key whose newest
/// version was lost has an older one, or one whose huge value was freed since, which reading it tells.
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
/// `NotFound` when there is no store, `Locked` when it is open, `Unsupported` when a newer build wrote it, `Io`,
/// `OutOfSpace`: then the store is as it was.
pub fn repair(path: impl AsRef<Path>, options: &Options) -> Result<RepairReport> {
    let (env, dir) = (&options.env, path.as_ref());
    let listing = Listing::read(env, dir)?;
    if listing.is_unfinished(env)? {
        return Err(Error::new(ErrorKind::NotFound, "there is no store here").at(dir));
    }
    let _lock = env.fs.lock(&dir.join(LOCK_FILE), LockMode::Exclusive)?;
    let checked = check_locked(env, dir, &listing);
    if checked.findings.is_empty() {
        return Ok(RepairReport::default());
    }
    let mut repair = Repair::begin(options, dir, listing, &checked)?;
    let is_whole = repair.read_manifest()?;
    repair.maker.next_file.fetch_max(repair.state.next_file, Ordering::Relaxed);
    let records = repair.read_log(is_whole)?;
    match is_whole {
        true => repair.mend_tables()?,
        false => repair.rebuild(records.as_deref().unwrap_or_default())?,
    }
    let payloads = records.map(|records| repair.unflushed(&records));
    if let Some(payloads) = &payloads {
        repair.write_log(payloads)?;
    }
    if !is_whole {
        repair.note_blobs(payloads.as_deref().unwrap_or_default())?;
    }
    repair.finish()
}

impl<'a> Repair<'a> {
    fn begin(
        options: &'a Options,
        dir: &'a Path,
        listing: Listing,
        checked: &CheckReport,
    ) -> Result<Repair<'a>> {
        let env = &options.env;
        let maker = Arc::new(TableMaker {
            env: env.clone(),
            dir: dir.to_path_buf(),
            next_file: Arc::new(AtomicU64::new(listing.next_file())),
            block_bytes: options.block_bytes,
            direct: false,
            pool: Arc::new(BufferPool::new(0, CachePolicy::None)),
        });
        let mut repair = Repair {
            options,
            env,
            dir,
            damaged: checked.findings.iter().map(|finding| finding.file.clone()).collect(),
            segments: Segments::open(&*env.fs, dir, Vec::new())?,
            state: ManifestState { next_file: 1, next_tree: 1, ..ManifestState::default() },
            maker,
            pointers: Vec::new(),
            unused: BTreeSet::new(),
            needs_manifest: false,
            report: RepairReport::default(),
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
        // A place that is only found again is not named twice.
        let place = (&loss.file, loss.offset);
        let is_known =
            |known: &Loss| known == &loss || (loss.tree.is_none() && (&known.file, known.offset) == place);
        if !self.report.losses.iter().any(is_known) {
            self.report.losses.push(loss);
        }
    }

    /// Damage is lost, and named; other errors end the repair.
    fn lose_damage<T>(&mut self, result: Result<T>) -> Result<Option<T>> {
        match result {
            Err(error) if matches!(error.kind(), ErrorKind::Corruption | ErrorKind::NotFound) => {
                self.lose(&error, None, None);
                Ok(None)
            }
            other => other.map(Some),
        }
    }

    /// Takes what the manifest or its copy says, as far as one of them is sound; whether all of it is.
    fn read_manifest(&mut self) -> Result<bool> {
        let mut damage = Vec::new();
        if self.listing.manifests.is_empty() {
            damage.push(Error::corruption(self.dir, 0, "the manifest is missing"));
        }
        let numbers: BTreeSet<u64> =
            self.listing.manifests.iter().chain(&self.listing.copies).copied().collect();
        let mut is_newest = true;
        for &number in numbers.iter().rev() {
            if let Some(state) = self.sound_manifest(number, &mut damage)? {
                self.state = state;
                let nothing =
                    if is_newest { "; what it says is there twice, and nothing is lost" } else { "" };
                self.lose_all(&damage, nothing);
                return Ok(is_newest);
            }
            let paths = [manifest_path(self.dir, number), copy_path(self.dir, number)];
            let prefixes =
                paths.iter().filter_map(|path| read_manifest_prefix(self.env, path).ok().flatten());
            if let Some((state, _)) = prefixes.max_by_key(|(_, edits)| *edits) {
                self.state = state;
                break;
            }
            is_newest = false;
        }
        self.lose_all(&damage, "");
        Ok(false)
    }

    /// The state of manifest `number` or of its copy, if one of them is sound: of the longer one. A copy is never ahead, so a
    /// manifest that is shorter has lost its end.
    fn sound_manifest(&mut self, number: u64, damage: &mut Vec<Error>) -> Result<Option<ManifestState>> {
        let (known, found_before) = (self.segments.manifest_synced(number), damage.len());
        let (manifest, copy) = (manifest_path(self.dir, number), copy_path(self.dir, number));
        let mut sound: Vec<(ManifestState, usize)> = Vec::new();
        for path in [&copy, &manifest] {
            if !self.env.fs.exists(path)? {
                self.needs_manifest |= path == &manifest;
                continue;
            }
            self.needs_manifest |= self.damaged.contains(path);
            match read_manifest(self.env, path, known) {
                Ok(_) => sound.extend(read_manifest_prefix(self.env, path)?),
                Err(error) if error.kind() == ErrorKind::Corruption => damage.push(error),
                Err(error) => return Err(error),
            }
        }
        if damage.len() == found_before && self.damaged.contains(&copy) {
            damage.push(Error::corruption(&copy, 0, COPY_DIFFERS));
        }
        Ok(sound.into_iter().max_by_key(|(_, edits)| *edits).map(|(state, _)| state))
    }

    fn lose_all(&mut self, damage: &[Error], comment: &str) {
        for error in damage {
            let message = format!("{}{comment}", error.message());
            let path = error.path().unwrap_or(self.dir);
            self.lose(&Error::corruption(path, error.offset().unwrap_or(0), message), None, None);
        }
    }

    /// The segments whose headers are sound, each number once.
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

    /// All whole records of the log, if it is not sound as it is.
    fn read_log(&mut self, is_whole: bool) -> Result<Option<Vec<Salvaged>>> {
        if self.listing.segments.is_empty() {
            self.lose(&Error::corruption(self.dir, 0, "every log segment is missing"), None, None);
        } else if is_whole && !self.segments.paths.is_empty() {
            let check = Check { env: self.env, dir: self.dir, report: CheckReport::default() };
            let recovered = check.pointers_of_recovery(&self.segments, &self.state);
            match recovered {
                Ok(_) => return Ok(None),
                Err(error) if error.kind() != ErrorKind::Corruption => return Err(error),
                Err(error) => self.lose(&error, None, None),
            }
        }
        self.salvage_log(is_whole).map(Some)
    }

    /// Puts the new manifest in force, and what it does not need aside.
    fn finish(mut self) -> Result<RepairReport> {
        let fs = &self.env.fs;
        if self.needs_manifest {
            self.unused.extend(self.listing.manifest_paths(self.dir));
        }
        if !self.unused.is_empty() {
            let quarantine = self.quarantine()?;
            // Opening frees huge values that nothing names any more: here they keep their bytes.
            let blobs = self.listing.blobs.iter().map(|&id| blob_path(self.dir, id));
            let blobs: Vec<PathBuf> = blobs.filter(|_| self.needs_manifest).collect();
            for path in self.unused.iter().chain(&blobs) {
                if let Some(name) = path.file_name().filter(|_| fs.exists(path).unwrap_or(false)) {
                    fs.hard_link(path, &quarantine.join(name))?;
                }
            }
            fs.sync_dir(&quarantine)?;
            self.report.quarantine = Some(quarantine);
        }
        if self.needs_manifest {
            // What old segments say of a manifest that is gone must not be taken for this one.
            let copy = self.listing.copies.last().copied().unwrap_or(0);
            let number = self.listing.manifest().max(copy).max(self.segments.last_manifest()) + 1;
            Manifest::create(self.env, self.dir, number, std::mem::take(&mut self.state))?;
        }
        for path in &self.unused {
            if fs.exists(path)? {
                fs.remove_file(path)?;
            }
        }
        fs.sync_dir(self.dir)?;
        let left = check_locked(self.env, self.dir, &Listing::read(self.env, self.dir)?);
        for finding in left.findings {
            let error = Error::corruption(&finding.file, finding.offset, finding.reason);
            self.lose(&error, None, None);
        }
        Ok(self.report)
    }

    /// Makes the directory for what is not used any more.
    fn quarantine(&self) -> Result<PathBuf> {
        let mut number = 1;
        loop {
            let dir = self.dir.join(format!("{QUARANTINE}{number}"));
            if !self.env.fs.exists(&dir)? {
                self.env.fs.create_dir_all(&dir)?;
                return Ok(dir);
            }
            number += 1;
        }
    }
}
