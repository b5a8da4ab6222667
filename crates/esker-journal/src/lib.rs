//! The one way by which a change of data leaves a front end: the server of Redis' clients, and tables.
//!
//! ```text
//! front end: evaluates on a ground ---- batch ----> Journal::propose ----> done, refused or unknown
//!                                                        |
//!                                  Local: one store, one log, decided within the call
//! ```
//! A *place* is one log: its entries take effect in the order of their proposal. [`Local`] has one place, the store of this
//! process.
//!
//! A proposal ends in one of three ways ([`Outcome`]):
//! - *done*: the entry has taken effect, whole;
//! - *refused*: it certainly has no effect, and may be evaluated again;
//! - *unknown*: it may have taken effect or not. It is never proposed a second time.
//!
//! What is proposed while earlier entries are undecided was evaluated on these. If one of them is refused or unknown, the
//! [`Ground`] is lost: all later entries on the same ground are refused.

#[cfg(feature = "testing")]
pub mod late;
mod local;
mod outcome;
mod pending;

use esker::{Batch, Db, Tree, TreeOptions, ValueWriter, WriteToken};

pub use local::Local;
pub use outcome::{Outcome, Undone};
pub use pending::{Decider, Pending, Proposed};

/// The time by which commands are evaluated, and by which entries expire.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Moment {
    /// Microseconds since 1970. It never goes back within one journal.
    pub now_us: u64,
    /// By how many microseconds it is ahead of the machine's clock.
    pub ahead_us: u64,
}

/// On what commands are evaluated: the store, and the entries that were proposed on this ground and are undecided.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ground(pub u64);

/// Through which front ends change data. See the page's beginning.
pub trait Journal: Send + Sync {
    /// The store, for reads, figures and backups. Only the journal writes to it.
    fn db(&self) -> &Db;

    /// Whether each proposal is decided within the call. Then [`Journal::propose`] belongs on a thread that may wait for the
    /// disk; of another journal it belongs on the thread that knows the order of entries.
    fn is_immediate(&self) -> bool;

    /// The time by which the next command is evaluated.
    fn moment(&self) -> Moment;

    /// The ground for commands that are evaluated from now on. It is asked before the store is read.
    fn ground(&self) -> Ground;

    /// Proposes `batch`, which was evaluated on `ground`, as durably as the place promises. May wait for the decision. The
    /// journal may take the content of `batch`. The front ends bound the bytes in flight.
    fn propose(&self, ground: Ground, batch: &mut Batch) -> Proposed;

    /// [`Journal::propose`] on a thread that may not wait. It comes to `Refused` with `Busy` or `NeedsIo` if that takes a
    /// wait, and `batch` has its content then.
    fn try_propose(&self, ground: Ground, batch: &mut Batch) -> Proposed;

    /// [`Journal::propose`] of what has to survive power loss when it is done.
    fn propose_durably(&self, ground: Ground, batch: &mut Batch) -> Proposed;

    /// A barrier for reads: it is done when this node certainly decided at some moment after the call. What was read of the store
    /// before the call was not out of date then.
    fn confirm(&self) -> Proposed;

    /// A place in the log after all entries that are done. It does not wait.
    ///
    /// # Errors
    /// If the store has failed or is closed.
    fn barrier(&self) -> esker::Result<WriteToken>;

    /// The tree `name`, which is made if it is missing, and gets `tag` if it has none and is empty.
    ///
    /// # Errors
    /// If the store fails.
    fn make_tree(&self, name: &str, tag: Option<&str>) -> esker::Result<Tree>;

    /// Makes the tree `name`, durably.
    ///
    /// # Errors
    /// If there is one, or the store fails.
    fn new_tree(&self, name: &str, options: TreeOptions) -> esker::Result<Tree>;

    /// Removes the tree `name`, durably.
    ///
    /// # Errors
    /// If the store fails.
    fn remove_tree(&self, name: &str) -> esker::Result<()>;

    /// Makes of the keys of `tree` from `from` on a tree of their own, durably.
    ///
    /// # Errors
    /// As [`Db::split`].
    fn split_tree(&self, tree: &Tree, from: &[u8], name: &str) -> esker::Result<Tree>;

    /// Gives `tree` another tag, durably.
    ///
    /// # Errors
    /// If the store fails.
    fn tag_tree(&self, tree: &Tree, tag: &str) -> esker::Result<()>;

    /// A writer of a huge value for any key of `tree`. A reader finds the value when an entry that gives it to a key is done.
    ///
    /// # Errors
    /// If the store fails.
    fn writer(&self, tree: &Tree) -> esker::Result<ValueWriter>;
}
