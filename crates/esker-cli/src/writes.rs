//! Collects consecutive writes into one batch: a store takes a thousand rows at once several times faster than one by
//! one. The order is kept: batches are applied in order, each whole or not at all.

use crate::datatype::DataError;
use crate::exit::Outcome;
use crate::keyspace::{Batch, Expiry};
use crate::store::Store;

/// Bounds of a batch.
const ROWS: usize = 1_000;
const BYTES: usize = 1 << 20;

/// Writes that were not applied yet. Call [`Writes::apply`] before reading, and at the end.
pub(crate) struct Writes {
    /// Made for the store of the first write.
    batch: Option<Batch>,
    /// The writes in the batch.
    gathered: Counts,
    /// The writes that the store has acknowledged.
    stored: Counts,
}

/// How many rows of each kind.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    pub(crate) puts: u64,
    pub(crate) deletes: u64,
    /// Puts that had expired before they were collected: their keys are absent.
    pub(crate) expired: u64,
}

impl Counts {
    fn add(&mut self, other: Counts) {
        self.puts += other.puts;
        self.deletes += other.deletes;
        self.expired += other.expired;
    }
}

impl Writes {
    pub(crate) fn new() -> Self {
        Writes { batch: None, gathered: Counts::default(), stored: Counts::default() }
    }

    /// The writes that the store has acknowledged. Once they are synced, they survive everything.
    pub(crate) fn stored(&self) -> Counts {
        self.stored
    }

    /// Whether everything has been applied.
    pub(crate) fn is_empty(&self) -> bool {
        self.batch.as_ref().is_none_or(|batch| batch.len() == 0)
    }

    /// Adds a put. A key or value beyond the store's limits is refused and changes nothing.
    #[inline]
    pub(crate) fn put(&mut self, store: &mut Store, key: &[u8], value: &[u8]) -> Result<(), Refused> {
        self.put_until(store, key, value, None, 0)
    }

    /// The same, with the expiry `expires_us`, if given, in microseconds since 1970. `now_us` decides whether it has
    /// expired already.
    #[inline]
    pub(crate) fn put_until(
        &mut self,
        store: &mut Store,
        key: &[u8],
        value: &[u8],
        expires_us: Option<u64>,
        now_us: u64,
    ) -> Result<(), Refused> {
        let expired = u64::from(expires_us.is_some_and(|us| us <= now_us));
        if value.len() >= BYTES {
            // A huge value is not copied into the batch.
            self.apply(store)?;
            store.before_write()?;
            store.tree.put(key, value, expires_us.map_or(Expiry::Never, Expiry::At))?;
            self.stored.add(Counts { puts: 1, deletes: 0, expired });
            return Ok(());
        }
        self.batch_of(store).put(&store.tree, key, value, expires_us)?;
        self.gathered.puts += 1;
        self.gathered.expired += expired;
        self.apply_if_full(store)
    }

    /// Notes a put that took effect without a batch.
    pub(crate) fn note_put(&mut self, is_expired: bool) {
        self.stored.add(Counts { puts: 1, deletes: 0, expired: u64::from(is_expired) });
    }

    /// Adds a delete.
    #[inline]
    pub(crate) fn delete(&mut self, store: &mut Store, key: &[u8]) -> Result<(), Refused> {
        self.batch_of(store).delete(&store.tree, key)?;
        self.gathered.deletes += 1;
        self.apply_if_full(store)
    }

    /// Applies the collected writes. A batch that fails is dropped, so that nothing later overtakes it.
    pub(crate) fn apply(&mut self, store: &mut Store) -> Outcome {
        let Some(batch) = self.batch.as_mut().filter(|batch| batch.len() > 0) else { return Ok(()) };
        let gathered = std::mem::take(&mut self.gathered);
        let written = store.before_write().and_then(|()| Ok(store.tree.write(batch)?));
        batch.clear();
        written?;
        self.stored.add(gathered);
        Ok(())
    }

    #[inline]
    fn apply_if_full(&mut self, store: &mut Store) -> Result<(), Refused> {
        let batch = self.batch_of(store);
        if batch.len() >= ROWS || batch.memory_bytes() >= BYTES {
            self.apply(store)?;
        }
        Ok(())
    }

    #[inline]
    fn batch_of(&mut self, store: &Store) -> &mut Batch {
        self.batch.get_or_insert_with(|| store.tree.batch())
    }
}

/// Why a line of input was not taken.
pub(crate) enum Refused {
    /// The line is wrong, for this reason. The lines after it may be right.
    Malformed(String),
    /// The store or the system has failed.
    Failed(crate::exit::Failure),
}

impl Refused {
    /// An invalid value.
    pub(crate) fn value(error: &DataError) -> Self {
        Refused::Malformed(format!("the value {error}"))
    }
}

impl From<crate::exit::Failure> for Refused {
    fn from(failure: crate::exit::Failure) -> Self {
        Refused::Failed(failure)
    }
}

impl From<esker::Error> for Refused {
    fn from(error: esker::Error) -> Self {
        match error.kind() {
            esker::ErrorKind::InvalidInput => Refused::Malformed(error.message().to_owned()),
            _ => Refused::Failed(error.into()),
        }
    }
}

/// An invalid key. Errors of values are reported where they are read.
impl From<DataError> for Refused {
    fn from(error: DataError) -> Self {
        Refused::Malformed(format!("the key {error}"))
    }
}
