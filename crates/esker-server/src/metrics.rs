//! The figures of the server in the text format of Prometheus, version 0.0.4; those of the store follow.
//!
//! Names end in a base unit, and those of counters in `_total`. The values of labels are names of commands, trees and
//! reasons, of which there are few; no text of a client is one.

use std::collections::BTreeMap;
use std::fmt::{Display, Write};
use std::sync::atomic::Ordering;

use esker::Db;

use crate::Beside;
use crate::clients::End;
use crate::figures::{Calls, Times};
use crate::info::REDIS_VERSION;
use crate::pool::{self, PoolFigures};
use crate::process::Process;
use crate::server::Server;
use crate::why::ToPool;

/// Latencies of commands are counted up to each fourth power of two of a microsecond: 1, 4, 16 and so on.
const LATENCY_STEP_LOG2: u32 = 2;

/// The last of these powers: 17 seconds.
const LATENCY_LAST_US: u64 = 1 << 24;

/// What the event loop knows at one moment.
pub(crate) struct Snapshot {
    durability: String,
    is_ending: bool,
    gauges: Vec<(&'static str, &'static str, u64)>,
    counters: Vec<(&'static str, &'static str, u64)>,
    seconds: Vec<(&'static str, &'static str, f64)>,
    denied: Vec<(&'static str, u64)>,
    ended: Vec<(End, u64)>,
    to_pool: Vec<(ToPool, u64)>,
    commands: BTreeMap<&'static str, Calls>,
    pool: PoolFigures,
    beside: Option<Beside>,
}

impl Snapshot {
    pub(crate) fn of(server: &Server) -> Snapshot {
        let figures = &server.figures;
        let (clients, channels) = (server.clients.borrow(), server.channels.borrow());
        let settings = server.settings.borrow();
        let subscribed = clients.all().filter(|client| client.listens()).count() as u64;
        let memory = &server.budget;
        let seconds = |times: &Times| times.us.get() as f64 / 1e6;
        Snapshot {
            is_ending: server.is_ending.get(),
            durability: server.config.durability.to_string(),
            gauges: vec![
                ("connections", "Connections of Redis clients.", clients.len() as u64),
                (
                    "connections_limit",
                    "The most connections at once (max-clients).",
                    settings.clients_max as u64,
                ),
                (
                    "blocked_connections",
                    "Connections that wait for an element.",
                    server.waiters.borrow().len() as u64,
                ),
                ("subscribed_connections", "Connections that have subscribed to channels.", subscribed),
                (
                    "connection_memory_bytes",
                    "Memory of what clients have sent and not read.",
                    memory.used() as u64,
                ),
                (
                    "connection_memory_limit_bytes",
                    "The most memory of that kind (max-clients-memory).",
                    memory.bytes_max.get() as u64,
                ),
                ("channels", "Channels with subscribers.", channels.names(None).len() as u64),
                ("channel_patterns", "Patterns with subscribers.", channels.patterns() as u64),
                (
                    "backup_running",
                    "1 while BGSAVE makes a backup.",
                    u64::from(server.backups.is_running.get()),
                ),
                (
                    "last_backup_timestamp_seconds",
                    "When the newest backup was made, since 1970; 0: there is none.",
                    server.backups.last_s.get(),
                ),
                ("databases", "Databases.", u64::from(server.trees.count())),
            ],
            counters: vec![
                (
                    "accepted_connections_total",
                    "Connections of Redis clients that came.",
                    figures.connections.get(),
                ),
                (
                    "refused_connections_total",
                    "Connections refused because there were too many.",
                    figures.refused_connections.get(),
                ),
                ("received_bytes_total", "Bytes that Redis clients have sent.", figures.bytes_in.get()),
                ("sent_bytes_total", "Bytes sent to Redis clients.", figures.bytes_out.get()),
                ("error_replies_total", "Commands that were answered by an error.", figures.errors.get()),
                ("pool_commands_total", "Commands that the pool did.", figures.in_pool.get()),
                ("slow_commands_total", "Commands that SLOWLOG has noted.", figures.slow_seen.get()),
                (
                    "key_waits_total",
                    "Waits for keys that other commands held.",
                    figures.key_waits.count.get(),
                ),
                ("commits_total", "Batches written on the event loop.", figures.commits.get()),
                (
                    "pool_commits_total",
                    "Batches that the event loop left to the pool.",
                    figures.pool_commits.count.get(),
                ),
                (
                    "failed_commits_total",
                    "Batches left to the pool that the store refused.",
                    figures.failed_commits.get(),
                ),
                (
                    "sync_waits_total",
                    "Waits of replies for a sync of the log.",
                    figures.sync_waits.count.get(),
                ),
                ("failed_syncs_total", "Such waits that ended with an error.", figures.failed_syncs.get()),
                (
                    "sweeps_total",
                    "Searches for elements of collections that are gone.",
                    figures.sweeps.count.get(),
                ),
                (
                    "failed_sweeps_total",
                    "Such searches that ended with an error.",
                    figures.failed_sweeps.get(),
                ),
                ("backups_total", "Backups that BGSAVE has made.", server.backups.made.get()),
                ("failed_backups_total", "Backups that have failed.", server.backups.failed.get()),
                (
                    "failed_tls_handshakes_total",
                    "TLS handshakes that have failed.",
                    figures.failed_handshakes.load(Ordering::Relaxed),
                ),
                ("http_requests_total", "Requests over HTTP.", figures.http_requests.get()),
                (
                    "refused_http_connections_total",
                    "Connections over HTTP refused because there were too many.",
                    figures.refused_http.get(),
                ),
            ],
            seconds: vec![
                ("key_wait_seconds_total", "How long commands waited for keys.", seconds(&figures.key_waits)),
                (
                    "pool_commit_seconds_total",
                    "How long batches left to the pool took.",
                    seconds(&figures.pool_commits),
                ),
                (
                    "sync_wait_seconds_total",
                    "How long replies waited for syncs.",
                    seconds(&figures.sync_waits),
                ),
                ("sweep_seconds_total", "How long these searches took.", seconds(&figures.sweeps)),
            ],
            denied: vec![
                ("password", figures.denied_logins.get()),
                ("command", figures.denied_commands.get()),
                ("key", figures.denied_keys.get()),
                ("channel", figures.denied_channels.get()),
            ],
            ended: End::ALL.into_iter().map(|why| (why, figures.ended(why))).collect(),
            to_pool: figures.to_pool().collect(),
            commands: figures.by_command(),
            pool: server.pool.figures(),
            beside: server.config.beside.clone(),
        }
    }

    /// All figures, those of the process and of the store too. It reads files.
    pub(crate) fn text(&self, db: &Db) -> String {
        let mut text = Text(String::new());
        let labels = [
            ("version", env!("CARGO_PKG_VERSION")),
            ("redis_version", REDIS_VERSION),
            ("durability", &self.durability),
        ];
        text.family("server_info", "gauge", "1, with the server's version as labels.");
        text.sample("server_info", &labels, 1);
        text.single(
            "server_ready",
            "1 if the server takes writes.",
            u64::from(!self.is_ending && db.check_writable().is_ok()),
        );
        for (name, help, value) in self.gauges.iter().chain(&self.counters) {
            text.single(&format!("server_{name}"), help, value);
        }
        for (name, help, value) in &self.seconds {
            text.single(&format!("server_{name}"), help, value);
        }
        text.family(
            "server_denials_total",
            "counter",
            "Logins, commands, keys and channels that were denied.",
        );
        for (reason, count) in &self.denied {
            text.sample("server_denials_total", &[("reason", reason)], count);
        }
        text.family(
            "server_closed_connections_total",
            "counter",
            "Connections that the server has closed, by reason.",
        );
        for (why, count) in &self.ended {
            text.sample("server_closed_connections_total", &[("reason", why.name())], count);
        }
        self.pool(&mut text);
        self.commands(&mut text);
        for figure in self.beside.iter().flat_map(|beside| (beside.figures)()) {
            text.single(figure.name, figure.help, figure.value);
        }
        process(&mut text);
        match db.stats() {
            Ok(stats) => {
                text.single("server_store_stats", "1 if the store's figures follow.", 1);
                text.0 + &stats.prometheus()
            }
            Err(error) => {
                text.single("server_store_stats", "1 if the store's figures follow.", 0);
                let error = error.to_string();
                tracing::warn!(error = error.as_str(), "the store's figures cannot be read");
                text.0
            }
        }
    }

    fn pool(&self, text: &mut Text) {
        let us = |us: u64| us as f64 / 1e6;
        text.single("server_pool_threads", "Threads of the pool.", pool::THREADS);
        text.single("server_pool_queue", "Jobs that wait for a thread of the pool.", self.pool.queued);
        text.single("server_pool_running", "Jobs that run in the pool.", self.pool.running);
        text.single("server_pool_jobs_total", "Jobs that the pool has done.", self.pool.jobs);
        text.single(
            "server_pool_wait_seconds_total",
            "How long jobs waited for a thread.",
            us(self.pool.waited_us),
        );
        text.single(
            "server_pool_busy_seconds_total",
            "How long threads of the pool were busy.",
            us(self.pool.ran_us),
        );
        text.family("server_pool_reasons_total", "counter", "Why the event loop left commands to the pool.");
        for (why, count) in &self.to_pool {
            text.sample("server_pool_reasons_total", &[("reason", why.name())], count);
        }
    }

    fn commands(&self, text: &mut Text) {
        let mut counts = |name: &str, help: &str, figure: fn(&Calls) -> u64| {
            text.family(name, "counter", help);
            for (command, calls) in &self.commands {
                text.sample(name, &[("command", command)], figure(calls));
            }
        };
        counts("server_commands_total", "Commands that ran, by name.", |calls| calls.calls);
        counts("server_failed_commands_total", "Commands that ran and failed, by name.", |calls| {
            calls.failed
        });
        counts("server_rejected_commands_total", "Commands that were not run, by name.", |calls| {
            calls.rejected
        });
        let name = "server_command_duration_seconds";
        text.family(
            name,
            "histogram",
            "How long commands took on the server; those within EXEC are not timed.",
        );
        for (command, calls) in &self.commands {
            let Some(latency) = &calls.latency else { continue };
            let (bucket, all) = (format!("{name}_bucket"), latency.count());
            for (us, count) in latency.by_powers() {
                if us <= LATENCY_LAST_US && us.ilog2().is_multiple_of(LATENCY_STEP_LOG2) {
                    let end = (us as f64 / 1e6).to_string();
                    text.sample(&bucket, &[("command", command), ("le", &end)], count);
                }
            }
            text.sample(&bucket, &[("command", command), ("le", "+Inf")], all);
            text.sample(&format!("{name}_sum"), &[("command", command)], latency.sum_seconds());
            text.sample(&format!("{name}_count"), &[("command", command)], all);
        }
    }
}

/// The figures of the process, under the names that all programs give them.
fn process(text: &mut Text) {
    let process = Process::read();
    for (name, help, value) in [
        (
            "process_cpu_seconds_total",
            "Processor time of the process.",
            process.user_seconds + process.system_seconds,
        ),
        (
            "process_resident_memory_bytes",
            "Memory of the process, mapped files included.",
            process.resident_bytes as f64,
        ),
        ("process_virtual_memory_bytes", "Addresses of the process.", process.virtual_bytes as f64),
        ("process_start_time_seconds", "When the process began, since 1970.", process.started_s),
        ("process_threads", "Threads of the process.", process.threads as f64),
        ("process_open_fds", "Open descriptors.", process.open_files as f64),
        ("process_max_fds", "The most open descriptors.", process.open_files_max as f64),
    ] {
        text.family_of_all(name, kind(name), help);
        // Writing to a string cannot fail.
        let _ = writeln!(text.0, "{name} {value}");
    }
}

fn kind(name: &str) -> &'static str {
    if name.ends_with("_total") { "counter" } else { "gauge" }
}

/// Text of Prometheus. Names begin with `esker_`.
struct Text(String);

impl Text {
    fn family_of_all(&mut self, name: &str, kind: &str, help: &str) {
        let _ = writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    fn family(&mut self, name: &str, kind: &str, help: &str) {
        self.family_of_all(&format!("esker_{name}"), kind, help);
    }

    /// Values of labels are names that need no escapes.
    fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: impl Display) {
        let labels: Vec<String> =
            labels.iter().map(|(label, value)| format!("{label}=\"{value}\"")).collect();
        let labels = if labels.is_empty() { String::new() } else { format!("{{{}}}", labels.join(",")) };
        let _ = writeln!(self.0, "esker_{name}{labels} {value}");
    }

    fn single(&mut self, name: &str, help: &str, value: impl Display) {
        self.family(name, kind(name), help);
        self.sample(name, &[], value);
    }
}
