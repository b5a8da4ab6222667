//! What can go wrong with a table.

use std::fmt;

/// The result of a call on tables.
pub type Result<T> = std::result::Result<T, Error>;

/// Why a call on tables has failed. A call that fails has changed nothing.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// There is no table with this name.
    NoTable(String),
    /// There is a table with this name already.
    TableExists(String),
    /// A table has no column family with this name.
    NoFamily {
        /// The table.
        table: String,
        /// The family that was asked for.
        family: String,
    },
    /// There is no namespace with this name.
    NoNamespace(String),
    /// There is a namespace with this name already.
    NamespaceExists(String),
    /// A namespace still has tables.
    NamespaceInUse(String),
    /// The table is disabled: it can be neither read nor written.
    Disabled(String),
    /// The schema of a table was changed by somebody else meanwhile.
    SchemaChanged {
        /// The version that the caller has changed.
        expected: u64,
        /// The version that the table has.
        found: u64,
    },
    /// What the caller gave cannot be: a row that is too long, a name with illegal characters, a negative timestamp.
    Invalid(String),
    /// A schema cannot be read or cannot be: what is wrong, and where in its text, in bytes, if it has one.
    Schema {
        /// What is wrong.
        message: String,
        /// Where in the text.
        at: Option<u64>,
    },
    /// A text is no filter: what is wrong or was expected, and where in the text, in bytes.
    Filter {
        /// What is wrong.
        message: String,
        /// Where in the text.
        at: usize,
    },
    /// The store has bytes where a table's should be that are not a table's.
    Damaged(String),
    /// The store has failed.
    Store(esker::Error),
}

impl Error {
    /// Whether the store has no room on its disk.
    pub fn lacks_room(&self) -> bool {
        matches!(self, Error::Store(error) if error.kind() == esker::ErrorKind::OutOfSpace)
    }

    pub(crate) fn invalid(message: impl Into<String>) -> Error {
        Error::Invalid(message.into())
    }

    pub(crate) fn schema(message: impl Into<String>) -> Error {
        Error::Schema { message: message.into(), at: None }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::NoTable(name) => write!(f, "there is no table {name:?}"),
            Error::TableExists(name) => write!(f, "there is a table {name:?} already"),
            Error::NoNamespace(name) => write!(f, "there is no namespace {name:?}"),
            Error::NamespaceExists(name) => write!(f, "there is a namespace {name:?} already"),
            Error::NamespaceInUse(name) => write!(f, "the namespace {name:?} has tables"),
            Error::Disabled(name) => write!(f, "the table {name:?} is disabled"),
            Error::SchemaChanged { expected, found } => {
                write!(f, "the schema was changed meanwhile: its version is {found}, not {expected}")
            }
            Error::NoFamily { table, family } => {
                write!(f, "the table {table:?} has no column family {family:?}")
            }
            Error::Invalid(message) => f.write_str(message),
            Error::Schema { message, at: None } => write!(f, "schema: {message}"),
            Error::Schema { message, at: Some(at) } => write!(f, "schema, at byte {at}: {message}"),
            Error::Filter { message, at } => write!(f, "filter, at byte {at}: {message}"),
            Error::Damaged(message) => write!(f, "damaged: {message}"),
            Error::Store(error) => write!(f, "{error}"),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::Store(error) => Some(error),
            _ => None,
        }
    }
}

impl From<esker_journal::Undone> for Error {
    fn from(undone: esker_journal::Undone) -> Error {
        esker::Error::from(undone).into()
    }
}

impl From<esker::Error> for Error {
    fn from(error: esker::Error) -> Self {
        Error::Store(error)
    }
}
