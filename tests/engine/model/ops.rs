//! What a run does: operations as data, so that a history can be repeated under other options and
//! shortened when it fails.

use std::fmt;
use std::ops::Bound;
use std::sync::Arc;

use esker::env::JobKind;
use esker::{CompactionStyle, Compression, ScanRange};

use crate::common::Rng;
use crate::model::Bytes;

/// The trees that come and go; the first one is always there.
pub(crate) const TREES: [&str; 5] = ["default", "a", "b", "naïve tree", "\u{0}odd\n"];

/// Snapshots, scans, cursors, streams and values that can be open or held at a time.
pub(crate) const SLOTS: usize = 4;

/// What is stepped together.
pub(crate) const JOBS: [&[JobKind]; 3] =
    [&[JobKind::Log, JobKind::Flush], &[JobKind::Compact], &[JobKind::Blobs]];

/// A key whose `Debug` fits on a line.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Key(pub(crate) Bytes);

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = &self.0[..self.0.len().min(24)];
        write!(f, "\"{}\"", shown.escape_ascii())?;
        if shown.len() < self.0.len() { write!(f, "..{}", self.0.len()) } else { Ok(()) }
    }
}

impl std::ops::Deref for Key {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

/// A value, as the recipe for its bytes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Recipe {
    pub(crate) len: u32,
    pub(crate) seed: u32,
}

impl Recipe {
    /// Half of all values compress well.
    pub(crate) fn bytes(self) -> Bytes {
        let (mut rng, len) = (Rng::new(u64::from(self.seed)), self.len as usize);
        let first = rng.next().to_le_bytes();
        let bytes = if self.seed.is_multiple_of(2) { first.repeat(len.div_ceil(8)) } else { rng.bytes(len) };
        Arc::from(&bytes[..len])
    }
}

fn bytes_of(bound: &Bound<Key>) -> Bound<&[u8]> {
    bound.as_ref().map(|key| &**key)
}

/// What a scan visits.
#[derive(Debug, Clone)]
pub(crate) struct Range {
    pub(crate) lower: Bound<Key>,
    pub(crate) upper: Bound<Key>,
    /// Set where the range was made by `prefix`; the bounds say the same.
    pub(crate) prefix: Option<Key>,
    pub(crate) reverse: bool,
    pub(crate) keys_only: bool,
}

impl Range {
    pub(crate) fn all() -> Self {
        Range {
            lower: Bound::Unbounded,
            upper: Bound::Unbounded,
            prefix: None,
            reverse: false,
            keys_only: false,
        }
    }

    pub(crate) fn to_scan_range(&self) -> ScanRange {
        let mut range = match &self.prefix {
            Some(prefix) => ScanRange::prefix(&**prefix),
            None => ScanRange::from((bytes_of(&self.lower), bytes_of(&self.upper))),
        };
        range = if self.reverse { range.reverse() } else { range };
        if self.keys_only { range.keys_only() } else { range }
    }
}

/// Where a cursor goes.
#[derive(Debug, Clone)]
pub(crate) enum Move {
    First,
    Last,
    Seek(Key),
    SeekForPrev(Key),
    Next,
    Prev,
}

/// One write of a batch, for some hours; a value of `None` deletes.
pub(crate) type Write = (usize, Key, Option<Recipe>, Option<u64>);

/// One step of a history. Trees and slots are named by number; a step on a tree or slot that is not there
/// checks that it is not.
#[derive(Debug, Clone)]
pub(crate) enum Op {
    Put {
        tree: usize,
        key: Key,
        value: Recipe,
        power: bool,
        hours: Option<u64>,
    },
    Delete {
        tree: usize,
        key: Key,
    },
    Batch {
        writes: Vec<Write>,
        power: bool,
        twice: bool,
    },
    Get {
        tree: usize,
        key: Key,
    },
    GetInto {
        tree: usize,
        key: Key,
    },
    GetMany {
        tree: usize,
        keys: Vec<Key>,
    },
    Contains {
        tree: usize,
        key: Key,
    },
    /// `right`: with the value that is there as the expected one, otherwise with another.
    Swap {
        tree: usize,
        key: Key,
        right: bool,
        new: Option<Recipe>,
    },
    Exchange {
        tree: usize,
        key: Key,
        how: Exchange,
    },
    /// Renames, or with `keep` copies.
    Transfer {
        tree: usize,
        from: Key,
        to: Key,
        keep: bool,
    },
    /// Puts a value with attributes, in one of several ways.
    PutOpts {
        tree: usize,
        key: Key,
        value: Recipe,
        attributes: Recipe,
        hours: Option<u64>,
        how: usize,
    },
    SetBeside {
        tree: usize,
        key: Key,
        change: NewBeside,
    },
    /// Merges operands into a value, several in one batch: by `longest`, or appending.
    Merge {
        tree: usize,
        key: Key,
        longest: bool,
        operands: Vec<Recipe>,
    },
    /// Adds a byte to the value; deletes when it has reached `longest`.
    Update {
        tree: usize,
        key: Key,
        longest: u32,
    },
    Scan {
        tree: usize,
        range: Range,
        copies: bool,
    },
    Count {
        tree: usize,
        range: Range,
    },
    OpenScan {
        slot: usize,
        tree: usize,
        range: Range,
        snapshot: Option<usize>,
    },
    AdvanceScan {
        slot: usize,
        steps: u32,
    },
    CloseScan {
        slot: usize,
    },
    OpenCursor {
        slot: usize,
        tree: usize,
        snapshot: Option<usize>,
    },
    MoveCursor {
        slot: usize,
        moves: Vec<Move>,
    },
    RefreshCursor {
        slot: usize,
    },
    CloseCursor {
        slot: usize,
    },
    /// Reads all of a range from the ends that `ends` says, over and over; `true` is the back.
    BothEnds {
        tree: usize,
        range: Range,
        snapshot: Option<usize>,
        ends: Vec<bool>,
        copies: bool,
    },
    TakeSnapshot {
        slot: usize,
    },
    SnapshotGet {
        slot: usize,
        tree: usize,
        key: Key,
    },
    SnapshotScan {
        slot: usize,
        tree: usize,
        range: Range,
    },
    DropSnapshot {
        slot: usize,
    },
    /// Puts what a source gives out in pieces; one that `fails` does so at its end.
    PutFrom {
        tree: usize,
        key: Key,
        value: Recipe,
        piece: u32,
        fails: bool,
    },
    /// Begins a stream; one that was open in the slot is abandoned.
    BeginStream {
        slot: usize,
        tree: usize,
        key: Key,
        value: Recipe,
        hours: Option<u64>,
    },
    /// Writes the next `len` bytes of it.
    FeedStream {
        slot: usize,
        len: u32,
    },
    /// Writes the rest, unless it is abandoned.
    EndStream {
        slot: usize,
        how: StreamEnd,
    },
    /// Finds a value and keeps it.
    Hold {
        slot: usize,
        tree: usize,
        key: Key,
        snapshot: Option<usize>,
    },
    /// Reads a part of a value that is held; both numbers are taken modulo a little more than its length.
    ReadHeld {
        slot: usize,
        from: u32,
        len: u32,
    },
    /// Reads on in a value that is held, as a stream.
    StreamHeld {
        slot: usize,
        len: u32,
    },
    /// Reads all of a value that is held, and lets it go.
    LetGo {
        slot: usize,
    },
    /// Deletes a range: alone, or in a batch behind and before a put.
    DeleteRange {
        tree: usize,
        range: Range,
        around: Option<(Key, Recipe)>,
    },
    /// In a transaction; of `writes` those behind the first `keep` are rolled back, then a range of the first tree is deleted.
    Txn {
        writes: Vec<Write>,
        range: Option<Range>,
        keep: usize,
        pessimistic: bool,
        commits: bool,
    },
    /// Puts pairs in bulk, whose keys may be there twice.
    Ingest {
        tree: usize,
        pairs: Vec<(Key, Recipe)>,
        sorted: bool,
    },
    /// Exports a tree and imports it as another one, which is changed, split and dropped.
    Move {
        tree: usize,
        split_at: Option<Key>,
        seed: u64,
    },
    /// So many hours pass.
    Pass {
        hours: u64,
    },
    Create {
        tree: usize,
        compression: Compression,
    },
    DropTree {
        tree: usize,
    },
    SetTag {
        tree: usize,
        tag: u32,
    },
    SetOptions {
        tree: usize,
        style: CompactionStyle,
        ratio: u8,
    },
    BadInput {
        tree: usize,
    },
    VerifyAll,
    /// Lets go of all snapshots, scans, cursors, streams and values, so that the store may be reopened here.
    Quiesce,
    Flush,
    Compact,
    Sync,
    /// One of [`JOBS`].
    Step {
        job: usize,
        times: u32,
    },
    Stats,
    Checkpoint,
    /// `seed` draws the options of the next opening.
    Reopen {
        how: Reopen,
        seed: u64,
    },
}

/// How a store is left before it is opened again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reopen {
    /// `close`.
    Close,
    /// All handles are dropped.
    Drop,
    /// The process dies (on the simulated disk; otherwise as `Close`).
    Kill,
    /// `close`, then a look through a read-only opening.
    ReadOnly,
}

/// A write that returns the value that the key had.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Exchange {
    Insert(Recipe),
    Remove,
    PutIfAbsent(Recipe),
    /// Looks at the first pair of the tree, or the last one, and maybe takes it out. The key does not matter.
    End {
        last: bool,
        pop: bool,
    },
}

/// What is changed beside a value.
#[derive(Debug, Clone, Copy)]
pub(crate) enum NewBeside {
    Hours(Option<u64>),
    Attributes(Recipe),
}

/// How a stream ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StreamEnd {
    Abandon,
    Commit,
    /// Committed with `Durability::Power`.
    Power,
    /// In a batch with another write.
    Batch,
}
