//! What each writer has done, and which states may be found.
//!
//! Writes of a writer are numbered from 1; each changes some of its keys at once. A value holds the number of its
//! write. `acknowledged` ≤ what a reader sees ≤ `begun`.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use esker::Db;

use crate::common::Rng;

pub(crate) const WRITERS: usize = 4;
/// Of each writer.
pub(crate) const KEYS: usize = 12;

/// The keys of a write and the lengths of their values; `None` deletes.
pub(crate) type Write = BTreeMap<usize, Option<usize>>;

/// How many writes of each writer.
pub(crate) type Counts = [usize; WRITERS];

#[derive(Debug, Default)]
struct Writer {
    begun: Mutex<Vec<Write>>,
    acknowledged: AtomicUsize,
    durable: AtomicUsize,
    latest: [AtomicUsize; KEYS],
}

#[derive(Debug, Default)]
pub(crate) struct History {
    writers: [Writer; WRITERS],
}

pub(crate) fn key(writer: usize, at: usize) -> String {
    format!("writer{writer}/key{at:02}")
}

/// The value that write `number` gives a key.
pub(crate) fn value(writer: usize, at: usize, number: usize, len: usize) -> Vec<u8> {
    let mut bytes = (number as u64).to_le_bytes().to_vec();
    bytes.extend(((writer << 8 | at) as u64).to_le_bytes());
    let rest = Rng::new((number << 16 | writer << 8 | at) as u64).bytes(len.saturating_sub(16));
    bytes.extend(rest);
    bytes
}

/// The write that a value's first bytes name.
pub(crate) fn number_of(head: &[u8]) -> usize {
    u64::from_le_bytes(head[..8].try_into().unwrap()) as usize
}

impl History {
    pub(crate) fn begin(&self, writer: usize, write: Write) {
        self.writers[writer].begun.lock().unwrap().push(write);
    }

    pub(crate) fn acknowledge(&self, writer: usize, number: usize) {
        let this = &self.writers[writer];
        let write = this.begun.lock().unwrap()[number - 1].clone();
        write.keys().for_each(|&at| this.latest[at].store(number, Ordering::SeqCst));
        this.acknowledged.store(number, Ordering::SeqCst);
    }

    pub(crate) fn acknowledged(&self) -> Counts {
        self.writers.each_ref().map(|writer| writer.acknowledged.load(Ordering::SeqCst))
    }

    pub(crate) fn note_durable(&self, counts: Counts) {
        for (writer, count) in self.writers.iter().zip(counts) {
            writer.durable.fetch_max(count, Ordering::SeqCst);
        }
    }

    pub(crate) fn durable(&self) -> Counts {
        self.writers.each_ref().map(|writer| writer.durable.load(Ordering::SeqCst))
    }

    /// The last acknowledged write of a key.
    pub(crate) fn latest(&self, writer: usize, at: usize) -> usize {
        self.writers[writer].latest[at].load(Ordering::SeqCst)
    }

    /// Judges what was found of a key, the value of write `number` or none, when write `latest` of it was
    /// acknowledged before. Returns the value's length.
    pub(crate) fn judge(
        &self,
        writer: usize,
        at: usize,
        latest: usize,
        number: Option<usize>,
    ) -> Option<usize> {
        let begun = self.writers[writer].begun.lock().unwrap();
        let Some(number) = number else {
            let deleted = begun[latest.saturating_sub(1)..].iter().any(|write| write.get(&at) == Some(&None));
            assert!(latest == 0 || deleted, "{} is gone; write {latest} was acknowledged", key(writer, at));
            return None;
        };
        assert!(number >= latest, "{} has gone back to write {number} from {latest}", key(writer, at));
        let len = begun.get(number - 1).and_then(|write| write.get(&at)).copied().flatten();
        assert!(len.is_some(), "{} has a value of write {number}, which has none", key(writer, at));
        len
    }

    /// Judges all that `db` holds: of each writer the state behind a prefix of at least `least` writes. Returns
    /// how many bytes the values have.
    pub(crate) fn judge_all(&self, db: &Db, least: Counts) -> u64 {
        (0..WRITERS).map(|writer| self.judge_writer(db, writer, least[writer])).sum()
    }

    fn judge_writer(&self, db: &Db, writer: usize, least: usize) -> u64 {
        let mut found = [0; KEYS];
        let mut bytes = 0;
        for (at, number) in found.iter_mut().enumerate() {
            let Some(there) = db.get(key(writer, at)).unwrap() else { continue };
            let there = there.bytes().unwrap();
            *number = number_of(&there);
            assert!(there == value(writer, at, *number, there.len()), "{} is not whole", key(writer, at));
            bytes += there.len() as u64;
        }
        let begun = self.writers[writer].begun.lock().unwrap();
        let mut state = [0; KEYS];
        let mut fits = least == 0 && state == found;
        for (number, write) in (1..).zip(begun.iter()) {
            for (&at, len) in write {
                state[at] = if len.is_some() { number } else { 0 };
            }
            fits |= number >= least && state == found;
        }
        assert!(fits, "writer {writer}: {found:?} is behind no prefix of {least} to {} writes", begun.len());
        bytes
    }
}
