//! Opens a damaged store and reads all of it, in every way: each answer is right or a located error.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;

use esker::fs::sim::SimFs;
use esker::{Db, Error, ErrorKind, ScanRange, Tree};

use crate::damage::store::{STORE, options};
use crate::history::{Bytes, Pairs, State};

/// What came of a damage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Everything is there: the damage touched nothing that is alive.
    Harmless,
    /// Somebody was told.
    Told,
}

/// An error that a damage may cause: of a kind that says so, and with a place.
fn told(error: &Error) -> Result<(), String> {
    let kind = matches!(error.kind(), ErrorKind::Corruption | ErrorKind::Unsupported | ErrorKind::NotFound);
    match error.path() {
        Some(path) if kind && path.starts_with(STORE) => Ok(()),
        _ => Err(format!("an error without a place, or of a wrong kind: {error:?}")),
    }
}

/// Judges the store on `disk`, which should hold `expected`. `Err` says what must not happen.
pub(crate) fn judge(disk: &SimFs, expected: &State, thorough: bool) -> Result<Verdict, String> {
    let checked = caught("checking", || check(disk))?;
    let reader = disk.fork();
    let read = caught("reading", || {
        let db = Db::open_read_only(STORE, options(&reader));
        see(db, expected, &reader)
    })?;
    if reader.operations() > 0 {
        return Err("a reader changed the disk".into());
    }
    let writer = disk.fork();
    let written = caught("opening for writing", || {
        let db = Db::open(STORE, options(&writer));
        let db = match db {
            Ok(db) => db,
            Err(error) => return told(&error).map(|()| Verdict::Told),
        };
        let seen = see(Ok(db.clone()), expected, &writer)?;
        if thorough {
            // A merge must not lose what it cannot read.
            let merged = db.compact();
            if let Err(error) = &merged
                && error.kind() != ErrorKind::Poisoned
            {
                told(error)?;
            }
            return Ok(if merged.is_ok() { see(Ok(db), expected, &writer)? } else { Verdict::Told });
        }
        Ok(seen)
    })?;
    match (read, written, checked) {
        (Verdict::Harmless, Verdict::Harmless, Verdict::Harmless) => Ok(Verdict::Harmless),
        (_, _, Verdict::Told) => Ok(Verdict::Told),
        _ => Err("`check` finds nothing in a store that cannot be read".into()),
    }
}

fn caught<T>(doing: &str, work: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
    match catch_unwind(AssertUnwindSafe(work)) {
        Ok(result) => result.map_err(|what| format!("{doing}: {what}")),
        Err(_) => Err(format!("{doing}: a panic")),
    }
}

/// `check` names a file of the store for each finding, and changes nothing.
fn check(disk: &SimFs) -> Result<Verdict, String> {
    let disk = disk.fork();
    let report = match esker::check(STORE, &options(&disk)) {
        Ok(report) => report,
        Err(error) => return told(&error).map(|()| Verdict::Told),
    };
    if disk.operations() > 0 {
        return Err("it changed the disk".into());
    }
    match report.findings.iter().find(|finding| !finding.file.starts_with(STORE)) {
        Some(finding) => Err(format!("a finding without a place: {finding:?}")),
        None if report.findings.is_empty() => Ok(Verdict::Harmless),
        None => Ok(Verdict::Told),
    }
}

/// Reads everything that `db` holds.
fn see(db: esker::Result<Db>, expected: &State, disk: &SimFs) -> Result<Verdict, String> {
    let db = match db {
        Ok(db) => db,
        Err(error) => return told(&error).map(|()| Verdict::Told),
    };
    let names: Vec<String> = expected.keys().cloned().collect();
    if db.tree_names() != names {
        return Err(format!("trees {:?}, expected {names:?}, on {:?}", db.tree_names(), files(disk)));
    }
    let mut verdict = Verdict::Harmless;
    for (name, pairs) in expected {
        let Some(tree) = db.open_tree(name).map_err(|error| format!("{error:?}"))? else {
            return Err(format!("the tree {name} is gone"));
        };
        for reversed in [false, true] {
            verdict = worse(verdict, scan(&tree, pairs, reversed)?);
        }
        let absent: [Bytes; 2] = [Bytes::from(*b"absent"), Bytes::from(*b"key0077x")];
        for key in pairs.keys().chain(&absent) {
            match tree.get_vec(key) {
                Ok(found) if found.as_deref() == pairs.get(key).map(|value| &value[..]) => {}
                Ok(found) => {
                    let key = String::from_utf8_lossy(key);
                    let len = found.map(|value| value.len());
                    return Err(format!("{name}/{key} has {len:?} bytes that nobody wrote, or is missing"));
                }
                Err(error) => {
                    told(&error)?;
                    verdict = Verdict::Told;
                }
            }
        }
    }
    Ok(verdict)
}

fn worse(a: Verdict, b: Verdict) -> Verdict {
    if a == Verdict::Told { a } else { b }
}

/// A scan is right up to where it ends with an error, if it does.
fn scan(tree: &Tree, pairs: &Pairs, reversed: bool) -> Result<Verdict, String> {
    let ordered: Vec<(&Bytes, &Bytes)> =
        if reversed { pairs.iter().rev().collect() } else { pairs.iter().collect() };
    let mut expected = ordered.into_iter();
    let range = if reversed { ScanRange::all().reverse() } else { ScanRange::all() };
    let mut scan = match tree.scan(range) {
        Ok(scan) => scan,
        Err(error) => return told(&error).map(|()| Verdict::Told),
    };
    loop {
        let moved = scan.advance();
        match moved.and_then(|more| more.then(|| scan.pair()).transpose()) {
            Ok(Some(pair)) => match expected.next() {
                Some((key, value)) if (&**key, &**value) == pair => {}
                other => {
                    let key = String::from_utf8_lossy(pair.0);
                    let wanted = other.map(|(key, _)| String::from_utf8_lossy(key).into_owned());
                    return Err(format!("a scan of {} met {key}, expected {wanted:?}", tree.name()));
                }
            },
            Ok(None) => {
                return match expected.next() {
                    None => Ok(Verdict::Harmless),
                    Some((key, _)) => {
                        let key = String::from_utf8_lossy(key);
                        Err(format!("a scan of {} ended before {key}", tree.name()))
                    }
                };
            }
            Err(error) => return told(&error).map(|()| Verdict::Told),
        }
    }
}

/// The store's files.
pub(crate) fn files(disk: &SimFs) -> Vec<PathBuf> {
    disk.paths().into_iter().filter(|path| path.starts_with(STORE)).collect()
}
