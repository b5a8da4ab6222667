//! What the store ought to hold: for each tree a `BTreeMap` from keys to their versions.
//!
//! Every write gets the next version number; a snapshot is a version number. Versions that no snapshot can
//! see any more are forgotten when their key is written again.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use crate::ops::Range;

/// Keys and values, cheap to clone.
pub(crate) type Bytes = Arc<[u8]>;

type Versions = Vec<(u64, Option<Bytes>)>;

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
    pub(crate) version: u64,
}

fn at(versions: &Versions, version: u64) -> Option<&Bytes> {
    versions.iter().rev().find(|(of, _)| *of <= version).and_then(|(_, value)| value.as_ref())
}

impl ModelTree {
    pub(crate) fn get(&self, key: &[u8], version: u64) -> Option<&Bytes> {
        self.keys.get(key).and_then(|versions| at(versions, version))
    }

    /// The pairs in `range` at `version`, in the order in which a scan shows them.
    pub(crate) fn scan(&self, range: &Range, version: u64) -> Vec<(Bytes, Bytes)> {
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
                let value = at(versions, version)?;
                Some((Arc::clone(key), Arc::clone(if range.keys_only { &empty } else { value })))
            })
            .collect();
        if range.reverse {
            pairs.reverse();
        }
        pairs
    }

    /// How many keys have a value now.
    pub(crate) fn len(&self) -> usize {
        self.keys
            .values()
            .filter(|versions| versions.last().is_some_and(|(_, value)| value.is_some()))
            .count()
    }
}

impl Model {
    pub(crate) fn new() -> Self {
        let mut model = Model { trees: BTreeMap::new(), version: 0 };
        model.create("default");
        model
    }

    pub(crate) fn create(&mut self, name: &str) {
        self.trees.insert(name.to_owned(), ModelTree::default());
    }

    /// Applies writes that take effect together. `oldest` is the oldest version that a snapshot still sees.
    pub(crate) fn write(&mut self, writes: &[(String, Bytes, Option<Bytes>)], oldest: Option<u64>) {
        self.version += 1;
        let oldest = oldest.unwrap_or(self.version);
        for (tree, key, value) in writes {
            let Some(tree) = self.trees.get_mut(tree) else { continue };
            let versions = tree.keys.entry(Arc::clone(key)).or_default();
            versions.retain(|(of, _)| *of != self.version);
            versions.push((self.version, value.clone()));
            let unseen = versions.iter().take_while(|(of, _)| *of <= oldest).count().saturating_sub(1);
            versions.drain(..unseen);
        }
    }
}
