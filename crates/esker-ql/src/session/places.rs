//! Where in its text a statement names what an error is about. Errors of the store and of connections have no place.

use esker_table::{PutCell, ROW_LEN_MAX};
use esker_thrift::{CallError, Thrown};

use super::schemas;
use crate::counters::counter;
use crate::error::Error;
use crate::names::similar;
use crate::plan::check_named;
use crate::statement::{Action, Column, Columns, Condition, NewCell, Placed, SchemaItem, TableName};
use crate::tables::{Tables, counters};

/// The families of `columns`.
pub(super) fn of_columns(columns: &[Columns]) -> impl Iterator<Item = &Placed<String>> {
    columns.iter().map(|columns| &columns.family)
}

/// The families that a `CHECK` names, in the order of the text.
pub(super) fn of_check(conditions: &[Condition], then: &[Action]) -> Vec<Placed<String>> {
    let asked = conditions.iter().map(|condition| match condition {
        Condition::Absent(column) | Condition::Value { column, .. } => &column.family,
    });
    let changed = then.iter().flat_map(|action| match action {
        Action::Insert { column, .. } | Action::Increment { column, .. } | Action::Append { column, .. } => {
            vec![&column.family]
        }
        Action::Delete { columns, .. } => of_columns(columns).collect(),
    });
    asked.chain(changed).cloned().collect()
}

/// The error, at the first cell that no table takes, if there is one.
pub(super) fn of_cells(error: Error, cells: &[NewCell]) -> Error {
    if !is_of_what_is_given(&error) {
        return error;
    }
    let wrong = cells.iter().find(|cell| cell.put().check().is_err());
    error.at(wrong.and_then(|cell| cell.row.at()))
}

/// The error that `value` is none of a counter, and why.
pub(super) fn of_counter(family: &str, value: &Placed<Vec<u8>>, reason: &str) -> Error {
    Error::Impossible(format!("the column family {family:?} has counters: {reason}")).at(value.at())
}

/// The families and values that a `CHECK` inserts.
pub(super) fn of_inserts(then: &[Action]) -> Vec<(Placed<String>, Placed<Vec<u8>>)> {
    let inserts = then.iter().filter_map(|action| match action {
        Action::Insert { column, value, .. } => Some((column.family.clone(), value.clone())),
        _ => None,
    });
    inserts.collect()
}

/// The error of a statement about `row`, at the row, if no table has such a row.
pub(super) fn of_row(error: Error, row: &Placed<Vec<u8>>) -> Error {
    let is_wrong = row.is_empty() || row.len() > ROW_LEN_MAX;
    if is_wrong && is_of_what_is_given(&error) { error.at(row.at()) } else { error }
}

/// The error of a change of one column, at the row if that cannot be, and at the column if its stored cell is why.
pub(super) fn of_cell(error: Error, row: &Placed<Vec<u8>>, column: &Column) -> Error {
    let error = of_row(error, row);
    let cell =
        PutCell { row, family: &column.family, qualifier: &column.qualifier, timestamp: None, value: &[] };
    if is_of_what_is_given(&error) && cell.check().is_ok() { error.at(column.family.at()) } else { error }
}

/// The error of a change of namespaces, at the name of the namespace if that is why.
pub(super) fn of_namespace(error: Error, name: &Placed<String>) -> Error {
    use esker_table::Error::{NamespaceExists, NamespaceInUse, NoNamespace};
    let is_of_name = match &error {
        Error::Table(NamespaceExists(_) | NamespaceInUse(_) | NoNamespace(_)) => true,
        Error::Remote(CallError::Thrown { kind, .. }) => {
            matches!(kind, Thrown::NamespaceExists | Thrown::NamespaceInUse | Thrown::NoNamespace)
        }
        _ => false,
    };
    if is_of_name || is_of_what_is_given(&error) { error.at(name.at()) } else { error }
}

/// The error of a new schema of `items`, at the first name that cannot be, if that is why.
pub(super) fn of_schema(error: Error, items: &[SchemaItem]) -> Error {
    if !matches!(error, Error::Table(esker_table::Error::Schema { .. })) {
        return error;
    }
    schemas::check_names(items).err().unwrap_or(error)
}

/// Whether the error says that what was given cannot be, whatever is stored.
pub(super) fn is_of_what_is_given(error: &Error) -> bool {
    matches!(
        error,
        Error::Table(esker_table::Error::Invalid(_))
            | Error::Remote(CallError::Thrown { kind: Thrown::Argument, .. })
    )
}

/// The error of a statement about `table`, at the name of it or of its namespace if that is why. `whole` is its whole name among
/// `tables`.
pub(super) fn of_table(error: Error, tables: &dyn Tables, table: &TableName, whole: &str) -> Error {
    use esker_table::Error::{Disabled, NoNamespace, NoTable, TableExists};
    match &error {
        Error::Table(NoTable(name)) if name == whole => {
            let hint = tables.names().map(|names| similar(whole, &names));
            error.with_hint(table.name.at(), hint.unwrap_or_default())
        }
        Error::Table(TableExists(name) | Disabled(name)) if name == whole => error.at(table.name.at()),
        Error::Table(NoNamespace(name)) if whole.split(':').next() == Some(name) => {
            let hint = tables.namespaces().map(|names| similar(name, &names));
            error.with_hint(table.name.at(), hint.unwrap_or_default())
        }
        _ => error,
    }
}

/// The error, at the first value that is none of a counter in a family of counters of the table `whole`, if there is one.
pub(super) fn of_counters<'v>(
    error: Error,
    tables: &dyn Tables,
    whole: &str,
    values: impl IntoIterator<Item = (&'v Placed<String>, &'v Placed<Vec<u8>>)>,
) -> Error {
    if !is_of_what_is_given(&error) {
        return error;
    }
    let Ok(schema) = tables.schema(whole) else { return error };
    let counters = counters(&schema);
    let mut of_counters = values.into_iter().filter(|(family, _)| counters.contains(family.as_str()));
    let wrong = of_counters
        .find_map(|(family, value)| counter(value).err().map(|reason| of_counter(family, value, &reason)));
    wrong.unwrap_or(error)
}

/// The error of a statement about `table`, at its name or at the first of `families` that it does not have.
pub(super) fn of_families<'n>(
    error: Error,
    tables: &dyn Tables,
    table: &TableName,
    whole: &str,
    families: impl IntoIterator<Item = &'n Placed<String>>,
) -> Error {
    // What HBase throws does not tell why.
    if !matches!(
        error,
        Error::Table(esker_table::Error::NoFamily { .. }) | Error::Remote(CallError::Thrown { .. })
    ) {
        return of_table(error, tables, table, whole);
    }
    match tables.schema(whole).map(|schema| check_named(families.into_iter(), &schema, whole)) {
        Ok(Err(found)) => found,
        Ok(Ok(())) | Err(_) => error,
    }
}
