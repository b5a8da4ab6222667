//! Random histories. Keys come from a pool, so that they meet again; at times only from a narrow part of
//! it, so that tables do not all span everything.

use std::collections::BTreeSet;
use std::ops::Bound;
use std::sync::Arc;

use esker::{ATTRIBUTES_LEN_MAX, CompactionStyle, Compression, KEY_LEN_MAX};

use crate::common::Rng;
use crate::ops::{
    Exchange, JOBS, Key, Move, NewBeside, Op, Range, Recipe, Reopen, SLOTS, StreamEnd, TREES, Write,
};

/// Makes histories.
pub(crate) struct Generator {
    rng: Rng,
    /// Sorted.
    pool: Vec<Key>,
    /// The part of the pool in use, by index, and for how many more keys.
    window: (usize, usize),
    window_left: u32,
    /// Long keys and values at most in one of so many cases.
    rarity: usize,
}

fn key(bytes: impl Into<Vec<u8>>) -> Key {
    Key(Arc::from(bytes.into()))
}

fn random_key(rng: &mut Rng) -> Key {
    const ALPHABET: [u8; 7] = [0, 0, 1, b'a', b'b', 0xfe, 0xff];
    let some = |rng: &mut Rng, len: usize| (0..len).map(|_| *rng.pick(&ALPHABET)).collect::<Vec<u8>>();
    match rng.index(100) {
        0..30 => {
            let len = rng.between(1, 4);
            key(some(rng, len))
        }
        30..55 => key(format!("user/{:05}", rng.index(400))),
        55..80 => key(rng.below(1000).to_be_bytes()),
        80..90 => {
            let mut bytes = b"a common beginning that is rather long/".to_vec();
            let len = rng.between(0, 3);
            bytes.extend(some(rng, len));
            key(bytes)
        }
        _ => {
            let len = rng.between(5, 300);
            key(some(rng, len))
        }
    }
}

fn long_key(rng: &mut Rng) -> Key {
    let len = if rng.percent(30) { KEY_LEN_MAX } else { rng.between(1000, KEY_LEN_MAX) };
    let mut bytes = vec![*rng.pick(&[0, b'u', 0xff]); len];
    let at = if rng.percent(50) { len - 1 } else { rng.index(len) };
    bytes[at] = rng.next() as u8;
    key(bytes)
}

impl Generator {
    pub(crate) fn new(seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        let size = *rng.pick(&[10, 60, 250, 700]);
        let mut pool: BTreeSet<Key> = (0..size).map(|_| random_key(&mut rng)).collect();
        if rng.percent(40) {
            pool.extend((0..2).map(|_| long_key(&mut rng)));
        }
        let pool: Vec<Key> = pool.into_iter().collect();
        let rarity = *rng.pick(&[500, 1000, 4000]);
        Generator { window: (0, pool.len()), rng, pool, window_left: 0, rarity }
    }

    fn key(&mut self) -> Key {
        if self.window_left == 0 {
            self.window_left = self.rng.between(50, 600) as u32;
            self.window = if self.rng.percent(40) {
                (0, self.pool.len())
            } else {
                let len = (self.pool.len() / self.rng.between(3, 20)).max(1);
                let begin = self.rng.index(self.pool.len() - len + 1);
                (begin, begin + len)
            };
        }
        self.window_left -= 1;
        if self.rng.percent(3) {
            return random_key(&mut self.rng);
        }
        let index = self.rng.between(self.window.0, self.window.1 - 1);
        let chosen = self.pool[index].clone();
        // Long keys are in the pool, but chosen less often than the rest.
        if chosen.len() > 1000 && self.rng.percent(95) { self.pool[self.window.0].clone() } else { chosen }
    }

    /// A key to which another byte may be added.
    fn short_key(&mut self) -> Key {
        let key = self.key();
        if key.len() < KEY_LEN_MAX { key } else { random_key(&mut self.rng) }
    }

    fn value(&mut self) -> Recipe {
        let len = match self.rng.index(1000) {
            0..60 => 0,
            60..600 => self.rng.between(1, 16),
            600..950 => self.rng.between(17, 200),
            950..998 => self.rng.between(200, 3000),
            _ if self.rng.index(self.rarity) < 100 => self.rng.between(3000, 100 << 10),
            _ => 100,
        };
        Recipe { len: len as u32, seed: self.rng.next() as u32 }
    }

    fn attributes(&mut self) -> Recipe {
        let len = match self.rng.index(100) {
            0..30 => 0,
            30..97 => self.rng.between(1, 60),
            _ => self.rng.between(60, ATTRIBUTES_LEN_MAX),
        };
        Recipe { len: len as u32, seed: self.rng.next() as u32 }
    }

    /// Gives a value attributes or an expiry, with a put or apart from it.
    fn beside_op(&mut self) -> Op {
        let (tree, key) = (self.tree(), self.key());
        match self.rng.index(10) {
            0..4 => {
                let (value, attributes, hours) = (self.value(), self.attributes(), self.hours());
                Op::PutOpts { tree, key, value, attributes, hours, how: self.rng.index(7) }
            }
            4..7 => Op::SetBeside { tree, key, change: NewBeside::Hours(self.hours()) },
            _ => Op::SetBeside { tree, key, change: NewBeside::Attributes(self.attributes()) },
        }
    }

    fn maybe_value(&mut self) -> Option<Recipe> {
        (!self.rng.percent(25)).then(|| self.value())
    }

    /// How long something lives: mostly for ever.
    fn hours(&mut self) -> Option<u64> {
        self.rng.percent(15).then(|| self.rng.between(1, 30) as u64)
    }

    fn tree(&mut self) -> usize {
        if self.rng.percent(50) { 0 } else { self.rng.index(TREES.len()) }
    }

    fn bound(&mut self) -> Bound<Key> {
        let mut at = if self.rng.percent(4) { key([]) } else { self.key() };
        if self.rng.percent(10) {
            at = key([&at[..], &[0]].concat());
        }
        match self.rng.index(10) {
            0..4 => Bound::Included(at),
            4..8 => Bound::Excluded(at),
            _ => Bound::Unbounded,
        }
    }

    pub(crate) fn range(&mut self) -> Range {
        let mut range = Range::all();
        match self.rng.index(10) {
            0 => {}
            1..4 => {
                let whole = self.key();
                let prefix = whole[..self.rng.between(0, whole.len().min(8))].to_vec();
                range.lower = Bound::Included(key(prefix.clone()));
                range.upper = match prefix.iter().rposition(|&byte| byte != 0xff) {
                    None => Bound::Unbounded,
                    Some(last) => {
                        let mut end = prefix[..=last].to_vec();
                        end[last] += 1;
                        Bound::Excluded(key(end))
                    }
                };
                range.prefix = Some(key(prefix));
            }
            _ => {
                range.lower = self.bound();
                range.upper = self.bound();
            }
        }
        range.reverse = self.rng.percent(50);
        range.keys_only = self.rng.percent(20);
        range
    }

    fn batch(&mut self) -> Op {
        let len = if self.rng.percent(3) { self.rng.between(20, 200) } else { self.rng.between(0, 8) };
        let mut writes: Vec<Write> = Vec::new();
        for _ in 0..len {
            let again = writes.last().filter(|_| self.rng.percent(15)).cloned();
            let (tree, key) = again.map_or_else(|| (self.tree(), self.key()), |(tree, key, ..)| (tree, key));
            writes.push((tree, key, self.maybe_value(), self.hours()));
        }
        Op::Batch { writes, power: self.rng.percent(5), twice: self.rng.percent(2) }
    }

    fn txn(&mut self) -> Op {
        let writes = match self.batch() {
            Op::Batch { writes, .. } => writes,
            _ => Vec::new(),
        };
        let keep = if self.rng.percent(30) { self.rng.index(writes.len() + 1) } else { writes.len() };
        let range = self.rng.percent(5).then(|| {
            let from = self.key();
            let end = Key(Arc::from([&from[..], &[0x80]].concat()));
            Range { lower: Bound::Included(from), upper: Bound::Excluded(end), ..Range::all() }
        });
        let pessimistic = self.rng.percent(50);
        Op::Txn { writes, range, keep, pessimistic, commits: self.rng.percent(80) }
    }

    /// A value that comes as a stream: now and then one that gets a file of its own.
    fn long_value(&mut self) -> Recipe {
        let value = self.value();
        if !self.rng.one_in(40) {
            return value;
        }
        Recipe { len: self.rng.between(1 << 20, 5 << 19) as u32, ..value }
    }

    /// An operation on streams and on values that are held.
    fn huge_op(&mut self) -> Op {
        let slot = self.rng.index(SLOTS);
        // Small pieces and large ones alike.
        let len = 1 << self.rng.between(0, 20);
        match self.rng.index(100) {
            0..8 => {
                let (tree, key, value) = (self.tree(), self.key(), self.long_value());
                // Of a long value no tiny pieces.
                let piece = self.rng.between(1, 9_999) as u32 + value.len / 50;
                Op::PutFrom { tree, key, value, piece, fails: self.rng.percent(20) }
            }
            8..22 => {
                let (tree, key, value) = (self.tree(), self.key(), self.long_value());
                Op::BeginStream { slot, tree, key, value, hours: self.hours() }
            }
            22..37 => Op::FeedStream { slot, len },
            37..50 => {
                let ends = [StreamEnd::Abandon, StreamEnd::Commit, StreamEnd::Power, StreamEnd::Batch];
                Op::EndStream { slot, how: *self.rng.pick(&ends) }
            }
            50..65 => {
                let snapshot = self.rng.percent(30).then(|| self.rng.index(SLOTS));
                Op::Hold { slot, tree: self.tree(), key: self.key(), snapshot }
            }
            65..80 => Op::ReadHeld { slot, from: self.rng.next() as u32, len: self.rng.next() as u32 },
            80..92 => Op::StreamHeld { slot, len },
            _ => Op::LetGo { slot },
        }
    }

    fn cursor_move(&mut self) -> Move {
        match self.rng.index(20) {
            0 => Move::First,
            1 => Move::Last,
            2..4 => Move::Seek(self.key()),
            4..6 => Move::SeekForPrev(self.key()),
            6..13 => Move::Next,
            _ => Move::Prev,
        }
    }

    /// An operation on cursors, or on both ends of a range.
    fn cursor_op(&mut self) -> Op {
        let slot = self.rng.index(SLOTS);
        let snapshot = self.rng.percent(30).then(|| self.rng.index(SLOTS));
        match self.rng.index(100) {
            0..20 => Op::OpenCursor { slot, tree: self.tree(), snapshot },
            20..65 => {
                let count = self.rng.between(1, 25);
                Op::MoveCursor { slot, moves: (0..count).map(|_| self.cursor_move()).collect() }
            }
            65..75 => Op::RefreshCursor { slot },
            75..85 => Op::CloseCursor { slot },
            _ => {
                let count = self.rng.between(1, 6);
                let ends = (0..count).map(|_| self.rng.percent(50)).collect();
                let copies = self.rng.percent(30);
                Op::BothEnds { tree: self.tree(), range: self.range(), snapshot, ends, copies }
            }
        }
    }

    /// An operation whose result does not depend on how the store is kept.
    pub(crate) fn data_op(&mut self) -> Op {
        if self.rng.percent(8) {
            return self.huge_op();
        }
        if self.rng.percent(5) {
            return self.cursor_op();
        }
        if self.rng.percent(5) {
            return self.beside_op();
        }
        let slot = self.rng.index(SLOTS);
        match self.rng.index(1000) {
            0..300 => {
                let (tree, key, value) = (self.tree(), self.key(), self.value());
                Op::Put { tree, key, value, power: self.rng.percent(3), hours: self.hours() }
            }
            300..370 => Op::Delete { tree: self.tree(), key: self.key() },
            370..372 => {
                // Mostly short ranges: there must be something left.
                let range = match self.rng.percent(85) {
                    true => {
                        let key = self.key();
                        let end = Key(Arc::from([&key[..], &[self.rng.index(256) as u8]].concat()));
                        Range { lower: Bound::Included(key), upper: Bound::Excluded(end), ..Range::all() }
                    }
                    false => self.range(),
                };
                let around = self.rng.percent(30).then(|| (self.short_key(), self.value()));
                Op::DeleteRange { tree: self.tree(), range, around }
            }
            372..390 => {
                let (tree, from, to) = (self.tree(), self.key(), self.key());
                Op::Transfer { tree, from, to, keep: self.rng.percent(50) }
            }
            390..420 => {
                let count = if self.rng.percent(80) { 1 } else { self.rng.between(2, 9) };
                let operands = (0..count)
                    .map(|_| Recipe { len: self.rng.index(30) as u32, seed: self.rng.next() as u32 })
                    .collect();
                Op::Merge { tree: self.tree(), key: self.key(), longest: self.rng.percent(40), operands }
            }
            420..460 => self.batch(),
            460..466 => self.txn(),
            466..470 => {
                let count = self.rng.between(0, 40);
                let pairs = (0..count).map(|_| (self.key(), self.value())).collect();
                Op::Ingest { tree: self.tree(), pairs, sorted: self.rng.percent(70) }
            }
            470..600 => Op::Get { tree: self.tree(), key: self.key() },
            600..640 => Op::GetInto { tree: self.tree(), key: self.key() },
            640..660 => {
                let len = self.rng.between(0, 12);
                Op::GetMany { tree: self.tree(), keys: (0..len).map(|_| self.key()).collect() }
            }
            660..690 => Op::Contains { tree: self.tree(), key: self.key() },
            690..730 => {
                let (tree, key, right) = (self.tree(), self.key(), self.rng.percent(70));
                Op::Swap { tree, key, right, new: self.maybe_value() }
            }
            730..750 => Op::Update { tree: self.tree(), key: self.key(), longest: 40 },
            750..770 => {
                let how = match self.rng.below(5) {
                    0 => Exchange::Insert(self.value()),
                    1 => Exchange::Remove,
                    2 => Exchange::PutIfAbsent(self.value()),
                    _ => Exchange::End { last: self.rng.percent(50), pop: self.rng.percent(50) },
                };
                Op::Exchange { tree: self.tree(), key: self.key(), how }
            }
            770..810 => Op::Scan { tree: self.tree(), range: self.range(), copies: self.rng.percent(50) },
            810..820 => Op::Count { tree: self.tree(), range: self.range() },
            820..840 => {
                let snapshot = self.rng.percent(30).then(|| self.rng.index(SLOTS));
                Op::OpenScan { slot, tree: self.tree(), range: self.range(), snapshot }
            }
            840..895 => Op::AdvanceScan { slot, steps: self.rng.between(1, 20) as u32 },
            895..900 => Op::CloseScan { slot },
            900..915 => Op::TakeSnapshot { slot },
            915..950 => Op::SnapshotGet { slot, tree: self.tree(), key: self.key() },
            950..962 => Op::SnapshotScan { slot, tree: self.tree(), range: self.range() },
            962..970 => Op::DropSnapshot { slot },
            970..980 => {
                let compression = *self.rng.pick(&[Compression::None, Compression::Lz4, Compression::Zstd]);
                Op::Create { tree: self.rng.index(TREES.len()), compression }
            }
            980..982 => Op::DropTree { tree: self.rng.index(TREES.len()) },
            982..987 => Op::SetTag { tree: self.tree(), tag: self.rng.index(1000) as u32 },
            987..990 => Op::BadInput { tree: self.tree() },
            990..997 => Op::Pass { hours: self.rng.between(1, 8) as u64 },
            997..999 => Op::VerifyAll,
            _ => Op::Quiesce,
        }
    }

    /// An operation on how the store is kept.
    pub(crate) fn care_op(&mut self) -> Op {
        match self.rng.index(1000) {
            0..130 => Op::Flush,
            130..160 => Op::Compact,
            160..200 => Op::Sync,
            200..850 => Op::Step { job: self.rng.index(JOBS.len()), times: self.rng.between(1, 4) as u32 },
            850..930 => Op::Stats,
            930..940 => Op::Checkpoint,
            945..955 => {
                let split_at = self.rng.percent(50).then(|| self.key());
                Op::Move { tree: self.tree(), split_at, seed: self.rng.next() }
            }
            940..945 => {
                let (style, ratio) = (*self.rng.pick(CompactionStyle::ALL), *self.rng.pick(&[2, 3, 4, 10]));
                Op::SetOptions { tree: self.tree(), style, ratio }
            }
            _ => {
                let how = *self.rng.pick(&[Reopen::Close, Reopen::Drop, Reopen::Kill, Reopen::ReadOnly]);
                Op::Reopen { how, seed: self.rng.next() }
            }
        }
    }

    /// A history of `len` operations of all kinds.
    pub(crate) fn history(&mut self, len: usize) -> Vec<Op> {
        (0..len).map(|_| if self.rng.percent(4) { self.care_op() } else { self.data_op() }).collect()
    }
}
