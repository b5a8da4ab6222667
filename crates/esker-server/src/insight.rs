//! `SLOWLOG` and `LATENCY`.

use esker_redis::Reply;
use esker_redis::numbers::integer;

use crate::connection::Connection;
use crate::figures::{Calls, Slow};
use crate::latency_monitor::Event;
use crate::own::no_subcommand;

impl Connection {
    pub(crate) fn slowlog(&mut self, args: &[&[u8]]) {
        match (args[1].to_ascii_lowercase().as_slice(), &args[2..]) {
            (b"get", [] | [_]) => self.tell_slow(args.get(2).copied(), tell),
            (b"why", [] | [_]) => self.tell_slow(args.get(2).copied(), tell_why),
            (b"len", []) => self.reply.count(self.server.figures.slow().len() as u64),
            (b"reset", []) => {
                self.server.figures.forget_slow();
                self.reply.ok();
            }
            _ => self.reply.error(&no_subcommand("slowlog", args[1])),
        }
    }

    fn tell_slow(&mut self, count: Option<&[u8]>, tell: fn(&mut Reply, &Slow)) {
        let Some(most) = count.map_or(Some(10), integer).filter(|count| *count >= -1) else {
            return self.reply.error("ERR count should be greater than or equal to -1");
        };
        let slow = self.server.figures.slow();
        let count = if most < 0 { slow.len() } else { slow.len().min(most as usize) };
        self.reply.array(count);
        slow.iter().take(count).for_each(|slow| tell(&mut self.reply, slow));
    }

    pub(crate) fn latency(&mut self, args: &[&[u8]]) {
        let sub = args[1].to_ascii_lowercase();
        match (sub.as_slice(), &args[2..]) {
            (b"latest", []) => self.latency_latest(),
            (b"history", [name]) => {
                let monitor = self.server.figures.monitor.borrow();
                let events: Vec<Event> =
                    monitor.series(name).map(|(_, series)| series.events().collect()).unwrap_or_default();
                self.reply.array(events.len());
                for event in events {
                    self.reply.array(2);
                    self.reply.count(event.at_s);
                    self.reply.count(event.ms);
                }
            }
            (b"graph", [name]) => self.latency_graph(name),
            (b"reset", names) => {
                let count = self.server.figures.monitor.borrow_mut().reset(names);
                self.reply.count(count as u64);
            }
            (b"doctor", []) => {
                let text = self.latency_doctor();
                self.reply.verbatim(&text);
            }
            (b"histogram", names) => self.latency_histogram(names),
            (b"latest" | b"history" | b"graph" | b"doctor", _) => {
                let sub = String::from_utf8_lossy(&sub).into_owned();
                self.reply.error(&format!("ERR wrong number of arguments for 'latency|{sub}' command"));
            }
            _ => self.reply.error(&no_subcommand("latency", args[1])),
        }
    }

    fn latency_latest(&mut self) {
        let monitor = self.server.figures.monitor.borrow();
        self.reply.array(monitor.all().len());
        for (kind, series) in monitor.all() {
            let last = series.last().unwrap_or(Event { at_s: 0, ms: 0 });
            self.reply.array(4);
            self.reply.bulk(kind.name().as_bytes());
            self.reply.count(last.at_s);
            self.reply.count(last.ms);
            self.reply.count(series.longest_ms);
        }
    }

    fn latency_graph(&mut self, name: &[u8]) {
        let monitor = self.server.figures.monitor.borrow();
        let Some((kind, series)) = monitor.series(name) else {
            let name = String::from_utf8_lossy(&name[..name.len().min(128)]).into_owned();
            return self.reply.error(&format!("ERR No samples available for event '{name}'"));
        };
        let lowest = series.events().map(|event| event.ms).min().unwrap_or(0);
        let graph = series.graph(self.server.wall_us() / 1_000_000);
        let text = format!(
            "{} - high {} ms, low {lowest} ms (all time high {} ms)\n{}\n{graph}\n",
            kind.name(),
            series.events().map(|event| event.ms).max().unwrap_or(0),
            series.longest_ms,
            "-".repeat(80)
        );
        self.reply.verbatim(&text);
    }

    fn latency_doctor(&self) -> String {
        let least_ms = self.server.settings.borrow().latency_ms;
        if least_ms == 0 {
            return "No event is kept: CONFIG SET latency-monitor-threshold to the least number of milliseconds that \
                    is worth it.\n"
                .to_owned();
        }
        let monitor = self.server.figures.monitor.borrow();
        if monitor.all().len() == 0 {
            return format!("Nothing has taken {least_ms} ms or more.\n");
        }
        let line = |(kind, series): (crate::latency_monitor::Kind, &crate::latency_monitor::Series)| {
            let count = series.events().len() as u64;
            let sum: u64 = series.events().map(|event| event.ms).sum();
            let (name, longest, average) = (kind.name(), series.longest_ms, sum / count.max(1));
            format!(
                "{name}: in {count} seconds, {average} ms on average, {longest} ms at most: {}.\n",
                kind.advice()
            )
        };
        monitor.all().map(line).collect()
    }

    fn latency_histogram(&mut self, names: &[&[u8]]) {
        let all = self.server.figures.by_command();
        let is_asked = |name: &str| {
            names.is_empty() || names.iter().any(|asked| asked.eq_ignore_ascii_case(name.as_bytes()))
        };
        let found: Vec<(&str, &Calls)> = all
            .iter()
            .filter(|(name, calls)| calls.calls > 0 && is_asked(name))
            .map(|(name, calls)| (*name, calls))
            .collect();
        self.reply.map(found.len());
        for (name, calls) in found {
            let mut below = 0;
            let powers = calls.latency.iter().flat_map(crate::latency::Histogram::by_powers);
            let steps: Vec<(u64, u64)> =
                powers.filter(|(_, count)| std::mem::replace(&mut below, *count) < *count).collect();
            self.reply.bulk(name.as_bytes());
            self.reply.map(2);
            self.reply.bulk(b"calls");
            self.reply.count(calls.calls);
            self.reply.bulk(b"histogram_usec");
            self.reply.map(steps.len());
            for (us, count) in steps {
                self.reply.count(us);
                self.reply.count(count);
            }
        }
    }
}

/// A slow command as Redis tells it.
fn tell(reply: &mut Reply, slow: &Slow) {
    reply.array(6);
    reply.count(slow.id);
    reply.count(slow.at_s);
    reply.count(slow.us);
    reply.array(slow.arguments.len());
    slow.arguments.iter().for_each(|argument| reply.bulk(argument));
    reply.bulk(slow.address.as_bytes());
    reply.bulk(&slow.name);
}

/// What a slow command waited for and read.
fn tell_why(reply: &mut Reply, slow: &Slow) {
    let figures = slow.why.figures();
    reply.map(4 + figures.len());
    reply.bulk(b"id");
    reply.count(slow.id);
    reply.bulk(b"command");
    reply.bulk(slow.command.as_bytes());
    reply.bulk(b"us");
    reply.count(slow.us);
    reply.bulk(b"pool");
    reply.bulk(slow.why.pool().as_bytes());
    for (name, figure) in figures {
        reply.bulk(name.as_bytes());
        reply.count(figure);
    }
}
