//! The shared files that values are appended to. Lends each of them to one writer at a time, and seals them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::{BlobSet, Layout, LiveFile, SharedWriter};
use crate::env::JobKind;
use crate::error::{ErrorKind, Result};

/// A file that has only unreferenced values is ended when its length is one part in this many of the greatest length. A
/// few short-lived values therefore do not cost a file each.
const GARBAGE_PARTS: u64 = 16;

/// The most files that wait for their next value. The bound keeps seldom written groups from holding descriptors.
const IDLE_MAX: usize = 64;

/// The group of trees whose values a shared file takes; one owner stands for all trees without a group. The number is
/// local to this process; a file that is opened again takes no more values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BlobOwner(u64);

impl BlobOwner {
    /// The owner of the files of trees without a group.
    pub(crate) const NO_GROUP: BlobOwner = BlobOwner(0);

    /// The owner of a new group.
    pub(crate) fn new() -> BlobOwner {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        BlobOwner(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}

#[derive(Debug)]
pub(super) struct Appender {
    pub(super) writer: SharedWriter,
    pub(super) live: Arc<LiveFile>,
    owner: BlobOwner,
    /// The generation of [`Appenders`] when it was borrowed.
    generation: u64,
}

#[derive(Debug, Default)]
pub(super) struct Appenders {
    /// Files that no writer has borrowed; at most [`IDLE_MAX`]. The one that was returned last comes last.
    idle: Vec<Appender>,
    /// Files that are full, whose last append failed, or that were lent when all had to be sealed.
    to_seal: Vec<Appender>,
    /// How many times all files had to be sealed. A file that was borrowed in an earlier generation takes no further
    /// value after its return. Therefore a seal waits only for the appends in progress.
    generation: u64,
    /// How many files are lent: in this generation, and in earlier ones.
    lent: usize,
    lent_before: usize,
    sealing: usize,
}

impl Appenders {
    pub(super) fn close(&mut self) {
        self.idle.clear();
        self.to_seal.clear();
    }
}

impl BlobSet {
    pub(super) fn new_appender(&self, owner: BlobOwner) -> Result<Appender> {
        let header = self.new_header(Layout::Shared);
        let writer = SharedWriter::create(&*self.env.fs, &self.path_of(header.number), header)?;
        let live = LiveFile::begun(writer.blob(), writer.file());
        self.new_name.store(true, Ordering::Release);
        self.insert(Arc::clone(&live));
        Ok(Appender { writer, live, owner, generation: 0 })
    }

    /// Borrows a file for a value of `owner`.
    pub(super) fn borrow_appender(&self, owner: BlobOwner) -> Result<Appender> {
        let mut appenders = self.appenders.lock();
        let generation = appenders.generation;
        appenders.lent += 1;
        let place = appenders.idle.iter().rposition(|appender| appender.owner == owner);
        let idle = place.map(|place| appenders.idle.remove(place));
        drop(appenders);
        match idle.map_or_else(|| self.new_appender(owner), Ok) {
            Ok(appender) => Ok(Appender { generation, ..appender }),
            Err(error) => {
                self.no_longer_lent(generation, |_, _| {});
                Err(error)
            }
        }
    }

    /// Ends a loan of `generation`. `put` gets whether that generation is over.
    fn no_longer_lent(&self, generation: u64, put: impl FnOnce(&mut Appenders, bool)) {
        let mut appenders = self.appenders.lock();
        let is_over = generation != appenders.generation;
        *(if is_over { &mut appenders.lent_before } else { &mut appenders.lent }) -= 1;
        put(&mut appenders, is_over);
        drop(appenders);
        self.returned.notify_all();
    }

    /// Returns a borrowed file. It will be sealed if it takes no further value.
    pub(super) fn give_back(&self, appender: Appender, takes_more: bool) {
        let mut ended = !takes_more;
        self.no_longer_lent(appender.generation, |all, is_over| {
            ended |= is_over;
            if ended {
                all.to_seal.push(appender);
                return;
            }
            all.idle.push(appender);
            if all.idle.len() > IDLE_MAX {
                // This does not close the file that has waited longest: if groups write in turn, that one is needed
                // next.
                let lens = all.idle.iter().map(|appender| appender.writer.len()).enumerate();
                if let Some((longest, _)) = lens.max_by_key(|(_, len)| *len) {
                    let longest = all.idle.remove(longest);
                    all.to_seal.push(longest);
                }
                ended = true;
            }
        });
        if ended {
            self.executor.notify(JobKind::Blobs);
        }
    }

    /// Seals the shared files that take no further value. With `all`, seals every file that was appended to before this
    /// call: it waits for appends in progress, and for threads that seal other files.
    pub(crate) fn seal_files(&self, all: bool) -> Result<bool> {
        self.check()?;
        let mut appenders = self.appenders.lock();
        if all {
            appenders.generation += 1;
            appenders.lent_before += std::mem::take(&mut appenders.lent);
            let idle = std::mem::take(&mut appenders.idle);
            appenders.to_seal.extend(idle);
            while appenders.lent_before + appenders.sealing > 0 {
                self.returned.wait(&mut appenders);
            }
        }
        let ended = std::mem::take(&mut appenders.to_seal);
        appenders.sealing += ended.len();
        drop(appenders);
        let worked = !ended.is_empty();
        let mut result = Ok(());
        for mut appender in ended {
            if result.is_ok() {
                result = self.seal(&mut appender);
            }
            let mut appenders = self.appenders.lock();
            appenders.sealing -= 1;
            if appender.live.is_open() {
                appenders.to_seal.push(appender);
            }
        }
        self.returned.notify_all();
        result.map(|()| worked)
    }

    /// Ends the files that are not lent, have grown, and hold only unreferenced values. Such a file is removed as a
    /// whole, which costs less than half as much as punching holes.
    pub(super) fn end_unreferenced(&self) {
        let mut appenders = self.appenders.lock();
        appenders.idle.retain(|appender| {
            let mut values = appender.live.values.lock();
            let is_grown = appender.writer.len() >= self.shared_len_max / GARBAGE_PARTS;
            let is_garbage = is_grown && values.referenced_count() == 0;
            if is_garbage {
                values.end();
            }
            !is_garbage
        });
    }

    fn seal(&self, appender: &mut Appender) -> Result<()> {
        if let Err(error) = appender.writer.seal() {
            // If only the footer found no room, the seal is tried again later. The file can be read as it is.
            if error.kind() != ErrorKind::OutOfSpace || appender.writer.is_sealed() {
                self.fail(&error);
            }
            return Err(error);
        }
        // The kernel reports lost bytes only once, and may have reported them to another sync of this file.
        let _nobody_syncs = self.syncing.lock();
        self.check()?;
        appender.live.unsynced.store(false, Ordering::Release);
        appender.live.values.lock().seal();
        Ok(())
    }
}

#[cfg(test)]
mod tests;
