//! Statements as text, on one line.
//!
//! A name is in quotes where it might be taken for a word of the language; a string has escapes for all but printable ASCII.

use std::fmt::{self, Display, Formatter, Write};

use crate::parse::YEAR_9999_END;
use crate::statement::{
    Action, Bound, CellPlace, CellRange, Change, Column, ColumnTest, Columns, Comparison, Condition, Counted,
    Delete, DeleteTime, DumpTable, FamilyItem, FileCell, Interval, LoadData, NewCell, Qualifiers, Rows,
    SchemaItem, Select, SelectOptions, Statement, TableName, Term, TimeUnit, ValueTest,
};

/// The words of the language that may stand where a name may, or that a shell completes.
pub const KEYWORDS: [&str; 107] = [
    "ABSENT",
    "ACCESS",
    "ADD",
    "ALL",
    "ALTER",
    "ANALYZE",
    "AND",
    "APPEND",
    "ASC",
    "BUCKETS",
    "BY",
    "CELL",
    "CELLS",
    "CELL_LIMIT",
    "CELL_LIMIT_PER_FAMILY",
    "CELL_OFFSET",
    "CELL_OFFSET_PER_FAMILY",
    "CHECK",
    "COLUMN",
    "COLUMNS",
    "COMPACT",
    "COUNTER",
    "COUNT",
    "CREATE",
    "DATA",
    "DAYS",
    "DELETE",
    "DESC",
    "DESCRIBE",
    "DISPLAY_TIMESTAMPS",
    "DROP",
    "DUMP",
    "DUPLICATE_KEY_COLUMNS",
    "EXISTS",
    "EXPLAIN",
    "FAMILY",
    "FILE",
    "FROM",
    "FROM_LINE",
    "GET",
    "GROUP",
    "HEADER_FILE",
    "HOURS",
    "IDS",
    "IF",
    "IGNORE_UNKNOWN_COLUMNS",
    "INCREMENT",
    "INDEX",
    "INFILE",
    "INSERT",
    "INTO",
    "IS",
    "KEYS_ONLY",
    "LIKE",
    "LIMIT",
    "LISTING",
    "LOAD",
    "MAX_VERSIONS",
    "MILLISECONDS",
    "MINUTES",
    "MONTHS",
    "NAMESPACE",
    "NAMESPACES",
    "NOT",
    "NO_ESCAPE",
    "OFFSET",
    "OR",
    "QUALIFIER",
    "REGEXP",
    "RENAME",
    "RETURN_DELETES",
    "REVERSED",
    "REVS",
    "ROW",
    "ROW_KEY_COLUMN",
    "ROW_UNIQUIFY_CHARS",
    "SCAN_AND_FILTER_ROWS",
    "SECONDS",
    "SELECT",
    "SEPARATOR",
    "SHOW",
    "SINGLE_CELL_FORMAT",
    "SKIP_BAD_LINES",
    "TABLE",
    "TABLES",
    "THEN",
    "TIMESTAMP",
    "TIMESTAMP_COLUMN",
    "TIMESTAMP_UNIT",
    "TIME_ORDER",
    "TO",
    "TRUNCATE",
    "TTL",
    "USE",
    "VALUE",
    "VALUES",
    "VERSION",
    "WEEKS",
    "WHERE",
    "WITH",
    "IN_MEMORY",
    "BLOCKSIZE",
    "REPLICATION",
    "COMPRESSOR",
    "BLOOMFILTER",
    "GROUP_COMMIT_INTERVAL",
    "X",
];

/// A name.
struct Name<'a>(&'a str);

impl Display for Name<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let name = self.0;
        let is_plain = name.starts_with(|letter: char| letter.is_ascii_alphabetic() || letter == '_')
            && name.chars().all(|letter| letter.is_ascii_alphanumeric() || matches!(letter, '_' | '-' | '.'))
            && !name.contains("--")
            && !KEYWORDS.iter().any(|word| word.eq_ignore_ascii_case(name));
        if is_plain { f.write_str(name) } else { Bytes(name.as_bytes()).fmt(f) }
    }
}

/// Bytes in quotes.
struct Bytes<'a>(&'a [u8]);

impl Display for Bytes<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_char('\'')?;
        for &byte in self.0 {
            match byte {
                b'\\' => f.write_str("\\\\")?,
                b'\'' => f.write_str("\\'")?,
                b'\n' => f.write_str("\\n")?,
                b'\t' => f.write_str("\\t")?,
                b'\r' => f.write_str("\\r")?,
                b' '..=b'~' => f.write_char(char::from(byte))?,
                _ => write!(f, "\\x{byte:02x}")?,
            }
        }
        f.write_char('\'')
    }
}

/// A name, in quotes if it needs them.
pub(crate) fn name(name: &str) -> String {
    Name(name).to_string()
}

/// `bytes` in quotes.
pub(crate) fn quoted(bytes: &[u8]) -> String {
    Bytes(bytes).to_string()
}

/// Things with commas between.
fn list<T: Display>(f: &mut Formatter<'_>, all: impl IntoIterator<Item = T>) -> fmt::Result {
    for (place, one) in all.into_iter().enumerate() {
        write!(f, "{}{one}", if place == 0 { "" } else { ", " })?;
    }
    Ok(())
}

/// Columns, or `*`.
fn columns_or_all(f: &mut Formatter<'_>, columns: &[Columns]) -> fmt::Result {
    if columns.is_empty() { f.write_char('*') } else { list(f, columns) }
}

/// ` WORD` if `is_set`.
fn flag(f: &mut Formatter<'_>, word: &str, is_set: bool) -> fmt::Result {
    if is_set { write!(f, " {word}") } else { Ok(()) }
}

/// ` WORD n` if there is one.
fn option<T: Display>(f: &mut Formatter<'_>, word: &str, value: Option<T>) -> fmt::Result {
    value.map_or(Ok(()), |value| write!(f, " {word} {value}"))
}

impl Display for TableName {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match &self.namespace {
            // HQL's path.
            Some(path) if path.contains('/') => Bytes(format!("{path}{}", *self.name).as_bytes()).fmt(f),
            Some(namespace) => write!(f, "{}:{}", Name(namespace), Name(&self.name)),
            None => Name(&self.name).fmt(f),
        }
    }
}

impl Display for Column {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", Name(&self.family), Bytes(&self.qualifier))
    }
}

impl Display for Columns {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        Name(&self.family).fmt(f)?;
        match &self.qualifiers {
            Qualifiers::All => Ok(()),
            Qualifiers::Exactly(qualifier) => write!(f, ":{}", Bytes(qualifier)),
            Qualifiers::Prefix(prefix) => write!(f, ":^{}", Bytes(prefix)),
            Qualifiers::Regexp(regexp) => write!(f, ":/{}/", Slashed(regexp)),
        }
    }
}

/// A regular expression between slashes; the parser lets none through that is not UTF-8.
struct Slashed<'a>(&'a [u8]);

impl Display for Slashed<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let text = String::from_utf8_lossy(self.0);
        let mut letters = text.chars();
        while let Some(letter) = letters.next() {
            match letter {
                '/' => f.write_str("\\/")?,
                '\\' => {
                    f.write_char('\\')?;
                    letters.next().map_or(Ok(()), |escaped| f.write_char(escaped))?;
                }
                _ => f.write_char(letter)?,
            }
        }
        Ok(())
    }
}

impl Display for FamilyItem {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        Name(&self.name).fmt(f)?;
        match self.max_versions {
            Some(0) => f.write_str(" MAX_VERSIONS ALL")?,
            versions => option(f, "MAX_VERSIONS", versions)?,
        }
        if let Some(ttl_ms) = self.ttl_ms {
            let units =
                [(604_800_000, "WEEKS"), (86_400_000, "DAYS"), (3_600_000, "HOURS"), (60_000, "MINUTES")];
            let units = units.into_iter().chain([(1_000, "SECONDS")]);
            let unit = units.into_iter().find(|(unit_ms, _)| ttl_ms > 0 && ttl_ms % unit_ms == 0);
            let (unit_ms, unit) = unit.unwrap_or((1, "MILLISECONDS"));
            write!(f, " TTL {} {unit}", ttl_ms / unit_ms)?;
        }
        option(
            f,
            "TIME_ORDER",
            self.is_oldest_first.map(|is_oldest| if is_oldest { "DESC" } else { "ASC" }),
        )?;
        match self.is_counter {
            Some(is_counter) => f.write_str(if is_counter { " COUNTER" } else { " COUNTER FALSE" }),
            None => Ok(()),
        }
    }
}

impl Display for SchemaItem {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            SchemaItem::Family(family) => family.fmt(f),
            SchemaItem::Group { name, families } => {
                write!(f, "ACCESS GROUP {} (", Name(name))?;
                list(f, families)?;
                f.write_char(')')
            }
            SchemaItem::Index { of_qualifiers, family } => index(f, *of_qualifiers, family),
        }
    }
}

fn index(f: &mut Formatter<'_>, of_qualifiers: bool, family: &str) -> fmt::Result {
    f.write_str(if of_qualifiers { "QUALIFIER INDEX " } else { "INDEX " })?;
    Name(family).fmt(f)
}

impl Display for Change {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Change::Add(items) => {
                f.write_str("ADD (")?;
                list(f, items)?;
            }
            Change::Modify(families) => {
                f.write_str("MODIFY (")?;
                list(f, families)?;
            }
            Change::DropIndex { of_qualifiers, family } => {
                f.write_str("DROP ")?;
                return index(f, *of_qualifiers, family);
            }
            Change::Drop(families) => {
                f.write_str("DROP (")?;
                list(f, families.iter().map(|family| Name(family)))?;
            }
            Change::RenameFamily { from, to } => {
                write!(f, "RENAME COLUMN FAMILY ({}, {}", Name(from), Name(to))?;
            }
        }
        f.write_char(')')
    }
}

/// A timestamp in milliseconds. After the year 9999, the text says so.
struct Stamp(i64);

impl Display for Stamp {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)?;
        if self.0 > YEAR_9999_END { f.write_str(" MILLISECONDS") } else { Ok(()) }
    }
}

impl Display for NewCell {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_char('(')?;
        if let Some(timestamp) = self.timestamp {
            write!(f, "{}, ", Stamp(timestamp))?;
        }
        write!(f, "{}, {}, {})", Bytes(&self.row), self.column, Bytes(&self.value))
    }
}

impl Display for DeleteTime {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            DeleteTime::Now => Ok(()),
            DeleteTime::UpTo(timestamp) => write!(f, " TIMESTAMP {}", Stamp(*timestamp)),
            DeleteTime::Version(timestamp) => write!(f, " VERSION {}", Stamp(*timestamp)),
        }
    }
}

impl Display for Delete {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str("DELETE ")?;
        columns_or_all(f, &self.columns)?;
        write!(f, " FROM {} WHERE ROW = {}{}", self.table, Bytes(&self.row), self.time)
    }
}

/// An interval of `key`, whose bounds `show` prints.
fn interval<T, Shown: Display>(
    f: &mut Formatter<'_>,
    key: &str,
    interval: &Interval<T>,
    show: impl Fn(&T) -> Shown,
) -> fmt::Result {
    let sign = |bound: &Bound<T>| if bound.is_included { "<=" } else { "<" };
    match (&interval.low, &interval.high) {
        (Some(low), high) => {
            write!(f, "{} {} {key}", show(&low.at), sign(low))?;
            high.as_ref().map_or(Ok(()), |high| write!(f, " {} {}", sign(high), show(&high.at)))
        }
        (None, Some(high)) => write!(f, "{key} {} {}", sign(high), show(&high.at)),
        // The parser makes none like this; it means the same.
        (None, None) => write!(f, "{key} >= ''"),
    }
}

impl Display for Rows {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Rows::Exactly(row) => write!(f, "ROW = {}", Bytes(row)),
            Rows::Within(rows) => interval(f, "ROW", rows, |row| Bytes(row).to_string()),
            Rows::Prefix(prefix) => write!(f, "ROW =^ {}", Bytes(prefix)),
            Rows::Regexp(regexp) => write!(f, "ROW REGEXP {}", Bytes(regexp)),
        }
    }
}

/// Alternatives.
fn either<T>(
    f: &mut Formatter<'_>,
    all: &[T],
    print: impl Fn(&mut Formatter<'_>, &T) -> fmt::Result,
) -> fmt::Result {
    let parentheses = if all.len() > 1 { ("(", ")") } else { ("", "") };
    f.write_str(parentheses.0)?;
    for (place, one) in all.iter().enumerate() {
        f.write_str(if place == 0 { "" } else { " OR " })?;
        print(f, one)?;
    }
    f.write_str(parentheses.1)
}

impl Display for Term {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Term::Rows(rows) => either(f, rows, |f, rows| rows.fmt(f)),
            Term::Cells(cells) => either(f, cells, |f, cells| {
                let place = |cell: &CellPlace| format!("{}, {}", Bytes(&cell.row), cell.column);
                match cells {
                    CellRange::Within(cells) => interval(f, "CELL", cells, place),
                    CellRange::Prefix(cell) => write!(f, "CELL =^ {}", place(cell)),
                }
            }),
            Term::Columns(tests) => either(f, tests, |f, ColumnTest { columns, test }| match test {
                ValueTest::Exactly(value) => write!(f, "{columns} = {}", Bytes(value)),
                ValueTest::Prefix(value) => write!(f, "{columns} =^ {}", Bytes(value)),
                ValueTest::Regexp(regexp) => write!(f, "{columns} REGEXP {}", Bytes(regexp)),
            }),
            Term::ValueRegexp(regexp) => write!(f, "VALUE REGEXP {}", Bytes(regexp)),
            Term::Time(time) => interval(f, "TIMESTAMP", time, |timestamp| Stamp(*timestamp)),
        }
    }
}

impl Display for SelectOptions {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        option(f, "MAX_VERSIONS", self.max_versions)?;
        option(f, "LIMIT", self.limit)?;
        option(f, "OFFSET", self.offset)?;
        option(f, "CELL_LIMIT", self.cell_limit)?;
        option(f, "CELL_OFFSET", self.cell_offset)?;
        option(f, "CELL_LIMIT_PER_FAMILY", self.cell_limit_per_family)?;
        option(f, "CELL_OFFSET_PER_FAMILY", self.cell_offset_per_family)?;
        flag(f, "KEYS_ONLY", self.keys_only)?;
        flag(f, "DISPLAY_TIMESTAMPS", self.display_timestamps)?;
        flag(f, "RETURN_DELETES", self.return_deletes)?;
        flag(f, "NO_ESCAPE", self.no_escape)?;
        flag(f, "SCAN_AND_FILTER_ROWS", self.scan_and_filter_rows)?;
        flag(f, "REVERSED", self.reversed)?;
        option(f, "SEPARATOR =", self.separator.as_ref().map(|byte| Bytes(std::slice::from_ref(byte))))?;
        option(f, "INTO FILE", self.into_file.as_deref().map(Bytes))
    }
}

impl Display for Select {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(if self.is_of_cells { "SELECT CELLS " } else { "SELECT " })?;
        columns_or_all(f, &self.columns)?;
        self.from(f)
    }
}

impl Select {
    /// What follows the columns.
    fn from(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, " FROM {}", self.table)?;
        conditions(f, &self.terms)?;
        self.options.fmt(f)
    }
}

/// ` WHERE ...`, if there are conditions.
fn conditions(f: &mut Formatter<'_>, terms: &[Term]) -> fmt::Result {
    for (place, term) in terms.iter().enumerate() {
        write!(f, " {} {term}", if place == 0 { "WHERE" } else { "AND" })?;
    }
    Ok(())
}

impl Display for Condition {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Condition::Absent(column) => write!(f, "{column} IS ABSENT"),
            Condition::Value { column, comparison, value } => {
                let sign = match comparison {
                    Comparison::Less => "<",
                    Comparison::LessOrEqual => "<=",
                    Comparison::Equal => "=",
                    Comparison::NotEqual => "!=",
                    Comparison::GreaterOrEqual => ">=",
                    Comparison::Greater => ">",
                };
                write!(f, "{column} {sign} {}", Bytes(value))
            }
        }
    }
}

impl Display for Action {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Action::Insert { timestamp, column, value } => {
                f.write_str("INSERT VALUES (")?;
                timestamp.map_or(Ok(()), |timestamp| write!(f, "{}, ", Stamp(timestamp)))?;
                write!(f, "{column}, {})", Bytes(value))
            }
            Action::Delete { columns, time } => {
                f.write_str("DELETE ")?;
                columns_or_all(f, columns)?;
                time.fmt(f)
            }
            Action::Increment { column, by } => write!(f, "INCREMENT {column} BY {by}"),
            Action::Append { column, value } => write!(f, "APPEND {column} VALUE {}", Bytes(value)),
        }
    }
}

impl Display for LoadData {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str("LOAD DATA INFILE")?;
        let name = |name: &[u8]| String::from_utf8_lossy(name).into_owned();
        for (place, column) in self.row_key_columns.iter().enumerate() {
            f.write_str(if place == 0 { " ROW_KEY_COLUMN = " } else { " + " })?;
            Name(&name(column)).fmt(f)?;
        }
        if let Some(column) = &self.timestamp_column {
            write!(f, " TIMESTAMP_COLUMN = {}", Name(&name(column)))?;
        }
        match self.timestamp_unit {
            // The number would be in this unit.
            Some(unit) if unit != TimeUnit::Milliseconds => {
                let timestamp = self.timestamp.map(|timestamp| format!("{timestamp} MILLISECONDS"));
                option(f, "TIMESTAMP =", timestamp)?;
            }
            _ => option(f, "TIMESTAMP =", self.timestamp.map(Stamp))?,
        }
        option(f, "TIMESTAMP_UNIT =", self.timestamp_unit.map(TimeUnit::word))?;
        option(f, "FROM_LINE =", self.from_line)?;
        option(f, "HEADER_FILE =", self.header_file.as_deref().map(Bytes))?;
        option(f, "ROW_UNIQUIFY_CHARS =", self.row_uniquify_chars)?;
        option(f, "SEPARATOR =", self.separator.as_ref().map(|byte| Bytes(std::slice::from_ref(byte))))?;
        flag(f, "DUPLICATE_KEY_COLUMNS", self.duplicate_key_columns)?;
        flag(f, "IGNORE_UNKNOWN_COLUMNS", self.ignore_unknown_columns)?;
        flag(f, "SKIP_BAD_LINES", self.skip_bad_lines)?;
        flag(f, "SINGLE_CELL_FORMAT", self.single_cell_format)?;
        flag(f, "NO_ESCAPE", self.no_escape)?;
        write!(f, " {} INTO TABLE {}", Bytes(&self.file), self.table)
    }
}

impl Display for DumpTable {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "DUMP TABLE {}", self.table)?;
        if !self.columns.is_empty() {
            f.write_str(" COLUMNS ")?;
            list(f, &self.columns)?;
        }
        conditions(f, &self.terms)?;
        option(f, "BUCKETS", self.buckets)?;
        option(f, "MAX_VERSIONS", self.max_versions)?;
        option(f, "SEPARATOR =", self.separator.as_ref().map(|byte| Bytes(std::slice::from_ref(byte))))?;
        write!(f, " INTO FILE {}", Bytes(&self.file))
    }
}

impl Display for Statement {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Statement::CreateNamespace { name, if_not_exists } => {
                write!(
                    f,
                    "CREATE NAMESPACE{} {}",
                    if *if_not_exists { " IF NOT EXISTS" } else { "" },
                    Name(name)
                )
            }
            Statement::DropNamespace { name, if_exists } => {
                write!(f, "DROP NAMESPACE{} {}", if *if_exists { " IF EXISTS" } else { "" }, Name(name))
            }
            Statement::Use(name) => write!(f, "USE {}", Name(name)),
            Statement::GetListing => f.write_str("GET LISTING"),
            Statement::ShowNamespaces => f.write_str("SHOW NAMESPACES"),
            Statement::ShowTables => f.write_str("SHOW TABLES"),
            Statement::ShowCreateTable(table) => write!(f, "SHOW CREATE TABLE {table}"),
            Statement::DescribeTable { table, with_ids, into_file } => {
                write!(f, "DESCRIBE TABLE {}{table}", if *with_ids { "WITH IDS " } else { "" })?;
                into_file.iter().try_for_each(|file| write!(f, " INTO FILE {}", Bytes(file)))
            }
            Statement::ExistsTable(table) => write!(f, "EXISTS TABLE {table}"),
            Statement::RenameTable { from, to } => write!(f, "RENAME TABLE {from} TO {to}"),
            Statement::DropTable { table, if_exists } => {
                write!(f, "DROP TABLE {}{table}", if *if_exists { "IF EXISTS " } else { "" })
            }
            Statement::CreateTable { table, items, if_not_exists } => {
                write!(f, "CREATE TABLE {}{table} (", if *if_not_exists { "IF NOT EXISTS " } else { "" })?;
                list(f, items)?;
                f.write_char(')')
            }
            Statement::CreateTableLike { table, like, if_not_exists } => {
                write!(
                    f,
                    "CREATE TABLE {}{table} LIKE {like}",
                    if *if_not_exists { "IF NOT EXISTS " } else { "" }
                )
            }
            Statement::CreateTableFromFile { table, file, if_not_exists } => {
                let condition = if *if_not_exists { "IF NOT EXISTS " } else { "" };
                write!(f, "CREATE TABLE {condition}{table} FROM FILE {}", Bytes(file))
            }
            Statement::AlterTableFromFile { table, file } => {
                write!(f, "ALTER TABLE {table} FROM FILE {}", Bytes(file))
            }
            Statement::AlterTable { table, changes } => {
                write!(f, "ALTER TABLE {table}")?;
                changes.iter().try_for_each(|change| write!(f, " {change}"))
            }
            Statement::Insert { table, cells } => {
                write!(f, "INSERT INTO {table} VALUES ")?;
                list(f, cells)
            }
            Statement::Delete(delete) => delete.fmt(f),
            Statement::DeleteRows { columns, table, rows, time } => {
                f.write_str("DELETE ")?;
                columns_or_all(f, columns)?;
                write!(f, " FROM {table} WHERE ")?;
                either(f, rows, |f, rows| rows.fmt(f))?;
                time.fmt(f)
            }
            Statement::Truncate(table) => write!(f, "TRUNCATE TABLE {table}"),
            Statement::Count { select, counted } => {
                f.write_str(match counted {
                    Counted::Rows => "SELECT COUNT(*)",
                    Counted::Cells => "SELECT COUNT(CELLS)",
                })?;
                select.from(f)
            }
            Statement::Select(select) => select.fmt(f),
            Statement::Explain { select, is_analyzed } => {
                write!(f, "EXPLAIN {}{select}", if *is_analyzed { "ANALYZE " } else { "" })
            }
            Statement::Increment { table, row, column, by } => {
                write!(f, "INCREMENT {table} ROW {} COLUMN {column} BY {by}", Bytes(row))
            }
            Statement::Append { table, row, column, value } => {
                write!(f, "APPEND {table} ROW {} COLUMN {column} VALUE {}", Bytes(row), Bytes(value))
            }
            Statement::Check { table, row, conditions, then } => {
                write!(f, "CHECK {table} ROW {} (", Bytes(row))?;
                for (place, condition) in conditions.iter().enumerate() {
                    write!(f, "{}{condition}", if place == 0 { "" } else { " AND " })?;
                }
                f.write_str(") THEN")?;
                then.iter().try_for_each(|action| write!(f, " {action}"))
            }
            Statement::LoadData(load) => load.fmt(f),
            Statement::LoadCell { cell: FileCell { file, table, row, column }, timestamp } => {
                write!(
                    f,
                    "LOAD CELL INFILE {} INTO TABLE {table} ROW {} COLUMN {column}",
                    Bytes(file),
                    Bytes(row)
                )?;
                option(f, "TIMESTAMP", timestamp.map(Stamp))
            }
            Statement::DumpCell(FileCell { file, table, row, column }) => {
                write!(f, "DUMP CELL {table} ROW {} COLUMN {column} INTO FILE {}", Bytes(row), Bytes(file))
            }
            Statement::DumpTable(dump) => dump.fmt(f),
            Statement::Compact(table) => write!(f, "COMPACT TABLE {table}"),
            Statement::CompactRanges { is_of_tables } => {
                write!(f, "COMPACT RANGES {}", if *is_of_tables { "ALL" } else { "SYSTEM" })
            }
            Statement::WaitForMaintenance => f.write_str("WAIT FOR MAINTENANCE"),
            Statement::Pause { seconds } => write!(f, "PAUSE {seconds}"),
            Statement::Quit => f.write_str("QUIT"),
            Statement::RebuildIndices(table) => write!(f, "REBUILD INDICES {table}"),
            Statement::Source(file) => write!(f, "SOURCE {}", Bytes(file)),
        }
    }
}
