//! A server with tables, and statements on it.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};

use esker_ql::{Answer, Error, Remote, Session, statements};
use esker_thrift::{Config, Server};

/// The address of a real HBase, `host:port`.
fn hbase() -> Option<(String, u16)> {
    let address = std::env::var("ESKER_HBASE_THRIFT").ok()?;
    let (host, port) = address.rsplit_once(':').unwrap();
    Some((host.to_owned(), port.parse().unwrap()))
}

/// Calls `act` with the tables of an Esker server, which ends with it.
pub(crate) fn with_esker(act: impl FnOnce(Remote)) {
    with_server_at(|address| act(Remote::connect("127.0.0.1", address.port(), None).unwrap()));
}

/// Calls `act` with the tables of a server that has HBase's methods alone: that of `ESKER_HBASE_THRIFT`, or an Esker server behind a
/// relay that knows no others.
pub(crate) fn with_hbase(act: impl FnOnce(Remote)) {
    if let Some((host, port)) = hbase() {
        return act(Remote::connect(&host, port, None).unwrap());
    }
    with_server_at(|address| {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        // Each thread ends with its connection; the last one that is accepted says that there are no more.
        let relaying = std::thread::Builder::new().spawn(move || {
            for client in listener.incoming().map(Result::unwrap) {
                if client.peek(&mut [0]).is_ok_and(|bytes| bytes == 0) {
                    return;
                }
                let server = TcpStream::connect(address).unwrap();
                std::thread::Builder::new().spawn(move || relay(client, server)).unwrap();
            }
        });
        act(Remote::connect("127.0.0.1", port, None).unwrap());
        drop(TcpStream::connect(("127.0.0.1", port)).unwrap());
        relaying.unwrap().join().unwrap();
    });
}

/// Relays calls in the binary protocol, and answers those of Esker's own methods as a server that does not have them. The client
/// waits for each answer, so a call begins with what is read.
fn relay(mut client: TcpStream, mut server: TcpStream) {
    let (mut answers, mut to_client) = (server.try_clone().unwrap(), client.try_clone().unwrap());
    std::thread::Builder::new().spawn(move || std::io::copy(&mut answers, &mut to_client)).unwrap();
    let mut bytes = vec![0; 1 << 16];
    while let Ok(len @ 1..) = client.read(&mut bytes) {
        let call = &bytes[..len];
        let is_own = call.starts_with(&[0x80, 1, 0, 1])
            && call.get(8..).is_some_and(|name| name.starts_with(b"esker"));
        if !is_own {
            server.write_all(call).unwrap();
            continue;
        }
        let head = 12 + u32::from_be_bytes(call[4..8].try_into().unwrap()) as usize;
        let mut answer = call[..head].to_vec();
        answer[3] = 3;
        answer.extend(b"\x0b\0\x01\0\0\0\x13Invalid method name\x08\0\x02\0\0\0\x01\0");
        client.write_all(&answer).unwrap();
    }
    drop(server.shutdown(std::net::Shutdown::Both));
}

/// Calls `act` with the address of an Esker server, which ends with it.
fn with_server_at(act: impl FnOnce(SocketAddr)) {
    let tables = esker_table::Tables::open_in_memory(esker::Options::default()).unwrap();
    let listen = "127.0.0.1:0".parse().unwrap();
    let server = Server::bind(tables, Config { listen, ..Config::default() }).unwrap();
    let (address, stopper) = (server.address(), server.stopper());
    std::thread::scope(|scope| {
        let running = scope.spawn(move || server.run());
        /// Ends the server also when a test fails.
        struct End(esker_thrift::Stopper);
        impl Drop for End {
            fn drop(&mut self) {
                self.0.stop();
            }
        }
        let end = End(stopper);
        act(address);
        drop(end);
        running.join().unwrap().unwrap();
    });
}

fn run(session: &mut Session, text: &str) -> Result<Vec<Answer>, Error> {
    statements(text.as_bytes()).map(|statement| session.execute(statement?.statement)).collect()
}

#[track_caller]
fn fails(session: &mut Session, text: &str, message: &str) {
    let error = run(session, text).unwrap_err().to_string();
    assert!(error.contains(message), "{text}: {error}");
}

fn cells(session: &mut Session, text: &str) -> String {
    let Some(Answer::Cells { mut cells, .. }) = run(session, text).unwrap().pop() else { panic!("{text}") };
    let mut shown = String::new();
    while cells.advance().unwrap() {
        let (row, qualifier) = (cells.row().escape_ascii(), cells.qualifier().escape_ascii());
        shown += &format!("{row} {}:{qualifier} {};", cells.family(), cells.value().unwrap().escape_ascii());
    }
    shown
}

#[test]
fn statements_run_by_hbases_interface_alone() {
    with_hbase(|remote| {
        let session = &mut Session::new(remote);
        run(session, "DROP TABLE IF EXISTS u; CREATE TABLE u (a MAX_VERSIONS 1, b TTL 2 DAYS)").unwrap();
        fails(session, "CREATE TABLE u (a)", "there is a table \"u\" already");
        assert!(matches!(run(session, "EXISTS TABLE u").unwrap()[..], [Answer::Truth(true)]));
        assert!(matches!(run(session, "EXISTS TABLE v").unwrap()[..], [Answer::Truth(false)]));
        let Some(Answer::Text(created)) = run(session, "SHOW CREATE TABLE u").unwrap().pop() else {
            panic!()
        };
        assert_eq!(created, "CREATE TABLE u (a MAX_VERSIONS 1, b MAX_VERSIONS 3 TTL 2 DAYS);\n");
        run(session, "INSERT INTO u VALUES ('r', a:x, '1'), ('r', b:'', 'it''s'), (5, 's', a:y, x'00ff')")
            .unwrap_err();
        run(session, "INSERT INTO u VALUES ('r', a:x, '1'), ('r', b:'', 'it\\'s'), (5, 's', a:y, x'00ff')")
            .unwrap();
        assert_eq!(cells(session, "SELECT a FROM u"), "r a:x 1;s a:y \\x00\\xff;");
        assert_eq!(cells(session, "SELECT a FROM u WHERE b: = 'it\\'s'"), "r a:x 1;");
        assert_eq!(cells(session, "SELECT a FROM u REVERSED LIMIT 1"), "s a:y \\x00\\xff;");
        fails(session, "SELECT * FROM u", "say MAX_VERSIONS 1");
        fails(session, "SELECT a FROM v", "there is no table \"v\"");
        fails(session, "SELECT c FROM u", "has no column family \"c\"");
        assert!(matches!(
            run(session, "INCREMENT u ROW 'r' COLUMN a:n BY 7").unwrap()[..],
            [Answer::Number(7)]
        ));
        let Some(Answer::Bytes(whole)) = run(session, "APPEND u ROW 'r' COLUMN a:x VALUE '2'").unwrap().pop()
        else {
            panic!()
        };
        assert_eq!(whole, b"12");
        let check = "CHECK u ROW 'r' (a:x = '12') THEN INSERT VALUES (a:x, '3')";
        assert!(matches!(run(session, check).unwrap()[..], [Answer::Truth(true)]));
        assert!(matches!(run(session, check).unwrap()[..], [Answer::Truth(false)]));
        fails(
            session,
            "CHECK u ROW 'r' (a:x < '12') THEN INSERT VALUES (a:x, '3')",
            "cannot check anything but",
        );
        fails(session, "CHECK u ROW 'r' (a:x = '1' AND a:y = '2') THEN DELETE *", "cannot check several");
        fails(session, "CHECK u ROW 'r' (a:x = '3') THEN DELETE *", "cannot do anything after a check");
        run(session, "DELETE a:x FROM u WHERE ROW = 'r'; DELETE b FROM u WHERE ROW = 'r'").unwrap();
        assert_eq!(cells(session, "SELECT * FROM u MAX_VERSIONS 1 KEYS_ONLY"), "r a:n ;s a:y ;");
        fails(session, "DELETE a:y FROM u WHERE ROW = 's' VERSION 5", "cannot delete single versions");
        run(session, "DELETE a:y FROM u WHERE ROW = 's' TIMESTAMP 4; DELETE * FROM u WHERE ROW = 'r'")
            .unwrap();
        assert_eq!(cells(session, "SELECT a FROM u"), "s a:y \\x00\\xff;");
        let Some(Answer::Names(lines)) =
            run(session, "EXPLAIN ANALYZE SELECT a FROM u WHERE ROW = 's'").unwrap().pop()
        else {
            panic!()
        };
        let expected = [
            "table u, by HBase's Thrift interface",
            "asks for 1 ranges of rows",
            "columns 'a'",
            "what the server does not decide is decided here",
            "the server does not tell what it has read",
            "shows rows: 1, cells: 1",
        ];
        assert_eq!(lines, expected);
        for (text, message) in [
            ("ALTER TABLE u ADD (c)", "cannot alter tables"),
            ("RENAME TABLE u TO w", "cannot rename tables"),
            ("CREATE NAMESPACE n", "cannot make namespaces"),
            ("CREATE TABLE w (a, ACCESS GROUP g (b))", "cannot make access groups"),
            ("CREATE TABLE w (a, INDEX a)", "cannot make indexes"),
            ("REBUILD INDICES w", "cannot rebuild indexes"),
            ("CREATE TABLE w (a COUNTER)", "cannot make families of counters"),
            ("CREATE TABLE w (a TTL 1 MILLISECONDS)", "whole seconds"),
            ("DROP TABLE v", "there is no table \"v\""),
            ("INSERT INTO v VALUES ('r', a:x, '1')", "there is no table \"v\""),
            ("SELECT a:/(/ FROM u", "unclosed group"),
            ("SELECT a FROM u RETURN_DELETES", "cannot show deletes"),
            ("EXPLAIN SELECT a FROM u RETURN_DELETES", "cannot show deletes"),
        ] {
            fails(session, text, message);
        }
        run(session, "COMPACT TABLE u; DROP TABLE u").unwrap();
    });
}

/// Runs a statement that answers with a text.
fn text(session: &mut Session, statement: &str) -> String {
    match run(session, statement).unwrap().pop() {
        Some(Answer::Text(text) | Answer::WriteSchema { text, .. }) => text,
        other => panic!("{statement}: {other:?}"),
    }
}

/// Runs a statement that reads a schema from a file, with this text in it.
fn read_schema(session: &mut Session, statement: &str, text: &str) -> Result<(), Error> {
    match run(session, statement).unwrap().pop() {
        Some(Answer::ReadSchema { change, .. }) => session.change_schema(&change, text).map(drop),
        other => panic!("{statement}: {other:?}"),
    }
}

/// A whole schema goes from a table into a file, and from there to other tables and back.
#[test]
fn an_esker_server_tells_whole_schemas_and_takes_them() {
    with_esker(|remote| {
        let session = &mut Session::new(remote.clone());
        let items = "a MAX_VERSIONS 1 TTL 1 MILLISECONDS, n COUNTER, ACCESS GROUP g (b MAX_VERSIONS ALL), INDEX a, QUALIFIER INDEX b";
        run(session, &format!("CREATE NAMESPACE s; CREATE TABLE s:t ({items})")).unwrap();
        let created = "CREATE TABLE s:t (a MAX_VERSIONS 1 TTL 1 MILLISECONDS, n MAX_VERSIONS 3 COUNTER, \
             ACCESS GROUP g (b MAX_VERSIONS ALL), INDEX a, QUALIFIER INDEX b);\n";
        assert_eq!(text(session, "SHOW CREATE TABLE s:t"), created);
        run(session, "CREATE TABLE s:other LIKE s:t").unwrap();
        assert_eq!(text(session, "SHOW CREATE TABLE s:other"), created.replace("s:t", "s:other"));
        let file = text(session, "DESCRIBE TABLE s:t INTO FILE 'f'");
        read_schema(session, "CREATE TABLE u FROM FILE 'f'", &file).unwrap();
        assert_eq!(text(session, "DESCRIBE TABLE u"), file);

        // With its numbers, a schema goes back to its table alone, once.
        let numbered = text(session, "DESCRIBE TABLE WITH IDS s:t INTO FILE 'f'");
        let renamed = numbered.replace("name=\"b\"", "name=\"c\"");
        assert!(renamed != numbered && numbered.contains(" version=\"1\""), "{numbered}");
        let refused = read_schema(session, "ALTER TABLE u FROM FILE 'f'", &renamed).unwrap_err();
        assert!(refused.to_string().contains("another table"), "{refused}");
        run(session, "INSERT INTO s:t VALUES (7, 'r', b:q, 'v')").unwrap();
        read_schema(session, "ALTER TABLE s:t FROM FILE 'f'", &renamed).unwrap();
        assert_eq!(cells(session, "SELECT c FROM s:t MAX_VERSIONS 1"), "r c:q v;");
        let late = read_schema(session, "ALTER TABLE s:t FROM FILE 'f'", &renamed).unwrap_err();
        assert!(
            late.to_string().contains("the schema was changed meanwhile: its version is 2, not 1"),
            "{late}"
        );
        // Another session of the same server is not asked with what this one knows.
        run(&mut Session::new(remote), "ALTER TABLE s:t ADD (d)").unwrap();
        run(session, "ALTER TABLE s:t ADD (e); INSERT INTO s:t VALUES ('r', d:q, '1'), ('r', e:q, '2')")
            .unwrap();
        assert_eq!(cells(session, "SELECT d, e FROM s:t MAX_VERSIONS 1"), "r d:q 1;r e:q 2;");
    });
}

#[test]
fn an_esker_server_does_at_once_what_takes_hbase_several_calls_or_is_refused() {
    with_esker(|remote| {
        let session = &mut Session::new(remote);
        run(session, "CREATE TABLE t (a MAX_VERSIONS 1, n MAX_VERSIONS 1 COUNTER)").unwrap();
        // Of cells with several timestamps, none is there if one cannot be.
        fails(
            session,
            "INSERT INTO t VALUES (1, 'r', a:x, '1'), (2, 's', a:x, '2'), (3, 's', n:x, 'word')",
            "8 bytes",
        );
        fails(
            session,
            "INSERT INTO t VALUES (1, 'r', a:x, '1'), (2, 's', c:x, '2')",
            "no column family \"c\"",
        );
        assert_eq!(cells(session, "SELECT * FROM t"), "");
        run(session, "INSERT INTO t VALUES (1, 'r', a:x, '1'), (2, 's', a:x, '2'), (3, 'r', a:y, '3')")
            .unwrap();
        assert_eq!(cells(session, "SELECT * FROM t"), "r a:x 1;r a:y 3;s a:x 2;");
        let check = "CHECK t ROW 'r' (a:x >= '1' AND a:y != '4' AND a:z IS ABSENT)
            THEN DELETE a:x INSERT VALUES (9, a:z, 'Z'), (n:c, x'0000000000000007')";
        for is_done in [true, false] {
            let Some(Answer::Truth(truth)) = run(session, check).unwrap().pop() else { panic!() };
            assert_eq!(truth, is_done);
            assert_eq!(cells(session, "SELECT a FROM t WHERE ROW = 'r'"), "r a:y 3;r a:z Z;");
        }
        assert!(matches!(
            run(session, "INCREMENT t ROW 'r' COLUMN n:c BY 8").unwrap()[..],
            [Answer::Number(15)]
        ));
        run(
            session,
            "DELETE a:y FROM t WHERE ROW = 'r' VERSION 4; DELETE a:z FROM t WHERE ROW = 'r' VERSION 9",
        )
        .unwrap();
        assert_eq!(cells(session, "SELECT a FROM t WHERE ROW = 'r'"), "r a:y 3;");
        for (text, message) in [
            ("CHECK v ROW 'r' (a:x = '1') THEN DELETE *", "there is no table \"v\""),
            ("DELETE * FROM v WHERE ROW = 'r'", "there is no table \"v\""),
            ("INSERT INTO v VALUES ('r', a:x, '1')", "there is no table \"v\""),
            ("RENAME TABLE v TO w", "there is no table \"v\""),
            ("RENAME TABLE t TO no:w", "there is no namespace \"no\""),
            ("CREATE TABLE no:w (a)", "there is no namespace \"no\""),
            ("REBUILD INDICES v", "there is no table \"v\""),
        ] {
            fails(session, text, message);
        }
    });
}

/// A column with more versions than a result of a server has cells.
#[test]
fn versions_are_counted_over_all_parts_of_a_row() {
    with_esker(|remote| {
        let session = &mut Session::new(remote);
        run(session, "CREATE TABLE t (a MAX_VERSIONS ALL)").unwrap();
        let versions = 1..=2500;
        let cells_of = |qualifier: &str| {
            let cells = versions.clone().map(|time| format!("({time}, 'r', a:{qualifier}, '{}')", time % 7));
            cells.collect::<Vec<_>>().join(", ")
        };
        run(
            session,
            &format!("INSERT INTO t VALUES {}, {}, (1, 's', a:x, '0')", cells_of("x"), cells_of("y")),
        )
        .unwrap();
        // Deletes stand in front of the versions of their column.
        run(
            session,
            "DELETE a:y FROM t WHERE ROW = 'r' VERSION 2500; DELETE a:y FROM t WHERE ROW = 'r' TIMESTAMP 1",
        )
        .unwrap();
        let mut count = |query: &str| cells(session, query).matches(';').count();
        assert_eq!(count("SELECT * FROM t"), 2500 + 2498 + 1);
        assert_eq!(count("SELECT * FROM t MAX_VERSIONS 1200"), 1200 + 1200 + 1);
        assert_eq!(count("SELECT * FROM t RETURN_DELETES MAX_VERSIONS 1200"), 1200 + 2 + 1200 + 1);
        let of_threes = |times: std::ops::RangeInclusive<i32>| times.filter(|time| time % 7 == 3).count();
        // Of the latest versions, those with a match. The last one of a:y is deleted.
        let of_latest = of_threes(2201..=2500) + of_threes(2200..=2499);
        assert_eq!(count("SELECT * FROM t WHERE VALUE REGEXP '3' MAX_VERSIONS 300"), of_latest);
        assert_eq!(count("SELECT * FROM t WHERE VALUE REGEXP '3' MAX_VERSIONS 1"), 0);
        assert_eq!(count("SELECT * FROM t WHERE VALUE REGEXP '3'"), 2 * of_threes(2..=2499));
        assert_eq!(count("SELECT a:x FROM t WHERE 2000 <= TIMESTAMP < 2010 MAX_VERSIONS 5 REVERSED"), 5);
    });
}

/// What HBase's interface cannot delete alone is told, and not passed over.
#[test]
fn truncate_leaves_nothing_or_fails() {
    let insert = "DROP TABLE IF EXISTS t; CREATE TABLE t (a MAX_VERSIONS 1); \
                  INSERT INTO t VALUES ('2040-01-01', 'later', a:, '1'), ('now', a:, '2')";
    with_esker(|remote| {
        let session = &mut Session::new(remote);
        run(session, insert).unwrap();
        run(session, "TRUNCATE TABLE t").unwrap();
        assert_eq!(cells(session, "SELECT * FROM t"), "");
        run(session, "INSERT INTO t VALUES (1, 'later', a:, '3')").unwrap();
        assert_eq!(cells(session, "SELECT * FROM t"), "later a: 3;");
        fails(session, "TRUNCATE TABLE u", "there is no table \"u\"");
    });
    with_hbase(|remote| {
        let session = &mut Session::new(remote);
        run(session, insert).unwrap();
        fails(session, "TRUNCATE TABLE t", "the table is not empty: 1 rows still have cells");
        assert_eq!(cells(session, "SELECT * FROM t"), "later a: 1;");
        run(
            session,
            "DROP TABLE t; CREATE TABLE t (a MAX_VERSIONS 1); INSERT INTO t VALUES ('now', a:, '2')",
        )
        .unwrap();
        run(session, "TRUNCATE TABLE t").unwrap();
        assert_eq!(cells(session, "SELECT * FROM t"), "");
        run(session, "DROP TABLE t").unwrap();
    });
}

/// `MAX_VERSIONS` counts before `VALUE REGEXP` decides: what was overwritten is not shown, here and on every server.
#[test]
fn overwritten_values_do_not_match() {
    let check = |session: &mut Session| {
        run(session, "CREATE TABLE t (a MAX_VERSIONS ALL)").unwrap();
        run(session, "INSERT INTO t VALUES (1, 'r', a:x, 'old'), (2, 'r', a:x, 'new'), (1, 's', a:x, 'old')")
            .unwrap();
        assert_eq!(cells(session, "SELECT * FROM t WHERE VALUE REGEXP 'old' MAX_VERSIONS 1"), "s a:x old;");
        assert_eq!(cells(session, "SELECT * FROM t WHERE VALUE REGEXP 'new' MAX_VERSIONS 1"), "r a:x new;");
        let before = "SELECT * FROM t WHERE TIMESTAMP < 2 AND VALUE REGEXP 'old' MAX_VERSIONS 1";
        assert_eq!(cells(session, before), "r a:x old;s a:x old;");
        let with_condition = "SELECT * FROM t WHERE a:x = 'new' AND VALUE REGEXP 'old' MAX_VERSIONS 1";
        assert_eq!(cells(session, with_condition), "");
    };
    check(&mut Session::new(esker_table::Tables::open_in_memory(esker::Options::default()).unwrap()));
    with_esker(|remote| check(&mut Session::new(remote)));
    with_hbase(|remote| check(&mut Session::new(remote)));
}
