//! Removes files that nobody needs any more.

use super::{SPARE_SEGMENTS, SPARE_WHEN_FULL, Store};
use crate::error::Result;
use crate::version::edit::{Edit, FileId};
use crate::version::tables::table_path;

impl Store {
    /// Removes the log segments that nobody needs, but `spare`.
    pub(super) fn remove_surplus(&self, spare: usize) -> Result<()> {
        let _inside = self.blobs.gate.enter()?;
        self.wal.remove_surplus(spare)
    }

    /// Removes files that nobody uses any more, except a few log segments, and restores the reserve. When this returns,
    /// their space is free, even if another thread is removing them too.
    pub(crate) fn remove_obsolete(&self) -> Result<()> {
        // The next opening removes what is left when the store is closed: the directory belongs to it then.
        let Ok(_inside) = self.blobs.gate.enter() else { return Ok(()) };
        let spare = if self.health.has_failed() {
            self.wal.forget_history();
            SPARE_WHEN_FULL
        } else {
            SPARE_SEGMENTS
        };
        let removing = self.removing.lock();
        self.registry.remove_obsolete()?;
        drop(removing);
        self.remove_surplus(spare)?;
        if self.health.is_closing() { Ok(()) } else { self.space.reserve().restore() }
    }

    /// Tells the buffer pool how much of the memory budget others take.
    pub(super) fn update_memory(&self) {
        self.pool.set_reserved(self.registry.memory());
    }

    /// Removes the tables that `edits` would have added, after the edits have failed. If it is unknown whether they
    /// have, the tables stay, and the next opening decides.
    pub(super) fn discard_tables(&self, edits: &[Edit]) {
        // If the store is closed, the names may belong to another opening by now.
        let Ok(_inside) = self.blobs.gate.enter() else { return };
        if self.commit.check().is_err() {
            return;
        }
        let versions = self.versions.lock();
        for edit in edits {
            if let Edit::AddTable { table, .. } = edit
                && !versions.has_table(table.file)
            {
                self.discard_file(table.file);
            }
        }
    }

    /// Removes a table that no edit names.
    pub(super) fn discard_file(&self, file: FileId) {
        drop(self.env.fs.remove_file(&table_path(&self.dir, file)));
        self.pool.remove_table(file);
    }
}
