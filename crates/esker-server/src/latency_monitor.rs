//! Events that took long, for `LATENCY`: of each kind the last ones, the longest of a second standing for it.

use std::collections::{BTreeMap, VecDeque};

/// The most events of a kind that are kept, as Redis has it.
const KEPT: usize = 160;

/// What may take long.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    /// A command that takes time for each element of what it reads, or waits.
    Command,
    /// Any other command.
    FastCommand,
    /// A batch that the pool wrote.
    Commit,
    /// A wait until replies may be sent that promise durability.
    Sync,
    /// A search for elements whose collections are gone.
    Sweep,
}

impl Kind {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Kind::Command => "command",
            Kind::FastCommand => "fast-command",
            Kind::Commit => "commit",
            Kind::Sync => "sync",
            Kind::Sweep => "sweep",
        }
    }

    /// What it means, and what helps.
    pub(crate) fn advice(self) -> &'static str {
        match self {
            Kind::Command => {
                "commands that go through many elements: SLOWLOG GET has them, SLOWLOG WHY their causes"
            }
            Kind::FastCommand => {
                "commands about few elements: SLOWLOG WHY says whether they waited for keys, for the pool or for files"
            }
            Kind::Commit => {
                "writes that waited for the store: `esker_wait_seconds_total` of /metrics says for what"
            }
            Kind::Sync => "the disk syncs slowly: use --durability every=TIME, or a faster disk",
            Kind::Sweep => "the background looks for elements of collections that have expired",
        }
    }
}

/// An event: the second in which it ended, since 1970, and milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Event {
    pub(crate) at_s: u64,
    pub(crate) ms: u64,
}

/// The events of one kind.
#[derive(Debug, Clone, Default)]
pub(crate) struct Series {
    events: VecDeque<Event>,
    pub(crate) longest_ms: u64,
}

impl Series {
    fn add(&mut self, event: Event) {
        self.longest_ms = self.longest_ms.max(event.ms);
        match self.events.back_mut() {
            Some(last) if last.at_s == event.at_s => last.ms = last.ms.max(event.ms),
            _ => self.events.push_back(event),
        }
        if self.events.len() > KEPT {
            self.events.pop_front();
        }
    }

    pub(crate) fn events(&self) -> impl ExactSizeIterator<Item = Event> {
        self.events.iter().copied()
    }

    pub(crate) fn last(&self) -> Option<Event> {
        self.events.back().copied()
    }

    /// A line for each step of height, and one with how long ago each event was.
    pub(crate) fn graph(&self, now_s: u64) -> String {
        const ROWS: u64 = 4;
        let events: Vec<Event> = self.events.iter().rev().take(80).rev().copied().collect();
        let longest = events.iter().map(|event| event.ms).max().unwrap_or(0).max(1);
        let mut text = String::new();
        for row in (1..=ROWS).rev() {
            // An event reaches into the rows below its share of the longest one.
            let column = |event: &Event| match (event.ms * ROWS).div_ceil(longest).max(1) {
                height if height > row => '|',
                height if height == row => '#',
                _ => ' ',
            };
            text.extend(events.iter().map(column));
            text.truncate(text.trim_end_matches(' ').len());
            text.push('\n');
        }
        let ago: Vec<String> =
            events.iter().map(|event| shown_age(now_s.saturating_sub(event.at_s))).collect();
        let lines = ago.iter().map(String::len).max().unwrap_or(0);
        for line in 0..lines {
            text.push('\n');
            text.extend(ago.iter().map(|age| age.as_bytes().get(line).map_or(' ', |byte| char::from(*byte))));
        }
        text
    }
}

fn shown_age(seconds: u64) -> String {
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3600 => format!("{}m", seconds / 60),
        3600..86_400 => format!("{}h", seconds / 3600),
        _ => format!("{}d", seconds / 86_400),
    }
}

/// See the module's comment.
#[derive(Debug, Default)]
pub(crate) struct Monitor {
    by_kind: BTreeMap<Kind, Series>,
}

impl Monitor {
    pub(crate) fn add(&mut self, kind: Kind, event: Event) {
        self.by_kind.entry(kind).or_default().add(event);
    }

    pub(crate) fn all(&self) -> impl ExactSizeIterator<Item = (Kind, &Series)> {
        self.by_kind.iter().map(|(kind, series)| (*kind, series))
    }

    pub(crate) fn series(&self, name: &[u8]) -> Option<(Kind, &Series)> {
        self.all().find(|(kind, _)| name.eq_ignore_ascii_case(kind.name().as_bytes()))
    }

    /// Forgets the events of these kinds, or all. Returns how many kinds had some.
    pub(crate) fn reset(&mut self, names: &[&[u8]]) -> usize {
        let before = self.by_kind.len();
        self.by_kind.retain(|kind, _| {
            !names.is_empty() && !names.iter().any(|name| name.eq_ignore_ascii_case(kind.name().as_bytes()))
        });
        before - self.by_kind.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_event_of_a_second_stands_for_it() {
        let mut monitor = Monitor::default();
        for (at_s, ms) in [(1, 5), (1, 9), (1, 7), (2, 3)] {
            monitor.add(Kind::Sync, Event { at_s, ms });
        }
        let (_, series) = monitor.series(b"SYNC").unwrap();
        let events: Vec<(u64, u64)> = series.events().map(|event| (event.at_s, event.ms)).collect();
        assert_eq!((events, series.longest_ms), (vec![(1, 9), (2, 3)], 9));
        assert_eq!(series.graph(31), "#\n|\n|#\n||\n\n32\n09\nss");
        (0..1000).for_each(|at_s| monitor.add(Kind::Command, Event { at_s, ms: at_s }));
        assert_eq!(monitor.series(b"command").unwrap().1.events().len(), KEPT);
        assert_eq!(
            (monitor.reset(&[b"nothing"]), monitor.reset(&[b"command"]), monitor.reset(&[])),
            (0, 1, 1)
        );
    }
}
