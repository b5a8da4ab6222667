//! The time by which values expire.
//!
//! ```text
//! wall      ____/ 30 years ahead by mistake \____________ right again
//! store     ____/                            ------------ continues from there, as fast as the wall clock
//! ```
//!
//! The store's clock never goes back. Therefore expired values stay expired, regardless of the machine's clock. The
//! amount by which it is ahead of the wall clock is its *offset*. The manifest notes the clock together with the offset
//! ([`Reached`]), so that the time between two openings counts as the wall clock shows it.
//!
//! A wall clock that advances by hours may also have been set: a machine without a battery-backed clock begins in 1970
//! with each start, and is set right some minutes later. Then the time in between must not count, or values expire
//! early. Such a clock goes back to an offset that the store's clock had before. Therefore the smaller offsets are
//! noted too, and each of them that the wall clock may have gone back to is preferred to the passing of time. In case
//! of doubt nothing expires early:
//!
//! ```text
//! offset     0 ---> 30 years ---> 85 years ---> 30 years
//! wall    2055      2025          1970          2025 again: it was set right, and 55 years have not passed
//! ```

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

use super::Clock;
use crate::canary::broken;

/// The least offset that is noted, in microseconds. Clocks are set by less all the time.
const NOTED_US: u64 = 1_000_000;

/// See [`doubt`]: a day, in microseconds.
const DOUBT_MAX_US: u64 = 86_400_000_000;

/// The latest time that a wall clock is believed to show, some 73,000 years from now. From there the store's clock can
/// continue for as long again.
const WALL_MAX_US: u64 = 1 << 61;

/// How many earlier offsets are kept. The smallest are the ones that matter: they keep values from expiring early.
const EARLIER_MAX: usize = 8;

/// A wall clock that was set back by `by` microseconds and has advanced since by nearly as much counts as set right.
/// This is the part of `by` that may be missing: half of it, or a day.
fn doubt(by: u64) -> u64 {
    DOUBT_MAX_US.min(by / 2)
}

/// By how much the store's clock is ahead of the wall clock, and was before.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Offset {
    us: u64,
    /// Smaller offsets that it had before, in rising order. Zero, which all clocks begin with, is not among them.
    earlier: Vec<u64>,
}

impl Offset {
    /// The offset `us`, after the offsets `earlier`. Invalid offsets are left out: a store opens with any clock in its
    /// manifest.
    pub(crate) fn new(us: u64, mut earlier: Vec<u64>) -> Offset {
        earlier.retain(|&before| (1..us).contains(&before));
        earlier.sort_unstable();
        earlier.dedup();
        earlier.truncate(EARLIER_MAX);
        Offset { us, earlier }
    }

    /// In microseconds; 0 for less than a second.
    pub(crate) fn us(&self) -> u64 {
        self.us
    }

    pub(crate) fn earlier(&self) -> &[u64] {
        &self.earlier
    }

    /// The offset that the clock has when the wall clock has advanced by `passed`: the same, or an earlier one that the
    /// wall clock was set right to.
    fn after(&self, passed: u64) -> u64 {
        let is_back = |earlier: &u64| {
            let set_back = self.us.saturating_sub(*earlier);
            passed.saturating_add(doubt(set_back)) > set_back && !broken("clock-right")
        };
        [0].into_iter().chain(self.earlier.iter().copied()).find(is_back).unwrap_or(self.us)
    }

    /// The offset is `us` now.
    fn set(&mut self, us: u64) {
        let us = if us < NOTED_US { 0 } else { us };
        let before = std::mem::replace(&mut self.us, us);
        if before.saturating_add(NOTED_US) <= us {
            let is_near = |known: &u64| before.abs_diff(*known) <= doubt(us - before);
            if !is_near(&0) && !self.earlier.iter().any(is_near) {
                self.earlier.push(before);
            }
        }
        *self = Offset::new(us, std::mem::take(&mut self.earlier));
    }
}

/// The time that the store's clock has shown at some moment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Reached {
    /// In microseconds since 1970.
    pub(crate) us: u64,
    /// At that moment, at most `us`.
    pub(crate) offset: Offset,
}

impl Reached {
    /// The time of the store's clock at a later opening, when the wall clock shows `wall_us`, and whether the wall
    /// clock was set meanwhile.
    fn later(mut self, wall_us: u64) -> (Reached, bool) {
        let noted_us = self.us.saturating_sub(self.offset.us);
        let offset = self.offset.after(wall_us.saturating_sub(noted_us));
        let counted = if broken("clock-between") { 0 } else { offset };
        self.us = self.us.max(wall_us.saturating_add(counted));
        let was_set = offset != self.offset.us || wall_us.saturating_add(NOTED_US) < noted_us;
        self.offset.set(self.us - wall_us);
        (self, was_set)
    }

    /// The time of the store's clock when the wall clock shows `wall_us`, in microseconds since 1970.
    pub(crate) fn at(&self, wall_us: u64) -> u64 {
        self.clone().later(wall_us.min(WALL_MAX_US)).0.us
    }

    /// The same moment, if the store's clock showed at least `us` then.
    pub(crate) fn raised(mut self, us: u64) -> Reached {
        if let Some(by) = us.checked_sub(self.us).filter(|by| *by > 0) {
            self.us = us;
            let offset = self.offset.us.saturating_add(by);
            self.offset.us = if offset < NOTED_US { 0 } else { offset };
        }
        self
    }
}

/// The clock of an open store: see the head of the file. While the store is open, the monotonic clock counts, and the
/// wall clock where it has advanced by more, as when the machine was suspended.
#[derive(Debug)]
pub(crate) struct SteadyClock {
    clock: Arc<dyn Clock>,
    /// The amount by which this clock is ahead of the monotonic clock, in microseconds.
    ahead: AtomicU64,
    offset: Mutex<Offset>,
    /// The offset, for callers that do not take its lock.
    offset_us: AtomicU64,
    /// How often the wall clock has leapt.
    leaps: AtomicU64,
    /// How many of the leaps [`SteadyClock::has_leapt`] has reported.
    reported: AtomicU64,
}

impl SteadyClock {
    /// A clock that continues from `reached`, the latest known time of the store's clock.
    pub(crate) fn new(clock: Arc<dyn Clock>, reached: Reached) -> Self {
        let wall = clock.wall_us().min(WALL_MAX_US);
        let monotonic = clock.monotonic_us();
        let reached = if broken("rule-17-clock") { Reached::default() } else { reached };
        let (Reached { us, offset }, was_set) = reached.later(wall);
        SteadyClock {
            clock,
            ahead: AtomicU64::new(us.saturating_sub(monotonic)),
            offset_us: AtomicU64::new(offset.us),
            offset: Mutex::new(offset),
            leaps: AtomicU64::new(u64::from(was_set)),
            reported: AtomicU64::default(),
        }
    }

    fn wall_us(&self) -> u64 {
        self.clock.wall_us().min(WALL_MAX_US)
    }

    /// Microseconds since 1970.
    ///
    /// The wall clock is read first. If the thread is stopped between the two readings, this call returns the time of
    /// the first. In the other order, the pause would permanently count as time by which the wall clock is ahead.
    pub(crate) fn now_us(&self) -> u64 {
        let wall = self.wall_us();
        let monotonic = self.clock.monotonic_us();
        let ahead = wall.saturating_sub(monotonic);
        let before = self.ahead.fetch_max(ahead, Ordering::AcqRel);
        let now = monotonic.saturating_add(before.max(ahead));
        let offset = now.saturating_sub(wall);
        let leaps_ahead = ahead > before.saturating_add(NOTED_US);
        if leaps_ahead || offset.abs_diff(self.offset_us.load(Ordering::Relaxed)) >= NOTED_US {
            return self.notice_leap(wall, now, leaps_ahead);
        }
        now
    }

    /// The wall clock showed `wall` a moment ago, and then this clock showed `now`, which does not fit the offset.
    /// Either the wall clock has leapt, or the thread was stopped in between. Returns the time of this clock.
    #[cold]
    fn notice_leap(&self, wall: u64, now: u64, leaps_ahead: bool) -> u64 {
        let later_wall = self.wall_us();
        let monotonic = self.clock.monotonic_us();
        let mut offset = self.offset.lock();
        // If the thread was stopped, the new offset is anywhere in between.
        let (one, other) = (now.saturating_sub(wall), now.saturating_sub(later_wall));
        let new = offset.us.clamp(one.min(other), one.max(other));
        if !leaps_ahead && offset.us.abs_diff(new) < NOTED_US {
            return now;
        }
        self.leaps.fetch_add(1, Ordering::Relaxed);
        let wall = now - new;
        let mut shown = now;
        if !leaps_ahead && new < offset.us {
            // The wall clock has advanced by more than the monotonic one.
            shown = now.max(wall.saturating_add(offset.after(offset.us - new)));
            self.ahead.fetch_max(shown.saturating_sub(monotonic), Ordering::AcqRel);
        }
        offset.set(shown - wall);
        self.offset_us.store(offset.us, Ordering::Relaxed);
        shown
    }

    /// How far this clock was ahead of the wall clock when it was last read, in microseconds; 0 for less than a second.
    pub(crate) fn offset_us(&self) -> u64 {
        self.offset_us.load(Ordering::Relaxed)
    }

    /// Whether the wall clock has leapt since the last call.
    pub(crate) fn has_leapt(&self) -> bool {
        let leaps = self.leaps();
        self.reported.swap(leaps, Ordering::Relaxed) != leaps
    }

    /// How often the wall clock has leapt by a second or more, the last opening and this one included.
    pub(crate) fn leaps(&self) -> u64 {
        self.leaps.load(Ordering::Relaxed)
    }

    /// The present time of this clock.
    pub(crate) fn reached(&self) -> Reached {
        let us = self.now_us();
        Reached { us, offset: self.offset.lock().clone() }
    }

    /// From now on the clock shows at least `reached`.
    pub(crate) fn raise(&self, reached: u64) {
        let wall = self.wall_us();
        let ahead = reached.saturating_sub(self.clock.monotonic_us());
        let mut offset = self.offset.lock();
        if self.ahead.fetch_max(ahead, Ordering::AcqRel) < ahead {
            let new = reached.saturating_sub(wall);
            if new >= offset.us.saturating_add(NOTED_US) {
                offset.us = new;
                self.offset_us.store(offset.us, Ordering::Relaxed);
            }
        }
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

    impl Hands {
        fn set(&self, wall: u64, monotonic: u64) {
            self.wall.store(wall, Ordering::Relaxed);
            self.monotonic.store(monotonic, Ordering::Relaxed);
        }
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

    fn reached(us: u64, offset: u64) -> Reached {
        Reached { us, offset: Offset::new(offset, Vec::new()) }
    }

    #[test]
    fn it_follows_the_wall_clock_and_never_goes_back() {
        let hands = Arc::new(Hands::default());
        hands.set(1000, 5);
        let clock = SteadyClock::new(Arc::<Hands>::clone(&hands), Reached::default());
        assert_eq!(clock.now_us(), 1000);
        hands.set(1500, 6);
        assert_eq!(clock.now_us(), 1500);
        // If it is set back, it continues at its pace.
        hands.set(20, 16);
        assert_eq!(clock.now_us(), 1510);
        // Another opening begins at the last one's time.
        hands.set(30, 2);
        let later = SteadyClock::new(Arc::<Hands>::clone(&hands), reached(1510, 0));
        assert_eq!(later.now_us(), 1510);
        hands.set(9000, 3);
        assert_eq!(later.now_us(), 9000);
    }

    const HOUR: u64 = 3_600_000_000;
    const YEAR: u64 = 8766 * HOUR;
    /// The right time.
    const REAL: u64 = 55 * YEAR;

    #[test]
    fn time_between_openings_counts_unless_the_wall_clock_was_set_right() {
        let at = |us: u64, noted: u64, now: u64| reached(us, us - noted).at(now);
        // The clock was 30 years ahead once, and is right now.
        assert_eq!(at(REAL + 30 * YEAR, REAL, REAL + HOUR), REAL + 30 * YEAR + HOUR);
        assert_eq!(at(REAL + 30 * YEAR, REAL, REAL + 20 * YEAR), REAL + 50 * YEAR);
        // It was set back meanwhile.
        assert_eq!(at(REAL + 30 * YEAR, REAL + 30 * YEAR, REAL), REAL + 30 * YEAR);
        // It began in 1970, and was set right: the store was not ahead, or by little.
        assert_eq!(at(REAL, HOUR, REAL + HOUR), REAL + HOUR);
        assert_eq!(at(REAL + 9 * HOUR, HOUR, REAL), REAL + 9 * HOUR);
        // The usual case, and one that is set back again and again.
        assert_eq!(at(REAL, REAL, REAL + HOUR), REAL + HOUR);
        assert_eq!(at(REAL, HOUR, 2 * HOUR), REAL + HOUR);
        assert_eq!(at(REAL, HOUR, 0), REAL);
        assert_eq!(at(REAL + HOUR, REAL, REAL + HOUR / 2), REAL + 3 * (HOUR / 2));
        assert_eq!(at(REAL + HOUR, REAL, REAL + 2 * HOUR), REAL + 2 * HOUR);
    }

    /// A machine that begins in 1970 each time it starts, and a store that is 30 years ahead since once before. The store is
    /// opened once an hour, before and after the clock is set right, or the clock is set while it is open.
    #[test]
    fn a_clock_that_is_wrong_again_and_again_expires_nothing_early_and_holds_nothing_up() {
        let hands = Arc::new(Hands::default());
        let mut noted = reached(REAL + 30 * YEAR, 30 * YEAR);
        let mut since_start = 0;
        for hour in 1..1000 {
            let real = REAL + hour * HOUR;
            since_start = if hour % 7 == 0 { 0 } else { since_start + 1 };
            // It is set right when it has been on for this many hours.
            let is_right = since_start >= hour % 3;
            let wall = if is_right { real } else { since_start * HOUR };
            let due = real + 30 * YEAR;
            if hour % 5 == 0 {
                // It is set while the store is open, and leaps back.
                hands.set(wall, hour);
                let clock = SteadyClock::new(Arc::<Hands>::clone(&hands), noted);
                hands.set(real, hour + 10);
                clock.now_us();
                hands.set(wall + 20, hour + 20);
                clock.now_us();
                noted = clock.reached();
            } else {
                (noted, _) = noted.later(wall);
            }
            assert!(noted.us <= due + 100, "{hour}: {} hours early", (noted.us - due) / HOUR);
            assert!(noted.us >= due - 8 * HOUR, "{hour}: {} hours late", (due - noted.us) / HOUR);
            if is_right {
                assert!(noted.us.abs_diff(due) <= 100, "{hour}: {} and {due}", noted.us);
            }
        }
    }

    /// A clock that goes between two wrong times does not drive the store's clock away.
    #[test]
    fn a_clock_that_jumps_back_and_forth_moves_the_store_s_once() {
        let mut noted = reached(REAL + 30 * YEAR, 30 * YEAR);
        for round in 0..100 {
            for wall in [REAL + 15 * YEAR, REAL, 0] {
                (noted, _) = noted.later(wall + round);
                assert!(noted.us <= REAL + 45 * YEAR + round, "{round}: {}", noted.us / YEAR);
            }
        }
    }

    #[test]
    fn any_numbers_make_a_clock_that_goes_on() {
        let numbers = [
            0,
            1,
            NOTED_US,
            HOUR,
            DOUBT_MAX_US,
            REAL,
            8000 * YEAR,
            WALL_MAX_US,
            1 << 62,
            u64::MAX >> 1,
            u64::MAX,
        ];
        let hands = Arc::new(Hands::default());
        for us in numbers.into_iter().filter(|&us| us < u64::MAX) {
            for (offset, earlier) in numbers.into_iter().flat_map(|one| numbers.map(|other| (one, other))) {
                for wall in numbers {
                    let offset = Offset::new(offset.min(us), vec![earlier, 3, earlier, HOUR]);
                    hands.set(wall, 7);
                    let clock = SteadyClock::new(Arc::<Hands>::clone(&hands), Reached { us, offset });
                    let begun = clock.now_us();
                    assert!(begun >= us && begun >= wall.min(WALL_MAX_US), "{us} {wall}: {begun}");
                    hands.set(wall.saturating_add(HOUR), 7 + HOUR);
                    let gone_on = clock.now_us() - begun;
                    assert!((HOUR..=HOUR + NOTED_US).contains(&gone_on), "{us} {wall}: {gone_on}");
                    // The next opening does the same, an hour later.
                    let noted = clock.reached();
                    let next = noted.at(wall.saturating_add(2 * HOUR)) - noted.us;
                    let known = noted.offset.earlier.iter().chain([&0]);
                    let may_be_set_right = known.into_iter().any(|known| noted.offset.us - known <= 2 * HOUR);
                    let is_at_end = wall > WALL_MAX_US - 2 * HOUR;
                    assert!(
                        next.abs_diff(HOUR) <= NOTED_US || next < HOUR && (may_be_set_right || is_at_end),
                        "{noted:?} {wall}: {next}"
                    );
                    for wall in numbers {
                        assert!(noted.at(wall) >= noted.us);
                    }
                }
            }
        }
    }

    #[test]
    fn leaps_of_the_wall_clock_are_counted_and_the_offset_is_told() {
        let hands = Arc::new(Hands::default());
        hands.set(YEAR, 5);
        let clock = SteadyClock::new(Arc::<Hands>::clone(&hands), Reached::default());
        let told = || (clock.now_us(), clock.offset_us(), clock.leaps());
        assert_eq!(told(), (YEAR, 0, 0));
        // It is set by less than a second.
        hands.set(YEAR - 900_000, 6);
        assert_eq!(told(), (YEAR + 1, 0, 0));
        hands.set(2 * YEAR, 7);
        assert_eq!(told(), (2 * YEAR, 0, 1));
        hands.set(YEAR, 8);
        assert_eq!(told(), (2 * YEAR + 1, YEAR + 1, 2));
        hands.set(YEAR + 500_000, 9);
        assert_eq!(told(), (2 * YEAR + 2, YEAR + 1, 2));
        assert!(clock.has_leapt() && !clock.has_leapt());
        assert_eq!(clock.reached(), reached(2 * YEAR + 2, YEAR + 1));
        // The machine was suspended for two hours.
        hands.set(YEAR + 2 * HOUR, 10);
        assert_eq!(told(), (2 * YEAR + 2 * HOUR + 1, YEAR + 1, 3));
        // Set back and right again, nothing has passed.
        hands.set(HOUR, 11);
        assert_eq!(told(), (2 * YEAR + 2 * HOUR + 2, 2 * YEAR + HOUR + 2, 4));
        hands.set(YEAR + 2 * HOUR + 1, 12);
        assert_eq!(told(), (2 * YEAR + 2 * HOUR + 3, YEAR + 2, 5));
        // The advance by an import is not a leap.
        clock.raise(2 * YEAR + 5 * HOUR);
        assert_eq!(told(), (2 * YEAR + 5 * HOUR, YEAR + 3 * HOUR - 1, 5));
        assert_eq!(reached(YEAR, HOUR).raised(YEAR + HOUR), reached(YEAR + HOUR, 2 * HOUR));
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
            let clock = SteadyClock::new(Arc::<Stopped>::clone(&world), reached(shown, 0));
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
