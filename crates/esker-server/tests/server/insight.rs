//! `SLOWLOG` and `LATENCY`: what was slow, and why.

use esker_server::Durability;
use tempfile::tempdir;

use crate::client::{Client, Value, encoded_line};
use crate::host::{Host, Store, wait_until};

/// The figures of the last slow command `command`, by `SLOWLOG WHY`.
fn why(client: &mut Client, command: &str) -> Vec<(String, String)> {
    let Value::Array(all) = client.call("SLOWLOG WHY -1") else { panic!("no array") };
    let mut maps = all.into_iter().map(|slow| {
        let Value::Map(pairs) = slow else { panic!("{slow}") };
        pairs.into_iter().map(|(name, value)| (name.to_string(), value.to_string())).collect::<Vec<_>>()
    });
    let is_of = |pairs: &Vec<(String, String)>| pairs.contains(&("command".to_owned(), command.to_owned()));
    maps.find(is_of).unwrap_or_else(|| panic!("{command} was not slow"))
}

fn figure(pairs: &[(String, String)], name: &str) -> String {
    let pair = pairs.iter().find(|(found, _)| found == name);
    let (_, figure) = pair.unwrap_or_else(|| panic!("no {name} in {pairs:?}"));
    figure.trim_start_matches(':').to_owned()
}

#[test]
fn slow_commands_say_why() {
    let dir = tempdir().unwrap();
    let store = Store::at(&dir);
    let host = Host::of(&store, |config| config.slow_us = 0);
    let mut client = host.client3();
    client.check("SET a 1 => +OK\n GET a => 1");
    assert_eq!(figure(&why(&mut client, "get"), "pool"), "no");
    // A walk over more entries than the event loop passes.
    let keys: Vec<String> = (0..1500).map(|key| format!("key{key}")).collect();
    let pairs = keys.iter().flat_map(|key| [key.as_str(), "v"]);
    client.call_with(&["MSET"].into_iter().chain(pairs).collect::<Vec<_>>());
    assert!(matches!(client.call("KEYS key*"), Value::Array(found) if found.len() == 1500));
    let slow = why(&mut client, "keys");
    assert_eq!(figure(&slow, "pool"), "walk");
    assert_ne!(figure(&slow, "evaluated_in_pool_us"), "0");
    // A table that is read.
    let huge = vec![b'x'; 1 << 20];
    client.call_with(&[b"SET", &b"huge"[..], &huge]);
    store.db.flush().unwrap();
    store.db.clear_cache();
    assert_eq!(client.call("GET huge").bytes().len(), huge.len());
    let slow = why(&mut client, "get");
    assert_eq!(figure(&slow, "pool"), "file");
    assert!(figure(&slow, "file_reads") != "0" && figure(&slow, "file_bytes") != "0", "{slow:?}");
    // A write in the pool.
    assert_eq!(client.call_with(&[b"APPEND", &b"huge"[..], b"y"]).integer(), (1 << 20) + 1);
    assert_ne!(figure(&why(&mut client, "append"), "committed_in_pool_us"), "0");
    // A password that is computed.
    client.check("ACL SETUSER u on >p => +OK\n AUTH u wrong => -WRONGPASS invalid username-password pair or user is disabled.");
    for command in ["acl", "auth"] {
        let slow = why(&mut client, command);
        assert_eq!(figure(&slow, "pool"), "password");
        assert_ne!(figure(&slow, "evaluated_in_pool_us"), "0");
    }
    // As Redis tells it.
    client.check("CONFIG GET nosuch => %[]\n CONFIG SET slowlog-log-slower-than -1 => +OK");
    let Value::Array(slow) = client.call("SLOWLOG GET 1") else { panic!("no array") };
    let Value::Array(fields) = &slow[0] else { panic!("{}", slow[0]) };
    assert_eq!((fields.len(), fields[3].to_string().as_str()), (6, "[CONFIG GET nosuch]"));
    client.check("SLOWLOG RESET => +OK\n SLOWLOG WHY => []\n SLOWLOG LEN => :0");
    client.check("SLOWLOG WHY x => -ERR count should be greater than or equal to -1");
}

/// Commands with the same key, of which one is in the pool.
#[test]
fn waits_for_keys_are_told() {
    let host = Host::of(&Store::in_memory(), |config| config.slow_us = 0);
    let mut client = host.client3();
    client.call_with(&[b"SET", &b"huge"[..], &vec![b'x'; 4 << 20]]);
    let mut others: Vec<Client> = (0..3).map(|_| host.client()).collect();
    wait_until("a command waits for a key", || {
        others.iter_mut().for_each(|other| other.send("APPEND huge x"));
        others.iter_mut().for_each(|other| drop(other.read()));
        client.figure("key_wait_usec") > 0
    });
    let Value::Array(all) = client.call("SLOWLOG WHY -1") else { panic!("no array") };
    let waited = |slow: &Value| {
        slow.to_string().contains("command=append") && !slow.to_string().contains("waited_for_keys_us=:0 ")
    };
    assert!(all.iter().any(waited), "{all:?}");
}

#[test]
fn secrets_and_values_stay_out_of_the_slow_log() {
    let host = Host::of(&Store::in_memory(), |config| config.slow_us = 0);
    let mut client = host.client();
    client.check("AUTH default geheim1 => +OK\n MULTI => +OK\n SET k v => +QUEUED\n EXEC => [+OK]");
    client.call("HELLO 2 AUTH default geheim2");
    let slow = client.call("SLOWLOG GET -1").to_string();
    assert!(
        slow.contains("[AUTH (redacted) (redacted)]")
            && slow.contains("[HELLO 2 AUTH (redacted) (redacted)]"),
        "{slow}"
    );
    assert!(slow.contains("[EXEC]") && !slow.contains("geheim"), "{slow}");
}

#[test]
fn latencies_by_command() {
    let host = Host::start();
    let mut client = host.client3();
    client.check("CONFIG RESETSTAT => +OK\n SET a 1 => +OK\n GET a => 1\n GET b => null");
    let Value::Map(found) = client.call("LATENCY HISTOGRAM get set nosuch") else { panic!("no map") };
    let names: Vec<String> = found.iter().map(|(name, _)| name.to_string()).collect();
    assert_eq!(names, ["get", "set"]);
    let Value::Map(of_get) = &found[0].1 else { panic!("{}", found[0].1) };
    assert_eq!((of_get[0].0.to_string().as_str(), &of_get[0].1), ("calls", &Value::Integer(2)));
    let Value::Map(buckets) = &of_get[1].1 else { panic!("{}", of_get[1].1) };
    let ends: Vec<u64> = buckets.iter().map(|(us, _)| us.integer() as u64).collect();
    assert!(ends.iter().all(|us| us.is_power_of_two()) && ends.is_sorted(), "{ends:?}");
    assert_eq!(buckets.last().unwrap().1, Value::Integer(2));
    let text = client.call("INFO latencystats").to_string();
    assert!(text.contains("\nlatency_percentiles_usec_get:p50="), "{text}");
    assert!(!client.call("INFO").to_string().contains("latency_percentiles"));
    client.check("CONFIG RESETSTAT => +OK");
    assert!(!client.call("INFO latencystats").to_string().contains("usec_get"));
}

/// Events come from a threshold on, and are forgotten on demand.
#[test]
fn events_that_took_long() {
    let dir = tempdir().unwrap();
    let host = Host::of(&Store::at(&dir), |config| {
        config.durability = Durability::Power;
        config.latency_ms = 1;
    });
    let mut client = host.client();
    client.call_with(&[b"SET", &b"huge"[..], &vec![b'x'; 8 << 20]]);
    wait_until("there are events", || {
        client.send_bytes(&encoded_line("APPEND huge x"));
        client.read();
        let latest = client.call("LATENCY LATEST").to_string();
        latest.contains("fast-command") && latest.contains("sync")
    });
    let Value::Array(events) = client.call("LATENCY HISTORY SYNC") else { panic!("no array") };
    let Value::Array(event) = &events[0] else { panic!("{}", events[0]) };
    assert!(event[0].integer() > 1_600_000_000 && event[1].integer() >= 1);
    assert!(client.call("LATENCY GRAPH sync").to_string().contains("sync - high "));
    assert!(client.call("LATENCY DOCTOR").to_string().contains("sync: in "));
    assert!(client.call("LATENCY RESET sync command").integer() >= 1);
    client.check("LATENCY HISTORY sync => []\n LATENCY HISTORY nosuch => []");
    client.check(
        "CONFIG SET latency-monitor-threshold 0 => +OK
        LATENCY GRAPH sync => -ERR No samples available for event 'sync'
        LATENCY NOSUCH => -ERR unknown subcommand 'NOSUCH'. Try LATENCY HELP.
        LATENCY GRAPH => -ERR wrong number of arguments for 'latency|graph' command
        CONFIG GET latency-monitor-threshold => [latency-monitor-threshold 0]",
    );
    assert!(client.call("LATENCY RESET").integer() >= 1);
    client.check("LATENCY LATEST => []");
    assert!(client.call("LATENCY DOCTOR").to_string().contains("No event is kept"));
}
