//! Reading everything of an open store now and then: what is damaged is named, and the store goes on.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use esker::env::{Clock, Env, JobKind, StepExecutor};
use esker::fs::FileSystem;
use esker::fs::sim::SimFs;
use esker::{Compression, Db, Finding, Options, TreeOptions};

use crate::common::{ManualClock, Rng, is_full_run, seeds, world};

const STORE: &str = "/store";
const HOUR: Duration = Duration::from_secs(3600);
const WEEK: Duration = Duration::from_secs(7 * 24 * 3600);

/// A store of which nothing moves but by steps, and no time passes but by sleeping.
struct Place {
    disk: SimFs,
    clock: Arc<ManualClock>,
    db: Db,
}

fn options(disk: &SimFs, clock: &Arc<ManualClock>) -> Options {
    let env = world(Arc::new(disk.clone()), 1, Some(Arc::new(StepExecutor)));
    let env = Env { clock: Arc::<ManualClock>::clone(clock), ..env };
    let mut options = Options::default().memory_budget(8 << 20).separate_at(1000).env(env);
    options.memtable_bytes = Some(16 << 10);
    options.table_bytes = 8 << 10;
    options.blob_file_bytes = 40_000;
    options.scrub_rate = 100_000;
    options
}

impl Place {
    /// Tables of one tree and of several, with and without compression, and blob files of every kind.
    fn new(seed: u64) -> Place {
        let (disk, clock) = (SimFs::new(seed), Arc::new(ManualClock::default()));
        let db = Db::open(STORE, options(&disk, &clock)).unwrap();
        let place = Place { disk, clock, db };
        let packed = TreeOptions::default().compression(Compression::Lz4);
        place.db.create_tree("packed", packed).unwrap();
        let mut rng = Rng::new(seed);
        for round in 0..3 {
            for name in ["default", "packed", "small"] {
                let tree = place.db.tree(name).unwrap();
                for i in 0..if name == "small" { 5 } else { 150 } {
                    let len = if rng.one_in(10) { 1000 + rng.below(9000) } else { rng.below(200) };
                    let value: Vec<u8> = (0..len).map(|at| (at * 31 + round) as u8).collect();
                    tree.put(format!("{i:05}"), value).unwrap();
                }
            }
            let long: Vec<u8> = (0..200_000).map(|at: u32| (at % 251) as u8).collect();
            let mut writer = place.db.default_tree().writer(format!("long{round}")).unwrap();
            std::io::Write::write_all(&mut writer, &long).unwrap();
            writer.commit().unwrap();
            place.settle();
        }
        place.db.flush().unwrap();
        place.db.sync().unwrap();
        place.settle();
        place
    }

    fn settle(&self) {
        while JobKind::ALL.iter().any(|&job| self.db.step(job)) {}
    }

    fn files(&self, kind: &str) -> Vec<PathBuf> {
        let of_kind = |path: &PathBuf| path.starts_with(STORE) && path.extension().is_some_and(|e| e == kind);
        self.disk.paths().into_iter().filter(of_kind).collect()
    }

    /// What `check` finds in a copy of the files.
    fn check(&self) -> BTreeSet<Finding> {
        let copy = self.disk.kill();
        esker::check(STORE, &options(&copy, &self.clock)).unwrap().findings.into_iter().collect()
    }

    fn damage(&self) -> BTreeSet<Finding> {
        self.db.stats().unwrap().damage.into_iter().collect()
    }

    /// Has the background read for `time`, a quarter of a second after the other.
    fn pass(&self, time: Duration) {
        for _ in 0..time.as_millis() / 250 {
            self.clock.sleep(Duration::from_millis(250));
            self.db.step(JobKind::Compact);
        }
    }
}

/// Flips bytes where `check` notices.
fn flip_some(place: &Place, rng: &mut Rng, times: usize) {
    for _ in 0..times {
        let files = [place.files("table"), place.files("blob")].concat();
        let path = rng.pick(&files);
        let len = place.disk.file_len(path).unwrap();
        place.disk.flip_byte(path, rng.below(len), 1 + rng.below(255) as u8).unwrap();
    }
}

#[test]
fn at_once_it_names_what_check_names() {
    let mut named = 0;
    for seed in seeds(30) {
        let place = Place::new(seed);
        let sound = place.db.scrub().unwrap();
        assert_eq!((sound.findings.as_slice(), place.check().len()), (&[][..], 0), "ESKER_SEED={seed}");
        assert!(sound.blobs >= 3 && sound.entries >= 300, "{sound:?}");
        let read: u64 = [place.files("table"), place.files("blob")]
            .concat()
            .iter()
            .map(|path| place.disk.allocated_bytes(path).unwrap())
            .sum();
        assert!(sound.bytes > read / 2 && sound.bytes <= read, "{} of {read} bytes", sound.bytes);

        let mut rng = Rng::new(seed);
        let times = 1 + rng.index(4);
        flip_some(&place, &mut rng, times);
        if rng.one_in(4) {
            place.disk.remove_file(rng.pick::<PathBuf>(&place.files("table"))).unwrap();
        }
        if rng.one_in(4) {
            place.disk.remove_file(rng.pick::<PathBuf>(&place.files("blob"))).unwrap();
        }
        let report = place.db.scrub().unwrap();
        let found: BTreeSet<Finding> = report.findings.into_iter().collect();
        assert_eq!(found, place.check(), "ESKER_SEED={seed}");
        assert_eq!(place.damage(), found, "ESKER_SEED={seed}");
        named += found.len();
        // It goes on, and takes writes.
        place.db.put("and", "on").unwrap();
        assert_eq!(place.db.stats().unwrap().failure, None);
    }
    assert!(named > 30 || !is_full_run(), "{named}");
}

#[test]
fn the_background_reads_everything_once_a_week_and_no_faster_than_it_may() {
    let place = Place::new(1);
    place.pass(Duration::from_secs(20));
    assert_eq!(place.db.stats().unwrap().scrubbed_bytes, 0, "too early");
    let path = place.files("table").pop().unwrap();
    place.disk.flip_byte(&path, 10, 1).unwrap();
    let damaged = place.check();
    assert_eq!(damaged.len(), 1);

    place.clock.sleep(HOUR);
    let mut seconds = 0;
    while place.db.stats().unwrap().scrubs == 0 {
        place.pass(Duration::from_secs(1));
        seconds += 1;
        let read = place.db.stats().unwrap().scrubbed_bytes;
        // What is read at once of a huge value may go beyond.
        assert!(read <= 100_000 * seconds + (256 << 10), "{read} bytes in {seconds} seconds");
        // The last step ends where the files do.
        let is_done = place.db.stats().unwrap().scrubs > 0;
        assert!(is_done || read + 50_000 >= 100_000 * seconds, "only {read} bytes in {seconds} seconds");
        assert!(seconds < 100);
    }
    assert!(seconds > 5, "{seconds}");
    assert_eq!(place.damage(), damaged);

    let bytes = place.db.stats().unwrap().scrubbed_bytes;
    place.pass(Duration::from_secs(20));
    place.clock.sleep(WEEK - 2 * HOUR);
    place.pass(Duration::from_secs(20));
    assert_eq!(place.db.stats().unwrap().scrubbed_bytes, bytes, "it has begun again too early");
    // By then the damaged table is gone.
    place.disk.flip_byte(&path, 10, 1).unwrap();
    place.clock.sleep(2 * HOUR);
    place.pass(Duration::from_secs(100));
    let stats = place.db.stats().unwrap();
    assert_eq!((stats.scrubs, stats.damage), (2, Vec::new()));
}

#[test]
fn with_a_rate_of_0_nothing_is_read_unasked() {
    let Place { disk, clock, db } = Place::new(2);
    db.close().unwrap();
    let mut options = options(&disk, &clock);
    options.scrub_rate = 0;
    let place = Place { db: Db::open(STORE, options).unwrap(), disk, clock };
    place.settle();
    place.clock.sleep(WEEK);
    place.pass(Duration::from_secs(20));
    assert_eq!(place.db.stats().unwrap().scrubbed_bytes, 0);
    place.db.scrub().unwrap();
    assert!(place.db.stats().unwrap().scrubbed_bytes > 0);
}

/// Tables that are merged away and values that are freed while they are read are no damage.
#[test]
fn what_changes_meanwhile_is_no_damage() {
    for seed in seeds(10) {
        let place = Place::new(seed);
        let mut rng = Rng::new(seed);
        place.clock.sleep(Duration::from_millis(250));
        place.db.step(JobKind::Compact);
        place.clock.sleep(HOUR);
        for round in 0..60_u8 {
            for _ in 0..20 {
                let key = format!("{:05}", rng.below(150));
                if rng.one_in(3) {
                    place.db.delete(&key).unwrap();
                } else {
                    let len = if rng.one_in(3) { 1000 + rng.below(30_000) } else { rng.below(200) };
                    place.db.put(&key, vec![round; len as usize]).unwrap();
                }
            }
            if round == 30 {
                place.db.compact().unwrap();
            }
            place.pass(Duration::from_millis(500));
            place.settle();
        }
        place.pass(Duration::from_secs(60));
        let stats = place.db.stats().unwrap();
        assert!(stats.scrubs >= 1 && stats.damage.is_empty(), "ESKER_SEED={seed}: {stats:?}");
    }
}
