//! What is measured. A group is what one fresh process runs from an empty directory; its phases follow each other on
//! the same store.

use crate::args::Args;
use crate::measure::Recorder;
use crate::process::AnonWatch;
use crate::stores::{self, Result, Store};

mod fill;
mod random;
mod source001;
mod source003;
mod sync;

/// The groups of `esker-bench run` when `--groups` does not choose.
pub(crate) const GROUPS: [&str; 5] = ["seq", "batchseq", "batchrandom", "random", "sync"];

/// What a group's phases share.
struct Bench<'a> {
    args: &'a Args,
    store: &'a dyn Store,
    recorder: &'a Recorder,
    /// Off for the store that does nothing.
    verify: bool,
}

impl Bench<'_> {
    /// A get whose answer is known: the key is there, with a value of this length, or it is not there.
    fn expect(&self, key: &[u8], length: Option<usize>, value: &mut Vec<u8>) -> Result<u64> {
        let found = self.store.get(key, value)?;
        if self.verify && found.then_some(value.len()) != length {
            return Err(
                format!("get {key:?}: found {found}, {} bytes, expected {length:?}", value.len()).into()
            );
        }
        Ok(1)
    }

    /// A count that is known.
    fn expect_rows(&self, rows: u64, expected: u64) -> Result<u64> {
        if self.verify && rows != expected {
            return Err(format!("a scan returned {rows} rows instead of {expected}").into());
        }
        Ok(rows)
    }
}

/// Runs one group on one store in this process.
pub(crate) fn run(args: &Args, store_name: &str, group: &str, round: u64) -> Result<()> {
    let dir = args.dir.join(format!("{store_name}-{group}"));
    std::fs::remove_dir_all(&dir).ok();
    std::fs::create_dir_all(&args.dir)?;
    let store = stores::open(store_name, &dir, args.settings)?;
    let recorder = Recorder {
        store: store_name.to_owned(),
        group: group.to_owned(),
        round,
        dir: dir.clone(),
        anon: AnonWatch::start(),
    };
    let bench = Bench { args, store: &*store, recorder: &recorder, verify: store_name != "none" };
    match group {
        "seq" => fill::sequential(&bench)?,
        "batchseq" => fill::batches(&bench, "fillbatchseq", |i| i)?,
        "batchrandom" => fill::batches(&bench, "fillbatchrandom", fill::random_numbers(args))?,
        "random" => random::random(&bench)?,
        "sync" => sync::sync(&bench)?,
        "source001" => source001::source001(&bench)?,
        "source003" => source003::source003(&bench)?,
        _ => {
            return Err(
                format!("no group {group:?}; there are {}, source001, source003", GROUPS.join(", ")).into()
            );
        }
    }
    store.close()?;
    std::fs::remove_dir_all(&dir).ok();
    Ok(())
}
