//! A span of keys between two bounds.

use std::ops::Bound;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) lower: Bound<Vec<u8>>,
    pub(super) upper: Bound<Vec<u8>>,
}

/// Bounds as the range lookups of sorted maps take them.
pub(super) type Bounds<'a> = (Bound<&'a [u8]>, Bound<&'a [u8]>);

/// A bound of borrowed bytes, as sorted maps and cursors take it.
pub(super) fn borrowed(bound: &Bound<Vec<u8>>) -> Bound<&[u8]> {
    match bound {
        Bound::Included(key) => Bound::Included(key),
        Bound::Excluded(key) => Bound::Excluded(key),
        Bound::Unbounded => Bound::Unbounded,
    }
}

/// Whether a span from `lower` to `upper` may hold a key. Also true for neighbouring bounds with nothing in between,
/// such as "a" and "a\0" excluded.
fn reaches(lower: &Bound<Vec<u8>>, upper: &Bound<Vec<u8>>) -> bool {
    match (lower, upper) {
        (Bound::Unbounded, _) | (_, Bound::Unbounded) => true,
        (Bound::Included(lower), Bound::Included(upper)) => lower <= upper,
        (
            Bound::Included(lower) | Bound::Excluded(lower),
            Bound::Included(upper) | Bound::Excluded(upper),
        ) => lower < upper,
    }
}

impl Span {
    /// Bounds for the range lookups of sorted maps, which panic on crossed bounds; `None` if these are crossed.
    pub(super) fn bounds(&self) -> Option<Bounds<'_>> {
        reaches(&self.lower, &self.upper).then(|| (borrowed(&self.lower), borrowed(&self.upper)))
    }

    pub(super) fn contains(&self, key: &[u8]) -> bool {
        use std::ops::RangeBounds;
        (borrowed(&self.lower), borrowed(&self.upper)).contains(key)
    }

    /// Whether some key may be in both.
    pub(super) fn overlaps(&self, other: &Span) -> bool {
        reaches(&self.lower, &self.upper)
            && reaches(&other.lower, &other.upper)
            && reaches(&self.lower, &other.upper)
            && reaches(&other.lower, &self.upper)
    }

    /// Whether every key of `other` is in this span.
    pub(super) fn covers(&self, other: &Span) -> bool {
        let from = match (&self.lower, &other.lower) {
            (Bound::Unbounded, _) => true,
            (_, Bound::Unbounded) => false,
            (Bound::Excluded(mine), Bound::Included(theirs)) => mine < theirs,
            (
                Bound::Included(mine) | Bound::Excluded(mine),
                Bound::Included(theirs) | Bound::Excluded(theirs),
            ) => mine <= theirs,
        };
        let to = match (&self.upper, &other.upper) {
            (Bound::Unbounded, _) => true,
            (_, Bound::Unbounded) => false,
            (Bound::Excluded(mine), Bound::Included(theirs)) => mine > theirs,
            (
                Bound::Included(mine) | Bound::Excluded(mine),
                Bound::Included(theirs) | Bound::Excluded(theirs),
            ) => mine >= theirs,
        };
        from && to
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Tests every pair of bounds over a few keys, and judges each span key by key.
    #[test]
    fn spans_agree_with_the_keys_in_them() {
        let keys: Vec<Vec<u8>> = (1..=5).map(|n| vec![n * 10]).collect();
        // Includes keys between those of the bounds, to tell neighbours apart.
        let universe: Vec<Vec<u8>> = (0..60).map(|n| vec![n]).collect();
        let mut bounds = vec![Bound::Unbounded];
        for key in &keys {
            bounds.push(Bound::Included(key.clone()));
            bounds.push(Bound::Excluded(key.clone()));
        }
        let mut spans = Vec::new();
        for lower in &bounds {
            for upper in &bounds {
                spans.push(Span { lower: lower.clone(), upper: upper.clone() });
            }
        }
        let held = |span: &Span| universe.iter().filter(|key| span.contains(key)).count();
        for a in &spans {
            assert_eq!(a.bounds().is_some(), held(a) > 0, "{a:?}");
            for b in &spans {
                let both = universe.iter().filter(|key| a.contains(key) && b.contains(key)).count();
                assert_eq!(a.overlaps(b), both > 0, "{a:?} {b:?}");
                if a.covers(b) {
                    assert_eq!(both, held(b), "{a:?} {b:?}");
                }
            }
        }
    }
}
