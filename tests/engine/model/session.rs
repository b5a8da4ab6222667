//! A store and its model side by side: every operation is done to both and its result compared.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use esker::env::{Env, JobKind, StepExecutor};
use esker::fs::sim::SimFs;
use esker::{Db, ErrorKind, Options, Scan, ScanRange, Snapshot, Tree};

use crate::common::{HourClock, Longest, Rng, tiny_options, world};
use crate::cursors::OpenCursor;
use crate::huge::{Held, OpenStream};
use crate::model::{At, Bytes, Model};
use crate::ops::{Range, Reopen, SLOTS, TREES};
use crate::values::read;
use crate::whole::remove_flat_dir;

/// What went wrong, or differs.
#[derive(Debug)]
pub(crate) struct Difference(pub(crate) String);

impl From<esker::Error> for Difference {
    fn from(error: esker::Error) -> Self {
        Difference(format!("unexpected error: {error}"))
    }
}

impl From<std::io::Error> for Difference {
    fn from(error: std::io::Error) -> Self {
        Difference(format!("a stream failed: {error}"))
    }
}

pub(crate) type Check<T> = Result<T, Difference>;

/// Fails the operation unless two values are equal.
macro_rules! same {
    ($got:expr, $expected:expr, $($what:tt)*) => {
        match (&$got, &$expected) {
            (got, expected) => {
                if got != expected {
                    let shorten = |text: String| text.chars().take(600).collect::<String>();
                    let (got, expected) = (shorten(format!("{got:?}")), shorten(format!("{expected:?}")));
                    let what = format!($($what)*);
                    let text = format!("{what}\n     got {got}\nexpected {expected}");
                    return Err($crate::session::Difference(text));
                }
            }
        }
    };
}
pub(crate) use same;

/// The kind of error of a result that must be one.
pub(crate) fn kind_of<T>(result: esker::Result<T>) -> Option<ErrorKind> {
    result.err().map(|error| error.kind())
}

/// Where and how a session keeps its store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Setting {
    /// Tiny budgets, drawn anew at each opening; or the defaults.
    pub(crate) tiny: bool,
    /// Whether the store has threads of its own, or is stepped.
    pub(crate) threads: bool,
    /// On the real file system, or a simulated one.
    pub(crate) real: bool,
}

pub(crate) struct OpenScan {
    pub(crate) scan: Scan,
    pub(crate) expected: std::vec::IntoIter<(Bytes, Bytes)>,
    pub(crate) keeps_snapshot: bool,
}

/// See the module's comment.
pub(crate) struct Session {
    setting: Setting,
    disk: SimFs,
    temporary: Option<tempfile::TempDir>,
    pub(crate) dir: PathBuf,
    pub(crate) env: Env,
    db: Option<Db>,
    pub(crate) clock: Arc<HourClock>,
    pub(crate) model: Model,
    pub(crate) handles: BTreeMap<String, Tree>,
    pub(crate) snapshots: [Option<(Snapshot, At)>; SLOTS],
    pub(crate) scans: [Option<OpenScan>; SLOTS],
    pub(crate) cursors: [Option<OpenCursor>; SLOTS],
    pub(crate) streams: [Option<OpenStream>; SLOTS],
    pub(crate) held: [Option<Held>; SLOTS],
    rng: Rng,
    checkpoints: u64,
}

pub(crate) fn digest(value: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

impl Session {
    /// Opens a new store. `seed` draws its options.
    pub(crate) fn new(setting: Setting, seed: u64) -> Check<Session> {
        let disk = SimFs::new(seed);
        disk.set_writeback(0.0);
        let temporary = setting.real.then(|| tempfile::tempdir().expect("a temporary directory"));
        let root = temporary.as_ref().map_or(Path::new("/"), |dir| dir.path());
        let mut session = Session {
            dir: root.join("store"),
            env: Env::system(),
            disk,
            temporary,
            setting,
            db: None,
            clock: HourClock::new(0),
            model: Model::new(),
            handles: BTreeMap::new(),
            snapshots: Default::default(),
            scans: Default::default(),
            cursors: Default::default(),
            streams: Default::default(),
            held: Default::default(),
            rng: Rng::new(seed),
            checkpoints: 0,
        };
        session.open()?;
        Ok(session)
    }

    pub(crate) fn db(&self) -> &Db {
        self.db.as_ref().expect("a session has a store open between operations")
    }

    fn options(&mut self) -> Options {
        self.env = if self.setting.real {
            Env::system()
        } else {
            let executor = (!self.setting.threads).then(|| Arc::new(StepExecutor) as _);
            world(Arc::new(self.disk.clone()), self.rng.next(), executor)
        };
        self.env.clock = Arc::<HourClock>::clone(&self.clock);
        if self.setting.tiny {
            tiny_options(&mut self.rng, self.env.clone())
        } else {
            Options::default().env(self.env.clone()).merge_operator(Longest)
        }
    }

    pub(crate) fn is_stepped(&self) -> bool {
        !self.setting.threads
    }

    fn open(&mut self) -> Check<()> {
        let options = self.options();
        let db = loop {
            match Db::open(&self.dir, options.clone()) {
                // The last handle may be dropped by one of the store's own threads, a moment later.
                Err(error) if error.kind() == ErrorKind::Locked && self.setting.threads => {
                    test_kit::pause();
                }
                other => break other?,
            }
        };
        self.db = Some(db);
        Ok(())
    }

    /// The handle of a tree; `None` when neither the store nor the model has it.
    pub(crate) fn tree(&mut self, index: usize) -> Check<Option<Tree>> {
        let name = TREES[index];
        if let Some(tree) = self.handles.get(name) {
            return Ok(Some(tree.clone()));
        }
        let opened = self.db().open_tree(name)?;
        same!(opened.is_some(), self.model.trees.contains_key(name), "whether the tree {name:?} exists");
        if let Some(tree) = &opened {
            self.handles.insert(name.to_owned(), tree.clone());
        }
        Ok(opened)
    }

    /// The oldest version that a snapshot still sees.
    pub(crate) fn oldest(&self) -> Option<u64> {
        self.snapshots.iter().flatten().map(|(_, at)| at.version).min()
    }

    /// Whether nothing keeps old versions alive.
    pub(crate) fn is_quiet(&self) -> bool {
        self.snapshots.iter().all(Option::is_none)
            && self.scans.iter().all(Option::is_none)
            && self.cursors.iter().all(Option::is_none)
    }

    /// Lets go of all snapshots, scans, cursors, streams and values.
    pub(crate) fn quiesce(&mut self) {
        self.snapshots = Default::default();
        self.scans = Default::default();
        self.cursors = Default::default();
        self.streams = Default::default();
        self.held = Default::default();
    }

    /// Of the huge values that ever were, just those are kept that somebody can see.
    pub(crate) fn check_blobs(&self) -> Check<()> {
        if self.held.iter().any(Option::is_some) {
            return Ok(());
        }
        while self.db().step(JobKind::Blobs) {}
        // A copy in the model is the same value in memory; of one in the store there is no second blob.
        let mut seen = BTreeSet::new();
        for name in self.db().tree_names() {
            let Some(tree) = self.db().open_tree(&name)? else { continue };
            let mut scan = tree.scan(ScanRange::all())?;
            while scan.advance()? {
                let model = self.model.trees.get(&name);
                let value = model.and_then(|tree| tree.get(scan.key(), self.model.now));
                if scan.handle()?.stored_us().is_some() {
                    seen.insert(value.map(|value| Arc::as_ptr(&value).addr()));
                }
            }
        }
        let kept = self.db().stats()?.blob_values;
        if self.model.holds_expired() {
            same!(kept >= seen.len() as u64, true, "{} huge values are seen, {kept} are kept", seen.len());
            return Ok(());
        }
        // Of a key with operands nobody can tell whether they lie above a huge value.
        let merged: u64 = self.model.trees.values().map(|tree| tree.operands().1).sum();
        let more = merged.min(kept.saturating_sub(seen.len() as u64));
        same!(kept, seen.len() as u64 + more, "how many huge values are kept");
        Ok(())
    }

    /// Compares everything in `db` with the model.
    pub(crate) fn verify(&self, db: &Db) -> Check<()> {
        let names: Vec<&String> = self.model.trees.keys().collect();
        same!(db.tree_names().iter().collect::<Vec<_>>(), names, "the names of the trees");
        for (name, expected) in &self.model.trees {
            let tree = db.open_tree(name)?;
            let Some(tree) = tree else { return Err(Difference(format!("the tree {name:?} is missing"))) };
            same!(tree.tag(), expected.tag, "the tag of {name:?}");
            for reverse in [false, true] {
                let range = Range { reverse, ..Range::all() };
                let mut scan = tree.scan(range.to_scan_range())?;
                compare(&mut scan, &mut expected.scan(&range, self.model.now).into_iter(), usize::MAX)
                    .map_err(|Difference(what)| Difference(format!("all of {name:?}, {range:?}: {what}")))?;
            }
        }
        Ok(())
    }

    /// Leaves the store as `how` says and opens it again with options drawn from `seed`.
    pub(crate) fn reopen(&mut self, how: Reopen, seed: u64) -> Check<()> {
        self.rng = Rng::new(seed);
        // The clock may have been set: forward for all to see, or back, which a store that was closed does not follow.
        let hours = if how == Reopen::Close && self.rng.percent(50) { 0 } else { self.model.now.hour };
        let clock = HourClock::new(hours);
        let (streams, held) = (std::mem::take(&mut self.streams), std::mem::take(&mut self.held));
        let is_closed = matches!(how, Reopen::Close | Reopen::ReadOnly);
        let (mut streams, mut held) = (Some(streams).filter(|_| is_closed), Some(held).filter(|_| is_closed));
        self.quiesce();
        let left_over = self.handles.get(TREES[0]).cloned();
        self.handles.clear();
        if how == Reopen::Kill && !self.setting.real {
            let disk = self.disk.kill();
            self.db = None;
            self.disk = disk;
            self.disk.set_writeback(0.0);
        } else if how != Reopen::Drop
            && let Some(db) = self.db.take()
        {
            db.close()?;
            same!(kind_of(db.put("k", "v")), Some(ErrorKind::Closed), "a put after close");
            for stream in streams.take().into_iter().flatten().flatten() {
                stream.check_closed()?;
            }
            held.take().into_iter().flatten().flatten().try_for_each(Held::check_closed)?;
            if let Some(tree) = left_over {
                same!(kind_of(tree.get("k")), Some(ErrorKind::Closed), "a get after close");
                same!(
                    kind_of(tree.scan(esker::ScanRange::all())),
                    Some(ErrorKind::Closed),
                    "a scan after close"
                );
            }
        } else {
            drop(left_over);
            self.db = None;
        }
        self.clock = clock;
        if how == Reopen::ReadOnly {
            self.look_read_only()?;
            let options = self.options();
            let report = esker::check(&self.dir, &options)?;
            same!(report.findings.is_empty(), true, "check finds {:?}", report.findings);
        }
        self.open()?;
        self.verify(self.db())
    }

    fn look_read_only(&mut self) -> Check<()> {
        let options = self.options();
        let db = Db::open_read_only(&self.dir, options.clone())?;
        let beside = Db::open_read_only(&self.dir, options)?;
        self.verify(&db)?;
        self.verify(&beside)?;
        same!(kind_of(db.put("k", "v")), Some(ErrorKind::ReadOnly), "a put into a store opened for reading");
        same!(kind_of(db.flush()), Some(ErrorKind::ReadOnly), "a flush of a store opened for reading");
        beside.close()?;
        Ok(db.close()?)
    }

    /// Makes a checkpoint, looks into it, writes into it, and removes it.
    pub(crate) fn checkpoint(&mut self) -> Check<()> {
        self.checkpoints += 1;
        let dir = self.dir.with_file_name(format!("checkpoint-{}", self.checkpoints));
        self.db().checkpoint(&dir)?;
        same!(
            kind_of(self.db().checkpoint(&dir)),
            Some(ErrorKind::AlreadyExists),
            "a second checkpoint there"
        );
        let mut rng = Rng::new(self.checkpoints);
        let options = tiny_options(&mut rng, self.env.clone());
        let copy = Db::open(&dir, options)?;
        self.verify(&copy)?;
        copy.put("only in the copy", "")?;
        copy.compact()?;
        copy.close()?;
        remove_flat_dir(&*self.env.fs, &dir)
    }

    /// How many tables lie in the store's directory.
    pub(crate) fn table_files(&self) -> Check<u64> {
        let names = self.env.fs.list(&self.dir)?;
        Ok(names.iter().filter(|name| name.ends_with(".table")).count() as u64)
    }

    /// Ends the session: everything must still be there, also after one more opening.
    pub(crate) fn finish(mut self) -> Check<()> {
        self.verify(self.db())?;
        self.reopen(Reopen::Close, 1)?;
        self.quiesce();
        self.handles.clear();
        if let Some(db) = self.db.take() {
            db.close()?;
        }
        drop(self.temporary.take());
        Ok(())
    }
}

/// Takes up to `steps` pairs from `scan`; they must be the next of `expected`. Says whether it is at its
/// end.
pub(crate) fn compare(
    scan: &mut Scan,
    expected: &mut dyn Iterator<Item = (Bytes, Bytes)>,
    steps: usize,
) -> Check<bool> {
    for _ in 0..steps {
        let more = scan.advance()?;
        let (len, held) = (scan.value_len(), read(&scan.handle()?)?);
        same!((len, &held[..]), (held.len() as u64, scan.value()?), "a value in a scan and apart from it");
        let handle = scan.handle()?;
        same!(handle.attributes(), scan.attributes(), "attributes in a scan and apart from it");
        let got = if more { Some(scan.pair()?) } else { None };
        let expected = expected.next();
        let expected = expected.as_ref().map(|(key, value)| (&**key, &**value));
        if got != expected {
            let show = |pair: Option<(&[u8], &[u8])>| {
                pair.map(|(key, value)| {
                    let shown = &key[..key.len().min(40)];
                    format!("\"{}\" ({} bytes) = {} bytes", shown.escape_ascii(), key.len(), value.len())
                })
            };
            return Err(Difference(format!("a scan shows {:?} where {:?} is", show(got), show(expected))));
        }
        if !more {
            same!(
                (scan.advance()?, scan.value_len(), scan.pair()?),
                (false, 0, (&[][..], &[][..])),
                "a scan at its end"
            );
            return Ok(true);
        }
    }
    Ok(false)
}
