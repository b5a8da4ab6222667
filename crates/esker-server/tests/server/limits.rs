//! How many clients there may be, how long they may idle, and how they are sent away.

use std::time::{Duration, Instant};

use crate::client::{Client, Value, encoded, encoded_line};
use crate::host::{Host, Store, wait_until};

#[test]
fn the_most_clients() {
    let host = Host::of(&Store::in_memory(), |config| config.clients_max = 3);
    let mut clients: Vec<_> = (0..3).map(|_| host.client()).collect();
    clients.iter_mut().for_each(|client| client.check("PING => +PONG"));
    for _ in 0..5 {
        for mut refused in [host.client(), host.unix_client()] {
            let replies = refused.read_to_end();
            assert_eq!(replies.len(), 1);
            assert_eq!(replies[0].to_string(), "-ERR max number of clients reached");
        }
    }
    assert_eq!(clients[0].figure("rejected_connections"), 10);
    drop(clients.pop());
    wait_until("one has gone", || clients[0].figure("connected_clients") == 2);
    host.client().check("PING => +PONG");
    clients[0].check("CONFIG SET maxclients 4 => +OK");
    let mut more = host.client();
    more.check("PING => +PONG");
    clients[0].check("CONFIG SET maxclients 0 => -ERR CONFIG SET failed (possibly related to argument 'maxclients') - argument couldn't be parsed into an integer");
}

#[test]
fn clients_without_commands_are_sent_away() {
    let host = Host::of(&Store::in_memory(), |config| config.idle_s = 1);
    let (mut idle, mut listening, mut waiting) = (host.client(), host.client(), host.client());
    listening.check("SUBSCRIBE c => [subscribe c :1]");
    waiting.send("BLPOP k 0");
    let begin = Instant::now();
    idle.check("PING => +PONG");
    assert!(idle.is_closed());
    assert!(begin.elapsed() >= Duration::from_millis(900), "{:?}", begin.elapsed());
    // Those that wait for something are not idle.
    let mut client = host.client();
    client.check("PUBLISH c x => :1\n RPUSH k x => :1");
    assert_eq!(listening.read().to_string(), "[message c x]");
    assert_eq!(waiting.read().to_string(), "[k x]");
}

/// A command that another thread does ends with its client, and has written nothing; or it was done before.
#[test]
fn client_kill_ends_a_command_in_the_pool() {
    let host = Host::start();
    let mut client = host.client();
    client.fill_set("set", 20);
    let was_ended = (0..100).any(|_| {
        let mut victim = host.client();
        let id = victim.id();
        let before = client.figure("commands_in_pool");
        victim.send("SUNIONSTORE target set set");
        host.wait_for_pool(before);
        client.call(&format!("CLIENT KILL ID {id}"));
        victim.read_to_end();
        wait_until("it has ended", || client.figure("pool_running") == 0);
        let stored = client.call("SCARD target").to_string();
        assert!(stored == ":0" || stored == ":100000", "{stored}");
        client.call("DEL target");
        stored == ":0"
    });
    assert!(was_ended);
}

#[test]
fn client_kill() {
    let host = Host::start();
    let mut client = host.client();
    let own = client.id();
    let mut victims: Vec<_> = (0..4).map(|_| host.client()).collect();
    let ids: Vec<i64> = victims.iter_mut().map(crate::client::Client::id).collect();
    // One that does nothing, one that waits, one that listens, one that does not read.
    client.call_with(&[b"SET", &b"huge"[..], &vec![b'x'; 1 << 20]]);
    victims[1].send("BLPOP k 0");
    victims[2].check("SUBSCRIBE c => [subscribe c :1]");
    victims[3].send_bytes(&crate::client::encoded_line("GET huge").repeat(50));
    host.wait_for_blocked(1);
    for (victim, id) in victims.iter_mut().zip(&ids) {
        client.check(&format!("CLIENT KILL ID {id} => :1"));
        victim.read_to_end();
    }
    wait_until("they have gone", || client.figure("connected_clients") == 1);
    client.check(&format!(
        "CLIENT KILL ID {} => :0
        CLIENT KILL ID 0 => -ERR client-id should be greater than 0
        CLIENT KILL 1.2.3.4:5 => -ERR No such client
        CLIENT KILL ID {own} => :0
        CLIENT KILL TYPE x => -ERR Unknown client type 'x'
        CLIENT KILL ID => -ERR No such client
        CLIENT KILL ID 1 ADDR => -ERR syntax error
        RPUSH k x => :1
        PUBLISH c x => :0",
        ids[0]
    ));
    let (mut one, mut listening) = (host.client(), host.client());
    let text = one.call("CLIENT INFO").to_string();
    let address = text.split(' ').find_map(|part| part.strip_prefix("addr=")).unwrap().to_owned();
    listening.check("SUBSCRIBE c => [subscribe c :1]");
    client.check(&format!("CLIENT KILL {address} => +OK\n CLIENT KILL TYPE pubsub => :1"));
    assert!(one.is_closed() && listening.is_closed());
    client.check(&format!("CLIENT KILL ID {own} SKIPME no => :1"));
    assert!(client.is_closed());
}

#[test]
fn client_list() {
    let host = Host::start();
    let (mut client, mut other) = (host.client(), host.unix_client());
    client.check("CLIENT SETNAME me => +OK\n CLIENT SETINFO LIB-NAME lib => +OK\n SELECT 2 => +OK");
    client.check(
        "CLIENT SETNAME a\u{e9} => -ERR Client names cannot contain spaces, newlines or special characters.",
    );
    other.check("SUBSCRIBE c => [subscribe c :1]");
    let text = client.call("CLIENT LIST").to_string();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 2, "{text}");
    for part in [" name=me ", " db=2 ", " cmd=client ", " lib-name=lib ", " flags=N ", "addr=127.0.0.1:"] {
        assert!(lines[0].contains(part), "{part} of {text}");
    }
    for part in [" sub=1 ", " flags=P ", " cmd=subscribe ", "socket:0 "] {
        assert!(lines[1].contains(part), "{part} of {text}");
    }
}

/// Commands that run when the server is told to end do end, and their clients get the replies.
#[test]
fn the_server_ends_while_commands_run() {
    let mut host = Host::start();
    let huge = vec![b'x'; 8 << 20];
    let (mut client, mut idle) = (host.client(), host.client());
    client.call_with(&[b"SET", &b"huge"[..], &huge]);
    client.send_bytes(&crate::client::encoded_line("APPEND huge x").repeat(20));
    let begun = client.read().integer();
    assert_eq!(begun, (8 << 20) + 1);
    host.begin_to_end();
    assert!(idle.is_closed());
    let replies = client.read_to_end();
    assert!(replies.iter().zip(2..).all(|(reply, more)| reply.integer() == (8 << 20) + more));
    host.end();
}

#[test]
fn figures_of_the_server() {
    let host = Host::start();
    let mut client = host.client();
    client.check("CONFIG RESETSTAT => +OK\n SET a 1 => +OK\n GET a => 1\n GET a => 1");
    assert!(client.call("INCR").is_error() && client.call("LPUSH a x").is_error());
    let text = client.call("INFO commandstats").to_string();
    for part in
        ["cmdstat_get:calls=2,", "cmdstat_set:calls=1,", "cmdstat_incr:calls=0,", "cmdstat_lpush:calls=1,"]
    {
        assert!(text.contains(part), "{part} of {text}");
    }
    assert!(client.figure("total_error_replies") >= 2);
    client.check("CONFIG SET slowlog-log-slower-than 0 => +OK\n SLOWLOG RESET => +OK\n GET a => 1");
    let slow = client.call("SLOWLOG GET").to_string();
    assert!(slow.contains("[GET a]") && slow.contains("[SLOWLOG RESET]"), "{slow}");
}

/// The bytes of a command's beginning: `len` bytes of an argument that is longer.
fn beginning(len: usize) -> Vec<u8> {
    let mut bytes = b"*2\r\n$4\r\nECHO\r\n$100000000\r\n".to_vec();
    bytes.resize(bytes.len() + len, b'x');
    bytes
}

/// When all together take too much memory, the one that takes the most has to go, and is told why.
#[test]
fn the_memory_of_all_connections() {
    let host = Host::of(&Store::in_memory(), |config| config.clients_bytes_max = 8 << 20);
    let mut watching = host.client();
    let (mut large, mut small) = (host.client(), host.client());
    large.send_bytes(&beginning(6 << 20));
    wait_until("it is read", || watching.figure("mem_clients_normal") >= 6 << 20);
    small.send_bytes(&[&b"*2\r\n$4\r\nECHO\r\n$4000000\r\n"[..], &[b'y'; 3_000_000]].concat());
    let replies = large.read_to_end();
    assert_eq!(replies.len(), 1, "{replies:?}");
    assert!(replies[0].to_string().contains("take too much memory"), "{}", replies[0]);
    small.send_bytes(&[&[b'y'; 1_000_000][..], b"\r\n"].concat());
    assert_eq!(small.read().bytes().len(), 4_000_000);
    wait_until("the memory is free", || watching.figure("mem_clients_normal") < 100_000);
    assert_eq!(watching.figure("closed_memory_connections"), 1);
    // What waits for EXEC counts, and so does what is set later.
    watching.check("CONFIG SET maxmemory-clients 2mb => +OK\n CONFIG GET maxmemory-clients => [maxmemory-clients 2097152]");
    small.check("MULTI => +OK");
    let value = vec![b'x'; 100_000];
    for _ in 0..30 {
        // In the end, it is gone.
        let _ = small.try_send_bytes(&crate::client::encoded(&[b"SET", &b"k"[..], &value]));
    }
    let replies = small.read_to_end();
    assert!((15..25).contains(&replies.len()), "{}", replies.len());
    assert_eq!(watching.figure("closed_memory_connections"), 2);
    watching.check("EXISTS k => :0");
    // One that takes little stays, however often others go.
    for _ in 0..20 {
        let mut greedy = host.client();
        let _ = greedy.try_send_bytes(&beginning(3 << 20));
        greedy.read_to_end();
        watching.check("PING => +PONG");
    }
}

/// It does not read its replies for too long.
#[test]
fn a_client_that_does_not_read_is_disconnected() {
    let host = Host::of(&Store::in_memory(), |config| {
        config.send_s = 1;
        config.outbox_bytes_max = usize::MAX;
    });
    let (mut watching, mut deaf, mut silent) = (host.client(), host.unix_client(), host.client());
    silent.check("PING => +PONG");
    watching.call_with(&[b"SET", &b"huge"[..], &vec![b'x'; 1 << 20]]);
    deaf.send_bytes(&crate::client::encoded_line("GET huge").repeat(20));
    // Messages to it are no progress.
    let mut listening = host.unix_client();
    listening.check("SUBSCRIBE c => [subscribe c :1]");
    let message = vec![b'm'; 100_000];
    wait_until("they are sent away", || {
        watching.call_with(&[b"PUBLISH", &b"c"[..], &message]);
        watching.figure("closed_slow_reader_connections") == 2
    });
    assert!(deaf.read_bytes(20 << 20).len() < 20 << 20);
    silent.check("PING => +PONG");
    watching.check("CONFIG SET send-timeout 0 => +OK\n CONFIG GET send-timeout => [send-timeout 0]");
}

#[test]
fn limits_of_output_as_redis_sets_them() {
    let host = Host::start();
    let mut client = host.client();
    client.check(
        "CONFIG GET client-output-buffer-limit => [client-output-buffer-limit normal 0 0 0 slave 0 0 0 pubsub 33554432 0 0]",
    );
    let set = |value: &str| ["CONFIG", "SET", "client-output-buffer-limit", value].map(str::to_owned);
    for wrong in [
        "",
        "pubsub",
        "pubsub 1mb 1mb",
        "pubsub 1mb x 0",
        "other 0 0 0",
        "pubsub 1mb 0 0 normal 0",
        "normal 1 0 0",
        "replica 0 1mb 0",
        "pubsub 1mb 512kb 60",
    ] {
        assert!(client.call_with(&set(wrong)).is_error(), "{wrong}");
    }
    assert_eq!(client.call_with(&set("normal 0 0 0 pubsub 1mb 0 0")).to_string(), "+OK");
    let mut listening = host.unix_client();
    listening.check("SUBSCRIBE c => [subscribe c :1]");
    let message = vec![b'm'; 600_000];
    wait_until("it is sent away", || {
        client.call_with(&[b"PUBLISH", &b"c"[..], &message]);
        client.figure("closed_outbox_connections") == 1
    });
    assert_eq!(client.call_with(&set("pubsub 0 0 0")).to_string(), "+OK");
}

/// What has no effect here is kept, if Redis could keep it too.
#[test]
fn settings_without_effect_are_of_their_kind() {
    let host = Host::start();
    let mut client = host.client();
    for (name, good, bad) in [
        ("lazyfree-lazy-eviction", "yes", "maybe"),
        ("hash-max-listpack-entries", "128", "abc"),
        ("list-max-listpack-size", "-1", "-"),
        ("save", "3600 1 300 100", "abc"),
        ("save", "", "3600"),
    ] {
        assert!(client.call_with(&["CONFIG", "SET", name, bad]).is_error(), "{name} {bad}");
        assert_eq!(client.call_with(&["CONFIG", "SET", name, good]).to_string(), "+OK", "{name} {good}");
    }
}

#[test]
fn times_have_bounds() {
    let host = Host::of(&Store::in_memory(), |config| (config.idle_s, config.send_s) = (u64::MAX, u64::MAX));
    let mut client = host.client();
    for name in ["timeout", "send-timeout"] {
        for value in ["9223372036854775807", "18446744073709551615", "2147483648", "-1", "x"] {
            assert!(client.call(&format!("CONFIG SET {name} {value}")).is_error(), "{name} {value}");
        }
        client.check(&format!("CONFIG SET {name} 2147483647 => +OK"));
    }
    host.client().check("PING => +PONG");
    // A reply that does not fit into the socket at once.
    client.call_with(&[b"SET", &b"long"[..], &vec![b'x'; 900_000]]);
    client.send_bytes(&encoded_line("GET long").repeat(20));
    for _ in 0..20 {
        assert_eq!(client.read().bytes().len(), 900_000);
    }
}

/// What a client has the server remember counts as its memory, or has a bound.
#[test]
fn what_is_remembered_for_a_client_counts() {
    let host = Host::of(&Store::in_memory(), |config| config.clients_bytes_max = 8 << 20);
    let (mut watching, mut client) = (host.client(), host.client());
    let name = "n".repeat(1025);
    assert!(client.call(&format!("CLIENT SETNAME {name}")).is_error());
    assert!(client.call(&format!("CLIENT SETINFO LIB-NAME {name}")).is_error());
    client.check(&format!("CLIENT SETNAME {} => +OK", &name[1..]));
    let many = |line: &str| {
        let (command, name) = line.split_once(' ').unwrap_or((line, "name"));
        let words = (0..10_000).map(|number| format!("{name}{number}"));
        encoded(&std::iter::once(command.to_owned()).chain(words).collect::<Vec<_>>())
    };
    client.send_bytes(&many("WATCH"));
    assert_eq!(client.read().to_string(), "+OK");
    wait_until("they count", || watching.figure("mem_clients_normal") > 1 << 20);
    client.check("UNWATCH => +OK");
    wait_until("they are forgotten", || watching.figure("mem_clients_normal") < 100_000);
    client.send_bytes(&many("SUBSCRIBE"));
    (0..10_000).for_each(|_| drop(client.read()));
    wait_until("they count", || watching.figure("mem_clients_normal") > 1 << 20);
    client.send_bytes(&encoded_line("UNSUBSCRIBE"));
    (0..10_000).for_each(|_| drop(client.read()));
    wait_until("they are forgotten", || watching.figure("mem_clients_normal") < 100_000);
    // Too much of it is the end.
    let mut round = 0;
    wait_until("it is sent away", || {
        round += 1;
        let _ = client.try_send_bytes(&many(&format!("WATCH round{round}-")));
        watching.figure("closed_memory_connections") == 1
    });
}

/// However few members there are to repeat.
#[test]
fn long_replies_of_random_members_are_work_for_the_pool() {
    let host = Host::start();
    let mut client = host.client();
    client.check("HSET h f v => :1\n SADD s a => :1\n ZADD z 1 a => :1");
    for (number, command) in
        (1..).zip(["HRANDFIELD h -100000 WITHVALUES", "SRANDMEMBER s -100000", "ZRANDMEMBER z -100000"])
    {
        assert!(!client.call(command).is_error());
        assert_eq!(client.figure("commands_in_pool"), number, "{command}");
    }
    assert!(!client.call("SRANDMEMBER s -1000").is_error());
    assert_eq!(client.figure("commands_in_pool"), 3);
}

/// However few entries they have: the event loop copies a few MiB for one command.
#[test]
fn replies_of_many_bytes_are_work_for_the_pool() {
    let host = Host::start();
    let mut client = host.client();
    client.call_with(&[b"SET", &b"key"[..], &[b'x'; 6000]]);
    let in_pool = |client: &mut Client, count: usize| {
        let before = client.figure("commands_in_pool");
        assert!(!client.call(&format!("MGET{}", " key".repeat(count))).is_error());
        client.figure("commands_in_pool") - before
    };
    assert_eq!((in_pool(&mut client, 100), in_pool(&mut client, 900)), (0, 1));
    // In a transaction too, whose own value is read again and again.
    let value = "x".repeat(500_000);
    client.check("MULTI => +OK");
    client.call_with(&["SET", "own", &value]);
    (0..20).for_each(|_| client.check("GET own => +QUEUED"));
    let Value::Array(replies) = client.call("EXEC") else { panic!("no array") };
    assert!(replies.len() == 21 && replies[20].bytes() == value.as_bytes());
    assert_eq!(client.figure("commands_in_pool"), 2);
}
