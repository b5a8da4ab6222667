//! Options of a transaction.

use std::time::Duration;

use crate::options::{Durability, setters};

/// How transactions that use the same keys are kept apart (P. Grote and D. Sharkov, "Key-Value Store in Scala", TU
/// Berlin 2018, section 4.2.1, describes both families and implements the second for single calls).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum TxnMode {
    /// No transaction waits. The commit checks the keys and ranges that the transaction relies on and fails with
    /// [`ErrorKind::Conflict`](crate::ErrorKind::Conflict) if another write came first. Best if conflicts are rare.
    #[default]
    Optimistic,
    /// The transaction locks keys and ranges as it uses them, until it ends; a second transaction waits. Best if
    /// transactions often use the same keys.
    ///
    /// Read the keys that the transaction will write with [`Txn::get_for_update`](crate::Txn::get_for_update) or
    /// [`Txn::scan_for_update`](crate::Txn::scan_for_update). Otherwise two serializable transactions that read the
    /// same key hold shared locks of it, and when both want to write it, each waits for the other: one of them gets
    /// [`ErrorKind::Deadlock`](crate::ErrorKind::Deadlock) and starts over.
    Pessimistic,
}

/// Which effects of other transactions can become visible. `docs/guarantees.md` has the details.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Isolation {
    /// Reads see one moment, and no other write to a key that the transaction writes is lost. Two transactions may each
    /// change a key that the other has read (write skew), unless they read it with
    /// [`Txn::get_for_update`](crate::Txn::get_for_update) or [`Txn::scan_for_update`](crate::Txn::scan_for_update).
    Snapshot,
    /// As if transactions, and writes outside them, had happened one after the other. A read is certain once the
    /// transaction has committed. This includes keys that were absent and ranges that were empty.
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
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct TxnOptions {
    /// Default: optimistic.
    pub mode: TxnMode,
    /// Default: serializable.
    pub isolation: Isolation,
    /// How long a pessimistic transaction waits for each lock; with zero it does not wait. Default: 1 s.
    pub lock_timeout: Duration,
    /// The failures that the commit survives; `None`: the same as the store's other writes. Default: `None`.
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

setters! {
    TxnOptions {
        /// Sets [`TxnOptions::mode`].
        mode: TxnMode,
        /// Sets [`TxnOptions::isolation`].
        isolation: Isolation,
        /// Sets [`TxnOptions::lock_timeout`].
        lock_timeout: Duration,
        /// Sets [`TxnOptions::durability`].
        durability: impl Into<Option<Durability>>,
    }
}
