//! Progress on standard error, on a terminal only.

use std::io::{self, IsTerminal};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

/// The progress of a long command. Dropping it clears the line.
pub(crate) struct Progress(Option<ProgressBar>);

impl Progress {
    /// Shows nothing, because the user types at the terminal where it would be.
    pub(crate) fn hidden() -> Self {
        Progress(None)
    }

    /// Progress through `total` bytes, or a count of bytes if the total is unknown.
    pub(crate) fn bytes(total: Option<u64>) -> Self {
        Progress::styled(
            total,
            "{bytes} of {total_bytes} {wide_bar} {bytes_per_sec}, {eta} left",
            "{spinner} {bytes}",
        )
    }

    /// A count of `what`, such as "files".
    pub(crate) fn count(what: &'static str) -> Self {
        let progress = Progress::styled(None, "", "{spinner} {human_pos} {msg}");
        if let Some(bar) = &progress.0 {
            bar.set_message(what);
        }
        progress
    }

    /// Work of unknown length.
    pub(crate) fn spinner(what: &'static str) -> Self {
        let progress = Progress::styled(None, "", "{spinner} {msg}, {elapsed}");
        if let Some(bar) = &progress.0 {
            bar.set_message(what);
        }
        progress
    }

    /// Adds `amount` to the progress.
    pub(crate) fn add(&self, amount: u64) {
        if let Some(bar) = &self.0 {
            bar.inc(amount);
        }
    }

    fn styled(total: Option<u64>, of_total: &str, counting: &str) -> Self {
        if !io::stderr().is_terminal() {
            return Progress(None);
        }
        let (bar, template) = match total {
            Some(total) => (ProgressBar::new(total), of_total),
            None => (ProgressBar::new_spinner(), counting),
        };
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        bar.enable_steady_tick(Duration::from_millis(200));
        Progress(Some(bar))
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(bar) = &self.0 {
            bar.finish_and_clear();
        }
    }
}
