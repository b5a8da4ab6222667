//! The arguments of every command, as the parser and the help texts see them.

mod change;
mod global;
mod help;
mod path;
mod ql;
mod rows;
mod serve;
mod stats;
mod thrift;
mod types;
mod units;
mod url;

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, CommandFactory, FromArgMatches, Parser, Subcommand};

pub(crate) use units::parse_size;
#[cfg(fuzzing)]
pub(crate) use units::parse_time;

use crate::ranges::ByteRange;
pub(crate) use change::{Delete, Merge, Put, Transfer};
pub(crate) use global::Global;
use global::choose;
pub(crate) use ql::{Ql, QlFormat};
pub(crate) use rows::{Export, Import};
pub(crate) use serve::{AuthClients, LogFormat, LogLevel, PASSWORD, PRINT, Security, Serve};
pub(crate) use stats::{Stats, StatsFormat};
pub(crate) use thrift::Thrift;

/// A key-value store for small records and huge values.
#[derive(Debug, Parser)]
#[command(
    name = "esker",
    version,
    about,
    subcommand_required = true,
    arg_required_else_help = true,
    disable_help_subcommand = false,
    after_help = "Examples:
  esker put greeting hello            store a value (and create ./esker.db)
  esker get greeting                  print it
  esker scan a c                      every row from a to c
  esker --db /srv/x.db run jobs.txt   run a file of PUT, GET, DELETE and SCAN lines
  esker scan --help                   more about one command

Exit codes: 0 done; 1 absent key, or damage found by check or repair; 2 usage or bad input; 3 store damaged, \
locked or missing, or an I/O error; 130 interrupted; 141 output pipe closed."
)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) command: Command,
}

impl Cli {
    /// Reads the words of a command line, and the variables that say what they do not.
    pub(crate) fn parsed_from(line: &[OsString]) -> Result<Self, clap::Error> {
        let mut command = Cli::command();
        let matches = command.try_get_matches_from_mut(line)?;
        let mut cli = Cli::from_arg_matches(&matches)?;
        choose(&command, &matches, &mut cli.global)?;
        Ok(cli)
    }
}

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Store a value
    #[command(after_help = "Examples:
  esker put greeting hello
  esker put photo --file photo.jpg
  date | esker put now --file -
  esker put session/7f3a Ada --ttl 12h        gone in twelve hours
  esker put -- --answer --yes                 after --, a key or value may begin with a hyphen
  esker put --escapes lines 'one\\ntwo'       \\n and the like stand for bytes
  esker --keys u64 --tree orders put 42 'three apples'")]
    Put(Put),
    /// Print a value
    #[command(
        after_help = "If the key is absent, it exits 1 and prints nothing to standard output. A newline follows the value, unless --file \
or --range is given. On a terminal, it describes a binary or huge value instead of printing it, unless --raw is given.

Examples:
  esker get greeting
  esker get photo --file copy.jpg     written beside copy.jpg, then renamed
  esker get photo --range 0-99        the first 100 bytes
  esker get photo --range -100        the last 100 bytes
  esker get film --range 1000000- | mpv -      fetches and checks only what mpv reads"
    )]
    Get(Get),
    /// Delete a key or a range of keys; an absent key is not an error
    #[command(
        after_help = "The command gives back the space of a huge value before it ends. `esker destroy` deletes a whole store.

Examples:
  esker delete greeting
  esker delete --prefix log/2025-     all of them in one write
  esker --tree cache delete --all     the tree stays, and is empty
  esker --tree orders delete --from 100 --to 199"
    )]
    Delete(Delete),
    /// Change a value without reading it: add to a number, or append
    #[command(after_help = help::MERGE)]
    Merge(Merge),
    /// Rename a key; if the new key has a value, it is replaced
    #[command(
        after_help = "The value is not copied, however long it is. If the key is absent, the exit code is 1.

Example:
  esker mv films/draft.mkv films/final.mkv"
    )]
    Mv(Transfer),
    /// Copy a value to another key; if that key has a value, it is replaced
    #[command(
        after_help = "Both keys share one copy of a huge value; its space comes back when both are deleted. If the key is absent, \
the exit code is 1.

Example:
  esker cp films/final.mkv backup/final.mkv"
    )]
    Cp(Transfer),
    /// Print the rows between two keys, in key order
    #[command(
        after_help = "Both bounds are included. Without bounds, it prints every row. On a terminal, it describes a binary or huge value \
instead of printing it, and shows bytes that are not printable as \\xNN, unless --raw is given.

Examples:
  esker scan
  esker scan a c --limit 10
  esker scan --prefix user: --reverse
  esker scan 100 199 --keys-only --tree orders"
    )]
    Scan(Scan),
    /// Count the rows between two keys
    #[command(after_help = "Examples:
  esker count
  esker count 100 199 --tree orders
  esker count --prefix user:")]
    Count(Bounds),
    /// List values: size, time stored, type, key
    #[command(
        after_help = "Times are UTC; a small value has none (`-`). `ls` guesses a type from the value's first bytes, and reads the rest \
only with --sha256.

Examples:
  esker ls
  esker ls photos/2024/ --tree media
  esker ls --du                       bytes and number of values below photos/, videos/, ...
  esker ls --sha256 photos/"
    )]
    Ls(Ls),
    /// Run a file of commands, one a line
    #[command(after_help = help::RUN)]
    Run(Run),
    /// Read every byte of the store and report damage; change nothing
    #[command(after_help = help::CHECK)]
    Check,
    /// Merge all tables, and give back the space of deleted and overwritten data
    #[command(after_help = "Example:
  esker compact")]
    Compact,
    /// Print figures about the store
    #[command(after_help = help::STATS)]
    Stats(Stats),
    /// List the trees (keyspaces) of the store
    #[command(after_help = "Examples:
  esker trees
  esker trees --long       with key types and numbers of rows")]
    Trees(Trees),
    /// Print the contents of one file of a store, of any kind
    #[command(after_help = help::DUMP)]
    Dump(Dump),
    /// Make a copy of the store by hard links; the copy is a store too
    #[command(
        after_help = "The copy must be on the store's file system; `esker backup` copies to any file system. The files of a store that \
cannot be written here are copied.

Example:
  esker checkpoint /backup/monday.db"
    )]
    Checkpoint(Checkpoint),
    /// Make a new store of one tree by hard links, in little time and space
    #[command(
        after_help = "The new store links to the files of the tree; on another file system it gets copies of them. It is a store like \
any other, and `esker import-tree` adds its tree to another store.

Example:
  esker --tree users export-tree /srv/users.db"
    )]
    ExportTree(ExportTree),
    /// Add the tree of a store that `esker export-tree` made, by hard links
    #[command(
        after_help = "--tree names the new tree; the store must not have a tree of that name. The command only reads DIR.

Example:
  esker --db other.db --tree users import-tree /srv/users.db"
    )]
    ImportTree(ImportTree),
    /// Copy the store into a directory of backups; files that an earlier backup has are not copied again
    #[command(
        after_help = "A directory, usually on another disk, holds the backups of one store; `esker backup` refuses a directory with \
backups of another store. An interrupted backup leaves the earlier backups as they were, and the next backup removes \
its files.

Examples:
  esker backup /backups/x
  esker backup /backups/x --keep 7       and remove all but the newest 7
  esker backup /backups/x --list         number, time, files and bytes of each"
    )]
    Backup(Backup),
    /// Make a store from a backup
    #[command(
        after_help = "It verifies every byte of the backup. If the backup is damaged, it says where and exits 3; after Ctrl-C it exits \
130. In both cases it leaves nothing behind.

Examples:
  esker restore /backups/x restored.db
  esker restore /backups/x monday.db --backup 3"
    )]
    Restore(Restore),
    /// Make a damaged store usable again: keep what is sound, name what is lost
    #[command(after_help = help::REPAIR)]
    Repair,
    /// Delete the whole store
    #[command(
        after_help = "To confirm, type the name of the store's directory, or give it with --yes. Files that do not belong to the store stay.

Example:
  esker destroy --db /srv/x.db --yes x.db"
    )]
    Destroy(Destroy),
    /// Store rows from a file (lines, CSV, TSV, JSON Lines or JSON), or files from a directory
    #[command(after_help = help::IMPORT)]
    Import(Import),
    /// Write rows to a file (lines, CSV, TSV, JSON Lines or JSON), or each value to a file in a directory
    #[command(after_help = help::EXPORT)]
    Export(Export),
    /// Run commands one after another on a store that stays open
    #[command(after_help = help::SHELL)]
    Shell(Shell),
    /// Serve the store to Redis clients, until SIGTERM or Ctrl-C
    #[command(after_help = help::SERVE)]
    Serve(Box<Serve>),
    /// Run statements of EskerQL on the store's tables: from the terminal, a pipe, or --execute
    #[command(after_help = help::QL)]
    Ql(Ql),
    /// Serve the store's tables to HBase's Thrift clients, until SIGTERM or Ctrl-C
    #[command(after_help = help::THRIFT)]
    Thrift(Thrift),
    /// Print a completion script for a shell
    #[command(after_help = "Example:
  esker completions bash > /etc/bash_completion.d/esker")]
    Completions(Completions),
    /// Print the manual page of esker, or of one command
    #[command(after_help = "Examples:
  esker man | man -l -
  esker man scan
  esker man --dir /usr/local/share/man/man1")]
    Man(Man),
}

#[derive(Debug, Args)]
pub(crate) struct Get {
    /// The key
    #[arg(allow_negative_numbers = true)]
    pub(crate) key: OsString,
    /// Write exactly the value's bytes to this file
    #[arg(long, value_name = "F")]
    pub(crate) file: Option<PathBuf>,
    /// Only these bytes: A-B (from 0, both included), A- or -N (the last N)
    #[arg(long, value_name = "A-B", value_parser = ByteRange::parse, allow_hyphen_values = true)]
    pub(crate) range: Option<ByteRange>,
    /// Print a binary or huge value as it is, even on a terminal
    #[arg(long)]
    pub(crate) raw: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Bounds {
    /// The first key
    #[arg(allow_negative_numbers = true)]
    pub(crate) lo: Option<OsString>,
    /// The last key (included)
    #[arg(allow_negative_numbers = true)]
    pub(crate) hi: Option<OsString>,
    /// Only keys that begin with this
    #[arg(long, value_name = "P")]
    pub(crate) prefix: Option<OsString>,
}

#[derive(Debug, Args)]
pub(crate) struct Scan {
    #[command(flatten)]
    pub(crate) bounds: Bounds,
    /// From the last key to the first
    #[arg(long)]
    pub(crate) reverse: bool,
    /// At most this many rows
    #[arg(long, value_name = "N")]
    pub(crate) limit: Option<u64>,
    /// Print keys without values
    #[arg(long)]
    pub(crate) keys_only: bool,
    /// Print binary or huge values as they are, even on a terminal
    #[arg(long)]
    pub(crate) raw: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Ls {
    /// Only keys that begin with this
    pub(crate) prefix: Option<OsString>,
    /// Print bytes and number of values for each group of keys that are equal up to the first slash after PREFIX's last
    /// slash
    #[arg(long, conflicts_with = "sha256")]
    pub(crate) du: bool,
    /// Also print the SHA-256 of each value; this reads all values
    #[arg(long)]
    pub(crate) sha256: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Run {
    /// The file of commands (`-`: standard input)
    pub(crate) file: PathBuf,
    /// Write results to this file instead of standard output; the file is emptied first
    #[arg(long, value_name = "OUT")]
    pub(crate) output: Option<PathBuf>,
    /// Report malformed lines and go on (exit code 2 at the end)
    #[arg(long)]
    pub(crate) keep_going: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Trees {
    /// Also print types and numbers of rows
    #[arg(long)]
    pub(crate) long: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Dump {
    /// Any file of a store
    pub(crate) file: PathBuf,
}

#[derive(Debug, Args)]
pub(crate) struct Checkpoint {
    /// The new store's directory, which must not exist
    pub(crate) dir: PathBuf,
}

#[derive(Debug, Args)]
pub(crate) struct ExportTree {
    /// The new store's directory, which must not exist
    pub(crate) dir: PathBuf,
}

#[derive(Debug, Args)]
pub(crate) struct ImportTree {
    /// The directory of a store with one tree
    pub(crate) dir: PathBuf,
}

#[derive(Debug, Args)]
pub(crate) struct Backup {
    /// The directory of backups
    pub(crate) dir: PathBuf,
    /// List the backups instead of making one
    #[arg(long, conflicts_with = "keep")]
    pub(crate) list: bool,
    /// Afterwards, remove all but the newest N backups
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) keep: Option<u32>,
}

#[derive(Debug, Args)]
pub(crate) struct Restore {
    /// The directory of backups
    pub(crate) dir: PathBuf,
    /// The new store's directory, which must not exist
    pub(crate) target: PathBuf,
    /// The number of the backup (default: the newest)
    #[arg(long, value_name = "N")]
    pub(crate) backup: Option<u64>,
}

#[derive(Debug, Args)]
pub(crate) struct Destroy {
    /// The name of the store's directory, as a confirmation
    #[arg(long, value_name = "NAME")]
    pub(crate) yes: Option<OsString>,
}

#[derive(Debug, Args)]
pub(crate) struct Shell {
    /// Neither read nor write the history file
    #[arg(long)]
    pub(crate) no_history: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Completions {
    /// The shell
    #[arg(value_enum)]
    pub(crate) shell: clap_complete::Shell,
}

#[derive(Debug, Args)]
pub(crate) struct Man {
    /// The command
    pub(crate) command: Option<String>,
    /// Write every page into this directory instead
    #[arg(long, value_name = "DIR", conflicts_with = "command")]
    pub(crate) dir: Option<PathBuf>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_definition_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn every_command_has_help_with_an_example() {
        for command in Cli::command().get_subcommands() {
            assert!(command.get_about().is_some(), "{}", command.get_name());
            let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            assert!(help.contains("Example"), "{}", command.get_name());
        }
    }
}
