use std::sync::atomic::{AtomicU64, Ordering};

use esker::Options;
use esker::env::{Clock, Env};

use esker_journal::Undone;

use super::*;
use crate::schema::{Family, work};

mod building;
mod followers;
mod late;
mod watched;

use watched::watched;

fn schema() -> Schema {
    Schema::new().group("a", [Family::new("f"), Family::new("g")]).group("b", [Family::new("h")])
}

fn trees(tables: &Tables) -> Vec<String> {
    tables.db().tree_names().into_iter().filter(|name| name.starts_with(TREES)).collect()
}

#[test]
fn tables_are_there_after_a_reopening_until_they_are_dropped() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store");
    let tables = Tables::open(&path, Options::default()).unwrap();
    let table = tables.create("t", schema()).unwrap();
    assert!(matches!(tables.create("t", schema()), Err(Error::TableExists(name)) if name == "t"));
    table.mutate(&RowMutation::new("r").put("f", "q", "v")).unwrap();
    let made = table.schema();
    drop((table, tables));

    let tables = Tables::open(&path, Options::default()).unwrap();
    let table = tables.table("t").unwrap();
    assert_eq!((tables.names(), table.schema()), (vec!["t".to_owned()], Arc::clone(&made)));
    assert_eq!(table.get("r", &Read::all()).unwrap()[0].value, b"v");
    tables.drop_table("t").unwrap();
    assert!(
        table.get("r", &Read::all()).is_err()
            && table.mutate(&RowMutation::new("r").put("f", "q", "v")).is_err()
    );
    assert!(table.mutate(&RowMutation::new("r").delete_version("f", "q", 1)).is_err());
    assert!(matches!(tables.table("t"), Err(Error::NoTable(_))) && trees(&tables).is_empty());
    // A new table of this name is another one.
    let again = tables.create("t", schema()).unwrap();
    assert_eq!(again.get("r", &Read::all()).unwrap(), []);
    assert_ne!(again.schema().table, made.table);
}

#[test]
fn an_opening_of_a_store_that_is_up_to_date_changes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store");
    let open = || watched(|options| Db::open(&path, options));
    let (tables, journal) = open();
    assert_eq!(journal.changes(), 2, "the catalog, and its tag");
    let indexed = Schema::new().group("a", [Family::new("f").index_values(true)]);
    let table = tables.create("t", indexed).unwrap();
    tables.create_namespace("n").unwrap();
    tables.create("n:u", schema()).unwrap();
    table.mutate(&RowMutation::new("r").put("f", "q", "v").delete_version("f", "q", 1)).unwrap();
    table.split("m").unwrap();
    let kept = trees(&tables);
    drop((table, tables, journal));
    let number = || {
        let db = Db::open_read_only(&path, Options::default().compaction_rule(TableRule::default())).unwrap();
        db.snapshot().sequence()
    };
    let before = number();
    for _ in 0..2 {
        let (tables, journal) = open();
        assert_eq!((journal.changes(), trees(&tables)), (0, kept.clone()));
        assert_eq!(latest(&tables.table("t").unwrap(), "r").len(), 1);
        drop((tables, journal));
        assert_eq!(number(), before);
    }
    // A part that the catalog has and that a crash has kept from being split off, and a tree of no table, are mended.
    let (tables, journal) = open();
    tables.inner.catalog.put("part 1.1.5", "p").unwrap();
    tables.db().create_tree(&tree_name(77, 1), TreeOptions::default().rule(RULE)).unwrap();
    drop((tables, journal));
    let (tables, journal) = open();
    assert_eq!((journal.changes(), trees(&tables).len()), (2, kept.len() + 1));
}

#[test]
fn what_an_opening_finds_of_no_table_is_dropped() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store");
    let tables = Tables::open(&path, Options::default()).unwrap();
    tables.create("t", schema()).unwrap();
    let kept = trees(&tables);
    // As a crash leaves them, in the midst of a creation or a drop.
    let left =
        |number| tables.db().create_tree(&tree_name(number, 1), TreeOptions::default().rule(RULE)).unwrap();
    left(2).put("garbage", "of a crash").unwrap();
    left(77);
    // And what only looks like it.
    tables.db().create_tree("table of contents", TreeOptions::default()).unwrap();
    // Also with the name that the tree of a next table would have.
    tables.db().create_tree(&tree_name(3, 1), TreeOptions::default()).unwrap();
    drop(tables);

    let tables = Tables::open(&path, Options::default()).unwrap();
    assert_eq!(trees(&tables), [kept, vec![tree_name(3, 1), "table of contents".to_owned()]].concat());
    assert_eq!(tables.create("u", schema()).unwrap().get("r", &Read::all()).unwrap(), []);

    // Within one opening, what a failed creation has left is in nobody's way.
    left_by_a_failure(&tables, 4);
    let table = tables.create("v", schema()).unwrap();
    assert_eq!((table.schema().table, table.get("r", &Read::all()).unwrap()), (4, vec![]));
}

fn left_by_a_failure(tables: &Tables, number: u64) {
    let tree = tables.db().create_tree(&tree_name(number, 2), TreeOptions::default().rule(RULE)).unwrap();
    tree.put("garbage", "of a failure").unwrap();
}

#[test]
fn a_catalog_that_is_none_is_refused_with_its_entry() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store");
    let tables = Tables::open(&path, Options::default()).unwrap();
    tables.create("t", schema()).unwrap();
    tables.inner.catalog.put("table u", "<Schema>").unwrap();
    drop(tables);
    match Tables::open(&path, Options::default()) {
        Err(Error::Damaged(message)) => assert!(message.contains("table u"), "{message}"),
        other => panic!("{other:?}"),
    }

    let text = |table: &str| {
        format!(
            "<Schema {table}><AccessGroup id=\"1\" name=\"a\"><ColumnFamily name=\"f\"/></AccessGroup></Schema>"
        )
    };
    for text in [text("table=\"1\""), text("table=\"9\""), text("")] {
        let db = Db::open(&path, Options::default()).unwrap();
        db.tree(CATALOG).unwrap().put("table u", text).unwrap();
        drop(db);
        assert!(matches!(Tables::open(&path, Options::default()), Err(Error::Damaged(_))));
    }

    let other = dir.path().join("other");
    Db::open(&other, Options::default()).unwrap().tree(CATALOG).unwrap().put("chair", "oak").unwrap();
    assert!(matches!(Tables::open(&other, Options::default()), Err(Error::Damaged(_))));
}

#[test]
fn what_cannot_be_is_refused_and_changes_nothing() {
    let tables = Tables::open_in_memory(Options::default()).unwrap();
    let table = tables.create("t", schema()).unwrap();
    let good = || RowMutation::new("r").put("f", "q", "v");
    let long = vec![b'r'; crate::ROW_LEN_MAX + 1];
    for bad in [
        RowMutation::new("").put("f", "q", "v"),
        RowMutation::new(long).put("f", "q", "v"),
        good().put("none", "q", "v"),
        good().delete_family("none"),
        good().put_at("f", "q", -1, "v"),
        good().put_at("f", "q", i64::MAX, "v"),
        good().delete_row_up_to(i64::MIN),
        good().put("f", vec![0; 100_000], "v"),
    ] {
        assert!(table.mutate_rows(&[good(), bad.clone()]).is_err(), "{bad:?}");
    }
    assert_eq!(table.scan("", "", &Read::all()).unwrap().advance().ok(), Some(false));
    assert!(matches!(table.get("r", &Read::family("none")), Err(Error::NoFamily { .. })));
    assert!(table.get("", &Read::all()).is_err());
    for name in ["", "a/b", "a b", "-a", &"a".repeat(201)] {
        assert!(tables.create(name, schema()).is_err(), "{name:?}");
    }
    // The longest row, of the bytes that take the most room, is one.
    let zeros = vec![0; crate::ROW_LEN_MAX];
    table.mutate(&RowMutation::new(zeros.clone()).put("f", "q", "v")).unwrap();
    assert_eq!(table.get(&zeros, &Read::all()).unwrap().len(), 1);
}

#[test]
fn an_entry_that_is_no_cell_is_damage_and_not_data() {
    let tables = Tables::open_in_memory(Options::default()).unwrap();
    let table = tables.create("t", schema()).unwrap();
    table.state.shape().groups[0].first().put("no cell", "?").unwrap();
    let mut scan = table.scan("", "", &Read::all()).unwrap();
    assert!(matches!(scan.advance(), Err(Error::Damaged(_))));
    assert!(matches!(scan.advance(), Ok(false)));
}

#[test]
fn a_group_that_is_not_asked_for_is_not_read() {
    let tables = Tables::open_in_memory(Options::default()).unwrap();
    let table = tables.create("t", schema()).unwrap();
    for row in 0..2000_u32 {
        let mutation =
            RowMutation::new(row.to_be_bytes()).put("f", "q", "small").put("h", "q", vec![b'h'; 10_000]);
        table.mutate(&mutation).unwrap();
    }
    tables.db().compact().unwrap();
    let read = |read: &Read| {
        let before = tables.db().stats().unwrap().pool_misses;
        let mut scan = table.scan("", "", read).unwrap();
        while scan.advance().unwrap() {}
        tables.db().stats().unwrap().pool_misses - before
    };
    tables.db().clear_cache();
    let (small, all) = (read(&Read::family("f")), read(&Read::all()));
    assert!(small * 10 < all, "{small} blocks of {all}");
}

/// The families in which single versions may have been deleted, as the catalog says.
fn noted(table: &Table) -> Vec<String> {
    let schema = table.schema();
    let noted = schema.families().filter(|(_, family)| family.rules().has_deleted_versions);
    noted.map(|(_, family)| family.name().to_owned()).collect()
}

/// Without the note, the flush would drop version 5 as surplus beside 10 and 9.
#[test]
fn deletes_of_versions_are_noted_with_the_first_one() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store");
    let tables = Tables::open(&path, Options::default()).unwrap();
    let schema = Schema::new().group("a", [Family::new("f").max_versions(2), Family::new("g")]);
    let table = tables.create("t", schema).unwrap();
    assert!(table.mutate(&RowMutation::new("r").delete_version("f", "q", 1).put("none", "q", "v")).is_err());
    assert_eq!(noted(&table), [""; 0]);

    // Version 5 is there when 10 is deleted, and 9 comes after that: 9 and 5 count.
    let put = |timestamp| RowMutation::new("r").put_at("f", "q", timestamp, timestamp.to_string());
    table.mutate_rows(&[put(5), put(10)]).unwrap();
    table.mutate(&RowMutation::new("r").delete_version("f", "q", 10)).unwrap();
    assert_eq!(noted(&table), ["f"]);
    table.mutate(&put(9)).unwrap();
    let found = |table: &Table| -> Vec<i64> {
        let cells = table.get("r", &Read::all().versions(9)).unwrap();
        cells.iter().map(|cell| cell.timestamp).collect()
    };
    assert_eq!(found(&table), [9, 5]);
    tables.db().flush().unwrap();
    assert_eq!(found(&table), [9, 5]);
    drop((table, tables));

    let tables = Tables::open(&path, Options::default()).unwrap();
    let table = tables.table("t").unwrap();
    assert_eq!(noted(&table), ["f"]);
    tables.db().compact().unwrap();
    assert_eq!(found(&table), [9, 5]);
    // A table that was dropped is not told of.
    tables.drop_table("t").unwrap();
    assert!(table.mutate(&RowMutation::new("r").delete_version("g", "q", 1)).is_err());
    drop((table, tables));
    assert_eq!(Tables::open(&path, Options::default()).unwrap().names(), [""; 0]);
}

/// The timestamps of the row "r".
fn versions(table: &Table) -> Vec<i64> {
    let cells = table.get("r", &Read::all().versions(9)).unwrap();
    cells.iter().map(|cell| cell.timestamp).collect()
}

/// In one entry with the note there may be puts that are newer than the delete: a merge behind the entry that went by the old
/// rules would drop version 5 as surplus beside 10 and 9.
#[test]
fn a_merge_between_an_entry_and_what_it_notes_drops_nothing() {
    for is_before in [true, false] {
        let (tables, journal) = watched(Db::open_in_memory);
        let schema = Schema::new().group("a", [Family::new("f").max_versions(2)]);
        let table = tables.create("t", schema).unwrap();
        let put = |timestamp| RowMutation::new("r").put_at("f", "q", timestamp, "v");
        table.mutate_rows(&[put(5), put(10)]).unwrap();
        let db = tables.db().clone();
        journal.hook(move |_, propose| {
            if is_before {
                db.compact().unwrap();
                return propose();
            }
            let end = propose();
            db.compact().unwrap();
            end
        });
        let changes = journal.changes();
        table.mutate(&RowMutation::new("r").delete_version("f", "q", 10).put_at("f", "q", 9, "v")).unwrap();
        assert_eq!(journal.changes(), changes + 1, "one entry has the note and the cells");
        assert_eq!((noted(&table), versions(&table)), (vec!["f".to_owned()], vec![9, 5]));
        journal.unhook();
        tables.db().compact().unwrap();
        assert_eq!(versions(&table), [9, 5]);
        // The next one notes nothing.
        let changes = journal.changes();
        table.mutate(&RowMutation::new("r").delete_version("f", "q", 9)).unwrap();
        assert_eq!((journal.changes(), versions(&table)), (changes + 1, vec![5]));
    }
}

/// If the first delete is refused, merges go by the old rules again. If its end is not known, they keep everything.
#[test]
fn a_note_that_is_refused_is_not_noted() {
    for is_known in [true, false] {
        let (tables, journal) = watched(Db::open_in_memory);
        let schema = Schema::new().group("a", [Family::new("f").max_versions(2)]);
        let table = tables.create("t", schema).unwrap();
        (1..=4).for_each(|at| table.mutate(&RowMutation::new("r").put_at("f", "q", at, "v")).unwrap());
        journal.hook(move |_, _| {
            let error = esker::Error::new(ErrorKind::Busy, "a test refuses it");
            Err(if is_known { Undone::Refused(error) } else { Undone::Unknown(error) })
        });
        assert!(table.mutate(&RowMutation::new("r").delete_version("f", "q", 4)).is_err());
        journal.unhook();
        assert_eq!((noted(&table), versions(&table)), (Vec::new(), vec![4, 3]));
        tables.db().compact().unwrap();
        let entries = table.state.shape().groups[0].first().count(..).unwrap();
        assert_eq!((entries, versions(&table)), (if is_known { 2 } else { 4 }, vec![4, 3]));
        table.mutate(&RowMutation::new("r").delete_version("f", "q", 4)).unwrap();
        assert_eq!((noted(&table), versions(&table)), (vec!["f".to_owned()], vec![3]));
    }
}

/// A clock that the test moves.
#[derive(Debug)]
struct Manual(AtomicU64);

impl Clock for Manual {
    fn wall_us(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    fn monotonic_us(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    fn sleep(&self, _: std::time::Duration) {
        test_kit::pause();
    }
}

#[test]
fn cells_expire_to_the_millisecond_and_their_space_is_given_back() {
    const HOUR_US: u64 = 3_600_000_000;
    let clock = Arc::new(Manual(AtomicU64::new(1_700_000_000_000_000)));
    let env = || Env { clock: Arc::<Manual>::clone(&clock), ..Env::system() };
    let tables = Tables::open_in_memory(Options::default().env(env())).unwrap();
    let hour = std::time::Duration::from_secs(3600);
    let schema = Schema::new().group("a", [Family::new("f").ttl(hour), Family::new("g").ttl(2 * hour)]);
    let table = tables.create("t", schema).unwrap();
    for row in 0..100_u8 {
        table.mutate(&RowMutation::new([row]).delete_row().put("f", "q", "v").put("g", "q", "v")).unwrap();
    }
    let cells = || table.get([7], &Read::all()).unwrap().len();
    let entries = || table.state.shape().groups[0].first().count(..).unwrap();
    let pass = |us| clock.0.fetch_add(us, Ordering::Relaxed);
    tables.db().flush().unwrap();
    pass(HOUR_US);
    assert_eq!(cells(), 2);
    pass(1000);
    assert_eq!(cells(), 1);
    tables.db().compact().unwrap();
    assert!(entries() <= 200, "{}", entries());
    pass(HOUR_US);
    assert_eq!(cells(), 0);
    tables.db().compact().unwrap();
    assert_eq!(entries(), 0);
}

/// What the query cache has of a read goes when a cell expires that the read has looked at, shown or not; it does not count
/// while the clock is back before it, nor by another schema.
#[test]
fn the_query_cache_knows_the_time_and_the_schema() {
    const HOUR_US: u64 = 3_600_000_000;
    let clock = Arc::new(Manual(AtomicU64::new(1_700_000_000_000_000)));
    let env = Env { clock: Arc::<Manual>::clone(&clock), ..Env::system() };
    let tables = Tables::open_in_memory(Options::default().env(env)).unwrap();
    tables.set_query_cache(1 << 20);
    let hour = std::time::Duration::from_secs(3600);
    let family = || Family::new("f").ttl(hour);
    let table = tables.create("t", Schema::new().group("a", [family(), Family::new("g")])).unwrap();
    // "h" keeps the row from being shown.
    let filter = b"SingleColumnValueFilter('f', 'h', !=, 'binary:hides')";
    let hidden = Read::all().filter(crate::Filter::parse(filter).unwrap());
    let none = Read::all().filter(crate::Filter::parse(b"FamilyFilter(=, 'binary:f')").unwrap());
    table.mutate(&RowMutation::new("r").put("f", "h", "hides").put("g", "q", "v")).unwrap();
    let count = |read: &Read| table.get("r", read).unwrap().len();
    let counts = || (count(&Read::all()), count(&hidden), count(&none));
    let hits = || tables.query_cache_stats().hits;
    for _ in 0..3 {
        assert_eq!(counts(), (2, 0, 1));
    }
    assert_eq!(hits(), 3);
    clock.0.fetch_add(HOUR_US, Ordering::Relaxed);
    assert_eq!((counts(), hits()), ((2, 0, 1), 6));
    clock.0.fetch_add(1000, Ordering::Relaxed);
    for round in 0..2 {
        assert_eq!((counts(), hits()), ((1, 1, 0), 6 + 3 * round));
    }
    clock.0.fetch_sub(1000, Ordering::Relaxed);
    assert_eq!((counts(), hits()), ((2, 0, 1), 9));
    tables.alter("t", (*table.schema()).clone().without_family("f")).unwrap();
    assert_eq!((count(&Read::all()), hits()), (1, 9));
    assert_eq!((count(&Read::all()), hits()), (1, 9));
    tables.disable("t").unwrap();
    assert!(matches!(table.get("r", &Read::all()), Err(Error::Disabled(_))));
    tables.enable("t").unwrap();
    assert_eq!((count(&Read::all()), hits()), (1, 10));
    // Off and on again, it has nothing.
    tables.set_query_cache(0);
    assert_eq!((count(&Read::all()), tables.query_cache_stats().bytes), (1, 0));
    tables.set_query_cache(1 << 20);
    for _ in 0..2 {
        assert_eq!((count(&Read::all()), hits()), (1, 10));
    }
}

fn latest(table: &Table, row: &str) -> Vec<(String, Vec<u8>)> {
    let cells = table.get(row, &Read::all()).unwrap();
    cells.into_iter().map(|cell| (cell.family, cell.value)).collect()
}

#[test]
fn families_keep_their_cells_when_a_schema_changes() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store");
    let tables = Tables::open(&path, Options::default()).unwrap();
    let table = tables.create("t", schema()).unwrap();
    let all = |mutation: RowMutation| {
        ["f", "g", "h"].iter().fold(mutation, |mutation, family| mutation.put(family, "q", *family))
    };
    table.mutate(&all(RowMutation::new("r"))).unwrap();
    let before = (*table.schema()).clone();
    let scan = table.scan("", "", &Read::all()).unwrap();
    let pair = |family: &str, value: &str| (family.to_owned(), value.as_bytes().to_vec());

    // By names, and by numbers through a text: g goes, f is renamed, i is new and in a new group.
    tables.alter("t", before.clone().without_family("g")).unwrap();
    let text = table.schema().to_xml().unwrap();
    let text = text.replace("name=\"f\"", "name=\"renamed\"");
    let text = text
        .replace("</Schema>", "<AccessGroup name=\"c\"><ColumnFamily name=\"i\"/></AccessGroup></Schema>");
    tables.alter("t", Schema::from_xml(&text).unwrap()).unwrap();
    assert_eq!(latest(&table, "r"), [pair("h", "h"), pair("renamed", "f")]);
    table.mutate(&RowMutation::new("r").put("i", "q", "i")).unwrap();
    // A family with the name of one that was dropped has nothing of it.
    tables.alter("t", (*table.schema()).clone().with_family("a", Family::new("g"))).unwrap();
    assert_eq!(latest(&table, "r"), [pair("h", "h"), pair("i", "i"), pair("renamed", "f")]);
    assert_eq!(table.schema().version(), 4);
    // A scan that has begun before sees what was there.
    let mut scan = scan;
    let mut seen = Vec::new();
    while scan.advance().unwrap() {
        seen.push(scan.family().to_owned());
    }
    assert_eq!(seen, ["f", "g", "h"]);
    drop(scan);

    // Of another version, of another table, with a number that is none, with a family in another group, with no family.
    assert!(matches!(tables.alter("t", before), Err(Error::SchemaChanged { expected: 1, found: 4 })));
    let other = tables.create("u", schema()).unwrap();
    assert!(matches!(tables.alter("t", (*other.schema()).clone()), Err(Error::Schema { .. })));
    let text = table.schema().to_xml().unwrap().replace("id=\"1\"", "id=\"99\"");
    assert!(tables.alter("t", Schema::from_xml(&text).unwrap()).is_err());
    let moved = Schema::new().group("b", [Family::new("renamed")]);
    assert!(matches!(tables.alter("t", moved), Err(Error::Schema { .. })));
    assert!(tables.alter("t", Schema::new()).is_err() && tables.alter("none", schema()).is_err());

    // What was dropped is gone from the files, and the tree of a dropped group too.
    let entries = || table.state.shape().groups[0].first().count(..).unwrap();
    tables.db().compact().unwrap();
    assert_eq!(entries(), 1);
    let trees_before = trees(&tables).len();
    tables.alter("t", (*table.schema()).clone().without_family("h")).unwrap();
    assert_eq!(trees(&tables).len(), trees_before - 1);
    let (found, made) = (latest(&table, "r"), table.schema());
    drop((table, tables, other));
    let tables = Tables::open(&path, Options::default()).unwrap();
    let table = tables.table("t").unwrap();
    assert_eq!((latest(&table, "r"), table.schema()), (found, made));
}

#[test]
fn what_a_stricter_rule_has_removed_does_not_come_back() {
    const HOUR_MS: i64 = 3_600_000;
    let start_ms = 1_700_000_000_000_i64;
    let clock = Arc::new(Manual(AtomicU64::new(start_ms as u64 * 1000)));
    let env = Env { clock: Arc::<Manual>::clone(&clock), ..Env::system() };
    let tables = Tables::open_in_memory(Options::default().env(env)).unwrap();
    let family = || Family::new("f").max_versions(2);
    let hour = std::time::Duration::from_secs(3600);
    let table = tables.create("t", Schema::new().group("a", [family().ttl(hour)])).unwrap();
    let put = |timestamp: i64| {
        table.mutate(&RowMutation::new("r").put_at("f", "q", timestamp, "v")).unwrap();
    };
    let found = || -> Vec<i64> {
        let cells = table.get("r", &Read::all().versions(9)).unwrap();
        cells.iter().map(|cell| cell.timestamp - start_ms).collect()
    };
    (1..=3).for_each(|at| put(start_ms + at));
    let alter = |family: &Family| {
        tables.alter("t", (*table.schema()).clone().with_rules_of(family)).unwrap();
    };
    for is_merged in [false, true] {
        if is_merged {
            table.compact().unwrap();
        }
        assert_eq!(found(), [3, 2]);
        alter(&family().max_versions(4).ttl(hour));
        assert_eq!(found(), [3, 2]);
    }
    put(start_ms);
    put(start_ms + 4);
    assert_eq!(found(), [4, 3, 2, 0]);
    // The cells expire, the time to live grows: cells with such timestamps count if they are written from now on.
    clock.0.fetch_add(HOUR_MS as u64 * 1000 + 4000, Ordering::Relaxed);
    assert_eq!(found(), [4]);
    alter(&family().max_versions(4));
    assert_eq!(found(), [4]);
    put(start_ms + 2);
    assert_eq!(found(), [4, 2]);
    table.compact().unwrap();
    assert_eq!(found(), [4, 2]);
    // A lower limit counts for all.
    alter(&family().max_versions(1));
    assert_eq!(found(), [4]);
    table.compact().unwrap();
    assert_eq!(table.state.shape().groups[0].first().count(..).unwrap(), 1);
}

#[test]
fn tables_can_be_renamed_disabled_and_in_namespaces() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store");
    let tables = Tables::open(&path, Options::default()).unwrap();
    let table = tables.create("default:t", schema()).unwrap();
    table.mutate(&RowMutation::new("r").put("f", "q", "v")).unwrap();
    assert_eq!((table.name(), tables.namespaces().unwrap()), ("t".to_owned(), vec!["default".to_owned()]));
    assert!(matches!(tables.create("n:t", schema()), Err(Error::NoNamespace(name)) if name == "n"));
    tables.create_namespace("n").unwrap();
    assert!(matches!(tables.create_namespace("n"), Err(Error::NamespaceExists(_))));
    assert!(matches!(tables.create_namespace("default"), Err(Error::NamespaceExists(_))));
    tables.create("n:t", schema()).unwrap();
    assert!(matches!(tables.drop_namespace("n"), Err(Error::NamespaceInUse(_))));
    assert!(matches!(tables.drop_namespace("none"), Err(Error::NoNamespace(_))));
    for bad in ["n:", ":t", "n:t:u", "n:-"] {
        assert!(tables.create(bad, schema()).is_err() && tables.table(bad).is_err(), "{bad}");
    }

    assert!(matches!(tables.rename("t", "n:t"), Err(Error::TableExists(_))));
    assert!(matches!(tables.rename("t", "m:t"), Err(Error::NoNamespace(_))));
    tables.rename("t", "n:u").unwrap();
    assert!(matches!(tables.table("t"), Err(Error::NoTable(_))));
    assert_eq!((latest(&table, "r").len(), table.name()), (1, "n:u".to_owned()));
    table.mutate(&RowMutation::new("s").delete_version("f", "q", 1)).unwrap();
    assert_eq!(noted(&table), ["f"]);

    tables.disable("n:u").unwrap();
    assert!(!table.is_enabled());
    assert!(matches!(table.get("r", &Read::all()), Err(Error::Disabled(name)) if name == "n:u"));
    assert!(matches!(table.mutate(&RowMutation::new("r")), Err(Error::Disabled(_))));
    assert!(matches!(table.writer("f"), Err(Error::Disabled(_))));
    drop((table, tables));
    let tables = Tables::open(&path, Options::default()).unwrap();
    assert_eq!(tables.names(), ["n:t", "n:u"]);
    let table = tables.table("n:u").unwrap();
    assert!(!table.is_enabled());
    tables.enable("n:u").unwrap();
    assert_eq!(latest(&table, "r").len(), 1);
    tables.drop_table("n:u").unwrap();
    tables.drop_table("n:t").unwrap();
    tables.drop_namespace("n").unwrap();
    assert_eq!(tables.namespaces().unwrap(), ["default"]);
}

#[test]
fn changes_that_depend_on_the_row_are_refused_where_they_cannot_be() {
    let tables = Tables::open_in_memory(Options::default()).unwrap();
    let counted = schema().with_family("a", Family::new("n").counter(true));
    let table = tables.create("t", counted).unwrap();
    let increment = |by| RowMutation::new("r").increment("n", "q", by);
    assert_eq!(table.increment("r", "n", "q", i64::MAX).unwrap(), i64::MAX);
    assert!(matches!(table.increment("r", "n", "q", 1), Err(Error::Invalid(_))));
    assert_eq!(table.increment("r", "n", "q", -2).unwrap(), i64::MAX - 2);
    for bad in [
        increment(1).increment("n", "q", 1),
        RowMutation::new("r").put("n", "q", [0; 8]).increment("n", "q", 1),
        RowMutation::new("r").delete_row().increment("n", "q", 1),
        RowMutation::new("r").delete_family("n").append("n", "q", "x"),
        RowMutation::new("r").put("n", "q", "seven"),
        RowMutation::new("r").append("n", "q", "seven"),
        RowMutation::new("r").put("f", "q", "x").increment("none", "q", 1),
    ] {
        assert!(table.mutate(&bad).is_err(), "{bad:?}");
    }
    assert!(table.mutate_rows(&[increment(1), increment(1)]).is_err());
    assert!(table.mutate_rows(&[increment(1), RowMutation::new("r").put("f", "q", "x")]).is_err());
    assert_eq!(table.increment("r", "n", "q", 0).unwrap(), i64::MAX - 2);
    assert_eq!(table.append("r", "f", "q", "seven").unwrap(), b"seven");
    assert!(
        matches!(table.increment("r", "f", "q", 1), Err(Error::Invalid(message)) if message.contains('5'))
    );
    let big = vec![0; crate::APPEND_LEN_MAX as usize];
    assert!(matches!(table.append("r", "f", "q", big), Err(Error::Invalid(_))));
    // A counter whose cell is later than now goes on there.
    table
        .mutate(&RowMutation::new("r").put_at("n", "late", crate::TIMESTAMP_MAX, 5_i64.to_be_bytes()))
        .unwrap();
    assert_eq!(table.increment("r", "n", "late", 2).unwrap(), 7);
    assert_eq!(table.increment("r", "n", "late", 2).unwrap(), 9);
}

#[test]
fn checks_compare_as_they_say() {
    use crate::{Check, Comparison};
    let tables = Tables::open_in_memory(Options::default()).unwrap();
    let table = tables.create("t", schema()).unwrap();
    // One value is huge, so it lies apart.
    let huge = vec![b'm'; 100_000];
    for (row, value) in [("m", b"m".to_vec()), ("huge", huge.clone())] {
        table.mutate(&RowMutation::new(row).put("f", "q", value)).unwrap();
    }
    let holds = |row: &str, checks: &[Check]| {
        table.check_and_mutate(checks, &RowMutation::new(row).put("g", "seen", "x")).unwrap()
    };
    let all = [
        Comparison::Less,
        Comparison::LessOrEqual,
        Comparison::Equal,
        Comparison::NotEqual,
        Comparison::GreaterOrEqual,
        Comparison::Greater,
    ];
    let hold = |row: &str, value: &[u8]| {
        all.map(|comparison| holds(row, &[Check::value("f", "q", comparison, value)]))
    };
    let (less, equal, greater) = (
        [true, true, false, true, false, false],
        [false, true, true, false, true, false],
        [false, false, false, true, true, true],
    );
    assert_eq!([hold("m", b"n"), hold("m", b"m"), hold("m", b"")], [less, equal, greater]);
    assert_eq!([hold("huge", b"n"), hold("huge", &huge), hold("huge", &huge[1..])], [less, equal, greater]);
    assert_eq!(hold("none", b""), [false; 6]);
    assert!(table.get("none", &Read::all()).unwrap().is_empty());
    let (absent, present) = (|q: &str| Check::absent("f", q), |q: &str| Check::present("f", q));
    assert!(holds("m", &[present("q"), absent("p")]) && holds("m", &[]));
    assert!(!holds("m", &[present("q"), absent("q")]) && !holds("m", &[present("p")]));
    assert!(table.check_and_mutate(&[Check::absent("none", "q")], &RowMutation::new("m")).is_err());
}

/// A limit that becomes lower removes what is there then, whatever merges have dropped before.
#[test]
fn a_lower_limit_counts_from_its_beginning_on_where_versions_were_deleted() {
    let left = |is_merged: bool| {
        let tables = Tables::open_in_memory(Options::default()).unwrap();
        let family = |max: Option<u32>| Family::new("f").max_versions(max);
        let table = tables.create("t", Schema::new().group("a", [family(None)])).unwrap();
        for timestamp in [10, 20] {
            table.mutate(&RowMutation::new("r").put_at("f", "q", timestamp, "v")).unwrap();
        }
        table.mutate(&RowMutation::new("r").delete_version("f", "q", 20)).unwrap();
        if is_merged {
            table.compact().unwrap();
        }
        tables.alter("t", (*table.schema()).clone().with_rules_of(&family(Some(1)))).unwrap();
        let cells = table.get("r", &Read::all().versions(9)).unwrap();
        cells.iter().map(|cell| cell.timestamp).collect::<Vec<i64>>()
    };
    assert_eq!([left(false), left(true)], [[10], [10]]);
}

#[test]
fn a_family_of_another_table_has_nothing_of_this_one() {
    let tables = Tables::open_in_memory(Options::default()).unwrap();
    let one = tables.create("one", Schema::new().group("a", [Family::new("wanted")])).unwrap();
    let two = tables.create("two", Schema::new().group("a", [Family::new("secret")])).unwrap();
    two.mutate(&RowMutation::new("r").put("secret", "q", "v")).unwrap();
    let other = one.schema().groups()[0].families()[0].clone();
    let new = (*two.schema()).clone().without_family("secret").with_family("a", other);
    tables.alter("two", new).unwrap();
    assert_eq!(two.get("r", &Read::all()).unwrap(), []);
    // Nor does a text do it that has numbers and does not say of which table.
    let text = two.schema().to_xml().unwrap().replacen("table=\"2\" ", "", 1);
    assert!(matches!(tables.alter("two", Schema::from_xml(&text).unwrap()), Err(Error::Schema { .. })));
}

#[test]
fn reads_and_merges_go_on_while_groups_come_and_go() {
    let tables = Tables::open_in_memory(Options::default()).unwrap();
    let table = tables.create("t", Schema::new().group("a", [Family::new("f")])).unwrap();
    table.mutate(&RowMutation::new("r").put("f", "q", "v")).unwrap();
    let is_over = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                assert_eq!(table.get("r", &Read::all()).unwrap().len(), 1);
            }
        });
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                table.compact().unwrap();
            }
        });
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                assert!(matches!(table.writer("g"), Ok(_) | Err(Error::NoFamily { .. })));
            }
        });
        for _ in 0..300 {
            tables.alter("t", (*table.schema()).clone().with_family("b", Family::new("g"))).unwrap();
            tables.alter("t", (*table.schema()).clone().without_family("g")).unwrap();
        }
        is_over.store(true, Ordering::Relaxed);
    });
}

fn rows_of(table: &Table) -> Vec<Vec<u8>> {
    let (mut scan, mut rows) = (table.scan("", "", &Read::all()).unwrap(), Vec::new());
    while scan.advance().unwrap() {
        if rows.last().map(Vec::as_slice) != Some(scan.row()) {
            rows.push(scan.row().to_vec());
        }
    }
    rows
}

#[test]
fn a_table_that_is_split_is_the_same_table() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store");
    let mut tables = Tables::open(&path, Options::default()).unwrap();
    let mut table = tables.create("t", schema()).unwrap();
    let names: Vec<Vec<u8>> = (0..100_u8).map(|row| vec![row]).collect();
    for row in &names {
        table
            .mutate(&RowMutation::new(row.as_slice()).put("f", "q", "v").put("h", "q", vec![7; 100]))
            .unwrap();
    }
    // A value that was begun before the split is good for all parts behind it.
    let mut writer = table.writer("f").unwrap();
    writer.add(&[1; 100_000]).unwrap();
    let value = writer.finish().unwrap();
    let mut before = table.scan_reversed("", "", &Read::family("f")).unwrap();
    assert!(before.advance().unwrap());
    for row in [50, 20, 80, 20] {
        table.split([row]).unwrap();
    }
    assert!(table.split("").is_err() && table.split(vec![1; crate::ROW_LEN_MAX + 1]).is_err());
    let mut seen = 1;
    while before.advance().unwrap() {
        seen += 1;
    }
    assert_eq!(seen, 100);
    drop(before);
    let last = RowMutation::new([90]).put_stored("f", "large", value.clone());
    table.mutate_rows(&[RowMutation::new([5]).put_stored("f", "large", value), last]).unwrap();
    for _ in 0..2 {
        assert_eq!(table.split_rows(), [[20], [50], [80]]);
        assert_eq!(trees(&tables).len(), 8);
        assert_eq!(rows_of(&table), names);
        assert_eq!(table.get([90], &Read::column("f", "large")).unwrap()[0].value, vec![1; 100_000]);
        let of_parts: Vec<u64> =
            table.state.shape().groups[1].trees().map(|tree| tree.count(..).unwrap()).collect();
        assert_eq!(of_parts, [20, 30, 30, 20]);
        tables.db().compact().unwrap();
        drop((table, tables));
        tables = Tables::open(&path, Options::default()).unwrap();
        table = tables.table("t").unwrap();
    }
    // A group that is dropped takes its parts along; a new one begins in one piece.
    let parts = |tables: &Tables| tables.inner.catalog.count(ScanRange::prefix("part ")).unwrap();
    assert_eq!(parts(&tables), 6);
    tables.alter("t", (*table.schema()).clone().without_family("h")).unwrap();
    assert_eq!((trees(&tables).len(), parts(&tables)), (4, 3));
    tables.alter("t", (*table.schema()).clone().with_family("b", Family::new("h"))).unwrap();
    assert_eq!(trees(&tables).len(), 5);
    table.split([50]).unwrap();
    table.mutate(&RowMutation::new([60]).put("h", "q", "v").delete_family("f")).unwrap();
    assert_eq!((trees(&tables).len(), rows_of(&table)), (6, names));
    // Merges of the parts know the families.
    table.compact().unwrap();
    assert_eq!(table.state.shape().groups[0].trees().map(|tree| tree.count(..).unwrap()).sum::<u64>(), 101);
    tables.rename("t", "u").unwrap();
    tables.drop_table("u").unwrap();
    assert_eq!((trees(&tables), parts(&tables)), (Vec::new(), 0));
    assert!(matches!(table.split([1]), Err(Error::NoTable(_))) && parts(&tables) == 0);
}

#[test]
fn a_tree_that_others_have_split_hides_no_rows() {
    // With the name of a part, with one that looks like it, and with another one.
    for other in ["table 1.1.7", "table 1.1 b", "mine"] {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("store");
        let tables = Tables::open(&path, Options::default()).unwrap();
        let table = tables.create("t", schema()).unwrap();
        let put = |row: &str| table.mutate(&RowMutation::new(row).put("f", "q", "v").put("h", "q", "v"));
        ["a", "b"].into_iter().try_for_each(put).unwrap();
        let tree = tables.db().tree("table 1.1").unwrap();
        tables.db().split(&tree, cell::row_prefix(b"b"), other).unwrap();

        let is_moved =
            |error: Error| matches!(error, Error::Store(error) if error.kind() == ErrorKind::KeyMoved);
        assert!(is_moved(table.scan("", "", &Read::all()).unwrap_err()));
        assert!(is_moved(table.get("a", &Read::family("f")).unwrap_err()));
        assert!(is_moved(put("b").unwrap_err()));
        // The other group has all of its rows.
        assert_eq!(table.get("b", &Read::family("h")).unwrap().len(), 1);
        drop((table, tables, tree));

        let is_refused = || match Tables::open(&path, Options::default()) {
            Err(Error::Damaged(message)) => {
                assert!(message.contains("\"t\"") && message.contains("\"table 1.1\""), "{message}");
            }
            other => panic!("{other:?}"),
        };
        is_refused();
        is_refused();
        let db = Db::open(&path, Options::default().compaction_rule(TableRule::default())).unwrap();
        assert_eq!(db.open_tree(other).unwrap().unwrap().count(..).unwrap(), 1, "nothing was dropped");
        // As the documents say.
        db.tree(CATALOG).unwrap().put("part 1.1.7", "b").unwrap();
        if other != "table 1.1.7" {
            db.export_tree(other, dir.path().join("export")).unwrap();
            db.import_tree(dir.path().join("export"), "table 1.1.7").unwrap();
            db.drop_tree(other).unwrap();
        }
        drop(db);
        let tables = Tables::open(&path, Options::default()).unwrap();
        let table = tables.table("t").unwrap();
        assert_eq!(
            (rows_of(&table), table.split_rows()),
            (vec![b"a".to_vec(), b"b".to_vec()], vec![b"b".to_vec()])
        );
        table.split("b").unwrap();
        table.split("c").unwrap();
        assert_eq!(trees(&tables).len(), 6);
    }
}

#[test]
fn other_trees_of_tables_that_are_split_are_refused_too() {
    let dir = tempfile::tempdir().unwrap();
    for tree in [CATALOG, "table 1.0"] {
        let path = dir.path().join(tree);
        let tables = Tables::open(&path, Options::default()).unwrap();
        let schema = Schema::new().group("a", [Family::new("f").index_values(true)]);
        let table = tables.create("t", schema).unwrap();
        tables.db().split(&tables.db().tree(tree).unwrap(), "m", "high").unwrap();
        let by_index =
            crate::Filter::column_value("f", "q", crate::Comparison::Equal, crate::Comparator::binary("v"));
        let scan = table.scan("", "", &Read::all().filter(by_index));
        assert_eq!(scan.is_err(), tree != CATALOG);
        drop((table, tables, scan));
        assert!(matches!(Tables::open(&path, Options::default()), Err(Error::Damaged(_))), "{tree}");
    }
}

#[test]
fn a_name_that_a_program_has_taken_is_no_part() {
    let tables = Tables::open_in_memory(Options::default()).unwrap();
    let table = tables.create("t", schema()).unwrap();
    tables.db().tree("table 1.1.1").unwrap().put("mine", "").unwrap();
    table.mutate_rows(&["a", "c"].map(|row| RowMutation::new(row).put("f", "q", "v"))).unwrap();
    table.split("b").unwrap();
    let names = ["table 1.1", "table 1.1.1", "table 1.1.2", "table 1.2", "table 1.2.1"];
    assert_eq!((trees(&tables), rows_of(&table).len()), (names.map(str::to_owned).to_vec(), 2));
    // Nobody hears of a part that is none.
    tables.inner.catalog.put("part 1.1.x", "a").unwrap();
    assert!(matches!(table.split("q"), Err(Error::Damaged(message)) if message.contains("part 1.1.x")));
}

/// Merges are under way while the rules of a family change.
#[test]
fn a_merge_goes_by_rules_that_are_in_force_at_its_time() {
    use esker::rules::RuleDecision::{Drop, DropPinned, Keep};
    const HOUR_MS: i64 = 3_600_000;
    let start_ms = 1_700_000_000_000_i64;
    let clock = Arc::new(Manual(AtomicU64::new(start_ms as u64 * 1000)));
    let env = Env { clock: Arc::<Manual>::clone(&clock), ..Env::system() };
    let tables = Tables::open_in_memory(Options::default().env(env)).unwrap();
    let hour = std::time::Duration::from_secs(3600);
    let table = tables.create("t", Schema::new().group("a", [Family::new("f").ttl(hour)])).unwrap();
    table.split("m").unwrap();
    let alter = |family: Family| tables.alter("t", (*table.schema()).clone().with_rules_of(&family));
    let begun = |tree: &str| tables.inner.rule.begun(tree);
    let key = |row: &[u8], timestamp: i64| {
        let version = crate::cell::Version { timestamp, sequence: u64::MAX / 4 };
        cell::entry_key(cell::column_prefix(&cell::row_prefix(row), 1, b"q"), cell::Kind::Put, version)
    };
    for (tree, row) in [("table 1.1", b"a"), ("table 1.1.1", b"n")] {
        let now_ms = table.state.shape().now_ms();
        let key = key(row, now_ms);
        // It expires behind the time at which the family lets it live on.
        let mut before = begun(tree);
        assert_eq!(begun(tree)(now_ms + HOUR_MS, &key), Keep);
        assert_eq!(begun(tree)(now_ms + HOUR_MS + 1, &key), DropPinned);
        alter(Family::new("f")).unwrap();
        assert_eq!(before(now_ms + HOUR_MS + 1, &key), Keep);
        assert_eq!(begun(tree)(now_ms + HOUR_MS + 1, &key), Keep);
        // A change that fails changes nothing.
        assert!(alter(Family::new("f").max_versions(0)).is_err());
        assert_eq!(begun(tree)(now_ms + HOUR_MS + 1, &key), Keep);
        // Now it expires at once. Readers of the time of the change may still want it.
        clock.0.fetch_add(2 * HOUR_MS as u64 * 1000, Ordering::Relaxed);
        alter(Family::new("f").ttl(hour)).unwrap();
        let now_ms = now_ms + 2 * HOUR_MS;
        assert_eq!((begun(tree)(now_ms, &key), begun(tree)(now_ms + 1, &key)), (Drop, DropPinned));
        // So it is when the table is split.
        clock.0.fetch_add(5000, Ordering::Relaxed);
        table.split([row[0] + 1]).unwrap();
        assert_eq!((begun(tree)(now_ms + 5, &key), begun(tree)(now_ms + 6, &key)), (Drop, DropPinned));
    }
    let mut before = begun("table 1.1");
    tables.drop_table("t").unwrap();
    let now_ms = table.state.shape().now_ms();
    assert_eq!(before(now_ms + HOUR_MS + 1, &key(b"a", now_ms)), Keep);
    assert_eq!(begun("table 1.1")(now_ms + HOUR_MS + 1, &key(b"a", now_ms)), Keep);
}

#[test]
fn a_split_that_has_failed_is_done_by_the_next_one() {
    let tables = Tables::open_in_memory(Options::default()).unwrap();
    let table = tables.create("t", schema()).unwrap();
    // As it leaves the catalog.
    tables.inner.catalog.put("part 1.1.5", "b").unwrap();
    table.split("b").unwrap();
    table.split("c").unwrap();
    let names = ["table 1.1", "table 1.1.5", "table 1.1.6", "table 1.2", "table 1.2.1", "table 1.2.2"];
    assert_eq!(trees(&tables), names);
    assert_eq!(tables.inner.catalog.count(ScanRange::prefix("part ")).unwrap(), 4);
}

#[test]
fn a_reader_that_begins_during_a_split_finds_each_row_once() {
    for is_behind in [false, true] {
        let tables = Tables::open_in_memory(Options::default()).unwrap();
        let table = tables.create("t", schema()).unwrap();
        let rows = ["a", "b", "c", "d"];
        rows.iter().for_each(|row| table.mutate(&RowMutation::new(*row).put("f", "q", "v")).unwrap());
        let snapshot = || {
            let snapshot = tables.db().snapshot();
            table.split("b").unwrap();
            // The table is split before or behind the snapshot that counts.
            if is_behind { tables.db().snapshot() } else { snapshot }
        };
        let mut live = Live::of(snapshot, &table.state, &Read::family("f"), [Span::all()], false).unwrap();
        let mut found = Vec::new();
        while live.advance().unwrap() {
            found.push(String::from_utf8(live.row().to_vec()).unwrap());
        }
        assert_eq!(found, rows);
    }
}

/// At how many families the work on a table looks that has `count` of them, in one group, for each time that it finds one.
fn looks_of(count: usize) -> Vec<u64> {
    let tables = Tables::open_in_memory(Options::default()).unwrap();
    let names: Vec<String> = (0..count).map(|number| format!("f{number:05}")).collect();
    let families = names.iter().map(|name| Family::new(name.as_str()));
    let table = tables.create("t", Schema::new().group("a", families)).unwrap();
    let (first, last) = (names[0].as_str(), names[count - 1].as_str());
    let mut looks = Vec::new();
    let mut note = |found: usize, work: &dyn Fn()| {
        work::take();
        work();
        looks.push(work::take().div_ceil(found as u64));
    };
    note(101, &|| {
        let row = |number: usize| RowMutation::new(format!("r{number}"));
        let puts = (0..100).map(|number| row(number).put(last, "q", "v"));
        table.mutate_rows(&puts.chain([row(7).delete_column(last, "q")]).collect::<Vec<_>>()).unwrap();
    });
    note(1, &|| table.mutate(&RowMutation::new("r8").delete_version(last, "q", 1)).unwrap());
    note(1, &|| table.mutate(&RowMutation::new("r9").delete_family(last)).unwrap());
    note(1, &|| assert_eq!(table.increment("n", last, "q", 1).unwrap(), 1));
    note(1, &|| {
        assert!(
            table
                .check_and_mutate(&[Check::absent(last, "x")], &RowMutation::new("c").put(first, "", ""))
                .unwrap()
        );
    });
    note(1, &|| assert_eq!(table.get("r1", &Read::column(last, "q")).unwrap().len(), 1));
    note(1, &|| drop(table.writer(last).unwrap()));
    note(count, &|| {
        let all = names[1..].iter().fold(Read::family(first), |read, name| read.family_too(name));
        assert_eq!(table.get("r1", &all).unwrap(), table.get("r1", &Read::all()).unwrap());
    });
    // A change of the schema looks for each of its families.
    note(count, &|| tables.alter("t", (*table.schema()).clone()).unwrap());
    looks
}

#[test]
fn what_it_takes_to_find_a_family_does_not_grow_with_their_number() {
    let (few, many) = (looks_of(10), looks_of(10_000));
    println!("{few:?} {many:?}");
    for (place, (few, many)) in few.into_iter().zip(many).enumerate() {
        assert!(0 < few && many <= few.max(20) * 4, "{place}: {few} {many}");
    }
}

#[test]
fn many_deletes_of_rows_in_many_groups_are_not_done_at_once() {
    let tables = Tables::open_in_memory(Options::default()).unwrap();
    let with_groups = |count: usize| {
        (0..count).fold(Schema::new(), |schema, group| {
            schema.group(format!("g{group}"), [Family::new(format!("f{group}"))])
        })
    };
    let row = |number: usize| RowMutation::new(format!("{number:0>32767}"));
    let deletes = |count: usize| (0..count).map(|number| row(number).delete_row()).collect::<Vec<_>>();
    let is_refused = |done: Result<()>| match done {
        Err(Error::Invalid(message)) => message.contains("delete fewer rows in one call"),
        done => done.map(|()| false).unwrap(),
    };
    let table = tables.create("t", with_groups(21)).unwrap();
    table.mutate(&row(0).put("f20", "q", "v")).unwrap();
    // 20 groups more than one, and each entry takes 32,869 bytes: 102 deletes take less than 64 MiB, and 103 more.
    assert!(is_refused(table.mutate_rows(&deletes(103))));
    let of_one_row = (0..103).fold(row(1), RowMutation::delete_row_up_to);
    assert!(is_refused(table.mutate(&of_one_row)));
    assert_eq!(table.get(row(0).row(), &Read::all()).unwrap().len(), 1);
    assert!(!is_refused(table.mutate_rows(&deletes(102))));
    assert_eq!(table.get(row(0).row(), &Read::all()).unwrap(), []);
    // What takes no more than the caller has sent has no limit, and one delete has none.
    let single = tables.create("single", with_groups(1)).unwrap();
    assert!(!is_refused(single.mutate_rows(&deletes(2100))));
    let wide = tables.create("wide", with_groups(1_000)).unwrap();
    let zeros = |number: u8| RowMutation::new([&[0; 16_000][..], &[number]].concat()).delete_row();
    assert!(!is_refused(wide.mutate_rows(&[row(1).delete_row(), row(2).put("f7", "q", "v")])));
    assert!(!is_refused(wide.mutate_rows(&[zeros(1), zeros(2)])));
    assert!(is_refused(wide.mutate_rows(&[zeros(1), zeros(2), zeros(3)])));
    assert!(is_refused(wide.mutate_rows(&deletes(3))));
    // A condition that does not hold is told.
    let checks = [Check::present("f0", "q")];
    let mutation = (0..3).fold(row(1), RowMutation::delete_row_up_to);
    assert!(!wide.check_and_mutate(&checks, &mutation).unwrap());
    assert!(tables.create("wider", with_groups(1_001)).is_err());
}
