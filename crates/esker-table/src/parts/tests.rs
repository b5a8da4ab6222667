use esker::{Db, Options, TreeOptions};
use esker_journal::Local;

use super::*;

/// A group of trees with these first rows, in a store, and the same keys in one tree.
fn both(rows: &[&str], keys: &[Vec<u8>]) -> (Db, Parts, Tree) {
    let db = Db::open_in_memory(Options::default()).unwrap();
    let divisions: Vec<Division> = (1..).zip(rows).map(|(number, row)| division(number, row)).collect();
    db.create_tree("g", TreeOptions::default()).unwrap();
    let parts = Parts::open(&Local::new(&db), "g", &divisions).unwrap();
    let one = db.tree("one").unwrap();
    for key in keys {
        parts.tree_of(key).put(key, "").unwrap();
        one.put(key, "").unwrap();
    }
    (db, parts, one)
}

fn division(number: u32, row: &str) -> Division {
    Division { number, row: row.as_bytes().to_vec() }
}

fn keys(rows: &[&str]) -> Vec<Vec<u8>> {
    rows.iter()
        .flat_map(|row| [1, 2].map(|end| [cell::row_prefix(row.as_bytes()), vec![end]].concat()))
        .collect()
}

#[test]
fn a_cursor_over_parts_goes_as_one_over_a_tree() {
    let mut rng = test_kit::Rng::new(test_kit::seed(1));
    let mut below = |bound: usize| rng.index(bound);
    let all = ["a", "a\0", "b", "c", "d", "e", "f"];
    let mut some = |count: usize| -> Vec<&str> {
        let start = below(2);
        all.iter().skip(start).filter(|_| below(7) < count).copied().collect()
    };
    for _ in 0..30 {
        let (rows, borders) = (some(4), some(3));
        let (db, parts, one) = both(&borders, &keys(&rows));
        let snapshot = db.snapshot();
        let (mut found, mut expected) =
            (parts.cursor(&snapshot, &[Span::all()]).unwrap(), one.cursor().unwrap());
        for step in 0..100 {
            let key = cell::row_prefix(all[step * 31 % all.len()].as_bytes());
            let moved = match (step * step + rows.len()) % 7 {
                0 => (found.seek(&key).unwrap(), expected.seek(&key).unwrap()),
                1 => (found.seek_for_prev(&key).unwrap(), expected.seek_for_prev(&key).unwrap()),
                2 => (found.last().unwrap(), expected.last().unwrap()),
                _ if expected.key().is_empty() => continue,
                _ => (found.next().unwrap(), expected.next().unwrap()),
            };
            assert!(moved.0 == moved.1 && found.key() == expected.key(), "{rows:?} {borders:?} {step}");
        }
    }
}

#[test]
fn a_cursor_opens_the_parts_of_its_spans_alone() {
    let (db, parts, _) = both(&["b", "c", "d"], &keys(&["a", "b", "c", "d", "e"]));
    let opened = |spans: &[Span]| {
        let mut cursor = parts.cursor(&db.snapshot(), spans).unwrap();
        let mut rows = String::new();
        let mut is_at_one = cursor.seek("").unwrap();
        while is_at_one {
            rows.push(char::from(cursor.key()[0]));
            is_at_one = cursor.next().unwrap();
        }
        rows
    };
    assert_eq!(opened(&[Span::all()]), "aabbccddee");
    assert_eq!(opened(&[Span::row("c")]), "cc");
    assert_eq!(opened(&[Span::rows("a".."b"), Span::rows("d"..)]), "aaddee");
    assert_eq!(opened(&[Span::rows("b"..="c")]), "bbcc");
    assert_eq!(opened(&[Span::cells_through("b", "f", "q").and(&Span::cells_from("b", "f", ""))]), "bb");
    assert_eq!(opened(&[Span::cells_from("b", "f", "q").and(&Span::rows(.."c"))]), "bb");
    // Nothing is asked for.
    assert_eq!(opened(&[]), "aa");
}

#[test]
fn what_is_missing_is_split_off_and_what_others_have_split_is_refused() {
    let (db, parts, _) = both(&["c"], &keys(&["a", "b", "c", "d", "e"]));
    let count = |parts: &Parts| -> Vec<u64> { parts.trees().map(|tree| tree.count(..).unwrap()).collect() };
    assert_eq!(count(&parts), [4, 6]);
    let divisions = [division(1, "c"), division(2, "e"), division(3, "b")];
    assert_eq!(count(&Parts::open(&Local::new(&db), "g", &divisions).unwrap()), [2, 2, 4, 2]);
    // Twice, it finds all.
    let parts = Parts::open(&Local::new(&db), "g", &divisions).unwrap();
    assert_eq!(count(&parts), [2, 2, 4, 2]);

    db.split(&db.tree("g.1").unwrap(), cell::row_prefix(b"d"), "other").unwrap();
    let refused = |parts: Result<Cursor>| match parts {
        Err(Error::Store(error)) => assert_eq!(error.kind(), ErrorKind::KeyMoved),
        _ => panic!("the rows of \"other\" are missing"),
    };
    refused(parts.cursor(&db.snapshot(), &[Span::all()]));
    refused(parts.cursor(&db.snapshot(), &[Span::row("c")]));
    assert!(
        matches!(Parts::open(&Local::new(&db), "g", &divisions), Err(Error::Damaged(message)) if message.contains("g.1"))
    );
    db.drop_tree("g.2").unwrap();
    assert!(matches!(Parts::open(&Local::new(&db), "g", &divisions), Err(Error::Damaged(_))));
}
