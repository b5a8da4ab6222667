//! `regions`: what it takes to make a large tree part of a store, to split it, and to move it to another store: time, and bytes
//! written.

use crate::args::Args;
use crate::data::{Values, key16};
use crate::process;
use crate::stores::Result;
use esker::{Db, Options, ScanRange};
use std::time::Instant;

const VALUE_BYTES: usize = 1000;

/// What one call is to take at most, however large the tree is.
const MS_MAX: f64 = 100.0;
const WRITTEN_MAX: u64 = 16 << 20;

/// Prints what `work` took; also returns whether that is within the limits.
fn timed<T>(what: &str, work: impl FnOnce() -> esker::Result<T>) -> Result<(T, bool)> {
    let (written, begun) = (process::written_bytes(), Instant::now());
    let done = work()?;
    let (ms, written) = (begun.elapsed().as_secs_f64() * 1e3, process::written_bytes() - written);
    println!("  {what:<44}{ms:>10.1} ms {:>10.3} MB written", written as f64 / 1e6);
    Ok((done, ms <= MS_MAX && written <= WRITTEN_MAX))
}

/// Prints what `work` took.
fn measure<T>(what: &str, work: impl FnOnce() -> esker::Result<T>) -> Result<T> {
    timed(what, work).map(|(done, _)| done)
}

/// Prints what the calls took that are to be short, and remembers those that were not.
#[derive(Default)]
struct Short {
    missed: Vec<String>,
}

impl Short {
    fn measure<T>(&mut self, what: &str, work: impl FnOnce() -> esker::Result<T>) -> Result<T> {
        let (done, is_short) = timed(what, work)?;
        self.missed.extend((!is_short).then(|| what.to_owned()));
        Ok(done)
    }
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let dir = args.dir.join("regions");
    std::fs::remove_dir_all(&dir).ok();
    std::fs::create_dir_all(&args.dir)?;
    let pairs = (args.n / (16 + VALUE_BYTES as u64)).max(2);
    println!("{pairs} pairs of 16 + {VALUE_BYTES} bytes");
    let (values, mut short) = (Values::new(args.seed, VALUE_BYTES), Short::default());
    let db = Db::open(&dir, Options::default())?;
    let tree = db.tree("bulk")?;
    let mut ingest = tree.ingest()?;
    measure("gathered for ingest", || {
        (0..pairs).try_for_each(|number| ingest.put(key16(number), values.get(number)))
    })?;
    short.measure("ingest: the end of the last table, and commit", || ingest.commit())?;
    for number in 0..1000 {
        tree.put(key16(number * (pairs / 1000).max(1)), values.get(number))?;
    }
    let (away, other) = (args.dir.join("regions-exported"), args.dir.join("regions-other"));
    for dir in [&away, &other] {
        std::fs::remove_dir_all(dir).ok();
    }
    short.measure("export, 1,000 pairs in memory", || db.export_tree("bulk", &away))?;
    let into = Db::open(&other, Options::default())?;
    let (imported, files) = short.measure("import into another store", || into.import_tree(&away, "bulk"))?;
    println!(
        "  {} files, {} MB, {} of them copied",
        files.files,
        files.bytes / 1_000_000,
        files.copied_files
    );
    let counted = measure("a count of all of it there", || imported.count(ScanRange::all()))?;
    if counted != pairs {
        return Err(format!("{counted} pairs were imported").into());
    }
    drop(imported);
    measure("drop of it there", || into.drop_tree("bulk"))?;
    into.close()?;
    let right = short.measure("split in the middle, 1,000 pairs in memory", || {
        db.split(&tree, key16(pairs / 2), "right")
    })?;
    short.measure("split of the second half", || db.split(&right, key16(pairs / 4 * 3), "last"))?;
    let counted = measure("a count of the second quarter", || right.count(ScanRange::all()))?;
    if counted != pairs / 4 * 3 - pairs / 2 {
        return Err(format!("{counted} pairs").into());
    }
    measure("drop of it", || db.drop_tree("right"))?;
    db.close()?;
    [&dir, &away, &other].into_iter().try_for_each(std::fs::remove_dir_all)?;
    if !short.missed.is_empty() {
        return Err(
            format!("more than {MS_MAX} ms or {WRITTEN_MAX} bytes written: {:?}", short.missed).into()
        );
    }
    println!("each call within {MS_MAX} ms and {WRITTEN_MAX} bytes written");
    Ok(())
}
