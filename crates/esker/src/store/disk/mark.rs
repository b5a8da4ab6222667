//! Lends the space below the low-space mark to one merge at a time, which gives back more than it takes.

use std::time::Duration;

use parking_lot::{Condvar, Mutex, MutexGuard};

/// All methods may be called by many threads at the same time.
#[derive(Debug, Default)]
pub(super) struct Mark {
    is_lent: Mutex<bool>,
    is_back: Condvar,
}

/// A merge has the mark until this is dropped.
#[derive(Debug)]
pub(in crate::store) struct Lent<'a>(&'a Mark);

impl Drop for Lent<'_> {
    fn drop(&mut self) {
        *self.0.is_lent.lock() = false;
        self.0.is_back.notify_all();
    }
}

impl Mark {
    /// Lends the mark. `None` if another merge has it. Waits while a put or a job keeps the mark: at most until a log
    /// segment is made.
    pub(super) fn lend(&self) -> Option<Lent<'_>> {
        let was_lent = std::mem::replace(&mut *self.is_lent.lock(), true);
        if was_lent { None } else { Some(Lent(self)) }
    }

    /// Keeps the mark from being lent until the result is dropped. `None` if it is lent.
    pub(super) fn keep(&self) -> Option<MutexGuard<'_, bool>> {
        let is_lent = self.is_lent.lock();
        (!*is_lent).then_some(is_lent)
    }

    /// Whether the mark is lent, or a put or a job keeps it just now. Does not wait.
    pub(super) fn may_be_lent(&self) -> bool {
        self.is_lent.try_lock().is_none_or(|is_lent| *is_lent)
    }

    /// Waits until no merge has it, for at most this time.
    pub(super) fn await_back(&self, at_most: Duration) {
        let mut is_lent = self.is_lent.lock();
        if *is_lent {
            self.is_back.wait_for(&mut is_lent, at_most);
        }
    }

    /// [`Mark::keep`], after waiting until no merge has it.
    pub(super) fn take_back(&self) -> MutexGuard<'_, bool> {
        let mut is_lent = self.is_lent.lock();
        while *is_lent {
            self.is_back.wait(&mut is_lent);
        }
        is_lent
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_merge_has_it_at_a_time_and_whoever_wants_it_back_waits() {
        let mark = Mark::default();
        let lent = mark.lend().unwrap();
        assert!(mark.lend().is_none() && mark.keep().is_none() && mark.may_be_lent());
        std::thread::scope(|scope| {
            let kept = scope.spawn(|| drop(mark.take_back()));
            assert!(mark.lend().is_none() && !kept.is_finished());
            drop(lent);
            kept.join().unwrap();
        });
        let kept = mark.keep().unwrap();
        assert!(mark.may_be_lent(), "a caller that does not wait cannot know it while the mark is kept");
        drop(kept);
        assert!(!mark.may_be_lent() && mark.lend().is_some());
    }

    #[test]
    fn a_wait_ends_when_it_is_back_or_the_time_is_over() {
        let mark = Mark::default();
        mark.await_back(Duration::MAX);
        let lent = mark.lend().unwrap();
        mark.await_back(Duration::from_millis(1));
        assert!(mark.may_be_lent());
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| mark.await_back(Duration::MAX));
            assert!(!waits.is_finished());
            drop(lent);
            waits.join().unwrap();
        });
        assert!(!mark.may_be_lent());
    }
}
