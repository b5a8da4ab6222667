//! Why a command did not do what it was asked to.

use std::borrow::Cow;

/// Why the store could not be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReadError {
    /// A file has to be read, and this thread must not wait for the disk: evaluate the command on another one.
    NeedsIo,
    /// The store failed; the message says how.
    Failed(String),
}

/// Why a command ends early. What it has written is taken back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// The client is told so: an error's code and text, without the leading minus sign.
    Told(Cow<'static, str>),
    /// The store could not be read.
    Unread(ReadError),
}

impl From<ReadError> for Fault {
    fn from(error: ReadError) -> Fault {
        Fault::Unread(error)
    }
}

impl Fault {
    /// An error that a client is told, with its code: `ERR no such key`.
    pub const fn told(message: &'static str) -> Fault {
        Fault::Told(Cow::Borrowed(message))
    }

    /// As [`Fault::told`], with a message that is made.
    pub const fn made(message: String) -> Fault {
        Fault::Told(Cow::Owned(message))
    }

    /// Whether it is [`Fault::WRONG_TYPE`].
    pub(crate) fn is_wrong_type(&self) -> bool {
        matches!(self, Fault::Told(message) if message.starts_with("WRONGTYPE "))
    }

    /// The key holds another type.
    pub const WRONG_TYPE: Fault =
        Fault::told("WRONGTYPE Operation against a key holding the wrong kind of value");
    /// The words of the command do not fit together.
    pub const SYNTAX: Fault = Fault::told("ERR syntax error");
    /// An argument or a value is not a number of 64 bits.
    pub const NOT_INTEGER: Fault = Fault::told("ERR value is not an integer or out of range");
    /// An argument or a value is not a number.
    pub const NOT_FLOAT: Fault = Fault::told("ERR value is not a valid float");
    /// There is no such key.
    pub const NO_SUCH_KEY: Fault = Fault::told("ERR no such key");
    /// An index is outside of a list.
    pub const OUT_OF_RANGE: Fault = Fault::told("ERR index out of range");
}
