//! Errors of statements as failures of the command.

use esker_ql::Error;
use esker_thrift::CallError;

use crate::exit::Failure;

/// The failure of a statement that was read.
pub(super) fn failure(error: Error) -> Failure {
    match error {
        Error::Table(esker_table::Error::Store(error)) => error.into(),
        Error::Table(error @ esker_table::Error::Damaged(_)) => Failure::store(error.to_string()),
        Error::Remote(CallError::Io(_) | CallError::Broken(_)) => Failure::store(error.to_string()),
        Error::Remote(CallError::Silent { .. }) => {
            Failure::store(format!("{error}; --timeout SECONDS gives it more time"))
        }
        error => Failure::usage(error.to_string()),
    }
}
