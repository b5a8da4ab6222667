//! Writes a value into the store: appends it to a shared file, or gives it its own file.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::{BlobOwner, BlobSet, BlobStream, Layout, NewBlob, SingleWriter, key_hash};
use crate::error::Result;

/// A value of at least this many bytes gets its own file: its deletion is an unlink, and it is never rewritten.
/// Puts compared with plain files, in turn (`esker-bench huge-writes`; own file, shared file): 4 MiB 0.91 and 1.4 times
/// as fast, 8 MiB 0.88 and 1.16, 19.7 MB 0.89 and 0.92. By the mean time, which includes the sealing of shared files,
/// puts of 8 MiB are equally fast.
const SINGLE_AT: usize = 8 << 20;

impl BlobSet {
    /// Writes `value` for `key` of `tree`, to a shared file of `owner` or to its own file. It counts once the log names
    /// it.
    pub(crate) fn put(
        self: &Arc<Self>,
        owner: BlobOwner,
        tree: u32,
        key: &[u8],
        value: &[u8],
    ) -> Result<NewBlob> {
        let _inside = self.gate.enter()?;
        if value.len() >= SINGLE_AT {
            let mut stream = self.stream()?;
            stream.write(value)?;
            return stream.finish(tree, key);
        }
        let mut appender = self.borrow_appender(owner)?;
        let live = Arc::clone(&appender.live);
        let now = self.env.clock.wall_us();
        match appender.writer.append(tree, key, value, now) {
            Ok(entry) => {
                live.values.lock().add(entry.ordinal);
                self.note_dirty(&live);
                self.filter.add(key_hash(tree, key));
                let takes_more =
                    appender.writer.len() < self.shared_len_max && entry.ordinal + 1 < self.shared_count_max;
                self.give_back(appender, takes_more);
                Ok(NewBlob::new(self, live, &entry))
            }
            Err(error) => {
                self.give_back(appender, false);
                Err(error)
            }
        }
    }

    pub(crate) fn stream(self: &Arc<Self>) -> Result<BlobStream> {
        let _inside = self.gate.enter()?;
        let header = self.new_header(Layout::Single);
        let path = self.path_of(header.number);
        let writer = SingleWriter::create(&self.env.fs, &path, header, self.sync_follows)?;
        self.new_name.store(true, Ordering::Release);
        Ok(BlobStream { set: Arc::clone(self), writer: Some(writer) })
    }
}
