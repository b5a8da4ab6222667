//! Values that are too long to be held in memory: they are stored and sent piece by piece, and moved by their place.

use std::collections::BTreeMap;

use esker::fs::sim::SimFs;

use crate::client::{Client, Value, encoded};
use crate::host::{Host, Store, wait_until};
use test_kit::Rng;

const MIB: usize = 1 << 20;

/// Bytes that differ from place to place.
fn made(len: usize, seed: u64) -> Vec<u8> {
    let mut random = Rng::new(seed);
    let block: Vec<u8> = (0..8191).map(|_| random.index(256) as u8).collect();
    block.iter().copied().cycle().take(len).collect()
}

fn is_error(value: &Value, begin: &str) -> bool {
    matches!(value, Value::Error(text) if text.starts_with(begin))
}

#[test]
fn commands_store_values_of_any_length() {
    let host = Host::start();
    let mut client = host.client();
    let (long, other, short) = (made(9 * MIB + 5, 1), made(4 * MIB, 2), made(70_000, 3));
    assert_eq!(client.call_with(&[&b"SET"[..], b"a", &long[..]]).to_string(), "+OK");
    assert_eq!(client.call("GET a").bytes(), long);
    client.check("STRLEN a => :9437189\n GETRANGE a 9437189 -1 => \n TYPE a => +string\n EXISTS a => :1");
    assert_eq!(client.call("GETRANGE a 5000000 7000000").bytes(), &long[5_000_000..=7_000_000]);
    // Options behind the value count.
    assert_eq!(client.call_with(&[&b"SET"[..], b"a", &other[..], b"NX"]).to_string(), "$-1");
    assert_eq!(client.call_with(&[&b"SET"[..], b"a", &other[..], b"XX", b"GET"]).bytes(), long);
    assert_eq!(client.call_with(&[&b"SET"[..], b"a", &long[..], b"EX", b"100"]).to_string(), "+OK");
    assert_eq!(client.call("TTL a").integer(), 100);
    assert!(is_error(&client.call_with(&[&b"SET"[..], b"a", &other[..], b"EX", b"x"]), "ERR value is not"));
    let key = vec![b'k'; (128 << 10) + 1];
    assert!(is_error(&client.call_with(&[&b"SET"[..], &key, &other[..]]), "ERR a key has at most 131072"));
    assert_eq!(client.call("GET a").bytes(), long);
    // All commands that only store a value.
    assert_eq!(client.call_with(&[&b"setnx"[..], b"b", &other[..]]).integer(), 1);
    assert_eq!(client.call_with(&[&b"GETSET"[..], b"b", &long[..]]).bytes(), other);
    assert_eq!(client.call_with(&[&b"SETEX"[..], b"b", b"50", &other[..]]).to_string(), "+OK");
    assert_eq!(client.call_with(&[&b"PSETEX"[..], b"c", b"50000", &long[..]]).to_string(), "+OK");
    assert_eq!(client.call_with(&[&b"CAS"[..], b"s", &short[..], &long[..]]).integer(), 0);
    assert_eq!(client.call_with(&[&b"SET"[..], b"s", &short[..]]).to_string(), "+OK");
    assert_eq!(client.call_with(&[&b"CAS"[..], b"s", &short[..], &other[..]]).integer(), 1);
    let pairs: &[&[u8]] = &[&b"MSET"[..], b"d", &long, b"e", &short, b"f", &other];
    assert_eq!(client.call_with(pairs).to_string(), "+OK");
    assert_eq!(client.call_with(&[&b"MSETNX"[..], b"g", &long[..], b"f", &long[..]]).integer(), 0);
    let all =
        Value::Array([&other, &long, &other, &long, &short, &other].map(|v| Value::Bulk(v.clone())).into());
    assert!(client.call("MGET b c s d e f") == all);
    // And a part of all keys, in order.
    let range = client.call("RANGE d f");
    let Value::Array(range) = range else { panic!("{range}") };
    assert_eq!((range[1].bytes(), range[3].bytes(), range[5].bytes()), (&long[..], &short[..], &other[..]));
    assert_eq!(client.call("GETDEL d").bytes(), long);
    assert_eq!(client.call("GETEX f PERSIST").bytes(), other);
    client.check("EXISTS d f g => :1");
    // What changes a value holds it in memory.
    assert_eq!(client.call_with(&[&b"APPEND"[..], b"f", &long[..]]).integer(), (4 * MIB + long.len()) as i64);
    assert_eq!(client.call("GET f").bytes(), [other, long].concat());
}

#[test]
fn a_pipeline_goes_on_behind_a_long_value() {
    let host = Host::start();
    let mut client = host.client3();
    let long = made(5 * MIB, 4);
    let set = encoded(&[&b"SET"[..], b"k", &long[..]]);
    let mut writer = client.writer();
    let bytes =
        [b"SET a 1\r\n", &set[..], b"INCR a\r\nGET k\r\nCLIENT REPLY SKIP\r\n", &set, b"GET a\r\n"].concat();
    let sending = std::thread::spawn(move || writer.send_bytes(&bytes));
    let texts: Vec<String> = (0..3).map(|_| client.read().to_string()).collect();
    assert_eq!(texts, ["+OK", "+OK", ":2"]);
    assert_eq!(client.read().bytes(), long);
    assert_eq!(client.read().to_string(), "2");
    sending.join().unwrap();
}

#[test]
fn transactions_take_long_values() {
    let host = Host::start();
    let mut client = host.client();
    let (long, other) = (made(5 * MIB, 5), made(6 * MIB, 6));
    client.check("MULTI => +OK");
    assert_eq!(client.call_with(&[&b"SET"[..], b"k", &long[..]]).to_string(), "+QUEUED");
    client.check("RENAME k l => +QUEUED\n COPY l m => +QUEUED\n GET m => +QUEUED\n SELECT 3 => +QUEUED");
    // This one was sent while another database was selected, so it is copied.
    assert_eq!(client.call_with(&[&b"SET"[..], b"k", &other[..]]).to_string(), "+QUEUED");
    let done = client.call("EXEC");
    let Value::Array(done) = done else { panic!("{done}") };
    assert!(done[3].bytes() == long, "the value is another");
    assert!(client.call("GET k").bytes() == other);
    client.check("SELECT 0 => +OK\n EXISTS k l m => :2");
    assert!(client.call("GET l").bytes() == long);
    // A transaction that does not take place leaves nothing.
    client.check("MULTI => +OK");
    assert_eq!(client.call_with(&[&b"SET"[..], b"z", &long[..]]).to_string(), "+QUEUED");
    client.check("DISCARD => +OK\n EXISTS z => :0");
}

/// How many huge values the store has, and how many bytes they take.
fn stored(store: &Store) -> (u64, u64) {
    let stats = store.db.stats().unwrap();
    (stats.blob_values, stats.blob_disk_bytes)
}

#[test]
fn values_change_keys_and_expiries_by_their_place() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::at(&dir);
    let host = Host::of(&store, |_| {});
    let mut client = host.client();
    let long = made(8 * MIB, 7);
    client.call_with(&[&b"SET"[..], b"a", &long[..]]);
    let before = stored(&store);
    client.check(
        "RENAME a b => +OK\n COPY b c => :1\n EXPIRE c 100 => :1\n PERSIST c => :1\n RENAMENX b d => :1\n TTL c => :-1",
    );
    client.check(
        "GETEX c EX 100 GET => -ERR syntax error\n EXPIRE d 50 => :1\n COPY d c REPLACE => :1\n TTL c => :50",
    );
    assert_eq!(stored(&store), before, "values were written anew");
    assert!(client.call("GET c").bytes() == long && client.call("GET d").bytes() == long);
    client.check("DEL d => :1");
    assert!(client.call("GET c").bytes() == long);
    // Another database is another tree: there it is a copy.
    client.check("COPY c x DB 2 => :1\n MOVE c 1 => :1\n SELECT 1 => +OK");
    assert!(client.call("GET c").bytes() == long);
    client.check("SELECT 2 => +OK");
    assert!(client.call("GET x").bytes() == long);
    drop(host);
    // All of it is there when the store is opened again.
    let opened = Host::of(&store, |_| {});
    let mut client = opened.client();
    client.check("SELECT 2 => +OK");
    assert!(client.call("GET x").bytes() == long);
}

#[test]
fn a_client_that_goes_leaves_nothing_of_its_value() {
    let host = Host::start();
    for sent in [0, 1, 3 * MIB, 5 * MIB - 1] {
        let mut client = host.client();
        client.send_bytes(b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$5242880\r\n");
        client.send_bytes(&made(sent, 8));
        drop(client);
    }
    let mut client = host.client();
    wait_until("all clients are gone", || client.figure("connected_clients") == 1);
    client.check("EXISTS k => :0\n DBSIZE => :0");
}

#[test]
fn lengths_that_are_too_long_are_refused() {
    let host = Host::start();
    for (line, told) in [
        ("*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$536870913\r\n", "ERR Protocol error: invalid bulk length"),
        (
            "*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$99999999999999999999\r\n",
            "ERR Protocol error: invalid bulk length",
        ),
        ("*2\r\n$3\r\nGET\r\n$536870913\r\n", "ERR Protocol error: invalid bulk length"),
    ] {
        let mut client = host.client();
        client.send_bytes(line.as_bytes());
        assert_eq!(client.read().to_string(), format!("-{told}"));
        assert!(client.is_closed());
    }
    let mut client = host.client();
    client.check("CONFIG SET proto-max-bulk-len 1tb => -ERR CONFIG SET failed (possibly related to argument 'proto-max-bulk-len') - argument must be a memory value");
    client.check("CONFIG SET proto-max-bulk-len 2000gb => +OK");
    // What is only stored may be as long as that, and what is held in memory may not.
    client.send_bytes(b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$1000000000000\r\nbegin");
    let mut other = host.client();
    other.check("PING => +PONG");
    other.send_bytes(b"*3\r\n$6\r\nAPPEND\r\n$1\r\nk\r\n$536870913\r\n");
    assert!(is_error(&other.read(), "ERR Protocol error: invalid bulk length"));
}

#[test]
fn a_full_disk_refuses_a_long_value_and_nothing_else() {
    let disk = SimFs::new(2);
    let store = Store::on(&disk);
    let host = Host::of(&store, |_| {});
    let mut client = host.client();
    let long = made(6 * MIB, 9);
    client.check("SET small 1 => +OK");
    disk.set_capacity(Some(disk.used() + 4 * MIB as u64));
    for _ in 0..3 {
        assert!(is_error(&client.call_with(&[&b"SET"[..], b"k", &long[..]]), "MISCONF the disk is full"));
        // The first of two fails, and the second one is passed over.
        let pairs: &[&[u8]] = &[&b"MSET"[..], b"k", &long, b"l", &long, b"m", b"1"];
        assert!(is_error(&client.call_with(pairs), "MISCONF the disk is full"));
        client.check("GET small => 1\n EXISTS k l m => :0\n MULTI => +OK");
        assert!(is_error(&client.call_with(&[&b"SET"[..], b"k", &long[..]]), "MISCONF the disk is full"));
        client.check("EXEC => -EXECABORT Transaction discarded because of previous errors.");
    }
    disk.set_capacity(None);
    assert_eq!(client.call_with(&[&b"SET"[..], b"k", &long[..]]).to_string(), "+OK");
    assert!(client.call("GET k").bytes() == long);
}

/// Sends bytes in pieces of random lengths, from another thread, so that replies are read meanwhile.
fn send_in_pieces(client: &Client, bytes: Vec<u8>, seed: u64) -> std::thread::JoinHandle<()> {
    let mut writer = client.writer();
    std::thread::spawn(move || {
        let (mut random, mut at) = (Rng::new(seed), 0);
        while at < bytes.len() {
            let most = [1, 100, 70_000, 2 * MIB][random.index(4)];
            let end = (at + 1 + random.index(most)).min(bytes.len());
            writer.send_bytes(&bytes[at..end]);
            at = end;
        }
    })
}

/// Random commands on values of lengths about the bounds, beside a map that must agree.
#[test]
fn huge_values_agree_with_a_model() {
    let seed = test_kit::seed(1);
    let host = Host::start();
    let mut client = host.client();
    let (mut random, mut model) = (Rng::new(seed), BTreeMap::<String, Vec<u8>>::new());
    let lengths =
        [0, 1, 65_535, 65_536, 65_537, MIB - 1, MIB, MIB + 1, 4 * MIB - 1, 4 * MIB, 4 * MIB + 1, 6 * MIB];
    for step in 0..60 {
        let key = format!("k{}", random.index(4));
        let to = format!("k{}", random.index(4));
        let at = random.index(lengths.len());
        let value = made(lengths[at], seed.wrapping_add(step));
        let has = model.get(&key).cloned();
        let (command, expected) = match random.index(7) {
            0 | 1 => {
                model.insert(key.clone(), value.clone());
                (encoded(&[&b"SET"[..], key.as_bytes(), &value]), Value::Simple("OK".into()))
            }
            2 => {
                let expected = has.map_or(Value::NullBulk, Value::Bulk);
                model.insert(key.clone(), value.clone());
                (encoded(&[&b"SET"[..], key.as_bytes(), &value, b"GET"]), expected)
            }
            3 => (encoded(&[&b"GET"[..], key.as_bytes()]), has.map_or(Value::NullBulk, Value::Bulk)),
            4 => {
                let (first, last) = (random.index(5 << 20), random.index(5 << 20));
                let has = has.unwrap_or_default();
                let part = has.get(first..(last + 1).min(has.len())).unwrap_or_default();
                let words = ["GETRANGE", &key, &first.to_string(), &last.to_string()];
                (encoded(&words), Value::Bulk(part.to_vec()))
            }
            5 => {
                let copied = has.is_some() && key != to;
                if let Some(value) = has.filter(|_| copied) {
                    model.insert(to.clone(), value);
                }
                let expected = if key == to {
                    Value::Error("ERR source and destination objects are the same".into())
                } else {
                    Value::Integer(i64::from(copied))
                };
                (encoded(&["COPY", &key, &to, "REPLACE"]), expected)
            }
            _ => {
                let expected = match model.remove(&key) {
                    Some(value) => {
                        model.insert(to.clone(), value);
                        Value::Simple("OK".into())
                    }
                    None => Value::Error("ERR no such key".into()),
                };
                (encoded(&["RENAME", &key, &to]), expected)
            }
        };
        let sending = send_in_pieces(&client, command, seed.wrapping_mul(31).wrapping_add(step));
        let reply = client.read();
        sending.join().unwrap();
        assert!(reply == expected, "seed {seed}, step {step}: another reply");
    }
}
