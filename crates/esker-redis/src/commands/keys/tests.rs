//! Keys of each type, small and large.

use std::collections::HashMap;

use crate::memory::Memory;

fn check(memory: &mut Memory, table: &[(&str, &str)]) {
    for (line, expected) in table {
        assert_eq!(memory.ask(line), *expected, "{line}");
    }
}

/// A store at this time.
fn at(now_us: u64) -> Memory {
    let mut memory = Memory::default();
    memory.now_us = now_us;
    memory
}

/// Numbers from 0 on and below `len`, each made to words by `word`.
fn words(len: usize, word: impl Fn(usize) -> String) -> String {
    (0..len).map(word).collect::<Vec<_>>().join(" ")
}

/// One key of each type; the collections have `len` elements.
fn fill(memory: &mut Memory, len: usize) {
    memory.ask("SET string v");
    memory.ask(&format!("HSET hash {}", words(len, |number| format!("f{number} v{number}"))));
    memory.ask(&format!("SADD set {}", words(len, |number| format!("m{number}"))));
    memory.ask(&format!("ZADD zset {}", words(len, |number| format!("{number} m{number}"))));
    memory.ask(&format!("RPUSH list {}", words(len, |number| format!("e{number}"))));
}

/// What shows the contents of each of [`fill`]'s keys.
const SHOWN: &[(&str, &str)] = &[
    ("string", "GET"),
    ("hash", "HGETALL"),
    ("set", "SMEMBERS"),
    ("zset", "ZRANGE x 0 -1 WITHSCORES"),
    ("list", "LRANGE x 0 -1"),
];

fn shown(memory: &mut Memory, command: &str, key: &str) -> String {
    let line = if command.contains(" x ") {
        command.replace(" x ", &format!(" {key} "))
    } else {
        format!("{command} {key}")
    };
    memory.ask(&line)
}

fn events(memory: &mut Memory) -> String {
    let events = std::mem::take(&mut memory.events);
    let names = events
        .iter()
        .map(|event| format!("{}:{} {}", event.database, event.name, String::from_utf8_lossy(&event.key)));
    names.collect::<Vec<_>>().join(", ")
}

#[test]
fn keys_are_deleted_and_counted() {
    for len in [3, 200, 2000] {
        let mut memory = Memory::default();
        fill(&mut memory, len);
        check(
            &mut memory,
            &[
                ("TYPE string", "+string|"),
                ("TYPE hash", "+hash|"),
                ("TYPE set", "+set|"),
                ("TYPE zset", "+zset|"),
                ("TYPE list", "+list|"),
                ("TYPE none", "+none|"),
                ("EXISTS string none list string", ":3|"),
                ("TOUCH string none list string", ":3|"),
                ("DEL string none list string", ":2|"),
                ("UNLINK hash set zset zset", ":3|"),
                ("EXISTS string hash set zset list", ":0|"),
                ("DEL", "-ERR wrong number of arguments for 'del' command|"),
            ],
        );
        assert_eq!(memory.elements(), 0);
    }
}

#[test]
fn keys_get_other_names() {
    for len in [3, 200, 2000] {
        for (key, command) in SHOWN {
            let mut memory = Memory::default();
            fill(&mut memory, len);
            let elements = memory.elements();
            let before = shown(&mut memory, command, key);
            memory.ask(&format!("PEXPIRE {key} 7000"));
            check(
                &mut memory,
                &[
                    ("SET other x", "+OK|"),
                    (&format!("RENAMENX {key} other"), ":0|"),
                    (&format!("RENAMENX {key} new"), ":1|"),
                    (&format!("EXISTS {key}"), ":0|"),
                    ("PTTL new", ":7000|"),
                    ("RENAME new other", "+OK|"),
                    ("RENAME other other", "+OK|"),
                    ("RENAMENX other other", ":0|"),
                    ("PTTL other", ":7000|"),
                    ("EXISTS new", ":0|"),
                    ("RENAME new other", "-ERR no such key|"),
                    ("RENAME new new", "-ERR no such key|"),
                    ("RENAMENX new other", "-ERR no such key|"),
                ],
            );
            assert_eq!(shown(&mut memory, command, "other"), before, "{key}");
            assert_eq!(memory.elements(), elements);
            // Over another large collection, which leaves nothing.
            memory.ask(&format!("RPUSH {key} {}", words(100, |number| number.to_string())));
            memory.ask(&format!("RENAME other {key}"));
            assert_eq!(shown(&mut memory, command, key), before, "{key}");
            assert_eq!(memory.elements(), elements);
        }
    }
}

#[test]
fn copies_do_not_depend_on_each_other() {
    for len in [3, 200] {
        for (key, command) in SHOWN {
            let mut memory = Memory::default();
            fill(&mut memory, len);
            let elements = memory.elements();
            let before = shown(&mut memory, command, key);
            memory.ask(&format!("PEXPIRE {key} 7000"));
            check(
                &mut memory,
                &[
                    (&format!("COPY {key} copy"), ":1|"),
                    (&format!("COPY {key} copy"), ":0|"),
                    (&format!("COPY {key} copy REPLACE"), ":1|"),
                    (&format!("COPY {key} {key} db 3"), ":1|"),
                    (&format!("COPY {key} {key} DB 3"), ":0|"),
                    (&format!("COPY {key} {key} replace DB 3"), ":1|"),
                    ("PTTL copy", ":7000|"),
                    (&format!("DEL {key}"), ":1|"),
                ],
            );
            assert_eq!(shown(&mut memory, command, "copy"), before, "{key}");
            memory.ask("DEL copy");
            memory.database = 3;
            assert_eq!(shown(&mut memory, command, key), before, "{key}");
            assert_eq!(memory.ask(&format!("PTTL {key}")), ":7000|");
            memory.ask(&format!("DEL {key}"));
            memory.database = 0;
            memory.ask("DEL string hash set zset list");
            assert_eq!(memory.elements(), 0, "{key} of {elements}");
        }
    }
    check(
        &mut Memory::default(),
        &[
            ("COPY none none", "-ERR source and destination objects are the same|"),
            ("COPY none none DB 0", "-ERR source and destination objects are the same|"),
            ("COPY none other", ":0|"),
            ("COPY none none DB 1", ":0|"),
            ("COPY a b DB", "-ERR syntax error|"),
            ("COPY a b OVER", "-ERR syntax error|"),
            ("COPY a b DB x", "-ERR value is not an integer or out of range|"),
            ("COPY a b DB 16", "-ERR DB index is out of range|"),
            ("COPY a b DB -1", "-ERR DB index is out of range|"),
            (
                "COPY a b DB 99999999999",
                "-ERR value is out of range, value must between -2147483648 and 2147483647|",
            ),
            // What is wanted to be replaced stays if there is nothing to replace it.
            ("SET b v", "+OK|"),
            ("COPY a b REPLACE", ":0|"),
            ("GET b", "$1|v|"),
        ],
    );
}

#[test]
fn keys_move_to_other_databases() {
    for len in [3, 200] {
        for (key, command) in SHOWN {
            let mut memory = Memory::default();
            fill(&mut memory, len);
            let elements = memory.elements();
            let before = shown(&mut memory, command, key);
            memory.ask(&format!("PEXPIRE {key} 7000"));
            assert_eq!(memory.ask(&format!("MOVE {key} 1")), ":1|");
            assert_eq!(memory.ask(&format!("MOVE {key} 1")), ":0|");
            memory.ask(&format!("SET {key} v"));
            assert_eq!(memory.ask(&format!("MOVE {key} 1")), ":0|");
            memory.database = 1;
            assert_eq!(shown(&mut memory, command, key), before, "{key}");
            assert_eq!(memory.ask(&format!("PTTL {key}")), ":7000|");
            assert_eq!(memory.elements(), elements);
        }
    }
    check(
        &mut Memory::default(),
        &[
            ("MOVE a 0", "-ERR source and destination objects are the same|"),
            ("MOVE a x", "-ERR value is not an integer or out of range|"),
            ("MOVE a 16", "-ERR DB index is out of range|"),
            ("MOVE a 1", ":0|"),
        ],
    );
}

#[test]
fn databases_are_flushed() {
    for (line, left_of_other) in [
        ("FLUSHDB", ":1|"),
        ("flushdb async", ":1|"),
        ("FLUSHDB SYNC", ":1|"),
        ("FLUSHALL", ":0|"),
        ("FLUSHALL ASYNC", ":0|"),
        ("FLUSHALL SYNC", ":0|"),
    ] {
        let mut memory = Memory::default();
        fill(&mut memory, 100);
        memory.ask("COPY string string DB 5");
        assert_eq!(memory.ask("FLUSHDB NOW"), "-ERR syntax error|");
        assert_eq!(memory.ask("FLUSHALL SYNC ASYNC"), "-ERR syntax error|");
        assert_eq!(memory.ask("EXISTS string hash"), ":2|");
        assert_eq!(memory.ask(line), "+OK|");
        assert_eq!(memory.ask("KEYS *"), "*0|");
        assert_eq!(memory.elements(), 0);
        memory.database = 5;
        assert_eq!(memory.ask("EXISTS string"), left_of_other, "{line}");
    }
}

#[test]
fn keys_expire_when_they_are_told_to() {
    let mut memory = at(1_000_000_500);
    check(
        &mut memory,
        &[
            ("EXPIRE none 10", ":0|"),
            ("TTL none", ":-2|"),
            ("PTTL none", ":-2|"),
            ("EXPIRETIME none", ":-2|"),
            ("PEXPIRETIME none", ":-2|"),
            ("PERSIST none", ":0|"),
            ("SET k v", "+OK|"),
            ("TTL k", ":-1|"),
            ("EXPIRETIME k", ":-1|"),
            ("PERSIST k", ":0|"),
            ("EXPIRE k 10", ":1|"),
            ("TTL k", ":10|"),
            ("PTTL k", ":10000|"),
            ("EXPIRETIME k", ":1010|"),
            ("PEXPIRETIME k", ":1010000|"),
            ("PEXPIRE k 1499", ":1|"),
            ("TTL k", ":1|"),
            ("PEXPIRE k 1500", ":1|"),
            ("TTL k", ":2|"),
            ("EXPIREAT k 2000", ":1|"),
            ("TTL k", ":1000|"),
            ("PEXPIREAT k 2000499", ":1|"),
            ("EXPIRETIME k", ":2000|"),
            ("PERSIST k", ":1|"),
            ("TTL k", ":-1|"),
            ("PEXPIRE k 1", ":1|"),
        ],
    );
    memory.now_us += 499;
    assert_eq!(memory.ask("PTTL k"), ":1|");
    memory.now_us += 1;
    assert_eq!(memory.ask("EXISTS k"), ":0|");
    // At once: for times that are over already.
    for line in [
        "EXPIRE k 0",
        "EXPIRE k -1",
        "PEXPIRE k -100",
        "EXPIREAT k 1000",
        "PEXPIREAT k 1000001",
        "EXPIREAT k -5",
    ] {
        memory.ask("SET k v");
        assert_eq!(memory.ask(line), ":1|", "{line}");
        assert_eq!(memory.ask("EXISTS k"), ":0|", "{line}");
    }
    memory.ask(&format!("RPUSH k {}", words(100, |number| number.to_string())));
    assert_eq!(memory.ask("EXPIRE k 0"), ":1|");
    assert_eq!(memory.elements(), 0);
}

/// The machine's clock, by which clients tell moments, shows 4,000 seconds, and the clock of the store 10,000.
#[test]
fn moments_are_those_of_clients_where_the_clock_of_keys_is_ahead() {
    let mut memory = at(10_000_000_000);
    memory.ahead_ms = 6_000_000;
    check(
        &mut memory,
        &[
            ("SET k v EXAT 4010", "+OK|"),
            ("TTL k", ":10|"),
            ("EXPIRETIME k", ":4010|"),
            ("PEXPIRETIME k", ":4010000|"),
            ("RANGE k k EXPIRES KEYS", "*2|$1|k|:4010000|"),
            ("SET k v PXAT 4010001", "+OK|"),
            ("PEXPIRETIME k", ":4010001|"),
            ("EXPIREAT k 4020", ":1|"),
            ("PTTL k", ":20000|"),
            ("PEXPIREAT k 4030000 GT", ":1|"),
            ("EXPIREAT k 4025 GT", ":0|"),
            ("GETEX k PXAT 4040000", "$1|v|"),
            ("EXPIRETIME k", ":4040|"),
            ("GETEX k EX 5", "$1|v|"),
            ("EXPIRETIME k", ":4005|"),
            ("EXPIRE k 7", ":1|"),
            ("PEXPIRETIME k", ":4007000|"),
            ("SET k v PX 9", "+OK|"),
            ("PEXPIRETIME k", ":4000009|"),
            ("SETEX k 3 v", "+OK|"),
            ("EXPIRETIME k", ":4003|"),
            ("PERSIST k", ":1|"),
            ("EXPIRETIME k", ":-1|"),
            // The last moment that there is for the clients, and for the store.
            ("PEXPIREAT k 9223372036854775807", ":1|"),
            ("EXISTS k", ":1|"),
            ("EXPIREAT k 4000", ":1|"),
            ("EXISTS k", ":0|"),
            ("SET k v", "+OK|"),
            ("GETEX k EXAT 3999", "$1|v|"),
            ("EXISTS k", ":0|"),
        ],
    );
    memory.ask("SET k v EXAT 4001");
    memory.now_us += 999_999;
    assert_eq!(memory.ask("EXISTS k"), ":1|");
    memory.now_us += 1;
    assert_eq!(memory.ask("EXISTS k"), ":0|");
}

#[test]
fn times_that_do_not_exist_are_refused() {
    let mut memory = at(1_700_000_000_000_000);
    memory.ask("SET k v");
    for (line, name) in [
        ("EXPIRE k 9223372036854775807", "expire"),
        ("EXPIRE k 9223372036854775", "expire"),
        ("EXPIRE k -9223372036854776", "expire"),
        ("PEXPIRE k 9223372036854775807", "pexpire"),
        ("expireat k 9223372036854776", "expireat"),
        ("EXPIREAT none -9223372036854776", "expireat"),
    ] {
        assert_eq!(memory.ask(line), format!("-ERR invalid expire time in '{name}' command|"), "{line}");
    }
    check(
        &mut memory,
        &[
            ("EXPIRE k x", "-ERR value is not an integer or out of range|"),
            ("EXPIRE k 1.5", "-ERR value is not an integer or out of range|"),
            ("EXPIRE none x OFF", "-ERR Unsupported option OFF|"),
            ("EXPIRE k 1 NX XX", "-ERR NX and XX, GT or LT options at the same time are not compatible|"),
            ("EXPIRE k 1 LT NX", "-ERR NX and XX, GT or LT options at the same time are not compatible|"),
            ("EXPIRE k 1 GT LT", "-ERR GT and LT options at the same time are not compatible|"),
            ("TTL k", ":-1|"),
            // The store's largest time.
            ("PEXPIREAT k 9223372036854775807", ":1|"),
            ("PEXPIRETIME k", ":18446744073709551|"),
            ("PEXPIREAT k -9223372036854775808", ":1|"),
            ("EXISTS k", ":0|"),
        ],
    );
}

#[test]
fn an_expiry_is_replaced_on_conditions() {
    for (before, condition, now, expected) in [
        (None, "NX", 5, true),
        (Some(9), "nx", 5, false),
        (None, "XX", 5, false),
        (Some(9), "xx", 5, true),
        (None, "GT", 5, false),
        (Some(9), "GT", 9, false),
        (Some(9), "GT", 10, true),
        (None, "LT", 5, true),
        (Some(9), "LT", 9, false),
        (Some(9), "LT", 8, true),
        (None, "LT XX", 5, false),
        (Some(9), "XX GT", 10, true),
        (Some(9), "GT GT", 8, false),
    ] {
        let mut memory = at(1_000_000);
        memory.ask("SET k v");
        if let Some(before) = before {
            memory.ask(&format!("EXPIRE k {before}"));
        }
        let reply = memory.ask(&format!("EXPIRE k {now} {condition}"));
        assert_eq!(reply, format!(":{}|", u8::from(expected)), "{before:?} {condition} {now}");
        let ttl = if expected { now } else { before.unwrap_or(-1) };
        assert_eq!(memory.ask("TTL k"), format!(":{ttl}|"), "{before:?} {condition} {now}");
    }
}

/// All keys that `SCAN` finds with these options, and in how many calls.
fn scanned(memory: &mut Memory, options: &str) -> (Vec<String>, usize) {
    let (mut cursor, mut found, mut calls) = ("0".to_owned(), Vec::new(), 0);
    loop {
        let reply = memory.ask(&format!("SCAN {cursor} {options}"));
        let parts: Vec<&str> = reply.split('|').collect();
        cursor = parts[2].to_owned();
        found.extend(parts[4..].iter().skip(1).step_by(2).map(|key| (*key).to_owned()));
        calls += 1;
        if cursor == "0" {
            return (found, calls);
        }
    }
}

#[test]
fn a_scan_finds_each_key_once() {
    let mut memory = Memory::default();
    assert_eq!(memory.ask("SCAN 0"), "*2|$1|0|*0|");
    for number in 0..1000 {
        memory.ask(&format!("SET key:{number:03} v"));
    }
    fill(&mut memory, 3);
    memory.ask("SET gone v PX 1");
    memory.now_us += 1000;
    let (all, calls) = scanned(&mut memory, "");
    assert_eq!(all.len(), 1005);
    // A page has up to a hundred keys more than it should have.
    assert!((10..=101).contains(&calls), "{calls}");
    assert_eq!(scanned(&mut memory, "COUNT 1").0, all);
    assert_eq!(scanned(&mut memory, "COUNT 1005").1, 1);
    assert_eq!(scanned(&mut memory, "COUNT 9223372036854775807").0, all);
    // A pattern that begins with plain bytes looks at no other keys.
    let tenth: Vec<String> = (10..20).map(|number| format!("key:0{number}")).collect();
    assert_eq!(scanned(&mut memory, "MATCH key:01*"), (tenth.clone(), 1));
    assert_eq!(scanned(&mut memory, "COUNT 3 MATCH key:01*").0, tenth);
    assert_eq!(scanned(&mut memory, "MATCH key:007"), (vec!["key:007".to_owned()], 1));
    assert_eq!(scanned(&mut memory, "MATCH *7 COUNT 1000").0.len(), 100);
    assert_eq!(scanned(&mut memory, "MATCH none:*"), (Vec::new(), 1));
    assert_eq!(scanned(&mut memory, "TYPE hash COUNT 3").0, ["hash"]);
    assert_eq!(scanned(&mut memory, "type ZSET match z*").0, ["zset"]);
    assert_eq!(scanned(&mut memory, "TYPE stream").0, Vec::<String>::new());
    check(
        &mut memory,
        &[
            ("SCAN x", "-ERR invalid cursor|"),
            ("SCAN 0 COUNT 0", "-ERR syntax error|"),
            ("SCAN 0 COUNT x", "-ERR value is not an integer or out of range|"),
            ("SCAN 0 MATCH", "-ERR syntax error|"),
            ("SCAN 0 TYPE", "-ERR syntax error|"),
        ],
    );
}

#[test]
fn keys_that_match_are_listed() {
    let mut memory = Memory::default();
    for key in ["a", "ab", "abc", "b", "h*llo", "hallo", "hello", "\\"] {
        memory.reply(&[b"SET", key.as_bytes(), b"v"], false);
    }
    for (pattern, expected) in [
        ("*", "a ab abc b h*llo hallo hello \\"),
        ("a", "a"),
        ("ab", "ab"),
        ("abcd", ""),
        ("a*", "a ab abc"),
        ("a?", "ab"),
        ("[ab]", "a b"),
        ("h[^e]llo", "h*llo hallo"),
        ("h\\*llo", "h*llo"),
        ("\\", "\\"),
        ("", ""),
    ] {
        let reply = memory.reply(&[b"KEYS", pattern.as_bytes()], false);
        let reply = String::from_utf8(reply).unwrap();
        let mut found: Vec<&str> = reply.split("\r\n").skip(2).step_by(2).collect();
        found.sort_unstable();
        let mut expected: Vec<&str> = expected.split(' ').filter(|key| !key.is_empty()).collect();
        expected.sort_unstable();
        assert_eq!(found, expected, "{pattern}");
    }
}

/// How often each key is returned in so many calls.
fn drawn(memory: &mut Memory, calls: usize) -> HashMap<String, usize> {
    let mut drawn = HashMap::new();
    for _ in 0..calls {
        let reply = memory.ask("RANDOMKEY");
        *drawn.entry(reply.split('|').nth(1).unwrap().to_owned()).or_default() += 1;
    }
    drawn
}

#[test]
fn few_keys_are_equally_likely() {
    let mut memory = Memory::default();
    assert_eq!(memory.ask("RANDOMKEY"), "$-1|");
    for number in 0..20 {
        memory.ask(&format!("SET {} v", "x".repeat(1 + number * number)));
    }
    let drawn = drawn(&mut memory, 4000);
    assert_eq!(drawn.len(), 20);
    assert!(drawn.values().all(|count| (120..280).contains(count)), "{drawn:?}");
}

#[test]
fn many_keys_are_about_equally_likely() {
    let mut memory = Memory::default();
    for number in 0..5000 {
        memory.ask(&format!("SET user:{number:05}:name v"));
    }
    // Keys that a random byte would hit much too often.
    for key in ["a", "b", "user", "user:", "user:9", "v", "zebra"] {
        memory.ask(&format!("SET {key} v"));
    }
    let drawn = drawn(&mut memory, 2000);
    let mut by_thousand = [0; 5];
    for (key, count) in &drawn {
        if let Some(digit) = key.strip_prefix("user:0").and_then(|rest| rest.chars().next()?.to_digit(10)) {
            by_thousand[digit as usize] += count;
        }
    }
    assert!(by_thousand.iter().sum::<usize>() > 1980, "{by_thousand:?}");
    assert!(by_thousand.iter().all(|count| (320..480).contains(count)), "{by_thousand:?}");
    assert!(drawn.values().all(|count| *count < 10), "{drawn:?}");
}

#[test]
fn keys_without_a_pattern_are_about_equally_likely() {
    let mut memory = Memory::default();
    // Of the first bytes, the lower ones have four times as many keys, and between them lies a chain of keys.
    for number in 0..2000_u64 {
        let spread = number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes();
        let first = if number % 5 == 0 { 200 + spread[0] % 50 } else { spread[0] % 50 };
        memory.reply(&[b"SET", &[&[first], &spread[1..4]].concat(), b"v"], false);
    }
    for len in 1..500 {
        memory.reply(&[b"SET", &vec![100; len], b"v"], false);
    }
    let (mut low, mut chain, mut high) = (0, 0, 0);
    for _ in 0..2500 {
        let reply = memory.reply(&[b"RANDOMKEY"], false);
        let begin = reply.iter().position(|byte| *byte == b'\n').unwrap() + 1;
        match reply[begin] {
            0..50 => low += 1,
            100 => chain += 1,
            _ => high += 1,
        }
    }
    assert!((1500..2000).contains(&low) && (350..750).contains(&high) && chain > 20, "{low} {chain} {high}");
}

#[test]
fn encodings_are_named_as_redis_names_them() {
    let mut memory = Memory::default();
    let long = "x".repeat(65);
    for (fill, expected) in [
        ("SET k 123", "int"),
        ("SET k -9223372036854775808", "int"),
        ("SET k 0123", "embstr"),
        ("SET k abc", "embstr"),
        (&format!("SET k {}", "x".repeat(44)), "embstr"),
        (&format!("SET k {}", "x".repeat(45)), "raw"),
        ("RPUSH k a", "quicklist"),
        ("HSET k f v", "listpack"),
        (&format!("HSET k f {long}"), "hashtable"),
        (&format!("HSET k {long} v"), "hashtable"),
        (&format!("HSET k {}", words(512, |number| format!("{number} v"))), "listpack"),
        (&format!("HSET k {}", words(513, |number| format!("{number} v"))), "hashtable"),
        (&format!("SADD k {}", words(512, |number| number.to_string())), "intset"),
        (&format!("SADD k {}", words(513, |number| number.to_string())), "hashtable"),
        ("SADD k 1 2 x", "hashtable"),
        (&format!("ZADD k {}", words(128, |number| format!("1 {number}"))), "listpack"),
        (&format!("ZADD k {}", words(129, |number| format!("1 {number}"))), "skiplist"),
        (&format!("ZADD k 1 {}", &long[1..]), "listpack"),
        (&format!("ZADD k 1 {long}"), "skiplist"),
    ] {
        memory.ask(fill);
        let expected = format!("${}|{expected}|", expected.len());
        assert_eq!(memory.ask("OBJECT ENCODING k"), expected, "{fill}");
        memory.ask("DEL k");
    }
}

#[test]
fn objects_are_told_about() {
    let mut memory = Memory::default();
    check(
        &mut memory,
        &[
            ("OBJECT ENCODING k", "$-1|"),
            ("OBJECT FREQ k", "$-1|"),
            ("OBJECT IDLETIME k", "$-1|"),
            ("OBJECT REFCOUNT k", "$-1|"),
            ("SET k v", "+OK|"),
            ("object idletime k", ":0|"),
            ("OBJECT REFCOUNT k", ":1|"),
            (
                "OBJECT FREQ k",
                "-ERR An LFU maxmemory policy is not selected, access frequency not tracked. Please note that when \
                 switching between policies at runtime LRU and LFU data will take some time to adjust.|",
            ),
            ("OBJECT", "-ERR wrong number of arguments for 'object' command|"),
            ("OBJECT ENCODING", "-ERR wrong number of arguments for 'object|encoding' command|"),
            ("OBJECT HELP x", "-ERR wrong number of arguments for 'object|help' command|"),
            ("OBJECT SIZE k", "-ERR unknown subcommand 'SIZE'. Try OBJECT HELP.|"),
        ],
    );
    assert!(memory.ask("OBJECT HELP").starts_with("*11|+OBJECT <subcommand>"));
}

#[test]
fn events_are_told_as_redis_tells_them() {
    let mut memory = at(1_000_000);
    for (line, expected) in [
        ("SET s v", "0:new s, 0:set s"),
        ("RENAME s t", "0:new t, 0:rename_from s, 0:rename_to t"),
        ("RENAME t t", ""),
        ("COPY t u", "0:new u, 0:copy_to u"),
        ("COPY t u", ""),
        ("COPY t u REPLACE", "0:new u, 0:copy_to u"),
        ("MOVE t 1", "1:new t, 0:move_from t, 1:move_to t"),
        ("COPY u t DB 1 REPLACE", "1:new t, 1:copy_to t"),
        ("EXPIRE u 100", "0:expire u"),
        ("EXPIRE u 100 NX", ""),
        ("PERSIST u", "0:persist u"),
        ("PERSIST u", ""),
        ("EXPIRE u -1", "0:del u"),
        ("EXPIRE u 1", ""),
        ("RPUSH a b", "0:new a, 0:rpush a"),
        ("SET b v", "0:new b, 0:set b"),
        ("RENAMENX a b", ""),
        ("DEL a none b a", "0:del a, 0:del b"),
        ("SET a v", "0:new a, 0:set a"),
        ("UNLINK a a", "0:del a"),
        ("COPY none x", "0:keymiss none"),
        ("RENAME none x", ""),
        ("TTL none", "0:keymiss none"),
        ("PEXPIRETIME none", "0:keymiss none"),
        ("EXISTS none none", "0:keymiss none, 0:keymiss none"),
        ("TOUCH none", "0:keymiss none"),
        ("TYPE none", "0:keymiss none"),
        ("OBJECT ENCODING none", ""),
        ("FLUSHALL", ""),
    ] {
        memory.ask(line);
        assert_eq!(events(&mut memory), expected, "{line}");
    }
}

/// To delete many collections takes no more memory than to delete some: the elements of the others are left to the server's
/// sweep.
#[test]
fn a_large_transaction_leaves_elements_to_the_sweep() {
    let mut memory = at(1);
    fill(&mut memory, 200);
    let all = memory.elements();
    memory.ask("DEL set");
    let left = memory.elements();
    assert!(left < all);
    memory.in_transaction = true;
    memory.reply(&[b"SET", b"large", &vec![0; 17 << 20]], false);
    check(&mut memory, &[("DEL hash", ":1|"), ("EXISTS hash", ":0|"), ("HSET hash f 1", ":1|")]);
    memory.in_transaction = false;
    check(&mut memory, &[("DEL list", ":1|"), ("HGETALL hash", "*2|$1|f|$1|1|")]);
    assert_eq!(memory.elements(), left, "no element of the hash and the list was deleted");
}
