//! The client of this crate.

use std::collections::{BTreeMap, VecDeque};
use std::io::{Read, Write};
use std::net::TcpListener;
use std::time::Duration;

use esker_thrift::{
    CallError, Change, Client, Config, FamilyDescription, RowCells, RowChanges, ScanRequest, Thrown,
};

use crate::{Serving, randomness, serve, serve_with};

fn connect(serving: &Serving) -> Client {
    Client::connect("127.0.0.1", serving.address.port()).unwrap()
}

fn with_table(serving: &Serving) -> Client {
    let mut client = connect(serving);
    let family = FamilyDescription { name: b"f".to_vec(), max_versions: 1, ttl_s: i32::MAX };
    client.create_table(b"t", &[family]).unwrap();
    client
}

fn put(client: &mut Client, row: &str, value: &[u8]) {
    let change = Change { column: b"f:q".to_vec(), value: Some(value.to_vec()) };
    let changes = RowChanges { row: row.as_bytes().to_vec(), changes: vec![change] };
    client.mutate_row(b"t", &changes).unwrap();
}

/// The key and the value of a row of one cell.
type Row = (String, Vec<u8>);

fn shown(row: &RowCells) -> Row {
    let [cell] = &row.cells[..] else { panic!("{row:?}") };
    (String::from_utf8(row.row.clone()).unwrap(), cell.value.clone())
}

#[test]
fn rows_come_in_their_order_whatever_else_is_called_between() {
    let mut random = randomness(3);
    for _ in 0..8 {
        let serving = serve();
        let mut client = with_table(&serving);
        let mut model = BTreeMap::new();
        for row in 0..100 + random(400) {
            let value = vec![row as u8; random(3_000)];
            put(&mut client, &format!("{row:04}"), &value);
            model.insert(format!("{row:04}"), value);
        }
        // Each with the rows that are to come.
        let mut open: Vec<(i32, VecDeque<Row>)> = Vec::new();
        let mut usual = 10;
        for _ in 0..400 {
            match random(20) {
                0 | 1 if open.len() < 4 => {
                    let is_reversed = random(2) == 0;
                    let id = client
                        .open_scanner(b"t", &ScanRequest { is_reversed, ..ScanRequest::default() })
                        .unwrap();
                    let mut rows: VecDeque<_> = model.clone().into_iter().collect();
                    if is_reversed {
                        rows.make_contiguous().reverse();
                    }
                    open.push((id, rows));
                }
                2 => {
                    let (row, value) = (format!("{:04}", random(600)), vec![1; random(100)]);
                    put(&mut client, &row, &value);
                    model.insert(row, value);
                }
                3 => {
                    let (row, mut found) = (format!("{:04}", random(600)), None);
                    let read = client
                        .read_row(b"t", row.as_bytes(), &[b"f:q"], |cell| found = Some(cell.value.to_vec()));
                    read.unwrap();
                    assert_eq!(found.as_ref(), model.get(&row));
                }
                4 if !open.is_empty() && random(3) == 0 => {
                    let (id, _) = open.swap_remove(random(open.len()));
                    client.close_scanner(id).unwrap();
                    let gone = client.next_rows(id, 1);
                    assert!(
                        matches!(gone, Err(CallError::Thrown { kind: Thrown::Argument, .. })),
                        "{gone:?}"
                    );
                }
                5 => usual = 1 + random(40),
                _ if open.is_empty() => {}
                other => {
                    let place = if other < 9 { random(open.len()) } else { 0 };
                    let (id, expected) = &mut open[place];
                    let got = client.next_rows(*id, usual as i32).unwrap();
                    assert!(got.len() <= usual);
                    assert_eq!(got.is_empty(), expected.is_empty());
                    for row in &got {
                        assert_eq!(Some(shown(row)), expected.pop_front());
                    }
                }
            }
        }
        assert!(!client.is_broken());
    }
}

/// A server that answers the calls it gets with these bytes, a piece at a time.
fn answering(replies: Vec<Vec<Vec<u8>>>) -> (Client, std::thread::JoinHandle<usize>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let server = std::thread::Builder::new().spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        stream.set_nodelay(true).unwrap();
        let mut calls = 0;
        for pieces in replies {
            let mut call = [0; 4096];
            if stream.read(&mut call).unwrap() == 0 {
                break;
            }
            calls += 1;
            for piece in pieces {
                if stream.write_all(&piece).is_err() {
                    return calls;
                }
            }
        }
        calls
    });
    (Client::connect("127.0.0.1", port).unwrap(), server.unwrap())
}

/// A reply of `scannerGetList` in the binary protocol: rows of one cell in a map, with fields that nobody knows.
fn reply(sequence: i32, rows: &[(&str, &str)]) -> Vec<u8> {
    reply_with(sequence, rows, &[])
}

/// The same, with more cells of each row in a list.
fn reply_with(sequence: i32, rows: &[(&str, &str)], more: &[&str]) -> Vec<u8> {
    let bytes = |out: &mut Vec<u8>, bytes: &str| {
        out.extend((bytes.len() as u32).to_be_bytes());
        out.extend(bytes.as_bytes());
    };
    let mut out = vec![0x80, 1, 0, 2];
    bytes(&mut out, "scannerGetList");
    out.extend(sequence.to_be_bytes());
    out.extend([15, 0, 0, 12]);
    out.extend((rows.len() as u32).to_be_bytes());
    for (row, value) in rows {
        out.extend([8, 0, 9, 1, 2, 3, 4, 11, 0, 1]);
        bytes(&mut out, row);
        out.extend([13, 0, 2, 11, 12, 0, 0, 0, 1]);
        bytes(&mut out, "f:q");
        out.extend([11, 0, 1]);
        bytes(&mut out, value);
        out.extend([10, 0, 2, 0, 0, 0, 0, 0, 0, 0, 5]);
        out.extend([15, 0, 7, 3, 0, 0, 0, 2, 1, 1, 0]);
        out.extend([13, 0, 8, 11, 12, 0, 0, 0, 0]);
        out.extend([15, 0, 3, 12]);
        out.extend((more.len() as u32).to_be_bytes());
        for value in more {
            out.extend([11, 0, 1]);
            bytes(&mut out, "g:");
            out.extend([12, 0, 2, 11, 0, 1]);
            bytes(&mut out, value);
            out.extend([10, 0, 2, 0, 0, 0, 0, 0, 0, 0, 5, 0, 0]);
        }
        out.push(0);
    }
    out.extend([2, 0, 7, 1, 0]);
    out
}

#[test]
fn replies_are_read_in_any_pieces_and_each_cell_is_shown_once() {
    let (rows, more) = ([("a", "1"), ("b", "")], ["two", "", "three"]);
    let whole = reply_with(1, &rows, &more);
    let row = |(row, value)| {
        let of_map = std::iter::once((row, "f:q", value));
        of_map.chain(more.map(|value| (row, "g:", value))).map(|(row, column, value): (&str, &str, &str)| {
            [row, column, value].map(|part| part.as_bytes().to_vec())
        })
    };
    let expected: Vec<[Vec<u8>; 3]> = rows.into_iter().flat_map(row).collect();
    for at in 1..whole.len() {
        let (one, other) = whole.split_at(at);
        let in_bytes = other.iter().map(|byte| vec![*byte]);
        let (mut client, server) = answering(vec![std::iter::once(one.to_vec()).chain(in_bytes).collect()]);
        let mut shown = Vec::new();
        let count = client.read_next_rows(3, 10, |cell| {
            assert_eq!(cell.timestamp, 5);
            shown.push([cell.row, cell.column, cell.value].map(<[u8]>::to_vec));
        });
        assert_eq!(count.unwrap(), 2);
        assert_eq!(shown, expected);
        drop(client);
        assert_eq!(server.join().unwrap(), 1);
    }
}

#[test]
fn a_server_that_refuses_a_call_is_heard() {
    let serving = serve_with(&Config { message_len_max: 1 << 20, ..Config::default() });
    let change = Change { column: b"f:q".to_vec(), value: Some(vec![0; 50 << 20]) };
    let changes = RowChanges { row: b"r".to_vec(), changes: vec![change] };
    let error = connect(&serving).mutate_row(b"t", &changes).unwrap_err();
    assert!(error.to_string().contains("a message has more than 1048576 bytes"), "{error}");
    // Also if it has closed the connection before all was sent.
    let mut refusal = vec![0x80, 1, 0, 3, 0, 0, 0, 0, 0, 0, 0, 0, 11, 0, 1, 0, 0, 0, 8];
    refusal.extend(b"too much\x08\0\x02\0\0\0\x07\0");
    let (mut client, _server) = answering(vec![vec![refusal]]);
    let error = client.mutate_row(b"t", &changes).unwrap_err();
    assert!(matches!(&error, CallError::Thrown { message, .. } if message == "too much"), "{error:?}");
    assert!(client.is_broken());
}

/// A server that answers the first call with these bytes, a piece after each pause, and then keeps the connection.
fn pausing(pause: Duration, pieces: Vec<Vec<u8>>) -> Client {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut call = [0; 4096];
        let _ = stream.read(&mut call).unwrap();
        for piece in pieces {
            std::thread::sleep(pause);
            stream.write_all(&piece).unwrap();
        }
        // Until the client has gone.
        while stream.read(&mut call).is_ok_and(|len| len > 0) {}
    });
    Client::connect("127.0.0.1", port).unwrap()
}

/// A call ends when the server is silent for too long, at its beginning or in the middle of the reply. As long as bytes come, it may take
/// as long as it needs.
#[test]
fn a_server_that_falls_silent_is_not_waited_for_for_ever() {
    let whole = reply(1, &[("a", "1"), ("b", "2")]);
    let short = Duration::from_millis(100);
    for begun in [Vec::new(), vec![whole[..whole.len() / 2].to_vec()]] {
        let mut client = pausing(Duration::ZERO, begun);
        client.set_patience(Some(short)).unwrap();
        let error = client.next_rows(3, 10).unwrap_err();
        let CallError::Silent { method: "scannerGetList", waited } = error else { panic!("{error:?}") };
        assert_eq!(waited, short);
        assert!(client.is_broken());
        assert!(client.next_rows(3, 10).unwrap_err().to_string().contains("connect again"));
    }
    let pieces: Vec<_> = whole.chunks(whole.len().div_ceil(8)).map(<[u8]>::to_vec).collect();
    let mut client = pausing(Duration::from_millis(200), pieces);
    client.set_patience(Some(Duration::from_secs(1))).unwrap();
    assert_eq!(client.next_rows(3, 10).unwrap().len(), 2);
    // What works through a whole table takes as long as it takes.
    let mut done = vec![0x80, 1, 0, 2, 0, 0, 0, 12];
    done.extend(b"majorCompact\0\0\0\x01\0");
    let mut client = pausing(Duration::from_millis(400), vec![done]);
    client.set_patience(Some(short)).unwrap();
    client.major_compact(b"t").unwrap();
    assert!(client.set_patience(Some(Duration::ZERO)).is_err());
}

#[test]
fn replies_that_end_or_say_something_else_are_errors() {
    let whole = reply(1, &[("a", "1"), ("b", "2")]);
    for at in 0..whole.len() {
        let (mut client, _server) = answering(vec![vec![whole[..at].to_vec()]]);
        let error = client.next_rows(3, 10).unwrap_err();
        assert!(matches!(error, CallError::Io(_)), "{error:?}");
        assert!(client.is_broken());
        assert!(client.next_rows(3, 10).is_err());
    }
    let mut of_another_type = whole.clone();
    of_another_type[29] = 11;
    for wrong in [reply(2, &[("a", "1")]), of_another_type, b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec()] {
        let (mut client, _server) = answering(vec![vec![wrong]]);
        let error = client.next_rows(3, 10).unwrap_err();
        assert!(matches!(error, CallError::Broken(_)), "{error:?}");
        assert!(client.is_broken());
    }
    // Many cells of a row, and a row without a key.
    let mut of_many_cells = reply_with(1, &[("r", "v")], &[]);
    let len = of_many_cells.len();
    of_many_cells[len - 10..len - 6].copy_from_slice(&2_000_000_u32.to_be_bytes());
    for (wrong, why) in
        [(of_many_cells, "more than 1,048,576 rows and cells"), (reply(1, &[("", "v")]), "its key, or none")]
    {
        let (mut client, _server) = answering(vec![vec![wrong]]);
        let error = client.next_rows(3, 10).unwrap_err();
        assert!(error.to_string().contains(why), "{error}");
    }
    // A row takes a byte of a reply, and a lot more of the client's memory.
    let mut of_many_rows = reply(1, &[]);
    of_many_rows.truncate(30);
    of_many_rows.extend(2_000_000_u32.to_be_bytes());
    let (mut client, _server) = answering(vec![vec![of_many_rows]]);
    let error = client.next_rows(3, 10).unwrap_err();
    assert!(error.to_string().contains("more than 1,048,576 rows and cells"), "{error}");
    // Bytes that nobody has asked for.
    let (mut client, _server) = answering(vec![vec![[whole.clone(), whole].concat()]]);
    assert_eq!(client.next_rows(3, 10).unwrap().len(), 2);
    assert!(client.is_broken());
}

/// Another server's answer to a method that it does not have says what it is, and the connection can be used on.
#[test]
fn a_server_without_eskers_methods_is_found_out() {
    let mut unknown = vec![0x80, 1, 0, 3, 0, 0, 0, 12];
    unknown.extend(
        b"eskerVersion\0\0\0\x01\x0b\0\x01\0\0\0\x1cInvalid method name: 'esker'\x08\0\x02\0\0\0\x01\0",
    );
    let (mut client, server) = answering(vec![vec![unknown.clone()], vec![reply(2, &[("a", "1")])]]);
    assert_eq!(client.esker_version().unwrap(), None);
    assert_eq!(client.next_rows(3, 10).unwrap().len(), 1);
    assert!(!client.is_broken());
    drop(client);
    assert_eq!(server.join().unwrap(), 2);
    // Another error says nothing of it.
    let number = unknown.len() - 2;
    unknown[number] = 6;
    let (mut client, _server) = answering(vec![vec![unknown]]);
    let error = client.esker_version().unwrap_err();
    assert!(matches!(error, CallError::Thrown { kind: Thrown::Other, .. }), "{error:?}");
    assert_eq!(connect(&serve()).esker_version().unwrap().as_deref(), Some(env!("CARGO_PKG_VERSION")));
}

#[test]
fn calls_for_many_timestamps_are_done_by_several_clients() {
    let serving = serve();
    let mut client = connect(&serving);
    let family = FamilyDescription { name: b"f".to_vec(), max_versions: i32::MAX, ttl_s: i32::MAX };
    client.create_table(b"t", &[family]).unwrap();
    let call = |number: i64| {
        let change = Change { column: b"f:q".to_vec(), value: Some(number.to_string().into_bytes()) };
        let row = format!("{:03}", number % 100).into_bytes();
        (number, vec![RowChanges { row, changes: vec![change] }])
    };
    let found = |client: &mut Client| -> BTreeMap<String, i64> {
        let id = client.open_scanner(b"t", &ScanRequest::default()).unwrap();
        let rows = client.next_rows(id, 1_000).unwrap();
        client.close_scanner(id).unwrap();
        let number = |value: Vec<u8>| String::from_utf8(value).unwrap().parse().unwrap();
        rows.iter().map(shown).map(|(row, value)| (row, number(value))).collect()
    };
    let mut latest = BTreeMap::new();
    let mut next = 1;
    // Fewer calls than clients, as many, and more; and none.
    for (count, others) in [(0, 1), (1, 0), (2, 7), (5, 0), (7, 6), (8, 6), (1_000, 6), (3, 1)] {
        let mut others: Vec<Client> = (0..others).map(|_| connect(&serving)).collect();
        let calls: Vec<_> = (next..next + count).map(call).collect();
        client.mutate_rows_of_each(&mut others, b"t", &calls).unwrap();
        assert!(others.iter().all(|client| !client.is_broken()));
        latest.extend((next..next + count).map(|number| (format!("{:03}", number % 100), number)));
        next += count;
        assert_eq!(found(&mut client), latest, "{count} calls");
    }
    assert_eq!(latest.len(), 100);
    // What others do not do, since their connections end or nobody answers, the client does.
    for _ in 0..3 {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let mut others: Vec<Client> = (0..3).map(|_| Client::connect("127.0.0.1", port).unwrap()).collect();
        others[0].set_patience(Some(Duration::from_millis(50))).unwrap();
        let kept = listener.accept().unwrap();
        drop((listener.accept().unwrap(), listener.accept().unwrap()));
        others.insert(1, connect(&serving));
        let calls: Vec<_> = (next..next + 40).map(call).collect();
        client.mutate_rows_of_each(&mut others, b"t", &calls).unwrap();
        latest.extend((next..next + 40).map(|number| (format!("{:03}", number % 100), number)));
        next += 40;
        assert_eq!(found(&mut client), latest);
        assert_eq!(others.iter().filter(|client| client.is_broken()).count(), 3);
        drop(kept);
    }
    // A call that the server refuses ends it, and is told. All clients are of use.
    let bad = Change { column: b"none:".to_vec(), value: Some(Vec::new()) };
    for place in 0..4 {
        let mut others = [connect(&serving)];
        let mut calls: Vec<_> = (1..=3).map(call).collect();
        calls.insert(place, (5, vec![RowChanges { row: b"r".to_vec(), changes: vec![bad.clone()] }]));
        let failed = client.mutate_rows_of_each(&mut others, b"t", &calls);
        assert!(matches!(failed, Err(CallError::Thrown { .. })), "{failed:?}");
        assert!(!client.is_broken() && !others[0].is_broken());
    }
}
