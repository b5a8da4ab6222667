//! The line on standard error that ends `run` and `import`: how much, how long, how fast.

use std::io::Write;
use std::time::Instant;

use indicatif::HumanCount;

/// Measures from its creation on.
pub(crate) struct Summary {
    start: Instant,
}

impl Summary {
    pub(crate) fn start() -> Self {
        Summary { start: Instant::now() }
    }

    /// Prints `total what in S s, N a second` and the parts that are not zero.
    pub(crate) fn print(&self, what: &str, total: u64, parts: &[(u64, &str)]) {
        let seconds = self.start.elapsed().as_secs_f64();
        // A rate over less than a microsecond has no meaning.
        let rate = HumanCount((total as f64 / seconds.max(1e-6)) as u64);
        let mut line = format!("{} {what} in {seconds:.3} s, {rate} a second", HumanCount(total));
        for (i, (count, name)) in parts.iter().filter(|(count, _)| *count > 0).enumerate() {
            let separator = if i == 0 { ": " } else { ", " };
            line.push_str(&format!("{separator}{} {name}", HumanCount(*count)));
        }
        let _ = writeln!(std::io::stderr(), "{line}");
    }
}
