//! What `INFO` tells.

use std::fmt::Write;
use std::sync::atomic::Ordering;

use crate::clients::End;
use crate::keyspace::KeyFigures;
use crate::process::{self, Memory, Processor};
use crate::rates::EventLoop;
use crate::server::Server;

/// The version of Redis whose commands these are.
pub(crate) const REDIS_VERSION: &str = "7.0.15";

const SECTIONS: [&str; 12] = [
    "server",
    "clients",
    "memory",
    "persistence",
    "stats",
    "replication",
    "cpu",
    "commandstats",
    "errorstats",
    "latencystats",
    "cluster",
    "keyspace",
];

/// Names that monitoring asks for, and that have one value here: nothing is evicted, nothing forks, there are no replicas,
/// scripts, functions or modules, and commands need no rewritten log.
const CONSTANTS: &[(&str, &[(&str, &str)])] = &[
    ("server", &[("hz", "10"), ("configured_hz", "10"), ("io_threads_active", "0")]),
    ("clients", &[("tracking_clients", "0"), ("total_blocking_keys_on_nokey", "0")]),
    (
        "memory",
        &[
            ("used_memory_lua", "0"),
            ("used_memory_vm_eval", "0"),
            ("used_memory_scripts_eval", "0"),
            ("number_of_cached_scripts", "0"),
            ("number_of_functions", "0"),
            ("number_of_libraries", "0"),
            ("used_memory_vm_functions", "0"),
            ("used_memory_vm_total", "0"),
            ("used_memory_functions", "0"),
            ("used_memory_scripts", "0"),
            ("maxmemory", "0"),
            ("maxmemory_human", "0B"),
            ("maxmemory_policy", "noeviction"),
            ("mem_allocator", "libc"),
            ("allocator_frag_ratio", "1.00"),
            ("allocator_frag_bytes", "0"),
            ("allocator_rss_ratio", "1.00"),
            ("allocator_rss_bytes", "0"),
            ("allocator_muzzy", "0"),
            ("mem_overhead_db_hashtable_rehashing", "0"),
            ("mem_fragmentation_ratio", "1.00"),
            ("mem_fragmentation_bytes", "0"),
            ("mem_not_counted_for_evict", "0"),
            ("mem_replication_backlog", "0"),
            ("mem_total_replication_buffers", "0"),
            ("mem_clients_slaves", "0"),
            ("mem_cluster_links", "0"),
            ("mem_aof_buffer", "0"),
            ("active_defrag_running", "0"),
            ("lazyfree_pending_objects", "0"),
            ("lazyfreed_objects", "0"),
        ],
    ),
    (
        "persistence",
        &[
            ("loading", "0"),
            ("async_loading", "0"),
            ("rdb_last_cow_size", "0"),
            ("rdb_last_load_keys_expired", "0"),
            ("rdb_last_load_keys_loaded", "0"),
            ("aof_enabled", "1"),
            ("aof_rewrite_in_progress", "0"),
            ("aof_rewrite_scheduled", "0"),
            ("aof_last_rewrite_time_sec", "-1"),
            ("aof_current_rewrite_time_sec", "-1"),
            ("aof_last_bgrewrite_status", "ok"),
            ("aof_last_cow_size", "0"),
            ("aof_pending_rewrite", "0"),
            ("aof_buffer_length", "0"),
            ("aof_base_size", "0"),
            ("aof_delayed_fsync", "0"),
            ("module_fork_in_progress", "0"),
            ("module_fork_last_cow_size", "0"),
        ],
    ),
    (
        "stats",
        &[
            ("total_net_repl_input_bytes", "0"),
            ("total_net_repl_output_bytes", "0"),
            ("instantaneous_input_repl_kbps", "0.00"),
            ("instantaneous_output_repl_kbps", "0.00"),
            ("sync_full", "0"),
            ("sync_partial_ok", "0"),
            ("sync_partial_err", "0"),
            ("expired_subkeys", "0"),
            ("expired_time_cap_reached_count", "0"),
            ("expire_cycle_cpu_milliseconds", "0"),
            ("evicted_keys", "0"),
            ("evicted_scripts", "0"),
            ("total_eviction_exceeded_time", "0"),
            ("current_eviction_exceeded_time", "0"),
            ("pubsubshard_channels", "0"),
            ("latest_fork_usec", "0"),
            ("total_forks", "0"),
            ("migrate_cached_sockets", "0"),
            ("slave_expires_tracked_keys", "0"),
            ("active_defrag_hits", "0"),
            ("active_defrag_misses", "0"),
            ("active_defrag_key_hits", "0"),
            ("active_defrag_key_misses", "0"),
            ("tracking_total_keys", "0"),
            ("tracking_total_items", "0"),
            ("tracking_total_prefixes", "0"),
            ("unexpected_error_replies", "0"),
            ("dump_payload_sanitizations", "0"),
            ("io_threaded_reads_processed", "0"),
            ("io_threaded_writes_processed", "0"),
            ("reply_buffer_shrinks", "0"),
            ("reply_buffer_expands", "0"),
            ("client_query_buffer_limit_disconnections", "0"),
        ],
    ),
    (
        "replication",
        &[
            ("role", "master"),
            ("connected_slaves", "0"),
            ("master_failover_state", "no-failover"),
            ("master_replid2", "0000000000000000000000000000000000000000"),
            ("master_repl_offset", "0"),
            ("second_repl_offset", "-1"),
            ("repl_backlog_active", "0"),
            ("repl_backlog_size", "0"),
            ("repl_backlog_first_byte_offset", "0"),
            ("repl_backlog_histlen", "0"),
        ],
    ),
    ("cluster", &[("cluster_enabled", "0")]),
];

/// Whether a section is asked for. Those by command are not if none is named.
pub(crate) fn shows(asked: &[&[u8]], section: &str) -> bool {
    let has = |name: &str| asked.iter().any(|asked| asked.eq_ignore_ascii_case(name.as_bytes()));
    let is_by_command = matches!(section, "commandstats" | "latencystats");
    has("all")
        || has("everything")
        || has(section)
        || (!is_by_command && (asked.is_empty() || has("default")))
}

/// The sections that are asked for.
pub(crate) fn text(server: &Server, asked: &[&[u8]]) -> String {
    let mut text = String::new();
    for section in SECTIONS.into_iter().filter(|section| shows(asked, section)) {
        if !text.is_empty() {
            text.push_str("\r\n");
        }
        // Writing to a string cannot fail.
        let _ = write_section(server, section, &mut text);
    }
    text
}

/// A number of bytes as people read it.
fn human(bytes: u64) -> String {
    let mut amount = bytes as f64;
    for unit in ["B", "K", "M", "G"] {
        if amount < 1024.0 {
            return if unit == "B" { format!("{bytes}B") } else { format!("{amount:.2}{unit}") };
        }
        amount /= 1024.0;
    }
    format!("{amount:.2}T")
}

fn title_of(section: &str) -> String {
    if section == "cpu" {
        return "CPU".to_owned();
    }
    let mut title = section.to_owned();
    title[..1].make_ascii_uppercase();
    title
}

fn write_section(server: &Server, section: &str, out: &mut String) -> std::fmt::Result {
    let figures = &server.figures;
    write!(out, "# {}\r\n", title_of(section))?;
    let mut line = |name: &str, value: &dyn std::fmt::Display| write!(out, "{name}:{value}\r\n");
    match section {
        "server" => {
            line("redis_version", &REDIS_VERSION)?;
            line("esker_version", &env!("CARGO_PKG_VERSION"))?;
            line("redis_mode", &"standalone")?;
            line("os", &std::env::consts::OS)?;
            line("arch_bits", &usize::BITS)?;
            line("multiplexing_api", &"epoll")?;
            line("process_id", &std::process::id())?;
            line("run_id", &server.run_id)?;
            line("tcp_port", &server.settings.borrow().fixed("port"))?;
            line("server_time_usec", &server.wall_us())?;
            line("uptime_in_seconds", &server.uptime_s())?;
            line("uptime_in_days", &(server.uptime_s() / 86_400))?;
            line("durability", &server.config.durability)?;
        }
        "clients" => {
            let (clients, waiters) = (server.clients.borrow(), server.waiters.borrow());
            line("connected_clients", &clients.len())?;
            line("maxclients", &server.settings.borrow().clients_max)?;
            let largest_input = clients.all().map(|client| client.share.buffers()).max().unwrap_or(0);
            let largest_output = clients.all().map(|client| client.share.outbox()).max().unwrap_or(0);
            line("client_recent_max_input_buffer", &largest_input)?;
            line("client_recent_max_output_buffer", &largest_output)?;
            line("blocked_clients", &waiters.len())?;
            line("clients_in_timeout_table", &waiters.all().filter(|waiter| waiter.has_timeout).count())?;
            let listening = clients.all().filter(|client| client.listens()).count();
            line("pubsub_clients", &listening)?;
            line("watching_clients", &clients.all().filter(|client| client.watches.get()).count())?;
            line("total_watched_keys", &server.watches.borrow().keys())?;
            line("total_blocking_keys", &waiters.keys())?;
        }
        "memory" => {
            let Memory { resident_bytes: used, peak_bytes: peak } = process::memory();
            let of_clients = server.budget.used() as u64;
            let overhead = (server.startup_bytes + of_clients).min(used);
            let machine = process::machine_bytes();
            line("used_memory", &used)?;
            line("used_memory_human", &human(used))?;
            line("used_memory_rss", &used)?;
            line("used_memory_rss_human", &human(used))?;
            line("used_memory_peak", &peak)?;
            line("used_memory_peak_human", &human(peak))?;
            line("used_memory_peak_perc", &percent(used, peak))?;
            line("used_memory_overhead", &overhead)?;
            line("used_memory_startup", &server.startup_bytes)?;
            line("used_memory_dataset", &(used - overhead))?;
            line("used_memory_dataset_perc", &percent(used - overhead, used))?;
            line("total_system_memory", &machine)?;
            line("total_system_memory_human", &human(machine))?;
            for name in ["allocator_allocated", "allocator_active", "allocator_resident"] {
                line(name, &used)?;
            }
            line("mem_clients_normal", &of_clients)?;
            line("maxmemory_clients", &server.budget.bytes_max.get())?;
        }
        "persistence" => {
            let backups = &server.backups;
            let seconds = backups.begun.get().map_or(-1, |begun| begun.elapsed().as_secs() as i64);
            line(
                "rdb_changes_since_last_save",
                &figures.changes.get().saturating_sub(backups.changes.get()),
            )?;
            line("rdb_bgsave_in_progress", &u8::from(backups.is_running.get()))?;
            line("rdb_last_save_time", &backups.last_s.get())?;
            line("rdb_last_bgsave_status", &if backups.has_failed.get() { "err" } else { "ok" })?;
            line("rdb_last_bgsave_time_sec", &backups.last_took.get().as_secs())?;
            line("rdb_current_bgsave_time_sec", &seconds)?;
            line("rdb_saves", &backups.made.get())?;
            line("aof_current_size", &server.db.log_bytes())?;
            line("aof_pending_bio_fsync", &u8::from(server.sync_waits.is_syncing()))?;
            line("aof_last_write_status", &if server.db.check_writable().is_ok() { "ok" } else { "err" })?;
        }
        "stats" => {
            let (per_second, now_us) = (server.rates.per_second(), server.now_us());
            line("total_connections_received", &figures.connections.get())?;
            line("total_commands_processed", &figures.commands.get())?;
            line("instantaneous_ops_per_sec", &(per_second.commands.round() as u64))?;
            line("total_net_input_bytes", &figures.bytes_in.get())?;
            line("total_net_output_bytes", &figures.bytes_out.get())?;
            line("instantaneous_input_kbps", &format!("{:.2}", per_second.bytes_in / 1024.0))?;
            line("instantaneous_output_kbps", &format!("{:.2}", per_second.bytes_out / 1024.0))?;
            let EventLoop { cycles, busy } = EventLoop::of_this_thread();
            line("eventloop_cycles", &cycles)?;
            line("eventloop_duration_sum", &busy.as_micros())?;
            line("eventloop_duration_cmd_sum", &figures.command_us())?;
            line("instantaneous_eventloop_cycles_per_sec", &(per_second.cycles.round() as u64))?;
            line("instantaneous_eventloop_duration_usec", &(per_second.cycle_us.round() as u64))?;
            line("total_reads_processed", &figures.socket_reads.get())?;
            line("total_writes_processed", &figures.socket_writes.get())?;
            line("rejected_connections", &figures.refused_connections.get())?;
            line("expired_keys", &server.keyspace.expired(now_us))?;
            line("keyspace_hits", &figures.hits.get())?;
            line("keyspace_misses", &figures.misses.get())?;
            line("total_error_replies", &figures.errors.get())?;
            line("evicted_clients", &figures.ended(End::Memory))?;
            line("client_output_buffer_limit_disconnections", &figures.ended(End::Outbox))?;
            for why in End::ALL {
                line(&format!("closed_{}_connections", why.name()), &figures.ended(why))?;
            }
            line("tls_handshakes_failed", &figures.failed_handshakes.load(Ordering::Relaxed))?;
            line("acl_access_denied_auth", &figures.denied_logins.get())?;
            line("acl_access_denied_cmd", &figures.denied_commands.get())?;
            line("acl_access_denied_key", &figures.denied_keys.get())?;
            line("acl_access_denied_channel", &figures.denied_channels.get())?;
            line("commands_in_pool", &figures.in_pool.get())?;
            let pool = server.pool.figures();
            line("pool_queue", &pool.queued)?;
            line("pool_running", &pool.running)?;
            line("pool_wait_usec", &pool.waited_us)?;
            line("key_waits", &figures.key_waits.count.get())?;
            line("key_wait_usec", &figures.key_waits.us.get())?;
            line("commits", &figures.commits.get())?;
            line("commits_in_pool", &figures.pool_commits.count.get())?;
            line("sync_waits", &figures.sync_waits.count.get())?;
            line("sync_wait_usec", &figures.sync_waits.us.get())?;
            line("slow_commands", &figures.slow_seen.get())?;
            line("pubsub_patterns", &server.channels.borrow().patterns())?;
            line("pubsub_channels", &server.channels.borrow().names(None).len())?;
        }
        "replication" => line("master_replid", &server.run_id)?,
        "cpu" => {
            let (process, thread) = (Processor::of_process(), Processor::of_thread());
            let busy = EventLoop::of_this_thread().busy;
            line("used_active_time_main_thread", &format!("{:.6}", busy.as_secs_f64()))?;
            for (name, seconds) in [
                ("used_cpu_sys", process.system),
                ("used_cpu_user", process.user),
                ("used_cpu_sys_children", process.system_of_children),
                ("used_cpu_user_children", process.user_of_children),
                ("used_cpu_sys_main_thread", thread.system),
                ("used_cpu_user_main_thread", thread.user),
            ] {
                line(name, &format!("{seconds:.6}"))?;
            }
        }
        "errorstats" => {
            for (kind, count) in figures.errors_by_kind() {
                line(&format!("errorstat_{kind}"), &format!("count={count}"))?;
            }
        }
        "commandstats" => {
            for (name, calls) in figures.by_command() {
                let per_call = calls.us as f64 / calls.calls.max(1) as f64;
                let value = format!(
                    "calls={},usec={},usec_per_call={per_call:.2},rejected_calls={},failed_calls={}",
                    calls.calls, calls.us, calls.rejected, calls.failed
                );
                line(&format!("cmdstat_{name}"), &value)?;
            }
        }
        "latencystats" => {
            for (name, calls) in figures.by_command() {
                let Some(latency) = calls.latency else { continue };
                let [p50, p99, p999] = [0.5, 0.99, 0.999].map(|part| latency.quantile_us(part));
                let value = format!("p50={p50:.3},p99={p99:.3},p99.9={p999:.3}");
                line(&format!("latency_percentiles_usec_{name}"), &value)?;
            }
        }
        "keyspace" => {
            let now_us = server.now_us();
            for database in 0..server.trees.count() {
                let Some(tree) = server.trees.keys(database) else { continue };
                let figures = server.keyspace.figures(database, now_us).unwrap_or_else(|| {
                    // What lies in memory and tables, some of it perhaps deleted, until a walk has counted.
                    let keys = esker::without_io(|| tree.approximate_count(..)).unwrap_or(0);
                    KeyFigures { keys, expires: 0, left_ms: 0 }
                });
                if figures.keys > 0 {
                    let KeyFigures { keys, expires, left_ms } = figures;
                    line(
                        &format!("db{database}"),
                        &format!("keys={keys},expires={expires},avg_ttl={left_ms}"),
                    )?;
                }
            }
        }
        _ => {}
    }
    for (_, constants) in CONSTANTS.iter().filter(|(of, _)| *of == section) {
        for (name, value) in *constants {
            line(name, value)?;
        }
    }
    Ok(())
}

fn percent(part: u64, whole: u64) -> String {
    format!("{:.2}%", part as f64 * 100.0 / whole.max(1) as f64)
}
