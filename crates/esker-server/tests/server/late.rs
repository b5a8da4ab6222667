//! A server whose journal decides later, as a replicated log does: some entries are refused, and of some it is not known what
//! becomes of them.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use esker_journal::late::Fate;

use crate::client::{Client, Value, encoded_line};
use crate::host::{Host, SetAtEnd, Store};
use crate::pipelines::Random;

const DELAY: Duration = Duration::from_millis(1);

/// How a write has ended for its client.
#[derive(Debug, PartialEq, Eq)]
enum End<T> {
    Done(T),
    Refused,
    Unknown,
}

fn end(reply: Value) -> End<Value> {
    match reply {
        Value::Error(message) if message.contains("it is not known") => End::Unknown,
        Value::Error(_) => End::Refused,
        reply => End::Done(reply),
    }
}

/// A server on a journal that takes most entries, and the seed that says which ones it does not take.
fn host_with_losses(seed: u64) -> Host {
    let mut random = Random(seed);
    Host::of(
        &Store::late(DELAY, move || match random.below(20) {
            0 => Fate::Refused,
            1 => Fate::Unknown { is_applied: true },
            2 => Fate::Unknown { is_applied: false },
            _ => Fate::Done,
        }),
        |_| {},
    )
}

/// Calls until it is done: what reads may have relied on a write that was not taken.
fn call_until_done(client: &mut Client, line: &str) -> Value {
    loop {
        if let End::Done(reply) = end(client.call(line)) {
            return reply;
        }
    }
}

fn elements(reply: &Value) -> Vec<String> {
    match reply {
        Value::Array(values) => values.iter().map(Value::to_string).collect(),
        other => panic!("no array: {other}"),
    }
}

/// The list is the order in which the pushes took effect, so each reply says whether it is true.
#[test]
fn no_reply_says_what_the_log_does_not_bear_out() {
    for seed in test_kit::seeds(4) {
        println!("seed {seed}");
        let host = host_with_losses(seed);
        let (is_over, pushed) = (AtomicBool::new(false), AtomicU64::new(0));
        let (pushes, reads) = thread::scope(|scope| {
            let writers: Vec<_> = (0..6)
                .map(|writer| {
                    let (mut client, pushed) = (host.client(), &pushed);
                    scope.spawn(move || {
                        let mut ends = Vec::new();
                        for number in 0..test_kit::cases(150) {
                            let token = format!("{writer}:{number}");
                            let end = end(client.call(&format!("RPUSH list {token}")));
                            if let End::Done(len) = &end {
                                pushed.fetch_max(len.integer() as u64, Ordering::SeqCst);
                            }
                            ends.push((token, end));
                        }
                        ends
                    })
                })
                .collect();
            let readers: Vec<_> = (0..2)
                .map(|_| {
                    let (mut client, is_over, pushed) = (host.client(), &is_over, &pushed);
                    scope.spawn(move || {
                        let mut reads = Vec::new();
                        while !is_over.load(Ordering::SeqCst) {
                            let least = pushed.load(Ordering::SeqCst);
                            if let End::Done(list) = end(client.call("LRANGE list 0 -1")) {
                                reads.push((least, elements(&list)));
                            }
                        }
                        reads
                    })
                })
                .collect();
            let at_end = SetAtEnd(&is_over);
            let pushes: Vec<_> = writers.into_iter().flat_map(|thread| thread.join().unwrap()).collect();
            drop(at_end);
            (pushes, readers.into_iter().flat_map(|thread| thread.join().unwrap()).collect::<Vec<_>>())
        });
        let list = elements(&call_until_done(&mut host.client(), "LRANGE list 0 -1"));
        assert_eq!(list.iter().collect::<BTreeSet<_>>().len(), list.len(), "an element is there twice");
        let mut kinds = [0; 3];
        for (token, end) in pushes {
            let place = list.iter().position(|element| *element == token);
            match end {
                End::Done(len) => {
                    kinds[0] += 1;
                    assert_eq!(place.map(|place| place as i64 + 1), Some(len.integer()), "{token} was done");
                }
                End::Refused => {
                    kinds[1] += 1;
                    assert_eq!(place, None, "{token} was refused");
                }
                End::Unknown => kinds[2] += 1,
            }
        }
        println!("{kinds:?} pushes, {} reads", reads.len());
        for (least, read) in reads {
            assert!(read.len() as u64 >= least, "a read is older than a reply before it");
            assert!(list.starts_with(&read), "a read has what never was: {read:?}, not of {list:?}");
        }
    }
}

/// Blocked clients get each element once, and none of a push or a pop that is not taken.
#[test]
fn blocked_clients_are_answered_when_the_turn_is_done() {
    for seed in test_kit::seeds(4) {
        println!("seed {seed}");
        let host = host_with_losses(seed);
        let is_over = AtomicBool::new(false);
        let (pushes, pops) = thread::scope(|scope| {
            let producers: Vec<_> = (0..3)
                .map(|writer| {
                    let mut client = host.client();
                    scope.spawn(move || {
                        let tokens = (0..test_kit::cases(150)).map(|number| format!("{writer}:{number}"));
                        tokens
                            .map(|token| {
                                let end = end(client.call(&format!("RPUSH queue {token}")));
                                (token, end)
                            })
                            .collect::<Vec<_>>()
                    })
                })
                .collect();
            let consumers: Vec<_> = (0..4)
                .map(|_| {
                    let (mut client, is_over) = (host.client(), &is_over);
                    scope.spawn(move || {
                        let (mut popped, mut unknown) = (Vec::new(), 0);
                        while !is_over.load(Ordering::SeqCst) {
                            match end(client.call("BLPOP queue 0.05")) {
                                End::Done(Value::Array(pair)) => popped.push(pair[1].to_string()),
                                End::Unknown => unknown += 1,
                                _ => {}
                            }
                        }
                        (popped, unknown)
                    })
                })
                .collect();
            let at_end = SetAtEnd(&is_over);
            let pushes: Vec<_> = producers.into_iter().flat_map(|thread| thread.join().unwrap()).collect();
            drop(at_end);
            (pushes, consumers.into_iter().map(|thread| thread.join().unwrap()).collect::<Vec<_>>())
        });
        let left = elements(&call_until_done(&mut host.client(), "LRANGE queue 0 -1"));
        let unknown: usize = pops.iter().map(|(_, unknown)| unknown).sum();
        let popped: Vec<String> = pops.into_iter().flat_map(|(popped, _)| popped).collect();
        let all: Vec<&String> = popped.iter().chain(&left).collect();
        let there: BTreeSet<&String> = all.iter().copied().collect();
        assert_eq!(there.len(), all.len(), "an element was given to two clients, or is still there");
        let mut missing = 0;
        for (token, end) in &pushes {
            match end {
                End::Done(_) => missing += usize::from(!there.contains(token)),
                End::Refused => assert!(!there.contains(token), "{token} was refused"),
                End::Unknown => {}
            }
        }
        println!("{} popped, {} left, {missing} missing, {unknown} unknown", popped.len(), left.len());
        assert!(missing <= unknown, "{missing} are missing");
    }
}

/// What a transaction has read was true when it took effect.
#[test]
fn watched_transactions_lose_no_update() {
    for seed in test_kit::seeds(4) {
        println!("seed {seed}");
        let host = host_with_losses(seed);
        let ends: Vec<(u64, bool)> = thread::scope(|scope| {
            let clients: Vec<_> = (0..4)
                .map(|_| {
                    let mut client = host.client();
                    scope.spawn(move || {
                        let mut done = Vec::new();
                        for _ in 0..test_kit::cases(60) {
                            client.call("WATCH counter");
                            let End::Done(now) = end(client.call("GET counter")) else { continue };
                            let now: u64 = now.to_string().parse().unwrap_or(0);
                            client.send_bytes(&encoded_line("MULTI"));
                            client.send_bytes(&encoded_line(&format!("SET counter {}", now + 1)));
                            client.send_bytes(&encoded_line("EXEC"));
                            let reply = (0..3).map(|_| client.read()).last().unwrap();
                            match end(reply) {
                                End::Done(Value::Array(_)) => done.push((now + 1, true)),
                                End::Unknown => done.push((now + 1, false)),
                                _ => {}
                            }
                        }
                        done
                    })
                })
                .collect();
            clients.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
        });
        let last: u64 = call_until_done(&mut host.client(), "GET counter").to_string().parse().unwrap_or(0);
        let done: Vec<u64> = ends.iter().filter(|(_, is_done)| *is_done).map(|(value, _)| *value).collect();
        let different: BTreeSet<u64> = done.iter().copied().collect();
        assert_eq!(different.len(), done.len(), "two transactions have counted alike");
        let unknown = ends.len() - done.len();
        println!("{last}: {} done, {unknown} unknown", done.len());
        assert!(done.len() as u64 <= last && last <= (done.len() + unknown) as u64, "{last}");
    }
}

/// Commands see what is in flight, whatever they do with it.
#[test]
fn writes_in_flight_are_read() {
    let host = Host::of(&Store::late(Duration::from_millis(100), || Fate::Done), |_| {});
    let (mut writer, mut reader) = (host.client(), host.client());
    let lines = ["SET a 1", "RPUSH l x y z", "HSET h f v g w", "SET gone 1", "DEL gone", "ZADD z 1 m 2 n"];
    // Each ends its turn, so that several are in flight when the reads come.
    for line in lines {
        writer.send_bytes(&encoded_line(line));
        reader.call("PING");
    }
    let expected = [
        ("INCR a", ":2"),
        ("LRANGE l 0 -1", "[x y z]"),
        ("LPOP l", "x"),
        ("HGETALL h", "[f v g w]"),
        ("EXISTS gone", ":0"),
        ("ZRANGE z 0 -1", "[m n]"),
        ("RENAME h i", "+OK"),
        ("TYPE h", "+none"),
        ("HLEN i", ":2"),
        ("FLUSHDB", "+OK"),
        ("EXISTS a l i z", ":0"),
        ("SET a again", "+OK"),
        ("GET a", "again"),
        ("DBSIZE", ":1"),
    ];
    for (line, reply) in expected {
        assert_eq!(reader.call(line).to_string(), reply, "{line}");
    }
    lines.iter().for_each(|_| drop(writer.read()));
}
