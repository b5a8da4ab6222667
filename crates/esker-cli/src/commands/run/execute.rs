//! Executes the lines of a command file.

use std::ops::Bound;

use serde_json::json;

use super::parse::{Command, Malformed, parse};
use crate::commands::scan::{print, say_collections};
use crate::exit::Outcome;
use crate::feed::{Sink, check_line_ends};
use crate::json;
use crate::keyspace::Want;
use crate::output::Out;
use crate::ranges::KeyRange;
use crate::store::Store;
use crate::writes::{Refused, Writes};

/// How many commands of each kind took effect.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counts {
    pub(super) puts: u64,
    pub(super) gets: u64,
    pub(super) deletes: u64,
    pub(super) scans: u64,
}

/// The store, the writes not applied yet, and the output.
pub(super) struct Runner {
    store: Store,
    writes: Writes,
    out: Out,
    json: bool,
    counts: Counts,
    /// How many values were printed empty because they are not bytes.
    collections: u64,
    /// Memory for keys and values, reused for each line.
    key: Vec<u8>,
    value: Vec<u8>,
}

impl Runner {
    pub(super) fn new(store: Store, out: Out, json: bool) -> Self {
        let (writes, counts) = (Writes::new(), Counts::default());
        Runner { store, writes, out, json, counts, collections: 0, key: Vec::new(), value: Vec::new() }
    }

    /// The writes that the store has acknowledged.
    pub(super) fn counts(&self) -> Counts {
        let stored = self.writes.stored();
        Counts { puts: stored.puts, deletes: stored.deletes, ..self.counts }
    }

    /// Makes everything that took effect survive power loss and closes the store.
    pub(super) fn finish(self) -> Outcome {
        say_collections(self.collections);
        self.store.finish()
    }

    #[inline]
    fn put(&mut self, typed: &[u8], value: &[u8]) -> Result<(), Refused> {
        let key = self.store.encode(typed, &mut self.key)?;
        let value =
            self.store.encode_value(value, &mut self.value).map_err(|error| Refused::value(&error))?;
        self.writes.put(&mut self.store, key, value)
    }

    fn delete(&mut self, typed: &[u8]) -> Result<(), Refused> {
        let key = self.store.encode(typed, &mut self.key)?;
        self.writes.delete(&mut self.store, key)
    }

    #[inline]
    fn get(&mut self, typed: &[u8]) -> Result<(), Refused> {
        let key = self.store.types.keys.encode(typed, &mut self.key)?;
        if !self.writes.is_empty() {
            self.writes.apply(&mut self.store)?;
        }
        let (tree, types, start) = (&self.store.tree, self.store.types, self.out.buffer().len());
        let out = self.out.buffer();
        if self.json {
            match tree.get(key)? {
                Some(value) => {
                    let expires_us = value.expires_us();
                    json::row(out, types, key, Some((&value.all()?, expires_us)))?;
                }
                None => json::absent(out, types.keys, key)?,
            }
        } else {
            let found = tree.get_into(key, &mut self.value)?;
            out.extend_from_slice(typed);
            out.push(b' ');
            match found {
                true => types.values.print_value(&self.value, out)?,
                false => out.extend_from_slice(b"EMPTY"),
            }
            self.out.part_since(start);
            self.out.buffer().push(b'\n');
        }
        self.counts.gets += 1;
        Ok(self.out.spill()?)
    }

    fn scan(&mut self, typed_lo: &[u8], typed_hi: &[u8]) -> Result<(), Refused> {
        let lo = self.store.types.keys.encode(typed_lo, &mut self.key)?;
        let hi = self.store.types.keys.encode(typed_hi, &mut self.value)?;
        self.writes.apply(&mut self.store)?;
        let mut any = false;
        if lo <= hi {
            let range = KeyRange { lower: lo.to_vec(), upper: Bound::Included(hi.to_vec()) };
            let mut rows = self.store.tree.scan(range, false, Want::All)?;
            while rows.advance()? {
                any = true;
                let expires_us = rows.expires_us();
                let (key, value) = rows.pair()?;
                print(&mut self.out, self.json, self.store.types, key, Some((value, expires_us)))?;
                self.out.spill()?;
            }
            self.collections += rows.collections();
        }
        if !any {
            let out = self.out.buffer();
            let [lo, hi] = [typed_lo, typed_hi].map(String::from_utf8_lossy);
            match self.json {
                true => json::object(out, &json!({ "from": lo, "to": hi, "empty": true })),
                false => out.extend_from_slice(&[typed_lo, b" ", typed_hi, b" EMPTY\n"].concat()),
            }
        }
        self.counts.scans += 1;
        Ok(self.out.spill()?)
    }
}

impl Sink for Runner {
    #[inline]
    fn line(&mut self, line: &[u8]) -> Result<(), Refused> {
        match parse(line)? {
            Some(Command::Put { key, value }) => self.put(key, value),
            Some(Command::Get { key }) => self.get(key),
            Some(Command::Delete { key }) => self.delete(key),
            Some(Command::Scan { lo, hi }) => self.scan(lo, hi),
            None => Ok(()),
        }
    }

    fn begin(&mut self, block: &[u8]) -> Outcome {
        check_line_ends(block)
    }

    fn settle(&mut self) -> Outcome {
        let applied = self.writes.apply(&mut self.store);
        self.out.flush()?;
        applied
    }
}

impl From<Malformed> for Refused {
    fn from(reason: Malformed) -> Self {
        Refused::Malformed(reason.to_string())
    }
}
