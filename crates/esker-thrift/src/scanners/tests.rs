use esker_table::{Family, Read, RowMutation, Schema, Tables};

use super::*;
use crate::memory::{Memory, Share};

/// Limits of answers for a connection that needs to wait for nobody.
fn limits(len_max: usize, rows_len: usize) -> ReplyLimits<'static> {
    let memory = Box::leak(Box::new(Memory::new(usize::MAX, len_max, Duration::ZERO)));
    let share = Box::leak(Box::new(Share::new(memory)));
    ReplyLimits { len_max, rows_len, pauses_at: usize::MAX, share }
}

/// Those of a server that is not told otherwise.
fn usual_limits() -> ReplyLimits<'static> {
    limits(64 << 20, 8 << 20)
}

/// A table with a cell of each of these lengths, each in its row.
fn table(lens: &[usize]) -> Table {
    table_of(lens.iter().map(|len| vec![*len]))
}

/// A table with cells of these lengths in each row.
fn table_of(rows: impl IntoIterator<Item = Vec<usize>>) -> Table {
    let tables = Tables::open_in_memory(esker::Options::default()).unwrap();
    let table = tables.create("t", Schema::new().group("g", [Family::new("f")])).unwrap();
    for (row, lens) in rows.into_iter().enumerate() {
        let begun = RowMutation::new(format!("{row:05}"));
        let row = lens.into_iter().enumerate().fold(begun, |begun, (cell, len)| {
            begun.put_at("f", format!("q{cell:03}"), 1, vec![row as u8; len])
        });
        table.mutate(&row).unwrap();
    }
    table
}

/// Scanners of a connection, with one of all rows of the table.
fn open(table: &Table) -> (Scanners, i32) {
    let mut scanners = Scanners::new(10, Duration::from_secs(3600), Numbers::default());
    // However busy the machine is.
    scanners.ahead_time = Duration::MAX;
    let id = add(&mut scanners, table);
    (scanners, id)
}

fn add(scanners: &mut Scanners, table: &Table) -> i32 {
    let rows = Rows::new(table.scan(b"", b"", &Read::all()).unwrap());
    scanners.add(table.clone(), rows, 0).unwrap()
}

fn next(
    scanners: &mut Scanners,
    id: i32,
    wanted: u32,
    limits: ReplyLimits<'_>,
    protocol: Protocol,
) -> Outcome<Vec<u8>> {
    let mut sink = Sink::new(protocol, b"head".to_vec());
    scanners.write_next(id, wanted, limits, &mut sink)?;
    Ok(sink.message().to_vec())
}

#[test]
fn rows_that_were_read_ahead_are_those_that_others_get() {
    let mut rng = test_kit::Rng::new(test_kit::seed(7));
    let mut random = move |below: usize| rng.index(below);
    let mut parts = 0;
    for round in 0..test_kit::cases(80) {
        // In the last form, what is read ahead ends within most rows.
        let (rows, cells, len_max) =
            [(300, 1, 10), (300, 1, 3_000), (300, 1, 100_000), (40, 60, 30_000)][round as usize % 4];
        let lens: Vec<Vec<usize>> =
            (0..random(rows)).map(|_| (0..1 + random(cells)).map(|_| random(len_max)).collect()).collect();
        let table = table_of(lens.clone());
        for protocol in [Protocol::Binary, Protocol::Compact] {
            let in_parts = random(3) as u32 * 7;
            let open = |ahead_time| {
                let mut scanners = Scanners::new(10, Duration::from_secs(3600), Numbers::default());
                scanners.ahead_time = ahead_time;
                let rows = Rows::new(table.scan(b"", b"", &Read::all()).unwrap());
                let rows = rows.in_parts(in_parts).sorted(in_parts > 7);
                let id = scanners.add(table.clone(), rows, 0).unwrap();
                (scanners, id)
            };
            let (mut plain, (mut ahead, id)) = (open(Duration::ZERO), open(Duration::MAX));
            let mut usual = 1 + random(40);
            let (mut taken, mut paused) = (0, 0);
            loop {
                let wanted = if random(4) == 0 { random(60) } else { usual } as u32;
                if random(20) == 0 {
                    usual = 1 + random(40);
                }
                let expected = next(&mut plain.0, plain.1, wanted, usual_limits(), protocol);
                assert!(
                    next(&mut ahead, id, wanted, usual_limits(), protocol) == expected,
                    "round {round}, {wanted} rows"
                );
                if random(5) != 0 {
                    let mut memory = vec![1; 100];
                    ahead.read_ahead(protocol, usual_limits(), &mut memory);
                    taken += usize::from(memory.is_empty());
                    assert!(
                        ahead.ahead.as_ref().is_none_or(|ahead| ahead.body.out.len() < AHEAD_LEN_MAX + 100)
                    );
                    paused +=
                        usize::from(ahead.open.values().flat_map(|leased| &leased.rows).any(Rows::has_begun));
                }
                if expected.unwrap().len() < 20 && wanted > 0 {
                    break;
                }
            }
            assert!(taken > 0 || lens.len() < 200, "round {round}: nothing was read ahead");
            parts += paused;
        }
    }
    assert!(!test_kit::is_full_run() || parts > 10, "{parts} rows were read ahead in part");
}

#[test]
fn a_client_that_has_asked_twice_is_read_ahead_for_and_one_scanner_at_a_time() {
    let table = table(&[10; 100]);
    let (mut scanners, one) = open(&table);
    let other = add(&mut scanners, &table);
    let is_read_ahead = |scanners: &mut Scanners, id: i32, wanted: u32| {
        next(scanners, id, wanted, usual_limits(), Protocol::Binary).unwrap();
        let mut memory = vec![1];
        scanners.read_ahead(Protocol::Binary, usual_limits(), &mut memory);
        memory.is_empty()
    };
    assert!(!is_read_ahead(&mut scanners, one, 5));
    assert!(!is_read_ahead(&mut scanners, other, 5));
    assert!(is_read_ahead(&mut scanners, one, 5));
    assert!(!is_read_ahead(&mut scanners, other, 5), "the other one's rows are there");
    assert!(is_read_ahead(&mut scanners, one, 5));
    assert!(scanners.close(one));
    assert!(is_read_ahead(&mut scanners, other, 5));
    // It comes to its end.
    assert!(is_read_ahead(&mut scanners, other, 70));
    assert!(!is_read_ahead(&mut scanners, other, 70));
    assert!(!is_read_ahead(&mut scanners, other, 70));
}

#[test]
fn little_is_read_ahead_and_it_goes_with_its_scanner() {
    let table = table(&[50_000; 100]);
    let (mut scanners, id) = open(&table);
    for _ in 0..2 {
        next(&mut scanners, id, 20, usual_limits(), Protocol::Compact).unwrap();
    }
    scanners.read_ahead(Protocol::Compact, usual_limits(), &mut Vec::new());
    let ahead = scanners.ahead.as_ref().unwrap();
    assert_eq!(ahead.left(), AHEAD_LEN / 50_000 + 1);
    assert!(ahead.body.out.len() < AHEAD_LEN + 51_000);
    scanners.lease = Duration::ZERO;
    scanners.end_leases();
    assert!(scanners.is_empty() && scanners.ahead.is_none());
}

#[test]
fn an_error_comes_where_its_row_does() {
    // The seventh row is longer than answers may be.
    let table = table(&[10, 10, 10, 10, 10, 10, 2_000, 10]);
    let limits = limits(1_000, 500);
    let (mut scanners, id) = open(&table);
    for _ in 0..2 {
        next(&mut scanners, id, 2, limits, Protocol::Binary).unwrap();
    }
    scanners.asked = Some((id, 4));
    scanners.read_ahead(Protocol::Binary, limits, &mut Vec::new());
    let ahead = scanners.ahead.as_ref().unwrap();
    assert!(ahead.left() == 2 && scanners.open[&id].rows.as_ref().is_some_and(Rows::has_begun));
    // Two rows are before it.
    let (mut plain, other) = open(&table);
    next(&mut plain, other, 4, limits, Protocol::Binary).unwrap();
    for _ in 0..2 {
        let expected = next(&mut plain, other, 1, limits, Protocol::Binary);
        assert_eq!(next(&mut scanners, id, 1, limits, Protocol::Binary), expected);
    }
    assert!(next(&mut scanners, id, 0, limits, Protocol::Binary).is_ok());
    let error = next(&mut scanners, id, 1, limits, Protocol::Binary).unwrap_err();
    assert_eq!(Err(error), next(&mut plain, other, 1, limits, Protocol::Binary));
    // It holds the moment of the store no more, and is there to be closed.
    assert!(scanners.open[&id].rows.is_none() && scanners.ahead.is_none());
    assert!(next(&mut scanners, id, 1, limits, Protocol::Binary).is_err());
    assert!(scanners.close(id) && scanners.is_empty());
}

#[test]
fn failed_scanners_make_way_for_others() {
    let table = table(&[2_000]);
    let mut scanners = Scanners::new(2, Duration::from_secs(3600), Numbers::default());
    for _ in 0..5 {
        let id = add(&mut scanners, &table);
        assert!(next(&mut scanners, id, 1, limits(1_000, 500), Protocol::Binary).is_err());
    }
    add(&mut scanners, &table);
    add(&mut scanners, &table);
    assert!(scanners.open.len() == 2 && scanners.open.values().all(|leased| leased.rows.is_some()));
}

#[test]
fn limits_of_answers_hold_for_rows_that_were_read_ahead() {
    let lens: Vec<usize> = (0..500).map(|row| row * 7 % 400).collect();
    let table = table(&lens);
    let limits = limits(1_000, 500);
    for usual in 1..20 {
        let (mut scanners, id) = open(&table);
        let (mut rows, mut calls) = (0, 0);
        loop {
            let wanted = [usual, usual, usual, 1, 30][calls % 5];
            let reply = next(&mut scanners, id, wanted, limits, Protocol::Binary).unwrap();
            assert!(reply.len() <= limits.len_max, "{} bytes", reply.len());
            // Behind the head, the field and the type.
            let count = u32::from_be_bytes(reply[8..12].try_into().unwrap());
            assert!(count <= wanted);
            if count == 0 {
                break;
            }
            let first = format!("{rows:05}");
            assert_eq!(&reply[19..24], first.as_bytes());
            (rows, calls) = (rows + count as usize, calls + 1);
            scanners.read_ahead(Protocol::Binary, limits, &mut Vec::new());
        }
        assert_eq!(rows, lens.len(), "{usual} rows a call");
    }
}

#[test]
fn what_takes_long_is_not_read_ahead() {
    let table = table(&[10; 100]);
    let (mut scanners, id) = open(&table);
    for _ in 0..2 {
        next(&mut scanners, id, 5, usual_limits(), Protocol::Binary).unwrap();
    }
    scanners.read_ahead(Protocol::Binary, usual_limits(), &mut Vec::new());
    let ahead = scanners.ahead.as_mut().unwrap();
    ahead.took = Duration::from_secs(1);
    scanners.ahead_time = Duration::from_millis(900);
    // These were there, but took long.
    next(&mut scanners, id, 5, usual_limits(), Protocol::Binary).unwrap();
    scanners.read_ahead(Protocol::Binary, usual_limits(), &mut Vec::new());
    assert!(scanners.ahead.is_none());
}

#[test]
fn rows_too_long_for_one_answer_come_in_several() {
    // As many as fit, though more were wanted; without reading ahead, such a call is an error.
    let lens = [10, 10, 10, 10, 300, 900, 10, 10];
    let table = table(&lens);
    let limits = limits(1_000, 1_000);
    for wanted in [1, 2, 4] {
        let (mut scanners, id) = open(&table);
        for _ in 0..2 {
            next(&mut scanners, id, 2, limits, Protocol::Binary).unwrap();
        }
        scanners.asked = Some((id, 4));
        scanners.read_ahead(Protocol::Binary, limits, &mut Vec::new());
        assert_eq!(scanners.ahead.as_ref().unwrap().left(), 2);
        let counts: Vec<u8> = std::iter::from_fn(|| {
            let reply = next(&mut scanners, id, wanted, limits, Protocol::Binary).unwrap();
            Some(reply[11]).filter(|count| *count > 0)
        })
        .collect();
        assert_eq!(counts[..2], [1, 1], "{wanted} rows a call");
        assert_eq!(counts.iter().sum::<u8>(), 4);
    }
}

#[test]
fn what_is_far_is_not_read_ahead_and_the_lease_begins_anew() {
    let tables = Tables::open_in_memory(esker::Options::default()).unwrap();
    let families = [Family::new("f"), Family::new("far")];
    let far = tables.create("t", Schema::new().group("g", families)).unwrap();
    for row in 0..1_000 {
        let family = if row < 10 || [20, 999].contains(&row) { "far" } else { "f" };
        far.mutate(&RowMutation::new(format!("{row:05}")).put_at(family, b"q", 1, b"v")).unwrap();
    }
    let rows = Rows::new(far.scan(b"", b"", &Read::all().family_too("far")).unwrap());
    let mut scanners = Scanners::new(10, Duration::from_secs(3600), Numbers::default());
    scanners.ahead_time = Duration::MAX;
    let id = scanners.add(far.clone(), rows, 0).unwrap();
    for _ in 0..2 {
        next(&mut scanners, id, 5, usual_limits(), Protocol::Binary).unwrap();
    }
    let used = scanners.open[&id].used;
    scanners.read_ahead(Protocol::Binary, usual_limits(), &mut Vec::new());
    assert_eq!(scanners.ahead.as_ref().unwrap().left(), 1, "it has looked at all rows");
    assert!(scanners.open[&id].used > used);
    // The client gets what is there when it asks.
    let reply = next(&mut scanners, id, 5, usual_limits(), Protocol::Binary).unwrap();
    assert_eq!(reply[11], 2);
    assert_eq!(next(&mut scanners, id, 5, usual_limits(), Protocol::Binary).unwrap()[11], 0);
}

/// Programs hold a scanner's number in a field that is 0 when there is no scanner, and test whether it is positive.
#[test]
fn numbers_of_scanners_are_positive_and_not_given_twice() {
    let table = table(&[1]);
    let (mut scanners, first) = open(&table);
    assert_eq!(first, 1);
    assert!(!scanners.close(0));
    scanners.numbers.0.store(i32::MAX, Ordering::Relaxed);
    assert_eq!(add(&mut scanners, &table), i32::MAX);
    // 1 is still open.
    assert_eq!(add(&mut scanners, &table), 2);
    assert!(scanners.close(first));
    assert_eq!(add(&mut scanners, &table), 3);
    // A scanner of another connection has another number.
    let mut others = Scanners::new(10, Duration::from_secs(3600), scanners.numbers.clone());
    let of_others = add(&mut others, &table);
    assert_eq!(of_others, 4);
    assert!(!scanners.close(of_others));
    assert_eq!(add(&mut scanners, &table), 5);
}
