//! What the commands of hashes answer, write and say.

use std::collections::BTreeSet;

use crate::memory::Memory;
use crate::model::SMALL_ENTRIES;

const WRONG_TYPE: &str = "-WRONGTYPE Operation against a key holding the wrong kind of value|";

/// Asks line by line; each has a command and its reply.
fn talk(memory: &mut Memory, lines: &[(&str, &str)]) {
    for (line, reply) in lines {
        assert_eq!(memory.ask(line), *reply, "{line}");
    }
}

/// The events since the last call, each with its key.
fn events(memory: &mut Memory) -> Vec<String> {
    let events = memory.events.drain(..);
    events.map(|event| format!("{} {}", event.name, String::from_utf8_lossy(&event.key))).collect()
}

/// A store with a hash `h` of the fields `0000`, `0001`, ..., whose values are `v0`, `v1`, ...
fn with_hash(fields: u64) -> Memory {
    let mut memory = Memory::default();
    for field in 0..fields {
        assert_eq!(memory.ask(&format!("HSET h {field:04} v{field}")), ":1|");
    }
    memory.events.clear();
    assert_eq!(memory.elements() as u64, if fields > SMALL_ENTRIES { fields } else { 0 });
    memory
}

/// The bulk strings of a reply.
fn bulks(reply: &str) -> Vec<&str> {
    let mut parts = reply.split('|');
    let mut bulks = Vec::new();
    while let Some(part) = parts.next() {
        if part.starts_with('$') && part != "$-1" {
            bulks.extend(parts.next());
        }
    }
    bulks
}

#[test]
fn fields_are_set_read_and_deleted() {
    for others in [0, 300] {
        let mut memory = with_hash(others);
        let count = |fields: u64| format!(":{}|", others + fields);
        talk(
            &mut memory,
            &[
                ("HSET h a 1 b 2 a 3", ":2|"),
                ("HSET h a 1 c", "-ERR wrong number of arguments for 'hset' command|"),
                ("HMSET h a 1 c", "-ERR wrong number of arguments for 'hmset' command|"),
                ("HMSET h c 4 b 5", "+OK|"),
                ("HSETNX h a x", ":0|"),
                ("HSETNX h d \"\"", ":1|"),
                ("HLEN h", &count(4)),
                ("HGET h a", "$1|3|"),
                ("HGET h x", "$-1|"),
                ("HMGET h a x d b a", "*5|$1|3|$-1|$0||$1|5|$1|3|"),
                ("HEXISTS h d", ":1|"),
                ("HEXISTS h x", ":0|"),
                ("HSTRLEN h d", ":0|"),
                ("HSTRLEN h a", ":1|"),
                ("HSTRLEN h x", ":0|"),
                ("HDEL h x y", ":0|"),
                ("HDEL h a x a b", ":2|"),
                ("HLEN h", &count(2)),
            ],
        );
        let mut said = vec!["new h", "hset h", "hset h", "hset h", "hdel h"];
        if others > 0 {
            said.remove(0);
        }
        assert_eq!(events(&mut memory), said);
        let all: String = (0..others).map(|field| format!(" {field:04}")).collect();
        assert_eq!(memory.ask(&format!("HDEL h c d{all}")), count(2));
        assert_eq!(events(&mut memory), ["hdel h", "del h"]);
        assert_eq!((memory.ask("EXISTS h").as_str(), memory.elements()), (":0|", 0));
    }
}

#[test]
fn all_of_a_hash_is_returned_in_order() {
    for fields in [1, 64, 65, 500] {
        let mut memory = with_hash(fields);
        for (line, len, has_field, has_value) in [
            ("HGETALL h", 2 * fields, true, true),
            ("HKEYS h", fields, true, false),
            ("HVALS h", fields, false, true),
        ] {
            let mut expected = format!("*{len}|");
            for field in 0..fields {
                let value = format!("v{field}");
                if has_field {
                    expected += &format!("$4|{field:04}|");
                }
                if has_value {
                    expected += &format!("${}|{value}|", value.len());
                }
            }
            assert_eq!(memory.ask(line), expected, "{line}");
        }
        assert!(memory.reply(&[b"HGETALL", b"h"], true).starts_with(format!("%{fields}\r\n").as_bytes()));
    }
}

#[test]
fn a_key_that_is_not_there_reads_as_an_empty_hash() {
    let mut memory = Memory::default();
    for (line, reply, reply3) in [
        ("HGET none f", "$-1|", "_|"),
        ("HMGET none f g", "*2|$-1|$-1|", "*2|_|_|"),
        ("HGETALL none", "*0|", "%0|"),
        ("HKEYS none", "*0|", "*0|"),
        ("HVALS none", "*0|", "*0|"),
        ("HLEN none", ":0|", ":0|"),
        ("HEXISTS none f", ":0|", ":0|"),
        ("HSTRLEN none f", ":0|", ":0|"),
        ("HSCAN none 0 bad", "*2|$1|0|*0|", "*2|$1|0|*0|"),
        ("HRANDFIELD none", "$-1|", "_|"),
        ("HRANDFIELD none 3 WITHVALUES", "*0|", "*0|"),
        ("HRANDFIELD none -3", "*0|", "*0|"),
    ] {
        assert_eq!(memory.ask(line), reply, "{line}");
        let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
        assert_eq!(String::from_utf8_lossy(&memory.reply(&words, true)).replace("\r\n", "|"), reply3);
        assert_eq!(events(&mut memory), ["keymiss none", "keymiss none"], "{line}");
    }
    assert_eq!(memory.ask("HDEL none f"), ":0|");
    assert!(events(&mut memory).is_empty());
}

#[test]
fn another_type_is_refused() {
    let mut memory = Memory::default();
    memory.ask("SADD s 1");
    memory.events.clear();
    for line in [
        "HSET s f 1",
        "HMSET s f 1",
        "HSETNX s f 1",
        "HGET s f",
        "HMGET s f",
        "HGETALL s",
        "HKEYS s",
        "HVALS s",
        "HDEL s f",
        "HLEN s",
        "HEXISTS s f",
        "HSTRLEN s f",
        "HINCRBY s f 1",
        "HINCRBYFLOAT s f 1",
        "HSCAN s 0",
        "HSCAN s 0 bad",
        "HRANDFIELD s",
        "HRANDFIELD s 1",
    ] {
        assert_eq!(memory.ask(line), WRONG_TYPE, "{line}");
    }
    assert!(events(&mut memory).is_empty());
    assert_eq!(memory.ask("SMEMBERS s"), "*1|$1|1|");
}

#[test]
fn numbers_are_added_to() {
    const NOT_INTEGER: &str = "-ERR value is not an integer or out of range|";
    const BEYOND: &str = "-ERR increment or decrement would overflow|";
    for others in [0, 300] {
        let mut memory = with_hash(others);
        talk(
            &mut memory,
            &[
                ("HINCRBY h n 5", ":5|"),
                ("HINCRBY h n -7", ":-2|"),
                ("HGET h n", "$2|-2|"),
                ("HINCRBY h n 9223372036854775807", ":9223372036854775805|"),
                ("HINCRBY h n 3", BEYOND),
                ("HINCRBY h n -9223372036854775808", ":-3|"),
                ("HINCRBY h n -9223372036854775806", BEYOND),
                ("HINCRBY h n 1.5", NOT_INTEGER),
                ("HINCRBY h n 9223372036854775808", NOT_INTEGER),
                ("HSET h text \" 1\" float 1.5 inf inf", ":3|"),
                ("HINCRBY h text 1", "-ERR hash value is not an integer|"),
                ("HINCRBY h float 1", "-ERR hash value is not an integer|"),
                ("HINCRBYFLOAT h f 3.0", "$1|3|"),
                ("HINCRBYFLOAT h f 1.1", "$3|4.1|"),
                ("HINCRBYFLOAT h f -4.1", "$1|0|"),
                ("HINCRBYFLOAT h n 2e2", "$3|197|"),
                ("HINCRBYFLOAT h n x", "-ERR value is not a valid float|"),
                ("HINCRBYFLOAT h n nan", "-ERR value is not a valid float|"),
                ("HINCRBYFLOAT h n -inf", "-ERR value is NaN or Infinity|"),
                ("HINCRBYFLOAT h text 1", "-ERR hash value is not a float|"),
                ("HINCRBYFLOAT h inf 1", "-ERR increment would produce NaN or Infinity|"),
                ("HGET h n", "$3|197|"),
            ],
        );
        let said = events(&mut memory);
        assert_eq!(said.iter().filter(|event| *event == "hincrby h").count(), 4);
        assert_eq!(said.iter().filter(|event| *event == "hincrbyfloat h").count(), 4);
    }
    let mut memory = Memory::default();
    talk(
        &mut memory,
        &[("HINCRBY a n x", NOT_INTEGER), ("HLEN a", ":0|"), ("HINCRBYFLOAT b n 0.5", "$3|0.5|")],
    );
    assert_eq!(events(&mut memory), ["keymiss a", "new b", "hincrbyfloat b"]);
}

#[test]
fn changes_keep_the_expiry() {
    for fields in [3, 300] {
        let mut memory = with_hash(fields);
        memory.now_us = 1_000_000_000;
        talk(
            &mut memory,
            &[
                ("PEXPIRE h 5000", ":1|"),
                ("HSET h x 1", ":1|"),
                ("HINCRBY h x 1", ":2|"),
                ("HDEL h 0000", ":1|"),
                ("PTTL h", ":5000|"),
            ],
        );
        memory.now_us += 5_000_000;
        talk(
            &mut memory,
            &[("HGET h x", "$-1|"), ("HLEN h", ":0|"), ("HSET h x 1", ":1|"), ("HGETALL h", "*2|$1|x|$1|1|")],
        );
        assert_eq!(memory.ask("PTTL h"), ":-1|");
    }
}

#[test]
fn a_scan_returns_every_field_that_stays() {
    let mut memory = with_hash(10);
    assert_eq!(bulks(&memory.ask("HSCAN h 0 COUNT 1")).len(), 1 + 20);
    assert_eq!(memory.ask("HSCAN h 99 MATCH 0*3 COUNT 1"), "*2|$1|0|*2|$4|0003|$2|v3|");
    for (line, reply) in [
        ("HSCAN h x", "-ERR invalid cursor|"),
        ("HSCAN none x", "-ERR invalid cursor|"),
        ("HSCAN h 0 COUNT 0", "-ERR syntax error|"),
        ("HSCAN h 0 COUNT x", "-ERR value is not an integer or out of range|"),
        ("HSCAN h 0 TYPE hash", "-ERR syntax error|"),
        ("HSCAN h 0 MATCH", "-ERR syntax error|"),
    ] {
        assert_eq!(memory.ask(line), reply, "{line}");
    }

    for (options, expected) in [
        ("", (0..300).collect::<BTreeSet<u32>>()),
        ("COUNT 1", (0..300).collect()),
        ("COUNT 299", (0..300).collect()),
        ("COUNT 9223372036854775807", (0..300).collect()),
        ("COUNT 7 MATCH *5", (0..300).filter(|field| field % 10 == 5).collect()),
        ("MATCH 012*", (120..130).collect()),
        ("MATCH 012* COUNT 10", (120..130).collect()),
        ("MATCH x*", BTreeSet::new()),
    ] {
        let mut memory = with_hash(300);
        let (mut cursor, mut found, mut rounds) = ("0".to_owned(), Vec::new(), 0);
        loop {
            let reply = memory.ask(&format!("HSCAN h {cursor} {options}"));
            let parts = bulks(&reply);
            found.extend(parts[1..].chunks(2).map(|pair| pair[0].parse::<u32>().unwrap()));
            // What is written in between hides nothing and shows nothing twice.
            memory.ask(&format!("HSET h x{rounds} 1 {cursor} 1"));
            memory.ask(&format!("HDEL h x{rounds} {cursor}"));
            cursor = parts[0].to_owned();
            rounds += 1;
            if cursor == "0" {
                break;
            }
        }
        assert_eq!(found.len(), expected.len(), "{options}");
        assert_eq!(found.into_iter().collect::<BTreeSet<_>>(), expected, "{options}");
    }

    // A cursor stands for a place, whether or not its element is still there; an unknown one is an error.
    let mut memory = with_hash(300);
    let cursor = bulks(&memory.ask("HSCAN h 0 COUNT 5"))[0].to_owned();
    memory.ask("HDEL h 0005 0006");
    assert_eq!(bulks(&memory.ask(&format!("HSCAN h {cursor} COUNT 1")))[1..], ["0007", "v7"]);
    for unknown in [1_u64 << 32, 1 << 53, u64::MAX] {
        let reply = memory.ask(&format!("HSCAN h {unknown} COUNT 1"));
        assert_eq!(reply, "-ERR invalid cursor: this server has not given it out; begin with 0|");
    }
}

#[test]
fn random_fields_come_with_their_values() {
    for fields in [3, 64, 300] {
        let mut memory = with_hash(fields);
        let all: BTreeSet<String> = (0..fields).map(|field| format!("{field:04}")).collect();
        let is_right =
            |pair: &[&str]| pair[1][1..].parse::<u64>().unwrap() == pair[0].parse::<u64>().unwrap();
        assert!(all.contains(bulks(&memory.ask("HRANDFIELD h"))[0]));
        for count in [1, 2, fields - 1, fields, fields + 1, i64::MAX as u64 / 2] {
            let reply = memory.ask(&format!("HRANDFIELD h {count}"));
            let found: BTreeSet<&str> = bulks(&reply).into_iter().collect();
            assert_eq!(found.len() as u64, count.min(fields));
            assert!(found.iter().all(|field| all.contains(*field)));
            let reply = memory.ask(&format!("HRANDFIELD h {count} withvalues"));
            assert!(reply.starts_with(&format!("*{}|", 2 * count.min(fields))));
            assert!(bulks(&reply).chunks(2).all(is_right));
        }
        let reply = memory.ask("HRANDFIELD h -1500 WITHVALUES");
        assert!(reply.starts_with("*3000|"));
        let pairs = bulks(&reply);
        assert!(pairs.len() == 3000 && pairs.chunks(2).all(is_right));
        let reply = memory.reply(&[b"HRANDFIELD", b"h", b"-2", b"WITHVALUES"], true);
        assert!(reply.starts_with(b"*2\r\n*2\r\n$4\r\n"));
        let reply = memory.reply(&[b"HRANDFIELD", b"h", b"2", b"WITHVALUES"], true);
        assert!(reply.starts_with(b"*2\r\n*2\r\n$4\r\n"));
        talk(&mut memory, &[("HRANDFIELD h 0", "*0|"), ("HRANDFIELD h 0 WITHVALUES", "*0|")]);
    }
    const BEYOND: &str =
        "-ERR value is out of range, value must between -9223372036854775807 and 9223372036854775807|";
    const TOO_LONG: &str = "-ERR value is out of range, the reply would be too long|";
    let mut memory = with_hash(3);
    talk(
        &mut memory,
        &[
            ("HRANDFIELD h x", "-ERR value is not an integer or out of range|"),
            ("HRANDFIELD h x bad", "-ERR value is not an integer or out of range|"),
            ("HRANDFIELD h 1 bad", "-ERR syntax error|"),
            ("HRANDFIELD h 1 WITHVALUES bad", "-ERR syntax error|"),
            ("HRANDFIELD h -9223372036854775808", BEYOND),
            ("HRANDFIELD h -9223372036854775807 WITHVALUES", "-ERR value is out of range|"),
            ("HRANDFIELD h 9223372036854775807 WITHVALUES", "-ERR value is out of range|"),
            ("HRANDFIELD h -9223372036854775807", TOO_LONG),
            ("HRANDFIELD h -4611686018427387903 WITHVALUES", TOO_LONG),
        ],
    );
}
