//! A server with tables, and statements on it.

use esker_ql::{Answer, Error, Remote, Session, statements};
use esker_thrift::{Config, Server};

/// Calls `act` with the tables of a server: that of `ESKER_HBASE_THRIFT` (`host:port`), or an Esker server that ends with it.
pub(crate) fn with_server(act: impl FnOnce(Remote)) {
    if let Ok(address) = std::env::var("ESKER_HBASE_THRIFT") {
        let (host, port) = address.rsplit_once(':').unwrap();
        return act(Remote::connect(host, port.parse().unwrap()).unwrap());
    }
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
        act(Remote::connect("127.0.0.1", address.port()).unwrap());
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
fn statements_run_on_a_server() {
    with_server(|remote| {
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
            "scans 1 ranges of rows",
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
