//! Puts, overwrites and deletes values of mixed sizes as fast as the store takes them, and accounts for each.

use super::Options;
use super::account::Account;
use crate::data::{Draws, key16};
use crate::paper::Pool;
use crate::stores::Result;
use esker::{Db, Snapshot, Tree};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// Huge values are from here on,
const HUGE_MIN: f64 = 32.0 * 1024.0;
/// and shorter than this: the paper's sixth size.
pub(super) const HUGE_MAX: f64 = 19_700_000.0;
const SMALL_MIN: f64 = 100.0;
/// Of the writes to keys that are there, so many percent are overwrites and the others deletes.
const OVERWRITES: u64 = 60;
/// A snapshot is held while the part of the bytes that is written goes from one to the other.
const HELD: [(f64, f64); 2] = [(0.2, 0.35), (0.6, 0.75)];

/// The mean of sizes whose logarithm is spread evenly.
fn mean(min: f64, max: f64) -> f64 {
    (max - min) / (max / min).ln()
}

/// Keys that are there, and keys that are not.
struct Keys {
    there: Vec<usize>,
    absent: Vec<usize>,
}

pub(super) struct Driver<'a> {
    db: &'a Db,
    tree: &'a Tree,
    pool: Pool,
    draws: Draws,
    drawn: u64,
    account: &'a Mutex<Account>,
    live: u64,
    small_share: f64,
    keys: Keys,
    /// The number of the value that each key has, and its length.
    has: Vec<Option<(usize, usize)>>,
    puts: usize,
    snapshot: Option<Snapshot>,
}

/// How many keys there may be for `live` bytes: twice as many as there are on average.
pub(super) fn key_count(live: u64, small_share: f64) -> usize {
    let (small, huge) = (mean(SMALL_MIN, HUGE_MIN), mean(HUGE_MIN, HUGE_MAX));
    (live as f64 * (small_share / small + (1.0 - small_share) / huge) * 2.0) as usize + 16
}

impl<'a> Driver<'a> {
    pub(super) fn new(db: &'a Db, options: &Options, account: &'a Mutex<Account>) -> Driver<'a> {
        let count = key_count(options.live, options.small);
        Driver {
            db,
            tree: db.default_tree(),
            pool: Pool::new(HUGE_MAX as usize, options.seed),
            draws: Draws::new(options.seed, 0x5350_4143),
            drawn: 0,
            account,
            live: options.live,
            small_share: options.small,
            keys: Keys { there: Vec::new(), absent: (0..count).collect() },
            has: vec![None; count],
            puts: 0,
            snapshot: None,
        }
    }

    fn account(&self) -> MutexGuard<'a, Account> {
        self.account.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.drawn += 1;
        self.draws.below(self.drawn, bound)
    }

    fn unit(&mut self) -> f64 {
        self.below(1 << 53) as f64 / (1_u64 << 53) as f64
    }

    fn size(&mut self) -> usize {
        let (small, huge) = (
            self.small_share / mean(SMALL_MIN, HUGE_MIN),
            (1.0 - self.small_share) / mean(HUGE_MIN, HUGE_MAX),
        );
        let (min, max) =
            if self.unit() * (small + huge) < small { (SMALL_MIN, HUGE_MIN) } else { (HUGE_MIN, HUGE_MAX) };
        (min * (max / min).powf(self.unit())) as usize
    }

    fn put(&mut self, key: usize) -> Result<()> {
        let len = self.size();
        let name = key16(key as u64);
        let bytes = (name.len() + len) as u64;
        self.account().begin(bytes);
        self.tree.put(name, self.pool.value(self.puts, len))?;
        self.account().put(key, bytes);
        self.has[key] = Some((self.puts, len));
        self.puts += 1;
        Ok(())
    }

    fn delete(&mut self, key: usize) -> Result<()> {
        self.tree.delete(key16(key as u64))?;
        self.account().end(key);
        self.has[key] = None;
        Ok(())
    }

    fn put_absent(&mut self) -> Result<()> {
        let at = self.below(self.keys.absent.len() as u64) as usize;
        let key = self.keys.absent.swap_remove(at);
        self.keys.there.push(key);
        self.put(key)
    }

    /// Puts new keys until there are as many bytes as there shall be.
    pub(super) fn fill(&mut self) -> Result<()> {
        while self.account().newest() < self.live && !self.keys.absent.is_empty() {
            self.put_absent()?;
        }
        Ok(())
    }

    /// Overwrites, deletes and puts again what was deleted, until `bytes` were put.
    pub(super) fn churn(&mut self, bytes: u64) -> Result<()> {
        let before = self.account().written();
        loop {
            let account = self.account();
            let (written, newest) = (account.written() - before, account.newest());
            drop(account);
            self.hold_snapshot(written as f64 / bytes as f64);
            if written >= bytes {
                return Ok(());
            }
            if newest < self.live && !self.keys.absent.is_empty() {
                self.put_absent()?;
                continue;
            }
            let at = self.below(self.keys.there.len() as u64) as usize;
            if self.below(100) < OVERWRITES {
                self.put(self.keys.there[at])?;
            } else {
                let key = self.keys.there.swap_remove(at);
                self.delete(key)?;
                self.keys.absent.push(key);
            }
        }
    }

    fn hold_snapshot(&mut self, done: f64) {
        let wanted = HELD.iter().any(|&(from, to)| (from..to).contains(&done));
        if wanted && self.snapshot.is_none() {
            self.snapshot = Some(self.db.snapshot());
            self.account().hold();
        } else if !wanted && self.snapshot.take().is_some() {
            self.account().let_go(Instant::now());
        }
    }

    /// Fails unless every key has what was put last, byte for byte.
    pub(super) fn verify(&self) -> Result<()> {
        let mut found = Vec::new();
        for (key, has) in self.has.iter().enumerate() {
            let there = self.tree.get_into(key16(key as u64), &mut found)?;
            let wanted = has.map(|(number, len)| self.pool.value(number, len));
            if there.then_some(&found[..]) != wanted {
                return Err(format!("key {key} has not what was put").into());
            }
        }
        Ok(())
    }

    pub(super) fn delete_all(&mut self) -> Result<()> {
        while let Some(key) = self.keys.there.pop() {
            self.delete(key)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_accounted_for_is_what_the_store_has() -> Result<()> {
        let dir = std::env::temp_dir().join(format!("esker-bench-space-{}", std::process::id()));
        std::fs::remove_dir_all(&dir).ok();
        let db = Db::open(&dir, esker::Options::default())?;
        let options = Options { live: 60 << 20, ..Options::default() };
        let account = Mutex::new(Account::new(key_count(options.live, options.small)));
        let mut driver = Driver::new(&db, &options, &account);
        driver.fill()?;
        driver.churn(100 << 20)?;
        driver.verify()?;
        let mut bytes = 0;
        for row in db.scan(esker::ScanRange::all())? {
            let (key, value) = row?;
            bytes += (key.len() + value.len()) as u64;
        }
        let small: usize =
            driver.has.iter().flatten().map(|&(_, len)| if len < 32 << 10 { len } else { 0 }).sum();
        // The grace after the last snapshot is over then.
        let later = Instant::now() + std::time::Duration::from_secs(3600);
        let counted = driver.account().live(later);
        assert_eq!(counted, bytes);
        assert_eq!(counted, driver.account().newest(), "no snapshot is held at the end");
        let share = small as f64 / bytes as f64;
        assert!((0.02..0.1).contains(&share), "{share} of all bytes are of small values");
        driver.delete_all()?;
        assert_eq!(driver.account().live(later), 0);
        assert!(db.scan(esker::ScanRange::all())?.next().is_none());
        drop(driver);
        db.close()?;
        std::fs::remove_dir_all(&dir)?;
        Ok(())
    }
}
