//! What the server counts and times: for `INFO`, `SLOWLOG`, `LATENCY` and `/metrics`.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use esker_redis::Lookups;

use crate::clients::End;
use crate::latency::Histogram;
use crate::latency_monitor::Monitor;
use crate::why::{ToPool, Why};

/// The most arguments of a slow command that are kept, and the most bytes of each.
const SLOW_ARGUMENTS: usize = 32;
const SLOW_ARGUMENT_BYTES: usize = 128;

/// How many first words of errors are counted apart.
const ERROR_KINDS_MAX: usize = 128;

/// How often a command was called, and how long it took.
#[derive(Clone, Default)]
pub(crate) struct Calls {
    pub(crate) calls: u64,
    pub(crate) us: u64,
    /// Those that did not get as far as to run.
    pub(crate) rejected: u64,
    /// Those that were answered by an error.
    pub(crate) failed: u64,
    /// Of those that were timed: within `EXEC`, commands are not.
    pub(crate) latency: Option<Histogram>,
}

/// The figures of commands, by name.
#[derive(Default)]
struct Commands {
    all: Vec<(&'static str, Calls)>,
    places: HashMap<&'static str, usize>,
    /// The last command's place: often the next one is the same.
    last: usize,
}

impl Commands {
    #[inline]
    fn of(&mut self, name: &'static str) -> &mut Calls {
        // Equal addresses are equal names, and most often the reverse.
        let is_last = self.all.get(self.last).is_some_and(|(last, _)| std::ptr::eq(*last, name));
        if !is_last {
            self.last = *self.places.entry(name).or_insert_with(|| {
                self.all.push((name, Calls::default()));
                self.all.len() - 1
            });
        }
        &mut self.all[self.last].1
    }
}

/// A slow command.
#[derive(Debug, Clone)]
pub(crate) struct Slow {
    pub(crate) id: u64,
    /// In seconds since 1970.
    pub(crate) at_s: u64,
    pub(crate) us: u64,
    pub(crate) arguments: Vec<Vec<u8>>,
    pub(crate) address: String,
    pub(crate) name: Vec<u8>,
    pub(crate) command: &'static str,
    pub(crate) why: Why,
}

/// How often something happened, and how long it took.
#[derive(Debug, Default)]
pub(crate) struct Times {
    pub(crate) count: Cell<u64>,
    pub(crate) us: Cell<u64>,
}

impl Times {
    pub(crate) fn add(&self, time: Duration) {
        add(&self.count, 1);
        add(&self.us, time.as_micros() as u64);
    }
}

/// See the module's comment.
#[derive(Default)]
pub(crate) struct Figures {
    /// When the server began, in microseconds since 1970.
    pub(crate) began_us: u64,
    pub(crate) connections: Cell<u64>,
    pub(crate) refused_connections: Cell<u64>,
    /// Connections that the server has ended, by reason.
    ended: RefCell<BTreeMap<End, u64>>,
    pub(crate) commands: Cell<u64>,
    pub(crate) errors: Cell<u64>,
    pub(crate) bytes_in: Cell<u64>,
    pub(crate) bytes_out: Cell<u64>,
    /// Reads from sockets that gave something, and replies that were sent.
    pub(crate) socket_reads: Cell<u64>,
    pub(crate) socket_writes: Cell<u64>,
    /// How often commands looked for a key to read it, and it was there or not.
    pub(crate) hits: Cell<u64>,
    pub(crate) misses: Cell<u64>,
    /// Keys and elements that were written or deleted.
    pub(crate) changes: Cell<u64>,
    /// Errors by their first word.
    errors_by_kind: RefCell<BTreeMap<String, u64>>,
    /// Commands that other threads did.
    pub(crate) in_pool: Cell<u64>,
    /// Why commands went to other threads.
    to_pool: [Cell<u64>; ToPool::ALL.len()],
    /// Waits for keys that other commands held.
    pub(crate) key_waits: Times,
    /// Batches that were written on the event loop.
    pub(crate) commits: Cell<u64>,
    /// Batches that the event loop left to the pool.
    pub(crate) pool_commits: Times,
    pub(crate) failed_commits: Cell<u64>,
    /// Waits until replies may be sent that promise durability.
    pub(crate) sync_waits: Times,
    pub(crate) failed_syncs: Cell<u64>,
    pub(crate) sweeps: Times,
    pub(crate) failed_sweeps: Cell<u64>,
    pub(crate) http_requests: Cell<u64>,
    pub(crate) refused_http: Cell<u64>,
    /// Passwords that were wrong or not compared, and commands that were refused because of themselves, of their keys or
    /// databases, and of their channels.
    pub(crate) denied_logins: Cell<u64>,
    pub(crate) denied_commands: Cell<u64>,
    pub(crate) denied_keys: Cell<u64>,
    pub(crate) denied_channels: Cell<u64>,
    /// TLS handshakes that did not succeed; counted on another thread.
    pub(crate) failed_handshakes: Arc<AtomicU64>,
    by_command: RefCell<Commands>,
    slow: RefCell<VecDeque<Slow>>,
    pub(crate) slow_seen: Cell<u64>,
    pub(crate) monitor: RefCell<Monitor>,
}

/// Adds to a counter.
pub(crate) fn add(counter: &Cell<u64>, by: u64) {
    counter.set(counter.get().wrapping_add(by));
}

impl Figures {
    pub(crate) fn new(began_us: u64) -> Figures {
        Figures { began_us, ..Figures::default() }
    }

    /// Notes a command that has run, how long it took if it was timed, and whether its answer was an error.
    #[inline]
    pub(crate) fn note_call(&self, name: &'static str, took: Option<Duration>, failed: bool) {
        add(&self.commands, 1);
        add(&self.errors, u64::from(failed));
        let mut by_command = self.by_command.borrow_mut();
        let calls = by_command.of(name);
        calls.calls += 1;
        calls.failed += u64::from(failed);
        if let Some(took) = took {
            calls.us += took.as_micros() as u64;
            calls.latency.get_or_insert_default().add(took.as_nanos() as u64);
        }
    }

    /// Notes an error, whose message this is the beginning of.
    #[cold]
    pub(crate) fn note_error(&self, message: &[u8]) {
        let end = message.iter().position(|byte| !byte.is_ascii_uppercase()).unwrap_or(message.len());
        let kind = if end == 0 { "ERR".into() } else { String::from_utf8_lossy(&message[..end]) };
        let mut by_kind = self.errors_by_kind.borrow_mut();
        if let Some(count) = by_kind.get_mut(&*kind) {
            *count += 1;
        } else if by_kind.len() < ERROR_KINDS_MAX {
            by_kind.insert(kind.into_owned(), 1);
        }
    }

    pub(crate) fn errors_by_kind(&self) -> BTreeMap<String, u64> {
        self.errors_by_kind.borrow().clone()
    }

    pub(crate) fn note_lookups(&self, lookups: Lookups) {
        add(&self.hits, lookups.hits);
        add(&self.misses, lookups.misses);
    }

    /// Notes a command that was not allowed to run.
    pub(crate) fn note_rejected(&self, name: &'static str) {
        add(&self.errors, 1);
        self.by_command.borrow_mut().of(name).rejected += 1;
    }

    /// Notes that a command goes to the pool.
    pub(crate) fn note_to_pool(&self, why: ToPool) {
        add(&self.to_pool[why as usize], 1);
    }

    pub(crate) fn to_pool(&self) -> impl Iterator<Item = (ToPool, u64)> {
        ToPool::ALL.into_iter().map(|why| (why, self.to_pool[why as usize].get()))
    }

    /// Notes that the server has ended a connection.
    pub(crate) fn note_end(&self, why: End) {
        *self.ended.borrow_mut().entry(why).or_default() += 1;
    }

    pub(crate) fn ended(&self, why: End) -> u64 {
        self.ended.borrow().get(&why).copied().unwrap_or(0)
    }

    pub(crate) fn by_command(&self) -> BTreeMap<&'static str, Calls> {
        self.by_command.borrow().all.iter().cloned().collect()
    }

    /// How long all timed commands took together, in microseconds.
    pub(crate) fn command_us(&self) -> u64 {
        self.by_command.borrow().all.iter().map(|(_, calls)| calls.us).sum()
    }

    /// What `CONFIG RESETSTAT` begins anew.
    pub(crate) fn reset(&self) {
        for counter in [&self.connections, &self.refused_connections, &self.commands, &self.errors] {
            counter.set(0);
        }
        for counter in [&self.bytes_in, &self.bytes_out, &self.in_pool, &self.hits, &self.misses] {
            counter.set(0);
        }
        for counter in [&self.socket_reads, &self.socket_writes] {
            counter.set(0);
        }
        self.errors_by_kind.borrow_mut().clear();
        *self.by_command.borrow_mut() = Commands::default();
        for counter in [&self.denied_logins, &self.denied_commands, &self.denied_keys, &self.denied_channels]
        {
            counter.set(0);
        }
        self.failed_handshakes.store(0, Ordering::Relaxed);
    }

    /// Numbers a slow command, as `SLOWLOG` and the log show it.
    pub(crate) fn numbered(&self, slow: Slow) -> Slow {
        let id = self.slow_seen.get();
        self.slow_seen.set(id + 1);
        Slow { id, ..slow }
    }

    /// Notes a slow command, and keeps the last `most` of them.
    pub(crate) fn note_slow(&self, slow: Slow, most: usize) {
        let mut kept = self.slow.borrow_mut();
        kept.push_front(slow);
        kept.truncate(most);
    }

    pub(crate) fn slow(&self) -> Vec<Slow> {
        self.slow.borrow().iter().cloned().collect()
    }

    pub(crate) fn forget_slow(&self) {
        self.slow.borrow_mut().clear();
    }
}

/// The arguments of a slow command as they are kept: the first ones, and their beginnings.
pub(crate) fn shortened(arguments: &[&[u8]]) -> Vec<Vec<u8>> {
    let kept = if arguments.len() > SLOW_ARGUMENTS { SLOW_ARGUMENTS - 1 } else { arguments.len() };
    let mut shortened: Vec<Vec<u8>> =
        arguments[..kept].iter().map(|argument| shortened_one(argument)).collect();
    if kept < arguments.len() {
        shortened.push(format!("... ({} more arguments)", arguments.len() - kept).into_bytes());
    }
    shortened
}

pub(crate) fn shortened_one(argument: &[u8]) -> Vec<u8> {
    let Some(more) = argument.len().checked_sub(SLOW_ARGUMENT_BYTES).filter(|more| *more > 0) else {
        return argument.to_vec();
    };
    let mut short = argument[..SLOW_ARGUMENT_BYTES].to_vec();
    short.extend_from_slice(format!("... ({more} more bytes)").as_bytes());
    short
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_told_apart_by_name() {
        let figures = Figures::default();
        let longer = "getset";
        for name in ["get", &longer[..3], longer, "get"] {
            figures.note_call(name, Some(Duration::from_micros(3)), name == longer);
        }
        figures.note_call("get", None, false);
        figures.note_rejected("set");
        let found: Vec<(&str, u64, u64, u64, u64)> = figures
            .by_command()
            .into_iter()
            .map(|(name, calls)| {
                (
                    name,
                    calls.calls,
                    calls.failed,
                    calls.rejected,
                    calls.latency.map_or(0, |latency| latency.count()),
                )
            })
            .collect();
        assert_eq!(found, [("get", 4, 0, 0, 3), ("getset", 1, 1, 0, 1), ("set", 0, 0, 1, 0)]);
    }

    #[test]
    fn slow_commands_are_shortened() {
        let long = vec![b'x'; 200];
        let arguments: Vec<&[u8]> = (0..40).map(|_| long.as_slice()).collect();
        let short = shortened(&arguments);
        assert_eq!((short.len(), short[31].as_slice()), (32, &b"... (9 more arguments)"[..]));
        assert!(short[0].ends_with(b"x... (72 more bytes)"));
        assert_eq!(shortened(&arguments[..32]).len(), 32);
    }
}
