//! The limits of a process (descriptors, memory for threads), and those of options: running into one is an error of that
//! call, which says what to do, and not the end of the store.

use std::fs::File;
use std::sync::Arc;

use esker::env::{Env, Executor, JobKind, StepExecutor};
use esker::fs::sim::{Fault, FaultError, Op, SimFs};
use esker::{CompactionStyle, Db, ErrorKind, Options, ScanRange, TreeOptions};

use crate::common::{Rng, alone_with};

// ---- options --------------------------------------------------------------------------------------------

/// Numbers at which something may go over: both ends, and powers of two with their neighbours.
fn extremes() -> Vec<u64> {
    let powers = (3..64).step_by(5).map(|bits| 1_u64 << bits).flat_map(|power| [power - 1, power, power + 1]);
    [0, 1, 2, 3, u64::MAX - 1, u64::MAX].into_iter().chain(powers).collect()
}

/// Sets option `which` to `value`; `false`: there are no more.
fn set(options: &mut Options, which: usize, value: u64) -> bool {
    let size = usize::try_from(value).unwrap_or(usize::MAX);
    match which {
        0 => options.memory_budget = size,
        1 => options.background_io = Some(value),
        2 => options.threads = size,
        3 => options.memtable_bytes = Some(size),
        4 => options.table_bytes = size,
        5 => options.block_bytes = size,
        6 => options.filter_bits = u32::try_from(value).unwrap_or(u32::MAX),
        7 => options.separate_at = size,
        8 => options.blob_file_bytes = value,
        9 => options.log_history = value,
        10 => options.open_tables_max = size,
        11 => options.scrub_rate = value,
        _ => return false,
    }
    true
}

/// Refused as `InvalidInput`, or a store that does all that a store does; returns whether it was.
fn is_refused_or_works(options: Options) -> bool {
    let shown = format!("{options:?}");
    let db = match Db::open_in_memory(options) {
        Ok(db) => db,
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::InvalidInput, "{shown}: {error}");
            return true;
        }
    };
    let works = || {
        for i in 0..40_u32 {
            db.put(i.to_be_bytes(), i.to_be_bytes().repeat(30))?;
        }
        db.put("huge", vec![7; 100_000])?;
        db.flush()?;
        db.delete(3_u32.to_be_bytes())?;
        db.compact()?;
        let found =
            (db.default_tree().count(ScanRange::all())?, db.get_vec("huge")?.map(|value| value.len()));
        assert_eq!(found, (40, Some(100_000)), "{shown}");
        db.scrub()?;
        db.close()
    };
    works().unwrap_or_else(|error| panic!("{shown}: {error}"));
    false
}

#[test]
fn any_option_is_refused_or_works_at_any_value() {
    let mut refused = 0;
    for which in 0.. {
        for value in extremes() {
            let mut options = Options::default();
            if !set(&mut options, which, value) {
                assert!(refused > 40, "only {refused} were refused");
                return;
            }
            refused += usize::from(is_refused_or_works(options));
        }
    }
}

#[test]
fn any_options_together_are_refused_or_work() {
    let mut rng = Rng::new(14);
    let (extremes, mut worked) = (extremes(), 0);
    for _ in 0..200 {
        let mut options = Options::default();
        for which in 0..13 {
            if rng.below(3) == 0 {
                set(&mut options, which, *rng.pick(&extremes));
            }
        }
        worked += usize::from(!is_refused_or_works(options));
    }
    assert!(worked > 10, "only {worked} options were not refused");
}

#[test]
fn what_is_refused_makes_no_directory() {
    let dir = tempfile::tempdir().unwrap();
    let mut options = Options::default();
    options.memtable_bytes = Some(0);
    let error = Db::open(dir.path().join("store"), options).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    assert!(error.to_string().contains("memtable_bytes"), "{error}");
    assert!(!dir.path().join("store").exists());
}

#[test]
fn any_options_of_a_tree_are_refused_or_work() {
    let db = Db::open_in_memory(Options::default()).unwrap();
    for ratio in 0..=u8::MAX {
        for style in CompactionStyle::ALL {
            let options = TreeOptions::default().compaction(*style).size_ratio(ratio);
            match db.create_tree(&format!("{ratio} {style:?}"), options) {
                Ok(tree) => {
                    assert!((2..=32).contains(&ratio));
                    tree.put("key", "value").unwrap();
                }
                Err(error) => assert_eq!(error.kind(), ErrorKind::InvalidInput),
            }
        }
    }
    db.compact().unwrap();
}

// ---- processes ------------------------------------------------------------------------------------------

/// Tables of a few KiB, and merges of them.
fn tiny_tables() -> Options {
    let mut options = Options::default().memory_budget(8 << 20);
    options.memtable_bytes = Some(64 << 10);
    options.table_bytes = 4 << 10;
    options
}

// ---- a disk that has it ---------------------------------------------------------------------------------

/// Repeats `call` as long as it lacks something; counts how often.
fn until_done<T>(lacked: &mut u32, mut call: impl FnMut() -> esker::Result<T>) -> T {
    loop {
        match call() {
            Ok(done) => return done,
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::OutOfResources, "{error}");
                *lacked += 1;
                assert!(*lacked < 1_000, "it never ends");
            }
        }
    }
}

/// A life in which each call is made again when it lacks something; returns how often one did, and how
/// often something was lacking.
fn live(disk: &SimFs, fault: Fault) -> (u32, u64) {
    let (fs, executor) = (Arc::new(disk.clone()), Some(Arc::new(StepExecutor) as Arc<dyn Executor>));
    let env = Env { fs, executor, ..Env::system() };
    let db = Db::open("/db", tiny_tables().env(env)).unwrap();
    disk.inject(fault);
    let (lacked, value) = (&mut 0, |i: u32| i.to_be_bytes().repeat(30));
    let tree = until_done(lacked, || db.tree("tree"));
    for i in 0..3_000_u32 {
        until_done(lacked, || tree.put((i % 1_000).to_be_bytes(), value(i)));
        if i % 300 == 7 {
            until_done(lacked, || tree.put("huge", vec![1; 50_000 + i as usize]));
            until_done(lacked, || tree.delete_range(ScanRange::prefix((i % 1_000).to_be_bytes())));
            for job in JobKind::ALL {
                db.step(job);
            }
        }
    }
    until_done(lacked, || db.flush());
    for i in 0..1_000_u32 {
        until_done(lacked, || tree.get(i.to_be_bytes()));
    }
    until_done(lacked, || db.compact());
    let count = until_done(lacked, || tree.count(ScanRange::all()));
    let huge = until_done(lacked, || tree.get_vec("huge"));
    assert_eq!((count, huge.map(|huge| huge.len())), (998, Some(52_707)));
    assert_eq!(until_done(lacked, || db.stats()).failure, None);
    let hit = disk.faults_hit();
    disk.clear_faults();
    db.close().unwrap();
    (*lacked, hit)
}

#[test]
fn what_lacks_a_descriptor_fails_alone_and_is_done_again() {
    let (mut all_lacked, mut all_hit) = (0, 0);
    for op in [Op::Read, Op::Create, Op::CreateMapped] {
        for n in (1..16).chain([20, 25, 30]) {
            let disk = SimFs::new(n);
            let fault = Fault::new(op, "").nth(n).error(FaultError::OutOfResources);
            let (lacked, hit) = live(&disk, if n % 3 == 0 { fault.chance(0.02, n).forever() } else { fault });
            (all_lacked, all_hit) = (all_lacked + lacked, all_hit + hit);
            let env = Env { fs: Arc::new(disk), ..Env::system() };
            let options = Options::default().env(env);
            let db = Db::open("/db", options.clone()).unwrap();
            assert_eq!(db.tree("tree").unwrap().count(ScanRange::all()).unwrap(), 998);
            db.close().unwrap();
            assert!(esker::check("/db", &options).unwrap().findings.is_empty());
        }
    }
    assert!(all_lacked > 20 && all_hit > 60, "only {all_lacked} calls lacked something, of {all_hit} times");
}

/// A rate that falls without end would tell nobody why.
#[test]
fn a_writer_is_told_of_merges_that_lack_a_descriptor() {
    let disk = SimFs::new(7);
    let (fs, executor) = (Arc::new(disk.clone()), Some(Arc::new(StepExecutor) as Arc<dyn Executor>));
    let db = Db::open("/db", tiny_tables().env(Env { fs, executor, ..Env::system() })).unwrap();
    // Merges read tables, and flushes do not.
    disk.inject(Fault::new(Op::Read, ".table").error(FaultError::OutOfResources).forever());
    let fill = |runs: u64| {
        for i in 0..runs * 100 {
            db.put((i * 7919 % 1_000).to_be_bytes(), [7; 1_000])?;
            for job in JobKind::ALL {
                db.step(job);
            }
        }
        Ok(())
    };
    let error: esker::Error = fill(100).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::OutOfResources, "{error}");
    disk.clear_faults();
    let unmerged = db.stats().unwrap().trees.iter().map(|tree| tree.tables_by_level[0]).max();
    assert!(unmerged > Some(32), "{unmerged:?}");
    while db.step(JobKind::Compact) {}
    fill(20).unwrap();
    db.close().unwrap();
}

#[cfg(target_os = "linux")]
mod linux {
    use std::path::Path;

    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

    use super::*;

    const KEYS: u32 = 8_000;

    /// The stacks of threads in a child that needs no special ones.
    const STACK: u64 = 2 << 20;

    /// Runs `test`, which is the body of the test `name`, in a process of its own and in an empty directory. The threads of
    /// that process have stacks of `stack` bytes.
    fn in_child(name: &str, stack: u64, test: impl FnOnce(&Path)) {
        let stack = stack.to_string();
        alone_with(&format!("limits::linux::{name}"), &[("RUST_MIN_STACK", &stack)], test);
    }

    /// This process may have no more than `most` of `resource`.
    fn limit(resource: Resource, most: u64) {
        let maximum = getrlimit(resource).maximum;
        setrlimit(resource, Rlimit { current: Some(most), maximum }).unwrap();
    }

    fn fill(db: &Db) -> esker::Result<()> {
        for i in 0..KEYS {
            db.put((i * 7919 % KEYS).to_be_bytes(), i.to_be_bytes().repeat(30))?;
        }
        Ok(())
    }

    fn read_all(db: &Db) {
        for i in (0..KEYS).step_by(7) {
            assert!(db.contains(i.to_be_bytes()).unwrap());
        }
        assert_eq!(db.default_tree().count(ScanRange::all()).unwrap(), u64::from(KEYS));
    }

    #[test]
    fn a_store_of_many_tables_lives_with_few_descriptors() {
        in_child("a_store_of_many_tables_lives_with_few_descriptors", STACK, |dir| {
            limit(Resource::Nofile, 64);
            for _ in 0..2 {
                let db = Db::open(dir, tiny_tables()).unwrap();
                for i in 0..100_u32 {
                    db.put(format!("huge {i}"), vec![1; 40_000]).unwrap();
                }
                fill(&db).unwrap();
                db.flush().unwrap();
                for i in 0..100_u32 {
                    assert_eq!(
                        db.get_vec(format!("huge {i}")).unwrap().map(|value| value.len()),
                        Some(40_000)
                    );
                    db.delete(format!("huge {i}")).unwrap();
                }
                read_all(&db);
                db.compact().unwrap();
                read_all(&db);
                let stats = db.stats().unwrap();
                assert_eq!(stats.failure, None);
                let tables: u64 =
                    stats.trees.iter().map(|tree| tree.tables_by_level.iter().sum::<u64>()).sum();
                assert!(
                    tables > 200 && stats.open_tables < 64,
                    "{} of {tables} tables are open",
                    stats.open_tables
                );
                db.close().unwrap();
            }
        });
    }

    /// Opens files until no more can be.
    fn hoard(files: &mut Vec<File>) {
        while let Ok(file) = File::open("/dev/null") {
            files.push(file);
        }
    }

    #[test]
    fn a_process_without_descriptors_gets_errors_and_then_goes_on() {
        in_child("a_process_without_descriptors_gets_errors_and_then_goes_on", STACK, |dir| {
            limit(Resource::Nofile, 128);
            let db = Db::open(dir, tiny_tables()).unwrap();
            fill(&db).unwrap();
            db.flush().unwrap();
            db.compact().unwrap();
            read_all(&db);
            db.put("more", "to flush").unwrap();
            let mut files = Vec::new();
            // The store gives up the tables that it has open for those that it needs, as long as it has some.
            let refused = loop {
                hoard(&mut files);
                let opened = (0..KEYS).step_by(97).try_for_each(|i| db.contains(i.to_be_bytes()).map(drop));
                // The put is refused if merges have fallen behind, since these lack descriptors too.
                let written = opened.and_then(|()| db.put("more", "to flush"));
                if let Err(error) = written.and_then(|()| db.flush()) {
                    break error;
                }
            };
            assert_eq!(refused.kind(), ErrorKind::OutOfResources, "{refused}");
            // In the background too: a writer is told when it would have to wait for that.
            let error = loop {
                hoard(&mut files);
                if let Err(error) = fill(&db) {
                    break error;
                }
            };
            assert_eq!(error.kind(), ErrorKind::OutOfResources, "{error}");
            assert!(!files.is_empty());
            drop(files);
            // What has lacked one is not tried again at once.
            while let Err(error) = fill(&db) {
                assert_eq!(error.kind(), ErrorKind::OutOfResources, "{error}");
            }
            read_all_and_more(&db);
            db.flush().unwrap();
            db.compact().unwrap();
            read_all_and_more(&db);
            assert_eq!(db.stats().unwrap().failure, None);
            db.close().unwrap();
            let db = Db::open(dir, tiny_tables()).unwrap();
            read_all_and_more(&db);
            drop(db);
            assert!(esker::check(dir, &Options::default()).unwrap().findings.is_empty());
        });
    }

    /// Merging is slow here, for each table is a file of 4 KiB.
    #[test]
    fn writers_who_outrun_merging_leave_scans_the_descriptors_that_they_need() {
        in_child("writers_who_outrun_merging_leave_scans_the_descriptors_that_they_need", STACK, |dir| {
            limit(Resource::Nofile, 128);
            let mut options = tiny_tables();
            options.memtable_bytes = Some(16 << 10);
            let db = Db::open(dir, options).unwrap();
            for _ in 0..2 {
                fill(&db).unwrap();
                assert_eq!(db.default_tree().count(ScanRange::all()).unwrap(), u64::from(KEYS));
            }
            db.close().unwrap();
        });
    }

    fn read_all_and_more(db: &Db) {
        assert_eq!(db.default_tree().count(ScanRange::all()).unwrap(), u64::from(KEYS) + 1);
    }

    /// Bytes of address space that this process has.
    fn address_space() -> u64 {
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmSize:")).unwrap();
        line.trim().strip_suffix(" kB").unwrap().parse::<u64>().unwrap() << 10
    }

    #[test]
    fn a_store_opens_with_two_threads_and_says_what_it_lacks_with_one() {
        const LARGE: u64 = 1 << 30;
        in_child("a_store_opens_with_two_threads_and_says_what_it_lacks_with_one", LARGE, |dir| {
            for threads in 0..=5 {
                limit(Resource::As, address_space() + threads * LARGE + LARGE / 2);
                let opened = Db::open(dir, tiny_tables());
                if threads < 2 {
                    let error = opened.unwrap_err();
                    assert_eq!(error.kind(), ErrorKind::OutOfResources);
                    assert!(error.to_string().contains("ulimit"), "{error}");
                    continue;
                }
                // All jobs are served: flushes, merges, and space that comes back.
                let db = opened.unwrap();
                fill(&db).unwrap();
                db.put("huge", vec![1; 1 << 20]).unwrap();
                db.delete("huge").unwrap();
                read_all(&db);
                db.close().unwrap();
            }
        });
    }
}
