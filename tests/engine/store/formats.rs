//! Stores of every format there has been, opened for ever.
//!
//! `tests/stores` holds a small one for each format: a store that was closed, one that was killed, a backup, and in
//! `contents` what they hold, as the build that made them said. None is checked in before the format is declared
//! stable. To make one:
//!
//! ```text
//! ESKER_MAKE_STORE=format-1 cargo test -p esker --test store formats::
//! ```

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use esker::{Batch, Compression, Db, Options, ScanRange, TreeOptions};

const CENTURY: Duration = Duration::from_secs(100 * 365 * 86_400);

fn options() -> Options {
    let mut options = Options::default().memory_budget(8 << 20);
    options.memtable_bytes = Some(16 << 10);
    options.table_bytes = 8 << 10;
    options.separate_at = 1000;
    options.blob_file_bytes = 8 << 10;
    options
}

/// A sum of `bytes` that no library changes (FNV-1a).
fn sum(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |sum, byte| (sum ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3))
}

/// All that a store holds, as text.
fn contents(db: &Db) -> String {
    let mut out = String::new();
    let mut names = db.tree_names();
    names.sort();
    for name in names {
        let tree = db.open_tree(&name).unwrap().unwrap();
        writeln!(out, "tree {name} tag {:?} {:?}", tree.tag(), tree.key_range()).unwrap();
        for pair in tree.scan(ScanRange::all()).unwrap() {
            let (key, value) = pair.unwrap();
            assert_eq!(
                tree.get_vec(&key).unwrap().as_deref(),
                Some(&value[..]),
                "a get of what a scan shows"
            );
            writeln!(out, "{} {} {:016x}", key.escape_ascii(), value.len(), sum(&value)).unwrap();
        }
    }
    out
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        match entry.file_type().unwrap().is_dir() {
            true => copy(&entry.path(), &target),
            // It means nothing, and is large.
            false if entry.file_name() == "RESERVE" => {}
            false => drop(fs::copy(entry.path(), target).unwrap()),
        }
    }
}

/// Writes something of everything there is.
fn fill(db: &Db) {
    let main = db.default_tree();
    let packed = db.create_tree("packed", TreeOptions::default().compression(Compression::Lz4)).unwrap();
    let unlogged = db.create_tree("unlogged", TreeOptions::default().log(false)).unwrap();
    packed.set_tag("u64").unwrap();
    for round in 0..4_u8 {
        for i in 0..200_u32 {
            main.put(format!("key{i:04}"), format!("{round}-{i}").repeat(5)).unwrap();
            packed.put(i.to_be_bytes(), [round; 100]).unwrap();
        }
        main.put(format!("huge{round}"), vec![round; 5000 + usize::from(round)]).unwrap();
        unlogged.put([round], [round; 50]).unwrap();
        db.flush().unwrap();
    }
    main.put_for("lease", "for a century", CENTURY).unwrap();
    main.put_from("stream", &vec![8; 100_000][..]).unwrap();
    assert!(main.copy("huge1", "copy of huge1").unwrap() && main.rename("huge2", "renamed").unwrap());
    main.add("count", 40).unwrap();
    main.add("count", 2).unwrap();
    main.append("text", "ab").unwrap();
    db.compact().unwrap();
    main.append("text", "cd").unwrap();
    main.delete("key0007").unwrap();
    main.delete_range("key0100".."key0150").unwrap();
    packed.delete_range(190_u32.to_be_bytes()..).unwrap();
    db.split(main, "key0120", "upper half").unwrap();
    db.drop_tree("packed").unwrap();
    db.create_tree("packed", TreeOptions::default()).unwrap().put("again", "here").unwrap();
    db.flush().unwrap();
}

/// Makes what `tests/stores` holds of a format.
fn make(dir: &Path) {
    let live = tempfile::tempdir().unwrap();
    let db = Db::open(live.path().join("store"), options()).unwrap();
    fill(&db);
    db.backup(dir.join("backups")).unwrap();
    // What only the log has.
    let mut batch = Batch::new();
    for i in 0..50_u32 {
        batch.put(db.default_tree(), format!("a late{i}"), i.to_string()).unwrap();
    }
    batch.delete(db.default_tree(), "key0008").unwrap();
    batch.put(db.default_tree(), "a late and huge", vec![3; 3000]).unwrap();
    db.write(&batch).unwrap();
    db.sync().unwrap();
    fs::write(dir.join("contents"), contents(&db)).unwrap();
    // Nobody writes: what is in the files now is what a kill would leave.
    copy(&live.path().join("store"), &dir.join("killed"));
    db.close().unwrap();
    copy(&live.path().join("store"), &dir.join("closed"));
    fs::remove_file(dir.join("closed/LOCK")).unwrap();
    fs::remove_file(dir.join("killed/LOCK")).unwrap();
}

/// What is wrong with the stores of one format.
fn judge(dir: &Path) -> Result<(), String> {
    let expected = fs::read_to_string(dir.join("contents")).map_err(|error| error.to_string())?;
    let work = tempfile::tempdir().map_err(|error| error.to_string())?;
    for which in ["killed", "closed"] {
        let store = work.path().join(which);
        copy(&dir.join(which), &store);
        let in_store = |error: esker::Error| format!("{}/{which}: {error}", dir.display());
        let report = esker::check(&store, &options()).map_err(in_store)?;
        if !report.findings.is_empty() {
            return Err(format!("{}/{which}: {:?}", dir.display(), report.findings));
        }
        let db = Db::open(&store, options()).map_err(in_store)?;
        let found = contents(&db);
        if let Some((found, expected)) = found.lines().zip(expected.lines()).find(|(a, b)| a != b) {
            return Err(format!("{}/{which}: {found:?} instead of {expected:?}", dir.display()));
        }
        if found.lines().count() != expected.lines().count() {
            return Err(format!("{}/{which}: lines are missing, or too many", dir.display()));
        }
        // It goes on as a store of this build.
        db.put("a new", "one").map_err(in_store)?;
        db.compact().map_err(in_store)?;
        db.close().map_err(in_store)?;
        drop(db);
        let db = Db::open(&store, options()).map_err(in_store)?;
        let added = contents(&db);
        let others = |text: &str| text.lines().filter(|line| !line.starts_with("a new ")).count();
        if others(&added) != expected.lines().count() || db.get_vec("a new").map_err(in_store)?.is_none() {
            return Err(format!("{}/{which}: not the same after it was written to", dir.display()));
        }
    }
    let restored = work.path().join("restored");
    let failed = |error: esker::Error| format!("{}/backups: {error}", dir.display());
    copy(&dir.join("backups"), &work.path().join("backups"));
    esker::restore(work.path().join("backups"), None, &restored, &options()).map_err(failed)?;
    let db = Db::open(&restored, options()).map_err(failed)?;
    match db.get_vec("count").map_err(failed)? {
        Some(count) if count == esker::keys::i64(42) => Ok(()),
        other => Err(format!("{}/backups: the count is {other:?}", dir.display())),
    }
}

fn stores() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/stores")
}

#[test]
fn stores_of_all_formats_open_and_hold_what_they_held() {
    if let Some(name) = std::env::var_os("ESKER_MAKE_STORE") {
        let dir = stores().join(name);
        fs::create_dir_all(&dir).unwrap();
        make(&dir);
    }
    // Of this build's format one is made here.
    let fresh = tempfile::tempdir().unwrap();
    make(fresh.path());
    let mut formats = vec![fresh.path().to_path_buf()];
    if stores().exists() {
        formats.extend(fs::read_dir(stores()).unwrap().map(|entry| entry.unwrap().path()));
    }
    for dir in formats {
        assert_eq!(judge(&dir), Ok(()));
    }
}

#[test]
fn a_store_that_lost_something_is_noticed() {
    let dir = tempfile::tempdir().unwrap();
    make(dir.path());
    let path = dir.path().join("contents");
    let contents = fs::read_to_string(&path).unwrap();
    assert!(contents.contains("renamed 5002 ") && contents.contains("late and huge 3000 "), "{contents}");
    fs::write(&path, contents.replacen("key0009 ", "key0009x ", 1)).unwrap();
    assert!(judge(dir.path()).unwrap_err().contains("key0009"));
    fs::write(&path, &contents).unwrap();
    assert_eq!(judge(dir.path()), Ok(()));
    for file in fs::read_dir(dir.path().join("killed")).unwrap() {
        let file = file.unwrap().path();
        if file.to_string_lossy().contains("wal-") {
            fs::write(&file, vec![0; 4096]).unwrap();
        }
    }
    assert!(judge(dir.path()).is_err());
}
