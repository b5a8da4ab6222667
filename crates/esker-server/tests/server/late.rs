//! A server whose journal decides later, as a replicated log does: some entries are refused, and of some it is not known what
//! becomes of them.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use esker_journal::late::Fate;
use test_kit::Rng;

use crate::client::{Client, Value, encoded_line};
use crate::host::{Host, SetAtEnd, Store, wait_until};

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
        Value::Error(message) if message.contains("refused it") || message.contains("try again") => {
            End::Refused
        }
        Value::Error(message) => panic!("{message}"),
        reply => End::Done(reply),
    }
}

/// A server on a journal that takes most entries, and the seed that says which ones it does not take.
fn host_with_losses(seed: u64) -> Host {
    let mut random = Rng::new(seed);
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
                        for number in 0..test_kit::cases(100) {
                            // Some turns end within a packet: by what is apart, or by what has to be in order.
                            let tokens = ["a", "b"].map(|half| format!("{writer}:{number}{half}"));
                            let between =
                                ["PING", "SET other x", "MULTI", "INFO server"][number as usize % 4];
                            client.send_bytes(&encoded_line(&format!("RPUSH list {}", tokens[0])));
                            client.send_bytes(&encoded_line(between));
                            client.send_bytes(&encoded_line(&format!("RPUSH list {}", tokens[1])));
                            let replies = [client.read(), client.read(), client.read()];
                            let [first, _, mut second] = replies;
                            if between == "MULTI" {
                                second = match end(client.call("EXEC")) {
                                    End::Done(Value::Array(mut of_exec)) => of_exec.remove(0),
                                    End::Unknown => Value::Error("it is not known".to_owned()),
                                    other => {
                                        assert_eq!(other, End::Refused);
                                        Value::Error("try again".to_owned())
                                    }
                                };
                            }
                            for (token, reply) in tokens.into_iter().zip([first, second]) {
                                let end = end(reply);
                                if let End::Done(len) = &end {
                                    pushed.fetch_max(len.integer() as u64, Ordering::SeqCst);
                                }
                                ends.push((token, end));
                            }
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
        assert!(kinds[0] > kinds[1] / 4 && !reads.is_empty(), "nothing is taken: {kinds:?}");
        for (least, read) in reads {
            assert!(read.len() as u64 >= least, "a read is older than a reply before it");
            assert!(list.starts_with(&read), "a read has what never was: {read:?}, not of {list:?}");
        }
    }
}

/// Blocked clients get each element once, and none of a push or a pop that is not taken. None of them waits while there are
/// elements: they wait without a time-out, and end by an element that says so.
#[test]
fn blocked_clients_are_answered_when_the_turn_is_done() {
    const STOP: &str = "stop";
    for seed in test_kit::seeds(4) {
        println!("seed {seed}");
        let host = host_with_losses(seed);
        let (pushes, pops) = thread::scope(|scope| {
            let producers: Vec<_> = (0..3)
                .map(|writer| {
                    let mut client = host.client();
                    scope.spawn(move || {
                        let mut ends = Vec::new();
                        for number in 0..test_kit::cases(100) {
                            let tokens = ["a", "b"].map(|half| format!("{writer}:{number}{half}"));
                            let lines = tokens.clone().map(|token| format!("RPUSH queue {token}"));
                            lines.iter().for_each(|line| client.send_bytes(&encoded_line(line)));
                            tokens.into_iter().for_each(|token| ends.push((token, end(client.read()))));
                        }
                        ends
                    })
                })
                .collect();
            let consumers: Vec<_> = (0..4)
                .map(|_| {
                    let mut client = host.client();
                    scope.spawn(move || {
                        let (mut popped, mut unknown) = (Vec::new(), 0);
                        loop {
                            match end(client.call("BLPOP queue 0")) {
                                End::Done(Value::Array(pair)) => match pair[1].to_string() {
                                    token if token == STOP => return (popped, unknown),
                                    token => popped.push(token),
                                },
                                End::Unknown => unknown += 1,
                                End::Refused => {}
                                End::Done(other) => panic!("{other}"),
                            }
                        }
                    })
                })
                .collect();
            let pushes: Vec<_> = producers.into_iter().flat_map(|thread| thread.join().unwrap()).collect();
            let mut client = host.client();
            while !consumers.iter().all(thread::ScopedJoinHandle::is_finished) {
                end(client.call(&format!("RPUSH queue {STOP}")));
            }
            (pushes, consumers.into_iter().map(|thread| thread.join().unwrap()).collect::<Vec<_>>())
        });
        let left = elements(&call_until_done(&mut host.client(), "LRANGE queue 0 -1"));
        let unknown: usize = pops.iter().map(|(_, unknown)| unknown).sum();
        let popped: Vec<String> = pops.into_iter().flat_map(|(popped, _)| popped).collect();
        let all: Vec<&String> = popped.iter().chain(left.iter().filter(|token| *token != STOP)).collect();
        let there: BTreeSet<&String> = all.iter().copied().collect();
        assert_eq!(there.len(), all.len(), "an element was given to two clients, or is still there");
        let (mut done, mut missing) = (0, 0);
        for (token, end) in &pushes {
            match end {
                End::Done(_) => {
                    done += 1;
                    missing += usize::from(!there.contains(token));
                }
                End::Refused => assert!(!there.contains(token), "{token} was refused"),
                End::Unknown => {}
            }
        }
        println!("{done} pushed, {} popped, {missing} missing, {unknown} unknown", popped.len());
        assert!(done > pushes.len() / 8, "nothing is taken");
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
                            assert_eq!(client.call("WATCH counter").to_string(), "+OK");
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

/// Commands see what is in flight, whatever they do with it, on the event loop and in the pool.
#[test]
fn writes_in_flight_are_read() {
    // More arguments than the event loop takes.
    let many = " none".repeat(2100);
    let host = Host::of(&Store::late(Duration::from_millis(100), || Fate::Done), |_| {});
    let lines = ["SET a 1", "RPUSH l x y z", "HSET h f v g w", "ZADD z 1 m 2 n", "SADD s 1", "DEL s"];
    // Each client has a turn of its own, and none has its reply when the reads come.
    let mut writers = lines.map(|_| host.client());
    writers.iter_mut().zip(lines).for_each(|(writer, line)| begin(&host, writer, line));
    let exists = format!("EXISTS a l h z s{many}");
    let expected = [
        ("INCR a", ":2"),
        ("LRANGE l 0 -1", "[x y z]"),
        ("LPOP l", "x"),
        ("HGETALL h", "[f v g w]"),
        ("EXISTS s", ":0"),
        ("ZRANGE z 0 -1", "[m n]"),
        (&exists, ":4"),
        ("RENAME h i", "+OK"),
        ("TYPE h", "+none"),
        ("HLEN i", ":2"),
        ("FLUSHDB", "+OK"),
        ("EXISTS a l i z", ":0"),
        ("SET a again", "+OK"),
        ("GET a", "again"),
        (&exists, ":1"),
        ("DBSIZE", ":1"),
    ];
    let mut client = host.client();
    client.send_bytes(&expected.iter().flat_map(|(line, _)| encoded_line(line)).collect::<Vec<_>>());
    for (line, reply) in expected {
        assert_eq!(client.read().to_string(), reply, "{line:.40}");
    }
}

/// A journal whose entries end in these ways, the later ones well.
fn fates<const N: usize>(fates: [Fate; N]) -> impl FnMut() -> Fate + Send + 'static {
    let mut fates = fates.into_iter();
    move || fates.next().unwrap_or(Fate::Done)
}

const SLOW: Duration = Duration::from_millis(200);

/// The command has been evaluated when this returns.
fn begin(host: &Host, client: &mut Client, line: &str) {
    client.send(line);
    let name = line.split(' ').next().unwrap().to_ascii_lowercase();
    let mut other = host.client();
    wait_until("it is evaluated", || other.calls_of(&name) == 1);
}

#[test]
fn a_pop_that_is_refused_wakes_the_client_that_waits() {
    let host = Host::of(&Store::late(SLOW, fates([Fate::Done, Fate::Refused])), |_| {});
    let (mut popping, mut waiting) = (host.client(), host.client());
    popping.check("RPUSH l a => :1");
    begin(&host, &mut popping, "LPOP l");
    waiting.send("BLPOP l 0");
    assert!(matches!(end(popping.read()), End::Refused));
    assert_eq!(waiting.read().to_string(), "[l a]");
}

#[test]
fn a_client_that_waits_is_served_once() {
    let host = Host::of(&Store::late(SLOW, || Fate::Done), |_| {});
    let (mut pushing, mut waiting, mut other) = (host.client(), host.client(), host.client());
    waiting.send("BLPOP l 0");
    host.wait_for_blocked(1);
    begin(&host, &mut pushing, "RPUSH l a");
    other.check("RPUSH l b => :1\n LRANGE l 0 -1 => [b]");
    assert_eq!(waiting.read().to_string(), "[l a]");
    assert_eq!(pushing.read().to_string(), ":1");
}

#[test]
fn a_key_that_is_watched_in_flight_has_changed_if_that_is_refused() {
    let host = Host::of(&Store::late(SLOW, fates([Fate::Done, Fate::Refused])), |_| {});
    let (mut watching, mut deleting) = (host.client(), host.client());
    watching.check("SET k v => +OK");
    begin(&host, &mut deleting, "DEL k");
    watching.check("WATCH k => +OK");
    assert!(matches!(end(deleting.read()), End::Refused));
    watching.check("GET k => v");
    deleting.check("FLUSHALL => +OK");
    watching.check("MULTI => +OK\n SET k w => +QUEUED\n EXEC => *-1");
}

#[test]
fn a_read_in_the_pool_relies_on_what_is_in_flight() {
    let host = Host::of(&Store::late(SLOW, fates([Fate::Done, Fate::Refused])), |_| {});
    let (mut reading, mut deleting, mut listening) = (host.client(), host.client(), host.client());
    reading.check("CONFIG SET notify-keyspace-events KEAm => +OK");
    listening.call("SUBSCRIBE other");
    reading.check("SET k v => +OK");
    begin(&host, &mut deleting, "DEL k");
    let read = reading.call(&format!("MGET k{}", " none".repeat(2100)));
    assert!(matches!(end(read), End::Refused));
    assert!(matches!(end(deleting.read()), End::Refused));
    reading.check("GET k => v");
}

/// One turn goes to the pool, since its trees are missing, and a later one of the same packet is decided before it.
#[test]
fn one_packet_has_two_turns() {
    let dir = tempfile::tempdir().unwrap();
    let host = Host::of(&Store::at(&dir), |_| {});
    let (mut pushing, mut waiting) = (host.client(), host.client());
    pushing.check("SET base 1 => +OK");
    waiting.check("SELECT 1 => +OK");
    let id = waiting.call("CLIENT ID").integer();
    waiting.send("BLPOP l 0");
    host.wait_for_blocked(1);
    let unblock = format!("CLIENT UNBLOCK {id}");
    let lines = ["SELECT 1", "RPUSH l a", unblock.as_str(), "SELECT 0", "SET other b", "GET other"];
    pushing.send_bytes(&lines.iter().flat_map(|line| encoded_line(line)).collect::<Vec<_>>());
    let replies = lines.map(|_| pushing.read().to_string());
    // A client that has got its element waits no more.
    assert_eq!(replies, ["+OK", ":1", ":0", "+OK", "+OK", "b"]);
    assert_eq!(waiting.read().to_string(), "[l a]");
}

#[test]
fn a_transaction_that_publishes_serves_clients_that_wait() {
    let host = Host::start();
    let (mut pushing, mut waiting) = (host.client(), host.client());
    waiting.send("BLPOP l 0");
    host.wait_for_blocked(1);
    pushing.check("MULTI => +OK\n RPUSH l x => +QUEUED\n PUBLISH c m => +QUEUED\n EXEC => [:1 :0]");
    assert_eq!(waiting.read().to_string(), "[l x]");
}

/// The other tests of the server hold on such a journal too; at quick effort those of waits and transactions.
#[test]
fn the_other_tests_hold() {
    let mut others = std::process::Command::new(std::env::current_exe().unwrap());
    // The tests of full disks are left out: they wait for background work, which a loaded machine delays.
    others.args(["--skip", "late::", "--skip", "full_disk::"]);
    others.env("ESKER_LATE_US", "2000").env("ESKER_EFFORT", "quick");
    if !test_kit::is_full_run() {
        others.args(["atomicity::", "blocking::", "transactions::", "watches::"]);
    }
    let others = others.output().unwrap();
    assert!(others.status.success(), "{}", String::from_utf8_lossy(&others.stdout));
}
