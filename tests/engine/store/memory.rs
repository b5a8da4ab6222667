//! The memory budget: what the process holds while it writes and reads ten times as much data.

use std::path::Path;

use esker::{Db, Options, ScanRange};

use crate::common::{alone, is_quick};

const BUDGET: usize = 48 << 20;

/// Resident anonymous memory, and resident bytes of log segments mapped into this process. `None` where
/// the system does not tell.
fn resident() -> Option<(u64, u64)> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"))?;
    let anonymous = line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? << 10;
    let maps = std::fs::read_to_string("/proc/self/smaps").ok()?;
    let mut log = 0;
    let mut in_log = false;
    for line in maps.lines() {
        // The head of a mapping begins with its addresses; what follows belongs to it up to the next head.
        if line.split(' ').next().is_some_and(|first| first.contains('-') && !first.ends_with(':')) {
            in_log = line.ends_with(".log");
        } else if let Some(rest) = line.strip_prefix("Rss:").filter(|_| in_log) {
            log += rest.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? << 10;
        }
    }
    Some((anonymous, log))
}

fn key(i: u64) -> [u8; 8] {
    // Spread over the key space, each once: an odd factor permutes the 64-bit numbers.
    i.wrapping_mul(0x9E37_79B9_7F4A_7C15).to_be_bytes()
}

#[test]
fn ten_times_the_budget_in_data_stays_within_the_budget() {
    alone("memory::ten_times_the_budget_in_data_stays_within_the_budget", write_and_read);
}

fn write_and_read(dir: &Path) {
    let db = Db::open(dir.join("store"), Options::default().memory_budget(BUDGET)).unwrap();
    let baseline = resident().map_or(0, |(anonymous, _)| anonymous);
    let mut most = 0;
    let mut look = |what: &str| {
        if let Some((anonymous, log)) = resident() {
            let held = anonymous.saturating_sub(baseline) + log;
            most = most.max(held);
            let bound = (BUDGET + (64 << 20)) as u64;
            assert!(held <= bound, "{what}: {anonymous} anonymous and {log} of log, at most {bound}");
        }
    };
    // Small values are many, and each costs memory of its own.
    let value = vec![b'v'; if is_quick() { 5000 } else { 1000 }];
    let all = (10 * BUDGET / value.len()) as u64;
    for i in 0..all {
        db.put(key(i), &value).unwrap();
        if i % 2_000 == 0 {
            look("writing");
        }
    }
    let mut buf = Vec::new();
    for i in (0..all).step_by(3) {
        assert!(db.default_tree().get_into(key(i), &mut buf).unwrap());
        if i % 15_000 == 0 {
            look("reading");
        }
    }
    let mut scan = db.scan(ScanRange::all()).unwrap();
    let mut pairs = 0;
    while scan.advance().unwrap() {
        pairs += 1;
        if pairs % 50_000 == 0 {
            look("scanning");
        }
    }
    assert_eq!(pairs, all);
    db.compact().unwrap();
    look("compacted");
    println!("at most {} MiB held under a budget of {} MiB", most >> 20, BUDGET >> 20);
}
