//! The store under test: its options, its trees, and which part of a split tree has a key.

use std::path::{Path, PathBuf};
use std::sync::{Arc, RwLock};

use esker::{Compression, Db, Options, ScanRange, Tree, TreeOptions};

use crate::plan::{FAMILIES, Knobs, VOLATILE};
use test_kit::Rng;

/// Heads of the logged writers, and the value that all update.
pub(crate) const HEADS: &str = "heads";
pub(crate) const SHARED: &str = "shared";
pub(crate) const BANK: &str = "bank";
/// What is ingested: all of its pairs are of one generation.
pub(crate) const BULK: &str = "bulk";
/// What was exported from there and imported.
pub(crate) const COPY: &str = "copy";
pub(crate) const BULK_KEYS: u64 = 40;

/// Where everything of one history lies.
#[derive(Debug, Clone)]
pub(crate) struct Places {
    /// The store, and beside it what is made from it: on the file system under test.
    pub(crate) base: PathBuf,
    /// What is known of it from outside.
    pub(crate) notes: PathBuf,
}

impl Places {
    pub(crate) fn store(&self) -> PathBuf {
        self.base.join("store")
    }

    /// Checkpoints, exports, backups: removed at the beginning of each life.
    pub(crate) fn side(&self) -> PathBuf {
        self.base.join("side")
    }

    pub(crate) fn board(&self) -> PathBuf {
        self.notes.join("board")
    }

    pub(crate) fn lives(&self) -> PathBuf {
        self.notes.join("lives")
    }

    pub(crate) fn child_errors(&self) -> PathBuf {
        self.notes.join("child-errors")
    }
}

impl Knobs {
    pub(crate) fn of(seed: u64, began_us: u64) -> Knobs {
        let separate_at = *Rng::new(seed ^ 0x5e9a).pick(&[1_000, 4_000, 20_000]);
        Knobs { seed, began_us, separate_at }
    }

    /// Small budgets, so that every path is taken within some thousand operations.
    pub(crate) fn options(&self) -> Options {
        let mut rng = Rng::new(self.seed ^ 0x0971);
        let mut options = Options::default().memory_budget(8 << 20).threads(rng.between(2, 4));
        options.memtable_bytes = Some(*rng.pick(&[16 << 10, 64 << 10, 256 << 10]));
        options.table_bytes = *rng.pick(&[8 << 10, 32 << 10, 1 << 20]);
        options.block_bytes = *rng.pick(&[512, 4 << 10]);
        options.filter_bits = *rng.pick(&[0, 8]);
        options.blob_file_bytes = *rng.pick(&[64 << 10, 300_000, 1 << 20]);
        options.log_history = *rng.pick(&[0, 0, 1 << 20]);
        options.open_tables_max = *rng.pick(&[4, 64]);
        options.separate_at(self.separate_at)
    }

    /// What a tree is created with.
    pub(crate) fn tree_options(&self, name: &str) -> TreeOptions {
        let mut rng = Rng::new(self.seed ^ name.len() as u64);
        draw_tree_options(&mut rng).log(name != FAMILIES[VOLATILE])
    }
}

pub(crate) fn draw_tree_options(rng: &mut Rng) -> TreeOptions {
    let compressions = [Compression::None, Compression::None, Compression::Lz4];
    let options = TreeOptions::default().compression(*rng.pick(&compressions));
    let options = options.compaction(*rng.pick(esker::CompactionStyle::ALL));
    if rng.one_in(2) { options.size_ratio(rng.between(2, 5) as u8) } else { options }
}

/// The parts that a family was split into: each with its first key.
#[derive(Debug, Clone, Default)]
pub(crate) struct Routes {
    pub(crate) parts: [Vec<(Vec<u8>, Tree)>; 3],
}

/// What the part of a family from `start` on is called.
pub(crate) fn part_name(family: usize, start: &[u8]) -> String {
    format!("{}@{}", FAMILIES[family], start.escape_ascii())
}

impl Routes {
    /// As the names of trees tell.
    pub(crate) fn read(db: &Db) -> esker::Result<Routes> {
        let mut routes = Routes::default();
        for name in db.tree_names() {
            let (family, start) = name.split_once('@').unwrap_or((&name, ""));
            let Some(family) = FAMILIES.iter().position(|known| *known == family) else { continue };
            if let Some(tree) = db.open_tree(&name)? {
                routes.parts[family].push((start.as_bytes().to_vec(), tree));
            }
        }
        routes.parts.iter_mut().for_each(|parts| parts.sort_by(|a, b| a.0.cmp(&b.0)));
        Ok(routes)
    }

    pub(crate) fn part(&self, family: usize, key: &[u8]) -> &Tree {
        let parts = &self.parts[family];
        &parts[parts.partition_point(|(start, _)| start.as_slice() <= key) - 1].1
    }

    /// The keys that begin with `prefix`, in each part that may have some.
    pub(crate) fn ranges(&self, family: usize, prefix: &[u8]) -> Vec<(&Tree, ScanRange)> {
        let mut end = prefix.to_vec();
        *end.last_mut().expect("a prefix") += 1;
        let parts = &self.parts[family];
        let mut ranges = Vec::new();
        for (at, (start, tree)) in parts.iter().enumerate() {
            let from = start.as_slice().max(prefix);
            let to = parts.get(at + 1).map_or(end.as_slice(), |next| next.0.as_slice().min(&end));
            if from < to {
                ranges.push((tree, ScanRange::from(from..to)));
            }
        }
        ranges
    }
}

/// An open store that all threads of a child share.
pub(crate) struct Shared {
    pub(crate) db: Db,
    /// Written while a tree is split: a writer that was refused finds here which tree has the key now.
    pub(crate) routes: RwLock<Arc<Routes>>,
    pub(crate) heads: Tree,
    pub(crate) bank: Tree,
    pub(crate) bulk: Tree,
}

impl Shared {
    /// Opens the store and creates what is missing.
    pub(crate) fn open(path: &Path, knobs: &Knobs) -> esker::Result<Shared> {
        let db = Db::open(path, knobs.options())?;
        for family in FAMILIES {
            if db.open_tree(family)?.is_none() {
                db.create_tree(family, knobs.tree_options(family))?;
            }
        }
        let (heads, bank, bulk) = (db.tree(HEADS)?, db.tree(BANK)?, db.tree(BULK)?);
        let routes = RwLock::new(Arc::new(Routes::read(&db)?));
        Ok(Shared { db, routes, heads, bank, bulk })
    }

    pub(crate) fn routes(&self) -> Arc<Routes> {
        Arc::clone(&self.routes.read().expect("nobody panics here"))
    }
}

pub(crate) fn head_key(writer: usize) -> String {
    format!("head {writer}")
}

/// In the family without a log, behind all other keys.
pub(crate) fn volatile_head_key(writer: usize) -> String {
    format!("zz{writer}")
}

pub(crate) fn account_key(account: usize) -> String {
    format!("account {account:02}")
}

pub(crate) fn bulk_key(index: u64) -> String {
    format!("{index:04}")
}

/// The value of a bulk key in a generation: the generation, and what follows from it.
pub(crate) fn bulk_value(knobs: &Knobs, generation: u64, index: u64) -> Vec<u8> {
    let mut rng = Rng::new(knobs.seed ^ (generation << 16) ^ index);
    let len = if rng.one_in(12) { knobs.separate_at * 2 } else { rng.index(200) };
    let mut value = generation.to_le_bytes().to_vec();
    value.extend(crate::plan::bytes_of(rng.next(), len));
    value
}
