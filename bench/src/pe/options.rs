//! The command line of `pe`.

use crate::stores::Result;
use std::path::PathBuf;

pub(crate) const USAGE: &str = "\
esker-bench pe [OPTIONS] COMMAND...
esker-bench pe --compare FILE.tsv... [--plot FILE.svg]

The commands are those of HBase's PerformanceEvaluation, and so are the table (TestTable), its rows (26 digits) and its column
(info0:0). Values are random bytes, which do not compress. Commands run in the order given, each with all clients at the
same time. Each client has a thread and, on a server, a connection. The table is created if it is missing, and stays.

  sequentialWrite, sequentialRead   each client puts or gets the rows of its own part, in their order
  randomWrite, randomRead           as many rows, drawn from all parts
  scan                              each client scans its part
  scanRange10, ...100, ...1000, ...10000   scans of N rows from a random one on, until a client has read as many rows as
                                    its part has
  increment, checkAndPut            all clients work on the rows of the first part, in their order; checkAndPut puts a
                                    value, and puts it again if it is there

Latencies are those of calls: of a put with its batch, of a get, of a fetch of scan, of a whole scan of scanRangeN, of an
increment, of both puts of checkAndPut. A row that is not found counts as missing; that is an error if sequentialWrite
has written the whole table before in the same run. MB are 10^6 bytes.

  --db DIR             the tables of this store, in this process (default: pe.db)
  --memory BYTES       the memory budget of that store (K, M and G are powers of 1,024; default: ESKER_MEMORY)
  --url URL            the tables of a server by HBase's Thrift interface: thrift://HOST:PORT
  --server-pid PIDS    processes of the server, on this machine: their CPU time and memory are printed, added up
  --clients N          clients at work at the same time (default 10, at most 500)
  --rows N             rows of each client (default 100,000)
  --value-size BYTES   (default 1,000)
  --batch N            rows of a call that puts (default 1)
  --caching N          rows of a fetch that scans (default 30)
  --seed S             of random rows and values (default 1)
  --label NAME         the name of this run (default: embedded, or the URL)
  --tsv                results as tab-separated values, which --compare reads
  --plot FILE.svg      draw the rows per second
  --compare FILES      run nothing: show results side by side, with ratios to the last run. Of several results of a run for a
                       command, the one in the middle counts
";

/// A command of PerformanceEvaluation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Command {
    RandomWrite,
    SequentialWrite,
    RandomRead,
    SequentialRead,
    Scan,
    /// Of this many rows.
    ScanRange(u64),
    Increment,
    CheckAndPut,
}

/// All commands by name.
pub(super) const COMMANDS: [(&str, Command); 11] = [
    ("sequentialWrite", Command::SequentialWrite),
    ("randomWrite", Command::RandomWrite),
    ("randomRead", Command::RandomRead),
    ("sequentialRead", Command::SequentialRead),
    ("scan", Command::Scan),
    ("scanRange10", Command::ScanRange(10)),
    ("scanRange100", Command::ScanRange(100)),
    ("scanRange1000", Command::ScanRange(1000)),
    ("scanRange10000", Command::ScanRange(10_000)),
    ("increment", Command::Increment),
    ("checkAndPut", Command::CheckAndPut),
];

#[derive(Clone, Debug)]
pub(super) struct Options {
    pub(super) commands: Vec<(&'static str, Command)>,
    pub(super) db: PathBuf,
    pub(super) memory: Option<usize>,
    /// Host and port.
    pub(super) server: Option<(String, u16)>,
    pub(super) server_pids: Vec<u32>,
    pub(super) clients: u32,
    pub(super) rows: u64,
    pub(super) value_size: usize,
    pub(super) batch: usize,
    pub(super) caching: u32,
    pub(super) seed: u64,
    pub(super) label: Option<String>,
    pub(super) is_tsv: bool,
    pub(super) plot: Option<PathBuf>,
    pub(super) compare: Vec<PathBuf>,
}

impl Options {
    pub(super) fn parse(words: &[String]) -> Result<Options> {
        let mut options = Options {
            commands: Vec::new(),
            db: PathBuf::from("pe.db"),
            memory: None,
            server: None,
            server_pids: Vec::new(),
            clients: 10,
            rows: 100_000,
            value_size: 1000,
            batch: 1,
            caching: 30,
            seed: 1,
            label: None,
            is_tsv: false,
            plot: None,
            compare: Vec::new(),
        };
        if let Ok(memory) = std::env::var("ESKER_MEMORY") {
            options.memory =
                Some(size(&memory).ok_or_else(|| format!("ESKER_MEMORY: {memory:?} is not a size"))?);
        }
        let mut is_comparing = false;
        let mut words = words.iter();
        while let Some(word) = words.next() {
            match word.as_str() {
                "--help" => return Err(USAGE.into()),
                "--tsv" => options.is_tsv = true,
                "--compare" => is_comparing = true,
                name if name.starts_with("--") => {
                    let value = words.next().ok_or_else(|| format!("{name} needs a value\n\n{USAGE}"))?;
                    options.set(name, value)?;
                }
                file if is_comparing => options.compare.push(file.into()),
                name => {
                    let known = COMMANDS.into_iter().find(|(known, _)| *known == name);
                    options.commands.push(known.ok_or_else(|| format!("no command {name}\n\n{USAGE}"))?);
                }
            }
        }
        if options.commands.is_empty() == options.compare.is_empty() {
            return Err(format!("pe needs either commands or files to compare\n\n{USAGE}").into());
        }
        if options.server.is_none() && !options.server_pids.is_empty() {
            return Err(
                "--server-pid names the process of a server (--url): this process is measured without it"
                    .into(),
            );
        }
        Ok(options)
    }

    fn set(&mut self, name: &str, value: &str) -> Result<()> {
        let number = |range: std::ops::RangeInclusive<u64>| {
            let number = value.replace([',', '_'], "").parse::<u64>().ok();
            number.filter(|number| range.contains(number)).ok_or_else(|| {
                format!("{name}: {value:?} is not a number from {} to {}", range.start(), range.end())
            })
        };
        match name {
            "--db" => self.db = value.into(),
            "--memory" => {
                self.memory = Some(size(value).ok_or_else(|| format!("{name}: {value:?} is not a size"))?);
            }
            "--url" => {
                let place = value.strip_prefix("thrift://").and_then(|place| place.rsplit_once(':'));
                let server = place.and_then(|(host, port)| Some((host.to_owned(), port.parse().ok()?)));
                self.server =
                    Some(server.ok_or_else(|| format!("--url {value}: expected thrift://HOST:PORT"))?);
            }
            "--server-pid" => {
                let pids: Option<Vec<u32>> = value.split(',').map(|pid| pid.parse().ok()).collect();
                self.server_pids =
                    pids.ok_or_else(|| format!("{name}: {value:?} is not a list of processes"))?;
            }
            "--clients" => self.clients = number(1..=500)? as u32,
            "--rows" => self.rows = number(1..=1_000_000_000)?,
            "--value-size" => self.value_size = number(1..=16 << 20)? as usize,
            "--batch" => self.batch = number(1..=100_000)? as usize,
            "--caching" => self.caching = number(1..=1_000_000)? as u32,
            "--seed" => self.seed = number(0..=u64::MAX)?,
            "--label" => self.label = Some(value.to_owned()),
            "--plot" => self.plot = Some(value.into()),
            _ => return Err(format!("no option {name}\n\n{USAGE}").into()),
        }
        Ok(())
    }
}

/// `1000`, `32M`, `1GiB`.
fn size(text: &str) -> Option<usize> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let shift = match unit.trim_end_matches("iB").trim_end_matches('B').to_ascii_uppercase().as_str() {
        "" => 0,
        "K" => 10,
        "M" => 20,
        "G" => 30,
        _ => return None,
    };
    number.parse::<usize>().ok()?.checked_mul(1 << shift)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Options> {
        Options::parse(&line.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn options_are_checked() {
        let options =
            parse("--url thrift://h:9090 --server-pid 1,2 --rows 20_000 scanRange10 scan --tsv").unwrap();
        assert_eq!(options.server, Some(("h".to_owned(), 9090)));
        assert_eq!((options.server_pids, options.rows, options.is_tsv), (vec![1, 2], 20_000, true));
        assert_eq!(options.commands, [("scanRange10", Command::ScanRange(10)), ("scan", Command::Scan)]);
        assert_eq!(parse("--compare a b --plot p.svg").unwrap().compare.len(), 2);
        for line in [
            "",
            "randomWrit",
            "scan --rows 0",
            "scan --clients 501",
            "scan --server-pid 1",
            "scan --url redis://h:1",
            "scan --memory 1X",
            "scan --rows",
            "--compare",
        ] {
            assert!(parse(line).is_err(), "{line}");
        }
        assert_eq!(
            ["1000", "32M", "1GiB", "2KB", "M", "1Q"].map(size),
            [Some(1000), Some(32 << 20), Some(1 << 30), Some(2 << 10), None, None]
        );
    }
}
