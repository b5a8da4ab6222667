//! A small number for each thread, as long as it runs: the place where it counts without coordination with others.

use std::cell::Cell;

use parking_lot::Mutex;

/// The number of places: as many threads at a time have a number below this.
pub(super) const PLACES: usize = 64;

/// The thread has no number: it was not requested yet, there are too many threads, or the thread is ending.
const UNKNOWN: usize = usize::MAX;
const NONE: usize = PLACES;

/// Unused numbers; returned ones first.
struct Free {
    left: Vec<usize>,
    next: usize,
}

static FREE: Mutex<Free> = Mutex::new(Free { left: Vec::new(), next: 0 });

thread_local! {
    static PLACE: Cell<usize> = const { Cell::new(UNKNOWN) };
    static GIVES_BACK: GivesBack = const { GivesBack };
}

/// Gives the thread's number back when it ends.
struct GivesBack;

impl Drop for GivesBack {
    fn drop(&mut self) {
        let place = PLACE.replace(NONE);
        if place < PLACES {
            // The lock hands the counts over to the next thread, too.
            FREE.lock().left.push(place);
        }
    }
}

/// This thread's number; [`PLACES`] if it has none.
#[inline]
pub(super) fn place_of_thread() -> usize {
    let place = PLACE.get();
    if place == UNKNOWN { take() } else { place }
}

#[cold]
fn take() -> usize {
    let mut free = FREE.lock();
    let place = free.left.pop().unwrap_or_else(|| {
        let next = free.next;
        free.next = (next + 1).min(PLACES);
        next
    });
    drop(free);
    PLACE.set(place);
    // If the thread is ending already, its number would never be given back.
    if place < PLACES && GIVES_BACK.try_with(|_| ()).is_err() {
        PLACE.set(NONE);
        FREE.lock().left.push(place);
        return NONE;
    }
    place
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::sync::Barrier;

    use super::*;

    #[test]
    fn threads_that_run_at_once_share_no_number_and_those_that_end_give_theirs_back() {
        for _ in 0..3 {
            let together = Barrier::new(PLACES + 10);
            let places: Vec<usize> = std::thread::scope(|scope| {
                let place = || {
                    let place = place_of_thread();
                    together.wait();
                    assert_eq!(place_of_thread(), place);
                    place
                };
                let threads: Vec<_> = (0..PLACES + 10).map(|_| scope.spawn(place)).collect();
                threads.into_iter().map(|thread| thread.join().unwrap()).collect()
            });
            let own: Vec<usize> = places.iter().copied().filter(|&place| place < PLACES).collect();
            assert_eq!(own.iter().collect::<HashSet<_>>().len(), own.len());
            // Other tests' threads may have some.
            assert!(own.len() > PLACES / 4, "{}", own.len());
        }
    }
}
