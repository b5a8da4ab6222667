//! What can be typed in the shell: every command of the command line, and what only makes sense here.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::parser::ValueSource;
use clap::{ArgMatches, Args, CommandFactory, FromArgMatches, Parser, Subcommand};

use crate::args::{Command, Global, parse_size};

/// The shell of Esker: commands on a store that stays open.
#[derive(Debug, Parser)]
#[command(
    no_binary_name = true,
    name = "esker>",
    bin_name = "esker>",
    subcommand_required = true,
    after_help = "`help COMMAND` explains a command. Ctrl-C drops the line or stops the command that runs; Ctrl-D ends the shell."
)]
pub(super) struct Line {
    #[command(flatten)]
    global: Global,
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
pub(super) enum Verb {
    /// Close the store that is open, and open another one; create it if there is none
    #[command(after_help = "Examples:
  open
  open x.db
  open x.db 4M 256M")]
    Open(Open),
    /// Close the store
    Close,
    /// Work on this tree (keyspace) from now on; without a name, print which one it is
    Tree(UseTree),
    /// Close the store and end the shell
    #[command(visible_alias = "quit")]
    Exit,
    #[command(flatten)]
    Shared(Command),
}

#[derive(Debug, Args)]
pub(super) struct Open {
    /// The store's directory, or the URL of a server (default: what the shell was started with)
    pub(super) name: Option<PathBuf>,
    /// Bytes of writes gathered in memory before they become a table, such as 4M
    #[arg(value_parser = parse_size)]
    pub(super) memtable: Option<usize>,
    /// Memory for caches and buffers, such as 256M
    #[arg(value_parser = parse_size)]
    pub(super) buffer: Option<usize>,
}

#[derive(Debug, Args)]
pub(super) struct UseTree {
    /// The tree; the first write into it creates it
    pub(super) tree_name: Option<String>,
}

/// A line that could be read.
pub(super) struct Typed {
    pub(super) global: Global,
    pub(super) verb: Verb,
    /// Which global options the line itself has.
    pub(super) has_db: bool,
    pub(super) has_tree: bool,
}

/// The definition, as the parser, the help and completion see it.
pub(super) fn definition() -> clap::Command {
    // A shell in the shell would find the store locked.
    let hidden = |shell: clap::Command| shell.hide(true);
    Line::command().mut_subcommand("shell", hidden).mut_subcommand("ql", hidden)
}

/// Reads the words of a line.
pub(super) fn parse(words: Vec<OsString>) -> Result<Typed, clap::Error> {
    let matches = definition().try_get_matches_from(words)?;
    let Line { global, verb } = Line::from_arg_matches(&matches)?;
    let of_verb = matches.subcommand().map(|(_, matches)| matches);
    let typed = |id: &str| {
        let is_typed = |matches: &ArgMatches| matches.value_source(id) == Some(ValueSource::CommandLine);
        of_verb.is_some_and(is_typed)
    };
    let (has_db, has_tree) = (typed("db"), typed("tree"));
    Ok(Typed { global, verb, has_db, has_tree })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shell::words;

    #[test]
    fn the_definition_is_sound() {
        definition().debug_assert();
    }

    #[test]
    fn lines_know_what_was_typed() {
        let of = |line: &str| parse(words::split(line.as_bytes()).unwrap()).unwrap();
        let typed = of("get a --tree t");
        assert!(typed.has_tree && !typed.has_db && matches!(typed.verb, Verb::Shared(Command::Get(_))));
        assert!(of("get a --db x.db").has_db);
        assert!(matches!(of("quit").verb, Verb::Exit));
        assert!(matches!(of("open x 4M 1G").verb, Verb::Open(Open { memtable: Some(0x40_0000), .. })));
        assert!(parse(vec!["opne".into()]).is_err());
    }
}
