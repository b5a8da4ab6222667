//! What the server says of its commands: `COMMAND`, the `HELP` of commands with subcommands, and misuse of these.

use esker_server::{Address, Password};

use crate::client::Value;
use crate::host::{Host, Store};

fn names(value: Value) -> Vec<String> {
    let Value::Array(names) = value else { panic!("no array: {value}") };
    names.iter().map(ToString::to_string).collect()
}

#[test]
fn commands_and_subcommands_have_names() {
    let host = Host::start();
    let mut client = host.client();
    let all = names(client.call("COMMAND LIST"));
    for name in ["get", "config", "config|get", "object|encoding", "cas"] {
        assert!(all.iter().any(|known| known == name), "{name}");
    }
    assert!(!all.iter().any(|known| known.ends_with("help") || known == "eval"));
    let by_pattern = names(client.call("COMMAND LIST FILTERBY PATTERN slowlog*"));
    assert_eq!(by_pattern, ["slowlog", "slowlog|get", "slowlog|len", "slowlog|reset", "slowlog|why"]);
    assert!(names(client.call("COMMAND LIST FILTERBY ACLCAT hash")).contains(&"hset".to_owned()));
    client.check(
        "COMMAND LIST FILTERBY MODULE json => []
        COMMAND LIST FILTERBY => -ERR syntax error
        COMMAND LIST all => -ERR syntax error
        COMMAND INFO nosuch config|nosuch get|x => [$-1 $-1 $-1]
        COMMAND INFO GET => [[get :2 [+readonly +fast] :1 :1 :1 [+@read +@string +@fast] [] [] []]]
        COMMAND INFO Config|Set => [[config|set :-4 [+admin] :0 :0 :0 [+@admin +@slow +@dangerous] [] [] []]]
        COMMAND DOCS nosuch => []
        COMMAND DOCS slowlog|len => [slowlog|len [summary Returns the number of slow commands that are kept group server]]
        COMMAND GETKEYS MSET a 1 b 2 => [a b]
        COMMAND GETKEYS PING => -ERR The command has no key arguments
        COMMAND GETKEYS nosuch => -ERR Invalid command specified",
    );
    assert!(client.call("COMMAND INFO publish").to_string().contains("+pubsub"));
    for (count, is_refused) in [(1024, false), (1025, true)] {
        let reply = client.call(&format!("COMMAND INFO{}", " client".repeat(count)));
        assert_eq!(reply.is_error(), is_refused, "{count} names");
    }
    let docs = client.call("COMMAND DOCS pubsub").to_string();
    assert!(docs.contains("subcommands [pubsub|channels [summary "), "{docs}");
}

#[test]
fn each_command_with_subcommands_has_help() {
    let host = Host::start();
    let mut client = host.client();
    for name in
        ["CLIENT", "COMMAND", "CONFIG", "FUNCTION", "LATENCY", "MEMORY", "OBJECT", "PUBSUB", "SLOWLOG"]
    {
        let lines = names(client.call(&format!("{name} HELP")));
        assert_eq!(lines[0], format!("+{name} <subcommand> [<arg> [value] [opt] ...]. Subcommands are:"));
        assert_eq!(lines[lines.len() - 1], "+    Prints this help.");
    }
}

#[test]
fn subcommands_are_checked_before_they_are_queued() {
    let host = Host::start();
    let mut client = host.client();
    client.check(
        "CLIENT => -ERR wrong number of arguments for 'client' command
        CLIENT NOSUCH => -ERR unknown subcommand 'NOSUCH'. Try CLIENT HELP.
        CLIENT UNBLOCK => -ERR wrong number of arguments for 'client|unblock' command
        CONFIG SET x => -ERR wrong number of arguments for 'config|set' command
        SLOWLOG RESET now => -ERR wrong number of arguments for 'slowlog|reset' command
        MEMORY USAGE => -ERR wrong number of arguments for 'memory|usage' command
        MULTI => +OK
        OBJECT SIZE k => -ERR unknown subcommand 'SIZE'. Try OBJECT HELP.
        EXEC => -EXECABORT Transaction discarded because of previous errors.",
    );
}

#[test]
fn settings_change_all_together_or_not_at_all() {
    let host = Host::start();
    let mut client = host.client();
    let because = |name| format!("-ERR CONFIG SET failed (possibly related to argument '{name}') -");
    let range = "argument must be between -1 and 9223372036854775807 inclusive";
    client.check(&format!(
        "CONFIG SET timeout 7 TIMEOUT 8 => {} duplicate parameter
        CONFIG SET timeout 7 slowlog-log-slower-than -2 => {} {range}
        CONFIG SET timeout 7 nosuch 1 => -ERR Unknown option or number of arguments for CONFIG SET - 'nosuch'
        CONFIG GET timeout => [timeout 0]
        CONFIG SET timeout 7 slowlog-log-slower-than -1 => +OK
        CONFIG GET timeout => [timeout 7]",
        because("TIMEOUT"),
        because("slowlog-log-slower-than")
    ));
}

/// What programs ask for when they connect, and what monitoring shows.
#[test]
fn settings_of_the_configuration_are_shown() {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("socket");
    let host = Host::of(&Store::in_memory(), |config| {
        config.resp = vec![Address::Tcp("127.0.0.1".to_owned(), 0), Address::Unix(socket.clone())];
        config.security.password = Some(Password::new(b"geheim").unwrap());
    });
    let Address::Tcp(_, port) = &host.addresses[0] else { panic!("no port") };
    let mut client = host.client();
    client.check(&format!(
        "AUTH geheim => +OK
        CONFIG GET port => [port {port}]
        CONFIG GET tls-port => [tls-port 0]
        CONFIG GET bind => [bind 127.0.0.1]
        CONFIG GET unixsocket => [unixsocket {}]
        CONFIG GET requirepass => [requirepass ]
        CONFIG GET tcp-keepalive => [tcp-keepalive 300]
        CONFIG GET hz => [hz 10]
        CONFIG GET cluster-enabled => [cluster-enabled no]
        CONFIG GET appendfsync => [appendfsync no]
        CONFIG GET maxmemory => [maxmemory 0]",
        socket.display()
    ));
    let level = client.call("CONFIG GET loglevel").to_string();
    assert!(
        ["nothing", "warning", "notice", "debug"].iter().any(|known| level.ends_with(&format!("{known}]"))),
        "{level}"
    );
    assert!(!client.call("CONFIG GET *").to_string().contains("geheim"));
}

/// A setting that is not kept is refused; what the server keeps anyway is taken.
#[test]
fn settings_that_are_not_kept_are_refused() {
    let host = Host::start();
    let mut client = host.client();
    let no_eviction = "there is no eviction here: data lies on disk, and no key goes to make room";
    let immutable = "can't set immutable config";
    for (name, value, refused) in [
        ("maxmemory", "100mb", Some(no_eviction)),
        ("maxmemory", "x", Some(no_eviction)),
        ("maxmemory", "0", None),
        ("maxmemory", "0mb", None),
        ("maxmemory-policy", "allkeys-lru", Some(no_eviction)),
        ("maxmemory-policy", "noeviction", None),
        ("appendonly", "no", Some(immutable)),
        ("appendonly", "yes", None),
        (
            "appendfsync",
            "always",
            Some("the durability of the configuration promises less: start the server with another one"),
        ),
        (
            "appendfsync",
            "everysec",
            Some("the durability of the configuration promises less: start the server with another one"),
        ),
        ("appendfsync", "no", None),
        ("appendfsync", "x", Some("argument(s) must be one of the following: everysec, always, no")),
        ("requirepass", "pw", Some("passwords belong to users: ACL SETUSER default >PASSWORD sets one")),
        ("port", "1", Some(immutable)),
        ("hz", "100", Some(immutable)),
        ("hz", "10", None),
        ("loglevel", "verbose", Some(immutable)),
        ("databases", "4", Some(immutable)),
        ("databases", "16", None),
    ] {
        let expected = refused.map_or("+OK".to_owned(), |why| {
            format!("-ERR CONFIG SET failed (possibly related to argument '{name}') - {why}")
        });
        assert_eq!(
            client.call(&format!("CONFIG SET {name} {value}")).to_string(),
            expected,
            "{name} {value}"
        );
    }
    client.check(
        "CONFIG GET maxmemory* => [maxmemory 0 maxmemory-clients 1073741824 maxmemory-policy noeviction]",
    );
}

/// Clients of clusters ask, and go on as with one server.
#[test]
fn cluster_support_is_disabled() {
    let host = Host::start();
    let mut client = host.client();
    let disabled = "-ERR This instance has cluster support disabled";
    client.check(&format!(
        "CLUSTER INFO => {disabled}
        cluster nodes => {disabled}
        CLUSTER SLOTS => {disabled}
        CLUSTER SHARDS => {disabled}
        CLUSTER KEYSLOT a => {disabled}
        CLUSTER HELP => {disabled}
        CLUSTER => -ERR wrong number of arguments for 'cluster' command
        READONLY => {disabled}
        READWRITE => {disabled}
        ASKING => {disabled}
        MULTI => +OK
        CLUSTER INFO => +QUEUED
        EXEC => [{disabled}]"
    ));
}
