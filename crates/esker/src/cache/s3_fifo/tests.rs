//! Compares the policy with a model as simple as its paper.

use super::S3Fifo;
use super::model::Model;
use crate::cache::simulated_hits;
use crate::rng::Rng;

/// The policy and its model, driven as a shard drives the policy.
#[derive(Default)]
struct Pair {
    policy: S3Fifo,
    model: Model,
    /// By slot.
    hashes: Vec<u64>,
    free: Vec<u32>,
    pages: Vec<u32>,
}

impl Pair {
    fn slot_of(&self, hash: u64) -> Option<u32> {
        self.pages.iter().copied().find(|&slot| self.hashes[slot as usize] == hash)
    }

    /// Requests a page; inserts it if it is not there.
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
fn victims_and_ghosts_are_those_of_the_model() {
    for seed in test_kit::seeds(40) {
        println!("seed {seed}");
        let mut rng = Rng::new(seed);
        let mut pair = Pair::default();
        let mut capacity = 1 + rng.index(60);
        for _ in 0..3000 {
            match rng.below(400) {
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

/// Uniform draws cannot be predicted, so only the room counts. A page that is requested between any two others stays.
#[test]
fn the_room_is_used_and_what_is_asked_for_often_stays() {
    let mut rng = Rng::new(6);
    let (hits, accesses) = simulated_hits(125, (0..100_000).map(|_| rng.below(250)));
    assert!(accesses == 100_000 && hits.abs_diff(50_000) < 1_000, "{hits}");
    let (hits, _) = simulated_hits(10, (0..3000).map(|i| if i % 2 == 0 { 0 } else { i }));
    assert!((1490..=1499).contains(&hits), "{hits}");
}
