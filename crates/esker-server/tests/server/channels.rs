//! Messages: channels, patterns, and events of keys.

use crate::client::{Client, Value, encoded_line};
use crate::host::{Host, wait_until};

fn next(client: &mut Client) -> String {
    client.read().to_string()
}

#[test]
fn messages_reach_those_who_listen() {
    let host = Host::start();
    let (mut by_name, mut by_pattern, mut client) = (host.client(), host.client3(), host.client());
    by_name.check("SUBSCRIBE news => [subscribe news :1]");
    by_pattern.check(
        "PSUBSCRIBE n* => >[psubscribe n* :1]
        PSUBSCRIBE ?ews => >[psubscribe ?ews :2]
        SUBSCRIBE news => >[subscribe news :3]",
    );
    client.check(
        "PUBLISH news hello => :4
        PUBLISH none x => :1
        PUBLISH other x => :0
        PUBSUB CHANNELS => [news]
        PUBSUB CHANNELS x* => []
        PUBSUB NUMSUB news none => [news :2 none :0]
        PUBSUB NUMPAT => :2",
    );
    assert_eq!(next(&mut by_name), "[message news hello]");
    assert_eq!(next(&mut by_pattern), ">[message news hello]");
    let mut patterns = [next(&mut by_pattern), next(&mut by_pattern)];
    patterns.sort();
    assert_eq!(patterns, [">[pmessage ?ews news hello]", ">[pmessage n* news hello]"]);
    assert_eq!(next(&mut by_pattern), ">[pmessage n* none x]");
    by_pattern.check("PUBSUB NUMSUB news => [news :2]");
    by_pattern.check("PUNSUBSCRIBE n* => >[punsubscribe n* :2]");
    by_name.check("UNSUBSCRIBE => [unsubscribe news :0]");
    client.check("PUBLISH news again => :2");
    drop(by_pattern);
    crate::host::wait_until("the subscriptions end", || client.call("PUBSUB NUMPAT").integer() == 0);
    client.check("PUBLISH news again => :0\n PUBSUB CHANNELS => []");
}

#[test]
fn several_channels_at_once() {
    let host = Host::start();
    let mut client = host.client();
    client.send("SUBSCRIBE a b a");
    for reply in ["[subscribe a :1]", "[subscribe b :2]", "[subscribe a :2]"] {
        assert_eq!(next(&mut client), reply);
    }
    client.check("UNSUBSCRIBE none => [unsubscribe none :2]");
    client.send("UNSUBSCRIBE");
    for reply in ["[unsubscribe a :1]", "[unsubscribe b :0]"] {
        assert_eq!(next(&mut client), reply);
    }
    client.check("UNSUBSCRIBE => [unsubscribe $-1 :0]\n PUNSUBSCRIBE => [punsubscribe $-1 :0]");
}

#[test]
fn what_a_listener_of_version_2_may_do() {
    let host = Host::start();
    let mut client = host.client();
    client.check(
        "SUBSCRIBE c => [subscribe c :1]
        PING => [pong ]
        PING x => [pong x]
        GET a => -ERR Can't execute 'get': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in this context
        MULTI => -ERR Can't execute 'multi': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in this context
        PSUBSCRIBE p => [psubscribe p :2]
        UNSUBSCRIBE c => [unsubscribe c :1]
        PUNSUBSCRIBE p => [punsubscribe p :0]
        GET a => $-1
        SUBSCRIBE c => [subscribe c :1]
        RESET => +RESET
        GET a => $-1
        SUBSCRIBE c => [subscribe c :1]
        QUIT => +OK",
    );
    assert!(client.is_closed());
}

/// In version 3, messages come between replies, never within one.
#[test]
fn messages_beside_replies() {
    let host = Host::start();
    let (mut client, mut other) = (host.client3(), host.client());
    client.check("SUBSCRIBE c => >[subscribe c :1]");
    let mut writer = client.writer();
    let sender = std::thread::spawn(move || {
        for number in 0..2000 {
            writer.send_bytes(&encoded_line(&format!("HSET h f{number} {number}")));
            writer.send_bytes(&encoded_line("HGETALL h"));
        }
    });
    let publisher = std::thread::spawn(move || {
        let line = |number: i32| encoded_line(&format!("PUBLISH c {number}"));
        for number in 0..2000 {
            other.send_bytes(&line(number));
            assert_eq!(other.read().integer(), 1);
        }
    });
    let (mut replies, mut messages) = (0, 0);
    while replies < 4000 || messages < 2000 {
        match client.read() {
            Value::Push(message) => {
                assert_eq!(message[2].to_string(), messages.to_string());
                messages += 1;
            }
            Value::Integer(added) => {
                assert_eq!((added, replies % 2), (1, 0));
                replies += 1;
            }
            Value::Map(pairs) => {
                assert_eq!((pairs.len(), replies % 2), (replies / 2 + 1, 1));
                replies += 1;
            }
            other => panic!("{other}"),
        }
    }
    sender.join().unwrap();
    publisher.join().unwrap();
}

#[test]
fn a_listener_that_waits_for_an_element_gets_messages() {
    let host = Host::start();
    let (mut client, mut other) = (host.client3(), host.client());
    client.check("SUBSCRIBE c => >[subscribe c :1]");
    client.send("BLPOP k 0");
    host.wait_for_blocked(1);
    other.check("PUBLISH c 1 => :1\n PUBLISH c 2 => :1");
    assert_eq!(next(&mut client), ">[message c 1]");
    assert_eq!(next(&mut client), ">[message c 2]");
    other.check("RPUSH k x => :1");
    assert_eq!(next(&mut client), "[k x]");
}

#[test]
fn keys_that_expire_send_events() {
    let host = Host::start();
    let (mut listening, mut client) = (host.client(), host.client());
    listening.check("PSUBSCRIBE __key*__:* => [psubscribe __key*__:* :1]");
    // These expire before anybody asks, and, however slow this machine is, after it.
    client.check("SET past 1 PX 1 => +OK\n SET before 1 PX 2500 => +OK\n SADD large 1 => :1");
    for member in 0..100 {
        client.call(&format!("SADD large {member}"));
    }
    client.check(
        "PEXPIRE large 2500 => :1\n SELECT 2 => +OK\n SET other 1 PX 2500 => +OK\n SET far 1 EX 1000 => +OK",
    );
    wait_until("a key has expired", || host.client().call("EXISTS past").integer() == 0);
    client.check("CONFIG SET notify-keyspace-events Kx => +OK");
    // What was changed since does not expire, or later.
    client.check("SET stays 1 PX 50 => +OK\n PERSIST stays => :1\n SET gone 1 PX 50 => +OK\n DEL gone => :1");
    client.check("SET later 1 PX 50 => +OK\n PEXPIRE later 200 => :1\n SET name 1 PX 60 => +OK\n RENAME name renamed => +OK");
    client.check("SELECT 3 => +OK\n SET cleared 1 PX 50 => +OK\n FLUSHDB => +OK");
    // One that the pool writes.
    client.call_with(&[&b"SET"[..], b"huge", &vec![b'x'; 1 << 20]]);
    client.check("PEXPIRE huge 250 => :1");
    let mut told: Vec<String> = (0..6).map(|_| next(&mut listening)).collect();
    told.sort();
    let expected = ["0__:before", "0__:large", "2__:later", "2__:other", "2__:renamed", "3__:huge"];
    let expected = expected.map(|key| format!("[pmessage __key*__:* __keyspace@{key} expired]"));
    assert_eq!(told, expected);
    // Nobody asks any more, and then somebody does.
    client.check("CONFIG SET notify-keyspace-events E$ => +OK\n SET a 1 PX 1 => +OK");
    assert_eq!(next(&mut listening), "[pmessage __key*__:* __keyevent@3__:set a]");
    wait_until("a key has expired", || client.call("EXISTS a").integer() == 0);
    client.check("CONFIG SET notify-keyspace-events Ex => +OK\n SET b 1 PX 1 => +OK");
    assert_eq!(next(&mut listening), "[pmessage __key*__:* __keyevent@3__:expired b]");
}

#[test]
fn events_of_keys() {
    let host = Host::start();
    let (mut listening, mut client) = (host.client(), host.client());
    listening.check("PSUBSCRIBE __key*__:* => [psubscribe __key*__:* :1]");
    // None by default.
    client.check("SET a 1 => +OK\n CONFIG SET notify-keyspace-events KEA => +OK");
    client.check("CONFIG GET notify-keyspace-events => [notify-keyspace-events AKE]");
    for (command, events) in [
        ("SET a 1", "set a"),
        ("INCR a", "incrby a"),
        ("EXPIRE a 100", "expire a"),
        ("DEL a", "del a"),
        ("LPUSH l x", "lpush l"),
        ("LPOP l", "lpop l | del l"),
        ("SADD s x", "sadd s"),
        ("HSET h f v", "hset h"),
        ("ZADD z 1 m", "zadd z"),
        ("RENAME z y", "rename_from z | rename_to y"),
        ("GET a", ""),
        ("DEL none", ""),
        ("SADD s x", ""),
    ] {
        client.call(command);
        for event in events.split('|').map(str::trim).filter(|event| !event.is_empty()) {
            let (name, key) = event.split_once(' ').unwrap();
            let by_key = format!("[pmessage __key*__:* __keyspace@0__:{key} {name}]");
            let by_event = format!("[pmessage __key*__:* __keyevent@0__:{name} {key}]");
            assert_eq!(next(&mut listening), by_key, "{command}");
            assert_eq!(next(&mut listening), by_event, "{command}");
        }
    }
    client.check("SELECT 3 => +OK\n CONFIG SET notify-keyspace-events E$ => +OK\n LPUSH l x => :1");
    // Of a transaction, of the pool, and of a client that has waited.
    let huge = vec![b'x'; 1 << 20];
    client.check("MULTI => +OK\n SET b 1 => +QUEUED\n EXEC => [+OK]");
    client.call_with(&[b"SET", &b"huge"[..], &huge]);
    client.check("CONFIG SET notify-keyspace-events El => +OK");
    let mut waiting = host.client();
    waiting.send("BLPOP q 0");
    host.wait_for_blocked(1);
    client.check("SELECT 0 => +OK\n RPUSH q 1 => :1\n SELECT 3 => +OK");
    for (name, key) in [("set", "b"), ("set", "huge")] {
        assert_eq!(next(&mut listening), format!("[pmessage __key*__:* __keyevent@3__:{name} {key}]"));
    }
    for name in ["rpush", "lpop"] {
        assert_eq!(next(&mut listening), format!("[pmessage __key*__:* __keyevent@0__:{name} q]"));
    }
    client.check("CONFIG SET notify-keyspace-events Q => -ERR CONFIG SET failed (possibly related to argument 'notify-keyspace-events') - Invalid event class character. Use 'Ag$lshzxeKEtmdn'.");
    listening.check("PING => [pong ]");
}
