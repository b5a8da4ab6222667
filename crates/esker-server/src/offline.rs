//! The databases of a store that is not served: data commands, one client at a time, without a connection.

use std::sync::Arc;

use esker::{Db, Error, ErrorKind, Tree};
use esker_journal::{Journal, Local, Moment};
use esker_redis::{
    Context, Cursors, EMPTY_KEY, Reply, Session, Slot, Space, Stamp, Wants, Writes, evaluate, mixed, spec,
};

use crate::prefixes;
use crate::trees::{ELEMENTS_END, Trees, View, unreadable};

/// See the module's comment.
pub struct Offline {
    db: Db,
    journal: Arc<dyn Journal>,
    trees: Trees,
    database: u16,
    cursors: Cursors,
    /// What random choices are made of.
    seed: u64,
}

impl std::fmt::Debug for Offline {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Offline({})", self.database)
    }
}

impl Offline {
    /// The database whose keys are in the tree with this name; `None` if a database cannot have this tree. `seed`: a
    /// random number.
    ///
    /// # Errors
    /// If the trees cannot be opened, or the tree of the elements is not one.
    pub fn open(db: &Db, tree: &str, seed: u64) -> esker::Result<Option<Offline>> {
        let Some(database) = database_of(tree) else { return Ok(None) };
        let journal: Arc<dyn Journal> = Arc::new(Local::new(db));
        let trees = Trees::of_one(&journal, database)?;
        Ok(Some(Offline { db: db.clone(), journal, trees, database, cursors: Cursors::default(), seed }))
    }

    /// Whether a server makes a tree with this name, in addition to the trees with the keys of its databases. If another program
    /// has made the tree, the store cannot be served.
    pub fn reserves(name: &str) -> bool {
        name == prefixes::TREE
            || name.strip_suffix(ELEMENTS_END).is_some_and(|database| database_of(database).is_some())
    }

    /// Whether the database may have collections: a server has written to it.
    pub fn has_collections(&self) -> bool {
        self.trees.keys(self.database).is_some()
    }

    /// The tree and the key of the entry that the empty key has: a tree has no empty key. `None` if no server has written
    /// to the database.
    pub fn empty_key(&self) -> Option<(&Tree, &'static [u8])> {
        let slot = Slot { database: self.database, space: Space::Elements };
        Some((self.trees.find(slot)?, EMPTY_KEY))
    }

    /// Prepares a write of the entry of the empty key, whose place [`Offline::empty_key`] has from now on. Makes the trees of the
    /// database if they are missing.
    ///
    /// # Errors
    /// If the store fails.
    pub fn take_empty_key(&self) -> esker::Result<()> {
        self.trees.take_empty_key(self.database)
    }

    /// Evaluates commands in order, each of which sees the writes of those before it. All writes take effect together.
    /// Returns the replies, in version 2 of the protocol.
    ///
    /// # Errors
    /// If the store fails, or a name is not that of a data command. Nothing is written then. What a command refuses is a
    /// reply, and the writes of the others take effect.
    pub fn call(&mut self, commands: &[Vec<Vec<u8>>]) -> esker::Result<Vec<Vec<u8>>> {
        let (ground, snapshot) = (self.journal.ground(), self.db.snapshot());
        let view = View::of_pool(&self.trees, &snapshot, &[]);
        let mut writes = Writes::default();
        let mut replies = Vec::new();
        for command in commands {
            let arguments: Vec<&[u8]> = command.iter().map(Vec::as_slice).collect();
            let spec = arguments.first().and_then(|name| spec(name));
            let spec = spec.ok_or_else(|| Error::new(ErrorKind::InvalidInput, "unknown command"))?;
            self.seed = self.seed.wrapping_add(1);
            let Moment { now_us, ahead_us } = self.journal.moment();
            let ahead_ms = i64::try_from(ahead_us / 1000).unwrap_or(i64::MAX);
            let stamp = Stamp { now_us, ahead_ms, seed: mixed(self.seed) };
            let session = Session::new(&view, &mut writes, stamp.now_us);
            let mut ctx = Context::new(session, &self.cursors, stamp, self.database, self.trees.count());
            ctx.set_wants(Wants { events: false, new_keys: false, touched: false });
            let mut reply = Reply::new(false);
            evaluate(&mut ctx, spec, &arguments, &mut reply).map_err(unreadable)?;
            replies.push(reply.into_whole().map_err(unreadable)?);
        }
        if !writes.is_empty() {
            let mut batch = self.trees.batch(&mut writes, Some(&snapshot))?;
            self.journal.propose(ground, &mut batch).wait()?;
        }
        Ok(replies)
    }
}

/// The number of the database whose keys are in the tree with this name.
fn database_of(tree: &str) -> Option<u16> {
    if tree == "default" {
        return Some(0);
    }
    let number =
        tree.strip_prefix("db")?.parse().ok().filter(|number| (1..DATABASES_MAX).contains(number))?;
    (tree == format!("db{number}")).then_some(number)
}

/// How many databases a server may have.
const DATABASES_MAX: u16 = 1024;
