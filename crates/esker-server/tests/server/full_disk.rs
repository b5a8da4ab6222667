//! A disk that is full, and then is not: writes are refused, reads go on, and writes are taken again.

use std::ops::Range;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use esker::fs::FileSystem;
use esker::fs::sim::SimFs;

use crate::client::{Client, Value, encoded};
use crate::host::{Host, SetAtEnd, Store, wait_until};

/// Writes keys `k0`, `k1` and so on until one is refused. Returns how many were written, and the refusal.
fn fill(client: &mut Client, value: &[u8]) -> (u64, String) {
    for number in 0..100_000 {
        if let Value::Error(message) = client.call_with(&[b"SET", format!("k{number}").as_bytes(), value]) {
            return (number, message);
        }
    }
    panic!("the disk never became full");
}

/// Others take what is free of a disk of `capacity` bytes, but not the reserve. Returns whether they have: first the store sets its
/// reserve aside again, which a flush or merge may have just taken.
fn others_take_the_rest(disk: &SimFs, capacity: u64) -> bool {
    let is_whole = || disk.file_len(Path::new("store/RESERVE")).unwrap() >= 5 * (256 << 10);
    disk.set_capacity(Some(if is_whole() { disk.used() } else { capacity }));
    is_whole() && disk.free_space(Path::new("store")).unwrap() == 0
}

#[test]
fn writes_are_refused_and_taken_again() {
    const CAPACITY: u64 = 24 << 20;

    let disk = SimFs::new(1);
    let store = Store::on(&disk);
    let host = Host::of(&store, |_| {});
    let mut client = host.client();
    disk.set_capacity(Some(CAPACITY));
    let value = vec![b'x'; 4000];
    let (written, refused) = fill(&mut client, &value);
    assert!(refused.starts_with("MISCONF the disk is full"), "{refused}");
    // What the store gives back of itself shall not make space for the writes below.
    disk.set_capacity(Some(0));
    // One reply for each command of a pipeline, and the right one.
    let fails = |value: &Value| matches!(value, Value::Error(text) if text.starts_with("MISCONF"));
    let set = encoded(&[b"SET", &b"more"[..], &value]);
    client.send_bytes(
        &[
            b"PING\r\n",
            &set[..],
            b"PING a\r\nNOSUCH\r\nGET k0\r\n",
            &set,
            b"MULTI\r\n",
            &set,
            b"EXEC\r\nPING b\r\n",
        ]
        .concat(),
    );
    let replies: Vec<Value> = (0..10).map(|_| client.read()).collect();
    assert_eq!(replies[0].to_string(), "+PONG");
    assert!(fails(&replies[1]), "{}", replies[1]);
    assert_eq!(replies[2].to_string(), "a");
    assert!(replies[3].to_string().starts_with("-ERR unknown command"));
    assert!(fails(&replies[5]) && fails(&replies[8]), "{} {}", replies[5], replies[8]);
    assert_eq!(replies[6].to_string(), "+OK");
    assert_eq!(replies[7].to_string(), "+QUEUED");
    assert_eq!(replies[9].to_string(), "b");
    // Values that only the pool can write.
    let huge = vec![b'x'; 1 << 20];
    let reply = client.call_with(&[b"SET", &b"huge"[..], &huge]);
    assert!(fails(&reply), "{reply}");
    disk.set_capacity(Some(CAPACITY));
    // Reads go on, and so do deletions.
    let mut other = host.client();
    for number in 0..written {
        assert_eq!(other.call(&format!("GET k{number}")).bytes(), value, "{number} of {written}");
    }
    other.check("EXISTS more huge => :0\n DEL k0 k1 => :2");
    client.check("EXISTS k0 k1 k2 => :1");
    // Space comes: nothing has to be opened again.
    disk.set_capacity(None);
    client.check("SET more 1 => +OK\n GET more => 1");
    assert_eq!(client.call_with(&[b"SET", &b"huge"[..], &huge]).to_string(), "+OK");
    other.check(&format!("DBSIZE => :{written}"));
}

/// Nothing is lost by it: a client that waits for an element gets it when there is space. An element that is passed on to such a
/// client takes no space, but the one after it does.
#[test]
fn elements_that_cannot_be_pushed_are_not_there() {
    let disk = SimFs::new(1);
    let store = Store::on(&disk);
    let host = Host::of(&store, |_| {});
    let (mut client, mut waiting) = (host.client(), host.client());
    waiting.send("BLPOP l 0");
    host.wait_for_blocked(1);
    disk.set_capacity(Some(16 << 20));
    let value = vec![b'x'; 10_000];
    fill(&mut client, &value);
    // Others take what the store gives back.
    let is_refused = (0..1000).any(|_| {
        disk.set_capacity(Some(disk.used()));
        let is_refused = client.call_with(&[b"RPUSH", &b"l"[..], &value, &value]).is_error();
        if !is_refused {
            for _ in 0..2 {
                assert!(matches!(waiting.read(), Value::Array(reply) if reply.len() == 2));
                waiting.send("BLPOP l 0");
            }
        }
        host.wait_for_blocked(1);
        is_refused
    });
    assert!(is_refused, "the disk never stayed full");
    client.check("EXISTS l => :0");
    disk.set_capacity(None);
    client.check("RPUSH l b => :1");
    assert_eq!(waiting.read().to_string(), "[l b]");
}

/// Commands of several clients share a batch. What one client writes is not refused for what others do, and no read is.
#[test]
fn what_is_refused_to_one_client_is_no_error_for_another() {
    let disk = SimFs::new(1);
    let store = Store::on(&disk);
    let host = Host::of(&store, |_| {});
    let mut client = host.client();
    client.check("SET there 1 => +OK\n HSET h f 1 => :1");
    disk.set_capacity(Some(16 << 20));
    let value = vec![b'x'; 1000];
    fill(&mut client, &value);
    // What the store gives back makes no space for the writers.
    disk.set_capacity(Some(0));
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let _end = SetAtEnd(&is_over);
        let writers: Vec<_> = (0..4)
            .map(|writer| {
                let (host, value, is_over) = (&host, &value, &is_over);
                scope.spawn(move || {
                    let (mut client, mut refused) = (host.client(), 0_u64);
                    while !is_over.load(Ordering::Relaxed) {
                        let key = format!("w{writer}");
                        refused += u64::from(client.call_with(&[b"SET", key.as_bytes(), value]).is_error());
                    }
                    refused
                })
            })
            .collect();
        let rounds = test_kit::cases(2_000);
        for _ in 0..rounds {
            client.check("GET there => 1\n HGET h f => 1\n GET nothing => $-1");
        }
        is_over.store(true, Ordering::Relaxed);
        let refused: u64 = writers.into_iter().map(|writer| writer.join().unwrap()).sum();
        assert!(refused >= rounds / 20, "only {refused} writes were refused: the test is about nothing");
    });
}

/// Commands that remove something, or change an expiry, are taken on a full disk, as Redis takes them without memory.
#[test]
fn removals_and_expiries_are_taken_on_a_full_disk() {
    let disk = SimFs::new(1);
    let store = Store::on(&disk);
    let host = Host::of(&store, |_| {});
    let mut client = host.client();
    // Small collections, and large ones, whose elements lie in a tree of their own.
    for (size, count) in [("small", 10), ("large", 300)] {
        for i in 0..count {
            client.check(&format!("HSET {size}-h f{i} v => :1\n SADD {size}-s m{i} => :1"));
            client.check(&format!("ZADD {size}-z {i} m{i} => :1\n RPUSH {size}-l e{i} => :{}", i + 1));
        }
    }
    (0..20).for_each(|i| client.check(&format!("SET s{i} v{i} => +OK")));
    client.check("EXPIRE s9 100000 => :1");
    // The bytes of a huge value stay where they are.
    for key in ["huge1", "huge2", "huge3"] {
        client.call_with(&[b"SET", key.as_bytes(), &vec![b'x'; 100_000]]);
    }
    client.check("EXPIRE huge2 100000 => :1");
    disk.set_capacity(Some(16 << 20));
    fill(&mut client, &[b'x'; 1000]);
    wait_until("the reserve", || others_take_the_rest(&disk, 16 << 20));
    let refused = |client: &mut Client, command: &str| {
        let reply = client.call(command).to_string();
        assert!(reply.starts_with("-MISCONF the disk is full"), "{command}: {reply}");
    };
    refused(&mut client, "SET s0 1");
    client.check(
        "PEXPIRE s1 100000000 => :1\n EXPIRE s2 100000 => :1\n PEXPIREAT s3 4102444800000 => :1\n EXPIREAT s4 4102444800 => :1
         GETEX s5 EX 100000 => v5\n PERSIST s9 => :1\n GETDEL s6 => v6\n UNLINK s7 => :1\n CAD s8 v8 => :1
         EXPIRE s10 -1 => :1\n EXPIRE small-h 100000 => :1\n EXPIRE large-h 100000 => :1
         RENAME s13 s14 => +OK\n RENAMENX s14 s15 => :0\n RENAMENX s14 new => :1\n RENAME large-z small-l2 => +OK
         RENAME small-l2 large-z => +OK\n SMOVE small-s large-s m9 => :1
         PEXPIRE huge1 100000000 => :1\n PERSIST huge2 => :1\n UNLINK huge3 => :1\n STRLEN huge1 => :100000",
    );
    for size in ["small", "large"] {
        client.check(&format!(
            "HDEL {size}-h f0 f1 => :2\n SREM {size}-s m0 => :1\n ZREM {size}-z m0 => :1
             ZPOPMIN {size}-z => [m1 1]\n ZREMRANGEBYRANK {size}-z 0 1 => :2\n ZREMRANGEBYSCORE {size}-z 4 5 => :2
             ZREMRANGEBYLEX {size}-z - - => :0\n LPOP {size}-l => e0\n LREM {size}-l 0 e1 => :1
             LTRIM {size}-l 1 -1 => +OK\n BLPOP {size}-l 0 => [{size}-l e3]"
        ));
        assert_eq!(client.call(&format!("SPOP {size}-s 3")).to_string().split(' ').count(), 3);
        client.check(&format!(
            "MULTI => +OK\n HDEL {size}-h f2 => +QUEUED\n EXPIRE {size}-s 100000 => +QUEUED\n EXEC => [:1 :1]"
        ));
        refused(&mut client, &format!("HSET {size}-h g v"));
        refused(&mut client, &format!("LMOVE {size}-l other LEFT RIGHT"));
    }
    client.send_bytes(b"MULTI\r\nEXPIRE s11 100\r\nSET s12 1\r\nEXEC\r\n");
    let replies: Vec<String> = (0..4).map(|_| client.read().to_string()).collect();
    assert!(replies[3].starts_with("-MISCONF"), "{replies:?}");
    client.check("TTL s11 => :-1\n GET s12 => v12\n HLEN small-h => :7\n HLEN large-h => :297");
    // A busy machine takes a while for all this.
    let left: u64 = client.call("TTL s2").to_string()[1..].parse().unwrap();
    assert!((1..=100_000).contains(&left), "{left}");
    disk.set_capacity(None);
    client.check("SET more 1 => +OK");
}

/// Members of a kilobyte: a command that removes hundreds is as long as the log's share of the reserve, and so is the removal of a
/// collection with hundreds.
#[test]
fn long_removals_are_taken_on_a_full_disk() {
    let disk = SimFs::new(1);
    let store = Store::on(&disk);
    let host = Host::of(&store, |_| {});
    let mut client = host.client();
    let members = |first: u32, count: u32| (first..first + count).map(|i| format!("{i:01000}").into_bytes());
    let command =
        |name: &str, key: &str, arguments: Vec<Vec<u8>>| [vec![name.into(), key.into()], arguments].concat();
    for i in 0..20 {
        client.call_with(&command("SADD", "set", members(i * 50, 50).collect()));
        let scored = members(i * 50, 50).flat_map(|member| [b"1".to_vec(), member]);
        client.call_with(&command("ZADD", "zset", scored.collect()));
        let fields = members(i * 50, 50).flat_map(|member| [member, b"v".to_vec()]);
        client.call_with(&command("HSET", "hash", fields.collect()));
        client.call_with(&command("SADD", &format!("set{i}"), members(0, 200).collect()));
    }
    disk.set_capacity(Some(disk.used() + (4 << 20)));
    fill(&mut client, &[b'x'; 1000]);
    for i in 0..3 {
        for (name, key) in [("SREM", "set"), ("ZREM", "zset"), ("HDEL", "hash")] {
            let reply = client.call_with(&command(name, key, members(i * 100, 100).collect()));
            assert_eq!(reply.to_string(), ":100", "{name} {i}");
        }
    }
    for (reply, count) in [("SPOP set 200", 200), ("ZPOPMIN zset 100", 200)] {
        let popped = client.call(reply).to_string();
        assert_eq!(popped.split(' ').count(), count, "{reply}: {}", popped.get(..100).unwrap_or(&popped));
    }
    client.check("ZREMRANGEBYRANK zset 0 99 => :100");
    (0..20).for_each(|i| client.check(&format!("DEL set{i} => :1")));
    client.check("SCARD set => :500\n ZCARD zset => :500\n HLEN hash => :700");
    // The members took hardly any space, since zeros compress well: the strings have filled the disk.
    client.check("FLUSHALL => +OK");
    wait_until("SET", || !client.call("SET more 1").is_error());
}

/// The server takes commands that free space, also in one pipeline with writes that it refuses, and also if together they are
/// longer than the share for one batch.
#[test]
fn what_a_pipeline_frees_is_taken_beside_what_is_refused() {
    const KEYS: u64 = 200;
    let disk = SimFs::new(1);
    let store = Store::on(&disk);
    let host = Host::of(&store, |_| {});
    let mut client = host.client();
    disk.set_capacity(Some(24 << 20));
    let value = vec![b'x'; 2000];
    assert!(fill(&mut client, &value).0 > 2 * KEYS);
    wait_until("a full disk", || {
        others_take_the_rest(&disk, 24 << 20) && client.call_with(&[b"SET", &b"more"[..], &value]).is_error()
    });
    let set = encoded(&[b"SET", &b"more"[..], &value]);
    let pipeline: Vec<u8> =
        (0..KEYS).flat_map(|key| [format!("DEL k{key}\r\n").as_bytes(), &set].concat()).collect();
    // The disk may have had room for a moment. Then a batch is refused whole.
    wait_until("DEL", || {
        client.send_bytes(&pipeline);
        let replies: Vec<Value> = (0..2 * KEYS).map(|_| client.read()).collect();
        replies.iter().step_by(2).all(|reply| !reply.is_error())
    });
    // Each command writes its value again.
    let keys = KEYS..2 * KEYS;
    let pipeline: Vec<u8> =
        keys.clone().flat_map(|key| format!("PEXPIRE k{key} 60000\r\n").into_bytes()).collect();
    let mut taken = 0;
    wait_until("PEXPIRE", || {
        client.send_bytes(&pipeline);
        taken += keys.clone().filter(|_| !client.read().is_error()).count();
        taken > 20
    });
}

/// The server knows that the disk is full, also if it has refused nothing yet, or not for long. What frees space shares
/// batches.
#[test]
fn the_first_pipeline_on_a_full_disk_frees_space_too() {
    const KEYS: u64 = 200;
    let disk = SimFs::new(1);
    let store = Store::on(&disk);
    let host = Host::of(&store, |_| {});
    disk.set_capacity(Some(24 << 20));
    let value = vec![b'x'; 2000];
    let mut client = host.client();
    assert!(fill(&mut client, &value).0 > 2 * KEYS);
    drop((client, host));
    // The store has nothing more to give back, since no row is overwritten, and the log has no room.
    let mut more = 0..;
    wait_until("a full disk", || {
        let is_flushed = store.db.flush().is_ok();
        is_flushed
            && others_take_the_rest(&disk, 24 << 20)
            && more
                .by_ref()
                .take(1000)
                .any(|number: u32| store.db.put(format!("more {number}"), &value).is_err())
            && others_take_the_rest(&disk, 24 << 20)
    });
    let host = Host::of(&store, |_| {});
    let mut client = host.client();
    let set = encoded(&[b"SET", &b"more"[..], &value]);
    let deletes = |keys: Range<u64>| keys.flat_map(|key| format!("DEL k{key}\r\n").into_bytes());
    let pipeline: Vec<u8> = (0..KEYS).flat_map(|key| deletes(key..key + 1).chain(set.clone())).collect();
    client.send_bytes(&pipeline);
    for key in 0..KEYS {
        assert_eq!(client.read().to_string(), ":1", "{key}");
        // What was deleted may make room for the later ones.
        assert!(client.read().is_error() || key > 0, "{key}");
    }
    let commits = |client: &mut Client| -> u64 {
        let text = client.call("INFO stats").to_string();
        let counts = text.lines().filter_map(|line| line.strip_prefix("commits")?.split_once(':'));
        counts.map(|(_, count)| count.trim().parse::<u64>().unwrap()).sum()
    };
    let before = commits(&mut client);
    client.send_bytes(&deletes(KEYS..2 * KEYS).collect::<Vec<u8>>());
    (KEYS..2 * KEYS).for_each(|key| assert_eq!(client.read().to_string(), ":1", "{key}"));
    let commits = commits(&mut client) - before;
    assert!(commits < KEYS / 2, "{commits} commits for {KEYS} keys");
}

/// A client deletes what has filled the disk, or lets it expire. Then writes are taken again, and a backup is.
#[test]
fn a_full_server_recovers_from_what_is_deleted() {
    type End = fn(&mut Client, u64);
    let ways: [(&str, End); 5] = [
        ("FLUSHALL", |client, _| client.check("FLUSHALL => +OK")),
        ("DEL of each key", |client, keys| {
            for key in 0..keys {
                client.send(&format!("DEL k{key}"));
            }
            (0..keys).for_each(|_| assert_eq!(client.read().to_string(), ":1"));
        }),
        ("PEXPIRE of each key", |client, keys| {
            // It writes the value again. Where the share for that is spent, what has expired gives some back.
            for key in 0..keys {
                wait_until("PEXPIRE", || !client.call(&format!("PEXPIRE k{key} 1")).is_error());
            }
        }),
        ("DEL of a hash", |client, _| client.check("DEL h => :1")),
        ("HDEL of each field", |client, keys| {
            // It writes the number of fields. Where the share for that is spent, what was removed gives some back.
            for key in 0..keys {
                wait_until("HDEL", || !client.call(&format!("HDEL h f{key}")).is_error());
            }
        }),
    ];
    for (way, end) in test_kit::some_of(ways) {
        let disk = SimFs::new(1);
        let store = Store::on(&disk);
        let host = Host::of(&store, |_| {});
        let mut client = host.client();
        disk.set_capacity(Some(24 << 20));
        let value = vec![b'x'; 4000];
        let is_hash = way.contains("HDEL") || way.contains("hash");
        let set = |client: &mut Client, number: u64| {
            let (key, field) = (format!("k{number}"), format!("f{number}"));
            let arguments: &[&[u8]] = if is_hash {
                &[b"HSET", b"h", field.as_bytes(), &value]
            } else {
                &[b"SET", key.as_bytes(), &value]
            };
            !client.call_with(arguments).is_error()
        };
        let keys = (0..).find(|&number| !set(&mut client, number)).unwrap();
        end(&mut client, keys);
        // Writes are taken before all space is back. One that finds none is refused, and has more given back.
        (0..keys / 2).for_each(|number| wait_until(way, || set(&mut client, number)));
    }
}
