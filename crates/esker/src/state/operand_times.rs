//! Whether the operands that are written to a tree have times ([`crate::operators`]).
//!
//! They have times from the first value that expires on. An operand without a time thus lies over no value that
//! expires: all versions below it existed when it was written, and all of them last. The manifest notes a tree before
//! the first operand with a time is written to it. The rest follows from the tables and the log: while neither has a
//! value that expires, an operand needs no time.
//!
//! A merge drops an expired value if no operand above it was written before the value expired. Therefore an operand
//! that is written later must not have an earlier time. [`OperandTimes::drop_by`] records the time by which merges
//! drop, and each operand's time is compared with it under the commit lock.
//!
//! ```text
//! merge    drop_by(now) -- are they noted? -- yes: wait for the writes under way, look for operands above
//! write    note, durable -- read the clock -- commit lock -- is the time below that of drop_by? read the clock again
//! ```

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::canary::broken;

/// See the module's comment.
#[derive(Debug, Default)]
pub(crate) struct OperandTimes {
    wanted: AtomicBool,
    noted: AtomicBool,
    dropped_by: AtomicU64,
}

impl OperandTimes {
    /// A value that expires is to be written to the tree, or is in it.
    #[inline]
    pub(crate) fn want(&self) {
        if !self.wanted.load(Ordering::Relaxed) {
            self.wanted.store(true, Ordering::SeqCst);
        }
    }

    /// Notes that the manifest records that operands of the tree have times.
    pub(crate) fn note(&self) {
        self.noted.store(true, Ordering::SeqCst);
    }

    /// Whether operands that are written now need times. Under the commit lock the answer stays true for everything in
    /// the tree.
    #[inline]
    pub(crate) fn are_wanted(&self) -> bool {
        self.wanted.load(Ordering::SeqCst) || self.are_noted()
    }

    #[inline]
    pub(crate) fn are_noted(&self) -> bool {
        self.noted.load(Ordering::SeqCst)
    }

    /// Notes that a flush or a merge is going to drop values that expired by `time_us`. Returns whether operands of the
    /// tree may have times. Then the caller waits for the writes that are under way.
    pub(crate) fn drop_by(&self, time_us: u64) -> bool {
        self.dropped_by.fetch_max(time_us, Ordering::SeqCst);
        self.are_noted()
    }

    /// Restores the state of a version that gave operands no times.
    #[cfg(test)]
    fn forget(&self) {
        self.wanted.store(false, Ordering::SeqCst);
        self.noted.store(false, Ordering::SeqCst);
    }

    /// The time by which flushes and merges drop.
    pub(crate) fn dropped_by(&self) -> u64 {
        self.dropped_by.load(Ordering::SeqCst)
    }

    /// Whether an operand with this time, or without one, may be written. Called under the commit lock.
    pub(crate) fn admit(&self, time_us: Option<u64>) -> bool {
        match time_us {
            Some(time_us) => time_us >= self.dropped_by() || broken("operand-late"),
            None => !self.are_wanted(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::AtomicU64;
    use std::time::Duration;

    use super::*;
    use crate::db::Db;
    use crate::env::{Clock, Env, StepExecutor};
    use crate::fs::sim::SimFs;
    use crate::options::Options;

    /// A clock that the test sets.
    #[derive(Debug, Default)]
    struct Hand(AtomicU64);

    impl Clock for Hand {
        fn wall_us(&self) -> u64 {
            self.0.load(Ordering::Relaxed)
        }

        fn monotonic_us(&self) -> u64 {
            self.wall_us()
        }

        fn sleep(&self, _: Duration) {}
    }

    fn open(clock: &Arc<Hand>) -> Db {
        let env = Env {
            fs: Arc::new(SimFs::new(1)),
            clock: Arc::<Hand>::clone(clock),
            executor: Some(Arc::new(StepExecutor)),
            ..Env::default()
        };
        Db::open("/store", Options::default().memory_budget(8 << 20).env(env)).unwrap()
    }

    #[test]
    fn operands_without_times_count_as_they_did() {
        for compacts in 0..4 {
            let clock = Arc::new(Hand(AtomicU64::new(1_000_000)));
            let db = open(&clock);
            let tree = db.default_tree();
            let step = |place: u32| {
                if compacts & (1 << place) != 0 {
                    db.compact().unwrap();
                }
            };
            let read = || tree.get("k").unwrap().map(|value| (value.expires_us(), value.into_vec().unwrap()));
            tree.put_for("k", "v", Duration::from_secs(5)).unwrap();
            tree.inner().operand_times.forget();
            tree.append("k", "a").unwrap();
            step(0);
            // Operands that are written now have times.
            tree.inner().operand_times.want();
            tree.append("k", "b").unwrap();
            step(0);
            assert_eq!(read(), Some((None, b"vab".to_vec())));
            clock.0.store(7_000_000, Ordering::Relaxed);
            step(1);
            assert_eq!(read(), Some((None, b"a".to_vec())));
            tree.append("k", "c").unwrap();
            step(1);
            assert_eq!(read(), Some((None, b"ac".to_vec())));
        }
    }

    #[test]
    fn a_merge_has_later_operands_take_a_later_time() {
        let times = OperandTimes::default();
        assert!(times.admit(None) && !times.drop_by(50));
        times.want();
        times.note();
        assert!(times.drop_by(40));
        assert_eq!([Some(49), Some(50), None].map(|time_us| times.admit(time_us)), [false, true, false]);
        let clock = Arc::new(Hand(AtomicU64::new(1_000_000)));
        let db = open(&clock);
        let tree = db.default_tree();
        tree.put_for("k", "v", Duration::from_secs(5)).unwrap();
        // A merge is going to drop the value.
        tree.inner().operand_times.drop_by(7_000_000);
        tree.append("k", "a").unwrap();
        assert_eq!(tree.get_vec("k").unwrap().as_deref(), Some(&b"a"[..]));
    }
}
