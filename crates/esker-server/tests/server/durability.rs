//! What survives power loss, on a simulated disk that forgets what was not synced.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use esker::fs::sim::SimFs;
use esker_server::Durability;

use crate::client::encoded_line;
use crate::host::{Host, SetAtEnd, Store, wait_until};

/// The reply to `command` from a server that finds the disk as it is after a power loss.
fn after_power_loss(disk: &SimFs, command: &str) -> String {
    let host = Host::of(&Store::on(&disk.crash_keeping(0.0, 1)), |_| {});
    host.client().call(command).to_string()
}

#[test]
fn with_power_a_reply_is_a_promise() {
    let disk = SimFs::new(1);
    let host = Host::of(&Store::on(&disk), |config| config.durability = Durability::Power);
    let mut client = host.client();
    client.check("CONFIG GET appendfsync => [appendfsync always]");
    client.check("SET a 1 => +OK");
    assert_eq!(after_power_loss(&disk, "GET a"), "1");
    client.check("SELECT 7 => +OK\n RPUSH l x y => :2\n SELECT 0 => +OK");
    assert_eq!(after_power_loss(&disk, "INFO keyspace").matches("db7:keys=1").count(), 1);
    client.check("MULTI => +OK\n INCR a => +QUEUED\n SET b 1 => +QUEUED\n EXEC => [:2 +OK]");
    assert_eq!(after_power_loss(&disk, "MGET a b"), "[2 1]");
    let huge = vec![b'x'; 1 << 20];
    client.call_with(&[b"SET", &b"huge"[..], &huge]);
    assert_eq!(after_power_loss(&disk, "STRLEN huge"), format!(":{}", 1 << 20));
    let members: Vec<String> = (0..5000).map(|member| member.to_string()).collect();
    let add: Vec<&str> = ["SADD", "set"].into_iter().chain(members.iter().map(String::as_str)).collect();
    client.call_with(&add);
    assert_eq!(after_power_loss(&disk, "SCARD set"), ":5000");
    client.check("SUNIONSTORE copy set => :5000");
    assert_eq!(after_power_loss(&disk, "SCARD copy"), ":5000");
    // What a client that has waited has taken.
    let mut waiting = host.client();
    waiting.send("BLMOVE from to LEFT LEFT 0");
    host.wait_for_blocked(1);
    client.send("RPUSH from x");
    assert_eq!(waiting.read().to_string(), "x");
    assert_eq!(after_power_loss(&disk, "LRANGE to 0 -1"), "[x]");
}

/// Many clients and pipelines share the syncs.
#[test]
fn syncs_are_shared() {
    let disk = SimFs::new(1);
    let host = Host::of(&Store::on(&disk), |config| config.durability = Durability::Power);
    std::thread::scope(|scope| {
        for number in 0..8 {
            let (mut client, disk) = (host.client(), &disk);
            scope.spawn(move || {
                for round in 1..=20 {
                    client.send_bytes(&encoded_line(&format!("INCR n{number}")).repeat(100));
                    (0..100).for_each(|_| drop(client.read()));
                    if round % 10 == 0 {
                        let found = after_power_loss(disk, &format!("GET n{number}")).parse::<i64>().unwrap();
                        assert!(found >= round * 100, "{found}");
                    }
                }
            });
        }
    });
}

#[test]
fn waitaof_waits_for_a_sync() {
    let disk = SimFs::new(1);
    let host = Host::of(&Store::on(&disk), |_| {});
    let mut client = host.client();
    client.check("SET a 1 => +OK\n WAITAOF 1 0 0 => [:1 :0]");
    assert_eq!(after_power_loss(&disk, "GET a"), "1");
    client.send_bytes(b"SET a 2\r\nWAITAOF 1 0 0\r\nSET a 3\r\nWAITAOF 0 0 0\r\nWAITAOF 1 0 10000\r\n");
    let replies: Vec<String> = (0..5).map(|_| client.read().to_string()).collect();
    assert_eq!(replies, ["+OK", "[:1 :0]", "+OK", "[:0 :0]", "[:1 :0]"]);
    assert_eq!(after_power_loss(&disk, "GET a"), "3");
    client.check(
        "WAITAOF 2 0 0 => -ERR value is out of range, value must between 0 and 1
        WAITAOF 1 0 -1 => -ERR timeout is negative
        WAITAOF 1 x 0 => -ERR value is not an integer or out of range",
    );
}

/// Also when another client's command in the pool ends between the write and the wait.
#[test]
fn waitaof_among_commands_of_the_pool() {
    let disk = SimFs::new(1);
    let host = Host::of(&Store::on(&disk), |_| {});
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let (mut other, is_over) = (host.client(), &is_over);
        scope.spawn(move || {
            let huge = vec![b'x'; 100_000];
            while !is_over.load(Ordering::Relaxed) {
                other.call_with(&[b"SET", &b"huge"[..], &huge]);
            }
        });
        let _at_end = SetAtEnd(is_over);
        let mut client = host.client();
        for round in 0..40 {
            client.check(&format!("SET a {round} => +OK\n WAITAOF 1 0 0 => [:1 :0]"));
            assert_eq!(after_power_loss(&disk, "GET a"), round.to_string());
        }
    });
}

#[test]
fn with_every_writes_are_durable_soon() {
    let disk = SimFs::new(1);
    let every = Durability::Every(Duration::from_millis(10));
    let host = Host::of(&Store::on(&disk), |config| config.durability = every);
    let mut client = host.client();
    for round in 0..5 {
        client.check(&format!("SET a {round} => +OK"));
        wait_until("the write is durable", || after_power_loss(&disk, "GET a") == round.to_string());
    }
}

#[test]
fn the_end_of_a_server_syncs() {
    let disk = SimFs::new(1);
    let host = Host::of(&Store::on(&disk), |_| {});
    host.client().check("SET a 1 => +OK");
    let _store = host.store.clone();
    host.end();
    assert_eq!(after_power_loss(&disk, "GET a"), "1");
}

/// The disk fails for good: no client is told that its writes are durable.
#[test]
fn a_disk_that_fails() {
    use esker::fs::sim::{Fault, Op};
    let disk = SimFs::new(1);
    let store = Store::on(&disk);
    let mut host = Host::of(&store, |config| config.durability = Durability::Power);
    let mut client = host.client();
    client.check("SET a 1 => +OK");
    disk.inject(Fault::new(Op::Sync, "").forever());
    client.send("SET a 2");
    // The connection ends, after an error or without one. If a sync in the background has failed first, it goes on.
    let reply = client.try_read();
    assert!(!matches!(&reply, Ok(Some(value)) if !value.is_error()), "{reply:?}");
    // Reads go on.
    let mut client = host.client();
    assert!(!client.call("GET a").is_error());
    assert!(client.call("SET a 3").is_error());
    host.expect_failure();
}
