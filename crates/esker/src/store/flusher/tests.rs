use std::sync::Arc;

use crate::db::Db;
use crate::env::{Env, JobKind, StepExecutor};
use crate::error::{Error, ErrorKind};
use crate::options::{Options, TreeOptions};
use crate::write::batch::Batch;

/// On a full disk memtables are flushed one after the other: but those of a group together (rule 21).
#[test]
fn a_group_is_flushed_whole_on_a_full_disk() {
    let env = Env { executor: Some(Arc::new(StepExecutor)), ..Env::system() };
    let db = Db::open_in_memory(Options::default().env(env)).unwrap();
    let store = db.store();
    let options = TreeOptions::default().log(false).group("group");
    let trees = ["one", "two", "three"].map(|name| db.create_tree(name, options.clone()).unwrap());
    let waiting = || trees.each_ref().map(|tree| tree.inner().state.load().immutable.len());
    let limit = store.disk().space().memtable_limit();
    for round in 0..3_u8 {
        // Two rounds do not fit into what is flushed at once on a full disk; a part of the second would.
        let mut batch = Batch::new();
        for key in 0..limit / 10 * 3 / 1100 {
            let key = [&[round], &key.to_be_bytes()[..]].concat();
            // The first round leaves a tree out.
            let written = trees.iter().skip(usize::from(round == 0));
            written.for_each(|tree| batch.put(tree, &key, [7; 1000]).unwrap());
        }
        db.write(&batch).unwrap();
        store.flusher().switch_memtable(trees[1].inner(), 0);
    }
    assert_eq!(waiting(), [2, 3, 3]);
    store.core.health.fail(Error::new(ErrorKind::OutOfSpace, "full"));
    for left in [[2, 2, 2], [1, 1, 1], [0, 0, 0]] {
        assert!(store.flusher().flush_some().unwrap());
        assert_eq!(waiting(), left);
    }
}

/// As the heads of lists do beside their elements.
#[test]
fn a_row_that_is_written_again_and_again_lets_log_files_go_around() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store");
    let env = Env { executor: Some(Arc::new(StepExecutor)), ..Env::system() };
    let mut options = Options::default().memory_budget(64 << 20).env(env);
    // Then the log has more segments at its budget than are kept.
    options.memtable_bytes = Some(8 << 20);
    let db = Db::open(&path, options).unwrap();
    let (heads, elements) = (db.tree("heads").unwrap(), db.tree("elements").unwrap());
    let write = |rows: std::ops::Range<u32>| {
        let (mut most, max) = (0, db.store().disk().space().log_max());
        for i in rows {
            let mut batch = Batch::new();
            batch.put(&heads, "list", i.to_be_bytes()).unwrap();
            batch.put(&elements, i.to_be_bytes(), [7; 1000]).unwrap();
            db.write(&batch).unwrap();
            if i % 100 == 0 {
                JobKind::ALL.iter().for_each(|job| while db.step(*job) {});
                most = most.max(db.stats().unwrap().log_live_bytes);
            }
        }
        let names = db.store().core.env().fs.list(&path).unwrap();
        let newest = names.into_iter().filter(|name| name.starts_with("wal-")).max().unwrap();
        (newest, most * 100 / max)
    };
    let begun = write(0..40_000);
    let later = write(40_000..120_000);
    assert_eq!(
        begun, later,
        "the newest log file, and the most of the log's budget that was live, in percent"
    );
    assert!(later.1 <= 50, "{later:?}");
}
