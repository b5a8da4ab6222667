//! Bulk loads: data is written as tables, not through log and memtables.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use super::{ROOM_EVERY, Tree};
use crate::blob::{BlobFileId, NewBlob, Pointer, key_hash};
use crate::compact::output::{Output, OutputOptions, filter_bits};
use crate::cursor::{Beside, Kind, MAX_SEQ, SeqNo};
use crate::env::JobKind;
use crate::error::{Error, Result};
use crate::options::{TableLimits, TreeOptions};
use crate::read::merging_cursor::{Direction, MergeCursor, Source};
use crate::store::Ingested;
use crate::table::ScanHint;
use crate::value::PutOptions;
use crate::version::levels::{LEVELS, Table};
use crate::write::batch::check_key;

/// Bytes that an entry takes in memory in addition to its key and value.
const ENTRY_BYTES: usize = 100;

/// Takes pairs in ascending order of their keys and adds all of them to the tree together. None of them is visible
/// before [`Ingest::commit`]. A dropped ingest leaves nothing in the store.
///
/// Each pair is written once, into a table, while [`Tree::put`] writes it to the log and to a table. Huge values are
/// stored as usual. Memory: about one block of the table being written, and 200 bytes for each huge value and for each
/// key that may have had one.
///
/// # Example
/// ```
/// # fn main() -> esker::Result<()> {
/// # let db = esker::Db::open_in_memory(esker::Options::default())?;
/// let words = db.tree("words")?;
/// let mut ingest = words.ingest()?;
/// for (number, word) in ["ant", "bee", "cow"].into_iter().enumerate() {
///     ingest.put(word, number.to_string())?;
/// }
/// ingest.commit()?;
/// assert_eq!(words.get_vec("bee")?.as_deref(), Some(&b"1"[..]));
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Ingest {
    output: Output,
    last: Vec<u8>,
    count: u64,
    /// Bytes written since the last check for free space.
    unchecked: u64,
    gathered: Ingested,
    /// A pair could not be written. The result would have a gap.
    failed: bool,
    /// Dropped last: it may be the last handle, and `output` must remove its files before the store closes.
    tree: Tree,
}

fn output(tree: &Tree, filter_bits: u32, limits: TableLimits) -> Output {
    let TreeOptions { compression, filter_prefix, .. } = tree.inner.options();
    let options = OutputOptions {
        compression,
        filter_bits,
        limits,
        offer: None,
        cleared: 0,
        tree: Some(tree.inner.id),
        filter_prefix,
    };
    Output::new(tree.store.tables(), options)
}

/// The content of an entry that has `beside` and `value`, which may be a pointer.
fn stored<'a>(beside: Beside<'_>, value: &'a [u8]) -> Cow<'a, [u8]> {
    match beside {
        Beside::Nothing => Cow::Borrowed(value),
        Beside::Until(expiry) => Cow::Owned([&expiry.to_le_bytes()[..], value].concat()),
        Beside::With(expiry, attributes) => {
            Cow::Owned([&Beside::head_with(expiry, attributes), value].concat())
        }
    }
}

impl Ingest {
    fn new(tree: &Tree) -> Result<Ingest> {
        let store = &tree.store;
        store.disk().ensure_writable()?;
        let filter_bits = filter_bits(store.options().filter_bits, LEVELS - 1, LEVELS - 1);
        let additions = store.blobs().filter.additions();
        let gathered = Ingested { additions, ..Ingested::default() };
        let output = output(tree, filter_bits, store.disk().table_limits());
        let (last, count, unchecked, failed) = (Vec::new(), 0, ROOM_EVERY, false);
        Ok(Ingest { tree: tree.clone(), output, last, count, unchecked, gathered, failed })
    }

    /// How many pairs were added.
    pub fn len(&self) -> u64 {
        self.count
    }

    /// Whether no pair was added.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Adds a pair. Its key must be greater than the previous one.
    ///
    /// # Errors
    /// `InvalidInput` when the key is not greater, or as [`Tree::put`]: the pair is not added. After `Io` and
    /// `OutOfSpace` nothing more can be added or committed.
    pub fn put(&mut self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        self.put_beside(key.as_ref(), value.as_ref(), Beside::Nothing)
    }

    /// Adds a pair, with the expiry and attributes in `options` ([`Tree::put_opts`]).
    ///
    /// # Errors
    /// As [`Ingest::put`], and `InvalidInput` when the attributes are longer than 4 KiB.
    pub fn put_opts(
        &mut self,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        options: &PutOptions,
    ) -> Result<()> {
        self.put_beside(key.as_ref(), value.as_ref(), options.checked()?)
    }

    fn put_beside(&mut self, key: &[u8], value: &[u8], beside: Beside<'_>) -> Result<()> {
        check_key(key)?;
        if key <= self.last.as_slice() {
            let (key, last) = (key.escape_ascii(), self.last.escape_ascii());
            let message =
                format!("the key \"{key}\" comes after \"{last}\": keys must be in ascending order");
            return Err(Error::invalid(message));
        }
        let separate = value.len() >= self.tree.store.options().separate_at.max(1);
        self.watch(key);
        self.attempt(|ingest| {
            if !separate {
                return ingest.add(key, Kind::Put.with(&beside), &stored(beside, value));
            }
            let blob = ingest.tree.store.writes().put_blob(&ingest.tree.inner, key, value)?;
            let mut pointer = Vec::new();
            blob.pointer.encode(&mut pointer);
            ingest.gathered.blobs.push(blob);
            ingest.add(key, Kind::Blob.with(&beside), &stored(beside, &pointer))
        })
    }

    fn watch(&mut self, key: &[u8]) {
        let filter = &self.tree.store.blobs().filter;
        if !filter.is_empty() && filter.may_contain(key_hash(self.tree.inner.lineage, key)) {
            self.gathered.watched.push(key.to_vec());
        }
    }

    /// Runs `write`; a failure leaves a gap in the result.
    fn attempt(&mut self, write: impl FnOnce(&mut Ingest) -> Result<()>) -> Result<()> {
        self.tree.store.check_open()?;
        if self.failed {
            let message = "an earlier pair could not be written: this ingest cannot be committed";
            return Err(Error::invalid(message));
        }
        let written = write(self);
        self.failed = written.is_err();
        written
    }

    fn add(&mut self, key: &[u8], kind: Kind, stored: &[u8]) -> Result<()> {
        self.unchecked += (key.len() + stored.len()) as u64;
        if self.unchecked >= ROOM_EVERY {
            self.tree.store.disk().check_room_for_blob(self.unchecked)?;
            self.unchecked = 0;
        }
        self.output.add(key, 0, kind, stored)?;
        self.last.clear();
        self.last.extend_from_slice(key);
        self.count += 1;
        Ok(())
    }

    /// Adds the pairs to the tree, replacing earlier values of their keys; returns how many pairs. When this returns,
    /// they survive power loss, and so do all earlier writes.
    ///
    /// Writes to the tree wait while memtables with keys in the range of these pairs are flushed. Writes to other trees
    /// wait for two syncs.
    ///
    /// # Errors
    /// `Io` and `OutOfSpace`: the tree is unchanged. `TreeDropped` when the tree was dropped; `InvalidInput` after a failed
    /// [`Ingest::put`]. After `Poisoned`, as with every write, only reopening the store shows whether the pairs are
    /// there.
    pub fn commit(mut self) -> Result<u64> {
        self.attempt(|_| Ok(()))?;
        let Ingest { tree, output, count, mut gathered, .. } = self;
        if count == 0 {
            // Earlier writes must become durable even so.
            return tree.store.flusher().make_durable(&tree.inner).map(|()| 0);
        }
        gathered.tables = output.finish()?;
        tree.store.reshaper().ingest(&tree.inner, gathered)?;
        Ok(count)
    }
}

/// Takes pairs in any order, more than fit into memory, and adds all of them to the tree together. Of several pairs
/// with one key the last one counts. Otherwise like [`Ingest`].
///
/// Pairs are gathered in as much memory as a memtable takes, sorted, and written to files, which
/// [`IngestUnsorted::commit`] merges (external merge sort: Knuth, "The Art of Computer Programming", volume 3, section
/// 5.4). Therefore each pair is written twice if they do not all fit into memory.
#[derive(Debug)]
pub struct IngestUnsorted {
    gathered: BTreeMap<Vec<u8>, (Kind, Vec<u8>)>,
    bytes: usize,
    /// Oldest first. Each run holds the last pair that it took for each key.
    runs: Vec<Arc<Table>>,
    blobs: BTreeMap<(BlobFileId, u64), NewBlob>,
    /// Dropped last, because of the handle in it.
    ingest: Ingest,
}

impl IngestUnsorted {
    /// Adds a pair.
    ///
    /// # Errors
    /// As [`Ingest::put`], except that any order is allowed.
    pub fn put(&mut self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        self.put_beside(key.as_ref(), value.as_ref(), Beside::Nothing)
    }

    /// Adds a pair, with the expiry and attributes in `options` ([`Tree::put_opts`]).
    ///
    /// # Errors
    /// As [`Ingest::put_opts`], except that any order is allowed.
    pub fn put_opts(
        &mut self,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        options: &PutOptions,
    ) -> Result<()> {
        self.put_beside(key.as_ref(), value.as_ref(), options.checked()?)
    }

    fn put_beside(&mut self, key: &[u8], value: &[u8], beside: Beside<'_>) -> Result<()> {
        check_key(key)?;
        self.ingest.attempt(|_| Ok(()))?;
        let store = Arc::clone(&self.ingest.tree.store);
        let entry = if value.len() < store.options().separate_at.max(1) {
            (Kind::Put.with(&beside), stored(beside, value).into_owned())
        } else {
            self.ingest.watch(key);
            let blob = store.writes().put_blob(&self.ingest.tree.inner, key, value)?;
            let mut pointer = Vec::new();
            blob.pointer.encode(&mut pointer);
            self.blobs.insert((blob.pointer.file, blob.pointer.ordinal), blob);
            (Kind::Blob.with(&beside), stored(beside, &pointer).into_owned())
        };
        self.bytes += key.len() + entry.1.len() + ENTRY_BYTES;
        if let Some((kind, stored)) = self.gathered.insert(key.to_vec(), entry) {
            self.bytes -= key.len() + stored.len() + ENTRY_BYTES;
            self.forget(kind, &stored);
        }
        if self.bytes >= store.options().memtable_limit() {
            self.write_run()?;
        }
        Ok(())
    }

    /// Forgets the huge value, if any, of a pair that was replaced.
    fn forget(&mut self, kind: Kind, stored: &[u8]) {
        if let Some(pointer) = Pointer::of_entry(kind, stored) {
            self.blobs.remove(&(pointer.file, pointer.ordinal));
        }
    }

    /// Writes the gathered pairs into a table that belongs to no tree.
    fn write_run(&mut self) -> Result<()> {
        let (tree, gathered) = (self.ingest.tree.clone(), std::mem::take(&mut self.gathered));
        self.bytes = 0;
        let seq = self.runs.len() as SeqNo + 1;
        let mut written = None;
        self.ingest.attempt(|_| {
            let store = &tree.store;
            store.disk().check_room_for_blob(store.options().memtable_limit() as u64)?;
            let mut output = output(&tree, 0, TableLimits::NONE);
            for (key, (kind, stored)) in &gathered {
                output.add(key, seq, *kind, stored)?;
            }
            written = output.finish()?.pop();
            Ok(())
        })?;
        if let Some(info) = written {
            let file = tree.store.registry().file(info.file, info.salt);
            // The file is removed with this writer, whether or not the commit succeeds.
            file.mark_obsolete();
            self.runs.push(Table::new(file, info));
        }
        Ok(())
    }

    /// Like [`Ingest::commit`].
    ///
    /// # Errors
    /// As [`Ingest::commit`].
    pub fn commit(mut self) -> Result<u64> {
        if self.runs.is_empty() {
            for (key, (kind, stored)) in std::mem::take(&mut self.gathered) {
                self.take(&key, kind, &stored)?;
            }
            return self.ingest.commit();
        }
        self.write_run()?;
        let cursors =
            self.runs.iter().map(|run| Ok(Source::Table(run.cursor(ScanHint::Compaction)?, MAX_SEQ)));
        let mut merge = MergeCursor::new(cursors.collect::<Result<_>>()?, Direction::Forward);
        merge.seek_to_start()?;
        let mut last = Vec::new();
        while merge.valid() {
            // The newest entry of a key comes first.
            if merge.key() == last.as_slice() {
                self.forget(merge.kind(), merge.value());
            } else {
                last.clear();
                last.extend_from_slice(merge.key());
                self.take(&last, merge.kind(), merge.value())?;
            }
            merge.advance()?;
        }
        drop(merge);
        self.runs.clear();
        self.ingest.tree.store.notify(JobKind::Compact);
        self.ingest.commit()
    }

    /// Passes an entry to `ingest`. Its huge value, if any, has already been written.
    fn take(&mut self, key: &[u8], kind: Kind, stored: &[u8]) -> Result<()> {
        match Pointer::of_entry(kind, stored) {
            None => self.ingest.watch(key),
            Some(pointer) => {
                let blob = self.blobs.remove(&(pointer.file, pointer.ordinal));
                self.ingest.gathered.blobs.extend(blob);
            }
        }
        self.ingest.attempt(|ingest| ingest.add(key, kind, stored))
    }
}

impl Tree {
    /// Begins a bulk load of pairs in ascending order of their keys.
    ///
    /// # Errors
    /// As [`Tree::put`].
    pub fn ingest(&self) -> Result<Ingest> {
        Ingest::new(self)
    }

    /// Begins a bulk load of pairs in any order.
    ///
    /// # Errors
    /// As [`Tree::put`].
    pub fn ingest_unsorted(&self) -> Result<IngestUnsorted> {
        Ok(IngestUnsorted {
            ingest: Ingest::new(self)?,
            gathered: BTreeMap::new(),
            bytes: 0,
            runs: Vec::new(),
            blobs: BTreeMap::new(),
        })
    }
}
