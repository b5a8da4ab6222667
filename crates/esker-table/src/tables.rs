//! The tables of a store.
//!
//! ```text
//! tree "tables"        "table " name -> schema (XML)   "next table" -> number   "sequence bound" -> number
//! tree "table 7.2"     the cells of the table with the number 7 in its access group 2
//! ```
//! A table exists while the catalog names it. Its trees are made before and dropped after; an opening drops those that no
//! table has, which a crash has left.

use core::ops::Bound;
use std::collections::{BTreeMap, BTreeSet};
use std::hash::BuildHasher;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use esker::{Batch, Db, Durability, Options, ScanRange, Tree, TreeOptions, keys};

use crate::cell::{FamilyId, check_row};
use crate::error::{Error, Result};
use crate::read::{Cell, Read, Scan};
use crate::rule::{RULE, TableRule};
use crate::schema::{Schema, check_name};
use crate::sequences::Sequences;
use crate::span::Span;
use crate::write::{RowMutation, Stamp, mutate};

/// The catalog's tree, and its tag: which version of the layout it has.
const CATALOG: &str = "tables";
const CATALOG_TAG: &str = "esker tables 1";

/// What the names of the trees of tables begin with.
const TREES: &str = "table ";

const TABLE_KEYS: &str = "table ";
const NEXT_TABLE_KEY: &str = "next table";

/// Writes to two rows with the same lock wait for each other.
const ROW_LOCKS: usize = 1024;

/// The tables of a store. A clone is another handle of the same tables; all may be used by several threads.
///
/// # Example
/// ```
/// use esker_table::{Family, Read, RowMutation, Schema, Tables};
///
/// # fn main() -> esker_table::Result<()> {
/// # let dir = tempfile::tempdir().expect("a temporary directory");
/// # let path = dir.path().join("store");
/// let tables = Tables::open(&path, esker::Options::default())?;
/// let photos = tables.create("photos", Schema::new()
///     .group("small", [Family::new("title").max_versions(1)])
///     .group("large", [Family::new("original").max_versions(1)]))?;
/// photos.mutate(&RowMutation::new("rose.jpg").put("title", "en", "A rose").put("original", "", vec![0; 100]))?;
///
/// let titles = photos.get("rose.jpg", &Read::family("title"))?;
/// assert_eq!((&titles[0].qualifier[..], &titles[0].value[..]), (&b"en"[..], &b"A rose"[..]));
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Tables {
    inner: Arc<Inner>,
}

/// A table of a store.
#[derive(Clone)]
pub struct Table {
    tables: Arc<Inner>,
    state: Arc<State>,
}

/// What the handles of one opening share.
struct Inner {
    db: Db,
    rule: TableRule,
    catalog: Tree,
    sequences: Sequences,
    /// Equal to the catalog, except while `changing` is held.
    tables: RwLock<BTreeMap<String, Arc<State>>>,
    /// Held while the catalog changes.
    changing: Mutex<()>,
    /// A row's lock is held from its sequence number to the end of its write: numbers of one row become visible in their
    /// order.
    rows: Vec<Mutex<()>>,
    hasher: std::hash::RandomState,
}

/// A table that is open.
pub(crate) struct State {
    pub(crate) name: String,
    /// Changes while `changing` is held, after the catalog.
    schema: RwLock<Arc<Schema>>,
    /// The trees of its groups, in the order of the schema.
    pub(crate) trees: Vec<Tree>,
}

fn tree_name(table: u64, group: u16) -> String {
    format!("{TREES}{table}.{group}")
}

/// Drops the tree `name`, which no table names, if it was made for one. What else has that name stays.
fn drop_left(db: &Db, name: &str) -> Result<()> {
    if is_for_tables(db, name) {
        db.drop_tree(name)?;
    }
    Ok(())
}

/// Whether there is a tree `name` that was made for a table.
fn is_for_tables(db: &Db, name: &str) -> bool {
    matches!(db.open_tree(name), Ok(Some(tree)) if tree.options().rule.as_deref() == Some(RULE))
}

fn lock(mutex: &Mutex<()>) -> MutexGuard<'_, ()> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl std::fmt::Debug for Tables {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tables").field("names", &self.names()).finish_non_exhaustive()
    }
}

impl std::fmt::Debug for Table {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Table").field("name", &self.state.name).finish_non_exhaustive()
    }
}

impl Tables {
    /// Opens the store in the directory `path`, or creates it, with its tables.
    ///
    /// # Errors
    /// `Store` as [`Db::open`], `Damaged` when the catalog is no catalog.
    pub fn open(path: impl AsRef<Path>, options: Options) -> Result<Tables> {
        let rule = TableRule::default();
        Tables::over(Db::open(path, options.compaction_rule(rule.clone()))?, rule)
    }

    /// Tables that are gone with the last handle.
    ///
    /// # Errors
    /// As [`Tables::open`].
    pub fn open_in_memory(options: Options) -> Result<Tables> {
        let rule = TableRule::default();
        Tables::over(Db::open_in_memory(options.compaction_rule(rule.clone()))?, rule)
    }

    /// The tables of `db`, which was opened with `rule`.
    fn over(db: Db, rule: TableRule) -> Result<Tables> {
        let catalog = match db.open_tree(CATALOG)? {
            Some(catalog) => catalog,
            None => db.create_tree(CATALOG, TreeOptions::default())?,
        };
        match catalog.tag().as_deref() {
            Some(CATALOG_TAG) => {}
            None if catalog.is_empty()? => catalog.set_tag(CATALOG_TAG)?,
            tag => {
                let tag = tag.unwrap_or_default();
                let message = format!(
                    "the tree {CATALOG:?} is no catalog of tables of this version; its tag is {tag:?}"
                );
                return Err(Error::Damaged(message));
            }
        }
        let (mut tables, mut numbers) = (BTreeMap::new(), BTreeSet::new());
        for pair in catalog.scan(ScanRange::prefix(TABLE_KEYS))? {
            let (key, text) = pair?;
            let of_table = |what: String| {
                Error::Damaged(format!("the catalog's entry {:?}: {what}", key.escape_ascii().to_string()))
            };
            let name =
                std::str::from_utf8(&key[TABLE_KEYS.len()..]).map_err(|error| of_table(error.to_string()))?;
            let text = std::str::from_utf8(&text).map_err(|error| of_table(error.to_string()))?;
            let schema = Schema::from_xml(text).map_err(|error| of_table(error.to_string()))?;
            if !schema.is_numbered() || !numbers.insert(schema.table) {
                return Err(of_table("its schema lacks numbers, or has those of another table".to_owned()));
            }
            let state = State::open(&db, &rule, name, schema)?;
            tables.insert(name.to_owned(), Arc::new(state));
        }
        let names = tables.values().flat_map(|state| state.trees.iter().map(|tree| tree.name().to_owned()));
        let named: BTreeSet<String> = names.collect();
        for name in db.tree_names() {
            if name.starts_with(TREES) && !named.contains(&name) {
                drop_left(&db, &name)?;
            }
        }
        let inner = Inner {
            sequences: Sequences::open(&catalog)?,
            db,
            rule,
            catalog,
            tables: RwLock::new(tables),
            changing: Mutex::new(()),
            rows: (0..ROW_LOCKS).map(|_| Mutex::new(())).collect(),
            hasher: std::hash::RandomState::new(),
        };
        Ok(Tables { inner: Arc::new(inner) })
    }

    /// The store.
    pub fn db(&self) -> &Db {
        &self.inner.db
    }

    /// The names of all tables, in their order.
    pub fn names(&self) -> Vec<String> {
        self.inner.tables.read().unwrap_or_else(PoisonError::into_inner).keys().cloned().collect()
    }

    /// Makes a table. It survives power loss when this returns.
    ///
    /// # Errors
    /// `TableExists`; `Invalid` or `Schema` when no table can have this name or schema.
    pub fn create(&self, name: &str, schema: Schema) -> Result<Table> {
        check_name("a table", name)?;
        let Inner { db, rule, catalog, .. } = &*self.inner;
        let _changing = lock(&self.inner.changing);
        if self.inner.find(name).is_some() {
            return Err(Error::TableExists(name.to_owned()));
        }
        let next = match catalog.get_vec(NEXT_TABLE_KEY)? {
            None => 1,
            Some(bytes) => keys::decode_u64(&bytes)?,
        };
        // A program may have made trees with such names for itself.
        let names = db.tree_names();
        let is_free = |number: &u64| {
            let prefix = format!("{TREES}{number}.");
            let mut others = names.iter().filter(|name| name.starts_with(&prefix));
            others.all(|name| is_for_tables(db, name))
        };
        let number = (next..).find(is_free).unwrap_or(next);
        let schema = schema.numbered(number)?;
        for group in schema.groups() {
            let tree = tree_name(number, group.id);
            // Of an attempt that has failed.
            drop_left(db, &tree)?;
            db.create_tree(&tree, TreeOptions::default().rule(RULE))?;
        }
        let mut batch = Batch::new();
        batch.put(catalog, format!("{TABLE_KEYS}{name}"), schema.to_xml()?)?;
        batch.put(catalog, NEXT_TABLE_KEY, keys::u64(number.saturating_add(1)))?;
        db.write_with(&batch, Durability::Power)?;
        let state = Arc::new(State::open(db, rule, name, schema)?);
        let mut tables = self.inner.tables.write().unwrap_or_else(PoisonError::into_inner);
        tables.insert(name.to_owned(), Arc::clone(&state));
        Ok(Table { tables: Arc::clone(&self.inner), state })
    }

    /// The table with this name.
    ///
    /// # Errors
    /// `NoTable`.
    pub fn table(&self, name: &str) -> Result<Table> {
        let state = self.inner.find(name).ok_or_else(|| Error::NoTable(name.to_owned()))?;
        Ok(Table { tables: Arc::clone(&self.inner), state })
    }

    /// Drops a table with all that is in it. Calls on its handles fail from then on, and power loss does not bring it back.
    ///
    /// # Errors
    /// `NoTable`; `Store` when the store cannot write. The table may be gone all the same, with some of its trees left: the
    /// next opening drops these.
    pub fn drop_table(&self, name: &str) -> Result<()> {
        let Inner { db, rule, catalog, .. } = &*self.inner;
        let _changing = lock(&self.inner.changing);
        let state = self.inner.find(name).ok_or_else(|| Error::NoTable(name.to_owned()))?;
        let mut batch = Batch::new();
        batch.delete(catalog, format!("{TABLE_KEYS}{name}"))?;
        db.write_with(&batch, Durability::Power)?;
        self.inner.tables.write().unwrap_or_else(PoisonError::into_inner).remove(name);
        for tree in &state.trees {
            db.drop_tree(tree.name())?;
            rule.forget(tree.name());
        }
        Ok(())
    }
}

impl Inner {
    fn find(&self, name: &str) -> Option<Arc<State>> {
        self.tables.read().unwrap_or_else(PoisonError::into_inner).get(name).cloned()
    }

    /// The locks of these rows, each once, in an order that is the same for everybody.
    fn lock_rows<'a>(&self, rows: impl Iterator<Item = &'a [u8]>) -> Vec<MutexGuard<'_, ()>> {
        let places: BTreeSet<usize> =
            rows.map(|row| (self.hasher.hash_one(row) % self.rows.len() as u64) as usize).collect();
        places.into_iter().map(|place| lock(&self.rows[place])).collect()
    }
}

impl State {
    /// Opens the trees of a table, and tells the rule of them.
    fn open(db: &Db, rule: &TableRule, name: &str, schema: Schema) -> Result<State> {
        let mut trees = Vec::new();
        for group in schema.groups() {
            let tree = tree_name(schema.table, group.id);
            let found = db.open_tree(&tree)?;
            trees.push(
                found.ok_or_else(|| {
                    Error::Damaged(format!("the table {name:?} has lost its tree {tree:?}"))
                })?,
            );
        }
        let state = State { name: name.to_owned(), schema: RwLock::new(Arc::new(schema)), trees };
        state.tell(rule, &state.schema());
        Ok(state)
    }

    pub(crate) fn schema(&self) -> Arc<Schema> {
        Arc::clone(&self.schema.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Tells the rule what the catalog says.
    fn tell(&self, rule: &TableRule, schema: &Schema) {
        for (group, tree) in schema.groups().iter().zip(&self.trees) {
            rule.tell(
                tree.name(),
                group.families().iter().map(|family| (family.id, family.rules())).collect(),
            );
        }
    }

    /// The time, in milliseconds since 1970.
    pub(crate) fn now_ms(&self) -> i64 {
        self.trees.first().map_or(0, |tree| i64::try_from(tree.time_us() / 1000).unwrap_or(i64::MAX))
    }
}

impl Table {
    /// Its name.
    pub fn name(&self) -> &str {
        &self.state.name
    }

    /// Its schema.
    pub fn schema(&self) -> Arc<Schema> {
        self.state.schema()
    }

    /// Changes a row.
    ///
    /// # Errors
    /// `Invalid` or `NoFamily` when the table cannot have such a row or column; `Store` when the store cannot write it.
    pub fn mutate(&self, mutation: &RowMutation) -> Result<()> {
        self.mutate_rows(std::slice::from_ref(mutation))
    }

    /// Changes several rows, or none of them if one cannot be changed. Readers see all changes at the same moment.
    ///
    /// # Errors
    /// As [`Table::mutate`].
    pub fn mutate_rows(&self, mutations: &[RowMutation]) -> Result<()> {
        let Inner { db, catalog, sequences, .. } = &*self.tables;
        let _rows = self.tables.lock_rows(mutations.iter().map(RowMutation::row));
        let schema = self.state.schema();
        let steps = mutations.iter().map(RowMutation::steps).sum();
        let first = sequences.take(db, catalog, steps)?;
        let mut stamp = Stamp { now_ms: self.state.now_ms(), sequence: first };
        let mut batch = Batch::new();
        for mutation in mutations {
            for write in mutate(&self.state.name, &schema, mutation, stamp)? {
                batch.put(&self.state.trees[write.group], write.key, write.value)?;
            }
            stamp.sequence += mutation.steps();
        }
        let deletes = mutations.iter().flat_map(|mutation| mutation.deletes_versions_of(&schema));
        let news = deletes.filter(|family| !family.rules().has_deleted_versions).map(|family| family.id);
        let news: BTreeSet<FamilyId> = news.collect();
        if !news.is_empty() {
            self.note_deleted_versions(&news)?;
        }
        db.write(&batch)?;
        Ok(())
    }

    /// Makes durable, and tells the rule, that single versions may have been deleted in these families, before the first one
    /// is. A flush or merge that has begun without the news sees no entry that is newer than such a delete.
    fn note_deleted_versions(&self, families: &BTreeSet<FamilyId>) -> Result<()> {
        let Inner { db, rule, catalog, changing, .. } = &*self.tables;
        let _changing = lock(changing);
        // Of a table that was dropped meanwhile, the catalog must not tell.
        if self.tables.find(&self.state.name).is_none_or(|state| !Arc::ptr_eq(&state, &self.state)) {
            return Err(Error::NoTable(self.state.name.clone()));
        }
        let schema = self.state.schema().with_deleted_versions(families);
        let mut batch = Batch::new();
        batch.put(catalog, format!("{TABLE_KEYS}{}", self.state.name), schema.to_xml()?)?;
        db.write_with(&batch, Durability::Power)?;
        self.state.tell(rule, &schema);
        // Only now: whoever sees the schema relies on all of that.
        *self.state.schema.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(schema);
        Ok(())
    }

    /// The cells of `row` that `read` asks for, families and qualifiers in their order, of each column the latest first.
    ///
    /// # Errors
    /// `Invalid` or `NoFamily` when the table cannot have such a row or family; `Store` when the store cannot read it.
    pub fn get(&self, row: impl AsRef<[u8]>, read: &Read) -> Result<Vec<Cell>> {
        check_row(row.as_ref())?;
        let mut scan = Scan::new(&self.tables.db, &self.state, read, [Span::row(row)], false)?;
        let mut cells = Vec::new();
        while scan.advance()? {
            cells.extend(scan.cell()?);
        }
        Ok(cells)
    }

    /// The cells of the rows from `start` on and below `stop`; an empty `stop` is the end of the table. All are of one
    /// moment, that of this call.
    ///
    /// # Errors
    /// As [`Table::get`].
    pub fn scan(&self, start: impl AsRef<[u8]>, stop: impl AsRef<[u8]>, read: &Read) -> Result<Scan> {
        let stop = stop.as_ref();
        let stop = if stop.is_empty() { Bound::Unbounded } else { Bound::Excluded(stop) };
        self.scan_spans([Span::rows::<&[u8]>((Bound::Included(start.as_ref()), stop))], read)
    }

    /// As [`Table::scan`], from the last row to the first one: the rows from `start` down, and above `stop`. An empty `start`
    /// is the end of the table, an empty `stop` its beginning. The cells of a row are in the same order as forward.
    ///
    /// # Errors
    /// As [`Table::get`].
    pub fn scan_reversed(
        &self,
        start: impl AsRef<[u8]>,
        stop: impl AsRef<[u8]>,
        read: &Read,
    ) -> Result<Scan> {
        let (start, stop) = (start.as_ref(), stop.as_ref());
        let start = if start.is_empty() { Bound::Unbounded } else { Bound::Included(start) };
        let stop = if stop.is_empty() { Bound::Unbounded } else { Bound::Excluded(stop) };
        self.scan_spans_reversed([Span::rows::<&[u8]>((stop, start))], read)
    }

    /// The cells in one of `spans`, which may overlap, each once and in the order of the table.
    ///
    /// # Errors
    /// As [`Table::get`].
    pub fn scan_spans(&self, spans: impl IntoIterator<Item = Span>, read: &Read) -> Result<Scan> {
        Scan::new(&self.tables.db, &self.state, read, spans, false)
    }

    /// As [`Table::scan_spans`], from the last row to the first one.
    ///
    /// # Errors
    /// As [`Table::get`].
    pub fn scan_spans_reversed(&self, spans: impl IntoIterator<Item = Span>, read: &Read) -> Result<Scan> {
        Scan::new(&self.tables.db, &self.state, read, spans, true)
    }
}

#[cfg(test)]
mod tests;
