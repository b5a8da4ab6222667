//! Small lists lie in one record, large ones in a tree of their own: most tests are done with both.

use crate::memory::Memory;

const WRONG_TYPE: &str = "-WRONGTYPE Operation against a key holding the wrong kind of value|";

fn check(memory: &mut Memory, table: &[(&str, &str)]) {
    for (line, expected) in table {
        assert_eq!(memory.ask(line), *expected, "{line}");
    }
}

/// Pushes the numbers from 0 on and below `len` to the list `key`.
fn fill(memory: &mut Memory, key: &str, len: usize) {
    let numbers: Vec<String> = (0..len).map(|number| number.to_string()).collect();
    memory.ask(&format!("RPUSH {key} {}", numbers.join(" ")));
}

/// The elements of the list `key`, as one text.
fn all(memory: &mut Memory, key: &str) -> String {
    let reply = memory.ask(&format!("LRANGE {key} 0 -1"));
    let parts: Vec<&str> = reply.split('|').skip(2).step_by(2).collect();
    parts.join(" ").trim_end().to_owned()
}

fn numbers(range: std::ops::Range<usize>) -> String {
    range.map(|number| number.to_string()).collect::<Vec<_>>().join(" ")
}

fn events(memory: &mut Memory) -> String {
    let events = std::mem::take(&mut memory.events);
    let names = events.iter().map(|event| format!("{} {}", event.name, String::from_utf8_lossy(&event.key)));
    names.collect::<Vec<_>>().join(", ")
}

#[test]
fn elements_are_pushed_and_popped_at_both_ends() {
    let mut memory = Memory::default();
    check(
        &mut memory,
        &[
            ("LPUSHX l a", ":0|"),
            ("RPUSHX l a", ":0|"),
            ("LPUSH l b a", ":2|"),
            ("RPUSH l c", ":3|"),
            ("LPUSHX l z", ":4|"),
            ("rpushx l d", ":5|"),
            ("LRANGE l 0 -1", "*5|$1|z|$1|a|$1|b|$1|c|$1|d|"),
            ("LLEN l", ":5|"),
            ("LPOP l", "$1|z|"),
            ("RPOP l", "$1|d|"),
            ("LPOP l 0", "*0|"),
            ("RPOP l 2", "*2|$1|c|$1|b|"),
            ("LPOP l 9223372036854775807", "*1|$1|a|"),
            ("EXISTS l", ":0|"),
            ("LPOP l", "$-1|"),
            ("RPOP l 1", "*-1|"),
            ("LPOP l 0", "*-1|"),
            ("LLEN l", ":0|"),
            ("LPOP l -1", "-ERR value is out of range, must be positive|"),
            ("LPOP l x", "-ERR value is out of range, must be positive|"),
            ("LPOP l 1 2", "-ERR wrong number of arguments for 'lpop' command|"),
            ("RPOP l 1 2", "-ERR wrong number of arguments for 'rpop' command|"),
            ("LPUSH l", "-ERR wrong number of arguments for 'lpush' command|"),
        ],
    );
}

#[test]
fn null_has_the_type_of_the_reply_that_it_replaces() {
    let mut memory = Memory::default();
    for (words, two, three) in [
        (vec!["LPOP", "l"], "$-1\r\n", "_\r\n"),
        (vec!["LPOP", "l", "1"], "*-1\r\n", "_\r\n"),
        (vec!["LINDEX", "l", "1"], "$-1\r\n", "_\r\n"),
        (vec!["LPOS", "l", "a"], "$-1\r\n", "_\r\n"),
        (vec!["LPOS", "l", "a", "COUNT", "1"], "*0\r\n", "*0\r\n"),
        (vec!["LMOVE", "l", "m", "LEFT", "LEFT"], "$-1\r\n", "_\r\n"),
        (vec!["LMPOP", "1", "l", "LEFT"], "*-1\r\n", "_\r\n"),
    ] {
        let words: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
        assert_eq!(memory.reply(&words, false), two.as_bytes());
        assert_eq!(memory.reply(&words, true), three.as_bytes());
    }
}

#[test]
fn a_large_list_is_a_queue_from_both_ends() {
    let mut memory = Memory::default();
    for number in 0..200 {
        assert_eq!(memory.ask(&format!("LPUSH l {number}")), format!(":{}|", number + 1));
    }
    assert_eq!(memory.elements(), 200);
    for number in 0..100 {
        assert_eq!(memory.ask("RPOP l"), format!("${}|{number}|", number.to_string().len()));
        assert_eq!(memory.ask("LPOP l"), format!("$3|{}|", 199 - number).replace("$3|99", "$2|99"));
    }
    assert_eq!((memory.elements(), memory.ask("EXISTS l").as_str()), (0, ":0|"));
    // One that is popped at once.
    for count in ["100", "1023", "5000"] {
        fill(&mut memory, "l", 2000);
        let popped = memory.ask(&format!("RPOP l {count}"));
        let expected = count.parse::<usize>().unwrap().min(2000);
        assert!(popped.starts_with(&format!("*{expected}|$4|1999|$4|1998|")));
        assert_eq!(all(&mut memory, "l"), numbers(0..2000 - expected), "{count}");
        memory.ask("DEL l");
        assert_eq!(memory.elements(), 0);
    }
}

#[test]
fn indexes_count_from_both_ends() {
    for len in [10, 300] {
        let mut memory = Memory::default();
        fill(&mut memory, "l", len);
        let text = |number: usize| format!("${}|{number}|", number.to_string().len());
        for (index, expected) in [
            ("0", text(0)),
            ("9", text(9)),
            ("-1", text(len - 1)),
            (&format!("-{len}"), text(0)),
            (&len.to_string(), "$-1|".to_owned()),
            (&format!("-{}", len + 1), "$-1|".to_owned()),
            ("9223372036854775807", "$-1|".to_owned()),
            ("-9223372036854775808", "$-1|".to_owned()),
        ] {
            assert_eq!(memory.ask(&format!("LINDEX l {index}")), expected, "{index}");
        }
        check(
            &mut memory,
            &[
                ("LRANGE l 1 2", "*2|$1|1|$1|2|"),
                ("LRANGE l 2 1", "*0|"),
                ("LRANGE l 1000 2000", "*0|"),
                ("LRANGE l -9223372036854775808 0", "*1|$1|0|"),
                ("LRANGE l 0 -9223372036854775808", "*0|"),
                ("LSET l 0 x", "+OK|"),
                ("LSET l -1 y", "+OK|"),
                ("LINDEX l 0", "$1|x|"),
                ("LINDEX l -1", "$1|y|"),
                ("LSET l 1000 x", "-ERR index out of range|"),
                ("LSET l -1000 x", "-ERR index out of range|"),
                ("LSET l a x", "-ERR value is not an integer or out of range|"),
                ("LINDEX l a", "-ERR value is not an integer or out of range|"),
                ("LRANGE l 0 a", "-ERR value is not an integer or out of range|"),
                ("LSET none a x", "-ERR no such key|"),
                ("LINDEX none a", "$-1|"),
                ("LRANGE none 0 -1", "*0|"),
            ],
        );
        assert_eq!(memory.ask("LRANGE l 0 9223372036854775807").split('|').next(), Some(&*format!("*{len}")));
    }
}

#[test]
fn another_type_is_an_error() {
    let mut memory = Memory::default();
    memory.ask("SET s v");
    memory.ask("RPUSH l a");
    for line in [
        "LPUSH s a",
        "RPUSH s a",
        "LPUSHX s a",
        "RPUSHX s a",
        "LPOP s",
        "RPOP s 0",
        "LLEN s",
        "LRANGE s 0 1",
        "LINDEX s x",
        "LSET s x y",
        "LTRIM s 0 1",
        "LREM s 0 a",
        "LINSERT s BEFORE a b",
        "LPOS s a",
        "LMOVE s l LEFT LEFT",
        "LMOVE l s LEFT LEFT",
        "RPOPLPUSH s l",
        "LMPOP 2 none s LEFT",
        "BLPOP none s 0",
        "BRPOP s l 0",
        "BLMOVE s l LEFT LEFT 0",
        "BLMOVE l s LEFT LEFT 0",
        "BRPOPLPUSH l s 0",
        "BLMPOP 0 1 s LEFT",
    ] {
        assert_eq!(memory.ask(line), WRONG_TYPE, "{line}");
    }
    assert_eq!(all(&mut memory, "l"), "a");
    // The target's type does not matter while there is nothing to move.
    assert_eq!(memory.ask("LMOVE none s LEFT LEFT"), "$-1|");
    assert_eq!(memory.ask("BLMOVE none s LEFT LEFT 0"), "");
}

#[test]
fn trimming_keeps_a_range() {
    for len in [10, 300, 3000] {
        for (start, end) in
            [(0, 0), (1, 1), (2, len - 3), (len - 2, len - 1), (1, len / 2), (len / 2, len - 1)]
        {
            let mut memory = Memory::default();
            fill(&mut memory, "l", len);
            memory.ask("PEXPIRE l 5000");
            assert_eq!(memory.ask(&format!("LTRIM l {start} {end}")), "+OK|");
            assert_eq!(all(&mut memory, "l"), numbers(start..end + 1), "{len} {start} {end}");
            let large = if memory.elements() > 0 { end + 1 - start } else { 0 };
            assert_eq!((memory.elements(), memory.ask("PTTL l").as_str()), (large, ":5000|"));
            memory.ask("RPUSH l x");
            memory.ask("LPUSH l y");
            let expected = format!("y {} x", numbers(start..end + 1));
            assert_eq!(all(&mut memory, "l"), expected);
            memory.ask("LTRIM l 1 0");
            assert_eq!((memory.elements(), memory.ask("EXISTS l").as_str()), (0, ":0|"));
        }
    }
    check(
        &mut Memory::default(),
        &[
            ("LTRIM none 0 1", "+OK|"),
            ("LTRIM none a 1", "-ERR value is not an integer or out of range|"),
            ("RPUSH l a b c", ":3|"),
            ("LTRIM l -2 -1", "+OK|"),
            ("LTRIM l -9223372036854775808 9223372036854775807", "+OK|"),
            ("LRANGE l 0 -1", "*2|$1|b|$1|c|"),
            ("LTRIM l 5 9", "+OK|"),
            ("EXISTS l", ":0|"),
        ],
    );
}

/// What `LREM` is expected to leave.
fn without(list: &[&str], count: i64, value: &str) -> Vec<String> {
    let mut left = if count == 0 { u64::MAX } else { count.unsigned_abs() };
    let mut list: Vec<&str> = list.to_vec();
    if count < 0 {
        list.reverse();
    }
    list.retain(|element| {
        let goes = *element == value && left > 0;
        left -= u64::from(goes);
        !goes
    });
    if count < 0 {
        list.reverse();
    }
    list.into_iter().map(str::to_owned).collect()
}

#[test]
fn what_is_removed_leaves_no_gaps() {
    for len in [12, 700] {
        // One match at each of some places, several, and many.
        for every in [2, 3, 7, 100] {
            for shift in [0, 1, 5] {
                for count in [0, 1, 2, -1, -2, 1000, i64::MIN] {
                    let list: Vec<&str> =
                        (0..len).map(|place| if place % every == shift { "x" } else { "o" }).collect();
                    let mut memory = Memory::default();
                    memory.ask(&format!("RPUSH l {}", list.join(" ")));
                    let expected = without(&list, count, "x");
                    let removed = format!(":{}|", list.len() - expected.len());
                    assert_eq!(memory.ask(&format!("LREM l {count} x")), removed, "{len} {every} {count}");
                    assert_eq!(all(&mut memory, "l"), expected.join(" "), "{len} {every} {shift} {count}");
                    assert!([0, expected.len()].contains(&memory.elements()));
                    memory.ask("LPUSH l a");
                    memory.ask("RPUSH l z");
                    assert_eq!(all(&mut memory, "l"), format!("a {} z", expected.join(" ")));
                }
            }
        }
        let mut memory = Memory::default();
        memory.ask(&format!("RPUSH l {}", vec!["x"; len].join(" ")));
        assert_eq!(memory.ask("LREM l 0 y"), ":0|");
        assert_eq!(memory.ask("LREM l 0 x"), format!(":{len}|"));
        assert_eq!((memory.elements(), memory.ask("EXISTS l").as_str()), (0, ":0|"));
    }
    check(
        &mut Memory::default(),
        &[("LREM none 0 a", ":0|"), ("LREM none x a", "-ERR value is not an integer or out of range|")],
    );
}

#[test]
fn elements_are_inserted_anywhere() {
    for len in [10, 64, 600] {
        for place in [0, 1, len / 2 - 1, len / 2, len - 2, len - 1] {
            for (word, at) in [("BEFORE", place), ("after", place + 1)] {
                let mut memory = Memory::default();
                fill(&mut memory, "l", len);
                let reply = memory.ask(&format!("LINSERT l {word} {place} x"));
                assert_eq!(reply, format!(":{}|", len + 1));
                let expected = format!("{} x {}", numbers(0..at), numbers(at..len));
                assert_eq!(all(&mut memory, "l"), expected.trim(), "{len} {word} {place}");
                assert!([0, len + 1].contains(&memory.elements()));
            }
        }
    }
    check(
        &mut Memory::default(),
        &[
            ("LINSERT none BEFORE a b", ":0|"),
            ("LINSERT none BESIDE a b", "-ERR syntax error|"),
            ("RPUSH l a a", ":2|"),
            ("LINSERT l BEFORE x b", ":-1|"),
            ("LINSERT l AFTER a b", ":3|"),
            ("LRANGE l 0 -1", "*3|$1|a|$1|b|$1|a|"),
        ],
    );
}

#[test]
fn places_of_values_are_found_from_both_ends() {
    for fillers in [0, 100] {
        let mut memory = Memory::default();
        memory.ask("RPUSH l a b c 1 2 3 c c");
        // The fillers make it large; they lie behind what the test looks for.
        if fillers > 0 {
            memory.ask(&format!("RPUSH l {}", vec!["f"; fillers].join(" ")));
            assert!(memory.elements() > 0);
        }
        check(
            &mut memory,
            &[
                ("LPOS l a", ":0|"),
                ("LPOS l c", ":2|"),
                ("LPOS l c RANK 2", ":6|"),
                ("LPOS l c RANK 4", "$-1|"),
                ("LPOS l c RANK -1", ":7|"),
                ("LPOS l c rank -3", ":2|"),
                ("LPOS l c RANK -9223372036854775807", "$-1|"),
                ("LPOS l c COUNT 0", "*3|:2|:6|:7|"),
                ("LPOS l c COUNT 2", "*2|:2|:6|"),
                ("LPOS l c COUNT 1", "*1|:2|"),
                ("LPOS l c COUNT 0 RANK 2", "*2|:6|:7|"),
                ("LPOS l c COUNT 2 RANK -1", "*2|:7|:6|"),
                ("LPOS l c COUNT 0 MAXLEN 1", "*0|"),
                ("LPOS l c COUNT 0 MAXLEN 3", "*1|:2|"),
                ("LPOS l c COUNT 0 MAXLEN 7 RANK 2", "*1|:6|"),
                ("LPOS l c MAXLEN 0", ":2|"),
                ("LPOS l x COUNT 2 RANK -1", "*0|"),
                ("LPOS none c COUNT 0", "*0|"),
                ("LPOS l c COUNT -1", "-ERR COUNT can't be negative|"),
                ("LPOS l c COUNT x", "-ERR COUNT can't be negative|"),
                ("LPOS l c MAXLEN -1", "-ERR MAXLEN can't be negative|"),
                ("LPOS l c RANK x", "-ERR value is not an integer or out of range|"),
                ("LPOS l c RANK", "-ERR syntax error|"),
                ("LPOS l c FIRST 1", "-ERR syntax error|"),
                (
                    "LPOS none c RANK 0 FIRST 1",
                    "-ERR RANK can't be zero: use 1 to start from the first match, 2 from the second ... or use \
                     negative to start from the end of the list|",
                ),
            ],
        );
    }
    let mut memory = Memory::default();
    fill(&mut memory, "l", 500);
    assert_eq!(memory.ask("LPOS l 498 RANK -1 MAXLEN 2"), ":498|");
    assert_eq!(memory.ask("LPOS l 497 RANK -1 MAXLEN 2"), "$-1|");
}

#[test]
fn elements_move_between_lists() {
    for len in [4, 100] {
        let mut memory = Memory::default();
        fill(&mut memory, "l", len);
        let last = len - 1;
        let text = |number: usize| format!("${}|{number}|", number.to_string().len());
        assert_eq!(memory.ask("LMOVE l m LEFT RIGHT"), text(0));
        assert_eq!(memory.ask("lmove l m right left"), text(last));
        assert_eq!(memory.ask("RPOPLPUSH l m"), text(last - 1));
        assert_eq!(all(&mut memory, "m"), format!("{} {} 0", last - 1, last));
        assert_eq!(all(&mut memory, "l"), numbers(1..last - 1));
        // To itself.
        assert_eq!(memory.ask("RPOPLPUSH l l"), text(last - 2));
        assert_eq!(memory.ask("LMOVE l l LEFT RIGHT"), text(last - 2));
        assert_eq!(all(&mut memory, "l"), numbers(1..last - 1));
        for _ in 1..last - 1 {
            memory.ask("RPOPLPUSH l m");
        }
        assert_eq!(memory.ask("EXISTS l"), ":0|");
        assert_eq!(all(&mut memory, "m"), format!("{} {} 0", numbers(1..last), last).trim());
        assert!([0, len].contains(&memory.elements()));
    }
    check(
        &mut Memory::default(),
        &[
            ("RPUSH l a", ":1|"),
            ("LMOVE l l LEFT LEFT", "$1|a|"),
            ("RPOPLPUSH l l", "$1|a|"),
            ("LMOVE l m LEFT UP", "-ERR syntax error|"),
            ("LMOVE none m UP LEFT", "-ERR syntax error|"),
            ("RPOPLPUSH none m", "$-1|"),
            ("LRANGE l 0 -1", "*1|$1|a|"),
        ],
    );
}

#[test]
fn the_first_list_with_elements_is_popped() {
    let mut memory = Memory::default();
    fill(&mut memory, "large", 100);
    check(
        &mut memory,
        &[
            ("RPUSH l a b c", ":3|"),
            ("LMPOP 2 none l LEFT", "*2|$1|l|*1|$1|a|"),
            ("LMPOP 3 none l large right COUNT 5", "*2|$1|l|*2|$1|c|$1|b|"),
            ("LMPOP 3 none l large left count 2", "*2|$5|large|*2|$1|0|$1|1|"),
            ("LMPOP 2 none l LEFT", "*-1|"),
            ("LMPOP 0 l LEFT", "-ERR numkeys should be greater than 0|"),
            ("LMPOP x l LEFT", "-ERR numkeys should be greater than 0|"),
            ("LMPOP 2 l LEFT", "-ERR syntax error|"),
            ("LMPOP 9223372036854775807 l LEFT", "-ERR syntax error|"),
            ("LMPOP 1 l UP", "-ERR syntax error|"),
            ("LMPOP 1 l LEFT COUNT", "-ERR syntax error|"),
            ("LMPOP 1 l LEFT COUNT 0", "-ERR count should be greater than 0|"),
            ("LMPOP 1 l LEFT COUNT 1 COUNT 1", "-ERR syntax error|"),
            ("LMPOP 1 l LEFT NUMBER 1", "-ERR syntax error|"),
        ],
    );
    assert!(memory.ask("LMPOP 1 large LEFT COUNT 1000").starts_with("*2|$5|large|*98|$1|2|"));
    assert_eq!((memory.elements(), memory.ask("EXISTS large").as_str()), (0, ":0|"));
}

#[test]
fn blocking_commands_answer_only_if_there_is_an_element() {
    check(
        &mut Memory::default(),
        &[
            ("BLPOP a b 0", ""),
            ("BRPOP a 1.5", ""),
            ("BLMOVE a b LEFT LEFT 0", ""),
            ("BRPOPLPUSH a b 0", ""),
            ("BLMPOP 0 2 a b LEFT", ""),
            ("RPUSH b 1 2 3 4 5 6 7", ":7|"),
            ("BLPOP a b 0", "*2|$1|b|$1|1|"),
            ("BRPOP a b b 0", "*2|$1|b|$1|7|"),
            ("BLMOVE b c LEFT LEFT 0", "$1|2|"),
            ("BRPOPLPUSH b c 0", "$1|6|"),
            ("BLMPOP 0 2 a b LEFT COUNT 2", "*2|$1|b|*2|$1|3|$1|4|"),
            ("LRANGE c 0 -1", "*2|$1|6|$1|2|"),
            ("BLPOP b 0", "*2|$1|b|$1|5|"),
            ("EXISTS b", ":0|"),
            ("BLPOP a -1", "-ERR timeout is negative|"),
            ("BLPOP a x", "-ERR timeout is not a float or out of range|"),
            ("BRPOPLPUSH c b x", "-ERR timeout is not a float or out of range|"),
            ("BLMOVE c b UP LEFT x", "-ERR syntax error|"),
            ("BLMOVE c b LEFT LEFT x", "-ERR timeout is not a float or out of range|"),
            ("BLMPOP x 0 c LEFT", "-ERR numkeys should be greater than 0|"),
            ("BLMPOP x 1 c LEFT", "-ERR timeout is not a float or out of range|"),
            ("LLEN c", ":2|"),
        ],
    );
}

#[test]
fn events_are_told_as_redis_tells_them() {
    let mut memory = Memory::default();
    memory.ask("RPUSH o z");
    memory.events.clear();
    for (line, expected) in [
        ("RPUSH l a b", "new l, rpush l"),
        ("LPUSH l x y", "lpush l"),
        ("LPUSHX none a", ""),
        ("LMOVE l l LEFT RIGHT", "rpush l, lpop l"),
        ("LMOVE o p LEFT LEFT", "new p, lpush p, lpop o, del o"),
        ("BRPOPLPUSH p l 0", "lpush l, rpop p, del p"),
        ("LSET l 0 q", "lset l"),
        ("LINSERT l BEFORE q r", "linsert l"),
        ("LINSERT l BEFORE none r", ""),
        ("LREM l 0 r", "lrem l"),
        ("LREM l 0 r", ""),
        ("LTRIM l 0 -1", "ltrim l"),
        ("LPOP l 0", ""),
        ("LPOP l", "lpop l"),
        ("RPOP l 9", "rpop l, del l"),
        ("LPOP l", ""),
        ("RPUSH l a a", "new l, rpush l"),
        ("LREM l 0 a", "lrem l, del l"),
        ("RPUSH l a a", "new l, rpush l"),
        ("LTRIM l 5 6", "ltrim l, del l"),
        ("RPUSH l a a a", "new l, rpush l"),
        ("LMPOP 1 l LEFT", "lpop l"),
        ("BLMPOP 0 1 l RIGHT", "rpop l"),
        ("BLPOP none l 0", "lpop l, del l"),
        ("LLEN l", "keymiss l"),
        ("LRANGE l 0 1", "keymiss l"),
        ("LINDEX l 0", "keymiss l"),
        ("LPOS l a", "keymiss l"),
        ("LSET l 0 a", ""),
    ] {
        memory.ask(line);
        assert_eq!(events(&mut memory), expected, "{line}");
    }
}

#[test]
fn an_expiry_stays_and_ends_a_large_list() {
    let mut memory = Memory::default();
    fill(&mut memory, "l", 100);
    memory.ask("PEXPIRE l 1000");
    for line in ["RPUSH l a", "LPOP l", "LSET l 0 x", "LREM l 1 x", "LINSERT l BEFORE 50 y", "LTRIM l 1 -2"] {
        memory.ask(line);
        assert_eq!(memory.ask("PTTL l"), ":1000|", "{line}");
    }
    memory.now_us += 1_000_000;
    check(&mut memory, &[("LLEN l", ":0|"), ("LPOP l", "$-1|"), ("RPUSH l n", ":1|"), ("LLEN l", ":1|")]);
    assert_eq!(memory.ask("TTL l"), ":-1|");
}

#[test]
fn long_values_are_elements_too() {
    let mut memory = Memory::default();
    let long = "v".repeat(10_000);
    assert_eq!(memory.ask(&format!("RPUSH l a {long} b")), ":3|");
    assert_eq!(memory.elements(), 3);
    assert_eq!(memory.ask("LPOP l"), "$1|a|");
    assert_eq!(memory.ask(&format!("LPOS l {long}")), ":0|");
    assert_eq!(memory.ask(&format!("LREM l 0 {long}")), ":1|");
    assert_eq!(memory.ask("RPOP l"), "$1|b|");
    assert_eq!(memory.elements(), 0);
}
