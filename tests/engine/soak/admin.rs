//! Who looks after the store while others write: flushes, merges, splits, ingests, moves trees, copies the store, changes
//! settings; and two who watch: whole snapshots, and the log.

use std::collections::HashMap;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::time::Duration;

use esker::updates::What;
use esker::{Db, ErrorKind};

use crate::board::{ACTORS, Reached, Word};
use crate::judge::{Bounds, End, judge, judge_alone, judge_bulk, now_us};
use crate::plan::{FAMILIES, Head, Knobs, Model, VOLATILE, WRITERS, is_carrier};
use crate::store::{
    BULK_KEYS, COPY, HEADS, Places, Routes, bulk_key, bulk_value, draw_tree_options, head_key, part_name,
};
use crate::writer::{World, fail};
use test_kit::Rng;

/// Parts that a family is split into at most.
const PARTS_MAX: usize = 6;

pub(crate) struct Admin<'a> {
    pub(crate) world: &'a World,
    pub(crate) knobs: Knobs,
    pub(crate) places: &'a Places,
    pub(crate) rng: Rng,
    pub(crate) files: BlobFiles,
}

/// The files of huge values by name and inode: one that was written anew has another.
#[derive(Default)]
pub(crate) struct BlobFiles(HashMap<PathBuf, u64>);

impl BlobFiles {
    /// How many were written anew since the last look.
    pub(crate) fn rewritten(&mut self, store: &Path) -> u64 {
        let mut now = HashMap::new();
        for entry in std::fs::read_dir(store).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.extension().is_some_and(|extension| extension == "blob")
                && let Ok(metadata) = entry.metadata()
            {
                now.insert(path, metadata.ino());
            }
        }
        let anew =
            now.iter().filter(|(path, inode)| self.0.get(*path).is_some_and(|before| before != *inode));
        let count = anew.count() as u64;
        self.0 = now;
        count
    }
}

/// Waits until the writers have acknowledged `count` more operations; `false` at the end.
fn wait(progress: &Receiver<()>, count: u64) -> bool {
    (0..count).all(|_| progress.recv().is_ok())
}

/// What the store has done since the last look.
#[derive(Default)]
struct Seen {
    flushes: u64,
    merges: u64,
}

impl Admin<'_> {
    pub(crate) fn run(mut self, progress: &Receiver<()>) {
        let mut seen = Seen::default();
        loop {
            let pause = 10 + self.rng.below(80);
            if !wait(progress, pause) || self.world.is_ending() {
                return;
            }
            let chosen = self.rng.below(28);
            if let Err(error) = self.act(chosen) {
                fail(&format!("the administrator's action {chosen}: {error}"));
            }
            if let Err(error) = self.count(&mut seen) {
                fail(&format!("statistics: {error}"));
            }
        }
    }

    fn count(&mut self, seen: &mut Seen) -> esker::Result<()> {
        let stats = self.world.shared.db.stats()?;
        let board = &self.world.board;
        board.count(Reached::Flush, stats.flushes - seen.flushes);
        board.count(Reached::Merge, stats.merges - seen.merges);
        board.count(Reached::Reclaim, self.files.rewritten(&self.places.store()));
        *seen = Seen { flushes: stats.flushes, merges: stats.merges };
        if let Some(failure) = stats.failure {
            fail(&format!("background work failed: {failure}"));
        }
        if !stats.damage.is_empty() {
            fail(&format!("damage was found: {:?}", stats.damage));
        }
        Ok(())
    }

    fn act(&mut self, chosen: u64) -> esker::Result<()> {
        let (shared, board) = (&self.world.shared, &self.world.board);
        let before = board.reading();
        match chosen {
            0..5 => {
                shared.db.flush()?;
                // What has no log is in tables now.
                board.durable(&before, WRITERS..ACTORS);
            }
            5..7 => {
                shared.db.sync()?;
                board.durable(&before, 0..ACTORS);
            }
            7..9 => {
                shared.db.compact()?;
                board.count(Reached::Compact, 1);
            }
            9..13 => self.split()?,
            13..17 => self.ingest()?,
            17..19 => self.transplant()?,
            19..21 => self.checkpoint()?,
            21 => self.backup()?,
            22..24 => {
                let routes = shared.routes();
                let parts = self.rng.pick(&routes.parts);
                let (_, tree) = self.rng.pick(parts);
                let log = tree.options().log;
                tree.set_options(draw_tree_options(&mut self.rng).log(log))?;
                board.count(Reached::Settings, 1);
            }
            24 => {
                let tree = shared.db.tree("passing")?;
                tree.put("key", vec![7; self.knobs.separate_at * 2])?;
                shared.db.drop_tree("passing")?;
                board.durable(&before, 0..WRITERS);
            }
            25 => {
                let report = shared.db.scrub()?;
                if !report.findings.is_empty() {
                    fail(&format!("scrubbing found damage: {:?}", report.findings));
                }
            }
            26 => {
                let routes = shared.routes();
                for (_, tree) in &routes.parts[VOLATILE] {
                    tree.flush()?;
                }
                board.durable(&before, WRITERS..ACTORS);
            }
            _ => {
                shared.db.clear_cache();
                shared.heads.set_tag(&format!("{}", self.rng.below(100)))?;
                board.durable(&before, 0..WRITERS);
            }
        }
        Ok(())
    }

    fn split(&mut self) -> esker::Result<()> {
        let family = self.rng.index(2);
        let mut routes = self.world.shared.routes.write().expect("nobody panics here");
        if routes.parts[family].len() >= PARTS_MAX {
            return Ok(());
        }
        let at = crate::plan::key(self.rng.below(6), self.rng.index(WRITERS), self.rng.below(12));
        let tree = routes.part(family, &at).clone();
        if routes.parts[family].iter().any(|(start, _)| *start == at) {
            return Ok(());
        }
        self.world.shared.db.split(&tree, &at, &part_name(family, &at))?;
        *routes = Arc::new(Routes::read(&self.world.shared.db)?);
        self.world.board.count(Reached::Split, 1);
        Ok(())
    }

    fn ingest(&mut self) -> esker::Result<()> {
        let (shared, board) = (&self.world.shared, &self.world.board);
        let generation = board.get(Word::IngestBegun) + 1;
        board.set(Word::IngestBegun, generation);
        let before;
        if self.rng.one_in(2) {
            let mut ingest = shared.bulk.ingest()?;
            for index in 0..BULK_KEYS {
                ingest.put(bulk_key(index), bulk_value(&self.knobs, generation, index))?;
            }
            before = board.reading();
            ingest.commit()?;
        } else {
            let mut ingest = shared.bulk.ingest_unsorted()?;
            for index in (0..BULK_KEYS).rev() {
                ingest.put(bulk_key(index), bulk_value(&self.knobs, generation, index))?;
            }
            before = board.reading();
            ingest.commit()?;
        }
        board.set(Word::IngestAcked, generation);
        board.durable(&before, 0..WRITERS);
        board.count(Reached::Ingest, 1);
        Ok(())
    }

    /// The bulk leaves for a store of its own and comes back as a copy.
    fn transplant(&mut self) -> esker::Result<()> {
        let (shared, board) = (&self.world.shared, &self.world.board);
        let dir = self.places.side().join("export");
        shared.db.export_tree(shared.bulk.name(), &dir)?;
        if shared.db.open_tree(COPY)?.is_some() {
            shared.db.drop_tree(COPY)?;
        }
        let (copy, _) = shared.db.import_tree(&dir, COPY)?;
        // One that was installed when the process died was acknowledged to nobody.
        let generations = board.get(Word::IngestAcked)..=board.get(Word::IngestBegun);
        if let Err(what) = judge_bulk(&shared.db.snapshot(), &copy, self.knobs, generations) {
            fail(&format!("what was exported and imported: {what}"));
        }
        std::fs::remove_dir_all(&dir).expect("an export can be removed");
        board.count(Reached::Transplant, 1);
        Ok(())
    }

    fn judge_copy(&self, dir: &Path, bounds: &Bounds, what: &str) {
        let judged = match Db::open_read_only(dir, self.knobs.options()) {
            Ok(db) => judge_alone(&db, self.knobs, &self.world.lives, bounds).map(drop),
            Err(error) => Err(error.to_string()),
        };
        if let Err(why) = judged {
            fail(&format!("{what}: {why}"));
        }
        std::fs::remove_dir_all(dir).expect("a copy can be removed");
    }

    /// A copy holds at least what was acknowledged before it was begun, and what its call flushed of trees without a log.
    fn checkpoint(&mut self) -> esker::Result<()> {
        let board = &self.world.board;
        let dir = self.places.side().join("checkpoint");
        let before = board.reading();
        self.world.shared.db.checkpoint(&dir)?;
        self.judge_copy(&dir, &Bounds::new(End::Kill, &before, &board.reading()), "a checkpoint");
        board.count(Reached::Checkpoint, 1);
        Ok(())
    }

    fn backup(&mut self) -> esker::Result<()> {
        let board = &self.world.board;
        let (dir, target) = (self.places.side().join("backups"), self.places.side().join("restored"));
        let before = board.reading();
        self.world.shared.db.backup(&dir)?;
        let bounds = Bounds::new(End::Kill, &before, &board.reading());
        esker::restore(&dir, None, &target, &self.knobs.options())?;
        self.judge_copy(&target, &bounds, "a restored backup");
        if self.rng.one_in(3) {
            esker::forget_backups(&dir, 1, &self.knobs.options())?;
        }
        board.count(Reached::Backup, 1);
        Ok(())
    }
}

/// Judges the whole store as snapshots show it amid the load.
pub(crate) fn watch(world: &World, mut models: Vec<Model>, progress: &Receiver<()>) {
    while wait(progress, 100) && !world.is_ending() {
        let from_us = now_us();
        let (before, snapshot, routes) = {
            let routes = world.shared.routes.read().expect("nobody panics here");
            (world.board.reading(), world.shared.db.snapshot(), Arc::clone(&routes))
        };
        let bounds = Bounds { from_us, ..Bounds::new(End::None, &before, &world.board.reading()) };
        if let Err(what) = judge(&world.shared.db, (&snapshot, &routes), &mut models, &world.lives, &bounds) {
            fail(&format!("a snapshot amid the load: {what}"));
        }
        world.board.count(Reached::Snapshot, 1);
        // Those that come meanwhile are not waited for again.
        while progress.try_recv().is_ok() {}
    }
}

/// Follows the log: carriers come in order, none is left out, and none before what its writer had been told of others.
pub(crate) fn follow(world: &World, knobs: &Knobs) {
    while !world.is_ending() {
        let snapshot = world.shared.db.snapshot();
        let mut heads = [0; WRITERS];
        for (writer, head) in heads.iter_mut().enumerate() {
            let value = snapshot
                .get_vec(&world.shared.heads, head_key(writer))
                .unwrap_or_else(|e| fail(&e.to_string()));
            *head = value.and_then(|value| Head::decode(&value)).map_or(0, |head| head.n);
        }
        let followed = follow_from(world, knobs, snapshot.sequence(), &mut heads);
        match followed {
            Ok(()) => return,
            // The log is used again: from a new snapshot on.
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => fail(&format!("following the log: {error}")),
        }
    }
}

fn follow_from(world: &World, knobs: &Knobs, from: u64, heads: &mut [u64; WRITERS]) -> esker::Result<()> {
    let mut updates = world.shared.db.updates_since(from)?;
    while !world.is_ending() {
        let Some(update) = updates.next()? else {
            updates.wait(Duration::from_millis(50));
            continue;
        };
        for change in update.changes {
            if FAMILIES[VOLATILE] == &*change.tree {
                fail("a tree without a log is in the log");
            }
            if let What::Put(key, value) = change.what
                && &*change.tree == HEADS
                && let Some(writer) = (0..WRITERS).find(|&writer| head_key(writer).as_bytes() == key)
                && let Some(head) = Head::decode(&value.bytes()?)
            {
                follow_head(world, knobs, heads, writer, &head);
            }
        }
        world.board.count(Reached::Follow, 1);
    }
    Ok(())
}

fn follow_head(world: &World, knobs: &Knobs, heads: &mut [u64; WRITERS], writer: usize, head: &Head) {
    let actor = crate::plan::Actor::of(writer);
    let skipped = (heads[writer] + 1..head.n).find(|&n| is_carrier(knobs, actor, n, &world.lives));
    if head.n <= heads[writer] || skipped.is_some() {
        fail(&format!("the log shows {head:?} of writer {writer} behind {}", heads[writer]));
    }
    if let Some(other) = (0..WRITERS).find(|&other| heads[other] < head.saw_heads[other]) {
        fail(&format!("the log shows {head:?} of writer {writer} before what it saw of {other}: {heads:?}"));
    }
    heads[writer] = head.n;
}
