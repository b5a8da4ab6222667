//! Values and files of any length, piece by piece: memory stays at about a megabyte.

use std::fmt::Display;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use esker::ErrorKind;

use crate::exit::{Failure, Outcome};
use crate::interrupt;
use crate::keyspace::{Held, PIECE, Writer};
use crate::steady::{SteadyFile, ToItsEnd};

/// Why bytes did not get from a source into the store.
pub(crate) enum Broken {
    /// The source could not be read.
    Source(io::Error),
    /// The store has failed.
    Store(Failure),
}

impl From<esker::Error> for Broken {
    fn from(error: esker::Error) -> Self {
        Broken::Store(error.into())
    }
}

/// The source of a value's bytes.
pub(crate) struct Source<R> {
    from: R,
    name: String,
    /// How many bytes it has, if it is a file.
    len: Option<u64>,
    /// Whether a piece was shorter than others: another read would wait for a terminal once more.
    is_at_end: bool,
}

impl Source<Box<dyn Read>> {
    /// Opens the file `path`, or standard input for `-`.
    pub(crate) fn open(path: &Path) -> Outcome<Self> {
        if path == Path::new("-") {
            return Ok(Source {
                from: Box::new(io::stdin().lock()),
                name: "standard input".to_owned(),
                len: None,
                is_at_end: false,
            });
        }
        let failed = |error| Failure::io("read", path, &error);
        let file = File::open(path).map_err(failed)?;
        let meta = file.metadata().map_err(failed)?;
        if meta.is_dir() {
            return Err(failed(io::ErrorKind::IsADirectory.into()));
        }
        // Files that the kernel makes up, as in /proc, say that they are empty.
        let len = (meta.is_file() && meta.len() > 0).then_some(meta.len());
        let file = ToItsEnd::new(file).map_err(failed)?;
        Ok(Source { len, ..Source::new(Box::new(file), &path.display()) })
    }
}

impl<R: Read> Source<R> {
    pub(crate) fn new(from: R, name: &dyn Display) -> Self {
        Source { from, name: name.to_string(), len: None, is_at_end: false }
    }

    /// How many bytes there are, if that is known.
    pub(crate) fn len(&self) -> Option<u64> {
        self.len
    }

    /// Fills `buffer` with the next piece, which has less than [`PIECE`] bytes only at the end.
    pub(crate) fn next(&mut self, buffer: &mut Vec<u8>) -> io::Result<()> {
        if self.is_at_end {
            buffer.clear();
            return Ok(());
        }
        // Not `read_to_end`: it fills what is left of the buffer with zeros before each read.
        if buffer.capacity() < PIECE {
            *buffer = vec![0; PIECE];
        }
        buffer.resize(PIECE, 0);
        let mut count = 0;
        while count < PIECE {
            match self.from.read(&mut buffer[count..]) {
                Ok(0) => break,
                Ok(more) => count += more,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        buffer.truncate(count);
        self.is_at_end = count < PIECE;
        Ok(())
    }

    /// The failure if it could not be read.
    pub(crate) fn failed(&self, error: &io::Error) -> Failure {
        Failure::store(format!("cannot read {}: {error}", self.name))
    }

    /// The input that is read.
    pub(crate) fn inner(&self) -> &R {
        &self.from
    }

    /// Whether `first` and everything after it are exactly the bytes of `value`. A damaged value never matches.
    pub(crate) fn is(&mut self, first: &[u8], mut value: Held) -> Result<bool, Broken> {
        let mut piece = first.to_vec();
        let mut held = Vec::new();
        let mut left = value.len();
        loop {
            match value.next(piece.len(), &mut held) {
                Ok(()) if held == piece => {}
                Ok(()) => return Ok(false),
                Err(error) if error.kind() == ErrorKind::Corruption => return Ok(false),
                Err(error) => return Err(error.into()),
            }
            left -= piece.len() as u64;
            if piece.len() < PIECE {
                return Ok(left == 0);
            }
            self.next(&mut piece).map_err(Broken::Source)?;
        }
    }

    /// Writes `first` and everything after it to `writer`.
    pub(crate) fn pour(&mut self, mut first: Vec<u8>, writer: &mut Writer) -> Result<(), Broken> {
        while !first.is_empty() {
            interrupt::check().map_err(Broken::Store)?;
            writer.add(&first)?;
            self.next(&mut first).map_err(Broken::Source)?;
        }
        Ok(())
    }
}

impl Source<SteadyFile> {
    /// Moves to the byte `at`.
    pub(crate) fn go_to(&mut self, at: u64) -> io::Result<()> {
        self.is_at_end = false;
        self.from.go_to(at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keyspace::Keyspace;
    use esker::{Db, Options};

    fn source(bytes: &[u8]) -> Source<io::Cursor<Vec<u8>>> {
        Source::new(io::Cursor::new(bytes.to_vec()), &"memory")
    }

    fn put(from: &mut Source<io::Cursor<Vec<u8>>>, tree: &Keyspace, first: Vec<u8>) {
        let mut writer = tree.writer(b"k", None, None).unwrap();
        assert!(from.pour(first, &mut writer).is_ok());
        writer.commit().unwrap();
    }

    #[test]
    fn values_of_every_length_go_in_and_out_and_are_recognized() {
        let db = Db::open_in_memory(Options::default()).unwrap();
        let tree = Keyspace::local(db.clone(), db.default_tree().clone());
        for len in [0, 1, PIECE - 1, PIECE, PIECE + 1, 3 * PIECE, 3 * PIECE + 7] {
            let bytes: Vec<u8> = (0..len).map(|i| (i * 31 + i / 4_099) as u8).collect();
            put(&mut source(&bytes), &tree, Vec::new());
            assert_eq!(db.get("k").unwrap().unwrap().len(), 0, "nothing follows an empty first piece");

            let mut from = source(&bytes);
            let mut first = Vec::new();
            from.next(&mut first).unwrap();
            put(&mut from, &tree, first);
            let value = || tree.get(b"k").unwrap().unwrap();
            let mut back = Vec::new();
            let taken = value().pieces(|piece| {
                assert!(piece.len() <= PIECE);
                back.extend_from_slice(piece);
                Ok(())
            });
            taken.unwrap();
            assert_eq!(back, bytes);

            let same = |bytes: &[u8]| {
                let mut from = source(bytes);
                let mut first = Vec::new();
                from.next(&mut first).unwrap();
                from.is(&first, value()).ok().unwrap()
            };
            assert!(same(&bytes));
            assert!(!same(&[bytes.as_slice(), b"x"].concat()));
            if let [start @ .., last] = bytes.as_slice() {
                assert!(!same(start));
                assert!(!same(&[start, &[!last]].concat()));
            }
        }
    }
}
