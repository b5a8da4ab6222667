//! The two versions of the protocol, and inline commands.

use crate::client::Value;
use crate::host::Host;

#[test]
fn replies_in_version_2() {
    let host = Host::start();
    let mut client = host.client();
    client.check(
        "PING => +PONG
        PING hello => hello
        SET s 1 => +OK
        GET s => 1
        GET none => $-1
        HSET h a 1 b 2 => :2
        HGETALL h => [a 1 b 2]
        SADD set x => :1
        SMEMBERS set => [x]
        ZADD z 1.5 m => :1
        ZSCORE z m => 1.5
        ZSCORE z none => $-1
        ZRANGE z 0 -1 WITHSCORES => [m 1.5]
        BLPOP none 0.01 => *-1
        INCR h => -WRONGTYPE Operation against a key holding the wrong kind of value
        NOSUCH a b => -ERR unknown command 'NOSUCH', with args beginning with: 'a' 'b'
        GET => -ERR wrong number of arguments for 'get' command
        CONFIG GET timeout => [timeout 0]
        SELECT 16 => -ERR DB index is out of range
        SUBSCRIBE c => [subscribe c :1]
        UNSUBSCRIBE => [unsubscribe c :0]",
    );
}

#[test]
fn replies_in_version_3() {
    let host = Host::start();
    let mut client = host.client();
    let Value::Map(hello) = client.call("HELLO 3") else { panic!("no map") };
    let of = |name: &str| hello.iter().find(|(key, _)| key.to_string() == name).unwrap().1.to_string();
    for (name, value) in [("server", "redis"), ("proto", ":3"), ("mode", "standalone"), ("role", "master")] {
        assert_eq!(of(name), value, "{name}");
    }
    client.check(
        "GET none => null
        HSET h a 1 b 2 => :2
        HGETALL h => %[a=1 b=2]
        SADD set x => :1
        SMEMBERS set => ~[x]
        ZADD z 1.5 m => :1
        ZSCORE z m => ,1.5
        ZSCORE z none => null
        ZRANGE z 0 -1 WITHSCORES => [[m ,1.5]]
        BLPOP none 0.01 => null
        CONFIG GET timeout => %[timeout=0]
        MULTI => +OK
        HGETALL h => +QUEUED
        EXEC => [%[a=1 b=2]]
        SUBSCRIBE c => >[subscribe c :1]
        GET none => null
        UNSUBSCRIBE c => >[unsubscribe c :0]",
    );
    assert!(matches!(client.call("INFO server"), Value::Verbatim(text) if text.starts_with("txt:# Server")));
    // And back.
    assert!(matches!(client.call("HELLO 2"), Value::Array(fields) if fields.len() == 14));
    client.check("HGETALL h => [a 1 b 2]");
}

#[test]
fn hello_and_reset() {
    let host = Host::start();
    let mut client = host.client();
    client.check(
        "HELLO 4 => -NOPROTO unsupported protocol version
        HELLO x => -ERR Protocol version is not an integer or out of range
        HELLO 3 SETNAME => -ERR Syntax error in HELLO option 'SETNAME'
        HELLO 3 AUTH nobody x => -WRONGPASS invalid username-password pair or user is disabled.
        CLIENT GETNAME => $-1",
    );
    assert!(matches!(client.call("HELLO 3 AUTH default x SETNAME me"), Value::Map(_)));
    client.check(
        "CLIENT GETNAME => me
        SELECT 3 => +OK
        SUBSCRIBE c => >[subscribe c :1]
        MULTI => +OK
        RESET => +RESET
        CLIENT GETNAME => $-1
        EXEC => -ERR EXEC without MULTI
        PUBLISH c m => :0",
    );
    let described = client.call("CLIENT INFO").to_string();
    for part in [" db=0 ", " resp=2 ", " sub=0 ", " multi=-1 "] {
        assert!(described.contains(part), "{part} of {described}");
    }
}

#[test]
fn inline_commands() {
    let host = Host::start();
    let mut client = host.client();
    for (line, reply) in [
        ("PING\r\n", "+PONG"),
        ("PING\n", "+PONG"),
        ("  set  k   v  \r\n", "+OK"),
        ("get k\r\n", "v"),
        ("SET \"a b\" 'c d'\r\n", "+OK"),
        ("GET \"a\\x20b\"\r\n", "c d"),
        ("SET k \"\"\r\n", "+OK"),
        ("STRLEN k\r\n", ":0"),
        // Empty lines are no commands.
        ("\r\n\r\n\nPING x\r\n", "x"),
        ("*0\r\nPING y\r\n", "y"),
        ("*-1\r\nPING z\r\n", "z"),
    ] {
        client.send_bytes(line.as_bytes());
        assert_eq!(client.read().to_string(), reply, "{line:?}");
    }
}

#[test]
fn quit_answers_and_closes_and_does_nothing_behind_it() {
    let host = Host::start();
    let mut client = host.client();
    client.send_bytes(b"SET a 1\r\nQUIT\r\nSET a 2\r\n");
    let replies: Vec<String> = client.read_to_end().iter().map(Value::to_string).collect();
    assert_eq!(replies, ["+OK", "+OK"]);
    host.client().check("GET a => 1");
}

#[test]
fn client_reply_off_and_skip() {
    let host = Host::start();
    let mut client = host.client();
    client.send_bytes(b"CLIENT REPLY SKIP\r\nSET a 1\r\nGET a\r\n");
    assert_eq!(client.read().to_string(), "1");
    client.send_bytes(b"CLIENT REPLY SKIP\r\nCLIENT REPLY SKIP\r\nPING\r\nECHO b\r\n");
    assert_eq!(client.read().to_string(), "b");
    // Errors of commands about channels are replies, what tells of subscriptions is none.
    client.send_bytes(b"CLIENT REPLY SKIP\r\nSUBSCRIBE\r\nECHO c\r\n");
    assert_eq!(client.read().to_string(), "c");
    client.send_bytes(b"CLIENT REPLY SKIP\r\nUNSUBSCRIBE d\r\nECHO e\r\n");
    assert_eq!(client.read().to_string(), "[unsubscribe d :0]");
    assert_eq!(client.read().to_string(), "e");
    // Errors and QUEUED are replies too.
    client.send_bytes(b"CLIENT REPLY OFF\r\nSET a 2\r\nNOSUCH\r\nGET\r\nMULTI\r\nINCR a\r\nEXEC\r\nPING\r\n");
    client.send_bytes(b"CLIENT REPLY ON\r\nGET a\r\n");
    assert_eq!(client.read().to_string(), "+OK");
    assert_eq!(client.read().to_string(), "3");
}

#[test]
fn binary_keys_and_values() {
    let host = Host::start();
    let mut client = host.client();
    let all: Vec<u8> = (0..=255).collect();
    for key in [&b""[..], b"\0", b"\0\0", b"\0\x01", b"\r\n", b"\0\xff\0\x01", &all] {
        assert_eq!(client.call_with(&[b"SET", key, &all]).to_string(), "+OK");
        assert_eq!(client.call_with(&[b"GET", key]).bytes(), &all[..]);
        let set = [key, b":set"].concat();
        for member in 0..200_u8 {
            assert_eq!(client.call_with(&[b"SADD", &set[..], &[member, 0, 255, 0, 1]]).integer(), 1);
        }
        assert_eq!(client.call_with(&[b"SCARD", &set[..]]).integer(), 200);
        assert_eq!(client.call_with(&[b"SISMEMBER", &set[..], &[77, 0, 255, 0, 1]]).integer(), 1);
    }
}
