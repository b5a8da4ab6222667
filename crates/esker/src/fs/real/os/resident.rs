//! Copies bytes in the page cache from a mapping that stays in place, without a system call for the bytes.
//!
//! A `pread` copies page by page. On many processors a string copy becomes three times slower if the target's offset in
//! its page is a few bytes greater than the source's, as in all large blocks of an allocator. A copy by the program
//! itself avoids both. Measured for 1 MiB on a Zen 5: 19 GB/s by `pread` and 23 GB/s this way into page-aligned memory;
//! 9 and 22 GB/s into memory 16 bytes after a page's beginning.
//!
//! A device error under a mapping is a SIGBUS. Therefore the kernel is queried for whether the pages are in memory
//! right before they are copied. Pages that are not are read in the usual way, and then errors are values. The
//! remaining risk is a page that leaves the page cache within these microseconds and that the device cannot deliver
//! again.

use std::fs::{File, Metadata};
use std::mem::MaybeUninit;
use std::os::unix::fs::MetadataExt;
use std::ptr;
use std::sync::Arc;

use parking_lot::Mutex;
use rustix::mm::{MapFlags, ProtFlags};

use super::pages::Pages;

/// Below this length, the query costs more than it saves.
const LEAST: usize = 64 << 10;
/// From this length on, the C library bypasses the processor's cache with plain loads and stores, at any offsets.
const PAST_CACHE: usize = 1 << 20;
/// The most pages that one call queries.
const PAGES: usize = 1 << 11;
/// The mapping of a growing file is longer than the file by this many bytes.
const GROWTH: u64 = 64 << 20;

/// The mapping of a file, from the first read of this kind on.
#[derive(Debug, Default)]
pub(in crate::fs) struct Resident {
    /// Held to look up the mapping and to create it.
    state: Mutex<State>,
}

#[derive(Debug, Default)]
enum State {
    #[default]
    Untried,
    /// A mapping is not possible here.
    Refused,
    Mapped(Arc<Whole>),
}

/// A file from its first byte on, perhaps beyond its end.
#[derive(Debug)]
struct Whole(Pages);

impl Resident {
    /// Fills `buf` from `offset` on, if the file and the page cache have all of these bytes. The caller ensures that
    /// they are not changed or cut off meanwhile.
    pub(in crate::fs) fn copy<'a>(
        &self,
        file: &File,
        buf: &'a mut [MaybeUninit<u8>],
        offset: u64,
    ) -> Option<&'a mut [u8]> {
        if buf.len() < LEAST {
            return None;
        }
        // Query each time: after the file was cut short, the rest of its last page would still be there, as zeros.
        let now = file.metadata().ok()?;
        let end = offset.checked_add(buf.len() as u64).filter(|end| *end <= now.len())?;
        let whole = self.mapping(file, &now, end)?;
        whole.copy_out(usize::try_from(offset).ok()?, buf)
    }

    /// A mapping of the file, whose metadata is `now`, up to at least `end`.
    fn mapping(&self, file: &File, now: &Metadata, end: u64) -> Option<Arc<Whole>> {
        let mut state = self.state.lock();
        let len = match &*state {
            State::Refused => return None,
            State::Mapped(whole) if whole.0.len() as u64 >= end => return Some(Arc::clone(whole)),
            State::Untried => now.len(),
            // The mapping of a growing file includes room for bytes that will soon be appended.
            State::Mapped(_) => now.len().saturating_add(GROWTH),
        };
        let whole = Whole::new(file, now, len).map(Arc::new);
        *state = whole.as_ref().map_or(State::Refused, |whole| State::Mapped(Arc::clone(whole)));
        whole
    }
}

impl Whole {
    fn new(file: &File, now: &Metadata, len: u64) -> Option<Whole> {
        // For a process that does not own the file, the kernel reports all pages as present (mincore(2), since Linux
        // 5.2).
        if now.uid() != rustix::process::geteuid().as_raw() {
            return None;
        }
        let len = usize::try_from(len).ok()?;
        Pages::map(file, 0, len, ProtFlags::READ, MapFlags::SHARED).ok().map(Whole)
    }

    fn copy_out<'a>(&self, offset: usize, buf: &'a mut [MaybeUninit<u8>]) -> Option<&'a mut [u8]> {
        if offset.checked_add(buf.len())? > self.0.len() || !self.is_resident(offset, buf.len()) {
            return None;
        }
        let (source, target) = (self.0.base().wrapping_add(offset), buf.as_mut_ptr().cast::<u8>());
        let step = step_of(source, target, buf.len());
        for at in (0..buf.len()).step_by(step) {
            // SAFETY: the range is inside the mapping, which lives as long as `self`, and the file has its bytes
            // (the caller's duty); `buf` is exclusively ours, so it overlaps no file that is mapped.
            unsafe { ptr::copy_nonoverlapping(source.add(at), target.add(at), step.min(buf.len() - at)) };
        }
        // SAFETY: all of it was filled.
        Some(unsafe { crate::fs::filled(buf) })
    }

    /// Whether the page cache has all of a range inside the mapping.
    fn is_resident(&self, offset: usize, len: usize) -> bool {
        let page = rustix::param::page_size();
        let before = offset % page;
        let pages = (before + len).div_ceil(page);
        let mut there = [0u8; PAGES];
        if pages > PAGES {
            return false;
        }
        let start = self.0.base().wrapping_add(offset - before);
        // SAFETY: the range begins at a page and is mapped; the kernel stores one byte a page, for which there is room.
        let asked = unsafe { libc::mincore(start.cast(), before + len, there.as_mut_ptr().cast()) };
        asked == 0 && there[..pages].iter().all(|page| page & 1 == 1)
    }
}

/// How many bytes to copy at a time. The C library uses the processor's string copy for anything above some KiB. It is
/// fastest if both sides start at a page, and slowest if the target's offset in its page is just after the source's.
fn step_of(source: *const u8, target: *const u8, len: usize) -> usize {
    let behind = target.addr().wrapping_sub(source.addr()) % 4096;
    match (1..64).contains(&behind) {
        false => 4096,
        true if len < PAST_CACHE => 1024,
        true => len,
    }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "tests look at files as anybody may")]
mod tests {
    use super::*;
    use std::os::unix::fs::FileExt;

    const TMPFS_MAGIC: i64 = 0x0102_1994;

    fn filled(resident: &Resident, file: &File, offset: u64, buf: &mut [u8]) -> bool {
        let mut uninit = vec![MaybeUninit::new(0xEE); buf.len()];
        let copied = resident.copy(file, &mut uninit, offset);
        copied.is_some_and(|copied| {
            buf.copy_from_slice(copied);
            true
        })
    }

    #[test]
    fn what_the_page_cache_has_is_copied_and_nothing_else() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a");
        let bytes: Vec<u8> = (0..3 << 20).map(|i: u32| (i.wrapping_mul(0x9E37_79B9) >> 24) as u8).collect();
        std::fs::write(&path, &bytes).unwrap();
        let file = File::options().read(true).write(true).open(&path).unwrap();
        let resident = Resident::default();
        // Lengths around the limits, at every alignment within a page.
        for (offset, len) in
            [(0, LEAST), (1, LEAST + 1), (4095, LEAST), (8192, PAST_CACHE - 1), (17, PAST_CACHE + 5)]
        {
            for shift in [0, 1, 8, 16, 63, 64, 4095] {
                let mut buf = vec![0; shift + len];
                assert!(filled(&resident, &file, offset as u64, &mut buf[shift..]), "{offset} {len}");
                assert!(buf[shift..] == bytes[offset..][..len], "{offset} {len} {shift}");
            }
        }
        let mut buf = vec![0; bytes.len() + 1];
        assert!(!filled(&resident, &file, 0, &mut buf[..LEAST - 1]), "too short");
        assert!(!filled(&resident, &file, 1, &mut buf[..bytes.len()]), "behind the end");
        assert!(!filled(&resident, &file, u64::MAX, &mut buf[..LEAST]));

        // Bytes written after the end of the mapping are mapped later.
        file.write_all_at(&bytes[..LEAST], bytes.len() as u64).unwrap();
        assert!(filled(&resident, &file, bytes.len() as u64, &mut buf[..LEAST]));
        assert_eq!(buf[..LEAST], bytes[..LEAST]);

        file.sync_all().unwrap();
        // Mapped pages are not dropped, nor are any where files live in memory.
        drop(resident);
        let resident = Resident::default();
        rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).unwrap();
        let in_memory = rustix::fs::fstatfs(&file).unwrap().f_type == TMPFS_MAGIC;
        assert!(in_memory || !filled(&resident, &file, 1 << 20, &mut buf[..LEAST]), "it is not in memory");

        // Bytes that were cut off are not returned as zeros either.
        std::fs::read(&path).unwrap();
        assert!(filled(&resident, &file, 1 << 20, &mut buf[..LEAST]));
        file.set_len((1 << 20) + LEAST as u64 - 100).unwrap();
        assert!(!filled(&resident, &file, 1 << 20, &mut buf[..LEAST]));
    }
}
