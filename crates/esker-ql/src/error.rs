//! Errors, and the places of those in the text.
//!
//! ```text
//! line 2, column 14: expected a table's name, found `;`
//!   SELECT * FROM ;
//!                 ^
//! ```

use std::fmt;

use esker_thrift::{CallError, Thrown};

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
    /// Something that the statement says at a place of the text is the reason.
    Named(Box<Named>),
    /// What the tables say.
    Table(esker_table::Error),
    /// What the server with the tables says, or its connection.
    Remote(CallError),
}

/// An error about something that the statement says at a place of the text.
#[derive(Debug)]
pub struct Named {
    /// How many bytes of the text are in front of it.
    at: usize,
    error: Error,
    /// What could stand there instead; empty: nothing is known.
    hint: String,
    /// The place and its surroundings, if the text is known.
    shown: Option<(Place, String)>,
}

impl Error {
    /// Whether the store may lack room on its disk. A server says only that it has failed.
    pub(crate) fn may_lack_room(&self) -> bool {
        match self {
            Error::Table(error) => error.lacks_room(),
            Error::Remote(CallError::Thrown { kind, .. }) => *kind == Thrown::Io,
            Error::Named(named) => named.error.may_lack_room(),
            Error::Syntax { .. } | Error::Impossible(_) | Error::Remote(_) => false,
        }
    }

    /// The error, which is about what the text has behind `at` bytes. `None`, or if it has a place already: as it is.
    pub(crate) fn at(self, at: Option<usize>) -> Error {
        self.with_hint(at, String::new())
    }

    /// [`Error::at`], with what could stand there instead.
    pub(crate) fn with_hint(self, at: Option<usize>, hint: String) -> Error {
        match (self, at) {
            (error @ (Error::Named(_) | Error::Syntax { .. }), _) | (error, None) => error,
            (error, Some(at)) => Error::Named(Box::new(Named { at, error, hint, shown: None })),
        }
    }

    /// The error of a statement of `text`, which shows the line if it knows the place.
    #[must_use]
    pub fn in_text(mut self, text: &[u8]) -> Error {
        if let Error::Named(named) = &mut self {
            named.shown = Some(excerpt(text, named.at));
        }
        self
    }

    /// The place, what is wrong there, and the line with a caret below the place. `None`: it has no place, or was not told the
    /// text ([`Error::in_text`]).
    pub fn shown(&self) -> Option<(Place, String, &str)> {
        match self {
            Error::Syntax { place, message, excerpt, .. } => Some((*place, message.clone(), excerpt)),
            Error::Named(named) => {
                let (place, excerpt) = named.shown.as_ref()?;
                Some((*place, named.message(), excerpt))
            }
            _ => None,
        }
    }

    /// The error without its place in the text.
    pub fn cause(&self) -> &Error {
        match self {
            Error::Named(named) => &named.error,
            error => error,
        }
    }

    /// The error `message` at the byte `at` of `text`.
    pub(crate) fn syntax(text: &[u8], at: usize, message: String, is_unfinished: bool) -> Error {
        let (place, excerpt) = excerpt(text, at);
        Error::Syntax { place, message, excerpt, is_unfinished }
    }

    /// Whether the text ends within a statement.
    pub fn is_unfinished(&self) -> bool {
        matches!(self, Error::Syntax { is_unfinished: true, .. })
    }
}

/// The place behind `at` bytes of `text`, and its line with a caret below the place.
fn excerpt(text: &[u8], at: usize) -> (Place, String) {
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
    (Place { byte: at, line, column }, excerpt)
}

/// The characters of `bytes`; those that would disturb a terminal, and bytes that are none, as `.` or U+FFFD.
fn shown(bytes: &[u8]) -> Vec<char> {
    let text = String::from_utf8_lossy(bytes);
    text.chars().map(|letter| if letter.is_control() { '.' } else { letter }).collect()
}

impl Named {
    fn message(&self) -> String {
        match self.hint.as_str() {
            "" => self.error.to_string(),
            hint => format!("{}; {hint}", self.error),
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Syntax { place, message, excerpt, .. } => {
                write!(f, "line {}, column {}: {message}\n{excerpt}", place.line, place.column)
            }
            Error::Impossible(message) => f.write_str(message),
            Error::Named(named) => match &named.shown {
                Some((place, excerpt)) => {
                    write!(f, "line {}, column {}: {}\n{excerpt}", place.line, place.column, named.message())
                }
                None => f.write_str(&named.message()),
            },
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
            Error::Named(named) => Some(&named.error),
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
