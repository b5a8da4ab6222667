//! Random commands: a server with its trees, pipelines and pool replies as the commands do over a map in memory.

use esker::fs::sim::SimFs;
use esker_redis::memory::Memory;

use crate::client::{encoded, encoded_line};
use crate::host::{Host, Store};
use test_kit::Rng;

/// A command about few keys, so that they meet. Some make large collections, some delete these, some need the pool.
fn command(random: &mut Rng) -> Vec<Vec<u8>> {
    let key = |random: &mut Rng| format!("k{}", random.index(6));
    let element = |random: &mut Rng| format!("e{}", random.index(3000));
    let (a, b) = (key(random), key(random));
    let words = |text: String| text.split(' ').map(|word| word.as_bytes().to_vec()).collect::<Vec<_>>();
    let kind = random.index(32);
    let mut many = |begin: String, pairs: bool| {
        let mut arguments = words(begin);
        let count = [1, 3, 100, 1500][random.index(4)];
        for _ in 0..count {
            if pairs {
                arguments.push(random.index(1000).to_string().into_bytes());
            }
            arguments.push(element(random).into_bytes());
        }
        arguments
    };
    match kind {
        0 | 1 => many(format!("SADD {a}"), false),
        2 | 3 => many(format!("ZADD {a}"), true),
        4 => many(format!("HSET {a}"), true),
        5 | 6 => many(format!("RPUSH {a}"), false),
        7 => many(format!("SREM {a}"), false),
        8 => words(format!("DEL {a}")),
        9 => words(format!("RENAME {a} {b}")),
        10 => words(format!("COPY {a} {b} REPLACE")),
        11 => words(format!("SUNIONSTORE {a} {a} {b}")),
        12 => words(format!("SDIFFSTORE {a} {a} {b}")),
        13 => words(format!("ZUNIONSTORE {a} 2 {a} {b}")),
        14 => words(format!("LPOP {a} 700")),
        15 => words(format!("LTRIM {a} 10 -10")),
        16 => words(format!("LMOVE {a} {b} LEFT RIGHT")),
        17 => words(format!("ZCARD {a}")),
        18 => words(format!("ZREMRANGEBYRANK {a} 5 800")),
        19 => words(format!("ZRANGE {a} 0 -1 WITHSCORES")),
        20 => words(format!("LRANGE {a} 0 -1")),
        21 => words(format!("TYPE {a}")),
        22 => words(format!("SCARD {a}")),
        23 => words(format!("APPEND {a} xyz")),
        24 => vec![b"SET".to_vec(), a.into_bytes(), vec![b'v'; [10, 70_000, 300_000][random.index(3)]]],
        25 => words(format!("STRLEN {a}")),
        26 => words(format!("GETRANGE {a} 100 120")),
        27 => words(format!("SET {a} 5")),
        28 => words(format!("INCR {a}")),
        29 => words("DBSIZE".to_owned()),
        30 if random.index(4) == 0 => words("FLUSHDB".to_owned()),
        _ => words(format!("EXISTS {a} {b}")),
    }
}

/// Runs random commands, in pipelines and transactions, and compares all replies, in bytes.
fn compare(host: &Host, seed: u64, rounds: usize) {
    let mut random = Rng::new(seed);
    let mut model = Memory::at(1_000_000_000_000_000);
    let mut client = host.client();
    client.check("FLUSHALL => +OK");
    for round in 0..rounds {
        let count = 1 + random.index(12);
        let in_transaction = random.index(3) == 0;
        let commands: Vec<Vec<Vec<u8>>> = (0..count).map(|_| command(&mut random)).collect();
        let mut bytes = Vec::new();
        let mut expected = Vec::new();
        if in_transaction {
            bytes.extend(encoded_line("MULTI"));
            expected.extend_from_slice(b"+OK\r\n");
            expected.extend(b"+QUEUED\r\n".repeat(commands.len()));
            expected.extend(format!("*{}\r\n", commands.len()).into_bytes());
        }
        for command in &commands {
            bytes.extend(encoded(command));
            let arguments: Vec<&[u8]> = command.iter().map(Vec::as_slice).collect();
            expected.extend(model.reply(&arguments, false));
        }
        if in_transaction {
            bytes.extend(encoded_line("EXEC"));
        }
        client.send_bytes(&bytes);
        let found = client.read_bytes(expected.len());
        if found != expected {
            let at = found.iter().zip(&expected).take_while(|(found, expected)| found == expected).count();
            let shown = |bytes: &[u8]| {
                String::from_utf8_lossy(&bytes[at.saturating_sub(40)..bytes.len().min(at + 60)]).into_owned()
            };
            let texts: Vec<String> = commands
                .iter()
                .map(|command| {
                    let words = command.iter().take(4).map(|word| &word[..word.len().min(20)]);
                    words.map(String::from_utf8_lossy).collect::<Vec<_>>().join(" ")
                })
                .collect();
            panic!(
                "seed {seed}, round {round}, in a transaction: {in_transaction}\n{}\nfound    {:?}\nexpected {:?}",
                texts.join("\n"),
                shown(&found),
                shown(&expected)
            );
        }
    }
}

#[test]
fn replies_are_those_of_a_map() {
    let host = Host::start();
    for seed in test_kit::seeds(3) {
        compare(&host, seed, 250);
    }
    assert!(host.client().figure("commands_in_pool") > 0, "the test is about nothing");
}

/// On a disk, where values have to be read from files, and again after each restart.
#[test]
fn replies_are_those_of_a_map_on_a_disk() {
    let disk = SimFs::new(1);
    for seed in test_kit::seeds(3) {
        let store = Store::on(&disk);
        let host = Host::of(&store, |_| {});
        compare(&host, seed, 150);
        host.end();
        store.db.close().unwrap();
    }
}
