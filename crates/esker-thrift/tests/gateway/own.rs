//! Esker's own methods.

use esker_table::{CellBatch, Check, Comparison, Family, PutCell, Read, Schema, Tables};
use esker_thrift::{
    Asked, CallError, Client as OwnClient, Condition, Config, Mutation, RowMutations, Thrown,
};

use crate::client::{Client, FORMS, OWN, Value, text, texts};
use crate::{randomness, serve, serve_tables};

const FAILED_MAX: usize = 1100;

fn record(fields: &[(i16, Value)]) -> Value {
    Value::Struct(fields.to_vec())
}

fn list(elements: &[Value]) -> Value {
    Value::List(elements.to_vec())
}

/// Kinds of an `EskerError`.
const INVALID: i16 = OWN + 2;
const NO_TABLE: i16 = OWN + 4;
const TABLE_EXISTS: i16 = OWN + 5;
const NO_FAMILY: i16 = OWN + 6;
const NO_NAMESPACE: i16 = OWN + 7;
const NAMESPACE_EXISTS: i16 = OWN + 8;
const NAMESPACE_IN_USE: i16 = OWN + 9;
const DISABLED: i16 = OWN + 10;
const SCHEMA_CHANGED: i16 = OWN + 11;

const SCHEMA: &str = "<Schema><AccessGroup name=\"g\"><ColumnFamily name=\"f\" index=\"true\"/>\
     <ColumnFamily name=\"n\" counter=\"true\"/></AccessGroup></Schema>";

#[track_caller]
fn fails(client: &mut Client, method: &str, arguments: &[(i16, Value)], kind: i16, part: &str) {
    let reply = client.call(method, arguments);
    let is_so = matches!(&reply, Err((found, message)) if *found == kind && message.contains(part) && message.len() < FAILED_MAX);
    assert!(is_so, "{method}: {}", &format!("{reply:?}").chars().take(2000).collect::<String>());
}

fn values(client: &mut Client, row: &str) -> Vec<(String, String)> {
    let Ok(Some(Value::List(rows))) = client.call("getRow", &[(1, text("s:t")), (2, text(row))]) else {
        panic!()
    };
    let Some(Value::Struct(fields)) = rows.first() else { return Vec::new() };
    let Some((2, Value::Map(cells))) = fields.last() else { panic!("{fields:?}") };
    let shown = |value: &Value| match value {
        Value::Bytes(bytes) => bytes.escape_ascii().to_string(),
        other => panic!("{other:?}"),
    };
    let cells = cells.iter().map(|(column, cell)| match cell {
        Value::Struct(fields) => (shown(column), shown(&fields[0].1)),
        other => panic!("{other:?}"),
    });
    cells.collect()
}

#[test]
fn each_method_does_what_it_says_in_each_form() {
    for form in FORMS {
        let serving = serve();
        let client = &mut Client::new(serving.address, form);
        assert_eq!(client.call("eskerVersion", &[]), Ok(Some(text(env!("CARGO_PKG_VERSION")))));
        assert_eq!(client.call("eskerCreateNamespace", &[(1, text("s"))]), Ok(None));
        fails(client, "eskerCreateNamespace", &[(1, text("s"))], NAMESPACE_EXISTS, "namespace \"s\" already");
        assert_eq!(client.call("eskerNamespaces", &[]), Ok(Some(texts(["default", "s"]))));

        let table = (1, text("s:t"));
        assert_eq!(client.call("eskerCreateTable", &[table.clone(), (2, text(SCHEMA))]), Ok(None));
        fails(
            client,
            "eskerCreateTable",
            &[table.clone(), (2, text(SCHEMA))],
            TABLE_EXISTS,
            "\"s:t\" already",
        );
        fails(client, "eskerDropNamespace", &[(1, text("s"))], NAMESPACE_IN_USE, "has tables");
        let Ok(Some(Value::Bytes(schema))) = client.call("eskerSchema", std::slice::from_ref(&table)) else {
            panic!()
        };
        let schema = String::from_utf8(schema).unwrap();
        assert!(schema.contains("version=\"1\"") && schema.contains("counter=\"true\""), "{schema}");

        // All at once, in their order; a put after a delete stays. Fields that nobody knows say nothing.
        let put = |qualifier: &str, value: &str, timestamp: i64| {
            record(&[(2, text("f")), (3, text(qualifier)), (4, text(value)), (5, Value::I64(timestamp))])
        };
        let delete_row = record(&[(1, Value::I32(1)), (77, list(&[record(&[(3, Value::Bool(true))])]))]);
        let row = |row: &str, mutations: &[Value]| record(&[(1, text(row)), (2, list(mutations))]);
        let rows = list(&[
            row("a", &[put("old", "0", 5), delete_row, put("x", "1", 5), put("y", "2", 6)]),
            row("b", &[put("x", "3", 7)]),
        ]);
        assert_eq!(client.call("eskerMutateRows", &[table.clone(), (2, rows)]), Ok(None));
        let pair = |column: &str, value: &str| (column.to_owned(), value.to_owned());
        assert_eq!(values(client, "a"), [pair("f:x", "1"), pair("f:y", "2")]);
        assert_eq!(values(client, "b"), [pair("f:x", "3")]);

        let condition = |kind: i32, qualifier: &str, value: Option<&str>| {
            let value = value.map(|value| (4, text(value)));
            let fields = [(1, Value::I32(kind)), (2, text("f")), (3, text(qualifier))];
            record(&fields.into_iter().chain(value).collect::<Vec<_>>())
        };
        let conditions = list(&[
            condition(0, "z", None),
            condition(1, "x", None),
            condition(2, "x", Some("1")),
            condition(3, "x", Some("2")),
            condition(4, "x", Some("2")),
            condition(5, "x", Some("1")),
            condition(6, "x", Some("0")),
            condition(7, "x", Some("1")),
        ]);
        let delete = record(&[(1, Value::I32(4)), (2, text("f")), (3, text("x")), (5, Value::I64(5))]);
        let arguments =
            [table.clone(), (2, text("a")), (3, conditions), (4, list(&[delete, put("z", "4", 1)]))];
        for is_done in [true, false] {
            assert_eq!(client.call("eskerCheckAndMutate", &arguments), Ok(Some(Value::Bool(is_done))));
            assert_eq!(values(client, "a"), [pair("f:y", "2"), pair("f:z", "4")]);
        }

        let renamed = schema.replace("name=\"f\"", "name=\"h\"");
        assert_eq!(client.call("eskerAlterTable", &[table.clone(), (2, text(&renamed))]), Ok(None));
        assert_eq!(values(client, "b"), [pair("h:x", "3")]);
        fails(
            client,
            "eskerAlterTable",
            &[table.clone(), (2, text(&renamed))],
            SCHEMA_CHANGED,
            "its version is 2, not 1",
        );
        assert_eq!(client.call("eskerRebuildIndexes", std::slice::from_ref(&table)), Ok(None));
        assert_eq!(client.call("eskerRenameTable", &[table.clone(), (2, text("u"))]), Ok(None));
        assert_eq!(client.call("getTableNames", &[]), Ok(Some(texts(["u"]))));
        assert_eq!(client.call("eskerDropNamespace", &[(1, text("s"))]), Ok(None));
        fails(client, "eskerDropNamespace", &[(1, text("s"))], NO_NAMESPACE, "no namespace");
        // HBase's methods and these are on one connection.
        assert_eq!(client.call("disableTable", &[(1, text("u"))]), Ok(None));
        let put = row("a", &[record(&[(2, text("h"))])]);
        fails(client, "eskerMutateRows", &[(1, text("u")), (2, list(&[put]))], DISABLED, "disabled");
    }
}

#[test]
fn what_cannot_be_is_refused_and_nothing_of_it_is_done() {
    let serving = serve();
    let client = &mut Client::new(serving.address, FORMS[2]);
    client.call("eskerCreateNamespace", &[(1, text("s"))]).unwrap();
    client.call("eskerCreateTable", &[(1, text("s:t")), (2, text(SCHEMA))]).unwrap();
    for (method, more) in [
        ("eskerSchema", None),
        ("eskerAlterTable", Some(text(SCHEMA))),
        ("eskerRenameTable", Some(text("v"))),
        ("eskerRebuildIndexes", None),
        ("eskerDropTable", None),
        ("eskerTruncateTable", None),
        ("eskerMutateRows", None),
        ("eskerCheckAndMutate", None),
    ] {
        let arguments: Vec<_> = [(1, text("none"))].into_iter().chain(more.map(|more| (2, more))).collect();
        fails(client, method, &arguments, NO_TABLE, "there is no table \"none\"");
        let arguments = [&[(1, text(".none"))], &arguments[1..]].concat();
        fails(client, method, &arguments, INVALID, "the name of a table");
    }
    fails(client, "eskerRenameTable", &[(1, text("s:t")), (2, text("no:t"))], NO_NAMESPACE, "\"no\"");
    fails(client, "eskerRenameTable", &[(1, text("s:t")), (2, text("s:t"))], TABLE_EXISTS, "\"s:t\"");
    fails(client, "eskerCreateTable", &[(1, text("no:t")), (2, text(SCHEMA))], NO_NAMESPACE, "\"no\"");
    fails(client, "eskerCreateNamespace", &[], INVALID, "1 to 200 bytes");
    fails(client, "eskerDropNamespace", &[(1, text("default"))], INVALID, "cannot be dropped");
    for name in ["a:b", ".a", "\u{0}", &"n".repeat(70_000)] {
        fails(client, "eskerCreateNamespace", &[(1, text(name))], INVALID, "the name of a namespace");
        let reply = client.call("eskerDropNamespace", &[(1, text(name))]);
        assert!(matches!(&reply, Err((_, message)) if message.len() < FAILED_MAX), "{reply:?}");
    }
    let bytes = Value::Bytes(vec![0xff; 100_000]);
    for method in
        ["eskerSchema", "eskerAlterTable", "eskerCreateNamespace", "eskerRebuildIndexes", "eskerMutateRows"]
    {
        let reply = client.call(method, &[(1, bytes.clone())]);
        assert!(
            matches!(&reply, Err((NO_TABLE | INVALID, message)) if message.len() < FAILED_MAX),
            "{reply:?}"
        );
    }

    // One mutation that cannot be spoils all.
    let good = record(&[(2, text("f")), (3, text("q")), (4, text("v"))]);
    let kind = |kind: i32, more: &[(i16, Value)]| record(&[&[(1, Value::I32(kind))], more].concat());
    let (family, qualifier, value) = ((2, text("f")), (3, text("q")), (4, text("v")));
    for (bad, error, part) in [
        (kind(7, &[]), INVALID, "no kind 7"),
        (kind(5, &[family.clone(), value.clone()]), INVALID, "has no value"),
        (kind(5, &[family.clone(), (5, Value::I64(7))]), INVALID, "has no timestamp"),
        (kind(6, &[family.clone(), (5, Value::I64(7))]), INVALID, "has no timestamp"),
        (kind(6, &[family.clone(), (6, Value::I64(7))]), INVALID, "has no number"),
        (kind(6, &[]), INVALID, "names no family"),
        (kind(i32::MIN, &[]), INVALID, "no kind -2147483648"),
        (kind(0, &[]), INVALID, "names no family"),
        (kind(1, std::slice::from_ref(&family)), INVALID, "has no family"),
        (kind(2, &[family.clone(), qualifier.clone()]), INVALID, "has no qualifier"),
        (kind(2, &[]), INVALID, "names no family"),
        (kind(3, &[family.clone(), value.clone()]), INVALID, "has no value"),
        (kind(4, &[family.clone(), qualifier.clone()]), INVALID, "needs its timestamp"),
        (kind(0, &[(2, bytes.clone())]), INVALID, "is not UTF-8"),
        (kind(0, &[(2, text("none"))]), NO_FAMILY, "no column family \"none\""),
        (kind(0, &[(2, text("n")), value.clone()]), INVALID, "8 bytes"),
        (kind(0, &[family.clone(), (5, Value::I64(-1))]), INVALID, "a timestamp is"),
        (kind(0, &[family.clone(), (5, Value::I64(i64::MAX))]), INVALID, "a timestamp is"),
    ] {
        let rows = [std::slice::from_ref(&good), std::slice::from_ref(&bad)]
            .map(|changes| record(&[(1, text("r")), (2, list(changes))]));
        fails(client, "eskerMutateRows", &[(1, text("s:t")), (2, list(&rows))], error, part);
        let arguments = [(1, text("s:t")), (2, text("r")), (4, list(&[good.clone(), bad]))];
        fails(client, "eskerCheckAndMutate", &arguments, error, part);
    }
    for reads in [5, 6] {
        let both = list(&[good.clone(), kind(reads, &[family.clone(), qualifier.clone()])]);
        let arguments = [(1, text("s:t")), (2, text("r")), (4, both)];
        fails(
            client,
            "eskerCheckAndMutate",
            &arguments,
            INVALID,
            "an earlier step of the same mutation has touched",
        );
    }
    for row in ["", &"r".repeat(32_768)] {
        let rows = list(&[record(&[(1, text(row)), (2, list(std::slice::from_ref(&good)))])]);
        fails(
            client,
            "eskerMutateRows",
            &[(1, text("s:t")), (2, rows)],
            INVALID,
            "a row has 1 to 32767 bytes",
        );
    }
    let asked = |conditions: &[Value]| {
        [(1, text("s:t")), (2, text("r")), (3, list(conditions)), (4, list(std::slice::from_ref(&good)))]
    };
    for (bad, error, part) in [
        (kind(8, std::slice::from_ref(&family)), INVALID, "no kind 8"),
        (kind(0, &[family.clone(), value.clone()]), INVALID, "has a value"),
        (kind(2, std::slice::from_ref(&family)), INVALID, "has none"),
        (kind(0, &[(2, bytes)]), INVALID, "is not UTF-8"),
        (kind(0, &[(2, text("none"))]), NO_FAMILY, "no column family \"none\""),
    ] {
        fails(client, "eskerCheckAndMutate", &asked(&[bad]), error, part);
    }
    let absent = kind(0, &[family, qualifier]);
    fails(
        client,
        "eskerCheckAndMutate",
        &asked(&vec![absent.clone(); 1001]),
        INVALID,
        "1000 conditions at most",
    );
    assert_eq!(values(client, "r"), []);
    assert_eq!(client.call("eskerCheckAndMutate", &asked(&vec![absent; 1000])), Ok(Some(Value::Bool(true))));
    assert_eq!(values(client, "r"), [("f:q".to_owned(), "v".to_owned())]);
    // Without mutations, it asks.
    assert_eq!(client.call("eskerCheckAndMutate", &asked(&[])[..3]), Ok(Some(Value::Bool(true))));
}

#[test]
fn schemas_of_any_content_are_refused_with_a_short_message() {
    let serving = serve();
    let client = &mut Client::new(serving.address, FORMS[3]);
    client.call("eskerCreateTable", &[(1, text("t")), (2, text(SCHEMA))]).unwrap();
    let Ok(Some(before)) = client.call("eskerSchema", &[(1, text("t"))]) else { panic!() };
    let long = "x".repeat(1 << 20);
    let entities = (0..20).map(|place| format!("<!ENTITY a{place} \"&a{};&a{};\">", place + 1, place + 1));
    let entities = entities.collect::<String>();
    let family = "<ColumnFamily name=\"f\"/>";
    let mut schemas: Vec<Vec<u8>> = [
        String::new(),
        "\0".to_owned(),
        "<".repeat(100_000),
        "<Schema>".repeat(100_000),
        "<Schema/>".to_owned(),
        format!("<Schema>{}", "<AccessGroup name=\"g\">".repeat(100_000)),
        format!("<!DOCTYPE a [{entities}]><Schema><AccessGroup name=\"&a0;\">{family}</AccessGroup></Schema>"),
        format!("<Schema><AccessGroup name=\"{long}\">{family}</AccessGroup></Schema>"),
        format!("<{long}/>"),
        format!("<Schema {long}=\"1\"/>"),
        format!("<Schema table=\"{long}\"/>"),
        format!("<Schema>{long}</Schema>"),
        format!("<Schema><AccessGroup name=\"g\"><ColumnFamily name=\"f\" maxVersions=\"{long}\"/></AccessGroup></Schema>"),
        format!("<Schema><AccessGroup name=\"g\">{}</AccessGroup></Schema>", family.repeat(2)),
        SCHEMA.replace("<Schema>", "<Schema table=\"99\" version=\"1\">"),
        format!("{SCHEMA}{}", " ".repeat(17 << 20)),
    ]
    .map(String::into_bytes)
    .to_vec();
    schemas.push(vec![0xff; 1000]);
    for schema in schemas {
        let schema = Value::Bytes(schema);
        fails(client, "eskerAlterTable", &[(1, text("t")), (2, schema.clone())], INVALID, "");
        let reply = client.call("eskerCreateTable", &[(1, text("new")), (2, schema)]);
        match reply {
            // Numbers of another table do not count for a new one.
            Ok(None) => {
                client.call("disableTable", &[(1, text("new"))]).unwrap();
                client.call("deleteTable", &[(1, text("new"))]).unwrap();
            }
            reply => {
                assert!(matches!(&reply, Err((INVALID, message)) if message.len() < FAILED_MAX), "{reply:?}");
            }
        }
    }
    assert_eq!(client.call("eskerSchema", &[(1, text("t"))]), Ok(Some(before)));
    // A client that has changed nothing changes nothing, and a schema without a version is given whatever the table has.
    assert_eq!(client.call("eskerAlterTable", &[(1, text("t")), (2, text(SCHEMA))]), Ok(None));
}

#[test]
fn increments_and_appends_are_changes_too() {
    let tables = Tables::open_in_memory(esker::Options::default()).unwrap();
    let serving = serve_tables(tables.clone(), &Config::default());
    let mut client = OwnClient::connect("127.0.0.1", serving.address.port()).unwrap();
    client.create_table_of("t", SCHEMA).unwrap();
    let table = tables.table("t").unwrap();
    let column = || ("f".to_owned(), b"q".to_vec());
    let changes = |row: &str, by: i64, value: &str| {
        let ((family, qualifier), value) = (column(), value.as_bytes().to_vec());
        let append = Mutation::Append { family, qualifier, value };
        let increment = Mutation::Increment { family: "n".to_owned(), qualifier: b"q".to_vec(), by };
        RowMutations { row: row.as_bytes().to_vec(), mutations: vec![append, increment] }
    };
    let has = |row: &str| -> (Vec<u8>, i64) {
        let value = |family| table.get(row, &Read::family(family)).unwrap().remove(0).value;
        (value("f"), i64::from_be_bytes(value("n").try_into().unwrap()))
    };
    client.change_rows("t", &[changes("r", 5, "a"), changes("s", i64::MIN, "")]).unwrap();
    assert_eq!((has("r"), has("s")), ((b"a".to_vec(), 5), (Vec::new(), i64::MIN)));
    let is_a = |value: &str| {
        let ((family, qualifier), value) = (column(), value.as_bytes().to_vec());
        [Condition { family, qualifier, asked: Asked::Value(Comparison::Equal, value) }]
    };
    assert!(!client.check_and_change("t", &is_a("b"), &changes("r", 1, "b")).unwrap());
    assert!(client.check_and_change("t", &is_a("a"), &changes("r", -7, "b")).unwrap());
    assert_eq!(has("r"), (b"ab".to_vec(), -2));
    // All or nothing: the sum of one row has too many bits; a row is there twice.
    assert!(client.change_rows("t", &[changes("r", 1, "c"), changes("s", -1, "c")]).is_err());
    assert!(client.change_rows("t", &[changes("r", 1, "c"), changes("r", 1, "c")]).is_err());
    assert_eq!((has("r"), has("s")), ((b"ab".to_vec(), -2), (Vec::new(), i64::MIN)));
}

/// What this crate's client sends does to a table what the same changes do to it in this process.
#[test]
fn random_changes_do_what_they_do_in_this_process() {
    let mut random = randomness(11);
    let tables = Tables::open_in_memory(esker::Options::default()).unwrap();
    let serving = serve_tables(tables.clone(), &Config::default());
    let mut client = OwnClient::connect("127.0.0.1", serving.address.port()).unwrap();
    let schema = "<Schema><AccessGroup name=\"g\"><ColumnFamily name=\"f\" maxVersions=\"all\"/></AccessGroup>\
        <AccessGroup name=\"h\"><ColumnFamily name=\"g\" maxVersions=\"2\"/></AccessGroup></Schema>";
    client.create_table_of("there", schema).unwrap();
    let here = tables.create("here", Schema::from_xml(schema).unwrap()).unwrap();
    let there = tables.table("there").unwrap();
    let mut done = 0;
    for round in 0..1500 {
        let family = |random: &mut dyn FnMut(usize) -> usize| ["f", "g"][random(2)].to_owned();
        let bytes = |random: &mut dyn FnMut(usize) -> usize| vec![random(3) as u8; random(3)];
        let row = vec![random(5) as u8; 1 + random(2)];
        let (mut mutations, mut mutation) = (Vec::new(), esker_table::RowMutation::new(&row[..]));
        for _ in 0..random(5) {
            let (family, qualifier, timestamp) = (family(&mut random), bytes(&mut random), random(8) as i64);
            let up_to = Some(timestamp);
            // What happens at the time of the write is the same, but the times are not.
            match random(12) {
                0 => {
                    mutations.push(Mutation::DeleteRow { up_to });
                    mutation = mutation.delete_row_up_to(timestamp);
                }
                1 => {
                    mutation = mutation.delete_family_up_to(&family, timestamp);
                    mutations.push(Mutation::DeleteFamily { family, up_to });
                }
                2 => {
                    mutation = mutation.delete_column_up_to(&family, &qualifier[..], timestamp);
                    mutations.push(Mutation::DeleteColumn { family, qualifier, up_to });
                }
                3 => {
                    mutation = mutation.delete_version(&family, &qualifier[..], timestamp);
                    mutations.push(Mutation::DeleteVersion { family, qualifier, timestamp });
                }
                4 if round % 20 == 0 => {
                    mutations.push(Mutation::DeleteRow { up_to: None });
                    mutation = mutation.delete_row();
                }
                5 if round % 10 == 0 => {
                    mutation = mutation.delete_family(&family);
                    mutations.push(Mutation::DeleteFamily { family, up_to: None });
                }
                6 if round % 5 == 0 => {
                    mutation = mutation.delete_column(&family, &qualifier[..]);
                    mutations.push(Mutation::DeleteColumn { family, qualifier, up_to: None });
                }
                _ => {
                    let value = bytes(&mut random);
                    mutation = mutation.put_at(&family, &qualifier[..], timestamp, &value[..]);
                    mutations.push(Mutation::Put { family, qualifier, value, timestamp: up_to });
                }
            }
        }
        let changes = RowMutations { row: row.clone(), mutations };
        if random(2) == 0 {
            here.mutate(&mutation).unwrap();
            client.change_rows("there", &[changes]).unwrap();
        } else {
            let (mut checks, mut conditions) = (Vec::new(), Vec::new());
            for _ in 0..random(3) {
                let (family, qualifier, value) =
                    (family(&mut random), bytes(&mut random), bytes(&mut random));
                use Comparison::{Equal, Greater, GreaterOrEqual, Less, LessOrEqual, NotEqual};
                let compared = [Equal, NotEqual, Less, LessOrEqual, Greater, GreaterOrEqual];
                let (check, asked) = match random(8) {
                    0 => (Check::absent(&family, &qualifier[..]), Asked::Absent),
                    1 => (Check::present(&family, &qualifier[..]), Asked::Present),
                    other => {
                        let comparison = compared[other - 2];
                        let check = Check::value(&family, &qualifier[..], comparison, &value[..]);
                        (check, Asked::Value(comparison, value))
                    }
                };
                checks.push(check);
                conditions.push(Condition { family, qualifier, asked });
            }
            let expected = here.check_and_mutate(&checks, &mutation).unwrap();
            assert_eq!(client.check_and_change("there", &conditions, &changes).unwrap(), expected);
            done += usize::from(expected);
        }
        let read = Read::all().versions(u32::MAX);
        assert_eq!(there.get(&row, &read).unwrap(), here.get(&row, &read).unwrap(), "round {round}");
    }
    assert!(done > 100 && done < 700, "{done} checks have held");
}

#[test]
fn a_scanner_shows_versions_times_and_deletes_in_each_form() {
    for form in FORMS {
        let serving = serve();
        let client = &mut Client::new(serving.address, form);
        let schema = "<Schema><AccessGroup name=\"g\"><ColumnFamily name=\"f\" maxVersions=\"all\"/></AccessGroup></Schema>";
        client.call("eskerCreateTable", &[(1, text("t")), (2, text(schema))]).unwrap();
        let put = |qualifier: &str, timestamp: i64| {
            let value = text(&format!("{qualifier}{timestamp}"));
            record(&[(2, text("f")), (3, text(qualifier)), (4, value), (5, Value::I64(timestamp))])
        };
        let time = |timestamp: i64| (5, Value::I64(timestamp));
        let deletes = [
            record(&[(1, Value::I32(1)), time(1)]),
            record(&[(1, Value::I32(2)), (2, text("f")), time(2)]),
            record(&[(1, Value::I32(3)), (2, text("f")), (3, text("x")), time(3)]),
            record(&[(1, Value::I32(4)), (2, text("f")), (3, text("y")), time(7)]),
        ];
        let puts = [put("x", 4), put("x", 5), put("x", 6), put("y", 7), put("y", 8)];
        let rows = list(&[
            record(&[(1, text("r")), (2, list(&[&puts[..], &deletes].concat()))]),
            record(&[(1, text("s")), (2, list(&[put("x", 5)]))]),
        ]);
        assert_eq!(client.call("eskerMutateRows", &[(1, text("t")), (2, rows)]), Ok(None));

        let cell = |column: &str, value: &str, timestamp: i64, delete: Option<i32>| {
            let cell = record(&[(1, text(value)), (2, Value::I64(timestamp))]);
            let delete = delete.map(|kind| (3, Value::I32(kind)));
            record(&[(1, text(column)), (2, cell)].into_iter().chain(delete).collect::<Vec<_>>())
        };
        let result = |row: &str, cells: &[Value]| record(&[(1, text(row)), (3, list(cells))]);
        let mut scan = |more: &[(i16, Value)], wanted: i32| {
            let id = client.call("eskerScannerOpen", &[(1, text("t")), (2, record(more))]).unwrap().unwrap();
            let mut results = Vec::new();
            while let Some(Value::List(found)) =
                client.call("eskerScannerGet", &[(1, id.clone()), (2, Value::I32(wanted))]).unwrap()
                && !found.is_empty()
            {
                results.extend(found);
            }
            assert_eq!(client.call("eskerScannerClose", &[(1, id.clone())]), Ok(None));
            fails(client, "eskerScannerClose", &[(1, id.clone())], INVALID, "scanner ID is invalid");
            fails(
                client,
                "eskerScannerGet",
                &[(1, id), (2, Value::I32(1))],
                INVALID,
                "scanner ID is invalid",
            );
            results
        };
        let x = |timestamp: i64| cell("f:x", &format!("x{timestamp}"), timestamp, None);
        let y = cell("f:y", "y8", 8, None);
        let latest = [result("r", &[x(6), y.clone()]), result("s", &[x(5)])];
        assert_eq!(scan(&[], 10), latest);
        assert_eq!(scan(&[(8, Value::Bool(true))], 1), [latest[1].clone(), latest[0].clone()]);
        let all = (9, Value::I32(i32::MAX));
        let of_r = [
            cell(":", "", 1, Some(1)),
            cell("f:", "", 2, Some(2)),
            cell("f:x", "", 3, Some(3)),
            x(6),
            x(5),
            x(4),
            cell("f:y", "", 7, Some(4)),
            y.clone(),
        ];
        let with_deletes = [all.clone(), (10, Value::Bool(true))];
        assert_eq!(scan(&with_deletes, 1), [result("r", &of_r), result("s", &[x(5)])]);
        let in_parts = [&[(7, Value::I32(3))], &with_deletes[..]].concat();
        let parts = [&of_r[..3], &of_r[3..6], &of_r[6..]].map(|cells| result("r", cells));
        assert_eq!(scan(&in_parts, 2), [&parts[..], &[result("s", &[x(5)])]].concat());
        let times = [(3, Value::I64(5)), (4, Value::I64(8)), all];
        assert_eq!(scan(&times, 9), [result("r", &[x(6), x(5)]), result("s", &[x(5)])]);
        let one = [(1, text("r")), (2, text("s")), (5, texts(["f:y"]))];
        assert_eq!(scan(&one, 9), [result("r", &[y])]);
        let filtered = [(6, text("ValueFilter(=, 'binary:x5')")), (9, Value::I32(1))];
        assert_eq!(scan(&filtered, 9), [result("r", &[x(5)]), result("s", &[x(5)])]);

        let opened = |more: (i16, Value)| [(1, text("t")), (2, record(&[more]))];
        for (more, part) in [
            ((9, Value::I32(0)), "a version at least"),
            ((9, Value::I32(-1)), "a version at least"),
            ((3, Value::I64(-1)), "is not negative"),
            ((4, Value::I64(-1)), "is not negative"),
        ] {
            fails(client, "eskerScannerOpen", &opened(more), INVALID, part);
        }
        fails(client, "eskerScannerOpen", &opened((5, texts(["g"]))), NO_FAMILY, "\"g\"");
        fails(client, "eskerScannerOpen", &opened((6, text("None("))), INVALID, "filter, at byte");
        fails(client, "eskerScannerOpen", &[(1, text("t"))], INVALID, "lacks its argument");
        fails(client, "eskerScannerOpen", &[(1, text("u")), (2, record(&[]))], NO_TABLE, "\"u\"");
        fails(client, "eskerScannerGet", &[(2, Value::I32(-1))], INVALID, "negative");
        // Times that end before they begin have no cells.
        let none = [(1, text("t")), (2, record(&[(3, Value::I64(9)), (4, Value::I64(3))]))];
        let id = client.call("eskerScannerOpen", &none).unwrap().unwrap();
        assert_eq!(
            client.call("scannerGetList", &[(1, id.clone()), (2, Value::I32(1))]),
            Ok(Some(list(&[])))
        );
        assert_eq!(client.call("scannerClose", &[(1, id)]), Ok(None));
    }
}

/// Cells that this crate's client puts are those of the batch, of few families and of many.
#[test]
fn random_cells_are_put_as_in_this_process() {
    let mut random = randomness(12);
    let tables = Tables::open_in_memory(esker::Options::default()).unwrap();
    let serving = serve_tables(tables.clone(), &Config::default());
    let mut client = OwnClient::connect("127.0.0.1", serving.address.port()).unwrap();
    let families: Vec<String> = (0..20).map(|number| format!("f{number}")).collect();
    let all = families.iter().map(|name| Family::new(name).max_versions(None));
    let schema = Schema::new().group("g", all);
    client.create_table_of("there", &schema.to_xml().unwrap()).unwrap();
    let here = tables.create("here", schema).unwrap();
    let there = tables.table("there").unwrap();
    for round in 0..200 {
        let of_families = [1, 3, 16, 20][random(4)];
        let mut batch = CellBatch::new();
        for _ in 0..random(60) {
            let (row, part) = ([b'a' + random(4) as u8], [random(3) as u8; 2]);
            batch.push(PutCell {
                row: &row,
                family: &families[random(of_families)],
                qualifier: &part[..random(3)],
                timestamp: Some(random(4) as i64),
                value: &[random(256) as u8],
            });
        }
        here.put_cells(&batch).unwrap();
        client.put_cells("there", &batch).unwrap();
        let read = Read::all().versions(u32::MAX);
        for row in *b"abcd" {
            assert_eq!(there.get([row], &read).unwrap(), here.get([row], &read).unwrap(), "round {round}");
        }
    }
    // One that cannot be put spoils all.
    let before = here.get("a", &Read::all()).unwrap();
    let mut batch = CellBatch::new();
    for (row, family) in [(&b"a"[..], "f1"), (b"a", "none")] {
        batch.push(PutCell { row, family, qualifier: b"new", timestamp: None, value: b"" });
    }
    let error = client.put_cells("there", &batch).unwrap_err();
    assert!(matches!(&error, CallError::Thrown { kind: Thrown::NoFamily, .. }), "{error:?}");
    assert_eq!(there.get("a", &Read::all()).unwrap(), before);
}

/// A message of a few MiB makes a server take as many bytes for each access group: what would become too much is refused before.
#[test]
fn deletes_of_rows_take_no_more_memory_than_they_may() {
    let serving = serve();
    let client = &mut Client::new(serving.address, FORMS[0]);
    let group = |number: i32| {
        format!("<AccessGroup name=\"g{number}\"><ColumnFamily name=\"f{number}\"/></AccessGroup>")
    };
    let schema = format!("<Schema>{}</Schema>", (0..21).map(group).collect::<String>());
    client.call("eskerCreateTable", &[(1, text("t")), (2, text(&schema))]).unwrap();
    let delete = || record(&[(1, Value::I32(1))]);
    let rows = |count: usize| {
        let row = |number: usize| record(&[(1, text(&format!("{number:0>32767}"))), (2, list(&[delete()]))]);
        (2, list(&(0..count).map(row).collect::<Vec<_>>()))
    };
    fails(client, "eskerMutateRows", &[(1, text("t")), rows(103)], INVALID, "delete fewer rows in one call");
    let of_one_row = list(&(0..40_000).map(|_| delete()).collect::<Vec<_>>());
    let check = [(1, text("t")), (2, text("r")), (4, of_one_row)];
    fails(client, "eskerCheckAndMutate", &check, INVALID, "delete fewer rows in one call");
    assert_eq!(client.call("eskerMutateRows", &[(1, text("t")), rows(3)]), Ok(None));
}
