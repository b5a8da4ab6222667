//! A store with a tree that is to be exported and imported.

use std::collections::BTreeMap;
use std::sync::Arc;

use esker::env::StepExecutor;
use esker::fs::sim::SimFs;
use esker::{Db, Options};

use crate::{Rng, contents, world};

pub const STORE: &str = "/store";
pub const OTHER: &str = "/other";
pub const DIR: &str = "/exported";
/// From here on values are huge.
pub const HUGE: usize = 1000;

pub type Pairs = BTreeMap<Vec<u8>, Vec<u8>>;

pub fn options(disk: &SimFs) -> Options {
    let env = world(Arc::new(disk.clone()), 1, Some(Arc::new(StepExecutor)));
    let mut options = Options::default().env(env).memory_budget(8 << 20).separate_at(HUGE);
    options.memtable_bytes = Some(16 << 10);
    options.table_bytes = 16 << 10;
    options.blob_file_bytes = 20_000;
    options
}

pub fn open(disk: &SimFs, dir: &str) -> Db {
    Db::open(dir, options(disk)).unwrap()
}

/// A store with the trees `t` and `others`, of which the latter was one with it.
pub fn filled(seed: u64) -> (SimFs, Db, Pairs) {
    let (disk, mut rng) = (SimFs::new(seed), Rng::new(seed));
    let db = open(&disk, STORE);
    let tree = db.tree("t").unwrap();
    for number in 0..900_u32 {
        let len = if rng.one_in(9) { 3000 } else { 40 };
        tree.put(format!("{:03}", number * 7 % 600), vec![number as u8; len]).unwrap();
        if number == 600 {
            db.split(&tree, "400", "others").unwrap();
        } else if number > 600 && number * 7 % 600 >= 350 {
            break;
        }
    }
    tree.delete_range("010".."020").unwrap();
    let pairs = contents(&tree);
    assert!(pairs.len() > 300);
    (disk, db, pairs)
}

/// Files in the store that an import has left.
pub fn left_over(disk: &SimFs, dir: &str) -> Vec<std::path::PathBuf> {
    disk.paths()
        .into_iter()
        .filter(|path| path.starts_with(dir) && path.extension() == Some("import".as_ref()))
        .collect()
}
