//! How many clients there may be, how long they may idle, and how they are sent away.

use std::time::{Duration, Instant};

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
    assert!(slow.contains("[GET a]"), "{slow}");
}
