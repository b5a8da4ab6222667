//! Cursors that stay open and go to and fro, and ranges that are read from both ends.

use std::collections::VecDeque;

use esker::{Cursor, ErrorKind, Tree, ValueRef};

use crate::model::Bytes;
use crate::ops::{Move, Op, Range, TREES};
use crate::session::{Check, Session, digest, kind_of, same};
use crate::values::read;

/// A cursor, the pairs that it should show, and where among them it should be.
pub(crate) struct OpenCursor {
    cursor: Cursor,
    handle: Tree,
    tree: usize,
    pub(crate) keeps_snapshot: bool,
    pairs: Vec<(Bytes, Bytes)>,
    place: Place,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Place {
    Unset,
    Before,
    Pair(usize),
    Behind,
}

/// What is lent must be the same in every way in which it can be taken.
fn lent(value: ValueRef<'_>) -> Check<Vec<u8>> {
    let bytes = value.bytes()?.into_owned();
    let kept = value.to_value()?;
    same!((value.len(), value.is_empty()), (bytes.len() as u64, bytes.is_empty()), "a length that is lent");
    same!(read(&kept)?, bytes, "a value that is lent and one that is kept");
    same!(value.expires_us(), kept.expires_us(), "when a value that is lent expires");
    Ok(bytes)
}

impl OpenCursor {
    fn go(&mut self, to: &Move) -> Check<()> {
        let len = self.pairs.len();
        let from = |index: usize| if index < len { Place::Pair(index) } else { Place::Behind };
        let until = |end: usize| end.checked_sub(1).map_or(Place::Before, Place::Pair);
        let (moved, place) = match (to, self.place) {
            (Move::First, _) => (self.cursor.first()?, from(0)),
            (Move::Last, _) => (self.cursor.last()?, until(len)),
            (Move::Seek(to), _) => {
                (self.cursor.seek(&**to)?, from(self.pairs.partition_point(|(key, _)| **key < **to)))
            }
            (Move::SeekForPrev(to), _) => (
                self.cursor.seek_for_prev(&**to)?,
                until(self.pairs.partition_point(|(key, _)| **key <= **to)),
            ),
            (Move::Next, Place::Pair(index)) => (self.cursor.next()?, from(index + 1)),
            (Move::Next, Place::Behind) => (self.cursor.next()?, Place::Behind),
            (Move::Next, _) => (self.cursor.next()?, from(0)),
            (Move::Prev, Place::Pair(index)) => (self.cursor.prev()?, until(index)),
            (Move::Prev, Place::Before) => (self.cursor.prev()?, Place::Before),
            (Move::Prev, _) => (self.cursor.prev()?, until(len)),
        };
        same!(moved, matches!(place, Place::Pair(_)), "whether {to:?} from {:?} finds a pair", self.place);
        self.place = place;
        self.check(&format!("after {to:?}"))
    }

    fn check(&self, when: &str) -> Check<()> {
        let (key, value): (&[u8], &[u8]) = match self.place {
            Place::Pair(index) => (&self.pairs[index].0, &self.pairs[index].1),
            _ => (&[], &[]),
        };
        same!(self.cursor.key(), key, "the key of a cursor {when}");
        same!(lent(self.cursor.value())?, value, "the value of a cursor {when}");
        Ok(())
    }
}

impl Session {
    pub(crate) fn apply_cursor(&mut self, op: &Op) -> Check<u64> {
        match op {
            Op::OpenCursor { slot, tree, snapshot } => {
                let Some(handle) = self.tree(*tree)? else { return Ok(0) };
                let snapshot = snapshot.and_then(|slot| self.snapshots[slot].clone());
                let at = snapshot.as_ref().map_or(self.model.now, |(_, at)| *at);
                let cursor = match &snapshot {
                    Some((snapshot, _)) => snapshot.cursor(&handle)?,
                    None => handle.cursor()?,
                };
                let pairs = self.model.trees[TREES[*tree]].scan(&Range::all(), at);
                let (keeps_snapshot, tree) = (snapshot.is_some(), *tree);
                let place = Place::Unset;
                self.cursors[*slot] = Some(OpenCursor { cursor, handle, tree, keeps_snapshot, pairs, place });
            }
            Op::MoveCursor { slot, moves } => {
                if let Some(open) = &mut self.cursors[*slot] {
                    open.check("before it moves")?;
                    moves.iter().try_for_each(|to| open.go(to))?;
                    return Ok(digest((open.place, open.cursor.key())));
                }
            }
            Op::RefreshCursor { slot } => self.refresh(*slot)?,
            Op::CloseCursor { slot } => self.cursors[*slot] = None,
            Op::BothEnds { tree, range, snapshot, ends, copies } => {
                let Some(handle) = self.tree(*tree)? else { return Ok(0) };
                let snapshot = snapshot.and_then(|slot| self.snapshots[slot].clone());
                let at = snapshot.as_ref().map_or(self.model.now, |(_, at)| *at);
                let expected = self.model.trees[TREES[*tree]].scan(range, at);
                let read = match &snapshot {
                    Some((snapshot, _)) => snapshot.range(&handle, range.to_scan_range())?,
                    None => handle.range(range.to_scan_range())?,
                };
                match copies {
                    true => take_copies(read, expected.iter().collect(), ends)?,
                    false => take_lent(read, expected.iter().collect(), ends)?,
                }
                return Ok(digest(&expected));
            }
            _ => {}
        }
        Ok(0)
    }

    fn refresh(&mut self, slot: usize) -> Check<()> {
        let Some(open) = &mut self.cursors[slot] else { return Ok(()) };
        let refreshed = open.cursor.refresh();
        if !open.keeps_snapshot && kind_of(open.handle.contains("k")) == Some(ErrorKind::TreeDropped) {
            same!(kind_of(refreshed), Some(ErrorKind::TreeDropped), "a cursor of a dropped tree, refreshed");
            return open.check("that cannot be refreshed");
        }
        refreshed?;
        if !open.keeps_snapshot {
            open.pairs = self.model.trees[TREES[open.tree]].scan(&Range::all(), self.model.now);
        }
        open.place = Place::Unset;
        open.check("that was refreshed")
    }
}

type Expected<'a> = VecDeque<&'a (Bytes, Bytes)>;

/// Takes all pairs of `range`, from the ends that `ends` says in turn: `true` is the back.
fn take_lent(mut range: esker::Range, mut expected: Expected<'_>, ends: &[bool]) -> Check<()> {
    for &back in ends.iter().cycle() {
        let (got, due) = match back {
            true => (range.next_back_ref()?, expected.pop_back()),
            false => (range.next_ref()?, expected.pop_front()),
        };
        let got = match got {
            Some((key, value)) => Some((key, lent(value)?)),
            None => None,
        };
        let got = got.as_ref().map(|(key, value)| (*key, &**value));
        same!(got, due.map(|(key, value)| (&**key, &**value)), "a range, at its back: {back}");
        if due.is_none() {
            break;
        }
    }
    same!(
        (range.next_ref()?.is_none(), range.next_back_ref()?.is_none()),
        (true, true),
        "a range that is over"
    );
    Ok(())
}

/// The same with copies.
fn take_copies(range: esker::Range, mut expected: Expected<'_>, ends: &[bool]) -> Check<()> {
    let mut pairs = range.into_iter();
    for &back in ends.iter().cycle() {
        let (got, due) = match back {
            true => (pairs.next_back(), expected.pop_back()),
            false => (pairs.next(), expected.pop_front()),
        };
        let got = got.transpose()?;
        let got = got.as_ref().map(|(key, value)| (&**key, &**value));
        same!(got, due.map(|(key, value)| (&**key, &**value)), "copies of a range, at its back: {back}");
        if due.is_none() {
            break;
        }
    }
    Ok(())
}
