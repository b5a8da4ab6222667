//! The options of all commands, and which store they name: a directory or a server.

use std::path::PathBuf;
use std::time::Duration;

use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{ArgMatches, Args, Command, Error};

use super::path::{DB, PathParser};
use super::types::TypeParser;
use super::units::{parse_size, parse_time};
use super::url::UrlParser;
use crate::client::{Database, Url};
use crate::datatype::{DataType, Types};
use crate::interrupt::Then;

/// The variable that says what `--url` does not.
const VARIABLE: &str = "ESKER_URL";

/// Options that stand before or after the subcommand.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Global options")]
pub(crate) struct Global {
    /// The store's directory
    #[arg(long, global = true, value_name = "PATH", env = "ESKER_DB", default_value = DB, value_parser = PathParser)]
    pub(crate) db: PathBuf,
    /// Work on a server instead of a directory. The shell and commands that read or write entries take a database of it:
    /// redis://[USER:PASSWORD@]HOST[:PORT][/DB] or unix:PATH[?db=DB]. ql takes its tables: thrift://HOST:PORT
    /// [env: ESKER_URL]
    #[arg(long, global = true, value_name = "URL", value_parser = UrlParser)]
    pub(crate) url: Option<Url>,
    /// The tree (keyspace) to work on
    #[arg(long, global = true, value_name = "NAME", default_value = "default")]
    pub(crate) tree: String,
    /// How keys are typed and printed (default: text). The tree's first write fixes the type. A list of types
    /// (text,u64) is for keys of several elements, which are typed with commas too (berlin,42). hex and escaped work
    /// with the keys of any tree
    #[arg(long, global = true, value_name = "TYPE", value_parser = TypeParser { several: true })]
    pub(crate) keys: Option<DataType>,
    /// How values are typed and printed (default: text). The tree's first write fixes the type
    #[arg(long, global = true, value_name = "TYPE", value_parser = TypeParser { several: false })]
    pub(crate) values: Option<DataType>,
    /// In text that is typed and printed, \n \t \r \\ and \xNN stand for bytes
    #[arg(long, global = true)]
    pub(crate) escapes: bool,
    /// Print JSON, one object a line
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// Memory for caches and buffers, such as 256M or 2G; at least 8M
    #[arg(long, global = true, value_name = "SIZE", env = "ESKER_MEMORY", value_parser = parse_size)]
    pub(crate) memory: Option<usize>,
    /// How long to wait while another process has the store open, or for a server: a number with s, m, h or d, such as 10s
    #[arg(long, global = true, value_name = "TIME", env = "ESKER_WAIT", value_parser = parse_time)]
    pub(crate) wait: Option<Duration>,
    /// The store that the shell has open at `db`.
    #[arg(skip)]
    pub(crate) open: Option<esker::Db>,
    /// The database of the server that the shell is connected to.
    #[arg(skip)]
    pub(crate) connected: Option<Database>,
    /// The shell runs the command.
    #[arg(skip)]
    pub(crate) in_shell: bool,
}

impl Global {
    /// What happens to a call on the store of the command when Ctrl-C comes: it may continue if the shell keeps that store
    /// open.
    pub(crate) fn on_interrupt(&self) -> Then {
        if self.open.is_some() { Then::LeaveIt } else { Then::WaitStill }
    }

    /// The types to use for a tree that has those of `base`.
    pub(crate) fn types(&self, base: Types) -> Types {
        let escaped = |data| if self.escapes && data == DataType::Text { DataType::Escaped } else { data };
        Types {
            keys: self.keys.unwrap_or(escaped(base.keys)),
            values: self.values.unwrap_or(escaped(base.values)),
        }
    }
}

/// Finds out which of `--url` and `--db` is meant: what is typed counts more than variables. An empty variable says
/// nothing, as one that is not set.
pub(super) fn choose(command: &Command, matches: &ArgMatches, global: &mut Global) -> Result<(), Error> {
    let wrong =
        |message: &str| Err(command.clone().error(ErrorKind::ArgumentConflict, format!("{message}\n")));
    let of_command = matches.subcommand().map_or(matches, |(_, matches)| matches);
    let is_db_typed = of_command.value_source("db") == Some(ValueSource::CommandLine);
    if is_db_typed && global.url.is_some() {
        return wrong("--db names a directory and --url a server: give one of them");
    }
    let variable = std::env::var_os(VARIABLE).filter(|text| !text.is_empty());
    let (None, false, Some(text)) = (&global.url, is_db_typed, variable) else { return Ok(()) };
    if std::env::var_os("ESKER_DB").is_some_and(|path| !path.is_empty()) {
        return wrong("both variables ESKER_DB and ESKER_URL are set: give --db or --url");
    }
    match text.to_str().ok_or_else(|| "a URL is text".to_owned()).and_then(Url::parse) {
        Ok(url) => global.url = Some(url),
        Err(message) => return wrong(&format!("{VARIABLE}: {message}")),
    }
    Ok(())
}
