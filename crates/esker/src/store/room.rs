//! What room the disk has, and what a put is told where that is not enough.

use super::Store;
use crate::error::{Error, ErrorKind};

/// Bytes, as a message shows them.
fn shown(bytes: u64) -> String {
    if bytes < 10 << 20 { format!("{} KiB", bytes >> 10) } else { format!("{} MiB", bytes >> 20) }
}

impl Store {
    /// Bytes that must be free for puts to be taken: the low-space mark, and what the reserve lacks.
    fn needed_space(&self) -> u64 {
        self.options.low_space().saturating_add(self.reserve.missing())
    }

    /// Whether the disk has room for puts.
    pub(super) fn has_space(&self) -> bool {
        self.env.fs.free_space(&self.dir).is_ok_and(|free| free >= self.needed_space())
    }

    /// What a put is told on a full disk.
    pub(super) fn full_error(&self) -> Error {
        let free =
            self.env.fs.free_space(&self.dir).map_or_else(|_| "an unknown number of bytes".to_owned(), shown);
        let message = format!(
            "the disk is full: {free} free, puts are refused below {}, and RESERVE holds {} more; reads and deletes go on",
            shown(self.needed_space()),
            shown(self.reserve.held())
        );
        Error::new(ErrorKind::OutOfSpace, message).at(&self.dir)
    }
}
