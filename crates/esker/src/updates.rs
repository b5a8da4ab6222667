//! The changes of a store in order, read back from the log: for copies, external indexes and caches that follow the
//! store.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use crate::cursor::{Content, Kind, SeqNo};
use crate::error::{Error, ErrorKind, Result};
use crate::log::reader::LogReader;
use crate::operators;
use crate::ranges::KeyRange;
use crate::read::range::ScanRange;
use crate::state::TreeInner;
use crate::store::{Owner, Store};
use crate::value::Value;
use crate::version::edit::TreeId;
use crate::write::batch::{Op, Ops, numbers_taken};

/// The writes after a sequence number, in order: [`Db::updates_since`](crate::Db::updates_since).
///
/// At the end it returns `None`, and continues when more was written; [`Updates::wait`] waits for that. It keeps no log
/// segments: they are reused after a flush. A reader that falls behind by more than
/// [`Options::log_history`](crate::Options::log_history) gets an error of kind `NotFound`, and has to start again with
/// a snapshot.
pub struct Updates {
    store: Arc<Owner>,
    log: LogReader,
    since: SeqNo,
    durable: bool,
    /// The names of trees; `None` if the tree was dropped.
    trees: HashMap<TreeId, Option<Named>>,
}

impl std::fmt::Debug for Updates {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Updates").field("since", &self.since).finish_non_exhaustive()
    }
}

/// Changes that took effect together.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Update {
    /// The sequence number of the last of the changes. To continue after them, pass it to
    /// [`Db::updates_since`](crate::Db::updates_since).
    pub sequence: u64,
    /// The changes in order. If a key occurs twice, the last change counts.
    pub changes: Vec<Change>,
}

/// One change.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Change {
    /// The name of the tree.
    pub tree: Arc<str>,
    /// The kind of the change.
    pub what: What,
    /// When an operand was written, in microseconds since 1970, if the tree has had values that expire: by this time it
    /// extends such a value or begins anew ([`Tree::merge`](crate::Tree::merge)). A copy that keeps its own time
    /// ([`ExpiryClock::Writes`](crate::ExpiryClock)) merges it at that time ([`Tree::at_us`](crate::Tree::at_us)).
    pub operand_us: Option<u64>,
}

/// The effect of a [`Change`].
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum What {
    /// A key got a value, which may have an expiry.
    Put(Vec<u8>, Value),
    /// A key got a huge value that is gone: it was replaced since, usually by a change that is still to come. Before
    /// that change, treat the key as absent.
    Replaced(Vec<u8>),
    /// A key became absent.
    Delete(Vec<u8>),
    /// All keys of a range became absent.
    DeleteRange(ScanRange),
    /// The merge operator of this name has changed the value of a key, with this operand.
    Merge(Vec<u8>, String, Vec<u8>),
    /// The change carries this time for a tree whose values expire by it, in microseconds since 1970
    /// ([`ExpiryClock::Writes`](crate::ExpiryClock)).
    Time(u64),
}

impl Updates {
    /// Reads the changes after `since`.
    pub(crate) fn open(store: &Arc<Owner>, since: SeqNo) -> Result<Updates> {
        let visible = store.commit().visible();
        if since > visible {
            let message = format!(
                "there is no sequence number {since} yet, the last one is {visible}: a power cut may have \
                 lost writes that were not synced"
            );
            return Err(Error::invalid(message));
        }
        if store.is_read_only() {
            let message =
                "a store that is open for reading only has no log of its own, and cannot report changes";
            return Err(Error::new(ErrorKind::ReadOnly, message));
        }
        let log = LogReader::open(&store.env().fs, store.wal(), since + 1)?;
        Ok(Updates { store: Arc::clone(store), log, since, durable: false, trees: HashMap::new() })
    }

    /// Limits the updates to writes that survive power loss, for copies that must never be ahead of the store. A write
    /// with [`Durability::Process`](crate::Durability::Process) appears after the next [`Db::sync`](crate::Db::sync),
    /// flush, or write with `Power`.
    #[must_use]
    pub fn durable(mut self) -> Self {
        self.durable = true;
        self
    }

    /// The next changes; `None` if all changes so far were returned.
    ///
    /// # Errors
    /// `NotFound` when the log no longer has them; `Corruption` when a record is damaged; `Closed` when the store is
    /// closed; `Io`.
    #[expect(clippy::should_implement_trait, reason = "it goes on behind `None`, and errors end it")]
    pub fn next(&mut self) -> Result<Option<Update>> {
        let (store, since) = (Arc::clone(&self.store), self.since);
        store.check_open()?;
        let limit = if self.durable { store.wal().synced() } else { store.commit().published() };
        loop {
            let (trees, mut changes) = (&mut self.trees, Vec::new());
            let show = |first: SeqNo, payload: &[u8]| {
                let taken = numbers_taken(payload, first)?;
                if first + taken > since + 1 {
                    let changed = Ops::of(payload).filter_map(|op| change(&store, trees, &op));
                    changes.extend(changed);
                }
                Some((taken, ()))
            };
            if self.log.next(store.wal(), limit, show)?.is_none() {
                return Ok(None);
            }
            if !changes.is_empty() {
                return Ok(Some(Update { sequence: self.log.seq() - 1, changes }));
            }
        }
    }

    /// Waits for more changes, for at most `at_most`. Returns whether there are any. With [`Updates::durable`] this
    /// returns immediately while a write is not synced: call [`Db::sync`](crate::Db::sync) then, or sleep.
    pub fn wait(&self, at_most: Duration) -> bool {
        self.store.commit().wait_published(self.log.position(), at_most, &*self.store.env().clock)
    }
}

/// A tree with changes: its name, and itself.
type Named = (Arc<str>, Arc<TreeInner>);

/// The change that `op` makes; `None` if its tree was dropped.
fn change(store: &Store, trees: &mut HashMap<TreeId, Option<Named>>, op: &Op<'_>) -> Option<Change> {
    let named = || {
        store.versions().lock().tree(op.tree).map(|tree| (Arc::from(tree.name.as_str()), Arc::clone(tree)))
    };
    let (tree, inner) = trees.entry(op.tree).or_insert_with(named).clone()?;
    let now = || inner.own_time.as_ref().map_or_else(|| store.clock().now_us(), |own| own.carried());
    let key = op.key.to_vec();
    let entry = Content::open(op.kind, op.value);
    let what = match entry.kind {
        Kind::Time => What::Time(op.time_us().unwrap_or(0)),
        Kind::Delete => What::Delete(key),
        Kind::DeleteRange => {
            let range = KeyRange::decode(op.key, op.value);
            What::DeleteRange(range.map_or_else(ScanRange::all, ScanRange::of))
        }
        Kind::Merge => {
            let (name, operand) = operators::parts(op.value).unwrap_or_default();
            What::Merge(key, name.to_owned(), operand.to_vec())
        }
        Kind::Blob => match Value::of_blob(store.blobs(), op.key, &entry) {
            Ok(value) => What::Put(key, value),
            Err(_) if !entry.lives(now) => What::Delete(key),
            Err(_) => What::Replaced(key),
        },
        _ => What::Put(key, Value::copy_of(&entry)),
    };
    let operand_us = operators::time_of(op.value).filter(|_| op.kind == Kind::Merge);
    Some(Change { tree, what, operand_us })
}
