//! What scans say of what they have read, and the deletes that they show.

use esker_table::{
    Comparator, Comparison, DeleteKind, Family, Filter, Read, RowMutation, Scan, ScanCounts, Schema, Table,
    Tables,
};

fn tables() -> (Tables, Table) {
    let tables = Tables::open_in_memory(esker::Options::default()).unwrap();
    let schema = Schema::new()
        .group("small", [Family::new("a").index_values(true), Family::new("b")])
        .group("large", [Family::new("c").max_versions(1)]);
    let table = tables.create("t", schema).unwrap();
    for row in 0..100 {
        let row = format!("row-{row:02}");
        let mutation = RowMutation::new(row.clone()).put("a", "x", row).put("b", "y", "v").put("c", "z", "w");
        table.mutate(&mutation).unwrap();
    }
    (tables, table)
}

fn counted(mut scan: Scan) -> ScanCounts {
    scan.count();
    while scan.advance().unwrap() {}
    scan.counts()
}

#[test]
fn entries_are_counted_where_they_are_read() {
    let (_tables, table) = tables();
    let counts = counted(table.scan("", "", &Read::all()).unwrap());
    let of = |place: usize| (counts.groups[place].0.as_str(), counts.groups[place].1.entries);
    // Of a key: the row and its end, the family, the qualifier and its end, the kind and the version; and the value.
    let bytes = 100 * (6 + 2 + 2 + 1 + 2 + 17);
    assert_eq!((of(0), of(1)), (("small", 200), ("large", 100)));
    assert_eq!(counts.groups[1].1.bytes, bytes + 100);
    assert_eq!((counts.rows, counts.cells, counts.rows_left_out, counts.cells_left_out), (100, 300, 0, 0));
    assert!(counts.index.is_none() && !counts.is_cached);

    let counts = counted(table.scan("row-10", "row-20", &Read::family("c")).unwrap());
    let [(name, large)] = &counts.groups[..] else { panic!("{counts:?}") };
    // The scan comes to the first row behind those that it shows.
    assert_eq!((name.as_str(), large.entries, large.seeks, counts.rows), ("large", 11, 1, 10));

    let filter = Filter::parse(b"RowFilter(=, 'substring:7') AND QualifierFilter(=, 'binary:x')").unwrap();
    let counts = counted(table.scan("", "", &Read::all().filter(filter)).unwrap());
    assert_eq!((counts.rows, counts.rows_left_out), (100, 81));
    // The columns of other qualifiers are not come to.
    assert_eq!((counts.cells, counts.cells_left_out), (19, 0));
    let filter =
        Filter::parse(b"RowFilter(=, 'substring:7') AND QualifierFilter(=, 'regexstring:x$')").unwrap();
    let counts = counted(table.scan("", "", &Read::all().filter(filter)).unwrap());
    assert_eq!((counts.cells, counts.cells_left_out), (3 * 19, 2 * 19));
}

/// A row of many cells in the families `f` and `h`, between rows of few.
fn wide() -> (Tables, Table) {
    let tables = Tables::open_in_memory(esker::Options::default()).unwrap();
    let schema = Schema::new()
        .group("wide", [Family::new("f").max_versions(None), Family::new("h")])
        .group("other", [Family::new("o")]);
    let table = tables.create("t", schema).unwrap();
    let mut row = RowMutation::new("m").put("o", "q", "v");
    for number in 0..10_000 {
        let qualifier = format!("q{number:05}");
        row = row.put("f", qualifier.clone(), format!("v{number}")).put("h", qualifier, "v");
    }
    table.mutate(&row).unwrap();
    for row in ["a", "z"] {
        table.mutate(&RowMutation::new(row).put("f", "q", "v").put("o", "q", "v")).unwrap();
    }
    (tables, table)
}

/// What a scan reads of a table in all, and how many cells it shows.
fn read_and_shown(table: &Table, read: &Read, is_reversed: bool) -> (u64, u64, usize) {
    let mut scan = match is_reversed {
        false => table.scan("", "", read).unwrap(),
        true => table.scan_reversed("", "", read).unwrap(),
    };
    scan.count();
    let mut shown = 0;
    while scan.advance().unwrap() {
        shown += 1;
    }
    let counts = scan.counts();
    let sum =
        |of: fn(&esker_table::TreeCounts) -> u64| counts.groups.iter().map(|(_, counts)| of(counts)).sum();
    (sum(|counts| counts.entries), sum(|counts| counts.seeks), shown)
}

#[test]
fn of_a_wide_row_little_is_read_if_little_is_shown() {
    let (_tables, table) = wide();
    let cases: &[(&str, usize)] = &[
        ("QualifierFilter(=, 'binary:q05000')", 2),
        ("QualifierFilter(=, 'binaryprefix:q0500')", 20),
        ("QualifierFilter(=, 'regexstring:^q0500[0-4]')", 10),
        ("QualifierFilter(=, 'regexstring:^(q05000|q06000)$')", 4),
        ("QualifierFilter(>=, 'binary:q05000') AND QualifierFilter(<, 'binary:q05005')", 10),
        ("QualifierFilter(>, 'binary:q09997')", 4),
        ("ColumnPrefixFilter('q0500')", 20),
        ("MultipleColumnPrefixFilter('q0500', 'q0600')", 40),
        ("ColumnRangeFilter('q05000', true, 'q05003', false)", 6),
        ("ColumnPrefixFilter('q0500') AND ValueFilter(=, 'substring:7')", 1),
        ("ColumnPrefixFilter('q0500') AND ColumnPaginationFilter(3, 5)", 3),
        (
            "(FamilyFilter(=, 'binary:f') AND ColumnPrefixFilter('q0500')) OR \
             (FamilyFilter(=, 'binary:h') AND ColumnPrefixFilter('q0600'))",
            20,
        ),
        ("FamilyFilter(=, 'binary:o')", 3),
        ("ColumnValueFilter('f', 'q05000', =, 'binary:v5000')", 1),
        ("SingleColumnValueFilter('f', 'q05000', =, 'binary:no', true, true)", 0),
        ("SingleColumnValueFilter('f', 'q05000', =, 'binary:no', false, true)", 4),
        (
            "SingleColumnValueFilter('f', 'q05000', =, 'binary:no', true, true) OR \
             SingleColumnValueFilter('h', 'q05000', =, 'binary:no', true, true)",
            0,
        ),
        (
            "SingleColumnValueFilter('f', 'q05000', =, 'binary:v5000', true, true) AND \
             QualifierFilter(=, 'binary:q')",
            1,
        ),
        ("FirstKeyOnlyFilter()", 3),
        ("ColumnPaginationFilter(2, 3)", 2),
    ];
    for (text, expected) in cases {
        for is_reversed in [false, true] {
            let read = Read::all().filter(Filter::parse(text.as_bytes()).unwrap());
            let (entries, seeks, shown) = read_and_shown(&table, &read, is_reversed);
            println!("{text}: {entries} entries, {seeks} seeks");
            assert_eq!(shown, *expected, "{text}");
            assert!(entries <= 150 && seeks <= 40, "{text}: {entries} entries, {seeks} seeks");
        }
    }
    // A condition on some column of a family stops where it is met.
    let with = |value: &str, shown: &str| {
        let value = Filter::value(Comparison::Equal, Comparator::binary(value));
        let family = Filter::family(Comparison::Equal, Comparator::binary("f"));
        Read::all().filter(family.and(value).row_with().and(Filter::column_prefix(shown)))
    };
    let (entries, _, shown) = read_and_shown(&table, &with("v3", "q0500"), false);
    assert!(shown == 20 && entries <= 150, "{shown} {entries}");
    let (entries, _, shown) = read_and_shown(&table, &with("v9999", "q0500"), false);
    assert!(shown == 20 && (10_000..10_150).contains(&entries), "{shown} {entries}");
}

#[test]
fn what_lies_close_is_stepped_over_and_not_sought() {
    let (_tables, table) = wide();
    let prefixes = (0..200).map(|number| format!("q{:05}", 3 * number));
    let read = Read::family("f").filter(Filter::column_prefixes(prefixes));
    let (entries, seeks, shown) = read_and_shown(&table, &read, false);
    assert!(shown == 200 && entries <= 650 && seeks <= 4, "{shown} {entries} {seeks}");
}

#[test]
fn of_rows_little_is_read_if_an_expression_says_how_they_begin() {
    let (_tables, table) = tables();
    let cases = [
        ("RowFilter(=, 'regexstring:^row-3')", 10),
        ("RowFilter(=, 'regexstring:^row-(03|97)$')", 2),
        ("RowFilter(=, 'regexstringnocase:^ROW-4')", 10),
        ("RowFilter(=, 'binary:row-05') OR RowFilter(=, 'binary:row-95')", 2),
        ("RowFilter(=, 'binaryprefix:row-3') OR RowFilter(=, 'binaryprefix:row-8')", 20),
        ("RowFilter(=, 'regexstring:^row-3') AND RowFilter(=, 'regexstring:^row-.7')", 1),
    ];
    for (text, expected) in cases {
        for is_reversed in [false, true] {
            let read = Read::family("c").filter(Filter::parse(text.as_bytes()).unwrap());
            let (entries, seeks, shown) = read_and_shown(&table, &read, is_reversed);
            println!("{text}: {entries} entries, {seeks} seeks");
            assert_eq!(shown, expected, "{text}");
            assert!(entries <= 70 && seeks <= 50, "{text}: {entries} entries, {seeks} seeks");
        }
    }
}

#[test]
fn nothing_is_counted_of_trees_unless_it_is_asked_for() {
    let (_tables, table) = tables();
    let mut scan = table.scan("", "", &Read::all()).unwrap();
    while scan.advance().unwrap() {}
    assert!(scan.counts().groups.iter().all(|(_, counts)| *counts == Default::default()));
}

#[test]
fn what_an_index_finds_is_counted() {
    let (_tables, table) = tables();
    let read = |begins: &str| {
        let text = format!("ColumnValueFilter('a', 'x', =, 'binaryprefix:{begins}')");
        Read::all().filter(Filter::parse(text.as_bytes()).unwrap())
    };
    let counts = counted(table.scan("", "", &read("row-3")).unwrap());
    let index = counts.index.unwrap();
    assert_eq!((index.rows, index.tree.seeks, index.tree.entries), (Some(10), 1, 11));
    assert_eq!(counts.rows, 10);
    // It finds too much: the scan looks for its row itself.
    for row in 0..2_000 {
        table.mutate(&RowMutation::new(format!("z{row}")).put("a", "x", "many")).unwrap();
    }
    let counts = counted(table.scan("", "", &read("many").limit_rows(1, 0)).unwrap());
    assert_eq!(counts.index.unwrap().rows, None);
    assert_eq!(counts.rows, 101);
}

#[test]
fn an_answer_of_the_query_cache_says_so() {
    let (tables, table) = tables();
    tables.set_query_cache(1 << 20);
    let counts = [(); 4].map(|()| counted(table.scan("row-1", "row-2", &Read::all()).unwrap()));
    assert!(!counts[0].is_cached && counts[0].rows == 10);
    assert!(counts[3].is_cached && counts[3].rows == 0 && counts[3].groups.is_empty(), "{:?}", counts[3]);
}

fn shown(table: &Table, read: &Read) -> Vec<String> {
    let mut scan = table.scan("", "", read).unwrap();
    let mut shown = Vec::new();
    while scan.advance().unwrap() {
        let what = match scan.delete() {
            Some(DeleteKind::Row) => "row",
            Some(DeleteKind::Family) => "family",
            Some(DeleteKind::Column) => "column",
            Some(DeleteKind::Version) => "version",
            None => "cell",
        };
        assert_eq!(scan.value().is_some(), what == "cell");
        let (row, qualifier) = (scan.row().escape_ascii(), scan.qualifier().escape_ascii());
        shown.push(format!("{what} {row} {}:{qualifier} {}", scan.family(), scan.timestamp()));
    }
    shown
}

/// Deletes go with merges, also where the query cache is on.
#[test]
fn deletes_are_shown_until_a_merge_removes_them() {
    let (tables, table) = (Tables::open_in_memory(esker::Options::default()).unwrap(), "t");
    let family = |name| Family::new(name).max_versions(None);
    let schema = Schema::new().group("g", [family("a"), family("b")]).group("h", [family("c")]);
    let table = tables.create(table, schema).unwrap();
    tables.set_query_cache(1 << 20);
    let old = RowMutation::new("r").put_at("a", "\0", 1, "").put_at("a", "\0", 5, "").put_at("c", "q", 1, "");
    table.mutate(&old).unwrap();
    let deletes = RowMutation::new("r")
        .delete_row_up_to(2)
        .delete_row_up_to(3)
        .delete_family_up_to("c", 7)
        .delete_column_up_to("a", "\0", 4)
        .delete_version("a", "\0", 5);
    table.mutate(&deletes).unwrap();
    table.mutate(&RowMutation::new("r").put_at("a", "\0", 2, "")).unwrap();
    let all = Read::all().versions(u32::MAX).with_deletes();
    let expected = [
        "row r : 3",
        "row r : 2",
        "column r a:\\x00 4",
        "version r a:\\x00 5",
        "cell r a:\\x00 2",
        "family r c: 7",
    ];
    for _ in 0..4 {
        assert_eq!(shown(&table, &all), expected);
    }
    // The deletes of the row are in both groups.
    let of_c = Read::family("c").with_deletes();
    assert_eq!(shown(&table, &of_c), ["row r : 3", "row r : 2", "family r c: 7"]);
    assert_eq!(shown(&table, &of_c.clone().time(3..7)), ["row r : 3"]);
    assert_eq!(shown(&table, &of_c.limit_cells(1, 1)), ["row r : 2"]);
    tables.db().flush().unwrap();
    table.compact().unwrap();
    assert_eq!(shown(&table, &all), ["cell r a:\\x00 2"]);
}

#[test]
fn a_search_can_be_left_and_gone_on_with() {
    for cache_len in [0, 1 << 20] {
        let tables = Tables::open_in_memory(esker::Options::default()).unwrap();
        tables.set_query_cache(cache_len);
        let families = [Family::new("rare"), Family::new("usual")];
        let table = tables.create("t", Schema::new().group("g", families)).unwrap();
        for row in 0..1_000 {
            let family = if row == 0 || row == 500 { "rare" } else { "usual" };
            table.mutate(&RowMutation::new(format!("{row:04}")).put_at(family, b"q", 1, b"v")).unwrap();
        }
        let read = Read::all().family_too("rare");
        // In the last round, the query cache has all.
        for round in 0..4 {
            for is_reversed in [false, true] {
                let mut scan = match is_reversed {
                    false => table.scan(b"", b"", &read),
                    true => table.scan_reversed(b"", b"", &read),
                }
                .unwrap();
                let (mut found, mut searches) = (Vec::new(), 0);
                loop {
                    match scan.advance_within(10).unwrap() {
                        Some(true) => found.push(String::from_utf8(scan.row().to_vec()).unwrap()),
                        Some(false) => break,
                        None => {
                            assert!(scan.value().is_none());
                            searches += 1;
                        }
                    }
                }
                assert_eq!(scan.advance_within(10).unwrap(), Some(false));
                found.sort();
                assert_eq!(found, ["0000", "0500"]);
                let expected = match (cache_len, round) {
                    (0, _) | (_, 0) => 98..=100,
                    (_, 3) => 0..=0,
                    _ => 0..=100,
                };
                assert!(expected.contains(&searches), "{cache_len} {round} {is_reversed}: {searches}");
            }
        }
    }
}

/// What a filter leaves out of what is read must not keep it from seeing that it ends.
#[test]
fn rows_that_are_left_out_end_what_they_end() {
    let rows_shown = |cells: &[(&str, &str, &str)], filter: &str| -> Vec<String> {
        let tables = Tables::open_in_memory(esker::Options::default()).unwrap();
        let table = tables.create("t", Schema::new().group("g", [Family::new("f")])).unwrap();
        for (row, qualifier, value) in cells {
            table.mutate(&RowMutation::new(*row).put("f", *qualifier, *value)).unwrap();
        }
        let read = Read::all().filter(Filter::parse(filter.as_bytes()).unwrap());
        let mut scan = table.scan("", "", &read).unwrap();
        let mut rows = Vec::new();
        while scan.advance().unwrap() {
            rows.push(String::from_utf8(scan.row().to_vec()).unwrap());
        }
        rows
    };
    let narrow = [("a", "a", "1"), ("m", "b", "1"), ("z", "a", "1")];
    for first in ["ColumnPrefixFilter('a')", "QualifierFilter(=, 'binary:a')"] {
        assert_eq!(rows_shown(&narrow, &format!("{first} AND (WHILE RowFilter(!=, 'binary:m'))")), ["a"]);
    }
    let no = [("a1", "x", "no"), ("m", "x", "no"), ("z1", "x", "no")];
    let of_a = "(InclusiveStopFilter('b') AND RowFilter(=, 'binaryprefix:a'))";
    let of_z = "(PrefixFilter('z') AND SingleColumnValueFilter('f','x',=,'binary:yes',true,false))";
    // A member that has ended does not vote the row out.
    assert_eq!(rows_shown(&no, &format!("{of_a} OR {of_z}")), ["a1", "z1"]);
    let up_to = [("a", "x", "1"), ("b1", "x", "1"), ("b2", "x", "1"), ("c", "x", "1")];
    assert_eq!(rows_shown(&up_to, "RowFilter(<=, 'binaryprefix:b')"), ["a", "b1", "b2"]);
}
