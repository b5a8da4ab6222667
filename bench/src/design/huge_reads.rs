//! `huge-reads`: a huge value beside a plain file of the same bytes, every way of reading, warm and cold.
//!
//! For each size some values go into a store and some files into a directory. Each round opens the store anew and
//! visits all of them in random order; at each, every way is timed once, one after the other, so that whatever else
//! the machine does meets all of them alike. The figures are medians; the speed is that of the whole value.

use crate::args::Args;
use crate::data::Draws;
use crate::stores::Result;
use esker::env::{Env, StepExecutor};
use esker::{Db, Options, Value};
use std::fs::{File, OpenOptions};
use std::io::Read;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

/// Bytes of the values that are measured.
const SIZES: [usize; 9] =
    [64 << 10, 256 << 10, 1 << 20, 4 << 20, 8 << 20, 19_700_000, 64 << 20, 256 << 20, 645_000_000];
/// About so many bytes of each size are there.
const BYTES_PER_SIZE: usize = 256 << 20;
/// `O_DIRECT` and `POSIX_FADV_DONTNEED`.
const DIRECT: i32 = 0x4000;
const DONT_NEED: i32 = 4;
/// Readers at once of a direct read, and the least that each takes at a time.
const DEPTH: usize = 8;

unsafe extern "C" {
    fn posix_fadvise(fd: i32, offset: i64, len: i64, advice: i32) -> i32;
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let dir = args.dir.join("huge-reads");
    std::fs::remove_dir_all(&dir).ok();
    std::fs::create_dir_all(&dir)?;
    let rounds = args.rounds.max(3);
    println!(
        "medians of {rounds} rounds, bytes per microsecond; in parentheses, times the plain file read alike"
    );
    for size in SIZES.into_iter().filter(|&size| size as u64 <= args.n) {
        let place = Place::new(&dir, size, args.seed)?;
        place.warm(rounds)?;
        place.cold(rounds)?;
        drop(place);
        std::fs::remove_dir_all(&dir)?;
        std::fs::create_dir_all(&dir)?;
    }
    std::fs::remove_dir_all(&dir)?;
    Ok(())
}

/// A store, and files beside it.
struct Place {
    dir: PathBuf,
    size: usize,
    count: usize,
    draws: Draws,
    /// Written before, so that no page of it is new.
    used: Vec<u8>,
}

impl Place {
    fn new(dir: &Path, size: usize, seed: u64) -> Result<Place> {
        let count = (BYTES_PER_SIZE / size).clamp(2, 64);
        let draws = Draws::new(seed, size as u64);
        let mut value = vec![0; size];
        let place = Place { dir: dir.to_path_buf(), size, count, draws, used: Vec::new() };
        let db = place.open("store")?;
        for number in 0..count {
            for (at, word) in value.chunks_mut(8).enumerate() {
                word.copy_from_slice(&draws.bits((number << 32 | at) as u64).to_le_bytes()[..word.len()]);
            }
            std::fs::write(place.file(number), &value)?;
            File::open(place.file(number))?.sync_all()?;
            db.put(key(number), &value)?;
        }
        db.flush()?;
        // The same files under other names: what one store has verified, the others have not.
        db.checkpoint(dir.join("store2"))?;
        db.checkpoint(dir.join("store3"))?;
        db.close()?;
        Ok(Place { used: value, ..place })
    }

    fn open(&self, name: &str) -> Result<Db> {
        Ok(Db::open(self.dir.join(name), Options::default())?)
    }

    /// Opens a store in which one thread does everything.
    fn open_stepped(&self, name: &str) -> Result<Db> {
        let env = Env { executor: Some(Arc::new(StepExecutor)), ..Env::system() };
        Ok(Db::open(self.dir.join(name), Options::default().env(env))?)
    }

    fn file(&self, number: usize) -> PathBuf {
        self.dir.join(format!("{number}.plain"))
    }

    /// Every number once, in an order of its own for each round.
    fn order(&self, round: u64) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.count).collect();
        order.sort_by_key(|&number| self.draws.bits(round << 32 | number as u64 | 1 << 63));
        order
    }

    /// Everything is in the page cache, and what is read was just read by somebody else.
    fn warm(&self, rounds: u64) -> Result<()> {
        for path in self.files()? {
            std::fs::read(path)?;
        }
        let ways: [(&str, usize); 10] = [
            ("plain, used buffer", 0),
            ("plain, new buffer", 1),
            ("first, used buffer", 0),
            ("later, used buffer", 0),
            ("later, new buffer", 1),
            ("often, used buffer", 0),
            ("first, one thread", 0),
            ("later, one thread", 0),
            ("first map, copied", 0),
            ("unverified map, copied", 0),
        ];
        let mut times = vec![Vec::new(); ways.len()];
        let (mut buf, mut other) = (self.used.clone(), self.used.clone());
        for round in 0..rounds {
            let [db, alone, maps] = [self.open("store")?, self.open_stepped("store2")?, self.open("store3")?];
            for number in self.order(round) {
                let file = self.file(number);
                let found = |db: &Db| get(db, number);
                for (way, times) in times.iter_mut().enumerate() {
                    match way {
                        0 | 1 => plain(&file, &mut other)?,
                        // The third read of a value maps it.
                        5 => {
                            found(&db)?.read_into(&mut other)?;
                            found(&db)?.read_into(&mut other)?;
                        }
                        _ => other.copy_from_slice(&found(&alone)?.map_unverified()?),
                    }
                    times.push(time(|| {
                        match way {
                            0 => plain(&file, &mut buf)?,
                            1 => drop(std::fs::read(&file)?),
                            2 | 3 => found(&db)?.read_into(&mut buf)?,
                            4 => drop(found(&db)?.into_vec()?),
                            5 => found(&db)?.read_into(&mut buf)?,
                            6 | 7 => found(&alone)?.read_into(&mut buf)?,
                            8 => buf.copy_from_slice(&found(&maps)?.map()?),
                            _ => buf.copy_from_slice(&found(&maps)?.map_unverified()?),
                        }
                        Ok(())
                    })?);
                }
            }
            [db, alone, maps].iter().try_for_each(Db::close)?;
        }
        self.print("warm", &ways, &mut times);
        Ok(())
    }

    /// Nothing of what is read is in the page cache.
    fn cold(&self, rounds: u64) -> Result<()> {
        let ways = [
            ("direct, depth 8", 0),
            ("plain, used buffer", 0),
            ("first, used buffer", 0),
            ("later, used buffer", 0),
            ("first map, copied", 0),
        ];
        let mut times = vec![Vec::new(); ways.len()];
        let mut buf = self.used.clone();
        let mut aligned = vec![1; self.size.next_multiple_of(4096) + 4096];
        for round in 0..rounds {
            let [db, maps] = [self.open("store")?, self.open("store3")?];
            for number in self.order(round + rounds) {
                let file = self.file(number);
                for (way, times) in times.iter_mut().enumerate() {
                    times.push(self.time_cold(|| {
                        match way {
                            0 => direct(&file, self.size, &mut aligned)?,
                            1 => plain(&file, &mut buf)?,
                            2 | 3 => get(&db, number)?.read_into(&mut buf)?,
                            _ => buf.copy_from_slice(&get(&maps, number)?.map()?),
                        }
                        Ok(())
                    })?);
                }
            }
            [db, maps].iter().try_for_each(Db::close)?;
        }
        self.print("cold", &ways, &mut times);
        Ok(())
    }

    fn time_cold(&self, work: impl FnMut() -> Result<()>) -> Result<f64> {
        self.forget()?;
        // What the last read has asked the disk for comes before this, and goes again.
        direct(&self.file(0), 4096, &mut [0; 8192])?;
        self.forget()?;
        time(work)
    }

    /// Empties the page cache of what is read.
    fn forget(&self) -> Result<()> {
        for path in self.files()? {
            let file = File::open(path)?;
            // SAFETY: the descriptor is open; the call reads and writes no memory of this process.
            let _ = unsafe { posix_fadvise(file.as_raw_fd(), 0, 0, DONT_NEED) };
        }
        Ok(())
    }

    /// The files that hold values.
    fn files(&self) -> Result<Vec<PathBuf>> {
        let mut files: Vec<PathBuf> = (0..self.count).map(|number| self.file(number)).collect();
        for entry in std::fs::read_dir(self.dir.join("store"))? {
            files.push(entry?.path());
        }
        files.retain(|path| path.extension().is_some_and(|ext| ext == "blob" || ext == "plain"));
        Ok(files)
    }

    fn print(&self, what: &str, ways: &[(&str, usize)], times: &mut [Vec<f64>]) {
        let median = |times: &mut Vec<f64>| {
            times.sort_by(f64::total_cmp);
            times[times.len() / 2]
        };
        let medians: Vec<f64> = times.iter_mut().map(median).collect();
        println!("{} KiB, {what}:", self.size >> 10);
        for ((name, base), median) in ways.iter().zip(&medians) {
            let speed = self.size as f64 / median;
            println!("  {name:<24} {speed:>8.0}  ({:.2})", medians[*base] / median);
        }
    }
}

fn key(number: usize) -> String {
    format!("value {number:04}")
}

fn get(db: &Db, number: usize) -> Result<Value> {
    Ok(db.get(key(number))?.ok_or("a value is missing")?)
}

/// Microseconds that `work` takes.
fn time(mut work: impl FnMut() -> Result<()>) -> Result<f64> {
    let begun = Instant::now();
    work()?;
    Ok(begun.elapsed().as_nanos() as f64 / 1e3)
}

fn plain(path: &Path, buf: &mut [u8]) -> Result<()> {
    Ok(File::open(path)?.read_exact(buf)?)
}

/// Reads past the page cache, `DEPTH` parts at a time.
fn direct(path: &Path, size: usize, buf: &mut [u8]) -> Result<()> {
    let start = buf.as_ptr().align_offset(4096);
    let buf = &mut buf[start..][..size.next_multiple_of(4096)];
    let file = OpenOptions::new().read(true).custom_flags(DIRECT).open(path)?;
    let part = (size / DEPTH).next_multiple_of(4096).min(1 << 20);
    let parts = std::sync::Mutex::new(buf.chunks_mut(part).enumerate());
    std::thread::scope(|scope| {
        let readers: Vec<_> = (0..DEPTH)
            .map(|_| {
                scope.spawn(|| -> std::io::Result<()> {
                    loop {
                        let next = parts.lock().map_or(None, |mut parts| parts.next());
                        let Some((index, part_buf)) = next else { return Ok(()) };
                        file.read_at(part_buf, (index * part) as u64)?;
                    }
                })
            })
            .collect();
        readers.into_iter().try_for_each(|reader| reader.join().unwrap_or(Ok(())))
    })?;
    Ok(())
}
