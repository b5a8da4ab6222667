//! Thousands of trees in one store: cheap while idle, few files, and none of them pins the log.

#![expect(clippy::unwrap_used, clippy::disallowed_methods, reason = "a test that looks at real files")]

use esker::{Batch, Db, Options, ScanRange};

const TREES: u32 = 10_000;

fn name(i: u32) -> String {
    format!("tree {i:05}")
}

/// Anonymous memory of this process, in bytes; `None` where the system does not tell.
fn anonymous_memory() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"))?;
    Some(line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? << 10)
}

fn files_with(dir: &std::path::Path, end: &str) -> usize {
    let names = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name());
    names.filter(|name| name.to_string_lossy().ends_with(end)).count()
}

#[test]
fn ten_thousand_trees_are_cheap() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store");
    let options = || Options::default().memory_budget(64 << 20);
    {
        let db = Db::open(&path, options()).unwrap();
        let mut batch = Batch::new();
        for i in 0..TREES {
            batch.put(&db.tree(&name(i)).unwrap(), "key", i.to_be_bytes()).unwrap();
        }
        db.write(&batch).unwrap();
        db.close().unwrap();
    }
    let before = anonymous_memory();
    let db = Db::open(&path, options()).unwrap();
    let after = anonymous_memory();
    if let (Some(before), Some(after)) = (before, after) {
        let each = after.saturating_sub(before) / u64::from(TREES);
        assert!(each < 4096, "an idle tree takes {each} bytes");
    }
    assert_eq!(db.tree_names().len() as u32, TREES + 1);
    assert!(files_with(&path, ".table") <= 8, "small trees share tables");
    for i in (0..TREES).step_by(97) {
        let tree = db.tree(&name(i)).unwrap();
        assert_eq!(tree.get_vec("key").unwrap().as_deref(), Some(&i.to_be_bytes()[..]));
        assert_eq!(tree.count(ScanRange::all()).unwrap(), 1);
        let last = tree.scan(ScanRange::all().reverse()).unwrap().next().unwrap().unwrap();
        assert_eq!(last, (b"key".to_vec(), i.to_be_bytes().to_vec()));
    }
    db.close().unwrap();
}

#[test]
fn an_idle_tree_does_not_pin_the_log() {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path().join("store"), Options::default().memory_budget(8 << 20)).unwrap();
    let (idle, busy) = (db.tree("idle").unwrap(), db.tree("busy").unwrap());
    idle.put("once", "written").unwrap();
    let value = [7; 1000];
    for i in 0..60_000u32 {
        busy.put(i.to_be_bytes(), value).unwrap();
    }
    db.flush().unwrap();
    let live = db.stats().unwrap().log_live_bytes;
    assert!(live < 16 << 20, "{live} bytes of log would be replayed");
    assert_eq!(idle.get_vec("once").unwrap().as_deref(), Some(&b"written"[..]));
}

#[test]
fn more_tables_than_may_be_open_are_read() {
    let dir = tempfile::tempdir().unwrap();
    let mut options = Options::default().memory_budget(8 << 20);
    options.open_tables_max = 4;
    options.table_bytes = 32 << 10;
    let db = Db::open(dir.path().join("store"), options).unwrap();
    let value = [1; 500];
    for i in 0..10_000u32 {
        db.put(i.to_be_bytes(), value).unwrap();
    }
    db.compact().unwrap();
    assert!(db.stats().unwrap().table_files > 50);
    for i in (0..10_000u32).rev().step_by(7) {
        assert_eq!(db.get_vec(i.to_be_bytes()).unwrap().as_deref(), Some(&value[..]));
    }
    assert!(db.stats().unwrap().open_tables <= 4);
}
