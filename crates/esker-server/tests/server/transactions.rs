//! `MULTI`, `EXEC` and `DISCARD`.

use crate::client::{Client, Value, encoded, encoded_lines};
use crate::host::Host;

#[test]
fn commands_are_queued_and_done() {
    let host = Host::start();
    let mut client = host.client();
    client.check(
        "EXEC => -ERR EXEC without MULTI
        DISCARD => -ERR DISCARD without MULTI
        MULTI => +OK
        SET a 1 => +QUEUED
        INCR a => +QUEUED
        GET a => +QUEUED
        PING => +QUEUED
        MULTI => -ERR MULTI calls can not be nested
        EXEC => [+OK :2 2 +PONG]
        GET a => 2
        MULTI => +OK
        INCR a => +QUEUED
        DISCARD => +OK
        GET a => 2
        MULTI => +OK
        EXEC => []",
    );
}

#[test]
fn errors_while_queueing_break_a_transaction_and_later_ones_do_not() {
    let host = Host::start();
    let mut client = host.client();
    for wrong in ["NOSUCH x", "GET", "SET a"] {
        client.check("MULTI => +OK\n SET a 1 => +QUEUED");
        assert!(client.call(wrong).is_error());
        client.check(
            "SET b 1 => +QUEUED
            EXEC => -EXECABORT Transaction discarded because of previous errors.
            EXISTS a b => :0
            EXEC => -ERR EXEC without MULTI",
        );
    }
    client.check(
        "SET text x => +OK
        MULTI => +OK
        SET a 1 => +QUEUED
        INCR text => +QUEUED
        LPUSH text y => +QUEUED
        SELECT 99 => +QUEUED
        SET b 2 => +QUEUED
        EXEC => [+OK -ERR value is not an integer or out of range \
         -WRONGTYPE Operation against a key holding the wrong kind of value -ERR DB index is out of range +OK]
        MGET a b text => [1 2 x]",
    );
}

#[test]
fn select_within_a_transaction() {
    let host = Host::start();
    let mut client = host.client();
    client.check(
        "SET k 0 => +OK
        MULTI => +OK
        SELECT 5 => +QUEUED
        SET k 5 => +QUEUED
        SELECT 6 => +QUEUED
        SET k 6 => +QUEUED
        GET k => +QUEUED
        EXEC => [+OK +OK +OK +OK 6]
        GET k => 6
        SELECT 5 => +OK
        GET k => 5
        SELECT 0 => +OK
        GET k => 0
        MULTI => +OK
        SELECT 5 => +QUEUED
        DISCARD => +OK
        GET k => 0
        MULTI => +OK
        FLUSHDB => +QUEUED
        SET a 1 => +QUEUED
        DBSIZE => +QUEUED
        EXEC => [+OK +OK :1]
        GET k => $-1
        MULTI => +OK
        FLUSHALL => +QUEUED
        SELECT 5 => +QUEUED
        EXISTS k => +QUEUED
        SET b 1 => +QUEUED
        EXEC => [+OK +OK :0 +OK]
        KEYS * => [b]",
    );
}

/// Nothing waits in a transaction.
#[test]
fn blocking_commands_within_a_transaction() {
    let host = Host::start();
    let mut client = host.client();
    client.check(
        "RPUSH list a b => :2
        MULTI => +OK
        BLPOP none 0 => +QUEUED
        BLMOVE none list LEFT LEFT 0 => +QUEUED
        BRPOPLPUSH none list 0 => +QUEUED
        BLMPOP 0 1 none LEFT => +QUEUED
        BZPOPMIN none 0 => +QUEUED
        BLPOP list 0 => +QUEUED
        BLMPOP 0 2 none list RIGHT => +QUEUED
        BLPOP list x => +QUEUED
        WAIT 1 0 => +QUEUED
        EXEC => [*-1 $-1 $-1 *-1 *-1 [list a] [list [b]] -ERR timeout is not a float or out of range :0]
        EXISTS list => :0",
    );
}

/// The whole transaction goes to the pool when one of its commands does.
#[test]
fn a_transaction_that_needs_the_pool() {
    let host = Host::start();
    let mut client = host.client();
    let huge = vec![b'x'; 1 << 20];
    let members: Vec<String> = (0..5000).map(|member| member.to_string()).collect();
    let add: Vec<&[u8]> =
        [&b"SADD"[..], b"set"].into_iter().chain(members.iter().map(String::as_bytes)).collect();
    for round in 1..=3 {
        client.check("MULTI => +OK\n INCR count => +QUEUED");
        assert_eq!(client.call_with(&[b"SET", &b"huge"[..], &huge]).to_string(), "+QUEUED");
        assert_eq!(client.call_with(&add).to_string(), "+QUEUED");
        client.check(
            "STRLEN huge => +QUEUED
            SMEMBERS set => +QUEUED
            SELECT 1 => +QUEUED
            INCR count => +QUEUED
            BLPOP none 0 => +QUEUED
            SUNIONSTORE copy set => +QUEUED
            CLIENT GETNAME => +QUEUED
            SELECT 0 => +QUEUED
            PUBLISH c m => +QUEUED",
        );
        let Value::Array(replies) = client.call("EXEC") else { panic!("no replies") };
        let texts: Vec<String> = replies.iter().map(Value::to_string).collect();
        assert_eq!(texts[0], format!(":{round}"));
        assert_eq!(texts[1], "+OK");
        assert_eq!(replies[2].integer(), if round == 1 { 5000 } else { 0 });
        assert_eq!(replies[3].integer(), 1 << 20);
        assert!(matches!(&replies[4], Value::Array(members) if members.len() == 5000));
        assert_eq!(texts[5..].join(" "), format!("+OK :{round} *-1 :0 $-1 +OK :0"));
    }
    assert!(host.client().figure("commands_in_pool") > 0 || client.calls_of("exec") == 3);
}

#[test]
fn exec_with_arguments_ends_the_transaction() {
    let host = Host::start();
    let mut client = host.client();
    client.check(
        "MULTI => +OK
        EXEC x => -EXECABORT Transaction discarded because of: wrong number of arguments for 'exec' command
        EXEC => -ERR EXEC without MULTI",
    );
}

/// Also where the commit is work for the pool: the database has no trees, or the value goes to a file.
#[test]
fn what_a_transaction_tells_is_committed() {
    let host = Host::start();
    let (mut client, mut listener) = (host.client(), host.client());
    listener.send("SUBSCRIBE c");
    listener.read();
    client.check(
        "SELECT 3 => +OK\n MULTI => +OK\n SET a 1 => +QUEUED\n PUBLISH c first => +QUEUED\n WAIT 0 0 => +QUEUED
         EXEC => [+OK :1 :0]\n GET a => 1",
    );
    assert_eq!(listener.read().to_string(), "[message c first]");
    let huge = vec![b'x'; 100 << 10];
    client.check("MULTI => +OK");
    assert_eq!(client.call_with(&[b"SET", &b"huge"[..], &huge]).to_string(), "+QUEUED");
    client.check("PUBLISH c second => +QUEUED\n EXEC => [+OK :1]\n STRLEN huge => :102400");
    assert_eq!(listener.read().to_string(), "[message c second]");
}

#[test]
fn messages_come_behind_the_reply_of_exec() {
    let host = Host::start();
    let mut client = host.client();
    client.check("MULTI => +OK\n SUBSCRIBE a => +QUEUED\n PUBLISH a x => +QUEUED\n SUBSCRIBE b => +QUEUED");
    client.check("EXEC => [[subscribe a :1] :1 [subscribe b :2]]");
    assert_eq!(client.read().to_string(), "[message a x]");
}

/// What takes long is done elsewhere, however short the command is.
#[test]
fn large_values_are_made_in_the_pool() {
    let host = Host::start();
    let mut client = host.client();
    let value = vec![b'x'; 100_000];
    let mut in_pool = 0;
    let mut went_there = |client: &mut Client, what: &str| {
        let before = std::mem::replace(&mut in_pool, client.figure("commands_in_pool"));
        assert!(in_pool > before, "{what}");
    };
    client.check("SETBIT bits 80000000 1 => :0\n STRLEN bits => :10000001");
    went_there(&mut client, "SETBIT");
    client.check("SETRANGE range 2000000 x => :2000001");
    went_there(&mut client, "SETRANGE");
    client.check("MULTI => +OK");
    for _ in 0..30 {
        assert_eq!(client.call_with(&[b"APPEND", &b"a"[..], &value]).to_string(), "+QUEUED");
    }
    let Value::Array(replies) = client.call("EXEC") else { panic!("no replies") };
    assert_eq!(replies[29].integer(), 3_000_000);
    went_there(&mut client, "EXEC with large values");
    // Each value counts only until the next one takes its place: these would be 1.6 GB together.
    client.check("MULTI => +OK");
    (0..160).for_each(|_| client.check("SETRANGE a 10000000 x => +QUEUED"));
    let Value::Array(replies) = client.call("EXEC") else { panic!("it is refused") };
    assert_eq!(replies[159].integer(), 10_000_001);
    went_there(&mut client, "EXEC that writes a value again and again");
    let many: Vec<String> = (0..3000).map(|number| number.to_string()).collect();
    let line = [&["RPUSH".to_owned(), "list".to_owned()][..], &many].concat();
    assert_eq!(client.call_with(&line).integer(), 3000);
    went_there(&mut client, "many arguments");
    client.check("MULTI => +OK");
    (0..4).for_each(|_| client.check("LRANGE list 0 600 => +QUEUED"));
    let Value::Array(replies) = client.call("EXEC") else { panic!("no replies") };
    assert!(replies.iter().all(|reply| matches!(reply, Value::Array(elements) if elements.len() == 601)));
    went_there(&mut client, "EXEC with long walks");
    let words = std::iter::repeat_n("SUBSCRIBE", (1 << 14) + 1).collect::<Vec<_>>();
    assert!(client.call_with(&words).is_error());
}

/// A huge transaction is queued, done, and seen by others at once.
#[test]
fn a_long_transaction() {
    let host = Host::start();
    let mut client = host.client();
    let mut bytes = b"MULTI\r\n".to_vec();
    for number in 0..20_000 {
        bytes.extend(encoded(&["SET".to_owned(), format!("k{number}"), number.to_string()]));
    }
    bytes.extend(b"EXEC\r\n");
    let mut writer = client.writer();
    let sender = std::thread::spawn(move || writer.send_bytes(&bytes));
    assert_eq!(client.read().to_string(), "+OK");
    let mut other = host.client();
    for _ in 0..20_000 {
        assert_eq!(client.read().to_string(), "+QUEUED");
    }
    let Value::Array(replies) = client.read() else { panic!("no replies") };
    assert_eq!(replies.len(), 20_000);
    sender.join().unwrap();
    other.check("DBSIZE => :20000");
}

#[test]
fn what_others_see_of_a_transaction() {
    let host = Host::start();
    let (mut client, mut other) = (host.client(), host.client());
    client.check("MULTI => +OK\n SET a 1 => +QUEUED\n SET b 1 => +QUEUED");
    other.check("EXISTS a b => :0\n SET a 7 => +OK");
    assert!(other.call("CLIENT LIST").to_string().contains(" multi=2 "));
    client.check("EXEC => [+OK +OK]");
    other.check("MGET a b => [1 1]");
    // A client that goes takes its transaction with it.
    client.check("MULTI => +OK\n SET a 9 => +QUEUED");
    drop(client);
    crate::host::wait_until("it has gone", || other.figure("connected_clients") == 1);
    other.check("GET a => 1");
}

/// Of two transactions that ask for the number of keys and write one, one sees the other.
#[test]
fn transactions_about_a_whole_database_are_one_step_too() {
    let host = Host::start();
    let mut client = host.client();
    for chunk in 0..4 {
        let pairs: String = (0..1000).map(|key| format!(" k{chunk}-{key} v")).collect();
        client.call(&format!("MSET{pairs}"));
    }
    let mut clients = [host.client(), host.client()];
    let before = client.figure("commands_in_pool");
    for round in 0..50 {
        for (number, client) in clients.iter_mut().enumerate() {
            let set = format!("SET new{number}-{round} v");
            let lines = ["MULTI", "DBSIZE", &set, "EXEC"];
            client.send_bytes(&encoded_lines(&lines));
        }
        let sizes = clients.each_mut().map(|client| {
            (0..3).for_each(|_| drop(client.read()));
            client.read().to_string()
        });
        assert_ne!(sizes[0], sizes[1], "round {round}");
    }
    assert!(client.figure("commands_in_pool") > before, "the test is about nothing");
}
