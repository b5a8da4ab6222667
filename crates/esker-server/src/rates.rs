//! How much the server does each second, for `INFO`: over the last two seconds, about.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::time::{Duration, Instant};

use tokio::runtime::Handle;

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
    event_loop: EventLoop,
}

/// What the event loop has done since the server began.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct EventLoop {
    /// How often it had done all that was ready, and waited for more.
    pub(crate) cycles: u64,
    /// How long it did not wait.
    pub(crate) busy: Duration,
}

impl EventLoop {
    /// Of the runtime that runs the calling task; zeros outside of a runtime.
    pub(crate) fn of_this_thread() -> EventLoop {
        let Ok(handle) = Handle::try_current() else { return EventLoop::default() };
        let metrics = handle.metrics();
        EventLoop { cycles: metrics.worker_park_count(0), busy: metrics.worker_total_busy_duration(0) }
    }
}

impl Reading {
    fn of(figures: &Figures) -> Reading {
        Reading {
            event_loop: EventLoop::of_this_thread(),
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
    pub(crate) cycles: f64,
    /// How long a cycle of the event loop took on average, in microseconds.
    pub(crate) cycle_us: f64,
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
        let (begun, now) = (first.event_loop, last.event_loop);
        let busy_us = now.busy.saturating_sub(begun.busy).as_secs_f64() * 1e6;
        PerSecond {
            cycles: per_second(begun.cycles, now.cycles),
            cycle_us: busy_us / now.cycles.saturating_sub(begun.cycles).max(1) as f64,
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
            let event_loop = EventLoop { cycles: commands / 10, busy: Duration::from_micros(3 * commands) };
            rates.add(Reading { at, commands, bytes_in: 2 * commands, bytes_out: 0, event_loop });
        }
        // The first reading is gone.
        let expected =
            PerSecond { commands: 1000.0, bytes_in: 2000.0, bytes_out: 0.0, cycles: 100.0, cycle_us: 30.0 };
        assert_eq!(rates.per_second(), expected);
        let event_loop = EventLoop::default();
        rates.add(Reading { at: begin + EVERY * 5, commands: 0, bytes_in: 0, bytes_out: 0, event_loop });
        assert_eq!(rates.per_second(), PerSecond::default());
    }
}
