//! Consecutive writes, gathered into one batch: a store takes a thousand rows at once several times
//! faster than one by one. Order is kept: batches are applied in order, each whole or not at all.

use esker::Batch;

use crate::datatype::DataError;
use crate::exit::Outcome;
use crate::store::Store;

/// Bounds of a batch.
const ROWS: usize = 1_000;
const BYTES: usize = 1 << 20;

/// Writes that have not been applied yet. [`Writes::apply`] them before reading, and at the end.
pub(crate) struct Writes {
    batch: Batch,
}

impl Writes {
    pub(crate) fn new() -> Self {
        Writes { batch: Batch::new() }
    }

    /// Whether everything has been applied.
    pub(crate) fn is_empty(&self) -> bool {
        self.batch.is_empty()
    }

    /// Gathers a put. A key or value out of the store's limits is refused and changes nothing.
    #[inline]
    pub(crate) fn put(&mut self, store: &mut Store, key: &[u8], value: &[u8]) -> Result<(), Refused> {
        self.put_until(store, key, value, None)
    }

    /// The same, until `expires_us` where that is said, in microseconds since 1970.
    #[inline]
    pub(crate) fn put_until(
        &mut self,
        store: &mut Store,
        key: &[u8],
        value: &[u8],
        expires_us: Option<u64>,
    ) -> Result<(), Refused> {
        if value.len() >= BYTES && expires_us.is_none() {
            // A huge value is not copied into the batch.
            self.apply(store)?;
            store.before_write()?;
            return store.tree.put(key, value).map_err(Refused::from);
        }
        self.batch.put_until(&store.tree, key, value, expires_us)?;
        self.apply_if_full(store)
    }

    /// Gathers a delete.
    #[inline]
    pub(crate) fn delete(&mut self, store: &mut Store, key: &[u8]) -> Result<(), Refused> {
        self.batch.delete(&store.tree, key)?;
        self.apply_if_full(store)
    }

    /// Applies what has been gathered. What fails is dropped, so that nothing later overtakes it.
    pub(crate) fn apply(&mut self, store: &mut Store) -> Outcome {
        if self.batch.is_empty() {
            return Ok(());
        }
        store.before_write()?;
        let written = store.db.write(&self.batch);
        self.batch.clear();
        Ok(written?)
    }

    #[inline]
    fn apply_if_full(&mut self, store: &mut Store) -> Result<(), Refused> {
        if self.batch.len() >= ROWS || self.batch.size_bytes() >= BYTES {
            self.apply(store)?;
        }
        Ok(())
    }
}

/// Why a line of input was not taken.
pub(crate) enum Refused {
    /// The line is at fault: the reason. The lines after it may be fine.
    Malformed(String),
    /// The store or the system is at fault.
    Failed(crate::exit::Failure),
}

impl Refused {
    /// A value that is none.
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

/// A key that is none; what is wrong with a value is said where it is read.
impl From<DataError> for Refused {
    fn from(error: DataError) -> Self {
        Refused::Malformed(format!("the key {error}"))
    }
}
