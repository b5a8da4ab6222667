//! How even random choices are.

use std::collections::{BTreeMap, BTreeSet};

use crate::memory::Memory;

fn with_set(members: &[String]) -> Memory {
    let mut memory = Memory::default();
    for some in members.chunks(1000) {
        memory.ask(&format!("SADD s {}", some.join(" ")));
    }
    memory
}

/// How often each of `groups` equal parts of `members`, which are sorted, was returned, for each time that it should be.
fn shares(members: &[String], groups: usize, command: &str, draws: usize) -> Vec<f64> {
    let mut memory = with_set(members);
    let mut counts = vec![0_u32; groups];
    for _ in 0..draws {
        let reply = memory.ask(command);
        for member in reply.split('|').filter(|part| !part.starts_with(['$', '*']) && !part.is_empty()) {
            let rank = members.binary_search_by(|other| other.as_str().cmp(member)).unwrap();
            counts[rank * groups / members.len()] += 1;
        }
    }
    let all: u32 = counts.iter().sum();
    counts.into_iter().map(|count| f64::from(count) * groups as f64 / f64::from(all)).collect()
}

/// Members with something of a random order about them.
fn members(count: u64, name: impl Fn(u64, u64) -> String) -> Vec<String> {
    let names: BTreeSet<String> =
        (0..count).map(|member| name(member, member.wrapping_mul(0x9e37_79b9_7f4a_7c15))).collect();
    names.into_iter().collect()
}

#[test]
fn a_walk_chooses_evenly() {
    for count in [20, 64, 100, 1000] {
        for command in ["SRANDMEMBER s", "SRANDMEMBER s 3", "SRANDMEMBER s -3", "SRANDMEMBER s 15"] {
            let members = members(count, |member, _| format!("m{member}"));
            let shares = shares(&members, 10, command, 2000);
            assert!(shares.iter().all(|share| (0.7..1.3).contains(share)), "{count} {command} {shares:?}");
        }
    }
    // Each of the two places of two different members, in any order, is as likely as the others.
    let mut memory = with_set(&["a".to_owned(), "b".to_owned(), "c".to_owned(), "d".to_owned()]);
    let mut counts = BTreeMap::new();
    for _ in 0..6000 {
        *counts.entry(memory.ask("SRANDMEMBER s 2")).or_insert(0) += 1;
    }
    assert!(counts.len() == 6 && counts.values().all(|count| (800..1200).contains(count)), "{counts:?}");
}

#[test]
fn draws_are_close_to_even() {
    const COUNT: u64 = 20_000;
    let of_numbers = members(COUNT, |member, _| format!("m:{member}"));
    let of_hex = members(COUNT, |_, random| format!("{random:016x}"));
    let of_names = members(COUNT, |member, random| {
        let shop = ["a", "shop", "news", "example"][(random >> 60) as usize & 3];
        format!("https://{shop}.com/{}/{member}", ["item", "user", "x"][(member % 3) as usize])
    });
    for members in test_kit::some_of([of_numbers, of_hex, of_names]) {
        for (command, draws) in [("SRANDMEMBER s", 1000), ("SRANDMEMBER s 3", 300), ("SRANDMEMBER s -3", 300)]
        {
            let shares = shares(&members, 10, command, draws);
            assert!(shares.iter().all(|share| (0.5..1.6).contains(share)), "{command} {shares:?}");
        }
    }
}

#[test]
fn few_strays_do_not_hide_the_others() {
    let letter = |random: u64, at: u32| char::from(b'a' + (random >> (8 * at)) as u8 % 26);
    let members = members(20_000, |member, random| {
        if member % 100 == 0 {
            (2..8).map(|at| letter(random, at)).collect()
        } else {
            format!("user:{member}")
        }
    });
    let shares = shares(&members, 10, "SRANDMEMBER s", 500);
    assert!(shares.iter().all(|share| (0.4..1.9).contains(share)), "{shares:?}");
}

#[test]
fn a_large_set_can_be_drawn_from_in_any_way() {
    // Members that share ever longer beginnings, and members of any bytes.
    let deep: Vec<String> =
        (0..10_000_usize).map(|member| "a".repeat(member / 100 + 1) + &member.to_string()).collect();
    let mut memory = with_set(&deep);
    memory.ask("SADD s \"\" \"\\x00\" \"\\x00\\x00\" \"\\xff\" \"\\xff\\xff\" a aa aaa");
    let mut popped = 0;
    for line in ["SPOP s", "SPOP s 2", "SPOP s 100", "SPOP s 5"].iter().cycle().take(100) {
        let reply = memory.ask(line);
        popped += reply.matches('$').count();
        assert_eq!(memory.ask("SCARD s"), format!(":{}|", 10_008 - popped), "{line}");
    }
    assert_eq!(memory.elements(), 10_008 - popped);
    assert!(memory.ask("SRANDMEMBER s -2000").starts_with("*2000|"));
    assert!(memory.ask("SPOP s 10008").starts_with(&format!("*{}|", 10_008 - popped)));
    assert_eq!((memory.ask("EXISTS s").as_str(), memory.elements()), (":0|", 0));
}
