//! A queue of pages without duplicates, found by page: what the policies are made of.

use std::collections::{HashMap, VecDeque};

/// Pages enter at the front and leave at the back. Every operation takes constant time on average: a page that is taken out
/// of the middle leaves an outdated place behind, which is skipped later.
#[derive(Default)]
pub(super) struct Queue {
    /// The front first: pages, and the numbers of their entries.
    places: VecDeque<(u64, u64)>,
    /// By page, the number of its last entry.
    entries: HashMap<u64, u64>,
    entered: u64,
}

impl Queue {
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(super) fn contains(&self, page: u64) -> bool {
        self.entries.contains_key(&page)
    }

    /// The page must not be here.
    pub(super) fn push_front(&mut self, page: u64) {
        self.entered += 1;
        self.entries.insert(page, self.entered);
        self.places.push_front((page, self.entered));
        if self.places.len() > 2 * self.entries.len() + 16 {
            let entries = &self.entries;
            self.places.retain(|(page, entry)| entries.get(page) == Some(entry));
        }
    }

    /// Takes a page out. Returns whether it was here.
    pub(super) fn take(&mut self, page: u64) -> bool {
        self.entries.remove(&page).is_some()
    }

    /// Moves a page to the front. Returns whether it was here.
    pub(super) fn raise(&mut self, page: u64) -> bool {
        let is_here = self.take(page);
        if is_here {
            self.push_front(page);
        }
        is_here
    }

    pub(super) fn pop_back(&mut self) -> Option<u64> {
        loop {
            let (page, entry) = self.places.pop_back()?;
            if self.entries.get(&page) == Some(&entry) {
                self.entries.remove(&page);
                return Some(page);
            }
        }
    }

    /// Drops pages at the back until at most `len` are left.
    pub(super) fn truncate(&mut self, len: usize) {
        while self.len() > len {
            self.pop_back();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_leave_in_the_order_in_which_they_last_entered() {
        let mut queue = Queue::default();
        (0..5).for_each(|page| queue.push_front(page));
        assert!(queue.take(1) && !queue.take(1) && queue.raise(0) && !queue.raise(9));
        queue.push_front(1);
        queue.truncate(4);
        assert_eq!((queue.len(), queue.contains(2), queue.contains(1)), (4, false, true));
        let left: Vec<u64> = std::iter::from_fn(|| queue.pop_back()).collect();
        assert_eq!(left, [3, 4, 0, 1]);
        // Outdated places do not pile up.
        (0..10).for_each(|page| queue.push_front(page));
        (0..10_000).for_each(|i| assert!(queue.raise(i % 10)));
        assert!(queue.places.len() < 50);
    }
}
