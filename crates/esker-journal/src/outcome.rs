//! What a proposal has come to: it is done, or why it is not.

use std::fmt;

use esker::Error;

/// What a proposal has come to.
pub type Outcome = Result<(), Undone>;

/// Why an entry has not taken effect, as far as is known.
#[derive(Debug)]
pub enum Undone {
    /// It certainly has no effect.
    Refused(Error),
    /// It may have taken effect, or may do so later.
    Unknown(Error),
}

impl Undone {
    /// What has happened.
    #[must_use]
    pub fn error(&self) -> &Error {
        match self {
            Undone::Refused(error) | Undone::Unknown(error) => error,
        }
    }
}

impl fmt::Display for Undone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Undone::Refused(error) => write!(f, "{error}"),
            Undone::Unknown(error) => {
                write!(f, "it is not known whether the write has taken effect: {error}")
            }
        }
    }
}

impl From<Undone> for Error {
    fn from(undone: Undone) -> Error {
        match undone {
            Undone::Refused(error) => error,
            Undone::Unknown(ref error) => Error::new(error.kind(), undone.to_string()),
        }
    }
}
