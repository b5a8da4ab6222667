//! The tables a reader wants: throughput beside the best peer, latencies, and what each group cost.

use crate::measure::Record;

/// A record measured while others kept more cores busy than this is marked.
const NOISY_CORES: f64 = 0.5;

/// All records of a run, in the order in which they came.
pub(crate) struct Report<'a> {
    pub records: &'a [Record],
    pub stores: &'a [String],
}

/// The best and the median of a workload's repetitions.
#[derive(Clone, Copy)]
struct Cell {
    best: f64,
    median: f64,
    noisy: bool,
}

impl Report<'_> {
    fn workloads(&self) -> Vec<(&str, &str)> {
        let mut names = Vec::new();
        for record in self.records {
            let name = (&record.group[..], &record.workload[..]);
            if !names.contains(&name) && !record.workload.starts_with("settle") {
                names.push(name);
            }
        }
        names
    }

    fn of(&self, name: (&str, &str), store: &str) -> Vec<&Record> {
        let mut found: Vec<&Record> = self
            .records
            .iter()
            .filter(|r| (&r.group[..], &r.workload[..]) == name && r.store == store)
            .collect();
        found.sort_by(|a, b| a.kops().total_cmp(&b.kops()));
        found
    }

    fn cell(&self, name: (&str, &str), store: &str) -> Option<Cell> {
        let found = self.of(name, store);
        let best = found.last()?;
        let median = found.get(found.len() / 2)?;
        Some(Cell { best: best.kops(), median: median.kops(), noisy: best.other_cores > NOISY_CORES })
    }

    /// Esker's best over the best peer's best, and the same of the medians.
    fn ratio(&self, name: (&str, &str)) -> Option<(f64, f64)> {
        let esker = self.cell(name, "esker")?;
        let peers = || self.stores.iter().filter(|s| !["esker", "none"].contains(&s.as_str()));
        let cells: Vec<Cell> = peers().filter_map(|store| self.cell(name, store)).collect();
        let best = cells.iter().map(|c| c.best).reduce(f64::max)?;
        let median = cells.iter().map(|c| c.median).reduce(f64::max)?;
        Some((esker.best / best, esker.median / median))
    }

    /// The workloads in which Esker stays below `required` times the best peer, by the best repetition of each.
    pub(crate) fn below(&self, required: f64) -> Vec<String> {
        let short = |name: &(&str, &str)| self.ratio(*name).is_none_or(|(best, _)| best < required);
        self.workloads().into_iter().filter(short).map(|(_, workload)| workload.to_owned()).collect()
    }

    pub(crate) fn print(&self) {
        self.print_throughput();
        self.print_latencies();
        self.print_costs();
    }

    fn print_throughput(&self) {
        println!(
            "\nThousands of operations (rows) a second, best / median of the repetitions; ~ = others used the CPU\n"
        );
        print!("{:<20}", "workload");
        for store in self.stores {
            print!("{store:>22}");
        }
        println!("{:>22}", "esker / best peer");
        for name in self.workloads() {
            print!("{:<20}", name.1);
            for store in self.stores {
                let cell = self.cell(name, store).map_or("-".to_owned(), |c| {
                    format!("{}{} / {}", if c.noisy { "~" } else { "" }, figure(c.best), figure(c.median))
                });
                print!("{cell:>22}");
            }
            let ratio = self.ratio(name).map_or("-".to_owned(), |(b, m)| format!("{b:.2} / {m:.2}"));
            println!("{ratio:>22}");
        }
    }

    fn print_latencies(&self) {
        println!("\nThe best repetition: seconds, then microseconds of a call at p50 / p99 / worst\n");
        print!("{:<20}", "workload");
        for store in self.stores {
            print!("{store:>36}");
        }
        println!();
        for name in self.workloads() {
            print!("{:<20}", name.1);
            for store in self.stores {
                let cell = self.of(name, store).last().map_or("-".to_owned(), |r| {
                    let (p50, p99, max) = (figure(r.p50_us), figure(r.p99_us), figure(r.max_us));
                    format!("{:.2} s {p50} / {p99} / {max}", r.seconds)
                });
                print!("{cell:>36}");
            }
            println!();
        }
    }

    fn print_costs(&self) {
        println!("\nFor each process (the median one by CPU): all phases, settling included\n");
        println!(
            "{:<14}{:<10}{:>10}{:>10}{:>12}{:>12}{:>13}{:>12}",
            "group", "store", "CPU s", "settle s", "peak RSS MB", "anon MB", "written MB", "disk MB"
        );
        let mut groups: Vec<&str> = self.records.iter().map(|r| &r.group[..]).collect();
        groups.dedup();
        let mut seen = Vec::new();
        for group in groups {
            if seen.contains(&group) {
                continue;
            }
            seen.push(group);
            for store in self.stores {
                if let Some(cost) = self.cost(group, store) {
                    println!("{group:<14}{store:<10}{cost}");
                }
            }
        }
    }

    fn cost(&self, group: &str, store: &str) -> Option<String> {
        let all: Vec<&Record> =
            self.records.iter().filter(|r| r.group == group && r.store == store).collect();
        let rounds = all.iter().map(|r| r.round).max()?;
        let mut costs: Vec<(f64, f64, u64, u64, u64, u64)> = Vec::new();
        for round in 0..=rounds {
            let of: Vec<&&Record> = all.iter().filter(|r| r.round == round).collect();
            let Some(last) = of.last() else { continue };
            let settle = of.iter().filter(|r| r.workload.starts_with("settle"));
            costs.push((
                of.iter().map(|r| r.cpu_seconds).sum(),
                settle.fold(0.0, |sum, r| sum + r.seconds),
                last.rss_bytes,
                last.anon_bytes,
                of.iter().map(|r| r.written_bytes).sum(),
                of.iter().map(|r| r.disk_bytes).max().unwrap_or(0),
            ));
        }
        costs.sort_by(|a, b| a.0.total_cmp(&b.0));
        let (cpu, settle, rss, anon, written, disk) = *costs.get(costs.len() / 2)?;
        let mb = |bytes: u64| bytes / 1_000_000;
        Some(format!(
            "{cpu:>10.1}{settle:>10.1}{:>12}{:>12}{:>13}{:>12}",
            mb(rss),
            mb(anon),
            mb(written),
            mb(disk)
        ))
    }
}

/// Three significant digits, or all of a whole number.
fn figure(value: f64) -> String {
    match value {
        v if v >= 100.0 => format!("{v:.0}"),
        v if v >= 10.0 => format!("{v:.1}"),
        v => format!("{v:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(store: &str, workload: &str, kops: f64) -> Record {
        let (group, ops) = ("g".to_owned(), (kops * 1000.0) as u64);
        Record {
            store: store.into(),
            group,
            workload: workload.into(),
            ops,
            seconds: 1.0,
            ..Record::default()
        }
    }

    #[test]
    fn esker_is_compared_with_the_best_peer() {
        let stores = ["none", "leveldb", "rocksdb", "esker"].map(str::to_owned);
        let mut records = vec![record("none", "put", 9000.0), record("rocksdb", "put", 50.0)];
        for (leveldb, esker) in [(80.0, 200.0), (100.0, 120.0), (90.0, 150.0)] {
            records.push(record("leveldb", "put", leveldb));
            records.push(record("esker", "put", esker));
        }
        let report = Report { records: &records, stores: &stores };
        assert_eq!(report.ratio(("g", "put")), Some((2.0, 150.0 / 90.0)));
        assert!(report.below(1.9).is_empty());
        assert_eq!(report.below(2.1), ["put"]);
        report.print();
    }
}
