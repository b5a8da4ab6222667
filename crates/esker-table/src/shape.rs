//! What a table is like at a moment: its schema and its trees. A table that is open gets another shape; no shape changes.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use esker::{ErrorKind, Tree};
use esker_journal::Journal;

use crate::catalog;
use crate::cell::FamilyId;
use crate::error::{Error, Result};
use crate::parts::Parts;
use crate::rule::{Families, TableRule};
use crate::schema::{Rules, Schema};

/// What the names of the trees of tables begin with.
pub(crate) const TREES: &str = "table ";

/// The number of the tree of indexes, which no group has.
pub(crate) const INDEXES: u16 = 0;

/// The name of the first tree of a group, or of the tree of indexes.
pub(crate) fn tree_name(table: u64, group: u16) -> String {
    format!("{TREES}{table}.{group}")
}

/// A table that is open.
pub(crate) struct State {
    /// Changes while `changing` is held, after the catalog.
    shape: RwLock<Arc<Shape>>,
    /// Held from the split of a tree until the table has that shape.
    splitting: Mutex<()>,
}

/// What a table is like at a moment. It does not change; the table gets another one.
pub(crate) struct Shape {
    pub(crate) name: String,
    pub(crate) schema: Arc<Schema>,
    /// The trees of its groups, in the order of the schema.
    pub(crate) groups: Vec<Parts>,
    /// The tree of its indexes, if it has some. It is not split: its keys have another order.
    pub(crate) index: Option<Parts>,
}

impl State {
    pub(crate) fn new(shape: Arc<Shape>) -> State {
        State { shape: RwLock::new(shape), splitting: Mutex::new(()) }
    }

    pub(crate) fn shape(&self) -> Arc<Shape> {
        Arc::clone(&self.shape.read().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn set_shape(&self, shape: Arc<Shape>) {
        *self.shape.write().unwrap_or_else(PoisonError::into_inner) = shape;
    }

    /// Begins a split of a tree of the table. It ends with the guard, after [`State::set_shape`].
    pub(crate) fn split(&self) -> MutexGuard<'_, ()> {
        self.splitting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the error is that a tree of `shape` was dropped or split, which is not the table's shape any more. Waits for a
    /// split that is under way.
    pub(crate) fn has_lost_tree(&self, shape: &Arc<Shape>, error: &Error) -> bool {
        let Error::Store(error) = error else { return false };
        match error.kind() {
            ErrorKind::TreeDropped => {}
            ErrorKind::KeyMoved => drop(self.split()),
            _ => return false,
        }
        !Arc::ptr_eq(shape, &self.shape())
    }
}

impl Shape {
    /// Opens the trees of a table, but for those that are `known`, by the numbers of their groups.
    pub(crate) fn open(
        journal: &dyn Journal,
        catalog: &Tree,
        name: &str,
        schema: Schema,
        mut known: BTreeMap<u16, Parts>,
    ) -> Result<Shape> {
        let of_table = |error| match error {
            Error::Damaged(message) => Error::Damaged(format!("the table {name:?}: {message}")),
            error => error,
        };
        let mut open = |group: u16| -> Result<Parts> {
            if let Some(parts) = known.remove(&group) {
                return Ok(parts);
            }
            let divisions = catalog::divisions(catalog, schema.table, group)?;
            Parts::open(journal, &tree_name(schema.table, group), &divisions).map_err(of_table)
        };
        let groups = schema.groups().iter().map(|group| open(group.id)).collect::<Result<_>>()?;
        let index = schema.has_index().then(|| open(INDEXES)).transpose()?;
        Ok(Shape { name: name.to_owned(), schema: Arc::new(schema), groups, index })
    }

    /// The trees of each group, by its number, and of the indexes.
    pub(crate) fn parts(&self) -> BTreeMap<u16, &Parts> {
        let groups = self.schema.groups().iter().map(|group| group.id);
        groups.zip(&self.groups).chain(self.index.as_ref().map(|index| (INDEXES, index))).collect()
    }

    pub(crate) fn all_trees(&self) -> impl Iterator<Item = &Tree> {
        self.groups.iter().chain(&self.index).flat_map(Parts::trees)
    }

    /// Fails if the table is disabled.
    pub(crate) fn check_enabled(&self) -> Result<()> {
        if self.schema.is_disabled { Err(Error::Disabled(self.name.clone())) } else { Ok(()) }
    }

    /// Tells the rule of the table, which readers of the time `since_ms` and of later ones know so.
    pub(crate) fn tell(&self, rule: &TableRule, since_ms: i64) {
        let tell = |parts: &Parts, rules: BTreeMap<FamilyId, Rules>| {
            for tree in parts.trees() {
                rule.tell(tree.name(), Families::new(rules.clone(), self.schema.next_family(), since_ms));
            }
        };
        for (group, parts) in self.schema.groups().iter().zip(&self.groups) {
            tell(parts, group.families().iter().map(|family| (family.id, family.rules())).collect());
        }
        if let Some(index) = &self.index {
            let families = self.schema.families().map(|(_, family)| family);
            let rules =
                families.filter(|family| family.has_index()).map(|family| (family.id, family.rules()));
            tell(index, rules.collect());
        }
    }

    /// The time, in milliseconds since 1970.
    pub(crate) fn now_ms(&self) -> i64 {
        self.all_trees().next().map_or(0, |tree| i64::try_from(tree.time_us() / 1000).unwrap_or(i64::MAX))
    }
}
