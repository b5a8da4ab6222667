//! `commands`: what `redis-benchmark` sends, to each server in turn. A server has one core, the client another.

use super::target::Server;
use crate::process::children_cpu_seconds;
use crate::stores::Result;
use std::process::{Command, Stdio};
use std::time::Instant;

/// Its tests. `mset` sets ten keys.
const COMMANDS: [&str; 7] = ["set", "get", "incr", "hset", "mset", "lpush", "zadd"];

/// The client's core; see [`super::target::Manner`] for the server's.
const CORE: &str = "1";

pub(super) struct Plan<'a> {
    /// How many commands each connection sends at once.
    pub(super) pipelines: &'a [u64],
    pub(super) rounds: usize,
    pub(super) requests: u64,
    pub(super) connections: usize,
    pub(super) value_bytes: usize,
    /// So many keys, fields and members are drawn from; `None`: one is all that each test has.
    pub(super) spread: Option<u64>,
}

#[derive(Clone, Copy)]
struct Measured {
    per_second: f64,
    /// Processor time of the server for a request, its children's included.
    server_us: f64,
    /// The part of the time in which the client's core was taken, in percent.
    client_busy: f64,
}

fn once(server: &Server, command: &str, pipeline: u64, plan: &Plan<'_>) -> Result<Measured> {
    let mut client = Command::new("taskset");
    client.args(["-c", CORE, "redis-benchmark", "--csv", "-h", "127.0.0.1", "-t", command]);
    for (name, value) in [
        ("-p", u64::from(server.address.port())),
        ("-n", plan.requests),
        ("-c", plan.connections as u64),
        ("-d", plan.value_bytes as u64),
        ("-P", pipeline),
    ] {
        client.args([name, &value.to_string()]);
    }
    if let Some(spread) = plan.spread {
        client.args(["-r", &spread.to_string()]);
    }
    let (server_s, client_s, begin) = (server.cpu_seconds(), children_cpu_seconds(), Instant::now());
    let output = client.stdin(Stdio::null()).stderr(Stdio::inherit()).output();
    let output = output.map_err(|error| format!("taskset and redis-benchmark: {error}"))?;
    let elapsed_s = begin.elapsed().as_secs_f64();
    // A line of names, and one of the test: `"SET","51020.41",...`.
    let text = String::from_utf8_lossy(&output.stdout);
    let rate = text.lines().last().and_then(|line| line.split("\",\"").nth(1)?.parse().ok());
    Ok(Measured {
        per_second: rate.ok_or_else(|| format!("redis-benchmark says no rate of {command}: {text}"))?,
        server_us: (server.cpu_seconds() - server_s) / plan.requests as f64 * 1e6,
        client_busy: 100.0 * (children_cpu_seconds() - client_s) / elapsed_s,
    })
}

fn median(runs: &[Measured], of: impl Fn(&Measured) -> f64) -> f64 {
    let mut values: Vec<f64> = runs.iter().map(of).collect();
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    if values.len() % 2 == 1 { values[middle] } else { f64::midpoint(values[middle - 1], values[middle]) }
}

/// Prints medians, and ratios of the first server to each other one.
pub(super) fn run(servers: &[Server], plan: &Plan<'_>) -> Result<()> {
    for &pipeline in plan.pipelines {
        println!("-P {pipeline}, medians of {}", plan.rounds);
        println!(
            "| command | server | a second | server's us | client busy % | times as fast | of the processor |"
        );
        println!("|---|---|---:|---:|---:|---:|---:|");
        for command in COMMANDS {
            let mut runs = vec![Vec::new(); servers.len()];
            for _ in 0..plan.rounds {
                for (server, runs) in servers.iter().zip(&mut runs) {
                    runs.push(once(server, command, pipeline, plan)?);
                }
            }
            let rate = |runs: &[Measured]| median(runs, |run| run.per_second);
            let cpu = |runs: &[Measured]| median(runs, |run| run.server_us);
            for (server, runs_of) in servers.iter().zip(&runs) {
                println!(
                    "| {command} | {} | {:.0} | {:.2} | {:.0} | {:.2} | {:.2} |",
                    server.name,
                    rate(runs_of),
                    cpu(runs_of),
                    median(runs_of, |run| run.client_busy),
                    rate(&runs[0]) / rate(runs_of),
                    cpu(&runs[0]) / cpu(runs_of)
                );
            }
        }
    }
    Ok(())
}
