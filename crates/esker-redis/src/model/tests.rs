//! Elements of any length, and the empty key, as they lie in the trees.

use std::collections::BTreeMap;
use std::ops::Bound;

use sha2::{Digest, Sha256};
use test_kit::Rng;

use crate::entry::{EMPTY_KEY, KEY_BYTES_MAX};
use crate::memory::Memory;

/// How many bytes stand before a member of the set `k` in the store, and before one of the sorted set in the order of scores.
const BEFORE: usize = 11;
const BEFORE_SCORED: usize = BEFORE + 9;

/// What is asked for an array of strings answers with.
fn strings(memory: &mut Memory, command: &[&[u8]]) -> Vec<Vec<u8>> {
    let reply = memory.reply(command, false);
    let line = |at: usize| at + reply[at..].windows(2).position(|two| two == b"\r\n").unwrap();
    let number = |from: usize, to: usize| std::str::from_utf8(&reply[from..to]).unwrap().parse().unwrap();
    assert_eq!(reply[0], b'*', "{}", String::from_utf8_lossy(&reply[..reply.len().min(200)]));
    let mut at = line(0);
    let count: usize = number(1, at);
    let found = (0..count).map(|_| {
        let (begin, end) = (at + 3, line(at + 2));
        let len: usize = number(begin, end);
        at = end + 2 + len;
        reply[end + 2..at].to_vec()
    });
    found.collect()
}

fn integer(memory: &mut Memory, command: &[&[u8]]) -> i64 {
    let reply = memory.reply(command, false);
    let text = String::from_utf8_lossy(&reply);
    text.strip_prefix(':').and_then(|text| text.trim_end().parse().ok()).unwrap_or_else(|| panic!("{text}"))
}

/// Names of all lengths that matter, which begin alike.
fn names() -> Vec<Vec<u8>> {
    let mut names: Vec<Vec<u8>> = [&b""[..], b"K", b"L", b"LM", b"M"].map(<[u8]>::to_vec).into();
    let most = KEY_BYTES_MAX - BEFORE;
    let lens = [16_383, 16_384, 16_385, most - 9, most - 1, most, most + 1, most + 2, 1 << 20];
    for len in lens {
        let name = vec![b'L'; len];
        for at in [0, 16_383, 16_384, 16_384 + (64 << 10), len - 1] {
            for byte in [b'K', b'M'] {
                let mut other = name.clone();
                other.get_mut(at).into_iter().for_each(|place| *place = byte);
                names.push(other);
            }
        }
        names.push(name);
    }
    // Those that would be what keys of long ones end with.
    let digests: Vec<Vec<u8>> = names
        .iter()
        .filter(|name| name.len() > most)
        .map(|name| [&name[..16_384], Sha256::digest(name).as_slice()].concat())
        .collect();
    names.extend(digests);
    names.sort();
    names.dedup();
    names
}

#[test]
fn elements_of_any_length_are_kept_in_the_order_of_the_whole() {
    let names = names();
    let mut random = Rng::new(test_kit::seed(1));
    let mut memory = Memory::default();
    let mut model: BTreeMap<&[u8], String> = BTreeMap::new();
    for step in 0..test_kit::cases(100) {
        if random.index(6) == 0 {
            memory.in_transaction = random.index(2) == 0;
        }
        let name = names[random.index(names.len())].as_slice();
        let value = step.to_string();
        if random.index(3) > 0 {
            let is_new = i64::from(model.insert(name, value.clone()).is_none());
            assert_eq!(integer(&mut memory, &[b"SADD", b"s", name]), is_new);
            assert_eq!(integer(&mut memory, &[b"HSET", b"h", name, value.as_bytes()]), is_new);
            assert_eq!(integer(&mut memory, &[b"ZADD", b"z", b"7", name]), is_new);
        } else {
            let was_there = i64::from(model.remove(name).is_some());
            assert_eq!(integer(&mut memory, &[b"SREM", b"s", name]), was_there);
            assert_eq!(integer(&mut memory, &[b"HDEL", b"h", name]), was_there);
            assert_eq!(integer(&mut memory, &[b"ZREM", b"z", name]), was_there);
        }
        compare(&mut memory, &model, &names, &mut random);
    }
    for key in ["s", "h", "z"] {
        memory.ask(&format!("RENAME {key} a_longer_{key}"));
    }
    memory.in_transaction = false;
    assert_eq!(integer(&mut memory, &[b"EXISTS", b"s", b"h", b"z"]), 0);
    let all = strings(&mut memory, &[b"SMEMBERS", b"a_longer_s"]);
    assert!(all.iter().eq(model.keys()), "after a rename");
}

/// Compares what there is with what should be there.
fn compare(memory: &mut Memory, model: &BTreeMap<&[u8], String>, names: &[Vec<u8>], random: &mut Rng) {
    assert!(strings(memory, &[b"SMEMBERS", b"s"]).iter().eq(model.keys()), "another order of a set");
    let pairs = strings(memory, &[b"HGETALL", b"h"]);
    let expected = model.iter().flat_map(|(name, value)| [*name, value.as_bytes()]);
    assert!(pairs.iter().map(Vec::as_slice).eq(expected), "another order of a hash");
    let mut from = names[random.index(names.len())].as_slice();
    let mut to = names[random.index(names.len())].as_slice();
    if from > to {
        (from, to) = (to, from);
    }
    let (is_from_in, is_to_in) = (random.index(2) == 0, random.index(2) == 0);
    let end = |is_in: bool, name: &[u8]| [if is_in { b"[" } else { b"(" }, name].concat();
    let (min, max) = (end(is_from_in, from), end(is_to_in, to));
    let bound = |is_in: bool, name| if is_in { Bound::Included(name) } else { Bound::Excluded(name) };
    let within: Vec<&[u8]> = if from == to && !(is_from_in && is_to_in) {
        Vec::new()
    } else {
        let range = model.range::<[u8], _>((bound(is_from_in, from), bound(is_to_in, to)));
        range.map(|(name, _)| *name).collect()
    };
    let found = strings(memory, &[b"ZRANGEBYLEX", b"z", &min, &max]);
    assert!(found == within, "{} of {} within an interval", found.len(), within.len());
    let found = strings(memory, &[b"ZREVRANGEBYLEX", b"z", &max, &min]);
    assert!(found.iter().rev().eq(&within), "{} of {} backwards", found.len(), within.len());
    if let Some(rank) = model.keys().position(|name| *name == from) {
        assert_eq!(integer(memory, &[b"ZRANK", b"z", from]), rank as i64);
    }
    assert_eq!(integer(memory, &[b"SISMEMBER", b"s", to]), i64::from(model.contains_key(to)));
}

#[test]
fn only_what_is_too_long_for_a_key_has_another_form() {
    let most = KEY_BYTES_MAX - BEFORE;
    for (member, is_long) in [(vec![b'a'; most], false), (vec![b'a'; most + 1], true)] {
        let mut memory = Memory::default();
        assert_eq!(integer(&mut memory, &[b"SADD", b"k", &member, b"b"]), 2);
        let keys = memory.keys_of_elements();
        let plain = [b"k\0\x01".as_slice(), &keys[0][3..BEFORE], b"b"].concat();
        assert!(keys.contains(&plain));
        let long = keys.iter().find(|key| **key != plain).unwrap();
        assert_eq!(long[2], if is_long { 2 } else { 1 });
        assert_eq!(long.len(), if is_long { BEFORE + (16 << 10) + 32 } else { KEY_BYTES_MAX });
        // A collection without long members is described as ever.
        assert_eq!(memory.attributes("k").len(), if is_long { 11 } else { 10 });
        assert_eq!(integer(&mut memory, &[b"SREM", b"k", &member]), 1);
        assert_eq!(memory.attributes("k").len(), 10);
        assert_eq!(integer(&mut memory, &[b"SADD", b"k", &member]), 1);
        assert_eq!(memory.ask("DEL k"), ":1|");
        assert_eq!(memory.elements(), 0);
    }
    let mut memory = Memory::default();
    let member = vec![b'a'; KEY_BYTES_MAX - BEFORE_SCORED + 1];
    assert_eq!(integer(&mut memory, &[b"ZADD", b"k", b"1", &member]), 1);
    let forms: Vec<u8> = memory.keys_of_elements().iter().map(|key| key[2]).collect();
    assert_eq!(forms, [1, 2]);
}

/// Where a key leaves no room for a head, it has a digest. Where it does not leave room for that, it cannot be.
#[test]
fn long_keys_have_room_for_a_digest_or_not() {
    for (len, fits) in [(KEY_BYTES_MAX - 42, true), (KEY_BYTES_MAX - 41, false)] {
        let mut memory = Memory::default();
        let key = vec![b'k'; len];
        let members: Vec<Vec<u8>> = (0..70).map(|number| format!("{number:050}").into_bytes()).collect();
        for (member, number) in members.iter().zip(0..) {
            let reply = memory.reply(&[b"SADD", &key, member], false);
            let expected: &[u8] =
                if fits || number < 64 { b":1" } else { b"-ERR a key with more than 64 elem" };
            assert!(reply.starts_with(expected), "{number}: {}", String::from_utf8_lossy(&reply));
        }
        let kept = if fits { &members[..] } else { &members[..64] };
        assert!(strings(&mut memory, &[b"SMEMBERS", &key]) == kept, "{len}");
    }
}

#[test]
fn the_empty_key_is_a_key() {
    let mut memory = Memory::default();
    assert_eq!(memory.ask("SET '' x EX 100"), "+OK|");
    assert_eq!(memory.ask("SET a y"), "+OK|");
    assert_eq!(memory.keys_of_elements(), [EMPTY_KEY.to_vec()]);
    assert_eq!(memory.ask("GET ''"), "$1|x|");
    assert_eq!(memory.ask("TTL ''"), ":100|");
    assert_eq!(memory.ask("KEYS *"), "*2|$0||$1|a|");
    assert_eq!(memory.ask("RANGE '' ''"), "*4|$0||$1|x|$1|a|$1|y|");
    assert_eq!(memory.ask("RANGE '' '' REV LIMIT 2"), "*4|$1|a|$1|y|$0||$1|x|");
    assert_eq!(memory.ask("RANGE '' '' REV LIMIT 1"), "*2|$1|a|$1|y|");
    assert_eq!(memory.ask("DBSIZE"), ":2|");
    assert_eq!(memory.ask("RENAME '' b"), "+OK|");
    assert_eq!((memory.elements(), memory.ask("EXISTS ''").as_str()), (0, ":0|"));
    let many = (0..100).map(|number| number.to_string()).collect::<Vec<_>>().join(" ");
    assert_eq!(memory.ask(&format!("SADD '' {many}")), ":100|");
    assert_eq!(memory.elements(), 101);
    assert_eq!(memory.ask("RENAME '' c"), "+OK|");
    assert_eq!(memory.ask("COPY c ''"), ":1|");
    assert_eq!(memory.ask("DEL c"), ":1|");
    assert_eq!(memory.ask("SCARD ''"), ":100|");
    assert_eq!(memory.ask("SET '' string"), "+OK|");
    assert_eq!(memory.ask("FLUSHDB"), "+OK|");
    assert_eq!((memory.elements(), memory.ask("DBSIZE").as_str()), (0, ":0|"));
}
