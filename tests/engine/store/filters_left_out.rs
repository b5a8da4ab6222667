//! More filters than fit into the budget.

use esker::trace::Cause;
use esker::{CompactionStyle, Db, Options, TreeOptions};

const BUDGET: usize = 8 << 20;
const PAIRS: u32 = 2_000_000;

/// How often a table was opened.
fn opened(db: &Db) -> u64 {
    let stats = db.stats().unwrap();
    stats.waits.iter().filter(|wait| wait.cause == Cause::Tables).map(|wait| wait.count).sum()
}

/// Gets of random keys ask all tables of all runs by turns. Where their filters do not fit, some are done without: no table is
/// opened again and again.
#[test]
fn gets_settle_where_filters_do_not_fit() {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path().join("store"), Options::default().memory_budget(BUDGET)).unwrap();
    let tree = db.create_tree("t", TreeOptions::default().compaction(CompactionStyle::Tiered)).unwrap();
    for run in 0..4 {
        let mut ingest = tree.ingest().unwrap();
        for i in 0..PAIRS / 2 {
            ingest.put((i * 4 + run).to_be_bytes(), b"").unwrap();
        }
        ingest.commit().unwrap();
    }
    let gets = || {
        for i in 0..4_000_u32 {
            let key = i.wrapping_mul(0x9e37_79b1) % (PAIRS * 2);
            assert!(tree.contains(key.to_be_bytes()).unwrap(), "{key}");
        }
        opened(&db)
    };
    let (first, second) = (gets(), gets());
    let stats = db.stats().unwrap();
    let count: u64 = stats.trees.iter().flat_map(|tree| &tree.tables_by_level).sum();
    // Some are opened a second time, without the filters that they had at first. Background work may have opened some before.
    assert!(first > 0 && second <= 3 * count, "{first}, then {second} openings of {count} tables");
    assert_eq!(gets(), second, "tables are opened again");
}
