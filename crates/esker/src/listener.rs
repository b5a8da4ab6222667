//! The calls by which a store informs the program that has opened it.

use std::fmt;
use std::sync::Arc;

/// The writes of a tree that a flush has brought to tables.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct FlushedTree {
    /// The name of the tree.
    pub tree: String,
    /// The name of its group, if it has one.
    pub group: Option<String>,
    /// All writes to the tree with sequence numbers up to this one survive power loss, whether they went to the log or
    /// not.
    pub sequence: u64,
}

/// Receives the events of an open store: [`Options::listener`](crate::Options::listener).
///
/// The store calls it on the thread that has done the work, and may hold locks. A call must return soon, must not panic,
/// and must not call the store, except [`Db::is_durable`](crate::Db::is_durable). It usually wakes another thread.
///
/// # Example
/// ```
/// # fn main() -> esker::Result<()> {
/// use std::sync::mpsc;
/// use esker::{Db, FlushedTree, Listener, Options, TreeOptions};
///
/// struct Tell(mpsc::Sender<FlushedTree>);
/// impl Listener for Tell {
///     fn flushed(&self, trees: &[FlushedTree]) {
///         trees.iter().for_each(|tree| drop(self.0.send(tree.clone())));
///     }
/// }
///
/// let (tell, told) = mpsc::channel();
/// let db = Db::open_in_memory(Options::default().listener(Tell(tell)))?;
/// let rows = db.create_tree("rows", TreeOptions::default().log(false))?;
/// rows.put("applied", "17")?; // by entry 17 of a log of our own
/// rows.flush()?;
/// assert_eq!(told.recv().expect("it was flushed").tree, "rows");
/// // What is here needs no log any more.
/// assert_eq!(rows.get_durable("applied")?.expect("it was flushed").bytes()?[..], *b"17");
/// # Ok(())
/// # }
/// ```
pub trait Listener: Send + Sync {
    /// A flush has brought writes of these trees to tables. A log of your own can be cut up to the entry that
    /// [`Tree::get_durable`](crate::Tree::get_durable) finds, if each of your writes notes its entry in the tree or its
    /// group.
    fn flushed(&self, trees: &[FlushedTree]) {
        let _ = trees;
    }

    /// The log was synced. [`Db::is_durable`](crate::Db::is_durable) returns which writes survive power loss now.
    fn synced(&self) {}

    /// The event has happened that a refused [`Db::try_write`](crate::Db::try_write) would have waited for. Try again.
    fn ready(&self) {}
}

/// A listener that copies of the options share.
#[derive(Clone)]
pub(crate) struct ListenerHandle(Arc<dyn Listener>);

impl ListenerHandle {
    pub(crate) fn new(listener: impl Listener + 'static) -> Self {
        ListenerHandle(Arc::new(listener))
    }

    pub(crate) fn flushed(&self, trees: &[FlushedTree]) {
        self.0.flushed(trees);
    }

    pub(crate) fn synced(&self) {
        self.0.synced();
    }

    pub(crate) fn ready(&self) {
        self.0.ready();
    }
}

impl fmt::Debug for ListenerHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a listener")
    }
}
