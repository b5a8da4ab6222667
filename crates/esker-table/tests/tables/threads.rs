//! Threads that change and read the same rows.

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU8, Ordering};

use esker_table::{Check, Comparison, Family, Read, RowMutation, Schema, Span, Tables};

const ROWS: usize = 8;

/// Each mutation writes one value to all families of two rows, or deletes both rows. So whoever finds two different values,
/// or a value in one place and none in another, has seen a part of a mutation.
#[test]
fn readers_see_mutations_whole() {
    let tables = Tables::open_in_memory(esker::Options::default().memtable_bytes(64 << 10)).unwrap();
    let schema = Schema::new()
        .group("a", [Family::new("f").max_versions(1), Family::new("g").max_versions(2)])
        .group("b", [Family::new("h").max_versions(1)]);
    let table = tables.create("t", schema).unwrap();
    let is_over = AtomicBool::new(false);
    let row = |pair: usize, half: &str| format!("{half}{pair}");
    std::thread::scope(|scope| {
        for writer in 0..2_u64 {
            let (table, is_over) = (&table, &is_over);
            scope.spawn(move || {
                for number in 0..3000_u64 {
                    let pair = (number as usize * 7 + writer as usize) % ROWS;
                    let value = format!("{writer}.{number}");
                    let rows = ["a", "b"].map(|half| {
                        let mutation = RowMutation::new(row(pair, half));
                        if number % 5 == 4 {
                            mutation.delete_row_up_to(7)
                        } else {
                            ["f", "g", "h"].iter().fold(mutation, |mutation, family| {
                                mutation.put_at(family, "q", 7, value.clone())
                            })
                        }
                    });
                    table.mutate_rows(&rows).unwrap();
                }
                is_over.store(true, Ordering::Relaxed);
            });
        }
        scope.spawn(|| {
            let mut splits = ["b2", "a1", "a3", "b", "a7"].into_iter();
            while !is_over.load(Ordering::Relaxed) {
                tables.db().compact().unwrap();
                if let Some(row) = splits.next() {
                    table.split(row).unwrap();
                }
            }
        });
        for _ in 0..2 {
            scope.spawn(|| {
                let mut found = 0;
                while !is_over.load(Ordering::Relaxed) {
                    let mut values = vec![Vec::new(); ROWS];
                    let mut scan = table.scan("", "", &Read::all()).unwrap();
                    while scan.advance().unwrap() {
                        let pair = usize::from(scan.row()[1] - b'0');
                        values[pair].push(scan.cell().unwrap().unwrap().value);
                    }
                    for values in values {
                        let is_whole = values.is_empty()
                            || values.len() == 6 && values.iter().all(|value| *value == values[0]);
                        assert!(is_whole, "{values:?}");
                        found += values.len();
                    }
                }
                assert!(found > 0);
            });
        }
    });
}

/// Rows are read and written, and the table is split at each of them meanwhile.
#[test]
fn splits_hide_no_row_from_reads_and_writes() {
    let tables = Tables::open_in_memory(esker::Options::default().memtable_bytes(64 << 10)).unwrap();
    let family = |name: &str| Family::new(name).max_versions(1);
    let schema = Schema::new().group("a", [family("f")]).group("b", [family("g").index_qualifiers(true)]);
    let table = tables.create("t", schema).unwrap();
    let put = |row: u8, number: i64| {
        let mutation = RowMutation::new([row]).put_at("f", "q", 7, number.to_be_bytes());
        table.mutate(&mutation.put_at("g", "q", 7, number.to_be_bytes())).unwrap();
    };
    (0..100).for_each(|row| put(row, 0));
    let is_over = AtomicBool::new(false);
    let rows_of = |mut scan: esker_table::Scan| {
        let (mut rows, mut before) = (Vec::new(), None);
        while scan.advance().unwrap() {
            let (row, value) = (scan.row()[0], scan.cell().unwrap().unwrap().value);
            // Both cells of a row are written by one mutation.
            if let Some((_, other)) = before.take_if(|(other, _)| *other == row) {
                assert_eq!(value, other);
            }
            before = Some((row, value));
            rows.push(row);
        }
        rows
    };
    // The row at which the table is split now.
    let next = AtomicU8::new(0);
    let twice: Vec<u8> = (0..100).flat_map(|row| [row, row]).collect();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for number in 0..100_usize {
                let row = (number * 37 % 100) as u8;
                next.store(row, Ordering::Relaxed);
                table.split([row]).unwrap();
            }
            is_over.store(true, Ordering::Relaxed);
        });
        scope.spawn(|| {
            for number in 0.. {
                put((number % 100) as u8, number);
                table.increment([(number % 7) as u8], "f", "n", 1).unwrap();
                table.mutate(&RowMutation::new([(number % 7) as u8]).delete_version("f", "n", 7)).unwrap();
                table.mutate(&RowMutation::new([(number % 7) as u8]).delete_column("f", "n")).unwrap();
                if is_over.load(Ordering::Relaxed) {
                    break;
                }
            }
        });
        // Many, so that some of them do not run from before a split to behind it, when they have just begun to read.
        for _ in 0..6 {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    let row = next.load(Ordering::Relaxed).clamp(1, 96);
                    let scan = table.scan([row - 1], [row + 3], &Read::column("f", "q")).unwrap();
                    assert_eq!(rows_of(scan), (row - 1..row + 3).collect::<Vec<_>>());
                }
            });
        }
        for _ in 0..2 {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    let read = Read::column("f", "q").column_too("g", "q");
                    assert_eq!(rows_of(table.scan("", "", &read).unwrap()), twice);
                    let mut backward = rows_of(table.scan_reversed("", "", &read).unwrap());
                    backward.reverse();
                    assert_eq!(backward, twice);
                    assert_eq!(rows_of(table.scan("", "", &Read::column("g", "q")).unwrap()).len(), 100);
                    for row in [0, 50, 99] {
                        assert_eq!(table.get([row], &read).unwrap().len(), 2);
                    }
                }
            });
        }
    });
    assert_eq!(table.split_rows().len(), 100);
}

/// Each thread counts up two counters of one row in one mutation, one of them by a check of what it has read. Without the locks
/// of rows, some of the sums would be lost.
#[test]
fn no_increment_and_no_checked_change_is_lost() {
    const THREADS: i64 = 4;
    const EACH: i64 = 2000;
    let tables = Tables::open_in_memory(esker::Options::default().memtable_bytes(64 << 10)).unwrap();
    let table = tables.create("t", Schema::new().group("a", [Family::new("n").max_versions(1)])).unwrap();
    let number = |qualifier: &str| {
        let cells = table.get("r", &Read::column("n", qualifier)).unwrap();
        cells.first().map_or(0, |cell| i64::from_be_bytes(cell.value.as_slice().try_into().unwrap()))
    };
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                for _ in 0..EACH {
                    table.increment("r", "n", "counted", 1).unwrap();
                    loop {
                        let seen = number("checked");
                        let check = match seen {
                            0 => Check::absent("n", "checked"),
                            _ => Check::value("n", "checked", Comparison::Equal, seen.to_be_bytes()),
                        };
                        let next = RowMutation::new("r").put_at("n", "checked", 1, (seen + 1).to_be_bytes());
                        if table.check_and_mutate(&[check], &next).unwrap() {
                            break;
                        }
                    }
                }
            });
        }
        scope.spawn(|| {
            for change in 0..20 {
                tables.rename(&table.name(), ["t", "u"][change % 2]).unwrap_or_default();
                table.compact().unwrap();
                table.split([b'r', change as u8]).unwrap();
            }
        });
    });
    assert_eq!((number("counted"), number("checked")), (THREADS * EACH, THREADS * EACH));
}

/// Readers find at least what was acknowledged before they asked, and never less than another reader has found; also in what
/// the query cache answers.
#[test]
fn the_query_cache_has_no_answer_that_is_older_than_another() {
    const WRITES: i64 = 4000;
    const QUERY_ROWS: usize = 4;
    let tables = Tables::open_in_memory(esker::Options::default().memtable_bytes(64 << 10)).unwrap();
    tables.set_query_cache(1 << 20);
    let table = tables.create("t", Schema::new().group("a", [Family::new("n").max_versions(1)])).unwrap();
    let rows: Vec<String> = (0..QUERY_ROWS).map(|row| format!("row {row}")).collect();
    // What was acknowledged, and what somebody has found, of each row.
    let known: Vec<AtomicI64> = rows.iter().map(|_| AtomicI64::new(0)).collect();
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for (row, known) in rows.iter().zip(&known) {
            let (table, is_over) = (&table, &is_over);
            scope.spawn(move || {
                for number in 1..=WRITES {
                    let mutation = RowMutation::new(row.as_str()).put("n", "q", number.to_be_bytes());
                    table.mutate(&mutation).unwrap();
                    known.fetch_max(number, Ordering::SeqCst);
                    // Others must have a chance to repeat a read before the next write.
                    if number % 4 == 0 {
                        std::thread::yield_now();
                    }
                }
                is_over.store(true, Ordering::Relaxed);
            });
        }
        for reader in 0..3 {
            let (table, is_over, known, rows) = (&table, &is_over, &known, &rows);
            scope.spawn(move || {
                let reads = [Read::all(), Read::family("n"), Read::all().keys_only()];
                let mut turn = reader;
                while !is_over.load(Ordering::Relaxed) {
                    turn += 1;
                    let first = turn % QUERY_ROWS;
                    let before: Vec<i64> = known.iter().map(|known| known.load(Ordering::SeqCst)).collect();
                    let spans = if turn % 3 == 0 { Span::all() } else { Span::rows(rows[first].as_str()..) };
                    let mut scan = table.scan_spans([spans], &reads[turn % 2]).unwrap();
                    while scan.advance().unwrap() {
                        let row = rows.iter().position(|row| row.as_bytes() == scan.row()).unwrap();
                        let value = scan.cell().unwrap().unwrap().value;
                        let number = i64::from_be_bytes(value.as_slice().try_into().unwrap());
                        assert!(number >= before[row], "{number} is older than {}, of {row}", before[row]);
                        known[row].fetch_max(number, Ordering::SeqCst);
                    }
                }
            });
        }
    });
    let stats = tables.query_cache_stats();
    println!("{stats:?}");
    assert!(stats.hits > 0 && stats.refused > 0, "{stats:?}");
}
