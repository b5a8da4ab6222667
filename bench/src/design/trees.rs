//! `trees`: what thousands of trees cost. How long a store with them takes to open, with a log to replay and without;
//! memory and file descriptors, in processes that may have no more than 1,024 of these.

use crate::args::Args;
use crate::data::{Values, key16};
use crate::process;
use crate::stores::Result;
use esker::{Batch, Db, Options, ScanRange, Tree};
use std::process::Command;
use std::time::Instant;

const PAIRS_PER_TREE: u64 = 10;
const VALUE_BYTES: usize = 100;
/// The limit that most systems set where nobody asks for another.
const DESCRIPTORS_MAX: &str = "1024";

/// Each a process of its own, one after the other, on one store. An opening that replays leaves nothing to replay.
const STEPS: [&str; 3] = ["fill", "open with replay", "open without replay"];

pub(crate) fn run(args: &Args) -> Result<()> {
    if let Some(step) = &args.step {
        return one(args, step);
    }
    let dir = args.dir.join("trees");
    std::fs::remove_dir_all(&dir).ok();
    std::fs::create_dir_all(&args.dir)?;
    println!(
        "{} trees of {PAIRS_PER_TREE} pairs of 16 + {VALUE_BYTES} bytes, `ulimit -n {DESCRIPTORS_MAX}`",
        args.n
    );
    for step in STEPS {
        let status = Command::new("sh")
            .args(["-c", "ulimit -n \"$1\" && shift && exec \"$@\"", "sh", DESCRIPTORS_MAX])
            .arg(std::env::current_exe()?)
            .args(["trees", "--step", step])
            .args(args.words())
            .status()?;
        if !status.success() {
            return Err(format!("{step}: {status}").into());
        }
    }
    std::fs::remove_dir_all(&dir)?;
    Ok(())
}

fn name(i: u64) -> String {
    format!("tree {i:08}")
}

/// Prints what has become of memory and descriptors.
struct Watch {
    memory_before: u64,
    trees: u64,
}

impl Watch {
    fn start(trees: u64) -> Watch {
        Watch { memory_before: process::anon_bytes(), trees }
    }

    fn tell(&self, what: &str, seconds: f64) {
        let memory = process::anon_bytes().saturating_sub(self.memory_before);
        println!(
            "  {what:<44}{seconds:>8.3} s {:>8.1} MB {:>8.0} bytes a tree {:>6} descriptors",
            memory as f64 / 1e6,
            memory as f64 / self.trees as f64,
            process::open_descriptors()
        );
    }
}

/// Does one step in this process.
fn one(args: &Args, step: &str) -> Result<()> {
    println!("{step}");
    let path = args.dir.join("trees");
    let watch = Watch::start(args.n);
    let begun = Instant::now();
    let db = Db::open(&path, Options::default())?;
    watch.tell("opened", begun.elapsed().as_secs_f64());
    if step == STEPS[0] {
        fill(args, &db, &watch)?;
    } else {
        let stats = db.stats()?;
        let (records, files) = (stats.replayed_records, stats.table_files);
        let cached = stats.pool_bytes as f64 / 1e6;
        println!(
            "  {records} records replayed, {files} table files, {cached:.1} MB of blocks in the buffer pool"
        );
        if (records > 0) != (step == STEPS[1]) {
            return Err(format!("{records} records were replayed").into());
        }
        read_each(args, &db, &watch)?;
    }
    if step == STEPS[2] {
        put_into_each(&db, args, &watch)?;
    }
    let begun = Instant::now();
    db.close()?;
    println!("  closed in {:.3} s", begun.elapsed().as_secs_f64());
    Ok(())
}

fn fill(args: &Args, db: &Db, watch: &Watch) -> Result<()> {
    let values = Values::new(args.seed, VALUE_BYTES);
    let begun = Instant::now();
    let trees: Vec<Tree> = (0..args.n).map(|i| db.tree(&name(i))).collect::<esker::Result<_>>()?;
    watch.tell("trees created", begun.elapsed().as_secs_f64());
    let begun = Instant::now();
    let mut batch = Batch::new();
    for (i, tree) in (0..).zip(&trees) {
        batch.clear();
        for j in 0..PAIRS_PER_TREE {
            batch.put(tree, key16(j), values.get(i * PAIRS_PER_TREE + j))?;
        }
        db.write(&batch)?;
    }
    watch.tell("a batch put into each", begun.elapsed().as_secs_f64());
    Ok(())
}

fn read_each(args: &Args, db: &Db, watch: &Watch) -> Result<()> {
    let begun = Instant::now();
    let trees: Vec<Tree> = (0..args.n).map(|i| db.tree(&name(i))).collect::<esker::Result<_>>()?;
    watch.tell("a handle of each", begun.elapsed().as_secs_f64());
    let begun = Instant::now();
    for (i, tree) in (0..).zip(&trees) {
        if tree.get(key16(i % PAIRS_PER_TREE))?.is_none() {
            return Err(format!("a pair of {} is missing", tree.name()).into());
        }
    }
    watch.tell("a get from each", begun.elapsed().as_secs_f64());
    let begun = Instant::now();
    for tree in &trees {
        if tree.count(ScanRange::all())? != PAIRS_PER_TREE {
            return Err(format!("pairs of {} are missing", tree.name()).into());
        }
    }
    watch.tell("a scan of each", begun.elapsed().as_secs_f64());
    Ok(())
}

fn put_into_each(db: &Db, args: &Args, watch: &Watch) -> Result<()> {
    let begun = Instant::now();
    for i in 0..args.n {
        db.tree(&name(i))?.put(key16(PAIRS_PER_TREE), [7; VALUE_BYTES])?;
    }
    watch.tell("a put into each", begun.elapsed().as_secs_f64());
    Ok(())
}
