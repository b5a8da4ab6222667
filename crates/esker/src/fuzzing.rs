//! Decoders that `fuzz/` can call. They exist only with `--cfg fuzzing`, which `cargo fuzz` sets, and are not part of
//! the interface.
//!
//! The fuzzer reaches bytes that a checksum protects in two ways. Either a decoder gets a payload as if its checksum
//! had passed, or a sound file is changed in a few places and its checksums are corrected. The fuzzer's bytes are read
//! front to back as choices; when they end, nothing more is changed.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use crate::checksum::checksum;
use crate::codec::Decoder;
use crate::cursor::{Content, MAX_SEQ};
use crate::db::Db;
use crate::env::{Clock, Env, JobKind, Random, StepExecutor};
use crate::error::Result;
use crate::fs::FileSystem;
use crate::fs::sim::SimFs;
use crate::log::replay::{LogFloor, Segments, Visited};
use crate::operators::{self, Below, MergeOperators};
use crate::options::{Compression, Options, TreeOptions};
use crate::read::range::ScanRange;
use crate::version::edit::{Edit, ManifestState};
use crate::version::manifest::{read_manifest, read_remains};
use crate::write::batch::{Batch, Ops, numbers_taken};
use crate::{admin, blob, log, table};

const STORE: &str = "/store";
const BACKUPS: &str = "/backups";

/// A clock that moves only during sleeps.
#[derive(Debug, Default)]
struct Hand(AtomicU64);

impl Clock for Hand {
    fn wall_us(&self) -> u64 {
        1_700_000_000_000_000 + self.monotonic_us()
    }

    fn monotonic_us(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    fn sleep(&self, duration: Duration) {
        self.0.fetch_add(duration.as_micros() as u64, Ordering::Relaxed);
    }
}

/// Numbers that are the same in each run.
#[derive(Debug)]
struct Count(AtomicU64);

impl Random for Count {
    fn next_u64(&self) -> u64 {
        checksum(9, &self.0.fetch_add(1, Ordering::Relaxed).to_le_bytes())
    }
}

/// An environment on `disk` that is the same in each run: its clock stands still, and background work is done on
/// request.
pub fn world(disk: &SimFs) -> Env {
    Env {
        fs: Arc::new(disk.clone()),
        clock: Arc::new(Hand::default()),
        random: Arc::new(Count(AtomicU64::new(disk.operations()))),
        executor: Some(Arc::new(StepExecutor)),
    }
}

/// Options for a store on `disk` that is as small as possible.
pub fn small_options(disk: &SimFs) -> Options {
    let mut options = Options::default().env(world(disk)).memory_budget(8 << 20);
    options.memtable_bytes = Some(4 << 10);
    options.table_bytes = 8 << 10;
    options.block_bytes = 256;
    options.separate_at = 300;
    options.blob_file_bytes = 4 << 10;
    options
}

/// Does all background work that is due.
pub fn settle(db: &Db) {
    while JobKind::ALL.iter().any(|&job| db.step(job)) {}
}

/// A small store with every kind of content, and a backup of it.
fn base() -> &'static SimFs {
    static BASE: OnceLock<SimFs> = OnceLock::new();
    BASE.get_or_init(|| match make_base() {
        Ok(disk) => disk,
        Err(error) => panic!("the store to begin with: {error}"),
    })
}

fn make_base() -> Result<SimFs> {
    let disk = SimFs::new(1);
    disk.set_writeback(0.0);
    let db = Db::open(STORE, small_options(&disk))?;
    let packed = db.create_tree("packed", TreeOptions::default().compression(Compression::Lz4))?;
    for round in 0..3_u32 {
        for i in 0..40 {
            packed.put(format!("key{i:03}"), format!("{round}").repeat(30))?;
        }
        db.put(format!("huge{round}"), [round as u8; 400])?;
        packed.add(format!("sum{round}"), i64::from(round))?;
        packed.put_for(format!("soon{round}"), "gone", Duration::from_secs(60))?;
        db.flush()?;
        settle(&db);
    }
    db.default_tree().put_from("stream", &[7; 5000][..])?;
    db.default_tree().copy("huge1", "copy")?;
    db.delete("huge0")?;
    packed.delete_range("key030"..)?;
    db.compact()?;
    settle(&db);
    db.backup(BACKUPS)?;
    // These writes stay in the log.
    let mut batch = Batch::new();
    batch.put(&packed, "a", "1")?;
    batch.delete(&packed, "key001")?;
    batch.delete_range(&packed, ScanRange::prefix("key01"))?;
    batch.put(db.default_tree(), "late", [9; 500])?;
    db.write(&batch)?;
    packed.append("a", "2")?;
    db.sync()?;
    // The store is killed, not closed. Only the written part of the log is kept, which makes runs faster.
    let disk = disk.kill();
    for path in disk.paths().iter().filter(|path| path.to_string_lossy().contains("wal-")) {
        let bytes = disk.read_all(path)?;
        let written = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last as u64 + 1);
        disk.truncate(path, written.next_multiple_of(4096))?;
    }
    Ok(disk)
}

/// The files of the base in `dir` whose names contain `part`.
fn files(dir: &str, part: &str) -> Vec<PathBuf> {
    let is_one = |path: &PathBuf| path.starts_with(dir) && path.to_string_lossy().contains(part);
    base().paths().into_iter().filter(is_one).collect()
}

/// One of `files`, chosen by the next byte.
fn pick(input: &mut Decoder<'_>, files: &[PathBuf]) -> Option<PathBuf> {
    files.get(usize::from(input.u8()?) % files.len().max(1)).cloned()
}

/// Changes `bytes` by the choices in `input`, in up to `changes` places.
fn change(bytes: &mut Vec<u8>, input: &mut Decoder<'_>, changes: u8) {
    for _ in 0..changes {
        let (Some(how), Some(place)) = (input.u8(), input.u32()) else { return };
        // Most of a file's structure is in its first pages and at its end.
        let reach = if how & 8 == 0 { bytes.len() } else { bytes.len().min(8192) };
        let at = place as usize % reach.max(1);
        let at = if how & 16 == 0 { at } else { bytes.len().saturating_sub(at + 1) };
        let new = input.bytes(usize::from(how >> 5) + 1).unwrap_or_default();
        match how & 7 {
            0 => bytes.truncate(at),
            1 => drop(bytes.splice(at..at, new.iter().copied())),
            2 => drop(bytes.drain(at..(at + usize::from(how >> 5) + 1).min(bytes.len()))),
            _ => bytes.iter_mut().skip(at).zip(new).for_each(|(old, new)| *old = *new),
        }
    }
}

/// Corrects the checksums of the file `path`.
fn mend(path: &Path, bytes: &mut [u8]) {
    match path.to_string_lossy() {
        name if name.contains("manifest") => log::fuzzing::mend_stream(bytes),
        name if name.contains("wal-") => log::fuzzing::mend_segment(bytes),
        name if name.ends_with(".table") => table::fuzzing::mend(bytes),
        name if name.ends_with(".blob") => blob::fuzzing::mend(bytes),
        name if name.contains("backup-") => mend_catalog(bytes),
        _ => {}
    }
}

fn mend_catalog(bytes: &mut [u8]) {
    // The last line: `sum`, a blank, 16 digits, a line feed.
    if let Some(at) = bytes.len().checked_sub(21) {
        let line = format!("sum {:016x}\n", checksum(0, &bytes[..at]));
        bytes[at..].copy_from_slice(line.as_bytes());
    }
}

/// Changes the file `path` on `disk`, and corrects its checksums if `mended`.
fn changed(disk: &SimFs, path: &Path, input: &mut Decoder<'_>, changes: u8, mended: bool) -> Result<()> {
    let mut bytes = disk.read_all(path)?;
    change(&mut bytes, input, changes);
    if mended {
        mend(path, &mut bytes);
    }
    disk.write_all(path, &bytes)
}

/// One changed file of the base, with correct checksums.
fn one_changed(input: &mut Decoder<'_>, part: &str) -> Option<(SimFs, PathBuf)> {
    let disk = base().fork();
    let path = pick(input, &files(STORE, part))?;
    changed(&disk, &path, input, 20, true).ok()?;
    Some((disk, path))
}

/// The payload of a log record.
pub fn batch(data: &[u8]) {
    let taken = numbers_taken(data, 7);
    let mut ops = 0;
    for op in Ops::of(data) {
        ops += 1;
        let content = Content::open(op.kind, op.value);
        assert!(content.value.len() <= op.value.len() && op.key.len() <= data.len());
        content.lives(|| 7);
        let _ = blob::Pointer::of_entry(op.kind, op.value);
    }
    assert!(taken.is_none_or(|taken| ops == 0 || taken == ops));
    assert!(numbers_taken(data, MAX_SEQ).is_none_or(|taken| taken <= data.len() as u64));
}

/// The payload of a manifest record, and the state it adds up to.
pub fn edits(data: &[u8]) {
    let Some(edits) = Edit::decode_all(data) else { return };
    assert_eq!(Edit::decode_all(&Edit::encode_all(&edits)).as_ref(), Some(&edits));
    let mut state = ManifestState::default();
    if edits.iter().all(|edit| state.apply(edit).is_ok()) {
        let mut again = ManifestState::default();
        for edit in state.to_edits() {
            assert_eq!(again.apply(&edit), Ok(()), "{edit:?}");
        }
    }
}

/// A manifest and its copy.
pub fn manifest(data: &[u8]) {
    let mut input = Decoder::new(data);
    let Some((disk, path)) = one_changed(&mut input, "manifest") else { return };
    let env = world(&disk);
    drop(read_manifest(&env, &path, 0));
    let mut damage = Vec::new();
    read_remains(&env, &files(STORE, "manifest"), u64::from(input.u32().unwrap_or(0)), &mut damage);
}

/// Segments of the log: replayed, salvaged, and cut into parts.
pub fn log(data: &[u8]) {
    let mut input = Decoder::new(data);
    let Some((disk, _)) = one_changed(&mut input, "wal-") else { return };
    let Ok(mut segments) = Segments::open(&disk, Path::new(STORE), files(STORE, "wal-")) else { return };
    let synced = u64::from(input.u32().unwrap_or(0));
    segments.manifest_synced(1);
    segments.last_manifest();
    let first = segments.newest_first().last().map(|(header, _)| *header);
    let floor =
        first.map_or(LogFloor::default(), |header| LogFloor { segment: header.id, start: header.start });
    let mut visit = |record: log::replay::Visit<'_>| {
        let taken = numbers_taken(record.payload, record.first_seq);
        Ok(taken.map_or(Visited::Nonsense, Visited::Taken))
    };
    drop(segments.replay(&disk, floor, synced, &mut visit));
    drop(segments.part(&disk, floor, 1));
    drop(segments.behind(&disk));
    let taken = |payload: &[u8], first| numbers_taken(payload, first).unwrap_or(0);
    drop(segments.salvage(&disk, segments.last_stretch(), &taken));
    segments.leave_out_repaired(None);
}

/// One part of a table, or all of one.
pub fn table(data: &[u8]) {
    let mut input = Decoder::new(data);
    let Some(part) = input.u8() else { return };
    if part >= 8 {
        return table::fuzzing::parts(part, input.rest());
    }
    let Some((disk, path)) = one_changed(&mut input, ".table") else { return };
    if let Ok(file) = disk.open_read(&path) {
        drop(table::fuzzing::read(&file));
    }
}

/// One part of a blob file, or all of one.
pub fn blob(data: &[u8]) {
    let mut input = Decoder::new(data);
    let Some(part) = input.u8() else { return };
    if part >= 8 {
        return blob::fuzzing::parts(part, input.rest());
    }
    let Some((disk, path)) = one_changed(&mut input, ".blob") else { return };
    let number = path.file_stem().and_then(|stem| stem.to_str()?.parse().ok()).unwrap_or(0);
    if let Ok(file) = disk.open_read(&path) {
        blob::fuzzing::read(&file, number);
    }
}

/// The stored operands of one key: any grouping must give the same value.
pub fn operands(data: &[u8]) {
    let mut input = Decoder::new(data);
    let operators = MergeOperators::default();
    let (mut newest_first, mut is_valid) = (Vec::new(), true);
    while let Some(stored) = input.slice() {
        let parts = operators::parts(stored);
        is_valid &= parts.is_some_and(|(name, operand)| operators.encode(name, operand).is_ok());
        newest_first.push((100 - newest_first.len() as u64, stored.to_vec()));
        if newest_first.len() == 50 {
            break;
        }
    }
    let value = |operands: &[(u64, Vec<u8>)]| {
        let operands: Vec<_> = operands.iter().map(|(_, operand)| operand).collect();
        operators.apply(b"key", None, &operands)
    };
    let combined = operators.combine(&newest_first, Below::Lasts);
    assert!(combined.len() <= newest_first.len());
    let (one, other) = (value(&newest_first), value(&combined));
    if is_valid {
        assert_eq!(one.ok(), other.ok());
    }
}

/// The catalogs of a directory of backups, and a restore from it.
pub fn catalog(data: &[u8]) {
    let mut input = Decoder::new(data);
    let disk = base().fork();
    let Some(path) = pick(&mut input, &files(BACKUPS, "/backup-")) else { return };
    if changed(&disk, &path, &mut input, 10, true).is_err() {
        return;
    }
    let before = disk.paths();
    let options = small_options(&disk);
    drop(admin::backups(BACKUPS, &options));
    let restored = admin::restore(BACKUPS, None, "/restored", &options);
    assert!(disk.paths().iter().all(|path| before.contains(path) || path.starts_with("/restored")));
    if restored.is_ok() {
        visit("/restored", &options);
    }
    drop(admin::forget_backups(BACKUPS, 1, &options));
    // The restore touches nothing outside the directory, regardless of the names in a catalog.
    assert!(files(STORE, "").iter().all(|path| disk.read_all(path).is_ok()));
}

/// A store with some changed files: it is checked, dumped, opened, repaired.
pub fn store(data: &[u8]) {
    let mut input = Decoder::new(data);
    let disk = base().fork();
    let all = files(STORE, "");
    let Some(mode) = input.u8() else { return };
    for _ in 0..=mode % 3 {
        let Some(path) = pick(&mut input, &all) else { return };
        let changes = input.u8().unwrap_or(0) % 8;
        if changed(&disk, &path, &mut input, changes, mode & 4 != 0).is_err() {
            return;
        }
    }
    let options = small_options(&disk);
    if mode & 8 != 0 {
        for path in &all {
            drop(admin::dump(path, |_| true, &options));
        }
        drop(admin::check(STORE, &options));
    }
    if mode & 16 != 0 {
        visit(STORE, &options);
    }
    if admin::repair(STORE, &options).is_ok() {
        let opened = visit(STORE, &options);
        // Without a sound manifest and without contents, it is not a store.
        assert!(opened || mode & 4 != 0, "a repaired store does not open");
    }
}

/// Opens a store, reads all of it, writes to it and closes it. `false` if it cannot be opened.
fn visit(dir: &str, options: &Options) -> bool {
    let Ok(db) = Db::open(dir, options.clone()) else { return false };
    for name in db.tree_names() {
        let Ok(Some(tree)) = db.open_tree(&name) else { continue };
        if let Ok(scan) = tree.scan(ScanRange::all()) {
            scan.take_while(Result::is_ok).take(10_000).for_each(drop);
        }
        drop(tree.get_vec("key005"));
        drop(tree.put("new", [1; 350]));
        drop(tree.delete("key007"));
    }
    drop(db.flush());
    settle(&db);
    drop(db.compact());
    settle(&db);
    drop(db.close());
    true
}
