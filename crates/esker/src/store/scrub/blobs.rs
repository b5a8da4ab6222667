//! The part of a pass that reads huge values.

use std::collections::{HashSet, VecDeque};

use super::{Scrub, is_damage};
use crate::blob::gc::Stage;
use crate::blob::{BlobFile, BlobFileId, Entry, LiveFile, Unverified, blob_path};
use crate::error::{Error, ErrorKind, Result};
use crate::finding::CheckReport;

/// A file, and those of its values that were not read yet.
#[derive(Debug)]
pub(super) struct FileOfValues {
    id: BlobFileId,
    file: BlobFile,
    left: VecDeque<Entry>,
    value: Option<(Entry, Unverified)>,
}

impl FileOfValues {
    /// Reads which values the file has. `None` if that is damaged, or if no value in it is needed.
    pub(super) fn open(scrub: &Scrub, id: BlobFileId, report: &mut CheckReport) -> Option<FileOfValues> {
        let live = scrub.core.blobs.get(id)?;
        // Values that are being appended now are left out.
        let (sealed, written, wanted) = {
            let values = live.values.lock();
            (values.is_sealed(), values.entries(), values.settled().collect::<Vec<u64>>())
        };
        if wanted.is_empty() {
            return None;
        }
        report.files += 1;
        let read = read(scrub, id, sealed, &live, report);
        // Values that were freed meanwhile may be gone, and so may the file.
        let values = live.values.lock();
        let wanted: Vec<u64> =
            wanted.into_iter().filter(|&ordinal| values.stage(ordinal) == Stage::Referenced).collect();
        drop(values);
        match read {
            Ok((file, entries)) => {
                let there: HashSet<u64> = entries.iter().map(|entry| entry.ordinal).collect();
                let missing = wanted.iter().filter(|ordinal| !there.contains(ordinal)).count();
                if missing > 0 {
                    let message = format!("{missing} of {} values of a blob file are missing", wanted.len());
                    report.found(
                        &Error::corruption(&blob_path(&scrub.core.dir, id), 0, message),
                        &scrub.core.dir,
                    );
                }
                let left = entries.into_iter().filter(|entry| entry.ordinal < written).collect();
                Some(FileOfValues { id, file, left, value: None })
            }
            Err(error) => {
                if !wanted.is_empty() && is_damage(&error) {
                    report.found(&error, &scrub.core.dir);
                }
                None
            }
        }
    }

    /// Reads about `bytes` more bytes. `false` at the end.
    pub(super) fn advance(&mut self, scrub: &Scrub, bytes: u64, report: &mut CheckReport) -> bool {
        let Some(entry) = self.value.as_ref().map(|(entry, _)| *entry).or_else(|| self.left.pop_front())
        else {
            return false;
        };
        let pointer = entry.pointer(self.id);
        // While it is pinned, its bytes stay. A freed value need not be sound.
        let pin = scrub.core.blobs.get(self.id).and_then(|_| scrub.core.blobs.pin(&pointer));
        let Some(_pin) = pin else {
            self.value = None;
            return true;
        };
        let begun = match self.value.take() {
            Some((_, begun)) => Ok(begun),
            None => self.file.begin_verifying(&pointer),
        };
        let read = begun.and_then(|mut left| Ok((self.file.verify_more(&mut left, bytes)?, left)));
        match read {
            Ok((0, _)) => report.blobs += 1,
            Ok((read, left)) => {
                report.bytes += read;
                self.value = Some((entry, left));
            }
            Err(error) if is_damage(&error) => report.found(&error, &scrub.core.dir),
            Err(_) => {}
        }
        true
    }
}

/// Opens the file again, and reads which values it has.
fn read(
    scrub: &Scrub,
    id: BlobFileId,
    sealed: bool,
    live: &LiveFile,
    report: &mut CheckReport,
) -> Result<(BlobFile, Vec<Entry>)> {
    let path = blob_path(&scrub.core.dir, id);
    let source = scrub.core.env().fs.open_read(&path).map_err(|error| match error.kind() {
        ErrorKind::NotFound => Error::corruption(&path, 0, "a blob file is missing"),
        _ => error,
    })?;
    let (file, entries) = if sealed {
        let (file, entries, damage) = BlobFile::open_damaged(&source, live.name())?;
        damage.iter().for_each(|damage| report.found(damage, &scrub.core.dir));
        (file, entries)
    } else {
        let (file, scan) = BlobFile::scan(source, live.name())?;
        (file, scan.entries)
    };
    if file.header().salt != live.salt {
        let message = "the blob file is not the one that the manifest describes";
        return Err(Error::corruption(&path, 0, message));
    }
    Ok((file, entries))
}
