//! The life of one simulated store: random work until the power fails, recovery (in which it may fail
//! again), a look at what is left, and on with the work.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use esker::env::JobKind;
use esker::fs::sim::SimFs;
use esker::operators::APPEND;
use esker::{Batch, Db, Durability, Error, ErrorKind, ScanRange, StoredValue, Tree, TreeOptions};

use crate::common::{Rng, any_style};
use crate::counts::Counts;
use crate::history::{Bytes, Event, History, Pairs, State, Write, describe, describe_writes, differences};
use crate::world::Knobs;

mod bulk;
mod checks;
mod death;
mod stream;

/// Where the store is.
pub(crate) const STORE: &str = "/db";

/// A tree's tag stands among its pairs, under a key that sorts before all others.
const TAG: &[u8] = b"\0tag";

/// What is appended to values: no other value ends with it.
const APPENDED: &[u8] = b"\xa5\x5a\xc3\x3c";

/// What a value was before anything was appended to it.
fn root(mut value: &[u8]) -> &[u8] {
    while let Some(shorter) = value.strip_suffix(APPENDED) {
        value = shorter;
    }
    value
}

/// Why a life ends early: what went wrong.
pub(crate) type Outcome<T> = Result<T, String>;

/// Everything in `db`.
pub(crate) fn contents(db: &Db) -> esker::Result<State> {
    let mut state = State::new();
    for name in db.tree_names() {
        let Some(tree) = db.open_tree(&name)? else { continue };
        let mut pairs = Pairs::new();
        let mut scan = tree.scan(ScanRange::all())?;
        while scan.advance()? {
            let (key, value) = scan.pair()?;
            pairs.insert(key.into(), value.into());
        }
        let is_walked = pairs.len().is_multiple_of(4);
        assert!(
            !is_walked || walked(&tree)? == pairs,
            "a cursor sees other pairs of the tree {name:?} than a scan"
        );
        if let Some(tag) = tree.tag() {
            pairs.insert(Bytes::from(TAG), tag.as_bytes().into());
        }
        state.insert(name, pairs);
    }
    Ok(state)
}

/// Everything in `tree`, by a cursor that turns at each pair.
fn walked(tree: &Tree) -> esker::Result<Pairs> {
    let (mut pairs, mut cursor) = (Pairs::new(), tree.cursor()?);
    let mut is_on = cursor.first()?;
    while is_on {
        pairs.insert(cursor.key().into(), cursor.value().bytes()?.as_ref().into());
        let _ = if cursor.prev()? { cursor.next()? } else { cursor.first()? };
        is_on = cursor.next()?;
    }
    Ok(pairs)
}

/// A new store holds one empty tree.
pub(crate) fn blank() -> State {
    State::from([("default".to_owned(), Pairs::new())])
}

pub(crate) struct Life {
    pub(crate) rng: Rng,
    pub(crate) disk: SimFs,
    pub(crate) knobs: Knobs,
    pub(crate) history: History,
    pub(crate) counts: Counts,
    /// Calls may fail although the power is on: faults are injected.
    pub(crate) faulty: bool,
    /// The disk is full to the last byte: of so many, but what the store itself sets free.
    pub(crate) full: Option<u64>,
    /// The errors of calls that failed.
    pub(crate) failed: Vec<ErrorKind>,
    /// A call has failed since the store was opened: memory may be ahead of what was acknowledged.
    unclear: bool,
    db: Option<Db>,
    trees: BTreeMap<String, Tree>,
    checkpoint: Option<(PathBuf, State)>,
    stream: Option<stream::Unfinished>,
    /// A value that a handle keeps.
    stored: Option<StoredValue>,
    writes: u64,
    checkpoints: u64,
    exports: u64,
    traced: bool,
}

impl Life {
    pub(crate) fn new(seed: u64) -> Life {
        Life::of(seed, Knobs::random)
    }

    /// A life in the world that `knobs` draws.
    pub(crate) fn of(seed: u64, knobs: fn(&mut Rng) -> Knobs) -> Life {
        let mut rng = Rng::new(seed);
        Life {
            disk: SimFs::new(rng.next()),
            knobs: knobs(&mut rng),
            history: History::new(blank()),
            counts: Counts::default(),
            faulty: false,
            full: None,
            failed: Vec::new(),
            unclear: false,
            db: None,
            trees: BTreeMap::new(),
            checkpoint: None,
            stream: None,
            stored: None,
            writes: 0,
            checkpoints: 0,
            exports: 0,
            traced: std::env::var_os("ESKER_TRACE").is_some(),
            rng,
        }
    }

    pub(crate) fn db(&self) -> &Db {
        self.db.as_ref().expect("the store is open")
    }

    pub(crate) fn is_open(&self) -> bool {
        self.db.is_some()
    }

    // ---- work ----------------------------------------------------------------------------------------

    /// Works until the power fails (`after` changes of the disk from now, if that comes) or enough is done.
    pub(crate) fn work(&mut self, after: Option<u64>) -> Outcome<()> {
        self.disk.set_crash_after(after.map(|after| self.disk.operations() + after));
        for _ in 0..self.knobs.steps {
            self.step()?;
            if self.traced
                && !self.unclear
                && !self.disk.is_dead()
                && let Some(db) = &self.db
            {
                let found = contents(db).map_err(|error| format!("{error:?}"))?;
                if differences(self.history.now(), &found) > 0 {
                    return Err(format!(
                        "in life: {}; {:?}",
                        describe(self.history.now(), &found),
                        db.stats()
                    ));
                }
            }
            if self.disk.is_dead() || self.db.is_none() {
                break;
            }
        }
        Ok(())
    }

    pub(crate) fn step(&mut self) -> Outcome<()> {
        let choice = self.rng.below(100);
        self.trace(|life| {
            format!("step {choice} at {} events, durable {}", life.history.len(), life.history.durable())
        });
        match choice {
            0..46 => self.write(1),
            46..62 => {
                let ops = 1 + self.rng.below(12);
                self.write(ops)
            }
            62..66 => self.sync(),
            66..70 => {
                let flushed = self.db().flush();
                self.settle(flushed, true)
            }
            70..74 => self.background(JobKind::Log),
            74..80 => self.background(JobKind::Flush),
            80..84 => self.background(JobKind::Compact),
            84..86 => self.background(JobKind::Blobs),
            86 => {
                let compacted = self.db().compact();
                self.settle(compacted, true)
            }
            87..89 => self.create_tree(),
            89 => self.stream_on(),
            90 => self.drop_tree(),
            91 if self.rng.one_in(3) => self.set_tag(),
            91 if self.rng.one_in(2) => self.set_options(),
            91 => self.make_checkpoint(),
            92 => self.reopen(),
            93..95 => self.transfer(),
            95 => self.delete_range(),
            96 => self.append(),
            97 => self.transact(),
            98 if self.rng.one_in(3) => self.import_tree(),
            98 => self.ingest(),
            _ => self.look(),
        }
    }

    /// With ESKER_TRACE set, tells what a life does.
    fn trace(&self, what: impl FnOnce(&Life) -> String) {
        if self.traced {
            println!("{:>6} {}", self.disk.operations(), what(self));
        }
    }

    /// What a full disk refuses has not happened.
    fn withdraw_if_refused<T>(&mut self, result: &esker::Result<T>) {
        let refused = result.as_ref().is_err_and(|error| error.kind() == ErrorKind::OutOfSpace);
        if refused && self.full.is_some() && !self.disk.is_dead() {
            self.history.withdraw();
        }
    }

    /// [`Life::withdraw_if_refused`] for a call that changes the manifest and writes nothing to the log. After a failure it took
    /// effect or did not, whatever becomes of later writes.
    fn withdraw_or_set_apart<T>(&mut self, result: &esker::Result<T>) {
        let events = self.history.len();
        self.withdraw_if_refused(result);
        if result.is_err() && !self.disk.is_dead() && self.history.len() == events {
            self.history.fail_apart();
        }
    }

    /// Judges how a call ended whose event, if any, is the last one. `everything`: success says that all
    /// that was acknowledged before is durable.
    fn settle(&mut self, result: esker::Result<()>, everything: bool) -> Outcome<()> {
        match result {
            _ if self.disk.is_dead() => Ok(()),
            Ok(()) if everything => {
                self.history.make_durable();
                Ok(())
            }
            Ok(()) => Ok(()),
            Err(error) => self.note_failure(&error),
        }
    }

    fn note_failure(&mut self, error: &Error) -> Outcome<()> {
        if !self.faulty {
            return Err(format!("a call failed although nothing was wrong: {error:?}"));
        }
        self.trace(|_| format!("failed: {error:?}"));
        self.failed.push(error.kind());
        self.unclear = true;
        Ok(())
    }

    fn key(&mut self) -> Bytes {
        let number = self.rng.below(self.knobs.keys);
        format!("key{number:04}").into_bytes().into()
    }

    fn random_write(&mut self) -> Write {
        let names: Vec<&String> = self.trees.keys().collect();
        let tree = (*self.rng.pick(&names)).clone();
        let key = self.key();
        if self.rng.one_in(4) {
            return (tree, key, None);
        }
        self.writes += 1;
        let value = self.knobs.value(&mut self.rng, self.writes);
        (tree, key, Some(value))
    }

    pub(crate) fn write(&mut self, ops: u64) -> Outcome<()> {
        let writes: Vec<Write> = (0..ops).map(|_| self.random_write()).collect();
        let durability = if self.rng.one_in(4) { Durability::Power } else { Durability::Process };
        self.write_these(writes, durability)
    }

    pub(crate) fn write_these(&mut self, writes: Vec<Write>, durability: Durability) -> Outcome<()> {
        self.trace(|_| format!("{durability:?} {}", describe_writes(&writes)));
        let result = self.call_write(&writes, durability);
        self.history.begin(Event::Batch(writes));
        self.withdraw_if_refused(&result);
        if result.is_ok() && !self.disk.is_dead() {
            self.history.acknowledge();
        }
        self.settle(result, durability == Durability::Power)
    }

    /// Renames or copies, or gives a value attributes and another expiry that it does not reach. The attributes tell its
    /// length.
    fn transfer(&mut self) -> Outcome<()> {
        let (tree, from, _) = self.random_write();
        let (mut to, keep, described) = (self.key(), self.rng.one_in(2), self.rng.one_in(3));
        if described {
            to = Arc::clone(&from);
        }
        if self.unclear {
            // What is there to be renamed is not known.
            return Ok(());
        }
        let value = self.history.now().get(&tree).and_then(|pairs| pairs.get(&from)).cloned();
        if value.as_ref().is_some_and(|value| value.ends_with(APPENDED)) {
            // It would be written whole, and nobody could tell whether as a huge value.
            return Ok(());
        }
        let handle = &self.trees[&tree];
        let result = match &value {
            Some(value) if described && keep => handle.set_attributes(&from, value.len().to_string()),
            _ if described => handle.set_expiry(&from, u64::MAX),
            _ if keep => handle.copy(&from, &to),
            _ => handle.rename(&from, &to),
        };
        let mut writes = Vec::new();
        if described && value.is_some() {
            writes.push((tree, from, value.clone()));
        } else if value.is_some() && from != to {
            writes.push((tree.clone(), Arc::clone(&to), value.clone()));
            if !keep {
                writes.push((tree, from, None));
            }
        }
        self.trace(|_| format!("transfers {}", describe_writes(&writes)));
        self.history.begin(Event::Batch(writes));
        self.withdraw_if_refused(&result);
        if let Ok(done) = &result
            && !self.disk.is_dead()
        {
            self.history.acknowledge();
            if *done != value.is_some() {
                return Err(format!("a transfer says {done}, with {:?} there", value.is_some()));
            }
        }
        self.settle(result.map(drop), false)
    }

    /// Deletes some keys that lie side by side, beside another write at times.
    fn delete_range(&mut self) -> Outcome<()> {
        let (tree, _, _) = self.random_write();
        let first = self.rng.below(self.knobs.keys);
        let end = first + 1 + self.rng.below(self.knobs.keys / 4 + 1);
        let key = |number: u64| Bytes::from(format!("key{number:04}").into_bytes());
        let mut writes: Vec<Write> = (first..end).map(|number| (tree.clone(), key(number), None)).collect();
        let mut batch = Batch::new();
        let range = ScanRange::from(key(first)..key(end));
        let beside = self.rng.one_in(2).then(|| self.random_write());
        let mut fill = || {
            batch.delete_range(&self.trees[&tree], &range)?;
            match &beside {
                Some((tree, key, Some(value))) => batch.put(&self.trees[tree], key, value),
                Some((tree, key, None)) => batch.delete(&self.trees[tree], key),
                None => Ok(()),
            }
        };
        let durability = if self.rng.one_in(4) { Durability::Power } else { Durability::Process };
        let result = fill().and_then(|()| self.db().write_with(&batch, durability).map(drop));
        writes.extend(beside);
        self.trace(|_| format!("deletes a range: {}", describe_writes(&writes)));
        self.history.begin(Event::Batch(writes));
        self.withdraw_if_refused(&result);
        if result.is_ok() && !self.disk.is_dead() {
            self.history.acknowledge();
        }
        self.settle(result, durability == Durability::Power)
    }

    /// Appends to a few values, some of which may be huge.
    fn append(&mut self) -> Outcome<()> {
        if self.unclear {
            return Ok(());
        }
        let mut batch = Batch::new();
        let mut writes: BTreeMap<(String, Bytes), Bytes> = BTreeMap::new();
        for _ in 0..self.rng.between(1, 6) {
            let (tree, key, _) = self.random_write();
            batch.merge(&self.trees[&tree], &key, APPEND, APPENDED).map_err(|error| error.to_string())?;
            let value = writes.entry((tree, key)).or_insert_with_key(|(tree, key)| {
                self.history.now()[tree].get(key).cloned().unwrap_or_else(|| Bytes::from(&[][..]))
            });
            *value = Bytes::from([&**value, APPENDED].concat());
        }
        let writes: Vec<Write> =
            writes.into_iter().map(|((tree, key), value)| (tree, key, Some(value))).collect();
        self.trace(|_| format!("appends: {}", describe_writes(&writes)));
        self.history.begin(Event::Batch(writes));
        let durability = if self.rng.one_in(4) { Durability::Power } else { Durability::Process };
        let result = self.db().write_with(&batch, durability).map(drop);
        self.withdraw_if_refused(&result);
        if result.is_ok() && !self.disk.is_dead() {
            self.history.acknowledge();
        }
        self.settle(result, durability == Durability::Power)
    }

    /// Deletes, as far as possible on a full disk too.
    pub(crate) fn delete_some(&mut self, count: u64) -> Outcome<()> {
        for _ in 0..count {
            let (tree, key, _) = self.random_write();
            self.write_these(vec![(tree, key, None)], Durability::Power)?;
        }
        Ok(())
    }

    fn call_write(&self, writes: &[Write], durability: Durability) -> esker::Result<()> {
        if let [(tree, key, value)] = writes {
            return match value {
                Some(value) => self.trees[tree].put_with(key, value, durability),
                None => self.trees[tree].delete_with(key, durability),
            };
        }
        let mut batch = Batch::new();
        for (tree, key, value) in writes {
            match value {
                Some(value) => batch.put(&self.trees[tree], key, value)?,
                None => batch.delete(&self.trees[tree], key)?,
            }
        }
        self.db().write_with(&batch, durability).map(drop)
    }

    pub(crate) fn sync(&mut self) -> Outcome<()> {
        let synced = self.db().sync();
        self.settle(synced, true)
    }

    /// One step of background work. Its failures show in the next call.
    fn background(&mut self, job: JobKind) -> Outcome<()> {
        self.db().step(job);
        Ok(())
    }

    fn create_tree(&mut self) -> Outcome<()> {
        let name = format!("tree{}", self.rng.below(3));
        if self.trees.contains_key(&name) {
            return Ok(());
        }
        let options = TreeOptions::default().compression(self.knobs.compression);
        let options = any_style(&mut self.rng, options);
        let created = self.db().create_tree(&name, options);
        self.history.begin(Event::Create(name.clone()));
        let result = created.map(|tree| drop(self.trees.insert(name, tree)));
        self.withdraw_or_set_apart(&result);
        if result.is_ok() && !self.disk.is_dead() {
            self.history.acknowledge();
        }
        self.settle(result, true)
    }

    /// The default tree is to be merged in another way.
    fn set_options(&mut self) -> Outcome<()> {
        let tree = self.db().default_tree().clone();
        let options = any_style(&mut self.rng, tree.options());
        let result = tree.set_options(options);
        self.settle(result, true)
    }

    fn drop_tree(&mut self) -> Outcome<()> {
        let name = format!("tree{}", self.rng.below(3));
        if !self.trees.contains_key(&name) {
            return Ok(());
        }
        self.stream = None;
        self.stored = None;
        let result = self.db().drop_tree(&name);
        self.history.begin(Event::Drop(name.clone()));
        self.withdraw_or_set_apart(&result);
        if result.is_ok() && !self.disk.is_dead() {
            self.history.acknowledge();
            self.trees.remove(&name);
        }
        self.settle(result, true)
    }

    fn set_tag(&mut self) -> Outcome<()> {
        let (tree, _, _) = self.random_write();
        self.writes += 1;
        let tag = format!("tag {}", self.writes);
        let result = self.trees[&tree].set_tag(&tag);
        self.history.begin(Event::Batch(vec![(tree, Bytes::from(TAG), Some(tag.as_bytes().into()))]));
        self.withdraw_or_set_apart(&result);
        if result.is_ok() && !self.disk.is_dead() {
            self.history.acknowledge();
        }
        self.settle(result, true)
    }

    /// A checkpoint that was returned from is there, whole, whatever happens afterwards.
    fn make_checkpoint(&mut self) -> Outcome<()> {
        self.checkpoints += 1;
        let dir = PathBuf::from(format!("/copies/{}", self.checkpoints));
        let result = self.db().checkpoint(&dir);
        if result.is_ok() && !self.disk.is_dead() {
            self.checkpoint = Some((dir, self.history.now().clone()));
        }
        self.settle(result, true)
    }

    /// Reads something and compares it.
    fn look(&mut self) -> Outcome<()> {
        let names: Vec<String> = self.trees.keys().cloned().collect();
        let name = self.rng.pick(&names).clone();
        let key = self.key();
        let expected = self.history.now().get(&name).and_then(|pairs| pairs.get(&key)).cloned();
        match self.trees[&name].get_vec(&key) {
            Ok(found) if found.as_deref() == expected.as_deref() => Ok(()),
            Ok(_) if self.unclear => Ok(()),
            Ok(_) => Err(format!("a read of {name}/{key:?} returned something else than was written")),
            Err(error) => self.note_failure(&error),
        }
    }

    fn count(&mut self, db: &Db) {
        if let Ok(stats) = db.stats() {
            self.counts.merges += stats.merges;
        }
    }
}
