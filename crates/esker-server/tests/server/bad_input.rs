//! Bytes that are no commands: the server says so, or closes the connection, and serves others.

use crate::client::{Value, encoded};
use crate::host::{Host, wait_until};
use test_kit::Rng;

#[test]
fn what_breaks_the_protocol_ends_the_connection() {
    let host = Host::start();
    let long = "x".repeat(1 << 20);
    for (bytes, message) in [
        ("*x\r\n", "invalid multibulk length"),
        ("*2147483648\r\n", "invalid multibulk length"),
        ("*1048577\r\n", "invalid multibulk length"),
        ("*1\r\nPING\r\n", "expected '$', got 'P'"),
        ("*1\r\n\r\n", "expected '$', got ' '"),
        ("*1\r\n$-1\r\n", "invalid bulk length"),
        ("*1\r\n$x\r\n", "invalid bulk length"),
        ("*2\r\n$3\r\nGET\r\n$2147483648\r\n", "invalid bulk length"),
        ("*2\r\n$3\r\nGET\r\n$536870913\r\n", "invalid bulk length"),
        ("*2\r\n$3\r\nGET\r\n$99999999999999999999\r\n", "invalid bulk length"),
        ("SET a \"b\r\n", "unbalanced quotes in request"),
        ("SET a 'b\r\n", "unbalanced quotes in request"),
        ("SET a \"b\"c\r\n", "unbalanced quotes in request"),
        (long.as_str(), "too big inline request"),
        (&("*".to_owned() + &long), "too big mbulk count string"),
        (&("*1\r\n$".to_owned() + &long), "too big bulk count string"),
    ] {
        let mut client = host.client();
        let shown = &bytes[..bytes.len().min(40)];
        client.check("PING => +PONG");
        // The server may have closed before all of it is sent.
        let _ = client.try_send_bytes(bytes.as_bytes());
        let replies: Vec<String> = client.read_to_end().iter().map(Value::to_string).collect();
        if bytes.len() < 100 {
            assert_eq!(replies, [format!("-ERR Protocol error: {message}")], "{shown:?}");
        }
    }
    let mut client = host.client();
    client.check("PING => +PONG");
    wait_until("all of them have gone", || client.figure("connected_clients") == 1);
}

/// A browser that was made to send a request here gets no further.
#[test]
fn requests_of_browsers() {
    let host = Host::start();
    for request in [
        "POST / HTTP/1.1\r\nSET a 1\r\n",
        "GET / HTTP/1.1\r\nHost: localhost\r\nSET a 1\r\n",
        "host: x\r\nSET a 1\r\n",
    ] {
        let mut client = host.client();
        client.send_bytes(request.as_bytes());
        assert!(client.read_to_end().iter().all(Value::is_error), "{request}");
        host.client().check("EXISTS a => :0");
    }
}

/// A client that speaks TLS to an address without is not left to wait.
#[test]
fn tls_where_there_is_none() {
    let host = Host::start();
    let mut client = host.client();
    client.send_bytes(&[0x16, 3, 1, 0, 45, 1, 0, 0, 41, 3, 3]);
    assert!(client.is_closed());
    wait_until("it counts as closed", || host.client().figure("closed_protocol_connections") == 1);
}

/// Beginnings of commands, and then nothing more, or the end.
#[test]
fn half_commands() {
    let host = Host::start();
    let whole = encoded(&["SET", "key", "value"]);
    let mut kept = Vec::new();
    for len in 0..whole.len() {
        let mut client = host.client();
        client.send_bytes(&whole[..len]);
        if len % 2 == 0 {
            client.end_of_input();
            assert!(client.is_closed());
        } else {
            kept.push((len, client));
        }
    }
    // A length is no memory.
    let mut claims: Vec<_> = (0..20).map(|_| host.client()).collect();
    claims.iter_mut().for_each(|client| client.send_bytes(b"*1048576\r\n$536870912\r\nabc"));
    host.client().check("EXISTS key => :0");
    for (len, mut client) in kept {
        client.send_bytes(&whole[len..]);
        assert_eq!(client.read().to_string(), "+OK");
    }
}

#[test]
fn random_bytes() {
    let host = Host::start();
    let mut random = Rng::new(3);
    let pieces: Vec<Vec<u8>> = vec![
        b"*3\r\n".to_vec(),
        b"$3\r\n".to_vec(),
        b"SET".to_vec(),
        b"\r\n".to_vec(),
        b"$-5\r\n".to_vec(),
        b"*-2\r\n".to_vec(),
        b"MULTI\r\n".to_vec(),
        b"EXEC\r\n".to_vec(),
        b"BLPOP a 0.001\r\n".to_vec(),
        b"SUBSCRIBE c\r\n".to_vec(),
        b"\"".to_vec(),
        b"\0".to_vec(),
        b"HELLO 3\r\n".to_vec(),
        encoded(&["EVAL", "x", "0"]),
        encoded(&["LRANGE", "a", "-1", "99999999999"]),
        encoded(&["SETRANGE", "a", "1000000", "x"]),
        encoded(&["WATCH", "a"]),
        encoded(&["CLIENT", "REPLY", "SKIP"]),
    ];
    for round in 0..300 {
        let mut client = host.client();
        let mut bytes = Vec::new();
        for _ in 0..random.index(30) {
            if random.index(6) == 0 {
                (0..random.index(60)).for_each(|_| bytes.push(random.index(256) as u8));
            } else {
                bytes.extend_from_slice(&pieces[random.index(pieces.len())]);
            }
        }
        let _ = client.try_send_bytes(&bytes);
        if round % 2 == 0 {
            client.end_of_input();
            // Whatever comes are replies.
            client.read_to_end();
        }
    }
    let mut client = host.client();
    client.check("PING => +PONG");
    wait_until("all of them have gone", || client.figure("connected_clients") == 1);
}

#[test]
fn commands_with_many_arguments() {
    let host = Host::start();
    let mut client = host.client();
    for count in [1000, 10_000, 200_000] {
        let mut set = vec!["MSET".to_owned()];
        let mut get = vec!["MGET".to_owned()];
        for number in 0..count / 2 {
            set.extend([format!("k{number}"), number.to_string()]);
            get.push(format!("k{number}"));
        }
        assert_eq!(client.call_with(&set).to_string(), "+OK");
        let Value::Array(values) = client.call_with(&get) else { panic!("no values") };
        assert_eq!(values.len(), count / 2);
        assert!(
            values.iter().enumerate().all(|(number, value)| value.bytes() == number.to_string().as_bytes())
        );
        get[0] = "DEL".to_owned();
        assert_eq!(client.call_with(&get).integer(), count as i64 / 2);
    }
    let mut push = vec!["RPUSH", "list"];
    push.resize(10_002, "x");
    assert_eq!(client.call_with(&push).integer(), 10_000);
    assert!(client.call_with(&vec!["PING"; 10_000]).is_error());
    assert!(client.call_with(&vec!["x".repeat(200); 1000]).is_error());
    client.check("PING => +PONG");
}

/// A long argument whose bytes come slowly, while others are served.
#[test]
fn a_long_argument_in_pieces() {
    let host = Host::start();
    let (mut client, mut other) = (host.client(), host.client());
    let value: Vec<u8> = (0..8 << 20).map(|byte: u32| (byte / 3) as u8).collect();
    let bytes = encoded(&[b"SET", &b"k"[..], &value]);
    let (begin, end) = bytes.split_at(bytes.len() - 1);
    for piece in begin.chunks(100_000) {
        client.send_bytes(piece);
        other.check("EXISTS k => :0");
    }
    client.send_bytes(end);
    assert_eq!(client.read().to_string(), "+OK");
    assert_eq!(other.call("GET k").bytes(), value);
    // Beyond the limit it is refused before its bytes come.
    other.check("CONFIG SET proto-max-bulk-len 1mb => +OK");
    client.send_bytes(b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$1048577\r\n");
    assert_eq!(client.read().to_string(), "-ERR Protocol error: invalid bulk length");
    assert!(client.is_closed());
}
