//! What the log is told of clients: lines that hostile clients cannot make many of.

use std::cell::Cell;
use std::io;
use std::time::{Duration, Instant};

use tracing::{debug, error, info, warn};

use crate::clients::{Client, End};
use crate::figures::{Slow, shortened_one};
use crate::listen::Address;

/// The most lines of a kind in a second.
const PER_SECOND: u32 = 5;

/// Lets some lines of a kind through, and counts the others.
struct Gate {
    since: Cell<Instant>,
    passed: Cell<u32>,
    skipped: Cell<u64>,
}

impl Default for Gate {
    fn default() -> Self {
        Gate { since: Cell::new(Instant::now()), passed: Cell::default(), skipped: Cell::default() }
    }
}

impl Gate {
    /// How many lines were skipped before this one; `None`: this one is skipped.
    fn pass(&self, now: Instant) -> Option<u64> {
        if now.duration_since(self.since.get()) >= Duration::from_secs(1) {
            self.since.set(now);
            self.passed.set(0);
        }
        if self.passed.get() == PER_SECOND {
            self.skipped.set(self.skipped.get() + 1);
            return None;
        }
        self.passed.set(self.passed.get() + 1);
        Some(self.skipped.take())
    }
}

/// See the module's comment.
#[derive(Default)]
pub(crate) struct Reports {
    refused: Gate,
    ended: Gate,
    slow: Gate,
    slow_waits: Gate,
    failures: Gate,
    wrong_passwords: Gate,
}

impl Reports {
    /// A connection was refused since there are `limit`.
    pub(crate) fn refused(&self, client: &str, limit: usize) {
        if let Some(skipped) = self.refused.pass(Instant::now()) {
            warn!(client, limit, skipped, "connection refused: there are max-clients connections");
        }
    }

    /// The server has ended a connection.
    pub(crate) fn ended(&self, why: End, client: &str) {
        let Some(skipped) = self.ended.pass(Instant::now()) else { return };
        match why {
            End::Idle => debug!(client, why = why.name(), skipped, "connection closed"),
            End::Protocol => info!(client, why = why.name(), skipped, "connection closed"),
            End::SlowReader | End::Outbox | End::Memory => {
                warn!(client, why = why.name(), skipped, "connection closed");
            }
        }
    }

    /// A command was slow. Its values are nobody's business; of its keys the first one is named.
    pub(crate) fn slow(&self, slow: &Slow, key: Option<&[u8]>) {
        let Some(skipped) = self.slow.pass(Instant::now()) else { return };
        let key = key.map(|key| shortened_one(key).escape_ascii().to_string());
        let [keys, thread, evaluated, committed, file_reads, file_bytes] =
            slow.why.figures().map(|(_, figure)| figure);
        warn!(
            command = slow.command,
            key,
            us = slow.us,
            pool = slow.why.pool(),
            waited_for_keys_us = keys,
            waited_for_thread_us = thread,
            evaluated_in_pool_us = evaluated,
            committed_in_pool_us = committed,
            file_reads,
            file_bytes,
            client = slow.address.as_str(),
            id = slow.id,
            skipped,
            "slow command"
        );
    }

    /// Replies have waited long: for `what`.
    pub(crate) fn slow_wait(&self, what: &str, took: Duration, client: &Client) {
        if let Some(skipped) = self.slow_waits.pass(Instant::now()) {
            let us = took.as_micros() as u64;
            warn!(what, us, client = client.address.as_str(), skipped, "replies have waited");
        }
    }

    /// A client has sent a wrong password. Its user is not named: some people type their password there.
    pub(crate) fn wrong_password(&self, client: &Client) {
        if let Some(skipped) = self.wrong_passwords.pass(Instant::now()) {
            warn!(address = client.address.as_str(), skipped, "a client has sent a wrong password");
        }
    }

    /// The system gave no connection, though one may wait: there are no descriptors left, say.
    pub(crate) fn not_accepted(&self, address: &Address, failed: &io::Error) {
        if let Some(skipped) = self.failures.pass(Instant::now()) {
            error!(%address, error = %failed, skipped, "no connection can be accepted");
        }
    }

    /// Something has failed that no client, or not only one, is told of.
    pub(crate) fn failure(&self, what: &str, failed: &esker::Error) {
        if let Some(skipped) = self.failures.pass(Instant::now()) {
            let failed = failed.to_string();
            error!(what, error = failed.as_str(), skipped, "failed");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gate_lets_few_lines_through() {
        let gate = Gate::default();
        let begin = gate.since.get();
        let passed: Vec<Option<u64>> =
            (0..100).map(|ms| gate.pass(begin + Duration::from_millis(ms))).collect();
        assert_eq!(passed.iter().filter(|line| line.is_some()).count(), PER_SECOND as usize);
        assert_eq!(gate.pass(begin + Duration::from_secs(1)), Some(95));
        assert_eq!(gate.pass(begin + Duration::from_secs(1)), Some(0));
    }
}
