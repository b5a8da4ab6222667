//! The trees of the databases, as commands read and write them.
//!
//! ```text
//! database 0   tree "default"   its collections' elements: "default.elements"
//! database n   tree "dbn"                                  "dbn.elements"
//! ```
//! A database's trees are made at its first write. The tag of a tree of elements says that it is one.

use std::cell::Cell;
use std::sync::{Arc, OnceLock};

use esker::{Batch, Db, ErrorKind, PutOptions, Scan, ScanRange, Snapshot, Tree};
use esker_redis::{Base, Bounds, Entry, Huge, Op, ReadError, Slot, Space, Value, Writes};

/// The tag of a tree of elements: what lies in it, and in which version of the layout.
const ELEMENTS_TAG: &str = "redis elements 1";

/// A value of at most this many bytes is copied when it is found; a longer one is read when it is asked for.
const COPIED_BYTES: u64 = 64 << 10;

/// How many entries the event loop walks over for one command. More is work for the pool.
const STEPS_INLINE: u32 = 1000;

/// A database's trees.
struct Database {
    keys: Tree,
    elements: Tree,
}

/// The trees of all databases.
pub(crate) struct Trees {
    db: Db,
    databases: Vec<OnceLock<Database>>,
}

fn name_of(database: usize) -> String {
    if database == 0 { "default".to_owned() } else { format!("db{database}") }
}

impl Trees {
    /// Finds the trees of those of `count` databases that have some.
    pub(crate) fn open(db: &Db, count: u16) -> esker::Result<Trees> {
        let mut databases = Vec::new();
        for number in 0..usize::from(count) {
            let found = OnceLock::new();
            let elements = db.open_tree(&format!("{}.elements", name_of(number)))?;
            if let (Some(keys), Some(elements)) = (db.open_tree(&name_of(number))?, elements) {
                check_tag(&elements)?;
                let _ = found.set(Database { keys, elements });
            } else if db.open_tree(&name_of(number))?.is_some() {
                // A tree that something else has made: with strings, as far as commands are concerned.
                let _ = found.set(Trees::make(db, number)?);
            }
            databases.push(found);
        }
        Ok(Trees { db: db.clone(), databases })
    }

    fn make(db: &Db, number: usize) -> esker::Result<Database> {
        let keys = db.tree(&name_of(number))?;
        let elements = db.tree(&format!("{}.elements", name_of(number)))?;
        if elements.tag().is_none() && elements.is_empty()? {
            elements.set_tag(ELEMENTS_TAG)?;
        }
        check_tag(&elements)?;
        Ok(Database { keys, elements })
    }

    pub(crate) fn count(&self) -> u16 {
        self.databases.len() as u16
    }

    /// The tree, if its database has been written to.
    pub(crate) fn find(&self, slot: Slot) -> Option<&Tree> {
        let database = self.databases.get(usize::from(slot.database))?.get()?;
        Some(match slot.space {
            Space::Keys => &database.keys,
            Space::Elements => &database.elements,
        })
    }

    /// The keys of a database, if it has been written to.
    pub(crate) fn keys(&self, database: u16) -> Option<&Tree> {
        self.find(Slot { database, space: Space::Keys })
    }

    /// Whether all trees are there that `writes` go to. If not, [`Trees::batch`] makes them, which waits for the disk.
    pub(crate) fn has_all(&self, writes: &Writes) -> bool {
        writes.ops().all(|(slot, _, _)| self.find(slot).is_some())
    }

    /// The batch that `writes` come to. Makes trees that are missing.
    pub(crate) fn batch(&self, writes: &Writes) -> esker::Result<Batch> {
        let mut batch = Batch::new();
        for slot in writes.cleared() {
            if let Some(tree) = self.find(*slot) {
                batch.delete_range(tree, ..)?;
            }
        }
        for (slot, bounds) in writes.ranges() {
            if let Some(tree) = self.find(slot) {
                batch.delete_range(tree, within(bounds))?;
            }
        }
        for (slot, key, op) in writes.ops() {
            if self.find(slot).is_none() {
                let number = usize::from(slot.database);
                let made = Trees::make(&self.db, number)?;
                // Another thread may have been faster: the trees are the same.
                let _ = self.databases[number].set(made);
            }
            let Some(tree) = self.find(slot) else { continue };
            match op {
                Op::Delete => batch.delete(tree, key)?,
                Op::Put(Entry { value, attributes, expires_us }) => {
                    let bytes;
                    let value = match value {
                        Value::Bytes(bytes) => bytes.as_slice(),
                        Value::Huge(_) => {
                            bytes = value.clone().into_bytes().map_err(unreadable)?;
                            bytes.as_slice()
                        }
                    };
                    if attributes.is_empty() {
                        batch.put_until_us(tree, key, value, *expires_us)?;
                    } else {
                        let options = PutOptions::default().attributes(attributes).expires_us(*expires_us);
                        batch.put_opts(tree, key, value, &options)?;
                    }
                }
            }
        }
        Ok(batch)
    }
}

fn check_tag(elements: &Tree) -> esker::Result<()> {
    let tag = elements.tag();
    if tag.as_deref() == Some(ELEMENTS_TAG) {
        return Ok(());
    }
    let message = format!(
        "the tree \"{}\" was not made by a server of this version (its tag is {tag:?}, and not {ELEMENTS_TAG:?}): rename or \
         drop it, or serve another store",
        elements.name()
    );
    Err(esker::Error::new(ErrorKind::Unsupported, message))
}

pub(crate) fn unreadable(error: ReadError) -> esker::Error {
    match error {
        ReadError::NeedsIo => esker::Error::new(ErrorKind::NeedsIo, "a huge value has to be read"),
        ReadError::Failed(message) => esker::Error::new(ErrorKind::Io, message),
    }
}

fn failed(error: &esker::Error) -> ReadError {
    if error.kind() == ErrorKind::NeedsIo { ReadError::NeedsIo } else { ReadError::Failed(error.to_string()) }
}

fn within(bounds: Bounds<'_>) -> ScanRange {
    match bounds.upper {
        Some(upper) => ScanRange::from(bounds.lower..upper),
        None => ScanRange::from(bounds.lower..),
    }
}

struct HugeValue(esker::Value);

impl Huge for HugeValue {
    fn len(&self) -> u64 {
        self.0.len()
    }

    fn read_at(&self, offset: u64, len: usize) -> Result<Vec<u8>, ReadError> {
        self.0.read_at(offset..offset.saturating_add(len as u64)).map_err(|error| failed(&error))
    }
}

fn entry_of(value: esker::Value) -> Result<Entry, ReadError> {
    let (attributes, expires_us) = (value.attributes().to_vec(), value.expires_us());
    let value = if value.len() <= COPIED_BYTES {
        Value::Bytes(value.into_vec().map_err(|error| failed(&error))?)
    } else {
        Value::Huge(Arc::new(HugeValue(value)))
    };
    Ok(Entry { value, attributes, expires_us })
}

/// The store as one command reads it.
pub(crate) struct View<'a> {
    trees: &'a Trees,
    /// `None`: as it is now.
    snapshot: Option<&'a Snapshot>,
    /// How many more entries may be walked over; `None`: any number.
    steps_left: Cell<Option<u32>>,
}

impl<'a> View<'a> {
    /// For the event loop: the store as it is now, and only what is in memory. Evaluate below
    /// [`esker::without_io`].
    pub(crate) fn inline(trees: &'a Trees) -> View<'a> {
        View { trees, snapshot: None, steps_left: Cell::new(Some(STEPS_INLINE)) }
    }

    /// For the pool: all of it, as it was when `snapshot` was taken.
    pub(crate) fn of_pool(trees: &'a Trees, snapshot: &'a Snapshot) -> View<'a> {
        View { trees, snapshot: Some(snapshot), steps_left: Cell::new(None) }
    }

    fn scan(&self, tree: &Tree, range: ScanRange) -> esker::Result<Scan> {
        match self.snapshot {
            Some(snapshot) => snapshot.scan(tree, range),
            None => tree.scan(range),
        }
    }

    /// Notes that an entry is looked at.
    fn step(&self) -> Result<(), ReadError> {
        match self.steps_left.get() {
            Some(0) => Err(ReadError::NeedsIo),
            left => {
                self.steps_left.set(left.map(|left| left - 1));
                Ok(())
            }
        }
    }
}

impl Base for View<'_> {
    fn get(&self, slot: Slot, key: &[u8]) -> Result<Option<Entry>, ReadError> {
        let Some(tree) = self.trees.find(slot) else { return Ok(None) };
        self.step()?;
        let found = match self.snapshot {
            Some(snapshot) => snapshot.get(tree, key),
            None => tree.get(key),
        };
        found.map_err(|error| failed(&error))?.map(entry_of).transpose()
    }

    fn walk(
        &self,
        slot: Slot,
        bounds: Bounds<'_>,
        reverse: bool,
        visit: &mut esker_redis::Visit<'_>,
    ) -> Result<(), ReadError> {
        let Some(tree) = self.trees.find(slot) else { return Ok(()) };
        let range = within(bounds);
        let range = if reverse { range.reverse() } else { range };
        let mut scan = self.scan(tree, range).map_err(|error| failed(&error))?;
        while scan.advance().map_err(|error| failed(&error))? {
            self.step()?;
            let (attributes, expires_us) = (scan.attributes().to_vec(), scan.expires_us());
            let value = if scan.value_len() <= COPIED_BYTES {
                Value::Bytes(scan.value().map_err(|error| failed(&error))?.to_vec())
            } else {
                Value::Huge(Arc::new(HugeValue(scan.handle().map_err(|error| failed(&error))?)))
            };
            if !visit(scan.key(), Entry { value, attributes, expires_us })? {
                break;
            }
        }
        Ok(())
    }
}
