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

/// What a key has: a value, and the hour from which on it has none.
pub(crate) type Content = (Bytes, Option<u64>);

type Versions = Vec<(u64, Option<Content>)>;

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

fn content_at(versions: &Versions, at: At) -> Option<&Content> {
    let newest = versions.iter().rev().find(|(of, _)| *of <= at.version);
    let content = newest.and_then(|(_, content)| content.as_ref());
    content.filter(|(_, until)| until.is_none_or(|until| at.hour < until))
}

/// Whether the newest version of a key had a value and has none now.
fn is_expired(versions: &Versions, now: At) -> bool {
    versions.last().is_some_and(|(_, content)| content.is_some()) && content_at(versions, now).is_none()
}

impl ModelTree {
    pub(crate) fn content(&self, key: &[u8], at: At) -> Option<&Content> {
        self.keys.get(key).and_then(|versions| content_at(versions, at))
    }

    pub(crate) fn get(&self, key: &[u8], at: At) -> Option<&Bytes> {
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
                Some((Arc::clone(key), Arc::clone(if range.keys_only { &empty } else { value })))
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
        let version = self.now.version;
        let oldest = oldest.unwrap_or(version);
        for (tree, key, content) in writes {
            let Some(tree) = self.trees.get_mut(tree) else { continue };
            let versions = tree.keys.entry(Arc::clone(key)).or_default();
            versions.retain(|(of, _)| *of != version);
            versions.push((version, content.clone()));
            let unseen = versions.iter().take_while(|(of, _)| *of <= oldest).count().saturating_sub(1);
            versions.drain(..unseen);
        }
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
