//! Batches as bytes, for logs that are kept elsewhere. `docs/format.md` ("Encoded batches") has the layout.

use std::sync::Arc;

use super::stream::check_lineage;
use super::{StagedValue, Tree};
use crate::canary::broken;
use crate::codec::{Decoder, put_slice, put_varint};
use crate::cursor::{ATTRIBUTES_LEN_MAX, Beside, Content, Kind};
use crate::error::{Error, ErrorKind, Result};
use crate::operators;
use crate::ranges::KeyRange;
use crate::value::PutOptions;
use crate::version::edit::CLOCK_MAX;
use crate::write::batch::{AwaitedValue, Batch, HugeValue, Op, STAGED_ID_MAX};

/// The version of the layout.
const VERSION: u8 = 1;

const DELETE: u8 = 0;
const PUT: u8 = 1;
const MERGE: u8 = 2;
const DELETE_RANGE: u8 = 3;
const HUGE: u8 = 4;
const TIME: u8 = 5;
/// Added to [`PUT`] and [`HUGE`]: the value expires.
const EXPIRES: u8 = 0x80;
/// Added to [`PUT`] and [`HUGE`]: the value has attributes.
const ATTRIBUTES: u8 = 0x40;

/// An op in its encoded form.
enum Encoded<'a> {
    Delete,
    Put { beside: Beside<'a>, value: &'a [u8] },
    Merge { operator: &'a str, operand: &'a [u8] },
    DeleteRange { upper: &'a [u8] },
    Huge { beside: Beside<'a>, id: &'a [u8], len: u64, checksum: u64 },
    Time { time_us: u64 },
}

impl<'a> Encoded<'a> {
    fn of(tree: &str, op: &Op<'a>, huge: Option<&'a HugeValue>) -> Result<Encoded<'a>> {
        let entry = Content::open(op.kind, op.value);
        let (kind, beside, value) = (entry.kind, entry.beside(), entry.value);
        Ok(match (kind, huge) {
            (_, Some(HugeValue::Staged(staged))) => {
                Encoded::Huge { beside, id: &staged.id, len: staged.len, checksum: staged.checksum }
            }
            (_, Some(HugeValue::Awaited(awaited))) => {
                Encoded::Huge { beside, id: &awaited.id, len: awaited.len, checksum: awaited.checksum }
            }
            (Kind::Put, None) => Encoded::Put { beside, value },
            (Kind::Delete, None) => Encoded::Delete,
            (Kind::Time, None) => Encoded::Time { time_us: op.time_us().unwrap_or(0) },
            (Kind::DeleteRange, None) => Encoded::DeleteRange { upper: op.value },
            (Kind::Merge, None) => match operators::parts(op.value) {
                Some((operator, operand)) => Encoded::Merge { operator, operand },
                None => return Err(Error::invalid("the batch has an operand without an operator")),
            },
            _ => {
                let key = op.key.escape_ascii();
                let message = format!(
                    "the value of \"{key}\" in the tree \"{tree}\" is huge: stage it, and put it into the batch as a \
                     staged value, so that the encoded batch can name it"
                );
                return Err(Error::invalid(message));
            }
        })
    }

    fn encode(&self, slot: u32, key: &[u8], out: &mut Vec<u8>) {
        let (expiry, attributes) = match self {
            Encoded::Put { beside, .. } | Encoded::Huge { beside, .. } => beside.parts(),
            _ => (None, &[][..]),
        };
        let flags =
            if expiry.is_some() { EXPIRES } else { 0 } | if attributes.is_empty() { 0 } else { ATTRIBUTES };
        out.push(
            flags
                | match self {
                    Encoded::Delete => DELETE,
                    Encoded::Put { .. } => PUT,
                    Encoded::Merge { .. } => MERGE,
                    Encoded::DeleteRange { .. } => DELETE_RANGE,
                    Encoded::Huge { .. } => HUGE,
                    Encoded::Time { .. } => TIME,
                },
        );
        put_varint(out, u64::from(slot));
        put_slice(out, key);
        if let Some(expiry) = expiry {
            out.extend_from_slice(&expiry.to_le_bytes());
        }
        if !attributes.is_empty() {
            put_slice(out, attributes);
        }
        match self {
            Encoded::Delete => {}
            Encoded::Put { value, .. } => put_slice(out, value),
            Encoded::Merge { operator, operand } => {
                put_slice(out, operator.as_bytes());
                put_slice(out, operand);
            }
            Encoded::DeleteRange { upper } => put_slice(out, upper),
            Encoded::Time { time_us } => out.extend_from_slice(&time_us.to_le_bytes()),
            Encoded::Huge { id, len, checksum, .. } => {
                put_slice(out, id);
                out.extend_from_slice(&len.to_le_bytes());
                out.extend_from_slice(&checksum.to_le_bytes());
            }
        }
    }

    /// The next op, with its slot and key; `None` if the bytes are not an op.
    fn decode(from: &mut Decoder<'a>) -> Option<(u64, &'a [u8], Encoded<'a>)> {
        let tag = from.u8()?;
        let (slot, key) = (from.varint()?, from.slice()?);
        let expiry = if tag & EXPIRES == 0 { None } else { Some(from.u64()?) };
        let attributes = if tag & ATTRIBUTES == 0 {
            &[]
        } else {
            from.slice().filter(|bytes| !bytes.is_empty() && bytes.len() <= ATTRIBUTES_LEN_MAX)?
        };
        let beside = Beside::of(expiry, attributes);
        let is_plain = beside == Beside::Nothing;
        let op = match tag & !(EXPIRES | ATTRIBUTES) {
            DELETE if is_plain => Encoded::Delete,
            PUT => Encoded::Put { beside, value: from.slice()? },
            MERGE if is_plain => {
                Encoded::Merge { operator: std::str::from_utf8(from.slice()?).ok()?, operand: from.slice()? }
            }
            DELETE_RANGE if is_plain => Encoded::DeleteRange { upper: from.slice()? },
            TIME if is_plain && key.is_empty() => {
                Encoded::Time { time_us: from.u64().filter(|&time_us| time_us <= CLOCK_MAX)? }
            }
            HUGE => {
                let id = from.slice().filter(|id| !id.is_empty() && id.len() <= STAGED_ID_MAX)?;
                Encoded::Huge { beside, id, len: from.u64()?, checksum: from.u64()? }
            }
            _ => return None,
        };
        Some((slot, key, op))
    }
}

fn undecodable(at: usize, what: &str) -> Error {
    Error::new(ErrorKind::Corruption, format!("these bytes are no encoded batch: {what} at byte {at}"))
}

impl Batch {
    /// The batch as bytes, for a log that is kept elsewhere. `slot` gives each tree, by its name, a number of the
    /// caller's choice, which stands for the tree. The layout is part of the file formats: later versions read it.
    /// Values expire at the same time wherever the batch is decoded, and keep their attributes. A huge value is named
    /// by its id in a staging area, its length and its checksum.
    ///
    /// # Errors
    /// `InvalidInput` when a huge value was not staged ([`Batch::put_staged`]), or `slot` has no number for a tree.
    ///
    /// # Example
    /// ```
    /// # fn main() -> esker::Result<()> {
    /// # let [here, there] = [(); 2].map(|()| esker::Db::open_in_memory(esker::Options::default()));
    /// # let (here, there) = (here?, there?);
    /// use esker::Batch;
    /// let mut batch = Batch::new();
    /// batch.put(here.default_tree(), "ada", "1")?;
    /// let entry = batch.encode(|name| (name == "default").then_some(0))?;
    /// // Elsewhere, or after a restart:
    /// let batch = Batch::decode(&entry, |slot| (slot == 0).then(|| there.default_tree().clone()))?;
    /// there.write(&batch)?;
    /// assert_eq!(there.get_vec("ada")?.as_deref(), Some(&b"1"[..]));
    /// # Ok(())
    /// # }
    /// ```
    pub fn encode(&self, mut slot: impl FnMut(&str) -> Option<u32>) -> Result<Vec<u8>> {
        let mut out = Vec::with_capacity(self.size_bytes() + 8);
        out.push(VERSION);
        put_varint(&mut out, self.len() as u64);
        for (tree, op, huge) in self.whole_ops() {
            let unknown = || Error::invalid(format!("the tree \"{}\" has no slot", tree.name));
            let slot = slot(&tree.name).ok_or_else(unknown)?;
            Encoded::of(&tree.name, &op, huge)?.encode(slot, op.key, &mut out);
        }
        Ok(out)
    }

    /// The batch that [`Batch::encode`] has encoded as `bytes`. `tree` returns the tree for a slot. Huge values are
    /// named but not included: each of [`Batch::awaited`] has to be attached ([`Batch::attach`]) before the batch can
    /// be written.
    ///
    /// # Errors
    /// `Corruption` when `bytes` are not an encoded batch; `Unsupported` when a later version of Esker has encoded it;
    /// `InvalidInput` when `tree` has no tree for a slot, and as [`Batch::put`] and [`Batch::merge`].
    pub fn decode(bytes: &[u8], mut tree: impl FnMut(u32) -> Option<Tree>) -> Result<Batch> {
        let mut from = Decoder::new(bytes);
        let at = |from: &Decoder<'_>| bytes.len() - from.rest().len();
        match from.u8() {
            Some(VERSION) => {}
            Some(version) => {
                let message =
                    format!("the encoded batch has the version {version}; this build knows {VERSION}");
                return Err(Error::new(ErrorKind::Unsupported, message));
            }
            None => return Err(undecodable(0, "there is nothing")),
        }
        let count = from.varint().ok_or_else(|| undecodable(at(&from), "no count"))?;
        let mut batch = Batch::new();
        // This saves a lookup for neighbouring ops in the same tree.
        let mut last: Option<(u64, Tree)> = None;
        for _ in 0..count {
            let begin = at(&from);
            let (slot, key, op) =
                Encoded::decode(&mut from).ok_or_else(|| undecodable(begin, "a broken operation"))?;
            let known = last.take().filter(|(known, _)| *known == slot || broken("batch-slots"));
            let found = known.or_else(|| Some((slot, tree(u32::try_from(slot).ok()?)?)));
            let unknown = || Error::invalid(format!("no tree has the slot {slot}"));
            let (_, tree) = last.insert(found.ok_or_else(unknown)?);
            batch.add_encoded(tree, key, &op).map_err(|error| match error.kind() {
                ErrorKind::Corruption => undecodable(begin, error.message()),
                _ => error,
            })?;
        }
        match from.is_empty() {
            true => Ok(batch),
            false => Err(undecodable(at(&from), "something behind the last operation")),
        }
    }

    fn add_encoded(&mut self, tree: &Tree, key: &[u8], op: &Encoded<'_>) -> Result<()> {
        self.carry(tree)?;
        match *op {
            Encoded::Delete => self.add(tree.inner(), Kind::Delete, key, &[]),
            Encoded::Put { beside, value } => self.put_beside(tree, key, value, beside),
            Encoded::Merge { operator, operand } => self.merge(tree, key, operator, operand),
            Encoded::Time { time_us } => self.add_time(tree.inner(), time_us),
            Encoded::DeleteRange { upper } => {
                let broken = || Error::new(ErrorKind::Corruption, "a range without keys");
                self.add_range(tree.inner(), &KeyRange::decode(key, upper).ok_or_else(broken)?)
            }
            Encoded::Huge { beside, id, len, checksum } => {
                let awaited = AwaitedValue { id: id.to_vec(), len, checksum };
                self.add_huge(tree.inner(), key, HugeValue::Awaited(Arc::new(awaited)), beside)
            }
        }
    }

    /// Adds: `key` of `tree` gets the staged value `staged` until `expires_us` ([`Batch::put_until_us`]). The write takes it
    /// from its staging area. Several keys may get it.
    ///
    /// # Errors
    /// As [`Batch::put`], and `InvalidInput` when the tree is not in the group of the staging area's tree.
    pub fn put_staged(
        &mut self,
        tree: &Tree,
        key: impl AsRef<[u8]>,
        staged: &StagedValue,
        expires_us: Option<u64>,
    ) -> Result<()> {
        self.put_staged_opts(tree, key, staged, &PutOptions::until(expires_us))
    }

    /// Like [`Batch::put_staged`], with the expiry and attributes in `options` ([`Tree::put_opts`]).
    ///
    /// # Errors
    /// As [`Batch::put_staged`], and `InvalidInput` when the attributes are longer than 4 KiB.
    pub fn put_staged_opts(
        &mut self,
        tree: &Tree,
        key: impl AsRef<[u8]>,
        staged: &StagedValue,
        options: &PutOptions,
    ) -> Result<()> {
        check_lineage(&staged.put.tree, tree.inner())?;
        let value = HugeValue::Staged(Arc::clone(&staged.put));
        self.add_huge(tree.inner(), key.as_ref(), value, options.checked()?)?;
        self.carry(tree)
    }

    /// Attaches a staged value to all puts of the decoded batch that await its id. Returns whether there were any.
    ///
    /// # Errors
    /// `InvalidInput` when its length or its checksum is not the one that the batch names, or as [`Batch::put_staged`].
    /// Then nothing is attached.
    pub fn attach(&mut self, staged: &StagedValue) -> Result<bool> {
        self.attach_staged(&staged.put, |tree, awaited| {
            check_lineage(&staged.put.tree, tree)?;
            if (awaited.len, awaited.checksum) != (staged.len(), staged.checksum()) {
                let message = format!(
                    "the batch awaits \"{}\" with {} bytes and the checksum {:016x}; staged under this id are {} \
                     bytes with the checksum {:016x}",
                    awaited.id.escape_ascii(),
                    awaited.len,
                    awaited.checksum,
                    staged.len(),
                    staged.checksum()
                );
                return Err(Error::invalid(message));
            }
            Ok(())
        })
    }
}
