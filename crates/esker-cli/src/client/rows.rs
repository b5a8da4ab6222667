//! The rows of a range of a database, page by page.
//!
//! Each page is as the database is when it is read; there is no snapshot over all of them. A key that is there from the
//! beginning to the end comes exactly once. A page has only short values: a long one is read when its row comes.

use std::collections::VecDeque;
use std::ops::Bound;

use esker::{Error, ErrorKind, Result};

use super::database::{Bulk, Database, before, moment};
use super::wire::Reply;
use crate::ranges::KeyRange;

/// The most rows of a page.
const ROWS: usize = 256;

/// The longest value that a page has, in bytes.
const CUT: u64 = 16 << 10;

/// What is wanted of each value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Want {
    /// Neither its length nor when it expires.
    Nothing,
    /// Its length, and at least so many of its first bytes.
    First(u64),
    All,
}

struct Row {
    key: Vec<u8>,
    expires_us: Option<u64>,
    /// The first bytes of the value.
    first: Vec<u8>,
    len: u64,
    is_collection: bool,
}

/// See the module's comment.
pub(crate) struct Rows {
    database: Database,
    range: KeyRange,
    reverse: bool,
    want: Want,
    page: VecDeque<Row>,
    current: Option<Row>,
    /// The last key of the last page.
    last: Option<Vec<u8>>,
    is_last_page: bool,
    /// How many rows had a collection as their value.
    collections: u64,
}

impl Rows {
    pub(crate) fn new(database: Database, range: KeyRange, reverse: bool, want: Want) -> Self {
        let (page, current, last) = (VecDeque::new(), None, None);
        Rows { database, range, reverse, want, page, current, last, is_last_page: false, collections: 0 }
    }

    /// Moves to the next row. Returns whether there is one.
    pub(crate) fn advance(&mut self) -> Result<bool> {
        loop {
            while self.page.is_empty() && !self.is_last_page {
                self.load()?;
            }
            let Some(mut row) = self.page.pop_front() else {
                self.current = None;
                return Ok(false);
            };
            // Another client may have deleted it since the page was read.
            if self.complete(&mut row)? {
                self.collections += u64::from(row.is_collection);
                self.current = Some(row);
                return Ok(true);
            }
        }
    }

    /// How many rows so far had a hash, a set, a sorted set or a list, which is shown as an empty value.
    pub(crate) fn collections(&self) -> u64 {
        self.collections
    }

    pub(crate) fn key(&self) -> &[u8] {
        self.current.as_ref().map_or(&[], |row| &row.key)
    }

    pub(crate) fn value_len(&self) -> u64 {
        self.current.as_ref().map_or(0, |row| row.len)
    }

    /// The value, if all of it was wanted; otherwise its first bytes.
    pub(crate) fn first(&self) -> &[u8] {
        self.current.as_ref().map_or(&[], |row| &row.first)
    }

    pub(crate) fn expires_us(&self) -> Option<u64> {
        self.current.as_ref().and_then(|row| row.expires_us)
    }

    pub(crate) fn is_collection(&self) -> bool {
        self.current.as_ref().is_some_and(|row| row.is_collection)
    }

    /// The value as a stream; `None` if another client has deleted it since.
    pub(crate) fn read(&self) -> Result<Option<Bulk>> {
        self.database.get(self.key())
    }

    /// Reads what is wanted of the value and missing. Returns whether the value is still there.
    fn complete(&self, row: &mut Row) -> Result<bool> {
        let wanted = match self.want {
            Want::Nothing => 0,
            Want::First(count) => count.min(row.len),
            Want::All => row.len,
        };
        if row.first.len() as u64 >= wanted {
            return Ok(true);
        }
        let read = match self.want {
            Want::All => self.database.get(&row.key),
            // As many as there are, should the value be shorter by now.
            _ => {
                let last = i64::try_from(wanted).unwrap_or(i64::MAX) - 1;
                self.database.get_range(&row.key, [0, last], |len| Ok::<u64, Error>(len.min(wanted)))
            }
        };
        let Some(mut bulk) = read? else { return Ok(false) };
        let Ok(len) = usize::try_from(bulk.len()) else {
            return Err(Error::new(ErrorKind::OutOfResources, "the value does not fit in memory"));
        };
        row.first.clear();
        let mut piece = Vec::new();
        while row.first.len() < len {
            bulk.next(1 << 20, &mut piece)?;
            let grown = row.first.try_reserve(piece.len());
            grown.map_err(|_| Error::new(ErrorKind::OutOfResources, "the value does not fit in memory"))?;
            row.first.extend_from_slice(&piece);
        }
        if self.want == Want::All {
            row.len = bulk.len();
            row.expires_us = bulk.expires_us();
        }
        Ok(true)
    }

    fn load(&mut self) -> Result<()> {
        let elements = match (self.ask()?, &self.range.upper) {
            (Ok(elements), _) => elements,
            // `RANGE` asks for the upper bound too. A user who may read what has a prefix may not read what comes behind.
            (Err(_), Bound::Excluded(end)) => {
                self.range.upper = Bound::Included(before(end));
                self.ask()??
            }
            (Err(refused), _) => return Err(refused),
        };
        let width = self.width();
        if elements.len() % width != 0 || elements.len() > ROWS * width {
            return Err(self.database.unexpected());
        }
        self.is_last_page = elements.len() < ROWS * width;
        let mut elements = elements.into_iter();
        let mut has_new = self.is_last_page;
        while let Some(key) = elements.next() {
            let Some(row) = self.row(key, &mut elements) else { return Err(self.database.unexpected()) };
            if !self.is_new(&row.key)? {
                continue;
            }
            has_new = true;
            self.last = Some(row.key.clone());
            let is_excluded = matches!(&self.range.upper, Bound::Excluded(end) if *end == row.key);
            if !is_excluded {
                self.page.push_back(row);
            }
        }
        // Nothing is before the empty key, and as the end of a range it would mean the last key.
        self.is_last_page |= self.reverse && self.last.as_ref().is_some_and(Vec::is_empty);
        // A server that answers like this would be asked for ever.
        if has_new { Ok(()) } else { Err(self.database.unexpected()) }
    }

    /// How many elements a row has.
    fn width(&self) -> usize {
        if self.want == Want::Nothing { 1 } else { 3 }
    }

    /// The elements of the next page; or the error, if the user may not read it.
    fn ask(&self) -> Result<std::result::Result<Vec<Reply>, Error>> {
        let (rows, cut) = (ROWS.to_string(), if self.want == Want::First(0) { 0 } else { CUT }.to_string());
        let hi = match &self.range.upper {
            Bound::Included(key) | Bound::Excluded(key) => key.as_slice(),
            Bound::Unbounded => &[],
        };
        // The first row may be the last one of the page before.
        let (lo, hi) = match &self.last {
            Some(last) if self.reverse => (self.range.lower.as_slice(), last.as_slice()),
            Some(last) => (last.as_slice(), hi),
            None => (self.range.lower.as_slice(), hi),
        };
        let mut arguments: Vec<&[u8]> = vec![b"RANGE", lo, hi, b"LIMIT", rows.as_bytes()];
        if self.reverse {
            arguments.push(b"REV");
        }
        match self.want {
            Want::Nothing => arguments.push(b"KEYS"),
            _ => arguments.extend([b"EXPIRES".as_slice(), b"CUT", cut.as_bytes()]),
        }
        self.database.page(&arguments)
    }

    /// Whether `key` comes behind all keys so far. Only the last one may come again.
    fn is_new(&self, key: &[u8]) -> Result<bool> {
        let order = self.last.as_deref().map(|last| if self.reverse { last.cmp(key) } else { key.cmp(last) });
        match order {
            None | Some(std::cmp::Ordering::Greater) => Ok(true),
            Some(std::cmp::Ordering::Equal) => Ok(false),
            Some(std::cmp::Ordering::Less) => Err(self.database.unexpected()),
        }
    }

    /// The row of a key and what follows it. `None`: these are other replies.
    fn row(&self, key: Reply, rest: &mut impl Iterator<Item = Reply>) -> Option<Row> {
        let Reply::Bytes(key) = key else { return None };
        let mut row = Row { key, expires_us: None, first: Vec::new(), len: 0, is_collection: false };
        if self.want == Want::Nothing {
            return Some(row);
        }
        let Reply::Integer(expires_ms) = rest.next()? else { return None };
        row.expires_us = moment(expires_ms);
        match rest.next()? {
            Reply::Bytes(value) => (row.len, row.first) = (value.len() as u64, value),
            Reply::Integer(len) => row.len = u64::try_from(len).ok()?,
            Reply::Null => row.is_collection = true,
            _ => return None,
        }
        Some(row)
    }
}
