//! Values that are durable before a key has them.
//!
//! A staging area is an ordinary tree with two entries for each staged value: one has the value, the other its length
//! and checksum. A write that gives the value to a key adds a reference to it, and deletes both entries in the same
//! batch. Therefore a staged value lives like any other value: no other structure counts its references.
//!
//! ```text
//! length of the id, 2 | id | number of the staging, 8 | 0   the value
//! length of the id, 2 | id | number of the staging, 8 | 1   length, 8 | checksum of its bytes, 8
//! ```
//!
//! The numbers, which are big-endian like the length, rise. Each staging has its own number. Therefore a write with an
//! old handle never removes a value that was staged later under the same id.

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::stream::value_of;
use super::{Snapshot, Tree, ValueWriter};
use crate::blob::Pointer;
use crate::checksum::Summing;
use crate::codec::u64_at;
use crate::cursor::{Content, Kind};
use crate::error::{Error, ErrorKind, Result};
use crate::options::Durability;
use crate::read::get::version_at;
use crate::read::range::ScanRange;
use crate::value::Value;
use crate::write::batch::{Batch, HugeValue, STAGED_ID_MAX, StagedPut};

/// The last byte of the keys that have the values.
const VALUE: u8 = 0;
/// The last byte of the keys that have lengths and checksums.
const FACTS: u8 = 1;
/// Length of the part of a key after the id, in bytes.
const BEHIND_ID: usize = 9;
/// The length of the facts, in bytes.
const FACTS_LEN: usize = 16;
/// Bytes copied per step.
const COPY_LEN: u64 = 1 << 20;

/// The prefix of the keys of an id.
fn prefix(id: &[u8]) -> Vec<u8> {
    [&(id.len() as u16).to_be_bytes(), id].concat()
}

/// The keys of the value and of the facts of a staging.
fn entries(id: &[u8], number: u64) -> [Vec<u8>; 2] {
    [VALUE, FACTS].map(|kind| [&prefix(id)[..], &number.to_be_bytes(), &[kind]].concat())
}

/// A number above all that were given out before, also by earlier openings: the store's clock never goes back.
fn next_number(tree: &Tree) -> u64 {
    static LAST: AtomicU64 = AtomicU64::new(0);
    let now = tree.store.clock().now_us();
    let last =
        LAST.fetch_update(Ordering::AcqRel, Ordering::Acquire, |last| Some(now.max(last.saturating_add(1))));
    now.max(last.unwrap_or_default().saturating_add(1))
}

fn check_id(id: &[u8]) -> Result<()> {
    if id.is_empty() || id.len() > STAGED_ID_MAX {
        let message =
            format!("the name of a staged value has 1 to {STAGED_ID_MAX} bytes; this one has {}", id.len());
        return Err(Error::invalid(message));
    }
    Ok(())
}

/// A place for values that no key has yet. It is a tree that is used for nothing else.
///
/// A value is staged under a name of the caller's choice, an *id*. From then on it survives crashes. It stays until a
/// batch gives it to a key ([`Batch::put_staged`]), which takes it from the staging area in the same step, or until it
/// is discarded. Parts of an upload can be joined ([`Staging::concat`]). A follower in a cluster can receive a huge
/// value before the log entry that names it ([`Batch::decode`]).
///
/// The keys that get the values are in trees of the same group ([`TreeOptions::group`](crate::TreeOptions::group)). A
/// staging tree is not meant to be split.
///
/// # Example
/// ```
/// # fn main() -> esker::Result<()> {
/// # let db = esker::Db::open_in_memory(esker::Options::default())?;
/// use esker::{Batch, Staging, TreeOptions};
/// let options = TreeOptions::default().group("files");
/// let files = db.create_tree("files", options.clone())?;
/// let parts = Staging::new(&db.create_tree("file parts", options)?);
/// parts.put("upload 7 part 2", "world")?;
/// parts.put("upload 7 part 1", "hello ")?; // both survive power loss
/// let whole = parts.concat("upload 7", &["upload 7 part 1", "upload 7 part 2"])?;
/// let mut batch = Batch::new();
/// batch.put_staged(&files, "greeting", &whole, None)?;
/// db.write(&batch)?;
/// assert_eq!(files.get_vec("greeting")?.as_deref(), Some(&b"hello world"[..]));
/// assert!(parts.ids()?.is_empty());
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct Staging {
    tree: Tree,
}

/// A value in a staging area. While this or a batch with it lives, the value stays, even if it is discarded. It does
/// not keep the store open.
#[derive(Debug, Clone)]
pub struct StagedValue {
    pub(super) put: Arc<StagedPut>,
}

/// Stages one value, of any length, piece by piece: [`Staging::writer`].
#[derive(Debug)]
pub struct StagedWriter {
    id: Vec<u8>,
    entries: [Vec<u8>; 2],
    sum: Summing,
    writer: ValueWriter,
    staging: Staging,
}

/// The value of an entry at the moment of `snapshot`. The value stays while the result lives.
fn value_at(tree: &Tree, snapshot: &Snapshot, key: &[u8]) -> Result<Option<HugeValue>> {
    let found = version_at(&*tree.readable_state()?, key, snapshot.seq())?;
    let Some((_, kind, stored)) = found else { return Ok(None) };
    let entry = Content::open(kind, &stored);
    match entry.kind {
        Kind::Put => Ok(Some(HugeValue::Bytes(Arc::new(entry.value.to_vec())))),
        Kind::Blob => {
            let pointer = Pointer::decode(entry.value);
            let blob = pointer
                .and_then(|pointer| tree.store.blobs().add_reference(tree.inner.lineage, key, &pointer));
            Ok(blob.map(|blob| HugeValue::Stored(Arc::new(blob))))
        }
        _ => Ok(None),
    }
}

impl Staging {
    /// The staging area in `tree`.
    pub fn new(tree: &Tree) -> Staging {
        Staging { tree: tree.clone() }
    }

    /// The tree of the staging area.
    pub fn tree(&self) -> &Tree {
        &self.tree
    }

    /// Stages `value` under `id`. When this returns, it survives power loss. It replaces an earlier value under `id`.
    ///
    /// # Errors
    /// `InvalidInput` when `id` is empty or longer than 1 KiB; otherwise as [`Tree::put`].
    pub fn put(&self, id: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<StagedValue> {
        let mut writer = self.writer(id)?;
        writer.add(value.as_ref())?;
        writer.commit()
    }

    /// Begins to stage a value under `id`, piece by piece.
    ///
    /// # Errors
    /// As [`Staging::put`].
    pub fn writer(&self, id: impl AsRef<[u8]>) -> Result<StagedWriter> {
        let id = id.as_ref();
        check_id(id)?;
        let entries = entries(id, next_number(&self.tree));
        let writer = self.tree.writer(&entries[0])?;
        Ok(StagedWriter { id: id.to_vec(), entries, sum: Summing::default(), writer, staging: self.clone() })
    }

    /// The value that is staged under `id`, if one is.
    ///
    /// # Errors
    /// As [`Tree::get`], and `Corruption` when the tree holds something else.
    pub fn get(&self, id: impl AsRef<[u8]>) -> Result<Option<StagedValue>> {
        let id = id.as_ref();
        check_id(id)?;
        let snapshot = Snapshot::for_one_call(&self.tree.owner);
        // The newest entry comes last.
        let last = snapshot.scan(&self.tree, ScanRange::prefix(prefix(id)).reverse())?.next();
        let Some((key, facts)) = last.transpose()? else { return Ok(None) };
        let entries =
            [VALUE, FACTS].map(|kind| [key.get(..key.len() - 1).unwrap_or_default(), &[kind]].concat());
        let value = value_at(&self.tree, &snapshot, &entries[0])?;
        let (Some(value), FACTS_LEN, true) = (value, facts.len(), key == entries[1]) else {
            let id = id.escape_ascii();
            let message = format!(
                "the tree \"{}\" holds no staged value \"{id}\", but a part of one",
                self.tree.name()
            );
            return Err(Error::new(ErrorKind::Corruption, message));
        };
        let (len, checksum) = (u64_at(&facts, 0), u64_at(&facts, 8));
        Ok(Some(StagedValue::new(&self.tree, id, entries, (len, checksum), value)))
    }

    /// The ids of all staged values, sorted.
    ///
    /// # Errors
    /// As [`Tree::get`].
    pub fn ids(&self) -> Result<Vec<Vec<u8>>> {
        let mut ids = Vec::new();
        let mut scan = self.tree.scan(..)?;
        while let Some(pair) = scan.next().transpose()? {
            let id = pair.0.len().checked_sub(BEHIND_ID).and_then(|end| pair.0.get(2..end));
            ids.extend(id.map(<[u8]>::to_vec));
        }
        ids.sort_unstable();
        ids.dedup();
        Ok(ids)
    }

    /// Adds deletes of all values that are staged under `id`. Returns whether there are any.
    fn delete_all(&self, id: &[u8], batch: &mut Batch) -> Result<bool> {
        let before = batch.len();
        for pair in self.tree.scan(ScanRange::prefix(prefix(id)).keys_only())? {
            batch.delete(&self.tree, pair?.0)?;
        }
        Ok(batch.len() > before)
    }

    /// Removes the value that is staged under `id`. Returns whether there was one.
    ///
    /// # Errors
    /// As [`Tree::delete`].
    pub fn discard(&self, id: impl AsRef<[u8]>) -> Result<bool> {
        let id = id.as_ref();
        check_id(id)?;
        let mut batch = Batch::new();
        let was_there = self.delete_all(id, &mut batch)?;
        self.tree.store.writes().write(&batch, self.tree.store.options().durability)?;
        Ok(was_there)
    }

    /// Joins the values that are staged under `parts`, in this order, into one that is staged under `id`. The same step
    /// removes the parts. When this returns, the value survives power loss. It holds at most 4 MiB in memory.
    ///
    /// The bytes are copied.
    ///
    /// # Errors
    /// `NotFound` when a part is not staged; `Corruption` when its bytes have another checksum; otherwise as
    /// [`Staging::put`]. After an error the parts are there.
    pub fn concat<P: AsRef<[u8]>>(&self, id: impl AsRef<[u8]>, parts: &[P]) -> Result<StagedValue> {
        let mut writer = self.writer(id)?;
        let mut gone = Batch::new();
        for part in parts {
            let part = part.as_ref();
            let missing = || {
                let message = format!("no value is staged under \"{}\"", part.escape_ascii());
                Error::new(ErrorKind::NotFound, message)
            };
            let staged = self.get(part)?.ok_or_else(missing)?;
            let mut sum = Summing::default();
            staged.read(|bytes| {
                sum.add(bytes);
                writer.add(bytes)
            })?;
            if sum.finish() != staged.checksum() {
                let message = format!("the staged value \"{}\" has another checksum", part.escape_ascii());
                return Err(Error::new(ErrorKind::Corruption, message));
            }
            staged.put.entries.iter().try_for_each(|key| gone.delete(&self.tree, key))?;
        }
        writer.commit_with(gone, Durability::Power)
    }
}

impl StagedWriter {
    /// Appends the next bytes of the value.
    ///
    /// # Errors
    /// As [`ValueWriter::add`].
    pub fn add(&mut self, bytes: &[u8]) -> Result<()> {
        self.writer.add(bytes)?;
        self.sum.add(bytes);
        Ok(())
    }

    /// Ends the value and stages it. When this returns, it survives power loss.
    ///
    /// # Errors
    /// As [`ValueWriter::commit`]; an earlier value under the id stays.
    pub fn commit(self) -> Result<StagedValue> {
        self.commit_with(Batch::new(), Durability::Power)
    }

    /// [`StagedWriter::commit`], in one step with `batch`.
    fn commit_with(self, mut batch: Batch, durability: Durability) -> Result<StagedValue> {
        let StagedWriter { id, entries, sum, writer, staging } = self;
        let tree = &staging.tree;
        let (len, checksum) = (writer.len(), sum.finish());
        let stored = writer.finish()?;
        staging.delete_all(&id, &mut batch)?;
        batch.put_stored(tree, &entries[0], &stored)?;
        batch.put(tree, &entries[1], [len.to_le_bytes(), checksum.to_le_bytes()].concat())?;
        let snapshot = {
            tree.store.writes().write(&batch, durability)?;
            Snapshot::for_one_call(&tree.owner)
        };
        // A value in a blob file need not be written again.
        let value = value_at(tree, &snapshot, &entries[0])?.unwrap_or_else(|| stored.into_value());
        Ok(StagedValue::new(tree, &id, entries, (len, checksum), value))
    }
}

impl Write for StagedWriter {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.add(bytes)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl StagedValue {
    fn new(
        tree: &Tree,
        id: &[u8],
        entries: [Vec<u8>; 2],
        (len, checksum): (u64, u64),
        value: HugeValue,
    ) -> StagedValue {
        let put = StagedPut { tree: Arc::clone(&tree.inner), id: id.to_vec(), entries, len, checksum, value };
        StagedValue { put: Arc::new(put) }
    }

    /// The name under which it is staged.
    pub fn id(&self) -> &[u8] {
        &self.put.id
    }

    /// Its length in bytes.
    pub fn len(&self) -> u64 {
        self.put.len
    }

    /// Whether it is empty.
    pub fn is_empty(&self) -> bool {
        self.put.len == 0
    }

    /// XXH3-64 of its bytes, without a seed: the same wherever they are staged.
    pub fn checksum(&self) -> u64 {
        self.put.checksum
    }

    /// The value, to be read: whole, in part or as a stream.
    pub fn value(&self) -> Value {
        value_of(&self.put.value)
    }

    /// Passes its bytes to `take`, piece by piece.
    fn read(&self, mut take: impl FnMut(&[u8]) -> Result<()>) -> Result<()> {
        let value = self.value();
        let mut offset = 0;
        while offset < self.len() {
            let piece = value.read_at(offset..offset + COPY_LEN)?;
            if piece.is_empty() {
                let message = format!("the staged value \"{}\" ends early", self.id().escape_ascii());
                return Err(Error::new(ErrorKind::Corruption, message));
            }
            take(&piece)?;
            offset += piece.len() as u64;
        }
        Ok(())
    }
}
