//! What queries read, and what a server sends for them: little, if little is shown.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use esker::env::Env;
use esker::fs::sim::SimFs;
use esker_ql::{Answer, Remote, Session, statements};
use esker_thrift::{Config, Server};
use test_kit::Rng;

/// How many times a test looks, every 10 ms, whether other threads are done.
const LOOKS_MAX: u32 = 12_000;

/// How many cells the wide row has in the family `f`.
const WIDE: usize = 10_000;

/// Narrow rows around a wide one, `m`, whose values are longer in the tables of a server.
fn fill(session: &mut Session, value_len: usize) {
    let value = "v".repeat(value_len);
    let mut text = String::from("CREATE TABLE t (f MAX_VERSIONS 1, h MAX_VERSIONS 1);");
    for row in 0..200 {
        let begin = if row < 100 { "a" } else { "z" };
        text += &format!(
            "INSERT INTO t VALUES ('{begin}{:02}', f:q, '{value}'), ('{begin}{:02}', h:q, '{value}');",
            row % 100,
            row % 100
        );
    }
    let cells: Vec<String> = (0..WIDE).map(|cell| format!("('m', f:q{cell:05}, '{cell}{value}')")).collect();
    text += &format!("INSERT INTO t VALUES {}, ('m', h:q, 'h');", cells.join(", "));
    for statement in statements(text.as_bytes()) {
        session.execute(statement.unwrap().statement).unwrap();
    }
}

/// How many cells a query shows, and how many entries it has read, if the tables tell.
fn shown_and_read(session: &mut Session, text: &str) -> (usize, u64) {
    let statement = statements(text.as_bytes()).next().unwrap().unwrap().statement;
    let Answer::Cells { mut cells, .. } = session.execute(statement).unwrap() else { panic!("{text}") };
    cells.count();
    let mut shown = 0;
    while cells.advance().unwrap() {
        cells.value().unwrap();
        shown += 1;
    }
    let groups = cells.counts().map(|counts| counts.groups).unwrap_or_default();
    (shown, groups.iter().map(|(_, counts)| counts.entries).sum())
}

#[test]
fn queries_read_little_if_they_show_little() {
    let tables = esker_table::Tables::open_in_memory(esker::Options::default()).unwrap();
    let session = &mut Session::new(tables);
    fill(session, 1);
    let cases = [
        ("SELECT * FROM t WHERE ROW REGEXP '^a1'", 20),
        ("SELECT * FROM t WHERE ROW REGEXP '^(a1|z2)[0-4]$'", 20),
        ("SELECT * FROM t WHERE (ROW REGEXP '^a1' OR ROW = 'z99')", 22),
        ("SELECT * FROM t WHERE ROW REGEXP '^a1' REVERSED", 20),
        ("SELECT f:q05000 FROM t WHERE ROW = 'm'", 1),
        ("SELECT f:^q0500 FROM t WHERE ROW = 'm'", 10),
        ("SELECT f:^q0500, h FROM t WHERE ROW = 'm' REVERSED", 11),
        ("SELECT f:/^q0500[0-4]/ FROM t WHERE ROW = 'm'", 5),
        ("SELECT f:/^q0500/, h:/^q/ FROM t WHERE ROW = 'm'", 11),
        ("SELECT h FROM t WHERE 'm' <= ROW AND f:q05000 = 'no'", 0),
        ("SELECT * FROM t WHERE 'm' <= ROW < 'n' AND f:q05000 = 'no'", 0),
        ("SELECT f:^q0500 FROM t WHERE ROW = 'm' AND h = 'h'", 10),
        ("SELECT f:^q0500 FROM t WHERE ROW = 'm' AND f:^q0000 =^ '3'", 10),
        ("SELECT * FROM t WHERE 'm' <= ROW LIMIT 5 OFFSET 1", 10),
        ("SELECT f:^q0500 FROM t WHERE ROW = 'm' CELL_OFFSET 7", 3),
    ];
    for (text, expected) in cases {
        let (shown, entries) = shown_and_read(session, text);
        println!("{text}: {entries} entries");
        assert_eq!(shown, expected, "{text}");
        // A narrow row has 2 entries, and the query with `m` alone has 100 of them behind.
        let most = if text.contains("SELECT h FROM") { 250 } else { 80 };
        assert!(entries <= most, "{text}: {entries} entries");
    }
}

/// Carries what a client and a server say to each other. Counts the bytes that the server says.
fn carry(listener: &TcpListener, server: std::net::SocketAddr, said: &AtomicU64) {
    let (mut client, _) = listener.accept().unwrap();
    let mut server = TcpStream::connect(server).unwrap();
    let (mut client_too, mut server_too) = (client.try_clone().unwrap(), server.try_clone().unwrap());
    std::thread::scope(|scope| {
        scope.spawn(move || {
            std::io::copy(&mut client_too, &mut server_too).unwrap_or_default();
            drop(server_too.shutdown(Shutdown::Both));
        });
        let mut bytes = [0; 16 << 10];
        while let Ok(len @ 1..) = server.read(&mut bytes) {
            said.fetch_add(len as u64, Ordering::SeqCst);
            if client.write_all(&bytes[..len]).is_err() {
                break;
            }
        }
        drop(client.shutdown(Shutdown::Both));
    });
}

#[test]
fn a_server_sends_little_if_queries_show_little() {
    let tables = esker_table::Tables::open_in_memory(esker::Options::default()).unwrap();
    fill(&mut Session::new(tables.clone()), 100);
    let listen = "127.0.0.1:0".parse().unwrap();
    let server = Server::bind(tables, Config { listen, ..Config::default() }).unwrap();
    let (address, stopper) = (server.address(), server.stopper());
    let listener = TcpListener::bind(listen).unwrap();
    let port = listener.local_addr().unwrap().port();
    let said = Arc::new(AtomicU64::new(0));
    /// Ends the server, and with it the connection, also when the test fails.
    struct End(esker_thrift::Stopper);
    impl Drop for End {
        fn drop(&mut self) {
            self.0.stop();
        }
    }
    std::thread::scope(|scope| {
        let running = scope.spawn(move || server.run());
        let end = End(stopper);
        let said_too = Arc::clone(&said);
        scope.spawn(move || carry(&listener, address, &said_too));
        let session = &mut Session::new(Remote::connect("127.0.0.1", port, None).unwrap());
        let cases = [
            // Of 200 rows and 400 cells of 100 bytes: 60,000 bytes and more. Of the wide row, 2,000,000.
            ("SELECT * FROM t WHERE ROW REGEXP '^a1'", 20, 6_000),
            ("SELECT * FROM t WHERE (ROW REGEXP '^a1' OR ROW = 'z99') REVERSED", 22, 12_000),
            ("SELECT f:^q0500 FROM t WHERE ROW = 'm'", 10, 6_000),
            ("SELECT f:/^q0500/ FROM t WHERE ROW = 'm'", 10, 6_000),
            ("SELECT * FROM t WHERE ROW < 'm' OFFSET 98", 4, 8_000),
            ("SELECT * FROM t OFFSET 199 LIMIT 2", 4, 16_000),
            ("SELECT * FROM t OFFSET 199 LIMIT 2 REVERSED", 4, 16_000),
            ("SELECT h FROM t WHERE ROW < 'm' CELL_OFFSET 98", 2, 8_000),
        ];
        for (text, expected, bytes_max) in cases {
            let before = said.load(Ordering::SeqCst);
            let (shown, _) = shown_and_read(session, text);
            let bytes = said.load(Ordering::SeqCst) - before;
            println!("{text}: {bytes} bytes");
            assert_eq!(shown, expected, "{text}");
            assert!(bytes <= bytes_max, "{text}: {bytes} bytes");
        }
        drop(end);
        running.join().unwrap().unwrap();
    });
}

/// On a full disk an `INSERT` is refused. Each form of `DELETE` is taken, and its space comes back without a write.
#[test]
fn deletes_free_a_full_disk() {
    let deletes = [
        "DELETE * FROM t WHERE ROW >= ''",
        "DELETE * FROM t WHERE ROW =^ 'r'",
        "DELETE f FROM t WHERE ROW REGEXP '^r'",
        "DELETE f:a FROM t WHERE ROW =^ 'r'",
        "DELETE f:a FROM t WHERE ROW =^ 'r' TIMESTAMP '2100-01-01'",
        "DELETE f:a FROM t WHERE ROW =^ 'r' VERSION 7",
        "TRUNCATE TABLE t",
    ];
    for &delete in test_kit::some_of(&deletes) {
        let (disk, seed) = (SimFs::new(1), test_kit::seed(1));
        let mut rng = Rng::new(seed);
        let env = Env { fs: Arc::new(disk.clone()), ..Env::system() };
        let options = esker::Options::default().memory_budget(8 << 20).env(env);
        let session = &mut Session::new(esker_table::Tables::open("store", options).unwrap());
        let run = |session: &mut Session, text: &str| {
            let mut answers =
                statements(text.as_bytes()).map(|statement| session.execute(statement.unwrap().statement));
            answers.next().unwrap()
        };
        let mut insert = |session: &mut Session, row: u32| {
            let value: String = rng.bytes(500).iter().map(|byte| format!("{byte:02x}")).collect();
            let text = format!("INSERT INTO t VALUES (7, 'r{row:06}', f:a, '{value}')");
            run(session, &text)
        };
        // A limited family keeps a deleted version.
        run(session, "CREATE TABLE t (f MAX_VERSIONS ALL)").unwrap();
        disk.set_capacity(Some(24 << 20));
        let mut rows = 0;
        let refused = loop {
            match insert(session, rows) {
                Ok(_) => rows += 1,
                Err(error) => break error,
            }
            assert!(rows < 100_000, "the disk never became full");
        };
        assert!(refused.to_string().contains("the disk is full"), "{refused}");
        let name = format!("ESKER_SEED={seed}: {delete}, {rows} rows");
        run(session, delete).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(shown_and_read(session, "SELECT * FROM t").0, 0, "{name}");
        // Other threads give it back.
        let is_free = (0..LOOKS_MAX).any(|_| {
            std::thread::sleep(Duration::from_millis(10));
            disk.used() <= 12 << 20
        });
        assert!(is_free, "{name}: {} bytes are used", disk.used());
        insert(session, rows).unwrap_or_else(|error| panic!("{name}: {error}"));
    }
}

/// `DELETE` begins a new query after 10,000 rows. It deletes each row once.
#[test]
fn deletes_of_many_rows_find_each_once() {
    let tables = esker_table::Tables::open_in_memory(esker::Options::default()).unwrap();
    let session = &mut Session::new(tables);
    let rows: Vec<String> =
        (0..25_000).map(|row| format!("('r{row:05}', f:a, 'x'), ('r{row:05}', g:b, 'y')")).collect();
    let mut text =
        String::from("CREATE TABLE t (f, g); INSERT INTO t VALUES ('a', f:a, 'x'), ('z', g:b, 'y');");
    for some in rows.chunks(5000) {
        text += &format!("INSERT INTO t VALUES {};", some.join(", "));
    }
    let run = |session: &mut Session, text: &str| {
        let answers =
            statements(text.as_bytes()).map(|statement| session.execute(statement.unwrap().statement));
        answers.map(Result::unwrap).last().unwrap()
    };
    run(session, &text);
    let cases = [
        ("DELETE f:a FROM t WHERE ROW =^ 'r'", 25_000),
        ("DELETE f:a FROM t WHERE ROW =^ 'r'", 0),
        ("DELETE * FROM t WHERE ROW >= 'r1' AND ROW < 'r23'", 13_000),
        ("DELETE * FROM t WHERE ROW REGEXP '^r.*[0-4]$'", 6000),
        ("DELETE * FROM t WHERE ROW >= 'a'", 6002),
    ];
    for (text, count) in cases {
        let Answer::Number(deleted) = run(session, text) else { panic!("{text}") };
        assert_eq!(deleted, count, "{text}");
    }
    assert_eq!(shown_and_read(session, "SELECT * FROM t").0, 0);
}
