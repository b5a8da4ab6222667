//! Removes unused files.

use super::{Disk, SPARE_SEGMENTS, SPARE_WHEN_FULL};
use crate::error::Result;
use crate::version::edit::FileId;
use crate::version::tables::table_path;

impl Disk {
    /// Removes unused log segments, except `spare` of them.
    pub(in crate::store) fn remove_surplus(&self, spare: usize) -> Result<()> {
        let _inside = self.core.blobs.gate.enter()?;
        self.log.wal().remove_surplus(spare)
    }

    /// Removes unused files, except a few log segments, and restores the reserve. When this returns,
    /// their space is free, even if another thread is removing them too.
    pub(crate) fn remove_obsolete(&self) -> Result<()> {
        // If the store is closed, the next opening removes the rest: the directory belongs to it then.
        let Ok(_inside) = self.core.blobs.gate.enter() else { return Ok(()) };
        let spare = if self.core.health.has_failed() {
            self.log.wal().forget_history();
            SPARE_WHEN_FULL
        } else {
            SPARE_SEGMENTS
        };
        let removing = self.removing.lock();
        self.core.registry.remove_obsolete()?;
        drop(removing);
        self.remove_surplus(spare)?;
        if self.core.health.is_closing() { Ok(()) } else { self.space.reserve().restore_if_unused() }
    }

    /// Removes a table that no edit names.
    pub(in crate::store) fn discard_file(&self, file: FileId) {
        drop(self.core.env().fs.remove_file(&table_path(&self.core.dir, file)));
        self.core.pool.remove_table(file);
    }
}
