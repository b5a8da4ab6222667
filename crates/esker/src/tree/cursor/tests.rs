use std::time::Duration;

use super::*;
use crate::db::Db;
use crate::env::{Env, StepExecutor};
use crate::operators::APPEND;
use crate::options::Options;

const fn goes_to_another_thread<T: Send>() {}
const _: () = goes_to_another_thread::<Cursor>();
const _: () = goes_to_another_thread::<crate::read::both_ends::Range>();

const EXPECTED: [(&str, &str); 6] =
    [("apple", "1"), ("cherry", "12"), ("date", "2"), ("elder", "2"), ("grape", "3"), ("hazel", "old")];

/// A tree with two tables and a memtable, in which entries of every kind hide others.
fn tree() -> (Db, Tree) {
    let env = Env { executor: Some(std::sync::Arc::new(StepExecutor)), ..Env::system() };
    let db = Db::open_in_memory(Options::default().env(env)).unwrap();
    let tree = db.tree("fruit").unwrap();
    for key in ["apple", "banana", "cherry", "date", "eel", "elder", "grape"] {
        tree.put(key, "1").unwrap();
    }
    tree.delete_range("e".."f").unwrap();
    db.flush().unwrap();
    tree.delete("banana").unwrap();
    tree.merge("cherry", APPEND, "2").unwrap();
    tree.put("elder", "2").unwrap();
    tree.put_for("fig", "gone", Duration::ZERO).unwrap();
    tree.delete("grape").unwrap();
    db.flush().unwrap();
    tree.put("date", "2").unwrap();
    tree.merge("grape", APPEND, "3").unwrap();
    tree.put("hazel", "old").unwrap();
    (db, tree)
}

/// Writes after a cursor or a range was made.
fn write_more(tree: &Tree) {
    tree.put("aaa", "new").unwrap();
    tree.put("hazel", "new").unwrap();
    tree.delete("date").unwrap();
    tree.delete_range("cherry".."d").unwrap();
}

#[derive(Debug, Clone, Copy)]
enum Move {
    First,
    Last,
    Seek(&'static str),
    SeekForPrev(&'static str),
    Next,
    Prev,
}

const MOVES: [Move; 10] = [
    Move::First,
    Move::Last,
    Move::Seek("a"),
    Move::Seek("date"),
    Move::Seek("zoo"),
    Move::SeekForPrev("a"),
    Move::SeekForPrev("date"),
    Move::SeekForPrev("fig"),
    Move::Next,
    Move::Prev,
];

impl Move {
    fn of(self, cursor: &mut Cursor) -> Result<bool> {
        match self {
            Move::First => cursor.first(),
            Move::Last => cursor.last(),
            Move::Seek(key) => cursor.seek(key),
            Move::SeekForPrev(key) => cursor.seek_for_prev(key),
            Move::Next => cursor.next(),
            Move::Prev => cursor.prev(),
        }
    }

    /// The position among the expected pairs to which it leads from `at`; -1 is before them, `None` is unset.
    fn from(self, at: Option<isize>) -> isize {
        let count = |is_before: &dyn Fn(&str) -> bool| {
            EXPECTED.iter().filter(|(key, _)| is_before(key)).count() as isize
        };
        let len = EXPECTED.len() as isize;
        match self {
            Move::First => 0,
            Move::Last => len - 1,
            Move::Seek(to) => count(&|key| key < to),
            Move::SeekForPrev(to) => count(&|key| key <= to) - 1,
            Move::Next => at.map_or(0, |at| (at + 1).min(len)),
            Move::Prev => at.map_or(len - 1, |at| (at - 1).max(-1)),
        }
    }
}

fn shown(cursor: &Cursor) -> Option<(Vec<u8>, Vec<u8>)> {
    let value = cursor.value();
    assert_eq!(value.len(), value.bytes().unwrap().len() as u64);
    assert_eq!(value.to_value().unwrap().bytes().unwrap(), value.bytes().unwrap());
    (!cursor.key().is_empty()).then(|| (cursor.key().to_vec(), value.bytes().unwrap().into_owned()))
}

fn expected(at: isize) -> Option<(Vec<u8>, Vec<u8>)> {
    let pair = usize::try_from(at).ok().and_then(|at| EXPECTED.get(at));
    pair.map(|(key, value)| (key.as_bytes().to_vec(), value.as_bytes().to_vec()))
}

#[test]
fn every_four_moves_lead_where_they_should() {
    let (_db, tree) = tree();
    let mut cursor = tree.cursor().unwrap();
    write_more(&tree);
    for number in 0..MOVES.len().pow(4) {
        let moves: Vec<Move> = (0..4).map(|i| MOVES[number / MOVES.len().pow(i) % MOVES.len()]).collect();
        // As a new cursor would be.
        (cursor.at, _) = (At::Unset, cursor.scan.leave());
        let mut at = None;
        for (i, to) in moves.iter().enumerate() {
            let place = to.from(at);
            at = Some(place);
            assert_eq!(to.of(&mut cursor).unwrap(), expected(place).is_some(), "{moves:?}, move {i}");
            assert_eq!(shown(&cursor), expected(place), "{moves:?}, move {i}");
        }
    }
}

#[test]
fn the_ends_of_a_range_meet_wherever_they_do() {
    let (db, tree) = tree();
    let snapshot = db.snapshot();
    let ranges: Vec<_> = (0..2 << EXPECTED.len()).map(|_| tree.iter().unwrap()).collect();
    write_more(&tree);
    for (pattern, mut range) in ranges.into_iter().enumerate() {
        let mut left: Vec<_> = (0..EXPECTED.len() as isize).filter_map(expected).collect();
        for i in 0..=EXPECTED.len() {
            let back = pattern >> i & 1 == 1;
            let due = match back {
                true => left.pop(),
                false => (!left.is_empty()).then(|| left.remove(0)),
            };
            let got = if back { range.next_back_ref() } else { range.next_ref() };
            let got = got.unwrap().map(|(key, value)| (key.to_vec(), value.bytes().unwrap().into_owned()));
            assert_eq!(got, due, "pattern {pattern:b}, step {i}");
        }
        assert!(range.next_ref().unwrap().is_none() && range.next_back_ref().unwrap().is_none());
    }
    let reversed = snapshot.range(&tree, ScanRange::from("b"..="date").reverse().keys_only()).unwrap();
    let mut pairs = reversed.into_iter().map(Result::unwrap);
    assert_eq!(pairs.next(), Some((b"date".to_vec(), Vec::new())));
    assert_eq!(pairs.next_back(), Some((b"cherry".to_vec(), Vec::new())));
    assert_eq!((pairs.next(), pairs.next_back()), (None, None));
    assert_eq!(tree.prefix("e").unwrap().count(), 1);
}

#[test]
fn a_refreshed_cursor_sees_what_was_written() {
    let (db, tree) = tree();
    let snapshot = db.snapshot();
    let (mut cursor, mut fixed) = (tree.cursor().unwrap(), snapshot.cursor(&tree).unwrap());
    for round in 0..6_u8 {
        tree.put([b'z', round], "new").unwrap();
        match round {
            2 => db.flush().unwrap(),
            3 => db.compact().unwrap(),
            4 => tree.delete_range([b'z', 0]..[b'z', 4]).unwrap(),
            _ => {}
        }
        assert!(cursor.last().unwrap() && cursor.key() < &[b'z', round][..], "round {round}");
        for cursor in [&mut cursor, &mut fixed] {
            cursor.refresh().unwrap();
            assert_eq!(shown(cursor), None);
        }
        assert!(cursor.last().unwrap() && cursor.key() == [b'z', round], "round {round}");
        assert!(cursor.prev().unwrap());
        let before = match round {
            0 | 4 => b"hazel".to_vec(),
            _ => vec![b'z', round - 1],
        };
        assert_eq!(cursor.key(), before, "round {round}");
        assert!(fixed.last().unwrap() && fixed.key() == b"hazel");
    }
    db.drop_tree("fruit").unwrap();
    assert!(cursor.refresh().is_err());
    assert!(cursor.last().unwrap(), "the cursor keeps its moment");
}
