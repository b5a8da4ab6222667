//! Every method: what it does, and what it answers.

use crate::client::{Client, FORMS, Form, Reply, Value, text, texts};
use crate::serve;

pub(crate) const FORM: Form = FORMS[0];
pub(crate) const IO: i16 = 1;
pub(crate) const ARGUMENT: i16 = 2;
const EXISTS: i16 = 3;

fn family(name: &str) -> Value {
    Value::Struct(vec![(1, text(name))])
}

fn mutation(is_delete: bool, column: &str, value: &str) -> Value {
    Value::Struct(vec![
        (1, Value::Bool(is_delete)),
        (2, text(column)),
        (3, text(value)),
        (4, Value::Bool(true)),
    ])
}

pub(crate) fn put(column: &str, value: &str) -> Value {
    mutation(false, column, value)
}

fn delete(column: &str) -> Value {
    mutation(true, column, "")
}

fn no_attributes(id: i16) -> (i16, Value) {
    (id, Value::Map(Vec::new()))
}

/// The client of a new table `t` with the families `f` and `g`.
pub(crate) fn with_table(client: &mut Client) {
    let families = Value::List(vec![family("f:"), family("g")]);
    assert_eq!(client.call("createTable", &[(1, text("t")), (2, families)]), Ok(None));
}

pub(crate) fn put_row(client: &mut Client, row: &str, timestamp: i64, cells: &[(&str, &str)]) {
    let puts = Value::List(cells.iter().map(|(column, value)| put(column, value)).collect());
    let arguments = [(1, text("t")), (2, text(row)), (3, puts), (4, Value::I64(timestamp)), no_attributes(5)];
    assert_eq!(client.call("mutateRowTs", &arguments), Ok(None));
}

/// Cells as `value@timestamp`.
fn cell(fields: &[(i16, Value)]) -> String {
    match fields {
        [(1, Value::Bytes(value)), (2, Value::I64(timestamp))] => {
            format!("{}@{timestamp}", String::from_utf8_lossy(value))
        }
        other => panic!("a cell of {other:?}"),
    }
}

pub(crate) fn cells(reply: Reply) -> Vec<String> {
    let Ok(Some(Value::List(cells))) = reply else { panic!("cells of {reply:?}") };
    cells
        .iter()
        .map(|value| if let Value::Struct(fields) = value { cell(fields) } else { panic!("{value:?}") })
        .collect()
}

/// Rows as `row column=value@timestamp ...`; a list of cells that is sorted begins with `sorted`.
pub(crate) fn rows(reply: Reply) -> Vec<String> {
    let Ok(Some(Value::List(rows))) = reply else { panic!("rows of {reply:?}") };
    let bytes = |value: &Value| match value {
        Value::Bytes(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        other => panic!("bytes of {other:?}"),
    };
    let row = |value: &Value| match value {
        Value::Struct(fields) => match &fields[..] {
            [(1, row), (2, Value::Map(columns))] => {
                columns.iter().fold(bytes(row), |shown, (column, value)| {
                    let Value::Struct(fields) = value else { panic!("{value:?}") };
                    format!("{shown} {}={}", bytes(column), cell(fields))
                })
            }
            [(1, row), (3, Value::List(columns))] => {
                columns.iter().fold(format!("sorted {}", bytes(row)), |shown, column| {
                    let Value::Struct(fields) = column else { panic!("{column:?}") };
                    let [(1, name), (2, Value::Struct(fields))] = &fields[..] else { panic!("{fields:?}") };
                    format!("{shown} {}={}", bytes(name), cell(fields))
                })
            }
            other => panic!("a row of {other:?}"),
        },
        other => panic!("a row of {other:?}"),
    };
    rows.iter().map(row).collect()
}

pub(crate) fn thrown(reply: Reply, id: i16, part: &str) {
    let Err((thrown, message)) = reply else { panic!("{reply:?} in place of {part:?}") };
    assert!(thrown == id && message.contains(part), "{thrown} {message:?} in place of {id} {part:?}");
}

#[test]
fn tables_are_made_listed_disabled_and_dropped() {
    for form in FORMS {
        let serving = serve();
        let client = &mut Client::new(serving.address, form);
        let table = |name| [(1, text(name))];
        assert_eq!(client.call("getTableNames", &[]), Ok(Some(Value::List(vec![]))));
        assert_eq!(client.call("getTableNamesWithIsTableEnabled", &[]), Ok(Some(Value::Map(vec![]))));
        let families = Value::List(vec![
            family("f:"),
            Value::Struct(vec![(1, text("g")), (2, Value::I32(7)), (9, Value::I32(3600))]),
        ]);
        let create = [(1, text("t")), (2, families)];
        assert_eq!(client.call("createTable", &create), Ok(None));
        thrown(client.call("createTable", &create), EXISTS, "already in use");
        assert_eq!(client.call("getTableNames", &[]), Ok(Some(texts(["t"]))));

        let Ok(Some(Value::Map(described))) = client.call("getColumnDescriptors", &table("t")) else {
            panic!()
        };
        let described: Vec<_> = described
            .iter()
            .map(|(name, value)| match value {
                Value::Struct(fields) => (name.clone(), fields[1].clone(), fields[8].clone()),
                other => panic!("{other:?}"),
            })
            .collect();
        let expected = |name, versions, ttl| (text(name), (2, Value::I32(versions)), (9, Value::I32(ttl)));
        assert_eq!(described, [expected("f:", 3, i32::MAX), expected("g:", 7, 3600)]);

        let Ok(Some(Value::List(regions))) = client.call("getTableRegions", &table("t")) else { panic!() };
        let Ok(Some(region)) = client.call("getRegionInfo", &table("t,row,99999")) else { panic!() };
        assert_eq!(regions, [region]);
        assert_eq!(client.call("getTableRegions", &table("none")), Ok(Some(Value::List(vec![]))));
        thrown(client.call("getRegionInfo", &table("none,,")), IO, "no table");

        assert_eq!(client.call("isTableEnabled", &table("t")), Ok(Some(Value::Bool(true))));
        thrown(client.call("enableTable", &table("t")), IO, "is enabled");
        thrown(client.call("deleteTable", &table("t")), IO, "disable it first");
        assert_eq!(client.call("disableTable", &table("t")), Ok(None));
        thrown(client.call("disableTable", &table("t")), IO, "is disabled");
        assert_eq!(client.call("isTableEnabled", &table("t")), Ok(Some(Value::Bool(false))));
        let states = Value::Map(vec![(text("t"), Value::Bool(false))]);
        assert_eq!(client.call("getTableNamesWithIsTableEnabled", &[]), Ok(Some(states)));
        thrown(client.call("getRow", &[(1, text("t")), (2, text("r"))]), IO, "disabled");
        assert_eq!(client.call("enableTable", &table("t")), Ok(None));
        assert_eq!(client.call("compact", &table("t")), Ok(None));
        assert_eq!(client.call("majorCompact", &table("t,,1")), Ok(None));
        assert_eq!(client.call("disableTable", &table("t")), Ok(None));
        assert_eq!(client.call("deleteTable", &table("t")), Ok(None));
        for method in [
            "enableTable",
            "disableTable",
            "isTableEnabled",
            "compact",
            "getColumnDescriptors",
            "deleteTable",
        ] {
            thrown(client.call(method, &table("t")), IO, "no table");
        }
        assert_eq!(client.call("getThriftServerType", &[]), Ok(Some(Value::I32(1))));
        assert_eq!(client.call("getClusterId", &[]), Ok(Some(text("esker"))));
        thrown(client.call("grant", &[]), IO, "rights are not given");
        thrown(client.call("revoke", &[]), IO, "rights are not given");
    }
}

#[test]
fn tables_that_cannot_be_are_illegal_arguments() {
    let serving = serve();
    let client = &mut Client::new(serving.address, FORM);
    let of = |id, value| Value::List(vec![Value::Struct(vec![(1, text("f")), (id, value)])]);
    for (families, part) in [
        (of(2, Value::I32(0)), "versions"),
        (of(3, text("brown")), "compression"),
        (of(5, text("blue")), "Bloom"),
        (Value::List(vec![family(":")]), "empty"),
        (Value::List(vec![family("f"), family("f:")]), "f"),
    ] {
        thrown(client.call("createTable", &[(1, text("t")), (2, families)]), ARGUMENT, part);
    }
    thrown(client.call("createTable", &[(1, text("t")), (2, Value::List(vec![]))]), IO, "family");
    thrown(client.call("createTable", &[(1, text("a/b")), (2, of(1, text("f")))]), ARGUMENT, "a/b");
}

#[test]
fn reads_end_below_a_timestamp() {
    for form in FORMS {
        let serving = serve();
        let client = &mut Client::new(serving.address, form);
        with_table(client);
        for timestamp in 1..=5 {
            put_row(client, "r", timestamp, &[("f:a", &timestamp.to_string()), ("g:b", "b")]);
        }
        let column = |column| vec![(1, text("t")), (2, text("r")), (3, text(column))];
        let with = |mut arguments: Vec<(i16, Value)>, more: &[(i16, Value)]| {
            arguments.extend_from_slice(more);
            arguments
        };
        assert_eq!(cells(client.call("get", &column("f:a"))), ["5@5"]);
        assert_eq!(cells(client.call("get", &column("f"))), ["5@5"]);
        assert_eq!(cells(client.call("get", &column("f:"))), [""; 0]);
        let versions = |count| [(4, Value::I32(count))];
        assert_eq!(cells(client.call("getVer", &with(column("f:a"), &versions(2)))), ["5@5", "4@4"]);
        let all = with(column("f:a"), &versions(i32::MAX));
        assert_eq!(cells(client.call("getVer", &all)), ["5@5", "4@4", "3@3"]);
        thrown(client.call("getVer", &with(column("f:a"), &versions(0))), IO, "positive");
        let before = |timestamp| [(4, Value::I64(timestamp)), (5, Value::I32(9))];
        assert_eq!(cells(client.call("getVerTs", &with(column("f:a"), &before(5)))), ["4@4", "3@3"]);
        assert_eq!(cells(client.call("getVerTs", &with(column("f:a"), &before(0)))), [""; 0]);
        thrown(client.call("getVerTs", &with(column("f:a"), &before(-1))), IO, "negative");

        let row = [(1, text("t")), (2, text("r"))];
        let rows_of = [(1, text("t")), (2, texts(["r", "none", "r"]))];
        assert_eq!(rows(client.call("getRow", &row)), ["r f:a=5@5 g:b=b@5"]);
        assert_eq!(
            rows(client.call("getRowTs", &with(row.to_vec(), &[(3, Value::I64(4))]))),
            ["r f:a=3@3 g:b=b@3"]
        );
        let of_g = (3, texts(["g"]));
        let below = (4, Value::I64(5));
        assert_eq!(
            rows(client.call("getRowWithColumns", &with(row.to_vec(), std::slice::from_ref(&of_g)))),
            ["r g:b=b@5"]
        );
        let arguments = with(row.to_vec(), &[of_g.clone(), below.clone()]);
        assert_eq!(rows(client.call("getRowWithColumnsTs", &arguments)), ["r g:b=b@4"]);
        assert_eq!(rows(client.call("getRows", &rows_of)), ["r f:a=5@5 g:b=b@5"; 2]);
        let arguments = with(rows_of.to_vec(), &[(3, Value::I64(4))]);
        assert_eq!(rows(client.call("getRowsTs", &arguments)), ["r f:a=3@3 g:b=b@3"; 2]);
        let arguments = with(rows_of.to_vec(), std::slice::from_ref(&of_g));
        assert_eq!(rows(client.call("getRowsWithColumns", &arguments)), ["r g:b=b@5"; 2]);
        let arguments = with(rows_of.to_vec(), &[of_g, below]);
        assert_eq!(rows(client.call("getRowsWithColumnsTs", &arguments)), ["r g:b=b@4"; 2]);

        assert_eq!(rows(client.call("getRow", &[(1, text("t")), (2, text("none"))])), [""; 0]);
        thrown(client.call("getRow", &[(1, text("t"))]), IO, "1 to 32767 bytes");
        thrown(client.call("getRow", &[(1, text("none")), (2, text("r"))]), IO, "no table");
        thrown(client.call("get", &column("x:y")), IO, "no column family");
    }
}

#[test]
fn puts_and_deletes_of_a_call_have_an_order() {
    for form in FORMS {
        let serving = serve();
        let client = &mut Client::new(serving.address, form);
        with_table(client);
        let row = [(1, text("t")), (2, text("r"))];
        let both = Value::List(vec![put("f:a", "1"), delete("f:a"), put("f:b", "2")]);
        let batch = |mutations: &Value| {
            Value::List(vec![Value::Struct(vec![(1, text("r")), (2, mutations.clone())])])
        };
        // Of one row: deletes, then puts. Of several: puts, then deletes.
        let arguments = [row[0].clone(), row[1].clone(), (3, both.clone()), (4, Value::I64(5))];
        assert_eq!(client.call("mutateRowTs", &arguments), Ok(None));
        assert_eq!(rows(client.call("getRow", &row)), ["r f:a=1@5 f:b=2@5"]);
        let arguments = [row[0].clone(), (2, batch(&both)), (3, Value::I64(6))];
        assert_eq!(client.call("mutateRowsTs", &arguments), Ok(None));
        assert_eq!(rows(client.call("getRow", &row)), ["r f:b=2@6"]);
        let deletes = Value::List(vec![delete("f")]);
        assert_eq!(client.call("mutateRow", &[row[0].clone(), row[1].clone(), (3, deletes)]), Ok(None));
        assert_eq!(rows(client.call("getRow", &row)), [""; 0]);
        let puts = Value::List(vec![put("g:", "now")]);
        assert_eq!(client.call("mutateRows", &[row[0].clone(), (2, batch(&puts))]), Ok(None));
        let shown = rows(client.call("getRow", &row));
        assert!(shown.len() == 1 && shown[0].starts_with("r g:=now@1"), "{shown:?}");

        // Nothing of a call that cannot be done as a whole.
        let wrong = Value::List(vec![put("f:c", "3"), put("f", "4")]);
        let arguments = [row[0].clone(), (2, batch(&wrong))];
        thrown(client.call("mutateRows", &arguments), ARGUMENT, "no qualifier");
        let wrong = Value::List(vec![put("f:c", "3"), put("x:c", "4")]);
        thrown(
            client.call("mutateRow", &[row[0].clone(), row[1].clone(), (3, wrong)]),
            IO,
            "no column family",
        );
        let negative = [row[0].clone(), row[1].clone(), (3, both), (4, Value::I64(-1))];
        thrown(client.call("mutateRowTs", &negative), ARGUMENT, "timestamp");
        assert_eq!(rows(client.call("getRow", &row)), shown);
    }
}

#[test]
fn deletes_reach_up_to_their_timestamp() {
    let serving = serve();
    let client = &mut Client::new(serving.address, FORM);
    with_table(client);
    let versions = |client: &mut Client, column: &str| {
        cells(client.call("getVer", &[(1, text("t")), (2, text("r")), (3, text(column)), (4, Value::I32(9))]))
    };
    let of = |column| [(1, text("t")), (2, text("r")), (3, text(column)), (4, Value::I64(2))];
    for timestamp in 1..=3 {
        put_row(client, "r", timestamp, &[("f:a", "a"), ("f:b", "b"), ("g:c", "c")]);
    }
    assert_eq!(client.call("deleteAllTs", &of("f:a")), Ok(None));
    assert_eq!(versions(client, "f:a"), ["a@3"]);
    assert_eq!(versions(client, "f:b"), ["b@3", "b@2", "b@1"]);
    assert_eq!(client.call("deleteAllTs", &of("f")), Ok(None));
    assert_eq!(versions(client, "f:b"), ["b@3"]);
    assert_eq!(
        client.call("deleteAllRowTs", &[(1, text("t")), (2, text("r")), (3, Value::I64(1))]),
        Ok(None)
    );
    assert_eq!(versions(client, "g:c"), ["c@3", "c@2"]);
    assert_eq!(client.call("deleteAll", &of("f:a")[..3]), Ok(None));
    assert_eq!(versions(client, "f:a"), [""; 0]);
    assert_eq!(client.call("deleteAllRow", &[(1, text("t")), (2, text("r"))]), Ok(None));
    assert_eq!(rows(client.call("getRow", &[(1, text("t")), (2, text("r"))])), [""; 0]);
}

#[test]
fn counters_appends_and_checks() {
    for form in FORMS {
        let serving = serve();
        let client = &mut Client::new(serving.address, form);
        with_table(client);
        let cell = [(1, text("t")), (2, text("r")), (3, text("f:n"))];
        let by = |amount| [cell[0].clone(), cell[1].clone(), cell[2].clone(), (4, Value::I64(amount))];
        assert_eq!(client.call("atomicIncrement", &by(5)), Ok(Some(Value::I64(5))));
        let increment = Value::Struct(by(10).to_vec());
        assert_eq!(client.call("increment", &[(1, increment.clone())]), Ok(None));
        assert_eq!(client.call("incrementRows", &[(1, Value::List(vec![increment; 2]))]), Ok(None));
        assert_eq!(client.call("atomicIncrement", &by(-1)), Ok(Some(Value::I64(34))));
        thrown(client.call("increment", &[]), IO, "lacks");

        let append = |columns, values| {
            [(1, Value::Struct(vec![(1, text("t")), (2, text("r")), (3, columns), (4, values)]))]
        };
        let appended = cells(client.call("append", &append(texts(["f:a", "g:b"]), texts(["x", "y"]))));
        assert!(
            appended.len() == 2 && appended[0].starts_with("x@1") && appended[1].starts_with("y@1"),
            "{appended:?}"
        );
        assert!(cells(client.call("append", &append(texts(["f:a"]), texts(["z"]))))[0].starts_with("xz@1"));
        // In the order of the row.
        let appended = cells(client.call("append", &append(texts(["g:b", "f:a"]), texts(["2", "1"]))));
        assert!(appended[0].starts_with("xz1@") && appended[1].starts_with("y2@"), "{appended:?}");
        thrown(client.call("append", &append(texts([]), texts([]))), IO, "no columns");
        thrown(
            client.call("append", &append(texts(["f:a"]), texts(["z", "z"]))),
            IO,
            "1 columns and 2 values",
        );
        put_row(client, "r", 1, &[("f:text", "text")]);
        let of_text = [cell[0].clone(), cell[1].clone(), (3, text("f:text")), (4, Value::I64(1))];
        thrown(client.call("atomicIncrement", &of_text), IO, "number");
        assert!(client.call("atomicIncrement", &by(i64::MAX - 34)).is_ok());
        thrown(client.call("atomicIncrement", &by(1)), IO, "64 bits");
        let mut nowhere = by(1);
        nowhere[1] = (2, text(""));
        thrown(client.call("atomicIncrement", &nowhere), ARGUMENT, "1 to 32767 bytes");

        let check = |value: Option<&str>, put| {
            let mut arguments = vec![(1, text("t")), (2, text("c")), (3, text("f:lock"))];
            arguments.extend(value.map(|value| (5, text(value))));
            arguments.push((6, put));
            arguments
        };
        let lock = |value| put("f:lock", value);
        assert_eq!(
            client.call("checkAndPut", &check(Some("ada"), lock("bob"))),
            Ok(Some(Value::Bool(false)))
        );
        assert_eq!(client.call("checkAndPut", &check(None, lock("ada"))), Ok(Some(Value::Bool(true))));
        assert_eq!(client.call("checkAndPut", &check(None, lock("bob"))), Ok(Some(Value::Bool(false))));
        assert_eq!(client.call("checkAndPut", &check(Some("ada"), lock("bob"))), Ok(Some(Value::Bool(true))));
        // No value, an empty value, no cell and a cell without bytes are the same.
        assert_eq!(client.call("checkAndPut", &check(Some(""), lock("eve"))), Ok(Some(Value::Bool(false))));
        assert_eq!(client.call("checkAndPut", &check(Some("bob"), lock(""))), Ok(Some(Value::Bool(true))));
        assert_eq!(client.call("checkAndPut", &check(Some(""), lock("eve"))), Ok(Some(Value::Bool(true))));
        assert_eq!(client.call("deleteAllRow", &[(1, text("t")), (2, text("c"))]), Ok(None));
        assert_eq!(client.call("checkAndPut", &check(Some(""), lock(""))), Ok(Some(Value::Bool(true))));
        assert_eq!(client.call("checkAndPut", &check(None, lock("bob"))), Ok(Some(Value::Bool(true))));
        let mut nowhere = check(Some("ada"), lock("bob"));
        nowhere[1] = (2, text(""));
        thrown(client.call("checkAndPut", &nowhere), ARGUMENT, "1 to 32767 bytes");
        thrown(client.call("checkAndPut", &check(None, put("f", "x"))), ARGUMENT, "no qualifier");
        thrown(client.call("checkAndPut", &check(Some("bob"), put("x:", "x"))), IO, "no column family");
    }
}

/// All rows of the scanner that the call has opened, two at a time.
fn scanned(client: &mut Client, opened: &Reply) -> Vec<String> {
    let Ok(Some(Value::I32(id))) = *opened else { panic!("a scanner of {opened:?}") };
    let mut all = Vec::new();
    loop {
        let some = rows(client.call("scannerGetList", &[(1, Value::I32(id)), (2, Value::I32(2))]));
        if some.is_empty() {
            assert_eq!(client.call("scannerClose", &[(1, Value::I32(id))]), Ok(None));
            thrown(client.call("scannerClose", &[(1, Value::I32(id))]), ARGUMENT, "scanner ID is invalid");
            return all;
        }
        all.extend(some);
    }
}

#[test]
fn scanners_read_from_a_row_up_to_another() {
    for form in FORMS {
        let serving = serve();
        let client = &mut Client::new(serving.address, form);
        with_table(client);
        for row in ["a1", "a2", "b1", "b2"] {
            put_row(client, row, 1, &[("f:x", row), ("g:y", "y")]);
            put_row(client, row, 2, &[("g:y", "z")]);
        }
        let table = (1, text("t"));
        let start = (2, text("a2"));
        let stop = (3, text("b2"));
        let below = |id| (id, Value::I64(2));
        let open = client.call("scannerOpen", &[table.clone(), start.clone(), (3, texts(["f"]))]);
        assert_eq!(scanned(client, &open), ["a2 f:x=a2@1", "b1 f:x=b1@1", "b2 f:x=b2@1"]);
        let open =
            client.call("scannerOpenTs", &[table.clone(), start.clone(), (3, texts(["g:y"])), below(4)]);
        assert_eq!(scanned(client, &open), ["a2 g:y=y@1", "b1 g:y=y@1", "b2 g:y=y@1"]);
        let open = client.call("scannerOpenWithStop", &[table.clone(), start.clone(), stop.clone()]);
        assert_eq!(scanned(client, &open), ["a2 f:x=a2@1 g:y=z@2", "b1 f:x=b1@1 g:y=z@2"]);
        let with_stop = [table.clone(), start, stop, (4, texts(["g"])), below(5)];
        let open = client.call("scannerOpenWithStopTs", &with_stop);
        assert_eq!(scanned(client, &open), ["a2 g:y=y@1", "b1 g:y=y@1"]);
        // From a row to itself is that row, as in HBase; from one to an earlier one is nothing.
        for (from, to, expected) in [("b1", "b1", "b1 f:x=b1@1"), ("b", "b", ""), ("b1", "a1", "")] {
            let span = [table.clone(), (2, text(from)), (3, text(to)), (4, texts(["f"])), below(5)];
            for (method, arguments) in
                [("scannerOpenWithStop", &span[..4]), ("scannerOpenWithStopTs", &span[..])]
            {
                let open = client.call(method, arguments);
                assert_eq!(scanned(client, &open).concat(), expected, "{method} {from} {to}");
            }
        }
        let open = client.call("scannerOpenWithPrefix", &[table.clone(), (2, text("a")), (3, texts(["f"]))]);
        assert_eq!(scanned(client, &open), ["a1 f:x=a1@1", "a2 f:x=a2@1"]);

        let with = |client: &mut Client, scan: &[(i16, Value)]| {
            let open =
                client.call("scannerOpenWithScan", &[table.clone(), (2, Value::Struct(scan.to_vec()))]);
            scanned(client, &open)
        };
        let of_f = (4, texts(["f"]));
        assert_eq!(with(client, &[(3, Value::I64(1))]), [""; 0]);
        let backward = [(1, text("b1")), (2, text("a1")), of_f.clone(), (9, Value::Bool(true))];
        assert_eq!(with(client, &backward), ["b1 f:x=b1@1", "a2 f:x=a2@1"]);
        let filtered = [(6, text("PrefixFilter('b') AND QualifierFilter(=, 'binary:y')"))];
        assert_eq!(with(client, &filtered), ["b1 g:y=z@2", "b2 g:y=z@2"]);
        let one = |row| [(1, text(row)), (2, text(row)), of_f.clone()];
        assert_eq!(with(client, &one("a2")), ["a2 f:x=a2@1"]);
        let backward = (9, Value::Bool(true));
        assert_eq!(with(client, &[&one("a2")[..], &[backward]].concat()), ["a2 f:x=a2@1"]);
        assert_eq!(with(client, &one("a")), [""; 0]);
        assert_eq!(with(client, &one("")).len(), 4);
        let sorted = [(1, text("b2")), (8, Value::Bool(true))];
        assert_eq!(with(client, &sorted), ["sorted b2 f:x=b2@1 g:y=z@2"]);
        let in_parts = [(1, text("b2")), (7, Value::I32(1))];
        assert_eq!(with(client, &in_parts), ["b2 f:x=b2@1", "b2 g:y=z@2"]);

        let wrong = Value::Struct(vec![(6, text("PrefixFilter("))]);
        thrown(client.call("scannerOpenWithScan", &[table.clone(), (2, wrong)]), IO, "filter");
        thrown(client.call("scannerOpen", &[table.clone(), (3, texts(["x"]))]), IO, "no column family");
        thrown(client.call("scannerOpen", &[(1, text("none"))]), IO, "no table");

        let Ok(Some(id)) = client.call("scannerOpen", &[table, of_f]) else { panic!() };
        let Ok(got) = client.call("scannerGet", &[(1, id.clone())]) else { panic!() };
        assert_eq!(rows(Ok(got)).len(), 1);
        thrown(client.call("scannerGetList", &[(1, id.clone()), (2, Value::I32(-1))]), ARGUMENT, "negative");
        let other = &mut Client::new(serving.address, form);
        thrown(other.call("scannerGet", &[(1, id)]), ARGUMENT, "scanner ID is invalid");
    }
}
