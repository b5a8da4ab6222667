//! A store is the directory that it was opened in: a working directory that changes, a link that is moved and a directory that
//! is renamed change nothing.

#![cfg(unix)]
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::thread::{self, ThreadId};
use std::time::Duration;
use std::{env, fmt, fs};

use esker::env::{Clock, Env, Random};
use esker::{Db, ErrorKind, Options, ScanRange, TreeOptions};

/// Tells a process of this test what to do, and where.
const ROLE: &str = "ESKER_TEST_ROLE";
const ROOT: &str = "ESKER_TEST_ROOT";

fn options() -> Options {
    let mut options = Options::default().memory_budget(8 << 20).separate_at(2000);
    options.memtable_bytes = Some(64 << 10);
    options
}

/// Puts enough that tables, huge values, segments and manifests are made, and some go.
fn put(db: &Db, from: u32, n: u32) {
    for i in from..from + n {
        db.put(i.to_be_bytes(), i.to_le_bytes().repeat(50)).unwrap();
        if i % 20 == 0 {
            db.put(format!("huge{i}"), i.to_le_bytes().repeat(1000)).unwrap();
        }
    }
    db.flush().unwrap();
    db.compact().unwrap();
}

/// Whether the store in `path` has what was put from `from` on, and nothing else, and is sound.
fn holds(path: &Path, from: u32, n: u32) {
    let report = esker::check(path, &options()).unwrap();
    assert!(report.findings.is_empty(), "{:?}", report.findings);
    let db = Db::open(path, options()).unwrap();
    let mut huge = 0;
    for i in from..from + n {
        assert_eq!(db.get_vec(i.to_be_bytes()).unwrap().unwrap(), i.to_le_bytes().repeat(50));
        if i % 20 == 0 {
            huge += 1;
            assert_eq!(db.get_vec(format!("huge{i}")).unwrap().unwrap(), i.to_le_bytes().repeat(1000));
        }
    }
    assert_eq!(db.default_tree().count(ScanRange::all()).unwrap(), u64::from(n + huge));
    db.close().unwrap();
}

/// Runs this test once more in a process of its own, which may change its working directory.
fn in_own_process(test: &str, role: &str, root: &Path) {
    let mut command = Command::new(env::current_exe().unwrap());
    command
        .args(["--exact", &format!("moved_paths::{test}"), "--nocapture"])
        .env(ROLE, role)
        .env(ROOT, root)
        .current_dir(root);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}{}", text(&output.stdout), text(&output.stderr));
    assert!(text(&output.stdout).contains("1 passed"), "{}", text(&output.stdout));
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn a_changed_working_directory_changes_nothing() {
    const TEST: &str = "a_changed_working_directory_changes_nothing";
    if env::var_os(ROLE).is_none() {
        let root = tempfile::tempdir().unwrap();
        in_own_process(TEST, "chdir", root.path());
        return;
    }
    let root = std::path::PathBuf::from(env::var_os(ROOT).unwrap());
    let (one, two) = (root.join("one"), root.join("two"));
    fs::create_dir(&one).unwrap();
    fs::create_dir(&two).unwrap();
    env::set_current_dir(&one).unwrap();
    let first = Db::open("db", options()).unwrap();
    put(&first, 0, 500);
    env::set_current_dir(&two).unwrap();
    put(&first, 500, 4500);
    assert!(!two.join("db").exists());
    // The same name is another store here, and copies are made where the name leads now.
    let second = Db::open("db", options()).unwrap();
    put(&second, 100_000, 1000);
    put(&first, 5000, 100);
    first.checkpoint("copy").unwrap();
    first.backup("backups").unwrap();
    let third = first.tree("third").unwrap();
    third.put("a", "1").unwrap();
    first.export_tree("third", "third").unwrap();
    second.import_tree("third", "imported").unwrap();
    assert_eq!(second.tree("imported").unwrap().get_vec("a").unwrap().unwrap(), b"1");
    second.drop_tree("imported").unwrap();
    assert_eq!(first.checkpoint("db").unwrap_err().kind(), ErrorKind::AlreadyExists);
    env::set_current_dir(&root).unwrap();
    first.close().unwrap();
    second.close().unwrap();
    holds(&one.join("db"), 0, 5100);
    holds(&two.join("db"), 100_000, 1000);
    holds(&two.join("copy"), 0, 5100);
    esker::restore(two.join("backups"), None, "restored", &options()).unwrap();
    holds(&root.join("restored"), 0, 5100);
}

#[test]
fn a_link_that_is_moved_changes_nothing() {
    let root = tempfile::tempdir().unwrap();
    let (one, two, current) = (root.path().join("one"), root.path().join("two"), root.path().join("current"));
    for (path, from) in [(&one, 0), (&two, 100_000)] {
        let db = Db::open(path, options()).unwrap();
        put(&db, from, 1000);
        db.close().unwrap();
    }
    symlink("one", &current).unwrap();
    let db = Db::open(&current, options()).unwrap();
    put(&db, 1000, 100);
    fs::remove_file(&current).unwrap();
    symlink("two", &current).unwrap();
    put(&db, 1100, 4000);
    let other = Db::open(&current, options()).unwrap();
    put(&other, 101_000, 1000);
    put(&db, 5100, 1000);
    other.close().unwrap();
    db.close().unwrap();
    holds(&one, 0, 6100);
    holds(&current, 100_000, 2000);
    // Through the link the store is destroyed, and the link is left.
    esker::destroy(&current, &options()).unwrap();
    assert!(fs::symlink_metadata(&current).unwrap().is_symlink() && two.read_dir().unwrap().next().is_none());
    holds(&one, 0, 6100);
}

#[test]
fn a_directory_that_is_renamed_changes_nothing() {
    let root = tempfile::tempdir().unwrap();
    let (old, new) = (root.path().join("old"), root.path().join("new"));
    let db = Db::open(&old, options()).unwrap();
    put(&db, 0, 500);
    fs::rename(&old, &new).unwrap();
    put(&db, 500, 4500);
    assert!(!old.exists());
    // Another one in its place is another one.
    let other = Db::open(&old, options()).unwrap();
    put(&other, 100_000, 1000);
    put(&db, 5000, 1000);
    assert_eq!(Db::open(&new, options()).unwrap_err().kind(), ErrorKind::Locked);
    db.checkpoint(root.path().join("copy")).unwrap();
    let backups = root.path().join("backups");
    db.backup(&backups).unwrap();
    db.close().unwrap();
    other.close().unwrap();
    holds(&new, 0, 6000);
    holds(&old, 100_000, 1000);
    holds(&root.path().join("copy"), 0, 6000);
    esker::restore(&backups, None, root.path().join("restored"), &options()).unwrap();
    holds(&root.path().join("restored"), 0, 6000);
}

/// Opens that would write, and opens that would only read.
fn is_locked(dir: &Path, what: &str) {
    let refused = |result: Result<(), esker::Error>| {
        assert_eq!(result.expect_err(what).kind(), ErrorKind::Locked, "{what}");
    };
    refused(Db::open(dir, options()).map(drop));
    refused(Db::open_read_only(dir, options()).map(drop));
    refused(esker::check(dir, &options()).map(drop));
    refused(esker::repair(dir, &options()).map(drop));
    refused(esker::destroy(dir, &options()));
}

#[test]
fn a_lock_file_that_is_taken_away_lets_no_second_writer_in() {
    for what in ["removed", "renamed", "replaced", "replaced by a link"] {
        let root = tempfile::tempdir().unwrap();
        let (dir, aside) = (root.path().join("store"), root.path().join("aside"));
        let lock = dir.join("LOCK");
        let db = Db::open(&dir, options()).unwrap();
        put(&db, 0, 100);
        match what {
            "removed" => fs::remove_file(&lock).unwrap(),
            "renamed" => fs::rename(&lock, &aside).unwrap(),
            "replaced" => {
                fs::write(&aside, "").unwrap();
                fs::rename(&aside, &lock).unwrap();
            }
            _ => {
                fs::write(&aside, "").unwrap();
                fs::remove_file(&lock).unwrap();
                fs::hard_link(&aside, &lock).unwrap();
            }
        }
        is_locked(&dir, what);
        put(&db, 100, 100);
        is_locked(&dir, what);
        db.close().unwrap();
        holds(&dir, 0, 200);
        // Readers keep a writer out in the same way.
        let reader = Db::open_read_only(&dir, options()).unwrap();
        fs::remove_file(&lock).unwrap();
        assert_eq!(Db::open(&dir, options()).unwrap_err().kind(), ErrorKind::Locked, "{what}");
        drop(Db::open_read_only(&dir, options()).unwrap());
        drop(reader);
        holds(&dir, 0, 200);
    }
}

/// The manifest in the directory of the store.
fn manifest_of(dir: &Path) -> PathBuf {
    let names = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    let is_manifest = |path: &PathBuf| {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        name.starts_with("manifest-") && !name.contains('.')
    };
    names.into_iter().find(is_manifest).unwrap()
}

#[test]
fn a_store_whose_manifest_is_taken_away_acknowledges_nothing_more() {
    for what in ["removed", "renamed", "replaced", "written to", "cut", "with its directory"] {
        let root = tempfile::tempdir().unwrap();
        let (dir, aside) = (root.path().join("store"), root.path().join("aside"));
        let db = Db::open(&dir, options()).unwrap();
        put(&db, 0, 100);
        let manifest = manifest_of(&dir);
        match what {
            "removed" => fs::remove_file(&manifest).unwrap(),
            "renamed" => fs::rename(&manifest, &aside).unwrap(),
            "replaced" => {
                fs::copy(&manifest, &aside).unwrap();
                fs::rename(&aside, &manifest).unwrap();
            }
            "written to" => {
                let mut file = fs::OpenOptions::new().append(true).open(&manifest).unwrap();
                std::io::Write::write_all(&mut file, b"more").unwrap();
            }
            "cut" => fs::OpenOptions::new().write(true).open(&manifest).unwrap().set_len(5000).unwrap(),
            _ => fs::remove_dir_all(&dir).unwrap(),
        }
        drop(db.put("late", "a write that comes before the next edit"));
        // Without its directory, a flush fails before it comes to the manifest.
        let told = |error: esker::Error| {
            let is_told = error.kind() == ErrorKind::Poisoned || what == "with its directory";
            assert!(is_told, "{what}: {error}");
        };
        let edited = db.flush().and_then(|()| db.create_tree("new", TreeOptions::default()).map(drop));
        told(edited.unwrap_err());
        told(db.put("later", "x").unwrap_err());
        told(db.sync().unwrap_err());
        if what != "with its directory" {
            assert!(db.get_vec(5_u32.to_be_bytes()).unwrap().is_some(), "{what}: reads go on");
        }
        db.close().unwrap_err();
    }
}

/// Moves a link when a copy behind it has begun: as soon as the thread that copies asks for a time or a random number.
struct Mover {
    system: Env,
    thread: ThreadId,
    root: PathBuf,
    /// The copy that is waited for, and moves the link.
    copy: Mutex<Option<&'static str>>,
}

impl fmt::Debug for Mover {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Mover")
    }
}

impl Mover {
    /// Lets `current` lead to `one`, until the copy `copy` in it has begun.
    fn wait_for(&self, copy: &'static str) {
        lead_to(&self.root, "one");
        *self.copy.lock().unwrap() = Some(copy);
    }

    /// Moves the link if it is time.
    fn look(&self) {
        let mut copy = self.copy.lock().unwrap();
        if thread::current().id() == self.thread
            && copy.take_if(|copy| self.root.join("one").join(copy).exists()).is_some()
        {
            lead_to(&self.root, "two");
        }
    }

    fn has_moved(&self) -> bool {
        self.copy.lock().unwrap().is_none()
    }
}

impl Clock for Mover {
    fn wall_us(&self) -> u64 {
        self.look();
        self.system.clock.wall_us()
    }

    fn monotonic_us(&self) -> u64 {
        self.system.clock.monotonic_us()
    }

    fn sleep(&self, duration: Duration) {
        self.system.clock.sleep(duration);
    }
}

impl Random for Mover {
    fn next_u64(&self) -> u64 {
        self.look();
        self.system.random.next_u64()
    }
}

/// Makes the link `current` lead to `target`.
fn lead_to(root: &Path, target: &str) {
    drop(fs::remove_file(root.join("current")));
    symlink(target, root.join("current")).unwrap();
}

#[test]
fn a_link_that_is_moved_during_a_copy_changes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path();
    let (one, two, current) = (root.join("one"), root.join("two"), root.join("current"));
    for dir in [&one, &two] {
        fs::create_dir(dir).unwrap();
    }
    let mover = Arc::new(Mover {
        system: Env::system(),
        thread: thread::current().id(),
        root: root.to_path_buf(),
        copy: Mutex::default(),
    });
    let env =
        Env { clock: Arc::<Mover>::clone(&mover), random: Arc::<Mover>::clone(&mover), ..Env::system() };
    let db = Db::open(root.join("store"), options().env(env)).unwrap();
    put(&db, 0, 1000);
    let has_moved = |what: &str| {
        assert!(mover.has_moved(), "{what}: nothing was moved");
        assert_eq!(two.read_dir().unwrap().count(), 0, "{what}");
    };
    mover.wait_for("copy");
    db.checkpoint(current.join("copy")).unwrap();
    has_moved("checkpoint");
    mover.wait_for("backups");
    db.backup(current.join("backups")).unwrap();
    has_moved("backup");
    mover.wait_for("export");
    db.export_tree("default", current.join("export")).unwrap();
    has_moved("export");
    lead_to(root, "one");
    let moving = root.to_path_buf();
    let begun = one.join("restored");
    let not_cancelled = move || {
        if begun.exists() {
            lead_to(&moving, "two");
        }
        false
    };
    esker::restore_until(current.join("backups"), None, current.join("restored"), &options(), not_cancelled)
        .unwrap();
    assert_eq!(fs::read_link(&current).unwrap(), Path::new("two"));
    has_moved("restore");
    for copy in ["copy", "export", "restored"] {
        holds(&one.join(copy), 0, 1000);
    }
}

#[test]
fn a_copy_into_the_store_is_refused_however_it_is_named() {
    let root = tempfile::tempdir().unwrap();
    let (old, store, link) = (root.path().join("old"), root.path().join("store"), root.path().join("link"));
    let db = Db::open(&old, options()).unwrap();
    db.put("a", "1").unwrap();
    fs::rename(&old, &store).unwrap();
    symlink("store", &link).unwrap();
    for inside in [
        store.join("copy"),
        link.join("copy"),
        store.join("not/there/yet"),
        link.clone(),
        link.join("../store/x"),
    ] {
        let error = db.checkpoint(&inside).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
        assert_eq!(db.backup(&inside).unwrap_err().kind(), ErrorKind::InvalidInput);
        assert_eq!(db.export_tree("default", &inside).unwrap_err().kind(), ErrorKind::InvalidInput);
    }
    // Where it was is a place like any other now.
    db.checkpoint(old.join("copy")).unwrap();
}
