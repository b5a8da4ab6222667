//! Compaction rules: what they drop, what stays in spite of them, and when tables are looked at again. (The model test
//! drives rules at random.)

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use esker::env::{Env, StepExecutor};
use esker::fs::sim::SimFs;
use esker::rules::{RuleContext, RuleDecision, RuleEntry, RuleRun, RuleValue};
use esker::{
    CompactionRule, Db, ErrorKind, ExpiryClock, Options, ScanRange, Snapshot, Tree, TreeOptions, TxnOptions,
};

use crate::common::cells::{Cells, FIRST_US, cell, marker};
use crate::common::{HOUR_US, HourClock, contents, settle, world};

const STORE: &str = "/store";

/// A store on `disk` by `clock`, of which nothing moves but by [`settle`].
fn options(disk: &SimFs, clock: &Arc<HourClock>) -> Options {
    let env = world(Arc::new(disk.clone()), 1, Some(Arc::new(StepExecutor)));
    let env = Env { clock: Arc::<HourClock>::clone(clock), ..env };
    Options::default().memory_budget(8 << 20).separate_at(1000).env(env)
}

fn open(disk: &SimFs, clock: &Arc<HourClock>, rule: impl CompactionRule) -> (Db, Tree) {
    let name = rule.name().to_owned();
    let db = Db::open(STORE, options(disk, clock).compaction_rule(rule)).unwrap();
    let tree = db.open_tree("t").unwrap();
    let tree = tree.unwrap_or_else(|| db.create_tree("t", TreeOptions::default().rule(name)).unwrap());
    (db, tree)
}

/// Entries of the tree in tables, and huge values.
fn kept(db: &Db) -> (u64, u64) {
    let stats = db.stats().unwrap();
    (stats.trees.iter().map(|tree| tree.table_entries).sum(), stats.blob_values)
}

fn keys(tree: &Tree) -> Vec<String> {
    contents(tree).into_keys().map(|key| String::from_utf8(key).unwrap()).collect()
}

/// What a [`Judge`] makes of entries.
type Judged = dyn Fn(&mut Vec<u8>, &RuleEntry<'_>) -> RuleDecision + Send + Sync;

/// A rule made of a function. Each run has some bytes of its own.
struct Judge {
    begun: Box<dyn Fn() + Send + Sync>,
    /// Done at the first entry of a run: its read points are taken.
    under_way: Box<dyn Fn() + Send + Sync>,
    judged: Box<Judged>,
}

impl Judge {
    fn new(judged: impl Fn(&mut Vec<u8>, &RuleEntry<'_>) -> RuleDecision + Send + Sync + 'static) -> Judge {
        Judge { begun: Box::new(|| ()), under_way: Box::new(|| ()), judged: Box::new(judged) }
    }

    /// Drops keys that begin with `x`.
    fn x() -> Judge {
        Judge::new(|_, entry| drop_if(entry.key[0] == b'x'))
    }
}

fn drop_if(is_garbage: bool) -> RuleDecision {
    if is_garbage { RuleDecision::Drop } else { RuleDecision::Keep }
}

impl CompactionRule for Judge {
    fn name(&self) -> &str {
        "judge"
    }

    fn begin(&self, _: &str) -> Box<dyn RuleRun + '_> {
        (self.begun)();
        Box::new(JudgeRun { rule: self, own: Vec::new(), is_under_way: false })
    }
}

struct JudgeRun<'a> {
    rule: &'a Judge,
    own: Vec<u8>,
    is_under_way: bool,
}

impl RuleRun for JudgeRun<'_> {
    fn entry(&mut self, _: &RuleContext<'_>, entry: &RuleEntry<'_>) -> RuleDecision {
        if !std::mem::replace(&mut self.is_under_way, true) {
            (self.rule.under_way)();
        }
        (self.rule.judged)(&mut self.own, entry)
    }
}

/// What was made while flushes and merges ran, each time at the first entry that the rule was shown.
struct Meanwhile<T> {
    store: Arc<OnceLock<(Db, Tree)>>,
    made: Arc<Mutex<Vec<T>>>,
}

impl<T: Send + 'static> Meanwhile<T> {
    /// [`Judge::x`], whose runs `make` something of the store, once they know it.
    fn new(make: impl Fn(&Db, &Tree) -> T + Send + Sync + 'static) -> (Judge, Meanwhile<T>) {
        let meanwhile = Meanwhile { store: Arc::default(), made: Arc::default() };
        let (store, made) = (Arc::clone(&meanwhile.store), Arc::clone(&meanwhile.made));
        let under_way = move || made.lock().unwrap().extend(store.get().map(|(db, tree)| make(db, tree)));
        (Judge { under_way: Box::new(under_way), ..Judge::x() }, meanwhile)
    }

    /// From now on the runs know the store. They keep it open.
    fn begin(&self, db: &Db, tree: &Tree) {
        assert!(self.store.set((db.clone(), tree.clone())).is_ok());
    }

    /// What the first run has made; the rest goes.
    fn take_first(&self) -> T {
        std::mem::take(&mut *self.made.lock().unwrap()).into_iter().next().expect("a run has made something")
    }
}

/// A store with huge values under `names`, which a flush or a merge has to judge by `judge`: it does so now.
fn judged_now(
    by_flush: bool,
    judge: Judge,
    names: &[&str],
    begin: impl FnOnce(&Db, &Tree),
) -> (SimFs, Db, Tree) {
    let disk = SimFs::new(1);
    let db = Db::open(STORE, options(&disk, &HourClock::new(0)).compaction_rule(judge)).unwrap();
    let tree = db.create_tree("t", TreeOptions::default()).unwrap();
    for name in names {
        tree.put(name, vec![*name.as_bytes().last().unwrap(); 2000]).unwrap();
    }
    if !by_flush {
        db.flush().unwrap();
    }
    tree.set_options(TreeOptions::default().rule("judge")).unwrap();
    begin(&db, &tree);
    if by_flush { db.flush() } else { db.compact() }.unwrap();
    (disk, db, tree)
}

#[test]
fn a_table_is_looked_at_again_though_nobody_writes() {
    let (disk, clock) = (SimFs::new(1), HourClock::new(0));
    let (db, tree) = open(&disk, &clock, Cells::default());
    for version in 0..1000 {
        let len = if version % 2 == 0 { 10 } else { 2000 };
        tree.put(cell(1, 1, version, 0, 5), vec![7; len]).unwrap();
    }
    tree.put(cell(1, 2, 1, 0, 0), "lasting").unwrap();
    db.flush().unwrap();
    clock.pass(4);
    settle(&db);
    assert_eq!(kept(&db), (1001, 500));
    // The manifest keeps the time. While the rule is missing, nothing happens to the table.
    db.close().unwrap();
    clock.pass(2);
    let db = Db::open(STORE, options(&disk, &clock)).unwrap();
    settle(&db);
    assert_eq!(kept(&db), (1001, 500));
    assert!(db.stats().unwrap().trees.iter().any(|tree| tree.rule_is_missing));
    db.close().unwrap();
    let (db, tree) = open(&disk, &clock, Cells::default());
    settle(&db);
    assert_eq!(kept(&db), (1, 0));
    assert_eq!(contents(&tree).len(), 1);
    let stats = db.stats().unwrap();
    assert_eq!((stats.rule_drops, stats.rule_panics), (1000, 0));
    assert!(stats.trees.iter().all(|tree| !tree.rule_is_missing));
    assert!(stats.prometheus().contains("\nesker_rule_drops_total 1000\n"));
}

#[test]
fn a_drop_hides_what_was_there_before() {
    let disk = SimFs::new(1);
    let (db, tree) = open(
        &disk,
        &HourClock::new(0),
        Judge::new(|_, entry| drop_if(matches!(entry.value, RuleValue::Inline(b"new")))),
    );
    for key in ["a", "b", "c"] {
        tree.put(key, "old").unwrap();
    }
    db.compact().unwrap();
    tree.put("b", "new").unwrap();
    // Above what it hides.
    db.flush().unwrap();
    assert_eq!(keys(&tree), ["a", "c"]);
    // What is written later is not hidden.
    tree.put("b", "newer").unwrap();
    assert_eq!(keys(&tree), ["a", "b", "c"]);
    db.compact().unwrap();
    assert_eq!(keys(&tree), ["a", "b", "c"]);
    assert_eq!(kept(&db), (3, 0));
}

#[test]
fn the_newest_cells_of_each_column_stay() {
    // Keys: column, and the version descending. Cells never change.
    let newest_two = |seen: &mut Vec<u8>, entry: &RuleEntry<'_>| {
        seen.retain(|column| *column == entry.key[0]);
        seen.push(entry.key[0]);
        drop_if(seen.len() > 2)
    };
    let (db, tree) = open(&SimFs::new(1), &HourClock::new(0), Judge::new(newest_two));
    for version in 0..9 {
        for column in ["a", "b"] {
            tree.put(format!("{column}{}", 9 - version), "").unwrap();
        }
        if version % 2 == 0 {
            db.flush().unwrap();
        }
        settle(&db);
        let keys = keys(&tree);
        let newest = |column: &str| -> Vec<String> {
            keys.iter().filter(|key| key.starts_with(column)).take(2).cloned().collect()
        };
        for column in ["a", "b"] {
            let expected = (9 - version..=9).take(2).map(|n| format!("{column}{n}")).collect::<Vec<_>>();
            assert_eq!(newest(column), expected);
        }
    }
    db.compact().unwrap();
    assert_eq!(keys(&tree), ["a1", "a2", "b1", "b2"]);
}

#[test]
fn a_marker_stays_while_anything_may_lie_below_it() {
    let version = |number: u64| number.to_be_bytes();
    let (db, tree) = open(&SimFs::new(1), &HourClock::new(0), Cells::default());
    let other = db.create_tree("other", TreeOptions::default()).unwrap();
    tree.put(cell(1, 1, 1, 0, 0), "in a table").unwrap();
    db.compact().unwrap();
    tree.put(marker(1), version(5)).unwrap();
    // The table below has a key of the row.
    db.flush().unwrap();
    assert!(tree.contains(marker(1)).unwrap());
    // So has a memtable, though of an older version of the row.
    tree.put(cell(1, 1, 2, 0, 0), "in a memtable").unwrap();
    let background = db.stats().unwrap().merges;
    while db.stats().unwrap().merges == background {
        // Runs of level 0, until they are merged.
        other.put("k", "").unwrap();
        tree.put(cell(9, 1, 1, 0, 0), "elsewhere").unwrap();
        tree.put(cell(0, 1, 1, 0, 0), "elsewhere").unwrap();
        tree.put(cell(1, 1, 2, 0, 0), "in a memtable").unwrap();
        db.flush().unwrap();
        tree.put(cell(1, 1, 2, 0, 0), "in a memtable").unwrap();
        settle(&db);
        assert!(tree.contains(marker(1)).unwrap());
    }
    // A snapshot sees a cell.
    let snapshot = db.snapshot();
    tree.put(marker(1), version(6)).unwrap();
    db.compact().unwrap();
    assert!(tree.contains(marker(1)).unwrap());
    drop(snapshot);
    db.compact().unwrap();
    assert_eq!(contents(&tree).into_keys().collect::<Vec<_>>(), [cell(0, 1, 1, 0, 0), cell(9, 1, 1, 0, 0)]);
}

#[test]
fn what_snapshots_see_is_shown_as_pinned_and_stays() {
    let pinned = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&pinned);
    let (disk, clock) = (SimFs::new(1), HourClock::new(0));
    let (db, tree) = open(
        &disk,
        &clock,
        Judge::new(move |_, entry| {
            seen.lock().unwrap().push((entry.key[0], entry.pinned));
            drop_if(entry.key[0] == b'x')
        }),
    );
    tree.put("x", vec![7; 2000]).unwrap();
    tree.put("y", "").unwrap();
    let snapshot = db.snapshot();
    tree.put("xx", "").unwrap();
    db.flush().unwrap();
    assert_eq!(*pinned.lock().unwrap(), [(b'x', true), (b'x', false), (b'y', true)]);
    assert_eq!(keys(&tree), ["x", "y"]);
    drop(snapshot);
    settle(&db);
    assert_eq!(keys(&tree), ["x", "y"]);
    // The table is looked at again some time after.
    clock.pass(1);
    settle(&db);
    assert_eq!(keys(&tree), ["y"]);
    assert_eq!(kept(&db), (1, 0));
}

#[test]
fn a_transaction_conflicts_with_a_write_whose_entry_was_dropped() {
    let (db, tree) = open(&SimFs::new(1), &HourClock::new(0), Judge::x());
    tree.put("before", "").unwrap();
    let txn = db.begin(TxnOptions::default()).unwrap();
    assert!(txn.get(&tree, "x").unwrap().is_none());
    tree.put("x", "").unwrap();
    db.flush().unwrap();
    db.compact().unwrap();
    assert_eq!(keys(&tree), ["before"]);
    txn.put(&tree, "result", "").unwrap();
    assert_eq!(txn.commit().unwrap_err().kind(), ErrorKind::Conflict);
}

#[test]
fn a_rule_that_panics_keeps_everything() {
    let panics = Judge::new(|_, entry| {
        assert!(entry.key != b"x3", "this rule panics");
        drop_if(entry.key[0] == b'x')
    });
    let (db, tree) = open(&SimFs::new(1), &HourClock::new(0), panics);
    for key in ["x1", "x3", "x5"] {
        tree.put(key, "").unwrap();
    }
    db.flush().unwrap();
    assert_eq!(keys(&tree), ["x1", "x3", "x5"]);
    db.compact().unwrap();
    assert_eq!(keys(&tree), ["x1", "x3", "x5"]);
    let stats = db.stats().unwrap();
    assert_eq!((stats.rule_panics, stats.rule_drops), (2, 0));
    let never = Judge { begun: Box::new(|| panic!("it does not begin")), ..Judge::x() };
    let (db, tree) = open(&SimFs::new(2), &HourClock::new(0), never);
    tree.put("x", "").unwrap();
    db.flush().unwrap();
    assert_eq!((keys(&tree), db.stats().unwrap().rule_panics), (vec!["x".to_owned()], 1));
}

/// A scan that begins while a merge runs sees what the merge drops, and reads huge values late.
#[test]
fn huge_values_are_given_back_when_nobody_reads_them() {
    for by_flush in [true, false] {
        let (judge, scans) = Meanwhile::new(|_, tree| tree.scan(ScanRange::all()).unwrap());
        let (disk, db, tree) =
            judged_now(by_flush, judge, &["x1", "x2", "y"], |db, tree| scans.begin(db, tree));
        settle(&db);
        assert_eq!(keys(&tree), ["y"]);
        let values: Vec<_> = scans.take_first().map(|pair| pair.unwrap().1).collect();
        assert_eq!(values, [b'1', b'2', b'y'].map(|byte| vec![byte; 2000]));
        settle(&db);
        assert_eq!(kept(&db), (1, 1));
        db.close().unwrap();
        // The rule holds handles of the store.
        let db = Db::open(STORE, options(&disk, &HourClock::new(0))).unwrap();
        assert_eq!((keys(&db.tree("t").unwrap()), kept(&db)), (vec!["y".to_owned()], (1, 1)));
    }
}

#[test]
fn a_crash_while_a_scan_reads_dropped_huge_values_gives_them_back() {
    let (judge, scans) = Meanwhile::new(|_, tree| tree.scan(ScanRange::all()).unwrap());
    let (disk, db, _tree) = judged_now(true, judge, &["x"], |db, tree| scans.begin(db, tree));
    settle(&db);
    assert_eq!(db.stats().unwrap().blob_values, 1);
    let disk = disk.crash(2);
    let (after, tree) = open(&disk, &HourClock::new(0), Judge::x());
    settle(&after);
    assert_eq!((keys(&tree).len(), kept(&after)), (0, (0, 0)));
}

#[test]
fn values_that_operands_make_are_judged() {
    let (db, tree) = open(
        &SimFs::new(1),
        &HourClock::new(0),
        Judge::new(|_, entry| drop_if(matches!(entry.value, RuleValue::Inline(b"ab")))),
    );
    tree.put("k", "a").unwrap();
    tree.put("l", "a").unwrap();
    tree.merge("k", esker::operators::APPEND, "b").unwrap();
    db.flush().unwrap();
    assert_eq!(keys(&tree), ["l"]);
    // Above a value in a table they are no value yet.
    tree.merge("l", esker::operators::APPEND, "b").unwrap();
    db.flush().unwrap();
    assert_eq!(tree.get_vec("l").unwrap().unwrap(), b"ab");
    db.compact().unwrap();
    assert!(keys(&tree).is_empty());
}

#[test]
fn splits_and_imports_keep_the_rule() {
    let (db, tree) = open(&SimFs::new(1), &HourClock::new(0), Judge::x());
    tree.put("a", "").unwrap();
    tree.put("y", "").unwrap();
    let high = db.split(&tree, "m", "high").unwrap();
    high.put("x", "").unwrap();
    db.compact().unwrap();
    assert_eq!((keys(&tree), keys(&high)), (vec!["a".to_owned()], vec!["y".to_owned()]));
    db.export_tree("high", "/export").unwrap();
    db.drop_tree("high").unwrap();
    let (back, _) = db.import_tree("/export", "back").unwrap();
    assert_eq!(back.options().rule.as_deref(), Some("judge"));
    let long = TreeOptions::default().rule("r".repeat(256));
    assert_eq!(db.create_tree("long", long).unwrap_err().kind(), ErrorKind::InvalidInput);
}

/// The copies have no conflict: what they copy was not written to.
#[test]
fn a_huge_value_that_is_copied_while_it_is_dropped_stays() {
    for by_flush in [true, false] {
        let (judge, txns) = Meanwhile::new(|db, tree| {
            assert!(tree.copy("x2", "copied meanwhile").unwrap());
            let txn = db.begin(TxnOptions::default()).unwrap();
            assert!(txn.copy(tree, "x1", "copied").unwrap());
            assert!(txn.rename(tree, "x3", "renamed").unwrap());
            txn
        });
        let (disk, db, tree) =
            judged_now(by_flush, judge, &["x1", "x2", "x3"], |db, tree| txns.begin(db, tree));
        txns.take_first().commit().unwrap();
        settle(&db);
        let expected = [("copied", b'1'), ("copied meanwhile", b'2'), ("renamed", b'3')]
            .map(|(key, byte)| (key.as_bytes().to_vec(), vec![byte; 2000]));
        let holds = |tree: &Tree| assert!(contents(tree).into_iter().eq(expected.clone()));
        holds(&tree);
        assert_eq!(kept(&db).1, 3);
        // The rule holds handles of the store, so this is a power cut.
        db.sync().unwrap();
        for disk in [disk.crash(2), disk.crash(3)] {
            let options = options(&disk, &HourClock::new(0));
            let db = Db::open(STORE, options.clone()).unwrap();
            holds(&db.tree("t").unwrap());
            settle(&db);
            db.compact().unwrap();
            settle(&db);
            holds(&db.tree("t").unwrap());
            assert_eq!(kept(&db), (3, 3));
            db.close().unwrap();
            assert_eq!(esker::check(STORE, &options).unwrap().findings, []);
        }
    }
}

/// What the rule goes by may have changed since the snapshot was taken.
#[test]
fn a_snapshot_that_is_taken_while_the_rule_begins_pins_what_it_sees() {
    for by_flush in [true, false] {
        let store: Arc<OnceLock<Db>> = Arc::default();
        let snapshots: Arc<Mutex<Vec<Snapshot>>> = Arc::default();
        let (known, taken) = (Arc::clone(&store), Arc::clone(&snapshots));
        let begun = move || taken.lock().unwrap().extend(known.get().map(Db::snapshot));
        let judge = Judge { begun: Box::new(begun), ..Judge::x() };
        let (_disk, db, tree) = judged_now(by_flush, judge, &["x", "y"], |db, _| {
            assert!(store.set(db.clone()).is_ok());
        });
        assert_eq!(keys(&tree), ["x", "y"]);
        assert!(snapshots.lock().unwrap()[0].get(&tree, "x").unwrap().is_some());
        assert_eq!(db.stats().unwrap().rule_drops, 0);
    }
}

#[test]
fn where_a_snapshot_is_always_open_time_drops_and_facts_wait() {
    let facts = Judge::new(|_, entry| match entry.key[0] {
        b'x' => RuleDecision::DropPinned,
        b'y' => RuleDecision::Drop,
        _ => RuleDecision::Keep,
    });
    let (disk, clock) = (SimFs::new(1), HourClock::new(0));
    let (db, tree) = open(&disk, &clock, facts);
    for key in ["x", "y", "z"] {
        tree.put(key, vec![7; 2000]).unwrap();
    }
    let mut snapshot = db.snapshot();
    db.flush().unwrap();
    assert_eq!(keys(&tree), ["y", "z"]);
    let merges = db.stats().unwrap().merges;
    for _ in 0..3 {
        clock.pass(1);
        tree.put("zz", "").unwrap();
        snapshot = db.snapshot();
        settle(&db);
    }
    // No table is written anew for nothing.
    assert_eq!((db.stats().unwrap().merges, kept(&db)), (merges, (2, 2)));
    tree.delete("zz").unwrap();
    drop(snapshot);
    clock.pass(1);
    settle(&db);
    assert_eq!((keys(&tree), kept(&db)), (vec!["z".to_owned()], (1, 1)));
}

/// By then a tree's own time may stand still.
#[test]
fn what_was_pinned_in_a_tree_with_its_own_time_goes_later_too() {
    let (disk, clock) = (SimFs::new(1), HourClock::new(0));
    let db = Db::open(STORE, options(&disk, &clock).compaction_rule(Judge::x())).unwrap();
    let own = TreeOptions::default().rule("judge").expiry_clock(ExpiryClock::Writes);
    let tree = db.create_tree("own", own).unwrap();
    tree.at_us(FIRST_US).put("x", "").unwrap();
    let snapshot = db.snapshot();
    db.flush().unwrap();
    assert_eq!(keys(&tree), ["x"]);
    drop(snapshot);
    // A look rewrites the table, and another snapshot may come.
    settle(&db);
    assert_eq!(keys(&tree), ["x"]);
    clock.pass(1);
    settle(&db);
    assert!(keys(&tree).is_empty());
}

/// [`Cells`], whose first run that has a cell to judge does something then.
struct Hooked<T: Send> {
    cells: Cells,
    store: Arc<OnceLock<(Db, Tree)>>,
    make: fn(&Db, &Tree) -> T,
    made: Arc<OnceLock<T>>,
}

struct HookedRun<'a, T: Send>(Box<dyn RuleRun + 'a>, &'a Hooked<T>);

impl<T: Send + Sync + 'static> CompactionRule for Hooked<T> {
    fn name(&self) -> &str {
        Cells::NAME
    }

    fn begin(&self, tree: &str) -> Box<dyn RuleRun + '_> {
        Box::new(HookedRun(self.cells.begin(tree), self))
    }
}

impl<T: Send> RuleRun for HookedRun<'_, T> {
    fn entry(&mut self, context: &RuleContext<'_>, entry: &RuleEntry<'_>) -> RuleDecision {
        let decision = self.0.entry(context, entry);
        if let (Some((db, tree)), [_, 1, ..]) = (self.1.store.get(), entry.key) {
            self.1.made.get_or_init(|| (self.1.make)(db, tree));
        }
        decision
    }
}

/// A reader that looks for the marker first finds no cell that it masks, in a snapshot that was taken while a merge
/// dropped both. A scan that began then finds both.
#[test]
fn a_snapshot_taken_during_a_merge_shows_nothing_masked_if_the_marker_is_read_first() {
    let (disk, clock) = (SimFs::new(1), HourClock::new(0));
    let (store, made) = (Arc::default(), Arc::default());
    let hooked = Hooked {
        cells: Cells::default(),
        store: Arc::clone(&store),
        make: |db: &Db, tree: &Tree| {
            let snapshot = db.snapshot();
            let scan = snapshot.scan(tree, ScanRange::all()).unwrap();
            (snapshot, Mutex::new(scan))
        },
        made: Arc::clone(&made),
    };
    let (db, tree) = open(&disk, &clock, hooked);
    let (masked, other) = (cell(1, 1, 1, 0, 0), cell(2, 1, 1, 0, 0));
    tree.put(&masked, "masked").unwrap();
    db.flush().unwrap();
    tree.put(marker(1), 5_u64.to_be_bytes()).unwrap();
    tree.put(&other, "there").unwrap();
    db.flush().unwrap();
    assert!(tree.contains(marker(1)).unwrap(), "a table below has what it masks");
    assert!(store.set((db.clone(), tree.clone())).is_ok());
    db.compact().unwrap();
    let (snapshot, scan) = made.get().expect("a merge has run");
    let has = |key: &[u8]| snapshot.contains(&tree, key).unwrap();
    assert!(!has(&marker(1)) && !has(&masked) && has(&other));
    let scanned: Vec<Vec<u8>> = scan.lock().unwrap().by_ref().map(|pair| pair.unwrap().0).collect();
    assert_eq!(scanned, [marker(1), masked, other]);
}

#[test]
fn a_marker_stays_if_a_split_has_parted_it_from_what_it_masks() {
    let (db, tree) = open(&SimFs::new(1), &HourClock::new(0), Cells::default());
    let (low, high) = (cell(1, 1, 1, 0, 0), cell(1, 7, 1, 0, 0));
    tree.put(&low, "masked").unwrap();
    tree.put(&high, "masked").unwrap();
    db.flush().unwrap();
    tree.put(marker(1), 5_u64.to_be_bytes()).unwrap();
    let rest = db.split(&tree, [1, 1, 4], "rest").unwrap();
    db.compact().unwrap();
    assert_eq!(contents(&tree).into_keys().collect::<Vec<_>>(), [marker(1)]);
    assert_eq!(contents(&rest).into_keys().collect::<Vec<_>>(), [high]);
}

#[test]
fn a_marker_stays_if_the_rule_panics_behind_it() {
    /// Panics at the second entry of a run, once.
    struct Once(Cells, AtomicBool);
    impl CompactionRule for Once {
        fn name(&self) -> &str {
            Cells::NAME
        }
        fn begin(&self, tree: &str) -> Box<dyn RuleRun + '_> {
            Box::new(OnceRun(self.0.begin(tree), &self.1, 0))
        }
    }
    struct OnceRun<'a>(Box<dyn RuleRun + 'a>, &'a AtomicBool, usize);
    impl RuleRun for OnceRun<'_> {
        fn entry(&mut self, context: &RuleContext<'_>, entry: &RuleEntry<'_>) -> RuleDecision {
            self.2 += 1;
            assert!(self.2 < 2 || self.1.swap(true, Ordering::Relaxed), "this rule panics once");
            self.0.entry(context, entry)
        }
    }
    for by_flush in [true, false] {
        let disk = SimFs::new(1);
        let (db, tree) = open(&disk, &HourClock::new(0), Once(Cells::default(), AtomicBool::new(!by_flush)));
        for version in 1..4 {
            tree.put(cell(1, 1, version, 0, 0), "masked").unwrap();
        }
        if !by_flush {
            // A cell in a table keeps the marker.
            db.flush().unwrap();
        }
        tree.put(marker(1), 5_u64.to_be_bytes()).unwrap();
        db.flush().unwrap();
        if !by_flush {
            drop((tree, db));
            let (db, tree) = open(&disk, &HourClock::new(0), Once(Cells::default(), AtomicBool::new(false)));
            db.compact().unwrap();
            assert!(tree.contains(marker(1)).unwrap());
            assert_eq!((db.stats().unwrap().rule_panics, contents(&tree).len()), (1, 4));
            db.compact().unwrap();
            assert!(contents(&tree).is_empty());
            continue;
        }
        assert!(tree.contains(marker(1)).unwrap());
        assert_eq!((db.stats().unwrap().rule_panics, contents(&tree).len()), (1, 4));
        db.compact().unwrap();
        assert!(contents(&tree).is_empty());
    }
}

/// Of such a tree the store's clock says nothing.
#[test]
fn a_tree_that_takes_its_time_from_its_writes_is_looked_at_by_it() {
    let (disk, clock) = (SimFs::new(1), HourClock::new(0));
    let db = Db::open(STORE, options(&disk, &clock).compaction_rule(Cells::default())).unwrap();
    let own = TreeOptions::default().rule(Cells::NAME).expiry_clock(ExpiryClock::Writes);
    let tree = db.create_tree("own", own).unwrap();
    let hour = |hour: u64| FIRST_US + hour * HOUR_US;
    tree.at_us(hour(1)).put(cell(1, 1, 1, 0, 5), "over at five").unwrap();
    tree.at_us(hour(1)).put(cell(1, 1, 2, 0, 0), "lasting").unwrap();
    db.flush().unwrap();
    clock.pass(100);
    settle(&db);
    assert_eq!(kept(&db).0, 2);
    tree.at_us(hour(5)).put(cell(2, 1, 3, 0, 0), "lasting").unwrap();
    settle(&db);
    assert_eq!(kept(&db).0, 2);
    db.flush().unwrap();
    settle(&db);
    assert_eq!((kept(&db).0, contents(&tree).len()), (2, 2));
}

#[test]
fn what_was_made_without_the_rule_is_shown_to_it_later() {
    let (disk, clock) = (SimFs::new(1), HourClock::new(0));
    let (db, tree) = open(&disk, &clock, Judge::x());
    let mut load = tree.ingest().unwrap();
    load.put("x", "loaded").unwrap();
    load.commit().unwrap();
    settle(&db);
    assert_eq!(keys(&tree), ["x"]);
    clock.pass(2);
    settle(&db);
    assert!(keys(&tree).is_empty());
    db.close().unwrap();
    // A flush of an opening without the rule.
    let db = Db::open(STORE, options(&disk, &clock)).unwrap();
    db.tree("t").unwrap().put("x", "put").unwrap();
    db.flush().unwrap();
    db.close().unwrap();
    let (db, tree) = open(&disk, &clock, Judge::x());
    settle(&db);
    assert!(keys(&tree).is_empty());
}

#[test]
fn what_a_repair_has_written_is_shown_to_the_rule() {
    let (disk, clock) = (SimFs::new(1), HourClock::new(0));
    let db = Db::open(STORE, options(&disk, &clock)).unwrap();
    let tree = db.create_tree("t", TreeOptions::default()).unwrap();
    (0..500).for_each(|i| tree.put(format!("x{i:03}"), vec![7; 500]).unwrap());
    db.compact().unwrap();
    // No table that is there wants to be seen.
    tree.set_options(TreeOptions::default().rule("judge")).unwrap();
    db.close().unwrap();
    let (db, tree) = open(&disk, &clock, Judge::x());
    settle(&db);
    assert_eq!(contents(&tree).len(), 500);
    drop(tree);
    db.close().unwrap();
    let table = disk.paths().into_iter().find(|path| path.extension().is_some_and(|end| end == "table"));
    disk.flip_byte(table.unwrap(), 50_000, 1).unwrap();
    assert!(!esker::repair(STORE, &options(&disk, &clock)).unwrap().losses.is_empty());
    let (db, tree) = open(&disk, &clock, Judge::x());
    settle(&db);
    assert!(contents(&tree).is_empty());
}
