//! Members and fields that are too long for a key of the store, and the empty key, which the store does not have.

use std::thread;

use crate::client::{Client, Value};
use crate::host::{Host, Store, wait_until};

/// The longest key of a store.
const KEY_MAX: usize = 128 << 10;

/// Names that begin alike, in order: short, about as long as a key may be, and longer.
fn names() -> Vec<Vec<u8>> {
    let mut names: Vec<Vec<u8>> = vec![Vec::new(), b"a".to_vec(), b"z".to_vec()];
    for len in [KEY_MAX - 12, KEY_MAX - 11, KEY_MAX - 10, 200_000, 1 << 20] {
        for last in [b'a', b'b'] {
            let mut name = vec![b'a'; len];
            name[len - 1] = last;
            names.push(name);
        }
    }
    names.sort();
    names
}

fn bulks<T: AsRef<[u8]>>(parts: &[T]) -> Value {
    Value::Array(parts.iter().map(|part| Value::Bulk(part.as_ref().to_vec())).collect())
}

/// Compares what reads show with `names`, which the set `s`, the hash `h` and the sorted set `z` have.
fn check(client: &mut Client, names: &[Vec<u8>]) {
    let count = names.len() as i64;
    assert!(client.call("SMEMBERS s") == bulks(names), "another order of members");
    assert!(client.call("HKEYS h") == bulks(names), "another order of fields");
    assert!(client.call("ZRANGE z 0 -1") == bulks(names), "another order in a sorted set");
    assert!(client.call("ZREVRANGEBYLEX z + -") == bulks(&names.iter().rev().collect::<Vec<_>>()));
    for key in ["SCARD s", "HLEN h", "ZCARD z"] {
        assert_eq!(client.call(key).integer(), count);
    }
    for (rank, name) in names.iter().enumerate() {
        assert_eq!(client.call_with(&[b"SISMEMBER", &b"s"[..], name]).integer(), 1);
        let value = client.call_with(&[b"HGET", &b"h"[..], name]);
        assert_eq!(value.bytes(), rank.to_string().as_bytes());
        assert_eq!(client.call_with(&[b"ZRANK", &b"z"[..], name]).integer(), rank as i64);
        let after = client.call_with(&[&b"ZLEXCOUNT"[..], b"z", &[b"(", name.as_slice()].concat(), b"+"]);
        assert_eq!(after.integer(), count - 1 - rank as i64);
    }
    let unknown = vec![b'a'; 200_001];
    assert_eq!(client.call_with(&[b"SISMEMBER", &b"s"[..], &unknown]).integer(), 0);
    for (command, width) in [("SSCAN s", 1), ("HSCAN h", 2), ("ZSCAN z", 2)] {
        let (mut cursor, mut found) = ("0".to_owned(), Vec::new());
        loop {
            let Value::Array(mut parts) = client.call(&format!("{command} {cursor} COUNT 1")) else {
                panic!("{command}");
            };
            let Some(Value::Array(page)) = parts.pop() else { panic!("{command}") };
            found.extend(page.iter().step_by(width).map(|element| element.bytes().to_vec()));
            cursor = String::from_utf8_lossy(parts[0].bytes()).into_owned();
            if cursor == "0" {
                break;
            }
        }
        assert!(found == names, "{command}: {} elements", found.len());
    }
}

#[test]
fn members_and_fields_have_any_length() {
    let dir = tempfile::tempdir().unwrap();
    let names = names();
    {
        let host = Host::of(&Store::at(&dir), |_| {});
        let mut client = host.client();
        for (rank, name) in names.iter().enumerate().rev() {
            let rank = rank.to_string();
            assert_eq!(client.call_with(&[b"SADD", &b"s"[..], name]).integer(), 1);
            assert_eq!(client.call_with(&[b"HSET", &b"h"[..], name, rank.as_bytes()]).integer(), 1);
            assert_eq!(client.call_with(&[&b"ZADD"[..], b"z", b"1", name]).integer(), 1);
            assert_eq!(client.call_with(&[b"SADD", &b"s"[..], name]).integer(), 0);
        }
        check(&mut client, &names);
    }
    let host = Host::of(&Store::at(&dir), |_| {});
    let mut client = host.client();
    check(&mut client, &names);
    // Another key leaves other lengths for short names.
    for key in ["s", "h", "z"] {
        client.check(&format!("RENAME {key} another:{key} => +OK\n RENAME another:{key} {key} => +OK"));
    }
    check(&mut client, &names);
    let (even, odd): (Vec<_>, Vec<_>) = names.iter().enumerate().partition(|(rank, _)| rank % 2 == 0);
    let (even, odd): (Vec<_>, Vec<_>) =
        (even.into_iter().map(|(_, n)| n).collect(), odd.into_iter().map(|(_, n)| n).collect());
    client.check("MULTI => +OK");
    for name in &odd {
        assert_eq!(client.call_with(&[b"SMOVE", &b"s"[..], b"t", name]).to_string(), "+QUEUED");
    }
    client.call("EXEC");
    assert!(client.call("SMEMBERS t") == bulks(&odd) && client.call("SDIFF s t") == bulks(&even));
    client.check("SINTERCARD 2 s t => :0");
    assert_eq!(client.call("SUNIONSTORE s s t").integer(), names.len() as i64);
    assert!(client.call("MEMORY USAGE s").integer() > 2 << 20);
    check(&mut client, &names);
    let popped = client.call(&format!("SPOP s {}", names.len() - 1));
    assert!(matches!(popped, Value::Array(members) if members.len() == names.len() - 1));
    assert_eq!(client.call("SCARD s").integer(), 1);
    client.check("DEL s h z t => :4");
    // The next server sweeps what a command that writes much leaves.
    drop((client, host));
    let host = Host::of(&Store::at(&dir), |_| {});
    let elements = host.store.db.open_tree("default.elements").unwrap().unwrap();
    wait_until("the elements are deleted", || elements.is_empty().unwrap());
}

/// Servers that do not know them refuse such a store; others can still be opened by them.
#[test]
fn the_layout_changes_when_that_is_needed() {
    let store = Store::in_memory();
    let host = Host::of(&store, |_| {});
    let mut client = host.client();
    let tag = |store: &Store| store.db.open_tree("default.elements").unwrap().unwrap().tag();
    let name = vec![b'a'; KEY_MAX - 11];
    assert_eq!(client.call_with(&[b"SADD", &b"s"[..], &name]).integer(), 1);
    client.check("DEL nothing => :0");
    assert!(client.call_with(&[&b"DEL"[..], b""]).integer() == 0);
    assert_eq!(tag(&store).as_deref(), Some("redis elements 1"));
    assert_eq!(client.call_with(&[&b"SET"[..], b"", b"x"]).to_string(), "+OK");
    assert_eq!(tag(&store).as_deref(), Some("redis elements 2"));
    client.check("SELECT 3 => +OK");
    let name = vec![b'a'; KEY_MAX];
    assert_eq!(client.call_with(&[b"HSET", &b"h"[..], &name, b"x"]).integer(), 1);
    assert_eq!(
        store.db.open_tree("db3.elements").unwrap().unwrap().tag().as_deref(),
        Some("redis elements 2")
    );
    drop((client, host));
    let host = Host::of(&store, |_| {});
    assert_eq!(host.client().call_with(&[&b"GET"[..], b""]).bytes(), b"x");
}

#[test]
fn elements_of_lists_have_any_length() {
    let host = Host::start();
    let mut client = host.client();
    let mut values: Vec<Vec<u8>> = names().into_iter().filter(|name| !name.is_empty()).collect();
    values.push(vec![b'v'; 5 << 20]);
    for value in &values {
        client.call_with(&[b"RPUSH", &b"l"[..], value]);
    }
    assert!(client.call("LRANGE l 0 -1") == bulks(&values));
    assert_eq!(client.call_with(&[b"LREM", &b"l"[..], b"1", &values[5]]).integer(), 1);
    assert_eq!(client.call("LLEN l").integer(), values.len() as i64 - 1);
}

#[test]
fn longer_keys_are_refused_by_their_limit() {
    let host = Host::start();
    let mut client = host.client();
    let key = vec![b'k'; KEY_MAX + 1];
    for command in [&[b"SET".as_slice(), &key, b"x"][..], &[b"SADD", &key, b"x"], &[b"RPUSH", &key, b"x"]] {
        assert_eq!(client.call_with(command).to_string(), "-ERR a key has at most 131072 bytes");
    }
    assert_eq!(client.call_with(&[b"GET", &key[..]]).to_string(), "$-1");
    assert_eq!(client.call_with(&[b"SET", &key[1..], b"x"]).to_string(), "+OK");
    assert_eq!(client.call_with(&[b"DEL", &key[1..]]).integer(), 1);
}

fn keys_of_info(client: &mut Client) -> String {
    let text = client.call("INFO keyspace").to_string();
    let line =
        text.lines().find_map(|line| line.strip_prefix("db0:keys=")).unwrap_or("0,expires=0,").to_owned();
    line.split(",avg").next().unwrap().to_owned()
}

#[test]
fn the_empty_key_is_a_key_like_others() {
    let dir = tempfile::tempdir().unwrap();
    let far = "4000000000000";
    {
        let host = Host::of(&Store::at(&dir), |_| {});
        let (mut client, mut other) = (host.client(), host.client());
        assert_eq!(keys_of_info(&mut client), "0,expires=0,");
        // Who watches it sees a change, and who waits for it is served.
        assert_eq!(client.call_with(&["WATCH", ""]).to_string(), "+OK");
        assert_eq!(other.call_with(&["SET", "", "x"]).to_string(), "+OK");
        client.check("MULTI => +OK\n PING => +QUEUED\n EXEC => *-1");
        assert_eq!(client.call_with(&["WATCH", ""]).to_string(), "+OK");
        client.check("MULTI => +OK\n PING => +QUEUED\n EXEC => [+PONG]");
        assert_eq!(other.call_with(&["DEL", ""]).integer(), 1);
        let mut waiter = host.client();
        let waits = thread::spawn(move || waiter.call_with(&["BLPOP", "", "20"]).to_string());
        host.wait_for_blocked(1);
        assert_eq!(client.call_with(&["RPUSH", "", "one", "two"]).integer(), 2);
        assert_eq!(waits.join().unwrap(), "[ one]");
        assert_eq!(client.call_with(&["LMOVE", "", "", "LEFT", "RIGHT"]).bytes(), b"two");
        assert_eq!(client.call_with(&["PEXPIREAT", "", far]).integer(), 1);
        client.check("SET k v => +OK\n DBSIZE => :2");
        assert_eq!(keys_of_info(&mut client), "2,expires=1");
        assert!(client.call("SCAN 0") == Value::Array(vec![Value::Bulk(b"0".to_vec()), bulks(&["", "k"])]));
    }
    let host = Host::of(&Store::at(&dir), |_| {});
    let mut client = host.client();
    assert_eq!(keys_of_info(&mut client), "2,expires=1");
    assert_eq!(client.call_with(&["PEXPIRETIME", ""]).integer().to_string(), far);
    assert!(client.call("KEYS *") == bulks(&["", "k"]));
    assert_eq!(client.call_with(&["TYPE", ""]).to_string(), "+list");
    // Values that are too long for memory move to it and from it.
    let huge: Vec<u8> = (0..9_u32 << 20).map(|byte| (byte / 7) as u8).collect();
    assert_eq!(client.call_with(&[b"SET", &b""[..], &huge, b"EX", b"1000"]).to_string(), "+OK");
    assert!(client.call_with(&["GET", ""]).bytes() == huge);
    assert_eq!(client.call_with(&["COPY", "", "copy"]).integer(), 1);
    assert_eq!(client.call_with(&["RENAME", "", "moved"]).to_string(), "+OK");
    assert!(client.call("GET copy").bytes() == huge && client.call("GET moved").bytes() == huge);
    assert_eq!(client.call_with(&["RENAME", "moved", ""]).to_string(), "+OK");
    assert_eq!(client.call_with(&["PERSIST", ""]).integer(), 1);
    assert!(client.call_with(&["GET", ""]).bytes() == huge);
    // Its expiry is told like that of others.
    let mut listener = host.client();
    client.check("CONFIG SET notify-keyspace-events Ex => +OK");
    assert_eq!(
        listener.call("SUBSCRIBE __keyevent@0__:expired").to_string(),
        "[subscribe __keyevent@0__:expired :1]"
    );
    assert_eq!(client.call_with(&["PEXPIRE", "", "1"]).integer(), 1);
    assert_eq!(listener.read().to_string(), "[message __keyevent@0__:expired ]");
    client.check("FLUSHALL => +OK\n DBSIZE => :0");
    assert_eq!(client.call_with(&["EXISTS", ""]).integer(), 0);
}
