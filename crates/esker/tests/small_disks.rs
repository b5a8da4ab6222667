//! Stores that are small, and disks that are: what the store sets aside follows both.

#![allow(clippy::unwrap_used, clippy::disallowed_methods, reason = "a test that looks at real files")]

use std::path::Path;

use esker::{Db, Options};

/// As `du` counts the files in a directory.
fn taken(dir: &Path) -> u64 {
    use std::os::unix::fs::MetadataExt;
    let entries = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().metadata().unwrap());
    entries.map(|file| file.blocks() * 512).sum()
}

/// What `stats` says that the store takes is what its files take.
#[test]
fn stats_count_all_of_the_directory() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store");
    let db = Db::open(&path, Options::default()).unwrap();
    for number in 0..2000_u32 {
        db.put(number.to_be_bytes(), [1; 500]).unwrap();
    }
    db.put("huge", vec![1; 100_000]).unwrap();
    db.flush().unwrap();
    db.put("more", "in the log").unwrap();
    // Whatever lies there.
    std::fs::create_dir(path.join("quarantine-1")).unwrap();
    std::fs::write(path.join("quarantine-1/000007.table"), vec![1; 50_000]).unwrap();
    db.sync().unwrap();
    let in_quarantine = taken(&path.join("quarantine-1"));
    assert!(in_quarantine >= 50_000);
    // The log lane may be making a segment ready.
    let agrees = (0..100).any(|_| {
        let before = taken(&path);
        let said = db.stats().unwrap();
        let is_still = before == taken(&path);
        let of_directory = std::fs::metadata(path.join("quarantine-1")).map(|made| blocks(&made)).unwrap();
        assert!(said.log_bytes > 0 && said.reserve_bytes > 0);
        is_still && said.disk_bytes == before - of_directory + in_quarantine
    });
    assert!(agrees, "{} for {}", db.stats().unwrap().disk_bytes, taken(&path));
}

fn blocks(file: &std::fs::Metadata) -> u64 {
    use std::os::unix::fs::MetadataExt;
    file.blocks() * 512
}
