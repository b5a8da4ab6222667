//! A table with indexes and a query cache that is split, and one with none of that, while a clock moves, cells expire and schemas
//! change: the same reads must find the same.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use esker::env::{Clock, Env};
use esker_table::{Comparator, Comparison, Family, Filter, Read, RowMutation, Schema, Span, Table, Tables};

use crate::indexes::shown;
use test_kit::Rng;

#[derive(Debug)]
struct Manual(AtomicU64);
impl Clock for Manual {
    fn wall_us(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
    fn monotonic_us(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
    fn sleep(&self, _: Duration) {
        std::thread::yield_now();
    }
}

const ROWS: &[&[u8]] = &[b"\0", b"a", b"a\0", b"a\0b", b"b", b"c", b"\xff"];
const QUALIFIERS: &[&[u8]] = &[b"", b"\0", b"q", b"q\0"];
const VALUES: &[&[u8]] = &[b"", b"\0", b"a", b"ab", b"b", b"\xff"];

struct Names(Vec<String>);

fn value(random: &mut Rng) -> Vec<u8> {
    match random.index(8) {
        0 => [&[b'l'; 1023][..], random.of(VALUES)].concat(),
        1 => random.index(3).to_be_bytes().to_vec(),
        _ => random.of(VALUES).to_vec(),
    }
}

fn mutation(random: &mut Rng, names: &Names, now_ms: i64, steps: usize, reads: bool) -> RowMutation {
    let mut mutation = RowMutation::new(random.of(ROWS));
    for _ in 0..steps {
        let family = names.0[random.index(names.0.len())].clone();
        let (family, qualifier) = (&*family, random.of(QUALIFIERS));
        let timestamp = now_ms - 6 + random.index(8) as i64;
        mutation = match random.index(24) {
            0 => mutation.delete_row_up_to(timestamp),
            1 => mutation.delete_family_up_to(family, timestamp),
            2 => mutation.delete_column_up_to(family, qualifier, timestamp),
            3 | 4 => mutation.delete_version(family, qualifier, timestamp),
            5 => mutation.delete_column(family, qualifier),
            6 | 7 if reads => mutation.append(family, qualifier, random.of(VALUES)),
            8 | 9 => mutation.put(family, qualifier, value(random)),
            _ => mutation.put_at(family, qualifier, timestamp, value(random)),
        };
    }
    mutation
}

fn comparison(random: &mut Rng) -> (Comparison, Comparator) {
    let value = value(random);
    let comparator = match random.index(4) {
        0 => Comparator::prefix(&value[..random.index(value.len() + 1)]),
        _ => Comparator::binary(value),
    };
    let comparison = match random.index(8) {
        0 => random.of(&[Comparison::NotEqual, Comparison::LessOrEqual, Comparison::Greater]),
        _ => Comparison::Equal,
    };
    (comparison, comparator)
}

fn filter(random: &mut Rng, names: &Names, depth: usize) -> Filter {
    let family = names.0[random.index(names.0.len())].clone();
    let (comparison, comparator) = comparison(random);
    let equal = Comparison::Equal;
    let qualifier = random.of(QUALIFIERS);
    match random.index(if depth == 0 { 14 } else { 22 }) {
        0 => Filter::family(comparison, Comparator::binary(family)),
        1 => Filter::qualifier(comparison, Comparator::binary(qualifier)),
        2 => Filter::value(comparison, comparator),
        3 => Filter::key_only(),
        4 => Filter::first_key_only(),
        5 => Filter::column_pagination(random.index(3) as u32, random.index(2) as u32),
        6 | 7 => Filter::single_column_value(
            &family,
            qualifier,
            comparison,
            comparator,
            random.index(4) > 0,
            random.index(2) == 0,
        ),
        8 => Filter::single_column_value_exclude(
            &family,
            qualifier,
            comparison,
            comparator,
            random.index(4) > 0,
            random.index(2) == 0,
        ),
        9 => Filter::column_value(&family, qualifier, comparison, comparator),
        10 => {
            Filter::dependent_column(&family, qualifier, random.index(2) == 0, Some((comparison, comparator)))
        }
        11 => Filter::page(2),
        12 => Filter::column_prefix(qualifier),
        13 => Filter::row(Comparison::GreaterOrEqual, Comparator::binary(random.of(ROWS))),
        14..18 => Filter::family(equal, Comparator::binary(family))
            .and(filter(random, names, 0))
            .and(filter(random, names, depth - 1))
            .row_with(),
        18 => filter(random, names, depth - 1).row_with(),
        19 => filter(random, names, depth - 1).skip(),
        20 if random.index(4) == 0 => filter(random, names, depth - 1).while_match(),
        20 => Filter::any([filter(random, names, depth - 1), filter(random, names, depth - 1)]),
        _ => Filter::all([filter(random, names, depth - 1), filter(random, names, depth - 1)]),
    }
}

fn some_read(random: &mut Rng, names: &Names, now_ms: i64) -> Read {
    let mut read = Read::all();
    match random.index(3) {
        0 => {
            for _ in 0..=random.index(3) {
                let family = &names.0[random.index(names.0.len())];
                read = read.column_too(family, random.of(QUALIFIERS));
            }
            if random.index(8) == 0 {
                read = read.family_too(&names.0[random.index(names.0.len())]);
            }
        }
        1 => {
            read = read
                .family_too(&names.0[random.index(names.0.len())])
                .family_too(&names.0[random.index(names.0.len())]);
        }
        _ => {}
    }
    if random.index(5) > 0 {
        read = read.filter(filter(random, names, 3));
    }
    read = read.versions(random.of(&[1, 2, u32::MAX]));
    if random.index(4) == 0 {
        read = read.limit_rows(2, random.index(2) as u64);
    }
    if random.index(6) == 0 {
        read = read.limit_cells(random.index(6) as u64, random.index(3) as u64);
    }
    if random.index(6) == 0 {
        read = read.limit_cells_per_row(random.index(3) as u64 + 1, random.index(2) as u64);
    }
    if random.index(6) == 0 {
        read = read.limit_cells_per_family(random.index(3) as u64 + 1, random.index(2) as u64);
    }
    if random.index(4) == 0 {
        let from = now_ms - 8 + random.index(6) as i64;
        read = read.time(from..from + random.index(6) as i64);
    }
    if random.index(10) == 0 { read.keys_only() } else { read }
}

fn some_family(random: &mut Rng, name: &str) -> Family {
    let ttl = random.of(&[None, None, Some(10), Some(30)]).map(Duration::from_millis);
    Family::new(name).max_versions(random.of(&[None, Some(1), Some(2), Some(3), Some(70)])).ttl(ttl)
}

#[test]
fn a_table_with_indexes_and_a_cache_answers_as_one_without() {
    let (seed, cases) = (test_kit::seed(1), test_kit::cases(20_000));
    let mut random = Rng::new(seed);
    let clock = Arc::new(Manual(AtomicU64::new(1_700_000_000_000_000)));
    let env = || Env { clock: Arc::<Manual>::clone(&clock), ..Env::system() };
    let open =
        || Tables::open_in_memory(esker::Options::default().memtable_bytes(64 << 10).env(env())).unwrap();
    // The plain table is in a store without a query cache.
    let stores = [open(), open()];
    stores[1].set_query_cache(256 << 10);
    let mut names = Names(["f", "g", "h"].map(str::to_owned).to_vec());
    let create = |store: &Tables, is_indexed: bool| {
        let family = |name: &str| {
            Family::new(name).max_versions(2).index_values(is_indexed).index_qualifiers(is_indexed)
        };
        store.create("t", Schema::new().group("a", ["f", "g"].map(family)).group("b", [family("h")])).unwrap()
    };
    let tables: [Table; 2] = [create(&stores[0], false), create(&stores[1], true)];
    let mut by_index = 0;
    let mut reads: Vec<(Read, Vec<Span>, bool)> = Vec::new();
    for case in 0..cases {
        let now_ms = (clock.0.load(Ordering::Relaxed) / 1000) as i64;
        match random.index(300) {
            0 => stores.iter().for_each(|store| store.db().flush().unwrap()),
            1 => stores.iter().for_each(|store| store.db().compact().unwrap()),
            2 => stores[1].db().flush().unwrap(),
            3 => stores[1].db().compact().unwrap(),
            4 if random.index(4) == 0 => tables[1].split(random.of(ROWS)).unwrap(),
            4 => stores[1].rebuild_indexes("t").unwrap(),
            5 | 6 => {
                let name = names.0[random.index(names.0.len())].clone();
                let rules = some_family(&mut random, &name);
                let is_indexed = random.index(4) > 0;
                for (place, store) in stores.iter().enumerate() {
                    let rules =
                        rules.clone().index_values(is_indexed && place == 1).index_qualifiers(place == 1);
                    store.alter("t", (*tables[place].schema()).clone().with_rules_of(&rules)).unwrap();
                }
                reads.clear();
            }
            7 => {
                // Renamed, or two of them swapped.
                let (one, other) = (random.index(names.0.len()), random.index(names.0.len()));
                let (a, b) = (names.0[one].clone(), names.0[other].clone());
                if a != b {
                    for (place, store) in stores.iter().enumerate() {
                        let schema = (*tables[place].schema()).clone().with_family_renamed(&a, "tmp");
                        let schema = schema.with_family_renamed(&b, &a).with_family_renamed("tmp", &b);
                        store.alter("t", schema).unwrap();
                    }
                }
                reads.clear();
            }
            8 if random.index(3) == 0 => {
                let place = random.index(names.0.len());
                let name = names.0[place].clone();
                let rules = some_family(&mut random, &name);
                for (place, store) in stores.iter().enumerate() {
                    store.alter("t", (*tables[place].schema()).clone().without_family(&name)).unwrap();
                    let rules = rules.clone().index_values(place == 1).index_qualifiers(place == 1);
                    store.alter("t", (*tables[place].schema()).clone().with_family("a", rules)).unwrap();
                }
                reads.clear();
            }
            9..150 => {
                let (read, spans, is_reversed) = if !reads.is_empty() && random.index(2) == 0 {
                    reads[random.index(reads.len())].clone()
                } else {
                    let read = some_read(&mut random, &names, now_ms);
                    let spans = match random.index(5) {
                        0 => vec![Span::rows(random.of(ROWS)..)],
                        1 => vec![Span::row(random.of(ROWS)), Span::prefix(random.of(ROWS))],
                        2 => vec![
                            Span::cells_from(random.of(ROWS), &names.0[0], random.of(QUALIFIERS)),
                            Span::cells_through(random.of(ROWS), &names.0[1], random.of(QUALIFIERS)),
                        ],
                        3 => vec![
                            Span::cells_behind(random.of(ROWS), &names.0[0], random.of(QUALIFIERS))
                                .and(&Span::cells_below(random.of(ROWS), &names.0[1], random.of(QUALIFIERS))),
                        ],
                        _ => vec![Span::all()],
                    };
                    let new = (read, spans, random.index(3) == 0);
                    if reads.len() < 20 {
                        reads.push(new.clone());
                    } else {
                        let place = random.index(20);
                        reads[place] = new.clone();
                    }
                    new
                };
                by_index += usize::from(tables[1].index_of(&read).is_some());
                let found = [0, 1].map(|place: usize| {
                    let (table, spans) = (&tables[place], spans.clone());
                    shown(if is_reversed {
                        table.scan_spans_reversed(spans, &read).unwrap()
                    } else {
                        table.scan_spans(spans, &read).unwrap()
                    })
                });
                assert_eq!(
                    found[0],
                    found[1],
                    "case {case}: {read:?} {spans:?} {is_reversed} {:?}",
                    tables[1].index_of(&read)
                );
            }
            150..200 => drop(clock.0.fetch_add(random.of(&[1000, 1000, 1000, 5000]), Ordering::Relaxed)),
            _ => {
                let count = random.of(&[1, 1, 1, 2, 4]);
                let reads = count == 1;
                let changes: Vec<_> = (0..count)
                    .map(|_| {
                        let steps = random.of(&[1, 1, 1, 2, 3]);
                        mutation(&mut random, &names, now_ms, steps, reads)
                    })
                    .collect();
                let done = [0, 1].map(|place: usize| {
                    tables[place].mutate_rows(&changes).map_err(|error| error.to_string())
                });
                assert_eq!(done[0], done[1]);
            }
        }
        let _ = &mut names;
    }
    println!(
        "{by_index} by an index; {:?}; split at {:?}",
        stores[1].query_cache_stats(),
        tables[1].split_rows()
    );
}
