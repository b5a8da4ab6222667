//! Clients that do not read: they cost little memory, and others are served.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use crate::client::{Value, encoded, encoded_line};
use crate::host::{Host, SetAtEnd, wait_until};

/// Waits until the count stays as it is while other clients are served.
fn settled(mut count: impl FnMut() -> u64) -> u64 {
    let (mut last, mut same) = (count(), 0);
    while same < 500 {
        let now = count();
        same = if now == last { same + 1 } else { 0 };
        last = now;
    }
    last
}

#[test]
fn replies_wait_for_a_client_that_does_not_read() {
    const GETS: usize = 300;
    let host = Host::start();
    let mut other = host.client();
    let huge = vec![b'x'; 1 << 20];
    other.call_with(&[b"SET", &b"huge"[..], &huge]);
    other.call_with(&[b"SET", &b"long"[..], &huge[..60_000]]);
    for key in ["huge", "long"] {
        let before = other.calls_of("get");
        let mut client = host.unix_client();
        client.send_bytes(&encoded_line(&format!("GET {key}")).repeat(GETS));
        wait_until("it is served", || other.calls_of("get") > before);
        let calls = settled(|| other.calls_of("get")) - before;
        assert!(calls < 30, "{calls} replies of {key} were made and not read");
        // Nothing is lost by this.
        let len = if key == "huge" { 1 << 20 } else { 60_000 };
        for _ in 0..GETS {
            assert_eq!(client.read().bytes().len(), len);
        }
        client.check("PING => +PONG");
    }
}

#[test]
fn commands_wait_for_a_client_that_does_not_read() {
    let host = Host::start();
    let mut other = host.client();
    let client = host.unix_client();
    let mut writer = client.writer();
    let sender = thread::spawn(move || {
        let value = vec![b'x'; 1000];
        let pair = [encoded(&[b"SET", &b"k"[..], &value]), encoded_line("GET k")].concat();
        (0..100).for_each(|_| writer.send_bytes(&pair.repeat(300)));
    });
    let calls = settled(|| other.calls_of("set"));
    assert!(calls < 10_000, "{calls} commands were done whose replies were not read");
    let mut client = client;
    for _ in 0..30_000 {
        assert_eq!(client.read().to_string(), "+OK");
        assert_eq!(client.read().bytes().len(), 1000);
    }
    sender.join().unwrap();
}

/// Messages wait while a subscriber does not read, and all of them come when it does.
#[test]
fn messages_wait_for_a_subscriber() {
    let host = Host::start();
    let mut listening = host.unix_client();
    listening.check("SUBSCRIBE c => [subscribe c :1]");
    let mut client = host.client();
    let text = vec![b'x'; 100_000];
    for _ in 0..200 {
        assert_eq!(client.call_with(&[b"PUBLISH", &b"c"[..], &text]).integer(), 1);
    }
    for _ in 0..200 {
        let Value::Array(message) = listening.read() else { panic!("no message") };
        assert_eq!(message[2].bytes().len(), 100_000);
    }
}

/// It does not read for too long: it is disconnected before its messages fill the memory.
#[test]
fn a_subscriber_that_never_reads_is_disconnected() {
    let host = Host::start();
    let mut listening = host.unix_client();
    listening.check("SUBSCRIBE c => [subscribe c :1]");
    let mut client = host.client();
    let text = vec![b'x'; 1 << 20];
    let mut sent = 0;
    while client.call_with(&[b"PUBLISH", &b"c"[..], &text]).integer() == 1 {
        sent += 1;
        assert!(sent < 200, "{sent} MiB wait for a client");
    }
    assert!(sent >= 30, "{sent}");
    assert!(listening.read_to_end().len() < 10);
}

/// A client that goes while they are written takes nothing with it.
#[test]
fn a_client_goes_while_its_replies_are_written() {
    let host = Host::start();
    let mut other = host.client();
    let huge = vec![b'x'; 1 << 20];
    other.call_with(&[b"SET", &b"huge"[..], &huge]);
    for _ in 0..10 {
        let mut client = host.unix_client();
        client.send_bytes(&encoded_line("GET huge").repeat(20));
        assert_eq!(client.read().bytes().len(), 1 << 20);
        drop(client);
        other.check("PING => +PONG");
    }
    wait_until("they are forgotten", || other.figure("connected_clients") == 1);
}

/// A client that sends without a pause leaves the others their turns.
#[test]
fn a_client_that_floods_the_server() {
    let host = Host::start();
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        for line in ["SET k v", "BITCOUNT long", "GETRANGE long 0 0"] {
            let (client, is_over) = (host.unix_client(), &is_over);
            let mut writer = client.writer();
            scope.spawn(move || {
                let bytes = encoded_line(line).repeat(2000);
                while !is_over.load(Ordering::Relaxed) {
                    writer.send_bytes(&bytes);
                }
                writer.end_of_input();
            });
            let mut client = client;
            scope.spawn(move || while client.try_read().unwrap().is_some() {});
        }
        let _at_end = SetAtEnd(&is_over);
        let mut client = host.client();
        client.call_with(&[b"SET", &b"long"[..], &vec![b'x'; 50_000]]);
        for _ in 0..30 {
            client.check("PING => +PONG");
        }
    });
}
