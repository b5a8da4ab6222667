//! Tests of properties that only the operating system's files have: the two ways to store, sparse copies, the cost of a
//! store.

#![cfg(target_os = "linux")]

use std::fs;
use std::io;

use super::*;

/// A new segment.
fn create(path: &Path, len: u64, stores: Stores) -> Result<RealMapped> {
    let fs = RealFs::default();
    let (file, _) = fs.open("create the segment", path, Access::New)?;
    RealMapped::prepare(file, path, len, stores)
}

fn open(path: &Path, stores: Stores) -> Result<RealMapped> {
    let (file, len) = RealFs::default().open("open the segment", path, Access::Write)?;
    RealMapped::of(file, path, len, stores)
}

/// There `statvfs` reports zeros, as on some network file systems. A write then finds that the disk has no room.
#[test]
fn a_file_system_that_tells_no_free_space_has_plenty() {
    assert_eq!(RealFs::default().free_space(Path::new("/proc")).unwrap(), PLENTY);
}

/// The kernel requests the holder of a lease to release it. A caller that may not wait gets an error, and may try again
/// later.
#[test]
fn a_file_that_somebody_has_a_lease_on_can_be_opened_later() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("000001.table");
    drop(RealFs::default().create(&path).unwrap());
    let place = Place::of_process(&path);
    let refused =
        RealFs::default().checked("open the file", &path, &place, Err(io::ErrorKind::WouldBlock.into()));
    let error = refused.unwrap_err();
    assert_eq!((error.kind(), error.path()), (ErrorKind::OutOfResources, Some(path.as_path())));
    assert!(error.message().contains("lease"), "{error}");
}

#[test]
fn stores_without_a_mapping_do_the_same() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("wal");
    let file = create(&path, 8192, Stores::Bulk).unwrap();
    assert!(!file.is_mapped() && is_allocated(&path), "what is stored in bulk later has its blocks");
    crate::fs::tests::check_stores(&file);
    let bytes = RealFs::default().read(&path).unwrap();
    assert!(bytes[..4000].iter().all(|&b| b == 0) && bytes[4000..4200] == [7; 200]);
    assert_eq!(bytes[8184..], 0x0102_0304_0506_0708u64.to_le_bytes());
}

/// Whether all blocks of the file are allocated, on a file system that can allocate.
fn is_allocated(path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let metadata = fs::metadata(path).unwrap();
    metadata.blocks() * 512 >= metadata.len()
}

#[test]
fn a_sparse_copy_is_not_mapped() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("wal");
    File::create_new(&path).unwrap().set_len(8192).unwrap();
    let file = open(&path, Stores::Small).unwrap();
    assert!(!file.is_mapped(), "a store into a hole of a full disk would be a SIGBUS");
    crate::fs::tests::check_stores(&file);
}

#[test]
fn a_failed_creation_leaves_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("wal");
    let error = RealFs::default().create_mapped(&path, 1 << 60).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::OutOfSpace | ErrorKind::Io), "{error}");
    assert!(!path.exists());
}

/// The kernel writes the part that fits below the maximum length of a file, and refuses the rest.
#[test]
fn a_write_that_stops_half_way_is_cut_off_again() {
    const EXT4_LEN_MAX: u64 = 0xFFF_FFFF_F000;
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a");
    let file = RealFs::default().create_random(&path).unwrap();
    file.write_at(&[io::IoSlice::new(b"old")], 0).unwrap();
    let parts = [b"abc".as_slice(), b"", b"defgh", b"ijk"].map(io::IoSlice::new);
    if file.write_at(&parts, EXT4_LEN_MAX - 6).is_err() {
        assert_eq!((file.len(), RealFs::default().file_len(&path).unwrap()), (3, 3));
    }
    file.write_at(&parts, EXT4_LEN_MAX - 11).unwrap();
    let mut last = [0; 12];
    assert!(file.read_exact_at(&mut last, EXT4_LEN_MAX - 11).is_err());
    file.read_exact_at(&mut last[..11], EXT4_LEN_MAX - 11).unwrap();
    assert_eq!(&last[..11], b"abcdefghijk");
}

/// A small synced store writes one page to the device, not the large folio around it, whether the segment is new or was
/// evicted and is reused.
#[test]
fn a_synced_store_dirties_one_page() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("wal");
    let check = |what: &str, file: &RealMapped| {
        file.sync().unwrap();
        let before = bytes_dirtied();
        for record in 0..50 {
            // The stores are far apart. Therefore each is the first into its page since a sync.
            file.store(record * 160_000, &[3; 150]).unwrap();
            file.sync().unwrap();
        }
        let each = (bytes_dirtied() - before) / 50;
        println!("{what}: {each} bytes dirtied by each synced store; mapped: {}", file.is_mapped());
        assert!(each <= 8192, "{what}: {each}");
    };
    let file = create(&path, 8 << 20, Stores::Small).unwrap();
    check("new", &file);
    file.warm(0, 8 << 20);
    check("warmed and synced", &file);
    drop(file);
    let file = File::open(&path).unwrap();
    rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).unwrap();
    check("recycled", &open(&path, Stores::Small).unwrap());
}

/// The bytes that the kernel counts as written by this thread: whole folios, when they become dirty. 0 if it does not
/// count.
#[expect(clippy::disallowed_methods, reason = "tests look at files as anybody may")]
fn bytes_dirtied() -> u64 {
    let counts = fs::read_to_string("/proc/thread-self/io").unwrap_or_default();
    let written = counts.lines().find_map(|line| line.strip_prefix("write_bytes: "));
    written.and_then(|bytes| bytes.parse().ok()).unwrap_or(0)
}
