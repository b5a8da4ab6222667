//! What each writer does, and what its keys hold after so many operations.
//!
//! Operation `n` of writer `w` is a function of the history's seed, `w`, `n`, the life in which it was done (what a crash has
//! lost is done otherwise the next time), and what the writer's keys held before. So how far a writer came
//! tells all that its keys must hold: that is the oracle, for stores after a crash and for snapshots amid the load.
//!
//! Most operations are *carriers*: they also write the writer's [`Head`], in one batch or transaction, which says how far it
//! came. The others are single calls (a put, a merge, a rename, ...) that write one thing. At most [`SINGLES_MAX`] stand in
//! a row, so a store may be at the head's operation or at one of those.

use std::collections::BTreeMap;

use test_kit::Rng;

pub(crate) const WRITERS: usize = 4;
pub(crate) const ACCOUNTS: usize = 12;
/// What every account begins with.
pub(crate) const START: i64 = 1_000;
/// Trees that are written to by batches, and split; the third has no log.
pub(crate) const FAMILIES: [&str; 3] = ["left", "right", "volatile"];
/// The family without a log, which has operations of its own.
pub(crate) const VOLATILE: usize = 2;
/// Every fourth operation is a carrier at least.
pub(crate) const SINGLES_MAX: u64 = 3;

const BLOCKS: u64 = 6;
const PLAIN: u64 = 8;
const NUMBERS: u64 = 2;
const LISTS: u64 = 2;
/// A list that is longer begins anew.
const LIST_MAX: usize = 300;

/// What is the same for a whole history.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Knobs {
    pub(crate) seed: u64,
    /// When it began, in microseconds since 1970: values expire so long after that.
    pub(crate) began_us: u64,
    pub(crate) separate_at: usize,
}

/// Who does what: a writer, in the logged trees or in the one without a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Actor {
    pub(crate) writer: usize,
    pub(crate) is_volatile: bool,
}

/// Where each life began: the operations of every actor that the store held then.
#[derive(Debug, Clone, Default)]
pub(crate) struct Lives(pub(crate) Vec<[u64; WRITERS * 2]>);

impl Actor {
    pub(crate) fn slot(self) -> usize {
        self.writer + if self.is_volatile { WRITERS } else { 0 }
    }

    pub(crate) fn of(slot: usize) -> Actor {
        Actor { writer: slot % WRITERS, is_volatile: slot >= WRITERS }
    }
}

impl Lives {
    /// The life in which operation `n` was done: the last that began before it.
    pub(crate) fn of(&self, actor: Actor, n: u64) -> u64 {
        let life = self.0.iter().rposition(|began| began[actor.slot()] < n);
        life.unwrap_or(0) as u64
    }
}

/// What a key holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Content {
    /// Bytes that follow from `tag`.
    Bytes {
        tag: u64,
        len: usize,
    },
    Number(i64),
    List(Vec<u8>),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) content: Content,
    /// In microseconds since 1970.
    pub(crate) expires_us: Option<u64>,
}

impl Content {
    pub(crate) fn bytes(&self) -> Vec<u8> {
        match self {
            Content::Bytes { tag, len } => bytes_of(*tag, *len),
            Content::Number(number) => esker::keys::i64(*number).to_vec(),
            Content::List(list) => list.clone(),
        }
    }

    /// Whether `bytes` are these.
    pub(crate) fn matches(&self, bytes: &[u8]) -> bool {
        let Content::Bytes { tag, len } = self else { return self.bytes() == bytes };
        let mut rng = Rng::new(*tag);
        bytes.len() == *len && bytes.chunks(8).all(|chunk| rng.next().to_le_bytes().starts_with(chunk))
    }
}

pub(crate) fn bytes_of(tag: u64, len: usize) -> Vec<u8> {
    let mut rng = Rng::new(tag);
    let mut bytes = vec![0; len];
    for chunk in bytes.chunks_mut(8) {
        let word = rng.next().to_le_bytes();
        chunk.copy_from_slice(&word[..chunk.len()]);
    }
    bytes
}

/// A key of the writer's own. Those of one block are neighbours, with those of the other writers between blocks.
pub(crate) fn key(block: u64, writer: usize, index: u64) -> Vec<u8> {
    format!("{block:02}w{writer}/{index:02}").into_bytes()
}

/// What all keys of a block of a writer begin with.
pub(crate) fn block_prefix(block: u64, writer: usize) -> Vec<u8> {
    format!("{block:02}w{writer}/").into_bytes()
}

/// Whose a key is.
pub(crate) fn writer_of(key: &[u8]) -> Option<usize> {
    let digit = key.get(3).filter(|_| key.get(2) == Some(&b'w'))?;
    (*digit as usize).checked_sub(b'0' as usize).filter(|&writer| writer < WRITERS)
}

#[derive(Debug, Clone)]
pub(crate) enum Change {
    Put { family: usize, key: Vec<u8>, entry: Entry, is_stream: bool },
    Delete { family: usize, key: Vec<u8> },
    DeleteBlock { family: usize, prefix: Vec<u8> },
    Add { family: usize, key: Vec<u8>, number: i64 },
    Append { family: usize, key: Vec<u8>, bytes: Vec<u8> },
    Move { family: usize, from: Vec<u8>, to: Vec<u8>, keep: bool },
}

/// What is moved from one account to another.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Transfer {
    pub(crate) from: usize,
    pub(crate) to: usize,
    pub(crate) amount: i64,
}

#[derive(Debug, Clone)]
pub(crate) enum Action {
    /// Changes of several trees, and the head.
    Batch(Vec<Change>),
    /// A transaction: accounts, perhaps another change, and the head.
    Transfer(Transfer, Option<Change>),
    /// The head alone, by compare-and-swap.
    Swap,
    /// A single call.
    Single(Change),
    /// The writer's place in a value that all writers update.
    Count,
}

#[derive(Debug, Clone)]
pub(crate) struct Op {
    pub(crate) action: Action,
    /// Written with `Durability::Power`.
    pub(crate) power: bool,
    /// Decides what else the operation leaves open.
    pub(crate) whim: u64,
}

impl Op {
    /// Whether it deletes a range.
    pub(crate) fn has_range(&self) -> bool {
        let is_range = |change: &Change| matches!(change, Change::DeleteBlock { .. });
        match &self.action {
            Action::Batch(changes) => changes.iter().any(is_range),
            Action::Transfer(_, change) => change.as_ref().is_some_and(is_range),
            Action::Single(change) => is_range(change),
            Action::Swap | Action::Count => false,
        }
    }
}

/// Of a carrier: how far its writer came, and what others had been acknowledged before it began.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) n: u64,
    pub(crate) life: u64,
    pub(crate) saw: [u64; WRITERS],
    /// The last carriers of these.
    pub(crate) saw_heads: [u64; WRITERS],
}

const HEAD_WORDS: usize = 2 + 2 * WRITERS;

impl Head {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let words = [self.n, self.life].into_iter().chain(self.saw).chain(self.saw_heads);
        words.flat_map(u64::to_le_bytes).collect()
    }

    pub(crate) fn decode(bytes: &[u8]) -> Option<Head> {
        let words = words_of(bytes).filter(|words| words.len() == HEAD_WORDS)?;
        let (mut saw, mut saw_heads) = ([0; WRITERS], [0; WRITERS]);
        saw.copy_from_slice(&words[2..2 + WRITERS]);
        saw_heads.copy_from_slice(&words[2 + WRITERS..]);
        Some(Head { n: words[0], life: words[1], saw, saw_heads })
    }
}

/// Little-endian numbers of eight bytes each.
pub(crate) fn words_of(bytes: &[u8]) -> Option<Vec<u64>> {
    let whole = bytes.len().is_multiple_of(8);
    whole.then(|| bytes.chunks(8).map(|word| u64::from_le_bytes(word.try_into().expect("eight"))).collect())
}

/// The kind of an operation, which does not depend on what was written before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Batch,
    Transfer,
    Swap,
    Single,
    Count,
}

fn rng_of(knobs: &Knobs, actor: Actor, n: u64, lives: &Lives) -> Rng {
    let mut rng = Rng::new(knobs.seed ^ (n << 20) ^ (lives.of(actor, n) << 8) ^ actor.slot() as u64);
    Rng::new(rng.next())
}

fn draw_kind(rng: &mut Rng, actor: Actor, n: u64) -> Kind {
    let drawn = rng.below(100);
    match drawn {
        _ if actor.is_volatile => Kind::Batch,
        0..25 if !n.is_multiple_of(SINGLES_MAX + 1) => Kind::Single,
        25..32 if !n.is_multiple_of(SINGLES_MAX + 1) => Kind::Count,
        32..40 => Kind::Swap,
        40..55 => Kind::Transfer,
        _ => Kind::Batch,
    }
}

/// Whether operation `n` writes the head.
pub(crate) fn is_carrier(knobs: &Knobs, actor: Actor, n: u64, lives: &Lives) -> bool {
    let kind = draw_kind(&mut rng_of(knobs, actor, n, lives), actor, n);
    !matches!(kind, Kind::Single | Kind::Count)
}

/// A writer after some of its operations.
#[derive(Debug, Clone)]
pub(crate) struct Model {
    pub(crate) knobs: Knobs,
    pub(crate) actor: Actor,
    pub(crate) n: u64,
    pub(crate) entries: BTreeMap<(usize, Vec<u8>), Entry>,
    /// What its transfers have changed of each account.
    pub(crate) moved: [i64; ACCOUNTS],
    /// Its place in the value that all update.
    pub(crate) count: u64,
}

impl Model {
    pub(crate) fn new(knobs: Knobs, actor: Actor) -> Model {
        Model { knobs, actor, n: 0, entries: BTreeMap::new(), moved: [0; ACCOUNTS], count: 0 }
    }

    /// The operation that comes next.
    pub(crate) fn next(&self, lives: &Lives) -> Op {
        let n = self.n + 1;
        let mut rng = rng_of(&self.knobs, self.actor, n, lives);
        let action = match draw_kind(&mut rng, self.actor, n) {
            Kind::Batch => {
                let count = 1 + rng.below(5);
                // In a batch nothing is moved: that is a call of its own.
                let mut changes: Vec<Change> = Vec::new();
                for slot in 0..count {
                    let change = self.change(&mut rng, slot);
                    if !matches!(change, Change::Move { .. }) {
                        changes.push(change);
                    }
                }
                Action::Batch(changes)
            }
            Kind::Transfer => {
                let (from, to) = (rng.index(ACCOUNTS), rng.index(ACCOUNTS));
                let amount = rng.below(100).cast_signed();
                let other = rng.one_in(3).then(|| self.change(&mut rng, 0));
                let other = other.filter(|change| {
                    // Streams go into batches; what is moved is a call of its own; a transaction takes a time to live, not
                    // a moment at which it ends.
                    let expires = |entry: &Entry| entry.expires_us.is_some();
                    !matches!(change, Change::Put { entry, is_stream, .. } if *is_stream || expires(entry))
                        && !matches!(change, Change::Move { .. })
                });
                Action::Transfer(Transfer { from, to, amount }, other)
            }
            Kind::Swap => Action::Swap,
            Kind::Single => Action::Single(self.change(&mut rng, 0)),
            Kind::Count => Action::Count,
        };
        let power = rng.one_in(if self.actor.is_volatile { 40 } else { 12 });
        Op { action, power, whim: rng.next() }
    }

    fn change(&self, rng: &mut Rng, slot: u64) -> Change {
        let writer = self.actor.writer;
        let family = if self.actor.is_volatile { VOLATILE } else { rng.index(VOLATILE) };
        let block = rng.below(BLOCKS);
        let index = rng.below(PLAIN + NUMBERS + LISTS);
        let key = key(block, writer, index);
        if rng.one_in(40) {
            return Change::DeleteBlock { family, prefix: block_prefix(block, writer) };
        }
        if rng.one_in(8) {
            return Change::Delete { family, key };
        }
        let plain = |content| Entry { content, expires_us: None };
        if index >= PLAIN + NUMBERS {
            let bytes = bytes_of(rng.next(), 1 + rng.index(12));
            return match self.entries.get(&(family, key.clone())).map(|entry| &entry.content) {
                Some(Content::List(list)) if list.len() > LIST_MAX => {
                    Change::Put { family, key, entry: plain(Content::List(bytes)), is_stream: false }
                }
                _ => Change::Append { family, key, bytes },
            };
        }
        if index >= PLAIN {
            let number = rng.below(1_000).cast_signed() - 500;
            let entry = plain(Content::Number(number));
            return match rng.one_in(6) {
                true => Change::Put { family, key, entry, is_stream: false },
                false => Change::Add { family, key, number },
            };
        }
        if rng.one_in(12) {
            let to = crate::plan::key(rng.below(BLOCKS), writer, rng.below(PLAIN));
            return match self.entries.get(&(family, key.clone())) {
                // Whether it is moved depends on when.
                Some(Entry { expires_us: Some(_), .. }) => Change::Delete { family, key },
                _ => Change::Move { family, from: key, to, keep: rng.one_in(2) },
            };
        }
        self.put(rng, family, key, slot)
    }

    fn put(&self, rng: &mut Rng, family: usize, key: Vec<u8>, slot: u64) -> Change {
        let at = self.knobs.separate_at;
        let len = match rng.below(40) {
            0..6 => at + rng.index(at * 3),
            6 => rng.index(100_000),
            _ => rng.index(300),
        };
        let tag = rng.next() ^ slot;
        let until = |after_ms: u64| Some(self.knobs.began_us + after_ms * 1_000);
        let expires_us = match rng.below(20) {
            0..2 => until(rng.below(30_000)),
            2 => until(3_600_000 + rng.below(1_000)),
            _ => None,
        };
        let is_stream = rng.one_in(6) && expires_us.is_none();
        Change::Put {
            family,
            key,
            entry: Entry { content: Content::Bytes { tag, len }, expires_us },
            is_stream,
        }
    }

    /// Does the next operation.
    pub(crate) fn advance(&mut self, lives: &Lives) -> Op {
        let op = self.next(lives);
        self.n += 1;
        match &op.action {
            Action::Batch(changes) => changes.iter().for_each(|change| self.apply(change)),
            Action::Transfer(Transfer { from, to, amount }, other) => {
                self.moved[*from] -= amount;
                self.moved[*to] += amount;
                other.iter().for_each(|change| self.apply(change));
            }
            Action::Swap => {}
            Action::Single(change) => self.apply(change),
            Action::Count => self.count = self.n,
        }
        op
    }

    pub(crate) fn advance_to(&mut self, n: u64, lives: &Lives) {
        while self.n < n {
            self.advance(lives);
        }
    }

    fn apply(&mut self, change: &Change) {
        match change.clone() {
            Change::Put { family, key, entry, .. } => drop(self.entries.insert((family, key), entry)),
            Change::Delete { family, key } => drop(self.entries.remove(&(family, key))),
            Change::DeleteBlock { family, prefix } => {
                self.entries.retain(|(of, key), _| *of != family || !key.starts_with(&prefix));
            }
            Change::Add { family, key, number } => {
                let old = self.entries.remove(&(family, key.clone())).map(|entry| entry.content);
                let sum = number + if let Some(Content::Number(old)) = old { old } else { 0 };
                let entry = Entry { content: Content::Number(sum), expires_us: None };
                self.entries.insert((family, key), entry);
            }
            Change::Append { family, key, bytes } => {
                let old = self.entries.remove(&(family, key.clone())).map(|entry| entry.content);
                let mut list = if let Some(Content::List(old)) = old { old } else { Vec::new() };
                list.extend(bytes);
                let entry = Entry { content: Content::List(list), expires_us: None };
                self.entries.insert((family, key), entry);
            }
            Change::Move { family, from, to, keep } => {
                let Some(entry) = self.entries.get(&(family, from.clone())).cloned() else { return };
                if !keep {
                    self.entries.remove(&(family, from));
                }
                self.entries.insert((family, to), entry);
            }
        }
    }
}
