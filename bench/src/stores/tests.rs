//! Every store does what the driver believes it does, checked on a small random history.

use super::*;
use crate::data::Draws;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// A directory of the test's own, removed when the test ends.
struct TempDir(PathBuf);

impl TempDir {
    fn new(name: &str) -> TempDir {
        let path = std::env::temp_dir().join(format!("esker-bench-{name}-{}", std::process::id()));
        std::fs::remove_dir_all(&path).ok();
        std::fs::create_dir_all(&path).unwrap();
        TempDir(path)
    }
}

impl Drop for TempDir {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).ok();
    }
}

fn rows(store: &dyn Store, from: &[u8], to: Option<&[u8]>, limit: u64) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut rows = Vec::new();
    let count = store.scan(from, to, limit, &mut |k, v| rows.push((k.to_vec(), v.to_vec()))).unwrap();
    assert_eq!(count, rows.len() as u64);
    rows
}

fn keeps_what_it_is_told(name: &str, settings: Settings) {
    let dir = TempDir::new(&format!("{name}-{settings:?}"));
    let mut store = open(name, &dir.0.join("db"), settings).unwrap();
    let mut model = BTreeMap::new();
    let draws = Draws::new(1, 1);
    for i in 0..20_000 {
        let key = draws.below(i, 4000).to_be_bytes();
        match draws.below(i, 1 << 40) % 5 {
            0 => {
                store.delete(&key).unwrap();
                model.remove(&key[..]);
            }
            1 => {
                let (a, b) = ([&key[..], b"a"].concat(), [&key[..], b"b"].concat());
                store.put_batch(&[(&a, b"in a batch"), (&b, &i.to_le_bytes())]).unwrap();
                model.insert(a, b"in a batch".to_vec());
                model.insert(b, i.to_le_bytes().to_vec());
            }
            _ => {
                store.put(&key, &i.to_le_bytes(), i % 1000 == 0).unwrap();
                model.insert(key.to_vec(), i.to_le_bytes().to_vec());
            }
        }
        if i == 10_000 {
            store.close().unwrap();
            store = open(name, &dir.0.join("db"), settings).unwrap();
        }
    }
    let mut value = b"old".to_vec();
    for key in 0..4000_u64 {
        let found = store.get(&key.to_be_bytes(), &mut value).unwrap();
        assert_eq!(found.then_some(&value), model.get(&key.to_be_bytes()[..]), "{name} key {key}");
    }
    let all: Vec<_> = model.clone().into_iter().collect();
    assert_eq!(rows(&*store, b"", None, u64::MAX), all);
    let (low, high) = (1000_u64.to_be_bytes().to_vec(), all[all.len() - 1000].0.clone());
    let between: Vec<_> =
        model.range(low.clone()..=high.clone()).map(|(k, v)| (k.clone(), v.clone())).collect();
    assert_eq!(rows(&*store, &low, Some(&high), u64::MAX), between);
    assert_eq!(rows(&*store, &low, None, 10), between[..10]);
    store.close().unwrap();
}

#[cfg(feature = "leveldb")]
#[test]
fn leveldb() {
    keeps_what_it_is_told("leveldb", Settings::Default);
    keeps_what_it_is_told("leveldb", Settings::Equal);
}

#[cfg(feature = "rocksdb")]
#[test]
fn rocksdb() {
    keeps_what_it_is_told("rocksdb", Settings::Default);
    keeps_what_it_is_told("rocksdb", Settings::Equal);
}

/// A RocksDB that computes checksums without the processor's instruction, or lacks LZ4, is no fair peer.
#[cfg(feature = "rocksdb")]
#[test]
fn rocksdb_is_built_to_be_fast() {
    let dir = TempDir::new("rocksdb-build");
    let db = dir.0.join("db");
    open("rocksdb", &db, Settings::Default).unwrap().close().unwrap();
    let log = std::fs::read_to_string(db.join("LOG")).unwrap();
    for line in ["Fast CRC32 supported: Supported", "kLZ4Compression supported: 1", "compression: LZ4"] {
        assert!(log.contains(line), "no {line:?} in RocksDB's log:\n{log}");
    }
}

#[test]
fn esker() {
    keeps_what_it_is_told("esker", Settings::Default);
    keeps_what_it_is_told("esker", Settings::Equal);
}

#[test]
fn an_unknown_name_is_an_error() {
    assert!(open("lmdb", Path::new("/nonexistent"), Settings::Equal).is_err());
}

#[test]
fn a_store_that_cannot_be_opened_says_why() {
    for name in NAMES.iter().filter(|name| !["none", "esker"].contains(name)) {
        let error = open(name, Path::new("/proc/nothing/here"), Settings::Equal).err().unwrap();
        assert!(error.to_string().contains(name), "{error}");
    }
}
