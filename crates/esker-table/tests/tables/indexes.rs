//! Indexes: random changes of a table with indexes and of one without, of which the same reads must find the same.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use esker_table::{
    Comparator, Comparison, Error, Family, Filter, Read, RowMutation, Scan, Schema, Span, Table, Tables,
};

use test_kit::Rng;

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

fn mutation(random: &mut Rng, now_ms: i64) -> RowMutation {
    let values = values();
    let mut mutation = RowMutation::new(random.of(ROWS));
    for _ in 0..random.of(&[1, 1, 1, 2, 3]) {
        let (family, qualifier) = (random.of(FAMILIES), random.of(QUALIFIERS));
        let timestamp = now_ms + random.index(6) as i64;
        mutation = match random.index(20) {
            0 => mutation.delete_row_up_to(timestamp),
            1 => mutation.delete_family_up_to(family, timestamp),
            2 => mutation.delete_column_up_to(family, qualifier, timestamp),
            3 => mutation.delete_version(family, qualifier, timestamp),
            _ => mutation.put_at(family, qualifier, timestamp, values[random.index(values.len())].clone()),
        };
    }
    mutation
}

fn some_read(random: &mut Rng) -> Read {
    let values = values();
    let (family, qualifier) = (random.of(FAMILIES), random.of(QUALIFIERS));
    let value = values[random.index(values.len())].clone();
    let equal = Comparison::Equal;
    let comparator = match random.index(3) {
        0 => Comparator::prefix(&value[..random.index(value.len() + 1)]),
        _ => Comparator::binary(value),
    };
    let is = Filter::family(equal, Comparator::binary(family));
    let filter = match random.index(5) {
        0 => None,
        1 => Some(is.and(Filter::value(equal, comparator)).row_with()),
        2 => {
            let column = is.and(Filter::qualifier(equal, Comparator::binary(qualifier)));
            Some(column.and(Filter::value(equal, comparator)).row_with())
        }
        3 => {
            let latest_only = random.index(2) == 0;
            Some(Filter::single_column_value(family, qualifier, equal, comparator, true, latest_only))
        }
        _ => Some(is.and(Filter::value(equal, comparator)).row_with().and(Filter::first_key_only())),
    };
    let read = match (&filter, random.index(3)) {
        (None, _) | (_, 0) => {
            Read::column(family, qualifier).column_too(random.of(FAMILIES), random.of(QUALIFIERS))
        }
        (_, 1) => Read::family(family),
        _ => Read::all(),
    };
    let read = read.versions(random.of(&[1, 2, u32::MAX]));
    let read = if random.index(4) == 0 { read.limit_rows(2, random.index(2) as u64) } else { read };
    match filter {
        Some(filter) => read.filter(filter),
        None => read,
    }
}

/// Row, family, qualifier, timestamp and value of a cell.
type Shown = (Vec<u8>, String, Vec<u8>, i64, Vec<u8>);

pub(crate) fn shown(mut scan: Scan) -> Vec<Shown> {
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
    let (seed, cases) = (test_kit::seed(1), test_kit::cases(12_000));
    let mut random = Rng::new(seed);
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store");
    let (mut tables, [mut plain, mut indexed]) = open(&path);
    let (now_ms, mut by_index) = (crate::now_ms(), 0);
    let is_of_index = |name: &String| name.starts_with("table ") && name.ends_with(".0");
    for case in 0..cases {
        match random.index(200) {
            0 => tables.db().flush().unwrap(),
            1 => tables.db().compact().unwrap(),
            2 if random.index(5) == 0 => {
                drop((plain, indexed, tables));
                (tables, [plain, indexed]) = open(&path);
            }
            3 if random.index(4) == 0 => tables.rebuild_indexes("indexed").unwrap(),
            4 if random.index(4) == 0 => {
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
            5 if random.index(20) == 0 => {
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
                let spans = match random.index(4) {
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
    let mut random = Rng::new(7);
    let values = values();
    for time in 0..5000_i64 {
        let (row, qualifier) = (random.of(ROWS), random.of(QUALIFIERS));
        let family = random.of(&["one", "three"]);
        let mutation = RowMutation::new(row);
        let mutation = match random.index(30) {
            0 => mutation.delete_row_up_to(time),
            1 => mutation.delete_family_up_to(family, time),
            2 => mutation.delete_column_up_to(family, qualifier, time - 3),
            _ => {
                let late = random.index(20) as i64;
                mutation.put_at(
                    family,
                    qualifier,
                    (time - late).max(0),
                    values[random.index(values.len())].clone(),
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

fn tables() -> Tables {
    Tables::open_in_memory(esker::Options::default()).unwrap()
}

fn is(family: &str, value: &str) -> Read {
    let equal = Comparison::Equal;
    Read::all().filter(
        Filter::family(equal, Comparator::binary(family))
            .and(Filter::value(equal, Comparator::binary(value)))
            .row_with(),
    )
}

#[test]
fn a_disabled_table_gets_its_index_when_it_is_enabled() {
    let tables = tables();
    let table = tables.create("t", Schema::new().group("a", [Family::new("f")])).unwrap();
    table.mutate(&RowMutation::new("r").put("f", "q", "v")).unwrap();
    tables.disable("t").unwrap();
    let new = (*table.schema()).clone().with_rules_of(&Family::new("f").index_values(true));
    tables.alter("t", new).unwrap();
    assert_eq!(table.index_of(&is("f", "v")), None);
    tables.enable("t").unwrap();
    assert!(table.index_of(&is("f", "v")).is_some());
}

/// An index is made and removed, again and again, while a reader looks for a row that is always there.
#[test]
fn an_index_that_comes_while_a_reader_begins_is_not_used() {
    let tables = tables();
    let schema = Schema::new().group("a", [Family::new("f")]);
    let table = tables.create("t", schema).unwrap();
    table.mutate(&RowMutation::new("r").put("f", "q", "v")).unwrap();
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..6 {
            scope.spawn(|| {
                let read = is("f", "v");
                while !is_over.load(Ordering::Relaxed) {
                    assert!(table.scan("", "", &read).unwrap().advance().unwrap());
                }
            });
        }
        for change in 0..100 {
            let family = Family::new("f").index_values(change % 2 == 0);
            tables.alter("t", (*table.schema()).clone().with_rules_of(&family)).unwrap();
        }
        is_over.store(true, Ordering::Relaxed);
    });
}

/// Families change their names while an index is rebuilt.
#[test]
fn families_change_their_names_while_an_index_is_rebuilt() {
    let tables = tables();
    let families = ["f", "g"].map(|name| Family::new(name).index_values(true));
    let table = tables.create("t", Schema::new().group("a", families)).unwrap();
    for row in 0..200 {
        let row = format!("r{row}");
        table.mutate(&RowMutation::new(row).put("f", "q", "f").put("g", "q", "g")).unwrap();
    }
    let is_over = AtomicBool::new(false);
    let mut lost = 0;
    std::thread::scope(|scope| {
        let rebuilder = scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                let rebuilt = tables.rebuild_indexes("t");
                assert!(matches!(rebuilt, Ok(()) | Err(Error::SchemaChanged { .. })), "{rebuilt:?}");
            }
        });
        let mut names = ["f", "g"];
        for _ in 0..100 {
            let swapped = (*table.schema())
                .clone()
                .with_family_renamed("f", "h")
                .with_family_renamed("g", "f")
                .with_family_renamed("h", "g");
            tables.alter("t", swapped).unwrap();
            names.swap(0, 1);
            std::thread::yield_now();
            for (family, value) in [(names[0], "f"), (names[1], "g")] {
                let read = is(family, value);
                if table.index_of(&read).is_none() {
                    continue;
                }
                let mut scan = table.scan("", "", &read.limit_cells_per_row(1, 0)).unwrap();
                let mut rows = 0;
                while scan.advance().unwrap() {
                    rows += 1;
                }
                lost += 200 - rows;
            }
        }
        is_over.store(true, Ordering::Relaxed);
        rebuilder.join().unwrap();
    });
    assert_eq!(lost, 0);
}

#[test]
fn a_row_that_is_too_long_for_an_index_can_be_deleted() {
    let tables = tables();
    let table = tables.create("t", Schema::new().group("a", [Family::new("f")])).unwrap();
    let mutation = RowMutation::new(vec![0; 32_000]).put("f", vec![1; 40_000], "v");
    table.mutate(&mutation).unwrap();
    let new = (*table.schema()).clone().with_rules_of(&Family::new("f").index_values(true));
    assert!(matches!(tables.alter("t", new), Err(Error::Invalid(_))));
    assert!(matches!(table.mutate(&mutation), Err(Error::Invalid(_))));
    assert_eq!(table.index_of(&is("f", "v")), None);
    table.mutate(&RowMutation::new(vec![0; 32_000]).delete_row()).unwrap();
    tables.rebuild_indexes("t").unwrap();
    assert!(table.index_of(&is("f", "v")).is_some());
}

/// Writers, rebuildings, changes of schemas, flushes and merges at once; then the index must find what a scan finds.
#[test]
fn writes_rebuildings_and_changes_of_schemas_meet() {
    let options = || esker::Options::default().memtable_bytes(64 << 10);
    for round in 0..2_u64 {
        let tables = Tables::open_in_memory(options()).unwrap();
        let family = |name: &str, is| Family::new(name).max_versions(2).index_values(is).index_qualifiers(is);
        let table =
            tables.create("t", Schema::new().group("a", [family("f", false), family("g", true)])).unwrap();
        let is_over = AtomicBool::new(false);
        let note = |done: esker_table::Result<()>| {
            assert!(matches!(done, Ok(()) | Err(Error::SchemaChanged { .. })), "{done:?}");
        };
        std::thread::scope(|scope| {
            for writer in 0..2_u64 {
                let (table, is_over) = (&table, &is_over);
                scope.spawn(move || {
                    let mut random = Rng::new(round * 100 + writer);
                    while !is_over.load(Ordering::Relaxed) {
                        let mut mutation = RowMutation::new(format!("{}", random.index(30)));
                        for _ in 0..random.of(&[1, 1, 2]) {
                            let (family, qualifier) = (random.of(&["f", "g"]), random.of(&["p", "q"]));
                            let (time, value) = (random.index(50) as i64, format!("{}", random.index(6)));
                            mutation = match random.index(12) {
                                0 => mutation.delete_row_up_to(time),
                                1 => mutation.delete_family_up_to(family, time),
                                2 => mutation.delete_column_up_to(family, qualifier, time),
                                3 => mutation.delete_version(family, qualifier, time),
                                _ => mutation.put_at(family, qualifier, time, value),
                            };
                        }
                        table.mutate(&mutation).unwrap();
                    }
                });
            }
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    note(tables.rebuild_indexes("t"));
                }
            });
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    tables.db().flush().unwrap();
                    note(table.compact());
                }
            });
            for change in 0..40 {
                let family = family("f", change % 2 == 0);
                note(tables.alter("t", (*table.schema()).clone().with_rules_of(&family)));
            }
            note(tables.alter("t", (*table.schema()).clone().with_rules_of(&family("f", true))));
            is_over.store(true, Ordering::Relaxed);
        });
        for family in ["f", "g"] {
            for value in 0..6 {
                let value = format!("{value}");
                for qualifier in ["p", "q"] {
                    let equal = Comparison::Equal;
                    let single = Filter::single_column_value(
                        family,
                        qualifier,
                        equal,
                        Comparator::binary(&*value),
                        true,
                        false,
                    );
                    let by_index = Read::all().versions(u32::MAX).filter(single.clone());
                    let by_scan = Read::all()
                        .versions(u32::MAX)
                        .filter(Filter::any([single, Filter::row(Comparison::Less, Comparator::binary(""))]));
                    assert!(table.index_of(&by_index).is_some() && table.index_of(&by_scan).is_none());
                    let rows = |read: &Read| {
                        let mut scan = table.scan("", "", read).unwrap();
                        let mut rows = std::collections::BTreeSet::new();
                        while scan.advance().unwrap() {
                            rows.insert(scan.row().to_vec());
                        }
                        rows
                    };
                    assert_eq!(rows(&by_index), rows(&by_scan), "round {round} {family}:{qualifier} {value}");
                }
            }
        }
    }
}

#[test]
fn an_emptied_table_has_no_cells_in_any_part_or_index() {
    let tables = Tables::open_in_memory(esker::Options::default()).unwrap();
    let table = tables.create("t", schema(true)).unwrap();
    let later = i64::MAX - 1;
    for row in ["a", "m", "z"] {
        let mutation = RowMutation::new(row).put("all", "", "v").put_at("one", "q", later, "w");
        table.mutate(&mutation.put("three", "", vec![7; 100_000])).unwrap();
    }
    table.split("m").unwrap();
    tables.truncate("t").unwrap();
    let by_value = |value: &str| {
        let is_of = Filter::family(Comparison::Equal, Comparator::binary("all"));
        Read::all().filter(is_of.and(Filter::value(Comparison::Equal, Comparator::binary(value))))
    };
    let count = |read: &Read| {
        let (mut scan, mut count) = (table.scan("", "", read).unwrap(), 0);
        while scan.advance().unwrap() {
            count += 1;
        }
        count
    };
    assert_eq!((count(&Read::all()), count(&by_value("v"))), (0, 0));
    assert_eq!(table.split_rows(), [b"m"]);
    table.mutate(&RowMutation::new("z").put_at("all", "", 1, "v").put_at("one", "q", 1, "x")).unwrap();
    assert_eq!((count(&Read::all()), count(&by_value("v"))), (2, 1));
    tables.disable("t").unwrap();
    assert!(matches!(tables.truncate("t"), Err(Error::Disabled(_))));
    assert!(matches!(tables.truncate("u"), Err(Error::NoTable(_))));
}
