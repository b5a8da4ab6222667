//! `cache-sim`: hit rates of policies for the buffer pool, for traces from files or generated ones.
//!
//! ```text
//! trace: a file, or drawn (trace) --> a pool with each policy (policy, queue) --> hit rates: a table, JSON, a plot
//! ```

mod paper;
mod policy;
mod queue;
mod trace;

use crate::plot::{Axis, Plot, Series, stacked};
use crate::stores::Result;
use policy::Hits;
pub(crate) use policy::{Policy, simulate};
use std::path::PathBuf;
use trace::{Kind, Trace};

pub(crate) const USAGE: &str = "\
esker-bench cache-sim [OPTIONS]

Hit rates of policies for the buffer pool. S3-FIFO is simulated by the store's own code, which needs a build with
RUSTFLAGS=\"--cfg esker_measure\".

  --trace FILE         take the gets from a file, one key a line
  --generate KINDS     generate traces: some of zipf, uniform, loop, scan-zipf (default: all)
  --pages N            distinct pages of a generated trace (default 10,000)
  --gets N             gets of a generated trace (default 1,000,000)
  --theta F            skew of zipf: the page of rank r is asked for in proportion to 1 / r^F (default 0.9)
  --seed S             of generated traces (default 1)
  --policies LIST      some of none, fifo, lru, 2q, arc, clock, s3-fifo (default: all)
  --sizes LIST         room of the pool, in pages or in percent of the distinct pages (default 1%,10%,50%)
  --json               a line of JSON for each figure
  --plot FILE.svg      a plot of the hit rates
  --paper              the experiment of source 003 instead, with its times; takes --seed and --json alone
";

struct Options {
    trace: Option<PathBuf>,
    kinds: Vec<Kind>,
    pages: u64,
    gets: u64,
    theta: f64,
    seed: u64,
    policies: Vec<Policy>,
    sizes: Vec<Size>,
    is_json: bool,
    plot: Option<PathBuf>,
    is_paper: bool,
}

/// The room of a simulated pool.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Size {
    Pages(usize),
    /// Of the distinct pages of a trace.
    Percent(f64),
}

impl Size {
    fn parse(text: &str) -> Option<Size> {
        match text.strip_suffix('%') {
            Some(percent) => {
                let percent = percent.parse().ok().filter(|percent| *percent > 0.0 && *percent <= 100.0);
                percent.map(Size::Percent)
            }
            None => {
                text.parse::<u32>().ok().filter(|pages| *pages > 0).map(|pages| Size::Pages(pages as usize))
            }
        }
    }

    /// In pages: at least one.
    fn pages(self, distinct: u64) -> usize {
        match self {
            Size::Pages(pages) => pages,
            Size::Percent(percent) => (distinct as f64 * percent / 100.0).round().max(1.0) as usize,
        }
    }
}

impl Options {
    fn parse(words: &[String]) -> Result<Options> {
        let mut options = Options {
            trace: None,
            kinds: Kind::ALL.to_vec(),
            pages: 10_000,
            gets: 1_000_000,
            theta: 0.9,
            seed: 1,
            policies: Policy::ALL.to_vec(),
            sizes: vec![Size::Percent(1.0), Size::Percent(10.0), Size::Percent(50.0)],
            is_json: false,
            plot: None,
            is_paper: false,
        };
        let mut words = words.iter();
        while let Some(name) = words.next() {
            match name.as_str() {
                "--json" => options.is_json = true,
                "--paper" => options.is_paper = true,
                "--help" => return Err(USAGE.into()),
                _ => {
                    let value = words.next().ok_or_else(|| format!("{name} needs a value\n\n{USAGE}"))?;
                    let set = options.set(name, value).ok_or_else(|| format!("{name}: no option"))?;
                    set.ok_or_else(|| format!("{name}: {value:?} is not a value of this option\n\n{USAGE}"))?;
                }
            }
        }
        Ok(options)
    }

    /// Sets an option. The outer `None`: there is no such option; the inner one: the value is invalid.
    fn set(&mut self, name: &str, value: &str) -> Option<Option<()>> {
        let count =
            || value.replace([',', '_'], "").parse().ok().filter(|count| (1..=1_000_000_000).contains(count));
        Some(match name {
            "--trace" => {
                self.trace = Some(value.into());
                Some(())
            }
            "--plot" => {
                self.plot = Some(value.into());
                Some(())
            }
            "--generate" => list(value, |word| Kind::ALL.into_iter().find(|kind| kind.name() == word))
                .map(|kinds| self.kinds = kinds),
            "--policies" => list(value, |word| Policy::ALL.into_iter().find(|policy| policy.name() == word))
                .map(|policies| self.policies = policies),
            "--sizes" => list(value, Size::parse).map(|sizes| self.sizes = sizes),
            "--pages" => count().map(|pages| self.pages = pages),
            "--gets" => count().map(|gets| self.gets = gets),
            "--seed" => value.parse().ok().map(|seed| self.seed = seed),
            "--theta" => value
                .parse()
                .ok()
                .filter(|theta| (0.0..=10.0).contains(theta))
                .map(|theta| self.theta = theta),
            _ => return None,
        })
    }
}

/// The values of a list, each once. `None`: one is invalid.
fn list<T: PartialEq>(text: &str, parse: impl Fn(&str) -> Option<T>) -> Option<Vec<T>> {
    let all: Option<Vec<T>> = text.split(',').map(parse).collect();
    all.map(|all| distinct(all.into_iter()))
}

/// Removes duplicates and keeps the order.
fn distinct<T: PartialEq>(all: impl Iterator<Item = T>) -> Vec<T> {
    let mut once = Vec::new();
    for one in all {
        if !once.contains(&one) {
            once.push(one);
        }
    }
    once
}

/// The hit rates of all policies for one trace and pool size.
struct Row<'a> {
    trace: &'a Trace,
    room: usize,
    /// By policy.
    hits: Vec<Hits>,
}

pub(crate) fn run(words: &[String]) -> Result<()> {
    let options = Options::parse(words)?;
    if !cfg!(esker_measure) && (options.is_paper || options.policies.contains(&Policy::S3Fifo)) {
        return Err(
            "s3-fifo needs a build with RUSTFLAGS=\"--cfg esker_measure\": choose other --policies".into()
        );
    }
    if options.is_paper {
        paper::run(options.seed, options.is_json);
        return Ok(());
    }
    let traces = trace::all(&options)?;
    let rooms = |trace: &Trace| distinct(options.sizes.iter().map(|size| size.pages(trace.distinct)));
    let rows: Vec<Row<'_>> = traces
        .iter()
        .flat_map(|trace| rooms(trace).into_iter().map(move |room| (trace, room)))
        .map(|(trace, room)| {
            let hits = |policy: &Policy| simulate(*policy, room, trace.keys.iter().copied());
            Row { trace, room, hits: options.policies.iter().map(hits).collect() }
        })
        .collect();
    if options.is_json {
        print_json(&options.policies, &rows);
    } else {
        print(&options.policies, &rows);
    }
    if let Some(path) = &options.plot {
        std::fs::write(path, svg(&options.policies, &rows))?;
    }
    Ok(())
}

fn print(policies: &[Policy], rows: &[Row<'_>]) {
    let width = rows.iter().map(|row| row.trace.name.len()).max().unwrap_or(0).max("trace".len());
    let line = |name: &str, distinct: &str, room: &str, cells: &mut dyn Iterator<Item = String>| {
        println!("{name:width$} {distinct:>9} {room:>9}{}", cells.collect::<String>());
    };
    line("trace", "distinct", "room", &mut policies.iter().map(|policy| format!(" {:>8}", policy.name())));
    for Row { trace, room, hits } in rows {
        let mut rates = hits.iter().map(|hits| percent(hits.rate()));
        line(&trace.name, &trace.distinct.to_string(), &room.to_string(), &mut rates);
    }
    let mean =
        |policy: usize| rows.iter().map(|row| row.hits[policy].rate()).sum::<f64>() / rows.len() as f64;
    line("mean", "", "", &mut (0..policies.len()).map(|policy| percent(mean(policy))));
}

/// A cell of a table.
fn percent(rate: f64) -> String {
    format!(" {:7.2}%", rate * 100.0)
}

/// Names hold nothing that would need escaping.
fn print_json(policies: &[Policy], rows: &[Row<'_>]) {
    for Row { trace, room, hits } in rows {
        for (policy, hits) in policies.iter().zip(hits) {
            println!(
                "{{\"trace\":\"{}\",\"distinct\":{},\"room\":{room},\"policy\":\"{}\",\"gets\":{},\"hits\":{},\
                 \"hit_rate\":{}}}",
                trace.name,
                trace.distinct,
                policy.name(),
                hits.accesses,
                hits.hits,
                hits.rate()
            );
        }
    }
}

/// A plot for each trace, one above the other.
fn svg(policies: &[Policy], rows: &[Row<'_>]) -> String {
    let of_traces = rows.chunk_by(|a, b| a.trace.name == b.trace.name);
    let drawn: Vec<String> = of_traces
        .map(|rows| {
            let points = |i: usize| rows.iter().map(|row| Some(row.hits[i].rate() * 100.0)).collect();
            let series = policies.iter().enumerate();
            Plot {
                title: &format!("{}: hits in percent, by room in pages", rows[0].trace.name),
                columns: rows.iter().map(|row| row.room.to_string()).collect(),
                series: series
                    .map(|(i, policy)| Series { name: policy.name().to_owned(), points: points(i) })
                    .collect(),
                bars: false,
                axis: Axis::Percent,
            }
            .svg()
        })
        .collect();
    stacked(&drawn)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_checked() {
        let parse = |line: &str| Options::parse(&line.split(' ').map(str::to_owned).collect::<Vec<_>>());
        let options =
            parse("--sizes 125,0.5%,125 --policies 2q,lru --generate loop --pages 1_000 --theta 1.2");
        let options = options.unwrap();
        assert_eq!(options.sizes, [Size::Pages(125), Size::Percent(0.5)]);
        assert_eq!((options.policies, options.pages), (vec![Policy::TwoQ, Policy::Lru], 1000));
        assert_eq!((Size::Percent(0.5).pages(10_000), Size::Percent(1.0).pages(3)), (50, 1));
        for size in ["", "0", "%", "0%", "101%", "-1%", "NaN%", "inf", "5000000000"] {
            assert_eq!(Size::parse(size), None, "{size}");
        }
        for line in ["--policies lfu", "--pages 0", "--theta NaN", "--sizes", "--nothing 1"] {
            assert!(parse(line).is_err(), "{line}");
        }
    }

    #[test]
    fn every_trace_has_a_plot_and_every_policy_a_line_in_it() {
        let traces = ["a", "b"].map(|name| Trace { name: name.to_owned(), keys: vec![], distinct: 9 });
        let hits = vec![Hits { hits: 1, accesses: 2 }; 2];
        let row = |trace, room| Row { trace, room, hits: hits.clone() };
        let rows = [row(&traces[0], 1), row(&traces[0], 2), row(&traces[1], 1)];
        let svg = svg(&[Policy::Lru, Policy::Arc], &rows);
        assert_eq!((svg.matches("<svg ").count(), svg.matches("<path ").count()), (3, 4));
        assert_eq!(svg.matches("<circle").count(), 6);
    }
}
