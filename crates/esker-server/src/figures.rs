//! What the server counts and times: for `INFO`, `SLOWLOG` and `LATENCY`.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};

/// The most arguments of a slow command that are kept, and the most bytes of each.
const SLOW_ARGUMENTS: usize = 32;
const SLOW_ARGUMENT_BYTES: usize = 128;

/// How often a command was called, and how long it took.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Calls {
    pub(crate) calls: u64,
    pub(crate) us: u64,
    /// Those that did not get as far as to run.
    pub(crate) rejected: u64,
    /// Those that were answered by an error.
    pub(crate) failed: u64,
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
}

/// See the module's comment.
pub(crate) struct Figures {
    /// When the server began, in microseconds since 1970.
    pub(crate) began_us: u64,
    pub(crate) connections: Cell<u64>,
    pub(crate) refused_connections: Cell<u64>,
    pub(crate) commands: Cell<u64>,
    pub(crate) errors: Cell<u64>,
    pub(crate) bytes_in: Cell<u64>,
    pub(crate) bytes_out: Cell<u64>,
    /// Commands that other threads did.
    pub(crate) in_pool: Cell<u64>,
    by_command: RefCell<BTreeMap<&'static str, Calls>>,
    slow: RefCell<VecDeque<Slow>>,
    slow_seen: Cell<u64>,
}

/// Adds to a counter.
pub(crate) fn add(counter: &Cell<u64>, by: u64) {
    counter.set(counter.get().wrapping_add(by));
}

impl Figures {
    pub(crate) fn new(began_us: u64) -> Figures {
        Figures {
            began_us,
            connections: Cell::default(),
            refused_connections: Cell::default(),
            commands: Cell::default(),
            errors: Cell::default(),
            bytes_in: Cell::default(),
            bytes_out: Cell::default(),
            in_pool: Cell::default(),
            by_command: RefCell::default(),
            slow: RefCell::default(),
            slow_seen: Cell::default(),
        }
    }

    /// Notes a command that has run, and whether its answer was an error.
    pub(crate) fn note_call(&self, name: &'static str, us: u64, failed: bool) {
        add(&self.commands, 1);
        add(&self.errors, u64::from(failed));
        let mut by_command = self.by_command.borrow_mut();
        let calls = by_command.entry(name).or_default();
        calls.calls += 1;
        calls.us += us;
        calls.failed += u64::from(failed);
    }

    /// Notes a command that was not allowed to run.
    pub(crate) fn note_rejected(&self, name: &'static str) {
        add(&self.errors, 1);
        self.by_command.borrow_mut().entry(name).or_default().rejected += 1;
    }

    pub(crate) fn by_command(&self) -> BTreeMap<&'static str, Calls> {
        self.by_command.borrow().clone()
    }

    pub(crate) fn reset(&self) {
        for counter in [&self.connections, &self.refused_connections, &self.commands, &self.errors] {
            counter.set(0);
        }
        for counter in [&self.bytes_in, &self.bytes_out, &self.in_pool] {
            counter.set(0);
        }
        self.by_command.borrow_mut().clear();
    }

    /// Notes a slow command, and keeps the last `most` of them.
    pub(crate) fn note_slow(&self, mut slow: Slow, most: usize) {
        slow.id = self.slow_seen.get();
        self.slow_seen.set(slow.id + 1);
        let count = slow.arguments.len();
        if count > SLOW_ARGUMENTS {
            slow.arguments.truncate(SLOW_ARGUMENTS - 1);
            slow.arguments.push(format!("... ({} more arguments)", count - SLOW_ARGUMENTS + 1).into_bytes());
        }
        for argument in &mut slow.arguments {
            if argument.len() > SLOW_ARGUMENT_BYTES {
                let more = argument.len() - SLOW_ARGUMENT_BYTES;
                argument.truncate(SLOW_ARGUMENT_BYTES);
                argument.extend_from_slice(format!("... ({more} more bytes)").as_bytes());
            }
        }
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
