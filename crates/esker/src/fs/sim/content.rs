//! The bytes of one file: as a program sees them, and as they are on the disk.
//!
//! ```text
//! pages     | 4096 | 4096 | zeros | 4096 |     what reads return; shared between copies of a disk
//! unsynced          |  1: durable page + which of its 8 sectors differ in age
//! ```
//!
//! A page's durable version is kept when the page is first written after a sync, by counting a reference. Only the
//! written page is copied. Therefore a crash of a large, mostly idle file costs little.
//!
//! Invariants: bytes after `len` in the last page are zero; a sector that is neither dirty nor lost is the same in
//! `pages` and in the durable page.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::rng::Rng;

const PAGE: usize = 4096;
const SECTOR: usize = 512;

/// `None` is a page of zeros that takes no space: a hole.
type Page = Option<Arc<[u8; PAGE]>>;

#[derive(Clone, Debug, Default)]
pub(super) struct Content {
    pages: Vec<Page>,
    len: u64,
    durable_len: u64,
    /// The least and the greatest length of the file since the last sync.
    least_len: u64,
    most_len: u64,
    unsynced: BTreeMap<u64, Unsynced>,
    /// The pages that the device cannot read until they are written.
    unreadable: BTreeSet<u64>,
    /// The pages that the operating system's cache has.
    resident: BTreeSet<u64>,
}

/// A page with sectors that a power loss may revert.
#[derive(Clone, Debug)]
struct Unsynced {
    durable: Page,
    /// One bit per sector: the next sync writes it.
    dirty: u8,
    /// One bit per sector: a sync of it failed, and no later sync will write it. The kernel marks pages clean after a
    /// failed writeback. Therefore a second fsync succeeds without them.
    lost: u8,
}

impl Content {
    /// A file whose content is durable.
    pub(super) fn synced(bytes: &[u8]) -> Self {
        let mut content = Content::default();
        content.write(0, bytes);
        content.sync();
        content
    }

    pub(super) fn len(&self) -> u64 {
        self.len
    }

    /// Sets the length of an empty file. The bytes read as zeros and take space.
    pub(super) fn allocate(&mut self, len: u64) {
        self.set_len(len);
        self.pages.fill(Some(Arc::new([0; PAGE])));
    }

    /// Bytes of the disk that the file takes.
    pub(super) fn allocated(&self) -> u64 {
        self.pages.iter().flatten().count() as u64 * PAGE as u64
    }

    /// Additional bytes of the disk that a write of `len` bytes at `offset` would take.
    pub(super) fn cost(&self, offset: u64, len: u64) -> u64 {
        if len == 0 {
            return 0;
        }
        let pages = offset / PAGE as u64..offset.saturating_add(len).div_ceil(PAGE as u64);
        pages.filter(|&page| page_at(&self.pages, page).is_none()).count() as u64 * PAGE as u64
    }

    /// Fills `buf` from `offset`; `false` if the file ends before.
    pub(super) fn read(&self, offset: u64, buf: &mut [u8]) -> bool {
        if offset.checked_add(buf.len() as u64).is_none_or(|end| end > self.len) {
            return false;
        }
        for (page, within, part) in parts(offset, buf.len()) {
            let target = &mut buf[part];
            match &self.pages[page] {
                Some(bytes) => target.copy_from_slice(&bytes[within..within + target.len()]),
                None => target.fill(0),
            }
        }
        true
    }

    /// Writes `bytes` at `offset`, growing the file where needed.
    pub(super) fn write(&mut self, offset: u64, bytes: &[u8]) {
        let end = offset + bytes.len() as u64;
        if end > self.len && !bytes.is_empty() {
            self.resize(end);
            self.most_len = self.most_len.max(end);
        }
        for (page, within, part) in parts(offset, bytes.len()) {
            let source = &bytes[part];
            self.touch(page, sector_mask(within, source.len()));
            bytes_of(&mut self.pages[page])[within..within + source.len()].copy_from_slice(source);
        }
    }

    /// Frees pages: they read as zeros, and a crash before the next sync leaves old bytes or zeros.
    pub(super) fn punch(&mut self, offset: u64, len: u64) {
        let end = ((offset + len) / PAGE as u64).min(self.pages.len() as u64);
        for page in offset / PAGE as u64..end {
            self.touch(page as usize, 0xFF);
            self.pages[page as usize] = None;
        }
    }

    /// Saves the durable version of some sectors of a page before they change.
    fn touch(&mut self, page: usize, sectors: u8) {
        let current = &self.pages[page];
        let unsynced = self.unsynced.entry(page as u64).or_insert_with(|| Unsynced {
            durable: current.clone(),
            dirty: 0,
            lost: 0,
        });
        unsynced.dirty |= sectors;
        unsynced.lost &= !sectors;
        self.unreadable.remove(&(page as u64));
    }

    /// Makes the pages of some bytes unreadable. Their content stays.
    pub(super) fn make_unreadable(&mut self, offset: u64, len: u64) {
        let end = offset.saturating_add(len).min(self.len).div_ceil(PAGE as u64);
        self.unreadable.extend(offset / PAGE as u64..end);
    }

    /// Whether the device can read these bytes.
    pub(super) fn is_readable(&self, offset: u64, len: usize) -> bool {
        let pages = pages_of(offset, len as u64);
        len == 0 || self.unreadable.range(pages).next().is_none()
    }

    /// Whether the cache has all of these bytes.
    pub(super) fn is_resident(&self, offset: u64, len: usize) -> bool {
        pages_of(offset, len as u64).all(|page| self.resident.contains(&page))
    }

    /// Makes the cache keep the pages of these bytes, which are in the file.
    pub(super) fn keep_resident(&mut self, offset: u64, len: usize) {
        let end = self.len.div_ceil(PAGE as u64);
        self.resident.extend(pages_of(offset, len as u64).take_while(|page| *page < end));
    }

    /// Drops the pages of these bytes from the cache.
    pub(super) fn evict(&mut self, offset: u64, len: u64) {
        let pages = pages_of(offset, len);
        self.resident.retain(|page| !pages.contains(page));
    }

    /// Cuts the file, or extends it by a hole. Bytes that are cut off stay on the disk until a sync.
    pub(super) fn set_len(&mut self, len: u64) {
        if len < self.len {
            let (page, within) = ((len / PAGE as u64) as usize, (len % PAGE as u64) as usize);
            for cut in page..self.pages.len() {
                self.touch(cut, if cut == page { sector_mask(within, PAGE - within) } else { 0xFF });
            }
        }
        self.resize(len);
        (self.least_len, self.most_len) = (self.least_len.min(len), self.most_len.max(len));
    }

    /// Makes everything durable except the data that an earlier failed sync lost.
    pub(super) fn sync(&mut self) {
        let pages = &self.pages;
        self.unsynced.retain(|&page, unsynced| {
            if unsynced.lost == 0 || page >= pages.len() as u64 {
                return false;
            }
            let sectors = std::mem::take(&mut unsynced.dirty);
            copy_sectors(&mut unsynced.durable, page_at(pages, page), sectors);
            true
        });
        self.settle_len();
    }

    /// Makes a sync fail: dirty data stays visible, and will never be written.
    pub(super) fn lose_dirty(&mut self) {
        for unsynced in self.unsynced.values_mut() {
            unsynced.lost |= std::mem::take(&mut unsynced.dirty);
        }
    }

    /// Lets the kernel write back some sectors of one page on its own.
    pub(super) fn write_back_some(&mut self, rng: &mut Rng) {
        let from = rng.below(self.pages.len() as u64);
        let Some((&page, unsynced)) = self.unsynced.range_mut(from..).next() else { return };
        let sectors = unsynced.dirty & rng.next() as u8;
        copy_sectors(&mut unsynced.durable, page_at(&self.pages, page), sectors);
        unsynced.dirty &= !sectors;
        if unsynced.dirty | unsynced.lost == 0 {
            self.unsynced.remove(&page);
        }
    }

    /// Whether a power loss now could revert nothing.
    pub(super) fn is_synced(&self) -> bool {
        self.unsynced.is_empty() && self.least_len == self.most_len
    }

    /// The content after a power loss, if each unsynced sector reached the disk with probability `kept`.
    pub(super) fn after_crash(&self, kept: f64, rng: &mut Rng) -> Content {
        let (pages, unreadable) = (self.pages.clone(), self.unreadable.clone());
        let mut found = Content { pages, len: self.len, unreadable, ..Content::default() };
        found.resize(self.most_len);
        for (&page, unsynced) in &self.unsynced {
            let mut sectors = 0;
            for bit in 0..8 {
                let survives = unsynced.dirty & 1 << bit != 0 && rng.chance(kept);
                sectors |= u8::from(survives) << bit;
            }
            let old = !sectors & (unsynced.dirty | unsynced.lost);
            copy_sectors(&mut found.pages[page as usize], &unsynced.durable, old);
        }
        found.resize(self.len_after_crash(kept, rng));
        found.settle_len();
        found
    }

    fn len_after_crash(&self, kept: f64, rng: &mut Rng) -> u64 {
        let (old, new) = (self.durable_len, self.len);
        // At the extremes nothing or everything is kept. A test can request either.
        if kept <= 0.0 || self.least_len == self.most_len {
            return old;
        }
        if kept >= 1.0 {
            return new;
        }
        match rng.below(3) {
            0 => old,
            1 => new,
            _ => {
                let (least, most) = (self.least_len, self.most_len);
                let sectors = (most - least).div_ceil(SECTOR as u64);
                ((least / SECTOR as u64 + rng.below(sectors + 1)) * SECTOR as u64).clamp(least, most)
            }
        }
    }

    /// Changes bytes at rest: on the disk as well as in memory.
    pub(super) fn damage(&mut self, offset: u64, xor: u8) -> bool {
        if offset >= self.len {
            return false;
        }
        let (page, within) = ((offset / PAGE as u64) as usize, (offset % PAGE as u64) as usize);
        bytes_of(&mut self.pages[page])[within] ^= xor;
        if let Some(unsynced) = self.unsynced.get_mut(&(page as u64)) {
            bytes_of(&mut unsynced.durable)[within] ^= xor;
        }
        true
    }

    /// Replaces some or all of its blocks by bytes that another file wrote into them.
    pub(super) fn lose_blocks(&mut self, rng: &mut Rng) {
        let lost = [0.1, 0.5, 1.0][rng.below(3) as usize];
        for page in self.pages.iter_mut().flatten() {
            if rng.chance(lost) {
                let mut bytes = [0; PAGE];
                // The other file has written nothing yet (zeros), or has.
                if rng.chance(0.5) {
                    bytes
                        .chunks_exact_mut(8)
                        .for_each(|word| word.copy_from_slice(&rng.next().to_le_bytes()));
                }
                *page = Arc::new(bytes);
            }
        }
        self.unsynced.clear();
        self.resize(self.len);
    }

    /// Cuts the file (or extends it with zeros) at rest.
    pub(super) fn truncate(&mut self, len: u64) {
        self.resize(len);
        self.unsynced.split_off(&(self.pages.len() as u64));
        for (&page, unsynced) in &mut self.unsynced {
            zero_behind(&mut unsynced.durable, page, len);
        }
        self.settle_len();
    }

    /// Cuts or extends the file at rest. All of it takes space, with any content.
    pub(super) fn set_allocated(&mut self, len: u64) {
        self.truncate(len);
        for page in self.pages.iter_mut().filter(|page| page.is_none()) {
            *page = Some(Arc::new([0; PAGE]));
        }
    }

    fn settle_len(&mut self) {
        (self.durable_len, self.least_len, self.most_len) = (self.len, self.len, self.len);
    }

    fn resize(&mut self, len: u64) {
        self.len = len;
        self.pages.resize(len.div_ceil(PAGE as u64) as usize, None);
        let last = (self.pages.len() as u64).saturating_sub(1);
        if let Some(page) = self.pages.last_mut() {
            zero_behind(page, last, len);
        }
    }
}

/// The numbers of the pages that hold `len` bytes from `offset` on.
fn pages_of(offset: u64, len: u64) -> std::ops::Range<u64> {
    offset / PAGE as u64..offset.saturating_add(len).div_ceil(PAGE as u64)
}

/// The page at `index`; after the end of a file, a hole.
fn page_at(pages: &[Page], index: u64) -> &Page {
    pages.get(index as usize).unwrap_or(&None)
}

/// Cuts a range of a file at page ends: (page, first byte in it, the part of the caller's buffer).
fn parts(offset: u64, len: usize) -> impl Iterator<Item = (usize, usize, std::ops::Range<usize>)> {
    let mut done = 0;
    std::iter::from_fn(move || {
        let at = offset + done as u64;
        let (page, within) = ((at / PAGE as u64) as usize, (at % PAGE as u64) as usize);
        let n = (PAGE - within).min(len - done);
        let part = done..done + n;
        done += n;
        (n > 0).then_some((page, within, part))
    })
}

/// The sectors of a page that `len` bytes (at least 1) from `within` on touch.
fn sector_mask(within: usize, len: usize) -> u8 {
    let (first, last) = (within / SECTOR, (within + len - 1) / SECTOR);
    (0xFF << first) & (0xFF >> (7 - last))
}

fn bytes_of(page: &mut Page) -> &mut [u8; PAGE] {
    Arc::make_mut(page.get_or_insert_with(|| Arc::new([0; PAGE])))
}

fn copy_sectors(to: &mut Page, from: &Page, sectors: u8) {
    if sectors == 0xFF {
        to.clone_from(from);
        return;
    }
    for sector in (0..8).filter(|bit| sectors & 1 << bit != 0) {
        let range = sector * SECTOR..(sector + 1) * SECTOR;
        match from {
            Some(bytes) => bytes_of(to)[range.clone()].copy_from_slice(&bytes[range]),
            None => bytes_of(to)[range].fill(0),
        }
    }
}

/// Zeroes the bytes at or after file offset `len` in `page`, whose number is `index`.
fn zero_behind(page: &mut Page, index: u64, len: u64) {
    let within = len.saturating_sub(index * PAGE as u64);
    if within < PAGE as u64 && page.is_some() {
        bytes_of(page)[within as usize..].fill(0);
    }
}
