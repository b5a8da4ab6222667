//! Which store a command works on: a directory or a server.

use std::ffi::OsStr;

use clap::builder::TypedValueParser;
use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, Command, Error};

use super::Global;
use crate::client::Url;

/// The variable that says what `--url` does not.
const VARIABLE: &str = "ESKER_URL";

/// Reads a URL. What is wrong with one is told without repeating it: it may hold a password.
#[derive(Clone, Debug)]
pub(super) struct UrlParser;

impl TypedValueParser for UrlParser {
    type Value = Url;

    fn parse_ref(&self, command: &Command, _: Option<&Arg>, typed: &OsStr) -> Result<Url, Error> {
        let text = typed.to_str().ok_or_else(|| "a URL is text".to_owned());
        let wrong = |message| command.clone().error(ErrorKind::InvalidValue, format!("--url: {message}\n"));
        text.and_then(Url::parse).map_err(wrong)
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
