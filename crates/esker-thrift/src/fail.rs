//! What a call throws.

use esker_table::Error;

pub(crate) type Outcome<T> = Result<T, Fail>;

/// A message shows so many bytes of what a client has sent, which may have a lot more.
const SHOWN_MAX: usize = 200;

/// Bytes of a client for a message.
pub(crate) fn shown(bytes: &[u8]) -> String {
    let (first, rest) = bytes.split_at(bytes.len().min(SHOWN_MAX));
    let (first, more) = (first.escape_ascii(), rest.len());
    if more == 0 { format!("\"{first}\"") } else { format!("\"{first}\" and {more} bytes more") }
}

/// An exception of HBase's interface.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Fail {
    /// `IOError`: the call is all right, but cannot be done.
    Io(String),
    /// `IllegalArgument`: what was given cannot be.
    Argument(String),
    /// `AlreadyExists`.
    Exists(String),
    /// `IOError`: the client may not do this.
    Denied(String),
}

impl From<Error> for Fail {
    fn from(error: Error) -> Fail {
        let message = error.to_string();
        match error {
            Error::TableExists(_) => Fail::Exists(message),
            Error::Invalid(_) | Error::Schema { .. } => Fail::Argument(message),
            _ => Fail::Io(message),
        }
    }
}

impl Fail {
    /// The number of the exception's field in the result of a method that declares the first `throws` exceptions, and the
    /// message. What a method does not declare is an `IOError`.
    pub(crate) fn thrown(self, throws: u8) -> (i16, String) {
        match self {
            Fail::Argument(message) if throws >= 2 => (2, message),
            Fail::Exists(message) if throws >= 3 => (3, message),
            Fail::Io(message) | Fail::Argument(message) | Fail::Exists(message) | Fail::Denied(message) => {
                (1, message)
            }
        }
    }
}
