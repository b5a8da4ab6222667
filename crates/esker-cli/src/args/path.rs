//! Where the store is.

use std::ffi::OsStr;
use std::path::PathBuf;

use clap::builder::{PathBufValueParser, TypedValueParser};
use clap::parser::ValueSource;
use clap::{Arg, Command};

/// The store's directory where nothing is said.
pub(super) const DB: &str = "./esker.db";

/// Reads a path. An environment variable that is empty says nothing, as one that is not set; `--db ""` is a mistake.
#[derive(Clone, Debug)]
pub(super) struct PathParser;

impl TypedValueParser for PathParser {
    type Value = PathBuf;

    fn parse_ref(&self, command: &Command, arg: Option<&Arg>, typed: &OsStr) -> Result<PathBuf, clap::Error> {
        PathBufValueParser::new().parse_ref(command, arg, typed)
    }

    fn parse_ref_(
        &self,
        command: &Command,
        arg: Option<&Arg>,
        typed: &OsStr,
        source: ValueSource,
    ) -> Result<PathBuf, clap::Error> {
        match source {
            ValueSource::EnvVariable if typed.is_empty() => Ok(PathBuf::from(DB)),
            _ => self.parse_ref(command, arg, typed),
        }
    }
}
