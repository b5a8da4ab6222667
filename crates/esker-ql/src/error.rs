//! Errors, and the places of those in the text.
//!
//! ```text
//! line 2, column 14: expected a table's name, found `;`
//!   SELECT * FROM ;
//!                 ^
//! ```

use std::fmt;

/// The result of reading or executing a statement.
pub type Result<T> = std::result::Result<T, Error>;

/// How many characters of a line an error shows in front of the place, and from it on.
const SHOWN_BEFORE: usize = 60;
const SHOWN_BEHIND: usize = 20;

/// A place in a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// How many bytes are in front of it.
    pub byte: usize,
    /// Its line; the first one is 1.
    pub line: usize,
    /// Its column, in characters; the first one is 1.
    pub column: usize,
}

/// Why a text is no statement, or a statement cannot be executed.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// The text is no statement.
    Syntax {
        /// Where.
        place: Place,
        /// What was expected, and what is there.
        message: String,
        /// The line, cut to its surroundings, and a caret below the place.
        excerpt: String,
        /// Whether more text might make a statement of it.
        is_unfinished: bool,
    },
    /// The statement asks for something that the tables cannot do, or that contradicts itself.
    Impossible(String),
    /// What the tables say.
    Table(esker_table::Error),
    /// What the server with the tables says, or its connection.
    Remote(esker_thrift::CallError),
}

impl Error {
    /// The error `message` at the byte `at` of `text`.
    pub(crate) fn syntax(text: &[u8], at: usize, message: String, is_unfinished: bool) -> Error {
        let at = at.min(text.len());
        let (before, behind) = text.split_at(at);
        let line_start = before.iter().rposition(|byte| *byte == b'\n').map_or(0, |newline| newline + 1);
        let line = 1 + before.iter().filter(|byte| **byte == b'\n').count();
        let lead = shown(before.get(line_start..).unwrap_or_default());
        let rest_end = behind.iter().position(|byte| *byte == b'\n').unwrap_or(behind.len());
        // Four bytes make a character at most.
        let rest = shown(behind.get(..rest_end.min(4 * SHOWN_BEHIND)).unwrap_or_default());
        let column = 1 + lead.len();
        let cut = lead.len().saturating_sub(SHOWN_BEFORE);
        let lead: String = lead.into_iter().skip(cut).collect();
        let rest: String = rest.into_iter().take(SHOWN_BEHIND).collect();
        let caret = " ".repeat(lead.chars().count());
        let excerpt = format!("  {lead}{rest}\n  {caret}^");
        Error::Syntax { place: Place { byte: at, line, column }, message, excerpt, is_unfinished }
    }

    /// Whether the text ends within a statement.
    pub fn is_unfinished(&self) -> bool {
        matches!(self, Error::Syntax { is_unfinished: true, .. })
    }
}

/// The characters of `bytes`; those that would disturb a terminal, and bytes that are none, as `.` or U+FFFD.
fn shown(bytes: &[u8]) -> Vec<char> {
    let text = String::from_utf8_lossy(bytes);
    text.chars().map(|letter| if letter.is_control() { '.' } else { letter }).collect()
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Syntax { place, message, excerpt, .. } => {
                write!(f, "line {}, column {}: {message}\n{excerpt}", place.line, place.column)
            }
            Error::Impossible(message) => f.write_str(message),
            Error::Table(error) => error.fmt(f),
            Error::Remote(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::Table(error) => Some(error),
            Error::Remote(error) => Some(error),
            Error::Syntax { .. } | Error::Impossible(_) => None,
        }
    }
}

impl From<esker_thrift::CallError> for Error {
    fn from(error: esker_thrift::CallError) -> Error {
        Error::Remote(error)
    }
}

impl From<esker_table::Error> for Error {
    fn from(error: esker_table::Error) -> Error {
        Error::Table(error)
    }
}
