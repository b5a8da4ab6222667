//! A store in memory, for tests.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::ops::Bound;

use crate::commands::{evaluate, spec};
use crate::context::{Context, Event, Stamp};
use crate::cursors::Cursors;
use crate::fault::ReadError;
use crate::resp::reply::Reply;
use crate::session::{Base, Bounds, Entry, Lending, Session, Slot, UseValue, Value, Visit};
use crate::writes::{Op, Writes};

/// A store in memory.
#[derive(Debug, Default)]
pub struct Memory {
    trees: BTreeMap<Slot, BTreeMap<Vec<u8>, Entry>>,
    cursors: Cursors,
    /// The seed of the last command.
    sequence: u64,
    writes: Writes,
    /// Whether what commands write stays apart from the store, as in a transaction. The first command behind it applies all.
    pub in_transaction: bool,
    /// How many entries a command reads before the first one that needs I/O; `None`: no one does.
    pub reads_in_memory: Option<u64>,
    /// The time of all commands, in microseconds since 1970.
    pub now_us: u64,
    /// By how many milliseconds that time is ahead of the moments that clients give and are told.
    pub ahead_ms: i64,
    /// The database that commands are about.
    pub database: u16,
    /// What has happened to keys since the caller looked last.
    pub events: Vec<Event>,
}

impl Base for BTreeMap<Slot, BTreeMap<Vec<u8>, Entry>> {
    fn get(&self, slot: Slot, key: &[u8]) -> Result<Option<Entry>, ReadError> {
        Ok(BTreeMap::get(self, &slot).and_then(|tree| tree.get(key)).cloned())
    }

    fn lend(&self, slot: Slot, key: &[u8], use_value: &mut UseValue<'_>) -> Result<Lending, ReadError> {
        Ok(match BTreeMap::get(self, &slot).and_then(|tree| tree.get(key)) {
            None => Lending::Absent,
            Some(Entry { value: Value::Bytes(bytes), attributes, expires_us }) if attributes.is_empty() => {
                use_value(bytes, *expires_us);
                Lending::Lent
            }
            Some(_) => Lending::Refused,
        })
    }

    fn walk(
        &self,
        slot: Slot,
        bounds: Bounds<'_>,
        reverse: bool,
        visit: &mut Visit<'_>,
    ) -> Result<(), ReadError> {
        let Some(tree) = BTreeMap::get(self, &slot) else { return Ok(()) };
        let upper = bounds.upper.map_or(Bound::Unbounded, Bound::Excluded);
        let within = tree.range::<[u8], _>((Bound::Included(bounds.lower), upper));
        let mut show = |(key, entry): (&Vec<u8>, &Entry)| visit(key, entry.clone());
        if reverse {
            for pair in within.rev() {
                if !show(pair)? {
                    break;
                }
            }
        } else {
            for pair in within {
                if !show(pair)? {
                    break;
                }
            }
        }
        Ok(())
    }
}

/// A store of which only the entries that are read first are in memory.
struct Cold<'a> {
    trees: &'a BTreeMap<Slot, BTreeMap<Vec<u8>, Entry>>,
    left: Cell<u64>,
}

impl Cold<'_> {
    fn read(&self) -> Result<(), ReadError> {
        let left = self.left.get().checked_sub(1).ok_or(ReadError::NeedsIo)?;
        self.left.set(left);
        Ok(())
    }
}

impl Base for Cold<'_> {
    fn get(&self, slot: Slot, key: &[u8]) -> Result<Option<Entry>, ReadError> {
        self.read()?;
        Base::get(self.trees, slot, key)
    }

    fn lend(&self, slot: Slot, key: &[u8], use_value: &mut UseValue<'_>) -> Result<Lending, ReadError> {
        self.read()?;
        self.trees.lend(slot, key, use_value)
    }

    fn walk(
        &self,
        slot: Slot,
        bounds: Bounds<'_>,
        reverse: bool,
        visit: &mut Visit<'_>,
    ) -> Result<(), ReadError> {
        self.trees.walk(slot, bounds, reverse, &mut |key, entry| {
            self.read()?;
            visit(key, entry)
        })
    }
}

impl Memory {
    /// An empty store at a time, in microseconds since 1970.
    pub fn at(now_us: u64) -> Memory {
        Memory { now_us, ..Memory::default() }
    }

    /// The reply to a command, as the bytes that a client of version 2 would get, or of version 3 if `resp3`.
    pub fn reply(&mut self, arguments: &[&[u8]], resp3: bool) -> Vec<u8> {
        let mut reply = Reply::new(resp3);
        let Some(spec) = arguments.first().and_then(|name| spec(name)) else {
            reply.error("ERR unknown command");
            return reply.bytes;
        };
        let mut writes = std::mem::take(&mut self.writes);
        self.sequence += 1;
        let stamp = Stamp { now_us: self.now_us, ahead_ms: self.ahead_ms, seed: self.sequence };
        // As a server does: once with what is in memory, and again with everything if that is not enough.
        let cold = Cold { trees: &self.trees, left: Cell::new(self.reads_in_memory.unwrap_or(u64::MAX)) };
        for base in [&cold as &dyn Base, &self.trees] {
            let session = Session::new(base, &mut writes, self.now_us);
            let mut ctx = Context::new(session, &self.cursors, stamp, self.database, 16);
            match evaluate(&mut ctx, spec, arguments, &mut reply) {
                Err(ReadError::NeedsIo) => continue,
                Err(error) => reply.error(&format!("{error:?}")),
                Ok(()) => {}
            }
            self.events.extend(ctx.take_events());
            break;
        }
        if self.in_transaction {
            self.writes = writes;
        } else {
            self.apply(&writes);
        }
        reply.into_whole().unwrap_or_else(|error| format!("-{error:?}\r\n").into_bytes())
    }

    /// The reply to a line of words, as text: a line end is `|`.
    pub fn ask(&mut self, line: &str) -> String {
        let words = crate::resp::parser::words(line.as_bytes()).unwrap_or_default();
        let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
        let reply = self.reply(&words, false);
        String::from_utf8_lossy(&reply).replace("\r\n", "|")
    }

    /// How many keys the trees of elements have: those of large collections.
    pub fn elements(&self) -> usize {
        let of_elements = self.trees.iter().filter(|(slot, _)| slot.space == crate::Space::Elements);
        of_elements.map(|(_, tree)| tree.len()).sum()
    }

    /// The keys of the trees of elements.
    #[cfg(test)]
    pub(crate) fn keys_of_elements(&self) -> Vec<Vec<u8>> {
        let of_elements = self.trees.iter().filter(|(slot, _)| slot.space == crate::Space::Elements);
        of_elements.flat_map(|(_, tree)| tree.keys().cloned()).collect()
    }

    /// The attributes of a key.
    #[cfg(test)]
    pub(crate) fn attributes(&self, key: &str) -> Vec<u8> {
        let slot = Slot { database: self.database, space: crate::Space::Keys };
        let entry = Base::get(&self.trees, slot, key.as_bytes()).ok().flatten();
        entry.map_or_else(Vec::new, |entry| entry.attributes)
    }

    fn apply(&mut self, writes: &Writes) {
        for slot in writes.cleared() {
            self.trees.remove(slot);
        }
        for (slot, bounds) in writes.ranges() {
            let tree = self.trees.entry(slot).or_default();
            tree.retain(|key, _| {
                key.as_slice() < bounds.lower || bounds.upper.is_some_and(|upper| key.as_slice() >= upper)
            });
        }
        for (slot, key, op) in writes.ops() {
            let tree = self.trees.entry(slot).or_default();
            match op {
                Op::Put(entry) => drop(tree.insert(key.to_vec(), entry.clone())),
                Op::Delete => drop(tree.remove(key)),
            }
        }
    }
}
