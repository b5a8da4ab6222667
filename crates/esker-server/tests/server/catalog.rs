//! What the server says of its commands: `COMMAND`, the `HELP` of commands with subcommands, and misuse of these.

use crate::client::Value;
use crate::host::Host;

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
