//! The real program on a system whose calls fail: each kind of call, with each error that it may have, the n-th of a thread
//! or all from there on. `strace` makes them fail, so nothing of the program is other than what users run.
//!
//! ```text
//! strace -f -e inject=fdatasync:error=EIO:when=3 esker --db store run commands
//!   exit 0    what was asked is done, whole: rows are there, copies and exports are right
//!   else      a message, no panic, no signal; the store opens, `check` finds nothing, and it holds what it held before and
//!             a prefix of what was written; a copy or export that was not finished is not taken for one
//! ```
//!
//! A sync that fails with EIO must not end in exit 0, unless the file is one that nobody needs. One that fails with ENOSPC may:
//! the store gives up its reserve and writes a new file in the place of that one, which is removed, or leaves a file of
//! values, all of them synced before, without its footer; the directory is synced once more. All cases are drawn up
//! beforehand, from a run of each command in which nothing fails, and done in an order that `ESKER_SEED` draws, for
//! `ESKER_SOAK_SECONDS`, in `ESKER_SOAK_DIR`; `ESKER_FAULT` names one alone, as printed.

#![cfg(target_os = "linux")]
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use esker::{Db, ErrorKind, Options, ScanRange};

use crate::support::{Rng, can_trace};

type Outcome<T> = Result<T, String>;
type Rows = BTreeMap<Vec<u8>, Vec<u8>>;

/// Kinds of calls, and the errors that they may have.
const CALLS: &[(&str, &[&str])] = &[
    ("openat", &["EIO", "EMFILE", "ENOSPC"]),
    ("read", &["EIO"]),
    ("pread64", &["EIO"]),
    ("preadv", &["EIO"]),
    ("preadv2", &["EIO"]),
    ("write", &["EIO", "ENOSPC"]),
    ("pwrite64", &["EIO", "ENOSPC"]),
    ("pwritev", &["EIO", "ENOSPC"]),
    ("pwritev2", &["EIO", "ENOSPC"]),
    ("copy_file_range", &["EIO", "ENOSPC"]),
    ("fsync", &["EIO", "ENOSPC"]),
    ("fdatasync", &["EIO", "ENOSPC"]),
    ("msync", &["EIO"]),
    ("sync_file_range", &["EIO"]),
    ("fallocate", &["EIO", "ENOSPC", "EOPNOTSUPP"]),
    ("ftruncate", &["EIO", "ENOSPC"]),
    ("rename", &["EIO", "ENOSPC"]),
    ("renameat", &["EIO", "ENOSPC"]),
    ("renameat2", &["EIO", "ENOSPC"]),
    ("unlink", &["EIO"]),
    ("unlinkat", &["EIO"]),
    ("rmdir", &["EIO"]),
    ("link", &["EIO", "ENOSPC", "EMLINK"]),
    ("linkat", &["EIO", "ENOSPC", "EMLINK"]),
    ("mkdir", &["EIO", "ENOSPC"]),
    ("mkdirat", &["EIO", "ENOSPC"]),
    ("getdents64", &["EIO"]),
    ("statx", &["EIO"]),
    ("newfstatat", &["EIO"]),
    ("fstat", &["EIO"]),
    ("lseek", &["EIO"]),
    ("fstatfs", &["EIO", "ENOSYS"]),
    ("statfs", &["EIO", "ENOSYS"]),
    ("flock", &["ENOLCK", "EINTR"]),
    ("ioctl", &["EIO", "EOPNOTSUPP"]),
    ("clone3", &["EAGAIN"]),
];

/// Those whose failure must be told: what they make durable may be lost. (`sync_file_range` only begins what a later sync ends.)
const SYNCS: [&str; 3] = ["fsync", "fdatasync", "msync"];

/// Files that hold nothing that anybody would miss: space set aside for a full disk, and the manifest's copy, which is made
/// again later. The store goes on without.
const SPARE: [&str; 3] = ["/RESERVE>", ".copy>", ".copy.tmp>"];

/// What a command works on.
#[derive(Clone, Copy, PartialEq, Eq)]
enum On {
    Nothing,
    Store,
}

/// What must come of it.
#[derive(Clone, Copy)]
enum Promise {
    /// The writes of [`Fixture::writes`], in order, as far as they came.
    Writes,
    /// The same of rows that are imported.
    Import,
    /// One change, which the function makes of the rows.
    Change(fn(&mut Rows)),
    /// Nothing changes, and the output is as always.
    Output,
    /// Nothing changes, and this file is as always, or absent where the command failed.
    File(&'static str),
    /// Nothing changes, and this directory is a store with the same rows, or none where the command failed.
    Copy(&'static str),
    /// Nothing changes, and a backup made afterwards, or by this, can be restored.
    Backup,
    /// The tree "imported" has the rows of the fixture's export, or is absent.
    Tree,
    /// Nothing changes.
    Nothing,
}

struct Workload {
    name: &'static str,
    on: On,
    arguments: &'static [&'static str],
    promise: Promise,
}

const fn of(name: &'static str, on: On, arguments: &'static [&'static str], promise: Promise) -> Workload {
    Workload { name, on, arguments, promise }
}

fn put_one(rows: &mut Rows) {
    rows.insert(b"key 7".to_vec(), b"new".to_vec());
}

fn put_file(rows: &mut Rows) {
    rows.insert(b"huge".to_vec(), huge());
}

fn delete_one(rows: &mut Rows) {
    rows.remove(&b"k003"[..]);
}

fn move_one(rows: &mut Rows) {
    if let Some(value) = rows.remove(&b"k007"[..]) {
        rows.insert(b"moved".to_vec(), value);
    }
}

fn append_one(rows: &mut Rows) {
    rows.entry(b"k011".to_vec()).or_default().extend(b"more");
}

fn huge() -> Vec<u8> {
    (0..200_000_u32).flat_map(u32::to_le_bytes).take(200_000).collect()
}

const WORKLOADS: &[Workload] = &[
    of("run-new", On::Nothing, &["run", "../commands"], Promise::Writes),
    of("run", On::Store, &["run", "../commands"], Promise::Writes),
    of("put", On::Store, &["put", "key 7", "new"], Promise::Change(put_one)),
    of("put-new", On::Nothing, &["put", "key 7", "new"], Promise::Change(put_one)),
    of("put-file", On::Store, &["put", "huge", "--file", "../huge"], Promise::Change(put_file)),
    of("delete", On::Store, &["delete", "k003"], Promise::Change(delete_one)),
    of("mv", On::Store, &["mv", "k007", "moved"], Promise::Change(move_one)),
    of("merge", On::Store, &["merge", "k011", "--append", "more"], Promise::Change(append_one)),
    of("import", On::Store, &["import", "../rows.jsonl"], Promise::Import),
    of("compact", On::Store, &["compact"], Promise::Nothing),
    of("get", On::Store, &["get", "k007"], Promise::Output),
    of("scan", On::Store, &["scan"], Promise::Output),
    of("count", On::Store, &["count"], Promise::Output),
    of("check", On::Store, &["check"], Promise::Output),
    of("export", On::Store, &["export", "out.jsonl"], Promise::File("out.jsonl")),
    of("checkpoint", On::Store, &["checkpoint", "copy"], Promise::Copy("copy")),
    of("export-tree", On::Store, &["export-tree", "copy"], Promise::Copy("copy")),
    of("import-tree", On::Store, &["import-tree", "../exported", "--tree", "imported"], Promise::Tree),
    of("backup", On::Store, &["backup", "backups"], Promise::Backup),
    of("restore", On::Store, &["restore", "../backups", "copy"], Promise::Copy("copy")),
    of("repair", On::Store, &["repair"], Promise::Nothing),
];

/// What all cases begin with: made once.
struct Fixture {
    dir: PathBuf,
    rows: Rows,
    /// Those of `run`.
    writes: Vec<(Vec<u8>, Option<Vec<u8>>)>,
    imported: Vec<(Vec<u8>, Vec<u8>)>,
    outputs: BTreeMap<&'static str, Vec<u8>>,
    files: BTreeMap<&'static str, Vec<u8>>,
}

/// What a run of the program gave.
struct Run {
    code: Option<i32>,
    out: Vec<u8>,
    errors: String,
    /// Whether a call failed.
    injected: bool,
    /// What strace saw.
    trace: String,
}

#[derive(Clone)]
struct Case {
    workload: usize,
    call: &'static str,
    error: &'static str,
    nth: usize,
    forever: bool,
}

impl Case {
    /// As ESKER_FAULT takes it.
    fn name(&self) -> String {
        let Case { workload, call, error, nth, forever } = self;
        let more = if *forever { "+" } else { "" };
        format!("{}:{call}:{error}:{nth}{more}", WORKLOADS[*workload].name)
    }
}

fn value(number: usize) -> Vec<u8> {
    let len = if number % 60 == 30 { 40_000 } else { number * 37 % 700 };
    format!("{number}-{}", "x".repeat(len)).into_bytes()
}

fn options() -> Options {
    Options::default().memory_budget(16 << 20)
}

/// What the store in `dir` holds; `None` where there is none.
fn rows(dir: &Path, tree: &str) -> Outcome<Option<Rows>> {
    let db = match Db::open(dir, options().create(false)) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        opened => opened.map_err(|error| format!("the store does not open: {error}"))?,
    };
    let rows = match db.open_tree(tree).map_err(|error| error.to_string())? {
        Some(tree) => {
            let scan = tree.scan(ScanRange::all()).map_err(|error| error.to_string())?;
            Some(scan.collect::<esker::Result<Rows>>().map_err(|error| format!("a scan: {error}"))?)
        }
        None => None,
    };
    db.close().map_err(|error| format!("closing: {error}"))?;
    Ok(rows)
}

fn esker(dir: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new("timeout");
    command
        .arg("60")
        .arg(env!("CARGO_BIN_EXE_esker"))
        .args(["--db", "store", "--memory", "16M"])
        .args(arguments);
    command
        .current_dir(dir)
        .stdin(Stdio::null())
        .env_remove("ESKER_DB")
        .env_remove("RUST_BACKTRACE")
        .env("LC_ALL", "C");
    command
}

fn succeed(command: &mut Command) -> Vec<u8> {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}

fn copy_dir(from: &Path, to: &Path) {
    std::fs::create_dir(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        std::fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
    }
}

impl Fixture {
    fn new(dir: &Path) -> Fixture {
        let mut fixture = Fixture {
            dir: dir.to_path_buf(),
            rows: Rows::new(),
            writes: Vec::new(),
            imported: Vec::new(),
            outputs: BTreeMap::new(),
            files: BTreeMap::new(),
        };
        let mut commands = Vec::new();
        for number in 0..240 {
            let key = format!("k{:03}", number * 7 % 90).into_bytes();
            let value = (number % 9 != 4).then(|| value(number));
            match &value {
                Some(value) => commands.extend([b"PUT ", &key[..], b" ", &value[..], b"\n"].concat()),
                None => commands.extend([b"DELETE ", &key[..], b"\n"].concat()),
            }
            fixture.writes.push((key, value));
        }
        std::fs::write(dir.join("commands"), commands).unwrap();
        let mut lines = String::new();
        for number in 0..200 {
            let (key, value) =
                (format!("i{number:03}"), format!("{number}-{}", "y".repeat(number * 31 % 500)));
            lines.push_str(&format!("{{\"key\":\"{key}\",\"value\":\"{value}\"}}\n"));
            fixture.imported.push((key.into_bytes(), value.into_bytes()));
        }
        std::fs::write(dir.join("rows.jsonl"), lines).unwrap();
        std::fs::write(dir.join("huge"), huge()).unwrap();
        fixture.make_store();
        fixture
    }

    /// Some of it in tables, in blob files, and in the log; and what is made from it.
    fn make_store(&mut self) {
        let dir = self.dir.clone();
        for number in 0..120 {
            self.rows.insert(format!("k{:03}", number % 100).into_bytes(), value(number + 1_000));
        }
        let half = |from: usize, to: usize| -> String {
            let line = |number: usize| {
                let value = String::from_utf8(value(number + 1_000)).unwrap();
                format!("PUT k{:03} {value}\n", number % 100)
            };
            (from..to).map(line).collect()
        };
        std::fs::write(dir.join("first"), half(0, 60)).unwrap();
        std::fs::write(dir.join("second"), half(60, 120)).unwrap();
        succeed(&mut esker(&dir, &["run", "first"]));
        succeed(&mut esker(&dir, &["compact"]));
        succeed(&mut esker(&dir, &["run", "second"]));
        succeed(&mut esker(&dir, &["backup", "backups"]));
        succeed(&mut esker(&dir, &["export-tree", "exported"]));
        assert_eq!(rows(&dir.join("store"), "default").unwrap().unwrap(), self.rows);
    }

    /// An empty directory for one case, with what its command works on.
    fn prepare(&self, name: &str, workload: &Workload) -> PathBuf {
        let dir = self.dir.join(name);
        std::fs::create_dir(&dir).unwrap();
        if workload.on == On::Store {
            copy_dir(&self.dir.join("store"), &dir.join("store"));
        }
        dir
    }

    /// Runs each command as it is, and draws up the cases.
    fn cases(&mut self) -> Vec<Case> {
        let mut cases = Vec::new();
        let calls: Vec<&str> = CALLS.iter().map(|(call, _)| *call).collect();
        for (at, workload) in WORKLOADS.iter().enumerate() {
            let dir = self.prepare(&format!("plain-{at}"), workload);
            let (run, trace) =
                trace(&dir, &["-e".to_owned(), format!("trace={}", calls.join(","))], workload);
            assert_eq!(run.code, Some(0), "{}: {}", workload.name, run.errors);
            self.outputs.insert(workload.name, run.out);
            if let Promise::File(name) = workload.promise {
                self.files.insert(workload.name, std::fs::read(dir.join(name)).unwrap());
            }
            // Calls are counted for each thread by itself.
            let mut counts: BTreeMap<(&str, &str), usize> = BTreeMap::new();
            for line in trace.lines() {
                let Some((thread, rest)) = line.split_once(' ') else { continue };
                let Some((call, _)) = rest.trim_start().split_once('(') else { continue };
                *counts.entry((call, thread)).or_default() += 1;
            }
            for &(call, errors) in CALLS {
                let most = counts.iter().filter(|((of, _), _)| *of == call).map(|(_, count)| *count).max();
                for nth in 1..=most.unwrap_or(0) {
                    for &error in errors {
                        for forever in [false, true] {
                            cases.push(Case { workload: at, call, error, nth, forever });
                        }
                    }
                }
            }
        }
        cases
    }

    fn judge(&self, case: &Case, run: &Run, dir: &Path) -> Outcome<()> {
        let workload = &WORKLOADS[case.workload];
        match run.code {
            None => return Err("it was ended by a signal".to_owned()),
            Some(124) => return Err("it hangs".to_owned()),
            // The dynamic linker's own calls.
            Some(127) => {}
            Some(0) if SYNCS.contains(&case.call) => {
                if let Some(line) = unsynced(&run.trace, case.error) {
                    return Err(format!("a sync failed, and nobody was told: {line}"));
                }
            }
            Some(0) => {}
            Some(code) if !(1..=3).contains(&code) => {
                return Err(format!("exit code {code}: {}", run.errors));
            }
            // Where all writes fail, what it says does too.
            Some(_) if case.call == "write" && case.forever => {}
            Some(_) if run.errors.trim().is_empty() && run.out.is_empty() => {
                return Err("it failed without a word".to_owned());
            }
            Some(_) => {}
        }
        if run.errors.contains("panicked") || run.errors.contains("internal error") {
            return Err(format!("a panic: {}", run.errors));
        }
        let is_done = run.code == Some(0);
        let store = dir.join("store");
        let found = rows(&store, "default")?;
        let before = if workload.on == On::Store { Some(&self.rows) } else { None };
        self.judge_rows(workload, is_done, found.as_ref(), before)?;
        self.judge_copies(workload, is_done, dir)?;
        if found.is_some() {
            let report = esker::check(&store, &options()).map_err(|error| format!("check: {error}"))?;
            if !report.findings.is_empty() {
                return Err(format!("check: {:?}", report.findings));
            }
        }
        match workload.promise {
            Promise::Output if is_done && run.out != self.outputs[workload.name] => {
                Err(format!("exit 0, and another output: {}", String::from_utf8_lossy(&run.out)))
            }
            _ => Ok(()),
        }
    }

    /// The store's rows are what they were, and as much of what was to be written as may be.
    fn judge_rows(
        &self,
        workload: &Workload,
        is_done: bool,
        found: Option<&Rows>,
        before: Option<&Rows>,
    ) -> Outcome<()> {
        let writes: Vec<(Vec<u8>, Option<Vec<u8>>)> = match workload.promise {
            Promise::Writes => self.writes.clone(),
            Promise::Import => {
                self.imported.iter().map(|(key, value)| (key.clone(), Some(value.clone()))).collect()
            }
            Promise::Change(change) => {
                let mut rows = before.cloned().unwrap_or_default();
                change(&mut rows);
                return match found {
                    Some(found) if *found == rows => Ok(()),
                    found if !is_done && found == before => Ok(()),
                    // It was created, and no more.
                    Some(found) if !is_done && before.is_none() && found.is_empty() => Ok(()),
                    _ => Err(format!("exit 0: {is_done}, and the change is not whole")),
                };
            }
            _ => Vec::new(),
        };
        let Some(found) = found else {
            return if before.is_none() && !is_done { Ok(()) } else { Err("the store is gone".to_owned()) };
        };
        let mut rows = before.cloned().unwrap_or_default();
        let mut fits = rows == *found;
        for (key, value) in writes {
            match value {
                Some(value) => drop(rows.insert(key, value)),
                None => drop(rows.remove(&key)),
            }
            fits |= !is_done && rows == *found;
        }
        if (is_done && rows == *found) || (!is_done && fits) {
            return Ok(());
        }
        Err(format!("exit 0: {is_done}, and its {} rows are no prefix of what was written", found.len()))
    }

    fn judge_copies(&self, workload: &Workload, is_done: bool, dir: &Path) -> Outcome<()> {
        match workload.promise {
            Promise::File(name) => match std::fs::read(dir.join(name)) {
                Ok(bytes) if bytes == self.files[workload.name] => Ok(()),
                Ok(bytes) => Err(format!("exit 0: {is_done}, and {name} has {} other bytes", bytes.len())),
                Err(_) if !is_done => Ok(()),
                Err(error) => Err(format!("exit 0, and {name}: {error}")),
            },
            Promise::Copy(name) => match rows(&dir.join(name), "default") {
                // Of a tree that was exported the name is kept, and it is the default one here.
                Ok(Some(found)) if found == self.rows => Ok(()),
                Ok(Some(found)) => {
                    Err(format!("exit 0: {is_done}, and the copy has {} other rows", found.len()))
                }
                Ok(None) | Err(_) if !is_done => Ok(()),
                Ok(None) => Err("exit 0, and there is no copy".to_owned()),
                Err(what) => Err(format!("exit 0, and the copy: {what}")),
            },
            Promise::Backup => {
                if !is_done {
                    succeed_or_tell(&mut esker(dir, &["backup", "backups"]))?;
                }
                succeed_or_tell(&mut esker(dir, &["restore", "backups", "copy"]))?;
                let found = rows(&dir.join("copy"), "default")?;
                if found.as_ref() == Some(&self.rows) {
                    Ok(())
                } else {
                    Err("the backup has other rows".to_owned())
                }
            }
            Promise::Tree => match rows(&dir.join("store"), "imported")? {
                Some(found) if found == self.rows => Ok(()),
                Some(found) => Err(format!("exit 0: {is_done}, and the tree has {} other rows", found.len())),
                None if !is_done => Ok(()),
                None => Err("exit 0, and there is no tree".to_owned()),
            },
            _ => Ok(()),
        }
    }
}

fn succeed_or_tell(command: &mut Command) -> Outcome<()> {
    let output = command.output().map_err(|error| error.to_string())?;
    if output.status.success() {
        return Ok(());
    }
    Err(format!("afterwards {command:?}: {}", String::from_utf8_lossy(&output.stderr)))
}

/// A call in a trace.
struct Call<'a> {
    thread: &'a str,
    /// The first of its two lines, where it has two: that one names the file.
    line: &'a str,
    has_failed: bool,
}

impl Call<'_> {
    /// The file that it is about, as `-y` names it.
    fn path(&self) -> Option<&str> {
        self.line.split_once('<')?.1.split_once('>').map(|(path, _)| path)
    }

    fn is_sync(&self) -> bool {
        self.line.contains("sync(")
    }
}

/// The calls of a trace, in the order in which they ended.
fn calls(trace: &str) -> Vec<Call<'_>> {
    let mut calls = Vec::new();
    let mut begun = BTreeMap::new();
    for line in trace.lines() {
        let Some((thread, _)) = line.split_once(' ') else { continue };
        if line.contains("<unfinished ") {
            begun.insert(thread, line);
            continue;
        }
        let has_failed = line.ends_with("(INJECTED)");
        let line = if line.contains(" resumed>") { begun.remove(thread).unwrap_or(line) } else { line };
        calls.push(Call { thread, line, has_failed });
    }
    calls
}

/// A sync that failed and that somebody relies on.
fn unsynced<'a>(trace: &'a str, error: &str) -> Option<&'a str> {
    let calls = calls(trace);
    let is_spare = |at: usize| SPARE.iter().any(|name| calls[at].line.contains(name));
    let is_missed = |at: &usize| {
        calls[*at].has_failed && !is_spare(*at) && !(error == "ENOSPC" && is_made_up_for(&calls, *at))
    };
    (0..calls.len()).find(is_missed).map(|at| calls[at].line)
}

/// Whether nobody relies on a sync that found no room. The file is gone, or it holds values, each of which was synced
/// before; a directory's was for the reserve that its thread had just made there, or for a log segment that a thread of the
/// background made ready ahead, which is not used then, or was done once more by that thread.
fn is_made_up_for(calls: &[Call<'_>], at: usize) -> bool {
    let failed = &calls[at];
    let Some(path) = failed.path() else { return false };
    if !Path::new(path).is_dir() {
        return path.ends_with(".blob") || !Path::new(path).exists();
    }
    let is_own = |call: &&Call<'_>| call.thread == failed.thread;
    let made = calls[..at].iter().filter(is_own).rfind(|call| call.line.contains("|O_CREAT|"));
    let is_of_background = calls.first().is_some_and(|main| main.thread != failed.thread);
    let is_spare = |made: &Call<'_>| {
        made.line.contains("\"RESERVE\"") || (is_of_background && made.line.contains("\"wal-"))
    };
    let mut later = calls[at + 1..].iter().filter(is_own).filter(|call| call.is_sync() && !call.has_failed);
    made.is_some_and(is_spare) || later.any(|call| call.path() == Some(path))
}

/// Runs a command below strace; what strace saw comes out too.
fn trace(dir: &Path, what: &[String], workload: &Workload) -> (Run, String) {
    let program = esker(dir, workload.arguments);
    let mut command = Command::new("timeout");
    command.args(["60", "strace", "-f", "-y", "--seccomp-bpf", "-q", "-o", "trace"]).args(what).arg("--");
    // Below strace it has no time-out of its own: that would be traced too.
    command.args(program.get_args().skip(1)).current_dir(dir).stdin(Stdio::null());
    command.env_remove("ESKER_DB").env_remove("RUST_BACKTRACE").env("LC_ALL", "C");
    let output = command.output().unwrap();
    let trace = std::fs::read_to_string(dir.join("trace")).unwrap_or_default();
    let run = Run {
        code: output.status.code(),
        out: output.stdout,
        errors: String::from_utf8_lossy(&output.stderr).into_owned(),
        injected: trace.contains("(INJECTED)"),
        trace: trace.clone(),
    };
    (run, trace)
}

/// In a random order in which each kind of call has its turn, however many calls of others there are.
fn shuffle(cases: Vec<Case>, seed: u64) -> Vec<Case> {
    let mut rng = Rng::new(seed);
    let mut by_call: BTreeMap<&str, Vec<Case>> = BTreeMap::new();
    for case in cases {
        by_call.entry(case.call).or_default().push(case);
    }
    let mut shuffled = Vec::new();
    while !by_call.is_empty() {
        for left in by_call.values_mut() {
            shuffled.push(left.swap_remove(rng.index(left.len())));
        }
        by_call.retain(|_, left| !left.is_empty());
    }
    shuffled
}

#[test]
fn calls_of_the_real_program_fail() {
    if !can_trace("calls_of_the_real_program_fail") {
        return;
    }
    let ground = std::env::var_os("ESKER_SOAK_DIR").map(PathBuf::from);
    let root = tempfile::tempdir_in(ground.unwrap_or_else(|| env!("CARGO_TARGET_TMPDIR").into())).unwrap();
    let mut fixture = Fixture::new(root.path());
    let mut cases = fixture.cases();
    let all = cases.len();
    cases = shuffle(cases, test_kit::seed(1));
    if let Ok(name) = std::env::var("ESKER_FAULT") {
        cases.retain(|case| case.name().contains(&name));
        assert!(!cases.is_empty(), "no case is called {name}");
    }
    let end = Instant::now() + test_kit::duration(Duration::from_secs(15));
    let next = AtomicUsize::new(0);
    let (done, hit, failed) = (AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0));
    let found = std::sync::Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..2 {
            let (fixture, cases, next, done, hit, failed, found) =
                (&fixture, &cases, &next, &done, &hit, &failed, &found);
            scope.spawn(move || {
                loop {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    let Some(case) = cases.get(at) else { return };
                    if Instant::now() >= end {
                        return;
                    }
                    let workload = &WORKLOADS[case.workload];
                    let dir = fixture.prepare(&format!("case-{at}"), workload);
                    let Case { call, error, nth, forever, .. } = case;
                    let more = if *forever { "+" } else { "" };
                    let inject = format!("inject={call}:error={error}:when={nth}{more}");
                    // What a directory's sync is for is seen by what was made in it.
                    let made = if SYNCS.contains(call) { ",openat" } else { "" };
                    let what = ["-e".to_owned(), format!("trace={call}{made}"), "-e".to_owned(), inject];
                    let (run, _) = trace(&dir, &what, workload);
                    done.fetch_add(1, Ordering::Relaxed);
                    hit.fetch_add(u64::from(run.injected), Ordering::Relaxed);
                    failed.fetch_add(u64::from(run.code != Some(0)), Ordering::Relaxed);
                    if let Err(why) = fixture.judge(case, &run, &dir) {
                        let said = format!("{why} (exit {:?}: {})", run.code, run.errors.trim());
                        found.lock().unwrap().push(format!("ESKER_FAULT={}: {said}", case.name()));
                    }
                    drop(std::fs::remove_dir_all(&dir));
                }
            });
        }
    });
    let (done, hit, failed) = (done.into_inner(), hit.into_inner(), failed.into_inner());
    println!("failing calls: {done} of {all} cases; a call failed in {hit}, the program said so in {failed}");
    let found = found.into_inner().unwrap();
    assert!(found.is_empty(), "{} findings:\n{}", found.len(), found.join("\n"));
}
