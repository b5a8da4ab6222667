//! Pairs of a few bytes: what waits for their filters stays within the budget, however many fit into a table.

use std::path::Path;

use esker::{Db, Options};

use crate::common::alone;

const BUDGET: usize = 8 << 20;
const PAIRS: u32 = 2_000_000;
/// An eighth of the budget, 8 bytes for each key.
const KEYS_MAX: u64 = (BUDGET / 8 / 8) as u64;

/// Resident anonymous memory. 0 where the system does not tell.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"));
    line.and_then(|line| line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()).unwrap_or(0) << 10
}

fn tables(db: &Db) -> u64 {
    db.stats().unwrap().trees.iter().flat_map(|tree| &tree.tables_by_level).sum()
}

#[test]
fn a_merge_of_tiny_pairs_stays_within_its_share() {
    alone("tiny_pairs::a_merge_of_tiny_pairs_stays_within_its_share", ingest_and_merge);
}

fn ingest_and_merge(dir: &Path) {
    let db = Db::open(dir.join("store"), Options::default().memory_budget(BUDGET)).unwrap();
    let baseline = resident();
    let look = |what: &str| {
        let held = resident().saturating_sub(baseline);
        println!("{what}: {} MiB", held >> 20);
        assert!(held <= BUDGET as u64, "{what}: {held}");
    };
    let least = u64::from(PAIRS).div_ceil(KEYS_MAX);
    let mut ingest = db.default_tree().ingest().unwrap();
    for i in 0..PAIRS {
        ingest.put((i * 2).to_be_bytes(), b"").unwrap();
        if i % 100_000 == 0 {
            look("ingesting");
        }
    }
    ingest.commit().unwrap();
    assert_eq!(tables(&db), least);
    for i in (0..PAIRS).step_by(500) {
        db.put((i * 2 + 1).to_be_bytes(), b"").unwrap();
    }
    db.compact().unwrap();
    look("compacted");
    assert!(tables(&db) >= least, "{} tables", tables(&db));
}
