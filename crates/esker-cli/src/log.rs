//! The log of a server: a line for each event, on standard error.
//!
//! ```text
//! event -> line -> queue of at most 1,024 lines -> one thread -> standard error
//! ```
//! An event waits for nobody: if standard error is a pipe that is not read, lines are dropped, and a later line says how
//! many.

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, SyncSender, TrySendError};
use std::thread;
use std::time::Duration;

use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::fmt::MakeWriter;

use crate::args::{Global, LogFormat, LogLevel};
use crate::exit::{Failure, Outcome};

/// The most lines that wait to be written.
const LINES_MAX: usize = 1024;

/// The longest line. Longer ones are cut.
const LINE_BYTES_MAX: usize = 8 << 10;

/// How long the end of the program waits for lines to be written.
const ENDS_WITHIN: Duration = Duration::from_secs(1);

enum Order {
    Line(Vec<u8>),
    /// Tells when all lines before it are written.
    Tell(SyncSender<()>),
}

/// Puts lines into the queue.
#[derive(Clone)]
struct Queue {
    orders: SyncSender<Order>,
    dropped: Arc<AtomicU64>,
}

impl Write for Queue {
    /// `bytes` are a whole line.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut line = bytes[..bytes.len().min(LINE_BYTES_MAX)].to_vec();
        if line.len() < bytes.len() {
            line.extend_from_slice(b"...\n");
        }
        if let Err(TrySendError::Full(_)) = self.orders.try_send(Order::Line(line)) {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Queue {
    type Writer = Queue;

    fn make_writer(&'a self) -> Queue {
        self.clone()
    }
}

/// The log, until it is dropped: then what was logged is written, unless that takes more than a second.
pub(crate) struct Log(SyncSender<Order>);

impl Log {
    /// Begins the log of a server, the command `command`, with which store and process it is.
    ///
    /// # Errors
    /// `Usage` in the shell, which has the store open.
    pub(crate) fn start_server(
        command: &str,
        global: &Global,
        format: LogFormat,
        level: LogLevel,
    ) -> Outcome<Log> {
        if global.in_shell {
            let message = format!("the shell has the store open: leave it, then run `esker {command}`");
            return Err(Failure::usage(message));
        }
        let log = Log::start(format, level)?;
        let path = global.db.display().to_string();
        tracing::info!(
            version = env!("CARGO_PKG_VERSION"),
            pid = std::process::id(),
            db = path.as_str(),
            "starting"
        );
        Ok(log)
    }

    /// Logs what this process does from now on.
    fn start(format: LogFormat, level: LogLevel) -> Outcome<Log> {
        let (orders, ordered) = mpsc::sync_channel(LINES_MAX);
        let dropped = Arc::new(AtomicU64::new(0));
        let queue = Queue { orders: orders.clone(), dropped: Arc::clone(&dropped) };
        let writer = thread::Builder::new().name("esker-log".to_owned());
        let started = writer.spawn(move || write_all(&ordered, &dropped, &mut io::stderr()));
        started.map_err(|error| Failure::store(format!("cannot start a thread: {error}")))?;
        let level = match level {
            LogLevel::Error => LevelFilter::ERROR,
            LogLevel::Warn => LevelFilter::WARN,
            LogLevel::Info => LevelFilter::INFO,
            LogLevel::Debug => LevelFilter::DEBUG,
        };
        let lines = tracing_subscriber::fmt().with_max_level(level).with_writer(queue).with_ansi(false);
        match format {
            LogFormat::Text => lines.init(),
            LogFormat::Json => {
                lines.json().flatten_event(true).with_current_span(false).with_span_list(false).init();
            }
        }
        Ok(Log(orders))
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        let (tell, told) = mpsc::sync_channel(1);
        // A full queue has lines that nobody reads.
        if self.0.try_send(Order::Tell(tell)).is_ok() {
            let _ = told.recv_timeout(ENDS_WITHIN);
        }
    }
}

fn write_all(orders: &Receiver<Order>, dropped: &AtomicU64, out: &mut dyn Write) {
    while let Ok(order) = orders.recv() {
        // A log that cannot be written stops no server.
        let _ = match order {
            Order::Line(line) => out.write_all(&line),
            Order::Tell(tell) => tell.send(()).map_err(|_| io::ErrorKind::Other.into()),
        };
        match dropped.swap(0, Ordering::Relaxed) {
            0 => {}
            count => tracing::warn!(count, "lines of the log were dropped: standard error was not read"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Nobody reads: no write waits, and the lines that fit are there later.
    #[test]
    fn a_full_queue_holds_nobody_up() {
        let (orders, ordered) = mpsc::sync_channel(LINES_MAX);
        let dropped = Arc::new(AtomicU64::new(0));
        let mut queue = Queue { orders, dropped: Arc::clone(&dropped) };
        for number in 0..LINES_MAX + 10 {
            queue.write_all(format!("{number}\n").as_bytes()).unwrap();
        }
        assert_eq!(dropped.load(Ordering::Relaxed), 10);
        drop(queue);
        let mut out = Vec::new();
        write_all(&ordered, &AtomicU64::new(0), &mut out);
        let text = String::from_utf8(out).unwrap();
        assert!(text.starts_with("0\n1\n") && text.ends_with("\n1023\n"), "{text}");
    }

    #[test]
    fn long_lines_are_cut() {
        let (orders, ordered) = mpsc::sync_channel(1);
        let mut queue = Queue { orders, dropped: Arc::default() };
        queue.write_all(&[b'x'; 100_000]).unwrap();
        drop(queue);
        let mut out = Vec::new();
        write_all(&ordered, &AtomicU64::new(0), &mut out);
        assert_eq!(out.len(), LINE_BYTES_MAX + 4);
        assert!(out.ends_with(b"x...\n"));
    }
}
