//! Values that come as streams, and values that are held while the store goes on.

use std::io::{Read, Write};
use std::sync::Arc;

use esker::{Batch, Durability, ErrorKind, Tree, Value, ValueMap, ValueReader, ValueWriter};

use crate::common::ttl;
use crate::model::Bytes;
use crate::ops::{Key, Op, Recipe, StreamEnd, TREES};
use crate::session::{Check, Session, digest, kind_of, same};
use crate::values::read;

/// A value that is being written.
pub(crate) struct OpenStream {
    writer: ValueWriter,
    handle: Tree,
    tree: usize,
    key: Key,
    value: Bytes,
    /// The hour from which on it is gone.
    until: Option<u64>,
    fed: usize,
    /// Its tree was dropped.
    orphaned: bool,
}

/// A value that was found and may be gone from the store since.
pub(crate) struct Held {
    value: Value,
    expected: Bytes,
    reader: ValueReader<'static>,
    at: usize,
    /// Looked at in place, for some.
    map: Option<ValueMap>,
}

/// Gives out `left` in pieces, and then its end or an error.
struct Source<'a> {
    left: &'a [u8],
    piece: usize,
    fails: bool,
}

impl Read for Source<'_> {
    fn read(&mut self, buf: &mut [u8]) -> std::io::Result<usize> {
        if self.left.is_empty() && self.fails {
            return Err(std::io::Error::other("the source ends early"));
        }
        let len = buf.len().min(self.piece);
        self.left.read(&mut buf[..len])
    }
}

impl Session {
    pub(crate) fn apply_huge(&mut self, op: &Op) -> Check<u64> {
        match op {
            Op::PutFrom { tree, key, value, piece, fails } => {
                self.put_from(*tree, key, *value, *piece as usize, *fails)
            }
            Op::BeginStream { slot, tree, key, value, hours } => {
                let Some(handle) = self.tree(*tree)? else { return Ok(0) };
                let mut writer = handle.writer(&**key)?;
                if let Some(hours) = hours {
                    writer = writer.expiring_after(ttl(*hours));
                }
                let (tree, key, value, until) = (*tree, key.clone(), value.bytes(), self.until(*hours));
                self.streams[*slot] =
                    Some(OpenStream { writer, handle, tree, key, value, until, fed: 0, orphaned: false });
                Ok(0)
            }
            Op::FeedStream { slot, len } => {
                let Some(stream) = &mut self.streams[*slot] else { return Ok(0) };
                stream.feed(*len as usize)?;
                Ok(stream.writer.len())
            }
            Op::EndStream { slot, how } => self.end_stream(*slot, *how),
            Op::Hold { slot, tree, key, snapshot } => self.hold(*slot, *tree, key, *snapshot),
            Op::ReadHeld { slot, from, len } => {
                let Some(held) = &self.held[*slot] else { return Ok(0) };
                held.read(u64::from(*from), u64::from(*len))
            }
            Op::StreamHeld { slot, len } => {
                let Some(held) = &mut self.held[*slot] else { return Ok(0) };
                held.go_on(*len as usize)
            }
            Op::LetGo { slot } => {
                if let Some(held) = self.held[*slot].take() {
                    held.check_map()?;
                    same!(read(&held.value)?, &held.expected[..], "a value that was held");
                }
                Ok(0)
            }
            _ => Ok(0),
        }
    }

    fn put_from(&mut self, tree: usize, key: &Key, value: Recipe, piece: usize, fails: bool) -> Check<u64> {
        let Some(handle) = self.tree(tree)? else { return Ok(0) };
        let value = value.bytes();
        let put = handle.put_from(&**key, Source { left: &value, piece, fails });
        if fails {
            same!(kind_of(put), Some(ErrorKind::Io), "a put from a source that fails");
            return Ok(0);
        }
        same!(put?, value.len() as u64, "how much was put");
        self.note(tree, key, Some((value, None.into())));
        Ok(0)
    }

    fn end_stream(&mut self, slot: usize, how: StreamEnd) -> Check<u64> {
        let Some(mut stream) = self.streams[slot].take() else { return Ok(0) };
        if how == StreamEnd::Abandon {
            return Ok(0);
        }
        stream.feed(usize::MAX)?;
        let OpenStream { writer, handle, tree, key, value, until, orphaned, .. } = stream;
        let len = value.len() as u64;
        same!((writer.len(), writer.is_empty()), (len, len == 0), "the length of a stream");
        let mut writes = vec![(TREES[tree].to_owned(), Arc::clone(&key.0), Some((value, until.into())))];
        let ended = match how {
            StreamEnd::Batch => {
                let beside: Bytes = Arc::from(&b"beside a stream"[..]);
                writes.push((
                    TREES[0].to_owned(),
                    Arc::clone(&beside),
                    Some((Arc::clone(&beside), None.into())),
                ));
                let again: Bytes = Arc::from(&b"a stream once more"[..]);
                let (_, _, whole) = &writes[0];
                writes.push((TREES[tree].to_owned(), Arc::clone(&again), whole.clone()));
                writer.finish().and_then(|stored| {
                    let mut batch = Batch::new();
                    batch.put_stored(&handle, &*key, &stored)?;
                    batch.put(self.db().default_tree(), &beside, &beside)?;
                    // A batch that is dropped takes nothing with it.
                    drop(batch.clone());
                    batch.put_stored(&handle, &again, &stored)?;
                    self.db().write(&batch).map(drop)
                })
            }
            StreamEnd::Power => writer.commit_with(Durability::Power),
            _ => writer.commit(),
        };
        if orphaned {
            same!(kind_of(ended), Some(ErrorKind::TreeDropped), "a stream to a dropped tree");
            return Ok(1);
        }
        ended?;
        let oldest = self.oldest();
        self.model.write(&writes, oldest);
        Ok(0)
    }

    fn hold(&mut self, slot: usize, tree: usize, key: &Key, snapshot: Option<usize>) -> Check<u64> {
        let Some(handle) = self.tree(tree)? else { return Ok(0) };
        let model = self.model.trees.get(TREES[tree]);
        let (found, expected) = match snapshot.and_then(|slot| self.snapshots[slot].as_ref()) {
            Some((snapshot, at)) => {
                (snapshot.get(&handle, &**key)?, model.and_then(|tree| tree.get(key, *at)))
            }
            None => (handle.get(&**key)?, model.and_then(|tree| tree.get(key, self.model.now))),
        };
        same!(
            found.as_ref().map(Value::len),
            expected.as_ref().map(|value| value.len() as u64),
            "the length of {key:?}"
        );
        let held = match found.zip(expected) {
            Some((value, expected)) => {
                let map = if slot.is_multiple_of(2) { Some(value.clone().map()?) } else { None };
                let reader = value.clone().into_reader();
                Some(Held { value, expected, reader, at: 0, map })
            }
            None => None,
        };
        let result = digest(held.as_ref().map(|held| &held.expected));
        self.held[slot] = held;
        Ok(result)
    }

    /// A tree goes: streams to it cannot be committed any more.
    pub(crate) fn orphan_streams(&mut self, tree: usize) {
        for stream in self.streams.iter_mut().flatten().filter(|stream| stream.tree == tree) {
            stream.orphaned = true;
        }
    }
}

impl OpenStream {
    fn feed(&mut self, len: usize) -> Check<()> {
        let end = self.value.len().min(self.fed.saturating_add(len));
        self.writer.write_all(&self.value[self.fed..end])?;
        self.fed = end;
        Ok(())
    }

    /// The store is closed.
    pub(crate) fn check_closed(self) -> Check<()> {
        same!(kind_of(self.writer.commit()), Some(ErrorKind::Closed), "a commit after close");
        Ok(())
    }
}

impl Held {
    /// Reads a range that may end, or begin, a little behind the value.
    fn read(&self, from: u64, len: u64) -> Check<u64> {
        let whole = self.expected.len() as u64;
        let from = from % (whole + whole / 16 + 3);
        let end = from + len % (whole + whole / 16 + 3);
        self.check_map()?;
        let cut = |at: u64| at.min(whole) as usize;
        let expected = &self.expected[cut(from)..cut(end)];
        same!(self.value.read_at(from..end)?, expected, "bytes {from}..{end} of {whole}");
        let mut exactly = vec![0; (end - from) as usize];
        let read = self.value.read_exact_at(from, &mut exactly);
        if end > whole {
            same!(kind_of(read), Some(ErrorKind::InvalidInput), "bytes {from}..{end} of {whole}, exactly");
        } else {
            read?;
            same!(exactly, expected, "bytes {from}..{end} of {whole}, exactly");
        }
        Ok(digest(expected))
    }

    fn go_on(&mut self, len: usize) -> Check<u64> {
        let end = self.expected.len().min(self.at + len);
        let expected = &self.expected[self.at..end];
        let mut bytes = Vec::new();
        (&mut self.reader).take(len as u64).read_to_end(&mut bytes)?;
        same!(bytes, expected, "{len} bytes from {} on, streamed", self.at);
        self.at = end;
        Ok(digest(expected))
    }

    fn check_map(&self) -> Check<()> {
        if let Some(map) = &self.map {
            same!(map[..] == self.expected[..], true, "whether a map shows what it showed");
        }
        Ok(())
    }

    /// The store is closed: what is not in memory cannot be read any more, but for what is looked at in place.
    pub(crate) fn check_closed(self) -> Check<()> {
        self.check_map()?;
        if self.value.stored_us().is_some() {
            same!(kind_of(self.value.bytes()), Some(ErrorKind::Closed), "a value after close");
            return Ok(());
        }
        same!(read(&self.value)?, &self.expected[..], "a small value after close");
        Ok(())
    }
}
