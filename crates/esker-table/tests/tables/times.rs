//! Puts without a timestamp, each of which is a version of its own.

use esker_table::{
    CellBatch, Check, Comparison, Error, Family, PUTS_OF_A_COLUMN_MAX, PutCell, Read, RowMutation, Schema,
    Table, Tables,
};

use crate::now_ms;

fn tables(family: Family, schema: impl FnOnce(Schema) -> Schema) -> (Tables, Table) {
    let tables = Tables::open_in_memory(esker::Options::default()).unwrap();
    let plain = tables.create("t", schema(Schema::new().group("g", [family]))).unwrap();
    (tables, plain)
}

fn batch(puts: impl IntoIterator<Item = (&'static str, String)>) -> CellBatch {
    let mut cells = CellBatch::new();
    for (qualifier, value) in puts {
        let (qualifier, value) = (qualifier.as_bytes(), value.as_bytes());
        cells.push(PutCell { row: b"r", family: "f", qualifier, timestamp: None, value });
    }
    cells
}

/// The values of a column, the latest first, after a look at their times.
fn versions(table: &Table, qualifier: &str) -> Vec<String> {
    let cells = table.get("r", &Read::column("f", qualifier).versions(u32::MAX)).unwrap();
    assert!(cells.is_sorted_by(|one, other| one.timestamp > other.timestamp), "{cells:?}");
    assert!(
        cells.first().is_none_or(|cell| cell.timestamp <= now_ms()),
        "a time is ahead of the clock: {cells:?}"
    );
    cells.into_iter().map(|cell| String::from_utf8(cell.value).unwrap()).collect()
}

fn falling(numbers: std::ops::Range<usize>) -> Vec<String> {
    numbers.rev().map(|number| number.to_string()).collect()
}

#[test]
fn each_put_is_a_version_of_its_own() {
    for has_index in [false, true] {
        let family = Family::new("f").max_versions(None);
        let (_tables, plain) =
            tables(if has_index { family.index_values(true) } else { family }, |schema| schema);
        let table = plain.distinct_times();
        // In one call, among other columns, and in several.
        let puts = (0..40).map(|number| (["a", "b"][number % 2], (number / 2).to_string()));
        table.put_cells(&batch(puts)).unwrap();
        table.put_cells(&batch([("a", "20".to_owned())])).unwrap();
        table.put_cells(&batch([("a", "21".to_owned())])).unwrap();
        let more = RowMutation::new("r").put("f", "a", "22").put("f", "b", "20").put("f", "a", "23");
        table.mutate(&more).unwrap();
        let mut writer = table.writer("f").unwrap();
        writer.add(b"24").unwrap();
        table.mutate(&RowMutation::new("r").put_stored("f", "a", writer.finish().unwrap())).unwrap();
        assert_eq!(versions(&table, "a"), falling(0..25), "an index: {has_index}");
        assert_eq!(versions(&table, "b"), falling(0..21));
        // Of another handle, the last one of a call counts.
        plain.put_cells(&batch(["x", "y"].map(|value| ("c", value.to_owned())))).unwrap();
        assert_eq!(versions(&table, "c"), ["y"]);
    }
}

/// What follows in the same millisecond, if it is another client's, takes effect.
#[test]
fn no_later_write_or_delete_is_hidden() {
    let (_tables, plain) = tables(Family::new("f").max_versions(None), |schema| schema);
    let table = plain.distinct_times();
    for round in 0..20 {
        table.put_cells(&batch((0..5).map(|number| ("a", number.to_string())))).unwrap();
        plain.put_cells(&batch([("a", "other".to_owned())])).unwrap();
        assert_eq!(versions(&plain, "a")[0], "other", "round {round}");
        plain.mutate(&RowMutation::new("r").delete_column("f", "a")).unwrap();
        assert_eq!(versions(&plain, "a"), [""; 0], "round {round}");
        // A delete within the mutation removes what was put before it.
        let mutation = RowMutation::new("r")
            .put("f", "a", "1")
            .put("f", "a", "2")
            .delete_column("f", "a")
            .put("f", "a", "3");
        table.mutate(&mutation).unwrap();
        assert_eq!(versions(&plain, "a"), ["3"], "round {round}");
        // A call that also reads is followed by a later time.
        let check = Check::value("f", "a", Comparison::Equal, "3");
        assert!(table.check_and_mutate(&[check], &RowMutation::new("r").put("f", "a", "4")).unwrap());
        table.put_cells(&batch([("a", "5".to_owned())])).unwrap();
        assert_eq!(versions(&plain, "a"), ["5", "4", "3"], "round {round}");
        plain.mutate(&RowMutation::new("r").delete_row()).unwrap();
    }
}

#[test]
fn threads_get_times_of_their_own() {
    const PUTS: usize = 60;
    let (_tables, plain) = tables(Family::new("f").max_versions(None), |schema| schema);
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let table = plain.distinct_times();
            scope.spawn(move || {
                for number in 0..PUTS / 3 {
                    let value = |part: usize| ("a", format!("{thread}.{}", number * 3 + part));
                    table.put_cells(&batch([value(0), value(1)])).unwrap();
                    table.put_cells(&batch([value(2)])).unwrap();
                }
            });
        }
    });
    let found = versions(&plain, "a");
    assert_eq!(found.len(), 4 * PUTS);
    for thread in 0..4 {
        let prefix = format!("{thread}.");
        let of_thread = found.iter().filter_map(|value| value.strip_prefix(&prefix));
        assert_eq!(of_thread.collect::<Vec<_>>(), falling(0..PUTS), "thread {thread}");
    }
}

/// A family that keeps few versions has the last ones, as if all had been written.
#[test]
fn only_versions_that_are_kept_need_times() {
    let (_tables, plain) = tables(Family::new("f").max_versions(3), |schema| schema);
    let table = plain.distinct_times();
    let many = 5 * PUTS_OF_A_COLUMN_MAX;
    let start = now_ms();
    table.put_cells(&batch((0..many).map(|number| ("a", number.to_string())))).unwrap();
    assert_eq!(versions(&table, "a"), falling(many - 3..many));
    let cells = table.get("r", &Read::column("f", "a").versions(u32::MAX)).unwrap();
    assert!(cells[2].timestamp >= start && cells[0].timestamp - cells[2].timestamp == 2, "{cells:?}");

    let (_tables, plain) = tables(Family::new("f").max_versions(None), |schema| schema);
    let table = plain.distinct_times();
    let refused = table.put_cells(&batch((0..many).map(|number| ("a", number.to_string()))));
    let message = match refused {
        Err(Error::Invalid(message)) => message,
        other => panic!("{other:?}"),
    };
    assert!(message.starts_with("more than 1000 cells of the row \"r\" and the column \"f:a\""), "{message}");
    assert_eq!(versions(&table, "a"), [""; 0]);
}
