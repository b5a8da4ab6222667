//! What the commands take that change a key.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgGroup, Args};

use super::units::parse_time;

#[derive(Debug, Args)]
#[command(
    group(ArgGroup::new("content").args(["value", "file"]).required(true)),
    override_usage = "esker put [OPTIONS] <KEY> <VALUE>\n       esker put [OPTIONS] <KEY> --file <F>"
)]
pub(crate) struct Put {
    /// The key
    #[arg(allow_negative_numbers = true)]
    pub(crate) key: OsString,
    /// The value
    #[arg(allow_hyphen_values = true)]
    pub(crate) value: Option<OsString>,
    /// Take the value from a file (`-`: standard input)
    #[arg(long, value_name = "F")]
    pub(crate) file: Option<PathBuf>,
    /// The value expires after this time: a number with s, m, h or d, such as 12h
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    pub(crate) ttl: Option<Duration>,
}

#[derive(Debug, Args)]
#[command(
    group(ArgGroup::new("operand").args(["add", "append"]).required(true)),
    override_usage = "esker merge [OPTIONS] <KEY> --add <N>\n       esker merge [OPTIONS] <KEY> --append <VALUE>"
)]
pub(crate) struct Merge {
    /// The key
    #[arg(allow_negative_numbers = true)]
    pub(crate) key: OsString,
    /// Add this number
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub(crate) add: Option<i64>,
    /// Append these bytes, typed like the tree's values
    #[arg(long, value_name = "VALUE", allow_hyphen_values = true)]
    pub(crate) append: Option<OsString>,
}

#[derive(Debug, Args)]
#[command(
    override_usage = "esker delete [OPTIONS] <KEY>\n       esker delete [OPTIONS] <--from <LO>|--to <HI>|--prefix <P>|--all>"
)]
pub(crate) struct Delete {
    /// The key
    #[arg(allow_negative_numbers = true)]
    pub(crate) key: Option<OsString>,
    /// All keys from this one on
    #[arg(long, value_name = "LO", allow_negative_numbers = true, conflicts_with = "key")]
    pub(crate) from: Option<OsString>,
    /// All keys up to and including this one
    #[arg(long, value_name = "HI", allow_negative_numbers = true, conflicts_with = "key")]
    pub(crate) to: Option<OsString>,
    /// All keys that begin with this
    #[arg(long, value_name = "P", conflicts_with = "key")]
    pub(crate) prefix: Option<OsString>,
    /// All keys of the tree
    #[arg(long, conflicts_with_all = ["key", "from", "to", "prefix"])]
    pub(crate) all: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Transfer {
    /// The key that has the value
    #[arg(allow_negative_numbers = true)]
    pub(crate) from: OsString,
    /// The key that gets it
    #[arg(allow_negative_numbers = true)]
    pub(crate) to: OsString,
}
