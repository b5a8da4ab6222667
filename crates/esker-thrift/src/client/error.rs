//! Why a call of the client fails.

use std::fmt;
use std::io;
use std::time::Duration;

use crate::fail::Thrown;
use crate::wire::Fault;

/// Why a call has failed.
#[derive(Debug)]
#[non_exhaustive]
pub enum CallError {
    /// The connection has failed.
    Io(io::Error),
    /// The server is silent: within a call, no bytes came or went for this long ([`crate::Client::set_patience`]).
    Silent {
        /// The method that was called.
        method: &'static str,
        /// How long the client has waited.
        waited: Duration,
    },
    /// What has arrived is no reply to the call.
    Broken(String),
    /// What the server throws: an `IOError`, an `IllegalArgument`, an `AlreadyExists`, an `EskerError`, or something undeclared.
    Thrown {
        /// Which one.
        kind: Thrown,
        /// What it says.
        message: String,
    },
}

impl fmt::Display for CallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CallError::Io(error) => write!(f, "the connection has failed: {error}"),
            CallError::Silent { method, waited } => {
                let seconds = waited.as_secs_f64();
                write!(f, "{method}: the server is silent for {seconds} s; it may still do the call")
            }
            CallError::Broken(message) => write!(f, "no reply to the call: {message}"),
            // HBase sends a stack trace; its first line says what is wrong.
            CallError::Thrown { message, .. } => f.write_str(message.lines().next().unwrap_or("no message")),
        }
    }
}

impl std::error::Error for CallError {}

impl From<io::Error> for CallError {
    fn from(error: io::Error) -> CallError {
        CallError::Io(error)
    }
}

impl From<Fault> for CallError {
    fn from(fault: Fault) -> CallError {
        CallError::Broken(match fault {
            Fault::Missing(bytes) => format!("{bytes} bytes are missing"),
            Fault::Bad(what) => what.to_owned(),
        })
    }
}

/// The result of a call.
pub type CallResult<T> = Result<T, CallError>;

pub(super) fn no_result(name: &str) -> CallError {
    CallError::Broken(format!("{name} has no result"))
}
