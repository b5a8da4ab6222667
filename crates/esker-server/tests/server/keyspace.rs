//! `INFO keyspace`: how many keys each database has, how many of them expire, and when.

use tempfile::tempdir;

use crate::client::Client;
use crate::host::{Host, Store, wait_until};

/// What `INFO keyspace` shows of a database: its keys, those that expire, and the time that these have left.
fn figures(client: &mut Client, database: u16) -> (u64, u64, u64) {
    let text = client.call("INFO keyspace").to_string();
    let Some(line) = text.lines().find_map(|line| line.strip_prefix(&format!("db{database}:"))) else {
        return (0, 0, 0);
    };
    let mut numbers = line.trim().split(',').map(|field| field.split_once('=').unwrap().1.parse().unwrap());
    (numbers.next().unwrap(), numbers.next().unwrap(), numbers.next().unwrap())
}

/// Sends commands, a thousand together.
fn send_all(client: &mut Client, commands: impl Iterator<Item = String>) {
    let mut waiting = 0;
    let settle = |client: &mut Client, waiting: &mut usize| {
        (0..std::mem::take(waiting)).for_each(|_| assert!(!client.read().is_error()));
    };
    for command in commands {
        client.send(&command);
        waiting += 1;
        if waiting == 1000 {
            settle(client, &mut waiting);
        }
    }
    settle(client, &mut waiting);
}

fn is_near(found: u64, expected: u64) -> bool {
    found.abs_diff(expected) * 20 <= expected
}

fn check_near(found: u64, expected: u64, what: &str) {
    assert!(is_near(found, expected), "{what}: {found}, not about {expected}");
}

#[test]
fn few_keys_are_counted_exactly() {
    let dir = tempdir().unwrap();
    let store = Store::at(&dir);
    let host = Host::of(&store, |_| {});
    let mut client = host.client();
    assert_eq!(client.call("INFO keyspace").to_string().trim(), "# Keyspace");
    // Each is written several times, as different types, and some go or expire.
    send_all(&mut client, (0..10_000).map(|key| format!("SET k{key} v")));
    send_all(&mut client, (0..5000).map(|key| format!("SET k{key} w EX {}", 1000 + key)));
    send_all(&mut client, (0..1000).map(|key| format!("DEL k{}", key * 7)));
    send_all(&mut client, (0..1000).map(|key| format!("RPUSH l{key} a b")));
    send_all(&mut client, (0..1000).map(|key| format!("PEXPIRE k{} 1", 9000 + key)));
    send_all(&mut client, (0..100).map(|key| format!("LPOP l{key} 2")));
    client.check("SELECT 3 => +OK\n HSET h a 1 b 2 => :2\n RENAME h g => +OK\n SELECT 0 => +OK");
    client.check("MULTI => +OK\n SET new 1 => +QUEUED\n DEL new => +QUEUED\n EXEC => [+OK :1]");
    let (keys, expires, left_ms) = loop {
        let found = figures(&mut client, 0);
        if i64::try_from(found.0).unwrap() == client.call("DBSIZE").integer()
            && client.call("EXISTS k9999").integer() == 0
        {
            break found;
        }
    };
    let deleted = (0..1000).map(|key| key * 7).filter(|key| *key < 9000).count() as u64;
    let deleted_expiring = (0..1000).map(|key| key * 7).filter(|key| *key < 5000).count() as u64;
    assert_eq!((keys, expires), (10_000 - deleted - 1000 + 900, 5000 - deleted_expiring));
    check_near(left_ms, 3_500_000, "avg_ttl");
    assert_eq!(figures(&mut client, 3), (1, 0, 0));
    assert_eq!(client.figure("expired_keys"), 1000);
    // The next server finds the same.
    host.end();
    let host = Host::of(&store, |_| {});
    let mut client = host.client();
    client.check("SET another 1 => +OK\n DEL k1 => :1");
    assert_eq!(figures(&mut client, 0).0, keys);
    assert_eq!(figures(&mut client, 3), (1, 0, 0));
    client.check("FLUSHALL => +OK");
    assert_eq!((figures(&mut client, 0), figures(&mut client, 3)), ((0, 0, 0), (0, 0, 0)));
    client.check("SET a 1 => +OK");
    assert_eq!(figures(&mut client, 0), (1, 0, 0));
}

#[test]
fn many_keys_are_counted_within_some_per_cent() {
    const KEYS: u64 = 120_000;
    let store = Store::in_memory();
    let host = Host::of(&store, |_| {});
    let mut client = host.client();
    let mset = |from: u64| (from..from + 100).fold("MSET".to_owned(), |all, key| format!("{all} k{key} v"));
    let fill = |client: &mut Client| send_all(client, (0..KEYS / 100).map(|from| mset(from * 100)));
    // Twice: the second time overwrites.
    (0..2).for_each(|_| fill(&mut client));
    check_near(figures(&mut client, 0).0, KEYS, "keys");
    // A few that expire are exact.
    let expire = |client: &mut Client| {
        send_all(client, (0..1000).map(|key| format!("EXPIRE k{} 1000", key * 100)));
    };
    expire(&mut client);
    let (keys, expires, left_ms) = figures(&mut client, 0);
    check_near(keys, KEYS, "keys");
    assert_eq!(expires, 1000);
    check_near(left_ms, 1_000_000, "avg_ttl");
    // Of many, few are left: the server looks, and these are exact again.
    let del = |from: u64| (from..from + 100).fold("DEL".to_owned(), |all, key| format!("{all} k{key}"));
    send_all(&mut client, (50..KEYS / 100).map(|from| del(from * 100)));
    wait_until("few keys are counted", || {
        let (keys, expires, _) = figures(&mut client, 0);
        (keys, expires) == (5000, 50)
    });
    assert_eq!(client.call("DBSIZE").integer(), 5000);
    // Another server has to look too. Until it has, it tells about how many entries there are.
    fill(&mut client);
    expire(&mut client);
    host.end();
    let host = Host::of(&store, |_| {});
    let mut client = host.client();
    wait_until("many keys are counted", || {
        let (keys, expires, _) = figures(&mut client, 0);
        is_near(keys, KEYS) && expires == 1000
    });
    client.check("FLUSHDB => +OK");
    assert_eq!(figures(&mut client, 0), (0, 0, 0));
    // What a transaction asks for does not wait.
    client.check("SET a 1 => +OK\n MULTI => +OK\n INFO keyspace => +QUEUED");
    assert!(client.call("EXEC").to_string().contains("db0:keys=1,expires=0,avg_ttl=0"));
}
