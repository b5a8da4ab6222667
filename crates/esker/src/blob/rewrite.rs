//! Rewrites a shared file without the values that are not needed, and replaces the old file by the new one.
//!
//! ```text
//! begin     000007.blob.tmp with the header of 000007.blob
//! step      the next values, in the order of their trees and the beginnings of their keys, each verified
//!           some MiB at a time
//! seal      footer, sync
//! place     000007.blob.old as a second name of the old file; rename over 000007.blob; directory synced;
//!           000007.blob.old removed
//! ```
//! The second name keeps the blocks of the old file allocated until a power loss cannot bring its first name back
//! ([`crate::fs::gone`]). If the file system does not support second names, an open descriptor keeps the blocks while
//! the process lives.
//!
//! A value keeps its name (file and ordinal), and the file keeps its number and salt. Therefore pointers, manifest and
//! log stay as they are. A crash leaves either file. Both have every value that counts, since the values left out were
//! freed durably before (rules 11 and 15). If the old file has no footer, because of a crash, the manifest records a
//! footer once the new name is durable. Before that the new file too is read by its descriptors. A checkpoint's name
//! for the old file keeps the old bytes (rule 14), and so do current readers of the old file.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::{BlobFile, BlobFileId, Entry, Handles, LiveFile, SharedWriter};
use crate::canary::broken;
use crate::error::{ErrorKind, Result};
use crate::fs::gone::retired_path;
use crate::fs::{FileSystem, ReadFile, gone, temporary_of};

/// Values are ordered by this many bytes of their keys. All keys of a file might take as much memory as the file.
const KEY_HEAD: usize = 64;

/// See the module. If it is dropped before it is installed, it removes its files.
#[derive(Debug)]
pub(crate) struct Rewrite {
    fs: Arc<dyn FileSystem>,
    pub(crate) live: Arc<LiveFile>,
    source: Arc<BlobFile>,
    path: PathBuf,
    temporary: PathBuf,
    writer: SharedWriter,
    /// The values to move, last one first.
    left: Vec<Entry>,
    written_back: u64,
    installed: bool,
}

impl Rewrite {
    /// Begins to rewrite the file `live` in `path`. `entries` are the entries to keep.
    pub(crate) fn begin(
        fs: &Arc<dyn FileSystem>,
        live: &Arc<LiveFile>,
        path: &Path,
        mut entries: Vec<Entry>,
    ) -> Result<Rewrite> {
        let source = live.readable()?;
        let mut keyed = Vec::with_capacity(entries.len());
        // In the order in which they are on the disk.
        entries.sort_unstable_by_key(|entry| entry.desc_offset);
        for entry in entries {
            let mut head = source.key(&entry)?;
            head.truncate(KEY_HEAD);
            keyed.push((entry.tree, head.into_boxed_slice(), entry));
        }
        keyed.sort_by(|a, b| (b.0, &b.1, b.2.ordinal).cmp(&(a.0, &a.1, a.2.ordinal)));
        let temporary = temporary_of(path);
        gone::remove_file(&**fs, &temporary)?;
        Ok(Rewrite {
            fs: Arc::clone(fs),
            live: Arc::clone(live),
            path: path.to_path_buf(),
            writer: SharedWriter::create(&**fs, &temporary, *source.header())?,
            source,
            temporary,
            left: keyed.into_iter().map(|(_, _, entry)| entry).collect(),
            written_back: 0,
            installed: false,
        })
    }

    pub(crate) fn file(&self) -> BlobFileId {
        self.live.id
    }

    /// Moves values of about `bytes` bytes. Returns `false` when no value is left. Values for which `is_gone` returns
    /// `true` may have been punched meanwhile, and are left out.
    ///
    /// # Errors
    /// `Corruption` if a value fails its checksum: then the file stays as it is.
    pub(crate) fn step(&mut self, bytes: u64, is_gone: impl Fn(u64) -> bool) -> Result<bool> {
        let (mut value, mut moved) = (Vec::new(), 0);
        while moved < bytes {
            let Some(entry) = self.left.pop() else { return Ok(false) };
            if is_gone(entry.ordinal) {
                continue;
            }
            let (sums, key) = self.source.read_for_moving(&entry, &mut value)?;
            self.writer.append_moved(&entry, &key, &value, sums.bytes())?;
            moved += entry.len;
        }
        // This shortens the sync at the end.
        let (from, to) = (self.written_back, self.writer.len());
        self.writer.file().start_writeback(from, to - from);
        self.written_back = to;
        Ok(true)
    }

    /// Completes the new file and makes it durable.
    pub(crate) fn seal(&mut self) -> Result<()> {
        if broken("rule-15") {
            self.fs.rename(&self.temporary, &self.path)?;
        }
        self.writer.seal()
    }

    /// Replaces the old file by the new one. Readers of the old file continue. Returns `None` and changes nothing if
    /// the old file is being read and has a copy: only the name in the copy would be left, and the copy's owner could
    /// then punch values that are being read here. The caller makes sure that no thread links the file meanwhile. After
    /// an error too, the old file is in its place.
    pub(crate) fn take_place(mut self, handles: &Arc<Handles>) -> Result<Option<Replaced>> {
        let entries = self.writer.entries();
        let ordinals = entries.iter().map(|entry| entry.ordinal).collect();
        let lazy = handles.file_of(&self.path, self.writer.len());
        let file = BlobFile::new(
            Arc::clone(&lazy) as Arc<dyn ReadFile>,
            self.live.name(),
            *self.source.header(),
            entries,
        );
        let has_copies = self.fs.link_count(&self.path)? > 1;
        // A reader that pins a value meanwhile would read the old file, which its copy's owner may punch.
        let nobody_pins = has_copies.then(|| self.live.values.lock());
        if nobody_pins.as_ref().is_some_and(|values| values.is_pinned()) {
            return Ok(None);
        }
        self.live.keep_open()?;
        let mut replaced = Replaced {
            fs: Arc::clone(&self.fs),
            live: Arc::clone(&self.live),
            ordinals,
            _old: Arc::clone(&self.source),
            second_name: None,
        };
        if !broken("rewrite-name") {
            replaced.second_name = second_name(&*self.fs, &self.path)?;
        }
        if !broken("rule-15") {
            let placed = self.fs.rename(&self.temporary, &self.path);
            if let (Err(_), Some(name)) = (&placed, &replaced.second_name) {
                // Best effort: opening removes the second name if this fails.
                drop(self.fs.remove_file(name));
            }
            placed?;
        }
        self.installed = true;
        self.live.read_from(file, lazy);
        drop(nobody_pins);
        Ok(Some(replaced))
    }
}

/// The new file has the name. A power loss may still bring the old one back, which is kept for that case.
#[derive(Debug)]
pub(crate) struct Replaced {
    fs: Arc<dyn FileSystem>,
    live: Arc<LiveFile>,
    pub(crate) ordinals: Vec<u64>,
    /// Held open: on file systems without second names, this keeps its blocks.
    _old: Arc<BlobFile>,
    second_name: Option<PathBuf>,
}

impl Replaced {
    /// Makes the name durable and removes the old file. After an error, the next opening of the store does this.
    pub(crate) fn finish(self, dir: &Path) -> Result<()> {
        self.fs.sync_dir(dir)?;
        if let Some(name) = &self.second_name {
            self.fs.remove_file(name)?;
        }
        // The new file ends with a footer, even if the old one did not.
        self.live.values.lock().seal();
        Ok(())
    }
}

impl Drop for Rewrite {
    fn drop(&mut self) {
        if !self.installed {
            // Best effort: opening removes the file if this fails.
            drop(self.fs.remove_file(&self.temporary));
        }
    }
}

/// Gives the file `path` a second name and returns it. `None` if that is impossible: the file system does not support
/// second names, or the file has as many names as it can have.
fn second_name(fs: &dyn FileSystem, path: &Path) -> Result<Option<PathBuf>> {
    let second = retired_path(path);
    if fs.exists(&second)? {
        // It belongs to a file that this one, or an earlier one, has replaced.
        path.parent().map_or(Ok(()), |dir| fs.sync_dir(dir))?;
        fs.remove_file(&second)?;
    }
    match fs.hard_link(path, &second) {
        Err(error) if error.kind() == ErrorKind::Unsupported => Ok(None),
        linked => linked.map(|()| Some(second)),
    }
}
