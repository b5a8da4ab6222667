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

/// The longest message that a client is told, in bytes: it may show what the client has sent.
const MESSAGE_MAX: usize = 1000;

/// The message, or its beginning.
pub(crate) fn cut(mut message: String) -> String {
    if message.len() > MESSAGE_MAX {
        message.truncate(message.floor_char_boundary(MESSAGE_MAX));
        message.push_str("...");
    }
    message
}

/// The number of the `TApplicationException` that answers a method which the server does not have.
pub(crate) const UNKNOWN_METHOD: i32 = 1;

/// What a server throws.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Thrown {
    /// `IOError`: the call is all right, but cannot be done.
    Io,
    /// `IllegalArgument`: what was given cannot be.
    Argument,
    /// `AlreadyExists`: there is a table with this name.
    Exists,
    /// The client may not do this. Only Esker servers distinguish this and the kinds up to [`Thrown::SchemaChanged`].
    Denied,
    /// There is no such table.
    NoTable,
    /// The table has no such column family.
    NoFamily,
    /// There is no such namespace.
    NoNamespace,
    /// There is a namespace with this name.
    NamespaceExists,
    /// The namespace still has tables.
    NamespaceInUse,
    /// The table is disabled.
    Disabled,
    /// The schema was changed since it was read.
    SchemaChanged,
    /// The server does not have the method.
    UnknownMethod,
    /// Another error that the method does not declare.
    Other,
}

/// The numbers of `ErrorKind` in `Esker.thrift`.
const KINDS: [(i32, Thrown); 11] = [
    (1, Thrown::Io),
    (2, Thrown::Argument),
    (3, Thrown::Denied),
    (4, Thrown::NoTable),
    (5, Thrown::Exists),
    (6, Thrown::NoFamily),
    (7, Thrown::NoNamespace),
    (8, Thrown::NamespaceExists),
    (9, Thrown::NamespaceInUse),
    (10, Thrown::Disabled),
    (11, Thrown::SchemaChanged),
];

impl Thrown {
    /// The kind of an `EskerError`. One that a later version may have is [`Thrown::Io`].
    pub(crate) fn of_kind(number: i32) -> Thrown {
        KINDS.iter().find(|(known, _)| *known == number).map_or(Thrown::Io, |(_, kind)| *kind)
    }

    /// The number of the kind in an `EskerError`.
    pub(crate) fn kind(self) -> i32 {
        KINDS.iter().find(|(_, known)| *known == self).map_or(1, |(number, _)| *number)
    }
}

/// Why a call fails.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Fail {
    pub(crate) kind: Thrown,
    pub(crate) message: String,
    /// Whether the same call may succeed later.
    pub(crate) may_pass: bool,
    /// Whether HBase throws an `IOError` for it, whatever its kind.
    is_io: bool,
}

/// Whether a store may take the same call later.
fn may_pass(error: &Error) -> bool {
    use esker::ErrorKind::{Busy, Conflict, Deadlock, LockTimeout, OutOfResources, OutOfSpace};
    matches!(error, Error::Store(error) if matches!(
        error.kind(),
        Busy | Conflict | Deadlock | LockTimeout | OutOfResources | OutOfSpace
    ))
}

impl From<Error> for Fail {
    fn from(error: Error) -> Fail {
        let may_pass = may_pass(&error);
        let kind = match error {
            Error::TableExists(_) => Thrown::Exists,
            Error::Invalid(_) | Error::Schema { .. } | Error::Filter { .. } => Thrown::Argument,
            Error::NoTable(_) => Thrown::NoTable,
            Error::NoFamily { .. } => Thrown::NoFamily,
            Error::NoNamespace(_) => Thrown::NoNamespace,
            Error::NamespaceExists(_) => Thrown::NamespaceExists,
            Error::NamespaceInUse(_) => Thrown::NamespaceInUse,
            Error::Disabled(_) => Thrown::Disabled,
            Error::SchemaChanged { .. } => Thrown::SchemaChanged,
            _ => Thrown::Io,
        };
        Fail { kind, message: error.to_string(), may_pass, is_io: false }
    }
}

impl Fail {
    pub(crate) fn new(kind: Thrown, message: impl Into<String>) -> Fail {
        Fail { kind, message: message.into(), may_pass: false, is_io: false }
    }

    pub(crate) fn io(message: impl Into<String>) -> Fail {
        Fail::new(Thrown::Io, message)
    }

    pub(crate) fn argument(message: impl Into<String>) -> Fail {
        Fail::new(Thrown::Argument, message)
    }

    /// An `IOError` of HBase's methods, of this kind.
    pub(crate) fn into_io_error(self) -> Fail {
        Fail { is_io: true, ..self }
    }

    /// Of a call that may succeed later.
    pub(crate) fn for_now(message: impl Into<String>) -> Fail {
        Fail { may_pass: true, ..Fail::io(message) }
    }

    /// The number of the exception's field in the result of a method of HBase's that declares the first `throws` exceptions: `IOError`,
    /// `IllegalArgument`, `AlreadyExists`. What a method does not declare is an `IOError`.
    pub(crate) fn field(&self, throws: u8) -> i16 {
        match self.kind {
            _ if self.is_io => 1,
            Thrown::Argument if throws >= 2 => 2,
            Thrown::Exists if throws >= 3 => 3,
            _ => 1,
        }
    }
}
