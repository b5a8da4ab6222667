//! Clients that send what no client should, too much, or half of it; and clients that go, wait and are many.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::process::Command;
use std::time::{Duration, Instant};

use esker_table::Tables;
use esker_thrift::{Config, Server};

use crate::client::{Client, FORMS, Form, Value, message, text};
use crate::{Serving, randomness, serve, serve_tables, serve_with};

const FORM: Form = FORMS[0];

/// Sends bytes to a new connection, and returns what comes back until the server closes it.
fn sent(serving: &Serving, bytes: &[u8]) -> Vec<u8> {
    let mut stream = TcpStream::connect(serving.address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    // The server may have closed before all is sent.
    let _ = stream.write_all(bytes);
    let mut got = Vec::new();
    match stream.read_to_end(&mut got) {
        Ok(_) => {}
        Err(error) if error.kind() == ErrorKind::ConnectionReset => {}
        Err(error) => panic!("the server leaves the connection open: {error}"),
    }
    got
}

fn contains(bytes: &[u8], part: &str) -> bool {
    bytes.windows(part.len()).any(|window| window == part.as_bytes())
}

fn is_served(serving: &Serving) {
    for form in FORMS {
        assert_eq!(
            Client::new(serving.address, form).call("getThriftServerType", &[]),
            Ok(Some(Value::I32(1)))
        );
    }
}

/// The memory that the process has, in bytes.
fn resident() -> u64 {
    let pages = std::fs::read_to_string("/proc/self/statm").unwrap();
    pages.split(' ').nth(1).unwrap().parse::<u64>().unwrap() * 4096
}

#[test]
fn what_is_no_message_ends_its_connection_and_says_why() {
    let serving = serve();
    let head = |form: Form| message(form, "get", 1, &[]).len() - 1;
    let begun = |form: Form, more: &[u8]| {
        let mut bytes = message(form, "get", 1, &[]);
        bytes.truncate(head(form));
        bytes.extend_from_slice(more);
        bytes
    };
    let (binary, compact) = (FORMS[0], FORMS[2]);
    let cases: Vec<(&str, Vec<u8>, &str)> = vec![
        ("HTTP", b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n".to_vec(), "400 Bad Request"),
        ("TLS", vec![0x16, 3, 1, 0, 0xa5, 1, 0, 0], ""),
        ("a name of 2 GB", vec![0x80, 1, 0, 1, 0x7f, 0xff, 0xff, 0xff], "more than 67108864 bytes"),
        ("a frame of 2 GB", vec![0x7f, 0xff, 0xff, 0xff, 0x80, 1, 0, 1], "more than 67108864 bytes"),
        ("a negative length", vec![0x80, 1, 0, 1, 0xff, 0xff, 0xff, 0xff], "negative"),
        ("another version", vec![0x80, 2, 0, 1, 0, 0, 0, 0], "version"),
        ("a value of 2 GB", begun(binary, &[11, 0, 1, 0x7f, 0xff, 0xff, 0xff]), "more than 67108864 bytes"),
        (
            "2^31 elements",
            begun(binary, &[15, 0, 3, 11, 0x7f, 0xff, 0xff, 0xff, 0, 0, 0]),
            "more than 67108864 bytes",
        ),
        (
            "2^30 pairs",
            begun(binary, &[13, 0, 9, 11, 11, 0x3f, 0xff, 0xff, 0xff, 0, 0, 0]),
            "more than 67108864 bytes",
        ),
        ("a type that is none", begun(binary, &[99, 0, 1]), "no type"),
        ("deep, binary", begun(binary, &[12, 0, 9].repeat(100_000)), "deeper"),
        ("deep, compact", begun(compact, &[0x1c].repeat(100_000)), "deeper"),
        ("deep lists", begun(compact, &[&[0x19][..], &[0x19].repeat(100_000)].concat()), "deeper"),
        ("a long varint", begun(compact, &[&[0x18][..], &[0xff; 11]].concat()), "10 bytes"),
        (
            "a frame that ends early",
            [&[0, 0, 0, 8][..], &[0x80, 1, 0, 1, 0, 0, 0, 3]].concat(),
            "within a value",
        ),
    ];
    for (what, bytes, reason) in cases {
        if reason.is_empty() {
            // The server may wait for more, which does not come.
            let mut stream = TcpStream::connect(serving.address).unwrap();
            let _ = stream.write_all(&bytes);
        } else {
            let got = sent(&serving, &bytes);
            assert!(contains(&got, reason), "{what}: {:?}", got.escape_ascii().to_string());
        }
        is_served(&serving);
    }
}

/// What a client sends may be long and full of bytes that no text can show; a message shows its beginning.
#[test]
fn messages_about_long_names_are_short() {
    let serving = serve();
    let mut client = Client::new(serving.address, FORM);
    let (long, bytes) = ("\u{1}".repeat(100_000), Value::Bytes(vec![0xff; 100_000]));
    let table = [(1, bytes.clone()), (2, text("r"))];
    for (method, arguments) in [
        (long.as_str(), &[][..]),
        ("getRow", &table),
        ("getRow", &[(1, text(&long))]),
        ("createTable", &[(1, bytes.clone())]),
        ("eskerSchema", &[(1, bytes)]),
        ("eskerCreateTable", &[(1, text("t")), (2, text(&format!("<{long}/>")))]),
    ] {
        let Err((_, message)) = client.call(method, arguments) else { panic!() };
        assert!(message.len() < 2000, "{} bytes", message.len());
    }
}

#[test]
fn unknown_methods_and_answers_are_refused_and_the_connection_goes_on() {
    let serving = serve();
    for form in FORMS {
        let mut client = Client::new(serving.address, form);
        let arguments =
            [(7, Value::List(vec![Value::Struct(vec![(1, Value::Byte(1))])])), (900, Value::Bool(true))];
        let reply = client.call("getEverything", &arguments);
        assert_eq!(reply, Err((0, "there is no method \"getEverything\"".to_owned())));
        // A field that no method has, and one of another type than the method's.
        let arguments = [(1, Value::I64(1)), (900, Value::Map(vec![(text("a"), text("b"))]))];
        let Err((1, message)) = client.call("getRow", &arguments) else { panic!() };
        assert!(message.contains("the name of a table"), "{message}");

        let mut answer = message_of_type(form, 2);
        client.stream.write_all(&answer).unwrap();
        assert!(matches!(client.reply("getClusterId", 5), Err((0, _))));
        // A call that wants no answer gets none: the next answer is that of the next call.
        answer = message_of_type(form, 4);
        client.stream.write_all(&answer).unwrap();
        assert_eq!(client.call("getThriftServerType", &[]), Ok(Some(Value::I32(1))));
    }
}

fn message_of_type(form: Form, code: u8) -> Vec<u8> {
    let mut bytes = message(form, "getClusterId", 5, &[]);
    let at = if form.is_framed { 4 } else { 0 };
    if form.is_compact {
        bytes[at + 1] = code << 5 | 1;
    } else {
        bytes[at + 3] = code;
    }
    bytes
}

#[test]
fn random_bytes_hurt_nobody_else() {
    let mut random = randomness(0x1234_5678);
    let serving = serve();
    let good: Vec<Vec<u8>> = FORMS
        .iter()
        .flat_map(|form| {
            let scan = Value::Struct(vec![(1, text("a")), (4, Value::List(vec![text("f"); 20]))]);
            let batch = Value::Struct(vec![
                (1, text("r")),
                (2, Value::List(vec![Value::Struct(vec![(2, text("f:q"))])])),
            ]);
            [
                message(*form, "scannerOpenWithScan", 1, &[(1, text("t")), (2, scan)]),
                message(*form, "mutateRows", 2, &[(1, text("t")), (2, Value::List(vec![batch.clone(); 3]))]),
                message(*form, "eskerMutateRows", 3, &[(1, text("t")), (2, Value::List(vec![batch; 3]))]),
                message(*form, "eskerAlterTable", 4, &[(1, text("t")), (2, text("<Schema table=\"1\"/>"))]),
            ]
        })
        .collect();
    for round in 0..2000 {
        let mut bytes = good[random(good.len())].clone();
        for _ in 0..=random(4) {
            match random(3) {
                0 => {
                    let at = random(bytes.len());
                    bytes[at] = random(256) as u8;
                }
                1 => bytes.truncate(random(bytes.len()).max(1)),
                _ => bytes.extend((0..random(100)).map(|_| random(256) as u8)),
            }
        }
        let mut stream = TcpStream::connect(serving.address).unwrap();
        let _ = stream.write_all(&bytes);
        if round % 100 == 0 {
            is_served(&serving);
        }
    }
    is_served(&serving);
}

#[test]
fn lengths_take_no_memory_before_the_bytes_are_there() {
    // The memory of a process is measured, so it is one without other tests.
    const ALONE: &str = "ESKER_TEST_ALONE";
    if std::env::var_os(ALONE).is_none() {
        let name = "hostile::lengths_take_no_memory_before_the_bytes_are_there";
        let mut alone = Command::new(std::env::current_exe().unwrap());
        let done = alone.args(["--exact", name]).env(ALONE, "1").output().unwrap();
        let said = String::from_utf8_lossy(&done.stdout);
        assert!(done.status.success() && said.contains("1 passed"), "{said}");
        return;
    }
    let serving = serve();
    is_served(&serving);
    let before = resident();
    let connections: Vec<TcpStream> = (0..200)
        .map(|number| {
            let mut stream = TcpStream::connect(serving.address).unwrap();
            let frame: &[u8] = &[3, 0xff, 0xff, 0xff, 0x80, 1, 0, 1, 0, 0];
            let value: &[u8] =
                &[0x80, 1, 0, 1, 0, 0, 0, 3, b'g', b'e', b't', 0, 0, 0, 1, 11, 0, 1, 3, 0xff, 0xff, 0];
            stream.write_all(if number % 2 == 0 { frame } else { value }).unwrap();
            stream
        })
        .collect();
    is_served(&serving);
    let more = resident().saturating_sub(before);
    assert!(more < 100 << 20, "{more} bytes for {} connections that said 64 MB", connections.len());
}

#[test]
fn messages_share_a_limit_which_they_give_back() {
    let serving = serve_with(&Config { messages_len_max: 4 << 20, ..Config::default() });
    let of_len = |len| message(FORM, "getRow", 1, &[(1, text(&"x".repeat(len)))]);
    let (fits, is_too_long) = (of_len(3 << 20), of_len(5 << 20));
    for _ in 0..5 {
        let refused = sent(&serving, &is_too_long);
        assert!(contains(&refused, "too much memory"), "{} bytes came back", refused.len());
        gets_through(&serving, &fits);
        // One that goes within a message.
        Client::new(serving.address, FORM).stream.write_all(&fits[..fits.len() / 2]).unwrap();
        is_served(&serving);
    }
    // Several at once: some may have to come again, and all get through.
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| gets_through(&serving, &fits));
        }
    });
}

/// Sends a message until there is room for it. The server may not know yet that a client has gone who had some.
fn gets_through(serving: &Serving, message: &[u8]) {
    let until = Instant::now() + Duration::from_secs(60);
    while !contains(&sent_and_closed(serving, message), "the name of a table") {
        assert!(Instant::now() < until, "the room stays taken");
    }
}

#[test]
fn half_a_message_must_become_whole_but_silence_may_last() {
    let limit = Duration::from_millis(300);
    let serving = serve_with(&Config { message_time: limit, ..Config::default() });
    let mut silent = Client::new(serving.address, FORM);
    assert!(silent.call("getTableNames", &[]).is_ok());
    let begun = Instant::now();
    for form in FORMS {
        let whole = message(form, "getTableNames", 1, &[]);
        let got = sent(&serving, &whole[..whole.len() - 1]);
        assert!(contains(&got, "not there within"), "{form:?}");
    }
    assert!(begun.elapsed() > 4 * limit);
    assert!(silent.call("getTableNames", &[]).is_ok());
}

#[test]
fn a_client_that_takes_nothing_is_closed() {
    let limit = Duration::from_secs(2);
    let serving = serve_with(&Config { message_time: limit, ..Config::default() });
    let mut deaf = Client::new(serving.address, FORM);
    fill(&mut deaf, 1, 20 << 20);
    let begun = Instant::now();
    deaf.stream.write_all(&message(FORM, "getRow", 1, &[(1, text("t")), (2, text("00000"))])).unwrap();
    // The system's own timeout of writes would take several times as long.
    let until = begun + 3 * limit;
    while serving.stopper.figures().open_connections > 0 {
        assert!(Instant::now() < until, "the connection stays");
        test_kit::pause();
    }
    assert!(begun.elapsed() >= limit, "not before its time");
}

/// Asks for the first row of the table of [`fill`].
fn ask_for_row(client: &mut Client) {
    client.stream.write_all(&message(FORM, "getRow", 1, &[(1, text("t")), (2, text("00000"))])).unwrap();
}

/// A client that asks for a row and does not read it. The system keeps little of it for the client.
fn slow_client(serving: &Serving) -> Client {
    let mut client = Client::new(serving.address, FORM);
    rustix::net::sockopt::set_socket_recv_buffer_size(&client.stream, 4096).unwrap();
    ask_for_row(&mut client);
    client
}

/// A client that reads slowly decides how long its answer is in memory, but not for how many others that is none.
#[test]
fn answers_share_a_limit_also_if_nobody_reads_them() {
    // More than the system has room for on the way.
    const LEN: usize = 24 << 20;
    let config = Config {
        message_len_max: 32 << 20,
        calls_len_max: 128 << 20,
        message_time: Duration::from_secs(20),
        ..Config::default()
    };
    let serving = serve_with(&config);
    let mut client = Client::new(serving.address, FORM);
    fill(&mut client, 1, LEN);
    let figures = || serving.stopper.figures();
    let slow: Vec<Client> = (0..8).map(|_| slow_client(&serving)).collect();
    let mut most = 0;
    let mut until = |is_so: &dyn Fn() -> bool, what: &str| {
        let begun = Instant::now();
        while !is_so() {
            most = most.max(figures().calls_len);
            assert!(begun.elapsed() < Duration::from_secs(60), "{what}");
            test_kit::pause();
        }
    };
    until(&|| figures().waiting_calls > 2, "calls wait for memory");
    // What is small waits for nobody.
    assert!(client.call("getTableNames", &[]).is_ok());
    // Those that have the memory go, and whoever reads gets what it asks for.
    until(&|| figures().slow_connections > 0, "slow clients are closed");
    ask_for_row(&mut client);
    client.stream.read_exact(&mut vec![0; LEN]).unwrap();
    drop((client, slow));
    until(&|| figures().calls_len == 0 && figures().waiting_calls == 0, "the memory is given back");
    // One may exceed the limit.
    assert!((64 << 20..(128 + 32 + 1) << 20).contains(&most), "{most} bytes");
}

/// Ten that each want a large cell get it, though there is memory for two at once.
#[test]
fn answers_wait_for_memory_that_others_have() {
    const LEN: usize = 12 << 20;
    let config = Config { message_len_max: 16 << 20, calls_len_max: 32 << 20, ..Config::default() };
    let serving = serve_with(&config);
    fill(&mut Client::new(serving.address, FORM), 1, LEN);
    let mut clients: Vec<Client> = (0..10).map(|_| Client::new(serving.address, FORM)).collect();
    clients.iter_mut().for_each(ask_for_row);
    let until = Instant::now() + Duration::from_secs(60);
    while serving.stopper.figures().waiting_calls < 5 {
        assert!(Instant::now() < until, "{:?}", serving.stopper.figures());
        test_kit::pause();
    }
    std::thread::scope(|scope| {
        for client in &mut clients {
            scope.spawn(|| client.stream.read_exact(&mut vec![0; LEN]).unwrap());
        }
    });
    let figures = serving.stopper.figures();
    assert!(figures.waited_calls >= 5 && figures.slow_connections == 0, "{figures:?}");
}

/// Calls come faster than their answers are read, and a scanner may be asked again: its rows are read ahead meanwhile.
#[test]
fn idle_clients_hold_little_memory() {
    let config = Config { message_len_max: 4 << 20, calls_len_max: 8 << 20, ..Config::default() };
    let serving = serve_with(&config);
    let mut client = Client::new(serving.address, FORM);
    fill(&mut client, 1, 3 << 20);
    let small = Value::List(vec![Value::Struct(vec![(1, text("f"))])]);
    assert_eq!(client.call("createTable", &[(1, text("s")), (2, small)]), Ok(None));
    for row in 0..10 {
        let put = Value::List(vec![Value::Struct(vec![(2, text("f:q")), (3, text("v"))])]);
        assert_eq!(
            client.call("mutateRow", &[(1, text("s")), (2, text(&row.to_string())), (3, put)]),
            Ok(None)
        );
    }
    let idle: Vec<Client> = (0..4)
        .map(|_| {
            let mut idle = Client::new(serving.address, FORM);
            let id = idle.call("scannerOpen", &[(1, text("s"))]).unwrap().unwrap();
            assert_eq!(count(&mut idle, &id, 1), Ok(1));
            let next = message(FORM, "scannerGetList", 1, &[(1, id), (2, Value::I32(1))]);
            let row = message(FORM, "getRow", 2, &[(1, text("t")), (2, text("00000"))]);
            idle.stream.write_all(&[next, row].concat()).unwrap();
            assert!(idle.reply("scannerGetList", 1).is_ok() && idle.reply("getRow", 2).is_ok());
            idle
        })
        .collect();
    // What they have asked for is sent; the server may still be about to give it back. It must not take until it looks at leases.
    let until = Instant::now() + config.scanner_lease / 8;
    while serving.stopper.figures().calls_len > 2 << 20 {
        assert!(Instant::now() < until, "{:?}", serving.stopper.figures());
        test_kit::pause();
    }
    ask_for_row(&mut client);
    client.stream.read_exact(&mut vec![0; 3 << 20]).unwrap();
    assert_eq!(serving.stopper.figures().slow_connections, 0);
    drop(idle);
}

/// The key of a row has 32 KiB at most, and each change of the row has it in the store.
#[test]
fn what_takes_far_more_than_its_message_is_refused() {
    let serving = serve();
    let mut client = Client::new(serving.address, FORM);
    fill(&mut client, 1, 10);
    let row = text(&"r".repeat(30_000));
    let puts = |count| Value::List(vec![Value::Struct(vec![(2, text("f:q")), (3, text("v"))]); count]);
    let mut put = |count| client.call("mutateRow", &[(1, text("t")), (2, row.clone()), (3, puts(count))]);
    let (_, message) = put(10_000).unwrap_err();
    assert!(message.contains("these have 300000000: send fewer changes"), "{message}");
    assert_eq!(put(1_000), Ok(None));

    let columns = |count| Value::List(vec![text("f:q"); count]);
    let arguments = |count| [(1, text("t")), (2, text("")), (3, columns(count))];
    let mut client = Client::new(serving.address, FORM);
    let (_, message) = client.call("scannerOpen", &arguments(200_000)).unwrap_err();
    assert!(message.contains("open scanners take more than"), "{message}");
    for _ in 0..3 {
        assert!(client.call("scannerOpen", &arguments(36_000)).is_ok());
    }
    assert!(client.call("scannerOpen", &arguments(36_000)).is_err());
}

/// A call `mutateRows` with so many puts, each of a row of its own, as happybase sends them.
fn batch_of_puts(puts: u32) -> Vec<u8> {
    let mut bytes = message(FORM, "mutateRows", 1, &[(1, text("t"))]);
    assert_eq!(bytes.pop(), Some(0), "the end of the arguments");
    bytes.extend([15, 0, 2, 12]);
    bytes.extend(puts.to_be_bytes());
    for put in 0..puts {
        bytes.extend(b"\x0b\0\x01\0\0\0\x07");
        bytes.extend(format!("{put:07}").as_bytes());
        bytes.extend(b"\x0f\0\x02\x0c\0\0\0\x01");
        bytes.extend(b"\x02\0\x01\0\x0b\0\x02\0\0\0\x03f:q\x0b\0\x03\0\0\0\x05value\x02\0\x04\x01\0\0");
    }
    bytes.push(0);
    bytes
}

/// What limits a batch is its memory, not the number of its elements.
#[test]
fn a_batch_may_have_very_many_small_puts() {
    let puts = if test_kit::is_quick() { 120_000 } else { 600_000 };
    let tables = Tables::open_in_memory(esker::Options::default()).unwrap();
    let serving = serve_tables(tables.clone(), &Config::default());
    let mut client = Client::new(serving.address, FORM);
    fill(&mut client, 0, 0);
    client.stream.set_read_timeout(None).unwrap();
    client.stream.write_all(&batch_of_puts(puts)).unwrap();
    assert_eq!(client.reply("mutateRows", 1), Ok(None));
    assert_eq!(serving.stopper.figures().calls_len, 0);
    let mut scan = tables.table("t").unwrap().scan("", "", &esker_table::Read::all()).unwrap();
    let mut found = 0;
    while scan.advance().unwrap() {
        found += 1;
    }
    assert_eq!(found, puts);
    is_served(&serving);
}

/// Elements that have a byte in the message are refused before they take their memory.
#[test]
fn lists_of_empty_elements_are_refused_early() {
    const ELEMENTS: u32 = 2 << 20;
    let serving = serve();
    fill(&mut Client::new(serving.address, FORM), 0, 0);
    let mut bytes = message(FORM, "mutateRow", 1, &[(1, text("t"))]);
    assert_eq!(bytes.pop(), Some(0), "the end of the arguments");
    bytes.extend([15, 0, 3, 12]);
    bytes.extend(ELEMENTS.to_be_bytes());
    bytes.resize(bytes.len() + ELEMENTS as usize + 1, 0);
    let got = sent(&serving, &bytes);
    assert!(contains(&got, "more than 512 MiB of memory: send less"), "{:?}", got.escape_ascii().to_string());
    is_served(&serving);
}

/// A list's element may have a byte or a few, and takes far more while its call runs.
#[test]
fn calls_with_many_elements_wait_for_each_other() {
    const ROWS: usize = 150_000;
    let serving = serve_with(&Config { calls_len_max: 32 << 20, ..Config::default() });
    fill(&mut Client::new(serving.address, FORM), 1, 10);
    let rows = Value::List(vec![text("r"); ROWS]);
    let wanted = message(FORM, "getRows", 1, &[(1, text("t")), (2, rows)]);
    let mut clients: Vec<Client> = (0..4).map(|_| Client::new(serving.address, FORM)).collect();
    clients.iter_mut().for_each(|client| client.stream.write_all(&wanted).unwrap());
    let (mut most, mut most_waiting) = (0, 0);
    std::thread::scope(|scope| {
        let answered = scope.spawn(|| {
            for client in &mut clients {
                assert_eq!(client.reply("getRows", 1), Ok(Some(Value::List(Vec::new()))));
            }
        });
        while !answered.is_finished() {
            let figures = serving.stopper.figures();
            (most, most_waiting) = (most.max(figures.calls_len), most_waiting.max(figures.waiting_calls));
            test_kit::pause();
        }
    });
    // Of 512 bytes each, but for 512 KiB; and one call exceeds the limit.
    let one = ROWS as u64 * 512 - (512 << 10);
    assert!((one..(32 << 20) + one + (1 << 20)).contains(&most), "{most} bytes");
    assert!(most_waiting >= 2, "{most_waiting} calls waited");
}

#[test]
fn a_busy_client_does_not_keep_scanners_beyond_their_lease() {
    let lease = Duration::from_millis(400);
    let serving = serve_with(&Config { scanner_lease: lease, scanners_max: 1, ..Config::default() });
    let mut client = Client::new(serving.address, FORM);
    fill(&mut client, 10, 1000);
    let id = open(&mut client).unwrap();
    let until = Instant::now() + 3 * lease;
    while Instant::now() < until {
        assert!(client.call("getThriftServerType", &[]).is_ok());
    }
    assert!(count(&mut client, &id, 1).unwrap_err().contains("scanner ID is invalid"));
}

#[test]
fn messages_come_in_any_parts_and_many_at_once() {
    let serving = serve();
    for form in FORMS {
        let mut client = Client::new(serving.address, form);
        let one = message(form, "getClusterId", 3, &[(900, text("of no method"))]);
        for byte in &one {
            client.stream.write_all(&[*byte]).unwrap();
        }
        assert_eq!(client.reply("getClusterId", 3), Ok(Some(text("esker"))));
        client.stream.write_all(&one.repeat(500)).unwrap();
        for _ in 0..500 {
            assert_eq!(client.reply("getClusterId", 3), Ok(Some(text("esker"))));
        }
    }
}

/// Makes a table `t` with rows of one cell of `len` bytes.
fn fill(client: &mut Client, rows: usize, len: usize) {
    let families = Value::List(vec![Value::Struct(vec![(1, text("f"))])]);
    assert_eq!(client.call("createTable", &[(1, text("t")), (2, families)]), Ok(None));
    for row in 0..rows {
        let put = Value::Struct(vec![(2, text("f:q")), (3, Value::Bytes(vec![7; len]))]);
        let row = text(&format!("{row:05}"));
        assert_eq!(
            client.call("mutateRow", &[(1, text("t")), (2, row), (3, Value::List(vec![put]))]),
            Ok(None)
        );
    }
}

fn open(client: &mut Client) -> Result<Value, String> {
    client.call("scannerOpen", &[(1, text("t"))]).map(Option::unwrap).map_err(|(_, message)| message)
}

fn count(client: &mut Client, id: &Value, rows: i32) -> Result<usize, String> {
    match client.call("scannerGetList", &[(1, id.clone()), (2, Value::I32(rows))]) {
        Ok(Some(Value::List(rows))) => Ok(rows.len()),
        Err((_, message)) => Err(message),
        other => panic!("{other:?}"),
    }
}

#[test]
fn answers_are_limited() {
    let serving = serve_with(&Config { message_len_max: 1 << 20, ..Config::default() });
    let mut client = Client::new(serving.address, FORM);
    fill(&mut client, 20, 100_000);
    let id = open(&mut client).unwrap();
    // A list ends early, and the scanner goes on behind it.
    let mut counts = Vec::new();
    while counts.last() != Some(&0) {
        counts.push(count(&mut client, &id, i32::MAX).unwrap());
    }
    assert_eq!(counts.iter().sum::<usize>(), 20);
    assert_eq!(counts[0], 6);
    let all = Value::List((0..20).map(|row| text(&format!("{row:05}"))).collect());
    let Err((1, error)) = client.call("getRows", &[(1, text("t")), (2, all)]) else { panic!() };
    assert!(error.contains("more than 1048576 bytes"), "{error}");
    assert!(client.call("getTableNames", &[]).is_ok());
    // A scanner that has failed has a number until it is closed: happybase closes it before it shows the error.
    for qualifier in ["f:a", "f:b", "f:c"] {
        let put = Value::Struct(vec![(2, text(qualifier)), (3, Value::Bytes(vec![7; 400_000]))]);
        let put = [(1, text("t")), (2, text("00010")), (3, Value::List(vec![put]))];
        assert_eq!(client.call("mutateRow", &put), Ok(None));
    }
    let id = open(&mut client).unwrap();
    assert_eq!(count(&mut client, &id, 10), Ok(6));
    assert_eq!(count(&mut client, &id, 4), Ok(4));
    for expected in ["more than 1048576 bytes", "has failed", "has failed"] {
        let error = count(&mut client, &id, 1).unwrap_err();
        assert!(error.contains(expected), "{error}");
    }
    assert_eq!(client.call("scannerClose", &[(1, id.clone())]), Ok(None));
    assert!(count(&mut client, &id, 1).unwrap_err().contains("scanner ID is invalid"));
}

#[test]
fn scanners_end_with_their_connection_by_their_lease_and_at_a_number() {
    let config = Config { scanners_max: 3, scanner_lease: Duration::from_millis(400), ..Config::default() };
    let serving = serve_with(&config);
    let mut client = Client::new(serving.address, FORM);
    fill(&mut client, 10, 1000);
    let ids: Vec<Value> = (0..3).map(|_| open(&mut client).unwrap()).collect();
    let error = open(&mut client).unwrap_err();
    assert!(error.contains("too many open scanners"), "{error}");
    // One goes in mid-scan.
    let mut gone = Client::new(serving.address, FORM);
    let id = open(&mut gone).unwrap();
    gone.stream.write_all(&message(FORM, "scannerGet", 1, &[(1, id)])).unwrap();
    drop(gone);
    let until = Instant::now() + Duration::from_millis(600);
    while Instant::now() < until {
        assert_eq!(count(&mut client, &ids[0], 0), Ok(0));
    }
    assert_eq!(count(&mut client, &ids[0], 1), Ok(1));
    assert!(count(&mut client, &ids[1], 1).unwrap_err().contains("scanner ID is invalid"));
    assert!(open(&mut client).is_ok());
}

#[test]
fn one_connection_too_many_is_closed() {
    let serving = serve_with(&Config { connections_max: 2, ..Config::default() });
    let mut first = Client::new(serving.address, FORM);
    let second = Client::new(serving.address, FORM);
    assert!(first.call("getTableNames", &[]).is_ok());
    assert_eq!(sent(&serving, &message(FORM, "getTableNames", 1, &[])), b"");
    drop(second);
    // Its place is free when the server has noticed.
    let until = Instant::now() + Duration::from_secs(10);
    while sent_and_closed(&serving, &message(FORM, "getTableNames", 1, &[])).is_empty() {
        assert!(Instant::now() < until, "the place stays taken");
    }
    assert!(first.call("getTableNames", &[]).is_ok());
}

/// Sends bytes, ends the sending side, and returns the answer.
fn sent_and_closed(serving: &Serving, bytes: &[u8]) -> Vec<u8> {
    let mut stream = TcpStream::connect(serving.address).unwrap();
    let _ = stream.write_all(bytes);
    let _ = stream.shutdown(std::net::Shutdown::Write);
    let mut got = Vec::new();
    let _ = stream.read_to_end(&mut got);
    got
}

#[test]
fn a_server_ends_while_clients_are_connected() {
    let mut serving = serve();
    let mut client = Client::new(serving.address, FORM);
    assert!(client.call("getTableNames", &[]).is_ok());
    let begun = Instant::now();
    serving.end();
    assert!(begun.elapsed() < Duration::from_secs(5));
    assert_eq!(client.stream.read(&mut [0; 10]).unwrap(), 0);
    assert!(TcpStream::connect(serving.address).is_err());
}

#[test]
fn addresses_that_others_reach_are_refused() {
    for address in ["0.0.0.0:0", "192.0.2.1:9090", "[::]:0"] {
        let tables = Tables::open_in_memory(esker::Options::default()).unwrap();
        let config = Config { listen: address.parse().unwrap(), ..Config::default() };
        let error = Server::bind(tables, config).unwrap_err().to_string();
        assert!(error.contains("other machines"), "{error}");
    }
}
