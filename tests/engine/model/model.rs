//! What the store ought to hold: for each tree a `BTreeMap` from keys to their versions.
//!
//! Every write gets the next version number; a snapshot is a version number and an hour. Versions that no snapshot can
//! see any more are forgotten when their key is written again.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use crate::ops::Range;

/// Keys and values, cheap to clone.
pub(crate) type Bytes = Arc<[u8]>;

/// What is beside a value.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Beside {
    /// The hour from which on the key has no value.
    pub(crate) until: Option<u64>,
    pub(crate) attributes: Vec<u8>,
}

impl From<Option<u64>> for Beside {
    fn from(until: Option<u64>) -> Beside {
        Beside { until, ..Beside::default() }
    }
}

/// What a key has.
pub(crate) type Content = (Bytes, Beside);

/// What a write has made of a key.
#[derive(Debug, Clone, Default)]
struct Entry {
    content: Option<Content>,
    /// Operands that may still lie above a value.
    operands: u64,
}

type Versions = Vec<(u64, Entry)>;

/// A moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct At {
    pub(crate) version: u64,
    pub(crate) hour: u64,
}

/// One tree.
#[derive(Debug, Default)]
pub(crate) struct ModelTree {
    pub(crate) tag: Option<String>,
    keys: BTreeMap<Bytes, Versions>,
}

/// The whole store.
#[derive(Debug)]
pub(crate) struct Model {
    pub(crate) trees: BTreeMap<String, ModelTree>,
    pub(crate) now: At,
}

impl Entry {
    fn at(&self, hour: u64) -> Option<Content> {
        self.content.clone().filter(|(_, beside)| beside.until.is_none_or(|until| hour < until))
    }
}

fn content_at(versions: &Versions, at: At) -> Option<Content> {
    versions.iter().rev().find(|(of, _)| *of <= at.version).and_then(|(_, entry)| entry.at(at.hour))
}

/// Whether the newest version of a key had a value and has none now.
fn is_expired(versions: &Versions, now: At) -> bool {
    versions.last().is_some_and(|(_, entry)| entry.content.is_some()) && content_at(versions, now).is_none()
}

impl ModelTree {
    pub(crate) fn content(&self, key: &[u8], at: At) -> Option<Content> {
        self.keys.get(key).and_then(|versions| content_at(versions, at))
    }

    pub(crate) fn get(&self, key: &[u8], at: At) -> Option<Bytes> {
        self.content(key, at).map(|(value, _)| value)
    }

    /// The pairs in `range` at a moment, in the order in which a scan shows them.
    pub(crate) fn scan(&self, range: &Range, at: At) -> Vec<(Bytes, Bytes)> {
        let empty: Bytes = Arc::from(&[][..]);
        let lower = match &range.lower {
            Bound::Included(key) => Bound::Included(key.as_ref()),
            Bound::Excluded(key) => Bound::Excluded(key.as_ref()),
            Bound::Unbounded => Bound::Unbounded,
        };
        let inside =
            self.keys.range::<[u8], _>((lower, Bound::Unbounded)).take_while(|(key, _)| match &range.upper {
                Bound::Included(upper) => ***key <= **upper,
                Bound::Excluded(upper) => ***key < **upper,
                Bound::Unbounded => true,
            });
        let mut pairs: Vec<(Bytes, Bytes)> = inside
            .filter_map(|(key, versions)| {
                let (value, _) = content_at(versions, at)?;
                Some((Arc::clone(key), if range.keys_only { Arc::clone(&empty) } else { value }))
            })
            .collect();
        if range.reverse {
            pairs.reverse();
        }
        pairs
    }

    /// All keys that ever had a value, as far as they are known.
    pub(crate) fn keys(&self) -> impl Iterator<Item = &Bytes> {
        self.keys.keys()
    }

    /// Operands that may still lie above values, and how many keys have such.
    pub(crate) fn operands(&self) -> (u64, u64) {
        let newest = self.keys.values().filter_map(|versions| versions.last());
        let operands = newest.map(|(_, entry)| entry.operands).filter(|&count| count > 0);
        operands.fold((0, 0), |(sum, keys), count| (sum + count, keys + 1))
    }

    /// How many keys have a value at a moment.
    pub(crate) fn len(&self, at: At) -> usize {
        self.keys.values().filter(|versions| content_at(versions, at).is_some()).count()
    }
}

impl Model {
    pub(crate) fn new() -> Self {
        let mut model = Model { trees: BTreeMap::new(), now: At { version: 0, hour: 0 } };
        model.create("default");
        model
    }

    pub(crate) fn create(&mut self, name: &str) {
        self.trees.insert(name.to_owned(), ModelTree::default());
    }

    /// Applies writes that take effect together. `oldest` is the oldest version that a snapshot still sees.
    pub(crate) fn write(&mut self, writes: &[(String, Bytes, Option<Content>)], oldest: Option<u64>) {
        self.now.version += 1;
        for (tree, key, content) in writes {
            self.set(tree, key, Entry { content: content.clone(), ..Entry::default() }, oldest);
        }
    }

    /// Changes what a key has by so many operands: `change` tells what becomes of a value, or of none.
    pub(crate) fn merge(
        &mut self,
        (tree, key): (&str, &Bytes),
        operands: u64,
        change: impl Fn(Option<Bytes>) -> Bytes,
        oldest: Option<u64>,
    ) {
        let before = self.trees.get(tree).and_then(|tree| Some(tree.keys.get(key)?.last()?.1.clone()));
        let mut entry = before.unwrap_or_default();
        let lives = |(_, beside): &Content| beside.until.is_none_or(|until| self.now.hour < until);
        match entry.content.take().filter(lives) {
            // What is merged into a value ends with it.
            Some((value, Beside { until, .. })) => entry.content = Some((change(Some(value)), until.into())),
            None => entry.content = Some((change(None), Beside::default())),
        }
        entry.operands += operands;
        self.now.version += 1;
        self.set(tree, key, entry, oldest);
    }

    fn set(&mut self, tree: &str, key: &Bytes, entry: Entry, oldest: Option<u64>) {
        let version = self.now.version;
        let oldest = oldest.unwrap_or(version);
        let Some(tree) = self.trees.get_mut(tree) else { return };
        let versions = tree.keys.entry(Arc::clone(key)).or_default();
        versions.retain(|(of, _)| *of != version);
        versions.push((version, entry));
        let unseen = versions.iter().take_while(|(of, _)| *of <= oldest).count().saturating_sub(1);
        versions.drain(..unseen);
    }

    /// Whether the store may still hold values that have expired.
    pub(crate) fn holds_expired(&self) -> bool {
        let mut keys = self.trees.values().flat_map(|tree| tree.keys.values());
        keys.any(|versions| is_expired(versions, self.now))
    }

    /// Nothing that has expired is there any more.
    pub(crate) fn forget_expired(&mut self) {
        for tree in self.trees.values_mut() {
            tree.keys.retain(|_, versions| !is_expired(versions, self.now));
        }
    }
}
