//! The events that a subscriber of the crate `tracing` gets.

use std::collections::BTreeMap;
use std::fmt::{Debug, Write};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use esker::env::{JobKind, StepExecutor};
use esker::fs::FileSystem;
use esker::fs::sim::{Fault, Op, SimFs};
use esker::{Db, ErrorKind, Options};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

use crate::common::{alone, world};

/// Collects events of this thread.
#[derive(Clone, Default)]
struct Collector {
    events: Arc<Mutex<Vec<Told>>>,
}

#[derive(Debug, Clone)]
struct Told {
    level: Level,
    name: String,
    fields: BTreeMap<&'static str, String>,
}

impl Told {
    fn number(&self, field: &str) -> u64 {
        self.fields
            .get(field)
            .and_then(|text| text.parse().ok())
            .unwrap_or_else(|| panic!("{field}: {self:?}"))
    }
}

impl Visit for Told {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        let mut text = String::new();
        write!(text, "{value:?}").unwrap();
        match field.name() {
            "message" => self.name = text,
            name => drop(self.fields.insert(name, text)),
        }
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.fields.insert(field.name(), value.to_owned());
    }
}

impl Subscriber for Collector {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target() == "esker"
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut told =
            Told { level: *event.metadata().level(), name: String::new(), fields: BTreeMap::new() };
        event.record(&mut told);
        self.events.lock().unwrap().push(told);
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

impl Collector {
    /// The events of that name since the last call of this; others are dropped.
    fn take(&self, name: &str) -> Vec<Told> {
        let all = std::mem::take(&mut *self.events.lock().unwrap());
        all.into_iter().filter(|told| told.name == name).collect()
    }

    fn take_one(&self, name: &str) -> Told {
        let found = self.take(name);
        assert_eq!(found.len(), 1, "{name}: {found:?}");
        found[0].clone()
    }
}

/// Runs `body` with a subscriber in a process of its own: `tracing` asks once whether the events of a place in the code have
/// a subscriber, and the other tests of this program have none.
fn subscribed(test: &str, body: impl FnOnce(&Collector)) {
    alone(&format!("events::{test}"), |_| {
        let collector = Collector::default();
        tracing::subscriber::with_default(collector.clone(), || body(&collector));
    });
}

fn options(disk: &SimFs) -> Options {
    let env = world(Arc::new(disk.clone()), 1, Some(Arc::new(StepExecutor)));
    Options::default().env(env).memory_budget(8 << 20)
}

fn open(disk: &SimFs) -> Db {
    Db::open("/store", options(disk)).unwrap()
}

#[test]
fn opening_flushes_and_merges_are_told_with_their_figures() {
    subscribed("opening_flushes_and_merges_are_told_with_their_figures", |collector| {
        let disk = SimFs::new(1);
        let db = open(&disk);
        let opened = collector.take_one("opened");
        assert_eq!((opened.level, opened.number("records")), (Level::INFO, 0));
        (0..100_u32).for_each(|i| db.put(i.to_be_bytes(), [7; 100]).unwrap());
        let killed = disk.kill();
        drop(db);

        collector.take("");
        let db = open(&killed);
        let told = std::mem::take(&mut *collector.events.lock().unwrap());
        let names: Vec<&str> = told.iter().map(|told| told.name.as_str()).collect();
        assert_eq!(names, ["flushed", "opened"], "what was recovered is written to a table");
        let (flushed, opened) = (&told[0], &told[1]);
        assert_eq!((flushed.number("trees"), flushed.number("tables")), (1, 1));
        assert!(flushed.number("bytes") > 1000 && flushed.fields.contains_key("took_us"), "{flushed:?}");
        assert_eq!((opened.number("records"), opened.number("trees")), (100, 1));
        assert!(opened.number("bytes") > 100 * 100, "{opened:?}");
        assert_eq!(opened.fields["path"], "/store");
        assert_eq!(opened.fields["read_only"], "false");

        db.put(7_u32.to_be_bytes(), "overlaps the other table").unwrap();
        db.flush().unwrap();
        assert_eq!(collector.take_one("flushed").number("tables"), 1);
        db.compact().unwrap();
        let merged = collector.take_one("merged");
        assert_eq!((merged.level, merged.fields["tree"].as_str()), (Level::INFO, "default"));
        assert_eq!((merged.number("tables"), merged.number("written_tables")), (2, 1));
        assert!(merged.number("bytes") > merged.number("written_bytes"), "{merged:?}");
        db.close().unwrap();
    });
}

#[test]
fn stalls_are_told_when_they_begin_and_end() {
    subscribed("stalls_are_told_when_they_begin_and_end", |collector| {
        let db = open(&SimFs::new(1));
        for round in 0..20_u32 {
            (0..50_u32).for_each(|i| db.put(i.to_be_bytes(), round.to_be_bytes()).unwrap());
            db.flush().unwrap();
        }
        let slowed = collector.take_one("writers are slowed");
        assert_eq!(slowed.level, Level::WARN);
        assert!(slowed.number("runs") >= 10 && slowed.number("bytes_per_second") > 0, "{slowed:?}");
        // So much that the writer has to wait.
        (0..10_u32).for_each(|i| db.put(i.to_be_bytes(), vec![0; 30_000]).unwrap());
        let stalls = collector.take("stalled");
        assert!(stalls.iter().any(|told| told.fields["cause"] == "throttled"), "{stalls:?}");
        while db.step(JobKind::Compact) {}
        assert_eq!(collector.take("writers are no longer slowed").len(), 1);
        db.close().unwrap();
    });
}

#[test]
fn a_full_disk_is_told_once_and_so_is_its_end() {
    subscribed("a_full_disk_is_told_once_and_so_is_its_end", |collector| {
        let disk = SimFs::new(1);
        let db = open(&disk);
        disk.set_capacity(Some(16 << 20));
        let mut written = 0_u32;
        let refused = loop {
            match db.put(written.to_be_bytes(), [7; 4000]) {
                Ok(()) => written += 1,
                Err(error) => break error,
            }
            assert!(written < 20_000, "the disk never became full");
            JobKind::ALL.iter().for_each(|&job| while db.step(job) {});
        };
        assert_eq!(refused.kind(), ErrorKind::OutOfSpace);
        assert!((0..10).all(|i| db.put([i], "no room").is_err()));
        let told = collector.take_one("disk full");
        assert_eq!(told.level, Level::WARN);
        assert!(told.fields["error"].contains("RESERVE holds"), "{told:?}");
        disk.set_capacity(None);
        db.put("more", "room again").unwrap();
        assert_eq!(collector.take_one("disk has room again").level, Level::INFO);
        db.close().unwrap();
    });
}

/// The end of all writes is told where it happens, with its cause.
#[test]
fn a_store_that_fails_says_why() {
    subscribed("a_store_that_fails_says_why", |collector| {
        let disk = SimFs::new(1);
        let db = open(&disk);
        db.put("a", "1").unwrap();
        let is_manifest = |path: &PathBuf| path.to_string_lossy().contains("manifest-");
        disk.paths().into_iter().filter(is_manifest).for_each(|path| disk.remove_file(&path).unwrap());
        assert_eq!(db.flush().unwrap_err().kind(), ErrorKind::Poisoned);
        assert_eq!(db.put("b", "2").unwrap_err().kind(), ErrorKind::Poisoned);
        // The background work, which ends too, may be told next.
        let told = collector.take("failed");
        assert_eq!(told[0].level, Level::ERROR);
        assert!(told[0].fields["error"].contains("has removed or renamed the manifest"), "{told:?}");
        drop(db.close());

        let disk = SimFs::new(2);
        let db = open(&disk);
        db.put("a", "1").unwrap();
        collector.take("");
        disk.inject(Fault::new(Op::Sync, ".log"));
        assert!(db.sync().is_err());
        let told = collector.take("failed");
        assert!(told[0].fields["error"].contains("a sync of the log failed"), "{told:?}");
        drop(db.close());

        let db = open(&SimFs::new(3));
        db.put("a", "1").unwrap();
        collector.take("");
        db.close().unwrap();
        assert_eq!(collector.take("failed").len(), 0, "a close is not a failure");
    });
}

#[test]
fn damage_is_told_with_its_place() {
    subscribed("damage_is_told_with_its_place", |collector| {
        let disk = SimFs::new(1);
        let db = open(&disk);
        (0..100_u32).for_each(|i| db.put(i.to_be_bytes(), [7; 100]).unwrap());
        db.flush().unwrap();
        db.close().unwrap();
        let table = disk.paths().into_iter().find(|path| path.extension().is_some_and(|end| end == "table"));
        let table = table.expect("the table");
        disk.flip_byte(&table, 100, 0xff).unwrap();

        let db = open(&disk);
        collector.take("");
        assert_eq!(db.get([0; 4]).unwrap_err().kind(), ErrorKind::Corruption);
        let read = collector.take_one("damage");
        assert_eq!((read.level, read.number("offset")), (Level::ERROR, 0));
        assert_eq!(read.fields["path"], table.display().to_string());
        assert_eq!(db.scrub().unwrap().findings.len(), 1);
        assert!(collector.take("damage").iter().all(|told| told.fields["path"] == read.fields["path"]));
        db.close().unwrap();
    });
}
