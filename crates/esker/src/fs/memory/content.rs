//! The bytes of a file in memory, by pages. Pages of zeros that were never written, or that a hole has freed, take none.

use crate::fs::BLOCK;

/// The greatest length of a file, in bytes: its pages are listed.
pub(super) const LEN_MAX: u64 = 1 << 40;

const PAGE: usize = BLOCK as usize;

/// See the module's comment.
#[derive(Debug, Default)]
pub(super) struct Content {
    len: u64,
    /// Those from the beginning on up to the last one that was written. `None`: zeros.
    pages: Vec<Option<Box<[u8; PAGE]>>>,
    /// How many pages take memory.
    filled: u64,
    /// Bytes that count as allocated though they take no memory.
    promised: u64,
}

impl Content {
    pub(super) fn len(&self) -> u64 {
        self.len
    }

    /// Bytes that the file takes, as a disk would count them.
    pub(super) fn allocated(&self) -> u64 {
        (self.filled * BLOCK).max(self.promised.next_multiple_of(BLOCK))
    }

    /// Fills `buf` from `offset` on; `false` if the file ends before.
    pub(super) fn read(&self, offset: u64, buf: &mut [u8]) -> bool {
        if offset.checked_add(buf.len() as u64).is_none_or(|end| end > self.len) {
            return false;
        }
        let mut at = offset as usize;
        let mut rest = buf;
        while !rest.is_empty() {
            let (page, within) = (at / PAGE, at % PAGE);
            let count = rest.len().min(PAGE - within);
            let (now, later) = rest.split_at_mut(count);
            match self.pages.get(page).and_then(Option::as_ref) {
                Some(bytes) => now.copy_from_slice(&bytes[within..within + count]),
                None => now.fill(0),
            }
            rest = later;
            at += count;
        }
        true
    }

    /// Writes `bytes` at `offset`, and extends the file if needed. The end is at most [`LEN_MAX`].
    pub(super) fn write(&mut self, offset: u64, bytes: &[u8]) {
        let mut at = offset as usize;
        let mut rest = bytes;
        while !rest.is_empty() {
            let (page, within) = (at / PAGE, at % PAGE);
            let count = rest.len().min(PAGE - within);
            let (now, later) = rest.split_at(count);
            self.page(page)[within..within + count].copy_from_slice(now);
            rest = later;
            at += count;
        }
        if !bytes.is_empty() {
            self.len = self.len.max(at as u64);
        }
    }

    /// A page that takes memory from now on.
    fn page(&mut self, page: usize) -> &mut [u8; PAGE] {
        if self.pages.len() <= page {
            self.pages.resize_with(page + 1, || None);
        }
        let slot = &mut self.pages[page];
        self.filled += u64::from(slot.is_none());
        slot.get_or_insert_with(|| Box::new([0; PAGE]))
    }

    /// Makes the file `len` bytes long, at most [`LEN_MAX`]. What is cut off reads as zeros if the file grows again.
    pub(super) fn set_len(&mut self, len: u64) {
        if len < self.len {
            let (page, within) = ((len / BLOCK) as usize, (len % BLOCK) as usize);
            if let Some(Some(last)) = self.pages.get_mut(page) {
                last[within..].fill(0);
            }
            let kept = len.div_ceil(BLOCK) as usize;
            let gone = self.pages.drain(kept.min(self.pages.len())..);
            self.filled -= gone.flatten().count() as u64;
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
        let first = usize::try_from(offset / BLOCK).unwrap_or(usize::MAX).min(self.pages.len());
        let end = usize::try_from((offset + len) / BLOCK).unwrap_or(usize::MAX).min(self.pages.len());
        for page in &mut self.pages[first..end.max(first)] {
            self.filled -= u64::from(page.take().is_some());
        }
    }
}
