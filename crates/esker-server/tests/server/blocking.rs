//! Commands that wait for elements: `BLPOP` and its kin.

use std::time::{Duration, Instant};

use esker::fs::sim::SimFs;
use esker_server::Durability;

use crate::client::{Value, encoded, encoded_lines};
use crate::host::{Host, Store, wait_until};

#[test]
fn an_element_that_is_there_is_taken_at_once() {
    let host = Host::start();
    host.client().check(
        "RPUSH l a b c d e f => :6
        BLPOP none l 0 => [l a]
        BRPOP l 0 => [l f]
        BLMOVE l m LEFT RIGHT 0 => b
        BRPOPLPUSH l m 0 => e
        LRANGE m 0 -1 => [e b]
        BLMPOP 0 2 none l LEFT COUNT 9 => [l [c d]]
        ZADD z 1 a 2 b 3 c => :3
        BZPOPMIN z 0 => [z a 1]
        BZPOPMAX z 0 => [z c 3]
        BZMPOP 0 1 z MIN => [z [[b 2]]]
        EXISTS l z => :0",
    );
}

#[test]
fn what_a_client_that_has_waited_gets() {
    let host = Host::start();
    let mut other = host.client();
    for (command, push, reply, left) in [
        ("BLPOP k 0", "RPUSH k a b", "[k a]", "LRANGE k 0 -1 => [b]"),
        ("BRPOP k 0", "RPUSH k a b", "[k b]", "LRANGE k 0 -1 => [a]"),
        ("BLPOP x k y 0", "RPUSH k a", "[k a]", "EXISTS k => :0"),
        ("BLMOVE k to LEFT RIGHT 0", "RPUSH k a b", "a", "LRANGE to 0 -1 => [a]"),
        ("BRPOPLPUSH k k 0", "RPUSH k a b", "b", "LRANGE k 0 -1 => [b a]"),
        ("BLMPOP 0 2 k x LEFT COUNT 5", "RPUSH k a b", "[k [a b]]", "EXISTS k => :0"),
        ("BZPOPMIN k 0", "ZADD k 2 b 1 a", "[k a 1]", "ZCARD k => :1"),
        ("BZPOPMAX k 0", "ZADD k 2 b 1 a", "[k b 2]", "ZCARD k => :1"),
        ("BZMPOP 0 1 k MAX COUNT 2", "ZADD k 2 b 1 a", "[k [[b 2] [a 1]]]", "EXISTS k => :0"),
        // However an element comes.
        ("BLPOP k 0", "EVERY SET s 1 | RPUSH s2 a | RENAME s2 k", "[k a]", "EXISTS k => :0"),
        ("BLPOP k 0", "EVERY RPUSH s2 a | COPY s2 k", "[k a]", "EXISTS k => :0"),
        ("BLPOP k 0", "EVERY RPUSH s2 a | RPOPLPUSH s2 k", "[k a]", "EXISTS k => :0"),
        ("BZPOPMIN k 0", "EVERY ZADD z 3 a | ZUNIONSTORE k 1 z", "[k a 3]", "EXISTS k => :0"),
        ("BLPOP k 0", "EVERY SELECT 1 | RPUSH k a | MOVE k 0 | SELECT 0", "[k a]", "EXISTS k => :0"),
        // Of a transaction, the state at its end counts.
        ("BLPOP k 0", "EVERY MULTI | RPUSH k a | RPUSH k b | LPOP k | EXEC", "[k b]", "EXISTS k => :0"),
        ("BRPOP k 0", "EVERY MULTI | RPUSH k a | DEL k | RPUSH k c | EXEC", "[k c]", "EXISTS k => :0"),
        // An element of another type is not waited for.
        ("BLPOP k 0", "EVERY SET k 1 | DEL k | RPUSH k a", "[k a]", "EXISTS k => :0"),
        ("BLPOP k 0", "EVERY ZADD k 1 m | ZREM k m | RPUSH k a", "[k a]", "EXISTS k => :0"),
        ("BZPOPMIN k 0", "EVERY RPUSH k m | DEL k | ZADD k 1 a", "[k a 1]", "EXISTS k => :0"),
        ("BLPOP k l 0", "EVERY SET k 1 | RPUSH l a", "[l a]", "EXISTS l => :0"),
        (
            "BLMOVE k to LEFT LEFT 0",
            "EVERY SET to 1 | RPUSH k a",
            "-WRONGTYPE Operation against a key holding the wrong kind of value",
            "LLEN k => :1",
        ),
    ] {
        other.check("FLUSHALL => +OK");
        let mut client = host.client();
        client.send(command);
        host.wait_for_blocked(1);
        let pushes = push.strip_prefix("EVERY ").unwrap_or(push);
        for push in pushes.split('|') {
            let reply = other.call(push);
            assert!(!reply.is_error(), "{push}: {reply}");
        }
        assert_eq!(client.read().to_string(), reply, "{command}, {push}");
        other.check(left);
        client.check("PING => +PONG");
    }
}

#[test]
fn clients_are_served_in_the_order_in_which_they_came() {
    let host = Host::start();
    let mut clients = Vec::new();
    for number in 0..10 {
        let mut client = host.client();
        client.send(if number % 2 == 0 { "BLPOP a b 0" } else { "BLPOP b a 0" });
        host.wait_for_blocked(number + 1);
        clients.push(client);
    }
    let mut other = host.client();
    other.check("RPUSH a 0 1 2 => :3");
    other.check("MULTI => +OK\n RPUSH b 3 => +QUEUED\n RPUSH b 4 => +QUEUED\n EXEC => [:1 :2]");
    other.send_bytes(b"RPUSH b 5\r\nRPUSH a 6\r\nRPUSH b 7\r\nRPUSH a 8 9\r\n");
    (0..4).for_each(|_| drop(other.read()));
    for (number, client) in clients.iter_mut().enumerate() {
        let Value::Array(reply) = client.read() else { panic!("no element") };
        assert_eq!(reply[1].to_string(), number.to_string());
    }
    other.check("EXISTS a b => :0");
    host.wait_for_blocked(0);
}

/// An element that goes from list to list by clients that wait.
#[test]
fn a_chain_of_clients() {
    let host = Host::start();
    let mut clients = Vec::new();
    for number in 0..5 {
        let mut client = host.client();
        client.send(&format!("BLMOVE l{number} l{} LEFT RIGHT 0", number + 1));
        host.wait_for_blocked(number + 1);
        clients.push(client);
    }
    let mut other = host.client();
    other.check("RPUSH l0 x => :1\n LRANGE l5 0 -1 => [x]");
    clients.iter_mut().for_each(|client| assert_eq!(client.read().to_string(), "x"));
    // Two that hand it to each other end too.
    let (mut a, mut b) = (host.client(), host.client());
    a.send("BRPOPLPUSH p q 0");
    b.send("BRPOPLPUSH q p 0");
    host.wait_for_blocked(2);
    other.check("RPUSH p y => :1");
    assert_eq!((a.read().to_string(), b.read().to_string()), ("y".to_owned(), "y".to_owned()));
    other.check("LRANGE p 0 -1 => [y]");
}

#[test]
fn timeouts() {
    let host = Host::start();
    let mut client = host.client();
    let begin = Instant::now();
    client.check(
        "BLPOP k 0.05 => *-1
        BRPOP k l 0.01 => *-1
        BLMOVE k l LEFT LEFT 0.01 => *-1
        BLMPOP 0.01 1 k LEFT => *-1
        BZPOPMIN k 0.01 => *-1
        BZMPOP 0.01 1 k MIN => *-1
        BLPOP k -1 => -ERR timeout is negative
        BLPOP k x => -ERR timeout is not a float or out of range
        BLPOP k 1e300 => -ERR timeout is negative",
    );
    assert!(begin.elapsed() >= Duration::from_millis(100));
    host.wait_for_blocked(0);
    // What was not popped is there.
    client.check("RPUSH k a => :1\n LLEN k => :1");
}

#[test]
fn a_client_that_has_gone_takes_no_element() {
    let host = Host::start();
    let (mut gone, mut client) = (host.client(), host.client());
    gone.send("BLPOP k 0");
    host.wait_for_blocked(1);
    client.send("BLPOP k 0");
    host.wait_for_blocked(2);
    drop(gone);
    host.wait_for_blocked(1);
    host.client().check("RPUSH k a => :1");
    assert_eq!(client.read().to_string(), "[k a]");
}

#[test]
fn client_unblock() {
    let host = Host::start();
    let (mut client, mut other) = (host.client(), host.client());
    let id = client.id();
    other.check(&format!(
        "CLIENT UNBLOCK {id} => :0
        CLIENT UNBLOCK 999999 => :0
        CLIENT UNBLOCK x => -ERR value is not an integer or out of range"
    ));
    for (how, reply) in
        [("", "*-1"), ("TIMEOUT", "*-1"), ("ERROR", "-UNBLOCKED client unblocked via CLIENT UNBLOCK")]
    {
        client.send("BLPOP k 0");
        host.wait_for_blocked(1);
        other.check(&format!("CLIENT UNBLOCK {id} {how} => :1"));
        assert_eq!(client.read().to_string(), reply, "{how}");
        client.check("PING => +PONG");
    }
}

#[test]
fn commands_behind_one_that_waits() {
    let host = Host::start();
    let (mut client, mut other) = (host.client(), host.client());
    client.send_bytes(b"PING\r\nBLPOP k 0\r\nPING x\r\nBLPOP k 0\r\n");
    assert_eq!(client.read().to_string(), "+PONG");
    host.wait_for_blocked(1);
    client.send_bytes(b"INCR n\r\n");
    other.check("GET n => $-1\n RPUSH k a => :1");
    assert_eq!(client.read().to_string(), "[k a]");
    assert_eq!(client.read().to_string(), "x");
    host.wait_for_blocked(1);
    other.check("RPUSH k b => :1");
    assert_eq!(client.read().to_string(), "[k b]");
    assert_eq!(client.read().to_string(), ":1");
}

/// What it pushes itself in the same pipeline, before a command that needs the pool.
#[test]
fn a_client_that_waits_behind_a_command_in_the_pool() {
    let host = Host::start();
    let mut other = host.client();
    for round in 0..50 {
        let mut client = host.client();
        let huge = vec![b'x'; 300_000];
        let mut bytes = crate::client::encoded(&[b"SET", &b"huge"[..], &huge]);
        bytes.extend(b"BLPOP k 0\r\n");
        client.send_bytes(&bytes);
        // It comes while the value is written, or later.
        let count = other.call(&format!("RPUSH k {round}"));
        assert_eq!(count.integer(), 1);
        assert_eq!(client.read().to_string(), "+OK");
        assert_eq!(client.read().to_string(), format!("[k {round}]"));
    }
}

/// An element that comes while the client's earlier writes are synced is not missed.
#[test]
fn a_client_that_waits_behind_a_sync() {
    let disk = SimFs::new(1);
    let host = Host::of(&Store::on(&disk), |config| config.durability = Durability::Power);
    let mut other = host.client();
    let mut client = host.client();
    for round in 0..100 {
        client.send_bytes(b"SET a 1\r\nBLPOP k 0\r\n");
        other.check(&format!("RPUSH k {round} => :1"));
        assert_eq!(client.read().to_string(), "+OK");
        assert_eq!(client.read().to_string(), format!("[k {round}]"));
    }
}

#[test]
fn elements_in_the_pool() {
    let host = Host::start();
    let mut other = host.client();
    let huge = vec![b'x'; 1 << 20];
    let mut clients: Vec<_> = (0..5).map(|_| host.client()).collect();
    for (number, client) in clients.iter_mut().enumerate() {
        client.send("BLPOP k 0");
        host.wait_for_blocked(number as u64 + 1);
    }
    let push: Vec<&[u8]> = vec![b"RPUSH", b"k", &huge, &huge, &huge, &huge, b"last"];
    assert_eq!(other.call_with(&push).integer(), 5);
    for (number, client) in clients.iter_mut().enumerate() {
        let Value::Array(reply) = client.read() else { panic!("no element") };
        assert_eq!(reply[1].bytes().len(), if number == 4 { 4 } else { 1 << 20 });
    }
    other.check("EXISTS k => :0");
}

#[test]
fn the_server_ends_while_clients_wait() {
    let host = Host::start();
    let mut clients: Vec<_> = (0..3).map(|_| host.client()).collect();
    clients[0].send("BLPOP k 0");
    clients[1].send("WAIT 1 0");
    host.wait_for_blocked(1);
    wait_until("WAIT waits", || host.client().calls_of("blpop") == 0);
    assert!(host.end() < Duration::from_secs(5));
    clients.iter_mut().for_each(|client| assert!(client.is_closed()));
}

#[test]
fn wait_for_replicas_takes_its_time() {
    let host = Host::start();
    let mut client = host.client();
    client.check(
        "SET a 1 => +OK
        WAIT 0 0 => :0
        WAIT 1 20 => :0
        WAIT 1 -1 => -ERR timeout is negative
        WAIT x 1 => -ERR value is not an integer or out of range",
    );
}

/// More keys than the event loop looks at in one step.
#[test]
fn a_client_may_wait_for_thousands_of_keys() {
    let host = Host::start();
    let (mut client, mut other) = (host.client(), host.client());
    let keys: Vec<String> = (0..3000).map(|key| format!("k{key}")).collect();
    let waits = |name: &str, timeout: &str| -> Vec<u8> {
        let words = std::iter::once(name).chain(keys.iter().map(String::as_str)).chain([timeout]);
        encoded(&words.collect::<Vec<_>>())
    };
    client.send_bytes(&waits("BLPOP", "0.05"));
    assert!(matches!(client.read(), Value::NullArray));
    // It waits, and does not look again and again.
    client.send_bytes(&waits("BLPOP", "0"));
    wait_until("it waits", || other.figure("blocked_clients") == 1);
    let in_pool = other.figure("commands_in_pool");
    for _ in 0..100 {
        other.check("PING => +PONG");
    }
    assert_eq!(other.figure("commands_in_pool"), in_pool);
    other.check("RPUSH k2999 a => :1");
    assert_eq!(client.read().to_string(), "[k2999 a]");
    // A client that goes is forgotten, and takes nothing.
    client.send_bytes(&waits("BZPOPMIN", "0"));
    wait_until("it waits", || other.figure("blocked_clients") == 1);
    drop(client);
    wait_until("it is forgotten", || other.figure("blocked_clients") == 0);
    other.check("ZADD k7 1 m => :1\n ZCARD k7 => :1");
}

/// A client that waits comes before those that came later, keeps its time, and takes nothing when it has gone, while others
/// hold its key.
#[test]
fn who_waits_has_its_turn_also_beside_long_commands() {
    let host = Host::start();
    let mut client = host.client();
    client.fill_set("set", 20);
    let transaction = |lines: [&str; 2]| encoded_lines(&["MULTI", lines[0], lines[1], "EXEC"]);
    for round in 0..test_kit::cases(10) {
        let (mut first, mut second) = (host.client(), host.client());
        first.send("BLPOP q 0");
        host.wait_for_blocked(1);
        second.send("BLPOP q 0");
        host.wait_for_blocked(2);
        let (mut long, mut later, mut timed) = (host.client(), host.client(), host.client());
        let before = client.figure("commands_in_pool");
        long.send_bytes(&transaction(["SUNIONSTORE target set set", "RPUSH q 1 2"]));
        host.wait_for_pool(before);
        later.send_bytes(&transaction(["SUNIONSTORE other set set", "LPOP q"]));
        let goes = round % 2 == 0;
        if goes {
            drop(first);
            assert_eq!(second.read().to_string().len(), "[q 1]".len());
        } else {
            timed.send("BLPOP q 0.001");
            assert_eq!(first.read().to_string(), "[q 1]");
            assert_eq!(second.read().to_string(), "[q 2]");
            assert_eq!(timed.read().to_string(), "*-1");
        }
        let [long, later] = [&mut long, &mut later].map(|client| {
            (0..3).for_each(|_| drop(client.read()));
            client.read().to_string()
        });
        assert_eq!(long, "[:100000 :2]");
        // Nobody has lost an element to the one that has gone, unless it went when it had got it.
        assert!(later == "[:100000 $-1]" || (goes && later == "[:100000 2]"), "{later}");
        client.call("DEL target other");
    }
}

/// Also if the one before has waited for its key and then found its element at once.
#[test]
fn each_blocking_command_has_its_own_time() {
    let host = Host::start();
    let mut client = host.client();
    client.fill_set("set", 10);
    for _ in 0..5 {
        let (mut long, mut waits) = (host.client(), host.client());
        let before = client.figure("commands_in_pool");
        let lines = ["MULTI", "SUNIONSTORE target set set", "RPUSH q 1", "EXEC"];
        long.send_bytes(&encoded_lines(&lines));
        host.wait_for_pool(before);
        waits.send("BLPOP q 0");
        waits.send("BLPOP q 0.01");
        assert_eq!(waits.read().to_string(), "[q 1]");
        assert_eq!(waits.read().to_string(), "*-1");
        (0..4).for_each(|_| drop(long.read()));
        client.call("DEL target");
    }
}

/// Its time is over while messages are written to it that it does not read: what comes then is not for it.
#[test]
fn a_client_that_does_not_read_takes_no_element_after_its_time() {
    let host = Host::start();
    let (mut client, mut slow) = (host.client(), host.client());
    slow.call("HELLO 3");
    slow.call("SUBSCRIBE c");
    slow.send("BLPOP q 0.2");
    host.wait_for_blocked(1);
    // More than its socket takes.
    let message = "x".repeat(1 << 20);
    (0..16).for_each(|_| drop(client.call_with(&["PUBLISH", "c", &message])));
    let begun = Instant::now();
    wait_until("its time is over", || begun.elapsed() > Duration::from_millis(400));
    client.check("RPUSH q 1 => :1\n LLEN q => :1");
    loop {
        match slow.read() {
            Value::Push(_) => {}
            reply => break assert_eq!(reply.to_string(), "null"),
        }
    }
    client.check("LPOP q => 1");
}
