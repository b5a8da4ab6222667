//! `esker cache-sim`: hit rates of the buffer pool's policies, for traces from files or generated ones.

mod paper;
mod plot;
mod trace;

use esker::CachePolicy;
use esker::cache_sim::{Hits, simulate};
use serde_json::json;

use crate::args::{CacheSim, Global};
use crate::exit::Outcome;
use crate::output::{NewFile, Out};
use crate::progress::Progress;
use crate::store::check_outside;
use trace::Trace;

/// The hit rates of all policies for one trace and pool size.
struct Row<'a> {
    trace: &'a Trace,
    room: usize,
    /// The hit rates by policy.
    hits: Vec<Hits>,
}

pub(crate) fn run(global: &Global, args: &CacheSim) -> Outcome {
    if args.paper {
        return paper::run(global, args.seed);
    }
    let chosen = distinct(args.policies.iter().copied());
    let policies = if chosen.is_empty() { CachePolicy::ALL } else { &chosen };
    let traces = trace::all(args)?;
    let rooms = |trace: &Trace| distinct(args.sizes.iter().map(|size| size.pages(trace.distinct)));
    let progress = Progress::spinner("simulating");
    let rows: Vec<Row<'_>> = traces
        .iter()
        .flat_map(|trace| rooms(trace).into_iter().map(move |room| (trace, room)))
        .map(|(trace, room)| {
            let hits = |&policy: &CachePolicy| simulate(policy, room, trace.keys.iter().copied());
            Row { trace, room, hits: policies.iter().map(hits).collect() }
        })
        .collect();
    drop(progress);
    if let Some(path) = &args.plot {
        check_outside(global, path)?;
        let mut file = NewFile::create(path)?;
        file.out().write(plot::svg(policies, &rows).as_bytes())?;
        file.finish()?;
    }
    Out::stdout()?
        .with(|out| if global.json { print_json(out, policies, &rows) } else { print(out, policies, &rows) })
}

/// Removes duplicates and keeps the order.
fn distinct<T: PartialEq>(asked: impl Iterator<Item = T>) -> Vec<T> {
    let mut once = Vec::new();
    for one in asked {
        if !once.contains(&one) {
            once.push(one);
        }
    }
    once
}

fn print(out: &mut Out, policies: &[CachePolicy], rows: &[Row<'_>]) -> Outcome {
    let width = rows.iter().map(|row| row.trace.name.chars().count()).max().unwrap_or(0).max("trace".len());
    let mut line = format!("{:width$} {:>9} {:>9}", "trace", "distinct", "room");
    policies.iter().for_each(|policy| line.push_str(&format!(" {:>8}", policy.name())));
    out.line(&line)?;
    for row in rows {
        let Row { trace, room, hits } = row;
        let mut line = format!("{:width$} {:>9} {room:>9}", trace.name, trace.distinct);
        hits.iter().for_each(|hits| line.push_str(&percent(hits.rate())));
        out.line(&line)?;
    }
    let mut line = format!("{:width$} {:9} {:9}", "mean", "", "");
    (0..policies.len()).for_each(|policy| line.push_str(&percent(mean(rows, policy))));
    out.line(&line)
}

/// A column of a table.
fn percent(rate: f64) -> String {
    format!(" {:7.2}%", rate * 100.0)
}

/// The mean over all traces and pool sizes.
fn mean(rows: &[Row<'_>], policy: usize) -> f64 {
    rows.iter().map(|row| row.hits[policy].rate()).sum::<f64>() / rows.len() as f64
}

fn print_json(out: &mut Out, policies: &[CachePolicy], rows: &[Row<'_>]) -> Outcome {
    for Row { trace, room, hits } in rows {
        for (policy, hits) in policies.iter().zip(hits) {
            let object = json!({
                "trace": trace.name, "distinct": trace.distinct, "room": room, "policy": policy.name(),
                "gets": hits.accesses, "hits": hits.hits, "hit_rate": hits.rate(),
            });
            out.line(&object.to_string())?;
        }
    }
    Ok(())
}
