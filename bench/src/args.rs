//! The command line.

use crate::stores::{self, Result, Settings};
use std::path::PathBuf;

pub(crate) const USAGE: &str = "\
esker-bench COMMAND [OPTIONS]

  run          the workloads in README.md, each store and group in a fresh process
  source001    put, put again, get in order, get absent: numbered keys, 128-byte values
  source003    random strings: 1,000,000 puts, 10,000 gets, ranges of 255,053 pairs
  source004    [--n N] [--direct] [--style S] [OUT]: 134,217,728 puts of 4-byte keys and values, memtable 1 MB, buffer pool 10 MB; throughput of
               put, get and scan at 8 sizes, a table and plots into OUT (default: source004-results)
               --direct: tables past the operating system's cache; --style leveled, lazy-leveled (default) or tiered
  gen001       --n N --mode put|get|missing [--seed S] [--oracle ORACLE] FILE
               a command file for `esker run --keys u64`, and the output it must give
  probe        --n N STORE: asks Esker's filters for N absent keys between the u64 keys of STORE, and prints
               how often they are wrong
  cache        the buffer pool: ns of a hit, of a miss and of a skewed access, by the number of pages
  cache-sim    hit rates of policies for the buffer pool on a trace: options by `cache-sim --help`
  chunks       reads of a huge value by the size of its chunks
  index        the block index of a table beside binary searches; ns a lookup
  memtable     --n N: the skip list beside a BTreeMap behind a lock; ns an operation (default 400,000 entries)
  regions      --n BYTES: a tree of so many bytes (default 10 GiB) is ingested, moved to another store and split: time and
               bytes written
  budgets      --n N: gets beside puts over N pairs (default 3,000,000), by the budgets for background I/O and threads
  styles       --n N: the styles of merging: what is written for N pairs (default 5,000,000) put twice, what reads
               ask for, what space it takes
  settle       --n N --rounds R: a load of N pairs (default 4,000,000) over 8 trees until nothing is left to merge, by
               the number of threads
  churn        --n N: N rounds of ten patterns in which entries come and go: the last ones compared with the first
  cursor       --n N --rounds R: a seek and ten rows with a reused cursor, beside a new scan each time
  query-cache  --n ROWS --rounds R [PART]: reads and writes of a table (default 200,000 rows) without and with the query
               cache; those whose names have PART
  table-growth --n N: a table of N cells (default 1,000,000) is loaded, merged and read: time, space, memory
  table-scan   --n N --rounds R [PART]: scans of a table of N entries (default 400,000) beside the store's own cursor, and
               gets; of the shapes whose names have PART
  event-loop   --sync-seconds S --rounds R: one thread that acknowledges 64 durable writers, beside 64 threads
  trees        --n N: a store of N trees (default 10,000): time to open, memory, file descriptors
  huge-reads   --n BYTES --rounds R: values of 64 KiB to 645 MB (or BYTES) read in every way, warm and cold, beside
               plain files of the same bytes
  huge-writes  --n BYTES --rounds R: values of 64 KiB to 256 MiB (or BYTES) put, synced and not, beside plain files
  paper        huge values beside every peer that is built in: options by `paper --help`
  pe           HBase's PerformanceEvaluation on tables, of a store or a server: options by `pe --help`
  served       a server under many clients: options by `served --help`
  separate-at  inline beside separated values, 1 KiB to 1 MiB: the same options
  space        what the directory takes while 10 GB are overwritten and deleted over 2 GB: options by `space --help`
  warm         fill free memory with page cache; prints the files to remove afterwards

Options of run, source001, source003:
  --stores A,B,...     of none, leveldb, rocksdb, esker (default: all but none)
  --groups A,B,...     of seq, batchseq, batchrandom, random, sync, source001, source003
  --settings MODE      equal (default) or default
  --n N                pairs (default 5,000,000; source001 25,000,000; source003 1,000,000)
  --scale F            multiplies --n
  --reads N            random reads in a round (default 1,000,000, at most n)
  --rounds N           rounds of all groups and stores, interleaved (default 1)
  --sync-seconds S     time for each synced workload (default 3)
  --seed S             of keys and values (default 1)
  --dir DIR            where the stores go (default: esker-bench in the temporary directory)
  --json FILE          writes each record as a line of JSON
  --require RATIO      fails unless Esker reaches RATIO times the best peer in every workload
  --no-warm            do not fill free memory before each process
";

/// Everything a process of this program is told.
#[derive(Clone, Debug)]
pub(crate) struct Args {
    pub stores: Vec<String>,
    pub groups: Vec<String>,
    pub settings: Settings,
    pub n: u64,
    pub reads: u64,
    pub rounds: u64,
    pub sync_seconds: f64,
    pub seed: u64,
    pub dir: PathBuf,
    pub json: Option<PathBuf>,
    pub require: Option<f64>,
    pub warm: bool,
    /// source004
    pub direct: bool,
    pub style: String,
    /// gen001
    pub mode: String,
    pub oracle: Option<PathBuf>,
    pub file: Option<PathBuf>,
    /// trees
    pub step: Option<String>,
}

/// Options as the words of the command line, before defaults that depend on each other are known.
struct Words {
    n: Option<u64>,
    scale: f64,
    reads: Option<u64>,
}

fn number<T: std::str::FromStr>(name: &str, text: &str) -> Result<T> {
    let plain = text.replace([',', '_'], "");
    plain.parse().map_err(|_| format!("{name}: {text:?} is no number that fits").into())
}

fn list(text: &str) -> Vec<String> {
    text.split(',').filter(|word| !word.is_empty()).map(str::to_owned).collect()
}

impl Args {
    /// Reads the words behind the command; `n` and `groups` are the command's own defaults.
    pub(crate) fn parse(words: &[String], n: u64, groups: &[&str]) -> Result<Args> {
        let mut args = Args {
            stores: stores::NAMES[1..].iter().map(ToString::to_string).collect(),
            groups: groups.iter().map(ToString::to_string).collect(),
            settings: Settings::Equal,
            n,
            reads: 0,
            rounds: 1,
            sync_seconds: 3.0,
            seed: 1,
            dir: std::env::temp_dir().join("esker-bench"),
            json: None,
            require: None,
            warm: true,
            direct: false,
            style: "lazy-leveled".to_owned(),
            mode: "put".to_owned(),
            oracle: None,
            file: None,
            step: None,
        };
        let mut later = Words { n: None, scale: 1.0, reads: None };
        let mut words = words.iter();
        while let Some(word) = words.next() {
            if word == "--no-warm" {
                args.warm = false;
            } else if word == "--direct" {
                args.direct = true;
            } else if word.starts_with("--") {
                let value = words.next().ok_or_else(|| format!("{word} needs a value"))?;
                args.option(word, value, &mut later)?;
            } else if args.file.is_none() {
                args.file = Some(word.into());
            } else {
                return Err(format!("{word:?} is one file too many").into());
            }
        }
        args.n = ((later.n.unwrap_or(args.n) as f64 * later.scale) as u64).max(1000);
        args.reads = later.reads.unwrap_or(1_000_000).min(args.n);
        Ok(args)
    }

    fn option(&mut self, name: &str, value: &str, later: &mut Words) -> Result<()> {
        match name {
            "--stores" => self.stores = list(value),
            "--groups" => self.groups = list(value),
            "--settings" => {
                self.settings = match value {
                    "equal" => Settings::Equal,
                    "default" => Settings::Default,
                    _ => return Err(format!("--settings: {value:?} is neither equal nor default").into()),
                }
            }
            "--n" => later.n = Some(number(name, value)?),
            "--style" => value.clone_into(&mut self.style),
            "--scale" => later.scale = number(name, value)?,
            "--reads" => later.reads = Some(number(name, value)?),
            "--rounds" => self.rounds = number(name, value)?,
            "--sync-seconds" => self.sync_seconds = number::<f64>(name, value)?.clamp(0.01, 3600.0),
            "--seed" => self.seed = number(name, value)?,
            "--dir" => self.dir = value.into(),
            "--json" => self.json = Some(value.into()),
            "--require" => self.require = Some(number(name, value)?),
            "--mode" => value.clone_into(&mut self.mode),
            "--step" => self.step = Some(value.to_owned()),
            "--oracle" => self.oracle = Some(value.into()),
            _ => return Err(format!("no option {name}\n\n{USAGE}").into()),
        }
        Ok(())
    }

    pub(crate) fn settings_name(&self) -> &'static str {
        match self.settings {
            Settings::Equal => "equal",
            Settings::Default => "default",
        }
    }

    /// The words that give a child process the same options.
    pub(crate) fn words(&self) -> Vec<std::ffi::OsString> {
        let mut words: Vec<std::ffi::OsString> = Vec::new();
        let mut add = |name: &str, value: &std::ffi::OsStr| {
            words.push(name.into());
            words.push(value.to_owned());
        };
        add("--settings", self.settings_name().as_ref());
        add("--n", self.n.to_string().as_ref());
        add("--reads", self.reads.to_string().as_ref());
        add("--sync-seconds", self.sync_seconds.to_string().as_ref());
        add("--seed", self.seed.to_string().as_ref());
        add("--dir", self.dir.as_os_str());
        words
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Args> {
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        Args::parse(&words, 5_000_000, &["seq"])
    }

    #[test]
    fn options_and_defaults() {
        let args =
            parse("--n 2_000_000 --scale 0.25 --stores leveldb,rocksdb --settings default FILE").unwrap();
        assert_eq!((args.n, args.reads, args.settings), (500_000, 500_000, Settings::Default));
        assert_eq!(args.stores, ["leveldb", "rocksdb"]);
        assert_eq!(args.file, Some("FILE".into()));
        assert!(parse("--stroes none").is_err());
        assert!(parse("--n many").is_err());
        assert!(parse("--n").is_err());
        assert!(parse("A B").is_err());
    }

    #[test]
    fn a_child_is_told_the_same() {
        let args =
            parse("--n 12345 --reads 77 --seed 9 --dir /d --settings default --sync-seconds 0.5").unwrap();
        let words: Vec<String> = args.words().into_iter().map(|w| w.into_string().unwrap()).collect();
        let child = Args::parse(&words, 1, &[]).unwrap();
        assert_eq!(args.words(), child.words());
        assert_eq!((child.n, child.reads, child.seed), (12345, 77, 9));
    }
}
