//! Random changes of a table, with flushes, merges, splits, reopenings and readers that stay, against a simple map.
//!
//! `ESKER_SEED` chooses the changes, `ESKER_CASES` their number (default 20,000).

#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test that cannot go on should stop; the model has a clock of its own"
)]

mod counts;
mod crashes;
mod filters;
mod gated;
mod indexes;
mod java;
mod query_cache;
mod threads;
mod times;
mod twins;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use esker_table::{
    Cell, CellBatch, Check, Comparator, Comparison, Family, Filter, PutCell, Read, RowMutation, Scan, Schema,
    Span, Table, Tables,
};
use filters::Shown;
use test_kit::Rng;

const HOUR_MS: i64 = 3_600_000;

const ROWS: &[&[u8]] = &[b"\0", b"a", b"a\0", b"a\0b", b"b", b"\xff"];
/// So many that a cursor seeks what is behind some of them.
const QUALIFIERS: &[&[u8]] = &[b"", b"\0", b"p", b"q", b"q\0", b"qa", b"qb", b"q\xff", b"r"];

/// The families of the table: its name, how many versions it keeps, and whether its cells live for an hour.
const FAMILIES: &[(&str, Option<u32>, bool)] =
    &[("all", None, false), ("one", Some(1), false), ("short", Some(2), true), ("three", Some(3), false)];

/// A column: row, family, qualifier.
type Place = (Vec<u8>, &'static str, Vec<u8>);

/// A cell that was found, and its row.
type Found = (Vec<u8>, Cell);

/// What a table holds, as its documents say.
#[derive(Clone)]
struct Model {
    columns: BTreeMap<Place, BTreeMap<i64, Vec<u8>>>,
    /// Of each family: how many versions it keeps, and whether its cells live for an hour.
    rules: BTreeMap<&'static str, (Option<u32>, bool)>,
}

impl Model {
    fn new() -> Model {
        let rules = FAMILIES.iter().map(|(name, max, is_short)| (*name, (*max, *is_short))).collect();
        Model { columns: BTreeMap::new(), rules }
    }

    /// The latest version of a column that counts.
    fn latest(&self, place: &Place, now_ms: i64) -> Option<(i64, Vec<u8>)> {
        let (timestamp, value) = self.columns.get(place)?.last_key_value()?;
        let is_expired = self.rules[place.1].1 && *timestamp < now_ms - HOUR_MS;
        (!is_expired).then(|| (*timestamp, value.clone()))
    }

    /// Changes the rules of a family. What a stricter rule has removed does not come back.
    fn alter(&mut self, family: &'static str, max: Option<u32>, is_short: bool, now_ms: i64) {
        let (_, was_short) = self.rules.insert(family, (max, is_short)).unwrap();
        for (_, column) in self.columns.iter_mut().filter(|(place, _)| place.1 == family) {
            column.retain(|timestamp, _| !was_short || *timestamp >= now_ms - HOUR_MS);
            while max.is_some_and(|max| column.len() > max as usize) {
                column.pop_first();
            }
        }
    }

    fn put(&mut self, place: Place, timestamp: i64, value: &[u8]) {
        let max = self.rules[place.1].0;
        let column = self.columns.entry(place).or_default();
        column.insert(timestamp, value.to_vec());
        if max.is_some_and(|max| column.len() > max as usize) {
            column.pop_first();
        }
    }

    fn delete(&mut self, is_meant: impl Fn(&Place) -> bool, up_to: i64) {
        let columns = self.columns.iter_mut().filter(|(place, _)| is_meant(place));
        columns.for_each(|(_, column)| column.retain(|timestamp, _| *timestamp > up_to));
    }

    /// The cells that `asked` reads at `now_ms`, of the places that `is_meant` has.
    fn read(&self, is_meant: impl Fn(&Place) -> bool, asked: &mut Asked, now_ms: i64) -> Vec<Found> {
        let mut found = Vec::new();
        for (place, column) in &self.columns {
            let (row, family, qualifier) = place;
            let is_asked = asked.columns.is_empty()
                || asked
                    .columns
                    .iter()
                    .any(|(of, one)| of == family && one.as_ref().is_none_or(|one| one == qualifier));
            if !is_meant(place) || !is_asked {
                continue;
            }
            let lives = |timestamp: i64| !self.rules[family].1 || timestamp >= now_ms - HOUR_MS;
            let cells = column.iter().rev().filter(|(at, _)| lives(**at) && asked.time.contains(*at));
            found.extend(cells.map(|(timestamp, value)| {
                let (family, qualifier) = ((*family).to_owned(), qualifier.clone());
                (row.clone(), Cell { family, qualifier, timestamp: *timestamp, value: value.clone() })
            }));
        }
        asked.within_limits(found)
    }
}

/// What a read asks for, and the same for the table.
struct Asked {
    columns: Vec<(&'static str, Option<Vec<u8>>)>,
    versions: u32,
    time: std::ops::Range<i64>,
    filter: Option<(Vec<u8>, Box<dyn filters::Model>)>,
    is_reversed: bool,
    is_keys_only: bool,
    /// Whether it shows deletes too, which these tests leave out again.
    shows_deletes: bool,
    /// Offsets and limits of rows, cells, cells of each row, and cells of each family of a row.
    limits: [(u64, u64); 4],
}

impl Asked {
    /// Everything.
    fn all() -> Asked {
        Asked {
            columns: Vec::new(),
            versions: u32::MAX,
            time: 0..i64::MAX,
            filter: None,
            is_reversed: false,
            is_keys_only: false,
            shows_deletes: false,
            limits: [(0, u64::MAX); 4],
        }
    }

    fn some(random: &mut Rng, old_ms: i64) -> Asked {
        let columns = (0..random.of(&[0, 0, 1, 2, 3])).map(|_| {
            let qualifier = (random.index(2) == 0).then(|| random.of(QUALIFIERS).to_vec());
            (random.of(FAMILIES).0, qualifier)
        });
        let columns = columns.collect();
        let from = old_ms + random.index(8) as i64;
        let time = if random.index(3) == 0 { from..from + random.index(8) as i64 } else { 0..i64::MAX };
        let is_reversed = random.index(3) == 0;
        let filter = (random.index(3) > 0).then(|| filters::some(random, old_ms, is_reversed));
        let limits = [6, 20, 8, 4].map(|most| {
            let offset = if random.index(8) == 0 { random.index(most) as u64 } else { 0 };
            (offset, if random.index(8) == 0 { random.index(most) as u64 } else { u64::MAX })
        });
        let (versions, is_keys_only) = (random.of(&[1, 1, 2, 100]), random.index(10) == 0);
        // Deletes count for limits, except those of families, and a filter may decide about a row that has nothing else.
        let is_plain = filter.is_none() && limits[..3].iter().all(|limit| *limit == (0, u64::MAX));
        let shows_deletes = is_plain && random.index(2) == 0;
        Asked { columns, versions, time, filter, is_reversed, is_keys_only, shows_deletes, limits }
    }

    fn read(&self) -> Read {
        let [rows, cells, of_row, of_family] = self.limits;
        let mut read = Read::all()
            .versions(self.versions)
            .time(self.time.clone())
            .limit_rows(rows.1, rows.0)
            .limit_cells(cells.1, cells.0)
            .limit_cells_per_row(of_row.1, of_row.0)
            .limit_cells_per_family(of_family.1, of_family.0);
        for (family, qualifier) in &self.columns {
            read = match qualifier {
                None => read.family_too(family),
                Some(qualifier) => read.column_too(family, qualifier.clone()),
            };
        }
        if let Some((text, _)) = &self.filter {
            read = read.filter(Filter::parse(text).unwrap());
        }
        if self.shows_deletes {
            read = read.with_deletes();
        }
        if self.is_keys_only { read.keys_only() } else { read }
    }

    /// The filter, as it was parsed.
    fn text(&self) -> String {
        self.filter.as_ref().map_or_else(String::new, |(text, _)| text.escape_ascii().to_string())
    }

    /// What the filter and the limits leave of the cells that count.
    fn within_limits(&mut self, found: Vec<Found>) -> Vec<Found> {
        let [of_rows, of_cells, of_row, of_family] = self.limits;
        if self.limits.iter().any(|(_, limit)| *limit == 0) || self.versions == 0 || self.time.is_empty() {
            return Vec::new();
        }
        let filter = self.filter.take().map(|(_, filter)| filter);
        let mut shown = Shown { filter, versions: self.versions, is_reversed: self.is_reversed, of_family };
        let mut rows = shown.rows(found);
        let count = |limit: u64| usize::try_from(limit).unwrap_or(usize::MAX);
        for (_, cells) in &mut rows {
            *cells = cells.drain(..).skip(of_row.0 as usize).take(count(of_row.1)).collect();
        }
        rows.retain(|(_, cells)| !cells.is_empty());
        let rows = rows.into_iter().skip(of_rows.0 as usize).take(count(of_rows.1));
        let cells = rows.flat_map(|(row, cells)| cells.into_iter().map(move |cell| (row.clone(), cell)));
        let cells = cells.skip(of_cells.0 as usize).take(count(of_cells.1));
        let is_keys_only = self.is_keys_only;
        cells
            .map(|(row, cell)| (row, if is_keys_only { Cell { value: Vec::new(), ..cell } } else { cell }))
            .collect()
    }
}

/// Whether a span has a place.
type Has = Box<dyn Fn(&Place) -> bool>;

/// A random part of the table, and what it has.
fn some_span(random: &mut Rng) -> (Span, Has) {
    let (one, other) = (random.of(ROWS), random.of(ROWS));
    let (family, qualifier) = (random.of(FAMILIES).0, random.of(QUALIFIERS));
    let place: Place = (one.to_vec(), family, qualifier.to_vec());
    match random.index(9) {
        0 => (Span::row(one), Box::new(move |place| place.0 == one)),
        1 => (Span::rows(one..other), Box::new(move |place| (one..other).contains(&&place.0[..]))),
        2 => (Span::rows(one..=other), Box::new(move |place| (one..=other).contains(&&place.0[..]))),
        3 => (Span::rows(one..), Box::new(move |place| &place.0[..] >= one)),
        4 => {
            let prefix = &one[..random.index(one.len() + 1)];
            (Span::prefix(prefix), Box::new(move |place| place.0.starts_with(prefix)))
        }
        5 => (Span::cells_from(one, family, qualifier), Box::new(move |other| *other >= place)),
        6 => (Span::cells_behind(one, family, qualifier), Box::new(move |other| *other > place)),
        7 => (
            Span::cells_below(one, family, qualifier).and(&Span::rows(other..)),
            Box::new(move |found| *found < place && &found.0[..] >= other),
        ),
        _ => (
            Span::cells_through(one, family, qualifier).and(&Span::cells_from(other, family, "")),
            Box::new(move |found| *found <= place && *found >= (other.to_vec(), family, Vec::new())),
        ),
    }
}

fn schema() -> Schema {
    let family = |(name, max, is_short): &(&str, Option<u32>, bool)| {
        Family::new(*name).max_versions(*max).ttl(is_short.then_some(Duration::from_millis(HOUR_MS as u64)))
    };
    // The groups cut across the order of the families.
    Schema::new()
        .group("b", [family(&FAMILIES[0]), family(&FAMILIES[2])])
        .group("a", [family(&FAMILIES[3]), family(&FAMILIES[1])])
}

fn cells(mut scan: Scan) -> Vec<Found> {
    let mut found = Vec::new();
    while scan.advance().unwrap() {
        let cell = scan.cell().unwrap();
        assert!(cell.is_none() == scan.delete().is_some());
        found.extend(cell.map(|cell| (scan.row().to_vec(), cell)));
    }
    found
}

fn open(path: &std::path::Path) -> (Tables, Table) {
    // So little memory that flushes and merges happen on their own too.
    let tables = Tables::open(path, esker::Options::default().memtable_bytes(64 << 10)).unwrap();
    let table = match tables.names().first() {
        None => tables.create("t", schema()),
        Some(name) => tables.table(name),
    };
    let table = table.unwrap();
    (tables, table)
}

/// One random step of a mutation, done to `model` too.
fn step(
    random: &mut Rng,
    mutation: RowMutation,
    model: &mut Model,
    old_ms: i64,
    deletes_versions: bool,
) -> RowMutation {
    let (row, family) = (mutation.row().to_vec(), random.of(FAMILIES).0);
    let qualifier = random.of(QUALIFIERS);
    let at = a_time(random, old_ms);
    match random.index(if deletes_versions { 14 } else { 12 }) {
        0 => {
            model.delete(|place| place.0 == row, at);
            mutation.delete_row_up_to(at)
        }
        1 => {
            model.delete(|place| place.0 == row && place.1 == family, at);
            mutation.delete_family_up_to(family, at)
        }
        2 => {
            model.delete(|place| place.0 == row && place.1 == family && place.2 == qualifier, at);
            mutation.delete_column_up_to(family, qualifier, at)
        }
        12 | 13 => {
            if let Some(column) = model.columns.get_mut(&(row, family, qualifier.to_vec())) {
                column.remove(&at);
            }
            mutation.delete_version(family, qualifier, at)
        }
        _ => {
            let value = format!("{:x}", random.next()).into_bytes();
            model.put((row, family, qualifier.to_vec()), at, &value);
            mutation.put_at(family, qualifier, at, value)
        }
    }
}

/// Some of these have expired where cells live for an hour, and the others will not while the test runs.
fn a_time(random: &mut Rng, old_ms: i64) -> i64 {
    (if random.index(4) == 0 { old_ms - 2 * HOUR_MS } else { old_ms }) + random.index(6) as i64
}

/// Puts some cells together, also several of one row, of rows that come twice, and of one version.
fn put_cells(random: &mut Rng, table: &Table, model: &mut Model, old_ms: i64) {
    let mut cells = CellBatch::new();
    for _ in 0..random.of(&[1, 2, 5, 20]) {
        let (row, family, qualifier) = (random.of(ROWS), random.of(FAMILIES).0, random.of(QUALIFIERS));
        let (at, value) = (a_time(random, old_ms), format!("{:x}", random.next()).into_bytes());
        for qualifier in [qualifier, random.of(QUALIFIERS)] {
            model.put((row.to_vec(), family, qualifier.to_vec()), at, &value);
            cells.push(PutCell { row, family, qualifier, timestamp: Some(at), value: &value });
        }
    }
    table.put_cells(&cells).unwrap();
}

fn now_ms() -> i64 {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_millis() as i64
}

/// One change that depends on the latest cell of a column.
fn dependent(random: &mut Rng, table: &Table, model: &mut Model, place: &Place) {
    let (row, family, qualifier) = (&place.0, place.1, &place.2);
    let latest = model.latest(place, now_ms());
    let value = latest.as_ref().map(|(_, value)| value.clone());
    let (new, is_done) = match random.index(3) {
        0 => {
            let by = random.index(1000) as i64 - 500;
            let number = match &value {
                None => Some(0),
                Some(value) => <[u8; 8]>::try_from(value.as_slice()).ok().map(i64::from_be_bytes),
            };
            let sum = number.and_then(|number| number.checked_add(by));
            assert_eq!(table.increment(row, family, qualifier, by).ok(), sum);
            (sum.unwrap_or_default().to_be_bytes().to_vec(), sum.is_some())
        }
        1 => {
            let new = [value.unwrap_or_default(), b"+".to_vec()].concat();
            // So that it can be incremented now and then.
            let new = if new.len() > 12 { Vec::new() } else { new };
            if new.is_empty() {
                return;
            }
            assert_eq!(table.append(row, family, qualifier, "+").unwrap(), new);
            (new, true)
        }
        _ => {
            let other = format!("{:x}", random.index(16)).into_bytes();
            let (check, holds) = match random.index(4) {
                0 => (Check::absent(family, qualifier.clone()), value.is_none()),
                1 => (
                    Check::value(family, qualifier.clone(), Comparison::Less, other.clone()),
                    value.is_some_and(|value| value < other),
                ),
                2 => (
                    Check::value(family, qualifier.clone(), Comparison::NotEqual, other.clone()),
                    value.is_some_and(|value| value != other),
                ),
                _ => (Check::present(family, qualifier.clone()), value.is_some()),
            };
            // At the latest timestamp, so that the model need not know the time of the write.
            let at = latest.as_ref().map_or(0, |(timestamp, _)| *timestamp);
            let mutation = RowMutation::new(row.clone()).put_at(family, qualifier.clone(), at, b"checked");
            assert_eq!(table.check_and_mutate(&[check], &mutation).unwrap(), holds);
            if holds {
                model.put(place.clone(), at, b"checked");
            }
            return;
        }
    };
    if is_done {
        let read = Read::column(family, qualifier.clone());
        let written = table.get(row, &read).unwrap().remove(0);
        let earliest = latest.map_or(0, |(timestamp, _)| timestamp);
        assert!(written.value == new && written.timestamp >= earliest, "{written:?}");
        model.put(place.clone(), written.timestamp, &new);
    }
}

/// Changes the schema or the name of the table. With a higher number of versions once, a lower one then, and merges between
/// changes, families get histories of rules.
fn change(random: &mut Rng, tables: &Tables, table: &Table, model: &mut Model) {
    if random.index(3) == 0 {
        return tables.rename(&table.name(), random.of(&["u", "v"])).map_or((), drop);
    }
    let some_family = |random: &mut Rng, name| {
        let max = random.of(&[None, Some(1), Some(2), Some(3), Some(4)]);
        let is_short = random.index(2) == 0;
        let ttl = is_short.then_some(Duration::from_millis(HOUR_MS as u64));
        (Family::new(name).max_versions(max).ttl(ttl), max, is_short)
    };
    if random.index(4) == 0 {
        // Families are dropped, in one change or several, and others with their names made, maybe in another group.
        let names: BTreeSet<&'static str> = (0..=random.index(2)).map(|_| random.of(FAMILIES).0).collect();
        for name in &names {
            tables.alter(&table.name(), (*table.schema()).clone().without_family(name)).unwrap();
            model.columns.retain(|place, _| place.1 != *name);
        }
        match random.index(4) {
            0 => tables.db().flush().unwrap(),
            1 => tables.db().compact().unwrap(),
            _ => {}
        }
        for name in names {
            let (family, max, is_short) = some_family(random, name);
            let group = random.of(&["a", "b", "c"]);
            tables.alter(&table.name(), (*table.schema()).clone().with_family(group, family)).unwrap();
            model.rules.insert(name, (max, is_short));
        }
        return;
    }
    let family = random.of(FAMILIES).0;
    let (rules, max, is_short) = some_family(random, family);
    tables.alter(&table.name(), (*table.schema()).clone().with_rules_of(&rules)).unwrap();
    model.alter(family, max, is_short, now_ms());
}

/// What a run does besides puts and deletes up to a timestamp.
#[derive(Debug, Clone, Copy)]
struct Also {
    /// Deletes of single versions.
    deletes_versions: bool,
    /// Changes of the schema and the name.
    alters: bool,
    /// The query cache, and reads that are repeated.
    caches: bool,
}

fn run(seed: u64, cases: u64, also: Also) {
    let Also { deletes_versions, alters, caches } = also;
    println!("ESKER_SEED={seed} ESKER_CASES={cases} {also:?}");
    let mut random = Rng::new(seed);
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store");
    let (mut tables, mut table) = open(&path);
    let mut hits = 0;
    // So small that answers have to go.
    let set_cache = |tables: &Tables| tables.set_query_cache(if caches { 200_000 } else { 0 });
    set_cache(&tables);
    let (old_ms, mut model) = (now_ms(), Model::new());
    let mut kept: Vec<(Scan, Vec<Found>)> = Vec::new();
    for case in 0..cases {
        match random.index(100) {
            0 => tables.db().flush().unwrap(),
            1 if random.index(3) == 0 => tables.db().compact().unwrap(),
            // Seldom, so that the table is split at few rows for long, and at more later. Some rows are no row of the table.
            1 if random.index(40) == 0 => {
                let row = [random.of(ROWS), random.of(&[&b""[..], b"\0", b"m"])].concat();
                table.split(&row).unwrap();
                assert!(table.split_rows().contains(&row));
            }
            2 if random.index(10) == 0 => {
                kept.clear();
                hits += tables.query_cache_stats().hits;
                drop((table, tables));
                (tables, table) = open(&path);
                set_cache(&tables);
            }
            3..40 => {
                // With a cache, one of few reads, so that they are repeated.
                let number = random.index(if caches { 60 } else { usize::MAX >> 1 });
                let mut query = Rng::new(seed ^ (number as u64) << 20);
                query.index(1);
                let mut asked = Asked::some(&mut query, old_ms);
                let read = asked.read();
                let context =
                    format!("case {case}: {}, reversed: {}, {read:?}", asked.text(), asked.is_reversed);
                if query.index(3) == 0 && !asked.is_reversed {
                    let row = query.of(ROWS);
                    let expected = model.read(|place| place.0 == row, &mut asked, now_ms());
                    let expected: Vec<Cell> = expected.into_iter().map(|(_, cell)| cell).collect();
                    assert_eq!(table.get(row, &read).unwrap(), expected, "{context}");
                    continue;
                }
                let (scan, has): (Scan, Has) = if query.index(2) == 0 {
                    let count = query.of(&[0, 1, 1, 2, 3]);
                    let (spans, has): (Vec<Span>, Vec<Has>) =
                        (0..count).map(|_| some_span(&mut query)).unzip();
                    let has: Has = Box::new(move |place| has.iter().any(|has| has(place)));
                    let scan = if asked.is_reversed {
                        table.scan_spans_reversed(spans, &read)
                    } else {
                        table.scan_spans(spans, &read)
                    };
                    (scan.unwrap(), has)
                } else {
                    let bound = |random: &mut Rng| if random.index(2) == 0 { b"" } else { random.of(ROWS) };
                    let (start, stop) = (bound(&mut query), bound(&mut query));
                    if asked.is_reversed {
                        let has = move |place: &Place| {
                            (start.is_empty() || &place.0[..] <= start) && &place.0[..] > stop
                        };
                        (table.scan_reversed(start, stop, &read).unwrap(), Box::new(has))
                    } else {
                        let has = move |place: &Place| {
                            &place.0[..] >= start && (stop.is_empty() || &place.0[..] < stop)
                        };
                        (table.scan(start, stop, &read).unwrap(), Box::new(has))
                    }
                };
                let expected = model.read(has, &mut asked, now_ms());
                if random.index(8) == 0 && kept.len() < 3 {
                    kept.push((scan, expected));
                } else {
                    assert_eq!(cells(scan), expected, "{context}");
                }
            }
            41 | 42 => {
                let (row, family) = (random.of(ROWS), random.of(FAMILIES).0);
                let place: Place = (row.to_vec(), family, random.of(QUALIFIERS).to_vec());
                dependent(&mut random, &table, &mut model, &place);
            }
            43 if alters => change(&mut random, &tables, &table, &mut model),
            40 if !kept.is_empty() => {
                let (scan, expected) = kept.swap_remove(random.index(kept.len()));
                assert_eq!(cells(scan), expected, "a scan that has stayed until case {case}");
            }
            _ if random.index(4) == 0 => put_cells(&mut random, &table, &mut model, old_ms),
            _ => {
                let mutations: Vec<RowMutation> = (0..=random.of(&[0, 0, 0, 1, 2]))
                    .map(|_| {
                        let mut mutation = RowMutation::new(random.of(ROWS));
                        for _ in 0..random.of(&[1, 1, 2, 5]) {
                            mutation = step(&mut random, mutation, &mut model, old_ms, deletes_versions);
                        }
                        mutation
                    })
                    .collect();
                table.mutate_rows(&mutations).unwrap();
            }
        }
    }
    kept.clear();
    hits += tables.query_cache_stats().hits;
    assert_eq!(hits > 0, caches, "the query cache had no answer");
    // Twice: what the first one leaves since it is not alone goes with the second one.
    for _ in 0..2 {
        tables.db().flush().unwrap();
        tables.db().compact().unwrap();
    }
    let expected = model.read(|_| true, &mut Asked::all(), now_ms());
    assert_eq!(cells(table.scan("", "", &Asked::all().read()).unwrap()), expected);
    let left: u64 = tables
        .db()
        .tree_names()
        .iter()
        .filter(|name| name.starts_with("table "))
        .map(|name| tables.db().tree(name).unwrap().count(..).unwrap())
        .sum();
    println!("{} cells count, {left} entries are left, split at {:?}", expected.len(), table.split_rows());
    // A family whose limit was lower once may keep surplus versions.
    if !deletes_versions && !alters {
        assert_eq!(left, expected.len() as u64, "garbage stays");
    }
}

fn run_also(number_of_test: u64, also: Also) {
    run(test_kit::seed(1).wrapping_add(1000 * number_of_test), test_kit::cases(20_000), also);
}

#[test]
fn a_table_holds_what_the_model_says() {
    run_also(0, Also { deletes_versions: false, alters: false, caches: false });
}

#[test]
fn a_table_whose_versions_are_deleted_holds_what_the_model_says() {
    run_also(1, Also { deletes_versions: true, alters: false, caches: false });
}

#[test]
fn a_table_whose_schema_changes_holds_what_the_model_says() {
    run_also(2, Also { deletes_versions: false, alters: true, caches: false });
}

#[test]
fn a_table_whose_schema_changes_and_whose_versions_are_deleted_holds_what_the_model_says() {
    run_also(3, Also { deletes_versions: true, alters: true, caches: false });
}

#[test]
fn the_query_cache_has_what_the_model_says() {
    run_also(4, Also { deletes_versions: false, alters: false, caches: true });
    run_also(5, Also { deletes_versions: true, alters: true, caches: true });
}

#[test]
fn huge_values_are_compared_by_what_decides_and_not_shown_where_only_keys_are() {
    let tables = Tables::open_in_memory(esker::Options::default()).unwrap();
    let table = tables.create("t", Schema::new().group("g", [Family::new("f")])).unwrap();
    let huge = |last: u8| [vec![b'a'; 1 << 20], vec![last]].concat();
    table.mutate(&RowMutation::new("r").put("f", "x", huge(b'x')).put("f", "y", huge(b'y'))).unwrap();
    let bytes = |comparator: &str, tail: &[u8]| [b"'", comparator.as_bytes(), tail, b"'"].concat();
    let cases: &[(&str, Vec<u8>, &[&str])] = &[
        ("=", bytes("binaryprefix:", b"aa"), &["x", "y"]),
        ("=", bytes("binaryprefix:", b"ab"), &[]),
        ("=", bytes("binary:", b"a"), &[]),
        (">", bytes("binary:", b"a"), &["x", "y"]),
        ("<", bytes("binary:", b"b"), &["x", "y"]),
        ("=", bytes("substring:", b"AAY"), &["y"]),
        ("=", bytes("regexstring:", b"a+x$"), &["x"]),
    ];
    let found = |filter: Filter| -> Vec<String> {
        let cells = table.get("r", &Read::all().filter(filter)).unwrap();
        cells.into_iter().map(|cell| String::from_utf8(cell.qualifier).unwrap()).collect()
    };
    for (comparison, comparator, expected) in cases {
        let text = [b"ValueFilter(", comparison.as_bytes(), b", ", comparator, b")"].concat();
        assert_eq!(found(Filter::parse(&text).unwrap()), *expected, "{comparison} {comparator:?}");
    }
    let whole = |last: u8| Filter::value(Comparison::Equal, Comparator::binary(huge(last)));
    assert_eq!(found(whole(b'y')), ["y"]);
    assert_eq!(found(whole(b'z')), Vec::<String>::new());

    let mut scan = table.scan("", "", &Read::all().keys_only()).unwrap();
    assert!(scan.advance().unwrap());
    assert!(scan.value().unwrap().is_empty() && scan.to_value().unwrap().is_none());
    let mut scan = table.scan("", "", &Read::all().filter(Filter::key_and_length_only())).unwrap();
    assert!(scan.advance().unwrap());
    assert_eq!(scan.value().unwrap().bytes().unwrap()[..], ((1_u32 << 20) + 1).to_be_bytes());
}
