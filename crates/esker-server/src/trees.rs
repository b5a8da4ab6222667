//! The trees of the databases, as commands read and write them.
//!
//! ```text
//! database 0   tree "default"   its collections' elements: "default.elements"
//! database n   tree "dbn"                                  "dbn.elements"
//! ```
//! A database's trees are made at its first write. The tag of a tree of elements says that it is one, and in which layout. It
//! becomes that of the second layout before the first entry is written that servers of the first one cannot read: they refuse
//! such a store instead of taking the entry for damage.
//!
//! Huge values are not read to be written: a batch gives a key one that was read ([`Snapshot::stored`]) or that a client has
//! just sent ([`Trees::writer`]), by its place.

use std::any::Any;
use std::cell::Cell;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use esker::{Batch, ErrorKind, PutOptions, Scan, ScanRange, Snapshot, StoredValue, Tree, ValueWriter};
use esker_journal::Journal;
use esker_redis::model::is_of_layout_2;
use esker_redis::{
    Base, Bounds, EMPTY_KEY, Entry, Huge, Lending, Op, ReadError, Slot, Space, UseValue, Value, Visit,
    Writes, in_order, walk_over,
};

/// The tags of a tree of elements: what lies in it, and in which version of the layout. The second one has all that the first
/// one has, and may have entries of [`is_of_layout_2`].
const ELEMENTS_TAG: &str = "redis elements 1";
const ELEMENTS_TAG_2: &str = "redis elements 2";

/// A value of at most this many bytes is copied when it is found; a longer one is read when it is asked for.
const COPIED_BYTES: u64 = 64 << 10;

/// How many entries, those of deleted keys included, the event loop walks over for one command. More is work for the pool.
pub(crate) const STEPS_INLINE: u32 = 1000;

/// A command on the event loop makes no value of more bytes from shorter ones.
const MADE_INLINE: u64 = 1 << 20;

/// The event loop reads values of so many bytes for one command. More is work for the pool.
const READ_INLINE: usize = 4 << 20;

/// A tree, by two handles.
struct Handles {
    tree: Tree,
    /// The same tree, with entries that have expired. Commands judge entries by their own time ([`esker_redis::Session`]): the
    /// store's clock goes on while they are evaluated.
    undated: Tree,
}

impl Handles {
    fn new(tree: Tree) -> Handles {
        Handles { undated: tree.at_us(0), tree }
    }
}

/// A database's trees.
struct Database {
    keys: Handles,
    elements: Handles,
    /// Whether the tree of elements has the tag of the second layout.
    has_tag_2: AtomicBool,
}

impl Database {
    fn new(keys: Tree, elements: Tree) -> esker::Result<Database> {
        check_tag(&elements)?;
        let has_tag_2 = AtomicBool::new(elements.tag().as_deref() == Some(ELEMENTS_TAG_2));
        Ok(Database { keys: Handles::new(keys), elements: Handles::new(elements), has_tag_2 })
    }

    fn handles(&self, space: Space) -> &Handles {
        match space {
            Space::Keys => &self.keys,
            Space::Elements => &self.elements,
        }
    }

    fn has_tag_2(&self) -> bool {
        self.has_tag_2.load(Ordering::Acquire)
    }

    /// Gives the tree of elements the tag of the second layout, durably.
    fn set_tag_2(&self, journal: &dyn Journal) -> esker::Result<()> {
        if !self.has_tag_2() {
            journal.tag_tree(&self.elements.tree, ELEMENTS_TAG_2)?;
            self.has_tag_2.store(true, Ordering::Release);
        }
        Ok(())
    }
}

/// Whether the write needs the second layout of a tree of elements.
fn needs_tag_2(slot: Slot, key: &[u8], op: &Op) -> bool {
    slot.space == Space::Elements && matches!(op, Op::Put(entry) if is_of_layout_2(key, entry))
}

/// The trees of all databases.
pub(crate) struct Trees {
    journal: Arc<dyn Journal>,
    databases: Vec<OnceLock<Database>>,
}

fn name_of(database: usize) -> String {
    if database == 0 { "default".to_owned() } else { format!("db{database}") }
}

/// The end of the name of a tree of elements, after the name of the tree of keys.
pub(crate) const ELEMENTS_END: &str = ".elements";

fn elements_of(name: &str) -> String {
    format!("{name}{ELEMENTS_END}")
}

impl Trees {
    /// Finds the trees of those of `count` databases that have some.
    pub(crate) fn open(journal: &Arc<dyn Journal>, count: u16) -> esker::Result<Trees> {
        let (db, mut databases) = (journal.db(), Vec::new());
        for number in 0..usize::from(count) {
            let found = OnceLock::new();
            let elements = db.open_tree(&elements_of(&name_of(number)))?;
            if let (Some(keys), Some(elements)) = (db.open_tree(&name_of(number))?, elements) {
                let _ = found.set(Database::new(keys, elements)?);
            } else if db.open_tree(&name_of(number))?.is_some() {
                // A tree that something else has made: with strings, as far as commands are concerned.
                let _ = found.set(Trees::make(&**journal, number)?);
            }
            databases.push(found);
        }
        Ok(Trees { journal: Arc::clone(journal), databases })
    }

    /// Finds the trees of one database, if it has some. They are made at its first write.
    ///
    /// # Errors
    /// If the tree of its elements is something else.
    pub(crate) fn of_one(journal: &Arc<dyn Journal>, number: u16) -> esker::Result<Trees> {
        let db = journal.db();
        let databases: Vec<_> = (0..=number).map(|_| OnceLock::new()).collect();
        let name = name_of(usize::from(number));
        let found = (db.open_tree(&name)?, db.open_tree(&elements_of(&name))?);
        if let ((Some(keys), Some(elements)), Some(database)) = (found, databases.last()) {
            let _ = database.set(Database::new(keys, elements)?);
        }
        Ok(Trees { journal: Arc::clone(journal), databases })
    }

    fn make(journal: &dyn Journal, number: usize) -> esker::Result<Database> {
        let keys = journal.make_tree(&name_of(number), None)?;
        let elements = journal.make_tree(&elements_of(&name_of(number)), Some(ELEMENTS_TAG))?;
        Database::new(keys, elements)
    }

    pub(crate) fn journal(&self) -> &dyn Journal {
        &*self.journal
    }

    pub(crate) fn count(&self) -> u16 {
        self.databases.len() as u16
    }

    fn database(&self, number: u16) -> Option<&Database> {
        self.databases.get(usize::from(number))?.get()
    }

    /// The tree, if its database has been written to.
    pub(crate) fn find(&self, slot: Slot) -> Option<&Tree> {
        Some(&self.database(slot.database)?.handles(slot.space).tree)
    }

    /// The tree, if its database has been written to, with entries that have expired.
    fn undated(&self, slot: Slot) -> Option<&Tree> {
        Some(&self.database(slot.database)?.handles(slot.space).undated)
    }

    /// The keys of a database, if it has been written to.
    pub(crate) fn keys(&self, database: u16) -> Option<&Tree> {
        self.find(Slot { database, space: Space::Keys })
    }

    /// When the empty key of a database expires, if it is there.
    pub(crate) fn empty_key(
        &self,
        database: u16,
        snapshot: Option<&Snapshot>,
    ) -> esker::Result<Option<Option<u64>>> {
        let Some(tree) = self.find(Slot { database, space: Space::Elements }) else { return Ok(None) };
        let found = match snapshot {
            Some(snapshot) => snapshot.metadata(tree, EMPTY_KEY)?,
            None => tree.metadata(EMPTY_KEY)?,
        };
        Ok(found.map(|metadata| metadata.expires_us))
    }

    /// Makes the trees of a database if they are missing, and gives them the layout that has an empty key.
    pub(crate) fn take_empty_key(&self, database: u16) -> esker::Result<()> {
        self.made(database)?.map_or(Ok(()), |database| database.set_tag_2(&*self.journal))
    }

    /// The trees of a database, which are made if they are missing. `None`: the number is not that of a database.
    fn made(&self, number: u16) -> esker::Result<Option<&Database>> {
        let Some(database) = self.databases.get(usize::from(number)) else { return Ok(None) };
        if database.get().is_none() {
            // Another thread may be faster: the trees are the same.
            let _ = database.set(Trees::make(&*self.journal, number.into())?);
        }
        Ok(database.get())
    }

    /// Makes the trees that `writes` go to, with the tags that they need. A batch of them needs that done before.
    fn prepare(&self, writes: &Writes) -> esker::Result<()> {
        for (slot, key, op) in writes.ops() {
            if let Some(database) = self.made(slot.database)?
                && needs_tag_2(slot, key, op)
            {
                database.set_tag_2(&*self.journal)?;
            }
        }
        Ok(())
    }

    /// Writes a value, piece by piece, that may become that of any key of a database.
    pub(crate) fn writer(&self, database: u16) -> esker::Result<ValueWriter> {
        let made = self.made(database)?;
        let made =
            made.ok_or_else(|| esker::Error::new(ErrorKind::InvalidInput, "there is no such database"))?;
        self.journal.writer(&made.keys.tree)
    }

    /// The batch of `writes`, on a thread that may wait: makes trees that are missing, and copies huge values from other
    /// trees. What `writes` have from reads was read from `snapshot`; without one, they have no huge value that was read.
    /// Afterwards they have huge values by the place that the batch gives them.
    pub(crate) fn batch(&self, writes: &mut Writes, snapshot: Option<&Snapshot>) -> esker::Result<Batch> {
        self.prepare(writes)?;
        let (mut batch, mut placed) = (Batch::new(), Vec::new());
        let stored = |slot, key: &[u8], value: &dyn Huge| {
            let tree = self.undated(slot).ok_or_else(not_prepared)?;
            let stored = stored_for(&*self.journal, tree, value, snapshot)?;
            placed.push((slot, key.to_vec(), sent(tree, stored.clone())));
            Ok(stored)
        };
        self.fill(&mut batch, writes, stored)?;
        for (slot, key, value) in placed {
            writes.set_value(slot, &key, Value::Huge(value));
        }
        Ok(batch)
    }

    /// Puts `writes` into an empty batch, on a thread that may not wait.
    ///
    /// # Errors
    /// `NeedsIo` if that takes [`Trees::batch`]. The content of the batch has no meaning then.
    pub(crate) fn try_fill(&self, batch: &mut Batch, writes: &Writes) -> esker::Result<()> {
        self.fill(batch, writes, |slot, _, value| self.sent_to(slot, value).cloned().ok_or_else(not_prepared))
    }

    /// `value`, if a client has sent it for a key of this tree.
    fn sent_to<'a>(&self, slot: Slot, value: &'a dyn Huge) -> Option<&'a StoredValue> {
        let huge = value.as_any().downcast_ref::<HugeValue>()?;
        match &huge.origin {
            Origin::Sent(stored) if self.find(slot)?.name() == huge.tree.name() => Some(stored),
            _ => None,
        }
    }

    /// Puts `writes` into a batch, huge values by the place that `stored` gives them.
    fn fill(
        &self,
        batch: &mut Batch,
        writes: &Writes,
        mut stored: impl FnMut(Slot, &[u8], &dyn Huge) -> esker::Result<StoredValue>,
    ) -> esker::Result<()> {
        batch.clear();
        if writes.only_free_space() {
            batch.mark_as_freeing();
        }
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
            let database = self.database(slot.database).ok_or_else(not_prepared)?;
            if needs_tag_2(slot, key, op) && !database.has_tag_2() {
                return Err(not_prepared());
            }
            let tree = &database.handles(slot.space).tree;
            match op {
                Op::Delete => batch.delete(tree, key)?,
                Op::Put(Entry { value: Value::Bytes(value), attributes, expires_us }) => {
                    if attributes.is_empty() {
                        batch.put_until_us(tree, key, value, *expires_us)?;
                    } else {
                        let options = PutOptions::default().attributes(attributes).expires_us(*expires_us);
                        batch.put_opts(tree, key, value, &options)?;
                    }
                }
                Op::Put(Entry { value: Value::Huge(value), attributes, expires_us }) => {
                    let options = PutOptions::default().attributes(attributes).expires_us(*expires_us);
                    batch.put_stored(tree, key, &stored(slot, key, value.as_ref())?.with_options(options))?;
                }
            }
        }
        Ok(())
    }
}

/// A batch needs what [`Trees::batch`] does.
#[cold]
fn not_prepared() -> esker::Error {
    esker::Error::new(ErrorKind::NeedsIo, "a tree has to be made, or a huge value copied")
}

fn check_tag(elements: &Tree) -> esker::Result<()> {
    let tag = elements.tag();
    if tag.as_deref().is_some_and(|tag| [ELEMENTS_TAG, ELEMENTS_TAG_2].contains(&tag)) {
        return Ok(());
    }
    let message = format!(
        "the tree \"{}\" was not made by a server of this version (its tag is {tag:?}, and not {ELEMENTS_TAG:?} or \
         {ELEMENTS_TAG_2:?}): rename or drop it, or serve another store",
        elements.name()
    );
    Err(esker::Error::new(ErrorKind::Unsupported, message))
}

pub(crate) fn unreadable(error: ReadError) -> esker::Error {
    match error {
        ReadError::NeedsIo => esker::Error::new(ErrorKind::NeedsIo, "a file has to be read"),
        ReadError::Failed(message) => esker::Error::new(ErrorKind::Io, message),
    }
}

/// What a job comes to whose client's connection was ended.
pub(crate) fn ended() -> ReadError {
    ReadError::Failed("the connection was ended".to_owned())
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

/// A value that is too long to be copied for no reason.
struct HugeValue {
    value: esker::Value,
    /// The tree in which it is.
    tree: Tree,
    origin: Origin,
}

/// Where a huge value comes from.
enum Origin {
    /// The event loop has found it at a key, as it is now. It may be gone in a moment.
    Now,
    /// A command in the pool has found it at this key, in its snapshot.
    Seen(Vec<u8>),
    /// A client has just sent it.
    Sent(StoredValue),
}

impl Huge for HugeValue {
    fn len(&self) -> u64 {
        self.value.len()
    }

    fn read_at(&self, offset: u64, len: usize) -> Result<Vec<u8>, ReadError> {
        self.value.read_at(offset..offset.saturating_add(len as u64)).map_err(|error| failed(&error))
    }

    fn read_exact_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), ReadError> {
        self.value.read_exact_at(offset, buf).map_err(|error| failed(&error))
    }

    fn is_ready(&self) -> bool {
        !matches!(self.origin, Origin::Now)
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// A value that a client has sent for some key of `tree`, as an argument.
pub(crate) fn sent(tree: &Tree, stored: StoredValue) -> Arc<dyn Huge> {
    Arc::new(HugeValue { value: stored.value(), tree: tree.clone(), origin: Origin::Sent(stored) })
}

/// `value` as a batch can give it to a key of `tree`. That of another tree is copied, which may wait for the disk.
fn stored_for(
    journal: &dyn Journal,
    tree: &Tree,
    value: &dyn Huge,
    snapshot: Option<&Snapshot>,
) -> esker::Result<StoredValue> {
    let lost = || esker::Error::new(ErrorKind::InvalidInput, "a huge value is not one of this server's");
    let huge = value.as_any().downcast_ref::<HugeValue>().ok_or_else(lost)?;
    if huge.tree.name() == tree.name() {
        match (&huge.origin, snapshot) {
            (Origin::Sent(stored), _) => return Ok(stored.clone()),
            (Origin::Seen(key), Some(snapshot)) => {
                if let Some(stored) = snapshot.stored(tree, key)? {
                    return Ok(stored);
                }
            }
            _ => {}
        }
    }
    let mut writer = journal.writer(tree)?;
    huge.value.copy_to(&mut writer)?;
    writer.finish()
}

/// Where a view has found an entry.
struct Found<'a> {
    tree: &'a Tree,
    key: &'a [u8],
    in_snapshot: bool,
}

impl Found<'_> {
    fn huge(&self, value: esker::Value) -> Value {
        let origin = if self.in_snapshot { Origin::Seen(self.key.to_vec()) } else { Origin::Now };
        Value::Huge(Arc::new(HugeValue { value, tree: self.tree.clone(), origin }))
    }

    fn entry(&self, value: esker::Value) -> Result<Entry, ReadError> {
        let (attributes, expires_us) = (value.attributes().to_vec(), value.expires_us());
        let value = if value.len() <= COPIED_BYTES {
            Value::Bytes(value.into_vec().map_err(|error| failed(&error))?)
        } else {
            self.huge(value)
        };
        Ok(Entry { value, attributes, expires_us })
    }
}

/// The store as one command reads it, with entries that have expired: the command's session leaves these out.
pub(crate) struct View<'a> {
    trees: &'a Trees,
    /// The writes in flight, the oldest first. The store may have some of them already.
    in_flight: &'a [Arc<Writes>],
    /// Whether something was read that is in flight.
    relies: Cell<bool>,
    /// `None`: as it is now.
    snapshot: Option<&'a Snapshot>,
    /// How many more entries may be walked over; `None`: any number.
    steps_left: Cell<Option<u32>>,
    /// The bytes of the values that were read, if `steps_left` is counted.
    read: Cell<usize>,
    /// Whether it was walked over a range.
    has_walked: Cell<bool>,
    /// Set when nobody wants what is read any more.
    is_ended: Option<&'a AtomicBool>,
}

impl<'a> View<'a> {
    /// For the event loop: the store as it is now, and only what is in memory. At most `steps` entries are walked over, which
    /// are [`STEPS_INLINE`] for all that is done at once. Evaluate below [`esker::without_io`].
    pub(crate) fn inline(trees: &'a Trees, in_flight: &'a [Arc<Writes>], steps: u32) -> View<'a> {
        View { steps_left: Cell::new(Some(steps)), ..View::of_now(trees, in_flight) }
    }

    /// For the pool: all of it, as it was when `snapshot` was taken, after `in_flight`.
    pub(crate) fn of_pool(
        trees: &'a Trees,
        snapshot: &'a Snapshot,
        in_flight: &'a [Arc<Writes>],
    ) -> View<'a> {
        View { snapshot: Some(snapshot), ..View::of_now(trees, in_flight) }
    }

    /// The store as it is now, for a thread that may wait.
    pub(crate) fn of_now(trees: &'a Trees, in_flight: &'a [Arc<Writes>]) -> View<'a> {
        View {
            trees,
            in_flight,
            relies: Cell::default(),
            snapshot: None,
            steps_left: Cell::default(),
            read: Cell::default(),
            has_walked: Cell::default(),
            is_ended: None,
        }
    }

    /// It can be read until `is_ended` is set.
    pub(crate) fn until(self, is_ended: &'a AtomicBool) -> View<'a> {
        View { is_ended: Some(is_ended), ..self }
    }

    /// Whether something was read that is in flight.
    pub(crate) fn relies(&self) -> bool {
        self.relies.get()
    }

    /// What is in flight for `key`: `Some(None)` if the entry goes.
    #[inline]
    fn in_flight_for(&self, slot: Slot, key: &[u8]) -> Option<Option<&'a Entry>> {
        if self.in_flight.is_empty() { None } else { self.found_in_flight(slot, key) }
    }

    #[cold]
    fn found_in_flight(&self, slot: Slot, key: &[u8]) -> Option<Option<&'a Entry>> {
        let found = self.in_flight.iter().rev().find_map(|writes| match writes.op(slot, key) {
            Some(Op::Put(entry)) => Some(Some(entry)),
            Some(Op::Delete) => Some(None),
            None => writes.hides_all(slot).then_some(None),
        });
        if found.is_some() {
            self.relies.set(true);
        }
        found
    }

    /// [`Base::walk`] of the store with `in_flight` on top.
    fn walk_in_flight(
        &self,
        in_flight: &[Arc<Writes>],
        slot: Slot,
        bounds: Bounds<'_>,
        reverse: bool,
        visit: &mut Visit<'_>,
    ) -> Result<(), ReadError> {
        let Some((newest, older)) = in_flight.split_last() else {
            return self.walk_store(slot, bounds, reverse, visit);
        };
        let hides_all = newest.hides_all(slot);
        let mut ops = in_order(newest.range(slot, bounds), reverse).peekable();
        if hides_all || ops.peek().is_some() {
            self.relies.set(true);
        }
        let mut below = |visit: &mut Visit<'_>| {
            if hides_all { Ok(()) } else { self.walk_in_flight(older, slot, bounds, reverse, visit) }
        };
        let mut stepped =
            ops.inspect(|_| self.steps_left.set(self.steps_left.get().map(|left| left.saturating_sub(1))));
        let mut visit = |key: &[u8], entry: Entry| {
            if self.steps_left.get() == Some(0) { Err(ReadError::NeedsIo) } else { visit(key, entry) }
        };
        walk_over(&mut stepped, reverse, &mut below, &mut visit)
    }

    /// [`Base::walk`] of the store.
    fn walk_store(
        &self,
        slot: Slot,
        bounds: Bounds<'_>,
        reverse: bool,
        visit: &mut Visit<'_>,
    ) -> Result<(), ReadError> {
        let Some(tree) = self.trees.undated(slot) else { return Ok(()) };
        self.has_walked.set(true);
        let range = within(bounds);
        let range = if reverse { range.reverse() } else { range };
        let mut scan = self.scan(tree, range).map_err(|error| failed(&error))?;
        while self.advance(&mut scan)? {
            self.step()?;
            let (attributes, expires_us) = (scan.attributes().to_vec(), scan.expires_us());
            self.note_read(scan.value_len().min(COPIED_BYTES) as usize);
            let value = if scan.value_len() <= COPIED_BYTES {
                Value::Bytes(scan.value().map_err(|error| failed(&error))?.to_vec())
            } else {
                let value = scan.handle().map_err(|error| failed(&error))?;
                Found { tree, key: scan.key(), in_snapshot: self.snapshot.is_some() }.huge(value)
            };
            if !visit(scan.key(), Entry { value, attributes, expires_us })? {
                break;
            }
        }
        Ok(())
    }

    /// Over how many more entries the event loop may walk.
    pub(crate) fn steps_left(&self) -> u32 {
        self.steps_left.get().unwrap_or_default()
    }

    /// Whether many entries were looked at, or a range of them that is not in memory.
    pub(crate) fn has_walked(&self) -> bool {
        self.has_walked.get() || self.steps_left.get() == Some(0)
    }

    /// Notes that a value was read. After too many bytes, the next step is work for the pool.
    fn note_read(&self, bytes: usize) {
        self.read.set(self.read.get() + bytes);
        if self.read.get() > READ_INLINE && self.steps_left.get().is_some() {
            self.steps_left.set(Some(0));
        }
    }

    fn scan(&self, tree: &Tree, range: ScanRange) -> esker::Result<Scan> {
        match self.snapshot {
            Some(snapshot) => snapshot.scan(tree, range),
            None => tree.scan(range),
        }
    }

    /// Moves `scan` to its next pair. The entries of deleted keys that it passes count like others: the next pair may be
    /// after a million of them.
    fn advance(&self, scan: &mut Scan) -> Result<bool, ReadError> {
        let Some(left) = self.steps_left.get() else {
            return scan.advance().map_err(|error| failed(&error));
        };
        let before = scan.passed();
        scan.pass_at_most(left.into());
        let advanced = scan.advance();
        let passed = u32::try_from(scan.passed() - before).unwrap_or(u32::MAX);
        self.steps_left.set(Some(left.saturating_sub(passed)));
        advanced.map_err(|error| failed(&error))
    }

    /// Notes that an entry is looked at.
    fn step(&self) -> Result<(), ReadError> {
        match self.steps_left.get() {
            _ if self.is_ended.is_some_and(|is_ended| is_ended.load(Ordering::Relaxed)) => Err(ended()),
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
        if let Some(found) = self.in_flight_for(slot, key) {
            self.step()?;
            return Ok(found.cloned());
        }
        let Some(tree) = self.trees.undated(slot) else { return Ok(None) };
        self.step()?;
        let found = match self.snapshot {
            Some(snapshot) => snapshot.get(tree, key),
            None => tree.get(key),
        };
        let place = Found { tree, key, in_snapshot: self.snapshot.is_some() };
        let entry = found.map_err(|error| failed(&error))?.map(|value| place.entry(value)).transpose()?;
        if let Some(Entry { value: Value::Bytes(bytes), .. }) = &entry {
            self.note_read(bytes.len());
        }
        Ok(entry)
    }

    fn lend(&self, slot: Slot, key: &[u8], use_value: &mut UseValue<'_>) -> Result<Lending, ReadError> {
        if self.snapshot.is_some() {
            return Ok(Lending::Refused);
        }
        if let Some(found) = self.in_flight_for(slot, key) {
            // A get counts it.
            return Ok(if found.is_some() { Lending::Refused } else { Lending::Absent });
        }
        let Some(tree) = self.trees.undated(slot) else { return Ok(Lending::Absent) };
        if self.steps_left.get() == Some(0) {
            return Err(ReadError::NeedsIo);
        }
        let mut read = 0;
        let lent = tree.get_lent(key, |lent| match lent.bytes {
            Some(bytes) if bytes.len() as u64 <= COPIED_BYTES && lent.attributes.is_empty() => {
                use_value(bytes, lent.expires_us);
                read = bytes.len();
                Lending::Lent
            }
            _ => Lending::Refused,
        });
        let lending = lent.map_err(|error| failed(&error))?.unwrap_or(Lending::Absent);
        // The get that follows a refusal counts it.
        if lending != Lending::Refused {
            self.step()?;
            self.note_read(read);
        }
        Ok(lending)
    }

    fn expiry(&self, slot: Slot, key: &[u8]) -> Result<Option<Option<u64>>, ReadError> {
        if let Some(found) = self.in_flight_for(slot, key) {
            self.step()?;
            return Ok(found.map(|entry| entry.expires_us));
        }
        let Some(tree) = self.trees.undated(slot) else { return Ok(None) };
        self.step()?;
        let found = match self.snapshot {
            Some(snapshot) => snapshot.metadata(tree, key),
            None => tree.metadata(key),
        };
        Ok(found.map_err(|error| failed(&error))?.map(|metadata| metadata.expires_us))
    }

    fn may_make(&self, bytes: u64) -> Result<(), ReadError> {
        if bytes > MADE_INLINE && self.steps_left.get().is_some() {
            self.steps_left.set(Some(0));
            return Err(ReadError::NeedsIo);
        }
        Ok(())
    }

    fn may_wait(&self) -> Result<(), ReadError> {
        if self.steps_left.get().is_some() { Err(ReadError::NeedsIo) } else { Ok(()) }
    }

    fn walk(
        &self,
        slot: Slot,
        bounds: Bounds<'_>,
        reverse: bool,
        visit: &mut Visit<'_>,
    ) -> Result<(), ReadError> {
        self.walk_in_flight(self.in_flight, slot, bounds, reverse, visit)
    }
}

#[cfg(test)]
mod tests {
    use esker::Db;

    use super::*;

    /// A hash of 100 fields from which many others were deleted: the event loop does not walk past these.
    #[test]
    fn deleted_entries_count_as_walked() {
        let db = Db::open_in_memory(esker::Options::default()).unwrap();
        let journal: Arc<dyn Journal> = Arc::new(esker_journal::Local::new(&db));
        let trees = Trees::open(&journal, 1).unwrap();
        let slot = Slot { database: 0, space: Space::Elements };
        let tree = &trees.made(0).unwrap().unwrap().elements.tree;
        let fields = |numbers: std::ops::Range<u32>| numbers.map(|number| format!("field:{number:06}"));
        fields(0..3000).for_each(|field| tree.put(field, "value").unwrap());
        let walked = |view: &View<'_>, reverse| {
            let mut count = 0;
            let mut visit = |_: &[u8], _: Entry| {
                count += 1;
                Ok(true)
            };
            view.walk(slot, Bounds::ALL, reverse, &mut visit).map(|()| count)
        };
        let needs_pool = |result: Result<u32, ReadError>| matches!(result, Err(ReadError::NeedsIo));
        // It keeps the background from removing them.
        let _snapshot = db.snapshot();
        fields(50..2950).for_each(|field| tree.delete(field).unwrap());
        for reverse in [false, true] {
            let view = View::inline(&trees, &[], STEPS_INLINE);
            assert!(needs_pool(walked(&view, reverse)), "reverse: {reverse}");
            assert_eq!(view.steps_left(), 0);
            assert_eq!(walked(&View::of_pool(&trees, &db.snapshot(), &[]), reverse).unwrap(), 100);
        }
        // Those of a deleted range are left in one step.
        tree.delete_range(..).unwrap();
        for reverse in [false, true] {
            assert_eq!(walked(&View::inline(&trees, &[], STEPS_INLINE), reverse).unwrap(), 0);
        }
    }

    const KEYS: Slot = Slot { database: 0, space: Space::Keys };

    /// The store's clock goes on between the moment by which a command is evaluated and its reads.
    #[test]
    fn entries_are_judged_by_the_time_of_the_command() {
        let db = Db::open_in_memory(esker::Options::default()).unwrap();
        let journal: Arc<dyn Journal> = Arc::new(esker_journal::Local::new(&db));
        let trees = Trees::open(&journal, 1).unwrap();
        let tree = db.default_tree();
        let expires_us = journal.moment().now_us + 1;
        tree.put_opts("key", "value", &PutOptions::default().expires_us(Some(expires_us))).unwrap();
        while journal.moment().now_us <= expires_us {}
        assert!(tree.get("key").unwrap().is_none());
        let snapshot = db.snapshot();
        for view in [
            View::inline(&trees, &[], STEPS_INLINE),
            View::of_pool(&trees, &snapshot, &[]),
            View::of_now(&trees, &[]),
        ] {
            for (now_us, lives) in [(expires_us - 1, true), (expires_us, false)] {
                let mut writes = Writes::default();
                let session = esker_redis::Session::new(&view, &mut writes, now_us);
                assert_eq!(session.get(KEYS, b"key").unwrap().is_some(), lives);
                let mut walked = 0;
                let mut visit = |_: &[u8], _: Entry| {
                    walked += 1;
                    Ok(true)
                };
                session.walk(KEYS, Bounds::ALL, false, &mut visit).unwrap();
                assert_eq!(walked == 1, lives);
            }
        }
    }

    /// A batch makes no tree: that may take a wait, and comes before it.
    #[test]
    fn a_batch_needs_its_trees() {
        let db = Db::open_in_memory(esker::Options::default()).unwrap();
        let journal: Arc<dyn Journal> = Arc::new(esker_journal::Local::new(&db));
        let trees = Trees::open(&journal, 4).unwrap();
        let mut writes = Writes::default();
        let view = View::of_now(&trees, &[]);
        let entry =
            Entry { value: Value::Bytes(b"value".to_vec()), attributes: Vec::new(), expires_us: None };
        esker_redis::Session::new(&view, &mut writes, 1).put(Slot { database: 3, ..KEYS }, b"key", entry);
        let mut batch = Batch::new();
        assert_eq!(trees.try_fill(&mut batch, &writes).unwrap_err().kind(), ErrorKind::NeedsIo);
        assert!(db.open_tree("db3").unwrap().is_none());
        let made = trees.batch(&mut writes, None).unwrap();
        assert!(db.open_tree("db3").unwrap().is_some_and(|tree| tree.is_empty().unwrap()));
        trees.try_fill(&mut batch, &writes).unwrap();
        assert_eq!((batch.len(), made.len()), (1, 1));
    }
}
