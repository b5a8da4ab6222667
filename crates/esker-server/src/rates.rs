//! How much the server does each second, for `INFO`: over the last two seconds, about.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::time::{Duration, Instant};

use crate::figures::Figures;
use crate::server::Server;

/// How often the counters are read, and how many readings are kept.
const EVERY: Duration = Duration::from_millis(500);
const KEPT: usize = 4;

/// The counters at a time.
#[derive(Debug, Clone, Copy)]
struct Reading {
    at: Instant,
    commands: u64,
    bytes_in: u64,
    bytes_out: u64,
}

impl Reading {
    fn of(figures: &Figures) -> Reading {
        Reading {
            at: Instant::now(),
            commands: figures.commands.get(),
            bytes_in: figures.bytes_in.get(),
            bytes_out: figures.bytes_out.get(),
        }
    }
}

/// What is done in a second.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(crate) struct PerSecond {
    pub(crate) commands: f64,
    pub(crate) bytes_in: f64,
    pub(crate) bytes_out: f64,
}

/// See the module's comment.
#[derive(Default)]
pub(crate) struct Rates(RefCell<VecDeque<Reading>>);

impl Rates {
    fn add(&self, reading: Reading) {
        let mut kept = self.0.borrow_mut();
        if kept.len() == KEPT {
            kept.pop_front();
        }
        kept.push_back(reading);
    }

    /// Over all readings that are kept.
    pub(crate) fn per_second(&self) -> PerSecond {
        let kept = self.0.borrow();
        let Some((first, last)) = kept.front().zip(kept.back()) else { return PerSecond::default() };
        let seconds = last.at.duration_since(first.at).as_secs_f64();
        if seconds == 0.0 {
            return PerSecond::default();
        }
        // `CONFIG RESETSTAT` sets the counters back.
        let per_second = |before: u64, after: u64| after.saturating_sub(before) as f64 / seconds;
        PerSecond {
            commands: per_second(first.commands, last.commands),
            bytes_in: per_second(first.bytes_in, last.bytes_in),
            bytes_out: per_second(first.bytes_out, last.bytes_out),
        }
    }
}

/// Reads the counters until the server ends.
pub(crate) async fn measure(server: Rc<Server>) {
    loop {
        server.rates.add(Reading::of(&server.figures));
        tokio::time::sleep(EVERY).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_those_of_the_last_readings() {
        let (rates, begin) = (Rates::default(), Instant::now());
        assert_eq!(rates.per_second(), PerSecond::default());
        for (number, commands) in [(0, 0), (1, 1000), (2, 1500), (3, 2000), (4, 2500)] {
            let at = begin + EVERY * number;
            rates.add(Reading { at, commands, bytes_in: 2 * commands, bytes_out: 0 });
        }
        // The first reading is gone.
        let expected = PerSecond { commands: 1000.0, bytes_in: 2000.0, bytes_out: 0.0 };
        assert_eq!(rates.per_second(), expected);
        rates.add(Reading { at: begin + EVERY * 5, commands: 0, bytes_in: 0, bytes_out: 0 });
        assert_eq!(rates.per_second(), PerSecond::default());
    }
}
