use esker::Options;

use super::*;
use crate::schema::Family;

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
    let made = table.schema().clone();
    drop((table, tables));

    let tables = Tables::open(&path, Options::default()).unwrap();
    let table = tables.table("t").unwrap();
    assert_eq!((tables.names(), table.schema()), (vec!["t".to_owned()], &made));
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
    drop(tables);

    let tables = Tables::open(&path, Options::default()).unwrap();
    assert_eq!(trees(&tables), [kept, vec!["table of contents".to_owned()]].concat());
    assert_eq!(tables.create("u", schema()).unwrap().get("r", &Read::all()).unwrap(), []);

    // Within one opening, what a failed creation has left is in nobody's way.
    left_by_a_failure(&tables, 3);
    assert_eq!(tables.create("v", schema()).unwrap().get("r", &Read::all()).unwrap(), []);
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
    table.state.trees[0].put("no cell", "?").unwrap();
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
