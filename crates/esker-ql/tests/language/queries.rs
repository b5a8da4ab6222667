//! Random queries show what a plain list of cells says.
//!
//! ```text
//! random cells --INSERT, DELETE--> tables
//!        '-----> lists                |
//! random query ---text--> SELECT ...: the cells are the same
//! ```
//! `ESKER_SEED` chooses the cells and the queries, `ESKER_CASES` the number of queries (default 20,000 in this process, 5,000 on an Esker
//! server, and 2,000 by HBase's interface alone, which is asked for the latest versions). `ESKER_HBASE_THRIFT` is the address of a server
//! to ask by that, such as the gateway of an HBase; without it, one of Esker's is begun.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use esker_ql::{
    Answer, Bound, CellPlace, CellRange, Column, ColumnTest, Columns, Interval, NewCell, Qualifiers, Rows,
    Select, SelectOptions, Session, Statement, TableName, Term, ValueTest, statements,
};

use esker_table::DeleteKind;

use crate::random::Random;
use crate::server::{with_esker, with_hbase};

const ROWS: [&[u8]; 7] = [b"\0", b"a", b"a\0", b"ab", b"b", b"ba\xff", b"\xff"];
const FAMILIES: [&str; 3] = ["f", "g", "h"];
const QUALIFIERS: [&[u8]; 7] = [b"", b"\0", b"a", b"ab", b"ac", b"b", b"\xff"];
const VALUES: [&[u8]; 6] = [b"", b"a", b"ab", b"ba", b"b", b"xb\xff"];

/// Expressions, and what they say of bytes.
type Holds = fn(&[u8]) -> bool;
const PATTERNS: [(&[u8], Holds); 12] = [
    (b"^a", |bytes| bytes.starts_with(b"a")),
    (b"a$", |bytes| bytes.ends_with(b"a")),
    (b"b", |bytes| bytes.contains(&b'b')),
    (b"^$", <[u8]>::is_empty),
    (b"^ab?", |bytes| bytes.starts_with(b"a")),
    (br"\Aab", |bytes| bytes.starts_with(b"ab")),
    (b"^(a|b)$", |bytes| bytes == b"a" || bytes == b"b"),
    (b"^a$|^b", |bytes| bytes == b"a" || bytes.starts_with(b"b")),
    (b"^b|b$", |bytes| bytes.starts_with(b"b") || bytes.ends_with(b"b")),
    (b"(?i)^B", |bytes| bytes.starts_with(b"b")),
    (br"(?-u)^\xff", |bytes| bytes.starts_with(b"\xff")),
    (br"(?m)^\x00", |bytes| bytes.starts_with(b"\0")),
];

/// After so many queries, the table gets other cells. HBase takes seconds for that.
const QUERIES_PER_TABLE: u64 = 100;
const QUERIES_PER_TABLE_OF_HBASE: u64 = 500;

/// The versions of each column, by their timestamps.
type Place = (Vec<u8>, &'static str, Vec<u8>);
#[derive(Default)]
struct Stored {
    cells: BTreeMap<Place, BTreeMap<i64, Vec<u8>>>,
    /// All of them, in the order in which they were written. `None`: merges have removed some.
    deletes: Option<Vec<Cell>>,
}

/// A cell; or a delete, whose place has no family or no qualifier (they are empty) if it is of a row or family.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Cell {
    place: Place,
    timestamp: i64,
    value: Vec<u8>,
    delete: Option<DeleteKind>,
}

impl Cell {
    /// Where it is in the order of the table.
    fn at(&self) -> (Vec<u8>, Option<String>, Option<Vec<u8>>) {
        let (row, family, qualifier) = self.place.clone();
        let (family, qualifier) = (Some(family.to_owned()), Some(qualifier));
        match self.delete {
            Some(DeleteKind::Row) => (row, None, None),
            Some(DeleteKind::Family) => (row, family, None),
            _ => (row, family, qualifier),
        }
    }

    /// Whether it is a delete of the cell of this place and time.
    fn deletes(&self, place: &Place, timestamp: i64) -> bool {
        let (row, family, qualifier) = self.at();
        row == place.0
            && family.is_none_or(|family| family == place.1)
            && qualifier.is_none_or(|qualifier| qualifier == place.2)
            && match self.delete {
                None => false,
                Some(DeleteKind::Version) => timestamp == self.timestamp,
                Some(_) => timestamp <= self.timestamp,
            }
    }
}

fn holds(pattern: &[u8], bytes: &[u8]) -> bool {
    PATTERNS.iter().any(|(known, holds)| *known == pattern && holds(bytes))
}

fn is_within<T: Ord>(interval: &Interval<T>, at: &T) -> bool {
    let is_above = |bound: &Bound<T>| if bound.is_included { *at >= bound.at } else { *at > bound.at };
    let is_below = |bound: &Bound<T>| if bound.is_included { *at <= bound.at } else { *at < bound.at };
    interval.low.as_ref().is_none_or(is_above) && interval.high.as_ref().is_none_or(is_below)
}

fn has_row(rows: &Rows, row: &[u8]) -> bool {
    match rows {
        Rows::Exactly(exactly) => exactly == row,
        Rows::Within(interval) => is_within(interval, &row.to_vec()),
        Rows::Prefix(prefix) => row.starts_with(prefix),
        Rows::Regexp(pattern) => holds(pattern, row),
    }
}

fn has_place(interval: &Interval<CellPlace>, cell: &Cell) -> bool {
    let bound = |bound: &Bound<CellPlace>| {
        let CellPlace { row, column } = &bound.at;
        let at = (row.clone(), Some(column.family.to_string()), Some(column.qualifier.clone()));
        Bound { at, is_included: bound.is_included }
    };
    let interval =
        Interval { low: interval.low.as_ref().map(bound), high: interval.high.as_ref().map(bound) };
    is_within(&interval, &cell.at())
}

fn has_column(columns: &Columns, place: &Place) -> bool {
    *columns.family == place.1
        && match &columns.qualifiers {
            Qualifiers::All => true,
            Qualifiers::Exactly(qualifier) => *qualifier == place.2,
            Qualifiers::Prefix(prefix) => place.2.starts_with(prefix),
            Qualifiers::Regexp(pattern) => holds(pattern, &place.2),
        }
}

fn meets(test: &ValueTest, value: &[u8]) -> bool {
    match test {
        ValueTest::Exactly(exactly) => exactly == value,
        ValueTest::Prefix(prefix) => value.starts_with(prefix),
        ValueTest::Regexp(pattern) => holds(pattern, value),
    }
}

/// Whether `columns` has the cell, or cells that the delete may hide.
fn has_cell(columns: &Columns, cell: &Cell) -> bool {
    match cell.delete {
        Some(DeleteKind::Row) => true,
        Some(DeleteKind::Family) => *columns.family == cell.place.1,
        _ => has_column(columns, &cell.place),
    }
}

/// What `select` shows of the cells and deletes.
///
/// With `is_latest`, only the latest version of a column is there, among those below the upper bound of the time.
fn expected(stored: &Stored, select: &Select, is_latest_only: bool) -> Vec<Cell> {
    let mut rows: BTreeMap<Vec<u8>, Vec<Cell>> = BTreeMap::new();
    let is_asked = |cell: &Cell| {
        select.terms.iter().all(|term| match term {
            Term::Rows(rows) => rows.iter().any(|rows| has_row(rows, &cell.place.0)),
            Term::Cells(cells) => cells.iter().any(|cells| match cells {
                CellRange::Within(interval) => has_place(interval, cell),
                CellRange::Prefix(CellPlace { row, column }) => {
                    let at = Columns {
                        family: column.family.clone(),
                        qualifiers: Qualifiers::Prefix(column.qualifier.clone()),
                    };
                    cell.place.0 == *row && cell.at().2.is_some() && has_column(&at, &cell.place)
                }
            }),
            Term::Time(interval) => is_within(interval, &cell.timestamp),
            Term::Columns(_) | Term::ValueRegexp(_) => true,
        })
    };
    if select.options.return_deletes {
        let mut deletes: Vec<&Cell> = stored.deletes.iter().flatten().collect();
        // The last one first, where they are alike.
        deletes.reverse();
        deletes.sort_by_key(|delete| (delete.at(), delete.delete, Reverse(delete.timestamp)));
        for delete in deletes.into_iter().filter(|delete| is_asked(delete)) {
            rows.entry(delete.place.0.clone()).or_default().push(delete.clone());
        }
    }
    for (place, versions) in &stored.cells {
        let is_below = |timestamp: i64| {
            select.terms.iter().all(|term| match term {
                Term::Time(interval) => {
                    is_within(&Interval { low: None, high: interval.high.clone() }, &timestamp)
                }
                _ => true,
            })
        };
        let seen = versions.iter().rev().filter(|(timestamp, _)| is_below(**timestamp));
        for (timestamp, value) in seen.take(if is_latest_only { 1 } else { usize::MAX }) {
            let cell =
                Cell { place: place.clone(), timestamp: *timestamp, value: value.clone(), delete: None };
            if is_asked(&cell) {
                rows.entry(place.0.clone()).or_default().push(cell);
            }
        }
    }
    let mut rows: Vec<Vec<Cell>> = rows.into_values().collect();
    // Deletes are in front of what they may hide.
    rows.iter_mut().for_each(|cells| cells.sort_by_key(Cell::at));
    if select.options.reversed {
        rows.reverse();
    }
    let is_latest = |cells: &[Cell], at: usize| at == 0 || cells[at - 1].place != cells[at].place;
    rows.retain(|cells| {
        let cells: Vec<Cell> = cells.iter().filter(|cell| cell.delete.is_none()).cloned().collect();
        select.terms.iter().all(|term| match term {
            Term::Columns(tests) => (0..cells.len()).any(|at| {
                let cell = &cells[at];
                let is_met = |ColumnTest { columns, test }: &ColumnTest| {
                    has_column(columns, &cell.place) && meets(test, &cell.value)
                };
                is_latest(&cells, at) && tests.iter().any(is_met)
            }),
            _ => true,
        })
    });
    let options = &select.options;
    let versions_max = options.max_versions.filter(|versions| *versions > 0).unwrap_or(u64::MAX);
    let (mut shown, mut row_count, mut cell_count) = (Vec::new(), 0, 0);
    for mut cells in rows {
        let mut of_columns = BTreeMap::new();
        cells.retain(|cell| {
            let is_selected =
                select.columns.is_empty() || select.columns.iter().any(|columns| has_cell(columns, cell));
            let of_column = of_columns.entry(cell.place.clone()).or_insert(0);
            *of_column += u64::from(is_selected && cell.delete.is_none());
            is_selected
                && *of_column <= versions_max
                && select.terms.iter().all(|term| match term {
                    Term::ValueRegexp(pattern) => cell.delete.is_none() && holds(pattern, &cell.value),
                    _ => true,
                })
        });
        if cells.is_empty() {
            continue;
        }
        let mut of_families = BTreeMap::new();
        row_count += 1;
        let offset = options.offset.unwrap_or(0);
        let is_shown = row_count > offset && row_count <= offset + options.limit.unwrap_or(1 << 60);
        for mut cell in cells {
            let of_family = of_families.entry(cell.place.1).or_insert(0);
            *of_family += 1;
            let of_family_offset = options.cell_offset_per_family.unwrap_or(0);
            let of_family_end = of_family_offset + options.cell_limit_per_family.unwrap_or(1 << 60);
            if *of_family <= of_family_offset || *of_family > of_family_end || !is_shown {
                continue;
            }
            cell_count += 1;
            let offset = options.cell_offset.unwrap_or(0);
            if cell_count > offset && cell_count <= offset + options.cell_limit.unwrap_or(1 << 60) {
                if options.keys_only {
                    cell.value.clear();
                }
                shown.push(cell);
            }
        }
    }
    shown
}

impl Random {
    fn of<T: Copy>(&mut self, things: &[T]) -> T {
        things[self.below(things.len() as u64) as usize]
    }

    fn place(&mut self) -> CellPlace {
        let column =
            Column { family: self.of(&FAMILIES).to_owned().into(), qualifier: self.of(&QUALIFIERS).to_vec() };
        CellPlace { row: self.of(&ROWS).to_vec(), column }
    }

    fn shown_columns(&mut self) -> Columns {
        let qualifiers = match self.below(6) {
            0..3 => Qualifiers::All,
            3 => Qualifiers::Exactly(self.of(&QUALIFIERS).to_vec()),
            4 => Qualifiers::Prefix(self.of(&QUALIFIERS).to_vec()),
            _ => Qualifiers::Regexp(self.of(&PATTERNS).0.to_vec().into()),
        };
        Columns { family: self.of(&FAMILIES).to_owned().into(), qualifiers }
    }

    fn some_rows(&mut self) -> Rows {
        match self.below(5) {
            0 | 1 => Rows::Exactly(self.of(&ROWS).to_vec()),
            2 => Rows::Prefix(self.of(&ROWS).to_vec()),
            3 => Rows::Regexp(self.of(&PATTERNS).0.to_vec().into()),
            _ => Rows::Within(self.interval(|random| random.of(&ROWS).to_vec())),
        }
    }

    fn column_test(&mut self) -> ColumnTest {
        let test = match self.below(3) {
            0 => ValueTest::Exactly(self.of(&VALUES).to_vec()),
            1 => ValueTest::Prefix(self.of(&VALUES).to_vec()),
            _ => ValueTest::Regexp(self.of(&PATTERNS).0.to_vec().into()),
        };
        ColumnTest { columns: self.shown_columns(), test }
    }

    fn some_term(&mut self) -> Term {
        match self.below(7) {
            0 | 1 => Term::Rows(self.some(Random::some_rows)),
            2 => Term::Cells(self.some(|random| match random.below(4) {
                0 => CellRange::Prefix(random.place()),
                _ => CellRange::Within(random.interval(Random::place)),
            })),
            3 | 4 => {
                let count = if self.flip() { 1 } else { 1 + self.below(3) };
                Term::Columns((0..count).map(|_| self.column_test()).collect())
            }
            5 => Term::ValueRegexp(self.of(&PATTERNS).0.to_vec().into()),
            _ => Term::Time(self.interval(|random| random.below(6) as i64)),
        }
    }

    fn query(&mut self) -> Select {
        let few = |random: &mut Random| (random.below(4) == 0).then(|| random.below(5));
        let options = SelectOptions {
            max_versions: few(self),
            limit: few(self),
            offset: few(self),
            cell_limit: few(self).map(|limit| limit * 3),
            cell_offset: few(self),
            cell_limit_per_family: few(self),
            cell_offset_per_family: few(self).map(|offset| offset / 2),
            keys_only: self.below(8) == 0,
            reversed: self.flip(),
            ..SelectOptions::default()
        };
        let columns = if self.flip() { Vec::new() } else { self.some(Random::shown_columns) };
        let terms = if self.below(4) == 0 { Vec::new() } else { self.some(Random::some_term) };
        Select { is_of_cells: self.flip(), columns, table: table(), terms, options }
    }
}

fn table() -> TableName {
    TableName { namespace: None, name: "t".to_owned().into() }
}

fn execute(session: &mut Session, text: &str) -> Answer {
    let mut answer = Answer::Done;
    for statement in statements(text.as_bytes()) {
        let statement = statement.unwrap_or_else(|error| panic!("{error}\nin {text}"));
        answer = session.execute(statement.statement).unwrap_or_else(|error| panic!("{error}\nin {text}"));
    }
    answer
}

/// Makes a table with random cells, of which its families keep all, or as many as `schema` says.
fn fill(random: &mut Random, session: &mut Session, schema: &str, keeps_all: bool) -> Stored {
    execute(session, &format!("DROP TABLE IF EXISTS t; CREATE TABLE t ({schema})"));
    let mut stored = Stored { deletes: Some(Vec::new()), ..Stored::default() };
    for _ in 0..random.below(120) {
        let CellPlace { row, column } = random.place();
        let family = FAMILIES.into_iter().find(|family| *family == *column.family).unwrap();
        let place = (row.clone(), family, column.qualifier.clone());
        let timestamp = random.below(6) as i64;
        // On HBase, a delete hides what is put later with an earlier timestamp.
        if random.below(7) == 0 && std::env::var_os("ESKER_HBASE_THRIFT").is_none() {
            // The server's interface has no deletes of versions.
            let kinds = [DeleteKind::Column, DeleteKind::Family, DeleteKind::Row, DeleteKind::Version];
            let kind = kinds[random.below(if keeps_all { 1 } else { 4 }) as usize];
            let (what, place) = match kind {
                DeleteKind::Row => ("*".to_owned(), (row.clone(), "", Vec::new())),
                DeleteKind::Family => (family.to_owned(), (row.clone(), family, Vec::new())),
                _ => (column.to_string(), place),
            };
            let until = if kind == DeleteKind::Version { "VERSION" } else { "TIMESTAMP" };
            execute(
                session,
                &format!("DELETE {what} FROM t WHERE ROW = x'{}' {until} {timestamp}", hex(&row)),
            );
            let delete = Cell { place, timestamp, value: Vec::new(), delete: Some(kind) };
            for (place, versions) in &mut stored.cells {
                versions.retain(|at, _| !delete.deletes(place, *at));
            }
            stored.deletes.iter_mut().for_each(|deletes| deletes.push(delete.clone()));
            continue;
        }
        let value = random.of(&VALUES).to_vec();
        let cell =
            NewCell { timestamp: Some(timestamp), row: row.into(), column, value: value.clone().into() };
        execute(session, &Statement::Insert { table: table(), cells: vec![cell] }.to_string());
        let versions = stored.cells.entry(place).or_default();
        versions.insert(timestamp, value);
        let kept = match family {
            _ if keeps_all => usize::MAX,
            "f" => usize::MAX,
            "g" => 2,
            _ => 3,
        };
        while versions.len() > kept {
            versions.pop_first();
        }
    }
    if random.flip() {
        execute(session, "COMPACT TABLE t");
        stored.deletes = None;
    }
    stored
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Asks random queries of tables with these schemas in turn. With `is_latest`, of the latest versions only.
fn ask(session: &mut Session, schemas: &[&str], is_latest: bool, cases: u64) {
    let cases = test_kit::cases(cases);
    let mut random = Random(test_kit::Rng::new(test_kit::seed(1)));
    let (mut stored, mut shown_cells, mut shown_deletes) = (Stored::default(), 0, 0);
    let of_table = if is_latest { QUERIES_PER_TABLE_OF_HBASE } else { QUERIES_PER_TABLE };
    for case in 0..cases {
        if case % of_table == 0 {
            let schema = schemas[(case / of_table) as usize % schemas.len()];
            stored = fill(&mut random, session, schema, is_latest);
        }
        let mut select = random.query();
        if is_latest {
            select.options.max_versions = Some(1);
        } else {
            select.options.return_deletes = stored.deletes.is_some() && random.flip();
        }
        let text = select.to_string();
        let Answer::Cells { mut cells, .. } = execute(session, &text) else { panic!("{text}") };
        let mut shown = Vec::new();
        while cells.advance().unwrap() {
            let families =
                [""].into_iter().filter(|_| cells.delete() == Some(DeleteKind::Row)).chain(FAMILIES);
            let family = families.into_iter().find(|family| *family == cells.family()).unwrap();
            shown.push(Cell {
                place: (cells.row().to_vec(), family, cells.qualifier().to_vec()),
                timestamp: cells.timestamp(),
                value: cells.value().unwrap().to_vec(),
                delete: cells.delete(),
            });
        }
        let deletes = shown.iter().filter(|cell| cell.delete.is_some()).count() as u64;
        (shown_cells, shown_deletes) = (shown_cells + shown.len() as u64 - deletes, shown_deletes + deletes);
        assert_eq!(shown, expected(&stored, &select, is_latest), "case {case}: {text}");
    }
    println!("{cases} queries show {shown_cells} cells and {shown_deletes} deletes");
    // One table may have few cells.
    if cases >= 4 * of_table {
        assert!(shown_cells > cases, "{cases} queries show only {shown_cells} cells");
        // A quick run has drawn a few tables, and some of them have few deletes.
        let least = if test_kit::is_full_run() { cases / 10 } else { cases / 50 };
        assert!(is_latest || shown_deletes > least, "{cases} queries show only {shown_deletes} deletes");
    }
}

#[test]
fn queries_show_what_a_list_of_cells_says() {
    let tables = esker_table::Tables::open_in_memory(esker::Options::default()).unwrap();
    let schema = "f MAX_VERSIONS ALL, g MAX_VERSIONS 2, ACCESS GROUP h (h)";
    let indexes = "INDEX f, INDEX g, QUALIFIER INDEX g, INDEX h, QUALIFIER INDEX h";
    ask(&mut Session::new(tables), &[schema, &format!("{schema}, {indexes}")], false, 20_000);
}

#[test]
fn an_esker_server_shows_what_a_list_of_cells_says() {
    let schema = "f MAX_VERSIONS ALL, g MAX_VERSIONS 2, ACCESS GROUP h (h)";
    let indexes = "INDEX f, INDEX g, QUALIFIER INDEX g, INDEX h, QUALIFIER INDEX h";
    with_esker(|remote| {
        ask(&mut Session::new(remote), &[schema, &format!("{schema}, {indexes}")], false, 5_000);
    });
}

#[test]
fn hbases_interface_shows_the_latest_of_what_a_list_of_cells_says() {
    // HBase shows surplus versions again where the later ones are not asked for.
    let schema = "f MAX_VERSIONS ALL, g MAX_VERSIONS ALL, h MAX_VERSIONS ALL";
    with_hbase(|remote| {
        ask(&mut Session::new(remote), &[schema], true, 2_000);
    });
}
