//! Clock, as in K. Cai and J. Guo's *KV Store Project Report* (2024): a hand sweeps over the slots and spares
//! once each page that was asked for since the last sweep.
//!
//! A hit costs one store. A new page starts without its mark in the slot that the hand has just passed. So it
//! has a whole round to be asked for a second time.

use super::Policy;

const FREE: u8 = 0;
const TAKEN: u8 = 1;
const MARKED: u8 = 2;

#[derive(Debug, Default)]
pub(crate) struct Clock {
    slots: Vec<u8>,
    taken: usize,
    hand: usize,
}

impl Policy for Clock {
    fn page_bytes(&self) -> usize {
        1
    }

    fn inserted(&mut self, slot: u32) {
        let slot = slot as usize;
        if slot >= self.slots.len() {
            self.slots.resize(slot + 1, FREE);
        }
        self.slots[slot] = TAKEN;
        self.taken += 1;
    }

    #[inline]
    fn hit(&mut self, slot: u32) {
        if let Some(state) = self.slots.get_mut(slot as usize) {
            *state = MARKED;
        }
    }

    fn removed(&mut self, slot: u32) {
        if let Some(state) = self.slots.get_mut(slot as usize) {
            *state = FREE;
            self.taken -= 1;
        }
    }

    fn evict(&mut self, _hashes: &[u64]) -> Option<u32> {
        if self.taken == 0 {
            return None;
        }
        loop {
            let slot = if self.hand < self.slots.len() { self.hand } else { 0 };
            self.hand = slot + 1;
            match self.slots[slot] {
                TAKEN => {
                    self.slots[slot] = FREE;
                    self.taken -= 1;
                    return Some(slot as u32);
                }
                MARKED => self.slots[slot] = TAKEN,
                _ => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_asked_for_again_outlives_the_others() {
        let mut clock = Clock::default();
        for slot in 0..4 {
            clock.inserted(slot);
        }
        clock.hit(0);
        clock.hit(2);
        assert_eq!([clock.evict(&[]), clock.evict(&[])], [Some(1), Some(3)]);
        clock.removed(0);
        assert_eq!([clock.evict(&[]), clock.evict(&[])], [Some(2), None]);
    }
}
