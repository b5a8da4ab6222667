//! The methods that an Esker server has beside HBase's (`Esker.thrift`).

use esker_table::{CellBatch, Comparison, PutCell};

use super::{CallError, CallResult, Client, ScanRequest, Thrown, bytes, list};
use crate::idl::own;
use crate::wire::{Fault, Kind, Sink, Source};

/// A change of a row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Mutation {
    /// Writes a cell.
    Put {
        /// The column family.
        family: String,
        /// What names the column in its family.
        qualifier: Vec<u8>,
        /// Its bytes.
        value: Vec<u8>,
        /// In milliseconds since 1970; `None`: the time of the call.
        timestamp: Option<i64>,
    },
    /// Deletes the cells of the row.
    DeleteRow {
        /// The last timestamp that is deleted; `None`: the time of the call.
        up_to: Option<i64>,
    },
    /// Deletes the cells of a family.
    DeleteFamily {
        /// The column family.
        family: String,
        /// As that of a row.
        up_to: Option<i64>,
    },
    /// Deletes the cells of a column.
    DeleteColumn {
        /// The column family.
        family: String,
        /// What names the column in its family.
        qualifier: Vec<u8>,
        /// As that of a row.
        up_to: Option<i64>,
    },
    /// Deletes one cell of a column.
    DeleteVersion {
        /// The column family.
        family: String,
        /// What names the column in its family.
        qualifier: Vec<u8>,
        /// The cell's timestamp.
        timestamp: i64,
    },
    /// Adds to the number in the latest cell of a column.
    Increment {
        /// The column family.
        family: String,
        /// What names the column in its family.
        qualifier: Vec<u8>,
        /// What is added.
        by: i64,
    },
    /// Appends to the value of the latest cell of a column.
    Append {
        /// The column family.
        family: String,
        /// What names the column in its family.
        qualifier: Vec<u8>,
        /// What is appended.
        value: Vec<u8>,
    },
}

/// Changes of a row, which are done in their order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RowMutations {
    /// Its key.
    pub row: Vec<u8>,
    /// The changes.
    pub mutations: Vec<Mutation>,
}

/// A condition on the latest cell of a column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Condition {
    /// The column family.
    pub family: String,
    /// What names the column in its family.
    pub qualifier: Vec<u8>,
    /// What is asked.
    pub asked: Asked,
}

/// What a condition asks of a cell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Asked {
    /// That there is none.
    Absent,
    /// That there is one.
    Present,
    /// That there is one whose value compares so with these bytes.
    Value(Comparison, Vec<u8>),
}

/// What a scanner of Esker's own reads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnScan {
    /// Rows, columns and a filter; the upper bound of timestamps too.
    pub request: ScanRequest,
    /// Timestamps from this one on.
    pub from: i64,
    /// So many versions of each column, of those that the family keeps and the filter lets through; 1 at least.
    pub versions: i32,
    /// Whether it shows deletes.
    pub shows_deletes: bool,
}

fn text(source: &mut Source<'_>) -> Result<String, Fault> {
    let text = std::str::from_utf8(source.bytes()?).map_err(|_| Fault::Bad("a text is not UTF-8"))?;
    Ok(text.to_owned())
}

/// Writes arguments that are texts, with the numbers 1, 2, ...
fn texts(arguments: &[&str]) -> impl FnOnce(&mut Sink) {
    move |sink| {
        for (last, argument) in (0..).zip(arguments) {
            bytes(sink, last, last + 1, argument.as_bytes());
        }
    }
}

/// Writes an `EskerMutation` that puts a cell.
fn put(sink: &mut Sink, family: &str, qualifier: &[u8], value: &[u8], timestamp: Option<i64>) {
    bytes(sink, 0, 2, family.as_bytes());
    bytes(sink, 2, 3, qualifier);
    bytes(sink, 3, 4, value);
    if let Some(timestamp) = timestamp {
        sink.field(4, 5, Kind::I64);
        sink.i64(timestamp);
    }
    sink.stop();
}

/// Writes a list of `EskerMutation`.
fn mutations(sink: &mut Sink, mutations: &[Mutation]) {
    let count = sink.list(Kind::Struct);
    for mutation in mutations {
        let (kind, family, qualifier, timestamp) = match mutation {
            Mutation::Put { family, qualifier, value, timestamp } => {
                put(sink, family, qualifier, value, *timestamp);
                continue;
            }
            Mutation::DeleteRow { up_to } => (own::DELETE_ROW, None, None, *up_to),
            Mutation::DeleteFamily { family, up_to } => (own::DELETE_FAMILY, Some(family), None, *up_to),
            Mutation::DeleteColumn { family, qualifier, up_to } => {
                (own::DELETE_COLUMN, Some(family), Some(qualifier), *up_to)
            }
            Mutation::DeleteVersion { family, qualifier, timestamp } => {
                (own::DELETE_VERSION, Some(family), Some(qualifier), Some(*timestamp))
            }
            Mutation::Increment { family, qualifier, .. } => {
                (own::INCREMENT, Some(family), Some(qualifier), None)
            }
            Mutation::Append { family, qualifier, .. } => (own::APPEND, Some(family), Some(qualifier), None),
        };
        sink.field(0, 1, Kind::I32);
        sink.i32(kind);
        let mut last = 1;
        if let Some(family) = family {
            bytes(sink, last, 2, family.as_bytes());
            last = 2;
        }
        if let Some(qualifier) = qualifier {
            bytes(sink, last, 3, qualifier);
            last = 3;
        }
        if let Some(timestamp) = timestamp {
            sink.field(last, 5, Kind::I64);
            sink.i64(timestamp);
        }
        match mutation {
            Mutation::Increment { by, .. } => {
                sink.field(last, 6, Kind::I64);
                sink.i64(*by);
            }
            Mutation::Append { value, .. } => bytes(sink, last, 4, value),
            _ => {}
        }
        sink.stop();
    }
    sink.close(count, mutations.len() as u32);
}

/// Writes a list of `EskerCondition`.
fn conditions(sink: &mut Sink, conditions: &[Condition]) {
    let count = sink.list(Kind::Struct);
    for Condition { family, qualifier, asked } in conditions {
        let (kind, value) = match asked {
            Asked::Absent => (own::ABSENT, None),
            Asked::Present => (own::PRESENT, None),
            Asked::Value(comparison, value) => {
                let kind = match comparison {
                    Comparison::Equal => own::EQUAL,
                    Comparison::NotEqual => own::NOT_EQUAL,
                    Comparison::Less => own::LESS,
                    Comparison::LessOrEqual => own::LESS_OR_EQUAL,
                    Comparison::Greater => own::GREATER,
                    Comparison::GreaterOrEqual => own::GREATER_OR_EQUAL,
                };
                (kind, Some(value))
            }
        };
        sink.field(0, 1, Kind::I32);
        sink.i32(kind);
        bytes(sink, 1, 2, family.as_bytes());
        bytes(sink, 2, 3, qualifier);
        if let Some(value) = value {
            bytes(sink, 3, 4, value);
        }
        sink.stop();
    }
    sink.close(count, conditions.len() as u32);
}

#[allow(clippy::redundant_closure_for_method_calls, reason = "a method of `Source` is of one lifetime only")]
impl Client {
    /// The version of an Esker server. `None`: the server is another one, and has none of the methods that follow.
    ///
    /// # Errors
    /// As all methods: the connection's, or what the server throws.
    pub fn esker_version(&mut self) -> CallResult<Option<String>> {
        match self.ask("eskerVersion", |_| {}, text) {
            Err(CallError::Thrown { kind: Thrown::UnknownMethod, .. }) => Ok(None),
            answered => answered.map(Some),
        }
    }

    /// The namespaces, sorted.
    pub fn namespaces(&mut self) -> CallResult<Vec<String>> {
        self.ask("eskerNamespaces", |_| {}, |source| list(source, text))
    }

    /// Makes a namespace.
    pub fn create_namespace(&mut self, name: &str) -> CallResult<()> {
        self.tell("eskerCreateNamespace", texts(&[name]))
    }

    /// Removes a namespace, which has no tables.
    pub fn drop_namespace(&mut self, name: &str) -> CallResult<()> {
        self.tell("eskerDropNamespace", texts(&[name]))
    }

    /// The schema of a table as XML: `Schema::from_xml` reads it.
    pub fn schema(&mut self, table: &str) -> CallResult<String> {
        self.ask("eskerSchema", texts(&[table]), text)
    }

    /// Makes a table with a schema as XML.
    pub fn create_table_of(&mut self, table: &str, schema: &str) -> CallResult<()> {
        self.tell("eskerCreateTable", texts(&[table, schema]))
    }

    /// Gives a table another schema, made from what [`Client::schema`] has returned.
    pub fn alter_table(&mut self, table: &str, schema: &str) -> CallResult<()> {
        self.tell("eskerAlterTable", texts(&[table, schema]))
    }

    /// Gives a table another name.
    pub fn rename_table(&mut self, table: &str, to: &str) -> CallResult<()> {
        self.tell("eskerRenameTable", texts(&[table, to]))
    }

    /// Removes a table.
    pub fn drop_table(&mut self, table: &str) -> CallResult<()> {
        self.tell("eskerDropTable", texts(&[table]))
    }

    /// Removes all cells of a table.
    pub fn truncate_table(&mut self, table: &str) -> CallResult<()> {
        self.tell("eskerTruncateTable", texts(&[table]))
    }

    /// Enters into the indexes of a table what they lack, and removes what is of no use in them.
    pub fn rebuild_indexes(&mut self, table: &str) -> CallResult<()> {
        self.tell("eskerRebuildIndexes", texts(&[table]))
    }

    /// Changes rows, all of them at once or none.
    pub fn change_rows(&mut self, table: &str, rows: &[RowMutations]) -> CallResult<()> {
        self.tell("eskerMutateRows", |sink| {
            bytes(sink, 0, 1, table.as_bytes());
            sink.field(1, 2, Kind::List);
            let count = sink.list(Kind::Struct);
            for row in rows {
                bytes(sink, 0, 1, &row.row);
                sink.field(1, 2, Kind::List);
                mutations(sink, &row.mutations);
                sink.stop();
            }
            sink.close(count, rows.len() as u32);
        })
    }

    /// Puts cells, all of them at once or none.
    pub fn put_cells(&mut self, table: &str, cells: &CellBatch) -> CallResult<()> {
        self.tell("eskerMutateRows", |sink| {
            bytes(sink, 0, 1, table.as_bytes());
            sink.field(1, 2, Kind::List);
            let rows = sink.list(Kind::Struct);
            let (mut cells, mut count) = (cells.iter().peekable(), 0);
            while let Some(PutCell { row, .. }) = cells.peek().copied() {
                bytes(sink, 0, 1, row);
                sink.field(1, 2, Kind::List);
                let (puts, mut count_of_row) = (sink.list(Kind::Struct), 0);
                while let Some(cell) = cells.next_if(|cell| cell.row == row) {
                    put(sink, cell.family, cell.qualifier, cell.value, cell.timestamp);
                    count_of_row += 1;
                }
                sink.close(puts, count_of_row);
                sink.stop();
                count += 1;
            }
            sink.close(rows, count);
        })
    }

    /// Changes a row if it meets all conditions. Returns whether it did.
    pub fn check_and_change(
        &mut self,
        table: &str,
        asked: &[Condition],
        row: &RowMutations,
    ) -> CallResult<bool> {
        let write = |sink: &mut Sink| {
            bytes(sink, 0, 1, table.as_bytes());
            bytes(sink, 1, 2, &row.row);
            sink.field(2, 3, Kind::List);
            conditions(sink, asked);
            sink.field(3, 4, Kind::List);
            mutations(sink, &row.mutations);
        };
        self.ask("eskerCheckAndMutate", write, |source| source.bool())
    }

    /// Opens a scanner. Returns its number, for [`Client::next_rows`] and [`Client::close_scanner`].
    pub fn open_own_scanner(&mut self, table: &[u8], scan: &OwnScan) -> CallResult<i32> {
        let write = |sink: &mut Sink| {
            bytes(sink, 0, 1, table);
            sink.field(1, 2, Kind::Struct);
            own_scan(sink, scan);
        };
        self.ask("eskerScannerOpen", write, |source| source.i32())
    }
}

/// Writes an `EskerScan`.
fn own_scan(sink: &mut Sink, scan: &OwnScan) {
    let OwnScan { request, from, versions, shows_deletes } = scan;
    bytes(sink, 0, 1, &request.start);
    bytes(sink, 1, 2, &request.stop);
    sink.field(2, 3, Kind::I64);
    sink.i64(*from);
    let mut last = 3;
    if let Some(until) = request.timestamp {
        sink.field(last, 4, Kind::I64);
        sink.i64(until);
        last = 4;
    }
    if !request.columns.is_empty() {
        sink.field(last, 5, Kind::List);
        let count = sink.list(Kind::Bytes);
        request.columns.iter().for_each(|column| sink.bytes(column));
        sink.close(count, request.columns.len() as u32);
        last = 5;
    }
    if let Some(filter) = &request.filter {
        bytes(sink, last, 6, filter);
        last = 6;
    }
    sink.field(last, 7, Kind::I32);
    sink.i32(request.cells_max);
    sink.field_bool(7, 8, request.is_reversed);
    sink.field(8, 9, Kind::I32);
    sink.i32(*versions);
    sink.field_bool(9, 10, *shows_deletes);
    sink.stop();
}
