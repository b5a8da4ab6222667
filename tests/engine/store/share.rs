//! Values that take the blocks of a file. On real files this needs a directory on a file system whose files share
//! blocks, which `ESKER_SHARING_DIR` names; without it the same calls are made where nothing can be shared.

use std::fs::{File, OpenOptions};
use std::io::{Seek, SeekFrom};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

use esker::env::StepExecutor;
use esker::fs::sim::{Fault, FaultError, Op, SimFs};
use esker::{Db, Options, Tree};

use crate::common::{Rng, world};

const MIB: u64 = 1 << 20;

fn stepped(disk: &SimFs) -> Options {
    Options::default().memory_budget(8 << 20).env(world(
        Arc::new(disk.clone()),
        1,
        Some(Arc::new(StepExecutor)),
    ))
}

/// Gives `key` what `path` has, of which `len` bytes are believed to be there; how much was shared.
fn put(tree: &Tree, key: &str, path: &Path, len: u64) -> u64 {
    let mut file = File::open(path).unwrap();
    let mut writer = tree.writer(key).unwrap();
    let shared = writer.share_file(&file, len).unwrap();
    assert_eq!(writer.len(), shared);
    file.seek(SeekFrom::Start(shared)).unwrap();
    std::io::copy(&mut file, &mut writer).unwrap();
    writer.commit().unwrap();
    shared
}

/// Values of all lengths, from files that change afterwards. `always`: blocks can be shared.
fn files_become_values(user: &Path, store: &Path, options: &Options, always: bool) {
    let mut rng = Rng::new(1);
    let db = Db::open(store, options.clone()).unwrap();
    let mut expected = Vec::new();
    for len in [0, 1, 5000, MIB, MIB + 1, 2 * MIB, 3 * MIB + 5, 20_000_000] {
        let path = user.join("source");
        let bytes = rng.bytes(len as usize);
        std::fs::write(&path, &bytes).unwrap();
        let key = format!("{len}");
        let shared = put(db.default_tree(), &key, &path, len);
        let most = if len > MIB { len / MIB * MIB } else { 0 };
        assert!(shared == most || (shared == 0 && !always), "{shared} of {len}");
        // The value has its own bytes from now on.
        let file = OpenOptions::new().write(true).open(&path).unwrap();
        file.write_all_at(&vec![0; (len as usize).min(70_000)], 0).unwrap();
        file.set_len(len / 2).unwrap();
        expected.push((key, bytes));
    }
    // The file has lost its end since its length was asked for.
    let path = user.join("short");
    let bytes = rng.bytes(2_500_000);
    std::fs::write(&path, &bytes).unwrap();
    let shared = put(db.default_tree(), "short", &path, 9_000_000);
    assert!(shared == 2 * MIB || (shared == 0 && !always), "{shared}");
    expected.push(("short".to_owned(), bytes));
    // Something stands before it.
    let mut writer = db.default_tree().writer("behind").unwrap();
    writer.add(b"head").unwrap();
    assert_eq!(writer.share_file(&File::open(&path).unwrap(), 2_500_000).unwrap(), 0);
    drop(writer);
    // It is begun and given up.
    let mut writer = db.default_tree().writer("given up").unwrap();
    writer.share_file(&File::open(&path).unwrap(), 2_500_000).unwrap();
    drop(writer);
    db.close().unwrap();
    drop(db);
    assert_eq!(esker::check(store, options).unwrap().findings, []);
    let db = Db::open(store, options.clone()).unwrap();
    for (key, bytes) in &expected {
        assert!(db.get_vec(key).unwrap().as_ref() == Some(bytes), "{key}");
    }
    assert_eq!(db.default_tree().count(esker::ScanRange::all()).unwrap(), expected.len() as u64);
}

#[test]
fn a_value_that_shares_blocks_of_a_file_is_its_own() {
    let sharing = std::env::var_os("ESKER_SHARING_DIR");
    let user = match &sharing {
        Some(dir) => tempfile::tempdir_in(dir).unwrap(),
        None => tempfile::tempdir().unwrap(),
    };
    files_become_values(user.path(), &user.path().join("store"), &Options::default(), sharing.is_some());
    files_become_values(user.path(), Path::new("/store"), &stepped(&SimFs::new(1)), true);
}

#[test]
fn what_cannot_be_shared_is_written() {
    let user = tempfile::tempdir().unwrap();
    let path = user.path().join("source");
    let bytes = Rng::new(2).bytes(5_000_000);
    std::fs::write(&path, &bytes).unwrap();
    for nth in 0..16 {
        let disk = SimFs::new(1);
        let db = Db::open("/store", stepped(&disk)).unwrap();
        // The first page of the file, then a quarter of a MiB at a time.
        disk.inject(Fault::new(Op::WriteAt, ".blob").nth(nth + 2).error(FaultError::NoSpace));
        let shared = put(db.default_tree(), "key", &path, 5_000_000);
        assert_eq!(shared, nth / 4 * MIB);
        assert!(db.get_vec("key").unwrap().unwrap() == bytes, "{nth}");
        db.close().unwrap();
    }
}
