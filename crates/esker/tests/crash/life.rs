//! The life of one simulated store: random work until the power fails, recovery (in which it may fail
//! again), a look at what is left, and on with the work.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use esker::env::Lane;
use esker::fs::FileSystem;
use esker::fs::sim::SimFs;
use esker::{Batch, Db, Durability, Error, ErrorKind, ScanRange, Tree, TreeOptions};

use crate::history::{Bytes, Event, History, Pairs, State, Write, describe, describe_writes, differences};
use crate::rng::Rng;
use crate::world::Knobs;

/// Where the store is.
pub(crate) const STORE: &str = "/db";

/// What happened in the lives of a run, to be sure that it did happen.
#[derive(Debug, Default, Clone)]
pub(crate) struct Counts {
    pub(crate) crashes: u64,
    pub(crate) kills: u64,
    pub(crate) crashes_in_recovery: u64,
    pub(crate) openings: u64,
    pub(crate) events: u64,
    pub(crate) events_lost: u64,
    pub(crate) torn_tails: u64,
    pub(crate) rotated: u64,
    pub(crate) recycled: u64,
    pub(crate) merges: u64,
    pub(crate) checkpoints_opened: u64,
    pub(crate) read_only_openings: u64,
    pub(crate) huge_values: u64,
}

impl Counts {
    pub(crate) fn add(&mut self, other: &Counts) {
        self.crashes += other.crashes;
        self.kills += other.kills;
        self.crashes_in_recovery += other.crashes_in_recovery;
        self.openings += other.openings;
        self.events += other.events;
        self.events_lost += other.events_lost;
        self.torn_tails += other.torn_tails;
        self.rotated += other.rotated;
        self.recycled += other.recycled;
        self.merges += other.merges;
        self.checkpoints_opened += other.checkpoints_opened;
        self.read_only_openings += other.read_only_openings;
        self.huge_values += other.huge_values;
    }
}

/// A tree's tag stands among its pairs, under a key that sorts before all others.
const TAG: &[u8] = b"\0tag";

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
        if let Some(tag) = tree.tag() {
            pairs.insert(Bytes::from(TAG), tag.as_bytes().into());
        }
        state.insert(name, pairs);
    }
    Ok(state)
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
    writes: u64,
    checkpoints: u64,
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
            writes: 0,
            checkpoints: 0,
            traced: std::env::var_os("ESKER_TRACE").is_some(),
            rng,
        }
    }

    pub(crate) fn db(&self) -> &Db {
        self.db.as_ref().expect("the store is open")
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
            70..74 => self.background(Lane::Log),
            74..80 => self.background(Lane::Flush),
            80..84 => self.background(Lane::Compact),
            84..86 => self.background(Lane::Blobs),
            86 => {
                let compacted = self.db().compact();
                self.settle(compacted, true)
            }
            87..90 => self.create_tree(),
            90 => self.drop_tree(),
            91 if self.rng.one_in(2) => self.set_tag(),
            91 => self.make_checkpoint(),
            92 => self.reopen(),
            93..96 => self.transfer(),
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

    /// Renames or copies.
    fn transfer(&mut self) -> Outcome<()> {
        let (tree, from, _) = self.random_write();
        let (to, keep) = (self.key(), self.rng.one_in(2));
        if self.unclear {
            // What is there to be renamed is not known.
            return Ok(());
        }
        let value = self.history.now().get(&tree).and_then(|pairs| pairs.get(&from)).cloned();
        let handle = &self.trees[&tree];
        let result = if keep { handle.copy(&from, &to) } else { handle.rename(&from, &to) };
        let mut writes = Vec::new();
        if value.is_some() && from != to {
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
        self.db().write_with(&batch, durability)
    }

    pub(crate) fn sync(&mut self) -> Outcome<()> {
        let synced = self.db().sync();
        self.settle(synced, true)
    }

    /// One step of background work. Its failures show in the next call.
    fn background(&mut self, lane: Lane) -> Outcome<()> {
        self.db().step(lane);
        Ok(())
    }

    fn create_tree(&mut self) -> Outcome<()> {
        let name = format!("tree{}", self.rng.below(3));
        if self.trees.contains_key(&name) {
            return Ok(());
        }
        let options = TreeOptions::default().compression(self.knobs.compression);
        let created = self.db().create_tree(&name, options);
        self.history.begin(Event::Create(name.clone()));
        let result = created.map(|tree| drop(self.trees.insert(name, tree)));
        self.withdraw_if_refused(&result);
        if result.is_ok() && !self.disk.is_dead() {
            self.history.acknowledge();
        }
        self.settle(result, true)
    }

    fn drop_tree(&mut self) -> Outcome<()> {
        let name = format!("tree{}", self.rng.below(3));
        if !self.trees.contains_key(&name) {
            return Ok(());
        }
        let result = self.db().drop_tree(&name);
        self.history.begin(Event::Drop(name.clone()));
        self.withdraw_if_refused(&result);
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
        self.withdraw_if_refused(&result);
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

    /// Closes the store and opens it again.
    fn reopen(&mut self) -> Outcome<()> {
        self.trees.clear();
        let Some(db) = self.db.take() else { return Ok(()) };
        self.count(&db);
        let closed = db.close();
        drop(db);
        self.settle(closed, true)?;
        if self.disk.is_dead() {
            return Ok(());
        }
        let opened = Db::open(STORE, self.knobs.options(&self.disk, self.rng.next()));
        let faults = self.disk.faults_hit();
        match opened {
            Ok(db) if !self.disk.is_dead() => {
                self.hold(db)?;
                // Opening makes everything durable that it replayed.
                self.history.make_durable();
                if !self.unclear {
                    return Ok(());
                }
                let settled = self.settle_on_what_is_there(false);
                if settled.is_err() && self.disk.faults_hit() > faults {
                    // It could not be read: what it holds is looked at when it is opened next.
                    self.trees.clear();
                    self.db = None;
                    return Ok(());
                }
                settled
            }
            Ok(_) => Ok(()),
            Err(_) if self.disk.is_dead() => Ok(()),
            Err(error) => self.note_failure(&error),
        }
    }

    fn hold(&mut self, db: Db) -> Outcome<()> {
        self.counts.openings += 1;
        for name in db.tree_names() {
            if let Some(tree) = db.open_tree(&name).map_err(|e| format!("{e:?}"))? {
                self.trees.insert(name, tree);
            }
        }
        self.db = Some(db);
        Ok(())
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

    // ---- death and recovery --------------------------------------------------------------------------

    /// The power fails or the process dies now; the store is opened again, and again when the power fails
    /// meanwhile; what it holds then is checked, and becomes the base of a new history.
    pub(crate) fn perish_and_recover(&mut self) -> Outcome<()> {
        let mut powerless = false;
        self.perish(&mut powerless);
        self.recover(&mut powerless)
    }

    /// Opens the store on the disk as it is, however often the power fails on the way.
    pub(crate) fn recover(&mut self, powerless: &mut bool) -> Outcome<()> {
        let kind = |error: &Error| format!("opening after a crash failed: {error:?}");
        let mut tries = 0;
        loop {
            self.check_read_only(*powerless)?;
            tries += 1;
            let fails_after = (tries < 6 && self.rng.one_in(3)).then(|| self.rng.below(48));
            self.disk.set_crash_after(fails_after);
            let opened = Db::open(STORE, self.knobs.options(&self.disk, self.rng.next()));
            if self.disk.is_dead() {
                self.counts.crashes_in_recovery += 1;
                self.db = opened.ok();
                self.perish(powerless);
                continue;
            }
            let db = opened.map_err(|error| kind(&error))?;
            self.trace(|_| format!("opened: {:?}", db.stats()));
            self.disk.set_crash_after(None);
            let stats = db.stats().map_err(|error| kind(&error))?;
            self.counts.torn_tails += u64::from(stats.replayed_torn_tail);
            self.hold(db)?;
            break;
        }
        self.settle_on_what_is_there(*powerless)?;
        self.check_checkpoint()
    }

    /// Checks what an opened store holds; it is the base of a new history.
    fn settle_on_what_is_there(&mut self, powerless: bool) -> Outcome<()> {
        let found = contents(self.db()).map_err(|error| format!("reading failed: {error:?}"))?;
        let taken = self.history.prefix_of(&found, self.least(powerless))?;
        self.counts.events += self.history.len() as u64;
        self.counts.events_lost += (self.history.len() - taken) as u64;
        self.check_reads(&found)?;
        self.check_space(&found)?;
        self.history = History::new(found);
        self.unclear = false;
        Ok(())
    }

    /// Of the huge values that ever were, just those are kept that somebody can see.
    fn check_space(&mut self, found: &State) -> Outcome<()> {
        if self.faulty {
            return Ok(());
        }
        while self.db().step(Lane::Blobs) {}
        let is_huge =
            |(key, value): &(&Bytes, &Bytes)| key[..] != *TAG && value.len() >= self.knobs.separate_at;
        // Copies within a tree are kept once; each write has a value of its own.
        let seen = |pairs: &Pairs| {
            pairs.iter().filter(is_huge).map(|(_, value)| value).collect::<BTreeSet<_>>().len()
        };
        let seen = found.values().map(seen).sum::<usize>() as u64;
        let kept = self.db().stats().map_err(|error| format!("{error:?}"))?.blob_values;
        self.counts.huge_values += seen;
        if seen == kept {
            return Ok(());
        }
        Err(format!("{seen} huge values can be seen, and {kept} are kept"))
    }

    fn least(&self, powerless: bool) -> usize {
        if powerless { self.history.durable() } else { self.history.certain() }
    }

    fn perish(&mut self, powerless: &mut bool) {
        self.note_log_files();
        let killed = self.rng.one_in(4);
        let seed = self.rng.next();
        self.trace(|life| format!("dies, killed: {killed}, disk: {:?}", life.disk.list(Path::new(STORE))));
        let next = if killed { self.disk.kill() } else { self.disk.crash(seed) };
        *powerless |= !killed;
        self.counts.kills += u64::from(killed);
        self.counts.crashes += u64::from(!killed);
        // The old handles end in the dead world.
        self.trees.clear();
        if let Some(db) = self.db.take() {
            self.count(&db);
        }
        self.disk = next;
        self.stay_full();
    }

    /// The disk is full from now on.
    pub(crate) fn fill_disk(&mut self) {
        self.full = Some(0);
        self.stay_full();
    }

    /// Names that a power loss brought back take space that a real disk would not have given away.
    fn stay_full(&mut self) {
        if let Some(capacity) = &mut self.full {
            *capacity = self.disk.used().max(*capacity);
            self.disk.set_capacity(Some(*capacity));
        }
    }

    /// There is room again.
    pub(crate) fn empty_disk(&mut self) {
        self.full = None;
        self.disk.set_capacity(None);
    }

    /// Whether the log went on in other segments, and whether old files were used for that.
    fn note_log_files(&mut self) {
        let Ok(names) = self.disk.list(Path::new(STORE)) else { return };
        let mut uses = Vec::new();
        for name in names.iter().filter(|name| name.starts_with("wal-")) {
            if let Ok(bytes) = self.disk.read_all(Path::new(STORE).join(name))
                && bytes.len() > 24
                && bytes[..8] == *b"eskerWAL"
            {
                let id = u64::from_le_bytes(bytes[16..24].try_into().unwrap());
                uses.push((name.clone(), id));
            }
        }
        uses.sort();
        self.counts.rotated += u64::from(uses.len() > 1);
        self.counts.recycled += u64::from(uses.windows(2).any(|pair| pair[0].1 > pair[1].1));
    }

    /// Readers see the same as a writer would, and change nothing.
    fn check_read_only(&mut self, powerless: bool) -> Outcome<()> {
        if !self.rng.one_in(12) || !self.disk.exists(&Path::new(STORE).join("LOCK")).unwrap_or(false) {
            return Ok(());
        }
        let before = self.disk.operations();
        let db = match Db::open_read_only(STORE, self.knobs.options(&self.disk, self.rng.next())) {
            Ok(db) => db,
            // The first opening, the one that makes the store, never came to its end.
            Err(error) if error.kind() == ErrorKind::NotFound && self.counts.openings == 0 => return Ok(()),
            Err(error) => return Err(format!("opening for reading after a crash failed: {error:?}")),
        };
        let found = contents(&db).map_err(|error| format!("reading failed: {error:?}"))?;
        let close = db.close();
        drop(db);
        close.map_err(|error| format!("closing a reader failed: {error:?}"))?;
        self.history.prefix_of(&found, self.least(powerless)).map_err(|e| format!("read-only: {e}"))?;
        self.counts.read_only_openings += 1;
        match self.disk.operations() - before {
            0 => Ok(()),
            n => Err(format!("opening for reading changed the disk {n} times")),
        }
    }

    /// Other ways of reading agree with a scan.
    fn check_reads(&mut self, found: &State) -> Outcome<()> {
        let failed = |error: Error| format!("reading failed: {error:?}");
        for (name, pairs) in found {
            let tree = &self.trees[name];
            for number in 0..4 {
                let key = format!("key{number:04}").into_bytes();
                let got = tree.get_vec(&key).map_err(failed)?;
                if got.as_deref() != pairs.get(key.as_slice()).map(|value| &value[..]) {
                    return Err(format!("get and scan of {name}/key{number:04} differ"));
                }
            }
            if self.rng.one_in(8) {
                let mut scan = tree.scan(ScanRange::all().reverse()).map_err(failed)?;
                let mut expected = pairs.iter().rev().filter(|(key, _)| key[..] != *TAG);
                while scan.advance().map_err(failed)? {
                    let (key, value) = scan.pair().map_err(failed)?;
                    if expected.next().is_none_or(|(k, v)| **k != *key || **v != *value) {
                        return Err(format!("a backward scan of {name} differs"));
                    }
                }
            }
        }
        Ok(())
    }

    /// The last checkpoint that was returned from opens, and holds what it held.
    fn check_checkpoint(&mut self) -> Outcome<()> {
        let Some((dir, expected)) = self.checkpoint.take() else { return Ok(()) };
        let disk = self.disk.fork();
        disk.set_capacity(None);
        let opened = Db::open(&dir, self.knobs.options(&disk, 1));
        let db = opened.map_err(|error| format!("opening a checkpoint failed: {error:?}"))?;
        let found = contents(&db).map_err(|error| format!("reading a checkpoint failed: {error:?}"))?;
        self.counts.checkpoints_opened += 1;
        match differences(&expected, &found) {
            0 => Ok(()),
            _ => Err(format!("a checkpoint differs: {}", describe(&expected, &found))),
        }
    }

    pub(crate) fn is_open(&self) -> bool {
        self.db.is_some()
    }

    /// What readers of the open store see is what was acknowledged, or more of what was tried.
    pub(crate) fn check_everything_acknowledged(&self) -> Outcome<()> {
        let found = contents(self.db()).map_err(|error| format!("reading failed: {error:?}"))?;
        self.history.prefix_of(&found, self.history.certain()).map(drop)
    }
}
