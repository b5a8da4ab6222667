//! The calls that only Linux has.

use std::fs::{self, File};
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::num::NonZeroU64;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;

use rustix::fs::{Advice, AtFlags, FallocateFlags, OFlags, StatxFlags};
use rustix::io::{Errno, ReadWriteFlags, retry_on_intr};

use super::{Access, Directory, Place};
use crate::checksum::checksum;
use crate::fs::BLOCK;

/// How many parts the kernel takes in one call (`IOV_MAX`).
const PARTS_MAX: usize = 1024;

/// The magic number that ext2, ext3 and ext4 share.
const EXT_MAGIC: u32 = 0xEF53;

/// The kernel drops whole folios only: no folio of a file is larger on common file systems.
const EVICTED: u64 = 4 << 20;

const TMPFS_MAGIC: u32 = 0x0102_1994;

/// The magic numbers of file systems in which files share blocks until one of them changes: XFS, btrfs.
const SHARING: [u32; 2] = [0x5846_5342, 0x9123_683E];

/// Writes parts from `offset` on; returns how many bytes it wrote, which may be fewer than given.
pub(in crate::fs) fn write_parts_at(file: &File, parts: &[IoSlice<'_>], offset: u64) -> io::Result<usize> {
    Ok(rustix::io::pwritev(file, &parts[..parts.len().min(PARTS_MAX)], offset)?)
}

pub(in crate::fs) fn prefetch(file: &File, offset: u64, len: u64) {
    if let Some(len) = NonZeroU64::new(len) {
        let _hint = rustix::fs::fadvise(file, offset, Some(len), Advice::WillNeed);
    }
}

/// Requests the kernel to drop the pages that hold `len` bytes from `offset` from its cache. It keeps a page that is
/// dirty or mapped, and one of which the range covers only a part. Therefore the range is widened.
pub(in crate::fs) fn evict(file: &File, offset: u64, len: u64) {
    let begin = offset / EVICTED * EVICTED;
    if let Some(len) = NonZeroU64::new(offset.saturating_add(len).div_ceil(EVICTED) * EVICTED - begin) {
        let _hint = rustix::fs::fadvise(file, begin, Some(len), Advice::DontNeed);
    }
}

/// Opens a file past the page cache. Also returns the unit in bytes: offsets and lengths of reads and writes must be
/// multiples of it, in memory aligned to a page. `None` if the kernel or the file system refuses.
pub(in crate::fs) fn open_direct(place: &Place<'_>, access: Access) -> io::Result<Option<(File, u64)>> {
    let file = match place.open_with(access, OFlags::DIRECT) {
        Err(error) if error.raw_os_error() == Some(Errno::INVAL.raw_os_error()) => return Ok(None),
        opened => opened?,
    };
    Ok(direct_unit(&file).map(|unit| (file, unit)))
}

/// Some file systems accept the flag and use the page cache even so; the kernel reports that.
fn direct_unit(file: &File) -> Option<u64> {
    let found = rustix::fs::statx(file, c"", AtFlags::EMPTY_PATH, StatxFlags::DIOALIGN);
    match found.ok().filter(|found| found.stx_mask & StatxFlags::DIOALIGN.bits() != 0) {
        Some(found) if found.stx_dio_mem_align == 0 || u64::from(found.stx_dio_mem_align) > BLOCK => None,
        Some(found) => Some(found.stx_dio_offset_align.into()),
        // Kernels before 6.1, and file systems that do not report it.
        None => Some(BLOCK),
    }
}

/// The first byte from `offset` on that is not in a hole; `u64::MAX` if all are in holes. This moves the file's
/// position, which nothing here uses.
pub(in crate::fs) fn next_data(file: &File, offset: u64) -> u64 {
    match rustix::fs::seek(file, rustix::fs::SeekFrom::Data(offset)) {
        Ok(at) => at,
        Err(Errno::NXIO) => u64::MAX,
        Err(_) => offset,
    }
}

/// Turns readahead off. The kernel then reads only the requested bytes.
pub(in crate::fs) fn read_singly(file: &File) {
    let _hint = rustix::fs::fadvise(file, 0, None, Advice::Random);
}

/// Whether the byte at `offset` can be read without waiting for a disk.
pub(in crate::fs) fn is_cached(file: &File, offset: u64) -> bool {
    let mut byte = [0];
    let read = rustix::io::preadv2(file, &mut [IoSliceMut::new(&mut byte)], offset, ReadWriteFlags::NOWAIT);
    read != Err(Errno::AGAIN)
}

/// Fills `buf` from `offset` on, if the page cache has all of it.
pub(in crate::fs) fn read_resident(file: &File, buf: &mut [u8], offset: u64) -> bool {
    let len = buf.len();
    let read = rustix::io::preadv2(file, &mut [IoSliceMut::new(buf)], offset, ReadWriteFlags::NOWAIT);
    read == Ok(len)
}

/// Requests the kernel to start writing `len` bytes from `offset`. A hint: errors appear at the sync.
pub(in crate::fs) fn start_writeback(file: &File, offset: u64, len: u64) {
    let (Ok(offset), Ok(len)) = (i64::try_from(offset), i64::try_from(len)) else { return };
    // SAFETY: the descriptor is open as long as `file` is borrowed, and the call reads and writes no memory
    // of this process.
    let _ = unsafe { libc::sync_file_range(file.as_raw_fd(), offset, len, libc::SYNC_FILE_RANGE_WRITE) };
}

/// Makes the file at least `len` bytes long and allocates their blocks. Returns `false`, and does nothing, if the file
/// system cannot.
pub(in crate::fs) fn allocate(file: &File, len: u64) -> io::Result<bool> {
    fallocate(file, FallocateFlags::empty(), 0, len)
}

/// Frees the blocks of a range. Returns `false`, and does nothing, if the file system cannot.
pub(in crate::fs) fn punch_hole(file: &File, offset: u64, len: u64) -> io::Result<bool> {
    fallocate(file, FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, offset, len)
}

fn fallocate(file: &File, mode: FallocateFlags, offset: u64, len: u64) -> io::Result<bool> {
    match retry_on_intr(|| rustix::fs::fallocate(file, mode, offset, len)) {
        Ok(()) => Ok(true),
        Err(Errno::OPNOTSUPP | Errno::NOSYS) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Whether the file may share blocks with another one of its file system.
pub(in crate::fs) fn shares_blocks(file: &File) -> bool {
    rustix::fs::fstatfs(file).is_ok_and(|found| SHARING.contains(&(found.f_type as u32)))
}

/// Makes the kernel copy `len` bytes from `from` on, to `to` or to the target's position. Returns how many bytes it
/// copied, perhaps fewer, and moves `from` and `to` by as many.
pub(in crate::fs) fn copy_range(
    (source, from): (&File, &mut u64),
    (target, to): (&File, Option<&mut u64>),
    len: usize,
) -> io::Result<usize> {
    Ok(rustix::fs::copy_file_range(source, Some(from), target, to, len)?)
}

/// Whether stores into a mapping of the whole file cannot fail: the file system overwrites in place, and all blocks are
/// allocated.
pub(super) fn stores_cannot_fail(file: &File) -> bool {
    overwrites_in_place(file) && is_allocated(file)
}

/// XFS is not included: a file there may share blocks with a reflink copy, and writing to a shared block moves it. No
/// cheap call detects that.
fn overwrites_in_place(file: &File) -> bool {
    rustix::fs::fstatfs(file).is_ok_and(|stat| matches!(stat.f_type as u32, EXT_MAGIC | TMPFS_MAGIC))
}

/// A tool may copy a segment and turn its zeros into holes. A mapped store into such a copy would die by SIGBUS on a
/// full disk.
fn is_allocated(file: &File) -> bool {
    file.metadata().is_ok_and(|metadata| metadata.blocks().saturating_mul(512) >= metadata.len())
}

/// Changes with each boot; zeros where unknown.
#[expect(clippy::disallowed_methods, reason = "this is the room that touches files")]
pub(in crate::fs) fn boot_id() -> [u8; 16] {
    let text = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    parse_uuid(&text).unwrap_or_default()
}

/// `STATX_MNT_ID_UNIQUE`, of Linux 6.8: the id of a mount, which no other mount gets before the next boot.
const MOUNT_ID_UNIQUE: u32 = 0x4000;

/// Identifies a directory in a mount of its file system, in this boot of the machine. `None` on older kernels, whose
/// ids the next mount may reuse.
pub(in crate::fs) fn mount_id(dir: &Directory) -> Option<u64> {
    let wanted = StatxFlags::from_bits_retain(MOUNT_ID_UNIQUE) | StatxFlags::INO;
    let found = rustix::fs::statx(&dir.0, c"", AtFlags::EMPTY_PATH, wanted).ok()?;
    let told = found.stx_mask & wanted.bits() == wanted.bits();
    let device = u64::from(found.stx_dev_major) << 32 | u64::from(found.stx_dev_minor);
    let parts = [found.stx_mnt_id, found.stx_ino, device].map(u64::to_le_bytes);
    told.then(|| checksum(0, &parts.concat()))
}

/// Parses the 16 bytes of a UUID: 32 hexadecimal digits, with hyphens anywhere.
fn parse_uuid(text: &str) -> Option<[u8; 16]> {
    let digits = text.trim().replace('-', "");
    let is_whole = digits.len() == 32 && !digits.starts_with('+');
    u128::from_str_radix(&digits, 16).ok().filter(|_| is_whole).map(u128::to_be_bytes)
}

/// Informs the kernel that all of `buf`, which is large and new, will be written. It then backs the memory with pages
/// of 2 MiB if possible: a page fault for 4 KiB costs more than reading them.
pub(crate) fn expect_use(buf: &mut [MaybeUninit<u8>]) {
    const PAGE: usize = 4096;
    if cfg!(miri) {
        return;
    }
    let before = buf.as_ptr().addr() % PAGE;
    let start = buf.as_mut_ptr().cast::<std::ffi::c_void>().wrapping_byte_sub(before);
    let len = (before + buf.len()).next_multiple_of(PAGE);
    // SAFETY: the advice changes how memory is backed, and no byte of it; neighbours on the first and the last page are
    // backed the same way.
    let _hint = unsafe { rustix::mm::madvise(start, len, rustix::mm::Advice::LinuxHugepage) };
}

/// How many threads of the whole machine run or are ready to run. The fourth word of the kernel's report is: runnable
/// threads/all threads.
#[expect(clippy::disallowed_methods, reason = "this is the room that touches files")]
pub(crate) fn running_threads() -> Option<usize> {
    let report = fs::read_to_string("/proc/loadavg").ok()?;
    report.split(' ').nth(3)?.split('/').next()?.parse().ok()
}

pub(in crate::fs) fn descriptors_max() -> Option<u64> {
    rustix::process::getrlimit(rustix::process::Resource::Nofile).current
}

/// How many descriptors it has, if the kernel counts them (from Linux 6.2 on).
pub(in crate::fs) fn descriptors_open() -> Option<u64> {
    let count = u64::try_from(rustix::fs::stat("/proc/self/fd").ok()?.st_size).ok()?;
    (count > 0).then_some(count)
}

#[expect(clippy::disallowed_methods, reason = "this is the room that touches files")]
pub(in crate::fs) fn physical_memory() -> Option<u64> {
    let report = fs::read_to_string("/proc/meminfo").ok()?;
    let line = report.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib << 10)
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "tests look at files as anybody may")]
mod tests {
    use super::*;

    /// The system decides which pages the page cache has; the returned bytes are right and whole.
    #[test]
    fn what_is_resident_is_read_as_it_is_or_not_at_all() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        fs::write(&path, [7; 10_000]).unwrap();
        let file = File::open(&path).unwrap();
        let mut buf = [0; 8000];
        assert!(!read_resident(&file, &mut buf, 2001), "the file ends before");
        if read_resident(&file, &mut buf, 2000) {
            assert_eq!(buf, [7; 8000]);
        }
    }

    /// Kernels from 6.8 on report unique ids; the ids of older ones are not relied on.
    #[test]
    fn a_copy_of_a_directory_is_another_place_in_the_mount() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["a", "b"] {
            fs::create_dir(dir.path().join(name)).unwrap();
        }
        let id = |name: &str| {
            let path = dir.path().join(name);
            Directory::open(&Place::of_process(&path)).ok().and_then(|dir| mount_id(&dir))
        };
        let before = id("a");
        assert!(id("a").is_none() || id("a") != id("b"));
        fs::rename(dir.path().join("a"), dir.path().join("renamed")).unwrap();
        assert_eq!(id("renamed"), before);
        assert_eq!(id("a"), None);
    }

    #[test]
    fn boot_ids_are_parsed() {
        assert_eq!(
            parse_uuid("00010203-0405-0607-0809-0a0b0c0d0eFF\n"),
            Some([0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 255])
        );
        for text in ["", "0001", "000102030405060708090a0b0c0d0eff0", "zz", "000102030405060708090a0b0c0d0e-"]
        {
            assert_eq!(parse_uuid(text), None, "{text}");
        }
    }
}
