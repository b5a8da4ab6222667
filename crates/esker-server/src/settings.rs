//! The settings that `CONFIG` shows and changes while the server runs.

use std::collections::BTreeMap;
use std::time::Duration;

use esker_redis::{Class, glob};
use tracing::level_filters::LevelFilter;

use crate::descriptors::connections_max;
use crate::listen::{Address, BACKLOG, KEEPALIVE_S_MAX};
use crate::memory::Budget;
use crate::{Config, Durability};

/// Names that clients and test suites set because Redis has them. They have no effect here: the store chooses how it
/// keeps values, and saves every write.
const WITHOUT_EFFECT: &[(&str, &str)] = &[
    ("activerehashing", "yes"),
    ("auto-aof-rewrite-percentage", "100"),
    ("close-on-replica-write", "yes"),
    ("hash-max-listpack-entries", "64"),
    ("hash-max-listpack-value", "4096"),
    ("hash-max-ziplist-entries", "64"),
    ("hash-max-ziplist-value", "4096"),
    ("lazyfree-lazy-eviction", "no"),
    ("lazyfree-lazy-user-del", "no"),
    ("lfu-decay-time", "1"),
    ("list-compress-depth", "0"),
    ("list-max-listpack-size", "-2"),
    ("list-max-ziplist-size", "-2"),
    ("rdb-key-save-delay", "0"),
    ("save", ""),
    ("set-max-intset-entries", "64"),
    ("zset-max-listpack-entries", "32"),
    ("zset-max-listpack-value", "4096"),
    ("zset-max-ziplist-entries", "32"),
    ("zset-max-ziplist-value", "4096"),
];

/// Settings of Redis that have one value here.
const FIXED: &[(&str, &str)] = &[
    ("appendonly", "yes"),
    ("cluster-enabled", "no"),
    ("daemonize", "no"),
    ("hz", "10"),
    ("io-threads", "1"),
    ("logfile", ""),
    ("maxmemory", "0"),
    ("maxmemory-policy", "noeviction"),
    ("oom-score-adj", "no"),
    // The password is not shown, and neither is whether there is one: `ACL GETUSER` shows that.
    ("requirepass", ""),
];

/// The values of `appendfsync`; each promises what those before it do.
const FSYNCS: [&str; 3] = ["no", "everysec", "always"];

/// See the module's comment.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    without_effect: BTreeMap<&'static str, String>,
    /// What the configuration says, and what has one value.
    fixed: BTreeMap<&'static str, String>,
    durability: Durability,
    pub(crate) bulk_bytes_max: u64,
    pub(crate) clients_max: usize,
    /// As many as there are descriptors for.
    clients_possible: usize,
    /// After so many seconds without a command a connection ends; 0: never.
    pub(crate) idle_s: u64,
    /// Commands that take at least so many microseconds are slow; below 0: none is.
    pub(crate) slow_us: i64,
    pub(crate) slow_kept: usize,
    /// Events that take at least so many milliseconds are kept for `LATENCY`; 0: none is.
    pub(crate) latency_ms: u64,
    /// A client that takes nothing of its replies for so many seconds is slow; 0: never.
    pub(crate) send_s: u64,
    /// After so many seconds of silence a new TCP client is asked whether it is still there; 0: never.
    pub(crate) keepalive_s: u64,
    /// The most bytes that the connections may take together, and that messages to one of them may.
    clients_bytes_max: usize,
    outbox_bytes_max: usize,
    /// The letters of `notify-keyspace-events`.
    events: String,
}

/// What `CONFIG SET` is told of a value that it does not take.
pub(crate) enum Refused {
    Unknown,
    Fixed,
    Wrong(&'static str),
}

/// The longest time that is told in seconds: what is added to a clock must not overflow it.
const SECONDS_MAX: u64 = i32::MAX as u64;

/// The value that a setting without effect has at the start.
fn usual(name: &str) -> &'static str {
    WITHOUT_EFFECT.iter().find(|(known, _)| *known == name).map_or("", |(_, value)| value)
}

/// Whether `value` is of the same kind as `usual`: a word for yes or no, a number, or, as in `save`, pairs of numbers.
fn is_like(usual: &str, value: &str) -> bool {
    let is_flag = |text: &str| ["yes", "no"].iter().any(|word| text.eq_ignore_ascii_case(word));
    if is_flag(usual) {
        is_flag(value)
    } else if usual.is_empty() {
        let words: Vec<&str> = value.split_whitespace().collect();
        words.len().is_multiple_of(2) && words.iter().all(|word| word.parse::<u64>().is_ok())
    } else {
        value.parse::<i64>().is_ok()
    }
}

fn seconds(value: &str) -> Option<u64> {
    value.parse().ok().filter(|seconds| *seconds <= SECONDS_MAX)
}

impl Settings {
    pub(crate) fn new(config: &Config) -> Settings {
        let beside = config.beside.as_ref().map_or(0, |beside| beside.connections_max);
        let clients_possible =
            connections_max(config.clients_max.saturating_add(beside)).saturating_sub(beside);
        Settings {
            without_effect: WITHOUT_EFFECT.iter().map(|(name, value)| (*name, (*value).to_owned())).collect(),
            fixed: fixed(config),
            durability: config.durability,
            bulk_bytes_max: config.bulk_bytes_max,
            clients_max: config.clients_max.min(clients_possible),
            clients_possible,
            idle_s: config.idle_s.min(SECONDS_MAX),
            slow_us: config.slow_us,
            slow_kept: 128,
            latency_ms: config.latency_ms,
            send_s: config.send_s.min(SECONDS_MAX),
            keepalive_s: config.keepalive_s.min(KEEPALIVE_S_MAX),
            clients_bytes_max: config.clients_bytes_max,
            outbox_bytes_max: config.outbox_bytes_max,
            events: String::new(),
        }
    }

    /// Where the server listens, with the ports that it got.
    pub(crate) fn note_addresses(&mut self, addresses: &[Address]) {
        let mut hosts: Vec<&str> = Vec::new();
        for address in addresses {
            let (name, value) = match address {
                Address::Tcp(_, port) => ("port", port.to_string()),
                Address::Tls(_, port) => ("tls-port", port.to_string()),
                Address::Unix(path) => ("unixsocket", path.display().to_string()),
            };
            if let Address::Tcp(host, _) | Address::Tls(host, _) = address
                && !hosts.contains(&host.as_str())
            {
                hosts.push(host);
            }
            // Of several, Redis' clients expect one.
            self.fixed.entry(name).or_insert(value);
        }
        self.fixed.insert("bind", hosts.join(" "));
        for (name, without) in [("port", "0"), ("tls-port", "0"), ("unixsocket", "")] {
            self.fixed.entry(name).or_insert_with(|| without.to_owned());
        }
    }

    /// The value of `appendfsync` whose promise the server keeps, as a place in [`FSYNCS`].
    fn fsync(&self) -> usize {
        match self.durability {
            Durability::Process => 0,
            Durability::Every(time) => usize::from(time <= Duration::from_secs(1)),
            Durability::Power => 2,
        }
    }

    /// Tells the connections' memory what it may be.
    pub(crate) fn apply(&self, budget: &Budget) {
        budget.bytes_max.set(self.clients_bytes_max);
        budget.outbox_bytes_max.set(self.outbox_bytes_max);
    }

    /// Whether something that took so long is to be noted.
    #[inline]
    pub(crate) fn is_slow(&self, took: Duration) -> bool {
        let us = took.as_micros() as u64;
        (self.slow_us >= 0 && us >= self.slow_us as u64)
            || (self.latency_ms > 0 && us / 1000 >= self.latency_ms)
    }

    /// A setting that cannot be changed.
    pub(crate) fn fixed(&self, name: &str) -> &str {
        self.fixed.get(name).map_or("", String::as_str)
    }

    /// All settings whose names match one of `patterns`.
    pub(crate) fn get(&self, patterns: &[&[u8]]) -> BTreeMap<&'static str, String> {
        let mut all = self.without_effect.clone();
        all.extend(self.fixed.clone());
        all.extend([
            ("client-output-buffer-limit", self.output_limits()),
            ("latency-monitor-threshold", self.latency_ms.to_string()),
            ("maxmemory-clients", self.clients_bytes_max.to_string()),
            ("send-timeout", self.send_s.to_string()),
            ("appendfsync", FSYNCS[self.fsync()].to_owned()),
            ("loglevel", log_level().to_owned()),
            ("maxclients", self.clients_max.to_string()),
            ("notify-keyspace-events", self.events.clone()),
            ("proto-max-bulk-len", self.bulk_bytes_max.to_string()),
            ("slowlog-log-slower-than", self.slow_us.to_string()),
            ("slowlog-max-len", self.slow_kept.to_string()),
            ("tcp-keepalive", self.keepalive_s.to_string()),
            ("timeout", self.idle_s.to_string()),
        ]);
        let patterns: Vec<Vec<u8>> = patterns.iter().map(|pattern| pattern.to_ascii_lowercase()).collect();
        all.retain(|name, _| patterns.iter().any(|pattern| glob::matches(pattern, name.as_bytes())));
        all
    }

    /// Changes a setting.
    pub(crate) fn set(&mut self, name: &str, value: &str) -> Result<(), Refused> {
        const NUMBER: Refused = Refused::Wrong("argument couldn't be parsed into an integer");
        const SECONDS: Refused = Refused::Wrong("argument must be between 0 and 2147483647 inclusive");
        match name {
            "appendfsync" => {
                let asked = FSYNCS.iter().position(|known| value.eq_ignore_ascii_case(known));
                match asked {
                    None => {
                        return Err(Refused::Wrong(
                            "argument(s) must be one of the following: everysec, always, no",
                        ));
                    }
                    Some(asked) if asked > self.fsync() => {
                        return Err(Refused::Wrong(
                            "the durability of the configuration promises less: start the server with another one",
                        ));
                    }
                    // The server keeps this promise anyway.
                    Some(_) => {}
                }
            }
            "loglevel" if value.eq_ignore_ascii_case(log_level()) => {}
            "loglevel" => return Err(Refused::Fixed),
            "requirepass" => {
                return Err(Refused::Wrong(
                    "passwords belong to users: ACL SETUSER default >PASSWORD sets one",
                ));
            }
            "maxmemory" if bytes(value) == Some(0) => {}
            "maxmemory" | "maxmemory-policy" if !self.is_fixed_as(name, value) => {
                return Err(Refused::Wrong(
                    "there is no eviction here: data lies on disk, and no key goes to make room",
                ));
            }
            "maxclients" => {
                let count = value.parse().ok().filter(|count| *count > 0).ok_or(NUMBER)?;
                if count > self.clients_possible {
                    return Err(Refused::Wrong(
                        "The operating system is not able to handle the specified number of clients",
                    ));
                }
                self.clients_max = count;
            }
            "timeout" => self.idle_s = seconds(value).ok_or(SECONDS)?,
            "slowlog-log-slower-than" => {
                let us = value.parse().map_err(|_| NUMBER)?;
                if us < -1 {
                    return Err(Refused::Wrong(
                        "argument must be between -1 and 9223372036854775807 inclusive",
                    ));
                }
                self.slow_us = us;
            }
            "latency-monitor-threshold" => self.latency_ms = value.parse().map_err(|_| NUMBER)?,
            "tcp-keepalive" => {
                let is_possible = |seconds: &u64| *seconds <= KEEPALIVE_S_MAX;
                self.keepalive_s = seconds(value)
                    .filter(is_possible)
                    .ok_or(Refused::Wrong("argument must be between 0 and 32767 inclusive"))?;
            }
            "send-timeout" => self.send_s = seconds(value).ok_or(SECONDS)?,
            "maxmemory-clients" => {
                let bytes =
                    bytes(value).and_then(|bytes| usize::try_from(bytes).ok()).filter(|bytes| *bytes > 0);
                self.clients_bytes_max =
                    bytes.ok_or(Refused::Wrong("argument must be a memory value above 0"))?;
            }
            "client-output-buffer-limit" => self.set_output_limits(value)?,
            "slowlog-max-len" => self.slow_kept = value.parse().map_err(|_| NUMBER)?,
            "proto-max-bulk-len" => {
                let bytes = bytes(value).ok_or(Refused::Wrong("argument must be a memory value"))?;
                if bytes < 1 << 20 {
                    return Err(Refused::Wrong(
                        "argument must be between 1048576 and 9223372036854775807 inclusive",
                    ));
                }
                self.bulk_bytes_max = bytes;
            }
            "notify-keyspace-events" => {
                self.events = events(value)
                    .ok_or(Refused::Wrong("Invalid event class character. Use 'Ag$lshzxeKEtmdn'."))?;
            }
            _ if self.fixed.contains_key(name) => {
                if !self.is_fixed_as(name, value) {
                    return Err(Refused::Fixed);
                }
            }
            _ => {
                let kept = self.without_effect.get_mut(name).ok_or(Refused::Unknown)?;
                if !is_like(usual(name), value) {
                    return Err(Refused::Wrong("the argument is of another kind than this setting of Redis"));
                }
                value.clone_into(kept);
            }
        }
        Ok(())
    }

    /// Whether a setting that cannot be changed has this value.
    fn is_fixed_as(&self, name: &str, value: &str) -> bool {
        self.fixed.get(name).is_some_and(|kept| kept.eq_ignore_ascii_case(value))
    }

    /// The limits of replies as Redis has them: those of subscribers have an effect here, and only the first of their
    /// numbers.
    fn output_limits(&self) -> String {
        let hard = if self.outbox_bytes_max == usize::MAX { 0 } else { self.outbox_bytes_max };
        format!("normal 0 0 0 slave 0 0 0 pubsub {hard} 0 0")
    }

    fn set_output_limits(&mut self, value: &str) -> Result<(), Refused> {
        const WRONG: Refused = Refused::Wrong("argument must be a class, two memory values and seconds");
        const NOT_KEPT: Refused = Refused::Wrong(
            "only 'pubsub BYTES 0 0' can be set: other classes and soft limits are 0, which means unlimited",
        );
        let words: Vec<&str> = value.split_whitespace().collect();
        if words.is_empty() || !words.len().is_multiple_of(4) {
            return Err(WRONG);
        }
        for limit in words.chunks_exact(4) {
            let (hard, soft, seconds) = (bytes(limit[1]), bytes(limit[2]), limit[3].parse::<u64>());
            let (Some(hard), Some(soft), Ok(seconds)) = (hard, soft, seconds) else { return Err(WRONG) };
            let is_soft = soft != 0 || seconds != 0;
            match limit[0].to_ascii_lowercase().as_str() {
                "pubsub" if !is_soft => {
                    self.outbox_bytes_max =
                        if hard == 0 { usize::MAX } else { usize::try_from(hard).unwrap_or(usize::MAX) }
                }
                "normal" | "replica" | "slave" if hard == 0 && !is_soft => {}
                "pubsub" | "normal" | "replica" | "slave" => return Err(NOT_KEPT),
                _ => return Err(Refused::Wrong("unknown class of clients")),
            }
        }
        Ok(())
    }

    /// Whether any events are asked for.
    pub(crate) fn notifies(&self) -> bool {
        !self.events.is_empty()
    }

    /// Whether events of new keys are asked for.
    pub(crate) fn tells_new_keys(&self) -> bool {
        self.events.contains('n')
    }

    /// Whether an event is published by its key, and by its name.
    pub(crate) fn wants(&self, class: Class) -> (bool, bool) {
        let letter = match class {
            Class::Generic => 'g',
            Class::String => '$',
            Class::List => 'l',
            Class::Set => 's',
            Class::Hash => 'h',
            Class::SortedSet => 'z',
            Class::Expired => 'x',
            Class::New => 'n',
            Class::Missed => 'm',
        };
        let in_all = !matches!(class, Class::New | Class::Missed);
        let is_wanted = self.events.contains(letter) || (in_all && self.events.contains('A'));
        (is_wanted && self.events.contains('K'), is_wanted && self.events.contains('E'))
    }
}

/// The settings that cannot be changed, as the configuration has them.
fn fixed(config: &Config) -> BTreeMap<&'static str, String> {
    let mut fixed: BTreeMap<&'static str, String> =
        FIXED.iter().map(|(name, value)| (*name, (*value).to_owned())).collect();
    let security = &config.security;
    let acl_file = security.acl_file.as_ref().map_or_else(String::new, |path| path.display().to_string());
    let protected = if security.allows_no_password { "no" } else { "yes" };
    fixed.extend([
        ("aclfile", acl_file),
        ("databases", config.databases.to_string()),
        ("dir", config.dir.display().to_string()),
        ("protected-mode", protected.to_owned()),
        ("tcp-backlog", BACKLOG.to_string()),
    ]);
    fixed
}

/// What the program logs, in Redis' words.
fn log_level() -> &'static str {
    match LevelFilter::current() {
        LevelFilter::TRACE | LevelFilter::DEBUG => "debug",
        LevelFilter::INFO => "notice",
        LevelFilter::WARN | LevelFilter::ERROR => "warning",
        LevelFilter::OFF => "nothing",
    }
}

/// The letters of event classes as Redis gives them back.
fn events(value: &str) -> Option<String> {
    const ALL: &str = "g$lshzxetd";
    if !value.chars().all(|letter| "AgxKE$lshzetmdn".contains(letter)) {
        return None;
    }
    let has = |letter: char| value.contains(letter) || (value.contains('A') && ALL.contains(letter));
    let mut letters = String::new();
    if ALL.chars().all(has) {
        letters.push('A');
    } else {
        letters.extend(ALL.chars().filter(|letter| has(*letter)));
    }
    letters.extend("KEmn".chars().filter(|letter| value.contains(*letter)));
    Some(letters)
}

/// A number of bytes, perhaps with a unit: `64mb`.
fn bytes(value: &str) -> Option<u64> {
    let lower = value.to_ascii_lowercase();
    let digits = lower.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
    let factor = match &lower[digits.len()..] {
        "" | "b" => 1,
        "k" => 1000,
        "kb" => 1 << 10,
        "m" => 1_000_000,
        "mb" => 1 << 20,
        "g" => 1_000_000_000,
        "gb" => 1 << 30,
        _ => return None,
    };
    digits.parse::<u64>().ok()?.checked_mul(factor).filter(|bytes| i64::try_from(*bytes).is_ok())
}
