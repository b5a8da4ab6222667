//! The first and the last pair of a tree.

use super::{Snapshot, Tree};
use crate::error::{ErrorKind, Result};
use crate::read::newer::Newer;
use crate::read::range::ScanRange;
use crate::value::Value;
use crate::write::batch::Batch;

/// Which pair of a tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    First,
    Last,
}

impl Snapshot {
    /// The pair of `tree` with the least key at this moment.
    ///
    /// # Errors
    /// As [`Snapshot::get`].
    pub fn first(&self, tree: &Tree) -> Result<Option<(Vec<u8>, Value)>> {
        self.pair_at(tree, End::First)
    }

    /// The pair of `tree` with the greatest key at this moment.
    ///
    /// # Errors
    /// As [`Snapshot::get`].
    pub fn last(&self, tree: &Tree) -> Result<Option<(Vec<u8>, Value)>> {
        self.pair_at(tree, End::Last)
    }

    /// Whether no key of `tree` had a value at this moment.
    ///
    /// # Errors
    /// As [`Snapshot::get`].
    pub fn is_empty(&self, tree: &Tree) -> Result<bool> {
        Ok(!self.scan(tree, ScanRange::all().keys_only())?.advance()?)
    }

    fn pair_at(&self, tree: &Tree, end: End) -> Result<Option<(Vec<u8>, Value)>> {
        let range = match end {
            End::First => ScanRange::all(),
            End::Last => ScanRange::all().reverse(),
        };
        let mut scan = self.scan(tree, range)?;
        if !scan.advance()? {
            return Ok(None);
        }
        Ok(Some((scan.key().to_vec(), scan.handle()?)))
    }
}

impl Tree {
    /// The pair with the least key.
    ///
    /// # Errors
    /// As [`Tree::get`].
    ///
    /// # Example
    /// ```
    /// # fn main() -> esker::Result<()> {
    /// # let db = esker::Db::open_in_memory(esker::Options::default())?;
    /// let jobs = db.tree("jobs")?;
    /// assert!(jobs.is_empty()? && jobs.first()?.is_none());
    /// jobs.put("1", "wash")?;
    /// jobs.put("2", "dry")?;
    /// let (key, value) = jobs.pop_first()?.expect("there are two");
    /// assert_eq!((&key[..], &value.bytes()?[..]), (&b"1"[..], &b"wash"[..]));
    /// assert_eq!(jobs.last()?.map(|(key, _)| key), Some(b"2".to_vec()));
    /// # Ok(())
    /// # }
    /// ```
    pub fn first(&self) -> Result<Option<(Vec<u8>, Value)>> {
        let tree = self.at_fixed_time();
        Snapshot::for_one_call(&self.owner).first(&tree)
    }

    /// The pair with the greatest key.
    ///
    /// # Errors
    /// As [`Tree::get`].
    pub fn last(&self) -> Result<Option<(Vec<u8>, Value)>> {
        let tree = self.at_fixed_time();
        Snapshot::for_one_call(&self.owner).last(&tree)
    }

    /// Deletes the pair with the least key, and returns it. It is the first one at the moment of the deletion, and no
    /// two threads get the same pair. Therefore a tree can be a queue.
    ///
    /// Each call passes over entries that earlier calls have deleted, until these are some hundreds and the background
    /// has removed them. A busy queue does better with its own counter for its first key: a key of another tree has the
    /// next number to take, and a transaction reads it for update, takes that job and writes the number after it.
    /// `crates/esker/examples/queue.rs` in Esker's source does this.
    ///
    /// The deletion has the store's default durability. A consumer that must not lose a job when it dies takes it in a
    /// transaction that also notes it as taken ([`Txn::pop_first`](crate::Txn::pop_first)).
    ///
    /// # Errors
    /// As [`Tree::put`] and [`Tree::get`].
    pub fn pop_first(&self) -> Result<Option<(Vec<u8>, Value)>> {
        self.pop(End::First)
    }

    /// Deletes the pair with the greatest key, and returns it. See [`Tree::pop_first`].
    ///
    /// # Errors
    /// As [`Tree::put`] and [`Tree::get`].
    pub fn pop_last(&self) -> Result<Option<(Vec<u8>, Value)>> {
        self.pop(End::Last)
    }

    /// Whether no key has a value.
    ///
    /// # Errors
    /// As [`Tree::get`].
    pub fn is_empty(&self) -> Result<bool> {
        Ok(!self.scan(ScanRange::all().keys_only())?.advance()?)
    }

    fn pop(&self, end: End) -> Result<Option<(Vec<u8>, Value)>> {
        loop {
            // As in `modify`, the snapshot keeps the numbers of later versions.
            let tree = self.at_fixed_time();
            let snapshot = Snapshot::for_one_call(&self.owner);
            let Some((key, value)) = snapshot.pair_at(&tree, end)? else { return Ok(None) };
            let lasting = self.lasting(value.lapses_us());
            let (seen, up_to_key) = match end {
                End::First => (snapshot.seq(), ScanRange::from(..=&key)),
                End::Last => (snapshot.seq(), ScanRange::from(&key..)),
            };
            let unchanged = || {
                let state = self.readable_state()?;
                Ok(Newer::than(seen, &self.inner, &state).key_in(&up_to_key.keys, seen)?.is_none()
                    && lasting.holds())
            };
            let mut batch = Batch::new();
            batch.delete(self, &key)?;
            let durability = self.store.options().durability;
            match self.store.writes().write_if(&batch, durability, Some(&unchanged)) {
                Ok(Some(_)) => return Ok(Some((key, value))),
                Ok(None) => {}
                // The tree was split meanwhile, and has another pair at this end.
                Err(error) if error.kind() == ErrorKind::KeyMoved => {}
                Err(error) => return Err(error),
            }
        }
    }
}
