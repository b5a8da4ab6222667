//! Sorted data in bulk: written as tables, not through log and memtables.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::Tree;
use crate::blob::{BlobFileId, NewBlob, Pointer, key_hash};
use crate::compact::output::{Output, OutputOptions, filter_bits};
use crate::cursor::{Kind, SeqNo};
use crate::env::Lane;
use crate::error::{Error, ErrorKind, Result};
use crate::options::TableLimits;
use crate::read::merge::{Direction, MergeCursor, Source};
use crate::store::Ingested;
use crate::table::ScanHint;
use crate::version::levels::{LEVELS, Table};
use crate::write::batch::check_key;

/// How many bytes are written before room on the disk is looked for again.
const ROOM_EVERY: u64 = 16 << 20;

/// Bytes that an entry takes in memory beside its key and value.
const ENTRY_BYTES: usize = 100;

/// Takes pairs in ascending order of their keys, and has the tree hold all of them at once. Nothing of it is to be seen
/// before [`Ingest::commit`]; dropped, it leaves nothing behind.
///
/// Each pair is written once, into a table, while [`Tree::put`] writes the log and a table. Huge values go where
/// they go otherwise. Memory: about one block of the table that is being written, and 200 bytes for each huge value and for
/// each key that may have had one.
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
    /// Bytes written since room was looked for.
    unchecked: u64,
    gathered: Ingested,
    /// A pair could not be written: the rest would have a gap.
    failed: bool,
    /// Goes last: it may be the last handle, and the store that it closes is not written into any more, while `output`
    /// removes its files.
    tree: Tree,
}

impl Ingest {
    fn new(tree: &Tree) -> Result<Ingest> {
        let store = &tree.store;
        store.check_writable()?;
        let options = OutputOptions {
            compression: tree.inner.options().compression,
            filter_bits: filter_bits(store.options.filter_bits, LEVELS - 1, LEVELS - 1),
            limits: store.options.table_limits(),
            offer: None,
            cleared: 0,
            tree: Some(tree.inner.id),
        };
        let additions = store.blobs.filter.additions();
        let gathered = Ingested { additions, ..Ingested::default() };
        let output = Output::new(&store.tables, options);
        let (last, count, unchecked, failed) = (Vec::new(), 0, ROOM_EVERY, false);
        Ok(Ingest { tree: tree.clone(), output, last, count, unchecked, gathered, failed })
    }

    /// How many pairs it has taken.
    pub fn len(&self) -> u64 {
        self.count
    }

    /// Whether it has taken none.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Takes a pair, whose key is greater than that of the one before.
    ///
    /// # Errors
    /// `InvalidInput` when the key is not greater, or as [`Tree::put`] says: the pair is not taken. `Io` and `OutOfSpace`:
    /// nothing more can be taken or committed.
    pub fn put(&mut self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        let (key, value) = (key.as_ref(), value.as_ref());
        check_key(key)?;
        if key <= self.last.as_slice() {
            let (key, last) = (key.escape_ascii(), self.last.escape_ascii());
            let message = format!("the key \"{key}\" comes behind \"{last}\": keys have to be ascending");
            return Err(Error::new(ErrorKind::InvalidInput, message));
        }
        let separate = value.len() >= self.tree.store.options.separate_at.max(1);
        self.watch(key);
        self.attempt(|ingest| {
            if !separate {
                return ingest.add(key, Kind::Put, value);
            }
            let blob = ingest.tree.store.put_blob(ingest.tree.inner.root, key, value)?;
            let mut pointer = Vec::new();
            blob.pointer.encode(&mut pointer);
            ingest.gathered.blobs.push(blob);
            ingest.add(key, Kind::Blob, &pointer)
        })
    }

    /// Notes a key that may have had a huge value.
    fn watch(&mut self, key: &[u8]) {
        let filter = &self.tree.store.blobs.filter;
        if !filter.is_empty() && filter.may_contain(key_hash(self.tree.inner.root, key)) {
            self.gathered.watched.push(key.to_vec());
        }
    }

    /// Runs `write`, after whose failure the whole has a gap.
    fn attempt(&mut self, write: impl FnOnce(&mut Ingest) -> Result<()>) -> Result<()> {
        self.tree.store.check_open()?;
        if self.failed {
            let message = "a pair could not be written: nothing of this can be committed";
            return Err(Error::new(ErrorKind::InvalidInput, message));
        }
        let written = write(self);
        self.failed = written.is_err();
        written
    }

    fn add(&mut self, key: &[u8], kind: Kind, stored: &[u8]) -> Result<()> {
        self.unchecked += (key.len() + stored.len()) as u64;
        if self.unchecked >= ROOM_EVERY {
            self.tree.store.check_room_for_blob(self.unchecked)?;
            self.unchecked = 0;
        }
        self.output.add(key, 0, kind, stored)?;
        self.last.clear();
        self.last.extend_from_slice(key);
        self.count += 1;
        Ok(())
    }

    /// Has the tree hold the pairs, over whatever it had of their keys; returns how many they are. They survive power loss
    /// when this returns, with all that was written before.
    ///
    /// Writes to the tree wait while memtables with keys among these are flushed, and those to other trees for two syncs.
    ///
    /// # Errors
    /// `Io` and `OutOfSpace`: the tree is as it was. `Closed` when it was dropped; `InvalidInput` after a failed
    /// [`Ingest::put`]. As with every write, after `Poisoned` opening the store again decides.
    pub fn commit(mut self) -> Result<u64> {
        self.attempt(|_| Ok(()))?;
        let Ingest { tree, output, count, mut gathered, .. } = self;
        if count == 0 {
            // What was written before survives even so.
            return tree.store.make_durable(&tree.inner).map(|()| 0);
        }
        gathered.tables = output.finish()?;
        tree.store.ingest(&tree.inner, gathered)?;
        Ok(count)
    }
}

/// Takes pairs in any order, more of them than memory holds, and has the tree hold all of them at once. Of several pairs with
/// one key the last one counts. As [`Ingest`] otherwise.
///
/// Pairs are gathered in as much memory as a memtable takes, sorted, and written to files, which are merged by
/// [`IngestUnsorted::commit`] (external merge sort: Knuth, "The Art of Computer Programming", volume 3, section 5.4). So each
/// is written twice, where there are more than fit into memory.
#[derive(Debug)]
pub struct IngestUnsorted {
    gathered: BTreeMap<Vec<u8>, (Kind, Vec<u8>)>,
    bytes: usize,
    /// Oldest first; each holds of every key the last pair that it took.
    runs: Vec<Arc<Table>>,
    blobs: BTreeMap<(BlobFileId, u64), NewBlob>,
    /// Goes last, as the handle in it does.
    ingest: Ingest,
}

impl IngestUnsorted {
    /// Takes a pair.
    ///
    /// # Errors
    /// As [`Ingest::put`], but for the order.
    pub fn put(&mut self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        let (key, value) = (key.as_ref(), value.as_ref());
        check_key(key)?;
        self.ingest.attempt(|_| Ok(()))?;
        let store = Arc::clone(&self.ingest.tree.store);
        let entry = if value.len() < store.options.separate_at.max(1) {
            (Kind::Put, value.to_vec())
        } else {
            self.ingest.watch(key);
            let blob = store.put_blob(self.ingest.tree.inner.root, key, value)?;
            let mut pointer = Vec::new();
            blob.pointer.encode(&mut pointer);
            self.blobs.insert((blob.pointer.file, blob.pointer.ordinal), blob);
            (Kind::Blob, pointer)
        };
        self.bytes += key.len() + entry.1.len() + ENTRY_BYTES;
        if let Some((kind, stored)) = self.gathered.insert(key.to_vec(), entry) {
            self.bytes -= key.len() + stored.len() + ENTRY_BYTES;
            self.forget(kind, &stored);
        }
        if self.bytes >= store.options.memtable_limit() {
            self.write_run()?;
        }
        Ok(())
    }

    /// A pair was replaced: its huge value, if it has one, is nobody's.
    fn forget(&mut self, kind: Kind, stored: &[u8]) {
        if let Some(pointer) = Pointer::of_entry(kind, stored) {
            self.blobs.remove(&(pointer.file, pointer.ordinal));
        }
    }

    /// Writes what is in memory into a table that no tree has.
    fn write_run(&mut self) -> Result<()> {
        let (tree, gathered) = (self.ingest.tree.clone(), std::mem::take(&mut self.gathered));
        self.bytes = 0;
        let seq = self.runs.len() as SeqNo + 1;
        let mut written = None;
        self.ingest.attempt(|_| {
            let store = &tree.store;
            let options = OutputOptions {
                compression: tree.inner.options().compression,
                filter_bits: 0,
                limits: TableLimits::NONE,
                offer: None,
                cleared: 0,
                tree: Some(tree.inner.id),
            };
            store.check_room_for_blob(store.options.memtable_limit() as u64)?;
            let mut output = Output::new(&store.tables, options);
            for (key, (kind, stored)) in &gathered {
                output.add(key, seq, *kind, stored)?;
            }
            written = output.finish()?.pop();
            Ok(())
        })?;
        if let Some(info) = written {
            let file = tree.store.registry.file(info.file, info.salt);
            // It goes with this writer, whatever becomes of that.
            file.mark_obsolete();
            self.runs.push(Table::new(file, info));
        }
        Ok(())
    }

    /// As [`Ingest::commit`].
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
        let cursors = self.runs.iter().map(|run| Ok(Source::Table(run.cursor(ScanHint::Compaction)?)));
        let mut merge = MergeCursor::new(cursors.collect::<Result<_>>()?, Direction::Forward);
        merge.seek_to_start()?;
        let mut last = Vec::new();
        while merge.valid() {
            // The newest comes first.
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
        self.ingest.tree.store.notify(Lane::Compact);
        self.ingest.commit()
    }

    /// Has `ingest` take an entry, whose huge value, if it has one, is written.
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
    /// Begins to take pairs in bulk, in ascending order of their keys.
    ///
    /// # Errors
    /// As [`Tree::put`].
    pub fn ingest(&self) -> Result<Ingest> {
        Ingest::new(self)
    }

    /// Begins to take pairs in bulk, in any order.
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
