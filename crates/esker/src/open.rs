//! Opening a store: lock, manifest, replay of the log, a fresh log.
//!
//! ```text
//! lock -> manifest -> log segments from the manifest's floor on -> memtables
//!      -> new manifest (same state) -> fresh segment -> flush -> floor := fresh segment -> old files go
//! ```
//!
//! What was replayed is made durable in tables before the store is handed out, and nothing is ever
//! appended to a replayed segment or manifest (durability rule 2). A crash anywhere on the way leaves the
//! old log in force: the floor moves in the same edit that names the tables.
//!
//! Opened for reading only, the store replays into memory and writes nothing (rule 22); its log is a
//! scratch one in memory that nobody writes to.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::cache::BufferPool;
use crate::canary::broken;
use crate::cursor::SeqNo;
use crate::env::{Env, Executor, ThreadExecutor};
use crate::error::{Error, ErrorKind, Result};
use crate::fs::sim::SimFs;
use crate::fs::{FileSystem, LockMode};
use crate::log::replay::{LogFloor, ReplayReport, Segments, segment_number};
use crate::log::segment::is_unwritten;
use crate::log::wal::Wal;
use crate::memtable::{ChunkPool, Memtable};
use crate::options::{Options, TreeOptions};
use crate::state::TreeInner;
use crate::store::{Parts, Store, Structure};
use crate::version::edit::{Edit, FileId, ManifestState, TreeId};
use crate::version::levels::{Levels, Table};
use crate::version::manifest::{Manifest, is_temporary, manifest_number, manifest_path, read_manifest};
use crate::version::tables::{TableRegistry, table_number, table_path};
use crate::write::batch::{Ops, op_count};
use crate::write::commit::Commit;

/// The tree that every store has.
pub(crate) const DEFAULT_TREE: &str = "default";

/// The file that is locked, never written.
pub(crate) const LOCK_FILE: &str = "LOCK";

/// What lies in a store's directory, by kind.
#[derive(Debug, Default)]
pub(crate) struct Listing {
    pub(crate) manifests: Vec<u64>,
    pub(crate) tables: Vec<FileId>,
    pub(crate) segments: Vec<(u64, PathBuf)>,
    pub(crate) temporaries: Vec<PathBuf>,
    pub(crate) foreign: Vec<String>,
}

impl Listing {
    pub(crate) fn read(env: &Env, dir: &Path) -> Result<Listing> {
        let mut listing = Listing::default();
        for name in env.fs.list(dir)? {
            let path = dir.join(&name);
            if name == LOCK_FILE {
            } else if is_temporary(&name) {
                listing.temporaries.push(path);
            } else if let Some(number) = manifest_number(&name) {
                listing.manifests.push(number);
            } else if let Some(number) = table_number(&name) {
                listing.tables.push(number);
            } else if let Some(number) = segment_number(&name) {
                listing.segments.push((number, path));
            } else {
                listing.foreign.push(name);
            }
        }
        listing.manifests.sort_unstable();
        listing.tables.sort_unstable();
        listing.segments.sort();
        Ok(listing)
    }

    /// The number of the manifest in force, 0 where there is none.
    pub(crate) fn manifest(&self) -> u64 {
        self.manifests.last().copied().unwrap_or(0)
    }

    /// Whether no store was ever finished here: there is at most what a creation that was cut short left
    /// behind. A store's manifest is durable before anything is written into its log.
    pub(crate) fn is_unfinished(&self, env: &Env) -> Result<bool> {
        if !self.manifests.is_empty() || !self.tables.is_empty() {
            return Ok(false);
        }
        for (_, path) in &self.segments {
            if !is_unwritten(&env.fs.read(path)?) {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// Refuses directories that are no store and must not become one.
fn check_directory(env: &Env, dir: &Path, create: bool) -> Result<bool> {
    let missing = || {
        let message = "there is no store here; opening with `create` makes one";
        Error::new(ErrorKind::NotFound, message).at(dir)
    };
    if !env.fs.exists(dir)? {
        return if create { Ok(false) } else { Err(missing()) };
    }
    let listing = Listing::read(env, dir)?;
    if listing.manifest() != 0 {
        return Ok(true);
    }
    if !listing.is_unfinished(env)? {
        let message = "the manifest is missing: this was a store, and its other files are still here";
        return Err(Error::corruption(dir, 0, message));
    }
    if !create {
        return Err(missing());
    }
    match listing.foreign.first() {
        None => Ok(false),
        Some(name) => {
            let message = format!("this directory holds other files (such as \"{name}\") and is not a store");
            Err(Error::new(ErrorKind::InvalidInput, message).at(dir))
        }
    }
}

/// Opens the store in `dir`.
pub(crate) fn open(dir: &Path, options: Options, read_only: bool) -> Result<Arc<Store>> {
    let env = options.env.clone();
    let create = options.create && !read_only;
    let exists = check_directory(&env, dir, create)?;
    if !exists {
        let parent = dir.parent().filter(|parent| !parent.as_os_str().is_empty());
        if let Some(parent) = parent
            && !env.fs.exists(parent)?
        {
            // More likely a slip of the pen than a wish for a row of directories.
            return Err(Error::new(ErrorKind::NotFound, "this directory does not exist").at(parent));
        }
        env.fs.create_dir_all(dir)?;
        if let Some(parent) = parent {
            env.fs.sync_dir(parent)?;
        }
    }
    let mode = if read_only { LockMode::Shared } else { LockMode::Exclusive };
    let lock = env.fs.lock(&dir.join(LOCK_FILE), mode)?;
    let listing = Listing::read(&env, dir)?;
    let segments = Segments::open(&*env.fs, listing.segments.iter().map(|(_, path)| path.clone()).collect())?;
    let state = match listing.manifest() {
        0 => ManifestState { next_file: 1, next_tree: 1, ..ManifestState::default() },
        number => {
            let known = segments.manifest_synced(number);
            if segments.paths.is_empty() {
                return Err(Error::corruption(dir, 0, "every log segment is missing"));
            }
            read_manifest(&env, dir, number, known)?.0
        }
    };
    let opening = Opening::new(dir, &options, &listing, &state)?;
    let replayed = opening.replay(&segments, &state)?;
    let store = opening.finish(options, state, replayed, read_only, lock, &listing)?;
    store.start();
    Ok(store)
}

/// What is put together while a store is opened.
struct Opening {
    id: u64,
    dir: PathBuf,
    env: Env,
    registry: Arc<TableRegistry>,
    pool: Arc<BufferPool>,
    chunks: Arc<ChunkPool>,
    structure: Structure,
}

struct Replayed {
    report: ReplayReport,
    next_seq: SeqNo,
}

/// Gives each opened store of this process a number of its own.
fn next_store_id() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

impl Opening {
    fn new(dir: &Path, options: &Options, listing: &Listing, state: &ManifestState) -> Result<Opening> {
        let env = options.env.clone();
        let mapped = 2 * options.segment_len_max() as usize;
        let memtables = options.waiting_max() + options.memtable_limit();
        let pool_bytes = options.memory().saturating_sub(memtables + mapped).max(options.memory() / 8);
        let pool = Arc::new(BufferPool::new(pool_bytes));
        let registry = TableRegistry::new(
            Arc::clone(&env.fs),
            dir,
            Arc::clone(&pool),
            options.open_tables_max,
            pool_bytes / 2,
        );
        let chunks = Arc::new(ChunkPool::new(options.memtable_limit()));
        let mut structure = Structure {
            manifest: None,
            trees: BTreeMap::new(),
            by_name: BTreeMap::new(),
            files: HashMap::new(),
            next_tree: state.next_tree.max(1),
        };
        let id = next_store_id();
        for (&tree, record) in &state.trees {
            let mut tables = Vec::with_capacity(record.tables.len());
            for (&(level, file), info) in &record.tables {
                if listing.tables.binary_search(&file).is_err() {
                    let message = format!("a table of the tree \"{}\" is missing", record.name);
                    return Err(Error::corruption(&table_path(dir, file), 0, message));
                }
                let entry =
                    structure.files.entry(file).or_insert_with(|| (registry.file(file, info.salt), 0));
                entry.1 += 1;
                tables.push((usize::from(level), Table::new(tree, Arc::clone(&entry.0), info.clone())));
            }
            let levels = Levels::default().with(&[], tables);
            let tag = record.tag.clone();
            let inner = TreeInner::new(tree, id, &record.name, record.options.clone(), tag, levels, &chunks);
            structure.by_name.insert(record.name.clone(), tree);
            structure.trees.insert(tree, inner);
        }
        Ok(Opening { id, dir: dir.to_path_buf(), env, registry, pool, chunks, structure })
    }

    /// Reads the log into the memtables.
    fn replay(&self, segments: &Segments, state: &ManifestState) -> Result<Replayed> {
        let mut next_seq = state.last_seq + 1;
        let mut position = state.floor.start;
        let mut visit = |first_seq: SeqNo, payload: &[u8]| -> Result<Option<u64>> {
            position += (crate::log::record::HEADER_LEN + payload.len()) as u64;
            let count = self.apply(state, first_seq, payload, position)?;
            next_seq = next_seq.max(first_seq + count.unwrap_or(0));
            Ok(count)
        };
        let report = segments.replay(&*self.env.fs, state.floor, state.log_synced, &mut visit)?;
        Ok(Replayed { report, next_seq })
    }

    /// Applies one record; `None` when its payload makes no sense.
    fn apply(
        &self,
        state: &ManifestState,
        first_seq: SeqNo,
        payload: &[u8],
        end: u64,
    ) -> Result<Option<u64>> {
        let Some(count) = op_count(payload) else { return Ok(None) };
        if Ops::of(payload).count() as u64 != count {
            return Ok(None);
        }
        for (seq, op) in (first_seq..).zip(Ops::of(payload)) {
            // A tree that the manifest does not know was dropped later; what is in tables is not needed.
            let Some(tree) = self.structure.trees.get(&op.tree) else { continue };
            if state.trees.get(&op.tree).is_some_and(|record| seq <= record.flushed) {
                continue;
            }
            let mem = tree.mem();
            let height = Memtable::random_height();
            let mut region = mem.table.reserve(Memtable::entry_size(height, op.key.len(), op.value.len()))?;
            mem.table.insert(&mut region, height, op.key, seq, op.kind, op.value);
            mem.note_write(state.floor, seq, end);
        }
        Ok(Some(count))
    }

    fn finish(
        self,
        options: Options,
        mut state: ManifestState,
        replayed: Replayed,
        read_only: bool,
        lock: Box<dyn crate::fs::DirLock>,
        listing: &Listing,
    ) -> Result<Arc<Store>> {
        let Opening { id, dir, env, registry, pool, chunks, mut structure } = self;
        let next_file = listing.tables.last().map_or(0, |last| last + 1).max(state.next_file).max(1);
        let next_number = listing.segments.iter().map(|(number, _)| number + 1).max().unwrap_or(1);
        let fresh = LogFloor {
            segment: replayed.report.last_id.max(state.floor.segment) + 1,
            start: replayed.report.position,
        };
        if !read_only {
            if replayed.report.records == 0 {
                state.floor = fresh;
            }
            state.next_file = next_file;
            state.last_seq = state.last_seq.max(replayed.next_seq - 1);
        }
        let log_env = if read_only { scratch(&env, &dir)? } else { env.clone() };
        let (wal, tail) =
            Wal::start(&log_env, &dir, options.segment_len_max(), next_number, fresh, replayed.next_seq)?;
        if !read_only {
            let manifest = Manifest::create(&env, &dir, listing.manifest() + 1, state)?;
            let (number, len) = manifest.synced();
            wal.mark_manifest(number, len)?;
            structure.manifest = Some(manifest);
        }
        let default_executor = || Arc::new(ThreadExecutor::default()) as Arc<dyn Executor>;
        let executor = options.env.executor.clone().unwrap_or_else(default_executor);
        let store = Store::new(Parts {
            id,
            dir,
            options,
            read_only,
            commit: Commit::new(replayed.next_seq, tail),
            wal,
            structure,
            registry,
            pool,
            chunks,
            replayed: replayed.report,
            next_file,
            executor,
            lock,
        });
        if read_only {
            ensure_default_in_memory(&store);
        } else {
            complete(&store, fresh, listing)?;
        }
        Ok(store)
    }
}

/// The world of a store that is opened for reading only, with a scratch file system for its log.
fn scratch(env: &Env, dir: &Path) -> Result<Env> {
    if broken("rule-22") {
        return Ok(env.clone());
    }
    let disk = SimFs::new(0);
    disk.create_dir_all(dir)?;
    Ok(Env { fs: Arc::new(disk), ..env.clone() })
}

/// A store whose default tree was dropped shows an empty one to readers.
fn ensure_default_in_memory(store: &Store) {
    let mut structure = store.structure.lock();
    if !structure.by_name.contains_key(DEFAULT_TREE) {
        let id = structure.next_tree;
        let tree = TreeInner::new(
            id,
            store.id,
            DEFAULT_TREE,
            TreeOptions::default(),
            None,
            Levels::default(),
            &store.chunks,
        );
        structure.by_name.insert(DEFAULT_TREE.to_owned(), id);
        structure.trees.insert(id, tree);
    }
}

/// Makes what was replayed durable, moves the floor to the fresh segment, and removes old files.
fn complete(store: &Arc<Store>, fresh: LogFloor, listing: &Listing) -> Result<()> {
    if broken("rule-2") && store.structure.lock().by_name.contains_key(DEFAULT_TREE) {
        return Ok(());
    }
    store.flush()?;
    let mut structure = store.structure.lock();
    let (floor, files) = match &structure.manifest {
        Some(manifest) => (manifest.state.floor, manifest.state.files()),
        None => return Ok(()),
    };
    let mut edits = Vec::new();
    if floor != fresh {
        edits.push(Edit::Floor(fresh));
    }
    if !structure.by_name.contains_key(DEFAULT_TREE) {
        let tree: TreeId = structure.next_tree;
        let (name, options) = (DEFAULT_TREE.to_owned(), TreeOptions::default());
        edits.push(Edit::CreateTree { tree, name, options: options.clone() });
        structure.next_tree += 1;
        structure.by_name.insert(DEFAULT_TREE.to_owned(), tree);
        let inner =
            TreeInner::new(tree, store.id, DEFAULT_TREE, options, None, Levels::default(), &store.chunks);
        structure.trees.insert(tree, inner);
    }
    if !edits.is_empty() {
        store.commit_edits(&mut structure, &edits)?;
    }
    drop(structure);
    store.wal.retire(fresh);
    let old_manifests = listing.manifests.iter().map(|&number| manifest_path(&store.dir, number));
    let old_segments = listing.segments.iter().map(|(_, path)| path.clone());
    let strays = listing.tables.iter().filter(|file| !files.contains(file));
    let stray_tables = strays.map(|&file| table_path(&store.dir, file));
    let temporaries = listing.temporaries.iter().cloned();
    for path in old_manifests.chain(old_segments).chain(stray_tables).chain(temporaries) {
        match store.env.fs.remove_file(&path) {
            // A temporary file of an opening that died may have been in this one's way, and be gone.
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            other => other?,
        }
    }
    Ok(())
}
