//! The query cache: what whole reads have returned, until something that they read is written (BC-kvDB, section 4).
//!
//! ```text
//! read  --ask-->  found: its cells are shown again
//!            \->  asked before, not long ago: a Filling; the scan copies what it shows, and at its end it is inserted
//!            \->  otherwise it is remembered that it was asked: most reads are not repeated, and cost little so
//! write --begin-> the store is written --end-> the parts of tables that it touched are marked
//! ```
//! No answer is older than the last acknowledged write, or than what another reader has seen:
//! - A moment counts the writes that have ended. A filling notes it before its scan takes a snapshot.
//! - A write marks the parts that it touched with a new moment after the store shows it, and before it is acknowledged.
//! - An answer is good while no part of what it read has a later moment than its own, and no write to such a part is under way.
//!   So a write that the snapshot may have missed either has not begun, and nobody has seen it; or is under way; or has marked.
//!
//! The parts of a table are what lies between the bounds of the spans that are in the cache or are being filled. A bound is
//! there before its scan begins, so writes elsewhere do not spoil it. Where a bound goes, the part before it inherits the
//! later moment.
//!
//! One lock protects all. Nothing is read or written under it; it is held for a few lookups.

use core::ops::Bound;
use std::collections::{BTreeMap, HashMap};
use std::hash::BuildHasher;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::canary;
use crate::cell;
use crate::error::Result;
use crate::read::{CellValue, Live, Read};
use crate::span::Span;

/// Only a read of so few spans is cached.
const SPANS_MAX: usize = 16;

/// The rows of a larger batch are marked as one range.
const ROWS_MARKED_SINGLY: usize = 64;

/// An answer may take so large a part of the cache, and so many bytes at most.
const ANSWER_PART: usize = 16;
const ANSWER_BYTES_MAX: usize = 1 << 20;

/// An answer with a longer value is not cached.
const VALUE_BYTES_MAX: u64 = 16 << 10;

/// So many queries are remembered that were asked once: 4 bytes each.
const ASKED_ONCE: usize = 1 << 16;

/// About what an answer and its bounds take beside their bytes.
const ANSWER_OVERHEAD: usize = 512;

/// How often the hit rate is told, in queries.
const QUERIES_TOLD: u64 = 1000;

/// What the query cache has done since the tables were opened, and holds now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct QueryCacheStats {
    /// Reads that asked the cache.
    pub queries: u64,
    /// Those that it answered.
    pub hits: u64,
    /// Answers that were not inserted, because what they had read was written meanwhile.
    pub refused: u64,
    /// Answers that went for others.
    pub evicted: u64,
    /// Answers that it holds.
    pub answers: u64,
    /// Bytes that it holds.
    pub bytes: u64,
}

/// What is asked for: a read of parts of a table in one direction, by one version of its schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Query<'q> {
    pub(crate) table: u64,
    pub(crate) schema: u64,
    /// Sorted and apart.
    pub(crate) spans: &'q [Span],
    pub(crate) is_reversed: bool,
    pub(crate) read: &'q Read,
}

/// Two hashes of a query, by keys that nobody outside of this process knows: no two queries have both alike, by chance or by
/// intention. So the cache does not hold filters, which may be large.
type Key = [u64; 2];

/// The parts of a table that a query reads.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Area {
    table: u64,
    /// Sorted and apart.
    spans: Vec<Span>,
}

impl Area {
    /// About what it takes here and in the bounds, in bytes.
    fn size(&self) -> usize {
        3 * self.spans.iter().map(Span::size).sum::<usize>() + ANSWER_OVERHEAD
    }
}

/// The cells of an answer.
#[derive(Debug, Default)]
pub(crate) struct Cells {
    bytes: Vec<u8>,
    places: Vec<Place>,
    families: Vec<String>,
}

/// Where the parts of a cell begin and end in the bytes. The row may be that of the cell before.
#[derive(Debug, Clone, Copy)]
struct Place {
    row: (usize, usize),
    qualifier: (usize, usize),
    value: (usize, usize),
    /// Its place among the families.
    family: usize,
    /// Whether the value is what the store has.
    is_stored: bool,
    timestamp: i64,
}

/// Where a reader of an answer is.
pub(crate) struct Replay {
    cells: Arc<Cells>,
    /// So many cells were gone to; the last one is shown.
    gone: usize,
    is_at_end: bool,
}

/// What [`QueryCache::ask`] has found.
pub(crate) enum Asked {
    Hit(Replay),
    /// The scan is to fill it, if it can.
    Miss(Option<Box<Filling>>),
}

/// An answer that a scan is making.
pub(crate) struct Filling {
    cache: Arc<QueryCache>,
    area: Area,
    key: Key,
    moment: u64,
    cells: Cells,
    bytes_max: usize,
    /// So many bytes of it are counted as being filled.
    counted: usize,
    /// The bounds are the answer's now.
    is_inserted: bool,
}

/// A write that is under way. It ends when this is dropped.
pub(crate) struct Writing<'a> {
    cache: &'a QueryCache,
    table: u64,
    rows: Arc<Vec<Vec<u8>>>,
    id: u64,
}

pub(crate) struct QueryCache {
    /// In bytes; 0: there is no cache. It changes while no write is under way.
    capacity: AtomicUsize,
    /// Bytes of answers that are being filled.
    filling: AtomicUsize,
    hashers: [std::hash::RandomState; 2],
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Counts the writes that have ended.
    moment: u64,
    answers: HashMap<Key, Answer>,
    /// The answers, those that were not asked for the longest first.
    order: BTreeMap<u64, Key>,
    /// Counts what was asked and inserted.
    uses: u64,
    /// Parts of the keys of queries that were not found, by other parts. A cache of no bytes has none.
    asked: Vec<u32>,
    parts: HashMap<u64, Parts>,
    writes: Vec<Underway>,
    writes_begun: u64,
    stats: QueryCacheStats,
}

struct Answer {
    area: Area,
    cells: Arc<Cells>,
    moment: u64,
    /// It is good from this time on, and below the other one, in milliseconds since 1970.
    from_ms: i64,
    until_ms: i64,
    used: u64,
    bytes: usize,
}

/// A write that has begun.
struct Underway {
    id: u64,
    table: u64,
    /// The beginnings of the keys of its rows; sorted.
    rows: Arc<Vec<Vec<u8>>>,
}

/// The parts of a table: where each begins. The first one begins at the empty place.
struct Parts {
    parts: BTreeMap<Vec<u8>, Part>,
    /// How many spans are in the cache or are being filled.
    spans: usize,
}

struct Part {
    /// How many spans begin or end here.
    bounds: usize,
    /// When it was last written.
    written: u64,
}

impl Default for Parts {
    fn default() -> Parts {
        Parts { parts: BTreeMap::from([(Vec::new(), Part { bounds: 1, written: 0 })]), spans: 0 }
    }
}

impl Parts {
    fn add(&mut self, span: &Span) {
        self.spans += 1;
        self.add_bound(span.first_key());
        self.add_bound(&span.end_key());
    }

    fn remove(&mut self, span: &Span) {
        self.spans -= 1;
        self.remove_bound(span.first_key());
        self.remove_bound(&span.end_key());
    }

    fn add_bound(&mut self, place: &[u8]) {
        if let Some(part) = self.parts.get_mut(place) {
            part.bounds += 1;
            return;
        }
        let written = self.part_of(place).map_or(0, |part| part.written);
        self.parts.insert(place.to_vec(), Part { bounds: 1, written });
    }

    fn remove_bound(&mut self, place: &[u8]) {
        let Some(part) = self.parts.get_mut(place) else { return };
        part.bounds -= 1;
        if part.bounds > 0 {
            return;
        }
        let written = part.written;
        self.parts.remove(place);
        if let Some(before) = self.part_of(place) {
            before.written = before.written.max(written);
        }
    }

    /// The part that has `place`.
    fn part_of(&mut self, place: &[u8]) -> Option<&mut Part> {
        self.parts
            .range_mut::<[u8], _>((Bound::Unbounded, Bound::Included(place)))
            .next_back()
            .map(|(_, part)| part)
    }

    /// The rows have been written, by the write that ended at `moment`.
    fn mark(&mut self, rows: &[Vec<u8>], moment: u64) {
        if let ([first, .., last], true) = (rows, rows.len() > ROWS_MARKED_SINGLY) {
            let range = (Bound::Excluded(first.as_slice()), Bound::Included(last.as_slice()));
            self.parts.range_mut::<[u8], _>(range).for_each(|(_, part)| part.written = moment);
            self.part_of(first).into_iter().for_each(|part| part.written = moment);
            return;
        }
        for row in rows {
            self.part_of(row).into_iter().for_each(|part| part.written = moment);
        }
    }

    /// When a part of the span was last written. The span's bounds have been added.
    fn written(&self, span: &Span) -> u64 {
        let end = span.end_key();
        let to = if end.is_empty() { Bound::Unbounded } else { Bound::Excluded(end.as_slice()) };
        let parts = self.parts.range::<[u8], _>((Bound::Included(span.first_key()), to));
        parts.map(|(_, part)| part.written).max().unwrap_or(0)
    }
}

impl Underway {
    fn touches(&self, area: &Area) -> bool {
        let ([first, ..], [.., last]) = (self.rows.as_slice(), self.rows.as_slice()) else { return false };
        let touches = |span: &Span| !span.begins_behind(last) && !span.ends_before(first);
        let touches_table = self.table == area.table && !canary::broken("cache-underway");
        touches_table && area.spans.iter().any(touches)
    }
}

impl State {
    /// Whether the answer is as a scan of this time would be.
    fn is_good(&self, answer: &Answer, now_ms: i64) -> bool {
        let Some(parts) = self.parts.get(&answer.area.table) else { return false };
        let lives = (answer.from_ms..answer.until_ms).contains(&now_ms) || canary::broken("cache-expiry");
        lives
            && answer.area.spans.iter().all(|span| parts.written(span) <= answer.moment)
            && !self.writes.iter().any(|write| write.touches(&answer.area))
    }

    fn find(&mut self, key: Key, now_ms: i64) -> Option<Arc<Cells>> {
        if !self.is_good(self.answers.get(&key)?, now_ms) {
            self.remove(key);
            return None;
        }
        let used = self.next_use();
        let answer = self.answers.get_mut(&key)?;
        self.order.remove(&std::mem::replace(&mut answer.used, used));
        self.order.insert(used, key);
        Some(Arc::clone(&answer.cells))
    }

    /// Notes that a query was asked and not found. Returns whether it had been, not long ago.
    fn note_asked(&mut self, [place, part]: Key) -> bool {
        let Some(asked) = self.asked.get_mut(place as usize % ASKED_ONCE) else { return false };
        let part = part as u32;
        std::mem::replace(asked, part) == part
    }

    fn next_use(&mut self) -> u64 {
        self.uses += 1;
        self.uses
    }

    fn add_bounds(&mut self, area: &Area) {
        let parts = self.parts.entry(area.table).or_default();
        area.spans.iter().for_each(|span| parts.add(span));
    }

    fn remove_bounds(&mut self, area: &Area) {
        let Some(parts) = self.parts.get_mut(&area.table) else { return };
        area.spans.iter().for_each(|span| parts.remove(span));
        // What begins from now on has a later moment than all that was written.
        if parts.spans == 0 {
            self.parts.remove(&area.table);
        }
    }

    fn insert(&mut self, key: Key, mut answer: Answer) {
        self.remove(key);
        answer.used = self.next_use();
        self.order.insert(answer.used, key);
        self.stats.bytes += answer.bytes as u64;
        self.answers.insert(key, answer);
    }

    fn remove(&mut self, key: Key) {
        let Some(answer) = self.answers.remove(&key) else { return };
        self.order.remove(&answer.used);
        self.stats.bytes -= answer.bytes as u64;
        self.remove_bounds(&answer.area);
    }

    /// Marks all parts, of one table or of all, as written just now.
    fn mark_all(&mut self, table: Option<u64>) {
        self.moment += 1;
        let parts = self.parts.iter_mut().filter(|(other, _)| table.is_none_or(|table| **other == table));
        for part in parts.flat_map(|(_, parts)| parts.parts.values_mut()) {
            part.written = self.moment;
        }
    }

    /// Removes what was not asked for the longest, until the rest has `bytes`.
    fn shrink(&mut self, bytes: usize) {
        while self.stats.bytes > bytes as u64 {
            let Some((_, key)) = self.order.first_key_value() else { return };
            self.remove(*key);
            self.stats.evicted += 1;
        }
    }
}

impl QueryCache {
    /// A cache of no bytes.
    pub(crate) fn new() -> QueryCache {
        QueryCache {
            capacity: AtomicUsize::new(0),
            filling: AtomicUsize::new(0),
            hashers: [std::hash::RandomState::new(), std::hash::RandomState::new()],
            state: Mutex::default(),
        }
    }

    /// Lets the cache take so many bytes. No write may be under way.
    pub(crate) fn set_capacity(&self, bytes: usize) {
        self.capacity.store(bytes, Ordering::Relaxed);
        let mut state = self.state();
        // While the cache was off, writes have marked nothing: what is being made from a snapshot before now must not be kept.
        state.mark_all(None);
        state.asked = if bytes == 0 { Vec::new() } else { vec![0; ASKED_ONCE] };
        state.shrink(answers_max(bytes));
    }

    /// Removes all answers about a table, which is gone.
    pub(crate) fn forget(&self, table: u64) {
        let mut state = self.state();
        state.mark_all(Some(table));
        let answers = state.answers.iter().filter(|(_, answer)| answer.area.table == table);
        let keys: Vec<Key> = answers.map(|(key, _)| *key).collect();
        keys.into_iter().for_each(|key| state.remove(key));
    }

    pub(crate) fn is_on(&self) -> bool {
        self.capacity.load(Ordering::Relaxed) > 0
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn stats(&self) -> QueryCacheStats {
        let state = self.state();
        QueryCacheStats { answers: state.answers.len() as u64, ..state.stats }
    }

    /// Looks for an answer that is good at `now_ms`. Whoever misses it takes a snapshot only afterwards.
    pub(crate) fn ask(self: &Arc<QueryCache>, query: Query<'_>, now_ms: i64) -> Asked {
        let bytes_max = (self.capacity.load(Ordering::Relaxed) / ANSWER_PART).min(ANSWER_BYTES_MAX);
        if query.spans.is_empty() || query.spans.len() > SPANS_MAX {
            return Asked::Miss(None);
        }
        let key = self.hashers.each_ref().map(|hasher| hasher.hash_one(query));
        let area = Area { table: query.table, spans: query.spans.to_vec() };
        let mut state = self.state();
        state.stats.queries += 1;
        let found = state.find(key, now_ms);
        state.stats.hits += u64::from(found.is_some());
        let is_filled = found.is_none() && state.note_asked(key) && area.size() <= bytes_max;
        if is_filled {
            state.add_bounds(&area);
        }
        let (moment, stats) = (state.moment, state.stats);
        drop(state);
        if stats.queries % QUERIES_TOLD == 0 {
            let percent = stats.hits * 100 / stats.queries;
            let QueryCacheStats { queries, hits, refused, evicted, bytes, .. } = stats;
            tracing::info!(queries, hits, percent, refused, evicted, bytes, "query cache");
        }
        match found {
            None if !is_filled => Asked::Miss(None),
            Some(cells) => Asked::Hit(Replay { cells, gone: 0, is_at_end: false }),
            None => Asked::Miss(Some(Box::new(Filling {
                cache: Arc::clone(self),
                area,
                key,
                moment,
                cells: Cells::default(),
                bytes_max,
                counted: 0,
                is_inserted: false,
            }))),
        }
    }

    /// Inserts an answer, unless something that it has read was written meanwhile. Returns whether it did.
    fn insert(&self, key: Key, mut answer: Answer) -> bool {
        let mut state = self.state();
        if canary::broken("cache-moment") {
            answer.moment = state.moment;
        }
        let Answer { area, moment, from_ms, until_ms, .. } = &answer;
        let is_written = |parts: &Parts| area.spans.iter().any(|span| parts.written(span) > *moment);
        if state.parts.get(&area.table).is_none_or(is_written) {
            state.stats.refused += 1;
            return false;
        }
        let capacity = self.capacity.load(Ordering::Relaxed);
        if capacity == 0 || from_ms >= until_ms {
            return false;
        }
        state.insert(key, answer);
        state.shrink(answers_max(capacity));
        true
    }

    /// A write of these rows begins; its end is told by dropping what this returns, when readers see it.
    pub(crate) fn begin<'r>(&self, table: u64, rows: impl Iterator<Item = &'r [u8]>) -> Writing<'_> {
        let mut rows: Vec<Vec<u8>> = rows.map(cell::row_prefix).collect();
        rows.sort_unstable();
        let rows = Arc::new(rows);
        let mut state = self.state();
        state.writes_begun += 1;
        let id = state.writes_begun;
        state.writes.push(Underway { id, table, rows: Arc::clone(&rows) });
        Writing { cache: self, table, rows, id }
    }
}

/// What answers may take of a cache; the rest is for those that are being filled.
fn answers_max(capacity: usize) -> usize {
    capacity - capacity / 4
}

impl Drop for Writing<'_> {
    fn drop(&mut self) {
        let mut state = self.cache.state();
        state.writes.retain(|write| write.id != self.id);
        if canary::broken("cache-mark") {
            return;
        }
        state.moment += 1;
        let moment = state.moment;
        if let Some(parts) = state.parts.get_mut(&self.table) {
            parts.mark(&self.rows, moment);
        }
    }
}

impl Filling {
    /// Copies the cell at which the scan is. `false`: the answer is too large, or the cache is full of others.
    pub(crate) fn add(&mut self, scan: &Live) -> Result<bool> {
        let Some(value) = scan.value().filter(|value| value.len() <= VALUE_BYTES_MAX) else {
            return Ok(false);
        };
        let is_stored = value.is_stored();
        self.cells.push(
            scan.row(),
            scan.family(),
            scan.qualifier(),
            scan.timestamp(),
            &value.bytes()?,
            is_stored,
        );
        let size = self.cells.size();
        let more = size - self.counted;
        self.counted = size;
        let filling = self.cache.filling.fetch_add(more, Ordering::Relaxed) + more;
        let capacity = self.cache.capacity.load(Ordering::Relaxed);
        Ok(size <= self.bytes_max && filling <= capacity / 4)
    }

    /// Inserts the answer, if nothing of what it has read was written since it was asked for. It was made at `from_ms`, and
    /// something of it expires at `until_ms`.
    pub(crate) fn finish(mut self, (from_ms, until_ms): (i64, i64)) {
        let cells = std::mem::take(&mut self.cells);
        let bytes = cells.size() + self.area.size();
        let (area, moment) = (self.area.clone(), self.moment);
        let answer = Answer { area, cells: Arc::new(cells), moment, from_ms, until_ms, used: 0, bytes };
        self.is_inserted = self.cache.insert(self.key, answer);
    }
}

impl Drop for Filling {
    fn drop(&mut self) {
        self.cache.filling.fetch_sub(self.counted, Ordering::Relaxed);
        if !self.is_inserted {
            self.cache.state().remove_bounds(&self.area);
        }
    }
}

impl Cells {
    fn push(
        &mut self,
        row: &[u8],
        family: &str,
        qualifier: &[u8],
        timestamp: i64,
        value: &[u8],
        is_stored: bool,
    ) {
        let row = match self.places.last() {
            Some(last) if self.part(last.row) == row => last.row,
            _ => self.push_bytes(row),
        };
        let (qualifier, value) = (self.push_bytes(qualifier), self.push_bytes(value));
        let known = self.families.iter().position(|known| known == family);
        let family = known.unwrap_or_else(|| {
            self.families.push(family.to_owned());
            self.families.len() - 1
        });
        self.places.push(Place { row, qualifier, value, family, is_stored, timestamp });
    }

    fn push_bytes(&mut self, bytes: &[u8]) -> (usize, usize) {
        let from = self.bytes.len();
        self.bytes.extend_from_slice(bytes);
        (from, self.bytes.len())
    }

    fn part(&self, (from, to): (usize, usize)) -> &[u8] {
        self.bytes.get(from..to).unwrap_or_default()
    }

    /// In bytes of memory.
    fn size(&self) -> usize {
        self.bytes.capacity() + self.places.capacity() * size_of::<Place>()
    }
}

impl Replay {
    /// Goes to the next cell. `false`: there is none.
    pub(crate) fn advance(&mut self) -> bool {
        if self.gone < self.cells.places.len() {
            self.gone += 1;
        } else {
            self.is_at_end = true;
        }
        !self.is_at_end
    }

    fn place(&self) -> Option<&Place> {
        self.cells.places.get(self.gone.checked_sub(1)?)
    }

    pub(crate) fn row(&self) -> &[u8] {
        self.place().map_or(&[], |place| self.cells.part(place.row))
    }

    pub(crate) fn family(&self) -> &str {
        let family = self.place().and_then(|place| self.cells.families.get(place.family));
        family.map_or("", String::as_str)
    }

    pub(crate) fn qualifier(&self) -> &[u8] {
        self.place().map_or(&[], |place| self.cells.part(place.qualifier))
    }

    pub(crate) fn timestamp(&self) -> i64 {
        self.place().map_or(0, |place| place.timestamp)
    }

    /// `None`: it is at no cell.
    pub(crate) fn value(&self) -> Option<CellValue<'_>> {
        let place = self.place().filter(|_| !self.is_at_end)?;
        Some(CellValue::cached(self.cells.part(place.value), place.is_stored))
    }
}
