//! What a store tells of its operations: how many, what each did, and why some were slow.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use esker::env::{Clock, JobKind, StepExecutor};
use esker::fs::sim::SimFs;
use esker::trace::{Cause, Operation, Step};
use esker::{Batch, Db, Durability, ErrorKind, Options, ScanRange, TxnMode, TxnOptions};

use crate::common::{ManualClock, world};

fn options() -> Options {
    let env = world(Arc::new(SimFs::new(1)), 1, Some(Arc::new(StepExecutor)));
    let mut options = Options::default().memory_budget(8 << 20).separate_at(10_000).env(env);
    options.memtable_bytes = Some(1 << 20);
    options
}

fn open(options: Options) -> Db {
    Db::open("/store", options).unwrap()
}

fn count(db: &Db, operation: Operation) -> u64 {
    let stats = db.stats().unwrap();
    let of_kind = stats.operations.iter().find(|stats| stats.operation == operation).unwrap();
    of_kind.count
}

#[test]
fn every_operation_is_counted_whichever_thread_does_it() {
    let db = open(options());
    let tree = db.default_tree();
    std::thread::scope(|scope| {
        for thread in 0..100 {
            scope.spawn(move || {
                for i in 0..100 {
                    tree.put(format!("{thread}/{i}"), "").unwrap();
                    assert!(tree.contains(format!("{thread}/{i}")).unwrap());
                    tree.get(format!("{thread}/{i}")).unwrap();
                }
            });
        }
    });
    assert_eq!((count(&db, Operation::Write), count(&db, Operation::Get)), (10_000, 20_000));
    db.write(&Batch::new()).unwrap();
    let snapshot = db.snapshot();
    snapshot.get(tree, "x").unwrap();
    tree.get_many(["x", "y", "z"]).unwrap();
    assert_eq!((count(&db, Operation::Write), count(&db, Operation::Get)), (10_001, 20_004));
    db.put("huge", vec![7; 100_000]).unwrap();
    db.get_vec("huge").unwrap();
    db.scan(ScanRange::all()).unwrap().next();
    db.sync().unwrap();
    let kinds = [Operation::Value, Operation::Scan, Operation::Sync, Operation::Lock];
    assert_eq!(kinds.map(|kind| count(&db, kind)), [1, 1, 1, 0]);
    let timed: Vec<u64> = db.stats().unwrap().operations.iter().map(|stats| stats.latency.count()).collect();
    assert!(timed[0] >= 20_005 / 64 && timed[1] >= 10_002 / 64 && timed[4] == 1, "{timed:?}");
}

#[test]
fn a_trace_says_where_a_get_looked() {
    let db = open(options());
    for i in 0..1000 {
        db.put(format!("{i:04}"), vec![1; 100]).unwrap();
    }
    let get = |key: &str| {
        let (found, trace) = db.trace(|| db.get_vec(key).unwrap());
        (found.is_some(), trace)
    };
    let (found, trace) = get("0500");
    assert_eq!((found, trace.steps.as_slice()), (true, &[Step::Memtable { found: true }][..]));
    let put = |durability| db.trace(|| db.default_tree().put_with("x", "y", durability).unwrap()).1;
    let written = put(Durability::Process).steps;
    assert!(matches!(written[..], [Step::Write { bytes: 20..60 }]), "{written:?}");
    let synced = put(Durability::Power).steps;
    assert!(matches!(synced[..], [Step::Wait { cause: Cause::Sync, .. }, Step::Write { .. }]), "{synced:?}");
}

#[test]
fn a_trace_tells_files_from_the_pool() {
    let db = open(options());
    for i in 0..1000 {
        db.put(format!("{i:04}"), vec![1; 100]).unwrap();
    }
    db.put("huge", vec![7; 100_000]).unwrap();
    db.flush().unwrap();
    db.clear_cache();
    let get = |key: &str| db.trace(|| db.get_vec(key).unwrap()).1;
    let cold = get("0500");
    let is_there = |trace: &esker::trace::Trace, wanted: fn(&Step) -> bool| trace.steps.iter().any(wanted);
    assert!(is_there(&cold, |step| matches!(step, Step::OpenTable { .. })), "{cold}");
    assert!(is_there(&cold, |step| matches!(step, Step::Filter { passed: true, .. })), "{cold}");
    assert_eq!((cold.memtables, cold.file_reads, cold.pool_blocks), (1, 1, 0), "{cold}");
    let warm = get("0500");
    assert_eq!((warm.memtables, warm.file_reads, warm.file_bytes, warm.pool_blocks), (1, 0, 0, 1), "{warm}");
    // A key between two others, so that only the filter can tell.
    let absent: Vec<_> = (0..100).map(|i| get(&format!("0500-{i}"))).collect();
    assert!(absent.iter().filter(|trace| trace.filtered == 1 && trace.pool_blocks == 0).count() > 80);
    get("huge");
    let huge = get("huge");
    assert_eq!((huge.pool_blocks, huge.file_bytes), (1, 100_000), "{huge}");

    let rows = || db.scan(.."h").unwrap().count();
    let (count, scan) = db.trace(rows);
    assert_eq!((count, scan.steps[0]), (1000, Step::Sources { count: 1 }), "{scan}");
    assert!(scan.file_bytes > 50_000 && scan.waited_us == 0, "{scan}");
    let (_, nothing) = db.trace(|| ());
    assert_eq!((nothing.steps.len(), nothing.file_bytes), (0, 0));
    // A trace within another has what is done within; and what panics ends it.
    let ((_, inner), outer) = db.trace(|| db.trace(|| db.get("0001").unwrap()));
    assert_eq!((inner.steps.is_empty(), outer.steps.len()), (false, 0));
    let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| db.trace(|| panic!("on purpose"))));
    assert!(caught.is_err());
    assert!(!db.trace(|| db.get("0001").unwrap()).1.steps.is_empty());
    let waits = db.stats().unwrap().waits;
    let blocks = waits.iter().find(|wait| wait.cause == Cause::Blocks).unwrap();
    assert!(blocks.count > 1 && blocks.bytes >= scan.file_bytes, "{blocks:?}");
}

/// Time passes by sleeping alone, so what waits is slow, and nothing else.
#[test]
fn slow_operations_are_named_with_what_they_waited_for() {
    let db = open(options());
    assert_eq!(db.why_slow().count, 0);
    for run in 0..12 {
        // Each overlaps the others, so that none goes below level 0.
        db.put("a", [run]).unwrap();
        db.put("z", [run]).unwrap();
        db.flush().unwrap();
    }
    assert_eq!(db.why_slow().count, 0);
    let accounts = db.tree("accounts").unwrap();
    for i in 0..20 {
        accounts.put(format!("key{i}"), vec![i; 5_000]).unwrap();
    }
    let why = db.why_slow();
    assert!(why.count > 0 && why.count <= 20, "{why}");
    let worst = &why.slowest[0];
    assert_eq!((worst.operation, worst.tree.as_deref()), (Operation::Write, Some("accounts")), "{why}");
    assert!(worst.key.starts_with(b"key") && worst.took_us >= 1000, "{why}");
    assert_eq!(worst.causes.iter().map(|spent| spent.cause).collect::<Vec<_>>(), [Cause::Throttled]);
    let throttled = db.stats().unwrap().throttled_us;
    assert_eq!((why.causes[0].us, why.took_us), (throttled, throttled), "{why}");
    let text = why.to_string();
    assert!(text.contains("merges are behind") && text.contains("in \"accounts\" took"), "{text}");
    while db.step(JobKind::Compact) {}

    // Two transactions in one thread: the second waits in vain.
    let pessimistic =
        TxnOptions::default().mode(TxnMode::Pessimistic).lock_timeout(Duration::from_millis(30));
    let (first, second) = (db.begin(pessimistic).unwrap(), db.begin(pessimistic).unwrap());
    first.put(&accounts, "key1", "").unwrap();
    assert_eq!(second.put(&accounts, "key1", "").unwrap_err().kind(), ErrorKind::LockTimeout);
    let why = db.why_slow();
    let lock = why.slowest.iter().find(|slow| slow.operation == Operation::Lock).unwrap();
    assert!((30_000..40_000).contains(&lock.took_us) && lock.causes[0].cause == Cause::Lock, "{why}");
}

/// After ten minutes nobody asks any more.
#[test]
fn what_was_slow_is_forgotten() {
    let clock = Arc::new(ManualClock::default());
    let mut options = options();
    options.env.clock = Arc::<ManualClock>::clone(&clock);
    let db = open(options);
    for run in 0..12 {
        db.put("a", [run]).unwrap();
        db.put("z", [run]).unwrap();
        db.flush().unwrap();
    }
    (0..20).for_each(|i| db.put(format!("key{i}"), vec![i; 5_000]).unwrap());
    let count = db.why_slow().count;
    assert!(count > 0);
    clock.sleep(Duration::from_secs(9 * 60));
    assert_eq!(db.why_slow().count, count);
    clock.sleep(Duration::from_secs(2 * 60));
    assert_eq!(db.why_slow().count, 0);
}

/// What Prometheus's parser asks for: samples right behind the types of their families, and classes that add up.
#[test]
fn prometheus_can_read_the_figures() {
    let db = open(options());
    db.put("a", "1").unwrap();
    db.get("a").unwrap();
    db.tree("other").unwrap();
    let text = db.stats().unwrap().prometheus();
    let (mut families, mut current) = (BTreeSet::new(), (String::new(), String::new()));
    let mut up_to: f64 = 0.0;
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').unwrap();
            assert!(families.insert(name.to_owned()), "{name} twice");
            current = (name.to_owned(), kind.to_owned());
        } else if !line.starts_with("# HELP ") {
            let (sample, value) = line.rsplit_once(' ').unwrap();
            let value: f64 = value.parse().unwrap();
            let name = sample.split('{').next().unwrap();
            let ending = name.strip_prefix(&current.0).unwrap_or_else(|| panic!("{line} in {current:?}"));
            let endings: &[&str] =
                if current.1 == "histogram" { &["_bucket", "_sum", "_count"] } else { &[""] };
            assert!(endings.contains(&ending), "{line} in {current:?}");
            assert_eq!(name.ends_with("_total"), current.1 == "counter", "{line}");
            match ending {
                "_bucket" if sample.contains("\"+Inf\"") => up_to = value,
                "_count" => assert!((value - up_to).abs() < 0.5, "{line}"),
                _ => {}
            }
        }
    }
    assert!(families.len() > 25, "{families:?}");
    for wanted in
        ["esker_tree_table_entries{tree=\"other\"} 0", "esker_operations_total{operation=\"get\"} 1"]
    {
        assert!(text.lines().any(|line| line == wanted), "{wanted}");
    }
}
