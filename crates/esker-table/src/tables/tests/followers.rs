//! A store that follows the entries of another one, with tables that know of them by the entries alone.

use super::*;
use crate::read::Cell;
use crate::tables::tests::watched::Watched;

/// An entry as a log would have it.
#[derive(Clone)]
struct Logged {
    /// The names of the trees, by their slots, and the encoded batch.
    trees: Vec<String>,
    bytes: Vec<u8>,
    /// What it changes in the catalog.
    pairs: Vec<(Vec<u8>, Option<Vec<u8>>)>,
}

type Pairs = BTreeMap<Vec<u8>, Vec<u8>>;

fn catalog_of(db: &Db) -> Pairs {
    let catalog = db.open_tree(CATALOG).unwrap().unwrap();
    catalog.scan(..).unwrap().map(|pair| pair.unwrap()).collect()
}

/// A store that proposes, and one that follows.
struct Both {
    leader: Tables,
    follower: Tables,
    log: Arc<Mutex<Vec<Logged>>>,
}

impl Both {
    fn new() -> Both {
        let (leader, journal) = watched(Db::open_in_memory);
        let (follower, _) = watched(Db::open_in_memory);
        leader.set_query_cache(1 << 20);
        follower.set_query_cache(1 << 20);
        let log = Arc::new(Mutex::new(Vec::new()));
        Both::record(&journal, leader.db().clone(), Arc::clone(&log));
        Both { leader, follower, log }
    }

    fn record(journal: &Watched, db: Db, log: Arc<Mutex<Vec<Logged>>>) {
        journal.hook(move |batch, propose| {
            let mut trees: Vec<String> = Vec::new();
            let bytes = batch.encode(|name| {
                let slot = trees.iter().position(|known| known == name).unwrap_or_else(|| {
                    trees.push(name.to_owned());
                    trees.len() - 1
                });
                Some(slot as u32)
            });
            let before = catalog_of(&db);
            propose()?;
            let after = catalog_of(&db);
            let puts = after.iter().filter(|(key, value)| before.get(*key) != Some(value));
            let puts = puts.map(|(key, value)| (key.clone(), Some(value.clone())));
            let deletes = before.keys().filter(|key| !after.contains_key(*key));
            let pairs = deletes.map(|key| (key.clone(), None)).chain(puts).collect();
            log.lock().unwrap().push(Logged { trees, bytes: bytes.unwrap(), pairs });
            Ok(())
        });
    }

    /// Does what the follower has not done yet.
    fn catch_up(&self) {
        for entry in std::mem::take(&mut *self.log.lock().unwrap()) {
            follow(&self.follower, &entry, true);
        }
    }

    /// Fails if the follower differs from the leader.
    fn check(&self) {
        self.catch_up();
        let all = [&self.leader, &self.follower];
        let [one, other] = all.map(|tables| catalog_of(tables.db()));
        assert_eq!(one, other);
        let [one, other] = all.map(|tables| (tables.names(), tables.namespaces().unwrap(), trees(tables)));
        assert_eq!(one, other);
        let [one, other] = all.map(|tables| tables.inner.rule.known());
        assert_eq!(one, other);
        for name in self.leader.names() {
            let [one, other] = all.map(|tables| tables.table(&name).unwrap());
            assert_eq!((one.schema(), one.split_rows()), (other.schema(), other.split_rows()));
            let numbers = |table: &Table| {
                let shape = table.state.shape();
                shape.all_trees().map(|tree| tree.name().to_owned()).collect::<Vec<_>>()
            };
            assert_eq!(numbers(&one), numbers(&other));
            if one.is_enabled() {
                // The third time, it is what the query cache has.
                (0..3).for_each(|_| assert_eq!(cells(&one), cells(&other), "{name}"));
            }
        }
        all.iter().for_each(|tables| tables.db().compact().unwrap());
        for name in trees(&self.leader) {
            let [one, other] = all.map(|tables| {
                let tree = tables.db().open_tree(&name).unwrap().unwrap();
                tree.scan(..).unwrap().map(|pair| pair.unwrap()).collect::<Vec<_>>()
            });
            assert_eq!(one, other, "{name}");
        }
    }
}

fn cells(table: &Table) -> Vec<Cell> {
    let mut scan = table.scan("", "", &Read::all().versions(9)).unwrap();
    let mut cells = Vec::new();
    while scan.advance().unwrap() {
        cells.extend(scan.cell().unwrap());
    }
    cells
}

/// Does an entry of another store. Without `is_applied`, the tables do not hear of it.
fn follow(tables: &Tables, entry: &Logged, is_applied: bool) {
    let inner = &*tables.inner;
    let changes = entry.pairs.iter().filter_map(|(key, value)| Change::read(key, value.as_deref()).unwrap());
    let changes: Vec<Change> = changes.collect();
    let changing = lock(&inner.changing);
    for change in &changes {
        if let Change::Table { schema, .. } = change {
            let old = inner.numbered(schema.table).map(|state| state.shape());
            inner.make_trees(schema, old.as_deref()).unwrap();
        }
    }
    let coming = is_applied.then(|| inner.prepare(changes).unwrap());
    let tree = |slot: u32| inner.db.open_tree(&entry.trees[slot as usize]).unwrap();
    let mut batch = Batch::decode(&entry.bytes, tree).unwrap();
    // Which rows it writes, only its cells say: here it may be all.
    let number = |tree: &String| tree.strip_prefix(TREES)?.split('.').next()?.parse::<u64>().ok();
    let written: BTreeSet<u64> = entry.trees.iter().filter_map(number).collect();
    let (first, last) = (Vec::new(), vec![0xff; ROW_LEN_MAX]);
    let ends = || [&first[..], &last[..]].into_iter();
    let writing: Vec<_> = written.iter().map(|table| inner.query_cache.begin(*table, ends())).collect();
    inner.journal.propose(inner.journal.ground(), &mut batch).wait().unwrap();
    drop(writing);
    if let Some(coming) = coming {
        let left = inner.apply(coming).unwrap();
        drop(changing);
        inner.remove(left).unwrap();
    }
}

#[test]
fn a_follower_knows_of_tables_by_the_entries_alone() {
    let both = Both::new();
    let (leader, follower) = (&both.leader, &both.follower);
    let short = || Family::new("f").max_versions(2);
    let table = leader.create("t", Schema::new().group("a", [short(), Family::new("g")])).unwrap();
    both.check();
    let put = |row: &str, at: i64| RowMutation::new(row).put_at("f", "q", at, at.to_string());
    for row in ["a", "m", "z"] {
        (1..=4).for_each(|at| table.mutate(&put(row, at)).unwrap());
    }
    both.check();
    let followed = follower.table("t").unwrap();
    assert_eq!(cells(&followed).len(), 6);

    // Parts, and a new group that is not split.
    table.split("m").unwrap();
    both.check();
    let with = |family: Family| (*table.schema()).clone().with_family("b", family);
    leader.alter("t", with(Family::new("h").max_versions(1))).unwrap();
    table.mutate_rows(&["a", "z"].map(|row| RowMutation::new(row).put("h", "q", "v"))).unwrap();
    both.check();
    table.split("p").unwrap();
    // Single versions are deleted, and newer ones are written with that.
    table.mutate(&RowMutation::new("a").delete_version("f", "q", 4).put_at("f", "q", 2, "new")).unwrap();
    both.check();
    assert_eq!(noted(&followed), ["f"]);
    // Other rules, an index of what is there, and no more indexes.
    let schema = || (*table.schema()).clone();
    leader.alter("t", schema().with_rules_of(&Family::new("f").max_versions(3).index_values(true))).unwrap();
    both.check();
    assert!(!followed.schema().is_building());
    (5..=7).for_each(|at| table.mutate(&put("m", at)).unwrap());
    both.check();
    leader.rebuild_indexes("t").unwrap();
    both.check();
    leader.alter("t", schema().with_rules_of(&Family::new("f").max_versions(1))).unwrap();
    both.check();

    // Names.
    leader.create_namespace("n").unwrap();
    leader.rename("t", "n:u").unwrap();
    both.check();
    assert_eq!((followed.name(), follower.table("t").is_err()), ("n:u".to_owned(), true));
    leader.disable("n:u").unwrap();
    both.check();
    assert!(matches!(followed.get("a", &Read::all()), Err(Error::Disabled(_))));
    leader.enable("n:u").unwrap();
    // A group that goes takes its parts along.
    leader.alter("n:u", schema().without_family("h")).unwrap();
    both.check();
    // Another table with a name that was free, and one that takes the place of a dropped one.
    let other = leader.create("t", Schema::new().group("a", [short()])).unwrap();
    other.mutate(&put("r", 1)).unwrap();
    both.check();
    let read = Read::all();
    let old = follower.table("t").unwrap();
    (0..3).for_each(|_| assert_eq!(old.get("r", &read).unwrap().len(), 1));
    leader.drop_table("t").unwrap();
    both.check();
    assert!(old.get("r", &read).is_err(), "the query cache has nothing of a table that is gone");
    leader.create("t", Schema::new().group("a", [short()])).unwrap();
    both.check();
    leader.truncate("n:u").unwrap();
    both.check();
    leader.drop_table("n:u").unwrap();
    leader.drop_namespace("n").unwrap();
    both.check();

    // The follower takes over: its numbers are above all of the leader's.
    let table = follower.table("t").unwrap();
    let leaders = leader.table("t").unwrap();
    leaders.mutate(&put("r", 1)).unwrap();
    both.check();
    let taken = leader.inner.sequences.take(1).first;
    assert!(follower.inner.sequences.take(1).first > taken);
    table.mutate(&RowMutation::new("r").put_at("f", "q", 1, "taken over")).unwrap();
    assert_eq!(table.get("r", &Read::all()).unwrap()[0].value, b"taken over");
}

/// What a follower would do that hears nothing of an entry: its merges go by rules that are not in force any more.
#[test]
fn a_follower_that_does_not_apply_an_entry_loses_what_counts() {
    let found = |is_applied: bool| {
        let both = Both::new();
        let family = Family::new("f").max_versions(2);
        let table = both.leader.create("t", Schema::new().group("a", [family])).unwrap();
        let put = |timestamp| RowMutation::new("r").put_at("f", "q", timestamp, "v");
        table.mutate_rows(&[put(5), put(10)]).unwrap();
        both.catch_up();
        table.mutate(&RowMutation::new("r").delete_version("f", "q", 10).put_at("f", "q", 9, "v")).unwrap();
        for entry in std::mem::take(&mut *both.log.lock().unwrap()) {
            follow(&both.follower, &entry, is_applied);
        }
        let followed = both.follower.table("t").unwrap();
        both.leader.db().compact().unwrap();
        both.follower.db().compact().unwrap();
        assert_eq!(versions(&table), [9, 5]);
        (noted(&followed), versions(&followed))
    };
    assert_eq!(found(true), (vec!["f".to_owned()], vec![9, 5]));
    assert_eq!(found(false), (Vec::new(), vec![9]));
}
