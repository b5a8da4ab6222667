//! The query cache: what it must not answer, and what it may hold.

use esker_table::{Family, Read, RowMutation, Schema, Tables};

fn tables() -> Tables {
    Tables::open_in_memory(esker::Options::default()).unwrap()
}

#[test]
fn a_dropped_table_is_not_answered() {
    let tables = tables();
    tables.set_query_cache(1 << 20);
    let table = tables.create("t", Schema::new().group("a", [Family::new("f")])).unwrap();
    table.mutate(&RowMutation::new("r").put("f", "q", "v")).unwrap();
    for _ in 0..3 {
        assert_eq!(table.get("r", &Read::all()).unwrap().len(), 1);
    }
    tables.drop_table("t").unwrap();
    let found = table.get("r", &Read::all());
    assert!(found.is_err());
}

#[test]
fn an_emptied_table_is_not_answered_from_before() {
    let tables = tables();
    tables.set_query_cache(1 << 20);
    let table = tables.create("t", Schema::new().group("a", [Family::new("f")])).unwrap();
    table.mutate(&RowMutation::new("r").put("f", "q", "v")).unwrap();
    for _ in 0..3 {
        assert_eq!(table.get("r", &Read::all()).unwrap().len(), 1);
    }
    tables.truncate("t").unwrap();
    assert!(table.get("r", &Read::all()).unwrap().is_empty());
    table.mutate(&RowMutation::new("r").put("f", "q", "new")).unwrap();
    assert_eq!(table.get("r", &Read::all()).unwrap()[0].value, b"new");
}

#[test]
fn what_is_read_while_the_cache_is_off_and_on_is_not_kept() {
    let tables = tables();
    tables.set_query_cache(1 << 20);
    let table = tables.create("t", Schema::new().group("a", [Family::new("f")])).unwrap();
    table.mutate(&RowMutation::new("r").put("f", "q", "old")).unwrap();
    let read = || table.scan("", "", &Read::all()).unwrap();
    let mut scan = read();
    while scan.advance().unwrap() {}
    let mut filling = read();
    assert!(filling.advance().unwrap());
    tables.set_query_cache(0);
    table.mutate(&RowMutation::new("r").put("f", "q", "new")).unwrap();
    tables.set_query_cache(1 << 20);
    assert!(!filling.advance().unwrap());
    let mut scan = read();
    assert!(scan.advance().unwrap());
    assert_eq!(scan.cell().unwrap().unwrap().value, b"new");
}

#[test]
fn long_rows_count_for_the_cache() {
    let tables = tables();
    let capacity = 1 << 20;
    tables.set_query_cache(capacity);
    let table = tables.create("t", Schema::new().group("a", [Family::new("f")])).unwrap();
    let len = 30_000;
    for number in 0..1000_u32 {
        let stop = [&number.to_be_bytes()[..], &vec![7; len]].concat();
        for _ in 0..2 {
            let mut scan = table.scan("", &stop, &Read::all()).unwrap();
            while scan.advance().unwrap() {}
        }
    }
    let stats = tables.query_cache_stats();
    assert!(
        stats.answers as usize * len * 2 <= 2 * capacity,
        "{} answers with ends of {len} bytes, twice",
        stats.answers
    );
}
