//! URLs of servers, as arguments.

use std::ffi::OsStr;

use clap::builder::TypedValueParser;
use clap::error::ErrorKind;
use clap::{Arg, Command, Error};

use crate::client::Url;

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
