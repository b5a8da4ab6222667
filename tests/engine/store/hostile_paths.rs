//! What lies in a store's directory and is none of the store's: links, FIFOs, sockets and directories under the names of its
//! files are refused by name, and what they lead to stays as it is.

#![cfg(unix)]
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{FileExt, symlink};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::mpsc::channel;
use std::time::Duration;

use esker::{Db, Error, ErrorKind, Options};

use crate::common::alone;

/// How long a call may take that must not wait for anybody: more than any machine needs.
const PATIENCE: Duration = Duration::from_secs(120);

fn options() -> Options {
    let mut options = Options::default().memory_budget(8 << 20).separate_at(1000);
    options.memtable_bytes = Some(64 << 10);
    options
}

/// A store with everything that a store can have: tables, huge values, two segments, a manifest and its copy, a reserve.
fn make(path: &Path) {
    let db = Db::open(path, options()).unwrap();
    for i in 0..300u32 {
        db.put(format!("small{i}"), i.to_be_bytes()).unwrap();
        db.put(format!("huge{i}"), vec![i as u8; 2000]).unwrap();
    }
    db.flush().unwrap();
    db.put("last", "in the log").unwrap();
    db.close().unwrap();
}

fn names(dir: &Path) -> Vec<String> {
    let names = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = names.collect();
    names.sort();
    names
}

/// Every file below `dir`, with what it holds, and every link, with where it leads.
fn everything(dir: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    for name in names(dir) {
        let path = dir.join(name);
        let kind = fs::symlink_metadata(&path).unwrap().file_type();
        if kind.is_dir() {
            found.extend(everything(&path));
        } else if kind.is_symlink() {
            found.insert(path.clone(), fs::read_link(&path).unwrap().into_os_string().into_encoded_bytes());
        } else if kind.is_file() {
            found.insert(path.clone(), fs::read(&path).unwrap());
        } else {
            found.insert(path, Vec::new());
        }
    }
    found
}

fn copy_dir(from: &Path, to: &Path) {
    fs::create_dir(to).unwrap();
    for name in names(from) {
        fs::copy(from.join(&name), to.join(&name)).unwrap();
    }
}

/// What `work` returns, which must not wait.
fn promptly<T: Send + 'static>(what: &str, work: impl FnOnce() -> T + Send + 'static) -> T {
    let (sender, receiver) = channel();
    std::thread::spawn(move || sender.send(work()));
    receiver.recv_timeout(PATIENCE).unwrap_or_else(|_| panic!("{what} hangs"))
}

/// Every call that opens a store's directory, and what each says; none may wait.
fn try_everything(store: &Path) -> Vec<(&'static str, Result<(), Error>)> {
    type Call = fn(&Path) -> Result<(), Error>;
    let calls: [(&str, Call); 5] = [
        ("open", |store| {
            let db = Db::open(store, options())?;
            db.put("more", vec![1; 3000])?;
            db.flush()?;
            db.compact()?;
            db.close()
        }),
        ("open for reading", |store| Db::open_read_only(store, options()).map(drop)),
        ("check", |store| esker::check(store, &options()).map(drop)),
        ("repair", |store| esker::repair(store, &options()).map(drop)),
        ("destroy", |store| esker::destroy(store, &options())),
    ];
    let tried = calls.map(|(what, call)| {
        let store = store.to_path_buf();
        (what, promptly(what, move || call(&store)))
    });
    tried.into()
}

/// Whether every call refuses the store because of `culprit`, and changes nothing below `all`.
fn is_refused(all: &Path, store: &Path, culprit: &Path) {
    let before = everything(all);
    for (what, result) in try_everything(store) {
        let error = result.expect_err(&format!("{what} with {}", culprit.display()));
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "{what}: {error}");
        assert_eq!(error.path(), Some(culprit), "{what}: {error}");
        assert!(everything(all) == before, "{what} has changed something because of {}", culprit.display());
    }
}

#[test]
fn a_directory_behind_a_link_in_a_store_stays_as_it_is() {
    let root = tempfile::tempdir().unwrap();
    let (store, docs) = (root.path().join("store"), root.path().join("docs"));
    make(&store);
    fs::create_dir(&docs).unwrap();
    fs::write(docs.join("thesis"), "years of work").unwrap();
    // These are names that the store itself would remove.
    fs::write(docs.join("000001.table"), "mine too").unwrap();
    for name in ["backup.tmp", "quarantine-1", "quarantine-7"] {
        let link = store.join(name);
        symlink("../docs", &link).unwrap();
        is_refused(root.path(), &store, &link);
        fs::remove_file(&link).unwrap();
    }
    // A store that is open meets the link in its next backup and export.
    let db = Db::open(&store, options()).unwrap();
    symlink("../docs", store.join("backup.tmp")).unwrap();
    let before = everything(&docs);
    let error = db.backup(root.path().join("backups")).unwrap_err();
    assert_eq!((error.kind(), error.path()), (ErrorKind::InvalidInput, Some(&*store.join("backup.tmp"))));
    db.put("more", "x").unwrap();
    db.close().unwrap();
    assert!(everything(&docs) == before);
}

#[test]
fn what_is_not_ours_in_a_directory_of_ours_stays() {
    let root = tempfile::tempdir().unwrap();
    let store = root.path().join("store");
    make(&store);
    for name in ["backup.tmp", "quarantine-1"] {
        let dir = store.join(name);
        fs::create_dir(&dir).unwrap();
        fs::write(dir.join("000001.table"), "whose?").unwrap();
        fs::write(dir.join("thesis"), "years of work").unwrap();
        let before = everything(&dir);
        let db = Db::open(&store, options()).unwrap();
        if name == "backup.tmp" {
            let error = db.backup(root.path().join("backups")).unwrap_err();
            assert_eq!((error.kind(), error.path()), (ErrorKind::InvalidInput, Some(&*dir.join("thesis"))));
        }
        db.close().unwrap();
        let error = esker::destroy(&store, &options()).unwrap_err();
        assert_eq!((error.kind(), error.path()), (ErrorKind::InvalidInput, Some(&*dir.join("thesis"))));
        assert!(everything(&dir) == before);
        fs::remove_file(dir.join("thesis")).unwrap();
    }
    // Now the store is as whole as ever, and goes, with its own directories.
    let db = Db::open(&store, options()).unwrap();
    assert_eq!(db.get_vec("last").unwrap().unwrap(), b"in the log");
    db.close().unwrap();
    esker::destroy(&store, &options()).unwrap();
    assert!(!store.exists());
}

#[test]
fn a_link_in_place_of_any_file_is_refused_and_not_followed() {
    let root = tempfile::tempdir().unwrap();
    let whole = root.path().join("whole");
    make(&whole);
    let mut kinds = 0;
    for (i, name) in names(&whole).into_iter().enumerate() {
        let all = root.path().join(format!("link{i}"));
        let (store, outside) = (all.join("store"), all.join("outside"));
        fs::create_dir(&all).unwrap();
        copy_dir(&whole, &store);
        // What it leads to is what the store would look for: a store that follows it notices nothing.
        fs::rename(store.join(&name), &outside).unwrap();
        symlink("../outside", store.join(&name)).unwrap();
        is_refused(&all, &store, &store.join(&name));
        // Nor is one that leads nowhere.
        fs::remove_file(&outside).unwrap();
        is_refused(&all, &store, &store.join(&name));
        kinds += 1;
        fs::remove_dir_all(&all).unwrap();
    }
    assert!(kinds >= 6, "{:?}", names(&whole));
}

#[test]
fn a_reserve_that_is_a_link_leads_to_no_file_that_is_cut() {
    let root = tempfile::tempdir().unwrap();
    let (store, film) = (root.path().join("store"), root.path().join("film"));
    make(&store);
    fs::File::create(&film).unwrap().set_len(300 << 20).unwrap();
    fs::remove_file(store.join("RESERVE")).unwrap();
    symlink("../film", store.join("RESERVE")).unwrap();
    for (what, result) in try_everything(&store) {
        let error = result.expect_err(what);
        assert_eq!(error.path(), Some(&*store.join("RESERVE")), "{what}: {error}");
    }
    // The file stays as it is under its second name: the store makes a reserve of its own.
    fs::remove_file(store.join("RESERVE")).unwrap();
    fs::hard_link(&film, store.join("RESERVE")).unwrap();
    let db = Db::open(&store, options()).unwrap();
    for number in 0..40_u32 {
        db.put(number.to_be_bytes(), vec![7; 100_000]).unwrap();
    }
    db.compact().unwrap();
    db.close().unwrap();
    assert_eq!(fs::metadata(&film).unwrap().len(), 300 << 20);
    let db = Db::open(&store, options()).unwrap();
    assert_eq!(db.get_vec("last").unwrap().unwrap(), b"in the log");
}

#[test]
fn a_store_and_its_copy_by_hard_links_are_open_side_by_side_and_share_no_lock() {
    let root = tempfile::tempdir().unwrap();
    let (store, copy) = (root.path().join("store"), root.path().join("copy"));
    make(&store);
    fs::create_dir(&copy).unwrap();
    for name in names(&store) {
        fs::hard_link(store.join(&name), copy.join(&name)).unwrap();
    }
    let before = everything(&copy);
    let db = Db::open(&store, options()).unwrap();
    db.put("last", "in the store").unwrap();
    assert!(everything(&copy) == before, "the copy has changed with the store");
    let other = Db::open(&copy, options()).unwrap();
    other.put("last", "in the copy").unwrap();
    for (dir, db, value) in [(&store, &db, "in the store"), (&copy, &other, "in the copy")] {
        assert_eq!(db.get_vec("last").unwrap().unwrap(), value.as_bytes());
        for second in [Db::open(dir, options()), Db::open_read_only(dir, options())] {
            let error = second.map(drop).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Locked, "{error}");
            assert!(error.to_string().contains("this process"), "{error}");
        }
    }
    // What another program has put there by a link is not written to either.
    drop((db, other));
    let mine = root.path().join("mine");
    fs::write(&mine, "").unwrap();
    fs::remove_file(store.join("LOCK")).unwrap();
    fs::hard_link(&mine, store.join("LOCK")).unwrap();
    let db = Db::open(&store, options()).unwrap();
    assert_eq!(fs::read(&mine).unwrap(), b"");
    db.close().unwrap();
    assert_eq!(fs::read(&mine).unwrap(), b"");
}

#[test]
fn a_copy_is_not_made_in_the_store_by_a_path_that_goes_up_again() {
    let root = tempfile::tempdir().unwrap();
    let store = root.path().join("store");
    let db = Db::open(&store, options()).unwrap();
    db.put("a", "b").unwrap();
    let inside = root.path().join("new/../store/copy");
    assert_eq!(db.checkpoint(&inside).unwrap_err().kind(), ErrorKind::InvalidInput);
    assert_eq!(db.backup(&inside).unwrap_err().kind(), ErrorKind::InvalidInput);
    assert!(!store.join("copy").exists() && !root.path().join("new").exists());
}

#[test]
fn a_fifo_a_socket_and_a_directory_in_place_of_a_file_are_refused_at_once() {
    let root = tempfile::tempdir().unwrap();
    let whole = root.path().join("whole");
    make(&whole);
    type Replace = fn(&Path);
    let replace: [(&str, Replace); 3] = [
        ("fifo", |path| {
            let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
            rustix::fs::mknodat(rustix::fs::CWD, path, rustix::fs::FileType::Fifo, mode, 0).unwrap();
        }),
        ("socket", |path| drop(UnixListener::bind(path).unwrap())),
        ("directory", |path| fs::create_dir(path).unwrap()),
    ];
    // Names of files that are there, and of some that are not.
    let mut all_names = names(&whole);
    let more = ["000777.table", "000778.blob", "wal-000777.log", "manifest-000777", "manifest-000777.tmp"];
    all_names.extend(more.map(str::to_owned));
    for (what, replace) in replace {
        for (i, name) in all_names.iter().enumerate() {
            let all = root.path().join(format!("{what}{i}"));
            fs::create_dir(&all).unwrap();
            let store = all.join("s");
            copy_dir(&whole, &store);
            drop(fs::remove_file(store.join(name)));
            replace(&store.join(name));
            is_refused(&all, &store, &store.join(name));
            fs::remove_dir_all(&all).unwrap();
        }
    }
    // One file alone is no better.
    let fifo = root.path().join("000001.table");
    replace[0].1(&fifo);
    let path = fifo.clone();
    let dumped = promptly("dump", move || esker::dump(&path, |_| true, &options()));
    assert_eq!(dumped.unwrap_err().kind(), ErrorKind::InvalidInput);
}

#[test]
fn a_store_that_is_open_follows_no_link_that_comes_later() {
    let root = tempfile::tempdir().unwrap();
    let (store, mine) = (root.path().join("store"), root.path().join("mine"));
    fs::write(&mine, "years of work").unwrap();
    let db = Db::open(&store, options()).unwrap();
    // Names that the next files will have: tables, huge values, manifests, the log.
    for number in 1..200u32 {
        for name in [
            format!("{number:06}.table"),
            format!("{number:06}.blob"),
            format!("wal-{number:06}.log"),
            format!("manifest-{number:06}"),
            format!("manifest-{number:06}.copy"),
            format!("manifest-{number:06}.tmp"),
        ] {
            let _taken = symlink("../mine", store.join(name));
        }
    }
    // Most of these fail, which is the store's right: it has not made these names.
    for i in 0..2000u32 {
        let _may_fail = db.put(i.to_be_bytes(), vec![7; 3000]);
    }
    let _may_fail = db.flush().and_then(|()| db.compact());
    let _may_fail = db.close();
    assert_eq!(fs::read(&mine).unwrap(), b"years of work");
}

#[test]
fn a_directory_of_backups_with_a_link_in_it_is_refused() {
    let root = tempfile::tempdir().unwrap();
    let (store, backups, mine) =
        (root.path().join("store"), root.path().join("backups"), root.path().join("mine"));
    make(&store);
    let db = Db::open(&store, options()).unwrap();
    db.backup(&backups).unwrap();
    fs::write(&mine, "years of work").unwrap();
    let table = names(&backups).into_iter().find(|name| name.ends_with(".table")).unwrap();
    for name in [table.as_str(), "backup-000001", "backup-000002", "backup-000009.tmp", "LOCK"] {
        let (path, kept) = (backups.join(name), root.path().join("kept"));
        let was_there = fs::rename(&path, &kept).is_ok();
        symlink("../mine", &path).unwrap();
        let before = everything(root.path());
        for error in [
            db.backup(&backups).unwrap_err(),
            esker::forget_backups(&backups, 1, &options()).unwrap_err(),
            esker::restore(&backups, None, root.path().join("restored"), &options()).unwrap_err(),
        ] {
            assert_eq!((error.kind(), error.path()), (ErrorKind::InvalidInput, Some(&*path)), "{error}");
        }
        let changed = |path: &PathBuf| !path.starts_with(&store) && !before.contains_key(path);
        assert!(!everything(root.path()).keys().any(changed));
        assert_eq!(fs::read(&mine).unwrap(), b"years of work");
        fs::remove_file(&path).unwrap();
        if was_there {
            fs::rename(&kept, &path).unwrap();
        }
    }
    db.backup(&backups).unwrap();
}

#[test]
fn one_of_two_restores_into_one_directory_succeeds() {
    let root = tempfile::tempdir().unwrap();
    let (store, backups) = (root.path().join("store"), root.path().join("backups"));
    make(&store);
    Db::open(&store, options()).unwrap().backup(&backups).unwrap();
    for round in 0..20 {
        let target = root.path().join(format!("restored{round}"));
        let barrier = std::sync::Barrier::new(2);
        let results: Vec<_> = std::thread::scope(|scope| {
            let restore = || {
                barrier.wait();
                esker::restore(&backups, None, &target, &options())
            };
            let threads = [scope.spawn(restore), scope.spawn(restore)];
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        let failed: Vec<_> = results.into_iter().filter_map(Result::err).collect();
        assert_eq!(failed.len(), 1, "{failed:?}");
        assert_eq!(failed[0].kind(), ErrorKind::AlreadyExists);
        let db = Db::open(&target, options()).unwrap();
        assert_eq!(db.get_vec("last").unwrap().unwrap(), b"in the log");
    }
}

/// A backup goes on copying what it has linked when its store is closed; the next opening must not take that away.
#[test]
fn an_opening_leaves_the_links_of_a_backup_that_is_under_way() {
    let root = tempfile::tempdir().unwrap();
    let store = root.path().join("store");
    make(&store);
    let staging = store.join("backup.tmp");
    fs::create_dir(&staging).unwrap();
    fs::write(staging.join("000001.table"), "a link").unwrap();
    let holder = fs::File::create(staging.join("LOCK")).unwrap();
    holder.lock().unwrap();
    let db = Db::open(&store, options()).unwrap();
    assert_eq!(names(&staging), ["000001.table", "LOCK"]);
    let error = db.backup(root.path().join("backups")).unwrap_err();
    assert_eq!((error.kind(), error.path()), (ErrorKind::Locked, Some(&*staging)), "{error}");
    // Its process has died.
    drop(holder);
    db.backup(root.path().join("backups")).unwrap();
    assert!(!staging.exists());
    fs::create_dir(&staging).unwrap();
    fs::write(staging.join("000001.table"), "a link").unwrap();
    db.close().unwrap();
    drop(Db::open(&store, options()).unwrap());
    assert!(!staging.exists());
}

/// A file of 1 TB that takes no space but for its `head`.
fn sparse(path: &Path, head: &[u8]) {
    let file = fs::File::create(path).unwrap();
    file.write_all_at(head, 0).unwrap();
    file.set_len(1 << 40).unwrap();
}

/// The bytes of memory that this process has had at once at most.
fn memory_max() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    Some(line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? << 10)
}

#[test]
fn a_sparse_file_of_a_terabyte_costs_neither_memory_nor_the_store() {
    alone("hostile_paths::a_sparse_file_of_a_terabyte_costs_neither_memory_nor_the_store", open_sparse_files);
}

fn open_sparse_files(root: &Path) {
    let whole = root.join("whole");
    make(&whole);
    let is_manifest = |name: &&String| name.starts_with("manifest") && !name.contains('.');
    let manifest = names(&whole).iter().find(is_manifest).unwrap().clone();
    let copy = format!("{manifest}.copy");
    let mut all = names(&whole);
    let more = ["wal-000777.log", "000777.table", "000778.blob", "manifest-000777", "manifest-000777.tmp"];
    all.extend(more.map(str::to_owned));
    for (i, name) in all.iter().enumerate() {
        for keeps_head in [false, true] {
            let what = format!("{name}, {}", if keeps_head { "lengthened" } else { "zeros" });
            let store = root.join(format!("sparse{i}{keeps_head}"));
            copy_dir(&whole, &store);
            let head = fs::read(store.join(name)).unwrap_or_default();
            sparse(&store.join(name), if keeps_head { &head } else { b"" });
            let path = store.join(name);
            let dumped = promptly("dump", move || esker::dump(&path, |_| true, &options()).is_ok());
            println!("{what}: dump {dumped}");
            let path = store.clone();
            let checked = promptly("check", move || esker::check(&path, &options()));
            println!("{what}: check {checked:?}");
            let path = store.clone();
            let opened =
                promptly("open", move || Db::open(path, options()).and_then(|db| db.get_vec("last")));
            println!("{what}: open {opened:?}");
            // Log, manifest and reserve end where their content does, whatever the length is.
            let ends_itself = name.starts_with("wal-") || *name == manifest || *name == copy;
            if keeps_head && (ends_itself || name == "RESERVE" || name == "LOCK") {
                assert_eq!(opened.unwrap().unwrap(), b"in the log", "{what}");
            }
            for (call, result) in try_everything(&store) {
                // What is damaged is named; `check` reports it, and `repair` and `destroy` do their work.
                let kind = result.err().map(|error| error.kind());
                assert!(matches!(kind, None | Some(ErrorKind::Corruption)), "{what}: {call} {kind:?}");
            }
            assert!(!store.exists(), "{what}: destroyed");
        }
    }
    if let Some(memory) = memory_max() {
        assert!(memory < 2 << 30, "{memory} bytes of memory at once");
    }
}

/// The link that a store was named by stays when the store is destroyed, whatever bytes its name has.
#[test]
fn a_store_is_destroyed_through_a_link_of_any_name() {
    use std::os::unix::ffi::OsStrExt;
    for name in [&b"link"[..], b"li\xffnk"] {
        let dir = tempfile::tempdir().unwrap();
        let (store, link) = (dir.path().join("store"), dir.path().join(std::ffi::OsStr::from_bytes(name)));
        make(&store);
        std::os::unix::fs::symlink(&store, &link).unwrap();
        esker::destroy(&link, &options()).unwrap();
        assert!(link.is_symlink() && std::fs::read_dir(&store).unwrap().next().is_none());
    }
}

/// A store that went on behind such a number would give its next files names that it does not know again.
#[test]
fn a_file_with_a_number_behind_which_there_is_none_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let store = dir.path().join("store");
    make(&store);
    let greatest = 1_u64 << 48;
    for number in [greatest / 2, greatest] {
        for name in [
            format!("{number}.table"),
            format!("{number}.blob"),
            format!("{number}.blob.tmp"),
            format!("wal-{number}.log"),
            format!("manifest-{number}"),
            format!("manifest-{number}.copy"),
            format!("000001-{number}.import"),
        ] {
            let stray = store.join(&name);
            fs::write(&stray, "").unwrap();
            let before = everything(&store);
            let refusals = [
                Db::open(&store, options()).map(drop),
                Db::open_read_only(&store, options()).map(drop),
                esker::check(&store, &options()).map(drop),
            ];
            if name.ends_with(".tmp") || name.ends_with(".copy") {
                // It goes, and has no part in numbering.
                assert!(refusals.iter().all(Result::is_ok), "{name}: {refusals:?}");
                assert!(!stray.exists());
                continue;
            }
            for refused in refusals {
                let error = refused.expect_err(&name);
                assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
                assert!(error.to_string().contains(&name), "{error}");
            }
            assert!(everything(&store) == before, "{name}");
            fs::remove_file(&stray).unwrap();
        }
    }
    // A number that no file may have: somebody else's.
    fs::write(store.join(format!("{}.table", greatest + 1)), "").unwrap();
    let db = Db::open(&store, options()).unwrap();
    assert_eq!(db.get_vec("last").unwrap().unwrap(), b"in the log");
    assert_eq!(db.get_vec("huge7").unwrap().unwrap(), vec![7; 2000]);
}
