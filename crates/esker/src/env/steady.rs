//! The time by which values expire.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::Clock;
use crate::canary::broken;

/// The wall clock, except that it never goes back. So what has expired stays expired, whatever happens to the machine's
/// clock. If the wall clock is set back, this clock goes on from where it was, at the pace of the monotonic clock.
#[derive(Debug)]
pub(crate) struct SteadyClock {
    clock: Arc<dyn Clock>,
    /// The most that the wall clock was ever ahead of the monotonic clock, in microseconds.
    ahead: AtomicU64,
}

impl SteadyClock {
    /// A clock that shows at least `reached`, in microseconds since 1970: the latest known time of the store's clock.
    pub(crate) fn new(clock: Arc<dyn Clock>, reached: u64) -> Self {
        let reached = if broken("rule-17-clock") { 0 } else { reached };
        let ahead = AtomicU64::new(reached.saturating_sub(clock.monotonic_us()));
        SteadyClock { clock, ahead }
    }

    /// Microseconds since 1970.
    ///
    /// The wall clock is read first. If the thread is stopped between the two readings, this call returns the time of
    /// the first. In the other order, the pause would count for good as time by which the wall clock is ahead.
    pub(crate) fn now_us(&self) -> u64 {
        let wall = self.clock.wall_us();
        let monotonic = self.clock.monotonic_us();
        let ahead = wall.saturating_sub(monotonic);
        monotonic.saturating_add(self.ahead.fetch_max(ahead, Ordering::AcqRel).max(ahead))
    }

    /// From now on the clock shows at least `reached`.
    pub(crate) fn raise(&self, reached: u64) {
        let ahead = reached.saturating_sub(self.clock.monotonic_us());
        self.ahead.fetch_max(ahead, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[derive(Debug, Default)]
    struct Hands {
        wall: AtomicU64,
        monotonic: AtomicU64,
    }

    impl Clock for Hands {
        fn wall_us(&self) -> u64 {
            self.wall.load(Ordering::Relaxed)
        }

        fn monotonic_us(&self) -> u64 {
            self.monotonic.load(Ordering::Relaxed)
        }

        fn sleep(&self, _: Duration) {}
    }

    #[test]
    fn it_follows_the_wall_clock_and_never_goes_back() {
        let hands = Arc::new(Hands::default());
        let set = |wall, monotonic| {
            hands.wall.store(wall, Ordering::Relaxed);
            hands.monotonic.store(monotonic, Ordering::Relaxed);
        };
        set(1000, 5);
        let clock = SteadyClock::new(Arc::<Hands>::clone(&hands), 0);
        assert_eq!(clock.now_us(), 1000);
        set(1500, 6);
        assert_eq!(clock.now_us(), 1500);
        // Set back, it goes on at its pace.
        set(20, 16);
        assert_eq!(clock.now_us(), 1510);
        // Another opening begins where the last one was.
        set(30, 2);
        let later = SteadyClock::new(Arc::<Hands>::clone(&hands), 1510);
        assert_eq!(later.now_us(), 1510);
        set(9000, 3);
        assert_eq!(later.now_us(), 9000);
    }

    /// A clock that is right, and a thread that is stopped for `pause` microseconds after each look at it.
    #[derive(Debug)]
    struct Stopped {
        since_1970: AtomicU64,
        pause: AtomicU64,
    }

    impl Stopped {
        const BOOTED: u64 = 1_000_000;

        fn look(&self) -> u64 {
            self.since_1970.fetch_add(self.pause.load(Ordering::Relaxed), Ordering::Relaxed)
        }
    }

    impl Clock for Stopped {
        fn wall_us(&self) -> u64 {
            self.look()
        }

        fn monotonic_us(&self) -> u64 {
            self.look() - Stopped::BOOTED
        }

        fn sleep(&self, _: Duration) {}
    }

    #[test]
    fn a_pause_between_two_readings_does_not_put_it_forward() {
        let world =
            Arc::new(Stopped { since_1970: AtomicU64::new(5_000_000), pause: AtomicU64::new(400_000) });
        let real = || world.since_1970.load(Ordering::Relaxed);
        let mut shown = 0;
        for opening in 0..3 {
            let clock = SteadyClock::new(Arc::<Stopped>::clone(&world), shown);
            for pause in [0, 400_000, 0, 7, 3_600_000_000, 0, 0] {
                world.pause.store(pause, Ordering::Relaxed);
                let before = real();
                let now = clock.now_us();
                assert!(now >= shown, "opening {opening}: it went back from {shown} to {now}");
                assert!((before..=real()).contains(&now), "opening {opening}: {now} is not {before}");
                shown = now;
                clock.raise(shown);
            }
        }
    }
}
