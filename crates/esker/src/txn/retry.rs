//! Repeats a transaction until it commits.

use std::sync::Arc;
use std::time::Duration;

use super::{LockTable, Txn, TxnOptions};
use crate::error::{ErrorKind, Result};
use crate::store::{Owner, Store};

/// How often a transaction is tried.
const TRIES_MAX: u32 = 64;
/// The longest pause after the first try, in microseconds. It doubles with each try, up to [`PAUSE_US_MAX`].
const PAUSE_US: u64 = 50;
const PAUSE_US_MAX: u64 = 12_800;

/// Runs `work` in transactions until one commits or fails with an error that a retry cannot help.
pub(crate) fn transact<T>(
    store: &Arc<Owner>,
    locks: &Arc<LockTable>,
    options: &TxnOptions,
    mut work: impl FnMut(&Txn) -> Result<T>,
) -> Result<T> {
    let mut tries = 0;
    loop {
        let txn = Txn::begin(store, locks, options.clone())?;
        let done = work(&txn).and_then(|made| txn.commit().map(|()| made));
        tries += 1;
        match done {
            Err(error) if is_transient(error.kind()) && tries < TRIES_MAX => pause(store, tries),
            done => return done,
        }
    }
}

/// Whether an immediate retry is likely to help. A transaction that waited for a lock in vain has waited long enough.
fn is_transient(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::Conflict | ErrorKind::Deadlock)
}

/// Sleeps for a random time, so that two conflicting transactions do not meet again.
fn pause(store: &Store, tries: u32) {
    let longest = (PAUSE_US << (tries - 1).min(16)).min(PAUSE_US_MAX);
    let pause = store.env().random.next_u64() % (longest + 1);
    store.env().clock.sleep(Duration::from_micros(pause));
}
