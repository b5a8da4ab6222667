//! Random statements are printed and read again; damaged and huge texts end in a statement or an error.

use esker_ql::{
    Action, Bound, CellPlace, CellRange, Change, Column, ColumnTest, Columns, Comparison, Condition, Counted,
    Delete, DeleteTime, DumpTable, ELEMENTS_MAX, FamilyItem, FileCell, Interval, LoadData, NewCell,
    Qualifiers, Rows, SchemaItem, Select, SelectOptions, Statement, TableName, Term, TimeUnit, ValueTest,
    statements,
};

use test_kit::Rng;

use crate::outcome;

/// Random statements.
pub(crate) struct Random(pub(crate) Rng);

impl Random {
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.0.below(end)
    }

    pub(crate) fn flip(&mut self) -> bool {
        self.below(2) == 0
    }

    pub(crate) fn maybe<T>(&mut self, make: impl FnOnce(&mut Random) -> T) -> Option<T> {
        if self.flip() { Some(make(self)) } else { None }
    }

    pub(crate) fn some<T>(&mut self, mut make: impl FnMut(&mut Random) -> T) -> Vec<T> {
        (0..=self.below(3)).map(|_| make(self)).collect()
    }

    fn bytes<T: From<Vec<u8>>>(&mut self) -> T {
        let bytes: Vec<u8> = (0..self.below(6))
            .map(|_| if self.flip() { self.below(256) } else { 32 + self.below(95) } as u8)
            .collect();
        bytes.into()
    }

    fn name<T: From<String>>(&mut self) -> T {
        let names =
            ["a", "cf", "row", "SELECT", "x", "a-b.c", "7", "é", "a--b", "_", "two words", "Cells", "'"];
        names[self.below(names.len() as u64) as usize].to_owned().into()
    }

    fn table(&mut self) -> TableName {
        TableName { namespace: self.maybe(Random::name), name: self.name() }
    }

    fn column(&mut self) -> Column {
        Column { family: self.name(), qualifier: self.bytes() }
    }

    fn columns(&mut self) -> Columns {
        let regexps: [&[u8]; 4] = [b"a.*", b"/", b"\\d\\\\", "é\"'".as_bytes()];
        let qualifiers = match self.below(4) {
            0 => Qualifiers::All,
            1 => Qualifiers::Exactly(self.bytes()),
            2 => Qualifiers::Prefix(self.bytes()),
            _ => Qualifiers::Regexp(regexps[self.below(4) as usize].to_vec().into()),
        };
        Columns { family: self.name(), qualifiers }
    }

    fn column_as_columns(&mut self) -> Columns {
        let Column { family, qualifier } = self.column();
        Columns { family, qualifiers: Qualifiers::Exactly(qualifier) }
    }

    fn time(&mut self) -> i64 {
        (self.below(1 << 62)) as i64
    }

    pub(crate) fn interval<T>(&mut self, mut at: impl FnMut(&mut Random) -> T) -> Interval<T> {
        let mut bound = |random: &mut Random| Bound { at: at(random), is_included: random.flip() };
        let which = self.below(3);
        let low = (which < 2).then(|| bound(self));
        Interval { low, high: (which > 0).then(|| bound(self)) }
    }

    fn family(&mut self) -> FamilyItem {
        FamilyItem {
            name: self.name(),
            max_versions: self.maybe(|random| random.below(4) as u32),
            ttl_ms: self
                .maybe(|random| random.below(1 << 30) * [1, 1000, 604_800_000][random.below(3) as usize]),
            is_oldest_first: self.maybe(Random::flip),
            is_counter: self.maybe(Random::flip),
        }
    }

    fn item(&mut self) -> SchemaItem {
        match self.below(3) {
            0 => SchemaItem::Group { name: self.name(), families: self.some(Random::family) },
            1 => SchemaItem::Index { of_qualifiers: self.flip(), family: self.name() },
            _ => SchemaItem::Family(self.family()),
        }
    }

    fn rows(&mut self) -> Rows {
        match self.below(4) {
            0 => Rows::Exactly(self.bytes()),
            1 => Rows::Prefix(self.bytes()),
            2 => Rows::Regexp(self.bytes()),
            _ => Rows::Within(self.interval(Random::bytes)),
        }
    }

    fn any_place(&mut self) -> CellPlace {
        CellPlace { row: self.bytes(), column: self.column() }
    }

    fn any_column_test(&mut self) -> ColumnTest {
        let columns = self.columns();
        let test = match self.below(3) {
            0 => ValueTest::Exactly(self.bytes()),
            1 => ValueTest::Prefix(self.bytes()),
            _ => ValueTest::Regexp(self.bytes()),
        };
        ColumnTest { columns, test }
    }

    fn term(&mut self) -> Term {
        match self.below(5) {
            0 => Term::Rows(self.some(Random::rows)),
            1 => Term::Cells(self.some(|random| match random.below(4) {
                0 => CellRange::Prefix(random.any_place()),
                _ => CellRange::Within(random.interval(Random::any_place)),
            })),
            2 => Term::Columns(self.some(Random::any_column_test)),
            3 => Term::ValueRegexp(self.bytes()),
            _ => Term::Time(self.interval(Random::time)),
        }
    }

    fn select(&mut self) -> Box<Select> {
        let number = |random: &mut Random| random.below(1000);
        let options = SelectOptions {
            max_versions: self.maybe(number),
            limit: self.maybe(number),
            offset: self.maybe(number),
            cell_limit: self.maybe(number),
            cell_offset: self.maybe(number),
            cell_limit_per_family: self.maybe(number),
            cell_offset_per_family: self.maybe(number),
            keys_only: self.flip(),
            display_timestamps: self.flip(),
            return_deletes: self.flip(),
            no_escape: self.flip(),
            scan_and_filter_rows: self.flip(),
            reversed: self.flip(),
            separator: self.maybe(Random::written_separator),
            into_file: self.maybe(Random::bytes),
        };
        let columns = if self.flip() { Vec::new() } else { self.some(Random::columns) };
        let terms = if self.flip() { Vec::new() } else { self.some(Random::term) };
        Box::new(Select { is_of_cells: self.flip(), columns, table: self.table(), terms, options })
    }

    fn written_separator(&mut self) -> u8 {
        b"\t,'; "[self.below(5) as usize]
    }

    /// Columns to delete, and up to when.
    fn deleted(&mut self) -> (Vec<Columns>, DeleteTime) {
        let columns = if self.flip() { Vec::new() } else { self.some(Random::column_as_columns) };
        let time = match self.below(3) {
            0 => DeleteTime::Now,
            1 if !columns.is_empty() => DeleteTime::Version(self.time()),
            _ => DeleteTime::UpTo(self.time()),
        };
        (columns, time)
    }

    fn condition(&mut self) -> Condition {
        use Comparison::{Equal, Greater, GreaterOrEqual, Less, LessOrEqual, NotEqual};
        let comparisons = [Less, LessOrEqual, Equal, NotEqual, GreaterOrEqual, Greater];
        let column = self.column();
        match self.below(7) {
            6 => Condition::Absent(column),
            place => {
                Condition::Value { column, comparison: comparisons[place as usize], value: self.bytes() }
            }
        }
    }

    fn action(&mut self) -> Action {
        match self.below(4) {
            0 => {
                let (columns, time) = self.deleted();
                Action::Delete { columns, time }
            }
            1 => Action::Increment { column: self.column(), by: -self.time() },
            2 => Action::Append { column: self.column(), value: self.bytes() },
            _ => Action::Insert {
                timestamp: self.maybe(Random::time),
                column: self.column(),
                value: self.bytes(),
            },
        }
    }

    fn change(&mut self) -> Change {
        match self.below(5) {
            0 => Change::Add(self.some(Random::item)),
            3 => Change::Modify(self.some(Random::item)),
            1 => Change::Drop(self.some(Random::name)),
            2 => Change::DropIndex { of_qualifiers: self.flip(), family: self.name() },
            _ => Change::RenameFamily { from: self.name(), to: self.name() },
        }
    }

    fn cell(&mut self) -> NewCell {
        let timestamp = self.maybe(Random::time);
        NewCell { timestamp, row: self.bytes(), column: self.column(), value: self.bytes() }
    }

    fn statement(&mut self) -> Statement {
        let table = self.table();
        match self.below(27) {
            0 => Statement::CreateNamespace { name: self.name(), if_not_exists: self.flip() },
            1 => Statement::DropNamespace { name: self.name(), if_exists: self.flip() },
            2 => Statement::Use(self.name()),
            3 => Statement::GetListing,
            4 => Statement::ShowTables,
            5 => Statement::ShowNamespaces,
            6 => Statement::ShowCreateTable(table),
            7 => {
                let into_file = self.maybe(Random::bytes);
                Statement::DescribeTable { table, with_ids: self.flip(), into_file }
            }
            8 => Statement::ExistsTable(table),
            9 => Statement::RenameTable { from: table, to: self.table() },
            10 => Statement::DropTable { table, if_exists: self.flip() },
            11 => {
                Statement::CreateTable { table, items: self.some(Random::item), if_not_exists: self.flip() }
            }
            12 if self.flip() => {
                Statement::CreateTableFromFile { table, file: self.bytes(), if_not_exists: self.flip() }
            }
            13 if self.flip() => Statement::AlterTableFromFile { table, file: self.bytes() },
            12 => Statement::CreateTableLike { table, like: self.table(), if_not_exists: self.flip() },
            13 => Statement::AlterTable { table, changes: self.some(Random::change) },
            14 => Statement::Insert { table, cells: self.some(Random::cell) },
            15 if self.below(8) == 0 => Statement::Truncate(table),
            15 if self.flip() => {
                let (columns, time) = self.deleted();
                let rows = [self.bytes(), self.bytes()].map(Rows::Prefix).to_vec();
                Statement::DeleteRows { columns, table, rows, time }
            }
            15 => {
                let (columns, time) = self.deleted();
                Statement::Delete(Delete { columns, table, row: self.bytes(), time })
            }
            16 => Statement::Explain { select: self.select(), is_analyzed: self.flip() },
            17 => Statement::Increment { table, row: self.bytes(), column: self.column(), by: -self.time() },
            18 => Statement::Append { table, row: self.bytes(), column: self.column(), value: self.bytes() },
            19 => {
                let (conditions, then) = (self.some(Random::condition), self.some(Random::action));
                Statement::Check { table, row: self.bytes(), conditions, then }
            }
            20 => Statement::LoadData(LoadData {
                row_key_columns: self.some(|random| random.name::<String>().into_bytes()),
                timestamp_column: self.maybe(|random| random.name::<String>().into_bytes()),
                timestamp: self.maybe(Random::time),
                timestamp_unit: self.maybe(|random| TimeUnit::ALL[random.below(4) as usize]),
                from_line: self.maybe(|random| random.below(1000)),
                header_file: self.maybe(Random::bytes),
                row_uniquify_chars: self.maybe(|random| random.below(20)),
                separator: self.maybe(|random| b"\t,'\x01\xff"[random.below(5) as usize]),
                skip_bad_lines: self.flip(),
                duplicate_key_columns: self.flip(),
                ignore_unknown_columns: self.flip(),
                single_cell_format: self.flip(),
                no_escape: self.flip(),
                file: self.bytes(),
                table,
            }),
            21 => {
                let columns = if self.flip() { Vec::new() } else { self.some(Random::columns) };
                let buckets = self.maybe(|random| random.below(100));
                let (max_versions, separator) =
                    (self.maybe(|random| random.below(100)), self.maybe(Random::written_separator));
                let terms = if self.flip() { Vec::new() } else { self.some(Random::term) };
                let file = self.bytes();
                Statement::DumpTable(DumpTable {
                    table,
                    columns,
                    terms,
                    buckets,
                    max_versions,
                    separator,
                    file,
                })
            }
            24 => {
                let (row, column) = (self.bytes(), self.column());
                let cell = FileCell { file: self.bytes(), table, row, column };
                match self.flip() {
                    true => Statement::DumpCell(cell),
                    false => Statement::LoadCell { cell, timestamp: self.maybe(Random::time) },
                }
            }
            25 => {
                let select = Box::new(Select { is_of_cells: false, columns: Vec::new(), ..*self.select() });
                let counted = if self.flip() { Counted::Rows } else { Counted::Cells };
                Statement::Count { select, counted }
            }
            22 if self.flip() => Statement::RebuildIndices(table),
            22 => Statement::Compact(table),
            26 if self.flip() => match self.below(4) {
                0 => Statement::CompactRanges { is_of_tables: self.flip() },
                1 => Statement::WaitForMaintenance,
                2 => Statement::Pause { seconds: self.below(1000) },
                _ => Statement::Quit,
            },
            23 => Statement::Source(self.bytes()),
            _ => Statement::Select(self.select()),
        }
    }
}

#[test]
fn a_printed_statement_is_read_as_the_same() {
    let mut random = Random(Rng::new(test_kit::seed(1)));
    for _ in 0..test_kit::cases(20_000) {
        let all = random.some(Random::statement);
        let text: String = all.iter().map(|statement| format!("{statement};\n")).collect();
        let read: Result<Vec<_>, _> = statements(text.as_bytes()).collect();
        let read = read.unwrap_or_else(|error| panic!("{error}\nin {text}"));
        assert_eq!(
            read.iter().map(|located| &located.statement).collect::<Vec<_>>(),
            all.iter().collect::<Vec<_>>()
        );
        for located in read {
            assert_eq!(text[located.place], located.statement.to_string());
        }
    }
}

#[test]
fn a_damaged_text_ends_in_statements_or_an_error() {
    let mut random = Random(Rng::new(test_kit::seed(1)));
    for _ in 0..test_kit::cases(20_000) {
        let mut text = random.statement().to_string().into_bytes();
        for _ in 0..=random.below(3) {
            let at = random.below(text.len() as u64) as usize;
            match random.below(3) {
                0 => text[at] = random.below(256) as u8,
                1 => text.truncate(at + 1),
                _ => text.insert(at, b"'\"\\;:/^(),*"[random.below(11) as usize]),
            }
        }
        outcome(&text);
    }
}

#[test]
fn huge_texts_are_read_or_refused() {
    // Bytes of each text.
    let len = test_kit::cases(100 << 20) as usize;
    let repeated = |text: &str| text.repeat(len / text.len());
    let count = |text: &str| statements(text.as_bytes()).try_fold(0, |count, one| one.map(|_| count + 1));
    assert_eq!(count(&repeated("USE a;")).unwrap(), len / 6);
    assert_eq!(count(&repeated(" ")).unwrap(), 0);
    for (text, what) in test_kit::some_of([
        (format!("USE '{}'", "a".repeat(100 << 20)), "bytes at most"),
        (format!("SELECT * FROM t WHERE {}", repeated("ROW = 'a' AND ")), "elements at most"),
        (format!("SELECT {} FROM t", repeated("a, ")), "elements at most"),
        (format!("INSERT INTO t VALUES {}", repeated("('a','b:c','d'),")), "elements at most"),
        (format!("CREATE TABLE t ({}", repeated("(")), "expected"),
        (format!("SELECT * FROM t WHERE {}", repeated("(")), "expected"),
        (repeated("EXPLAIN "), "expected"),
        (format!("/*{}", repeated("a ")), "no end"),
        (format!("SELECT a:/{}", repeated("b")), "no end"),
    ]) {
        let error = count(&text).unwrap_err().to_string();
        assert!(error.contains(what) && error.len() < 1000, "{what}: {}", error.len());
    }
    assert!(count(&"a, ".repeat(ELEMENTS_MAX - 1)).is_err());
}
