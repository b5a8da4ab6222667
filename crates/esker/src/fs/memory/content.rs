//! The bytes of a file in memory, by pages. Pages of zeros that were never written, or that a hole has freed, take no
//! memory.

use std::collections::BTreeMap;

use crate::fs::BLOCK;

/// The greatest length of a file, in bytes.
pub(super) const LEN_MAX: u64 = 1 << 40;

const PAGE: usize = BLOCK as usize;

/// See the module's comment.
#[derive(Debug, Default)]
pub(super) struct Content {
    len: u64,
    /// By number. The others are zeros.
    pages: BTreeMap<u64, Box<[u8; PAGE]>>,
    /// Bytes that count as allocated though they take no memory.
    promised: u64,
}

impl Content {
    pub(super) fn len(&self) -> u64 {
        self.len
    }

    /// Bytes that the file takes, as a disk would count them.
    pub(super) fn allocated(&self) -> u64 {
        (self.pages.len() as u64 * BLOCK).max(self.promised.next_multiple_of(BLOCK))
    }

    /// Fills `buf` from `offset` on; `false` if the file ends before.
    pub(super) fn read(&self, offset: u64, buf: &mut [u8]) -> bool {
        if offset.checked_add(buf.len() as u64).is_none_or(|end| end > self.len) {
            return false;
        }
        let mut at = offset;
        let mut rest = buf;
        while !rest.is_empty() {
            let (page, within) = place(at);
            let (now, later) = rest.split_at_mut((PAGE - within).min(rest.len()));
            match self.pages.get(&page) {
                Some(bytes) => now.copy_from_slice(&bytes[within..within + now.len()]),
                None => now.fill(0),
            }
            at += now.len() as u64;
            rest = later;
        }
        true
    }

    /// Writes `bytes` at `offset`, and extends the file if needed. The end is at most [`LEN_MAX`].
    pub(super) fn write(&mut self, offset: u64, bytes: &[u8]) {
        let mut at = offset;
        let mut rest = bytes;
        while !rest.is_empty() {
            let (page, within) = place(at);
            let (now, later) = rest.split_at((PAGE - within).min(rest.len()));
            let filled = self.pages.entry(page).or_insert_with(|| Box::new([0; PAGE]));
            filled[within..within + now.len()].copy_from_slice(now);
            at += now.len() as u64;
            rest = later;
        }
        if !bytes.is_empty() {
            self.len = self.len.max(at);
        }
    }

    /// Makes the file `len` bytes long, at most [`LEN_MAX`]. A part that is cut off reads as zeros if the file grows
    /// again.
    pub(super) fn set_len(&mut self, len: u64) {
        if len < self.len {
            let (page, within) = place(len);
            if let Some(last) = self.pages.get_mut(&page) {
                last[within..].fill(0);
            }
            drop(self.pages.split_off(&len.div_ceil(BLOCK)));
            self.promised = self.promised.min(len);
        }
        self.len = len;
    }

    /// [`Content::set_len`], with all of the file counted as allocated.
    pub(super) fn allocate(&mut self, len: u64) {
        self.set_len(len);
        self.promised = len;
    }

    /// Frees whole pages, which then read as zeros. The length stays.
    pub(super) fn punch(&mut self, offset: u64, len: u64) {
        let mut freed = self.pages.split_off(&(offset / BLOCK));
        let mut behind = freed.split_off(&((offset + len) / BLOCK));
        self.pages.append(&mut behind);
        // From here on only the pages count.
        self.promised = 0;
    }
}

/// The number of the page that has the byte at `offset`, and the byte's place in it.
fn place(offset: u64) -> (u64, usize) {
    (offset / BLOCK, (offset % BLOCK) as usize)
}
