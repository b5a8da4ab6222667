//! The limits of a process, and those of options: running into one is an error of that
//! call, which says what to do, and not the end of the store.

#![expect(clippy::unwrap_used, reason = "a test that uses up what there is")]

use std::path::Path;

use esker::{CachePolicy, CompactionStyle, Db, ErrorKind, Options, ScanRange, TreeOptions};

mod common;

use common::Rng;

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
        12 => options.cache_policy = CachePolicy::ALL[size % CachePolicy::ALL.len()],
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

/// Set in a child process: the directory that it is to work in.
const CHILD: &str = "ESKER_LIMITS_CHILD";

/// Runs the test `name` again in a process of its own, in `dir`, whose threads have stacks of `stack` bytes.
fn in_child(name: &str, dir: &Path, stack: usize) {
    let child = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", name, "--nocapture"])
        .env(CHILD, dir)
        .env("RUST_MIN_STACK", stack.to_string())
        .output()
        .unwrap();
    let text = [child.stdout, child.stderr].map(|text| String::from_utf8_lossy(&text).into_owned()).concat();
    assert!(child.status.success() && text.contains("1 passed"), "{text}");
}

/// The directory of a child process, in one.
fn child_dir() -> Option<std::path::PathBuf> {
    std::env::var_os(CHILD).map(Into::into)
}

/// Tables of a few KiB, and merges of them.
fn tiny_tables() -> Options {
    let mut options = Options::default().memory_budget(8 << 20);
    options.memtable_bytes = Some(64 << 10);
    options.table_bytes = 4 << 10;
    options
}

#[cfg(target_os = "linux")]
mod linux {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

    use super::*;

    const KEYS: u32 = 8_000;

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

    /// Bytes of address space that this process has.
    fn address_space() -> u64 {
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmSize:")).unwrap();
        line.trim().strip_suffix(" kB").unwrap().parse::<u64>().unwrap() << 10
    }

    #[test]
    fn a_store_opens_with_two_threads_and_says_what_it_lacks_with_one() {
        const STACK: u64 = 1 << 30;
        let Some(dir) = child_dir() else {
            let dir = tempfile::tempdir().unwrap();
            let name = "linux::a_store_opens_with_two_threads_and_says_what_it_lacks_with_one";
            in_child(name, dir.path(), STACK as usize);
            return;
        };
        for threads in 0..=5 {
            limit(Resource::As, address_space() + threads * STACK + STACK / 2);
            let opened = Db::open(&dir, tiny_tables());
            if threads < 2 {
                let error = opened.unwrap_err();
                assert_eq!(error.kind(), ErrorKind::OutOfResources);
                assert!(error.to_string().contains("ulimit"), "{error}");
                continue;
            }
            // All lanes are served: flushes, merges, and space that comes back.
            let db = opened.unwrap();
            fill(&db).unwrap();
            db.put("huge", vec![1; 1 << 20]).unwrap();
            db.delete("huge").unwrap();
            read_all(&db);
            db.close().unwrap();
        }
    }
}
