//! A range that is read from both ends: an ascending scan and a descending one of the same read point. Each is made
//! when it is first needed. The range is over when the two meet.

use std::iter::FusedIterator;

use super::lent::ValueRef;
use super::meter::ScanMeter;
use super::range::ScanRange;
use super::scan::Scan;
use super::view::{View, cover_of};
use crate::canary::broken;
use crate::error::Result;
use crate::ranges::Cover;

/// The pairs of a range in key order, from either end or from both: [`Range::next_ref`] and [`Range::next_back_ref`]
/// lend them. As an iterator it hands out copies.
///
/// The pairs are those of the moment when the range was made, regardless of later writes. A range keeps the
/// files that it reads.
///
/// # Example
/// ```
/// # fn main() -> esker::Result<()> {
/// # let db = esker::Db::open_in_memory(esker::Options::default())?;
/// let planets = db.tree("planets")?;
/// for (place, name) in ["mercury", "venus", "earth", "mars"].into_iter().enumerate() {
///     planets.put([place as u8], name)?;
/// }
/// let mut inner = planets.range([0]..=[2])?;
/// let (key, value) = inner.next_ref()?.expect("there are three");
/// assert_eq!((key, &value.bytes()?[..]), (&[0][..], &b"mercury"[..]));
/// let (key, value) = inner.next_back_ref()?.expect("there are two more");
/// assert_eq!((key, &value.bytes()?[..]), (&[2][..], &b"earth"[..]));
///
/// for pair in planets.iter()?.rev() {
///     let (key, value) = pair?;
///     println!("{key:?}: {} bytes", value.len());
/// }
/// # Ok(())
/// # }
/// ```
pub struct Range {
    view: View,
    range: ScanRange,
    cover: Cover,
    ascending: Option<Scan>,
    descending: Option<Scan>,
    is_over: bool,
}

impl std::fmt::Debug for Range {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Range").field("range", &self.range).finish_non_exhaustive()
    }
}

impl Range {
    pub(crate) fn new(view: View, range: ScanRange) -> Range {
        let cover = cover_of(&view.states, &range.keys, view.point.0);
        Range { view, range, cover, ascending: None, descending: None, is_over: false }
    }

    /// The next pair; `None` when the range is over. The value is empty if the range is one of keys only.
    ///
    /// # Errors
    /// `Corruption` or `Io` when a table cannot be read; the range is then over.
    #[inline]
    pub fn next_ref(&mut self) -> Result<Option<(&[u8], ValueRef<'_>)>> {
        self.step(self.range.reverse)
    }

    /// The last pair that was not returned yet; `None` when the range is over.
    ///
    /// # Errors
    /// As [`Range::next_ref`].
    #[inline]
    pub fn next_back_ref(&mut self) -> Result<Option<(&[u8], ValueRef<'_>)>> {
        self.step(!self.range.reverse)
    }

    fn step(&mut self, descending: bool) -> Result<Option<(&[u8], ValueRef<'_>)>> {
        let moved = self.advance(descending);
        if !matches!(moved, Ok(true)) {
            (self.is_over, self.ascending, self.descending) = (true, None, None);
            self.view.release();
        }
        moved?;
        let scan = if descending { &self.descending } else { &self.ascending };
        Ok(scan.as_ref().map(|scan| (scan.key(), ValueRef::of(scan))))
    }

    /// Moves one of the scans; `false` if the range is over.
    fn advance(&mut self, descending: bool) -> Result<bool> {
        if self.is_over {
            return Ok(false);
        }
        let is_second = self.ascending.is_some() || self.descending.is_some();
        let (mine, other) = match descending {
            true => (&mut self.descending, &self.ascending),
            false => (&mut self.ascending, &self.descending),
        };
        let scan = match mine {
            Some(scan) => scan,
            none => {
                let View { store, tree, states, point, held } = &self.view;
                let meter = if is_second { ScanMeter::silent } else { ScanMeter::begin };
                let meter = meter(store.clone(), tree);
                let range = ScanRange { reverse: descending, ..self.range.clone() };
                let scan = Scan::under(states, *point, range, self.cover.clone(), held.clone(), meter)?;
                none.insert(scan)
            }
        };
        let more = scan.advance()?;
        // The other scan is at a pair, or the range would be over.
        let have_met = other.as_ref().is_some_and(|other| match descending {
            true => scan.key() <= other.key(),
            false if broken("range-ends") => scan.key() > other.key(),
            false => scan.key() >= other.key(),
        });
        Ok(more && !have_met)
    }
}

impl Range {
    fn copied(&mut self, descending: bool) -> Option<Result<(Vec<u8>, Vec<u8>)>> {
        let copied = match self.step(descending) {
            Ok(Some((key, value))) => value.bytes().map(|bytes| Some((key.to_vec(), bytes.into_owned()))),
            Ok(None) => Ok(None),
            Err(error) => Err(error),
        };
        if copied.is_err() {
            self.is_over = true;
        }
        copied.transpose()
    }
}

/// Copies of the pairs. An error ends the iteration.
impl Iterator for Range {
    type Item = Result<(Vec<u8>, Vec<u8>)>;

    fn next(&mut self) -> Option<Self::Item> {
        self.copied(self.range.reverse)
    }
}

impl DoubleEndedIterator for Range {
    fn next_back(&mut self) -> Option<Self::Item> {
        self.copied(!self.range.reverse)
    }
}

impl FusedIterator for Range {}
