//! The clients: they share a store, and say what they do.

use std::fmt::Write as _;
use std::io::Write as _;
use std::ops::Range;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Barrier};
use std::time::Duration;

use esker::{Batch, Db, ErrorKind, Isolation, Options, ScanRange, Tree, TxnMode, TxnOptions};
use test_kit::Rng;

use crate::Failed;

/// Keys of a history.
const KEYS: u64 = 4;
/// Clients at once.
const CLIENTS: u64 = 4;
/// Operations of each client, in each process that has a part in a history.
const OPERATIONS: u64 = 8;

/// One thing to do. A value is a number that no other operation writes; 0 stands for none.
#[derive(Debug, Clone, Copy)]
enum Op {
    Get(u64),
    Put(u64, u64),
    Delete(u64),
    Swap {
        key: u64,
        expected: u64,
        new: u64,
    },
    /// All keys at one moment, by a scan or by gets.
    All {
        scan: bool,
    },
    Batch([(u64, u64); 2]),
    /// Reads one key and writes two.
    Txn {
        mode: TxnMode,
        read: u64,
        writes: [(u64, u64); 2],
    },
}

/// What came of it.
enum Came {
    Done,
    Read(Vec<(u64, u64)>),
    Swapped(bool),
    /// It has not happened.
    Not,
}

struct Store {
    db: Db,
    tree: Tree,
    history: u64,
    /// The last number given to an operation of the process, which are also the values.
    last: AtomicU64,
}

fn now() -> u64 {
    // One clock for all processes.
    let mut time = Timespec { seconds: 0, nanoseconds: 0 };
    // SAFETY: it fills in the struct, which has the layout that it expects on 64-bit Linux.
    unsafe { clock_gettime(1, &raw mut time) };
    time.seconds as u64 * 1_000_000_000 + time.nanoseconds as u64
}

#[repr(C)]
struct Timespec {
    seconds: i64,
    nanoseconds: i64,
}

unsafe extern "C" {
    fn clock_gettime(clock: i32, time: *mut Timespec) -> i32;
}

/// Writes a line at once, so that none is lost or cut where the process is killed.
fn say(line: &str) -> Result<(), Failed> {
    let line = format!("{line}\n");
    // Standard output has a buffer and a lock; the pipe takes a short line whole.
    use std::os::fd::AsFd;
    let pipe = std::io::stdout().as_fd().try_clone_to_owned()?;
    std::fs::File::from(pipe).write_all(line.as_bytes())?;
    Ok(())
}

/// Takes part in the `histories` until it is killed, or to the end.
pub(crate) fn run(dir: &Path, histories: Range<u64>, seed: u64) -> Result<(), Failed> {
    let mut options = Options::default().memory_budget(16 << 20);
    options.memtable_bytes = Some(64 << 10);
    options.table_bytes = 32 << 10;
    options.separate_at = 3000;
    let mut rng = Rng::new(seed);
    let mut db = Db::open(dir, options.clone())?;
    for history in histories {
        if rng.below(50) == 0 {
            db.close()?;
            drop(db);
            db = Db::open(dir, options.clone())?;
        }
        let tree = db.tree("t")?;
        // Numbers of operations begin anew for each process, apart from those of others.
        let last = AtomicU64::new(1 + (rng.next() >> 24 << 8));
        let store = Arc::new(Store { db: db.clone(), tree, history, last });
        let start = Arc::new(Barrier::new(CLIENTS as usize));
        let clients: Vec<_> = (0..CLIENTS)
            .map(|_| {
                let (store, start, rng) = (Arc::clone(&store), Arc::clone(&start), Rng::new(rng.next()));
                std::thread::spawn(move || {
                    start.wait();
                    client(&store, rng)
                })
            })
            .collect();
        for client in clients {
            client.join().map_err(|_| "a client panicked")??;
        }
    }
    db.close()?;
    Ok(())
}

fn client(store: &Arc<Store>, mut rng: Rng) -> Result<(), Failed> {
    let mut left_alone = Vec::new();
    let mut seen = 0;
    for _ in 0..OPERATIONS {
        let id = store.last.fetch_add(4, Ordering::Relaxed);
        let op = draw(&mut rng, id, seen);
        say(&format!(
            "{{\"h\":{},\"id\":{id},\"t\":{},\"e\":\"call\",{}}}",
            store.history,
            now(),
            described(op)
        ))?;
        // A client that stops waiting for a write never learns what came of it.
        if rng.below(40) == 0 && !matches!(op, Op::Get(_) | Op::All { .. }) {
            let store = Arc::clone(store);
            left_alone.push(std::thread::spawn(move || apply(&store, op).map(drop)));
            continue;
        }
        let came = apply(store, op)?;
        let time = now();
        let what = match &came {
            Came::Not => "\"e\":\"fail\"".to_owned(),
            Came::Done => "\"e\":\"ret\"".to_owned(),
            Came::Swapped(swapped) => format!("\"e\":\"ret\",\"ok\":{swapped}"),
            Came::Read(read) => format!("\"e\":\"ret\",\"r\":{}", pairs(read)),
        };
        if let Came::Read(read) = &came {
            seen = read.last().map_or(seen, |&(_, value)| value);
        }
        say(&format!("{{\"h\":{},\"id\":{id},\"t\":{time},{what}}}", store.history))?;
    }
    for other in left_alone {
        other.join().map_err(|_| "a client panicked")??;
    }
    Ok(())
}

fn draw(rng: &mut Rng, id: u64, seen: u64) -> Op {
    let key = rng.below(KEYS);
    let other = (key + 1 + rng.below(KEYS - 1)) % KEYS;
    let writes = [(key, id), (other, if rng.below(4) == 0 { 0 } else { id + 1 })];
    let mode = if rng.below(2) == 0 { TxnMode::Optimistic } else { TxnMode::Pessimistic };
    match rng.below(16) {
        0..=4 => Op::Get(key),
        5..=7 => Op::Put(key, id),
        8 => Op::Delete(key),
        9 | 10 => Op::Swap { key, expected: seen, new: id },
        11 => Op::All { scan: rng.below(2) == 0 },
        12 => Op::Batch(writes),
        _ => Op::Txn { mode, read: rng.below(KEYS), writes },
    }
}

fn pairs(pairs: &[(u64, u64)]) -> String {
    let mut text = "[".to_owned();
    for (i, (key, value)) in pairs.iter().enumerate() {
        // Writing to a string does not fail.
        let _ = write!(text, "{}[{key},{value}]", if i > 0 { "," } else { "" });
    }
    text + "]"
}

fn described(op: Op) -> String {
    match op {
        Op::Get(key) => format!("\"op\":\"get\",\"k\":{key}"),
        Op::Put(key, value) => format!("\"op\":\"write\",\"w\":{}", pairs(&[(key, value)])),
        Op::Delete(key) => format!("\"op\":\"write\",\"w\":{}", pairs(&[(key, 0)])),
        Op::Swap { key, expected, new } => {
            format!("\"op\":\"swap\",\"k\":{key},\"x\":{expected},\"w\":{}", pairs(&[(key, new)]))
        }
        Op::All { .. } => "\"op\":\"all\"".to_owned(),
        Op::Batch(writes) => format!("\"op\":\"write\",\"w\":{}", pairs(&writes)),
        Op::Txn { writes, .. } => format!("\"op\":\"txn\",\"w\":{}", pairs(&writes)),
    }
}

fn key_of(history: u64, key: u64) -> String {
    format!("{history:08}-{key}")
}

/// The bytes of a value, which say which one it is: few or many, some in a file of their own.
fn stored(value: u64) -> Vec<u8> {
    let mut bytes = format!("{value} ").into_bytes();
    let length = [0, 0, 0, 500, 1500, 5000][Rng::new(value).below(6) as usize];
    bytes.resize(bytes.len().max(length), b'.');
    bytes
}

fn read(value: Option<Vec<u8>>) -> Result<u64, Failed> {
    let Some(value) = value else { return Ok(0) };
    let digits = value.iter().position(|byte| *byte == b' ').ok_or("a value that nobody has written")?;
    Ok(std::str::from_utf8(&value[..digits])?.parse()?)
}

fn apply(store: &Store, op: Op) -> Result<Came, Failed> {
    let (tree, key_of) = (&store.tree, |key| key_of(store.history, key));
    match op {
        Op::Get(key) => Ok(Came::Read(vec![(key, read(tree.get_vec(key_of(key))?)?)])),
        Op::Put(key, value) => tree.put(key_of(key), stored(value)).map(|()| Came::Done).map_err(Into::into),
        Op::Delete(key) => tree.delete(key_of(key)).map(|()| Came::Done).map_err(Into::into),
        Op::Swap { key, expected, new } => swap(store, key, expected, new),
        Op::All { scan } => all(store, scan),
        Op::Batch(writes) => {
            let mut batch = Batch::new();
            for (key, value) in writes {
                match value {
                    0 => batch.delete(tree, key_of(key))?,
                    value => batch.put(tree, key_of(key), stored(value))?,
                }
            }
            store.db.write(&batch)?;
            Ok(Came::Done)
        }
        Op::Txn { mode, read, writes } => transact(store, mode, read, writes),
    }
}

fn swap(store: &Store, key: u64, expected: u64, new: u64) -> Result<Came, Failed> {
    let expected = (expected != 0).then(|| stored(expected));
    let swapped =
        store.tree.compare_and_swap(key_of(store.history, key), expected.as_deref(), Some(&stored(new)))?;
    Ok(Came::Swapped(swapped.is_done()))
}

fn all(store: &Store, scan: bool) -> Result<Came, Failed> {
    let mut found: Vec<(u64, u64)> = Vec::new();
    let keys: Vec<String> = (0..KEYS).map(|key| key_of(store.history, key)).collect();
    if scan {
        let mut values = vec![0; KEYS as usize];
        for pair in store.tree.scan(ScanRange::prefix(format!("{:08}-", store.history)))? {
            let (key, value) = pair?;
            let which = keys.iter().position(|known| known.as_bytes() == &key[..]).ok_or("a foreign key")?;
            values[which] = read(Some(value.to_vec()))?;
        }
        found.extend((0..KEYS).zip(values));
    } else {
        for (key, value) in (0..KEYS).zip(store.tree.get_many(&keys)?) {
            found.push((key, read(value.map(esker::Value::into_vec).transpose()?)?));
        }
    }
    Ok(Came::Read(found))
}

fn transact(store: &Store, mode: TxnMode, key: u64, writes: [(u64, u64); 2]) -> Result<Came, Failed> {
    let options = TxnOptions::default().mode(mode).isolation(Isolation::Serializable);
    let txn = store.db.begin(options.lock_timeout(Duration::from_millis(20)))?;
    let work = || -> esker::Result<Option<Vec<u8>>> {
        let found = txn.get_vec(&store.tree, key_of(store.history, key))?;
        for (key, value) in writes {
            let key = key_of(store.history, key);
            match value {
                0 => txn.delete(&store.tree, key)?,
                value => txn.put(&store.tree, key, stored(value))?,
            }
        }
        Ok(found)
    };
    let done = work().and_then(|found| txn.commit().map(|()| found));
    match done {
        Ok(found) => Ok(Came::Read(vec![(key, read(found)?)])),
        Err(error) if is_refusal(error.kind()) => Ok(Came::Not),
        Err(error) => Err(error.into()),
    }
}

/// Whether a transaction that failed so has not happened.
fn is_refusal(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::Conflict | ErrorKind::LockTimeout | ErrorKind::Deadlock)
}
