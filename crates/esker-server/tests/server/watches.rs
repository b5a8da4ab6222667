//! `WATCH`: a transaction takes place only if nobody has changed its keys.

use std::thread;

use crate::client::{Client, encoded};
use crate::host::{Host, Store, wait_until};

/// Watches `keys`, lets `change` happen, and says whether a transaction still takes place.
fn takes_place(client: &mut Client, keys: &str, change: impl FnOnce(&mut Client)) -> bool {
    client.check(&format!("WATCH {keys} => +OK"));
    change(client);
    client.check("MULTI => +OK\n SET done 1 => +QUEUED");
    let reply = client.call("EXEC").to_string();
    assert!(reply == "[+OK]" || reply == "*-1", "{reply}");
    reply == "[+OK]"
}

#[test]
fn which_changes_count() {
    let host = Host::start();
    let (mut client, mut other) = (host.client(), host.client());
    for (changes, is_one) in [
        ("SET k 2", true),
        ("SET k 1", true),
        ("APPEND k x", true),
        ("DEL k", true),
        ("DEL k | SET k 1", true),
        ("EXPIRE k 100", true),
        ("RENAME other k", true),
        ("RENAME k other", true),
        ("COPY other k REPLACE", true),
        ("MOVE k 3", true),
        ("FLUSHALL", true),
        ("FLUSHDB", true),
        ("LPUSH list b", true),
        ("LPOP list", true),
        ("SUNIONSTORE k nothing", true),
        ("GET k", false),
        ("GETEX k", false),
        ("SET other 2", false),
        ("DEL none", false),
        ("SETNX k 5", false),
        ("LPUSHX none x", false),
        ("INCR list", false),
        ("SELECT 1 | SET k 1", false),
        ("SELECT 1 | FLUSHDB", false),
        ("PERSIST k", false),
    ] {
        other.check(
            "SELECT 0 => +OK
            FLUSHALL => +OK
            MSET k 1 other 1 => +OK
            RPUSH list a c => :2",
        );
        let took_place = takes_place(&mut client, "k list missing", |_| {
            changes.split('|').for_each(|change| drop(other.call(change)));
        });
        assert_eq!(took_place, !is_one, "changed by another: {changes}");
        other.check(
            "SELECT 0 => +OK
            FLUSHALL => +OK
            MSET k 1 other 1 => +OK
            RPUSH list a c => :2",
        );
        let took_place = takes_place(&mut client, "k list missing", |client| {
            changes.split('|').for_each(|change| drop(client.call(change)));
        });
        client.check("SELECT 0 => +OK");
        assert_eq!(took_place, !is_one, "changed by the client: {changes}");
    }
}

#[test]
fn keys_that_were_missing() {
    let host = Host::start();
    let (mut client, mut other) = (host.client(), host.client());
    for (change, is_one) in [("SET k 1", true), ("FLUSHALL", false), ("DEL k", false), ("LPUSH k x", true)] {
        other.check("FLUSHALL => +OK");
        let took_place = takes_place(&mut client, "k", |_| drop(other.call(change)));
        assert_eq!(took_place, !is_one, "{change}");
    }
}

#[test]
fn what_ends_a_watch() {
    let host = Host::start();
    let (mut client, mut other) = (host.client(), host.client());
    for end in ["UNWATCH", "MULTI | EXEC", "MULTI | DISCARD", "RESET"] {
        client.check("WATCH k => +OK");
        other.check("SET k 1 => +OK");
        end.split('|').for_each(|command| drop(client.call(command)));
        client.check("MULTI => +OK\n GET k => +QUEUED\n EXEC => [1]");
    }
    client.check("MULTI => +OK\n WATCH k => -ERR WATCH inside MULTI is not allowed\n EXEC => []");
    // UNWATCH within a transaction comes too late.
    client.check("WATCH k => +OK");
    other.check("SET k 2 => +OK");
    client.check("MULTI => +OK\n UNWATCH => +QUEUED\n EXEC => *-1");
    // A watch is about one database.
    client.check("SELECT 2 => +OK\n WATCH k => +OK\n SELECT 0 => +OK");
    other.check("SET k 3 => +OK");
    client.check("MULTI => +OK\n EXEC => []\n SELECT 2 => +OK\n WATCH k => +OK\n SELECT 0 => +OK");
    other.check("SELECT 2 => +OK\n SET k 3 => +OK");
    client.check("MULTI => +OK\n EXEC => *-1");
}

#[test]
fn a_watched_key_expires() {
    let host = Host::start();
    let (mut client, mut other) = (host.client(), host.client());
    client.check("SET k 1 PX 30 => +OK");
    let took_place = takes_place(&mut client, "k", |_| {
        wait_until("the key expires", || other.call("EXISTS k").integer() == 0);
    });
    assert!(!took_place);
    // One that had expired before is missing.
    assert!(takes_place(&mut client, "k", |_| {}));
    client.check("SET k 1 EX 100 => +OK");
    assert!(takes_place(&mut client, "k", |_| {}));
}

/// A pipeline's own writes are known to the commands behind them.
#[test]
fn within_a_pipeline() {
    let host = Host::start();
    let mut client = host.client();
    client.send_bytes(
        b"SET k 1\r\nWATCH k\r\nMULTI\r\nINCR k\r\nEXEC\r\nWATCH k\r\nINCR k\r\nMULTI\r\nINCR k\r\nEXEC\r\n",
    );
    let replies: Vec<String> = (0..10).map(|_| client.read().to_string()).collect();
    assert_eq!(replies, ["+OK", "+OK", "+OK", "+QUEUED", "[:2]", "+OK", ":3", "+OK", "+QUEUED", "*-1"]);
}

/// A counter that only optimistic transactions change, in a value that is so long that they need the pool.
#[test]
fn optimistic_transactions_lose_nothing() {
    const CLIENTS: usize = 4;
    for len in [10, 200_000] {
        let host = Host::of(&Store::in_memory(), |_| {});
        let padded = |number: i64| {
            let digits = format!("{number:010}").into_bytes();
            [vec![b'x'; len - 10], digits].concat()
        };
        let rounds = if len == 10 { 500 } else { 40 };
        host.client().call_with(&[b"SET", &b"k"[..], &padded(0)]);
        thread::scope(|scope| {
            for _ in 0..CLIENTS {
                let mut client = host.client();
                scope.spawn(move || {
                    let mut done = 0;
                    while done < rounds {
                        let now = {
                            client.check("WATCH k => +OK");
                            let value = client.call("GETRANGE k -10 -1");
                            String::from_utf8(value.bytes().to_vec()).unwrap().parse::<i64>().unwrap()
                        };
                        let set = encoded(&[b"SET", &b"k"[..], &padded(now + 1)]);
                        client.send_bytes(&[b"MULTI\r\n", &set[..], b"EXEC\r\n"].concat());
                        assert_eq!(client.read().to_string(), "+OK");
                        assert_eq!(client.read().to_string(), "+QUEUED");
                        done += i32::from(client.read().to_string() == "[+OK]");
                    }
                });
            }
        });
        let value = host.client().call("GETRANGE k -10 -1");
        let total = String::from_utf8(value.bytes().to_vec()).unwrap().parse::<i32>().unwrap();
        assert_eq!(total, CLIENTS as i32 * rounds, "with values of {len} bytes");
    }
}
