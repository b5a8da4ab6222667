//! What the commands of strings answer, write and say.

use std::collections::BTreeMap;

use crate::commands::{evaluate, spec};
use crate::context::{Context, Stamp};
use crate::cursors::Cursors;
use crate::memory::Memory;
use crate::model::{Collection, Kind, SMALL_ENTRIES};
use crate::resp::reply::Reply;
use crate::session::{Entry, Session, Slot, Space};
use crate::writes::{Op, Writes};

const NOW_MS: u64 = 1_700_000_000_000;

fn memory() -> Memory {
    let mut memory = Memory::default();
    memory.now_us = NOW_MS * 1000;
    memory
}

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

/// The reply to a line where the key `set` has a set of so many members, and how many elements are left in the tree of
/// elements.
fn ask_with_set(members: u64, line: &str) -> (String, usize) {
    let base: BTreeMap<Slot, BTreeMap<Vec<u8>, Entry>> = BTreeMap::new();
    let (mut writes, cursors, mut reply) = (Writes::default(), Cursors::default(), Reply::new(false));
    let stamp = Stamp { now_us: NOW_MS * 1000, ahead_ms: 0, seed: 1 };
    let session = Session::new(&base, &mut writes, stamp.now_us);
    let mut ctx = Context::new(session, &cursors, stamp, 0, 16);
    let mut set = Collection::new(&ctx, b"set", Kind::Set);
    for member in 0..members {
        set.insert(&mut ctx, &member.to_be_bytes(), b"").unwrap();
    }
    set.save(&mut ctx);
    let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
    evaluate(&mut ctx, spec(words[0]).unwrap(), &words, &mut reply).unwrap();
    let of_elements =
        writes.ops().filter(|(slot, _, op)| slot.space == Space::Elements && matches!(op, Op::Put(_)));
    (String::from_utf8_lossy(&reply.bytes).replace("\r\n", "|"), of_elements.count())
}

#[test]
fn a_collection_is_refused_or_replaced_with_all_its_elements() {
    const WRONG_TYPE: &str = "-WRONGTYPE Operation against a key holding the wrong kind of value|";
    for (members, elements) in [(3, 0), (SMALL_ENTRIES + 100, SMALL_ENTRIES as usize + 100)] {
        for line in [
            "GET set",
            "SET set x GET",
            "SET set x NX GET",
            "GETSET set x",
            "GETDEL set",
            "GETEX set",
            "GETEX set EX 0",
            "APPEND set x",
            "STRLEN set",
            "SETRANGE set 0 x",
            "SETRANGE set 0 ",
            "SETRANGE set 536870912 x",
            "GETRANGE set 0 1",
            "SUBSTR set 0 1",
            "INCR set",
            "DECR set",
            "INCRBY set 1",
            "DECRBY set 1",
            "INCRBYFLOAT set x",
            "SETBIT set 1 1",
            "GETBIT set 1",
            "BITCOUNT set x",
            "BITPOS set 1 x",
            "BITOP AND to none set",
        ] {
            assert_eq!(ask_with_set(members, line), (WRONG_TYPE.to_owned(), elements), "{line}");
        }
        for (line, reply, left) in [
            ("MGET set none", "*2|$-1|$-1|", elements),
            ("SETNX set x", ":0|", elements),
            ("MSETNX other x set y", ":0|", elements),
            ("SET set x NX", "$-1|", elements),
            ("SET set x", "+OK|", 0),
            ("SET set x XX KEEPTTL", "+OK|", 0),
            ("SETEX set 1 x", "+OK|", 0),
            ("MSET other x set y set z", "+OK|", 0),
            ("BITOP AND set none", ":0|", 0),
        ] {
            assert_eq!(ask_with_set(members, line), (reply.to_owned(), left), "{line}");
        }
    }
}

#[test]
fn set_does_what_its_options_say() {
    let mut memory = memory();
    talk(
        &mut memory,
        &[
            ("SET k a", "+OK|"),
            ("SET k b NX", "$-1|"),
            ("SET k b nx get", "$1|a|"),
            ("SET k b XX", "+OK|"),
            ("SET k c GET", "$1|b|"),
            ("GET k", "$1|c|"),
            ("SET none a XX", "$-1|"),
            ("SET none a XX GET", "$-1|"),
            ("GET none", "$-1|"),
            ("SET new a NX GET", "$-1|"),
            ("GET new", "$1|a|"),
            ("SET k d EX 1 EX 2 NX NX", "$-1|"),
        ],
    );
    for options in [
        "NX XX",
        "XX NX",
        "EX",
        "EX 1 PX 1",
        "PX 1 EXAT 1",
        "EXAT 1 PXAT 1",
        "EX 1 KEEPTTL",
        "KEEPTTL EX 1",
        "PERSIST",
        "x",
        "EX x PX 1",
    ] {
        assert_eq!(memory.ask(&format!("SET k v {options}")), "-ERR syntax error|", "{options}");
    }
    for options in ["EX 0", "PX -1", "EXAT 0", "EX 9223372036854776", "PX 9223372036854775807"] {
        let told = "-ERR invalid expire time in 'set' command|";
        assert_eq!(memory.ask(&format!("SET k v {options}")), told, "{options}");
    }
    assert_eq!(memory.ask("SET k v EX x GET"), "-ERR value is not an integer or out of range|");
    assert_eq!(memory.ask("GET k"), "$1|c|");
}

#[test]
fn expiries_begin_stay_and_end() {
    let in_ten = NOW_MS / 1000 + 10;
    // Commands, and whether the key `k` is there 9,999 and 10,001 milliseconds later.
    for (lines, before, after) in [
        (&["SET k 1 EX 10"][..], true, false),
        (&["SET k 1 PX 10000"], true, false),
        (&[&format!("SET k 1 EXAT {in_ten}")], true, false),
        (&[&format!("SET k 1 PXAT {in_ten}000")], true, false),
        (&["SETEX k 10 1"], true, false),
        (&["PSETEX k 10000 1"], true, false),
        (&["SET k 1", "GETEX k EX 10"], true, false),
        (&["SET k 1 PX 1", "GETEX k PX 10000"], true, false),
        (&["SET k 1 EX 10", "GETEX k"], true, false),
        (&["SET k 1 EX 10", "SET k 2 KEEPTTL"], true, false),
        (&["SET k 1 EX 10", "SET k 2 NX"], true, false),
        (&["SET k 1 EX 10", "APPEND k 2"], true, false),
        (&["SET k 1 EX 10", "SETRANGE k 3 2"], true, false),
        (&["SET k 1 EX 10", "INCR k"], true, false),
        (&["SET k 1 EX 10", "INCRBYFLOAT k 1.5"], true, false),
        (&["SET k 1 EX 10", "SETBIT k 1 1"], true, false),
        (&["SET k 1 EX 10", "SET k 2"], true, true),
        (&["SET k 1 EX 10", "MSET k 2"], true, true),
        (&["SET k 1 EX 10", "GETSET k 2"], true, true),
        (&["SET k 1 EX 10", "BITOP NOT k k"], true, true),
        (&["SET k 1 EX 10", "GETEX k PERSIST"], true, true),
        (&["SET k 1 PXAT 9223372036854775807"], true, true),
        (&["SET k 1 PXAT 1"], false, false),
        (&["SET k 1", "GETEX k EXAT 1"], false, false),
    ] {
        let mut memory = memory();
        for line in lines {
            let reply = memory.ask(line);
            assert!(!reply.starts_with('-'), "{line}: {reply}");
        }
        for (later_ms, lives) in [(9_999, before), (10_001, after)] {
            memory.now_us = (NOW_MS + later_ms) * 1000;
            assert_eq!(memory.ask("GET k") != "$-1|", lives, "{lines:?} after {later_ms} ms");
        }
    }
}

#[test]
fn several_keys_are_set_and_read() {
    talk(
        &mut memory(),
        &[
            ("MSET a 1 b 2 a 3", "+OK|"),
            ("MGET a none b a", "*4|$1|3|$-1|$1|2|$1|3|"),
            ("MSET a", "-ERR wrong number of arguments for 'mset' command|"),
            ("MSET a 1 b", "-ERR wrong number of arguments for 'mset' command|"),
            ("MSETNX a 1 b", "-ERR wrong number of arguments for 'msetnx' command|"),
            ("MSETNX c 1 b 2", ":0|"),
            ("GET c", "$-1|"),
            ("MSETNX c 1 c 2", ":1|"),
            ("GET c", "$1|2|"),
        ],
    );
}

#[test]
fn values_are_read_and_replaced_at_once() {
    talk(
        &mut memory(),
        &[
            ("SETNX k a", ":1|"),
            ("SETNX k b", ":0|"),
            ("GETSET k c", "$1|a|"),
            ("GETSET new c", "$-1|"),
            ("GETDEL k", "$1|c|"),
            ("GETDEL k", "$-1|"),
            ("GETEX k", "$-1|"),
            ("GETEX k EX x", "$-1|"),
            ("GETEX new", "$1|c|"),
            ("GETEX new EX x", "-ERR value is not an integer or out of range|"),
            ("GETEX new PX 0", "-ERR invalid expire time in 'getex' command|"),
            ("GETEX new KEEPTTL", "-ERR syntax error|"),
            ("GETEX new PERSIST EX 1", "-ERR syntax error|"),
            ("GETEX new EX 1 PERSIST", "-ERR syntax error|"),
            ("GETEX new EX", "-ERR syntax error|"),
            ("SETEX k 0 v", "-ERR invalid expire time in 'setex' command|"),
            ("SETEX k x v", "-ERR value is not an integer or out of range|"),
            ("PSETEX k -1 v", "-ERR invalid expire time in 'psetex' command|"),
        ],
    );
}

#[test]
fn parts_are_read_and_written() {
    const TOO_LONG: &str = "-ERR string exceeds maximum allowed size (proto-max-bulk-len)|";
    talk(
        &mut memory(),
        &[
            ("APPEND k ''", ":0|"),
            ("GET k", "$0||"),
            ("APPEND k ab", ":2|"),
            ("APPEND k c", ":3|"),
            ("STRLEN k", ":3|"),
            ("STRLEN none", ":0|"),
            ("SETRANGE k 5 xy", ":7|"),
            ("GET k", "$7|abc\0\0xy|"),
            ("SETRANGE k 1 BC", ":7|"),
            ("SETRANGE none 3 ''", ":0|"),
            ("GET none", "$-1|"),
            ("SETRANGE k 536870912 ''", ":7|"),
            ("SETRANGE k 536870912 x", TOO_LONG),
            ("SETRANGE k 536870911 xy", TOO_LONG),
            ("SETRANGE none 9223372036854775807 xy", TOO_LONG),
            ("SETRANGE k -1 x", "-ERR offset is out of range|"),
            ("SETRANGE k x x", "-ERR value is not an integer or out of range|"),
            ("GETRANGE k 0 2", "$3|aBC|"),
            ("GETRANGE k -2 -1", "$2|xy|"),
            ("GETRANGE k -1 -2", "$0||"),
            ("GETRANGE k 0 -100", "$1|a|"),
            ("GETRANGE k -100 -90", "$1|a|"),
            ("GETRANGE k 7 9", "$0||"),
            ("GETRANGE none 0 -1", "$0||"),
            ("GETRANGE none 0 x", "-ERR value is not an integer or out of range|"),
            ("SUBSTR k 5 99", "$2|xy|"),
        ],
    );
}

#[test]
fn numbers_are_counted() {
    const NO_INTEGER: &str = "-ERR value is not an integer or out of range|";
    const OVERFLOW: &str = "-ERR increment or decrement would overflow|";
    let mut memory = memory();
    talk(
        &mut memory,
        &[
            ("INCR n", ":1|"),
            ("INCRBY n 9223372036854775806", ":9223372036854775807|"),
            ("INCR n", OVERFLOW),
            ("INCRBY n -9223372036854775808", ":-1|"),
            ("DECRBY n 9223372036854775807", ":-9223372036854775808|"),
            ("DECR n", OVERFLOW),
            ("DECRBY n -9223372036854775808", "-ERR decrement would overflow|"),
            ("INCRBY n 1.5", NO_INTEGER),
            ("DECRBY n ''", NO_INTEGER),
            ("DECR m", ":-1|"),
            ("INCRBYFLOAT m 1.25", "$4|0.25|"),
            ("INCR m", NO_INTEGER),
            ("INCRBYFLOAT m -0.25", "$1|0|"),
            ("INCR m", ":1|"),
            ("INCRBYFLOAT f 3.0", "$1|3|"),
            ("INCRBYFLOAT f 1.1", "$3|4.1|"),
            ("INCRBYFLOAT f x", "-ERR value is not a valid float|"),
            ("INCRBYFLOAT f inf", "-ERR increment would produce NaN or Infinity|"),
            ("GET f", "$3|4.1|"),
        ],
    );
    for text in ["' 1'", "'1 '", "01", "+1", "-0", "''", "a"] {
        memory.ask(&format!("SET s {text}"));
        assert_eq!(memory.ask("INCR s"), NO_INTEGER, "{text}");
    }
}

#[test]
fn events_are_those_of_redis() {
    let mut memory = memory();
    for (line, expected) in [
        ("SET k 1", &["new k", "set k"][..]),
        ("SET k 1 PX 1000", &["set k", "expire k"]),
        ("SET k 1 NX", &[]),
        ("SET none 1 XX", &[]),
        ("SET none 1 XX GET", &["keymiss none"]),
        ("SETEX k 10 1", &["set k", "expire k"]),
        ("SETNX k 1", &[]),
        ("SETNX a 1", &["new a", "set a"]),
        ("GETSET k 1", &["set k"]),
        ("GETSET b 1", &["keymiss b", "new b", "set b"]),
        ("GETEX k", &[]),
        ("GETEX k PERSIST", &[]),
        ("GETEX k EX 10", &["expire k"]),
        ("GETEX k PERSIST", &["persist k"]),
        ("GETEX b EXAT 1", &["del b"]),
        ("GETDEL a", &["del a"]),
        ("GETDEL a", &["keymiss a"]),
        ("MSET k 1 a 2", &["set k", "new a", "set a"]),
        ("MSETNX k 1 c 2", &[]),
        ("MGET k none", &["keymiss none"]),
        ("INCR a", &["incrby a"]),
        ("DECRBY d 2", &["new d", "incrby d"]),
        ("INCRBYFLOAT a 1", &["incrbyfloat a"]),
        ("INCRBYFLOAT a x", &[]),
        ("APPEND a 1", &["append a"]),
        ("SETRANGE a 1 x", &["setrange a"]),
        ("SETRANGE a 1 ''", &[]),
        ("STRLEN none", &["keymiss none"]),
        ("GETRANGE none 0 1", &["keymiss none"]),
    ] {
        memory.ask(line);
        assert_eq!(events(&mut memory), expected, "{line}");
    }
}
