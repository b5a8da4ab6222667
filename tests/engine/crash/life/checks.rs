//! What must hold of a store that was opened: its contents are those behind a prefix of what was done, however
//! they are read; huge values that nobody sees are gone; a reader changes nothing; a checkpoint is what it was.

use std::collections::BTreeSet;
use std::path::Path;

use esker::env::JobKind;
use esker::fs::FileSystem;
use esker::{Db, Error, ErrorKind, ScanRange};

use super::{Life, Outcome, STORE, TAG, contents, root};
use crate::history::{Bytes, History, Pairs, State, describe, differences};

impl Life {
    /// Checks what an opened store holds; it is the base of a new history.
    pub(super) fn settle_on_what_is_there(&mut self, powerless: bool) -> Outcome<()> {
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
        while self.db().step(JobKind::Blobs) {}
        // What is appended stays with the tables.
        let is_huge =
            |(key, value): &(&Bytes, &[u8])| key[..] != *TAG && value.len() >= self.knobs.separate_at;
        // Copies within a tree are kept once; each write has a value of its own.
        let of_tree = |pairs: &Pairs| {
            let roots = pairs.iter().map(|(key, value)| (key, root(value)));
            roots.filter(is_huge).map(|(_, value)| value).collect::<BTreeSet<_>>().len()
        };
        let seen = found.values().map(of_tree).sum::<usize>() as u64;
        let kept = self.db().stats().map_err(|error| format!("{error:?}"))?.blob_values;
        self.counts.huge_values += seen;
        if seen != kept {
            return Err(format!("{seen} huge values can be seen, and {kept} are kept"));
        }
        let names = self.disk.list(Path::new(STORE)).map_err(|error| format!("{error:?}"))?;
        let files = names.iter().filter(|name| name.ends_with(".blob")).count() as u64;
        let known = self.db().stats().map_err(|error| format!("{error:?}"))?.blob_files;
        match files == known {
            true => Ok(()),
            false => Err(format!("{files} blob files are there, {known} are known")),
        }
    }

    fn least(&self, powerless: bool) -> usize {
        if powerless { self.history.durable() } else { self.history.certain() }
    }

    /// After a crash nothing is damaged: `check` finds nothing.
    pub(super) fn check_by_check(&mut self) -> Outcome<()> {
        if self.faulty || !self.rng.one_in(6) {
            return Ok(());
        }
        match esker::check(STORE, &self.knobs.options(&self.disk, 1)) {
            Ok(report) if report.findings.is_empty() => self.counts.checks += 1,
            Ok(report) => return Err(format!("check after a crash finds {:?}", report.findings)),
            Err(error) if error.kind() == ErrorKind::NotFound && self.counts.openings == 0 => {}
            Err(error) => return Err(format!("check after a crash failed: {error:?}")),
        }
        Ok(())
    }

    /// Readers see the same as a writer would, and change nothing.
    pub(super) fn check_read_only(&mut self, powerless: bool) -> Outcome<()> {
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
                    let (len, attributes) = (scan.value_len(), scan.attributes());
                    if !attributes.is_empty() && attributes != len.to_string().as_bytes() {
                        return Err(format!(
                            "the attributes of a value of {len} bytes in {name} are another's"
                        ));
                    }
                }
            }
        }
        Ok(())
    }

    /// The last checkpoint that was returned from opens, and holds what it held.
    pub(super) fn check_checkpoint(&mut self) -> Outcome<()> {
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

    /// What readers of the open store see is what was acknowledged, or more of what was tried.
    pub(crate) fn check_everything_acknowledged(&self) -> Outcome<()> {
        let found = contents(self.db()).map_err(|error| format!("reading failed: {error:?}"))?;
        self.history.prefix_of(&found, self.history.certain()).map(drop)
    }
}
