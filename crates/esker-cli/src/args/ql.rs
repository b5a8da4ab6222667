//! The arguments of `ql`.

use clap::{Args, ValueEnum};

#[derive(Debug, Args)]
pub(crate) struct Ql {
    /// Run these statements, and end
    #[arg(short = 'e', long, value_name = "STATEMENTS")]
    pub(crate) execute: Option<String>,
    /// How cells are printed (default: jsonl with --json, table at a terminal, otherwise tsv)
    #[arg(long, value_name = "FORMAT", value_enum)]
    pub(crate) format: Option<QlFormat>,
    /// With --url: fail when the server is silent for this long within a call; 0: wait for ever
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    pub(crate) timeout: u32,
    /// Neither read nor write the file with the history of statements
    #[arg(long)]
    pub(crate) no_history: bool,
}

/// How cells are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum QlFormat {
    /// Columns side by side, for people
    Table,
    /// Tab-separated values with escapes
    Tsv,
    /// Comma-separated values; what is not UTF-8 is in base64
    Csv,
    /// An object of JSON in each line
    Jsonl,
    /// XML
    Xml,
}
