//! What a simulated store is like: small budgets, so that little work has many effects, and values of all
//! lengths.

use std::sync::Arc;

use esker::env::{Env, StepExecutor};
use esker::fs::sim::SimFs;
use esker::{Compression, Options};

use crate::common::{Rng, world};

/// The world around `disk`.
pub(crate) fn env(disk: &SimFs, seed: u64) -> Env {
    world(Arc::new(disk.clone()), seed, Some(Arc::new(StepExecutor)))
}

/// How long the values of a case are.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Sizes {
    /// Up to 200 bytes.
    Small,
    /// All alike, so that a record of a recycled segment stands where a new one will.
    Fixed(u64),
    /// Up to 3,000 bytes, now and then 20,000.
    Mixed,
    /// 8 to 64 KiB, now and then more than a log segment: the log rotates and segments are recycled.
    Big,
    /// Half of them longer than the log's segments, up to 3 MiB: most segments hold one record, some none.
    Huge,
}

/// What a case is like.
#[derive(Debug, Clone)]
pub(crate) struct Knobs {
    pub(crate) sizes: Sizes,
    pub(crate) keys: u64,
    pub(crate) steps: u64,
    pub(crate) compression: Compression,
    memtable_bytes: usize,
    table_bytes: usize,
    block_bytes: usize,
    filter_bits: u32,
    open_tables_max: usize,
    /// Values of so many bytes are kept apart.
    pub(crate) separate_at: usize,
    pub(crate) blob_file_bytes: u64,
}

impl Knobs {
    pub(crate) fn random(rng: &mut Rng) -> Knobs {
        let sizes = match rng.below(16) {
            0..6 => Sizes::Small,
            6..9 => Sizes::Fixed(*rng.pick(&[32, 500, 4056])),
            9..14 => Sizes::Mixed,
            14 => Sizes::Fixed(16 << 10),
            _ => Sizes::Big,
        };
        let roomy = matches!(sizes, Sizes::Big | Sizes::Fixed(0x4000));
        Knobs {
            sizes,
            keys: *rng.pick(&[4, 40, 200]),
            steps: 20 + rng.below(140),
            compression: *rng.pick(&[Compression::None, Compression::Lz4]),
            memtable_bytes: if roomy { 256 << 10 } else { *rng.pick(&[2 << 10, 6 << 10, 16 << 10]) },
            table_bytes: *rng.pick(&[2 << 10, 16 << 10, 1 << 20]),
            block_bytes: *rng.pick(&[256, 1024, 4096]),
            filter_bits: *rng.pick(&[0, 8]),
            open_tables_max: *rng.pick(&[1, 4, 512]),
            blob_file_bytes: *rng.pick(&[1, 10_000, 60_000, 256 << 20]),
            // Where the log is to rotate, long values stay in it.
            separate_at: if roomy { usize::MAX } else { *rng.pick(&[1, 100, 1_000, 10_000, usize::MAX]) },
        }
    }

    /// A case of few writes, long ones, in which memtables grow until the log rotates with them.
    pub(crate) fn huge(rng: &mut Rng) -> Knobs {
        Knobs {
            sizes: Sizes::Huge,
            separate_at: *rng.pick(&[1 << 20, 2 << 20, usize::MAX]),
            keys: *rng.pick(&[4, 40]),
            steps: 10 + rng.below(40),
            memtable_bytes: *rng.pick(&[256 << 10, 4 << 20, 9 << 20]),
            ..Knobs::random(rng)
        }
    }

    pub(crate) fn options(&self, disk: &SimFs, seed: u64) -> Options {
        let mut options = Options::default().memory_budget(8 << 20).env(env(disk, seed));
        options.memtable_bytes = Some(self.memtable_bytes);
        options.table_bytes = self.table_bytes;
        options.block_bytes = self.block_bytes;
        options.filter_bits = self.filter_bits;
        options.open_tables_max = self.open_tables_max;
        options.separate_at = self.separate_at;
        options.blob_file_bytes = self.blob_file_bytes;
        options
    }

    /// A value that no other write of the case has.
    pub(crate) fn value(&self, rng: &mut Rng, number: u64) -> Arc<[u8]> {
        let len = match self.sizes {
            Sizes::Small => rng.below(200),
            Sizes::Fixed(len) => len,
            Sizes::Mixed if rng.one_in(20) => 20_000,
            Sizes::Mixed => rng.below(3_000),
            Sizes::Big if rng.one_in(40) => (1 << 20) + rng.below(1 << 20),
            Sizes::Huge if rng.one_in(2) => (1 << 20) + rng.below(2 << 20),
            Sizes::Huge => rng.below(300 << 10),
            Sizes::Big => (8 << 10) + rng.below(56 << 10),
        };
        let mut bytes = number.to_le_bytes().to_vec();
        let fill = (number as u8) | 1;
        bytes.resize(8 + len as usize, fill);
        bytes.into()
    }
}
