//! The clients of a history: what they do, and what they write down.

use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use super::check::Operation;
use super::model::{PAD_BYTES, PAD_MARK};
use crate::support::Rng;
use esker_server::Address;
use test_kit::redis::{Client, Value, encoded, is_timeout};

/// How long a kill may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// So many operations each client of a history does, or one of its pipelines more.
pub(super) const OPERATIONS: usize = 8;

/// Where the servers of all histories listen, and when each of them had died.
#[derive(Default)]
pub(super) struct Servers(Mutex<Vec<(Vec<Address>, Option<u64>)>>);

impl Servers {
    pub(super) fn add(&self, addresses: &[Address]) {
        self.0.lock().unwrap().push((addresses.to_vec(), None));
    }

    /// The last server cannot do anything more.
    pub(super) fn note_death(&self, at: u64) {
        self.0.lock().unwrap().last_mut().unwrap().1 = Some(at);
    }

    /// The number of the server that lives, and where it listens.
    fn living(&self) -> Option<(usize, Vec<Address>)> {
        let servers = self.0.lock().unwrap();
        let (addresses, death) = servers.last()?;
        death.is_none().then(|| (servers.len() - 1, addresses.clone()))
    }

    fn death_of(&self, number: usize) -> Option<u64> {
        self.0.lock().unwrap()[number].1
    }
}

/// What the clients of a history share.
pub(super) struct History<'a> {
    pub(super) servers: &'a Servers,
    pub(super) clock: Instant,
    /// In front of all its keys.
    pub(super) prefix: String,
    /// How many operations were answered.
    pub(super) answered: &'a AtomicUsize,
}

impl History<'_> {
    fn now(&self) -> u64 {
        self.clock.elapsed().as_nanos() as u64
    }
}

/// An operation of which nobody has read the reply, and the server that it was sent to.
struct Lost {
    operation: Operation,
    server: usize,
}

pub(super) struct Clerk<'a> {
    history: &'a History<'a>,
    rng: Rng,
    /// The number of the client; and how many values it has made.
    id: usize,
    values: usize,
    pipelines: usize,
    /// The value of each key that it has seen last.
    seen: HashMap<String, String>,
    connection: Option<(usize, Client)>,
    done: Vec<Operation>,
    lost: Vec<Lost>,
}

fn words(text: &str) -> Vec<String> {
    text.split(' ').map(str::to_owned).collect()
}

/// The bytes that stand for an argument.
fn padded(argument: &str) -> Vec<u8> {
    let Some(rest) = argument.strip_prefix(PAD_MARK) else { return argument.as_bytes().to_vec() };
    let mut bytes = vec![b'.'; PAD_BYTES];
    bytes.extend_from_slice(rest.as_bytes());
    bytes
}

/// A reply as the model makes it.
fn unpadded(reply: &Value) -> String {
    let pad = ".".repeat(PAD_BYTES);
    reply.to_string().replace(&pad, &PAD_MARK.to_string())
}

fn bytes_of(command: &[String]) -> Vec<u8> {
    encoded(&command.iter().map(|argument| padded(argument)).collect::<Vec<_>>())
}

impl<'a> Clerk<'a> {
    pub(super) fn new(history: &'a History<'a>, id: usize, rng: Rng) -> Clerk<'a> {
        let (seen, connection) = (HashMap::new(), None);
        Clerk {
            history,
            rng,
            id,
            values: 0,
            pipelines: 0,
            seen,
            connection,
            done: Vec::new(),
            lost: Vec::new(),
        }
    }

    /// Does all operations. Those whose reply was lost end with their server, if it has died; the caller asks when all
    /// servers have.
    pub(super) fn run(mut self) -> Record {
        let mut count = 0;
        while count < OPERATIONS {
            let pipeline: Vec<Vec<Vec<String>>> = match self.rng.below(10) {
                0 => (0..2 + self.rng.below(2)).map(|_| vec![self.command(false)]).collect(),
                1 | 2 => vec![self.transaction()],
                3 => {
                    self.swap_watched();
                    count += 1;
                    continue;
                }
                _ => vec![vec![self.command(true)]],
            };
            count += pipeline.len();
            self.send(pipeline);
        }
        Record { done: self.done, lost: self.lost }
    }

    fn key(&self, name: &str) -> String {
        format!("{}{name}", self.history.prefix)
    }

    /// A value that nobody else makes.
    fn value(&mut self) -> String {
        self.values += 1;
        format!("{}.{}", self.id, self.values)
    }

    /// Draws commands that take effect together, of which those about lists are about the same one: a client that waits for
    /// two lists, which one transaction fills, gets an element of the one that was filled first, as in Redis, and no state
    /// tells which one that was.
    fn transaction(&mut self) -> Vec<Vec<String>> {
        let lists = [self.key("l"), self.key("m")];
        let mut chosen = None;
        let mut commands: Vec<Vec<String>> =
            (0..2 + self.rng.below(3)).map(|_| self.command(false)).collect();
        commands.retain(|command| {
            let used: Vec<&String> = command.iter().filter(|word| lists.contains(word)).collect();
            match used[..] {
                [] => true,
                [list] => chosen.get_or_insert_with(|| list.clone()) == list,
                _ => false,
            }
        });
        if commands.is_empty() { vec![self.command(true)] } else { commands }
    }

    /// Draws a command that, unless it may block, answers at once.
    fn command(&mut self, may_block: bool) -> Vec<String> {
        let (s, c, l, m, b) = (self.key("s"), self.key("c"), self.key("l"), self.key("m"), self.key("b"));
        let (list, other) = if self.rng.below(2) == 0 { (&l, &m) } else { (&m, &l) };
        let sides = ["LEFT", "RIGHT"];
        let (from, to) = (sides[self.rng.below(2) as usize], sides[self.rng.below(2) as usize]);
        let v = self.value();
        let seen = self.seen.get(&s).cloned().unwrap_or_else(|| v.clone());
        // A null says nothing about the time before it, so a wait need not be long.
        let wait = ["0.002", "0.02", "0.2"][self.rng.below(3) as usize];
        let text = match self.rng.below(if may_block { 33 } else { 28 }) {
            0..=2 => format!("GET {s}"),
            3 => format!("MGET {s} {c} {b}"),
            4 => format!("SET {s} {v}"),
            5 | 6 => format!("SET {s} {v} GET"),
            7..=9 => format!("CAS {s} {seen} {v}"),
            10 => format!("CAD {s} {seen}"),
            11 => format!("DEL {}", if self.rng.below(4) == 0 { &c } else { &s }),
            12..=14 => format!("INCRBY {c} {}", 1 + self.rng.below(3)),
            15 => format!("MSET {s} {v} {b} P{v}"),
            16 => format!("SET {b} P{v}"),
            17 | 18 => format!("APPEND {b} ,{v}"),
            19 => [format!("STRLEN {b}"), format!("GET {b}")][self.rng.below(2) as usize].clone(),
            20 | 21 => format!("LPUSH {list} {v}"),
            22 => format!("RPUSH {list} {v} {}", self.value()),
            23 => format!("LPOP {list}"),
            24 => format!("RPOP {list}"),
            25 => [format!("LLEN {list}"), format!("GET {c}")][self.rng.below(2) as usize].clone(),
            26 => format!("LRANGE {list} 0 -1"),
            27 => format!("LMOVE {list} {other} {from} {to}"),
            28 | 29 => format!("BLPOP {list} {wait}"),
            30 => format!("BRPOP {list} {other} {wait}"),
            31 => format!("BLPOP {other} {list} {wait}"),
            _ => format!("BLMOVE {list} {other} {from} {to} {wait}"),
        };
        words(&text)
    }

    /// The connection, to the last server if there was none.
    fn connection(&mut self) -> (usize, &mut Client) {
        while self.connection.is_none() {
            let Some((number, addresses)) = self.history.servers.living() else {
                // The next one is on its way.
                test_kit::pause();
                continue;
            };
            let address = &addresses[self.rng.below(addresses.len() as u64) as usize];
            let client = Client::try_connect(address);
            // The next server may listen to the same socket: if this one lives still, it is this one.
            if self.history.servers.living().is_some_and(|(still, _)| still == number) {
                self.connection = client.ok().map(|client| (number, client));
            }
        }
        let (number, client) = self.connection.as_mut().unwrap();
        (*number, client)
    }

    /// A connection has ended: its server is being killed, or it had no reason to.
    fn wait_for_death(&mut self, server: usize) {
        self.connection = None;
        let begin = Instant::now();
        while self.history.servers.death_of(server).is_none() {
            assert!(begin.elapsed() < PATIENCE, "a server that lives has closed a connection");
            test_kit::pause();
        }
    }

    /// Sends operations, all at once, and reads the replies.
    fn send(&mut self, pipeline: Vec<Vec<Vec<String>>>) {
        let mut bytes = Vec::new();
        for commands in &pipeline {
            if let [command] = &commands[..] {
                bytes.extend(bytes_of(command));
            } else {
                bytes.extend(encoded(&["MULTI"]));
                commands.iter().for_each(|command| bytes.extend(bytes_of(command)));
                bytes.extend(encoded(&["EXEC"]));
            }
        }
        let clock = self.history.clock;
        // Now and then it goes without waiting for the replies.
        let goes = self.rng.below(60) == 0;
        let (server, client) = self.connection();
        let called = clock.elapsed().as_nanos() as u64;
        let mut is_there = client.try_send_bytes(&bytes).is_ok();
        let mut answers = Vec::new();
        for commands in &pipeline {
            let replies = if is_there && !goes { read(client, commands.len()) } else { None };
            is_there &= replies.is_some();
            answers.push((replies, clock.elapsed().as_nanos() as u64));
        }
        if goes {
            self.connection = None;
        } else if !is_there {
            self.wait_for_death(server);
        }
        self.pipelines += 1;
        for (commands, (replies, ended)) in pipeline.into_iter().zip(answers) {
            self.note(server, commands, called, ended, replies);
        }
    }

    fn note(
        &mut self,
        server: usize,
        commands: Vec<Vec<String>>,
        called: u64,
        ended: u64,
        replies: Option<Vec<String>>,
    ) {
        let is_lost = replies.is_none();
        if let Some(replies) = &replies {
            for (command, reply) in commands.iter().zip(replies) {
                if command[0] == "GET" {
                    self.seen.insert(command[1].clone(), reply.clone());
                }
            }
            self.history.answered.fetch_add(1, Ordering::Relaxed);
        }
        let operation =
            Operation { commands, called, ended, replies, pipeline: self.id * 1000 + self.pipelines };
        if is_lost {
            self.lost.push(Lost { operation, server });
        } else {
            self.done.push(operation);
        }
    }

    /// Reads a watched key and overwrites it: one step, if `EXEC` does it.
    fn swap_watched(&mut self) {
        let (key, v) = (self.key("s"), self.value());
        let called = self.history.now();
        let (server, client) = self.connection();
        let set = words(&format!("SET {key} {v}"));
        let mut sent = false;
        let mut tried = || {
            client.try_send_bytes(&[encoded(&["WATCH", &key]), encoded(&["GET", &key])].concat()).ok()?;
            next(client)?;
            let found = next(client)?;
            sent = true;
            client
                .try_send_bytes(&[encoded(&["MULTI"]), bytes_of(&set), encoded(&["EXEC"])].concat())
                .ok()?;
            next(client)?;
            next(client)?;
            Some((unpadded(&found), next(client)? != Value::NullArray))
        };
        let came = tried();
        let ended = self.history.now();
        self.pipelines += 1;
        match came {
            // It has had no effect.
            Some((_, false)) => {}
            Some((found, true)) => {
                let commands = vec![words(&format!("GET {key}")), set];
                self.note(server, commands, called, ended, Some(vec![found, "+OK".to_owned()]));
            }
            None => {
                self.wait_for_death(server);
                if sent {
                    self.note(server, vec![set], called, ended, None);
                }
            }
        }
    }
}

/// The next reply. `None`: the connection has ended.
fn next(client: &mut Client) -> Option<Value> {
    match client.try_read() {
        Err(error) if is_timeout(&error) => panic!("the server does not answer"),
        read => read.ok()?,
    }
}

/// The replies to one command, or to a transaction of several. `None`: the connection has ended.
fn read(client: &mut Client, commands: usize) -> Option<Vec<String>> {
    if commands == 1 {
        return Some(vec![unpadded(&next(client)?)]);
    }
    for _ in 0..=commands {
        let queued = next(client)?;
        assert!(matches!(queued, Value::Simple(_)), "{queued}");
    }
    match next(client)? {
        Value::Array(replies) => Some(replies.iter().map(unpadded).collect()),
        other => panic!("no replies of a transaction: {other}"),
    }
}

/// What a client has done.
pub(super) struct Record {
    done: Vec<Operation>,
    lost: Vec<Lost>,
}

impl Record {
    /// All its operations. What was lost has had its effect, if any, before its server died.
    pub(super) fn into_operations(self, servers: &Servers) -> Vec<Operation> {
        let lost = self.lost.into_iter().map(|lost| {
            let ended = servers.death_of(lost.server).unwrap_or(u64::MAX);
            Operation { ended, ..lost.operation }
        });
        // What was sent to a dead server has never happened.
        self.done.into_iter().chain(lost.filter(|lost| lost.called < lost.ended)).collect()
    }
}
