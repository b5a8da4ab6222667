//! Compares each policy with a model as simple as its paper, and runs traces on which it is known to win.

mod models;
mod traces;

use super::{Chosen, Policy};
use crate::options::CachePolicy;
use crate::rng::Rng;
use models::Model;

/// A policy and its model, driven as a shard drives a policy.
struct Pair {
    policy: Box<dyn Policy>,
    model: Box<dyn Model>,
    /// By slot.
    hashes: Vec<u64>,
    free: Vec<u32>,
    pages: Vec<u32>,
}

impl Pair {
    fn new(policy: CachePolicy) -> Option<Pair> {
        let model = models::of(policy)?;
        Some(Pair { policy: super::new_policy(policy), model, hashes: vec![], free: vec![], pages: vec![] })
    }

    fn slot_of(&self, hash: u64) -> Option<u32> {
        self.pages.iter().copied().find(|&slot| self.hashes[slot as usize] == hash)
    }

    /// Asks for a page; inserts it if it is not there.
    fn access(&mut self, hash: u64, capacity: usize) {
        if let Some(slot) = self.slot_of(hash) {
            self.policy.hit(slot);
            self.model.hit(hash);
            return;
        }
        self.policy.arriving(hash);
        self.model.arriving(hash);
        self.shrink(capacity - 1);
        let slot = self.free.pop().unwrap_or(self.hashes.len() as u32);
        if slot as usize == self.hashes.len() {
            self.hashes.push(0);
        }
        self.hashes[slot as usize] = hash;
        self.pages.push(slot);
        self.policy.inserted(slot);
        self.model.inserted(hash);
        self.agree();
    }

    /// Evicts until at most `capacity` pages are left.
    fn shrink(&mut self, capacity: usize) {
        while self.pages.len() > capacity {
            let slot = self.policy.evict(&self.hashes).expect("there are pages");
            let hash = self.hashes[slot as usize];
            assert_eq!(Some(hash), self.model.evict());
            self.pages.retain(|&other| other != slot);
            self.free.push(slot);
        }
    }

    fn remove(&mut self, index: usize) {
        let slot = self.pages.swap_remove(index);
        self.policy.removed(slot);
        self.model.removed(self.hashes[slot as usize]);
        self.free.push(slot);
        self.agree();
    }

    fn agree(&self) {
        let ghosts = self.policy.ghosts();
        assert_eq!(ghosts, self.model.ghosts());
        assert!(ghosts.len() <= self.pages.len(), "{} ghosts of {} pages", ghosts.len(), self.pages.len());
        assert!(ghosts.iter().all(|&hash| self.slot_of(hash).is_none()), "a ghost is a page");
    }
}

/// A page from a few popular ones or many unpopular ones.
fn draw(rng: &mut Rng) -> u64 {
    let pages = [8, 40, 200][rng.index(3)];
    // Scrambled like the hashes of the pool, whose upper half selects the bucket.
    rng.below(pages).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

#[test]
fn victims_and_ghosts_are_those_of_the_models() {
    for &policy in CachePolicy::ALL {
        for seed in test_kit::seeds(40) {
            println!("{} seed {seed}", policy.name());
            let mut rng = Rng::new(seed);
            let Some(mut pair) = Pair::new(policy) else { continue };
            let mut capacity = 1 + rng.index(60);
            for _ in 0..3000 {
                match rng.below(400) {
                    // A slot that is freed away from the hand is filled there, so Clock is then no longer a
                    // queue.
                    0..2 if policy == CachePolicy::Clock => {}
                    0 => {
                        capacity = 1 + rng.index(60);
                        pair.shrink(capacity);
                    }
                    1 if !pair.pages.is_empty() => {
                        for _ in 0..=rng.index(pair.pages.len()) {
                            pair.remove(rng.index(pair.pages.len()));
                        }
                    }
                    _ => pair.access(draw(&mut rng), capacity),
                }
            }
            pair.shrink(0);
            assert_eq!(pair.policy.evict(&pair.hashes), None);
        }
    }
}

#[test]
fn the_default_is_the_one_in_place() {
    assert!(matches!(Chosen::new(CachePolicy::default()), Chosen::Default(_)));
}
