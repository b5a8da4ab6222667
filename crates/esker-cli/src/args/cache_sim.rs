//! The arguments of `cache-sim`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use esker::CachePolicy;

/// See `esker cache-sim --help`. What the global options say of a store does not matter here.
#[derive(Debug, Args)]
pub(crate) struct CacheSim {
    /// Take the gets from a file, one key a line (`-`: standard input)
    #[arg(long, value_name = "FILE", conflicts_with_all = ["generate", "pages", "gets", "theta", "seed"])]
    pub(crate) trace: Option<PathBuf>,
    /// Generate traces: some of zipf, uniform, loop, scan-zipf (default: all)
    #[arg(long, value_name = "KINDS", value_enum, value_delimiter = ',')]
    pub(crate) generate: Vec<Kind>,
    /// Distinct pages of a generated trace
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = count())]
    pub(crate) pages: u64,
    /// Gets of a generated trace
    #[arg(long, value_name = "N", default_value_t = 1_000_000, value_parser = count())]
    pub(crate) gets: u64,
    /// Skew of zipf: the probability of a get of the page of rank r is proportional to 1 / r^F
    #[arg(long, value_name = "F", default_value_t = 0.9, value_parser = parse_theta)]
    pub(crate) theta: f64,
    /// The seed of generated traces
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,
    /// Which policies: some of none, fifo, lru, 2q, arc, clock, s3-fifo (default: all)
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = parse_policy)]
    pub(crate) policies: Vec<CachePolicy>,
    /// Room of the pool, in pages or in percent of the distinct pages
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "1%,10%,50%", value_parser = parse_size)]
    pub(crate) sizes: Vec<Size>,
    /// Write a plot of the hit rates to this file
    #[arg(long, value_name = "FILE.svg")]
    pub(crate) plot: Option<PathBuf>,
    /// Repeat the experiment of P. Grote and D. Sharkov, Key-Value Store in Scala, 2018, and show their times too
    #[arg(long, conflicts_with_all = ["trace", "generate", "pages", "gets", "theta", "policies", "sizes", "plot"])]
    pub(crate) paper: bool,
}

/// What a generated trace looks like.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Kind {
    // Plain comments: documented values would spread the help over two pages.
    Zipf,
    Uniform,
    Loop,
    ScanZipf,
}

impl Kind {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Kind::Zipf => "zipf",
            Kind::Uniform => "uniform",
            Kind::Loop => "loop",
            Kind::ScanZipf => "scan-zipf",
        }
    }
}

/// The room of a simulated pool.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Size {
    Pages(usize),
    /// Of the distinct pages of a trace.
    Percent(f64),
}

impl Size {
    /// In pages: at least one.
    pub(crate) fn pages(self, distinct: u64) -> usize {
        match self {
            Size::Pages(pages) => pages,
            Size::Percent(percent) => (distinct as f64 * percent / 100.0).round().max(1.0) as usize,
        }
    }
}

/// More gets than anybody waits for.
fn count() -> clap::builder::RangedU64ValueParser {
    clap::value_parser!(u64).range(1..=1_000_000_000)
}

fn parse_theta(typed: &str) -> Result<f64, String> {
    match typed.parse::<f64>() {
        Ok(theta) if (0.0..=10.0).contains(&theta) => Ok(theta),
        _ => Err("expected a number from 0 to 10".to_owned()),
    }
}

fn parse_policy(typed: &str) -> Result<CachePolicy, String> {
    let known = CachePolicy::ALL.iter().copied().find(|policy| policy.name() == typed);
    known.ok_or_else(|| {
        let names: Vec<_> = CachePolicy::ALL.iter().map(|policy| policy.name()).collect();
        format!("expected one of {}", names.join(", "))
    })
}

fn parse_size(typed: &str) -> Result<Size, String> {
    if let Some(percent) = typed.strip_suffix('%') {
        return match percent.parse::<f64>() {
            Ok(percent) if percent > 0.0 && percent <= 100.0 => Ok(Size::Percent(percent)),
            _ => Err("expected a percentage above 0 and up to 100".to_owned()),
        };
    }
    match typed.parse::<u32>() {
        Ok(pages) if pages > 0 => Ok(Size::Pages(pages as usize)),
        Ok(_) => Err("expected at least one page".to_owned()),
        Err(_) if !typed.is_empty() && typed.bytes().all(|byte| byte.is_ascii_digit()) => {
            Err(format!("expected at most {} pages", u32::MAX))
        }
        Err(_) => {
            Err("expected a number of pages, such as 125, or a percentage of the distinct pages, such as 10%"
                .to_owned())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_policies() {
        assert_eq!(parse_size("125"), Ok(Size::Pages(125)));
        assert_eq!(parse_size("0.5%").map(|size| size.pages(10_000)), Ok(50));
        assert_eq!(parse_size("1%").map(|size| size.pages(3)), Ok(1));
        for typed in ["", "0", "%", "0%", "101%", "-1%", "NaN%", "inf", "5000000000"] {
            assert!(parse_size(typed).is_err(), "{typed}");
        }
        assert!(
            parse_size("1000000000000").is_err_and(|message| message.contains("at most 4294967295 pages"))
        );
        assert_eq!(parse_policy("2q"), Ok(CachePolicy::TwoQ));
        assert!(parse_policy("lfu").is_err_and(|message| message.contains("s3-fifo")));
        assert!(parse_theta("NaN").is_err() && parse_theta("0.99").is_ok());
    }
}
