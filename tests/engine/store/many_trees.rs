//! Thousands of trees in one store: cheap while idle, few files, and none of them pins the log.

use esker::{Batch, Db, Options, ScanRange};

/// How many trees: ten thousand at full effort. Of too few, what an opening itself takes would count as theirs.
fn trees() -> u32 {
    test_kit::cases(10_000).clamp(1_000, 10_000) as u32
}

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

const STORE: &str = "ESKER_TEST_MANY_TREES";

/// Has [`an_opened_store_takes_little_memory`] look at the store in a new process.
fn open_elsewhere(path: &std::path::Path, how: &str) {
    let program = std::env::current_exe().unwrap();
    let looked = std::process::Command::new(program)
        .args(["--exact", "many_trees::an_opened_store_takes_little_memory", "--nocapture"])
        .env(STORE, path)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&looked.stdout);
    assert!(looked.status.success() && said.contains("bytes a tree"), "{how}: {looked:?}");
}

/// The child of [`ten_thousand_trees_are_cheap`]; by itself it has nothing to look at.
#[test]
fn an_opened_store_takes_little_memory() {
    let Some(path) = std::env::var_os(STORE) else { return };
    let before = anonymous_memory();
    let db = Db::open(path, Options::default().memory_budget(64 << 20)).unwrap();
    let after = anonymous_memory();
    // Blocks that the flush of the replay has left in the buffer pool belong to the budget.
    let cached = db.stats().unwrap().pool_bytes;
    if let (Some(before), Some(after)) = (before, after) {
        let trees = db.tree_names().len() as u64;
        let each = after.saturating_sub(before).saturating_sub(cached) / trees;
        assert!(each < 4096, "an idle tree takes {each} bytes");
        println!("{each} bytes a tree");
    } else {
        println!("no bytes a tree: this system does not tell");
    }
    db.close().unwrap();
}

#[test]
fn ten_thousand_trees_are_cheap() {
    let trees = trees();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store");
    let options = || Options::default().memory_budget(64 << 20);
    {
        let db = Db::open(&path, options()).unwrap();
        let mut batch = Batch::new();
        for i in 0..trees {
            let tree = db.tree(&name(i)).unwrap();
            batch.put(&tree, "key", i.to_be_bytes()).unwrap();
            batch.put(&tree, "more", [7; 1000]).unwrap();
        }
        db.write(&batch).unwrap();
        db.close().unwrap();
    }
    // In processes of their own: what this one has freed, another opening would take and not be seen to.
    open_elsewhere(&path, "with a replay");
    open_elsewhere(&path, "without");
    let db = Db::open(&path, options()).unwrap();
    assert_eq!(db.tree_names().len() as u32, trees + 1);
    assert!(files_with(&path, ".table") <= 8, "small trees share tables");
    for i in (0..trees).step_by(97) {
        let tree = db.tree(&name(i)).unwrap();
        assert_eq!(tree.get_vec("key").unwrap().as_deref(), Some(&i.to_be_bytes()[..]));
        assert_eq!(tree.count(ScanRange::all()).unwrap(), 2);
        let last = tree.scan(ScanRange::all().reverse()).unwrap().next().unwrap().unwrap();
        assert_eq!(last, (b"more".to_vec(), vec![7; 1000]));
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
