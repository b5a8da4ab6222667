//! Many commands at once: their replies come in order, however the bytes are cut, and whatever does the commands.

use std::thread;

use test_kit::Rng;

use crate::client::{Client, Value, encoded, encoded_line};
use crate::host::Host;

const COMMANDS: usize = 100_000;

/// Sends `bytes`, in pieces if `most` says how long these are at most, while the replies are read.
fn send_and_read(
    mut client: Client,
    bytes: Vec<u8>,
    most: Option<usize>,
    mut read: impl FnMut(usize, &Value),
) {
    let mut writer = client.writer();
    let sender = thread::spawn(move || {
        let (mut rest, mut random) = (bytes.as_slice(), Rng::new(7));
        while !rest.is_empty() {
            let len = most.map_or(rest.len(), |most| (1 + random.index(most)).min(rest.len()));
            writer.send_bytes(&rest[..len]);
            rest = &rest[len..];
        }
        writer.end_of_input();
    });
    let mut count = 0;
    while let Some(value) = client.try_read().unwrap() {
        read(count, &value);
        count += 1;
    }
    sender.join().unwrap();
    read(count, &Value::Null);
}

#[test]
fn a_hundred_thousand_commands() {
    let host = Host::start();
    let mut bytes = Vec::new();
    for number in 0..COMMANDS {
        match number % 4 {
            0 => bytes.extend(encoded_line("INCR count")),
            1 => bytes.extend(encoded_line(&format!("PING {number}"))),
            2 => bytes.extend(format!("SET k{} {number}\r\n", number % 1000).bytes()),
            _ => bytes.extend(encoded_line(&format!("GET k{}", (number - 1) % 1000))),
        }
    }
    let mut small = 0;
    for (most, make) in [(None, true), (Some(100_000), false), (Some(500), true)] {
        let client = if make { host.client() } else { host.unix_client() };
        send_and_read(client, bytes.clone(), most, |number, value| match number {
            COMMANDS => assert_eq!(value, &Value::Null),
            number => match number % 4 {
                0 => {
                    small += 1;
                    assert_eq!(value.integer(), small);
                }
                2 => assert_eq!(value.to_string(), "+OK"),
                1 => assert_eq!(value.to_string(), number.to_string()),
                _ => assert_eq!(value.to_string(), (number - 1).to_string()),
            },
        });
    }
    assert_eq!(small, 3 * COMMANDS as i64 / 4);
}

/// Bytes one by one.
#[test]
fn commands_cut_everywhere() {
    let host = Host::start();
    let mut bytes = Vec::new();
    for number in 0..20 {
        bytes.extend(encoded_line(&format!("RPUSH list {number}")));
        bytes.extend(b"PING 'a b'\r\n");
        bytes.extend(encoded(&[b"SET", &b"k"[..], &[b'\r'; 40]]));
    }
    send_and_read(host.client(), bytes, Some(1), |number, value| match (number, number % 3) {
        (60, _) => assert_eq!(value, &Value::Null),
        (_, 0) => assert_eq!(value.integer(), number as i64 / 3 + 1),
        (_, 1) => assert_eq!(value.to_string(), "a b"),
        _ => assert_eq!(value.to_string(), "+OK"),
    });
}

/// Values of 1 MiB and large collections are work for the pool; what stands around them is not.
#[test]
fn commands_in_the_pool_among_others() {
    let host = Host::start();
    let mut client = host.client();
    let members: Vec<String> = (0..5000).map(|member| format!("m{member:04}")).collect();
    let add: Vec<&str> = ["SADD", "set"].into_iter().chain(members.iter().map(String::as_str)).collect();
    assert_eq!(client.call_with(&add).integer(), 5000);
    let huge = vec![b'x'; 1 << 20];
    let mut bytes = Vec::new();
    for number in 0..400 {
        bytes.extend(encoded_line("INCR count"));
        match number % 8 {
            0 => bytes.extend(encoded(&[b"SET", &b"huge"[..], &huge])),
            2 => bytes.extend(encoded_line("APPEND huge y")),
            3 => bytes.extend(encoded_line("STRLEN huge")),
            4 => bytes.extend(encoded_line("SMEMBERS set")),
            6 => bytes.extend(encoded_line("SUNIONSTORE other set")),
            7 => bytes.extend(encoded_line("GET huge")),
            _ => bytes.extend(encoded_line("GET count")),
        }
    }
    send_and_read(client, bytes, Some(3 << 20), |at, value| {
        let number = at / 2;
        match (at % 2, number % 8) {
            _ if at == 800 => assert_eq!(value, &Value::Null),
            (0, _) => assert_eq!(value.integer(), number as i64 + 1),
            (_, 0) => assert_eq!(value.to_string(), "+OK"),
            (_, 2 | 3) => assert_eq!(value.integer(), (1 << 20) + 1),
            (_, 4) => assert!(matches!(value, Value::Array(members) if members.len() == 5000)),
            (_, 6) => assert_eq!(value.integer(), 5000),
            (_, 7) => {
                assert_eq!(value.bytes().len(), (1 << 20) + 1);
                assert_eq!(value.bytes().last(), Some(&b'y'));
            }
            _ => assert_eq!(value.to_string(), (number + 1).to_string()),
        }
    });
    assert!(host.client().figure("commands_in_pool") > 0, "the test is about nothing");
}

/// What one command of a pipeline has pushed goes to a client that waits, not to the next command.
#[test]
fn a_waiting_client_comes_before_the_rest_of_a_pipeline() {
    let host = Host::start();
    let mut waiting = host.client();
    waiting.send("BLPOP list 0");
    host.wait_for_blocked(1);
    let mut client = host.client();
    client.send_bytes(b"RPUSH list a\r\nLPOP list\r\nRPUSH list b\r\nLPOP list\r\n");
    let replies: Vec<String> = (0..4).map(|_| client.read().to_string()).collect();
    assert_eq!(replies, [":1", "$-1", ":1", "b"]);
    assert_eq!(waiting.read().to_string(), "[list a]");
}
