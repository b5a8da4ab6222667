//! A value that comes piece by piece, while the rest of the work goes on.

use esker::{Batch, Durability, Tree, ValueWriter};

use super::{Life, Outcome};
use crate::history::{Bytes, Event, Write};

/// A stream that is neither committed nor abandoned yet.
pub(super) struct Unfinished {
    writer: ValueWriter,
    handle: Tree,
    tree: String,
    key: Bytes,
    value: Bytes,
    fed: usize,
}

impl Unfinished {
    fn feed(&mut self, len: usize) -> esker::Result<()> {
        let end = self.value.len().min(self.fed + len);
        let piece = self.fed..end;
        self.fed = end;
        self.writer.add(&self.value[piece])
    }
}

impl Life {
    /// Begins a stream, or goes on with the one that there is, or ends it.
    pub(super) fn stream_on(&mut self) -> Outcome<()> {
        let Some(mut stream) = self.stream.take() else { return self.begin_stream() };
        let choice = self.rng.below(4);
        self.trace(|_| format!("stream, choice {choice}"));
        match choice {
            0 => Ok(()),
            1 | 2 => {
                let len = self.rng.index(700_000);
                let fed = stream.feed(len);
                if fed.is_ok() {
                    self.stream = Some(stream);
                }
                self.settle(fed, false)
            }
            _ => {
                let fed = stream.feed(usize::MAX >> 1);
                if fed.is_err() {
                    return self.settle(fed, false);
                }
                let durability = if self.rng.one_in(2) { Durability::Power } else { Durability::Process };
                let Unfinished { writer, handle, tree, key, value, .. } = stream;
                let mut writes = vec![(tree, key, Some(value))];
                let result = if self.rng.one_in(2) {
                    writer.commit_with(durability)
                } else {
                    // Under a second key too, or twice under the same.
                    let mut other = writes[0].clone();
                    if self.rng.one_in(2) {
                        other.1 = self.key();
                    }
                    writes.push(other);
                    self.write_stored(writer, &handle, &writes, durability)
                };
                self.history.begin(Event::Batch(writes));
                self.withdraw_if_refused(&result);
                if result.is_ok() && !self.disk.is_dead() {
                    self.history.acknowledge();
                }
                self.settle(result, durability == Durability::Power)
            }
        }
    }

    /// Writes one value for all keys of `writes`. Sometimes another handle of it outlives the write.
    fn write_stored(
        &mut self,
        writer: ValueWriter,
        tree: &Tree,
        writes: &[Write],
        durability: Durability,
    ) -> esker::Result<()> {
        let stored = writer.finish()?;
        let mut batch = Batch::new();
        for (_, key, _) in writes {
            batch.put_stored(tree, key, &stored)?;
        }
        if self.rng.one_in(2) {
            self.stored = Some(stored);
        }
        self.db().write_with(&batch, durability).map(drop)
    }

    /// One of a length that gets a file of its own, where values are kept apart at all.
    fn begin_stream(&mut self) -> Outcome<()> {
        let (tree, key, _) = self.random_write();
        self.writes += 1;
        let apart = self.knobs.separate_at;
        let shortest = if apart == usize::MAX { 1 << 20 } else { apart.max(1 << 20) };
        let len = shortest + self.rng.index(300_000);
        let mut value = self.writes.to_le_bytes().to_vec();
        value.resize(len, self.writes as u8 | 1);
        let result = self.trees[&tree].writer(&key).and_then(|writer| {
            let handle = self.trees[&tree].clone();
            let mut stream = Unfinished { writer, handle, tree, key, value: value.into(), fed: 0 };
            stream.feed(900_000)?;
            self.stream = Some(stream);
            Ok(())
        });
        self.settle(result, false)
    }
}
