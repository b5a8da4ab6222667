//! What is known from outside of a store that may die: who was told what. A file of numbers, written with `pwrite`, so
//! that it survives the death of the process; it never lies on the file system that loses power.
//!
//! Each number of an actor only grows during a life. A number in the file may be behind the truth for what was
//! acknowledged, by the call under way, never ahead; it is never behind for what was begun.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::plan::{Lives, WRITERS};

pub(crate) const ACTORS: usize = WRITERS * 2;

/// What the numbers mean. Of actors there is one for each.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Word {
    /// Operations that were begun.
    Begun(usize),
    /// Operations that returned.
    Acked(usize),
    /// Operations that survive power loss.
    Durable(usize),
    /// Ingests that were begun, and those that returned.
    IngestBegun,
    IngestAcked,
    /// How often something was done or reached, over all lives.
    Reached(Reached),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reached {
    Flush,
    Merge,
    Split,
    Reclaim,
    Ingest,
    Transplant,
    Checkpoint,
    Backup,
    Snapshot,
    Follow,
    Compact,
    Settings,
}

impl Reached {
    pub(crate) const ALL: [Reached; 12] = [
        Reached::Flush,
        Reached::Merge,
        Reached::Split,
        Reached::Reclaim,
        Reached::Ingest,
        Reached::Transplant,
        Reached::Checkpoint,
        Reached::Backup,
        Reached::Snapshot,
        Reached::Follow,
        Reached::Compact,
        Reached::Settings,
    ];
}

const WORDS: usize = ACTORS * 3 + 2 + Reached::ALL.len();

impl Word {
    fn place(self) -> usize {
        match self {
            Word::Begun(slot) => slot,
            Word::Acked(slot) => ACTORS + slot,
            Word::Durable(slot) => ACTORS * 2 + slot,
            Word::IngestBegun => ACTORS * 3,
            Word::IngestAcked => ACTORS * 3 + 1,
            Word::Reached(what) => ACTORS * 3 + 2 + what as usize,
        }
    }
}

/// All numbers at one moment.
#[derive(Debug, Clone)]
pub(crate) struct Reading(Vec<u64>);

impl Reading {
    pub(crate) fn get(&self, word: Word) -> u64 {
        self.0[word.place()]
    }

    pub(crate) fn of(&self, word: fn(usize) -> Word) -> [u64; ACTORS] {
        std::array::from_fn(|slot| self.get(word(slot)))
    }
}

pub(crate) struct Board {
    file: File,
    words: Vec<AtomicU64>,
    /// Held while one of those is written that several threads raise.
    shared: Mutex<()>,
}

impl Board {
    pub(crate) fn open(path: &Path) -> Board {
        let mut options = OpenOptions::new();
        let file = options.read(true).write(true).create(true).truncate(false).open(path).expect("the board");
        let reading = Board::read_file(&file);
        let words = reading.0.into_iter().map(AtomicU64::new).collect();
        Board { file, words, shared: Mutex::new(()) }
    }

    /// What the file says.
    pub(crate) fn read(path: &Path) -> Reading {
        Board::read_file(&File::open(path).expect("the board"))
    }

    fn read_file(file: &File) -> Reading {
        let mut bytes = vec![0; WORDS * 8];
        let mut filled = 0;
        loop {
            match file.read_at(&mut bytes[filled..], filled as u64).expect("the board") {
                0 => break,
                count => filled += count,
            }
        }
        let words = bytes.chunks(8).map(|word| u64::from_le_bytes(word.try_into().expect("eight")));
        Reading(words.collect())
    }

    pub(crate) fn get(&self, word: Word) -> u64 {
        self.words[word.place()].load(Ordering::Acquire)
    }

    /// All numbers; each as it was at some moment during the call.
    pub(crate) fn reading(&self) -> Reading {
        Reading(self.words.iter().map(|word| word.load(Ordering::Acquire)).collect())
    }

    /// Of a number that one thread writes.
    pub(crate) fn set(&self, word: Word, value: u64) {
        self.words[word.place()].store(value, Ordering::Release);
        self.file.write_all_at(&value.to_le_bytes(), word.place() as u64 * 8).expect("the board");
    }

    /// Of a number that several threads raise.
    pub(crate) fn raise(&self, word: Word, value: u64) {
        if self.get(word) < value {
            let _guard = self.shared.lock().expect("nobody panics here");
            if self.get(word) < value {
                self.set(word, value);
            }
        }
    }

    pub(crate) fn count(&self, what: Reached, more: u64) {
        if more > 0 {
            let _guard = self.shared.lock().expect("nobody panics here");
            self.set(Word::Reached(what), self.get(Word::Reached(what)) + more);
        }
    }

    /// What `reading` has as acknowledged survives power loss from now on. Of the logged writers alone, or of all.
    pub(crate) fn durable(&self, reading: &Reading, slots: std::ops::Range<usize>) {
        for slot in slots {
            self.raise(Word::Durable(slot), reading.get(Word::Acked(slot)));
        }
    }
}

/// One line for each life, with where it began.
pub(crate) fn read_lives(path: &Path) -> Lives {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let line = |line: &str| -> [u64; ACTORS] {
        let numbers: Vec<u64> = line.split(' ').map(|number| number.parse().expect("a number")).collect();
        numbers.try_into().expect("one for each actor")
    };
    Lives(text.lines().map(line).collect())
}

pub(crate) fn add_life(path: &Path, began: &[u64; ACTORS]) {
    let numbers: Vec<String> = began.iter().map(u64::to_string).collect();
    let line = format!("{}\n", numbers.join(" "));
    let mut file = OpenOptions::new().append(true).create(true).open(path).expect("the lives");
    // One write: whole, or not at all when the process is killed.
    std::io::Write::write_all(&mut file, line.as_bytes()).expect("the lives");
}
