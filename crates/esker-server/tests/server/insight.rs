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

/// The names that redis_exporter (github.com/oliver006/redis_exporter) takes from `INFO`, in the order of their sections. Left
/// out are those of other programs and versions, of modules, and `expired_stale_perc`: how many expired keys are still on the disk
/// is not known.
const NAMES_OF_THE_EXPORTER: &[(&str, &str)] = &[
    (
        "server",
        "redis_version redis_mode os run_id tcp_port process_id uptime_in_seconds io_threads_active hz configured_hz",
    ),
    (
        "clients",
        "connected_clients blocked_clients maxclients tracking_clients clients_in_timeout_table pubsub_clients \
         watching_clients total_watched_keys total_blocking_keys total_blocking_keys_on_nokey \
         client_recent_max_output_buffer client_recent_max_input_buffer",
    ),
    (
        "memory",
        "used_memory used_memory_rss used_memory_peak used_memory_lua used_memory_vm_eval used_memory_scripts_eval \
         used_memory_overhead used_memory_startup used_memory_dataset number_of_cached_scripts number_of_functions \
         number_of_libraries used_memory_vm_functions used_memory_scripts used_memory_functions used_memory_vm_total \
         maxmemory mem_fragmentation_ratio mem_fragmentation_bytes mem_clients_slaves mem_clients_normal \
         mem_cluster_links mem_aof_buffer mem_replication_backlog mem_not_counted_for_evict \
         mem_total_replication_buffers lazyfree_pending_objects lazyfreed_objects active_defrag_running \
         total_system_memory maxmemory_policy mem_allocator allocator_active allocator_allocated allocator_resident \
         allocator_frag_ratio allocator_frag_bytes allocator_muzzy allocator_rss_ratio allocator_rss_bytes \
         mem_overhead_db_hashtable_rehashing",
    ),
    (
        "persistence",
        "loading async_loading rdb_changes_since_last_save rdb_bgsave_in_progress rdb_last_save_time \
         rdb_last_bgsave_status rdb_last_bgsave_time_sec rdb_current_bgsave_time_sec rdb_saves rdb_last_cow_size \
         rdb_last_load_keys_expired rdb_last_load_keys_loaded aof_enabled aof_rewrite_in_progress \
         aof_rewrite_scheduled aof_last_rewrite_time_sec aof_current_rewrite_time_sec aof_last_cow_size \
         aof_pending_rewrite aof_buffer_length aof_last_bgrewrite_status aof_last_write_status \
         module_fork_in_progress module_fork_last_cow_size aof_current_size aof_base_size aof_pending_bio_fsync \
         aof_delayed_fsync",
    ),
    (
        "stats",
        "total_connections_received total_commands_processed rejected_connections total_net_input_bytes \
         total_net_output_bytes total_net_repl_input_bytes total_net_repl_output_bytes expired_keys expired_subkeys \
         expired_time_cap_reached_count expire_cycle_cpu_milliseconds evicted_keys evicted_clients evicted_scripts \
         total_eviction_exceeded_time current_eviction_exceeded_time keyspace_hits keyspace_misses pubsub_channels \
         pubsub_patterns pubsubshard_channels latest_fork_usec migrate_cached_sockets slave_expires_tracked_keys \
         active_defrag_hits active_defrag_misses active_defrag_key_hits active_defrag_key_misses tracking_total_keys \
         tracking_total_items tracking_total_prefixes unexpected_error_replies total_error_replies \
         dump_payload_sanitizations total_reads_processed total_writes_processed io_threaded_reads_processed \
         io_threaded_writes_processed reply_buffer_shrinks reply_buffer_expands \
         client_query_buffer_limit_disconnections client_output_buffer_limit_disconnections acl_access_denied_auth \
         acl_access_denied_cmd acl_access_denied_key acl_access_denied_channel sync_full sync_partial_ok \
         sync_partial_err instantaneous_ops_per_sec instantaneous_input_kbps instantaneous_output_kbps eventloop_cycles \
         eventloop_duration_sum eventloop_duration_cmd_sum instantaneous_eventloop_cycles_per_sec \
         instantaneous_eventloop_duration_usec",
    ),
    (
        "replication",
        "role connected_slaves master_repl_offset second_repl_offset repl_backlog_active repl_backlog_size \
         repl_backlog_first_byte_offset repl_backlog_histlen master_replid",
    ),
    (
        "cpu",
        "used_cpu_sys used_cpu_user used_cpu_sys_children used_cpu_user_children used_cpu_sys_main_thread \
         used_cpu_user_main_thread used_active_time_main_thread",
    ),
    ("cluster", "cluster_enabled"),
];

#[test]
fn monitoring_finds_its_names() {
    let host = Host::start();
    let mut client = host.client();
    for (section, names) in NAMES_OF_THE_EXPORTER {
        let text = client.call(&format!("INFO {section}")).to_string();
        for name in names.split_whitespace() {
            let count = text.lines().filter(|line| line.starts_with(&format!("{name}:"))).count();
            assert_eq!(count, 1, "{section}: {name}");
        }
    }
    let all = client.call("INFO everything").to_string();
    let mut seen = std::collections::HashSet::new();
    assert!(all.lines().filter_map(|line| line.split_once(':')).all(|(name, _)| seen.insert(name)), "{all}");
}

#[test]
fn figures_are_those_of_what_was_done() {
    let host = Host::start();
    let (mut client, mut other) = (host.client(), host.client());
    client.check(
        "CONFIG RESETSTAT => +OK
        SET a 1 => +OK
        MSET b 1 c 1 => +OK
        GET a => 1
        GET no => $-1
        MGET a b no => [1 1 $-1]
        EXISTS a no => :1
        HGET no f => $-1
        SADD s x => :1
        SUNIONSTORE to s no => :1
        GETDEL c => 1
        INCR a => :2
        WATCH a b => +OK
        CLUSTER INFO => -ERR This instance has cluster support disabled
        HGET a f => -WRONGTYPE Operation against a key holding the wrong kind of value
        HGET a f => -WRONGTYPE Operation against a key holding the wrong kind of value",
    );
    // Hits: GET, MGET twice, EXISTS, the source of SUNIONSTORE, GETDEL, two HGET of a string. Misses: one each of GET, MGET, EXISTS,
    // HGET, SUNIONSTORE.
    assert_eq!(client.figure("keyspace_hits"), 8);
    assert_eq!(client.figure("keyspace_misses"), 5);
    client.check(
        "OBJECT ENCODING no => $-1
        OBJECT ENCODING a => int
        MEMORY USAGE no => $-1
        SET a 2 GET => 2
        SET no 2 XX GET => $-1",
    );
    assert!(client.call("MEMORY USAGE a").integer() > 0);
    assert_eq!((client.figure("keyspace_hits"), client.figure("keyspace_misses")), (10, 7));
    assert_eq!(client.figure("total_watched_keys"), 2);
    assert_eq!(client.figure("watching_clients"), 1);
    client.check("UNWATCH => +OK");
    assert_eq!((client.figure("total_watched_keys"), client.figure("watching_clients")), (0, 0));
    let errors = client.call("INFO errorstats").to_string();
    assert!(
        errors.contains("errorstat_ERR:count=1\r") && errors.contains("errorstat_WRONGTYPE:count=2\r"),
        "{errors}"
    );
    other.send("BLPOP list other 20");
    host.wait_for_blocked(1);
    assert_eq!((client.figure("clients_in_timeout_table"), client.figure("total_blocking_keys")), (1, 2));
    client.check("LPUSH list x => :1");
    assert!(client.figure("rdb_changes_since_last_save") > 5);
    assert!(client.figure("used_memory_peak") >= client.figure("used_memory_startup"));
    wait_until("commands are counted by the second", || {
        (0..100).for_each(|_| drop(client.call("PING")));
        let text = client.call("INFO stats").to_string();
        ["ops_per_sec:0", "input_kbps:0.00", "eventloop_cycles_per_sec:0", "eventloop_duration_usec:0"]
            .iter()
            .all(|zero| !text.contains(&format!("instantaneous_{zero}\r")))
    });
    for name in
        ["eventloop_cycles", "eventloop_duration_sum", "eventloop_duration_cmd_sum", "aof_current_size"]
    {
        assert!(client.figure(name) > 0, "{name}");
    }
    let text = client.call("INFO cpu").to_string();
    assert_eq!(text.lines().filter(|line| line.starts_with("used_cpu_")).count(), 6, "{text}");
    assert_eq!(client.call("INFO cluster").to_string().trim(), "# Cluster\r\ncluster_enabled:0");
}
