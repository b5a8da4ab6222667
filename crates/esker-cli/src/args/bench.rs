//! The arguments of `bench`.

use std::path::PathBuf;

use clap::builder::RangedU64ValueParser;
use clap::{Args, Subcommand, ValueEnum};

use super::help;

#[derive(Debug, Args)]
pub(crate) struct Bench {
    #[command(subcommand)]
    pub(crate) suite: Suite,
}

/// Which benchmark.
#[derive(Debug, Subcommand)]
pub(crate) enum Suite {
    /// HBase's PerformanceEvaluation, on tables of the store or (--url thrift://HOST:PORT) of Esker's or HBase's server
    #[command(after_help = help::PE)]
    Pe(Pe),
}

#[derive(Debug, Args)]
pub(crate) struct Pe {
    /// What is measured, in this order
    #[arg(value_name = "COMMAND", value_enum, required_unless_present = "compare")]
    pub(crate) commands: Vec<PeCommand>,
    /// Clients at work at once
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = RangedU64ValueParser::<u32>::new().range(1..=500))]
    pub(crate) clients: u32,
    /// Rows of each client
    #[arg(long, value_name = "N", default_value_t = 100_000, value_parser = clap::value_parser!(u64).range(1..=1_000_000_000))]
    pub(crate) rows: u64,
    /// The length of a value
    #[arg(long, value_name = "BYTES", default_value_t = 1000, value_parser = RangedU64ValueParser::<usize>::new().range(1..=16 << 20))]
    pub(crate) value_size: usize,
    /// Rows of a call that puts
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = RangedU64ValueParser::<usize>::new().range(1..=100_000))]
    pub(crate) batch: usize,
    /// Rows of a fetch that scans
    #[arg(long, value_name = "N", default_value_t = 30, value_parser = RangedU64ValueParser::<u32>::new().range(1..=1_000_000))]
    pub(crate) caching: u32,
    /// The seed of random rows and values
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,
    /// A process of the server, on this machine: its CPU time and memory are printed. Several: the sums
    #[arg(long, value_name = "PID", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) server_pid: Vec<u32>,
    /// The name of this run (default: embedded, or the URL)
    #[arg(long, value_name = "NAME")]
    pub(crate) label: Option<String>,
    /// How results are printed (default: table)
    #[arg(long, value_name = "FORMAT", value_enum)]
    pub(crate) format: Option<BenchFormat>,
    /// Draw the rows per second to this file
    #[arg(long, value_name = "FILE.svg")]
    pub(crate) plot: Option<PathBuf>,
    /// Run nothing: show the results that --format jsonl has printed side by side, with ratios to the last run. Of several
    /// results of a run for a command, it takes the one in the middle
    #[arg(long, value_name = "FILE.jsonl", num_args = 1.., conflicts_with_all = ["commands", "server_pid", "label"])]
    pub(crate) compare: Vec<PathBuf>,
}

/// How results are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum BenchFormat {
    /// Columns side by side, for people
    Table,
    /// Tab-separated values under a line of names
    Tsv,
    /// An object of JSON in each line
    Jsonl,
}

/// A command of PerformanceEvaluation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "camelCase")]
pub(crate) enum PeCommand {
    // Plain comments: documented values would spread the help over two pages.
    RandomWrite,
    SequentialWrite,
    RandomRead,
    SequentialRead,
    Scan,
    #[value(name = "scanRange10")]
    ScanRange10,
    #[value(name = "scanRange100")]
    ScanRange100,
    #[value(name = "scanRange1000")]
    ScanRange1000,
    #[value(name = "scanRange10000")]
    ScanRange10000,
    Increment,
    CheckAndPut,
}

impl PeCommand {
    pub(crate) fn name(self) -> &'static str {
        match self {
            PeCommand::RandomWrite => "randomWrite",
            PeCommand::SequentialWrite => "sequentialWrite",
            PeCommand::RandomRead => "randomRead",
            PeCommand::SequentialRead => "sequentialRead",
            PeCommand::Scan => "scan",
            PeCommand::ScanRange10 => "scanRange10",
            PeCommand::ScanRange100 => "scanRange100",
            PeCommand::ScanRange1000 => "scanRange1000",
            PeCommand::ScanRange10000 => "scanRange10000",
            PeCommand::Increment => "increment",
            PeCommand::CheckAndPut => "checkAndPut",
        }
    }
}
