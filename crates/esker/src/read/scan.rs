//! Pairs in key order, as a user sees them: one moment, no tombstones, no older versions, within bounds.
//!
//! Forward, the first version of a key that is not newer than the moment decides. Backward, versions come
//! oldest first. Therefore the last such version decides, and it is known only when the key changes.
//!
//! A scan goes one way. [`Scan::go`] moves it anywhere and can turn it around: a cursor uses this.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::SystemTime;

use super::merging_cursor::{Direction, MergeCursor, sources_within};
use super::meter::ScanMeter;
use super::operands::{Counted, blobs_of};
use super::range::ScanRange;
use super::view::{Held, cover_of, pay};
use crate::blob::{BlobSet, Pointer};
use crate::canary::broken;
use crate::cursor::{Content, Expiry, Kind, MAX_SEQ, SeqNo};
use crate::env::moment_at;
use crate::error::{Error, ErrorKind, Result};
use crate::operators::is_timed;
use crate::ranges::{Cover, KeyRange};
use crate::state::TreeState;
use crate::table::ScanHint;
use crate::trace::{Step, perf_context};
use crate::value::Value;

/// After this many versions that it does not show, a scan seeks. Two seeks cost about as much as this many
/// steps.
const SKIPPED_MAX: usize = 128;

/// After this many entries that a range deletion hides, a scan moves the sources that it hides out of its range.
const HIDDEN_MAX: u32 = 16;

/// Pairs in key order. As an iterator it hands out copies; [`Scan::advance`] with [`Scan::key`],
/// [`Scan::value`] or [`Scan::pair`] copies no values.
///
/// The pairs are those of the moment when the scan began, regardless of later writes. An open scan keeps
/// the files that it reads.
pub struct Scan {
    merge: MergeCursor,
    seq: SeqNo,
    /// Values that have expired at this time are left out.
    time_us: u64,
    cover: Cover,
    range: ScanRange,
    started: bool,
    on_pair: bool,
    key: Vec<u8>,
    /// Used backward only: when a pair is complete, the merge has moved on.
    value: Vec<u8>,
    kind: Kind,
    /// The current pair's huge value, once it was requested, or the value that its operands make.
    loaded: Option<Vec<u8>>,
    /// The error that kept the operands from making a value.
    unmade: Option<Error>,
    /// When the value that operands make expires, and when the passing of time changes it.
    made: Lapse,
    /// Used forward: the merge has already moved on.
    is_ahead: bool,
    /// Keeps a moment registered while the scan lasts, if there are huge values.
    snapshot: Option<Held>,
    /// How many entries hidden by range deletions it has met since it last left such a range.
    hidden: u32,
    /// How many entries without a pair it may pass in all.
    passed_max: u64,
    meter: ScanMeter,
}

/// The effect of the passing of time on a value that operands make.
#[derive(Debug, Clone, Copy, Default)]
struct Lapse {
    expires_us: Option<Expiry>,
    lapses_us: Option<Expiry>,
}

/// Where [`Scan::go`] goes.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Goal<'a> {
    First,
    Last,
    AtOrAfter(&'a [u8]),
    AtOrBefore(&'a [u8]),
    /// From a pair to the next one.
    Next,
    /// From a pair to the one before it.
    Previous,
}

impl Goal<'_> {
    fn direction(self) -> Direction {
        match self {
            Goal::First | Goal::AtOrAfter(_) | Goal::Next => Direction::Forward,
            Goal::Last | Goal::AtOrBefore(_) | Goal::Previous => Direction::Backward,
        }
    }

    pub(crate) fn is_backward(self) -> bool {
        self.direction() == Direction::Backward
    }

    pub(crate) fn is_step(self) -> bool {
        matches!(self, Goal::Next | Goal::Previous)
    }
}

impl std::fmt::Debug for Scan {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Scan").field("range", &self.range).field("seq", &self.seq).finish_non_exhaustive()
    }
}

impl Scan {
    /// A scan of `states`, which have no common key.
    pub(crate) fn new(
        states: &[Arc<TreeState>],
        (seq, time_us): (SeqNo, u64),
        range: ScanRange,
        snapshot: Option<Held>,
        meter: ScanMeter,
    ) -> Result<Scan> {
        let cover = cover_of(states, &range.keys, seq);
        Scan::under(states, (seq, time_us), range, cover, snapshot, meter)
    }

    /// The same, with the cover of range tombstones.
    pub(crate) fn under(
        states: &[Arc<TreeState>],
        (seq, time_us): (SeqNo, u64),
        range: ScanRange,
        cover: Cover,
        snapshot: Option<Held>,
        mut meter: ScanMeter,
    ) -> Result<Scan> {
        let direction = if range.reverse { Direction::Backward } else { Direction::Forward };
        let mut sources = Vec::new();
        pay(states);
        let within = (!range.keys.lower.is_empty() && meter.has_filter_prefix()).then_some(&range.keys);
        for state in states {
            sources.extend(meter.measured(|| sources_within(state, within, ScanHint::Scan))?);
        }
        perf_context::step(|| Step::Sources { count: sources.len() as u64 });
        let merge = MergeCursor::new(sources, direction);
        Ok(Scan {
            merge,
            seq,
            time_us,
            cover,
            range,
            started: false,
            on_pair: false,
            key: Vec::new(),
            value: Vec::new(),
            kind: Kind::Put,
            loaded: None,
            unmade: None,
            made: Lapse::default(),
            is_ahead: false,
            snapshot,
            hidden: 0,
            passed_max: u64::MAX,
            meter,
        })
    }

    /// The number of pairs that it has not passed.
    pub(crate) fn count_left(mut self) -> Result<u64> {
        let mut count = 0;
        while self.advance()? {
            count += 1;
        }
        Ok(count)
    }

    /// How many entries it has passed that are not pairs: entries that were deleted or overwritten, or have expired,
    /// and are still in memory or in tables. Such an entry costs as much as a pair.
    pub fn passed(&self) -> u64 {
        self.meter.passed()
    }

    /// Lets the scan pass at most `entries` more entries that are not pairs ([`Scan::passed`]). At the next such entry,
    /// [`Scan::advance`] fails with `NeedsIo`, and the scan should be made again by a thread that may take its time. A
    /// thread that serves many clients uses this: the next pair may be after a million deleted ones.
    ///
    /// # Example
    /// ```
    /// # fn main() -> esker::Result<()> {
    /// # let db = esker::Db::open_in_memory(esker::Options::default())?;
    /// let jobs = db.tree("jobs")?;
    /// for job in 0..2000_u16 {
    ///     jobs.put(job.to_be_bytes(), "its work")?;
    /// }
    /// for job in 0..1999_u16 {
    ///     jobs.delete(job.to_be_bytes())?;
    /// }
    /// let mut scan = jobs.scan(..)?;
    /// scan.pass_at_most(100);
    /// assert_eq!(scan.advance().unwrap_err().kind(), esker::ErrorKind::NeedsIo);
    /// let mut scan = jobs.scan(..)?;
    /// assert!(scan.advance()? && scan.key() == 1999_u16.to_be_bytes());
    /// assert!(scan.passed() >= 1999);
    /// # Ok(())
    /// # }
    /// ```
    pub fn pass_at_most(&mut self, entries: u64) {
        self.passed_max = self.passed().saturating_add(entries);
    }

    /// Moves to the next pair; `false` at the end.
    ///
    /// # Errors
    /// `Corruption` or `Io` when a table cannot be read, `NeedsIo` beyond the limit of [`Scan::pass_at_most`]; the scan is
    /// then at its end.
    #[inline]
    pub fn advance(&mut self) -> Result<bool> {
        perf_context::begin();
        let moved = loop {
            let moved = if self.range.reverse { self.advance_backward() } else { self.advance_forward() };
            if self.kind != Kind::Merge {
                if self.loaded.is_some() || self.unmade.is_some() {
                    self.forget_made();
                }
                break moved;
            }
            self.forget_made();
            if !matches!(moved, Ok(true)) {
                break moved;
            }
            match self.make_value() {
                Ok(false) => {}
                made => break made,
            }
        };
        if perf_context::are_there() {
            self.meter.note();
        }
        self.on_pair = matches!(moved, Ok(true));
        moved
    }

    /// Moves anywhere, in either direction. A scan that does so has no bounds. After an error it must be moved by a
    /// seek.
    pub(crate) fn go(&mut self, goal: Goal<'_>) -> Result<bool> {
        let goes_on = goal.is_step() && goal.is_backward() == self.range.reverse;
        if !goes_on {
            if !goal.is_step() {
                self.meter.begin_again();
            }
            perf_context::begin();
            let placed = self.place(goal);
            if perf_context::are_there() {
                self.meter.note();
            }
            if placed.is_err() {
                self.leave();
            }
            placed?;
        }
        self.advance()
    }

    /// Positions the merge so that the next step comes to `goal`.
    fn place(&mut self, goal: Goal<'_>) -> Result<()> {
        self.range.reverse = goal.is_backward();
        self.merge.turn(goal.direction());
        (self.started, self.is_ahead) = (true, true);
        match goal {
            Goal::First | Goal::Last => {
                self.key.clear();
                self.merge.seek_to_start()?;
            }
            Goal::AtOrAfter(key) => {
                self.key.clear();
                self.merge.seek(key, self.seq)?;
            }
            Goal::AtOrBefore(key) => {
                self.key.clear();
                self.key.extend_from_slice(key);
                self.key.push(0);
                self.merge.seek(&self.key, MAX_SEQ)?;
            }
            // The step skips the rest of the current key.
            Goal::Next => return self.merge.seek(&self.key, 0),
            Goal::Previous => {
                let before = if broken("cursor-turn") { 0 } else { MAX_SEQ };
                return self.merge.seek(&self.key, before);
            }
        }
        self.meter.has_begun();
        Ok(())
    }

    /// Shows another moment of the same states from the next seek on.
    pub(crate) fn renew(&mut self, (seq, time_us): (SeqNo, u64), cover: Cover, snapshot: Option<Held>) {
        (self.seq, self.time_us, self.cover, self.snapshot) = (seq, time_us, cover, snapshot);
        self.leave();
    }

    /// Leaves its pair: from now on it is not at a pair.
    pub(crate) fn leave(&mut self) {
        self.on_pair = false;
        self.forget_made();
    }

    /// Forgets the data that was read or computed for the last pair.
    fn forget_made(&mut self) {
        (self.loaded, self.unmade, self.made) = (None, None, Lapse::default());
    }

    /// The current pair's key. Empty before the first pair and after the last one.
    #[inline]
    pub fn key(&self) -> &[u8] {
        if self.on_pair { &self.key } else { &[] }
    }

    /// The current pair's value. Empty for a scan of keys only.
    ///
    /// # Errors
    /// `Corruption` or `Io` when the value cannot be read; the scan stays where it is.
    #[inline]
    pub fn value(&mut self) -> Result<&[u8]> {
        self.load()?;
        Ok(self.loaded.as_deref().unwrap_or_else(|| self.entry().value))
    }

    /// The current pair: [`Scan::key`] and [`Scan::value`] together.
    ///
    /// # Errors
    /// As [`Scan::value`].
    #[inline]
    pub fn pair(&mut self) -> Result<(&[u8], &[u8])> {
        self.load()?;
        Ok((self.key(), self.loaded.as_deref().unwrap_or_else(|| self.entry().value)))
    }

    /// The bytes that [`Scan::value`] returns, borrowed if they are in memory.
    #[inline]
    pub(super) fn bytes(&self) -> Result<Cow<'_, [u8]>> {
        let entry = self.entry();
        match (&self.loaded, entry.kind) {
            (Some(bytes), _) => Ok(Cow::Borrowed(bytes)),
            (None, Kind::Blob | Kind::Merge) => self.handle()?.into_vec().map(Cow::Owned),
            (None, _) => Ok(Cow::Borrowed(entry.value)),
        }
    }

    /// Appends the bytes that [`Scan::bytes`] returns to `out`: a huge value is read directly into its place there.
    #[inline]
    pub(super) fn append_to(&self, out: &mut Vec<u8>) -> Result<()> {
        let entry = self.entry();
        match (&self.loaded, entry.kind) {
            (Some(bytes), _) => out.extend_from_slice(bytes),
            (None, Kind::Blob | Kind::Merge) => self.handle()?.append_to(out)?,
            (None, _) => out.extend_from_slice(entry.value),
        }
        Ok(())
    }

    /// How many bytes [`Scan::value`] gives, without reading them.
    #[inline]
    pub fn value_len(&self) -> u64 {
        let entry = self.entry();
        match entry.kind {
            Kind::Merge => self.loaded.as_ref().map_or(0, Vec::len) as u64,
            Kind::Blob => Pointer::decode(entry.value).map_or(0, |pointer| pointer.len),
            _ => entry.value.len() as u64,
        }
    }

    /// When the current pair's value expires, as [`Value::expires_us`](crate::Value::expires_us) returns it.
    /// `None` for a scan of keys only.
    #[inline]
    pub fn expires_us(&self) -> Option<u64> {
        self.entry().expiry
    }

    /// When the current pair's value expires, as [`Value::expires_at`](crate::Value::expires_at) returns it.
    /// `None` for a scan of keys only.
    pub fn expires_at(&self) -> Option<SystemTime> {
        self.expires_us().and_then(moment_at)
    }

    /// The attributes of the current pair's value, as [`Value::attributes`](crate::Value::attributes) returns them.
    /// Empty for a scan of keys only.
    #[inline]
    pub fn attributes(&self) -> &[u8] {
        self.entry().attributes
    }

    /// When the passing of time changes the value of the current key.
    pub(crate) fn lapses_us(&self) -> Option<Expiry> {
        match self.kind {
            _ if !self.on_pair => None,
            Kind::Merge => self.made.lapses_us,
            kind if self.range.reverse => Content::open(kind, &self.value).expiry,
            kind => Content::open(kind, self.merge.value()).expiry,
        }
    }

    /// The current pair's value as [`Tree::get`](crate::Tree::get) returns it: to keep, or to read in parts.
    /// Empty where [`Scan::value`] is.
    ///
    /// # Errors
    /// `Corruption` when a huge value is not where it should be.
    pub fn handle(&self) -> Result<Value> {
        let entry = self.entry();
        match entry.kind {
            Kind::Blob => Value::of_blob(blobs_of(self.blobs())?, self.key(), &entry),
            Kind::Merge => match (&self.loaded, &self.unmade) {
                (_, Some(error)) => Err(error.duplicate()),
                (made, None) => {
                    Ok(Value::of_bytes(made.as_deref().unwrap_or_default()).beside(entry.beside()))
                }
            },
            _ => Ok(Value::copy_of(&entry)),
        }
    }

    /// The huge values, if the scan's moment is registered: only then are they kept.
    fn blobs(&self) -> Option<&Arc<BlobSet>> {
        self.snapshot.as_ref().map(|_| self.meter.store().blobs())
    }

    /// Computes the current key's value, whose newest version is an operand, from the versions below. Returns whether
    /// it has a value: it may have expired, and then the key was passed. A scan of keys only finds whether it has one.
    #[cold]
    fn make_value(&mut self) -> Result<bool> {
        let newest = if self.range.reverse { self.value.as_slice() } else { self.merge.value() };
        if self.range.keys_only && !is_timed(newest) {
            return Ok(true);
        }
        if self.range.reverse {
            self.merge.turn(Direction::Forward);
            self.merge.seek(&self.key, self.seq)?;
        }
        let is_in_memory = self.merge.valid() && self.merge.is_in_memory();
        let (deleted, mut operands, mut base) = (self.cover.over(&self.key), Vec::new(), None);
        while self.merge.valid() && self.merge.key() == self.key.as_slice() && self.merge.seq() >= deleted {
            if self.merge.kind() != Kind::Merge {
                base = Some((self.merge.kind(), self.merge.value()));
                break;
            }
            // One operand is as good as many.
            if !operands.is_empty() {
                self.meter.pay(self.merge.is_in_memory(), &self.key);
            }
            operands.push(self.merge.value().to_vec());
            self.merge.advance()?;
        }
        let counted = Counted::of(&operands, base, self.time_us);
        if let Some(counted) = &counted {
            self.made = Lapse { expires_us: counted.expiry(), lapses_us: counted.lapses_us() };
            if !self.range.keys_only {
                let made = counted.bytes_below(self.blobs(), &self.key).and_then(|below| {
                    self.meter.store().operators().apply(&self.key, below.as_deref(), &counted.operands)
                });
                match made {
                    Ok(made) => self.loaded = Some(made),
                    Err(error) => self.unmade = Some(error),
                }
            }
        }
        let lives = counted.is_some();
        if self.range.reverse {
            self.merge.turn(Direction::Backward);
            self.merge.seek(&self.key, MAX_SEQ)?;
        } else {
            self.is_ahead = true;
        }
        if !lives {
            self.pass(is_in_memory)?;
        }
        Ok(lives)
    }

    /// Reads the current pair's value if it is stored in a blob file.
    #[inline]
    fn load(&mut self) -> Result<()> {
        if self.loaded.is_none() && matches!(self.entry().kind, Kind::Blob | Kind::Merge) {
            self.loaded = Some(self.handle()?.into_vec()?);
        }
        Ok(())
    }

    /// The current pair's entry; an empty value if it has none to show.
    #[inline]
    fn entry(&self) -> Content<'_> {
        if !self.on_pair || self.range.keys_only {
            Content::open(Kind::Put, &[])
        } else if self.kind == Kind::Merge {
            // The computed value is in `loaded`, and the merge has moved on.
            Content { expiry: self.made.expires_us, ..Content::open(Kind::Merge, &[]) }
        } else if self.range.reverse {
            Content::open(self.kind, &self.value)
        } else {
            Content::open(self.kind, self.merge.value())
        }
    }

    /// Moves to the first entry of the range.
    fn start(&mut self) -> Result<()> {
        self.started = true;
        let KeyRange { lower, upper } = &self.range.keys;
        let bound =
            if self.range.reverse { upper.as_ref() } else { Some(lower).filter(|key| !key.is_empty()) };
        match bound {
            None => self.merge.seek_to_start()?,
            Some(key) => self.merge.seek(key, MAX_SEQ)?,
        }
        self.meter.has_begun();
        Ok(())
    }

    #[inline]
    fn advance_forward(&mut self) -> Result<bool> {
        if !self.started {
            self.start()?;
        } else if !std::mem::take(&mut self.is_ahead) {
            self.merge.advance()?;
        }
        let mut skipped = 0;
        while self.merge.valid() {
            let key = self.merge.key();
            // No key is empty, so an empty buffer means that no key was seen yet.
            let is_new = key != self.key.as_slice();
            if is_new && self.merge.seq() <= self.seq {
                if !self.range.keys.ends_behind(key) {
                    return self.finish();
                }
                skipped = 0;
                self.key.clear();
                self.key.extend_from_slice(key);
                self.kind = self.merge.kind();
                if lives(
                    self.kind,
                    self.time_us,
                    &mut self.cover,
                    self.merge.seq(),
                    &self.key,
                    self.merge.value(),
                ) {
                    return Ok(true);
                }
                self.pass(self.merge.is_in_memory())?;
                if self.leave_hidden(self.merge.seq())? {
                    continue;
                }
            } else {
                self.pass(self.merge.is_in_memory())?;
            }
            skipped += 1;
            if skipped < SKIPPED_MAX {
                self.merge.advance()?;
            } else {
                skipped = 0;
                self.seek_past_versions(is_new)?;
            }
        }
        Ok(false)
    }

    /// Counts an entry that is not a pair.
    #[inline]
    fn pass(&mut self, is_in_memory: bool) -> Result<()> {
        let passed = self.meter.pass(is_in_memory, &self.key);
        if passed > self.passed_max { Err(self.passed_too_many()) } else { Ok(()) }
    }

    #[cold]
    fn passed_too_many(&mut self) -> Error {
        self.merge = MergeCursor::new(Vec::new(), Direction::Forward);
        let message = format!(
            "the scan has passed {} entries that were deleted or overwritten, or have expired, and may pass no more",
            self.passed_max
        );
        Error::new(ErrorKind::NeedsIo, message)
    }

    /// Called after some entries that a range deletion hides, as it hides the entry of `self.key` with the number
    /// `seq`. Leaves the deletion's range in the sources in which it hides everything. Returns whether the merge is at
    /// another entry.
    #[inline]
    fn leave_hidden(&mut self, seq: SeqNo) -> Result<bool> {
        let Some(hidden) = self.cover.piece_over(&self.key).filter(|piece| piece.seq > seq) else {
            return Ok(false);
        };
        self.hidden += 1;
        if self.hidden < HIDDEN_MAX {
            return Ok(false);
        }
        self.hidden = 0;
        self.merge.leave_hidden(hidden)
    }

    /// Skips the other versions of the current key. With `is_new`, when the scan has met no version that it sees, it
    /// moves to the versions that it sees; otherwise it moves to the next key.
    #[cold]
    fn seek_past_versions(&mut self, is_new: bool) -> Result<()> {
        let mut key = self.merge.key().to_vec();
        if is_new && self.merge.seq() > self.seq {
            return self.merge.seek(&key, self.seq);
        }
        key.push(0);
        self.merge.seek(&key, MAX_SEQ)
    }

    /// Releases the sources and stays at the end.
    fn finish(&mut self) -> Result<bool> {
        self.merge = MergeCursor::new(Vec::new(), Direction::Forward);
        Ok(false)
    }

    fn advance_backward(&mut self) -> Result<bool> {
        if !self.started {
            self.start()?;
        }
        while self.merge.valid() {
            if self.merge.key() < self.range.keys.lower.as_slice() {
                return self.finish();
            }
            self.key.clear();
            self.key.extend_from_slice(self.merge.key());
            let (mut newest, mut skipped, mut is_in_memory) = (None, 0, false);
            while self.merge.valid() && self.merge.key() == self.key.as_slice() {
                skipped += 1;
                if skipped > SKIPPED_MAX {
                    newest = self.seek_newest()?;
                    break;
                }
                if skipped > 1 {
                    // An older version than this one.
                    self.pass(is_in_memory)?;
                }
                is_in_memory = self.merge.is_in_memory();
                if self.merge.seq() <= self.seq {
                    newest = Some((self.merge.seq(), self.merge.kind()));
                    self.note_value();
                }
                self.merge.advance()?;
            }
            if let Some((seq, kind)) = newest {
                self.kind = kind;
                if lives(self.kind, self.time_us, &mut self.cover, seq, &self.key, &self.value) {
                    return Ok(true);
                }
                self.leave_hidden(seq)?;
            }
            self.pass(is_in_memory)?;
        }
        Ok(false)
    }

    /// Backward: keeps the needed part of the merge's current entry.
    fn note_value(&mut self) {
        self.value.clear();
        let stored = self.merge.value();
        let needed = match self.merge.kind() {
            _ if !self.range.keys_only => stored.len(),
            // Whether it has a time.
            Kind::Merge => 1,
            kind => kind.stored_min(),
        };
        self.value.extend_from_slice(&stored[..needed.min(stored.len())]);
    }

    /// Backward: reads the newest version of `self.key` that the scan sees, and moves to before the key.
    #[cold]
    fn seek_newest(&mut self) -> Result<Option<(SeqNo, Kind)>> {
        self.merge.turn(Direction::Forward);
        self.merge.seek(&self.key, self.seq)?;
        let mut newest = None;
        if self.merge.valid() && self.merge.key() == self.key.as_slice() {
            newest = Some((self.merge.seq(), self.merge.kind()));
            self.note_value();
        }
        self.merge.turn(Direction::Backward);
        self.merge.seek(&self.key, MAX_SEQ)?;
        Ok(newest)
    }
}

/// Whether to show the pair of `key`, whose entry has this kind and number and holds `stored`.
#[inline]
fn lives(kind: Kind, time_us: u64, cover: &mut Cover, seq: SeqNo, key: &[u8], stored: &[u8]) -> bool {
    let lives = match kind {
        Kind::Put | Kind::Blob => true,
        kind => Content::open(kind, stored).lives(|| time_us),
    };
    lives && cover.over(key) <= seq
}

impl Iterator for Scan {
    type Item = Result<(Vec<u8>, Vec<u8>)>;

    fn next(&mut self) -> Option<Self::Item> {
        let moved = self.advance();
        let copied = moved.and_then(|more| if more { self.pair().map(Some) } else { Ok(None) });
        match copied {
            Ok(pair) => pair.map(|(key, value)| Ok((key.to_vec(), value.to_vec()))),
            Err(error) => {
                self.merge = MergeCursor::new(Vec::new(), Direction::Forward);
                Some(Err(error))
            }
        }
    }
}
