//! Types of keys and values as they are typed.

use std::ffi::OsStr;

use clap::builder::{PossibleValue, TypedValueParser};
use clap::error::ErrorKind;
use clap::{Arg, Command};

use crate::datatype::DataType;

/// Reads the name of a type.
#[derive(Clone, Debug)]
pub(super) struct TypeParser {
    /// Whether it may have several elements.
    pub(super) several: bool,
}

impl TypedValueParser for TypeParser {
    type Value = DataType;

    fn parse_ref(&self, command: &Command, _: Option<&Arg>, typed: &OsStr) -> Result<DataType, clap::Error> {
        let name = typed.to_str().unwrap_or_default();
        match DataType::named(name) {
            Some(DataType::Tuple(_)) if !self.several => {}
            Some(DataType::Json) if self.several => {}
            Some(data) => return Ok(data),
            None => {}
        }
        let names: Vec<String> = self.single().iter().map(DataType::to_string).collect();
        let several =
            if self.several { ", or up to eight of them separated by commas, such as text,u64" } else { "" };
        let message = format!("{name:?} is not a type; the types are {}{several}\n", names.join(", "));
        Err(command.clone().error(ErrorKind::InvalidValue, message))
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new(self.single().into_iter().map(|data| PossibleValue::new(data.to_string()))))
    }
}

impl TypeParser {
    /// The types of one element. Only keys have several elements, and only values are JSON.
    fn single(&self) -> Vec<DataType> {
        if self.several { DataType::single().collect() } else { DataType::of_values().collect() }
    }
}
