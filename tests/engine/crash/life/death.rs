//! Closings and deaths of the store, and opening it again, also when it dies on the way; disks that are full.

use std::path::Path;

use esker::fs::FileSystem;
use esker::{Db, Error};

use super::{Life, Outcome, STORE};

impl Life {
    /// Closes the store and opens it again.
    pub(super) fn reopen(&mut self) -> Outcome<()> {
        self.stream = None;
        self.stored = None;
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

    pub(super) fn hold(&mut self, db: Db) -> Outcome<()> {
        self.counts.openings += 1;
        for name in db.tree_names() {
            if let Some(tree) = db.open_tree(&name).map_err(|e| format!("{e:?}"))? {
                self.trees.insert(name, tree);
            }
        }
        self.db = Some(db);
        Ok(())
    }

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
            self.check_by_check()?;
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

    fn perish(&mut self, powerless: &mut bool) {
        self.note_log_files();
        let killed = self.rng.one_in(4);
        let seed = self.rng.next();
        self.trace(|life| format!("dies, killed: {killed}, disk: {:?}", life.disk.list(Path::new(STORE))));
        let next = match killed {
            true => self.disk.kill(),
            false if self.rng.one_in(3) => self.disk.detach(seed),
            false => self.disk.crash(seed),
        };
        *powerless |= !killed;
        self.counts.kills += u64::from(killed);
        self.counts.crashes += u64::from(!killed);
        // The old handles end in the dead world.
        self.stream = None;
        self.stored = None;
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
}
