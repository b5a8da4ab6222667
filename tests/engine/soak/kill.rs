//! `kill -9` of the real process, in the middle of writing, opening, flushing and merging: every write
//! that it acknowledged is there afterwards, and what is there is a prefix of what it did.
//!
//! ```text
//! parent   spawn ------- wait for the k-th acknowledgement -- kill -- drain the pipe -- open, check ...
//! child         open -- write -- acknowledge -- write -- acknowledge -x
//! ```
//!
//! The child is this very program with a variable set. It tells its acknowledgements on its standard error,
//! one word each, after the call has returned; so what the parent reads is what was acknowledged.

use std::io::{Read, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use esker::{Batch, Db, Durability, ErrorKind, Options, Tree};

use test_kit::{Rng, seeds};

/// Names the directory for the child.
const CHILD: &str = "ESKER_KILL_CHILD";

/// Told by the child before it opens the store.
const STARTED: u64 = u64::MAX;

/// Writers, each with keys of its own in a tree of its own.
const WRITERS: usize = 3;

/// A writer's older keys are deleted when it is so many further.
const KEPT: u64 = 300;

fn options() -> Options {
    let mut options = Options::default().memory_budget(8 << 20);
    options.memtable_bytes = Some(64 << 10);
    options.table_bytes = 32 << 10;
    options
}

fn tree(db: &Db, writer: u64) -> Tree {
    db.tree(&format!("writer {writer}")).unwrap()
}

fn value(writer: u64, number: u64) -> Vec<u8> {
    let mut rng = Rng::new(writer << 32 | number);
    let len = if rng.one_in(100) { 100_000 } else { 10 + rng.below(1_000) };
    let mut bytes = number.to_le_bytes().to_vec();
    bytes.resize(8 + len as usize, number as u8);
    bytes
}

/// The number of the last write of a writer that is in the store; 0 for none.
fn last_written(tree: &Tree) -> u64 {
    let head = tree.get_vec("head").unwrap();
    head.map_or(0, |head| u64::from_le_bytes(head.try_into().unwrap()))
}

/// Write `number`: a new key, an old one deleted, and the number itself, whole or absent.
fn write(db: &Db, tree: &Tree, writer: u64, number: u64) {
    let mut batch = Batch::new();
    batch.put(tree, number.to_be_bytes(), value(writer, number)).unwrap();
    batch.put(tree, "head", number.to_le_bytes()).unwrap();
    if number > KEPT {
        batch.delete(tree, (number - KEPT).to_be_bytes()).unwrap();
    }
    let durability = if number.is_multiple_of(8) { Durability::Power } else { Durability::Process };
    db.write_with(&batch, durability).unwrap();
}

/// Is killed.
fn work(dir: &str) {
    let tell = |word: u64| std::io::stderr().write_all(&word.to_le_bytes()).unwrap();
    tell(STARTED);
    let db = Db::open(dir, options()).unwrap();
    std::thread::scope(|scope| {
        for writer in 0..WRITERS as u64 {
            let db = &db;
            scope.spawn(move || {
                let tree = tree(db, writer);
                for number in last_written(&tree) + 1.. {
                    write(db, &tree, writer, number);
                    tell(writer << 56 | number);
                }
            });
        }
    });
}

#[test]
fn the_child_that_is_killed() {
    if let Ok(dir) = std::env::var(CHILD) {
        work(&dir);
    }
}

fn spawn(dir: &Path) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "kill::the_child_that_is_killed", "--nocapture"])
        .env(CHILD, dir)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

/// Lets the child work until `words` of it have arrived, kills it, and notes what each writer was told.
fn kill_after(dir: &Path, words: u64, acknowledged: &mut [u64; WRITERS]) {
    let mut child = spawn(dir);
    let mut pipe = child.stderr.take().unwrap();
    let mut word = [0; 8];
    let mut seen = 0;
    while pipe.read_exact(&mut word).is_ok() {
        let word = u64::from_le_bytes(word);
        if word != STARTED {
            let writer = (word >> 56) as usize;
            assert!(writer < acknowledged.len(), "the child said something else: {word:#x}");
            let number = word & ((1 << 56) - 1);
            assert!(number > acknowledged[writer], "a number that was acknowledged before");
            acknowledged[writer] = number;
        }
        seen += 1;
        if seen == words {
            child.kill().unwrap();
        }
    }
    assert!(seen >= words, "the child ended by itself after {seen} words");
    child.wait().unwrap();
}

/// Everything acknowledged is there, at most one write more for each child that was killed since the last
/// look, and nothing in between is missing.
fn look(db: &Db, acknowledged: &mut [u64; WRITERS], children: u64) {
    for writer in 0..WRITERS as u64 {
        let Some(tree) = db.open_tree(&format!("writer {writer}")).unwrap() else {
            assert_eq!(acknowledged[writer as usize], 0, "a tree is gone");
            continue;
        };
        let last = last_written(&tree);
        let told = acknowledged[writer as usize];
        let possible = told..=told + children;
        assert!(possible.contains(&last), "writer {writer} was told {told}, the store holds {last}");
        let mut expected = (last.saturating_sub(KEPT) + 1)..=last;
        let mut scan = tree.scan(.."head").unwrap();
        while scan.advance().unwrap() {
            let number = expected.next().expect("a key too many");
            assert_eq!(scan.key(), number.to_be_bytes(), "a key of writer {writer}");
            assert!(
                scan.value().unwrap() == value(writer, number),
                "the value of {number} of writer {writer}"
            );
        }
        assert_eq!(expected.next(), None, "writer {writer} has lost a key");
        acknowledged[writer as usize] = last;
    }
}

#[test]
fn two_hundred_kills_lose_nothing() {
    for seed in seeds(4) {
        let mut rng = Rng::new(seed);
        let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let path = dir.path().join("store");
        let mut acknowledged = [0; WRITERS];
        println!("ESKER_SEED={seed}");
        let mut children = 0;
        for kill in 0..50 {
            // The first word comes before the store is opened: then the kill falls into opening.
            let words = if rng.one_in(4) { 1 + rng.below(4) } else { 1 + rng.below(600) };
            kill_after(&path, words, &mut acknowledged);
            children += 1;
            // Now and then the next child, not this process, is the first to open what the kill has left.
            if kill % 5 != 4 && rng.one_in(2) {
                continue;
            }
            let db = match Db::open(&path, options().create(false)) {
                // Killed before there was a store.
                Err(error) if error.kind() == ErrorKind::NotFound && acknowledged == [0; WRITERS] => continue,
                opened => opened.unwrap(),
            };
            look(&db, &mut acknowledged, children);
            children = 0;
            db.close().unwrap();
            drop(db);
            let report = esker::check(&path, &options()).unwrap();
            assert!(report.findings.is_empty(), "{:?}", report.findings);
        }
        println!("written: {acknowledged:?}");
    }
}
