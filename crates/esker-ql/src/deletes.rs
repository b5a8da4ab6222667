//! What a `DELETE` deletes of a row, for tables of any kind.

use crate::error::{Error, Result};
use crate::statement::{Columns, DeleteTime, Qualifiers};

/// A delete. `up_to`: the last timestamp that is deleted; `None`: the time of the write.
pub(crate) enum Deleted<'s> {
    Row { up_to: Option<i64> },
    Family { family: &'s str, up_to: Option<i64> },
    Column { family: &'s str, qualifier: &'s [u8], up_to: Option<i64> },
    Version { family: &'s str, qualifier: &'s [u8], timestamp: i64 },
}

/// The deletes of `columns`; of the row, if there are none.
pub(crate) fn deleted(columns: &[Columns], time: DeleteTime) -> Result<Vec<Deleted<'_>>> {
    if columns.is_empty() {
        return Ok(vec![Deleted::Row { up_to: up_to(time, "*")? }]);
    }
    let deletes = columns.iter().map(|columns| {
        let family = columns.family.as_str();
        match (&columns.qualifiers, time) {
            (Qualifiers::All, _) => Ok(Deleted::Family { family, up_to: up_to(time, family)? }),
            (Qualifiers::Exactly(qualifier), DeleteTime::Version(timestamp)) => {
                Ok(Deleted::Version { family, qualifier, timestamp })
            }
            (Qualifiers::Exactly(qualifier), _) => {
                Ok(Deleted::Column { family, qualifier, up_to: up_to(time, family)? })
            }
            (Qualifiers::Prefix(_) | Qualifiers::Regexp(_), _) => Err(of_pattern(columns)),
        }
    });
    deletes.collect()
}

/// Up to when `what` is deleted, of which single versions cannot be.
fn up_to(time: DeleteTime, what: &str) -> Result<Option<i64>> {
    match time {
        DeleteTime::Now => Ok(None),
        DeleteTime::UpTo(timestamp) => Ok(Some(timestamp)),
        DeleteTime::Version(_) => Err(Error::Impossible(format!(
            "DELETE {what} VERSION: a single version is one of a column, as in `DELETE f:q`"
        ))),
    }
}

/// The error of a delete of columns by a pattern.
pub(crate) fn of_pattern(columns: &Columns) -> Error {
    Error::Impossible(format!(
        "DELETE {columns}: a delete names families and columns, not patterns of columns"
    ))
}
