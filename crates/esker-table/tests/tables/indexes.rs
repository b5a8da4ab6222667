//! Indexes: random changes of a table with indexes and of one without, of which the same reads must find the same.

use std::collections::BTreeSet;
use std::time::Duration;

use esker_table::{
    Comparator, Comparison, Family, Filter, Read, RowMutation, Scan, Schema, Span, Table, Tables,
};

use crate::{Random, number};

const ROWS: &[&[u8]] =
    &[b"\0", b"\0\0", b"a", b"a\0", b"a\0b", b"ab", b"b", b"c", b"d", b"e", b"f\xff", b"\xff", b"\xff\xff"];
const QUALIFIERS: &[&[u8]] = &[b"", b"\0", b"q", b"q\0", b"r"];
const FAMILIES: &[&str] = &["all", "one", "short", "three"];

fn values() -> Vec<Vec<u8>> {
    let long = |end: &[u8]| [&[b'l'; 1200], end].concat();
    let short: [&[u8]; 7] = [b"", b"\0", b"a", b"a\0", b"ab", b"b", b"\xff\xff"];
    short.iter().map(|value| value.to_vec()).chain([long(b"1"), long(b"2"), vec![b'l'; 1023]]).collect()
}

fn family(name: &str, is_indexed: bool) -> Family {
    let family = match name {
        "all" => Family::new(name).max_versions(None),
        "one" => Family::new(name).max_versions(1),
        "short" => Family::new(name).max_versions(2).ttl(Duration::from_secs(3600)),
        _ => Family::new(name),
    };
    family.index_values(is_indexed).index_qualifiers(is_indexed && name != "all")
}

fn schema(is_indexed: bool) -> Schema {
    let families = |names: [&str; 2]| names.map(|name| family(name, is_indexed));
    Schema::new().group("a", families(["all", "three"])).group("b", families(["one", "short"]))
}

fn open(path: &std::path::Path) -> (Tables, [Table; 2]) {
    let tables = Tables::open(path, esker::Options::default().memtable_bytes(64 << 10)).unwrap();
    let tables_of = [("plain", false), ("indexed", true)].map(|(name, is_indexed)| {
        if tables.names().iter().any(|other| other == name) {
            tables.table(name).unwrap()
        } else {
            tables.create(name, schema(is_indexed)).unwrap()
        }
    });
    (tables, tables_of)
}

fn mutation(random: &mut Random, now_ms: i64) -> RowMutation {
    let values = values();
    let mut mutation = RowMutation::new(random.of(ROWS));
    for _ in 0..random.of(&[1, 1, 1, 2, 3]) {
        let (family, qualifier) = (random.of(FAMILIES), random.of(QUALIFIERS));
        let timestamp = now_ms + random.below(6) as i64;
        mutation = match random.below(20) {
            0 => mutation.delete_row_up_to(timestamp),
            1 => mutation.delete_family_up_to(family, timestamp),
            2 => mutation.delete_column_up_to(family, qualifier, timestamp),
            3 => mutation.delete_version(family, qualifier, timestamp),
            _ => mutation.put_at(family, qualifier, timestamp, values[random.below(values.len())].clone()),
        };
    }
    mutation
}

fn some_read(random: &mut Random) -> Read {
    let values = values();
    let (family, qualifier) = (random.of(FAMILIES), random.of(QUALIFIERS));
    let value = values[random.below(values.len())].clone();
    let equal = Comparison::Equal;
    let comparator = match random.below(3) {
        0 => Comparator::prefix(&value[..random.below(value.len() + 1)]),
        _ => Comparator::binary(value),
    };
    let is = Filter::family(equal, Comparator::binary(family));
    let filter = match random.below(5) {
        0 => None,
        1 => Some(is.and(Filter::value(equal, comparator)).row_with()),
        2 => {
            let column = is.and(Filter::qualifier(equal, Comparator::binary(qualifier)));
            Some(column.and(Filter::value(equal, comparator)).row_with())
        }
        3 => {
            let latest_only = random.below(2) == 0;
            Some(Filter::single_column_value(family, qualifier, equal, comparator, true, latest_only))
        }
        _ => Some(is.and(Filter::value(equal, comparator)).row_with().and(Filter::first_key_only())),
    };
    let read = match (&filter, random.below(3)) {
        (None, _) | (_, 0) => {
            Read::column(family, qualifier).column_too(random.of(FAMILIES), random.of(QUALIFIERS))
        }
        (_, 1) => Read::family(family),
        _ => Read::all(),
    };
    let read = read.versions(random.of(&[1, 2, u32::MAX]));
    let read = if random.below(4) == 0 { read.limit_rows(2, random.below(2) as u64) } else { read };
    match filter {
        Some(filter) => read.filter(filter),
        None => read,
    }
}

type Shown = (Vec<u8>, String, Vec<u8>, i64, Vec<u8>);

fn shown(mut scan: Scan) -> Vec<Shown> {
    let mut cells = Vec::new();
    while scan.advance().unwrap() {
        let cell = scan.cell().unwrap().unwrap();
        cells.push((scan.row().to_vec(), cell.family, cell.qualifier, cell.timestamp, cell.value));
    }
    cells
}

/// How many entries the indexes need for what the table holds.
fn entries_needed(table: &Table) -> usize {
    let (mut values, mut qualifiers) = (BTreeSet::new(), BTreeSet::new());
    for (row, family, qualifier, _, mut value) in
        shown(table.scan("", "", &Read::all().versions(u32::MAX)).unwrap())
    {
        value.truncate(1024);
        if family != "all" {
            qualifiers.insert((row.clone(), family.clone(), qualifier.clone()));
        }
        values.insert((row, family, qualifier, value));
    }
    values.len() + qualifiers.len()
}

#[test]
fn a_table_with_indexes_answers_as_one_without() {
    let (seed, cases) = (number("ESKER_SEED", 1), number("ESKER_CASES", 12_000));
    println!("ESKER_SEED={seed} ESKER_CASES={cases}");
    let mut random = Random(seed);
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store");
    let (mut tables, [mut plain, mut indexed]) = open(&path);
    let (now_ms, mut by_index) = (crate::now_ms(), 0);
    let is_of_index = |name: &String| name.starts_with("table ") && name.ends_with(".0");
    for case in 0..cases {
        match random.below(200) {
            0 => tables.db().flush().unwrap(),
            1 => tables.db().compact().unwrap(),
            2 if random.below(5) == 0 => {
                drop((plain, indexed, tables));
                (tables, [plain, indexed]) = open(&path);
            }
            3 if random.below(4) == 0 => tables.rebuild_indexes("indexed").unwrap(),
            4 if random.below(4) == 0 => {
                // Without an index or two for a while.
                let names = [random.of(FAMILIES), random.of(FAMILIES)];
                for is_indexed in [false, true] {
                    let old = (*indexed.schema()).clone();
                    let new = names
                        .iter()
                        .fold(old, |schema, name| schema.with_rules_of(&family(name, is_indexed)));
                    tables.alter("indexed", new).unwrap();
                    let changes = [mutation(&mut random, now_ms), mutation(&mut random, now_ms)];
                    [&plain, &indexed].iter().for_each(|table| table.mutate_rows(&changes).unwrap());
                }
            }
            5 if random.below(20) == 0 => {
                // Without any, so that their tree goes.
                let bare = |is_indexed| {
                    let old = (*indexed.schema()).clone();
                    FAMILIES.iter().fold(old, |schema, name| schema.with_rules_of(&family(name, is_indexed)))
                };
                tables.alter("indexed", bare(false)).unwrap();
                assert!(!tables.db().tree_names().iter().any(is_of_index));
                tables.alter("indexed", bare(true)).unwrap();
            }
            6..100 => {
                let read = some_read(&mut random);
                by_index += usize::from(indexed.index_of(&read).is_some());
                assert_eq!(plain.index_of(&read), None);
                let spans = match random.below(4) {
                    0 => vec![Span::rows(random.of(ROWS)..)],
                    1 => vec![Span::row(random.of(ROWS)), Span::prefix(random.of(ROWS))],
                    _ => vec![Span::all()],
                };
                let found = [&plain, &indexed].map(|table| {
                    let spans = spans.clone();
                    shown(match case % 3 {
                        0 => table.scan_spans_reversed(spans, &read).unwrap(),
                        _ => table.scan_spans(spans, &read).unwrap(),
                    })
                });
                assert_eq!(
                    found[0],
                    found[1],
                    "case {case}: {read:?} {spans:?} {:?}",
                    indexed.index_of(&read)
                );
            }
            _ => {
                let changes: Vec<_> =
                    (0..random.of(&[1, 1, 1, 2, 4])).map(|_| mutation(&mut random, now_ms)).collect();
                [&plain, &indexed].iter().for_each(|table| table.mutate_rows(&changes).unwrap());
            }
        }
    }
    assert!(by_index as u64 > cases / 10, "{by_index} reads by an index");
    tables.rebuild_indexes("indexed").unwrap();
    tables.db().compact().unwrap();
    tables.db().compact().unwrap();
    let tree = tables.db().tree_names().into_iter().find(is_of_index).unwrap();
    let entries = tables.db().tree(&tree).unwrap().count(..).unwrap();
    println!("{by_index} reads by an index; {entries} entries");
    // Families whose versions were deleted keep surplus entries of one text in one column.
    assert!(entries as usize >= entries_needed(&indexed));
}

/// What puts and deletes leave in an index is what the cells need, without rebuilding it.
#[test]
fn an_index_does_not_outgrow_its_table() {
    let tables = Tables::open_in_memory(esker::Options::default()).unwrap();
    let table = tables.create("t", schema(true)).unwrap();
    let mut random = Random(7);
    let values = values();
    for time in 0..5000_i64 {
        let (row, qualifier) = (random.of(ROWS), random.of(QUALIFIERS));
        let family = random.of(&["one", "three"]);
        let mutation = RowMutation::new(row);
        let mutation = match random.below(30) {
            0 => mutation.delete_row_up_to(time),
            1 => mutation.delete_family_up_to(family, time),
            2 => mutation.delete_column_up_to(family, qualifier, time - 3),
            _ => {
                let late = random.below(20) as i64;
                mutation.put_at(
                    family,
                    qualifier,
                    (time - late).max(0),
                    values[random.below(values.len())].clone(),
                )
            }
        };
        table.mutate(&mutation).unwrap();
    }
    tables.db().compact().unwrap();
    tables.db().compact().unwrap();
    let tree = tables.db().tree_names().into_iter().find(|name| name.ends_with(".0")).unwrap();
    let entries = tables.db().tree(&tree).unwrap().count(..).unwrap() as usize;
    let needed = entries_needed(&table);
    println!("{entries} entries, {needed} needed");
    // A put that is surplus at once leaves an entry, until its text is written again and driven out.
    assert!(needed <= entries && entries <= needed * 3 / 2, "{entries} entries, {needed} needed");
}

/// In a batch, the second change of a row does not know what the first one has written.
#[test]
fn a_row_that_is_twice_in_a_batch_stays_in_the_index() {
    let tables = Tables::open_in_memory(esker::Options::default()).unwrap();
    let table = tables.create("t", schema(true)).unwrap();
    let put = |timestamp, value: &str| RowMutation::new("r").put_at("one", "q", timestamp, value);
    table.mutate(&put(3, "kept")).unwrap();
    table.mutate_rows(&[put(5, "kept"), put(4, "other")]).unwrap();
    table.mutate(&put(6, "kept").put_at("one", "q", 2, "other")).unwrap();
    let filter =
        Filter::single_column_value("one", "q", Comparison::Equal, Comparator::binary("kept"), true, true);
    let read = Read::all().filter(filter);
    assert!(table.index_of(&read).is_some());
    assert_eq!(shown(table.scan("", "", &read).unwrap()).len(), 1);
}
