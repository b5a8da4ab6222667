//! A client that behaves well, and checks each reply that it gets while others attack its server.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use test_kit::redis::Client;

/// Rounds that it must get through while an attack lasts, and how long that may take.
const ROUNDS: u64 = 20;
const PATIENCE: Duration = Duration::from_secs(60);

/// See the module's comment. It stops when this is dropped; a wrong reply then fails the test.
pub(super) struct Regular {
    rounds: Arc<AtomicU64>,
    longest_us: Arc<AtomicU64>,
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Regular {
    pub(super) fn start(client: Client) -> Regular {
        let (rounds, longest_us) = <(Arc<AtomicU64>, Arc<AtomicU64>)>::default();
        let is_over = Arc::new(AtomicBool::new(false));
        let (counted, longest, ends) = (Arc::clone(&rounds), Arc::clone(&longest_us), Arc::clone(&is_over));
        let thread = thread::spawn(move || {
            let mut client = client;
            client.check("DEL regular:n regular:l regular:h => :0");
            for round in 1.. {
                if ends.load(Ordering::Relaxed) {
                    return;
                }
                let begin = Instant::now();
                run(&mut client, round);
                longest.fetch_max(begin.elapsed().as_micros() as u64, Ordering::Relaxed);
                counted.store(round, Ordering::Relaxed);
            }
        });
        Regular { rounds, longest_us, is_over, thread: Some(thread) }
    }

    /// How many milliseconds its longest round has taken since the last call: eleven commands, one after the other.
    pub(super) fn take_longest_ms(&self) -> u64 {
        self.longest_us.swap(0, Ordering::Relaxed) / 1000
    }

    /// Waits until it has been served some more.
    pub(super) fn wait_for_rounds(&self, during: &str) {
        let (begin, since) = (self.rounds.load(Ordering::Relaxed), Instant::now());
        while self.rounds.load(Ordering::Relaxed) < begin + ROUNDS {
            let lives = self.thread.as_ref().is_some_and(|thread| !thread.is_finished());
            assert!(lives, "{during}: the client that behaves well got no reply, or a wrong one");
            assert!(since.elapsed() < PATIENCE, "{during}: nobody else is served");
            thread::sleep(Duration::from_millis(1));
        }
    }
}

/// One round: what it wrote is what it reads.
fn run(client: &mut Client, round: u64) {
    let value = format!("{round}.").repeat(1 + (round % 50) as usize);
    client.check(&format!(
        "SET regular:k {value} => +OK
        INCR regular:n => :{round}
        GET regular:k => {value}
        RPUSH regular:l a{round} b{round} => :2
        HSET regular:h f {round} => :{}
        LPOP regular:l => a{round}
        HGET regular:h f => {round}
        LRANGE regular:l 0 -1 => [b{round}]
        DEL regular:l => :1
        CAS regular:k {value} x => :1
        GET regular:k => x",
        u8::from(round == 1)
    ));
}

impl Drop for Regular {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let ended = thread.join();
            if !thread::panicking() {
                ended.unwrap();
            }
        }
    }
}
