//! What the commands of sets answer, write and say.

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

/// `key` gets these members, as four digits.
fn add(memory: &mut Memory, key: &str, members: impl Iterator<Item = u64>) {
    let members: String = members.map(|member| format!(" {member:04}")).collect();
    if !members.is_empty() {
        memory.ask(&format!("SADD {key}{members}"));
    }
}

/// The members in a reply, without those that are no numbers.
fn numbers(reply: &str) -> Vec<u64> {
    let mut parts = reply.split('|');
    let mut numbers = Vec::new();
    while let Some(part) = parts.next() {
        if part.starts_with('$') {
            numbers.extend(parts.next().and_then(|text| text.parse::<u64>().ok()));
        }
    }
    numbers
}

#[test]
fn members_are_added_asked_for_and_removed() {
    for others in [0, 300] {
        let mut memory = Memory::default();
        add(&mut memory, "s", 0..others);
        memory.events.clear();
        let count = |members: u64| format!(":{}|", others + members);
        talk(
            &mut memory,
            &[
                ("SADD s b a b c", ":3|"),
                ("SADD s a b", ":0|"),
                ("SADD s \"\"", ":1|"),
                ("SCARD s", &count(4)),
                ("SISMEMBER s a", ":1|"),
                ("SISMEMBER s x", ":0|"),
                ("SMISMEMBER s a x \"\" a", "*4|:1|:0|:1|:1|"),
                ("SREM s x", ":0|"),
                ("SREM s a x a \"\"", ":2|"),
                ("SCARD s", &count(2)),
            ],
        );
        let mut said = vec!["new s", "sadd s", "sadd s", "srem s"];
        if others > 0 {
            said.remove(0);
            assert_eq!(memory.elements() as u64, others + 2);
        }
        assert_eq!(events(&mut memory), said);
        let all: String = (0..others).map(|member| format!(" {member:04}")).collect();
        assert_eq!(memory.ask(&format!("SREM s b c{all}")), count(2));
        assert_eq!(events(&mut memory), ["srem s", "del s"]);
        assert_eq!((memory.ask("EXISTS s").as_str(), memory.elements()), (":0|", 0));
    }
}

#[test]
fn all_members_are_returned_in_order() {
    for members in [1, 64, 65, 500] {
        let mut memory = Memory::default();
        add(&mut memory, "s", (0..members).rev());
        let mut expected = format!("*{members}|");
        for member in 0..members {
            expected += &format!("$4|{member:04}|");
        }
        for line in ["SMEMBERS s", "SINTER s", "SUNION s", "SDIFF s"] {
            assert_eq!(memory.ask(line), expected, "{line}");
            let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
            assert!(memory.reply(&words, true).starts_with(format!("~{members}\r\n").as_bytes()), "{line}");
        }
    }
}

#[test]
fn a_key_that_is_not_there_reads_as_an_empty_set() {
    let mut memory = Memory::default();
    for (line, reply, reply3) in [
        ("SISMEMBER none m", ":0|", ":0|"),
        ("SMISMEMBER none m n", "*2|:0|:0|", "*2|:0|:0|"),
        ("SMEMBERS none", "*0|", "~0|"),
        ("SCARD none", ":0|", ":0|"),
        ("SRANDMEMBER none", "$-1|", "_|"),
        ("SRANDMEMBER none 3", "*0|", "*0|"),
        ("SRANDMEMBER none -3", "*0|", "*0|"),
        ("SSCAN none 0 bad", "*2|$1|0|*0|", "*2|$1|0|*0|"),
        ("SINTER none", "*0|", "~0|"),
        ("SUNION none", "*0|", "~0|"),
        ("SDIFF none", "*0|", "~0|"),
        ("SINTERCARD 1 none", ":0|", ":0|"),
    ] {
        assert_eq!(memory.ask(line), reply, "{line}");
        let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
        assert_eq!(String::from_utf8_lossy(&memory.reply(&words, true)).replace("\r\n", "|"), reply3);
        assert_eq!(events(&mut memory), ["keymiss none", "keymiss none"], "{line}");
    }
    talk(
        &mut memory,
        &[
            ("SREM none m", ":0|"),
            ("SPOP none", "$-1|"),
            ("SPOP none 2", "*0|"),
            ("SMOVE none none m", ":0|"),
        ],
    );
    assert_eq!(memory.reply(&[b"SPOP", b"none", b"2"], true), b"~0\r\n");
    assert!(events(&mut memory).is_empty());
}

#[test]
fn another_type_is_refused() {
    let mut memory = Memory::default();
    memory.ask("HSET h f 1");
    memory.ask("SADD s m");
    memory.events.clear();
    for line in [
        "SADD h m",
        "SREM h m",
        "SISMEMBER h m",
        "SMISMEMBER h m",
        "SMEMBERS h",
        "SCARD h",
        "SPOP h",
        "SPOP h 0",
        "SRANDMEMBER h",
        "SRANDMEMBER h 1",
        "SMOVE h s m",
        "SMOVE s h m",
        "SMOVE s h x",
        "SSCAN h 0 bad",
        "SINTER none h",
        "SINTER h none",
        "SINTERSTORE s none h",
        "SINTERCARD 2 none h",
        "SUNION s h",
        "SUNIONSTORE s s h",
        "SDIFF none h",
        "SDIFFSTORE s none h",
    ] {
        assert_eq!(memory.ask(line), WRONG_TYPE, "{line}");
    }
    assert!(events(&mut memory).is_empty());
    talk(&mut memory, &[("SMEMBERS s", "*1|$1|m|"), ("SMOVE none h m", ":0|")]);
}

#[test]
fn popped_members_are_gone() {
    for members in [1, 2, 64, 65, 500, 1500] {
        for line in ["SPOP s", "SPOP s 1", "SPOP s 7", "SPOP s 1600"] {
            let mut memory = Memory::default();
            add(&mut memory, "s", 0..members);
            memory.events.clear();
            let mut popped = BTreeSet::new();
            while popped.len() < members as usize {
                let before = popped.len();
                popped.extend(numbers(&memory.ask(line)));
                assert!(popped.len() > before, "{line}");
                assert_eq!(memory.ask("SCARD s"), format!(":{}|", members as usize - popped.len()));
            }
            assert_eq!((memory.ask("EXISTS s").as_str(), memory.elements()), (":0|", 0));
            let said = events(&mut memory);
            assert_eq!(said.iter().filter(|event| *event == "del s").count(), 1);
            assert!(said.contains(&"spop s".to_owned()));
        }
    }
    let mut memory = Memory::default();
    add(&mut memory, "s", 0..3);
    memory.events.clear();
    const NOT_POSITIVE: &str = "-ERR value is out of range, must be positive|";
    talk(
        &mut memory,
        &[
            ("SPOP s -1", NOT_POSITIVE),
            ("SPOP s x", NOT_POSITIVE),
            ("SPOP none -1", NOT_POSITIVE),
            ("SPOP s 1 2", "-ERR syntax error|"),
            ("SPOP s 0", "*0|"),
            ("SPOP s 9223372036854775807", "*3|$4|0000|$4|0001|$4|0002|"),
        ],
    );
    assert_eq!(events(&mut memory), ["spop s", "del s"]);
}

#[test]
fn random_members_are_as_many_as_wanted() {
    for members in [3, 64, 300] {
        let mut memory = Memory::default();
        add(&mut memory, "s", 0..members);
        assert!(numbers(&memory.ask("SRANDMEMBER s"))[0] < members);
        for count in [0, 1, members / 2, members - 1, members, members + 1, i64::MAX as u64] {
            let found = numbers(&memory.ask(&format!("SRANDMEMBER s {count}")));
            assert_eq!(found.len() as u64, count.min(members));
            assert_eq!(found.into_iter().collect::<BTreeSet<_>>().len() as u64, count.min(members));
        }
        let reply = memory.ask("SRANDMEMBER s -2500");
        assert!(reply.starts_with("*2500|") && numbers(&reply).len() == 2500);
    }
    const BEYOND: &str =
        "-ERR value is out of range, value must between -9223372036854775807 and 9223372036854775807|";
    let mut memory = Memory::default();
    add(&mut memory, "s", 0..3);
    talk(
        &mut memory,
        &[
            ("SRANDMEMBER s x", "-ERR value is not an integer or out of range|"),
            ("SRANDMEMBER s 1 2", "-ERR syntax error|"),
            ("SRANDMEMBER s -9223372036854775808", BEYOND),
            (
                "SRANDMEMBER s -9223372036854775807",
                "-ERR value is out of range, the reply would be too long|",
            ),
        ],
    );
}

#[test]
fn members_move() {
    for (ours, theirs) in [(0, 0), (300, 0), (0, 300)] {
        let mut memory = Memory::default();
        add(&mut memory, "from", 0..ours);
        add(&mut memory, "to", 0..theirs);
        talk(
            &mut memory,
            &[
                ("SADD from a b c", ":3|"),
                ("SADD to a", ":1|"),
                ("PEXPIRE from 9000", ":1|"),
                ("PEXPIRE to 5000", ":1|"),
            ],
        );
        memory.events.clear();
        talk(
            &mut memory,
            &[
                ("SMOVE from to x", ":0|"),
                ("SMOVE from from a", ":1|"),
                ("SMOVE from from x", ":0|"),
                ("SMOVE from to a", ":1|"),
                ("SMOVE from to b", ":1|"),
                ("SMOVE from other c", ":1|"),
                ("SISMEMBER from b", ":0|"),
                ("SISMEMBER to b", ":1|"),
                ("SMEMBERS other", "*1|$1|c|"),
                ("PTTL to", ":5000|"),
                ("PTTL other", ":-1|"),
            ],
        );
        let mut said = vec!["srem from", "srem from", "sadd to", "srem from", "new other", "sadd other"];
        if ours == 0 {
            said.insert(4, "del from");
            said.push("keymiss from");
        }
        assert_eq!(events(&mut memory), said);
        assert_eq!(
            memory.elements() as u64,
            [ours, theirs + 2].into_iter().filter(|n| *n > SMALL_ENTRIES).sum()
        );
    }
}

#[test]
fn sets_are_combined() {
    // Small with small, small with large, large with small, large with large; some share a part, and some nothing.
    let shapes: [(u64, u64, u64); 6] =
        [(0, 10, 1), (5, 20, 1), (0, 300, 1), (100, 3000, 1), (0, 3000, 7), (5000, 5100, 1)];
    let members =
        |(first, end, step): (u64, u64, u64)| (first..end).step_by(step as usize).collect::<BTreeSet<u64>>();
    for one in shapes {
        for two in shapes {
            for three in [shapes[1], shapes[4]] {
                let (a, b, c) = (members(one), members(two), members(three));
                let mut memory = Memory::default();
                add(&mut memory, "a", a.iter().copied());
                add(&mut memory, "b", b.iter().copied());
                add(&mut memory, "c", c.iter().copied());
                let both: BTreeSet<u64> = &a & &b;
                for (command, event, expected) in [
                    ("SINTER", "sinterstore", &both & &c),
                    ("SUNION", "sunionstore", &(&a | &b) | &c),
                    ("SDIFF", "sdiffstore", &(&a - &b) - &c),
                ] {
                    let expected: Vec<u64> = expected.into_iter().collect();
                    assert_eq!(numbers(&memory.ask(&format!("{command} a b c"))), expected);
                    memory.events.clear();
                    let line = format!("{command}STORE to a b c");
                    assert_eq!(memory.ask(&line), format!(":{}|", expected.len()), "{line}");
                    let last = memory.events.last().map(|event| event.name);
                    assert_eq!(last, if expected.is_empty() { None } else { Some(event) });
                    assert_eq!(numbers(&memory.ask("SMEMBERS to")), expected);
                    memory.ask("DEL to");
                }
                let card = both.len().min(7);
                for (line, count) in [
                    ("SINTERCARD 2 a b", both.len()),
                    ("SINTERCARD 2 a b LIMIT 0", both.len()),
                    ("SINTERCARD 2 a b limit 7", card),
                    ("SINTERCARD 3 a b b LIMIT 9 LIMIT 7", card),
                ] {
                    assert_eq!(memory.ask(line), format!(":{count}|"), "{line}");
                }
                memory.ask("DEL a b c");
                assert_eq!(memory.elements(), 0);
            }
        }
    }
}

#[test]
fn what_is_stored_replaces_the_target() {
    for members in [3, 300] {
        let mut memory = Memory::default();
        add(&mut memory, "a", 0..members);
        add(&mut memory, "b", members..2 * members);
        talk(&mut memory, &[("HSET to f 1", ":1|"), ("PEXPIRE to 5000", ":1|")]);
        add(&mut memory, "old", 0..1100);
        memory.events.clear();
        let count = |count: u64| format!(":{count}|");
        talk(
            &mut memory,
            &[
                ("SUNIONSTORE to a b", &count(2 * members)),
                ("PTTL to", ":-1|"),
                ("SDIFFSTORE a a b", &count(members)),
                ("SUNIONSTORE new a none", &count(members)),
                ("SINTERSTORE old a b", ":0|"),
                ("SINTERSTORE old a b", ":0|"),
                ("SINTERSTORE a a none", ":0|"),
                ("EXISTS a old", ":0|"),
                ("SUNIONSTORE b b b", &count(members)),
            ],
        );
        let said = events(&mut memory);
        let said: Vec<&str> =
            said.iter().map(String::as_str).filter(|event| !event.starts_with("keymiss")).collect();
        let expected = [
            "sunionstore to",
            "sdiffstore a",
            "new new",
            "sunionstore new",
            "del old",
            "del a",
            "sunionstore b",
        ];
        assert_eq!(said, expected);
        memory.ask("DEL to new b");
        assert_eq!(memory.elements(), 0);
    }
}

#[test]
fn the_arguments_of_sintercard_are_checked_in_their_order() {
    const KEYS: &str = "-ERR numkeys should be greater than 0|";
    const LIMIT: &str = "-ERR LIMIT can't be negative|";
    const SYNTAX: &str = "-ERR syntax error|";
    const MORE: &str = "-ERR Number of keys can't be greater than number of args|";
    talk(
        &mut Memory::default(),
        &[
            ("SINTERCARD 0 a", KEYS),
            ("SINTERCARD -1 a", KEYS),
            ("SINTERCARD x a", KEYS),
            ("SINTERCARD 2 a", MORE),
            ("SINTERCARD 9223372036854775807 a", MORE),
            ("SINTERCARD 1 a b", SYNTAX),
            ("SINTERCARD 1 a LIMIT", SYNTAX),
            ("SINTERCARD 1 a LIMIT -1", LIMIT),
            ("SINTERCARD 1 a LIMIT x", LIMIT),
            ("SINTERCARD 1 a BAD 1", SYNTAX),
            ("SINTERCARD 1 a LIMIT 1 BAD", SYNTAX),
        ],
    );
}

#[test]
fn a_scan_returns_every_member_that_stays() {
    for members in [1, 64, 65, 300] {
        for options in ["", "COUNT 1", "COUNT 50", "MATCH 0*"] {
            let mut memory = Memory::default();
            add(&mut memory, "s", 0..members);
            let (mut cursor, mut found) = (0, Vec::new());
            loop {
                let reply = memory.ask(&format!("SSCAN s {cursor} {options}"));
                // Members that were returned may go.
                let all = numbers(&reply);
                cursor = all[0];
                for member in &all[1..] {
                    memory.ask(&format!("SREM s {member:04}"));
                }
                found.extend_from_slice(&all[1..]);
                if cursor == 0 {
                    break;
                }
            }
            assert_eq!(found, (0..members).collect::<Vec<_>>(), "{options}");
            assert_eq!((memory.ask("EXISTS s").as_str(), memory.elements()), (":0|", 0));
        }
    }
}

#[test]
fn a_transaction_sees_what_it_has_written() {
    let mut memory = Memory::default();
    add(&mut memory, "s", 0..1500);
    memory.in_transaction = true;
    talk(&mut memory, &[("SREM s 0000 0001", ":2|"), ("SADD s x", ":1|"), ("SCARD s", ":1499|")]);
    assert!(memory.ask("SPOP s 1499").starts_with("*1499|"));
    assert_eq!(memory.ask("SMEMBERS s"), "*0|");
    add(&mut memory, "s", 50..150);
    add(&mut memory, "t", 100..1500);
    talk(&mut memory, &[("SINTERSTORE t s t", ":50|"), ("SDIFFSTORE s s t", ":50|")]);
    memory.in_transaction = false;
    talk(&mut memory, &[("SMOVE s t 0050", ":1|"), ("SCARD s", ":49|"), ("SCARD t", ":51|")]);
    assert_eq!(numbers(&memory.ask("SINTER s t")), []);
    assert_eq!(memory.elements(), 0);
}
