//! The tables of a store.
//!
//! ```text
//! tree "tables"        names, schemas, namespaces, parts                 (catalog)
//! tree "table 7.2"     the cells of the table with the number 7 in its access group 2
//! tree "table 7.2.1"   those from the row of that part on                (parts)
//!
//! a change of tables   make trees -> prepare: merges keep everything -> entry of the journal -> apply -> remove trees
//! ```
//! What an entry changes in the catalog is a [`Change`], and [`Inner::apply`] alone changes the memory of this process by it: the
//! shapes of tables, and what the compaction rule knows. A process that follows the entries of another one prepares, writes and
//! applies in the same way.
//!
//! A table exists while the catalog names it. Its trees are made before that and dropped after it; only other changes of tables
//! wait for it. An opening drops trees that no table has, which a crash has left.

use core::ops::Bound;
use std::collections::{BTreeMap, BTreeSet};
use std::hash::BuildHasher;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use esker::{Batch, Db, ErrorKind, Options, ScanRange, StoredValue, Tree, TreeOptions, Value, ValueWriter};

use crate::batch::CellBatch;
use crate::canary;
use crate::catalog::{self, CATALOG, CATALOG_TAG, Change};
use crate::cell::{self, FamilyId, ROW_LEN_MAX, check_row};
use crate::error::{Error, Result};
use crate::index::{self, Before, Old};
use crate::mutation::{PutValue, RowMutation};
use crate::parts::{Division, Parts, part_name};
use crate::query_cache::{QueryCache, QueryCacheStats};
use crate::read::{Cell, Counted, Live, Read, Scan};
use crate::rising::{Puts, Rising};
use crate::rule::{RULE, TableRule};
use crate::schema::{Family, Moment, Schema, check_name};
use crate::sequences::Sequences;
use crate::shape::{INDEXES, Shape, State, TREES, tree_name};
use crate::span::Span;
use crate::write::{Check, Latest, Stamp, View, WriteValue, check_row_deletes, mutate, put_cells};
use esker_journal::{Ground, Journal, Local, Undone};

/// The namespace of tables that name none.
const DEFAULT_NAMESPACE: &str = "default";

/// A rebuilding of indexes begins anew if the schema changes meanwhile: so often.
const REBUILDS_MAX: usize = 10;

/// How many rows a rebuilding of indexes locks together.
const ROWS_AT_ONCE: usize = 100;

/// After how many entries of an index a rebuilding writes them, and unlocks the rows at the end of a column.
const ENTRIES_AT_ONCE: usize = 1000;

/// Writes to two rows with the same lock wait for each other.
const ROW_LOCKS: usize = 1024;

/// What the tables are opened for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Access {
    Read,
    Write,
}

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
    /// Whether each put without a timestamp is a version of its own.
    has_distinct_times: bool,
}

/// What the handles of one opening share.
struct Inner {
    /// For reads.
    db: Db,
    /// Through which all data changes.
    journal: Arc<dyn Journal>,
    rule: TableRule,
    catalog: Tree,
    sequences: Sequences,
    query_cache: Arc<QueryCache>,
    /// Whether writes of cells return when they survive power loss, whatever the store's options say.
    is_power_safe: AtomicBool,
    /// Equal to the catalog, except while `changing` is held.
    tables: RwLock<BTreeMap<String, Arc<State>>>,
    /// Held from the beginning to the end of a change of tables or namespaces, and taken before all other locks: names, groups and
    /// indexes stay what they were at its beginning. Writes do not take it, so trees are made and dropped while only it is held.
    altering: Mutex<()>,
    /// Held while the catalog changes, and locked after the locks of rows: the first delete of a version waits for it.
    changing: Mutex<()>,
    /// A row's lock is held from its sequence number to the end of its write: numbers of one row become visible in their
    /// order. All are held while a table changes: every write is by the shape of its table that is in force.
    rows: Vec<Mutex<()>>,
    hasher: std::hash::RandomState,
    rising: Rising,
}

/// Tables of which the rule keeps everything, since an entry may change them. It must be there before the entry is written:
/// a merge that begins after the entry may have its cells already, and must not judge them by what the rule knew before.
///
/// A merge in between is harmless: one that has begun before has nothing that the entry writes, and goes by no later time than
/// this; and one that begins meanwhile drops nothing, and is done again later.
struct Held<'a> {
    rule: &'a TableRule,
    states: Vec<Arc<State>>,
}

impl Held<'_> {
    fn of(rule: &TableRule, states: Vec<Arc<State>>) -> Held<'_> {
        for shape in states.iter().map(|state| state.shape()) {
            let now_ms = shape.now_ms();
            shape.all_trees().for_each(|tree| rule.forget(tree.name(), now_ms));
        }
        Held { rule, states }
    }

    /// The entry is done, and [`Inner::apply`] tells the rule; or that is not known, and merges keep everything.
    fn keep(mut self) {
        self.states.clear();
    }
}

impl Drop for Held<'_> {
    /// The entry was refused, or not proposed: the tables are what they were.
    fn drop(&mut self) {
        for shape in self.states.iter().map(|state| state.shape()) {
            shape.tell(self.rule, shape.now_ms().saturating_add(1));
        }
    }
}

/// Changes of the catalog that an entry is going to make, and what was prepared for them.
struct Coming<'a> {
    changes: Vec<Change>,
    /// The new shapes, and the tables that get them, if they are there.
    opened: Vec<(Option<Arc<State>>, Arc<Shape>)>,
    held: Held<'a>,
}

impl Coming<'_> {
    /// Puts the changes into the entry.
    fn enter(&self, catalog: &Tree, batch: &mut Batch) -> Result<()> {
        self.changes.iter().try_for_each(|change| change.enter(catalog, batch))
    }
}

/// What tables do not have any more when an entry was applied.
#[derive(Default)]
#[must_use]
struct Left {
    trees: Vec<Tree>,
    /// Tables that were dropped.
    tables: Vec<u64>,
}

/// Writes the value of a cell, piece by piece; [`Table::writer`] begins one. If it is dropped, nothing is left.
#[derive(Debug)]
pub struct CellWriter(ValueWriter);

impl CellWriter {
    /// Appends to the value.
    ///
    /// # Errors
    /// `Store` when the disk cannot take it. The writer is of no use then.
    pub fn add(&mut self, bytes: &[u8]) -> Result<()> {
        Ok(self.0.add(bytes)?)
    }

    /// Ends the value. [`RowMutation::put_stored`] gives it to cells of the family; without that it is gone with its last
    /// clone, or with a crash.
    ///
    /// # Errors
    /// As [`CellWriter::add`].
    pub fn finish(self) -> Result<StoredValue> {
        Ok(self.0.finish()?)
    }
}

/// Drops the tree `name`, which no table names, if it was made for one. What else has that name stays.
fn drop_left(journal: &dyn Journal, name: &str) -> Result<()> {
    if is_for_tables(journal.db(), name) {
        journal.remove_tree(name)?;
    }
    Ok(())
}

/// Makes a tree for a table, in place of what an attempt that has failed has left.
fn create_tree(journal: &dyn Journal, name: &str) -> Result<()> {
    drop_left(journal, name)?;
    journal.new_tree(name, TreeOptions::default().rule(RULE))?;
    Ok(())
}

/// Whether there is a tree `name` that was made for a table.
fn is_for_tables(db: &Db, name: &str) -> bool {
    matches!(db.open_tree(name), Ok(Some(tree)) if Tables::made(&tree))
}

/// The name of a table, as the catalog has it: `namespace:table`, or `table` in the default namespace.
fn full_name(name: &str) -> Result<String> {
    match name.split_once(':') {
        Some((namespace, table)) => {
            check_name("a namespace", namespace)?;
            check_name("a table", table)?;
            let is_default = namespace == DEFAULT_NAMESPACE;
            Ok(if is_default { table.to_owned() } else { name.to_owned() })
        }
        None => check_name("a table", name).map(|()| name.to_owned()),
    }
}

/// Fails if a tree that is in one piece is not.
fn check_whole(tree: &Tree) -> Result<()> {
    if tree.key_range() == ScanRange::all() {
        return Ok(());
    }
    Err(Error::Damaged(format!(
        "the tree {:?} was split: the rest of its keys is in another tree",
        tree.name()
    )))
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
        f.debug_struct("Table").field("name", &self.name()).finish_non_exhaustive()
    }
}

impl Tables {
    /// Whether `tree` was made for a table. A program that writes to it by itself damages the table.
    #[must_use]
    pub fn made(tree: &Tree) -> bool {
        tree.options().rule.as_deref() == Some(RULE)
    }

    /// Whether the store has tables.
    ///
    /// # Errors
    /// As [`Db::open_tree`].
    pub fn are_in(db: &Db) -> esker::Result<bool> {
        let catalog = db.open_tree(CATALOG)?;
        Ok(catalog.is_some_and(|catalog| catalog.tag().as_deref() == Some(CATALOG_TAG)))
    }

    /// Whether [`Tables`] makes trees with this name. If another program has made the tree, the store cannot have tables.
    #[must_use]
    pub fn reserves(name: &str) -> bool {
        name == CATALOG || name.starts_with(TREES)
    }

    /// Opens the store in the directory `path`, or creates it, with its tables.
    ///
    /// # Errors
    /// `Store` as [`Db::open`], `Damaged` when the catalog is no catalog.
    pub fn open(path: impl AsRef<Path>, options: Options) -> Result<Tables> {
        let rule = TableRule::default();
        let db = Db::open(path, options.compaction_rule(rule.clone()))?;
        Tables::over(Arc::new(Local::new(&db)), rule, Access::Write)
    }

    /// Opens the tables of the store in the directory `path` for reading, as [`Db::open_read_only`] does. Calls that write
    /// fail.
    ///
    /// # Errors
    /// As [`Tables::open`], and `Store` of the kind `NotFound` when the store has no tables.
    pub fn open_read_only(path: impl AsRef<Path>, options: Options) -> Result<Tables> {
        let rule = TableRule::default();
        let db = Db::open_read_only(path, options.compaction_rule(rule.clone()))?;
        Tables::over(Arc::new(Local::new(&db)), rule, Access::Read)
    }

    /// Tables that are gone with the last handle.
    ///
    /// # Errors
    /// As [`Tables::open`].
    pub fn open_in_memory(options: Options) -> Result<Tables> {
        let rule = TableRule::default();
        let db = Db::open_in_memory(options.compaction_rule(rule.clone()))?;
        Tables::over(Arc::new(Local::new(&db)), rule, Access::Write)
    }

    /// The tables of the store that `journal` writes to, which was opened with `rule`. Nothing is written if it has a catalog, and a
    /// crash has interrupted no change of tables.
    fn over(journal: Arc<dyn Journal>, rule: TableRule, access: Access) -> Result<Tables> {
        let db = journal.db().clone();
        let catalog = match db.open_tree(CATALOG)? {
            Some(catalog) => catalog,
            None if access == Access::Read => {
                let error = esker::Error::new(ErrorKind::NotFound, "the store has no tables");
                return Err(error.at(db.path()).into());
            }
            None => journal.new_tree(CATALOG, TreeOptions::default())?,
        };
        match catalog.tag().as_deref() {
            Some(CATALOG_TAG) => {}
            None if catalog.is_empty()? => journal.tag_tree(&catalog, CATALOG_TAG)?,
            tag => {
                let tag = tag.unwrap_or_default();
                let message = format!(
                    "the tree {CATALOG:?} is not a catalog of tables of this version, or another program has made it; its tag is {tag:?}"
                );
                return Err(Error::Damaged(message));
            }
        }
        check_whole(&catalog)?;
        let (mut tables, mut numbers) = (BTreeMap::new(), BTreeSet::new());
        for (name, schema) in catalog::tables(&catalog)? {
            if !numbers.insert(schema.table) {
                return Err(Error::Damaged(format!("the table {name:?} has the number of another table")));
            }
            let shape = Shape::open(&*journal, &catalog, &name, schema, BTreeMap::new())?;
            shape.tell(&rule, i64::MIN);
            tables.insert(name, Arc::new(State::new(Arc::new(shape))));
        }
        let trees = |state: &Arc<State>| state.shape().all_trees().cloned().collect::<Vec<_>>();
        let names = tables.values().flat_map(trees).map(|tree| tree.name().to_owned());
        let named: BTreeSet<String> = names.collect();
        for name in db.tree_names() {
            if access == Access::Write && name.starts_with(TREES) && !named.contains(&name) {
                drop_left(&*journal, &name)?;
            }
        }
        let inner = Inner {
            sequences: Sequences::open(&catalog)?,
            query_cache: Arc::new(QueryCache::new()),
            is_power_safe: AtomicBool::new(false),
            db,
            journal,
            rule,
            catalog,
            tables: RwLock::new(tables),
            altering: Mutex::new(()),
            changing: Mutex::new(()),
            rows: (0..ROW_LOCKS).map(|_| Mutex::new(())).collect(),
            hasher: std::hash::RandomState::new(),
            rising: Rising::new(),
        };
        Ok(Tables { inner: Arc::new(inner) })
    }

    /// Through what all changes of data go, those of other front ends of this store too.
    #[must_use]
    pub fn journal(&self) -> &Arc<dyn Journal> {
        &self.inner.journal
    }

    /// The store.
    pub fn db(&self) -> &Db {
        &self.inner.db
    }

    /// Lets the tables keep what whole reads have returned, in so many bytes at most, until it is written. 0, with which they
    /// begin: nothing is kept. This is memory beside the store's [`Options::memory_budget`].
    ///
    /// The second time, a read is kept. No answer is older than the last acknowledged write. It is for programs that repeat reads
    /// of what is seldom written, above all those that look at much and show little, as by a filter. A write costs a little more.
    ///
    /// # Example
    /// ```
    /// use esker_table::{Family, Read, RowMutation, Schema, Tables};
    ///
    /// # fn main() -> esker_table::Result<()> {
    /// let tables = Tables::open_in_memory(esker::Options::default())?;
    /// tables.set_query_cache(16 << 20);
    /// let table = tables.create("t", Schema::new().group("a", [Family::new("f")]))?;
    /// for value in ["one", "two"] {
    ///     table.mutate(&RowMutation::new("r").put("f", "", value))?;
    ///     for _ in 0..3 {
    ///         assert_eq!(table.get("r", &Read::all())?[0].value, value.as_bytes());
    ///     }
    /// }
    /// // Not the first two, and not the first one after the write.
    /// assert_eq!((tables.query_cache_stats().queries, tables.query_cache_stats().hits), (6, 3));
    /// # Ok(())
    /// # }
    /// ```
    pub fn set_query_cache(&self, bytes: usize) {
        // A write that has not begun by the rules of the cache would not end by them.
        let _rows: Vec<MutexGuard<'_, ()>> = self.inner.rows.iter().map(lock).collect();
        self.inner.query_cache.set_capacity(bytes);
    }

    /// Has writes of cells return when they survive power loss. Otherwise they return as [`Options::durability`] says, which is
    /// for all writers of a store: this is for tables beside others.
    pub fn set_power_safe(&self, is_power_safe: bool) {
        self.inner.is_power_safe.store(is_power_safe, Ordering::Relaxed);
    }

    /// What the query cache has done and holds.
    pub fn query_cache_stats(&self) -> QueryCacheStats {
        self.inner.query_cache.stats()
    }

    /// The one name that a table has of those by which it can be called: `t` for `default:t`. [`Tables::names`] has it so, and
    /// [`Table::name`].
    ///
    /// # Errors
    /// `Invalid` when no table can have this name.
    pub fn full_name(name: &str) -> Result<String> {
        full_name(name)
    }

    /// The names of all tables, in their order.
    pub fn names(&self) -> Vec<String> {
        self.inner.tables.read().unwrap_or_else(PoisonError::into_inner).keys().cloned().collect()
    }

    /// Makes a namespace: tables whose names begin with its name and `:` are in it. It survives power loss when this returns.
    ///
    /// # Errors
    /// `NamespaceExists`; `Invalid` when no namespace can have this name.
    pub fn create_namespace(&self, name: &str) -> Result<()> {
        check_name("a namespace", name)?;
        let _altering = lock(&self.inner.altering);
        let _changing = lock(&self.inner.changing);
        if self.inner.has_namespace(name)? {
            return Err(Error::NamespaceExists(name.to_owned()));
        }
        self.inner.change_catalog(vec![Change::Namespace { name: name.to_owned() }]).map(drop)
    }

    /// Drops a namespace that has no tables.
    ///
    /// # Errors
    /// `NoNamespace`, `NamespaceInUse`; `Invalid` for the default namespace.
    pub fn drop_namespace(&self, name: &str) -> Result<()> {
        let _altering = lock(&self.inner.altering);
        let _changing = lock(&self.inner.changing);
        if name == DEFAULT_NAMESPACE {
            return Err(Error::invalid(format!("the namespace {name:?} cannot be dropped")));
        }
        if !self.inner.has_namespace(name)? {
            return Err(Error::NoNamespace(name.to_owned()));
        }
        let prefix = format!("{name}:");
        if self.names().iter().any(|table| table.starts_with(&prefix)) {
            return Err(Error::NamespaceInUse(name.to_owned()));
        }
        self.inner.change_catalog(vec![Change::NoNamespace { name: name.to_owned() }]).map(drop)
    }

    /// The names of all namespaces, in their order; `default` is always there.
    ///
    /// # Errors
    /// `Store` when the catalog cannot be read.
    pub fn namespaces(&self) -> Result<Vec<String>> {
        let mut names = catalog::namespaces(&self.inner.catalog)?;
        names.push(DEFAULT_NAMESPACE.to_owned());
        names.sort_unstable();
        Ok(names)
    }

    /// Makes a table. It survives power loss when this returns. Its name is `table` or `namespace:table`.
    ///
    /// # Errors
    /// `TableExists`, `NoNamespace`; `Invalid` or `Schema` when no table can have this name or schema.
    pub fn create(&self, name: &str, schema: Schema) -> Result<Table> {
        let name = &*full_name(name)?;
        let Inner { db, catalog, .. } = &*self.inner;
        let _altering = lock(&self.inner.altering);
        self.inner.check_free(name)?;
        let next = catalog::next_table(catalog)?;
        // A program may have made trees with such names for itself.
        let names = db.tree_names();
        let is_free = |number: &u64| {
            let prefix = format!("{TREES}{number}.");
            let mut others = names.iter().filter(|name| name.starts_with(&prefix));
            others.all(|name| is_for_tables(db, name))
        };
        let number = (next..).find(is_free).unwrap_or(next);
        let schema = schema.numbered(number)?;
        // Nothing is made for a schema that is too long.
        schema.to_xml()?;
        self.inner.make_trees(&schema, None)?;
        let _changing = lock(&self.inner.changing);
        let table = Change::Table { name: name.to_owned(), schema };
        let left = self.inner.change_catalog(vec![table, Change::NextTable(number.saturating_add(1))])?;
        self.inner.remove(left)?;
        self.table(name)
    }

    /// Gives a table another schema: one that was made for it, or that of [`Table::schema`], changed. Reads and writes of the
    /// table go on; those that begin when this has returned go by the new schema. It survives power loss then.
    ///
    /// Families and groups that have numbers, as in the text of a table's schema, keep their cells, also under another name.
    /// Those without numbers are the table's with the same names, or new ones. The cells of families that `schema` does not
    /// have are gone. A lower limit of versions and a shorter time to live count for all cells. A higher limit counts for what
    /// is written from then on, and a longer time to live for what has not expired yet.
    ///
    /// # Errors
    /// `Store` when the store cannot write; the table may have the new schema all the same, with some trees of dropped groups
    /// left: the next opening drops these. `Invalid` when a cell is too long for a new index, which is not used then. `NoTable`;
    /// `SchemaChanged` when the table's schema has another version than the one that `schema` was made of; `Schema`
    /// when the table cannot become so: a family cannot go to another group.
    ///
    /// # Example
    /// ```
    /// use esker_table::{Family, Read, RowMutation, Schema, Tables};
    ///
    /// # fn main() -> esker_table::Result<()> {
    /// let tables = Tables::open_in_memory(esker::Options::default())?;
    /// let table = tables.create("t", Schema::new().group("a", [Family::new("colour")]))?;
    /// table.mutate(&RowMutation::new("r").put("colour", "", "red"))?;
    ///
    /// let schema = (*table.schema()).clone();
    /// tables.alter("t", schema.with_family_renamed("colour", "color").with_family("a", Family::new("size")))?;
    /// assert_eq!(table.get("r", &Read::family("color"))?[0].value, b"red");
    /// # Ok(())
    /// # }
    /// ```
    pub fn alter(&self, name: &str, schema: Schema) -> Result<()> {
        let table = self.table(name)?;
        self.inner.change(name, move |shape, at| {
            Ok((shape.name.clone(), shape.schema.altered(schema.clone(), at)?))
        })?;
        if table.is_enabled() { self.build_indexes(&table) } else { Ok(()) }
    }

    /// Builds the indexes of a table that lack what it had before.
    fn build_indexes(&self, table: &Table) -> Result<()> {
        if !table.schema().is_building() {
            return Ok(());
        }
        match self.rebuild(table, false) {
            // Enabling the table builds them.
            Err(Error::Disabled(_)) => Ok(()),
            built => built,
        }
    }

    /// Enters into the indexes of a table what they lack, and removes what is of no use in them. Reads and writes of the table
    /// go on. [`Tables::alter`] does the first where a family gets an index; if it could not end, this does. The second is for
    /// tables of which much was deleted, or written by batches with several changes of a row.
    ///
    /// # Errors
    /// `NoTable`, `Disabled`; `SchemaChanged` when somebody changes the schema again and again meanwhile; `Invalid` when a row and
    /// a qualifier are too long for an index; `Store`.
    pub fn rebuild_indexes(&self, name: &str) -> Result<()> {
        self.rebuild(&self.table(name)?, true)
    }

    /// Enters what the indexes of a table lack; with `removes`, also removes what is of no use in them.
    fn rebuild(&self, table: &Table, removes: bool) -> Result<()> {
        let first = table.schema().version();
        for _ in 0..REBUILDS_MAX {
            let (schema, name) = (table.schema(), table.name());
            let is_same = |other: &Schema| (other.table, other.version()) == (schema.table, schema.version());
            let entered = table.enter_all(&schema);
            let built =
                if removes { entered.and_then(|()| table.remove_unused_entries(&schema)) } else { entered };
            let done = built.and_then(|()| {
                self.inner.change(&name, |shape, _| match is_same(&shape.schema) {
                    true => Ok((shape.name.clone(), shape.schema.with_ready_indexes())),
                    false => Err(changed(&schema, &shape.schema)),
                })
            });
            // By another schema, or under another name, from the beginning.
            match done {
                Err(_) if !is_same(&table.schema()) || name != table.name() => {}
                done => return done,
            }
        }
        Err(Error::SchemaChanged { expected: first, found: table.schema().version() })
    }

    /// Gives a table another name, also in another namespace. Its handles stay good.
    ///
    /// # Errors
    /// `NoTable`, `NoNamespace`; `TableExists` when there is a table with the name `to`.
    pub fn rename(&self, from: &str, to: &str) -> Result<()> {
        let to = full_name(to)?;
        self.inner.change(from, |shape, _| {
            self.inner.check_free(&to)?;
            Ok((to.clone(), (*shape.schema).clone()))
        })
    }

    /// Lets a table be read and written again, and builds indexes that it has got meanwhile.
    ///
    /// # Errors
    /// `NoTable`; `Store` when an index cannot be written.
    pub fn enable(&self, name: &str) -> Result<()> {
        self.set_disabled(name, false)?;
        self.build_indexes(&self.table(name)?)
    }

    /// From now on, reads and writes of the table fail, until it is enabled. A scan that is open goes on.
    ///
    /// # Errors
    /// `NoTable`.
    pub fn disable(&self, name: &str) -> Result<()> {
        self.set_disabled(name, true)
    }

    fn set_disabled(&self, name: &str, is_disabled: bool) -> Result<()> {
        self.inner.change(name, |shape, _| {
            let mut schema = (*shape.schema).clone();
            schema.is_disabled = is_disabled;
            Ok((shape.name.clone(), schema))
        })
    }

    /// The table with this name.
    ///
    /// # Errors
    /// `NoTable`.
    pub fn table(&self, name: &str) -> Result<Table> {
        let state = self.inner.find(name)?;
        Ok(Table { tables: Arc::clone(&self.inner), state, has_distinct_times: false })
    }

    /// Drops a table with all that is in it. Calls on its handles fail from then on, and power loss does not bring it back.
    ///
    /// # Errors
    /// `NoTable`; `Store` when the store cannot write. The table may be gone all the same, with some of its trees left: the
    /// next opening drops these.
    pub fn drop_table(&self, name: &str) -> Result<()> {
        let _altering = lock(&self.inner.altering);
        let changing = lock(&self.inner.changing);
        let shape = self.inner.find(name)?.shape();
        let mut changes = catalog::without_parts(&self.inner.catalog, shape.schema.table, None)?;
        changes.push(Change::NoTable { name: shape.name.clone() });
        let left = self.inner.change_catalog(changes)?;
        drop(changing);
        self.inner.remove(left)
    }

    /// Removes all cells of a table, whatever their timestamps, and all its deletes. Its schema, its parts and its handles stay. Readers
    /// see all cells or none. It survives power loss when this returns.
    ///
    /// # Errors
    /// `NoTable`, `Disabled`; `Store` when the store cannot write. Nothing is removed then.
    pub fn truncate(&self, name: &str) -> Result<()> {
        let Inner { journal, query_cache, .. } = &*self.inner;
        let _altering = lock(&self.inner.altering);
        let state = self.inner.find(name)?;
        // No write is between its sequence number and its end.
        let _rows: Vec<MutexGuard<'_, ()>> = self.inner.rows.iter().map(lock).collect();
        // No part is split off: a range that reaches into it would not count there.
        let _changing = lock(&self.inner.changing);
        let shape = state.shape();
        shape.check_enabled()?;
        let mut batch = Batch::new();
        shape.all_trees().try_for_each(|tree| batch.delete_range(tree, ..))?;
        let (first, last) = (Vec::new(), vec![0xff; ROW_LEN_MAX]);
        let ends = [&first[..], &last[..]].into_iter();
        let _writing = query_cache.is_on().then(|| query_cache.begin(shape.schema.table, ends));
        journal.propose_durably(journal.ground(), &mut batch).wait()?;
        query_cache.forget(shape.schema.table);
        Ok(())
    }
}

impl Inner {
    fn find(&self, name: &str) -> Result<Arc<State>> {
        let full = full_name(name)?;
        let tables = self.tables.read().unwrap_or_else(PoisonError::into_inner);
        tables.get(&full).cloned().ok_or(Error::NoTable(full))
    }

    fn has_namespace(&self, name: &str) -> Result<bool> {
        Ok(name == DEFAULT_NAMESPACE || catalog::has_namespace(&self.catalog, name)?)
    }

    /// Fails if no table can be given the name, which is a full one.
    fn check_free(&self, name: &str) -> Result<()> {
        if let Some((namespace, _)) = name.split_once(':')
            && !self.has_namespace(namespace)?
        {
            return Err(Error::NoNamespace(namespace.to_owned()));
        }
        if self.tables.read().unwrap_or_else(PoisonError::into_inner).contains_key(name) {
            return Err(Error::TableExists(name.to_owned()));
        }
        Ok(())
    }

    /// The table with this number.
    fn numbered(&self, table: u64) -> Option<Arc<State>> {
        let tables = self.tables.read().unwrap_or_else(PoisonError::into_inner);
        tables.values().find(|state| state.shape().schema.table == table).cloned()
    }

    /// Changes the catalog, durably. `changing` is held.
    fn change_catalog(&self, changes: Vec<Change>) -> Result<Left> {
        let coming = self.prepare(changes)?;
        let mut batch = Batch::new();
        coming.enter(&self.catalog, &mut batch)?;
        let end = self.journal.propose_durably(self.journal.ground(), &mut batch).wait();
        self.settle(coming, end)
    }

    /// Prepares this process for an entry that makes these changes: the rule keeps everything of tables that are there and become
    /// others ([`Held`]), and the trees of the new shapes are opened, which were made ([`Inner::make_trees`]). `changing` is held, from
    /// here until [`Inner::apply`].
    fn prepare(&self, changes: Vec<Change>) -> Result<Coming<'_>> {
        let (mut states, mut opened) = (Vec::new(), Vec::new());
        for change in &changes {
            match change {
                Change::NoTable { name } => states.extend(self.find(name).ok()),
                Change::Table { name, schema } => {
                    let state = self.numbered(schema.table);
                    let old = state.as_ref().map(|state| state.shape());
                    let known = old.as_ref().map(|old| old.parts()).unwrap_or_default();
                    let known = known.into_iter().map(|(group, parts)| (group, parts.clone())).collect();
                    let shape = Shape::open(&*self.journal, &self.catalog, name, schema.clone(), known)?;
                    states.extend(state.clone());
                    opened.push((state, Arc::new(shape)));
                }
                _ => {}
            }
        }
        Ok(Coming { held: Held::of(&self.rule, states), changes, opened })
    }

    /// Ends what [`Inner::prepare`] has begun, as the entry has ended.
    fn settle<T>(&self, coming: Coming<'_>, end: std::result::Result<T, Undone>) -> Result<Left> {
        match end {
            Ok(_) => self.apply(coming),
            Err(undone) => {
                if matches!(undone, Undone::Unknown(_)) {
                    coming.held.keep();
                }
                Err(undone.into())
            }
        }
    }

    /// Changes what this process knows of its tables, by the changes of an entry that is done: their names and shapes, the rule, the
    /// bound of sequence numbers. Nothing else does that. Returns what is to be removed without locks ([`Inner::remove`]).
    ///
    /// `changing` is held. Between the entry and this, entries of other threads may write cells of the tables only if they are right by
    /// the schema before and by the new one, as for a note of deleted versions.
    ///
    /// Readers know a new shape before the rule does: see `begin` of [`esker::rules::CompactionRule`].
    ///
    /// # Errors
    /// `Store` when a tree cannot be split: the next opening does it.
    fn apply(&self, coming: Coming<'_>) -> Result<Left> {
        let Coming { changes, opened, held } = coming;
        held.keep();
        let mut left = Left::default();
        let mut gone: Vec<Arc<State>> = Vec::new();
        let mut tables = self.tables.write().unwrap_or_else(PoisonError::into_inner);
        for change in &changes {
            match change {
                Change::NoTable { name } => gone.extend(tables.remove(name)),
                Change::Bound(bound) => self.sequences.follow(*bound),
                // Shapes follow. Namespaces and the number of the next table are read from the catalog.
                Change::Table { .. } | Change::Part { .. } | Change::NoPart { .. } => {}
                Change::Namespace { .. } | Change::NoNamespace { .. } | Change::NextTable(_) => {}
            }
        }
        for (state, shape) in opened {
            let (state, since_ms) = match state {
                Some(state) => {
                    let old = state.shape();
                    let kept: BTreeSet<&str> = shape.all_trees().map(Tree::name).collect();
                    left.trees.extend(old.all_trees().filter(|tree| !kept.contains(tree.name())).cloned());
                    state.set_shape(Arc::clone(&shape));
                    gone.retain(|other| !Arc::ptr_eq(other, &state));
                    (state, shape.now_ms().saturating_add(1))
                }
                None => (Arc::new(State::new(Arc::clone(&shape))), i64::MIN),
            };
            tables.insert(shape.name.clone(), state);
            shape.tell(&self.rule, since_ms);
        }
        drop(tables);
        for shape in gone.iter().map(|state| state.shape()) {
            left.trees.extend(shape.all_trees().cloned());
            left.tables.push(shape.schema.table);
        }
        for change in &changes {
            if let Change::Part { table, group, division } = change {
                self.split_off(*table, *group, division)?;
            }
        }
        Ok(left)
    }

    /// Splits a part off, which the catalog has, if it is not there yet.
    fn split_off(&self, table: u64, group: u16, Division { number, row }: &Division) -> Result<()> {
        let Some(state) = self.numbered(table) else { return Ok(()) };
        let _splitting = state.split();
        let (shape, from) = (state.shape(), cell::row_prefix(row));
        let Some(place) = shape.schema.groups().iter().position(|other| other.id == group) else {
            return Ok(());
        };
        if shape.groups[place].borders().any(|border| border == from) {
            return Ok(());
        }
        let name = part_name(&tree_name(table, group), *number);
        let mut groups = shape.groups.clone();
        groups[place] = groups[place].split(&*self.journal, &from, &name)?;
        let (name, schema, index) = (shape.name.clone(), Arc::clone(&shape.schema), shape.index.clone());
        let shape = Arc::new(Shape { name, schema, groups, index });
        state.set_shape(Arc::clone(&shape));
        shape.tell(&self.rule, shape.now_ms().saturating_add(1));
        Ok(())
    }

    /// Removes what tables do not have any more.
    fn remove(&self, left: Left) -> Result<()> {
        let Left { trees, tables } = left;
        trees.into_iter().try_for_each(|tree| self.journal.remove_tree(tree.name()))?;
        // Only now: a read of a tree that is still there may have brought an answer into the cache.
        tables.into_iter().for_each(|table| self.query_cache.forget(table));
        Ok(())
    }

    /// Gives a table the name and schema that `make` makes of its shape, at a moment at which no write of any table is under
    /// way. Before and behind that moment writes go on: `make` is asked twice, first for the trees that are to be made.
    ///
    /// Until the schema is in force, the rule keeps everything ([`Held`]). What merges have dropped before had expired by the time of
    /// the moment, and was surplus without the writes from its sequence number on.
    fn change(&self, name: &str, make: impl Fn(&Shape, Moment) -> Result<(String, Schema)>) -> Result<()> {
        let _altering = lock(&self.altering);
        let state = self.find(name)?;
        let before = state.shape();
        // Its number is in no entry.
        let trial = Moment { sequence: self.sequences.take(1).first, now_ms: before.now_ms() };
        let (_, schema) = make(&before, trial)?;
        // Nothing is made for a schema that is too long.
        schema.to_xml()?;
        self.make_trees(&schema, Some(&before))?;
        // If the catalog cannot be written, the store takes no more writes, and the next opening decides. After another error, the
        // next change makes these trees anew.
        let left = self.put_in_force(&state, make)?;
        self.remove(left)
    }

    /// As [`Inner::change`], to a table that exists and whose new trees were made.
    fn put_in_force(
        &self,
        state: &Arc<State>,
        make: impl Fn(&Shape, Moment) -> Result<(String, Schema)>,
    ) -> Result<Left> {
        let _rows: Vec<MutexGuard<'_, ()>> = self.rows.iter().map(lock).collect();
        let _changing = lock(&self.changing);
        let old = state.shape();
        // Before the moment: no merge goes by a later time.
        let held = Held::of(&self.rule, vec![Arc::clone(state)]);
        let taken = self.sequences.take(1);
        let (name, schema) = make(&old, Moment { sequence: taken.first, now_ms: old.now_ms() })?;
        let mut changes = Vec::new();
        for group in &old.schema.groups().iter().map(|group| group.id).collect::<Vec<_>>() {
            if !schema.groups().iter().any(|kept| kept.id == *group) {
                changes.extend(catalog::without_parts(&self.catalog, schema.table, Some(*group))?);
            }
        }
        if name != old.name {
            changes.push(Change::NoTable { name: old.name.clone() });
        }
        changes.push(Change::Table { name, schema });
        let coming = self.prepare(changes)?;
        let mut batch = Batch::new();
        taken.enter(&self.catalog, &mut batch)?;
        coming.enter(&self.catalog, &mut batch)?;
        let end = self.journal.propose_durably(self.journal.ground(), &mut batch).wait();
        if end.is_ok() {
            taken.done();
        }
        held.keep();
        self.settle(coming, end)
    }

    /// Makes the trees that a table of this schema needs, and `old` lacks: those of its groups, and of its indexes. After an error it
    /// drops those that it has made; what it cannot drop, the next opening does.
    fn make_trees(&self, schema: &Schema, old: Option<&Shape>) -> Result<()> {
        let known = old.map(Shape::parts).unwrap_or_default();
        let groups = schema.groups().iter().map(|group| group.id);
        let mut made: Vec<String> = Vec::new();
        for group in groups.chain(schema.has_index().then_some(INDEXES)) {
            if known.contains_key(&group) {
                continue;
            }
            let name = tree_name(schema.table, group);
            if let Err(error) = create_tree(&*self.journal, &name) {
                drop(drop_left(&*self.journal, &name));
                made.iter().for_each(|name| drop(self.journal.remove_tree(name)));
                return Err(error);
            }
            made.push(name);
        }
        Ok(())
    }

    /// The locks of these rows, each once, in an order that is the same for everybody.
    fn lock_rows<'a>(&self, rows: impl Iterator<Item = &'a [u8]>) -> Vec<MutexGuard<'_, ()>> {
        let places: BTreeSet<usize> =
            rows.map(|row| (self.hasher.hash_one(row) % self.rows.len() as u64) as usize).collect();
        places.into_iter().map(|place| lock(&self.rows[place])).collect()
    }
}

/// A row of a table, before a change of it: its lock is held.
struct Row<'a> {
    db: &'a Db,
    state: &'a Arc<State>,
    row: &'a [u8],
}

impl View for Row<'_> {
    fn latest(&self, family: &str, qualifier: &[u8], len_max: u64) -> Result<Option<Latest>> {
        let read = Read::column(family, qualifier);
        let mut scan = Live::new(self.db, self.state, &read, [Span::row(self.row)], false)?;
        if !scan.advance()? {
            return Ok(None);
        }
        let Some(value) = scan.to_value()? else { return Ok(None) };
        let len = value.len();
        let bytes = value.read_at(..len.min(len_max))?;
        Ok(Some(Latest { timestamp: scan.timestamp(), len, bytes }))
    }
}

impl Before for Row<'_> {
    fn cells(&self, family: &str, qualifier: Option<&[u8]>, limit: usize) -> Result<Option<Vec<Old>>> {
        let read = match qualifier {
            Some(qualifier) => Read::column(family, qualifier),
            None => Read::family(family),
        };
        let read = read.versions(u32::MAX).limit_cells(limit as u64 + 1, 0);
        let mut scan = Live::new(self.db, self.state, &read, [Span::row(self.row)], false)?;
        let mut cells = Vec::new();
        while scan.advance()? {
            let text = scan.beginning(index::TEXT_LEN_MAX as u64)?;
            cells.push(Old { qualifier: scan.qualifier().to_vec(), timestamp: scan.timestamp(), text });
        }
        Ok((cells.len() <= limit).then_some(cells))
    }
}

impl Table {
    /// Its name: `table`, or `namespace:table`.
    pub fn name(&self) -> String {
        self.state.shape().name.clone()
    }

    /// Its schema. It stays as it is: after a change the table has another one.
    pub fn schema(&self) -> Arc<Schema> {
        Arc::clone(&self.state.shape().schema)
    }

    /// Whether it can be read and written.
    pub fn is_enabled(&self) -> bool {
        !self.state.shape().schema.is_disabled
    }

    /// Merges all that the table has: what does not count is gone from its files, as far as no open reader sees it.
    ///
    /// # Errors
    /// `Store` when the store cannot write.
    pub fn compact(&self) -> Result<()> {
        let shape = self.state.shape();
        for tree in shape.all_trees() {
            match tree.compact().map_err(Error::from) {
                // Of a group that is not the table's any more.
                Err(error) if self.state.has_lost_tree(&shape, &error) => {}
                merged => merged?,
            }
        }
        Ok(())
    }

    /// Splits the table at `row`: in each access group, the rows from this one on lie in a tree of their own, up to the row at
    /// which the table is split already. Trees are flushed, merged and counted apart. Reads and writes find what they did
    /// before, and go on; writes wait while the store splits a tree ([`Db::split`]). It survives power loss when this returns.
    ///
    /// Trees of tables must not be split by other means: reads and writes, and openings of the tables, then fail.
    ///
    /// # Errors
    /// `NoTable`; `Invalid` when the table cannot have such a row; `Store` when the store cannot split. Some groups may be
    /// split then: the next opening splits the others.
    ///
    /// # Example
    /// ```
    /// use esker_table::{Family, Read, RowMutation, Schema, Tables};
    ///
    /// # fn main() -> esker_table::Result<()> {
    /// let tables = Tables::open_in_memory(esker::Options::default())?;
    /// let table = tables.create("t", Schema::new().group("a", [Family::new("f")]))?;
    /// for row in ["ada", "zoe"] {
    ///     table.mutate(&RowMutation::new(row).put("f", "", "1"))?;
    /// }
    /// table.split("m")?;
    /// assert_eq!(table.split_rows(), [b"m"]);
    /// let mut scan = table.scan("", "", &Read::all())?;
    /// while scan.advance()? {
    ///     println!("{:?}", scan.row());
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn split(&self, row: impl AsRef<[u8]>) -> Result<()> {
        let row = row.as_ref();
        check_row(row)?;
        let Inner { journal, catalog, .. } = &*self.tables;
        let _changing = lock(&self.tables.changing);
        let shape = self.state.shape();
        self.check_there(&shape)?;
        let (table, from) = (shape.schema.table, cell::row_prefix(row));
        let mut changes = Vec::new();
        for (place, group) in shape.schema.groups().iter().enumerate() {
            if shape.groups[place].borders().any(|border| border == from) {
                continue;
            }
            let first = tree_name(table, group.id);
            let known = catalog::divisions(catalog, table, group.id)?;
            let number = match known.iter().find(|known| known.row == row) {
                // Of a split that has failed.
                Some(known) => known.number,
                None => {
                    let mut number = known.iter().map(|known| known.number).max().unwrap_or(0);
                    // A program may have made trees with such names for itself.
                    loop {
                        number = number
                            .checked_add(1)
                            .ok_or_else(|| Error::invalid("the table has too many parts"))?;
                        if journal.db().open_tree(&part_name(&first, number))?.is_none() {
                            break number;
                        }
                    }
                }
            };
            let division = Division { number, row: row.to_vec() };
            changes.push(Change::Part { table, group: group.id, division });
        }
        let left = self.tables.change_catalog(changes)?;
        self.tables.remove(left)
    }

    /// The rows at which the table is split, in their order ([`Table::split`]).
    pub fn split_rows(&self) -> Vec<Vec<u8>> {
        let shape = self.state.shape();
        let borders: BTreeSet<&[u8]> = shape.groups.iter().flat_map(Parts::borders).collect();
        let row = |border: &[u8]| {
            let mut row = Vec::new();
            cell::unescape(border, &mut row);
            row
        };
        borders.into_iter().map(row).collect()
    }

    /// Fails if the table was dropped: the catalog must not tell of it.
    fn check_there(&self, shape: &Shape) -> Result<()> {
        match Arc::ptr_eq(&self.tables.find(&shape.name)?, &self.state) {
            true => Ok(()),
            false => Err(Error::NoTable(shape.name.clone())),
        }
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
    ///
    /// `Invalid` also when a row with an increment or append is there twice, or when several deletes of rows would take more than
    /// 64 MiB together: about 100 bytes and the row for each access group but the first.
    pub fn mutate_rows(&self, mutations: &[RowMutation]) -> Result<()> {
        self.commit(&[], mutations).map(drop)
    }

    /// Puts cells, or none of them if one cannot be put. Readers see all of them at the same moment. Of several with the same row,
    /// column and timestamp, the last one counts. This does what [`Table::mutate_rows`] does with their puts, and is faster.
    ///
    /// # Errors
    /// As [`Table::mutate`].
    pub fn put_cells(&self, cells: &CellBatch) -> Result<()> {
        let puts = self.needed(|rising, schema| rising.puts(schema.table, cells.puts(schema)))?;
        self.with_rows(cells.rows(), &puts, true, |shape, now_ms| {
            self.put_cells_to(shape, cells, &puts, now_ms)
        })
    }

    /// A handle of the table by which each put without a timestamp is a version of its own, also if several are in one call, or two
    /// calls in one millisecond. Their times rise by a millisecond for each put of the same column, and are never ahead of the clock:
    /// a call waits until they have come, for as many milliseconds as a column is put to in it, or as its family keeps versions. A
    /// call has at most [`PUTS_OF_A_COLUMN_MAX`](crate::PUTS_OF_A_COLUMN_MAX) such puts of one column; more are `Invalid`, unless the
    /// family keeps fewer versions.
    ///
    /// Of other handles, all puts of a call have the time of the write, and the last one of a column replaces the others, as in HBase.
    ///
    /// # Example
    /// ```
    /// use esker_table::{Family, Read, RowMutation, Schema, Tables};
    ///
    /// # fn main() -> esker_table::Result<()> {
    /// # let tables = Tables::open_in_memory(esker::Options::default())?;
    /// let doors = tables.create("doors", Schema::new().group("g", [Family::new("seen")]))?.distinct_times();
    /// doors.mutate(&RowMutation::new("north").put("seen", "", "open").put("seen", "", "shut"))?;
    /// doors.mutate(&RowMutation::new("north").put("seen", "", "open"))?;
    /// let all = doors.get("north", &Read::family("seen").versions(u32::MAX))?;
    /// assert_eq!(all.len(), 3);
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn distinct_times(&self) -> Table {
        Table { has_distinct_times: true, ..self.clone() }
    }

    /// What the puts of a call need, which `find` looks for.
    fn needed(&self, find: impl FnOnce(&Rising, &Schema) -> Result<Puts>) -> Result<Puts> {
        if !self.has_distinct_times {
            return Ok(Puts::default());
        }
        find(&self.tables.rising, &self.schema())
    }

    /// Changes a row, and returns the cells that the increments and appends of the mutation have written, in their order.
    ///
    /// # Errors
    /// As [`Table::mutate`]. `Invalid` also when a cell is no number that can be incremented.
    pub fn update(&self, mutation: &RowMutation) -> Result<Vec<Cell>> {
        Ok(self.commit(&[], std::slice::from_ref(mutation))?.unwrap_or_default())
    }

    /// Adds `by` to the number in the latest cell of a column ([`RowMutation::increment`]), and returns the sum.
    ///
    /// # Errors
    /// As [`Table::update`].
    pub fn increment(
        &self,
        row: impl AsRef<[u8]>,
        family: &str,
        qualifier: impl AsRef<[u8]>,
        by: i64,
    ) -> Result<i64> {
        let (row, qualifier) = (row.as_ref(), qualifier.as_ref());
        let cells = self.update(&RowMutation::new(row).increment(family, qualifier, by))?;
        let bytes = cells.first().and_then(|cell| <[u8; 8]>::try_from(cell.value.as_slice()).ok());
        Ok(i64::from_be_bytes(bytes.unwrap_or_default()))
    }

    /// Appends bytes to the value of the latest cell of a column ([`RowMutation::append`]), and returns the whole.
    ///
    /// # Errors
    /// As [`Table::update`].
    pub fn append(
        &self,
        row: impl AsRef<[u8]>,
        family: &str,
        qualifier: impl AsRef<[u8]>,
        bytes: impl AsRef<[u8]>,
    ) -> Result<Vec<u8>> {
        let (row, qualifier) = (row.as_ref(), qualifier.as_ref());
        let mut cells = self.update(&RowMutation::new(row).append(family, qualifier, bytes.as_ref()))?;
        Ok(cells.pop().map(|cell| cell.value).unwrap_or_default())
    }

    /// Changes a row if it meets all `checks` then. Nothing comes in between. Returns whether it did.
    ///
    /// # Errors
    /// As [`Table::update`].
    ///
    /// # Example
    /// ```
    /// use esker_table::{Check, Family, RowMutation, Schema, Tables};
    ///
    /// # fn main() -> esker_table::Result<()> {
    /// let tables = Tables::open_in_memory(esker::Options::default())?;
    /// let seats = tables.create("seats", Schema::new().group("a", [Family::new("taken")]))?;
    /// let take = |who: &str| {
    ///     seats.check_and_mutate(&[Check::absent("taken", "by")], &RowMutation::new("7b").put("taken", "by", who))
    /// };
    /// assert!(take("ada")?);
    /// assert!(!take("bob")?);
    /// # Ok(())
    /// # }
    /// ```
    pub fn check_and_mutate(&self, checks: &[Check], mutation: &RowMutation) -> Result<bool> {
        Ok(self.commit(checks, std::slice::from_ref(mutation))?.is_some())
    }

    /// Begins a value for cells of a family that is written piece by piece, of any length.
    ///
    /// # Errors
    /// `NoFamily`, `Disabled`; `Store` when the store cannot be written.
    ///
    /// # Example
    /// ```
    /// use esker_table::{Family, Read, RowMutation, Schema, Tables};
    ///
    /// # fn main() -> esker_table::Result<()> {
    /// let tables = Tables::open_in_memory(esker::Options::default())?;
    /// let films = tables.create("films", Schema::new().group("a", [Family::new("film")]))?;
    /// let mut film = films.writer("film")?;
    /// (0..100).try_for_each(|_| film.add(&[7; 10_000]))?;
    /// films.mutate(&RowMutation::new("alps").put_stored("film", "", film.finish()?))?;
    ///
    /// let film = films.value("alps", "film", "")?.expect("it was written");
    /// assert_eq!(film.read_at(500_000..500_004)?, [7; 4]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn writer(&self, family: &str) -> Result<CellWriter> {
        loop {
            let shape = self.state.shape();
            shape.check_enabled()?;
            let no_family = || Error::NoFamily { table: shape.name.clone(), family: family.to_owned() };
            let (group, _) = shape.schema.family(family).ok_or_else(no_family)?;
            // Every part takes it.
            match self.tables.journal.writer(shape.groups[group].first()).map_err(Error::from) {
                // The family was dropped in between.
                Err(error) if self.state.has_lost_tree(&shape, &error) => {}
                writer => return writer.map(CellWriter),
            }
        }
    }

    /// The latest value of a column, to be read in part or piece by piece. It stays as it is while it is held.
    ///
    /// # Errors
    /// As [`Table::get`].
    pub fn value(
        &self,
        row: impl AsRef<[u8]>,
        family: &str,
        qualifier: impl AsRef<[u8]>,
    ) -> Result<Option<Value>> {
        check_row(row.as_ref())?;
        let read = Read::column(family, qualifier.as_ref());
        let mut scan = Live::new(&self.tables.db, &self.state, &read, [Span::row(row)], false)?;
        scan.advance()?;
        scan.to_value()
    }

    /// Does `mutations` if their rows meet `checks`, which are then of the first one's row. Returns the cells that increments
    /// and appends have written, or `None` if a check did not hold.
    fn commit(&self, checks: &[Check], mutations: &[RowMutation]) -> Result<Option<Vec<Cell>>> {
        let puts = self.needed(|rising, schema| {
            rising.puts(schema.table, mutations.iter().flat_map(|mutation| mutation.puts(schema)))
        })?;
        let are_puts = checks.is_empty() && mutations.iter().all(RowMutation::is_puts);
        self.with_rows(mutations.iter().map(RowMutation::row), &puts, are_puts, |shape, now_ms| {
            self.commit_to(shape, checks, mutations, &puts, now_ms)
        })
    }

    /// Runs `write` while the rows are locked, on the shape that the table has, with the time of the write. `are_all`: it does nothing but
    /// `puts`, and puts that have timestamps.
    fn with_rows<'r, T>(
        &self,
        rows: impl Iterator<Item = &'r [u8]>,
        puts: &Puts,
        are_all: bool,
        write: impl Fn(&Shape, i64) -> Result<T>,
    ) -> Result<T> {
        let (_rows, now_ms) = self.lock_in_time(rows, puts, are_all);
        loop {
            let shape = self.state.shape();
            match write(&shape, now_ms) {
                // A tree was split in between: nothing was written.
                Err(error) if self.state.has_lost_tree(&shape, &error) => {}
                done => return done,
            }
        }
    }

    /// Locks rows, and returns also the time of the write. If puts need times of their own, it waits for them first, while others may
    /// write to the rows.
    fn lock_in_time<'r>(
        &self,
        rows: impl Iterator<Item = &'r [u8]>,
        puts: &Puts,
        are_all: bool,
    ) -> (Vec<MutexGuard<'_, ()>>, i64) {
        let shape = self.state.shape();
        // A table without families has no clock, and no put to it succeeds.
        let waits = !puts.is_empty() && shape.all_trees().next().is_some();
        if !waits {
            let locked = self.tables.lock_rows(rows);
            return (locked, shape.now_ms());
        }
        let rising = &self.tables.rising;
        let reserved_ms = rising.reserve(puts, || shape.now_ms());
        let locked = self.tables.lock_rows(rows);
        (locked, if are_all { reserved_ms } else { rising.note(puts, || shape.now_ms()) })
    }

    /// As [`Table::put_cells`], to a table of this shape. The rows are locked.
    fn put_cells_to(&self, shape: &Shape, cells: &CellBatch, puts: &Puts, now_ms: i64) -> Result<()> {
        if shape.index.is_some() {
            return self.commit_to(shape, &[], &cells.mutations(), puts, now_ms).map(drop);
        }
        shape.check_enabled()?;
        let Inner { journal, catalog, sequences, .. } = &*self.tables;
        let ground = journal.ground();
        let taken = sequences.take(cells.len() as u64);
        let (stamp, times) = (Stamp { now_ms, sequence: taken.first }, &mut puts.times(now_ms));
        let mut batch = Batch::new();
        taken.enter(catalog, &mut batch)?;
        put_cells(&shape.name, &shape.schema, cells, stamp, times, |group, key, value| {
            Ok(batch.put(shape.groups[group].tree_of(key), key, value)?)
        })?;
        self.write(shape, ground, &mut batch, cells.rows())?;
        taken.done();
        Ok(())
    }

    /// As [`Table::commit`], to a table of this shape. The rows are locked.
    fn commit_to(
        &self,
        shape: &Shape,
        checks: &[Check],
        mutations: &[RowMutation],
        puts: &Puts,
        now_ms: i64,
    ) -> Result<Option<Vec<Cell>>> {
        let Inner { db, journal, catalog, sequences, .. } = &*self.tables;
        // Before the rows are read.
        let ground = journal.ground();
        shape.check_enabled()?;
        check_rows_once(mutations)?;
        if let Some(mutation) = mutations.first().filter(|_| !checks.is_empty()) {
            // A row that cannot be is a mistake, not one that lacks the cell.
            check_row(mutation.row())?;
            let view = Row { db, state: &self.state, row: mutation.row() };
            for check in checks {
                if !check.holds(&view)? {
                    return Ok(None);
                }
            }
        }
        let schema = &shape.schema;
        check_row_deletes(schema, mutations)?;
        let steps = mutations.iter().map(RowMutation::steps).sum();
        let deletes = mutations.iter().flat_map(|mutation| mutation.deletes_versions_of(schema));
        let news = deletes.filter(|family| !family.rules().has_deleted_versions).map(|family| family.id);
        let news: BTreeSet<FamilyId> = news.collect();
        // Before the numbers, whose lock comes last.
        let changing = (!news.is_empty()).then(|| lock(&self.tables.changing));
        let taken = sequences.take(steps);
        let (mut stamp, mut times) = (Stamp { now_ms, sequence: taken.first }, puts.times(now_ms));
        let (mut batch, mut cells) = (Batch::new(), Vec::new());
        taken.enter(catalog, &mut batch)?;
        if mutations.iter().all(RowMutation::only_deletes) {
            batch.mark_as_deleting();
        }
        let is_alone =
            shape.index.is_some() && (find_twice(mutations).is_none() || canary::broken("index-twice"));
        for mutation in mutations {
            let view = Row { db, state: &self.state, row: mutation.row() };
            let outcome = mutate(&shape.name, schema, mutation, stamp, &mut times, &view)?;
            if let Some(tree) = shape.index.as_ref().map(Parts::first) {
                let before = is_alone.then_some(&view);
                let mut keys = Vec::new();
                index::enter(schema, mutation.row(), &outcome.writes, &outcome.cells, before, &mut keys)?;
                keys.into_iter().try_for_each(|key| batch.put(tree, key, ""))?;
            }
            for write in outcome.writes {
                let tree = shape.groups[write.group].tree_of(&write.key);
                match write.value {
                    WriteValue::Nothing => batch.put(tree, write.key, "")?,
                    WriteValue::Put(PutValue::Bytes(bytes)) => batch.put(tree, write.key, bytes)?,
                    WriteValue::Put(PutValue::Stored(stored)) => batch.put_stored(tree, write.key, stored)?,
                    WriteValue::Of(place) => batch.put(tree, write.key, &outcome.cells[place].value)?,
                }
            }
            cells.extend(outcome.cells);
            stamp.sequence += mutation.steps();
        }
        let noted = changing.as_ref().map(|_| self.note_deleted_versions(&news)).transpose()?;
        noted.iter().try_for_each(|noted| noted.enter(catalog, &mut batch))?;
        let end = self.write(shape, ground, &mut batch, mutations.iter().map(RowMutation::row));
        if end.is_ok() {
            taken.done();
        }
        match noted {
            Some(noted) => self.tables.remove(self.tables.settle(noted, end)?)?,
            None => end?,
        }
        Ok(Some(cells))
    }

    /// Writes a batch that was evaluated on `ground`, and changes these rows.
    fn write<'r>(
        &self,
        shape: &Shape,
        ground: Ground,
        batch: &mut Batch,
        rows: impl Iterator<Item = &'r [u8]>,
    ) -> std::result::Result<(), Undone> {
        let Inner { journal, query_cache, .. } = &*self.tables;
        let _writing = query_cache.is_on().then(|| query_cache.begin(shape.schema.table, rows));
        if self.tables.is_power_safe.load(Ordering::Relaxed) {
            journal.propose_durably(ground, batch).wait()?;
        } else {
            journal.propose(ground, batch).wait()?;
        }
        Ok(())
    }

    /// Prepares an entry that is the first one to delete single versions in these families, and notes that in the schema. `changing`
    /// is held.
    ///
    /// The rule keeps everything of the table from before the entry until it knows the note ([`Held`]). So no merge in between calls
    /// a put surplus that counts since the delete: one that has begun before does not see the delete, nor what is newer; and what
    /// was surplus then stays away. The note is as durable as the delete, which alone needs it.
    fn note_deleted_versions(&self, families: &BTreeSet<FamilyId>) -> Result<Coming<'_>> {
        let shape = self.state.shape();
        self.check_there(&shape)?;
        let schema = shape.schema.with_deleted_versions(families);
        self.tables.prepare(vec![Change::Table { name: shape.name.clone(), schema }])
    }

    /// The cells of `row` that `read` asks for, families and qualifiers in their order, of each column the latest first.
    ///
    /// # Errors
    /// `Invalid` or `NoFamily` when the table cannot have such a row or family; `Store` when the store cannot read it.
    pub fn get(&self, row: impl AsRef<[u8]>, read: &Read) -> Result<Vec<Cell>> {
        check_row(row.as_ref())?;
        let mut scan = self.read([Span::row(row)], read, false)?;
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
        self.read(spans, read, false)
    }

    /// As [`Table::scan_spans`], from the last row to the first one.
    ///
    /// # Errors
    /// As [`Table::get`].
    pub fn scan_spans_reversed(&self, spans: impl IntoIterator<Item = Span>, read: &Read) -> Result<Scan> {
        self.read(spans, read, true)
    }

    /// Which index a read of the table would use, for people. `None`: it looks for its rows itself.
    pub fn index_of(&self, read: &Read) -> Option<String> {
        let lookups = index::lookups(&self.schema(), read)?;
        let described: Vec<String> = lookups.into_iter().map(|lookup| lookup.described).collect();
        Some(described.join(", "))
    }

    /// Enters all cells of indexed families into the indexes, a few rows or columns at a time. The rows are locked from before their
    /// cells are read until their entries are written: no mutation of a row comes between, whose deletes of entries these entries
    /// would follow. Mutations enter their own cells.
    fn enter_all(&self, schema: &Schema) -> Result<()> {
        let families = schema.families().map(|(_, family)| family).filter(|family| family.has_index());
        let names: Vec<&str> = families.map(Family::name).collect();
        let [first, rest @ ..] = &names[..] else { return Ok(()) };
        let read = rest.iter().fold(Read::family(first), |read, family| read.family_too(family));
        let look = read.clone().keys_only().limit_cells_per_row(1, 0).limit_rows(ROWS_AT_ONCE as u64, 0);
        let read = read.versions(u32::MAX);
        let mut left = Some(Span::all());
        while let Some(span) = left {
            let mut rows = Vec::new();
            let mut scan = Live::new(&self.tables.db, &self.state, &look, [span.clone()], false)?;
            while scan.advance()? {
                rows.push(scan.row().to_vec());
            }
            drop(scan);
            left = self.enter_rows(schema, &read, &span, &rows)?;
        }
        Ok(())
    }

    /// Enters the cells of `rows`, as far as they are in `span`, until these are many. Returns what of `span` is left then.
    fn enter_rows(
        &self,
        schema: &Schema,
        read: &Read,
        span: &Span,
        rows: &[Vec<u8>],
    ) -> Result<Option<Span>> {
        let Some(last) = rows.last() else { return Ok(None) };
        let Inner { db, journal, .. } = &*self.tables;
        let _rows = self.tables.lock_rows(rows.iter().map(Vec::as_slice));
        // It stays as it is while rows are locked.
        if self.schema().version() != schema.version() {
            return Err(changed(schema, &self.schema()));
        }
        let shape = self.state.shape();
        let Some(tree) = shape.index.as_ref().map(Parts::first) else { return Ok(None) };
        let through = span.and(&Span::rows::<&Vec<u8>>((Bound::Unbounded, Bound::Included(last))));
        let mut scan = Live::new(db, &self.state, read, [through], false)?;
        let (mut batch, mut entered, mut written) = (Batch::new(), 0, 0);
        // The last column whose cells were entered.
        let mut column = (Vec::new(), String::new(), Vec::new());
        while scan.advance()? {
            let Some((_, family)) = schema.family(scan.family()) else { continue };
            let (row, qualifier) = (scan.row(), scan.qualifier());
            if (row, scan.family(), qualifier) != (&column.0[..], &column.1[..], &column.2[..]) {
                if entered >= ENTRIES_AT_ONCE {
                    journal.propose(journal.ground(), &mut batch).wait()?;
                    let (row, family, qualifier) = column;
                    return Ok(Some(span.and(&Span::cells_behind(row, &family, qualifier))));
                }
                // A row that is not locked has come meanwhile.
                if rows.binary_search_by(|other| other.as_slice().cmp(row)).is_err() {
                    continue;
                }
                column = (row.to_vec(), scan.family().to_owned(), qualifier.to_vec());
            }
            let keys = match scan.version() {
                Some(version) => {
                    let beginning = |len| scan.beginning(len);
                    index::entries_of(family, (scan.row(), scan.qualifier()), version, beginning)?
                }
                None => Vec::new(),
            };
            entered += keys.len();
            keys.into_iter().try_for_each(|key| batch.put(tree, key, ""))?;
            // A column may have any number of versions.
            if entered - written >= ENTRIES_AT_ONCE {
                journal.propose(journal.ground(), &mut std::mem::take(&mut batch)).wait()?;
                written = entered;
            }
        }
        if !batch.is_empty() {
            journal.propose(journal.ground(), &mut batch).wait()?;
        }
        Ok(Some(span.and(&Span::rows::<&Vec<u8>>((Bound::Excluded(last), Bound::Unbounded)))))
    }

    /// Removes the entries that no cell is a reason for.
    fn remove_unused_entries(&self, schema: &Schema) -> Result<()> {
        let shape = self.state.shape();
        let Some(index) = &shape.index else { return Ok(()) };
        let mut cursor = Counted::new(index.cursor(&self.tables.db.snapshot(), &[])?);
        let mut entries = index::Entries::all(&mut cursor)?;
        let mut found = Vec::new();
        loop {
            let next = entries.next()?;
            let is_over = next.is_none();
            found.extend(next);
            if is_over || found.len() >= ROWS_AT_ONCE {
                self.remove_unused(schema, index.first(), &std::mem::take(&mut found))?;
            }
            if is_over {
                return Ok(());
            }
        }
    }

    /// Removes those of the entries `found` that no cell is a reason for.
    fn remove_unused(&self, schema: &Schema, index: &Tree, found: &[index::Found]) -> Result<()> {
        let Inner { journal, catalog, sequences, .. } = &*self.tables;
        let names: BTreeMap<FamilyId, &str> =
            schema.families().map(|(_, family)| (family.id, family.name())).collect();
        let rows: Vec<Vec<u8>> = found.iter().map(index::Found::row).collect();
        // No write of the rows is under way, and no change of the schema: an entry is removed only if no cell with its text
        // counts.
        let _rows = self.tables.lock_rows(rows.iter().map(Vec::as_slice));
        if self.schema().version() != schema.version() {
            return Err(changed(schema, &self.schema()));
        }
        let mut unused = Vec::new();
        for (found, row) in found.iter().zip(&rows) {
            let Some(family) = names.get(&found.family) else { continue };
            // Most entries have a cell of their own time.
            let own = found.timestamp..found.timestamp.saturating_add(1);
            if !self.has_text(row, family, found, own)? && !self.has_text(row, family, found, 0..i64::MAX)? {
                unused.push(found);
            }
        }
        if unused.is_empty() {
            return Ok(());
        }
        let (taken, mut batch) = (sequences.take(unused.len() as u64), Batch::new());
        taken.enter(catalog, &mut batch)?;
        for (found, sequence) in unused.into_iter().zip(taken.first..) {
            batch.put(index, found.removed(sequence), "")?;
        }
        journal.propose(journal.ground(), &mut batch).wait()?;
        taken.done();
        Ok(())
    }

    /// Whether a cell of this time is a reason for the entry.
    fn has_text(
        &self,
        row: &[u8],
        family: &str,
        found: &index::Found,
        time: core::ops::Range<i64>,
    ) -> Result<bool> {
        let read = Read::column(family, found.qualifier.clone()).versions(u32::MAX).time(time);
        let mut scan = Live::new(&self.tables.db, &self.state, &read, [Span::row(row)], false)?;
        while scan.advance()? {
            if found.is_of(&scan.beginning(index::TEXT_LEN_MAX as u64)?) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn read(&self, spans: impl IntoIterator<Item = Span>, read: &Read, is_reversed: bool) -> Result<Scan> {
        let Inner { db, query_cache, .. } = &*self.tables;
        Scan::new(query_cache, db, &self.state, read, spans, is_reversed)
    }
}

fn changed(expected: &Schema, found: &Schema) -> Error {
    Error::SchemaChanged { expected: expected.version(), found: found.version() }
}

/// A mutation of a row of which there is another one before.
fn find_twice(mutations: &[RowMutation]) -> Option<&RowMutation> {
    let mut rows = BTreeSet::new();
    mutations.iter().find(|mutation| !rows.insert(mutation.row()))
}

/// Fails if a row is there twice while some mutation depends on what its row holds.
fn check_rows_once(mutations: &[RowMutation]) -> Result<()> {
    if mutations.len() < 2 || !mutations.iter().any(RowMutation::reads) {
        return Ok(());
    }
    match find_twice(mutations) {
        None => Ok(()),
        Some(mutation) => Err(Error::invalid(format!(
            "the row \"{}\" is there twice, among mutations with increments or appends",
            mutation.row().escape_ascii()
        ))),
    }
}

#[cfg(test)]
mod tests;
