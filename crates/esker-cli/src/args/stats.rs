//! The arguments of `stats`.

use std::time::Duration;

use clap::{Args, ValueEnum};

/// See `esker stats --help`.
#[derive(Debug, Args)]
pub(crate) struct Stats {
    /// The format of the figures
    #[arg(long, value_name = "FORMAT", value_enum)]
    pub(crate) format: Option<StatsFormat>,
    /// Print which operations of this process were slow, and what they waited for or read
    #[arg(long, conflicts_with = "format")]
    pub(crate) why: bool,
    /// Print a line every SECONDS, with the changes per second
    #[arg(long, value_name = "SECONDS", num_args = 0..=1, default_missing_value = "1", value_parser = parse_interval)]
    pub(crate) watch: Option<Duration>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum StatsFormat {
    /// One line for each figure
    Text,
    /// One JSON object
    Json,
    /// The text format of Prometheus
    Prometheus,
}

fn parse_interval(typed: &str) -> Result<Duration, String> {
    let seconds = typed.parse().ok().filter(|seconds: &f64| *seconds >= 0.01 && *seconds <= 86_400.0);
    seconds
        .map(Duration::from_secs_f64)
        .ok_or_else(|| "expected a number of seconds from 0.01 to 86400".to_owned())
}
