//! Repeats a transaction until it commits.

use std::sync::Arc;
use std::time::Duration;

use super::{LockTable, Txn, TxnOptions};
use crate::error::{Error, ErrorKind, Result};
use crate::store::Owner;

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
        // A transaction that waited for a lock in vain has waited long enough.
        let is_transient = |error: &Error| matches!(error.kind(), ErrorKind::Conflict | ErrorKind::Deadlock);
        if tries == TRIES_MAX || !done.as_ref().is_err_and(is_transient) {
            return done;
        }
        // A random time, so that two conflicting transactions do not meet again.
        let longest = (PAUSE_US << (tries - 1).min(16)).min(PAUSE_US_MAX);
        let pause = store.env().random.next_u64() % (longest + 1);
        store.env().clock.sleep(Duration::from_micros(pause));
    }
}
