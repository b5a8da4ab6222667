//! What `INFO` tells.

use std::fmt::Write;
use std::sync::atomic::Ordering;

use crate::clients::End;
use crate::process;
use crate::server::Server;

/// The version of Redis whose commands these are.
pub(crate) const REDIS_VERSION: &str = "7.0.15";

const SECTIONS: [&str; 9] = [
    "server",
    "clients",
    "memory",
    "persistence",
    "stats",
    "replication",
    "commandstats",
    "latencystats",
    "keyspace",
];

/// The sections that are asked for; without those by command if none is.
pub(crate) fn text(server: &Server, asked: &[&[u8]]) -> String {
    let asked: Vec<String> =
        asked.iter().map(|section| String::from_utf8_lossy(section).to_ascii_lowercase()).collect();
    let has = |name: &str| asked.iter().any(|section| section == name);
    let all = has("all") || has("everything");
    let default = asked.is_empty() || has("default");
    let mut text = String::new();
    for section in SECTIONS {
        if all || has(section) || (default && !matches!(section, "commandstats" | "latencystats")) {
            if !text.is_empty() {
                text.push_str("\r\n");
            }
            // Writing to a string cannot fail.
            let _ = write_section(server, section, &mut text);
        }
    }
    text
}

fn write_section(server: &Server, section: &str, out: &mut String) -> std::fmt::Result {
    let figures = &server.figures;
    let mut title = section.to_owned();
    title[..1].make_ascii_uppercase();
    write!(out, "# {title}\r\n")?;
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
            line("server_time_usec", &server.now_us())?;
            line("uptime_in_seconds", &server.uptime_s())?;
            line("uptime_in_days", &(server.uptime_s() / 86_400))?;
            line("durability", &server.config.durability)?;
        }
        "clients" => {
            let clients = server.clients.borrow();
            line("connected_clients", &clients.len())?;
            line("maxclients", &server.settings.borrow().clients_max)?;
            line("blocked_clients", &server.waiters.borrow().len())?;
            let listening = clients.all().filter(|client| client.listens()).count();
            line("pubsub_clients", &listening)?;
        }
        "memory" => {
            let used = process::memory_bytes();
            line("used_memory", &used)?;
            line("used_memory_rss", &used)?;
            line("maxmemory", &0)?;
            line("maxmemory_policy", &"noeviction")?;
            line("mem_fragmentation_ratio", &"1.00")?;
            line("mem_clients_normal", &server.budget.used())?;
            line("maxmemory_clients", &server.budget.bytes_max.get())?;
        }
        "persistence" => {
            line("loading", &0)?;
            line("aof_enabled", &1)?;
            line("aof_rewrite_in_progress", &0)?;
            let backups = &server.backups;
            line("rdb_bgsave_in_progress", &u8::from(backups.is_running.get()))?;
            line("rdb_last_save_time", &backups.last_s.get())?;
            line("rdb_last_bgsave_status", &if backups.has_failed.get() { "err" } else { "ok" })?;
            line("rdb_last_bgsave_time_sec", &backups.last_took.get().as_secs())?;
            line("aof_last_write_status", &"ok")?;
        }
        "stats" => {
            line("total_connections_received", &figures.connections.get())?;
            line("total_commands_processed", &figures.commands.get())?;
            line("total_net_input_bytes", &figures.bytes_in.get())?;
            line("total_net_output_bytes", &figures.bytes_out.get())?;
            line("rejected_connections", &figures.refused_connections.get())?;
            line("total_error_replies", &figures.errors.get())?;
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
        "replication" => {
            line("role", &"master")?;
            line("connected_slaves", &0)?;
            line("cluster_enabled", &0)?;
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
        _ => {
            for database in 0..server.trees.count() {
                let Some(tree) = server.trees.keys(database) else { continue };
                // What lies in memory and tables, some of it perhaps deleted.
                let keys = esker::without_io(|| tree.approximate_count(..)).unwrap_or(0);
                if keys > 0 {
                    line(&format!("db{database}"), &format!("keys={keys},expires=0,avg_ttl=0"))?;
                }
            }
        }
    }
    Ok(())
}
