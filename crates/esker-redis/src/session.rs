//! What commands read and write: a state of the store with the writes on top of it that are not in it yet.
//!
//! ```text
//! Session   reads: Writes, then Base        writes: Writes, with a journal, so that a command that fails takes back its own
//! ```
//! A client's key is the key of its entry in the tree Keys, with one exception: a store has no empty keys, and every other
//! string of bytes is some key. So the entry of the *empty key* is in the tree Elements, under [`EMPTY_KEY`], which is the
//! key of no element. Only [`placed`] and [`Session::walk`] know this. Base and Writes have the entry where it is stored.

use std::sync::Arc;

use crate::entry::KEY_BYTES_MAX;
pub use crate::entry::{Bounds, EMPTY_KEY, Entry, Huge, Long, Slot, Space, Value};
use crate::fault::{Fault, ReadError};
use crate::writes::{Op, Writes};

/// Is called with the entries of a walk in order, until it returns `false`.
pub type Visit<'a> = dyn FnMut(&[u8], Entry) -> Result<bool, ReadError> + 'a;

/// Takes the bytes of a value, and when it expires.
pub type UseValue<'a> = dyn FnMut(&[u8], Option<u64>) + 'a;

/// What has become of a value that was asked for to be lent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lending {
    /// It was lent.
    Lent,
    /// There is none.
    Absent,
    /// There may be one, which is not lent. A get finds it.
    Refused,
}

/// A state of the store. Nothing changes it while commands are evaluated against it. It may have entries that have expired: a
/// [`Session`] judges all of them by one time.
pub trait Base {
    /// The entry of `key`, if there is one.
    ///
    /// # Errors
    /// [`ReadError`] when it cannot be read.
    fn get(&self, slot: Slot, key: &[u8]) -> Result<Option<Entry>, ReadError>;

    /// Lends the value of `key`: calls `use_value` once with its bytes and its expiry, in microseconds since 1970. A base may
    /// refuse, and does for long values and for those with attributes.
    ///
    /// # Errors
    /// [`ReadError`] when it cannot be read.
    fn lend(&self, slot: Slot, key: &[u8], use_value: &mut UseValue<'_>) -> Result<Lending, ReadError> {
        let _ = (slot, key, use_value);
        Ok(Lending::Refused)
    }

    /// When the entry of `key` expires, in microseconds since 1970, if there is one. Its value is not copied.
    ///
    /// # Errors
    /// [`ReadError`] when it cannot be read.
    fn expiry(&self, slot: Slot, key: &[u8]) -> Result<Option<Option<u64>>, ReadError> {
        Ok(self.get(slot, key)?.map(|entry| entry.expires_us))
    }

    /// Whether a value of so many bytes may be made of shorter ones.
    ///
    /// # Errors
    /// `NeedsIo` when that is work for another thread.
    fn may_make(&self, bytes: u64) -> Result<(), ReadError> {
        let _ = bytes;
        Ok(())
    }

    /// Whether this thread may wait for the disk.
    ///
    /// # Errors
    /// `NeedsIo` when that is work for another thread.
    fn may_wait(&self) -> Result<(), ReadError> {
        Ok(())
    }

    /// Calls `visit` with the entries whose keys lie within `bounds`, ascending, or descending if `reverse`.
    ///
    /// # Errors
    /// [`ReadError`] when they cannot be read, and those of `visit`.
    fn walk(
        &self,
        slot: Slot,
        bounds: Bounds<'_>,
        reverse: bool,
        visit: &mut Visit<'_>,
    ) -> Result<(), ReadError>;
}

/// A state of the store and the writes on top of it, at one time.
pub struct Session<'a> {
    base: &'a dyn Base,
    writes: &'a mut Writes,
    now_us: u64,
    /// Why the writes since [`Session::begin`] cannot be made.
    refused: Option<Fault>,
    /// Whether they would take more than [`WRITTEN_MAX`]. Then nothing can be read any more.
    is_full: bool,
}

/// The most memory, in bytes, of what a command or a transaction writes.
const WRITTEN_MAX: usize = 1 << 30;

/// Where a store has the entry of `key`: for a client's empty key in the other tree.
pub fn placed(slot: Slot, key: &[u8]) -> (Slot, &[u8]) {
    if key.is_empty() && slot.space == Space::Keys {
        (Slot { space: Space::Elements, ..slot }, EMPTY_KEY)
    } else {
        (slot, key)
    }
}

#[cold]
fn too_much() -> ReadError {
    let message =
        format!("a command or a transaction writes at most {WRITTEN_MAX} bytes; nothing was written");
    ReadError::Failed(message)
}

impl<'a> Session<'a> {
    /// Reads `base` and `writes` as they are at `now_us`, in microseconds since 1970, and adds to `writes`.
    pub fn new(base: &'a dyn Base, writes: &'a mut Writes, now_us: u64) -> Session<'a> {
        Session { base, writes, now_us, refused: None, is_full: false }
    }

    fn lives(&self, entry: &Entry) -> bool {
        self.is_later(entry.expires_us)
    }

    fn is_later(&self, expires_us: Option<u64>) -> bool {
        expires_us.is_none_or(|expires| expires > self.now_us)
    }

    /// Begins a command: [`Session::undo`] goes back to here.
    pub(crate) fn begin(&mut self) {
        (self.refused, self.is_full) = (None, false);
        self.writes.begin();
    }

    /// Why what was written since [`Session::begin`] cannot be made: a key is too long, or it takes another thread.
    pub(crate) fn take_refused(&mut self) -> Option<Fault> {
        self.refused.take()
    }

    /// Notes that what was written since [`Session::begin`] may take space.
    pub(crate) fn note_growth(&mut self) {
        self.writes.note_growth();
    }

    /// Takes back what was written since [`Session::begin`].
    pub(crate) fn undo(&mut self) {
        self.writes.undo();
    }

    /// The entry of `key`, if there is one that has not expired.
    ///
    /// # Errors
    /// [`ReadError`] when it cannot be read.
    pub fn get(&self, slot: Slot, key: &[u8]) -> Result<Option<Entry>, ReadError> {
        self.check_room()?;
        let (slot, key) = placed(slot, key);
        let found = match self.writes.op(slot, key) {
            Some(Op::Put(entry)) => Some(entry.clone()),
            Some(Op::Delete) => None,
            None if self.writes.hides_all(slot) => None,
            None => self.base.get(slot, key)?,
        };
        Ok(found.filter(|entry| self.lives(entry)))
    }

    /// [`Base::lend`], with the writes on top.
    ///
    /// # Errors
    /// [`ReadError`] when it cannot be read.
    pub(crate) fn lend(
        &self,
        slot: Slot,
        key: &[u8],
        use_bytes: &mut dyn FnMut(&[u8]),
    ) -> Result<Lending, ReadError> {
        let (slot, key) = placed(slot, key);
        let mut has_expired = false;
        let mut use_value = |bytes: &[u8], expires_us| {
            if self.is_later(expires_us) {
                use_bytes(bytes);
            } else {
                has_expired = true;
            }
        };
        let lending = match self.writes.op(slot, key) {
            Some(Op::Put(Entry { value: Value::Bytes(bytes), attributes, expires_us }))
                if attributes.is_empty() =>
            {
                use_value(bytes, *expires_us);
                Lending::Lent
            }
            Some(Op::Put(_)) => Lending::Refused,
            Some(Op::Delete) => Lending::Absent,
            None if self.writes.hides_all(slot) => Lending::Absent,
            None => self.base.lend(slot, key, &mut use_value)?,
        };
        Ok(if has_expired { Lending::Absent } else { lending })
    }

    /// Whether there is an entry of `key` that has not expired. Its value is neither read nor copied.
    ///
    /// # Errors
    /// [`ReadError`] when it cannot be known.
    pub(crate) fn contains(&self, slot: Slot, key: &[u8]) -> Result<bool, ReadError> {
        self.check_room()?;
        let (slot, key) = placed(slot, key);
        let expiry = match self.writes.op(slot, key) {
            Some(Op::Put(entry)) => Some(entry.expires_us),
            Some(Op::Delete) => None,
            None if self.writes.hides_all(slot) => None,
            None => self.base.expiry(slot, key)?,
        };
        Ok(expiry.is_some_and(|expires_us| self.is_later(expires_us)))
    }

    /// [`Base::may_wait`].
    pub(crate) fn may_wait(&self) -> Result<(), ReadError> {
        self.base.may_wait()
    }

    /// [`Base::may_make`].
    pub(crate) fn may_make(&self, bytes: u64) -> Result<(), ReadError> {
        self.base.may_make(bytes)
    }

    /// `key` gets this entry.
    pub fn put(&mut self, slot: Slot, key: &[u8], entry: Entry) {
        let (slot, key) = placed(slot, key);
        if key.len() > KEY_BYTES_MAX {
            self.refused = Some(Fault::told(match slot.space {
                Space::Keys => "ERR a key has at most 131072 bytes",
                Space::Elements => {
                    "ERR a key with more than 64 elements, or 4096 bytes of them, has about 131000 bytes at most, and \
                     each zero byte in it counts twice"
                }
            }));
        } else if matches!(&entry.value, Value::Huge(huge) if !huge.is_ready()) {
            self.refused = Some(Fault::Unread(ReadError::NeedsIo));
        }
        self.write(slot, key, Op::Put(entry));
    }

    fn write(&mut self, slot: Slot, key: &[u8], op: Op) {
        if self.written_bytes() <= WRITTEN_MAX {
            self.writes.write(slot, key, op);
        } else if !self.is_full {
            self.is_full = true;
            self.refused = Some(Fault::Unread(too_much()));
        }
    }

    fn check_room(&self) -> Result<(), ReadError> {
        if self.is_full { Err(too_much()) } else { Ok(()) }
    }

    /// The memory, in bytes, of what was written: of the whole transaction.
    pub(crate) fn written_bytes(&self) -> usize {
        self.writes.memory_bytes()
    }

    /// `key` and its entry go.
    pub fn delete(&mut self, slot: Slot, key: &[u8]) {
        let (slot, key) = placed(slot, key);
        // There is no such key.
        if key.len() > KEY_BYTES_MAX {
            return;
        }
        self.write(slot, key, Op::Delete);
    }

    /// The keys from `lower` on and below `upper` go. No later read of this session may meet the range.
    pub(crate) fn delete_unread(&mut self, slot: Slot, lower: Vec<u8>, upper: Option<Vec<u8>>) {
        self.writes.delete_range(slot, lower, upper);
    }

    /// What was written to the keys from `lower` on and below `upper` is forgotten. No later read of this session may meet the
    /// range.
    pub(crate) fn forget_unread(&mut self, slot: Slot, lower: &[u8], upper: Option<&[u8]>) {
        self.writes.forget_range(slot, Bounds { lower, upper });
    }

    /// Everything in the tree goes.
    pub(crate) fn empty(&mut self, slot: Slot) {
        self.writes.empty(slot);
    }

    /// Calls `visit` with the entries that have not expired and whose keys lie within `bounds`, ascending, or descending
    /// if `reverse`, until it returns `false`.
    ///
    /// # Errors
    /// [`ReadError`] when they cannot be read, and those of `visit`.
    pub fn walk(
        &self,
        slot: Slot,
        bounds: Bounds<'_>,
        reverse: bool,
        visit: &mut Visit<'_>,
    ) -> Result<(), ReadError> {
        self.check_room()?;
        if bounds.upper.is_some_and(|upper| upper <= bounds.lower) {
            return Ok(());
        }
        if slot.space == Space::Elements || !bounds.lower.is_empty() {
            return self.walk_stored(slot, bounds, reverse, visit);
        }
        // The empty key is before all others.
        let mut goes_on = true;
        if reverse {
            self.walk_stored(slot, bounds, reverse, &mut |key, entry| {
                goes_on = visit(key, entry)?;
                Ok(goes_on)
            })?;
        }
        if let Some(entry) = if goes_on { self.get(slot, &[])? } else { None } {
            goes_on = visit(&[], entry)?;
        }
        if goes_on && !reverse { self.walk_stored(slot, bounds, reverse, visit) } else { Ok(()) }
    }

    /// As [`Session::walk`], without the empty key. The lower end of `bounds` is before the upper one.
    fn walk_stored(
        &self,
        slot: Slot,
        bounds: Bounds<'_>,
        reverse: bool,
        visit: &mut Visit<'_>,
    ) -> Result<(), ReadError> {
        let mut own = in_order(self.writes.range(slot, bounds), reverse).peekable();
        if own.peek().is_some() {
            self.writes.rely();
        }
        let mut show =
            |key: &[u8], entry: Entry| if self.lives(&entry) { visit(key, entry) } else { Ok(true) };
        let mut below = |visit: &mut Visit<'_>| {
            if self.writes.hides_all(slot) { Ok(()) } else { self.base.walk(slot, bounds, reverse, visit) }
        };
        walk_over(&mut own, reverse, &mut below, &mut show)
    }
}

/// Writes to keys, ascending or descending.
pub type InOrder<'w> = Box<dyn Iterator<Item = (&'w Arc<[u8]>, &'w Op)> + 'w>;

/// `ops`, which ascend, descending if `reverse`.
pub fn in_order<'w>(
    ops: impl DoubleEndedIterator<Item = (&'w Arc<[u8]>, &'w Op)> + 'w,
    reverse: bool,
) -> InOrder<'w> {
    if reverse { Box::new(ops.rev()) } else { Box::new(ops) }
}

/// Walks what `below` walks with `ops` on top of it. Both are in the same order, descending if `reverse`. Calls `visit` until it
/// returns `false`.
///
/// # Errors
/// Those of `below` and of `visit`.
pub fn walk_over<'w>(
    ops: &mut dyn Iterator<Item = (&'w Arc<[u8]>, &'w Op)>,
    reverse: bool,
    below: &mut dyn FnMut(&mut Visit<'_>) -> Result<(), ReadError>,
    visit: &mut Visit<'_>,
) -> Result<(), ReadError> {
    let mut next = ops.next();
    let mut goes_on = true;
    below(&mut |key, entry| {
        while let Some((own_key, op)) = next {
            let is_before = if reverse { **own_key > *key } else { **own_key < *key };
            if !is_before && **own_key != *key {
                break;
            }
            let same = **own_key == *key;
            next = ops.next();
            if let Op::Put(entry) = op {
                goes_on = visit(own_key, entry.clone())?;
            }
            if same || !goes_on {
                return Ok(goes_on);
            }
        }
        goes_on = visit(key, entry)?;
        Ok(goes_on)
    })?;
    while let Some((key, op)) = next.filter(|_| goes_on) {
        if let Op::Put(entry) = op {
            goes_on = visit(key, entry.clone())?;
        }
        next = ops.next();
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    const KEYS: Slot = Slot { database: 0, space: Space::Keys };

    fn entry(value: &[u8]) -> Entry {
        Entry { value: Value::Bytes(value.to_vec()), attributes: Vec::new(), expires_us: None }
    }

    /// What a command does, and whether it relies on the writes then.
    fn relies(writes: &mut Writes, command: impl FnOnce(&mut Session<'_>)) -> bool {
        let base = BTreeMap::new();
        let mut session = Session::new(&base, writes, 1);
        session.begin();
        command(&mut session);
        writes.take_relied_on()
    }

    #[test]
    fn what_is_written_takes_a_bounded_memory() {
        let (base, mut writes) = (BTreeMap::new(), Writes::default());
        let mut session = Session::new(&base, &mut writes, 1);
        session.begin();
        for number in 0..2048u32 {
            // Nobody touches these zeros, so that they take no memory here.
            let value = Value::Bytes(vec![0; 1 << 20]);
            session.put(
                KEYS,
                &number.to_be_bytes(),
                Entry { value, attributes: Vec::new(), expires_us: None },
            );
        }
        assert!(session.written_bytes() <= WRITTEN_MAX + (2 << 20));
        assert!(session.get(KEYS, b"a").is_err() && session.contains(KEYS, b"a").is_err());
        assert!(matches!(session.take_refused(), Some(Fault::Unread(ReadError::Failed(_)))));
        session.undo();
        session.begin();
        session.put(KEYS, b"small", entry(b"1"));
        assert!(session.take_refused().is_none());
    }

    #[test]
    fn what_a_session_contains_is_what_it_gets() {
        let mut base: BTreeMap<Slot, BTreeMap<Vec<u8>, Entry>> = BTreeMap::new();
        let entry = |expires_us| Entry { value: Value::Bytes(vec![1]), attributes: Vec::new(), expires_us };
        let other = Slot { space: Space::Elements, ..KEYS };
        for (slot, key, expires_us) in
            [(KEYS, b"a", None), (KEYS, b"b", Some(10)), (KEYS, b"c", None), (other, b"a", None)]
        {
            base.entry(slot).or_default().insert(key.to_vec(), entry(expires_us));
        }
        for (now_us, expected) in
            [(9, [true, true, false, true, false]), (10, [true, false, false, false, false])]
        {
            let mut writes = Writes::default();
            let mut session = Session::new(&base, &mut writes, now_us);
            session.delete(KEYS, b"c");
            session.put(KEYS, b"d", entry(Some(10)));
            session.empty(other);
            let places = [(KEYS, b"a"), (KEYS, b"b"), (KEYS, b"c"), (KEYS, b"d"), (other, b"a")];
            for ((slot, key), expected) in places.into_iter().zip(expected) {
                assert_eq!(session.contains(slot, key).unwrap(), expected, "{key:?} at {now_us}");
                assert_eq!(session.get(slot, key).unwrap().is_some(), expected, "{key:?} at {now_us}");
                let mut lent = Vec::new();
                let lending = session.lend(slot, key, &mut |bytes| lent.push(bytes.to_vec())).unwrap();
                let all =
                    if expected { (Lending::Lent, vec![vec![1]]) } else { (Lending::Absent, Vec::new()) };
                assert_eq!((lending, lent), all, "{key:?} at {now_us}");
            }
        }
    }

    #[test]
    fn who_meets_a_write_relies_on_it() {
        let mut writes = Writes::default();
        let read =
            |key: &'static [u8]| move |session: &mut Session<'_>| drop(session.get(KEYS, key).unwrap());
        let walk = |lower: &'static [u8]| {
            move |session: &mut Session<'_>| {
                let bounds = Bounds { lower, upper: None };
                session.walk(KEYS, bounds, false, &mut |_, _| Ok(true)).unwrap();
            }
        };
        assert!(!relies(&mut writes, read(b"b")));
        assert!(relies(&mut writes, |session| session.put(KEYS, b"b", entry(b"1"))));
        assert!(relies(&mut writes, read(b"b")) && !relies(&mut writes, read(b"a")));
        assert!(relies(&mut writes, |session| assert!(session.lend(KEYS, b"b", &mut |_| ()).is_ok())));
        assert!(relies(&mut writes, walk(b"a")) && !relies(&mut writes, walk(b"c")));
        assert!(relies(&mut writes, |session| session.delete(KEYS, b"a")));
        assert!(relies(&mut writes, read(b"a")), "that it is absent was written");
        assert!(relies(&mut writes, |session| session.empty(KEYS)));
        assert!(relies(&mut writes, read(b"c")) && relies(&mut writes, walk(b"c")));
        let other = Slot { database: 1, space: Space::Keys };
        assert!(!relies(&mut writes, |session| drop(session.get(other, b"b").unwrap())));
    }
}
