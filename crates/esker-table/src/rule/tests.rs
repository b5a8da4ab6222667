//! Random histories of a row, with runs over arbitrary parts of its entries: what every reader finds stays as it is.

use std::collections::{BTreeMap, BTreeSet};

use super::*;
use crate::schema::Moment;
use crate::versions::{Column, Verdict};

/// The entries of a row, by their keys.
type Entries = BTreeSet<Vec<u8>>;

/// What is found: by families and qualifiers, timestamps and sequence numbers.
type Found = BTreeMap<(FamilyId, u8), BTreeMap<i64, u64>>;

const FAMILIES: [FamilyId; 2] = [1, 2];
const QUALIFIERS: [u8; 2] = *b"pq";

/// A run that has some of the entries, and the time of the oldest reader.
struct Part<'a> {
    now_ms: i64,
    entries: &'a Entries,
    input: &'a Entries,
    /// The highest sequence number that a snapshot sees.
    pinned: u64,
}

impl Surroundings for Part<'_> {
    fn now_us(&self) -> u64 {
        self.now_ms as u64 * 1000
    }

    fn alone(&self, lower: &[u8], upper: &[u8]) -> bool {
        let mut inside = self.entries.range(lower.to_vec()..upper.to_vec());
        inside.all(|key| self.input.contains(key) && version_of(key).sequence > self.pinned)
    }
}

fn parsed(key: &[u8]) -> Entry<'_> {
    cell::entry(key, cell::row_len(key).unwrap()).unwrap()
}

fn version_of(key: &[u8]) -> Version {
    match parsed(key) {
        Entry::Head { version, .. } | Entry::Column { version, .. } => version,
    }
}

/// What a reader finds that sees sequence numbers up to `last`.
fn found(entries: &Entries, last: u64, families: &Families, now_ms: i64) -> Found {
    let mut all = Found::new();
    for (family, qualifier) in
        FAMILIES.into_iter().flat_map(|family| QUALIFIERS.map(|qualifier| (family, qualifier)))
    {
        let (mut above, mut column, mut puts) = (Deletes::default(), Column::default(), Vec::new());
        for key in entries.iter().filter(|key| version_of(key).sequence <= last) {
            match parsed(key) {
                Entry::Head { family: of, version } if of == NO_FAMILY || of == family => above.add(version),
                Entry::Column { family: of, qualifier: [of_column, ..], kind, version, .. }
                    if of == family && *of_column == qualifier =>
                {
                    if kind == Kind::Put {
                        puts.push(version);
                    } else {
                        column.add(kind, version);
                    }
                }
                _ => {}
            }
        }
        let rules = &families.rules[&family];
        if column.needs_replay(rules) {
            column.replay(puts.iter().copied(), &above, rules);
        }
        for put in puts {
            match column.judge(put, &above, rules, rules.expired_below(now_ms)) {
                Verdict::Counts => {
                    all.entry((family, qualifier)).or_default().insert(put.timestamp, put.sequence);
                }
                Verdict::DoesNot => {}
                Verdict::NoneBehind => break,
            }
        }
    }
    all
}

/// What of the cells has not expired.
fn living(all: &Found, families: &Families, now_ms: i64) -> Found {
    let mut all = all.clone();
    for ((family, _), column) in &mut all {
        let expired_below = families.rules[family].expired_below(now_ms);
        column.retain(|timestamp, _| *timestamp >= expired_below);
    }
    all.retain(|_, column| !column.is_empty());
    all
}

#[test]
fn no_run_changes_what_a_reader_finds() {
    let (seed, cases) = (test_kit::seed(1), test_kit::cases(20_000));
    let mut rng = test_kit::Rng::new(seed);
    let mut below = move |bound: usize| rng.index(bound);
    let row = cell::row_prefix(b"r");
    let mut dropped = 0;
    for case in 0..cases {
        let mut families = Families::new(BTreeMap::new(), 0, 0);
        for family in FAMILIES {
            let max_versions = [None, Some(1), Some(2), Some(3)][below(4)];
            let ttl_ms = [None, None, Some(6)][below(3)];
            families.rules.insert(family, Rules::of(max_versions, ttl_ms));
        }
        let deletes_versions = below(3) == 0;
        let (mut entries, mut table, mut log) = (Entries::new(), Found::new(), Vec::new());
        let (mut sequence, mut now_ms) = (0, 10);
        let mut snapshots: Vec<(u64, i64, Found, Families)> = Vec::new();
        for _ in 0..30 {
            match below(13) {
                0..=6 => {
                    sequence += 1;
                    let version = Version { timestamp: 5 + below(8) as i64, sequence };
                    let (family, qualifier) = (FAMILIES[below(2)], QUALIFIERS[below(2)]);
                    let column = cell::column_prefix(&row, family, &[qualifier]);
                    let what = below(if deletes_versions { 9 } else { 8 });
                    log.push(format!("{what} of {family} {qualifier} {version:?}"));
                    let remove = |table: &mut Found, is_meant: &dyn Fn(&(FamilyId, u8)) -> bool| {
                        let columns = table.iter_mut().filter(|(place, _)| is_meant(place));
                        columns.for_each(|(_, column)| column.retain(|at, _| *at > version.timestamp));
                    };
                    entries.insert(match what {
                        0 => {
                            remove(&mut table, &|_| true);
                            cell::head_key(&row, NO_FAMILY, version)
                        }
                        1 => {
                            remove(&mut table, &|place| place.0 == family);
                            cell::head_key(&row, family, version)
                        }
                        2 => {
                            remove(&mut table, &|place| *place == (family, qualifier));
                            cell::entry_key(column, Kind::DeleteColumn, version)
                        }
                        8 => {
                            families
                                .rules
                                .entry(family)
                                .and_modify(|rules| rules.has_deleted_versions = true);
                            table.entry((family, qualifier)).or_default().remove(&version.timestamp);
                            cell::entry_key(column, Kind::DeleteVersion, version)
                        }
                        _ => {
                            let cells = table.entry((family, qualifier)).or_default();
                            cells.insert(version.timestamp, sequence);
                            if families.rules[&family]
                                .max_versions
                                .is_some_and(|max| cells.len() > max as usize)
                            {
                                cells.pop_first();
                            }
                            cell::entry_key(column, Kind::Put, version)
                        }
                    });
                }
                7 => now_ms += below(3) as i64,
                8 if snapshots.len() < 2 => {
                    snapshots.push((sequence, now_ms, table.clone(), families.clone()));
                }
                8 => drop(snapshots.remove(0)),
                9 => {
                    sequence += 1;
                    let family = FAMILIES[below(2)];
                    let old = families.rules[&family].clone();
                    let ttl_ms = [None, Some(6), Some(9)][below(3)];
                    let max_versions = [None, Some(1), Some(2), Some(3)][below(4)];
                    for (_, column) in table.iter_mut().filter(|(place, _)| place.0 == family) {
                        column.retain(|at, _| *at >= old.expired_below(now_ms));
                        while max_versions.is_some_and(|max| column.len() > max as usize) {
                            column.pop_first();
                        }
                    }
                    log.push(format!("{family} from {sequence} on: {max_versions:?} {ttl_ms:?}"));
                    let new = old.changed(max_versions, ttl_ms, Moment { sequence, now_ms });
                    families.rules.insert(family, new);
                    families.since_ms = now_ms + 1;
                }
                _ => {
                    let (odds, is_all) = (1 + below(4), below(3) == 0);
                    let input: Entries =
                        entries.iter().filter(|_| is_all || below(4) < odds).cloned().collect();
                    let pinned = snapshots.iter().map(|snapshot| snapshot.0).max().unwrap_or(0);
                    let oldest_ms = snapshots.iter().map(|snapshot| snapshot.1).min().unwrap_or(now_ms);
                    let context = Part { now_ms: oldest_ms, entries: &entries, input: &input, pinned };
                    let mut run = Run { families: Some(Arc::new(families.clone())), ..Run::default() };
                    let oldest = snapshots.iter().map(|snapshot| snapshot.0).min().unwrap_or(sequence);
                    let is_gone =
                        |key: &&Vec<u8>| match run.judge(&context, key, version_of(key).sequence <= oldest) {
                            RuleDecision::Keep => false,
                            RuleDecision::Drop => version_of(key).sequence > pinned,
                            RuleDecision::DropPinned => true,
                        };
                    let gone: Entries = input.iter().filter(is_gone).cloned().collect();
                    let shown = |keys: &Entries| {
                        format!("{:?}", keys.iter().map(|key| parsed(key)).collect::<Vec<_>>())
                    };
                    log.push(format!("a run of {} drops {}", shown(&input), shown(&gone)));
                    dropped += gone.len();
                    entries.retain(|key| !gone.contains(key));
                }
            }
            let now = found(&entries, u64::MAX, &families, now_ms);
            assert_eq!(now, living(&table, &families, now_ms), "case {case} {families:?} {log:#?}");
            for (last, at_ms, table, families) in &snapshots {
                let then = found(&entries, *last, families, *at_ms);
                assert_eq!(
                    then,
                    living(table, families, *at_ms),
                    "snapshot {last}, case {case} {families:?} {log:#?}"
                );
            }
        }
    }
    assert!(dropped as u64 > cases, "the runs have dropped {dropped} entries of {cases} histories");
}

#[test]
fn times_that_cannot_be_reckoned_end_no_run() {
    let rules = BTreeMap::from([(1, Rules::of(None, Some(u64::MAX / 3)))]);
    let families = Some(Arc::new(Families::new(rules, 0, 0)));
    let mut run = Run { families, ..Run::default() };
    let version = Version { timestamp: cell::TIMESTAMP_MAX, sequence: 1 };
    let key = cell::entry_key(cell::column_prefix(&cell::row_prefix(b"r"), 1, b"q"), Kind::Put, version);
    let (entries, none) = (Entries::from([key.clone()]), Entries::new());
    let context = Part { now_ms: 0, entries: &entries, input: &none, pinned: 0 };
    assert_eq!(run.judge(&context, &key, false), RuleDecision::Keep);
    assert_eq!(run.look_again_us(), None);
}

#[test]
fn what_a_run_was_told_nothing_of_is_looked_at_again_soon() {
    let key = cell::head_key(&cell::row_prefix(b"r"), 1, Version { timestamp: 1, sequence: 1 });
    let (entries, none) = (Entries::from([key.clone()]), Entries::new());
    let context = Part { now_ms: 7, entries: &entries, input: &none, pinned: 0 };
    let mut run = Run::default();
    assert_eq!((run.judge(&context, &key, false), run.look_again_us()), (RuleDecision::Keep, Some(7000)));
}

#[test]
fn what_is_beside_an_entry_that_never_expires_is_looked_at_again() {
    use esker::rules::RuleRun;
    let rules = crate::schema::Rules::of(Some(1), Some(1000));
    let families = Families::new([(1, rules)].into(), 2, i64::MIN);
    for with_removed in [false, true] {
        let mut run = Run { families: Some(Arc::new(families.clone())), ..Run::default() };
        let column = cell::column_prefix(&cell::row_prefix(b"\0\x01\0text"), 1, b"row\0\0q");
        let mut entries: Entries =
            [cell::entry_key(column, Kind::Put, Version { timestamp: 5000, sequence: 7 })].into();
        if with_removed {
            let other = cell::column_prefix(&cell::row_prefix(b"\0\x01\0other"), 1, b"row\0\0q");
            let last = Version { timestamp: cell::TIMESTAMP_MAX, sequence: 7 };
            entries.insert(cell::entry_key(other, Kind::DeleteColumn, last));
        }
        let part = Part { now_ms: 5500, entries: &entries, input: &entries, pinned: 0 };
        entries.iter().for_each(|key| _ = run.judge(&part, key, false));
        let again = run.look_again_us();
        assert_eq!(again, Some(6_001_000), "{with_removed}");
    }
}

#[test]
fn prefixes_are_where_the_deletes_begin() {
    let version = Version { timestamp: 5, sequence: 9 };
    for row in [&b""[..], b"r", b"a\0b", b"\0\0", &[0xff; 300]] {
        for qualifier in [&b""[..], b"q", b"\0", b"q\0\xff"] {
            let row = cell::row_prefix(row);
            let column = cell::column_prefix(&row, 1, qualifier);
            let put = cell::entry_key(column.clone(), cell::Kind::Put, version);
            let rule = TableRule::default();
            assert_eq!(rule.prefixes(&put), [row.len(), column.len()], "{put:?}");
            let head = cell::head_key(&row, 1, version);
            assert_eq!(rule.prefixes(&head), [row.len()], "{head:?}");
            // What makes the put garbage comes before it, and begins with one of these.
            for delete in [head, cell::entry_key(column, cell::Kind::DeleteColumn, version)] {
                assert!(
                    delete < put && rule.prefixes(&put).iter().any(|&len| delete.starts_with(&put[..len]))
                );
            }
        }
    }
    assert!(TableRule::default().prefixes(b"no cell").is_empty());
}
