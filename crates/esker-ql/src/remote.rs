//! Statements on the tables of a server, by HBase's first Thrift interface: an Esker server, or an HBase cluster.
//!
//! ```text
//! SELECT ──> rows to scan, columns, what a filter of the server leaves out      (request)
//!            rows ──> what is shown of each                                     (rows)
//! INSERT, DELETE, CHECK ──> changes of rows, by Esker's own methods              (changes)
//! INSERT ──> calls to an HBase cluster                                           (puts)
//! ```
//! The interface knows less than the language: scans show the latest version of a column, there are no access groups, and a
//! table cannot be altered. Such a statement is `Impossible`, and says why. What the interface does not filter is filtered
//! here. An Esker server has methods of its own that can do all of this: each connection asks once whether the server has them.

mod changes;
mod connection;
mod puts;
mod request;
mod rows;

use core::time::Duration;
use std::sync::{Arc, Mutex};

use esker_table::{AccessGroup, CellBatch, Comparison, Family, Schema};
use esker_thrift::{
    CallError, CallResult, Change, Client, FamilyDescription, RowChanges, RowMutations, Thrown,
};

use crate::deletes::of_pattern;
use crate::error::{Error, Result};
use crate::statement::{
    Action, Column, Columns, Condition, DEFAULT_NAMESPACE, Delete, DeleteTime, Qualifiers, Select,
};
use crate::tables::{Cells, Tables};
use connection::{Connection, locked};
use puts::{APART, Calls};
use request::Request;
use rows::RemoteCells;

/// The name of the one access group that tables of a server have.
const GROUP: &str = "default";

/// How many calls an HBase cluster does at a time for one `INSERT`. It takes a call for each timestamp, and most of a call is waiting.
const CALLS_AT_A_TIME: usize = 16;

/// The tables of a server. A clone shares the connection.
///
/// After a connection has failed, the next statement makes another one.
#[derive(Debug, Clone)]
pub struct Remote {
    connection: Arc<Mutex<Connection>>,
}

/// What the interface cannot do.
fn cannot(what: &str) -> Error {
    Error::Impossible(format!("HBase's Thrift interface cannot {what}"))
}

/// What the server has thrown.
fn thrown(error: &Error) -> Option<Thrown> {
    match error {
        Error::Remote(CallError::Thrown { kind, .. }) => Some(*kind),
        _ => None,
    }
}

/// The error that the namespace of a table is not there.
fn no_namespace(table: &str) -> Error {
    let namespace = table.split(':').next().unwrap_or_default();
    esker_table::Error::NoNamespace(namespace.to_owned()).into()
}

/// The error of an increment. HBase's interface has one exception for a failing disk and for a stored cell that cannot be
/// incremented; an Esker server adds the kind.
fn of_stored_number(error: Error) -> Error {
    match error {
        Error::Remote(CallError::Thrown { kind: Thrown::Argument, message }) => {
            esker_table::Error::Invalid(message).into()
        }
        error => error,
    }
}

/// `family:qualifier`.
fn name(column: &Column) -> Vec<u8> {
    [column.family.as_bytes(), b":", &column.qualifier].concat()
}

impl Remote {
    /// Connects to a server. A call fails when the server neither sends nor takes any bytes for `patience`, as
    /// [`Client::set_patience`] says; `None`: it waits for ever.
    ///
    /// # Errors
    /// `Remote` when no address of the host accepts the connection, or `patience` is zero.
    pub fn connect(host: &str, port: u16, patience: Option<Duration>) -> Result<Remote> {
        let connection = Connection::connect(host, port, patience)?;
        Ok(Remote { connection: Arc::new(Mutex::new(connection)) })
    }

    /// Clients with connections of their own: as many as are of use, or as the server takes. A server that takes a connection may
    /// have no thread for it.
    fn more_clients(&self) -> Vec<Client> {
        let connect = locked(&self.connection).more();
        (1..CALLS_AT_A_TIME).map_while(|_| connect().ok()).collect()
    }

    /// What a query asks of the server.
    fn request(&self, table: &str, select: &Select) -> Result<Request> {
        let is_eskers = self.is_eskers()?;
        if select.options.return_deletes && !is_eskers {
            return Err(cannot("show deletes (RETURN_DELETES)"));
        }
        Request::of(select, &self.schema(table)?, table, is_eskers)
    }

    /// Whether the server has Esker's own methods.
    fn is_eskers(&self) -> Result<bool> {
        Ok(locked(&self.connection).is_eskers()?)
    }

    /// Fails if the server has not got Esker's own methods, of which one does `what`.
    fn need_eskers(&self, what: &str) -> Result<()> {
        if self.is_eskers()? { Ok(()) } else { Err(cannot(what)) }
    }

    fn call<T>(&self, call: impl FnOnce(&mut Client) -> CallResult<T>) -> Result<T> {
        Ok(call(locked(&self.connection).client()?)?)
    }

    /// A call of one of Esker's own methods about a table.
    fn own<T>(&self, table: &str, call: impl FnOnce(&mut Client) -> CallResult<T>) -> Result<T> {
        self.call(call).map_err(|error| match thrown(&error) {
            Some(Thrown::NoTable) => esker_table::Error::NoTable(table.to_owned()).into(),
            Some(Thrown::Exists) => esker_table::Error::TableExists(table.to_owned()).into(),
            Some(Thrown::NoNamespace) => no_namespace(table),
            _ => error,
        })
    }

    /// A call about a table. If it fails and there is no such table, the error says so.
    fn about<T>(&self, table: &str, call: impl FnOnce(&mut Client) -> CallResult<T>) -> Result<T> {
        let failed = match self.call(call) {
            Err(Error::Remote(error @ CallError::Thrown { .. })) => error,
            done => return done,
        };
        if matches!(self.is_eskers(), Ok(true)) {
            // An Esker server says it itself. It does not list a table of which the client may not read anything.
            return Err(match failed {
                CallError::Thrown { kind: Thrown::NoTable, .. } => {
                    esker_table::Error::NoTable(table.to_owned()).into()
                }
                failed => failed.into(),
            });
        }
        match self.names() {
            Ok(names) if !names.iter().any(|name| name == table) => {
                Err(esker_table::Error::NoTable(table.to_owned()).into())
            }
            // A server that has closed the connection has said why before.
            _ => Err(failed.into()),
        }
    }
}

impl Tables for Remote {
    fn namespaces(&self) -> Result<Vec<String>> {
        if self.is_eskers()? {
            return self.call(Client::namespaces);
        }
        let mut namespaces = vec![DEFAULT_NAMESPACE.to_owned()];
        namespaces.extend(self.names()?.iter().filter_map(|name| Some(name.split_once(':')?.0.to_owned())));
        namespaces.sort_unstable();
        namespaces.dedup();
        Ok(namespaces)
    }

    fn create_namespace(&self, name: &str) -> Result<()> {
        self.need_eskers("make namespaces")?;
        self.call(|client| client.create_namespace(name)).map_err(|error| match thrown(&error) {
            Some(Thrown::NamespaceExists) => esker_table::Error::NamespaceExists(name.to_owned()).into(),
            _ => error,
        })
    }

    fn drop_namespace(&self, name: &str) -> Result<()> {
        self.need_eskers("remove namespaces")?;
        self.call(|client| client.drop_namespace(name)).map_err(|error| match thrown(&error) {
            Some(Thrown::NoNamespace) => esker_table::Error::NoNamespace(name.to_owned()).into(),
            _ => error,
        })
    }

    fn names(&self) -> Result<Vec<String>> {
        let names = self.call(Client::table_names)?;
        let mut names: Vec<String> =
            names.iter().map(|name| String::from_utf8_lossy(name).into_owned()).collect();
        names.sort_unstable();
        Ok(names)
    }

    fn schema(&self, table: &str) -> Result<Schema> {
        if self.is_eskers()? {
            return Ok(Schema::from_xml(&self.own(table, |client| client.schema(table))?)?);
        }
        let families = self.about(table, |client| client.families(table.as_bytes()))?;
        if families.is_empty() {
            // HBase describes a table that it does not have as one without families.
            return Err(esker_table::Error::NoTable(table.to_owned()).into());
        }
        Ok(Schema::new().group(GROUP, families.iter().map(family)))
    }

    fn create(&self, table: &str, schema: Schema) -> Result<()> {
        if self.is_eskers()? {
            let xml = schema.to_xml()?;
            return self.own(table, |client| client.create_table_of(table, &xml));
        }
        if schema.groups().len() > 1 {
            return Err(cannot("make access groups"));
        }
        let families = schema.groups().iter().flat_map(AccessGroup::families);
        if families.clone().any(|family| family.has_value_index() || family.has_qualifier_index()) {
            return Err(cannot("make indexes"));
        }
        let families = families.map(description).collect::<Result<Vec<_>>>()?;
        match self.call(|client| client.create_table(table.as_bytes(), &families)) {
            Err(Error::Remote(CallError::Thrown { kind: Thrown::Exists, .. })) => {
                Err(esker_table::Error::TableExists(table.to_owned()).into())
            }
            done => done,
        }
    }

    fn alter(&self, table: &str, schema: Schema) -> Result<()> {
        self.need_eskers("alter tables")?;
        let xml = schema.to_xml()?;
        self.own(table, |client| client.alter_table(table, &xml))
    }

    fn rebuild_indexes(&self, table: &str) -> Result<()> {
        self.need_eskers("rebuild indexes")?;
        self.own(table, |client| client.rebuild_indexes(table))
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        self.need_eskers("rename tables")?;
        self.own(from, |client| client.rename_table(from, to)).map_err(|error| match error {
            Error::Table(esker_table::Error::TableExists(_)) => {
                esker_table::Error::TableExists(to.to_owned()).into()
            }
            Error::Table(esker_table::Error::NoNamespace(_)) => no_namespace(to),
            error => error,
        })
    }

    fn drop_table(&self, table: &str) -> Result<()> {
        if self.is_eskers()? {
            return self.own(table, |client| client.drop_table(table));
        }
        let is_enabled = self.about(table, |client| client.is_table_enabled(table.as_bytes()))?;
        if is_enabled {
            self.about(table, |client| client.disable_table(table.as_bytes()))?;
        }
        let dropped = self.about(table, |client| client.delete_table(table.as_bytes()));
        if dropped.is_err() && is_enabled {
            // It stays as it was, as far as that is possible; the first error is the one that counts.
            drop(self.call(|client| client.enable_table(table.as_bytes())));
        }
        dropped
    }

    /// HBase's Thrift interface deletes rows up to a timestamp, and a delete up to a later one hides what is written until then.
    fn truncate(&self, table: &str) -> Result<bool> {
        if !self.is_eskers()? {
            return Ok(false);
        }
        self.own(table, |client| client.truncate_table(table))?;
        Ok(true)
    }

    fn compact(&self, table: &str) -> Result<()> {
        self.about(table, |client| client.major_compact(table.as_bytes()))
    }

    fn have_counters(&self) -> Result<bool> {
        self.is_eskers()
    }

    /// All cells count together on an Esker server. On HBase it takes a call for each timestamp, and one for each put of a column
    /// without a timestamp; the cells of a row count together for each call.
    fn insert(&self, table: &str, cells: &CellBatch) -> Result<()> {
        if self.is_eskers()? {
            return self.own(table, |client| client.put_cells(table, cells));
        }
        let Calls { in_turn, timed } = Calls::of(cells);
        for rows in &in_turn {
            let needs_pause = locked(&self.connection).recent.needs_pause(table, rows);
            self.about(table, |client| {
                if needs_pause {
                    client.wait_since_reply(APART);
                }
                client.mutate_rows(table.as_bytes(), rows, None)
            })?;
        }
        let mut others = if timed.len() > CALLS_AT_A_TIME { self.more_clients() } else { Vec::new() };
        self.about(table, |client| client.mutate_rows_of_each(&mut others, table.as_bytes(), &timed))
    }

    fn delete(&self, table: &str, delete: &Delete) -> Result<()> {
        if self.is_eskers()? {
            let mutations = changes::of_delete(&delete.columns, delete.time)?;
            let rows = [RowMutations { row: delete.row.to_vec(), mutations }];
            return self.own(table, |client| client.change_rows(table, &rows));
        }
        let timestamp = match delete.time {
            DeleteTime::Now => None,
            DeleteTime::UpTo(timestamp) => Some(timestamp),
            DeleteTime::Version(_) => return Err(cannot("delete single versions")),
        };
        if delete.columns.is_empty() {
            return self.about(table, |client| client.delete_row(table.as_bytes(), &delete.row, timestamp));
        }
        let changes = delete.columns.iter().map(deletion).collect::<Result<Vec<_>>>()?;
        let rows = [RowChanges { row: delete.row.to_vec(), changes }];
        self.about(table, |client| client.mutate_rows(table.as_bytes(), &rows, timestamp))
    }

    fn increment(&self, table: &str, row: &[u8], column: &Column, by: i64) -> Result<i64> {
        let sum = self.about(table, |client| client.increment(table.as_bytes(), row, &name(column), by));
        sum.map_err(of_stored_number)
    }

    fn append(&self, table: &str, row: &[u8], column: &Column, value: Vec<u8>) -> Result<Vec<u8>> {
        let whole =
            self.about(table, |client| client.append(table.as_bytes(), row, &name(column), &value))?;
        Ok(whole.unwrap_or_default())
    }

    fn check(&self, table: &str, row: &[u8], conditions: &[Condition], then: Vec<Action>) -> Result<bool> {
        if self.is_eskers()? {
            let asked: Vec<_> = conditions.iter().map(changes::of_condition).collect();
            let row = RowMutations { row: row.to_vec(), mutations: changes::of_actions(then)? };
            return self.own(table, |client| client.check_and_change(table, &asked, &row));
        }
        let (column, expected) = match conditions {
            [Condition::Absent(column)] => (column, None),
            [Condition::Value { column, comparison: Comparison::Equal, value }] => (column, Some(&value[..])),
            [_] => return Err(cannot("check anything but `=` and `IS ABSENT`")),
            _ => return Err(cannot("check several conditions")),
        };
        let put = match then.as_slice() {
            [Action::Insert { timestamp: None, column, value }] => {
                Change { column: name(column), value: Some((**value).clone()) }
            }
            _ => {
                return Err(cannot(
                    "do anything after a check but insert one cell, at the time of the write",
                ));
            }
        };
        self.about(table, |client| client.check_and_put(table.as_bytes(), row, &name(column), expected, &put))
    }

    fn select(&self, table: &str, select: &Select) -> Result<Box<dyn Cells>> {
        let request = self.request(table, select)?;
        Ok(Box::new(RemoteCells::new(Arc::clone(&self.connection), table, request)))
    }

    fn explain(&self, table: &str, select: &Select) -> Result<Vec<String>> {
        let request = self.request(table, select)?;
        let by = if request.is_eskers { "on an Esker server" } else { "by HBase's Thrift interface" };
        let mut lines = vec![format!("table {table}, {by}")];
        lines.extend(request.describe());
        Ok(lines)
    }
}

fn family(description: &FamilyDescription) -> Family {
    let versions = u32::try_from(description.max_versions).ok();
    let versions = versions.filter(|versions| *versions > 0 && *versions != i32::MAX as u32);
    let ttl = u64::try_from(description.ttl_s).ok();
    let ttl = ttl.filter(|ttl| *ttl > 0 && *ttl != i32::MAX as u64);
    Family::new(String::from_utf8_lossy(&description.name))
        .max_versions(versions)
        .ttl(ttl.map(core::time::Duration::from_secs))
}

fn description(family: &Family) -> Result<FamilyDescription> {
    if family.is_counter() {
        return Err(cannot("make families of counters; INCREMENT works in any family"));
    }
    let versions = family.kept_versions().map_or(Ok(i32::MAX), i32::try_from);
    let ttl_s = match family.time_to_live() {
        None => i32::MAX,
        Some(ttl) => match i32::try_from(ttl.as_secs()) {
            Ok(seconds) if ttl.subsec_nanos() == 0 && seconds > 0 => seconds,
            _ => {
                return Err(cannot(
                    "make a family with such a time to live: it is 1 to 2^31 - 1 whole seconds",
                ));
            }
        },
    };
    Ok(FamilyDescription {
        name: family.name().as_bytes().to_vec(),
        max_versions: versions.unwrap_or(i32::MAX),
        ttl_s,
    })
}

/// The delete of columns.
fn deletion(columns: &Columns) -> Result<Change> {
    let column = match &columns.qualifiers {
        Qualifiers::All => columns.family.as_bytes().to_vec(),
        Qualifiers::Exactly(qualifier) => [columns.family.as_bytes(), b":", qualifier].concat(),
        Qualifiers::Prefix(_) | Qualifiers::Regexp(_) => return Err(of_pattern(columns)),
    };
    Ok(Change { column, value: None })
}
