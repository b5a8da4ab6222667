//! The known strengths of each policy. Those of S3-FIFO need the store's internals (`--cfg esker_measure`).

use super::Policy::{self, Arc, Clock, Fifo, Lru, S3Fifo, TwoQ};
use super::simulate;
use test_kit::Rng;

/// Those of `policies` that this build can simulate.
fn built(policies: &[Policy]) -> impl Iterator<Item = Policy> {
    policies.iter().copied().filter(|policy| *policy != S3Fifo || cfg!(esker_measure))
}

/// Draws keys: the key of rank r has a probability proportional to 1 / r^theta.
struct Zipf {
    sums: Vec<f64>,
    rng: Rng,
}

impl Zipf {
    fn new(keys: usize, theta: f64, seed: u64) -> Zipf {
        let mut sum = 0.0;
        let weights = (1..=keys).map(|rank| (rank as f64).powf(-theta));
        let sums = weights.map(|weight| {
            sum += weight;
            sum
        });
        Zipf { sums: sums.collect(), rng: Rng::new(seed) }
    }

    fn next(&mut self) -> u64 {
        let total = self.sums.last().copied().unwrap_or(0.0);
        let point = self.rng.below(1 << 53) as f64 / (1_u64 << 53) as f64 * total;
        self.sums.partition_point(|&sum| sum <= point) as u64
    }
}

fn zipf(keys: usize, gets: usize, theta: f64) -> Vec<u64> {
    let mut zipf = Zipf::new(keys, theta, 1);
    (0..gets).map(|_| zipf.next()).collect()
}

/// After every hundred gets comes a run over a hundred keys that are asked for nowhere else.
fn scan_polluted(keys: usize, gets: usize) -> Vec<u64> {
    let mut zipf = Zipf::new(keys, 0.9, 2);
    let get = |i: usize| if (i / 100).is_multiple_of(2) { zipf.next() } else { (keys + i) as u64 };
    (0..gets).map(get).collect()
}

fn rate(policy: Policy, room: usize, trace: &[u64]) -> f64 {
    simulate(policy, room, trace.iter().copied()).rate()
}

#[track_caller]
fn beats(better: Policy, worse: Policy, by: f64, room: usize, trace: &[u64]) {
    let (high, low) = (rate(better, room, trace), rate(worse, room, trace));
    assert!(high >= low + by, "{} {high:.4}, {} {low:.4}", better.name(), worse.name());
}

/// Recency: one page is asked for between any two others. Clock, which gives pages a second chance, keeps it
/// too.
#[test]
fn lru_keeps_what_fifo_drops() {
    let trace: Vec<u64> = (0..3000).map(|i| if i % 2 == 0 { 0 } else { i }).collect();
    let hits = |policy| simulate(policy, 3, trace.iter().copied()).hits;
    assert_eq!([hits(Lru), hits(Clock)], [1499, 1499]);
    assert!(hits(Fifo) < 1200, "{}", hits(Fifo));
}

/// Recency again, as stack distances: LRU holds the last 100 pages, all of which are asked for again within
/// 100 others.
#[test]
fn lru_wins_where_only_the_last_pages_come_again() {
    let mut rng = Rng::new(3);
    let trace: Vec<u64> = (0..40_000).map(|i| i / 10 + rng.below(80)).collect();
    for other in built(&[Fifo, TwoQ, S3Fifo]) {
        beats(Lru, other, 0.01, 85, &trace);
    }
}

#[test]
fn a_loop_that_does_not_fit_leaves_lru_fifo_and_clock_nothing() {
    let trace: Vec<u64> = (0..20_000).map(|i| i % 110).collect();
    for policy in [Lru, Fifo, Clock] {
        assert_eq!(simulate(policy, 100, trace.iter().copied()).hits, 0, "{}", policy.name());
    }
    // Its ghosts reach further back than its pages.
    beats(TwoQ, Lru, 0.3, 100, &trace);
}

#[test]
fn two_q_arc_and_s3_fifo_resist_scans() {
    let trace = scan_polluted(10_000, 200_000);
    for room in [100, 1000] {
        for policy in built(&[TwoQ, Arc, S3Fifo]) {
            beats(policy, Lru, 0.02, room, &trace);
            beats(policy, Clock, 0.02, room, &trace);
        }
    }
}

#[test]
fn two_q_arc_and_s3_fifo_know_what_is_asked_for_often() {
    let trace = zipf(10_000, 200_000, 0.9);
    for room in [100, 1000] {
        for policy in built(&[TwoQ, Arc, S3Fifo]) {
            beats(policy, Lru, 0.02, room, &trace);
        }
    }
}

#[test]
fn clock_is_nearly_lru_or_better() {
    for room in [100, 1000, 5000] {
        beats(Clock, Lru, -0.01, room, &zipf(10_000, 200_000, 0.9));
    }
}

/// ARC's claim: in each phase about as good as the policy that suits it.
#[test]
fn arc_follows_from_recency_to_frequency_and_back() {
    let mut rng = Rng::new(4);
    let mut often = Zipf::new(5000, 1.0, 5);
    // The last 80 pages of an endless sequence; then a skewed set among pages that are never asked for again.
    let recent: Vec<u64> = (0..50_000).map(|i| (1 << 40) + i / 10 + rng.below(95)).collect();
    let skewed: Vec<u64> =
        (0..50_000).map(|i| if i % 2 == 0 { often.next() } else { (1 << 20) + i }).collect();
    for s3_fifo in built(&[S3Fifo]) {
        beats(Lru, s3_fifo, 0.02, 100, &recent);
        beats(s3_fifo, Lru, 0.02, 100, &skewed);
    }
    beats(Arc, Lru, -0.03, 100, &recent);
    beats(Arc, Lru, 0.02, 100, &skewed);
    let phases = [&recent[..], &skewed, &recent, &skewed].concat();
    beats(Arc, Lru, 0.01, 100, &phases);
}

/// Source 003's experiment: uniform draws cannot be predicted, so only the room counts.
#[test]
fn uniform_gets_are_all_alike() {
    let mut rng = Rng::new(6);
    let trace: Vec<u64> = (0..100_000).map(|_| rng.below(250)).collect();
    for policy in built(&Policy::ALL) {
        let expected = if policy == Policy::None { 0.0 } else { 0.5 };
        let rate = rate(policy, 125, &trace);
        assert!((rate - expected).abs() < 0.01, "{} {rate}", policy.name());
    }
}
