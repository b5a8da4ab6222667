//! What the user of a transaction may choose.

use std::time::Duration;

use crate::options::Durability;

/// How transactions that want the same keys get along (P. Grote and D. Sharkov, "Key-Value Store in Scala", TU Berlin
/// 2018, section 4.2.1, has the two families; it built the second for single calls).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum TxnMode {
    /// Nobody waits: what the transaction relies on is checked when it commits, and it fails with
    /// [`ErrorKind::Conflict`](crate::ErrorKind::Conflict) if another write came in between. Best where that is rare.
    #[default]
    Optimistic,
    /// Keys and ranges are locked as they are used, until the end of the transaction; who comes second waits. Best
    /// where transactions often want the same keys.
    Pessimistic,
}

/// What a transaction does not notice of others. `docs/guarantees.md` says it in full.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Isolation {
    /// Reads see one moment, and no other write to a key that the transaction writes is lost. Two transactions may
    /// each change what the other has read (write skew), but for what is read with
    /// [`Txn::get_for_update`](crate::Txn::get_for_update) and
    /// [`Txn::scan_for_update`](crate::Txn::scan_for_update).
    Snapshot,
    /// As if transactions, and writes outside of them, had happened one after the other. What is read counts
    /// when the transaction has committed, keys that were absent and ranges in which nothing was found included.
    #[default]
    Serializable,
}

/// How a transaction runs.
///
/// # Example
/// ```
/// use esker::{Isolation, TxnMode, TxnOptions};
/// let options = TxnOptions::default().mode(TxnMode::Pessimistic).isolation(Isolation::Snapshot);
/// assert_eq!(TxnOptions::default().isolation, Isolation::Serializable);
/// # assert_eq!(options.mode, TxnMode::Pessimistic);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct TxnOptions {
    /// Default: optimistic.
    pub mode: TxnMode,
    /// Default: serializable.
    pub isolation: Isolation,
    /// How long a pessimistic transaction waits for each lock; zero: not at all. Default: 1 s.
    pub lock_timeout: Duration,
    /// What the commit survives; `None`: what the store's writes do. Default: `None`.
    pub durability: Option<Durability>,
}

impl Default for TxnOptions {
    fn default() -> Self {
        TxnOptions {
            mode: TxnMode::Optimistic,
            isolation: Isolation::Serializable,
            lock_timeout: Duration::from_secs(1),
            durability: None,
        }
    }
}

impl TxnOptions {
    /// Sets [`TxnOptions::mode`].
    #[must_use]
    pub fn mode(mut self, mode: TxnMode) -> Self {
        self.mode = mode;
        self
    }

    /// Sets [`TxnOptions::isolation`].
    #[must_use]
    pub fn isolation(mut self, isolation: Isolation) -> Self {
        self.isolation = isolation;
        self
    }

    /// Sets [`TxnOptions::lock_timeout`].
    #[must_use]
    pub fn lock_timeout(mut self, timeout: Duration) -> Self {
        self.lock_timeout = timeout;
        self
    }

    /// Sets [`TxnOptions::durability`].
    #[must_use]
    pub fn durability(mut self, durability: Durability) -> Self {
        self.durability = Some(durability);
        self
    }
}
