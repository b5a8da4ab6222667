//! What a command has at hand: the state that it reads and writes, the stamp, and what it tells the server.

use std::sync::Arc;

use crate::cursors::Cursors;
use crate::fault::{Fault, ReadError};
use crate::model::Kind;
use crate::session::{Entry, Lending, Long, Session, Slot, Space, Value};

/// What evaluation would otherwise have to ask the world for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamp {
    /// The time by which keys expire, in microseconds since 1970.
    pub now_us: u64,
    /// By how many milliseconds that time is ahead of the machine's clock, by which clients tell moments.
    pub ahead_ms: i64,
    /// What random choices are made of, and the generations of collections.
    pub seed: u64,
}

/// The class of an event, as `notify-keyspace-events` names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Class {
    /// `g`: commands of any type.
    Generic,
    /// `$`
    String,
    /// `l`
    List,
    /// `s`
    Set,
    /// `h`
    Hash,
    /// `z`
    SortedSet,
    /// `x`
    Expired,
    /// `n`
    New,
    /// `m`
    Missed,
}

/// What has happened to a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// The number of the database.
    pub database: u16,
    /// The class of the event.
    pub class: Class,
    /// What has happened: `set`, `del`, `lpush`.
    pub name: &'static str,
    /// The key.
    pub key: Vec<u8>,
}

/// What a command tells of, beside its reply and its writes. What nobody asks for costs nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wants {
    /// What happens to keys: [`Context::take_events`].
    pub events: bool,
    /// Also that a key is new. Then a command reads what it overwrites.
    pub new_keys: bool,
    /// Which keys are changed, in order: [`Context::take_touched`].
    pub touched: bool,
}

impl Wants {
    /// Everything.
    pub const ALL: Wants = Wants { events: true, new_keys: true, touched: true };
}

/// What a command has at hand.
pub struct Context<'a> {
    session: Session<'a>,
    /// The server's cursors of `SCAN`.
    pub cursors: &'a Cursors,
    stamp: Stamp,
    database: u16,
    random: u64,
    events: Vec<Event>,
    touched: Vec<(u16, Vec<u8>)>,
    databases: u16,
    wants: Wants,
    long: &'a [Long],
    /// How many keys that a command looked for to read them were not there.
    missed: u64,
    lookups: Lookups,
}

/// How often commands have looked for a key to read it, as Redis counts it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Lookups {
    /// The key was there.
    pub hits: u64,
    /// It was not.
    pub misses: u64,
}

/// What a key had that is overwritten, whatever it is.
pub(crate) enum Overwritten {
    /// This, if anything.
    Known(Option<Entry>),
    /// Nobody has looked. Elements of a collection that the key may have had are found by the server's
    /// sweep.
    Unread,
}

impl<'a> Context<'a> {
    /// For a command of a client that has selected `database`, of `databases` that there are.
    pub fn new(
        session: Session<'a>,
        cursors: &'a Cursors,
        stamp: Stamp,
        database: u16,
        databases: u16,
    ) -> Context<'a> {
        Context {
            session,
            cursors,
            stamp,
            database,
            random: stamp.seed,
            events: Vec::new(),
            touched: Vec::new(),
            databases,
            wants: Wants::ALL,
            long: &[],
            missed: 0,
            lookups: Lookups::default(),
        }
    }

    /// Somebody asks for this, and for nothing else.
    pub fn set_wants(&mut self, wants: Wants) {
        self.wants = wants;
    }

    /// These arguments of the command are not in memory. Their places are such that
    /// [`takes_long`](crate::commands::takes_long) allows.
    pub fn set_long(&mut self, long: &'a [Long]) {
        self.long = long;
    }

    /// The argument at this place, as a value to be written.
    pub(crate) fn value(&self, args: &[&[u8]], at: usize) -> Value {
        match self.long.iter().find(|(place, _)| *place == at) {
            Some((_, long)) => Value::Huge(Arc::clone(long)),
            None => Value::Bytes(args[at].to_vec()),
        }
    }

    /// The number of the client's database.
    pub fn database(&self) -> u16 {
        self.database
    }

    /// How many databases there are.
    pub fn databases(&self) -> u16 {
        self.databases
    }

    /// The time by which keys expire, in microseconds since 1970.
    pub fn now_us(&self) -> u64 {
        self.stamp.now_us
    }

    /// The time by which keys expire, in milliseconds since 1970.
    pub fn now_ms(&self) -> i64 {
        (self.stamp.now_us / 1000) as i64
    }

    /// By how many milliseconds that time is ahead of the moments that clients give and are told.
    pub fn ahead_ms(&self) -> i64 {
        self.stamp.ahead_ms
    }

    /// What has happened to keys, in order.
    pub fn take_events(&mut self) -> Vec<Event> {
        std::mem::take(&mut self.events)
    }

    /// Notes that a command is done that has looked for so many keys to read them.
    pub(crate) fn note_lookups(&mut self, keys: u64) {
        let misses = std::mem::take(&mut self.missed);
        self.lookups.misses += misses;
        self.lookups.hits += keys.saturating_sub(misses);
    }

    /// How often commands have looked for a key, since the last call.
    pub fn take_lookups(&mut self) -> Lookups {
        std::mem::take(&mut self.lookups)
    }

    /// The keys that were changed, each with its database. A key may be there twice.
    pub fn take_touched(&mut self) -> Vec<(u16, Vec<u8>)> {
        std::mem::take(&mut self.touched)
    }

    /// Does `work` as if the client had selected `database`.
    pub(crate) fn within<T>(&mut self, database: u16, work: impl FnOnce(&mut Self) -> T) -> T {
        let before = std::mem::replace(&mut self.database, database);
        let made = work(self);
        self.database = before;
        made
    }

    pub(crate) fn session(&self) -> &Session<'a> {
        &self.session
    }

    pub(crate) fn session_mut(&mut self) -> &mut Session<'a> {
        &mut self.session
    }

    /// A number that no other collection of the same key has had: 64 random bits.
    pub(crate) fn next_generation(&mut self) -> u64 {
        self.random()
    }

    /// The next random number.
    pub(crate) fn random(&mut self) -> u64 {
        // SplitMix64.
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mixed(self.random)
    }

    /// A random number below `bound`, which is not 0.
    pub(crate) fn random_below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.random()) * u128::from(bound)) >> 64) as u64
    }

    pub(crate) fn keys(&self) -> Slot {
        Slot { database: self.database, space: Space::Keys }
    }

    /// The entry of `key`.
    pub(crate) fn get(&self, key: &[u8]) -> Result<Option<Entry>, ReadError> {
        self.session.get(self.keys(), key)
    }

    /// The entry of `key`, for a command that only reads: notes that there is no such key.
    pub(crate) fn read(&mut self, key: &[u8]) -> Result<Option<Entry>, Fault> {
        let found = self.get(key)?;
        if found.is_none() {
            self.notify(Class::Missed, "keymiss", key);
        }
        Ok(found)
    }

    /// Calls `use_bytes` with the string at `key`, which is not copied, if it can be lent: [`Base::lend`].
    ///
    /// [`Base::lend`]: crate::Base::lend
    pub(crate) fn lend_string(
        &self,
        key: &[u8],
        mut use_bytes: impl FnMut(&[u8]),
    ) -> Result<Lending, ReadError> {
        self.session.lend(self.keys(), key, &mut use_bytes)
    }

    /// Whether there is `key`.
    pub(crate) fn contains(&self, key: &[u8]) -> Result<bool, ReadError> {
        self.session.contains(self.keys(), key)
    }

    /// What `key` has, for a command that overwrites it.
    pub(crate) fn overwritten(&self, key: &[u8]) -> Result<Overwritten, ReadError> {
        if self.wants.new_keys { self.get(key).map(Overwritten::Known) } else { Ok(Overwritten::Unread) }
    }

    /// The entry of `key`, which must be a string if there is one.
    pub(crate) fn get_string(&self, key: &[u8]) -> Result<Option<Entry>, Fault> {
        let Some(entry) = self.get(key)? else { return Ok(None) };
        if Kind::of(&entry)? == Kind::String { Ok(Some(entry)) } else { Err(Fault::WRONG_TYPE) }
    }

    /// `key` gets `entry`. Elements of a collection that it had are the caller's business.
    pub(crate) fn put_entry(&mut self, key: &[u8], entry: Entry) {
        let slot = self.keys();
        self.session.put(slot, key, entry);
        self.touch(key);
    }

    /// `key` goes; its elements are the caller's business.
    pub(crate) fn delete_entry(&mut self, key: &[u8]) {
        let slot = self.keys();
        self.session.delete(slot, key);
        self.touch(key);
    }

    /// Notes that `key` was changed.
    pub(crate) fn touch(&mut self, key: &[u8]) {
        let is_last = || self.touched.last().is_some_and(|last| last.0 == self.database && last.1 == key);
        if self.wants.touched && !is_last() {
            self.touched.push((self.database, key.to_vec()));
        }
    }

    /// Notes that a command has looked for a key that is missing, without an event.
    pub(crate) fn note_missed(&mut self) {
        self.missed += 1;
    }

    /// Notes what has happened to `key`.
    pub(crate) fn notify(&mut self, class: Class, name: &'static str, key: &[u8]) {
        if class == Class::Missed {
            self.note_missed();
        }
        if self.wants.events {
            self.events.push(Event { database: self.database, class, name, key: key.to_vec() });
        }
    }
}

/// Makes numbers of a sequence, such as seeds, independent of each other: the finalizer of SplitMix64 (Steele, Lea, Flood, 2014).
pub fn mixed(mut state: u64) -> u64 {
    state = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    state = (state ^ (state >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    state ^ (state >> 31)
}
