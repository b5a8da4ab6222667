//! Why a command took long: what it waited for, and what it read.

use std::time::Duration;

/// Why a command goes to the pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ToPool {
    /// It would read a file.
    File,
    /// It would pass too many entries, read or make too much, or walk over what is not in memory.
    Walk,
    /// Something that it needs is in use.
    Busy,
    /// It changes users, or computes Argon2.
    Password,
}

impl ToPool {
    pub(crate) const ALL: [ToPool; 4] = [ToPool::File, ToPool::Walk, ToPool::Busy, ToPool::Password];

    pub(crate) fn name(self) -> &'static str {
        match self {
            ToPool::File => "file",
            ToPool::Walk => "walk",
            ToPool::Busy => "busy",
            ToPool::Password => "password",
        }
    }
}

/// What a command in the pool has spent.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Spent {
    pub(crate) evaluated: Duration,
    pub(crate) committed: Duration,
    pub(crate) file_reads: u64,
    pub(crate) file_bytes: u64,
}

/// What one command waited for and read. Only those have it that waited.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Why {
    /// Keys that other commands held.
    pub(crate) keys: Duration,
    /// Why it went to the pool.
    pub(crate) to_pool: Option<ToPool>,
    /// A thread of the pool.
    pub(crate) thread: Duration,
    pub(crate) spent: Spent,
}

impl Why {
    /// The names of its figures, with the figures: times are in microseconds.
    pub(crate) fn figures(&self) -> [(&'static str, u64); 6] {
        let us = |time: Duration| time.as_micros() as u64;
        [
            ("waited_for_keys_us", us(self.keys)),
            ("waited_for_thread_us", us(self.thread)),
            ("evaluated_in_pool_us", us(self.spent.evaluated)),
            ("committed_in_pool_us", us(self.spent.committed)),
            ("file_reads", self.spent.file_reads),
            ("file_bytes", self.spent.file_bytes),
        ]
    }

    /// The reason for the pool, in a word.
    pub(crate) fn pool(&self) -> &'static str {
        self.to_pool.map_or("no", ToPool::name)
    }
}
