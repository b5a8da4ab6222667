//! A journal that tests look into.

use esker::WriteToken;
use esker_journal::{Ground, Local, Moment, Outcome, Proposed};

use super::*;

type Hook = dyn Fn(&Batch, &mut dyn FnMut() -> Outcome) -> Outcome + Send + Sync;

/// The journal of a store, which counts what changes the store.
pub(super) struct Watched {
    local: Local,
    /// Entries, and changes of trees.
    pub(super) changes: AtomicU64,
    /// Called with each entry, and with what proposes it.
    hook: Mutex<Option<Arc<Hook>>>,
}

impl Watched {
    pub(super) fn hook(
        &self,
        hook: impl Fn(&Batch, &mut dyn FnMut() -> Outcome) -> Outcome + Send + Sync + 'static,
    ) {
        *self.hook.lock().unwrap() = Some(Arc::new(hook));
    }

    pub(super) fn unhook(&self) {
        *self.hook.lock().unwrap() = None;
    }

    pub(super) fn changes(&self) -> u64 {
        self.changes.load(Ordering::Relaxed)
    }

    fn note(&self) -> &Local {
        self.changes.fetch_add(1, Ordering::Relaxed);
        &self.local
    }

    fn entry(&self, batch: &mut Batch, mut propose: impl FnMut(&mut Batch) -> Proposed) -> Proposed {
        self.note();
        let Some(hook) = self.hook.lock().unwrap().clone() else { return propose(batch) };
        let seen = batch.clone();
        Proposed::Decided(hook(&seen, &mut || propose(batch).wait()))
    }
}

impl Journal for Watched {
    fn db(&self) -> &Db {
        self.local.db()
    }

    fn moment(&self) -> Moment {
        self.local.moment()
    }

    fn is_immediate(&self) -> bool {
        true
    }

    fn ground(&self) -> Ground {
        self.local.ground()
    }

    fn propose(&self, ground: Ground, batch: &mut Batch) -> Proposed {
        self.entry(batch, |batch| self.local.propose(ground, batch))
    }

    fn try_propose(&self, ground: Ground, batch: &mut Batch) -> Proposed {
        self.entry(batch, |batch| self.local.try_propose(ground, batch))
    }

    fn propose_durably(&self, ground: Ground, batch: &mut Batch) -> Proposed {
        self.entry(batch, |batch| self.local.propose_durably(ground, batch))
    }

    fn confirm(&self) -> Proposed {
        self.local.confirm()
    }

    fn barrier(&self) -> esker::Result<WriteToken> {
        self.local.barrier()
    }

    fn make_tree(&self, name: &str, tag: Option<&str>) -> esker::Result<Tree> {
        self.note().make_tree(name, tag)
    }

    fn new_tree(&self, name: &str, options: TreeOptions) -> esker::Result<Tree> {
        self.note().new_tree(name, options)
    }

    fn remove_tree(&self, name: &str) -> esker::Result<()> {
        self.note().remove_tree(name)
    }

    fn split_tree(&self, tree: &Tree, from: &[u8], name: &str) -> esker::Result<Tree> {
        self.note().split_tree(tree, from, name)
    }

    fn tag_tree(&self, tree: &Tree, tag: &str) -> esker::Result<()> {
        self.note().tag_tree(tree, tag)
    }

    fn writer(&self, tree: &Tree) -> esker::Result<ValueWriter> {
        self.local.writer(tree)
    }
}

/// The tables of a store, and their journal. `open` opens the store.
pub(super) fn watched(open: impl FnOnce(Options) -> esker::Result<Db>) -> (Tables, Arc<Watched>) {
    let rule = TableRule::default();
    let db = open(Options::default().compaction_rule(rule.clone())).unwrap();
    let watched =
        Arc::new(Watched { local: Local::new(&db), changes: AtomicU64::new(0), hook: Mutex::new(None) });
    (Tables::over(Arc::<Watched>::clone(&watched), rule, Access::Write).unwrap(), watched)
}
