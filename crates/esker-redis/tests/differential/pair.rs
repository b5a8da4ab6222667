//! A Redis and a `Memory` that get the same commands, and what differs between them.

use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{SystemTime, UNIX_EPOCH};

use esker_redis::commands::blocking::reply_without_element;
use esker_redis::memory::Memory;

use crate::compare::is_chosen_from;
use crate::compare::{Difference, TOLERANCE_MS, are_alike, in_order};
use crate::deliberate;
use crate::generator::Arg;
use crate::redis::{Client, Reply, Server};

/// Events that are not compared: those of keys that Redis finds to be expired.
const UNHEARD: &[&str] = &["expired"];

/// Databases that the test uses.
const DATABASES: u16 = 3;

/// Something that is done to both.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Step {
    Command {
        args: Vec<Arg>,
        resp3: bool,
        /// How many entries `memory` reads before one that needs I/O.
        reads: Option<u64>,
    },
    Select(u16),
    /// The clock goes on by so many seconds.
    Advance(i64),
    /// From here on, `memory` keeps what is written apart from what it has; or not any more. Nobody must see that.
    Transaction(bool),
}

/// Both.
pub(crate) struct Pair {
    /// Connections that speak version 2 and version 3.
    clients: [Client; 2],
    listener: Client,
    markers: u64,
    memory: Memory,
    /// How far the clock of `memory` is ahead of the real one.
    pub(crate) ahead_s: i64,
    /// The most elements of large collections that there were when states were compared.
    pub(crate) elements_max: usize,
    /// How many replies of Redis to each command were no errors, and how many were.
    pub(crate) replies: BTreeMap<String, [u64; 2]>,
}

fn now_us() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_micros() as u64
}

fn plain(words: &[&str]) -> Vec<Vec<u8>> {
    words.iter().map(|word| word.as_bytes().to_vec()).collect()
}

fn borrowed(args: &[Vec<u8>]) -> Vec<&[u8]> {
    args.iter().map(Vec::as_slice).collect()
}

impl Pair {
    pub(crate) fn new(server: &Server) -> Pair {
        let mut clients = [server.connect(), server.connect()];
        clients[1].ask(&["HELLO", "3"]);
        // Only reads find out that a key has expired: so nothing happens by itself.
        clients[0].ask(&["DEBUG", "SET-ACTIVE-EXPIRE", "0"]);
        let mut listener = server.connect();
        listener.ask(&["PSUBSCRIBE", "__keyevent@*"]);
        listener.ask(&["SUBSCRIBE", "marker"]);
        Pair {
            clients,
            listener,
            markers: 0,
            memory: Memory::default(),
            ahead_s: 0,
            elements_max: 0,
            replies: BTreeMap::new(),
        }
    }

    /// Makes both as new.
    pub(crate) fn reset(&mut self) {
        self.redis(&plain(&["FLUSHALL"]));
        self.memory = Memory::default();
        self.ahead_s = 0;
        self.select(0);
        self.redis_events();
    }

    /// What Redis tells of a command, if it knows it: the arity, and whether it writes.
    pub(crate) fn spec(&mut self, name: &str) -> Option<(i64, bool)> {
        let reply = self.redis(&plain(&["COMMAND", "INFO", name]));
        let told = reply.parts().first()?.parts();
        let writes = told.get(2)?.parts().iter().any(|flag| flag.bytes() == b"write");
        Some((told.get(1)?.integer()?, writes))
    }

    fn redis(&mut self, command: &[Vec<u8>]) -> Reply {
        self.clients[0].ask(command)
    }

    fn select(&mut self, database: u16) {
        self.memory.database = database;
        for client in &mut self.clients {
            client.ask(&["SELECT", &database.to_string()]);
        }
    }

    fn memory(&mut self, command: &[Vec<u8>], resp3: bool) -> Reply {
        let args = borrowed(command);
        self.memory.now_us = now_us() + self.ahead_s as u64 * 1_000_000;
        let memory = &mut self.memory;
        let Ok(mut bytes) = catch_unwind(AssertUnwindSafe(|| memory.reply(&args, resp3))) else {
            return Reply::Line(b'-', b"panicked".to_vec());
        };
        if let Some(spec) = esker_redis::spec(args[0]).filter(|spec| bytes.is_empty() && spec.flags.blocks) {
            let mut reply = esker_redis::Reply::new(resp3);
            reply_without_element(spec, false, &mut reply);
            bytes = reply.bytes;
        }
        let mut at = 0;
        match Reply::parse(&bytes, &mut at).filter(|_| at == bytes.len()) {
            Some(reply) => reply,
            None => Reply::Line(b'-', [b"no single reply: ", bytes.as_slice()].concat()),
        }
    }

    /// The events since the last call, without those of keys that Redis finds to be expired.
    fn redis_events(&mut self) -> Vec<String> {
        self.markers += 1;
        self.clients[0].ask(&["PUBLISH", "marker", &self.markers.to_string()]);
        let mut events = Vec::new();
        loop {
            let message = self.listener.receive();
            match message.leaves()[..] {
                [b"message", _, marker] if marker == self.markers.to_string().as_bytes() => return events,
                [b"pmessage", _, channel, key] => {
                    let channel = String::from_utf8_lossy(channel).into_owned();
                    if !UNHEARD.iter().any(|name| channel.ends_with(name)) {
                        events.push(format!("{channel} {}", key.escape_ascii()));
                    }
                }
                _ => {}
            }
        }
    }

    fn memory_events(&mut self) -> Vec<String> {
        let mut events = std::mem::take(&mut self.memory.events);
        events.retain(|event| !UNHEARD.contains(&event.name));
        let told = |event: esker_redis::Event| {
            format!("__keyevent@{}__:{} {}", event.database, event.name, event.key.escape_ascii())
        };
        events.into_iter().map(told).collect()
    }

    /// Does `step` on both sides.
    pub(crate) fn step(&mut self, step: &Step) -> Result<(), Difference> {
        match step {
            Step::Select(database) => {
                self.select(*database);
                Ok(())
            }
            Step::Advance(seconds) => {
                self.advance(*seconds);
                Ok(())
            }
            Step::Transaction(is_one) => {
                self.memory.in_transaction = *is_one;
                Ok(())
            }
            Step::Command { args, resp3, reads } => self.command(args, *resp3, *reads),
        }
    }

    /// Moves the clock of `memory`. That of Redis cannot be moved, so it deletes what would have expired.
    fn advance(&mut self, seconds: i64) {
        let at_ms = now_us() as i64 / 1000 + (self.ahead_s + seconds) * 1000;
        let current = self.memory.database;
        let mut expired = Vec::new();
        for database in 0..DATABASES {
            self.select(database);
            for key in self.keys() {
                let time = self.redis(&[b"PEXPIRETIME".to_vec(), key.clone()]).integer().unwrap_or(-1);
                if (time - at_ms).abs() < TOLERANCE_MS {
                    return self.select(current);
                }
                if time > 0 && time < at_ms {
                    expired.push((database, key));
                }
            }
        }
        for (database, key) in expired {
            self.select(database);
            self.redis(&[b"DEL".to_vec(), key]);
        }
        self.ahead_s += seconds;
        self.select(current);
        self.redis_events();
    }

    fn keys(&mut self) -> Vec<Vec<u8>> {
        let keys = self.redis(&plain(&["KEYS", "*"]));
        let mut keys: Vec<Vec<u8>> = keys.parts().iter().map(|key| key.bytes().to_vec()).collect();
        keys.sort();
        keys
    }

    fn command(&mut self, args: &[Arg], resp3: bool, reads: Option<u64>) -> Result<(), Difference> {
        let (for_redis, for_memory) = (written(args, self.ahead_s), written(args, 0));
        let name = String::from_utf8_lossy(&for_redis[0]).to_ascii_lowercase();
        if let Some(at) = place_of_cursor(&name) {
            return self.scan(&for_redis, at, resp3);
        }
        let before = self.content_for(&name, &for_memory);
        self.memory.events.clear();
        let redis = self.redis_reply(&name, &for_redis, resp3);
        self.memory.reads_in_memory = reads;
        let memory = self.memory(&for_memory, resp3);
        self.memory.reads_in_memory = None;
        self.replies.entry(name.clone()).or_default()[usize::from(redis.is_error())] += 1;
        let (mut redis_events, memory_events) = (self.redis_events(), self.memory_events());
        if redis.is_error() {
            redis_events.retain(|event| !deliberate::is_dropped_by_errors(event));
        }
        let is_same = match &before {
            _ if redis == memory => true,
            _ if deliberate::is_deliberate(&name, &for_redis, &redis, &memory) => {
                let spec = esker_redis::spec(name.as_bytes());
                let keys = spec.map_or(Vec::new(), |spec| spec.keys_of(&borrowed(&for_redis)));
                keys.into_iter().for_each(|key| self.take_over(key));
                self.redis_events();
                return Ok(());
            }
            _ if redis.is_error() || memory.is_error() => deliberate::are_errors_alike(&redis, &memory),
            Some(_) => redis.shape() == memory.shape(),
            None => are_alike(&name, &redis, &memory, self.ahead_s),
        };
        let is_chosen = before
            .as_ref()
            .is_none_or(|before| memory.is_error() || is_chosen_from(before, &for_memory, &memory));
        if !is_same || !is_chosen {
            return Err(Difference::between("reply", &redis, &memory));
        }
        if name == "set" && !redis.is_error() {
            // If it has expired already, Redis finds out now, and not when it is overwritten: then it would say `del`.
            self.redis(&[b"EXISTS".to_vec(), for_redis[1].clone()]);
            self.redis_events();
        }
        if name == "spop" && !redis.is_error() {
            self.pop_the_same(&for_redis[1], &redis, &memory);
        }
        // Some of them: it takes time.
        if !redis.is_error() && for_redis.concat().len().is_multiple_of(8) {
            self.compare_keys(&for_redis)?;
        }
        if redis_events != memory_events {
            return Err(Difference::between("events", &redis_events, &memory_events));
        }
        Ok(())
    }

    /// Compares which arguments are keys.
    fn compare_keys(&mut self, args: &[Vec<u8>]) -> Result<(), Difference> {
        let command: Vec<Vec<u8>> = plain(&["COMMAND", "GETKEYS"]).into_iter().chain(args.to_vec()).collect();
        let redis = self.redis(&command);
        let args = borrowed(args);
        let memory = esker_redis::spec(args[0]).map_or(Vec::new(), |spec| spec.keys_of(&args));
        if redis.is_error() && memory.is_empty() || redis.leaves() == memory {
            return Ok(());
        }
        let memory: Vec<String> = memory.into_iter().map(|key| key.escape_ascii().to_string()).collect();
        Err(Difference::between("which arguments are keys", &redis, &memory))
    }

    /// Commands that wait are sent as transactions: then they do not.
    fn redis_reply(&mut self, name: &str, args: &[Vec<u8>], resp3: bool) -> Reply {
        let spec = esker_redis::spec(name.as_bytes());
        let client = &mut self.clients[usize::from(resp3)];
        let may_wait = spec.is_some_and(|spec| spec.flags.blocks && spec.takes(args.len()));
        if !may_wait {
            return client.ask(args);
        }
        client.send(&[&plain(&["MULTI"]), args, &plain(&["EXEC"])]);
        let (_, _, executed) = (client.receive(), client.receive(), client.receive());
        executed.parts().first().cloned().unwrap_or(executed)
    }

    /// What a random choice is made from.
    fn content_for(&mut self, name: &str, args: &[Vec<u8>]) -> Option<Reply> {
        let key = args.get(1).map(Vec::as_slice);
        let command: &[&[u8]] = match (name, key) {
            ("spop" | "srandmember", Some(key)) => &[b"SMEMBERS", key],
            ("hrandfield", Some(key)) => &[b"HGETALL", key],
            ("zrandmember", Some(key)) => &[b"ZRANGE", key, b"0", b"-1", b"WITHSCORES"],
            ("randomkey", _) => &[b"KEYS", b"*"],
            _ => return None,
        };
        let command: Vec<Vec<u8>> = command.iter().map(|arg| arg.to_vec()).collect();
        Some(self.memory(&command, false))
    }

    /// Both sides have chosen their own members. Those that Redis has chosen are the ones that are gone.
    fn pop_the_same(&mut self, key: &[u8], redis: &Reply, memory: &Reply) {
        let (redis, memory) = (redis.leaves(), memory.leaves());
        for (command, from, but) in [("SADD", &memory, &redis), ("SREM", &redis, &memory)] {
            let but: BTreeSet<_> = but.iter().collect();
            let members = from.iter().filter(|member| !but.contains(member)).map(|member| member.to_vec());
            let command: Vec<_> = [command.into(), key.to_vec()].into_iter().chain(members).collect();
            if command.len() > 2 {
                self.memory(&command, false);
            }
        }
        self.memory.events.clear();
    }

    /// Compares whole iterations.
    fn scan(&mut self, args: &[Vec<u8>], at: usize, resp3: bool) -> Result<(), Difference> {
        let mut found = [Vec::new(), Vec::new()];
        let mut first = [const { None }; 2];
        let is_whole = args.get(at).is_some_and(|cursor| cursor == b"0");
        for side in 0..2 {
            let mut args = args.to_vec();
            for _ in 0..10_000 {
                let reply = if side == 0 {
                    self.clients[usize::from(resp3)].ask(&args)
                } else {
                    self.memory(&args, resp3)
                };
                if let [cursor, items] = reply.parts() {
                    args[at] = cursor.bytes().to_vec();
                    found[side].extend(items.parts().to_vec());
                }
                first[side].get_or_insert(reply);
                if !is_whole || args[at] == b"0" || first[side].as_ref().is_some_and(Reply::is_error) {
                    break;
                }
            }
        }
        self.redis_events();
        self.memory.events.clear();
        let [Some(redis), Some(memory)] = first else { return Ok(()) };
        let name = String::from_utf8_lossy(&args[0]).to_ascii_lowercase();
        self.replies.entry(name).or_default()[usize::from(redis.is_error())] += 1;
        if deliberate::is_unknown_cursor(&memory) && !is_whole {
            return Ok(());
        }
        if redis.is_error() || memory.is_error() {
            return if redis == memory || deliberate::are_errors_alike(&redis, &memory) {
                Ok(())
            } else {
                Err(Difference::between("reply", &redis, &memory))
            };
        }
        if !is_whole {
            return Ok(());
        }
        let width = if args[0].eq_ignore_ascii_case(b"HSCAN") || args[0].eq_ignore_ascii_case(b"ZSCAN") {
            2
        } else {
            1
        };
        let [mut redis, mut memory] = found.map(|mut found| {
            if args[0].eq_ignore_ascii_case(b"ZSCAN") {
                found.iter_mut().skip(1).step_by(2).for_each(deliberate::print_score);
            }
            let mut items: Vec<Vec<Reply>> = found.chunks(width).map(<[Reply]>::to_vec).collect();
            items.sort();
            items
        });
        // Redis may show something twice, and does when a table has grown.
        redis.dedup();
        if redis == memory {
            return Ok(());
        }
        let is_twice = memory.windows(2).any(|pair| pair[0] == pair[1]);
        let (only_redis, only_memory) = (redis.clone(), memory.clone());
        redis.retain(|item| !only_memory.contains(item));
        memory.retain(|item| !only_redis.contains(item));
        let what = if is_twice { "iteration, with something twice" } else { "iteration, what only one has" };
        Err(Difference::between(what, &redis, &memory))
    }

    /// Compares all that is in all databases.
    pub(crate) fn compare_all(&mut self) -> Result<(), (Vec<u8>, Difference)> {
        self.elements_max = self.elements_max.max(self.memory.elements());
        let current = self.memory.database;
        let mut found = Ok(());
        for database in 0..DATABASES {
            self.select(database);
            let redis = self.keys();
            let memory = self.memory(&plain(&["KEYS", "*"]), false);
            let mut memory: Vec<Vec<u8>> = memory.parts().iter().map(|key| key.bytes().to_vec()).collect();
            memory.sort();
            if redis != memory {
                let odd = redis.iter().find(|key| !memory.contains(key));
                let odd = odd.or_else(|| memory.iter().find(|key| !redis.contains(key))).cloned();
                let texts =
                    |keys: &[Vec<u8>]| keys.iter().map(|key| key.escape_ascii().to_string()).collect();
                let (redis, memory): (Vec<String>, Vec<String>) = (texts(&redis), texts(&memory));
                found = Err((odd.unwrap_or_default(), Difference::between("keys", &redis, &memory)));
                break;
            }
            let first = redis.into_iter().find_map(|key| Some((key.clone(), self.compare_key(&key).err()?)));
            if let Some(first) = first {
                found = Err(first);
                break;
            }
        }
        self.select(current);
        self.redis_events();
        self.memory.events.clear();
        found
    }

    /// Compares what `key` has.
    fn compare_key(&mut self, key: &[u8]) -> Result<(), Difference> {
        let ask = |words: &[&[u8]]| words.iter().map(|word| word.to_vec()).collect::<Vec<_>>();
        let Some(content) = self.content_of(key) else { return Ok(()) };
        for command in [&ask(&[b"TYPE", key]), &content] {
            let name = String::from_utf8_lossy(&command[0]).to_ascii_lowercase();
            let (redis, memory) = (self.redis(command), self.memory(command, false));
            let (redis, memory) = (in_order(&name, redis), in_order(&name, memory));
            if redis != memory {
                let what = format!("state of {}", key.escape_ascii());
                return Err(Difference::between(&what, &redis, &memory));
            }
        }
        let command = ask(&[b"PEXPIRETIME", key]);
        let (redis, memory) = (self.redis(&command), self.memory(&command, false));
        if !are_alike("pexpiretime", &redis, &memory, 0) {
            let what = format!("expiry of {}", key.escape_ascii());
            return Err(Difference::between(&what, &redis, &memory));
        }
        Ok(())
    }

    /// `memory` gets what Redis has for `key`.
    fn take_over(&mut self, key: &[u8]) {
        self.memory(&[b"DEL".to_vec(), key.to_vec()], false);
        let Some(content) = self.content_of(key) else { return };
        let reply = self.redis(&content);
        let parts: Vec<Vec<u8>> = reply.leaves().into_iter().map(<[u8]>::to_vec).collect();
        let (command, parts) = match &content[0][..] {
            b"GET" => ("SET", parts),
            b"HGETALL" => ("HSET", parts),
            b"SMEMBERS" => ("SADD", parts),
            b"LRANGE" => ("RPUSH", parts),
            _ => ("ZADD", parts.chunks(2).flat_map(|pair| [pair[1].clone(), pair[0].clone()]).collect()),
        };
        let command: Vec<_> = [command.into(), key.to_vec()].into_iter().chain(parts).collect();
        self.memory(&command, false);
        let expires = self.redis(&[b"PEXPIRETIME".to_vec(), key.to_vec()]);
        if expires.integer().is_some_and(|at| at > 0) {
            self.memory(&[b"PEXPIREAT".to_vec(), key.to_vec(), expires.bytes().to_vec()], false);
        }
    }

    /// The command that returns what `key` has.
    fn content_of(&mut self, key: &[u8]) -> Option<Vec<Vec<u8>>> {
        let kind = self.redis(&[b"TYPE".to_vec(), key.to_vec()]);
        let command: &[&[u8]] = match kind.bytes() {
            b"string" => &[b"GET", key],
            b"hash" => &[b"HGETALL", key],
            b"set" => &[b"SMEMBERS", key],
            b"zset" => &[b"ZRANGE", key, b"0", b"-1", b"WITHSCORES"],
            b"list" => &[b"LRANGE", key, b"0", b"-1"],
            _ => return None,
        };
        Some(command.iter().map(|word| word.to_vec()).collect())
    }

    /// Deletes all keys of `memory`, one by one, and counts what is left of them.
    pub(crate) fn left_by_deletion(&mut self) -> usize {
        self.memory.in_transaction = false;
        self.memory(&plain(&["DBSIZE"]), false);
        for database in 0..DATABASES {
            self.select(database);
            for key in self.keys() {
                self.memory(&[b"DEL".to_vec(), key], false);
            }
        }
        self.memory.elements()
    }
}

/// The arguments as bytes, for a clock that the test's is ahead of by so many seconds.
pub(crate) fn written(args: &[Arg], ahead_s: i64) -> Vec<Vec<u8>> {
    let bytes = |arg: &Arg| match arg {
        Arg::Plain(bytes) => bytes.clone(),
        Arg::Relative { seconds, parts } => ((seconds + ahead_s) * parts).to_string().into_bytes(),
    };
    args.iter().map(bytes).collect()
}

fn place_of_cursor(name: &str) -> Option<usize> {
    match name {
        "scan" => Some(1),
        "hscan" | "sscan" | "zscan" => Some(2),
        _ => None,
    }
}
