//! What statements change, as Esker's own methods are told of it.

use esker_thrift::{Asked, Mutation};

use crate::deletes::{Deleted, deleted};
use crate::error::Result;
use crate::statement::{Action, Column, Columns, Condition, DeleteTime};

/// The deletes of `columns`; of the row, if there are none.
pub(super) fn of_delete(columns: &[Columns], time: DeleteTime) -> Result<Vec<Mutation>> {
    let deletes = deleted(columns, time)?.into_iter();
    let mutations = deletes.map(|delete| match delete {
        Deleted::Row { up_to } => Mutation::DeleteRow { up_to },
        Deleted::Family { family, up_to } => Mutation::DeleteFamily { family: family.to_owned(), up_to },
        Deleted::Column { family, qualifier, up_to } => {
            Mutation::DeleteColumn { family: family.to_owned(), qualifier: qualifier.to_vec(), up_to }
        }
        Deleted::Version { family, qualifier, timestamp } => {
            Mutation::DeleteVersion { family: family.to_owned(), qualifier: qualifier.to_vec(), timestamp }
        }
    });
    Ok(mutations.collect())
}

/// What `CHECK` does to its row.
pub(super) fn of_actions(actions: Vec<Action>) -> Result<Vec<Mutation>> {
    let mut mutations = Vec::with_capacity(actions.len());
    for action in actions {
        match action {
            Action::Insert { timestamp, column: Column { family, qualifier }, value } => {
                mutations.push(Mutation::Put {
                    family: family.into_inner(),
                    qualifier,
                    value: value.into_inner(),
                    timestamp,
                });
            }
            Action::Delete { columns, time } => mutations.extend(of_delete(&columns, time)?),
            Action::Increment { column: Column { family, qualifier }, by } => {
                let family = family.into_inner();
                mutations.push(Mutation::Increment { family, qualifier, by });
            }
            Action::Append { column: Column { family, qualifier }, value } => {
                let family = family.into_inner();
                mutations.push(Mutation::Append { family, qualifier, value });
            }
        }
    }
    Ok(mutations)
}

/// What `CHECK` asks of a column.
pub(super) fn of_condition(condition: &Condition) -> esker_thrift::Condition {
    let (column, asked) = match condition {
        Condition::Absent(column) => (column, Asked::Absent),
        Condition::Value { column, comparison, value } => (column, Asked::Value(*comparison, value.clone())),
    };
    let Column { family, qualifier } = column.clone();
    esker_thrift::Condition { family: family.into_inner(), qualifier, asked }
}
