//! A writer: does its operations one after the other, tells each before and after, and reads what it wrote.

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::Sender;

use esker::operators::{ADD, APPEND};
use esker::{Batch, Durability, ErrorKind, Isolation, TxnMode, TxnOptions};

use crate::board::{ACTORS, Board, Word};
use crate::child::ACKED;
use crate::judge::now_us;
use crate::plan::{Action, Change, Entry, Head, Lives, Model, Op, Transfer, VOLATILE, WRITERS};
use crate::plan::{is_carrier, words_of};
use crate::store::{Routes, SHARED, Shared, account_key, head_key, volatile_head_key};
use test_kit::Rng;

/// What all threads of a life share.
pub(crate) struct World {
    pub(crate) shared: Shared,
    pub(crate) board: Board,
    pub(crate) lives: Lives,
    /// The last carrier of each actor that was acknowledged.
    pub(crate) carriers: [AtomicU64; ACTORS],
    /// Set when the life is to end in peace.
    pub(crate) ends: std::sync::atomic::AtomicBool,
}

impl World {
    pub(crate) fn is_ending(&self) -> bool {
        self.ends.load(Ordering::Relaxed)
    }
}

/// Ends the process with a message: what is found amid the load is told to the parent so.
pub(crate) fn fail(what: &str) -> ! {
    eprintln!("FOUND: {what}");
    std::process::exit(1);
}

pub(crate) struct Writer<'a> {
    pub(crate) world: &'a World,
    /// In the logged trees, and in the one without a log.
    pub(crate) models: [Model; 2],
    pub(crate) rng: Rng,
    /// Where those who wait for the writers' progress listen.
    pub(crate) listeners: Vec<Sender<()>>,
}

impl Writer<'_> {
    pub(crate) fn run(mut self) {
        while !self.world.is_ending() {
            let which = usize::from(self.rng.one_in(6));
            self.step(which);
            self.look(which);
            // One byte for each operation that was acknowledged.
            let mut out = std::io::stdout().lock();
            if out.write_all(&[ACKED]).and_then(|()| out.flush()).is_err() {
                std::process::exit(2);
            }
            self.listeners.retain(|listener| listener.send(()).is_ok());
        }
    }

    fn step(&mut self, which: usize) {
        let world = self.world;
        let actor = self.models[which].actor;
        let op = self.models[which].next(&world.lives);
        let n = self.models[which].n + 1;
        let others = if actor.is_volatile { WRITERS..ACTORS } else { 0..WRITERS };
        let reading = world.board.reading();
        let head = Head {
            n,
            life: world.lives.of(actor, n),
            saw: std::array::from_fn(|other| reading.get(Word::Acked(others.start + other))),
            saw_heads: std::array::from_fn(|other| {
                let carrier = world.carriers[others.start + other].load(Ordering::Acquire);
                carrier.min(reading.get(Word::Acked(others.start + other)))
            }),
        };
        world.board.set(Word::Begun(actor.slot()), n);
        let was_power = loop {
            // Of a range a tree deletes what it has: one that was split meanwhile would leave the rest to the other half.
            let held = op.has_range().then(|| world.shared.routes.read().expect("nobody panics here"));
            let routes = held.as_deref().map_or_else(|| world.shared.routes(), Arc::clone);
            let attempt =
                Attempt { world, routes: &routes, model: &self.models[which], head: &head, op: &op };
            let outcome = attempt.run();
            drop(held);
            match outcome {
                Ok(was_power) => break was_power,
                Err(error) => match error.kind() {
                    // The key's tree was split meanwhile.
                    ErrorKind::KeyMoved if !Arc::ptr_eq(&routes, &world.shared.routes()) => {}
                    ErrorKind::Conflict | ErrorKind::Deadlock | ErrorKind::LockTimeout => {}
                    _ => fail(&format!("{actor:?}, operation {n}, {op:?}: {error}")),
                },
            }
        };
        self.models[which].advance(&world.lives);
        world.board.set(Word::Acked(actor.slot()), n);
        if is_carrier(&self.models[which].knobs, actor, n, &world.lives) {
            world.carriers[actor.slot()].store(n, Ordering::Release);
        }
        if was_power {
            world.board.durable(&reading, others);
            world.board.raise(Word::Durable(actor.slot()), n);
        }
    }

    /// What it wrote last of some key, or that it did not, is what it reads.
    fn look(&mut self, which: usize) {
        if !self.rng.one_in(3) {
            return;
        }
        let model = &self.models[which];
        let family = if model.actor.is_volatile { VOLATILE } else { self.rng.index(VOLATILE) };
        let key = crate::plan::key(self.rng.below(6), model.actor.writer, self.rng.below(12));
        let entry = model.entries.get(&(family, key.clone()));
        let whim = self.rng.next();
        loop {
            let routes = self.world.shared.routes();
            let found = read_key(&routes, family, &key, whim);
            match (found, entry) {
                (Ok(None), None) => return,
                (Ok(Some((from, bytes))), Some(entry)) if part_matches(entry, from, &bytes) => return,
                // It may have expired.
                (Ok(None), Some(Entry { expires_us: Some(at), .. })) if *at <= now_us() + 2_000_000 => return,
                _ if !Arc::ptr_eq(&routes, &self.world.shared.routes()) => {}
                (found, entry) => {
                    let found = found.map(|found| found.map(|(from, bytes)| (from, bytes.len())));
                    let (actor, n) = (model.actor, model.n);
                    let key = key.escape_ascii();
                    fail(&format!(
                        "{actor:?} after {n} reads \"{key}\" of {family}: {found:?}, not {entry:?}"
                    ));
                }
            }
        }
    }
}

fn part_matches(entry: &Entry, from: usize, bytes: &[u8]) -> bool {
    if from == 0 { entry.content.matches(bytes) } else { entry.content.bytes().get(from..) == Some(bytes) }
}

/// The value, or its end from some byte on.
fn read_key(
    routes: &Routes,
    family: usize,
    key: &[u8],
    whim: u64,
) -> esker::Result<Option<(usize, Vec<u8>)>> {
    let tree = routes.part(family, key);
    match whim % 4 {
        0 => Ok(tree
            .get_many([key])?
            .remove(0)
            .map(esker::Value::into_vec)
            .transpose()?
            .map(|bytes| (0, bytes))),
        1 => {
            let Some(value) = tree.get(key)? else { return Ok(None) };
            let from = (whim >> 8) % (value.len() + 1);
            Ok(Some((from as usize, value.read_at(from..)?)))
        }
        _ => Ok(tree.get_vec(key)?.map(|bytes| (0, bytes))),
    }
}

/// One try of one operation.
struct Attempt<'a> {
    world: &'a World,
    routes: &'a Routes,
    model: &'a Model,
    head: &'a Head,
    op: &'a Op,
}

impl Attempt<'_> {
    fn durability(&self) -> Durability {
        if self.op.power { Durability::Power } else { Durability::Process }
    }

    /// Returns whether the operation survives power loss.
    fn run(&self) -> esker::Result<bool> {
        let shared = &self.world.shared;
        let writer = self.model.actor.writer;
        match &self.op.action {
            Action::Batch(changes) => {
                let mut batch = Batch::new();
                for change in changes {
                    self.add(&mut batch, change)?;
                }
                if self.model.actor.is_volatile {
                    let key = volatile_head_key(writer);
                    batch.put(self.routes.part(VOLATILE, key.as_bytes()), key, self.head.encode())?;
                } else {
                    batch.put(&shared.heads, head_key(writer), self.head.encode())?;
                }
                shared.db.write_with(&batch, self.durability())?;
                Ok(self.op.power)
            }
            Action::Transfer(transfer, other) => self.transfer(transfer, other.as_ref()),
            Action::Swap => {
                let old = shared.heads.get_vec(head_key(writer))?;
                let new = self.head.encode();
                if !shared.heads.compare_and_swap(head_key(writer), old.as_deref(), Some(&new))?.is_done() {
                    fail(&format!("writer {writer}: somebody else changed its head"));
                }
                Ok(false)
            }
            Action::Count => {
                let n = self.head.n;
                shared.heads.update(SHARED, |old| {
                    let mut counts = old.and_then(words_of).unwrap_or(vec![0; WRITERS]);
                    counts[writer] = n;
                    Some(counts.into_iter().flat_map(u64::to_le_bytes).collect())
                })?;
                Ok(false)
            }
            Action::Single(change) => self.single(change),
        }
    }

    fn add(&self, batch: &mut Batch, change: &Change) -> esker::Result<()> {
        match change {
            Change::Put { family, key, entry, is_stream: true } => {
                let tree = self.routes.part(*family, key);
                let mut writer = tree.writer(key)?;
                let bytes = entry.content.bytes();
                for piece in bytes.chunks(1 + (self.op.whim % 20_000) as usize) {
                    writer.add(piece)?;
                }
                batch.put_stored(tree, key, &writer.finish()?)
            }
            Change::Put { family, key, entry, .. } => {
                let tree = self.routes.part(*family, key);
                batch.put_until_us(tree, key, entry.content.bytes(), entry.expires_us)
            }
            Change::Delete { family, key } => batch.delete(self.routes.part(*family, key), key),
            Change::DeleteBlock { family, prefix } => {
                let mut ranges = self.routes.ranges(*family, prefix).into_iter();
                ranges.try_for_each(|(tree, range)| batch.delete_range(tree, &range))
            }
            Change::Add { family, key, number } => {
                batch.merge(self.routes.part(*family, key), key, ADD, esker::keys::i64(*number))
            }
            Change::Append { family, key, bytes } => {
                batch.merge(self.routes.part(*family, key), key, APPEND, bytes)
            }
            Change::Move { family, from, to, keep } => {
                let Some(entry) = self.model.entries.get(&(*family, from.clone())) else { return Ok(()) };
                if !keep {
                    batch.delete(self.routes.part(*family, from), from)?;
                }
                batch.put(self.routes.part(*family, to), to, entry.content.bytes())
            }
        }
    }

    fn single(&self, change: &Change) -> esker::Result<bool> {
        let power = self.op.power;
        match change {
            Change::Put { family, key, entry, is_stream } if entry.expires_us.is_none() => {
                let tree = self.routes.part(*family, key);
                let bytes = entry.content.bytes();
                if *is_stream {
                    tree.put_from(key, bytes.as_slice())?;
                    return Ok(false);
                }
                tree.put_with(key, bytes, self.durability())?;
                Ok(power)
            }
            Change::Delete { family, key } => {
                self.routes.part(*family, key).delete_with(key, self.durability())?;
                Ok(power)
            }
            Change::Add { family, key, number } => {
                self.routes.part(*family, key).add(key, *number).map(|()| false)
            }
            Change::Append { family, key, bytes } => {
                self.routes.part(*family, key).append(key, bytes).map(|()| false)
            }
            Change::DeleteBlock { family, prefix } if self.routes.ranges(*family, prefix).len() == 1 => {
                let (tree, range) = self.routes.ranges(*family, prefix).remove(0);
                tree.delete_range(&range).map(|()| false)
            }
            Change::Move { family, from, to, keep } if self.is_one_part(*family, from, to) => {
                let tree = self.routes.part(*family, from);
                let moved = if *keep { tree.copy(from, to)? } else { tree.rename(from, to)? };
                let is_there = self.model.entries.contains_key(&(*family, from.clone()));
                if moved != is_there {
                    let wrong = format!("moved is {moved}, although the key is there: {is_there}");
                    return Err(esker::Error::new(ErrorKind::Corruption, wrong));
                }
                Ok(false)
            }
            _ => {
                let mut batch = Batch::new();
                self.add(&mut batch, change)?;
                self.world.shared.db.write_with(&batch, self.durability())?;
                // An empty one writes nothing.
                Ok(power && !batch.is_empty())
            }
        }
    }

    fn is_one_part(&self, family: usize, from: &[u8], to: &[u8]) -> bool {
        self.routes.part(family, from).name() == self.routes.part(family, to).name()
    }

    fn transfer(&self, transfer: &Transfer, other: Option<&Change>) -> esker::Result<bool> {
        let shared = &self.world.shared;
        let whim = self.op.whim;
        let mode = if whim & 1 == 0 { TxnMode::Optimistic } else { TxnMode::Pessimistic };
        let isolation = if whim & 2 == 0 { Isolation::Serializable } else { Isolation::Snapshot };
        let options = TxnOptions::default().mode(mode).isolation(isolation).durability(self.durability());
        shared.db.transact(options, |txn| -> esker::Result<()> {
            let (from, to) = (account_key(transfer.from), account_key(transfer.to));
            let balance = |key: &str| -> esker::Result<i64> {
                let value = if whim & 4 == 0 {
                    txn.get(&shared.bank, key)?
                } else {
                    txn.get_for_update(&shared.bank, key)?
                };
                let bytes = value.map(esker::Value::into_vec).transpose()?.unwrap_or_default();
                Ok(i64::from_le_bytes(
                    bytes.as_slice().try_into().unwrap_or_else(|_| fail("an account is gone")),
                ))
            };
            txn.put(&shared.bank, &from, (balance(&from)? - transfer.amount).to_le_bytes())?;
            txn.put(&shared.bank, &to, (balance(&to)? + transfer.amount).to_le_bytes())?;
            if whim & 8 == 0 {
                let savepoint = txn.savepoint();
                txn.put(&shared.bank, &from, "what is rolled back")?;
                txn.delete(&shared.heads, SHARED)?;
                txn.rollback_to(savepoint)?;
            }
            if let Some(change) = other {
                self.change_in(txn, change)?;
            }
            txn.put(&shared.heads, head_key(self.model.actor.writer), self.head.encode())
        })?;
        Ok(self.op.power)
    }

    fn change_in(&self, txn: &esker::Txn, change: &Change) -> esker::Result<()> {
        match change {
            Change::Put { family, key, entry, .. } => {
                txn.put(self.routes.part(*family, key), key, entry.content.bytes())
            }
            Change::Delete { family, key } => txn.delete(self.routes.part(*family, key), key),
            Change::DeleteBlock { family, prefix } => {
                let mut ranges = self.routes.ranges(*family, prefix).into_iter();
                ranges.try_for_each(|(tree, range)| txn.delete_range(tree, &range))
            }
            Change::Add { family, key, number } => txn.add(self.routes.part(*family, key), key, *number),
            Change::Append { family, key, bytes } => txn.append(self.routes.part(*family, key), key, bytes),
            Change::Move { .. } => Ok(()),
        }
    }
}
