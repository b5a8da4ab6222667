//! Runs statements.
//!
//! ```text
//! Statement ──> Session ──> Tables          the names of tables are made whole by the namespace in use
//!                  │
//!               Answer       names, a text, a number, cells, or a file that the caller has to read or write
//! ```
//! A session does not open files: `LOAD DATA`, `DUMP TABLE`, `INTO FILE` and `SOURCE` are handed to the caller, who knows which
//! files may be opened.

mod analysis;
mod limits;
mod paths;
mod places;
mod schemas;

use core::time::Duration;

use esker_table::{CellBatch, PutCell, Schema};
use esker_thrift::{CallError, Thrown};

use crate::counters::{counter, decimal, is_sum};
use crate::error::{Error, Result};
use crate::names::similar;
use crate::plan::check_named;
use crate::statement::{
    Action, Bound, Column, Columns, Counted, DEFAULT_NAMESPACE, Delete, DeleteTime, DumpTable, FileCell,
    Interval, LoadData, Placed, Qualifiers, Rows, Select, SelectOptions, Statement, TableName, Term,
};
use crate::tables::{Cells, Tables, counters};
use limits::Limited;

/// After so many rows, `DELETE` ends its query and begins another one for the rows after them.
const DELETED_AT_ONCE: i64 = 10_000;

/// Statements of one user, one after the other, and the namespace that they use.
///
/// # Example
/// ```
/// use esker_ql::{Answer, Session, statements};
///
/// let tables = esker_table::Tables::open_in_memory(esker::Options::default())?;
/// let mut session = Session::new(tables);
/// let text = b"CREATE TABLE t (f); INSERT INTO t VALUES ('row', f:q, 'value'); SELECT f FROM t WHERE ROW =^ 'r';";
/// for statement in statements(text) {
///     if let Answer::Cells { mut cells, .. } = session.execute(statement?.statement)? {
///         assert!(cells.advance()?);
///         assert_eq!((cells.row(), &cells.value()?[..]), (&b"row"[..], &b"value"[..]));
///     }
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Session {
    tables: Box<dyn Tables + Send + Sync>,
    /// Empty: the default one.
    namespace: String,
    /// Whether it was chosen by HQL's path: then names without one are sought within it.
    is_path: bool,
}

/// What a statement is answered.
#[non_exhaustive]
pub enum Answer {
    /// Nothing: it is done.
    Done,
    /// Names, or other lines.
    Names(Vec<String>),
    /// A text of several lines.
    Text(String),
    /// A number.
    Number(i64),
    /// Whether something is so.
    Truth(bool),
    /// Bytes.
    Bytes(Vec<u8>),
    /// The cells of a query. What `select` says of a file and of how they are shown is up to the caller.
    Cells {
        /// The cells.
        cells: Box<dyn Cells>,
        /// The query.
        select: Box<Select>,
    },
    /// The caller has to load a file.
    Load {
        /// The whole name of the table.
        table: String,
        /// Its schema.
        schema: Schema,
        /// What to load.
        load: LoadData,
    },
    /// The caller has to write the cells into a file.
    Dump {
        /// The cells: all versions.
        cells: Box<dyn Cells>,
        /// Into which file.
        dump: DumpTable,
    },
    /// The caller has to write a file into a cell.
    LoadCell {
        /// The whole name of the table.
        table: String,
        /// The cell and the file.
        cell: FileCell,
        /// The cell's timestamp; `None`: the time of the write.
        timestamp: Option<i64>,
    },
    /// The caller has to write the value of the first of the cells, if there is one, into a file.
    DumpCell {
        /// The cell, or none.
        cells: Box<dyn Cells>,
        /// Into which file.
        file: Vec<u8>,
    },
    /// The caller has to run the statements of a file.
    Source(Vec<u8>),
    /// The caller has to wait for so long.
    Pause(Duration),
    /// The caller has to run no more statements.
    Quit,
    /// The caller has to read a file, and give its text to [`Session::change_schema`].
    ReadSchema {
        /// The file.
        file: Vec<u8>,
        /// What its text is for.
        change: SchemaChange,
    },
    /// The caller has to write a schema into a file.
    WriteSchema {
        /// The file.
        file: Vec<u8>,
        /// The schema as XML.
        text: String,
    },
}

/// What a schema that is read from a file is for.
#[derive(Debug, Clone)]
pub struct SchemaChange {
    table: TableName,
    /// Whether a new table gets it, and whether one that is there is no error. `None`: a table that is there gets it.
    creates_if_not_exists: Option<bool>,
}

impl std::fmt::Debug for Answer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Answer::Done => "Done",
            Answer::Names(_) => "Names",
            Answer::Text(_) => "Text",
            Answer::Number(_) => "Number",
            Answer::Truth(_) => "Truth",
            Answer::Bytes(_) => "Bytes",
            Answer::Cells { .. } => "Cells",
            Answer::Load { .. } => "Load",
            Answer::Dump { .. } => "Dump",
            Answer::LoadCell { .. } => "LoadCell",
            Answer::DumpCell { .. } => "DumpCell",
            Answer::Source(_) => "Source",
            Answer::Pause(_) => "Pause",
            Answer::Quit => "Quit",
            Answer::ReadSchema { .. } => "ReadSchema",
            Answer::WriteSchema { .. } => "WriteSchema",
        })
    }
}

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Session").field("namespace", &self.namespace()).finish_non_exhaustive()
    }
}

impl Session {
    /// A session in the namespace `default`.
    pub fn new(tables: impl Tables + Send + Sync + 'static) -> Session {
        Session { tables: Box::new(tables), namespace: String::new(), is_path: false }
    }

    /// The tables.
    pub fn tables(&self) -> &dyn Tables {
        &*self.tables
    }

    /// The namespace in use.
    pub fn namespace(&self) -> &str {
        if self.namespace.is_empty() { DEFAULT_NAMESPACE } else { &self.namespace }
    }

    /// The names of the tables of the namespace in use.
    ///
    /// # Errors
    /// The tables' own.
    pub fn names(&self) -> Result<Vec<String>> {
        let all = self.tables.names()?.into_iter();
        Ok(match self.namespace.as_str() {
            "" => all.filter(|name| !name.contains(':')).collect(),
            namespace => all
                .filter_map(|name| {
                    let (of, name) = name.split_once(':')?;
                    (of == namespace).then(|| name.to_owned())
                })
                .collect(),
        })
    }

    /// Runs a statement.
    ///
    /// # Errors
    /// The tables' own; `Impossible` when these tables cannot do it. Nothing has changed then.
    pub fn execute(&mut self, statement: Statement) -> Result<Answer> {
        let tables = &self.tables;
        match statement {
            Statement::CreateNamespace { mut name, if_not_exists } => {
                self.resolve(&mut name, true)?;
                match tables.create_namespace(&name) {
                    Err(Error::Table(esker_table::Error::NamespaceExists(_))) if if_not_exists => {}
                    done => done.map_err(|error| places::of_namespace(error, &name))?,
                }
                Ok(Answer::Done)
            }
            Statement::DropNamespace { mut name, if_exists } => {
                if self.resolve(&mut name, false)? {
                    self.check_childless(&name)?;
                }
                match tables.drop_namespace(&name) {
                    Err(Error::Table(esker_table::Error::NoNamespace(_))) if if_exists => {}
                    done => done.map_err(|error| places::of_namespace(error, &name))?,
                }
                Ok(Answer::Done)
            }
            Statement::Use(name) => self.choose(name),
            Statement::GetListing if self.is_path => {
                let children = paths::children(&tables.namespaces()?, &self.namespace);
                let children = children.into_iter().map(|name| format!("{name} (namespace)"));
                let mut names: Vec<String> = children.chain(self.names()?).collect();
                names.sort_unstable();
                Ok(Answer::Names(names))
            }
            Statement::GetListing => {
                let namespaces = tables.namespaces()?.into_iter().map(|name| format!("{name} (namespace)"));
                Ok(Answer::Names(namespaces.chain(self.names()?).collect()))
            }
            Statement::ShowNamespaces => Ok(Answer::Names(tables.namespaces()?)),
            Statement::ShowTables => self.names().map(Answer::Names),
            Statement::ShowCreateTable(table) => {
                let items = schemas::items(&self.schema(&table)?);
                let create = Statement::CreateTable { table, items, if_not_exists: false };
                Ok(Answer::Text(format!("{create};\n")))
            }
            Statement::DescribeTable { table, with_ids, into_file } => {
                let schema = self.schema(&table)?;
                let shown = if with_ids { schema } else { schemas::without_ids(&schema) };
                let text = shown.to_xml()?;
                Ok(match into_file {
                    Some(file) => Answer::WriteSchema { file, text },
                    None => Answer::Text(text),
                })
            }
            Statement::CreateTableFromFile { table, file, if_not_exists } => {
                let change = SchemaChange { table, creates_if_not_exists: Some(if_not_exists) };
                Ok(Answer::ReadSchema { file, change })
            }
            Statement::AlterTableFromFile { table, file } => {
                let change = SchemaChange { table, creates_if_not_exists: None };
                Ok(Answer::ReadSchema { file, change })
            }
            Statement::ExistsTable(table) => match tables.schema(&self.whole(&table)) {
                Ok(_) => Ok(Answer::Truth(true)),
                Err(Error::Table(esker_table::Error::NoTable(_))) => Ok(Answer::Truth(false)),
                Err(error) => Err(error),
            },
            Statement::RenameTable { from, to } => {
                let renamed = tables.rename(&self.whole(&from), &self.whole(&to));
                let failed = |error| match places::is_of_what_is_given(&error) {
                    true => error.at(to.name.at()),
                    false => self.of_table(self.of_table(error, &from), &to),
                };
                renamed.map(|()| Answer::Done).map_err(failed)
            }
            Statement::DropTable { table, if_exists } => {
                match tables.drop_table(&self.whole(&table)) {
                    Err(Error::Table(esker_table::Error::NoTable(_))) if if_exists => {}
                    done => done.map_err(|error| self.of_table(error, &table))?,
                }
                Ok(Answer::Done)
            }
            Statement::CreateTable { table, items, if_not_exists } => {
                let created = self.create(&table, schemas::new(&items)?, if_not_exists);
                created.map_err(|error| places::of_schema(error, &items))
            }
            Statement::CreateTableLike { table, like, if_not_exists } => {
                let schema = schemas::without_ids(&self.schema(&like)?);
                self.create(&table, schema, if_not_exists)
            }
            Statement::AlterTable { table, changes } => {
                let schema = schemas::changed(self.schema(&table)?, &changes)?;
                self.alter(&table, schema)
            }
            Statement::Insert { table, mut cells } => {
                let given = cells.iter_mut().map(|cell| (&cell.column.family, &mut cell.value));
                let are_read = self.read_counters(&table, given.collect())?;
                let mut batch = CellBatch::new();
                cells.iter().for_each(|cell| batch.push(cell.put()));
                let inserted = tables.insert(&self.whole(&table), &batch);
                let families = cells.iter().map(|cell| &cell.column.family);
                let values = cells.iter().map(|cell| (&cell.column.family, &cell.value));
                let failed = |error| {
                    let error = self.of_families(error, &table, families);
                    let error = if are_read { error } else { self.of_counters(error, &table, values) };
                    places::of_cells(error, &cells)
                };
                inserted.map(|()| Answer::Done).map_err(failed)
            }
            Statement::Delete(delete) => {
                let deleted = tables.delete(&self.whole(&delete.table), &delete);
                let families = places::of_columns(&delete.columns);
                let failed =
                    |error| places::of_row(self.of_families(error, &delete.table, families), &delete.row);
                deleted.map(|()| Answer::Done).map_err(failed)
            }
            Statement::Increment { table, row, column, by } => {
                let sum = tables.increment(&self.whole(&table), &row, &column, by);
                let failed =
                    |error| places::of_cell(self.of_families(error, &table, [&column.family]), &row, &column);
                sum.map(Answer::Number).map_err(failed)
            }
            Statement::Append { table, row, column, value } => {
                let whole = tables.append(&self.whole(&table), &row, &column, value);
                let failed =
                    |error| places::of_cell(self.of_families(error, &table, [&column.family]), &row, &column);
                whole.map(Answer::Bytes).map_err(failed)
            }
            Statement::Check { table, row, conditions, mut then } => {
                let given = then.iter_mut().filter_map(|action| match action {
                    Action::Insert { column, value, .. } => Some((&column.family, value)),
                    _ => None,
                });
                let are_read = self.read_counters(&table, given.collect())?;
                let families = places::of_check(&conditions, &then);
                let values = if are_read { Vec::new() } else { places::of_inserts(&then) };
                let held = tables.check(&self.whole(&table), &row, &conditions, then);
                let values = values.iter().map(|(family, value)| (family, value));
                let failed = |error| {
                    let error = places::of_row(self.of_families(error, &table, &families), &row);
                    self.of_counters(error, &table, values)
                };
                held.map(Answer::Truth).map_err(failed)
            }
            Statement::DeleteRows { columns, table, rows, time } => {
                self.delete_rows(Delete { columns, table, row: Vec::new().into(), time }, rows)
            }
            Statement::Truncate(table) => self.truncate(table),
            Statement::Count { select, counted } => self.count(*select, counted).map(Answer::Number),
            Statement::LoadCell { cell, timestamp } => {
                let schema = self.schema(&cell.table)?;
                check_named([&cell.column.family].into_iter(), &schema, &cell.table.name)?;
                let (family, qualifier) = (cell.column.family.as_str(), &cell.column.qualifier[..]);
                let put = PutCell { row: &cell.row, family, qualifier, timestamp, value: &[] };
                put.check().map_err(|error| places::of_row(error.into(), &cell.row))?;
                if counters(&schema).contains(cell.column.family.as_str()) {
                    let message =
                        format!("the column family {:?} has counters, not files", *cell.column.family);
                    return Err(Error::Impossible(message).at(cell.column.family.at()));
                }
                Ok(Answer::LoadCell { table: self.whole(&cell.table), cell, timestamp })
            }
            Statement::DumpCell(FileCell { file, table, row, column }) => {
                let Column { family, qualifier } = column;
                let columns = vec![Columns { family, qualifiers: Qualifiers::Exactly(qualifier) }];
                let options = SelectOptions { max_versions: Some(1), ..SelectOptions::default() };
                let terms = vec![Term::Rows(vec![Rows::Exactly(row.into_inner())])];
                let select = Select { is_of_cells: true, columns, table, terms, options };
                Ok(Answer::DumpCell { cells: Box::new(self.select(&select)?), file })
            }
            Statement::Select(select) => Ok(Answer::Cells { cells: Box::new(self.select(&select)?), select }),
            Statement::Explain { select, is_analyzed } => self.explain(&select, is_analyzed),
            Statement::LoadData(load) => {
                let schema = self.schema(&load.table)?;
                Ok(Answer::Load { table: self.whole(&load.table), schema, load })
            }
            Statement::DumpTable(dump) => {
                let (columns, table, terms) = (dump.columns.clone(), dump.table.clone(), dump.terms.clone());
                let options = SelectOptions { max_versions: dump.max_versions, ..SelectOptions::default() };
                let all = Select { columns, table, is_of_cells: true, terms, options };
                let cells = tables.select(&self.whole(&dump.table), &all);
                Ok(Answer::Dump { cells: cells.map_err(|error| self.of_table(error, &dump.table))?, dump })
            }
            Statement::Compact(table) => {
                let compacted = tables.compact(&self.whole(&table));
                compacted.map(|()| Answer::Done).map_err(|error| self.of_table(error, &table))
            }
            Statement::CompactRanges { is_of_tables } => {
                if is_of_tables {
                    tables.names()?.iter().try_for_each(|table| tables.compact(table))?;
                }
                Ok(Answer::Done)
            }
            Statement::WaitForMaintenance => Ok(Answer::Done),
            Statement::Pause { seconds } => Ok(Answer::Pause(Duration::from_secs(seconds))),
            Statement::Quit => Ok(Answer::Quit),
            Statement::RebuildIndices(table) => {
                let rebuilt = tables.rebuild_indexes(&self.whole(&table));
                rebuilt.map(|()| Answer::Done).map_err(|error| self.of_table(error, &table))
            }
            Statement::Source(file) => Ok(Answer::Source(file)),
        }
    }

    /// Deletes as `delete` says, in each of the rows. What was deleted before a failure stays deleted.
    fn delete_rows(&self, mut delete: Delete, rows: Vec<Rows>) -> Result<Answer> {
        let failed = |error| self.of_families(error, &delete.table, places::of_columns(&delete.columns));
        let bound = |at| Some(Bound { at, is_included: true });
        let time = match delete.time {
            DeleteTime::Now => Interval { low: None, high: None },
            DeleteTime::UpTo(timestamp) => Interval { low: None, high: bound(timestamp) },
            DeleteTime::Version(timestamp) => Interval { low: bound(timestamp), high: bound(timestamp) },
        };
        let mut select = Select {
            is_of_cells: true,
            columns: delete.columns.clone(),
            table: delete.table.clone(),
            terms: vec![Term::Rows(rows), Term::Time(time)],
            options: SelectOptions { max_versions: Some(1), keys_only: true, ..SelectOptions::default() },
        };
        let table = self.whole(&delete.table);
        let of_statement = select.terms.len();
        let mut cells = self.tables.select(&table, &select).map_err(failed)?;
        let mut count = 0;
        while cells.advance()? {
            if count > 0 && *delete.row == cells.row() {
                continue;
            }
            delete.row = cells.row().to_vec().into();
            count += 1;
            let deleted = self.tables.delete(&table, &delete);
            let is_short = deleted.as_ref().is_err_and(Error::may_lack_room);
            if !is_short {
                deleted?;
            }
            // The query may still see what was deleted, so the store keeps that. On a full disk, the query has to end first.
            if is_short || count % DELETED_AT_ONCE == 0 {
                drop(cells);
                if is_short {
                    self.tables.delete(&table, &delete)?;
                }
                let low = Some(Bound { at: delete.row.to_vec(), is_included: false });
                select.terms.truncate(of_statement);
                select.terms.push(Term::Rows(vec![Rows::Within(Interval { low, high: None })]));
                cells = self.tables.select(&table, &select).map_err(failed)?;
            }
        }
        Ok(Answer::Number(count))
    }

    /// Removes all cells of a table. Where that takes deletes of its rows, cells with later timestamps stay, which is an error.
    fn truncate(&self, table: TableName) -> Result<Answer> {
        if self.tables.truncate(&self.whole(&table)).map_err(|error| self.of_table(error, &table))? {
            return Ok(Answer::Done);
        }
        let row = Vec::new().into();
        let delete = Delete { columns: Vec::new(), table: table.clone(), row, time: DeleteTime::Now };
        let low = Some(Bound { at: Vec::new(), is_included: true });
        self.delete_rows(delete, vec![Rows::Within(Interval { low, high: None })])?;
        let options = SelectOptions { max_versions: Some(1), ..SelectOptions::default() };
        let (columns, terms, at) = (Vec::new(), Vec::new(), table.name.at());
        let rest = Select { is_of_cells: false, columns, table, terms, options };
        match self.count(rest, Counted::Rows)? {
            0 => Ok(Answer::Done),
            rows => {
                let message = format!(
                    "the table is not empty: {rows} rows still have cells, with timestamps later than this statement, or written \
                     meanwhile. HBase's Thrift interface cannot delete these without hiding later writes: `DROP TABLE` and `CREATE \
                     TABLE` make an empty table"
                );
                Err(Error::Impossible(message).at(at))
            }
        }
    }

    /// How many rows or cells a query shows.
    fn count(&self, mut select: Select, counted: Counted) -> Result<i64> {
        select.options.keys_only = true;
        let mut cells = self.select(&select)?;
        let (mut rows, mut all, mut row) = (0, 0, Vec::new());
        while cells.advance()? {
            all += 1;
            if rows == 0 || row != cells.row() {
                rows += 1;
                cells.row().clone_into(&mut row);
            }
        }
        Ok(match counted {
            Counted::Rows => rows,
            Counted::Cells => all,
        })
    }

    /// As [`places::of_table`].
    fn of_table(&self, error: Error, table: &TableName) -> Error {
        places::of_table(error, &*self.tables, table, &self.whole(table))
    }

    /// As [`places::of_counters`].
    fn of_counters<'v>(
        &self,
        error: Error,
        table: &TableName,
        values: impl IntoIterator<Item = (&'v Placed<String>, &'v Placed<Vec<u8>>)>,
    ) -> Error {
        places::of_counters(error, &*self.tables, &self.whole(table), values)
    }

    /// As [`places::of_families`].
    fn of_families<'n>(
        &self,
        error: Error,
        table: &TableName,
        families: impl IntoIterator<Item = &'n Placed<String>>,
    ) -> Error {
        places::of_families(error, &*self.tables, table, &self.whole(table), families)
    }

    fn schema(&self, table: &TableName) -> Result<Schema> {
        self.tables.schema(&self.whole(table)).map_err(|error| self.of_table(error, table))
    }

    fn create(&self, table: &TableName, schema: Schema, if_not_exists: bool) -> Result<Answer> {
        match self.tables.create(&self.whole(table), schema) {
            Err(Error::Table(esker_table::Error::TableExists(_))) if if_not_exists => {}
            // The name cannot be.
            Err(error) if places::is_of_what_is_given(&error) => return Err(error.at(table.name.at())),
            done => done.map_err(|error| self.of_table(error, table))?,
        }
        Ok(Answer::Done)
    }

    fn alter(&self, table: &TableName, schema: Schema) -> Result<Answer> {
        let altered = self.tables.alter(&self.whole(table), schema);
        altered.map(|()| Answer::Done).map_err(|error| self.of_table(error, table))
    }

    /// Makes the bytes of counters of decimal text among the values that are given for these families. Returns whether values of
    /// counters are right now; `false`: it is not known.
    fn read_counters(
        &self,
        table: &TableName,
        given: Vec<(&Placed<String>, &mut Placed<Vec<u8>>)>,
    ) -> Result<bool> {
        // Otherwise the families are of no interest, and a server is not asked for them.
        if !given.iter().any(|(_, value)| decimal(value).is_some() || is_sum(value)) {
            return Ok(false);
        }
        if !self.tables.have_counters()? {
            return Ok(true);
        }
        let schema = match self.schema(table) {
            // Who may write may not have the right to read the schema. The server refuses what is no counter.
            Err(Error::Remote(CallError::Thrown { kind: Thrown::Denied, .. })) => return Ok(false),
            schema => schema?,
        };
        let counters = counters(&schema);
        for (family, value) in given {
            if counters.contains(family.as_str()) {
                let bytes = counter(value).map_err(|reason| places::of_counter(family, value, &reason))?;
                let bytes = bytes.into_owned();
                value.set(bytes);
            }
        }
        Ok(true)
    }

    /// Does what [`Answer::ReadSchema`] has asked for, with the `text` of the file.
    ///
    /// # Errors
    /// When the text is no schema, when the table cannot have it, or those of the tables.
    pub fn change_schema(&self, change: &SchemaChange, text: &str) -> Result<Answer> {
        let schema = Schema::from_xml(text)?;
        match change.creates_if_not_exists {
            Some(if_not_exists) => self.create(&change.table, schemas::without_ids(&schema), if_not_exists),
            None => self.alter(&change.table, schema),
        }
    }

    fn select(&self, select: &Select) -> Result<Limited> {
        let cells = self.tables.select(&self.whole(&select.table), select);
        let cells = cells.map_err(|error| self.of_table(error, &select.table))?;
        Ok(Limited::new(cells, &select.options))
    }

    /// Says what a query reads; with `is_analyzed`, also runs it and counts what it has read and shown.
    fn explain(&self, select: &Select, is_analyzed: bool) -> Result<Answer> {
        let lines = self.tables.explain(&self.whole(&select.table), select);
        let mut lines = lines.map_err(|error| self.of_table(error, &select.table))?;
        if is_analyzed {
            lines.extend(analysis::of(self.select(select)?)?);
        }
        Ok(Answer::Names(lines))
    }

    /// Makes of the name of a namespace, which may be HQL's path, the name that the tables have of it. Returns whether it is a place in a
    /// tree of namespaces. With `needs_parent`, the namespace that it is in has to be there.
    fn resolve(&self, name: &mut Placed<String>, needs_parent: bool) -> Result<bool> {
        if !self.is_path && !name.contains('/') {
            return Ok(false);
        }
        let within = if self.is_path { self.namespace.as_str() } else { "" };
        let whole = paths::resolved(name, within);
        if needs_parent && let Some((parent, _)) = whole.rsplit_once('.') {
            let namespaces = self.tables.namespaces()?;
            if !namespaces.iter().any(|other| other == parent) {
                let hint = similar(parent, &namespaces);
                let error = Error::from(esker_table::Error::NoNamespace(parent.to_owned()));
                return Err(error.with_hint(name.at(), hint));
            }
        }
        name.set(whole);
        Ok(true)
    }

    /// Fails if there are namespaces within this one.
    fn check_childless(&self, name: &Placed<String>) -> Result<()> {
        match paths::children(&self.tables.namespaces()?, name).is_empty() {
            true => Ok(()),
            false => Err(Error::from(esker_table::Error::NamespaceInUse(name.to_string())).at(name.at())),
        }
    }

    fn choose(&mut self, mut name: Placed<String>) -> Result<Answer> {
        // `USE ''` leaves the tree.
        let is_path = !name.is_empty() && self.resolve(&mut name, false)?;
        let is_default = name.is_empty() || *name == DEFAULT_NAMESPACE;
        if !is_default {
            let namespaces = self.tables.namespaces()?;
            if !namespaces.contains(&name) {
                let (at, hint) = (name.at(), similar(&name, &namespaces));
                return Err(
                    Error::from(esker_table::Error::NoNamespace(name.into_inner())).with_hint(at, hint)
                );
            }
        }
        self.namespace = if is_default { String::new() } else { name.into_inner() };
        self.is_path = is_path;
        Ok(Answer::Done)
    }

    /// The whole name of a table.
    pub fn whole(&self, table: &TableName) -> String {
        let path = table.namespace.as_deref().filter(|namespace| namespace.contains('/'));
        let within = if self.is_path { self.namespace.as_str() } else { "" };
        let of_path = path.map(|path| paths::resolved(path, within));
        let namespace = of_path.as_deref().or(table.namespace.as_deref()).unwrap_or(&self.namespace);
        match namespace {
            "" | DEFAULT_NAMESPACE => table.name.to_string(),
            namespace => format!("{namespace}:{}", table.name),
        }
    }
}
