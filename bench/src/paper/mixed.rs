//! The paper's mixed workloads: 100 values are put, then 100 operations run, timed as a whole.

use super::cell::Watch;
use super::child::Child;
use super::cold::settle;
use super::plan::{Mix, Operation, Scale};
use super::stores::Huge;
use super::values::{Buffer, Pool};
use crate::data::Draws;
use crate::process;
use crate::stores::Result;

/// A value that is in the store.
#[derive(Clone, Copy)]
struct Live {
    number: usize,
    length: usize,
}

/// The state that the operations change.
struct Mixed<'a> {
    child: &'a Child,
    store: &'a dyn Huge,
    pool: Pool,
    buffer: Buffer,
    live: Vec<Live>,
    next: usize,
    moved: u64,
}

pub(super) fn run(child: &Child, scale: Scale, mix: &Mix) -> Result<()> {
    let draws = |stream| Draws::new(child.seed, stream);
    let lengths = scale.mix_lengths(draws(10));
    let longest = lengths.iter().copied().max().unwrap_or(0);
    let store = child.open()?;
    let mut mixed = Mixed {
        child,
        store: &*store,
        pool: Pool::new(longest, child.seed),
        buffer: Buffer::new(longest),
        live: Vec::new(),
        next: 0,
        moved: 0,
    };
    let before = process::anon_bytes();
    let anon = process::AnonWatch::start();
    let mut load = Watch::start();
    load.time(|| lengths.iter().try_for_each(|&length| mixed.put(length)))?;
    let cell = load.finish(mixed.moved);
    let busy = settle(&child.dir).as_secs_f64();
    child.print("load", busy, cell);

    mixed.moved = 0;
    let operations = mix.operations(draws(11));
    let mut watch = Watch::start();
    watch.time(|| {
        for (i, &operation) in operations.iter().enumerate() {
            let drawn = draws(12).bits(i as u64) as usize;
            mixed.operate(operation, drawn, &lengths)?;
        }
        Result::Ok(())
    })?;
    let cell = watch.finish(mixed.moved);
    let memory = anon.peak_bytes().saturating_sub(before) as f64 / 1e6;
    child.print("mix", memory, cell);
    store.close()
}

impl Mixed<'_> {
    fn put(&mut self, length: usize) -> Result<()> {
        let number = self.next;
        self.next += 1;
        self.store.put(&self.child.key(number), self.pool.value(number, length), false)?;
        self.live.push(Live { number, length });
        self.moved += length as u64;
        Ok(())
    }

    fn operate(&mut self, operation: Operation, drawn: usize, lengths: &[usize]) -> Result<()> {
        let at = drawn % self.live.len();
        match operation {
            Operation::Get => self.get(self.live[at]),
            Operation::Put => self.put(lengths[drawn % lengths.len()]),
            Operation::Update => {
                let old = self.live.swap_remove(at);
                self.store.delete(&self.child.key(old.number))?;
                self.put(old.length)
            }
        }
    }

    fn get(&mut self, of: Live) -> Result<()> {
        let found = self.store.get(&self.child.key(of.number), &mut self.buffer)?;
        let expected = self.pool.value(of.number, of.length);
        if found != Some(of.length) || self.buffer[of.length - 64..of.length] != expected[of.length - 64..] {
            return Err(format!("value {} is not what was put: {found:?} bytes", of.number).into());
        }
        self.moved += of.length as u64;
        Ok(())
    }
}

/// Bytes on disk that a store may need for a mix, amplification included.
pub(super) fn disk_bytes(scale: Scale) -> u64 {
    let lengths = scale.mix_lengths(Draws::new(1, 10));
    lengths.iter().sum::<usize>() as u64 * 3
}

/// Whether `store` takes part in mixes. What is left out is there for other figures.
pub(super) fn takes_part(store: &str) -> bool {
    store != "esker-inline"
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::paper::plan::MIXES;
    use std::path::PathBuf;

    #[test]
    fn a_mix_runs_on_plain_files() {
        let dir: PathBuf = std::env::temp_dir().join(format!("esker-bench-mix-{}", std::process::id()));
        let child = Child { store: "files".into(), row: "average".into(), dir: dir.clone(), seed: 1 };
        let store = child.open().unwrap();
        let mut mixed = Mixed {
            child: &child,
            store: &*store,
            pool: Pool::new(1000, 1),
            buffer: Buffer::new(1000),
            live: Vec::new(),
            next: 0,
            moved: 0,
        };
        for length in [100, 1000, 500] {
            mixed.put(length).unwrap();
        }
        for (i, operation) in MIXES[1].operations(Draws::new(1, 2)).into_iter().enumerate() {
            mixed.operate(operation, i * 7, &[100, 1000, 500]).unwrap();
        }
        assert_eq!(mixed.live.len(), 3 + MIXES[1].puts);
        std::fs::remove_dir_all(dir).unwrap();
    }
}
