//! What clients are told whose calls cannot be done: those that ask for what is not kept, and those of another interface.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};

use esker_thrift::Config;

use crate::calls::{ARGUMENT, FORM, IO, cells, put, put_row, rows, thrown, with_table};
use crate::client::{Client, FORMS, Value, message, text, texts};
use crate::{serve, serve_with};

/// A call without its attributes, and their number among its arguments.
type Attributed = (&'static str, Vec<(i16, Value)>, i16);

fn cell() -> Vec<(i16, Value)> {
    vec![(1, text("t")), (2, text("r")), (3, text("f:a"))]
}

fn rows_of(more: &[(i16, Value)]) -> Vec<(i16, Value)> {
    [&[(1, text("t")), (2, texts(["r"]))], more].concat()
}

fn row_of(more: &[(i16, Value)]) -> Vec<(i16, Value)> {
    [&[(1, text("t")), (2, text("r"))], more].concat()
}

/// All methods that read and have attributes.
fn reads() -> Vec<Attributed> {
    let columns = |id| (id, texts(["f:a"]));
    let time = |id| (id, Value::I64(9));
    let count = |id| (id, Value::I32(1));
    vec![
        ("get", cell(), 4),
        ("getVer", [cell(), vec![count(4)]].concat(), 5),
        ("getVerTs", [cell(), vec![time(4), count(5)]].concat(), 6),
        ("getRow", row_of(&[]), 3),
        ("getRowWithColumns", row_of(&[columns(3)]), 4),
        ("getRowTs", row_of(&[time(3)]), 4),
        ("getRowWithColumnsTs", row_of(&[columns(3), time(4)]), 5),
        ("getRows", rows_of(&[]), 3),
        ("getRowsWithColumns", rows_of(&[columns(3)]), 4),
        ("getRowsTs", rows_of(&[time(3)]), 4),
        ("getRowsWithColumnsTs", rows_of(&[columns(3), time(4)]), 5),
        ("scannerOpenWithScan", vec![(1, text("t")), (2, Value::Struct(vec![]))], 3),
        ("scannerOpen", row_of(&[columns(3)]), 4),
        ("scannerOpenWithStop", row_of(&[(3, text("s")), columns(4)]), 5),
        ("scannerOpenWithPrefix", row_of(&[columns(3)]), 4),
        ("scannerOpenTs", row_of(&[columns(3), time(4)]), 5),
        ("scannerOpenWithStopTs", row_of(&[(3, text("s")), columns(4), time(5)]), 6),
    ]
}

/// All methods that write and have attributes, and the exception that refuses one.
fn writes() -> Vec<(Attributed, i16)> {
    let puts = Value::List(vec![put("f:b", "1")]);
    let batch = Value::List(vec![Value::Struct(vec![(1, text("r")), (2, puts.clone())])]);
    let time = |id| (id, Value::I64(9));
    vec![
        (("mutateRow", row_of(&[(3, puts.clone())]), 4), ARGUMENT),
        (("mutateRowTs", row_of(&[(3, puts.clone()), time(4)]), 5), ARGUMENT),
        (("mutateRows", vec![(1, text("t")), (2, batch.clone())], 3), ARGUMENT),
        (("mutateRowsTs", vec![(1, text("t")), (2, batch), time(3)], 4), ARGUMENT),
        (("deleteAll", cell(), 4), IO),
        (("deleteAllTs", [cell(), vec![time(4)]].concat(), 5), IO),
        (("deleteAllRow", row_of(&[]), 3), IO),
        (("deleteAllRowTs", row_of(&[time(3)]), 4), IO),
        (("checkAndPut", [cell(), vec![(6, put("f:b", "1"))]].concat(), 7), ARGUMENT),
    ]
}

fn with_attributes(call: &Attributed, attributes: &[(&str, &[u8])]) -> Vec<(i16, Value)> {
    let pairs = attributes.iter().map(|(name, value)| (text(name), Value::Bytes(value.to_vec())));
    [&call.1[..], &[(call.2, Value::Map(pairs.collect()))]].concat()
}

#[test]
fn attributes_that_change_what_a_call_does_are_refused() {
    for form in FORMS {
        let serving = serve();
        let client = &mut Client::new(serving.address, form);
        with_table(client);
        put_row(client, "r", 1, &[("f:a", "1")]);
        let ttl = 60_000_i64.to_be_bytes();
        for (call, exception) in writes() {
            for attribute in [("_ttl", &ttl[..]), ("acl", b"x"), ("VISIBILITY", b"x")] {
                let arguments = with_attributes(&call, &[("mine", b"1"), attribute, ("_raw_", b"1")]);
                thrown(client.call(call.0, &arguments), exception, &format!("the attribute {}", attribute.0));
            }
        }
        for call in reads() {
            let arguments = with_attributes(&call, &[("_raw_", &[255])]);
            thrown(client.call(call.0, &arguments), IO, "the attribute _raw_");
            // What changes nothing is taken.
            let taken = [("mine", &b"1"[..]), ("_raw_", &[0]), ("_isolationlevel_", &[0]), ("_ttl", &ttl)];
            let done = client.call(call.0, &with_attributes(&call, &taken));
            assert!(done.is_ok(), "{} {done:?}", call.0);
        }
        assert_eq!(cells(client.call("get", &cell())), ["1@1"]);
        let mut other = cell();
        other[2] = (3, text("f:b"));
        assert_eq!(cells(client.call("get", &other)), [""; 0], "nothing of a refused call is done");
        for (call, _) in writes() {
            let done = client.call(call.0, &with_attributes(&call, &[("mine", &b"1"[..])]));
            assert!(done.is_ok(), "{} {done:?}", call.0);
        }
    }
}

#[test]
fn clients_of_the_second_interface_are_told() {
    const TOLD: &str = "second Thrift interface";
    let get = (2, Value::Struct(vec![(1, text("r"))]));
    let of_table = |more: &[(i16, Value)]| [&[(1, text("t"))], more].concat();
    let name = Value::Struct(vec![(1, text("default")), (2, text("t"))]);
    let value_put = Value::Struct(vec![(1, text("r")), (2, Value::List(vec![]))]);
    for form in FORMS {
        let serving = serve();
        let client = &mut Client::new(serving.address, form);
        with_table(client);
        // Names that this interface has too: as an exception that both declare.
        for (method, arguments) in [
            ("get", of_table(std::slice::from_ref(&get))),
            ("append", of_table(std::slice::from_ref(&get))),
            ("increment", of_table(std::slice::from_ref(&get))),
            ("mutateRow", of_table(std::slice::from_ref(&get))),
            (
                "checkAndPut",
                of_table(&[(2, text("r")), (3, text("f")), (4, text("a")), (6, value_put.clone())]),
            ),
            ("createTable", vec![(1, Value::Struct(vec![(1, name.clone())])), (2, texts(["m"]))]),
            ("deleteTable", vec![(1, name.clone())]),
            ("disableTable", vec![(1, name.clone())]),
            ("enableTable", vec![(1, name.clone())]),
            ("isTableEnabled", vec![(1, name.clone())]),
        ] {
            thrown(client.call(method, &arguments), IO, TOLD);
        }
        for method in ["exists", "getMultiple", "put", "openScanner", "getTableNamesByPattern"] {
            thrown(client.call(method, &of_table(std::slice::from_ref(&get))), 0, TOLD);
        }
        let Err((0, other)) = client.call("getEverything", &[]) else { panic!() };
        assert!(!other.contains(TOLD), "{other}");
        assert_eq!(client.call("getThriftServerType", &[]), Ok(Some(Value::I32(1))));
    }
}

/// `canRetry` of an IOError, and its kind: the client may send the same call again, or learns why that is of no use.
#[test]
fn an_error_says_whether_it_may_pass() {
    let serving = serve_with(&Config { scanners_max: 1, ..Config::default() });
    let client = &mut Client::new(serving.address, FORM);
    with_table(client);
    let open = |table| message(FORM, "scannerOpen", 1, &[(1, text(table))]);
    let no_table = &[2, 0, 2, 0, 8, 0, 3, 0, 0, 0, 4, 0, 0];
    for (calls, end) in
        [([open("t"), open("t")], &[2, 0, 2, 1, 0, 0][..]), ([open("none"), open("none")], no_table)]
    {
        let mut stream = TcpStream::connect(serving.address).unwrap();
        stream.write_all(&calls.concat()).unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        let mut got = Vec::new();
        stream.read_to_end(&mut got).unwrap();
        // A boolean with the number 2, perhaps a number with the number 3, and the ends of the exception and of the result.
        assert!(got.ends_with(end), "{}", got.escape_ascii());
    }
}

/// A batch whose row or timestamp cannot be is refused, also if it changes nothing.
#[test]
fn batches_without_changes_are_looked_at() {
    let serving = serve();
    let client = &mut Client::new(serving.address, FORM);
    with_table(client);
    let none = || Value::List(vec![]);
    let batch = |row: &str| Value::List(vec![Value::Struct(vec![(1, text(row)), (2, none())])]);
    let of_table = |more: Vec<(i16, Value)>| [vec![(1, text("t"))], more].concat();
    for (method, arguments, part) in [
        ("mutateRow", vec![(2, text("")), (3, none())], "a row has 1 to"),
        ("mutateRows", vec![(2, batch(""))], "a row has 1 to"),
        ("mutateRows", vec![(2, batch(&"r".repeat(40_000)))], "a row has 1 to"),
        ("mutateRowTs", vec![(2, text("r")), (3, none()), (4, Value::I64(-1))], "not negative"),
        ("mutateRowsTs", vec![(2, batch("r")), (3, Value::I64(i64::MIN))], "not negative"),
    ] {
        thrown(client.call(method, &of_table(arguments)), ARGUMENT, part);
    }
    assert_eq!(client.call("mutateRows", &of_table(vec![(2, batch("r"))])), Ok(None));
}

/// As in HBase, an open scanner does not read a table that was disabled.
#[test]
fn a_scanner_of_a_disabled_table_fails_until_it_is_enabled() {
    for form in FORMS {
        let serving = serve();
        let (client, other) =
            (&mut Client::new(serving.address, form), &mut Client::new(serving.address, form));
        with_table(client);
        for row in ["a", "b", "c"] {
            put_row(client, row, 1, &[("f:q", "1")]);
        }
        let Ok(Some(id)) = client.call("scannerOpen", &[(1, text("t"))]) else { panic!() };
        let get = [(1, id), (2, Value::I32(1))];
        assert_eq!(rows(client.call("scannerGetList", &get)), ["a f:q=1@1"]);
        assert_eq!(rows(client.call("scannerGetList", &get)), ["b f:q=1@1"]);
        assert_eq!(other.call("disableTable", &[(1, text("t"))]), Ok(None));
        thrown(client.call("scannerGetList", &get), IO, "is disabled");
        thrown(client.call("scannerGet", &get[..1]), IO, "is disabled");
        assert_eq!(other.call("enableTable", &[(1, text("t"))]), Ok(None));
        assert_eq!(rows(client.call("scannerGetList", &get)), ["c f:q=1@1"]);
        assert_eq!(client.call("scannerClose", &get[..1]), Ok(None));
    }
}
