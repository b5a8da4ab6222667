//! What of a store's values is live: the newest of each key, what a snapshot keeps, what is being written. What a
//! snapshot has kept counts two seconds longer: so long the store may take to give it back, and all of it at once
//! would be owed in the moment in which the snapshot goes.

use std::time::{Duration, Instant};

/// How long after its snapshot a value may still take space.
const GRACE: Duration = Duration::from_secs(2);

/// The bytes of a key's value, and whether a snapshot that is held sees just this value.
#[derive(Clone, Copy, Default)]
struct Slot {
    bytes: u64,
    in_snapshot: bool,
}

/// Counts bytes of keys and values, for keys that are numbers below a bound.
pub(super) struct Account {
    slots: Vec<Option<Slot>>,
    newest: u64,
    under_way: u64,
    /// What the snapshot sees and the newest state has not.
    kept: u64,
    /// What the last snapshot kept, and when it went.
    left: Option<(u64, Instant)>,
    written: u64,
}

impl Account {
    pub(super) fn new(keys: usize) -> Account {
        Account { slots: vec![None; keys], newest: 0, under_way: 0, kept: 0, left: None, written: 0 }
    }

    /// Bytes that the store must have, or may still have.
    pub(super) fn live(&self, now: Instant) -> u64 {
        let left = self.left.filter(|(_, since)| now.saturating_duration_since(*since) < GRACE);
        self.newest + self.under_way + self.kept + left.map_or(0, |(bytes, _)| bytes)
    }

    /// Bytes that the newest state has.
    pub(super) fn newest(&self) -> u64 {
        self.newest
    }

    /// Bytes that were put since the beginning.
    pub(super) fn written(&self) -> u64 {
        self.written
    }

    /// A put of `bytes` begins.
    pub(super) fn begin(&mut self, bytes: u64) {
        self.under_way += bytes;
    }

    /// The put of `bytes` that began has returned: they are what `key` has.
    pub(super) fn put(&mut self, key: usize, bytes: u64) {
        self.end(key);
        self.slots[key] = Some(Slot { bytes, in_snapshot: false });
        self.under_way -= bytes;
        self.newest += bytes;
        self.written += bytes;
    }

    /// A delete has returned.
    pub(super) fn end(&mut self, key: usize) {
        if let Some(slot) = self.slots[key].take() {
            self.newest -= slot.bytes;
            self.kept += if slot.in_snapshot { slot.bytes } else { 0 };
        }
    }

    /// A snapshot is held from now on; there is one at a time.
    pub(super) fn hold(&mut self) {
        self.slots.iter_mut().flatten().for_each(|slot| slot.in_snapshot = true);
    }

    /// The snapshot went.
    pub(super) fn let_go(&mut self, now: Instant) {
        self.slots.iter_mut().flatten().for_each(|slot| slot.in_snapshot = false);
        self.left = Some((std::mem::take(&mut self.kept), now));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::Draws;
    use std::collections::BTreeSet;

    #[test]
    fn the_count_is_that_of_all_values_that_somebody_sees() {
        let draws = Draws::new(1, 1);
        let mut account = Account::new(20);
        let (now, later) = (Instant::now(), Instant::now() + 2 * GRACE);
        // Every version ever put is a number; who sees it is looked up the slow way.
        let (mut bytes, mut newest, mut seen) = (Vec::new(), [None; 20], [None; 20]);
        for step in 0..2000 {
            let key = draws.below(4 * step, 20) as usize;
            match draws.below(4 * step + 1, 20) {
                0 => {
                    account.let_go(now);
                    account.hold();
                    seen = newest;
                }
                1 => {
                    account.let_go(now);
                    seen = [None; 20];
                }
                2..8 => {
                    account.end(key);
                    newest[key] = None;
                }
                _ => {
                    let len = draws.below(4 * step + 2, 1000);
                    let before = account.live(later);
                    account.begin(len);
                    assert_eq!(account.live(later), before + len);
                    account.put(key, len);
                    newest[key] = Some(bytes.len());
                    bytes.push(len);
                }
            }
            let sum = |versions: &BTreeSet<usize>| versions.iter().map(|&v| bytes[v]).sum::<u64>();
            assert_eq!(account.newest(), sum(&newest.iter().flatten().copied().collect()));
            assert_eq!(account.live(later), sum(&newest.iter().chain(&seen).flatten().copied().collect()));
            assert_eq!(account.written(), bytes.iter().sum::<u64>());
        }
    }
}
