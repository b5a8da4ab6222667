//! What one process measures: one store with values of one size, or one mix.
//!
//! ```text
//! put  settle | first later | cold | update  synced  delete  space
//!      closed and opened   ^      ^ the files out of the page cache; before and after: direct reads
//! ```
//! Each `|` closes the store and opens it again. Reads are in random order into one buffer, whose pages are there
//! before. The process prints its cells, and as its last line what went wrong, if something did.

use super::cell::{Cell, Watch};
use super::cold::{direct_read, files, make_cold, make_warm, settle};
use super::plan::{Size, shuffle};
use super::stores::{self, Huge, esker::Esker};
use super::values::{Buffer, Pool, key};
use crate::data::Draws;
use crate::process;
use crate::stores::Result;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Threads of the paper's figure 9.
pub(super) const THREADS: [usize; 5] = [1, 2, 3, 4, 5];

/// Cold reads are of so many values: of all, readahead would bring most with their neighbours.
const COLD_READS: usize = 100;
/// How many values ahead Esker is told which: as many as a direct read has requests.
const AHEAD: usize = 8;
/// Synced puts write no more than this, but two at least.
const SYNCED_BYTES: usize = 128 << 20;
/// Nobody waits longer for space.
const SPACE_LIMIT: Duration = Duration::from_secs(5);
/// What may stay beside a tenth of the data when space counts as given back.
const SPACE_SLACK: u64 = 4 << 20;

/// One store, one size.
pub(super) struct Child {
    pub(super) store: String,
    pub(super) row: String,
    pub(super) dir: PathBuf,
    pub(super) seed: u64,
}

impl Child {
    pub(super) fn print(&self, what: &str, extra: f64, mut cell: Cell) {
        (cell.store, cell.row, cell.what) = (self.store.clone(), self.row.clone(), what.to_owned());
        cell.extra = extra;
        println!("{}", cell.line());
    }

    pub(super) fn open(&self) -> Result<Box<dyn Huge>> {
        stores::open(&self.store, &self.dir)
    }

    pub(super) fn key(&self, number: usize) -> [u8; 16] {
        key(Draws::new(self.seed, 1), number)
    }

    fn order(&self, count: usize, stream: u64) -> Vec<usize> {
        let mut order: Vec<usize> = (0..count).collect();
        shuffle(&mut order, Draws::new(self.seed, stream));
        order
    }

    /// Everything about `count` values of one size.
    pub(super) fn run(&self, size: &Size, count: usize) -> Result<()> {
        let mut run = Run {
            child: self,
            pool: Pool::new(size.bytes, self.seed),
            buffer: Buffer::new(size.bytes),
            length: size.bytes,
            count,
        };
        let store = self.open()?;
        let empty = process::disk_usage(&self.dir).0;
        run.put(&*store)?;
        store.close()?;
        run.warm()?;
        run.cold()?;
        let mut store = self.open()?;
        run.update(&*store)?;
        run.synced(&*store)?;
        settle(&self.dir);
        run.delete(&mut *store, empty)?;
        store.close()
    }
}

struct Run<'a> {
    child: &'a Child,
    pool: Pool,
    buffer: Buffer,
    length: usize,
    count: usize,
}

impl Run<'_> {
    fn put(&self, store: &dyn Huge) -> Result<()> {
        let before = process::anon_bytes();
        let anon = process::AnonWatch::start();
        let mut watch = Watch::start();
        for i in 0..self.count {
            watch.time(|| store.put(&self.child.key(i), self.pool.value(i, self.length), false))?;
        }
        let busy = settle(&self.child.dir).as_secs_f64();
        let memory = anon.peak_bytes().saturating_sub(before) as f64 / 1e6;
        let cell = watch.finish(self.length as u64);
        self.child.print("memory", memory, cell.clone());
        self.child.print("put", busy, cell);
        Ok(())
    }

    /// Reads `limit` values, each once, by `get`, and compares them with what was put if `compare`.
    fn read(
        &mut self,
        stream: u64,
        limit: usize,
        compare: bool,
        mut get: impl FnMut(&[u8], &mut [u8]) -> Result<Option<usize>>,
    ) -> Result<Cell> {
        let mut watch = Watch::start();
        for i in self.child.order(self.count, stream).into_iter().take(limit) {
            let key = self.child.key(i);
            let found = watch.time(|| get(&key, &mut self.buffer))?;
            let expected = self.pool.value(i, self.length);
            let (ends, few) = (self.length - 64, 64);
            let same = if compare {
                *self.buffer == *expected
            } else {
                self.buffer[..few] == expected[..few] && self.buffer[ends..] == expected[ends..]
            };
            if found != Some(self.length) || !same {
                return Err(format!("value {i} is not what was put: {found:?} bytes").into());
            }
        }
        Ok(watch.finish(self.length as u64))
    }

    /// From the page cache: right after opening, when a store that verifies must do so, and later.
    fn warm(&mut self) -> Result<()> {
        make_warm(&self.child.dir)?;
        let store = self.child.open()?;
        let first = self.read(2, self.count, true, |key, into| store.get(key, into))?;
        self.child.print("first", 0.0, first);
        for stream in [3, 4, 6, 7] {
            let later = self.read(stream, self.count, false, |key, into| store.get(key, into))?;
            // Those before the last warm what no first read warms.
            if stream == 7 {
                self.child.print("later", 0.0, later);
            }
        }
        store.close()?;
        if self.child.store == "esker" {
            for threads in THREADS {
                let store = Esker::open(&self.child.dir, None)?;
                let cell = self.read(5, self.count, false, |key, into| store.get_by(threads, key, into))?;
                self.child.print(&format!("warm-by-{threads}"), 0.0, cell);
                Box::new(store).close()?;
            }
        }
        Ok(())
    }

    /// From the device, or from what a virtual machine's host keeps of it.
    fn cold(&mut self) -> Result<()> {
        make_cold(&self.child.dir)?;
        let before = self.direct()?;
        let store = self.child.open()?;
        let cell = self.read(6, COLD_READS, false, |key, into| store.get(key, into))?;
        self.child.print("cold", 0.0, cell);
        store.close()?;
        if let (Some(before), Some(after)) = (before, self.direct()?) {
            let cell = Watch::start().finish(self.length as u64);
            let us = (before + after) / 2.0;
            self.child.print("direct", 0.0, Cell { mean_us: us, all_us: us, ..cell });
        }
        if self.child.store == "esker" {
            self.cold_ahead()?;
            for threads in THREADS {
                make_cold(&self.child.dir)?;
                let store = Esker::open(&self.child.dir, None)?;
                let cell = self.read(7, COLD_READS, false, |key, into| store.get_by(threads, key, into))?;
                self.child.print(&format!("cold-by-{threads}"), 0.0, cell);
                Box::new(store).close()?;
            }
        }
        Ok(())
    }

    /// As many at once as a direct read has.
    fn cold_ahead(&mut self) -> Result<()> {
        make_cold(&self.child.dir)?;
        let store = Esker::open(&self.child.dir, None)?;
        let order: Vec<usize> = self.child.order(self.count, 9).into_iter().take(COLD_READS).collect();
        let keys: Vec<_> = order.iter().map(|&i| self.child.key(i)).collect();
        let (pool, length) = (&self.pool, self.length);
        let begun = Instant::now();
        store.get_ahead(&keys, AHEAD, &mut self.buffer, |i, found| {
            let expected = pool.value(order[i], length);
            let same = found.len() == length && found[..64] == expected[..64];
            if same { Ok(()) } else { Err("a value is not what was put".into()) }
        })?;
        let us = begun.elapsed().as_secs_f64() * 1e6 / keys.len() as f64;
        let cell = Watch::start().finish(length as u64);
        self.child.print("cold-ahead", 0.0, Cell { mean_us: us, all_us: us, ..cell });
        Box::new(store).close()
    }

    /// Microseconds for each value's bytes when the files of values are read past the page cache. Only where it is
    /// known which files those are.
    fn direct(&self) -> Result<Option<f64>> {
        let mut paths = files(&self.child.dir);
        match &self.child.store[..] {
            "esker" => paths.retain(|path| path.extension().is_some_and(|e| e == "blob")),
            "files" => {}
            _ => return Ok(None),
        }
        let read = direct_read(&paths, self.length, Draws::new(self.child.seed, 8))?;
        Ok(read.map(|(bytes, time)| time.as_secs_f64() * 1e6 * self.length as f64 / (bytes as f64).max(1.0)))
    }

    /// The paper's UPDATE: DELETE, then PUT.
    fn update(&self, store: &dyn Huge) -> Result<()> {
        let mut watch = Watch::start();
        for i in 0..(self.count / 4).clamp(2, 100).min(self.count) {
            let (key, value) = (self.child.key(i), self.pool.value(self.count + i, self.length));
            watch.time(|| store.delete(&key).and_then(|()| store.put(&key, value, false)))?;
        }
        self.child.print("update", 0.0, watch.finish(self.length as u64));
        Ok(())
    }

    /// New keys, each durable before the next.
    fn synced(&self, store: &dyn Huge) -> Result<()> {
        settle(&self.child.dir);
        let mut watch = Watch::start();
        for i in 0..self.synced_count() {
            let number = self.count + i;
            watch.time(|| store.put(&self.child.key(number), self.pool.value(number, self.length), true))?;
        }
        self.child.print("synced", 0.0, watch.finish(self.length as u64));
        Ok(())
    }

    fn synced_count(&self) -> usize {
        (SYNCED_BYTES / self.length).clamp(2, 100).min(self.count)
    }

    /// Each delete alone, and from the first of them until the directory is as small as that of an empty store.
    fn delete(&self, store: &mut dyn Huge, empty: u64) -> Result<()> {
        let count = self.count + self.synced_count();
        let aim = empty + SPACE_SLACK + (count * self.length) as u64 / 10;
        let space = Watch::start();
        let mut watch = Watch::start();
        let begun = Instant::now();
        for i in self.child.order(count, 9) {
            watch.time(|| store.delete(&self.child.key(i)))?;
        }
        let total = watch.total().as_secs_f64();
        self.child.print("delete", total, watch.finish(self.length as u64));
        store.compact()?;
        let mut left = process::disk_usage(&self.child.dir).0;
        while left > aim && begun.elapsed() < SPACE_LIMIT {
            std::thread::sleep(Duration::from_millis(2));
            left = process::disk_usage(&self.child.dir).0;
        }
        let us = begun.elapsed().as_secs_f64() * 1e6;
        let missing = if left > aim { (left - empty) as f64 / 1e6 } else { 0.0 };
        let cell = space.finish((count * self.length) as u64);
        self.child.print("space", missing, Cell { count: count as u64, mean_us: us, all_us: us, ..cell });
        Ok(())
    }
}
