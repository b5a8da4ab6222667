//! Removes files that nobody needs any more.

use super::{Disk, SPARE_SEGMENTS, SPARE_WHEN_FULL};
use crate::error::Result;
use crate::version::edit::FileId;
use crate::version::tables::table_path;

impl Disk {
    /// Removes the log segments that nobody needs, but `spare`.
    pub(in crate::store) fn remove_surplus(&self, spare: usize) -> Result<()> {
        let _inside = self.core.blobs.gate.enter()?;
        self.log.wal().remove_surplus(spare)
    }

    /// Removes files that nobody uses any more, except a few log segments, and restores the reserve. When this returns,
    /// their space is free, even if another thread is removing them too.
    pub(crate) fn remove_obsolete(&self) -> Result<()> {
        // The next opening removes what is left when the store is closed: the directory belongs to it then.
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
