//! What a scan of one access group reads of the disk, beside another group with large cells. The kernel counts the bytes that
//! this process reads, so this is the only test of its process.

#![cfg(target_os = "linux")]
#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test that cannot go on should stop; it reads what the kernel counts"
)]

use esker_table::{Family, Read, RowMutation, Schema, Tables};

const ROWS: u32 = 20_000;

fn bytes_read() -> u64 {
    let counts = std::fs::read_to_string("/proc/self/io").unwrap();
    let line = counts.lines().find_map(|line| line.strip_prefix("rchar: "));
    line.unwrap().parse().unwrap()
}

#[test]
fn a_scan_of_one_group_reads_nothing_of_another() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store");
    let options = || esker::Options::default().memory_budget(64 << 20);
    let tables = Tables::open(&path, options()).unwrap();
    let schema = Schema::new().group("small", [Family::new("s")]).group("large", [Family::new("l")]);
    let table = tables.create("t", schema).unwrap();
    // Bytes that nobody can compress.
    let mut rng = test_kit::Rng::new(1);
    for row in 0..ROWS {
        let mutation =
            RowMutation::new(row.to_be_bytes()).put("s", "q", rng.bytes(10)).put("l", "q", rng.bytes(10_000));
        table.mutate(&mutation).unwrap();
    }
    table.compact().unwrap();
    let name = tables.db().tree_names().into_iter().find(|name| name.ends_with(".1")).unwrap();
    drop((table, tables));

    let tables = Tables::open(&path, options()).unwrap();
    let stats = tables.db().stats().unwrap();
    let on_disk = stats.trees.iter().find(|tree| tree.name == name).unwrap().table_bytes;
    let table = tables.table("t").unwrap();
    let before = bytes_read();
    let mut scan = table.scan("", "", &Read::family("s")).unwrap();
    let mut rows = 0;
    while scan.advance().unwrap() {
        assert_eq!(scan.value().unwrap().len(), 10);
        rows += 1;
    }
    let read = bytes_read() - before;
    println!("{read} bytes read of {on_disk}");
    assert_eq!(rows, ROWS);
    assert!(read >= on_disk / 2 && read * 10 <= on_disk * 12, "{read} bytes read, {on_disk} on disk");
}
