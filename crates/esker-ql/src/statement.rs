//! Statements, as the parser makes them of a text. Printing one (`Display`) gives a text of which the parser makes the same.

use std::fmt;
use std::ops::{Deref, Range};

use esker_table::PutCell;

pub use esker_table::Comparison;

/// A statement and where in the text it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Located {
    /// Its bytes in the text, without the `;`.
    pub place: Range<usize>,
    /// Whether a `;` ends it, and not the end of the text.
    pub is_ended: bool,
    /// What it says.
    pub statement: Statement,
}

/// A part of a statement that an error may be about, and where in the text it is. The place takes no part in equality.
#[derive(Debug, Clone, Default)]
pub struct Placed<T> {
    part: T,
    at: Option<usize>,
}

impl<T> Placed<T> {
    pub(crate) fn new(part: T, at: usize) -> Placed<T> {
        Placed { part, at: Some(at) }
    }

    /// How many bytes of the text are in front of it. `None`: it comes from no text.
    pub fn at(&self) -> Option<usize> {
        self.at
    }

    /// Puts another part in its place.
    pub(crate) fn set(&mut self, part: T) {
        self.part = part;
    }

    /// It, without its place.
    pub fn into_inner(self) -> T {
        self.part
    }
}

impl<T> Deref for Placed<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.part
    }
}

impl<T: fmt::Display> fmt::Display for Placed<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.part.fmt(f)
    }
}

impl<T> From<T> for Placed<T> {
    fn from(part: T) -> Placed<T> {
        Placed { part, at: None }
    }
}

impl<T: PartialEq> PartialEq for Placed<T> {
    fn eq(&self, other: &Placed<T>) -> bool {
        self.part == other.part
    }
}

impl<T: Eq> Eq for Placed<T> {}

/// The namespace of tables whose names say none.
pub const DEFAULT_NAMESPACE: &str = "default";

/// The name of a table: `ns:table`, or `table` in the namespace in use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableName {
    /// The namespace.
    pub namespace: Option<String>,
    /// The name in the namespace. Its place is that of the whole.
    pub name: Placed<String>,
}

/// A statement.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Statement {
    /// `CREATE NAMESPACE [IF NOT EXISTS] n`
    CreateNamespace {
        /// Its name.
        name: Placed<String>,
        /// Whether one that is there is no error.
        if_not_exists: bool,
    },
    /// `DROP NAMESPACE [IF EXISTS] n`
    DropNamespace {
        /// Its name.
        name: Placed<String>,
        /// Whether one that is not there is no error.
        if_exists: bool,
    },
    /// `USE n`; `USE ''` is the default one.
    Use(Placed<String>),
    /// `GET LISTING`: the namespaces, and the tables of the one in use.
    GetListing,
    /// `SHOW NAMESPACES`
    ShowNamespaces,
    /// `SHOW TABLES`
    ShowTables,
    /// `SHOW CREATE TABLE t`
    ShowCreateTable(TableName),
    /// `DESCRIBE TABLE [WITH IDS] t [INTO FILE f]`
    DescribeTable {
        /// The table.
        table: TableName,
        /// Whether the numbers of groups and families are shown.
        with_ids: bool,
        /// The file that gets the schema.
        into_file: Option<Vec<u8>>,
    },
    /// `EXISTS TABLE t`
    ExistsTable(TableName),
    /// `RENAME TABLE a TO b`
    RenameTable {
        /// The name that it has.
        from: TableName,
        /// The name that it gets.
        to: TableName,
    },
    /// `DROP TABLE [IF EXISTS] t`
    DropTable {
        /// The table.
        table: TableName,
        /// Whether one that is not there is no error.
        if_exists: bool,
    },
    /// `CREATE TABLE [IF NOT EXISTS] t (...)`
    CreateTable {
        /// The table.
        table: TableName,
        /// What is between the parentheses.
        items: Vec<SchemaItem>,
        /// Whether one that is there is no error.
        if_not_exists: bool,
    },
    /// `CREATE TABLE [IF NOT EXISTS] t LIKE u`
    CreateTableLike {
        /// The table.
        table: TableName,
        /// The table whose schema it gets.
        like: TableName,
        /// Whether one that is there is no error.
        if_not_exists: bool,
    },
    /// `CREATE TABLE [IF NOT EXISTS] t FROM FILE f`
    CreateTableFromFile {
        /// The table.
        table: TableName,
        /// The file with its schema as XML.
        file: Vec<u8>,
        /// Whether one that is there is no error.
        if_not_exists: bool,
    },
    /// `ALTER TABLE t FROM FILE f`
    AlterTableFromFile {
        /// The table.
        table: TableName,
        /// The file with its new schema as XML.
        file: Vec<u8>,
    },
    /// `ALTER TABLE t ...`
    AlterTable {
        /// The table.
        table: TableName,
        /// The changes, in their order.
        changes: Vec<Change>,
    },
    /// `INSERT INTO t VALUES (...), ...`
    Insert {
        /// The table.
        table: TableName,
        /// The cells.
        cells: Vec<NewCell>,
    },
    /// `DELETE ... FROM t WHERE ROW = r`
    Delete(Delete),
    /// `DELETE ... FROM t WHERE 'a' <= ROW < 'b'`: rows that are sought, one after the other.
    DeleteRows {
        /// Families and columns; none: the rows.
        columns: Vec<Columns>,
        /// The table.
        table: TableName,
        /// One or several tests of the row, of which one has to hold.
        rows: Vec<Rows>,
        /// Which timestamps.
        time: DeleteTime,
    },
    /// `TRUNCATE TABLE t`
    Truncate(TableName),
    /// `SELECT ...`
    Select(Box<Select>),
    /// `SELECT COUNT(*) ...`
    Count {
        /// The query; its columns are all.
        select: Box<Select>,
        /// What of its answer is counted.
        counted: Counted,
    },
    /// `EXPLAIN [ANALYZE] SELECT ...`
    Explain {
        /// The query.
        select: Box<Select>,
        /// Whether it is run, and what it reads counted.
        is_analyzed: bool,
    },
    /// `INCREMENT t ROW r COLUMN c [BY n]`
    Increment {
        /// The table.
        table: TableName,
        /// The row.
        row: Placed<Vec<u8>>,
        /// The column.
        column: Column,
        /// By how much.
        by: i64,
    },
    /// `APPEND t ROW r COLUMN c VALUE v`
    Append {
        /// The table.
        table: TableName,
        /// The row.
        row: Placed<Vec<u8>>,
        /// The column.
        column: Column,
        /// What is put behind the value.
        value: Vec<u8>,
    },
    /// `CHECK t ROW r (c = v AND ...) THEN ...`
    Check {
        /// The table.
        table: TableName,
        /// The row.
        row: Placed<Vec<u8>>,
        /// What has to be so.
        conditions: Vec<Condition>,
        /// What is done then, in its order.
        then: Vec<Action>,
    },
    /// `LOAD DATA INFILE ...`
    LoadData(LoadData),
    /// `LOAD CELL INFILE f INTO TABLE t ROW r COLUMN c [TIMESTAMP ts]`: the file becomes the value.
    LoadCell {
        /// The cell.
        cell: FileCell,
        /// Its timestamp; `None`: the time of the write.
        timestamp: Option<i64>,
    },
    /// `DUMP CELL t ROW r COLUMN c INTO FILE f`: the latest value becomes the file.
    DumpCell(FileCell),
    /// `DUMP TABLE t ...`
    DumpTable(DumpTable),
    /// `COMPACT TABLE t`
    Compact(TableName),
    /// HQL's `COMPACT RANGES USER`: all tables of all namespaces; `COMPACT RANGES SYSTEM`: the tables of a cluster
    /// itself, which Esker does not have.
    CompactRanges {
        /// Whether tables are compacted.
        is_of_tables: bool,
    },
    /// HQL's `WAIT FOR MAINTENANCE`: nothing has to wait for merges.
    WaitForMaintenance,
    /// `PAUSE n`: waits.
    Pause {
        /// How long.
        seconds: u64,
    },
    /// `QUIT`, `EXIT`: no more statements are run.
    Quit,
    /// `REBUILD INDICES t`
    RebuildIndices(TableName),
    /// `SOURCE 'f'`
    Source(Vec<u8>),
}

/// What a table is made of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SchemaItem {
    /// A column family.
    Family(FamilyItem),
    /// `ACCESS GROUP g (cf, ...)`
    Group {
        /// Its name.
        name: Placed<String>,
        /// Its families: names of such as are listed elsewhere, or definitions.
        families: Vec<FamilyItem>,
    },
    /// `INDEX cf`, `QUALIFIER INDEX cf`
    Index {
        /// Whether it is one of the qualifiers, not of the values.
        of_qualifiers: bool,
        /// The family.
        family: Placed<String>,
    },
}

/// A column family.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FamilyItem {
    /// Its name.
    pub name: Placed<String>,
    /// `MAX_VERSIONS n`; 0 (`MAX_VERSIONS ALL`): all.
    pub max_versions: Option<u32>,
    /// `TTL n unit`, in milliseconds.
    pub ttl_ms: Option<u64>,
    /// `TIME_ORDER`: whether the oldest version comes first (`DESC`).
    pub is_oldest_first: Option<bool>,
    /// `COUNTER`, `COUNTER FALSE`
    pub is_counter: Option<bool>,
}

/// A change of a schema.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// `ADD (...)`
    Add(Vec<SchemaItem>),
    /// `MODIFY (cf ..., ACCESS GROUP g (cf, ...), ...)`: what is not named stays, and families stay in their groups.
    Modify(Vec<SchemaItem>),
    /// `DROP (cf, ...)`
    Drop(Vec<Placed<String>>),
    /// `DROP INDEX cf`, `DROP QUALIFIER INDEX cf`
    DropIndex {
        /// Whether it is one of the qualifiers, not of the values.
        of_qualifiers: bool,
        /// The family.
        family: Placed<String>,
    },
    /// `RENAME COLUMN FAMILY (a, b)`
    RenameFamily {
        /// The name that it has.
        from: Placed<String>,
        /// The name that it gets.
        to: Placed<String>,
    },
}

/// A column: a family and a qualifier.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column {
    /// The family.
    pub family: Placed<String>,
    /// The qualifier.
    pub qualifier: Vec<u8>,
}

/// Which columns of a family.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Qualifiers {
    /// `cf`: all.
    All,
    /// `cf:q`
    Exactly(Vec<u8>),
    /// `cf:^q`: those that begin so.
    Prefix(Vec<u8>),
    /// `cf:/re/`: those in which the regular expression is found.
    Regexp(Placed<Vec<u8>>),
}

/// Columns of a family.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Columns {
    /// The family.
    pub family: Placed<String>,
    /// Which of its columns.
    pub qualifiers: Qualifiers,
}

/// A cell to write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewCell {
    /// The timestamp in milliseconds; `None`: the time of the write.
    pub timestamp: Option<i64>,
    /// The row.
    pub row: Placed<Vec<u8>>,
    /// The column.
    pub column: Column,
    /// The value.
    pub value: Placed<Vec<u8>>,
}

impl NewCell {
    /// The cell, as tables put it.
    pub(crate) fn put(&self) -> PutCell<'_> {
        let NewCell { timestamp, row, column, value } = self;
        PutCell { row, family: &column.family, qualifier: &column.qualifier, timestamp: *timestamp, value }
    }
}

/// How much of the time a delete is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeleteTime {
    /// Up to now.
    Now,
    /// `TIMESTAMP ts`: up to this one.
    UpTo(i64),
    /// `VERSION ts`: this one alone.
    Version(i64),
}

/// `DELETE`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delete {
    /// Families and columns; none: the row.
    pub columns: Vec<Columns>,
    /// The table.
    pub table: TableName,
    /// The row.
    pub row: Placed<Vec<u8>>,
    /// Which timestamps.
    pub time: DeleteTime,
}

/// A lower or upper bound.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bound<T> {
    /// Where.
    pub at: T,
    /// Whether what is at the bound belongs to it.
    pub is_included: bool,
}

/// An interval; a bound that is missing is the end of everything.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Interval<T> {
    /// From where.
    pub low: Option<Bound<T>>,
    /// Up to where.
    pub high: Option<Bound<T>>,
}

/// Which rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Rows {
    /// `ROW = 'r'`
    Exactly(Vec<u8>),
    /// `'a' <= ROW < 'b'`
    Within(Interval<Vec<u8>>),
    /// `ROW =^ 'p'`
    Prefix(Vec<u8>),
    /// `ROW REGEXP 're'`
    Regexp(Placed<Vec<u8>>),
}

/// A row and a column, as the bound of an interval of cells.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CellPlace {
    /// The row.
    pub row: Vec<u8>,
    /// The column.
    pub column: Column,
}

/// What is asked of a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ValueTest {
    /// `= 'v'`
    Exactly(Vec<u8>),
    /// `=^ 'v'`
    Prefix(Vec<u8>),
    /// `REGEXP 're'`
    Regexp(Placed<Vec<u8>>),
}

/// Which cells.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CellRange {
    /// `'r', c < CELL <= 's', d`
    Within(Interval<CellPlace>),
    /// `CELL =^ 'r', c`: the columns of the row whose qualifiers begin so.
    Prefix(CellPlace),
}

/// What is asked of the latest version of a column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ColumnTest {
    /// The columns, of which one has to meet it.
    pub columns: Columns,
    /// What is asked of their values.
    pub test: ValueTest,
}

/// A part of `WHERE`; all parts have to hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Term {
    /// One or several tests of the row, of which one has to hold.
    Rows(Vec<Rows>),
    /// One or several parts of the table, of which one has to hold the cell.
    Cells(Vec<CellRange>),
    /// `cf = 'v'`, or several such tests, of which the row has to meet one.
    Columns(Vec<ColumnTest>),
    /// `VALUE REGEXP 're'`
    ValueRegexp(Placed<Vec<u8>>),
    /// `'t' <= TIMESTAMP < 't'`, in milliseconds.
    Time(Interval<i64>),
}

/// `SELECT`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Select {
    /// `SELECT CELLS`: the result is a list of cells, one by one; it always is.
    pub is_of_cells: bool,
    /// The columns; none: all.
    pub columns: Vec<Columns>,
    /// The table.
    pub table: TableName,
    /// What has to hold.
    pub terms: Vec<Term>,
    /// The options.
    pub options: SelectOptions,
}

/// What comes behind the conditions of a `SELECT`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SelectOptions {
    /// `MAX_VERSIONS n`: so many versions of each column.
    pub max_versions: Option<u64>,
    /// `LIMIT n`: so many rows.
    pub limit: Option<u64>,
    /// `OFFSET n`: not the first n rows.
    pub offset: Option<u64>,
    /// `CELL_LIMIT n`: so many cells.
    pub cell_limit: Option<u64>,
    /// `CELL_OFFSET n`: not the first n cells.
    pub cell_offset: Option<u64>,
    /// `CELL_LIMIT_PER_FAMILY n`: so many cells of each family of a row.
    pub cell_limit_per_family: Option<u64>,
    /// `CELL_OFFSET_PER_FAMILY n`: not the first n cells of each family of a row.
    pub cell_offset_per_family: Option<u64>,
    /// `KEYS_ONLY`: without values.
    pub keys_only: bool,
    /// `DISPLAY_TIMESTAMPS`
    pub display_timestamps: bool,
    /// `RETURN_DELETES`
    pub return_deletes: bool,
    /// `NO_ESCAPE`
    pub no_escape: bool,
    /// `SCAN_AND_FILTER_ROWS`
    pub scan_and_filter_rows: bool,
    /// `REVERSED`: the last row first.
    pub reversed: bool,
    /// `SEPARATOR = ','`: what is between the fields of tab-separated lines, if not tabs.
    pub separator: Option<u8>,
    /// `INTO FILE 'f'`
    pub into_file: Option<Vec<u8>>,
}

/// What a query counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Counted {
    /// `COUNT(*)`: rows.
    Rows,
    /// `COUNT(CELLS)`: cells.
    Cells,
}

/// A cell whose value a file holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileCell {
    /// The file.
    pub file: Vec<u8>,
    /// The table.
    pub table: TableName,
    /// The row.
    pub row: Placed<Vec<u8>>,
    /// The column.
    pub column: Column,
}

/// What `CHECK` asks of a column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Condition {
    /// `c IS ABSENT`
    Absent(Column),
    /// `c = 'v'`
    Value {
        /// The column.
        column: Column,
        /// How.
        comparison: Comparison,
        /// With what.
        value: Vec<u8>,
    },
}

/// What `CHECK` does to its row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// `INSERT VALUES ([ts,] c, v), ...`
    Insert {
        /// The timestamp.
        timestamp: Option<i64>,
        /// The column.
        column: Column,
        /// The value.
        value: Placed<Vec<u8>>,
    },
    /// `DELETE *`, `DELETE c, ...`
    Delete {
        /// Families and columns; none: the row.
        columns: Vec<Columns>,
        /// Which timestamps.
        time: DeleteTime,
    },
    /// `INCREMENT c [BY n]`
    Increment {
        /// The column.
        column: Column,
        /// What is added.
        by: i64,
    },
    /// `APPEND c VALUE v`
    Append {
        /// The column.
        column: Column,
        /// What is appended.
        value: Vec<u8>,
    },
}

/// What a timestamp of a file counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TimeUnit {
    /// Seconds.
    Seconds,
    /// Milliseconds, as those of all cells.
    Milliseconds,
    /// Microseconds.
    Microseconds,
    /// Nanoseconds, as Hypertable's dumps.
    Nanoseconds,
}

impl TimeUnit {
    /// All units.
    pub const ALL: [TimeUnit; 4] =
        [TimeUnit::Seconds, TimeUnit::Milliseconds, TimeUnit::Microseconds, TimeUnit::Nanoseconds];

    /// The word of the language.
    pub fn word(self) -> &'static str {
        match self {
            TimeUnit::Seconds => "SECONDS",
            TimeUnit::Milliseconds => "MILLISECONDS",
            TimeUnit::Microseconds => "MICROSECONDS",
            TimeUnit::Nanoseconds => "NANOSECONDS",
        }
    }

    /// The name of a file's column of timestamps in this unit.
    pub fn column_name(self) -> &'static str {
        match self {
            TimeUnit::Seconds => "timestamp_s",
            TimeUnit::Milliseconds => "timestamp_ms",
            TimeUnit::Microseconds => "timestamp_us",
            TimeUnit::Nanoseconds => "timestamp_ns",
        }
    }

    /// How many nanoseconds it has.
    pub fn nanoseconds(self) -> u64 {
        match self {
            TimeUnit::Seconds => 1_000_000_000,
            TimeUnit::Milliseconds => 1_000_000,
            TimeUnit::Microseconds => 1_000,
            TimeUnit::Nanoseconds => 1,
        }
    }
}

/// `LOAD DATA INFILE`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoadData {
    /// `ROW_KEY_COLUMN = a+b`
    pub row_key_columns: Vec<Vec<u8>>,
    /// `TIMESTAMP_COLUMN = c`
    pub timestamp_column: Option<Vec<u8>>,
    /// `TIMESTAMP = t`: that of cells that have none in the file.
    pub timestamp: Option<i64>,
    /// `TIMESTAMP_UNIT = NANOSECONDS`: what the numbers of the file's timestamps count.
    pub timestamp_unit: Option<TimeUnit>,
    /// `FROM_LINE = n`: lines before this one are left out, but for the header.
    pub from_line: Option<u64>,
    /// `HEADER_FILE = 'f'`
    pub header_file: Option<Vec<u8>>,
    /// `ROW_UNIQUIFY_CHARS = n`
    pub row_uniquify_chars: Option<u64>,
    /// `SEPARATOR = ','`: what is between the fields, if not tabs.
    pub separator: Option<u8>,
    /// `DUPLICATE_KEY_COLUMNS`
    pub duplicate_key_columns: bool,
    /// `IGNORE_UNKNOWN_COLUMNS`
    pub ignore_unknown_columns: bool,
    /// `SKIP_BAD_LINES`: wrong lines are left out and counted.
    pub skip_bad_lines: bool,
    /// `SINGLE_CELL_FORMAT`
    pub single_cell_format: bool,
    /// `NO_ESCAPE`
    pub no_escape: bool,
    /// The file.
    pub file: Vec<u8>,
    /// The table.
    pub table: TableName,
}

/// `DUMP TABLE`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DumpTable {
    /// The table.
    pub table: TableName,
    /// `COLUMNS ...`; none: all.
    pub columns: Vec<Columns>,
    /// The conditions, as those of a query that shows cells.
    pub terms: Vec<Term>,
    /// `BUCKETS n`
    pub buckets: Option<u64>,
    /// `MAX_VERSIONS n`: so many versions of each column.
    pub max_versions: Option<u64>,
    /// `SEPARATOR = ','`: what is between the fields, if not tabs.
    pub separator: Option<u8>,
    /// `INTO FILE 'f'`
    pub file: Vec<u8>,
}
