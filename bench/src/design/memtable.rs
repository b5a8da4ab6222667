//! `memtable`: the skip list beside `std`'s `BTreeMap` behind a lock. The map knows no versions of a key, and its
//! readers wait for its writers; both copy key and value.

use super::best;
use crate::args::Args;
use crate::data::{Draws, Values, key_between, key16};
use crate::stores::Result;
use esker::measure::SkipList;
use std::collections::BTreeMap;
use std::hint::black_box;
use std::sync::{PoisonError, RwLock};

const VALUE_BYTES: usize = 100;
/// Free memory that a skip list leaves to the next, as in a store.
const POOL_BYTES: usize = 1 << 30;

trait Table: Sync {
    /// `seq` differs from call to call.
    fn put(&self, key: &[u8], seq: u64, value: &[u8]) -> Result<()>;
    /// The value's length.
    fn get(&self, key: &[u8]) -> Option<usize>;
}

impl Table for SkipList {
    fn put(&self, key: &[u8], seq: u64, value: &[u8]) -> Result<()> {
        Ok(SkipList::put(self, key, seq, value)?)
    }

    fn get(&self, key: &[u8]) -> Option<usize> {
        SkipList::get(self, key).map(|value| black_box(value).len())
    }
}

type Map = RwLock<BTreeMap<Box<[u8]>, Box<[u8]>>>;

impl Table for Map {
    fn put(&self, key: &[u8], _seq: u64, value: &[u8]) -> Result<()> {
        let (key, value) = (key.into(), value.into());
        self.write().unwrap_or_else(PoisonError::into_inner).insert(key, value);
        Ok(())
    }

    fn get(&self, key: &[u8]) -> Option<usize> {
        let map = self.read().unwrap_or_else(PoisonError::into_inner);
        map.get(key).map(|value| black_box(value).len())
    }
}

/// The keys of 0, 1, ... n - 1.
fn ascending(n: u64) -> Vec<[u8; 16]> {
    (0..n).map(key16).collect()
}

/// The same in random order.
fn shuffled(n: u64, draws: Draws) -> Vec<[u8; 16]> {
    let mut keys = ascending(n);
    for i in (1..keys.len()).rev() {
        keys.swap(i, draws.below(i as u64, i as u64 + 1) as usize);
    }
    keys
}

/// Puts all `keys`, from so many threads at once.
fn fill(table: &impl Table, keys: &[[u8; 16]], values: &Values, threads: usize) -> Result<()> {
    let part = keys.len().div_ceil(threads);
    let put_all = |first: usize, keys: &[[u8; 16]]| -> Result<()> {
        for (i, key) in keys.iter().enumerate() {
            let seq = (first + i) as u64 + 1;
            table.put(key, seq, values.get(seq))?;
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let put_all = &put_all;
        let work = |(i, keys)| scope.spawn(move || put_all(i * part, keys));
        let workers: Vec<_> = keys.chunks(part).enumerate().map(work).collect();
        workers.into_iter().try_for_each(|worker| worker.join().map_err(|_| "a thread panicked")?)
    })
}

/// Gets all `keys`, which must be there with a value of this length, or not be there.
fn get_all<K: AsRef<[u8]>>(table: &impl Table, keys: &[K], length: Option<usize>) -> Result<()> {
    for key in keys {
        if table.get(key.as_ref()) != length {
            return Err("a lookup went wrong".into());
        }
    }
    Ok(())
}

/// One figure for each of `NAMES`.
fn figures<T: Table>(args: &Args, mut empty: impl FnMut() -> T) -> Result<[f64; 6]> {
    let (n, values) = (args.n, Values::new(args.seed, VALUE_BYTES));
    let (in_order, mixed) = (ascending(n), shuffled(n, Draws::new(args.seed, 1)));
    let asked = shuffled(n, Draws::new(args.seed, 2));
    let absent: Vec<[u8; 17]> = (0..n).map(|i| key_between(Draws::new(args.seed, 3).below(i, n))).collect();
    let insert_in_order = best(n, &mut empty, |table| fill(table, &in_order, &values, 1))?;
    let insert_mixed = best(n, &mut empty, |table| fill(table, &mixed, &values, 1))?;
    let insert_by_two = best(n, &mut empty, |table| fill(table, &mixed, &values, 2))?;
    let table = empty();
    fill(&table, &mixed, &values, 1)?;
    Ok([
        insert_in_order,
        insert_mixed,
        insert_by_two,
        best(n, || (), |()| get_all(&table, &in_order, Some(VALUE_BYTES)))?,
        best(n, || (), |()| get_all(&table, &asked, Some(VALUE_BYTES)))?,
        best(n, || (), |()| get_all(&table, &absent, None))?,
    ])
}

const NAMES: [&str; 6] = [
    "insert, ascending keys",
    "insert, random keys",
    "insert, random keys, two threads",
    "get, ascending keys",
    "get, random keys",
    "get, random keys that are absent",
];

pub(super) fn run(args: &Args) -> Result<()> {
    let rounds = super::ROUNDS;
    println!("ns of an operation, {} entries of 16 + {VALUE_BYTES} bytes, best of {rounds} rounds\n", args.n);
    // All lists share one pool. The first of a store does not know what its keys have in common, later ones do.
    let first = SkipList::new(POOL_BYTES);
    let firsts = figures(args, || first.successor())?;
    fill(&first, &ascending(args.n), &Values::new(args.seed, VALUE_BYTES), 1)?;
    let later = figures(args, || first.successor())?;
    let map = figures(args, || Map::new(BTreeMap::new()))?;
    println!("{:<36}{:>16}{:>16}{:>16}", "", "skip list", "a store's first", "BTreeMap");
    for (i, name) in NAMES.iter().enumerate() {
        println!("{name:<36}{:>16.0}{:>16.0}{:>16.0}", later[i], firsts[i], map[i]);
    }
    Ok(())
}
